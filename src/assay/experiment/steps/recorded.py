"""A study that was finished before, read again by a version that fits another model: what is on record holds.

Show, report and resume fit the selected recipe again. Where that gives other predictions than those that were scored
(another version, another platform), scoring them would be another look at the test set. So the selection and the
figures are those of the ledger, and a note says that the model at hand is not the one that was scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.experiment.outcome import Opened
from assay.experiment.plan import Plan
from assay.experiment.storage.ledger import Ledger
from assay.experiment.test_set.against_baseline import BaselineTest
from assay.experiment.test_set.looks import Look
from assay.results import Interval

__all__ = ["opened_before", "result_on_record"]

METHOD = "recorded"
"""What stands for the method of a figure that is read from the ledger."""


def result_on_record(ledger: Ledger, study: str) -> Mapping[str, Any] | None:
    """The last record of an opened test set: what was selected, figures and limits; None before it was opened."""
    found = [entry.body for entry in ledger.entries("result", study) if entry.body.get("test")]
    return found[-1] if found else None


def opened_before(
    plan: Plan, study: str, result: Mapping[str, Any], look: Look, classes: Any, n: int, baseline: Mapping[str, float]
) -> Opened:
    """The opened test set as it was recorded; test targets and predictions are not part of the record."""
    intervals = {}
    for name, estimate in result["test"].items():
        lower, upper = result.get("limits", {}).get(name, plan.measure(name).range)
        level = look.level if name == plan.metric and look.level is not None else plan.level
        estimand = f"{name} of {result['selected']} on {plan.population}"
        intervals[name] = Interval(float(estimate), float(lower), float(upper), level, METHOD, n, estimand)
    compared = None
    if result.get("against_baseline") and plan.metric in baseline:
        difference, lower, upper, p, level = (float(one) for one in result["against_baseline"])
        better = plan.measure(plan.metric).greater_is_better
        compared = BaselineTest(plan.metric, result["selected"], difference, lower, upper, p, level, METHOD, n, better)
    note = (
        f"these figures were recorded on {look.entry.created[:10]}, when the test set was opened; a refit by this "
        "version predicts differently and has not been scored, so the model at hand is not quite the one they are of"
    )
    return Opened(
        study,
        plan.metric,
        intervals,
        None,
        look,
        np.empty(0),
        {},
        classes,
        (*look.notes, note),
        baseline=baseline,
        against_baseline=compared,
        recorded=True,
    )
