"""Classifier and regressor: the votes of the definition, scikit-learn's answers, leave-one-out by leaving one out."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn import neighbors as peer
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError

from assay.errors import AssayError, DataError, ParameterError
from assay.neighbors import KNeighborsClassifier, KNeighborsRegressor
from tests.naive import neighbors as naive


def table(n=150, p=3, classes=3, seed=0, grid=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) if grid is None else rng.integers(0, grid, (n, p)).astype(float)
    return X, rng.integers(0, classes, n), rng.normal(size=n)


# Votes.


@pytest.mark.parametrize("weights", ["uniform", "distance", "kernel"])
@pytest.mark.parametrize("kernel", ["epanechnikov", "tricube", "gaussian"])
@pytest.mark.parametrize("grid", [None, 3])
def test_shares_are_those_of_the_definition(weights, kernel, grid):
    X, y, _ = table(80, grid=grid)
    Q = X[:20] + (0.1 if grid is None else 0.0)
    model = KNeighborsClassifier(7, weights=weights, kernel=kernel).fit(X, y)
    assert_allclose(model.predict_proba(Q), naive.shares(X, y, 3, Q, 7, weights, kernel), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("weights", ["uniform", "distance", lambda d: np.exp(-d)])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev", "cosine"])
def test_answers_are_those_of_scikit_learn(weights, metric):
    X, y, t = table(400, 4)
    Q = np.random.default_rng(1).normal(size=(100, 4))
    ours = KNeighborsClassifier(8, weights=weights, metric=metric).fit(X, y)
    theirs = peer.KNeighborsClassifier(8, weights=weights, metric=metric).fit(X, y)
    assert_allclose(ours.predict_proba(Q), theirs.predict_proba(Q), rtol=1e-8, atol=1e-10)
    regression = KNeighborsRegressor(8, weights=weights, metric=metric).fit(X, t).predict(Q)
    assert_allclose(
        regression, peer.KNeighborsRegressor(8, weights=weights, metric=metric).fit(X, t).predict(Q), rtol=1e-8
    )


def test_mahalanobis_is_scikit_learns_with_the_same_matrix():
    X, y, _ = table(300, 4)
    X = X @ np.random.default_rng(2).normal(size=(4, 4))
    V = np.cov(X.T)
    theirs = peer.KNeighborsClassifier(
        6, metric="mahalanobis", metric_params={"VI": np.linalg.inv(V)}, algorithm="brute"
    )
    expected = theirs.fit(X, y).kneighbors(X[:40] + 0.1)
    for params in (None, {"V": V}, {"VI": np.linalg.inv(V)}):
        model = KNeighborsClassifier(6, metric="mahalanobis", metric_params=params).fit(X, y)
        found = model.kneighbors(X[:40] + 0.1)
        assert_allclose(found[0], expected[0], rtol=1e-8)
        assert_array_equal(found[1], expected[1])
        assert model.kneighbors(X[:5], 1)[0].max() == 0.0  # a row is at distance zero from itself


def test_several_targets_are_answered_together():
    X, _, t = table(100)
    T = np.column_stack([t, -2 * t, t**2])
    model = KNeighborsRegressor(4, weights="distance").fit(X, T)
    Q = X[:9] + 0.05
    for j in range(3):
        assert_allclose(model.predict(Q)[:, j], KNeighborsRegressor(4, weights="distance").fit(X, T[:, j]).predict(Q))


def test_ties_in_votes_go_to_the_first_class():
    model = KNeighborsClassifier(2).fit([[0.0], [1.0], [5.0]], ["b", "a", "b"])
    assert model.predict([[0.5]]).tolist() == ["a"]
    assert_allclose(model.predict_proba([[0.5]]), [[0.5, 0.5]])


def test_smoothing_is_its_formula():
    X, y, _ = table(60)
    raw = KNeighborsClassifier(4).fit(X, y).predict_proba(X)
    laplace = KNeighborsClassifier(4, smoothing=3.0).fit(X, y)
    assert_allclose(laplace.predict_proba(X), (4 * raw + 1) / 7)
    assert np.isfinite(laplace.predict_log_proba(X)).all()
    shares = np.bincount(y) / y.size
    empirical = KNeighborsClassifier(4, smoothing=2.0, prior="empirical").fit(X, y)
    assert_allclose(empirical.predict_proba(X), (4 * raw + 2 * shares) / 6)
    assert_allclose(empirical.predict_proba(X).sum(axis=1), 1.0)


# Weights are repetitions.


@pytest.mark.parametrize("weights", ["uniform", "distance", "kernel"])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_weights_equal_repetition(weights, k):
    X, y, t = table(40)
    w = np.random.default_rng(3).integers(0, 4, 40)
    again = np.repeat(np.arange(40), w)
    Q = np.random.default_rng(4).normal(size=(30, 3))
    ours = KNeighborsClassifier(k, weights=weights).fit(X, y, sample_weight=w)
    other = KNeighborsClassifier(k, weights=weights).fit(X[again], y[again])
    assert_allclose(ours.predict_proba(Q), other.predict_proba(Q), atol=1e-12)
    ours = KNeighborsRegressor(k, weights=weights).fit(X, t, sample_weight=w)
    other = KNeighborsRegressor(k, weights=weights).fit(X[again], t[again])
    assert_allclose(ours.predict(Q), other.predict(Q), atol=1e-12)


@pytest.mark.parametrize("weights", ["uniform", "kernel"])
def test_weights_equal_repetition_in_leave_one_out(weights):
    X, y, t = table(30)
    w = np.random.default_rng(5).integers(1, 4, 30)
    again = np.repeat(np.arange(30), w)
    for model, target in ((KNeighborsClassifier, y), (KNeighborsRegressor, t)):
        ours = model("loo", weights=weights, candidates=12).fit(X, target, sample_weight=w).loo_
        other = model("loo", weights=weights, candidates=12).fit(X[again], target[again]).loo_
        assert_allclose(ours.error, other.error, atol=1e-12)
        assert_allclose(ours.std_error, other.std_error, atol=1e-12)
        assert ours.chosen == other.chosen


def test_fractions_of_rows_add_up():
    """Ten rows in one place that weigh a tenth each are one row."""
    X = np.array([[0.0], [1.0], [3.0]])
    tenths = np.vstack([np.repeat(X[:1], 10, axis=0), X[1:]])
    w = np.r_[np.full(10, 0.1), 1.0, 1.0]
    model = KNeighborsRegressor(2).fit(tenths, np.r_[np.full(10, 5.0), 7.0, 100.0], sample_weight=w)
    assert_allclose(model.predict([[0.2]]), [6.0])


# Leave-one-out.


@pytest.mark.parametrize("weights", ["uniform", "distance", "kernel", lambda d: 1 / (1 + d)])
@pytest.mark.parametrize("grid", [None, 4])
def test_leave_one_out_is_leaving_one_out(weights, grid):
    X, y, t = table(45, grid=grid, classes=3, seed=6)
    for kind, target in ((KNeighborsClassifier, y), (KNeighborsRegressor, t)):
        curve = kind("loo", weights=weights, candidates=[1, 2, 5, 10]).fit(X, target).loo_
        for k, error in zip(curve.k, curve.error, strict=True):
            losses = []
            for i in range(45):
                rest = np.delete(np.arange(45), i)
                answer = kind(int(k), weights=weights).fit(X[rest], target[rest]).predict(X[i : i + 1])[0]
                losses.append(answer != target[i] if kind is KNeighborsClassifier else (answer - target[i]) ** 2)
            assert_allclose(error, np.mean(losses), rtol=1e-10)
            assert_allclose(curve.std_error[curve.k == k], stats.sem(losses), rtol=1e-9, atol=1e-14)


def test_rules_choose_the_least_error_or_the_smoothest_near_it():
    X, y = load_iris(return_X_y=True)
    least, smooth = (KNeighborsClassifier("loo", rule=rule).fit(X, y) for rule in ("min", "1se"))
    curve = least.loo_
    assert curve.error[curve.k == least.n_neighbors_] == curve.error.min()
    bar = curve.error.min() + curve.std_error[curve.k == curve.best]
    assert smooth.n_neighbors_ == curve.k[curve.error <= bar].max()
    assert smooth.n_neighbors_ >= least.n_neighbors_
    assert_array_equal(smooth.predict(X), KNeighborsClassifier(smooth.n_neighbors_).fit(X, y).predict(X))


def test_curve_prints_tabulates_and_draws():
    pytest.importorskip("matplotlib").use("agg")
    curve = KNeighborsClassifier("loo").fit(*load_iris(return_X_y=True)).loo_
    assert "chosen  k =" in str(curve)
    assert curve.to_frame().shape == (50, 3)
    assert curve.plot().get_xlabel() == "number of neighbours"


def test_blocks_of_rows_merge(monkeypatch):
    X, _, t = table(300)
    whole = KNeighborsRegressor("loo").fit(X, t).loo_
    monkeypatch.setattr("assay.neighbors._loo.BLOCK", 37)
    parts = KNeighborsRegressor("loo").fit(X, t).loo_
    assert_allclose(parts.error, whole.error, rtol=1e-12)
    assert_allclose(parts.std_error, whole.std_error, rtol=1e-12)


# Neighbours of the training rows, threads, storage.


def test_training_rows_are_not_their_own_neighbours():
    X, y, _ = table(100, grid=3)
    model = KNeighborsClassifier().fit(X, y)
    rows = model.kneighbors(n_neighbors=20, return_distance=False)
    assert not (rows == np.arange(100)[:, None]).any()
    assert_array_equal(rows, naive.squares(X, X, 20, np.arange(100)))


@pytest.mark.parametrize("algorithm", ["brute", "kd_tree"])
def test_threads_never_change_a_bit(algorithm):
    X, y = load_digits(return_X_y=True)
    one, two = (
        KNeighborsClassifier("loo", algorithm=algorithm, weights="distance", n_jobs=j).fit(X, y) for j in (1, 2)
    )
    assert_array_equal(one.loo_.error, two.loo_.error)
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_pickles_hold_the_rows_and_answer_the_same():
    X, y, _ = table(3000, 3)
    model = KNeighborsClassifier(n_neighbors=7).fit(X, y)
    text = pickle.dumps(model)
    assert len(text) < 1.5 * (X.nbytes + y.nbytes)
    assert_array_equal(pickle.loads(text).predict_proba(X), model.predict_proba(X))


def test_fitting_again_forgets_the_first_fit():
    X, y, _ = table(100)
    model = KNeighborsClassifier("loo").fit(X, y)
    model.set_params(n_neighbors=3).fit(X[:50, :2], y[:50])
    assert not hasattr(model, "loo_")
    expected = KNeighborsClassifier(3).fit(X[:50, :2], y[:50]).predict_proba(X[:, :2])
    assert_array_equal(model.predict_proba(X[:, :2]), expected)


def test_changing_the_callers_table_changes_nothing():
    X, y, _ = table(100)
    model = KNeighborsClassifier().fit(X, y)
    before = model.predict_proba(X[:10].copy())
    Q = X[:10].copy()
    X[:] = 0.0
    assert_array_equal(model.predict_proba(Q), before)


def test_frames_strides_and_read_only_tables():
    X, y, _ = table(60)
    plain = KNeighborsClassifier().fit(X, y).predict_proba(X)
    wide = np.asfortranarray(np.repeat(X, 2, axis=0))[::2]
    frozen = X.copy()
    frozen.flags.writeable = False
    for other in (wide, frozen, pd.DataFrame(X, columns=["a", "b", "c"])):
        assert_array_equal(KNeighborsClassifier().fit(other, y).predict_proba(other), plain)


# Bad input.


@pytest.mark.parametrize("model", [KNeighborsClassifier(7), KNeighborsRegressor(7)])
def test_more_neighbours_than_rows(model):
    with pytest.raises(DataError, match="n_neighbors = 7 exceeds the number of training rows, n_samples = 6; lower"):
        model.fit(np.arange(6.0)[:, None], [0, 1] * 3)
    fitted = clone(model).set_params(n_neighbors=6).fit(np.arange(6.0)[:, None], [0, 1] * 3)
    with pytest.raises(DataError, match="without the row itself"):
        fitted.kneighbors()
    with pytest.raises(DataError, match="exceeds"):
        fitted.kneighbors([[1.0]], 7)
    with pytest.raises(ParameterError, match="whole number"):
        fitted.kneighbors([[1.0]], 0)
    with pytest.raises(DataError, match="total weight of the training rows, 3"):
        clone(model).fit(np.arange(6.0)[:, None], [0, 1] * 3, sample_weight=np.full(6, 0.5))


def test_zero_rows_under_cosine_are_at_distance_one():
    X = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    for algorithm in ("brute", "kd_tree"):
        model = KNeighborsRegressor(4, metric="cosine", algorithm=algorithm).fit(X, np.arange(4.0))
        distances, rows = model.kneighbors([[0.0, 0.0], [3.0, 0.0]])
        assert_array_equal(rows[0], np.arange(4))
        assert_array_equal(distances[0], np.ones(4))
        assert_allclose(distances[1], [0.0, 1 - np.sqrt(0.5), 1.0, 1.0], atol=1e-15)
        assert_array_equal(model.kneighbors(n_neighbors=2, return_distance=False)[1], [0, 2])


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.column_stack([np.arange(20.0), 2 * np.arange(20.0)]), "singular: column"),
        (np.column_stack([np.arange(20.0), np.ones(20)]), "column 1 is constant"),
        (np.random.default_rng(0).normal(size=(8, 20)), "there are too few rows"),
    ],
)
def test_singular_covariance(X, words):
    with pytest.raises(DataError, match=words):
        KNeighborsRegressor(2, metric="mahalanobis").fit(X, np.arange(len(X)))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"metric": "hamming", "algorithm": "kd_tree"}, "does not support metric"),
        ({"metric": "mahalanobis", "metric_params": {"V": np.eye(2)}}, "not a covariance matrix of 3 columns"),
        ({"metric_params": {"w": 1}}, "it may have no entries"),
        ({"metric": "jaccard"}, "it must be 'euclidean' or"),
        ({"n_neighbors": "auto"}, "it must be a whole number of at least 1 or 'loo'"),
        ({"n_neighbors": "loo", "candidates": [0, 3]}, "whole numbers of at least 1"),
        ({"n_neighbors": "loo", "candidates": [500]}, "leaves 149 rows"),
        ({"p": 0.5}, "it must be a number in"),
        ({"algorithm": "ball_tree"}, "it must be 'auto'"),
    ],
)
def test_bad_settings_are_one_sentence(setting, words):
    X, _, t = table()
    with pytest.raises(AssayError, match=words):
        KNeighborsRegressor(**setting).fit(X, t)


def test_weight_functions_are_looked_at():
    X, y, _ = table()
    for bad, words in ((lambda d: d[:, :1], "one weight per distance"), (lambda d: -d, "zero or more")):
        with pytest.raises(ParameterError, match=words):
            KNeighborsClassifier(weights=bad).fit(X, y).predict(X)


def test_gaps_and_unfitted_models():
    X, y, _ = table()
    X[3, 1] = np.nan
    with pytest.raises(DataError, match="X contains NaN in column 1, row 3"):
        KNeighborsClassifier().fit(X, y)
    with pytest.raises(NotFittedError):
        KNeighborsClassifier().kneighbors()


# What theory says.


def test_one_neighbour_errs_within_the_bound_of_cover_and_hart():
    """R* = .2 everywhere, so the limit is 2 R*(1 - R*) = .32; a binomial bound with false-alarm rate 1e-6."""
    rng = np.random.default_rng(7)
    n, m = 20_000, 20_000
    X, Q = rng.random((n, 1)), rng.random((m, 1))
    y, truth = ((Z[:, 0] > 0.5) ^ (rng.random(len(Z)) < 0.2) for Z in (X, Q))
    wrong = int(np.count_nonzero(KNeighborsClassifier(1).fit(X, y).predict(Q) != truth))
    low, high = stats.binom.interval(1 - 1e-6, m, 0.32)
    # The training rows are drawn too; with n = m that at most doubles the variance.
    assert low - (0.32 * m - low) * 0.5 <= wrong <= high + (high - 0.32 * m) * 0.5
