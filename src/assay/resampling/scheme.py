"""What a set of splits is: read off the row numbers themselves, so that it holds for anybody's splitter.

The scheme decides which test of a difference is valid and how much a variance over folds must be enlarged. Training
sets overlap, so fold scores are correlated; Nadeau and Bengio (2003, Machine Learning 52, 239-281) replace the factor
1/J of the variance of a mean of J = K R scores by

    1/J + n_test / n_train.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from sklearn.model_selection import LeaveOneOut as SklearnLeaveOneOut

from assay.errors import DataError
from assay.resampling.folds import folds, is_partition
from assay.resampling.splitters import Folds, LeaveOneOut, rows_in

__all__ = [
    "AllButOne",
    "Scheme",
    "corrected_variance_factor",
    "group_codes",
    "nested",
    "scheme_of",
    "splits_of",
    "whole_groups",
]

Array = np.ndarray
Pair = tuple[Array, Array]


class AllButOne(Sequence[Pair]):
    """The splits of leave-one-out, made when asked for: n of them would fill n^2 numbers.

    >>> [(train.tolist(), test.tolist()) for train, test in AllButOne(2)]
    [([1], [0]), ([0], [1])]
    """

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, at: int) -> Pair: ...
    @overload
    def __getitem__(self, at: slice) -> list[Pair]: ...
    def __getitem__(self, at: int | slice) -> Pair | list[Pair]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(self.n))]
        i = range(self.n)[at]
        return np.delete(np.arange(self.n), i), np.array([i])

    def __iter__(self) -> Iterator[Pair]:
        return (self[i] for i in range(self.n))


@dataclass(frozen=True)
class Scheme:
    """Which resampling it is, how many splits it has (K per repeat, R repeats) and the mean sizes of their parts.

    `n_train` counts rows once, however often a bootstrap sample holds them.

    >>> print(Scheme("repeated k-fold", 10, 5, 90.0, 10.0, 100))
    10-fold cross-validation, 5 repeats, of 100 rows
    """

    kind: str
    n_splits: int
    repeats: int
    n_train: float
    n_test: float
    n: int

    @property
    def ratio(self) -> float:
        """Test rows per training row."""
        return self.n_test / self.n_train

    def __str__(self) -> str:
        words = {
            "holdout": f"holdout of {self.n_test:,.0f} of {self.n:,} rows",
            "k-fold": f"{self.n_splits}-fold cross-validation of {self.n:,} rows",
            "repeated k-fold": f"{self.n_splits}-fold cross-validation, {self.repeats} repeats, of {self.n:,} rows",
            "leave-one-out": f"leave-one-out of {self.n:,} rows",
            "5x2": f"5 x 2-fold cross-validation of {self.n:,} rows",
            "bootstrap": f"{self.n_splits} bootstrap samples of {self.n:,} rows",
            "time-ordered": f"{self.n_splits} time-ordered splits of {self.n:,} rows",
            "repeated holdout": f"{self.n_splits} holdouts of {self.n:,} rows",
            "out-of-bag": f"out-of-bag predictions of {self.n:,} rows",
            "held out by the learner": f"rows held out by the learner itself, of {self.n:,}",
        }
        return words.get(self.kind, f"{self.n_splits} splits of {self.n:,} rows")


def splits_of(
    cv: Any, X: Any, y: Any = None, *, groups: Any = None, classes: bool = False, random_state: Any = 0
) -> Sequence[Pair]:
    """The (train, test) rows of any `cv`; a number means that many shuffled folds, stratified for classes.

    | parameter    | default | range                                   | meaning                                 |
    |--------------|---------|-----------------------------------------|-----------------------------------------|
    | cv           |         | a number, a splitter, (train, test) pairs | how to split                          |
    | groups       | None    | one label per row                       | rows that must stay together            |
    | classes      | False   | True, False                             | whether y holds classes                 |
    | random_state | 0       | seed                                    | for `cv` given as a number              |

    >>> [test.size for _, test in splits_of(3, np.zeros((10, 1)))]
    [3, 3, 4]
    """
    n = rows_in(X)
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        cv = Folds(int(cv), stratify=classes, random_state=random_state)
    if isinstance(cv, LeaveOneOut | SklearnLeaveOneOut) and n > 1:
        return AllButOne(n)
    found = folds(cv, X, y, groups)
    for k, (train, test) in enumerate(found):
        if train.dtype.kind not in "iu" or test.dtype.kind not in "iu":
            raise DataError(
                f"fold {k} contains row numbers that are not whole numbers", remedy="pass row numbers or masks"
            )
        if max(train.max(), test.max()) >= n or min(train.min(), test.min()) < -n:
            raise DataError(f"fold {k} has a row number beyond the {n} rows", remedy="create cv for this table")
        inside = np.zeros(n, dtype=bool)
        inside[train] = True
        if inside[test].any():
            row = int(test[np.argmax(inside[test])])
            what = f"fold {k} has row {row} in both its training and its test rows"
            raise DataError(what, remedy="remove the test rows from the training rows")
    return found


def group_codes(groups: Any, n: int) -> Array | None:
    """The group of each of n rows as whole numbers; None without groups.

    | parameter | range               | meaning                        |
    |-----------|---------------------|--------------------------------|
    | groups    | one label per row, None | rows that must stay together |
    | n         | from 1 on           | how many rows there are        |

    >>> group_codes(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (n,):
        raise DataError(f"groups has shape {values.shape} for {n} rows", remedy="pass one group per row")
    return np.unique(values, return_inverse=True)[1]


def whole_groups(cv: Any, groups: Array | None, *, stratify: bool = False, random_state: Any = 0) -> Any:
    """The `cv` of an estimator that takes groups: a number deals groups, into fewer folds where they are not so many.

    | parameter    | default | range                                     | meaning                           |
    |--------------|---------|-------------------------------------------|-----------------------------------|
    | cv           |         | a number, a splitter, (train, test) pairs | how to split; only a number changes |
    | groups       |         | one label per row, None                   | rows that must stay together      |
    | stratify     | False   | True, False                               | whether the target holds classes  |
    | random_state | 0       | seed                                      | of the folds                      |

    >>> whole_groups(10, np.array([0, 0, 1, 2])).n_splits, whole_groups(10, None)
    (3, 10)
    """
    if groups is None or not isinstance(cv, int | np.integer):
        return cv
    count = np.unique(groups).size
    if count < 2:
        raise DataError("all rows belong to one group, which no fold can leave out", remedy="pass several groups")
    return Folds(min(int(cv), count), stratify=stratify, random_state=random_state)


def scheme_of(splits: Sequence[Pair], n: int) -> Scheme:
    """Which scheme these splits of n rows are.

    >>> scheme_of([(np.array([0, 1]), np.array([2, 3])), (np.array([2, 3]), np.array([0, 1]))], 4).kind
    'k-fold'
    """
    if isinstance(splits, AllButOne):
        return Scheme("leave-one-out", n, 1, n - 1.0, 1.0, n)
    n_train, n_test = (float(np.mean([len(pair[side]) for pair in splits])) for side in (0, 1))
    J = len(splits)
    if J == 1:
        return Scheme("holdout", 1, 1, n_train, n_test, n)
    K = _first_block(splits, n)
    if K is not None and J % K == 0 and all(is_partition(splits[i : i + K], n) for i in range(0, J, K)):
        R = J // K
        kind = "k-fold" if R == 1 else "5x2" if (K, R) == (2, 5) else "repeated k-fold"
        return Scheme("leave-one-out" if n == K and R == 1 else kind, K, R, n_train, n_test, n)
    distinct = [np.unique(train).size for train, _ in splits]
    if np.mean(distinct) < n_train:
        return Scheme("bootstrap", J, 1, float(np.mean(distinct)), n_test, n)
    if all(train.max() < test.min() for train, test in splits):
        return Scheme("time-ordered", J, 1, n_train, n_test, n)
    sizes = {(len(train), len(test)) for train, test in splits}
    return Scheme("repeated holdout" if len(sizes) == 1 else "other", J, 1, n_train, n_test, n)


def _first_block(splits: Sequence[Pair], n: int) -> int | None:
    """After how many splits every row has been tested, if the tests add up to exactly n rows."""
    tested = np.cumsum([len(test) for _, test in splits])
    at = int(np.searchsorted(tested, n))
    return at + 1 if at < len(splits) and tested[at] == n else None


def corrected_variance_factor(scheme: Scheme) -> float:
    """By how much the variance of fold scores is multiplied for that of their mean: 1/J + n_test/n_train.

    | parameter | meaning               |
    |-----------|-----------------------|
    | scheme    | what `scheme_of` gave |

    >>> round(corrected_variance_factor(Scheme("k-fold", 10, 1, 90.0, 10.0, 100)), 4)
    0.2111
    """
    return 1.0 / (scheme.n_splits * scheme.repeats) + scheme.ratio


def nested(
    outer: Any, inner: Any, X: Any, y: Any = None, *, groups: Any = None, classes: bool = False
) -> list[tuple[Array, Array, list[Pair]]]:
    """Outer splits with the inner splits of their training rows, all as rows of the whole table.

    | parameter | default | range                                     | meaning                            |
    |-----------|---------|-------------------------------------------|------------------------------------|
    | outer     |         | a number, a splitter, (train, test) pairs | what the procedure is judged on    |
    | inner     |         | a number or a splitter                    | what the procedure chooses on      |
    | groups    | None    | one label per row                         | rows that must stay together       |
    | classes   | False   | True, False                               | whether y holds classes            |

    >>> train, test, inside = nested(3, 2, np.zeros((6, 1)))[0]
    >>> all(set(a) | set(b) == set(train) for a, b in inside)
    True
    """
    target = None if y is None else np.asarray(y)
    together = None if groups is None else np.asarray(groups)
    out = []
    for train, test in splits_of(outer, X, target, groups=together, classes=classes):
        within = splits_of(
            inner,
            np.empty((train.size, 1)),
            None if target is None else target[train],
            groups=None if together is None else together[train],
            classes=classes,
        )
        out.append((train, test, [(train[a], train[b]) for a, b in within]))
    return out
