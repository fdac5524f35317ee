"""What a mixture gives to read: its components and their picture, and the choice among numbers and types of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy.linalg import eigh
from sklearn.base import clone

from assay.checks import choice, whole
from assay.constraints import none
from assay.errors import AssayWarning, DataError, ParameterError
from assay.latent._gaussian import KINDS, expand
from assay.levels import column_index
from assay.numbers import fmt
from assay.progress import track
from assay.results import Result
from assay.state import Specs, floats, ints, names, part

if TYPE_CHECKING:
    from assay.latent.mixture import GaussianMixture

__all__ = ["MixtureDensity", "MixtureSelection", "density_of", "select"]

Array = np.ndarray

MOST_POINTS = 5000
"""Rows kept for a picture."""


# Components.


@dataclass(frozen=True, eq=False, repr=False)
class MixtureDensity(Result):
    """The components of a mixture over some columns: weights (K,), means (K, p), covariances (K, p, p).

    `points` are rows to draw behind the density, with the component that each most probably belongs to in `labels`.
    """

    weights: Array
    means: Array
    covariances: Array
    columns: Array
    covariance_type: str
    size: float
    points: Array | None = None
    labels: Array | None = None
    state: ClassVar[Specs] = {
        "weights": floats("k"),
        "means": floats("k", "p"),
        "covariances": floats("k", "p", "p"),
        "columns": names("p"),
        "points": none | floats("n", "p"),
        "labels": none | ints("n", below="k"),
    }

    def pdf(self, x: Any) -> Array:
        """The density at rows of these columns."""
        return self.component_pdf(x) @ self.weights

    def component_pdf(self, x: Any) -> Array:
        """The density of each component at rows of these columns, (n, K)."""
        rows = np.asarray(x, dtype=np.float64).reshape(-1, len(self.columns))
        deviation = rows - self.means[:, None, :]
        solved = np.linalg.solve(self.covariances, deviation.transpose(0, 2, 1)).transpose(0, 2, 1)
        log_det = np.linalg.slogdet(self.covariances)[1]
        log = -0.5 * ((deviation * solved).sum(axis=2) + log_det[:, None] + rows.shape[1] * np.log(2 * np.pi))
        return np.exp(log).T

    def to_frame(self) -> pd.DataFrame:
        """One row per component: its weight, and mean and standard deviation of each column."""
        frame = pd.DataFrame({"weight": self.weights})
        for j, name in enumerate(self.columns):
            frame[f"mean of {name}"] = self.means[:, j]
            frame[f"sd of {name}"] = np.sqrt(self.covariances[:, j, j])
        return frame.rename_axis("component")

    def __str__(self) -> str:
        kind = f"{len(self.weights)} normal component{'s' if len(self.weights) > 1 else ''} ({self.covariance_type})"
        title = f"Mixture of {kind}, n = {fmt(self.size, 6)}"
        sd = np.sqrt(np.einsum("kjj->kj", self.covariances))
        cells = [[f"{fmt(100 * weight, 3)}%" for weight in self.weights]]
        for j in range(len(self.columns)):
            cells.append([f"{fmt(m)} ({fmt(s, 3)})" for m, s in zip(self.means[:, j], sd[:, j], strict=True)])
        heads = [f"component {k}" for k in range(len(self.weights))]
        table = pd.DataFrame(cells, index=["weight", *self.columns], columns=heads).to_string().splitlines()
        rule = "-" * max(map(len, [title, *table]))
        return "\n".join([title, rule, *table, rule, "mean (standard deviation) of each column"])

    def plane(self) -> MixtureDensity:
        """The two directions in which the components lie farthest apart, compared with their spread.

        They solve B v = lambda W v, with B the covariance of the means and W the mean covariance, both weighted.
        """
        centred = self.means - self.weights @ self.means
        between = (self.weights[:, None] * centred).T @ centred
        within = np.einsum("k,kij->ij", self.weights, self.covariances)
        A = eigh(between, within)[1][:, :-3:-1]
        return MixtureDensity(
            self.weights,
            self.means @ A,
            A.T @ self.covariances @ A,
            np.array(["direction 1", "direction 2"], dtype=object),
            self.covariance_type,
            self.size,
            None if self.points is None else self.points @ A,
            self.labels,
        )


def density_of(model: GaussianMixture, columns: Any, X: Any) -> MixtureDensity:
    """The components of a fitted mixture over some columns, and rows of them."""
    params = model._fitted()
    every = model._feature_names()
    asked = [columns] if isinstance(columns, str | int) else range(len(every)) if columns is None else columns
    chosen = [column_index(key, every, "columns") for key in asked]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ParameterError(f"columns = {columns!r} names a column twice or none", remedy="name different columns")
    unit = model._frame.unit
    full = expand(params.law) * np.outer(unit, unit)
    points = labels = None
    if X is not None:
        rows = model._table(X, reset=False)
        complete = np.flatnonzero(~np.isnan(rows[:, chosen]).any(axis=1))
        if not complete.size:
            raise DataError("no row of X has a value in all of these columns", remedy="pass other rows or columns")
        complete = complete[:: -(-complete.size // MOST_POINTS)]
        points, labels = rows[complete][:, chosen], model.predict(X)[complete].astype(np.int64)
    at = np.asarray(chosen)
    shown = np.array([every[j] for j in chosen], dtype=object)
    return MixtureDensity(
        params.weights, model.means_[:, at], np.ascontiguousarray(full[:, at[:, None], at]), shown,
        params.law.kind, model._size, points, labels,
    )  # fmt: skip


# Choice.


@dataclass(frozen=True, eq=False, repr=False)
class MixtureSelection(Result):
    """Mixtures of several sizes and covariance types by BIC, ICL and AIC; lower is better.

    `table` has one row per fit, `n_components` and `covariance_type` are what was chosen, `best_model` is the fitted
    mixture of that kind. Fits in which a component collapsed are listed, but their likelihood depends on `reg_covar`
    alone, so they win only where there is no other.
    """

    table: pd.DataFrame
    criterion: str
    best_model: Any
    size: float
    state: ClassVar[Specs] = {"best_model": part("latent.GaussianMixture")}

    @property
    def lowest(self) -> float:
        """The criterion of the winner."""
        same = self.table["covariance_type"] == self.covariance_type
        return float(self.table.loc[same & (self.table["n_components"] == self.n_components), self.criterion].iloc[0])

    @property
    def n_components(self) -> int:
        """The number of components that was chosen."""
        return int(self.best_model.n_components)

    @property
    def covariance_type(self) -> str:
        """The covariance type that was chosen."""
        return str(self.best_model.covariance_type)

    def to_frame(self) -> pd.DataFrame:
        """One row per fit: type, number, log-likelihood, free parameters, the criteria, and how the fit went."""
        return self.table.copy()

    def __str__(self) -> str:
        sound = self.table[~self.table["collapsed"]]
        top = (self.table if sound.empty else sound).nsmallest(5, self.criterion)
        word = {"bic": "BIC", "icl": "ICL", "aic": "AIC"}[self.criterion]
        title = f"Gaussian mixtures of {fmt(self.size, 6)} rows: {len(self.table)} fits by {word} (lower is better)"
        chosen = f"chosen  {self.n_components} components, covariance_type = {self.covariance_type!r}"
        columns = ["covariance_type", "n_components", "log_likelihood", "n_parameters", "bic", "icl", "aic"]
        body = top[columns].to_string(index=False, float_format=lambda value: fmt(value, 6)).splitlines()
        fallen = int(self.table["collapsed"].sum())
        notes = [f"{fallen} of {len(self.table)} fits had a collapsed component"] if fallen else []
        slow = int((~self.table["converged"]).sum())
        notes += [f"{slow} of {len(self.table)} fits did not converge; raise max_iter"] if slow else []
        rule = "-" * max(map(len, [title, chosen, *body, *notes]))
        return "\n".join([title, rule, chosen, rule, *body, *([rule, *notes] if notes else [])])


def select(
    model: GaussianMixture, X: Any, sizes: Any, kinds: Any, criterion: str, sample_weight: Any
) -> MixtureSelection:
    """Fit all of them; see `GaussianMixture.select`."""
    choice(criterion, "criterion", ("bic", "icl", "aic"))
    numbers = [whole(K, "n_components") for K in (sizes if isinstance(sizes, Iterable) else [sizes])]
    types = [choice(kind, "covariance_type", KINDS) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    if not numbers or not types:
        raise ParameterError("there are no candidates", remedy="pass at least one number and one type")
    given = ("weights_init", "means_init", "precisions_init", "covariances_init")
    if any(getattr(model, name) is not None for name in given):
        raise ParameterError("initial values fit only one number of components", remedy="leave them out for select")
    rows: list[dict[str, Any]] = []
    best: GaussianMixture | None = None
    lowest = (True, np.inf)
    for kind, K in track([(kind, K) for kind in types for K in numbers], "mixtures"):
        one = clone(model).set_params(n_components=K, covariance_type=kind, warm_start=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssayWarning)  # the table says it, fit by fit
            one.fit(X, sample_weight=sample_weight)
        bic, aic, icl = one._criteria(X, sample_weight)
        collapsed = bool(one._params.held.any())
        rows.append({
            "covariance_type": kind, "n_components": K, "log_likelihood": one.log_likelihood_,
            "n_parameters": one.n_parameters(), "bic": bic, "icl": icl, "aic": aic,
            "converged": one.converged_, "collapsed": collapsed,
        })  # fmt: skip
        rank = (collapsed, {"bic": bic, "icl": icl, "aic": aic}[criterion])
        if best is None or rank < lowest:
            best, lowest = one, rank
    assert best is not None
    return MixtureSelection(pd.DataFrame(rows), criterion, best, best._size)
