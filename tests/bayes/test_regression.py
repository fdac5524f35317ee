"""Bayesian linear regression against direct formulas, quadrature, ridge, lasso and scikit-learn's BayesianRidge."""

from __future__ import annotations

import pickle

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from sklearn.linear_model import BayesianRidge

from assay.bayes.regression import BayesianLinearRegression, map_lasso, map_ridge
from assay.errors import AssayError, DataError
from assay.linear import Lasso, Ridge


def problem(n=40, p=4, seed=0, noise=1.0, offset=3.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p))) + offset
    return X, X @ rng.normal(size=p) + noise * rng.normal(size=n) + 5.0


def log_evidence(X, y, sigma2, tau2, intercept=True, wide=1e7):
    """The density of y under N(0, sigma2 I + tau2 X X' + wide 1 1'), times sqrt(2 pi wide) for the flat intercept."""
    n = len(y)
    K = sigma2 * np.eye(n) + tau2 * X @ X.T + (wide if intercept else 0.0)
    det = np.linalg.slogdet(K)[1]
    value = -0.5 * (n * np.log(2 * np.pi) + det + y @ np.linalg.solve(K, y))
    return value + (0.5 * np.log(2 * np.pi * wide) if intercept else 0.0)


def at(model, X, y):
    """Our evidence at another model's hyperparameters."""
    fixed = BayesianLinearRegression(1 / model.lambda_, 1 / model.alpha_, fit_intercept=model.fit_intercept)
    return fixed.fit(X, y).log_evidence_


# ------------------------------------------------------------------------------------------- the posterior


@pytest.mark.parametrize(("n", "p"), [(40, 4), (8, 20), (5, 5)])
@pytest.mark.parametrize("intercept", [True, False])
def test_posterior_with_known_variances_is_the_formula(n, p, intercept):
    X, y = problem(n, p)
    sigma2, tau2 = 0.7, 1.9
    model = BayesianLinearRegression(tau2, sigma2, fit_intercept=intercept).fit(X, y)
    A, B = (X - X.mean(axis=0), y - y.mean()) if intercept else (X, y)
    precision = A.T @ A / sigma2 + np.eye(p) / tau2
    np.testing.assert_allclose(model.covariance_, np.linalg.inv(precision), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.coef_, np.linalg.solve(precision, A.T @ B / sigma2), rtol=1e-9, atol=1e-10)
    assert model.log_evidence_ == pytest.approx(log_evidence(X, y, sigma2, tau2, intercept), abs=1e-4)
    mean, std = model.predict(X[:3] + 1, return_std=True)
    z = X[:3] + 1 - (X.mean(axis=0) if intercept else 0)
    variance = sigma2 * (1 + intercept / n) + np.einsum("ij,jk,ik->i", z, model.covariance_, z)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-9)
    interval = model.predict_interval(X[:3] + 1, 0.9)
    np.testing.assert_allclose(interval.upper - mean, 1.6448536269514722 * std, rtol=1e-9)


def test_unknown_variance_is_integrated_out():
    """Everything about one coefficient by quadrature over sigma2, which the t law must match."""
    X = problem(12, 1)[0]
    y = 2.0 * X[:, 0] + np.cos(np.arange(12.0))
    shape, rate = 2.0, 3.0
    model = BayesianLinearRegression(shape=shape, rate=rate).fit(X, y)
    fixed = model.alpha_
    assert np.isfinite(fixed)
    A, B = X - X.mean(axis=0), y - y.mean()
    nodes, weights = special.roots_legendre(2000)
    log_s = 8 * nodes  # log sigma2 from -8 to 8
    s = np.exp(log_s)
    each = [BayesianLinearRegression(v / fixed, v).fit(X, y).log_evidence_ for v in s[::20]]
    q = float(B @ B - (A[:, 0] @ B) ** 2 / (A[:, 0] @ A[:, 0] + fixed))
    m = len(y) - 1
    log_like = -0.5 * (m * np.log(2 * np.pi * s) + q / s) - 0.5 * np.log(len(y))
    log_like -= 0.5 * np.log1p(A[:, 0] @ A[:, 0] / fixed)
    np.testing.assert_allclose(log_like[::20], each, rtol=1e-9)
    mass = np.exp(log_like + stats.invgamma(shape, scale=rate).logpdf(s)) * s * 8 * weights
    assert model.log_evidence_ == pytest.approx(np.log(mass.sum()), rel=1e-9)
    deviation = np.sqrt(s / (A[:, 0] @ A[:, 0] + fixed))
    low, high = model.summary(0.9).table.loc["x0", ["lower", "upper"]]
    inside = special.ndtr((high - model.coef_[0]) / deviation) - special.ndtr((low - model.coef_[0]) / deviation)
    assert mass @ inside / mass.sum() == pytest.approx(0.9, abs=1e-9)
    new = model.predict_interval([[1.0]], 0.8)
    at_x = np.sqrt(s * (1 + 1 / len(y) + (1.0 - X.mean()) ** 2 / (A[:, 0] @ A[:, 0] + fixed)))
    inside = special.ndtr((new.upper[0] - new.estimate[0]) / at_x)
    assert mass @ inside / mass.sum() == pytest.approx(0.9, abs=1e-9)
    assert model.covariance_[0, 0] == pytest.approx(mass @ deviation**2 / mass.sum(), rel=1e-8)


@pytest.mark.parametrize(("n", "p"), [(60, 5), (20, 50), (200, 3)])
@pytest.mark.parametrize("intercept", [True, False])
def test_evidence_is_maximal(n, p, intercept):
    """No (sigma2, tau2) around the chosen pair, near or far, has more; nor has scikit-learn's."""
    X, y = problem(n, p, seed=n)
    model = BayesianLinearRegression(fit_intercept=intercept).fit(X, y)
    assert model.log_evidence_ == pytest.approx(log_evidence(X, y, model.sigma2_, model.tau2_, intercept), abs=1e-4)
    for factor in (0.01, 0.5, 0.999, 1.001, 2.0, 100.0):
        for other in (0.01, 0.9, 1.0, 1.1, 100.0):
            moved = BayesianLinearRegression(model.tau2_ * factor, model.sigma2_ * other, fit_intercept=intercept)
            assert moved.fit(X, y).log_evidence_ < model.log_evidence_ + 1e-10
    assert model.log_evidence_ >= at(BayesianRidge(fit_intercept=intercept).fit(X, y), X, y) - 1e-9


def test_agrees_with_bayesian_ridge_without_intercept():
    X, y = problem(80, 5, offset=0.0)
    y = y - 5.0
    peer = BayesianRidge(fit_intercept=False, tol=1e-12, max_iter=5000, compute_score=True).fit(X, y)
    model = BayesianLinearRegression(fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-5)
    assert model.sigma2_ == pytest.approx(1 / peer.alpha_, rel=1e-4)
    assert model.tau2_ == pytest.approx(1 / peer.lambda_, rel=1e-4)
    assert at(peer, X, y) == pytest.approx(peer.scores_[-1], abs=1e-3)


@pytest.mark.parametrize("given", ["tau2", "sigma2"])
def test_the_other_is_maximised(given):
    X, y = problem(50, 4)
    model = BayesianLinearRegression(**{given: 1.3}).fit(X, y)
    other = "sigma2" if given == "tau2" else "tau2"
    if given == "sigma2":
        best = model.log_evidence_
        assert np.isinf(model.df_)
        for factor in (0.1, 0.99, 1.01, 10):
            moved = BayesianLinearRegression(sigma2=1.3, tau2=model.tau2_ * factor).fit(X, y)
            assert moved.log_evidence_ < best
    else:
        chosen = model.alpha_ * 1.3  # sigma2 = lam tau2
        best = BayesianLinearRegression(tau2=1.3, sigma2=chosen).fit(X, y).log_evidence_
        for factor in (0.1, 0.99, 1.01, 10):
            assert BayesianLinearRegression(tau2=1.3, sigma2=chosen * factor).fit(X, y).log_evidence_ < best
    assert getattr(model, f"{other}_") > 0


def test_given_prior():
    X, y = problem(30, 3)
    m0 = np.array([1.0, -2.0, 0.5])
    C = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.5]])
    model = BayesianLinearRegression(tau2=1.0, sigma2=0.8, prior_mean=m0, prior_covariance=C).fit(X, y)
    A, B = X - X.mean(axis=0), y - y.mean()
    precision = A.T @ A / 0.8 + np.linalg.inv(C)
    np.testing.assert_allclose(model.covariance_, np.linalg.inv(precision), rtol=1e-9)
    np.testing.assert_allclose(
        model.coef_, np.linalg.solve(precision, A.T @ B / 0.8 + np.linalg.solve(C, m0)), rtol=1e-9
    )
    np.testing.assert_allclose(model.intercept_, y.mean() - X.mean(axis=0) @ model.coef_, rtol=1e-9)
    diagonal = BayesianLinearRegression(prior_covariance=np.diag(C)).fit(X, y)
    full = BayesianLinearRegression(prior_covariance=np.diag(np.diag(C))).fit(X, y)
    np.testing.assert_allclose(diagonal.coef_, full.coef_)
    # More columns than rows: directions without data keep their prior.
    X, y = problem(4, 6)
    rng = np.random.default_rng(0)
    R = rng.normal(size=(6, 6))
    C = R @ R.T + np.eye(6)
    model = BayesianLinearRegression(1.0, 0.8, prior_covariance=C).fit(X, y)
    A = X - X.mean(axis=0)
    np.testing.assert_allclose(model.covariance_, np.linalg.inv(A.T @ A / 0.8 + np.linalg.inv(C)), rtol=1e-8, atol=1e-9)
    draws = model.sample_coefficients(40_000, 0).iloc[:, 1:-1].to_numpy()
    np.testing.assert_allclose(np.cov(draws.T), model.covariance_, atol=0.05 * model.covariance_.max())


def test_draws_have_the_posterior_moments():
    """Means within six standard errors."""
    X, y = problem(25, 3)
    model = BayesianLinearRegression().fit(X, y)
    draws = model.sample_coefficients(50_000, 1)
    assert list(draws.columns) == ["intercept", "x0", "x1", "x2", "sigma2"]
    table = model.summary().table
    error = table["std"] / np.sqrt(50_000)
    assert (np.abs(draws.iloc[:, :4].mean() - table["estimate"]) < 6 * error).all()
    np.testing.assert_allclose(draws.iloc[:, :4].std(), table["std"], rtol=0.03)
    assert draws["sigma2"].mean() == pytest.approx(model.rate_ / (model.shape_ - 1), rel=0.02)


def test_predictive_intervals_cover():
    """20,000 new observations, prior drawn anew each time; two-sided at 1e-6."""
    rng = np.random.default_rng(5)
    runs, hits, total = 400, 0, 0
    for _ in range(runs):
        b = rng.normal(size=4)
        X, new = rng.normal(size=(15, 4)), rng.normal(size=(50, 4))
        model = BayesianLinearRegression(tau2=1.0, sigma2=2.0).fit(X, X @ b + np.sqrt(2) * rng.normal(size=15))
        # One new row per fit is independent of the others given the fit; all are counted, and runs bound the error.
        truth = new @ b + np.sqrt(2) * rng.normal(size=50)
        found = model.predict_interval(new, 0.9)
        hits += np.count_nonzero((found.lower <= truth) & (truth <= found.upper))
        total += 50
    # Rows of one fit are dependent: the bound is that of `runs` independent ones at least, and holds for more.
    assert abs(hits / total - 0.9) < special.ndtri(1 - 5e-7) * np.sqrt(0.09 / runs)


# ------------------------------------------------------------------------------------------- MAP readings


def test_ridge_is_the_mode_under_a_normal_prior():
    X, y = problem(50, 6)
    sigma2, tau2 = 1.7, 0.4
    penalty = map_ridge(sigma2, tau2)
    ridge = Ridge(penalty.alpha).fit(X, y)
    bayes = BayesianLinearRegression(tau2=tau2, sigma2=sigma2).fit(X, y)
    np.testing.assert_allclose(bayes.coef_, ridge.coef_, rtol=1e-9)
    np.testing.assert_allclose(bayes.intercept_, ridge.intercept_, rtol=1e-9)
    chosen = BayesianLinearRegression().fit(X, y)
    np.testing.assert_allclose(chosen.coef_, Ridge(chosen.alpha_).fit(X, y).coef_, rtol=1e-9)


def test_lasso_is_the_mode_under_a_laplace_prior():
    """At the lasso fit no move in 500 directions raises the log posterior."""
    X, y = problem(50, 6, offset=0.0)
    sigma2, tau = 4.0, 0.05
    penalty = map_lasso(sigma2, tau, len(y))
    assert penalty.alpha == pytest.approx(sigma2 / (50 * tau))
    assert penalty.lam == pytest.approx(2 * sigma2 / tau)
    fit = Lasso(penalty.alpha, tol=1e-12).fit(X, y)

    def log_posterior(b0, b):
        return -((y - b0 - X @ b) ** 2).sum() / (2 * sigma2) - np.abs(b).sum() / tau

    best = log_posterior(fit.intercept_, fit.coef_)
    rng = np.random.default_rng(0)
    for size in (1e-4, 1e-2, 1.0):
        for step in size * rng.normal(size=(170, 7)):
            assert log_posterior(fit.intercept_ + step[0], fit.coef_ + step[1:]) <= best + 1e-9
    assert 0 < np.count_nonzero(fit.coef_) <= 6


def test_map_readings_speak():
    assert float(map_ridge(2, 0.5)) == 4.0
    for penalty in (map_ridge(2, 0.5), map_lasso(2, 0.5, 10)):
        assert "posterior mode" in str(penalty)
        assert penalty.to_frame().shape[0] == 1
        axes = penalty.plot()
        plt.close(axes.figure)


# ------------------------------------------------------------------------------------------- edges


def test_rows_of_products_and_rows_themselves_agree():
    """A column a million times larger sends the fit through the rows; its posterior only changes its unit."""
    X, y = problem(60, 3)
    C = np.array([1.0, 1.0, 1e-12])
    big = X * np.array([1.0, 1.0, 1e6])
    one, two = BayesianLinearRegression().fit(X, y), BayesianLinearRegression(prior_covariance=C).fit(big, y)
    np.testing.assert_allclose(two.coef_ * [1, 1, 1e6], one.coef_, rtol=1e-8)
    assert two.log_evidence_ == pytest.approx(one.log_evidence_, rel=1e-10)


def test_hard_data():
    rng = np.random.default_rng(0)
    X, y = problem(30, 3)
    constant = np.column_stack([X, np.full(30, 7.0), X[:, 0]])
    model = BayesianLinearRegression().fit(constant, y)
    assert model.coef_[3] == 0
    assert model.coef_[0] == pytest.approx(model.coef_[4])
    assert np.isfinite(model.summary().table.to_numpy()).all()
    exact = BayesianLinearRegression().fit(X, X @ [1.0, 2.0, 3.0])
    np.testing.assert_allclose(exact.coef_, [1, 2, 3], rtol=1e-6)
    flat = BayesianLinearRegression().fit(X, np.full(30, 2.5))
    assert flat.intercept_ == pytest.approx(2.5)
    assert not flat.coef_.any()
    noise, alternating = rng.normal(size=(20, 3)), np.tile([1.0, -1.0], 10)
    noise -= noise.mean(axis=0)
    silent = BayesianLinearRegression().fit(noise - np.outer(alternating, alternating @ noise) / 20, alternating)
    assert silent.tau2_ == 0
    assert not silent.coef_.any()
    assert "largest at tau2 = 0" in str(silent.summary())
    shifted = BayesianLinearRegression().fit(X + 1e8, y)
    np.testing.assert_allclose(shifted.coef_, BayesianLinearRegression().fit(X, y).coef_, rtol=1e-5)
    tiny = BayesianLinearRegression().fit(X, y * 1e-150)
    np.testing.assert_allclose(tiny.coef_ * 1e150, BayesianLinearRegression().fit(X, y).coef_, rtol=1e-9)
    with pytest.raises(AttributeError, match="no covariance"):
        _ = BayesianLinearRegression().fit(X[:3], y[:3]).covariance_
    assert np.isinf(BayesianLinearRegression().fit(X[:3], y[:3]).predict(X[:1], return_std=True)[1]).all()


@pytest.mark.parametrize("of_x", [1e-300, 1e-200, 1e-150, 1e-75, 1.0, 1e75, 1e150, 1e200])
def test_a_scale_is_answered_rightly_or_in_a_sentence(of_x):
    """Coefficients, noise and intervals move with the units, or the scale is refused with a remedy."""
    X, y = problem(30, 3)
    plain = BayesianLinearRegression().fit(X, y)
    errors = plain.summary().table["std"].iloc[1:]
    answered, refused = 0, []
    for of_y in (1e-300, 1e-200, 1e-150, 1e-75, 1.0, 1e75, 1e150, 1e200):
        try:
            model = BayesianLinearRegression().fit(X * of_x, y * of_y)
        except DataError as error:
            refused.append(error.remedy)
            continue
        answered += 1
        np.testing.assert_allclose(model.coef_ * of_x / of_y, plain.coef_, rtol=1e-7)
        np.testing.assert_allclose(model.summary().table["std"].iloc[1:] * of_x / of_y, errors, rtol=1e-7)
        upper = model.predict_interval(X[:1] * of_x).upper / of_y
        np.testing.assert_allclose(upper, plain.predict_interval(X[:1]).upper, rtol=1e-7)
        assert model.tau2_ > 0
    assert all("rescale" in remedy for remedy in refused)
    assert (answered > 0) == (1e-150 <= of_x < 1e75)


def test_weights_are_repetition():
    X, y = problem(30, 3)
    w = np.arange(30) % 4
    heavy = BayesianLinearRegression().fit(X, y, w)
    repeated = BayesianLinearRegression().fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(heavy.coef_, repeated.coef_, rtol=1e-9)
    assert heavy.log_evidence_ == pytest.approx(repeated.log_evidence_, rel=1e-9)
    np.testing.assert_allclose(heavy.covariance_, repeated.covariance_, rtol=1e-8)


def test_tables_names_pictures_and_pickles():
    X, y = problem(30, 2)
    table = pd.DataFrame(X, columns=["größe", "alter"], index=[f"r{i}" for i in range(30)])
    model = BayesianLinearRegression().fit(table, y)
    summary = model.summary(0.9)
    assert list(summary.table.index) == ["intercept", "größe", "alter"]
    assert "log evidence" in str(summary)
    plt.close(summary.plot().figure)
    assert model.predict_interval(table).names[3] == "r3"
    assert model.predict_interval(table, of="mean").upper[0] < model.predict_interval(table).upper[0]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X, y: BayesianLinearRegression(tau2=0.0).fit(X, y), "tau2"),
        (lambda X, y: BayesianLinearRegression(sigma2=-1.0).fit(X, y), "sigma2"),
        (lambda X, y: BayesianLinearRegression(shape=1.0).fit(X, y), "only one of them is 0"),
        (lambda X, y: BayesianLinearRegression(prior_mean=[1.0]).fit(X, y), "prior_mean"),
        (lambda X, y: BayesianLinearRegression(prior_covariance=[1.0, -1.0, 1.0]).fit(X, y), "not a variance"),
        (lambda X, y: BayesianLinearRegression(prior_covariance=-np.eye(3)).fit(X, y), "positive definite"),
        (lambda X, y: BayesianLinearRegression(prior_covariance=np.ones((2, 2))).fit(X, y), "3 x 3"),
        (lambda X, y: BayesianLinearRegression().fit(X[:1], y[:1]), "1 sample"),
        (lambda X, y: BayesianLinearRegression().fit(X, y).predict_interval(X, 2.0), "level"),
        (lambda X, y: BayesianLinearRegression().fit(X, y).predict_interval(X, of="x"), "of"),
        (lambda X, y: BayesianLinearRegression().fit(X, y).sample_coefficients(0), "size"),
        (lambda X, y: BayesianLinearRegression().fit(np.where(X > 3, np.nan, X), y), "NaN"),
        (lambda X, y: map_ridge(0, 1), "sigma2"),
        (lambda X, y: map_lasso(1, 1, 0), "n = 0"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises(AssayError) as caught:
        call(*problem(20, 3))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
