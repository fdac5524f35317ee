"""The rows of each fold for any `cv`, and choosing along a cross-validated curve.

Any splitter of scikit-learn works wherever `cv` is asked for, and a number means that many folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import get_routing_for_object

from assay.base import Constraint, array_like, integer
from assay.errors import AssayError, DataError

__all__ = ["cv_mean_and_error", "folds", "folds_constraint", "is_partition", "one_standard_error", "take"]

folds_constraint = (
    integer(2)
    | Constraint(lambda v: hasattr(v, "split") and not isinstance(v, str | type), "a splitter")
    | array_like
    | Constraint(lambda v: isinstance(v, Iterable) and hasattr(v, "__next__"), "an iterable of splits")
)
"""What `cv` may be: a number of folds, a splitter, or (train, test) pairs."""


def folds(cv: Any, X: Any, y: Any, groups: Any = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """The (train, test) row numbers of each fold; a number means unshuffled folds, as in scikit-learn's estimators.

    | parameter | default | range                                     | meaning                      |
    |-----------|---------|-------------------------------------------|------------------------------|
    | cv        |         | a number, a splitter, (train, test) pairs | how to split                 |
    | groups    | None    | one label per row                         | rows that must stay together |

    >>> [(a.tolist(), b.tolist()) for a, b in folds(2, np.zeros((4, 1)), np.zeros(4))]
    [([2, 3], [0, 1]), ([0, 1], [2, 3])]
    """
    n = X.shape[0]
    if isinstance(cv, int | np.integer) and cv > n:
        raise DataError(f"{cv} folds need at least {cv} rows, but n_samples = {n}", remedy="lower cv or pass more rows")
    try:
        pairs = [(_rows(train, n), _rows(test, n)) for train, test in check_cv(cv).split(X, y, groups)]
    except AssayError:
        raise
    except (TypeError, ValueError) as error:
        if groups is None and get_routing_for_object(cv).consumes("split", {"groups"}):
            name = type(cv).__name__
            raise DataError(
                f"{name} splits by groups, but there are none",
                remedy=f"pass groups, or the folds themselves: cv=list({name}(...).split(X, y, groups))",
            ) from error
        what = " ".join(str(error).split()).rstrip(". ")
        raise DataError(f"cv cannot split these rows: {what}", remedy="pass another cv, such as cv=5") from error
    if not pairs or any(train.size == 0 or test.size == 0 for train, test in pairs):
        what = "cv yields no folds" if not pairs else "cv yields a fold without training or test rows"
        raise DataError(what, remedy="pass another cv, such as cv=5")
    return pairs


def take(X: Any, rows: np.ndarray) -> Any:
    """Some `rows` of a table, whatever kind of table it is: an array, a frame, an Arrow table, sparse.

    >>> take(np.array([[1], [2], [3]]), np.array([2, 0])).tolist()
    [[3], [1]]
    """
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names"):  # an Arrow table, whose X[rows] are columns
        return X.take(rows)
    if sparse.issparse(X):
        table: Any = X
        return table.tocsr()[rows]
    return X[rows]


def _rows(chosen: Any, n: int) -> np.ndarray:
    """Row numbers, also where a mask was given."""
    chosen = np.asarray(chosen)
    if chosen.dtype != bool:
        return chosen
    if chosen.shape != (n,):
        raise DataError(
            f"a mask has {chosen.size} entries for {n} rows", remedy="pass one entry per row, or row numbers"
        )
    return np.flatnonzero(chosen)


def is_partition(splits: Sequence[tuple[Any, Any]], n: int) -> bool:
    """Whether the tests of `splits` share out all n rows and each training set is the rest, so that summaries merge.

    >>> is_partition(folds(2, np.zeros((4, 1)), np.zeros(4)), 4), is_partition([([0, 1], [2]), ([0], [1, 2])], 3)
    (True, False)
    """
    tested = np.zeros(n, dtype=bool)
    for train, test in splits:
        here = np.zeros(n, dtype=bool)
        here[train] = here[test] = True
        # Every row is there and none can be there twice, or the lengths would add up to more.
        if not here.all() or _length(train, n) + _length(test, n) != n or tested[test].any():
            return False
        tested[test] = True
    return bool(tested.all())


def _length(rows: Any, n: int) -> int:
    return len(range(n)[rows]) if isinstance(rows, slice) else len(rows)


def cv_mean_and_error(errors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of `errors` over folds (first axis), by the `weights` of the folds, and its standard error.

    cvm = sum_k w_k e_k / sum_k w_k,   cvsd = sqrt(sum_k w_k (e_k - cvm)^2 / sum_k w_k / (K - 1)).

    One fold has no spread, so its standard error is NaN.

    >>> cv_mean_and_error(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    (np.float64(2.0), np.float64(1.0))
    """
    mean = np.average(errors, axis=0, weights=weights)
    if len(errors) == 1:
        return mean, np.full_like(mean, np.nan)
    # The errors are squares already, and their squares may overflow or vanish, so they are scaled first.
    scale = np.abs(errors).max(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    spread = np.average((errors / scale - mean / scale) ** 2, axis=0, weights=weights)
    return mean, scale * np.sqrt(spread / (len(errors) - 1))


def one_standard_error(mean: np.ndarray, error: np.ndarray) -> tuple[int, int]:
    """Positions of the best mean and of the simplest model within one standard error of it.

    The positions must run from the simplest model to the most complex one. Without a standard error
    (NaN) there is nothing to be within, and both are the best.

    >>> one_standard_error(np.array([9.0, 5.0, 4.0, 4.5]), np.array([1.0, 1.0, 1.5, 1.0]))
    (2, 1)
    """
    best = int(np.argmin(mean))
    return best, int(np.argmax(mean <= mean[best] + np.nan_to_num(error[best])))
