"""What a conformal predictor gives back: intervals, sets of classes, and how often they cover rows it has not seen.

    coverage = share of rows whose target lies inside          with the exact (Clopper-Pearson) interval of that share

The exact interval is about this predictor on new rows like the ones given, each an independent trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import freeze
from assay.errors import DataError
from assay.inference import mean_interval, proportion_interval
from assay.numbers import fmt
from assay.results import Interval, Result

__all__ = ["Coverage", "PredictionIntervals", "PredictionSets", "measure"]

Array = np.ndarray
SLICES = 5
"""Rows are looked at in so many slices of the prediction, to see where coverage is short."""


@dataclass(frozen=True, eq=False, repr=False)
class PredictionIntervals(Result):
    """One interval per row: `prediction`, `lower`, `upper`; numpy sees the two columns of limits."""

    prediction: Array
    lower: Array
    upper: Array
    level: float
    method: str
    n: int
    guarantee: str
    index: Any = None

    @property
    def width(self) -> Array:
        """How wide each interval is."""
        return np.asarray(self.upper - self.lower)

    def contains(self, y: Any) -> Array:
        """Whether each target lies inside its interval."""
        y = np.asarray(y, dtype=float)
        return np.asarray((self.lower <= y) & (y <= self.upper))

    def __len__(self) -> int:
        return int(self.lower.size)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.column_stack([self.lower, self.upper]).astype(dtype or float)

    def to_frame(self) -> pd.DataFrame:
        """One row per interval: prediction, lower, upper."""
        columns = {name: getattr(self, name) for name in ("prediction", "lower", "upper")}
        return pd.DataFrame(columns, index=self.index)

    def __str__(self) -> str:
        title = f"{len(self)} prediction intervals, level {self.level:g}, {self.method} on {self.n} rows"
        mean = f"mean width {fmt(self.width.mean(), 5)}" if np.isfinite(self.width).all() else "infinite width"
        facts = [mean, f"Guarantee: {self.guarantee}."]
        rule = "-" * max(len(line) for line in [title, *facts])
        return "\n".join([title, rule, *facts, rule, *_head(self.to_frame())])


@dataclass(frozen=True, eq=False, repr=False)
class PredictionSets(Result):
    """One set of classes per row: `inside[i, c]` says whether class c belongs to the set of row i.

    `probabilities` are the model's own (their mean over the models of CV+).
    """

    inside: Array
    classes: Array
    probabilities: Array
    level: float
    method: str
    n: int
    guarantee: str
    index: Any = None

    @property
    def size(self) -> Array:
        """How many classes each set holds."""
        return np.asarray(self.inside.sum(axis=1))

    def __len__(self) -> int:
        return len(self.inside)

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        return tuple(self.classes[self.inside[row]].tolist())

    def to_frame(self) -> pd.DataFrame:
        """One row per set: a column of True and False for each class."""
        return pd.DataFrame(self.inside, columns=pd.Index(self.classes.tolist(), name="class"), index=self.index)

    def __str__(self) -> str:
        title = f"{len(self)} prediction sets, level {self.level:g}, {self.method} on {self.n} rows"
        counts = np.bincount(self.size, minlength=2)
        sizes = ", ".join(f"{count} of size {size}" for size, count in enumerate(counts) if count)
        facts = [f"mean size {fmt(self.size.mean())}: {sizes}", f"Guarantee: {self.guarantee}."]
        rule = "-" * max(len(line) for line in [title, *facts])
        names = ["{" + ", ".join(str(label) for label in self[i]) + "}" for i in range(min(10, len(self)))]
        frame = pd.DataFrame({"set": names}, index=None if self.index is None else self.index[:10])
        more = [f"and {len(self) - 10} more rows"] if len(self) > 10 else []
        return "\n".join([title, rule, *facts, rule, *frame.to_string().splitlines(), *more])


@dataclass(frozen=True, eq=False, repr=False)
class Coverage(Result):
    """Measured coverage of new rows: overall, by class or slice of the prediction, and the size paid for it.

    | field     | meaning                                                                          |
    |-----------|----------------------------------------------------------------------------------|
    | coverage  | the share of rows covered, with its exact interval                               |
    | size      | the mean width of intervals, or the mean number of classes in a set              |
    | nominal   | the level that was asked for                                                     |
    | parts     | one row per class, or per fifth of the predictions: rows, coverage, limits, size |
    | guarantee | what was promised                                                                |

    The promise is an average over calibration sets: the coverage of one predictor varies around it, for split sets as
    Beta(k, n + 1 - k) with k = ceil(level (n + 1)), so a measured figure a little below the level breaks no promise.
    """

    coverage: Interval
    size: Interval
    nominal: float
    parts: pd.DataFrame
    guarantee: str

    def to_frame(self) -> pd.DataFrame:
        """One row for all rows and one per part: rows, coverage, lower, upper, size."""
        c = self.coverage
        whole = {"rows": c.n, "coverage": c.estimate, "lower": c.lower, "upper": c.upper, "size": self.size.estimate}
        return pd.concat([pd.DataFrame([whole], index=pd.Index(["all"])), self.parts])

    def __str__(self) -> str:
        side = "above" if self.coverage.estimate > self.nominal else "below"
        text = f"{'compatible with' if self.nominal in self.coverage else side} the nominal {self.nominal:g}"
        body = self.to_frame().to_string(float_format=fmt).splitlines()
        lines = [f"{self.coverage}: {text}", str(self.size), f"Promised: {self.guarantee}."]
        rule = "-" * max(len(line) for line in [*lines, *body])
        return "\n".join(["Measured coverage", rule, *lines, rule, *body])


def measure(found: PredictionIntervals | PredictionSets, y: Array, confidence: float) -> Coverage:
    """Coverage of targets: numbers for intervals, positions of classes for sets."""
    if len(found) == 0:
        raise DataError("there are no rows to measure coverage on", remedy="pass at least two rows")
    if isinstance(found, PredictionIntervals):
        covered, size, estimand = found.contains(y), found.width, "mean width"
        part, names = _slices(found.prediction)
    else:
        covered, size, estimand = found.inside[np.arange(y.size), y], found.size.astype(float), "mean set size"
        part, names = y, [str(label) for label in found.classes.tolist()]
    table = []
    for k, name in enumerate(names):
        here = part == k
        if here.any():
            table.append({"part": name, **_share(covered[here], confidence), "size": float(size[here].mean())})
    parts = pd.DataFrame(table).set_index("part").rename_axis(index=None)
    overall = proportion_interval(int(covered.sum()), y.size, level=confidence)
    limits = (overall.estimate, overall.lower, overall.upper, confidence, overall.method, int(y.size), "coverage")
    return Coverage(Interval(*limits), _mean_size(size, confidence, estimand), found.level, parts, found.guarantee)


def _share(covered: Array, confidence: float) -> dict[str, Any]:
    one = proportion_interval(int(covered.sum()), covered.size, level=confidence)
    return {"rows": covered.size, "coverage": one.estimate, "lower": one.lower, "upper": one.upper}


def _slices(prediction: Array) -> tuple[Array, list[str]]:
    """Fifths of the predictions, fewer where they repeat."""
    if prediction.size < 2 * SLICES or prediction.min() == prediction.max():
        return np.zeros(prediction.size, dtype=int), ["any prediction"]
    cuts = np.unique(np.quantile(prediction, np.linspace(0, 1, SLICES + 1)[1:-1]))
    part = np.searchsorted(cuts, prediction, side="left")
    ends = [float(prediction.min()), *cuts.tolist(), float(prediction.max())]
    names = [f"prediction {fmt(low)} to {fmt(high)}" for low, high in pairwise(ends)]
    return freeze(part), names


def _mean_size(size: Array, confidence: float, estimand: str) -> Interval:
    if not np.isfinite(size).all():
        return Interval(np.inf, np.inf, np.inf, confidence, "t", int(size.size), estimand)
    if size.size < 2:
        return Interval(float(size[0]), -np.inf, np.inf, confidence, "t", 1, estimand)
    found = mean_interval(size, level=confidence)
    return Interval(found.estimate, found.lower, found.upper, confidence, "t", int(size.size), estimand)


def _head(frame: pd.DataFrame) -> list[str]:
    body = frame.head(10).to_string(float_format=lambda value: fmt(value, 5)).splitlines()
    return [*body, f"and {len(frame) - 10} more rows"] if len(frame) > 10 else body
