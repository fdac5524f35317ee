"""The threshold that costs least, on given rows and in theory.

Deciding for class 1 when P(1 | x) > t costs, with cost[k, j] for deciding j where k is true,

    theory     t = (c01 - c00) / ((c01 - c00) + (c10 - c11));   c_fp / (c_fp + c_fn) where right decisions cost nothing
    on rows    the t that minimises the mean cost over all distinct probabilities: one sort, O(n log n)

The first is right when the probabilities are; the second needs no trust in them, but rows of its own.
Elkan (2001), Proc. IJCAI 17, 973-978.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import ParameterError
from assay.numbers import fmt
from assay.results import Curve, Result

__all__ = ["ThresholdChoice", "choose_threshold", "cost_matrix"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdChoice(Result):
    """The cheapest threshold on some rows: `cut` is the same decision on the linear part, log(t / (1 - t)).

    `theoretical` is the threshold that would be best if the probabilities were right, and `cost_at_theoretical` what it
    costs on these rows; `curve` holds the mean cost at every distinct threshold.
    """

    threshold: float
    cut: float
    cost: float
    theoretical: float
    cost_at_theoretical: float
    n: int
    curve: Curve

    def to_frame(self) -> pd.DataFrame:
        """Two rows: the threshold chosen on the rows, and the theoretical one."""
        t = np.array([self.threshold, self.theoretical])
        with np.errstate(divide="ignore"):
            cut = np.log(t) - np.log1p(-t)
        columns = {"threshold": t, "cut": cut, "mean_cost": [self.cost, self.cost_at_theoretical]}
        return pd.DataFrame(columns, index=["chosen", "theoretical"])

    def plot(self, ax: Any = None) -> Any:
        """The mean cost against the threshold, the cheapest one marked."""
        return self.curve.plot(ax)

    def __str__(self) -> str:
        return (
            f"threshold {fmt(self.threshold)} (cut {fmt(self.cut)} on the linear part) costs {fmt(self.cost, 5)} "
            f"per row "
            f"on {self.n:,} rows; the theoretical {fmt(self.theoretical)} costs {fmt(self.cost_at_theoretical, 5)}"
        )


def cost_matrix(cost: Any) -> tuple[Array, float]:
    """A 2 x 2 table of costs and the threshold it implies."""
    table = np.asarray(cost, dtype=np.float64) if np.shape(cost) == (2, 2) else None
    if table is None or not np.isfinite(table).all():
        raise ParameterError("cost is not a 2 x 2 array of numbers", remedy="pass [[c00, c01], [c10, c11]]")
    false_positive, false_negative = table[0, 1] - table[0, 0], table[1, 0] - table[1, 1]
    if false_positive <= 0 or false_negative <= 0:
        remedy = "cost[k, j] is the cost of deciding j when k is true; wrong decisions must cost more than right ones"
        raise ParameterError("a wrong decision costs no more than the right one", remedy=remedy)
    return table, float(false_positive / (false_positive + false_negative))


def choose_threshold(probability: Array, positive: Array, w: Array, cost: Any) -> ThresholdChoice:
    """The threshold of least mean cost, halfway between neighbouring probabilities."""
    table, theory = cost_matrix(cost)
    order = np.argsort(probability, kind="stable")
    values, label, weight = probability[order], positive[order], w[order]
    # Rows up to a place are decided 0, those behind it 1.
    as_zero = np.concatenate([[0.0], np.cumsum(weight * table[label.astype(int), 0])])
    as_one = np.concatenate([[0.0], np.cumsum((weight * table[label.astype(int), 1])[::-1])])[::-1]
    total = (as_zero + as_one) / weight.sum()
    last = np.concatenate([[True], values[1:] > values[:-1], [True]])
    edges = np.concatenate([[0.0], values, [1.0]])
    at = 0.5 * (edges[:-1] + edges[1:])
    at[0], at[-1] = 0.5 * values[0], 0.5 * (1.0 + values[-1])
    at, total = at[last], total[last]
    best = total.min()
    # Of equally cheap thresholds the one nearest to the theory.
    ties = np.flatnonzero(total <= best + 1e-12 * np.abs(total).max())
    chosen = int(ties[np.argmin(np.abs(at[ties] - theory))])
    said = (values > theory).astype(int)
    in_theory = float((weight * table[label.astype(int), said]).sum() / weight.sum())
    curve = Curve(
        at,
        total,
        "threshold",
        "mean cost",
        # The two are often close, and their names would cover each other: the theory goes into the title.
        marks={f"least cost at {fmt(at[chosen], 3)}": float(at[chosen])},
        title=f"Mean cost against the threshold, n = {values.size} (in theory best at {fmt(theory, 3)})",
    )
    t = float(at[chosen])
    with np.errstate(divide="ignore"):
        cut = float(np.log(t) - np.log1p(-t))
    return ThresholdChoice(t, cut, float(total[chosen]), theory, in_theory, int(values.size), curve)
