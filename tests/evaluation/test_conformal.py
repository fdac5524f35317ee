"""Conformal prediction: exact ranks, CV+ by its definition, sets, measured coverage, and what it refuses."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from scipy import stats
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, RepeatedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from assay.errors import AssayWarning, DataError, DataTypeError, ParameterError
from assay.evaluation import _conformal as rules
from assay.evaluation.conformal import Conformal, conformal
from assay.resampling import Folds, Holdout, LeaveOneOut, TimeFolds
from tests.naive.evaluation import adaptive_score, conformal_quantile, cv_plus_interval, cv_plus_set
from tests.tiers import slow


def line(n, seed=0, p=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X[:, 0] + rng.normal(size=n)


def blobs(n, seed=0, classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return rng.normal(size=(n, 2)) + 1.2 * np.column_stack([y, -y]), np.array(["a", "b", "c", "d"])[y]


# The arithmetic.


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.sampled_from([0.5, 0.7, 0.8, 0.9, 0.95, 0.99]))
def test_rank_is_exact(scores, level):
    k = rules.rank(len(scores), level)
    assert conformal_quantile(scores, level) == (np.inf if k > len(scores) else sorted(scores)[k - 1])
    assert (k > len(scores)) == (len(scores) < rules.least_rows(level))


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6, unique=True), st.floats(0, 1))
def test_adaptive_scores_agree_with_their_definition(raw, u):
    p = np.array(raw) / sum(raw)
    found = rules.aps(p[None], u)[0]
    np.testing.assert_allclose(found, [adaptive_score(p, c, u) for c in range(p.size)], atol=1e-12)


# Intervals.


@pytest.mark.parametrize("cv", [4, LeaveOneOut()])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_cv_plus_agrees_with_its_definition(cv, level):
    X, y = line(40)
    new = line(7, seed=9)[0]
    made = conformal(DecisionTreeRegressor(max_depth=3, random_state=0), X, y, cv=cv, level=level)
    by_hand = [fit.model for fit in made.fits]
    residuals = [abs(y[i] - by_hand[made.fold[i]].predict(X[i : i + 1])[0]) for i in range(40)]
    np.testing.assert_allclose(made.scores, residuals)
    found = made.interval(new)
    for row in range(7):
        centres = [by_hand[made.fold[i]].predict(new[row : row + 1])[0] for i in range(40)]
        np.testing.assert_allclose((found.lower[row], found.upper[row]), cv_plus_interval(centres, residuals, level))


def test_each_row_is_scored_by_a_model_that_has_not_seen_it():
    X, y = line(30)
    learner = Ridge()
    made = conformal(learner, X, y, cv=Folds(5, random_state=3))
    assert not hasattr(learner, "coef_")
    for k, (train, test) in enumerate(Folds(5, random_state=3).split(X, y)):
        assert (made.fold[test] == k).all()
        expected = np.abs(y[test] - Ridge().fit(X[train], y[train]).predict(X[test]))
        np.testing.assert_allclose(made.scores[test], expected)


def test_blocks_of_new_rows_do_not_change_the_limits():
    X, y = line(60)
    made = conformal(Ridge(), X, y, cv=10)
    new = np.random.default_rng(1).normal(size=(36_000, X.shape[1]))  # 2.2 million pairs: three blocks
    parts = [np.asarray(made.interval(new[at : at + 9_000])) for at in range(0, 36_000, 9_000)]
    np.testing.assert_array_equal(np.asarray(made.interval(new)), np.concatenate(parts))


@pytest.mark.parametrize("tied", [False, True])
def test_the_kernel_gives_the_same_limits_to_the_bit(monkeypatch, tied):
    rng = np.random.default_rng(0)
    centre, spread, fold = rng.normal(size=(40, 5)), rng.uniform(0.5, 2, size=(40, 5)), rng.integers(0, 5, 200)
    scores = rng.exponential(size=200)
    if tied:
        centre, spread, scores = centre.round(), np.ones((40, 5)), scores.round(1)
    for level in (0.03, 0.5, 0.9, 0.995):
        plain = rules.limits(centre, spread, fold, scores, level)
        with monkeypatch.context() as patch:
            patch.setattr(rules, "KERNEL_WORK", 0)
            np.testing.assert_array_equal(rules.limits(centre, spread, fold, scores, level), plain)


def test_split_and_prefit_take_one_order_statistic():
    X, y = line(100)
    split = conformal(Ridge(), X, y, method="split", cv=Holdout(0.4), level=0.8)
    train, test = next(Holdout(0.4).split(X, y))
    model = Ridge().fit(X[train], y[train])
    q = conformal_quantile(np.abs(y[test] - model.predict(X[test])), 0.8)
    prefit = conformal(model, X[test], y[test], method="prefit", level=0.8)
    for made in (split, prefit):
        found = made.interval(X)
        np.testing.assert_allclose(found.upper, model.predict(X) + q)
        np.testing.assert_allclose(found.lower, model.predict(X) - q)
        assert "at least 0.8" in made.guarantee()
    assert split.n == test.size


def test_cv_refits_and_promises_nothing():
    X, y = line(60)
    plus, plain = (conformal(Ridge(), X, y, method=m, cv=Folds(5)) for m in ("cv+", "cv"))
    np.testing.assert_array_equal(plus.scores, plain.scores)
    model = Ridge().fit(X, y)
    q = conformal_quantile(plain.scores, 0.9)
    np.testing.assert_allclose(plain.interval(X).upper, model.predict(X) + q)
    stored = Conformal.from_residuals(model, (y - plus.interval(X).prediction) * 0 + plain.scores)
    np.testing.assert_allclose(np.asarray(stored.interval(X)), np.asarray(plain.interval(X)))
    assert "no guarantee" in plain.guarantee()
    assert "no guarantee" in stored.guarantee()
    assert "at least 0.9" in Conformal.from_residuals(model, plain.scores, held_out=True).guarantee()


def test_guarantee_of_cv_plus_is_the_published_bound():
    X, y = line(100)
    made = conformal(Ridge(), X, y, cv=10)
    bound = 1 - 2 * 0.1 - min(2 * (1 - 1 / 10) / (100 / 10 + 1), (1 - 10 / 100) / 11)
    assert f"at least {bound:.3g}" in made.guarantee()
    assert bound >= 1 - 2 * 0.1 - np.sqrt(2 / 100)
    assert "jackknife+: proved at least 0.8" in conformal(Ridge(), X, y, cv=LeaveOneOut()).guarantee()
    assert "no bound" in made.guarantee(0.5)


def test_too_few_rows_give_infinite_intervals_and_a_warning():
    X, y = line(16)
    made = conformal(Ridge(), X, y, method="split", level=0.9)
    with pytest.warns(AssayWarning, match="needs 9 calibration rows, but there are 8: every interval is infinite"):
        found = made.interval(X)
    assert np.isinf(found.lower).all()
    assert np.isinf(found.upper).all()
    with pytest.warns(AssayWarning):
        assert made.coverage(X, y).coverage.estimate == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(made.interval(X, level=0.8).upper).all()


def test_scale_widens_where_the_noise_does():
    rng = np.random.default_rng(0)
    x = rng.random((600, 1))
    y = rng.normal(size=600) * (0.1 + 2 * x[:, 0])
    tree = DecisionTreeRegressor(max_leaf_nodes=6, random_state=0)
    made = conformal(LinearRegression(), x, y, scale=tree, method="split")
    width = made.interval(np.array([[0.05], [0.95]])).width
    assert width[1] > 3 * width[0]
    assert made.score == "normalised"
    for method in ("cv+", "cv"):
        made = conformal(LinearRegression(), x[:100], y[:100], scale=tree, method=method, cv=3)
        width = made.interval(np.array([[0.05], [0.95]])).width
        assert width[1] > 2 * width[0]
    flat = conformal(DummyRegressor(), x[:40], np.ones(40), scale=tree, method="split")
    assert (flat.interval(x[:3]).width == 0).all()


def hits(method, runs, level, seed, **options):
    """How many of `runs` fresh data sets cover one fresh row each."""
    covered = 0
    for s in range(runs):
        X, y = line(41, seed + s)
        made = conformal(LinearRegression(), X[:40], y[:40], method=method, level=level, random_state=s, **options)
        covered += int(made.interval(X[40:]).contains(y[40:])[0])
    return covered


@pytest.mark.parametrize(("method", "options"), [("split", {}), slow("cv+", {"cv": 4}), slow("cv", {"cv": 4})])
def test_coverage_of_intervals_is_as_stated(method, options):
    """200 data sets, one new row each; binomial bounds at 1e-6 each side around .80, with .03 for the finite n of split
    (ceil(.8 * 21) / 21 = .81) and for what CV+ and CV only promise loosely."""
    found = hits(method, 200, 0.8, 1_000, **options)
    assert stats.binom.ppf(1e-6, 200, 0.77) <= found <= stats.binom.ppf(1 - 1e-6, 200, 0.84)


# Sets of classes.


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("by_class", [False, True])
def test_cv_plus_sets_agree_with_their_definition(score, by_class):
    X, y = blobs(45)
    new = blobs(6, seed=5)[0]
    made = conformal(GaussianNB(), X, y, cv=3, score=score, by_class=by_class, randomized=False, level=0.8)
    models = [fit.model for fit in made.fits]

    def score_of(model, x, c):
        p = model.predict_proba(x[None])[0]
        return 1 - p[c] if score == "lac" else adaptive_score(p, c, 1.0)

    old = np.array([score_of(models[made.fold[i]], X[i], "abc".index(y[i])) for i in range(45)])
    np.testing.assert_allclose(made.scores, old, atol=1e-12)
    found = made.sets(new)
    for row in range(6):
        for c in range(3):
            rows = [i for i in range(45) if not by_class or y[i] == "abc"[c]]
            scores = [[score_of(models[made.fold[i]], new[row], k) for k in range(3)] for i in rows]
            assert found.inside[row, c] == cv_plus_set(scores, [made.scores[i] for i in rows], 0.8)[c]
        assert found[row] == tuple(np.array(["a", "b", "c"])[found.inside[row]])


@pytest.mark.parametrize(
    "options", [{"score": "lac"}, slow({"score": "aps"}), slow({"score": "aps", "randomized": False})]
)
def test_coverage_of_sets_is_as_stated(options):
    """150 data sets, 10 new rows each, split. Given its calibration rows the coverage is a Beta(k, n + 1 - k), so the
    count is beta-binomial; its mean over data sets stays within 5 standard deviations of k / (n + 1) (1e-6) and .02."""
    runs, each, level = 150, 10, 0.85
    total, sizes = 0, []
    for s in range(runs):
        X, y = blobs(80, s)
        made = conformal(GaussianNB(), X[:70], y[:70], method="split", level=level, random_state=s, **options)
        found = made.sets(X[70:], random_state=s)
        total += int(found.inside[np.arange(each), np.searchsorted(made.classes, y[70:])].sum())
        sizes.append(made.n)
    k, n = rules.rank(35, level), 35
    one = stats.betabinom(each, k, n + 1 - k)
    assert abs(total / runs - one.mean()) <= 5 * one.std() / np.sqrt(runs) + 0.02 * each


def test_tables_of_one_size_do_not_share_the_draws_of_aps():
    """60 tables of 300 rows, the default seed, a rare class: exchangeable scores cover k / (n + 1) on average, within
    five standard errors of the mean over tables (1e-6). Draws of the seed alone covered .83 in all of them."""
    shares, new = [], 300
    for s in range(60):
        rng = np.random.default_rng(s)
        y = (rng.random(300 + new) < 0.05).astype(int)
        X = rng.normal(size=(y.size, 2)) + 1.5 * y[:, None]
        made = conformal(GaussianNB(), X[:300], y[:300], method="split", score="aps", by_class=False)
        shares.append(made.coverage(X[300:], y[300:]).coverage.estimate)
    exact = rules.rank(made.n, 0.9) / (made.n + 1)
    assert abs(np.mean(shares) - exact) < 5 * np.std(shares) / np.sqrt(60)


def test_by_class_covers_the_rare_class():
    rng = np.random.default_rng(0)
    y = (rng.random(6_000) < 0.05).astype(int)
    X = rng.normal(size=(6_000, 1)) + 1.5 * y[:, None]
    old, new = slice(0, 3_000), slice(3_000, None)
    plain, fair = (
        conformal(LogisticRegression(), X[old], y[old], method="split", cv=Holdout(0.5), by_class=b)
        for b in (False, True)
    )
    plain, fair = (made.coverage(X[new], y[new]) for made in (plain, fair))
    assert plain.parts.loc["1", "coverage"] < 0.5
    # 75 rows calibrate the rare class and 150 test it: a standard deviation of .043, five of them below .9.
    assert fair.parts.loc["1", "coverage"] > 0.68
    assert fair.size.estimate > plain.size.estimate


def test_rare_classes_are_calibrated_by_themselves_unless_told_otherwise():
    """Exchangeable scores: a class of m calibration rows is covered with chance ceil(.9 (m + 1)) / (m + 1), together or
    by class whichever holds. 300 tables, 50 new rare rows each; five standard errors of the mean over tables."""
    shares: dict[str, list[float]] = {"together": [], "auto": []}
    for s in range(300):
        rng = np.random.default_rng(s)
        y = np.r_[np.zeros(190, int), np.ones(10, int)]
        p = np.clip(0.05 + 0.3 * y + 0.2 * rng.normal(size=200), 0.001, 0.999)
        new = np.clip(0.35 + 0.2 * rng.normal(size=50), 0.001, 0.999)
        model = Told(new)
        for kind, by_class in (("together", False), ("auto", "auto")):
            made = Conformal.from_probabilities(model, p, y, classes=[0, 1], held_out=True, by_class=by_class)
            shares[kind].append(made.sets(np.zeros((50, 1))).inside[:, 1].mean())
        assert made.scope() == ("within each class", "")
    assert np.mean(shares["together"]) < 0.5
    exact = 10 / 11
    assert abs(np.mean(shares["auto"]) - exact) < 5 * np.std(shares["auto"]) / np.sqrt(300)


def test_the_guarantee_says_where_ties_cover_more_than_the_level():
    """A tree grown out says 0 or 1: scores tie, and every set holds both classes."""
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.4).astype(int)
    X = rng.normal(size=(400, 2)) + 1.2 * y[:, None]
    for method in ("cv+", "cv"):
        tree = conformal(DecisionTreeClassifier(random_state=0), X[:100], y[:100], method=method)
        assert tree.coverage(X[100:], y[100:]).coverage.estimate == 1.0
        assert "near 0.9, or above it because scores tie" in tree.guarantee()
        assert " tie" not in conformal(GaussianNB(), X[:100], y[:100], method=method).guarantee()


class Told:
    """A model that answers with given probabilities."""

    classes_ = np.array([0, 1])

    def __init__(self, p):
        self.p = p

    def predict(self, X):
        return (self.p > 0.5).astype(int)

    def predict_proba(self, X):
        return np.column_stack([1 - self.p, self.p])


def test_the_guarantee_says_which_classes_are_not_covered():
    rng = np.random.default_rng(0)
    classes = np.array(list("abcd"))

    def made(*counts, **options):
        y = np.repeat(classes[: len(counts)], counts)
        p = rng.dirichlet(np.ones(len(counts)), y.size)
        model = GaussianNB().fit(rng.normal(size=(y.size, 2)), y)
        return Conformal.from_probabilities(model, p, y, held_out=True, **options)

    assert made(100, 90, 80).scope() == ("", "")
    assert made(100, 90, 80).guarantee() == made(100, 90, 80, by_class=False).guarantee()
    assert made(300, 60, 20).scope() == ("within each class", "")
    where, never = made(300, 60, 6, 5).scope()
    assert where == "within each class of at least 9 calibration rows and within the rarer ones together ('c', 'd')"
    assert made(300, 60, 1).scope()[1].endswith("'c' alone, with 1 calibration row where level 0.9 needs 9")
    assert never == ""
    X, thin = np.zeros((3, 2)), made(300, 60, 6)
    assert thin.guarantee() == (
        "covers a new row within each class ('a' together with 'c') with probability at least 0.9, if old and new rows "
        "are exchangeable and the model has not seen the old ones; nothing is promised for 'c' alone, with 6 "
        "calibration rows where level 0.9 needs 9"
    )
    two = made(300, 6)  # two classes: all rows together, which keeps the level over both
    np.testing.assert_array_equal(two.sets(X).inside, replace(two, by_class=False).sets(X).inside)
    assert two.scope() == ("", "nothing is promised for 'b' alone, with 6 calibration rows where level 0.9 needs 9")
    assert thin.sets(X).guarantee == thin.guarantee()
    assert "class" in thin.to_frame().columns
    # At a lower level six rows are enough.
    assert thin.scope(0.8)[1] == ""
    # The strict form keeps its promise by putting the class into every set.
    with pytest.warns(AssayWarning, match="every set contains that class"):
        assert made(300, 60, 6, by_class=True).sets(X).inside[:, 2].all()
    with pytest.raises(ParameterError, match="by_class"):
        made(30, 30, by_class="often")


def test_merged_rare_classes_agree_with_their_definition():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2, 3], [150, 40, 6, 5])
    p = rng.dirichlet([4, 2, 1, 1], y.size)
    new = rng.dirichlet([4, 2, 1, 1], 30)
    model = Told(None)
    model.predict_proba = lambda X: new
    model.classes_ = np.arange(4)
    made = Conformal.from_probabilities(model, p, y, level=0.8, held_out=True)
    found = made.sets(np.zeros((30, 1))).inside
    own = 1 - p[np.arange(y.size), y]
    for c, rows in enumerate((y == 0, y == 1, y == 2, y == 3)):  # at level .8 four rows are enough for each class
        for i in range(30):
            assert found[i, c] == (np.sum(own[rows] < 1 - new[i, c]) < np.ceil(0.8 * (rows.sum() + 1)))
    for level, groups in (
        (0.9, (y == 0, y == 1, y > 1, y > 1)),  # nine are needed: 2 and 3 stand together
        (0.95, (y != 1, y == 1, y != 1, y != 1)),  # nineteen: they join the largest class
    ):
        found = made.sets(np.zeros((30, 1)), level=level).inside
        for c, rows in enumerate(groups):
            for i in range(30):
                assert found[i, c] == (np.sum(own[rows] < 1 - new[i, c]) < np.ceil(level * (rows.sum() + 1)))


def test_classes_a_fold_never_saw_have_no_probability():
    X, y = blobs(60)
    y = np.where(np.arange(60) == 7, "z", y)
    made = conformal(GaussianNB(), X, y, cv=Folds(5, stratify=False))
    assert made.classes.tolist() == ["a", "b", "c", "z"]
    assert made.scores[7] == 1.0
    with pytest.warns(AssayWarning, match="rarest class, but there are 1: every set contains that class"):
        assert conformal(GaussianNB(), X, y, cv=Folds(5, stratify=False), by_class=True).sets(X).inside[:, 3].all()


def test_sets_from_stored_probabilities():
    X, y = blobs(90)
    model = GaussianNB().fit(X[:50], y[:50])
    p = model.predict_proba(X[50:])
    for options in (
        {"score": "lac"},
        {"score": "aps", "randomized": False},
        {"score": "lac", "by_class": True, "level": 0.7},
    ):
        direct = conformal(model, X[50:], y[50:], method="prefit", **options)
        stored = Conformal.from_probabilities(model, p, y[50:], held_out=True, **options)
        np.testing.assert_array_equal(direct.sets(X).inside, stored.sets(X).inside)
    turned = Conformal.from_probabilities(model, p[:, ::-1], y[50:], classes=["c", "b", "a"])
    np.testing.assert_array_equal(turned.scores, Conformal.from_probabilities(model, p, y[50:]).scores)
    assert "no guarantee" in turned.guarantee()
    two = GaussianNB().fit(X, y == "a")
    column = Conformal.from_probabilities(two, two.predict_proba(X)[:, 1], y == "a")
    assert column.classes.tolist() == [False, True]


# Together.


def test_coverage_is_measured_with_an_exact_interval():
    X, y = line(400)
    made = conformal(Ridge(), X[:100], y[:100])
    found = made.coverage(X[100:], y[100:], level=0.8)
    inside = made.interval(X[100:], 0.8).contains(y[100:])
    exact = stats.binomtest(int(inside.sum()), 300).proportion_ci(0.95, "exact")
    np.testing.assert_allclose((found.coverage.lower, found.coverage.upper), exact, rtol=1e-10)
    np.testing.assert_allclose(found.size.estimate, made.interval(X[100:], 0.8).width.mean())
    assert found.parts["rows"].sum() == 300
    assert len(found.parts) == 5
    assert found.to_frame().index[0] == "all"
    assert made.coverage(X[100:103], y[100:103]).parts.index.tolist() == ["any prediction"]


@pytest.mark.parametrize("method", ["cv+", "cv", "split"])
def test_jobs_do_not_change_the_result_and_frames_keep_their_index(method):
    X, y = line(60)
    frame = pd.DataFrame(X, columns=["a", "b"], index=[f"row {i}" for i in range(60)])
    forest = RandomForestRegressor(5, random_state=0)
    with parallel_config("threading"):
        one, two = (conformal(forest, frame, y, method=method, n_jobs=k) for k in (None, 2))
    np.testing.assert_array_equal(np.asarray(one.interval(frame)), np.asarray(two.interval(frame)))
    assert one.interval(frame).to_frame().index[3] == "row 3"


def test_words_frames_and_pictures():
    import matplotlib.pyplot as plt

    X, y = line(80)
    made = conformal(Ridge(), X, y)
    found = made.interval(X)
    for result, words, rows in (
        (made, "typically near 0.9", 5),
        (found, "and 70 more", 80),
        (made.coverage(X, y), "nominal 0.9", 6),
    ):
        assert words in str(result)
        assert len(result.to_frame()) == rows
        assert result.plot().get_xlabel()
    Z, t = blobs(80)
    for options, rows in (({}, 5), ({"by_class": True, "level": 0.7}, 18), ({"score": "aps"}, 5)):
        sets = conformal(GaussianNB(), Z, t, **options)
        assert [len(result.to_frame()) for result in (sets, sets.sets(Z), sets.coverage(Z, t))] == [rows, 80, 4]
        for result in (sets, sets.sets(Z), sets.coverage(Z, t)):
            assert str(result)
            assert result.plot().get_xlabel()
    few = Conformal.from_residuals(Ridge().fit(X, y), [1.0, 2.0])
    assert np.isinf(few.to_frame()["quantile"]).any()
    with pytest.warns(AssayWarning):
        few.interval(X).plot()
    few.plot()
    plt.close("all")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"method": "bootstrap"}, ParameterError, "method"),
        ({"level": 1}, ParameterError, "level"),
        ({"score": "aps"}, ParameterError, "does not fit numbers"),
        ({"by_class": True}, ParameterError, "needs classes"),
        ({"method": "split", "cv": 5}, ParameterError, "one split"),
        ({"cv": TimeFolds(3)}, ParameterError, "test every row exactly once"),
        ({"cv": RepeatedKFold(n_splits=3, n_repeats=2)}, ParameterError, "test every row exactly once"),
        ({"cv": 50}, DataError, "50 folds"),
        ({"method": "prefit", "scale": Ridge()}, ParameterError, "estimated from the training rows"),
        ({"scale": "ridge"}, DataTypeError, "expected an estimator"),
    ],
)
def test_bad_input_gets_one_sentence(change, error, words):
    X, y = line(30)
    with pytest.raises(error, match=words):
        conformal(Ridge(), X, y, **change)


def test_wrong_questions_and_wrong_models():
    X, y = line(30)
    Z, t = blobs(60)
    numbers, labels = conformal(Ridge(), X, y), conformal(GaussianNB(), Z, t)
    with pytest.raises(DataTypeError, match=r"call \.interval"):
        numbers.sets(X)
    with pytest.raises(DataTypeError, match=r"call \.sets"):
        labels.interval(Z)
    with pytest.raises(DataTypeError, match="no predict_proba"):
        conformal(LinearSVC(), Z, t)
    with pytest.raises(ParameterError, match="does not fit classes"):
        conformal(GaussianNB(), Z, t, score="residual")
    with pytest.raises(ParameterError, match="scale needs a numeric target"):
        conformal(GaussianNB(), Z, t, scale=Ridge())
    with pytest.raises(DataError, match="does not occur in the training rows"):
        labels.coverage(Z, np.full(60, "q"))
    with pytest.raises(DataError, match="one class"):
        conformal(GaussianNB(), Z, np.full(60, "q"))
    with pytest.raises(DataError, match="no residuals"):
        Conformal.from_residuals(Ridge(), [])
    with pytest.raises(DataError, match="not finite in row 1"):
        Conformal.from_residuals(Ridge(), [1.0, np.nan])
    fitted = GaussianNB().fit(Z, t)
    with pytest.raises(DataError, match=r"contains 2 in row 0 \(column 0\), which is not a probability"):
        Conformal.from_probabilities(fitted, np.full((60, 3), 2.0), t)
    with pytest.raises(DataError, match="one column per class"):
        Conformal.from_probabilities(fitted, np.full((60, 2), 0.5), t)
    with pytest.raises(ValueError, match="not fitted"):
        conformal(Ridge(), X, y, method="prefit")


def test_groups_stay_together_and_nothing_is_proved_for_new_ones():
    X, y = line(60)
    groups = np.arange(60) % 12
    for options in ({"cv": GroupKFold(4)}, {"cv": 4}, {}, {"method": "split"}, {"scale": Ridge()}):
        made = conformal(Ridge(), X, y, groups=groups, **options)
        assert made.guarantee().startswith("no guarantee: rows of a group are alike")
        if "method" not in options:
            assert all(np.unique(made.fold[groups == g]).size == 1 for g in range(12))
    pairs = list(GroupKFold(4).split(X, y, groups))
    by_groups = conformal(Ridge(), X, y, cv=GroupKFold(4), groups=groups)
    np.testing.assert_array_equal(conformal(Ridge(), X, y, cv=pairs).scores, by_groups.scores)
    with pytest.raises(DataError, match=r"GroupKFold splits by groups.*cv=list\(GroupKFold"):
        conformal(Ridge(), X, y, cv=GroupKFold(4))
