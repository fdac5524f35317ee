"""One figure of all out-of-fold rows: by its definition, against the truth, and the same wherever it is used."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score

from assay import metrics as am
from assay.errors import AssayWarning, DataError
from assay.evaluation import compare, cross_validate, learning_curve, search, select, validation_curve
from assay.evaluation._simultaneous import max_t_of_draws, max_t_of_folds
from assay.resampling import Folds, LeaveOneOut, TimeFolds
from tests.naive.evaluation import auc_within_folds, greatest_t_by_brute_force, pseudo_values_by_definition

SUPERVISED = [metric for metric in am.METRICS.values() if metric.first == "y_true" and metric.name != "adjusted_rand"]


def table(n=60, share=0.3, seed=0, p=3):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) < round(share * n)).astype(int)
    return rng.normal(size=(n, p)) + 0.8 * y[:, None], y


def numbers(n=60, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X.sum(axis=1) / np.sqrt(p) + rng.normal(size=n)


# Definitions.


@pytest.mark.parametrize("metric", SUPERVISED, ids=lambda metric: metric.name)
def test_pseudo_values_by_their_definition(metric):
    weights = np.random.default_rng(1).integers(1, 4, 60).astype(float)
    if metric.needs == "values":
        X, y = numbers()
        y, model = np.exp(y / 4), LinearRegression()
        X = np.abs(X)  # keeps predictions above 0 for the deviances
    else:
        (X, y), model = table(), LogisticRegression()
    found = cross_validate(model, X, y, cv=Folds(5, random_state=2), metric=metric, sample_weight=weights)
    tests = [test for _, test in found.splits]
    rows, fold = np.concatenate(tests), np.repeat(np.arange(5), [len(test) for test in tests])
    predicted = np.concatenate(found.fold_predictions[metric.needs])
    means = np.array([np.average(y[train], weights=weights[train]) for train, _ in found.splits])
    extra = {"reference": means[fold], "folds": fold}

    def figure(keep):
        options = {name: values[keep] for name, values in extra.items() if name == metric.over_folds}
        return metric(y[rows][keep], predicted[keep], sample_weight=weights[rows][keep], **options)

    theta, pseudo = pseudo_values_by_definition(figure, fold)
    assert found.value == pytest.approx(theta, rel=1e-12)
    assert_allclose(found.pseudo_values, pseudo, rtol=1e-9, atol=1e-9)
    assert found.pseudo_values.mean() == pytest.approx(found.value)
    interval = found.interval()
    assert interval.estimate == pytest.approx(theta)
    assert interval.lower <= interval.estimate <= interval.upper


def test_pseudo_values_of_a_mean_over_equal_folds_are_the_means_of_the_folds():
    X, y = numbers()
    found = cross_validate(LinearRegression(), X, y, cv=Folds(6, repeats=2))
    assert_allclose(found.pseudo_values, found.fold_scores, rtol=1e-12)


def test_r2_compares_with_the_mean_of_the_training_fold():
    X, y = numbers()
    weights = np.random.default_rng(3).random(60)
    for cv in (10, TimeFolds(4), LeaveOneOut(), Folds(5, repeats=2)):
        for w in (None, weights):
            guess = cross_validate(DummyRegressor(), X, y, cv=cv, metric="r2", sample_weight=w)
            assert guess.value == 0.0
            assert (guess.interval().lower, guess.interval().upper) == pytest.approx((0, 0), abs=1e-12)
    found = cross_validate(LinearRegression(), X, y, metric="r2")
    squares = spread = 0.0
    for (train, test), f in zip(found.splits, found.fold_predictions["values"], strict=True):
        squares += ((y[test] - f) ** 2).sum()
        spread += ((y[test] - y[train].mean()) ** 2).sum()
    assert found.value == pytest.approx(1 - squares / spread)


def test_auc_over_folds_is_that_of_the_pairs_within_them():
    rng = np.random.default_rng(4)
    for _ in range(20):
        n = int(rng.integers(6, 40))
        y, s, fold = rng.integers(0, 2, n), rng.integers(0, 6, n) / 2, rng.integers(0, 5, n)
        w = rng.integers(0, 3, n).astype(float)
        if not any(len(set(y[(fold == k) & (w > 0)])) > 1 for k in range(5)):
            continue
        assert am.auc(y, s, folds=fold, sample_weight=w) == pytest.approx(auc_within_folds(y, s, fold, w))
        # A shift of a fold's scores changes nothing.
        assert am.auc(y, s + 100 * rng.normal(size=5)[fold], folds=fold, sample_weight=w) == pytest.approx(
            auc_within_folds(y, s, fold, w)
        )


def test_auc_of_several_classes_weighs_folds_by_their_pairs():
    rng = np.random.default_rng(5)
    y, fold = rng.integers(0, 3, 60), rng.integers(0, 4, 60)
    p = rng.dirichlet(np.ones(3), 60)
    each = [auc_within_folds(y == c, p[:, c], fold, np.ones(60)) for c in range(3)]
    assert am.auc(y, p, folds=fold) == pytest.approx(np.mean(each))
    assert am.auc(y, p, folds=np.zeros(60)) == pytest.approx(roc_auc_score(y, p, multi_class="ovr"))
    one = am.auc.interval(y, p, folds=fold)
    assert one.lower < one.estimate < one.upper


def test_each_fold_retrieves_its_share():
    y = np.array([1, 0, 0, 0, 1, 1, 0, 0])
    s = np.array([0.9, 0.8, 0.7, 0.6, 0.3, 0.2, 0.1, 0.0])
    assert am.precision_at_k(y, s, k=4) == 0.25
    assert am.precision_at_k(y, s, k=4, folds=[0] * 4 + [1] * 4) == 0.75
    assert am.precision_at_k(y, np.zeros(8), k=3, folds=[0] * 5 + [1] * 3) == pytest.approx(3 / 8)


def test_counts_are_pooled_over_folds_and_averaged_over_repeats():
    X, y = table(share=0.2)
    found = cross_validate(LogisticRegression(), X, y, cv=Folds(10, repeats=3), metric="f1")
    parts = found.fold_predictions["labels"]
    each = []
    for at in (0, 10, 20):
        rows = np.concatenate([test for _, test in found.splits[at : at + 10]])
        each.append(f1_score(y[rows], np.concatenate(parts[at : at + 10])))
    assert found.value == pytest.approx(np.mean(each))
    assert np.mean(found.fold_scores) < found.value - 0.04  # folds without a positive have F1 = 0


# Folds without anything to compare.


def test_sixty_rows_with_nine_positives_never_fail():
    """The design that ended 74 of 111 studies; every learner and every metric has a figure and an interval."""
    for seed in range(12):
        X, y = table(60, 0.15, seed)
        learners = (LogisticRegression(), DummyClassifier(), LogisticRegression(C=0.01))
        names = [m.name for m in SUPERVISED if m.needs != "values"]
        found = [cross_validate(one, X, y, metric=["auc", *names], name=f"{k}") for k, one in enumerate(learners)]
        for one in found:
            for metric in one.metrics:
                interval = one.interval(metric=metric)
                assert np.isfinite([interval.estimate, interval.lower, interval.upper]).all()
        assert found[1].value == 0.5
        assert np.isfinite(compare(found).differences).all()
        assert np.isfinite(select(found).table["estimate"]).all()


def test_folds_have_both_classes_where_that_is_possible():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.arange(60) < 11).astype(int)
        assert all(y[test].sum() >= 1 for _, test in Folds(10, random_state=seed).split(y[:, None], y))
        groups = np.repeat(np.arange(20), 3)
        labels = np.repeat(rng.permutation(np.arange(20) < 6), 3).astype(int)
        for _, test in Folds(5, random_state=seed).split(y[:, None], labels, groups):
            assert 0 < labels[test].sum() < len(test)


def test_no_fold_with_pairs_is_one_sentence():
    X, y = table(20)
    with pytest.raises(DataError, match="no fold has rows of both classes") as caught:
        cross_validate(LogisticRegression(), X, y, cv=LeaveOneOut(), metric="auc")
    assert "\n" not in str(caught.value)
    by_class = [(np.flatnonzero(y != c), np.flatnonzero(y == c)) for c in (0, 1)]
    with pytest.warns(AssayWarning), pytest.raises(DataError, match="no fold has rows of both classes"):
        cross_validate(DummyClassifier(), X, y, cv=by_class, metric="auc")


def test_one_fold_that_decides_everything_has_no_spread_over_folds():
    X, y = table(30, 0.1)
    rare = np.flatnonzero(y)
    first = np.concatenate([rare[:2], np.flatnonzero(y == 0)[:8]])
    rest = np.setdiff1d(np.arange(30), np.append(first, rare))
    cv = [(np.setdiff1d(np.arange(30), test), test) for test in (first, rest[:9], rest[9:])]
    one = cross_validate(LogisticRegression(), X, y, cv=cv, metric="auc")
    assert np.isnan(one.std_error)
    assert one.interval().lower < one.value
    other = cross_validate(DummyClassifier(), X, y, cv=cv, metric="auc")
    assert "a single fold decides the auc" in compare([one, other]).verdicts[0]
    assert select([one, other], rule="best").name == "LogisticRegression"


# The same figure everywhere.


@pytest.mark.parametrize("metric", ["r2", "rmse", "mae"])
def test_every_road_leads_to_the_same_figure(metric):
    X, y = numbers(57)
    found = cross_validate(LinearRegression(), X, y, cv=5, metric=metric)
    other = cross_validate(DummyRegressor(), X, y, cv=5, metric=metric)
    together = compare([found, other])
    assert together.estimates[0] == pytest.approx(found.estimate)
    assert together.differences[0] == pytest.approx(found.value - other.value)
    chosen = select([found, other]).table
    assert_allclose(chosen.loc["LinearRegression", ["estimate", "std_error"]], [found.estimate, found.std_error])
    searched = search(LinearRegression(), X, y, {"fit_intercept": [True]}, cv=5, metric=metric)
    assert (searched.estimate, searched.std_error) == pytest.approx((found.estimate, found.std_error))
    curve = validation_curve(LinearRegression(), X, y, "fit_intercept", [True], cv=5, metric=metric)
    assert (curve.estimate[0], curve.std_error[0]) == pytest.approx((found.estimate, found.std_error))
    grown = learning_curve(LinearRegression(), X, y, sizes=[1.0], cv=Folds(3, stratify=False), metric=metric)
    three = cross_validate(LinearRegression(), X, y, cv=Folds(3, stratify=False), metric=metric)
    assert grown.estimate[0] == pytest.approx(three.estimate)
    assert cross_validate(LinearRegression(), X, y, cv=5, metric=["mse", metric]).by(metric).estimate == found.estimate


# The greatest t.


def test_the_law_of_the_greatest_t_by_brute_force():
    """Critical values at .95 and .80 of six pairs of four learners; both are draws, off by at most .08 (4 errors)."""
    rng = np.random.default_rng(6)
    values = rng.normal(size=(10, 4)) @ np.diag([1, 2, 1, 0.5])
    gaps = np.column_stack([values[:, a] - values[:, b] for a in range(4) for b in range(a)])
    law = max_t_of_folds(gaps, 9.0, "two-sided", np.random.default_rng(0))
    slow = greatest_t_by_brute_force(gaps, 20_000, rng)
    for level in (0.8, 0.95):
        assert law.critical(level) == pytest.approx(np.quantile(slow, level), abs=0.08)
    assert stats.t.ppf(0.975, 9) < law.critical(0.95) < stats.t.ppf(1 - 0.025 / 6, 9)
    again = max_t_of_folds(gaps, 9.0, "two-sided", np.random.default_rng(0))
    assert again.critical(0.95) == law.critical(0.95)


def test_a_single_pair_has_its_own_t_and_equal_learners_do_not_count():
    gaps = np.random.default_rng(7).normal(size=(10, 1))
    for some in (gaps, np.column_stack([gaps, np.zeros(10)])):
        law = max_t_of_folds(some, 9.0, "two-sided", np.random.default_rng(0))
        assert law.critical(0.95) == pytest.approx(stats.t.ppf(0.975, 9))
        assert law.adjusted(np.array([2.0]), np.array([0.04]))[0] == 0.04
    one_sided = max_t_of_folds(gaps, 9.0, "less", np.random.default_rng(0))
    assert one_sided.critical(0.95) == pytest.approx(stats.t.ppf(0.95, 9))


def test_adjusted_p_values_and_critical_values_of_resamples_agree_to_the_last_draw():
    rng = np.random.default_rng(8)
    drawn = rng.normal(size=(199, 3))
    law = max_t_of_draws(drawn, np.zeros(3), np.ones(3), "two-sided")
    for level in (0.5, 0.9, 0.95, 0.99):
        for statistic in np.sort(np.abs(drawn).max(axis=1)) + np.array([-1e-7, 1e-7])[:, None]:
            shown = law.adjusted(statistic, np.zeros(statistic.size)) < (1 - level) * (1 - 1e-9)
            np.testing.assert_array_equal(shown, statistic > law.critical(level))


# Against the truth: short versions of docs/simulations/figures.md.


def test_r2_of_small_tables_is_near_its_truth():
    """n = 60, p = 5: the truth is .45 (by 20,000 new rows); the mean of fold figures lies .3 below it.

    The mean of 60 tables has a standard error of .014, so a false alarm needs four of them: below 1e-4.
    """
    found, old = [], []
    for seed in range(60):
        X, y = numbers(seed=seed)
        one = cross_validate(LinearRegression(), X, y, metric="r2")
        found.append(one.value)
        parts = zip(one.splits, one.fold_predictions["values"], strict=True)
        old.append(np.mean([am.r2(y[test], f) for (_, test), f in parts]))
    assert np.mean(found) == pytest.approx(0.45, abs=0.06)
    assert np.mean(old) < 0.25


@pytest.mark.slow
def test_intervals_cover_and_equal_learners_are_not_called_different():
    """Few positives, ties, shifted scores, groups, weights: 60 tables each, at most 11 misses of a 95% interval and 11
    false differences at .05; at the nominal rates more of either has a probability below 1e-4.
    """
    from simulations.figures import designs, simulate

    wanted = ("4 positives", "heavy ties", "scores of each", "groups", "weights", "a guess", "2 folds")
    for seed, design in enumerate(designs()):
        if not design.name.startswith(wanted):
            continue
        for name, found in simulate(design, 60, seed).items():
            assert 60 - sum(found["covered"]) <= stats.binom.isf(1e-4, 60, 0.05), (design.name, name)
            assert np.sum(np.array(found["p"]) <= 0.05) <= stats.binom.isf(1e-4, 60, 0.05), (design.name, name)
            assert abs(np.mean(found["figure"]) - found["truth"]) < 0.1, (design.name, name)


@pytest.mark.slow
def test_five_equal_learners_are_called_different_at_most_as_often_as_said():
    """Ten pairs, 150 tables, .05 together: at most 19; more has a probability below 1e-4."""
    from simulations.figures import _equal_learners

    rng, shown = np.random.default_rng(9), 0
    for run in range(150):
        shown += compare(_equal_learners(rng, 60, "rmse", 10, run)).rejected.any()
    assert shown <= stats.binom.isf(1e-4, 150, 0.05)
