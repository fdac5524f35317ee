"""A boosted tree from root to leaves: one kernel that a team of threads runs together.

The first member leads: it keeps the nodes, chooses the columns' best split and takes the next node. All members divide
the rows, add them up and search the columns, and meet after each of these steps. In a large node they share the rows,
each adding up a few hundred at a time into sums of its own, for a row's cells lie together and are fetched once; in a
small one they share the columns, which saves a meeting.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.search import first_at_least
from assay.numerics.team import follow, lead, meet, take
from assay.trees._boost_scan import (
    BEGIN,
    BIN,
    BITS,
    BOUNDED,
    CARRIED,
    CHILD,
    DEEPER,
    DEPTH,
    END,
    FEATURE,
    FIRST,
    GAIN,
    HIGH,
    KEEP,
    L2,
    LANES,
    LEFT_G,
    LEFT_H,
    LOSS,
    LOW,
    MADE,
    MAX_DEPTH,
    MAX_LEAVES,
    MIN_GAIN,
    MIN_LEAF,
    MISSING,
    MODE,
    NODE,
    ROUNDING,
    ROWS,
    SCALE,
    SCORE,
    SLOT,
    SPARE,
    STEP,
    STEPS,
    SUM_G,
    SUM_H,
    UNIT_G,
    UNIT_H,
    WEIGHT,
    search,
    sum_up,
    unload,
)
from assay.trees._boost_words import PIECES, gather, measure, move, pack
from assay.trees._loss_steps import slopes

__all__ = ["grow", "send"]

Array = np.ndarray

SHARED, TURN, TURNS = 4096, 508, 16
"""From so many rows on they are shared when they are added up, so many at a time; so many times into short words."""
DIVIDED = 3072
"""From so many rows on they are shared when they are divided."""


@kernel
def grow(
    leads: bool, wanted: int, gate: Array, cells: Array, by_column: Array, offsets: Array, n_bins: Array,
    categorical: Array, word_starts: Array, gradients: Array, hessians: Array, packed: Array, active: Array,
    bound: Array, numbers: Array, counts: Array, order: Array, buffers: Array, pool: Array, own: Array, short: Array,
    gains: Array, sums: Array, tables: Array, spare_bits: Array, real: Array, whole: Array, bits: Array, found: Array,
    place: Array, told: Array, heap: Array, free: Array, float_parts: Array, whole_parts: Array, leaf_sums: Array,
    leaf_of_row: Array, carry: Array, target: Array, raw: Array, values: Array, tally: Array,
) -> int:  # fmt: skip
    """Grow one tree as the leader and return the number of its nodes, or help with one tree after another."""
    seen, records = np.int64(0), np.empty(2)
    while True:
        rank, size = np.int64(0), np.int64(1)
        if leads:
            size = lead(gate, wanted)
        else:
            rank, size, seen = follow(gate, seen)
            if rank < 0:
                return 0
        gradient, hessian = gradients[counts[SCORE]], hessians[min(counts[SCORE], hessians.shape[0] - 1)]
        n, p, lanes = gradient.size, n_bins.size, counts[LANES]
        news = told[0]
        keep, carried = counts[KEEP] > 0, counts[CARRIED]
        # Gradients are measured while they are near; those of a sample when all of them are known.
        measured = carried == 0 and counts[ROWS] == n
        for part in range(rank, PIECES, size):
            first, last = part * n // PIECES, (part + 1) * n // PIECES
            if counts[LOSS] > 0:
                loss = slopes(
                    counts[LOSS], counts[SCORE], target, raw, leaf_of_row, values[: counts[STEPS]], gradients, hessians,
                    first, last,
                )  # fmt: skip
                if counts[SCORE] == 0:
                    float_parts[part, 4] = loss
            if counts[ROWS] < n:
                leaf_of_row[first:last] = -1
            if measured:
                measure(float_parts[part], gradient, hessian, order, first, last, counts)
        meet(gate, size)
        if carried > 0 and not move(gate, rank, size, counts, leaf_of_row, carry, float_parts, whole_parts, packed):
            carried = 0
        brief = False
        if carried == 0:
            brief = pack(
                gate, rank, size, gradient, hessian, order, numbers, counts, float_parts, whole_parts, packed, measured,
                tally,
            )  # fmt: skip
        words = 1 if brief else lanes
        freed = queued = 0
        leaves = 1
        if rank == 0:
            for k in range(pool.shape[0] - 2, 1, -1):
                free[freed] = k
                freed += 1
            for k in range(PIECES):
                whole[0, SUM_G] += whole_parts[k, 0]
                whole[0, SUM_H] += whole_parts[k, 1]
            whole[0, END], whole[0, FEATURE] = counts[ROWS], -1
            real[0, LOW], real[0, HIGH] = -np.inf, np.inf
            news[NODE], news[CHILD], news[SPARE], news[MADE] = -1, 0, 1, 1
            news[DEEPER] = counts[MAX_LEAVES] > 1 and counts[MAX_DEPTH] > 0 and numbers[SCALE] > 0.0
        meet(gate, size)
        while True:
            # The children are known to all; find how each of them is best split.
            parent, child = news[NODE], news[CHILD]
            sides = 1 if parent < 0 else 2
            subtract = parent >= 0 and whole[max(parent, 0), SLOT] > 0
            small = child
            if sides == 2 and whole[child, END] - whole[child, BEGIN] > whole[child + 1, END] - whole[child + 1, BEGIN]:
                small = child + 1
            large = 2 * child + 1 - small if sides == 2 else child
            enough = (2 if tally.size > 1 else 2 * counts[MIN_LEAF]) if news[DEEPER] else n + 1
            look_small = whole[small, END] - whole[small, BEGIN] >= enough
            look_large = sides == 2 and whole[large, END] - whole[large, BEGIN] >= enough
            # The sums of a node are kept where there is room; the first and the last place are used again at once.
            small_sums = pool[news[SPARE]]
            large_sums = pool[whole[parent, SLOT] if subtract else pool.shape[0] - 1]
            low, high = p * rank // size, p * (rank + 1) // size
            shared = size > 1 and whole[small, END] - whole[small, BEGIN] >= SHARED and (subtract or not look_large)
            known = parent < 0 and carried > 0
            if known:
                shared = False
                for j in range(low, high):
                    gather(carried, carry, pool, offsets[j], offsets[j + 1], counts[BITS], sums[rank, 0])
            for side in range(0 if known else sides):
                node = large if side else small
                if look_large and not subtract if side else look_small or keep or (look_large and subtract):
                    mine = large_sums if side else (own[rank] if shared and rank else small_sums)
                    from_, to = (0, p) if shared else (low, high)
                    mine[lanes * offsets[from_] : lanes * offsets[to]] = 0
                    begin, end = whole[node, BEGIN], whole[node, END]
                    into, turns = short[rank] if brief else mine, 0
                    step = TURN if shared else (TURN * TURNS if brief else end - begin)
                    turn = begin + TURN * take(gate) if shared else begin
                    while turn < end:
                        until = min(turn + step, end)
                        sum_up(cells, p, from_, to, offsets, active, order, turn, until, packed, words, into)
                        turn = begin + TURN * take(gate) if shared else until
                        turns += 1
                        if brief and (turns == TURNS or not shared or turn >= end):
                            unload(into, from_, to, offsets, active, counts[BITS], mine)
                            turns = 0
            if shared:
                meet(gate, size)
            records[:] = 0.0
            for j in range(low, high if look_small or look_large or keep else low):
                if not active[j]:
                    continue
                first, last = lanes * offsets[j], lanes * offsets[j + 1]
                if shared:
                    for r in range(1, size):
                        for k in range(first, last):
                            small_sums[k] += own[r, k]
                if (look_large or keep) and subtract:
                    for k in range(first, last):
                        large_sums[k] -= small_sums[k]
                for side in range(2):
                    if look_large if side else look_small:
                        records[side] = search(
                            side, j, large_sums if side else small_sums, offsets[j], n_bins[j], categorical[j],
                            large if side else small, real, whole, numbers, counts, bound[j], gains[rank], sums[rank],
                            found, place, spare_bits, word_starts[j], records[side],
                        )  # fmt: skip
            meet(gate, size)
            if rank == 0:
                # Choose among the columns, then take the next node to split.
                for side in range(sides):
                    node, look = (small, look_small) if side == 0 else (large, look_large)
                    slot = news[SPARE] if side == 0 else whole[parent, SLOT]
                    splits = look and _choose(
                        side, node, active, found, place, numbers, counts, real, whole, bits, spare_bits, word_starts
                    )
                    if splits or keep:
                        whole[node, SLOT] = slot
                    if splits:
                        _push(heap, queued, node, real, whole, counts[MODE])
                        queued += 1
                    elif slot > 0 and not keep:
                        free[freed] = slot
                        freed += 1
                if queued == 0 or leaves == counts[MAX_LEAVES]:
                    news[NODE] = -2
                    for k in range(queued):
                        whole[heap[k], FEATURE] = -1
                else:
                    node = heap[0]
                    queued -= 1
                    _drop(heap, queued, real, whole, counts[MODE])
                    leaves += 1
                    news[NODE], news[CHILD], news[SPARE] = node, news[MADE], 0
                    news[MADE] += 2
                    news[DEEPER] = leaves < counts[MAX_LEAVES] and whole[node, DEPTH] + 1 < counts[MAX_DEPTH]
                    if freed > 0:
                        freed -= 1
                        news[SPARE] = free[freed]
            meet(gate, size)
            if news[NODE] < 0:
                break
            _divide(
                gate, rank, size, news[NODE], news[CHILD], by_column, n, n_bins, categorical, order, buffers,
                tables[rank], told, numbers, counts, bound, real, whole, bits,
            )  # fmt: skip
            meet(gate, size)
        _finish(
            gate, rank, size, news[MADE], order, gradient, hessian, numbers, counts, real, whole, leaf_sums, leaf_of_row
        )
        meet(gate, size)
        if leads:
            return news[MADE]


@kernel(inline=True)
def _choose(
    side: int, node: int, active: Array, found: Array, place: Array, numbers: Array, counts: Array, real: Array,
    whole: Array, bits: Array, spare_bits: Array, word_starts: Array,
) -> bool:  # fmt: skip
    """Write the best column's split into the node; False where no split is worth it."""
    best, column, bar = 0.0, -1, 0.0
    for j in range(active.size):
        if active[j] and found[side, j] > bar:
            best, column = found[side, j], j
            bar = best + ROUNDING * abs(best)
    if column < 0:
        return False
    scale = numbers[SCALE]
    g, weight = whole[node, SUM_G] * numbers[UNIT_G], numbers[L2]
    rows = float(whole[node, END] - whole[node, BEGIN])
    weight += rows if counts[LANES] == 1 else whole[node, SUM_H] * numbers[UNIT_H]
    step = min(max(-g / weight, real[node, LOW] / scale), real[node, HIGH] / scale) if weight > 0.0 else 0.0
    own = -(2.0 * g * step + weight * step * step)
    if counts[BOUNDED]:
        best += own
    gain = 0.5 * (best - own) * scale * scale
    if not (gain > numbers[MIN_GAIN] and best - own > ROUNDING * (abs(best) + abs(own))):
        return False
    real[node, GAIN] = gain
    whole[node, FEATURE], whole[node, BIN] = column, place[side, column, 0]
    whole[node, MISSING] = place[side, column, 1]
    whole[node, LEFT_G], whole[node, LEFT_H] = place[side, column, 2], place[side, column, 3]
    for k in range(word_starts[column + 1] - word_starts[column]):
        bits[node, k] = spare_bits[side, word_starts[column] + k]
    return True


@kernel(inline=True)
def _sooner(a: int, b: int, real: Array, whole: Array, mode: int) -> bool:
    """Whether node a is split before node b: best first, level by level, or the youngest first."""
    if mode == 2:
        return a > b
    if mode == 1 and whole[a, DEPTH] != whole[b, DEPTH]:
        return whole[a, DEPTH] < whole[b, DEPTH]
    if real[a, GAIN] != real[b, GAIN]:
        return real[a, GAIN] > real[b, GAIN]
    return a < b


@kernel(inline=True)
def _push(heap: Array, size: int, node: int, real: Array, whole: Array, mode: int) -> None:
    """Put a node into the heap of those waiting to be split."""
    k = size
    heap[k] = node
    while k > 0 and _sooner(heap[k], heap[(k - 1) >> 1], real, whole, mode):
        up = (k - 1) >> 1
        heap[k], heap[up] = heap[up], heap[k]
        k = up


@kernel(inline=True)
def _drop(heap: Array, size: int, real: Array, whole: Array, mode: int) -> None:
    """Take the first node out of the heap, which then has this size."""
    heap[0] = heap[size]
    k = 0
    while 2 * k + 1 < size:
        down = 2 * k + 1
        if down + 1 < size and _sooner(heap[down + 1], heap[down], real, whole, mode):
            down += 1
        if not _sooner(heap[down], heap[k], real, whole, mode):
            break
        heap[k], heap[down] = heap[down], heap[k]
        k = down


@kernel(inline=True)
def _divide(
    gate: Array, rank: int, size: int, node: int, child: int, by_column: Array, n: int, n_bins: Array,
    categorical: Array, order: Array, buffers: Array, table: Array, told: Array, numbers: Array, counts: Array,
    bound: Array, real: Array, whole: Array, bits: Array,
) -> None:  # fmt: skip
    """Put the rows of a node in the order of its children, each in the old order, and write the children down."""
    column, begin, end = whole[node, FEATURE], whole[node, BEGIN], whole[node, END]
    parts = size if end - begin >= DIVIDED else 1
    if rank >= parts:
        return
    nb = np.int64(n_bins[column])
    low, high = begin + (end - begin) * rank // parts, begin + (end - begin) * (rank + 1) // parts
    codes, seconds = by_column[column * n : (column + 1) * n], buffers[1]
    firsts = order if parts == 1 else buffers[0]
    a, b = np.uint64(low), np.uint64(low)
    table[nb] = 1 - whole[node, MISSING]
    for k in range(nb):
        if categorical[column]:
            table[k] = (bits[node, k >> 5] >> np.uint32(k & 31)) & np.uint32(1)
        else:
            table[k] = k <= whole[node, BIN]
    # Both writes are always made and only one of them counts: no branch to guess wrong.
    for i in range(np.uint64(low), np.uint64(high)):
        row = order[i]
        goes = np.uint64(table[np.uint64(codes[np.uint64(row)])])
        firsts[a] = row
        seconds[b] = row
        a += goes
        b += np.uint64(1) - goes
    told[1 + rank, 0] = np.int64(a) - low
    if parts > 1:
        meet(gate, size)
    lefts = mine = 0
    for r in range(parts):
        if r == rank:
            mine = lefts
        lefts += told[1 + r, 0]
    if rank == 0:
        _beget(node, child, begin + lefts, numbers, counts, bound, real, whole)
    to = np.uint64(begin + mine)
    if parts > 1:
        for i in range(np.uint64(low), a):
            order[to] = firsts[i]
            to += np.uint64(1)
    to = np.uint64(begin + lefts + (low - begin - mine))
    for i in range(np.uint64(low), b):
        order[to] = seconds[i]
        to += np.uint64(1)


@kernel(inline=True)
def _beget(
    node: int, child: int, middle: int, numbers: Array, counts: Array, bound: Array, real: Array, whole: Array
) -> None:
    """Write down the two children of a node: their rows, sums and bounds."""
    whole[node, FIRST] = child
    for k in range(2):
        t = child + k
        whole[t, BEGIN], whole[t, END] = (middle, whole[node, END]) if k else (whole[node, BEGIN], middle)
        whole[t, DEPTH], whole[t, FEATURE], whole[t, SLOT] = whole[node, DEPTH] + 1, -1, 0
        whole[t, SUM_G] = whole[node, SUM_G] - whole[node, LEFT_G] if k else whole[node, LEFT_G]
        whole[t, SUM_H] = whole[node, SUM_H] - whole[node, LEFT_H] if k else whole[node, LEFT_H]
        real[t, LOW], real[t, HIGH] = real[node, LOW], real[node, HIGH]
    sign = bound[whole[node, FEATURE]]
    if sign != 0:
        middle_step = 0.0
        for k in range(2):
            t = child + k
            rows = float(whole[t, END] - whole[t, BEGIN])
            weight = numbers[L2] + (rows if counts[LANES] == 1 else whole[t, SUM_H] * numbers[UNIT_H])
            step = -whole[t, SUM_G] * numbers[UNIT_G] * numbers[SCALE] / weight
            middle_step += 0.5 * min(max(step, real[t, LOW]), real[t, HIGH])
        lower = child if sign > 0 else child + 1
        upper = 2 * child + 1 - lower
        real[lower, HIGH], real[upper, LOW] = middle_step, middle_step


@kernel(inline=True)
def _finish(
    gate: Array, rank: int, size: int, made: int, order: Array, gradient: Array, hessian: Array, numbers: Array,
    counts: Array, real: Array, whole: Array, leaf_sums: Array, leaf_of_row: Array,
) -> None:  # fmt: skip
    """Tell the rows their leaves, and compute each leaf's step from its own rows, piece by piece in their order.

    A leaf's rows are in ascending order, so those of a piece lie together in it, and all that is read and written for a
    piece of the table stays near.
    """
    pieces, n, lanes = leaf_sums.shape[0], gradient.size, counts[LANES]
    for part in range(rank, pieces, size):
        first, last = part * n // pieces, (part + 1) * n // pieces
        for t in range(made):
            if whole[t, FEATURE] >= 0:
                continue
            g = h = 0.0
            at = first_at_least(order, whole[t, BEGIN], whole[t, END], first)
            stop = first_at_least(order, at, whole[t, END], last)
            for i in range(np.uint64(at), np.uint64(stop)):
                row = np.uint64(order[i])
                leaf_of_row[row] = t
                g += gradient[row]
                if lanes == 2:
                    h += hessian[row]
            leaf_sums[part, 2 * t], leaf_sums[part, 2 * t + 1] = g, h
    meet(gate, size)
    for t in range(rank, made, size):
        g, h = whole[t, SUM_G] * numbers[UNIT_G] * numbers[SCALE], whole[t, SUM_H] * numbers[UNIT_H]
        if whole[t, FEATURE] < 0:
            g = h = 0.0
            for part in range(pieces):
                g += leaf_sums[part, 2 * t]
                h += leaf_sums[part, 2 * t + 1]
        if lanes == 1:
            h = float(whole[t, END] - whole[t, BEGIN])
        weight = h + numbers[L2]
        real[t, WEIGHT] = h
        real[t, STEP] = min(max(-g / weight, real[t, LOW]), real[t, HIGH]) if weight > 0.0 else 0.0


@kernel
def send(values: Array, n_bins: Array, categorical: Array, whole: Array, bits: Array, leaf_of_row: Array) -> None:
    """Send the rows outside the sample, marked -1, down the finished tree by their codes."""
    for i in range(leaf_of_row.size):
        if leaf_of_row[i] >= 0:
            continue
        t = 0
        while whole[t, FEATURE] >= 0:
            j = whole[t, FEATURE]
            code = np.int64(values[i, j])
            if code == n_bins[j]:
                right = whole[t, MISSING]
            elif categorical[j]:
                right = 1 - np.int64((bits[t, code >> 5] >> np.uint32(code & 31)) & np.uint32(1))
            else:
                right = np.int64(code > whole[t, BIN])
            t = whole[t, FIRST] + right
        leaf_of_row[i] = t
