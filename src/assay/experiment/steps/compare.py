"""Comparing: all pairs of learners by the test that fits the folds, corrected for their number."""

from __future__ import annotations

from dataclasses import replace

from assay.evaluation import compare as compare_results
from assay.experiment.events import StepBegan
from assay.experiment.state import Context, StudyState, made

__all__ = ["compare"]


def compare(state: StudyState, context: Context) -> StudyState:
    """The comparisons; None where only one learner finished."""
    board = made(state.leaderboard)
    results = board.results
    if len(results) < 2:
        return replace(state, comparisons=None)
    context.emit(StepBegan("compare", "comparing the learners"))
    found = compare_results(
        dict(results), correction=state.plan.correction, level=state.plan.level, stopped=tuple(board.stopped)
    )
    return replace(state, comparisons=found)
