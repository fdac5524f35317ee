"""What a study finds: the leaderboard, and the figures of the opened test set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from assay.evaluation import Validation
from assay.experiment.test_set.against_baseline import BaselineTest
from assay.experiment.test_set.ladder import Release
from assay.experiment.test_set.looks import Look
from assay.inference import TailDiagnosis
from assay.metrics.definition import PERCENT, Metric
from assay.numbers import figure, fmt, with_limits
from assay.results import Interval, Result, format_n

__all__ = ["Alternative", "Leaderboard", "Opened", "Outer"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard(Result):
    """Every learner of the panel with its figure and interval, the best first; those that failed, with their reason.

    | field       | meaning                                                               |
    |-------------|-----------------------------------------------------------------------|
    | results     | a `Validation` per learner                                            |
    | failed      | learner -> why                                                        |
    | unfinished  | learners that the clock left, with the folds they had                 |
    | settings    | learner -> the parameters its search chose in each fold               |
    | level       | of the intervals                                                      |
    | warnings    | learner -> what it warned of, and in how many folds                   |
    | stopped     | learners that could not win after the first folds: not compared; how far behind they were |
    """

    results: Mapping[str, Validation]
    failed: Mapping[str, str]
    unfinished: Mapping[str, str]
    settings: Mapping[str, list[dict[str, Any]]]
    level: float
    warnings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)

    @property
    def finished(self) -> list[str]:
        """The learners that ran to their end, stopped ones included: a study of these alone gives the same numbers."""
        return [*self.results, *self.stopped]

    @property
    def statuses(self) -> dict[str, str]:
        """Of the learners without a figure: what became of each, and why."""
        kinds = {"failed": self.failed, "unfinished": self.unfinished, "stopped, not compared": self.stopped}
        return {name: f"{kind}: {why}" for kind, found in kinds.items() for name, why in found.items()}

    @property
    def order(self) -> list[str]:
        """The learners from the best to the worst."""
        first = next(iter(self.results.values()))
        sign = -1.0 if first.metric.greater_is_better else 1.0
        return sorted(self.results, key=lambda name: float(f"{sign * self.results[name].estimate:.13g}"))

    def to_frame(self) -> pd.DataFrame:
        """One row per learner: metric, estimate, lower, upper, seconds, status, number of kinds of warnings."""
        rows: dict[str, dict[str, Any]] = {}
        for name in self.order if self.results else []:
            result = self.results[name]
            found = result.interval(self.level)
            figures = {"estimate": found.estimate, "lower": found.lower, "upper": found.upper}
            rows[name] = {"metric": result.metric.name, **figures, "seconds": float(result.seconds.sum())}
            rows[name]["status"] = "done"
            rows[name]["warnings"] = len(self.warnings.get(name, ()))
        for name, status in self.statuses.items():
            rows[name] = {"status": status, "warnings": 0}
        frame = pd.DataFrame.from_dict(rows, orient="index")
        return frame.rename_axis("learner")

    def __str__(self) -> str:
        if not self.results:
            return "no learner finished: " + "; ".join(f"{name}: {why}" for name, why in self.statuses.items())
        first = self.results[self.order[0]]
        better = "greater" if first.metric.greater_is_better else "smaller"
        title = f"{first.metric.name} ({better} is better), {first.scheme}"
        width = max(len(name) for name in [*self.results, *self.statuses])
        lines = []
        for name in self.order:
            found = self.results[name].interval(self.level)
            took = f"{fmt(self.results[name].seconds.sum(), 2)} s"
            told = len(self.warnings.get(name, ()))
            took += f"  {told} warning{'' if told == 1 else 's'}" if told else ""
            shown = with_limits(found.estimate, found.lower, found.upper, percent=first.metric.percent)
            lines.append(f"{name:<{width}}  {shown[0]:>9}  [{shown[1]}, {shown[2]}]  {took}")
        lines += [f"{name:<{width}}  {status}" for name, status in self.statuses.items()]
        rule = "-" * min(110, max(len(line) for line in [title, *lines]))
        what = (
            f"{100 * self.level:g}% intervals ({first.interval().method}) for the mean over training sets of this size."
        )
        return "\n".join([title, rule, *lines, rule, what])

    def _repr_html_(self) -> str:
        if not self.results:
            return f"<p>{escape(str(self))}</p>"
        first = self.results[self.order[0]].metric
        rows = {}
        for name in self.order:
            found = self.results[name].interval(self.level)
            shown = with_limits(found.estimate, found.lower, found.upper, percent=first.percent)
            seconds = fmt(self.results[name].seconds.sum(), 2)
            rows[name] = (shown[0], f"{shown[1]} to {shown[2]}", seconds, "")
        rows |= {name: ("", "", "", status) for name, status in self.statuses.items()}
        return _html(rows, (first.name, f"{100 * self.level:g}% interval", "seconds", ""))


@dataclass(frozen=True, eq=False, repr=False)
class Alternative(Result):
    """The best of the readable learners, and what it would cost to take it instead of the best of all.

    With d how much worse its figure is, and both standard errors corrected for training rows that folds share,

        within  =  d <= min(SE of d, SE of the best's own figure)

    The second limit is there because an unstable learner has differences of large standard error to every other one:
    its instability alone must not make it about as good.

    | field      | meaning                                                                                |
    |------------|----------------------------------------------------------------------------------------|
    | name, best | the readable learner, and the best of all; they may be the same                        |
    | metric     | by which they are compared                                                             |
    | figure     | of the readable learner, in print                                                      |
    | difference | d, never negative                                                                      |
    | std_error  | of d                                                                                   |
    | best_error | the standard error of the best's own figure                                            |
    | within     | whether it is about as good; None where nothing is claimed: on folds in the order of   |
    |            | time, for which the correction does not hold, or without standard errors               |
    """

    name: str
    best: str
    metric: Metric
    figure: str
    difference: float
    std_error: float
    best_error: float
    within: bool | None

    @property
    def is_best(self) -> bool:
        """Whether nothing is better than it."""
        return self.name == self.best

    def to_frame(self) -> pd.DataFrame:
        """One row."""
        names = ("best", "difference", "std_error", "best_error", "within")
        row = {"metric": self.metric.name, **{name: getattr(self, name) for name in names}}
        return pd.DataFrame([row], index=pd.Index([self.name], name="readable"))

    def __str__(self) -> str:
        if self.is_best:
            return f"{self.name}, the best, is readable itself."
        scale, unit = (100.0, " points") if self.metric.percent else (1.0, "")
        text = f"{self.name}, {self.metric.name} {self.figure}, is the best of the readable learners"
        if self.difference == 0:
            return f"{text}, and no worse than {self.best}."
        gap = scale * self.difference
        if not np.isfinite(self.std_error):
            return f"{text}, {fmt(gap, 2)}{unit} worse than {self.best}; the standard error of that is unknown."
        spread = scale * max(self.std_error, 0.0)
        apart = with_limits(gap, gap - spread, gap + spread)[0]
        errors = f"standard error {fmt(spread, 2)}, that of {self.best} itself {fmt(scale * self.best_error, 2)}"
        said = f"{text}, {apart}{unit} worse than {self.best} ({errors})"
        if self.within is None:
            return f"{said}; on folds in the order of time these errors are a guide only, so nothing is claimed."
        return f"{said}: {'about as good' if self.within else 'more than one standard error worse'}."


@dataclass(frozen=True, eq=False, repr=False)
class Opened(Result):
    """The test set, opened: one primary figure that carries the level, others beside it.

    | field      | meaning                                                                            |
    |------------|------------------------------------------------------------------------------------|
    | primary    | the name of the metric that carries the level                                      |
    | intervals  | metric -> `Interval`; beyond the plan they carry no level                          |
    | release    | what the Ladder lets out for a look beyond the plan; None for a planned one        |
    | look       | the ledger's record, written before any score                                      |
    | y, predictions | the test targets and predictions ("values" or "labels", "probabilities")       |
    | notes      | sentences a reader must know                                                       |
    | tail       | whether a few rows carry the primary figure; None where no loss can grow without end |
    | baseline   | metric -> the baseline's figure on the same rows; empty beyond the plan            |
    | against_baseline | the selected learner tested against it; None beyond the plan, or with it selected |
    | recorded   | whether the figures are those of the ledger, as a refit now gives another model    |
    """

    study: str
    primary: str
    intervals: Mapping[str, Interval]
    release: Release | None
    look: Look
    y: Array
    predictions: Mapping[str, Array]
    classes: Array | None
    notes: tuple[str, ...] = ()
    parts: Any = field(default=None)
    tail: TailDiagnosis | None = None
    baseline: Mapping[str, float] = field(default_factory=dict)
    against_baseline: BaselineTest | None = None
    recorded: bool = False

    def to_frame(self) -> pd.DataFrame:
        """One row per metric: estimate, lower, upper, level, method, n, role, baseline."""
        return _figures_frame(self.intervals, self.primary, self.baseline)

    def __str__(self) -> str:
        title = f"Test set of study {self.study}, opened: {self.look}"
        lines = []
        if self.release is not None:
            lines.append(str(self.release))
        for name, found in self.intervals.items():
            role = "" if name == self.primary else "  (secondary)"
            shown = with_limits(found.estimate, found.lower, found.upper, percent=name in PERCENT)
            lines.append(
                f"{name} {shown[0]}, {100 * found.level:g}% interval [{shown[1]}, {shown[2]}] "
                f"({found.method}, n = {format_n(found.n)}){self._beside(name)}{role}"
            )
        if self.against_baseline is not None:
            lines.append(str(self.against_baseline))
        rule = "-" * min(110, max(len(line) for line in [title, *lines]))
        return "\n".join(
            [title, rule, *lines, rule, *(note if note.endswith(".") else note + "." for note in self.notes)]
        )

    def _repr_html_(self) -> str:
        if self.release is not None:
            return f"<p>{escape(str(self.release))}</p>"
        return _figures_html(self.intervals, self.primary, self.baseline, self.notes)

    def _beside(self, name: str) -> str:
        """The baseline's figure, to the precision of the interval beside it."""
        if name not in self.baseline:
            return ""
        found = self.intervals[name]
        return f", baseline {figure(self.baseline[name], found.lower, found.upper, percent=name in PERCENT)}"


@dataclass(frozen=True, eq=False, repr=False)
class Outer(Result):
    """A study without a test set: the whole procedure, repeated without the rows of each outer fold, on these rows.

    No fold that selected anything is part of these figures. They are of the procedure (panel, tuning, selection,
    threshold, calibration, refit) trained on the other outer folds, so the model that is fitted to all rows is as good
    or a little better. The intervals allow for the choice of rows and for training sets that overlap, not for the
    number of studies that were made of these rows: no look is spent, and `studies` names them instead.

    | field      | meaning                                                                            |
    |------------|------------------------------------------------------------------------------------|
    | study      | its name                                                                           |
    | primary    | the name of the metric that carries the level                                      |
    | intervals  | metric -> `Interval`; empty where outer folds are missing                           |
    | baseline   | metric -> the baseline's figure on the same folds                                  |
    | against_baseline | the procedure tested against it; None with the baseline selected, or untestable |
    | scheme     | the outer folds                                                                    |
    | selected   | the learner that each outer fold selected                                          |
    | studies    | the studies that these rows and this target have had, this one included            |
    | y, predictions, classes | targets and predictions of the rows of all outer folds                |
    | notes      | sentences a reader must know                                                       |
    | unfinished | outer folds that the time budget left                                              |
    """

    study: str
    primary: str
    intervals: Mapping[str, Interval]
    baseline: Mapping[str, float]
    against_baseline: BaselineTest | None
    scheme: str
    selected: tuple[str, ...]
    studies: tuple[str, ...]
    y: Array
    predictions: Mapping[str, Array]
    classes: Array | None
    notes: tuple[str, ...] = ()
    unfinished: int = 0

    @property
    def chosen(self) -> str:
        """The learners that were selected and in how many outer folds.

        >>> one = Outer("s", "rmse", {}, {}, None, "", ("ridge", "tree", "ridge"), (), np.zeros(0), {}, None)
        >>> one.chosen
        'ridge in 2, tree in 1'
        """
        return ", ".join(f"{name} in {count}" for name, count in Counter(self.selected).most_common())

    @property
    def studied(self) -> str:
        """How many studies these rows and this target have had, in a sentence."""
        count = len(self.studies)
        if count == 1:
            return "This is the first study of these rows and this target."
        return (
            f"These rows and this target have had {count:,} studies; without a test set nothing limits their number, "
            "and the best of their figures is optimistic."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per metric: estimate, lower, upper, level, method, n, role, baseline."""
        return _figures_frame(self.intervals, self.primary, self.baseline)

    def __str__(self) -> str:
        title = f"Outer folds of study {self.study}, which has no test set: {self.scheme}"
        lines = []
        for name, found in self.intervals.items():
            shown = with_limits(found.estimate, found.lower, found.upper, percent=name in PERCENT)
            beside = figure(self.baseline.get(name, np.nan), found.lower, found.upper, percent=name in PERCENT)
            lines.append(
                f"{name} {shown[0]}, {100 * found.level:g}% interval [{shown[1]}, {shown[2]}] ({found.method}, "
                f"n = {format_n(found.n)}), baseline {beside}{'' if name == self.primary else '  (secondary)'}"
            )
        lines += [] if self.against_baseline is None else [str(self.against_baseline)]
        lines += [f"selected: {self.chosen}"] if self.selected else []
        rule = "-" * min(110, max(len(line) for line in [title, *lines]))
        notes = [note if note.endswith(".") else note + "." for note in self.notes]
        return "\n".join([title, rule, *lines, rule, *notes, self.studied])

    def _repr_html_(self) -> str:
        return _figures_html(self.intervals, self.primary, self.baseline, (*self.notes, self.studied))


def _figures_frame(intervals: Mapping[str, Interval], primary: str, baseline: Mapping[str, float]) -> pd.DataFrame:
    """One row per metric: its interval, its role, and the figure of the baseline."""
    frame = pd.concat([interval.to_frame() for interval in intervals.values()])
    frame.index = pd.Index(list(intervals), name="metric")
    frame["role"] = ["primary" if name == primary else "secondary" for name in intervals]
    frame["baseline"] = [baseline.get(name, np.nan) for name in intervals]
    return frame


def _figures_html(
    intervals: Mapping[str, Interval], primary: str, baseline: Mapping[str, float], notes: tuple[str, ...]
) -> str:
    """The same for a notebook: each figure to the precision of its interval, the notes below."""
    rows = {}
    for name, found in intervals.items():
        percent = name in PERCENT
        shown = with_limits(found.estimate, found.lower, found.upper, percent=percent)
        guess = figure(baseline[name], found.lower, found.upper, percent=percent) if name in baseline else ""
        ends = f"{shown[1]} to {shown[2]} ({100 * found.level:.4g}%)"
        role = "primary" if name == primary else "secondary"
        rows[name] = (shown[0], ends, guess, role, found.method, format_n(found.n))
    table = _html(rows, ("estimate", "interval", "baseline", "role", "method", "n")) if rows else ""
    return table + "".join(f"<p>{escape(note[:1].upper() + note[1:].rstrip('.'))}.</p>" for note in notes)


def _html(rows: Mapping[str, tuple[str, ...]], columns: tuple[str, ...]) -> str:
    """Cells that are written already as a table for a notebook."""
    return str(pd.DataFrame.from_dict(dict(rows), orient="index", columns=list(columns)).to_html())
