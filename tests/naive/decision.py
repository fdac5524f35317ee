"""Every threshold tried in turn, and weights by a fine grid over the simplex."""

from __future__ import annotations

from itertools import product

import numpy as np


def least_cost(positive, probability, missed, false, weights):
    """The least total cost over all thresholds."""
    costs = []
    for t in [*np.unique(probability), 2.0]:
        called = probability >= t
        costs.append(missed * weights[positive & ~called].sum() + false * weights[~positive & called].sum())
    return min(costs)


def cost_at(positive, probability, threshold, missed, false, weights):
    """The cost at one threshold."""
    called = probability >= threshold
    return missed * weights[positive & ~called].sum() + false * weights[~positive & called].sum()


def best_on_grid(loss, size, steps=20):
    """The least loss on a grid of weights that sum to one."""
    found = np.inf
    for point in product(range(steps + 1), repeat=size - 1):
        if sum(point) <= steps:
            found = min(found, loss(np.array([*point, steps - sum(point)]) / steps))
    return found
