"""Laws of counts that are still to come: beta-binomial, negative binomial, Dirichlet-multinomial.

    beta-binomial          C(n, k) B(a + k, b + n - k) / B(a, b),                         k = 0, ..., n
    negative binomial      Gamma(r + k) / (Gamma(r) k!) p^r (1 - p)^k,                      k = 0, 1, ...
    Dirichlet-multinomial  n! Gamma(A) / Gamma(A + n) prod_j Gamma(alpha_j + k_j) / (Gamma(alpha_j) k_j!), A = sum alpha

Probabilities are put together from terms that keep their digits at any count (see `_stable`): with the
posterior mean t as expansion point, the first is Bin(k; n, t) Beta(t; a, b) / Beta(t; a + k, b + n - k), and no large
numbers cancel. P(K <= k) of the first is a sum up to a hundred thousand trials and beyond that the integral
P(T >= theta), T ~ Beta(k + 1, n - k), over whichever of the two is narrower. Johnson, Kemp and Kotz (2005),
Univariate Discrete Distributions, sections 5.1 and 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special

from assay.bayes._stable import log_beta_weight, log_gamma_weight, log_poisson
from assay.bayes._validation import count_up, draws, plain
from assay.bayes.laws import Beta, Law
from assay.checks import fraction
from assay.errors import DataError
from assay.numerics.jit import kernel
from assay.numerics.seeds import generator
from assay.results import Interval, Result

__all__ = [
    "BetaBinomialLaw",
    "CountLaw",
    "DirichletMultinomialLaw",
    "NegativeBinomialLaw",
    "cross",
    "draw_dirichlet",
    "log_beta_binomial",
    "log_dirichlet_multinomial",
    "log_negative_binomial",
]

Array = np.ndarray
SUMMED = 100_000
"""Up to this many trials a distribution function is summed."""
NODES = 240
FAR = 1e-18


class CountLaw(Law):
    """A law of whole numbers: `pmf` in place of `pdf`."""

    discrete: ClassVar[bool] = True

    def logpmf(self, k: Any) -> Any:
        """Logarithm of P(K = k); -inf where k is no possible count."""
        return plain(self._logpdf(np.asarray(k, dtype=np.float64)))

    def pmf(self, k: Any) -> Any:
        """P(K = k)."""
        return plain(np.exp(self._logpdf(np.asarray(k, dtype=np.float64))))

    def _most(self) -> Array:
        """A count that the law does not exceed, or exceeds with a negligible chance."""
        raise NotImplementedError

    def _ppf(self, q: Array) -> Array:
        """The smallest k with P(K <= k) >= q, by bisection."""
        q = np.broadcast_to(q, np.broadcast_shapes(np.shape(q), self._groups()))
        no, yes = np.full(q.shape, -1.0), np.broadcast_to(self._most(), q.shape).astype(np.float64)
        low = q < 0.5
        while (yes - no > 1).any():
            k = np.floor(0.5 * (no + yes))
            # The smaller tail decides: the other is rounded.
            reached = np.where(low, self._cdf(k) >= q, self._sf(k) <= 1.0 - q)
            yes, no = np.where(reached, k, yes), np.where(reached, no, k)
        return np.where(q == 0, 0.0, yes)

    # Counts have no density to be highest, so there is no `kind` to choose.
    def interval(self, level: float = 0.95) -> Interval:  # type: ignore[override]
        """Equal-tailed limits: at most (1 - level)/2 beyond each, so the probability inside is at least `level`."""
        return replace(super().interval(level, "equal-tailed"), method="predictive (equal-tailed)")

    def _isf(self, q: Array) -> Array:
        return self._ppf(1.0 - q)


@dataclass(frozen=True, eq=False, repr=False)
class BetaBinomialLaw(CountLaw):
    """Successes in `trials` trials whose chance is drawn from Beta(a, b) once."""

    word: ClassVar[str] = "BetaBinomial"
    trials: Any
    a: Any
    b: Any

    def _logpdf(self, x: Array) -> Array:
        m, a, b, k = np.broadcast_arrays(self.trials, self.a, self.b, x)
        possible = (k >= 0) & (k <= m) & (k == np.floor(k))
        return np.where(possible, log_beta_binomial(np.where(possible, k, 0.0), m, a, b), -np.inf)

    def _cdf(self, x: Array) -> Array:
        return self._tails(x, upper=False)

    def _sf(self, x: Array) -> Array:
        return self._tails(x, upper=True)

    def _tails(self, x: Array, upper: bool) -> Array:
        m, a, b, k = np.broadcast_arrays(self.trials, self.a, self.b, np.floor(x))
        shape = k.shape
        m, a, b, k = (np.array(part, dtype=np.float64).reshape(-1) for part in (m, a, b, k))
        out = np.where(k >= m, 0.0, 1.0) if upper else np.where(k >= m, 1.0, 0.0)
        out[np.isnan(k)] = np.nan
        inside = np.flatnonzero((k >= 0) & (k < m))
        few = inside[m[inside] <= SUMMED]
        if few.size:
            out[few] = _summed(k[few], m[few], a[few], b[few], upper)
        many = inside[m[inside] > SUMMED]
        if many.size:
            out[many] = _integral(k[many], m[many], a[many], b[many], upper)
        return np.minimum(out, 1.0).reshape(shape)

    def _most(self) -> Array:
        return np.asarray(self.trials, dtype=np.float64)

    def _moments(self) -> tuple[Array, Array, Array]:
        m, a, b = np.broadcast_arrays(self.trials, self.a, self.b)
        mean, mode, var = Beta(a, b)._moments()
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.floor((m + 1.0) * ((a - 1.0) / (a + b - 2.0)))
        peak = np.where((a > 1) & (b > 1), np.clip(inner, 0.0, m), m * mode)
        two = (a < 1) & (b < 1) & (a != b)  # two peaks, the higher one at the end of the larger parameter
        peak = np.where(two, np.where(a > b, m, 0.0), peak)
        return m * mean, peak, m * (var * (a + b + m))

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.binomial(np.asarray(self.trials, dtype=np.int64), rng.beta(self.a, self.b, shape))


def log_beta_binomial(k: Array, m: Array, a: Array, b: Array) -> Array:
    """log of C(m, k) B(a + k, b + m - k) / B(a, b)."""
    s = a + b + m
    x, y = (a + k) / s, (b + (m - k)) / s
    binomial = log_poisson(k, m * x) + log_poisson(m - k, m * y) - log_poisson(m, m)
    return binomial + log_beta_weight(a, b, x, y) - log_beta_weight(a + k, b + (m - k), x, y)


def _summed(k: Array, m: Array, a: Array, b: Array, upper: bool) -> Array:
    """P(K > k) or P(K <= k), always from the tail on k's side of the mean; the upper one in the mirrored law."""
    right = k * (a + b) > m * a
    j, c, d = np.where(right, m - k - 1.0, k), np.where(right, b, a), np.where(right, a, b)
    tail = np.exp(log_beta_binomial(j, m, c, d))
    _add_down(j, m, c, d, tail)
    return np.where(right == upper, tail, 1.0 - tail)


@kernel
def _add_down(K: Array, M: Array, A: Array, B: Array, out: Array) -> None:
    """From P(K = k) in `out` to P(K <= k), each term from the one above it.

    A first term that has underflowed leaves nothing to go down from: the tail is below 1e-300.
    """
    for i in range(K.size):
        m, a, b = M[i], A[i], B[i]
        term = total = out[i]
        j = K[i]
        while j > 0.0:
            term *= j * (b + m - j) / ((m - j + 1.0) * (a + j - 1.0))
            total += term
            j -= 1.0
            if term * j < 1e-18 * total and a >= 1.0 and b >= 1.0:
                break
        out[i] = total


def _integral(k: Array, m: Array, a: Array, b: Array, upper: bool) -> Array:
    """P(theta <= T), or P(theta > T) for the upper tail, theta ~ Beta(a, b), T ~ Beta(k + 1, m - k)."""
    of_chance, of_count = Beta(a, b), Beta(k + 1.0, m - k)
    chance_is_narrow = of_chance._moments()[2] < of_count._moments()[2]
    narrow = Beta(np.where(chance_is_narrow, a, k + 1.0), np.where(chance_is_narrow, b, m - k))
    wide = Beta(np.where(chance_is_narrow, k + 1.0, a), np.where(chance_is_narrow, m - k, b))
    tiny = np.finfo(float).tiny
    low = special.logit(np.maximum(narrow._ppf(np.full(k.shape, FAR)), tiny))
    # 1 - x of the upper end, which x itself may have rounded to 1.
    high = -special.logit(np.maximum(special.betaincinv(narrow.b, narrow.a, FAR), tiny))
    nodes, weights = special.roots_legendre(NODES)
    z = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * nodes
    x, y = special.expit(z), special.expit(-z)
    density = np.exp(log_beta_weight(narrow.a[:, None], narrow.b[:, None], x, y))  # per unit of the logit
    # The narrow law decides which tail of the wide one is meant.
    rising = chance_is_narrow == upper
    below, above = (f(wide.a[:, None], wide.b[:, None], x) for f in (special.betainc, special.betaincc))
    return 0.5 * (high - low) * ((density * np.where(rising[:, None], below, above)) @ weights)


@dataclass(frozen=True, eq=False, repr=False)
class NegativeBinomialLaw(CountLaw):
    """Events in `exposure` when their rate per unit is drawn from Gamma(shape, rate) once."""

    word: ClassVar[str] = "NegativeBinomial"
    shape: Any
    rate: Any
    exposure: Any

    def _chances(self) -> tuple[Array, Array]:
        total = np.add(self.rate, self.exposure)
        return self.rate / total, self.exposure / total

    def _logpdf(self, x: Array) -> Array:
        p, q = self._chances()
        r, p, q, k = np.broadcast_arrays(self.shape, p, q, x)
        possible = (k >= 0) & (k == np.floor(k)) & np.isfinite(k)
        return np.where(possible, log_negative_binomial(np.where(possible, k, 0.0), r, p, q), -np.inf)

    def _cdf(self, x: Array) -> Array:
        k, p = np.floor(x), self._chances()[0]
        return np.where(k < 0, 0.0, special.betainc(self.shape, np.maximum(k, 0.0) + 1.0, p))

    def _sf(self, x: Array) -> Array:
        k, q = np.floor(x), self._chances()[1]
        return np.where(k < 0, 1.0, special.betainc(np.maximum(k, 0.0) + 1.0, self.shape, q))

    def _most(self) -> Array:
        mean, _, var = self._moments()
        most = np.ceil(mean + 12.0 * np.sqrt(var)) + 12.0
        while (self._sf(most) > 1e-17).any():
            most = np.where(self._sf(most) > 1e-17, 2.0 * most, most)
        return most

    def _moments(self) -> tuple[Array, Array, Array]:
        r, rate, exposure = np.broadcast_arrays(self.shape, self.rate, self.exposure)
        odds = exposure / rate
        return r * odds, np.floor(np.maximum(r - 1.0, 0.0) * odds), r * odds * (1.0 + odds)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.poisson(rng.standard_gamma(self.shape, shape) * np.divide(self.exposure, self.rate))


def log_negative_binomial(k: Array, r: Array, p: Array, q: Array) -> Array:
    """log of Gamma(r + k) / (Gamma(r) k!) p^r q^k, written so that neither a tiny nor a huge r costs digits."""
    both = r + k
    value = np.log(r) - np.log(both) + log_poisson(r, both * p) + log_poisson(k, both * q)
    return value - log_poisson(both, both)


@dataclass(frozen=True, eq=False, repr=False)
class DirichletMultinomialLaw(Result):
    """Counts of K categories among `trials` draws whose probabilities come from Dirichlet(alpha) once.

    One row of `alpha` per group. A distribution function of several counts is of little use; `marginal(j)` is the
    beta-binomial law of one of them.
    """

    trials: float
    alpha: Any
    categories: tuple[str, ...]
    names: tuple[str, ...] = ()
    n: Any = 0

    def logpmf(self, counts: Any) -> Any:
        """Logarithm of the probability of the counts (..., K), which add up to `trials`."""
        k = np.asarray(counts, dtype=np.float64)
        if k.ndim == 0 or k.shape[-1] != self.alpha.shape[-1]:
            what = f"counts has shape {k.shape} for {self.alpha.shape[-1]} categories"
            raise DataError(what, remedy="pass one count per category along the last axis")
        possible = ((k >= 0) & (k == np.floor(k))).all(axis=-1) & (k.sum(axis=-1) == self.trials)
        value = log_dirichlet_multinomial(np.where(possible[..., None], k, 0.0), self.alpha)
        return plain(np.where(possible, value, -np.inf))

    def pmf(self, counts: Any) -> Any:
        """The probability of the counts (..., K)."""
        return plain(np.exp(self.logpmf(counts)))

    def marginal(self, category: int) -> BetaBinomialLaw:
        """The law of one category's count."""
        a = self.alpha[..., category]
        # The others are added up, not subtracted: a large category must not swallow a small one's digits.
        b = np.delete(self.alpha, category, axis=-1).sum(axis=-1)
        name = f"count of {self.categories[category]}"
        return BetaBinomialLaw(np.asarray(self.trials), a, b, names=self.names, n=self.n, quantity=name)

    @property
    def mean(self) -> Array:
        """Expected counts; with trials = 1 the probabilities of the next observation."""
        return plain(self.trials * _shares(self.alpha))

    @property
    def var(self) -> Array:
        """Variances of the counts."""
        share = _shares(self.alpha)
        total = self.alpha.sum(axis=-1, keepdims=True)
        return plain(self.trials * share * (1.0 - share) * ((total + self.trials) / (total + 1.0)))

    @property
    def cov(self) -> Array:
        """Covariance matrix of the counts, (..., K, K)."""
        share = _shares(self.alpha)
        total = self.alpha.sum(axis=-1)[..., None, None]
        inner = share[..., :, None] * (np.eye(share.shape[-1]) - share[..., None, :])
        return plain(self.trials * inner * ((total + self.trials) / (total + 1.0)))

    def interval(self, level: float = 0.95) -> Interval:
        """Equal-tailed limits of each count by itself, of at least `level`, one entry per (group and) category."""
        level = fraction(level, "level")
        parts = [self.marginal(j).interval(level) for j in range(self.alpha.shape[-1])]
        columns = (np.stack([getattr(part, end) for part in parts], axis=-1) for end in ("estimate", "lower", "upper"))
        estimate, lower, upper = (plain(column.reshape(-1)) for column in columns)
        names = cross(self.names, self.categories, self.alpha.shape)
        return Interval(estimate, lower, upper, level, "predictive (equal-tailed)", parts[0].n, "count", names)

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: Any = None) -> Array:
        """Draws of the counts, `size` along the first axis, categories along the last."""
        rng = generator(random_state)
        theta = draw_dirichlet(rng, self.alpha, draws(size))
        return rng.multinomial(int(self.trials), theta)

    def to_frame(self) -> pd.DataFrame:
        """One row per (group and) category: mean, standard deviation and 95% limits."""
        frame = self.interval(0.95).to_frame()[["estimate", "lower", "upper"]]
        frame.insert(1, "std", np.sqrt(np.asarray(self.var).reshape(-1)))
        return frame.rename(columns={"estimate": "mean"})

    def __str__(self) -> str:
        head = f"counts of {len(self.categories)} categories in {self.trials:g} trials ~ DirichletMultinomial"
        return f"{head}\n{self.to_frame().head(20).to_string()}"


def log_dirichlet_multinomial(k: Array, alpha: Array) -> Array:
    """log of the probability of counts k given alpha, both (..., K)."""
    n, total = k.sum(axis=-1, keepdims=True), alpha.sum(axis=-1, keepdims=True)
    theta = (alpha + k) / (total + n)

    def dirichlet(a: Array, s: Array) -> Array:
        return log_gamma_weight(a, s * theta).sum(axis=-1) - log_gamma_weight(s, s)[..., 0]

    multinomial = log_poisson(k, n * theta).sum(axis=-1) - log_poisson(n, n)[..., 0]
    return multinomial + dirichlet(alpha, total) - dirichlet(alpha + k, total + n)


def draw_dirichlet(rng: np.random.Generator, alpha: Array, shape: tuple[int, ...]) -> Array:
    """Draws from Dirichlet(alpha) in logarithms: gammas of a tiny shape would underflow, all of them."""
    full = shape + alpha.shape
    log_gamma = np.log(rng.standard_gamma(alpha + 1.0, full)) - rng.standard_exponential(full) / alpha
    return special.softmax(log_gamma, axis=-1)


def _shares(alpha: Array) -> Array:
    return alpha / alpha.sum(axis=-1, keepdims=True)


def cross(groups: tuple[str, ...], categories: tuple[str, ...], shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names of categories, or of pairs of group and category."""
    if len(shape) == 1:
        return categories
    return tuple(f"{group}: {category}" for group in groups or count_up(shape[0]) for category in categories)
