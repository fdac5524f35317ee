"""The leading singular values and right singular vectors of a centred table, by the way that fits its shape.

Z = diag(sqrt(w)) (X - mean) / scale = U S V'

n >= p     eigenvectors of the centred moments Z'Z, read block by block: n p^2 multiply-adds. Squaring halves the
           digits of small singular values, so where the last one asked for is below 1e-4 of the first, Z = QR and
           the singular values of the triangle R are taken instead.
n < p      the same on the other side: ZZ', or Z itself.
sparse     X'WX and the means, never a dense table; Lanczos where neither side is small.
randomized Q spans (ZZ')^q Z G with G normal, l = k + oversamples columns; singular values of Q'Z.
           Halko, Martinsson, Tropp (2011), SIAM Review 53, 217-288.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, svds

from assay.errors import ParameterError
from assay.numerics import moments, triangle
from assay.numerics.scale import power_of_two

__all__ = ["Spectrum", "divisor", "exact", "randomized"]

Array = np.ndarray

SQUARE_LOSS = 1e-8
"""Below this share of the largest an eigenvalue of squares has lost half its digits."""
GRAM = 5_000
"""Up to so many rows or columns a sparse table gets its dense matrix of products."""
ALL_AT_ONCE = 500
"""Up to this size all eigenvectors take less time than some of them."""
ROUNDING = 8 * np.finfo(float).eps
EXTREME = (1e-200, 1e250)
"""Sums of squares outside are taken in another unit."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Means, scales, the k largest singular values, their k x p directions, and the length of the table.

    The square of `length` is the sum of all squares, that of the singular values included which are not here. Singular
    values below `noise` times the largest cannot be told from zero.
    """

    mean: Array
    scale: Array
    values: Array
    vectors: Array
    length: float
    noise: float

    @property
    def rank(self) -> int:
        """How many of them differ from zero."""
        return int((self.values > self.noise * self.values[0]).sum())


def exact(X: Any, w: Array, k: int, scaled: bool) -> Spectrum:
    """Singular values to full precision, whatever the condition."""
    is_sparse = sparse.issparse(X)
    with triangle.blas_for(float(np.prod(X.shape)) * min(X.shape)):
        if is_sparse and min(X.shape) > GRAM:
            found = _lanczos(_Centred(X, w, scaled), k)
        elif X.shape[0] < X.shape[1]:
            found = _rows(_Centred(X, w, scaled), k)
        else:
            found = (_sparse_columns if is_sparse else _columns)(X, w, k, scaled)
    return _signed(found)


def _signed(found: Spectrum) -> Spectrum:
    """The entry of each direction that is largest in size (of nearly equal ones the first) is positive."""
    size = np.abs(found.vectors)
    largest = np.argmax(size >= (1 - 1e-9) * size.max(axis=1, keepdims=True), axis=1)
    sign = np.sign(found.vectors[np.arange(len(size)), largest])
    return replace(found, vectors=np.ascontiguousarray(found.vectors * np.where(sign == 0, 1.0, sign)[:, None]))


def _spread(mean: Array, squares: Array, weight: float, unit: Any = 1.0) -> Array:
    """Standard deviations from sums of squares in some unit; 1 for columns that are constant up to rounding."""
    spread = np.sqrt(np.maximum(squares, 0.0) / divisor(weight)) * unit
    return np.where(spread <= 16 * np.finfo(float).eps * np.abs(mean), 1.0, spread)


def divisor(weight: float) -> float:
    """Of a sum of squares to make it a variance: n - 1 where that is positive."""
    return weight - 1.0 if weight > 1.0 else weight


def _leading(C: Array, k: int) -> tuple[Array, Array]:
    """The k largest eigenvalues of a symmetric matrix, largest first, and their directions as rows."""
    few = len(C) > ALL_AT_ONCE and k < len(C) // 4
    values, vectors = linalg.eigh(C, subset_by_index=[len(C) - k, len(C) - 1]) if few else np.linalg.eigh(C)
    return values[::-1][:k], vectors[:, ::-1][:, :k].T


# Dense tables.


def _columns(X: Array, w: Array, k: int, scaled: bool, offset: Array | None = None) -> Spectrum:
    """From the moments; `offset` is what the rows were moved by where they come in another unit already."""
    even = bool((w == w[0]).all())  # equal weights are a factor
    with np.errstate(over="ignore", invalid="ignore"):
        found = moments.summarize(X, np.zeros((len(X), 1)), None if even else w)
    factor = float(w[0]) if even else 1.0
    squares = np.diag(found.xx)
    if offset is None and not EXTREME[0] < squares.max() < EXTREME[1] and (X[0] != X).any():
        return _rescaled(X, w, k, scaled)
    mean = found.mx if offset is None else found.mx + offset
    scale = _spread(mean, factor * squares, float(w.sum())) if scaled else np.ones(X.shape[1])
    C = found.xx / np.outer(scale, scale)
    values, vectors = _leading(C, k)
    values, length = factor * values, float(np.sqrt(factor * np.trace(C)))
    if values[-1] > SQUARE_LOSS * values[0]:
        return Spectrum(found.mx, scale, np.sqrt(values), vectors, length, ROUNDING * len(X))
    R = triangle.summarize(X - found.mx, np.zeros(len(X)), None if even else w).factor[1 : len(C) + 1, 1 : len(C) + 1]
    _, singular, vectors = linalg.svd(R / scale, full_matrices=False)
    full = np.zeros(len(C))
    full[: singular.size] = singular * np.sqrt(factor)
    return Spectrum(found.mx, scale, full[:k], _completed(vectors, k), length, ROUNDING * len(X))


def _completed(vectors: Array, k: int) -> Array:
    """At least k orthonormal rows."""
    if len(vectors) >= k:
        return vectors[:k]
    more = linalg.null_space(vectors).T
    return np.vstack([vectors, more])[:k]


def _rescaled(X: Array, w: Array, k: int, scaled: bool) -> Spectrum:
    """The same from the first row on, in a unit in which squares neither overflow nor vanish."""
    Z = X - X[0]
    unit = float(power_of_two(np.abs(Z).max()))
    with np.errstate(over="ignore"):
        found = _columns(Z / unit, w, k, scaled, X[0] / unit)
    mean = X[0] + found.mean * unit
    if scaled:
        return replace(found, mean=mean, scale=found.scale * unit)
    return replace(found, mean=mean, values=found.values * unit, length=found.length * unit)


def _length(Z: Array) -> float:
    """Root of the sum of squares, in a unit in which they neither overflow nor vanish."""
    with np.errstate(over="ignore"):
        squares = float(np.einsum("ij,ij->", Z, Z))
    if EXTREME[0] < squares < EXTREME[1]:
        return float(np.sqrt(squares))
    unit = float(power_of_two(np.abs(Z).max()))
    return unit * float(np.sqrt(np.einsum("ij,ij->", Z / unit, Z / unit)))


class _Centred:
    """The table Z: a dense array, or for sparse X products with it."""

    def __init__(self, X: Any, w: Array, scaled: bool) -> None:
        weight = float(w.sum())
        self.root = np.sqrt(w)
        is_sparse = sparse.issparse(X)
        if is_sparse:
            self.mean = np.asarray(w @ X).ravel() / weight
            squares = np.asarray(w @ X.multiply(X)).ravel() - weight * self.mean**2
            self.scale = _spread(self.mean, squares, weight) if scaled else np.ones(X.shape[1])
            self.length = float(np.sqrt(np.sum(np.maximum(squares, 0.0) / self.scale**2)))
            self.X: Any = X
            self.Z: Array | None = None
            return
        self.mean = w @ X / weight
        Z = X - self.mean
        drift = w @ Z / weight  # what rounding has left in the mean
        self.mean = self.mean + drift
        Z -= drift
        unit = power_of_two(np.abs(Z).max(axis=0))
        self.scale = _spread(self.mean, w @ np.square(Z / unit), weight, unit) if scaled else np.ones(X.shape[1])
        Z /= self.scale
        Z *= self.root[:, None]
        self.length = _length(Z)
        self.X, self.Z = X, Z

    def times(self, V: Array) -> Array:
        """Z V."""
        if self.Z is not None:
            return self.Z @ V
        V = V / self.scale.reshape(-1, *[1] * (V.ndim - 1))
        out = self.X @ V - self.mean @ V
        return out * self.root.reshape(-1, *[1] * (V.ndim - 1))

    def transposed_times(self, U: Array) -> Array:
        """Z' U."""
        if self.Z is not None:
            return self.Z.T @ U
        U = U * self.root.reshape(-1, *[1] * (U.ndim - 1))
        out = self.X.T @ U - np.multiply.outer(self.mean, U.sum(axis=0))
        return out / self.scale.reshape(-1, *[1] * (U.ndim - 1))

    def spectrum(self, values: Array, vectors: Array) -> Spectrum:
        """Singular values and directions of this table; products of a sparse one are known to half the digits."""
        noise = ROUNDING * max(self.shape) if self.Z is not None else 1e-7
        return Spectrum(self.mean, self.scale, values, vectors, self.length, noise)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape


def _rows(table: _Centred, k: int) -> Spectrum:
    """More columns than rows: eigenvectors of ZZ', or the singular values of Z where it is dense."""
    if table.Z is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            K = table.Z @ table.Z.T
    else:
        S = sparse.diags_array(table.root) @ table.X @ sparse.diags_array(1.0 / table.scale)
        a, b = S @ (table.mean / table.scale), table.root
        K = (S @ S.T).toarray() - np.outer(a, b) - np.outer(b, a)
        K += np.sum((table.mean / table.scale) ** 2) * np.outer(b, b)
    n = len(K)
    top = np.diag(K).max()
    if table.Z is None or EXTREME[0] < top < EXTREME[1]:
        values, U = _leading(K, k)
        values = np.maximum(values, 0.0)
        if values[-1] > SQUARE_LOSS * values[0] and values[0] > 0:
            vectors = (table.transposed_times(U.T) / np.sqrt(values)).T
            return table.spectrum(np.sqrt(values), vectors)
    Z = table.Z if table.Z is not None else table.transposed_times(np.eye(n)).T
    _, singular, vectors = linalg.svd(Z, full_matrices=False)
    return table.spectrum(singular[:k], vectors[:k])


# Sparse tables.


def _sparse_columns(X: Any, w: Array, k: int, scaled: bool) -> Spectrum:
    table = _Centred(X, w, scaled)
    rooted = sparse.diags_array(table.root) @ X
    C = (rooted.T @ rooted).toarray() - float(w.sum()) * np.outer(table.mean, table.mean)
    C /= np.outer(table.scale, table.scale)
    values, vectors = _leading(C, k)
    return table.spectrum(np.sqrt(np.maximum(values, 0.0)), vectors)


def _lanczos(table: _Centred, k: int) -> Spectrum:
    n, p = table.shape
    if k >= min(n, p):
        what = f"n_components = {k} of a sparse table of {n:,} x {p:,} needs all of its components"
        raise ParameterError(what, remedy=f"ask for fewer, such as n_components={min(50, k - 1)}")
    products = {"matvec": table.times, "rmatvec": table.transposed_times}
    operator: Any = LinearOperator((n, p), dtype=np.float64, **products)
    _, values, vectors = svds(operator, k, v0=np.random.default_rng(0).normal(size=min(n, p)))
    order = np.argsort(-values)
    return table.spectrum(values[order], vectors[order])


# Random directions.


def randomized(
    X: Any, w: Array, k: int, scaled: bool, oversamples: int, iterations: int, rng: np.random.Generator
) -> Spectrum:
    """Singular values by products with random directions, which power iterations turn to the leading ones."""
    table = _Centred(X, w, scaled)
    n, p = table.shape
    size = min(k + oversamples, n, p)
    Q = rng.normal(size=(p, size))
    with triangle.blas_for(float(n) * p * size):
        for _ in range(iterations):
            Q = linalg.qr(table.times(Q), mode="economic", overwrite_a=True)[0]
            Q = linalg.qr(table.transposed_times(Q), mode="economic", overwrite_a=True)[0]
        Q = linalg.qr(table.times(Q), mode="economic", overwrite_a=True)[0]
        _, values, vectors = linalg.svd(table.transposed_times(Q).T, full_matrices=False)
    return _signed(table.spectrum(values[:k], vectors[:k]))
