"""From rows to the problem a solver sees: weighted, centred, the free columns projected out, scaled if need be.

With weights v_i = w_i / sum w the data become sqrt(v_i) (x_i - mx) and sqrt(v_i) (y_i - my), so that

    1/(2 sum w) sum_i w_i (y_i - b0 - x_i'b)^2 = 1/2 |y - X b|^2.

Columns with penalty factor 0 are free, like the intercept: for given penalised coefficients they are a least-squares
fit, so they are projected out of y and of all other columns and come back at the end. The largest useful alpha is then
max_j |x_j'y| / (l1_ratio f_j), whatever is free. Three forms of the same problem:

    Gram    few dense columns    the centred Gram matrix, from mergeable moments
    wide    many dense columns   the columns themselves and a growing working set
    sparse  CSC columns          centred and projected implicitly

Columns whose squares would leave the range of floating point (values near 1e150 or 1e-150) are divided by a power
of two, which is exact, and their penalty with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import nnls

from assay.errors import DataError
from assay.linear._coordinate import gram_path
from assay.linear._lasso_sparse import SparseColumns, sparse_path
from assay.linear._path import Settings, wide_path
from assay.numerics.moments import Moments, summarize
from assay.numerics.scale import power_of_two

__all__ = ["Design", "Solutions", "from_moments", "from_rows", "gram_fits", "is_sparse"]

MOST_PENALTY = 1e306
"""Penalties are capped here: nothing but zero is left of a coefficient long before."""

MOST_GRAM_COLUMNS, SMALL_GRAM = 4000, 500
"""One Gram matrix serves up to the first number of columns if there are as many rows, up to the second always."""

SMALL_CELLS, DENSE_ENOUGH, MOST_DENSE_CELLS = 1_000_000, 0.2, 50_000_000
"""A sparse table is made dense when it is small, or when this share of its cells is filled and it fits in memory."""

LOWEST, HIGHEST = 1e-200, 1e200
"""Squared norms outside this range ask for scaled columns."""


@dataclass(frozen=True, eq=False)
class Solutions:
    """Coefficients (k, p), intercepts, duality gaps, sweeps and penalty sums for k values of alpha."""

    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    gaps: np.ndarray
    sweeps: np.ndarray
    converged: np.ndarray


@dataclass(frozen=True, eq=False)
class Design:
    """One problem: c = X'y, yy = |y|^2 (`size` before projection) and the matrix; `columns` are the penalised ones."""

    form: str
    matrix: Any
    y: np.ndarray | None
    c: np.ndarray
    yy: float
    size: float
    columns: np.ndarray
    factors: np.ndarray
    mx: np.ndarray
    my: float
    fit_intercept: bool
    free: _Free
    x_scale: np.ndarray
    y_scale: float

    def penalty(self, l1_ratio: float) -> tuple[np.ndarray, np.ndarray]:
        """The l1 and l2 penalties of each solved column at alpha = 1, in the solver's units."""
        f, s = self.factors[self.columns], self.x_scale[self.columns]
        with np.errstate(over="ignore"):  # beyond all numbers is as good as the largest: the coefficient is zero
            l1, l2 = l1_ratio * f / s / self.y_scale, (1 - l1_ratio) * f / s / s
        return np.minimum(l1, MOST_PENALTY), np.minimum(l2, MOST_PENALTY)

    def alpha_max(self, l1_ratio: float, positive: bool) -> float:
        """The smallest alpha at which every penalised coefficient is zero."""
        l1, _ = self.penalty(l1_ratio)
        c = self.c if positive else np.abs(self.c)
        return float(np.max(c / l1, initial=0.0))

    def solve(self, alphas: np.ndarray, l1_ratio: float, how: Settings, start: np.ndarray | None = None) -> Solutions:
        """The solutions for decreasing alphas, each from the last; `start` are coefficients to begin with."""
        b = None
        if start is not None:
            b = np.ascontiguousarray((start * self.x_scale / self.y_scale)[self.columns])
        positive_alphas = alphas[alphas > 0]
        k = positive_alphas.size
        B = np.zeros((alphas.size, self.columns.size))
        gaps, sweeps = np.zeros(alphas.size), np.zeros(alphas.size, dtype=np.int64)
        if k and self.columns.size and self.yy > 0:
            B[:k], gaps[:k], sweeps[:k] = self._penalised(positive_alphas, l1_ratio, how, b)
        if k < alphas.size:
            B[k:] = self._unpenalised(how.positive)
        coefs, intercepts = self._restore(B)
        with np.errstate(over="ignore"):
            scaled = gaps * self.y_scale**2
        return Solutions(alphas, coefs, intercepts, scaled, sweeps, gaps <= how.tol * self.size)

    def _penalised(self, alphas: np.ndarray, l1_ratio: float, how: Settings, start: np.ndarray | None) -> Any:
        l1, l2 = self.penalty(l1_ratio)
        how = replace(how, tol=how.tol * self.size)
        if self.form == "gram":
            return _gram_solutions(self.matrix, self.c, self.yy, l1, l2, alphas, how, start)
        assert self.y is not None
        if self.form == "wide":
            return wide_path(self.matrix, self.y, self.c, l1, l2, alphas, how, start)
        return sparse_path(self.matrix, self.y, l1, l2, alphas, how, start)

    def _unpenalised(self, positive: bool) -> np.ndarray:
        """Least squares of least norm (alpha = 0), or non-negative least squares."""
        if self.columns.size == 0:
            return np.zeros(0)
        A: Any = self.matrix
        target: Any = self.y
        if self.form == "gram":
            T = _gram_basis(self.matrix)
            A, target = T.T @ self.matrix, T.T @ self.c
        elif self.form == "sparse":
            if target.size * self.c.size > MOST_DENSE_CELLS:
                raise DataError(
                    f"alpha = 0 on a sparse table of {target.size} x {self.c.size} is a least-squares problem too "
                    "large for a dense solve",
                    remedy="give a small positive alpha",
                )
            A = self.matrix.dense()
        if not A.size:
            return np.zeros(self.c.size)
        # Columns of unit length first, so that scale is not taken for rank; least norm is in the units of the data.
        size = np.sqrt(np.einsum("ij,ij->j", A, A))
        size = np.where(size > 0, size, 1.0)
        if positive:
            return nnls(A / size, target)[0] / size
        b, _, rank, _ = linalg.lstsq(A / size, target, lapack_driver="gelsd")
        return b / size if rank == size.size else linalg.lstsq(A, target, lapack_driver="gelsd")[0]

    def _restore(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts in the units of the data from the solver's penalised coefficients."""
        coefs = np.zeros((len(B), self.factors.size))
        coefs[:, self.columns] = B
        coefs[:, self.free.columns] = self.free.coefficients(B)
        with np.errstate(over="ignore", invalid="ignore"):
            intercepts = (self.my - coefs @ self.mx) * self.y_scale if self.fit_intercept else np.zeros(len(B))
            return coefs * (self.y_scale / self.x_scale), intercepts


@dataclass(frozen=True, eq=False)
class _Free:
    """The free columns: b_u = T (zy - Z b) for the penalised b, with T = V S^-1 of their SVD, Z = U'X, zy = U'y."""

    columns: np.ndarray
    T: np.ndarray
    zy: np.ndarray
    Z: np.ndarray
    U: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def coefficients(self, B: np.ndarray) -> np.ndarray:
        return (self.zy - B @ self.Z.T) @ self.T.T


def _no_free(p: int) -> _Free:
    return _Free(np.empty(0, dtype=np.int64), np.empty((0, 0)), np.empty(0), np.empty((0, p)))


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse table."""
    return bool(sparse.issparse(X))


def gram_fits(n: int, p: int) -> bool:
    """Whether one Gram matrix of all columns is the way to go."""
    return p <= MOST_GRAM_COLUMNS and p <= max(n, SMALL_GRAM)


def from_rows(X: Any, y: np.ndarray, w: np.ndarray | None, factors: np.ndarray, fit_intercept: bool) -> Design:
    """The design of a table, dense or CSC."""
    n, p = X.shape
    if is_sparse(X) and (n * p <= SMALL_CELLS or DENSE_ENOUGH * n * p < X.nnz <= MOST_DENSE_CELLS):
        X = X.toarray()
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        one = np.ones(p)
        design = _from_scaled(X, y, w, factors, fit_intercept, one, 1.0)
        if not _needs_scaling(X, y, design[1], design[2]):
            return design[0]
        x_scale, y_scale = power_of_two(_largest(X)), float(power_of_two(np.max(np.abs(y), initial=0.0)))
        X = X @ sparse.diags_array(1 / x_scale, format="csc") if is_sparse(X) else X / x_scale
        return _from_scaled(X, y / y_scale, w, factors, fit_intercept, x_scale, y_scale)[0]


def _from_scaled(
    X: Any, y: np.ndarray, w: Any, factors: np.ndarray, fit_intercept: bool, x_scale: np.ndarray, y_scale: float
) -> tuple[Design, np.ndarray, float]:
    """The design, the squared norms of the columns before projection and that of y."""
    if is_sparse(X):
        return _sparse_design(X, y, w, factors, fit_intercept, x_scale, y_scale)
    if gram_fits(*X.shape):
        return _gram_design(summarize(X, y, w), factors, fit_intercept, x_scale, y_scale)
    return _wide_design(X, y, w, factors, fit_intercept, x_scale, y_scale)


def from_moments(moments: Moments, factors: np.ndarray, fit_intercept: bool) -> Design | None:
    """The design of centred moments, or None where the data must be scaled first."""
    p = factors.size
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        design, norms, yy = _gram_design(moments, factors, fit_intercept, np.ones(p), 1.0)
    return design if _in_range(norms) and _in_range(np.array([yy])) else None


def _in_range(squares: np.ndarray) -> bool:
    return bool(np.all(np.isfinite(squares) & (squares < HIGHEST) & (squares > LOWEST)))


def _needs_scaling(X: Any, y: np.ndarray, norms: np.ndarray, yy: float) -> bool:
    if _in_range(norms) and _in_range(np.array([yy])):
        return False
    # What is zero because it does not vary needs no scaling; what vanishes or overflows in the squares does.
    suspect = np.flatnonzero(~(np.isfinite(norms) & (norms < HIGHEST) & (norms > LOWEST)))
    if suspect.size:
        part = X[:, suspect]
        highest, lowest = part.max(axis=0), part.min(axis=0)
        if is_sparse(part):
            highest, lowest = highest.toarray().ravel(), lowest.toarray().ravel()
        if (np.maximum(np.abs(highest), np.abs(lowest)) * (highest != lowest) > 0).any():
            return True
    return not LOWEST < yy < HIGHEST and bool(np.ptp(y) > 0)


def _largest(X: Any) -> np.ndarray:
    if is_sparse(X):
        return np.maximum(X.max(axis=0).toarray(), -X.min(axis=0).toarray()).ravel()
    return np.maximum(X.max(axis=0), -X.min(axis=0))


def _split(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.flatnonzero(factors > 0), np.flatnonzero(factors == 0)


def _gram_design(
    s: Moments, factors: np.ndarray, fit_intercept: bool, x_scale: np.ndarray, y_scale: float
) -> tuple[Design, np.ndarray, float]:
    G, c, yy = s.xx / s.weight, s.xy[:, 0] / s.weight, float(s.yy[0] / s.weight)
    my = float(s.my[0])
    if not fit_intercept:
        G, c, yy = G + np.outer(s.mx, s.mx), c + s.mx * my, yy + my * my
    size = yy
    norms = np.diag(G).copy()
    # A constant column leaves only the rounding of its mean behind.
    dead = norms <= 1e-26 * s.mx**2 if fit_intercept else norms <= 0
    G[dead], G[:, dead], c[dead] = 0.0, 0.0, 0.0
    columns, free_columns = _split(factors)
    free = _no_free(columns.size)
    if free_columns.size:
        T = _gram_basis(G[np.ix_(free_columns, free_columns)])
        Z = T.T @ G[np.ix_(free_columns, columns)]
        free = _Free(free_columns, T, T.T @ c[free_columns], Z)
        G, c = G[np.ix_(columns, columns)] - Z.T @ Z, c[columns] - Z.T @ free.zy
        yy, size = yy - float(free.zy @ free.zy), yy
        dead = dead[columns] | (np.diag(G) <= 1e-12 * norms[columns])
        if yy <= 1e-13 * size:  # the free columns fit y to rounding
            yy, c = 0.0, np.zeros_like(c)
    if dead.any():
        G[dead], G[:, dead], c[dead] = 0.0, 0.0, 0.0
    G = np.ascontiguousarray(G)
    design = Design(
        "gram",
        G,
        None,
        np.ascontiguousarray(c),
        yy,
        size,
        columns,
        factors,
        s.mx,
        my,
        fit_intercept,
        free,
        x_scale,
        y_scale,
    )
    return design, norms, float(s.yy[0] / s.weight)


def _gram_basis(G: np.ndarray) -> np.ndarray:
    """T with X T an orthonormal basis of the range; columns of unit length first, so that scale is not rank."""
    size = np.sqrt(np.diag(G))
    size = np.where(size > 0, size, 1.0)
    values, V = np.linalg.eigh(G / np.outer(size, size))
    keep = values > len(G) * np.finfo(float).eps
    return V[:, keep] / size[:, None] / np.sqrt(values[keep])


def _gram_solutions(
    G: np.ndarray,
    c: np.ndarray,
    yy: float,
    l1: np.ndarray,
    l2: np.ndarray,
    alphas: np.ndarray,
    how: Settings,
    start: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    p = c.size
    coefs, gaps, sweeps = np.empty((alphas.size, p)), np.empty(alphas.size), np.empty(alphas.size, dtype=np.int64)
    gram_path(
        G, c, yy, l1, l2, alphas, how.positive, how.selection, how.generator(), how.tol, how.max_iter,
        np.empty((p + 1, p + 1)), np.zeros(p + 1, dtype=np.int64), np.full(p, -1, dtype=np.int64), np.zeros((8, p + 1)),
        np.zeros(p + 1, dtype=np.int64), np.zeros(p) if start is None else start.copy(), coefs, gaps, sweeps,
    )  # fmt: skip
    return coefs, gaps, sweeps


def _centre(y: np.ndarray, w: np.ndarray | None, fit_intercept: bool) -> tuple[np.ndarray, float, np.ndarray]:
    """Square roots of the normalised weights, the mean of y, and y weighted and centred."""
    root = np.full(y.size, 1 / np.sqrt(y.size)) if w is None else np.sqrt(w / w.sum())
    my = float(np.average(y, weights=w)) if fit_intercept else 0.0
    return root, my, root * (y - my)


def _wide_design(
    X: np.ndarray, y: np.ndarray, w: Any, factors: np.ndarray, fit_intercept: bool, x_scale: np.ndarray, y_scale: float
) -> tuple[Design, np.ndarray, float]:
    root, my, target = _centre(y, w, fit_intercept)
    mx = np.average(X, axis=0, weights=w) if fit_intercept else np.zeros(X.shape[1])
    A = np.empty(X.shape, order="F")
    np.subtract(X, mx, out=A)
    A *= root[:, None]
    norms, yy = np.einsum("ij,ij->j", A, A), float(target @ target)
    dead = norms <= 1e-26 * mx**2
    columns, free_columns = _split(factors)
    free = _no_free(columns.size)
    if free_columns.size:
        A[:, dead] = 0.0
        U, T = _basis(A[:, free_columns])
        A = np.asfortranarray(A[:, columns])
        free = _Free(free_columns, T, U.T @ target, U.T @ A)
        target = _without(target, U, free.zy)
        A -= U @ free.Z
        dead = dead[columns] | (np.einsum("ij,ij->j", A, A) <= 1e-26 * norms[columns])
    A[:, dead] = 0.0
    design = Design(
        "wide", A, target, target @ A, float(target @ target), yy, columns, factors, mx, my, fit_intercept, free,
        x_scale, y_scale,
    )  # fmt: skip
    return design, norms, yy


def _without(target: np.ndarray, U: np.ndarray, zy: np.ndarray) -> np.ndarray:
    """The target without its part in the span of U; zero where only rounding is left."""
    rest = target - U @ zy
    return rest if rest @ rest > 1e-26 * (target @ target) else np.zeros_like(rest)


def _basis(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis U of the columns of A and T with A T = U; of unit columns, so that scale is not rank."""
    size = np.sqrt(np.einsum("ij,ij->j", A, A))
    size = np.where(size > 0, size, 1.0)
    U, s, Vt = linalg.svd(A / size, full_matrices=False)
    keep = s > s[0] * max(A.shape) * np.finfo(float).eps if s.size else np.zeros(0, dtype=bool)
    return U[:, keep], Vt[keep].T / s[keep] / size[:, None]


def _sparse_design(
    X: Any, y: np.ndarray, w: Any, factors: np.ndarray, fit_intercept: bool, x_scale: np.ndarray, y_scale: float
) -> tuple[Design, np.ndarray, float]:
    root, my, target = _centre(y, w, fit_intercept)
    yy = float(target @ target)
    A = sparse.csc_array(X, copy=True)
    A.sum_duplicates()
    if A.nnz > np.iinfo(np.int32).max:
        raise DataError(f"X has {A.nnz} non-zeros, more than 2^31", remedy="use fewer columns or rows")
    A.data *= root[A.indices]
    p = X.shape[1]
    mx = root @ A if fit_intercept else np.zeros(p)
    squares = np.asarray(A.multiply(A).sum(axis=0)).ravel()
    norms = before = squares - mx**2
    dead = norms <= 1e-13 * squares
    columns, free_columns = _split(factors)
    free, Q = _no_free(columns.size), root[:, None] if fit_intercept else np.empty((y.size, 0))
    if free_columns.size:
        part = A[:, free_columns].toarray() - np.outer(root, mx[free_columns])
        part[:, dead[free_columns]] = 0.0
        U, T = _basis(part)
        A = A[:, columns]
        # U is orthogonal to the intercept, so centring the columns does not change U'X.
        free = _Free(free_columns, T, U.T @ target, np.asarray((A.T @ U).T))
        target = _without(target, U, free.zy)
        Q = np.hstack([Q, U])
        norms, squares, dead = norms[columns] - (free.Z**2).sum(axis=0), squares[columns], dead[columns]
        dead |= norms <= 1e-11 * squares  # the projection leaves rounding of this size
    norms = np.where(dead, 0.0, norms)
    Zt = np.ascontiguousarray(A.T @ Q)
    matrix = SparseColumns(
        A.data, A.indices.astype(np.uint32), A.indptr.astype(np.int64), np.ascontiguousarray(Q), Zt, norms
    )
    c = np.where(dead, 0.0, A.T @ target)
    design = Design(
        "sparse", matrix, target, c, float(target @ target), yy, columns, factors, mx, my, fit_intercept, free,
        x_scale, y_scale,
    )  # fmt: skip
    return design, before, yy
