"""Whether a few training rows dominate the out-of-fold error: a reason to use another metric, before the look."""

from __future__ import annotations

from assay.evaluation import Validation
from assay.experiment.checks.facts import Check, idle, passed
from assay.inference import TailDiagnosis, diagnose_tail
from assay.metrics.definition import Metric
from assay.metrics.tails import MILDER, loss_behind, loss_words

__all__ = ["CODE", "error_tail", "tail_out_of_fold"]

CODE = "error-tail"
WHEN = {
    "sealed": "; decide before the test set is opened (--no-open keeps it sealed)",
    "opening": ", in a study of new rows: chosen after the look at these, it would be chosen by their result",
    "none": "",
}


def tail_out_of_fold(result: Validation, metric: Metric) -> TailDiagnosis | None:
    """The tail of a learner's out-of-fold losses; None where the metric is not a mean of unbounded ones."""
    behind = loss_behind(metric)
    return None if behind is None else diagnose_tail(*result.row_losses(behind))


def error_tail(metric: Metric, learner: str, tail: TailDiagnosis | None, test_set: str = "sealed") -> Check:
    """The finding for a learner whose out-of-fold losses have this tail; never made from test rows.

    `test_set` is "sealed" while another metric may still be chosen, "opening" where this run opens it, or "none".

    >>> from assay.metrics import rmse
    >>> found = error_tail(rmse, "ridge", TailDiagnosis(400, 5, 0.41, 0.8, True))
    >>> print(found.detail)
    out of fold, 5 of 400 rows make up 41% of the squared error of ridge
    >>> print(found.remedy)
    consider --metric mae, which depends less on them; decide before the test set is opened (--no-open keeps it sealed)
    """
    title = f"a few rows that dominate the {loss_words(metric)}"
    if tail is None:
        return idle(
            CODE, "a few rows that dominate the error", "warning", f"{metric.name} is not a mean of unbounded losses"
        )
    text = f"out of fold, {tail.carried(loss_words(metric))} of {learner}"
    if not tail.heavy:
        return passed(CODE, title, "warning", text)
    milder = MILDER.get(metric.name)
    remedy = "look at these rows: they may be data errors, or what matters most"
    if milder is not None:
        remedy = f"consider --metric {milder}, which depends less on them"
        remedy += WHEN[test_set]
    return Check(CODE, title, "found", "warning", text, (), remedy)
