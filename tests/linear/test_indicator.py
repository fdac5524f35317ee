"""Least-squares classification against least squares, the ridge, and the masking it is known for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier

from assay.errors import CollinearityWarning, ParameterError
from assay.linear.indicator import LeastSquaresClassifier


def indicators(y):
    return (y[:, None] == np.unique(y)).astype(float)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_regression_on_indicators(intercept, alpha, weighted):
    X, y = load_iris(return_X_y=True)
    w = np.random.default_rng(0).integers(0, 4, 150) if weighted else None
    model = LeastSquaresClassifier(alpha=alpha, fit_intercept=intercept).fit(X, y, sample_weight=w)
    peer = LinearRegression(fit_intercept=intercept) if alpha == 0 else Ridge(alpha, fit_intercept=intercept)
    peer.fit(X, indicators(y), sample_weight=w)
    assert_allclose(model.coef_, peer.coef_, rtol=1e-8, atol=1e-10)
    assert_allclose(model.intercept_, peer.intercept_, rtol=1e-8, atol=1e-10)
    fits = peer.predict(X)
    assert_allclose(model.decision_function(X), fits, rtol=1e-8, atol=1e-9)
    assert_array_equal(model.predict(X), np.argmax(fits, axis=1))


def test_the_gradient_vanishes_at_the_solution():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 5)) * [1, 10, 100, 0.1, 1] + 7, rng.integers(0, 4, 80)
    w = rng.uniform(0.2, 3, 80)
    model = LeastSquaresClassifier(alpha=2.0).fit(X, y, sample_weight=w)
    left = indicators(y) - model.decision_function(X)
    assert_allclose(w @ left, 0.0, atol=1e-10)
    assert_allclose((X.T * w) @ left, 2.0 * model.coef_.T, rtol=1e-7, atol=1e-8)
    assert_allclose(model.decision_function(X).sum(axis=1), 1.0, atol=1e-12)


def test_two_classes_are_regression_on_minus_one_and_one():
    X, y = load_iris(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    model = LeastSquaresClassifier(alpha=1.0).fit(X, y)
    peer = RidgeClassifier(alpha=1.0).fit(X, y)
    assert model.coef_.shape == (1, 4)
    assert_allclose(model.decision_function(X), peer.decision_function(X), rtol=1e-8, atol=1e-10)
    # Equal classes: the direction and the cut of linear discriminant analysis (Elements, exercise 4.2).
    direction = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    plain = LeastSquaresClassifier().fit(X, y)
    cosine = (plain.coef_ @ direction.coef_.T) / np.linalg.norm(plain.coef_) / np.linalg.norm(direction.coef_)
    assert_allclose(cosine, 1.0, rtol=1e-10)
    assert_array_equal(plain.predict(X), direction.predict(X))


def test_the_middle_of_three_classes_in_a_row_is_masked():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 200)
    X = 4.0 * (y[:, None] - 1) + rng.normal(size=(600, 2))
    least, linear = LeastSquaresClassifier().fit(X, y), LinearDiscriminantAnalysis().fit(X, y)
    assert np.mean(least.predict(X) == 1) < 0.02  # the class contains a third of the rows
    assert np.mean(linear.predict(X) != y) < 0.01
    squares = np.column_stack([X, X**2, X[:, :1] * X[:, 1:]])  # quadratic terms lift the mask
    assert np.mean(LeastSquaresClassifier().fit(squares, y).predict(squares) != y) < 0.02


def test_class_weights_and_sparse_rows():
    X, y = load_iris(return_X_y=True)
    X, y = X[:120], y[:120]
    balanced = LeastSquaresClassifier(class_weight="balanced").fit(X, y)
    factors = 120 / (3 * np.bincount(y))
    by_hand = LeastSquaresClassifier().fit(X, y, sample_weight=factors[y])
    assert_allclose(balanced.coef_, by_hand.coef_, rtol=1e-10)
    named = LeastSquaresClassifier(class_weight={2: 2.5}).fit(X, y)
    assert_allclose(named.coef_, LeastSquaresClassifier().fit(X, y, sample_weight=np.where(y == 2, 2.5, 1)).coef_)
    for wrong, words in (({7: 1.0}, "which does not occur in y"), ({1: -1.0}, "class_weight of 1")):
        with pytest.raises(ParameterError, match=words):
            LeastSquaresClassifier(class_weight=wrong).fit(X, y)
    few = np.where(X < 2.0, 0.0, X)
    dense, thin = LeastSquaresClassifier().fit(few, y), LeastSquaresClassifier().fit(sparse.csr_array(few), y)
    assert_allclose(thin.decision_function(sparse.csc_array(few)), dense.decision_function(few), rtol=1e-9, atol=1e-9)


def test_repeated_columns_are_named():
    X, y = load_iris(return_X_y=True)
    table = pd.DataFrame(X, columns=list("abcd")).assign(e=X[:, 0] + 1)
    with pytest.warns(CollinearityWarning, match="column 'e' repeats others"):
        model = LeastSquaresClassifier().fit(table, y)
    assert_allclose(model.decision_function(table), LeastSquaresClassifier().fit(X, y).decision_function(X), atol=1e-9)
    LeastSquaresClassifier(alpha=0.1).fit(table, y)  # no warning: warnings are errors here


def test_text_labels_and_no_probabilities():
    X, y = load_iris(return_X_y=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    model = LeastSquaresClassifier().fit(X, labels)
    assert_array_equal(model.predict(X), np.array(model.classes_)[clone(model).fit(X, y).predict(X)])
    assert not hasattr(model, "predict_proba")
