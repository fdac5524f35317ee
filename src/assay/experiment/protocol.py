"""How the training rows are split to evaluate learners: folds, a holdout, leave-one-out, five times two.

    K          each row is tested once, by a model trained on the other K - 1 folds; `repeats` deals them anew
    holdout    one validation part, the same for all learners; `repeats` draws others
    loo        each row (each group, where rows come in groups) is tested by a model trained on all others
    5x2        five times two halves (Dietterich 1998, Neural Computation 10)

In the order of time the parts follow the rows they are predicted from. A holdout's share is one of the whole table:
with a test set of 0.2 and `validation` 0.1, learners are trained on 70% of it. O(n log n) per repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import DataError, ParameterError
from assay.experiment.options import Options
from assay.resampling import FiveByTwo, Folds, Holdout, LeaveOneOut, TimeFolds, splits_of
from assay.words import plural

if TYPE_CHECKING:
    from assay.evaluation.learner import Rows
    from assay.experiment.plan import Plan

__all__ = [
    "OUTER",
    "folds_at_least",
    "in_folds",
    "left_out",
    "number_of_splits",
    "outer_splits",
    "refuse_protocol",
    "splits_for",
]

Array = np.ndarray
OUTER = (10, 5)
"""Outer folds where there is no test set, and how many where that many would be dear."""
FOLDS = 5
"""Folds in place of holdouts, where each row needs a prediction."""
VALIDATION = 0.2
"""The share of a holdout's validation part, unless one is given."""


def refuse_protocol(asked: Options) -> None:
    """Refuse options that contradict each other.

    >>> refuse_protocol(Options(cv="loo", repeats=3))
    Traceback (most recent call last):
    ...
    assay.errors.ParameterError: cv = 'loo' has no repeats; leave repeats out, or use folds
    """
    cv, repeats, time = asked.cv, asked.repeats, asked.time
    if asked.known_groups and (asked.group is None or time is None):
        raise ParameterError("known_groups needs a group and a time", remedy="pass both, or leave known_groups out")
    if cv in ("loo", "5x2"):
        if repeats != 1:
            raise ParameterError(f"cv = {cv!r} has no repeats", remedy="leave repeats out, or use folds")
        if time is not None:
            raise ParameterError(f"cv = {cv!r} ignores the order of time", remedy="use a number of folds, or holdout")
    if time is not None and repeats != 1:
        which = "a holdout in the order of time has" if cv == "holdout" else "folds in the order of time have"
        raise ParameterError(f"{which} no repeats", remedy="leave repeats out")
    if cv != "holdout" and asked.validation is not None:
        remedy = 'use cv="holdout", or leave validation out'
        raise ParameterError("validation is the share of a holdout", remedy=remedy, option=("cv", "holdout"))
    if asked.margin is not None and (asked.test_size != "auto" or asked.test is not None):
        fixed = "a test file is given" if asked.test is not None else f"test_size = {asked.test_size!r}"
        message = f"margin sets the size of the test set that test_size = 'auto' chooses, but {fixed}"
        raise ParameterError(message, remedy="leave margin or the other out")
    if not asked.refit and (cv != "holdout" or repeats != 1):
        message = "without a refit there must be one holdout, but there are several splits"
        raise ParameterError(message, remedy="use cv='holdout' without repeats, or refit")


def folds_at_least(plan: Plan) -> int:
    """The number of parts that every class must fill: K, or two."""
    return plan.cv if isinstance(plan.cv, int) else 2


def number_of_splits(plan: Plan, n: int) -> int:
    """How many times each learner is fitted, for n rows."""
    return {"holdout": plan.repeats, "loo": n, "5x2": 10}.get(str(plan.cv), folds_at_least(plan) * plan.repeats)


def splits_for(plan: Plan, rows: Rows, n_all: int) -> Sequence[tuple[Array, Array]]:
    """The training and validation rows of each split; `n_all` counts the rows of the table, test rows included."""
    stratify = plan.task == "classification"
    cv: Any
    if plan.cv == "holdout":
        return _holdouts(plan, rows, n_all, stratify)
    if plan.time is not None:
        return _later(plan, splits_of(TimeFolds(int(plan.cv)), rows.X, rows.y), rows.groups)
    if plan.cv == "loo":
        groups = 0 if rows.groups is None else np.unique(rows.groups).size
        cv = LeaveOneOut() if rows.groups is None else Folds(groups, stratify=False, random_state=plan.seed)
    elif plan.cv == "5x2":
        cv = FiveByTwo(stratify=stratify, random_state=plan.seed)
    else:
        cv = Folds(int(plan.cv), repeats=plan.repeats, stratify=stratify, random_state=plan.seed)
    return splits_of(cv, rows.X, rows.y, groups=rows.groups)


def in_folds(plan: Plan, rows: Rows) -> Plan:
    """The plan with folds in place of holdouts, after which some rows have no prediction by a model without them."""
    if plan.cv != "holdout" or plan.time is not None:
        return plan
    most = rows.n if rows.groups is None else np.unique(rows.groups).size
    if plan.task == "classification":
        most = min(most, np.unique(rows.y, return_counts=True)[1].min())
    return replace(plan, cv=max(2, min(FOLDS, int(most))), repeats=1, validation=None)


def outer_splits(plan: Plan, rows: Rows, n_folds: int) -> Sequence[tuple[Array, Array]]:
    """The outer folds of a study without a test set; in the order of time, of the later half of the rows."""
    if plan.time is not None:
        parts = TimeFolds(n_folds, test_size=max(1, rows.n // (2 * n_folds)))
        return _later(plan, splits_of(parts, rows.X, rows.y), rows.groups)
    count = n_folds if rows.groups is None else min(n_folds, np.unique(rows.groups).size)
    cv = Folds(count, stratify=plan.task == "classification", random_state=plan.seed)
    return splits_of(cv, rows.X, rows.y, groups=rows.groups)


def left_out(plan: Plan, splits: Sequence[tuple[Array, Array]], asked: int) -> tuple[str, ...]:
    """A note where folds have no later rows of new groups, and so are not among the splits."""
    missing = asked - len(splits)
    if plan.time is None or plan.group is None or not missing:
        return ()
    text = f"{missing} of {plural(asked, 'fold')} {'has' if missing == 1 else 'have'} no later rows of a new "
    return (
        text + f"{plan.group!r} and {'is' if missing == 1 else 'are'} left out; known_groups (--known-groups) "
        "would predict later rows of known groups as well",
    )


def _later(plan: Plan, splits: Sequence[tuple[Array, Array]], groups: Array | None) -> Sequence[tuple[Array, Array]]:
    """Splits in the order of time; where new groups are asked for, without the later rows of groups trained on."""
    if groups is None or plan.known_groups:
        return splits
    new = [(train, test[~np.isin(groups[test], groups[train])]) for train, test in splits]
    kept = [(train, test) for train, test in new if test.size]
    if not kept:
        message = f"no fold has later rows of a {plan.group!r} that was not trained on"
        raise DataError(message, remedy="pass known_groups (--known-groups) to predict later rows of known groups")
    return kept


def _holdouts(plan: Plan, rows: Rows, n_all: int, stratify: bool) -> Sequence[tuple[Array, Array]]:
    share = (VALIDATION if plan.validation is None else plan.validation) * n_all / rows.n
    if share >= 1:
        message = f"{share * rows.n:,.0f} validation rows were requested, but only {rows.n:,} rows are not test rows"
        raise DataError(message, remedy="use a smaller share for validation or for the test set")
    if plan.time is not None:
        part = TimeFolds(1, test_size=max(1, round(share * rows.n)))
        return _later(plan, splits_of(part, rows.X, rows.y), rows.groups)
    seeds = np.random.SeedSequence(plan.seed).spawn(plan.repeats)
    parts = [Holdout(share, stratify=stratify, random_state=np.random.default_rng(seed)) for seed in seeds]
    return [pair for one in parts for pair in splits_of(one, rows.X, rows.y, groups=rows.groups)]
