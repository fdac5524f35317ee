"""One figure from the out-of-fold rows of all folds, and what each fold says about it.

    theta        the metric of all out-of-fold rows of a repeat together; over repeats, the mean
    theta_(-k)   the same without the rows of fold k
    p_k          theta + (K - 1) (mean_j theta_(-j) - theta_(-k)), the pseudo-value of fold k; their mean is theta

Selection, comparison, leaderboard and intervals all take this figure and these pseudo-values. A mean of fold figures
is another figure wherever the metric is no mean over rows: R2 of six rows is far below R2, F1 of a fold without a
positive is 0. Where the metric is a mean over rows and folds are equal, p_k is the mean of fold k; so the variance of
a mean of folds that share training rows, s^2 (1/J + n_test/n_train), carries over to the spread of pseudo-values.

A metric hears of folds only where it must (`Metric.over_folds`): R2 compares with the mean of the training rows that
a row was predicted from, so that the guess without features has exactly 0; AUC and its like compare rows of the same
fold alone, and a fold with nothing to compare weighs nothing. Splits that deal the rows out again and again are
repeats; all others (random holdouts, bootstrap, time) are one set of folds. A single holdout whose rows come in groups
has the pseudo-values of its groups in place of folds: theta_(-g) is the figure without group g.
Cost: K + 1 evaluations of the metric per repeat; one for a mean over rows.
Tukey (1958), Ann. Math. Statist. 29, 614; Nadeau & Bengio (2003), Machine Learning 52, 239-281.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.checks import freeze
from assay.errors import AssayError, DataError
from assay.evaluation.learner import Rows, any_prediction
from assay.metrics.definition import Metric
from assay.metrics.limits import average
from assay.metrics.scorer import class_options
from assay.resampling import AllButOne, Scheme

__all__ = ["Figure", "OutOfFold", "held_out", "out_of_fold", "rows_that_differ", "undefined_over"]

Array = np.ndarray
REPEATED = ("k-fold", "repeated k-fold", "5x2", "leave-one-out")
"""Schemes that deal all rows out, once or several times."""


@dataclass(frozen=True, eq=False)
class Figure:
    """A metric over folds: its value, the value of each fold alone (NaN where there is none) and the pseudo-values.

    Pseudo-values are NaN where the figure cannot do without one of the folds, and for single rows.
    """

    value: float
    fold_scores: Array
    pseudo_values: Array
    losses: tuple[Array, ...] | None


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """The tested rows of all splits in one column, fold after fold, with what the metric must know of each.

    `at`: the row of the table that each is; `groups`: of one held-out set, the group of each.
    """

    metric: Metric
    y: Array
    predicted: Array
    weights: Array | None
    at: Array
    fold: Array
    sizes: Array
    scheme: Scheme
    options: dict[str, Any]
    per_row: dict[str, Array]
    groups: Array | None = None

    def value(self, chosen: Any = slice(None)) -> float:
        """The metric of some of the rows."""
        options = self.options | {name: values[chosen] for name, values in self.per_row.items()}
        if self.weights is not None:
            if not self.weights[chosen].any():
                raise DataError("no tested row has a positive weight", remedy="use fewer folds or other weights")
            options["sample_weight"] = self.weights[chosen]
        return float(self.metric(self.y[chosen], self.predicted[chosen], **options))

    def figure(self) -> Figure:
        """The figure with its folds; an error where no repeat has one."""
        try:
            found = self._of_means() if self.metric.losses is not None else self._of_rows()
        except DataError:
            self._count_rows_as_the_table()
            raise
        pseudo = found.pseudo_values if self.groups is None else self._of_groups(found.value)
        return Figure(found.value, freeze(found.fold_scores), freeze(pseudo), found.losses)

    def _of_groups(self, value: float) -> Array:
        """The pseudo-value of each group; NaN where the figure cannot do without one of them."""
        assert self.groups is not None
        names, group = np.unique(self.groups, return_inverse=True)
        if names.size == 1:
            return np.full(1, value)
        without = np.array([self._or_nan(np.flatnonzero(group != g)) for g in range(names.size)])
        return np.asarray(value + _centred(np.arange(names.size), names.size, value - without))

    def _count_rows_as_the_table(self) -> None:
        """The metric in the order of the table, where every row is tested: an error then names the row of the table."""
        for folds in self._repeats():
            rows = self._rows_of(folds)
            order = np.argsort(self.at[rows])
            if np.array_equal(self.at[rows][order], np.arange(order.size)):
                self.value(rows.start + order)

    def _repeats(self) -> list[range]:
        """The folds of each repeat."""
        J, K = self.sizes.size, self.scheme.n_splits
        step = K if self.scheme.kind in REPEATED else J
        return [range(start, start + step) for start in range(0, J, step)]

    def _rows_of(self, folds: range) -> slice:
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        return slice(int(ends[folds.start]), int(ends[folds.stop]))

    def _of_means(self) -> Figure:
        """A mean over rows, from the sums of the folds."""
        losses = self.metric.per_row(self.y, self.predicted, **self.options)
        assert losses is not None
        weights = np.ones(losses.size) if self.weights is None else self.weights / self.weights.max()
        mass = np.bincount(self.fold, weights=weights, minlength=self.sizes.size)
        parts = np.split(freeze(losses), np.cumsum(self.sizes)[:-1])
        held = [None] * len(parts) if self.weights is None else np.split(weights, np.cumsum(self.sizes)[:-1])
        means = np.array(
            [average(part, w) if size > 0 else np.nan for part, w, size in zip(parts, held, mass, strict=True)]
        )
        values, pseudo = [], np.full(mass.size, np.nan)
        for folds in self._repeats():
            at = np.arange(folds.start, folds.stop)[mass[folds.start : folds.stop] > 0]
            if at.size == 0:
                continue
            total, K = mass[at].sum(), len(folds)
            rows = self._rows_of(folds)
            value = average(losses[rows], None if self.weights is None else weights[rows])
            values.append(value)
            if at.size > 1 or K == 1:
                # theta - theta_(-k) = mass_k (mean_k - theta) / (total - mass_k)
                rest = np.where(at.size > 1, total - mass[at], 1.0)
                pseudo[folds.start : folds.stop] = _centred(at - folds.start, K, mass[at] * (means[at] - value) / rest)
                pseudo[folds.start : folds.stop] += value
        if not values:
            raise DataError("no tested row has a positive weight", remedy="use other weights")
        return Figure(float(np.mean(values)), means, pseudo, tuple(parts))

    def _of_rows(self) -> Figure:
        """Any other figure, computed again without each fold."""
        J, alone = self.sizes.size, self.scheme.kind == "leave-one-out"
        scores, pseudo = np.full(J, np.nan), np.full(J, np.nan)
        values: list[float] = []
        why: DataError | None = None
        for folds in self._repeats():
            rows = self._rows_of(folds)
            try:
                value = self.value(rows)
            except DataError as error:
                why = why or error
                continue
            values.append(value)
            if not alone:
                scores[folds.start : folds.stop] = [self._or_nan(self._rows_of(range(k, k + 1))) for k in folds]
                pseudo[folds.start : folds.stop] = value + self._without_each(folds, rows, value)
        if not values:
            assert why is not None
            raise why
        return Figure(float(np.mean(values)), scores, pseudo, None)

    def _without_each(self, folds: range, rows: slice, value: float) -> Array:
        """Pseudo-values less the figure; NaN where the figure cannot do without one of the folds."""
        if len(folds) == 1:
            return np.zeros(1)
        inside = self.fold[rows]
        without = np.array([self._or_nan(rows.start + np.flatnonzero(inside != k)) for k in folds])
        return _centred(np.arange(len(folds)), len(folds), value - without)

    def _or_nan(self, chosen: Any) -> float:
        try:
            return self.value(chosen)
        except AssayError:
            return float("nan")


def _centred(at: Array, K: int, drop: Array) -> Array:
    """(K - 1) times what the figure loses without each fold, less its mean; zero for folds that weigh nothing."""
    out = np.zeros(K)
    out[at] = (K - 1) * drop
    return out - out.mean()


def held_out(splits: Any) -> list[Array]:
    """The test rows of each fold, also of the many of leave-one-out without their training rows."""
    return list(np.arange(splits.n)[:, None]) if isinstance(splits, AllButOne) else [test for _, test in splits]


def out_of_fold(
    metric: Metric, rows: Rows, splits: Sequence[tuple[Array, Array]], scheme: Scheme, predicted: Sequence[Array]
) -> OutOfFold:
    """The tested rows of all splits, as the metric needs them."""
    tests = held_out(splits)
    at = np.concatenate(tests)
    sizes = np.array([len(test) for test in tests])
    fold = np.repeat(np.arange(sizes.size), sizes)
    per_row: dict[str, Array] = {}
    if metric.over_folds == "reference":
        per_row["reference"] = _training_means(rows, splits)[fold]
    elif metric.over_folds == "folds":
        per_row["folds"] = fold
    return OutOfFold(
        metric,
        rows.y[at],
        np.concatenate(list(predicted)),
        None if rows.weights is None else rows.weights[at],
        at,
        fold,
        sizes,
        scheme,
        class_options(metric, rows.classes),
        per_row,
        rows.groups[at] if scheme.kind == "holdout" and rows.groups is not None else None,
    )


def _training_means(rows: Rows, splits: Any) -> Array:
    """The (weighted) mean of the training target of each split: what is predicted without features."""
    y = rows.y.astype(float)
    w = np.ones(y.size) if rows.weights is None else rows.weights / rows.weights.max()
    if isinstance(splits, AllButOne):
        rest = w.sum() - w
        centre = average(y, w)  # sums of what is left, free of cancellation for a large mean
        return centre + ((w * (y - centre)).sum() - w * (y - centre)) / np.where(rest > 0, rest, np.nan)
    return np.array([average(y[train], w[train]) if w[train].any() else np.nan for train, _ in splits])


def undefined_over(metric: Metric, rows: Rows, splits: Any, scheme: Scheme) -> DataError | None:
    """Why a metric has no value on these folds, whatever is predicted (AUC without pairs); None where it has one."""
    if metric.losses is not None:
        return None
    said = any_prediction(metric, rows.y, rows)
    try:
        out_of_fold(metric, rows, splits, scheme, [said[test] for test in held_out(splits)]).figure()
    except DataError as error:
        return error
    return None


def rows_that_differ(metric: Metric, y: Array, first: Array, second: Array, weights: Array | None = None) -> int:
    """How many rows two models answer differently; of classes, in the one that has the fewest such rows.

    A difference of figures that is the same on every resample is known no better than by the signs of so many rows.

    >>> from assay.metrics import f1
    >>> rows_that_differ(f1, np.array([0, 0, 0, 1, 1]), np.array([0, 1, 1, 1, 1]), np.zeros(5))
    2
    """
    differ = np.asarray(first != second).reshape(y.shape[0], -1).any(axis=1)
    if weights is not None:
        differ &= weights > 0
    if metric.needs == "values" or not differ.any():
        return int(differ.sum())
    return int(np.unique(y[differ], return_counts=True)[1].min())
