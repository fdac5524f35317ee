"""Laws of one continuous quantity, many at once: beta, gamma, inverse gamma, normal, Student's t.

Every law answers pdf, logpdf, cdf, sf, ppf, mean, mode, var, std, interval and rvs; parameters are numbers or arrays
with one entry per group. Two kinds of interval of probability L:

    equal-tailed        [Q((1 - L)/2), Q((1 + L)/2)]
    highest-density     the shortest one: f(l) = f(u) with F(u) - F(l) = L, or a tail where the density only falls

Cost: one or two inverse distribution functions per group, shared among the cores; see `_shortest` and `_beta_limits`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import special

from assay.bayes._beta_limits import beta_limits, beta_quantile
from assay.bayes._shortest import shortest
from assay.bayes._stable import log_beta, log_beta_weight, log_gamma_weight
from assay.bayes._validation import count_up, draws, plain
from assay.checks import choice, fraction
from assay.errors import ParameterError
from assay.numbers import fmt
from assay.numerics.seeds import generator
from assay.numerics.threads import parallel
from assay.results import Interval, Result

__all__ = ["KINDS", "Beta", "Gamma", "InverseGamma", "Law", "Normal", "StudentT"]

Array = np.ndarray
KINDS = ("equal-tailed", "highest-density")
BLOCK = 1 << 15
"""Groups per task when limits are shared among the cores."""
WORTH_LOOKING = 5_000
"""From this many groups on, equal ones are looked for first."""


def by_blocks(function: Callable[..., Any], *arrays: Array) -> list[Array]:
    """`function` of slices of the arrays (all of one length), its outcomes put together again."""
    n = arrays[0].size
    starts = range(0, n, BLOCK)
    parts = parallel(lambda s: function(*(a[s : s + BLOCK] for a in arrays)), starts, n_jobs=-1, work=500.0 * n)
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def once_each(function: Callable[..., Any], *arrays: Array) -> list[Array]:
    """`by_blocks`, but what many groups share is worked out once: tables of counts repeat themselves."""
    n = arrays[0].size
    if n < WORTH_LOOKING:
        return by_blocks(function, *arrays)
    codes = np.zeros(n, dtype=np.int64)
    for values in arrays:
        own, found = pd.factorize(values)
        if len(found) > n // 4:
            return by_blocks(function, *arrays)
        codes = pd.factorize(codes * len(found) + own)[0]
    first = np.empty(int(codes.max()) + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(n - 1, -1, -1)
    return [part[codes] for part in by_blocks(function, *(values[first] for values in arrays))]


@dataclass(frozen=True, eq=False, repr=False)
class Law(Result):
    """What all laws share; a law of several groups answers with one entry per group, along the last axis."""

    word: ClassVar[str] = ""
    discrete: ClassVar[bool] = False
    names: tuple[str, ...] = field(default=(), kw_only=True)
    n: Any = field(default=0, kw_only=True)
    quantity: str = field(default="value", kw_only=True)
    manner: str = field(default="credible", kw_only=True)

    def _parameters(self) -> dict[str, Array]:
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.kw_only}

    def _groups(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(value) for value in self._parameters().values()))

    def _at(self, index: Any) -> Self:
        """The law of some of the groups."""
        shape = self._groups()
        return type(self)(*(np.broadcast_to(value, shape)[index] for value in self._parameters().values()))

    # What each law supplies, for arrays that broadcast with its parameters; one that lacks a part says so when asked.

    def _logpdf(self, x: Array) -> Array:
        raise NotImplementedError

    def _cdf(self, x: Array) -> Array:
        raise NotImplementedError

    def _sf(self, x: Array) -> Array:
        raise NotImplementedError

    def _ppf(self, q: Array) -> Array:
        raise NotImplementedError

    def _isf(self, q: Array) -> Array:
        raise NotImplementedError

    def _moments(self) -> tuple[Array, Array, Array]:
        """Mean, mode and variance."""
        raise NotImplementedError

    def _limits(self, level: float, kind: str) -> tuple[Array, Array]:
        tail = np.full(self._groups(), 0.5 * (1.0 - level))
        return self._ppf(tail), self._isf(tail)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        raise NotImplementedError

    # What everyone may ask.

    def logpdf(self, x: Any) -> Any:
        """Logarithm of the density at x."""
        return plain(self._logpdf(_points(x)))

    def pdf(self, x: Any) -> Any:
        """The density at x."""
        return plain(np.exp(self._logpdf(_points(x))))

    def cdf(self, x: Any) -> Any:
        """P(value <= x)."""
        return plain(self._cdf(_points(x)))

    def sf(self, x: Any) -> Any:
        """P(value > x), without the loss of 1 - cdf."""
        return plain(self._sf(_points(x)))

    def ppf(self, q: Any) -> Any:
        """The quantile of order q in [0, 1]."""
        return plain(self._ppf(_orders(q)))

    @property
    def mean(self) -> Any:
        """The mean; NaN or infinite where there is none."""
        return plain(self._moments()[0])

    @property
    def mode(self) -> Any:
        """Where the density is largest; NaN where no single point is."""
        return plain(self._moments()[1])

    @property
    def var(self) -> Any:
        """The variance; NaN or infinite where there is none."""
        return plain(self._moments()[2])

    @property
    def std(self) -> Any:
        """The standard deviation."""
        return plain(np.sqrt(self._moments()[2]))

    def interval(self, level: float = 0.95, kind: str = "equal-tailed") -> Interval:
        """An interval of the given probability around the mean, equal-tailed or highest-density (shortest)."""
        level, kind = fraction(level, "level"), choice(kind, "kind", KINDS)
        low, high = self._limits(level, kind)
        estimate = np.broadcast_to(self._moments()[0], low.shape)
        names = self.names or (count_up(low.size) if low.ndim else ())
        n = self.n if np.ndim(self.n) == 0 else np.asarray(self.n)
        method = f"{self.manner} ({kind})"
        return Interval(plain(estimate), plain(low), plain(high), level, method, n, self.quantity, names)

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: Any = None) -> Any:
        """Independent draws: `size` of them along the first axis, per group; None: one."""
        shape = draws(size)
        out = self._draw(generator(random_state), shape + self._groups())
        return out.item() if out.ndim == 0 else out

    def to_frame(self) -> pd.DataFrame:
        """One row per group: parameters, mean, mode, standard deviation and 95% equal-tailed limits."""
        shape = self._groups()
        mean, mode, var = self._moments()
        low, high = self._limits(0.95, "equal-tailed")
        columns = self._parameters() | {"mean": mean, "mode": mode, "std": np.sqrt(var), "lower": low, "upper": high}
        table = {name: np.broadcast_to(value, shape).reshape(-1) for name, value in columns.items()}
        return pd.DataFrame(table, index=list(self.names) or (None if shape else [self.quantity]))

    def __str__(self) -> str:
        shape = self._groups()
        if shape:
            return f"{self.word} laws of {self.quantity}, {shape[0]} groups\n{self.to_frame().head(10).to_string()}"
        inside = ", ".join(f"{name} = {fmt(float(value), 6)}" for name, value in self._parameters().items())
        mean, mode, var = (float(value) for value in self._moments())
        words = "none" if np.isnan(mode) else fmt(mode, 6)
        return f"{self.quantity} ~ {self.word}({inside}): mean {fmt(mean, 6)}, mode {words}, std {fmt(np.sqrt(var), 6)}"


def _points(x: Any) -> Array:
    return np.asarray(x, dtype=np.float64)


def _orders(q: Any) -> Array:
    values = np.asarray(q, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ParameterError("q contains a number outside [0, 1]", remedy="pass probabilities")
    return values


@dataclass(frozen=True, eq=False, repr=False)
class Beta(Law):
    """Density x^(a-1) (1-x)^(b-1) / B(a, b) on [0, 1]."""

    word: ClassVar[str] = "Beta"
    a: Any
    b: Any

    def _logpdf(self, x: Array) -> Array:
        a, b, x = np.broadcast_arrays(self.a, self.b, x)
        inside = (x > 0) & (x < 1)
        z = np.where(inside, x, 0.5)
        out = log_beta_weight(a, b, z, 1.0 - z) - np.log(z) - np.log1p(-z)
        at_end = np.where(x == 0, a, b)  # the exponent that decides at this end
        other = np.where(x == 0, b, a)
        with np.errstate(divide="ignore"):
            end = np.where(at_end < 1, np.inf, np.where(at_end == 1, np.log(other), -np.inf))
        return np.where(inside, out, np.where((x == 0) | (x == 1), end, np.where(np.isnan(x), np.nan, -np.inf)))

    def _cdf(self, x: Array) -> Array:
        return special.betainc(self.a, self.b, np.clip(x, 0.0, 1.0))

    def _sf(self, x: Array) -> Array:
        return special.betaincc(self.a, self.b, np.clip(x, 0.0, 1.0))

    def _ppf(self, q: Array) -> Array:
        return beta_quantile(self.a, self.b, q)

    def _isf(self, q: Array) -> Array:
        return special.betainccinv(self.a, self.b, q)

    def _moments(self) -> tuple[Array, Array, Array]:
        a, b = np.broadcast_arrays(self.a, self.b)
        s = a + b
        share = a / s
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = (a - 1.0) / ((a - 1.0) + (b - 1.0))
        mode = np.where((a > 1) & (b > 1), inner, np.nan)
        mode = np.where((a <= 1) & (b >= 1) & (a < b), 0.0, mode)
        mode = np.where((b <= 1) & (a >= 1) & (b < a), 1.0, mode)
        return share, mode, share * (b / s) / (s + 1.0)

    def _limits(self, level: float, kind: str) -> tuple[Array, Array]:
        a, b = np.broadcast_arrays(self.a, self.b)
        short = kind == "highest-density"
        flat = [np.ascontiguousarray(part, dtype=np.float64).reshape(-1) for part in (a, b)]
        low, high = once_each(lambda a, b: beta_limits(a, b, level, short), *flat)
        return low.reshape(a.shape), high.reshape(a.shape)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(rng.beta(self.a, self.b, shape))


@dataclass(frozen=True, eq=False, repr=False)
class Gamma(Law):
    """Density rate^shape x^(shape-1) e^(-rate x) / Gamma(shape) on x > 0."""

    word: ClassVar[str] = "Gamma"
    shape: Any
    rate: Any

    def _logpdf(self, x: Array) -> Array:
        shape, rate, x = np.broadcast_arrays(self.shape, self.rate, x)
        inside = x > 0
        z = np.where(inside, x, 1.0)
        out = log_gamma_weight(shape, rate * z) - np.log(z)
        end = np.where(shape < 1, np.inf, np.where(shape == 1, np.log(rate), -np.inf))
        return np.where(inside, out, np.where(x == 0, end, np.where(np.isnan(x), np.nan, -np.inf)))

    def _cdf(self, x: Array) -> Array:
        return special.gammainc(self.shape, np.asarray(self.rate) * np.maximum(x, 0.0))

    def _sf(self, x: Array) -> Array:
        return special.gammaincc(self.shape, np.asarray(self.rate) * np.maximum(x, 0.0))

    def _ppf(self, q: Array) -> Array:
        return special.gammaincinv(self.shape, q) / self.rate

    def _isf(self, q: Array) -> Array:
        return special.gammainccinv(self.shape, q) / self.rate

    def _moments(self) -> tuple[Array, Array, Array]:
        shape, rate = np.broadcast_arrays(self.shape, self.rate)
        mean = shape / rate
        return mean, np.maximum(shape - 1.0, 0.0) / rate, mean / rate

    def _limits(self, level: float, kind: str) -> tuple[Array, Array]:
        shape, rate = np.broadcast_arrays(self.shape, self.rate)
        # The rate is a unit: limits are found for rate 1 and divided.
        low, high = once_each(
            lambda k: _gamma_limits(k, level, kind), np.ascontiguousarray(shape, dtype=np.float64).reshape(-1)
        )
        return low.reshape(shape.shape) / rate, high.reshape(shape.shape) / rate

    def _slope(self, x: Array) -> Array:
        return (self.shape - 1.0) / x - self.rate

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(rng.standard_gamma(self.shape, shape) / self.rate)


def _gamma_limits(k: Array, level: float, kind: str) -> tuple[Array, Array]:
    tail = 0.5 * (1.0 - level)
    low, high = special.gammaincinv(k, tail), special.gammainccinv(k, tail)
    if kind == "equal-tailed":
        return low, high
    falls = k <= 1
    if falls.any():
        low[falls], high[falls] = 0.0, special.gammaincinv(k[falls], level)
    rest = np.flatnonzero(~falls)
    if rest.size:
        low[rest], high[rest] = shortest(Gamma(k[rest], np.ones(rest.size)), low[rest], high[rest], level)
    return low, high


@dataclass(frozen=True, eq=False, repr=False)
class InverseGamma(Law):
    """The law of 1/x for x ~ Gamma(shape, rate): density rate^shape x^(-shape-1) e^(-rate/x) / Gamma(shape)."""

    word: ClassVar[str] = "InverseGamma"
    shape: Any
    rate: Any

    def _logpdf(self, x: Array) -> Array:
        shape, rate, x = np.broadcast_arrays(self.shape, self.rate, x)
        inside = x > 0
        z = np.where(inside, x, 1.0)
        out = log_gamma_weight(shape, rate / z) - np.log(z)
        return np.where(inside, out, np.where(np.isnan(x), np.nan, -np.inf))

    def _cdf(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return special.gammaincc(self.shape, np.asarray(self.rate) / np.maximum(x, 0.0))

    def _sf(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return special.gammainc(self.shape, np.asarray(self.rate) / np.maximum(x, 0.0))

    def _ppf(self, q: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(self.rate) / special.gammainccinv(self.shape, q)

    def _isf(self, q: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(self.rate) / special.gammaincinv(self.shape, q)

    def _moments(self) -> tuple[Array, Array, Array]:
        shape, rate = np.broadcast_arrays(self.shape, self.rate)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(shape > 1, rate / (shape - 1.0), np.inf)
            var = np.where(shape > 2, (rate / (shape - 1.0)) ** 2 / (shape - 2.0), np.inf)
        return mean, rate / (shape + 1.0), np.where(shape > 1, var, np.nan)

    def _limits(self, level: float, kind: str) -> tuple[Array, Array]:
        shape, rate = np.broadcast_arrays(self.shape, self.rate)
        k = np.ascontiguousarray(shape, dtype=np.float64).reshape(-1)
        unit = InverseGamma(k, np.ones(k.size))
        tail = np.full(k.size, 0.5 * (1.0 - level))
        low, high = unit._ppf(tail), unit._isf(tail)
        if kind == "highest-density":
            low, high = shortest(unit, low, high, level)
        return low.reshape(shape.shape) * rate, high.reshape(shape.shape) * rate

    def _slope(self, x: Array) -> Array:
        return -(self.shape + 1.0) / x + self.rate / x**2

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.rate / rng.standard_gamma(self.shape, shape))


@dataclass(frozen=True, eq=False, repr=False)
class Normal(Law):
    """Density exp(-(x - location)^2 / (2 variance)) / sqrt(2 pi variance)."""

    word: ClassVar[str] = "Normal"
    location: Any
    variance: Any

    def _standard(self, x: Array) -> Array:
        return (x - self.location) / np.sqrt(self.variance)

    def _logpdf(self, x: Array) -> Array:
        return -0.5 * self._standard(x) ** 2 - 0.5 * np.log(2 * np.pi * np.asarray(self.variance))

    def _cdf(self, x: Array) -> Array:
        return special.ndtr(self._standard(x))

    def _sf(self, x: Array) -> Array:
        return special.ndtr(-self._standard(x))

    def _ppf(self, q: Array) -> Array:
        return self.location + np.sqrt(self.variance) * special.ndtri(q)

    def _isf(self, q: Array) -> Array:
        return self.location - np.sqrt(self.variance) * special.ndtri(q)

    def _moments(self) -> tuple[Array, Array, Array]:
        location, variance = np.broadcast_arrays(self.location, self.variance)
        return location, location, variance

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.location + np.sqrt(self.variance) * rng.standard_normal(shape))


@dataclass(frozen=True, eq=False, repr=False)
class StudentT(Law):
    """Student's t with `df` degrees of freedom, moved to `location` and stretched by sqrt(scale2)."""

    word: ClassVar[str] = "StudentT"
    df: Any
    location: Any
    scale2: Any

    def _standard(self, x: Array) -> Array:
        return (x - self.location) / np.sqrt(self.scale2)

    def _logpdf(self, x: Array) -> Array:
        df = np.asarray(self.df)
        head = -log_beta(0.5 * df, 0.5) - 0.5 * np.log(df) - 0.5 * np.log(self.scale2)
        return head - 0.5 * (df + 1.0) * np.log1p(self._standard(x) ** 2 / df)

    def _cdf(self, x: Array) -> Array:
        return special.stdtr(self.df, self._standard(x))

    def _sf(self, x: Array) -> Array:
        return special.stdtr(self.df, -self._standard(x))

    def _ppf(self, q: Array) -> Array:
        return self.location + np.sqrt(self.scale2) * special.stdtrit(self.df, q)

    def _isf(self, q: Array) -> Array:
        return self.location - np.sqrt(self.scale2) * special.stdtrit(self.df, q)

    def _moments(self) -> tuple[Array, Array, Array]:
        df, location, scale2 = np.broadcast_arrays(self.df, self.location, self.scale2)
        with np.errstate(divide="ignore", invalid="ignore"):
            var = np.where(df > 2, scale2 * (df / (df - 2.0)), np.where(df > 1, np.inf, np.nan))
        return np.where(df > 1, location, np.nan), location, var

    def interval(self, level: float = 0.95, kind: str = "equal-tailed") -> Interval:
        """An interval of the given probability around the location; symmetric, so both kinds are one."""
        found = super().interval(level, kind)
        centre = np.broadcast_to(self.location, self._groups())
        return Interval(plain(centre), *(getattr(found, f.name) for f in fields(found)[1:]))

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        df, scale2 = np.asarray(self.df), np.asarray(self.scale2)
        noise = rng.standard_normal(shape) / np.sqrt(rng.standard_gamma(0.5 * df, shape) / (0.5 * df))
        return np.asarray(self.location + np.sqrt(scale2) * noise)
