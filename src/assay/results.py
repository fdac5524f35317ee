"""What a method gives back: frozen, printable, `to_frame()`, `plot()`.

A figure that estimates something carries its interval, method, level and estimand. A result holds
arrays and words only; how it is drawn is decided in `assay.report.draw`, which `Result.plot` reaches
by name, the one place where a lower room calls a higher one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from assay.constraints import none, text
from assay.numbers import figure, fmt, limits
from assay.state import Specs, Stateful, several, values
from assay.upcalls import upcall

__all__ = [
    "Adjustment",
    "Bound",
    "Curve",
    "Diagnostics",
    "Interval",
    "Path",
    "Result",
    "Summary",
    "TestResult",
    "Trace",
]

Array = np.ndarray
Value = Any
"""A number, or an array with one entry per column."""
Size = Any
"""A number of rows, a pair of them for two samples, or an array with one entry per column."""


class Result(Stateful):
    """What all results share: a frame, a picture, and HTML in notebooks."""

    def to_frame(self) -> pd.DataFrame:
        """The result as a table."""
        raise AttributeError(f"{type(self).__name__} has no table")

    def plot(self, ax: Any = None) -> Any:
        """Draw the result into `ax`, or into a new figure, and return the axes."""
        return upcall("draw")(self, ax=ax)

    def __repr__(self) -> str:
        # Arrays of thousands of numbers help nobody at a prompt.
        return str(self)

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(float_format=lambda value: fmt(value, 6))


def _same(self: Any, other: Any) -> Any:
    """Equality of results that may hold arrays: the same kind, and every compared field equal."""
    if type(self) is not type(other):
        return NotImplemented
    return all(_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.compare)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)


@dataclass(frozen=True)
class Interval(Result):
    """An estimate with its limits, and everything needed to defend them.

    Made from several columns at once, `estimate`, `lower` and `upper` are arrays and `names` names
    their entries. A one-sided interval has an infinite end (or the end of the estimand's range).

    >>> print(Interval(0.5, 0.4, 0.6, level=0.95, method="Wilson", n=100, estimand="accuracy"))
    accuracy 0.50 [0.40, 0.60] (95% Wilson interval, n = 100)
    """

    estimate: Value
    lower: Value
    upper: Value
    level: float
    method: str
    n: Size
    estimand: str
    names: tuple[str, ...] = ()

    __eq__ = _same

    def __str__(self) -> str:
        kind = f"{100 * self.level:.4g}% {self.method} interval, n = {format_n(self.n)}"
        if not self.names:
            return f"{self.estimand} {_figure(self.estimate, self.lower, self.upper)} ({kind})"
        rows = zip(self.names, self.estimate, self.lower, self.upper, strict=True)
        width = max(len(name) for name in self.names)
        lines = [f"  {name:<{width}}  {_figure(e, low, high)}" for name, e, low, high in rows]
        return "\n".join([f"{self.estimand} ({kind})", *lines])

    def __contains__(self, value: Value) -> bool:
        """Whether the value lies inside; with several columns, inside all of them."""
        return bool(np.all((self.lower <= value) & (value <= self.upper)))

    def to_frame(self) -> pd.DataFrame:
        """One row per interval: estimate, lower, upper, level, method, n."""
        index = list(self.names) or [self.estimand]
        row = {name: getattr(self, name) for name in ("estimate", "lower", "upper", "level", "method", "n")}
        row["n"] = [self.n] * len(index) if isinstance(self.n, tuple) else self.n
        return pd.DataFrame(row, index=index)


@dataclass(frozen=True)
class TestResult(Result):
    """A test: statistic, p-value and, where there is one, the estimate, its effect size and its interval.

    Vectorised over columns, the figures are arrays and `names` names their entries. `interval(level)`
    is worked out on demand, with the same alternative as the test: "less" gives (-inf, u].

    | field                    | meaning                                                             |
    |--------------------------|---------------------------------------------------------------------|
    | statistic, df, p_value   | the statistic, its degrees of freedom (None: none), the p-value      |
    | estimate, estimand, null | what was estimated, its name, and its value under the hypothesis     |
    | effect_size, effect_name | the effect without units, and which one it is                        |
    | hedges_g                 | Cohen's d with Hedges' correction for small samples, where it applies |
    | n, alternative           | the number of rows (one per sample), and the alternative             |
    | assumptions              | sentences that must hold for the p-value to mean what it says        |
    | liberal                  | why and how far the test rejects too often, where that is known      |
    | untested                 | why nothing could be tested; empty where something was               |

    >>> print(TestResult(12.5, 0.0004, (1, 30), "F test"))
    F test: statistic 12.5 (df 1, 30), p = 0.0004
    """

    __test__ = False  # pytest collects classes by this prefix

    statistic: Value
    p_value: Value
    df: Any
    method: str
    estimate: Value = None
    effect_size: Value = None
    effect_name: str = ""
    hedges_g: Value = None
    n: Size | None = None
    alternative: str = "two-sided"
    null: Value = None
    estimand: str = ""
    assumptions: tuple[str, ...] = ()
    liberal: str = ""
    untested: str = ""
    names: tuple[str, ...] = ()
    interval_rule: Callable[[float], Interval] | None = field(default=None, repr=False, compare=False)

    __eq__ = _same

    def interval(self, level: float = 0.95) -> Interval:
        """The confidence interval of the estimate that belongs to this test."""
        if self.interval_rule is None:
            raise AttributeError(f"the {self.method} estimates no single quantity, so it has no interval")
        return self.interval_rule(level)

    def __str__(self) -> str:
        if self.estimate is None:
            df = "" if self.df is None else f" (df {', '.join(f'{d:g}' for d in np.atleast_1d(self.df))})"
            return f"{self.method}: statistic {fmt(self.statistic, 5)}{df}, p = {format_p(self.p_value)}"
        body = self._columns() if self.names else self._facts()
        null = f"null {self.estimand} = {_spread(self.null)}, alternative: {self.alternative}, n = {format_n(self.n)}"
        rule = "-" * max(len(line) for line in [self.method, null, *body])
        assumes = [f"Assumes: {'; '.join(self.assumptions)}."] if self.assumptions else []
        assumes += [f"Rejects too often: {self.liberal}."] if self.liberal else []
        return "\n".join([self.method, rule, null, *body, rule, *assumes])

    def _facts(self) -> list[str]:
        df = "" if self.df is None else f", df {', '.join(fmt(d, 5) for d in np.atleast_1d(self.df))}"
        lines = [f"statistic {fmt(self.statistic, 5)}{df}, p = {format_p(self.p_value)}"]
        if self.interval_rule is None:
            lines.append(f"{self.estimand} {fmt(self.estimate, 5)}")
        else:
            shown = self.interval(0.95)
            estimate = figure(self.estimate, shown.lower, shown.upper)
            reach = limits(shown.lower, shown.upper, self.estimate)
            lines.append(f"{self.estimand} {estimate}, 95% interval {reach} ({shown.method})")
        if self.effect_size is not None:
            corrected = "" if self.hedges_g is None else f", Hedges' g {_say(self.hedges_g)}"
            lines.append(f"{self.effect_name} {fmt(self.effect_size, 5)}{corrected}")
        return lines

    def _columns(self) -> list[str]:
        known = ["n"] if np.ndim(self.null) else ["n", "null"]  # the line above the table has said these
        frame = self.to_frame().drop(columns=[*known, *(["df"] if self.df is None else [])], errors="ignore")
        shown = {name: [_cell(name, value) for value in frame[name]] for name in frame}
        return pd.DataFrame(shown, index=frame.index).to_string(justify="right").splitlines()

    def to_frame(self) -> pd.DataFrame:
        """One row per test; with an estimate also its 95% limits, null, effect size and n."""
        index = list(self.names) or [self.method]
        columns: dict[str, Any] = {"statistic": self.statistic, "df": self.df, "p_value": self.p_value}
        if self.estimate is not None:
            columns = {"estimate": self.estimate}
            if self.interval_rule is not None:
                shown = self.interval(0.95)
                columns |= {"lower": shown.lower, "upper": shown.upper}
            columns |= {"statistic": self.statistic, "df": self.df, "p_value": self.p_value}
            columns |= {"effect_size": self.effect_size, "hedges_g": self.hedges_g, "null": self.null, "n": self.n}
        single = {k: [v] * len(index) if isinstance(v, tuple) or np.ndim(v) == 0 else v for k, v in columns.items()}
        return pd.DataFrame({k: v for k, v in single.items() if k in _ALWAYS or v[0] is not None}, index=index)


_ALWAYS = ("statistic", "df", "p_value")


@dataclass(frozen=True, eq=False, repr=False)
class Adjustment(Result):
    """P-values corrected for their number: reject where `adjusted <= alpha`.

    `threshold` is the largest p-value rejected (0 if none is); `estimated_fdp` = m threshold / rejections
    estimates the share of false discoveries among the rejections, with every hypothesis taken as
    possibly null (no estimate of their share enters).
    """

    p_values: Array
    adjusted: Array
    rejected: Array
    method: str
    alpha: float
    threshold: float
    estimated_fdp: float
    controls: str
    assumptions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def m(self) -> int:
        """How many hypotheses were tested."""
        return int(self.p_values.size)

    @property
    def n_rejected(self) -> int:
        """How many of them are rejected."""
        return int(np.count_nonzero(self.rejected))

    def to_frame(self) -> pd.DataFrame:
        """One row per hypothesis, in the order given: p_value, adjusted, rejected."""
        columns = {"p_value": self.p_values, "adjusted": self.adjusted, "rejected": self.rejected}
        return pd.DataFrame(columns, index=list(self.names) or None)

    def __str__(self) -> str:
        lines = [
            f"{self.method} correction of {self.m} p-values",
            f"controls the {self.controls} at {self.alpha:g}",
            f"rejected {self.n_rejected}, threshold p <= {fmt(self.threshold)}, "
            f"estimated false discovery proportion {fmt(self.estimated_fdp, 3)}",
        ]
        rule = "-" * max(len(line) for line in lines)
        best = self.to_frame().nsmallest(min(10, self.m), "p_value")
        title = ["smallest p-values:"] if self.m > len(best) else []
        table = best.to_string(float_format=format_p).splitlines()
        return "\n".join([lines[0], rule, *lines[1:], rule, *title, *table, f"Assumes: {'; '.join(self.assumptions)}."])

    def _repr_html_(self) -> str:
        best = self.to_frame().nsmallest(min(50, self.m), "p_value")
        return f"<p>{escape(str(self).splitlines()[0])}</p>{best.to_html(float_format=format_p)}"


@dataclass(frozen=True, eq=False, repr=False)
class Bound(Result):
    """A tail bound solved for the quantity that was left out.

    `solved` names it and `value` holds it; `quantities` holds all of them, also reached as attributes
    would be: `bound["eps"]`. `tail(eps)` is the bound on the probability at any other deviation.
    """

    method: str
    solved: str
    value: float
    quantities: Mapping[str, Any]
    statement: str
    assumptions: tuple[str, ...] = ()
    deviation: str = "eps"
    tail: Callable[[Any], Any] | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.quantities[name]

    def __float__(self) -> float:
        return float(self.value)

    def to_frame(self) -> pd.DataFrame:
        """One row: every quantity, and which of them was solved for."""
        return pd.DataFrame([{**self.quantities, "solved": self.solved}], index=[self.method])

    def __str__(self) -> str:
        given = ", ".join(f"{name} = {_say(v)}" for name, v in self.quantities.items() if name != self.solved)
        lines = [f"{self.solved} = {_say(self.value)}  (given {given})", self.statement]
        rule = "-" * max(len(line) for line in [self.method, *lines])
        return "\n".join([self.method, rule, *lines, rule, f"Assumes: {'; '.join(self.assumptions)}."])


@dataclass(frozen=True, eq=False, repr=False)
class Curve(Result):
    """An estimate as a function of one variable, with standard errors or a band, and named positions.

    `marks` names positions on the x axis (`{"min": 0.1, "1se": 0.4}`); `points` are raw data to
    show behind the curve; `rule` is a horizontal reference such as the one-standard-error line.
    """

    x: Array
    estimate: Array
    x_name: str
    y_name: str
    std_error: Array | None = None
    lower: Array | None = None
    upper: Array | None = None
    level: float | None = None
    marks: Mapping[str, float] = field(default_factory=dict)
    rule: float | None = None
    points: tuple[Array, Array] | None = None
    log_x: bool = False
    title: str = ""

    state: ClassVar[Specs] = {
        "x": values("n"),
        "estimate": values("n"),
        **dict.fromkeys(("std_error", "lower", "upper"), values("n") | none),
    }

    def to_frame(self) -> pd.DataFrame:
        """One row per position: x, estimate and whatever uncertainty the curve carries."""
        columns = {self.x_name: self.x, "estimate": self.estimate}
        for name in ("std_error", "lower", "upper"):
            if getattr(self, name) is not None:
                columns[name] = getattr(self, name)
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        marks = "".join(f", {name} at {fmt(at, 5)}" for name, at in self.marks.items())
        return f"{self.title or self.y_name} against {self.x_name}, {self.x.size} points{marks}"


@dataclass(frozen=True, eq=False, repr=False)
class Path(Result):
    """Coefficients along a path: one row of `coefficients` per variable, one column per position."""

    x: Array
    coefficients: Array
    intercepts: Array
    names: Sequence[str]
    x_name: str = "alpha"
    log_x: bool = True
    marks: Mapping[str, float] = field(default_factory=dict)
    dual_gaps: Array | None = None
    title: str = ""

    state: ClassVar[Specs] = {"x": values("n"), "coefficients": values("p", "n"), "names": several(text, "p")}

    def to_frame(self) -> pd.DataFrame:
        """One row per position on the path, one column per variable."""
        frame = pd.DataFrame(self.coefficients.T, columns=list(self.names))
        # A column of the data may bear the same name.
        frame.insert(0, "intercept", self.intercepts, allow_duplicates=True)
        frame.insert(0, self.x_name, self.x, allow_duplicates=True)
        return frame

    def __str__(self) -> str:
        most = int((self.coefficients != 0).sum(axis=0).max(initial=0))
        return (
            f"{self.title or 'Path'} of {len(self.names)} coefficients over {self.x.size} values of {self.x_name}, "
            f"at most {most} of them non-zero"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Result):
    """How an iterative solver went: one value of the objective per iteration, and why it stopped."""

    objective: Array
    converged: bool
    message: str

    @property
    def n_iter(self) -> int:
        """How many iterations were made."""
        return int(self.objective.size)

    def to_frame(self) -> pd.DataFrame:
        """One row per iteration."""
        return pd.DataFrame({"iteration": np.arange(1, self.n_iter + 1), "objective": self.objective})

    def __str__(self) -> str:
        last = f", objective {fmt(self.objective[-1], 6)}" if self.n_iter else ""
        return (
            f"{'converged' if self.converged else 'not converged'} after {self.n_iter} iterations{last}: {self.message}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics(Result):
    """What each row of the training data does to a least-squares fit."""

    fitted: Array
    residuals: Array
    leverage: Array
    standardized: Array
    studentized: Array
    cooks_distance: Array
    index: Any = None

    def to_frame(self) -> pd.DataFrame:
        """One row per training row, labelled as they were."""
        names = ("fitted", "residuals", "leverage", "standardized", "studentized", "cooks_distance")
        return pd.DataFrame({name: getattr(self, name) for name in names}, index=self.index)

    def label(self, row: int) -> Any:
        """What the row at a position was called in the training table."""
        return row if self.index is None else self.index[row]

    def __str__(self) -> str:
        if np.isnan(self.cooks_distance).all():
            return f"{self.fitted.size} rows; no residual degrees of freedom are left to judge their influence"
        worst = int(np.nanargmax(self.cooks_distance))
        return (
            f"{self.fitted.size} rows; the most influential is row {self.label(worst)} "
            f"(Cook's distance {fmt(self.cooks_distance[worst], 3)}, leverage {fmt(self.leverage[worst], 3)})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Result):
    """A table of coefficients under a heading of facts, as statisticians expect it."""

    title: str
    table: pd.DataFrame
    facts: Mapping[str, Any]
    notes: Sequence[str] = ()

    def to_frame(self) -> pd.DataFrame:
        """The table of coefficients."""
        return self.table.copy()

    def __str__(self) -> str:
        heading = _two_columns([(name, _fact(name, value)) for name, value in self.facts.items()])
        frame = self.table.copy()
        for column in frame.columns:
            frame[column] = [_cell(column, value) for value in frame[column]]
        body = frame.to_string(justify="right")
        rule = "-" * max(len(line) for line in [*heading, *body.splitlines(), self.title])
        return "\n".join([self.title, rule, *heading, rule, body, rule, *self.notes])

    def _repr_html_(self) -> str:
        facts = (
            pd.Series({name: _fact(name, value) for name, value in self.facts.items()}).to_frame().to_html(header=False)
        )
        # Notes name columns, and column names come from files.
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<h4>{escape(self.title)}</h4>{facts}{super()._repr_html_()}{notes}"


def format_p(p: float) -> str:
    """A p-value as people print it.

    >>> format_p(0.03127), format_p(1e-20)
    ('0.0313', '<2e-16')
    """
    if np.isnan(p):
        return "-"
    return "<2e-16" if p < 2e-16 else fmt(p, 3)


def _figure(estimate: float, lower: float, upper: float) -> str:
    return f"{figure(estimate, lower, upper)} {limits(lower, upper, estimate)}"


def format_n(n: Size) -> str:
    """A number of rows, or of each sample, as people print it.

    >>> format_n(1500), format_n((20, 1500))
    ('1,500', '20 + 1,500')
    """
    return " + ".join(f"{part:,}" for part in n) if isinstance(n, tuple) else _spread(n)


def _spread(value: Value) -> str:
    """One number where all are equal, otherwise the range."""
    low, high = np.min(value), np.max(value)
    return _say(low) if low == high else f"{_say(low)} to {_say(high)}"


def _fact(name: str, value: Any) -> str:
    return format_p(value) if name.endswith("p-value") else _say(value)


def _cell(column: Any, value: Any) -> str:
    """A value of a table: every column called p_value, or something before it, holds p-values."""
    return format_p(value) if str(column).endswith("p_value") else _say(value)


def _say(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return fmt(value, 6)
    return f"{value:,}" if isinstance(value, int | np.integer) and not isinstance(value, bool) else str(value)


def _two_columns(pairs: Sequence[tuple[str, str]]) -> list[str]:
    half = (len(pairs) + 1) // 2
    sides = [_aligned(pairs[:half]), _aligned(pairs[half:])]
    return [sides[0][i] + ("    " + sides[1][i] if i < len(sides[1]) else "") for i in range(half)]


def _aligned(pairs: Sequence[tuple[str, str]]) -> list[str]:
    width = max([40, *(len(name) + len(value) + 2 for name, value in pairs)])
    return [name + value.rjust(width - len(name)) for name, value in pairs]
