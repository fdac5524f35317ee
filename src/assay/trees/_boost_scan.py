"""Sums per bin and the best split of one column: the two inner loops of a boosted tree.

Gradients and hessians come as whole numbers (see `_boost_grow`), so a sum is the same in any order, the sums of a
child are exactly its parent's minus its sibling's, and rows are counted along in the low bits of the same word.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.vector import add_pair, count_to_real, prefetch, to_real

__all__ = ["search", "sum_up", "unload"]

Array = np.ndarray

# Columns of a node's numbers and of its whole numbers.
LOW, HIGH, GAIN, STEP, WEIGHT = range(5)
BEGIN, END, DEPTH, FIRST, FEATURE, BIN, MISSING, SLOT, SUM_G, SUM_H, LEFT_G, LEFT_H = range(12)
# What the leader tells the team about the split in hand.
NODE, CHILD, DEEPER, SPARE, MADE = range(5)
# Limits and units as numbers, and as whole numbers.
MIN_HESSIAN, L2, MIN_GAIN, SMOOTHING, UNIT_G, UNIT_H, SCALE = range(7)
MAX_LEAVES, MAX_DEPTH, MIN_LEAF, MODE, LANES, BITS, BOUNDED, ROWS, SCORE, KEEP, CARRIED, SHORT, LOSS, STEPS = range(14)

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
    cells: Array, columns: int, low: int, high: int, offsets: Array, active: Array, order: Array, begin: int, end: int,
    packed: Array, lanes: int, sums: Array,
) -> None:  # fmt: skip
    """Add gradient, hessian and number of rows to the bins of the columns low to high, four rows at a time.

    A few thousand rows are added to as many columns as have their sums near the processor, then to the next columns.
    Unsigned indices spare a test for each access, and rows are asked for some steps ahead, for those of a deep node
    are far apart.
    """
    width, one, two, three = np.uint64(columns), np.uint64(1), np.uint64(2), np.uint64(3)
    dense = True
    for j in range(low, high):
        dense = dense and active[j] != 0
    for chunk in range(begin, end, CHUNK):
        stop, last = np.uint64(min(chunk + CHUNK, end)), np.uint64(end - 1)
        to = low
        while to < high:
            come = to
            to += 1
            while to < high and 8 * lanes * (offsets[to + 1] - offsets[come]) <= NEAR:
                to += 1
            j0, j1 = np.uint64(come), np.uint64(to)
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
def unload(short: Array, low: int, high: int, offsets: Array, active: Array, c: int, sums: Array) -> None:
    """Add sums of short words to those of gradients and of hessians with counts, and leave nothing behind."""
    rows, part = (np.int64(1) << COUNT_BITS) - 1, (np.int64(1) << HESSIAN_BITS) - 1
    for j in range(low, high):
        if active[j]:
            for k in range(np.uint64(offsets[j]), np.uint64(offsets[j + 1])):
                word, at = short[k], k << np.uint64(1)
                short[k] = 0
                sums[at] += word >> (COUNT_BITS + HESSIAN_BITS)
                sums[at + np.uint64(1)] += (((word >> COUNT_BITS) & part) << c) + (word & rows)


@kernel(inline=True)
def search(
    side: int, j: int, bins: Array, offset: int, nb: int, category: bool, node: int, real: Array, whole: Array,
    numbers: Array, counts: Array, sign: int, gains: Array, sums: Array, found: Array, place: Array, bits: Array,
    word: int, record: float,
) -> float:  # fmt: skip
    """The best split of one node by one column, into found and place, unless an earlier column's `record` is better.

    Returns the record as it stands then. What is measured is G_L^2 / (H_L + l2) + G_R^2 / (H_R + l2); 0 is no split.
    """
    lanes, c, min_leaf = counts[LANES], counts[BITS], counts[MIN_LEAF]
    mask = (np.int64(1) << c) - 1
    before, before_h, ranks = sums[0], sums[1], sums[2]
    at = lanes * offset
    m = np.int64(nb)
    a = b = np.int64(0)
    if category:
        m = _in_order(bins, at, nb, numbers, counts, gains, ranks)
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
    gaps = (lost_h & mask) > 0
    G, H = whole[node, SUM_G] * numbers[UNIT_G], whole[node, SUM_H] * numbers[UNIT_H]
    rows = float(((b if lanes == 2 else a) + lost_h) & mask)
    l2, unit_g, unit_h, fewest = numbers[L2], numbers[UNIT_G], numbers[UNIT_H], float(min_leaf)
    least = max(numbers[MIN_HESSIAN], 1e-300 if l2 == 0.0 else 0.0)
    if lanes == 1:
        H = rows
    best, cut, missing = 0.0, np.int64(-1), 2
    for left in range(2 if gaps else 1):
        # First with the missing values on the right, where they may also stand alone, then on the left.
        last = m if gaps and left == 0 else m - 1
        plus, plus_h = (lost, lost_h) if left else (0, 0)
        if counts[BOUNDED]:
            low, high = real[node, LOW] / numbers[SCALE], real[node, HIGH] / numbers[SCALE]
            # Inside bounds a worth may be negative, so it is measured from the node's own, which no split falls below.
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
                    if sign * (y - x) >= 0.0:
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
        if top > best + slack or (top >= best - slack and there <= cut):
            best, cut, missing = top, there, 1 - left
    found[side, j] = best
    if cut < 0:
        return record
    a, b = before[cut], before_h[cut] if lanes == 2 else before[cut]
    if missing == 0:
        a, b = a + lost, b + lost_h
    if not gaps:
        hl = float(b >> c) if lanes == 2 else float(b & mask)
        missing = 0 if 2.0 * hl * unit_h >= H else 1
    place[side, j, 0], place[side, j, 1] = cut, missing
    place[side, j, 2], place[side, j, 3] = (a >> c, b & mask) if lanes == 1 else (a, b >> c)
    if category:
        for k in range((nb + 31) >> 5):
            bits[side, word + k] = np.uint32(0xFFFFFFFF) if missing == 0 else np.uint32(0)
        for k in range(m):
            q = ranks[k]
            bit = np.uint32(1) << np.uint32(q & 31)
            if k <= cut:
                bits[side, word + (q >> 5)] |= bit
            else:
                bits[side, word + (q >> 5)] &= ~bit
    return max(record, best)


@kernel(inline=True)
def _in_order(bins: Array, at: int, nb: int, numbers: Array, counts: Array, key: Array, ranks: Array) -> int:
    """Put the categories a node holds in the order of G / (H + smoothing); return how many there are.

    Keys that differ by no more than rounding are equal and fall to the first category, so that the unit of weights,
    which rounds them otherwise, does not choose between them.
    """
    lanes, c = counts[LANES], counts[BITS]
    mask = (np.int64(1) << c) - 1
    m, largest = 0, 0.0
    for k in range(nb):
        a, b = bins[at + lanes * k], bins[at + lanes * k + lanes - 1]
        if b & mask:
            g = float(a >> c if lanes == 1 else a) * numbers[UNIT_G]
            weight = numbers[SMOOTHING] + (float(b & mask) if lanes == 1 else float(b >> c) * numbers[UNIT_H])
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
