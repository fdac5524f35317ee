"""A study: one question asked of one table, step by step or all at once.

    table -> seal -> (training rows) -> panel x folds -> comparison -> selection, refit -> open -> report, model, ledger

A `Study` holds a `StudyState` and runs the steps of `assay.experiment.steps` on it as far as what is asked for needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from time import monotonic
from typing import Any, Self

import pandas as pd

from assay.checks import fraction, whole
from assay.errors import SealError
from assay.evaluation import Comparison, Selection
from assay.evaluation.shapley import BACKGROUND
from assay.experiment import record, steps
from assay.experiment.checks import Check, Checks
from assay.experiment.compiling import Compiling
from assay.experiment.events import Listener, StepsDone
from assay.experiment.model_file.predict import Predictions, predict_parts
from assay.experiment.notebook import usual_listener
from assay.experiment.options import Options, with_options
from assay.experiment.outcome import Alternative, Leaderboard, Opened, Outer
from assay.experiment.plan import Plan
from assay.experiment.state import Context, Parted, StudyState, TrainingData, made
from assay.experiment.steps.finalize import Final, finalize
from assay.experiment.steps.publish import fitted_parts, save
from assay.experiment.steps.read import refuse_subgroups
from assay.experiment.steps.seal import stored_wishes
from assay.experiment.storage.files import make_folder
from assay.experiment.storage.ledger import Ledger, trusted_ledger
from assay.experiment.table import Table
from assay.experiment.test_set.seal import Sealed
from assay.upcalls import upcall

__all__ = ["Study", "run"]


@with_options
class Study:
    """One question asked of one table, step by step or all at once.

    | parameter | default | range | meaning |
    |-----------|---------|-------|---------|
    | source | | a file or a data frame | the table |
    | target | | a column | what is to be predicted |
    | OPTIONS |
    | ledger | None | a Ledger, a URL | where looks are recorded; None: the user's own |
    | listener | None | a function of an event | hears what is being done, as `print`; None: a notebook's line |

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    >>> frame["y"] = frame["a"] + rng.normal(size=120)
    >>> study = Study(frame, "y", learners=["least squares"], test_size=0.25)
    >>> study.seal().seal.n_test
    30
    >>> study.select().name
    'least squares'
    >>> study.open().primary
    'rmse'
    """

    compiling: Compiling | None = None  # a study that is loaded compiles what it still needs when it needs it

    def __init__(
        self, source: Any, target: str, *, ledger: Any = None, listener: Listener | None = None, **options: Any
    ) -> None:
        asked = Options(**options)
        self._context = _context(asked, ledger, listener)
        self._state = steps.read(source, target, asked, self._context)
        self.compiling = Compiling(self.plan, made(self._state.asked).table.frame)
        self._context = replace(self._context, next_ready=self.compiling.next_ready)

    @classmethod
    def load(
        cls, name: str, *, ledger: Any = None, listener: Listener | None = None, hold: bool = False, **options: Any
    ) -> Self:
        """A study by its name, as far as it got; folds that are done are not computed again.

        Options that decide no number (`open_test`, `despite`, `out`, `trust`, `unit`, `by`) are those it was begun
        with, unless given here, as `n_jobs` and `minutes` may be. With `hold` a study whose clock ran out stays as it
        was left; else its unfinished learners go on.
        """
        context = replace(_context(Options(**{**stored_wishes(name), **options}), ledger, listener), hold=hold)
        state = steps.load(name, context)
        refuse_subgroups(context.by, state.plan.kinds, state.plan.target)
        return cls.of(state, context)

    @classmethod
    def of(cls, state: StudyState, context: Context) -> Self:
        """A study in the given state."""
        study = cls.__new__(cls)
        study._state, study._context = state, context
        return study

    # Steps.

    def _reach(self, step: str) -> StudyState:
        """The state after a step; steps before it that are not done yet are done first."""
        moved = False  # no state before this one is kept: the first ones hold the test rows
        try:
            for self._state in steps.advance(self._state, self._context, step):
                moved = True
        except BaseException:
            self._context.emit(StepsDone(step))
            raise
        if moved:
            self._context.emit(StepsDone(step))
        return self._state

    def reach(self, step: str) -> Self:
        """Do a step, by its name in `experiment.steps.STEPS`, and before it those that are not done yet."""
        self._reach(step)
        return self

    def _parted(self) -> Parted:
        return made(self._reach("seal").parted)

    def seal(self) -> Sealed:
        """Part the rows, put the test rows into the vault, and record it; from here on only `open` sees them."""
        return self._parted().sealed

    @property
    def checks(self) -> Checks:
        """What is suspicious about the training rows."""
        return made(self._reach("check").checks)

    @property
    def data(self) -> TrainingData:
        """The training rows as learners see them, the folds and the metrics."""
        return made(self._reach("evaluate").training)

    @property
    def leaderboard(self) -> Leaderboard:
        """Every learner of the panel, validated on the same folds."""
        return made(self._reach("evaluate").leaderboard)

    def evaluate(self) -> Leaderboard:
        """The leaderboard."""
        return self.leaderboard

    @property
    def comparisons(self) -> Comparison | None:
        """All pairs of learners, by the test that fits the folds; None where only one finished."""
        return self._reach("compare").comparisons

    def compare(self) -> Comparison | None:
        """The comparisons."""
        return self.comparisons

    def beats_baseline(self, name: str) -> bool:
        """Whether a learner is shown to be better than no features at all, at the level of the family."""
        return self._reach("compare").beats_baseline(name)

    def untested(self, name: str) -> str:
        """Why a learner could not be tested against the baseline; empty where it was."""
        return self._reach("compare").untested(name)

    def select(self) -> Selection:
        """The learner with the best figure, refitted to all training rows; with `select="readable"` a readable one.

        The baseline is chosen only if its own figure is the best.
        """
        return made(self._reach("select").fitted).selection

    @property
    def has_test_set(self) -> bool:
        """Whether rows were set aside as a test set; without one the figure is that of outer folds (`outer`)."""
        return self._parted().has_test_set

    @property
    def outer(self) -> Outer | None:
        """The whole procedure repeated on outer folds, where there is no test set; None where there is one."""
        return self._reach("outer").outer

    @property
    def model(self) -> Any:
        """The selected learner, fitted to all training rows; one that cannot be fitted to them has failed."""
        return made(self._reach("select").fitted).model

    def unanswered(self) -> tuple[Check, ...]:
        """Serious findings that keep the test set sealed: not named in `despite`, and the set not opened before."""
        return self._reach("check").unanswered(self._context)

    def open(self, reason: str | None = None, *, despite: Sequence[str] = ()) -> Opened:
        """Open the test set: record the look, then score, in that order.

        Refused where a check is serious, unless `despite` names its code: what is wrong with the table is found out
        before the look, not after it. The ledger records the code.
        """
        if not self.has_test_set:
            message = f"study {self.name} has no test set to open: all its rows are training rows"
            raise SealError(message, remedy=f"its figure is that of the outer folds: assay show {self.name}")
        answered = tuple(dict.fromkeys([*self._context.despite, *despite]))
        context = replace(self._context, open_test=True, despite=answered, reason=reason or self._context.reason)
        _refuse(self._reach("check").unanswered(context))
        self._context = context
        if self.opened is None:
            _refuse(self._reach("select").unanswered(context))
            self._state = replace(self._state, done="select")
        return made(self._reach("open").opened)

    def finish(self, *, open_test: bool | None = None, reason: str | None = None) -> Self:
        """Every step that is not done yet, in order; a serious check keeps the test set sealed (`unanswered`)."""
        wished = self._context.open_test if open_test is None else open_test
        self._context = replace(self._context, open_test=wished, reason=reason or self._context.reason)
        self._reach("open")
        return self

    def publish(self, out: Any, *, trust: Sequence[str] = ()) -> dict[str, str]:
        """Write model, report, numbers and script into a directory, and record their hashes in the ledger.

        A learner of another package is written only if `trust` names its class; else `unwritten` says how to get it.
        """
        self._context = replace(self._context, out=Path(out), trust=tuple(trust) or self._context.trust)
        self._reach("open")
        self._state = replace(self._state, done="open")
        self._reach("publish")
        return dict(self._state.published.files)

    def finalize(self, out: Any, *, trust: Sequence[str] = ()) -> Final:
        """Fit the selected recipe to all rows, test rows included, and write `model-final.assay` into a directory.

        Refused before the look. The search runs again, and limits of predictions are made by cross-fitting on all rows;
        the ledger records that the rows were used, and none of them is a test row again.
        """
        context = replace(self._context, trust=tuple(trust) or self._context.trust)
        if self.opened is None and any(self.ledger.entries(kind, self.name) for kind in ("look", "replay")):
            self.open()  # a study that was loaded reads its own look again, which costs none
        try:
            return finalize(self._reach("select"), context, Path(out))
        finally:
            context.emit(StepsDone("finalize"))

    # What the steps have made.

    @property
    def state(self) -> StudyState:
        """What the steps have made so far."""
        return self._state

    @property
    def plan(self) -> Plan:
        """Everything that decides the numbers."""
        return self._state.plan

    @property
    def ledger(self) -> Ledger:
        """Where looks are recorded."""
        return self._context.ledger

    @property
    def wishes(self) -> Context:
        """What the user wishes beside the numbers: where files go, whether the test set may be opened, and more."""
        return self._context

    @property
    def n_jobs(self) -> int | None:
        """Workers; None: all cores."""
        return self._context.n_jobs

    @property
    def table(self) -> Table | None:
        """The table, until its rows are parted."""
        return None if self._state.asked is None else self._state.asked.table

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the table."""
        return self._state.notes

    @property
    def missing(self) -> dict[str, dict[str, int]]:
        """By column: the texts that were read as missing and in how many cells of the table, "" for empty cells."""
        return {name: dict(texts) for name, texts in self._state.missing.items()}

    @property
    def name(self) -> str | None:
        """The study's name; None before its rows are sealed."""
        return None if self._state.parted is None else self._state.parted.name

    @property
    def folder(self) -> Path:
        """Where the study keeps what it needs to go on."""
        return self._parted().folder

    @property
    def sealed(self) -> Sealed | None:
        """How the rows were parted; None before."""
        return None if self._state.parted is None else self._state.parted.sealed

    @property
    def rows(self) -> pd.DataFrame:
        """The training rows."""
        return self._parted().train

    @property
    def n_test(self) -> int:
        """How many rows are test rows."""
        return self._parted().n_test

    @property
    def vault(self) -> str:
        """The SHA-256 of the file of test rows."""
        return self._parted().vault

    @property
    def hashes(self) -> dict[str, str]:
        """Digests of training rows, test rows and vault."""
        return dict(self._parted().hashes)

    @property
    def selected(self) -> Selection | None:
        """The selection; None before."""
        return None if self._state.fitted is None else self._state.fitted.selection

    @property
    def readable(self) -> Alternative | None:
        """The best of the readable learners and what it would cost to take it; None before, or where there is none."""
        return None if self._state.fitted is None else self._state.fitted.readable

    @property
    def warned(self) -> tuple[str, ...]:
        """What the selected learner warned of when it was fitted to all training rows."""
        return () if self._state.fitted is None else self._state.fitted.warnings

    @property
    def opened(self) -> Opened | None:
        """The opened test set; None while it is sealed."""
        return self._state.opened

    test = opened

    @property
    def files(self) -> dict[str, str]:
        """The files that `publish` wrote."""
        return dict(self._state.published.files)

    @property
    def unwritten(self) -> tuple[str, str] | None:
        """Why the last `publish` left the model file out, and the command that writes it."""
        return self._state.published.unwritten

    # What it says.

    def verdict(self) -> str:
        """What was found, in a sentence."""
        return record.verdict(self._reach("outer"))

    def summary(self) -> dict[str, Any]:
        """The study in JSON types."""
        return record.summary(self._reach("outer"), self._context)

    def code(self) -> str:
        """A plain script that repeats the study."""
        return record.code(self._reach("seal"))

    def report(self, path: Any) -> str:
        """Write the report as one HTML file; its SHA-256."""
        return str(upcall("report_state")(self._reach("outer"), self._context, Path(path)))

    def save(self, path: Any, *, trust: Sequence[str] = ()) -> str:
        """Write the fitted model with what predictions need; the SHA-256 of the file."""
        return save(self._reach("outer"), replace(self._context, trust=tuple(trust)), Path(path))

    def predict(self, table: Any, *, level: float = 0.9, explain: int = 0, top: int | None = None) -> Predictions:
        """Predictions of the selected learner for the rows of a table, as `assay predict` gives them.

        | parameter | default | range                  | meaning                                                |
        |-----------|---------|------------------------|--------------------------------------------------------|
        | table     |         | a file or a data frame | the rows; the target need not be there                 |
        | level     | 0.9     | (0, 1)                 | the coverage the limits aim at                         |
        | explain   | 0       | 0 or more              | so many leading contributions per row: `reason_1`, ... |
        | top       | None    | 1 or more              | so many rows only, the highest first                   |
        """
        context = replace(self._context, background=BACKGROUND if explain else 0)
        parts = fitted_parts(self._reach("select"), context)
        rows = whole(explain, "explain", 0), None if top is None else whole(top, "top", 1)
        return predict_parts(parts, str(self.name), table, fraction(level, "level"), *rows)

    def verify(self) -> list[str]:
        """What does not fit: the ledger's chain, the hashes of the rows, and whether a refit says the same."""
        return record.problems(self._reach("select"), self._context)

    def __str__(self) -> str:
        if self.name is None:
            return f"Study of {self.plan.target}, not sealed yet"
        if self.selected is None:
            return f"Study {self.name} of {self.plan.target}, sealed"
        parts = [str(self.leaderboard), str(self.selected)]
        parts += [] if self.readable is None else [f"Readable alternative: {self.readable}"]
        found = self.opened or self._state.outer
        parts += [] if found is None else [str(found)]
        return "\n\n".join([f"Study {self.name}", *parts, self.verdict()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows: the leaderboard and the test figures once they are there; nothing is computed."""
        state = self._state
        parts = [f"<h4>{escape(' '.join(filter(None, ['Study', self.name, 'of', self.plan.target])))}</h4>"]
        if state.fitted is None or state.leaderboard is None:
            sealed = "not sealed yet" if self.name is None else "its test rows are sealed; nothing is selected yet"
            return f"{parts[0]}<p>{sealed}</p>"
        parts += [f"<p>{escape(record.verdict(state))}</p>", state.leaderboard._repr_html_()]
        figures = state.opened or state.outer
        return "".join([*parts, *([] if figures is None else [figures._repr_html_()])])


def _refuse(left: Sequence[Check]) -> None:
    """Refuse to open the test set where serious checks are not answered."""
    if left:
        codes = ", ".join(check.code for check in left)
        message = f"the test set stays sealed because of a serious check: {left[0].title} ({left[0].detail})"
        raise SealError(message, remedy=f"{left[0].remedy}; or open it despite {codes}")


def _context(options: Options, ledger: Any, listener: Listener | None) -> Context:
    """What of the options decides no number, with the ledger and the clock."""
    started = monotonic()
    return Context(
        trusted_ledger(ledger),
        usual_listener() if listener is None else listener,
        n_jobs=options.n_jobs,
        started=started,
        deadline=None if options.minutes is None else started + 60 * options.minutes,
        open_test=options.open_test,
        reason=options.reason,
        despite=tuple(options.despite),
        out=None if options.out is None else Path(options.out),
        trust=tuple(options.trust),
        unit=options.unit,
        by=tuple(dict.fromkeys(options.by)),
        background=options.background,
    )


@with_options
def run(source: Any, target: str, *, ledger: Any = None, listener: Listener | None = None, **options: Any) -> Study:
    """A whole study: seal, evaluate, compare, select, open once; report and model go to `out`.

    | parameter | default | range | meaning |
    |-----------|---------|-------|---------|
    | source | | a file or a data frame | the table |
    | target | | a column | what is to be predicted |
    | OPTIONS |
    | ledger | None | a Ledger, a URL | where looks are recorded; None: the user's own |
    | listener | None | a function of an event | hears what is being done, as `print`; None: a notebook's line |

    >>> import numpy as np
    >>> frame = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40.0) * 2 + np.tile([0.5, -0.5], 20)})
    >>> run(frame, "y", learners=["least squares"]).select().name
    'least squares'
    """
    out = options.get("out")
    if out is not None:
        make_folder(Path(out))  # before anything is looked at
    study = Study(source, target, ledger=ledger, listener=listener, **options).finish()
    if out is not None:
        study.publish(out)
    return study
