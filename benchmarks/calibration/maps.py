"""Isotonic and logistic maps of a million scores, and cross-fitted calibration, beside scikit-learn's."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB

from assay.calibration import CalibratedClassifier, IsotonicMap, LogisticMap
from assay.metrics import log_loss
from benchmarks.case import Case

__all__ = ["CASES"]

SKLEARN = "scikit-learn"


class Margin(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose score is the column itself, so that the peer's time is that of its map."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0]


def scores(n: int, digits: int | None = None):
    rng = np.random.default_rng(0)
    s = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-(2 * s - 0.5)))).astype(int)
    return s if digits is None else np.round(s, digits), y


def sklearn_isotonic(data):
    s, y = data
    return IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(s, y).predict(s)


def our_isotonic(data):
    s, y = data
    return IsotonicMap(ends="exact").fit(s, y).predict(s)


def sklearn_sigmoid(data):
    s, y = data
    rows = np.arange(s.size)
    X = s[:, None]
    model = CalibratedClassifierCV(FrozenEstimator(Margin().fit(X, y)), cv=[(rows, rows)], ensemble=True)
    return model.fit(X, y).predict_proba(X)[:, 1]


def our_sigmoid(data):
    s, y = data
    return LogisticMap().fit(s, y).predict(s)


def squared_error(p, data) -> float:
    return float(np.mean((data[1] - p) ** 2))


def smoothed_loss(p, data) -> float:
    """Platt's objective per row: both sides minimise it."""
    y = data[1]
    high, low = (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2)
    t = np.where(y == 1, high, low)
    return float(-np.mean(t * np.log(p) + (1 - t) * np.log1p(-p)))


def folds(X):
    return StratifiedKFold(10, shuffle=True, random_state=0).split(X[0], X[1])


def cross_fitted(n: int, method: str):
    X, y = make_classification(2 * n, n_features=20, n_informative=6, n_redundant=10, flip_y=0.1, random_state=0)
    return (X[:n], y[:n]), (X[n:], y[n:]), method


def our_cross_fit(data):
    train, test, method = data
    model = CalibratedClassifier(GaussianNB(), method=method, cv=list(folds(train))).fit(*train)
    return model.predict_proba(test[0])[:, 1]


def sklearn_cross_fit(data):
    train, test, method = data
    theirs = {"logistic": "sigmoid"}.get(method, method)
    model = CalibratedClassifierCV(GaussianNB(), method=theirs, cv=list(folds(train)), ensemble=False).fit(*train)
    return model.predict_proba(test[0])[:, 1]


def fresh_log_loss(p, data) -> float:
    return float(log_loss(data[1][1], p))


def isotonic(name: str, digits: int | None, cold: bool = False) -> Case:
    return Case(
        name=name,
        data=lambda: scores(1_000_000, digits),
        ours=our_isotonic,
        peers={f"{SKLEARN} IsotonicRegression": sklearn_isotonic},
        quality=squared_error,
        quality_name="mean squared error",
        goals={f"{SKLEARN} IsotonicRegression": 3.0},
        slack=1e-12,
        repeats=5,
        cold=cold,
    )


def cross_fit(method: str) -> Case:
    return Case(
        name=f"cross-fitted {method} calibration of naive Bayes, 100,000 x 20, 10 folds",
        data=lambda: cross_fitted(100_000, method),
        ours=our_cross_fit,
        peers={f"{SKLEARN} CalibratedClassifierCV": sklearn_cross_fit},
        quality=fresh_log_loss,
        quality_name="log loss on fresh rows",
        goals={f"{SKLEARN} CalibratedClassifierCV": 1.0},
        slack=1e-6,
        repeats=5,
    )


CASES: list[Case] = [
    isotonic("isotonic map, fit and predict, 1,000,000 scores", None, cold=True),
    isotonic("isotonic map, fit and predict, 1,000,000 scores with ties", 2),
    Case(
        name="logistic map, fit and predict, 1,000,000 scores",
        data=lambda: scores(1_000_000),
        ours=our_sigmoid,
        peers={f"{SKLEARN} CalibratedClassifierCV(sigmoid) of a frozen model": sklearn_sigmoid},
        quality=smoothed_loss,
        quality_name="Platt's objective",
        goals={f"{SKLEARN} CalibratedClassifierCV(sigmoid) of a frozen model": 8.0},
        slack=1e-12,
        repeats=5,
    ),
    cross_fit("logistic"),
    cross_fit("isotonic"),
]
