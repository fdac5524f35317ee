"""Deep trees on binned tables: the engine of forests, of bagged trees and of histogram splits.

A node's rows are one stretch of an index array, and so are their responses and weights. To split a node, a few columns
are drawn, and the best division of each is found from its bins (`_grow_split`, `_grow_categories`, `_grow_median`).
The stretch is then divided in place, keeping the order of rows.

    cost of a node with n rows:  O(m (n + min(n, bins))) for m columns;  of a tree:  O(m n depth)

Thresholds come from the bins of the whole table: between the neighbouring bins a and b that a node divides, the cut
nearest to the middle of the gap. Where every column has no more different values than there are bins, this is the tree
of an exact search, but for where in its gap a threshold stands. Columns that have become constant are remembered down
the branch and do not count as drawn. A tree is one kernel call that holds no lock, so a forest grows one per thread.
Breiman, Friedman, Olshen and Stone (1984); Breiman (2001), Machine Learning 45, 5-32.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._binning import Codes
from assay.trees._grow_categories import SUBSETS, order_levels
from assay.trees._grow_list import collect, scan_classes, scan_sums
from assay.trees._grow_median import scan_medians
from assay.trees._grow_node import (
    BEGIN,
    BINS,
    CATEGORY,
    CHILD,
    CUT,
    DEPTH,
    END,
    FEATURE,
    FINISHED,
    HIGH,
    IMPURITY,
    KNOWN,
    LEAVES,
    LEFT,
    LOOKED,
    LOW,
    MISSING,
    OFFSET,
    PENDING,
    RIGHT,
    ROWS,
    SAVED,
    SIGN,
    SIZE_,
    START,
    THRESHOLD,
    USED,
    WEIGHT,
    below,
    divide,
    level_words,
    middle_cut,
    sift,
    summary,
    write,
)
from assay.trees._grow_split import (
    ABSOLUTE,
    COLUMN,
    CONSTANT,
    EMPTY,
    ERROR,
    FILLED,
    FIRST,
    GAIN,
    GINI,
    LAST,
    LOG_LOSS,
    LOST,
    NEXT,
    ONE,
    POISSON,
    SIZE,
    SPLIT,
    SQUARED,
    TWO,
    Rules,
    dense_classes,
    dense_sums,
    rank_rows,
    small_classes,
    small_sums,
)
from assay.trees._limits import Limits
from assay.trees._nodes import Nodes

__all__ = ["grow_binned"]

Array = np.ndarray
CRITERIA = {
    "squared_error": SQUARED,
    "poisson": POISSON,
    "absolute_error": ABSOLUTE,
    "gini": GINI,
    "log_loss": LOG_LOSS,
    "entropy": LOG_LOSS,
    "error": ERROR,
}
NEVER = 2**31 - 1
SMALL = 64


def grow_binned(
    codes: Codes,
    y: Array,
    w: Array | None,
    criterion: str,
    classes: int,
    limits: Limits,
    *,
    max_features: int,
    monotone: Array | None,
    seed: int,
    counts: Array | None = None,
) -> Nodes:
    """One tree on a binned table.

    | argument     | meaning                                                                                       |
    |--------------|-----------------------------------------------------------------------------------------------|
    | codes        | the binned table                                                                              |
    | y            | float64 targets (classes = 0), or class codes 0 .. classes - 1                                |
    | w            | weights, None: all one; rows of weight 0 are ignored                                          |
    | criterion    | "squared_error", "absolute_error", "poisson"; "gini", "log_loss" ("entropy"), "error"         |
    | classes      | 0, or how many classes there are                                                              |
    | limits       | when growth stops                                                                             |
    | max_features | columns drawn at each node, without replacement; as many as there are: all, in their order    |
    | monotone     | -1, 0 or 1 for each column, None: no constraint (numeric targets and two classes)             |
    | seed         | where the draws begin                                                                         |
    | counts       | how many drawn rows each row stands for, None: one where the weight is positive               |

    A zero-gain split is allowed, as in scikit-learn; a Poisson split leaves a positive sum on both sides.

    >>> from assay.trees._binning import bin_table
    >>> X = np.arange(6.0)[:, None]
    >>> y = np.array([0.0, 0.0, 0.0, 5.0, 5.0, 9.0])
    >>> tree = grow_binned(
    ...     bin_table(X, [0]), y, None, "squared_error", 0, Limits(max_depth=1), max_features=1, monotone=None, seed=0
    ... )
    >>> tree.threshold[0], tree.value.ravel().round(2).tolist()
    (np.float64(2.5), [3.17, 0.0, 6.33])
    """
    kind = CRITERIA[criterion]
    # The Gini loss of two classes is twice the squared error of their indicator.
    twice = classes == 2 and kind == GINI
    kind, width = (SQUARED, 1) if twice else (kind, max(classes, 1))
    bins = codes.bins
    index = np.arange(y.size, dtype=np.int32) if w is None else np.flatnonzero(w > 0).astype(np.int32)
    if kind == ABSOLUTE:
        index = index[np.argsort(y[index], kind="stable")]
    n = index.size
    rows = np.empty((n, 2))
    rows[:, 0] = 1.0 if w is None else w[index]
    rows[:, 1] = y[index]
    count = np.ones(n, dtype=np.int32) if counts is None else counts[index].astype(np.int32)
    apart = not np.array_equal(rows[:, 0], count)
    count = count if apart else count[:0]
    signs = np.zeros(bins.n_bins.size, dtype=np.int8) if monotone is None else np.asarray(monotone)
    rules = _rules(kind, width, limits, max_features, apart, signs, 0.5 if twice else 1.0)
    info = np.column_stack([bins.n_bins, bins.categorical, bins.starts[:-1], signs]).astype(np.int64)
    room = int(bins.n_bins.max(initial=0)) + 3
    plain = rules.simple and not bins.categorical.any() and not _gaps(codes)
    done, ints, reals, value, words = _grown(
        (codes.values, info, bins.cuts, rules, index, rows, count),
        _space(codes.values, room, n, width, count.size, seed),
        None if plain else _general_space(room),
        _median_space(room, n) if kind == ABSOLUTE else None,
    )
    size = int(done[SIZE_])
    return _nodes(ints[:size], reals[:size], value[:size], words[: done[USED]].copy(), twice)


def _grown(
    given: tuple[Any, ...],
    space: tuple[Array, ...],
    general: tuple[Array, ...] | None,
    medians: tuple[Array, ...] | None,
) -> tuple[Array, Array, Array, Array, Array]:
    """Grow until done, with more room for nodes whenever the kernel comes back for it."""
    info, rules = given[1], given[3]
    most = int((info[:, BINS] * info[:, CATEGORY]).max(initial=0)) // 32 + 1
    done = np.zeros(6, dtype=np.int64)
    ints, reals, value = np.empty((256, 10), np.int32), np.empty((256, 8)), np.empty((256, rules.classes))
    waiting, words = np.empty(256, np.int64), np.empty(most, np.uint32)
    ints[0], reals[0, LOW], reals[0, HIGH] = 0, -np.inf, np.inf
    ints[0, END] = given[4].size
    while not done[FINISHED]:
        _grow(*given, *space, general, medians, most, done, ints, reals, value, waiting, words)
        if done[SIZE_] + 2 > ints.shape[0]:
            ints, reals, value, waiting = (_longer(array) for array in (ints, reals, value, waiting))
        if done[USED] + most > words.size:
            words = np.concatenate([words, np.empty(words.size + most, np.uint32)])
    return done, ints, reals, value, words


def _longer(array: Array) -> Array:
    return np.concatenate([array, np.empty((3 * array.shape[0], *array.shape[1:]), array.dtype)])


def _gaps(codes: Codes) -> bool:
    """Whether the table has missing values at all, looked up once for all trees of a forest."""
    if codes not in _known_gaps:
        n_bins = codes.bins.n_bins.astype(codes.values.dtype)
        _known_gaps[codes] = any(
            bool((codes.values[i : i + 4096] == n_bins).any()) for i in range(0, codes.values.shape[0], 4096)
        )
    return _known_gaps[codes]


_known_gaps: WeakKeyDictionary[Codes, bool] = WeakKeyDictionary()


def _rules(kind: int, width: int, limits: Limits, max_features: int, apart: bool, signs: Array, unit: float) -> Rules:
    constrained, counted = width <= 2 and bool(signs.any()), apart and limits.min_leaf > 1
    # Where weights are counts, fewest rows are least weight; a speck below is rounding.
    least = limits.min_weight if apart else max(limits.min_weight, float(limits.min_leaf))
    return Rules(
        criterion=kind,
        classes=width,
        max_depth=int(limits.max_depth),
        max_leaves=int(limits.max_leaves),
        min_split=int(limits.min_split),
        min_leaf=int(limits.min_leaf),
        min_weight=float(least) * (1 - 1e-12),
        min_decrease=float(limits.min_decrease) * unit,
        max_features=int(max_features),
        counted=bool(counted),
        constrained=constrained,
        simple=kind in (SQUARED, GINI) and not constrained and not counted,
    )


def _space(codes: Array, bins: int, n: int, classes: int, counted: int, seed: int) -> tuple[Array, ...]:
    """What every tree needs: sums and class weights by bin, ranks, rows on the move, columns, the seed."""
    p = codes.shape[1]
    return (
        np.zeros((bins, 2)),
        np.zeros((bins if classes > 1 else 1, classes)),
        np.zeros((3, classes)),
        np.empty((n if classes == 1 else 1, 2)),
        np.empty((3, SMALL), dtype=np.int16 if codes.dtype == np.uint8 else np.int32),
        np.empty(n, dtype=np.int32),
        np.empty((n, 2)),
        np.empty(counted, dtype=np.int32),
        np.stack([np.arange(p), np.full(p, NEVER)]),
        np.array([seed % 2**64], dtype=np.uint64),
    )


def _general_space(bins: int) -> tuple[Array, ...]:
    """What gaps, categories and constraints need: counts, lists of bins, their keys, a bitmap."""
    return np.zeros(bins, dtype=np.int64), np.zeros((3, bins), np.int64), np.empty(bins), np.zeros(bins, np.uint64)


def _median_space(bins: int, n: int) -> tuple[Array, ...]:
    """Heads and chains of the rows of each bin, Fenwick tree, losses, and rows of a child."""
    return np.full(bins, -1), np.empty(n, dtype=np.int64), np.empty((n + 1, 2)), np.zeros((4, bins)), np.empty((n, 2))


def _nodes(ints: Array, reals: Array, value: Array, words: Array, twice: bool) -> Nodes:
    size = ints.shape[0]
    whole = np.empty((4, size), dtype=np.int32)
    offset, rows = np.empty((2, size), dtype=np.int64)
    real = np.empty((4, size))
    shares = np.empty((size, 2 if twice else value.shape[1]))
    write(ints, reals, value, whole, offset, rows, real, shares, 2.0 if twice else 1.0)
    return Nodes(
        starts=np.array([0, size], dtype=np.int64),
        feature=whole[0],
        threshold=real[0],
        first=whole[1],
        count=whole[2],
        missing=whole[3],
        offset=offset,
        words=words,
        value=shares,
        rows=rows,
        weight=real[1],
        impurity=real[2],
        gain=real[3],
    )


@kernel
def _grow(
    codes: Array,
    info: Array,
    cuts: Array,
    rules: Rules,
    index: Array,
    rows: Array,
    count: Array,
    sums: Array,
    shares: Array,
    weights: Array,
    pairs: Array,
    keys: Array,
    spare_index: Array,
    spare_rows: Array,
    spare_count: Array,
    columns: Array,
    state: Array,
    general: Any,
    medians: Any,
    most: int,
    done: Array,
    ints: Array,
    reals: Array,
    value: Array,
    waiting: Array,
    words: Array,
) -> None:
    """Grow the tree; nodes wait on a stack (depth first), or on a heap by the loss they save (best first).

    Comes back before it is finished when there is no room for two more nodes or a category's words.

    Columns known to be constant stand first in columns[0]. A branch only moves those behind what was known above it,
    so the front is still right when the sibling comes. With all columns, columns[1] is the depth at which one became
    constant.
    """
    p = info.shape[0]
    K = rules.classes
    totals, left, right = weights[0], weights[1], weights[2]
    place = np.empty(6, dtype=np.int64)
    gain = np.empty(4)
    every = rules.max_features >= p
    greedy = rules.max_leaves > 0
    size = done[SIZE_]
    leaves = done[LEAVES]
    looked = done[LOOKED]  # best first: nodes from here on have not been looked at
    pending = done[PENDING]
    used = done[USED]
    if size == 0:
        size = 1
        leaves = 1
        waiting[0] = 0
        pending = 0 if greedy else 1
    while size + 2 <= ints.shape[0] and used + most <= words.size:
        look = True
        if greedy and looked < size:
            t = looked
            looked += 1
        else:
            if pending == 0 or (greedy and leaves >= rules.max_leaves):
                done[FINISHED] = 1
                break
            look = not greedy
            pending -= 1
            t = waiting[0] if greedy else waiting[pending]
            if greedy:
                waiting[0] = waiting[pending]
                sift(waiting, pending, np.int64(0), reals)
        begin = np.int64(ints[t, BEGIN])
        end = np.int64(ints[t, END])
        depth = np.int64(ints[t, DEPTH])
        if look:
            node = summary(
                begin, end, reals[t, LOW], reals[t, HIGH], rules, rows, count, medians, totals, pairs, value, t
            )
            ints[t, CHILD] = -1
            ints[t, ROWS] = node.rows
            reals[t, WEIGHT] = node.weight
            reals[t, IMPURITY] = node.loss / node.weight
            if depth >= rules.max_depth or node.rows < rules.min_split or end - begin < 2 or node.loss <= 0.0:
                continue
            place[COLUMN] = -1
            gain[GAIN] = -1.0
            known = np.int64(ints[t, KNOWN])
            stop = p
            wanted = rules.max_features
            if every:
                wanted = p
                for j in range(p):
                    if columns[1, j] >= depth or greedy:
                        columns[1, j] = NEVER
            at = 0
            while wanted > 0 and known < stop:
                if every:
                    j = p - wanted
                    if columns[1, j] < depth:
                        wanted -= 1
                        continue
                else:
                    at = known + below(state, stop - known)
                    j = columns[0, at]
                gone = info[j, BINS]
                status = EMPTY
                if rules.simple and not info[j, CATEGORY]:
                    if node.end - node.begin > SMALL:
                        if K == 1:
                            status = dense_sums(
                                codes, j, gone, index, begin, end - begin, pairs, sums, node.weight, node.rounding,
                                rules.min_weight, place, gain,
                            )  # fmt: skip
                        else:
                            status = dense_classes(
                                codes, j, gone, index, begin, end - begin, rows, totals, left, sums, shares,
                                node.weight, node.rounding, rules.min_weight, place, gain,
                            )  # fmt: skip
                    else:
                        status = rank_rows(codes, j, gone, index, begin, end - begin, keys)
                        if status != CONSTANT and status != EMPTY:
                            if K == 1:
                                small_sums(
                                    j, end - begin, keys, pairs, node.weight, node.rounding, rules.min_weight,
                                    place, gain,
                                )  # fmt: skip
                            else:
                                small_classes(
                                    j, end - begin, keys, begin, rows, totals, left, node.weight, node.rounding,
                                    rules.min_weight, place, gain,
                                )  # fmt: skip
                if general is not None and status >= FILLED:
                    counts, lists, key, bits = general
                    order, spare, chosen = lists[0], lists[1], lists[2]
                    listed = collect(
                        codes, j, gone, index, begin, end - begin, rows, pairs,
                        count[: count.size if rules.counted else 0], status == FILLED, sums, counts, shares, bits,
                        order,
                    )  # fmt: skip
                    status = CONSTANT
                    if listed + (sums[gone, 0] > 0.0) > 1:
                        status = FILLED
                        subsets = info[j, CATEGORY] > 0 and K > 2 and listed > 1 and listed <= SUBSETS
                        if info[j, CATEGORY] and not subsets:
                            order_levels(listed, sums, shares, order, key, spare)
                        sign = info[j, SIGN]
                        if medians is not None:
                            scan_medians(
                                j, listed, gone, sign, codes, index, rows, medians, node, rules, sums, counts,
                                order, place, gain, chosen,
                            )  # fmt: skip
                        elif K == 1:
                            scan_sums(j, listed, gone, sign, node, rules, sums, counts, order, place, gain, chosen)
                        else:
                            scan_classes(
                                j, listed, gone, sign, subsets, node, rules, sums, counts, shares, order, totals,
                                left, right, place, gain, chosen,
                            )  # fmt: skip
                    order[listed] = gone
                    for i in range(listed + 1):
                        b = order[i]
                        sums[b, 0] = 0.0
                        sums[b, 1] = 0.0
                        counts[b] = 0
                        if K > 1:
                            for k in range(K):
                                shares[b, k] = 0.0
                if every:
                    if status == CONSTANT:
                        columns[1, j] = depth
                    wanted -= 1
                elif status == CONSTANT:
                    columns[0, at] = columns[0, known]
                    columns[0, known] = j
                    known += 1
                else:
                    stop -= 1
                    columns[0, at] = columns[0, stop]
                    columns[0, stop] = j
                    wanted -= 1
                if gain[GAIN] >= node.loss - node.rounding:
                    break  # no column can do better
            j = place[COLUMN]
            if j < 0 or gain[GAIN] < rules.min_decrease - node.rounding:
                continue
            # Values not seen here go where more weight goes.
            missing = 1 - place[LOST] if place[LOST] >= 0 else np.int64(2.0 * gain[FIRST] < node.weight * (1.0 - 1e-12))
            ints[t, FEATURE] = j
            ints[t, MISSING] = missing
            ints[t, OFFSET] = -1
            ints[t, CUT] = place[LAST]
            ints[t, KNOWN] = 0 if greedy else known
            reals[t, SAVED] = max(gain[GAIN], 0.0)
            reals[t, LEFT] = gain[ONE]
            reals[t, RIGHT] = gain[TWO]
            reals[t, THRESHOLD] = 0.0
            if general is not None and info[j, CATEGORY]:
                level_words(words, used, info[j, BINS], missing == 0, place[SPLIT], place[SIZE], general[1][2])
                ints[t, OFFSET] = used
                used += (info[j, BINS] + 31) // 32
            elif place[NEXT] < 0:
                reals[t, THRESHOLD] = np.inf
            else:
                reals[t, THRESHOLD] = middle_cut(cuts, info[j, START] + place[LAST], info[j, START] + place[NEXT] - 1)
            if greedy:
                waiting[pending] = t
                pending += 1
                sift(waiting, pending, pending - 1, reals)
                continue
        split_on = np.int64(ints[t, FEATURE])
        middle = divide(
            codes, begin, end, split_on, info[split_on, BINS], np.int64(ints[t, CUT]), np.int64(ints[t, MISSING]),
            np.int64(ints[t, OFFSET]), index, rows, count, words, spare_index, spare_rows, spare_count,
        )  # fmt: skip
        ints[t, CHILD] = size
        for child in range(2):
            c = size + child
            ints[c, CHILD] = -1
            ints[c, BEGIN] = middle if child else begin
            ints[c, END] = end if child else middle
            ints[c, DEPTH] = depth + 1
            ints[c, KNOWN] = ints[t, KNOWN]
            reals[c, LOW] = reals[t, LOW]
            reals[c, HIGH] = reals[t, HIGH]
        if rules.constrained and info[split_on, SIGN]:
            half = (reals[t, LEFT] + reals[t, RIGHT]) / 2
            rising = info[split_on, SIGN] > 0
            reals[size if rising else size + 1, HIGH] = half
            reals[size + 1 if rising else size, LOW] = half
        if not greedy:
            waiting[pending] = size + 1
            waiting[pending + 1] = size
            pending += 2
        size += 2
        leaves += 1
    done[SIZE_] = size
    done[LEAVES] = leaves
    done[LOOKED] = looked
    done[PENDING] = pending
    done[USED] = used
