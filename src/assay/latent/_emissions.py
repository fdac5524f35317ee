"""What hidden states emit: symbols, normal rows or counts, with the same four questions to each.

    likelihoods(law)        P(x_t | q_t = k), or its logarithm, for the recursions                       (T, K)
    sums(law, gamma)        the expected sufficient statistics; they add
    estimate(sums, law)     the law that maximises the expected log-likelihood; states without weight keep theirs
    start(K, how, seed)     a law to begin with; `from_shares(gamma)` one from known or guessed states

| states emit | law                        | maximum                                                           |
|-------------|----------------------------|-------------------------------------------------------------------|
| symbols     | table B (K, M)             | B_km = (n_km + alpha) / sum_m (n_km + alpha)                      |
| normal rows | means and covariances      | weighted mean and covariance, as in a mixture (`_gaussian`)       |
| counts      | rates (K, p)               | weighted mean; columns are independent given the state            |

A missing symbol, row or cell says nothing: its likelihood is 1. What does not depend on the state (units, factorials)
is added once per step, as `constant`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from assay.latent._chain import laws, log_prior
from assay.latent._gaussian import (
    Frame,
    Gaussians,
    Sums,
    estimate,
    frame_of,
    gaussians,
    log_densities,
    merge,
    patterns_of,
    scaled,
    weighted_sums,
)
from assay.latent._hmm_kernels import add_symbols
from assay.latent._mixture_start import Starts, column_moments
from assay.latent._mixture_steps import Mixture, to_units
from assay.state import Specs, Stateful, floats, need

__all__ = [
    "CountSums",
    "Counts",
    "Normals",
    "Rates",
    "SymbolCounts",
    "SymbolTable",
    "Symbols",
    "merged",
    "weighed",
]

Array = np.ndarray

LEAST_RATE = 1e-300
"""The rate of a state that was never seen with a count above zero, so that its logarithm is finite."""


# Symbols.


@dataclass(frozen=True, eq=False)
class SymbolTable(Stateful):
    """P(symbol | state), one row per state."""

    table: Array
    state: ClassVar[Specs] = {"table": floats("k", "M", low=0, high=1 + 1e-9)}

    def _check_state(self) -> None:
        need(np.abs(self.table.sum(axis=1) - 1.0).max() < 1e-6, "probabilities do not sum to 1")


@dataclass(frozen=True, eq=False)
class SymbolCounts(Stateful):
    """Expected number of each symbol in each state."""

    counts: Array
    state: ClassVar[Specs] = {"counts": floats("k", "M", low=0)}

    def merged(self, other: SymbolCounts) -> SymbolCounts:
        """Of both."""
        return SymbolCounts(self.counts + other.counts)

    def scaled(self, factor: float) -> SymbolCounts:
        """With every step's weight multiplied."""
        return SymbolCounts(factor * self.counts)


class Symbols:
    """Steps that show one symbol each, given by its place; -1 is missing."""

    plain = True
    exact = True
    """Whether known states give the estimate at once."""

    def __init__(self, codes: Array, n_symbols: int, smoothing: float, allowed: Array | None) -> None:
        self.codes, self.M, self.smoothing = codes, n_symbols, smoothing
        self.allowed = allowed
        self.missing = codes < 0
        self.some_missing = bool(self.missing.any())
        self.constant: Array | float = 0.0

    def _allowed(self, K: int) -> Array:
        return np.ones((K, self.M), dtype=bool) if self.allowed is None else self.allowed

    def likelihoods(self, law: SymbolTable, n_jobs: int | None = None) -> Array:
        """Probabilities."""
        B = np.take(np.ascontiguousarray(law.table.T), self.codes, axis=0, mode="clip")
        if self.some_missing:
            B[self.missing] = 1.0
        return B

    def log_likelihoods(self, law: SymbolTable, n_jobs: int | None = None) -> Array:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            L = np.take(np.log(np.ascontiguousarray(law.table.T)), self.codes, axis=0, mode="clip")
        if self.some_missing:
            L[self.missing] = 0.0
        return L

    def sums(self, law: Any, gamma: Array, n_jobs: int | None = None) -> SymbolCounts:
        """Count symbols, each by its states."""
        counts = np.zeros((self.M, gamma.shape[1]))
        add_symbols(self.codes, np.ascontiguousarray(gamma), counts)
        return SymbolCounts(np.ascontiguousarray(counts.T))

    def estimate(self, sums: SymbolCounts, previous: SymbolTable) -> tuple[SymbolTable, Array]:
        """Shares of the symbols; no state is ever held."""
        K = len(sums.counts)
        table = laws(sums.counts, self.smoothing, self._allowed(K), previous.table)
        return SymbolTable(table), np.zeros(K, dtype=bool)

    def log_prior(self, law: SymbolTable) -> float:
        """Of the pseudo-counts."""
        return log_prior(law.table, self.smoothing, self._allowed(len(law.table)))

    def describe(self, law: SymbolTable) -> dict[str, Array]:
        """By the names of the fitted attributes."""
        return {"emissionprob": law.table}

    def start(self, K: int, how: str, seed: Any) -> SymbolTable:
        """The symbols' shares, each multiplied by a random factor for each state."""
        share = np.bincount(self.codes[~self.missing], minlength=self.M) + 1.0 / self.M
        table = np.random.default_rng(seed).exponential(size=(K, self.M)) * share * self._allowed(K)
        return SymbolTable(table / table.sum(axis=1, keepdims=True))

    def from_shares(self, gamma: Array) -> SymbolTable:
        """From states that are known, or guessed."""
        allowed = self._allowed(gamma.shape[1])
        even = SymbolTable(allowed / allowed.sum(axis=1, keepdims=True))
        return self.estimate(self.sums(None, gamma), even)[0]


# Normal rows.


class Normals:
    """Rows of numbers, normal given the state; NaN is integrated out."""

    plain = False

    def __init__(self, X: Array, kind: str, frame: Frame | None, floor: Array | None, reg_covar: float) -> None:
        self.frame = frame_of(X, kind) if frame is None else frame
        Z = self.frame.into(X)
        missing = np.isnan(Z)
        self.kind, self.exact = kind, not missing.any()
        if floor is None:
            variance = column_moments(Z, np.empty(0))[1]
            floor = reg_covar * np.where(variance > 0, variance, 1.0)
        self.floor: Array = floor
        self.constant: Array | float = np.full(len(Z), -self.frame.log_volume)
        self.blank = np.zeros(len(Z), dtype=bool)
        if not self.exact:
            self.constant = -(~missing @ np.log(self.frame.unit))
            self.blank = missing.all(axis=1)
        self.some_blank = bool(self.blank.any())
        self.Z = np.where(self.blank[:, None], 0.0, Z) if self.some_blank else Z
        self.patterns = () if self.exact else patterns_of(self.Z)

    def likelihoods(self, law: Gaussians, n_jobs: int | None = None) -> Array:
        """Log densities."""
        L = log_densities(self.Z, law, self.patterns, n_jobs=n_jobs)
        if self.some_blank:
            L[self.blank] = 0.0
        return L

    log_likelihoods = likelihoods

    def sums(self, law: Gaussians, gamma: Array, n_jobs: int | None = None) -> Sums:
        """Weights, means and scatter."""
        shares = np.where(self.blank[:, None], 0.0, gamma) if self.some_blank else gamma
        return weighted_sums(self.Z, shares, law, self.patterns, n_jobs=n_jobs)

    def estimate(self, sums: Sums, previous: Gaussians) -> tuple[Gaussians, Array]:
        """Means and covariances, and which of them are held at the floor."""
        return estimate(self.kind, sums, self.floor, previous)

    def log_prior(self, law: Gaussians) -> float:
        """There is none."""
        return 0.0

    def describe(self, law: Gaussians) -> dict[str, Array]:
        """In the units of the data."""
        means, covariances = to_units(law, self.frame)
        return {"means": means, "covariances": covariances}

    def mixture(self) -> Mixture:
        """The rows as a mixture sees them, for its starts."""
        seen = self.Z[~self.blank] if self.some_blank else self.Z
        return Mixture(seen, None, self.kind, self.floor, self.frame)

    def start(self, K: int, how: str, seed: Any) -> Gaussians:
        """As a mixture begins."""
        return Starts(self.mixture(), K).make(how, seed).law

    def from_shares(self, gamma: Array) -> Gaussians:
        """From states that are known, or guessed; the second pass is about the means of the first."""
        K, p = gamma.shape[1], self.Z.shape[1]
        even = {"full": np.repeat(np.eye(p)[None], K, axis=0), "tied": np.eye(p), "diag": np.ones((K, p))}
        spread = even.get(self.kind, np.ones(K if self.kind == "spherical" else 1))
        law = gaussians(self.kind, np.zeros((K, p)), spread)
        for _ in range(2):
            law = self.estimate(self.sums(law, gamma), law)[0]
        return law


# Counts.


@dataclass(frozen=True, eq=False)
class Rates(Stateful):
    """Means of the counts, (K, p)."""

    rates: Array
    state: ClassVar[Specs] = {"rates": floats("k", "p", low=LEAST_RATE)}


@dataclass(frozen=True, eq=False)
class CountSums(Stateful):
    """Weight of the cells seen and total of the counts, both (K, p)."""

    weight: Array
    total: Array
    state: ClassVar[Specs] = {"weight": floats("k", "p", low=0), "total": floats("k", "p", low=0)}

    def merged(self, other: CountSums) -> CountSums:
        """Of both."""
        return CountSums(self.weight + other.weight, self.total + other.total)

    def scaled(self, factor: float) -> CountSums:
        """With every step's weight multiplied."""
        return CountSums(factor * self.weight, factor * self.total)


class Counts:
    """Rows of counts, independent Poisson given the state; NaN is missing."""

    plain = False
    exact = True

    def __init__(self, X: Array) -> None:
        there = ~np.isnan(X)
        self.seen = None if there.all() else there.astype(np.float64)
        self.X = np.ascontiguousarray(X if self.seen is None else np.where(there, X, 0.0))
        self.constant: Array | float = -gammaln(self.X + 1.0).sum(axis=1)

    def likelihoods(self, law: Rates, n_jobs: int | None = None) -> Array:
        """sum_j x_j log rate_kj - rate_kj."""
        L = self.X @ np.log(law.rates).T
        L -= law.rates.sum(axis=1) if self.seen is None else self.seen @ law.rates.T
        return L

    log_likelihoods = likelihoods

    def sums(self, law: Any, gamma: Array, n_jobs: int | None = None) -> CountSums:
        """Weights and totals."""
        weight = gamma.T @ (np.ones_like(self.X) if self.seen is None else self.seen)
        return CountSums(weight, gamma.T @ self.X)

    def estimate(self, sums: CountSums, previous: Rates) -> tuple[Rates, Array]:
        """Weighted means."""
        rates = np.divide(sums.total, sums.weight, out=previous.rates.copy(), where=sums.weight > 0)
        return Rates(np.maximum(rates, LEAST_RATE)), np.zeros(len(rates), dtype=bool)

    def log_prior(self, law: Rates) -> float:
        """There is none."""
        return 0.0

    def describe(self, law: Rates) -> dict[str, Array]:
        """By the names of the fitted attributes."""
        return {"rates": law.rates}

    def start(self, K: int, how: str, seed: Any) -> Rates:
        """As a mixture of the roots begins, whose variances are nearly equal: E x = (E root)^2 + var root."""
        roots = np.sqrt(self.X) if self.seen is None else np.where(self.seen > 0, np.sqrt(self.X), np.nan)
        some = np.isfinite(roots).any(axis=1)
        normals = Normals(roots[some], "diag", None, None, 1e-6)
        law, frame = normals.start(K, how, seed), normals.frame
        means, variances = frame.centre + law.means * frame.unit, law.covariances * frame.unit**2
        return Rates(np.maximum(means**2 + variances, LEAST_RATE))

    def from_shares(self, gamma: Array) -> Rates:
        """From states that are known, or guessed."""
        mean = self.sums(None, np.ones((len(self.X), 1)))
        even = np.broadcast_to(mean.total / np.maximum(mean.weight, 1.0), (gamma.shape[1], self.X.shape[1]))
        return self.estimate(self.sums(None, gamma), Rates(np.maximum(even, LEAST_RATE)))[0]


def merged(a: Any, b: Any) -> Any:
    """The statistics of both, whichever kind they are."""
    return merge(a, b) if isinstance(a, Sums) else a.merged(b)


def weighed(sums: Any, factor: float) -> Any:
    """Statistics with every step's weight multiplied, whichever kind they are."""
    return scaled(sums, factor) if isinstance(sums, Sums) else sums.scaled(factor)
