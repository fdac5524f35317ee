"""Sums of counts within classes, and scores that are linear in counts: dense or sparse rows, never made dense.

    N_kj = sum_{i in class k} w_i x_ij,        score_ik = c_k + sum_j x_ij t_jk

Cost: one multiply-add per stored number to count, K to score. Rows are cut into parts by their number alone and the
parts are added in order, so the number of cores never changes a bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel

__all__ = ["Counts", "count", "is_sparse", "linear_scores"]

Array = np.ndarray

MOST_PARTS = 8
"""A part sums into a table of its own; more than this many seldom pay."""

BLOCK_CELLS = 1 << 18
"""Dense rows are made binary and multiplied while they lie in the cache."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Weight of each class (K,) and sums of each column within it (K, p)."""

    weight: Array
    total: Array

    def merged(self, other: Counts) -> Counts:
        """The sums of both sets of rows: nothing is negative, so nothing cancels."""
        return Counts(self.weight + other.weight, self.total + other.total)


@kernel
def _dense_sums(X: Array, group: Array, w: Array, cut: float, start: int, stop: int, out: Array) -> None:
    """Sums of x, or of [x > cut] where the cut is no NaN."""
    p = X.shape[1]
    binary = cut == cut
    for i in range(start, stop):
        g = group[i]
        f = w[i] if w.size else 1.0
        if binary:
            for j in range(p):
                out[g, j] += f if X[i, j] > cut else 0.0
        else:
            for j in range(p):
                out[g, j] += f * X[i, j]


@kernel
def _sparse_sums(
    data: Array,
    indices: Array,
    indptr: Array,
    order: Array,
    group: Array,
    w: Array,
    cut: float,
    start: int,
    stop: int,
    first: int,
    out: Array,
) -> None:
    """Sums over rows in the order of their groups, so that one row of `out` is filled at a time; it begins at `first`.

    Places are unsigned, which spares a test for negative ones.
    """
    binary = cut == cut
    for at in range(start, stop):
        i = np.uintp(order[at])
        g = np.uintp(group[i] - first)
        f = w[i] if w.size else 1.0
        low, high = np.uintp(indptr[i]), np.uintp(indptr[i + np.uintp(1)])
        if binary:
            for s in range(low, high):
                if data[s] > cut:
                    out[g, np.uintp(indices[s])] += f
        else:
            for s in range(low, high):
                out[g, np.uintp(indices[s])] += f * data[s]


def is_sparse(X: Any) -> bool:
    """Whether a table behind the gate is CSR."""
    return bool(sparse.issparse(X))


def count(X: Any, group: Array, w: Array | None, G: int, cut: float = np.nan) -> Counts:
    """Sums of G groups of rows of x, or of [x > cut].

    >>> counts = count(np.array([[1.0, 0.0], [2.0, 5.0]]), np.array([0, 0]), None, 1)
    >>> counts.weight.tolist(), counts.total.tolist()
    ([2.0], [[3.0, 5.0]])
    """
    n, p = X.shape
    weights = np.empty(0) if w is None else w
    weight = np.bincount(group, weights=w, minlength=G).astype(np.float64)
    if is_sparse(X):
        return Counts(weight, _sparse_count(X, group, weights, G, cut))
    # Each part fills and adds a table of G p numbers, which must be little beside what it reads.
    bounds = _cuts(n, min(MOST_PARTS, n // (8 * G)))

    def part(at: int) -> Array:
        out = np.zeros((G, p))
        _dense_sums(X, group, weights, cut, bounds[at], bounds[at + 1], out)
        return out

    return Counts(weight, reduce(np.add, parallel(part, range(len(bounds) - 1), n_jobs=-1, work=2.0 * n * p)))


def _cuts(n: int, parts: int) -> list[int]:
    """Where n rows are cut into some parts."""
    return np.linspace(0, n, max(1, parts) + 1).astype(np.int64).tolist()


def _sparse_count(X: Any, group: Array, w: Array, G: int, cut: float) -> Array:
    n, p = X.shape
    order = np.argsort(group.astype(np.int16) if G < 1 << 15 else group, kind="stable")
    bounds = _cuts(n, min(MOST_PARTS, n, X.nnz // p))
    ends = [(int(group[order[a]]), int(group[order[b - 1]])) for a, b in pairwise(bounds)]

    def part(at: int) -> Array:
        first, last = ends[at]
        out = np.zeros((last - first + 1, p))
        start, stop = bounds[at], bounds[at + 1]
        _sparse_sums(X.data, X.indices, X.indptr, order, group, w, cut, start, stop, first, out)
        return out

    total = np.zeros((G, p))
    for (first, last), some in zip(ends, parallel(part, range(len(ends)), n_jobs=-1, work=2.0 * X.nnz), strict=True):
        total[first : last + 1] += some
    return total


@kernel(exact=True)
def _sparse_scores(
    data: Array, indices: Array, indptr: Array, rows: Array, table: Array, cut: float, start: int, stop: int, out: Array
) -> None:
    """Three classes at a time, in registers; a table (p, K) without padding stays in the cache.

    Places are unsigned, which spares a test for negative ones; sums in their order, or the compiler would gather.
    """
    K, one, two = np.uintp(out.shape[1]), np.uintp(1), np.uintp(2)
    binary = cut == cut
    for at in range(np.uintp(start), np.uintp(stop)):
        i = np.uintp(rows[at]) if rows.size else at
        low, high = np.uintp(indptr[i]), np.uintp(indptr[i + one])
        k = np.uintp(0)
        while k + two < K:
            s0 = s1 = s2 = 0.0
            for s in range(low, high):
                value = data[s]
                if binary:
                    value = 1.0 if value > cut else 0.0
                j = np.uintp(indices[s])
                s0 += value * table[j, k]
                s1 += value * table[j, k + one]
                s2 += value * table[j, k + two]
            out[at, k] = s0
            out[at, k + one] = s1
            out[at, k + two] = s2
            k += two + one
        while k < K:
            s0 = 0.0
            for s in range(low, high):
                value = data[s]
                if binary:
                    value = 1.0 if value > cut else 0.0
                s0 += value * table[np.uintp(indices[s]), k]
            out[at, k] = s0
            k += one


def linear_scores(X: Any, rows: Array, table: Array, constant: Array, cut: float = np.nan) -> Array:
    """constant_k + sum_j x_j table_jk for some rows (none named: all); x is [x > cut] where a cut is given.

    `table` is (p, K) and finite; an infinite constant is kept.
    """
    n, K = rows.size or X.shape[0], constant.size
    out = np.empty((n, K))
    if is_sparse(X):
        table = np.ascontiguousarray(table)
        height = max(64, n // 32)

        def part(start: int) -> None:
            stop = min(start + height, n)
            _sparse_scores(X.data, X.indices, X.indptr, rows, table, cut, start, stop, out)

        parallel(part, range(0, n, height), n_jobs=-1, work=2.0 * K * X.nnz)
        out += constant
        return out
    height = max(1, BLOCK_CELLS // max(1, X.shape[1]))
    for start in range(0, n, height):
        some = slice(start, start + height)
        block = X[rows[some]] if rows.size else X[some]
        if cut == cut:
            block = (block > cut).astype(np.float64)
        out[some] = block @ table + constant
    return out
