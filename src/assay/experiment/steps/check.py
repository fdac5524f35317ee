"""Checking: what is suspicious about the training rows, before anything is learned from them."""

from __future__ import annotations

from dataclasses import replace

from assay.experiment.checks import check_table
from assay.experiment.checks.finished import unfinished
from assay.experiment.events import StepBegan
from assay.experiment.protocol import folds_at_least
from assay.experiment.state import Context, StudyState, made

__all__ = ["check"]


def check(state: StudyState, context: Context) -> StudyState:
    """Check the training rows."""
    context.emit(StepBegan("check", "checking the training rows"))
    plan, parted = state.plan, made(state.parted)
    absent, seal = sum(state.missing.get(plan.target, {}).values()), parted.sealed.seal
    had = absent + (len(parted.train) if seal.by == "file" else seal.n)
    checks = check_table(
        parted.train,
        dict(plan.kinds),
        plan.target,
        plan.task,
        n_folds=folds_at_least(plan),
        group=plan.group,
        time=plan.time,
        drop=plan.drop,
        level=plan.level,
        metric=plan.metric,
        margin=parted.margin,
        left_out=(absent, had),
        n_test=parted.n_test if parted.has_test_set else None,
        test_groups=parted.test_groups,
        missing=state.missing,
    )
    state = replace(state, checks=checks.joined(unfinished(parted.name, {})))
    state.unanswered(context)  # refuses, before the work, a code that no check has
    return state
