"""Compiled parts of Gram matrices: exponentials of squared distances, Manhattan and edit distances, mirrored tiles.

    2^t = 2^n 2^f,   n = round(t),   |f| <= 1/2,   2^f by its Taylor polynomial (degree 7 in float32, 13 in float64)

LLVM has no vector exponential, so e^-s = 2^(-s log2 e) is written out: n goes into the exponent's bits, and everything
is a multiplication, an addition or a shift of several numbers at once. The product s log2 e rounds, which moves the
result by eps s relative to itself: as much as the rounding of s does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["edit_distances", "exp_single", "exp_tile", "manhattan", "mirror"]

Array = np.ndarray

LOG2_E = 1.4426950408889634
LEAST_32, LEAST_64 = np.float32(-126.0), -1022.0
"""2^t below these would leave the normal numbers; it counts as zero."""
HALF_32, ONE_32 = np.float32(0.5), np.float32(1.0)
ZERO_32 = np.float32(0.0)
A1, A2, A3, A4, A5, A6, A7 = (
    np.float32(value)
    for value in (0.69314718, 0.24022651, 0.055504109, 0.0096181291, 0.0013333558, 1.5403530e-4, 1.5252734e-5)
)
B1, B2, B3, B4, B5, B6, B7 = (
    0.6931471805599453,
    0.24022650695910072,
    0.05550410866482158,
    0.009618129107628477,
    0.0013333558146428443,
    0.0001540353039338161,
    1.5252733804059841e-05,
)
B8, B9, B10, B11, B12, B13 = (
    1.321548679014431e-06,
    1.01780860092397e-07,
    7.054911620801123e-09,
    4.4455382718708116e-10,
    2.5678435993488206e-11,
    1.3691488853904128e-12,
)


@kernel
def exp_single(tile: Array, a: Array, b: Array, factor: Any, rate: Any) -> None:
    """tile_ij <- 2^min(0, rate (a_i + b_j + factor tile_ij)) in float32; the rate is negative."""
    for i in range(tile.shape[0]):
        row, start = tile[i], a[i]
        for j in range(b.size):
            t = min(rate * (start + b[j] + factor * row[j]), ZERO_32)
            t = max(t, LEAST_32)
            n = np.int32(t - HALF_32)
            f = t - np.float32(n)
            power = A4 + f * (A5 + f * (A6 + f * A7))
            power = ONE_32 + f * (A1 + f * (A2 + f * (A3 + f * power)))
            scale = np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)
            row[j] = power * scale if t > LEAST_32 else ZERO_32


@kernel
def exp_tile(tile: Array, a: Array, b: Array, factor: Any, rate: Any) -> None:
    """tile_ij <- 2^min(0, rate (a_i + b_j + factor tile_ij)) in float64; the rate is negative."""
    for i in range(tile.shape[0]):
        row, start = tile[i], a[i]
        for j in range(b.size):
            t = min(rate * (start + b[j] + factor * row[j]), 0.0)
            t = max(t, LEAST_64)
            n = np.int32(t - 0.5)
            f = t - np.float64(n)
            power = B8 + f * (B9 + f * (B10 + f * (B11 + f * (B12 + f * B13))))
            power = B4 + f * (B5 + f * (B6 + f * (B7 + f * power)))
            power = 1.0 + f * (B1 + f * (B2 + f * (B3 + f * power)))
            scale = np.int64((np.int64(n) + np.int64(1023)) << np.int64(52)).view(np.float64)
            row[j] = power * scale if t > LEAST_64 else 0.0


@kernel
def manhattan(A: Array, B: Array, tile: Array) -> None:
    """tile_ij <- sum_l |A_il - B_jl|."""
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            total = A[i, 0] - A[i, 0]  # a zero of the same type
            for at in range(A.shape[1]):
                total += abs(A[i, at] - B[j, at])
            tile[i, j] = total


@kernel
def mirror(tile: Array, out: Array, row: int, column: int) -> None:
    """Write the transpose of a tile that belongs to (row, column) where it belongs below the diagonal."""
    m, n = tile.shape
    for top in range(0, n, 16):
        for left in range(0, m, 16):
            for j in range(top, min(top + 16, n)):
                for i in range(left, min(left + 16, m)):
                    out[column + j, row + i] = tile[i, j]


@kernel
def edit_distances(a: Array, a_start: Array, b: Array, b_start: Array, tile: Array) -> None:
    """tile_ij <- Levenshtein distance of two strings; string i is a[a_start[i]:a_start[i + 1]]."""
    longest = 0
    for j in range(b_start.size - 1):
        longest = max(longest, b_start[j + 1] - b_start[j])
    line = np.empty(longest + 1, dtype=np.int64)
    for i in range(a_start.size - 1):
        for j in range(b_start.size - 1):
            first, size = b_start[j], b_start[j + 1] - b_start[j]
            for at in range(size + 1):
                line[at] = at
            for s in range(a_start[i], a_start[i + 1]):
                corner = line[0]
                line[0] += 1
                for at in range(size):
                    swapped = corner + (0 if a[s] == b[first + at] else 1)
                    corner = line[at + 1]
                    line[at + 1] = min(swapped, min(corner, line[at]) + 1)
            tile[i, j] = line[size]
