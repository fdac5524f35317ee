"""Rows of a ridge regression and their summaries: centred moments, or the triangular factor of the rows.

Moments are mergeable and cost n p^2 (see `assay.numerics.moments`). Where the condition number says that squaring
loses digits, the R of a QR of sqrt(w) [1, X, Y] takes their place; it merges as well (stack two and factorize), and
what stands below the column of ones is the factor of the centred columns. Sparse rows are centred implicitly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import linalg, sparse

from assay.errors import DataError
from assay.numerics.moments import Moments, about_zero, merge, summarize

__all__ = [
    "EPS",
    "SAFE",
    "RidgeRows",
    "centred_factors",
    "centred_rows",
    "factor_of_rows",
    "intercepts",
    "merge_factors",
    "moments_of",
    "moments_of_parts",
    "prepare",
    "route",
    "unit_diagonal",
]

Array = np.ndarray

EPS = float(np.finfo(np.float64).eps)
SAFE = 1e7
"""Normal equations are trusted up to this condition number: nine digits remain."""
DIRECT = 2_000
"""A sparse problem is factorized as a dense one when its smaller side is at most this."""
NONNEGATIVE = 10_000
"""The nonnegative solver works on a p x p matrix; beyond this many columns it is refused."""
BLOCK_CELLS = 1 << 19


@dataclass(frozen=True, eq=False)
class RidgeRows:
    """Checked data: rows of positive weight, Y as (n, k) divided by `scale`, X less `shift` where it is dense."""

    X: Any
    Y: Array
    w: Array | None
    scale: float
    shift: Array
    intercept: bool
    names: Sequence[str] | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def p(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether X is a sparse matrix."""
        return bool(sparse.issparse(self.X))

    def take(self, rows: Any) -> RidgeRows:
        """Some of the rows."""
        return replace(self, X=self.X[rows], Y=self.Y[rows], w=None if self.w is None else self.w[rows])

    def blocks(self, width: int) -> Iterator[slice]:
        """Slices of rows such that a block of that many columns lies in the cache."""
        height = max(64, BLOCK_CELLS // max(width, 1))
        for start in range(0, self.n, height):
            yield slice(start, min(start + height, self.n))


def prepare(X: Any, y: Array, w: Array | None, intercept: bool, names: Sequence[str] | None = None) -> RidgeRows:
    """Drop the rows of weight zero and bring y to the order of one, by a power of two so that no digit changes."""
    Y = np.array(y, dtype=np.float64).reshape(len(y), -1)
    if w is not None and not w.all():
        keep = np.flatnonzero(w)
        X, Y, w = X[keep], Y[keep], w[keep]
    largest = float(np.abs(Y).max())
    scale = float(np.ldexp(1.0, int(np.frexp(largest)[1]))) if largest > 0 else 1.0
    return RidgeRows(X, Y / scale, w, scale, np.zeros(X.shape[1]), intercept, names)


def route(rows: RidgeRows, factors: Array, positive: bool = False) -> str:
    """How the problem is solved: 'primal' (p x p), 'dual' (n x n) or 'iterative'."""
    n, p = rows.n, rows.p
    if positive:
        if p > NONNEGATIVE:
            raise DataError(
                f"positive=True works on a p x p matrix, and p = {p} columns make it too large",
                remedy=f"select at most {NONNEGATIVE} columns first, or set positive=False",
            )
        return "primal"
    if not rows.is_sparse:
        return "primal" if n >= p else "dual"
    if p <= min(n, DIRECT):
        return "primal"
    if n <= DIRECT and (factors > 0).all():
        return "dual"
    return "primal" if p <= DIRECT else "iterative"


def moments_of(rows: RidgeRows) -> tuple[RidgeRows, Moments]:
    """Moments about the mean (about zero without an intercept), and the rows they belong to."""
    rows, _, m = moments_of_parts(rows, [slice(None)])
    return rows, m


def moments_of_parts(rows: RidgeRows, parts: Sequence[Any]) -> tuple[RidgeRows, list[Moments], Moments]:
    """Centred moments of each part of the rows, and those of all (about zero without an intercept).

    A dense column whose spread is tiny beside its mean is shifted by its first value before anything is
    multiplied: the difference is exact, and a constant column becomes exactly zero.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        each = [_raw_moments(rows.take(part)) for part in parts]
        m = reduce(merge, each)
        narrow = np.flatnonzero(np.diag(m.xx) < 1e-10 * m.weight * m.mx**2)
        if narrow.size and rows.intercept and not rows.is_sparse:
            shift = np.zeros(rows.p)
            shift[narrow] = rows.X[0, narrow]
            rows = replace(rows, X=rows.X - shift, shift=rows.shift + shift)
            each = [_raw_moments(rows.take(part)) for part in parts]
            m = reduce(merge, each)
        m = m if rows.intercept else about_zero(m)
    _refuse_scales(rows, np.diag(m.xx))
    return rows, each, m


def _refuse_scales(rows: RidgeRows, spread: Array) -> None:
    """Columns whose squares leave the range of doubles, though they are not constant."""
    if not np.isfinite(spread).all():
        where = column_name(rows, int(np.argmin(np.isfinite(spread))))
        raise DataError(f"{where} contains values whose squares overflow", remedy="divide it by a large constant first")
    for j in np.flatnonzero(spread < 1e-305):
        x = rows.X[:, [j]].toarray() if rows.is_sparse else rows.X[:, j]
        if (x != x[0]).any() or (not rows.intercept and x.any()):
            remedy = "multiply it by a large constant first"
            raise DataError(f"{column_name(rows, int(j))} contains values whose squares underflow", remedy=remedy)


def _raw_moments(rows: RidgeRows) -> Moments:
    return _sparse_moments(rows) if rows.is_sparse else summarize(rows.X, rows.Y, rows.w)


def _sparse_moments(rows: RidgeRows) -> Moments:
    """Centred moments of sparse rows; X is never centred explicitly.

    X'WX - W mean mean' loses digits in columns whose spread is small beside their mean; those few are
    centred as dense columns, so that their products are exact.
    """
    X, Y = rows.X.astype(np.float64, copy=False), rows.Y
    w = np.ones(rows.n) if rows.w is None else rows.w
    weight = float(w.sum())
    mx, my = X.T @ w / weight, w @ Y / weight
    B = w[:, None] * (Y - my)
    raw = (X.T @ sparse.diags_array(w) @ X).toarray()
    xx, xy = raw - np.outer(mx, weight * mx), X.T @ B
    narrow = np.flatnonzero(np.diag(xx) < 1e-4 * np.diag(raw))
    for start in range(0, narrow.size, 64):
        some = narrow[start : start + 64]
        dense = X[:, some].toarray()
        dense -= dense[0]
        dense -= w @ dense / weight
        cross = X.T @ (w[:, None] * dense)
        xx[:, some], xx[some, :] = cross, cross.T
        xx[np.ix_(some, some)] = dense.T @ (w[:, None] * dense)
        xy[some] = dense.T @ B
    constant = np.diag(xx) <= 0
    xx[constant], xx[:, constant], xy[constant] = 0.0, 0.0, 0.0
    return Moments(weight, rows.n, mx, my, xx, xy, (B * (Y - my)).sum(axis=0))


def intercepts(rows: RidgeRows, m: Moments, coef: Array) -> Array:
    """b0 of each target (and alpha): the mean of y less the mean of x times b."""
    return m.my.reshape(-1, *[1] * (coef.ndim - 2)) - np.tensordot(m.mx + rows.shift, coef, axes=1)


def factor_of_rows(rows: RidgeRows, center: Array, middle: Array) -> Array:
    """R of the QR of sqrt(w) [1, X - center, Y - middle] (no column of ones without an intercept), block by block."""
    lead = int(rows.intercept)
    width = lead + rows.p + rows.Y.shape[1]
    R = np.zeros((0, width))
    for part in rows.blocks(max(1, width // 4)):
        Z = np.empty((part.stop - part.start, width))
        X = rows.X[part]
        Z[:, :lead] = 1.0
        Z[:, lead : lead + rows.p] = (X.toarray() if rows.is_sparse else X) - center
        Z[:, lead + rows.p :] = rows.Y[part] - middle
        if rows.w is not None:
            Z *= np.sqrt(rows.w[part])[:, None]
        R = merge_factors(R, Z)
    return R


def merge_factors(a: Array, b: Array) -> Array:
    """The factor of both sets of rows together."""
    R = linalg.qr(np.vstack([a, b]), mode="r", check_finite=False, overwrite_a=True)[0]
    return R[: min(R.shape)]


def centred_factors(R: Array, rows: RidgeRows) -> tuple[Array, Array]:
    """The factors of centred X and Y: what is left below the column of ones."""
    lead, p = int(rows.intercept), rows.p
    body = R[lead:, lead:]
    return body[:p, :p], body[:p, p:]


def centred_rows(rows: RidgeRows) -> tuple[RidgeRows, Moments, Array, Array]:
    """Dense rows, centred and times sqrt(w); columns are first shifted by one of their values, which is exact."""
    X = np.array(rows.X, dtype=np.float64)
    w = np.ones(rows.n) if rows.w is None else rows.w
    weight = float(w.sum())
    shift, mx, my = np.zeros(rows.p), np.zeros(rows.p), np.zeros(rows.Y.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        if rows.intercept:
            shift = X[0].copy()
            X -= shift
            mx, my = w @ X / weight, w @ rows.Y / weight
        A = (X - mx) * np.sqrt(w)[:, None]
        squares = np.einsum("ij,ij->j", A, A)
    _refuse_scales(rows, squares)
    B = (rows.Y - my) * np.sqrt(w)[:, None]
    m = Moments(weight, rows.n, mx, my, np.zeros((0, 0)), A.T @ B, (B**2).sum(axis=0))
    return replace(rows, X=X, shift=rows.shift + shift), m, A, B


def column_name(rows: RidgeRows, j: int) -> str:
    return f"column {j}" if rows.names is None else f"column {rows.names[j]!r}"


def unit_diagonal(G: Array, alpha: float, factors: Array) -> tuple[Array, Array]:
    """G + alpha F divided on both sides by the roots t of its diagonal; empty columns get a one there."""
    M = G.copy(order="F")
    at = np.arange(len(M))
    with np.errstate(over="ignore"):
        M[at, at] = np.minimum(M[at, at] + alpha * factors, 1e307)
    t = np.sqrt(M[at, at])
    empty = t == 0
    t[empty] = 1.0
    M /= t[:, None]
    M /= t
    M[empty, empty] = 1.0
    return M, t
