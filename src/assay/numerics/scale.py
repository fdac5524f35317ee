"""Units that cost no digit: dividing by a power of two is exact, and keeps squares from overflowing or vanishing."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["norms", "power_of_two"]


def power_of_two(size: Any) -> np.ndarray:
    """The power of two next above each size (at most 2^1000, at least 2^-1000), and 1 for 0.

    >>> power_of_two(np.array([0.0, 3.0, 0.25])).tolist()
    [1.0, 4.0, 0.5]
    """
    exponent = np.clip(np.frexp(size)[1], -1000, 1000)
    return np.where(size == 0, 1.0, np.ldexp(1.0, exponent))


def norms(A: np.ndarray) -> np.ndarray:
    """Lengths of the columns, safe at any scale.

    >>> norms(np.array([[3.0], [4.0]]) * 2.0**700).tolist() == [5 * 2.0**700]
    True
    """
    unit = power_of_two(np.abs(A).max(axis=0, initial=0.0))
    return np.sqrt(np.square(A / unit).sum(axis=0)) * unit
