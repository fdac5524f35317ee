"""Opening the test set: predictions first, then the ledger's record of the look, and only then a score.

If the record cannot be written there is no score. One primary metric carries the level of the look; the others are
told beside it. The baseline, fitted to the same training rows, predicts the same test rows inside the same look, and
one test compares the two. A look beyond the plan is answered by the Ladder alone, without baseline or test.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import AssayError, DataError
from assay.experiment.checks.shift import compare_parts
from assay.experiment.events import LookRecorded, StepBegan
from assay.experiment.outcome import Opened
from assay.experiment.panel import BASELINE
from assay.experiment.plan import Plan
from assay.experiment.state import Context, Parted, StudyState, TrainingData, made
from assay.experiment.steps.evaluate import predictions_for, refit
from assay.experiment.steps.recorded import opened_before, result_on_record
from assay.experiment.test_set.against_baseline import BaselineTest, against_baseline
from assay.experiment.test_set.grouped import grouped_interval
from assay.experiment.test_set.ladder import Release
from assay.experiment.test_set.looks import Look, opened_rows_in, other_look, record_look
from assay.experiment.test_set.releases import release
from assay.experiment.test_set.vault import Vault
from assay.experiment.warned import collected
from assay.experiment.wording import FEW_ROWS, tail_notes
from assay.inference import TailDiagnosis
from assay.metrics import get_metric
from assay.metrics.definition import Metric
from assay.metrics.scorer import class_options
from assay.metrics.tails import loss_behind, loss_words, mean_behind, tail_of
from assay.numerics.threads import one_blas_thread
from assay.results import Interval

__all__ = ["open_test_set"]

Array = np.ndarray
CHANCE = 2.0
"""Standard errors of a correlation of neighbours that chance explains."""


def open_test_set(state: StudyState, context: Context) -> StudyState:
    """Open the test set, unless there is none or it is to stay sealed, and record what was selected and found."""
    sealed = made(state.parted).has_test_set
    if sealed and context.open_test and state.opened is None and not state.unanswered(context):
        state = replace(state, opened=_open(state, context))
    if state.opened is None or not state.opened.recorded:  # what is on record stays as it is
        _record(state, context)
    return replace(state, seconds=monotonic() - context.started)


def _open(state: StudyState, context: Context) -> Opened:
    """The test rows out of the vault, predicted, recorded and scored, in this order."""
    context.emit(StepBegan("open", "opening the test set"))
    plan, parted, data, fitted = state.plan, made(state.parted), made(state.training), made(state.fitted)
    test = Vault(parted.name).read(parted.vault)
    with one_blas_thread():
        predicted = predictions_for(plan, data, fitted.model, test)
    scored = _coded(predicted[plan.measure(plan.metric).needs], data.rows.classes)
    before = None if context.reason else _before(state, context, test, scored)
    if before is not None:
        return before
    look = record_look(
        context.ledger,
        parted.sealed.seal,
        test,
        scored,
        study=parted.name,
        looks=plan.looks,
        level=plan.level,
        reason=context.reason,
        despite={check.code: check.title for check in made(state.checks).stops},
    )
    context.emit(LookRecorded(look))
    y = _target(plan, test, data.rows.classes)
    # Also a planned look is recorded with its losses: one beyond the plan is compared with the best so far.
    released = _climb(plan, data, context, test, y, predicted, look)
    intervals = {} if look.level is None else _intervals(plan, data, fitted.selection.name, test, y, predicted, look)
    kinds = {name: plan.kinds[name] for name in plan.features}
    parts = compare_parts(_one_each(parted.train, plan.group), _one_each(test, plan.group), kinds)
    tail = _tail(plan, data, y, predicted) if plan.metric in intervals else None
    notes = (*look.notes, *_notes(plan, parted, context, look))
    figures, compared, why = (
        ({}, None, ()) if look.level is None else _baseline(state, context, test, y, predicted, look)
    )
    notes += why
    if tail is not None:
        notes += tuple(tail_notes(plan.measure(plan.metric), tail))
    notes += tuple(_other_tails(plan, data, y, predicted, intervals))
    notes += tuple(_in_time(plan, data, test, y, predicted)) if intervals else ()
    answer = released if look.beyond else None
    return Opened(
        parted.name,
        plan.metric,
        intervals,
        answer,
        look,
        y,
        predicted,
        data.rows.classes,
        notes,
        parts,
        tail,
        figures,
        compared,
    )


def _before(state: StudyState, context: Context, test: pd.DataFrame, scored: Array) -> Opened | None:
    """What is on record, if this study took its look with other predictions than its refit gives now."""
    plan, parted, data = state.plan, made(state.parted), made(state.training)
    result = result_on_record(context.ledger, parted.name)
    if result is None:
        return None
    look = other_look(context.ledger, parted.sealed.seal, test, scored, parted.name)
    if look is None or look.beyond:
        return None
    guess = _guess(state, context, test)
    figures = _guess_figures(data, plan, _target(plan, test, data.rows.classes), guess, result["test"])
    n = len(test) if plan.group is None else int(test[plan.group].nunique())
    return opened_before(plan, parted.name, result, look, data.rows.classes, n, figures)


def _guess(state: StudyState, context: Context, test: pd.DataFrame) -> dict[str, Array]:
    """What the baseline predicts, fitted to the same training rows."""
    plan, data = state.plan, made(state.training)
    with one_blas_thread(), collected():
        return predictions_for(plan, data, refit(plan, data, BASELINE, context.n_jobs), test)


def _guess_figures(
    data: TrainingData, plan: Plan, y: Array, guess: dict[str, Array], among: Container[str]
) -> dict[str, float]:
    """The figures of the baseline, for the metrics named."""
    classes = data.rows.classes
    return {
        metric.name: _without_interval(
            metric, y, guess[metric.needs], plan.level, class_options(metric, classes)
        ).estimate
        for metric in data.metrics
        if metric.needs in guess and metric.name in among
    }


def _coded(predicted: Array, classes: Array | None) -> Array:
    """Labels as positions among the classes, numbers as they are."""
    return predicted if classes is None or predicted.dtype.kind == "f" else np.searchsorted(classes, predicted)


def _target(plan: Plan, test: pd.DataFrame, classes: Array | None) -> Array:
    return test[plan.target].to_numpy(dtype=float) if classes is None else np.array(test[plan.target].tolist())


def _intervals(
    plan: Plan, data: TrainingData, name: str, test: pd.DataFrame, y: Array, predicted: dict[str, Array], look: Look
) -> dict[str, Interval]:
    """Each metric with its interval: the primary one at the level of the look, the others at that of the plan."""
    intervals: dict[str, Interval] = {}
    for metric in data.metrics:
        if metric.needs not in predicted:
            continue
        level = float(look.level or 0) if metric.name == plan.metric else plan.level
        options, values = class_options(metric, data.rows.classes), predicted[metric.needs]
        try:
            if plan.group is None:
                interval = metric.interval(y, values, level=level, **options)
            else:
                interval = grouped_interval(metric, y, values, test[plan.group], level=level, **options)
        except DataError as error:  # the look is taken; what it cannot tell is a result as well
            interval = _without_interval(metric, y, values, level, options, error.what)
        intervals[metric.name] = replace(interval, estimand=f"{metric.name} of {name} on {plan.population}")
    return intervals


def _without_interval(
    metric: Metric, y: Array, said: Array, level: float, options: dict[str, Any], why: str = ""
) -> Interval:
    """The figure with the whole range as its interval, where these predictions leave the metric without one."""
    try:
        value = float(metric(y, said, **options))
    except DataError:
        value = float("nan")
    return Interval(value, *metric.range, level, f"whole range ({why})", y.size, metric.name)


def _baseline(
    state: StudyState, context: Context, test: pd.DataFrame, y: Array, predicted: dict[str, Array], look: Look
) -> tuple[dict[str, float], BaselineTest | None, tuple[str, ...]]:
    """The figures of the baseline on the test rows, the test of the selected learner against it, and why there is none.

    With the baseline selected there is nothing to test.
    """
    plan, data, chosen = state.plan, made(state.training), made(state.fitted).selection.name
    try:
        guess = _guess(state, context, test)
    except AssayError as error:
        return {}, None, (f"the selected learner is not compared with the baseline: {error.what}",)
    judged = {metric.name for metric in data.metrics if metric.needs in predicted}
    figures = _guess_figures(data, plan, y, guess, judged)
    if chosen == BASELINE:
        return figures, None, ()
    metric = plan.measure(plan.metric)
    try:
        compared = against_baseline(
            metric,
            y,
            predicted[metric.needs],
            guess[metric.needs],
            name=chosen,
            level=float(look.level or 0),
            groups=None if plan.group is None else test[plan.group].to_numpy(),
            random_state=plan.seed,
            **class_options(metric, data.rows.classes),
        )
    except DataError as error:
        return figures, None, (f"{chosen} cannot be compared with the baseline on the test rows: {error.what}",)
    return figures, compared, ()


def _tail(plan: Plan, data: TrainingData, y: Array, predicted: dict[str, Array]) -> TailDiagnosis | None:
    """Whether a few test rows carry the primary figure."""
    metric = plan.measure(plan.metric)
    try:
        return tail_of(metric, y, predicted[metric.needs], **class_options(metric, data.rows.classes))
    except DataError:  # without losses there is no figure either, and its interval says so
        return None


def _other_tails(
    plan: Plan, data: TrainingData, y: Array, predicted: dict[str, Array], intervals: dict[str, Interval]
) -> list[str]:
    """The warning for further figures whose losses a few rows carry, once per loss and not for that of the primary."""
    primary = plan.measure(plan.metric)
    notes: list[str] = []
    known = {loss_words(primary)}
    few = len(y) < FEW_ROWS and primary.needs == "values" and loss_behind(primary) is None
    for metric in data.metrics:
        if metric.name not in intervals or loss_behind(metric) is None or loss_words(metric) in known:
            continue
        tail = tail_of(metric, y, predicted[metric.needs], **class_options(metric, data.rows.classes))
        if tail is not None and (tail.heavy or (few and not notes)):
            notes.append(tail_notes(metric, tail)[0])
        known.add(loss_words(metric))
    return notes


def _in_time(plan: Plan, data: TrainingData, test: pd.DataFrame, y: Array, predicted: dict[str, Array]) -> list[str]:
    """That rows which follow each other in time are alike, where their losses show it by more than chance."""
    metric = mean_behind(plan.measure(plan.metric))
    if plan.time is None or plan.group is not None or metric is None:
        return []
    losses = metric.per_row(y, predicted[metric.needs], **class_options(metric, data.rows.classes))
    assert losses is not None
    gaps = (losses - losses.mean())[np.argsort(test[plan.time].to_numpy(), kind="stable")]
    alike = float(gaps[1:] @ gaps[:-1] / max(gaps @ gaps, np.finfo(float).tiny))
    if alike * np.sqrt(gaps.size) <= CHANCE:
        return []
    worth = gaps.size * (1 - alike) / (1 + alike)
    return [
        f"errors of rows that follow each other in {plan.time!r} are alike (correlation {alike:.2f}), so these "
        f"{gaps.size:,} rows tell about as much as {max(1, round(worth)):,} independent ones: the intervals and the "
        "test against the baseline count rows and are too narrow, so take them as a guide"
    ]


def _one_each(frame: pd.DataFrame, group: str | None) -> pd.DataFrame:
    """One row per group, for tests that take rows as independent."""
    return frame if group is None else frame.drop_duplicates(group, ignore_index=True)


def _notes(plan: Plan, parted: Parted, context: Context, look: Look) -> list[str]:
    notes = []
    if plan.group is not None and not look.beyond:
        notes.append(f"rows with the same {plan.group!r} may be alike, so intervals are based on groups, not rows")
    scored = parted.sealed.entry.body.get("scored")
    if scored:
        notes.append(f"{scored:,} of the test rows had been scored as training rows under an earlier seal")
    seen = opened_rows_in(context.ledger, parted.train, parted.sealed.seal)
    if seen:
        notes.append(
            f"{seen} training rows were test rows in an earlier look, so the choice of models may depend on them"
        )
    return notes


def _climb(
    plan: Plan,
    data: TrainingData,
    context: Context,
    test: pd.DataFrame,
    y: Array,
    predicted: dict[str, Array],
    look: Look,
) -> Release:
    """What the Ladder says of the primary metric's losses, or of the plainest loss where it has none per row."""
    classes, metric = data.rows.classes, plan.measure(plan.metric)
    judged = metric if metric.losses is not None else get_metric("mse" if classes is None else "error")
    losses = judged.per_row(y, predicted[judged.needs], **class_options(judged, classes))
    assert losses is not None
    losses = 1.0 - losses if judged.greater_is_better else losses
    return release(context.ledger, look, test, losses, loss=judged.name)


def _record(state: StudyState, context: Context) -> None:
    """Write down what was selected and found, once."""
    name = made(state.parted).name
    intervals = {} if state.opened is None else state.opened.intervals
    body: dict[str, Any] = {
        "selected": made(state.fitted).selection.name,
        "fitted": made(state.fitted).digest(made(state.training).rows.X),
        "test": None if state.opened is None else {name: one.estimate for name, one in intervals.items()},
        "limits": {name: [one.lower, one.upper] for name, one in intervals.items()},
    }
    shown = state.opened or state.outer
    if state.outer is not None:
        body["outer"] = {name: one.estimate for name, one in state.outer.intervals.items()}
        body["limits"] = {name: [one.lower, one.upper] for name, one in state.outer.intervals.items()}
    if shown is not None and shown.against_baseline is not None:
        found = shown.against_baseline
        body["against_baseline"] = [found.difference, found.lower, found.upper, found.p_value, found.level]
    earlier = context.ledger.entries("result", name)
    # A version that recorded less is not contradicted by this one.
    if not earlier or any(body.get(key) != value for key, value in earlier[-1].body.items()):
        context.ledger.append("result", body, name)
