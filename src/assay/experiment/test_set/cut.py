"""Where to cut: how many rows of each stratum are tested, and the hash number or the time that parts them.

    k_s          = share x rows of stratum s, rounded by largest remainder, so that the total is right too
    threshold_s  = the number t with k_s hash numbers below it; of all such t the one nearest to the share
    cut          = the time with the wanted share of rows after it

Equal numbers (twins) and equal times are never parted, so the count is the nearest they allow. Cost: one sort each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.errors import DataError, SealError
from assay.experiment.test_set.digests import DATE, MISSING, NEGATIVE, NUMBER, WHOLE, canonical, column_of

__all__ = ["apportion", "cut", "threshold", "times"]

Array = np.ndarray


def apportion(sizes: Array, share: float) -> Array:
    """How many rows of each stratum to test: shares rounded by largest remainder, a row of each left to train on."""
    exact = sizes * share
    wanted = np.minimum(np.floor(exact), sizes - 1).astype(int)
    total = max(1, round(float(exact.sum())))
    # Largest remainder first; of equal ones, the larger stratum.
    for at in np.lexsort((-sizes, -np.round(exact - np.floor(exact), 9))):
        if wanted.sum() < total and wanted[at] < sizes[at] - 1:
            wanted[at] += 1
    return wanted


def threshold(numbers: Array, wanted: int, share: float, alone: bool) -> float:
    """The value with `wanted` numbers below it, as nearly as equal ones allow, and of these the nearest to `share`."""
    values, counts = np.unique(numbers, return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    first, last = (1, len(values) - 1) if alone and len(values) > 1 else (0, len(values))
    at = first + int(np.argmin(np.abs(below[first : last + 1] - wanted)))
    low = np.nextafter(values[at - 1], 1.0) if at else 0.0
    high = values[at] if at < len(values) else 1.0
    return float(min(max(share, low), high))


def times(frame: Any, name: str) -> Array:
    """The column as numbers, or as nanoseconds since 1970."""
    bits, tags = canonical(column_of(frame, name), name)
    if (tags == MISSING).any():
        row = int(np.flatnonzero(tags == MISSING)[0])
        raise DataError(f"the time column {name!r} is missing in row {row}", remedy="fill it or drop that row")
    if (tags == DATE).all():
        return bits.view(np.int64)
    if not np.isin(tags, (NUMBER, WHOLE, NEGATIVE)).all():
        remedy = "use numbers or ISO dates throughout"
        raise DataError(f"the time column {name!r} cannot be sorted", remedy=remedy)
    # Whole numbers beyond 2^53 are rounded here: an order needs no last digit.
    size = bits.astype(np.float64) * np.where(tags == NEGATIVE, -1.0, 1.0)
    return np.where(tags == NUMBER, bits.view(np.float64), size)


def cut(frame: Any, name: str, share: float) -> float | int:
    """The time from which rows are tested, so that about `share` of them are."""
    values, counts = np.unique(times(frame, name), return_counts=True)
    if values.size < 2:
        raise SealError(f"every row has the same {name!r}", remedy="seal by content or by group instead")
    later = counts.sum() - np.cumsum(counts)[:-1]
    cut = values[int(np.argmin(np.abs(later - share * counts.sum())))]
    return int(cut) if values.dtype.kind == "i" else float(cut)
