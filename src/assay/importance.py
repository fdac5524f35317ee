"""The importance of columns by shuffling, one definition for every model, and its result.

Whoever shuffles a column says, replicate by replicate (a permutation of a fitted model's rows, or a tree of a forest
with its unseen rows), what the shuffle did to the loss: that is a `Replicate`. With d the rise of the loss of a row
that receives another row's value, W the weight of the rows of a replicate and R replicates,

    c = w d / (W R),     I = sum of c,     psi_k = (c where row k receives) + (c where it gives) - centre
    var(I) = m/(m-1) sum_k psi_k^2 - excess sum c^2            over m units, rows or groups of rows

A row takes part twice, so counting it as a receiver alone would halve the standard error of a linear model; the second
sum is what single pairs add to psi. `summed` and `RiseSums` do this for all: `evaluation.permutation_importance`
supplies replicates by predicting tables with one column shuffled (`evaluation._shuffle`), a forest by one walk through
each tree that serves all columns at once (`trees.importance`). What differs is stated there: the model of a forest
depends on the same rows, and its trees are a sample.
Cost: O(units) per column and replicate. Fisher, Rudin, Dominici (2019), JMLR 20(177).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pandas as pd
from scipy import special

from assay.checks import freeze
from assay.numbers import fmt
from assay.results import Interval, Result

__all__ = ["Importance", "Replicate", "RiseSums", "summed", "t_limits"]

Array = np.ndarray
SHOWN = 20
"""How many columns are printed; the frame holds all."""


class Replicate(Protocol):
    """What one shuffle of the rows did to the loss, for each of p columns.

    | field    | shape      | meaning                                                             |
    |----------|------------|---------------------------------------------------------------------|
    | rise     | (p,)       | the weighted mean rise of the loss                                  |
    | received | (p, units) | its parts by the unit whose rows received a value; they add up to it |
    | given    | (p, units) | its parts by the unit whose rows gave one; they add up to it         |
    | squares  | (p,)       | the sum of squares of the parts of single rows                      |
    """

    @property
    def rise(self) -> Array:
        """The weighted mean rise of the loss."""

    @property
    def received(self) -> Array:
        """Its parts by receiver."""

    @property
    def given(self) -> Array:
        """Its parts by giver."""

    @property
    def squares(self) -> Array:
        """The sum of squares of its parts."""


@dataclass(frozen=True, eq=False)
class RiseSums:
    """Replicates added up: the rise in each (a row per column), and the sums of their parts."""

    draws: Array
    received: Array
    given: Array
    squares: Array

    @property
    def mean(self) -> Array:
        """The importance of each column."""
        return self.draws.mean(axis=1)

    @property
    def draw_error(self) -> Array:
        """The standard error of the mean over replicates, for these rows; 0 of a single one."""
        count = self.draws.shape[1]
        return self.draws.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(self.draws))

    def row_variance(self, excess: float, centre: Any = None) -> Array:
        """The variance of the importance over new rows, which may fall below zero in few.

        `centre` is what each unit is expected to add by its weight; None: all units alike.
        """
        count, units = self.draws.shape[1], self.received.shape[1]
        psi = (self.received + self.given) / count
        psi -= psi.mean(axis=1, keepdims=True) if centre is None else centre
        return np.square(psi).sum(axis=1) * units / max(1, units - 1) - excess * self.squares / count**2


def summed(replicates: Iterable[Replicate], columns: int, units: int) -> RiseSums:
    """All replicates added up; NaN where there is none."""
    draws, squares = [], np.zeros(columns)
    received, given = np.zeros((columns, units)), np.zeros((columns, units))
    for one in replicates:
        draws.append(one.rise)
        received += one.received
        given += one.given
        squares += one.squares
    table = np.array(draws) if draws else np.full((1, columns), np.nan)
    return RiseSums(np.ascontiguousarray(table.T), received, given, squares)


@dataclass(frozen=True, eq=False, repr=False)
class Importance(Result):
    """The importance of each column (or group of columns) with its standard error and interval, in the order given.

    | field                    | meaning                                                                        |
    |--------------------------|--------------------------------------------------------------------------------|
    | names                    | the columns, or the labels of groups                                           |
    | importance, std_error    | loss when shuffled minus loss (score minus score when shuffled), and its error |
    | lower, upper, level      | an interval for each column alone                                              |
    | draws                    | one row per column: the importance in each repeat, or in each fold             |
    | baseline                 | the metric without shuffling                                                   |
    | metric, method, estimand | which figure, how the error was made, and what is estimated                    |
    | n, n_repeats, model      | rows that were shuffled, permutations of each column, and what was judged      |
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("importance", "std_error", "lower", "upper")

    names: tuple[str, ...]
    importance: Array
    std_error: Array
    lower: Array
    upper: Array
    level: float
    draws: Array
    baseline: float
    metric: str
    n: int
    n_repeats: int
    method: str
    estimand: str
    model: str

    @classmethod
    def made(cls, mean: Array, error: Array, df: float, draws: Array, *, level: float, **facts: Any) -> Self:
        """The result from means and standard errors, with t limits."""
        lower, upper = t_limits(mean, error, df, level)
        facts |= {
            "importance": freeze(mean),
            "std_error": freeze(error),
            "lower": freeze(lower),
            "upper": freeze(upper),
        }
        return cls(level=level, draws=freeze(draws), **facts)

    @property
    def order(self) -> Array:
        """Positions of the columns, the most important first."""
        return np.argsort(-self.importance, kind="stable")

    @property
    def interval(self) -> Interval:
        """All intervals as one object."""
        limits = (self.importance, self.lower, self.upper, self.level)
        return Interval(*limits, self.method, self.n, self.estimand, self.names)

    def to_frame(self) -> pd.DataFrame:
        """One row per column, the most important first."""
        figures = {name: getattr(self, name) for name in self.COLUMNS}
        return pd.DataFrame(figures, index=pd.Index(self.names, name="column")).iloc[self.order]

    def _title(self) -> str:
        return f"Permutation importance of {len(self.names)} columns for {self.model}"

    def _about(self) -> list[str]:
        return [f"{self.metric} {fmt(self.baseline, 5)} unshuffled, n = {self.n}, {self.n_repeats} repeats"]

    def __str__(self) -> str:
        title, facts = self._title(), self._about()
        facts += [f"{100 * self.level:g}% interval for each column alone: {self.method}"]
        frame = self.to_frame().head(SHOWN)
        body = frame.to_string(float_format=fmt, index_names=False).splitlines()
        rest = len(self.names) - len(frame)
        tail = [f"and {rest} less important columns"] if rest > 0 else []
        rule = "-" * max(len(line) for line in [title, *facts, *body])
        return "\n".join([title, rule, *facts, rule, *body, *tail, rule, f"Estimates the {self.estimand}."])


def t_limits(mean: Array, error: Array, df: float, level: float) -> tuple[Array, Array]:
    """Lower and upper ends of mean -+ t error, with df degrees of freedom.

    >>> [end.round(2).tolist() for end in t_limits(np.array([1.0]), np.array([0.5]), 10.0, 0.95)]
    [[-0.11], [2.11]]
    """
    half = error * float(special.stdtrit(df, (1 + level) / 2))
    return mean - half, mean + half
