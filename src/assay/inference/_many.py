"""Step-up and step-down corrections of very many p-values: one sort of integers and one walk.

The sort is of whole numbers that carry both the leading bits of a p-value and its position, which the vector
units of the processor do several times as fast as an argsort; the few p-values that agree in all those bits are
put in order afterwards by comparing them in full. One backward walk (forward for Holm) then reads each p-value,
multiplies, keeps the running minimum and writes it in place. Cost: O(m log m) for the sort, O(m) for the rest;
16 m bytes beside the result.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["adjusted"]

Array = np.ndarray
OCTAVES = 62
"""P-values down to 2^-62 get leading bits of their own; all smaller ones share the lowest."""
LOWEST = 2.0**-OCTAVES
SHORT = 32
"""Runs of p-values with the same leading bits are sorted by insertion up to this length."""


def adjusted(p: Array, method: str, constant: float) -> Array:
    """Adjusted p-values by "bh" or "by" (times `constant`), "hochberg" or "holm"."""
    out = p.copy()
    keys, index_bits = _sorted_keys(p)
    if method == "holm":
        walk_up(out, keys, index_bits)
    else:
        walk_down(out, keys, index_bits, constant * p.size, method in ("bh", "by"))
    return out


def _sorted_keys(p: Array) -> tuple[Array, int]:
    """Numbers in the order of the p-values; the lowest `index_bits` of each say which p-value it is."""
    index_bits = max(5, int(p.size - 1).bit_length())
    keys = np.empty(p.size, dtype=np.int64)
    lowest = int(np.float64(LOWEST).view(np.int64))
    make_keys(p, p.view(np.int64), lowest, index_bits, keys)
    keys.sort()
    run = np.zeros(2, dtype=np.int64)
    while settle_ties(p, keys, index_bits, run):
        part = keys[run[0] : run[1]]
        index = part & ((1 << index_bits) - 1)
        part[:] = part[np.argsort(p[index])]
    return keys, index_bits


@kernel
def make_keys(p: Array, bits: Array, lowest: int, index_bits: int, keys: Array) -> None:
    """Leading bits of the float (they sort as the float does) above the position.

    From 2^-62 to 1 the bits span less than 2^58, and 63 - index_bits of them fit above the position.
    """
    drop = index_bits - 5
    for i in range(p.size):
        above = bits[i] - lowest if p[i] >= LOWEST else 0  # by value: the bits of -0.0 are far from zero
        keys[i] = (above >> drop << index_bits) | i


@kernel
def settle_ties(p: Array, keys: Array, index_bits: int, run: Array) -> int:
    """Order runs of equal leading bits by the full p-values, from run[1] on.

    Short runs are sorted here. The first long run found out of order is returned in `run`, for the
    caller to sort; 0 says that no such run is left.
    """
    mask = (1 << index_bits) - 1
    start = run[1]
    while start < keys.size:
        lead = keys[start] >> index_bits
        stop = start + 1
        ordered = True
        while stop < keys.size and keys[stop] >> index_bits == lead:
            ordered = ordered and p[keys[stop] & mask] >= p[keys[stop - 1] & mask]
            stop += 1
        if not ordered:
            if stop - start > SHORT:
                run[0], run[1] = start, stop
                return 1
            for i in range(start + 1, stop):
                key = keys[i]
                value = p[key & mask]
                j = i
                while j > start and p[keys[j - 1] & mask] > value:
                    keys[j] = keys[j - 1]
                    j -= 1
                keys[j] = key
        start = stop
    return 0


@kernel(exact=True)
def walk_down(adjusted: Array, keys: Array, index_bits: int, numerator: float, divide: bool) -> None:
    """From the largest p-value down: the running minimum of p times its factor.

    `adjusted` holds the p-values on entry, so that each is read and written in one visit to memory.
    The factor of rank r is numerator / r, or else m - r + 1. Multiplying before dividing, and in that order,
    keeps round decimals round: .03 x 5 / 3 is .05 and meets alpha = .05.
    """
    mask = (1 << index_bits) - 1
    m = keys.size
    least = 1.0
    for k in range(m - 1, -1, -1):
        i = keys[k] & mask
        ratio = adjusted[i] * numerator / (k + 1) if divide else adjusted[i] * (m - k)
        least = min(least, ratio)
        adjusted[i] = least


@kernel
def walk_up(adjusted: Array, keys: Array, index_bits: int) -> None:
    """From the smallest p-value up: the running maximum of p times (m - rank + 1), capped at 1."""
    mask = (1 << index_bits) - 1
    m = keys.size
    most = 0.0
    for k in range(m):
        i = keys[k] & mask
        most = min(1.0, max(most, adjusted[i] * (m - k)))
        adjusted[i] = most
