"""The best split of one column in one node.

With W the node's weight, S its sum of w y, c its class weights, and L, R the two sides of a split:

    squared error   gain = S_L^2 W / (W_L W_R), S the sum of the centred response, so that nothing cancels
    poisson         gain = S_L log(S_L / W_L) + S_R log(S_R / W_R) - S log(S / W), both sides with a positive sum
    gini            gain = sum_k (c_Lk - W_L c_k / W)^2 W / (W_L W_R)
    log loss        gain = H - H_L - H_R,  H = W log2 W - sum c log2 c
    error           gain = max c_L + max c_R - max c

Two ways lead there without a comparison sort. Up to 64 rows are ranked by counting, for each, how many codes are
smaller: a few vector instructions. More rows are added up bin by bin, and the bins that hold any scanned in order; a
bitmap remembers them where rows are few beside bins.
These two know numbers without gaps, free of constraints; every other column goes the general way (`_grow_list`).
The first place wins; a later one must be better by more than rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from assay.numerics.jit import kernel

__all__ = [
    "Node",
    "Rules",
    "class_loss",
    "dense_classes",
    "dense_sums",
    "list_bits",
    "rank_rows",
    "small_classes",
    "small_sums",
]

Array = np.ndarray
SQUARED, POISSON, ABSOLUTE, GINI, LOG_LOSS, ERROR = range(6)
# What became of a column: it is constant, it was tried, or it has gaps (its rows already added up or not).
CONSTANT, TRIED, FILLED, EMPTY = range(4)
# A split: column (-1: none), last bin of the first child and first bin of the second (-1: only missing values),
# missing values (1 first child, 0 second, -1 none seen), how many of the listed bins the first child gets, of how many.
COLUMN, LAST, NEXT, LOST, SPLIT, SIZE = range(6)
# Its saved loss, the weight of the first child, and both children's values.
GAIN, FIRST, ONE, TWO = range(4)
# The place of a single bit from the top six bits of its product with a de Bruijn number.
DE_BRUIJN = 0x03F79D71B4CB0A89
PLACES = np.zeros(64, dtype=np.int64)
PLACES[[(DE_BRUIJN << i & 2**64 - 1) >> 58 for i in range(64)]] = np.arange(64)


class Rules(NamedTuple):
    """Criterion and limits; `counted`: rows are counted apart from weights; `simple`: no constraint of any kind."""

    criterion: int
    classes: int
    max_depth: int
    max_leaves: int
    min_split: int
    min_leaf: int
    min_weight: float
    min_decrease: float
    max_features: int
    counted: bool
    constrained: bool
    simple: bool


class Node(NamedTuple):
    """What is known of a node before its split: rows, totals, loss, what counts as rounding, bounds of its value."""

    begin: int
    end: int
    rows: int
    weight: float
    total: float
    centre: float
    loss: float
    rounding: float
    low: float
    high: float


@kernel(inline=True)
def rank_rows(codes: Array, j: int, gone: int, index: Array, begin: int, n: int, keys: Array) -> int:
    """Sort up to 64 rows by their code in column j: keys[2] becomes 64 code + place, ascending."""
    key, rank, ranked = keys[0], keys[1], keys[2]
    low = np.int64(codes[index[begin], j])
    high = low
    for i in range(n):
        b = np.int64(codes[index[begin + i], j])
        key[i] = 64 * b + i
        low = min(low, b)
        high = max(high, b)
    if low == high:
        return CONSTANT
    if high == gone:
        return EMPTY
    padded = (n + 15) & ~15
    for i in range(n, padded):
        key[i] = 64 * gone
    for i in range(padded):
        rank[i] = 0
    for k in range(n):
        one = key[k]
        for i in range(padded):
            rank[i] += np.uint16(key[i] > one)
    for i in range(n):
        ranked[np.int64(rank[i]) & 63] = key[i]
    return TRIED


@kernel(inline=True)
def small_sums(
    j: int, n: int, keys: Array, pairs: Array, weight: float, rounding: float, least: float, place: Array, gain: Array
) -> None:
    """Scan ranked rows by squared error; `pairs` holds each row's weight and weighted centred response."""
    bar = (gain[GAIN] + rounding) / weight
    found = -1
    wl = 0.0
    sl = 0.0
    for i in range(n - 1):
        key = np.int64(keys[2, i])
        wl += pairs[key & 63, 0]
        sl += pairs[key & 63, 1]
        both = wl * (weight - wl)
        # No division: a place wins when its numerator beats the bar times its denominator.
        if sl * sl > bar * both and (key >> 6) != (np.int64(keys[2, i + 1]) >> 6):
            if wl < least or weight - wl < least or both <= 0.0:
                continue
            found = i
            bar = sl * sl / both
            gain[GAIN] = bar * weight
            gain[FIRST] = wl
            bar += rounding / weight
    if found >= 0:
        place[COLUMN] = j
        place[LAST] = np.int64(keys[2, found]) >> 6
        place[NEXT] = np.int64(keys[2, found + 1]) >> 6
        place[LOST] = -1


@kernel(inline=True)
def small_classes(
    j: int,
    n: int,
    keys: Array,
    begin: int,
    rows: Array,
    totals: Array,
    left: Array,
    weight: float,
    rounding: float,
    least: float,
    place: Array,
    gain: Array,
) -> None:
    """Scan ranked rows by the Gini loss; `rows` holds each row's weight and class."""
    bar = (gain[GAIN] + rounding) / weight
    share = 0.0
    if totals.size <= n:
        for c in range(totals.size):
            left[c] = 0.0
            share += totals[c] * totals[c]
    else:
        for i in range(begin, begin + n):
            k = np.int64(rows[i, 1])
            left[k] = 0.0
            share += rows[i, 0] * totals[k]
    share /= weight * weight  # the sum of squared shares
    found = -1
    wl = 0.0
    squares = 0.0
    cross = 0.0
    for i in range(n - 1):
        key = np.int64(keys[2, i])
        w = rows[begin + (key & 63), 0]
        k = np.int64(rows[begin + (key & 63), 1])
        wl += w
        squares += w * (2.0 * left[k] + w)
        left[k] += w
        cross += w * totals[k]
        both = wl * (weight - wl)
        numerator = squares - 2.0 * wl * (cross / weight) + wl * wl * share
        if numerator > bar * both and (key >> 6) != (np.int64(keys[2, i + 1]) >> 6):
            if wl < least or weight - wl < least or both <= 0.0:
                continue
            found = i
            bar = numerator / both
            gain[GAIN] = bar * weight
            gain[FIRST] = wl
            bar += rounding / weight
    if found >= 0:
        place[COLUMN] = j
        place[LAST] = np.int64(keys[2, found]) >> 6
        place[NEXT] = np.int64(keys[2, found + 1]) >> 6
        place[LOST] = -1


@kernel(inline=True)
def list_bits(bits: Array, last: int, order: Array) -> int:
    """List the set bits up to `last`, ascending, clear them, and say how many there are."""
    size = 0
    for k in range((last >> 6) + 1):
        word = bits[k]
        bits[k] = np.uint64(0)
        while word:
            order[size] = (k << 6) + PLACES[((word & (~word + np.uint64(1))) * np.uint64(DE_BRUIJN)) >> np.uint64(58)]
            size += 1
            word &= word - np.uint64(1)
    return size


@kernel(inline=True)
def dense_sums(
    codes: Array,
    j: int,
    gone: int,
    index: Array,
    begin: int,
    n: int,
    pairs: Array,
    sums: Array,
    bits: Array,
    order: Array,
    weight: float,
    rounding: float,
    least: float,
    place: Array,
    gain: Array,
) -> int:
    """Add the rows up by their bins and scan these by squared error."""
    few = 2 * n < gone
    for i in range(n):
        b: Any = np.int64(codes[index[begin + i], j])
        sums[b, 0] += pairs[i, 0]
        sums[b, 1] += pairs[i, 1]
        if few:
            bits[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    size = _occupied(few, gone, sums, bits, order)
    if sums[gone, 0] > 0.0:
        return FILLED
    bar = (gain[GAIN] + rounding) / weight
    found = -1
    wl = 0.0
    sl = 0.0
    for i in range(size - 1):
        b = order[i]
        wl += sums[b, 0]
        sl += sums[b, 1]
        both = wl * (weight - wl)
        if sl * sl > bar * both:
            if wl < least or weight - wl < least or both <= 0.0:
                continue
            found = i
            bar = sl * sl / both
            gain[GAIN] = bar * weight
            gain[FIRST] = wl
            bar += rounding / weight
    if found >= 0:
        place[COLUMN] = j
        place[LAST] = order[found]
        place[LOST] = -1
        place[NEXT] = order[found + 1]
    for i in range(size):
        b = order[i]
        sums[b, 0] = 0.0
        sums[b, 1] = 0.0
    return CONSTANT if size == 1 else TRIED


@kernel(inline=True)
def _occupied(few: bool, gone: int, sums: Array, bits: Array, order: Array) -> int:
    """List the bins that hold rows, missing values aside: from a bitmap where they are few, else one by one."""
    if few:
        size = list_bits(bits, gone, order)
        return size - (sums[gone, 0] > 0.0)
    size = 0
    for b in range(gone):
        order[size] = b
        size += sums[b, 0] > 0.0
    return size


@kernel(inline=True)
def dense_classes(
    codes: Array,
    j: int,
    gone: int,
    index: Array,
    begin: int,
    n: int,
    rows: Array,
    totals: Array,
    left: Array,
    sums: Array,
    shares: Array,
    bits: Array,
    order: Array,
    weight: float,
    rounding: float,
    least: float,
    place: Array,
    gain: Array,
) -> int:
    """Add the rows up by their bins and scan these by the Gini loss."""
    K = totals.size
    few = 2 * n < gone
    for i in range(n):
        b: Any = np.int64(codes[index[begin + i], j])
        w = rows[begin + i, 0]
        sums[b, 0] += w
        shares[b, np.int64(rows[begin + i, 1])] += w
        if few:
            bits[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    size = _occupied(few, gone, sums, bits, order)
    if sums[gone, 0] > 0.0:
        return FILLED
    bar = (gain[GAIN] + rounding) / weight
    found = -1
    wl = 0.0
    for k in range(K):
        left[k] = 0.0
    for i in range(size - 1):
        b = order[i]
        w = sums[b, 0]
        wl += w
        w /= weight
        squares = 0.0
        for k in range(K):
            left[k] += shares[b, k] - w * totals[k]
            squares += left[k] * left[k]
        both = wl * (weight - wl)
        if squares > bar * both:
            if wl < least or weight - wl < least or both <= 0.0:
                continue
            found = i
            bar = squares / both
            gain[GAIN] = bar * weight
            gain[FIRST] = wl
            bar += rounding / weight
    if found >= 0:
        place[COLUMN] = j
        place[LAST] = order[found]
        place[LOST] = -1
        place[NEXT] = order[found + 1]
    for i in range(size):
        b = order[i]
        sums[b, 0] = 0.0
        for k in range(K):
            shares[b, k] = 0.0
    return CONSTANT if size == 1 else TRIED


@kernel(inline=True)
def class_loss(criterion: int, c: Array, weight: float) -> float:
    """The weighted loss of a set of rows from its class weights."""
    if criterion == LOG_LOSS:
        loss = weight * np.log2(weight)
        for k in range(c.size):
            if c[k] > 0.0:
                loss -= c[k] * np.log2(c[k])
        return loss
    if criterion == GINI:
        squares = 0.0
        for k in range(c.size):
            squares += c[k] * c[k]
        return weight - squares / weight
    most = 0.0
    for k in range(c.size):
        most = max(most, c[k])
    return weight - most
