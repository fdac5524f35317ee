"""Which learners of a panel are stopped after the first folds, from their row losses (`assay.evaluation.stopping`).

Used where the first folds are like the others and the metric is a mean over rows, or a function of one (rmse, r2):
k-fold cross-validation of at least `FEWEST` folds, once or repeated. Folds in the order of time train on more and more
rows, a holdout has one set, leave-one-out a row at a time: there every learner runs to the end. The baseline and the
readable learner that leads its kind are never stopped: each result is shown beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from assay.evaluation.stopping import FIRST, Behind, settle
from assay.experiment.panel import BASELINE
from assay.experiment.plan import Plan
from assay.experiment.state import TrainingData
from assay.metrics.definition import Metric
from assay.metrics.scorer import class_options
from assay.metrics.tails import mean_behind
from assay.numbers import fmt
from assay.resampling import scheme_of

__all__ = ["FEWEST", "EarlyLosses"]

Array = np.ndarray
FEWEST = 5
"""Folds from which on stopping after the first ones saves anything."""


@dataclass(frozen=True, eq=False)
class EarlyLosses:
    """The row losses of a panel, computed from the outcomes of its folds."""

    data: TrainingData
    metric: Metric
    total: int

    @classmethod
    def of(cls, plan: Plan, data: TrainingData) -> Self | None:
        """None where every learner runs to the end."""
        metric = mean_behind(data.metrics[0])
        if metric is None or plan.time is not None or data.rows.weights is not None:
            return None
        scheme = scheme_of(data.splits, data.rows.n)
        if scheme.kind not in ("k-fold", "repeated k-fold") or scheme.n_splits < FEWEST:
            return None
        return cls(data, metric, len(data.splits))

    def settle(self, outcomes: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[dict[str, Behind], list[str]]:
        """The learners that are stopped, and those that must run on, from the outcomes of the folds that are done."""
        losses = {name: [self._losses(k, one) for k, one in enumerate(found)] for name, found in outcomes.items()}
        groups = self.data.rows.groups
        together = None if groups is None else [groups[self.data.splits[k][1]] for k in range(FIRST)]
        return settle(losses, self.total, together, self._spared(losses))

    def _losses(self, k: int, outcome: Mapping[str, Any]) -> Array:
        """The loss of each row of a fold, smaller being better."""
        rows, metric = self.data.rows, self.metric
        predicted = np.asarray(outcome["predictions"][metric.needs])
        if metric.needs == "labels" and rows.classes is not None:
            predicted = rows.classes[predicted]
        found = metric.per_row(rows.y[self.data.splits[k][1]], predicted, **class_options(metric, rows.classes))
        assert found is not None
        return -found if metric.greater_is_better else found

    def _spared(self, losses: Mapping[str, Sequence[Array]]) -> list[str]:
        means = {name: float(np.concatenate(list(parts[:FIRST])).mean()) for name, parts in losses.items()}
        readable = [one.name for one in self.data.learners if one.readable and one.name != BASELINE]
        first = sorted((means[name], name) for name in readable if name in means)
        return [BASELINE, *(name for _, name in first[:1])]

    def reason(self, found: Behind) -> str:
        """How far a stopped learner was behind."""
        name, own, least = self.metric.name, found.loss, found.least
        if self.data.metrics[0].name == "rmse":
            name, own, least = "rmse", float(np.sqrt(own)), float(np.sqrt(least))
        sign = -1.0 if self.metric.greater_is_better else 1.0
        scale, unit = (100.0, "%") if self.metric.percent else (1.0, "")
        shown = [f"{fmt(sign * scale * one, 3)}{unit}" for one in (own, least)]
        return f"{name} {shown[0]} on the first {FIRST} folds, {found.leader} {shown[1]}"
