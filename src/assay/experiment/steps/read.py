"""Reading: the tables of a question, and the plan that decides every number of the study."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from assay.errors import DataError, DataTypeError, ParameterError
from assay.experiment.events import StepBegan
from assay.experiment.options import Options, config_text
from assay.experiment.panel import weighs_classes
from assay.experiment.plan import FEW_CLASSES, Plan, infer_task, is_rare, labels_of, learners_of, metrics_for, rare_note
from assay.experiment.protocol import refuse_protocol
from assay.experiment.state import Asked, Context, StudyState
from assay.experiment.table.kinds import DRESSED
from assay.experiment.table.question import read_parts
from assay.experiment.wording import called
from assay.metrics import get_metric

__all__ = ["read", "refuse_subgroups"]


def read(source: Any, target: str, options: Options, context: Context) -> StudyState:
    """The first state of a study: the table, what its columns hold, and the plan."""
    context.emit(StepBegan("read", "reading the table"))
    if not isinstance(target, str):
        remedy = "pass one table that contains the target, and the name of its column"
        raise DataTypeError(f"expected the name of a column as target, got a {type(target).__name__}", remedy=remedy)
    refuse_protocol(options)
    table, given, notes = read_parts(
        source,
        options.test,
        target,
        kinds=options.kinds,
        group=options.group,
        time=options.time,
        drop=tuple(options.drop),
        missing=options.missing,
    )
    refuse_subgroups(options.by, table.kinds, target)
    y, kind = table.frame[target], table.kinds[target]
    if options.task == "auto" and kind == "category":
        _refuse_dressed(y, target)
    task = infer_task(y, kind) if options.task == "auto" else options.task
    if task == "regression" and y.dtype.kind not in "biuf":
        message = f"the target {target!r} has kind {kind}, not number"
        remedy = f"if it contains numbers, set its kind (--kind {shlex.quote(target)}=number); else predict classes"
        raise DataError(message, remedy=remedy, option=("task", "classification"))
    primary, also = metrics_for(task, y, options.metric)
    labels, rare = None, task == "classification" and is_rare(y)
    weighed = weighs_classes(get_metric(primary))  # calibrating would undo what class weights are for
    if options.cost is not None or options.rate is not None:
        if task == "regression":
            raise ParameterError("cost and rate are for classes, not for numbers", remedy="leave them out")
        labels = labels_of(y)
        if options.cost is not None and options.metric is None:
            primary, also = "risk", (primary, *also)
    elif rare and options.metric is None:
        notes = [*notes, rare_note(y, primary)]
    elif weighed:
        text = f"{called(primary, short=True)} does not count every row alike"
        notes = [*notes, f"{text}, so class weights are part of the inner search of each learner that takes them"]
    learn_group = options.known_groups and (options.kinds or {}).get(str(options.group)) in ("number", "category")
    if options.known_groups and not learn_group:
        setting = shlex.quote(f"{options.group}=category")
        text = f"{options.group!r} groups the rows and is not learned from; as its groups are known, it may be: add "
        notes = [*notes, f"{text}--kind {setting} to use it as a feature"]
    plan = Plan(
        target=target,
        task=task,
        kinds=dict(table.kinds),
        learners=learners_of(task, options.panel, tuple(options.learners), len(table.frame)),
        metric=primary,
        also=also,
        gaps=dict(table.gaps),
        drop=tuple(dict.fromkeys(options.drop)),
        labels=labels,
        calibrate=True if rare and not (weighed and labels is None) else None,
        learn_group=learn_group or None,
        units=dict(table.units) or None,
        commas=dict(table.commas) or None,
        source=str(source) if isinstance(source, str | Path) else "frame",
        **{name: getattr(options, name) for name in Plan.asked()},
    )
    config = config_text(_absolute(source), target, replace(options, test=_absolute(options.test) or options.test))
    asked = Asked(table, given, options.test_size, options.margin, options.reseal, config)
    return StudyState(plan, tuple(notes), missing=dict(table.missing), asked=asked)


def _absolute(source: Any) -> str | None:
    """Where a file is, whatever directory the configuration is read from; None for a frame."""
    return str(Path(source).absolute()) if isinstance(source, str | Path) else None


def _refuse_dressed(y: pd.Series, target: str) -> None:
    """Refuse prices such as "$1,250" and other numbers in words, of which as many classes would be made."""
    levels = [one for one in y.dropna().unique().tolist() if isinstance(one, str)]
    if len(levels) <= FEW_CLASSES or sum(DRESSED.fullmatch(one) is not None for one in levels) <= 0.9 * len(levels):
        return
    message = f"the target {target!r} contains numbers with units or separators, such as {levels[0]!r}"
    remedy = "write them as plain numbers to predict numbers; to predict classes"
    raise DataError(message, remedy=remedy, option=("task", "classification"))


def refuse_subgroups(by: Sequence[str], kinds: Mapping[str, str], target: str) -> None:
    """Refuse columns that are not there, or that cannot have subgroups."""
    for name in by:
        if name not in kinds:
            raise ParameterError(f"unknown column {name!r} in by", remedy=f"choose among {', '.join(kinds)}")
        if name == target or kinds[name] in ("id", "text"):
            reason = "it is the target" if name == target else f"it has kind {kinds[name]}"
            message = f"column {name!r} in by has no subgroups: {reason}"
            raise ParameterError(message, remedy="choose a column of numbers, categories or dates")
