"""Opening the test set: predictions first, then the ledger's record of the look, and only then a score.

If the record cannot be written there is no score. One primary metric carries the level of the look; the others are
told beside it. A look beyond the plan is answered by the Ladder alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from assay.errors import DataError
from assay.evaluation.learner import Rows, predictions, undefined
from assay.experiment.checks.shift import compare_parts
from assay.experiment.outcome import Opened
from assay.experiment.test_set.clusters import grouped_interval
from assay.experiment.test_set.ladder import Release
from assay.experiment.test_set.looks import Look, opened_rows_in, record_look
from assay.experiment.test_set.releases import release
from assay.experiment.test_set.vault import Vault
from assay.metrics import get_metric
from assay.metrics.definition import Metric
from assay.metrics.scorer import class_options
from assay.numerics.threads import one_blas_thread
from assay.results import Interval

if TYPE_CHECKING:
    from assay.experiment.plan import Plan
    from assay.experiment.study import Study

__all__ = ["open_test_set", "refuse_unscorable"]

Array = np.ndarray


def open_test_set(study: Study, reason: str | None) -> Opened:
    """The test rows out of the vault, predicted, recorded and scored, in this order."""
    sealed, model = study.seal(), study.model
    assert study.name is not None
    assert study.vault is not None
    study.says("opening the test set")
    test = Vault(study.name).read(study.vault)
    with one_blas_thread():
        found = _predict(study, model, test)
    look = record_look(
        study.ledger,
        sealed.seal,
        test,
        _coded(study, found[get_metric(study.plan.metric).needs]),
        study=study.name,
        looks=study.plan.looks,
        level=study.plan.level,
        reason=reason,
        despite={check.code: check.title for check in study.checks.stops},
    )
    return _score(study, test, found, look)


def refuse_unscorable(plan: Plan, train: pd.DataFrame, test: pd.DataFrame) -> None:
    """Refuse test rows that the plan could not score, before anything is computed."""
    y = test[plan.target].to_numpy()
    classes = None
    if plan.task == "classification":
        classes = np.array(sorted(set(train[plan.target].tolist())))
        unseen = sorted({str(value) for value in y.tolist()} - {str(value) for value in classes.tolist()})
        if unseen:
            what = f"class {unseen[0]!r} is in the test rows only"
            raise DataError(what, remedy="merge it with another, leave its rows out, or get more rows")
        y = np.array(y.tolist())
    why = undefined(get_metric(plan.metric), y, Rows(None, y, None, classes))
    if why is not None:
        what = f"{plan.metric} is not defined on the {len(test)} test rows: {why.what}"
        raise DataError(what, remedy="use another metric, or more rows")


def _predict(study: Study, model: Any, frame: pd.DataFrame) -> dict[str, Array]:
    """What the metrics need, by what it is; probabilities that only secondary metrics want may be absent."""
    X, found = frame[study.plan.features], {}
    for metric in study.data.metrics:
        wanted = metric.name == study.plan.metric or metric.needs != "probabilities" or hasattr(model, "predict_proba")
        if wanted and metric.needs not in found:
            found[metric.needs] = predictions(model, X, metric, study.data.rows.classes)
    return found


def _coded(study: Study, predicted: Array) -> Array:
    """Labels as positions among the classes, numbers as they are."""
    classes = study.data.rows.classes
    return predicted if classes is None or predicted.dtype.kind == "f" else np.searchsorted(classes, predicted)


def _target(study: Study, test: pd.DataFrame) -> Array:
    classes = study.data.rows.classes
    if classes is None:
        return test[study.plan.target].to_numpy(dtype=float)
    return np.array(test[study.plan.target].tolist())


def _score(study: Study, test: pd.DataFrame, found: dict[str, Array], look: Look) -> Opened:
    plan, rows, y = study.plan, study.data.rows, _target(study, test)
    # Also a planned look is recorded with its losses: one beyond the plan is compared with the best so far.
    told = _climb(study, test, y, found, look)
    intervals: dict[str, Interval] = {}
    if look.level is not None:
        for metric in study.data.metrics:
            if metric.needs in found:
                level = look.level if metric.name == plan.metric else plan.level
                options = class_options(metric, rows.classes)
                said = found[metric.needs]
                where = "new rows like the test rows"
                if plan.group is not None:
                    where = f"rows of new groups like the test groups (by {plan.group})"
                try:
                    if plan.group is None:
                        interval = metric.interval(y, said, level=level, **options)
                    else:
                        interval = grouped_interval(metric, y, said, test[plan.group], level=level, **options)
                except DataError as error:  # the look is taken; what it cannot tell is a result as well
                    interval = _without_interval(metric, y, said, level, error, options)
                told_of = f"{metric.name} of {study.select().name} on {where}"
                intervals[metric.name] = replace(interval, estimand=told_of)
    kinds = {name: plan.kinds[name] for name in plan.features}
    parts = compare_parts(_one_each(study.rows, plan.group), _one_each(test, plan.group), kinds)
    notes = (*look.notes, *_notes(study, look))
    answer = told if look.beyond else None
    assert study.name is not None
    return Opened(study.name, plan.metric, intervals, answer, look, y, found, rows.classes, notes, parts)


def _without_interval(
    metric: Metric, y: Array, said: Array, level: float, error: DataError, options: dict[str, Any]
) -> Interval:
    """The figure with the whole range as its interval, where these predictions leave the metric without one."""
    try:
        value = float(metric(y, said, **options))
    except DataError:
        value = float("nan")
    return Interval(value, *metric.range, level, f"whole range ({error.what})", y.size, metric.name)


def _one_each(frame: pd.DataFrame, group: str | None) -> pd.DataFrame:
    """One row per group, for tests that take rows as independent."""
    return frame if group is None else frame.drop_duplicates(group, ignore_index=True)


def _notes(study: Study, look: Look) -> list[str]:
    notes = []
    if study.plan.group is not None and not look.beyond:
        what = f"rows of one {study.plan.group} may be alike, so intervals count {study.plan.group} values, not rows"
        notes.append(what)
    seen = opened_rows_in(study.ledger, study.rows)
    if seen:
        notes.append(f"{seen} training rows were test rows of an earlier look, so models may have been chosen on them")
    return notes


def _climb(study: Study, test: pd.DataFrame, y: Array, found: dict[str, Array], look: Look) -> Release:
    """What the Ladder says of the primary metric's losses, or of the plainest loss where it has none per row."""
    classes, metric = study.data.rows.classes, get_metric(study.plan.metric)
    judged = metric if metric.losses is not None else get_metric("mse" if classes is None else "error")
    losses = judged.per_row(y, found[judged.needs], **class_options(judged, classes))
    assert losses is not None
    losses = 1.0 - losses if judged.greater_is_better else losses
    return release(study.ledger, look, test, losses, loss=judged.name)
