"""Out-of-fold predictions of training rows: all that the report explores, so that the test set is looked at once.

Every tested row has the first prediction it got, by a model that had not seen it. The test set gives the figures that
were planned, and nothing else: whoever searched it for slices or thresholds would have looked at it without limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from assay.errors import DataError
from assay.evaluation import Slices, Subgroups, Validation, slices, subgroups
from assay.evaluation.figures import held_out, out_of_fold
from assay.evaluation.learner import Rows
from assay.experiment.test_set.grouped import grouped_interval
from assay.metrics import get_metric
from assay.metrics.definition import Metric
from assay.metrics.scorer import class_options
from assay.results import Interval

if TYPE_CHECKING:
    from assay.experiment.study import Study

__all__ = ["SEARCHED", "HeldOut"]

Array = np.ndarray
SEARCHED = 5_000
"""How many rows are searched for slices at most."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The tested training rows of the selected learner, in the order of the table.

    | field       | meaning                                                                     |
    |-------------|-----------------------------------------------------------------------------|
    | rows        | positions among the training rows                                           |
    | y           | their targets                                                               |
    | frame       | their cells                                                                 |
    | predictions | "values", or "labels" and, where the learner has them, "probabilities"      |
    | first       | where the first prediction of each row stands among those of all folds      |
    """

    study: Study
    result: Validation
    rows: Array
    y: Array
    frame: pd.DataFrame
    predictions: dict[str, Array]
    first: Array

    @classmethod
    def of(cls, study: Study) -> HeldOut:
        """The held-out rows of a study's selected learner."""
        result, data = study.leaderboard.results[study.select().name], study.data
        rows, first = np.unique(np.concatenate(held_out(result.splits)), return_index=True)
        predictions = {need: np.concatenate(parts)[first] for need, parts in result.fold_predictions.items()}
        if result.classes is not None and "labels" not in predictions and "probabilities" in predictions:
            shares = predictions["probabilities"]
            at = (shares >= 0.5).astype(int) if shares.ndim == 1 else shares.argmax(axis=1)
            predictions["labels"] = result.classes[at]
        return cls(
            study, result, rows, result.y[rows], data.frame.iloc[rows].reset_index(drop=True), predictions, first
        )

    @property
    def row_numbers(self) -> Array | None:
        """The number of each row in the table as it was given, from 1; None in studies that did not record it."""
        numbers = self.study.data.row_numbers
        return None if numbers is None else numbers[self.rows]

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.rows.size)

    @property
    def classes(self) -> Array | None:
        """The classes; None in regression."""
        return self.result.classes

    @cached_property
    def groups(self) -> Array | None:
        """What keeps rows together; None where they stand for themselves."""
        group = self.study.plan.group
        return None if group is None else self.frame[group].to_numpy()

    @property
    def values(self) -> Array:
        """Predicted numbers."""
        return np.asarray(self.predictions["values"], dtype=float)

    @cached_property
    def labels(self) -> Array | None:
        """Predicted classes."""
        return self.predictions.get("labels")

    @cached_property
    def loss(self) -> tuple[str, Array]:
        """What one row loses, in the simplest terms that fit the main metric, and what that is called."""
        plan = self.study.plan
        if self.classes is None:
            return "absolute error", np.abs(self.y - self.values)
        if plan.metric == "risk" and self.labels is not None:
            return "cost", np.asarray(plan.measure("risk").per_row(self.y, self.labels), dtype=float)
        ranked = plan.metric not in ("error", "accuracy", "balanced_accuracy")
        if (ranked or self.labels is None) and "probabilities" in self.predictions:
            brier, shares = get_metric("brier"), self.predictions["probabilities"]
            losses = brier.per_row(self.y, shares, **class_options(brier, self.classes))
            return "Brier score", np.asarray(losses, dtype=float)
        if self.labels is None:
            raise DataError("the learner gave no labels", remedy="use a metric that needs them")
        return "error rate", (self.y != self.labels).astype(float)

    def interval(self, metric: Metric, rows: Array) -> Interval:
        """The interval of a metric on some of the rows, at the level of the plan; the whole range where it has none."""
        kept, level = self.result.fold_predictions.get(metric.needs), self.study.plan.level
        options, groups = class_options(metric, self.classes), None if self.groups is None else self.groups[rows]
        if (
            kept is not None and metric.over_folds != "pooled"
        ):  # it must know the fold of each row, or its training rows
            source = Rows(None, self.result.y, self.result.weights, self.classes)
            tested = out_of_fold(metric, source, self.result.splits, self.result.scheme, kept)
            options |= {name: values[self.first][rows] for name, values in tested.per_row.items()}
            groups = None
        return _safe(metric, self.y[rows], self.predictions[metric.needs][rows], level, groups, options)

    def share(self, counted: Array, among: Array) -> Interval:
        """The share of the rows in `among` that are in `counted`, both masks; with groups these are the units."""
        groups, right = None if self.groups is None else self.groups[among], counted[among]
        every = np.ones(right.size, dtype=bool)
        return _safe(get_metric("accuracy"), every, right, self.study.plan.level, groups, {})

    @cached_property
    def slices(self) -> Slices:
        """The worst slices of the columns, corrected for the search."""
        plan, (name, losses) = self.study.plan, self.loss
        columns = [one for one in plan.kinds if plan.kinds[one] in ("number", "category", "date")]
        columns = [one for one in columns if one not in (plan.target, plan.group, *plan.drop)]
        some = np.arange(self.n)
        if self.n > SEARCHED:
            some = np.sort(np.random.default_rng(plan.seed).choice(self.n, SEARCHED, replace=False))
        groups = None if self.groups is None else self.groups[some]
        frame = self.frame[columns].iloc[some]
        least = max(20, round(0.02 * some.size))
        return slices(
            losses[some], frame, groups=groups, loss=name, least=least, level=plan.level, random_state=plan.seed
        )

    def subgroups(self, column: str) -> Subgroups:
        """The main figure in the subgroups of a column."""
        plan, (name, losses) = self.study.plan, self.loss
        metric = plan.measure(plan.metric)
        return subgroups(
            self.frame[column],
            lambda rows: self.interval(metric, rows),
            losses,
            groups=self.groups,
            loss=name,
            level=plan.level,
            random_state=plan.seed,
        )


def _safe(
    metric: Metric, y: Array, predicted: Array, level: float, groups: Array | None, options: dict[str, Any]
) -> Interval:
    try:
        if groups is None:
            return metric.interval(y, predicted, level=level, **options)
        return grouped_interval(metric, y, predicted, groups, level=level, **options)
    except DataError as error:
        return Interval(float("nan"), *metric.range, level, f"whole range ({error.what})", y.size, metric.name)
