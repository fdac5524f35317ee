"""What happens to a node of a growing tree besides the search: totals, division of its rows, its levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._grow_median import weighted_median
from assay.trees._grow_split import SQUARED, Node, Rules, class_loss

__all__ = ["divide", "level_words", "middle_cut", "summary", "write"]

Array = np.ndarray
# What is known of a column.
BINS, LEVELS, START, SIGN = range(4)
# What a node keeps while its tree grows: whole numbers (FEATURE is -1 in a leaf, CHILD -1 until it is split), reals.
FEATURE, CHILD, MISSING, OFFSET, BEGIN, END, DEPTH, CUT, ROWS, KNOWN = range(10)
THRESHOLD, WEIGHT, IMPURITY, SAVED, LOW, HIGH, LEFT, RIGHT = range(8)
# How far a tree has come.
FINISHED, SIZE_, LEAVES, LOOKED, PENDING, USED = range(6)


@kernel
def write(
    ints: Array,
    reals: Array,
    value: Array,
    whole: Array,
    offset: Array,
    rows: Array,
    real: Array,
    shares: Array,
    factor: float,
) -> None:
    for t in range(ints.shape[0]):
        inner = ints[t, CHILD] > 0
        whole[0, t] = ints[t, FEATURE] if inner else -1
        whole[1, t] = ints[t, CHILD] if inner else 0
        whole[2, t] = 2 if inner else 0
        whole[3, t] = ints[t, MISSING] if inner else 0
        offset[t] = ints[t, OFFSET] if inner else -1
        rows[t] = ints[t, ROWS]
        real[0, t] = reals[t, THRESHOLD] if inner else 0.0
        real[1, t] = reals[t, WEIGHT]
        real[2, t] = factor * reals[t, IMPURITY]
        real[3, t] = factor * reals[t, SAVED] if inner else 0.0
        if factor == 2.0:
            shares[t, 0] = 1.0 - value[t, 0]
            shares[t, 1] = value[t, 0]
        else:
            for k in range(value.shape[1]):
                shares[t, k] = value[t, k]


@kernel(inline=True)
def summary(
    begin: int,
    end: int,
    low: float,
    high: float,
    rules: Rules,
    rows: Array,
    count: Array,
    medians: Any,
    totals: Array,
    pairs: Array,
    value: Array,
    t: int,
) -> Node:
    """The node's totals, loss and value; pairs becomes each row's weight and (centred) weighted response."""
    weight = 0.0
    total = 0.0
    origin = rows[begin, 1]  # far from zero, only differences are exact
    numeric = rules.classes == 1
    for i in range(begin, end):
        d = rows[i, 1] - origin
        weight += rows[i, 0]
        total += rows[i, 0] * d
        if numeric:
            pairs[i - begin, 1] = d  # kept, or the compiler would subtract the mean in one go
    number: Any = np.int64(weight + 0.5)
    if count.size:
        number = 0
        for i in range(begin, end):
            number += count[i]
    loss = 0.0
    centre = 0.0
    if rules.classes > 1:
        for k in range(totals.size):
            totals[k] = 0.0
        for i in range(begin, end):
            totals[np.int64(rows[i, 1])] += rows[i, 0]
        present = 0
        for k in range(totals.size):
            value[t, k] = totals[k] / weight
            present += totals[k] > 0.0
        if present > 1:
            loss = class_loss(rules.criterion, totals, weight)
        return Node(begin, end, number, weight, total, centre, loss, 1e-12 * loss, low, high)
    shift = total / weight
    mean = origin + shift
    floor = 0.0
    if medians is not None:
        centre = weighted_median(rows, begin, end, weight)
        for i in range(begin, end):
            pairs[i - begin, 1] = rows[i, 0] * (rows[i, 1] - mean)
            loss += rows[i, 0] * abs(rows[i, 1] - centre)
        mean = centre
        floor = 1e-15 * weight * abs(centre)
    elif rules.criterion == SQUARED:
        centre = mean
        total = 0.0
        for i in range(begin, end):
            d = pairs[i - begin, 1] - shift
            pairs[i - begin, 0] = rows[i, 0]
            pairs[i - begin, 1] = rows[i, 0] * d
            loss += rows[i, 0] * d * d
        floor = 1e-30 * weight * mean * mean
    else:
        total = mean * weight
        for i in range(begin, end):
            s = rows[i, 0] * rows[i, 1]
            pairs[i - begin, 1] = s
            if s > 0.0:
                loss += s * np.log(rows[i, 1] / mean)
        floor = 1e-14 * total
    if loss <= floor:
        loss = 0.0
    value[t, 0] = min(max(mean, low), high)
    return Node(begin, end, number, weight, total, centre, loss, 1e-12 * loss, low, high)


@kernel(inline=True)
def divide(
    codes: Array,
    begin: int,
    end: int,
    j: int,
    gone: int,
    cut: int,
    missing: int,
    offset: int,
    index: Array,
    rows: Array,
    count: Array,
    words: Array,
    spare_index: Array,
    spare_rows: Array,
    spare_count: Array,
) -> int:
    """Bring the rows of the first child to the front of the stretch, keeping their order; return where it ends."""
    at = begin
    rest = 0
    for i in range(begin, end):
        row = index[i]
        w = rows[i, 0]
        y = rows[i, 1]
        b: Any = np.int64(codes[row, j])
        first: Any = np.int64(b <= cut)
        if b == gone:
            first = 1 - missing
        elif offset >= 0:
            first = np.int64((words[offset + (b >> 5)] >> np.uint32(b & 31)) & np.uint32(1))
        index[at] = row
        rows[at, 0] = w
        rows[at, 1] = y
        spare_index[rest] = row
        spare_rows[rest, 0] = w
        spare_rows[rest, 1] = y
        if count.size:
            m = count[i]
            count[at] = m
            spare_count[rest] = m
        at += first
        rest += 1 - first
    for i in range(rest):
        index[at + i] = spare_index[i]
        rows[at + i, 0] = spare_rows[i, 0]
        rows[at + i, 1] = spare_rows[i, 1]
    if count.size:
        for i in range(rest):
            count[at + i] = spare_count[i]
    return at


@kernel(inline=True)
def middle_cut(cuts: Array, a: int, b: int) -> float:
    """Of the cuts a .. b the one nearest to the middle between the outer two, the lower one of a tie."""
    middle = cuts[a] + (cuts[b] - cuts[a]) / 2
    low = a
    high = b
    while low < high:
        half = (low + high) // 2
        if cuts[half] < middle:
            low = half + 1
        else:
            high = half
    if low > a and middle - cuts[low - 1] <= cuts[low] - middle:
        low -= 1
    return cuts[low]


@kernel(inline=True)
def level_words(
    words: Array, offset: int, levels: int, bins: int, first: bool, split: int, size: int, chosen: Array
) -> None:
    """Set the bits of the categories that go to the first child; those not in the node go with missing values."""
    for k in range((levels + 31) // 32):
        words[offset + k] = np.uint32(0xFFFFFFFF) if first else np.uint32(0)
    for i in range(size):
        bit = np.uint32(1) << np.uint32(chosen[i] & 31)
        at = offset + (chosen[i] >> 5)
        words[at] = words[at] | bit if i < split else words[at] & ~bit
    if levels > bins:  # the last bin stands for all that are left
        last = (words[offset + ((bins - 1) >> 5)] >> np.uint32((bins - 1) & 31)) & np.uint32(1)
        for b in range(bins, levels):
            bit = np.uint32(1) << np.uint32(b & 31)
            at = offset + (b >> 5)
            words[at] = words[at] | bit if last else words[at] & ~bit
