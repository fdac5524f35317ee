"""What a method gives back: frozen, printable, `to_frame()`, `plot()`.

A figure that estimates something carries its interval, method, level and estimand. A result holds
arrays and words only; how it is drawn is decided in `assay.report.draw`, which `Result.plot` reaches
by name, the one place where a lower room calls a higher one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["Curve", "Diagnostics", "Interval", "Path", "Result", "Summary", "TestResult", "Trace"]

Array = np.ndarray


class Result:
    """What all results share: a frame, a picture, and HTML in notebooks."""

    def to_frame(self) -> pd.DataFrame:
        """The result as a table."""
        raise AttributeError(f"{type(self).__name__} has no table")

    def plot(self, ax: Any = None) -> Any:
        """Draw the result into `ax`, or into a new figure, and return the axes."""
        return import_module("assay.report.draw").draw(self, ax=ax)

    def __repr__(self) -> str:
        # Arrays of thousands of numbers help nobody at a prompt.
        return str(self)

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(float_format=lambda value: f"{value:.6g}")


@dataclass(frozen=True)
class Interval(Result):
    """An estimate with its limits, and everything needed to defend them.

    >>> print(Interval(0.5, 0.4, 0.6, level=0.95, method="Wilson", n=100, estimand="accuracy"))
    accuracy 0.5 [0.4, 0.6] (95% Wilson interval, n = 100)
    """

    estimate: float
    lower: float
    upper: float
    level: float
    method: str
    n: int
    estimand: str

    def __str__(self) -> str:
        return (
            f"{self.estimand} {self.estimate:.5g} [{self.lower:.5g}, {self.upper:.5g}] "
            f"({100 * self.level:.4g}% {self.method} interval, n = {self.n})"
        )

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def to_frame(self) -> pd.DataFrame:
        """One row: estimate, lower, upper, level, method, n."""
        row = {name: [getattr(self, name)] for name in ("estimate", "lower", "upper", "level", "method", "n")}
        return pd.DataFrame(row, index=[self.estimand])


@dataclass(frozen=True)
class TestResult(Result):
    """A test statistic, its null distribution's degrees of freedom and the p-value."""

    __test__ = False  # pytest collects classes by this prefix

    statistic: float
    p_value: float
    df: tuple[float, ...]
    method: str

    def __str__(self) -> str:
        df = ", ".join(f"{d:g}" for d in self.df)
        return f"{self.method}: statistic {self.statistic:.5g} (df {df}), p = {format_p(self.p_value)}"

    def to_frame(self) -> pd.DataFrame:
        """One row: statistic, df, p_value."""
        row = {"statistic": [self.statistic], "df": [self.df], "p_value": [self.p_value]}
        return pd.DataFrame(row, index=[self.method])


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

    def to_frame(self) -> pd.DataFrame:
        """One row per position: x, estimate and whatever uncertainty the curve carries."""
        columns = {self.x_name: self.x, "estimate": self.estimate}
        for name in ("std_error", "lower", "upper"):
            if getattr(self, name) is not None:
                columns[name] = getattr(self, name)
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        marks = "".join(f", {name} at {at:.5g}" for name, at in self.marks.items())
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
        last = f", objective {self.objective[-1]:.6g}" if self.n_iter else ""
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
            f"(Cook's distance {self.cooks_distance[worst]:.3g}, leverage {self.leverage[worst]:.3g})"
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
            form = format_p if column == "p_value" else _say
            frame[column] = [form(value) for value in frame[column]]
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
    return "<2e-16" if p < 2e-16 else f"{p:.3g}"


def _fact(name: str, value: Any) -> str:
    return format_p(value) if name.endswith("p-value") else _say(value)


def _say(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "-" if np.isnan(value) else f"{value:.6g}"
    return str(value)


def _two_columns(pairs: Sequence[tuple[str, str]]) -> list[str]:
    half = (len(pairs) + 1) // 2
    sides = [_aligned(pairs[:half]), _aligned(pairs[half:])]
    return [sides[0][i] + ("    " + sides[1][i] if i < len(sides[1]) else "") for i in range(half)]


def _aligned(pairs: Sequence[tuple[str, str]]) -> list[str]:
    width = max([40, *(len(name) + len(value) + 2 for name, value in pairs)])
    return [name + value.rjust(width - len(name)) for name, value in pairs]
