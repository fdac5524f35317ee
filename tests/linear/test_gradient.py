"""Descent solvers of LinearRegression: batch gradient and LMS."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes

from assay.errors import ConvergenceWarning, DivergenceError
from assay.linear import LinearRegression

X, Y = load_diabetes(return_X_y=True, scaled=False)
QR = LinearRegression().fit(X, Y)
DESCENTS = ["gradient", "sgd"]


def largest_gradient(model, w=None):
    """Covariance of the residuals with any standardised column (and their mean), in units of sd(y)."""
    w = np.ones(len(Y)) if w is None else w
    Z = np.column_stack([np.ones(len(Y)), X - np.average(X, axis=0, weights=w)])
    Z /= np.sqrt(np.average(Z**2, axis=0, weights=w))
    sd = np.sqrt(np.average((Y - np.average(Y, weights=w)) ** 2, weights=w))
    return np.abs((w * (Y - model.predict(X))) @ Z).max() / w.sum() / sd


@pytest.mark.parametrize(("solver", "tol"), [("gradient", 1e-8), ("gradient", 1e-11), ("sgd", 1e-3)])
def test_it_stops_where_the_gradient_is_below_tol(solver, tol):
    model = LinearRegression(solver=solver, tol=tol, random_state=0).fit(X, Y)
    assert model.trace_.converged
    assert model.n_iter_ == model.trace_.n_iter
    assert largest_gradient(model) <= tol * (1 + 1e-6)


def test_gradient_reaches_the_closed_form():
    model = LinearRegression(solver="gradient", tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(model.coef_, QR.coef_, rtol=1e-7)
    assert model.intercept_ == pytest.approx(QR.intercept_)
    np.testing.assert_allclose(model.std_errors_, QR.std_errors_, rtol=1e-9)


def test_objective_falls_at_every_batch_step_and_ends_at_the_minimum():
    model = LinearRegression(solver="gradient").fit(X, Y)
    assert np.all(np.diff(model.trace_.objective) <= 1e-15)
    assert model.trace_.objective[-1] == pytest.approx(np.square(QR.residuals_).sum() / np.sum((Y - Y.mean()) ** 2) / 2)


@pytest.mark.parametrize("solver", DESCENTS)
def test_runaway_names_a_step_that_holds(solver):
    with pytest.raises(DivergenceError, match="learning_rate = 50") as caught:
        LinearRegression(solver=solver, learning_rate=50.0, random_state=0).fit(X, Y)
    holds = float(re.search(r"steps below (\S+) converge", str(caught.value))[1])
    fit = LinearRegression(solver=solver, learning_rate=0.98 * holds, random_state=0).fit(X, Y)
    assert fit.trace_.converged


def test_the_named_batch_step_is_sharp():
    with pytest.raises(DivergenceError) as caught:
        LinearRegression(solver="gradient", learning_rate=50.0).fit(X, Y)
    holds = float(re.search(r"steps below (\S+) converge", str(caught.value))[1])
    with pytest.raises(DivergenceError):
        LinearRegression(solver="gradient", learning_rate=1.01 * holds).fit(X, Y)


@pytest.mark.parametrize("solver", DESCENTS)
def test_stopping_early_says_which_knob_to_turn(solver):
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = LinearRegression(solver=solver, max_iter=2, random_state=0).fit(X, Y)
    assert not model.trace_.converged
    assert model.n_iter_ == 2


def test_sgd_repeats_with_its_seed_and_differs_with_another():
    def coef(seed):
        return LinearRegression(solver="sgd", random_state=seed).fit(X, Y).coef_

    assert np.array_equal(coef(3), coef(3))
    assert not np.array_equal(coef(3), coef(4))
    assert np.array_equal(coef(np.random.default_rng(5)), coef(np.random.default_rng(5)))


def test_gradient_weights_are_repetition():
    w = np.random.default_rng(0).integers(0, 4, len(Y))
    rows = np.repeat(np.arange(len(Y)), w)
    weighted = LinearRegression(solver="gradient", tol=1e-11).fit(X, Y, w)
    repeated = LinearRegression(solver="gradient", tol=1e-11).fit(X[rows], Y[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)


def test_sgd_weights_are_repetition_in_distribution():
    """Whatever the order of the rows, weighted and repeated fits end within tol of one and the same answer."""
    w = np.random.default_rng(0).integers(0, 4, len(Y))
    rows = np.repeat(np.arange(len(Y)), w)
    for seed in range(4):
        for args in ((X, Y, w), (X[rows], Y[rows])):
            fit = LinearRegression(solver="sgd", random_state=seed).fit(*args)
            assert largest_gradient(fit, w) <= 1.001e-3


@pytest.mark.parametrize("solver", DESCENTS)
@pytest.mark.parametrize("intercept", [True, False])
def test_sparse_several_targets_and_no_intercept(solver, intercept):
    C = X - X.mean(axis=0) + np.arange(10) * intercept
    targets = np.column_stack([Y, 100.0 - 2 * Y])
    options = {"solver": solver, "fit_intercept": intercept, "random_state": 0}
    dense = LinearRegression(**options).fit(C, targets)
    closed = LinearRegression(fit_intercept=intercept).fit(C, targets)
    close = 1e-4 if solver == "gradient" else 0.1
    np.testing.assert_allclose(dense.predict(C), closed.predict(C), atol=close * 2 * Y.std())
    np.testing.assert_array_equal(LinearRegression(**options).fit(sparse.csc_array(C), targets).coef_, dense.coef_)


@pytest.mark.parametrize("solver", DESCENTS)
@pytest.mark.parametrize(("scale", "shift"), [(1e120, 0.0), (1e-120, 0.0), (1.0, 1e6)])
def test_units_do_not_matter(solver, scale, shift):
    plain = LinearRegression(solver=solver, random_state=0).fit(X, Y)
    moved = LinearRegression(solver=solver, random_state=0).fit(X * scale + shift * scale, Y)
    np.testing.assert_allclose(moved.predict(X * scale + shift * scale), plain.predict(X), rtol=1e-3)


@pytest.mark.parametrize("solver", DESCENTS)
def test_a_constant_target_is_its_own_answer(solver):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearRegression(solver=solver, random_state=0).fit(X, np.full(len(Y), 0.1))
    np.testing.assert_allclose(model.predict(X), 0.1)
    assert not model.coef_.any()


# The printed rules, on raw columns.


def test_literal_step_by_hand():
    X, y = [[1.0], [3.0], [4.0]], [2.0, 1.0, 5.0]
    with pytest.warns(ConvergenceWarning):
        fit = LinearRegression(solver="gradient", scale=False, learning_rate=0.01, max_iter=1).fit(X, y)
    assert (fit.intercept_, fit.coef_[0]) == (pytest.approx(0.08), pytest.approx(0.25))
    fit = LinearRegression(solver="gradient", scale=False).fit(X, y)
    best = LinearRegression().fit(X, y)
    assert (fit.intercept_, fit.coef_[0]) == (pytest.approx(best.intercept_, abs=1e-5), pytest.approx(best.coef_[0]))


@pytest.mark.parametrize("solver", ["gradient", "sgd"])
def test_literal_rules_of_several_targets_are_those_of_each(solver):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    settings = {"solver": solver, "scale": False, "random_state": 0, "fit_intercept": False}
    both = LinearRegression(**settings).fit(X, Y)
    one = LinearRegression(**settings).fit(X, Y[:, 0])
    np.testing.assert_allclose(both.coef_[0], one.coef_, rtol=1e-6)
    assert both.trace_.objective[-1] >= one.trace_.objective[-1]


def test_literal_rows_move_by_their_own_error():
    """One pass of LMS over shuffled raw rows: a constant step, no averaging."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(15, 2)), rng.normal(size=15)
    fit = LinearRegression(solver="sgd", scale=False, learning_rate=0.05, max_iter=1, random_state=7).fit(X, y)
    w = np.zeros(3)
    for i in np.random.RandomState(7).permutation(15):
        a = np.append(X[i], 1.0)
        w += 0.05 * (y[i] - w @ a) * a
    np.testing.assert_allclose(np.append(fit.coef_, fit.intercept_), w)


def test_literal_steps_that_diverge_are_named():
    X, y = np.array([[1.0], [3.0], [4.0]]), [2.0, 1.0, 5.0]
    A = np.column_stack([X, np.ones(3)])
    largest = 2 / np.linalg.eigvalsh(A.T @ A)[-1]
    with pytest.raises(DivergenceError, match=rf"\(raw\) data steps below {largest:.4g} converge"):
        LinearRegression(solver="gradient", scale=False, learning_rate=1.1 * largest).fit(X, y)
    with pytest.raises(DivergenceError, match="raw"):
        LinearRegression(solver="sgd", scale=False, learning_rate=1.0).fit(X, y)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("solver", ["gradient", "sgd"])
def test_a_tolerance_of_zero_makes_the_steps_asked_for(solver, scale):
    """Without a warning: it is what was asked for."""
    model = LinearRegression(solver=solver, tol=0, max_iter=7, scale=scale, random_state=0).fit(X / X.std(axis=0), Y)
    assert model.n_iter_ == 7
    assert not model.trace_.converged
