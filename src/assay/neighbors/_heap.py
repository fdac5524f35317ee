"""The k best rows so far, ordered by distance, and by row number where distances are equal.

The worst pair stands first: that is the one a new pair is compared with. Short lists are kept in order, worst to best;
long ones are heaps, of which a list in that order is a special case.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["SHORT", "nearest_first", "push"]

Array = np.ndarray

SHORT = 96
"""Up to this many pairs moving those between is quicker than a heap, whose every step is a guess for the processor."""


@kernel(exact=True)
def insert(d: Array, r: Array, size: int, value: float, row: int) -> int:
    """`push` for a list in order."""
    at = size
    if size == d.size:
        if not (value < d[0] or (value == d[0] and row < r[0])):
            return size
        at = 0
        while at + 1 < size and (d[at + 1] > value or (d[at + 1] == value and r[at + 1] > row)):
            d[at] = d[at + 1]
            r[at] = r[at + 1]
            at += 1
        d[at] = value
        r[at] = row
        return size
    while at > 0 and (d[at - 1] < value or (d[at - 1] == value and r[at - 1] < row)):
        d[at] = d[at - 1]
        r[at] = r[at - 1]
        at -= 1
    d[at] = value
    r[at] = row
    return size + 1


@kernel(exact=True)
def sink(d: Array, r: Array, size: int, value: float, row: int) -> None:
    """Put a pair in place of the top, the worst pair, and let it sink to where it belongs."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (d[other] > d[child] or (d[other] == d[child] and r[other] > r[child])):
            child = other
        if d[child] < value or (d[child] == value and r[child] < row):
            break
        d[at] = d[child]
        r[at] = r[child]
        at = child
    d[at] = value
    r[at] = row


@kernel(exact=True)
def push(d: Array, r: Array, size: int, value: float, row: int) -> int:
    """Offer a pair to the best d.size; return how many there are now."""
    if d.size <= SHORT:
        return insert(d, r, size, value, row)
    if size == d.size:
        if value < d[0] or (value == d[0] and row < r[0]):
            sink(d, r, size, value, row)
        return size
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if d[parent] > value or (d[parent] == value and r[parent] > row):
            break
        d[at] = d[parent]
        r[at] = r[parent]
        at = parent
    d[at] = value
    r[at] = row
    return size + 1


@kernel(exact=True)
def nearest_first(d: Array, r: Array) -> None:
    """Turn a full list or heap round: best to worst."""
    n = d.size
    if n <= SHORT:
        for i in range(n // 2):
            d[i], d[n - 1 - i] = d[n - 1 - i], d[i]
            r[i], r[n - 1 - i] = r[n - 1 - i], r[i]
        return
    for last in range(n - 1, 0, -1):
        value, row = d[last], r[last]
        d[last], r[last] = d[0], r[0]
        sink(d, r, last, value, row)
