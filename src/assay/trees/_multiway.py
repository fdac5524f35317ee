"""Trees that split a category into as many children as it has levels, chosen by gain ratio (ID3, C4.5).

A column of categories offers one child per level present, a column of numbers its best cut in two. Many small children
save loss for no good reason, so splits are compared by

    ratio = (gain / W) / info,      info = -sum_c (W_c / W) log2(W_c / W)

where W_c is the weight of child c, among the splits whose gain is at least the average of all columns that can be
split (Quinlan's rule: a ratio may be high only because info is small). With criterion "log_loss" this is C4.5's gain
ratio; Gini's index, errors and, for numbers, squared or absolute error and Poisson deviance take the place of
entropy in the gain. Ties: the first column. Missing and unseen levels go to the heaviest child, ties to the first.

Cost: as for two children. Quinlan (1986), Machine Learning 1, 81-106; Quinlan (1993), C4.5, ch. 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._categories import BIT, level_runs
from assay.trees._criteria import POISSON, ROW, SAME, class_stats, mean_stats, median_stats
from assay.trees._limits import Limits
from assay.trees._node import (
    CLASSES,
    COLUMNS,
    COUNT,
    CRITERION,
    DEPTH,
    FEATURE,
    FIRST,
    GAIN,
    GAP,
    IMPURITY,
    LEAST,
    MIN_DECREASE,
    MIN_LEAF,
    MIN_WEIGHT,
    MOST,
    OFFSET,
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
from assay.trees._presort import Presort, as_nodes, node_room, start
from assay.trees.nodes import UNSEEN, Nodes

__all__ = ["grow_multiway"]

Array = np.ndarray
# What a column offers: gain, info; and place of the cut, side of missing rows, number of children.
OFFER_GAIN, OFFER_INFO, OFFER_AT, OFFER_GAP, OFFER_COUNT = range(5)


def grow_multiway(
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
    seed: int,
    counts: Array | None = None,
    columns: Array | None = None,
) -> Nodes:
    """One tree with a child per level; the arguments are those of `grow_exact`, growth is depth first."""
    p = X.shape[1]
    options: Any = {"max_features": max_features, "seed": seed, "counts": counts, "columns": columns}
    begin = start(presort, y, w, criterion, classes, limits, **options)
    room = node_room(begin.rows, classes)  # a leaf has a row of its own at least
    most = max(2, min(begin.rows, int(np.max(levels, initial=0))))
    size, used, words = _grow(
        *begin.given,
        *begin.scratch,
        np.array(levels, dtype=np.int64),
        np.empty(y.size, dtype=np.int32),
        np.empty((3, most + 1), dtype=np.int64),
        np.empty((p, 5)),
        np.empty((1, max(1, classes))),
        *room,
    )
    return as_nodes(X, room, size, words[:used].copy())


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
    levels: Array,
    child: Array,
    runs: Array,
    offers: Array,
    scratch: Array,
    ints: Array,
    reals: Array,
    value: Array,
) -> tuple[int, int, Array]:
    """Grow the whole tree; see `_exact._grow`. `runs` holds where levels begin, where children begin, and cursors."""
    rows = entries.shape[1]
    words = np.empty(0, dtype=np.uint32)
    zero: Any = np.int64(0)
    if not open_node(entries, y, codes, w, counts, rules, least, medians, ints, reals, value, zero, zero, rows, zero):
        return zero + 1, zero, words
    used, waiting, size = zero, zero, zero + 1
    pending = np.empty(rows + 2, dtype=np.int64)
    p = rules[COLUMNS]
    pending[0] = 0
    waiting += 1
    while waiting > 0:
        waiting -= 1
        node = pending[waiting]
        start, stop = ints[node, START], ints[node, STOP]
        loss = reals[node, IMPURITY] * reals[node, WEIGHT]
        draw(entries, start, stop, rules, draws, state)
        prepare(entries, y, w, rules, ints, reals, value, sums, medians, node)
        for j in range(p):
            offers[j, OFFER_COUNT] = 0.0
            if draws[1, j] == 0 or (entries[j, start] >> 32) == (entries[j, stop - 1] >> 32):
                continue
            end = first_missing(entries, j, start, stop)
            if levels[j] > 0:
                _offer_levels(
                    entries, y, codes, w, counts, rules, least, medians, ints, reals, child, runs, offers, scratch,
                    node, j, end,
                )  # fmt: skip
            else:
                gain, at, gap = scan_column(
                    entries, y, codes, w, counts, inverse, terms, rules, least, ints, reals, value, sums,
                    medians, node, j, end, zero, -np.inf,
                )  # fmt: skip
                if at >= 0:
                    _offer_cut(entries, w, ints, reals, offers, node, j, end, gain, at, gap)
        j = _choose(offers, draws, SAME * loss)
        if j < 0 or offers[j, OFFER_GAIN] + SAME * loss < least[MIN_DECREASE]:
            continue
        many = np.int64(offers[j, OFFER_COUNT])
        end = first_missing(entries, j, start, stop)
        ints[node, FEATURE], ints[node, FIRST], ints[node, COUNT] = j, size, many
        reals[node, GAIN] = max(offers[j, OFFER_GAIN], 0.0)
        if levels[j] > 0:
            need = levels[j] if many > 2 else (levels[j] + 31) // 32
            words = more_words(words, used, need)
            level_runs(entries, j, start, end, runs[0])
            ints[node, GAP] = _mark_levels(entries, w, child, runs, start, end, stop, j, many)
            ints[node, OFFSET] = used
            _write_levels(entries, levels, runs, words, used, j, many, ints[node, GAP])
            used += need
        else:
            _mark_cut(entries, ints, child, offers, node, j, end)
        _offsets(entries, j, start, stop, child, runs, many)
        for c in (p, j):  # the order of targets, which medians are read from, and the split column
            if c != p or medians is not None:
                _spread(entries, c, start, stop, child, runs, many)
                _back(entries, c, start, stop)
        anything = False
        heavy = size
        for c in range(size, size + many):
            ints[c, DEPTH] = ints[node, DEPTH] + 1
            reals[c, LEAST], reals[c, MOST] = -np.inf, np.inf
            low, high = runs[1, c - size], runs[1, c - size + 1]
            if open_node(entries, y, codes, w, counts, rules, least, medians, ints, reals, value, c, low, high, j):
                anything = True
                pending[waiting] = c
                waiting += 1
            if reals[c, WEIGHT] > reals[heavy, WEIGHT]:
                heavy = c
        if ints[node, GAP] < 0:
            ints[node, GAP] = heavy - size
        size += many
        if anything:
            for c in range(p):
                if c != j:
                    _spread(entries, c, start, stop, child, runs, many)
                    _back(entries, c, start, stop)
    return size, used, words


@kernel(inline=True)
def _choose(offers: Array, draws: Array, tie: float) -> int:
    """The column with the highest ratio among those whose gain is at least the average; -1 if none can be split.

    Of equals the first in the order of columns wins.
    """
    total, number = 0.0, 0
    for j in range(offers.shape[0]):
        if offers[j, OFFER_COUNT] > 0.0:
            total += offers[j, OFFER_GAIN]
            number += 1
    best, chosen = -np.inf, -1
    for j in draws[0]:
        if offers[j, OFFER_COUNT] > 0.0 and offers[j, OFFER_GAIN] + tie >= total / number:
            ratio = offers[j, OFFER_GAIN] / offers[j, OFFER_INFO]
            if ratio > best + SAME * abs(best) + tie or chosen < 0:
                best, chosen = ratio, j
    return chosen


@kernel(inline=True)
def _offer_cut(
    entries: Array,
    w: Array,
    ints: Array,
    reals: Array,
    offers: Array,
    node: int,
    j: int,
    end: int,
    gain: float,
    at: int,
    gap: int,
) -> None:
    """A cut of numbers in two."""
    up = 0.0
    for i in range(ints[node, START], ints[node, STOP]):
        if i <= at or (i >= end and gap == 0):
            up += w[entries[j, i] & ROW] if w.size > 0 else 1.0
    share = up / reals[node, WEIGHT]
    offers[j, OFFER_GAIN] = max(gain, 0.0)
    offers[j, OFFER_INFO] = -share * np.log2(share) - (1.0 - share) * np.log2(1.0 - share)
    offers[j, OFFER_AT], offers[j, OFFER_GAP], offers[j, OFFER_COUNT] = at, gap, 2.0


@kernel(inline=True)
def _offer_levels(
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
    child: Array,
    runs: Array,
    offers: Array,
    scratch: Array,
    node: int,
    j: int,
    end: int,
) -> None:
    """A child for each level present, unless one of them would be too small."""
    start, stop = ints[node, START], ints[node, STOP]
    found = level_runs(entries, j, start, end, runs[0])
    if found < 2:
        return
    _mark_levels(entries, w, child, runs, start, end, stop, j, found)
    _offsets(entries, j, start, stop, child, runs, found)
    p, criterion = rules[COLUMNS], rules[CRITERION]
    _spread(entries, j if medians is None else p, start, stop, child, runs, found)
    spare, zero = p + 2, ints[node, START] - ints[node, START]
    rest, info = 0.0, 0.0
    for c in range(found):
        low, high = runs[1, c], runs[1, c + 1]
        if rules[CLASSES] > 0:
            rows, weight, loss, _ = class_stats(entries, spare, low, high, codes, w, counts, criterion, scratch, zero)
        elif medians is not None:
            rows, weight, loss, _ = median_stats(entries, spare, low, high, y, w, counts, scratch, zero)
        else:
            rows, weight, loss, _ = mean_stats(
                entries, spare, low, high, y, w, counts, criterion == POISSON, scratch, zero
            )
            if criterion == POISSON and scratch[0, 0] <= 0.0:
                return  # a mean of zero would make any later count infinitely surprising
        if rows < rules[MIN_LEAF] or weight < least[MIN_WEIGHT]:
            return
        rest += loss
        share = weight / reals[node, WEIGHT]
        info -= share * np.log2(share)
    offers[j, OFFER_GAIN] = max(reals[node, IMPURITY] * reals[node, WEIGHT] - rest, 0.0)
    offers[j, OFFER_INFO], offers[j, OFFER_COUNT] = info, found


@kernel(inline=True)
def _mark_levels(
    entries: Array, w: Array, child: Array, runs: Array, start: int, end: int, stop: int, j: int, found: int
) -> int:
    """Each row's child by its level; rows without one go to the heaviest, whose number is returned."""
    heavy, most = 0, -1.0
    for c in range(found):
        weight = 0.0
        for i in range(runs[0, c], runs[0, c + 1]):
            row = entries[j, i] & ROW
            child[row] = c
            weight += w[row] if w.size > 0 else 1.0
        if weight > most:
            heavy, most = c, weight
    for i in range(end, stop):
        child[entries[j, i] & ROW] = heavy
    return heavy


@kernel(inline=True)
def _mark_cut(entries: Array, ints: Array, child: Array, offers: Array, node: int, j: int, end: int) -> None:
    """Each row's child by a cut in two, and where the threshold is."""
    at, gap = np.int64(offers[j, OFFER_AT]), np.int64(offers[j, OFFER_GAP])
    for i in range(ints[node, START], ints[node, STOP]):
        child[entries[j, i] & ROW] = gap if i >= end else (0 if i <= at else 1)
    ints[node, GAP] = gap
    note_cut(entries, ints, node, j, at, end)


@kernel(inline=True)
def _write_levels(
    entries: Array, levels: Array, runs: Array, words: Array, base: int, j: int, many: int, heavy: int
) -> None:
    """The child of each level: a number where there are many, bits where there are two."""
    if many > 2:
        for code in range(levels[j]):
            words[base + code] = UNSEEN
        for c in range(many):
            words[base + (entries[j, runs[0, c]] >> 32)] = c
        return
    for k in range((levels[j] + 31) // 32):
        words[base + k] = 0
    one, two = entries[j, runs[0, 0]] >> 32, entries[j, runs[0, 1]] >> 32
    for code in range(levels[j]):
        if code == one or (heavy == 0 and code != two):
            words[base + (code >> 5)] |= BIT << np.uint32(code & 31)


@kernel(inline=True)
def _offsets(entries: Array, j: int, start: int, stop: int, child: Array, runs: Array, many: int) -> None:
    """Where each child's stretch begins."""
    for c in range(many + 1):
        runs[1, c] = 0
    for i in range(start, stop):
        runs[1, child[entries[j, i] & ROW] + 1] += 1
    runs[1, 0] = start
    for c in range(many):
        runs[1, c + 1] += runs[1, c]


@kernel(inline=True)
def _spread(entries: Array, column: int, start: int, stop: int, child: Array, runs: Array, many: int) -> None:
    """A column's entries child by child, each in its old order, in the spare column."""
    spare = entries.shape[0] - 1
    for c in range(many):
        runs[2, c] = runs[1, c]
    for i in range(start, stop):
        entry = entries[column, i]
        c = child[entry & ROW]
        entries[spare, runs[2, c]] = entry
        runs[2, c] += 1


@kernel(inline=True)
def _back(entries: Array, column: int, start: int, stop: int) -> None:
    """Take the spare column as the column's own."""
    spare = entries.shape[0] - 1
    for i in range(start, stop):
        entries[column, i] = entries[spare, i]
