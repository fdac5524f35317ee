"""What happens while a study runs: progress, and the note that kernels are being compiled.

Time left is what the remaining fits cost by the panel's declaration, at the speed of those that are done:

    left = (cost of folds to come) / rate,    rate = (cost of folds done + RATE x 1 s) / (seconds so far + 1 s)
"""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from assay import interrupts
from assay.cli import out
from assay.errors import ReportWarning
from assay.experiment.events import Event, FoldDone, InOuterFold, LearnerBegan, LearnerFailed, LearnerStopped, StepsDone
from assay.experiment.options import declared, read_config, words_of

__all__ = [
    "Live",
    "again",
    "announce_compiling",
    "begin",
    "compiling",
    "heard",
]

RATE = 1e9
"""Multiply-adds a second, before anything was measured."""
OVERHEAD = 2e7
"""What a fit costs beside its declared cost: preprocessing and the call itself."""

_typed: list[str] = []


class Live:
    """One line with the current learner and fold, the best so far and the estimated time left.

    | parameter | default         | range           | meaning                                   |
    |-----------|-----------------|-----------------|-------------------------------------------|
    | quiet     | False           | True, False     | print nothing                             |
    | console   | standard error  | a rich console  | also silent if not a terminal             |

    >>> live = Live(quiet=True)
    >>> with live:
    ...     live.hears(LearnerBegan("ridge", 2, 4))
    >>> live.words
    'ridge (2 of 4)'
    """

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self.console = out.notices() if console is None else console
        self.quiet = quiet or not self.console.is_terminal
        self.words = ""
        self.learner: str | None = None
        self.folds: dict[str, int] = {}
        self.work: dict[str, float] = {}
        self.done = 0.0
        self.busy = 0.0
        self.began: float | None = None
        self.fold_began: float | None = None
        self._bar: Progress | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Live:
        if not self.quiet:
            shown = (
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(20),
                TextColumn("{task.fields[left]}"),
            )
            self._bar = Progress(*shown, console=self.console, transient=True)
            self._stack.enter_context(self._bar)
            self._task = self._bar.add_task(out.clean(self.words, 100), total=None, left="")
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()
        self._bar = None

    def expect(self, study: Any) -> None:
        """Take the declared cost of every learner on the study's training rows."""
        from assay.experiment.panel import panel
        from assay.experiment.protocol import number_of_splits

        plan, rows = study.plan, study.rows
        classes = rows[plan.target].nunique() if plan.task == "classification" else 2
        shape = (len(rows), len(plan.features), classes)
        folds = number_of_splits(plan, len(rows))
        for learner in panel(plan.task, plan.panel, plan.learners):
            fits = learner.fits(plan.tuned, plan.exchangeable)
            self.work[learner.name] = folds * fits * (learner.work(*shape) + OVERHEAD)

    def hears(self, event: Event) -> None:
        """What is being done, from the study."""
        if isinstance(event, StepsDone):
            return  # the command goes on
        if isinstance(event, FoldDone):
            self._fold(event)
            return
        if isinstance(event, InOuterFold):
            self._outer(event)
            return
        if isinstance(event, LearnerFailed | LearnerStopped):
            self.work.pop(event.learner, None)  # nothing more to come from it
        self.learner = event.learner if isinstance(event, LearnerBegan) else None
        self.words = str(event)
        self.began = None if self.learner is None else time.monotonic()
        self._show(self.words, None, None)

    def _fold(self, event: FoldDone) -> None:
        before = self.folds.get(event.learner)
        self.folds[event.learner] = event.done
        if before is not None and event.done > before and event.learner in self.work:
            self.done += self.work[event.learner] * (event.done - before) / event.total
            now = time.monotonic()
            self.busy += now - (self.began or now)
            self.began = now
        self._show(f"{self.words}, fold {min(event.done + 1, event.total)} of {event.total}", event.done, event.total)

    def _outer(self, event: InOuterFold) -> None:
        """Outer folds take as long as the first panel did, each; those of the journal take none."""
        self.words = str(event)
        if self._bar is None or isinstance(event.event, FoldDone):
            return
        if event.event is None:
            self.fold_began = time.monotonic() if self.fold_began is None else self.fold_began
        told, done = out.clean(self.words, 110), event.fold - 1
        each = 0.0 if not done or self.fold_began is None else (time.monotonic() - self.fold_began) / done
        left = f"about {_seconds(each * (event.total - done))} left" if each else ""
        self._bar.update(self._task, completed=done, total=event.total, description=told, left=left)

    def left(self, total: int) -> float:
        """Estimated seconds for the remaining folds, so many per learner in all."""
        ahead = sum(work * (total - self.folds.get(name, 0)) / total for name, work in self.work.items())
        return ahead * (self.busy + 1.0) / (self.done + RATE)

    def _show(self, words: str, done: int | None, total: int | None) -> None:
        if self._bar is None:
            return
        told = out.clean(words, 110)
        if done is None or not total:
            self._bar.update(self._task, description=told, left="")
            return
        folds = max(1, len(self.work)) * total
        left = f"about {_seconds(self.left(total))} left"
        completed = sum(number for name, number in self.folds.items() if name in self.work)
        self._bar.update(self._task, completed=completed, total=folds, description=told, left=left)


def _seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# Kernels.


COMPILING = (
    "Compiling kernels, once on this machine: this run takes up to a minute longer than later ones. "
    "(Compile all of them in advance with: assay warm)"
)


def announce_compiling(console: Console, quiet: bool = False) -> None:
    """Say that kernels are being compiled, if this was not announced on this machine yet."""
    from assay.numerics.jit import first_announcement

    if not quiet and first_announcement():
        console.print(COMPILING, style="yellow", soft_wrap=True)


@contextmanager
def compiling(console: Console, quiet: bool = False) -> Iterator[None]:
    """Announce it when a kernel is compiled in this block."""
    from assay.numerics.jit import listen_to_compilation

    with listen_to_compilation(lambda name: announce_compiling(console, quiet)):
        yield


# Warnings of learners.


@contextmanager
def heard(quiet: bool = False) -> Iterator[None]:
    """Collect warnings instead of letting them clutter the screen; print the distinct ones at the end."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        yield
    lost = [one for one in found if issubclass(one.category, ReportWarning)]
    told = list(dict.fromkeys(out.clean(str(one.message), 160) for one in found if one not in lost))
    shown = told[:3] + ([f"{len(told) - 3} other warnings"] if len(told) > 3 else [])
    shown += list(dict.fromkeys(out.clean(one.message) for one in lost))  # never left out
    for words in [] if quiet else shown:
        out.notices().print(f"warning: {words}", style="yellow", soft_wrap=True)


# The command that was typed.


def begin(args: Sequence[str]) -> None:
    """A new command: nothing is being worked on yet."""
    interrupts.begin()
    _typed[:] = args


def again(name: str, *values: str, table: str = "", target: str = "", config: Path | None = None) -> str:
    """The command that was typed with one more option, to be pasted; of a study read again, its run.

    An option that can be given several times is added to those that were typed, any other takes their place. Options
    of a configuration file are spelt out, for one that is typed would replace all that the file has of it; `config` is
    the file of the study.

    >>> begin(["run", "houses.csv", "-t", "price"])
    >>> again("reseal", "the reason")
    "assay run houses.csv -t price --reseal 'the reason'"
    >>> begin(["show", "houses-12"])
    >>> again("group", "town", table="my houses.csv", target="price")
    "assay run 'my houses.csv' --target price --group town"
    >>> begin(["run", "houses.csv", "--metric", "recall", "-t", "price"])
    >>> again("metric", "f1")
    'assay run houses.csv -t price --metric f1'
    >>> begin(["run", "houses.csv", "-t", "price", "--drop", "tax"])
    >>> again("drop", "fee", "zip code")
    "assay run houses.csv -t price --drop tax --drop fee --drop 'zip code'"
    """
    typed = [part for word in _typed for part in (word.split("=", 1) if word.startswith("--config=") else [word])]
    if table and typed[:1] != ["run"]:
        typed = ["run", table, "--target", target]
        if config is not None and config.exists():
            typed = _spelt(["run"], config)
    elif "--config" in typed[:-1]:
        at = typed.index("--config")
        typed = _spelt([*typed[:at], *typed[at + 2 :]], Path(typed[at + 1]))
    flag = f"--{name.replace('_', '-')}"
    many = flag in {about.flag or f"--{one}" for one, about in declared().items() if about.many}
    kept = [
        word
        for before, word in zip(["", *typed], typed, strict=False)
        if many or (flag not in (before, word) and not word.startswith(f"{flag}="))
    ]
    return shlex.join(["assay", *kept, *(word for value in values for word in (flag, value))])


def _spelt(typed: list[str], config: Path) -> list[str]:
    """A command with the options of a configuration file that it does not name itself."""
    found = read_config(config)
    given = {word.partition("=")[0] for word in typed}
    table = [found["table"]] if "table" in found and not (len(typed) > 1 and not typed[1].startswith("-")) else []
    target = ["--target", found["target"]] if "target" in found and not given & {"-t", "--target"} else []
    more = [word for flag, words in words_of(found).items() if flag not in given for word in words]
    return [*typed[:1], *table, *target, *typed[1:], *more]
