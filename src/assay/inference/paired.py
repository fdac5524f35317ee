"""Two learners on the same rows or the same folds: McNemar's test, t-tests over folds, and 5x2 cross-validation.

McNemar: of n rows, b are wrong by the first learner alone and c by the second alone. Under equal error rates

    exact       B | b + c ~ Binomial(b + c, 1/2)                        p = min(1, 2 P(B <= min(b, c)))
    mid-p       the same, with half of P(B = min(b, c)) taken off       nearer its level, no guarantee
    chi-square  max(0, |b - c| - 1)^2 / (b + c) ~ chi2_1                Edwards' correction of (b - c)^2 / (b + c)
    estimate    (b - c) / n, with Tango's score limits: all d with |b - c - n d| <= z sqrt(n (2 q(d) + d (1 - d))),
                q(d) the most likely share of c given the difference d

Folds: d_1..d_J are differences between two learners, one per fold, J = K R for K folds and R repeats,

    cross-validated t   t = dbar / (s sqrt(1/J)),                  df = J - 1    (folds as if independent: liberal)
    corrected t         t = dbar / (s sqrt(1/J + n_test/n_train)),  df = J - 1    (training sets overlap)

5x2: five times two folds with differences d_ij, s_i^2 = (d_i1 - d_i2)^2 / 2 the spread within halving i,

    t = d_11 / sqrt(sum_i s_i^2 / 5) ~ t_5                   F = sum_ij d_ij^2 / (2 sum_i s_i^2) ~ F_{10, 5}

Cost: O(J); the limits of McNemar's difference are two root searches.
McNemar (1947), Psychometrika 12, 153-157; Edwards (1948), Psychometrika 13, 185-187; Tango (1998), Statistics in
Medicine 17, 891-908; Fagerland, Lydersen, Laake (2013), BMC Medical Research Methodology 13, 91; Dietterich (1998),
Neural Computation 10, 1895-1923; Alpaydin (1999), Neural Computation 11, 1885-1892; Nadeau & Bengio (2003), Machine
Learning 52, 239-281.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special

from assay.checks import (
    ALTERNATIVES,
    choice,
    describe,
    fraction,
    number,
    numbers,
    sample,
    squeeze,
    whole,
)
from assay.errors import DataError, ParameterError
from assay.inference._binomial import binomial_p
from assay.inference.intervals import limits_of_mean, limits_of_proportion
from assay.results import Interval, TestResult

__all__ = ["corrected_t_test", "cv_t_test", "five_by_two_test", "mcnemar_test"]

Array = np.ndarray
ROUNDING = 1e-12
"""Differences whose spread is below this share of their size are the same number, computed twice."""

ROWS = "the rows are independent draws, and both learners are judged on the same ones"
FEW_DISCORDANT = "b + c is large (25 or more): the chi-square distribution is an approximation"
NORMAL_FOLDS = "the differences between folds are roughly normal"
OVERLAP = "folds overlap in training rows; their correlation is taken as n_test / (n_train + n_test)"
# Measured on learners really fitted, 300 rows, at a nominal .05: docs/simulations/comparison.md.
LIBERAL = (
    "folds are taken as independent, but share training rows; measured type-I error at .05: "
    ".05 to .11 over 10 folds, .55 to .60 over 10 x 10 folds, .59 to .61 over 30 random splits"
)
HALVINGS = "differences are roughly normal, and the ten are taken as nearly independent"
LIBERAL_HALVINGS = (
    "the halves trade places, so their differences move together; measured type-I error "
    "at .05: {} for stable learners, {} for unstable ones, {} for those that hardly learn"
)
RATES = {"t": (".03", ".09", ".17"), "F": (".03", ".10", ".23")}


def mcnemar_test(
    b: Any,
    c: Any,
    *,
    n: int | None = None,
    exact: Any = True,
    correction: bool = True,
    alternative: str = "two-sided",
) -> TestResult:
    """McNemar's test that two learners, judged on the same rows, err equally often.

        exact: B ~ Binomial(b + c, 1/2);    otherwise (|b - c| - 1)^2 / (b + c) ~ chi2_1;    estimate (b - c) / n

    | parameter   | default     | range                          | meaning                                             |
    |-------------|-------------|--------------------------------|-----------------------------------------------------|
    | b, c        |             | whole numbers, or two columns  | rows that only the first, only the second gets      |
    |             |             | of True/False (or 1/0)         | wrong; or, row by row, whether each is right        |
    | n           | None        | at least b + c                 | all rows, with which the difference of error rates  |
    |             |             |                                | and its interval can be had; known for columns      |
    | exact       | True        | True, False, "mid-p"           | binomial, chi-square or mid-p                       |
    | correction  | True        | bool                           | Edwards' correction of the chi-square               |
    | alternative | "two-sided" | "two-sided", "less", "greater" | "less": the first learner errs less often           |

    The exact test costs nothing extra at any size, so it is the default. The interval is Tango's score interval, which
    inverts the chi-square without correction; close to the border it may exclude 0 where the exact test, being
    conservative, does not reject. Without n the estimate is the share b / (b + c), with its exact interval. The effect
    size is Cohen's g = b / (b + c) - 1/2. Where b = c the corrected statistic is 0 (R's rule).

    McNemar (1947), Psychometrika 12, 153-157; Tango (1998), Statistics in Medicine 17, 891-908.

    >>> print(mcnemar_test(25, 11, n=300))
    Exact McNemar test
    --------------------------------------------------------------------------
    null difference of error rates = 0, alternative: two-sided, n = 300
    statistic 25, p = 0.0288
    difference of error rates 0.047, 95% interval [0.008, 0.088] (Tango score)
    Cohen's g 0.19444
    --------------------------------------------------------------------------
    Assumes: the rows are independent draws, and both learners are judged on the same ones.
    """
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    exact, correction = _how(exact, correction)
    first, second, n = _discordant(b, c, n)
    statistic, df, p_value = _mcnemar(first, second, exact, correction, alternative)
    title = {True: "Exact McNemar test", "mid-p": "McNemar mid-p test", False: "McNemar chi-square test"}[exact]
    if exact is False:
        title += ", corrected" if correction else ", uncorrected"
    some = first + second
    if n is None:
        if some == 0:
            raise DataError("no row is discordant and n is missing, so there is nothing to estimate", remedy="pass n")
        k, trials = np.array([float(first)]), np.array([float(some)])
        rule: Callable[[float], Interval] = partial(
            limits_of_proportion, successes=k, trials=trials, method="exact", alternative=alternative, names=()
        )
    else:
        rule = partial(_tango_limits, b=first, c=second, n=n, alternative=alternative)
    return TestResult(
        statistic=statistic,
        p_value=p_value,
        df=df,
        method=title,
        estimate=first / some if n is None else (first - second) / n,
        effect_size=first / some - 0.5 if some else None,
        effect_name="Cohen's g",
        n=some if n is None else n,
        alternative=alternative,
        null=0.5 if n is None else 0.0,
        estimand="share of discordant rows that only the first gets wrong"
        if n is None
        else "difference of error rates",
        assumptions=(ROWS, *((FEW_DISCORDANT,) if exact is False and some < 25 else ())),
        interval_rule=rule,
    )


def corrected_t_test(
    differences: Any,
    *,
    n_train: float,
    n_test: float,
    popmean: Any = 0.0,
    alternative: str = "two-sided",
) -> TestResult:
    """The corrected resampled t-test: fold differences whose training sets overlap.

        t = (dbar - popmean) / (s sqrt(1/J + n_test/n_train)),    df = J - 1,    J = folds x repeats

    | parameter       | default     | range                          | meaning                                         |
    |-----------------|-------------|--------------------------------|-------------------------------------------------|
    | differences     |             | one column, or several to test | one difference per fold, all repeats one after  |
    |                 |             |                                | the other; at least two                         |
    | n_train, n_test |             | above 0                        | rows per training and test set (their means)    |
    | popmean         | 0           | finite, one or one per column  | the mean difference under the null              |
    | alternative     | "two-sided" | "two-sided", "less", "greater" | where the truth lies if the null is false       |

    Differences that are all 0 (all at popmean) give the statistic 0 and so p = 1 (one-sided 1/2); equal but other
    differences are refused, since folds without any spread cannot say how far the mean may be off.

    Nadeau & Bengio (2003), Machine Learning 52, 239-281.

    >>> d = [0.02, 0.05, 0.01, 0.03, 0.04, 0.00, 0.03, 0.02, 0.05, 0.01]
    >>> result = corrected_t_test(d, n_train=270, n_test=30)
    >>> round(result.statistic, 3), round(result.p_value, 4), round(cv_t_test(d).p_value, 5)
    (3.304, 0.0092, 0.00097)
    """
    ratio = number(n_test, "n_test", 0, strict=True) / number(n_train, "n_train", 0, strict=True)
    title = "Corrected resampled t-test"
    return _fold_t(differences, ratio, popmean, alternative, title, (OVERLAP, NORMAL_FOLDS))


def cv_t_test(differences: Any, *, popmean: Any = 0.0, alternative: str = "two-sided") -> TestResult:
    """The K-fold cross-validated paired t-test, which takes folds as independent and so rejects too often.

        t = (dbar - popmean) / (s / sqrt(J)),    df = J - 1

    | parameter   | default     | range                          | meaning                                    |
    |-------------|-------------|--------------------------------|--------------------------------------------|
    | differences |             | one column, or several to test | one difference per fold; at least two      |
    | popmean     | 0           | finite, one or one per column  | the mean difference under the null         |
    | alternative | "two-sided" | "two-sided", "less", "greater" | where the truth lies if the null is false  |

    It is here because textbooks teach it. `corrected_t_test` costs nothing more and holds its level.

    Dietterich (1998), Neural Computation 10, 1895-1923.

    >>> cv_t_test([0.02, 0.05, 0.01, 0.03]).method
    'Cross-validated t-test (liberal)'
    """
    title = "Cross-validated t-test (liberal)"
    found = _fold_t(differences, 0.0, popmean, alternative, title, (NORMAL_FOLDS,))
    return replace(found, liberal=LIBERAL)


def five_by_two_test(differences: Any, *, statistic: str = "F", alternative: str = "two-sided") -> TestResult:
    """The 5x2cv tests: five random halvings, each half once the training and once the test set.

        t = d_11 / sqrt(sum_i s_i^2 / 5) ~ t_5,    F = sum_ij d_ij^2 / (2 sum_i s_i^2) ~ F_{10,5}

    | parameter   | default     | range                          | meaning                                            |
    |-------------|-------------|--------------------------------|----------------------------------------------------|
    | differences |             | five rows of two numbers       | row i: the two differences of halving i            |
    | statistic   | "F"         | "F", "t"                       | Alpaydin's F (all ten), Dietterich's t (the first) |
    | alternative | "two-sided" | "two-sided", "less", "greater" | one-sided alternatives for "t" only                |

    Each estimate and interval belongs to its test. t: the first difference alone is in the numerator, so it alone is
    the estimate, -+ t_5 times the same standard error. F: the mean of the ten, and all d at which the differences
    minus d would pass the F test; where no d would (the halvings disagree too much), the limits are NaN.

    Dietterich (1998), Neural Computation 10, 1895-1923; Alpaydin (1999), Neural Computation 11, 1885-1892.

    >>> d = [[0.03, 0.01], [0.02, 0.03], [0.04, 0.00], [0.01, 0.02], [0.03, 0.03]]
    >>> result = five_by_two_test(d)
    >>> round(result.statistic, 3), result.df, round(result.p_value, 4)
    (2.818, (10, 5), 0.1322)
    >>> round(five_by_two_test(d, statistic="t").statistic, 3)
    2.023
    """
    statistic = choice(statistic, "statistic", ("F", "t"))
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    values = sample(differences, "differences")[0]
    if values.shape != (5, 2):
        what = f"differences has shape {np.shape(differences)}"
        raise DataError(what, remedy="pass five rows of two differences, one row per halving")
    if statistic == "F" and alternative != "two-sided":
        raise ParameterError("the 5x2cv F test is two-sided", remedy='pass statistic="t" for a one-sided test')
    size = float(np.abs(values).max())
    if size > 0 and not 1e-150 < size < 1e150:
        raise DataError(f"the squares of differences of size {size:.3g} overflow", remedy="rescale them")
    inside = float(((values[:, 0] - values[:, 1]) ** 2).sum()) / 2
    if size > 0 and np.sqrt(inside) <= ROUNDING * size:
        _refuse_flat(float(values[0, 0]), "within every halving both halves show the same difference", "")
    return _five_t(values, inside, alternative) if statistic == "t" else _five_f(values, inside)


def _five_t(values: Array, inside: float, alternative: str) -> TestResult:
    first, error = float(values[0, 0]), float(np.sqrt(inside / 5))
    ratio = first / error if error > 0 else 0.0
    rule = partial(
        limits_of_mean,
        estimate=np.array([first]),
        error=np.array([error]),
        df=np.array([5.0]),
        alternative=alternative,
        n=10,
        estimand="difference (first of ten)",
        names=(),
    )
    return TestResult(
        statistic=ratio,
        p_value=float(_t_tail(np.array([ratio]), 5.0, alternative)[0]),
        df=5.0,
        method="5x2cv t-test",
        estimate=first,
        effect_size=ratio,
        effect_name="difference over the spread within halvings",
        n=10,
        alternative=alternative,
        null=0.0,
        estimand="difference (first of ten)",
        assumptions=(HALVINGS,),
        liberal=LIBERAL_HALVINGS.format(*RATES["t"]),
        interval_rule=rule,
    )


def _five_f(values: Array, inside: float) -> TestResult:
    total, mean = float((values**2).sum()), float(values.mean())
    ratio = total / (2 * inside) if inside > 0 else 0.0
    return TestResult(
        statistic=ratio,
        p_value=float(special.fdtrc(10, 5, ratio)),
        df=(10, 5),
        method="5x2cv F test",
        estimate=mean,
        effect_size=mean / float(np.sqrt(inside / 5)) if inside > 0 else 0.0,
        effect_name="difference over the spread within halvings",
        n=10,
        null=0.0,
        estimand="mean difference",
        assumptions=(HALVINGS,),
        liberal=LIBERAL_HALVINGS.format(*RATES["F"]),
        interval_rule=partial(_five_f_limits, values=values, inside=inside, mean=mean),
    )


def _five_f_limits(level: float, *, values: Array, inside: float, mean: float) -> Interval:
    """All d at which sum (d_ij - d)^2 <= 2 F sum s_i^2: an interval around the mean, or nothing."""
    level = fraction(level, "level")
    critical = special.fdtri(10, 5, level)
    room = 2 * inside * critical - float(((values - mean) ** 2).sum())
    half = float(np.sqrt(room / 10)) if room >= 0 else np.nan
    return Interval(mean, mean - half, mean + half, level, "inverted 5x2cv F", 10, "mean difference")


def _fold_t(
    differences: Any, ratio: float, popmean: Any, alternative: str, title: str, assumptions: tuple[str, ...]
) -> TestResult:
    """t over folds with the variance factor 1/J + ratio."""
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    values, names = sample(differences, "differences")
    folds = values.shape[0]
    if folds < 2:
        raise DataError(
            "a single fold has no spread",
            remedy="pass at least two folds, or compare row by row (mcnemar_test, t_test)",
        )
    mean, spread = describe(values)
    null = numbers(popmean, "popmean", mean.size)
    spread = np.where(spread <= ROUNDING * np.abs(values).max(axis=0), 0.0, spread)
    off = mean - null
    off = np.where(np.abs(off) <= ROUNDING * np.maximum(np.abs(mean), np.abs(null)), 0.0, off)
    flat = (spread == 0) & (off != 0)
    if flat.any():
        at = int(np.argmax(flat))
        word = "difference" if null[at] == 0 else "value"
        _refuse_flat(float(mean[at]), f"every fold shows the same {word}", f" in column {names[at]!r}" if names else "")
    error = spread * np.sqrt(1 / folds + ratio)
    safe = np.where(spread > 0, spread, 1.0)
    statistic = off / (safe * np.sqrt(1 / folds + ratio))
    df = np.full(mean.size, folds - 1.0)
    common = {"estimate": mean, "error": error, "df": df, "n": folds, "estimand": "mean difference", "names": names}
    return TestResult(
        statistic=squeeze(statistic, names),
        p_value=squeeze(_t_tail(statistic, df, alternative), names),
        df=squeeze(df, names),
        method=title,
        estimate=squeeze(mean, names),
        effect_size=squeeze(off / safe, names),
        effect_name="Cohen's d (spread between folds)",
        n=folds,
        alternative=alternative,
        null=squeeze(null, names if np.ndim(popmean) else ()),
        estimand="mean difference",
        assumptions=assumptions,
        names=names,
        interval_rule=partial(limits_of_mean, alternative=alternative, **common),
    )


def _t_tail(statistic: Array, df: Any, alternative: str) -> Array:
    toward = {"two-sided": -np.abs(statistic), "less": statistic, "greater": -statistic}[alternative]
    tail = special.stdtr(df, toward)
    return np.minimum(1.0, 2 * tail) if alternative == "two-sided" else tail


def _refuse_flat(value: float, where: str, column: str) -> None:
    what = f"{where}, {value:.4g}{column}, so its standard error cannot be estimated"
    raise DataError(
        what, remedy="use more rows per fold, or compare row by row (mcnemar_test, or t_test with paired=True)"
    )


def _how(exact: Any, correction: Any) -> tuple[Any, bool]:
    if not (isinstance(exact, bool | np.bool_) or (isinstance(exact, str) and exact == "mid-p")):
        raise ParameterError(f"unknown exact = {exact!r}", remedy='pass True, False or "mid-p"')
    if not isinstance(correction, bool | np.bool_):
        raise ParameterError(f"correction = {correction!r} is not a boolean", remedy="pass True or False")
    return exact if isinstance(exact, str) else bool(exact), bool(correction)


def _discordant(b: Any, c: Any, n: Any) -> tuple[int, int, int | None]:
    """Discordant counts and n, from counts or from two columns that say which rows are right."""
    if np.ndim(b) == 0 and np.ndim(c) == 0:
        first, second = whole(b, "b", 0), whole(c, "c", 0)
        if n is None:
            return first, second, None
        rows = whole(n, "n")
        if rows < first + second:
            raise DataError(f"n = {rows} is less than b + c = {first + second}", remedy="pass the number of all rows")
        return first, second, rows
    if n is not None:
        raise ParameterError("n is determined by the rows", remedy="leave n out")
    right = [_right(column, name) for column, name in ((b, "b"), (c, "c"))]
    if right[0].shape != right[1].shape:
        what = f"b has {right[0].size} rows but c has {right[1].size}"
        raise DataError(what, remedy="judge both learners on the same rows")
    only_first, only_second = ~right[0] & right[1], right[0] & ~right[1]
    return int(only_first.sum()), int(only_second.sum()), int(right[0].size)


def _right(column: Any, name: str) -> Array:
    values, names = sample(column.astype(float) if isinstance(column, pd.Series) else column, name)
    if names and values.shape[1] != 1:
        raise DataError(f"{name} has {values.shape[1]} columns", remedy="pass one column, or one count")
    other = ~np.isin(values[:, 0], (0.0, 1.0))
    if other.any():
        row = int(np.argmax(other))
        what = f"{name} contains {values[row, 0]:g} in row {row}, which is neither right (True) nor wrong (False)"
        raise DataError(what, remedy="pass y_pred == y_true, or the two counts")
    return values[:, 0] == 1.0


def _mcnemar(b: int, c: int, exact: Any, correction: bool, alternative: str) -> tuple[float, float | None, float]:
    """Statistic, degrees of freedom and p-value."""
    some = b + c
    if some == 0:  # the two agree in every row
        return 0.0, 1.0 if exact is False and alternative == "two-sided" else None, 1.0
    if exact is not False:
        k, trials = np.array([float(b)]), np.array([float(some)])
        p = float(binomial_p(k, trials, 0.5, alternative)[0])
        if exact == "mid-p":
            two = alternative == "two-sided"
            # Two-sided, half of either end is taken off; in the middle the two ends are one, and p is 1.
            p = 1.0 if two and b == c else p - _point(b, c) * (1.0 if two else 0.5)
        return float(b), None, p
    gap = 1.0 if correction else 0.0
    root = float(np.sqrt(some))
    if alternative == "two-sided":
        z = max(0.0, abs(b - c) - gap) / root
        return z**2, 1.0, float(special.chdtrc(1, z**2))
    z = (gap - abs(b - c) if (b < c) == (alternative == "less") else gap + abs(b - c)) / root
    return float(z if alternative == "less" else -z), None, float(special.ndtr(z))


def _point(b: int, c: int) -> float:
    """P(B = b) for B ~ Binomial(b + c, 1/2)."""
    log = special.gammaln(b + c + 1) - special.gammaln(b + 1) - special.gammaln(c + 1) - (b + c) * np.log(2)
    return float(np.exp(log))


def _tango_limits(level: float, *, b: int, c: int, n: int, alternative: str) -> Interval:
    """All differences that the score test does not reject; the ends of [-1, 1] where the alternative asks for none."""
    level = fraction(level, "level")
    tail = (1 - level) / 2 if alternative == "two-sided" else 1 - level
    z = float(-special.ndtri(tail))
    upper = 1.0 if alternative == "greater" else _tango_upper(b, c, n, z)
    lower = -1.0 if alternative == "less" else -_tango_upper(c, b, n, z)
    return Interval((b - c) / n, lower, upper, level, "Tango score", n, "difference of error rates")


def _tango_upper(b: int, c: int, n: int, z: float) -> float:
    """The largest d with (b - c - n d) >= -z sqrt(n (2 q(d) + d (1 - d)))."""
    if b == n:
        return 1.0

    def excess(d: float) -> float:
        linear = -b - c + (2 * n - b + c) * d
        constant = -c * d * (1 - d)
        q = (np.sqrt(max(0.0, linear**2 - 8 * n * constant)) - linear) / (4 * n)
        spread = max(0.0, n * (2 * q + d * (1 - d)))
        return float((b - c - n * d) + z * np.sqrt(spread))

    # Without any spread at the estimate itself the search would stop there at once; the limit lies beyond.
    estimate = (b - c) / n
    start = estimate + (1e-12 if b + c in (0, n) else 0.0)
    if z <= 0:  # a level of one half or less, one-sided: the limit lies on the other side of the estimate
        return estimate if z == 0 else float(optimize.brentq(excess, -1.0, estimate, xtol=1e-14, rtol=8.9e-16))
    if excess(start) <= 0:
        return start
    return float(optimize.brentq(excess, start, 1.0, xtol=1e-14, rtol=8.9e-16))
