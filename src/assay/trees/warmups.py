"""What trees compile: each estimator on numbers and on a table with categories and missing values."""

from __future__ import annotations

import numpy as np

from assay.numerics.warmup import Warmup, fits, small_table
from assay.shapley import ShapleyTask
from assay.trees import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

__all__ = ["WARMUPS"]


def _absolute_error() -> None:
    X, y = small_table()
    DecisionTreeRegressor(criterion="absolute_error").fit(X, y)
    RandomForestRegressor(2, criterion="absolute_error").fit(X, y)


def _losses() -> None:
    X, y = small_table()
    for loss in ("absolute_error", "huber", "quantile", "poisson"):
        target = abs(y) if loss == "poisson" else y
        GradientBoostingRegressor(loss=loss, n_estimators=2).fit(X, target)


def _importance() -> None:
    X, y = small_table()
    RandomForestRegressor(2).fit(X, y).permutation_importance(X, y)


def _shapley() -> None:
    X, y = small_table()
    forest, players = RandomForestRegressor(2).fit(X, y), np.arange(X.shape[1])
    forest.__shapley__(
        ShapleyTask(X, X, players, players.size, False, (0,), 2, lambda model, task: forest.__shapley__(task))
    )


WARMUPS = (
    *fits(GradientBoostingRegressor, native=True, n_estimators=2),
    *fits(GradientBoostingClassifier, native=True, n_estimators=2),
    *fits(RandomForestRegressor, native=True, n_estimators=2),
    *fits(RandomForestClassifier, native=True, n_estimators=2),
    *fits(PrunedTreeRegressor, native=True),
    *fits(PrunedTreeClassifier, native=True),
    *fits(DecisionTreeRegressor, native=True),
    *fits(DecisionTreeClassifier, native=True),
    *fits(BaggingRegressor, native=True, n_estimators=2),
    *fits(BaggingClassifier, native=True, n_estimators=2),
    Warmup("absolute error", _absolute_error),
    Warmup("losses of boosting", _losses),
    Warmup("multiway splits", lambda: DecisionTreeClassifier(multiway=True).fit(*small_table(3, categories=True))),
    Warmup("permutation importance", _importance),
    Warmup("Shapley values", _shapley),
)
