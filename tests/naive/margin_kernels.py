"""Kernels by their definition: one pair of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def gram(k: Callable[[Any, Any], float], A: Any, B: Any) -> np.ndarray:
    """k of each pair of rows."""
    return np.array([[k(x, z) for z in B] for x in A])


def spectrum(s: str, t: str, k: int) -> int:
    """The number of pairs of equal substrings of length k."""
    pieces = [[u[i : i + k] for i in range(len(u) - k + 1)] for u in (s, t)]
    return sum(a == b for a in pieces[0] for b in pieces[1])


def edit(s: str, t: str) -> int:
    """Fewest insertions, deletions and replacements that turn s into t."""
    if not s or not t:
        return len(s) + len(t)
    return min(edit(s[1:], t) + 1, edit(s, t[1:]) + 1, edit(s[1:], t[1:]) + (s[0] != t[0]))
