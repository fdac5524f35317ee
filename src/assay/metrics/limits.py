"""How a metric gets its interval: shares, means of row losses, smooth figures by their influence, and resampling.

    share       Wilson and its relatives, with the effective number of rows (sum w)^2 / sum w^2 under weights
    row losses  mean -+ t se,        se^2 = n/(n-1) sum w^2 (l - mean)^2 / (sum w)^2
    unbounded   losses in [0, inf): the same error with limits that allow for a long upper tail, made from the values
                mean + n w_i (l_i - mean) / sum w, whose mean and error are those of the losses
                (`assay.inference.heavy_tails`)
    smooth      theta -+ z se on a scale that keeps the range, se^2 = sum w^2 psi^2 / (sum w)^2, where psi_i is the
                influence of row i: the derivative of theta when the row's weight grows (the delta method)
    bootstrap   percentiles over rows drawn with replacement, as whole-number weights

Weights say how much a row counts, not how many rows it stands for: doubling all of them changes nothing.
Hampel (1974), JASA 69, 383-393; Kish (1965), Survey Sampling; Efron & Tibshirani (1993), ch. 13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from assay.checks import describe, fraction, freeze, whole
from assay.errors import DataError
from assay.inference.heavy_tails import TITLE, mean_limits
from assay.inference.intervals import TITLES, limits_of_mean, limits_of_proportion
from assay.results import Interval

__all__ = [
    "average",
    "bootstrap_limits",
    "effective",
    "loss_limits",
    "share_limits",
    "smooth_limits",
    "standard_error",
    "tail_limits",
]

Array = np.ndarray
LEAST_RESAMPLES = 20


def average(values: Array, weights: Array | None) -> float:
    """The weighted mean, which rounding does not take beyond the values."""
    if weights is None:
        return float(values.mean())
    scaled = weights / weights.max()
    mean = float(np.dot(values, scaled) / scaled.sum())
    return min(max(mean, float(values.min())), float(values.max()))


def effective(weights: Array | None, rows: int) -> float:
    """How many rows of equal weight carry as much: (sum w)^2 / sum w^2."""
    if weights is None:
        return float(rows)
    scaled = weights / weights.max() if weights.size and weights.max() > 0 else weights
    squares = float(np.dot(scaled, scaled))
    return float(scaled.sum()) ** 2 / squares if squares > 0 else 0.0


def share_limits(
    share: Any, trials: Any, *, level: float, method: str, rows: Any, estimand: str, names: tuple[str, ...] = ()
) -> Interval:
    """An interval for a share of (an effective number of) trials."""
    level = fraction(level, "level")
    p, n = np.atleast_1d(np.array(share, dtype=float)), np.atleast_1d(np.asarray(trials, dtype=float))
    found = limits_of_proportion(
        level,
        successes=p * n,
        trials=np.broadcast_to(n, p.shape),
        method=method,
        alternative="two-sided",
        names=names or ("",),
    )
    # A share of exactly 0 or 1 lies at an end that rounding of p * n must not move.
    lower, upper = np.where(p == 0, 0.0, found.lower), np.where(p == 1, 1.0, found.upper)
    if names:
        return Interval(freeze(p), freeze(lower), freeze(upper), level, TITLES[method], rows, estimand, names)
    return Interval(float(p[0]), float(lower[0]), float(upper[0]), level, TITLES[method], rows, estimand)


def loss_limits(
    losses: Array, weights: Array | None, *, level: float, estimand: str, bounds: tuple[float, float]
) -> Interval:
    """Student's t on the losses of the rows, cut to the metric's range."""
    level = fraction(level, "level")
    if weights is not None:
        losses, weights = losses[weights > 0], weights[weights > 0]
    n = losses.size
    if n < 2:
        raise DataError("one row gives no estimate of the spread", remedy="an interval needs at least 2 rows")
    if weights is None or weights.min() == weights.max():
        mean, spread = (float(part[0]) for part in describe(losses[:, None]))
        error = spread / np.sqrt(n)
    else:
        mean = average(losses, weights)
        error = standard_error(losses - mean, weights)
    found = limits_of_mean(
        level,
        estimate=np.array([mean]),
        error=np.array([error]),
        df=np.array([n - 1.0]),
        alternative="two-sided",
        n=n,
        estimand=estimand,
        names=(),
    )
    lower, upper = max(found.lower, bounds[0]), min(found.upper, bounds[1])
    return Interval(found.estimate, lower, upper, level, "t", n, estimand)


def tail_limits(losses: Array, weights: Array | None, *, level: float, estimand: str) -> Interval:
    """The interval of the mean of losses in [0, inf) that allows for a long upper tail."""
    level = fraction(level, "level")
    if weights is not None:
        losses, weights = losses[weights > 0], weights[weights > 0]
    n = losses.size
    if n < 2:
        raise DataError("one row says nothing about the spread of its loss", remedy="an interval needs at least 2 rows")
    if weights is not None and weights.min() == weights.max():
        weights = None
    mean = average(losses, weights)
    values = losses if weights is None else mean + (losses - mean) * (weights / weights.mean())
    lower, upper = mean_limits(values, level=level)
    return Interval(mean, min(lower, mean), max(upper, mean), level, TITLE, n, estimand)


def standard_error(influence: Array, weights: Array | None) -> float:
    """sqrt(n/(n-1) sum w^2 psi^2) / sum w, safe at any scale."""
    top = float(np.abs(influence).max(initial=0.0))
    if top == 0:
        return 0.0
    psi = influence / top
    if weights is None:
        n, total = psi.size, float(psi.size)
    else:
        scaled = weights / weights.max()
        n, total = int(np.count_nonzero(scaled)), float(scaled.sum())
        psi = psi * scaled
    return top * float(np.sqrt(np.dot(psi, psi) * n / max(1, n - 1))) / total


def smooth_limits(
    estimate: float,
    error: float,
    *,
    level: float,
    scale: str,
    bounds: tuple[float, float],
    method: str,
    rows: int,
    estimand: str,
    df: float | None = None,
) -> Interval:
    """estimate -+ quantile * error on the "plain", "log", "log_gap" (to the upper bound) or "logit" scale."""
    level = fraction(level, "level")
    tail = (1 - level) / 2
    half = error * float(-special.ndtri(tail) if df is None else -special.stdtrit(df, tail))
    low, high = bounds
    lower, upper = estimate - half, estimate + half
    with np.errstate(over="ignore", under="ignore"):
        if scale == "log" and estimate > 0:
            factor = np.exp(half / estimate)
            lower, upper = estimate / factor, estimate * factor
        elif scale == "log_gap" and estimate < high:
            factor = np.exp(half / (high - estimate))
            lower, upper = high - (high - estimate) * factor, high - (high - estimate) / factor
        elif scale == "logit" and low < estimate < high:
            share = (estimate - low) / (high - low)
            centre, reach = special.logit(share), half * (high - low) / ((estimate - low) * (high - estimate))
            lower, upper = (low + (high - low) * special.expit(centre + sign * reach) for sign in (-1, 1))
    return Interval(estimate, float(max(lower, low)), float(min(upper, high)), level, method, rows, estimand)


def bootstrap_limits(
    value: Callable[[Array], Any],
    weights: Array | None,
    rows: int,
    *,
    level: float,
    n_resamples: int,
    random_state: Any,
    estimand: str,
) -> Interval:
    """Percentiles of the figure over rows drawn with replacement; `value` takes the weights of the rows."""
    level, n_resamples = fraction(level, "level"), whole(n_resamples, "n_resamples", LEAST_RESAMPLES)
    rng = np.random.default_rng(random_state)
    base = np.ones(rows) if weights is None else weights
    estimate = float(value(base))
    draws = []
    for _ in range(n_resamples):
        counts = np.bincount(rng.integers(0, rows, rows), minlength=rows)
        try:
            draws.append(float(value(base * counts)))
        except DataError:  # a resample without one of the classes has no such figure
            continue
    if len(draws) < 0.9 * n_resamples:
        what = f"the metric is defined in only {len(draws)} of {n_resamples} resamples"
        raise DataError(what, remedy="there are too few rows of some class for the bootstrap; use another method")
    tail = (1 - level) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail])
    words = f"percentile bootstrap ({n_resamples} resamples)"
    return Interval(estimate, float(lower), float(upper), level, words, rows, estimand)
