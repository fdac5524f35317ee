"""A million posteriors and their limits beside scipy's vectorised calls; regression beside BayesianRidge."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special, stats
from sklearn.linear_model import BayesianRidge

from assay.bayes.conjugate import BetaBinomial, DirichletMultinomial
from assay.bayes.regression import BayesianLinearRegression
from benchmarks.case import Case

__all__ = ["CASES"]

GROUPS = 1_000_000


def groups(size: int = GROUPS) -> tuple[np.ndarray, np.ndarray]:
    """Successes and trials of many groups, as in a table of advertisements: mostly few, mostly rare."""
    rng = np.random.default_rng(0)
    n = rng.integers(1, 1000, size)
    return rng.binomial(n, rng.beta(2.0, 20.0, size)), n


def categories() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 50, (GROUPS, 5))


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((100_000, 50))
    return X, X @ rng.standard_normal(50) + 3.0 * rng.standard_normal(100_000)


def wrong_tails(limits: Any, data: Any) -> float:
    """The largest distance of a tail from 2.5%, over every hundredth group."""
    k, n = (part[::100] for part in data)
    low, high = (np.asarray(end)[::100] for end in limits)
    left, right = special.betainc(1.0 + k, 1.0 + n - k, low), special.betaincc(1.0 + k, 1.0 + n - k, high)
    return float(max(np.abs(left - 0.025).max(), np.abs(right - 0.025).max()))


def ours_interval(data: Any) -> tuple[np.ndarray, np.ndarray]:
    found = BetaBinomial(1, 1).update_counts(*data).interval(0.95)
    return found.lower, found.upper


def peer_interval(data: Any) -> Any:
    k, n = data
    return stats.beta.interval(0.95, 1.0 + k, 1.0 + n - k)


def ours_shortest(data: Any) -> tuple[np.ndarray, np.ndarray]:
    found = BetaBinomial(1, 1).update_counts(*data).interval(0.95, "highest-density")
    return found.lower, found.upper


def own_priors(size: int = GROUPS) -> tuple[np.ndarray, np.ndarray]:
    """Parameters of which no two are equal, as where every group has a prior of its own."""
    k, n = groups(size)
    rng = np.random.default_rng(3)
    return k + rng.uniform(0.5, 3.0, size), n - k + rng.uniform(0.5, 20.0, size)


def ours_distinct(data: Any) -> tuple[np.ndarray, np.ndarray]:
    found = BetaBinomial(*data).interval(0.95)
    return found.lower, found.upper


def wrong_tails_distinct(limits: Any, data: Any) -> float:
    a, b = (part[::100] for part in data)
    low, high = (np.asarray(end)[::100] for end in limits)
    left, right = special.betainc(a, b, low), special.betaincc(a, b, high)
    return float(max(np.abs(left - 0.025).max(), np.abs(right - 0.025).max()))


def mean_width(limits: Any, _: Any) -> float:
    return float(np.mean(np.asarray(limits[1]) - np.asarray(limits[0])))


def bare_beta(data: Any) -> Any:
    k, n = data
    return (1.0 + k, 1.0 + n - k)


def of_beta(outcome: Any, data: Any) -> float:
    a, b = (outcome.a, outcome.b) if isinstance(outcome, BetaBinomial) else outcome
    return float(np.abs(a - 1.0 - data[0]).max() + np.abs(b - 1.0 - data[1] + data[0]).max())


def of_dirichlet(outcome: Any, data: Any) -> float:
    alpha = outcome.alpha if isinstance(outcome, DirichletMultinomial) else outcome
    return float(np.abs(alpha - 1.0 - data).max())


def lost_evidence(model: Any, data: Any) -> float:
    """Minus the log marginal likelihood per row, at the hyperparameters each side chose."""
    if isinstance(model, BayesianLinearRegression):
        return -model.log_evidence_ / len(data[1])
    fixed = BayesianLinearRegression(tau2=1 / model.lambda_, sigma2=1 / model.alpha_)
    return -fixed.fit(*data).log_evidence_ / len(data[1])


CASES = [
    Case(
        "Beta posterior of 1,000,000 groups",
        data=groups,
        ours=lambda data: BetaBinomial(1, 1).update_counts(*data),
        peers={"numpy, unchecked": bare_beta},
        quality=of_beta,
        quality_name="distance from the formula",
        slack=1e-9,
    ),
    Case(
        "Dirichlet posterior of 1,000,000 groups x 5 categories",
        data=categories,
        ours=lambda data: DirichletMultinomial(np.ones(5)).update_counts(data),
        peers={"numpy, unchecked": lambda data: 1.0 + data},
        quality=of_dirichlet,
        quality_name="distance from the formula",
        slack=1e-9,
    ),
    Case(
        "95% equal-tailed intervals of 1,000,000 groups",
        data=groups,
        ours=ours_interval,
        peers={"scipy.stats.beta.interval": peer_interval},
        quality=wrong_tails,
        quality_name="largest error of a tail",
        goals={"scipy.stats.beta.interval": 3.0},
        slack=1e-12,
        repeats=3,
        cold=True,
    ),
    Case(
        "95% equal-tailed intervals of 1,000,000 groups, no two alike",
        data=own_priors,
        ours=ours_distinct,
        peers={"scipy.stats.beta.interval": lambda data: stats.beta.interval(0.95, *data)},
        quality=wrong_tails_distinct,
        quality_name="largest error of a tail",
        goals={"scipy.stats.beta.interval": 1.5},
        slack=1e-12,
        repeats=3,
    ),
    Case(
        "95% highest-density intervals of 1,000,000 groups",
        data=groups,
        ours=ours_shortest,
        peers={"scipy.stats.beta.interval (equal-tailed, longer)": peer_interval},
        quality=mean_width,
        quality_name="mean width",
        repeats=3,
    ),
    Case(
        "Bayesian linear regression, maximum evidence, 100,000 x 50",
        data=table,
        ours=lambda data: BayesianLinearRegression().fit(*data),
        peers={"scikit-learn BayesianRidge": lambda data: BayesianRidge().fit(*data)},
        quality=lost_evidence,
        quality_name="minus log evidence per row",
        goals={"scikit-learn BayesianRidge": 5.0},
        slack=1e-12,
        repeats=3,
    ),
]
