"""Gradients and hessians as whole numbers in words that also count rows, and the root's sums from the last tree's.

What the words hold and how they are rounded is said in `_boost`. All members of a team work here, each on pieces of the
rows; what depends on all pieces is worked out by each of them alike.
"""

from __future__ import annotations

import math

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.team import meet
from assay.trees._boost_scan import (
    BITS,
    COUNT_BITS,
    HESSIAN_BITS,
    LANES,
    ROWS,
    SCALE,
    SHORT,
    SHORT_BITS,
    UNIT_G,
    UNIT_H,
)

__all__ = ["PIECES", "gather", "measure", "move", "pack"]

Array = np.ndarray

PIECES = 64
"""Pieces of rows whose float sums are added in a fixed order, whoever made them."""
EVEN = 16
"""Short words are for gradients and hessians of which none is so many times the mean."""


@kernel(inline=True)
def measure(part: Array, gradient: Array, hessian: Array, order: Array, low: int, high: int, counts: Array) -> None:
    """Sum and maximum of |gradients| and hessians of the sample's rows low to high, into the part's numbers."""
    if counts[ROWS] == gradient.size:
        part[0], part[2] = _sizes(gradient[low:high])
        if counts[LANES] == 2:
            part[1], part[3] = _sizes(hessian[low:high])
        return
    part[:4] = 0.0
    for i in range(low, high):
        row = np.int64(order[i])
        part[0] += abs(gradient[row])
        part[2] = max(part[2], abs(gradient[row]))
        if counts[LANES] == 2:
            part[1] += hessian[row]
            part[3] = max(part[3], hessian[row])


@kernel(inline=True)
def _sizes(values: Array) -> tuple[float, float]:
    """Sum and maximum of |values|; such numbers are in the order of their bits, whose maximum is quickly found."""
    total, most = 0.0, np.int64(0)
    for i in range(values.size):
        total += abs(values[i])
    for i in range(values.size):
        most = max(most, np.float64(abs(values[i])).view(np.int64))
    return total, np.int64(most).view(np.float64)


@kernel(inline=True)
def pack(
    gate: Array, rank: int, size: int, gradient: Array, hessian: Array, order: Array, numbers: Array, counts: Array,
    float_parts: Array, whole_parts: Array, packed: Array, measured: bool, tally: Array,
) -> bool:  # fmt: skip
    """Gradients and hessians as whole numbers of a unit so small that their sums just fit, with a 1 to count rows.

    With c bits for the count: one lane  q_g 2^c + 1;  two lanes  q_g  and  q_h 2^c + 1. Short words, of which True
    tells, hold all three and have room for the sums of a few thousand rows. Where `tally` has an entry for each row,
    long words of two lanes count that instead of 1.
    """
    rows, lanes, c = counts[ROWS], counts[LANES], counts[BITS]
    every = rows == gradient.size
    if not measured:
        for part in range(rank, PIECES, size):
            first, last = part * rows // PIECES, (part + 1) * rows // PIECES
            measure(float_parts[part], gradient, hessian, order, first, last, counts)
        meet(gate, size)
    g = h = most_g = most_h = 0.0
    for part in range(PIECES):
        g += float_parts[part, 0]
        h += float_parts[part, 1]
        most_g, most_h = max(most_g, float_parts[part, 2]), max(most_h, float_parts[part, 3])
    # A sum of at most 2^e is counted in units of 2^(e - room), a power of two, so that scaling rounds nothing.
    room_g, room_h = 61 - (c if lanes == 1 else 0), 61 - c
    e_g, e_h = math.frexp(g)[1], math.frexp(h)[1]
    # Gradients whose squares vanish are none at all.
    small = g == 0.0 or e_g < -500
    brief = counts[SHORT] > 0 and not small and e_h > -500 and most_g * rows <= EVEN * g and most_h * rows <= EVEN * h
    if brief:
        room_g, room_h = SHORT_BITS + e_g - math.frexp(most_g)[1], SHORT_BITS + e_h - math.frexp(most_h)[1]
    to_g, to_h = 0.0 if small else math.ldexp(1.0, room_g - e_g), math.ldexp(1.0, room_h - max(e_h, -900))
    if rank == 0:
        numbers[SCALE] = 0.0 if small else math.ldexp(1.0, e_g)
        numbers[UNIT_G] = math.ldexp(1.0, -room_g)
        numbers[UNIT_H] = 1.0 if lanes == 1 else math.ldexp(1.0, e_h - room_h)
    for part in range(rank, PIECES, size):
        a = b = np.int64(0)
        low, high = part * rows // PIECES, (part + 1) * rows // PIECES
        if every and lanes == 1:
            a = _words(gradient[low:high], to_g, c, packed[low:high])
        elif every and brief:
            a, b = _short_words(gradient[low:high], hessian[low:high], to_g, to_h, packed[low:high])
        else:
            for i in range(low, high):
                row = np.int64(order[i])
                q = np.int64(np.floor(gradient[row] * to_g + 0.5))
                r = np.int64(np.floor(hessian[row] * to_h + 0.5)) if lanes == 2 else np.int64(0)
                a += q
                b += r
                if lanes == 1:
                    packed[row] = (q << c) + 1
                elif brief:
                    packed[row] = (((q << HESSIAN_BITS) + r) << COUNT_BITS) + 1
                else:
                    packed[2 * row], packed[2 * row + 1] = q, (r << c) + (tally[row] if tally.size > 1 else 1)
        whole_parts[part, 0], whole_parts[part, 1] = a, b
    meet(gate, size)
    return brief


@kernel(inline=True)
def _words(gradient: Array, to_g: float, c: int, out: Array) -> np.int64:
    """Words of gradient and count; returns the sum of the gradients."""
    total = np.int64(0)
    for i in range(out.size):
        q = np.int64(np.floor(gradient[i] * to_g + 0.5))
        out[i] = (q << c) + 1
        total += q
    return total


@kernel(inline=True)
def _short_words(gradient: Array, hessian: Array, to_g: float, to_h: float, out: Array) -> tuple[np.int64, np.int64]:
    """Words of gradient, hessian and count; returns the sums of the first two."""
    a = b = np.int64(0)
    for i in range(out.size):
        q = np.int64(np.floor(gradient[i] * to_g + 0.5))
        r = np.int64(np.floor(hessian[i] * to_h + 0.5))
        out[i] = (((q << HESSIAN_BITS) + r) << COUNT_BITS) + 1
        a += q
        b += r
    return a, b


@kernel(inline=True)
def move(
    gate: Array, rank: int, size: int, counts: Array, leaf_of_row: Array, carry: Array, float_parts: Array,
    whole_parts: Array, packed: Array,
) -> bool:  # fmt: skip
    """Add to each row what its leaf of the last tree adds to its gradient; False if the unit no longer fits the sum."""
    rows, c = counts[ROWS], counts[BITS]
    for part in range(rank, PIECES, size):
        a = b = np.int64(0)
        for i in range(np.uint64(part * rows // PIECES), np.uint64((part + 1) * rows // PIECES)):
            word = packed[i] + carry[np.uint64(leaf_of_row[i]), 1]
            packed[i] = word
            q = word >> c
            a += q
            b += abs(q)
        whole_parts[part, 0], whole_parts[part, 1], float_parts[part, 0] = a, 0, float(b)
    meet(gate, size)
    total = 0.0
    for part in range(PIECES):
        total += float_parts[part, 0]
    meet(gate, size)  # what was read here may now be written again
    return math.ldexp(1.0, 59 - c) <= total < math.ldexp(1.0, 62 - c)


@kernel(inline=True)
def gather(carried: int, carry: Array, pool: Array, low: int, high: int, c: int, room: Array) -> None:
    """The root's sums in one column, from those of the last tree's leaves and what each adds to its rows' gradients."""
    mask = (np.int64(1) << c) - 1
    room[: high - low] = 0
    for t in range(carried):
        if carry[t, 0] > 0:
            move, words = carry[t, 1], pool[carry[t, 0]]
            for k in range(low, high):
                room[k - low] += words[k] + (words[k] & mask) * move
    for k in range(low, high):
        pool[1, k] = room[k - low]
