"""The rows of a table as k-means uses them: distances to a few centres, and one pass of assigning and adding up.

A pass over dense rows works in blocks that fit into the cache, on several threads. Sums of blocks are added in their
order, so the number of threads never changes a result. In a block

    1. rows that Hamerly's bounds leave where they are cost O(d);
    2. for the others one float32 matrix product per chunk gives |c_j|^2 - 2 x'c_j for all centres, centred and in units
       in which the longest row has length one. A product of m terms rounded to float32 is off by at most
       c (|x|^2 + |c_j|^2), c = 1.05 (d + 8) 2^-24 (Higham 2002, ch. 3), so a larger gap between best and second best is
       certain. Whoever is closer to a tie is measured in float64 by differences: labels are those of exact distances;
    3. steps from the old centre, weights and squared distances are added up.

Rows of a sparse table are multiplied as they are, in float64. Hamerly (2010), SIAM Data Mining, 130-140.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from assay.clustering._kernels import accumulate, nearest_in_products, screen, settle, squared_distances
from assay.numerics.threads import parallel

__all__ = ["Bounds", "DenseRows", "Pass", "SparseRows", "is_sparse", "make_rows"]

Array = np.ndarray

BLOCK = 8192
"""Rows of a block, at least; a block of fewer rows than centres would spend its time on empty sums."""
PRODUCT_CELLS = 1 << 16
"""Products held at a time: 256 KiB of float32, so that they are compared while they are in the cache."""

FAR = 2.0**20
"""Centres so many times farther away than the farthest row are measured in float64 from the beginning."""


@dataclass(eq=False)
class Pass:
    """What one pass over the rows gives: weight, inertia and mean step from the centre, cluster by cluster."""

    moved: Array
    weight: Array
    inertia: Array

    def __add__(self, other: Pass) -> Pass:
        return Pass(self.moved + other.moved, self.weight + other.weight, self.inertia + other.inertia)


@dataclass(eq=False)
class Bounds:
    """What is known of each row between two passes: its label, the squared distance to its centre, and a lower bound on
    the distance to every other one."""

    labels: Array
    own: Array
    lower: Array
    centres: Array | None = None


@dataclass(eq=False)
class DenseRows:
    """Rows of float32 or float64, C order, with positive weights."""

    X: Array
    w: Array
    n_jobs: int | None = None
    _sieve: tuple[Array, Array, Array, Array, float] | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape[0], self.X.shape[1]

    def take(self, rows: Any) -> Array:
        """Some rows, in float64."""
        return self.X[rows].astype(np.float64)

    def variance(self) -> float:
        """Mean variance of the columns."""
        mean = np.average(self.X, axis=0, weights=self.w)
        return float(np.mean(np.average((self.X - mean) ** 2, axis=0, weights=self.w)))

    def blocks(self, k: int) -> list[tuple[int, int]]:
        """First and last row of each block; they depend on the sizes alone."""
        n, step = len(self.X), max(BLOCK, 4 * k)
        return [(first, min(n, first + step)) for first in range(0, n, step)]

    def squared(self, C: Array) -> Array:
        """Squared distances to a few centres, one row each."""
        out = np.empty((len(C), len(self.X)))
        C = np.ascontiguousarray(C, dtype=np.float64)
        parallel(
            lambda block: squared_distances(self.X, C, *block, out), self.blocks(1), n_jobs=self.n_jobs,
            work=out.size * C.shape[1],
        )  # fmt: skip
        return out

    def distances(self, C: Array) -> Array:
        """Distances to all centres, one row per row."""
        return cdist(self.X, C)

    def sieve(self) -> tuple[Array, Array, Array, Array, float]:
        """Centred rows and a column of ones in float32, their centre, squared lengths, and one over their unit."""
        if self._sieve is None:
            n, d = self.X.shape
            centre = np.average(self.X, axis=0, weights=self.w)
            F = np.empty((n, d + 1), dtype=np.float32)
            longest = float(max(np.abs(self.X.max(axis=0) - centre).max(), np.abs(self.X.min(axis=0) - centre).max()))
            scale = 1.0 / longest if longest > 0 else 1.0
            lengths = np.empty(n)
            for first, last in self.blocks(1):
                centred = (self.X[first:last] - centre) * scale
                lengths[first:last] = np.einsum("ij,ij->i", centred, centred)
                F[first:last, :d] = centred
            F[:, d] = 1.0
            share = 1.05 * (d + 8) * 2.0**-24
            self._sieve = (F, centre, lengths, share * lengths + 2.0**-100, scale)
        return self._sieve

    def start(self) -> Bounds:
        """Nothing is known yet."""
        n = len(self.X)
        return Bounds(np.zeros(n, dtype=np.int32), np.zeros(n), np.zeros(n))

    def one_pass(self, C: Array, known: Bounds, bounds: str = "none") -> Pass:
        """Assign every row to its nearest centre and add up; `known` is read and brought up to date."""
        k, d = C.shape
        F, centre, lengths, share_of_lengths, scale = self.sieve()
        B = np.empty((k, d + 1), dtype=np.float32)
        centred = (C - centre) * scale
        if np.abs(centred).max() > FAR:
            return self._measured(C, known)
        B[:, :d] = -2.0 * centred
        squares = np.einsum("ij,ij->i", centred, centred)
        B[:, d] = squares
        slack = 2.0 * (share_of_lengths + 1.05 * (d + 8) * 2.0**-24 * squares.max())
        moving = None if bounds == "none" or known.centres is None else _moving(known.centres, C)
        known.centres = C

        def block(limits: tuple[int, int]) -> Pass:
            first, last = limits
            if moving is None:
                self._search(F, B, C, np.arange(first, last), lengths, slack, scale, known, whole=limits)
            else:
                active = np.empty(last - first, dtype=np.int64)
                count = screen(self.X, C, known.labels, known.own, *moving, first, last, known.lower, active)
                self._search(F, B, C, active[:count], lengths, slack, scale, known)
            out = Pass(np.zeros((k, d)), np.zeros(k), np.zeros(k))
            accumulate(
                self.X, self.w, known.labels, C, first, last, out.moved, out.weight, out.inertia, known.own
            )  # fmt: skip
            return out

        return reduce(Pass.__add__, parallel(block, self.blocks(k), n_jobs=self.n_jobs, work=self.X.size * k))

    def _measured(self, C: Array, known: Bounds) -> Pass:
        """A pass whose centres lie too far outside the rows for products to be of use."""
        settle(self.X, C, np.arange(len(self.X)), known.labels)
        known.centres = None
        out = Pass(np.zeros(C.shape), np.zeros(len(C)), np.zeros(len(C)))
        accumulate(self.X, self.w, known.labels, C, 0, len(self.X), out.moved, out.weight, out.inertia, known.own)
        return out

    def _search(
        self, F: Array, B: Array, C: Array, rows: Array, lengths: Array, slack: Array, scale: float, known: Bounds,
        whole: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Find the nearest centres of some rows, of a run of them where `whole` says which."""
        k, step = len(B), max(64, PRODUCT_CELLS // len(B))
        step = min(step, max(1, len(rows)))
        cells, best, second = np.empty(k * step, np.float32), np.empty(step, np.float32), np.empty(step, np.float32)
        which, near = np.empty(step, np.int32), np.empty(step, np.int64)
        for at in range(0, len(rows), step):
            part = rows[at : at + step]
            m = len(part)
            G = cells[: k * m].reshape(k, m)
            chosen = F[part] if whole is None else F[whole[0] + at : whole[0] + at + m]
            np.dot(B, chosen.T, out=G)
            count = nearest_in_products(
                G, part, lengths, slack, 1.0 / scale, best, second, which, known.labels, known.lower, near
            )
            if count:
                settle(self.X, C, near[:count], known.labels)

    def equal_to(self, row: int) -> Array:
        """Which rows hold the same numbers."""
        return (self.X[row] == self.X).all(axis=1)


def _moving(old: Array, new: Array) -> tuple[Array, Array, Array]:
    """How far each centre has moved, the two largest moves, and half the distance to the nearest other centre."""
    shift = np.sqrt(((new - old) ** 2).sum(axis=1)) * (1 + 1e-12)
    order = np.argsort(shift)
    most = np.array([shift[order[-1]], shift[order[-2]] if len(order) > 1 else 0.0, float(order[-1])])
    gaps = cdist(new, new)
    np.fill_diagonal(gaps, np.inf)
    return shift, most, gaps.min(axis=1) / 2


@dataclass(eq=False)
class SparseRows:
    """Rows of a CSR array in float64, with positive weights; squared distances by expansion."""

    X: Any
    w: Array
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        self.lengths = np.asarray(self.X.multiply(self.X).sum(axis=1), dtype=np.float64).ravel()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape[0], self.X.shape[1]

    def take(self, rows: Any) -> Array:
        """Some rows, dense."""
        return self.X[np.atleast_1d(rows)].toarray().astype(np.float64)

    def variance(self) -> float:
        """Mean variance of the columns."""
        total = self.w.sum()
        mean = (self.w @ self.X) / total
        return float(np.mean(np.maximum(self.w @ self.X.multiply(self.X).tocsr() / total - mean**2, 0.0)))

    def squared(self, C: Array) -> Array:
        """Squared distances to a few centres, one row each."""
        out = np.asarray(self.X @ C.T).T * -2.0 + self.lengths + np.einsum("ij,ij->i", C, C)[:, None]
        # What rounding leaves of a distance of zero must not be drawn as a new centre.
        out[out < 1e-13 * (self.lengths + np.einsum("ij,ij->i", C, C)[:, None])] = 0.0
        return out

    def distances(self, C: Array) -> Array:
        """Distances to all centres, one row per row."""
        return np.sqrt(self.squared(C)).T.copy()

    def start(self) -> Bounds:
        """Nothing is known yet."""
        n = self.shape[0]
        return Bounds(np.zeros(n, dtype=np.int32), np.zeros(n), np.zeros(n))

    def one_pass(self, C: Array, known: Bounds, bounds: str = "none") -> Pass:
        """Assign every row to its nearest centre and add up."""
        del bounds  # a product of sparse rows is too cheap to be saved
        (n, _), k = self.shape, len(C)
        squares, step = np.einsum("ij,ij->i", C, C), max(1, (1 << 20) // k)
        for first in range(0, n, step):
            part = np.asarray(self.X[first : first + step] @ C.T) * -2.0 + squares
            known.labels[first : first + step] = part.argmin(axis=1)
            known.own[first : first + step] = part.min(axis=1)
        np.maximum(known.own + self.lengths, 0.0, out=known.own)
        member = sparse.csr_array((self.w, (known.labels, np.arange(n))), shape=(k, n))
        weight = np.bincount(known.labels, self.w, minlength=k)
        moved = (member @ self.X).toarray() - weight[:, None] * C
        return Pass(moved, weight, np.bincount(known.labels, self.w * known.own, minlength=k))

    def equal_to(self, row: int) -> Array:
        """Which rows hold the same numbers."""
        return self.squared(self.take(row))[0] == 0.0


def is_sparse(table: Any) -> bool:
    """Whether a clean table is sparse."""
    return bool(sparse.issparse(table))


def make_rows(X: Any, w: Array | None, n_jobs: int | None) -> DenseRows | SparseRows:
    """The rows of a clean table, dense or CSR."""
    w = np.ones(X.shape[0]) if w is None else w
    if is_sparse(X):
        return SparseRows(sparse.csr_array(X), w, n_jobs)
    return DenseRows(X, w, n_jobs)
