"""Ensembles: weights that are proved best on unseen rows, members that fail, groups, and what is stored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.svm import LinearSVC as ScikitLinearSVC

from assay.errors import AssayError, AssayWarning, DataError, ParameterError
from assay.evaluation import Ensemble, cross_validate
from assay.evaluation.ensemble import _least_squares, _log_loss, simplex_weights
from assay.generative import LinearDiscriminantAnalysis
from assay.linear import LinearRegression, LogisticRegression, Ridge
from assay.neighbors import KNeighborsClassifier, KNeighborsRegressor
from assay.resampling import Folds
from assay.state import from_state, to_state
from tests.naive.decision import best_on_grid

SEEDS = st.integers(0, 2**32 - 1)


def refuse(_):
    raise AssertionError("nothing foreign is inside")


@given(SEEDS)
def test_the_weights_of_the_log_loss_are_best(seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 1, size=(40, 3))
    weights, gap = _log_loss(p, None)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    assert gap < 1e-5

    def loss(w):
        return -np.log(p @ w).mean()

    assert loss(weights) <= best_on_grid(loss, 3) + 1e-9


@given(SEEDS)
def test_the_weights_of_least_squares_are_best_and_repeat_rows_as_weights(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=30)
    predicted = y[:, None] * rng.uniform(0, 1, 3) + rng.normal(size=(30, 3))
    times = rng.integers(1, 4, 30)
    weights, gap = _least_squares(y, predicted, times.astype(float))
    repeated, _ = _least_squares(np.repeat(y, times), np.repeat(predicted, times, axis=0), None)
    assert gap < 1e-5
    assert weights == pytest.approx(repeated, abs=1e-4)

    def loss(w):
        return np.average((y - predicted @ w) ** 2, weights=times)

    assert loss(weights) <= best_on_grid(loss, 3) + 1e-6


def test_the_gap_bounds_what_is_left():
    centre = np.array([0.2, 0.5, 0.1])

    def loss(w):
        return float((w - centre) @ (w - centre)), 2 * (w - centre)

    weights, gap = simplex_weights(loss, 3)
    exact = centre + (1 - centre.sum()) / 3  # the projection on the plane, inside the simplex
    assert loss(weights)[0] - loss(exact)[0] <= gap + 1e-15
    assert weights == pytest.approx(exact, abs=1e-6)


def test_it_is_at_least_as_good_as_its_best_member_on_real_tables():
    X, y = load_diabetes(return_X_y=True)
    members = [Ridge(0.01), KNeighborsRegressor(20)]
    own = [cross_validate(model, X, y, metric="rmse").estimate for model in members]
    both = cross_validate(Ensemble(members), X, y, metric="rmse").estimate
    assert both <= 1.005 * min(own)


def test_probabilities_of_three_classes_are_averaged():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = Ensemble([LinearDiscriminantAnalysis(), KNeighborsClassifier(7)]).fit(X, names)
    parts = [one.predict_proba(X) for one in model.estimators_]
    weights = model.weights_[model.weights_ > 0]
    assert model.predict_proba(X) == pytest.approx(sum(w * p for w, p in zip(weights, parts, strict=True)))
    assert set(model.predict(X)) == set(names)


def test_equal_and_given_weights_need_no_folds():
    X, y = load_diabetes(return_X_y=True)
    members = [LinearRegression(), KNeighborsRegressor(5)]
    equal = Ensemble(members, weights="equal").fit(X, y)
    given_ = Ensemble(members, weights=[3, 1]).fit(X, y)
    one, two = (clone.fit(X, y).predict(X) for clone in members)
    assert equal.predict(X) == pytest.approx((one + two) / 2)
    assert given_.predict(X) == pytest.approx(0.75 * one + 0.25 * two)


def test_a_member_without_weight_is_not_fitted_to_all_rows():
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)

    class Noise(LogisticRegression):
        def predict_proba(self, X):
            p = rng.uniform(0.01, 0.99, len(X))
            return np.column_stack([1 - p, p])

    model = Ensemble([LinearDiscriminantAnalysis(shrinkage="auto"), Noise(penalty="l2")]).fit(X[:, :10], y)
    assert model.weights_.tolist() == [1.0, 0.0]
    assert len(model.estimators_) == 1


def test_a_member_that_fails_is_left_out_with_its_reason():
    X, y = load_diabetes(return_X_y=True)
    with pytest.warns(AssayWarning, match="KNeighborsRegressor in inner fold 0.*goes on without it"):
        model = Ensemble([Ridge(), KNeighborsRegressor(400)]).fit(X, y)
    assert model.names_ == ["Ridge"]


def test_groups_stay_together_and_workers_change_nothing():
    X, y = load_diabetes(return_X_y=True)
    groups = np.arange(len(y)) // 4
    members = [Ridge(0.01), KNeighborsRegressor(10)]
    one = Ensemble(members).fit(X, y, groups=groups)
    pairs = list(Folds(5, random_state=0).split(X, y, groups))
    two = Ensemble(members, cv=pairs, n_jobs=2).fit(X, y)
    assert np.array_equal(one.weights_, two.weights_)


def test_it_can_be_stored():
    X, y = load_iris(return_X_y=True)
    model = Ensemble([LinearDiscriminantAnalysis(), KNeighborsClassifier(7)]).fit(X, y)
    again = from_state(*to_state(model, refuse), refuse)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_bad_input_gets_one_sentence():
    X, y = load_iris(return_X_y=True)
    for wrong, what in [
        (Ensemble([]), "is empty"),
        (Ensemble([Ridge()], weights="best"), "unknown"),
        (Ensemble([Ridge(), Ridge()], weights=[-1, 2]), "weights do not fit"),
    ]:
        with pytest.raises((AssayError, ParameterError, TypeError), match=what):
            wrong.fit(X, y)
    with pytest.raises(AssayError, match=r"predict_proba|probabilities"):
        Ensemble([ScikitLinearSVC(), ScikitLinearSVC()]).fit(X, y)
    with pytest.raises(DataError, match="one class"):
        Ensemble([LogisticRegression()]).fit(X, np.zeros(len(X)))


def test_a_state_that_lies_is_refused():
    X, y = load_iris(return_X_y=True)
    two = LinearDiscriminantAnalysis().fit(X[:100, :3], y[:100])
    for lie in (
        {"weights_": np.array([1.0, 1.0])},
        {"estimators_": [LinearDiscriminantAnalysis(), LinearDiscriminantAnalysis()]},
        {"estimators_": [LinearDiscriminantAnalysis().fit(X, y + 1)] * 2},
        {"estimators_": [two, LinearDiscriminantAnalysis().fit(X, y)]},
        {"estimators_": [Ridge().fit(X, y)] * 2},
    ):
        model = Ensemble([LinearDiscriminantAnalysis(), KNeighborsClassifier(7)], weights="equal").fit(X, y)
        vars(model).update(lie)
        with pytest.raises(ValueError, match=r"weights|fitted|classes|columns"):
            to_state(model, refuse)


def test_an_ensemble_whose_first_member_has_no_probabilities_predicts_with_the_others():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(AssayWarning, match="goes on without it"):
        model = Ensemble([ScikitLinearSVC(), LinearDiscriminantAnalysis()]).fit(X, y)
    alone = LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X))
