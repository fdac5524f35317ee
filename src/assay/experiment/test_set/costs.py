"""The difference of two models' mean costs on the same rows, with limits that allow for errors that were not drawn.

A row of class k, answered j by one model and j' by the other, adds a = cost[k, j] - cost[k, j'] to the difference. With
p the share of the rows of each such kind,

    d = sum_i a_i p_i,     limits d -+ sqrt(sum_i (a_i p_i - end_i)^2)

where end_i is that limit of a_i p_i, from Wilson's interval of p_i, which lies on the same side (MOVER). Student's t
takes an expensive error that no row shows for impossible: with missed rows that cost ten false alarms each and are as
rare as one in two samples, it calls one of two equal models better in 3 of 10 samples (nominal .05). Here, kinds of
which no row was drawn enter with Wilson's limit of 0 in n, for each class and sign once, with the largest |a|. Answers
that a model never gives, to whatever row, are none of its kinds: a constant baseline has no others. The p-value is the
one at which the interval ends at 0, so the two always agree.

Cost: O(n + K^3) for K classes. Wilson (1927), JASA 22, 209-212; Zou & Donner (2008), Statistics in Medicine 27,
1693-1702.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy import optimize, special

from assay.metrics.definition import Metric

__all__ = ["CostDifference", "cost_difference"]

Array = np.ndarray
FARTHEST = 40.0
"""Standard errors beyond which the normal tail is zero in floating point."""


@dataclass(frozen=True, eq=False)
class CostDifference:
    """Kinds of rows on which two models cost differently: their amounts and shares, of n rows."""

    amounts: Array
    shares: Array
    n: int

    @property
    def estimate(self) -> float:
        """The difference of the mean costs."""
        return float(self.amounts @ self.shares)

    def limits(self, z: float) -> tuple[float, float]:
        """The limits so many standard errors away."""
        low, high = _wilson(self.shares, self.n, z)
        ends = np.sort([self.amounts * low, self.amounts * high], axis=0)
        away = np.abs(ends - self.amounts * self.shares)
        down, up = (float(np.hypot.reduce(side)) for side in away)
        return self.estimate - down, self.estimate + up

    def p_value(self) -> float:
        """Two-sided, of no difference: where the nearer limit is 0."""
        estimate = self.estimate
        if estimate == 0 or self.amounts.size == 0:
            return 1.0

        def beyond(z: float) -> float:
            lower, upper = self.limits(z)
            return lower if estimate > 0 else -upper

        if beyond(FARTHEST) > 0:
            return 0.0
        z = optimize.brentq(beyond, 0.0, FARTHEST, xtol=1e-12)
        return float(2 * special.ndtr(-z))


def _wilson(share: Array, n: int, z: float) -> tuple[Array, Array]:
    """Wilson's limits of shares of n rows; exactly 0 and 1 at the ends."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.where(share == 0, 0.0, centre - half), np.where(share == 1, 1.0, centre + half)


def cost_difference(metric: Metric, y: Array, first: Array, second: Array, **options: Any) -> CostDifference:
    """The kinds of rows on which two models' answers cost differently, by a metric whose cost hangs on the two labels.

    >>> from assay.metrics import get_metric
    >>> risk = get_metric("risk").bind(cost=[[0, 1], [10, 0]], labels=[0, 1])
    >>> y = np.repeat([0, 1], [30, 10])
    >>> found = cost_difference(risk, y, np.where(np.arange(40) < 6, 1, y), np.where(np.arange(40) < 30, 1 - y, y))
    >>> round(found.estimate, 3), [round(end, 3) for end in found.limits(1.96)], found.amounts.tolist()
    (-0.6, [-0.737, 0.29], [-1.0, 10.0])
    """
    known = [
        np.asarray(labels) for labels in (options.get("labels", metric.options.get("labels")),) if labels is not None
    ]
    labels = np.unique(np.concatenate([y, first, second, *known]))
    truth, one, other = (np.searchsorted(labels, column) for column in (y, first, second))
    K, n = labels.size, y.size
    rows, answers = np.repeat(np.arange(K), K), np.tile(np.arange(K), K)
    costs = metric.per_row(labels[rows], labels[answers], **options)
    assert costs is not None
    cost = np.asarray(costs, dtype=float).reshape(K, K)
    counts = np.bincount((truth * K + one) * K + other, minlength=K**3).reshape(K, K, K)
    amounts, shares = [], []
    for k in range(K):
        largest = {-1.0: 0.0, 1.0: 0.0}  # of the kinds without a row
        for j, other_j in product(np.unique(one), np.unique(other)):
            amount, count = cost[k, j] - cost[k, other_j], counts[k, j, other_j]
            if amount == 0:
                continue
            if count:
                amounts.append(amount)
                shares.append(count / n)
            else:
                largest[np.sign(amount)] = max(largest[np.sign(amount)], abs(amount))
        unseen = [sign * size for sign, size in largest.items() if size > 0]
        amounts += unseen
        shares += [0.0] * len(unseen)
    return CostDifference(np.array(amounts), np.array(shares), n)
