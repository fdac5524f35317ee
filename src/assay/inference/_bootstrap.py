"""Kernels of resampling: draw rows with replacement, shuffle, flip signs, and add up without storing a resample.

Random words come from SplitMix64 (Steele, Lea & Flood 2014, OOPSLA, 453-472): a mixed counter, so a loop over it
runs in vector registers. A row number below n is the upper half of (32 random bits) * n, redrawn in the rare case that
would favour some rows (Lemire 2019, ACM TOMACS 29, 3), so every row is exactly equally likely. Work is cut into chunks
of resamples whose size depends on the data alone; each chunk has a seed of its own, so neither the number of threads
nor their order changes a bit. Cost: one draw and q reads per row and resample, about a nanosecond; memory O(n q).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.numerics.jit import kernel

__all__ = [
    "chunks",
    "draw_indices",
    "resample_products",
    "resample_sums",
    "shuffle_products",
    "sign_medians",
    "sign_sums",
    "split_medians",
    "split_sums",
]

Array = np.ndarray
CHUNK = 128
"""Resamples that share a seed: enough to make the seed's cost vanish, few enough to spread over threads."""
CHUNK_CELLS = 1 << 21
"""No chunk draws more rows than this (16 MiB of row numbers), whatever n and B."""


def chunks(seeds: np.random.SeedSequence, n_resamples: int, rows: int) -> Iterator[tuple[int, int, Array]]:
    """(start, stop, state) of each chunk of resamples; the state feeds the kernels, which move it on."""
    size = max(1, min(CHUNK, CHUNK_CELLS // max(1, rows)))
    starts = range(0, n_resamples, size)
    for start, child in zip(starts, seeds.spawn(len(starts)), strict=True):
        yield start, min(start + size, n_resamples), child.generate_state(1, np.uint64)


@kernel
def mixed(counter: Any) -> Any:
    """64 random bits from a counter."""
    z = (counter ^ (counter >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def next_word(state: Array) -> Any:
    """The next 64 random bits; the counter moves on by the golden ratio."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return mixed(state[0])


@kernel
def below(state: Array, n: int) -> Any:
    """A whole number in [0, n), each equally likely."""
    size = np.uint64(n)
    low_bits = np.uint64(0xFFFFFFFF)
    product = (next_word(state) >> np.uint64(32)) * size
    if product & low_bits < size:
        floor = (np.uint64(1 << 32) - size) % size
        while product & low_bits < floor:
            product = (next_word(state) >> np.uint64(32)) * size
    return np.int64(product >> np.uint64(32))


@kernel
def draw_rows(state: Array, first: int, out: Array) -> None:
    """Fill `out` with rows of [first, first + out.size), drawn with replacement; one word serves two rows."""
    n = out.size
    half = n // 2
    size, low_bits, start = np.uint64(n), np.uint64(0xFFFFFFFF), np.uint64(first)
    floor = (np.uint64(1 << 32) - size) % size
    counter = state[0]
    step = np.uint64(0x9E3779B97F4A7C15)
    refused = 0
    for i in range(half):
        word = mixed(counter + np.uint64(i + 1) * step)
        left, right = (word >> np.uint64(32)) * size, (word & low_bits) * size
        refused += (left & low_bits < floor) + (right & low_bits < floor)
        out[i] = np.uint32(start + (left >> np.uint64(32)))
        out[half + i] = np.uint32(start + (right >> np.uint64(32)))
    state[0] = counter + np.uint64(half) * step
    if refused > 0:  # rare: the loop above stays free of branches, and what it should not have kept is drawn anew
        for i in range(half):
            word = mixed(counter + np.uint64(i + 1) * step)
            if ((word >> np.uint64(32)) * size) & low_bits < floor:
                out[i] = np.uint32(first + below(state, n))
            if ((word & low_bits) * size) & low_bits < floor:
                out[half + i] = np.uint32(first + below(state, n))
    if n % 2 == 1:
        out[n - 1] = np.uint32(first + below(state, n))


@kernel
def draw_indices(state: Array, edges: Array, out: Array) -> None:
    """Fill each row of `out` with one resample: rows edges[h] to edges[h+1] drawn among themselves."""
    for b in range(out.shape[0]):
        for h in range(edges.size - 1):
            draw_rows(state, edges[h], out[b, edges[h] : edges[h + 1]])


@kernel
def resample_sums(state: Array, edges: Array, features: Array, rows: Array, out: Array) -> None:
    """out[b, j] = the sum of features[j] over a resample: the same draws as `draw_indices`; `rows` is work space."""
    for b in range(out.shape[0]):
        draw_indices(state, edges, rows)
        for j in range(features.shape[0]):
            total = 0.0
            for i in range(rows.shape[1]):
                total += features[j, np.int64(rows[0, i])]
            out[b, j] = total


@kernel
def resample_products(state: Array, edges: Array, pair: Array, rows: Array, out: Array) -> None:
    """out[b] = sums of x, y, x^2, y^2, xy over a resample of the pairs (x, y) = (pair[0], pair[1])."""
    x, y = pair[0], pair[1]
    for b in range(out.shape[0]):
        draw_indices(state, edges, rows)
        sx, sy, sxx, syy, sxy = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(rows.shape[1]):
            at = np.int64(rows[0, i])
            u, v = x[at], y[at]
            sx += u
            sy += v
            sxx += u * u
            syy += v * v
            sxy += u * v
        out[b, 0], out[b, 1], out[b, 2], out[b, 3], out[b, 4] = sx, sy, sxx, syy, sxy


@kernel
def split_sums(state: Array, z: Array, k: int, out: Array) -> None:
    """out[b] = the sum of k values of z chosen without replacement; z is reordered on the way.

    A partial shuffle: k swaps choose k values, and a shuffled start is as good as any other.
    """
    n = z.size
    for b in range(out.size):
        s = 0.0
        for i in range(k):
            j = i + below(state, n - i)
            z[i], z[j] = z[j], z[i]
            s += z[i]
        out[b] = s


@kernel
def split_medians(state: Array, ordered: Array, rank: Array, k: int, out: Array) -> None:
    """out[b] = median of k values chosen from `ordered` (ascending) minus the median of the others."""
    n = ordered.size
    chosen = np.zeros(n, dtype=np.bool_)
    for b in range(out.size):
        chosen[:] = False
        for i in range(k):
            j = i + below(state, n - i)
            rank[i], rank[j] = rank[j], rank[i]
            chosen[rank[i]] = True
        out[b] = split_median(ordered, chosen, k)


@kernel
def split_median(ordered: Array, chosen: Array, k: int) -> float:
    """Median of the chosen values minus the median of the rest: one walk in ascending order."""
    n = ordered.size
    first, second, seen_first, seen_second = 0.0, 0.0, 0, 0
    for i in range(n):
        if chosen[i]:
            if seen_first == (k - 1) // 2:
                first += 0.5 * ordered[i]
            if seen_first == k // 2:
                first += 0.5 * ordered[i]
            seen_first += 1
        else:
            if seen_second == (n - k - 1) // 2:
                second += 0.5 * ordered[i]
            if seen_second == (n - k) // 2:
                second += 0.5 * ordered[i]
            seen_second += 1
    return first - second


@kernel
def sign_sums(state: Array, z: Array, out: Array) -> None:
    """out[b] = sum_i +-z_i with a fair coin for every sign, 64 coins to a random word."""
    n = z.size
    for b in range(out.size):
        s = 0.0
        for start in range(0, n, 64):
            word = next_word(state)
            for i in range(start, min(n, start + 64)):
                s += z[i] * (1.0 - 2.0 * np.float64(np.int64(word & np.uint64(1))))
                word >>= np.uint64(1)
        out[b] = s


@kernel
def sign_medians(state: Array, size: Array, out: Array) -> None:
    """out[b] = median of +-size_i with a fair coin for every sign; `size` ascends and is not negative."""
    n = size.size
    negative = np.zeros(n, dtype=np.bool_)
    for b in range(out.size):
        for start in range(0, n, 64):
            word = next_word(state)
            for i in range(start, min(n, start + 64)):
                negative[i] = word & np.uint64(1) != np.uint64(0)
                word >>= np.uint64(1)
        out[b] = sign_median(size, negative)


@kernel
def sign_median(size: Array, negative: Array) -> float:
    """Median of signed values whose sizes ascend: negatives come in falling, positives in rising order."""
    n = size.size
    below_zero = 0
    for i in range(n):
        below_zero += negative[i]
    total = 0.0
    for want in ((n - 1) // 2, n // 2):
        from_negative = want < below_zero
        skip = below_zero - 1 - want if from_negative else want - below_zero
        for i in range(n):
            if negative[i] == from_negative:
                if skip == 0:
                    total += -0.5 * size[i] if from_negative else 0.5 * size[i]
                    break
                skip -= 1
    return total


@kernel
def shuffle_products(state: Array, x: Array, y: Array, out: Array) -> None:
    """out[b] = sum_i x_i y_{s(i)} over a random shuffle s; y is reordered on the way."""
    n = x.size
    for b in range(out.size):
        s = 0.0
        for i in range(n):
            j = i + below(state, n - i)
            y[i], y[j] = y[j], y[i]
            s += x[i] * y[i]
        out[b] = s
