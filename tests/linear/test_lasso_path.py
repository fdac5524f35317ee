"""Whole paths: every engine against the others, the peer and the definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.linear_model import lars_path
from sklearn.linear_model import lasso_path as peer_path

import assay.linear._lasso_design as design_module
from assay.errors import ParameterError
from assay.linear import Lasso, enet_path, lasso_path
from tests.linear.test_lasso import form, table  # noqa: F401  (form is a fixture)
from tests.naive.linear import elastic_net_gap, elastic_net_kkt_violation


def test_agrees_with_the_exact_homotopy():
    X, y = load_diabetes(return_X_y=True)
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    kinks, _, exact = lars_path(Xc, yc, method="lasso")
    kinks, exact = kinks[:-1], exact[:, :-1]
    path = lasso_path(X, y, alphas=kinks)
    np.testing.assert_allclose(path.coefficients, exact, atol=1e-7 * np.abs(exact).max())


def test_every_point_is_certified_and_optimal(form):  # noqa: F811
    X, y = table(50, 90)
    path = lasso_path(form(X), y)
    assert path.coefficients.shape == (90, 100)
    assert not path.coefficients[:, 0].any()
    assert path.dual_gaps.max() <= 1e-6 * np.var(y)
    for k in (10, 50, 99):
        gap = elastic_net_gap(X, y, path.coefficients[:, k], path.intercepts[k], path.x[k])
        assert gap <= 1e-6 * np.var(y) * (1 + 1e-6)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_engines_agree(form, l1_ratio, positive):  # noqa: F811
    X, y = table(50, 90)
    path = enet_path(form(X), y, l1_ratio=l1_ratio, positive=positive, tol=1e-12, alphas=30)
    for k in range(0, 30, 5):
        violation = elastic_net_kkt_violation(
            X, y, path.coefficients[:, k], path.intercepts[k], path.x[k], l1_ratio, positive=positive
        )
        assert violation <= 1e-4 * path.x[0]


def test_grid_is_that_of_the_peer():
    X, y = load_diabetes(return_X_y=True)
    alphas, coefs, _ = peer_path(X - X.mean(axis=0), y - y.mean(), tol=1e-12, max_iter=100_000)
    path = lasso_path(X, y, alphas=100)
    np.testing.assert_allclose(path.x, alphas, rtol=1e-12)
    np.testing.assert_allclose(path.coefficients, coefs, atol=1e-4)


def test_positive_has_its_own_alpha_max():
    X, y = table()
    Xc = X - X.mean(axis=0)
    path = lasso_path(X, y, positive=True, alphas=20)
    np.testing.assert_allclose(path.x[0], (Xc.T @ (y - y.mean())).max() / len(y))
    assert (path.coefficients >= 0).all()
    assert path.coefficients[:, 1].any()


def test_a_path_equals_single_fits(form):  # noqa: F811
    X, y = table(40, 70)
    path = lasso_path(form(X), y, alphas=[0.5, 0.01, 0.1], tol=1e-13)
    assert path.x.tolist() == [0.5, 0.1, 0.01]
    for k, alpha in enumerate(path.x):
        np.testing.assert_allclose(path.coefficients[:, k], Lasso(alpha, tol=1e-13).fit(X, y).coef_, atol=1e-5)


def test_the_path_ends_at_least_squares():
    X, y = table()
    path = lasso_path(X, y, alphas=[0.1, 0.0])
    np.testing.assert_allclose(path.coefficients[:, 1], Lasso(0.0).fit(X, y).coef_, rtol=1e-9)


def test_a_target_of_zeros_has_a_path_of_zeros(form):  # noqa: F811
    X, _ = table()
    path = lasso_path(form(X), np.zeros(60), alphas=5)
    assert not path.coefficients.any()
    assert not path.dual_gaps.any()


def test_saturated_wide_problem_is_solved_to_rounding(monkeypatch):
    monkeypatch.setattr(design_module, "MOST_GRAM_COLUMNS", 0)
    X, y = table(60, 400, rho=0.9)
    path = lasso_path(X, y, eps=1e-4)
    support = (path.coefficients != 0).sum(axis=0)
    assert 50 <= support.max() <= 59  # at most n - 1 columns are ever needed
    assert path.dual_gaps.max() <= 1e-6 * np.var(y)


def test_result_prints_and_tabulates():
    X, y = table()
    path = lasso_path(X, y, alphas=4)
    assert path.to_frame().shape == (4, 14)
    assert "Lasso path of 12 coefficients" in str(path)


def test_options_are_checked():
    X, y = table()
    for options in ({"nonsense": 1}, {"cv": 3}, {"eps": 2}, {"alphas": [-1.0]}, {"alphas": ["a"]}, {"tol": "tight"}):
        with pytest.raises(ParameterError):
            lasso_path(X, y, **options)
    with pytest.raises(ParameterError, match="l1_ratio"):
        lasso_path(X, y, l1_ratio=0.5)
    with pytest.raises(ParameterError, match="RidgeCV"):
        enet_path(X, y, l1_ratio=0.0)
    with pytest.raises(ParameterError, match="l1_ratio"):
        enet_path(X, y, l1_ratio=[0.5, 0.7])


def test_sparse_table_with_free_columns_and_weights(monkeypatch):
    X, y = table(60, 30)
    X[np.abs(X) < 1.5] = 0
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    factors = np.ones(30)
    factors[[1, 4]] = 0
    dense = lasso_path(X, y, penalty_factors=factors, sample_weight=w, alphas=20)
    monkeypatch.setattr(design_module, "SMALL_CELLS", 0)
    monkeypatch.setattr(design_module, "DENSE_ENOUGH", 2.0)
    thin = lasso_path(sparse.csc_array(X), y, penalty_factors=factors, sample_weight=w, alphas=20, tol=1e-13)
    np.testing.assert_allclose(thin.coefficients, dense.coefficients, atol=1e-5)
    np.testing.assert_allclose(thin.intercepts, dense.intercepts, atol=1e-5)


def test_a_residual_opposed_to_the_target_certifies_nothing():
    from assay.linear._coordinate import certificate

    y, b, q = np.array([1.0]), np.array([3.0]), np.array([-2.0])  # x = 1: the residual is -2
    gap = certificate(y, y - b, b, q, np.array([0.1]), np.array([0.0]), False)
    best = 0.5 * 0.1**2 + 0.1 * 0.9
    assert gap >= 0.5 * 4 + 0.3 - best


@pytest.mark.parametrize("seed", range(6))
def test_random_walk_columns_are_solved_by_every_engine(form, seed):  # noqa: F811
    rng = np.random.default_rng(seed)
    X = np.cumsum(rng.standard_normal((30, 60)), axis=1) + 10
    y = X @ (rng.standard_normal(60) * (rng.random(60) < 0.2)) + 0.1 * rng.standard_normal(30)
    path = lasso_path(form(X), y, alphas=15, eps=1e-4, max_iter=20_000)
    gaps = [elastic_net_gap(X, y, path.coefficients[:, k], path.intercepts[k], path.x[k]) for k in range(15)]
    assert max(gaps) <= 2e-6 * np.var(y)
