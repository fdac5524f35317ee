"""One node of a tree that grows on presorted columns: setting it up, drawing columns, scanning them.

A node owns the same stretch START .. STOP of every column's entries. While a tree grows, whole numbers and real
numbers of its nodes stand side by side in two tables; the constants below name their columns. Trees with two children
(`_exact`) and with many (`_multiway`) share all of this. `medians` is None but for absolute error: then the type of the
argument keeps the compiler from reading what only medians need.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._criteria import (
    ERROR,
    MISSING,
    POISSON,
    ROW,
    SAME,
    SQUARED,
    class_stats,
    mean_stats,
    median_stats,
)
from assay.trees._median import rank_targets, scan_medians
from assay.trees._queue import below
from assay.trees._scan import scan_classes, scan_counts, scan_means, scan_squares
from assay.trees.nodes import LEAF

__all__ = ["draw", "first_missing", "more_words", "note_cut", "open_node", "prepare", "scan_column"]

Array = np.ndarray

# The tree while it grows: whole numbers and real numbers of each node side by side.
FEATURE, FIRST, COUNT, GAP, OFFSET, ROWS, DEPTH, START, STOP, CUT, BELOW, ABOVE = range(12)
WEIGHT, IMPURITY, GAIN, LEAST, MOST = range(5)

# The rules of growth, in the same way.
CRITERION, CLASSES, COLUMNS, MAX_FEATURES, MAX_DEPTH, MAX_LEAVES, MIN_SPLIT, MIN_LEAF = range(8)
MIN_WEIGHT, MIN_DECREASE = range(2)


@kernel(inline=True)
def open_node(
    entries: Array,
    y: Array,
    codes: Array,
    w: Array,
    counts: Array,
    rules: Array,
    least: Array,
    medians: Any,
    ints: Array,
    reals: Array,
    value: Array,
    node: int,
    start: int,
    stop: int,
    column: int,
) -> bool:
    """Set up a node over its stretch of one column; whether it may be split."""
    criterion = rules[CRITERION]
    if rules[CLASSES] > 0:
        rows, weight, loss, pure = class_stats(entries, column, start, stop, codes, w, counts, criterion, value, node)
    elif medians is not None:
        rows, weight, loss, pure = median_stats(entries, rules[COLUMNS], start, stop, y, w, counts, value, node)
    else:
        rows, weight, loss, pure = mean_stats(
            entries, column, start, stop, y, w, counts, criterion == POISSON, value, node
        )
    # Splits keep within the bounds already; this is for the last bit.
    if rules[CLASSES] == 0:
        value[node, 0] = min(max(value[node, 0], reals[node, LEAST]), reals[node, MOST])
    elif rules[CLASSES] == 2:
        share = min(max(value[node, 1], reals[node, LEAST]), reals[node, MOST])
        if share != value[node, 1]:
            value[node, 0], value[node, 1] = 1.0 - share, share
    ints[node, FEATURE], ints[node, FIRST], ints[node, COUNT] = LEAF, 0, 0
    ints[node, GAP], ints[node, OFFSET], ints[node, ROWS] = 0, -1, rows
    ints[node, START], ints[node, STOP] = start, stop
    reals[node, GAIN] = 0.0
    reals[node, WEIGHT] = weight
    reals[node, IMPURITY] = 0.0 if pure else loss / weight
    return (
        not pure
        and loss > 0.0
        and rows >= rules[MIN_SPLIT]
        and ints[node, DEPTH] < rules[MAX_DEPTH]
        and weight >= 2.0 * least[MIN_WEIGHT]
    )


@kernel(inline=True)
def more_words(words: Array, used: int, need: int) -> Array:
    """Room for so many words more than are used."""
    if used + need <= words.size:
        return words
    more = np.empty(2 * (used + need), dtype=np.uint32)
    for k in range(used):
        more[k] = words[k]
    return more


@kernel(inline=True)
def first_missing(entries: Array, column: int, start: int, stop: int) -> int:
    """Where the entries without a value begin."""
    if (entries[column, stop - 1] >> 32) != MISSING:
        return stop
    low, high = start, stop - 1
    while low < high:
        middle = (low + high) // 2
        if (entries[column, middle] >> 32) == MISSING:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(inline=True)
def draw(entries: Array, start: int, stop: int, rules: Array, draws: Array, state: Array) -> None:
    """Mark the columns to be searched: `max_features` of those that vary in this node."""
    p = rules[COLUMNS]
    if rules[MAX_FEATURES] >= p:
        return
    found = 0
    for j in range(p):
        draws[1, j] = 0
    for i in range(p):
        k = i + below(state, p - i)
        j = draws[0, k]
        draws[0, k] = draws[0, i]
        draws[0, i] = j
        if found < rules[MAX_FEATURES] and (entries[j, start] >> 32) != (entries[j, stop - 1] >> 32):
            draws[1, j] = 1
            found += 1


@kernel(inline=True)
def prepare(
    entries: Array,
    y: Array,
    w: Array,
    rules: Array,
    ints: Array,
    reals: Array,
    value: Array,
    sums: Array,
    medians: Any,
    node: int,
) -> None:
    """What every scan of a node starts from: weights of the classes, or the order of the targets."""
    for k in range(rules[CLASSES]):
        total = value[node, k] * reals[node, WEIGHT]
        sums[0, k] = np.rint(total) if w.size == 0 else total
    if medians is not None:
        start, stop = ints[node, START], ints[node, STOP]
        rank_targets(entries, rules[COLUMNS], start, stop, y, value[node, 0], medians[0], medians[1])


@kernel(inline=True)
def scan_column(
    entries: Array,
    y: Array,
    codes: Array,
    w: Array,
    counts: Array,
    inverse: Array,
    terms: Array,
    rules: Array,
    least: Array,
    ints: Array,
    reals: Array,
    value: Array,
    sums: Array,
    medians: Any,
    node: int,
    column: int,
    end: int,
    sign: int,
    best: float,
) -> tuple[float, int, int]:
    """The best cut of one column by the criterion in force; rows without a value begin at `end`."""
    start, stop = ints[node, START], ints[node, STOP]
    weight, rows = reals[node, WEIGHT], ints[node, ROWS]
    low, high = reals[node, LEAST], reals[node, MOST]
    min_leaf, min_weight = rules[MIN_LEAF], least[MIN_WEIGHT]
    criterion, centre = rules[CRITERION], value[node, 0]
    loss = reals[node, IMPURITY] * weight
    tie = SAME * loss
    simple = w.size == 0 and end == stop
    if criterion == SQUARED and simple:
        return scan_squares(entries, column, start, stop, y, centre, inverse, min_leaf, tie, best, sign, low, high)
    if medians is not None:
        return scan_medians(
            entries, column, start, end, stop, w, counts, medians[0], medians[1], medians[2], loss, centre, weight,
            rows, min_leaf, min_weight, tie, best, sign, low, high,
        )  # fmt: skip
    if rules[CLASSES] == 0:
        return scan_means(
            entries, column, start, end, stop, y, w, counts, criterion, centre, weight, rows, min_leaf, min_weight,
            tie, best, sign, low, high,
        )  # fmt: skip
    if criterion != ERROR and simple:
        return scan_counts(
            entries, column, start, stop, codes, criterion, sums, inverse, terms, loss, min_leaf, tie, best, sign,
            low, high,
        )  # fmt: skip
    return scan_classes(
        entries, column, start, end, stop, codes, w, counts, criterion, sums, loss, weight, rows, min_leaf,
        min_weight, tie, best, sign, low, high,
    )  # fmt: skip


@kernel(inline=True)
def note_cut(entries: Array, ints: Array, node: int, j: int, at: int, end: int) -> None:
    """The rows on both sides of a cut, from which the threshold is read; -1 where all values are on one side."""
    ints[node, BELOW] = entries[j, at] & ROW
    ints[node, ABOVE] = entries[j, at + 1] & ROW if at + 1 < end else -1
