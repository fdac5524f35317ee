"""Gradients and hessians as whole numbers in words that also count rows, and the root's sums from the last tree's.

What the words hold and how they are rounded is said in `_boost`. Rows are worked on in `PIECES` pieces, each by one
thread alone, and what depends on all pieces follows from their sums in a fixed order.
"""

from __future__ import annotations

import math

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._boost_scan import COUNT_BITS, HESSIAN_BITS, SHORT_BITS, Rows, Setting, Tree, Units
from assay.trees._loss_steps import slopes

__all__ = ["NO_UNITS", "PIECES", "carry_fits", "choose_units", "gather", "measure", "pack", "prepare"]

Array = np.ndarray

PIECES = 64
"""Pieces of rows whose float sums are added in a fixed order, whoever made them."""
EVEN = 16
"""Short words are for gradients and hessians of which none is so many times the mean."""
NO_UNITS = Units(0.0, 1.0, 1.0, 0.0, 0.0, False)


@kernel
def prepare(rows: Rows, tree: Tree, setting: Setting, loss: int, carried: bool, first: int, last: int) -> None:
    """Gradients of pieces of the rows, if `loss` says whose; and their sizes, or the last tree's words moved on.

    Gradients are measured while they are near; those of a sample when all of them are known, by `measure`.
    """
    n = rows.leaf_of_row.size
    for piece in range(first, last):
        begin, end = piece * n // PIECES, (piece + 1) * n // PIECES
        if loss > 0:
            total = slopes(
                loss, setting.score, rows.y, rows.raw, rows.leaf_of_row, rows.values, rows.gradients, rows.hessians,
                begin, end,
            )  # fmt: skip
            if setting.score == 0:
                rows.sizes[piece, 4] = total
        if setting.rows < n:
            rows.leaf_of_row[begin:end] = -1
        elif carried:
            _move(rows, tree, setting, piece, begin, end)
        else:
            _measure(rows, setting, piece, begin, end)


@kernel
def measure(rows: Rows, setting: Setting, first: int, last: int) -> None:
    """The sizes of pieces of the sample."""
    for piece in range(first, last):
        _measure(rows, setting, piece, piece * setting.rows // PIECES, (piece + 1) * setting.rows // PIECES)


@kernel(inline=True)
def _measure(rows: Rows, setting: Setting, piece: int, begin: int, end: int) -> None:
    """Sum and maximum of |gradients| and hessians of a piece of the sample."""
    sizes, two = rows.sizes[piece], setting.lanes == 2
    gradient, hessian = rows.gradients[setting.score], rows.hessians[min(setting.score, rows.hessians.shape[0] - 1)]
    if setting.rows == gradient.size:
        sizes[0], sizes[2] = _sum_and_most(gradient[begin:end])
        if two:
            sizes[1], sizes[3] = _sum_and_most(hessian[begin:end])
        return
    sizes[:4] = 0.0
    for i in range(begin, end):
        row = np.int64(rows.order[i])
        sizes[0] += abs(gradient[row])
        sizes[2] = max(sizes[2], abs(gradient[row]))
        if two:
            sizes[1] += hessian[row]
            sizes[3] = max(sizes[3], hessian[row])


@kernel(inline=True)
def _sum_and_most(values: Array) -> tuple[float, float]:
    """Sum and maximum of |values|; such numbers are in the order of their bits, whose maximum is quickly found."""
    total, most = 0.0, np.int64(0)
    for i in range(values.size):
        total += abs(values[i])
    for i in range(values.size):
        most = max(most, np.float64(abs(values[i])).view(np.int64))
    return total, np.int64(most).view(np.float64)


def choose_units(rows: Rows, setting: Setting, short: bool) -> Units:
    """Units so small that the sums of whole numbers just fit; of short words, if they are allowed and rows are even."""
    c, one = setting.bits, setting.lanes == 1
    g, h = rows.sizes[:, :2].sum(axis=0).tolist()
    most_g, most_h = rows.sizes[:, 2:4].max(axis=0).tolist()
    # A sum of at most 2^e is counted in units of 2^(e - room), a power of two, so that scaling rounds nothing.
    room_g, room_h = 61 - (c if one else 0), 61 - c
    e_g, e_h = math.frexp(g)[1], math.frexp(h)[1]
    # Gradients whose squares vanish are none at all.
    small = g == 0.0 or e_g < -500
    even = most_g * setting.rows <= EVEN * g and most_h * setting.rows <= EVEN * h
    short = short and not small and e_h > -500 and even
    if short:
        room_g, room_h = SHORT_BITS + e_g - math.frexp(most_g)[1], SHORT_BITS + e_h - math.frexp(most_h)[1]
    return Units(
        scale=0.0 if small else math.ldexp(1.0, e_g),
        g=math.ldexp(1.0, -room_g),
        h=1.0 if one else math.ldexp(1.0, e_h - room_h),
        to_g=0.0 if small else math.ldexp(1.0, room_g - e_g),
        to_h=math.ldexp(1.0, room_h - max(e_h, -900)),
        short=short,
    )


@kernel
def pack(rows: Rows, setting: Setting, units: Units, row_counts: Array, first: int, last: int) -> None:
    """Gradients and hessians of pieces of the sample as whole numbers, with a 1 to count rows, and their sums.

    With c bits for the count: one lane  q_g 2^c + 1;  two lanes  q_g  and  q_h 2^c + 1. Short words hold all three and
    have room for the sums of a few thousand rows. Where `row_counts` has an entry for each row, long words of two lanes
    count that instead of 1.
    """
    sample, c, to_g, to_h, packed = setting.rows, setting.bits, units.to_g, units.to_h, rows.packed
    gradient, hessian = rows.gradients[setting.score], rows.hessians[min(setting.score, rows.hessians.shape[0] - 1)]
    every = sample == gradient.size
    for piece in range(first, last):
        a = b = np.int64(0)
        begin, end = piece * sample // PIECES, (piece + 1) * sample // PIECES
        if every and setting.lanes == 1:
            a = _words(gradient[begin:end], to_g, c, packed[begin:end])
        elif every and units.short:
            a, b = _short_words(gradient[begin:end], hessian[begin:end], to_g, to_h, packed[begin:end])
        else:
            for i in range(begin, end):
                row = np.int64(rows.order[i])
                q = np.int64(np.floor(gradient[row] * to_g + 0.5))
                r = np.int64(np.floor(hessian[row] * to_h + 0.5)) if setting.lanes == 2 else np.int64(0)
                a += q
                b += r
                if setting.lanes == 1:
                    packed[row] = (q << c) + 1
                elif units.short:
                    packed[row] = (((q << HESSIAN_BITS) + r) << COUNT_BITS) + 1
                else:
                    packed[2 * row], packed[2 * row + 1] = q, (r << c) + (row_counts[row] if row_counts.size > 1 else 1)
        rows.totals[piece, 0], rows.totals[piece, 1] = a, b


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
def _move(rows: Rows, tree: Tree, setting: Setting, piece: int, begin: int, end: int) -> None:
    """Add to each row of a piece what its leaf of the last tree adds to its gradient."""
    a = b = np.int64(0)
    for i in range(np.uint64(begin), np.uint64(end)):
        word = rows.packed[i] + tree.carry[np.uint64(rows.leaf_of_row[i]), 1]
        rows.packed[i] = word
        q = word >> setting.bits
        a += q
        b += abs(q)
    rows.totals[piece, 0], rows.totals[piece, 1], rows.sizes[piece, 0] = a, 0, float(b)


def carry_fits(rows: Rows, setting: Setting) -> bool:
    """Whether the last tree's unit still suits the gradients after `prepare` has moved them on."""
    return math.ldexp(1.0, 59 - setting.bits) <= rows.sizes[:, 0].sum() < math.ldexp(1.0, 62 - setting.bits)


@kernel(inline=True)
def gather(carry: Array, carried: int, pool: Array, low: int, high: int, c: int, room: Array) -> None:
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
