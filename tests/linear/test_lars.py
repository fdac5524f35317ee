"""Least angle regression: what holds along the whole path, proved on the data and not by eye."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, lars_path

from assay.errors import CollinearityWarning, ConvergenceWarning, DataError, ParameterError
from assay.linear import Lars
from assay.linear import LinearRegression as LeastSquares
from tests.naive.linear import least_angle_steps


def table(n: int, p: int, seed: int = 0, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ np.triu(0.3 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p))))
    X = X * rng.uniform(0.2, 5, p) + rng.standard_normal(p) * 10
    return X, X[:, :3] @ [2.0, -1.0, 0.5] + noise * rng.standard_normal(n)


def kkt_violation(model: Lars, X: np.ndarray, y: np.ndarray, w: np.ndarray | None = None) -> float:
    """Largest breach of the lasso's optimality conditions at the knots and between them, relative to alpha_max."""
    w = np.ones(len(y)) if w is None else w
    alphas = np.concatenate([model.alphas_, (model.alphas_[1:] + model.alphas_[:-1]) / 2])
    Z, t = X - np.average(X, axis=0, weights=w), y - np.average(y, weights=w)
    worst = 0.0
    for alpha, b in zip(alphas, model.coef_at(alphas), strict=True):
        g = Z.T @ (w * (t - Z @ b)) / w.sum()
        used = np.abs(b) > 1e-13 * np.abs(b).max()
        worst = max(worst, np.abs(g).max() - alpha, np.abs(g[used] - alpha * np.sign(b[used])).max(initial=0.0))
    return worst / model.alphas_[0]


@pytest.mark.parametrize(("n", "p"), [(60, 8), (30, 30), (31, 30), (25, 70)])
def test_lasso_path_meets_its_optimality_conditions_everywhere(n: int, p: int) -> None:
    X, y = table(n, p)
    model = Lars(method="lasso").fit(X, y)
    assert kkt_violation(model, X, y) < 1e-10
    assert (np.diff(model.alphas_) < 0).all()
    assert model.alphas_[-1] == 0


def test_weighted_lasso_path_meets_its_optimality_conditions() -> None:
    rng = np.random.default_rng(1)
    for n, p in ((60, 8), (25, 50)):
        X, y = table(n, p)
        w = rng.uniform(0.1, 3, n)
        assert kkt_violation(Lars(method="lasso").fit(X, y, sample_weight=w), X, y, w) < 1e-10


def test_tied_columns_of_small_integers_keep_the_conditions_and_end_at_least_squares() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, p = rng.integers(3, 15), rng.integers(1, 12)
        X, y = rng.integers(-1, 2, (n, p)).astype(float), rng.integers(-2, 3, n).astype(float)
        for method in ("lar", "lasso"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CollinearityWarning)
                model = Lars(method=method).fit(X, y)
            Z = X - X.mean(axis=0)
            assert np.abs(Z.T @ (y - y.mean() - Z @ model.coef_)).max() < 1e-9
            if method == "lasso" and model.alphas_[0] > 1e-10:
                assert kkt_violation(model, X, y) < 1e-10


@pytest.mark.parametrize("method", ["lar", "lasso"])
def test_agrees_with_scikit_learn_knot_by_knot(method: str) -> None:
    X, y = load_diabetes(return_X_y=True)
    alphas, active, coefs = lars_path(X - X.mean(axis=0), y - y.mean(), method=method)
    model = Lars(method=method).fit(X, y)
    np.testing.assert_allclose(model.alphas_, alphas, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.path_.coefficients, coefs, rtol=1e-8, atol=1e-8)
    assert sorted(model.active_) == sorted(active)


@pytest.mark.parametrize(("n", "p"), [(40, 6), (12, 20)])
def test_agrees_with_the_definition_of_least_angles(n: int, p: int) -> None:
    X, y = table(n, p, seed=3)
    alphas, coefs = least_angle_steps(X, y)
    model = Lars().fit(X, y)
    np.testing.assert_allclose(model.alphas_, alphas, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(model.path_.coefficients.T, coefs, rtol=1e-7, atol=1e-9)


def test_active_covariances_tie_along_the_path() -> None:
    X, y = table(50, 10)
    model = Lars().fit(X, y)
    Z, t = X - X.mean(axis=0), y - y.mean()
    joined = model.active_
    for k, alpha in enumerate((model.alphas_[1:] + model.alphas_[:-1]) / 2, start=1):
        g = np.abs(Z.T @ (t - Z @ model.coef_at(alpha))) / len(y)
        np.testing.assert_allclose(g[joined[:k]], alpha, rtol=1e-9)
        assert (g[joined[k:]] < alpha * (1 + 1e-9)).all()


@pytest.mark.parametrize("method", ["lar", "lasso"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ends_at_least_squares(method: str, fit_intercept: bool) -> None:
    X, y = table(50, 10)
    reference = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    model = Lars(method=method, fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, rtol=1e-9, atol=1e-12)


def test_one_degree_of_freedom_per_step_on_orthonormal_columns() -> None:
    # df = sum_i cov(fit_i, y_i) / sigma^2 (Efron et al., theorem 3), estimated over 2,000 draws of y. The
    # standard error of each estimate is about 0.06.
    rng = np.random.default_rng(0)
    n, p = 20, 5
    X = np.linalg.qr(rng.standard_normal((n, p)) - 0.0)[0]
    mu = X @ np.array([3.0, -2.0, 1.0, 0.0, 0.0])
    draws = 2000
    df = np.zeros(p + 1)
    for _ in range(draws):
        noise = rng.standard_normal(n)
        fits = X @ Lars(fit_intercept=False).fit(X, mu + noise).path_.coefficients
        df += noise @ fits / draws
    np.testing.assert_allclose(df, np.arange(p + 1), atol=0.3)


def test_orthonormal_columns_are_soft_thresholded() -> None:
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.standard_normal((20, 6)))[0]
    y = rng.standard_normal(20)
    model = Lars(method="lasso", fit_intercept=False).fit(X, y)
    alpha = model.alphas_[0] * np.array([0.9, 0.5, 0.1, 0.0])
    z = X.T @ y
    expected = np.sign(z) * np.maximum(np.abs(z) - 20 * alpha[:, None], 0)
    np.testing.assert_allclose(model.coef_at(alpha), expected, atol=1e-10)
    np.testing.assert_allclose(model.intercept_at(alpha), 0, atol=1e-12)


@pytest.mark.parametrize("criterion", ["cp", "aic", "bic", "adjusted_r2", "cv", "validation"])
def test_every_criterion_chooses_a_knot(criterion: str) -> None:
    X, y = load_diabetes(return_X_y=True)
    model = Lars(method="lasso", criterion=criterion, cv=5, random_state=0).fit(X, y)
    assert model.alpha_ in model.alphas_
    assert len(model.table_) == model.alphas_.size
    assert {"alpha", "size", "rss", criterion} <= set(model.table_.columns)
    np.testing.assert_array_equal(model.coef_, model.coef_at(model.alpha_))
    best = model.table_[criterion].agg("idxmax" if criterion == "adjusted_r2" else "idxmin")
    assert model.alphas_[best] == model.alpha_
    rss = ((y[:, None] - model.path_.intercepts - X @ model.path_.coefficients) ** 2).sum(axis=0)
    np.testing.assert_allclose(model.table_["rss"], rss, rtol=1e-10)


def test_cross_validation_repeats_the_path_in_every_fold() -> None:
    X, y = table(60, 6)
    model = Lars(method="lasso", criterion="cv", cv=4).fit(X, y)
    errors = []
    for part in np.array_split(np.arange(60), 4):
        train = np.setdiff1d(np.arange(60), part)
        fold = Lars(method="lasso").fit(X[train], y[train])
        within = np.minimum(model.alphas_, fold.alphas_[0])
        fits = X[part] @ fold.coef_at(within).T + fold.intercept_at(within)
        errors.append(((y[part, None] - fits) ** 2).mean(axis=0))
    np.testing.assert_allclose(model.table_["cv"], np.mean(errors, axis=0), rtol=1e-9)


def test_one_standard_error_rule_takes_an_earlier_knot() -> None:
    X, y = table(80, 10, noise=5.0)
    best = Lars(method="lasso", criterion="cv").fit(X, y)
    simple = Lars(method="lasso", criterion="cv", rule="1se").fit(X, y)
    assert simple.alpha_ >= best.alpha_


def test_stops_at_the_number_of_columns_asked_for() -> None:
    X, y = table(50, 10)
    whole = Lars().fit(X, y)
    model = Lars(n_nonzero_coefs=3).fit(X, y)
    assert (model.coef_ != 0).sum() == 3
    np.testing.assert_allclose(model.coef_, whole.path_.coefficients[:, 3], rtol=1e-12)
    with pytest.raises(ParameterError, match="beyond the end of the path"):
        model.coef_at(whole.alphas_[5])


def test_collinear_and_constant_columns_are_named_and_passed_over() -> None:
    X, y = table(40, 4)
    wide = np.column_stack([X, X[:, 0], np.full(40, 3.0), X[:, 1] + X[:, 2]])
    for method in ("lar", "lasso"):
        with pytest.warns(CollinearityWarning) as caught:
            model = Lars(method=method).fit(wide, y)
        said = " ".join(str(w.message) for w in caught)
        assert "column 'x5' is constant and keeps a coefficient of 0" in said
        assert "determined by active columns and" in said
        np.testing.assert_allclose(model.predict(wide), Lars().fit(X, y).predict(X), rtol=1e-9)
        assert model.coef_[5] == 0


def test_path_cut_short_says_so() -> None:
    X, y = table(40, 10)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = Lars(max_iter=3).fit(X, y)
    assert model.alphas_[-1] > 0


def test_weights_equal_repetition_and_zero_weight_drops_the_row() -> None:
    rng = np.random.default_rng(0)
    w = rng.integers(0, 4, 30)
    for p in (5, 40):
        X, y = table(30, p)
        weighted = Lars(method="lasso").fit(X, y, sample_weight=w)
        repeated = Lars(method="lasso").fit(np.repeat(X, w, axis=0), np.repeat(y, w))
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7)
        np.testing.assert_allclose(weighted.alphas_[:10], repeated.alphas_[:10], rtol=1e-8)
        dropped = Lars(method="lasso").fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
        np.testing.assert_array_equal(weighted.coef_, dropped.coef_)


@pytest.mark.parametrize(("n", "p"), [(30, 5), (12, 20)])
@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e150, 1.0), (1e-150, 1.0), (1.0, 1e150), (1e-200, 1e-90)])
def test_scales_of_x_and_y_only_rescale_the_answer(n: int, p: int, x_scale: float, y_scale: float) -> None:
    X, y = table(n, p)
    for options in ({}, {"method": "lasso", "criterion": "bic"}, {"criterion": "cv", "cv": 3}):
        model, plain = Lars(**options).fit(X * x_scale, y * y_scale), Lars(**options).fit(X, y)
        np.testing.assert_allclose(model.predict(X * x_scale) / y_scale, plain.predict(X), rtol=1e-6)


def test_columns_of_very_different_units_still_reach_least_squares() -> None:
    X, y = table(40, 6)
    unit = np.array([1e8, 1.0, 1e-8, 1e4, 1.0, 1e-4])
    np.testing.assert_allclose(Lars().fit(X * unit, y).coef_ * unit, Lars().fit(X, y).coef_, rtol=1e-8)


def test_degenerate_tables() -> None:
    assert Lars().fit([[1.0, 2.0]], [3.0]).predict([[0.0, 0.0]]) == 3.0
    X, _ = table(20, 3)
    constant = Lars(criterion="bic").fit(X, np.full(20, 0.1))
    np.testing.assert_allclose(constant.predict(X), 0.1)
    assert (constant.coef_ == 0).all()
    with pytest.raises(DataError, match="residual variance"):
        Lars(criterion="cp").fit(*table(10, 20))


def test_threads_never_change_the_result() -> None:
    X, y = table(60, 8)
    one, two = (Lars(criterion="cv", n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.table_["cv"], two.table_["cv"])


def test_layout_and_type_of_the_input_do_not_matter() -> None:
    X, y = table(30, 40)
    X = X.astype(np.float32).astype(np.float64)
    plain = Lars(method="lasso").fit(X, y)
    X.flags.writeable = False
    for same in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.astype(np.float32), X.astype(object)):
        np.testing.assert_allclose(Lars(method="lasso").fit(same, y).coef_, plain.coef_, rtol=1e-9)


def test_clones_and_pickles() -> None:
    X, y = table(30, 4)
    model = Lars(criterion="bic").fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert clone(model).criterion == "bic"
    assert "knots" not in repr(model)
    assert list(model.path_.to_frame().columns) == ["alpha", "intercept", "x0", "x1", "x2", "x3"]


def test_with_more_columns_than_rows_a_criterion_does_not_choose_the_interpolating_model() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 400))
    y = 2 * X[:, 3] + rng.standard_normal(60)
    for criterion in ("aic", "bic", "adjusted_r2"):
        model = Lars(criterion=criterion).fit(X, y)
        assert (model.coef_ != 0).sum() <= int(60 / np.log(60))
    assert (Lars(criterion="aic", n_nonzero_coefs=40).fit(X, y).coef_ != 0).sum() <= 40


def test_columns_of_very_different_scale_still_end_at_least_squares() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((12, 6)) * 10.0 ** rng.integers(-8, 9, 6)
        y = rng.standard_normal(12)
        for method in ("lar", "lasso"):
            ours = y - Lars(method=method).fit(X, y).predict(X)
            best = y - LeastSquares().fit(X, y).predict(X)
            assert ours @ ours <= best @ best * (1 + 1e-8)
