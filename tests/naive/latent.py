"""Mixtures by the definition: one row, one component, one cell at a time."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

__all__ = ["em_step", "log_density", "log_likelihood", "posterior"]

Array = np.ndarray
Params = tuple[Array, Array, Array]
"""Shares (K,), means (K, p), covariances (K, p, p)."""


def log_density(x: Array, mean: Array, covariance: Array) -> float:
    """Of the cells that are there; a row without any has density 1."""
    o = ~np.isnan(x)
    return float(multivariate_normal.logpdf(x[o], mean[o], covariance[np.ix_(o, o)])) if o.any() else 0.0


def posterior(X: Array, params: Params) -> tuple[Array, Array]:
    """Posterior probabilities and log density of each row."""
    weights, means, covariances = params
    joint = np.array([
        [np.log(pi) + log_density(x, m, S) for pi, m, S in zip(weights, means, covariances, strict=True)] for x in X
    ])  # fmt: skip
    rows = np.logaddexp.reduce(joint, axis=1)
    return np.exp(joint - rows[:, None]), rows


def log_likelihood(X: Array, params: Params, w: Array | None = None) -> float:
    """Weighted sum of the log densities."""
    rows = posterior(X, params)[1]
    return float(rows.sum() if w is None else w @ rows)


def completed(x: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """The row with its missing cells at their conditional mean, and their conditional covariance."""
    m = np.isnan(x)
    filled, spread = x.copy(), np.zeros_like(covariance)
    if m.any():
        slope = covariance[np.ix_(m, ~m)] @ np.linalg.inv(covariance[np.ix_(~m, ~m)])
        filled[m] = mean[m] + slope @ (x[~m] - mean[~m])
        spread[np.ix_(m, m)] = covariance[np.ix_(m, m)] - slope @ covariance[np.ix_(~m, m)]
    return filled, spread


def em_step(X: Array, params: Params, kind: str = "full", w: Array | None = None) -> Params:
    """One E and one M step."""
    _, means, covariances = params
    K, p = means.shape
    w = np.ones(len(X)) if w is None else w
    shares = posterior(X, params)[0] * w[:, None]
    N = shares.sum(axis=0)
    new_means, scatter = np.zeros((K, p)), np.zeros((K, p, p))
    for k in range(K):
        rows = [completed(x, means[k], covariances[k]) for x in X]
        for r, (x, _) in zip(shares[:, k], rows, strict=True):
            new_means[k] += r * x / N[k]
        for r, (x, spread) in zip(shares[:, k], rows, strict=True):
            d = x - new_means[k]
            scatter[k] += r * (np.outer(d, d) + spread)
    return N / N.sum(), new_means, restricted(scatter, N, kind)


def restricted(scatter: Array, N: Array, kind: str) -> Array:
    """Covariances of the given kind, as (K, p, p)."""
    K, p, _ = scatter.shape
    own = scatter / N[:, None, None]
    tied = np.broadcast_to(scatter.sum(axis=0) / N.sum(), (K, p, p))
    if kind in ("full", "tied"):
        return own if kind == "full" else tied
    if kind == "diag":
        return np.array([np.diag(np.diag(S)) for S in own])
    return np.array([np.eye(p) * np.trace(S) / p for S in (own if kind == "spherical" else tied)])
