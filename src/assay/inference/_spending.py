"""Planned looks: what testing at every look costs, and boundaries that spend the type-I error as planned.

Both come from the recursion in `_looks`, exact to rounding. References stand in `sequential`, which makes these public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special

from assay.checks import ALTERNATIVES, choice, fraction, freeze, number, sample, whole
from assay.errors import DataError, ParameterError
from assay.inference._looks import Walk
from assay.numbers import fmt
from assay.results import Curve, Result, format_p

__all__ = ["Peeking", "SpendingPlan", "alpha_spending", "peeking"]

Array = np.ndarray
SPENDING = ("obrien_fleming", "pocock", "linear")
NAMES = {"obrien_fleming": "O'Brien-Fleming-type", "pocock": "Pocock-type", "linear": "linear"}


@dataclass(frozen=True, eq=False, repr=False)
class Peeking(Curve):
    """Rejections against the number of looks; `rule` is the level at which each look was tested."""


def peeking(n_looks: int, alpha: float = 0.05, *, alternative: str = "two-sided", drift: float = 0.0) -> Peeking:
    """How often a test at level alpha rejects a true null at the latest by the k-th of equally spaced looks.

        P(|Z_i| > z_{1-alpha/2} for some i <= k),    Z_i the z-statistic of the data up to look i

    | parameter   | default     | range                          | meaning                                      |
    |-------------|-------------|--------------------------------|----------------------------------------------|
    | n_looks     |             | whole, at least 1              | how many looks                               |
    | alpha       | 0.05        | (0, 1)                         | the level at which each look is tested       |
    | alternative | "two-sided" | "two-sided", "less", "greater" | which side rejects                           |
    | drift       | 0           | finite                         | mean of Z at the last look: 0 under the null |

    Armitage, McPherson & Rowe (1969), JRSS A 132, 235-244.

    >>> peeking(5).estimate.round(3)
    array([0.05 , 0.083, 0.107, 0.126, 0.142])
    """
    n_looks = whole(n_looks, "n_looks")
    alpha = fraction(alpha, "alpha")
    choice(alternative, "alternative", ALTERNATIVES)
    times = np.arange(1, n_looks + 1) / n_looks
    sides = 2 if alternative == "two-sided" else 1
    boundary = np.full(n_looks, -special.ndtri(alpha / sides))
    towards = -1.0 if alternative == "less" else 1.0
    crossed = _crossing(times, boundary, sides == 2, towards * number(drift, "drift"))
    return Peeking(
        x=freeze(np.arange(1, n_looks + 1).astype(float)),
        estimate=freeze(crossed),
        x_name="number of looks",
        y_name="probability of rejection" if drift else "type-I error",
        rule=alpha,
        title=f"Testing at level {alpha:g} at every look",
    )


@dataclass(frozen=True, eq=False, repr=False)
class SpendingPlan(Result):
    """Boundaries for planned looks: reject at look k when z (or |z|) exceeds `boundaries[k]`.

    `spent` is the type-I error used up by look k and `nominal` the p-value that the boundary stands for.
    """

    fractions: Array
    boundaries: Array
    spent: Array
    nominal: Array
    alpha: float
    kind: str
    alternative: str

    def power(self, drift: float) -> Array:
        """The chance to have rejected by each look when Z at the last look has mean `drift`."""
        towards = -1.0 if self.alternative == "less" else 1.0
        two_sided = self.alternative == "two-sided"
        return _crossing(self.fractions, self.boundaries, two_sided, towards * number(drift, "drift"))

    def decide(self, z: Any) -> Array:
        """For the z-statistics of the looks so far: which of them cross."""
        values = np.atleast_1d(np.asarray(z, dtype=float))
        if values.ndim != 1 or values.size > self.boundaries.size or np.isnan(values).any():
            raise DataError(f"z must be a list of at most {self.boundaries.size} numbers, one per look")
        towards = {"two-sided": np.abs(values), "less": -values, "greater": values}[self.alternative]
        return towards >= self.boundaries[: values.size]

    def to_frame(self) -> pd.DataFrame:
        """One row per look."""
        columns = {name: getattr(self, name) for name in ("fractions", "boundaries", "nominal", "spent")}
        return pd.DataFrame(columns, index=pd.RangeIndex(1, self.fractions.size + 1, name="look"))

    def __str__(self) -> str:
        table = self.to_frame()
        shown = pd.DataFrame(
            {
                "fraction": [fmt(v) for v in table["fractions"]],
                "z": [f"{v:.4f}" for v in table["boundaries"]],
                "nominal p": [format_p(v) for v in table["nominal"]],
                "alpha spent": [fmt(v) for v in table["spent"]],
            },
            index=table.index,
        )
        title = f"{NAMES[self.kind]} spending of alpha = {self.alpha:g}, {self.alternative}"
        return f"{title}\n{'-' * len(title)}\n{shown.to_string(justify='right')}"


def alpha_spending(
    fractions: Any, alpha: float = 0.05, kind: str = "obrien_fleming", *, alternative: str = "two-sided"
) -> SpendingPlan:
    """Boundaries z_k for looks at given fractions of the data, so that all of them together err with chance alpha.

        obrien_fleming   2 - 2 Phi(z_{1-a/2} / sqrt(t)) per side, a the side's share of alpha: hardly anything early
        pocock           a log(1 + (e - 1) t)
        linear           a t

    | parameter   | default          | range                          | meaning                               |
    |-------------|------------------|--------------------------------|---------------------------------------|
    | fractions   |                  | rising, in (0, 1], or how many | share of the data seen at each look;  |
    |             |                  |                                | a whole number: that many equal steps |
    | alpha       | 0.05             | (0, 1)                         | type-I error of all looks together    |
    | kind        | "obrien_fleming" | "obrien_fleming", "pocock",    | how alpha is spent                    |
    |             |                  | "linear"                       |                                       |
    | alternative | "two-sided"      | "two-sided", "less", "greater" | which side rejects                    |

    Lan & DeMets (1983), Biometrika 70, 659-663.

    >>> alpha_spending(5).boundaries.round(3)
    array([4.877, 3.357, 2.68 , 2.29 , 2.031])
    """
    alpha = fraction(alpha, "alpha")
    choice(kind, "kind", SPENDING)
    choice(alternative, "alternative", ALTERNATIVES)
    times = _fractions(fractions)
    two_sided = alternative == "two-sided"
    sides = 2 if two_sided else 1
    side = alpha / sides
    spent = sides * {
        "obrien_fleming": lambda t: 2 * special.ndtr(special.ndtri(side / 2) / np.sqrt(t)),
        "pocock": lambda t: side * np.log1p((np.e - 1) * t),
        "linear": lambda t: side * t,
    }[kind](times)
    boundaries = _boundaries(times, np.diff(spent, prepend=0.0), two_sided)
    return SpendingPlan(
        fractions=freeze(times),
        boundaries=freeze(boundaries),
        spent=freeze(spent),
        nominal=freeze(sides * special.ndtr(-boundaries)),
        alpha=alpha,
        kind=kind,
        alternative=alternative,
    )


def _fractions(fractions: Any) -> Array:
    if np.ndim(fractions) == 0:
        looks = whole(fractions, "fractions")
        return np.arange(1, looks + 1) / looks
    times = sample(fractions, "fractions")[0][:, 0].copy()
    if times[0] <= 0 or times[-1] > 1 or np.any(np.diff(times) <= 0):
        raise ParameterError("fractions must increase within (0, 1]", remedy="pass for example [0.25, 0.5, 1.0]")
    return times


def _boundaries(times: Array, spend: Array, two_sided: bool) -> Array:
    """One after another: the boundary at which just the look's share of alpha crosses."""
    walk = Walk()
    out = np.empty(times.size)
    for k, time in enumerate(times):
        root = np.sqrt(time)

        def excess(z: float, k: int = k, time: float = time, root: float = root) -> float:
            down, up = walk.leaves(time, -z * root if two_sided else -np.inf, z * root)
            return np.log(max(down + up, 1e-320)) - np.log(max(spend[k], 1e-320))

        # Below 1e-300 nothing is left to spend: such a look never rejects.
        out[k] = (
            np.inf if spend[k] < 1e-300 else optimize.brentq(excess, -9.0 if not two_sided else 0.0, 40.0, xtol=1e-12)
        )
        later = times[k + 1] - time if k + 1 < times.size else time
        walk.advance(time, -out[k] * root if two_sided else -np.inf, out[k] * root, later)
    return out


def _crossing(times: Array, boundaries: Array, two_sided: bool, drift: float) -> Array:
    """Cumulative chance to have crossed by each look."""
    walk = Walk(drift)
    out = np.empty(times.size)
    total = 0.0
    for k, time in enumerate(times):
        upper = boundaries[k] * np.sqrt(time)
        lower = -upper if two_sided else -np.inf
        total += sum(walk.leaves(time, lower, upper))
        out[k] = total
        walk.advance(time, lower, upper, times[k + 1] - time if k + 1 < times.size else time)
    return np.minimum(1.0, out)
