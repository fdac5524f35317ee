"""The protocol of a study: seal, check, evaluate, compare, select, open once, leave a record.

    table -> seal -> (training rows) -> panel x folds -> comparison -> selection, refit -> open -> report, model, ledger

The test rows leave memory at the seal and come back only in `open`, which scores nothing before the ledger has it on
record. What a study needs to go on lies in `home()/studies/<name>`: the plan, the training rows, the journal of folds.
"""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from assay.errors import AssayError, DataError, LearnerError, ParameterError, SealError
from assay.evaluation import Comparison, Selection, compare, select
from assay.experiment import keeping, record
from assay.experiment.checks import Check, Checks, check_table
from assay.experiment.compiling import Compiling
from assay.experiment.evaluate import Data, data_of, evaluate, refit
from assay.experiment.outcome import Leaderboard, Opened
from assay.experiment.panel import BASELINE
from assay.experiment.plan import RULES, Plan, infer_task, learners_of, metrics_for, name_of
from assay.experiment.storage import home
from assay.experiment.storage.journal import Journal
from assay.experiment.table import Table
from assay.experiment.table.question import read_parts
from assay.experiment.test_set.opening import open_test_set, refuse_unscorable
from assay.experiment.test_set.seal import Sealed, row_digests, seal_rows
from assay.experiment.test_set.vault import Vault
from assay.experiment.warned import collected
from assay.numerics.threads import one_blas_thread

__all__ = ["Study", "run"]

Says = Callable[[str], None]


class Study:
    """One question asked of one table, step by step or all at once.

    | parameter   | default  | range                                  | meaning                                        |
    |-------------|----------|----------------------------------------|------------------------------------------------|
    | source      |          | a file or a data frame                 | the table                                      |
    | target      |          | a column                               | what is to be predicted                        |
    | task        | "auto"   | "auto", "regression", "classification" | what kind of target it is                      |
    | panel       | "quick"  | "quick", "standard", "thorough"        | which learners                                 |
    | learners    | ()       | names, or module:Class                 | these instead of a panel                       |
    | metric      | None     | the name of a metric                   | the primary one; None: rmse, error or auc      |
    | cv, repeats | 10, 1    | whole numbers                          | folds, and how often they are dealt            |
    | group       | None     | a column                               | rows of one group stay together                |
    | time        | None     | a column                               | the latest rows are tested, folds keep the orde|
    | test_size   | "auto"   | "auto", (0, 1)                         | share of test rows                             |
    | test        | None     | a file or a data frame                 | test rows made by someone else                 |
    | looks       | 1        | at least 1                             | planned looks at the test set                  |
    | select      | "one-se" | "one-se", "best"                       | the rule of selection                          |
    | level       | 0.95     | (0, 1)                                 | of the intervals                               |
    | correction  | "holm"   | see `inference.adjust_pvalues`         | for the number of comparisons                  |
    | seed        | 0        | whole number                           | of folds and learners                          |
    | n_jobs      | None     | None, whole number but 0               | workers, None: all cores; never changes a numbe|
    | time_budget | None     | seconds                                | learners not done by then are reported unfinish|
    | kinds       | None     | column -> kind                         | what a column holds, where the guess is wrong  |
    | reason      | None     | text                                   | why a look beyond the plan is needed           |
    | reseal      | None     | text                                   | why these rows need a new seal                 |
    | despite     | ()       | codes of checks                        | open the test set although these are serious   |
    | ledger      | None     | a Ledger, a URL                        | where looks are recorded; None: the user's own |
    | says        | silent   | a function of a sentence               | told what is being done                        |

    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    >>> frame["y"] = frame["a"] + rng.normal(size=120)
    >>> study = Study(frame, "y", learners=["least squares"])
    >>> study.seal().seal.n_test
    60
    >>> study.select().name
    'least squares'
    >>> study.open().primary
    'rmse'
    """

    compiling: Compiling | None = None  # a study that is loaded compiles what it still needs when it needs it
    unwritten: tuple[str, str] | None = None
    """Why the last `publish` left the model file out, and the command that writes it."""

    def __init__(
        self,
        source: Any,
        target: str,
        *,
        task: str = "auto",
        panel: str = "quick",
        learners: Sequence[str] = (),
        metric: str | None = None,
        cv: int = 10,
        repeats: int = 1,
        group: str | None = None,
        time: str | None = None,
        test_size: float | str = "auto",
        test: Any = None,
        looks: int = 1,
        select: str = "one-se",
        level: float = 0.95,
        correction: str = "holm",
        seed: int = 0,
        n_jobs: int | None = None,
        time_budget: float | None = None,
        kinds: Mapping[str, str] | None = None,
        reason: str | None = None,
        reseal: str | None = None,
        despite: Sequence[str] = (),
        ledger: Any = None,
        says: Says | None = None,
    ) -> None:
        self.says: Says = says or (lambda words: None)
        self.ledger = keeping.trusted_ledger(ledger)
        self.n_jobs, self.time_budget = n_jobs, time_budget
        self.started = clock.monotonic()
        self.says("reading the table")
        table, given, notes = read_parts(source, test, target, kinds=kinds, group=group, time=time)
        self.notes: list[str] = notes
        found = infer_task(table.frame[target], table.kinds[target]) if task == "auto" else task
        if found == "regression" and table.frame[target].dtype.kind not in "biuf":
            what = f"the target {target!r} holds {table.kinds[target]} values, not numbers"
            remedy = f"predict classes (task), or, if it holds numbers, pass kinds={{{target!r}: 'number'}}"
            raise DataError(what, remedy=remedy, option=("task", "classification"))
        primary, also = metrics_for(found, table.frame[target], metric)
        names = learners_of(found, panel, tuple(learners))
        self.plan = Plan(
            target=target,
            task=found,
            kinds=dict(table.kinds),
            panel=panel,
            learners=names,
            metric=primary,
            also=also,
            cv=cv,
            repeats=repeats,
            group=group,
            time=time,
            looks=looks,
            level=level,
            select=select,
            correction=correction,
            seed=seed,
            source=str(source) if isinstance(source, str | Path) else "frame",
        )
        self.compiling = Compiling(self.plan, table.frame)
        self.table: Table | None = table
        self._test_table: Table | None = given
        self._share, self._reason, self._reseal = test_size, reason, reseal
        self.despite = tuple(despite)
        self.name: str | None = None
        self.sealed: Sealed | None = None
        self.vault: str | None = None
        self.n_test = 0
        self.hashes: dict[str, str] = {}
        self.seconds = 0.0
        self.train: pd.DataFrame | None = None
        self.selected: Selection | None = None
        self.opened: Opened | None = None
        self.files: dict[str, str] = {}
        self.warned: tuple[str, ...] = ()

    # Steps.

    def seal(self) -> Sealed:
        """Part the rows, put the test rows into the vault, and record it; from here on only `open` sees them."""
        if self.sealed is not None:
            return self.sealed
        assert self.table is not None
        self.says("sealing the test rows")
        plan, table, given = self.plan, self.table, self._test_table
        sealed = seal_rows(
            self.ledger,
            table,
            plan.target,
            plan.task,
            share=self._share,
            group=plan.group,
            time=plan.time,
            test=given,
            reason=self._reseal,
        )
        train = table.frame.iloc[sealed.train].reset_index(drop=True)
        test = (table if given is None else given).frame.iloc[sealed.test].reset_index(drop=True)
        if len(train) < max(4, 2 * plan.cv):
            raise DataError(
                f"{len(train)} training rows are too few for {plan.cv} folds", remedy="use fewer folds or more rows"
            )
        refuse_unscorable(plan, train, test)
        digests = row_digests(train, sealed.seal.columns)
        rows = hashlib.sha256(np.sort(digests).astype("<u8").tobytes()).hexdigest()
        self.name = name_of(plan, sealed.seal.id, rows)
        self.sealed, self.train, self.n_test = sealed, train, len(test)
        self.vault = Vault(self.name).write(test)
        keeping.keep(self, rows)
        self.table = self._test_table = None  # from here on the test rows are in the vault alone
        return sealed

    @cached_property
    def checks(self) -> Checks:
        """What is suspicious about the training rows."""
        self.seal()
        assert self.train is not None
        self.says("checking the training rows")
        plan = self.plan
        return check_table(
            self.train,
            dict(plan.kinds),
            plan.target,
            plan.task,
            n_folds=plan.cv,
            group=plan.group,
            time=plan.time,
            level=plan.level,
            n_test=self.n_test,
        )

    @cached_property
    def data(self) -> Data:
        """The training rows as learners see them, the folds and the metrics."""
        self.seal()
        assert self.train is not None
        assert self.sealed is not None
        return data_of(self.plan, self.train, row_digests(self.train, self.sealed.seal.columns))

    @cached_property
    def leaderboard(self) -> Leaderboard:
        """Every learner of the panel, validated on the same folds."""
        data = self.data
        budget = None if self.time_budget is None else self.started + self.time_budget
        found = evaluate(
            self.plan,
            data,
            Journal(self.folder / "journal.db"),
            n_jobs=self.n_jobs,
            deadline=budget,
            says=self.says,
            next_ready=None if self.compiling is None else self.compiling.next_ready,
        )
        if not found.results:
            reasons = "; ".join(f"{name}: {why}" for name, why in {**found.failed, **found.unfinished}.items())
            remedy = "give more time" if found.unfinished else "use other learners"
            raise LearnerError(f"no learner finished ({reasons})", remedy=remedy)
        return found

    def evaluate(self) -> Leaderboard:
        """The leaderboard."""
        return self.leaderboard

    @cached_property
    def comparisons(self) -> Comparison | None:
        """All pairs of learners, by the test that fits the folds; None where only one finished."""
        results = self.leaderboard.results
        if len(results) < 2:
            return None
        self.says("comparing the learners")
        return compare(dict(results), correction=self.plan.correction, level=self.plan.level)

    def compare(self) -> Comparison | None:
        """The comparisons."""
        return self.comparisons

    def beats_baseline(self, name: str) -> bool:
        """Whether a learner is shown to be better than no features at all, at the level of the family."""
        found = self.comparisons
        if found is None or name == BASELINE or BASELINE not in found.names:
            return False
        verdict = f"{name} better than {BASELINE}"
        return verdict in found.verdicts

    def select(self) -> Selection:
        """The simplest learner within one standard error of the best, refitted to all training rows.

        The baseline may be chosen only if no learner is shown to beat it.
        """
        if self.selected is not None:
            return self.selected
        results = dict(self.leaderboard.results)
        if any(self.beats_baseline(name) for name in results):
            results.pop(BASELINE, None)
        order = [name for name in self.plan.learners if name in results]
        self.says("selecting")
        self.selected = select(results, rule=RULES[self.plan.select], simplicity=order)
        return self.selected

    @cached_property
    def model(self) -> Any:
        """The selected learner, fitted to all training rows; one that cannot be fitted to them has failed."""
        while True:
            name = self.select().name
            self.says(f"fitting {name} to all training rows")
            try:
                with one_blas_thread(), collected() as told:  # as in the folds: cores must not reach the last digit
                    made = refit(self.plan, self.data, name, self.n_jobs)
            except AssayError as error:
                self._fail(name, error)
                continue
            self.warned = tuple(told)
            return made

    def _fail(self, name: str, error: AssayError) -> None:
        """Go on without a learner, as with one that failed in a fold."""
        board = self.leaderboard
        left = {other: result for other, result in board.results.items() if other != name}
        if not left:
            raise error
        self.leaderboard = replace(board, results=left, failed={**board.failed, name: str(error)})
        self.selected = None
        vars(self).pop("comparisons", None)

    def unanswered(self) -> tuple[Check, ...]:
        """Serious findings that keep the test set sealed: not named in `despite`, and the set not opened before."""
        self.seal()
        if self.opened is not None or any(self.ledger.entries(kind, self.name) for kind in ("look", "replay")):
            return ()
        known = [check.code for check in self.checks]
        odd = next((code for code in self.despite if code not in known), None)
        if odd is not None:
            raise ParameterError(f"despite = {odd!r} is no check", remedy=f"choose among {', '.join(known)}")
        return tuple(check for check in self.checks.stops if check.code not in self.despite)

    def open(self, reason: str | None = None, *, despite: Sequence[str] = ()) -> Opened:
        """Open the test set: record the look, then score, in that order.

        Refused where a check is serious, unless `despite` names its code: what is wrong with the table is found out
        before the look, not after it. The ledger records the code.
        """
        self.despite = tuple(dict.fromkeys([*self.despite, *despite]))
        left = self.unanswered()
        if left:
            codes = ", ".join(check.code for check in left)
            what = f"the test set stays sealed, because a check is serious: {left[0].title} ({left[0].detail})"
            raise SealError(what, remedy=f"{left[0].remedy}; or open it despite {codes}")
        if self.opened is None:
            self.opened = open_test_set(self, reason or self._reason)
        return self.opened

    def finish(self, *, open_test: bool = True, reason: str | None = None) -> Self:
        """Every step that is not done yet, in order; a serious check keeps the test set sealed (`unanswered`)."""
        self.seal()
        _ = self.checks
        self.evaluate()
        self.compare()
        self.select()
        _ = self.model
        if open_test and not self.unanswered():
            self.open(reason)
        keeping.record_result(self)
        self.seconds = clock.monotonic() - self.started
        return self

    @property
    def rows(self) -> pd.DataFrame:
        """The training rows."""
        self.seal()
        assert self.train is not None
        return self.train

    @property
    def test(self) -> Opened | None:
        """The opened test set; None while it is sealed."""
        return self.opened

    def verdict(self) -> str:
        """What was found, in a sentence."""
        return record.verdict(self)

    def summary(self) -> dict[str, Any]:
        """The study in JSON types."""
        return record.summary(self)

    def code(self) -> str:
        """A plain script that repeats the study."""
        return record.code(self)

    def report(self, path: Any) -> str:
        """Write the report as one HTML file; its SHA-256."""
        # The report stands above this room, so it is reached by name, as pictures are.
        return str(import_module("assay.report.html").write_report(self, Path(path)))

    def publish(self, out: Any, *, trust: Sequence[str] = ()) -> dict[str, str]:
        """Write model, report, numbers and script into a directory, and record their hashes in the ledger.

        A learner of another package is written only if `trust` names its class; else `unwritten` says how to get it.
        """
        return keeping.publish(self, Path(out), trust)

    def save(self, path: Any, *, trust: Sequence[str] = ()) -> str:
        """Write the fitted model with what predictions need; the SHA-256 of the file."""
        return keeping.save(self, path, trust)

    @classmethod
    def load(cls, name: str, *, ledger: Any = None, n_jobs: int | None = None, says: Says | None = None) -> Self:
        """A study by its name, as far as it got; folds that are done are not computed again."""
        study = cls.__new__(cls)
        study.says = says or (lambda words: None)
        study.ledger = keeping.trusted_ledger(ledger)
        study.n_jobs, study.time_budget, study.started = n_jobs, None, clock.monotonic()
        study.table = study._test_table = study.selected = study.opened = None
        study._share, study._reason, study._reseal, study.despite = "auto", None, None, ()
        study.files, study.seconds, study.warned = {}, 0.0, ()
        keeping.restore(study, name)
        return study

    def verify(self) -> list[str]:
        """What does not fit: the ledger's chain, the hashes of the rows, and whether a refit says the same."""
        return keeping.problems(self)

    def __str__(self) -> str:
        if self.name is None:
            return f"Study of {self.plan.target}, not sealed yet"
        if self.selected is None:
            return f"Study {self.name} of {self.plan.target}, sealed"
        parts = [str(self.leaderboard), str(self.selected)]
        parts += [] if self.opened is None else [str(self.opened)]
        return "\n\n".join([f"Study {self.name}", *parts, self.verdict()])

    __repr__ = __str__

    # Inside.

    @property
    def folder(self) -> Path:
        """Where the study keeps what it needs to go on."""
        self.seal()
        assert self.name is not None
        return home() / "studies" / self.name


def run(source: Any, target: str, *, out: Any = None, open_test: bool = True, **options: Any) -> Study:
    """A whole study: seal, evaluate, compare, select, open once; report and model go to `out`.

    | parameter | default | range                  | meaning                                                    |
    |-----------|---------|------------------------|------------------------------------------------------------|
    | source    |         | a file or a data frame | the table                                                  |
    | target    |         | a column               | what is to be predicted                                    |
    | out       | None    | a directory            | where report and model go; None: neither is written        |
    | open_test | True    | True, False            | False leaves the seal closed                               |
    | options   |         |                        | everything `Study` takes                                   |

    >>> frame = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40.0) * 2 + np.tile([0.5, -0.5], 20)})
    >>> run(frame, "y", learners=["least squares"]).select().name
    'least squares'
    """
    if out is not None:
        keeping.make_folder(Path(out))  # before anything is looked at
    study = Study(source, target, **options).finish(open_test=open_test)
    if out is not None:
        study.publish(out)
    return study
