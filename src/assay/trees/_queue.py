"""Nodes that wait for their turn, the one that saves most first, and the draws of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["below", "sift"]

Array = np.ndarray


@kernel(inline=True)
def below(state: Array, n: int) -> int:
    """A whole number from 0 to n - 1, all equally likely (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    draw: Any = np.int64(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
    return draw


@kernel(inline=True)
def sift(heap: Array, size: int, at: int, reals: Array, column: int) -> None:
    """Restore the heap (largest gain first, then the older node) after its entry `at`, the first or last, was set."""
    down = at == 0
    while (2 * at + 1 < size) if down else (at > 0):
        top = at if down else (at - 1) // 2
        low = 2 * at + 1 if down else at
        if down and low + 1 < size:
            a, b = reals[heap[low], column], reals[heap[low + 1], column]
            if b > a or (b == a and heap[low + 1] < heap[low]):
                low += 1
        a, b = reals[heap[top], column], reals[heap[low], column]
        if a > b or (a == b and heap[top] < heap[low]):
            break
        heap[top], heap[low] = heap[low], heap[top]
        at = low if down else top
