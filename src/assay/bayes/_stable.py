"""Logarithms of gamma and beta expressions that keep their digits at any count.

    log_poisson(u, v) = u log v - v - log Gamma(u + 1),    any real u >= 0 and v >= 0,

is -(deviance) - (Stirling's remainder) - log sqrt(2 pi u). The deviance u log(u/v) + v - u is summed as a series where
u and v are close, so that two numbers of the order 10^13 are never subtracted to find one of the order 1. Densities
of gamma, beta and Dirichlet laws and the probabilities of their counts are differences of such terms:

    x^a y^b / B(a, b) = g(a, s x) g(b, s y) / g(s, s),   s = a + b,   log g(a, v) = log a + log_poisson(a, v).

Cost: a few passes over the arrays. Loader (2000), Fast and accurate computation of binomial probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

__all__ = ["log_beta", "log_beta_weight", "log_gamma_weight", "log_poisson"]

Array = np.ndarray
LARGE = 15.0
"""From here on Stirling's series has all digits; below, log Gamma is small enough to be subtracted."""
TINY = float(np.finfo(np.float64).tiny)
"""Products of tiny parameters and tiny shares must not become 0, whose logarithm is infinite."""
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


def log_poisson(u: Any, v: Any) -> Array:
    """u log v - v - log Gamma(u + 1): a Poisson probability where u is a count, and its continuation elsewhere.

    >>> from scipy.stats import poisson
    >>> bool(abs(log_poisson(7.0, 5.0) - poisson.logpmf(7, 5)) < 1e-14)
    True
    """
    u, v = np.broadcast_arrays(np.asarray(u, dtype=np.float64), np.asarray(v, dtype=np.float64))
    large = u >= LARGE
    if not large.any():
        return _direct(u, v)
    if large.all():
        return _by_deviance(u, v)
    out = np.empty(u.shape)
    out[large] = _by_deviance(u[large], v[large])
    out[~large] = _direct(u[~large], v[~large])
    return out


def _direct(u: Array, v: Array) -> Array:
    return special.xlogy(u, v) - v - special.gammaln(u + 1.0)


def _by_deviance(u: Array, v: Array) -> Array:
    square = (1.0 / u) ** 2
    remainder = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / u
    return -_deviance(u, v) - remainder - HALF_LOG_2PI - 0.5 * np.log(u)


def _deviance(u: Array, v: Array) -> Array:
    """u log(u / v) + v - u for u > 0, by its series in (u - v) / (u + v) where that is small."""
    gap = u - v
    w = gap / (u + v)
    square = w * w
    series = np.zeros(u.shape)
    for j in range(9, 0, -1):
        series = square * (1.0 / (2 * j + 1) + series)
    near = gap * w + 2.0 * u * w * series
    if (square < 0.01).all():
        return near
    with np.errstate(divide="ignore"):
        return np.where(square < 0.01, near, u * (np.log(u) - np.log(v)) - gap)


def log_gamma_weight(a: Any, v: Any) -> Array:
    """log of v^a e^-v / Gamma(a), for a > 0 and v > 0."""
    return np.log(a) + log_poisson(a, np.maximum(v, TINY))


def log_beta_weight(a: Any, b: Any, x: Any, y: Any) -> Array:
    """log of x^a y^b / B(a, b) for y = 1 - x, which the caller knows better than 1 - x would."""
    s = np.add(a, b)
    # log a + log b - log s stays together: each alone may be as large as 700.
    return (
        np.log(a)
        + np.log(b)
        - np.log(s)
        + log_poisson(a, np.maximum(np.multiply(s, x), TINY))
        + log_poisson(b, np.maximum(np.multiply(s, y), TINY))
        - log_poisson(s, s)
    )


def log_beta(a: Any, b: Any) -> Array:
    """log B(a, b); also where one or both are so large that differences of log Gamma lose their digits.

    >>> round(float(log_beta(2.0, 3.0)), 12) == round(float(np.log(1 / 12)), 12)
    True
    """
    low, high = np.minimum(a, b), np.maximum(a, b)
    s = low + high
    share = low / s
    return special.xlogy(low, share) + high * np.log1p(-share) - log_beta_weight(low, high, share, high / s)
