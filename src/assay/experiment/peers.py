"""Boosting of other packages as learners of a study, by name: LightGBM, XGBoost, CatBoost, where they are installed.

They get the preprocessing of the panel, their own defaults and one thread, and their figures are as reproducible as
those packages. XGBoost wants classes as numbers from 0 on, and CatBoost gives them in a column: `Coded` stands between.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from assay.errors import ParameterError
from assay.state import Specs, Stateful, anything, classes, need

__all__ = ["PEERS", "Coded", "peer"]

Array = np.ndarray
PEERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "lightgbm": ("LightGBM", "LGBM", {"verbosity": -1, "n_jobs": 1}),
    "xgboost": ("XGBoost", "XGB", {"verbosity": 0, "n_jobs": 1}),
    "catboost": ("CatBoost", "CatBoost", {"verbose": False, "thread_count": 1, "allow_writing_files": False}),
}
"""Name -> what it is called, how its classes begin, and settings that keep it quiet and in one thread."""


def peer(name: str, task: str, seed: int) -> Any:
    """The estimator with its defaults.

    | parameter | range                             | meaning          |
    |-----------|-----------------------------------|------------------|
    | name      | "lightgbm", "xgboost", "catboost" | the package      |
    | task      | "regression", "classification"    | what it predicts |
    | seed      | a whole number                    | its seed         |
    """
    called, stem, quiet = PEERS[name]
    if find_spec(name) is None:
        raise ParameterError(f"{called} is not installed", remedy=f"install it: pip install {name}")
    kind = getattr(import_module(name), stem + ("Regressor" if task == "regression" else "Classifier"))
    made = kind(random_state=seed, **quiet)
    return made if task == "regression" or name == "lightgbm" else Coded(made)


class Coded(ClassifierMixin, Stateful, BaseEstimator):
    """A classifier that gets its classes as numbers from 0 on, and whose answers are turned back into classes.

    | parameter | range        | meaning                             |
    |-----------|--------------|-------------------------------------|
    | estimator | a classifier | fitted to numbers; cloned           |

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> Coded(DecisionTreeClassifier()).fit([[0.0], [1.0]], ["a", "b"]).predict([[1.0]]).tolist()
    ['b']
    """

    state: ClassVar[Specs] = {"classes_": classes("k"), "estimator_": anything}

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def _check_state(self) -> None:
        need(hasattr(self.estimator_, "predict_proba"), "the classifier gives no probabilities")

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier to the places of the classes in their order."""
        known, codes = np.unique(np.asarray(y), return_inverse=True)
        self.estimator_ = clone(self.estimator).fit(X, codes)
        self.classes_ = known
        return self

    def predict(self, X: Any) -> Array:
        """The classes."""
        return self.classes_[np.ravel(self.estimator_.predict(X)).astype(np.intp)]

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        return np.asarray(self.estimator_.predict_proba(X), dtype=float)
