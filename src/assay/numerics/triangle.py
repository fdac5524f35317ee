"""The triangular factor of a table: a summary of X and y that adds, without ever squaring the data.

    summarize(rows) -> Triangle,    merge(a, b) -> Triangle,    solve(triangle) -> Solution

The rows sqrt(w) [1, x, y] are factored block by block while a block lies in the cache, and the factor of
two stacked triangles is the triangle of all rows (TSQR). With the constant column first,

    [1 X Y] = Q | r00  r0  s0 |      r0/r00 = mean of X,   T = factor of the centred X,
                |      T   c  |      c = what the centred y has along it,
                |          E  |      ||E||^2 = residual sum of squares.

`solve` scales each column by a power of two, so nothing is rounded and neither 1e150 nor 1e-150
overflows; factors T with column pivoting, which shows the rank against the rounding noise of the
columns as they were given; and returns the coefficients of least norm.
Cost: 2 n p^2 flops in LAPACK over all cores; the blocks are fixed, so the answer is too.
Demmel, Grigori, Hoemmen and Langou (2012), SIAM J. Sci. Comput. 34, A206-A239.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import sparse
from scipy.linalg import qr, solve_triangular, svdvals
from scipy.linalg.lapack import dgeqrf
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from assay.constraints import integer
from assay.numerics.scale import norms, power_of_two
from assay.numerics.threads import one_blas_thread, parallel
from assay.state import Specs, Stateful, floats, ints

__all__ = [
    "RowBlock",
    "Solution",
    "Triangle",
    "blas_for",
    "blocks",
    "dense",
    "error_norms",
    "merge",
    "norms",
    "over_blocks",
    "solve",
    "summarize",
]

BLOCK_CELLS = 1 << 17
"""One MiB of float64: a block and its reflectors stay in a core's second-level cache."""

TALL = 8
"""A block has at least this many times as many rows as columns, or stacking triangles would cost more than it saves."""

CLEARLY_FULL = 1e8
"""Below this condition number no column can be lost in rounding noise, and pivoting is not needed."""

ALL_VALUES = 300
"""Up to this many columns the condition number comes from all singular values."""

NULL_CELLS = 1 << 22
"""The free directions of a wide table are kept only up to this many cells."""

READ_FROM_LEFT = 400
"""Up to this many columns, aliased ones are named by reading from the left, which costs p^3 slow operations."""

Outcome = TypeVar("Outcome")
RowBlock = np.ndarray | sparse.csr_matrix | sparse.csr_array


@dataclass(frozen=True, eq=False)
class Triangle(Stateful):
    """Upper trapezoid `factor` of the rows sqrt(w) [1, x, y], with what the likelihood needs of the weights.

    `n` counts the rows of positive weight, `log_weight` sums the logarithms of their weights; `targets`
    is the number of columns of y and `intercept` says whether the constant column is there.
    """

    factor: np.ndarray
    n: int
    weight: float
    log_weight: float
    targets: int
    intercept: bool

    state: ClassVar[Specs] = {
        "factor": floats("rows", "m", finite=False),  # fewer rows than columns where the table had
        "n": integer(1),
    }


def blocks(n: int, width: int) -> list[slice]:
    """The fixed partition of n rows of `width` cells into blocks for the cache."""
    height = max(BLOCK_CELLS // width, TALL * width)
    return [slice(start, min(start + height, n)) for start in range(0, n, height)]


def dense(X: RowBlock, rows: slice | np.ndarray) -> np.ndarray:
    """Some rows of a dense or CSR matrix, as a dense array."""
    part: Any = X[rows]
    return part if isinstance(part, np.ndarray) else part.toarray()


def over_blocks(function: Callable[[slice], Outcome], parts: list[slice]) -> list[Outcome]:
    """Several blocks go to the thread pool; a single one keeps the threads of BLAS."""
    return parallel(function, parts, n_jobs=-1) if len(parts) > 1 else [function(parts[0])]


def blas_for(flops: float) -> AbstractContextManager[None]:
    """BLAS as configured for large work; for small work one thread, as waking the others costs more than it gains."""
    return one_blas_thread() if flops < 1e9 else nullcontext()


def summarize(X: RowBlock, y: np.ndarray, w: np.ndarray | None = None, *, intercept: bool = True) -> Triangle:
    """The triangle of dense or CSR rows; y is (n,) or (n, k), weights optional.

    >>> s = summarize(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 6.0]))
    >>> fit = solve(s)
    >>> fit.coef.round(12).tolist(), fit.intercept.round(12).tolist()
    ([[2.5]], [-2.0])
    """
    Y = y.reshape(len(y), -1)
    n, first, k = len(Y), int(intercept), Y.shape[1]
    width = first + X.shape[1] + k

    def factor(rows: slice) -> np.ndarray:
        A = np.empty((rows.stop - rows.start, width), order="F")
        A[:, :first] = 1.0
        A[:, first : width - k] = dense(X, rows)
        A[:, width - k :] = Y[rows]
        if w is not None:
            A *= np.sqrt(w[rows])[:, None]
        return _triangular(A)

    factors = over_blocks(factor, blocks(n, width))
    total = factors[0] if len(factors) == 1 else _triangular(np.asfortranarray(np.vstack(factors)))
    if w is None:
        return Triangle(total, n, float(n), 0.0, k, intercept)
    positive = w[w > 0]
    return Triangle(total, positive.size, float(w.sum()), float(np.log(positive).sum()), k, intercept)


def merge(a: Triangle, b: Triangle) -> Triangle:
    """The triangle of both sets of rows together."""
    return Triangle(
        _triangular(np.asfortranarray(np.vstack([a.factor, b.factor]))),
        a.n + b.n,
        a.weight + b.weight,
        a.log_weight + b.log_weight,
        a.targets,
        a.intercept,
    )


def _triangular(A: np.ndarray) -> np.ndarray:
    """The R of a Fortran-ordered A, which is destroyed."""
    with blas_for(2.0 * A.size * A.shape[1]):
        packed = dgeqrf(A, lwork=64 * A.shape[1], overwrite_a=1)[0]
    return np.triu(packed[: min(A.shape)])


def error_norms(rows: Triangle, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Square roots of the weighted sums of squares of y - intercept - X coef, without looking at the rows again."""
    first, p = int(rows.intercept), coef.shape[0]
    error = rows.factor[:, first + p :] - rows.factor[:, first : first + p] @ coef
    if rows.intercept:
        error -= rows.factor[:, :1] * intercept
    return norms(error)


@dataclass(frozen=True, eq=False)
class Solution(Stateful):
    """Least squares from a triangle: p slopes, k targets, and the orthonormal basis inference needs.

    The design A = [1, X] (or X) has m columns. `scale` (m,) holds powers of two near their norms, `basis` (m, q) is
    such that Z = (A / scale) basis has Z'WZ = I, and `coordinates` (q, k) = Z'Wy, so coefficients of full rank
    are basis coordinates / scale. `factor` is the triangle of A / scale, `mean` (p,) the mean of X, `rank` that
    of the centred X, `condition` that of A with columns of unit length. `aliased` lists columns that repeat
    others, `constant` those that repeat the constant. `null` (p, p - rank) spans what the data leave free
    among the slopes of X / scale; it is None where it would be too large to be of use.
    """

    coef: np.ndarray
    intercept: np.ndarray
    rank: int
    condition: float
    scale: np.ndarray
    basis: np.ndarray
    coordinates: np.ndarray
    factor: np.ndarray
    mean: np.ndarray
    aliased: np.ndarray
    constant: np.ndarray
    null: np.ndarray | None

    state: ClassVar[Specs] = {
        "coef": floats("p", "t"),
        "intercept": floats("t"),
        "scale": floats("m"),
        "factor": floats("rows", "m", finite=False),
        "mean": floats("p"),
        **dict.fromkeys(("aliased", "constant"), ints(None, below="p")),
    }


def solve(triangle: Triangle) -> Solution:
    """Coefficients of least squares; where the data leave them open, those of least norm."""
    with one_blas_thread():  # small steps one after another, which more threads would only delay
        return _solve(triangle)


def _solve(triangle: Triangle) -> Solution:
    first, k = int(triangle.intercept), triangle.targets
    m = triangle.factor.shape[1] - k
    scale = power_of_two(norms(triangle.factor[:, :m]))
    R = triangle.factor[:, :m] / scale
    T, c = R[first:m, first:], triangle.factor[first:m, m:]
    noise = np.finfo(float).eps * (32 + 4 * np.sqrt(m))
    condition = _condition(R[:m])
    constant = np.empty(0, dtype=int)
    if condition < CLEARLY_FULL:
        S, c1, order, rank = T, c, np.arange(m - first), m - first
    else:
        constant = np.flatnonzero(norms(T) <= noise)
        T = T.copy()
        T[:, constant] = 0.0
        Q, S, order = qr(T, mode="economic", pivoting=True)
        rank = int((np.abs(np.diag(S)) > noise).sum())
        c1 = Q[:, :rank].T @ c
    inverse = solve_triangular(S[:rank, :rank], np.eye(rank))
    kept, dropped = order[:rank], order[rank:]
    slopes = np.zeros((m - first, k))
    slopes[kept] = inverse @ c1
    null = None
    if dropped.size <= rank or dropped.size * (m - first) <= NULL_CELLS:
        null = np.zeros((m - first, dropped.size))
        null[kept] = -inverse @ S[:rank, rank:]
        null[np.abs(null) <= noise] = 0.0  # noise here would weigh 1e100 in a column of scale 1e-100
        null[dropped, np.arange(dropped.size)] = 1.0
    if dropped.size:
        slopes = _least_norm(slopes, null, S[:rank], c1, order, scale[first:])
        slopes[constant] = 0.0
    basis = np.zeros((m, first + rank))
    basis[first + kept, first:] = inverse
    coordinates = c1
    mean, intercept = np.zeros(m - first), np.zeros(k)
    with np.errstate(over="ignore"):  # a column near the smallest number of all; the caller sees the infinity
        coef = slopes / scale[first:, None]
    if first:
        basis[0, 0] = 1.0 / R[0, 0]
        basis[0, 1:] = -(R[0, 1:] / R[0, 0]) @ basis[1:, 1:]
        coordinates = np.vstack([triangle.factor[:1, m:], c1])
        mean = R[0, 1:] / R[0, 0] * (scale[1:] / scale[0])
        with np.errstate(over="ignore", invalid="ignore"):
            intercept = triangle.factor[0, m:] / triangle.factor[0, 0] - mean @ coef
    condition = condition if rank == m - first else np.inf
    aliased = _repeated(T, noise, dropped) if dropped.size > 0 and m <= READ_FROM_LEFT else np.sort(dropped)
    return Solution(coef, intercept, rank, condition, scale, basis, coordinates, R[:m], mean, aliased, constant, null)


def _least_norm(
    slopes: np.ndarray, null: np.ndarray | None, S: np.ndarray, c1: np.ndarray, order: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Among all slopes of X / scale that fit equally well, those whose unscaled values have least norm.

    Few free directions are projected out one by one, which works for columns of any scale; many
    (p > n) are avoided by staying in the row space.
    """
    rank, p = S.shape
    if null is not None and null.shape[1] <= rank:
        free = null / scale[:, None] * power_of_two(scale.min())
        free /= norms(free)
        size = power_of_two(np.abs(slopes / scale[:, None]).max(axis=0, initial=0.0))
        coef = slopes / scale[:, None] / size
        # Rows sorted from large to small keep Householder reflections accurate row by row.
        sorted_rows = np.argsort(-np.abs(free).max(axis=1), kind="stable")
        Q = np.empty_like(free)
        Q[sorted_rows] = np.linalg.qr(free[sorted_rows])[0]
        return (coef - Q @ (Q.T @ coef)) * size * scale[:, None]
    weights = scale / scale.max()
    Q, L = np.linalg.qr((S * weights[order]).T)
    coef = np.empty((p, c1.shape[1]))
    coef[order] = Q @ solve_triangular(L, c1, trans="T")
    return coef * weights[:, None]


def _condition(R: np.ndarray) -> float:
    """Ratio of the largest to the smallest singular value once columns have unit length; inf where R is singular.

    Small factors get all their singular values; large ones the two extremes, by Lanczos on R'R and its inverse.
    """
    m = R.shape[1]
    if len(R) < m or not np.diag(R).all():
        return np.inf
    unit = R / norms(R)
    if m <= ALL_VALUES:
        values = svdvals(unit)
        return float(values[0] / values[-1]) if values[-1] > 0 else np.inf

    def inverse(v: np.ndarray) -> np.ndarray:
        return solve_triangular(unit, solve_triangular(unit, v, trans="T", check_finite=False), check_finite=False)

    start: np.ndarray = np.random.default_rng(0).normal(size=(m,))
    operators: list[Any] = [
        LinearOperator((m, m), product, dtype=np.float64) for product in (lambda v: unit.T @ (unit @ v), inverse)
    ]
    try:
        extremes = [eigsh(A, 1, v0=start, tol=1e-6, return_eigenvectors=False)[0] for A in operators]
    except (ArpackError, ValueError):  # no convergence, or an inverse beyond float64
        values = svdvals(unit)
        return float(values[0] / values[-1]) if values[-1] > 0 else np.inf
    return float(np.sqrt(extremes[0] * extremes[1]))


def _repeated(T: np.ndarray, noise: float, dropped: np.ndarray) -> np.ndarray:
    """As many columns as were dropped, chosen by reading from the left: those in the span of the ones before them.

    This names the later of two copies, as people expect. Without pivoting, rounding noise grows with the
    coefficients of the dependence (a rare level of a factor against its common ones), so the threshold
    rises until the number agrees with the rank; where it never does, the pivoted choice stands.
    """
    for threshold in noise * 10.0 ** np.arange(6):
        left, repeated = T.copy(), []
        for j in range(T.shape[1]):
            remainder = np.linalg.norm(left[:, j])
            if remainder <= threshold:
                repeated.append(j)
                continue
            q = left[:, j] / remainder
            for _ in range(2):  # once more, because the first time leaves rounding errors of the size of the column
                left[:, j + 1 :] -= np.outer(q, q @ left[:, j + 1 :])
        if len(repeated) == dropped.size:
            return np.array(repeated)
    return np.sort(dropped)
