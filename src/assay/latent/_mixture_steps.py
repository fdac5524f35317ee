"""The steps of a Gaussian mixture: posteriors and sums in one pass over the rows, and what is done about collapse.

    E step   r_ik = pi_k N(x_i; mu_k, Sigma_k) / sum_l pi_l N(x_i; mu_l, Sigma_l)
    M step   pi_k = N_k / n,   mu_k = m_k,   Sigma_k from S_k

Rows go through densities, posteriors and sums some hundreds at a time, while they lie in the cache; nothing of size
n x K is stored. Cost of an iteration: n K p^2 multiply-adds in each step, n K exponentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from assay.latent._em import EMModel
from assay.latent._gaussian import (
    SPAN,
    Frame,
    Gaussians,
    Sums,
    Tally,
    estimate,
    expand,
    fill_densities,
    gaussians,
    log_densities,
    merge,
    patterns_of,
    scaled,
    see,
)
from assay.latent._gaussian_kernels import normalise
from assay.numerics.threads import parallel
from assay.state import Specs, Stateful, bools, floats, need, part

__all__ = [
    "Mixture",
    "MixtureParams",
    "flat_columns",
    "log_weights",
    "online_step",
    "posterior",
    "table_is_singular",
    "to_units",
]

Array = np.ndarray

CHUNK = 1024
"""Rows that are done at once: they and their posteriors fit into the cache."""
EMPTY = 1e-8
"""A component with less than this share of the weight is empty."""
RESCUES = 3
"""How often components of one start are started anew before they are left as they are."""


@dataclass(frozen=True, eq=False)
class MixtureParams(Stateful):
    """Shares of the components, their law, and which of them `reg_covar` keeps from collapsing."""

    weights: Array
    law: Gaussians
    held: Array
    state: ClassVar[Specs] = {
        "weights": floats("k", low=0, high=1),
        "law": part(Gaussians, "k", "p"),
        "held": bools("k"),
    }

    def _check_state(self) -> None:
        need(abs(self.weights.sum() - 1.0) < 1e-6, "weights must sum to 1")


def log_weights(params: MixtureParams) -> Array:
    """Logarithms of the shares; -inf for a component without one."""
    with np.errstate(divide="ignore"):
        return np.log(params.weights)


def posterior(Z: Array, params: MixtureParams, *, n_jobs: int | None = None) -> tuple[Array, Array]:
    """Posteriors (n, K) and log densities (n,) of rows in the frame, with missing cells integrated out."""
    scores = log_densities(Z, params.law, patterns_of(Z), n_jobs=n_jobs)
    rows, logs, none = np.empty(len(Z)), log_weights(params), np.empty(0)

    def span(start: int) -> None:
        at = slice(start, start + SPAN)
        normalise(scores[at], logs, none, rows[at])

    parallel(span, range(0, len(Z), SPAN), n_jobs=n_jobs, work=20.0 * scores.size)
    return scores, rows


class Mixture(EMModel[MixtureParams, Sums]):
    """The rows (in the frame) and the steps over them."""

    def __init__(
        self, Z: Array, w: Array | None, kind: str, floor: Array, frame: Frame, *, n_jobs: int | None = None
    ) -> None:
        self.patterns = patterns_of(Z)
        self.w = np.empty(0) if w is None else w
        self.Z, self.kind, self.floor, self.frame, self.n_jobs = Z, kind, floor, frame, n_jobs
        self.size = float(len(Z)) if w is None else float(w.sum())
        self.whole, self.own = Z, self.w
        if self.patterns:
            complete = ~np.isnan(Z).any(axis=1)
            self.whole, self.own = np.ascontiguousarray(Z[complete]), self.w[complete] if self.w.size else self.w

    def e_step(self, params: MixtureParams) -> tuple[float, Sums]:
        """The log-likelihood of all rows, in the units of the data, and the expected sums."""
        logs, law, nothing = log_weights(params), params.law, np.empty(0)
        K = len(logs)

        def span(start: int) -> tuple[float, Tally]:
            tally, value, buffer = Tally(law), 0.0, np.empty((CHUNK, K))
            for at in range(start, min(start + SPAN, len(self.whole)), CHUNK):
                rows = self.whole[at : at + CHUNK]
                shares = buffer[: len(rows)]
                fill_densities(rows, law, shares)
                value += normalise(shares, logs, self.own[at : at + CHUNK], nothing)
                tally.add(rows, shares)
            return value, tally

        starts = range(0, max(1, len(self.whole)), SPAN)
        parts = parallel(span, starts, n_jobs=self.n_jobs, work=float(self.Z.size) * K)
        total, tally = reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]), parts)
        for pattern in self.patterns:
            seen = see(law, pattern)
            rows = np.ascontiguousarray(self.Z[pattern.rows[:, None], pattern.observed])
            shares = np.empty((len(rows), K))
            fill_densities(rows, seen.law, shares)
            total += normalise(shares, logs, self.w[pattern.rows] if self.w.size else self.w, nothing)
            tally.add_incomplete(rows, shares, seen)
        return total - self._units(), tally.sums()

    def _units(self) -> float:
        """What the log-likelihood loses for being computed in the frame: a missing cell has no unit."""
        if not self.patterns:
            return self.size * self.frame.log_volume
        there = ~np.isnan(self.Z)
        return float((self.w @ there if self.w.size else there.sum(axis=0)) @ np.log(self.frame.unit))

    def m_step(self, summary: Sums) -> MixtureParams:
        """Shares, means and covariances."""
        law, held = estimate(self.kind, summary, self.floor)
        return MixtureParams(summary.weight / summary.weight.sum(), law, held)

    def rescue(self, params: MixtureParams, times: int) -> MixtureParams | None:
        """A component that is empty, or has collapsed while others have not, takes half of a sound one.

        The sound one is split along its longest axis: the one of most weight, at the next rescue the second.
        """
        empty = params.weights < EMPTY
        lost = empty | (params.held & ~params.held.all() if self.kind not in ("tied", "shared") else empty)
        if times >= RESCUES or not lost.any() or lost.all():
            return None
        weights, means = params.weights.copy(), params.law.means.copy()
        covariances = params.law.covariances.copy()
        full = expand(params.law)
        for n, k in enumerate(np.flatnonzero(lost)):
            sound = np.flatnonzero(~lost)[np.argsort(-weights[~lost], kind="stable")]
            from_ = sound[(times + n) % sound.size]
            value, vector = np.linalg.eigh(full[from_])
            step = 0.5 * np.sqrt(value[-1]) * vector[:, -1]
            means[k], means[from_] = means[from_] + step, means[from_] - step
            weights[k] = weights[from_] = weights[from_] / 2
            if self.kind in ("full", "diag", "spherical"):
                covariances[k] = covariances[from_]
        law = gaussians(self.kind, means, covariances)
        return MixtureParams(weights / weights.sum(), law, np.zeros(len(weights), dtype=bool))

    def sound(self, params: MixtureParams) -> bool:
        """No component has collapsed."""
        return not params.held.any()

    def describe(self, params: MixtureParams) -> Mapping[str, Array]:
        """Weights, means and covariances in the units of the data."""
        means, covariances = to_units(params.law, self.frame)
        return {"weights": params.weights, "means": means, "covariances": covariances}


def to_units(law: Gaussians, frame: Frame) -> tuple[Array, Array]:
    """Means and covariances in the units of the data."""
    unit = frame.unit
    scale = {"full": np.outer(unit, unit), "tied": np.outer(unit, unit), "diag": unit**2}.get(law.kind, unit[0] ** 2)
    return frame.centre + law.means * unit, law.covariances * scale


def online_step(
    model: Mixture, params: MixtureParams, before: Sums | None, size: float, step: float
) -> tuple[MixtureParams, Sums]:
    """Statistics per row, (1 - step) of those before and `step` of the batch's, and the parameters they give.

    Without statistics from before, `params` speak for themselves.
    """
    if before is None:
        before = implied(params, size)
    _, batch = model.e_step(params)
    kept = scaled(before, (1.0 - step) / before.weight.sum())
    total = merge(kept, scaled(batch, step / batch.weight.sum()))
    return model.m_step(total), total


def implied(params: MixtureParams, size: float) -> Sums:
    """Sums of so many rows from which these parameters would be estimated."""
    weight, full = size * params.weights, expand(params.law)
    scatter = full if params.law.kind in ("full", "tied") else np.einsum("kii->ki", full)
    return Sums(weight, params.law.means, scatter * weight.reshape(-1, *[1] * (scatter.ndim - 1)))


# Who is to blame where the bound on variances is touched.


def table_is_singular(params: MixtureParams, floor: Array) -> bool:
    """Whether the covariance of all components together is at the bound in some direction."""
    centred = params.law.means - params.weights @ params.law.means
    total = np.einsum("k,kij->ij", params.weights, expand(params.law)) + (params.weights[:, None] * centred).T @ centred
    root = np.sqrt(floor)
    return bool(np.linalg.eigvalsh(total / np.outer(root, root))[0] < 1.0 + 1e-3)


def flat_columns(params: MixtureParams, floor: Array) -> Array:
    """Columns in which a component that the bound holds does not vary."""
    variances = np.einsum("kjj->kj", expand(params.law))[params.held]
    return np.flatnonzero((variances < 1.01 * floor).any(axis=0))
