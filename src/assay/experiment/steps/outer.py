"""Outer folds: where there is no test set, the whole procedure is repeated without the rows of each of them.

    for each outer fold:  panel on inner folds of the other rows -> select -> refit -> predict the fold, as the baseline

Tuning, panel, rule of selection, ensemble, threshold and calibration see the other rows alone, so that no fold which
selected anything is part of the figure. It is the metric of all outer rows together, with the interval and the test
against the baseline that allow for overlapping training sets (Nadeau & Bengio 2003, Machine Learning 52, 239-281; why
folds that select cannot also judge: Varma & Simon 2006, BMC Bioinformatics 7, 91). Ten folds, or five where the panel's
declared cost is high. A finished fold, and each inner one, is in the journal at once. Cost: so many times the panel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic, perf_counter
from typing import Any

import numpy as np

from assay.errors import AssayError, DataError, LedgerError
from assay.evaluation import compare as compare_results
from assay.evaluation.validation import Validation, validation_of
from assay.experiment.events import Event, InOuterFold, StepBegan
from assay.experiment.outcome import Outer
from assay.experiment.panel import BASELINE
from assay.experiment.plan import Plan
from assay.experiment.protocol import OUTER, left_out, outer_splits
from assay.experiment.state import Context, StudyState, TrainingData, made
from assay.experiment.steps.evaluate import estimator_of, evaluate_on, portable, predictions_for, refit, subset, work_of
from assay.experiment.steps.select import select
from assay.experiment.storage.journal import Journal
from assay.experiment.test_set.against_baseline import BaselineTest
from assay.experiment.test_set.studied import studies_of
from assay.experiment.warned import collected
from assay.numerics.threads import one_blas_thread
from assay.results import Interval

__all__ = ["PROCEDURE", "outer"]

Array = np.ndarray
Splits = Sequence[tuple[Array, Array]]
PROCEDURE = "the procedure"
"""What the figure of the outer folds is a figure of: whatever each fold selects, by the same rules."""
DEAR = 1e11
"""Multiply-adds of all outer folds from which there are only five: about two minutes."""


def outer(state: StudyState, context: Context) -> StudyState:
    """The figure of a study without a test set; nothing to do where there is one."""
    if made(state.parted).has_test_set or state.outer is not None:
        return state
    context.emit(StepBegan("outer", "repeating the whole procedure on outer folds"))
    data, board = made(state.training), made(state.leaderboard)
    kept = tuple(one for one in data.learners if one.name not in board.unfinished)  # what selected the model
    data = replace(data, learners=kept)
    most, few = OUTER
    asked = most if most * work_of(state.plan, data) < DEAR else few
    try:
        splits = outer_splits(state.plan, data.rows, asked)
    except DataError as error:
        why = f"the rows cannot be split into outer folds ({error}), so there is no figure"
        return replace(state, outer=_none(state, context, (), (why,), 0))
    outcomes: list[dict[str, Any]] = []
    try:
        for k in range(len(splits)):
            if context.deadline is not None and monotonic() > context.deadline and not _stored(state, data, splits, k):
                break
            outcomes.append(_fold(state, data, splits, k, context))
    except LedgerError:
        raise
    except AssayError as error:
        why = f"outer fold {len(outcomes) + 1} could not be computed ({error.what}), so there is no figure"
        return replace(state, outer=_none(state, context, splits, (why,), 0))
    left = len(splits) - len(outcomes)
    if left:
        why = f"{left} of {len(splits)} outer folds were left when the time ran out; go on with: assay resume "
        return replace(state, outer=_none(state, context, splits, (why + made(state.parted).name,), left))
    found = _judged(state, context, data, splits, outcomes)
    return replace(state, outer=replace(found, notes=(*left_out(state.plan, splits, asked), *found.notes)))


def _key(data: TrainingData, splits: Splits, k: int) -> str:
    """An outer fold by its number, its rows and the learners that took part."""
    names = "\n".join(one.name for one in data.learners)
    rows = np.asarray(splits[k][1], dtype="<i8").tobytes()
    return f"{k}/{hashlib.sha256(names.encode() + rows).hexdigest()[:16]}"


def _journal(state: StudyState, prefix: str = "outer/") -> Journal:
    return Journal(made(state.parted).folder / "journal.db", prefix)


def _stored(state: StudyState, data: TrainingData, splits: Splits, k: int) -> dict[str, Any] | None:
    return _journal(state).get(_key(data, splits, k))


def _fold(state: StudyState, data: TrainingData, splits: Splits, k: int, context: Context) -> dict[str, Any]:
    """What the procedure and the baseline predict for an outer fold, from the journal or computed now."""
    total = len(splits)
    context.emit(InOuterFold(k + 1, total))
    outcome = _stored(state, data, splits, k)
    if outcome is None:
        outcome = _procedure(state, data, splits, k, context)
        _journal(state).put(_key(data, splits, k), outcome)
    return outcome


def _procedure(state: StudyState, data: TrainingData, splits: Splits, k: int, context: Context) -> dict[str, Any]:
    """The whole procedure on the rows outside an outer fold, and its predictions for the fold."""
    start = perf_counter()
    train, test = splits[k]
    plan, part = state.plan, subset(state.plan, data, train)

    def hear(event: Event) -> None:
        context.emit(InOuterFold(k + 1, len(splits), event))

    inside = replace(context, listener=hear, deadline=None)
    begun = replace(state, comparisons=None, fitted=None)
    chosen = made(select(evaluate_on(begun, part, _journal(state, f"outer/{k}/"), inside), inside).fitted)
    frame = data.frame.iloc[test]
    with one_blas_thread(), collected():
        guess = refit(plan, part, BASELINE, context.n_jobs)
        predicted = {
            name: {
                need: portable(values, data.rows.classes) if need == "labels" else values
                for need, values in predictions_for(plan, data, model, frame).items()
            }
            for name, model in (("predictions", chosen.model), ("baseline", guess))
        }
    return {"selected": chosen.selection.name, "seconds": perf_counter() - start, **predicted}


def _none(state: StudyState, context: Context, splits: Splits, notes: tuple[str, ...], left: int) -> Outer:
    """Outer folds without a figure, and why."""
    plan, parted = state.plan, made(state.parted)
    studies = studies_of(context.ledger, parted.train, plan.target)
    scheme, y = f"{len(splits)} outer folds", np.zeros(0)
    return Outer(parted.name, plan.metric, {}, {}, None, scheme, (), studies, y, {}, None, notes, left)


def _judged(
    state: StudyState, context: Context, data: TrainingData, splits: Splits, outcomes: list[dict[str, Any]]
) -> Outer:
    plan, parted = state.plan, made(state.parted)
    ours, theirs = (_validation(plan, data, splits, outcomes, who) for who in ("predictions", "baseline"))
    metrics = [metric for metric in ours.metrics if metric.needs in theirs.fold_predictions]
    intervals: dict[str, Interval] = {}
    figures: dict[str, float] = {}
    missing: list[str] = []
    for metric in metrics:
        try:
            found = ours.interval(plan.level, metric=metric)
            figures[metric.name] = float(theirs.interval(plan.level, metric=metric).estimate)
        except DataError as error:
            if metric.name == plan.metric:
                return _none(state, context, splits, (f"{error.what}, so there is no figure of outer folds",), 0)
            missing.append(f"{metric.name} is left out of the outer folds: {error.what}")
            continue
        where = f"{metric.name} of the procedure trained on {round(ours.scheme.n_train):,} rows, on {plan.population}"
        intervals[metric.name] = replace(found, estimand=where)
    against, notes = (None, ()) if made(state.fitted).selection.name == BASELINE else _against(plan, ours, theirs)
    at = np.concatenate([test for _, test in splits])
    predicted = {need: np.concatenate(parts) for need, parts in ours.fold_predictions.items()}
    return Outer(
        parted.name,
        plan.metric,
        intervals,
        figures,
        against,
        str(ours.scheme),
        tuple(outcome["selected"] for outcome in outcomes),
        studies_of(context.ledger, parted.train, plan.target),
        data.rows.y[at],
        predicted,
        data.rows.classes,
        (*missing, *notes),
    )


def _validation(plan: Plan, data: TrainingData, splits: Splits, outcomes: list[dict[str, Any]], who: str) -> Validation:
    """The predictions of all outer folds as a validation; what only some of them have is left out."""
    kept: dict[str, tuple[Array, ...]] = {}
    each: list[Mapping[str, Any]] = [outcome[who] for outcome in outcomes]
    for need in each[0]:
        if all(need in one for one in each):
            names = data.rows.classes if need == "labels" else None
            parts = [np.asarray(one[need]) for one in each]
            kept[need] = tuple(part if names is None else names[part] for part in parts)
    metrics = tuple(metric for metric in data.metrics if metric.needs in kept)
    seconds = np.array([outcome["seconds"] for outcome in outcomes])
    name, estimator = (BASELINE if who == "baseline" else PROCEDURE), estimator_of(plan, data, data.learners[0])
    return validation_of(name, estimator, data.rows, splits, metrics, kept, seconds, level=plan.level)


def _against(plan: Plan, ours: Validation, theirs: Validation) -> tuple[BaselineTest | None, tuple[str, ...]]:
    """The one planned test, by the comparison that fits these folds; or why there is none."""
    found = compare_results(
        {PROCEDURE: ours, BASELINE: theirs}, correction=None, level=plan.level, random_state=plan.seed
    )
    if found.reasons[0]:
        return None, (f"the procedure cannot be compared with the baseline: {found.reasons[0]}",)
    metric = ours.metric
    ends = (float(found.lower[0]), float(found.upper[0]))
    gap, p = float(found.differences[0]), float(found.p_values[0])
    n = len(ours.splits)
    made_of = BaselineTest(metric.name, PROCEDURE, gap, *ends, p, plan.level, found.method, n, metric.greater_is_better)
    return made_of, tuple(found.caveats)
