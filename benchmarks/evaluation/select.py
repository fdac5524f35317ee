"""Grid search beside scikit-learn's: a learner with summaries that add, many cheap fits, and fits that take time."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import Ridge as PeerRidge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeRegressor

from assay.evaluation.search import search
from assay.linear import Ridge
from assay.resampling import splits_of
from benchmarks.case import Case

__all__ = ["CASES"]

ALPHAS = np.geomspace(1e-2, 1e4, 30).tolist()
SMOOTH = {"var_smoothing": np.geomspace(1e-9, 1.0, 60).tolist()}
TREE = {"max_depth": [2, 4, 6, 8], "min_samples_leaf": [1, 5, 20]}


def rows(n: int, p: int, classes: bool = False) -> tuple[Any, Any, Any]:
    """A table with a signal in ten columns, and five folds that both sides use."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    y = X @ (rng.standard_normal(p) * (np.arange(p) < 10)) + 3.0 * rng.standard_normal(n)
    y = (y > 0).astype(int) if classes else y
    return X, y, splits_of(5, X, y, classes=classes)


def grid(estimator: Any, space: Any, scoring: str) -> Any:
    return lambda data: GridSearchCV(estimator, space, cv=data[2], scoring=scoring).fit(data[0], data[1])


def ours(estimator: Any, space: Any) -> Any:
    return lambda data: search(estimator, data[0], data[1], space, cv=data[2])


def best_error(found: Any, _: Any) -> float:
    """The least mean error, as each side computed it; the folds have equal sizes, so the two means are the same."""
    if hasattr(found, "best_score_"):
        return float(-found.best_score_ if found.best_score_ < 0 else 1 - found.best_score_)
    return float(found.table["estimate"].min())


CASES = [
    Case(
        "search: ridge, 30 alphas x 5 folds, 20,000 x 50",
        data=lambda: rows(20_000, 50),
        ours=ours(Ridge(inference=False), {"alpha": ALPHAS}),
        peers={"GridSearchCV": grid(PeerRidge(), {"alpha": ALPHAS}, "neg_mean_squared_error")},
        quality=best_error,
        quality_name="5-fold mse",
        slack=1e-6,
        repeats=3,
    ),
    Case(
        "search: naive Bayes of scikit-learn, 60 settings x 5 folds, 500 x 10",
        data=lambda: rows(500, 10, classes=True),
        ours=ours(GaussianNB(), SMOOTH),
        peers={"GridSearchCV": grid(GaussianNB(), SMOOTH, "accuracy")},
        quality=best_error,
        quality_name="5-fold error",
        slack=1e-9,
        repeats=3,
    ),
    Case(
        "search: tree of scikit-learn, 12 settings x 5 folds, 4,000 x 20",
        data=lambda: rows(4_000, 20),
        ours=ours(DecisionTreeRegressor(random_state=0), TREE),
        peers={"GridSearchCV": grid(DecisionTreeRegressor(random_state=0), TREE, "neg_mean_squared_error")},
        quality=best_error,
        quality_name="5-fold mse",
        slack=1e-9,
        repeats=3,
    ),
]
