"""Ridge regression against its definition, brute-force leave-one-out and scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge as PeerRidge
from sklearn.linear_model import RidgeCV as PeerRidgeCV
from sklearn.model_selection import KFold, LeaveOneGroupOut, LeaveOneOut, ShuffleSplit

from assay.errors import AssayError, ConvergenceWarning, DataError, ParameterError
from assay.linear import _ridge_rows
from assay.linear._ridge import block_pivoting
from assay.linear.ridge import Ridge, RidgeCV, ridge_path
from tests.naive.linear import nonnegative_ridge, ridge_coefficients, ridge_hat_matrix, ridge_leave_one_out


def problem(n, p, seed=0, k=None, offset=2.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.3 * rng.standard_normal((p, p))) + offset
    b = rng.standard_normal((p, k or 1))
    y = X @ b + rng.standard_normal((n, k or 1)) + 5.0
    return X, y if k else y[:, 0], rng.uniform(0.2, 3.0, n), rng.uniform(0.5, 2.0, p)


SHAPES = [(60, 7), (12, 30), (8, 7), (9, 8)]


# ------------------------------------------------------------------------------------------- the fit


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("kind", ["dense", "sparse", "free columns"])
def test_agrees_with_definition(n, p, intercept, alpha, kind):
    X, y, w, f = problem(n, p)
    if kind == "free columns":
        f[[1, 4]] = 0.0
    data = sparse.csc_array(X) if kind == "sparse" else X
    model = Ridge(alpha, fit_intercept=intercept, penalty_factors=f).fit(data, y, w)
    b0, b = ridge_coefficients(X, y, alpha, f, w, intercept)
    np.testing.assert_allclose(model.coef_, b, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, b0, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.budget_, f @ b**2, rtol=1e-8)
    assert model.alpha_ == alpha
    np.testing.assert_allclose(model.predict(data), b0 + X @ b, rtol=1e-8)
    H = ridge_hat_matrix(X, alpha, f, w, intercept)
    np.testing.assert_allclose(model.effective_df_, np.trace(H), rtol=1e-8)
    errors = ridge_leave_one_out(X, y, alpha, f, w, intercept)
    np.testing.assert_allclose(model.loo_error_, np.average(errors, weights=w), rtol=1e-7)
    rss = w @ (y - b0 - X @ b) ** 2
    np.testing.assert_allclose(model.sigma_**2, rss / (n - np.trace(H)), rtol=1e-6)


@pytest.mark.parametrize(("n", "p"), [(40, 6), (10, 25)])
def test_each_target_at_its_own_alpha(n, p):
    X, Y, w, _ = problem(n, p, k=4)
    alphas = np.array([3.0, 0.1, 3.0, 20.0])
    model = Ridge(alphas).fit(X, Y, w)
    peer = PeerRidge(alphas).fit(X, Y, w)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=1e-8)
    for j, alpha in enumerate(alphas):
        alone = Ridge(alpha).fit(X, Y[:, j], w)
        np.testing.assert_allclose(model.coef_[j], alone.coef_, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(model.loo_error_[j], alone.loo_error_, rtol=1e-9)
        np.testing.assert_allclose(model.summary(target=j).table["std_error"], alone.summary().table["std_error"])
    np.testing.assert_array_equal(model.alpha_, alphas)


def test_gradient_vanishes_at_the_solution():
    X, y, w, f = problem(200, 12)
    model = Ridge(2.5, penalty_factors=f).fit(X, y, w)
    residual = w * (y - model.predict(X))
    np.testing.assert_allclose(X.T @ residual - 2.5 * f * model.coef_, 0, atol=1e-9 * np.abs(X.T @ (w * y)).max())
    assert abs(residual.sum()) < 1e-9 * np.abs(w * y).sum()


def test_weights_equal_repetition_and_zero_weight_drops_the_row():
    X, y, _, _ = problem(30, 4)
    times = np.random.default_rng(1).integers(0, 4, 30)
    weighted = Ridge().fit(X, y, times)
    repeated = Ridge().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-10)
    keep = times > 0
    dropped = Ridge().fit(X[keep], y[keep], times[keep])
    assert weighted.loo_error_ == dropped.loo_error_
    assert weighted.summary().facts == dropped.summary().facts


def test_least_squares_of_least_norm_at_alpha_zero():
    X, y, _, _ = problem(30, 5)
    X = np.column_stack([X, X[:, 0], np.full(30, 0.1)])
    model = Ridge(0).fit(X, y)
    b = ridge_coefficients(X, y, 0.0)[1]
    np.testing.assert_allclose(model.coef_, b, atol=1e-9)
    assert model.coef_[-1] == 0
    np.testing.assert_allclose(model.effective_df_, 6)
    X, y, _, _ = problem(6, 20)
    model = Ridge(0).fit(X, y)
    np.testing.assert_allclose(model.coef_, ridge_coefficients(X, y, 0.0)[1], atol=1e-10)
    np.testing.assert_allclose(model.predict(X), y)
    assert np.isnan(model.sigma_)
    assert model.summary().table["p_value"].isna().all()


def test_ill_conditioned_polynomial_keeps_its_digits():
    x = np.linspace(0, 1, 60)
    X, y = np.vander(x, 12, increasing=True)[:, 1:], np.sin(6 * x)
    model = Ridge(1e-10).fit(X, y)
    assert model.solver_ == "qr"
    exact = _exact_ridge(X, y, 1e-10)
    # 12 monomials on [0, 1]: the augmented rows have condition 1e6, so ten digits are within reach.
    np.testing.assert_allclose(model.coef_, exact, rtol=1e-9)
    np.testing.assert_allclose(ridge_path(X, y, [1e-10, 1e-10]).coefficients[:, 0], exact, rtol=1e-8)


def _exact_ridge(X, y, alpha):
    """In rational arithmetic, from the doubles as given."""
    from fractions import Fraction

    rows = [[Fraction(v) for v in row] for row in X.tolist()]
    t = [Fraction(v) for v in y.tolist()]
    n, p = X.shape
    mean = [sum(row[j] for row in rows) / n for j in range(p)]
    middle = sum(t) / n
    C = [[row[j] - mean[j] for j in range(p)] for row in rows]
    M = [[sum(c[i] * c[j] for c in C) + (Fraction(alpha) if i == j else 0) for j in range(p)] for i in range(p)]
    v = [sum(c[i] * (b - middle) for c, b in zip(C, t, strict=True)) for i in range(p)]
    for i in range(p):
        for k in range(i + 1, p):
            ratio = M[k][i] / M[i][i]
            M[k] = [a - ratio * b for a, b in zip(M[k], M[i], strict=True)]
            v[k] -= ratio * v[i]
    b = [Fraction(0)] * p
    for i in reversed(range(p)):
        b[i] = (v[i] - sum(M[i][j] * b[j] for j in range(i + 1, p))) / M[i][i]
    return np.array([float(value) for value in b])


# --------------------------------------------------------------------------------------- constrained


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("positive", [False, True])
def test_budget_is_met_and_maps_back_to_alpha(n, p, positive):
    X, y, w, f = problem(n, p)
    penalised = Ridge(3.0, penalty_factors=f, positive=positive).fit(X, y, w)
    constrained = Ridge(budget=penalised.budget_, penalty_factors=f, positive=positive).fit(X, y, w)
    np.testing.assert_allclose(constrained.alpha_, 3.0, rtol=1e-8)
    np.testing.assert_allclose(constrained.coef_, penalised.coef_, rtol=1e-8, atol=1e-10)
    half = Ridge(None, budget=penalised.budget_ / 2, positive=positive, penalty_factors=f).fit(X, y, w)
    np.testing.assert_allclose(half.budget_, penalised.budget_ / 2, rtol=1e-9)
    assert half.alpha_ > 3.0


def test_budget_that_does_not_bind_is_least_squares():
    X, y, _, _ = problem(50, 4)
    model = Ridge(budget=1e6).fit(X, y)
    assert model.alpha_ == 0
    np.testing.assert_allclose(model.coef_, ridge_coefficients(X, y, 0.0)[1], rtol=1e-9)


def test_budget_per_target_and_free_columns():
    X, Y, _, f = problem(50, 4, k=2)
    f[2] = 0
    model = Ridge(budget=[0.1, 0.2], penalty_factors=f).fit(X, Y)
    np.testing.assert_allclose(model.budget_, [0.1, 0.2], rtol=1e-10)
    assert model.alpha_.shape == (2,)


def test_alpha_and_budget_together_are_refused():
    X, y, _, _ = problem(20, 3)
    with pytest.raises(ParameterError, match="both given"):
        Ridge(2.0, budget=1.0).fit(X, y)
    with pytest.raises(ParameterError, match="both None"):
        Ridge(None).fit(X, y)
    with pytest.raises(ParameterError, match="zero"):
        Ridge(budget=[0.0]).fit(X, y)


# --------------------------------------------------------------------------------------- nonnegative


@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_agrees_with_exhaustive_search(seed):
    X, y, _, _ = problem(25, 6, seed)
    model = Ridge(0.7, positive=True).fit(X, y)
    np.testing.assert_allclose(model.coef_, nonnegative_ridge(X, y, 0.7), atol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1e-8, 1.0])
@pytest.mark.parametrize(("n", "p"), [(100, 60), (30, 80)])
def test_nonnegative_kkt(n, p, alpha):
    X, y, w, f = problem(n, p)
    model = Ridge(alpha, positive=True, penalty_factors=f).fit(X, y, w)
    gradient = X.T @ (w * (y - model.predict(X))) - alpha * f * model.coef_
    size = np.abs(X.T @ (w * (y - y.mean()))).max()
    assert (model.coef_ >= 0).all()
    assert gradient.max() < 1e-8 * size
    assert np.abs(gradient[model.coef_ > 0]).max() < 1e-8 * size
    for name in ("effective_df_", "loo_error_", "sigma_"):
        with pytest.raises(AttributeError, match="nonnegative"):
            getattr(model, name)
    with pytest.raises(AttributeError, match="nonnegative"):
        model.summary()


def test_block_pivoting_solves_a_large_program():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 300))
    A /= np.sqrt((A**2).sum(axis=0))
    M, q = A.T @ A, A.T @ rng.standard_normal(400)
    b = block_pivoting(M, q)
    gradient = M @ b - q
    assert (b >= 0).all()
    assert gradient.min() > -1e-12
    assert np.abs(gradient * b).max() < 1e-12


# ------------------------------------------------------------------------------------------ iterative


@pytest.mark.parametrize(("n", "p"), [(300, 80), (60, 150)])
@pytest.mark.parametrize("intercept", [True, False])
def test_iterative_solver_agrees_with_definition(monkeypatch, n, p, intercept):
    monkeypatch.setattr(_ridge_rows, "DIRECT", 10)
    X, Y, w, f = problem(n, p, k=2)
    X[np.abs(X) < 2] = 0.0
    f[3] = 0.0
    model = Ridge(2.0, penalty_factors=f, fit_intercept=intercept).fit(sparse.csr_array(X), Y, w)
    assert model.solver_ == "lsmr"
    assert model.n_iter_ > 1
    for j in range(2):
        b = ridge_coefficients(X, Y[:, j], 2.0, f, w, intercept)[1]
        np.testing.assert_allclose(model.coef_[j], b, rtol=1e-6, atol=1e-8)
    if n < p:
        return
    budget = float(model.budget_[0])
    again = Ridge(budget=budget, penalty_factors=f, fit_intercept=intercept).fit(sparse.csr_array(X), Y[:, 0], w)
    np.testing.assert_allclose(again.alpha_, 2.0, rtol=1e-6)
    with pytest.raises(AttributeError, match="iterative"):
        _ = model.effective_df_
    with pytest.raises(ParameterError, match="cv"):
        RidgeCV().fit(sparse.csr_array(X), Y)
    alphas = [0.1, 1.0, 10.0]
    many = RidgeCV(alphas, cv=3).fit(sparse.csr_array(X), Y)
    monkeypatch.undo()
    np.testing.assert_allclose(many.mse_path_, RidgeCV(alphas, cv=3).fit(X, Y).mse_path_, rtol=1e-6)


def test_iterative_solver_says_when_it_did_not_converge(monkeypatch):
    monkeypatch.setattr(_ridge_rows, "DIRECT", 10)
    X, y, _, _ = problem(60, 40)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        Ridge(1e-6, max_iter=2).fit(sparse.csr_array(X), y)


# ------------------------------------------------------------------------------------ leave-one-out, folds


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("free", [False, True])
def test_leave_one_out_curve_is_brute_force(n, p, free):
    X, y, w, f = problem(n, p)
    if free:
        f[[0, 2]] = 0.0
    alphas = np.geomspace(1e-4, 100, 7)
    curve = RidgeCV(alphas, penalty_factors=f).fit(X, y, w).cv_curve_
    for alpha, mean, error in zip(curve.x, curve.estimate, curve.std_error, strict=True):
        e = ridge_leave_one_out(X, y, alpha, f, w)
        np.testing.assert_allclose(mean, np.average(e, weights=w), rtol=1e-6)
        spread = np.average((e - np.average(e, weights=w)) ** 2, weights=w)
        np.testing.assert_allclose(error, np.sqrt(spread / (n - 1)), rtol=1e-6)


def test_leave_one_out_equals_n_folds():
    X, Y, _, _ = problem(25, 4, k=2)
    alphas = np.geomspace(1e-3, 1e3, 9)
    closed, folded = RidgeCV(alphas).fit(X, Y), RidgeCV(alphas, cv=LeaveOneOut()).fit(X, Y)
    np.testing.assert_allclose(closed.cv_curve_.estimate, folded.cv_curve_.estimate, rtol=1e-9)
    np.testing.assert_allclose(closed.cv_curve_.std_error, folded.cv_curve_.std_error, rtol=1e-9)
    np.testing.assert_allclose(folded.mse_path_.mean(axis=1), folded.cv_curve_.estimate)


@pytest.mark.parametrize("cv", [None, 5, KFold(4, shuffle=True, random_state=0), ShuffleSplit(3, random_state=0)])
@pytest.mark.parametrize(("n", "p"), [(60, 7), (60, 100)])
@pytest.mark.parametrize("kind", ["dense", "sparse", "float32"])
def test_agrees_with_scikit_learn(cv, n, p, kind):
    X, y, _, _ = problem(n, p)
    X = X.astype(np.float32).astype(float)
    data = {"dense": X, "sparse": sparse.csr_array(X), "float32": X.astype(np.float32)}[kind]
    alphas = np.geomspace(1e-3, 1e3, 13)
    model = RidgeCV(alphas, cv=cv).fit(data, y)
    peer = PeerRidgeCV(alphas, cv=cv, scoring="neg_mean_squared_error").fit(X, y)
    assert model.alpha_min_ == peer.alpha_
    np.testing.assert_allclose(model.cv_curve_.estimate.min(), -peer.best_score_, rtol=1e-8)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-6, atol=1e-8)


def test_folds_fall_back_to_the_rows_when_moments_would_lose_digits():
    x = np.random.default_rng(0).uniform(0, 1, 80)
    X, y = np.vander(x, 9, increasing=True)[:, 1:], np.sin(6 * x)
    alphas = np.array([1e-2, 1e-9])
    for intercept in (True, False):
        model = RidgeCV(alphas, cv=4, fit_intercept=intercept).fit(X, y)
        for k, (train, test) in enumerate(KFold(4).split(X)):
            for i, alpha in enumerate(alphas):
                b0, b = ridge_coefficients(X[train], y[train], alpha, intercept=intercept)
                np.testing.assert_allclose(model.mse_path_[i, k], ((y[test] - b0 - X[test] @ b) ** 2).mean(), rtol=1e-5)


def test_weights_equal_repetition_under_grouped_folds():
    X, y, _, _ = problem(40, 5)
    rng = np.random.default_rng(2)
    times, groups = rng.integers(0, 4, 40), rng.integers(0, 4, 40)
    many = np.repeat(np.arange(40), times)
    split = LeaveOneGroupOut().split
    weighted = RidgeCV(cv=list(split(X, y, groups))).fit(X, y, times)
    repeated = RidgeCV(cv=list(split(X[many], y[many], groups[many]))).fit(X[many], y[many])
    np.testing.assert_allclose(weighted.alphas_, repeated.alphas_, rtol=1e-9)
    np.testing.assert_allclose(weighted.cv_curve_.estimate, repeated.cv_curve_.estimate, rtol=1e-9)
    np.testing.assert_allclose(weighted.cv_curve_.std_error, repeated.cv_curve_.std_error, rtol=1e-9)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)


def test_one_standard_error_rule_takes_the_larger_alpha():
    X, y = load_diabetes(return_X_y=True)
    model = RidgeCV(rule="1se", cv=10).fit(X, y)
    curve = model.cv_curve_
    at = {name: int(np.flatnonzero(curve.x == x)[0]) for name, x in curve.marks.items()}
    assert at["min"] == np.argmin(curve.estimate)
    assert curve.rule == pytest.approx(curve.estimate[at["min"]] + curve.std_error[at["min"]])
    assert curve.estimate[at["1se"]] <= curve.rule < curve.estimate[at["1se"] - 1]
    assert model.alpha_ == model.alpha_1se_ > model.alpha_min_
    assert (np.diff(model.alphas_) < 0).all()
    np.testing.assert_allclose(model.coef_, Ridge(model.alpha_).fit(X, y).coef_, rtol=1e-10)
    np.testing.assert_allclose(model.loo_error_, Ridge(model.alpha_).fit(X, y).loo_error_, rtol=1e-10)


@pytest.mark.parametrize("p", [7, 100])
def test_default_grid_spans_all_degrees_of_freedom(p):
    X, y, _, _ = problem(60, p)
    model = RidgeCV().fit(X, y)
    assert Ridge(model.alphas_[0]).fit(X, y).effective_df_ < 1.011
    rank = min(59, p)
    assert Ridge(model.alphas_[-1]).fit(X, y).effective_df_ > 1 + rank * (1 - 1e-4)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("n", "p"), [(500, 8), (60, 100)])
def test_n_jobs_never_changes_a_bit(n, p, positive):
    X, y, _, _ = problem(n, p)
    one, two = (RidgeCV(10, cv=5, n_jobs=jobs, positive=positive).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.mse_path_, two.mse_path_)
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_leave_one_out_that_does_not_exist_names_the_row():
    X = np.zeros((6, 2))
    X[:, 0] = np.arange(6)
    X[4, 1] = 1.0
    y = np.arange(6.0) ** 2
    with pytest.raises(DataError, match="row 4"):
        RidgeCV([0.0, 1.0]).fit(X, y)
    with pytest.raises(AttributeError, match="leave-one-out"):
        _ = Ridge(0).fit(X, y).loo_error_
    alpha = 1e-9  # nearly one: the careful formula keeps the digits
    expected = ridge_leave_one_out(X, y, alpha).mean()
    np.testing.assert_allclose(Ridge(alpha).fit(X, y).loo_error_, expected, rtol=1e-6)


# ------------------------------------------------------------------------------------------ inference


@pytest.mark.parametrize(("n", "p"), [(60, 7), (12, 30)])
@pytest.mark.parametrize("free", [False, True])
def test_standard_errors_are_the_sandwich(n, p, free):
    X, y, w, f = problem(n, p)
    if free:
        f[[0, 2]] = 0.0
    model = Ridge(2.0, penalty_factors=f).fit(X, y, w)
    Z = np.column_stack([np.ones(n), X])
    M = Z.T @ (w[:, None] * Z) + 2.0 * np.diag([0.0, *f])
    half = np.linalg.solve(M, Z.T * np.sqrt(w))
    error = model.sigma_ * np.sqrt(np.diag(half @ half.T))
    table = model.summary().to_frame()
    np.testing.assert_allclose(table["std_error"], error, rtol=1e-7)
    assert list(table.columns) == ["estimate", "std_error", "statistic", "p_value", "lower", "upper"]


def test_standard_errors_describe_the_spread_of_the_estimator():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 3))
    b, runs = np.array([1.0, -1.0, 0.5]), 4000
    Y = (X @ b)[:, None] + rng.standard_normal((40, runs))
    model = Ridge(10.0).fit(X, Y)
    mean = model.coef_.mean(axis=0)
    inside = np.zeros(3)
    for j in range(400):
        table = model.summary(level=0.9, target=j).table
        inside += ((table["lower"] <= [0, *mean]) & ([0, *mean] <= table["upper"])).to_numpy()[1:]
    # 400 runs of a nominal 0.90: the binomial bound at a false alarm of 1e-6 is 0.90 +- 0.075.
    assert np.abs(inside / 400 - 0.9).max() < 0.075


def test_summary_prints_and_names_columns():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    text = str(Ridge(10).fit(X, y).summary())
    assert "bmi" in text
    assert "bias" in text
    assert "effective df" in text
    with pytest.raises(ParameterError, match="level"):
        Ridge().fit(X, y).summary(level=1.5)


def test_inference_can_be_left_out():
    X, y, _, _ = problem(60, 7)
    for data, target in ((X, y), (X[:5], y[:5])):
        quick, full = Ridge(inference=False).fit(data, target), Ridge().fit(data, target)
        np.testing.assert_array_equal(quick.coef_, full.coef_)
        with pytest.raises(AttributeError, match="inference=True"):
            _ = quick.loo_error_


# ------------------------------------------------------------------------------------------------ path


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("positive", [False, True])
def test_path_is_the_fits_one_by_one(n, p, positive):
    X, y, w, f = problem(n, p)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(p)])
    path = ridge_path(frame, y, [0.1, 1, 10], sample_weight=w, penalty_factors=f, positive=positive)
    assert path.names[0] == "c0"
    for i, alpha in enumerate(path.x):
        fit = Ridge(alpha, penalty_factors=f, positive=positive).fit(X, y, w)
        np.testing.assert_allclose(path.coefficients[:, i], fit.coef_, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(path.intercepts[i], fit.intercept_, rtol=1e-7)
    assert ridge_path(X, y).x.size == 100
    with pytest.raises(DataError, match="one target"):
        ridge_path(X, np.column_stack([y, y]))


# ---------------------------------------------------------------------------------------- hard input


@pytest.mark.parametrize("make", [lambda: Ridge(1e-3), lambda: RidgeCV(10), lambda: RidgeCV(10, cv=3)])
@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e50])
@pytest.mark.parametrize("p", [3, 30])
def test_huge_and_tiny_scales(make, scale, p):
    X, y, _, _ = problem(20, p)
    base, model = make().fit(X, y), make().fit(X, y * scale)
    np.testing.assert_allclose(model.coef_ / scale, base.coef_, rtol=1e-7)
    model = make().fit(X * scale, y)
    if isinstance(model, RidgeCV):  # its grid scales with X
        np.testing.assert_allclose(model.coef_ * scale, base.coef_, rtol=1e-6)
    elif scale < 1:
        np.testing.assert_allclose(model.coef_, (X - X.mean(axis=0)).T @ y * scale / 1e-3, rtol=1e-6)
    else:
        np.testing.assert_allclose(model.coef_ * scale, ridge_coefficients(X, y, 0.0)[1], rtol=1e-6)


def test_values_whose_squares_overflow_name_the_column():
    X, y, _, _ = problem(20, 3)
    X[:, 1] *= 1e200
    for model in (Ridge(), RidgeCV(5), RidgeCV(5, cv=3), Ridge(positive=True)):
        with pytest.raises(DataError, match="column 1"):
            model.fit(X, y)
    X[:, 1] /= 1e47  # each square is finite, but not the weighted sum of them
    for data in (X, X[:3, :], sparse.csr_array(X)):
        with pytest.raises(DataError, match="column 1"):
            Ridge().fit(data, y[: data.shape[0]], np.full(data.shape[0], 1e6))


@pytest.mark.parametrize("data", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n", [20, 3])
def test_values_whose_squares_underflow_name_the_column(data, n):
    X, y, _, _ = problem(n, 4)
    X[:, 2] *= 1e-170
    for model in (Ridge(0), RidgeCV(5), RidgeCV(5, cv=3), Ridge(positive=True)):
        if isinstance(data(X), np.ndarray) or n == 20:
            with pytest.raises(DataError, match="column 2"):
                model.fit(data(X), y)
    X[:, 2] = 1e-170
    assert Ridge().fit(data(X), y).coef_[2] == pytest.approx(0)


@pytest.mark.parametrize("data", [np.asarray, sparse.csr_array])
def test_columns_far_from_zero_lose_nothing(data):
    X, y, _, _ = problem(50, 3, offset=0.0)
    far = X.copy()
    far[:, 1] += 1e7
    exact = far - [0.0, 1e7, 0.0]
    for alpha in (0.0, 1.0):
        near, there = Ridge(alpha).fit(exact, y), Ridge(alpha).fit(data(far), y)
        np.testing.assert_allclose(there.coef_, near.coef_, rtol=1e-9)
        np.testing.assert_allclose(there.loo_error_, near.loo_error_, rtol=1e-8)
    near, there = RidgeCV(8, cv=5).fit(exact, y), RidgeCV(8, cv=5).fit(data(far), y)
    np.testing.assert_allclose(there.mse_path_, near.mse_path_, rtol=1e-7)


@pytest.mark.parametrize("data", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n", [30, 4])
def test_constant_and_duplicate_columns(data, n):
    X, y, _, _ = problem(n, 4)
    X = np.column_stack([X, X[:, 1], np.full(n, 0.1), np.zeros(n)])
    for alpha in (0.0, 1.0):
        model = Ridge(alpha).fit(data(X), y)
        np.testing.assert_allclose(model.coef_[-2:], 0, atol=1e-12)
        np.testing.assert_allclose(model.coef_[1], model.coef_[4], rtol=1e-6)
        np.testing.assert_allclose(model.coef_, ridge_coefficients(X, y, alpha)[1], atol=1e-8)
    all_constant = Ridge().fit(data(np.ones((n, 2))), y)
    np.testing.assert_allclose(all_constant.coef_, 0, atol=1e-14)
    np.testing.assert_allclose(all_constant.intercept_, y.mean())
    assert RidgeCV(cv=2).fit(np.ones((n, 2)), y).coef_.tolist() == [0, 0]
    assert RidgeCV().fit(np.ones((n, 2)), y).coef_.tolist() == [0, 0]


def test_free_columns_that_repeat_each_other():
    X, y, _, _ = problem(30, 4)
    X = np.column_stack([X, X[:, 0], np.ones(30)])
    f = np.array([0.0, 1, 1, 1, 0, 0])
    model = Ridge(2.0, penalty_factors=f).fit(X, y)
    expected = Ridge(2.0, penalty_factors=f[:4]).fit(X[:, :4], y)
    np.testing.assert_allclose(model.predict(X), expected.predict(X[:, :4]), rtol=1e-9)
    np.testing.assert_allclose(model.effective_df_, expected.effective_df_)
    np.testing.assert_allclose(model.loo_error_, expected.loo_error_, rtol=1e-8)
    alphas = [0.1, 1.0]
    a, b = (
        RidgeCV(alphas, penalty_factors=f, cv=3).fit(X, y),
        RidgeCV(alphas, penalty_factors=f[:4], cv=3).fit(X[:, :4], y),
    )
    np.testing.assert_allclose(a.mse_path_, b.mse_path_, rtol=1e-8)
    only_free = RidgeCV(alphas, penalty_factors=np.zeros(6)).fit(X, y)
    np.testing.assert_allclose(only_free.predict(X), Ridge(0).fit(X, y).predict(X), rtol=1e-9)


def test_one_row_and_one_column():
    model = Ridge().fit([[3.0, 1.0]], [5.0])
    assert model.predict([[7.0, 7.0]]).tolist() == [5.0]
    with pytest.raises(AttributeError):
        _ = model.loo_error_
    with pytest.raises(DataError, match="1 sample"):
        RidgeCV().fit([[3.0, 1.0]], [5.0])
    with pytest.raises(DataError, match="1 sample"):
        RidgeCV().fit([[3.0], [1.0]], [5.0, 2.0], sample_weight=[1, 0])
    np.testing.assert_allclose(Ridge(5.0).fit([[0.0], [1], [2], [3]], [1.0, 3, 5, 7]).coef_, [1.0])


@pytest.mark.parametrize("p", [4, 40])
def test_any_layout_of_the_same_numbers_and_none_is_modified(p):
    X, y, _, _ = problem(20, p)
    X, y = np.round(X * 4), np.round(y)
    read_only = X.copy()
    read_only.flags.writeable = False
    layouts = [np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], read_only, X.astype(int), X.astype(object)]
    for make in (Ridge, lambda: RidgeCV(10), lambda: RidgeCV(10, cv=3), lambda: Ridge(positive=True)):
        expected = make().fit(X.copy(), y).coef_
        for layout in [*layouts, X.astype(np.float32)]:
            before = np.array(layout)
            np.testing.assert_allclose(make().fit(layout, y).coef_, expected, rtol=1e-8, atol=1e-10)
            np.testing.assert_array_equal(layout, before)


@pytest.mark.parametrize("estimator", [Ridge, RidgeCV])
def test_nonsense_parameters_are_refused(estimator):
    X, y, _, _ = problem(20, 3)
    for name in estimator().get_params():
        assert name in estimator.constraints
        for value in (object(), "nonsense", -1, [[1.0]], [np.nan, 1, 1]):
            if name == "n_jobs" and value == -1:
                continue
            with pytest.raises((ParameterError, AssayError)):
                estimator(**{name: value}).fit(X, y)
    with pytest.raises(ParameterError, match="penalty_factors"):
        estimator(penalty_factors=[1, 1]).fit(X, y)
    with pytest.raises(ParameterError, match="penalty_factors"):
        estimator(penalty_factors=[1, -1, 1]).fit(X, y)
    with pytest.raises(ParameterError, match="alphas"):
        RidgeCV([]).fit(X, y)


def test_pickle_and_clone_keep_everything():
    X, y, _, _ = problem(30, 4)
    for model in (Ridge(2.0), RidgeCV(cv=3, rule="1se")):
        fitted = clone(model).fit(X, y)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
        assert str(again.summary()) == str(fitted.summary())


def test_a_row_that_alone_determines_a_free_coefficient_has_no_leave_one_out_error():
    X = np.random.default_rng(0).standard_normal((12, 3))
    X[:, 0] = 0
    X[3, 0] = 1
    y = np.random.default_rng(1).standard_normal(12)
    with pytest.raises(DataError, match="row 3 alone"):
        RidgeCV(penalty_factors=[0, 1, 1]).fit(X, y)
    with pytest.raises(AttributeError, match="is not defined"):
        _ = Ridge(1.0, penalty_factors=[0, 1, 1]).fit(X, y).loo_error_


def test_the_summary_of_several_targets_is_about_one_of_them():
    rng = np.random.default_rng(0)
    model = Ridge().fit(rng.standard_normal((20, 2)), rng.standard_normal((20, 2)))
    assert len(model.summary(target=1).table) == 3
    for target in (None, 2, -1):
        with pytest.raises(ParameterError, match="target"):
            model.summary(target=target)


def test_a_penalised_copy_of_a_free_column_has_a_standard_error_of_zero():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    X[:, 3] = 0.3 * X[:, 0]
    error = Ridge(1.0, penalty_factors=[0, 1, 1, 1]).fit(X, rng.standard_normal(30)).summary().table["std_error"]
    assert error.iloc[-1] == pytest.approx(0.0, abs=1e-6)
