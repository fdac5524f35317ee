"""What a validation keeps and what can be said from it: scores, losses, predictions, and the interval of the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from assay.checks import choice, fraction, freeze
from assay.errors import DataError, ParameterError
from assay.evaluation._nested import Nested
from assay.evaluation.figures import Figure, held_out, out_of_fold
from assay.evaluation.learner import Rows, choose_metric
from assay.metrics.definition import Metric
from assay.metrics.limits import average, smooth_limits, standard_error
from assay.numbers import figure, fmt, limits, with_limits
from assay.resampling import AllButOne, Scheme, scheme_of
from assay.results import Interval, Result
from assay.words import plural

__all__ = ["METHODS", "Validation", "same_experiment", "validation_of"]

Array = np.ndarray
METHODS = ("corrected_t", "naive", "nested")
ROUNDING = 1e-12
"""Pseudo-values closer than this share of their size are the same, summed in another order."""


@dataclass(frozen=True, eq=False, repr=False)
class Validation(Result):
    """How a learner did on rows it had not seen: its figure with an interval, and all it was made from.

    | field            | meaning                                                                                  |
    |------------------|------------------------------------------------------------------------------------------|
    | name, estimator  | the learner, an unfitted clone                                                           |
    | metric, metrics  | the primary metric and all that were asked for                                           |
    | scheme, splits   | how the rows were split, and the (train, test) rows                                      |
    | value            | the primary metric of all out-of-fold rows together; the mean of repeats                 |
    | pseudo_values    | what each fold says about it (`assay.evaluation.figures`): their mean is the value, their |
    |                  | spread its error; of a mean over rows and equal folds they are the means of the folds     |
    | fold_scores      | the primary metric on each fold alone, in its own sign; NaN where a fold has none (AUC of |
    |                  | one class), which then weighs nothing                                                    |
    | fold_losses      | its value for every tested row, per fold; None where the metric is no mean over rows     |
    | fold_predictions | out-of-fold predictions per fold, by what they are: labels, values, probabilities, scores |
    | seconds          | what each fold took; on the fast path, its share                                         |
    | fast             | whether summaries that add or a closed form did the work                                 |
    | groups           | which rows belong together; of one held-out set, they are what is counted                |
    """

    name: str
    estimator: Any
    metric: Metric
    metrics: tuple[Metric, ...]
    scheme: Scheme
    splits: Sequence[tuple[Array, Array]]
    y: Array
    classes: Array | None
    weights: Array | None
    value: float
    pseudo_values: Array
    fold_scores: Array
    fold_losses: tuple[Array, ...] | None
    fold_predictions: Mapping[str, tuple[Array, ...]]
    seconds: Array
    fast: bool
    level: float = 0.95
    method: str = "corrected_t"
    nested: Nested | None = field(default=None)
    groups: Array | None = None
    _known: dict[Metric, Figure] = field(default_factory=dict, init=False)

    @property
    def estimate(self) -> float:
        """The primary metric over folds; a nested run corrects it."""
        return float(self.interval().estimate)

    @property
    def std_error(self) -> float:
        """The standard error of the figure, over rows for one test set; NaN where there is no such thing."""
        if not self._by_rows(self.method, self.metric) and not _spread_out(self.pseudo_values):
            return float("nan")
        return self._moments(self.method, self.metric)[1]

    @property
    def n_undefined(self) -> int:
        """On how many folds the primary metric is not defined, so that they weigh nothing in it."""
        return int(np.isnan(self.fold_scores).sum())

    def interval(self, level: float | None = None, method: str | None = None, metric: Any = None) -> Interval:
        """The interval of a metric (the primary one), by the method of the run unless another is named."""
        level = fraction(self.level if level is None else level, "level")
        chosen = self._metric(metric)
        if method is None:
            # Only the primary metric was nested, and only means over rows can be.
            method = self.method if chosen is self.metric or self.method == "naive" else "corrected_t"
        method = choice(method, "method", METHODS)
        one_set = self.scheme.kind in ("holdout", "leave-one-out") and not self.in_groups
        pseudo = self._measured(chosen).pseudo_values
        if self.in_groups and pseudo.size == 1:
            why, (low, high) = "one group says nothing of others", chosen.range
            return Interval(float(pseudo[0]), low, high, level, why, 1, self._estimand("corrected_t", chosen))
        spread = _spread_out(pseudo) and np.ptp(pseudo) > ROUNDING * np.abs(pseudo).max()
        if (method == "corrected_t" and one_set) or (not spread and (method != "naive" or chosen.losses is None)):
            # One test set has the metric's own interval; so have folds without any spread, which proves nothing.
            return self._as_one_set(chosen, level)
        centre, error, df, n = self._moments(method, chosen)
        low, high = chosen.range
        centre = min(max(low, centre), high)  # the correction of a nested run may lead a hair beyond
        limits_on = partial(
            smooth_limits,
            centre,
            error,
            level=level,
            bounds=chosen.range,
            method="jackknife over groups" if self.in_groups else _TITLES[method],
            rows=n,
            estimand=self._estimand(method, chosen),
            df=df if np.isfinite(df) else None,
        )
        plain = limits_on(scale="plain")
        if method != "corrected_t":
            return plain
        found = limits_on(scale=_scale(chosen))
        # Stratified folds are made alike, so their spread may fall short of that of the rows; it never should. Folds of
        # models with nearly as many columns as rows overstate the error, and the log scale would move both limits up.
        rows = self._as_one_set(chosen, level)
        least = min(found.lower, rows.lower, plain.lower if _scale(chosen) == "log" else np.inf)
        return replace(found, lower=least, upper=max(found.upper, rows.upper))

    def _as_one_set(self, metric: Metric, level: float) -> Interval:
        """The metric's own interval on all tested rows, each with the first prediction it got, around the figure."""
        tested = out_of_fold(metric, self._rows(), self.splits, self.scheme, self._kept(metric.needs))
        rows, first = np.unique(np.concatenate(held_out(self.splits)), return_index=True)
        options = tested.options | {name: values[first] for name, values in tested.per_row.items()}
        if tested.weights is not None:
            options["sample_weight"] = tested.weights[first]
        value, (low, high) = self._measured(metric).value, metric.range
        estimand = self._estimand("corrected_t", metric)
        try:
            found = metric.interval(tested.y[first], tested.predicted[first], level=level, **options)
        except DataError as error:
            # Predictions that leave the metric without an interval say nothing about its error.
            return Interval(value, low, high, level, f"whole range ({error.what})", rows.size, estimand)
        off = value - float(found.estimate)  # of the first repeat from the mean of all
        lower, upper = max(low, min(value, found.lower + off)), min(high, max(value, found.upper + off))
        return replace(found, estimate=value, lower=lower, upper=upper, estimand=estimand)

    def _by_rows(self, method: str, metric: Metric) -> bool:
        """Whether the spread is taken over rows, not over folds."""
        alone = self.scheme.kind in ("holdout", "leave-one-out") and not self.in_groups
        return metric.losses is not None and (method == "naive" or alone)

    @property
    def in_groups(self) -> bool:
        """Whether there is one held-out set, whose groups are what is counted, not its rows."""
        return self.scheme.kind == "holdout" and self.groups is not None

    def _moments(self, method: str, metric: Metric) -> tuple[float, float, float, int]:
        """Centre, standard error, degrees of freedom and n of an interval."""
        if method == "nested":
            if self.nested is None or metric is not self.metric:
                remedy = f'run cross_validate(..., metric="{metric.name}", interval="nested")'
                raise ParameterError(f"nested cross-validation of {metric.name} was not run", remedy=remedy)
            return self.nested.centre, self._moments("naive", metric)[1] * self.nested.inflation, np.inf, self.scheme.n
        if self._by_rows(method, metric):
            losses, weights = self.row_losses(metric)
            if losses.size < 2:
                raise DataError("one tested row has no spread", remedy="test more rows")
            mean = average(losses, weights)
            df = np.inf if method == "naive" else losses.size - 1.0
            return mean, standard_error(losses - mean, weights), df, losses.size
        found = self._measured(metric)
        if not _spread_out(found.pseudo_values):
            message = f"one {metric.name} has no spread over folds"
            raise DataError(message, remedy="use several folds, or metric.interval on its predictions")
        J = found.pseudo_values.size
        factor = 1 / J + (0.0 if method == "naive" or self.in_groups else self.scheme.ratio)
        alone = standard_error(found.pseudo_values - found.pseudo_values.mean(), None)  # of independent folds
        n = J if self.in_groups else self.scheme.n
        return found.value, alone * float(np.sqrt(J * factor)), J - 1.0, n

    def _metric(self, metric: Any) -> Metric:
        return self.metric if metric is None else choose_metric(metric, self._rows())

    def _estimand(self, method: str, metric: Metric) -> str:
        if self.scheme.kind == "bootstrap":
            return f"{metric.name} of {self.name} trained on bootstrap samples of {self.scheme.n:,} rows"
        size = self.scheme.n if method == "nested" else round(self.scheme.n_train)
        return f"{metric.name} of {self.name} trained on {plural(size, 'row')}"

    def row_losses(self, metric: Any = None) -> tuple[Array, Array | None]:
        """The loss of each tested row, averaged where it was tested several times, and its weight."""
        chosen = self._metric(metric)
        if chosen.losses is None:
            remedy = "choose one that is, such as 'mse' or 'error'"
            raise ParameterError(f"{chosen.name} is not a mean over rows", remedy=remedy)
        found = self._measured(chosen).losses
        assert found is not None
        total, times = np.zeros(self.y.shape[0]), np.zeros(self.y.shape[0])
        tests = held_out(self.splits)
        np.add.at(total, np.concatenate(tests), np.concatenate(found))
        np.add.at(times, np.concatenate(tests), 1.0)
        seen = times > 0
        return total[seen] / times[seen], None if self.weights is None else self.weights[seen]

    def scores(self, metric: Any = None) -> Array:
        """Any metric on each fold alone, from the predictions that were kept; NaN where a fold has none (AUC)."""
        return self._measured(self._metric(metric)).fold_scores

    def by(self, metric: Any) -> Validation:
        """The same validation with another primary metric, to be compared or selected by it.

        >>> from sklearn.linear_model import LinearRegression
        >>> from assay.evaluation import cross_validate
        >>> x = np.arange(30.0)[:, None]
        >>> cross_validate(LinearRegression(), x, x.ravel(), metric=["mse", "r2"]).by("r2").estimate
        1.0
        """
        chosen = self._metric(metric)
        found = self._measured(chosen)
        return replace(
            self,
            metric=chosen,
            metrics=(chosen, *(one for one in self.metrics if one is not chosen)),
            value=found.value,
            pseudo_values=found.pseudo_values,
            fold_scores=found.fold_scores,
            fold_losses=found.losses,
            method="corrected_t" if self.method == "nested" else self.method,
            nested=None,
        )

    def _measured(self, metric: Metric) -> Figure:
        """Any metric over the folds, computed once."""
        if metric is self.metric:
            return Figure(self.value, self.fold_scores, self.pseudo_values, self.fold_losses)
        if metric not in self._known:
            kept = self._kept(metric.needs)
            self._known[metric] = out_of_fold(metric, self._rows(), self.splits, self.scheme, kept).figure()
        return self._known[metric]

    def _rows(self) -> Rows:
        return Rows(None, self.y, self.weights, self.classes, self.groups)

    def _kept(self, need: str) -> tuple[Array, ...]:
        if need not in self.fold_predictions:
            kept = ", ".join(self.fold_predictions)
            remedy = "name that metric in cross_validate(metric=[...])"
            raise ParameterError(f"{need} were not kept, only {kept}", remedy=remedy)
        return self.fold_predictions[need]

    def out_of_fold(self, need: str | None = None) -> Array:
        """The prediction of every row by a model that had not seen it, from the first repeat."""
        kept = self._kept(self.metric.needs if need is None else need)
        if self.scheme.kind not in ("k-fold", "repeated k-fold", "5x2", "leave-one-out"):
            message = f"a {self.scheme.kind} does not test every row once"
            raise ParameterError(message, remedy="use folds, or read fold_predictions")
        K = self.scheme.n_splits
        parts = np.concatenate(kept[:K])
        out = np.empty_like(parts)
        out[np.concatenate([test for _, test in self.splits[:K]])] = parts
        return out

    def to_frame(self) -> pd.DataFrame:
        """One row per fold: rows trained on and tested, the metrics, seconds."""
        if isinstance(self.splits, AllButOne):
            frame = pd.DataFrame({"n_train": np.full(self.scheme.n, self.scheme.n - 1), "n_test": 1})
        else:
            sizes = [(len(train), len(test)) for train, test in self.splits]
            frame = pd.DataFrame(sizes, columns=["n_train", "n_test"])
        for metric in self.metrics:
            frame[metric.name] = self.scores(metric)
        frame["seconds"] = self.seconds
        frame.index.name = "fold"
        return frame

    def __str__(self) -> str:
        scores = self.fold_scores[~np.isnan(self.fold_scores)]
        several = scores.size > 1 and self.scheme.kind != "leave-one-out"
        quick = "in closed form" if self.scheme.kind == "leave-one-out" else "from summaries that add"
        how = quick if self.fast else "a fit per fold"
        lines = [
            *(self._line(metric) for metric in self.metrics),
            *([f"{self.metric.name}: {self._spread(scores)}"] if several else []),
            f"estimates {self._estimand(self.method, self.metric)}",
            f"{fmt(self.seconds.sum(), 3)} s, {how}"
            + ("" if self.nested is None else f"; nested {fmt(self.nested.seconds, 3)} s"),
        ]
        title = f"{self.name}: {self.scheme}"
        rule = "-" * max(len(line) for line in [title, *lines])
        note = [_NAIVE] if self.method == "naive" else []
        return "\n".join([title, rule, *lines, rule, *note]).rstrip()

    def _spread(self, scores: Array) -> str:
        """From where to where the folds reach, and how many have no figure."""
        _, low, high = with_limits(np.nan, scores.min(), scores.max(), percent=self.metric.percent)
        left_out = f"; not defined on {self.n_undefined} of {self.fold_scores.size}" if self.n_undefined else ""
        return f"folds from {low} to {high}{left_out}"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>{super()._repr_html_()}"

    def _line(self, metric: Metric) -> str:
        found = self.interval(metric=metric)
        shown = limits(found.lower, found.upper, percent=metric.percent)
        return f"{metric.name} {self.figure(metric)}, {100 * found.level:g}% interval {shown} ({found.method})"

    def figure(self, metric: Any = None) -> str:
        """The estimate of a metric (the primary one) in print, to the precision of its interval."""
        found = self.interval(metric=metric)
        return figure(found.estimate, found.lower, found.upper, percent=self._metric(metric).percent)


_TITLES = {"naive": "naive", "corrected_t": "corrected t", "nested": "nested cross-validation"}
_NAIVE = "The naive interval takes the losses as independent, which they are not: it is too narrow."


def validation_of(
    name: str,
    estimator: Any,
    rows: Rows,
    splits: Sequence[tuple[Array, Array]],
    metrics: tuple[Metric, ...],
    kept: Mapping[str, tuple[Array, ...]],
    seconds: Array,
    *,
    fast: bool = False,
    level: float = 0.95,
    method: str = "corrected_t",
    nested: Nested | None = None,
) -> Validation:
    """A validation from out-of-fold predictions, whoever made them."""
    scheme, first = scheme_of(splits, rows.n), metrics[0]
    found = out_of_fold(first, rows, splits, scheme, kept[first.needs]).figure()
    return Validation(
        name=name,
        estimator=clone(estimator, safe=False),
        metric=first,
        metrics=metrics,
        scheme=scheme,
        splits=splits,
        y=rows.y,
        classes=rows.classes,
        weights=rows.weights,
        value=found.value,
        pseudo_values=found.pseudo_values,
        fold_scores=found.fold_scores,
        fold_losses=found.losses,
        fold_predictions=kept,
        seconds=freeze(seconds),
        fast=fast,
        level=level,
        method=method,
        nested=nested,
        groups=rows.groups,
    )


def _spread_out(pseudo: Array) -> bool:
    """Whether there are several folds, all of which say something."""
    return pseudo.size > 1 and not np.isnan(pseudo).any()


def _scale(metric: Metric) -> str:
    """The scale on which limits of a figure in that range are even."""
    low, high = metric.range
    if np.isinf(high):
        return "log" if low == 0 else "plain"
    return "log_gap" if np.isinf(low) else "logit"


# Which validations can be compared.


def same_experiment(name: str, one: Validation, other_name: str, other: Validation) -> None:
    """Refuse two results that were not made on the same rows and folds by the same metric."""
    who = f"{name} and {other_name}"
    if one.y.shape != other.y.shape or not np.array_equal(one.y, other.y):
        raise DataError(f"{who} were judged on different targets", remedy="cross-validate both with the same X and y")
    if not _same_splits(one.splits, other.splits):
        remedy = "cross-validate both with the same cv and random_state"
        raise DataError(f"{who} were judged on different splits", remedy=remedy)
    if one.metric.name != other.metric.name:
        message = f"{who} were judged by {one.metric.name} and {other.metric.name}"
        raise DataError(message, remedy="use one metric for both")
    options, others = one.metric.options, other.metric.options
    # Options may be arrays, such as a table of costs.
    if set(options) != set(others) or not all(np.array_equal(options[key], others[key]) for key in options):
        raise DataError(f"{who} were judged by {one.metric.name} with other options", remedy="use one metric for both")
    if not np.array_equal(_ones(one), _ones(other)):
        raise DataError(f"{who} were judged with different weights", remedy="use the same sample_weight for both")


def _ones(result: Validation) -> Array:
    return np.ones(result.y.shape[0]) if result.weights is None else result.weights


def _same_splits(one: Any, other: Any) -> bool:
    if one is other or (isinstance(one, AllButOne) and isinstance(other, AllButOne)):
        return len(one) == len(other)
    if len(one) != len(other):
        return False
    pairs = zip(one, other, strict=True)
    return all(np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) for a, b in pairs)
