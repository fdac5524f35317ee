"""Progress of a study in a notebook: one line with a bar, updated in place; nothing but IPython itself is needed."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from assay.experiment.events import (
    Event,
    FoldDone,
    InOuterFold,
    LearnerBegan,
    LearnerFailed,
    LearnerStopped,
    Listener,
    StepsDone,
    silent,
)
from assay.progress import audience

__all__ = ["NotebookProgress", "usual_listener"]


def usual_listener() -> Listener:
    """Who hears of a study where no listener is given: a line in a notebook, elsewhere nobody.

    >>> usual_listener() is silent
    True
    """
    return NotebookProgress() if audience() == "notebook" else silent


class NotebookProgress:
    """A listener that shows the share of folds done and what is being done; removed when the steps are done.

    The share is that of all folds of all learners, those of learners that failed or were stopped counted as done.
    """

    def __init__(self) -> None:
        self.folds: dict[str, float] = {}
        self.learners = 0
        self.doing = ""
        self._display: Any = None

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        if isinstance(event, StepsDone):
            self._show("", "")
            self._display = None
            self.folds, self.learners = {}, 0
            return
        share = self._share(event)
        if isinstance(event, FoldDone):
            text = f"{self.doing}, fold {event.done} of {event.total}"
        else:
            text = self.doing = str(event)
        bar = "<progress></progress>" if share is None else f'<progress value="{share:.4f}" max="1"></progress>'
        percent = "" if share is None else f"{100 * share:.0f}% "
        self._show(f"{bar} {percent}{escape(text)}", f"{percent}{text}")

    def _share(self, event: Event) -> float | None:
        """How much is done, from 0 to 1; None where that is not known."""
        if isinstance(event, InOuterFold):
            return (event.fold - 1) / event.total
        if isinstance(event, LearnerBegan):
            self.learners = max(self.learners, event.total)
            self.folds.setdefault(event.learner, 0.0)
        elif isinstance(event, FoldDone):
            self.folds[event.learner] = event.done / event.total
        elif isinstance(event, LearnerFailed | LearnerStopped):
            self.folds[event.learner] = 1.0
        else:
            return None
        return sum(self.folds.values()) / max(self.learners, len(self.folds))

    def _show(self, html: str, text: str) -> None:
        shown = {"text/html": html, "text/plain": text}
        if self._display is not None:
            self._display.update(shown, raw=True)
        elif text:
            self._display = sys.modules["IPython"].display.display(shown, raw=True, display_id=True)
