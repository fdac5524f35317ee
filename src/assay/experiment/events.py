"""What a study reports while it runs, for whoever listens: a console, a notebook, a page, a log.

A listener is a function of one event; `str(event)` is a sentence. `print` is a listener.

>>> str(LearnerBegan("ridge", 2, 4)), str(FoldDone("ridge", 3, 10))
('ridge (2 of 4)', 'ridge, fold 3 of 10')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.evaluation import Validation
    from assay.experiment.test_set.looks import Look

__all__ = [
    "Event",
    "FoldDone",
    "InOuterFold",
    "LearnerBegan",
    "LearnerFailed",
    "LearnerStopped",
    "Listener",
    "LookRecorded",
    "StepBegan",
    "StepsDone",
    "silent",
]


@dataclass(frozen=True)
class Event:
    """Something that happened in a study."""


@dataclass(frozen=True)
class StepBegan(Event):
    """A step begins; `doing` says what it does."""

    step: str
    doing: str

    def __str__(self) -> str:
        return self.doing


@dataclass(frozen=True)
class StepsDone(Event):
    """All steps up to this one are done; nothing more happens until the study is asked for more."""

    step: str

    def __str__(self) -> str:
        return f"done: {self.step}"


@dataclass(frozen=True)
class LearnerBegan(Event):
    """A learner's folds begin; `best` is the best result so far."""

    learner: str
    number: int
    total: int
    best: Validation | None = None

    def __str__(self) -> str:
        text = f"{self.learner} ({self.number} of {self.total})"
        if self.best is None:
            return text
        return f"{text}, best so far {self.best.name} ({self.best.metric.name} {self.best.figure()})"


@dataclass(frozen=True)
class FoldDone(Event):
    """So many folds of a learner are in the journal."""

    learner: str
    done: int
    total: int

    def __str__(self) -> str:
        return f"{self.learner}, fold {self.done} of {self.total}"


@dataclass(frozen=True)
class LearnerFailed(Event):
    """A learner could not be fitted or has no figure; the others go on."""

    learner: str
    reason: str

    def __str__(self) -> str:
        return f"{self.learner} failed: {self.reason}"


@dataclass(frozen=True)
class LearnerStopped(Event):
    """A learner that cannot win any more after the first folds."""

    learner: str
    reason: str

    def __str__(self) -> str:
        return f"{self.learner} stopped: {self.reason}"


@dataclass(frozen=True)
class InOuterFold(Event):
    """An event of the whole procedure, repeated without the rows of an outer fold; None when the fold begins."""

    fold: int
    total: int
    event: Event | None = None

    def __str__(self) -> str:
        return f"outer fold {self.fold} of {self.total}" + ("" if self.event is None else f": {self.event}")


@dataclass(frozen=True)
class LookRecorded(Event):
    """A look at the test set is in the ledger; nothing has been scored yet."""

    look: Look

    def __str__(self) -> str:
        return str(self.look)


Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """A listener that ignores everything."""
