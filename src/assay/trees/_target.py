"""The gate of numeric targets and of weights: one finite number per row, or one sentence saying why not."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from assay.base import check_target
from assay.errors import DataError

__all__ = ["in_range", "numeric_target"]

Array = np.ndarray
FAR = 300
"""Weights beyond 2**300 or below 2**-300 are brought nearer to 1: their products with squares would leave the range."""

LEAST, MOST = 1e-150, 1e153
"""Between these, the squares of targets, and sums of them, are numbers with all their digits."""


def numeric_target(estimator: Any, y: Any, n: int) -> Array:
    """The target of a regression as a float64 vector of n finite numbers.

    A single column is flattened with scikit-learn's warning; several targets at once are refused.

    >>> numeric_target(None, [1, 2, 4], 3)
    array([1., 2., 4.])
    """
    if y is None:
        name = type(estimator).__name__
        what = f"{name} requires y to be passed, but the target y is None"
        raise DataError(what, remedy="pass the target as y")
    check_target(y)
    raw = np.asarray(y)
    if raw.ndim > 1 and not (raw.ndim == 2 and raw.shape[1] == 1):
        what = f"y should be a 1d array, got an array of shape {raw.shape} instead"
        raise DataError(what, remedy="pass one number per row, and fit one model per target")
    try:
        target = column_or_1d(y, warn=True)
    except ValueError as error:
        what = " ".join(str(error).split()).split(". ")[0]
        raise DataError(f"y cannot be used: {what}", remedy="pass one number per row") from error
    if target.size != n:
        what = f"Found input variables with inconsistent numbers of samples: X has {n} rows but y has {target.size}"
        raise DataError(what, remedy="give X and y the same number of rows")
    target = np.ascontiguousarray(target, dtype=np.float64)
    size = float(np.abs(target).max(initial=0.0))
    if not LEAST <= size <= MOST / np.sqrt(max(n, 1)) and size > 0:
        how, remedy = ("small", "multiply") if size < LEAST else ("large", "divide")
        what = f"y goes up to {size:.4g} in magnitude, and the sum of its squares is too {how} to be computed"
        raise DataError(what, remedy=f"{remedy} y by a constant")
    return target


def in_range(w: Array | None) -> Array | None:
    """Weights whose sums of squares can be computed; a power of two changes no tree, as no split minds the unit.

    >>> in_range(np.array([2.0**400, 2.0**401])), in_range(np.array([1.0, 5.0]))
    (array([0.25, 0.5 ]), array([1., 5.]))
    """
    if w is None:
        return None
    exponent = int(np.frexp(w.max())[1])
    return w if abs(exponent) <= FAR else np.ldexp(w, -exponent)
