"""Finding a place in ascending numbers, from inside a kernel."""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["first_at_least"]


@kernel(inline=True)
def first_at_least(x: np.ndarray, low: int, high: int, value: float) -> int:
    """The first place from low on, before high, whose entry is not below `value`; high, if there is none.

    `x` ascends between the two. Cost: log2(high - low) comparisons.
    """
    while low < high:
        middle = (low + high) >> 1
        if x[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
