"""Whether every learner of the plan had the time to finish; without some of them a look would serve another plan."""

from __future__ import annotations

from collections.abc import Mapping

from assay.experiment.checks.facts import Check, passed

__all__ = ["CODE", "unfinished"]

CODE = "unfinished"
TITLE = "learners of the plan that are unfinished"


def unfinished(study: str, left: Mapping[str, str]) -> Check:
    """The finding for the learners that a clock left, each with the folds it had.

    >>> unfinished("houses-1", {}).status
    'passed'
    >>> print(unfinished("houses-1", {"boosting": "2 of 10 folds when the time ran out"}).remedy)
    finish them with: assay resume houses-1
    """
    if not left:
        return passed(CODE, TITLE, "serious", "no learner ran out of time")
    text = "; ".join(f"{name}: {why}" for name, why in left.items())
    return Check(CODE, TITLE, "found", "serious", text, (), f"finish them with: assay resume {study}")
