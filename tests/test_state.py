"""Fitted state: every public estimator declares it, and comes back from it to the bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

from assay.calibration import CalibratedClassifier, IsotonicMap, LogisticMap
from assay.constraints import integer
from assay.errors import AssayError, DataTypeError
from assay.generative import PlugInClassifier
from assay.linear import SIS, LinearRegression, LogisticRegression, PolynomialBasis, Ridge, SplineBasis
from assay.neighbors import KNeighborsClassifier
from assay.neural import (
    SGD,
    BatchNormalization,
    Conv2D,
    Cosine,
    Dense,
    Dropout,
    Huber,
    MaxPool,
    NeuralNetworkClassifier,
    NeuralNetworkRegressor,
    Penalty,
    Residual,
)
from assay.state import StateError, Stateful, check_state, floats, from_state, ints, labels, size, to_state
from assay.trees import BaggingClassifier, GradientBoostingRegressor, PrunedTreeClassifier, RandomForestClassifier
from tests import estimators
from tests.experiment.mutants import METHODS, bare


def no_guests(value: Any) -> Any:
    raise AssertionError(f"{type(value).__name__} is not part of assay")


def again(model: Any) -> Any:
    tree, arrays = to_state(model, no_guests)
    return from_state(json.loads(json.dumps(tree)), [np.array(one, order="C") for one in arrays], no_guests)


def same(model: Any, X: Any) -> None:
    found = again(model)
    for name in METHODS:
        if hasattr(model, name):
            assert np.array_equal(getattr(found, name)(X), getattr(model, name)(X)), name
    before, arrays = to_state(model, no_guests)
    after, others = to_state(found, no_guests)
    assert after == before
    for one, other in zip(arrays, others, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


@pytest.mark.filterwarnings("ignore::assay.errors.AssayWarning")
def test_every_public_estimator_comes_back_to_the_bit():
    seen = set()
    for _, model, X in bare():
        same(model, X)
        seen.add(type(model))
    # Those that are not fitted to a table of numbers have their own test below.
    assert set(estimators.classes()) - seen == {CalibratedClassifier, IsotonicMap, LogisticMap}


@pytest.mark.filterwarnings("ignore")  # of directions that twelve rows leave open
@pytest.mark.parametrize("shape", [(12, 30), (5, 3)])
def test_estimators_of_few_rows_come_back_to_the_bit(shape):
    stored = 0
    for kind in estimators.QUICK:
        X, y = estimators.easy(kind, *shape)
        try:
            model = clone(kind).fit(X, y)
        except (AssayError, ValueError):
            continue  # too few rows for it
        same(model, X)
        stored += 1
    assert stored > 0.6 * len(estimators.QUICK)


@pytest.mark.parametrize(
    "model", [PrunedTreeClassifier(), RandomForestClassifier(n_estimators=3), GradientBoostingRegressor(n_estimators=3)]
)
def test_trees_that_split_missing_values_from_all_others_come_back(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    X[::3, 0] = np.nan
    y = np.isnan(X[:, 0]).astype(int)
    model.set_params(random_state=0).fit(X, y)
    assert np.isinf(model.nodes_.threshold).any()
    same(model, X)


LAYERS = [
    Conv2D(3, (1, 2), activation="relu", padding="same", penalty=Penalty(ridge=0.1)),
    MaxPool((2, 1)),
    BatchNormalization(),
    Residual([Dropout(0.1), Conv2D(3, 2, padding="same")]),
    Dense(4, "tanh"),
]
MORE = [
    SplineBasis(natural=True),
    SplineBasis(extrapolation="periodic"),
    PolynomialBasis(degree=3, orthogonal=True, include_bias=True),
    RandomForestClassifier(n_estimators=3, vote="majority", random_state=0),
    BaggingClassifier(LogisticRegression(penalty="l2"), n_estimators=3, max_features=0.5, random_state=0),
    BaggingClassifier(n_estimators=3, max_samples=0.5, random_state=0),
    SIS(estimator=Ridge(), n_keep=2),
    PlugInClassifier(density="normal"),
    LogisticRegression(inference=False, penalty="l1"),
    KNeighborsClassifier(metric="mahalanobis", weights="kernel"),
    KNeighborsClassifier(algorithm="kd_tree", leaf_size=3),
    NeuralNetworkClassifier(layers=LAYERS, image_shape=(2, 2, 1), max_epochs=2, penalty=Penalty(lasso=0.1)),
    NeuralNetworkRegressor(hidden=(), loss=Huber(2.0), optimizer=SGD(), schedule=Cosine(), early_stopping=True),
]


@pytest.mark.filterwarnings("ignore::assay.errors.AssayWarning")
@pytest.mark.parametrize("model", MORE, ids=estimators.label)
def test_settings_that_hold_other_things_come_back_to_the_bit(model):
    X, y = estimators.easy(model, n=60)
    same(model.fit(X, y), X)


@pytest.mark.parametrize("weights", [None, np.arange(60) % 3])
def test_classes_of_text_and_weights_come_back(weights):
    X, y = estimators.regression(60)
    names = np.array(["low", "mid", "high"], dtype=object)[np.digitize(y, [0.0, 1.5])]
    for model in (KNeighborsClassifier(), RandomForestClassifier(n_estimators=3, random_state=0)):
        same(model.fit(X, names, sample_weight=weights), X)


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
@pytest.mark.parametrize("ensemble", [False, True])
def test_calibrated_classifiers_come_back(method, ensemble):
    X, y = estimators.regression(60)
    names = np.where(y > 1, "yes", "no")
    model = CalibratedClassifier(LogisticRegression(penalty="l2"), method=method, ensemble=ensemble, cv=3).fit(X, names)
    same(model, X)
    for maps in model.calibrators_:
        assert np.array_equal(again(maps[0]).predict(X[:, 0]), maps[0].predict(X[:, 0]))


def test_estimators_that_are_not_fitted_keep_their_parameters():
    model = again(BaggingClassifier(LogisticRegression(C=3.0), n_estimators=7))
    assert (model.n_estimators, model.estimator.C) == (7, 3.0)
    assert not hasattr(model, "estimators_")


def test_how_rows_were_drawn_does_not_travel():
    X, y = estimators.regression()
    model = LinearRegression(random_state=np.random.default_rng(0)).fit(X, y)
    assert again(model).random_state is None


def test_requests_for_metadata_do_not_travel():
    X, y = estimators.regression()
    with config_context(enable_metadata_routing=True):
        same(Ridge().set_fit_request(sample_weight=True).fit(X, y), X)


def test_an_attribute_that_nobody_declared_is_refused():
    X, y = estimators.regression()
    model = Ridge().fit(X, y)
    model.extra_ = 3
    with pytest.raises(DataTypeError, match="extra_, which its state does not declare"):
        to_state(model, no_guests)


def test_objects_that_hold_themselves_are_refused():
    model = Ridge()
    model.alpha = [model]
    with pytest.raises(DataTypeError, match="contains itself"):
        to_state(model, no_guests)


def test_a_subclass_of_a_user_is_not_ours():
    class Mine(Ridge):
        pass

    with pytest.raises(AssertionError, match="Mine is not part of assay"):
        to_state(Mine(), no_guests)


def test_names_of_classes_are_unique_and_need_no_module():
    assert to_state(Ridge(), no_guests)[0]["object"] == "linear.Ridge"
    with pytest.raises(TypeError, match="needs a state_name"):
        type("Ridge", (Stateful,), {"__module__": "assay.linear.other"})


# The declaration.


def fits(spec: Any, value: Any, **sizes: int) -> bool:
    return spec.fits(value, sizes)


def test_sizes_must_agree():
    sizes: dict[str, int] = {}
    assert floats("k", "p").fits(np.zeros((2, 3)), sizes)
    assert sizes == {"k": 2, "p": 3}
    assert floats("p+1").fits(np.zeros(4), sizes)
    assert not floats("p").fits(np.zeros(2), sizes)
    assert not size("k").fits(3, sizes)
    assert (floats("p") | floats("k")).fits(np.zeros(2), sizes)


@pytest.mark.parametrize(
    ("spec", "good", "bad"),
    [
        (floats(None), np.zeros(2), np.zeros(2, dtype=np.float32)),
        (floats(None), np.zeros(2), np.zeros((2, 1))),
        (floats(None), np.zeros(2), np.array([0.0, np.nan])),
        (floats(None), np.zeros(2), [0.0, 0.0]),
        (floats(None, rising=True), np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0])),
        (floats(None, low=0.0, high=1.0), np.array([0.0, 1.0]), np.array([0.0, 1.5])),
        (floats(None, low=0.0, high=1.0), np.array([0.0, 1.0]), np.array([-0.5, 1.0])),
        (ints(None), np.array([0]), np.array([-1])),
        (ints(None, below=3), np.array([2]), np.array([3])),
        (labels(None), np.array(["a", "b"]), np.array(["a", "a"])),
        (labels(None), np.array([1.0, 2.0]), np.array([1.0, np.nan])),
        (labels(None), np.array(["a", 1], dtype=object), np.array([[1]], dtype=object)),
        (size("p"), 3, True),
        (size("p"), 3, 0),
        (integer(1), 3, 0),
    ],
)
def test_types_and_ranges_are_exact(spec, good, bad):
    assert fits(spec, good)
    assert not fits(spec, bad)


def test_what_does_not_fit_is_named():
    X, y = estimators.regression()
    model = Ridge().fit(X, y)
    model.coef_ = model.coef_[:-1]
    with pytest.raises(StateError, match=r"Ridge\.coef_"):
        check_state(model)
    tree, arrays = to_state(Ridge().fit(X, y), no_guests)
    tree["version"] = 2
    with pytest.raises(StateError, match=r"linear\.Ridge of version 2, not 1"):
        from_state(tree, arrays, no_guests)


def test_an_array_that_many_share_and_labels_with_one_long_one_come_back():
    # What would be refused when read, because it multiplies the file's bytes, is written in another way.
    shared, labels = np.arange(300_000.0), np.array(["x"] * 2000 + ["x" * 2000])
    tree, arrays = to_state({"shared": [shared] * 30, "labels": [labels] * 2}, no_guests)
    assert len(arrays) == 8
    found = from_state(tree, arrays, no_guests)
    assert all(np.array_equal(one, shared) for one in found["shared"])
    assert all(np.array_equal(one, labels) for one in found["labels"])
    few = np.array(["no", "yes", "a rather long name of a class"])
    assert again(few).dtype == few.dtype


def test_keys_that_could_share_a_hash_are_refused():
    for node in ({"dict": [[2**65, 1]]}, {"dict": [[{"tuple": [2**65]}, 1]]}, {"labels": [2**65], "fixed": False}):
        with pytest.raises(StateError):
            from_state(node, [], no_guests)
