"""One learner against a stated error: exact binomial, textbook and corrected t over folds, both directions, words."""

import pickle

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.naive_bayes import GaussianNB

from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation.assess import assess
from assay.evaluation.validate import cross_validate
from assay.inference import binomial_test, corrected_t_test
from assay.resampling import Folds, Holdout, LeaveOneOut

mpl.use("Agg")


def judged(cv, metric=None, n=150, **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.6 * rng.normal(size=n) > 0, "yes", "no")
    return cross_validate(GaussianNB(), X, y, cv=cv, metric=metric, **options)


@pytest.mark.parametrize("alternative", ["less", "greater", "two-sided"])
def test_one_test_set_counts_errors_exactly(alternative):
    result = judged(Holdout(0.4))
    errors, n = int(result.fold_losses[0].sum()), result.fold_losses[0].size
    found = assess(result, 0.3, alternative=alternative)
    peer = stats.binomtest(errors, n, 0.3, alternative=alternative)
    assert found.p_value == pytest.approx(peer.pvalue)
    assert found.test.method == "Exact binomial test"
    limits = peer.proportion_ci(0.95, "exact")
    shown = found.interval()
    assert (shown.lower, shown.upper) == pytest.approx((limits.low, limits.high))


def test_reject_when_so_few_errors_are_unlikely():
    """P(X <= e | p0) <= alpha, the tail from zero: the smallest such p0 is the upper limit itself."""
    result = judged(Holdout(0.4))
    edge = assess(result, 0.3).interval().upper
    assert assess(result, edge + 1e-6).rejected
    assert not assess(result, edge - 1e-6).rejected
    errors, n = int(result.fold_losses[0].sum()), result.fold_losses[0].size
    assert binomial_test(errors, n, edge, alternative="less").p_value == pytest.approx(0.05)


@pytest.mark.parametrize("alternative", ["less", "greater", "two-sided"])
def test_folds(alternative):
    result = judged(10)
    default, plain = (assess(result, 0.3, test=test, alternative=alternative) for test in ("auto", "t"))
    peer = stats.ttest_1samp(result.fold_scores, 0.3, alternative=alternative)
    assert (plain.test.statistic, plain.p_value) == pytest.approx((peer.statistic, peer.pvalue))
    assert "liberal" in plain.test.method
    assert "measured" in plain.caveats[0]
    sizes = {"n_train": 135, "n_test": 15}
    alone = corrected_t_test(result.fold_scores, **sizes, popmean=0.3, alternative=alternative)
    assert default.p_value == pytest.approx(alone.p_value)
    assert default.caveats == ()


def test_repeats_and_leave_one_out_and_pooled_counts():
    assert assess(judged(Folds(5, repeats=3)), 0.3).test.df == 14
    alone = judged(LeaveOneOut())
    assert assess(alone, 0.5).rejected
    pooled = assess(judged(10), 0.3, test="binomial")
    assert pooled.test.n == 150
    assert pooled.caveats


def test_accuracy_is_judged_by_its_complement():
    for cv in (Holdout(0.4), 10):
        error, accuracy = assess(judged(cv), 0.3), assess(judged(cv, "accuracy"), 0.3)
        assert accuracy.estimand == "error"
        assert (accuracy.p_value, accuracy.estimate) == pytest.approx((error.p_value, error.estimate))


def test_losses_that_are_no_counts():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(90, 2)), rng.normal(size=90)
    rows = cross_validate(DummyRegressor(), X, y, cv=Holdout(0.5))
    found = assess(rows, 1.5)
    assert found.p_value == pytest.approx(stats.ttest_1samp(rows.fold_losses[0], 1.5, alternative="less").pvalue)
    assert found.interval().lower == 0.0  # a squared error is never negative
    assert assess(cross_validate(DummyRegressor(), X, y), 1.5).test.method == "Corrected resampled t-test"


def test_folds_that_all_say_the_same():
    X = np.zeros((100, 1))
    y = np.tile([0, 0, 0, 0, 1], 20)
    result = cross_validate(DummyClassifier(), X, y, cv=10)
    with pytest.raises(DataError, match=r"every fold shows the same value, 0.2"):
        assess(result, 0.5)
    assert assess(result, 0.2, alternative="two-sided").p_value == 1.0
    assert assess(result, 0.2).p_value == 0.5  # the statistic is 0, which favours neither side


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: assess(3, 0.1), "not a result"),
        (lambda: assess(judged(5), 1.2), "p0 = 1.2"),
        (lambda: assess(judged(5), 0.2, test="z"), "test = 'z'"),
        (lambda: assess(judged(5), 0.2, alternative="below"), "alternative"),
        (lambda: assess(judged(5), 0.2, level=2), "level"),
        (lambda: assess(judged(Holdout()), 0.2, test="corrected_t"), "one test set"),
        (lambda: assess(judged(5, "auc"), 0.2), "auc is not an error"),
        (lambda: assess(judged(5, "log_loss"), 0.2, test="binomial"), "counts errors"),
        (lambda: assess(judged(Folds(5, repeats=2)), 0.2, test="binomial"), "tested once"),
        (lambda: assess(judged(Holdout(), sample_weight=np.ones(150)), 0.2), "weights"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises((DataError, DataTypeError, ParameterError), match=words):
        call()


def test_prints_frames_pickles_and_draws():
    found = assess(judged(10), 0.4)
    text = str(found)
    for word in ("GaussianNB against a stated error of 0.4", "alternative: less", "error below 0.4 is shown"):
        assert word in text
    assert found.to_frame().loc["GaussianNB", "p0"] == 0.4
    assert pickle.loads(pickle.dumps(found)).p_value == found.p_value
    assert "error" in found.plot().get_xlabel()
    mpl.pyplot.close("all")
