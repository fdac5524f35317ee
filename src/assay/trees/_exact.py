"""Trees by exact search: every cut of every column, with each column sorted once for the whole tree.

Presorted growth (Mehta, Agrawal, Rissanen 1996, SLIQ; Breiman et al. 1984): entries `rank << 32 | row` of each column
are sorted once. A node owns the same stretch of every column's entries; a split parts each stretch, keeping the
order within both halves, so no node sorts again and every scan reads memory in order. Nodes that turn out to be
leaves are never parted. A search ends early when a split leaves no loss behind, because nothing can beat it.

Cost: O(n p log n) for the sort, then O(n p) for each level of the tree (absolute error: times log n).
Ties: the first column (where columns are drawn, the first drawn), then the lowest cut; a later split must save more by
1e-12 of the node's loss to win.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._categories import BIT, FEW, level_keys, level_runs, ordered_view, scan_subsets, write_levels
from assay.trees._criteria import ABSOLUTE, ROW, SAME
from assay.trees._limits import Limits
from assay.trees._node import (
    CLASSES,
    COLUMNS,
    COUNT,
    CRITERION,
    CUT,
    DEPTH,
    FEATURE,
    FIRST,
    GAIN,
    GAP,
    IMPURITY,
    LEAST,
    MAX_LEAVES,
    MIN_DECREASE,
    MIN_LEAF,
    MIN_WEIGHT,
    MOST,
    OFFSET,
    ROWS,
    START,
    STOP,
    WEIGHT,
    draw,
    first_missing,
    more_words,
    note_cut,
    open_node,
    prepare,
    scan_column,
)
from assay.trees._presort import Presort, as_nodes, node_room, presort, start
from assay.trees._queue import sift
from assay.trees.nodes import LEAF, Nodes

__all__ = ["Presort", "grow_exact", "presort"]

Array = np.ndarray


def grow_exact(
    X: Array,
    presort: Presort,
    levels: Sequence[int] | Array,
    y: Array,
    w: Array | None,
    criterion: str,
    classes: int,
    limits: Limits,
    *,
    max_features: int,
    monotone: Array,
    seed: int,
    counts: Array | None = None,
    columns: Array | None = None,
) -> Nodes:
    """One tree by exact search.

    | argument     | meaning                                                                                       |
    |--------------|-----------------------------------------------------------------------------------------------|
    | X, presort   | the table (n x p, NaN = missing, categories as codes) and its sort                            |
    | levels       | per column the number of categories, 0 for numbers                                            |
    | y            | float64 targets (classes = 0), or int64 class codes (classes = K >= 2)                        |
    | w            | weights, None: 1 each; rows of weight 0 are not there                                         |
    | criterion    | see `_criteria`                                                                               |
    | limits       | when growth stops; best first if max_leaves > 0, else depth first                             |
    | max_features | columns drawn at each node, constant ones not counted                                         |
    | monotone     | per column 1 rising, -1 falling, 0 free                                                       |
    | seed         | where the draws of columns start                                                              |
    | counts       | how many drawn rows a row stands for, None: 1 each                                            |
    | columns      | the order in which all columns are looked at, None: their own; the first wins ties            |
    """
    options: Any = {"max_features": max_features, "seed": seed, "counts": counts, "columns": columns}
    begin = start(presort, y, w, criterion, classes, limits, **options)
    about = np.array([levels, monotone], dtype=np.int64)
    side = np.empty(y.size, dtype=np.uint8)
    most = int(about[0].max(initial=0))
    room = node_room(_most_leaves(begin.rows, limits), classes)
    size, used, words = _grow(*begin.given, *begin.scratch, about, side, _level_space(begin.rows, most, classes), *room)
    return as_nodes(X, room, size, words[:used].copy())


def _most_leaves(rows: int, limits: Limits) -> int:
    """How many leaves there can be: each has a row of its own at least."""
    leaves = min(rows, limits.max_leaves) if limits.max_leaves else rows
    return min(leaves, 1 << limits.max_depth) if limits.max_depth < 31 else leaves


def _level_space(rows: int, most: int, classes: int) -> tuple[Array, Array] | None:
    """Where runs of levels begin, which go to the first child, their order by response; what is known of each level.

    None without categories: another type, for which their part of the kernel is not compiled.
    """
    if most == 0:
        return None
    return np.empty((3, min(rows, most) + 1), dtype=np.int64), np.empty((most + classes + 4, classes + 2))


@kernel
def _grow(
    entries: Array,
    y: Array,
    codes: Array,
    w: Array,
    counts: Array,
    inverse: Array,
    terms: Array,
    rules: Array,
    least: Array,
    draws: Array,
    sums: Array,
    medians: Any,
    state: Array,
    about: Array,
    side: Array,
    categories: Any,
    ints: Array,
    reals: Array,
    value: Array,
) -> tuple[int, int, Array]:
    """Grow the whole tree; return the number of nodes, of words of its categories, and the words.

    See `Start` for most arguments; `about` holds levels and monotone signs of the columns, `side` each row's child.
    """
    rows = entries.shape[1]
    words = np.empty(0, dtype=np.uint32)
    # Whole numbers of one type, or each literal below would compile the functions it is passed to once more.
    zero: Any = np.int64(0)
    if not open_node(entries, y, codes, w, counts, rules, least, medians, ints, reals, value, zero, zero, rows, zero):
        return zero + 1, zero, words
    used, waiting, queued, leaves, size = zero, zero, zero, zero + 1, zero + 1
    pending = np.empty(rows + 2, dtype=np.int64)  # nodes to be searched; the last first
    best_first = rules[MAX_LEAVES] > 0
    heap = np.empty(rows + 1 if best_first else 0, dtype=np.int64)  # nodes searched, the best first
    pending[0] = 0
    waiting += 1
    K, p = rules[CLASSES], rules[COLUMNS]
    while waiting > 0 or queued > 0:
        if waiting > 0:
            waiting -= 1
            node = pending[waiting]
            draw(entries, ints[node, START], ints[node, STOP], rules, draws, state)
            start, stop = ints[node, START], ints[node, STOP]
            loss = reals[node, IMPURITY] * reals[node, WEIGHT]
            tie = SAME * loss
            prepare(entries, y, w, rules, ints, reals, value, sums, medians, node)
            best, column, cut, gap, picked = -np.inf, zero - 1, zero - 1, zero - 1, zero
            for k in range(p):
                j = draws[0, k]
                if draws[1, j] == 0 or (entries[j, start] >> 32) == (entries[j, stop - 1] >> 32):
                    continue
                end = first_missing(entries, j, start, stop)
                sign, found, c = about[1, j], 0, j
                if categories is not None and about[0, j] > 0:
                    levels, scratch = categories
                    found = level_runs(entries, j, start, end, levels[0])
                    if K > 2 and found <= FEW:
                        gain, at, turn = scan_subsets(
                            entries, j, end, stop, levels[0], found, codes, w, counts, rules[CRITERION], sums,
                            scratch, loss, reals[node, WEIGHT], ints[node, ROWS], rules[MIN_LEAF], least[MIN_WEIGHT],
                            tie, best,
                        )  # fmt: skip
                        if at >= 0:
                            best, column, cut, gap, picked = gain, j, at, turn, 0
                            for g in range(found):
                                if (at >> g) & 1:
                                    levels[1, picked] = entries[j, levels[0, g]] >> 32
                                    picked += 1
                        continue
                    c = p + 1
                    level_keys(entries, j, levels, found, y, codes, w, K, scratch)
                    ordered_view(entries, j, start, end, stop, levels, found, scratch, c)
                gain, at, turn = scan_column(
                    entries, y, codes, w, counts, inverse, terms, rules, least, ints, reals, value, sums,
                    medians, node, c, end, sign, best,
                )  # fmt: skip
                if at >= 0:
                    best, column, cut, gap, picked = gain, j, at, turn, 0
                    if categories is not None and found > 0:  # the levels up to the cut of the ordered view
                        levels = categories[0]
                        for i in range(start, at + 1):
                            if i == start or (entries[c, i] >> 32) != (entries[c, i - 1] >> 32):
                                levels[1, picked] = levels[2, picked]
                                picked += 1
                if best >= loss - tie:
                    break  # no loss is left to be saved
            if column < 0 or best + tie < least[MIN_DECREASE]:
                continue
            ints[node, FEATURE], ints[node, GAP], ints[node, CUT] = column, gap, cut
            reals[node, GAIN] = max(best, 0.0)
            end = first_missing(entries, column, start, stop)
            if categories is not None and about[0, column] > 0:
                need = (about[0, column] + 31) // 32
                words = more_words(words, used, need)
                ints[node, OFFSET] = used
                used += need
                ints[node, GAP] = write_levels(
                    entries, w, column, start, end, categories[0], picked, about[0, column], words, ints[node, OFFSET],
                    gap, reals[node, WEIGHT],
                )  # fmt: skip
            else:
                note_cut(entries, ints, node, column, cut, end)
            if best_first:
                heap[queued] = node
                queued += 1
                sift(heap, queued, queued - 1, reals, np.int64(GAIN))
                continue
        else:
            node = heap[0]
            queued -= 1
            heap[0] = heap[queued]
            sift(heap, queued, zero, reals, np.int64(GAIN))
            if leaves >= rules[MAX_LEAVES]:
                continue
        middle = _mark(entries, rules, ints, side, words, node)
        j = ints[node, FEATURE]
        start, stop = ints[node, START], ints[node, STOP]
        before = waiting
        for k in range(1, -1, -1):  # the first child is searched first
            child = size + k
            ints[child, DEPTH] = ints[node, DEPTH] + 1
            reals[child, LEAST], reals[child, MOST] = reals[node, LEAST], reals[node, MOST]
            low, high = (middle, stop) if k == 1 else (start, middle)
            if open_node(entries, y, codes, w, counts, rules, least, medians, ints, reals, value, child, low, high, j):
                pending[waiting] = child
                waiting += 1
        _join(about, rules, ints, reals, value, node, size)
        size += 2
        leaves += 1
        if waiting > before:
            for c in range(p):
                if c != j:
                    _stable(entries, c, start, stop, side, p + 2)
    for node in range(size):
        if ints[node, COUNT] == 0:  # it may know a split that was never made
            ints[node, FEATURE], ints[node, OFFSET], ints[node, GAP] = LEAF, -1, 0
            reals[node, GAIN] = 0.0
    return size, used, words


@kernel(inline=True)
def _mark(entries: Array, rules: Array, ints: Array, side: Array, words: Array, node: int) -> int:
    """Mark each row's child, part the split column (and the order of y); where the second child begins."""
    start, stop, j = ints[node, START], ints[node, STOP], ints[node, FEATURE]
    end = first_missing(entries, j, start, stop)
    base, gap, cut = ints[node, OFFSET], ints[node, GAP], ints[node, CUT]
    for i in range(start, stop):
        entry = entries[j, i]
        if i >= end:
            first = gap == 0
        elif base < 0:
            first = i <= cut
        else:
            code = entry >> 32
            first = (words[base + (code >> 5)] >> np.uint32(code & 31)) & BIT != 0
        side[entry & ROW] = first
    spare = rules[COLUMNS] + 2
    middle = start
    for k in range(0 if rules[CRITERION] == ABSOLUTE else 1, 2):
        middle = _stable(entries, j if k == 1 else rules[COLUMNS], start, stop, side, spare)
    return middle


@kernel(inline=True)
def _join(about: Array, rules: Array, ints: Array, reals: Array, value: Array, node: int, size: int) -> None:
    """Make a node the parent of the two at `size`; a monotone split draws the border between their values."""
    ints[node, FIRST], ints[node, COUNT] = size, 2
    if ints[node, GAP] < 0:
        ints[node, GAP] = 0 if reals[size, WEIGHT] >= reals[size + 1, WEIGHT] else 1
    sign = about[1, ints[node, FEATURE]]
    if sign != 0:
        k = 1 if rules[CLASSES] > 0 else 0
        between = (value[size, k] + value[size + 1, k]) / 2.0
        reals[size, MOST if sign > 0 else LEAST] = between
        reals[size + 1, LEAST if sign > 0 else MOST] = between


@kernel(inline=True)
def _stable(entries: Array, column: int, start: int, stop: int, side: Array, spare: int) -> int:
    """Rows of the first child before those of the second, both in their old order; where the second begins."""
    at, kept = start, start
    for i in range(start, stop):
        entry = entries[column, i]
        first: Any = np.int64(side[entry & ROW])
        # Written on both sides, kept on one: no branch that a processor would have to guess.
        entries[column, at] = entry
        entries[spare, kept] = entry
        at += first
        kept += 1 - first
    for k in range(kept - start):
        entries[column, at + k] = entries[spare, start + k]
    return at
