"""Columns as small whole numbers, so that a split looks at a few hundred bins instead of every value.

A column of numbers with at most `max_bins` different values gets one bin for each, and no split is lost. Otherwise
the cuts stand at weighted quantiles of the values (weights equal repetition), between two values that occur:

    code(x) = number of cuts below x,  so that  code(x) <= k  exactly when  x <= cuts[k]

A share of the bins, `tails`, can go to the ends of a column: of k bins, a value at quantile u lies in floor(g(u) k),

    g(u) = (1 - tails) u + tails (1/2 + log((u + e) / (1 - u + e)) / (2 log((1 + e) / e))),   e = 0.00001

so that towards an end the rows in a bin fall in proportion to the rows beyond it. Where the columns drawn at a node
hold nothing but noise, the best split is one near an end: it takes a few rows off and leaves the rest for columns that
do matter (Breiman et al. 1984, ch. 11.8; Ishwaran 2015, Machine Learning 99, 75-118). Bins of equal weight put dozens
of rows there, take a split further inside instead, and the tree loses by it what exact splits do not.

A category is its own bin. One more code, `n_bins[j]`, stands for missing and unseen values. Codes are bytes, row by
row, and 16-bit numbers where a column has more than 255 bins; of more than 65,535 categories the last share one.

Cost: O(s log s) per column for the quantiles of s = min(n, 200,000) rows, and O(n p log max_bins) for the codes. The
search for a code takes the same few steps for every value and no branch: the sign of cut - x says which half to take.
Of a sparse table only the stored values are sorted and looked up; the zeros between them enter as one value with a
weight. Its codes are dense all the same: n p bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel, workers
from assay.trees._sparse import SparseTable, write_codes

__all__ = ["Bins", "Codes", "bin_table"]

Array = np.ndarray
SAMPLE = 200_000
ALONE = 50_000
"""Cells below which even asking for threads takes too long."""
MOST = 65_535
BORDER = 1e-9
END = 1e-5
ENDS = float(2 * np.log((1 + END) / END))
"""Up to which quantile from its ends a column is told apart by `tails`, and the length of that logarithmic scale."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Where the cuts are.

    | field       | meaning                                                                                  |
    |-------------|------------------------------------------------------------------------------------------|
    | cuts        | per column its cuts, ascending, all in one array; none for categories                    |
    | starts      | cuts of column j are cuts[starts[j]:starts[j + 1]]                                       |
    | n_bins      | int32, codes 0 .. n_bins[j] - 1 are values; n_bins[j] itself means missing or unseen     |
    | levels      | int64, how many categories a column has, 0 for numbers; the last bin holds those too many |
    """

    cuts: Array
    starts: Array
    n_bins: Array
    levels: Array

    @property
    def categorical(self) -> Array:
        """Which columns are categories; their code is the category's."""
        return self.levels > 0

    def encode(self, X: Array | SparseTable, *, n_jobs: int | None = None) -> Array:
        """Codes of any rows of the same columns, row by row."""
        n, p = X.shape
        codes = np.empty((n, p), dtype=np.uint16 if (self.n_bins > 255).any() else np.uint8)
        if isinstance(X, SparseTable):
            return self._encode_sparse(X, codes, n_jobs)
        sizes = np.diff(self.starts)
        # A search over 2^k - 1 cuts takes k steps; columns with fewer cuts are filled up with infinity.
        steps = np.array([int(size).bit_length() for size in sizes], dtype=np.int64)
        padded = np.full((p, 1 << int(steps.max(initial=0))), np.inf)
        for j in range(p):
            padded[j, : sizes[j]] = self.cuts[self.starts[j] : self.starts[j + 1]]
        arguments = (padded, steps, self.n_bins, self.categorical)
        if n * p < ALONE:
            _encode(X, *arguments, codes)
            return codes
        blocks = np.linspace(0, n, 1 + max(1, min(4 * workers(n_jobs), n // 4096)), dtype=np.int64)
        parallel(
            lambda k: _encode(X[blocks[k] : blocks[k + 1]], *arguments, codes[blocks[k] : blocks[k + 1]]),
            range(blocks.size - 1),
            n_jobs=n_jobs,
            work=10.0 * n * p,
        )
        return codes

    def _encode_sparse(self, X: SparseTable, codes: Array, n_jobs: int | None) -> Array:
        # The code of 0 is the number of negative cuts; as a category, which has no cuts, it is the first.
        negative = np.concatenate([[0], np.cumsum(self.cuts < 0.0)])
        zero = (negative[self.starts[1:]] - negative[self.starts[:-1]]).astype(codes.dtype)
        arguments = (self.cuts, self.starts, self.n_bins, self.categorical, zero, codes)
        n = codes.shape[0]
        blocks = np.linspace(0, n, 1 + max(1, min(4 * workers(n_jobs), n // 256)), dtype=np.int64)
        parallel(
            lambda k: write_codes(*X.parts, blocks[k], blocks[k + 1], *arguments),
            range(blocks.size - 1),
            n_jobs=n_jobs,
            work=float(codes.size),
        )
        return codes


@dataclass(frozen=True, eq=False)
class Codes:
    """A binned table: `values` (n x p, bytes or 16-bit numbers, row by row) and the bins behind it."""

    values: Array
    bins: Bins


def bin_table(
    X: Array | SparseTable,
    levels: Sequence[int],
    w: Array | None = None,
    *,
    max_bins: int = 255,
    tails: float = 0.0,
    n_jobs: int | None = None,
    seed: int = 0,
) -> Codes:
    """Find the bins of a table and encode it.

    `levels[j]` is the number of categories of column j, 0 for a column of numbers; `tails` is the share of bins that
    goes to the ends of a column. Above 200,000 rows the quantiles are those of a sample drawn with `seed`.
    """
    n, p = X.shape
    rows: Array | None = None if w is None else np.flatnonzero(w)
    if (n if rows is None else rows.size) > SAMPLE:
        pool = np.arange(n) if rows is None else rows
        rows = np.sort(np.random.default_rng(seed).choice(pool, SAMPLE, replace=False))
    taken = np.arange(n) if rows is None else rows
    weights = None if w is None else w[rows]
    numbers = np.array([j for j in range(p) if not levels[j]], dtype=np.int64)
    found = [np.empty(0) for _ in range(p)]

    def several(group: Array) -> None:
        """The cuts of a few neighbouring columns, which are copied out together: they share cache lines."""
        if isinstance(X, SparseTable):
            for j in group:
                stored, values = sample.column(j)
                if values.size:
                    found[j] = _sparse_cuts(stored, values, taken.size, weights, max_bins, tails)
            return
        columns = np.empty((group.size, taken.size))
        present = np.empty(group.size, dtype=np.int64)
        _columns(X, taken, group, weights is not None, columns, present)
        for k, j in enumerate(group):
            found[j] = _cuts(columns[k], int(present[k]), weights, max_bins, tails)

    sample: Any = X if rows is None else X[rows] if isinstance(X, SparseTable) else None
    groups = [numbers[k : k + 8] for k in range(0, numbers.size, 8)]
    if taken.size * p < ALONE:
        for group in groups:
            several(group)
    else:
        parallel(several, groups, n_jobs=n_jobs, work=50.0 * taken.size * p)
    sizes = [min(count, MOST) if count else cuts.size + 1 for count, cuts in zip(levels, found, strict=True)]
    starts = np.concatenate([[0], np.cumsum([cuts.size for cuts in found])]).astype(np.int64)
    bins = Bins(
        np.concatenate([*found, np.empty(0)]),
        starts,
        np.array(sizes, dtype=np.int32),
        np.asarray(levels, dtype=np.int64),
    )
    return Codes(bins.encode(X, n_jobs=n_jobs), bins)


def _cuts(x: Array, present: int, w: Array | None, max_bins: int, tails: float) -> Array:
    """Ascending cuts between values of one column, of which the first `present` are there (all places if weighted)."""
    if w is None:
        x = x[:present]
        x.sort()
        total = np.empty(0)
    else:
        keep = np.flatnonzero(~np.isnan(x))
        order = keep[np.argsort(x[keep], kind="stable")]
        x, total = x[order], np.cumsum(w[order])
    cuts = np.empty(max(1, min(max_bins, x.size)))
    return cuts[: _between(x, total, max_bins, tails, cuts)].copy()


def _sparse_cuts(rows: Array, x: Array, n: int, w: Array | None, max_bins: int, tails: float) -> Array:
    """The same cuts from the stored values of one column of n rows: its zeros are one value with their weight."""
    zeros, stored = n - x.size, rows
    keep = np.flatnonzero(~np.isnan(x))
    order = keep[np.argsort(x[keep], kind="stable")]
    x, rows = x[order], rows[order]
    below = int(np.searchsorted(x, 0.0))
    if w is None:
        total = np.arange(1.0, x.size + zeros + 1)
    else:
        # Added up row by row, for the sum to have the digits that the dense column's has.
        absent = np.ones(n, dtype=bool)
        absent[stored] = False
        total = np.cumsum(w[np.concatenate([rows[:below], np.flatnonzero(absent), rows[below:]])])
    if zeros:
        x = np.concatenate([x[:below], [0.0], x[below:]])
        total = np.concatenate([total[:below], total[below + zeros - 1 :]])
    cuts = np.empty(max(1, min(max_bins, x.size)))
    return cuts[: _between(x, total, max_bins, tails, cuts)].copy()


@kernel(exact=True)
def _columns(X: Array, rows: Array, group: Array, every: bool, out: Array, present: Array) -> None:
    """Copy columns side by side, leaving out missing values unless every row is to keep its place."""
    for k in range(group.size):
        present[k] = 0
    for i in range(rows.size):
        row = rows[i]
        for k in range(group.size):
            x = X[row, group[k]]
            at = present[k]
            out[k, at] = x
            present[k] = at + (every or x == x)


@kernel(exact=True)
def _between(x: Array, total: Array, max_bins: int, tails: float, cuts: Array) -> int:
    """Cuts between the different values of a sorted column; `total` is the running weight, empty if each counts 1.

    With more than max_bins values, a value belongs to the bin in which the middle of its weight lies, and the cuts
    stand where that changes; a heavy value fills bins of its own. For `tails` see the top of this file.
    """
    n, weighted = x.size, total.size > 0
    different = 0
    for i in range(n):
        different += i == 0 or x[i] != x[i - 1]
        if different > max_bins:
            break
    if different < 2:
        return 0
    whole = total[n - 1] if weighted else float(n)
    made, i = 0, 0
    before, last = 0.0, -1.0
    while i < n:
        end = i + 1
        while end < n and x[end] == x[i]:
            end += 1
        upto = total[end - 1] if weighted else float(end)
        place = (before + upto) / 2 / whole
        if tails > 0.0:
            place = (1.0 - tails) * place + tails * (0.5 + np.log((place + END) / (1.0 - place + END)) / ENDS)
        # A value on the border of two bins is in the upper one, on whichever side rounding has put it.
        number = min(np.floor(place * max_bins + BORDER), max_bins - 1.0)
        if i > 0 and (different <= max_bins or number != last):
            low, high = x[i - 1], x[i]
            cut = low + (high - low) / 2
            # Between neighbours of floating point the middle may round up to the right one.
            cuts[made] = cut if low <= cut < high else low
            made += 1
        before, last, i = upto, number, end
    return made


@kernel(exact=True)
def _encode(X: Array, padded: Array, steps: Array, n_bins: Array, categorical: Array, codes: Array) -> None:
    n, p = X.shape
    height = 512
    values, place = np.empty(height), np.empty(height, dtype=np.int64)
    for block in range(0, n, height):
        m = min(height, n - block)
        for j in range(p):
            missing = np.int64(n_bins[j])
            if categorical[j]:
                for i in range(m):
                    x = X[block + i, j]
                    # An infinite or unknown code cannot be: the gate hands over places among the levels, or NaN.
                    known = x == x and x >= 0.0
                    codes[block + i, j] = min(np.int64(x), missing - 1) if known else missing
                continue
            cuts = padded[j]
            for i in range(m):
                values[i] = X[block + i, j]
                place[i] = 0
            half = np.int64(1) << steps[j]
            while half > 1:
                half >>= 1
                for i in range(m):
                    gap = np.float64(cuts[np.uint64(place[i] + half - 1)] - values[i])
                    place[i] += half & (gap.view(np.int64) >> 63)
            for i in range(m):
                x = values[i]
                codes[block + i, j] = place[i] if x == x else missing
