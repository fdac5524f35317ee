"""Trees by exact search: every cut of every column, with each column sorted once for the whole tree.

Presorted growth (Mehta, Agrawal, Rissanen 1996, SLIQ; Breiman et al. 1984): entries `rank << 32 | row` of each column
are sorted once. A node owns the same stretch of every column's entries; a split parts each stretch, keeping the
order within both halves, so no node sorts again and every scan reads memory in order. Nodes that turn out to be
leaves are never parted. A search ends early when a split leaves no loss behind, because nothing can beat it.

Cost: O(n p log n) for the sort, then O(n p) for each level of the tree (absolute error: times log n).
Ties: the first column, then the lowest cut; a later split must save more by 1e-12 of the node's loss to win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel
from assay.trees._categories import FEW, level_keys, level_runs, ordered_view, scan_subsets
from assay.trees._criteria import ABSOLUTE, CRITERIA, GINI, LOG, MISSING, ROW, SAME, SQUARED
from assay.trees._limits import Limits
from assay.trees._node import (
    ABOVE,
    BELOW,
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
    note_cut,
    open_node,
    prepare,
    scan_column,
)
from assay.trees._nodes import LEAF, Nodes

__all__ = ["Presort", "grow_exact", "presort"]

Array = np.ndarray
BIT = np.uint32(1)


@dataclass(frozen=True, eq=False)
class Presort:
    """The entries of each column, `rank << 32 | row` ascending (p x n, int64); a category's rank is its code."""

    entries: Array


def presort(X: Array, levels: Sequence[int] | Array, n_jobs: int | None = None) -> Presort:
    """Sort each column once; any weights, bootstrap samples and folds of the rows share it."""
    n, p = X.shape
    entries = np.empty((p, n), dtype=np.int64)

    def sort(j: int) -> None:
        column = X[:, j].copy()  # never read-only: that would be another type, compiled anew
        _rank(column, np.argsort(column), bool(levels[j]), entries[j])

    parallel(sort, range(p), n_jobs=n_jobs, work=20.0 * n * p)
    return Presort(entries)


@kernel
def _rank(x: Array, order: Array, category: bool, entries: Array) -> None:
    rank: Any = 0
    for i in range(x.size):
        v = x[order[i]]
        if v != v:
            entries[i] = (MISSING << 32) | order[i]
            continue
        if category:
            rank = np.int64(v)
        elif i > 0 and v != x[order[i - 1]]:
            rank += 1
        entries[i] = (rank << 32) | order[i]


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
    """
    kind, p = CRITERIA[criterion], X.shape[1]
    entries, rows = present(presort.entries, y, w, kind == ABSOLUTE)
    weights, many = row_weights(y.size, w, counts)
    min_leaf, min_weight = limits.min_leaf, limits.min_weight
    if weights.size == 0:  # every row weighs 1, so the weight of a leaf is a number of rows
        min_leaf, min_weight = max(min_leaf, ceil(min_weight * (1 - SAME))), 0.0
    min_split = max(limits.min_split, 2 * min_leaf)
    rules = np.array(
        [kind, classes, p, max_features, limits.max_depth, limits.max_leaves, min_split, min_leaf], dtype=np.int64
    )
    inverse, terms = count_tables(rows if weights.size == 0 else 0, kind)
    ints, reals, value = _room(rows, limits, classes)
    most = int(np.max(levels, initial=0))
    ranks = rows if kind == ABSOLUTE else 0
    data = (
        np.empty(0) if classes else np.array(y, dtype=np.float64),
        np.array(y, dtype=np.int32) if classes else np.empty(0, dtype=np.int32),
        weights,
        many,
    )
    least = np.array([min_weight, limits.min_decrease])
    if not open_root(entries, data, rules, least, ints, reals, value):
        return as_nodes(X, ints[:1], reals[:1], value[:1], np.empty(0, dtype=np.uint32))
    size, used, words = _grow(
        entries,
        *data,
        np.array([levels, monotone], dtype=np.int64),
        inverse,
        terms,
        rules,
        least,
        ints,
        reals,
        value,
        np.empty(y.size, dtype=np.uint8),
        np.empty((3, min(rows, most) + 1), dtype=np.int64),
        np.empty((most + classes + 4 if most else 0, classes + 2)),
        np.array([np.arange(p), np.ones(p)], dtype=np.int64),
        np.empty((5, max(2, classes))),
        np.empty(y.size if ranks else 0, dtype=np.int64),
        np.zeros((11, ranks + 2)),
        np.empty((2, ranks + 2), dtype=np.int64),
        np.uint64(seed & 0xFFFFFFFFFFFFFFFF),
    )
    return as_nodes(X, ints[:size], reals[:size], value[:size], words[:used].copy())


def open_root(
    entries: Array, data: tuple[Array, ...], rules: Array, least: Array, ints: Array, reals: Array, value: Array
) -> bool:
    """Set up node 0 over all rows; whether it may be split."""
    ints[0, DEPTH], reals[0, LEAST], reals[0, MOST] = 0, -np.inf, np.inf
    return bool(open_node(entries, *data, rules, least, ints, reals, value, 0, 0, entries.shape[1], 0))


def as_nodes(X: Array, ints: Array, reals: Array, value: Array, words: Array) -> Nodes:
    """The grown tree as columns, with thresholds half way between the values on both sides of a cut."""
    cut = np.flatnonzero((ints[:, COUNT] == 2) & (ints[:, OFFSET] < 0))
    below, above, column = ints[cut, BELOW], ints[cut, ABOVE], ints[cut, FEATURE]
    low, high = X[below, column], X[above, column]
    with np.errstate(over="ignore"):
        middle = low + (high - low) / 2.0
    # Between neighbours of floating point the middle may round up to the right one.
    middle = np.where((middle >= low) & (middle < high), middle, low)
    threshold = np.zeros(len(ints))
    threshold[cut] = np.where(above < 0, np.inf, middle)
    return Nodes(
        starts=np.array([0, len(ints)], dtype=np.int64),
        feature=ints[:, FEATURE].astype(np.int32),
        threshold=threshold,
        first=ints[:, FIRST].astype(np.int32),
        count=ints[:, COUNT].astype(np.int32),
        missing=ints[:, GAP].astype(np.int32),
        offset=ints[:, OFFSET].copy(),
        words=words,
        value=value.copy(),
        rows=ints[:, ROWS].copy(),
        weight=reals[:, WEIGHT].copy(),
        impurity=reals[:, IMPURITY].copy(),
        gain=reals[:, GAIN].copy(),
    )


def present(entries: Array, y: Array, w: Array | None, absolute: bool) -> tuple[Array, int]:
    """A copy of the entries of rows with weight, and three more columns: the order of y, ordered levels, room."""
    p, n = entries.shape
    keep = np.ones(n, dtype=bool) if w is None else w > 0
    rows = int(np.count_nonzero(keep))
    out = np.empty((p + 3, rows), dtype=np.int64)
    if rows == n:
        out[:p] = entries
    else:
        _keep(entries, keep, out)
    if absolute:
        y, by_y = np.array(y, dtype=np.float64), np.empty(n, dtype=np.int64)
        _rank(y, np.argsort(y), False, by_y)
        out[p] = by_y[keep[by_y & ROW]]
    return out, rows


@kernel
def _keep(entries: Array, keep: Array, out: Array) -> None:
    for j in range(entries.shape[0]):
        at = 0
        for i in range(entries.shape[1]):
            if keep[entries[j, i] & ROW]:
                out[j, at] = entries[j, i]
                at += 1


def row_weights(n: int, w: Array | None, counts: Array | None) -> tuple[Array, Array]:
    """Weights and counts for the kernel, both empty where every row that is there weighs 1 and counts once."""
    active = np.ones(n, dtype=bool) if w is None else w > 0
    plain = w is None or bool(np.all(w[active] == 1.0))
    plain = plain and (counts is None or bool(np.all(counts[active] == 1)))
    if plain:
        return np.empty(0), np.empty(0, dtype=np.int64)
    weights = np.ones(n) if w is None else np.array(w, dtype=np.float64)
    many = np.ones(n, dtype=np.int64) if counts is None else np.array(counts, dtype=np.int64)
    return weights, many


def count_tables(rows: int, kind: int) -> tuple[Array, Array]:
    """1 / c and c log2 c of every count up to `rows` (0: none is needed)."""
    count = np.maximum(np.arange(rows + 1.0), 1.0)
    if rows and kind in (SQUARED, GINI):
        return 1.0 / count, np.empty(0)
    if rows and kind == LOG:
        terms = count * np.log2(count)
        # A multiple of one power of two, coarse enough that any sum of terms is a float without rounding.
        grid = 2.0 ** (50 - ceil(np.log2(terms[-1] + 2.0)))
        return np.empty(0), np.rint(terms * grid) / grid
    return np.empty(0), np.empty(0)


def _room(rows: int, limits: Limits, classes: int) -> tuple[Array, Array, Array]:
    """Memory for as many nodes as there can be; a leaf has a row of its own at least."""
    leaves = rows
    if limits.max_leaves:
        leaves = min(leaves, limits.max_leaves)
    if limits.max_depth < 31:
        leaves = min(leaves, 1 << limits.max_depth)
    size = 2 * leaves - 1
    return np.empty((size, 12), dtype=np.int64), np.empty((size, 5)), np.empty((size, max(1, classes)))


@kernel
def _grow(
    entries: Array,
    y: Array,
    codes: Array,
    w: Array,
    counts: Array,
    about: Array,
    inverse: Array,
    terms: Array,
    rules: Array,
    least: Array,
    ints: Array,
    reals: Array,
    value: Array,
    side: Array,
    levels: Array,
    scratch: Array,
    draws: Array,
    sums: Array,
    place: Array,
    targets: Array,
    links: Array,
    seed: int,
) -> tuple[int, int, Array]:
    """Grow the whole tree from its open root; return the number of nodes, of words of its categories, and the words.

    `about` holds levels and monotone signs of the columns. Scratch: `side` (each row's child), `levels` (where
    runs of levels begin; which of them go to the first child; their order by response),
    `scratch` (what is known of levels), `draws` (shuffled columns; which are searched), `sums` (of classes), `place`,
    `targets`, `links` (medians).
    """
    rows = entries.shape[1]
    words = np.empty(0, dtype=np.uint32)
    # Whole numbers of one type, or each literal below would compile the functions it is passed to once more.
    zero: Any = np.int64(0)
    used, waiting, queued, leaves, size = zero, zero, zero, zero + 1, zero + 1
    state = np.array([seed], dtype=np.uint64)
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
            prepare(entries, y, w, rules, ints, reals, value, sums, place, targets, node)
            best, column, cut, gap, picked = -np.inf, zero - 1, zero - 1, zero - 1, zero
            for j in range(p):
                if draws[1, j] == 0 or (entries[j, start] >> 32) == (entries[j, stop - 1] >> 32):
                    continue
                end = first_missing(entries, j, start, stop)
                sign, found, c = about[1, j], 0, j
                if about[0, j] > 0:
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
                    entries, y, codes, w, counts, inverse, terms, rules, least, ints, reals, value, sums, place,
                    targets, links, node, c, end, sign, best,
                )  # fmt: skip
                if at >= 0:
                    best, column, cut, gap, picked = gain, j, at, turn, 0
                    if found > 0:  # the levels up to the cut of the ordered view
                        for i in range(start, at + 1):
                            if i == start or (entries[c, i] >> 32) != (entries[c, i - 1] >> 32):
                                levels[1, picked] = levels[2, picked]
                                picked += 1
                if best >= loss - tie:
                    break  # no loss is left to be saved
            if column < 0 or best + tie < least[MIN_DECREASE]:
                continue
            if about[0, column] > 0:
                need = (about[0, column] + 31) // 32
                if used + need > words.size:
                    more = np.empty(2 * (used + need), dtype=np.uint32)
                    for k in range(used):
                        more[k] = words[k]
                    words = more
                ints[node, OFFSET] = used
                used += need
            _write(entries, w, about, ints, reals, levels, words, node, column, best, cut, gap, picked)
            if best_first:
                _push(heap, queued, reals, node)
                queued += 1
                continue
        else:
            node = heap[0]
            queued -= 1
            _pop(heap, queued, reals)
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
            if open_node(entries, y, codes, w, counts, rules, least, ints, reals, value, child, low, high, j):
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


@kernel
def _write(
    entries: Array,
    w: Array,
    about: Array,
    ints: Array,
    reals: Array,
    levels: Array,
    words: Array,
    node: int,
    j: int,
    gain: float,
    at: int,
    gap: int,
    picked: int,
) -> None:
    """Keep a split that was found: threshold or categories, and the side of missing values if rows decided it."""
    start, stop = ints[node, START], ints[node, STOP]
    end = first_missing(entries, j, start, stop)
    ints[node, FEATURE], ints[node, GAP], ints[node, CUT] = j, gap, at
    reals[node, GAIN] = max(gain, 0.0)
    if about[0, j] == 0:
        note_cut(entries, ints, node, j, at, end)
        return
    base = ints[node, OFFSET]
    for k in range(base, base + (about[0, j] + 31) // 32):
        words[k] = 0
    for k in range(picked):
        code = levels[1, k]
        words[base + (code >> 5)] |= BIT << np.uint32(code & 31)
    if gap < 0:
        # No row decided: missing and unseen values go with the heavier child.
        up = 0.0
        for i in range(start, end):
            code = entries[j, i] >> 32
            if (words[base + (code >> 5)] >> np.uint32(code & 31)) & BIT:
                up += w[entries[j, i] & ROW] if w.size > 0 else 1.0
        gap = 0 if 2.0 * up >= reals[node, WEIGHT] else 1
        ints[node, GAP] = gap
    if gap == 0:
        # Levels that this node has not seen go where missing values go.
        code = 0
        for i in range(start, end + 1):
            seen = entries[j, i] >> 32 if i < end else about[0, j]
            while code < seen:
                words[base + (code >> 5)] |= BIT << np.uint32(code & 31)
                code += 1
            if code == seen:
                code += 1


@kernel
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
    if rules[CRITERION] == ABSOLUTE:
        _stable(entries, rules[COLUMNS], start, stop, side, spare)
    return _stable(entries, j, start, stop, side, spare)


@kernel
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


@kernel
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


@kernel
def _before(reals: Array, a: int, b: int) -> bool:
    return reals[a, GAIN] > reals[b, GAIN] or (reals[a, GAIN] == reals[b, GAIN] and a < b)


@kernel
def _push(heap: Array, size: int, reals: Array, node: int) -> None:
    at = size
    while at > 0 and _before(reals, node, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = node


@kernel
def _pop(heap: Array, size: int, reals: Array) -> None:
    """Take the top away; `size` entries remain."""
    node = heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(reals, heap[child + 1], heap[child]):
            child += 1
        if not _before(reals, heap[child], node):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = node
