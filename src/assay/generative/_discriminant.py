"""From moments to discriminant functions.

    linear:     f_k(x) = log pi_k + a_k'(x - m) - |t_k|^2 / 2,   t_k = T'(m_k - m),  a_k = T t_k,  T T' = Sigma^-1
    quadratic:  f_k(x) = log pi_k - log det(Sigma_k) / 2 - |T_k'(x - m_k)|^2 / 2,    T_k T_k' = Sigma_k^-1

T comes from the *correlation* matrix, so that units do not matter: from its triangular factor where that is clearly of
full rank, else from its eigenvectors (of fewer rows than columns: singular vectors), which show the rank. Directions
without spread are left out of a linear rule (as scikit-learn does) and refused by a quadratic one. Cost: p^3 for the
linear rule, K p^3 for the quadratic one; the rows are not looked at again.

Ledoit and Wolf (2004), J. Multivariate Analysis 88, 365-411; Friedman (1989), JASA 84, 165-175; Hastie, Tibshirani and
Friedman, Elements of Statistical Learning, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpocon, dpotrf, dtrtri

from assay.checks import name_columns as named
from assay.errors import DataError
from assay.generative._discriminant_rules import DiagonalRule, LinearRule, QuadraticRule
from assay.generative._gaussian_summary import ClassMoments, pooled_scatter
from assay.numerics.threads import one_blas_thread

__all__ = ["NOISE", "LinearFit", "QuadraticFit", "Whitening", "fit_linear", "fit_quadratic", "name_columns"]

Array = np.ndarray

READ_FROM_LEFT = 400
"""Up to this many columns, repeated ones are named by reading from the left, which costs p^3 operations."""

NOISE = 8 * np.finfo(float).eps
"""A spread below this share of a column's size is rounding."""

LITTLE = 1e-8
"""A spread below this share of the mean spread of all classes is none."""

CLEAR = 100.0
"""A smallest eigenvalue that is this many times as large as one that counts as zero needs no second look."""


# Covariance matrices.


@dataclass(frozen=True, eq=False)
class Whitening:
    """T with T' Sigma T = I: (p, r), or (p,) for a diagonal; columns that do not vary, and those that repeat others."""

    T: Array
    log_det: float
    constant: Array
    repeated: Array

    @property
    def full(self) -> bool:
        """Whether every column has a spread of its own."""
        return not (self.constant.size or self.repeated.size)

    @property
    def rank(self) -> int:
        """How many directions have a spread."""
        return int(np.count_nonzero(self.T)) if self.T.ndim == 1 else self.T.shape[1]

    def without(self, known: Whitening) -> Whitening:
        """The same but for columns that are known already."""
        constant = np.setdiff1d(self.constant, known.constant)
        return replace(self, constant=constant, repeated=np.setdiff1d(self.repeated, known.repeated))


def _whiten(covariance: Array, floor: Array, tol: float) -> Whitening:
    """The whitening of a covariance matrix, or of a diagonal (p,); spreads below `floor` are rounding."""
    p = len(covariance)
    spread = np.sqrt(covariance if covariance.ndim == 1 else covariance.diagonal())
    alive = spread > floor
    live, constant = np.flatnonzero(alive), np.flatnonzero(~alive)
    log_det = 2.0 * float(np.log(spread[live]).sum())
    none = np.empty(0, dtype=np.int64)
    if covariance.ndim == 1:
        return Whitening(np.where(alive, 1.0 / spread, 0.0), log_det, constant, none)
    C = covariance[np.ix_(live, live)] / spread[live, None] / spread[live]
    smallest = max(tol**2, p * np.finfo(float).eps)
    clear = _clearly_full(C, CLEAR * smallest)
    if clear is not None:
        T = np.zeros((p, live.size))
        T[live] = clear[0] / spread[live, None]
        return Whitening(T, log_det + clear[1], constant, none)
    values, vectors = np.linalg.eigh(C)
    kept = values > smallest
    T = np.zeros((p, int(kept.sum())))
    T[live] = vectors[:, kept] / np.sqrt(values[kept]) / spread[live, None]
    repeated = live[_repeated(C, vectors[:, ~kept], tol)]
    return Whitening(T, log_det + float(np.log(values[kept]).sum()), constant, repeated)


def _clearly_full(C: Array, smallest: float) -> tuple[Array, float] | None:
    """The inverse of C's triangular factor and log det(C), where no eigenvalue can be as small as `smallest`.

    A tenth of the cost of eigenvectors. The norm of the inverse bounds the smallest eigenvalue; it is estimated, and
    `CLEAR` covers the estimate.
    """
    if len(C) == 0:
        return None
    R, failed = dpotrf(C, lower=0, clean=1)
    if failed:
        return None
    norm = float(np.abs(C).sum(axis=0).max())
    reciprocal, failed = dpocon(R, norm)
    if failed or reciprocal * norm < smallest:
        return None
    return dtrtri(R)[0], 2.0 * float(np.log(R.diagonal()).sum())


def _whiten_rows(Z: Array, covariance: Array, freedom: float, floor: Array, tol: float) -> Whitening:
    """The whitening of fewer rows than columns, from their singular vectors; Z holds the rows minus class means."""
    spread = np.sqrt(covariance.diagonal())
    alive = spread > floor
    live = np.flatnonzero(alive)
    _, size, turned = np.linalg.svd(Z[:, live] / spread[live] / np.sqrt(freedom), full_matrices=False)
    kept = size > max(tol, len(spread) * np.finfo(float).eps)
    T = np.zeros((len(spread), int(kept.sum())))
    T[live] = turned[kept].T / size[kept] / spread[live, None]
    log_det = 2.0 * float(np.log(spread[live]).sum() + np.log(size[kept]).sum())
    least = np.argsort(np.square(turned[kept]).sum(axis=0), kind="stable")[: live.size - T.shape[1]]
    return Whitening(T, log_det, np.flatnonzero(~alive), np.sort(live[least]))


def _repeated(C: Array, null: Array, tol: float) -> Array:
    """Columns in the span of those before them, as many as there are directions without spread."""
    wanted = null.shape[1]
    if wanted == 0:
        return np.empty(0, dtype=np.int64)
    if len(C) <= READ_FROM_LEFT:
        left, found = C.copy(), []
        for j in range(len(C)):
            if left[j, j] <= max(tol**2 * len(C), 1e-12):
                found.append(j)
                continue
            step = left[j + 1 :, j] / np.sqrt(left[j, j])
            left[j + 1 :, j + 1 :] -= np.outer(step, step)
        if len(found) == wanted:
            return np.array(found)
    return np.sort(np.argsort(-np.square(null).sum(axis=1), kind="stable")[:wanted])


def _floor(m: ClassMoments) -> Array:
    """The spread that rounding alone gives a column, in the frame."""
    return NOISE * (np.abs(m.frame.centre) / m.frame.unit + np.abs(m.mean).max(axis=0))


def _shrunk_scatters(m: ClassMoments) -> Array:
    """The scatters of all classes, each shrunk by Ledoit and Wolf's share."""
    assert m.fourth is not None
    lent = pooled_scatter(m).diagonal() / m.weight.sum()
    shrunk = m.scatter.copy()
    for k in np.flatnonzero(m.weight):
        shrunk[k] = _ledoit_wolf(m.weight[k], m.scatter[k], m.fourth[k], lent, np.square(_floor(m)))
    return shrunk


def _ledoit_wolf(n: float, S: Array, F: Array, lent: Array, floor: Array) -> Array:
    """The scatter of one class, shrunk by Ledoit and Wolf's share towards equal variances of standardised columns.

    A column that does not vary within the class has no scale; it gets that of all classes, `lent`.
    """
    p = len(S)
    variance = S.diagonal() / n
    variance = np.where(variance > floor, variance, lent)
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    C = S / n / scale[:, None] / scale
    sizes = C.diagonal()
    mu = float(sizes.sum()) / p
    squares = float(np.square(C).sum())
    fourth = float((F / np.square(scale)[:, None] / np.square(scale)).sum())
    distance = (squares - 2.0 * mu * float(sizes.sum()) + p * mu**2) / p
    noise = min((fourth / n - squares) / (p * n), distance)
    share = 0.0 if p == 1 or noise <= 0 else noise / distance
    shrunk = (1.0 - share) * C + share * mu * np.diag((variance > 0).astype(float))
    return shrunk * n * scale[:, None] * scale


def _shrink(covariance: Array, share: float, unit: Array) -> Array:
    """(1 - share) Sigma + share mean(diagonal) I, where diagonal and I are those of the data and not of the frame."""
    p = len(unit)
    variances = covariance if covariance.ndim == 1 else covariance.diagonal()
    mean = (variances[:, None] * np.square(unit[:, None] / unit)).sum(axis=0) / p
    return _plus_diagonal((1.0 - share) * covariance, share * mean)


def _plus_diagonal(covariance: Array, values: Array) -> Array:
    return covariance + values if covariance.ndim == 1 else covariance + np.diag(values)


def name_columns(names: Sequence[str], which: Array) -> str:
    """Columns in words: the first few by name."""
    return named([names[j] for j in which], most=5)


def _refuse_overflow(covariance: Array, names: Sequence[str]) -> None:
    variances = covariance if covariance.ndim == 1 else covariance.diagonal()
    bad = ~np.isfinite(variances)
    if bad.any() or not np.isfinite(covariance).all():
        which = np.flatnonzero(bad) if bad.any() else np.arange(len(variances))
        what = f"sums of squares of {name_columns(names, which)} overflow"
        raise DataError(what, remedy="standardise the columns, and divide the sample weights by their maximum")


def _refuse_light_weights(freedom: float, weight: float, unbiased: bool) -> None:
    if freedom <= 0:
        what = f"sample weights count repetitions, but they sum to {weight:.4g}, which leaves no degrees of freedom"
        raise DataError(what, remedy="multiply the weights, or use estimate='ml'" if unbiased else "multiply them")


def _refuse_single_rows(m: ClassMoments) -> None:
    if m.rows.max() < 2:
        what = f"n_samples = {int(m.rows.sum())}: every class has only one row, so there is no variance within classes"
        raise DataError(what, remedy="pass at least two rows of some class")


# Linear.


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A linear rule with its covariance matrix, canonical directions (p, q) and mean, all in the frame."""

    rule: LinearRule
    covariance: Array
    xbar: Array
    scalings: Array
    ratio: Array
    whitening: Whitening


def fit_linear(
    m: ClassMoments,
    priors: Array,
    names: Sequence[str],
    *,
    unbiased: bool,
    shrinkage: Any,
    tol: float,
    rows: Array | None = None,
) -> LinearFit:
    """The linear rule of pooled, diagonal or (for `shrinkage="auto"`) class-wise moments.

    Where there are fewer rows than columns, `rows` may hold them, centred by class: that saves p^3 operations.
    """
    quiet = np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
    with quiet, one_blas_thread():  # short steps one after another, which more threads would only delay
        covariance, freedom = _pooled_covariance(m, unbiased, shrinkage)
        _refuse_overflow(covariance, names)
        if rows is None:
            white = _whiten(covariance, _floor(m), tol)
        else:
            white = _whiten_rows(rows, covariance, freedom, _floor(m), tol)
        T = white.T
        xbar = priors @ m.mean
        t = (m.mean - xbar) * T if T.ndim == 1 else (m.mean - xbar) @ T
        slope = _turned(T, t.T)
        offset = np.log(priors) - 0.5 * np.square(t).sum(axis=1) - xbar @ slope
        _, size, turned = np.linalg.svd(np.sqrt(priors)[:, None] * t, full_matrices=False)
        size = size[: len(priors) - 1]
        used = int((size > tol * size[0]).sum()) if size.size and size[0] > 0 else 0
        scalings = _turned(T, turned[:used].T)
        if used:
            # The sign of a direction is nobody's choice; ours makes its largest standardised coefficient positive.
            weight = scalings * np.sqrt(covariance if covariance.ndim == 1 else covariance.diagonal())[:, None]
            largest = np.abs(weight).argmax(axis=0)
            scalings = scalings * np.where(weight[largest, np.arange(used)] < 0, -1.0, 1.0)
        ratio = np.square(size[:used]) / np.square(size).sum() if used else np.empty(0)
    return LinearFit(LinearRule(m.frame, slope, offset), covariance, xbar, scalings, ratio, white)


def _turned(T: Array, columns: Array) -> Array:
    """T times some columns, where T may be a diagonal."""
    return T[:, None] * columns if T.ndim == 1 else T @ columns


def _pooled_covariance(m: ClassMoments, unbiased: bool, shrinkage: Any) -> tuple[Array, float]:
    """The covariance matrix within the classes, in the frame ((p,) where only the diagonal was kept), its divisor."""
    _refuse_single_rows(m)
    weight, classes = float(m.weight.sum()), int((m.weight > 0).sum())
    freedom = weight - classes if unbiased else weight
    _refuse_light_weights(freedom, weight, unbiased)
    if isinstance(shrinkage, str):
        return _shrunk_scatters(m).sum(axis=0) / freedom, freedom
    covariance = pooled_scatter(m) / freedom
    return covariance if not shrinkage else _shrink(covariance, float(shrinkage), m.frame.unit), freedom


# Quadratic.


@dataclass(frozen=True, eq=False)
class QuadraticFit:
    """A quadratic rule and the covariance matrices, in the frame: (K, p, p), or (K, p) for diagonal ones.

    `whitening` is that of their mean: directions without spread in any class are left out.
    """

    rule: QuadraticRule | DiagonalRule
    covariances: Array
    whitening: Whitening


REGULARISE = "set pooling or shrinkage above 0, use covariance='diagonal' or a linear discriminant, or drop columns"


def fit_quadratic(
    m: ClassMoments,
    priors: Array,
    names: Sequence[str],
    classes: Sequence[Any],
    *,
    unbiased: bool,
    pooling: float = 0.0,
    shrinkage: Any = None,
    reg_param: float = 0.0,
    tol: float = 1e-4,
    remedy: str = REGULARISE,
) -> QuadraticFit:
    """The quadratic rule of class-wise moments, full or diagonal; a class of prior 0 needs no covariance matrix.

    Directions without spread in any class are left out, as in a linear rule; one that lacks it in some classes only
    would give them an infinite density, and is refused.
    """
    K, p = m.mean.shape
    used = np.flatnonzero(priors).tolist()
    quiet = np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
    with quiet, one_blas_thread():
        covariances = _class_covariances(m, priors, classes, unbiased, pooling, shrinkage, reg_param, remedy)
        for k in used:
            _refuse_overflow(covariances[k], names)
        floor = _floor(m)
        common = _whiten(covariances[used].mean(axis=0), floor, tol)
        log_det, white = np.zeros(K), np.zeros((K, *common.T.shape))
        for k in used:
            found = own = _whiten(covariances[k], floor, tol).without(common)
            if m.kind == "full" and not common.full:
                T = common.T
                found = _whiten(T.T @ covariances[k] @ T, np.full(T.shape[1], LITTLE), tol)
            if not found.full:
                raise DataError(_singular(own, names, classes[k], int(m.rows[k]), p), remedy=remedy)
            log_det[k], white[k] = found.log_det, found.T if found is own else common.T @ found.T
        # The determinant is that of the data, not of the frame.
        offset = np.log(priors) - 0.5 * log_det - float(np.log(m.frame.unit).sum())
        if m.kind == "diagonal":
            return QuadraticFit(DiagonalRule(m.frame, m.mean, white, offset), covariances, common)
        shift = np.einsum("kp,kpr->kr", m.mean, white).ravel()
        whiten = np.ascontiguousarray(white.transpose(1, 0, 2).reshape(p, K * common.rank))
        return QuadraticFit(QuadraticRule(m.frame, whiten, shift, offset), covariances, common)


def _class_covariances(
    m: ClassMoments,
    priors: Array,
    classes: Sequence[Any],
    unbiased: bool,
    pooling: float,
    shrinkage: Any,
    reg_param: float,
    remedy: str,
) -> Array:
    """Friedman's covariance matrices: scatters and degrees of freedom pooled by one share, then shrunk by another."""
    seen = m.weight > 0
    scatter = m.scatter
    if pooling > 0:
        _refuse_single_rows(m)
    if isinstance(shrinkage, str):
        scatter = _shrunk_scatters(m)
    freedom = np.where(seen, m.weight - 1.0 if unbiased else m.weight, 0.0)
    if pooling > 0:
        scatter = (1.0 - pooling) * scatter + pooling * scatter[seen].sum(axis=0)
        freedom = (1.0 - pooling) * freedom + pooling * freedom[seen].sum()
    for k in np.flatnonzero(priors).tolist():
        if m.rows[k] < 2 and pooling == 0:
            what = f"class {classes[k]!r} has {m.rows[k]} row and therefore no variance"
            raise DataError(what, remedy=remedy)
        if freedom[k] <= 0:
            _refuse_light_weights(freedom[k], float(m.weight[k]), unbiased)
    covariances = scatter / np.where(freedom > 0, freedom, 1.0).reshape(-1, *[1] * (scatter.ndim - 1))
    unit = m.frame.unit
    if shrinkage and not isinstance(shrinkage, str):
        covariances = np.array([_shrink(one, float(shrinkage), unit) for one in covariances])
    if reg_param > 0:
        identity = reg_param / np.square(unit)
        covariances = np.array([_plus_diagonal((1.0 - reg_param) * one, identity) for one in covariances])
    return covariances


def _singular(found: Whitening, names: Sequence[str], label: Any, rows: int, p: int) -> str:
    """What is wrong with the covariance matrix of a class."""
    if found.constant.size == p:
        return f"all {rows} rows of class {label!r} are equal, so it has no variance"
    if found.constant.size:
        verb = "does" if found.constant.size == 1 else "do"
        return f"{name_columns(names, found.constant)} {verb} not vary within class {label!r}"
    if rows <= p or not found.repeated.size:
        return f"class {label!r} has {rows} rows, but the covariance matrix of {p} columns needs {p + 1} or more"
    verb = "repeats" if found.repeated.size == 1 else "repeat"
    return f"within class {label!r} {name_columns(names, found.repeated)} {verb} the other columns"
