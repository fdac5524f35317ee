"""Where EM for a mixture begins: rows grouped by k-means or at random, or the user's own values.

Groups are found among the distinct rows, in an order that their values alone decide, each with the weight of its
repetitions: neither the order of the rows nor whether one is weighted or repeated changes a start. Columns are scaled
by their standard deviation unless all variances are equal. Here alone a missing cell counts as the column's mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.checks import probabilities
from assay.clustering import KMeans
from assay.errors import AssayWarning, DataError, ParameterError
from assay.latent._gaussian import Frame, Gaussians, Sums, gaussians, log_densities, weighted_sums
from assay.latent._mixture_steps import Mixture, MixtureParams

__all__ = ["Given", "Starts", "given_start"]

Array = np.ndarray

MOST = 20_000
"""More distinct rows than this are thinned out, evenly by weight, before they are grouped."""
POOLED = 0.1
"""A group's start covariance holds the pooled one with the weight of a tenth of an average group: one row has none."""
SOFT = 1e-3
"""Part of each row that all given means share, so that none of them begins without a row."""


class Starts:
    """The starts of one table, each from a seed of its own."""

    def __init__(self, model: Mixture, K: int) -> None:
        self.model, self.K = model, K
        Z = model.Z
        self.mean, self.variance = column_moments(Z, model.w)
        one_unit = model.kind in ("spherical", "shared")
        self.unit = np.ones(Z.shape[1]) if one_unit else np.sqrt(np.where(self.variance > 0, self.variance, 1.0))
        filled = np.where(np.isnan(Z), self.mean, Z) if model.patterns else Z
        self.rows = np.ascontiguousarray(filled / self.unit)
        self.distinct, self.weight = _distinct(self.rows, model.w)
        if len(self.distinct) < K:
            found = len(self.distinct)
            rows = "is one distinct row" if found == 1 else f"are {found} distinct rows"
            raise DataError(f"n_components = {K}, but there {rows}", remedy=f"set n_components to at most {found}")

    def make(self, how: str, seed: np.random.SeedSequence) -> MixtureParams:
        """Parameters from one random start; `how` is a value of `init_params`."""
        rng = np.random.default_rng(seed)
        if how == "random" and self.K > 1:
            shares = rng.random((len(self.rows), self.K))
            shares /= shares.sum(axis=1, keepdims=True)
            centres = np.broadcast_to(self.mean / self.unit, (self.K, self.rows.shape[1]))
        else:
            centres = self._centres(how, rng)
            shares = self.hard_shares(centres)
        return self.from_shares(shares, centres * self.unit)

    def hard_shares(self, centres: Array, soft: float = 0.0) -> Array:
        """Each row belongs to its nearest centre, but for a part that all share."""
        shares = np.full((len(self.rows), self.K), soft / self.K)
        shares[np.arange(len(shares)), nearest_centre(self.rows, centres)] += 1.0 - soft
        return shares

    def _centres(self, how: str, rng: np.random.Generator) -> Array:
        """K points of the scaled rows."""
        rows, weight = self.distinct, self.weight
        if self.K == 1:
            return (weight @ rows / weight.sum())[None]
        if how == "random_from_data":
            return rows[np.sort(rng.choice(len(rows), self.K, replace=False, p=weight / weight.sum()))]
        if len(rows) > max(MOST, 10 * self.K):
            reach = np.cumsum(weight)
            even = np.searchsorted(reach, (np.arange(MOST) + 0.5) / MOST * reach[-1])
            taken, times = np.unique(even, return_counts=True)
            rows, weight = rows[taken], times.astype(np.float64)
        if how == "k-means++":
            return spread_out(rows, weight, self.K, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssayWarning)  # a start need not have converged
            means = KMeans(self.K, random_state=rng, n_jobs=self.model.n_jobs).fit(rows, sample_weight=weight)
        return means.cluster_centers_

    def from_shares(self, shares: Array, centres: Array) -> MixtureParams:
        """One M step from shares of the rows, with some of the pooled covariance in each."""
        model = self.model
        shares = shares * model.w[:, None] if model.w.size else shares
        sums = weighted_sums(model.Z, shares, self.reference(centres), model.patterns, n_jobs=model.n_jobs)
        total = sums.weight.sum()
        extra = POOLED * total / self.K
        pooled = extra * sums.scatter.sum(axis=0) / total
        N = sums.weight.reshape(-1, *[1] * (sums.scatter.ndim - 1))
        return model.m_step(Sums(sums.weight, sums.mean, (sums.scatter + pooled) * (N / (N + extra))))

    def reference(self, centres: Array) -> Gaussians:
        """Components at the centres, with the variances of the whole table."""
        kind, K = self.model.kind, self.K
        variance = np.maximum(self.variance, self.model.floor)
        shape: Any = {
            "full": lambda: np.repeat(np.diag(variance)[None], K, axis=0),
            "tied": lambda: np.diag(variance),
            "diag": lambda: np.repeat(variance[None], K, axis=0),
            "spherical": lambda: np.full(K, variance.mean()),
            "shared": lambda: np.full(1, variance.mean()),
        }
        return gaussians(kind, np.ascontiguousarray(centres), shape[kind]())


def column_moments(Z: Array, w: Array) -> tuple[Array, Array]:
    """Weighted mean and variance of each column, over what is not missing."""
    there = ~np.isnan(Z)
    weight = (there * w[:, None] if w.size else there).astype(np.float64)
    N = weight.sum(axis=0)
    mean = (weight * np.where(there, Z, 0.0)).sum(axis=0) / N
    return mean, (weight * np.square(np.where(there, Z - mean, 0.0))).sum(axis=0) / N


def nearest_centre(rows: Array, centres: Array) -> Array:
    """The centre nearest to each row; ties go to the first."""
    return log_densities(rows, gaussians("shared", centres, np.ones(1))).argmax(axis=1)


def _distinct(rows: Array, w: Array) -> tuple[Array, Array]:
    """Distinct rows ordered by a fixed projection, and their weights."""
    key = (rows * np.random.default_rng(0).normal(size=rows.shape[1])).sum(axis=1)
    order = np.argsort(key, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)])
    weight = np.add.reduceat(w[order] if w.size else np.ones(len(rows)), first)
    return np.ascontiguousarray(ordered[first]), weight


def spread_out(rows: Array, weight: Array, K: int, rng: np.random.Generator) -> Array:
    """K rows, each drawn with a chance that grows with its squared distance to those before (k-means++)."""
    chosen: list[int] = []
    least = np.ones(len(rows))
    for _ in range(K):
        reach = np.cumsum(weight * least)
        chosen.append(int(np.searchsorted(reach, rng.random() * reach[-1], side="right")))
        distance = np.square(rows - rows[chosen[-1]]).sum(axis=1)
        least = distance if len(chosen) == 1 else np.minimum(least, distance)
    return rows[chosen]


# Given values.


@dataclass(frozen=True, eq=False)
class Given:
    """What the user said of the start, in the units of the data; None where nothing was."""

    weights: Any = None
    means: Any = None
    covariances: Any = None
    precisions: Any = None

    @property
    def nothing(self) -> bool:
        """Whether all is left to `init_params`."""
        return all(one is None for one in (self.weights, self.means, self.covariances, self.precisions))

    @property
    def everything(self) -> bool:
        """Whether nothing is left to `init_params`."""
        spread = self.covariances is not None or self.precisions is not None
        return self.weights is not None and self.means is not None and spread


def given_start(
    given: Given,
    kind: str,
    K: int,
    frame: Frame,
    starts: Starts | None = None,
    otherwise: Callable[[], MixtureParams] | None = None,
) -> MixtureParams:
    """The start with the user's values in it; what was not given follows from the rows nearest to the given means.

    `otherwise()` makes a start where no means were given; unless everything was given both arguments are needed.
    """
    p = frame.centre.size
    means, weights = None, None if given.weights is None else _shares(given.weights, K)
    if given.means is not None:
        means = np.ascontiguousarray((_numbers(given.means, "means_init", (K, p)) - frame.centre) / frame.unit)
    covariances = _covariances(given, kind, K, p, frame)
    if starts is not None and otherwise is not None:
        if means is not None:
            made = starts.from_shares(starts.hard_shares(means / starts.unit, SOFT), means)
        else:
            made = otherwise()
        weights = made.weights if weights is None else weights
        means = made.law.means if means is None else means
        covariances = made.law.covariances if covariances is None else covariances
    assert weights is not None
    assert means is not None
    assert covariances is not None
    return MixtureParams(weights, gaussians(kind, means, covariances), np.zeros(K, dtype=bool))


def _numbers(value: Any, name: str, shape: tuple[int, ...]) -> Array:
    try:
        found = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} contains a non-numeric value", remedy=f"pass an array of {shape}") from error
    if found.shape != shape:
        raise ParameterError(f"{name} has shape {found.shape}", remedy=f"expected {shape}")
    if not np.isfinite(found).all():
        raise ParameterError(f"{name} contains NaN or inf", remedy="give finite numbers")
    return found


def _shares(value: Any, K: int) -> Array:
    weights = probabilities(value, "weights_init", (K,))
    return weights / weights.sum()


def _covariances(given: Given, kind: str, K: int, p: int, frame: Frame) -> Array | None:
    """Covariances in the frame, from covariances_init or precisions_init."""
    if given.covariances is not None and given.precisions is not None:
        what = "covariances_init and precisions_init are both given"
        raise ParameterError(what, remedy="pass one of them")
    name = "covariances_init" if given.covariances is not None else "precisions_init"
    value = given.covariances if given.covariances is not None else given.precisions
    if value is None:
        return None
    shape: Any = {"full": (K, p, p), "tied": (p, p), "diag": (K, p), "spherical": (K,), "shared": (1,)}[kind]
    if kind == "shared" and np.ndim(value) == 0:
        value = [value]
    found = _numbers(value, name, shape)
    matrices = kind in ("full", "tied")
    if matrices and not np.allclose(found, np.swapaxes(found, -1, -2), rtol=1e-8, atol=0):
        raise ParameterError(f"{name} is not symmetric", remedy="give symmetric, positive definite matrices")
    positive = np.linalg.eigvalsh(found).min() > 0 if matrices else found.min() > 0
    if not positive:
        raise ParameterError(f"{name} is not positive definite", remedy="give symmetric, positive definite matrices")
    if name == "precisions_init":
        found = np.linalg.inv(found) if matrices else 1.0 / found
    unit = frame.unit
    return np.asarray(found / (np.outer(unit, unit) if matrices else unit**2 if kind == "diag" else unit[0] ** 2))
