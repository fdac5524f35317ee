"""Tests of means and proportions: z, t (one sample, two samples, pairs) and the exact binomial.

    one sample, pairs   t = (xbar - mu0) / (s / sqrt(n)),                      df = n - 1
    two, equal_var      t = (xbar - ybar - mu0) / (s_p sqrt(1/n1 + 1/n2)),     df = n1 + n2 - 2
    two, Welch          t = (xbar - ybar - mu0) / sqrt(s1^2/n1 + s2^2/n2),     df by Welch-Satterthwaite
    z                   the same with sigma in place of s, against the normal distribution
    binomial            P(K as unlikely as k or more so | p0), summed exactly

Every column of a table is tested at once. Data without any spread give the limit of the p-value as
the spread goes to zero (0 or 1; at the null itself the statistic is 0) and the
assumptions say so. Cost: one pass over the data.
Welch (1947), Biometrika 34, 28-35; Hedges (1981), J. Educational Statistics 6, 107-128;
Delacre et al. (2021) for d with unequal variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from assay.checks import (
    ALTERNATIVES,
    choice,
    counts,
    describe,
    fraction,
    number,
    numbers,
    sample,
    squeeze,
)
from assay.errors import DataError, ParameterError
from assay.inference._binomial import binomial_p
from assay.inference.intervals import limits_of_mean, limits_of_proportion
from assay.results import TestResult

__all__ = ["binomial_test", "t_test", "z_test"]

Array = np.ndarray
INDEPENDENT = "the rows are independent draws from one population"
TWO_INDEPENDENT = "the rows of each sample are independent draws, and the samples are independent of each other"
NORMAL = "the values are normal, or n is large enough for their mean to be"
LARGE = "n is large: the sample's own spread is used as if it were known"


@dataclass(frozen=True)
class _Contrast:
    """What every test of means reduces to, column by column."""

    estimate: Array
    error: Array
    df: Array | None
    scale: Array
    scale_df: Array | None
    n: Any
    names: tuple[str, ...]
    estimand: str
    effect_name: str
    title: str
    assumptions: tuple[str, ...]


def t_test(
    x: Any,
    y: Any = None,
    *,
    popmean: Any = 0.0,
    paired: bool = False,
    equal_var: bool = False,
    alternative: str = "two-sided",
) -> TestResult:
    """Student's t-test of one mean, of two means, or of paired differences.

    Two samples are compared by Welch's test unless `equal_var=True`; scipy's `ttest_ind` pools by default.

        t = (estimate - popmean) / standard error

    | parameter   | default     | range                          | meaning                                             |
    |-------------|-------------|--------------------------------|-----------------------------------------------------|
    | x, y        | y=None      | one column or several          | the samples; without y the mean of x is tested      |
    | popmean     | 0           | finite, one or one per column  | the mean, or difference of means, under the null    |
    | paired      | False       | bool                           | row i of x belongs to row i of y                    |
    | equal_var   | False       | bool                           | pool the variances of two samples                   |
    | alternative | "two-sided" | "two-sided", "less", "greater" | where the truth lies if the null is false           |

    The effect size is Cohen's d (difference over the pooled spread; over the root mean variance for
    Welch; over the differences' spread for pairs), and `hedges_g` is d with Hedges' exact correction.

    Welch (1947), Biometrika 34, 28-35.

    >>> result = t_test([5.1, 4.9, 6.2, 5.7], [4.1, 4.4, 5.0, 3.9, 4.6])
    >>> print(result)
    Welch's t-test of two means
    ---------------------------------------------------------------
    null difference of means = 0, alternative: two-sided, n = 4 + 5
    statistic 3.0492, df 5.3599, p = 0.026
    difference of means 1.07, 95% interval [0.19, 1.96] (t)
    Cohen's d (root mean variance) 2.0801, Hedges' g 1.79692
    ---------------------------------------------------------------
    Assumes: the rows of each sample are independent draws, ...
    """
    _flags(paired=paired, equal_var=equal_var)
    contrast = _contrast(x, y, paired, equal_var, None, "t")
    return _tested(contrast, popmean, alternative)


def z_test(
    x: Any,
    y: Any = None,
    *,
    popmean: Any = 0.0,
    sigma: Any = None,
    paired: bool = False,
    equal_var: bool = False,
    alternative: str = "two-sided",
) -> TestResult:
    """The normal test of one mean, of two means, or of paired differences.

        z = (estimate - popmean) / standard error,    p from the normal distribution

    | parameter   | default     | range                           | meaning                                         |
    |-------------|-------------|---------------------------------|-------------------------------------------------|
    | x, y        | y=None      | one column or several           | the samples; without y the mean of x is tested  |
    | popmean     | 0           | finite, one or one per column   | the mean, or difference, under the null         |
    | sigma       | None        | above 0; a pair for two samples | the known standard deviation (of the            |
    |             |             |                                 | differences, if paired); None: the sample's own |
    | paired      | False       | bool                            | row i of x belongs to row i of y                |
    | equal_var   | False       | bool                            | pool the two variances (without sigma)          |
    | alternative | "two-sided" | "two-sided", "less", "greater"  | where the truth lies if the null is false       |

    >>> round(z_test([2.33], sigma=1.0).p_value, 4)
    0.0198
    """
    _flags(paired=paired, equal_var=equal_var)
    contrast = _contrast(x, y, paired, equal_var, sigma, "z")
    return _tested(contrast, popmean, alternative)


def binomial_test(k: Any, n: Any, p: float = 0.5, *, alternative: str = "two-sided") -> TestResult:
    """The exact test of a proportion after k successes in n trials.

        one-sided   P(K >= k) or P(K <= k),    K ~ Binomial(n, p)
        two-sided   the sum of P(K = i) over every i no more likely than k

    | parameter   | default     | range                             | meaning                          |
    |-------------|-------------|-----------------------------------|----------------------------------|
    | k, n        |             | whole, 0 <= k <= n, or arrays     | successes and trials             |
    | p           | 0.5         | [0, 1]                            | the proportion under the null    |
    | alternative | "two-sided" | "two-sided", "less", "greater"    | where the truth lies otherwise   |

    The effect size is Cohen's h = 2 asin sqrt(k/n) - 2 asin sqrt(p); the interval is Clopper-Pearson's.

    Clopper & Pearson (1934), Biometrika 26, 404-413.

    >>> result = binomial_test(7, 10, alternative="greater")
    >>> result.p_value == 176 / 1024, result.interval(0.95).lower.__round__(4)
    (True, 0.3934)
    """
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    null = fraction(p, "p", closed=True)
    successes, trials, names = counts(k, n)
    share = successes / trials
    rule = partial(
        limits_of_proportion,
        successes=successes,
        trials=trials,
        method="exact",
        alternative=alternative,
        names=names,
    )
    return TestResult(
        statistic=squeeze(successes, names),
        p_value=squeeze(binomial_p(successes, trials, null, alternative), names),
        df=None,
        method="Exact binomial test",
        estimate=squeeze(share, names),
        effect_size=squeeze(2 * (np.arcsin(np.sqrt(share)) - np.arcsin(np.sqrt(null))), names),
        effect_name="Cohen's h",
        n=trials.astype(int) if names else int(trials[0]),
        alternative=alternative,
        null=null,
        estimand="proportion",
        assumptions=("the trials are independent, each with the same chance of success",),
        names=names,
        interval_rule=rule,
    )


def _tested(contrast: _Contrast, popmean: Any, alternative: str) -> TestResult:
    """Statistic, p-value and effect size of a contrast against its value under the null."""
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    names = contrast.names
    null = numbers(popmean, "popmean", contrast.estimate.size)
    with np.errstate(over="ignore"):
        difference = contrast.estimate - null
    statistic, effect = _ratio(difference, contrast.error), _ratio(difference, contrast.scale)
    toward = {"two-sided": -np.abs(statistic), "less": statistic, "greater": -statistic}[alternative]
    p_value = special.ndtr(toward) if contrast.df is None else special.stdtr(contrast.df, toward)
    p_value = np.minimum(1.0, 2 * p_value) if alternative == "two-sided" else p_value
    hedges = None if contrast.scale_df is None else squeeze(effect * _hedges(contrast.scale_df), names)
    rule = partial(
        limits_of_mean,
        estimate=contrast.estimate,
        error=contrast.error,
        df=contrast.df,
        alternative=alternative,
        n=contrast.n,
        estimand=contrast.estimand,
        names=names,
    )
    return TestResult(
        statistic=squeeze(statistic, names),
        p_value=squeeze(p_value, names),
        df=None if contrast.df is None else squeeze(contrast.df, names),
        method=contrast.title,
        estimate=squeeze(contrast.estimate, names),
        effect_size=squeeze(effect, names),
        effect_name=contrast.effect_name,
        hedges_g=hedges,
        n=contrast.n,
        alternative=alternative,
        null=squeeze(null, names if np.ndim(popmean) else ()),
        estimand=contrast.estimand,
        assumptions=contrast.assumptions + _no_spread(contrast.error, names),
        names=names,
        interval_rule=rule,
    )


def _ratio(difference: Array, error: Array) -> Array:
    """difference / error with its limits at zero error: 0 at the null itself, infinite elsewhere."""
    with np.errstate(over="ignore"):
        ratio = difference / np.where(error > 0, error, 1.0)
    return np.where(error > 0, ratio, np.where(difference == 0, 0.0, np.copysign(np.inf, difference)))


def _no_spread(error: Array, names: tuple[str, ...]) -> tuple[str, ...]:
    if np.all(error > 0):
        return ()
    where = "of column " + ", ".join(repr(names[j]) for j in np.flatnonzero(error == 0)) if names else "given"
    return (f"the values {where} do not vary at all: the p-value is the limit as their spread goes to zero",)


def _hedges(df: Array) -> Array:
    """J(df) = Gamma(df/2) / (sqrt(df/2) Gamma((df-1)/2)); d has no expectation at df <= 1, where it is NaN."""
    defined = np.where(df > 1, df, 2.0)
    half = defined / 2
    exact = np.exp(special.gammaln(half) - special.gammaln(half - 0.5) - 0.5 * np.log(half))
    return np.where(df > 1, exact, np.nan)


def _contrast(x: Any, y: Any, paired: bool, equal_var: bool, sigma: Any, kind: str) -> _Contrast:
    if y is not None and np.ndim(y) == 0:
        raise DataError(f"y = {y!r} is a single number", remedy="for a test of one mean write popmean=... instead")
    if y is None and (paired or equal_var):
        raise ParameterError("paired and equal_var apply to two samples, but y was not passed", remedy="pass y")
    if y is None or paired:
        return _one_sample(x, y, equal_var, sigma, kind)
    return _two_samples(x, y, equal_var, sigma, kind)


def _one_sample(x: Any, y: Any, equal_var: bool, sigma: Any, kind: str) -> _Contrast:
    values, names = sample(x, "x")
    if y is not None:
        if equal_var:
            raise ParameterError("equal_var does not apply to pairs", remedy="leave it out")
        values, names = _differences(values, names, y)
    n = values.shape[0]
    if n < 2 and sigma is None:
        what = "pair" if y is not None else "value"
        raise DataError(f"a single {what} has no spread", remedy="pass at least two, or use z_test with a known sigma")
    mean, spread = describe(values)
    df = np.full(mean.size, n - 1.0) if kind == "t" else None
    if sigma is not None:
        spread = np.broadcast_to(_positive(numbers(sigma, "sigma", mean.size)), mean.shape)
    of = "the differences' spread" if y is not None else ("given sigma" if sigma is not None else "the sample's spread")
    return _Contrast(
        estimate=mean,
        error=spread / np.sqrt(n),
        df=df,
        scale=spread,
        scale_df=None if sigma is not None else np.full(mean.size, n - 1.0),
        n=n,
        names=names,
        estimand="mean difference" if y is not None else "mean",
        effect_name=f"Cohen's d ({of})",
        title=f"{'Paired' if y is not None else 'One-sample'} {kind}-test",
        assumptions=(INDEPENDENT.replace("rows", "pairs") if y is not None else INDEPENDENT, _shape(kind, sigma)),
    )


def _differences(first: Array, names: tuple[str, ...], y: Any) -> tuple[Array, tuple[str, ...]]:
    second, second_names = sample(y, "y")
    if first.shape[0] != second.shape[0]:
        what = f"x has {first.shape[0]} rows but y has {second.shape[0]}, so they are not pairs"
        raise DataError(what, remedy="pass one row of y per row of x, or paired=False")
    names = _common_names(names, second_names)
    with np.errstate(over="ignore"):
        difference = first - second
    if not np.isfinite(difference).all():
        raise DataError("a difference of x and y is beyond the range of floating point", remedy="rescale them")
    return difference, names


def _two_samples(x: Any, y: Any, equal_var: bool, sigma: Any, kind: str) -> _Contrast:
    (first, names), (second, second_names) = sample(x, "x"), sample(y, "y")
    names = _common_names(names, second_names)
    n1, n2 = first.shape[0], second.shape[0]
    _enough(n1, n2, equal_var, sigma, kind)
    (mean1, s1), (mean2, s2) = describe(first), describe(second)
    if sigma is not None:
        if equal_var:
            raise ParameterError("equal_var does not apply with a known sigma", remedy="pass one sigma for both")
        pair = _positive(numbers(sigma, "sigma", 2))
        s1, s2 = np.full(mean1.shape, pair[0]), np.full(mean2.shape, pair[1])
    total = n1 + n2 - 2
    # hypot forms root mean squares without leaving the range of floating point on the way.
    with np.errstate(over="ignore", invalid="ignore"):
        estimate = np.atleast_1d(mean1 - mean2)
        if equal_var:
            scale = np.hypot(s1 * np.sqrt((n1 - 1) / total), s2 * np.sqrt((n2 - 1) / total))
            error = scale * np.sqrt(1 / n1 + 1 / n2)
            df = scale_df = np.full(scale.shape, float(total))
        else:
            a, b = s1 / np.sqrt(n1), s2 / np.sqrt(n2)
            scale, error = np.hypot(s1 * np.sqrt(0.5), s2 * np.sqrt(0.5)), np.hypot(a, b)
            df, scale_df = _welch(a, b, n1, n2), _welch(s1, s2, n1, n2)
    if not np.isfinite([estimate, error, scale]).all():
        raise DataError("the difference of x and y overflows floating point", remedy="rescale them")
    title = "Two-sample z-test of two means"
    if kind == "t":
        title = "Two-sample t-test of two means, pooled variance" if equal_var else "Welch's t-test of two means"
    equal = ("both populations have the same variance",) if equal_var else ()
    return _Contrast(
        estimate=estimate,
        error=error,
        df=df if kind == "t" else None,
        scale=scale,
        scale_df=None if sigma is not None else scale_df,
        n=(n1, n2),
        names=names,
        estimand="difference of means",
        effect_name=f"Cohen's d ({'pooled spread' if equal_var else 'root mean variance'})",
        title=title,
        assumptions=(TWO_INDEPENDENT, _shape(kind, sigma), *equal),
    )


def _enough(n1: int, n2: int, equal_var: bool, sigma: Any, kind: str) -> None:
    if sigma is not None:
        return
    if equal_var and n1 + n2 >= 3:
        return
    if min(n1, n2) < 2:
        which = "x" if n1 < n2 else "y"
        remedy = "pass at least two values in each sample" + ("" if equal_var else ", or pool with equal_var=True")
        raise DataError(f"{which} has a single value and therefore no spread", remedy=remedy)


def _welch(a: Array, b: Array, n1: int, n2: int) -> Array:
    """(a^2 + b^2)^2 / (a^4/(n1-1) + b^4/(n2-1)), from the share of each part, so that no scale overflows."""
    whole = np.hypot(a, b)
    share = np.where(whole > 0, (a / np.where(whole > 0, whole, 1.0)) ** 2, 0.5)
    denominator = share**2 / max(1, n1 - 1) + (1 - share) ** 2 / max(1, n2 - 1)
    return np.where(whole > 0, 1 / denominator, float(n1 + n2 - 2))


def _common_names(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    if first and second and len(first) != len(second):
        raise DataError(f"x has {len(first)} columns but y has {len(second)}", remedy="pass the same columns in both")
    plain = tuple(str(j) for j in range(max(len(first), len(second))))
    if first and second and first != second and plain not in (first, second):
        at = next(j for j, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
        what = f"column {at} is {first[at]!r} in x but {second[at]!r} in y"
        raise DataError(what, remedy="put the same columns in the same order")
    return second if second and first == plain else first or second


def _shape(kind: str, sigma: Any) -> str:
    return LARGE if kind == "z" and sigma is None else NORMAL


def _positive(values: Array) -> Array:
    for value in values:
        number(float(value), "sigma", 0, strict=True)
    return values


def _flags(**flags: Any) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise ParameterError(f"{name} = {value!r} is not a boolean", remedy="pass True or False")
