"""Splits by absolute error on bins: running weighted medians.

Rows of a node stand in the order of their response (the order is made once for the whole tree, and divisions of rows
keep it), so a row's place is its rank. Rows enter a Fenwick tree of weights and of weighted responses bin by bin; the
median of those inside is found by descending it, and the loss around it is

    loss = m W_low - S_low + S_high - m W_high,   low: up to the median m, high: above

Forwards for the first child, backwards for the second. Cost: O(n log n) per column and node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._grow_list import keep, ordered
from assay.trees._grow_split import FIRST, GAIN, ONE, TWO, Node, Rules

__all__ = ["scan_medians", "weighted_median"]

Array = np.ndarray


@kernel(inline=True)
def weighted_median(rows: Array, begin: int, end: int, total: float) -> float:
    """Median of ascending responses (rows: weight, response): the middle of two where half the weight lies below."""
    below = 0.0
    for i in range(begin, end):
        below += rows[i, 0]
        if abs(2.0 * below - total) <= 1e-12 * total and i + 1 < end:
            return (rows[i, 1] + rows[i + 1, 1]) / 2
        if 2.0 * below > total:
            return rows[i, 1]
    return rows[end - 1, 1]


@kernel(inline=True)
def insert(tree: Array, n: int, place: int, w: float, s: float) -> None:
    """Add a row to the Fenwick tree."""
    i = place + 1
    while i <= n:
        tree[i, 0] += w
        tree[i, 1] += s
        i += i & -i


@kernel(inline=True)
def around_median(tree: Array, n: int, rows: Array, centre: float, begin: int, total: float, sum_: float) -> float:
    """The loss around the median of the rows inside the tree (any median: the loss is the same)."""
    place = 0
    low_w = 0.0
    low_s = 0.0
    step = 1
    while 2 * step <= n:
        step *= 2
    while step:
        after = place + step
        if after <= n and 2.0 * (low_w + tree[after, 0]) < total * (1.0 - 1e-12):
            place = after
            low_w += tree[after, 0]
            low_s += tree[after, 1]
        step >>= 1
    m = rows[begin + place, 1] - centre
    return m * low_w - low_s + (sum_ - low_s) - m * (total - low_w)


@kernel(inline=True)
def prefix_losses(
    order: Array,
    start: int,
    size: int,
    backwards: bool,
    chain: Array,
    heads: Array,
    extra: int,
    rows: Array,
    node: Node,
    tree: Array,
    losses: Array,
    out: int,
) -> None:
    """The loss of the first i + 1 bins listed (backwards: of all bins from i on), the rows of `extra` inside too."""
    n = node.end - node.begin
    for i in range(n + 1):
        tree[i, 0] = 0.0
        tree[i, 1] = 0.0
    total = 0.0
    sum_ = 0.0
    for step in range(-1 if extra >= 0 else 0, size):
        at = start + (size - 1 - step if backwards else step)
        i = heads[extra if step < 0 else order[at]]
        while i >= 0:
            weight = rows[node.begin + i, 0]
            s = weight * (rows[node.begin + i, 1] - node.centre)
            insert(tree, n, i, weight, s)
            total += weight
            sum_ += s
            i = chain[i]
        if step >= 0:
            losses[out, at] = around_median(tree, n, rows, node.centre, node.begin, total, sum_)


@kernel(inline=True)
def median_of(
    order: Array, start: int, stop: int, extra: int, chain: Array, heads: Array, rows: Array, node: Node, spare: Array
) -> float:
    """The median that a child made of these bins would predict."""
    n = node.end - node.begin
    for i in range(n):
        spare[i, 0] = 0.0
    total = 0.0
    for step in range(start - 1, stop):
        b = extra if step < start else order[step]
        i = heads[b] if b >= 0 else -1
        while i >= 0:
            spare[i, 0] = rows[node.begin + i, 0]
            total += spare[i, 0]
            i = chain[i]
    size = 0
    for i in range(n):
        weight = spare[i, 0]
        spare[size, 0] = weight
        spare[size, 1] = rows[node.begin + i, 1]
        size += weight > 0.0
    return weighted_median(spare, 0, size, total)


@kernel(inline=True)
def scan_medians(
    column: int,
    size: int,
    gone: int,
    sign: int,
    codes: Array,
    index: Array,
    rows: Array,
    space: tuple[Array, Array, Array, Array, Array],
    node: Node,
    rules: Rules,
    sums: Array,
    counts: Array,
    order: Array,
    place: Array,
    gain: Array,
    chosen: Array,
) -> None:
    """Try all places between the listed bins by absolute error."""
    heads, chain, tree, losses, spare = space
    for i in range(node.end - node.begin - 1, -1, -1):  # chain the rows of each bin
        b: Any = np.int64(codes[index[node.begin + i], column])
        chain[i] = heads[b]
        heads[b] = i
    lost = sums[gone, 0]
    extra = np.int64(gone) if lost > 0.0 else -1
    prefix_losses(order, 0, size, False, chain, heads, -1, rows, node, tree, losses, 0)
    prefix_losses(order, 0, size, True, chain, heads, -1, rows, node, tree, losses, 1)
    if lost > 0.0:
        prefix_losses(order, 0, size, False, chain, heads, extra, rows, node, tree, losses, 2)
        prefix_losses(order, 0, size, True, chain, heads, extra, rows, node, tree, losses, 3)
        order[size] = gone  # and missing values alone
        prefix_losses(order, size, 1, False, chain, heads, -1, rows, node, tree, losses, 3)
    wl = 0.0
    nl = 0
    for i in range(size if lost > 0.0 else size - 1):
        wl += sums[order[i], 0]
        nl += counts[order[i]]
        for side in range(2):  # missing values in the first child, then in the second
            if side == 0 and (lost == 0.0 or i == size - 1):
                continue
            w = wl + (lost if side == 0 else 0.0)
            n = nl + (counts[gone] if side == 0 else 0)
            rest = node.weight - w
            if w < rules.min_weight or rest < rules.min_weight or rest <= 0.0:
                continue
            if rules.counted and (n < rules.min_leaf or node.rows - n < rules.min_leaf):
                continue
            both = (
                losses[2, i] + losses[1, i + 1] if side == 0 else losses[0, i] + losses[3 if lost > 0.0 else 1, i + 1]
            )
            if node.loss - both <= gain[GAIN] + node.rounding:
                continue
            if rules.constrained:
                one = median_of(order, 0, i + 1, extra if side == 0 else -1, chain, heads, rows, node, spare)
                two = median_of(order, i + 1, size, -1 if side == 0 else extra, chain, heads, rows, node, spare)
                if not ordered(node.low, node.high, one, two, sign):
                    continue
                gain[ONE] = one
                gain[TWO] = two
            gain[GAIN] = node.loss - both
            gain[FIRST] = w
            after = order[i + 1] if i + 1 < size else -1
            keep(column, order[i], after, -1 if lost == 0.0 else 1 - side, i + 1, size, order, place, chosen)
    for i in range(size):
        heads[order[i]] = -1
    heads[gone] = -1
