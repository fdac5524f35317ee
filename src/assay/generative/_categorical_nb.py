"""Naive Bayes for categories: each column has a table of probabilities in each class.

    P(x_j = c | y = k) = (N_kjc + alpha) / (N_k + alpha n_j),      n_j categories in column j

Cost: one addition per cell to count, K to score.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from assay.base import Constraint, array_like, boolean, integer, none, real
from assay.errors import AssayWarning, DataError, ParameterError
from assay.generative._count_nb import DiscreteNB, negative
from assay.generative._naive import log0, open_array
from assay.numerics.jit import kernel
from assay.numerics.threads import parallel
from assay.state import Specs, floats, ints, need, several

__all__ = ["CategoricalNB", "padded_sum"]

Array = np.ndarray

MOST_CATEGORIES = 1 << 26
"""More cells than this in the tables of all classes are no table of categories."""

PART_ROWS = 1 << 14

NUMBER = "code the categories as 0, 1, 2, ..., for instance with sklearn.preprocessing.OrdinalEncoder"


@dataclass(frozen=True, eq=False)
class Categories:
    """Weight of each class (K,), and for each column the weight of each of its categories in each class (K, n_j)."""

    weight: Array
    tables: list[Array]

    def merged(self, other: Categories) -> Categories:
        """The counts of both sets of rows; a column has the categories of either."""
        tables = [padded_sum(a, b) for a, b in zip(self.tables, other.tables, strict=True)]
        return Categories(self.weight + other.weight, tables)


def padded_sum(a: Array, b: Array) -> Array:
    """a + b, where the one with fewer columns has zeros in the others."""
    wide, narrow = (a, b) if a.shape[1] >= b.shape[1] else (b, a)
    out = wide.copy()
    out[:, : narrow.shape[1]] += narrow
    return out


@kernel
def _to_codes(values: Array, codes: Array) -> tuple[int, int]:
    """Numbers cut to whole ones; the first place, row by row, of one out of range and of one that was not whole."""
    n, p = values.shape
    bad, odd = -1, -1
    for i in range(n):
        for j in range(p):
            value = values[i, j]
            if not (value >= 0.0 and value < 2147483648.0):
                return i * p + j, odd
            codes[i, j] = np.int32(value)
            if odd < 0 and codes[i, j] != value:
                odd = i * p + j
    return bad, odd


@kernel
def _tally(
    X: Array, group: Array, w: Array, offset: Array, start: int, stop: int, out: Array, highest: Array, K: int
) -> None:
    """Weights of the categories of each group, and the highest category of each fold, of K groups each."""
    p = X.shape[1]
    for i in range(start, stop):
        f = w[i] if w.size else 1.0
        if f > 0.0:
            g = group[i]
            for j in range(p):
                out[g, offset[j] + X[i, j]] += f
                highest[g // K, j] = max(highest[g // K, j], X[i, j])


@kernel
def _look_up(
    X: Array, rows: Array, offset: Array, table: Array, constant: Array, start: int, stop: int, out: Array
) -> None:
    """Sums of the logarithms of the categories' chances; a category beyond a column's table says nothing."""
    K, p = constant.size, X.shape[1]
    for at in range(start, stop):
        i = rows[at] if rows.size else at
        for k in range(K):
            out[at, k] = constant[k]
        for j in range(p):
            cell = offset[j] + X[i, j]
            if cell < offset[j + 1]:
                for k in range(K):
                    out[at, k] += table[cell, k]


class CategoricalNB(DiscreteNB):
    """Naive Bayes for columns of categories 0, 1, 2, ..., each with a table of chances in each class.

        P(x_j = c | y = k) = (N_kjc + alpha) / (N_k + alpha n_j)

    | parameter      | default | range                     | meaning                                                 |
    |----------------|---------|---------------------------|---------------------------------------------------------|
    | alpha          | 1.0     | >= 0                      | smoothing: 1 is Laplace's, 0 none                       |
    | fit_prior      | True    | True, False               | priors from the classes' shares, or all alike           |
    | class_prior    | None    | K numbers >= 0 with sum 1 | prior of each class (sorted); overrules `fit_prior`     |
    | min_categories | None    | >= 1, or one per column   | least number of categories n_j; None: as many as seen   |

    Fitted: `classes_`, `class_count_`, `category_count_` and `feature_log_prob_` (for each column an array (K, n_j)),
    `n_categories_`, `class_log_prior_`. Weights are repetitions.

    *A category beyond those of training says nothing*: its factor is left out, as if the value were missing, where
    scikit-learn stops with an IndexError. (One inside the range that no training row had, as `min_categories` allows,
    has the chance alpha / (N_k + alpha n_j), as there.) With `alpha=0` a category may rule a class out; a row that
    every class rules out gets the prior. Numbers that are not whole are cut off, as there, with a warning. Text and
    pandas categories go into `MixedNB` as they are.

    Reference: Hastie, Tibshirani and Friedman, Elements of Statistical Learning, section 6.6.3.

    >>> X, y = [[0, 1], [0, 2], [1, 2], [1, 0]], ["no", "no", "yes", "yes"]
    >>> model = CategoricalNB().fit(X, y)
    >>> [np.exp(table).round(2).tolist() for table in model.feature_log_prob_]
    [[[0.75, 0.25], [0.25, 0.75]], [[0.2, 0.4, 0.4], [0.4, 0.2, 0.4]]]
    >>> model.predict([[0, 1], [1, 9]]).tolist()
    ['no', 'yes']
    """

    state: ClassVar[Specs] = {
        "n_categories_": ints("p", low=1),
        "category_count_": several(floats("k", None, low=0), "p"),
        "feature_log_prob_": several(floats("k", None, high=0, finite=False), "p"),
    }

    def _check_state(self) -> None:
        super()._check_state()
        for tables in (self.category_count_, self.feature_log_prob_):
            need([table.shape[1] for table in tables] == self.n_categories_.tolist())
        need(not any(np.isnan(table).any() for table in self.feature_log_prob_))

    constraints: ClassVar[dict[str, Constraint]] = {
        "alpha": real(0),
        "fit_prior": boolean,
        "class_prior": none | array_like,
        "min_categories": none | integer(1, 2**31 - 1) | array_like,
    }

    def __init__(
        self, *, alpha: float = 1.0, fit_prior: bool = True, class_prior: Any = None, min_categories: Any = None
    ) -> None:
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.min_categories = min_categories

    def _table(self, X: Any, *, reset: bool) -> Array:
        values = open_array(self._validate(X, reset=reset))
        codes = np.empty(values.shape, dtype=np.int32)
        bad, odd = _to_codes(values, codes)
        if bad >= 0:
            row, j = divmod(bad, values.shape[1])
            if values[row, j] < 0:
                raise negative(self, values[row, j], j, row)
            raise DataError(f"{self._column(j)} contains {values[row, j]:g} in row {row}", remedy=NUMBER)
        if odd >= 0:
            row, j = divmod(odd, values.shape[1])
            what = f"{self._column(j)} contains {values[row, j]:g} in row {row}, read as category {codes[row, j]}"
            warnings.warn(f"{what}; {NUMBER}", AssayWarning, stacklevel=3)
        return codes

    def _cells(self, X: Any) -> int:
        return int((X.max(axis=0) + 1).sum())

    def _summaries(self, X: Any, codes: Array, w: Array | None, K: int, fold: Array | None, F: int) -> list[Categories]:
        group = codes if fold is None else fold * K + codes
        n, p = X.shape
        # A row without weight is not there, and neither is its category.
        there = X if w is None or (w > 0).all() else np.where((w > 0)[:, None], X, 0)
        sizes = there.max(axis=0) + 1
        if int(sizes.sum()) * F * K > MOST_CATEGORIES:
            j = int(np.argmax(sizes))
            raise DataError(f"{self._column(j)} has categories up to {sizes[j] - 1}", remedy=NUMBER)
        offset = np.concatenate([[0], np.cumsum(sizes)])
        weights = np.empty(0) if w is None else w

        def part(start: int) -> tuple[Array, Array]:
            out, highest = np.zeros((F * K, int(offset[-1]))), np.full((F, p), -1, dtype=np.int64)
            _tally(there, group, weights, offset, start, min(start + rows, n), out, highest, K)
            return out, highest

        rows = max(PART_ROWS, -(-n // 8))
        found = parallel(part, range(0, n, rows), n_jobs=-1, work=2.0 * n * p)
        total, highest = reduce(lambda a, b: (a[0] + b[0], np.maximum(a[1], b[1])), found)
        weight = np.bincount(group, weights=w, minlength=F * K).astype(np.float64)
        return [
            Categories(
                weight[f * K : (f + 1) * K],
                [total[f * K : (f + 1) * K, offset[j] : offset[j] + highest[f, j] + 1] for j in range(p)],
            )
            for f in range(F)
        ]

    def _summary(self) -> Categories:
        return Categories(self.class_count_, self.category_count_)

    def _solve(self, summary: Categories) -> None:
        least = self._least(len(summary.tables))
        self._set_prior(summary.weight)
        tables = [
            np.pad(table, ((0, 0), (0, max(0, size - table.shape[1]))))
            for table, size in zip(summary.tables, least.tolist(), strict=True)
        ]
        self.category_count_ = tables
        self.n_categories_ = np.array([table.shape[1] for table in tables], dtype=np.int64)
        self.feature_log_prob_ = [_log_chances(table, float(self.alpha)) for table in tables]

    def _least(self, p: int) -> Array:
        """The least number of categories of each column."""
        if self.min_categories is None:
            return np.ones(p, dtype=np.int64)
        least = np.asarray(self.min_categories)
        remedy = f"pass one whole number of at least 1, or one for each of the {p} columns"
        if least.dtype.kind not in "iu" or (least < 1).any() or least.shape not in ((), (p,)):
            raise ParameterError(f"min_categories = {self.min_categories!r} is not valid", remedy=remedy)
        if int(least.max()) * p > MOST_CATEGORIES:
            raise ParameterError(
                f"min_categories = {self.min_categories!r} needs more memory than is available", remedy=remedy
            )
        return np.broadcast_to(least.astype(np.int64), (p,))

    def _scores(self, X: Any, rows: Array) -> Array:
        n = rows.size or X.shape[0]
        offset = np.concatenate([[0], np.cumsum(self.n_categories_)])
        table = np.ascontiguousarray(np.concatenate(self.feature_log_prob_, axis=1).T)
        out = np.empty((n, len(self.classes_)))

        def part(start: int) -> None:
            _look_up(X, rows, offset, table, self.class_log_prior_, start, min(start + PART_ROWS, n), out)

        parallel(part, range(0, n, PART_ROWS), n_jobs=-1, work=float(out.size) * X.shape[1])
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags


def _log_chances(table: Array, alpha: float) -> Array:
    """Logarithms of the smoothed shares in each row of a table; alike where a class has no rows and alpha is zero."""
    smoothed = table + alpha
    whole = smoothed.sum(axis=1, keepdims=True)
    share = np.divide(smoothed, whole, out=np.full(table.shape, 1.0 / max(1, table.shape[1])), where=whole > 0)
    return log0(share)
