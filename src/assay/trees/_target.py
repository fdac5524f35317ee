"""The gate of numeric targets: one finite number per row, or one sentence saying why not."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from assay.base import _check_target
from assay.errors import DataError

__all__ = ["numeric_target"]

Array = np.ndarray


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
    _check_target(y)
    raw = np.asarray(y)
    if raw.ndim > 1 and not (raw.ndim == 2 and raw.shape[1] == 1):
        what = f"y should be a 1d array, got an array of shape {raw.shape} instead"
        raise DataError(what, remedy="give one number per row, and fit one model per target")
    try:
        target = column_or_1d(y, warn=True)
    except ValueError as error:
        what = " ".join(str(error).split()).split(". ")[0]
        raise DataError(f"y cannot be used: {what}", remedy="give one number per row") from error
    if target.size != n:
        what = f"Found input variables with inconsistent numbers of samples: X has {n} rows but y has {target.size}"
        raise DataError(what, remedy="give X and y the same number of rows")
    return np.ascontiguousarray(target, dtype=np.float64)
