"""What learning and validation curves give back: scores fold by fold, means, limits of two kinds, marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import ParameterError
from assay.metrics.definition import Metric
from assay.numbers import fmt
from assay.resampling import Scheme
from assay.results import Interval, Result

__all__ = ["LearningCurve", "ScoreCurve", "ValidationCurve", "is_numeric", "short"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class ScoreCurve(Result):
    """Held-out and training scores along one variable, fold by fold, with pointwise and simultaneous limits.

    | field                      | meaning                                                                      |
    |----------------------------|------------------------------------------------------------------------------|
    | values, x_name             | the positions and what they are                                              |
    | test_scores, train_scores  | one row per position, one column per fold; the metric in its own direction   |
    | estimate, std_error        | held-out score of all out-of-fold rows, and its corrected standard error     |
    | lower, upper               | pointwise limits                                                             |
    | band_lower, band_upper     | simultaneous limits (Bonferroni over the positions)                          |
    | train_estimate             | mean training score                                                          |
    | fit_seconds                | one row per position, one column per fold                                    |
    | scheme, level, limits      | the folds, the level, and how the limits were made                           |
    """

    name: str
    metric: Metric
    scheme: Scheme
    values: tuple[Any, ...]
    x_name: str
    test_scores: Array
    train_scores: Array
    estimate: Array
    std_error: Array
    lower: Array
    upper: Array
    band_lower: Array
    band_upper: Array
    train_estimate: Array
    fit_seconds: Array
    level: float
    limits: str
    log_x: bool = False
    marks: Mapping[str, Any] = field(default_factory=dict)

    title = "Curve"
    estimand = ""

    @property
    def best(self) -> Any:
        """The position of the best held-out score."""
        sign = -1.0 if self.metric.greater_is_better else 1.0
        return self.values[int(np.argmin(sign * self.estimate))]

    def interval(self, at: Any = None, *, simultaneous: bool = False) -> Interval:
        """The limits at one position (the last by default), pointwise or simultaneous."""
        k = len(self.values) - 1 if at is None else next((k for k, v in enumerate(self.values) if v == at), -1)
        if k < 0:
            raise ParameterError(f"at = {at!r} was not tried", remedy=f"choose one of {list(self.values)}")
        low, high = (self.band_lower, self.band_upper) if simultaneous else (self.lower, self.upper)
        text = f"{self.metric.name} at {self.x_name} = {self.values[k]}"
        method = f"{self.limits}, simultaneous" if simultaneous else self.limits
        return Interval(float(self.estimate[k]), float(low[k]), float(high[k]), self.level, method, self.scheme.n, text)

    def to_frame(self) -> pd.DataFrame:
        """One row per position: score, its standard error and limits, training score, seconds per fit."""
        names = ("estimate", "std_error", "lower", "upper", "band_lower", "band_upper", "train_estimate")
        frame = pd.DataFrame({self.x_name: list(self.values), **{name: getattr(self, name) for name in names}})
        frame["fit_seconds"] = self.fit_seconds.mean(axis=1)
        return frame

    def __str__(self) -> str:
        title = f"{self.title} of {self.name}: {self.metric.name}"
        kept = ("estimate", "std_error", "lower", "upper", "band_lower", "band_upper", "train_estimate", "fit_seconds")
        frame = self.to_frame()
        shown = {self.x_name: [short(v) for v in self.values], **{n: [short(v) for v in frame[n]] for n in kept}}
        shown = {"train" if n == "train_estimate" else n: v for n, v in shown.items()}
        body = pd.DataFrame(shown).to_string(index=False, justify="right").splitlines()
        how = f"{self.scheme}; {100 * self.level:.4g}% limits ({self.limits}); band: all at once (Bonferroni)"
        rule = "-" * max(len(line) for line in [title, how, *body])
        return "\n".join([title, rule, how, *body, rule, *self._notes(), f"Estimates {self.estimand}."])

    def _notes(self) -> list[str]:
        return [f"{name} at {self.x_name} = {short(at)}" for name, at in self.marks.items()]


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve(ScoreCurve):
    """Scores against the number of training rows; `gain` compares the last two sizes, fold by fold."""

    gain: Interval | None = None

    title = "Learning curve"
    estimand = "the score on new rows of the learner trained on so many rows, averaged over training sets"

    def _notes(self) -> list[str]:
        return [] if self.gain is None else [str(self.gain)]


@dataclass(frozen=True, eq=False, repr=False)
class ValidationCurve(ScoreCurve):
    """Scores against a parameter; `marks` holds the best value and, with an order, the one-standard-error choice."""

    rule: float | None = None
    simplest: str | None = None

    title = "Validation curve"
    estimand = "the score on new rows at each value; the best of them is optimistic, so test it on new rows"


def short(value: Any) -> str:
    """A value as it is printed."""
    if isinstance(value, float | np.floating):
        return "-" if np.isnan(value) else fmt(value)
    return str(value)


def is_numeric(values: Sequence[Any]) -> bool:
    """Whether all values are numbers, so that they have a place on an axis."""
    return all(isinstance(v, int | float | np.integer | np.floating) and not isinstance(v, bool) for v in values)
