"""The hard margin's other end: a proof that there is none.

A hyperplane separates two classes strictly exactly when their convex hulls are apart. The dual of the hard margin
moves points of the two hulls, p = sum_{y=1} beta_i phi(x_i) / s and q likewise (s = sum alpha / 2), towards each other:
|p - q| = |w| / s bounds the distance of the hulls from above at every step. Where it falls to rounding, p and q are the
proof: a point that belongs to both hulls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.errors import DataError
from assay.numerics.separation import Overlap

__all__ = ["refuse_inseparable"]

Array = np.ndarray
TOUCH = 1e-5
"""Hulls nearer than this share of the largest feature vector count as touching."""


def refuse_inseparable(source: Any, y: Array, made: Any, names: list[Any], proof: Callable[[], Overlap | None]) -> None:
    """Raise the proof that no hyperplane separates the classes, where there is one.

    `proof` asks the linear programme of `assay.numerics.separation`, which names the rows; with other kernels than the
    linear one it has nothing to say.
    """
    total = 0.5 * float(np.abs(made.beta).sum())
    radius = float(np.sqrt(max(np.max(source.diagonal), 0.0)))
    least = float(np.min(y * (y - made.e + made.bias)))
    apart = np.sqrt(made.norm) / total if total > 0 else np.inf
    if least > 0.5 and apart > TOUCH * radius:
        return
    overlap = proof()
    if overlap is not None:
        raise DataError(str(overlap), remedy="pass a finite C, such as C=1.0, or a richer kernel")
    positive, negative = (np.flatnonzero((made.beta != 0) & (y == side)) for side in (1.0, -1.0))
    what = (
        f"no hyperplane separates {names[0]!r} from {names[1]!r} in the features of this kernel: weighted means of "
        f"{positive.size} and {negative.size} of their rows are {apart / max(radius, 1e-300):.1e} of the largest apart"
    )
    twins = _twins(source, positive, negative)
    if twins is not None:
        what = (
            f"no hyperplane separates {names[0]!r} from {names[1]!r}: two rows with these labels are the same "
            f"to the kernel (rows {twins[0]} and {twins[1]} of these classes)"
        )
    raise DataError(what, remedy="pass a finite C, such as C=1.0, or a richer kernel")


def _twins(source: Any, positive: Array, negative: Array) -> tuple[int, int] | None:
    """Two support vectors of different classes that coincide."""
    if not positive.size or not negative.size or positive.size * negative.size > 1e6:
        return None
    d = source.diagonal
    K = source.block(positive, negative, out=np.empty((positive.size, negative.size)))
    gap = d[positive][:, None] + d[negative] - 2 * K
    i, j = np.unravel_index(int(np.argmin(gap)), gap.shape)
    if gap[i, j] > 1e-12 * max(float(d.max()), 1e-300):
        return None
    return int(positive[i]), int(negative[j])
