"""Sums per bin and the best split of one column: the two inner loops of a boosted tree, and the arrays they work on.

Gradients and hessians come as whole numbers (see `_boost`), so a sum is the same in any order, the sums of a
child are exactly its parent's minus its sibling's, and rows are counted along in the low bits of the same word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.vector import add_pair, count_to_real, prefetch, to_real

__all__ = ["Rows", "Setting", "Sums", "Table", "Tree", "Units", "search_node", "sum_up", "unload"]

Array = np.ndarray

# A kernel counts a reference to each array that it is given, in an indivisible step each, so those that are called for
# every column get only the arrays they need.

# Columns of a node's numbers and of its whole numbers.
LOW, HIGH, GAIN, STEP, WEIGHT = range(5)
BEGIN, END, DEPTH, FIRST, FEATURE, BIN, MISSING, SLOT, SUM_G, SUM_H, LEFT_G, LEFT_H = range(12)
# Where growth stands: the nodes to be searched (LARGE -1: the root alone), whether each may be split, the places of
# their sums, whether the large one's are the parent's minus the small one's, what the search costs; and totals.
SMALL, LARGE, LOOK_SMALL, LOOK_LARGE, SMALL_SLOT, LARGE_SLOT, SUBTRACT, COST, MADE, LEAVES, QUEUED, FREED = range(12)
BEST_FIRST, BY_LEVEL, YOUNGEST_FIRST = range(3)


class Table(NamedTuple):
    """The binned table.

    | field       | meaning                                                                                   |
    |-------------|-------------------------------------------------------------------------------------------|
    | cells       | the bins, block of columns by block, row by row within each; one array of n p             |
    | by_column   | the same column by column                                                                 |
    | blocks      | the first column of each block, and p                                                     |
    | offsets     | where the bins of each column begin among those of all, the missing bin being its last    |
    | n_bins      | bins of each column without the missing one                                               |
    | categorical | whether a column's bins are categories                                                    |
    | word_starts | where the bits of each categorical column begin                                           |
    | row_counts  | what each row counts in `min_leaf`; a single entry: 1                                     |
    """

    cells: Array
    by_column: Array
    blocks: Array
    offsets: Array
    n_bins: Array
    categorical: Array
    word_starts: Array
    row_counts: Array


class Rows(NamedTuple):
    """One entry per row, and sums over pieces of the rows.

    | field       | meaning                                                                                   |
    |-------------|-------------------------------------------------------------------------------------------|
    | y, raw      | targets and K x n scores, for losses whose gradients `slopes` works out                   |
    | values      | what the nodes of the last tree add to the score it is for; empty: nothing                |
    | gradients   | K x n                                                                                     |
    | hessians    | K x n or 1 x n; the gradients where every hessian is 1                                    |
    | packed      | gradient, hessian and count as whole numbers, in one or two words a row                   |
    | order       | the rows of the sample, those of a node side by side and ascending                        |
    | buffer      | room for the order of rows                                                                |
    | leaf_of_row | the node in which each row ends                                                           |
    | sizes       | sum of gradients' sizes and of hessians, the largest of each, and the loss, for each piece|
    | totals      | sums of gradients and of hessians as whole numbers, for each piece                        |
    | leaf_sums   | sums of gradients and of hessians of each node, for each (larger) piece                   |
    """

    y: Array
    raw: Array
    values: Array
    gradients: Array
    hessians: Array
    packed: Array
    order: Array
    buffer: Array
    leaf_of_row: Array
    sizes: Array
    totals: Array
    leaf_sums: Array


class Tree(NamedTuple):
    """What has grown, and where growth stands.

    | field  | meaning                                                                                        |
    |--------|------------------------------------------------------------------------------------------------|
    | real   | five numbers of each node                                                                      |
    | whole  | twelve whole numbers of each node                                                              |
    | bits   | the categories that go left in each node                                                       |
    | heap   | nodes that wait to be split                                                                    |
    | free   | places in the pool that are free                                                               |
    | state  | the numbers SMALL to FREED                                                                     |
    | active | whether each column may be split                                                               |
    | signs  | the direction of each column's monotone constraint                                             |
    | carry  | of each node of the last tree: the place of its sums, and what is added to its rows' gradients |
    """

    real: Array
    whole: Array
    bits: Array
    heap: Array
    free: Array
    state: Array
    active: Array
    signs: Array
    carry: Array


class Sums(NamedTuple):
    """Sums per bin, and room to search them.

    | field    | meaning                                                                                 |
    |----------|-----------------------------------------------------------------------------------------|
    | pool     | sums of nodes; the first and the last place are used again at once                      |
    | short    | sums of short words, 0 between uses                                                     |
    | gains    | room for the gains of a column's cuts, for each block of columns                        |
    | prefixes | room for running sums, for each block                                                   |
    | sides    | the child of each bin                                                                   |
    | best     | the best gain of each column, for the small and the large node                          |
    | cuts     | its bin, the child of missing values, and the sums of its left side                     |
    | bits     | its categories that go left                                                             |
    """

    pool: Array
    short: Array
    gains: Array
    prefixes: Array
    sides: Array
    best: Array
    cuts: Array
    bits: Array


class Setting(NamedTuple):
    """What holds for one tree.

    | field                    | meaning                                                                     |
    |--------------------------|-----------------------------------------------------------------------------|
    | max_leaves ... smoothing | as in `BoostLimits`                                                         |
    | order                    | BEST_FIRST, BY_LEVEL or YOUNGEST_FIRST                                      |
    | rows                     | in the sample                                                               |
    | score                    | which of the gradients                                                      |
    | lanes                    | 1 where every hessian is 1, else 2                                          |
    | bits                     | of the count in a word                                                      |
    | bounded                  | whether there are monotone constraints                                      |
    | keep                     | whether the leaves' sums are kept                                           |
    """

    max_leaves: int
    max_depth: int
    min_leaf: int
    min_hessian: float
    l2: float
    min_gain: float
    smoothing: float
    order: int
    rows: int
    score: int
    lanes: int
    bits: int
    bounded: bool
    keep: bool


class Units(NamedTuple):
    """The units of whole numbers: gradient = g * scale * q, hessian = h * r.

    | field    | meaning                                                        |
    |----------|----------------------------------------------------------------|
    | scale    | a power of two about the sum of the gradients' sizes; 0: none  |
    | g, h     | the units, of gradients over `scale`                           |
    | to_g, to_h | what a gradient and a hessian are multiplied by              |
    | short    | gradient, hessian and count fit one short word                 |
    """

    scale: float
    g: float
    h: float
    to_g: float
    to_h: float
    short: bool


NEAR, CHUNK = 131_072, 4096
"""Bytes of sums that are filled at a time, and by how many rows."""
AHEAD = 16
"""How many rows ahead the next ones are asked for."""
ROUNDING = 1e-12
TIES = 2.0**36
"""So many steps from 0 to the largest key of a category; what falls into one is a tie."""
# A short word: 13 bits for the number of rows, 25 for hessians of 12 bits each, 26 for gradients of as many and a sign,
# so that the sum of fewer than 2^13 rows does not spill over.
COUNT_BITS, SHORT_BITS = 13, 12
HESSIAN_BITS = COUNT_BITS + SHORT_BITS


@kernel(inline=True)
def sum_up(
    cells: Array, offsets: Array, active: Array, order: Array, begin: int, end: int, packed: Array, lanes: int,
    sums: Array,
) -> None:  # fmt: skip
    """Add gradient, hessian and number of rows to the bins of a block of columns, four rows at a time.

    A few thousand rows are added to as many columns as have their sums near the processor, then to the next columns.
    Unsigned indices spare a test for each access, and rows are asked for some steps ahead, for those of a deep node
    are far apart.
    """
    columns = active.size
    width, one, two, three = np.uint64(columns), np.uint64(1), np.uint64(2), np.uint64(3)
    dense = True
    for j in range(columns):
        dense = dense and active[j] != 0
    for chunk in range(begin, end, CHUNK):
        stop, last = np.uint64(min(chunk + CHUNK, end)), np.uint64(end - 1)
        to = 0
        while to < columns:
            start = to
            to += 1
            while to < columns and 8 * lanes * (offsets[to + 1] - offsets[start]) <= NEAR:
                to += 1
            j0, j1 = np.uint64(start), np.uint64(to)
            for i in range(np.uint64(chunk), stop, np.uint64(4)):
                for ahead in range(AHEAD, AHEAD + 4):
                    row = np.uint64(order[min(i + np.uint64(ahead), last)])
                    prefetch(cells, np.int64(row * width + j0))
                    prefetch(packed, np.int64(row) * lanes)
                # Where fewer than four are left, the last one stands in with nothing to add.
                end1, end2, end3 = min(i + one, stop - one), min(i + two, stop - one), min(i + three, stop - one)
                r0, r1 = np.uint64(order[i]), np.uint64(order[end1])
                r2, r3 = np.uint64(order[end2]), np.uint64(order[end3])
                a0, a1, a2, a3 = r0 * width, r1 * width, r2 * width, r3 * width
                if lanes == 1:
                    g0, g1 = packed[r0], packed[r1] if end1 == i + one else 0
                    g2, g3 = packed[r2] if end2 == i + two else 0, packed[r3] if end3 == i + three else 0
                    for j in range(j0, j1):
                        if dense or active[j]:
                            at = np.uint64(offsets[j])
                            sums[at + np.uint64(cells[a0 + j])] += g0
                            sums[at + np.uint64(cells[a1 + j])] += g1
                            sums[at + np.uint64(cells[a2 + j])] += g2
                            sums[at + np.uint64(cells[a3 + j])] += g3
                else:
                    g0, h0 = packed[two * r0], packed[two * r0 + one]
                    g1, h1 = (packed[two * r1], packed[two * r1 + one]) if end1 == i + one else (0, 0)
                    g2, h2 = (packed[two * r2], packed[two * r2 + one]) if end2 == i + two else (0, 0)
                    g3, h3 = (packed[two * r3], packed[two * r3 + one]) if end3 == i + three else (0, 0)
                    for j in range(j0, j1):
                        if dense or active[j]:
                            at = np.uint64(offsets[j])
                            add_pair(sums, (at + np.uint64(cells[a0 + j])) << one, g0, h0)
                            add_pair(sums, (at + np.uint64(cells[a1 + j])) << one, g1, h1)
                            add_pair(sums, (at + np.uint64(cells[a2 + j])) << one, g2, h2)
                            add_pair(sums, (at + np.uint64(cells[a3 + j])) << one, g3, h3)


@kernel(inline=True)
def unload(short: Array, offsets: Array, active: Array, c: int, sums: Array) -> None:
    """Add sums of short words to those of gradients and of hessians with counts, and leave nothing behind."""
    rows, part = (np.int64(1) << COUNT_BITS) - 1, (np.int64(1) << HESSIAN_BITS) - 1
    for j in range(active.size):
        if active[j]:
            for k in range(np.uint64(offsets[j]), np.uint64(offsets[j + 1])):
                word, at = short[k], k << np.uint64(1)
                short[k] = 0
                sums[at] += word >> (COUNT_BITS + HESSIAN_BITS)
                sums[at + np.uint64(1)] += (((word >> COUNT_BITS) & part) << c) + (word & rows)


@kernel(inline=True)
def search_node(
    table: Table, tree: Tree, sums: Sums, setting: Setting, units: Units, side: int, block: int
) -> None:  # fmt: skip
    """The best split of a node by each column of a block, given its sums, into `best`, `cuts` and `bits`.

    What is measured is G_L^2 / (H_L + l2) + G_R^2 / (H_R + l2); 0: no split, or none better than an earlier column's.
    """
    node, bins = tree.state[SMALL + side], sums.pool[tree.state[SMALL_SLOT + side]]
    offsets, n_bins, categorical, word_starts = table.offsets, table.n_bins, table.categorical, table.word_starts
    active, signs, best, cuts, bits, gains = tree.active, tree.signs, sums.best, sums.cuts, sums.bits, sums.gains[block]
    before, before_h, ranks = sums.prefixes[block, 0], sums.prefixes[block, 1], sums.prefixes[block, 2]
    lanes, c, l2, unit_g, unit_h = setting.lanes, setting.bits, setting.l2, units.g, units.h
    mask, fewest = (np.int64(1) << c) - 1, float(setting.min_leaf)
    least = max(setting.min_hessian, 1e-300 if l2 == 0.0 else 0.0)
    G, H = tree.whole[node, SUM_G] * unit_g, tree.whole[node, SUM_H] * unit_h
    if lanes == 1:
        H = float(tree.whole[node, END] - tree.whole[node, BEGIN])
    low, high = tree.real[node, LOW] / units.scale, tree.real[node, HIGH] / units.scale
    record = 0.0
    for j in range(table.blocks[block], table.blocks[block + 1]):
        if not active[j]:
            continue
        best[side, j], at, nb = 0.0, lanes * offsets[j], np.int64(n_bins[j])
        m = np.int64(nb)
        a = b = np.int64(0)
        if categorical[j]:
            m = _in_order(bins, at, nb, setting, units, gains, ranks)
            for k in range(m):
                q = at + lanes * ranks[k]
                a += bins[q]
                before[k] = a
                if lanes == 2:
                    b += bins[q + 1]
                    before_h[k] = b
        elif lanes == 1:
            for k in range(m):
                a += bins[at + k]
                before[k] = a
        else:
            for k in range(m):
                a += bins[at + 2 * k]
                b += bins[at + 2 * k + 1]
                before[k] = a
                before_h[k] = b
        lost, lost_h = bins[at + lanes * nb], bins[at + lanes * nb + lanes - 1]
        some_missing = (lost_h & mask) > 0
        rows = float(((b if lanes == 2 else a) + lost_h) & mask)
        gain, cut, missing = 0.0, np.int64(-1), 2
        for left in range(2 if some_missing else 1):
            # First with the missing values on the right, where they may also stand alone, then on the left.
            last = m if some_missing and left == 0 else m - 1
            plus, plus_h = (lost, lost_h) if left else (0, 0)
            if setting.bounded:
                # Inside bounds a worth may be negative, so it is measured from the node's own, the least of a split.
                step = min(max(-G / (H + l2), low), high) if H + l2 > 0.0 else 0.0
                base = -(2.0 * G * step + (H + l2) * step * step)
                for k in range(last):
                    a = before[k] + plus
                    b = before_h[k] + plus_h if lanes == 2 else a
                    gl = float(a if lanes == 2 else a >> c) * unit_g
                    nl = float(b & mask)
                    hl = float(b >> c) * unit_h if lanes == 2 else nl
                    gr, hr = G - gl, H - hl
                    gains[k] = 0.0
                    if hl >= least and hr >= least and nl >= fewest and rows - nl >= fewest:
                        x = min(max(-gl / (hl + l2), low), high)
                        y = min(max(-gr / (hr + l2), low), high)
                        if signs[j] * (y - x) >= 0.0:
                            worth = -(2.0 * gl * x + (hl + l2) * x * x) - (2.0 * gr * y + (hr + l2) * y * y)
                            gains[k] = max(worth - base, 0.0)
            elif lanes == 1:
                for k in range(last):
                    a = before[k] + plus
                    gl, hl = to_real(a >> c) * unit_g, count_to_real(a & mask)
                    gr, hr = G - gl, H - hl
                    dl, dr = hl + l2, hr + l2
                    worth = np.divide(gl * gl * dr + gr * gr * dl, dl * dr)
                    gains[k] = worth if (hl >= fewest) & (hr >= fewest) & (hl >= least) & (hr >= least) else 0.0
            else:
                for k in range(last):
                    b = before_h[k] + plus_h
                    gl, hl, nl = to_real(before[k] + plus) * unit_g, to_real(b >> c) * unit_h, count_to_real(b & mask)
                    gr, hr = G - gl, H - hl
                    dl, dr = hl + l2, hr + l2
                    worth = np.divide(gl * gl * dr + gr * gr * dl, dl * dr)
                    ok = (nl >= fewest) & (rows - nl >= fewest) & (hl >= least) & (hr >= least)
                    gains[k] = worth if ok else 0.0
            # No worth is negative, and such numbers are in the order of their bits, whose maximum is quickly found.
            most = np.int64(-1)
            for k in range(last):
                most = max(most, np.float64(gains[k]).view(np.int64))
            top = np.int64(most).view(np.float64)
            if most <= 0 or top <= record:
                continue
            there = np.int64(0)
            while gains[there] < top * (1.0 - ROUNDING):
                there += 1
            top = gains[there]
            slack = ROUNDING * top
            if top > gain + slack or (top >= gain - slack and there <= cut):
                gain, cut, missing = top, there, 1 - left
        if cut < 0:
            continue
        a, b = before[cut], before_h[cut] if lanes == 2 else before[cut]
        if missing == 0:
            a, b = a + lost, b + lost_h
        if not some_missing:
            hl = float(b >> c) if lanes == 2 else float(b & mask)
            missing = 0 if 2.0 * hl * unit_h >= H else 1
        best[side, j], record = gain, max(record, gain)
        cuts[side, j, 0], cuts[side, j, 1] = cut, missing
        cuts[side, j, 2], cuts[side, j, 3] = (a >> c, b & mask) if lanes == 1 else (a, b >> c)
        if categorical[j]:
            word = word_starts[j]
            for k in range((nb + 31) >> 5):
                bits[side, word + k] = np.uint32(0xFFFFFFFF) if missing == 0 else np.uint32(0)
            for k in range(m):
                q = ranks[k]
                bit = np.uint32(1) << np.uint32(q & 31)
                if k <= cut:
                    bits[side, word + (q >> 5)] |= bit
                else:
                    bits[side, word + (q >> 5)] &= ~bit


@kernel(inline=True)
def _in_order(bins: Array, at: int, nb: int, setting: Setting, units: Units, key: Array, ranks: Array) -> int:
    """Put the categories a node holds in the order of G / (H + smoothing); return how many there are.

    Keys that differ by no more than rounding are equal and fall to the first category, so that the unit of weights,
    which rounds them otherwise, does not choose between them.
    """
    lanes, c = setting.lanes, setting.bits
    mask = (np.int64(1) << c) - 1
    m, largest = 0, 0.0
    for k in range(nb):
        a, b = bins[at + lanes * k], bins[at + lanes * k + lanes - 1]
        if b & mask:
            g = float(a >> c if lanes == 1 else a) * units.g
            weight = setting.smoothing + (float(b & mask) if lanes == 1 else float(b >> c) * units.h)
            key[k] = g / weight if weight > 0.0 else 0.0
            largest = max(largest, abs(key[k]))
            ranks[m] = k
            m += 1
    for k in range(m if largest > 0.0 else 0):
        key[ranks[k]] = np.floor(key[ranks[k]] / largest * TIES + 0.5)
    gap = 1
    while gap < m:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for k in range(gap, m):
            one = ranks[k]
            q = k
            while q >= gap:
                other = ranks[q - gap]
                if key[other] < key[one] or (key[other] == key[one] and other < one):
                    break
                ranks[q] = other
                q -= gap
            ranks[q] = one
    return m
