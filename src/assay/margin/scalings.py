"""One trade-off, four names: C, two multipliers called lambda, and the budget of total slack.

    C           min |w|^2 / 2 + C sum_i h_i                     h_i = max(0, 1 - y_i f(x_i)), the hinge loss
    lambda      min sum_i h_i + lambda |w|^2                    lambda = 1 / (2 C)     (lecture notes)
    mean form   min sum_i h_i / n + lambda_mean |w|^2 / 2       lambda_mean = 1 / (n C)     (Pegasos)
    budget      min |w|^2 / 2  with  sum_i h_i <= budget        C is the multiplier of the budget

The total slack of the solution falls continuously as C grows, from that of w = 0 to 0 (or to what no w can avoid), so
for every budget in between there is a C, found by bracketing on the logarithm of C. scikit-learn's `nu` is another
thing: a share of rows, which bounds margin errors from above and support vectors from below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import DataError, ParameterError
from assay.numbers import fmt
from assay.results import Result

__all__ = ["Scalings", "c_for_budget", "svm_scalings"]

Array = np.ndarray
CLOSE = 1e-6
"""The total slack meets the budget to this share of it."""
LEAST, MOST = 1e-9, 1e9
"""Where C is searched."""


@dataclass(frozen=True)
class Scalings(Result):
    """C and the two multipliers that mean the same."""

    C: float
    lambda_: float
    lambda_mean: float
    n: int

    def to_frame(self) -> pd.DataFrame:
        """One row for each scaling, with its objective."""
        rows = [
            ("C", self.C, "|w|^2 / 2 + C sum h"),
            ("lambda", self.lambda_, "sum h + lambda |w|^2"),
            ("lambda_mean", self.lambda_mean, "sum h / n + lambda_mean |w|^2 / 2"),
        ]
        return pd.DataFrame(rows, columns=["name", "value", "objective"]).set_index("name")

    def __str__(self) -> str:
        lines = [f"{name:<11} {fmt(row.value, 5):>10}   {row.objective}" for name, row in self.to_frame().iterrows()]
        return "\n".join(lines)


def svm_scalings(
    n: int, *, C: float | None = None, lambda_: float | None = None, lambda_mean: float | None = None
) -> Scalings:
    """C, lambda and lambda_mean of a problem with n rows (or their total weight), from whichever one is given.

    | parameter   | default | range   | meaning                                         |
    |-------------|---------|---------|-------------------------------------------------|
    | n           |         | above 0 | rows                                            |
    | C           | None    | above 0 | of  abs(w)^2 / 2 + C sum h                      |
    | lambda_     | None    | above 0 | of  sum h + lambda abs(w)^2                     |
    | lambda_mean | None    | above 0 | of  sum h / n + lambda_mean abs(w)^2 / 2        |

    >>> print(svm_scalings(100, lambda_=0.25))
    C                    2   |w|^2 / 2 + C sum h
    lambda            0.25   sum h + lambda |w|^2
    lambda_mean      0.005   sum h / n + lambda_mean |w|^2 / 2
    """
    given = {"C": C, "lambda_": lambda_, "lambda_mean": lambda_mean}
    told = {name: value for name, value in given.items() if value is not None}
    if len(told) != 1 or not n > 0:
        raise ParameterError(
            f"svm_scalings got n = {n!r} and {len(told)} scalings", remedy="pass n > 0 and one scaling"
        )
    name, value = next(iter(told.items()))
    if not 0 < value < np.inf:
        raise ParameterError(f"{name} = {value!r}", remedy="it must be a finite number above 0")
    found = {"C": lambda v: v, "lambda_": lambda v: 1 / (2 * v), "lambda_mean": lambda v: 1 / (n * v)}[name](value)
    return Scalings(float(found), 1 / (2 * found), 1 / (n * found), int(n))


def c_for_budget(at: Callable[..., Any], y: Array, price: Array, budget: float) -> tuple[float, Any]:
    """The C whose solution has total slack `budget`, and that solution; `at(C, start)` solves."""

    def excess(made: Any) -> float:
        slack = np.maximum(0.0, y * (made.e - made.bias))  # 1 - y f = y (e - b), since y^2 = 1 and e = y - f
        return float(price @ slack) - budget

    if budget == 0:
        return np.inf, at(np.inf)
    C, made = 1.0, at(1.0)
    over = excess(made)
    low = high = C
    f_low = f_high = over
    while over > 0 and C < MOST:  # too much slack: a larger C
        low, f_low = C, over
        C *= 8.0
        made = at(C, (made.beta, made.e))
        over = excess(made)
        high, f_high = C, min(over, f_low)
        if over > f_low:  # slack falls as C grows, so this one is not solved
            break
    if low == high:  # too little: a smaller C
        while over < 0 and C > LEAST:
            high, f_high = C, over
            C /= 8.0
            made = at(C)
            over = excess(made)
            low, f_low = C, over
        if over <= 0:  # met at once, or more slack allowed than w = 0 has
            return C, made
    if f_high > 0:
        what = f"no fit with this kernel has a total slack of {budget:g}; the smallest found is {f_high + budget:.4g}"
        raise DataError(what, remedy=f"raise slack_budget to at least {f_high + budget:.4g}, or use a richer kernel")
    for _ in range(60):
        share = f_low / (f_low - f_high)
        share = min(max(share, 0.05), 0.95)
        last, C = C, float(np.exp(np.log(low) + share * (np.log(high) - np.log(low))))
        less = min(1.0, C / last)  # within the new bounds
        made = at(C, (less * made.beta, y - less * (y - made.e)))
        over = excess(made)
        if abs(over) <= CLOSE * budget or high / low < 1 + 1e-12:
            break
        if over > 0:
            low, f_low = C, over
        else:
            high, f_high = C, over
    return C, made
