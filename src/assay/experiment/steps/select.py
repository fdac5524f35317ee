"""Selecting: the learner with the best figure, or a readable one about as good, refitted to all training rows."""

from __future__ import annotations

from dataclasses import replace

from assay.errors import AssayError
from assay.evaluation import Selection
from assay.evaluation import select as select_result
from assay.evaluation.select import about_as_good
from assay.experiment.checks.facts import Check
from assay.experiment.checks.tails import error_tail, tail_out_of_fold
from assay.experiment.events import LearnerFailed, StepBegan
from assay.experiment.outcome import Alternative
from assay.experiment.panel import BASELINE
from assay.experiment.state import Context, Fitted, StudyState, made
from assay.experiment.steps.compare import compare
from assay.experiment.steps.evaluate import refit
from assay.experiment.steps.recorded import result_on_record
from assay.experiment.warned import collected
from assay.numerics.threads import one_blas_thread

__all__ = ["select"]


def select(state: StudyState, context: Context) -> StudyState:
    """Select and refit; a learner that cannot be fitted to all training rows has failed, and the next is selected.

    The baseline is chosen only if its own figure is the best.
    """
    while True:
        context.emit(StepBegan("select", "selecting"))
        chosen, readable = _choose(state)
        chosen = _on_record(state, context, chosen)
        which = "all training rows" if state.plan.refit else "the rows outside the holdout"
        context.emit(StepBegan("select", f"fitting {chosen.name} to {which}"))
        try:
            with one_blas_thread(), collected() as warned:  # as in the folds: cores must not reach the last digit
                model = refit(state.plan, made(state.training), chosen.name, context.n_jobs)
        except AssayError as error:
            context.emit(LearnerFailed(chosen.name, str(error)))
            state = _without(state, context, chosen.name, error)
            continue
        checks = made(state.checks).joined(_error_tail(state, context, chosen.name))
        return replace(state, checks=checks, fitted=Fitted(chosen, model, tuple(warned), readable))


def _on_record(state: StudyState, context: Context, chosen: Selection) -> Selection:
    """The selection with which the test set was opened, which fixed it; before that, this one."""
    result = result_on_record(context.ledger, made(state.parted).name)
    name = chosen.name if result is None else result["selected"]
    if name == chosen.name or name not in made(state.leaderboard).results:
        return chosen
    why = f"It was selected when the test set was opened; this version would select {chosen.name}."
    return replace(chosen, name=name, rule="recorded", why=why)


def _error_tail(state: StudyState, context: Context, name: str) -> Check:
    """Whether a few training rows carry the figure: said now, while another metric may still be chosen."""
    metric = state.plan.measure(state.plan.metric)
    tail = tail_out_of_fold(made(state.leaderboard).results[name], metric)
    opening = context.open_test and not state.unanswered(context)
    test_set = "none" if not made(state.parted).has_test_set else "opening" if opening else "sealed"
    return error_tail(metric, name, tail, test_set)


def _choose(state: StudyState) -> tuple[Selection, Alternative | None]:
    """The best, ties going to the readable and then to the first listed; or its readable alternative, if asked for."""
    results = made(state.leaderboard).results
    readable = [one.name for one in made(state.training).learners if one.readable and one.name in results]
    order = [*readable, *(name for name in results if name not in readable)]
    chosen = select_result(results, rule="best", simplicity=order)
    found = _alternative(state, order, [name for name in readable if name != BASELINE])
    if state.plan.select == "readable" and found is not None and found.within and not found.is_best:
        chosen = replace(chosen, name=found.name, rule="readable", why=str(found))
    return chosen, found


def _alternative(state: StudyState, order: list[str], readable: list[str]) -> Alternative | None:
    """The best of the readable learners beside the best of all; None where there is none."""
    results = made(state.leaderboard).results
    if not readable:
        return None
    judged = select_result(results, simplicity=order)  # only for the standard errors of its table
    table = judged.table
    name = str(table.loc[readable, "difference"].idxmin())
    d, error = float(table["difference"][name]), float(table["allowed"][name])
    own = float(table["std_error"][judged.best])
    within = about_as_good(table, name, judged.best)
    if name == judged.best:
        within = True
    elif state.plan.time is not None:
        within = None
    result = results[name]
    return Alternative(name, judged.best, result.metric, result.figure(), d, error, own, within)


def _without(state: StudyState, context: Context, name: str, error: AssayError) -> StudyState:
    """Go on without a learner, as with one that failed in a fold."""
    board = made(state.leaderboard)
    left = {other: result for other, result in board.results.items() if other != name}
    if not left:
        raise error
    failed = {**board.failed, name: str(error)}
    return compare(replace(state, leaderboard=replace(board, results=left, failed=failed)), context)
