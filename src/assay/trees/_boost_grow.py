"""A boosted tree from root to leaves, in phases that several threads may share.

The columns of the nodes in hand are searched block by block, by `grow` for some of the blocks in each thread; one
thread then chooses among the columns, takes the next node and divides its rows, and goes on alone where the next search
is small. Every column is searched by one thread alone and its sums are of whole numbers, so the same tree follows for
any number of threads. One kernel does all of this, so that each step is compiled once and rounds alike everywhere.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.search import first_at_least
from assay.trees._boost_scan import (
    BEGIN,
    BIN,
    BY_LEVEL,
    COST,
    DEPTH,
    END,
    FEATURE,
    FIRST,
    FREED,
    GAIN,
    HIGH,
    LARGE,
    LARGE_SLOT,
    LEAVES,
    LEFT_G,
    LEFT_H,
    LOOK_LARGE,
    LOOK_SMALL,
    LOW,
    MADE,
    MISSING,
    QUEUED,
    ROUNDING,
    SLOT,
    SMALL,
    SMALL_SLOT,
    STEP,
    SUBTRACT,
    SUM_G,
    SUM_H,
    WEIGHT,
    YOUNGEST_FIRST,
    Rows,
    Setting,
    Sums,
    Table,
    Tree,
    Units,
    search_node,
    sum_up,
    unload,
)
from assay.trees._boost_words import PIECES, gather

__all__ = ["SEARCH_ONLY", "grow", "predict_others", "set_steps", "sum_leaves"]

Array = np.ndarray

SHORT_SUM_ROWS = 8128
"""So many rows are summed in short words before those are emptied."""
SEARCH_ONLY = -1
"""As `most` in `grow`: search the blocks and do not go on."""


@kernel
def grow(
    table: Table, rows: Rows, tree: Tree, sums: Sums, setting: Setting, units: Units, carried: int, first: int,
    last: int, most: int,
) -> bool:  # fmt: skip
    """Search blocks of columns first to last; then split nodes until a search costs more than `most`, or to the end.

    True: that search is left to the caller, who may share it out. `carried` is the number of the last tree's nodes
    whose sums make those of the root, or 0.
    """
    while True:
        for block in range(first, last):
            _search(table, rows, tree, sums, setting, units, carried, block)
        if most == SEARCH_ONLY:
            return False
        if not _split_next(table, rows, tree, sums, setting, units, carried):
            return False
        if tree.state[COST] > most:
            return True
        first, last = 0, table.blocks.size - 1


@kernel(inline=True)
def _search(
    table: Table, rows: Rows, tree: Tree, sums: Sums, setting: Setting, units: Units, carried: int, block: int
) -> None:
    """Sums per bin of the nodes in hand, and each column's best split, in one block of columns."""
    state, offsets, lanes, keep = tree.state, table.offsets, setting.lanes, setting.keep
    low, high = table.blocks[block], table.blocks[block + 1]
    subtract, look_small, look_large = state[SUBTRACT] > 0, state[LOOK_SMALL] > 0, state[LOOK_LARGE] > 0
    known = carried > 0 and state[LARGE] < 0
    if known:
        for j in range(low, high):
            gather(tree.carry, carried, sums.pool, offsets[j], offsets[j + 1], setting.bits, sums.prefixes[block, 0])
    for side in range(0 if known else 2):
        if (look_large and not subtract) if side else (look_small or keep or (look_large and subtract)):
            _sum_node(table, rows, tree, sums, setting, units, block, state[SMALL + side], state[SMALL_SLOT + side])
    if not (look_small or look_large or keep):
        return
    if (look_large or keep) and subtract:
        small_sums, large_sums = sums.pool[state[SMALL_SLOT]], sums.pool[state[LARGE_SLOT]]
        for j in range(low, high):
            if tree.active[j]:
                for k in range(lanes * offsets[j], lanes * offsets[j + 1]):
                    large_sums[k] -= small_sums[k]
    for side in range(2):
        if look_large if side else look_small:
            search_node(table, tree, sums, setting, units, side, block)


@kernel(inline=True)
def _sum_node(
    table: Table, rows: Rows, tree: Tree, sums: Sums, setting: Setting, units: Units, block: int, node: int, slot: int
) -> None:
    """Sums per bin of a node in a block of columns."""
    low, high = table.blocks[block], table.blocks[block + 1]
    begin, end, n = tree.whole[node, BEGIN], tree.whole[node, END], rows.leaf_of_row.size
    cells, offsets, active = table.cells[n * low : n * high], table.offsets[low : high + 1], tree.active[low:high]
    out = sums.pool[slot]
    out[setting.lanes * offsets[0] : setting.lanes * offsets[-1]] = 0
    words, into = (1, sums.short) if units.short else (setting.lanes, out)
    at_a_time = SHORT_SUM_ROWS if units.short else max(1, end - begin)
    for at in range(begin, end, at_a_time):
        sum_up(cells, offsets, active, rows.order, at, min(at + at_a_time, end), rows.packed, words, into)
        if units.short:
            unload(into, offsets, active, setting.bits, out)


@kernel(inline=True)
def _split_next(table: Table, rows: Rows, tree: Tree, sums: Sums, setting: Setting, units: Units, carried: int) -> bool:
    """Choose the splits of the nodes just searched, then take the next node to split and divide it; False: the end.

    The first call makes the root.
    """
    state, whole, real = tree.state, tree.whole, tree.real
    if state[MADE] == 0:
        _make_root(rows, tree, sums, setting)
        deeper = setting.max_leaves > 1 and setting.max_depth > 0 and units.scale > 0.0
        state[SMALL], state[LARGE], state[SUBTRACT] = 0, -1, 0
        state[SMALL_SLOT], state[LARGE_SLOT] = 1, 0
    else:
        _queue(table, tree, sums, setting, units)
        if state[QUEUED] == 0 or state[LEAVES] == setting.max_leaves:
            for k in range(state[QUEUED]):
                whole[tree.heap[k], FEATURE] = -1
            return False
        node, child = tree.heap[0], state[MADE]
        state[QUEUED] -= 1
        _drop(tree.heap, state[QUEUED], real, whole, setting.order)
        state[LEAVES] += 1
        state[MADE] += 2
        deeper = state[LEAVES] < setting.max_leaves and whole[node, DEPTH] + 1 < setting.max_depth
        _divide(table, rows, tree, sums, setting, units, node, child)
        small = child
        if whole[child, END] - whole[child, BEGIN] > whole[child + 1, END] - whole[child + 1, BEGIN]:
            small = child + 1
        state[SMALL], state[LARGE], state[SUBTRACT] = small, 2 * child + 1 - small, whole[node, SLOT] > 0
        # The sums of a node are kept where there is room; the first and the last place are used again at once.
        state[SMALL_SLOT], state[LARGE_SLOT] = 0, whole[node, SLOT] if state[SUBTRACT] else sums.pool.shape[0] - 1
        if state[FREED] > 0:
            state[FREED] -= 1
            state[SMALL_SLOT] = tree.free[state[FREED]]
    enough = 2 if table.row_counts.size > 1 else 2 * setting.min_leaf
    small, large = whole[state[SMALL]], whole[max(state[LARGE], 0)]
    state[LOOK_SMALL] = deeper and small[END] - small[BEGIN] >= enough
    state[LOOK_LARGE] = deeper and state[LARGE] >= 0 and large[END] - large[BEGIN] >= enough
    state[COST] = 0
    if deeper or setting.keep:
        summed = (
            small[END] - small[BEGIN] + (0 if state[SUBTRACT] or not state[LOOK_LARGE] else large[END] - large[BEGIN])
        )
        if carried > 0 and state[LARGE] < 0:
            summed = carried * table.offsets[-1] // table.n_bins.size
        state[COST] = summed * table.n_bins.size + 2 * (state[LOOK_SMALL] + state[LOOK_LARGE]) * table.offsets[-1]
    return True


@kernel(inline=True)
def _make_root(rows: Rows, tree: Tree, sums: Sums, setting: Setting) -> None:
    """The root with all rows of the sample, and all places for sums free but the first two and the last."""
    state, whole = tree.state, tree.whole
    state[MADE], state[LEAVES], state[QUEUED], state[FREED] = 1, 1, 0, 0
    for k in range(sums.pool.shape[0] - 2, 1, -1):
        tree.free[state[FREED]] = k
        state[FREED] += 1
    for k in range(PIECES):
        whole[0, SUM_G] += rows.totals[k, 0]
        whole[0, SUM_H] += rows.totals[k, 1]
    whole[0, END], whole[0, FEATURE] = setting.rows, -1
    tree.real[0, LOW], tree.real[0, HIGH] = -np.inf, np.inf


@kernel(inline=True)
def _queue(table: Table, tree: Tree, sums: Sums, setting: Setting, units: Units) -> None:
    """Let the nodes just searched wait for their turn, if they have a split; else their sums need no place."""
    state = tree.state
    for side in range(2 if state[LARGE] >= 0 else 1):
        node = state[SMALL + side]
        slot = state[SMALL_SLOT + side] if side == 0 or state[SUBTRACT] else 0
        splits = state[LOOK_SMALL + side] > 0 and _choose(table, tree, sums, setting, units, side, node)
        if splits or setting.keep:
            tree.whole[node, SLOT] = slot
        if splits:
            _push(tree.heap, state[QUEUED], node, tree.real, tree.whole, setting.order)
            state[QUEUED] += 1
        elif slot > 0 and not setting.keep:
            tree.free[state[FREED]] = slot
            state[FREED] += 1


@kernel(inline=True)
def _choose(table: Table, tree: Tree, sums: Sums, setting: Setting, units: Units, side: int, node: int) -> bool:
    """Write the best column's split into the node; False where no split is worth it."""
    real, whole = tree.real, tree.whole
    best, column, bar = 0.0, -1, 0.0
    for j in range(tree.active.size):
        if tree.active[j] and sums.best[side, j] > bar:
            best, column = sums.best[side, j], j
            bar = best + ROUNDING * abs(best)
    if column < 0:
        return False
    g, weight = whole[node, SUM_G] * units.g, setting.l2
    rows = float(whole[node, END] - whole[node, BEGIN])
    weight += rows if setting.lanes == 1 else whole[node, SUM_H] * units.h
    low, high = real[node, LOW] / units.scale, real[node, HIGH] / units.scale
    step = min(max(-g / weight, low), high) if weight > 0.0 else 0.0
    own = -(2.0 * g * step + weight * step * step)
    if setting.bounded:
        best += own
    gain = 0.5 * (best - own) * units.scale * units.scale
    if not (gain > setting.min_gain and best - own > ROUNDING * (abs(best) + abs(own))):
        return False
    real[node, GAIN] = gain
    cuts, start = sums.cuts[side, column], table.word_starts[column]
    whole[node, FEATURE], whole[node, BIN], whole[node, MISSING] = column, cuts[0], cuts[1]
    whole[node, LEFT_G], whole[node, LEFT_H] = cuts[2], cuts[3]
    for k in range(table.word_starts[column + 1] - start):
        tree.bits[node, k] = sums.bits[side, start + k]
    return True


@kernel(inline=True)
def _sooner(a: int, b: int, real: Array, whole: Array, order: int) -> bool:
    """Whether node a is split before node b: best first, level by level, or the youngest first."""
    if order == YOUNGEST_FIRST:
        return a > b
    if order == BY_LEVEL and whole[a, DEPTH] != whole[b, DEPTH]:
        return whole[a, DEPTH] < whole[b, DEPTH]
    if real[a, GAIN] != real[b, GAIN]:
        return real[a, GAIN] > real[b, GAIN]
    return a < b


@kernel(inline=True)
def _push(heap: Array, size: int, node: int, real: Array, whole: Array, order: int) -> None:
    """Put a node into the heap of those waiting to be split."""
    k = size
    heap[k] = node
    while k > 0 and _sooner(heap[k], heap[(k - 1) >> 1], real, whole, order):
        up = (k - 1) >> 1
        heap[k], heap[up] = heap[up], heap[k]
        k = up


@kernel(inline=True)
def _drop(heap: Array, size: int, real: Array, whole: Array, order: int) -> None:
    """Take the first node out of the heap, which then has this size."""
    heap[0] = heap[size]
    k = 0
    while 2 * k + 1 < size:
        down = 2 * k + 1
        if down + 1 < size and _sooner(heap[down + 1], heap[down], real, whole, order):
            down += 1
        if not _sooner(heap[down], heap[k], real, whole, order):
            break
        heap[k], heap[down] = heap[down], heap[k]
        k = down


@kernel(inline=True)
def _divide(
    table: Table, rows: Rows, tree: Tree, sums: Sums, setting: Setting, units: Units, node: int, child: int
) -> None:
    """Put the rows of a node in the order of its children, each in the old order, and write the children down."""
    whole, order, buffer, sides, n = tree.whole, rows.order, rows.buffer, sums.sides, rows.leaf_of_row.size
    column, begin, end = whole[node, FEATURE], whole[node, BEGIN], whole[node, END]
    nb, codes = np.int64(table.n_bins[column]), table.by_column[column * n : (column + 1) * n]
    sides[nb] = 1 - whole[node, MISSING]
    for k in range(nb):
        if table.categorical[column]:
            sides[k] = (tree.bits[node, k >> 5] >> np.uint32(k & 31)) & np.uint32(1)
        else:
            sides[k] = k <= whole[node, BIN]
    a, b = np.uint64(begin), np.uint64(begin)
    # Both writes are always made and only one of them counts: no branch to guess wrong.
    for i in range(np.uint64(begin), np.uint64(end)):
        row = order[i]
        goes = np.uint64(sides[np.uint64(codes[np.uint64(row)])])
        order[a] = row
        buffer[b] = row
        a += goes
        b += np.uint64(1) - goes
    to = a
    for i in range(np.uint64(begin), b):
        order[to] = buffer[i]
        to += np.uint64(1)
    _make_children(tree, setting, units, node, child, np.int64(a))


@kernel(inline=True)
def _make_children(tree: Tree, setting: Setting, units: Units, node: int, child: int, middle: int) -> None:
    """Write down the two children of a node: their rows, sums and bounds."""
    real, whole = tree.real, tree.whole
    whole[node, FIRST] = child
    for k in range(2):
        t = child + k
        whole[t, BEGIN], whole[t, END] = (middle, whole[node, END]) if k else (whole[node, BEGIN], middle)
        whole[t, DEPTH], whole[t, FEATURE], whole[t, SLOT] = whole[node, DEPTH] + 1, -1, 0
        whole[t, SUM_G] = whole[node, SUM_G] - whole[node, LEFT_G] if k else whole[node, LEFT_G]
        whole[t, SUM_H] = whole[node, SUM_H] - whole[node, LEFT_H] if k else whole[node, LEFT_H]
        real[t, LOW], real[t, HIGH] = real[node, LOW], real[node, HIGH]
    sign = tree.signs[whole[node, FEATURE]]
    if sign != 0:
        middle_step = 0.0
        for k in range(2):
            t = child + k
            rows = float(whole[t, END] - whole[t, BEGIN])
            weight = setting.l2 + (rows if setting.lanes == 1 else whole[t, SUM_H] * units.h)
            step = -whole[t, SUM_G] * units.g * units.scale / weight
            middle_step += 0.5 * min(max(step, real[t, LOW]), real[t, HIGH])
        lower = child if sign > 0 else child + 1
        upper = 2 * child + 1 - lower
        real[lower, HIGH], real[upper, LOW] = middle_step, middle_step


@kernel
def sum_leaves(rows: Rows, tree: Tree, setting: Setting, first: int, last: int) -> None:
    """Give the rows their leaves and add up each leaf's gradients, piece by piece of the rows in their order.

    A leaf's rows are in ascending order, so those of a piece lie together in it, and all that is read and written for a
    piece of the table stays near.
    """
    whole, leaf_sums, n = tree.whole, rows.leaf_sums, rows.leaf_of_row.size
    gradient, hessian = rows.gradients[setting.score], rows.hessians[min(setting.score, rows.hessians.shape[0] - 1)]
    pieces = leaf_sums.shape[0]
    for piece in range(first, last):
        low, high = piece * n // pieces, (piece + 1) * n // pieces
        for t in range(tree.state[MADE]):
            if whole[t, FEATURE] >= 0:
                continue
            g = h = 0.0
            at = first_at_least(rows.order, whole[t, BEGIN], whole[t, END], low)
            stop = first_at_least(rows.order, at, whole[t, END], high)
            for i in range(np.uint64(at), np.uint64(stop)):
                row = np.uint64(rows.order[i])
                rows.leaf_of_row[row] = t
                g += gradient[row]
                if setting.lanes == 2:
                    h += hessian[row]
            leaf_sums[piece, 2 * t], leaf_sums[piece, 2 * t + 1] = g, h


@kernel
def set_steps(rows: Rows, tree: Tree, setting: Setting, units: Units) -> int:
    """Each node's step and weight, a leaf's from its own rows' sums; returns the number of nodes."""
    real, whole, leaf_sums = tree.real, tree.whole, rows.leaf_sums
    for t in range(tree.state[MADE]):
        g, h = whole[t, SUM_G] * units.g * units.scale, whole[t, SUM_H] * units.h
        if whole[t, FEATURE] < 0:
            g = h = 0.0
            for piece in range(leaf_sums.shape[0]):
                g += leaf_sums[piece, 2 * t]
                h += leaf_sums[piece, 2 * t + 1]
        if setting.lanes == 1:
            h = float(whole[t, END] - whole[t, BEGIN])
        weight = h + setting.l2
        real[t, WEIGHT] = h
        real[t, STEP] = min(max(-g / weight, real[t, LOW]), real[t, HIGH]) if weight > 0.0 else 0.0
    return tree.state[MADE]


@kernel
def predict_others(
    values: Array, n_bins: Array, categorical: Array, whole: Array, bits: Array, leaf_of_row: Array
) -> None:
    """The leaves of rows outside the sample, marked -1, by their codes."""
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
