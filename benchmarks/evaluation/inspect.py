"""Permutation importance and partial dependence beside scikit-learn, at equal repeats and equal grids."""

from __future__ import annotations

import numpy as np
from sklearn import inspection
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

from assay.evaluation.dependence import partial_dependence
from assay.evaluation.importance import permutation_importance
from benchmarks.case import Case

__all__ = ["CASES"]

REPEATS = 10
SKLEARN_IMPORTANCE = "sklearn.inspection.permutation_importance"
SKLEARN_DEPENDENCE = "sklearn.inspection.partial_dependence"


def plane(n: int, p: int, learner):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = X @ rng.normal(size=p) + rng.normal(size=n)
    return learner.fit(X[: min(n, 5_000)], y[: min(n, 5_000)]), X, y


def our_importance(data):
    return permutation_importance(*data, n_repeats=REPEATS).importance


def their_importance(data):
    found = inspection.permutation_importance(
        *data, scoring="neg_mean_squared_error", n_repeats=REPEATS, random_state=0
    )
    return found.importances_mean


def from_many_repeats(outcome, data) -> float:
    """The largest distance from what scikit-learn finds with other permutations, relative to the largest importance."""
    model, X, y = data
    other = inspection.permutation_importance(
        model, X, y, scoring="neg_mean_squared_error", n_repeats=REPEATS, random_state=1
    ).importances_mean
    return float(np.abs(outcome - other).max() / other.max())


def importance_case(name: str, data) -> Case:
    return Case(
        name=f"permutation importance with standard errors, {name}, {REPEATS} repeats",
        data=data,
        ours=our_importance,
        peers={SKLEARN_IMPORTANCE: their_importance},
        quality=from_many_repeats,
        quality_name="distance from other permutations",
        slack=0.05,
        repeats=3,
    )


def grid_of(X) -> np.ndarray:
    return np.unique(np.quantile(X[:, 0], np.linspace(0, 1, 50)))


def our_dependence(data):
    model, X, _ = data
    return partial_dependence(model, X, 0, grid=grid_of(X)).average[0]


def their_dependence(data):
    model, X, _ = data
    found = inspection.partial_dependence(model, X, [0], kind="average", method="brute", custom_values={0: grid_of(X)})
    return found["average"][0]


def dependence_case(name: str, data) -> Case:
    return Case(
        name=f"partial dependence with a band, {name}, 50 points",
        data=data,
        ours=our_dependence,
        peers={SKLEARN_DEPENDENCE: their_dependence},
        quality=lambda outcome, data: float(np.abs(outcome - their_dependence(data)).max()),
        quality_name="distance from scikit-learn's",
        slack=1e-10,
        repeats=3,
    )


def small_forest():
    return plane(500, 20, RandomForestRegressor(30, max_depth=8, random_state=0))


CASES: list[Case] = [
    importance_case("ridge, 50,000 x 30", lambda: plane(50_000, 30, Ridge())),
    importance_case("forest of 30 trees, 500 x 20", small_forest),
    dependence_case("ridge, 50,000 x 30", lambda: plane(50_000, 30, Ridge())),
    dependence_case("forest of 30 trees, 500 x 20", small_forest),
]
"""Benchmarks of model inspection."""
