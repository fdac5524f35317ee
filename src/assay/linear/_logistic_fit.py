"""One logistic fit from clean arrays to coefficients: collinear columns and separated classes dealt with on the way.

Columns are centred and scaled for the solver. Where the Hessian at the answer looks singular, the triangle of the rows
decides: its basis turns the columns into orthonormal ones, the fit is repeated on these, and among all coefficients
that fit equally well those of least norm are returned. Where the likelihood has no maximum because classes separate,
the direction that separates them is found and named, and the fit is that of a ridge penalty of (WEAK/2) |t|^2 on
standardised columns: unique, finite, the same for any solver, and close to the limit along which the likelihood
rises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special
from scipy.linalg import cholesky

from assay.errors import DataError
from assay.linear._logistic_classes import symmetric_basis
from assay.linear._logistic_firth import FirthFit, firth
from assay.linear._logistic_newton import NewtonFit, is_direct, solve_rows
from assay.linear._logistic_rows import LogisticRows, make_rows
from assay.numerics.scale import norms
from assay.numerics.separation import Separation, find_separation
from assay.numerics.threads import one_blas_thread
from assay.numerics.triangle import Solution, solve, summarize

__all__ = [
    "WEAK",
    "LikelihoodProblem",
    "Maximum",
    "is_suspicious",
    "is_wide",
    "loss_at",
    "maximise",
    "null_loss",
    "rows_of",
]

Array = np.ndarray

WEAK = 1e-4
"""The ridge penalty on standardised columns that stands in where no maximum exists."""

SUSPICIOUS = 1e-9
"""A share 1 - R^2 of a column left by the others (in the Hessian) below this asks for a closer look."""

LARGEST_TABLE = 2000
"""A covariance matrix with more rows than this is not kept."""

SMALLEST = 1e-153
"""Below this a square is no full number any more."""

MORE = 50
"""So many steps are added where the likelihood seemed flat although no rule separates the classes."""

WIDE = 1000
"""With more columns than this, and more columns than rows, a ridge fit works in the space of the rows."""


@dataclass(frozen=True, eq=False)
class LikelihoodProblem:
    """Clean arrays: X dense in C order or CSR, codes from 0, weights > 0, and what each slope pays (`ridge`, (p,))."""

    X: Any
    codes: Array
    K: int
    w: Array
    offset: Array | None
    intercept: bool
    ridge: Array | None
    tol: float
    max_iter: int
    n_jobs: int | None
    names: Sequence[str]
    labels: Sequence[str]

    @property
    def free(self) -> Array:
        """Columns that pay no penalty."""
        return np.ones(self.X.shape[1], dtype=bool) if self.ridge is None else self.ridge == 0


@dataclass(frozen=True, eq=False)
class Maximum:
    """A fit in the units of the table: coef (R, p), intercept (R,), R = 1 for two classes and K for more.

    `loss` excludes the penalty; `covariance` ((K - 1)(1 + p), same) is that of intercepts and slopes of the classes
    after the first against the first, None where there is none; its rows of what the data do not determine are NaN.
    """

    coef: Array
    intercept: Array
    loss: float
    losses: list[float]
    converged: bool
    largest_gradient: float
    covariance: Array | None
    rank: int
    aliased: tuple[str, ...]
    effective_df: float
    separation: Separation | None
    value: float
    n_iter: int


def maximise(
    problem: LikelihoodProblem,
    *,
    firth_correction: bool = False,
    inference: bool = True,
    rival: bool = False,
    descend: Callable[[LogisticRows], NewtonFit] | None = None,
) -> Maximum:
    """The maximum likelihood, ridge or Firth fit of a problem, by Newton unless another way to `descend` is given.

    A `rival` is a fit that only its likelihood is wanted of: no check for separation, no covariance.
    """
    rows = rows_of(problem)
    whole = not problem.free.any()
    turn: _Turn | None = _row_space(problem) if is_wide(problem) else None
    if turn is not None:
        rows = turn.rows
    wanted = inference and not rival
    fit = _solve(rows, problem, firth_correction, wanted, descend)
    separation = None if whole or rival else _separation(rows, fit, problem)
    if separation is None and isinstance(fit, NewtonFit) and fit.status == "flat" and is_direct(rows):
        # The classes overlap after all, if only by rows that one far from all others leaves little to say.
        start = fit.point.theta
        further = solve_rows(rows, problem.tol, MORE, start=start, hessian=wanted, patience=MORE + 1)
        fit = replace(further, losses=fit.losses + further.losses[1:])
    if separation is not None:
        weak = np.concatenate([np.zeros(rows.first), np.where(problem.free, WEAK, 0.0)])
        turn, fit = None, _solve(replace(rows, ridge=rows.ridge + weak), problem, False, False)
    elif problem.ridge is None and is_suspicious(fit):
        turn = _turned(problem)
        fit = _solve(turn.rows, problem, firth_correction, wanted, descend)
    return _in_units(problem, rows if turn is None else turn.rows, fit, turn, separation, wanted)


def is_wide(problem: LikelihoodProblem) -> bool:
    """Whether a fit that is penalised throughout works in the space of the rows."""
    n, p = problem.X.shape
    return isinstance(problem.X, np.ndarray) and p > max(n, WIDE) and not problem.free.any()


def _separation(rows: LogisticRows, fit: NewtonFit | FirthFit, problem: LikelihoodProblem) -> Separation | None:
    """The direction that keeps the likelihood from having a maximum, where Newton did not find one."""
    if isinstance(fit, FirthFit) or fit.status == "converged":
        return None
    (slopes, start), etas = _plain(rows, fit.point.theta), rows.etas(fit.point.theta)
    near = rows.near_zero()
    middle = rows.mean - near.mean
    found = find_separation(near, etas, (slopes, start + slopes @ middle), problem.names, problem.free, problem.labels)
    return None if found is None else replace(found, intercept=found.intercept - found.direction @ middle)


def _plain(rows: LogisticRows, theta: Array) -> tuple[Array, Array]:
    """Slopes (1 or K, p) and intercepts in the units of the rows."""
    T = theta.reshape(rows.K - 1, -1)
    B = T if rows.K == 2 else symmetric_basis(rows.K) @ T
    slopes = B[:, rows.first :] * rows.inverse
    return slopes, (B[:, 0] if rows.first else np.zeros(len(B))) - slopes @ rows.mean


def rows_of(problem: LikelihoodProblem) -> LogisticRows:
    """The rows in the units of the solver, with what each coordinate pays."""
    rows = make_rows(problem.X, problem.codes, problem.K, problem.w, problem.offset, problem.intercept, problem.n_jobs)
    _refuse_tiny(rows, problem.names)
    if problem.ridge is None:
        return rows
    with np.errstate(over="ignore"):
        paid = np.minimum(problem.ridge * np.square(rows.inverse), 1e300)
    return replace(rows, ridge=np.concatenate([np.zeros(rows.first), paid]))


def _refuse_tiny(rows: LogisticRows, names: Sequence[str]) -> None:
    """A column whose squares vanish has a coefficient whose variance is no number."""
    far = rows.reach / rows.inverse
    small = (far > 0) & (far < SMALLEST)
    if small.any():
        at = int(np.argmax(small))
        what = f"column {names[at]!r} varies by at most {far[at]:.2g}, and its square underflows"
        raise DataError(what, remedy="rescale the column")


def _solve(
    rows: LogisticRows,
    problem: LikelihoodProblem,
    firth_correction: bool,
    hessian: bool,
    descend: Callable[[LogisticRows], NewtonFit] | None = None,
) -> NewtonFit | FirthFit:
    if firth_correction:
        return firth(rows, problem.tol, problem.max_iter)
    if descend is None:
        return solve_rows(rows, problem.tol, problem.max_iter, hessian=hessian)
    fit = descend(rows)
    return replace(fit, point=rows.evaluate(fit.point.theta)) if hessian else fit


def is_suspicious(fit: NewtonFit | FirthFit) -> bool:
    """Whether some column is all but a combination of the others, as the Hessian sees it."""
    H = fit.point.hessian
    if H is None:
        return False
    size = np.sqrt(np.diag(H))
    if not np.isfinite(size).all() or (size <= 0).any():
        return True
    with one_blas_thread():
        try:
            L = cholesky(H / size[:, None] / size, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return True
    return bool(np.square(np.diag(L)).min(initial=1.0) < SUSPICIOUS)


@dataclass(frozen=True, eq=False)
class _Turn:
    """Rows in other columns, z = (x - mean) T: slopes of x are T times those of z."""

    rows: LogisticRows
    T: Array
    mean: Array
    solution: Solution | None


def _turned(problem: LikelihoodProblem) -> _Turn:
    """Orthonormal columns that span what X spans, rounding noise left out."""
    solution = solve(summarize(problem.X, np.zeros(problem.X.shape[0]), problem.w, intercept=problem.intercept))
    first = int(problem.intercept)
    # Unit variance rather than unit length, so that the solver's tolerance keeps its meaning.
    T = solution.basis[first:, first:] / solution.scale[first:, None] * np.sqrt(problem.w.sum())
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    Z = np.ascontiguousarray((X - solution.mean) @ T)
    rows = make_rows(Z, problem.codes, problem.K, problem.w, problem.offset, problem.intercept, problem.n_jobs)
    return _Turn(rows, T, solution.mean, solution)


def _row_space(problem: LikelihoodProblem) -> _Turn:
    """A penalised fit with p > n lies in the space of the rows: n columns stand for p."""
    assert problem.ridge is not None
    mean = np.average(problem.X, axis=0, weights=problem.w) if problem.intercept else np.zeros(problem.X.shape[1])
    root = np.sqrt(problem.ridge)
    Q, R = np.linalg.qr(((problem.X - mean) / root).T)
    turned = replace(problem, X=np.ascontiguousarray(R.T), ridge=np.ones(R.shape[0]))
    return _Turn(rows_of(turned), Q / root[:, None], mean, None)


def _in_units(
    problem: LikelihoodProblem,
    rows: LogisticRows,
    fit: NewtonFit | FirthFit,
    turn: _Turn | None,
    separation: Separation | None,
    inference: bool,
) -> Maximum:
    K, p = problem.K, problem.X.shape[1]
    first, theta = rows.first, fit.point.theta.reshape(K - 1, -1)
    slopes, start = _plain(rows, fit.point.theta)
    rank, aliased, estimable = p, (), np.ones(1 + p, dtype=bool)
    if turn is not None:
        slopes = slopes @ turn.T.T
        start = start - slopes @ turn.mean
        if turn.solution is not None:
            rank = turn.solution.rank
            slopes, start = _least_norm(slopes, start, turn.solution, bool(first))
            repeated = np.concatenate([turn.solution.aliased, []]).astype(int)
            aliased = tuple(problem.names[j] for j in repeated)
            estimable = _estimable(turn.solution, first, p)
    paid = np.zeros(p) if problem.ridge is None else problem.ridge
    loss = fit.point.loss - 0.5 * float((np.square(slopes) @ paid).sum())
    if separation is not None:
        weak = np.where(problem.free, WEAK, 0.0)
        loss -= 0.5 * float((np.square(theta[:, first:]) @ weak).sum())
    covariance, df = None, float(rank + first) * (K - 1)
    if inference and separation is None and fit.point.hessian is not None and (K - 1) * (1 + p) <= LARGEST_TABLE:
        spread, df = _spread(fit.point.hessian, np.tile(rows.ridge, K - 1), df)
        covariance = _covariance(spread, rows, turn, K, p)
        closed = np.tile(~estimable, K - 1)
        covariance[closed] = np.nan
        covariance[:, closed] = np.nan
    converged = fit.converged if isinstance(fit, FirthFit) else fit.status == "converged"
    gradient = -fit.score if isinstance(fit, FirthFit) else fit.point.gradient
    largest = float(np.abs(gradient).max(initial=0.0)) / rows.weight
    value = fit.value if isinstance(fit, FirthFit) else -loss
    counted = isinstance(fit, NewtonFit) and fit.starts_after_one
    return Maximum(
        slopes, start, loss, fit.losses, converged, largest, covariance, rank, aliased, df, separation, value,
        max(1, len(fit.losses) - int(not counted)),
    )  # fmt: skip


def _spread(H: Array, ridge: Array, df: float) -> tuple[Array, float]:
    """Covariance of theta, (H + R)^-1 H (H + R)^-1 where a ridge R pays, and the effective degrees of freedom."""
    size = np.sqrt(np.maximum(np.diag(H), 1e-300))
    with one_blas_thread():
        inverse = np.linalg.pinv(H / size[:, None] / size, hermitian=True) / size[:, None] / size
        if not ridge.any():
            return inverse, df
        likelihood = H - np.diag(ridge)
        return inverse @ likelihood @ inverse, float(np.trace(inverse @ likelihood))


def _covariance(spread: Array, rows: LogisticRows, turn: _Turn | None, K: int, p: int) -> Array:
    """The covariance of (intercept, slopes) of each class after the first against the first, in the units of X."""
    first = rows.first
    T = np.diag(rows.inverse) if turn is None else turn.T * rows.inverse
    mean = rows.mean if turn is None else turn.mean
    J = np.zeros((1 + p, rows.m))
    J[1:, first:] = T
    if first:
        J[0, 0] = 1.0
        J[0, 1:] = -mean @ T
        if turn is not None:
            J[0, 1:] -= rows.mean * rows.inverse
    E = np.ones((1, 1))
    if K > 2:
        Q = symmetric_basis(K)
        E = Q[1:] - Q[0]
    V = spread.reshape(K - 1, rows.m, K - 1, rows.m)
    # Class by class: the Kronecker product of E and J would be many times the size of either.
    V = np.einsum("ka,aibj->kibj", E, V, optimize=True)
    V = np.einsum("kibj,lb->kilj", V, E, optimize=True)
    V = np.einsum("ui,kilj->kulj", J, V, optimize=True)
    V = np.einsum("kulj,vj->kulv", V, J, optimize=True)
    return np.ascontiguousarray(V).reshape((K - 1) * (1 + p), (K - 1) * (1 + p))


def _least_norm(slopes: Array, start: Array, solution: Solution, intercept: bool) -> tuple[Array, Array]:
    """Among slopes that fit equally well, those of least norm; the intercept keeps the fit."""
    null = solution.null
    if null is None or null.shape[1] == 0:
        return slopes, start
    first = int(intercept)
    free = null / solution.scale[first:, None]
    Q = np.linalg.qr(free / norms(free))[0]
    moved = slopes @ Q @ Q.T
    moved[:, solution.constant] = 0.0
    return slopes - moved, start + (moved @ solution.mean if intercept else 0.0)


def _estimable(solution: Solution, first: int, p: int) -> Array:
    """Which of intercept and slopes the data determine."""
    mask = np.ones(1 + p, dtype=bool)
    if solution.null is None:
        return np.zeros(1 + p, dtype=bool)
    if solution.null.shape[1] == 0:
        return mask
    null = solution.null / np.abs(solution.null).max(axis=0)
    mask[1:] = np.abs(null).max(axis=1) < 1e-8
    if first:
        keep = np.abs(null[solution.constant]).max(axis=0, initial=0.0) < 0.5
        mean = solution.mean / solution.scale[first:]
        mask[0] = bool(np.all(np.abs(mean @ null[:, keep]) <= 1e-8 * (np.abs(mean) @ np.abs(null[:, keep]))))
    return mask


def null_loss(problem: LikelihoodProblem) -> float:
    """The loss of the model without columns: intercepts (if fitted) and offsets only."""
    n, K = problem.X.shape[0], problem.K
    if problem.intercept and problem.offset is None:
        share = np.bincount(problem.codes, weights=problem.w, minlength=K)
        return float(-(share @ np.log(share / share.sum())))
    rows = rows_of(replace(problem, X=np.zeros((n, 0)), ridge=None, names=()))
    if not problem.intercept:
        return rows.evaluate(np.zeros(rows.size), False).loss
    return solve_rows(rows, min(problem.tol, 1e-8), 100).point.loss


def loss_at(problem: LikelihoodProblem, coef: Array, intercept: Array) -> float:
    """The loss of given coefficients, without any penalty."""
    eta = np.asarray(problem.X @ coef.T) + intercept
    if problem.K == 2:
        eta = np.column_stack([np.zeros(len(eta)), eta[:, 0] if problem.offset is None else eta[:, 0] + problem.offset])
    elif problem.offset is not None:
        eta = eta + problem.offset
    own = np.take_along_axis(special.log_softmax(eta, axis=1), problem.codes[:, None], axis=1)[:, 0]
    return -float(problem.w @ own)
