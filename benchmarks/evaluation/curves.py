"""Learning and validation curves beside scikit-learn's, which have no limits; bootstrap bands beside a plain loop."""

from __future__ import annotations

import numpy as np
import sklearn.model_selection as sk
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import resample

from assay.evaluation.bands import bootstrap_band
from assay.evaluation.curves import learning_curve, validation_curve
from benchmarks.case import Case

__all__ = ["CASES"]

SIZES = [0.1, 0.2, 0.4, 0.7, 1.0]
DEPTHS = [1, 2, 4, 6, 8, 12]
FOLDS = sk.KFold(10, shuffle=True, random_state=0)
TREE = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
GRID = np.linspace(-2, 2, 50)


def table(n: int, p: int):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + rng.normal(0, 0.5, n)


def one_column(n: int):
    X, y = table(n, 2)
    return X[:, :1], y


def their_learning(data):
    _, _, test = sk.learning_curve(
        TREE, *data, train_sizes=SIZES, cv=FOLDS, scoring="neg_mean_squared_error", shuffle=True, random_state=0
    )
    return -test.mean(axis=1)


def their_validation(data):
    grid = {"param_name": "max_depth", "param_range": DEPTHS}
    _, test = sk.validation_curve(TREE, *data, **grid, cv=FOLDS, scoring="neg_mean_squared_error")
    return -test.mean(axis=1)


def whole_fold(outcome, data) -> float:
    """At full size both are plain cross-validation."""
    exact = -sk.cross_val_score(TREE, *data, cv=FOLDS, scoring="neg_mean_squared_error").mean()
    return abs(outcome[-1] - exact)


def by_definition(outcome, data) -> float:
    return float(np.abs(outcome - their_validation(data)).max())


def loop(data):
    X, y = data
    curves = [LinearRegression().fit(*resample(X, y, random_state=b)).predict(GRID[:, None]) for b in range(499)]
    return np.std(curves, axis=0, ddof=1)


def against_theory(outcome, data) -> float:
    """The largest relative distance from the sandwich standard error."""
    X, y = data
    Z = np.column_stack([np.ones(len(y)), X])
    r = y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
    A = np.linalg.inv(Z.T @ Z)
    V = A @ (Z.T * r**2) @ Z @ A
    G = np.column_stack([np.ones(GRID.size), GRID])
    return float(np.abs(outcome / np.sqrt(np.einsum("gi,ij,gj->g", G, V, G)) - 1).max())


CASES: list[Case] = [
    Case(
        name="learning curve with bands, tree, 2,000 x 10, 5 sizes x 10 folds",
        data=lambda: table(2_000, 10),
        ours=lambda d: learning_curve(TREE, *d, sizes=SIZES, cv=FOLDS, metric="mse").estimate,
        peers={"scikit-learn learning_curve (no limits)": their_learning},
        quality=whole_fold,
        quality_name="distance from cross-validation at full size",
        slack=1e-12,
        repeats=3,
    ),
    Case(
        name="validation curve with bands, tree, 2,000 x 10, 6 depths x 10 folds",
        data=lambda: table(2_000, 10),
        ours=lambda d: validation_curve(TREE, *d, "max_depth", DEPTHS, cv=FOLDS, metric="mse").estimate,
        peers={"scikit-learn validation_curve (no limits)": their_validation},
        quality=by_definition,
        quality_name="distance from scikit-learn",
        slack=1e-12,
        repeats=3,
    ),
    Case(
        name="bootstrap band of a line, n = 1,000, 499 resamples, both kinds",
        data=lambda: one_column(1_000),
        ours=lambda d: bootstrap_band(LinearRegression(), *d, GRID, n_resamples=499).std_error,
        peers={"a loop over sklearn.utils.resample": loop},
        quality=against_theory,
        quality_name="relative distance from the sandwich standard error",
        slack=0.1,
        repeats=3,
    ),
]
