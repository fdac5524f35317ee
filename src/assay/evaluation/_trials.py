"""The work of a search: each candidate on each fold, in any order, on any worker, one failure stopping no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from assay.errors import AssayError, DataError
from assay.evaluation.figures import Figure, out_of_fold
from assay.evaluation.learner import Rows, fit_rows, fold_predictions, held_out, out_of_bag, predictions, run
from assay.metrics.definition import Metric
from assay.resampling import Scheme, take

__all__ = ["Trial", "Trials", "set_in", "try_all"]

Array = np.ndarray


def set_in(estimator: Any, params: Mapping[str, Any]) -> Any:
    """A clone of the learner with these parameters, estimators among them cloned too."""
    return clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in params.items()})


@dataclass(frozen=True, eq=False)
class Trial:
    """What became of one candidate on some folds: predictions of the tested rows, or why there are none."""

    candidate: int
    folds: Sequence[int]
    predicted: Sequence[Array]
    seconds: float
    failed: str = ""
    remedy: str = "check the data or the search space"
    of_type: bool = False
    figure: Figure | None = None
    model: Any = None
    tested: Array | None = None


class Trials:
    """The work of a search: called with a candidate and the folds to try it on. It can be sent to other processes.

    With `judge` the one fold trains on all rows: each candidate is fitted to them and judged by its own predictions of
    rows that it has not seen, "oob" those out of bag, "own" those that it held out for itself.
    """

    def __init__(
        self,
        estimator: Any,
        settings: Sequence[Mapping[str, Any]],
        rows: Rows,
        splits: Any,
        metric: Metric,
        *,
        judge: str = "",
    ) -> None:
        self.estimator, self.settings, self.rows, self.splits, self.metric = estimator, settings, rows, splits, metric
        self.judge = judge
        # Tasks run fold by fold, so the rows of the last fold are those of the next candidate as a rule.
        self._held: tuple[int, Rows, Any, Array] | None = None
        self._learners: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_held": None, "_learners": {}}

    def __call__(self, item: tuple[int, Sequence[int]]) -> Trial:
        candidate, folds = item
        start, at = perf_counter(), folds[0]
        predicted: list[Array] = []
        model, tested, quick = None, None, None
        try:
            learner = self._learner(candidate)
            if self.judge == "oob":
                model = fit_rows(learner, self.rows)
                quick = [out_of_bag(model, self.metric, self.rows.classes)]
            elif self.judge == "own":
                model = fit_rows(learner, self.rows)
                tested, values = held_out(model, self.metric, self.rows.classes)
                quick = [values]
            else:
                quick = fold_predictions(learner, self.rows, self.splits, self.metric.needs)
            for at in folds:
                predicted.append(self._predict(learner, at) if quick is None else np.asarray(quick[at]))
                self._refuse_unscored(self.splits[at][1] if tested is None else tested, predicted[-1])
        except Exception as error:  # one bad setting must not stop the others; interrupts pass through
            said = error.what if isinstance(error, AssayError) else f"{type(error).__name__}: {error}"
            reason = f"fold {at}: {' '.join(said.split()).rstrip('.')}"
            remedy = (error.remedy if isinstance(error, AssayError) else None) or Trial.remedy
            kind = isinstance(error, TypeError) and not isinstance(error, ValueError)
            return Trial(candidate, (), (), perf_counter() - start, reason, remedy, kind)
        return Trial(candidate, folds, predicted, perf_counter() - start, model=model, tested=tested)

    def _learner(self, candidate: int) -> Any:
        if candidate not in self._learners:
            self._learners[candidate] = set_in(self.estimator, self.settings[candidate])
        return self._learners[candidate]

    def _predict(self, learner: Any, at: int) -> Array:
        held = self._held
        if held is None or held[0] != at:
            train, test = self.splits[at]
            rows, w, groups = self.rows, self.rows.weights, self.rows.groups
            inside = [None if one is None else one[train] for one in (w, groups)]
            part = Rows(take(rows.X, train), rows.y[train], inside[0], rows.classes, inside[1])
            held = self._held = (at, part, take(rows.X, test), test)
        _, part, X, _ = held
        return predictions(fit_rows(learner, part), X, self.metric, self.rows.classes)

    @staticmethod
    def _refuse_unscored(test: Array, predicted: Array) -> None:
        """Refuse predictions that have no figure, on the fold where they were made."""
        if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
            bad = int(np.argmin(np.isfinite(predicted).reshape(len(test), -1).all(axis=1)))
            message = f"the prediction of row {int(test[bad])} is {predicted.reshape(len(test), -1)[bad].tolist()}"
            raise DataError(message, remedy="look at that row, or at the learner")

    def judged(self, trial: Trial, scheme: Scheme) -> Trial:
        """The trial with its figure over the folds, or with why there is none."""
        if trial.failed:
            return trial
        try:
            tested = out_of_fold(self.metric, self.rows, self.splits, scheme, trial.predicted)
            return replace(trial, figure=tested.figure(), predicted=())
        except AssayError as error:
            return replace(trial, failed=error.what, remedy=error.remedy or Trial.remedy, predicted=())


def try_all(trials: Trials, scheme: Scheme, n_jobs: int | None) -> list[Trial]:
    """One trial per candidate, put together from its folds; predictions are let go as soon as a candidate is judged."""
    many, folds = range(len(trials.settings)), range(len(trials.splits))
    if hasattr(trials.estimator, "predict_folds"):
        items: list[tuple[int, Sequence[int]]] = [(candidate, folds) for candidate in many]
    else:
        items = [(candidate, (fold,)) for fold in folds for candidate in many]
    parts: list[list[Trial]] = [[] for _ in many]
    for trial in run(trials, items, label="search", n_jobs=n_jobs):
        parts[trial.candidate].append(trial)
    if trials.judge == "own":
        parts = _on_the_same_rows(trials, parts)
    return [trials.judged(_joined(candidate, some), scheme) for candidate, some in enumerate(parts)]


def _on_the_same_rows(trials: Trials, parts: list[list[Trial]]) -> list[list[Trial]]:
    """Trials whose learners held out the rows that the first one did; figures on others could not be compared."""
    tested = next((one.tested for some in parts for one in some if one.tested is not None), None)
    if tested is None:
        return parts
    trials.splits = [(trials.splits[0][0], tested)]
    reason = "it held out other rows than the first candidate; fix its random_state"

    def same(one: Trial) -> Trial:
        differs = one.tested is not None and not np.array_equal(one.tested, tested)
        return replace(one, failed=reason, predicted=()) if differs else one

    return [[same(one) for one in some] for some in parts]


def _joined(candidate: int, parts: Sequence[Trial]) -> Trial:
    seconds = sum(part.seconds for part in parts)
    bad = next((part for part in parts if part.failed), None)
    if bad is not None:
        return replace(bad, seconds=seconds)
    # The parts come in the order of their folds.
    predicted = [rows for part in parts for rows in part.predicted]
    return Trial(candidate, (), predicted, seconds, model=parts[0].model)
