"""The shortest interval of a given probability, for many laws at once.

For a density with one peak inside its range the shortest interval [l, u] with F(u) - F(l) = L has f(l) = f(u) (were one
end denser, moving both towards it would shorten it). Newton's method in the logarithms of both ends,

    -p dl + q du = -(F(u) - F(l) - L),     s_l dl - s_u du = -(log f(l) - log f(u)),

p, q the densities and s the slopes of log f per unit of log x, held to the two sides of the peak; whatever has not
settled is bisected in the lower tail probability, along which log f(l) - log f(u) only grows.
Cost: about six evaluations of F and f per end and group. Box and Tiao (1973), Bayesian Inference, section 2.8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["shortest"]

Array = np.ndarray
STEPS = 25
HALVINGS = 80
SETTLED = 1e-12


def shortest(law: Any, low: Array, high: Array, level: float) -> tuple[Array, Array]:
    """Ends of the shortest intervals of laws on x > 0 with a peak inside, from the equal-tailed ends."""
    mode = law._moments()[1]
    peak = np.log(mode)
    with np.errstate(divide="ignore"):
        left = np.minimum(np.log(low), peak - 0.1)
    right = np.maximum(np.log(high), peak + 0.1)
    open_ = np.arange(low.size)
    for _ in range(STEPS):
        part, top = law._at(open_), peak[open_]
        dl, du = _newton(part, np.exp(left[open_]), np.exp(right[open_]), level)
        # Never further than half way to the peak, nor beyond e^2 at once.
        dl = np.clip(dl, -2.0, 0.5 * (top - left[open_]))
        du = np.clip(du, 0.5 * (top - right[open_]), 2.0)
        left[open_] += dl
        right[open_] += du
        moving = (np.abs(dl) > SETTLED * (1.0 + np.abs(left[open_]))) | (
            np.abs(du) > SETTLED * (1.0 + np.abs(right[open_]))
        )
        open_ = open_[moving | ~np.isfinite(left[open_]) | ~np.isfinite(right[open_])]
        if open_.size == 0:
            break
    lower, upper = np.exp(left), np.exp(right)
    if open_.size:
        lower[open_], upper[open_] = by_halving(law._at(open_), level)
    return lower, upper


def _newton(law: Any, low: Array, high: Array, level: float) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):  # steps that leave the floating range are left to the bisection
        log_l, log_u = law._logpdf(low), law._logpdf(high)
        p, q = np.exp(log_l) * low, np.exp(log_u) * high
        s_l, s_u = law._slope(low) * low, law._slope(high) * high
        mass, gap = law._cdf(high) - law._cdf(low) - level, log_l - log_u
        det = p * s_u - q * s_l
        return (mass * s_u + q * gap) / det, (p * gap + s_l * mass) / det


def by_halving(law: Any, level: float) -> tuple[Array, Array]:
    """The same by bisection of the lower tail probability: slow and sure."""
    shape = law._groups()
    a, b = np.zeros(shape), np.full(shape, 1.0 - level)
    for _ in range(HALVINGS):
        tail = 0.5 * (a + b)
        # A density of zero at both ends is no difference.
        gap = law._logpdf(law._ppf(tail)) - law._logpdf(law._isf(1.0 - level - tail))
        rises = np.nan_to_num(gap) < 0
        a, b = np.where(rises, tail, a), np.where(rises, b, tail)
    tail = 0.5 * (a + b)
    return law._ppf(tail), law._isf(1.0 - level - tail)
