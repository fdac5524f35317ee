"""Selecting: the simplest learner within one standard error of the best, refitted to all training rows."""

from __future__ import annotations

from dataclasses import replace

from assay.errors import AssayError
from assay.evaluation import Selection
from assay.evaluation import select as select_result
from assay.experiment.checks.facts import Check
from assay.experiment.checks.tails import error_tail
from assay.experiment.events import LearnerFailed, StepBegan
from assay.experiment.panel import BASELINE
from assay.experiment.plan import RULES
from assay.experiment.state import Context, Fitted, StudyState, made
from assay.experiment.steps.compare import compare
from assay.experiment.steps.evaluate import refit
from assay.experiment.warned import collected
from assay.inference import diagnose_tail
from assay.metrics import get_metric
from assay.metrics.tails import loss_behind
from assay.numerics.threads import one_blas_thread

__all__ = ["select"]


def select(state: StudyState, context: Context) -> StudyState:
    """Select and refit; a learner that cannot be fitted to all training rows has failed, and the next is selected.

    The baseline may be chosen only if no learner is shown to beat it.
    """
    while True:
        context.emit(StepBegan("select", "selecting"))
        chosen = _choose(state)
        which = "all training rows" if state.plan.refit else "the rows outside the holdout"
        context.emit(StepBegan("select", f"fitting {chosen.name} to {which}"))
        try:
            with one_blas_thread(), collected() as warned:  # as in the folds: cores must not reach the last digit
                model = refit(state.plan, made(state.training), chosen.name, context.n_jobs)
        except AssayError as error:
            context.emit(LearnerFailed(chosen.name, str(error)))
            state = _without(state, context, chosen.name, error)
            continue
        checks = made(state.checks).joined(_error_tail(state, chosen.name))
        return replace(state, checks=checks, fitted=Fitted(chosen, model, tuple(warned)))


def _error_tail(state: StudyState, name: str) -> Check:
    """Whether a few training rows carry the figure: said now, while another metric may still be chosen."""
    metric = get_metric(state.plan.metric)
    behind = loss_behind(metric)
    losses, weights = (None, None) if behind is None else made(state.leaderboard).results[name].row_losses(behind)
    return error_tail(metric, name, None if losses is None else diagnose_tail(losses, weights))


def _choose(state: StudyState) -> Selection:
    results = dict(made(state.leaderboard).results)
    if any(state.beats_baseline(name) for name in results):
        results.pop(BASELINE, None)
    order = [name for name in state.plan.learners if name in results]
    return select_result(results, rule=RULES[state.plan.select], simplicity=order)


def _without(state: StudyState, context: Context, name: str, error: AssayError) -> StudyState:
    """Go on without a learner, as with one that failed in a fold."""
    board = made(state.leaderboard)
    left = {other: result for other, result in board.results.items() if other != name}
    if not left:
        raise error
    failed = {**board.failed, name: str(error)}
    return compare(replace(state, leaderboard=replace(board, results=left, failed=failed)), context)
