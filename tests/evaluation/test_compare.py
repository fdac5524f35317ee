"""Comparing learners: the right test for the scheme, agreement with the tests themselves, direction, words."""

import pickle
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation.compare import Comparison, compare
from assay.evaluation.validate import cross_validate
from assay.inference import adjust_pvalues, corrected_t_test, cv_t_test, five_by_two_test, mcnemar_test, t_test
from assay.resampling import Bootstrap, FiveByTwo, Folds, Holdout, LeaveOneOut, TimeFolds

mpl.use("Agg")


def classes(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, "yes", "no")
    return X, y


def judged(cv, metric=None, n=120, names=("bayes", "nearest", "constant"), **options):
    X, y = classes(n)
    learners = {"bayes": GaussianNB(), "nearest": KNeighborsClassifier(3), "constant": DummyClassifier()}
    return {k: cross_validate(learners[k], X, y, cv=cv, metric=metric, name=k, **options) for k in names}


def lines(cv, metric=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + rng.normal(size=80)
    return [cross_validate(model, X, y, cv=cv, metric=metric) for model in (LinearRegression(), DummyRegressor())]


# Which test.


@pytest.mark.parametrize(
    ("cv", "metric", "test"),
    [
        (Holdout(), None, "mcnemar"),
        (Holdout(), "accuracy", "mcnemar"),
        (Holdout(), "log_loss", "paired_t"),
        (Holdout(), "auc", "bootstrap"),
        (10, None, "corrected_t"),
        (10, "auc", "corrected_t"),
        (Folds(5, repeats=3), None, "corrected_t"),
        (RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), None, "corrected_t"),
        (ShuffleSplit(4, random_state=0), None, "corrected_t"),
        (FiveByTwo(), None, "corrected_t"),
        (LeaveOneOut(), None, "paired_t"),
        (LeaveOneOut(), "f1", "bootstrap"),
        (Bootstrap(10), None, "corrected_t"),
        (TimeFolds(4), None, "corrected_t"),
    ],
    ids=str,
)
def test_the_test_fits_the_scheme_and_says_why(cv, metric, test):
    found = compare(judged(cv, metric, names=("bayes", "nearest")), n_resamples=199)
    assert found.test == test
    assert found.why.endswith(".")
    assert found.why in " ".join(str(found).split())
    assert np.isfinite(found.differences).all()
    assert 0 < found.p_values[0] <= 1


def test_regression_on_one_test_set_compares_rows_or_draws_them_again():
    assert compare(lines(Holdout())).test == "paired_t"
    assert compare(lines(Holdout(), "r2"), n_resamples=199).test == "bootstrap"


# The figures are those of the tests themselves.


def test_corrected_t_from_folds():
    results = judged(Folds(5, repeats=4))
    found = compare(results)
    assert found.pairs == ((0, 1), (0, 2), (1, 2))
    for (a, b), p, test in zip(found.pairs, found.p_values, found.tests, strict=True):
        gaps = list(results.values())[a].fold_scores - list(results.values())[b].fold_scores
        alone = corrected_t_test(gaps, n_train=96, n_test=24)
        assert (p, test.statistic, test.df) == pytest.approx((alone.p_value, alone.statistic, 19))
    holm = compare(results, correction="holm")
    np.testing.assert_allclose(holm.adjusted, adjust_pvalues(found.p_values, "holm").adjusted)


def test_intervals_are_simultaneous_when_corrected():
    results = judged(10)
    found, plain = compare(results, level=0.9), compare(results, level=0.9, correction=None)
    strict = compare(results, level=0.9, correction="bonferroni")
    for i, test in enumerate(found.tests):
        each = test.interval(1 - 0.1 / 3)
        assert (strict.lower[i], strict.upper[i]) == pytest.approx((each.lower, each.upper))
        alone = test.interval(0.9)
        assert (plain.lower[i], plain.upper[i]) == pytest.approx((alone.lower, alone.upper))
        assert each.lower < found.lower[i] < alone.lower  # between Bonferroni and a single pair
    assert "Single-step max-t over 3 pairs: intervals 90% together" in " ".join(str(found).split())
    assert "not corrected" in str(plain)
    np.testing.assert_array_equal(plain.adjusted, plain.p_values)
    assert (found.adjusted <= strict.adjusted + 1e-15).all()
    assert (found.adjusted >= found.p_values).all()


def test_mcnemar_from_one_test_set_either_direction():
    X, y = classes(200)
    first, second = (cross_validate(m, X, y, cv=Holdout(0.5)) for m in (GaussianNB(), KNeighborsClassifier(3)))
    test = first.splits[0][1]
    right = [one.fold_predictions["labels"][0] == y[test] for one in (first, second)]
    alone = mcnemar_test(*right)
    found = compare([first, second])
    assert (found.p_values[0], found.differences[0]) == pytest.approx((alone.p_value, alone.estimate))
    corrected = compare([first, second], test="mcnemar_corrected")
    assert corrected.p_values[0] == pytest.approx(mcnemar_test(*right, exact=False).p_value)
    hits = [
        replace(one, metric=cross_validate(GaussianNB(), X, y, cv=2, metric="accuracy").metric)
        for one in (first, second)
    ]
    hits = [replace(h, fold_losses=tuple(1 - p for p in h.fold_losses), fold_scores=1 - h.fold_scores) for h in hits]
    turned = compare(hits)
    assert turned.p_values[0] == pytest.approx(alone.p_value)
    assert turned.differences[0] == pytest.approx(-alone.estimate)
    assert turned.verdicts == found.verdicts


def test_paired_t_and_textbook_t_and_five_by_two():
    one, other = lines(Holdout())
    rows = compare([one, other])
    alone = t_test(one.fold_losses[0], other.fold_losses[0], paired=True)
    assert rows.p_values[0] == pytest.approx(alone.p_value)
    one, other = lines(10)
    found = compare([one, other], test="cv_t")
    assert found.p_values[0] == pytest.approx(cv_t_test(one.fold_scores - other.fold_scores).p_value)
    assert "liberal" in str(found).lower()
    one, other = lines(FiveByTwo())
    gaps = (one.fold_scores - other.fold_scores).reshape(5, 2)
    assert compare([one, other], test="5x2_F").p_values[0] == pytest.approx(five_by_two_test(gaps).p_value)
    t = compare([one, other], test="5x2_t", alternative="less")
    assert t.p_values[0] == pytest.approx(five_by_two_test(gaps, statistic="t", alternative="less").p_value)


def test_bootstrap_is_repeatable_and_near_the_t_test_for_means():
    one, other = lines(Holdout(0.5))
    t, drawn = compare([one, other]), compare([one, other], test="bootstrap", n_resamples=1999)
    again = compare([one, other], test="bootstrap", n_resamples=1999)
    np.testing.assert_array_equal(drawn.lower, again.lower)
    assert drawn.differences == pytest.approx(t.differences)
    width = t.upper[0] - t.lower[0]
    assert abs(drawn.lower[0] - t.lower[0]) < 0.2 * width
    assert abs(drawn.upper[0] - t.upper[0]) < 0.2 * width


def test_weights_are_drawn_with_their_rows():
    X, y = classes()
    w = np.random.default_rng(0).random(y.size)
    learners = (GaussianNB(), DummyClassifier())
    found = compare([cross_validate(m, X, y, cv=Holdout(), sample_weight=w) for m in learners], n_resamples=199)
    assert found.test == "bootstrap"
    with pytest.raises(ParameterError, match="does not support sample_weight"):
        compare([cross_validate(m, X, y, cv=Holdout(), sample_weight=w) for m in learners], test="mcnemar")


def test_bootstrap_samples_count_their_distinct_rows():
    results = judged(Bootstrap(12), names=("bayes", "nearest"))
    one, other = results.values()
    n_train = np.mean([np.unique(train).size for train, _ in one.splits])
    n_test = np.mean([test.size for _, test in one.splits])
    alone = corrected_t_test(one.pseudo_values - other.pseudo_values, n_train=n_train, n_test=n_test)
    found = compare(results)
    assert found.differences[0] == pytest.approx(one.value - other.value)
    assert found.p_values[0] == pytest.approx(alone.p_value)
    assert any("distinct" in caveat for caveat in found.caveats)


# Verdicts.


def test_better_is_said_only_where_it_is_shown_and_in_the_right_direction():
    for metric, sign in (("error", -1), ("accuracy", 1)):
        found = compare(judged(10, metric))
        at = found.pairs.index((0, 2))
        assert np.sign(found.differences[at]) == sign
        assert found.verdicts[at] == "bayes better than constant"
        for verdict, p in zip(found.verdicts, found.adjusted, strict=True):
            assert (verdict == "no difference shown") == (p > 0.05)


@pytest.mark.parametrize("correction", ["max-t", "bonferroni", "sidak", "holm", "hochberg", "bh", "by", None])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_words_p_values_and_intervals_agree_under_every_correction(correction, alternative):
    """At many levels, so that each pair crosses from shown to not shown; a row of wrong pairs would show here."""
    cases = [judged(10, None), judged(Holdout(0.5), None), judged(Holdout(0.5), "auc"), judged(FiveByTwo(), None)]
    for results in cases:
        for level in (0.5, 0.8, 0.9, 0.95, 0.99):
            found = compare(results, correction=correction, alternative=alternative, level=level, n_resamples=299)
            excluded = (found.lower > 0) | (found.upper < 0)
            np.testing.assert_array_equal(excluded, found.adjusted < (1 - level) * (1 - 1e-9))
            words = [won is not None for won in found.winners]
            np.testing.assert_array_equal(words, excluded)


def test_the_same_learner_twice_is_no_different():
    X, y = classes()
    one = cross_validate(GaussianNB(), X, y)
    found = compare([one, cross_validate(GaussianNB(), X, y)])
    assert found.names == ("GaussianNB", "GaussianNB (2)")
    assert (found.p_values[0], found.differences[0], found.verdicts[0]) == (1.0, 0.0, "no difference shown")
    for cv in (Holdout(), FiveByTwo(), LeaveOneOut()):
        one = cross_validate(GaussianNB(), X, y, cv=cv)
        assert compare([one, one]).p_values[0] == 1.0


def test_leave_one_out_of_labels_says_what_it_does_to_majorities():
    X, y = classes()
    for cv, said in ((LeaveOneOut(), True), (Folds(5), False)):
        found = compare([cross_validate(model, X, y, cv=cv) for model in (GaussianNB(), DummyClassifier())])
        assert any("the majority of the other rows" in one for one in found.caveats) == said


def test_baseline_and_alternative():
    results = judged(10)
    found = compare(results, baseline="constant", alternative="less")
    assert found.pairs == ((0, 2), (1, 2))
    assert compare(results, baseline=2).pairs == found.pairs
    np.testing.assert_array_equal(found.lower, -1.0)  # error rates cannot differ by more
    both = compare(results, baseline="constant")
    np.testing.assert_allclose(2 * found.p_values, both.p_values)
    strict = compare(results, baseline="constant", correction="bonferroni")
    each = strict.tests[0].interval(1 - 0.05 / 2)  # two pairs, though there are three learners
    assert (strict.lower[0], strict.upper[0]) == pytest.approx((each.lower, each.upper))


# Bad input.


class Fixed(ClassifierMixin, BaseEstimator):
    """Says class `value` to a fixed share of rows by their number in column 0."""

    def __init__(self, wrong=0):
        self.wrong = wrong

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (X[:, 0] % 10 < self.wrong).astype(int)


def test_folds_without_spread_are_judged_by_their_rows():
    X = np.arange(100.0)[:, None]
    y = np.zeros(100, dtype=int)
    y[:2] = 1
    X[:2] = 1.0
    cv = [(np.setdiff1d(np.arange(100), test), test) for test in np.arange(10, 100).reshape(9, 10)]
    first, second = (cross_validate(Fixed(k), X, y, cv=cv, name=f"wrong {k}") for k in (1, 3))
    found = compare([first, second])
    assert "McNemar" in found.tests[0].method
    assert found.p_values[0] == pytest.approx(mcnemar_test(0, 18, n=90).p_value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda r: compare([r["bayes"]]), "1 result"),
        (lambda r: compare("no"), "not results"),
        (lambda r: compare([r["bayes"], 3]), "not results"),
        (lambda r: compare(r, test="wilcoxon"), "test = 'wilcoxon'"),
        (lambda r: compare(r, correction="tukey"), "correction"),
        (lambda r: compare(r, baseline="forest"), "baseline = 'forest'"),
        (lambda r: compare(r, baseline=7), "baseline = 7"),
        (lambda r: compare(r, level=95), "level"),
        (lambda r: compare(r, alternative="better"), "alternative"),
        (lambda r: compare(r, test="5x2_F"), "five halvings"),
        (lambda r: compare([r["bayes"], replace(r["nearest"], y=r["bayes"].y[::-1])]), "different targets"),
        (lambda r: compare([r["bayes"], judged(5)["bayes"]]), "different splits"),
        (lambda r: compare([r["bayes"], judged(KFold(10))["bayes"]]), "different splits"),
        (lambda r: compare([r["bayes"], judged(10, "accuracy")["bayes"]]), "judged by error and accuracy"),
        (lambda r: compare(judged(Holdout()), test="corrected_t"), "one test set"),
        (lambda r: compare(judged(10, "auc"), test="mcnemar"), "not a mean over rows"),
        (lambda r: compare(judged(10, "log_loss"), test="mcnemar"), "right or wrong"),
        (lambda r: compare(judged(Folds(5, repeats=2)), test="mcnemar"), "right or wrong|tested once"),
        (lambda r: compare(judged(Folds(5, repeats=2)), test="bootstrap"), "several times"),
        (lambda r: compare(judged(LeaveOneOut(), "f1"), test="cv_t"), "single row"),
    ],
)
def test_bad_input_gets_one_sentence(make, words):
    with pytest.raises((DataError, DataTypeError, ParameterError), match=words):
        make(judged(10))


# Results.


def test_prints_frames_pickles_and_draws():
    found = compare(judged(10), baseline=0)
    assert isinstance(found, Comparison)
    frame = found.to_frame()
    assert list(frame["first"]) == ["nearest", "constant"]
    text = str(found)
    for word in (
        "3 learners by error (smaller is better)",
        "10-fold",
        "Corrected resampled t-test",
        "Single-step max-t over 2 pairs",
    ):
        assert word in text
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.adjusted, found.adjusted)
    axes = found.plot()
    assert "first is better" in axes.get_xlabel()
    assert [t.get_text() for t in axes.get_yticklabels()] == list(found.labels)
    compare(judged(10), alternative="less").plot()
    mpl.pyplot.close("all")
    with pytest.raises(ValueError, match="read-only"):
        found.adjusted[0] = 0


def test_many_learners_print_in_bounds():
    X, y = classes()
    one = cross_validate(GaussianNB(), X, y)
    found = compare([one] * 12)
    assert "to_frame() has them all" in str(found)
    assert len(found.to_frame()) == 66
    found.plot()
    mpl.pyplot.close("all")


# Calibration: short versions of docs/simulations/comparison.md.


@pytest.fixture(scope="module")
def nulls():
    """P-values on 500 data sets of 300 rows where two nearest-centroid rules do equally well."""
    from simulations.comparison import null_p_values

    return null_p_values(2, 0.92, 500, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "test",
    [
        "corrected t, 10-fold",
        "corrected t, 10 x 10-fold",
        "corrected t, 30 random thirds",
        "corrected t, 50 bootstrap samples",
        "McNemar exact, one test set of 100",
        "McNemar corrected, one test set of 100",
        "McNemar mid-p, one test set of 100",
        "paired t over rows, one test set of 100",
        "5x2cv t",
        "5x2cv F",
    ],
)
def test_level_is_held_on_learners_really_fitted(nulls, test):
    """At most the level; false alarm below 1e-5 each."""
    for level in (0.05, 0.01):
        assert np.sum(nulls[test] <= level) <= stats.binom.isf(1e-5, 500, level)


@pytest.mark.slow
def test_tests_that_take_repeats_for_independent_are_as_liberal_as_said(nulls):
    """More than .45 at a nominal .05 where .56 to .61 were measured; false alarm below 1e-5."""
    for name in ("10 x 10-fold", "30 random thirds"):
        assert np.mean(nulls[f"t over folds, {name}"] <= 0.05) > 0.45


def test_labels_state_the_measured_rates():
    found = compare(judged(10, names=("bayes", "nearest")), test="cv_t")
    assert any("measured" in caveat for caveat in found.caveats)
    halved = compare(judged(FiveByTwo(), names=("bayes", "nearest")), test="5x2_F")
    assert any("measured" in caveat for caveat in halved.caveats)


def test_metrics_with_arrays_among_their_options_are_told_apart():
    from assay.metrics import risk

    even, uneven = risk.bind(cost=np.array([[0, 1], [1, 0]])), risk.bind(cost=np.array([[0, 2], [1, 0]]))
    one, other = judged(10, even), judged(10, uneven)
    assert compare(one).metric.name == "risk"
    with pytest.raises(DataError, match="other options"):
        compare([one["bayes"], other["bayes"]])


def test_one_held_out_set_in_groups_counts_groups():
    """Columns and target are noise of twelve groups: counted by rows, a difference was shown in most of such tables."""
    shown = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(12), 10)
        X = rng.normal(size=(12, 3))[groups] + 0.3 * rng.normal(size=(120, 3))
        y = rng.normal(size=12)[groups] + 0.5 * rng.normal(size=120)
        learners = {"line": LinearRegression(), "constant": DummyRegressor()}
        cv = Holdout(0.5, random_state=0)
        found = {k: cross_validate(one, X, y, cv=cv, groups=groups) for k, one in learners.items()}
        result = compare(found)
        shown += int(result.rejected[0])
    assert shown <= 2  # more has probability .02 at a rate of .05
    assert (result.test, result.tests[0].n) == ("groups_t", 6)
    a, b = (one.row_losses()[0].reshape(6, 10).mean(axis=1) for one in found.values())
    assert result.p_values[0] == pytest.approx(float(stats.ttest_rel(a, b).pvalue))
    interval = found["line"].interval()
    assert (interval.method, interval.n) == ("jackknife over groups", 6)
    with pytest.raises(ParameterError, match="needs one held-out set with groups"):
        compare(judged(5), test="groups_t")


def test_one_held_out_group_shows_nothing():
    X, y = classes()
    groups = np.repeat(["a", "b"], 60)
    models = [GaussianNB(), DummyClassifier()]
    found = [cross_validate(one, X, y, cv=Holdout(0.5, random_state=0), groups=groups) for one in models]
    assert compare(found).reasons[0] == "not testable: the held-out rows are of one group"
    assert (found[0].interval().lower, found[0].interval().upper) == (0.0, 1.0)
