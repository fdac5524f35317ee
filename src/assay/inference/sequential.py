"""Looking at data as they come: how much peeking costs, and how to look as often as one likes.

The danger. A z-test at level alpha repeated at K equally spaced looks rejects a true null far more often than alpha:
.142 at 5 looks and .374 at 100 for alpha = .05. `peeking` works this out exactly.

The cure. `confidence_sequence`: intervals C_1, C_2, ... with P(mu in C_n for all n) >= 1 - alpha, so that one may stop
at any moment for any reason. `e_process`: evidence E_n against a null with E[E_tau] <= 1 at every stopping time; by
Ville's inequality 1 / max_{i<=n} E_i is a p-value that holds at all times. `alpha_spending`: boundaries for planned
looks.

    normal      E_n = (1 + n t^2)^(-1/2) exp(t^2 S_n^2 / (2 (1 + n t^2))),     S_n = sum (x_i - mu) / sigma
    betting     E_n = 1/2 prod (1 + l_i (x_i - mu)) + 1/2 prod (1 - l_i (x_i - mu)),     x in [0, 1],
                l_i = sqrt(2 log(2/alpha) / (v_{i-1} i log(1 + i))), kept below 1/2 over the largest possible loss
    bernstein   sum l_i x_i / sum l_i -+ (log(2/alpha) + sum 4 (x_i - m_{i-1})^2 psi(l_i)) / sum l_i

where m and v are running estimates that use the past only. Cost: O(n).
Robbins (1970), Ann. Math. Statist. 41, 1397-1409; Waudby-Smith & Ramdas (2024), JRSS B 86, 1-27;
Armitage, McPherson & Rowe (1969), JRSS A 132, 235-244; Lan & DeMets (1983), Biometrika 70, 659-663.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.checks import ALTERNATIVES, choice, fraction, freeze, number, sample, whole
from assay.errors import DataError, ParameterError
from assay.inference._spending import Peeking, SpendingPlan, alpha_spending, peeking
from assay.numerics.jit import kernel
from assay.results import Interval, Result, format_p

__all__ = [
    "ConfidenceSequence",
    "EProcess",
    "Peeking",
    "SpendingPlan",
    "alpha_spending",
    "confidence_sequence",
    "e_process",
    "peeking",
]

Array = np.ndarray
SEQUENCES = ("bounded", "normal")
BOUNDED = ("betting", "bernstein")


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceSequence(Result):
    """Intervals for a mean after every observation, all of them right at once with chance `level`.

    Entry i of `estimate`, `lower` and `upper` speaks of the first i + 1 observations; limits only ever tighten.
    """

    estimate: Array
    lower: Array
    upper: Array
    level: float
    method: str
    assumptions: tuple[str, ...]

    @property
    def n(self) -> int:
        """How many observations it has seen."""
        return int(self.estimate.size)

    def interval(self, n: int | None = None) -> Interval:
        """The interval after n observations; without n the last one."""
        n = self.n if n is None else whole(n, "n")
        if n > self.n:
            raise ParameterError(f"n = {n} is more than the {self.n} observations seen", remedy="lower n")
        limits = (float(self.estimate[n - 1]), float(self.lower[n - 1]), float(self.upper[n - 1]))
        return Interval(*limits, self.level, f"{self.method} anytime", n, "mean")

    def to_frame(self) -> pd.DataFrame:
        """One row per number of observations."""
        index = pd.RangeIndex(1, self.n + 1, name="n")
        return pd.DataFrame({"estimate": self.estimate, "lower": self.lower, "upper": self.upper}, index=index)

    def __str__(self) -> str:
        return f"{self.interval()}\nAssumes: {'; '.join(self.assumptions)}."

    def _repr_html_(self) -> str:
        return self.to_frame().iloc[np.unique(np.geomspace(1, self.n, 20).astype(int)) - 1].to_html()


def confidence_sequence(
    x: Any,
    *,
    kind: str = "bounded",
    method: str | None = None,
    level: float = 0.95,
    low: float = 0.0,
    high: float = 1.0,
    sigma: float | None = None,
    n_tight: int | None = None,
) -> ConfidenceSequence:
    """Intervals for the mean that hold at all times together, however one decides to stop.

    | parameter | default   | range                  | meaning                                                    |
    |-----------|-----------|------------------------|------------------------------------------------------------|
    | x         |           | one column             | observations in the order they came                        |
    | kind      | "bounded" | "bounded", "normal"    | values in [low, high], or (sub-)normal with known sigma    |
    | method    | None      | "betting", "bernstein" | bounded values: None means betting                         |
    | level     | 0.95      | (0, 1)                 | chance that no interval ever misses                        |
    | low, high | 0, 1      | low < high             | bounds that every value respects, known beforehand         |
    | sigma     | None      | above 0                | the known standard deviation (kind "normal")               |
    | n_tight   | None      | whole, at least 1      | where a normal sequence is tightest (None: 100); choose it |
    |           |           |                        | before the data are seen                                   |

    Waudby-Smith & Ramdas (2024), JRSS B 86, 1-27; Robbins (1970), Ann. Math. Statist. 41, 1397-1409.

    >>> coin = np.random.default_rng(0).integers(0, 2, 1000)
    >>> print(confidence_sequence(coin).interval())
    mean 0.537 [0.486, 0.612] (95% betting anytime interval, n = 1,000)
    """
    choice(kind, "kind", SEQUENCES)
    if method is not None:
        choice(method, "method", BOUNDED)
    alpha = 1 - fraction(level, "level")
    values = _stream(x)
    count = np.arange(1, values.size + 1)
    if kind == "normal":
        _unbounded(low, high, method)
        spread, variance = _normal_setting(sigma, n_tight, alpha)
        mean = _running_mean(values)
        grown = 1 + count * variance
        radius = spread * np.sqrt(grown / variance * (np.log(grown) - 2 * np.log(alpha))) / count
        lower, upper = np.maximum.accumulate(mean - radius), np.minimum.accumulate(mean + radius)
        words: tuple[str, ...] = ("each value is normal (or sub-Gaussian) around the mean with the known sigma",)
        return _sequence(mean, lower, upper, level, "normal mixture", words)
    low, span = _bounds(low, high, n_tight, sigma)
    z = _unit(values, low, span)
    bets = _bets(z, alpha)
    if method == "bernstein":
        lower, upper = _bernstein(z, bets, alpha)
    else:
        cells = 1000 + int(32 * np.sqrt(z.size))
        lower, upper = np.empty(z.size), np.empty(z.size)
        betting_limits(z, bets, np.log(2 / alpha), np.zeros((2, cells + 1)), lower, upper)
    words = (f"every value lies in [{low:g}, {low + span:g}] and has the same mean given the past",)
    title = "empirical Bernstein" if method == "bernstein" else "betting"
    return _sequence(low + span * _running_mean(z), low + span * lower, low + span * upper, level, title, words)


@dataclass(frozen=True, eq=False, repr=False)
class EProcess(Result):
    """Evidence against a null after every observation: `e_values[i]` after i + 1 of them.

    Stop whenever `e_values` reaches 1/alpha, for any reason: a true null gets there with chance at most alpha.
    `p_values` are 1 over the largest e-value so far, valid at all times together.
    """

    log_e: Array
    null: float
    method: str
    alternative: str
    assumptions: tuple[str, ...]

    @property
    def n(self) -> int:
        """How many observations it has seen."""
        return int(self.log_e.size)

    @property
    def e_values(self) -> Array:
        """E_n; beyond the range of floating point, infinity (`log_e` keeps it)."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_e)

    @property
    def p_values(self) -> Array:
        """min(1, 1 / max_{i<=n} E_i)."""
        return np.exp(-np.maximum(0.0, np.maximum.accumulate(self.log_e)))

    @property
    def p_value(self) -> float:
        """The p-value now."""
        return float(self.p_values[-1])

    def rejected_at(self, alpha: float = 0.05) -> int | None:
        """After how many observations the null is first rejected at level alpha; None: not yet."""
        crossed = np.flatnonzero(self.log_e >= -np.log(fraction(alpha, "alpha")))
        return int(crossed[0]) + 1 if crossed.size else None

    def to_frame(self) -> pd.DataFrame:
        """One row per number of observations."""
        index = pd.RangeIndex(1, self.n + 1, name="n")
        return pd.DataFrame({"e_value": self.e_values, "p_value": self.p_values}, index=index)

    def __str__(self) -> str:
        at = self.rejected_at(0.05)
        verdict = "not rejected at level 0.05" if at is None else f"rejected at level 0.05 after {at} observations"
        return (
            f"{self.method} e-process, null mean = {self.null:g}, alternative: {self.alternative}, n = {self.n}\n"
            f"e-value {self.e_values[-1]:.4g}, anytime p = {format_p(self.p_value)}, {verdict}\n"
            f"Assumes: {'; '.join(self.assumptions)}."
        )

    def _repr_html_(self) -> str:
        return self.to_frame().iloc[np.unique(np.geomspace(1, self.n, 20).astype(int)) - 1].to_html()


def e_process(
    x: Any,
    popmean: float,
    *,
    kind: str = "bounded",
    alternative: str = "two-sided",
    low: float = 0.0,
    high: float = 1.0,
    sigma: float | None = None,
    n_tight: int | None = None,
    alpha: float = 0.05,
) -> EProcess:
    """Evidence against a mean that may be read after every observation: e-values and anytime-valid p-values.

    | parameter   | default     | range                          | meaning                                           |
    |-------------|-------------|--------------------------------|---------------------------------------------------|
    | x           |             | one column                     | observations in the order they came               |
    | popmean     |             | within the bounds              | the mean under the null                           |
    | kind        | "bounded"   | "bounded", "normal"            | values in [low, high], or normal with known sigma |
    | alternative | "two-sided" | "two-sided", "less", "greater" | where the truth lies if the null is false         |
    | low, high   | 0, 1        | low < high                     | bounds that every value respects                  |
    | sigma       | None        | above 0                        | the known standard deviation (kind "normal")      |
    | n_tight     | None        | whole, at least 1              | sample size that the normal mixture is tuned for  |
    | alpha       | 0.05        | (0, 1)                         | level that the bets are tuned for; valid at all   |

    Ville (1939); Waudby-Smith & Ramdas (2024), JRSS B 86, 1-27.

    >>> coin = np.random.default_rng(0).random(300) < 0.7
    >>> e_process(coin, 0.5).rejected_at(0.05) < 300
    True
    """
    choice(kind, "kind", SEQUENCES)
    choice(alternative, "alternative", ALTERNATIVES)
    alpha = fraction(alpha, "alpha")
    null = number(popmean, "popmean")
    values = _stream(x)
    if kind == "normal":
        _unbounded(low, high, None)
        spread, variance = _normal_setting(sigma, n_tight, alpha)
        log_e = _mixture((values - null) / spread, variance, alternative)
        words: tuple[str, ...] = ("each value is normal (or sub-Gaussian) around the mean with the known sigma",)
        return EProcess(freeze(log_e), null, "Normal mixture", alternative, words)
    low, span = _bounds(low, high, n_tight, sigma)
    mean = (null - low) / span
    if not 0 < mean < 1:
        raise ParameterError(f"popmean = {null:g} is not inside ({low:g}, {low + span:g})", remedy="correct popmean")
    z = _unit(values, low, span)
    bets = _bets(z, alpha)
    up = np.cumsum(np.log1p(np.minimum(bets, 0.5 / mean) * (z - mean)))
    down = np.cumsum(np.log1p(-np.minimum(bets, 0.5 / (1 - mean)) * (z - mean)))
    both = np.logaddexp(up, down) - np.log(2)
    log_e = {"two-sided": both, "greater": up, "less": down}[alternative]
    words = (f"every value lies in [{low:g}, {low + span:g}] and has the same mean given the past",)
    return EProcess(freeze(log_e), null, "Betting", alternative, words)


def _stream(x: Any) -> Array:
    values, names = sample(x, "x")
    if len(names) > 1:
        raise DataError(f"x has {len(names)} columns", remedy="pass one column")
    return np.ascontiguousarray(values[:, 0])


def _running_mean(values: Array) -> Array:
    """Means of the first n values, centred on the first so that large offsets cost no digits."""
    return values[0] + np.cumsum(values - values[0]) / np.arange(1, values.size + 1)


def _sequence(
    mean: Array, lower: Array, upper: Array, level: float, method: str, assumptions: tuple[str, ...]
) -> ConfidenceSequence:
    return ConfidenceSequence(freeze(mean), freeze(lower), freeze(upper), float(level), method, assumptions)


def _unbounded(low: Any, high: Any, method: Any) -> None:
    if (low, high) != (0.0, 1.0) or method is not None:
        raise ParameterError("low, high and method apply to kind='bounded' only", remedy="drop them or change kind")


def _bounds(low: Any, high: Any, n_tight: Any, sigma: Any) -> tuple[float, float]:
    low, high = number(low, "low"), number(high, "high")
    if not low < high:
        raise ParameterError(f"low = {low:g} is not below high = {high:g}", remedy="correct the bounds")
    for value, name in ((n_tight, "n_tight"), (sigma, "sigma")):
        if value is not None:
            raise ParameterError(f"{name} applies to kind='normal' only", remedy=f"drop {name} or change kind")
    return low, high - low


def _unit(values: Array, low: float, span: float) -> Array:
    outside = (values < low) | (values > low + span)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        what = f"x contains {values[row]:g} in row {row}, outside [{low:g}, {low + span:g}]"
        raise DataError(what, remedy="pass bounds low and high that hold for every value")
    return np.clip((values - low) / span, 0.0, 1.0)


def _normal_setting(sigma: Any, n_tight: Any, alpha: float) -> tuple[float, float]:
    """Sigma, and the mixture's variance that makes the sequence tightest after `n_tight` observations."""
    if sigma is None:
        raise ParameterError("a normal sequence needs the known standard deviation", remedy="pass sigma")
    spread = number(sigma, "sigma", 0, strict=True)
    best = 100 if n_tight is None else whole(n_tight, "n_tight")
    # The radius at n is smallest where log(1 + u) + 2 log(1/alpha) = u, u = n t^2: Lambert's W.
    u = -float(special.lambertw(-(alpha**2) / np.e, -1).real) - 1
    return spread, u / best


def _mixture(z: Array, variance: float, alternative: str) -> Array:
    """log of the likelihood ratio mixed over N(0, t^2), or over its half on the side of the alternative."""
    total = np.cumsum(z)
    grown = 1 + np.arange(1, z.size + 1) * variance
    log_e = 0.5 * variance * total**2 / grown - 0.5 * np.log(grown)
    if alternative == "two-sided":
        return log_e
    sign = 1.0 if alternative == "greater" else -1.0
    return log_e + np.log(2) + special.log_ndtr(sign * total * np.sqrt(variance / grown))


def _bets(z: Array, alpha: float) -> Array:
    """l_i = sqrt(2 log(2/alpha) / (v_{i-1} i log(1 + i))) from the past alone."""
    i = np.arange(1, z.size + 1)
    mean = (0.5 + np.cumsum(z)) / (i + 1)
    variance = (0.25 + np.cumsum((z - mean) ** 2)) / (i + 1)
    before = np.concatenate([[0.25], variance[:-1]])
    return np.sqrt(2 * np.log(2 / alpha) / (before * i * np.log1p(i)))


def _bernstein(z: Array, bets: Array, alpha: float) -> tuple[Array, Array]:
    i = np.arange(1, z.size + 1)
    before = np.concatenate([[0.5], (0.5 + np.cumsum(z)[:-1]) / i[1:]])
    bet = np.minimum(bets, 0.5)
    psi = (-np.log1p(-bet) - bet) / 4
    total = np.cumsum(bet)
    centre = np.cumsum(bet * z) / total
    radius = (np.log(2 / alpha) + np.cumsum(4 * (z - before) ** 2 * psi)) / total
    lower = np.maximum.accumulate(np.maximum(0.0, centre - radius))
    return lower, np.minimum.accumulate(np.minimum(1.0, centre + radius))


@kernel
def betting_limits(z: Array, bets: Array, bar: float, wealth: Array, lower: Array, upper: Array) -> None:
    """Means on a grid are given up one by one as the bet against them has won enough (log wealth above `bar`).

    The bet "the mean is above m" wins less the larger m is, so what is given up from below is an interval, and the same
    from above; the limits are the last grid points given up, which errs by less than a cell, to the safe side.
    """
    cells = wealth.shape[1] - 1
    first, last = 1, cells - 1  # means still standing; 0 and 1 themselves are never bet against
    for i in range(z.size):
        for side in range(2):
            for g in range(first, last + 1):
                m = g / cells
                loss = m if side == 0 else 1.0 - m
                gain = z[i] - m if side == 0 else m - z[i]
                wealth[side, g] += np.log1p(min(bets[i], 0.5 / loss) * gain)
        while first <= last and wealth[0, first] >= bar:
            first += 1
        while last >= first and wealth[1, last] >= bar:
            last -= 1
        lower[i] = (first - 1) / cells
        upper[i] = (last + 1) / cells
