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
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from assay.clustering._kernels import (
    accumulate,
    column_sums,
    fill_sieve,
    nearest_in_few_columns,
    nearest_in_products,
    rows_of_group,
    scan_group,
    screen,
    screen_groups,
    settle,
    squared_distances,
)
from assay.numerics.threads import parallel

__all__ = ["Bounds", "DenseRows", "Pass", "SparseRows", "is_sparse", "make_rows"]

Array = np.ndarray

BLOCK = 8192
"""Rows of a block, at least; a block of fewer rows than centres would spend its time on empty sums."""
LONG_BLOCK, BLOCK_WORK = 1 << 16, 1 << 21
"""Rows of a block, at most, where so many products would take no longer than the call."""
PRODUCT_CELLS = 1 << 16
"""Products held at a time: 256 KiB of float32, so that they are compared while they are in the cache."""
FEW = 4
"""Up to so many columns rows and centres are multiplied while they are compared."""
FEW_ROWS = 1024
"""Rows compared at a time then: they and what is known of them stay in the innermost cache."""

MOST = 0.7
"""The share of active rows of a block from which on all its rows are looked at."""
GROUP = 16
"""Centres of a group, about: so many products are no dearer than the bound they save."""
GROUP_ROWS = 4096
"""Rows multiplied with a group at a time."""
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
    groups: Array | None = None
    by_group: Array | None = None

    def forget(self) -> None:
        """Labels have been changed: bounds start anew."""
        self.centres, self.by_group = None, None


@dataclass(eq=False)
class Sieve:
    """Centred rows in float32: `F` with a column of ones, or up to four columns as rows of `columns`."""

    F: Array
    columns: Array | None
    centre: Array
    lengths: Array
    scale: float


@dataclass(eq=False)
class Query:
    """Centres C, what they are multiplied with, and from where on products can be told apart (see `_kernels`)."""

    C: Array
    B: Array
    slack: tuple[float, float]


@dataclass(eq=False)
class DenseRows:
    """Rows of float32 or float64, C order, with positive weights."""

    X: Array
    w: Array
    n_jobs: int | None = None
    _sieve: Sieve | None = field(default=None, repr=False)
    _moments: tuple[Array, float, float] | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape[0], self.X.shape[1]

    def take(self, rows: Any) -> Array:
        """Some rows, in float64."""
        return self.X[rows].astype(np.float64)

    def moments(self) -> tuple[Array, float, float]:
        """Means of the columns, mean variance, and the largest step of any cell from its column's mean."""
        if self._moments is None:
            centre = self.X[0].astype(np.float64)
            for _ in range(2):  # the second time about the mean
                found = self._about(centre)
                centre = centre + found[0] / self.w.sum()
            self._moments = (centre, float(np.mean(found[1]) / self.w.sum()), found[2])
        return self._moments

    def _about(self, centre: Array) -> tuple[Array, Array, float]:
        def block(limits: tuple[int, int]) -> tuple[Array, Array, float]:
            steps, squares = np.zeros(len(centre)), np.zeros(len(centre))
            return steps, squares, column_sums(self.X, self.w, centre, *limits, steps, squares)

        parts = parallel(block, self.blocks(1), n_jobs=self.n_jobs, work=self.X.size)
        return reduce(lambda a, b: (a[0] + b[0], a[1] + b[1], max(a[2], b[2])), parts)

    def variance(self) -> float:
        """Mean variance of the columns."""
        return self.moments()[1]

    def blocks(self, k: int) -> list[tuple[int, int]]:
        """First and last row of each block; they depend on the sizes alone."""
        n, d = self.shape
        step = max(BLOCK, 4 * k, min(LONG_BLOCK, BLOCK_WORK // (k * d)))
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

    def sieve(self) -> Sieve:
        """Centred rows in float32, their centre, squared lengths, and one over their unit."""
        if self._sieve is None:
            n, d = self.X.shape
            centre, _, largest = self.moments()
            scale = 1.0 / largest if largest > 0 else 1.0
            F, lengths, columns = np.empty((n, d + 1), dtype=np.float32), np.empty(n), None
            parallel(
                lambda block: fill_sieve(self.X, centre, scale, *block, F, lengths), self.blocks(1), n_jobs=self.n_jobs,
                work=F.size,
            )  # fmt: skip
            if d <= FEW:
                columns = np.zeros((FEW, n), dtype=np.float32)
                columns[:d] = F[:, :d].T
            self._sieve = Sieve(F, columns, centre, lengths, scale)
        return self._sieve

    def start(self) -> Bounds:
        """Nothing is known yet."""
        n = len(self.X)
        return Bounds(np.zeros(n, dtype=np.int32), np.zeros(n), np.zeros(n))

    def one_pass(self, C: Array, known: Bounds, bounds: str = "none") -> Pass:
        """Assign every row to its nearest centre and add up; `known` is read and brought up to date."""
        k, d = C.shape
        sieve = self.sieve()
        centred = (C - sieve.centre) * sieve.scale
        if np.abs(centred).max() > FAR:
            return self._measured(C, known)
        squares = np.einsum("ij,ij->i", centred, centred)
        few = sieve.columns is not None and bounds != "yinyang"
        width = FEW if few else d
        B = np.zeros((k + k % 2 if few else k, width + 1), dtype=np.float32)
        B[:k, :d], B[:k, width], B[k:, width] = -2.0 * centred, squares, np.inf
        share = 2.1 * (d + 8) * 2.0**-24
        query = Query(C, B, (share, share * float(squares.max()) + 2.0**-99))
        if bounds == "yinyang":
            return self._by_groups(query, known)
        moving = None if bounds == "none" or known.centres is None else _moving(known.centres, C)
        known.centres = C

        def block(limits: tuple[int, int]) -> Pass:
            first, last = limits
            if moving is None:
                self._search(query, np.arange(first, last), known, first)
            else:
                active = np.empty(last - first, dtype=np.int64)
                count = screen(self.X, C, known.labels, known.own, *moving, first, last, known.lower, active)
                if count < MOST * (last - first):
                    self._search(query, active[:count], known)
                else:  # picking them would take longer than looking at all
                    self._search(query, np.arange(first, last), known, first)
            return self._sums(C, known, first, last)

        return reduce(Pass.__add__, parallel(block, self.blocks(k), n_jobs=self.n_jobs, work=self.X.size * k))

    def _measured(self, C: Array, known: Bounds) -> Pass:
        """A pass whose centres lie too far outside the rows for products to be of use."""
        settle(self.X, C, np.arange(len(self.X)), known.labels)
        known.forget()
        return self._sums(C, known, 0, len(self.X))

    def _sums(self, C: Array, known: Bounds, first: int, last: int) -> Pass:
        """What a run of rows adds to its clusters."""
        out = Pass(np.zeros(C.shape), np.zeros(len(C)), np.zeros(len(C)))
        accumulate(self.X, self.w, known.labels, C, first, last, out.moved, out.weight, out.inertia, known.own)
        return out

    def _by_groups(self, query: Query, known: Bounds) -> Pass:
        """A pass with one bound per row and group of centres: only groups that may hold the nearest are looked at."""
        C, B, slack, sieve = query.C, query.B, query.slack, self.sieve()
        lengths, scale, n, k = sieve.lengths, sieve.scale, len(self.X), len(query.C)
        if known.groups is None:
            known.groups = _groups(C)
        count = int(known.groups.max()) + 1
        members = [np.flatnonzero(known.groups == g).astype(np.int32) for g in range(count)]
        if known.by_group is None or known.centres is None:
            known.by_group, known.own[:] = np.zeros((n, count), dtype=np.float32), np.inf
            known.centres = C
        by_group = known.by_group
        shift, _, half_gap = _moving(known.centres, C)
        group_shift = np.array([shift[of].max() * (1 + 1e-6) for of in members], dtype=np.float32)
        known.centres, products = C, [np.ascontiguousarray(B[of]) for of in members]
        value, second, found = np.empty(n), np.full(n, np.inf), known.labels.copy()
        place = np.empty(k, dtype=np.int64)
        for of in members:
            place[of] = np.arange(len(of))

        def block(limits: tuple[int, int]) -> Pass:
            first, last = limits
            active, rows = np.empty(last - first, dtype=np.int64), np.empty(last - first, dtype=np.int64)
            scratch, which = np.empty((2, GROUP_ROWS), dtype=np.float32), np.empty(GROUP_ROWS, dtype=np.int32)
            size = screen_groups(
                self.X, C, known.labels, shift, group_shift, half_gap, first, last, known.own, by_group, active
            )
            active = active[:size]
            radius = np.sqrt(known.own[active]) * (1.0 + 1e-6)
            value[active] = known.own[active] * scale**2 - lengths[active]
            for g, of in enumerate(members):
                chosen = rows[: rows_of_group(active, by_group, g, radius, rows)]
                for at in range(0, len(chosen), GROUP_ROWS):
                    part = chosen[at : at + GROUP_ROWS]
                    scan_group(
                        products[g] @ sieve.F[part].T, of, place, part, g, known.groups, lengths, slack, 1.0 / scale,
                        known.own, known.labels, value, second, found, by_group, scratch, which,
                    )  # fmt: skip
            near = active[second[active] - value[active] <= slack[0] * lengths[active] + slack[1]]
            known.labels[active] = found[active]
            if len(near):
                settle(self.X, C, near, known.labels)
                by_group[near] = 0.0
            return self._sums(C, known, first, last)

        step = max(4 * BLOCK, 4 * k)
        blocks = [(first, min(n, first + step)) for first in range(0, n, step)]
        return reduce(Pass.__add__, parallel(block, blocks, n_jobs=self.n_jobs, work=self.X.size * k))

    def _search(self, query: Query, rows: Array, known: Bounds, first: int | None = None) -> None:
        """Find the nearest centres of some rows; `first` is the first where they are a run."""
        sieve, B, k = self.sieve(), query.B, len(query.B)
        step = min(FEW_ROWS if sieve.columns is not None else max(64, PRODUCT_CELLS // k), max(1, len(rows)))
        best, second, which = np.empty(step, np.float32), np.empty(step, np.float32), np.empty(step, np.int32)
        known_of = (sieve.lengths, query.slack, 1.0 / sieve.scale, best, second, which, known.labels, known.lower)
        if sieve.columns is not None:
            near = np.empty(len(rows), np.int64)
            columns, begin = (sieve.columns[:, rows], 0) if first is None else (sieve.columns, first)
            count = nearest_in_few_columns(columns, begin, B, rows, *known_of, near)
            settle(self.X, query.C, near[:count], known.labels)
            return
        cells, near = np.empty(k * step, np.float32), np.empty(step, np.int64)
        for at in range(0, len(rows), step):
            part = rows[at : at + step]
            G = cells[: k * len(part)].reshape(k, len(part))
            chosen = sieve.F[part] if first is None else sieve.F[first + at : first + at + len(part)]
            np.dot(B, chosen.T, out=G)
            count = nearest_in_products(G, part, *known_of, near)
            settle(self.X, query.C, near[:count], known.labels)

    def equal_to(self, row: int) -> Array:
        """Which rows hold the same numbers."""
        return (self.X[row] == self.X).all(axis=1)

    def distinct(self) -> int:
        """How many different rows there are."""
        return len(np.unique(self.X, axis=0))


def _groups(C: Array) -> Array:
    """Centres that lie together, about `GROUP` in each: a few of Lloyd's iterations on the centres themselves."""
    count = max(1, len(C) // GROUP)
    seeds = C[np.linspace(0, len(C) - 1, count).astype(int)].copy()
    for _ in range(5):
        labels = cdist(C, seeds).argmin(axis=1)
        for g in np.unique(labels):
            seeds[g] = C[labels == g].mean(axis=0)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _moving(old: Array, new: Array) -> tuple[Array, Array, Array]:
    """How far each centre has moved, the two largest moves, and half the distance to the nearest other centre."""
    shift = np.sqrt(((new - old) ** 2).sum(axis=1)) * (1 + 1e-12)
    order = np.argsort(shift)
    most = np.array([shift[order[-1]], shift[order[-2]] if len(order) > 1 else 0.0, float(order[-1])])
    centred = new - new.mean(axis=0)
    lengths = np.einsum("ij,ij->i", centred, centred)
    squares = centred @ centred.T
    squares *= -2.0
    squares += lengths
    np.fill_diagonal(squares, np.inf)
    rounding = 1e-12 * (lengths + lengths.max())
    return shift, most, np.sqrt(np.maximum(squares.min(axis=1) + lengths - rounding, 0.0)) / 2


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

    def distinct(self) -> int:
        """How many different rows there are."""
        X = self.X.copy()
        X.eliminate_zeros()
        return len({(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in pairwise(X.indptr)})


def is_sparse(table: Any) -> bool:
    """Whether a clean table is sparse."""
    return bool(sparse.issparse(table))


def make_rows(X: Any, w: Array | None, n_jobs: int | None) -> DenseRows | SparseRows:
    """The rows of a clean table, dense or CSR."""
    w = np.ones(X.shape[0]) if w is None else w
    if is_sparse(X):
        return SparseRows(sparse.csr_array(X, dtype=np.float64), w, n_jobs)
    return DenseRows(X, w, n_jobs)
