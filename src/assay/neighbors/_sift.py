"""Euclidean neighbours from single-precision products, made exact.

With a = x - mean, b = z - mean (centred, in units in which the longest training row has length one) the matrix product

    g = [-2a, 1] [b, (1 - 2c) ||b||^2]'      in float32

says ||x - z||^2 - ||a||^2 up to rounding. Whatever the order of its sums, a product of m terms of numbers rounded to
float32 is off by at most gamma_m sum |terms|; with c = 1.05 (p + 8) 2^-24 and 2 |a|'|b| <= ||a||^2 + ||b||^2,

    g + (1 - c) ||a||^2  <=  ||x - z||^2  <=  (g + (1 + 9c) ||a||^2) / (1 - 8c),

where the right side has used ||b||^2 <= 2 ||a||^2 + 2 ||x - z||^2. So k rows with g <= v put the k-th neighbour within
the right side at v, and a row whose left side is beyond that is none of them. Rows that pass go to a buffer; when it is
full the k-th smallest g in it gives a new limit and most of it is thrown away. What is left in the end, hardly more
than k rows, is measured in float64 from the rows as they were given (`reduced`): the answer is that of measuring all.
Where float32 cannot tell rows apart (ties without number, two clusters far from each other), buffers do not shrink;
then their rows are measured at once and the k-th distance itself gives the limit. Always right, at worst slower.

Cost: one float32 product of m x n x (p + 1), a comparison for each of its entries while they are in the cache, and
about k ln(n / k) entries per query looked at; memory O(n p) and one block. Rows are compared in random order, so that
sorted tables are no worse than others. Higham (2002), Accuracy and Stability of Numerical Algorithms, ch. 3.
"""

from __future__ import annotations

import numpy as np

from assay.neighbors._distances import EUCLIDEAN, reduced
from assay.neighbors._heap import nearest_first, push
from assay.numerics.jit import kernel

__all__ = ["GROUP", "TINY", "error_share", "settle", "sift"]

Array = np.ndarray

GROUP = 128
"""Entries that are compared before it is asked whether any passed."""

STEPS = 40
TINY = 2.0**-110
"""Per column: far above what underflow can do to a product, far below any distance that matters beside length one."""


def error_share(columns: int) -> float:
    """The c above."""
    return 1.05 * (columns + 8) * 2.0**-24


@kernel(exact=True)
def float32_above(value: float) -> np.float32:
    """A number of single precision that is not below the value."""
    return np.float32(value + abs(value) * 2.0**-22 + 2.0**-125)


@kernel(exact=True)
def measure(
    i: int, X: Array, rows: Array, Q: Array, own: Array, squared: Array, unit2: float, c: float, slack: float,
    tiny: float, places: Array, fill: Array, cut: Array, sizes: Array, D: Array, R: Array,
    scratch: Array,
) -> None:  # fmt: skip
    """Measure what is in query i's buffer, empty it, and take the limit from the worst neighbour so far.

    A query whose products are not to be trusted has the squared length minus infinity: its limit stays infinite.
    """
    size = sizes[i]
    x, d, r = Q[i], D[i], R[i]
    # All rows are fetched before any is compared: the processor waits for several of them at a time.
    for b in range(fill[i]):
        scratch[b] = reduced(x, X[rows[places[i, b]]], EUCLIDEAN, 2.0)
    for b in range(fill[i]):
        row = rows[places[i, b]]
        if row != own[i]:
            size = push(d, r, size, scratch[b], row)
    sizes[i] = size
    fill[i] = 0
    if size == D.shape[1]:
        cut[i] = float32_above(D[i, 0] * unit2 * (1.0 + slack) - (1.0 - c) * squared[i] + tiny)


@kernel(exact=True)
def level(values: Array, k: int) -> float:
    """A value that at least k of the values do not exceed, and hardly more than k: by halving, counted in registers.

    Finding the k-th smallest itself takes several times as long, since a processor cannot foresee its turns.
    """
    low = values[0]
    high = values[0]
    for value in values:
        low = value if value < low else low
        high = value if value > high else high
    enough = k + 1 + (k >> 3)
    for _ in range(STEPS):
        middle = np.float32(0.5) * low + np.float32(0.5) * high
        if not low < middle < high:
            break
        below = 0
        for j in range(values.size):
            below += 1 if values[j] <= middle else 0
        if below < k:
            low = middle
        else:
            high = middle
            if below <= enough:
                break
    return high


@kernel(exact=True)
def shrink(
    i: int, k: int, squared: Array, c: float, slack: float, tiny: float, values: Array, places: Array, fill: Array,
    cut: Array,
) -> None:  # fmt: skip
    """Set query i's limit by the k-th smallest product in its buffer, or a little above, and drop what is beyond."""
    size = fill[i]
    v = np.float64(level(values[i, :size], k))
    most = max((v + (1.0 + 9.0 * c) * squared[i]) / (1.0 - 8.0 * c), 0.0) * (1.0 + slack) + tiny
    limit = min(cut[i], float32_above(most - (1.0 - c) * squared[i] + tiny))
    kept = 0
    for b in range(size):
        if values[i, b] <= limit:
            values[i, kept] = values[i, b]
            places[i, kept] = places[i, b]
            kept += 1
    fill[i] = kept
    cut[i] = limit


@kernel(exact=True)
def sift(
    G: Array, first: int, k: int, X: Array, rows: Array, Q: Array, own: Array, squared: Array, unit2: float, c: float,
    slack: float, tiny: float, values: Array, places: Array, fill: Array, cut: Array, sizes: Array, measured: Array,
    D: Array, R: Array, scratch: Array,
) -> None:  # fmt: skip
    """Take a block of products: entry (i, j) is query i beside place first + j; k counts the query if it is a row."""
    room = values.shape[1] - GROUP
    columns = G.shape[1]
    for i in range(G.shape[0]):
        limit = cut[i]
        at = fill[i]
        for start in range(0, columns, GROUP):
            if start + GROUP <= columns:
                part = G[i, start : start + GROUP]
                passed = False
                for j in range(GROUP):  # a slice of fixed length, and no branch: this runs in vector registers
                    passed |= part[j] <= limit
                if not passed:
                    continue
            for j in range(start, min(start + GROUP, columns)):
                if G[i, j] <= limit:
                    values[i, at] = G[i, j]
                    places[i, at] = first + j
                    at += 1
            if at > room:
                fill[i] = at
                if measured[i] == 0:
                    shrink(i, k, squared, c, slack, tiny, values, places, fill, cut)
                if measured[i] == 1 or 2 * fill[i] > room + k:
                    measured[i] = 1
                    measure(i, X, rows, Q, own, squared, unit2, c, slack, tiny, places, fill, cut, sizes, D, R, scratch)
                limit = cut[i]
                at = fill[i]
        fill[i] = at


@kernel(exact=True)
def settle(
    k: int, X: Array, rows: Array, Q: Array, own: Array, squared: Array, unit2: float, c: float, slack: float,
    tiny: float, values: Array, places: Array, fill: Array, cut: Array, sizes: Array, measured: Array,
    D: Array, R: Array, scratch: Array,
) -> None:  # fmt: skip
    """Measure what is left and put the neighbours of every query in order."""
    for i in range(fill.size):
        if measured[i] == 0:
            shrink(i, k, squared, c, slack, tiny, values, places, fill, cut)
        measure(i, X, rows, Q, own, squared, unit2, c, slack, tiny, places, fill, cut, sizes, D, R, scratch)
        nearest_first(D[i], R[i])
