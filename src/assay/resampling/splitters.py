"""Ways to split rows: holdout, folds, leave-one-out, five times two, time order, bootstrap.

Folds deal rows out like cards. The rows are ordered by class and at random within a class, and position i of that
order goes to fold i mod K: the folds differ by at most one row, in total and in every class, and rare classes need no
special case. A holdout takes every (1/f)-th position of the same order from a random start, with the same guarantee.
Groups are dealt whole, the largest first, each to the fold where it keeps the classes most even. O(n log n) per repeat.
Kohavi (1995), IJCAI; Dietterich (1998), Neural Computation 10; Efron & Tibshirani (1997), JASA 92.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import fraction, whole
from assay.errors import DataError, DataTypeError, ParameterError
from assay.numerics.seeds import generator, seed_sequence

__all__ = ["Bootstrap", "FiveByTwo", "Folds", "Holdout", "LeaveOneOut", "Splitter", "TimeFolds"]

Array = np.ndarray
Pairs = Iterator[tuple[Array, Array]]
FEW_LABELS = 20
"""Whole numbers with at most this many values are taken for classes by `stratify="auto"`."""
SMALL, LARGE = 1_000, 100_000
"""Where the rules of thumb for the size of a test set change: half below the first, a tenth from the second on."""


class Splitter:
    """What all splitters share: scikit-learn's `split(X, y, groups)` and `get_n_splits`, and a printed form."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Pairs:
        """Training and test rows, one pair per fold."""
        raise NotImplementedError

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many pairs `split` gives."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


def rows_in(X: Any) -> int:
    """How many rows a table has."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _codes(values: Any, n: int, name: str) -> Array:
    """Labels as whole numbers."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"{name} has {array.ndim} dimensions", remedy="pass one value per row")
    try:
        codes = pd.factorize(array, use_na_sentinel=True, sort=True)[0]
    except TypeError as error:
        raise DataTypeError(f"{name} mixes types", remedy="use only numbers, or only text") from error
    if codes.size != n:
        raise DataError(f"{name} has {codes.size} entries for {n} rows", remedy="pass one per row")
    if (codes < 0).any():
        raise DataError(f"{name} is missing in row {int(np.argmin(codes))}", remedy="drop that row, or fill it in")
    return codes


def strata(y: Any, n: int, stratify: bool | str) -> Array:
    """The class of each row, all the same where nothing is to be stratified."""
    plain = np.zeros(n, dtype=np.intp)
    if stratify is False or y is None:
        if stratify is True:
            raise DataError("there are no classes to stratify by", remedy="pass y, or stratify=False")
        return plain
    values = np.asarray(y)
    if values.ndim != 1:
        return plain
    if stratify == "auto" and values.dtype.kind in "iuf":
        distinct = np.unique(values)
        if distinct.size > FEW_LABELS or (values.dtype.kind == "f" and not np.all(distinct == np.round(distinct))):
            return plain
    return _codes(values, n, "y")


def shuffled(classes: Array, rng: np.random.Generator) -> Array:
    """All rows ordered by class, at random within a class."""
    order = rng.permutation(classes.size)
    return order[np.argsort(classes[order], kind="stable")]


def _check_stratify(value: Any) -> None:
    if not (value is True or value is False or value == "auto"):
        raise ParameterError(f"unknown stratify = {value!r}", remedy='choose True, False or "auto"')


class Holdout(Splitter):
    """One training and one test part, stratified, by the rules of thumb for their sizes.

    Half of fewer than 1,000 rows are tested, a tenth of 100,000 or more, and a fifth otherwise.

    | parameter    | default | range               | meaning                                                         |
    |--------------|---------|---------------------|-----------------------------------------------------------------|
    | test_size    | "auto"  | "auto", (0, 1)      | share of test rows; "auto": by the rules of thumb               |
    | stratify     | "auto"  | True, False, "auto" | keep the shares of the classes; "auto": if y looks like classes |
    | random_state | 0       | seed                | which rows                                                      |

    >>> train, test = next(Holdout().split(np.zeros((10, 1)), [0] * 6 + [1] * 4))
    >>> len(train), test.tolist()
    (5, [0, 3, 4, 6, 9])
    """

    def __init__(
        self, test_size: float | str = "auto", *, stratify: bool | str = "auto", random_state: Any = 0
    ) -> None:
        self.test_size = test_size
        self.stratify = stratify
        self.random_state = random_state

    def share(self, n: int) -> float:
        """The share of test rows among n."""
        if self.test_size == "auto":
            return 0.5 if n < SMALL else 0.1 if n >= LARGE else 0.2
        return fraction(self.test_size, "test_size")

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Pairs:
        """One pair of training and test rows; groups stay whole."""
        _check_stratify(self.stratify)
        n, rng = rows_in(X), generator(self.random_state)
        if n < 2:
            raise DataError(f"a holdout needs at least 2 rows, but there are {n}", remedy="pass more rows")
        share, classes = self.share(n), strata(y, n, self.stratify)
        if groups is not None:
            test = _hold_out_groups(_codes(groups, n, "groups"), classes, share, rng)
        else:
            order = shuffled(classes, rng)
            start = rng.random()
            reached = np.floor(np.arange(1, n + 1) * share + start)
            test = np.zeros(n, dtype=bool)
            test[order[np.diff(reached, prepend=np.floor(start)) > 0]] = True
            if test.all() or not test.any():
                # So few rows that the share rounds to nothing or all: one row makes up the smaller part all the same.
                test[:] = share > 0.5
                test[order[0]] = share <= 0.5
        yield np.flatnonzero(~test), np.flatnonzero(test)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """One."""
        return 1


def _hold_out_groups(members: Array, classes: Array, share: float, rng: np.random.Generator) -> Array:
    """Whole groups for the test, the largest first, each where the classes of both parts stay nearest to the share."""
    if members.max() == 0:
        raise DataError("all rows belong to one group", remedy="use another grouping")
    part = _deal_groups(members, classes, np.array([1 - share, share]), rng)
    if part.min() == part.max():
        # So few groups that one part got them all: the smallest group makes up the other.
        part[np.argmin(np.bincount(members))] = 1 - part[0]
    return np.asarray(part[members] == 1)


class Folds(Splitter):
    """K folds, each tested once by a model trained on the others; shuffled, stratified, repeated; groups stay whole.

    | parameter    | default | range               | meaning                                                         |
    |--------------|---------|---------------------|-----------------------------------------------------------------|
    | n_splits     | 10      | at least 2          | the number of folds K                                           |
    | repeats      | 1       | at least 1          | how many times the rows are dealt anew                          |
    | stratify     | "auto"  | True, False, "auto" | keep the shares of the classes; "auto": if y looks like classes |
    | random_state | 0       | seed                | how they are dealt                                              |

    `split(X, y, groups)` with groups deals groups instead of rows. Unlike scikit-learn's `KFold` the rows are
    shuffled, always: tables are often sorted by something.

    >>> for train, test in Folds(3).split(np.zeros((9, 1)), ["a"] * 6 + ["b"] * 3):
    ...     print(test)
    [0 5 7]
    [1 4 6]
    [2 3 8]
    """

    def __init__(
        self, n_splits: int = 10, *, repeats: int = 1, stratify: bool | str = "auto", random_state: Any = 0
    ) -> None:
        self.n_splits = n_splits
        self.repeats = repeats
        self.stratify = stratify
        self.random_state = random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Pairs:
        """The folds of the first repeat, then those of the next."""
        _check_stratify(self.stratify)
        n, K = rows_in(X), whole(self.n_splits, "n_splits", 2)
        classes = strata(y, n, self.stratify)
        members = None if groups is None else _codes(groups, n, "groups")
        units = n if members is None else int(members.max(initial=-1)) + 1
        if units < K:
            what = "rows" if members is None else "groups"
            raise DataError(f"{K} folds need at least {K} {what}, but there are {units}", remedy="use fewer folds")
        for seed in seed_sequence(self.random_state).spawn(whole(self.repeats, "repeats")):
            rng = np.random.default_rng(seed)
            if members is None:
                fold = np.empty(n, dtype=np.intp)
                # From a random fold on, or the rarest class would always begin in the first.
                fold[shuffled(classes, rng)] = (np.arange(n) + rng.integers(K)) % K
            else:
                fold = _deal_groups(members, classes, np.full(K, 1 / K), rng)[members]
            for k in range(K):
                yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """K times the repeats."""
        return int(self.n_splits) * int(self.repeats)


def _deal_groups(members: Array, classes: Array, wanted: Array, rng: np.random.Generator) -> Array:
    """The part of each group: the largest first, each where it leaves the parts' class counts nearest to their shares.

    With h the share of a class that a part holds and s that of the group, sum_parts (h - wanted)^2 / wanted grows by
    (2 s.(h - wanted) + s.s) / wanted.
    """
    table = np.zeros((int(members.max()) + 1, int(classes.max()) + 1))
    np.add.at(table, (members, classes), 1.0)
    share = table / table.sum(axis=0)
    sizes = table.sum(axis=1)
    order = rng.permutation(sizes.size)
    order = order[np.argsort(-sizes[order], kind="stable")]
    held, count = np.zeros((wanted.size, table.shape[1])), np.zeros(wanted.size)
    part = np.empty(sizes.size, dtype=np.intp)
    for g in order:
        s = share[g]
        cost = (2 * ((held - wanted[:, None]) @ s) + s @ s) / wanted
        k = int(np.lexsort((count / wanted, cost.round(12)))[0])
        part[g], held[k], count[k] = k, held[k] + s, count[k] + sizes[g]
    return part


class LeaveOneOut(Splitter):
    """Every row is tested by a model trained on all others.

    >>> [test.tolist() for _, test in LeaveOneOut().split(np.zeros((3, 1)))]
    [[0], [1], [2]]
    """

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Pairs:
        """One pair per row."""
        n = rows_in(X)
        if n < 2:
            raise DataError(f"leave-one-out needs at least 2 rows, but there are {n}", remedy="pass more rows")
        rows = np.arange(n)
        for i in range(n):
            yield np.delete(rows, i), rows[i : i + 1]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of rows."""
        return rows_in(X)


class FiveByTwo(Folds):
    """Five times two halves, for Dietterich's and Alpaydin's tests.

    | parameter    | default | range               | meaning                                                         |
    |--------------|---------|---------------------|-----------------------------------------------------------------|
    | stratify     | "auto"  | True, False, "auto" | keep the shares of the classes; "auto": if y looks like classes |
    | random_state | 0       | seed                | how the rows are dealt                                          |

    >>> FiveByTwo().get_n_splits()
    10
    """

    def __init__(self, *, stratify: bool | str = "auto", random_state: Any = 0) -> None:
        super().__init__(2, repeats=5, stratify=stratify, random_state=random_state)

    def __repr__(self) -> str:
        return f"FiveByTwo(stratify={self.stratify!r}, random_state={self.random_state!r})"


class TimeFolds(Splitter):
    """Rows in the order of time: each test part follows all rows it is predicted from.

    | parameter | default | range      | meaning                                                              |
    |-----------|---------|------------|----------------------------------------------------------------------|
    | n_splits  | 5       | at least 1 | the number of test parts                                             |
    | gap       | 0       | at least 0 | rows left out between training and test                              |
    | test_size | None    | at least 1 | rows of each test part; None: n / (n_splits + 1)                     |
    | window    | None    | at least 1 | train on the latest rows only, as many as this; None: on all earlier |

    >>> [(train.tolist(), test.tolist()) for train, test in TimeFolds(2).split(np.zeros((6, 1)))]
    [([0, 1], [2, 3]), ([0, 1, 2, 3], [4, 5])]
    """

    def __init__(
        self, n_splits: int = 5, *, gap: int = 0, test_size: int | None = None, window: int | None = None
    ) -> None:
        self.n_splits = n_splits
        self.gap = gap
        self.test_size = test_size
        self.window = window

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Pairs:
        """The test parts from the earliest to the latest."""
        n, K, gap = rows_in(X), whole(self.n_splits, "n_splits"), whole(self.gap, "gap", 0)
        size = n // (K + 1) if self.test_size is None else whole(self.test_size, "test_size")
        first = n - K * size
        if size < 1 or first - gap < 1:
            what = f"{K} test parts of {max(size, 1)} rows and a gap of {gap} leave no training rows among {n}"
            raise DataError(what, remedy="use fewer splits, smaller test parts or a smaller gap")
        rows = np.arange(n)
        for start in range(first, n, size):
            end = start - gap
            begin = 0 if self.window is None else max(0, end - whole(self.window, "window"))
            yield rows[begin:end], rows[start : start + size]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many test parts there are."""
        return int(self.n_splits)


class Bootstrap(Splitter):
    """Training rows drawn with replacement, as many as there are; the rows never drawn (about .368) are the test.

    | parameter    | default | range       | meaning                                                          |
    |--------------|---------|-------------|------------------------------------------------------------------|
    | n_resamples  | 200     | at least 1  | how many times                                                   |
    | stratify     | False   | True, False, "auto" | draw within each class, so that none is lost             |
    | random_state | 0       | seed        | which rows                                                       |

    With groups, groups are drawn.

    >>> train, test = next(Bootstrap(1).split(np.zeros((1000, 1))))
    >>> len(train), abs(len(test) / 1000 - 0.368) < 0.05
    (1000, True)
    """

    def __init__(self, n_resamples: int = 200, *, stratify: bool | str = False, random_state: Any = 0) -> None:
        self.n_resamples = n_resamples
        self.stratify = stratify
        self.random_state = random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Pairs:
        """One pair per resample; training rows may come several times."""
        _check_stratify(self.stratify)
        n = rows_in(X)
        if n < 2:
            raise DataError(f"the bootstrap needs at least 2 rows, but there are {n}", remedy="pass more rows")
        members = None if groups is None else _codes(groups, n, "groups")
        units = _members_of(np.arange(n) if members is None else members)
        # Groups are drawn within the class of their first row.
        classes = strata(y, n, self.stratify)[[unit[0] for unit in units]]
        blocks = _members_of(classes)
        for seed in seed_sequence(self.random_state).spawn(whole(self.n_resamples, "n_resamples")):
            yield _draw(units, blocks, n, np.random.default_rng(seed))

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of resamples."""
        return int(self.n_resamples)


def _members_of(codes: Array) -> list[Array]:
    """The rows of each code, from the lowest code to the highest."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def _draw(units: Sequence[Array], blocks: list[Array], n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """One bootstrap sample, drawn again in the rare case that it leaves no row out."""
    plain = len(units) == n
    for _ in range(1_000):
        drawn = np.concatenate([block[rng.integers(0, block.size, block.size)] for block in blocks])
        train = drawn if plain else np.concatenate([units[u] for u in drawn])
        left = np.ones(n, dtype=bool)
        left[train] = False
        if left.any():
            return train, np.flatnonzero(left)
    raise DataError("no bootstrap sample leaves a row out", remedy="use more rows or groups, or stratify=False")
