"""Logistic regression against statsmodels and scikit-learn, its own score equations, and what must hold."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse, special, stats
from scipy.optimize import linprog, minimize
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as PeerLogistic

from assay.errors import (
    AssayError,
    CollinearityWarning,
    ConvergenceWarning,
    DataError,
    DivergenceError,
    ParameterError,
    SeparationWarning,
)
from assay.linear._logistic_classes import symmetric_basis
from assay.linear._logistic_newton import newton, null_point, solve_rows
from assay.linear._logistic_precondition import Kronecker
from assay.linear._logistic_rows import make_rows
from assay.linear.logistic import LogisticRegression
from assay.resampling import AllButOne


def rows(n=300, p=4, K=2, seed=0):
    """Columns of different size and place, and classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    B = rng.normal(size=(K, p))
    y = np.argmax(X @ B.T + 1.5 * rng.gumbel(size=(n, K)), axis=1)
    return X * rng.uniform(0.1, 10, p) + rng.uniform(-5, 5, p), y


def score(model, X, y, w=None, offset=0.0):
    """The gradient of the log-likelihood in intercept and slopes of each class, in the units of the data."""
    w = np.ones(len(y)) if w is None else w
    Y = (np.asarray(y)[:, None] == model.classes_).astype(float)
    P = special.softmax(np.asarray(X @ model.coef_.T) + model.intercept_ + offset, axis=1)
    if len(model.classes_) == 2:
        P = special.expit(X @ model.coef_[0] + model.intercept_[0] + offset)[:, None]
        Y = Y[:, 1:]
    R = (Y - P) * w[:, None]
    return R.sum(axis=0), R.T @ X


# ------------------------------------------------------------------------------------------ agreement


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_two_classes_agree_with_statsmodels(intercept, weighted):
    X, y = rows()
    rng = np.random.default_rng(1)
    w = rng.integers(1, 4, len(y)).astype(float) if weighted else None
    o = 0.3 * rng.normal(size=len(y))
    A = sm.add_constant(X) if intercept else X
    peer = sm.GLM(y, A, family=sm.families.Binomial(), offset=o, freq_weights=w).fit(tol=1e-14, maxiter=100)
    ours = LogisticRegression(fit_intercept=intercept).fit(X, y, sample_weight=w, offset=o)
    theirs = peer.params if intercept else np.r_[0.0, peer.params]
    np.testing.assert_allclose(np.r_[ours.intercept_, ours.coef_[0]], theirs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.std_errors_, peer.bse, rtol=1e-7)
    np.testing.assert_allclose(ours.covariance_, peer.cov_params(), rtol=1e-6, atol=1e-12)
    table, facts = ours.summary(0.9).to_frame(), ours.summary(0.9).facts
    np.testing.assert_allclose(table["statistic"], peer.tvalues, rtol=1e-7)
    np.testing.assert_allclose(table["p_value"], peer.pvalues, rtol=1e-6, atol=1e-300)
    np.testing.assert_allclose(table[["lower", "upper"]], peer.conf_int(0.1), rtol=1e-7)
    np.testing.assert_allclose(table["odds_ratio"], np.exp(peer.params), rtol=1e-8)
    assert facts["deviance"] == pytest.approx(peer.deviance, rel=1e-10)
    assert facts["AIC"] == pytest.approx(peer.aic, rel=1e-10)
    if intercept:
        assert facts["null deviance"] == pytest.approx(peer.null_deviance, rel=1e-8)
        assert facts["LR p-value"] == pytest.approx(stats.chi2.sf(peer.null_deviance - peer.deviance, 4), rel=1e-6)


def test_summary_facts_agree_with_statsmodels_logit():
    X, y = rows()
    peer = sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-12)
    facts = LogisticRegression().fit(X, y).summary().facts
    assert facts["log-likelihood"] == pytest.approx(peer.llf, rel=1e-12)
    assert facts["McFadden R2"] == pytest.approx(peer.prsquared, rel=1e-8)
    assert facts["BIC"] == pytest.approx(peer.bic, rel=1e-12)
    n = len(y)
    cox = 1 - np.exp(2 * (peer.llnull - peer.llf) / n)
    assert facts["Nagelkerke R2"] == pytest.approx(cox / (1 - np.exp(2 * peer.llnull / n)), rel=1e-8)


def test_many_classes_agree_with_statsmodels():
    X, y = rows(500, 4, 3)
    labels = np.array(["a", "b", "c"])[y]
    peer = sm.MNLogit(y, sm.add_constant(X)).fit(disp=0, method="newton", tol=1e-14)
    ours = LogisticRegression().fit(X, labels)
    np.testing.assert_allclose(ours.coef_.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(ours.intercept_.sum(), 0.0, atol=1e-10)
    np.testing.assert_allclose(ours.coef_[1:] - ours.coef_[0], peer.params[1:].T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.std_errors_, peer.bse.T, rtol=1e-7)
    summary = ours.summary()
    np.testing.assert_allclose(summary.table["p_value"], peer.pvalues.T.ravel(), rtol=1e-5)
    assert summary.table.index[0] == "b: intercept"
    assert summary.facts["log-likelihood"] == pytest.approx(peer.llf, rel=1e-12)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict(), atol=1e-9)


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_ridge_agrees_with_scikit_learn(K, C):
    X, y = rows(400, 5, K)
    ours = LogisticRegression(penalty="l2", C=C).fit(X, y)
    peer = PeerLogistic(C=C, solver="newton-cholesky", tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-7)


@pytest.mark.parametrize("penalty", [None, "l2"])
@pytest.mark.parametrize("K", [2, 3])
def test_score_equations_hold(K, penalty):
    X, y = rows(300, 4, K, seed=3)
    rng = np.random.default_rng(0)
    w = rng.uniform(0.5, 3.0, len(y))
    o = rng.normal(size=len(y) if K == 2 else (len(y), K))
    f = np.array([1.0, 0.0, 2.0, 5.0]) if penalty else None
    model = LogisticRegression(penalty=penalty, C=0.1 if penalty else 1.0, penalty_factors=f).fit(X, y, w, o)
    start, slopes = score(model, X, y, w, o)
    pull = 0.0 if f is None else f / 0.1 * model.coef_
    np.testing.assert_allclose(start, 0.0, atol=1e-9 * len(y))
    np.testing.assert_allclose(slopes - pull, 0.0, atol=1e-7 * len(y))


@pytest.mark.parametrize("penalty", [None, "l2"])
@pytest.mark.parametrize("K", [2, 3])
def test_sparse_rows_give_the_dense_fit(K, penalty, monkeypatch):
    monkeypatch.setattr("assay.linear._logistic_run.SMALL", 0)
    X, y = rows(300, 5, K)
    X[np.abs(X) < 1] = 0.0
    dense, thin = (LogisticRegression(penalty=penalty).fit(A, y) for A in (X, sparse.csr_matrix(X)))
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(thin.std_errors_, dense.std_errors_, rtol=1e-8)
    np.testing.assert_allclose(thin.predict_proba(sparse.csc_matrix(X)), dense.predict_proba(X), atol=1e-12)


def test_sparse_with_many_columns_by_conjugate_gradients():
    rng = np.random.default_rng(0)
    X = sparse.random_array((600, 2000), density=0.01, rng=rng, format="csr")  # more than a million cells
    y = (X @ rng.normal(size=2000) + 0.3 * rng.normal(size=600) > 0).astype(int)
    model = LogisticRegression(penalty="l2", C=2.0).fit(X, y)
    start, slopes = score(model, X.toarray(), y)
    assert np.abs(slopes - model.coef_ / 2.0).max() < 1e-5
    assert abs(start[0]) < 1e-5


def test_more_columns_than_rows_with_a_ridge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 1200)) + 3.0
    y = (X[:, 0] + rng.normal(size=50) > 3).astype(int)
    f = rng.uniform(0.5, 2.0, 1200)
    model = LogisticRegression(penalty="l2", C=0.01, penalty_factors=f).fit(X, y)
    start, slopes = score(model, X, y)
    np.testing.assert_allclose(slopes - f * model.coef_ / 0.01, 0.0, atol=1e-7)
    np.testing.assert_allclose(start, 0.0, atol=1e-8)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
@pytest.mark.parametrize("K", [2, 3])
def test_lasso_and_elastic_net_satisfy_their_conditions(K, l1_ratio):
    X, y = rows(300, 6, K)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    how = {"penalty": "l1"} if l1_ratio == 1.0 else {"penalty": "elasticnet", "l1_ratio": l1_ratio}
    model = LogisticRegression(C=0.05, tol=1e-12, **how).fit(X, y)
    start, slopes = score(model, X, y)
    left = slopes - (1 - l1_ratio) / 0.05 * model.coef_
    on = model.coef_ != 0
    np.testing.assert_allclose(start, 0.0, atol=1e-3)
    np.testing.assert_allclose(left[on], np.sign(model.coef_[on]) * l1_ratio / 0.05, atol=1e-3)
    assert (np.abs(left[~on]) <= l1_ratio / 0.05 + 1e-3).all()
    assert "standard errors do not apply" in str(model.summary())


# ------------------------------------------------------------------------------------------ the solver


def test_losses_never_rise_and_converge_quadratically():
    X, y = rows(500, 6, seed=5)
    parts = make_rows(X, y, 2, np.ones(500), None, True, 1)
    fit = newton(parts, null_point(parts), 1e-10, 50, True, None)
    assert fit.status == "converged"
    assert (np.diff(fit.losses) <= 1e-10).all()
    assert len(fit.losses) <= 9
    again = parts.evaluate(fit.point.theta)
    assert np.abs(again.gradient).max() < 1e-10 * 500


@pytest.mark.parametrize("K", [2, 5])
def test_hessian_products_and_gradients_are_those_of_the_loss(K):
    X, y = rows(200, 3, K)
    rng = np.random.default_rng(2)
    parts = make_rows(X, y, K, rng.uniform(0.5, 2, 200), None, True, None)
    theta, v = rng.normal(size=parts.size), rng.normal(size=parts.size)
    point = parts.evaluate(theta)
    np.testing.assert_allclose(point.hessian, point.hessian.T, atol=1e-9)
    np.testing.assert_allclose(parts.product(point, v), point.hessian @ v, rtol=1e-9, atol=1e-9)
    h = 1e-6
    up, down = parts.evaluate(theta + h * v), parts.evaluate(theta - h * v)
    assert (up.loss - down.loss) / (2 * h) == pytest.approx(point.gradient @ v, rel=1e-6)
    np.testing.assert_allclose((up.gradient - down.gradient) / (2 * h), point.hessian @ v, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(parts.diagonal(point), np.diag(point.hessian), rtol=1e-9)


@pytest.mark.parametrize(("n", "p", "K"), [(3000, 170, 2), (4000, 40, 6)])
def test_conjugate_gradients_reach_the_direct_answer(n, p, K):
    X, y = rows(n, p, K, seed=1)
    parts = make_rows(X, y, K, np.ones(n), None, True, -1)
    direct = newton(parts, null_point(parts), 1e-9, 50, True, None)
    assert not np.isnan(direct.losses).any()
    iterative = solve_rows(parts, 1e-9, 50, hessian=False)
    assert iterative.status == "converged"
    np.testing.assert_allclose(iterative.point.theta, direct.point.theta, atol=1e-6)


def test_a_sample_of_the_rows_gives_only_the_start():
    X, y = rows(60_000, 40, seed=2)
    model = LogisticRegression(inference=False).fit(X, y)
    start, slopes = score(model, X, y)
    assert np.abs(slopes / X.std(axis=0)).max() / len(y) < 1e-9
    assert abs(start[0]) / len(y) < 1e-9
    assert model.n_iter_ <= 8


@pytest.mark.parametrize("K", [2, 4])
def test_threads_change_no_bit(K):
    X, y = rows(20_000, 20, K)
    one, two = (LogisticRegression(n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.covariance_, two.covariance_)


def test_basis_of_vectors_that_sum_to_zero():
    Q = symmetric_basis(6)
    np.testing.assert_allclose(Q.T @ Q, np.eye(5), atol=1e-14)
    np.testing.assert_allclose(Q.sum(axis=0), 0.0, atol=1e-14)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("solver", ["gradient", "sgd"])
def test_descents_come_close_to_newton(solver, K):
    X, y = rows(400, 4, K)
    exact = LogisticRegression(penalty="l2").fit(X, y)
    model = LogisticRegression(penalty="l2", solver=solver, random_state=0).fit(X, y)
    assert model.trace_.converged
    tol = 1e-4 if solver == "gradient" else 0.05
    np.testing.assert_allclose(model.coef_ * X.std(axis=0), exact.coef_ * X.std(axis=0), atol=tol)
    if solver == "gradient":
        assert (np.diff(model.trace_.objective) <= 1e-12).all()
    assert model.trace_.objective[-1] == pytest.approx(exact.trace_.objective[-1] / len(y), rel=1e-3)


def test_descents_say_when_they_run_away_or_stop_early():
    X, y = rows()
    with pytest.raises(DivergenceError, match="keep it below"):
        LogisticRegression(solver="gradient", learning_rate=1e4, max_iter=50).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        LogisticRegression(solver="sgd", max_iter=2, tol=1e-9, random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        LogisticRegression(max_iter=1).fit(X, y)


def test_sgd_with_weights_has_the_mean_of_repetition():
    # A weighted row is visited once, with a longer step; averaged over orders, both end at the same maximum.
    X, y = rows(120, 2)
    w = np.random.default_rng(0).integers(1, 4, 120)
    exact = LogisticRegression().fit(X, y, w)
    how = {"solver": "sgd", "tol": 1e-9, "max_iter": 60}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        many = [LogisticRegression(random_state=s, **how).fit(X, y, w).coef_ for s in range(10)]
    scale = X.std(axis=0)
    np.testing.assert_allclose(np.mean(many, axis=0) * scale, exact.coef_ * scale, atol=0.05)


# ------------------------------------------------------------------------------------------ likelihoods


def test_likelihood_ratio_of_each_term_is_that_of_nested_fits():
    X, y = rows()
    table = LogisticRegression().fit(X, y).summary(likelihood_ratio=True).to_frame()
    full = sm.Logit(y, sm.add_constant(X)).fit(disp=0)
    for j in range(4):
        less = sm.Logit(y, sm.add_constant(np.delete(X, j, axis=1))).fit(disp=0)
        p = stats.chi2.sf(2 * (full.llf - less.llf), 1)
        assert table["lr_p_value"].iloc[1 + j] == pytest.approx(p, rel=1e-6)
    less = sm.Logit(y, X).fit(disp=0)
    assert table["lr_p_value"].iloc[0] == pytest.approx(stats.chi2.sf(2 * (full.llf - less.llf), 1), rel=1e-6)


def test_profile_limits_lie_where_the_likelihood_has_fallen():
    X, y = rows(80, 2, seed=4)
    model = LogisticRegression().fit(X, y)
    table = model.summary(0.9, intervals="profile").to_frame()
    drop = stats.chi2.ppf(0.9, 1) / 2
    for j in range(2):
        for limit in table.iloc[1 + j][["lower", "upper"]]:
            held = LogisticRegression().fit(X[:, [1 - j]], y, offset=limit * X[:, j])
            assert held.deviance_ / 2 - model.deviance_ / 2 == pytest.approx(drop, rel=1e-5)
    held = LogisticRegression(fit_intercept=False).fit(X, y, offset=np.full(80, table.loc["intercept", "upper"]))
    assert held.deviance_ / 2 - model.deviance_ / 2 == pytest.approx(drop, rel=1e-5)
    np.testing.assert_allclose(np.exp(table["lower"]), table["odds_lower"])


def test_likelihood_ratio_test_of_two_fits():
    X, y = rows(300, 4, 3)
    large, small = LogisticRegression().fit(X, y), LogisticRegression().fit(X[:, :2], y)
    result = small.likelihood_ratio_test(large)
    assert result.df == 4
    assert result.statistic == pytest.approx(small.deviance_ - large.deviance_)
    assert result.p_value == pytest.approx(stats.chi2.sf(result.statistic, 4))
    with pytest.raises(DataError, match="different rows"):
        large.likelihood_ratio_test(LogisticRegression().fit(X[:-1, :2], y[:-1]))
    with pytest.raises(DataError, match="nested"):
        large.likelihood_ratio_test(clone(large).fit(X, y))
    with pytest.raises(ParameterError, match="maximum-likelihood"):
        large.likelihood_ratio_test(LogisticRegression(penalty="l2").fit(X[:, :2], y))


@pytest.mark.slow
def test_wald_intervals_cover_at_their_level():
    # 400 tables of 300 rows, 3 coefficients each: the misses of a 95% interval are at most Binomial(1200, .05)'s
    # 1 - 1e-6 quantile (plus the little by which an asymptotic interval may miss).
    rng = np.random.default_rng(0)
    b, misses = np.array([0.5, -0.3, 0.8]), 0
    for _ in range(400):
        X = rng.normal(size=(300, 2))
        y = (rng.uniform(size=300) < special.expit(b[0] + X @ b[1:])).astype(int)
        table = LogisticRegression().fit(X, y).summary().table
        misses += int(((table["lower"] > b) | (table["upper"] < b)).sum())
    assert stats.binom.ppf(1e-6, 1200, 0.045) <= misses <= stats.binom.ppf(1 - 1e-6, 1200, 0.06)


def test_ridge_degrees_of_freedom_and_errors():
    X, y = rows(200, 4)
    weak, strong = (LogisticRegression(penalty="l2", C=C).fit(X, y) for C in (1e10, 1e-3))
    plain = LogisticRegression().fit(X, y)
    assert weak.summary().facts["parameters"] == pytest.approx(5.0, rel=1e-6)
    np.testing.assert_allclose(weak.std_errors_, plain.std_errors_, rtol=1e-6)
    assert 1.0 < strong.summary().facts["parameters"] < 4.0
    assert "biased" in str(strong.summary())


# ------------------------------------------------------------------------------------------ separation


def separable(X, y, K):
    """Whether a direction separates the classes, by the whole linear programme at once."""
    A = np.column_stack([np.ones(len(X)), X])
    constraints = []
    for a, c in zip(A, y, strict=True):
        for k in range(K):
            if k != c:
                row = np.zeros((K, A.shape[1]))
                row[c], row[k] = a, -a
                constraints.append(row.ravel())
    M = np.array(constraints)
    best = linprog(-M.sum(axis=0), A_ub=-M, b_ub=np.zeros(len(M)), bounds=(-1, 1), method="highs")
    return -best.fun > 1e-6


@pytest.mark.parametrize("K", [2, 3])
def test_separation_is_found_exactly_when_it_is_there(K):
    rng = np.random.default_rng(K)
    seen = set()
    for n in (12, 16, 20, 26, 34) * 8:
        X = np.round(rng.normal(size=(n, 2)) * 1.5)
        y = np.argmax(X @ rng.normal(size=(K, 2)).T + 0.7 * rng.gumbel(size=(n, K)), axis=1)
        if np.unique(y).size < K:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollinearityWarning)
            warnings.simplefilter("ignore", SeparationWarning)
            found = LogisticRegression().fit(X, y).separation_
        truth = separable(X, y, K)
        assert (found is not None) == truth
        seen.add(truth if found is None else found.kind)
        if found is not None:
            eta = X @ found.direction.T + found.intercept
            eta = eta if K > 2 else np.column_stack([np.zeros(n), eta])
            margins = np.take_along_axis(eta, y[:, None], axis=1) - eta
            assert margins.min() >= -1e-6
            assert margins.max() > 1e-6
            if found.kind == "complete":
                assert (np.sort(margins, axis=1)[:, 1:] >= 0).all()
                assert (np.count_nonzero(margins > 0, axis=1) == K - 1).all()
    assert seen >= {False, "complete", "quasi-complete"}


def test_the_separating_column_is_named():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 4)), columns=["age", "bmi", "dose", "sex"])
    y = (table["dose"] > 0.1).to_numpy()
    with pytest.warns(SeparationWarning, match=r"column 'dose' separates the classes completely.*firth=True"):
        model = LogisticRegression().fit(table, y)
    assert model.separation_.columns == ("dose",)
    assert np.isfinite(model.coef_).all()
    assert (model.predict(table) == y).all()
    assert np.isnan(model.std_errors_).all()
    assert "No maximum exists" in str(model.summary())
    assert list(model.separation_.to_frame().index) == ["dose"]


@pytest.mark.parametrize("place", [0.0, 1e7, 1.7e9, 1e12])
@pytest.mark.parametrize("kind", ["complete", "quasi-complete", "three classes"])
def test_separation_is_found_however_far_from_zero_a_column_is(place, kind):
    x = np.array([0.0, 1, 2, 3, 4, 4 if kind == "quasi-complete" else 5, 6, 7, 8])
    y = np.arange(9) // 3 if kind == "three classes" else np.arange(9) // 5
    with pytest.warns(SeparationWarning, match="column 'x0' separates"):
        found = LogisticRegression().fit(x[:, None] + place, y).separation_
    assert found.kind == ("complete" if kind == "three classes" else kind)
    eta = (x[:, None] + place) @ found.direction.T + found.intercept
    eta = np.column_stack([np.zeros(9), eta]) if kind != "three classes" else eta
    margins = np.take_along_axis(eta, y[:, None], axis=1) - eta
    assert margins.min() >= -1e-15 * place


def test_a_column_of_zeros_leaves_the_summary_as_it_is():
    y = np.array([1, 0, 0, 1, 0, 0])
    with pytest.warns(CollinearityWarning):
        table = LogisticRegression().fit(np.zeros((6, 1)), y).summary(likelihood_ratio=True).to_frame()
    assert table.loc["intercept", "estimate"] == pytest.approx(-np.log(2))
    null = 6 * np.log(2) + 2 * np.log(1 / 3) + 4 * np.log(2 / 3)
    assert table["lr_p_value"].to_numpy() == pytest.approx([stats.chi2.sf(2 * null, 1), 1.0])


def test_the_classes_that_are_told_apart_are_named():
    rng = np.random.default_rng(0)
    y = np.repeat(["ant", "bee", "cat", "dog"], 50)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200) + 100 * (y == "bee")})
    with pytest.warns(SeparationWarning, match=r"column 'b' separates the class 'bee' from all others.*penalty='l2'"):
        model = LogisticRegression().fit(X, y)
    assert set(model.separation_.pairs) == {("ant", "bee"), ("bee", "cat"), ("bee", "dog")}
    assert list(model.separation_.to_frame().columns) == [f"direction {name}" for name in ("ant", "bee", "cat", "dog")]


def test_a_rare_level_separates_in_part():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    y = (rng.uniform(size=5000) < special.expit(X[:, 0])).astype(int)
    X[:, 2] = 0.0
    X[:3, 2] = 1.0
    y[:3] = 1
    with pytest.warns(SeparationWarning, match=r"'x2' separates the classes in part.*4997 of 5000"):
        model = LogisticRegression().fit(X, y)
    assert model.trace_.converged
    # What is not separated is the fit of the other rows.
    rest = LogisticRegression().fit(X[3:, :2], y[3:])
    np.testing.assert_allclose(model.coef_[0, :2], rest.coef_[0], atol=2e-3)


def test_unpenalised_columns_of_a_ridge_can_separate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = (X[:, 1] > 0).astype(int)
    with pytest.warns(SeparationWarning, match="'x1'"):
        LogisticRegression(penalty="l2", penalty_factors=[1.0, 0.0, 1.0]).fit(X, y)
    model = LogisticRegression(penalty="l2").fit(X, y)  # a penalty on all of them has a maximum
    assert model.separation_ is None


def test_an_offset_does_not_hide_or_make_separation():
    X, y = rows(100, 2)
    o = np.where(y == 1, 50.0, -50.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression().fit(X, y, offset=o)
    assert model.separation_ is None
    with pytest.warns(SeparationWarning):
        LogisticRegression().fit(X, (X[:, 0] > X[:, 0].mean()).astype(int), offset=-o / 50)


# ------------------------------------------------------------------------------------------ collinearity


@pytest.mark.parametrize("K", [2, 3])
def test_collinear_columns_are_named_and_the_least_norm_is_given(K):
    X, y = rows(200, 3, K)
    table = pd.DataFrame(np.column_stack([X, X[:, 0] + 2 * X[:, 1]]), columns=list("abcd"))
    with pytest.warns(CollinearityWarning, match="column 'd' repeats"):
        model = LogisticRegression().fit(table, y)
    plain = LogisticRegression().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(table), plain.predict_proba(X), atol=1e-9)
    null = np.array([1.0, 2.0, 0.0, -1.0])
    np.testing.assert_allclose(model.coef_ @ null, 0.0, atol=1e-10)
    assert model.rank_ == 3
    errors = np.atleast_2d(model.std_errors_)
    assert np.isnan(errors[:, [1, 2, 4]]).all()
    np.testing.assert_allclose(errors[:, 3], np.atleast_2d(plain.std_errors_)[:, 3], rtol=1e-7)


def test_constant_and_duplicate_columns():
    X, y = rows(200, 2)
    with pytest.warns(CollinearityWarning, match="columns 'x2', 'x3' repeat"):
        model = LogisticRegression().fit(np.column_stack([X, np.full(200, 7.0), X[:, 0]]), y)
    plain = LogisticRegression().fit(X, y)
    assert model.coef_[0, 2] == 0.0
    np.testing.assert_allclose(model.coef_[0, [0, 3]], plain.coef_[0, 0] / 2, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=1e-8)


def test_nearly_collinear_columns_keep_their_digits():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 400)
    y = (rng.uniform(size=400) < special.expit(2 * x)).astype(int)
    X = np.column_stack([x, x + 1e-6 * rng.normal(size=400), 1e6 + x**2])
    model = LogisticRegression().fit(X, y)
    Q = np.column_stack([x, (X[:, 1] - x) * 1e6, x**2])
    better = LogisticRegression().fit(Q, y)
    np.testing.assert_allclose(model.predict_proba(X), better.predict_proba(Q), atol=1e-6)


@pytest.mark.parametrize("far", [1e3, 1e6, -1e6])
def test_one_row_far_from_all_others(far):
    # A slip of a decimal point: no step may be cut to the size of that row's linear part, which runs into millions.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 2))
        y = (X[:, 0] + rng.logistic(size=60) > 0).astype(int)
        X[0, 0] = far * (1 if y[0] else -1)
        model = LogisticRegression().fit(X, y)
        scores = np.concatenate([np.ravel(part) for part in score(model, X, y)])
        assert np.abs(scores).max() < 1e-6
        if far > 0:  # on its side, the row is as good as absent
            alone = LogisticRegression().fit(X[1:], y[1:])
            np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-5)
            np.testing.assert_allclose(model.std_errors_, alone.std_errors_, rtol=1e-5)


def test_columns_with_a_long_tail():
    rng = np.random.default_rng(3)
    for _ in range(20):
        X = np.exp(3 * rng.normal(size=(50, 2)))
        y = (rng.random(50) < special.expit(np.log(X[:, 0]) - np.log(X[:, 1]) / 2)).astype(int)
        model = LogisticRegression().fit(X, y)
        scores = np.concatenate([np.ravel(part) for part in score(model, X, y)])
        assert np.abs(scores).max() < 1e-5 * X.sum(axis=0).max()


# ------------------------------------------------------------------------------------------ Firth


def test_firth_adds_one_half_to_each_cell_of_a_table():
    cells = np.array([[3, 7], [9, 0]])  # rows: x = 0, 1; columns: y = 0, 1; one cell is empty
    x = np.repeat([0, 0, 1, 1], cells.ravel())
    y = np.repeat([0, 1, 0, 1], cells.ravel())
    model = LogisticRegression(firth=True, tol=1e-12).fit(x[:, None], y)
    half = cells + 0.5
    odds = np.log(half[:, 1] / half[:, 0])
    np.testing.assert_allclose(model.intercept_[0], odds[0], rtol=1e-8)
    np.testing.assert_allclose(model.coef_[0, 0], odds[1] - odds[0], rtol=1e-8)


def firth_score(X, y, b, w):
    """Firth's modified score, as it is defined."""
    A = np.column_stack([np.ones(len(X)), X])
    p = special.expit(A @ b)
    information = (A * (w * p * (1 - p))[:, None]).T @ A
    h = w * p * (1 - p) * np.einsum("ij,jk,ik->i", A, np.linalg.inv(information), A)
    return A.T @ (w * (y - p) + h * (0.5 - p)), np.sqrt(np.diag(np.linalg.inv(information)))


@pytest.mark.parametrize("separated", [False, True])
def test_firth_solves_the_modified_score_equations(separated):
    X, y = rows(60, 3, seed=8)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (X[:, 0] > 0.2).astype(int) if separated else y
    w = np.random.default_rng(0).integers(1, 3, 60).astype(float)
    model = LogisticRegression(firth=True, tol=1e-12).fit(X, y, w)
    U, errors = firth_score(X, y, np.r_[model.intercept_, model.coef_[0]], w)
    assert np.abs(U).max() < 1e-9
    np.testing.assert_allclose(model.std_errors_, errors, rtol=1e-6)
    assert model.separation_ is None
    twice = np.repeat(np.arange(60), w.astype(int))
    again = LogisticRegression(firth=True, tol=1e-12).fit(X[twice], y[twice])
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-7, atol=1e-9)


def test_firth_likelihood_ratios_hold_the_term_at_zero():
    X, y = rows(80, 2, seed=8)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    A = np.column_stack([np.ones(80), X])

    def penalised(b):
        eta = A @ b
        p = special.expit(eta)
        J = (A * (p * (1 - p))[:, None]).T @ A
        return (y * special.log_expit(eta) + (1 - y) * special.log_expit(-eta)).sum() + 0.5 * np.linalg.slogdet(J)[1]

    model = LogisticRegression(firth=True, tol=1e-10).fit(X, y)
    full = penalised(np.r_[model.intercept_, model.coef_[0]])
    table = model.summary(likelihood_ratio=True).to_frame()
    for j in range(3):
        free = [k for k in range(3) if k != j]

        def held(v, free=free):
            b = np.zeros(3)
            b[free] = v
            return -penalised(b)

        best = -minimize(held, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).fun
        assert table["lr_p_value"].iloc[j] == pytest.approx(stats.chi2.sf(2 * (full - best), 1), rel=1e-4)


def test_firth_of_collinear_columns_is_that_of_the_others():
    X, y = rows(40, 2, seed=8)
    columns = ["estimate", "std_error", "lower", "upper", "lr_p_value"]

    def table(X):
        model = LogisticRegression(firth=True, tol=1e-10).fit(X, y)
        return model.summary(likelihood_ratio=True, intervals="profile").to_frame()[columns].to_numpy()

    alone = table(X)
    for extra, untouched in ((np.ones(40), [0, 1, 2]), (np.zeros(40), [0, 1, 2]), (X[:, 0] / 3, [0, 2])):
        with pytest.warns(CollinearityWarning, match="'x2'"):
            both = table(np.column_stack([X, extra]))
        np.testing.assert_allclose(both[untouched], alone[untouched], rtol=1e-5)
        assert np.isnan(both[3, 1:]).all()
    wide = np.random.default_rng(0).normal(size=(40, 60))
    with pytest.warns(CollinearityWarning, match="'x39'"):
        model = LogisticRegression(firth=True).fit(wide, y)
    # A saturated fit: each row is a cell of its own, to which one half is added on either side.
    np.testing.assert_allclose(model.predict_proba(wide)[:, 1], (y + 0.5) / 2, atol=1e-6)


@pytest.mark.parametrize("place", [1e4, 1e9])
def test_firth_far_from_zero(place):
    X, y = rows(40, 2, seed=8)
    near, far = (LogisticRegression(firth=True, tol=1e-10).fit(Z, y) for Z in (X, X + place))
    near, far = (m.summary(likelihood_ratio=True, intervals="profile").to_frame() for m in (near, far))
    np.testing.assert_allclose(far.loc[["x0", "x1"]], near.loc[["x0", "x1"]], rtol=1e-5)
    assert np.isfinite(far["lr_p_value"]).all()


@pytest.mark.slow
def test_firth_is_less_biased():
    rng = np.random.default_rng(0)
    plain, corrected = [], []
    for _ in range(200):
        X = rng.normal(size=(40, 2))
        y = (rng.uniform(size=40) < special.expit(X[:, 0])).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeparationWarning)
            plain.append(LogisticRegression(inference=False).fit(X, y).coef_[0, 0])
        corrected.append(LogisticRegression(firth=True).fit(X, y).coef_[0, 0])
    error = np.std(corrected) / np.sqrt(200)
    assert abs(np.mean(corrected) - 1.0) < 5 * error
    assert np.mean(plain) > np.mean(corrected)


# ------------------------------------------------------------------------------------------ what must hold


@pytest.mark.parametrize("how", [{}, {"penalty": "l2", "C": 0.3}, {"class_weight": "balanced"}, {"firth": True}])
def test_weights_are_repetitions(how):
    X, y = rows(100, 3)
    w = np.random.default_rng(1).integers(0, 4, 100)
    at = np.repeat(np.arange(100), w)
    one = LogisticRegression(tol=1e-10, **how).fit(X, y, w)
    many = LogisticRegression(tol=1e-10, **how).fit(X[at], y[at])
    np.testing.assert_allclose(one.coef_, many.coef_, rtol=1e-8)
    np.testing.assert_allclose(one.std_errors_, many.std_errors_, rtol=1e-7)
    assert one.deviance_ == pytest.approx(many.deviance_, rel=1e-10)
    assert one.bic_ == pytest.approx(many.bic_, rel=1e-10)


def test_shifting_and_scaling_columns_changes_no_probability():
    X, y = rows(200, 3)
    plain = LogisticRegression().fit(X, y)
    shift, scale = np.array([1e6, -1e3, 0.0]), np.array([1e-8, 1e5, 1.0])
    moved = LogisticRegression().fit(X * scale + shift * scale, y)
    np.testing.assert_allclose(moved.coef_ * scale, plain.coef_, rtol=1e-6)


def test_huge_and_tiny_columns():
    X, y = rows(100, 2)
    for scale in (1e140, 1e-140):
        model = LogisticRegression().fit(X * scale, y)
        np.testing.assert_allclose(model.coef_ * scale, LogisticRegression().fit(X, y).coef_, rtol=1e-8)


@pytest.mark.parametrize("value", [1e-160, 1e-300, 5e-324])
def test_a_column_whose_squares_vanish_is_named(value):
    X, y = rows()
    table = pd.DataFrame(X, columns=list("abcd")).assign(b=np.where(np.arange(300) % 2, value, -value))
    with pytest.raises(DataError, match="column 'b' varies by"):
        LogisticRegression().fit(table, y)


def test_probabilities_sum_to_one_and_logs_do_not_vanish():
    X, y = rows(200, 3, 4)
    model = LogisticRegression(penalty="l2").fit(X, y)
    far = np.vstack([X, 1e4 * X])
    np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(model.predict_log_proba(far)).all()
    binary = LogisticRegression().fit(X, y > 1)
    assert np.isfinite(binary.predict_log_proba(far)).all()


def test_threshold_and_its_cut():
    X, y = rows(200, 3)
    model = LogisticRegression(threshold=0.2).fit(X, y)
    assert model.cut_ == pytest.approx(np.log(0.2 / 0.8))
    expected = (model.predict_proba(X)[:, 1] > 0.2).astype(int)
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > model.cut_).astype(int))
    with pytest.raises(ParameterError, match="two classes"):
        LogisticRegression(threshold=0.2).fit(*rows(100, 2, 3))


def test_best_threshold_is_the_cheapest_of_all():
    X, y = rows(150, 2)
    model = LogisticRegression().fit(X, y)
    cost = np.array([[0.0, 1.0], [4.0, -0.5]])
    w = np.random.default_rng(0).uniform(0.5, 2, 150)
    choice = model.best_threshold(X, y, cost, w)
    p = model.predict_proba(X)[:, 1]

    def mean_cost(t):
        return np.average(cost[y, (p > t).astype(int)], weights=w)

    tries = [mean_cost(t) for t in np.concatenate([[0.0], np.sort(p), [1.0]])]
    assert choice.cost == pytest.approx(min(tries))
    assert mean_cost(choice.threshold) == pytest.approx(choice.cost)
    assert choice.theoretical == pytest.approx(1.0 / (1.0 + 4.5))
    assert mean_cost(choice.theoretical) == pytest.approx(choice.cost_at_theoretical)
    assert choice.cut == pytest.approx(special.logit(choice.threshold))
    assert "costs" in str(choice)
    assert choice.to_frame().shape == (2, 3)
    with pytest.raises(ParameterError, match="costs no more"):
        model.best_threshold(X, y, [[1, 0], [1, 0]])
    with pytest.raises(DataError, match="does not occur in the training rows"):
        model.best_threshold(X, y + 1, cost)


def test_class_weights_as_in_scikit_learn():
    X, y = rows(200, 3, 3)
    for weights in ("balanced", {0: 2.0, 2: 0.5}):
        ours = LogisticRegression(penalty="l2", class_weight=weights).fit(X, y)
        peer = PeerLogistic(class_weight=weights, solver="newton-cholesky", tol=1e-12).fit(X, y)
        np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=1e-7, atol=1e-9)
    with pytest.raises(ParameterError, match="names 3"):
        LogisticRegression(class_weight={3: 1.0}).fit(X, y)


def test_offsets_enter_predictions():
    X, y = rows(200, 2)
    o = np.random.default_rng(0).normal(size=200)
    model = LogisticRegression().fit(X, y, offset=o)
    np.testing.assert_allclose(model.decision_function(X, o), model.decision_function(X) + o)
    with pytest.raises(DataError, match="offset contains NaN or inf in row 3"):
        model.fit(X, y, offset=np.where(np.arange(200) == 3, np.nan, 0.0))
    with pytest.raises(DataError, match=r"offset.shape == \(3,\)"):
        model.fit(X, y, offset=[1, 2, 3])


def test_float32_is_taken_as_float64():
    X, y = rows(200, 3)
    X = X.astype(np.float32)
    one, two = LogisticRegression().fit(X, y), LogisticRegression().fit(X.astype(float), y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.coef_.dtype == np.float64


def test_a_stored_model_leaves_its_rows_behind():
    X, y = rows()
    model = pickle.loads(pickle.dumps(LogisticRegression().fit(X, y)))
    assert model.summary().facts["n"] == 300
    with pytest.raises(DataError, match="fit again"):
        model.summary(likelihood_ratio=True)
    here = LogisticRegression().fit(X, y)
    X[:] = X[::-1]
    with pytest.raises(DataError, match="changed since fit"):
        here.summary(likelihood_ratio=True)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"C": 0.1}, "penalty='l2'"),
        ({"penalty_factors": [1, 1]}, "penalty='l2'"),
        ({"penalty": "elasticnet"}, "l1_ratio"),
        ({"penalty": "l2", "l1_ratio": 0.5}, "elasticnet"),
        ({"penalty": "l2", "firth": True}, "Firth"),
        ({"penalty": "l1", "solver": "sgd"}, "solver"),
        ({"learning_rate": 0.1}, "learning_rate"),
        ({"penalty": "l2", "penalty_factors": [1, -1]}, "penalty_factors"),
        ({"threshold": 1.0}, "threshold"),
        ({"class_weight": {1: -1.0}}, "class_weight"),
    ],
)
def test_contradictions_are_refused_in_one_sentence(how, words):
    X, y = rows(60, 2)
    with pytest.raises(AssayError, match=words):
        LogisticRegression(**how).fit(X, y)


def test_firth_and_thresholds_refuse_three_classes():
    with pytest.raises(ParameterError, match="two classes"):
        LogisticRegression(firth=True).fit(*rows(60, 2, 3))


# ------------------------------------------------------------------------------------------ many classes


@pytest.mark.parametrize("paid", [0.0, 300.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_preconditioner_is_nearly_the_inverse_for_normal_columns(intercept, paid):
    rng = np.random.default_rng(0)
    n, p, K = 20_000, 12, 4
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
    y = np.argmax(X @ rng.normal(size=(p, K)) * 0.3 + rng.gumbel(size=(n, K)), axis=1)
    parts = make_rows(X, y, K, np.ones(n), None, intercept, 1)
    parts = replace(parts, ridge=np.r_[np.zeros(parts.first), np.full(p, paid)])
    fit = solve_rows(parts, 1e-8, 50)
    solve = Kronecker.of(parts).at(fit.point.theta)
    product = np.column_stack([solve(column) for column in fit.point.hessian.T])
    values = np.linalg.eigvals(product).real
    # With independence exact they would be 1; A x I alone (no Hessian along the linear parts) leaves 0.6 and less.
    assert values.min() > 0.85
    assert values.max() < 1.15


def test_the_sample_stands_for_all_rows():
    X, y = rows(999, 3, 3)
    w = np.random.default_rng(0).uniform(0.5, 2.0, 999)
    parts = make_rows(X, y, 3, w, None, True, 1)
    assert parts.part(10).n == 100
    assert parts.part(10).weight == pytest.approx(parts.weight)


# ------------------------------------------------------------------------------------------ folds


def clones(model, X, y, splits, w, method):
    """A fit per training part."""
    fits = [clone(model).fit(X[train], y[train], None if w is None else w[train]) for train, _ in splits]
    return [getattr(fit, method)(X[test]) for fit, (_, test) in zip(fits, splits, strict=True)]


@pytest.mark.parametrize("kind", ["dense", "sparse", "many columns"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "how", [{}, {"penalty": "l2", "C": 0.05}, {"class_weight": "balanced"}, {"fit_intercept": False, "threshold": 0.3}]
)
@pytest.mark.parametrize("K", [2, 3])
def test_folds_together_are_fits_of_clones(K, how, weighted, kind, monkeypatch):
    if K > 2:
        how = {name: value for name, value in how.items() if name != "threshold"}
    X, y = rows(240, 4, K, seed=9)
    y = np.array(["a", "b", "c"])[y]
    if kind == "sparse":
        monkeypatch.setattr("assay.linear._logistic_run.SMALL", 0)
        X = sparse.csr_array(np.where(np.abs(X) < np.median(np.abs(X), axis=0), 0.0, X))
    if kind == "many columns":
        monkeypatch.setattr("assay.linear._logistic_newton.MANY", 0.0)
    w = np.random.default_rng(2).integers(0, 4, len(y)).astype(float) if weighted else None
    part = np.arange(len(y)) % 5
    splits = [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(5)]
    splits.append((np.repeat(np.arange(200), 2), np.arange(190, 240)))  # rows twice, and test rows that were seen
    model = LogisticRegression(**how)
    found = model.predict_folds(X, y, splits, sample_weight=w, method="predict_proba")
    for ours, theirs in zip(found, clones(model, X, y, splits, w, "predict_proba"), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)
    for ours, theirs in zip(
        model.predict_folds(X, y, splits, sample_weight=w), clones(model, X, y, splits, w, "predict"), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert not hasattr(model, "coef_")


def test_leaving_one_out_together():
    X, y = rows(60, 2, seed=4)
    splits = AllButOne(len(y))
    found = LogisticRegression().predict_folds(X, y, splits, method="predict_proba")
    expected = clones(LogisticRegression(), X, y, splits, None, "predict_proba")
    np.testing.assert_allclose(np.vstack(found), np.vstack(expected), atol=1e-7)


@pytest.mark.filterwarnings("ignore::assay.errors.SeparationWarning")
def test_a_fold_that_separates_is_fitted_on_its_own():
    X, y = np.arange(20.0)[:, None], (np.arange(20) > 9).astype(int)
    y[[3, 16]] = [1, 0]
    splits = [(np.delete(np.arange(20), [3, 16]), np.array([3, 16])), (np.arange(18), np.array([18, 19]))]
    found = LogisticRegression().predict_folds(X, y, splits, method="predict_proba")
    expected = clones(LogisticRegression(), X, y, splits, None, "predict_proba")
    np.testing.assert_allclose(np.vstack(found), np.vstack(expected), atol=1e-7)


def test_where_folds_cannot_go_together_none_says_so():
    X, y = rows(60, 2, seed=4)
    splits = [(np.arange(30), np.arange(30, 60))]
    for how in ({"penalty": "l1"}, {"firth": True}, {"solver": "gradient"}, {"solver": "sgd"}):
        assert LogisticRegression(**how).predict_folds(X, y, splits) is None
    assert LogisticRegression().predict_folds(X[:, [0, 0]], y, splits) is None
    assert LogisticRegression().predict_folds(X, y, [(np.flatnonzero(y == 0), np.arange(3))]) is None
    with pytest.raises(ParameterError, match="predict_proba"):
        LogisticRegression().predict_folds(X, y, splits, method="transform")
