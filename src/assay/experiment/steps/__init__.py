"""The steps of a study, each a function of a state and a context that returns another state.

    read -> seal -> check -> evaluate -> compare -> select -> outer -> open -> publish

`Study`, the command line and whatever else runs a study take the same list and listen to the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from assay.experiment.state import Context, StudyState
from assay.experiment.steps.check import check
from assay.experiment.steps.compare import compare
from assay.experiment.steps.evaluate import evaluate
from assay.experiment.steps.open import open_test_set
from assay.experiment.steps.outer import outer
from assay.experiment.steps.publish import publish
from assay.experiment.steps.read import read
from assay.experiment.steps.seal import load, seal
from assay.experiment.steps.select import select

__all__ = ["STEPS", "advance", "load", "read"]

Step = Callable[[StudyState, Context], StudyState]

STEPS: dict[str, Step] = {
    "seal": seal,
    "check": check,
    "evaluate": evaluate,
    "compare": compare,
    "select": select,
    "outer": outer,
    "open": open_test_set,
    "publish": publish,
}
"""By name, in order; `read` comes before them and makes the first state."""

ORDER = ["read", *STEPS]


def advance(state: StudyState, context: Context, last: str) -> Iterator[StudyState]:
    """The state after each step that is not done yet, up to `last`."""
    for name in ORDER[ORDER.index(state.done) + 1 : ORDER.index(last) + 1]:
        state = replace(STEPS[name](state, context), done=name)
        yield state
