"""Lasso and elastic net at one penalty or within one budget."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Lasso as PeerLasso
from sklearn.linear_model import LinearRegression as PeerLeastSquares

import assay.linear._lasso_design as design_module
from assay.errors import AssayError, ConvergenceWarning, DataError, ParameterError
from assay.linear import ElasticNet, Lasso
from tests.naive.linear import elastic_net_by_descent, elastic_net_gap, elastic_net_kkt_violation


def table(n=60, p=12, seed=0, rho=0.6, active=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    b = np.zeros(p)
    b[rng.choice(p, active, replace=False)] = rng.choice([-2.0, 1.5], active)
    return X + rng.uniform(-3, 3, p), X @ b + rng.standard_normal(n) + 5


@pytest.fixture(params=["gram", "wide", "sparse"])
def form(request, monkeypatch):
    """Every engine on the same small data: lower the thresholds that choose between them."""
    if request.param != "gram":
        monkeypatch.setattr(design_module, "MOST_GRAM_COLUMNS", 0)
    if request.param == "sparse":
        monkeypatch.setattr(design_module, "SMALL_CELLS", 0)
        monkeypatch.setattr(design_module, "DENSE_ENOUGH", 2.0)
        return sparse.csr_array
    return np.asarray


SETTINGS = [
    {},
    {"fit_intercept": False},
    {"positive": True},
    {"penalty_factors": [0, 1, 2, 1, 0, 0.5, 1, 1, 1, 3, 1, 1]},
    {"positive": True, "penalty_factors": [0, 1, 2, 1, 0, 0.5, 1, 1, 1, 3, 1, 1]},
]


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_agrees_with_descent_from_the_definition(form, settings, l1_ratio):
    X, y = table()
    w = np.random.default_rng(1).uniform(0, 2, len(y))
    w[:5] = 0
    model = ElasticNet(0.2, l1_ratio=l1_ratio, tol=1e-13, **settings).fit(form(X), y, w)
    options = {
        "positive": settings.get("positive", False),
        "factors": settings.get("penalty_factors"),
        "fit_intercept": settings.get("fit_intercept", True),
    }
    b, b0 = elastic_net_by_descent(X, y, 0.2, l1_ratio, w, **options)
    np.testing.assert_allclose(model.coef_, b, atol=2e-6)
    np.testing.assert_allclose(model.intercept_, b0, atol=1e-5)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.7])
def test_dense_solutions_satisfy_the_optimality_conditions_to_rounding(l1_ratio):
    X, y = load_diabetes(return_X_y=True)
    model = ElasticNet(0.05, l1_ratio=l1_ratio).fit(X, y)
    violation = elastic_net_kkt_violation(X, y, model.coef_, model.intercept_, 0.05, l1_ratio)
    assert violation <= 1e-11 * np.abs(X.T @ (y - y.mean()) / len(y)).max()


def test_reported_gap_is_the_gap_of_the_objective(form):
    X, y = table()
    model = Lasso(0.1, tol=1e-3).fit(form(X), y)
    from_definition = elastic_net_gap(X, y, model.coef_, model.intercept_, 0.1)
    assert model.dual_gap_ <= from_definition * (1 + 1e-9) + 1e-12
    assert 0 <= model.dual_gap_ <= 1e-3 * np.var(y)


def test_gap_bounds_the_distance_to_the_optimum_when_stopped_early():
    X, y = table(80, 30, rho=0.98)
    X = np.tile(X, (1, 4))

    def objective(model):
        ridge, lasso = model.coef_ @ model.coef_, np.abs(model.coef_).sum()
        return np.mean((y - model.predict(X)) ** 2) / 2 + 1e-4 * (0.9 * lasso + 0.1 * ridge / 2)

    with pytest.warns(ConvergenceWarning, match="max_iter = 1 sweeps"):
        rough = ElasticNet(1e-4, l1_ratio=0.9, max_iter=1, tol=1e-13).fit(X, y)
    best = ElasticNet(1e-4, l1_ratio=0.9, tol=1e-13).fit(X, y)
    assert elastic_net_kkt_violation(X, y, best.coef_, best.intercept_, 1e-4, 0.9) < 1e-7
    distance = objective(rough) - objective(best)
    assert 1e-6 < distance <= rough.dual_gap_


@pytest.mark.parametrize("selection", ["cyclic", "random", "greedy"])
def test_every_order_of_coordinates_reaches_the_same_optimum(form, selection):
    X, y = table()
    model = Lasso(0.1, selection=selection, random_state=0, tol=1e-13).fit(form(X), y)
    np.testing.assert_allclose(model.coef_, Lasso(0.1).fit(X, y).coef_, atol=2e-6)


def test_random_order_is_seeded():
    X, y = table()
    one, two = (Lasso(0.1, selection="random", random_state=3).fit(X, y) for _ in range(2))
    assert np.array_equal(one.coef_, two.coef_)
    Lasso(0.1, selection="random", random_state=np.random.default_rng(0)).fit(X, y)


def test_more_columns_than_rows_agree_with_the_peer(form):
    X, y = table(40, 120)
    model = Lasso(0.1, tol=1e-13).fit(form(X), y)
    peer = PeerLasso(0.1, tol=1e-12, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-5)


def test_alpha_max_counts_the_intercept_and_the_free_columns(form):
    X, y = table()
    factors = np.ones(X.shape[1])
    factors[[2, 7]] = 0
    free = PeerLeastSquares().fit(X[:, [2, 7]], y)
    rest = y - free.predict(X[:, [2, 7]])
    Xc = X - X.mean(axis=0)
    top = np.abs(Xc.T @ rest).max() / len(y)
    above = Lasso(top * (1 + 1e-9), penalty_factors=factors).fit(form(X), y)
    below = Lasso(top * 0.99, penalty_factors=factors).fit(form(X), y)
    np.testing.assert_allclose(above.coef_[[2, 7]], free.coef_, rtol=1e-6)
    assert np.count_nonzero(above.coef_) == 2
    assert np.count_nonzero(below.coef_) == 3
    assert not Lasso(np.abs(Xc.T @ (y - y.mean())).max() / len(y)).fit(form(X), y).coef_.any()


def test_constant_columns_stay_out_and_change_nothing(form):
    X, y = table()
    plain = Lasso(0.1, tol=1e-13).fit(X, y)
    wider = Lasso(0.1, tol=1e-13).fit(form(np.column_stack([np.full(60, 0.1), X, np.zeros(60)])), y)
    assert wider.coef_[0] == wider.coef_[-1] == 0
    np.testing.assert_allclose(wider.coef_[1:-1], plain.coef_, atol=2e-6)


def test_duplicate_columns_share_one_answer(form):
    X, y = table()
    plain = Lasso(0.05, tol=1e-13).fit(X, y)
    double = Lasso(0.05, tol=1e-13).fit(form(np.hstack([X, X])), y)
    np.testing.assert_allclose(double.coef_[:12] + double.coef_[12:], plain.coef_, atol=2e-6)
    np.testing.assert_allclose(double.budget_, plain.budget_, atol=1e-5)


def test_collinear_columns_stay_bounded_and_optimal():
    X, y = table(60, 8)
    X = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 2] - 3 * X[:, 3] + 1e-9 * X[:, 4]])
    model = Lasso(1e-4).fit(X, y)
    assert np.abs(model.coef_).max() < 10
    assert model.dual_gap_ <= 1e-10 * np.var(y)


def test_zero_alpha_is_least_squares(form):
    X, y = table()
    model = Lasso(0.0).fit(form(X), y)
    np.testing.assert_allclose(model.coef_, PeerLeastSquares().fit(X, y).coef_, rtol=1e-8)
    Xc = X - X.mean(axis=0)
    np.testing.assert_allclose(Lasso(0.0, positive=True).fit(form(X), y).coef_, nnls(Xc, y - y.mean())[0], atol=1e-8)


def test_zero_l1_ratio_is_ridge(form):
    X, y = table()
    model = ElasticNet(0.3, l1_ratio=0.0, tol=1e-13).fit(form(X), y)
    Xc = X - X.mean(axis=0)
    ridge = np.linalg.solve(Xc.T @ Xc / 60 + 0.3 * np.eye(12), Xc.T @ (y - y.mean()) / 60)
    np.testing.assert_allclose(model.coef_, ridge, atol=1e-6)


def test_constant_target_gives_zero(form):
    X, _ = table()
    model = Lasso(0.1).fit(form(X), np.full(60, 7.0))
    assert not model.coef_.any()
    np.testing.assert_allclose(model.intercept_, 7.0, rtol=1e-14)
    assert model.dual_gap_ <= 1e-25


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_budget_and_alpha_are_two_names_of_one_fit(form, l1_ratio):
    X, y = table()
    penalised = ElasticNet(0.15, l1_ratio=l1_ratio, tol=1e-13).fit(form(X), y)
    constrained = ElasticNet(budget=penalised.budget_, l1_ratio=l1_ratio, tol=1e-13).fit(form(X), y)
    np.testing.assert_allclose(constrained.alpha_, 0.15, rtol=1e-4)
    np.testing.assert_allclose(constrained.coef_, penalised.coef_, atol=1e-5)
    np.testing.assert_allclose(constrained.budget_, penalised.budget_, rtol=1e-6)


def test_budget_extremes():
    X, y = table()
    assert not Lasso(budget=0).fit(X, y).coef_.any()
    loose = Lasso(budget=1e9).fit(X, y)
    assert loose.alpha_ == 0
    np.testing.assert_allclose(loose.coef_, PeerLeastSquares().fit(X, y).coef_, rtol=1e-8)


def test_constrained_fit_beats_every_feasible_neighbour():
    X, y = table()
    model = Lasso(budget=2.0).fit(X, y)
    loss = np.mean((y - model.predict(X)) ** 2)
    rng = np.random.default_rng(0)
    for _ in range(200):
        b = model.coef_ + 0.1 * rng.standard_normal(12)
        b *= min(1.0, 2.0 / np.abs(b).sum())
        r = y - X @ b
        assert np.mean((r - r.mean()) ** 2) >= loss - 1e-12


def test_lambda_of_the_notes_is_two_n_alpha():
    X, y = table()
    model = Lasso(0.1).fit(X, y)
    lam = 2 * len(y) * 0.1

    def objective(b):
        r = y - y.mean() - (X - X.mean(axis=0)) @ b
        return r @ r + lam * np.abs(b).sum()

    rng = np.random.default_rng(0)
    best = objective(model.coef_)
    assert all(objective(model.coef_ + 1e-3 * rng.standard_normal(12)) > best for _ in range(50))


def test_warm_start_does_not_change_the_answer(form):
    X, y = table(40, 100)
    cold = Lasso(0.05, tol=1e-13).fit(form(X), y)
    warm = Lasso(0.5, warm_start=True, tol=1e-13).fit(form(X), y).set_params(alpha=0.05).fit(form(X), y)
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-5)
    again = warm.set_params(alpha=0.5).fit(form(X), y)
    np.testing.assert_allclose(again.coef_, Lasso(0.5, tol=1e-13).fit(X, y).coef_, atol=1e-5)


def test_weights_equal_repetition(form):
    X, y = table(40, 8)
    w = np.random.default_rng(0).integers(0, 3, 40)
    weighted = Lasso(0.1, tol=1e-13).fit(form(X), y, w)
    repeated = Lasso(0.1, tol=1e-13).fit(form(np.repeat(X, w, axis=0)), np.repeat(y, w))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=2e-6)


@pytest.mark.parametrize(
    ("x_size", "y_size"), [(1e150, 1.0), (1e-150, 1.0), (1.0, 1e150), (1.0, 1e-150), (1e150, 1e-150)]
)
def test_huge_and_tiny_scales_give_the_scaled_answer(form, x_size, y_size):
    X, y = table()
    plain = Lasso(0.1, tol=1e-13).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Lasso(0.1 * y_size * x_size, tol=1e-13).fit(form(X * x_size), y * y_size)
    np.testing.assert_allclose(model.coef_ * (x_size / y_size), plain.coef_, atol=2e-6)


def test_mixed_scales():
    X, y = table()
    sizes = np.ones(12)
    sizes[3], sizes[5] = 1e120, 1e-120
    plain = Lasso(0.1).fit(X, y)
    model = Lasso(0.1, penalty_factors=sizes).fit(X * sizes, y)
    np.testing.assert_allclose(model.coef_ * sizes, plain.coef_, atol=1e-9)


def test_one_row_and_one_column():
    assert Lasso().fit([[3.0]], [2.0]).intercept_ == 2.0
    model = Lasso(0.5).fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(model.coef_, [0.25])


def test_input_is_never_modified_and_layout_does_not_matter(form):
    X, y = table()
    kept = X.copy(), y.copy()
    expected = Lasso(0.1).fit(form(X), y).coef_
    assert np.array_equal(X, kept[0])
    assert np.array_equal(y, kept[1])
    X.flags.writeable = False
    strided = np.asfortranarray(np.repeat(X, 2, axis=0))[::2]
    for same in (X, np.asfortranarray(X), strided, X.astype(object)):
        np.testing.assert_allclose(Lasso(0.1).fit(form(np.asarray(same, dtype=float)), y).coef_, expected, rtol=1e-9)
    np.testing.assert_allclose(Lasso(0.1).fit(X.astype(np.float32), y).coef_, expected, atol=1e-5)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix])
def test_any_sparse_format_gives_the_dense_answer(kind):
    X, y = table()
    X[np.abs(X) < 1] = 0
    model = Lasso(0.1).fit(kind(X), y)
    np.testing.assert_allclose(model.coef_, Lasso(0.1).fit(X, y).coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(kind(X)), model.predict(X), atol=1e-9)
    assert model.sparse_coef_.nnz == np.count_nonzero(model.coef_)


def test_pickle_and_clone():
    X, y = table()
    model = pickle.loads(pickle.dumps(Lasso(0.1).fit(X, y)))
    assert np.array_equal(model.predict(X), clone(model).fit(X, y).predict(X))


@pytest.mark.parametrize("bad", [object(), -1, "nonsense"])
@pytest.mark.parametrize("name", sorted(ElasticNet().get_params()))
def test_nonsense_parameters_are_refused(name, bad):
    X, y = table()
    with pytest.raises(ParameterError, match=name):
        ElasticNet(**{name: bad}).fit(X, y)


@pytest.mark.parametrize("factors", [[1.0], [-1.0] * 12, [np.nan] * 12, ["a"] * 12])
def test_bad_penalty_factors_are_named(factors):
    X, y = table()
    with pytest.raises(ParameterError, match="penalty"):
        Lasso(penalty_factors=factors).fit(X, y)


def test_bad_data_is_named():
    X, y = table()
    X[3, 4] = np.nan
    with pytest.raises(DataError, match="column 4, row 3"):
        Lasso().fit(X, y)
    with pytest.raises(AssayError):
        Lasso().fit(table()[0], y).predict(X[:, :3])
