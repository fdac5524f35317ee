"""How many test rows `--test-size auto` takes: enough for a stated precision, and no more than training can spare.

Independent units are counted: rows, or groups where rows come in groups. With z the normal quantile of the level and m
the margin, an interval has about the half-width m from

    rates        n = z^2 (1 / (4 m^2) - 1)      Wilson's interval at one half, where it is widest
    regression   n = (5 / 4) (z / m)^2          rmse with double exponential errors (kurtosis 6), m relative to it

units on. Of N units the test set gets min(n, N / 4), but at least 30 and, where the metric is no mean over rows (AUC,
balanced accuracy, F1) or weighs errors by their costs, as many as hold 15 of the rarest class. Where a quarter cannot
give these, or of fewer than 150 units, there is no test set: outer folds that repeat the whole procedure give the
figure, and no row is lost to training (`steps.outer`; docs/simulations/test_size.md). Cost: one count of the classes.
Wilson (1927), JASA 22, 209-212.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from assay.checks import fraction
from assay.metrics import get_metric
from assay.metrics.definition import Metric

__all__ = ["LEAST", "MOST", "RAREST", "SMALL", "USUAL", "Precision", "Size", "choose_size"]

Array = np.ndarray
MARGINS = {"classification": 0.05, "regression": 0.1}
"""Five points of a rate; a tenth of the figure of a regression."""
LEAST, MOST, RAREST = 30, 0.25, 15
"""Test units at least; their largest share of all; units of the rarest class at least."""
SMALL = 150
"""Of fewer units none is set aside: without a test set the model is better and its figure as well known."""
TAIL = 1.25
"""(kurtosis - 1) / 4 of double exponential errors: the relative variance of an rmse is this over n."""


@dataclass(frozen=True)
class Precision:
    """What the figure of a test set should be known to: a margin (None: by the task), its level and its metric."""

    margin: float | None = None
    level: float = 0.95
    metric: str | None = None

    def about(self, task: str) -> float:
        """The margin: a share of one for rates, relative to the figure in regression."""
        return MARGINS[task] if self.margin is None else fraction(self.margin, "margin")

    def units(self, task: str) -> int:
        """How many independent units this precision needs.

        >>> Precision().units("classification"), Precision().units("regression")
        (381, 481)
        """
        z, m = self._z, self.about(task)
        exact = TAIL * (z / m) ** 2 if task == "regression" else z * z * (0.25 / m**2 - 1)
        return max(1, math.ceil(exact))

    def reached(self, task: str, n: int) -> str:
        """The margin that n units give, in words."""
        if task == "regression":
            return f"+-{100 * math.sqrt(TAIL / n) * self._z:.2g}% of its value"
        return f"+-{100 * self._z / (2 * math.sqrt(n + self._z**2)):.2g} percentage points"

    @property
    def _z(self) -> float:
        return float(ndtri(0.5 + fraction(self.level, "level") / 2))


USUAL = Precision()
"""Five points or a tenth, with 95% confidence."""


@dataclass(frozen=True)
class Size:
    """The share of units to test (0: no test set), the sentence that says what was done and why, and whether the share
    was chosen from the number of units.
    """

    share: float
    why: str
    chosen: bool = False


def choose_size(classes: Any, task: str, precision: Precision, members: Any = None) -> Size:
    """The size of a test set for these rows.

    | parameter | default | range                            | meaning                                         |
    |-----------|---------|----------------------------------|-------------------------------------------------|
    | classes   |         | one label per row                | the target; only counted in classification      |
    | task      |         | "classification", "regression"   | which margin is meant                           |
    | precision |         | a Precision                      | what the figure should be known to              |
    | members   | None    | one label per row                | the group of each row; None: each row is a unit |

    >>> choose_size(np.zeros(5000), "regression", Precision()).why
    'enough to know a figure to about +-10% of its value, which is the requested precision'
    >>> choose_size(np.zeros(400), "regression", Precision()).why
    'a quarter of 400 rows is the most that is set aside, and gives a figure to about +-22% of its value'
    >>> choose_size(np.zeros(90), "regression", Precision()).share
    0.0
    """
    units, rarest, label = _count(np.asarray(classes), task, precision, members)
    noun = "rows" if members is None else "groups"
    most, wanted = max(1, int(MOST * units)), precision.units(task)
    floor = LEAST if rarest is None else max(LEAST, math.ceil(RAREST * units / rarest))
    taken = min(most, max(wanted, floor))
    figure = "a figure" if task == "regression" else "a rate"
    known = f"{figure} to about {precision.reached(task, taken)}"
    held = f"{LEAST} {noun}" if floor == LEAST else f"{RAREST} {noun} of class {label!r}"
    if floor > most or units < SMALL:
        why = f"a quarter of {units:,} {noun}, the most that is set aside, cannot hold {held}"
        if floor <= most:
            why = f"with fewer than {SMALL} {noun} a test set costs more than it is worth, and there are {units:,}"
        return Size(0.0, f"{why}, so there is no test set and all rows are training rows")
    if taken == most < wanted:
        why = f"a quarter of {units:,} {noun} is the most that is set aside, and gives {known}"
    elif taken > wanted:
        why = f"the test set must hold {held} at least, and gives {known}"
    else:
        why = f"enough to know {known}, which is the requested precision"
    return Size(taken / units, why, chosen=True)


def _by_class(metric: Metric) -> bool:
    """Whether a figure depends on how many rows of each class there are: no mean over rows, or one of costs."""
    return metric.losses is None or (metric.needs == "labels" and not metric.right_or_wrong)


def _count(classes: Array, task: str, precision: Precision, members: Any) -> tuple[int, int | None, str]:
    """Independent units, and how many hold the rarest class where the metric needs it."""
    _, unit = (None, np.arange(classes.size)) if members is None else np.unique(members, return_inverse=True)
    units = int(unit.max(initial=-1)) + 1
    if task == "regression" or precision.metric is None or not _by_class(get_metric(precision.metric)):
        return units, None, ""
    names, codes = np.unique(classes.astype(str), return_inverse=True)
    pairs = np.unique(np.stack([codes, unit]), axis=1)
    counts = np.bincount(pairs[0])
    return units, int(counts.min()), str(names[counts.argmin()])
