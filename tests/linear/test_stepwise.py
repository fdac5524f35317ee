"""Stepwise and stagewise against refitting every candidate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

from assay.errors import ConvergenceWarning, DataError, ParameterError
from assay.linear import Stagewise, Stepwise
from tests.naive.linear import (
    backward_stepwise_by_refitting,
    forward_stepwise_by_refitting,
    stagewise_by_rows,
    step_both_by_refitting,
    subset_rss,
)


def correlated(n, p, rho=0.6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] += rho * X[:, j - 1]
    return X + 5, X[:, :3] @ [1.0, -0.7, 0.5] + rng.standard_normal(n)


def positions(names):
    return sorted(int(v[1:]) for v in names)


@pytest.mark.parametrize("seed", range(5))
def test_forward_equals_refitting_every_candidate(seed):
    X, y = correlated(40, 9, seed=seed)
    model = Stepwise().fit(X, y)
    order = forward_stepwise_by_refitting(X, y, 9)
    for k, (names, rss) in enumerate(zip(model.table_["variables"], model.table_["rss"], strict=True)):
        assert positions(names) == sorted(order[:k])
        assert rss == pytest.approx(subset_rss(X, y, order[:k]), rel=1e-9)
    assert model.n_models_ == 1 + 9 * 10 // 2


@pytest.mark.parametrize("seed", range(5))
def test_backward_equals_refitting_every_candidate(seed):
    X, y = correlated(40, 9, seed=seed)
    model = Stepwise(direction="backward").fit(X, y)
    models, count = backward_stepwise_by_refitting(X, y)
    assert [positions(v) for v in model.table_["variables"]] == [sorted(m) for m in models[::-1]]
    assert model.n_models_ == count == 1 + 9 * 10 // 2


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("criterion", ["aic", "bic"])
def test_both_follows_the_criterion_as_step_does(seed, criterion):
    X, y = correlated(35, 10, 0.9, seed=seed)
    y = y - X[:, 5] + X[:, 6]
    n, weight = 35, {"aic": 2.0, "bic": np.log(35)}[criterion]
    want = step_both_by_refitting(X, y, lambda rss, k: n * np.log(rss / n) + weight * k)
    model = Stepwise(direction="both", criterion=criterion).fit(X, y)
    assert model.get_support(True).tolist() == want
    assert (np.diff(model.table_[criterion]) < 0).all()


def test_both_can_drop_what_it_added():
    """x0 stands for x1 + x2 until both are in; then it has nothing left to say."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((200, 2))
    y = A.sum(axis=1) + 0.05 * rng.standard_normal(200)
    X = np.column_stack([A.sum(axis=1) + 0.3 * rng.standard_normal(200), A])
    model = Stepwise(direction="both").fit(X, y)
    assert model.table_["size"].tolist() == [0, 1, 2, 3, 2]
    assert model.get_support(True).tolist() == [1, 2]


def test_forward_goes_on_with_more_columns_than_rows():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 80)), rng.standard_normal(30)
    order = forward_stepwise_by_refitting(X, y, 12)
    model = Stepwise(max_size=100).fit(X, y)
    assert model.table_["size"].max() == 28
    for k in range(13):
        assert positions(model.table_["variables"][k]) == sorted(order[:k])
    assert Stepwise().fit(X, y).table_["size"].max() == int(30 / np.log(30))
    with pytest.raises(DataError, match='direction="forward"'):
        Stepwise(direction="backward").fit(X, y)


def test_gram_rows_on_demand_change_nothing():
    """p > n fetches Gram rows in batches; the same search on the whole Gram matrix agrees."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100, 300))
    y = X[:, :20].sum(axis=1) + rng.standard_normal(100)
    model = Stepwise(max_size=30).fit(X, y)
    assert positions(model.table_["variables"][30]) == sorted(forward_stepwise_by_refitting(X, y, 30))


@pytest.mark.filterwarnings("ignore::assay.errors.CollinearityWarning")
@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_collinear_and_constant_columns_stay_out(direction):
    X, y = correlated(50, 4)
    X = np.column_stack([X, X[:, 0], np.ones(50), X[:, 1] - X[:, 2]])
    model = Stepwise(direction=direction).fit(X, y)
    assert model.table_["size"].max() <= 4
    want = subset_rss(X, y, range(7))
    if direction != "both":
        assert model.table_["rss"].iloc[-1] == pytest.approx(want, rel=1e-9)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_weights_are_repetitions(direction):
    X, y = correlated(60, 6, seed=4)
    w = np.random.default_rng(0).integers(0, 3, 60)
    a = Stepwise(direction=direction).fit(X, y, sample_weight=w)
    b = Stepwise(direction=direction).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-8)
    pd.testing.assert_frame_equal(a.table_, b.table_, rtol=1e-8)


def test_cv_curve_has_its_marks_and_jobs_change_nothing():
    X, y = correlated(120, 8, seed=5)
    one, two = (Stepwise(criterion="cv", rule="1se", n_jobs=j).fit(X, y) for j in (1, 2))
    pd.testing.assert_frame_equal(one.table_, two.table_)
    curve = one.criterion_curve_
    assert curve.marks["1se"] <= curve.marks["min"]
    assert curve.marks["chosen"] == curve.marks["1se"] == one.support_.sum()
    assert (curve.std_error > 0).all()
    best = curve.estimate.argmin()
    within = curve.estimate <= curve.estimate[best] + curve.std_error[best]
    assert curve.marks["1se"] == curve.x[within].min()


def test_both_needs_a_criterion_with_a_value_per_step():
    X, y = correlated(30, 3)
    for criterion in ("cv", "validation"):
        with pytest.raises(ParameterError, match="direction"):
            Stepwise(direction="both", criterion=criterion).fit(X, y)


@pytest.mark.parametrize("step", [0.05, "matching"])
def test_stagewise_follows_its_definition(step):
    X, y = correlated(50, 6, seed=6)
    model = Stagewise(step=step).fit(X, y)
    scale = np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=0))
    unit = np.sqrt(((y - y.mean()) ** 2).sum())
    for at in (1, 5, min(20, model.n_iter_)):
        want = stagewise_by_rows(X, y, None if step == "matching" else step, at) * unit / scale
        np.testing.assert_allclose(model.path_.coefficients[:, at], want, rtol=1e-8, atol=1e-10)
    assert (np.diff(model.trace_.objective) < 0).all()
    assert model.trace_.converged


def test_small_steps_end_near_least_squares():
    X, y = load_diabetes(return_X_y=True)
    model = Stagewise(step=0.001, max_iter=50_000).fit(X, y)
    full = subset_rss(X, y, range(10))
    assert model.trace_.objective[-1] <= full * 1.001
    assert model.path_.x.size <= 500


def test_matching_pursuit_is_forward_stepwise_for_orthonormal_columns_only():
    rng = np.random.default_rng(7)
    Q = np.linalg.qr(rng.standard_normal((40, 5)) - 0)[0]
    Q -= Q.mean(axis=0)
    Q = np.linalg.qr(Q)[0]
    y = Q @ [5.0, 4.0, 3.0, 2.0, 1.0] + 0.01 * rng.standard_normal(40)
    pursuit, forward = Stagewise(step=None).fit(Q, y), Stepwise().fit(Q, y)
    np.testing.assert_allclose(pursuit.table_["rss"][:6], forward.table_["rss"], rtol=1e-6)
    X, y = correlated(40, 5)
    assert Stagewise(step=None).fit(X, y).table_["rss"][2] > Stepwise().fit(X, y).table_["rss"][2] * (1 + 1e-6)


def test_stagewise_path_and_choice_agree():
    X, y = correlated(80, 6, seed=8)
    for criterion in ("bic", "cv", "validation"):
        model = Stagewise(criterion=criterion, random_state=0, cv=5).fit(X, y)
        at = int(np.argmin(np.abs(model.path_.x - model.criterion_curve_.marks["chosen"])))
        np.testing.assert_allclose(model.path_.coefficients[:, at], model.coef_)
        assert model.path_.intercepts[at] == pytest.approx(model.intercept_)
        assert len(model.table_) == model.criterion_curve_.x.size
        residual = y - model.predict(X)
        assert residual @ residual == pytest.approx(model.table_["rss"][at], rel=1e-8)


def test_stagewise_with_more_columns_than_rows():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((40, 200))
    y = 3 * X[:, 7] - 2 * X[:, 90] + 0.1 * rng.standard_normal(40)
    model = Stagewise().fit(X, y)
    assert {7, 90} <= set(model.get_support(True))
    assert model.table_["size"].max() <= int(40 / np.log(40))


def test_stagewise_says_when_it_was_cut_short():
    X, y = correlated(50, 6)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        assert not Stagewise(max_iter=3).fit(X, y).trace_.converged


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_extreme_scales(scale):
    X, y = correlated(50, 5)
    for model in (Stepwise(), Stagewise(), Stepwise(direction="both")):
        plain = model.fit(X, y).coef_
        np.testing.assert_allclose(model.fit(X * scale, y).coef_ * scale, plain, rtol=1e-9)
        np.testing.assert_allclose(model.fit(X, y * scale).coef_ / scale, plain, rtol=1e-9)


def test_degenerate_tables():
    X, y = correlated(30, 3)
    for model in (Stepwise(), Stepwise(direction="backward"), Stepwise(direction="both"), Stagewise()):
        assert not model.fit(X, np.full(30, 0.1)).support_.any()
        assert model.fit(X[:1], y[:1]).predict(X[:1]) == pytest.approx(y[:1])
        assert not model.fit(np.full((30, 2), 0.3), y).support_.any()


@pytest.mark.parametrize("kind", [Stepwise, Stagewise])
def test_nonsense_parameters_are_refused(kind):
    X, y = correlated(20, 3)
    for name in kind().get_params():
        with pytest.raises(ParameterError, match=name):
            kind(**{name: object()}).fit(X, y)
