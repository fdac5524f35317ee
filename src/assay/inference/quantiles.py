"""Exact intervals for quantiles: two order statistics, whatever the distribution.

The number of values at most q_p, the p-quantile, is Binomial(n, p) (at least that many where values tie), so

    P(x_(l) > q_p) = P(Bin(n, p) <= l - 1)          P(x_(u) < q_p) <= P(Bin(n, p) >= u)

and the largest l, the smallest u that keep both below (1 - level)/2 make an interval that covers with probability
`level` or more for every distribution and every n; ties only add to it. Where no row is extreme enough, that end is
infinite: the upper limit of the 0.9-quantile needs n >= log((1 - level)/2) / log(0.9), 36 rows at 95%.

Weights say how much a row counts, not how many rows it stands for. With unequal ones n is the effective number of rows
(sum w)^2 / sum w^2 and ranks are cumulated weight: right for large n, no longer exact.
Cost: one sort, O(n log n).
Thompson (1936), Annals of Mathematical Statistics 7, 122-128; Conover (1999), Practical Nonparametric Statistics,
sec. 3.2; David and Nagaraja (2003), Order Statistics, sec. 7.1; the estimate is type 2 of Hyndman and Fan (1996),
The American Statistician 50, 361-365.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from assay.checks import fraction, sample, squeeze
from assay.results import Interval

__all__ = ["order_limits", "quantile", "quantile_interval"]

Array = np.ndarray


def quantile_interval(x: Any, q: float = 0.5, *, level: float = 0.95) -> Interval:
    """The interval of a quantile between two order statistics: at least `level` for any distribution and any n.

        [x_(l), x_(u)],   P(Bin(n, q) <= l - 1) <= (1 - level)/2,   P(Bin(n, q) >= u) <= (1 - level)/2

    | parameter | default | range                 | meaning                  |
    |-----------|---------|-----------------------|--------------------------|
    | x         |         | one column or several | the sample               |
    | q         | 0.5     | (0, 1)                | which quantile           |
    | level     | 0.95    | (0, 1)                | confidence, at the least |

    Too few rows for a limit on one side leave it infinite. Conover (1999), sec. 3.2.

    >>> print(quantile_interval([44, 12, 35, 21, 52, 30, 17, 61, 27, 38, 25, 41], level=0.95))
    0.5 quantile 32 [21, 44] (95% order statistics interval, n = 12)
    """
    q, level = fraction(q, "q"), fraction(level, "level")
    values, names = sample(x, "x", least=1)
    ordered = np.sort(values, axis=0)
    columns = range(ordered.shape[1])
    limits = np.array([order_limits(ordered[:, j], None, q=q, level=level) for j in columns])
    estimate = np.array([quantile(ordered[:, j], None, q) for j in columns])
    middle, lower, upper = (squeeze(part, names) for part in (estimate, limits[:, 0], limits[:, 1]))
    return Interval(middle, lower, upper, level, "order statistics", ordered.shape[0], f"{q:g} quantile", names)


def order_limits(ordered: Array, weights: Array | None, *, q: float, level: float) -> tuple[float, float]:
    """The order statistics around the q-quantile of ascending values; infinite where there are too few rows."""
    n, tail = ordered.size, (1 - level) / 2
    if weights is None:
        trials, cut = float(n), np.arange(1.0, n + 1)
    else:
        scaled = weights / weights.max()
        trials = float(scaled.sum() ** 2 / np.dot(scaled, scaled))
        cut = np.cumsum(scaled) * (trials / scaled.sum())
    rank = np.arange(1.0, np.floor(trials * (1 + 1e-12)) + 1)
    rest = np.maximum(trials - rank + 1, 1e-300)
    low = int(np.count_nonzero(special.betaincc(rank, rest, q) <= tail))  # P(Bin <= rank - 1), which grows with rank
    high = rank.size + 1 - int(np.count_nonzero(special.betainc(rank, rest, q) <= tail))  # P(Bin >= rank), which falls
    slack = 1e-9
    lower = -np.inf if low == 0 else float(ordered[min(n - 1, int(np.searchsorted(cut, low - slack)))])
    upper = np.inf if high > rank.size else float(ordered[min(n - 1, int(np.searchsorted(cut, high - slack)))])
    return lower, upper


def quantile(ordered: Array, weights: Array | None, q: float) -> float:
    """The q-quantile of ascending values: half-way where q of the weight lies exactly between two of them."""
    mass = np.arange(1.0, ordered.size + 1) if weights is None else np.cumsum(weights)
    goal = q * mass[-1]
    low = int(np.searchsorted(mass, goal * (1 - 1e-12)))
    high = int(np.searchsorted(mass, goal * (1 + 1e-12), side="right"))
    last = ordered.size - 1
    return float(ordered[min(low, last)] / 2 + ordered[min(high, last)] / 2)
