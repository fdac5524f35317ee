"""Every public estimator, found by walking the families, and a few settings of it worth the same tests.

A new estimator is here by standing in the `__all__` of its family. `VARIANTS` adds settings that take another
road through the code; keep it small, each one runs through everything, in the slow tier.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

import assay
from assay.base import Estimator
from assay.bayes import BayesianLinearRegression
from assay.calibration import CalibratedClassifier
from assay.evaluation import Ensemble, SearchCV, ThresholdClassifier
from assay.generative import LinearDiscriminantAnalysis
from assay.linear import Ridge
from assay.neighbors import KNeighborsRegressor
from assay.neural import Dense
from assay.trees import BaggingClassifier, GradientBoostingRegressor
from tests.tiers import slow

# What stands for the defaults in the quick tier where they take seconds: the same method with less of it.
SMALL: dict[str, dict[str, Any]] = {
    "BaggingClassifier": {"n_estimators": 5},
    "BaggingRegressor": {"n_estimators": 5},
    "KMeans": {"n_clusters": 3},
    "LogisticRegressionCV": {"alphas": 8},
    "NeuralNetworkClassifier": {"hidden": (8,), "learning_rate": 0.02, "max_epochs": 100},
    "NeuralNetworkRegressor": {"hidden": (8,), "learning_rate": 0.02, "max_epochs": 100},
}

# Settings beside the defaults, by class name: the slow tier.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "BayesianLinearRegression": [{"sigma2": 1.0}, {"shape": 1.0, "rate": 1.0}],
    "BestSubset": [{"criterion": "cv"}],
    "DecisionTreeClassifier": [{"splitter": "hist", "max_leaf_nodes": 6}, {"multiway": True, "criterion": "log_loss"}],
    "DecisionTreeRegressor": [{"splitter": "hist"}, {"criterion": "absolute_error"}],
    "DeltaRule": [{"solver": "sgd", "order": "shuffled"}],
    "ElasticNet": [{"positive": True}],
    "GaussianMixture": [{"n_components": 3}, {"n_components": 2, "covariance_type": "shared"}],
    "GradientBoostingClassifier": [{"subsample": 0.5}, {"early_stopping": True, "validation_fraction": 0.3}],
    "GradientBoostingRegressor": [{"loss": "huber", "growth": "depth"}],
    "GaussianHMM": [{"covariance_type": "spherical"}],
    "HierarchicalClustering": [{"linkage": "single"}, {"linkage": "average", "metric": "gower"}],
    "KNeighborsClassifier": [
        {"n_neighbors": "loo", "weights": "kernel", "candidates": 5},
        {"metric": "manhattan", "smoothing": 1.0, "prior": "empirical"},
    ],
    "Lars": [{"method": "lasso"}],
    "Lasso": [{"selection": "greedy"}, {"selection": "random"}, {"budget": 10.0}],
    "LassoCV": [{"rule": "1se"}],
    "LeastSquaresClassifier": [{"alpha": 1.0}],
    "KMeans": [{"n_clusters": 2, "init": "random_partition", "n_init": 2}, {"n_clusters": 2, "algorithm": "minibatch"}],
    "LinearDiscriminantAnalysis": [{"shrinkage": "auto"}, {"covariance": "diagonal"}],
    "LinearRegression": [{"solver": "gradient"}, {"solver": "sgd"}],
    "LinearSVC": [{"loss": "hinge", "bias": "unpenalised"}, {"loss": "hinge", "solver": "sgd", "max_iter": 200}],
    "LinearSVR": [{"solver": "dual_ascent"}],
    "LocalRegression": [{"kernel": "tricube", "fraction": 0.6}],
    "LogisticRegression": [{"penalty": "l2"}, {"penalty": "l1"}, {"penalty": "l2", "solver": "gradient"}],
    "LogisticRegressionCV": [{"alphas": [0.1, 0.01], "cv": 3, "l1_ratio": 0.2}],
    "Perceptron": [{"variant": "averaged", "max_iter": 20, "shuffle": True}, {"variant": "voted", "kernel": "rbf"}],
    "NeuralNetworkClassifier": [{"layers": [Dense(6, "tanh")], "binary_units": 2, "optimizer": "sgd"}],
    "NeuralNetworkRegressor": [{"hidden": (6,), "early_stopping": True, "loss": "huber", "dropout": 0.1}],
    "PlugInClassifier": [{"bandwidth": 0.5}, {"density": KernelDensity()}],
    "PrincipalComponents": [{"scale": True}, {"solver": "randomized"}],
    "QuadraticDiscriminantAnalysis": [{"shrinkage": 0.5}, {"covariance": "diagonal"}, {"pooling": 0.5}],
    "RandomForestClassifier": [{"n_estimators": 5, "splitter": "exact", "vote": "majority"}],
    "RandomForestRegressor": [{"n_estimators": 5, "splitter": "exact", "oob_score": False}],
    "Ridge": [{"budget": 100.0}, {"positive": True}],
    "RidgeCV": [{"cv": 3}],
    "SVC": [{"solver": "dual_ascent", "bias": "augmented"}, {"kernel": "linear"}],
    "SVR": [{"kernel": "linear", "solver": "working_set"}],
    "Stepwise": [{"direction": "backward"}, {"direction": "both"}],
}

# Fits that draw random numbers: weights equal repetition in distribution, not to the bit.
DRAWS_ROWS = "the fit draws rows at random, so weights equal repetition in distribution; tested so below"


def draws_rows(estimator: Estimator) -> bool:
    """Whether the fit depends on rows drawn at random: a bootstrap, a subsample, a start, an order not forgotten."""
    setting = estimator.get_params(deep=False)
    held_out = setting.get("early_stopping") is True  # a share of the rows, drawn at random
    drawn = setting.get("bootstrap", False) or setting.get("subsample", 1.0) < 1.0
    started = isinstance(setting.get("init"), str)  # the first centres are rows drawn at random
    network = "batch_size" in setting  # initial weights, and an order of the rows that is not forgotten
    return setting.get("solver") == "sgd" or drawn or held_out or started or network


def families() -> dict[str, ModuleType]:
    """The packages among the public rooms of assay."""
    rooms = {name: getattr(assay, name) for name in assay.__all__ if not name.startswith("_")}
    return {name: room for name, room in rooms.items() if inspect.ismodule(room) and hasattr(room, "__path__")}


def public_names() -> dict[str, Any]:
    """Every public object of every family by its full name; the exception where one cannot be imported."""
    found: dict[str, Any] = {}
    for family, module in families().items():
        for name in getattr(module, "__all__", ()):
            try:
                found[f"assay.{family}.{name}"] = getattr(module, name)
            except Exception as error:  # told by test_house, name by name, instead of stopping all tests
                found[f"assay.{family}.{name}"] = error
    return found


def classes() -> list[type[Estimator]]:
    """Every public estimator class."""
    return [kind for kind in public_names().values() if inspect.isclass(kind) and issubclass(kind, Estimator)]


def instances() -> tuple[list[Estimator], list[Estimator]]:
    """Each class once, for the quick tier, and its other settings, for the slow one.

    Maps of a single column are left out, and classifiers that wrap another one: `wrappers` has those.
    """
    quick, more = [], []
    for kind in classes():
        if not get_tags(kind()).input_tags.two_d_array or kind.__module__.startswith("assay.calibration"):
            continue
        name = kind.__name__
        defaults = [{}] if name in SMALL else []
        quick.append(kind(**_seed(kind), **SMALL.get(name, {})))
        more += [kind(**_seed(kind), **setting) for setting in (*defaults, *VARIANTS.get(name, []))]
    return quick, more


def wrappers() -> list[Any]:
    """Estimators around another one, which says what they take."""
    return [
        CalibratedClassifier(),
        Ensemble([Ridge(), KNeighborsRegressor(2)], cv=2),
        SearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3, rule="one_se", simplicity=("alpha", "high")),
        ThresholdClassifier(LinearDiscriminantAnalysis(), cv=2),
    ]


def only_checked() -> list[Any]:
    """What scikit-learn's checks run on and nothing else, in the slow tier: guests inside ours, and overflows.

    With targets of 2^500 the last three let numpy's own warning out, which the bad-input grid refuses.
    """
    return [
        CalibratedClassifier(method="isotonic", cv=3, ensemble=True),
        CalibratedClassifier(GaussianNB(), method="isotonic"),
        Ensemble([LogisticRegression(), GaussianNB()], cv=2),
        SearchCV(RidgeClassifier(), {"alpha": [0.1, 1.0]}, cv=3, metric="error"),
        BaggingClassifier(LogisticRegression(), n_estimators=5, vote="probability"),
        BayesianLinearRegression(tau2=1.0, fit_intercept=False),
        GradientBoostingRegressor(early_stopping="cv", cv=2, min_samples_leaf=2),
        KNeighborsRegressor("loo", weights="distance", algorithm="kd_tree"),
    ]


def every(which: Callable[[Estimator], bool] = lambda estimator: True) -> pytest.MarkDecorator:
    """A test for every estimator of `which`: one setting in the quick tier, the others in the slow one."""
    cases = [pytest.param(e, id=label(e)) for e in QUICK if which(e)]
    more = [slow(e, id=label(e)) for e in SLOW if which(e)]
    return pytest.mark.parametrize("estimator", [*cases, *more])


def _seed(kind: type[Estimator]) -> dict[str, int]:
    """A seed for whoever draws numbers, so that two fits can be compared."""
    return {"random_state": 0} if "random_state" in inspect.signature(kind).parameters else {}


def label(estimator: Estimator) -> str:
    """A test id: the class and what differs from its defaults."""
    changed = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name != "random_state" and value is not inspect.signature(type(estimator)).parameters[name].default
    }
    return f"{type(estimator).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


# What an estimator takes and gives, asked of its tags and its methods.


def takes_sparse(estimator: Estimator) -> bool:
    """Whether the tags claim sparse X."""
    return bool(get_tags(estimator).input_tags.sparse)


def takes_weights(estimator: Estimator) -> bool:
    """Whether `fit` has a `sample_weight`."""
    return "sample_weight" in inspect.signature(estimator.fit).parameters


def takes_target(estimator: Estimator) -> bool:
    """Whether a wrong y can be told: it is required."""
    return bool(get_tags(estimator).target_tags.required)


def takes_sequences(estimator: Estimator) -> bool:
    """Whether rows are steps in time: answers depend on the rows before and after."""
    return "lengths" in inspect.signature(estimator.fit).parameters


def takes_gaps(estimator: Estimator) -> bool:
    """Whether the tags claim that NaN in X means missing."""
    return bool(get_tags(estimator).input_tags.allow_nan)


def takes_text(estimator: Estimator) -> bool:
    """Whether the tags claim columns of text."""
    return bool(get_tags(estimator).input_tags.string)


def takes_counts(estimator: Any) -> bool:
    """Whether the tags refuse numbers below zero."""
    return isinstance(estimator, Estimator) and bool(get_tags(estimator).input_tags.positive_only)


def answers(estimator: Estimator) -> list[Callable[[Any], Any]]:
    """The methods that map rows of X to rows of numbers: class probabilities first where there are some."""
    names = ("predict_proba", "predict", "transform")
    return [getattr(estimator, name) for name in names if hasattr(estimator, name)]


def answer(estimator: Estimator, X: Any) -> np.ndarray:
    """The estimator's main answer for each row, as a dense array with two dimensions.

    A clustering that labels no rows but those of its fit answers with their labels.
    """
    methods = answers(estimator)
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    given = methods[0](X) if methods else last.labels_
    given = given.toarray() if hasattr(given, "toarray") else np.asarray(given)
    return given.reshape(len(given), -1)


def with_splits(estimator: Estimator, groups: np.ndarray) -> Estimator:
    """The same estimator, cross-validating over given groups where it cross-validates at all."""
    if "cv" in estimator.get_params(deep=False):
        estimator.set_params(cv=list(LeaveOneGroupOut().split(np.zeros((len(groups), 1)), groups=groups)))
    return estimator


def regression(n: int = 40, p: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A table and a target that no method finds hard: independent columns of order one, some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    slopes = np.resize([2.0, -1.0, 0.5], p)
    return X, 1.0 + X @ slopes + 0.3 * rng.normal(size=n)


def easy(estimator: Any, n: int = 40, p: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The same table for every estimator; a classifier is asked whether its target is above one, which half are.

    Who takes nothing below zero gets it as counts.
    """
    X, y = regression(n, p, seed)
    if takes_counts(estimator):
        X = np.maximum(np.round(2.0 * X + 4.0), 0.0)
    return X, (y > 1.0).astype(np.int64) if is_classifier(estimator) else y


def frame(X: np.ndarray) -> pd.DataFrame:
    """The table with names that are easy to recognise in a message."""
    return pd.DataFrame(X, columns=[f"col_{chr(97 + j)}" for j in range(X.shape[1])])


QUICK, SLOW = instances()
