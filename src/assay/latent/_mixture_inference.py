"""How far the estimates of a mixture may be trusted: the scores of the rows and the curvature of the likelihood.

By Fisher's identity the score of a row is the posterior mean of its score with the component (and the missing cells)
known:

    d/d pi_k = r_ik / pi_k - r_iK / pi_K
    d/d mu_k = r_ik P_k d_ik
    d/d Sigma_k = r_ik (P_k (d_ik d_ik' + C_ik) P_k - P_k) / 2      (twice that off the diagonal)

with P_k = Sigma_k^-1, d_ik = E[x_i | k] - mu_k and C_ik the covariance of the missing cells. The covariance of the
estimates is H^-1 J H^-1 with J = sum_i w_i s_i s_i' and H the curvature (White's sandwich), which holds also where the
components are not quite normal. Summed over rows, the score follows from the sums of one E step, so H is had by
differences of it. Cost: two E steps for each of d free parameters, and n d^2 multiply-adds for J.

White (1982), Econometrica 50, 1-25; McLachlan, Peel (2000), Finite Mixture Models, section 2.15.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import norm

from assay.checks import fraction
from assay.errors import DataError
from assay.latent._gaussian import Pattern, expand, gaussians, patterns_of, see
from assay.latent._mixture_steps import Mixture, MixtureParams, posterior
from assay.results import Summary

if TYPE_CHECKING:
    from assay.latent.mixture import GaussianMixture

__all__ = ["covariance_of_estimates", "free", "from_free", "scores", "summarize", "total_score"]

Array = np.ndarray

ROWS = 2048
STEP = 1e-4
"""Of the differences, in units of each parameter's size."""


def scores(Z: Array, params: MixtureParams) -> Iterator[tuple[Array, Array]]:
    """Numbers and scores of the rows, block by block: shares (K - 1), means (K p), then what is free in covariances."""
    patterns = patterns_of(Z)
    p = Z.shape[1]
    whole = np.flatnonzero(~np.isnan(Z).any(axis=1)) if patterns else np.arange(len(Z))
    complete = [Pattern(np.arange(p), np.arange(0), whole[at : at + ROWS]) for at in range(0, len(whole), ROWS)]
    full = expand(params.law)
    inverse = np.linalg.inv(full)
    for pattern in (*complete, *patterns):
        yield pattern.rows, _block(Z, params, inverse, pattern)


def _block(Z: Array, params: MixtureParams, inverse: Array, pattern: Pattern) -> Array:
    law, o, m = params.law, pattern.observed, pattern.missing
    K, p = law.means.shape
    shares, _ = posterior(Z[pattern.rows], params)
    seen = see(law, pattern)
    D = Z[pattern.rows[:, None], o] - seen.law.means[:, None, :]
    filled = np.zeros((K, len(pattern.rows), p))
    filled[:, :, o], filled[:, :, m] = D, D @ seen.slope.transpose(0, 2, 1)
    spread = np.zeros((K, p, p))
    left = seen.left if seen.left.ndim == 3 else seen.left[:, :, None] * np.eye(m.size)
    spread[:, m[:, None], m] = left
    pull = filled @ inverse
    lower, upper = np.tril_indices(p)
    constant = (inverse @ spread @ inverse - inverse)[:, lower, upper]
    curved = shares.T[:, :, None] * (pull[:, :, lower] * pull[:, :, upper] + constant[:, None, :])
    by_mean = shares.T[:, :, None] * pull
    return _assembled(shares, by_mean, curved, params)


def _assembled(shares: Array, by_mean: Array, curved: Array, params: MixtureParams) -> Array:
    """Scores (n, d) from shares (n, K), r P d (K, n, p) and lower triangles of r (P (d d' + C) P - P) (K, n, ...)."""
    lower, upper = np.tril_indices(by_mean.shape[2])
    by_share = shares[:, :-1] / params.weights[:-1] - shares[:, -1:] / params.weights[-1]
    curved = curved * np.where(lower == upper, 0.5, 1.0)
    by_covariance = _tied(curved, params.law.kind, lower == upper)
    return np.hstack([by_share, by_mean.transpose(1, 0, 2).reshape(len(shares), -1), by_covariance])


def _tied(curved: Array, kind: str, diagonal: Array) -> Array:
    """Derivatives by the numbers that the covariances have in common, (n, ...) from (K, n, p(p + 1)/2)."""
    if kind == "full":
        return curved.transpose(1, 0, 2).reshape(curved.shape[1], -1)
    if kind == "tied":
        return np.asarray(curved.sum(axis=0))
    variances = curved[:, :, diagonal]
    if kind == "diag":
        return variances.transpose(1, 0, 2).reshape(curved.shape[1], -1)
    own = variances.sum(axis=2).T
    return np.asarray(own if kind == "spherical" else own.sum(axis=1, keepdims=True))


def total_score(model: Mixture, params: MixtureParams) -> Array:
    """The score of all rows together, from the sums of one E step."""
    sums = model.e_step(params)[1]
    p = sums.mean.shape[1]
    inverse = np.linalg.inv(expand(params.law))
    shift = sums.mean - params.law.means
    N = sums.weight[:, None, None]
    scatter = sums.scatter if sums.scatter.ndim == 3 else sums.scatter[:, :, None] * np.eye(p)
    about = scatter + N * shift[:, :, None] * shift[:, None, :]
    lower, upper = np.tril_indices(p)
    curved = (inverse @ about @ inverse - N * inverse)[:, None, lower, upper]
    by_mean = (sums.weight[:, None] * np.einsum("kij,kj->ki", inverse, shift))[:, None, :]
    return _assembled(sums.weight[None], by_mean, curved, params)[0]


def free(params: MixtureParams) -> tuple[Array, Array]:
    """The free parameters as one vector, and the size of each: what would be a small step for it."""
    law = params.law
    K, p = law.means.shape
    sd = np.sqrt(np.einsum("kjj->kj", expand(law)))
    sizes = {"diag": sd**2, "spherical": sd[:, 0] ** 2, "shared": sd[0, :1] ** 2}
    covariances, size = law.covariances, sizes.get(law.kind)
    if size is None:
        size = sd[:, :, None] * sd[:, None, :] if law.kind == "full" else np.outer(sd[0], sd[0])
        lower, upper = np.tril_indices(p)
        covariances, size = covariances[..., lower, upper], size[..., lower, upper]
    share = np.minimum(params.weights, 1 - params.weights)[: K - 1]
    theta = np.concatenate([params.weights[:-1], law.means.ravel(), covariances.ravel()])
    return theta, np.concatenate([share, sd.ravel(), size.ravel()])


def from_free(theta: Array, like: MixtureParams) -> MixtureParams:
    """Parameters from the vector, of the same kind."""
    K, p = like.law.means.shape
    weights = np.append(theta[: K - 1], 1.0 - theta[: K - 1].sum())
    means, rest = theta[K - 1 : K - 1 + K * p].reshape(K, p), theta[K - 1 + K * p :]
    covariances = np.empty_like(like.law.covariances)
    if like.law.kind in ("full", "tied"):
        lower, upper = np.tril_indices(p)
        triangles = rest.reshape(*covariances.shape[:-2], -1)
        covariances[..., lower, upper] = covariances[..., upper, lower] = triangles
    else:
        covariances[...] = rest.reshape(covariances.shape)
    return MixtureParams(weights, gaussians(like.law.kind, means, covariances), like.held)


def covariance_of_estimates(model: Mixture, params: MixtureParams) -> Array:
    """H^-1 J H^-1, in the frame of the rows; a `DataError` where the likelihood has no strict maximum here."""
    theta, size = free(params)
    d = theta.size
    H, J = np.empty((d, d)), np.zeros((d, d))
    if not params.held.any():
        for j in range(d):
            step = STEP * size * (np.arange(d) == j)
            above, below = (total_score(model, from_free(theta + sign * step, params)) for sign in (1, -1))
            H[j] = (above - below) * size / (2 * STEP)
        H = -(H + H.T) / 2
    if params.held.any() or np.linalg.eigvalsh(H)[0] <= 1e-9 * np.abs(H).max():
        what = f"the likelihood has no strict maximum in all {d} parameters here, so there are no standard errors"
        raise DataError(
            what, remedy="use fewer components or covariance_type='tied', lower tol, or pass the rows of the fit"
        )
    for rows, s in scores(model.Z, params):
        J += (size * s).T @ (size * s if not model.w.size else model.w[rows, None] * size * s)
    inverse = np.linalg.inv(H)
    return np.asarray(inverse @ J @ inverse * np.outer(size, size))


def summarize(model: GaussianMixture, X: Any, sample_weight: Any, level: float) -> Summary:
    """Shares and means with standard errors and Wald limits; see `GaussianMixture.summary`."""
    level = fraction(level, "level")
    bic, aic, icl = model._criteria(X, sample_weight)
    rows, w = model._rows(X, sample_weight, reset=False)
    params = model._fitted()
    K, p = params.law.means.shape
    steps = model._model(rows, w, model._frame, model._floor)
    covariance, d = covariance_of_estimates(steps, params), model.n_parameters()
    se = np.sqrt(np.diag(covariance)[K - 1 : K - 1 + K * p]).reshape(K, p) * model._frame.unit
    shares = covariance[: K - 1, : K - 1]
    share_se = np.sqrt(np.append(np.diag(shares), shares.sum()))
    z = float(norm.ppf((1 + level) / 2))
    table = _table(model, params.weights, share_se, se, z)
    size = float(len(rows)) if w is None else float(w.sum())
    facts = {
        "rows": round(size) if size.is_integer() else size, "log-likelihood": -(aic - 2 * d) / 2,
        "components": K, "BIC": bic, "covariance type": params.law.kind, "ICL": icl, "free parameters": d, "AIC": aic,
    }  # fmt: skip
    notes = [
        f"{100 * level:g}% Wald limits by the sandwich estimator, on the logit scale for weights.",
        "They assume well-separated components and do not account for the choice of their number.",
    ]
    return Summary("Gaussian mixture", table, facts, notes)


def _table(model: GaussianMixture, weights: Array, share_se: Array, se: Array, z: float) -> pd.DataFrame:
    rows: dict[str, list[float]] = {}
    means, names = model.means_, model._feature_names()
    for k, share in enumerate(weights):
        if len(weights) > 1:
            reach = z * share_se[k] / (share * (1 - share))
            low, high = expit(logit(share) + np.array([-reach, reach]))
            rows[f"{k}: weight"] = [share, share_se[k], low, high]
        for j, name in enumerate(names):
            mean, error = means[k, j], se[k, j]
            rows[f"{k}: mean of {name}"] = [mean, error, mean - z * error, mean + z * error]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["estimate", "std_error", "lower", "upper"])
