"""The constrained form: the alpha whose solution has penalty sum Omega(b) = budget.

Omega of the solution falls continuously as alpha grows, and for the lasso it is piecewise linear in alpha, so once both
ends of the bracket lie on one segment the secant is exact. Every step starts from its neighbour's solution.
"""

from __future__ import annotations

import numpy as np

from assay.errors import DataError
from assay.linear._lasso_design import Design, Solutions
from assay.linear._path import Settings

__all__ = ["penalty_sum", "within_budget"]

CLOSE = 1e-11
"""The penalty sum meets the budget to this share of it."""

HALVINGS, ROUNDS = 40, 100
"""How often alpha is halved to bracket the answer, and how many secants may follow."""


def penalty_sum(coef: np.ndarray, l1_ratio: float, factors: np.ndarray) -> float:
    """Omega(b) = sum_j f_j (l1_ratio |b_j| + (1 - l1_ratio)/2 b_j^2)."""
    with np.errstate(over="ignore"):
        l1 = float(factors @ np.abs(coef))
        return l1 if l1_ratio == 1 else l1_ratio * l1 + 0.5 * (1 - l1_ratio) * float(factors @ coef**2)


def within_budget(design: Design, budget: float, l1_ratio: float, how: Settings) -> Solutions:
    """The minimiser of the loss among all b with Omega(b) <= budget."""

    def at(alpha: float, start: np.ndarray | None = None) -> tuple[float, Solutions]:
        found = design.solve(np.array([alpha]), l1_ratio, how, start)
        return penalty_sum(found.coefs[0], l1_ratio, design.factors) - budget, found

    top = design.alpha_max(max(l1_ratio, 1e-3), how.positive)
    excess, best = at(top)
    if top == 0 or budget == 0:
        return best
    try:
        free, loosest = at(0.0)
    except DataError:  # too large for least squares; the walk below finds the way as far as it matters
        free, loosest = np.inf, best
    if free <= CLOSE * budget:
        return loosest
    high, high_excess, low, low_excess = top, excess, 0.0, free
    for step in range(1, HALVINGS):
        alpha = top * 0.5**step
        excess, found = at(alpha, best.coefs[0])
        if excess >= 0:
            low, low_excess = alpha, excess
            break
        high, high_excess, best = alpha, excess, found
    if low == 0:  # more budget than any penalised fit can use
        return best
    last = 0
    for _ in range(ROUNDS):
        alpha = high - high_excess * (high - low) / (high_excess - low_excess)
        if not low < alpha < high:
            alpha = 0.5 * (low + high)
        excess, found = at(alpha, best.coefs[0])
        if abs(excess) <= CLOSE * budget or high - low <= 1e-14 * high:
            break
        # Illinois: an end that stayed put twice gets half its weight, so that it moves next time.
        if excess > 0:
            low, low_excess = alpha, excess
            high_excess *= 0.5 if last == 1 else 1.0
            last = 1
        else:
            high, high_excess, best = alpha, excess, found
            low_excess *= 0.5 if last == -1 else 1.0
            last = -1
    return found
