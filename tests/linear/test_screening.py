"""Sure independence screening: exact scores in one pass, whatever the layout, and what iterating it finds."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.linear_model import Lasso, LassoCV
from sklearn.linear_model import LinearRegression as Plain
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

from assay.errors import AssayWarning, ConvergenceWarning, DataError, ParameterError
from assay.linear import SIS, IterativeSIS, Lars
from assay.linear._screen import Target, partial
from tests.naive.linear import correlation_with, partial_correlation_with


def table(n: int = 40, p: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.exp(rng.standard_normal(p)) + 5 * rng.standard_normal(p)
    return X, X[:, 3] - 2 * X[:, 7] + rng.standard_normal(n)


def hidden_predictor(seed: int, n: int = 100, p: int = 1000, rho: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Fan and Lv (2008), section 4.2.2: x_4 matters most of all and has correlation zero with y."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(n)
    X = np.sqrt(1 - rho) * rng.standard_normal((n, p)) + np.sqrt(rho) * common[:, None]
    X[:, 3] = common
    return X, 5 * X[:, :3].sum(axis=1) - 15 * np.sqrt(rho) * X[:, 3] + rng.standard_normal(n)


def test_keeps_n_over_log_n() -> None:
    X, y = table(100, 60)
    assert SIS().fit(X, y).support_.sum() == 21
    assert SIS().fit(X[:, :5], y).support_.sum() == 5
    assert SIS(n_keep=4).fit_transform(X, y).shape == (100, 4)


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_agree_with_exact_arithmetic_on_hard_columns(weighted: bool) -> None:
    X, y = table()
    X[:, 1] = 3.0
    X[:, 2] = 0.1
    X[0, 4] = 1e9
    X[:, 5] *= 1e150
    X[:, 6] *= 1e-180
    X[:, 8] = 1e8 + X[:, 8] * 1e-6
    X[:, 9] = np.where(np.arange(40) == 0, 1.0, 0.0)
    w = np.random.default_rng(1).integers(0, 4, 40) if weighted else None
    expected = correlation_with(X, y, w)
    for same in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], np.repeat(X, 2, axis=0)[::2]):
        scores = SIS().fit(same, y, sample_weight=w).scores_
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-13)
        assert scores[1] == scores[2] == 0


@pytest.mark.parametrize("n", [5, 6, 7, 8])
def test_rows_left_over_from_groups_of_four_count(n: int) -> None:
    X, y = table(n, 12)
    np.testing.assert_allclose(SIS().fit(X, y).scores_, correlation_with(X, y), rtol=1e-10)


def test_single_precision_memory_map_is_read_in_place_in_either_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 9000)).astype(np.float32) + np.float32(100)
    y = rng.standard_normal(30)
    expected = SIS().fit(X.astype(np.float64), y).scores_
    for order in ("C", "F"):
        X.T.tofile(tmp_path / "x") if order == "F" else X.tofile(tmp_path / "x")
        disk = np.memmap(tmp_path / "x", dtype=np.float32, mode="r", shape=X.shape, order=order)
        for jobs in (None, 2):
            screen = SIS(n_jobs=jobs).fit(disk, y)
            np.testing.assert_allclose(screen.scores_, expected, rtol=1e-12, atol=1e-14)
        assert screen.transform(disk).dtype == np.float32


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_columns_are_centred_without_filling_them(form: str) -> None:
    rng = np.random.default_rng(0)
    S = sparse.random_array((60, 40), density=0.2, rng=rng, format="csr")
    dense = S.toarray()
    dense[:, 5] = 1e6 + rng.standard_normal(60)
    dense[:, 6] = 0.0
    S = sparse.csr_array(dense).asformat(form)
    y = rng.standard_normal(60)
    screen = SIS(estimator=Lars()).fit(S, y)
    np.testing.assert_allclose(screen.scores_, correlation_with(dense, y), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(screen.predict(S), SIS(estimator=Lars()).fit(dense, y).predict(dense))
    assert sparse.issparse(screen.transform(S))
    both = [IterativeSIS().fit(data, y) for data in (S, dense)]
    np.testing.assert_array_equal(both[0].selected_, both[1].selected_)
    np.testing.assert_allclose(both[0].scores_, both[1].scores_, atol=1e-9)


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_cells_that_are_not_finite_are_named(value: float, name: str) -> None:
    X, y = table()
    X[11, 17] = value
    for bad in (X, np.asfortranarray(X), X[:, :], X.astype(np.float32), sparse.csc_array(X), sparse.csr_array(X)):
        for screen in (SIS(), IterativeSIS()):
            with pytest.raises(DataError, match=f"{name} in column 17, row 11"):
                screen.fit(bad, y)
    with pytest.raises(DataError, match=f"{name} in column 'c17', row 11"):
        SIS().fit(pd.DataFrame(X, columns=[f"c{j}" for j in range(30)]), y)


def test_weights_equal_repetition() -> None:
    X, y = table()
    w = np.random.default_rng(0).integers(0, 4, 40)
    for make in (lambda: SIS(estimator=Lars()), lambda: IterativeSIS()):
        weighted = make().fit(X, y, sample_weight=w)
        repeated = make().fit(np.repeat(X, w, axis=0), np.repeat(y, w))
        np.testing.assert_array_equal(weighted.support_, repeated.support_)
        np.testing.assert_allclose(weighted.scores_, repeated.scores_, atol=1e-12)
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8, atol=1e-12)


def test_weights_that_the_model_cannot_take_are_refused() -> None:
    X, y = table()
    with pytest.raises(ParameterError, match="takes no sample_weight"):
        SIS(estimator=KNeighborsRegressor()).fit(X, y, sample_weight=np.ones(40))


def test_ties_go_to_the_leftmost_columns() -> None:
    X, y = table(20, 8)
    X = X[:, :1]
    np.testing.assert_array_equal(SIS(n_keep=3).fit(np.repeat(X, 10, axis=1), y).get_support(indices=True), [0, 1, 2])


def test_is_a_selector_alone_and_a_regressor_with_an_estimator() -> None:
    X, y = table()
    alone, both = SIS(n_keep=5), SIS(n_keep=5, estimator=Lasso(alpha=0.1))
    assert not hasattr(alone, "predict")
    assert not is_regressor(alone)
    assert is_regressor(both)
    both.fit(X, y)
    kept = both.get_support(indices=True)
    inner = Lasso(alpha=0.1).fit(X[:, kept], y)
    np.testing.assert_allclose(both.predict(X), inner.predict(X[:, kept]))
    np.testing.assert_allclose(X @ both.coef_ + both.intercept_, both.predict(X))
    assert both.coef_.shape == (30,)
    piped = make_pipeline(SIS(n_keep=5), Lasso(alpha=0.1)).fit(X, y)
    np.testing.assert_allclose(piped.predict(X), both.predict(X))
    assert both.score(X, y) == pytest.approx(inner.score(X[:, kept], y))
    assert not hasattr(SIS(estimator=KNeighborsRegressor()).fit(X, y), "coef_")


def test_names_reach_the_model_and_the_output() -> None:
    X, y = table()
    frame = pd.DataFrame(X, columns=[f"gene {j}" for j in range(30)])
    screen = SIS(n_keep=3, estimator=Lars()).set_output(transform="pandas").fit(frame, y)
    names = list(screen.get_feature_names_out())
    assert names == list(screen.transform(frame).columns) == list(screen.estimator_.feature_names_in_)
    assert "gene 7" in names


def test_constant_target_is_said_and_predicted() -> None:
    X, _ = table()
    with pytest.warns(AssayWarning, match="y is constant"):
        screen = SIS(estimator=Plain()).fit(X, np.full(40, 0.1))
    np.testing.assert_allclose(screen.predict(X), 0.1)


def test_partial_scores_agree_with_residuals_of_regressions() -> None:
    X, y = table()
    X[:, 9] = X[:, 3] + 2 * X[:, 7]
    X[:, 10] = 4.0
    selected = np.array([3, 7])
    expected = partial_correlation_with(X, y, [3, 7])
    expected[[9, 10]] = 0
    for data in (X, np.asfortranarray(X), sparse.csc_array(X)):
        np.testing.assert_allclose(np.abs(partial(data, Target(y, None), selected, None, None)), expected, atol=1e-9)


def test_iterations_find_the_predictor_that_is_marginally_uncorrelated() -> None:
    missed, found = 0, 0
    for seed in range(10):
        X, y = hidden_predictor(seed)
        missed += not SIS().fit(X, y).support_[3]
        found += bool(IterativeSIS().fit(X, y).support_[:4].all())
    assert missed >= 9
    assert found >= 9


def test_history_tells_what_each_round_added_and_kept() -> None:
    X, y = hidden_predictor(0)
    screen = IterativeSIS(estimator=LassoCV(cv=3), n_keep=12).fit(X, y)
    first = screen.history_[0]
    np.testing.assert_array_equal(first.added, SIS(n_keep=8).fit(X, y).get_support(indices=True))
    assert screen.n_iter_ == len(screen.history_)
    np.testing.assert_array_equal(screen.history_[-1].kept, np.flatnonzero(screen.support_))
    np.testing.assert_array_equal(np.flatnonzero(screen.support_), np.flatnonzero(screen.coef_))
    assert screen.selected_.size <= 12
    np.testing.assert_allclose(X @ screen.coef_ + screen.intercept_, screen.predict(X))
    assert str(first).startswith("8 added")


def test_ranking_by_residuals_uses_the_marginal_spread() -> None:
    X, y = table()
    selected = np.array([3])
    scores = np.abs(partial(X, Target(y, None), selected, None, None, full=False))
    e = y - Plain().fit(X[:, [3]], y).predict(X[:, [3]])
    expected = correlation_with(X, e)
    expected[3] = 0
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    assert IterativeSIS(ranking="residual").fit(X, y).support_[[3, 7]].all()


def test_rounds_cut_short_are_said() -> None:
    X, y = hidden_predictor(0)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        IterativeSIS(max_iter=1).fit(X, y)


def test_model_without_coefficients_cannot_select() -> None:
    X, y = table()
    with pytest.raises(ParameterError, match="coef_"):
        IterativeSIS(estimator=KNeighborsRegressor()).fit(X, y)


def test_nothing_selected_is_an_empty_table_and_a_constant_prediction() -> None:
    X, y = table()
    screen = IterativeSIS(estimator=Lasso(alpha=1e6)).fit(X, y)
    assert screen.transform(X).shape == (40, 0)
    np.testing.assert_allclose(screen.predict(X), y.mean())


def test_threads_never_change_the_result() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 20_000)), rng.standard_normal(40)
    for data in (X, np.asfortranarray(X), X[:, ::2]):
        one, two = (IterativeSIS(n_jobs=jobs).fit(data, y) for jobs in (1, 2))
        np.testing.assert_array_equal(one.scores_, two.scores_)
        np.testing.assert_array_equal(one.coef_, two.coef_)


def test_input_is_left_as_it_was() -> None:
    X, y = table()
    X.flags.writeable = False
    for data in (X, X.astype(object), (10 * X).astype(int), X.astype(np.float32)):
        before = data.copy()
        SIS(estimator=Lars()).fit(data, y).predict(data)
        np.testing.assert_array_equal(data, before)
    loose = sparse.csr_array((np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    SIS().fit(loose, [1.0, 2.0])
    assert loose.nnz == 3


def test_clones_and_pickles() -> None:
    X, y = table()
    for screen in (SIS(estimator=Lars()), IterativeSIS()):
        fitted = clone(screen).fit(X, y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))
