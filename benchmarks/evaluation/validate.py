"""Cross-validation of linear models from fold summaries beside scikit-learn's, which fits every training set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Lasso as PeerLasso
from sklearn.linear_model import LinearRegression as PeerLinearRegression
from sklearn.linear_model import Ridge as PeerRidge
from sklearn.model_selection import cross_validate as peer_cross_validate

from assay.evaluation import cross_validate
from assay.linear import Lasso, LinearRegression, Ridge
from assay.resampling import Folds, LeaveOneOut
from benchmarks.case import Case

__all__ = ["CASES"]


def table(n: int, p: int):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, X @ rng.normal(size=p) + 3.0 * rng.normal(size=n)


def folds() -> Any:
    return Folds(10, repeats=10, random_state=0)


def folds_once() -> Any:
    return Folds(10, random_state=0)


def peer(model: Any, splitter: Callable[[], Any], n_jobs: int | None = None):
    def run(data):
        found = peer_cross_validate(model, *data, cv=splitter(), scoring="neg_mean_squared_error", n_jobs=n_jobs)
        return -found["test_score"]

    return run


def ours(model: Any, splitter: Callable[[], Any]):
    def run(data):
        return cross_validate(model, *data, cv=splitter(), metric="mse").fold_scores

    return run


def against_a_fit(model: Any, splitter: Callable[[], Any]):
    """How far the first fold's error is from that of a fit of its training rows; both sides split alike."""

    def distance(scores, data) -> float:
        X, y = data
        train, test = next(iter(splitter().split(X, y)))
        fit = clone(model).fit(X[train], y[train])
        return float(abs(scores[0] / np.mean((y[test] - fit.predict(X[test])) ** 2) - 1))

    return distance


def repeated(name: str, our_model: Any, peers_model: Any, goal: float | None) -> Case:
    one, two = "scikit-learn cross_validate", "scikit-learn cross_validate, n_jobs=2"
    return Case(
        name=f"cross_validate of {name}, 10 folds x 10 repeats, 100,000 x 50",
        data=lambda: table(100_000, 50),
        ours=ours(our_model, folds),
        peers={one: peer(peers_model, folds), two: peer(peers_model, folds, n_jobs=2)},
        quality=against_a_fit(peers_model, folds),
        quality_name="relative distance of the first fold's error from a fit of its training rows",
        goals={} if goal is None else {one: goal, two: goal},
        slack=1e-6,
        repeats=5,
    )


CASES: list[Case] = [
    repeated("a ridge", Ridge(1.0), PeerRidge(1.0), 10.0),
    repeated("least squares", LinearRegression(), PeerLinearRegression(), None),
    Case(
        cold=True,
        name="cross_validate of a lasso, 10 folds, 100,000 x 50",
        data=lambda: table(100_000, 50),
        ours=ours(Lasso(0.05), folds_once),
        peers={"scikit-learn cross_validate": peer(PeerLasso(0.05, tol=1e-8), folds_once)},
        quality=against_a_fit(PeerLasso(0.05, tol=1e-8), folds_once),
        quality_name="relative distance of the first fold's error from a fit of its training rows",
        slack=1e-6,
        repeats=3,
    ),
    Case(
        name="leave-one-out of a ridge, 2,000 x 20",
        data=lambda: table(2_000, 20),
        ours=ours(Ridge(1.0), LeaveOneOut),
        peers={"scikit-learn cross_validate": peer(PeerRidge(1.0), LeaveOneOut)},
        quality=against_a_fit(PeerRidge(1.0), LeaveOneOut),
        quality_name="relative distance of the first row's error from a fit of the others",
        slack=1e-6,
        repeats=3,
    ),
]
