"""Power of the tests of means and proportions, and the sample size that reaches a wanted power.

With effect size d, the two-sided test at level alpha rejects with probability

    z           Phi(delta - z) + Phi(-delta - z)                       z = normal quantile of 1 - alpha/2
    t           P(T > t) + P(T < -t),  T noncentral t(df, delta)       t = Student quantile
    binomial    P(K in R | p1),  R = {k : p-value(k) <= alpha}         exact; Cohen's h gives p1 from the null

    delta = d sqrt(n)                     one sample and pairs (d of the differences), df = n - 1
    delta = d sqrt(n n2 / (n + n2))       two samples, n2 = ratio n rounded up,        df = n + n2 - 2

For two samples the variances are taken as equal, where Welch's test loses next to nothing. The sample size is found by
doubling and bisection, O(log n) powers. The binomial's power is a saw-tooth in n; the search there
starts from the n that the best randomised test needs (no test of that level needs fewer, and its power never
falls with n) and tries one n after another.

Cohen (1988), Statistical Power Analysis for the Behavioral Sciences; Chernick & Liu (2002), American
Statistician 56, 149-155.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from assay.checks import ALTERNATIVES, choice, fraction, number
from assay.errors import ParameterError
from assay.inference._binomial import binomial_p, first_true, lower_tail, upper_tail

__all__ = ["cohens_h", "power", "sample_size"]

Array = np.ndarray
TESTS = ("one-sample z", "two-sample z", "paired z", "one-sample t", "two-sample t", "paired t", "binomial")
MOST = 2**40
"""No study is larger than this; an effect that needs one is reported as too small."""


def power(
    test: str,
    *,
    effect_size: Any,
    n: Any,
    alpha: float = 0.05,
    alternative: str = "two-sided",
    ratio: float | None = None,
    null: float | None = None,
) -> Any:
    """The probability that a test rejects when the effect has the given size.

    | parameter   | default     | range                             | meaning                                  |
    |-------------|-------------|-----------------------------------|------------------------------------------|
    | test        |             | "one-sample t", "two-sample t",   | the planned test                         |
    |             |             | "paired t", the same with z,      |                                          |
    |             |             | "binomial"                        |                                          |
    | effect_size |             | number or array                   | Cohen's d; Cohen's h for the binomial    |
    | n           |             | whole number or array             | rows, pairs, trials, or the first sample |
    | alpha       | 0.05        | (0, 1)                            | level of the test                        |
    | alternative | "two-sided" | "two-sided", "less", "greater"    | as in the test                           |
    | ratio       | 1           | above 0; two samples only         | second sample's size / first's           |
    | null        | 0.5         | (0, 1); binomial only             | the proportion under the null            |

    Arrays broadcast, so one call gives a power curve.

    Cohen (1988), Statistical Power Analysis for the Behavioral Sciences.

    >>> round(power("two-sample t", effect_size=0.5, n=64), 4)
    0.8015
    >>> power("one-sample z", effect_size=0.5, n=[10, 20, 40]).round(3).tolist()
    [0.353, 0.609, 0.885]
    """
    ratio, null = _settings(test, ratio, null)
    alpha, alternative = fraction(alpha, "alpha"), choice(alternative, "alternative", ALTERNATIVES)
    effect, sizes = np.asarray(effect_size, dtype=float), np.asarray(n, dtype=float)
    if not np.isfinite(effect).all() or effect.size == 0:
        raise ParameterError("effect_size must contain finite numbers", remedy="pass Cohen's d, or h")
    least = 2 if test.endswith(" t") else 1
    if sizes.size == 0 or not np.all((sizes >= least) & (sizes == np.round(sizes)) & np.isfinite(sizes)):
        raise ParameterError(f"n = {n!r} is not a whole number of at least {least}", remedy="correct n")
    try:
        effect, sizes = np.broadcast_arrays(effect, sizes)
    except ValueError as error:
        raise ParameterError("effect_size and n have different lengths", remedy="pass equal lengths") from error
    flat = _power(test, np.ravel(effect), np.ravel(sizes), alpha, alternative, ratio, null)
    return flat.reshape(effect.shape) if effect.ndim else float(flat[0])


def sample_size(
    test: str,
    *,
    effect_size: float,
    power: float = 0.8,
    alpha: float = 0.05,
    alternative: str = "two-sided",
    ratio: float | None = None,
    null: float | None = None,
) -> int:
    """The smallest n at which a test reaches the wanted power (for two samples: the first one's size).

    `test`, `effect_size`, `alpha`, `alternative`, `ratio` and `null` are those of `power`. For the binomial test a
    larger n may again have a little less power, because only whole counts can be rejected; the n returned reaches it.

    >>> sample_size("two-sample t", effect_size=0.5), sample_size("one-sample z", effect_size=0.5)
    (64, 32)
    >>> sample_size("binomial", effect_size=cohens_h(0.7, 0.5), null=0.5)
    49
    """
    ratio, null = _settings(test, ratio, null)
    target, alpha = fraction(power, "power"), fraction(alpha, "alpha")
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    effect = number(effect_size, "effect_size")
    wrong_way = (alternative == "greater" and effect < 0) or (alternative == "less" and effect > 0)
    if target > alpha and (effect == 0 or wrong_way):
        what = f"with effect_size = {effect:g} and alternative {alternative!r} no n reaches a power of {target:g}"
        raise ParameterError(what, remedy="pass an effect in the direction of the alternative")
    if test == "binomial":
        return _binomial_size(effect, target, alpha, alternative, null)

    def enough(size: int) -> bool:
        at = np.array([float(size)])
        return bool(_power(test, np.array([effect]), at, alpha, alternative, ratio, null)[0] >= target)

    return _smallest(enough, 2 if test.endswith(" t") else 1, effect)


def cohens_h(p: Any, null: Any) -> Any:
    """The distance between two proportions on the scale where their spread is constant.

        h = 2 asin sqrt(p) - 2 asin sqrt(null)

    >>> round(cohens_h(0.7, 0.5), 4)
    0.4115
    """
    first, second = np.asarray(p, dtype=float), np.asarray(null, dtype=float)
    if not np.all((first >= 0) & (first <= 1)) or not np.all((second >= 0) & (second <= 1)):
        raise ParameterError("a proportion lies outside [0, 1]", remedy="pass proportions, not percentages")
    h = 2 * (np.arcsin(np.sqrt(first)) - np.arcsin(np.sqrt(second)))
    return h if h.ndim else float(h)


def _settings(test: str, ratio: float | None, null: float | None) -> tuple[float, float]:
    choice(test, "test", TESTS)
    if ratio is not None and not test.startswith("two-sample"):
        raise ParameterError(f"ratio does not apply to the {test} test", remedy="leave it out")
    if null is not None and test != "binomial":
        remedy = "leave it out; an effect size is already a distance from the null"
        raise ParameterError(f"null does not apply to the {test} test", remedy=remedy)
    share = fraction(0.5 if null is None else null, "null")
    return (1.0 if ratio is None else number(ratio, "ratio", 0, strict=True)), share


def _power(test: str, effect: Array, n: Array, alpha: float, alternative: str, ratio: float, null: float) -> Array:
    if test == "binomial":
        return _binomial_power(_alternative_share(effect, null), n, alpha, alternative, null)
    if test.startswith("two-sample"):
        # Rounding up what is whole but for the last digit would add a row that nobody asked for.
        second = np.maximum(1.0, np.ceil(ratio * n * (1 - 1e-12)))
        delta, df = effect * np.sqrt(n * (second / (n + second))), n + second - 2
    else:
        delta, df = effect * np.sqrt(n), n - 1
    tail = alpha / 2 if alternative == "two-sided" else alpha
    if test.endswith("z"):
        cut = -special.ndtri(tail)
        upper, lower = special.ndtr(delta - cut), special.ndtr(-delta - cut)
    else:
        quantile = -special.stdtrit(df, tail)
        upper, lower = _noncentral(quantile, df, delta), _noncentral(quantile, df, -delta)
    if alternative == "two-sided":
        return np.minimum(1.0, upper + lower)
    return upper if alternative == "greater" else lower


def _noncentral(t: Array, df: Array, delta: Array) -> Array:
    """P(T > t) for noncentral t, t > 0; T = (Z + delta) / S with S^2 = chi^2(df) / df."""
    from scipy import stats  # slow to load, and only planning a study needs it

    # Beyond 1e4 the series in use loses its way, and Z beside delta moves P(S < (delta + Z) / t) by 1e-8 at most.
    far = np.abs(delta) > 1e4
    value = stats.nct.sf(t, df, np.where(far, 0.0, delta))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        edge = special.chdtr(df, df * np.where(delta > 0, delta / t, 0.0) ** 2)
    return np.where(far, edge, np.clip(value, 0.0, 1.0))


def _alternative_share(effect: Array, null: float) -> Array:
    """The proportion at distance h from the null."""
    centre = np.arcsin(np.sqrt(null))
    angle = centre + effect / 2
    slack = 1e-12
    if np.any((angle < -slack) | (angle > np.pi / 2 + slack)):
        what = (
            f"effect_size lies outside [{-2 * centre:.4g}, {np.pi - 2 * centre:.4g}], the range of h at null = {null:g}"
        )
        raise ParameterError(what, remedy="compute it with cohens_h(p, null)")
    return np.sin(np.clip(angle, 0.0, np.pi / 2)) ** 2


def _binomial_power(share: Array, n: Array, alpha: float, alternative: str, null: float) -> Array:
    low, high = _rejected_counts(n, alpha, alternative, null)
    below = np.where(low >= 0, lower_tail(np.maximum(low, 0), n, share), 0.0)
    above = np.where(high <= n, upper_tail(np.minimum(high, n), n, share), 0.0)
    return np.minimum(1.0, below + above)


def _rejected_counts(n: Array, alpha: float, alternative: str, null: float) -> tuple[Array, Array]:
    """The largest count rejected on the low side (-1: none) and the smallest on the high side (n + 1: none).

    Away from the mean p-values fall on either side, so a search finds each border; no count on the wrong side
    of the mean is rejected.
    """
    low, high = np.full(n.shape, -1.0), n + 1.0
    reach = -special.ndtri(alpha / 2 if alternative == "two-sided" else alpha) * np.sqrt(n * null * (1 - null))
    if alternative != "less":
        start = np.floor(n * null) + 1
        guess = np.ceil(n * null + reach)
        high = first_true(lambda k: binomial_p(k, n, null, alternative) <= alpha, start, n + 1, guess)
    if alternative != "greater":
        # The same search among the failures, n - k.
        start = np.floor(n * (1 - null)) + 1
        guess = np.ceil(n * (1 - null) + reach)
        low = n - first_true(lambda k: binomial_p(n - k, n, null, alternative) <= alpha, start, n + 1, guess)
    return low, high


def _binomial_size(effect: float, target: float, alpha: float, alternative: str, null: float) -> int:
    share = float(_alternative_share(np.array([effect]), null)[0])

    def best_reaches(size: int) -> bool:
        return _best_power(share, size, alpha, null) >= target

    start = _smallest(best_reaches, 1, effect)
    block = 64
    while start < MOST:
        n = np.arange(start, start + block, dtype=float)
        reached = _binomial_power(np.full(n.size, share), n, alpha, alternative, null) >= target
        if reached.any():
            return int(n[int(np.argmax(reached))])
        start, block = start + block, min(2 * block, 4096)
    raise _too_small(effect)


def _best_power(share: float, n: int, alpha: float, null: float) -> float:
    """Power of the most powerful (randomised, one-sided) test of level alpha against this very alternative."""
    from scipy import stats

    p0, p1 = (null, share) if share > null else (1 - null, 1 - share)
    c = float(stats.binom.isf(alpha, n, p0))  # the border count, rejected with the probability that is left over
    size = np.array([float(n)])
    over = np.array([c + 1])
    outside0, outside1 = (float(np.where(over <= n, upper_tail(over, size, p), 0.0)[0]) for p in (p0, p1))
    at0, at1 = float(stats.binom.pmf(c, n, p0)), float(stats.binom.pmf(c, n, p1))
    return outside1 + at1 * min(1.0, max(0.0, (alpha - outside0) / at0)) if at0 > 0 else outside1


def _smallest(enough: Any, least: int, effect: float) -> int:
    """The smallest whole number from `least` on that is enough; what is enough stays enough."""
    low, high = least - 1, least
    while not enough(high):
        low, high = high, 2 * high
        if high > MOST:
            raise _too_small(effect)
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _too_small(effect: float) -> ParameterError:
    return ParameterError(f"effect_size = {effect:g} needs more than {MOST} rows", remedy="plan for a larger effect")
