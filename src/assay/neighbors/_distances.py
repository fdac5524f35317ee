"""Distances between rows: what each one means, and the space in which it is searched.

    euclidean    ||x - z||                        manhattan   sum_j |x_j - z_j|
    minkowski    (sum_j |x_j - z_j|^p)^(1/p)      chebyshev   max_j |x_j - z_j|
    cosine       1 - x'z / (||x|| ||z||)          hamming     the share of columns that differ
    mahalanobis  sqrt((x - z)' V^-1 (x - z)), V the covariance of the training rows unless it is given

Cosine is half the squared Euclidean distance of rows scaled to length one, Mahalanobis the Euclidean distance of rows
multiplied by M, M'M = V^-1; both are searched as Euclidean ones. `reduced` is the one place that says how far a row is
from another, to the last bit: every search may use whatever bounds it likes to find out which rows matter, but compares
by `reduced` alone (or the same sums in the same order), so that all of them agree on ties too. Powers of two keep
squares from overflowing or vanishing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from assay.errors import DataError, ParameterError
from assay.numerics.jit import kernel
from assay.numerics.scale import power_of_two

__all__ = [
    "CHEBYSHEV",
    "EUCLIDEAN",
    "HAMMING",
    "MANHATTAN",
    "METRICS",
    "MINKOWSKI",
    "Space",
    "make_space",
    "reduced",
]

Array = np.ndarray

EUCLIDEAN, MANHATTAN, CHEBYSHEV, MINKOWSKI, HAMMING = range(5)
METRICS = ("euclidean", "manhattan", "minkowski", "chebyshev", "cosine", "mahalanobis", "hamming")
_CODES = {"manhattan": MANHATTAN, "chebyshev": CHEBYSHEV, "hamming": HAMMING}

SINGULAR = 1e-12
"""Of a correlation matrix: an eigenvalue this small is rounding error, and so would be the distances."""


@kernel(exact=True)
def reduced(x: Array, z: Array, metric: int, power: float) -> float:
    """What stands for the distance of two rows: its square (Euclidean), a count (Hamming), or the distance itself."""
    p = x.size
    total = 0.0
    if metric == EUCLIDEAN:
        for j in range(p):
            step = x[j] - z[j]
            total += step * step
    elif metric == MANHATTAN:
        for j in range(p):
            total += abs(x[j] - z[j])
    elif metric == HAMMING:
        for j in range(p):
            total += 1.0 if x[j] != z[j] else 0.0
    else:
        largest = 0.0
        for j in range(p):
            largest = max(largest, abs(x[j] - z[j]))
        if metric == CHEBYSHEV or largest == 0.0:
            return largest
        for j in range(p):
            total += (abs(x[j] - z[j]) / largest) ** power
        return largest * total ** (1.0 / power)
    return total


@kernel(exact=True)
def multiply(X: Array, mean: Array, M: Array, out: Array) -> None:
    """out = (X - mean) M', row by row, each in the same order of sums whatever rows stand beside it."""
    for i in range(X.shape[0]):
        for a in range(M.shape[1]):
            out[i, a] = 0.0
        for b in range(X.shape[1]):
            v = X[i, b] - mean[b]
            for a in range(M.shape[1]):
                out[i, a] += v * M[b, a]


@dataclass(frozen=True, eq=False)
class Space:
    """Where a distance is searched: `map` takes rows there, `distance` takes reduced distances back.

    | field  | meaning                                                                                   |
    |--------|-------------------------------------------------------------------------------------------|
    | name   | the distance                                                                              |
    | code   | the distance in the space of the search                                                   |
    | power  | Minkowski's p                                                                             |
    | unit   | a power of two by which rows are divided                                                  |
    | mean   | subtracted from rows before `matrix` (Mahalanobis)                                        |
    | matrix | its columns are the new axes (Mahalanobis)                                                |
    | zeros  | whether a training row is zero (cosine): such rows get an axis of their own, at distance 1 |
    """

    name: str
    code: int
    power: float = 2.0
    unit: float = 1.0
    mean: Array | None = None
    matrix: Array | None = None
    zeros: bool = False

    def map(self, X: Array, *, training: bool) -> Array:
        """The rows in the space of the search, contiguous."""
        if self.name == "cosine":
            return self._on_the_sphere(X, training)
        X = self._turned(X)
        return np.ascontiguousarray(X if self.unit == 1.0 else X / self.unit)

    def _turned(self, X: Array) -> Array:
        """Rows along the axes of `matrix`, before they are divided by `unit`."""
        if self.matrix is None or self.mean is None:
            return X
        out = np.empty((X.shape[0], self.matrix.shape[1]))
        multiply(np.ascontiguousarray(X), self.mean, self.matrix, out)
        return out

    def _on_the_sphere(self, X: Array, training: bool) -> Array:
        X = np.ascontiguousarray(X)  # sums over a row must not depend on how its table lies in memory
        rows = X / power_of_two(np.abs(X).max(axis=1))[:, None]
        length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        zero = length == 0.0
        rows /= np.where(zero, 1.0, length)[:, None]
        if self.zeros:
            rows = np.column_stack([rows, zero.astype(np.float64) if training else np.zeros(len(rows))])
        return np.ascontiguousarray(rows)

    def distance(self, found: Array, columns: int) -> Array:
        """Distances from reduced ones."""
        if self.name == "cosine":
            return 0.5 * found
        if self.code == HAMMING:
            return found / columns
        return (np.sqrt(found) if self.code == EUCLIDEAN else found) * self.unit

    def strained(self, X: Array) -> Array:
        """Which rows are so large in these units that a power of them might overflow."""
        if self.name == "cosine" or self.code == HAMMING:
            return np.zeros(len(X), dtype=bool)
        exponent = np.frexp(np.abs(self._turned(X)).max(axis=1))[1] - np.frexp(self.unit)[1] + 1
        return max(self.power, 2.0) * (exponent + 1.0) >= 900.0

    def wider(self, X: Array) -> Space:
        """The same space in units in which rows like these can be raised to the power."""
        return replace(self, unit=_twice(self._turned(X)))


def make_space(metric: str, p: float, params: Any, X: Array) -> Space:
    """The space of a distance, for the training rows X."""
    given = _checked_params(metric, params)
    if metric == "cosine":
        return Space("cosine", EUCLIDEAN, zeros=bool((~X.any(axis=1)).any()))
    if metric == "mahalanobis":
        mean, matrix = _whitening(X, given)
        space = Space("mahalanobis", EUCLIDEAN, mean=mean, matrix=matrix)
        return replace(space, unit=_unit(space.map(X, training=True)))
    if metric == "minkowski" and p not in (1.0, 2.0, np.inf):
        return Space(metric, MINKOWSKI, power=float(p), unit=_twice(X))
    code = (
        {1.0: MANHATTAN, 2.0: EUCLIDEAN}.get(p, CHEBYSHEV) if metric == "minkowski" else _CODES.get(metric, EUCLIDEAN)
    )
    return Space(metric, code, unit=1.0 if code == HAMMING else _unit(X))


def _largest(X: Array) -> float:
    """The largest entry by size; the table is not copied for it."""
    return max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)))


def _twice(X: Array) -> float:
    """A power of two of at least twice the largest entry, so that no two entries differ by more than one unit."""
    return 2.0 * float(power_of_two(_largest(X)))


def _unit(X: Array) -> float:
    """One where squares and their sums are safe, which is nearly always: then the rows are searched as they are."""
    largest = _largest(X)
    return 1.0 if largest == 0.0 or 1e-120 < largest < 1e130 else _twice(X)


def _checked_params(metric: str, params: Any) -> dict[str, Array]:
    given = dict(params or {})
    known = {"V", "VI"} if metric == "mahalanobis" else set()
    if set(given) - known or len(given) > 1:
        words = "V or VI, one of them" if known else f"no entries for metric={metric!r}"
        raise ParameterError(f"metric_params has {', '.join(map(repr, sorted(given)))}", remedy=f"it may have {words}")
    return given


def _whitening(X: Array, given: dict[str, Array]) -> tuple[Array, Array]:
    """The mean of the rows, and a matrix A with A A' = V^-1, so that ||A'(x - z)|| is Mahalanobis' distance."""
    p = X.shape[1]
    mean = X.mean(axis=0)
    name, V = next(iter(given.items()), ("V", None))
    if V is None:
        if X.shape[0] < 2:
            raise DataError(
                "one row has no covariance (n_samples = 1)", remedy="pass more rows or metric_params={'V': V}"
            )
        Z = X - mean
        unit = power_of_two(np.abs(Z).max(axis=0))
        V = (Z / unit).T @ (Z / unit) / (X.shape[0] - 1)
    else:
        unit = np.ones(p)
        V = _checked_matrix(name, V, p)
    spread = np.sqrt(np.diag(V))
    if not spread.all():
        column = int(np.argmin(spread != 0))
        remedy = "drop the column, or pass metric_params={'V': V}"
        raise DataError(f"column {column} is constant, so the covariance matrix is singular", remedy=remedy)
    values, axes = linalg.eigh(V / np.outer(spread, spread))
    if values[0] <= SINGULAR * values[-1] * p:
        loud = int(np.argmax(np.abs(axes[:, 0])))
        what = f"the covariance matrix is singular: column {loud} is redundant, or there are too few rows"
        raise DataError(what, remedy="drop that column, pass more rows, or pass metric_params={'V': V}")
    if name == "VI":
        return mean, np.ascontiguousarray(axes * np.sqrt(values) * spread[:, None])
    return mean, np.ascontiguousarray(axes / np.sqrt(values) / (spread * unit)[:, None])


def _checked_matrix(name: str, V: Any, p: int) -> Array:
    V = np.asarray(V, dtype=np.float64)
    fine = V.shape == (p, p) and np.isfinite(V).all() and np.allclose(V, V.T) and (np.diag(V) >= 0).all()
    if not fine:
        what = f"metric_params[{name!r}] is not a covariance matrix of {p} columns"
        raise ParameterError(what, remedy=f"pass a symmetric, positive definite array of shape ({p}, {p})")
    return 0.5 * (V + V.T)
