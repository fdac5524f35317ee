"""Columns as small whole numbers, so that a split looks at a few hundred bins instead of every value.

A column of numbers with at most `max_bins` different values gets one bin for each, and no split is lost. Otherwise
the cuts stand at weighted quantiles of the values (weights equal repetition), between two values that occur:

    code(x) = number of cuts below x,  so that  code(x) <= k  exactly when  x <= cuts[k]

A category is its own bin. One more code, `n_bins[j]`, stands for missing and unseen values. Codes are bytes, row by
row, and 16-bit numbers where a column has more than 255 categories; of more than 65,535 the last ones share a bin.

Cost: O(s log s) per column for the quantiles of s = min(n, 200,000) rows, and O(n p log max_bins) for the codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel, workers

__all__ = ["Bins", "Codes", "bin_table"]

Array = np.ndarray
SAMPLE = 200_000
MOST = 65_535


@dataclass(frozen=True, eq=False)
class Bins:
    """Where the cuts are.

    | field       | meaning                                                                                  |
    |-------------|------------------------------------------------------------------------------------------|
    | cuts        | per column its cuts, ascending, all in one array; none for categories                    |
    | starts      | cuts of column j are cuts[starts[j]:starts[j + 1]]                                       |
    | n_bins      | int32, codes 0 .. n_bins[j] - 1 are values; n_bins[j] itself means missing or unseen     |
    | categorical | which columns are categories; their code is the category's                               |
    """

    cuts: Array
    starts: Array
    n_bins: Array
    categorical: Array

    def encode(self, X: Array, *, n_jobs: int | None = None) -> Array:
        """Codes of any rows of the same columns, row by row."""
        n, p = X.shape
        wide = bool((self.n_bins > 255).any())
        codes = np.empty((n, p), dtype=np.uint16 if wide else np.uint8)
        blocks = np.linspace(0, n, 1 + max(1, min(4 * workers(n_jobs), n // 4096)), dtype=np.int64)
        # One column's cuts and a few thousand rows stay in the nearest cache.
        parallel(
            lambda k: _encode(
                X[blocks[k] : blocks[k + 1]],
                self.cuts,
                self.starts,
                self.n_bins,
                self.categorical,
                codes[blocks[k] : blocks[k + 1]],
            ),
            range(blocks.size - 1),
            n_jobs=n_jobs,
            work=10.0 * n * p,
        )
        return codes


@dataclass(frozen=True, eq=False)
class Codes:
    """A binned table: `values` (n x p, bytes or 16-bit numbers, row by row) and the bins behind it."""

    values: Array
    bins: Bins


def bin_table(
    X: Array,
    levels: Sequence[int],
    w: Array | None = None,
    *,
    max_bins: int = 255,
    n_jobs: int | None = None,
    seed: int = 0,
) -> Codes:
    """Find the bins of a table and encode it.

    `levels[j]` is the number of categories of column j, 0 for a column of numbers. Above 200,000 rows the quantiles
    are those of a sample drawn with `seed`.
    """
    n, p = X.shape
    rows: Array | None = None if w is None else np.flatnonzero(w)
    if (n if rows is None else rows.size) > SAMPLE:
        pool = np.arange(n) if rows is None else rows
        rows = np.sort(np.random.default_rng(seed).choice(pool, SAMPLE, replace=False))
    part = X if rows is None else X[rows]
    weights = None if w is None else w[rows]

    def cuts_of(j: int) -> Array:
        return np.empty(0) if levels[j] else _cuts(part[:, j], weights, max_bins)

    found = parallel(cuts_of, range(p), n_jobs=n_jobs, work=50.0 * part.size)
    categorical = np.array([count > 0 for count in levels], dtype=bool)
    sizes = [min(count, MOST) if count else cuts.size + 1 for count, cuts in zip(levels, found, strict=True)]
    starts = np.concatenate([[0], np.cumsum([cuts.size for cuts in found])]).astype(np.int64)
    bins = Bins(np.concatenate([*found, np.empty(0)]), starts, np.array(sizes, dtype=np.int32), categorical)
    return Codes(bins.encode(X, n_jobs=n_jobs), bins)


def _cuts(x: Array, w: Array | None, max_bins: int) -> Array:
    """Ascending cuts between values of one column."""
    if w is None:
        values = np.sort(x)  # missing values come last
        values = values[: values.size - np.count_nonzero(np.isnan(values))]
        first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])) if values.size else np.empty(0, int)
        total = np.concatenate([first[1:], [values.size]]).astype(float)
        values = values[first]
    else:
        keep = ~np.isnan(x)
        order = np.argsort(x[keep], kind="stable")
        values, mass = x[keep][order], w[keep][order]
        first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])) if values.size else np.empty(0, int)
        total = np.cumsum(np.add.reduceat(mass, first)) if values.size else np.empty(0)
        values = values[first]
    if values.size < 2:
        return np.empty(0)
    if values.size > max_bins:
        # A value belongs to the bin in which its middle lies; a heavy value fills bins of its own.
        middle = (np.concatenate([[0.0], total[:-1]]) + total) / 2
        number = np.floor(middle / total[-1] * max_bins)
        last = np.flatnonzero(number[1:] != number[:-1])
    else:
        last = np.arange(values.size - 1)
    low, high = values[last], values[last + 1]
    cut = low + (high - low) / 2
    # Between neighbours of floating point the middle may round up to the right one.
    return np.where((cut >= low) & (cut < high), cut, low)


@kernel
def _encode(X: Array, cuts: Array, starts: Array, n_bins: Array, categorical: Array, codes: Array) -> None:
    n, p = X.shape
    for block in range(0, n, 1024):
        stop = min(n, block + 1024)
        for j in range(p):
            missing = n_bins[j]
            if categorical[j]:
                for i in range(block, stop):
                    x = X[i, j]
                    if x != x or x < 0:
                        codes[i, j] = missing
                    else:
                        codes[i, j] = min(np.int64(x), missing - 1)
                continue
            begin = starts[j]
            size = starts[j + 1] - begin
            for i in range(block, stop):
                x = X[i, j]
                if x != x:
                    codes[i, j] = missing
                    continue
                low = begin
                left = size
                # Branch-free search for the number of cuts below x.
                while left > 1:
                    half = left >> 1
                    low = low + half if cuts[low + half - 1] < x else low
                    left -= half
                if left == 1 and cuts[low] < x:
                    low += 1
                codes[i, j] = low - begin
