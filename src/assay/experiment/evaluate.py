"""Evaluating the panel: every learner on the same folds, each fold kept the moment it is done.

A fold's outcome (predictions, seconds, the settings its search chose) goes into the journal the moment it is there, so
a run that is killed goes on where it was; what is read back is what was written, to the bit. A learner that fails is
shown with its reason and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import AssayError, DataError, LedgerError, ParameterError
from assay.evaluation.learner import Rows, blame, fit_rows, predictions, rows_of, run, undefined
from assay.evaluation.validation import Validation, validation_of
from assay.experiment.outcome import Leaderboard
from assay.experiment.panel import Learner, assemble, panel
from assay.experiment.plan import Plan
from assay.experiment.storage.journal import Journal
from assay.experiment.warned import collected, tally
from assay.metrics import get_metric
from assay.metrics.definition import Metric
from assay.numerics.threads import workers
from assay.resampling import Folds, TimeFolds, splits_of, take

__all__ = ["Data", "data_of", "evaluate", "refit"]

Array = np.ndarray
Says = Callable[[str], None]
WORTH = 2e11
"""Multiply-adds of a panel from which worker processes win: each takes seconds to start and to load its kernels."""


@dataclass(frozen=True, eq=False)
class Data:
    """The training rows as learners see them, the folds, and the metrics."""

    frame: pd.DataFrame
    rows: Rows
    splits: Sequence[tuple[Array, Array]]
    metrics: tuple[Metric, ...]
    learners: tuple[Learner, ...]

    def estimator(self, plan: Plan, learner: Learner, threads: int | None = None) -> Any:
        """The learner with its preprocessing and search; one of ours may use so many threads."""
        kinds = {name: plan.kinds[name] for name in plan.features}
        made = assemble(
            learner,
            kinds,
            tune=plan.tuned,
            metric=self.metrics[0],
            shape=(self.rows.n, len(kinds)),
            seed=plan.seed,
            exchangeable=plan.exchangeable,
        )
        if learner.own and threads is not None:
            made.set_params(**{name: threads for name in made.get_params() if name.endswith("model__n_jobs")})
        return made

    def shares(self, plan: Plan, n_jobs: int | None) -> tuple[int, int]:
        """Worker processes for the folds, and threads for the learner in each: together as many as `n_jobs` asks for.

        None asks for all cores, as threads of this process if the panel's declared cost does not outweigh the start of
        worker processes. Whatever the shares, the numbers are the same.
        """
        if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
            raise ParameterError(f"n_jobs = {n_jobs!r} is out of range", remedy="pass None or a non-zero whole number")
        total = workers(-1 if n_jobs is None else n_jobs)
        shape = (self.rows.n, len(plan.features))
        work = sum(one.fits(plan.tuned, plan.exchangeable) * one.cost(*shape) for one in self.learners)
        if n_jobs is None and len(self.splits) * work < WORTH:
            return 1, total
        processes = min(total, len(self.splits))
        return processes, total // processes


def data_of(plan: Plan, train: pd.DataFrame, digests: Array) -> Data:
    """Rows, folds and metrics of a plan.

    Rows stand in the order of their digests, so that a file with its rows shuffled gives the same folds and the same
    numbers; where the plan keeps time, in the order of time.
    """
    learners = tuple(panel(plan.task, plan.panel, plan.learners))
    train = train.iloc[np.argsort(digests, kind="stable")].reset_index(drop=True)
    if plan.time is not None:
        train = train.sort_values(plan.time, kind="stable", ignore_index=True)
    y = train[plan.target]
    target = y.to_numpy(dtype=float) if plan.task == "regression" else y.to_numpy()
    groups = None if plan.group is None else train[plan.group].to_numpy()
    first = learners[0].make(plan.seed)
    rows = rows_of(first, train[plan.features], target, groups=groups)
    if plan.task == "classification" and (rows.classes is None or rows.classes.size < 2):
        raise DataError("the training rows hold one class", remedy="check the target, or get rows of other classes")
    cv: Any = Folds(plan.cv, repeats=plan.repeats, stratify=plan.task == "classification", random_state=plan.seed)
    if plan.time is not None:
        cv = TimeFolds(plan.cv)
    splits = splits_of(cv, rows.X, rows.y, groups=rows.groups)
    _refuse_idle(plan, train, splits)
    metrics = tuple(get_metric(name) for name in (plan.metric, *plan.also))
    reasons = [why for _, test in splits if (why := undefined(metrics[0], rows.y[test], rows)) is not None]
    if len(reasons) == len(splits):
        what = f"{plan.metric} is not defined on any of the {len(splits)} folds: {reasons[0].what}"
        raise DataError(what, remedy="use fewer folds, or another metric")
    return Data(train, rows, splits, metrics, learners)


def _refuse_idle(plan: Plan, train: pd.DataFrame, splits: Sequence[tuple[Array, Array]]) -> None:
    """Refuse columns that tell no training rows apart, in a fold or in all of them."""
    names = [name for name in plan.features if plan.kinds[name] != "id"]
    for k, (part, _) in enumerate([(np.arange(len(train)), None), *splits]):
        if not any(train[name].iloc[part].nunique(dropna=False) > 1 for name in names):
            where = "the training rows" if k == 0 else f"the training rows of fold {k - 1}"
            what = f"no column varies in {where}"
            remedy = "add a column that tells rows apart" + ("" if k == 0 else ", or use fewer folds")
            raise DataError(what, remedy=remedy)


def evaluate(
    plan: Plan,
    data: Data,
    journal: Journal,
    *,
    n_jobs: int | None = None,
    deadline: float | None = None,
    says: Says = lambda words: None,
    next_ready: Callable[[Sequence[Learner]], int] | None = None,
) -> Leaderboard:
    """The panel on the folds; `deadline` is a value of `time.monotonic()`.

    `next_ready` picks the next of the learners that are left, by its place in their list; None takes them in order.
    The numbers do not depend on it.
    """
    results: dict[str, Validation] = {}
    failed: dict[str, str] = {}
    unfinished: dict[str, str] = {}
    settings: dict[str, list[dict[str, Any]]] = {}
    warned: dict[str, dict[str, int]] = {}
    best: Validation | None = None
    processes, threads = data.shares(plan, n_jobs)
    waiting = list(data.learners)
    for number in range(1, len(waiting) + 1):
        learner = waiting.pop(0 if next_ready is None else next_ready(waiting))
        so_far = "" if best is None else f"; best so far {best.name} ({best.metric.name} {best.figure()})"
        says(f"{learner.name} ({number} of {len(data.learners)}){so_far}")
        try:
            outcomes = _folds(plan, data, learner, journal, processes, threads, deadline)
        except LedgerError:
            raise  # the journal cannot be written: no learner's fault, and to go on would select among those left
        except AssayError as error:
            failed[learner.name] = str(error)
            continue
        if len(outcomes) < len(data.splits):
            unfinished[learner.name] = f"{len(outcomes)} of {len(data.splits)} folds when the time was up"
            continue
        try:
            found = _validation(plan, data, learner, outcomes)
            found.interval()
        except DataError as error:  # its predictions have no such figure, so it cannot be judged by it
            failed[learner.name] = str(error)
            continue
        results[learner.name] = found
        settings[learner.name] = [outcome["settings"] for outcome in outcomes]
        told = tally(outcome.get("warnings", ()) for outcome in outcomes)
        if told:
            warned[learner.name] = told
        if best is None or (found.estimate < best.estimate) != found.metric.greater_is_better:
            best = found
    in_order = partial(_in_order, [learner.name for learner in data.learners])
    return Leaderboard(
        in_order(results), in_order(failed), in_order(unfinished), in_order(settings), plan.level, in_order(warned)
    )


def _in_order(names: Sequence[str], found: dict[str, Any]) -> dict[str, Any]:
    """The entries in the order of the panel, whatever the order in which they were made."""
    return {name: found[name] for name in names if name in found}


def _folds(
    plan: Plan,
    data: Data,
    learner: Learner,
    journal: Journal,
    processes: int,
    threads: int,
    deadline: float | None,
) -> list[dict[str, Any]]:
    """What every fold gave, from the journal or made now and kept there."""
    kept = {k: journal.get(f"{learner.name}/{k}") for k in range(len(data.splits))}
    missing = [k for k, outcome in kept.items() if outcome is None]
    estimator = data.estimator(plan, learner, threads)
    needs = {metric.needs: metric for metric in reversed(data.metrics)}
    task = partial(_fold, estimator, data.rows, data.splits, needs, data.metrics[0].needs, learner.name)
    width = processes if deadline is not None else len(missing)
    for start in range(0, len(missing), max(1, width)):
        if deadline is not None and monotonic() > deadline:
            break
        batch = missing[start : start + max(1, width)]
        for k, outcome in zip(batch, run(task, batch, label=learner.name, n_jobs=processes), strict=True):
            journal.put(f"{learner.name}/{k}", outcome)
            kept[k] = outcome
    return [outcome for outcome in kept.values() if outcome is not None]


def _fold(
    estimator: Any, rows: Rows, splits: Any, needs: Mapping[str, Metric], first: str, name: str, k: int
) -> dict[str, Any]:
    """Fit a fold's training rows, predict its test rows: what the first metric needs, and what else is there."""
    start = perf_counter()
    train, test = splits[k]
    try:
        with collected() as told:
            model = fit_rows(estimator, rows, train)
            X = take(rows.X, test)
            found = {}
            for need, metric in needs.items():
                if need == "probabilities" and need != first and not hasattr(model, "predict_proba"):
                    continue
                found[need] = predictions(model, X, metric, rows.classes)
    except Exception as error:
        raise blame(error, name, f"fold {k}") from error
    for need, values in found.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise DataError(f"{name} predicted {need} that are not finite in fold {k}", remedy="look at the learner")
    chosen = {str(key): _plain(value) for key, value in getattr(model, "best_params_", {}).items()}
    labels = {need: _portable(values, rows.classes) if need == "labels" else values for need, values in found.items()}
    return {"predictions": labels, "settings": chosen, "seconds": perf_counter() - start, "warnings": told}


def _portable(values: Array, classes: Array | None) -> Array:
    """Labels as positions among the classes, which any file can hold."""
    return values if classes is None else np.searchsorted(classes, values)


def _plain(value: Any) -> Any:
    return (
        value.item() if isinstance(value, np.generic) else value if isinstance(value, int | float | str) else str(value)
    )


def _validation(plan: Plan, data: Data, learner: Learner, outcomes: list[dict[str, Any]]) -> Validation:
    kept: dict[str, tuple[Array, ...]] = {}
    for need in outcomes[0]["predictions"]:
        parts = [np.asarray(outcome["predictions"][need]) for outcome in outcomes]
        names = data.rows.classes if need == "labels" else None
        kept[need] = tuple(part if names is None else names[part] for part in parts)
    metrics = tuple(metric for metric in data.metrics if metric.needs in kept)
    seconds = np.array([outcome["seconds"] for outcome in outcomes])
    estimator = data.estimator(plan, learner)
    return validation_of(learner.name, estimator, data.rows, data.splits, metrics, kept, seconds, level=plan.level)


def refit(plan: Plan, data: Data, name: str, n_jobs: int | None = None) -> Any:
    """The named learner with its search, fitted to all training rows; what is left is the chosen pipeline."""
    learner = next(one for one in data.learners if one.name == name)
    threads = workers(-1 if n_jobs is None else n_jobs)
    try:
        model = fit_rows(data.estimator(plan, learner, threads), data.rows)
    except Exception as error:
        raise blame(error, name, "the fit to all training rows") from error
    made = getattr(model, "best_estimator_", model)
    if learner.own and "model__n_jobs" in made.get_params():
        made.set_params(model__n_jobs=None)  # the cores of this machine are no part of the model
    return made
