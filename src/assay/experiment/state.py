"""The state of a study: what each step has made, and nothing else; and the circumstances in which steps run.

    read -> seal -> check -> evaluate -> compare -> select -> outer -> open -> publish

A step takes a `StudyState` and returns another with its own part filled in; no step changes one. The part that cannot
be computed again, the sealed one, lies on disk from the moment it exists (`steps.seal`), finished folds lie in the
journal and looks in the ledger, so a state can be loaded after a kill and goes on to the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from assay.errors import ParameterError
from assay.evaluation import Comparison, Selection
from assay.evaluation.learner import Rows
from assay.experiment.checks import Check, Checks
from assay.experiment.events import Event, Listener, silent
from assay.experiment.outcome import Alternative, Leaderboard, Opened, Outer
from assay.experiment.panel import BASELINE, Learner
from assay.experiment.plan import Plan
from assay.experiment.storage import Ledger, home
from assay.experiment.table import Table
from assay.experiment.test_set.seal import Sealed
from assay.metrics.definition import Metric
from assay.numerics.threads import one_blas_thread

__all__ = ["Asked", "Context", "Fitted", "Parted", "Published", "StudyState", "TrainingData", "made"]

Array = np.ndarray
Part = TypeVar("Part")


def made(part: Part | None) -> Part:
    """A part of a state that an earlier step has made."""
    assert part is not None
    return part


@dataclass(frozen=True, eq=False)
class Context:
    """Where a study runs and what its user wishes; nothing here decides a figure of the folds.

    | field         | meaning                                                                     |
    |---------------|-----------------------------------------------------------------------------|
    | ledger        | where looks are recorded                                                    |
    | listener      | hears of every event                                                        |
    | n_jobs        | workers; None: all cores                                                    |
    | started       | when, as `time.monotonic()` tells                                           |
    | deadline      | learners not done by then are unfinished                                    |
    | hold          | whether learners that an earlier run left unfinished stay so                |
    | next_ready    | picks the next learner, by what is compiled                                 |
    | open_test     | whether the test set may be opened                                          |
    | reason        | why a look beyond the plan is needed                                        |
    | despite       | codes of serious checks that are answered                                   |
    | out, trust    | the directory for model and report, and classes that the model may hold     |
    | unit, by      | the target's unit in print, and columns whose subgroups are reported        |
    | background    | training rows that the model file holds, for contributions to predictions   |
    """

    ledger: Ledger
    listener: Listener = silent
    n_jobs: int | None = None
    started: float = 0.0
    deadline: float | None = None
    hold: bool = False
    next_ready: Callable[[Sequence[Learner]], int] | None = None
    open_test: bool = True
    reason: str | None = None
    despite: tuple[str, ...] = ()
    out: Path | None = None
    trust: tuple[str, ...] = ()
    unit: str | None = None
    by: tuple[str, ...] = ()
    background: int = 0

    def emit(self, event: Event) -> None:
        """Tell the listener."""
        self.listener(event)


@dataclass(frozen=True, eq=False)
class Asked:
    """The question with its tables, until their rows are parted: test rows included; `config` repeats it."""

    table: Table
    test: Table | None
    test_size: float | str
    margin: float | None
    reseal: str | None
    config: str


@dataclass(frozen=True, eq=False)
class Parted:
    """The training rows, and all that may be known of the test rows, which are in the vault.

    `row_numbers` are those of the training rows in the table as it was given, from 1, its header not counted. They and
    `test_groups`, the number of groups among the test rows, are None in studies of versions that did not record them.
    `margin` is the precision that was asked for; None: the usual one.
    """

    name: str
    sealed: Sealed
    train: pd.DataFrame
    n_test: int
    vault: str
    hashes: Mapping[str, str]
    row_numbers: Array | None = None
    test_groups: int | None = None
    margin: float | None = None

    @property
    def folder(self) -> Path:
        """Where the study keeps what it needs to go on."""
        return home() / "studies" / self.name

    @property
    def has_test_set(self) -> bool:
        """Whether rows were set aside; without a test set outer folds give the figure."""
        return self.sealed.seal.by != "none"


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The training rows as learners see them, the folds, the metrics and the learners.

    `row_numbers` are those of the rows in the table as it was given, from 1; None where they are not known.
    """

    frame: pd.DataFrame
    rows: Rows
    splits: Sequence[tuple[Array, Array]]
    metrics: tuple[Metric, ...]
    learners: tuple[Learner, ...]
    row_numbers: Array | None = None

    def fitted_to(self, plan: Plan) -> Array:
        """The rows that the last models are fitted to, by position: without a refit those outside the holdout."""
        return np.arange(self.rows.n) if plan.refit else self.splits[0][0]


@dataclass(frozen=True, eq=False)
class Fitted:
    """The selected learner, fitted to all training rows, what it warned of, and the readable alternative."""

    selection: Selection
    model: Any
    warnings: tuple[str, ...] = ()
    readable: Alternative | None = None

    def digest(self, X: Any) -> str:
        """A digest of the model's predictions for some rows, to recognise it by."""
        with one_blas_thread():
            predicted = np.asarray(self.model.predict(X))
        numeric = predicted.dtype.kind == "f"
        data = predicted.astype("<f8").tobytes() if numeric else "\n".join(map(str, predicted.tolist())).encode()
        return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, eq=False)
class Published:
    """The files that were written; `unwritten` says why the model file was not, and the command that writes it."""

    files: Mapping[str, str] = field(default_factory=dict)
    unwritten: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class StudyState:
    """What the steps have made so far; a part is None until its step is done.

    | field       | made by  | meaning                                                        |
    |-------------|----------|----------------------------------------------------------------|
    | done        | all      | the last step that is done                                     |
    | plan, notes | read     | everything that decides the numbers; sentences about the table |
    | missing     | read     | by column: the texts read as missing and how often             |
    | asked       | read     | the tables; gone after the seal                                |
    | parted      | seal     | the training rows and the name of the study                    |
    | checks      | check    | what is suspicious about the training rows                     |
    | training    | evaluate | rows, folds, metrics, learners                                 |
    | leaderboard | evaluate | every learner on the same folds                                |
    | comparisons | compare  | all pairs; None where only one learner finished                |
    | fitted      | select   | the selected learner                                           |
    | outer       | outer    | the figures of the outer folds, where there is no test set     |
    | opened      | open     | the figures of the test set; None while it is sealed           |
    | seconds     | open     | how long all of it took                                        |
    | published   | publish  | the files                                                      |
    """

    plan: Plan
    notes: tuple[str, ...] = ()
    missing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    done: str = "read"
    asked: Asked | None = None
    parted: Parted | None = None
    checks: Checks | None = None
    training: TrainingData | None = None
    leaderboard: Leaderboard | None = None
    comparisons: Comparison | None = None
    fitted: Fitted | None = None
    outer: Outer | None = None
    opened: Opened | None = None
    seconds: float = 0.0
    published: Published = field(default_factory=Published)

    def beats_baseline(self, name: str) -> bool:
        """Whether a learner is shown to be better than no features at all, at the level of the family."""
        return self.comparisons is not None and self.comparisons.is_better(name, BASELINE)

    def untested(self, name: str) -> str:
        """Why a learner could not be tested against the baseline; empty where it was, or where there was no pair."""
        return "" if self.comparisons is None else self.comparisons.untested(name, BASELINE)

    def unanswered(self, context: Context) -> tuple[Check, ...]:
        """Serious findings that keep the test set sealed: not answered by `despite`, and the set not opened before."""
        name = made(self.parted).name
        if self.opened is not None or any(context.ledger.entries(kind, name) for kind in ("look", "replay")):
            return ()
        known = [check.code for check in made(self.checks)]
        unknown = next((code for code in context.despite if code not in known), None)
        if unknown is not None:
            raise ParameterError(f"unknown check {unknown!r}", remedy=f"choose among {', '.join(known)}")
        if not made(self.parted).has_test_set:
            return ()
        return tuple(check for check in made(self.checks).stops if check.code not in context.despite)
