"""Evaluating the panel: every learner on the same folds, each fold kept the moment it is done.

A fold's outcome (predictions, seconds, the settings its search chose) goes into the journal the moment it is there, so
a run that is killed goes on where it was; what is read back is what was written, to the bit. A learner that fails is
shown with its reason and stops no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic, perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from assay.errors import AssayError, DataError, LearnerError, LedgerError
from assay.evaluation import Ensemble, ThresholdClassifier
from assay.evaluation.figures import undefined_over
from assay.evaluation.learner import Rows, blame, fit_fold, fit_rows, needs_of, predictions, rows_of, run
from assay.evaluation.stopping import FIRST, Behind
from assay.evaluation.validation import Validation, validation_of
from assay.experiment.baseline import best_baseline
from assay.experiment.calibrated import CalibratedIfBetter
from assay.experiment.checks.finished import unfinished
from assay.experiment.events import FoldDone, LearnerBegan, LearnerFailed, LearnerStopped
from assay.experiment.outcome import Leaderboard
from assay.experiment.panel import BASELINE, Learner, assemble, panel, strongest_first
from assay.experiment.plan import Plan
from assay.experiment.protocol import left_out, number_of_splits, splits_for
from assay.experiment.state import Context, Parted, StudyState, TrainingData, made
from assay.experiment.steps.early import EarlyLosses
from assay.experiment.storage.journal import Journal
from assay.experiment.test_set.changing import record_scored
from assay.experiment.test_set.seal import row_digests
from assay.experiment.warned import collected, tally, with_names
from assay.metrics import get_metric
from assay.metrics.definition import Metric
from assay.numerics.threads import workers
from assay.resampling import scheme_of, take

__all__ = [
    "estimator_of",
    "evaluate",
    "evaluate_on",
    "portable",
    "predictions_for",
    "refit",
    "shape_of",
    "shares_of",
    "subset",
    "training_data",
    "validate_one",
    "work_of",
]

Array = np.ndarray
AROUND = (ThresholdClassifier, CalibratedIfBetter)
"""What stands around a classifier, its search included."""
WORTH = 2e11
"""Multiply-adds of a panel from which worker processes win: each takes seconds to start and to load its kernels."""
MEMORY = 4 << 30
"""Bytes that the worker processes of all folds may take for their rows, and that one fit may take beyond its rows."""
THREADED = 50_000
"""Rows from which folds come one after another and learners use threads: each worker process would hold a model."""
HALF = 0.5
"""Share of a clock's time for first folds, so that learners that have them can finish in the rest."""
LATE = "late"
"""Where the journal keeps which learners a clock left unfinished."""
COPIES = 5
"""How often a worker process holds its rows: as given, as a fold, encoded, and as the learner wants them."""


def estimator_of(plan: Plan, data: TrainingData, learner: Learner, threads: int | None = None) -> Any:
    """The learner with its preprocessing and search; one of ours may use so many threads."""
    kinds = {name: plan.kinds[name] for name in plan.features}
    says_one_class = learner.name == BASELINE and plan.cost is not None  # the one that costs least
    made = assemble(
        learner,
        kinds,
        tune=plan.tuned,
        metric=get_metric("log_loss") if plan.threshold else data.metrics[0],  # thresholds come after the search
        shape=shape_of(plan, data),
        seed=plan.seed,
        order=plan.order,
        threshold={} if says_one_class else plan.threshold,
        calibrate=bool(plan.calibrate),
    )
    if learner.own and threads is not None:
        _share(made, threads)
    return made


def _share(model: Any, threads: int | None) -> None:
    """So many threads for a learner and whatever it wraps; members of an ensemble are fitted one after the other."""
    model.set_params(**{name: threads for name in model.get_params() if name.endswith("model__n_jobs")})
    inside = [one for _, one in model.estimators] if isinstance(model, Ensemble) else []
    inside += getattr(model, "estimators_", []) if isinstance(model, Ensemble) else []
    inside += [getattr(model, name) for name in ("estimator", "estimator_") if hasattr(model, name)]
    for one in inside:
        _share(one, threads)


def shares_of(plan: Plan, data: TrainingData, n_jobs: int | None) -> tuple[int, int]:
    """Worker processes for the folds, and threads for the learner in each: together as many as `n_jobs` asks for.

    None asks for all cores, as threads of this process if the panel's declared cost does not outweigh the start of
    worker processes; each holds rows and a model of its own, so large tables get fewer. Whatever the shares, the
    numbers are the same.
    """
    total = workers(-1 if n_jobs is None else n_jobs)
    shape = (data.rows.n, len(plan.features))
    threaded = shape[0] >= THREADED and all(learner.own for learner in data.learners)
    if threaded or (n_jobs is None and work_of(plan, data) < WORTH):
        return 1, total
    room = int(MEMORY / (COPIES * 8 * shape[0] * max(1, shape[1])))
    processes = max(1, min(total, len(data.splits), room))
    return processes, total // processes


def work_of(plan: Plan, data: TrainingData) -> float:
    """The declared multiply-adds of the panel on all folds."""
    shape = shape_of(plan, data)
    work = sum(one.fits(plan.tuned, plan.exchangeable) * one.work(*shape) for one in data.learners)
    return len(data.splits) * work


def shape_of(plan: Plan, data: TrainingData) -> tuple[int, int, int]:
    """Rows, columns and classes."""
    return data.rows.n, len(plan.features), 2 if data.rows.classes is None else len(data.rows.classes)


def training_data(plan: Plan, parted: Parted) -> TrainingData:
    """Rows, folds and metrics of a plan.

    Rows stand in the order of their digests, so that a file with its rows shuffled gives the same folds and the same
    numbers; where the plan keeps time, in the order of time.
    """
    learners = tuple(panel(plan.task, plan.panel, plan.learners))
    digests = row_digests(parted.train, parted.sealed.seal.columns)
    train = parted.train.iloc[np.argsort(digests, kind="stable")]
    if plan.time is not None:
        train = train.sort_values(plan.time, kind="stable")
    numbers = None if parted.row_numbers is None else parted.row_numbers[train.index]
    train = train.reset_index(drop=True)
    y = train[plan.target]
    target = y.to_numpy(dtype=float) if plan.task == "regression" else y.to_numpy()
    groups = None if plan.group is None else train[plan.group].to_numpy()
    first = learners[0].make(plan.seed)
    rows = rows_of(first, train[plan.features], target, groups=groups)
    if plan.task == "classification" and (rows.classes is None or rows.classes.size < 2):
        raise DataError(
            "the training rows have only one class", remedy="check the target, or add rows of other classes"
        )
    splits = splits_for(plan, rows, rows.n + parted.n_test)
    _refuse_idle(plan, train, splits)
    metrics = tuple(plan.measure(name) for name in (plan.metric, *plan.also))
    why = undefined_over(metrics[0], rows, splits, scheme_of(splits, rows.n))
    if why is not None:
        message = f"{plan.metric} is not defined on these {len(splits)} folds: {why.what}"
        raise DataError(message, remedy="use fewer folds, or another metric")
    return TrainingData(train, rows, splits, metrics, _with_guess(learners, metrics[0], rows), numbers)


def _with_guess(learners: Sequence[Learner], metric: Metric, rows: Rows) -> tuple[Learner, ...]:
    """The learners, of which the baseline makes the best guess for these rows."""
    return tuple(best_baseline(one, metric, rows) if one.name == BASELINE else one for one in learners)


def subset(plan: Plan, data: TrainingData, chosen: Array) -> TrainingData:
    """Some of the training rows with folds of their own, as if there were no others."""
    rows = data.rows
    classes = None if rows.classes is None else np.unique(rows.y[chosen])
    if classes is not None and classes.size < 2:
        raise DataError("the training rows of an outer fold have only one class", remedy="collect more rows")
    groups = None if rows.groups is None else rows.groups[chosen]
    part = Rows(take(rows.X, chosen), rows.y[chosen], None, classes, groups)
    splits = splits_for(plan, part, part.n)
    numbers = None if data.row_numbers is None else data.row_numbers[chosen]
    frame = data.frame.iloc[chosen].reset_index(drop=True)
    learners = data.learners
    if classes is not None and classes.size < len(made(rows.classes)):  # no guess may be a class that is not there
        learners = _with_guess(learners, data.metrics[0], part)
    return replace(data, frame=frame, rows=part, splits=splits, row_numbers=numbers, learners=learners)


def _refuse_idle(plan: Plan, train: pd.DataFrame, splits: Sequence[tuple[Array, Array]]) -> None:
    """Refuse columns that tell no training rows apart, in a fold or in all of them."""
    names = [name for name in plan.features if plan.kinds[name] != "id"]
    for k, (part, _) in enumerate([(np.arange(len(train)), None), *splits]):
        if not any(train[name].iloc[part].nunique(dropna=False) > 1 for name in names):
            where = "the training rows" if k == 0 else f"the training rows of fold {k - 1}"
            message = f"no column varies in {where}"
            remedy = "add a column that varies" + ("" if k == 0 else ", or use fewer folds")
            raise DataError(message, remedy=remedy)


def evaluate(state: StudyState, context: Context) -> StudyState:
    """Every learner of the panel on the same folds."""
    parted = made(state.parted)
    data = training_data(state.plan, parted)
    record_scored(context.ledger, parted.sealed.seal.id, parted.name)
    notes = left_out(state.plan, data.splits, number_of_splits(state.plan, data.rows.n))
    state = replace(state, notes=(*state.notes, *(note for note in notes if note not in state.notes)))
    return evaluate_on(state, data, Journal(parted.folder / "journal.db"), context)


def evaluate_on(state: StudyState, data: TrainingData, journal: Journal, context: Context) -> StudyState:
    """Every learner of the panel on the folds of any rows."""
    board = _board(state.plan, data, journal, context)
    if not board.results:
        reasons = "; ".join(f"{name}: {why}" for name, why in {**board.failed, **board.unfinished}.items())
        more = f"finished folds are kept, so go on with: assay resume {made(state.parted).name}"
        raise LearnerError(
            f"no learner finished ({reasons})", remedy=more if board.unfinished else "use other learners"
        )
    checks = made(state.checks).joined(unfinished(made(state.parted).name, board.unfinished))
    return replace(state, training=data, leaderboard=board, checks=checks)


def _board(plan: Plan, data: TrainingData, journal: Journal, context: Context) -> Leaderboard:
    """The panel on the folds: all of it on the first ones, then those that can still win on the others.

    The numbers do not depend on the order in which learners are taken, nor on what an earlier run left in the journal.
    """
    late = (journal.get(LATE) or {}).get("learners", [])
    if context.hold and late:
        context = replace(context, deadline=context.started)  # what is in the journal, and no more
    running = _Running(plan, data, journal, context)
    early, total = EarlyLosses.of(plan, data), len(data.splits)
    stopped: dict[str, Behind] = {}
    waiting = [one.name for one in data.learners]
    if early is None:
        running.advance(waiting, total)
    else:
        running.advance(waiting, FIRST, share=HALF)
        while True:
            stopped = _finish(running, early, total)
            waiting = [name for name in waiting if name in running.unfinished]
            if not waiting or context.deadline is None or monotonic() > context.deadline:
                break
            running.advance(waiting, FIRST)
    left = [one.name for one in data.learners if one.name in running.unfinished]
    if left != late:  # reading a finished study writes nothing
        journal.put(LATE, {"learners": left})
    return running.board({} if early is None else {name: early.reason(one) for name, one in stopped.items()})


def _finish(running: _Running, early: EarlyLosses, total: int) -> dict[str, Behind]:
    """All folds of the learners that have their first ones and can still win; returns those that cannot."""
    stopped: dict[str, Behind] = {}
    while running.outcomes:
        stopped, needed = early.settle(running.outcomes)
        for name, one in stopped.items():
            running.context.emit(LearnerStopped(name, early.reason(one)))
        if not needed:
            break
        running.advance(needed, total)
    return stopped


class _Running:
    """The learners of a panel and how far each is: outcomes of folds, results, failures, those out of time."""

    def __init__(self, plan: Plan, data: TrainingData, journal: Journal, context: Context) -> None:
        self.plan, self.data, self.journal, self.context = plan, data, journal, context
        self.shares = shares_of(plan, data, context.n_jobs)
        self.outcomes: dict[str, list[dict[str, Any]]] = {}
        self.results: dict[str, Validation] = {}
        self.failed: dict[str, str] = {}
        self.unfinished: dict[str, str] = {}
        self.best: Validation | None = None

    def advance(self, names: Sequence[str], folds: int, share: float = 1.0) -> None:
        """The named learners on the first so many folds; with a clock, the strongest first, for a share of its time."""
        begun, deadline = self.context.started, self.context.deadline
        context = replace(self.context, deadline=None if deadline is None else begun + share * (deadline - begun))
        waiting = [one for one in self.data.learners if one.name in names]
        if self.context.deadline is not None:
            waiting = strongest_first(waiting)
        numbers = {one.name: number for number, one in enumerate(self.data.learners, 1)}
        while waiting:
            learner = waiting.pop(0 if self.context.next_ready is None else self.context.next_ready(waiting))
            self.context.emit(LearnerBegan(learner.name, numbers[learner.name], len(numbers), self.best))
            self.unfinished.pop(learner.name, None)
            try:
                self._run(learner, folds, context)
            except LedgerError:
                raise  # the journal cannot be written: no learner's fault, and to go on would select among those left
            except AssayError as error:
                self.outcomes.pop(learner.name, None)
                self.failed[learner.name] = str(error)
                self.context.emit(LearnerFailed(learner.name, str(error)))

    def _run(self, learner: Learner, folds: int, context: Context) -> None:
        plan, data, total = self.plan, self.data, len(self.data.splits)
        _refuse_large(learner, len(plan.features), data.rows.classes)
        found = _folds(plan, data, learner, self.journal, self.shares, context, folds)
        if len(found) < folds:
            self.outcomes.pop(learner.name, None)
            self.unfinished[learner.name] = f"{len(found)} of {total} folds when the time ran out"
            return
        if folds == total:
            result = _validation(plan, data, learner, found)
            result.interval()  # predictions without a figure cannot be judged
            self.results[learner.name] = result
            if self.best is None or (result.estimate < self.best.estimate) != result.metric.greater_is_better:
                self.best = result
        self.outcomes[learner.name] = found

    def board(self, stopped: Mapping[str, str]) -> Leaderboard:
        """What is there, in the order of the panel, whatever the order in which it was made."""
        results = {name: one for name, one in self.results.items() if name not in stopped}
        settings = {name: [one["settings"] for one in self.outcomes[name]] for name in results}
        told = {name: tally(one.get("warnings", ()) for one in self.outcomes[name]) for name in results}
        warned = {name: kinds for name, kinds in told.items() if kinds}
        in_order = partial(_in_order, [learner.name for learner in self.data.learners])
        return Leaderboard(
            in_order(results),
            in_order(self.failed),
            in_order(self.unfinished),
            in_order(settings),
            self.plan.level,
            in_order(warned),
            in_order(dict(stopped)),
        )


def validate_one(plan: Plan, data: TrainingData, name: str, journal: Journal, context: Context) -> Validation:
    """One learner on all folds, each kept in the journal."""
    learner = next(one for one in data.learners if one.name == name)
    shares = shares_of(plan, data, context.n_jobs)
    outcomes = _folds(plan, data, learner, journal, shares, context, len(data.splits))
    return _validation(plan, data, learner, outcomes)


def _refuse_large(learner: Learner, columns: int, classes: Array | None) -> None:
    """Refuse a learner whose matrices would not fit: a process that takes all memory is killed without a message."""
    needed = learner.memory(columns, 0 if classes is None else len(classes))
    if needed > MEMORY:
        size, limit = f"{needed / 2**30:.3g} GiB", f"{MEMORY / 2**30:.3g} GiB"
        message = f"one fit of {columns:,} columns would need {size} of memory, more than the limit of {limit}"
        raise DataError(message, remedy="use fewer columns, or other learners")


def _in_order(names: Sequence[str], found: dict[str, Any]) -> dict[str, Any]:
    """The entries in the order of the panel, whatever the order in which they were made."""
    return {name: found[name] for name in names if name in found}


def _folds(
    plan: Plan,
    data: TrainingData,
    learner: Learner,
    journal: Journal,
    shares: tuple[int, int],
    context: Context,
    folds: int,
) -> list[dict[str, Any]]:
    """The outcomes of the first so many folds, from the journal or computed now and stored there."""
    processes, threads = shares
    total = len(data.splits)
    outcomes = {k: journal.get(f"{learner.name}/{k}") for k in range(folds)}
    missing = [k for k, outcome in outcomes.items() if outcome is None]
    estimator = estimator_of(plan, data, learner, threads)
    task = partial(_fold, estimator, data.rows, data.splits, needs_of(data.metrics), learner.name)
    done = folds - len(missing)
    context.emit(FoldDone(learner.name, done, total))
    width = processes if context.deadline is not None else len(missing)
    for start in range(0, len(missing), max(1, width)):
        if context.deadline is not None and monotonic() > context.deadline:
            break
        batch = missing[start : start + max(1, width)]
        for k, outcome in zip(batch, run(task, batch, label=learner.name, n_jobs=processes), strict=True):
            journal.put(f"{learner.name}/{k}", outcome)
            outcomes[k] = outcome
            done += 1
            context.emit(FoldDone(learner.name, done, total))
    return [outcome for outcome in outcomes.values() if outcome is not None]


def _fold(estimator: Any, rows: Rows, splits: Any, needs: Mapping[str, Metric], name: str, k: int) -> dict[str, Any]:
    """The outcome of a fold: predictions, the settings that a search chose, seconds and warnings."""
    start = perf_counter()
    train, test = splits[k]
    with collected() as warned, with_names():
        predicted, model = fit_fold(estimator, rows, train, test, needs, label=name, where=f"fold {k}", spared=True)
    searched = model
    while isinstance(searched, AROUND):
        searched = searched.estimator_
    chosen = {str(key): _plain(value) for key, value in getattr(searched, "best_params_", {}).items()}
    labels = {need: portable(one, rows.classes) if need == "labels" else one for need, one in predicted.items()}
    return {"predictions": labels, "settings": chosen, "seconds": perf_counter() - start, "warnings": warned}


def portable(values: Array, classes: Array | None) -> Array:
    """Labels as positions among the classes, which any file can hold."""
    return values if classes is None else np.searchsorted(classes, values)


def _plain(value: Any) -> Any:
    return (
        value.item() if isinstance(value, np.generic) else value if isinstance(value, int | float | str) else str(value)
    )


def _validation(plan: Plan, data: TrainingData, learner: Learner, outcomes: list[dict[str, Any]]) -> Validation:
    kept: dict[str, tuple[Array, ...]] = {}
    for need in outcomes[0]["predictions"]:
        parts = [np.asarray(outcome["predictions"][need]) for outcome in outcomes]
        names = data.rows.classes if need == "labels" else None
        kept[need] = tuple(part if names is None else names[part] for part in parts)
    metrics = tuple(metric for metric in data.metrics if metric.needs in kept)
    seconds = np.array([outcome["seconds"] for outcome in outcomes])
    estimator = estimator_of(plan, data, learner)
    return validation_of(learner.name, estimator, data.rows, data.splits, metrics, kept, seconds, level=plan.level)


def refit(plan: Plan, data: TrainingData, name: str, n_jobs: int | None = None) -> Any:
    """The named learner with its search, fitted to all training rows; what is left is the chosen pipeline.

    Without `plan.refit` the validation rows of the holdout are left out.
    """
    learner = next(one for one in data.learners if one.name == name)
    threads = workers(-1 if n_jobs is None else n_jobs)
    inside = None if plan.refit else data.splits[0][0]
    with with_names():
        try:
            model = fit_rows(estimator_of(plan, data, learner, threads), data.rows, inside)
        except Exception as error:
            raise blame(error, name, "the fit to all training rows") from error
    made = _settled(model)
    if learner.own:
        _share(made, None)  # the cores of this machine are no part of the model
    return made


def predictions_for(plan: Plan, data: TrainingData, model: Any, frame: pd.DataFrame) -> dict[str, Array]:
    """What the metrics need, by what it is; probabilities that only secondary metrics want may be absent."""
    X = frame[plan.features]
    predicted: dict[str, Array] = {}
    for metric in data.metrics:
        wanted = metric.name == plan.metric or metric.needs != "probabilities" or hasattr(model, "predict_proba")
        if wanted and metric.needs not in predicted:
            predicted[metric.needs] = predictions(model, X, metric, data.rows.classes)
    return predicted


def _settled(model: Any) -> Any:
    """A fitted learner without its searches: the pipelines that they chose."""
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, AROUND):
        model.estimator_ = _settled(model.estimator_)
        model.estimator = clone(model.estimator_)
    elif isinstance(model, Ensemble):
        model.estimators_ = [_settled(one) for one in model.estimators_]
        chosen = dict(zip(np.array(model.names_)[model.weights_ > 0].tolist(), model.estimators_, strict=True))
        model.estimators = [
            (name, clone(chosen[name]) if name in chosen else getattr(one, "estimator", one))
            for name, one in model.estimators
        ]
    return model
