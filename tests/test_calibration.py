"""Calibration: the maps against their definitions, the classifier against scikit-learn and its own promises."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, sparse, special
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from assay import metrics
from assay.calibration import CalibratedClassifier, IsotonicMap, LogisticMap, Reliability, calibrate
from assay.errors import AssayError, AssayWarning, DataError, ParameterError
from assay.results import Interval
from tests.naive.calibration import isotonic_by_min_max, platt_by_optimiser

MAPS = [IsotonicMap, LogisticMap]
EXACT = IsotonicMap(ends="exact")


@st.composite
def samples(draw, weighted: bool = True, shares: bool = False):
    """Scores with ties, events of both classes (or shares), and small whole weights."""
    n = draw(st.integers(2, 12))
    scores = draw(st.lists(st.integers(-4, 4), min_size=n, max_size=n))
    if shares:
        y = draw(st.lists(st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9]), min_size=n, max_size=n))
    else:
        y = [0, 1, *draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2))]
    w = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)) if weighted else [1] * n
    return np.array(scores, dtype=float), np.array(y, dtype=float), np.array(w, dtype=float)


def logistic_sample(n: int, slope: float = 2.0, intercept: float = -0.5, seed: int = 0):
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n)
    return s, (rng.random(n) < special.expit(slope * s + intercept)).astype(int)


def table(n: int = 400, classes: int = 2, seed: int = 0):
    X, y = make_classification(
        n, n_features=8, n_informative=4, n_redundant=3, n_classes=classes, flip_y=0.1, random_state=seed
    )
    return X, y


# Isotonic map.


@given(samples(shares=True))
def test_isotonic_is_the_min_max_of_means(data):
    s, y, w = data
    assert_allclose(EXACT.fit(s, y, w).predict(s), isotonic_by_min_max(s, y, w), atol=1e-12)


@given(samples())
def test_isotonic_for_two_classes_is_the_min_max_of_means(data):
    s, y, w = data
    assert_allclose(EXACT.fit(s, y, w).predict(s), isotonic_by_min_max(s, y, w), atol=1e-12)
    assert_allclose(EXACT.fit(s, y).predict(s), isotonic_by_min_max(s, y, np.ones_like(w)), atol=1e-12)


@given(samples(shares=True))
def test_isotonic_keeps_the_mean_rises_and_changes_nothing_twice(data):
    s, y, w = data
    g = IsotonicMap().fit(s, y, w)
    p = g.predict(s)
    assert_allclose(w @ p, w @ y, rtol=1e-12)
    assert (np.diff(g.predict(np.linspace(-5, 5, 101))) >= 0).all()
    assert p.min() >= y.min() - 1e-15
    assert p.max() <= y.max() + 1e-15
    assert_allclose(IsotonicMap().fit(s, p, w).predict(s), p, rtol=1e-12)


@given(samples(shares=True))
def test_isotonic_meets_its_optimality_conditions(data):
    """Residuals summed from the low end are never negative, and zero where the fit rises."""
    s, y, w = data
    p = IsotonicMap().fit(s, y, w).predict(s)
    levels = np.unique(s)
    partial = np.cumsum([np.sum((w * (y - p))[s == level]) for level in levels])
    assert (partial >= -1e-10).all()
    value = np.array([p[s == level][0] for level in levels])
    rises = np.append(np.diff(value) > 1e-12, True)
    assert_allclose(partial[rises], 0.0, atol=1e-10)


@given(samples())
def test_weights_equal_repetition(data):
    s, y, w = data
    times = w.astype(int)
    grid = np.linspace(-6, 6, 50)
    for kind in MAPS:
        weighted = kind().fit(s, y, w).predict(grid)
        repeated = kind().fit(np.repeat(s, times), np.repeat(y, times)).predict(grid)
        assert_allclose(weighted, repeated, atol=1e-9)


@pytest.mark.parametrize("digits", [None, 1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("increasing", [True, False])
def test_isotonic_agrees_with_scikit_learn(digits, weighted, increasing):
    s, y = logistic_sample(3000)
    s = s if digits is None else np.round(s, digits)
    s = s if increasing else -s
    w = np.random.default_rng(1).uniform(0.1, 3, s.size) if weighted else None
    peer = IsotonicRegression(increasing=increasing, out_of_bounds="clip").fit(s, y, w)
    ours = IsotonicMap(increasing=increasing, ends="exact").fit(s, y, w)
    grid = np.linspace(-5, 5, 2001)
    assert_allclose(ours.predict(grid), peer.predict(grid), atol=1e-12)
    sums = optimize.isotonic_regression(y[np.argsort(s, kind="stable")], increasing=increasing).x
    if digits is None and not weighted:
        assert_allclose(ours.predict(np.sort(s)), sums, atol=1e-12)
        assert ours.n_blocks_ == np.unique(sums).size


def test_steps_are_level_up_to_the_next_step():
    g = IsotonicMap(interpolate=False, ends="exact").fit([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1])
    assert g.predict([0.0, 1.0, 1.9, 2.0, 2.5, 3.9, 4.0, 9.0]).tolist() == [0, 0, 0, 0.5, 0.5, 0.5, 1, 1]
    falling = IsotonicMap(interpolate=False, increasing=False, ends="exact").fit([1.0, 2.0, 3.0, 4.0], [1, 0, 1, 0])
    assert falling.predict([0.0, 1.5, 2.5, 9.0]).tolist() == [1, 1, 0.5, 0]


def test_lookup_in_many_uneven_knots():
    """Knots crowded at one end, and far apart at the other: found as numpy finds them."""
    rng = np.random.default_rng(0)
    knots = np.unique(np.concatenate([rng.normal(size=300) * 1e-9, rng.normal(size=20) * 1e6]))
    g = IsotonicMap(ends="exact").fit(knots, np.linspace(0, 1, knots.size))
    asked = np.concatenate([knots, rng.normal(size=5000) * 1e-9, rng.normal(size=5000) * 1e6])
    assert_allclose(g.predict(asked), np.interp(asked, knots, np.linspace(0, 1, knots.size)), atol=1e-12)
    assert_array_equal(g.predict(asked), np.concatenate([g.predict(asked[i : i + 1]) for i in range(asked.size)]))


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_the_unit_of_the_score_does_not_matter(kind, scale):
    s, y = logistic_sample(300)
    expected = kind().fit(s, y).predict(s)
    assert_allclose(kind().fit(s * scale, y).predict(s * scale), expected, atol=1e-7)
    assert_allclose(kind().fit(s.astype(np.float32), y).predict(s), expected, atol=2e-2)


@given(samples())
def test_ends_of_one_class_follow_the_rule_of_succession(data):
    s, y, w = data
    exact, soft = EXACT.fit(s, y, w).predict(s), IsotonicMap().fit(s, y, w).predict(s)
    values = np.unique(exact)
    if values[0] == 0 and values.size > 1:
        assert_allclose(soft[exact == 0], min(1 / (w[exact == 0].sum() + 2), values[1]))
    if values.size > 2:
        middle = (exact > 0) & (exact < 1)
        assert_array_equal(soft[middle], exact[middle])
    if values[-1] == 1 and values.size > 1:
        assert_allclose(soft[exact == 1], max(1 - 1 / (w[exact == 1].sum() + 2), values[-2]))
    assert (np.diff(soft[np.argsort(s, kind="stable")]) >= 0).all()


# Logistic map.


@given(samples())
def test_logistic_is_the_maximum_of_its_likelihood(data):
    s, y, w = data
    g = LogisticMap().fit(s, y, w)
    assert g.gradient_ < 1e-12
    slope, intercept = platt_by_optimiser(s, y, w)
    if np.unique(s).size > 1:
        assert_allclose(g.predict(s), special.expit(slope * s + intercept), atol=1e-5)
    else:
        assert g.slope_ == 0.0


@pytest.mark.parametrize("n", [30, 3000, 60_000])
def test_logistic_agrees_with_scikit_learn(n):
    """Through the public class: a frozen model whose margin is the column itself."""
    s, y = logistic_sample(n)

    class Margin(RidgeClassifier):
        def decision_function(self, X):
            return np.asarray(X)[:, 0]

    margin = Margin().fit(s[:, None], y)
    split = [(np.arange(n), np.arange(n))]
    peer = CalibratedClassifierCV(FrozenEstimator(margin), method="sigmoid", cv=split, ensemble=True)
    expected = peer.fit(s[:, None], y).predict_proba(s[:, None])[:, 1]
    g = LogisticMap().fit(s, y)
    assert_allclose(g.predict(s), expected, atol=1e-5)
    assert g.gradient_ < 1e-12
    assert abs(g.slope_ - 2) < 6 * np.sqrt(g.covariance_[0, 0]) + 0.2 * (n < 100)


def test_logistic_standard_errors_are_those_of_logistic_regression():
    s, y = logistic_sample(20_000)
    g = LogisticMap().fit(s, y)
    X = np.column_stack([s, np.ones_like(s)])
    p = special.expit(X @ [g.slope_, g.intercept_])
    assert_allclose(g.covariance_, np.linalg.inv(X.T @ (X * (p * (1 - p))[:, None])), rtol=1e-8)


def test_separated_scores_have_a_finite_slope():
    s = np.r_[np.linspace(-2, -1, 50), np.linspace(1, 2, 50)]
    y = s > 0
    g = LogisticMap().fit(s, y)
    assert np.isfinite(g.slope_)
    assert g.gradient_ < 1e-12
    assert g.increasing_
    assert not LogisticMap().fit(-s, y).increasing_
    assert 0 < g.predict([-50.0])[0] < g.predict([50.0])[0] <= 1


@pytest.mark.parametrize("wild", [1e2, 1e3, 1e6])
def test_a_wild_score_does_not_stop_newton(wild):
    """The optimum itself moves far (the smoothed target of the wild row wants a finite log odds), and is found."""
    s, y = logistic_sample(500)
    s[0], y[0] = wild, 1
    g = LogisticMap().fit(s, y)
    high, low = (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2)
    gap = g.predict(s) - np.where(y == 1, high, low)
    assert abs(gap.mean()) < 1e-9
    assert abs(np.mean(gap * s / wild)) < 1e-9


def test_wrong_scores_are_pulled_to_the_middle():
    """Random labels: no map may claim to know, at 2,000 rows within 5 standard errors of a half."""
    rng = np.random.default_rng(0)
    s, y = rng.normal(size=2000), rng.integers(0, 2, 2000)
    assert np.abs(LogisticMap().fit(s, y).predict(s) - 0.5).max() < 0.2


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize(
    ("scores", "y", "w", "words"),
    [
        ([], [], None, "empty"),
        ([1.0, np.nan], [0, 1], None, "row 1"),
        ([1.0, np.inf], [0, 1], None, "row 1"),
        ([[1.0, 2.0], [3.0, 4.0]], [0, 1], None, "2 columns"),
        (["a", "b"], [0, 1], None, "text"),
        ([1.0, 2.0], [1, 1], None, "one class"),
        ([1.0, 2.0], [0, 0], None, "one class"),
        ([1.0, 2.0, 3.0], [0, 1], None, "3 rows"),
        ([1.0, 2.0, 3.0], [0, 1, 2], None, "3 classes"),
        ([1.0, 2.0], [0, 1], [1, -1], "row 1"),
        ([1.0, 2.0], [0, 1], [0, 0], "zero"),
        ([1.0, 2.0], [0, 1], [0, 1], "one class"),
        ([1.0, 2.0], [0, 1], [1, 2, 3], "expected .2,."),
        ([1.0, 2.0], [0, 1], [1.7e308, 1.7e308], "overflows"),
    ],
)
def test_bad_scores_get_one_sentence(kind, scores, y, w, words):
    with pytest.raises(AssayError, match=words) as caught:
        kind().fit(scores, y, w)
    assert caught.value.remedy


@pytest.mark.parametrize("kind", MAPS)
def test_maps_take_any_two_labels_and_equal_scores(kind):
    s = [0.1, 0.4, 0.35, 0.8]
    expected = kind().fit(s, [0, 0, 1, 1]).predict(s)
    for y in (["a", "a", "b", "b"], [-1, -1, 1, 1], [1, 1, 2, 2], [False, False, True, True], pd.Series([0, 0, 1, 1])):
        assert_array_equal(kind().fit(pd.Series(s), y).predict(s), expected)
    level = kind().fit([3.0] * 4, [0, 1, 1, 1]).predict([0.0, 3.0, 9.0])
    assert_allclose(level, level[0])
    assert 0.5 < level[0] <= 0.75
    with pytest.raises(ParameterError, match="increasing"):
        IsotonicMap(increasing="yes").fit(s, [0, 0, 1, 1])


# The classifier.


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("base", [GaussianNB(), RidgeClassifier()], ids=["probabilities", "margins"])
def test_it_agrees_with_scikit_learn_on_the_same_folds(method, ensemble, classes, base):
    X, y = table(600, classes)
    w = np.random.default_rng(0).uniform(0.5, 2, len(y))
    cv = list(KFold(4, shuffle=True, random_state=0).split(X))
    theirs = {"isotonic": "isotonic", "logistic": "sigmoid"}[method]
    peer = CalibratedClassifierCV(base, method=theirs, cv=cv, ensemble=ensemble).fit(X, y, sample_weight=w)
    chosen = EXACT if method == "isotonic" else method
    ours = CalibratedClassifier(base, method=chosen, cv=cv, ensemble=ensemble).fit(X, y, sample_weight=w)
    assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-4 if method == "logistic" else 1e-9)
    assert len(ours.estimators_) == len(ours.calibrators_) == (4 if ensemble else 1)
    assert len(ours.calibrators_[0]) == (1 if classes == 2 else 3)
    assert not hasattr(base, "classes_"), "the estimator passed in is not fitted"


def test_the_map_is_fitted_to_scores_of_rows_the_model_has_not_seen():
    X, y = table()
    cv = list(KFold(4, shuffle=True, random_state=1).split(X))
    scores = cross_val_predict(GaussianNB(), X, y, cv=cv, method="predict_proba")[:, 1]
    model = CalibratedClassifier(GaussianNB(), method="isotonic", cv=cv).fit(X, y)
    expected = IsotonicMap().fit(scores, y)
    assert_array_equal(model.calibrators_[0][0].scores_, expected.scores_)
    raw = GaussianNB().fit(X, y).predict_proba(X)[:, 1]
    assert_allclose(model.predict_proba(X)[:, 1], expected.predict(raw), atol=1e-12)


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
@pytest.mark.parametrize("base", [GaussianNB(), LinearSVC(dual=False)], ids=["naive Bayes", "margin"])
def test_calibration_lowers_the_log_loss_of_a_badly_scaled_score(method, base):
    """Seeded: over four tables the paired interval of the change lies below zero each time."""
    for seed in range(4):
        X, y = table(4000, seed=seed)
        model = CalibratedClassifier(base, method=method).fit(X[:2000], y[:2000])
        found = model.reliability(X[2000:], y[2000:])
        assert found.changes["log_loss"].upper < 0
        before, after = found.figures["expected_calibration_error"]
        assert after.estimate < before.estimate


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
def test_text_labels_frames_and_sparse_tables(method):
    X, y = table(300, 3)
    names = np.array(["ham", "jam", "spam"])[y]
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(8)])
    plain = CalibratedClassifier(method=method).fit(X, y)
    named = CalibratedClassifier(method=method).fit(frame, pd.Series(names))
    assert named.classes_.tolist() == ["ham", "jam", "spam"]
    assert_array_equal(named.feature_names_in_, frame.columns)
    assert_allclose(named.predict_proba(frame), plain.predict_proba(X), atol=1e-12)
    assert set(named.predict(frame)) <= set(names)
    thin = CalibratedClassifier(method=method).fit(sparse.csc_array(X), y)
    assert_allclose(thin.predict_proba(sparse.csr_array(X)), plain.predict_proba(X), atol=1e-6)
    assert_allclose(plain.predict_proba(X).sum(axis=1), 1.0)


def test_a_pipeline_with_text_and_gaps_is_handed_the_table_as_it_came():
    X, y = table(300)
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(kind=np.where(X[:, 2] > 0, "low", "high"))
    steps = make_column_transformer((OneHotEncoder(), ["kind"]), remainder=StandardScaler())
    model = CalibratedClassifier(make_pipeline(steps, LogisticRegression())).fit(frame, y, sample_weight=np.ones(300))
    assert model.score(frame, y) > 0.6
    frame.loc[7, "a"] = np.nan
    with pytest.raises(AssayError, match=r"text 'low'|text 'high'|NaN in column 'a'"):
        CalibratedClassifier(make_pipeline(steps, LogisticRegression())).fit(frame, y)


def test_prefit_and_frozen_models_are_used_as_they_are():
    X, y = table(900)
    fitted = GaussianNB().fit(X[:300], y[:300])
    before = pickle.dumps(fitted)
    for ready in (
        CalibratedClassifier(fitted, cv="prefit", method="isotonic"),
        CalibratedClassifier(FrozenEstimator(fitted), cv=3, method="isotonic"),
    ):
        ready.fit(X[300:600], y[300:600])
        scores = fitted.predict_proba(X[300:600])[:, 1]
        g = IsotonicMap().fit(scores, y[300:600])
        assert_allclose(ready.predict_proba(X[600:])[:, 1], g.predict(fitted.predict_proba(X[600:])[:, 1]), atol=1e-12)
    assert pickle.dumps(fitted) == before
    with pytest.raises(ParameterError, match="not fitted"):
        CalibratedClassifier(GaussianNB(), cv="prefit").fit(X, y)
    with pytest.raises(ParameterError, match="not fitted"):
        CalibratedClassifier(cv="prefit").fit(X, y)
    with pytest.raises(DataError, match="7 in row 1"):
        CalibratedClassifier(fitted, cv="prefit").fit(X[:3], [0, 7, 1])
    with pytest.raises(DataError, match="class 1 does not occur in these rows"):
        CalibratedClassifier(fitted, cv="prefit").fit(X[:3], [0, 0, 0])


def test_rows_without_weight_are_not_there():
    X, y = table(200)
    w = np.ones(200)
    w[::4] = 0.0
    wild, odd = X.copy(), y.copy()
    wild[::4] *= 50
    odd[::4] = 9
    groups = np.arange(200) % 5
    pairs = list(GroupKFold(5).split(X, y, groups))
    model = CalibratedClassifier(GaussianNB(), cv=pairs).fit(wild, odd, sample_weight=w)
    kept = w > 0
    again = list(GroupKFold(5).split(X[kept], y[kept], groups[kept]))
    folds = [tuple(sorted(test)) for _, test in again]
    ours = [tuple(sorted((np.cumsum(kept) - 1)[test[kept[test]]])) for _, test in pairs]
    assert sorted(folds) == sorted(ours)
    other = CalibratedClassifier(GaussianNB(), cv=again).fit(X[kept], y[kept])
    assert model.classes_.tolist() == [0, 1]
    assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-9)


def test_a_classifier_without_weights_says_so_and_the_map_uses_them():
    X, y = table(300)
    w = np.where(y == 1, 3.0, 1.0)
    with pytest.warns(AssayWarning, match="map only"):
        heavy = CalibratedClassifier(KNeighborsClassifier(20)).fit(X, y, sample_weight=w)
    plain = CalibratedClassifier(KNeighborsClassifier(20)).fit(X, y)
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.05


def test_n_jobs_never_changes_a_bit():
    X, y = table(200, 3)
    with parallel_config(backend="threading"):
        first, second = (
            CalibratedClassifier(RidgeClassifier(), n_jobs=n, ensemble=True).fit(X, y).predict_proba(X)
            for n in (None, 2)
        )
    assert_array_equal(first, second)


def test_in_a_search_pickled_and_printed():
    X, y = table(200)
    search = GridSearchCV(
        CalibratedClassifier(LinearSVC(dual=False)),
        {"method": ["isotonic", "logistic"], "estimator__C": [0.1, 1.0]},
        cv=2,
        scoring=metrics.log_loss.scorer(),
        error_score="raise",
    ).fit(X, y)
    model = search.best_estimator_
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))
    assert "CalibratedClassifier" in repr(model)
    assert "<div" in model._repr_html_()
    assert vars(clone(model)).keys() == vars(CalibratedClassifier()).keys()


# Bad input.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "spline"}, "method"),
        ({"cv": 1}, "cv"),
        ({"cv": "folds"}, "cv"),
        ({"ensemble": 2}, "ensemble"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"estimator": object()}, "estimator"),
        ({"estimator": GaussianNB}, "estimator"),
    ],
)
def test_parameters_out_of_range(change, words):
    X, y = table(40)
    with pytest.raises(ParameterError, match=words):
        CalibratedClassifier(**change).fit(X, y)


def test_bad_tables_are_blamed_by_column_and_row():
    X, y = table(100)
    fitted = CalibratedClassifier().fit(pd.DataFrame(X).add_prefix("c"), y)
    for value, word in ((np.nan, "NaN"), (np.inf, "inf")):
        bad = pd.DataFrame(X).add_prefix("c")
        bad.iloc[3, 1] = value
        for call in (lambda bad=bad: CalibratedClassifier().fit(bad, y), lambda bad=bad: fitted.predict(bad)):
            with pytest.raises(DataError, match=rf"{word}.*column 'c1', row 3"):
                call()
    with pytest.raises(DataError, match="3 features, but CalibratedClassifier is expecting 8 features"):
        CalibratedClassifier().fit(X, y).predict(X[:, :3])
    for bad in (X[:, 0], X[None], 3.0, None, X[:0], X[:, :0], [[1.0], [2.0, 3.0]]):
        with pytest.raises(AssayError):
            CalibratedClassifier().fit(bad, y)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (lambda y: None, "y to be passed"),
        (lambda y: y[:-1], "99"),
        (lambda y: y * 0, "one class"),
        (lambda y: y + np.random.default_rng(0).normal(size=100), "continuous"),
        (lambda y: np.where(np.arange(100) == 3, np.nan, y), "NaN in row 3"),
        (lambda y: np.where(np.arange(100) == 3, np.inf, y), "inf in row 3"),
        (lambda y: np.where(np.arange(100) == 3, None, y), "row 3"),
        (lambda y: np.column_stack([y, y]), r"\(100, 2\)"),
        (lambda y: sparse.csr_array(y[:, None]), "sparse"),
        (lambda y: np.where(np.arange(100) == 3, 7, y), "class 7 does not occur in the training rows of fold"),
    ],
)
def test_bad_targets(y, words):
    X, good = table(100)
    with pytest.raises(AssayError, match=words) as caught:
        CalibratedClassifier().fit(X, y(good))
    assert caught.value.remedy


def test_folds_that_do_not_fit():
    X, y = table(40, 3)
    order = np.argsort(y, kind="stable")
    with pytest.raises(DataError, match="class 0 does not occur in the training rows of fold 0"):
        CalibratedClassifier(cv=KFold(3)).fit(X[order], y[order])
    with pytest.raises(DataError, match="no scored row in fold 0 has class"):
        CalibratedClassifier(cv=KFold(20), ensemble=True).fit(X[order], y[order])
    with pytest.raises(DataError, match="60 folds"):
        CalibratedClassifier(cv=60).fit(X, y)
    with pytest.raises(DataError, match="fold 0 has a row number beyond"):
        CalibratedClassifier(cv=[([0, 99], [1])]).fit(X, y, sample_weight=np.arange(40))
    X, y = table(200, 4)
    with pytest.raises(DataError, match="6 columns for 4 classes"):
        CalibratedClassifier(SVC(decision_function_shape="ovo")).fit(X, y)


class Broken(LogisticRegression):
    """A classifier whose margin is not a number in one row."""

    def decision_function(self, X):
        s = super().decision_function(X)
        s[2] = np.nan
        return s


def test_a_score_that_is_no_number_names_the_classifier_and_the_row():
    X, y = table(60)
    with pytest.raises(DataError, match="the score of Broken contains NaN in row 2"):
        CalibratedClassifier(Broken()).fit(X, y)


# Reliability and plain arrays.


def test_reliability_is_made_of_the_metrics():
    X, y = table(1500)
    names = np.array(["no", "yes"])[y]
    w = np.random.default_rng(0).uniform(0.5, 2, 500)
    model = CalibratedClassifier(GaussianNB(), method="isotonic").fit(X[:1000], names[:1000])
    rest, truth = X[1000:], names[1000:]
    found = model.reliability(rest, truth, sample_weight=w, n_bins=8, level=0.9)
    raw = model.estimators_[0].predict_proba(rest)
    p = model.predict_proba(rest)
    for name in ("brier", "log_loss"):
        figure = getattr(metrics, name)
        for stage, table_ in zip(found.figures[name], (raw, p), strict=True):
            assert stage == figure.interval(truth, table_[:, 1], sample_weight=w, level=0.9)
    error = metrics.expected_calibration_error.interval(truth, p[:, 1], sample_weight=w, level=0.9, n_bins=8)
    assert found.figures["expected_calibration_error"][1] == error
    change = found.changes["log_loss"]
    assert_allclose(change.estimate, found.figures["log_loss"][1].estimate - found.figures["log_loss"][0].estimate)
    assert isinstance(change, Interval)
    assert change.level == 0.9
    text = str(found)
    for word in ("GaussianNB", "isotonic", "y = 'yes'", "n = 500", "90%", "log_loss", "predict_proba"):
        assert word in text
    frame = found.to_frame()
    assert frame.shape[0] == 8
    assert frame.loc[("brier", "change"), "upper"] == found.changes["brier"].upper
    assert "<table" in found._repr_html_()


def test_reliability_of_several_classes_and_of_margins():
    X, y = table(900, 3)
    model = CalibratedClassifier(method="logistic", ensemble=True).fit(X[:600], y[:600])
    top = model.reliability(X[600:], y[600:])
    assert "most probable" in top.event
    assert "softmax" in top.reading
    p = model.predict_proba(X[600:])
    assert_allclose(top.figures["log_loss"][1].estimate, metrics.log_loss(y[600:], p))
    assert_allclose(
        top.figures["expected_calibration_error"][1].estimate, metrics.expected_calibration_error(y[600:], p)
    )
    one = model.reliability(X[600:], y[600:], pos_label=2)
    assert_allclose(one.figures["brier"][1].estimate, np.mean((p[:, 2] - (y[600:] == 2)) ** 2))
    with pytest.raises(DataError, match="pos_label = 9"):
        model.reliability(X[600:], y[600:], pos_label=9)
    with pytest.raises(DataError, match="9 in row 0"):
        model.reliability(X[600:], np.full(300, 9))
    with pytest.raises(DataError, match="rows"):
        model.reliability(X[600:], y[600:-1])


def test_reliability_has_a_picture():
    X, y = table(500)
    found = CalibratedClassifier(GaussianNB()).fit(X[:300], y[:300]).reliability(X[300:], y[300:])
    axes = found.plot()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert any(label.startswith("before: calibration error") for label in labels)
    assert any(label.startswith("after: calibration error") for label in labels)
    assert calibrate(X[:, 0], y).plot(axes) is axes


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_calibrate_gives_each_row_a_map_that_did_not_see_it(method, classes):
    X, y = table(500, classes)
    names = np.array(["a", "b", "c"])[y]
    scores = cross_val_predict(GaussianNB(), X, y, method="predict_proba")
    pairs = list(KFold(3, shuffle=True, random_state=0).split(X))
    found = calibrate(scores if classes == 3 else scores[:, 1], names, method=method, cv=pairs)
    kind = {"isotonic": IsotonicMap, "logistic": LogisticMap}[method]
    train, test = pairs[1]
    columns = [1] if classes == 2 else [0, 1, 2]
    parts = np.column_stack([kind().fit(scores[train, k], y[train] == k).predict(scores[test, k]) for k in columns])
    expected = parts[:, 0] if classes == 2 else parts / parts.sum(axis=1, keepdims=True)
    assert_allclose(found.probabilities[test], expected, atol=1e-12)
    assert found.classes.tolist() == ["a", "b", "c"][:classes]
    new = found.predict(scores if classes == 3 else scores[:, 1])
    assert new.shape == found.probabilities.shape
    assert isinstance(found.reliability, Reliability)
    assert str(found) == str(found.reliability)
    assert_array_equal(found.to_frame(), found.reliability.to_frame())
    with pytest.raises(ValueError, match="read-only"):
        found.probabilities[0] = 1.0


def test_calibrate_with_weights_leaves_rows_without_weight_out_of_the_maps():
    s, y = logistic_sample(400)
    w = np.where(np.arange(400) % 3, 1.0, 0.0)
    s[w == 0] = 1e6
    found = calibrate(s, y, sample_weight=w)
    assert abs(found.maps[0].slope_ - LogisticMap().fit(s[w > 0], y[w > 0]).slope_) < 1e-9
    assert np.isfinite(found.probabilities).all()


def test_calibrate_refuses_what_it_cannot_use():
    s, y = logistic_sample(30)
    for scores, target, options, words in (
        (s, y, {"method": "spline"}, "method"),
        (s, y * 0, {}, "one class"),
        (s[:-1], y, {}, "29"),
        (np.where(y, np.nan, s), y, {}, "NaN"),
        (np.c_[s, s, s], y, {}, "3 columns for 2 classes"),
        (s, y, {"cv": [(np.arange(20), np.arange(20, 30))]}, "cv tests row 0 0 times"),
        (s, y, {"level": 2.0}, "level"),
        (s, y, {"cv": 99}, "99 folds"),
    ):
        with pytest.raises(AssayError, match=words):
            calibrate(scores, target, **options)


def test_two_rows_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in MAPS:
            p = kind().fit([0.0, 1.0], [0, 1]).predict([0.0, 0.5, 1.0])
            assert p[0] < p[1] < p[2]
