"""The general way to the best split of one column: gaps, categories, constraints and every criterion.

The bins that occur in the node are listed, numbers in their order, categories by their response (`_grow_categories`).
Every place in the list is tried with the missing values on either side, and last the missing values alone. For few
categories and more than two classes every subset takes the part of a place. Cost: O(rows + bins x classes).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._grow_split import (
    COLUMN,
    FIRST,
    GAIN,
    LAST,
    LOST,
    NEXT,
    ONE,
    SIZE,
    SPLIT,
    SQUARED,
    TWO,
    Node,
    Rules,
    class_loss,
    list_bits,
)

__all__ = ["collect", "keep", "ordered", "scan_classes", "scan_sums", "try_classes"]

Array = np.ndarray


@kernel(inline=True)
def collect(
    codes: Array,
    j: int,
    gone: int,
    index: Array,
    begin: int,
    n: int,
    rows: Array,
    pairs: Array,
    count: Array,
    filled: bool,
    sums: Array,
    counts: Array,
    shares: Array,
    bits: Array,
    order: Array,
) -> int:
    """Add the rows up by their bins, list the bins that occur, ascending, and say how many there are.

    Row `gone` holds the missing values. A bitmap remembers the touched bins of a node with few rows.
    """
    sparse = n < gone and not filled
    size = 0
    classes = shares.shape[1] > 1
    if not filled:
        for i in range(n):
            b: Any = np.int64(codes[index[begin + i], j])
            sums[b, 0] += rows[begin + i, 0]
            if classes:
                shares[b, np.int64(rows[begin + i, 1])] += rows[begin + i, 0]
            else:
                sums[b, 1] += pairs[i, 1]
            if sparse:
                bits[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    if count.size:
        for i in range(n):
            counts[np.int64(codes[index[begin + i], j])] += count[begin + i]
    if not sparse:
        for b in range(gone):
            order[size] = b
            size += sums[b, 0] > 0.0
        return size
    size = list_bits(bits, gone, order)
    return size - (order[size - 1] == gone)


@kernel(inline=True)
def keep(
    column: int, last: int, after: int, lost: int, split: int, size: int, order: Array, place: Array, chosen: Array
) -> None:
    """Write down a split that beats the best so far, with its list of bins."""
    place[COLUMN] = column
    place[LAST] = last
    place[NEXT] = after
    place[LOST] = lost
    place[SPLIT] = split
    place[SIZE] = size
    for i in range(size):
        chosen[i] = order[i]


@kernel(inline=True)
def ordered(low: float, high: float, one: float, two: float, sign: int) -> bool:
    """Whether the values of two children keep to their bounds and to the order asked for."""
    return one >= low and two >= low and one <= high and two <= high and (two - one) * sign >= 0.0


@kernel(inline=True)
def scan_sums(
    column: int,
    size: int,
    gone: int,
    sign: int,
    node: Node,
    rules: Rules,
    sums: Array,
    counts: Array,
    order: Array,
    place: Array,
    gain: Array,
    chosen: Array,
) -> None:
    """Try all places between the listed bins of a numeric response."""
    lost = sums[gone, 0]
    wl = 0.0
    sl = 0.0
    nl = 0
    for i in range(size if lost > 0.0 else size - 1):
        b = order[i]
        wl += sums[b, 0]
        sl += sums[b, 1]
        nl += counts[b]
        for side in range(2):  # missing values in the first child, then in the second
            w = wl
            s = sl
            n = nl
            if side == 0:
                if lost == 0.0 or i == size - 1:
                    continue
                w += sums[gone, 0]
                s += sums[gone, 1]
                n += counts[gone]
            rest = node.weight - w
            if w < rules.min_weight or rest < rules.min_weight or rest <= 0.0:
                continue
            if rules.counted and (n < rules.min_leaf or node.rows - n < rules.min_leaf):
                continue
            r = node.total - s
            if rules.criterion == SQUARED:
                saved = s * s * node.weight / (w * rest)
            else:
                if s <= 0.0 or r <= 1e-14 * node.total:
                    continue
                saved = s * np.log(s / w) + r * np.log(r / rest) - node.total * np.log(node.total / node.weight)
            if saved > gain[GAIN] + node.rounding:
                one = node.centre + s / w
                two = node.centre + r / rest
                if rules.constrained and not ordered(node.low, node.high, one, two, sign):
                    continue
                gain[GAIN] = saved
                gain[FIRST] = w
                gain[ONE] = one
                gain[TWO] = two
                after = order[i + 1] if i + 1 < size else -1
                keep(column, b, after, -1 if lost == 0.0 else 1 - side, i + 1, size, order, place, chosen)


@kernel(inline=True)
def try_classes(
    column: int,
    last: int,
    after: int,
    split: int,
    size: int,
    wl: float,
    nl: int,
    gone: int,
    sign: int,
    node: Node,
    rules: Rules,
    sums: Array,
    counts: Array,
    shares: Array,
    order: Array,
    totals: Array,
    left: Array,
    right: Array,
    place: Array,
    gain: Array,
    chosen: Array,
) -> None:
    """Weigh one division of the listed bins, given the first child's class weights, missing values on either side."""
    K = totals.size
    lost = sums[gone, 0]
    for side in range(2):
        w = wl
        n = nl
        if side == 0:
            if lost == 0.0 or split == size:
                continue
            w += lost
            n += counts[gone]
        rest = node.weight - w
        if w < rules.min_weight or rest < rules.min_weight or rest <= 0.0:
            continue
        if rules.counted and (n < rules.min_leaf or node.rows - n < rules.min_leaf):
            continue
        for k in range(K):
            if side == 0:
                left[k] += shares[gone, k]
            right[k] = max(0.0, totals[k] - left[k])
        saved = node.loss - class_loss(rules.criterion, left, w) - class_loss(rules.criterion, right, rest)
        one = left[K - 1] / w
        two = right[K - 1] / rest
        if side == 0:
            for k in range(K):
                left[k] -= shares[gone, k]
        if saved > gain[GAIN] + node.rounding:
            if rules.constrained and not ordered(node.low, node.high, one, two, sign):
                continue
            gain[GAIN] = saved
            gain[FIRST] = w
            gain[ONE] = one
            gain[TWO] = two
            keep(column, last, after, -1 if lost == 0.0 else 1 - side, split, size, order, place, chosen)


@kernel(inline=True)
def scan_classes(
    column: int,
    size: int,
    gone: int,
    sign: int,
    subsets: bool,
    node: Node,
    rules: Rules,
    sums: Array,
    counts: Array,
    shares: Array,
    order: Array,
    totals: Array,
    left: Array,
    right: Array,
    place: Array,
    gain: Array,
    chosen: Array,
) -> None:
    """Try all places between the listed bins of a class response, or all their subsets.

    Bit i - 1 of a subset's number puts bin i into the first child; bin 0 is always there.
    """
    K = totals.size
    lost = sums[gone, 0] > 0.0
    tries = (1 << (size - 1)) - 1 if subsets else size - 1
    bins = order[:size].copy()
    wl = 0.0
    nl = counts[gone]
    for division in range(tries + lost):
        split = division + 1
        if subsets or division == 0:
            wl = 0.0
            nl *= 0
            split = 0
            for k in range(K):
                left[k] = 0.0
        for i in range(0 if subsets else division, size if subsets else division + 1):
            if not subsets or i == 0 or (division >> (i - 1)) & 1:
                b = bins[i]
                wl += sums[b, 0]
                nl += counts[b]
                for k in range(K):
                    left[k] += shares[b, k]
                if subsets:
                    order[split] = b
                    split += 1
        if subsets:
            behind = split
            for i in range(1, size):
                if not (division >> (i - 1)) & 1:
                    order[behind] = bins[i]
                    behind += 1
        else:
            split = division + 1
        after = order[split] if split < size else -1
        try_classes(
            column, order[split - 1], after, split, size, wl, nl, gone, sign, node, rules, sums, counts, shares,
            order, totals, left, right, place, gain, chosen,
        )  # fmt: skip
