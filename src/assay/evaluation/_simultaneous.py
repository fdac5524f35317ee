"""One simultaneous procedure for p-values, intervals and words of all pairs.

With estimates d_i, standard errors e_i and t_i = d_i / e_i of m pairs, and M the greatest of the |t_i| when no pair
differs (the greatest t_i or -t_i for one-sided alternatives), single-step max-t takes

    adjusted p_i = P(M >= |t_i|),    limits d_i -+ c e_i with P(M > c) = 1 - level,

so that a limit lies beyond 0 exactly where the adjusted p-value is below 1 - level (`agreeing` sees to it where
rounding would decide, and keeps limits in the range of the difference). The law of M follows from how the
pairs move together: over folds (or rows), J normal vectors with the correlation that their differences have, each
pair studentised by its own variance as the test does (a multivariate t has one variance for all pairs, and is too
narrow for ten folds); over a bootstrap, the resamples themselves. It is never stricter
than Bonferroni (which takes the pairs as if they had nothing in common) nor laxer than a single pair, and is held
between the two where draws are few. Tests without replicates (McNemar, 5x2) have single-step Bonferroni.

Pairs of learners that were stopped early have no statistic, but count: k of them add k p_i to the adjusted p-value (the
union bound), and c becomes the least value with P(M > c) + k P(|t| > c) <= 1 - level.

A stepwise correction (Holm, Hochberg, false discovery rates) adjusts p_i to k_i p_i with its own k_i. The interval of
the pair then has the level 1 - (1 - level) / k_i at which it was tested, so it agrees with the p-value too, but such
intervals do not cover together.

Cost: DRAWS x learners^2, drawn as a Wishart matrix whatever J is. Westfall & Young (1993), Resampling-Based Multiple
Testing; Hothorn, Bretz & Westfall (2008), Biometrical Journal 50, 346-363; Benjamini & Yekutieli (2005), JASA 100.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from assay.inference import adjust_pvalues

__all__ = ["MaxT", "agreeing", "levels", "max_t_of_draws", "max_t_of_folds", "rejects"]

Array = np.ndarray
DRAWS = 20_000
BLOCK = 2_000
"""Draws held at a time."""
TINY = 1e-12
HALVINGS = 60
"""Of the interval that holds a critical value."""
ROUNDING = 1e-9
"""P-values closer to 1 - level than this share of it are equal to it, and show nothing."""


def rejects(p_values: Array, level: float) -> Array:
    """Which p-values show a difference: those below 1 - level, by more than rounding; never NaN."""
    return np.asarray(p_values) < (1 - level) * (1 - ROUNDING)


def agreeing(lower: Array, upper: Array, side: Array, rejected: Array, most: float) -> tuple[Array, Array]:
    """Limits inside the range of a difference, [-most, most], that exclude 0 exactly where the test rejects it.

    The limits are the values that the test does not reject. They come by another path of arithmetic (a product
    instead of a quotient) or, for McNemar's exact test, as the limits of its score form; the test decides about 0.
    `side` is 1 where the lower limit is to exclude 0, -1 where the upper one is.

    >>> agreeing(np.array([1e-17, -0.2]), np.array([3.0, 0.0]), np.array([1, -1]), np.array([False, True]), 1.0)
    (array([ 0. , -0.2]), array([ 1.e+000, -5.e-324]))
    """
    lower, upper = np.clip(lower, -most, most), np.clip(upper, -most, most)
    least = np.nextafter(0.0, 1.0)
    lower = np.where(rejected, np.where(side > 0, np.maximum(lower, least), lower), np.minimum(lower, 0.0))
    upper = np.where(rejected, np.where(side < 0, np.minimum(upper, -least), upper), np.maximum(upper, 0.0))
    return lower, upper


@dataclass(frozen=True, eq=False)
class MaxT:
    """Draws of the greatest statistic of so many pairs, in ascending order.

    A single pair has a t distribution with `df`; over resamples (df None) the draws are all that is known. `more` pairs
    count without a statistic.
    """

    draws: Array
    pairs: int
    df: float | None
    sided: int
    more: int = 0

    def adjusted(self, statistic: Array, p_values: Array) -> Array:
        """P-values of all pairs together; `statistic` is signed so that the greater is the further from the null."""
        # Resamples of few distinct values often equal the statistic, but for rounding.
        reached = statistic * (1 - ROUNDING * np.sign(statistic))
        above = self.draws.size - np.searchsorted(self.draws, reached, side="left")
        found = (1 + above) / (self.draws.size + 1)
        if self.df is None:
            return found
        return np.minimum(1.0, np.clip(found, p_values, self.pairs * p_values) + self.more * p_values)

    def critical(self, level: float) -> float:
        """How many standard errors the limits are away."""
        # Greater values are reached by so few draws that their adjusted p-values are below 1 - level.
        few = int(np.ceil((1 - level) * (self.draws.size + 1) * (1 - ROUNDING))) - 2
        at = float(self.draws[-1 - few]) if 0 <= few < self.draws.size else np.inf
        if self.df is None:
            return at
        if self.more:
            return self._critical_with_more(level)
        tail = (1 - level) / self.sided
        one, most = (float(-special.stdtrit(self.df, part)) for part in (tail, tail / self.pairs))
        return min(max(at, one), most)

    def _critical_with_more(self, level: float) -> float:
        """The least value whose adjusted p-value is at most 1 - level, by bisection between one pair and Bonferroni."""
        assert self.df is not None
        tail = (1 - level) / self.sided
        low, high = (float(-special.stdtrit(self.df, part)) for part in (tail, tail / (self.pairs + self.more)))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            p = np.array([self.sided * special.stdtr(self.df, -middle)])
            low, high = (low, middle) if self.adjusted(np.array([middle]), p)[0] <= 1 - level else (middle, high)
        return high


def max_t_of_folds(gaps: Array, df: float, alternative: str, rng: np.random.Generator) -> MaxT:
    """The law of the greatest t of several pairs: `gaps` has a row per fold (or table row) and a column per pair."""
    away = gaps / (np.abs(gaps).max(axis=0) + (gaps == 0).all(axis=0))  # squares stay in range
    away = away - away.mean(axis=0)
    size = np.sqrt((away**2).sum(axis=0))
    away = away[:, size > 0] / size[size > 0]
    pairs, sided = max(1, away.shape[1]), 2 if alternative == "two-sided" else 1  # equal learners cannot differ
    if pairs == 1:
        return MaxT(np.empty(0), 1, df, sided)
    values, vectors = np.linalg.eigh(away.T @ away)
    kept = values > TINY * values[-1]
    # Columns of unit length: pair i is root[:, i]' z for z standard normal.
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    root /= np.sqrt((root**2).sum(axis=0))
    blocks = [_greatest(root, df, alternative, rng) for _ in range(DRAWS // BLOCK)]
    return MaxT(np.sort(np.concatenate(blocks)), pairs, df, sided)


def _greatest(root: Array, df: float, alternative: str, rng: np.random.Generator) -> Array:
    """The greatest of the studentised means in each of BLOCK draws; scatter matrices by Bartlett's decomposition."""
    r = root.shape[0]
    mean = rng.standard_normal((BLOCK, r))
    factor = np.tril(rng.standard_normal((BLOCK, r, r)), -1)
    # A matrix of rank r needs r degrees of freedom; with fewer folds than that it has no more than they give.
    factor[:, np.arange(r), np.arange(r)] = np.sqrt(rng.chisquare(np.maximum(df - np.arange(r), 1.0), (BLOCK, r)))
    error = np.sqrt(((factor.transpose(0, 2, 1) @ root) ** 2).sum(axis=1) / df)
    return _largest(mean @ root / error, alternative)


def _largest(t: Array, alternative: str) -> Array:
    return {"two-sided": np.abs(t), "greater": t, "less": -t}[alternative].max(axis=1)


def max_t_of_draws(drawn: Array, estimate: Array, error: Array, alternative: str) -> MaxT:
    """The law of the greatest statistic over resamples: `drawn` has a row per resample and a column per pair."""
    varies = error > 0
    pairs = int(varies.sum())
    sided = 2 if alternative == "two-sided" else 1
    if pairs == 0:
        return MaxT(np.zeros(1), 1, None, sided)
    return MaxT(np.sort(_largest((drawn - estimate)[:, varies] / error[varies], alternative)), pairs, None, sided)


def levels(p_values: Array, correction: str, level: float) -> Array:
    """The level at which each pair is tested and its interval made, so that the two agree."""
    m, alpha = p_values.size, 1 - level
    if correction == "none":
        return np.full(m, level)
    if correction == "sidak":
        return np.full(m, level ** (1 / m))
    # The others multiply p-values; tiny ones of the same ratios show by how much, before the cut at 1.
    small = np.maximum(p_values, 1e-150) * 1e-6 / m
    return 1 - alpha * small / adjust_pvalues(small, correction).adjusted
