"""The work of a search: each candidate on each fold, in any order, on any worker, one failure stopping no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from assay.errors import DataError
from assay.evaluation.learner import Rows, fit_rows, fold_predictions, out_of_bag, predictions, run, score
from assay.metrics.definition import Metric
from assay.metrics.scorer import class_options
from assay.resampling import take

__all__ = ["Trial", "Trials", "set_in", "try_all"]

Array = np.ndarray


def set_in(estimator: Any, params: Mapping[str, Any]) -> Any:
    """A clone of the learner with these parameters, estimators among them cloned too."""
    return clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in params.items()})


@dataclass(frozen=True, eq=False)
class Trial:
    """What became of one candidate on some folds: a score for each, or why there is none."""

    candidate: int
    folds: Sequence[int]
    scores: Sequence[float]
    seconds: float
    failed: str = ""
    of_type: bool = False
    losses: Sequence[Array] = ()
    model: Any = None


class Trials:
    """The work of a search: called with a candidate and the folds to try it on. It can be sent to other processes.

    With `bagged` the one fold holds all rows, on both sides: each candidate is fitted to them and judged by its own
    out-of-bag predictions.
    """

    def __init__(
        self,
        estimator: Any,
        settings: Sequence[Mapping[str, Any]],
        rows: Rows,
        splits: Any,
        metric: Metric,
        *,
        bagged: bool = False,
    ) -> None:
        self.estimator, self.settings, self.rows, self.splits, self.metric = estimator, settings, rows, splits, metric
        self.bagged = bagged
        # Where single rows take the place of folds, the choice is made on their losses.
        self.keep = metric.losses is not None and (len(splits) == 1 or len(splits[0][1]) == 1)
        # Tasks run fold by fold, so the rows of the last fold are those of the next candidate as a rule.
        self._held: tuple[int, Rows, Any, Array] | None = None
        self._learners: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_held": None, "_learners": {}}

    def __call__(self, item: tuple[int, Sequence[int]]) -> Trial:
        candidate, folds = item
        start, at = perf_counter(), folds[0]
        scores: list[float] = []
        kept: list[Any] = []
        model: Any = None
        try:
            learner = self._learner(candidate)
            if self.bagged:
                model = fit_rows(learner, self.rows)
                quick: Any = [out_of_bag(model, self.metric, self.rows.classes)]
            else:
                quick = fold_predictions(learner, self.rows, self.splits, self.metric.needs)
            for at in folds:
                y, predicted, weights = self._predict(learner, at) if quick is None else self._known(quick, at)
                scores.append(self._score(y, predicted, weights))
                if self.keep:
                    kept.append(self.metric.per_row(y, predicted, **class_options(self.metric, self.rows.classes)))
        except Exception as error:  # one bad setting must not stop the others; interrupts pass through
            reason = f"fold {at}: {type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}"
            kind = isinstance(error, TypeError) and not isinstance(error, ValueError)
            return Trial(candidate, (), (), perf_counter() - start, reason, kind)
        return Trial(candidate, folds, scores, perf_counter() - start, losses=kept, model=model)

    def _learner(self, candidate: int) -> Any:
        if candidate not in self._learners:
            self._learners[candidate] = set_in(self.estimator, self.settings[candidate])
        return self._learners[candidate]

    def _known(self, quick: Any, at: int) -> tuple[Array, Array, Array | None]:
        test, w = self.splits[at][1], self.rows.weights
        return self.rows.y[test], np.asarray(quick[at]), None if w is None else w[test]

    def _predict(self, learner: Any, at: int) -> tuple[Array, Array, Array | None]:
        held = self._held
        if held is None or held[0] != at:
            train, test = self.splits[at]
            rows, w, groups = self.rows, self.rows.weights, self.rows.groups
            inside = [None if one is None else one[train] for one in (w, groups)]
            part = Rows(take(rows.X, train), rows.y[train], inside[0], rows.classes, inside[1])
            held = self._held = (at, part, take(rows.X, test), test)
        _, part, X, test = held
        model = fit_rows(learner, part)
        w = self.rows.weights
        return self.rows.y[test], predictions(model, X, self.metric, self.rows.classes), None if w is None else w[test]

    def _score(self, y: Array, predicted: Array, weights: Array | None) -> float:
        value = score(self.metric, y, predicted, self.rows, weights)
        if not np.isfinite(value):
            raise DataError(f"its {self.metric.name} is {value}", remedy="use fewer folds, or another metric")
        return value


def try_all(trials: Trials, n_jobs: int | None) -> list[Trial]:
    """One trial per candidate, put together from its folds."""
    many, folds = range(len(trials.settings)), range(len(trials.splits))
    if hasattr(trials.estimator, "predict_folds"):
        items: list[tuple[int, Sequence[int]]] = [(candidate, folds) for candidate in many]
    else:
        items = [(candidate, (fold,)) for fold in folds for candidate in many]
    parts: list[list[Trial]] = [[] for _ in many]
    for trial in run(trials, items, label="search", n_jobs=n_jobs):
        parts[trial.candidate].append(trial)
    return [_joined(candidate, some) for candidate, some in enumerate(parts)]


def _joined(candidate: int, parts: Sequence[Trial]) -> Trial:
    seconds = sum(part.seconds for part in parts)
    bad = next((part for part in parts if part.failed), None)
    if bad is not None:
        return replace(bad, seconds=seconds)
    # The parts come in the order of their folds.
    scores = [value for part in parts for value in part.scores]
    losses = [rows for part in parts for rows in part.losses]
    return Trial(candidate, (), scores, seconds, losses=losses, model=parts[0].model)
