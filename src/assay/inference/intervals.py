"""Confidence intervals for a mean, a proportion and a variance, at any level, one- and two-sided.

    mean        xbar -+ t s / sqrt(n)            (z sigma / sqrt(n) when sigma is known)
    variance    (n-1) s^2 / chi2_{1-a/2},  (n-1) s^2 / chi2_{a/2}
    proportion  exact           beta quantiles: never covers less than its level (Clopper & Pearson 1934)
                wilson          |phat - p| <= z sqrt(p (1-p) / n), solved for p (Wilson 1927)
                agresti_coull   Wald's form around (k + z^2/2) / (n + z^2)
                wald            phat -+ z sqrt(phat (1-phat) / n); far too short near 0 and 1
                hoeffding       phat -+ sqrt(log(2/a) / 2n); holds for any n, wide

A one-sided interval puts the whole error probability a = 1 - level at one end: `alternative="less"`
gives (-inf, u] and "greater" [l, inf), with 0 and 1 as the ends for a proportion and 0 for a variance.
Cost: one pass over the data. Brown, Cai, DasGupta (2001), Statistical Science 16, 101-133.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from assay.checks import ALTERNATIVES, choice, counts, describe, fraction, freeze, number, sample, squeeze
from assay.errors import DataError
from assay.results import Interval

__all__ = ["mean_interval", "proportion_interval", "variance_interval"]

Array = np.ndarray
PROPORTION_METHODS = ("exact", "wilson", "agresti_coull", "wald", "hoeffding")
TITLES = {
    "exact": "Clopper-Pearson",
    "wilson": "Wilson",
    "agresti_coull": "Agresti-Coull",
    "wald": "Wald",
    "hoeffding": "Hoeffding",
}


def mean_interval(
    x: Any, *, level: float = 0.95, sigma: float | None = None, alternative: str = "two-sided"
) -> Interval:
    """An interval for the mean: Student's t, or the normal one when the standard deviation is known.

        xbar -+ t_{n-1, 1-a/2} s / sqrt(n)

    | parameter   | default     | range                           | meaning                                |
    |-------------|-------------|---------------------------------|----------------------------------------|
    | x           |             | one column or several           | the sample                             |
    | level       | 0.95        | (0, 1)                          | confidence                             |
    | sigma       | None        | above 0                         | the known standard deviation, if known |
    | alternative | "two-sided" | "two-sided", "less", "greater"  | "less" gives (-inf, u]                 |

    Student (1908), Biometrika 6, 1-25.

    >>> print(mean_interval([4.1, 5.0, 5.2, 4.7, 5.5]))
    mean 4.90 [4.24, 5.56] (95% t interval, n = 5)
    """
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    values, names = sample(x, "x", least=1 if sigma is not None else 2)
    n = values.shape[0]
    mean, spread = describe(values)
    if sigma is not None:
        spread = np.full(mean.size, number(sigma, "sigma", 0, strict=True))
    return limits_of_mean(
        level,
        estimate=mean,
        error=spread / np.sqrt(n),
        df=None if sigma is not None else np.full(mean.size, n - 1.0),
        alternative=alternative,
        n=n,
        estimand="mean",
        names=names,
    )


def variance_interval(x: Any, *, level: float = 0.95, alternative: str = "two-sided") -> Interval:
    """The chi-square interval for the variance of normal data.

        [(n-1) s^2 / chi2_{n-1, 1-a/2},  (n-1) s^2 / chi2_{n-1, a/2}]

    It leans on normality at every n: with heavy tails it covers far less than its level. Square roots
    of its ends are an interval for the standard deviation.

    | parameter   | default     | range                          | meaning              |
    |-------------|-------------|--------------------------------|----------------------|
    | x           |             | one column or several          | the sample           |
    | level       | 0.95        | (0, 1)                         | confidence           |
    | alternative | "two-sided" | "two-sided", "less", "greater" | "less" gives [0, u]  |

    >>> print(variance_interval([4.1, 5.0, 5.2, 4.7, 5.5]))
    variance 0.3 [0.1, 2.4] (95% chi-square interval, n = 5)
    """
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    level = fraction(level, "level")
    values, names = sample(x, "x", least=2)
    df = values.shape[0] - 1
    spread = describe(values)[1]
    with np.errstate(over="ignore", under="ignore"):
        variance = spread**2
    lost = np.isinf(variance) | ((variance == 0) & (spread > 0))
    if lost.any():
        where = f" of column {names[int(np.flatnonzero(lost)[0])]!r}" if names else ""
        raise DataError(f"the variance{where} is beyond the range of floating point", remedy="rescale x")
    low_tail, high_tail = _tails(level, alternative)
    zero, infinity = np.zeros(variance.size), np.full(variance.size, np.inf)
    lower = zero if high_tail is None else variance * (df / special.chdtri(df, high_tail))
    upper = infinity if low_tail is None else variance * (df / (2 * special.gammaincinv(df / 2, low_tail)))
    return make_interval(variance, lower, upper, level, "chi-square", df + 1, "variance", names)


def proportion_interval(
    k: Any, n: Any, *, level: float = 0.95, method: str = "exact", alternative: str = "two-sided"
) -> Interval:
    """An interval for a proportion after k successes in n trials.

    The default never covers less than its level; "wilson" is shorter and covers it on average. "wald" is
    here to be compared with: at n = 30 and p = .9 its nominal 95% covers 81%.

    | parameter   | default     | range                                                       | meaning            |
    |-------------|-------------|-------------------------------------------------------------|--------------------|
    | k, n        |             | whole numbers, 0 <= k <= n, or arrays of them               | successes, trials  |
    | level       | 0.95        | (0, 1)                                                      | confidence         |
    | method      | "exact"     | "exact", "wilson", "agresti_coull", "wald", "hoeffding"     | see the module     |
    | alternative | "two-sided" | "two-sided", "less", "greater"                              | "less" gives [0, u] |

    Brown, Cai, DasGupta (2001), Statistical Science 16, 101-133.

    >>> print(proportion_interval(7, 10, method="wilson"))
    proportion 0.70 [0.40, 0.89] (95% Wilson interval, n = 10)
    """
    method = choice(method, "method", PROPORTION_METHODS)
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    successes, trials, names = counts(k, n)
    return limits_of_proportion(
        fraction(level, "level"),
        successes=successes,
        trials=trials,
        method=method,
        alternative=alternative,
        names=names,
    )


def limits_of_mean(
    level: float,
    *,
    estimate: Array,
    error: Array,
    df: Array | None,
    alternative: str,
    n: Any,
    estimand: str,
    names: tuple[str, ...],
) -> Interval:
    """estimate -+ quantile * error, open at the side the alternative does not ask about."""
    level = fraction(level, "level")
    tail = (1 - level) / 2 if alternative == "two-sided" else 1 - level
    quantile = -special.ndtri(tail) if df is None else -special.stdtrit(df, tail)
    with np.errstate(over="ignore"):
        half = np.where(error == 0, 0.0, quantile) * error
        lower, upper = estimate - half, estimate + half
    if alternative == "less":
        lower = np.full(estimate.size, -np.inf)
    elif alternative == "greater":
        upper = np.full(estimate.size, np.inf)
    return make_interval(estimate, lower, upper, level, "z" if df is None else "t", n, estimand, names)


def limits_of_proportion(
    level: float, *, successes: Array, trials: Array, method: str, alternative: str, names: tuple[str, ...]
) -> Interval:
    """The interval by any method; the arguments are trusted but for `level`, which a user may give late."""
    level = fraction(level, "level")
    low_tail, high_tail = _tails(level, alternative)
    share = successes / trials
    lower, upper = np.zeros(share.size), np.ones(share.size)
    if method == "exact":
        inside = successes > 0
        if high_tail is not None:
            lower[inside] = special.betaincinv(successes[inside], trials[inside] - successes[inside] + 1, high_tail)
        inside = successes < trials
        if low_tail is not None:
            # The mirrored quantile keeps its digits where the limit is close to one.
            upper[inside] = special.betainccinv(successes[inside] + 1, trials[inside] - successes[inside], low_tail)
    else:
        tail = (1 - level) / 2 if alternative == "two-sided" else 1 - level
        centre, half = _centre_and_half(successes, trials, method, tail)
        if high_tail is not None:
            lower = np.clip(centre - half, 0.0, 1.0)
        if low_tail is not None:
            upper = np.clip(centre + half, 0.0, 1.0)
        if method == "wilson":  # rounding must not cut off the ends, which the formula meets exactly
            lower[successes == 0] = 0.0
            upper[successes == trials] = 1.0
    size = trials if names else int(trials[0])
    return make_interval(share, lower, upper, level, TITLES[method], size, "proportion", names)


def _centre_and_half(k: Array, n: Array, method: str, tail: float) -> tuple[Array, Array]:
    share = k / n
    if method == "hoeffding":
        return share, np.sqrt(-np.log(tail) / (2 * n))
    z = -special.ndtri(tail)
    if method == "wald":
        return share, z * np.sqrt(share * (1 - share) / n)
    n_tilde = n + z**2
    centre = (k + z**2 / 2) / n_tilde
    if method == "agresti_coull":
        return centre, z * np.sqrt(centre * (1 - centre) / n_tilde)
    return centre, z / n_tilde * np.sqrt(k * (n - k) / n + z**2 / 4)


def _tails(level: float, alternative: str) -> tuple[float | None, float | None]:
    """The error probability above the upper limit's quantile and below the lower one's; None: no limit there."""
    if alternative == "two-sided":
        return (1 - level) / 2, (1 - level) / 2
    return (1 - level, None) if alternative == "less" else (None, 1 - level)


def make_interval(
    estimate: Any,
    lower: Any,
    upper: Any,
    level: float,
    method: str,
    n: Any,
    estimand: str,
    names: tuple[str, ...],
) -> Interval:
    """The frozen result: floats for one sample, read-only arrays for several columns."""
    estimate, lower, upper = (squeeze(np.asarray(part, dtype=float), names) for part in (estimate, lower, upper))
    size = freeze(np.asarray(n).astype(int)) if np.ndim(n) and not isinstance(n, tuple) else n
    return Interval(estimate, lower, upper, float(level), method, size, estimand, names)
