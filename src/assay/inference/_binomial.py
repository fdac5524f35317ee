"""Exact binomial tails and p-values, shared by the test, its power and its sample size.

    P(K <= k) = I_{1-p}(n - k, k + 1),    P(K >= k) = I_p(k, n - k + 1)    (incomplete beta functions)

The two-sided p-value adds up every outcome no more likely than the one seen; beyond the mean the
probabilities fall, so the far end of that set is found in O(log n) steps, a few from the mirrored count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

__all__ = ["binomial_p", "first_true", "lower_tail", "upper_tail"]

Array = np.ndarray


def binomial_p(k: Array, n: Array, p: float, alternative: str) -> Array:
    """P-values of the exact test for arrays of successes and trials."""
    if alternative == "less":
        return lower_tail(k, n, p)
    if alternative == "greater":
        return upper_tail(k, n, p)
    below = k < n * p
    far = _first_as_unlikely(k, n, p, below)
    # 1 - p in place of p would cost the digits of a p near 0, so both tails are asked for in p itself.
    seen = np.where(below, lower_tail(k, n, p), upper_tail(k, n, p))
    beyond = np.where(below, upper_tail(far, n, p), lower_tail(n - far, n, p))
    total = seen + np.where(far <= n, beyond, 0.0)
    return np.where(k == n * p, 1.0, np.minimum(1.0, total))


def _first_as_unlikely(k: Array, n: Array, p: float, below: Array) -> Array:
    """The smallest count on the other side of the mean that is no more likely than k; n + 1: none.

    Successes are counted where few were seen (`below`) and failures elsewhere, so that the other side is above.
    """
    j, q = np.where(below, k, n - k), np.where(below, p, 1 - p)
    # The tolerance is R's and scipy's: probabilities equal in exact arithmetic must count as equal.
    bar = _log_pmf(k, n, p) + np.log1p(1e-7)
    start, mirrored = np.ceil(n * q), np.round(2 * n * q - j)
    unlikely = first_true(lambda i: _log_pmf(np.where(below, i, n - i), n, p) <= bar, start, n + 1, mirrored)
    return np.maximum(j + 1, unlikely)


def first_true(holds: Callable[[Array], Array], low: Array, high: Array, guess: Array) -> Array:
    """For each entry the smallest whole number in [low, high) that holds, else `high`; what holds stays so upwards.

    Steps away from the guess grow until the border lies between two of them, then the gap is halved: a good
    guess costs a few calls, a bad one O(log n).
    """
    no, yes = low - 1.0, np.array(high, dtype=float)
    probe = np.clip(guess, low, np.maximum(low, high - 1))
    seen_yes, seen_no = np.zeros(probe.shape, dtype=bool), np.zeros(probe.shape, dtype=bool)
    step = 1.0
    while np.any(no + 1 < yes):
        moving = no + 1 < yes
        answer = holds(probe)
        yes, no = np.where(moving & answer, probe, yes), np.where(moving & ~answer, probe, no)
        seen_yes |= answer
        seen_no |= ~answer
        away = np.where(answer, probe - step, probe + step)
        probe = np.clip(
            np.where(seen_yes & seen_no, np.floor((no + yes) / 2), away), no + 1, np.maximum(no + 1, yes - 1)
        )
        probe = np.clip(probe, low, np.maximum(low, high - 1))
        step *= 4
    return yes


def _log_pmf(k: Array, n: Array, p: Any) -> Array:
    choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return choose + special.xlogy(k, p) + special.xlog1py(n - k, -np.asarray(p))


def lower_tail(k: Array, n: Array, p: Any) -> Array:
    """P(K <= k); the incomplete beta function keeps full relative precision far into the tail."""
    safe = np.minimum(k, n - 1)
    return np.where(k >= n, 1.0, special.betaincc(safe + 1, n - safe, p))


def upper_tail(k: Array, n: Array, p: Any) -> Array:
    """P(K >= k)."""
    safe = np.clip(k, 1, n)
    return np.where(k <= 0, 1.0, special.betainc(safe, n - safe + 1, p))
