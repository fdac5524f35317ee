"""Products of folds: what the rows of a training set contribute to a linear fit, as the sum over the other folds.

A row is taken as z = sqrt(w) [x - c, y - d, 1], with centres c and d inside the bulk of the data; z z' adds over rows.

*Repeats.* The folds of two partitions cut the rows into K^2 cells. One pass over the cells sums the folds of both, so R
repeats of K folds cost n p^2 R / q multiplications, q being the number of partitions that may be crossed before cells
become small, and not n p^2 K R as they do fit by fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel
from assay.resampling import Partition

__all__ = [
    "CHUNK_CELLS",
    "MOST_CELLS",
    "CentredTable",
    "fold_products",
    "groups_of",
    "table_of",
]

Array = np.ndarray

CHUNK_CELLS = 1 << 15
"""Rows are gathered and multiplied while they lie in the second-level cache: 256 KiB of float64."""

FEWEST_IN_CELL = 256
"""Partitions are crossed while their cells keep this many rows; below, adding up cells costs what crossing saves."""

MOST_CELLS = 1 << 25
"""No more than this many numbers (256 MiB) of fold products are held at a time."""

SAMPLE = 1001
"""The centre is the median of this many rows."""


@dataclass(frozen=True, eq=False)
class CentredTable:
    """Rows behind the gate with their centre: sqrt(w) is empty when every row counts the same."""

    X: Array
    y: Array
    root: Array
    centre: Array
    middle: float

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.size)

    @property
    def width(self) -> int:
        """Number of columns of z = [x, y, 1]."""
        return self.X.shape[1] + 2


# Products of folds.


def table_of(X: Array, y: Array, w: Array | None, intercept: bool) -> CentredTable:
    """Rows with their centre: a median of evenly spaced rows, which is a value of the column itself."""
    X = X if X.flags.c_contiguous else np.ascontiguousarray(X)
    root = np.empty(0) if w is None else np.sqrt(w)
    n, p = X.shape
    if not intercept:
        return CentredTable(X, y, root, np.zeros(p), 0.0)
    some = slice(None, None, -(-n // SAMPLE))
    sample = np.column_stack([X[some], y[some]]).astype(np.float64, copy=False)
    half = len(sample) // 2
    centre = np.partition(sample, half, axis=0)[half]
    return CentredTable(X, y, root, np.ascontiguousarray(centre[:p]), float(centre[p]))


@kernel
def _gather(X: Array, y: Array, root: Array, rows: Array, centre: Array, middle: float, out: Array) -> None:
    p = X.shape[1]
    for r in range(rows.size):
        i = rows[r]
        for j in range(p):
            out[r, j] = X[i, j] - centre[j]
        out[r, p] = y[i] - middle
        out[r, p + 1] = 1.0
        if root.size:
            for j in range(p + 2):
                out[r, j] *= root[i]


def _products_of_rows(table: CentredTable, rows: Array, buffer: Array) -> Array:
    """Sum of z z' over some rows, gathered chunk by chunk."""
    total = None
    for start in range(0, max(rows.size, 1), len(buffer)):
        some = rows[start : start + len(buffer)]
        Z = buffer[: some.size]
        _gather(table.X, table.y, table.root, some, table.centre, table.middle, Z)
        product = Z.T @ Z  # numpy sees the symmetry and halves the work
        total = product if total is None else np.add(total, product, out=total)
    assert total is not None
    return total


def fold_products(table: CentredTable, group: list[Partition]) -> list[list[Array]]:
    """Products of every fold of some partitions, from one pass over the cells of their crossing.

    The order of the sums is fixed by the splits, so the number of threads never changes a bit.
    """
    sizes = [part.size for part in group]
    cells = int(np.prod(sizes))
    cell = np.zeros(table.n, dtype=np.int64)
    for part in group:
        cell = cell * part.size + part.fold
    # Sixteen bits are sorted by counting, in a fifth of the time.
    order = np.argsort(cell.astype(np.uint16) if cells <= 1 << 16 else cell, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=cells))])
    slab = cells // sizes[0]
    height = max(64, CHUNK_CELLS // table.width)

    def of_slab(first: int) -> list[list[Array]]:
        buffer = np.empty((min(height, table.n), table.width))
        sums: list[list[Any]] = [[None] * size for size in sizes[1:]]
        own: Any = None
        for inner in range(slab):
            at = first * slab + inner
            if bounds[at] == bounds[at + 1]:
                continue
            product = _products_of_rows(table, order[bounds[at] : bounds[at + 1]], buffer)
            own = _added(own, product)
            rest = inner
            for axis in range(len(sizes) - 1, 0, -1):
                rest, k = divmod(rest, sizes[axis])
                sums[axis - 1][k] = _added(sums[axis - 1][k], product)
        return [[own], *sums]

    slabs = parallel(of_slab, range(sizes[0]), n_jobs=-1, work=float(table.n) * table.width**2)
    totals: list[list[Any]] = [[slab[0][0] for slab in slabs]]
    for axis in range(1, len(sizes)):
        sums: list[Any] = [None] * sizes[axis]
        for one in slabs:
            sums = [total if more is None else _added(total, more) for total, more in zip(sums, one[axis], strict=True)]
        totals.append(sums)
    return totals


def _added(total: Array | None, more: Array) -> Array:
    """total += more; the first summand is copied, as others may own it."""
    return more.copy() if total is None else np.add(total, more, out=total)


def groups_of(partitions: list[Partition], n: int, width: int) -> list[list[Partition]]:
    """Partitions crossed with one another as long as cells stay large and their sums fit in memory."""
    groups: list[list[Partition]] = []
    for part in partitions:
        if groups:
            sizes = [other.size for other in groups[-1]] + [part.size]
            if n >= FEWEST_IN_CELL * np.prod(sizes, dtype=float) and sizes[0] * sum(sizes) * width**2 <= MOST_CELLS:
                groups[-1].append(part)
                continue
        groups.append([part])
    return groups
