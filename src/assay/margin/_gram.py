"""Rows of the Gram matrix in single precision, made in batches when they are asked for and kept within a memory limit.

A solver reads few of the n rows: those of its support vectors and of their rivals. Rows are made many at a time, so
that most of the work is one matrix product; those that were not used for longest make room for new ones.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from assay.margin._ascent import subtract_rows
from assay.numerics.threads import parallel

__all__ = ["Gram", "KernelRows"]

Array = np.ndarray
WILD = 2.0**40
"""Kernels whose diagonal is beyond this, or below its inverse, are divided by it before they become float32."""
PART = 16_384
"""Columns of a task that subtracts rows."""


class KernelRows(Protocol):
    """Training rows prepared for one kernel."""

    n: int
    diagonal: Array

    def block(self, rows: Any, columns: Any = None, out: Any = None) -> Array:
        """k(x_i, x_j) for i in rows and j in columns (None: all)."""
        ...


class Gram:
    """K of the prepared training rows, plus a constant, divided by `scale`.

    | attribute   | meaning                                                                             |
    |-------------|-------------------------------------------------------------------------------------|
    | K           | the rows at hand, float32                                                           |
    | slot        | where each row of the Gram matrix stands in K, -1 for rows that are not at hand     |
    | stamp       | when each row of K was last used                                                    |
    | diagonal    | k(x_i, x_i) + shift, over `scale`                                                   |
    | evaluations | how many kernel values have been computed                                           |
    """

    def __init__(self, rows: KernelRows, megabytes: float, shift: float = 0.0) -> None:
        self.rows, self.shift, self.n = rows, shift, rows.n
        diagonal = np.asarray(rows.diagonal, dtype=np.float64) + shift
        top = float(np.abs(diagonal).max(initial=0.0))
        self.scale = 1.0 if not top or 1 / WILD <= top <= WILD else 2.0 ** float(np.ceil(np.log2(top)))
        self.diagonal = diagonal / self.scale
        self.capacity = int(min(self.n, max(2, megabytes * 2**20 // (4 * self.n))))
        self.K = np.empty((self.capacity, self.n), dtype=np.float32)  # pages are touched when rows are written
        self.slot = np.full(self.n, -1, dtype=np.int64)
        self.owner = np.full(self.capacity, -1, dtype=np.int64)
        self.stamp = np.zeros(self.capacity, dtype=np.int64)
        self.filled = 0
        self.evaluations = 0

    @property
    def whole(self) -> bool:
        """Whether all rows have room."""
        return self.capacity == self.n

    def fetch(self, wanted: Array) -> None:
        """Have the wanted rows (not more than the capacity) at hand."""
        missing = wanted[self.slot[wanted] < 0]
        if not missing.size:
            return
        free = np.arange(self.filled, min(self.filled + missing.size, self.capacity))
        self.filled += free.size
        if free.size < missing.size:
            idle = self.stamp[: self.filled].copy()
            idle[self.slot[wanted[self.slot[wanted] >= 0]]] = np.iinfo(np.int64).max
            idle[free] = np.iinfo(np.int64).max
            evicted = np.argsort(idle, kind="stable")[: missing.size - free.size]
            self.slot[self.owner[evicted]] = -1
            free = np.concatenate([free, evicted])
        if free[-1] - free[0] + 1 == free.size and np.all(np.diff(free) == 1):
            self._fill(missing, self.K[free[0] : free[-1] + 1])
        else:
            self.K[free] = self._fill(missing, np.empty((missing.size, self.n), dtype=np.float32))
        self.slot[missing], self.owner[free] = free, missing
        self.stamp[free] = int(self.stamp.max()) + 1

    def _fill(self, rows: Array, out: Array) -> Array:
        self.evaluations += rows.size * self.n
        if self.scale != 1.0:
            out[:] = self.exact(rows)
            return out
        self.rows.block(rows, out=out)
        if self.shift:
            out += np.float32(self.shift)
        return out

    def exact(self, rows: Array, columns: Array | None = None) -> Array:
        """A block in double precision, made anew."""
        width = self.n if columns is None else columns.size
        made = self.rows.block(rows, columns, out=np.empty((rows.size, width)))
        return (made + self.shift) / self.scale if self.shift or self.scale != 1.0 else made

    def subtract(self, rows: Array, factors: Array, e: Array) -> None:
        """e -= factors' K[rows], of rows at hand; each column is summed in the same order whatever the threads."""
        slots = self.slot[rows]
        starts = range(0, self.n, PART)
        self.stamp[slots] = int(self.stamp.max()) + 1
        parallel(
            lambda first: subtract_rows(self.K, slots, factors, e, first, min(first + PART, self.n)),
            starts,
            n_jobs=-1,
            work=rows.size * self.n,
        )
