"""The hard margin's other end: a proof that there is none.

A hyperplane separates two classes strictly exactly when their convex hulls are apart. The dual of the hard margin
moves points of the two hulls, p = sum_{y=1} beta_i phi(x_i) / s and q likewise (s = sum alpha / 2), towards each other:
|p - q| = |w| / s bounds the width of any margin from above at every step. Where it falls to rounding, p and q are the
proof: a point that belongs to both hulls. Scores y f > 1/2 on all rows, known to better than that, prove the contrary.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.errors import AssayWarning, DataError
from assay.numerics.separation import Overlap, Separation

__all__ = ["refuse_indefinite", "refuse_inseparable", "warn_of_indefinite"]

Array = np.ndarray
TOUCH = 1e-5
"""Hulls nearer than this share of the largest feature vector are too near for a margin, if scores do not show one."""
SOME = 500
"""Rows on which a kernel that may not be valid is looked at."""
DOUBLE, SINGLE = 1e-15, 1e-7
"""Rounding of Gram matrices held whole, and of rows that are fetched."""


def refuse_inseparable(
    source: Any, y: Array, rows: Array, made: Any, names: list[Any], proof: Callable[[], Separation | Overlap | None]
) -> None:
    """Raise what is proved against a margin between the classes; nothing where the scores prove that there is one.

    `proof` asks the linear programme of `assay.numerics.separation`, which names the rows; with other kernels than the
    linear one it has nothing to say. `rows` are the numbers of the rows in the table. A solver that was stopped early
    proves nothing, and its warning says so.
    """
    total = 0.5 * float(np.abs(made.beta).sum())
    radius = float(np.sqrt(max(np.max(source.diagonal), 0.0)))
    least = float(np.min(y * (y - made.e + made.bias)))
    rounding = (DOUBLE if source.K is not None else SINGLE) * radius**2 * total
    if (least > 0.5 and rounding < 0.1) or total == 0.0:
        return
    found, remedy = proof(), "pass a finite C, such as C=1.0, or a richer kernel"
    if isinstance(found, Overlap):
        raise DataError(str(found), remedy=remedy)
    positive, negative = (np.flatnonzero((made.beta != 0) & (y == side)) for side in (1.0, -1.0))
    equal = None if found is not None else _equal_rows(source, positive, negative)
    if equal is not None:
        what = (
            f"no hyperplane separates {names[0]!r} from {names[1]!r}: two rows with these labels are identical "
            f"under the kernel (rows {rows[equal[0]]} and {rows[equal[1]]})"
        )
        raise DataError(what, remedy=remedy)
    apart = float(np.sqrt(made.norm)) / total
    if apart <= TOUCH * radius:
        what = (
            f"no margin between {names[0]!r} and {names[1]!r} is wider than {apart / max(radius, 1e-300):.1e} of the "
            f"largest row in the features of this kernel: weighted means of {positive.size} and {negative.size} of "
            "their rows are that close to each other"
        )
        raise DataError(what, remedy=remedy)


def refuse_indefinite(source: Any, kernel: Any) -> None:
    """Raise where a Gram matrix at hand has a negative eigenvalue: the dual of a hard margin has no maximum then."""
    least = _negative(source, kernel, source.n) if source.K is not None else None
    if least is not None:
        what = f"C = inf needs a valid kernel, but {kernel} has the eigenvalue {least:.4g} on these rows"
        raise DataError(what, remedy="pass a finite C, such as C=1.0, or a valid kernel")


def warn_of_indefinite(source: Any, kernel: Any, *, coupled: bool) -> None:
    """Say that the dual is not concave on these rows; some of them are enough, as a direction of theirs is all rows'.

    A bias fixes the sum of beta, so that only directions whose sum is 0 matter.
    """
    least = _negative(source, kernel, SOME, centred=coupled)
    if least is not None:
        what = (
            f"{kernel} is not a valid kernel: its {'centred ' if coupled else ''}Gram matrix has the eigenvalue "
            f"{least:.4g} on these rows, so the dual may have several optima and the duality gap proves nothing; use a "
            "valid kernel, such as 'rbf'"
        )
        warnings.warn(what, AssayWarning, stacklevel=5)


def _negative(source: Any, kernel: Any, most: int, *, centred: bool = False) -> float | None:
    """A negative eigenvalue of a kernel that is not valid by construction, on at most so many rows; None if none."""
    if kernel.valid:
        return None
    rows = np.unique(np.linspace(0, source.n - 1, min(source.n, most)).astype(np.int64))
    K = source.block(rows, rows, out=np.empty((rows.size, rows.size)))
    top = float(np.abs(K).max(initial=0.0))
    if centred:
        K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values = np.linalg.eigvalsh(K)
    return float(values[0]) if values[0] < -1e-7 * max(np.abs(values).max(), top) else None


def _equal_rows(source: Any, positive: Array, negative: Array) -> tuple[int, int] | None:
    """Two support vectors of different classes that coincide."""
    if not positive.size or not negative.size or positive.size * negative.size > 1e6:
        return None
    d = source.diagonal
    K = source.block(positive, negative, out=np.empty((positive.size, negative.size)))
    gap = d[positive][:, None] + d[negative] - 2 * K
    i, j = np.unravel_index(int(np.argmin(gap)), gap.shape)
    if abs(gap[i, j]) > 10 * DOUBLE * max(float(d.max()), 1e-300):
        return None
    return int(positive[i]), int(negative[j])
