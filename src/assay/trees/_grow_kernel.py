"""The kernel that grows one tree on a binned table, node by node (see `_grow`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._grow_categories import SUBSETS, order_levels
from assay.trees._grow_list import collect, scan_classes, scan_sums
from assay.trees._grow_median import scan_medians
from assay.trees._grow_node import (
    BEGIN,
    BINS,
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
    LEVELS,
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
    divide,
    level_words,
    middle_cut,
    summary,
)
from assay.trees._grow_split import (
    COLUMN,
    CONSTANT,
    EMPTY,
    FILLED,
    FIRST,
    GAIN,
    LAST,
    LOST,
    NEXT,
    ONE,
    SIZE,
    SPLIT,
    TWO,
    Rules,
    dense_classes,
    dense_sums,
    rank_rows,
    small_classes,
    small_sums,
)
from assay.trees._queue import below, sift

__all__ = ["ASIDE", "FEW", "NEVER", "SMALL", "grow"]

Array = np.ndarray
NEVER = 2**31 - 1
SMALL = 64
ASIDE = -2
"""What stands for the children of a node that is left for another kernel call."""
FEW = 1000
"""Nodes of fewer rows are not worth a call of their own."""


@kernel
def grow(
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
    bits: Array,
    listing: Array,
    spare_index: Array,
    spare_rows: Array,
    spare_count: Array,
    columns: Array,
    state: Array,
    general: Any,
    medians: Any,
    most: int,
    aside: int,
    done: Array,
    ints: Array,
    reals: Array,
    value: Array,
    waiting: Array,
    words: Array,
) -> None:
    """Grow the tree; nodes wait on a stack (depth first), or on a heap by the loss they save (best first).

    Comes back before it is finished when there is no room for two more nodes or a category's words. Depth first, a node
    of FEW up to `aside` rows is only marked, to be grown by another call.

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
                sift(waiting, pending, np.int64(0), reals, np.int64(SAVED))
        begin = np.int64(ints[t, BEGIN])
        end = np.int64(ints[t, END])
        depth = np.int64(ints[t, DEPTH])
        if not greedy and FEW <= end - begin <= aside:
            ints[t, CHILD] = ASIDE
            continue
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
                    j = columns[0, p - wanted]
                    if columns[1, j] < depth:
                        wanted -= 1
                        continue
                else:
                    at = known + below(state, stop - known)
                    j = columns[0, at]
                gone = info[j, BINS]
                status = EMPTY
                if rules.simple and not info[j, LEVELS]:
                    if node.end - node.begin > SMALL:
                        if K == 1:
                            status = dense_sums(
                                codes, j, gone, index, begin, end - begin, pairs, sums, bits, listing, node.weight,
                                node.rounding, rules.min_weight, place, gain,
                            )  # fmt: skip
                        else:
                            status = dense_classes(
                                codes, j, gone, index, begin, end - begin, rows, totals, left, sums, shares, bits,
                                listing, node.weight, node.rounding, rules.min_weight, place, gain,
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
                    counts, lists, key = general
                    order, spare, chosen = lists[0], lists[1], lists[2]
                    listed = collect(
                        codes, j, gone, index, begin, end - begin, rows, pairs,
                        count[: count.size if rules.counted else 0], status == FILLED, sums, counts, shares, bits,
                        order,
                    )  # fmt: skip
                    status = CONSTANT
                    if listed + (sums[gone, 0] > 0.0) > 1:
                        status = FILLED
                        subsets = info[j, LEVELS] > 0 and K > 2 and listed > 1 and listed <= SUBSETS
                        if info[j, LEVELS] and not subsets:
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
            if general is not None and info[j, LEVELS]:
                level_words(
                    words, used, info[j, LEVELS], info[j, BINS], missing == 0, place[SPLIT], place[SIZE], general[1][2]
                )
                ints[t, OFFSET] = used
                used += (info[j, LEVELS] + 31) // 32
            elif place[NEXT] < 0:
                reals[t, THRESHOLD] = np.inf
            else:
                reals[t, THRESHOLD] = middle_cut(cuts, info[j, START] + place[LAST], info[j, START] + place[NEXT] - 1)
            if greedy:
                waiting[pending] = t
                pending += 1
                sift(waiting, pending, pending - 1, reals, np.int64(SAVED))
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
