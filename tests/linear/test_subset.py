"""Best subset against exhaustive search, its proof, and the edge cases of a search over columns."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from assay.errors import CollinearityWarning, ConvergenceWarning, DataError, ParameterError
from assay.linear import BestSubset
from assay.linear._leaps import leaps
from tests.naive.linear import best_subsets_by_enumeration, subset_rss


def correlated(n, p, rho=0.5, true=5, seed=0, size=0.3):
    rng = np.random.default_rng(seed)
    L = np.linalg.cholesky(rho ** np.abs(np.subtract.outer(range(p), range(p))))
    X = rng.standard_normal((n, p)) @ L.T
    b = np.zeros(p)
    true = min(true, p)
    b[rng.choice(p, true, replace=False)] = size * rng.choice([-1, 1], true) * rng.uniform(0.5, 1.5, true)
    return X, X @ b + rng.standard_normal(n)


@pytest.mark.filterwarnings("ignore::assay.errors.CollinearityWarning")
@settings(suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6),
    p=st.integers(1, 8),
    rho=st.sampled_from([0.0, 0.6, 0.95]),
    intercept=st.booleans(),
    weighted=st.booleans(),
    spoil=st.sampled_from(["none", "duplicate", "constant", "sum", "two"]),
)
def test_every_size_is_the_best_of_all_subsets(seed, p, rho, intercept, weighted, spoil):
    X, y = correlated(25, p, rho, true=3, seed=seed)
    X = X + 3 * np.arange(p)
    if spoil == "duplicate":
        X = np.column_stack([X, X[:, 0]])
    elif spoil == "constant":
        X = np.column_stack([np.full(25, 0.1), X])
    elif spoil == "sum":
        X = np.column_stack([X, X.sum(axis=1)])
    elif spoil == "two":
        X = np.column_stack([X[:, 0], X, X[:, 0] - X[:, -1]])
    w = np.random.default_rng(seed).integers(0, 4, 25) + 0.5 if weighted else None
    model = BestSubset(fit_intercept=intercept, method="exact").fit(X, y, sample_weight=w)
    want = best_subsets_by_enumeration(X, y, w, intercept)
    root = np.sqrt(np.ones(25) if w is None else w)[:, None]
    design = X * root if not intercept else np.column_stack([np.ones(25), X]) * root
    length = np.linalg.norm(design, axis=0)
    rank = np.linalg.matrix_rank(design / np.where(length > 0, length, 1), tol=1e-6) - intercept
    table = model.table_
    assert list(table["size"]) == list(range(rank + 1))
    np.testing.assert_allclose(table["rss"], want[: rank + 1], rtol=1e-8)
    assert model.proven_.all()
    np.testing.assert_array_equal(model.bound_, table["rss"])
    for names, rss in zip(table["variables"], table["rss"], strict=True):
        assert subset_rss(X, y, [int(v[1:]) for v in names], w, intercept) == pytest.approx(rss, rel=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_ten_columns_without_good_incumbents(seed):
    """The tree itself, not the heuristics before it, finds the optimum: start from worthless models."""
    X, y = correlated(40, 10, 0.7, seed=seed)
    Z = X - X.mean(axis=0)
    Z = Z / np.sqrt((Z**2).sum(axis=0))
    t = y - y.mean()
    t = t / np.sqrt(t @ t)
    start = np.full(11, 2.0)
    found = leaps(Z.T @ Z, Z.T @ t, start, np.zeros((11, 10), np.uint8), 10**6)
    want = best_subsets_by_enumeration(Z, t)
    np.testing.assert_allclose(found.rss[1:], want[1:], rtol=1e-9)
    assert found.proven.all()
    for k in range(1, 11):
        assert found.sets[k].sum() == k


@pytest.mark.parametrize("eps", [1e-2, 1e-4])
def test_nearly_collinear_columns(eps):
    """Updates lose digits here; the search must end all the same, and with the right sets."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 8))
        X[:, 3] = X[:, 0] + eps * rng.standard_normal(40)
        X[:, 5] = X[:, 1] + X[:, 2] + eps * rng.standard_normal(40)
        y = X[:, :4] @ [1, 1, -1, 0.5] + rng.standard_normal(40)
        want = best_subsets_by_enumeration(X, y)
        for method, slack in (("exact", 1e-7), ("splicing", 0.2)):
            table = BestSubset(method=method).fit(X, y).table_
            np.testing.assert_allclose(table["rss"], want[: len(table)], rtol=slack)
            assert len(table) == 9


def test_chosen_model_is_least_squares_on_its_columns():
    X, y = correlated(200, 12, seed=1)
    model = BestSubset().fit(X, y)
    A = np.column_stack([np.ones(200), X[:, model.support_]])
    want = np.linalg.lstsq(A, y, rcond=None)[0]
    np.testing.assert_allclose(np.append(model.intercept_, model.coef_[model.support_]), want, rtol=1e-9)
    assert (model.coef_[~model.support_] == 0).all()
    np.testing.assert_array_equal(model.get_support(indices=True), np.flatnonzero(model.support_))
    assert model.table_["bic"].idxmin() == model.support_.sum() == model.criterion_curve_.marks["chosen"]
    assert "p-values" in str(model.summary())


def test_diabetes_matches_published_subsets():
    """Efron, Hastie, Johnstone, Tibshirani (2004): bmi, then s5, then bp matter most."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    table = BestSubset().fit(X, y).table_
    assert table["variables"][1] == ("bmi",)
    assert table["variables"][2] == ("bmi", "s5")
    assert table["variables"][3] == ("bmi", "bp", "s5")


def test_jobs_change_nothing():
    X, y = correlated(300, 24, 0.8, true=12, seed=5)
    one, two = (BestSubset(n_jobs=j, method="exact").fit(X, y) for j in (1, 2))
    pd.testing.assert_frame_equal(one.table_, two.table_)
    assert one.n_nodes_ == two.n_nodes_ > 0
    assert (one.coef_ == two.coef_).all()


def test_node_limit_gives_an_honest_bound():
    X, y = correlated(300, 26, 0.9, true=12, seed=7)
    whole = BestSubset(method="exact").fit(X, y)
    assert whole.proven_.all()
    with pytest.warns(ConvergenceWarning, match="max_nodes"):
        short = BestSubset(method="exact", max_nodes=30).fit(X, y)
    best, found = whole.table_["rss"].to_numpy(), short.table_["rss"].to_numpy()
    assert not short.proven_.all()
    assert (short.bound_ <= best * (1 + 1e-9)).all()
    assert (found >= best * (1 - 1e-9)).all()
    np.testing.assert_allclose(found[short.proven_], best[short.proven_], rtol=1e-9)
    # Proven sizes of a longer search contain those of a shorter one, and bounds rise.
    with pytest.warns(ConvergenceWarning, match="max_nodes"):
        longer = BestSubset(method="exact", max_nodes=whole.n_nodes_ // 2).fit(X, y)
    assert longer.proven_.sum() >= short.proven_.sum()


def test_max_size_limits_the_table():
    X, y = correlated(100, 15)
    full = BestSubset(method="exact").fit(X, y)
    part = BestSubset(method="exact", max_size=4).fit(X, y)
    np.testing.assert_allclose(part.table_["rss"], full.table_["rss"][:5], rtol=1e-10)
    assert part.n_nodes_ <= full.n_nodes_
    assert BestSubset(max_size=0).fit(X, y).coef_.any() == False  # noqa: E712


@pytest.mark.parametrize("seed", range(3))
def test_splicing_is_rarely_beaten(seed):
    X, y = correlated(200, 25, 0.5, true=8, seed=seed, size=0.5)
    exact = BestSubset(method="exact").fit(X, y)
    spliced = BestSubset(method="splicing").fit(X, y)
    ratio = spliced.table_["rss"] / exact.table_["rss"]
    assert (ratio > 1 - 1e-9).all()
    assert (ratio < 1 + 1e-9).mean() > 0.75
    assert ratio.max() < 1.1
    assert spliced.proven_.tolist()[:2] == [True, True]
    assert not spliced.proven_[2:].any()
    assert (spliced.bound_ <= exact.table_["rss"] * (1 + 1e-9)).all()


def test_splicing_recovers_a_sparse_signal_with_more_columns_than_rows():
    X, y = correlated(150, 600, 0.4, true=6, seed=2, size=2.0)
    model = BestSubset(criterion="cv", cv=5, rule="1se", max_size=12).fit(X, y)
    truth = BestSubset(max_size=6, criterion="adjusted_r2").fit(X, y)
    assert model.support_.sum() == 6
    np.testing.assert_array_equal(model.support_, truth.support_)
    assert model.table_["cp"].isna().all()
    with pytest.raises(DataError, match='form="likelihood"'):
        BestSubset(criterion="cp").fit(X, y)
    with pytest.raises(DataError, match='method="splicing"'):
        BestSubset(method="exact").fit(X, y)


def test_cross_validation_repeats_the_search():
    """Pure noise: choosing columns on all rows first would make the error look far below the variance of y."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 30)), rng.standard_normal(60)
    model = BestSubset(criterion="cv", max_size=6, method="exact").fit(X, y)
    cv = model.table_["cv"]
    assert cv[6] > cv[0]
    assert model.table_["rss"][6] / 60 < 0.75 * cv[0]


@pytest.mark.parametrize("criterion", ["cp", "aic", "bic", "adjusted_r2", "cv", "validation"])
@pytest.mark.parametrize("form", ["sigma", "likelihood"])
def test_criteria_are_interchangeable(criterion, form):
    X, y = correlated(200, 8, true=3, seed=4, size=1.0)
    model = BestSubset(criterion=criterion, form=form, random_state=0).fit(X, y)
    values = model.criterion_curve_.estimate
    best = np.argmax(values) if criterion == "adjusted_r2" else np.argmin(values)
    assert model.support_.sum() == best
    assert model.support_.sum() >= 3
    assert list(model.table_.columns[:8]) == ["size", "variables", "rss", "r2", "adjusted_r2", "cp", "aic", "bic"]


def test_weights_are_repetitions():
    X, y = correlated(60, 7, seed=3)
    w = np.random.default_rng(1).integers(0, 4, 60)
    for method in ("exact", "splicing"):
        a = BestSubset(method=method).fit(X, y, sample_weight=w)
        b = BestSubset(method=method).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
        np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9, atol=1e-12)
        pd.testing.assert_frame_equal(a.table_, b.table_, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e150, 1e-150])
@pytest.mark.parametrize("method", ["exact", "splicing"])
def test_extreme_scales(scale, method):
    X, y = correlated(50, 5, true=2, seed=6, size=1.0)
    plain = BestSubset(method=method).fit(X, y)
    scaled = BestSubset(method=method).fit(X * scale, y)
    target = BestSubset(method=method).fit(X, y * scale)
    np.testing.assert_array_equal(plain.support_, scaled.support_)
    np.testing.assert_array_equal(plain.support_, target.support_)
    np.testing.assert_allclose(scaled.coef_, plain.coef_ / scale, rtol=1e-10)
    np.testing.assert_allclose(target.coef_, plain.coef_ * scale, rtol=1e-10)


def test_exact_fit_chooses_the_true_columns():
    X, _ = correlated(50, 8)
    y = 2 * X[:, 1] - 3 * X[:, 4] + 1
    for criterion in ("aic", "bic", "cp"):
        assert BestSubset(criterion=criterion).fit(X, y).get_support(True).tolist() == [1, 4]


def test_degenerate_tables():
    X, y = correlated(30, 3)
    assert not BestSubset().fit(X, np.full(30, 0.1)).support_.any()
    assert BestSubset().fit(X[:1], y[:1]).predict(X[:1]) == pytest.approx(y[:1])
    assert not BestSubset().fit(np.full((30, 2), 0.3), y).support_.any()
    assert BestSubset().fit(X[:, :1], X[:, 0]).coef_ == pytest.approx([1.0])


def test_input_kinds_and_copies():
    X, y = correlated(40, 4)
    want = BestSubset().fit(X, y)
    frozen = X.copy()
    frozen.setflags(write=False)
    strided = np.repeat(X, 2, axis=0)[::2]
    for kind in (frozen, strided, np.asfortranarray(X), X.astype(object)):
        np.testing.assert_allclose(BestSubset().fit(kind, y).coef_, want.coef_, rtol=1e-12)
    again = pickle.loads(pickle.dumps(want))
    np.testing.assert_array_equal(again.predict(X), want.predict(X))
    assert clone(want).get_params() == want.get_params()


@pytest.mark.parametrize("name", sorted(BestSubset().get_params()))
def test_nonsense_parameters_are_refused(name):
    X, y = correlated(20, 3)
    with pytest.raises(ParameterError, match=name):
        BestSubset(**{name: object()}).fit(X, y)


def test_a_near_copy_that_no_model_holds_is_named():
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200)
    X = np.c_[z, z + 1e-5 * rng.standard_normal(200), rng.standard_normal(200)]
    with pytest.warns(CollinearityWarning, match="'x1'"):
        BestSubset().fit(X, rng.standard_normal(200))
