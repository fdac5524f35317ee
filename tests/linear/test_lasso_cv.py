"""LassoCV and ElasticNetCV: the curve, the two rules, and merged folds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.linear_model import ElasticNetCV as PeerElasticNetCV
from sklearn.linear_model import LassoCV as PeerLassoCV
from sklearn.model_selection import KFold, ShuffleSplit

from assay.errors import ConvergenceWarning, DataError, ParameterError
from assay.linear import ElasticNet, ElasticNetCV, Lasso, LassoCV, LinearRegression
from assay.progress import listen
from tests.linear.test_lasso import table


def test_merged_folds_equal_refits():
    X, y = load_diabetes(return_X_y=True)
    model = LassoCV(cv=7).fit(X, y)
    folds = list(KFold(7).split(X))
    for k, (train, test) in enumerate(folds):
        for a in (5, 40, 90):
            fit = Lasso(model.alphas_[a]).fit(X[train], y[train])
            np.testing.assert_allclose(model.mse_path_[a, k], np.mean((y[test] - fit.predict(X[test])) ** 2), rtol=1e-9)


def test_agrees_with_the_peer():
    X, y = load_diabetes(return_X_y=True)
    ours, peer = LassoCV(cv=10).fit(X, y), PeerLassoCV(cv=10, tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.alphas_, peer.alphas_, rtol=1e-10)
    np.testing.assert_allclose(ours.mse_path_, peer.mse_path_, rtol=1e-5)
    np.testing.assert_allclose(ours.alpha_, peer.alpha_, rtol=1e-10)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-2)


def test_weighted_folds_agree_with_the_peer():
    X, y = table(80, 10)
    w = np.random.default_rng(0).uniform(0, 3, 80)
    ours = LassoCV(cv=4).fit(X, y, w)
    peer = PeerLassoCV(cv=4, tol=1e-12, max_iter=100_000).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(ours.mse_path_, peer.mse_path_, rtol=1e-5)


def test_several_ratios_agree_with_the_peer():
    X, y = table(80, 10)
    ours = ElasticNetCV(l1_ratio=[0.2, 0.9], alphas=30, cv=5).fit(X, y)
    peer = PeerElasticNetCV(l1_ratio=[0.2, 0.9], alphas=30, cv=5, tol=1e-12, max_iter=100_000).fit(X, y)
    assert ours.mse_path_.shape == (2, 30, 5)
    assert ours.l1_ratio_ == peer.l1_ratio_
    np.testing.assert_allclose(ours.mse_path_, peer.mse_path_, rtol=1e-5)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-4)


def test_one_standard_error_picks_the_larger_alpha():
    X, y = table(100, 20)
    least, simple = LassoCV().fit(X, y), LassoCV(rule="1se").fit(X, y)
    assert least.alpha_ == least.alpha_min_ == simple.alpha_min_
    assert simple.alpha_ == simple.alpha_1se_ > least.alpha_
    mean = least.mse_path_.mean(axis=1)
    error = least.mse_path_.std(axis=1) / np.sqrt(4)
    best = int(np.argmin(mean))
    within = least.alphas_[mean <= mean[best] + error[best]]
    assert simple.alpha_ == within.max()
    np.testing.assert_allclose(least.cv_curve_.std_error, error)
    np.testing.assert_allclose(least.cv_curve_.rule, mean[best] + error[best])
    assert least.cv_curve_.marks == {"min": least.alpha_min_, "1se": least.alpha_1se_}
    assert np.count_nonzero(simple.coef_) <= np.count_nonzero(least.coef_)


def test_the_fit_is_the_lasso_at_the_chosen_alpha():
    X, y = table(50, 80)
    model = LassoCV(alphas=25).fit(X, y)
    single = Lasso(model.alpha_).fit(X, y)
    np.testing.assert_allclose(model.coef_, single.coef_, atol=1e-8)
    np.testing.assert_allclose(model.budget_, single.budget_, rtol=1e-8)
    assert model.path_.coefficients.shape == (80, 25)
    assert model.dual_gap_ <= 1e-6 * np.var(y)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(90, 12), (40, 900)])
def test_jobs_change_nothing(make, shape):
    X, y = table(*shape)
    one, two = (LassoCV(alphas=12, n_jobs=k).fit(make(X), y) for k in (None, 2))
    assert np.array_equal(one.mse_path_, two.mse_path_)
    assert np.array_equal(one.coef_, two.coef_)


def test_sparse_rows_give_the_dense_curve():
    X, y = table(60, 15)
    np.testing.assert_allclose(
        LassoCV(alphas=20).fit(sparse.coo_array(X), y).mse_path_, LassoCV(alphas=20).fit(X, y).mse_path_, rtol=1e-8
    )


def test_any_splitter_works():
    X, y = table()
    overlapping = LassoCV(cv=ShuffleSplit(4, random_state=0), alphas=10).fit(X, y)
    pairs = LassoCV(cv=list(ShuffleSplit(4, random_state=0).split(X)), alphas=10).fit(X, y)
    assert np.array_equal(overlapping.mse_path_, pairs.mse_path_)
    single = LassoCV(cv=ShuffleSplit(1, random_state=0), alphas=10, rule="1se").fit(X, y)
    assert single.alpha_1se_ == single.alpha_min_


def test_given_alphas_are_sorted_down():
    X, y = table()
    model = LassoCV(alphas=[0.01, 1.0, 0.1]).fit(X, y)
    assert model.alphas_.tolist() == [1.0, 0.1, 0.01]


def test_huge_values_in_folds():
    X, y = table()
    plain, huge = LassoCV(alphas=10).fit(X, y), LassoCV(alphas=10).fit(X * 1e150, y)
    np.testing.assert_allclose(huge.coef_ * 1e150, plain.coef_, atol=1e-8)


def test_folds_report_progress():
    X, y = table()
    seen = []
    with listen(lambda label, done, total: seen.append((label, done, total))):
        LassoCV(cv=3, alphas=5).fit(X, y)
    assert seen == [("folds", 0, 3), ("folds", 1, 3), ("folds", 2, 3), ("folds", 3, 3)]


@pytest.mark.parametrize("bad", [object(), -1, "nonsense"])
@pytest.mark.parametrize("name", sorted(ElasticNetCV().get_params()))
def test_nonsense_parameters_are_refused(name, bad):
    if name == "n_jobs" and bad == -1:
        pytest.skip("all cores")
    X, y = table()
    with pytest.raises(ParameterError, match=name):
        ElasticNetCV(**{name: bad}).fit(X, y)


def test_a_fold_without_weight_is_refused():
    X, y = table(20, 6)
    w = np.zeros(20)
    w[:10] = 1
    with pytest.raises(DataError, match="fold"):
        LassoCV(cv=2).fit(X, y, w)


def test_a_minimum_at_the_end_of_the_grid_is_said():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5)) * [1, 1, 1, 1, 1000]  # the last column sets the grid, the first needs less alpha
    y = X @ [3.0, -2.0, 1.0, 1.0, 0.01] + rng.standard_normal(200)
    with pytest.warns(ConvergenceWarning, match="lower eps"):
        LassoCV(eps=0.2).fit(X, y)
    model = LassoCV(eps=1e-8).fit(X, y)
    assert model.alpha_min_ > model.alphas_[-1]


def test_raw_columns_of_other_scales_end_at_the_grid_and_standardised_ones_do_not():
    """The last step gains 0.7% of a standard error, but what lies beyond the grid is ten times as much."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    with pytest.warns(ConvergenceWarning, match="lower eps"):
        raw = LassoCV(cv=10, rule="1se").fit(X, y)
    assert raw.alpha_min_ == raw.alphas_[-1]
    longer = LassoCV(cv=10, rule="1se", eps=1e-5).fit(X, y)
    assert longer.alpha_min_ > longer.alphas_[-1]
    model = LassoCV(cv=10, rule="1se").fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    assert model.alpha_min_ > model.alphas_[-1]


@pytest.mark.parametrize("kind", [Lasso, ElasticNet])
def test_alpha_and_budget_are_alternatives(kind):
    X, y = np.eye(4), np.arange(4.0)
    with pytest.raises(ParameterError, match="both given"):
        kind(alpha=0.5, budget=1.0).fit(X, y)
    with pytest.raises(ParameterError, match="both None"):
        kind(alpha=None).fit(X, y)
    np.testing.assert_array_equal(kind(alpha=None, budget=1.0).fit(X, y).coef_, kind(budget=1.0).fit(X, y).coef_)


@pytest.mark.parametrize("level", [1.0, 0.1])
def test_a_free_constant_column_keeps_a_coefficient_of_zero(level):
    """Its rounding residue in merged folds must not be taken for a column."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = np.c_[rng.standard_normal((40, 3)), np.full(40, level)]
        y, w = X[:, 0] + rng.standard_normal(40), rng.exponential(size=40)
        found = LassoCV(alphas=[0.1, 0.01], penalty_factors=[1, 1, 1, 0]).fit(X, y, sample_weight=w)
        without = LassoCV(alphas=[0.1, 0.01]).fit(X[:, :3], y, sample_weight=w)
        assert found.coef_[3] == 0
        np.testing.assert_allclose(found.mse_path_, without.mse_path_, rtol=1e-9)


@pytest.mark.parametrize("positive", [False, True])
def test_without_a_penalty_the_scale_of_a_column_is_not_its_rank(positive):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3)) * [1e8, 1, 1e-8]
    y = X @ [1e-8, 1, 1e8] + 0.1 * rng.standard_normal(30)
    found = Lasso(0.0, positive=positive).fit(X, y)
    np.testing.assert_allclose(found.coef_, LinearRegression().fit(X, y).coef_, rtol=1e-9)
