"""Splitting rows into folds, and choosing along a cross-validated curve.

Any splitter of scikit-learn works wherever `cv` is asked for, and a number means that many folds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from assay.base import Constraint, array_like, integer
from assay.errors import DataError

__all__ = ["cv_mean_and_error", "folds", "folds_constraint", "one_standard_error"]

folds_constraint = (
    integer(2)
    | Constraint(lambda v: hasattr(v, "split") and not isinstance(v, str), "a splitter")
    | array_like
    | Constraint(lambda v: isinstance(v, Iterable) and hasattr(v, "__next__"), "an iterable of splits")
)
"""What `cv` may be: a number of folds, a splitter, or (train, test) pairs."""


def folds(cv: Any, X: Any, y: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """The (train, test) row numbers of each fold.

    >>> [(a.tolist(), b.tolist()) for a, b in folds(2, np.zeros((4, 1)), np.zeros(4))]
    [([2, 3], [0, 1]), ([0, 1], [2, 3])]
    """
    n = X.shape[0]
    if isinstance(cv, int | np.integer) and cv > n:
        raise DataError(f"{cv} folds need at least {cv} rows, but there are {n}", remedy="lower cv or pass more rows")
    return [(np.asarray(train), np.asarray(test)) for train, test in check_cv(cv).split(X, y)]


def cv_mean_and_error(errors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over folds (first axis), weighted by fold size, and its standard error.

    cvm = sum_k w_k e_k / sum_k w_k,   cvsd = sqrt(sum_k w_k (e_k - cvm)^2 / sum_k w_k / (K - 1)).
    """
    mean = np.average(errors, axis=0, weights=weights)
    spread = np.average((errors - mean) ** 2, axis=0, weights=weights)
    return mean, np.sqrt(spread / (len(errors) - 1))


def one_standard_error(mean: np.ndarray, error: np.ndarray) -> tuple[int, int]:
    """Positions of the best mean and of the simplest model within one standard error of it.

    The positions must run from the simplest model to the most complex one.

    >>> one_standard_error(np.array([9.0, 5.0, 4.0, 4.5]), np.array([1.0, 1.0, 1.5, 1.0]))
    (2, 1)
    """
    best = int(np.argmin(mean))
    return best, int(np.argmax(mean <= mean[best] + error[best]))
