"""Tail bounds that hold at every n: probability, deviation and sample size, each from the other two.

    markov               P(X >= a) <= mu / a                                                 X >= 0
    chebyshev            P(|mean - mu| >= eps) <= variance / (n eps^2)                       one-sided: Cantelli
    chernoff             P(phat - p >= eps) <= exp(-n KL(p + eps, p))                        0/1 variables
    hoeffding            P(|mean - mu| >= eps) <= 2 exp(-2 n eps^2 / (high - low)^2)         values in [low, high]
    empirical_bernstein  |mean - mu| <= sqrt(2 s^2 L / n) + 7 (high - low) L / (3 (n - 1)),  L = log(4 / delta)

KL(q, p) = q log(q/p) + (1-q) log((1-q)/(1-p)). A two-sided bound is the sum of its two tails. Give all
but one of the quantities; the one left out is solved for: a sample size is the smallest whole number that
brings the bound down to delta. Each bound inverts to a confidence interval for data. Cost: O(1), a few dozen steps
where there is no closed form.

Hoeffding (1963), JASA 58, 13-30; Chernoff (1952), Annals Math. Stat. 23, 493-507; Maurer & Pontil (2009), COLT.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from assay.checks import (
    ALTERNATIVES,
    choice,
    counts,
    describe,
    fraction,
    number,
    sample,
)
from assay.errors import DataError, ParameterError
from assay.inference._tails import (
    bernstein_half,
    bernstein_tail,
    chebyshev_tail,
    chernoff_tail,
    hoeffding_tail,
    kl,
    left_out,
    make_bound,
    markov_tail,
    solve,
)
from assay.inference.intervals import make_interval
from assay.numbers import fmt
from assay.results import Bound, Interval

__all__ = [
    "chebyshev",
    "chebyshev_interval",
    "chernoff",
    "chernoff_interval",
    "empirical_bernstein",
    "empirical_bernstein_interval",
    "hoeffding",
    "hoeffding_interval",
    "markov",
    "markov_interval",
]

Array = np.ndarray
INDEPENDENT = "the values are independent with one common mean"
BOUNDED = "every value lies in [low, high]"


def markov(*, mean: float | None = None, threshold: float | None = None, delta: float | None = None) -> Bound:
    """Markov's inequality: a variable that is never negative is rarely far above its mean.

        P(X >= threshold) <= mean / threshold = delta

    Give two of the three. At most half of a population earns twice the mean (more than half may well
    earn more than the mean). The bound does not improve with n.

    | parameter | default | range    | meaning                                  |
    |-----------|---------|----------|------------------------------------------|
    | mean      | None    | >= 0     | the expectation of X, X >= 0             |
    | threshold | None    | above 0  | the value exceeded                       |
    | delta     | None    | (0, 1)   | bound on the probability of exceeding it |

    >>> markov(mean=1.0, threshold=2.0).value
    0.5
    """
    solved = left_out(mean=mean, threshold=threshold, delta=delta)
    if mean is not None:
        mean = number(mean, "mean", 0)
    if threshold is not None:
        threshold = number(threshold, "threshold", 0, strict=True)
    if delta is not None:
        delta = fraction(delta, "delta")
    if delta is None:
        delta = float(markov_tail(threshold, mean=mean))
    elif threshold is None:
        assert mean is not None  # `left_out` has seen to it that one quantity alone is missing
        threshold = mean / delta
    else:
        mean = threshold * delta
    quantities = {"mean": mean, "threshold": threshold, "delta": delta}
    return make_bound(
        "Markov's inequality",
        solved,
        quantities,
        f"P(X >= {fmt(threshold, 6)}) <= {fmt(delta, 6)}",
        ("X is never negative",),
        partial(markov_tail, mean=mean),
        deviation="threshold",
    )


def chebyshev(
    *,
    n: int | None = None,
    eps: float | None = None,
    delta: float | None = None,
    variance: float,
    two_sided: bool = True,
) -> Bound:
    """Chebyshev's inequality for the mean of n values; Cantelli's for one side.

        P(|mean - mu| >= eps) <= variance / (n eps^2)
        P(mean - mu >= eps) <= v / (v + eps^2),    v = variance / n

    | parameter | default | range       | meaning                                                  |
    |-----------|---------|-------------|----------------------------------------------------------|
    | n         | None    | whole, >= 1 | how many independent values are averaged; 1 is X itself  |
    | eps       | None    | above 0     | the deviation                                            |
    | delta     | None    | (0, 1)      | bound on its probability                                 |
    | variance  |         | >= 0        | of one value; at most (high - low)^2 / 4 if it is bounded |
    | two_sided | True    | bool        | deviations both ways, or upwards only                    |

    >>> chebyshev(eps=0.1, delta=0.05, variance=0.25).value
    500
    """
    variance = number(variance, "variance", 0)
    sides = 2 if _flag(two_sided, "two_sided") else 1

    def deviation(n: int, delta: float) -> float:
        v = variance / n
        return float(np.sqrt(v / delta) if two_sided else np.sqrt(v * (1 - delta) / delta))

    return solve(
        "Chebyshev's inequality" if sides == 2 else "Cantelli's inequality",
        (n, eps, delta),
        partial(chebyshev_tail, variance=variance, sides=sides),
        deviation,
        {"variance": variance},
        sides,
        (INDEPENDENT, "their variance is at most the one given"),
    )


def hoeffding(
    *,
    n: int | None = None,
    eps: float | None = None,
    delta: float | None = None,
    low: float = 0.0,
    high: float = 1.0,
    two_sided: bool = True,
) -> Bound:
    """Hoeffding's inequality for the mean of n bounded values.

        P(|mean - mu| >= eps) <= 2 exp(-2 n eps^2 / (high - low)^2)    (without the 2 for one side)

    | parameter | default | range         | meaning                               |
    |-----------|---------|---------------|---------------------------------------|
    | n         | None    | whole, >= 1   | how many independent values           |
    | eps       | None    | above 0       | the deviation                         |
    | delta     | None    | (0, 1)        | bound on its probability              |
    | low, high | 0, 1    | low < high    | the range of one value                |
    | two_sided | True    | bool          | deviations both ways, or upwards only |

    Hoeffding (1963), JASA 58, 13-30.

    >>> print(hoeffding(n=100, delta=0.05))
    Hoeffding's inequality
    ---------------------------------------------------------------
    eps = 0.13581  (given n = 100, delta = 0.05, low = 0, high = 1)
    P(|mean - mu| >= 0.13581) <= 0.05
    ---------------------------------------------------------------
    Assumes: the values are independent with one common mean; every value lies in [low, high].
    """
    low, high = _range(low, high)
    sides = 2 if _flag(two_sided, "two_sided") else 1

    def deviation(n: int, delta: float) -> float:
        return float((high - low) * np.sqrt(np.log(sides / delta) / (2 * n)))

    return solve(
        "Hoeffding's inequality",
        (n, eps, delta),
        partial(hoeffding_tail, width=high - low, sides=sides),
        deviation,
        {"low": low, "high": high},
        sides,
        (INDEPENDENT, BOUNDED),
    )


def empirical_bernstein(
    *,
    n: int | None = None,
    eps: float | None = None,
    delta: float | None = None,
    variance: float,
    low: float = 0.0,
    high: float = 1.0,
    two_sided: bool = True,
) -> Bound:
    """The empirical Bernstein bound of Maurer and Pontil: Hoeffding's, sharpened by the variance seen.

        |mean - mu| < eps = sqrt(2 s^2 L / n) + 7 (high - low) L / (3 (n - 1))    but with probability delta,
        L = log(4 / delta)    (log(2 / delta) for one side)

    | parameter | default | range       | meaning                                              |
    |-----------|---------|-------------|------------------------------------------------------|
    | n         | None    | whole, >= 2 | how many independent values                          |
    | eps       | None    | above 0     | the deviation                                        |
    | delta     | None    | (0, 1)      | bound on its probability                             |
    | variance  |         | >= 0        | the sample's own variance s^2 (divisor n - 1)        |
    | low, high | 0, 1    | low < high  | the range of one value                               |
    | two_sided | True    | bool        | deviations both ways, or the mean below mu only      |

    Maurer & Pontil (2009), Empirical Bernstein bounds and sample variance penalization, COLT.

    >>> round(empirical_bernstein(n=1000, delta=0.05, variance=0.01).value, 4)
    0.0196
    """
    low, high = _range(low, high)
    variance = number(variance, "variance", 0)
    sides = 2 if _flag(two_sided, "two_sided") else 1

    def deviation(n: int, delta: float) -> float:
        return float(bernstein_half(np.sqrt(variance), n, high - low, np.log(2 * sides / delta)))

    return solve(
        "Empirical Bernstein bound",
        (n, eps, delta),
        partial(bernstein_tail, variance=variance, width=high - low, sides=sides),
        deviation,
        {"variance": variance, "low": low, "high": high},
        sides,
        (INDEPENDENT, BOUNDED, "variance is the sample's own"),
        least=2,
    )


def chernoff(
    *,
    p: float,
    n: int | None = None,
    eps: float | None = None,
    delta: float | None = None,
    tail: str = "both",
    form: str = "kl",
) -> Bound:
    """Chernoff's bound for the share of successes in n trials.

        kl               P(phat - p >= eps) <= exp(-n KL(p + eps, p))    the best exponent there is
        multiplicative   P(phat >= (1 + r) p) <= (e^r / (1 + r)^(1 + r))^(n p),    r = eps / p

    The multiplicative form is never better; it needs only the mean, so it also holds for values in [0, 1] and
    for trials with unequal chances of average p.

    | parameter | default | range                      | meaning                                     |
    |-----------|---------|----------------------------|---------------------------------------------|
    | p         |         | (0, 1)                     | chance of success in one trial              |
    | n         | None    | whole, >= 1                | number of trials                            |
    | eps       | None    | above 0                    | deviation of the share from p               |
    | delta     | None    | (0, 1)                     | bound on its probability                    |
    | tail      | "both"  | "both", "upper", "lower"   | which deviations count                      |
    | form      | "kl"    | "kl", "multiplicative"     | which exponent                              |

    Chernoff (1952), Annals Math. Stat. 23, 493-507.

    >>> round(chernoff(p=0.1, n=100, eps=0.1, tail="upper").value, 5)
    0.01179
    """
    p = fraction(p, "p")
    tail = choice(tail, "tail", ("both", "upper", "lower"))
    form = choice(form, "form", ("kl", "multiplicative"))
    rule = partial(chernoff_tail, p=p, tail=tail, form=form)
    furthest = {"upper": 1 - p, "lower": p, "both": max(p, 1 - p)}[tail]

    def deviation(n: int, delta: float) -> float:
        # Past the end of the range the probability is zero, so the border always lies before it.
        low, high = 0.0, float(np.nextafter(furthest, 2.0))
        while True:
            middle = (low + high) / 2
            if middle in (low, high):
                return high
            low, high = (low, middle) if rule(middle, n=n) <= delta else (middle, high)

    sign = {"both": 2, "upper": 1, "lower": -1}[tail]
    unequal = "trials are independent with success probabilities of mean p" if form == "multiplicative" else ""
    return solve(
        "Chernoff's bound" + (" (multiplicative)" if form == "multiplicative" else ""),
        (n, eps, delta),
        rule,
        deviation,
        {"p": p},
        sign,
        (unequal or "trials are independent, each with success probability p",),
        words=("phat", "p"),
    )


def markov_interval(x: Any, *, level: float = 0.95) -> Interval:
    """The lower confidence limit for a mean that Markov's inequality gives: mu >= (1 - level) mean.

    Only for values `x` that are never negative, and one-sided: nothing bounds their mean from above. It is
    weak (a twentieth of the mean at 95%) because it asks for nothing else.

    >>> print(markov_interval([1.0, 2.0, 3.0]))
    mean 2.0 [0.1, inf) (95% Markov interval, n = 3)
    """
    level = fraction(level, "level")
    values, names = _data(x, 0.0, np.inf)
    mean = describe(values)[0]
    none = np.full(mean.size, np.inf)
    return make_interval(mean, (1 - level) * mean, none, level, "Markov", len(values), "mean", names)


def chebyshev_interval(x: Any, *, variance: float, level: float = 0.95, alternative: str = "two-sided") -> Interval:
    """The interval for a mean by Chebyshev's inequality, for values of known variance and any distribution.

        mean -+ sqrt(variance / (n (1 - level)))    (one-sided by Cantelli's inequality)

    `x` is a column or a table of columns; `alternative="less"` or `"greater"` asks for one limit, at the same `level`.

    >>> print(chebyshev_interval([1.0, 2.0, 3.0], variance=0.25))
    mean 2.0 [0.7, 3.3] (95% Chebyshev interval, n = 3)
    """
    sides, delta = _confidence(level, alternative)
    values, names = sample(x, "x")
    v = number(variance, "variance", 0) / values.shape[0]
    half = np.sqrt(v / delta) if sides == 2 else np.sqrt(v * (1 - delta) / delta)
    mean = describe(values)[0]
    limits = _open_ends(mean - half, mean + half, alternative, -np.inf, np.inf)
    return make_interval(mean, *limits, level, "Chebyshev" if sides == 2 else "Cantelli", len(values), "mean", names)


def hoeffding_interval(
    x: Any, low: float = 0.0, high: float = 1.0, level: float = 0.95, *, alternative: str = "two-sided"
) -> Interval:
    """The interval for the mean of values in [low, high] by Hoeffding's inequality, at any n.

        mean -+ (high - low) sqrt(log(2 / (1 - level)) / (2 n)),    cut at low and high

    `x` is a column or a table of columns; `alternative="less"` or `"greater"` asks for one limit, at the same `level`.

    >>> print(hoeffding_interval([0, 1] * 50))
    mean 0.50 [0.36, 0.64] (95% Hoeffding interval, n = 100)
    """
    low, high = _range(low, high)
    sides, delta = _confidence(level, alternative)
    values, names = _data(x, low, high)
    mean = describe(values)[0]
    half = (high - low) * np.sqrt(np.log(sides / delta) / (2 * values.shape[0]))
    limits = _open_ends(np.maximum(low, mean - half), np.minimum(high, mean + half), alternative, low, high)
    return make_interval(mean, *limits, level, "Hoeffding", len(values), "mean", names)


def empirical_bernstein_interval(
    x: Any, low: float = 0.0, high: float = 1.0, level: float = 0.95, *, alternative: str = "two-sided"
) -> Interval:
    """The interval for the mean of values in [low, high] by Maurer and Pontil's bound, at any n.

    Shorter than Hoeffding's when the values vary little and n is more than a few dozen.
    `x` is a column or a table of columns; `alternative="less"` or `"greater"` asks for one limit, at the same `level`.

    >>> print(empirical_bernstein_interval([0.5, 0.52, 0.48, 0.5] * 100))
    mean 0.500 [0.472, 0.528] (95% empirical Bernstein interval, n = 400)
    """
    low, high = _range(low, high)
    sides, delta = _confidence(level, alternative)
    values, names = _data(x, low, high, least=2)
    mean, spread = describe(values)
    half = bernstein_half(spread, values.shape[0], high - low, np.log(2 * sides / delta))
    limits = _open_ends(np.maximum(low, mean - half), np.minimum(high, mean + half), alternative, low, high)
    return make_interval(mean, *limits, level, "empirical Bernstein", len(values), "mean", names)


def chernoff_interval(k: Any, n: Any, *, level: float = 0.95, alternative: str = "two-sided") -> Interval:
    """The interval for a proportion by Chernoff's bound: every p with n KL(k/n, p) <= log(2 / (1 - level)).

    `k` successes in `n` trials. Always inside Hoeffding's, and much shorter near 0 and 1. `alternative="less"` or
    `"greater"` asks for one limit.

    >>> print(chernoff_interval(2, 100))
    proportion 0.020 [0.001, 0.083] (95% Chernoff interval, n = 100)
    """
    sides, delta = _confidence(level, alternative)
    successes, trials, names = counts(k, n)
    share, budget = successes / trials, np.log(sides / delta) / trials
    lower, upper = (_kl_edge(share, budget, end) for end in (0.0, 1.0))
    limits = _open_ends(lower, upper, alternative, 0.0, 1.0)
    size = trials if names else int(trials[0])
    return make_interval(share, *limits, level, "Chernoff", size, "proportion", names)


def _kl_edge(share: Array, budget: Array, end: float) -> Array:
    """The p furthest towards `end` with KL(share, p) within the budget, by bisection to the last digit."""
    inside, outside = share.copy(), np.full(share.shape, end)
    for _ in range(1100):  # halving reaches the smallest float from one in 1,074 steps
        middle = (inside + outside) / 2
        if np.all((middle == inside) | (middle == outside)):
            break
        fits = kl(share, middle) <= budget
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
    return outside


def _confidence(level: float, alternative: str) -> tuple[int, float]:
    choice(alternative, "alternative", ALTERNATIVES)
    return (2 if alternative == "two-sided" else 1), 1 - fraction(level, "level")


def _open_ends(lower: Array, upper: Array, alternative: str, low: float, high: float) -> tuple[Array, Array]:
    if alternative == "less":
        return np.full(lower.shape, low), upper
    return lower, (np.full(upper.shape, high) if alternative == "greater" else upper)


def _data(x: Any, low: float, high: float, least: int = 1) -> tuple[Array, tuple[str, ...]]:
    values, names = sample(x, "x", least=least)
    outside = (values < low) | (values > high)
    if outside.any():
        row, column = (int(part) for part in np.argwhere(outside)[0])
        where = f"column {names[column]!r} of x" if names else "x"
        what = f"{where} contains {values[row, column]:g} in row {row}, outside [{low:g}, {high:g}]"
        remedy = "the bound holds only for values inside; pass the true range"
        raise DataError(what, remedy=remedy if np.isfinite(high) else "it needs values that are never negative")
    return values, names


def _range(low: Any, high: Any) -> tuple[float, float]:
    low, high = number(low, "low"), number(high, "high")
    if not low < high:
        raise ParameterError(f"low = {low:g} is not below high = {high:g}", remedy="pass the range of the values")
    return low, high


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name} = {value!r} is not a boolean", remedy="pass True or False")
    return bool(value)
