"""The importance of columns as a result: one figure per column with its standard error and interval.

Whoever measures importance returns this: `evaluation.permutation_importance` for any fitted model, a forest for the
rows its trees did not see (`trees.importance.ForestImportance`, which adds what only trees know).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import special

from assay.numbers import fmt
from assay.results import Interval, Result

__all__ = ["Importance", "t_limits"]

Array = np.ndarray
SHOWN = 20
"""How many columns are printed; the frame holds all."""


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
