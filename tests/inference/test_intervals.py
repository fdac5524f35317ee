"""Intervals of a mean, a proportion and a variance: agreement, exact coverage, ends, bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from assay.errors import DataError, ParameterError
from assay.inference import mean_interval, proportion_interval, t_test, variance_interval, z_test
from assay.results import Interval

METHODS = ("exact", "wilson", "agresti_coull", "wald", "hoeffding")
ALTERNATIVES = ("two-sided", "less", "greater")


def coverage(method, n, p, level=0.95, alternative="two-sided"):
    """The exact probability that the interval holds p: a sum over every possible count."""
    k = np.arange(n + 1)
    interval = proportion_interval(k, n, level=level, method=method, alternative=alternative)
    inside = (interval.lower <= p) & (p <= interval.upper)
    return stats.binom.pmf(k, n, p)[inside].sum()


def test_exact_coverage_at_thirty():
    assert coverage("wald", 30, 0.9) == pytest.approx(0.81, abs=0.005)
    assert coverage("wilson", 30, 0.9) == pytest.approx(0.97, abs=0.005)
    assert coverage("exact", 30, 0.9) == pytest.approx(0.99, abs=0.005)


@pytest.mark.parametrize("method", ["exact", "hoeffding"])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_guaranteed_methods_never_cover_less(method, alternative):
    for n in (1, 2, 7, 30):
        for p in np.linspace(0.001, 0.999, 97):
            assert coverage(method, n, p, 0.9, alternative) >= 0.9 - 1e-12


@pytest.mark.parametrize("method", ["exact", "wilson", "agresti_coull", "wald"])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_proportion_agrees_with_statsmodels(method, alternative):
    name = {"exact": "beta", "wald": "normal"}.get(method, method)
    # There "larger" names the interval's open side, not the alternative.
    word = {"two-sided": "two-sided", "less": "larger", "greater": "smaller"}[alternative]
    for n in (1, 5, 30, 1000):
        k = np.unique(np.linspace(0, n, 12).astype(int))
        ours = proportion_interval(k, n, level=0.9, method=method, alternative=alternative)
        low, high = proportion_confint(k, n, alpha=0.1, method=name, alternative=word)
        np.testing.assert_allclose(ours.lower, np.broadcast_to(low, k.shape), rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(ours.upper, np.broadcast_to(high, k.shape), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_exact_and_wilson_agree_with_scipy(alternative):
    for k in range(0, 21, 4):
        test = stats.binomtest(k, 20, alternative=alternative)
        for method in ("exact", "wilson"):
            theirs = test.proportion_ci(0.95, method=method)
            ours = proportion_interval(k, 20, method=method, alternative=alternative)
            np.testing.assert_allclose([ours.lower, ours.upper], [theirs.low, theirs.high], rtol=1e-10, atol=1e-14)


def test_hoeffding_half_width_at_a_hundred():
    interval = proportion_interval(50, 100, method="hoeffding")
    assert interval.upper - 0.5 == pytest.approx(0.136, abs=5e-4)
    assert interval.upper - 0.5 == pytest.approx(np.sqrt(np.log(40) / 200), rel=1e-14)


@pytest.mark.parametrize("method", METHODS)
def test_ends_mirror_and_nesting(method):
    k = np.arange(41)
    wide, narrow = (proportion_interval(k, 40, level=level, method=method) for level in (0.99, 0.9))
    np.testing.assert_allclose(wide.lower, 1 - wide.upper[::-1], atol=1e-13)
    assert np.all((wide.lower <= narrow.lower) & (narrow.upper <= wide.upper))
    assert np.all((wide.lower >= 0) & (wide.upper <= 1))
    assert wide.lower[0] == 0
    assert wide.upper[40] == 1
    one_sided = proportion_interval(k, 40, method=method, alternative="less")
    assert np.all(one_sided.lower == 0)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_wilson_meets_both_ends_exactly(level):
    n = np.arange(1, 300)
    assert np.all(proportion_interval(n, n, level=level, method="wilson").upper == 1)
    assert np.all(proportion_interval(0 * n, n, level=level, method="wilson").lower == 0)


def test_huge_counts_keep_their_digits():
    interval = proportion_interval(10**9, 2 * 10**9)
    # Wald's length and the one count that exactness adds.
    length = 2 * stats.norm.isf(0.025) * 0.5 / np.sqrt(2e9) + 1 / 2e9
    assert interval.upper - interval.lower == pytest.approx(length, rel=1e-7)


def test_mean_interval_is_the_tests_interval():
    x = np.random.default_rng(0).normal(size=(9, 3))
    for alternative in ALTERNATIVES:
        ours = mean_interval(x, level=0.9, alternative=alternative)
        assert ours == t_test(x, alternative=alternative).interval(0.9)
        known = mean_interval(x, sigma=2.0, alternative=alternative)
        assert known == z_test(x, sigma=2.0, alternative=alternative).interval()
    low, high = stats.t.interval(0.9, 8, loc=x[:, 0].mean(), scale=stats.sem(x[:, 0]))
    one = mean_interval(x[:, 0], level=0.9)
    assert (one.lower, one.upper) == pytest.approx((low, high), rel=1e-12)
    assert mean_interval([3.0], sigma=1.0).upper == pytest.approx(3 + 1.959963984540054)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_variance_interval_by_definition(alternative):
    x = np.random.default_rng(1).normal(5, 3, 12)
    s2 = x.var(ddof=1)
    interval = variance_interval(x, level=0.9, alternative=alternative)
    low, high = {"two-sided": (0.95, 0.05), "less": (None, 0.1), "greater": (0.9, None)}[alternative]
    expected = (
        0.0 if low is None else 11 * s2 / stats.chi2.ppf(low, 11),
        np.inf if high is None else 11 * s2 / stats.chi2.ppf(high, 11),
    )
    assert (interval.lower, interval.upper) == pytest.approx(expected, rel=1e-10)
    assert interval.estimate == pytest.approx(s2, rel=1e-14)


def test_variance_interval_covers_at_its_level():
    """10,000 normal samples of 5; false alarm 1e-6."""
    interval = variance_interval(np.random.default_rng(2).normal(0, 2, (5, 10_000)))
    inside = np.sum((interval.lower <= 4) & (interval.upper >= 4))
    low, high = stats.binom.interval(1 - 1e-6, 10_000, 0.95)
    assert low <= inside <= high


def test_scales_and_constants():
    constant = variance_interval([2.0, 2.0, 2.0])
    assert (constant.estimate, constant.lower, constant.upper) == (0.0, 0.0, 0.0)
    assert mean_interval([1e150, 3e150]).estimate == pytest.approx(2e150)
    assert mean_interval([1e-150, 3e-150]).lower < 0
    for scale in (1e200, 1e-200):
        with pytest.raises(DataError, match="floating point"):
            variance_interval(np.array([1.0, 2.0]) * scale)


def test_bad_input():
    for call in (lambda: mean_interval([1.0]), lambda: variance_interval([1.0]), lambda: proportion_interval(3, 2)):
        with pytest.raises(DataError):
            call()
    with pytest.raises(ParameterError, match="choose one of"):
        proportion_interval(1, 2, method="normal")
    for level in (0, 1, -1, 95, np.nan, "0.9", None, True):
        for call in (
            lambda level=level: proportion_interval(1, 2, level=level),
            lambda level=level: mean_interval([1, 2], level=level),
            lambda level=level: variance_interval([1, 2], level=level),
        ):
            with pytest.raises(ParameterError, match="level"):
                call()


def test_results_print_pickle_and_contain():
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [2.0, 2.5, 3.5]})
    interval = mean_interval(frame, alternative="less")
    assert "(-inf" in str(interval)
    assert list(interval.to_frame().index) == ["a", "b"]
    assert pickle.loads(pickle.dumps(interval)) == interval
    assert 0.0 in interval
    assert 100.0 not in interval
    assert str(mean_interval([1, 2, 3])).startswith("mean 2.0 [")
    named = proportion_interval(pd.Series([1, 2], index=["x", "y"]), [4, 5])
    assert named.names == ("x", "y")
    assert "n = 4 to 5" in str(named)
    assert Interval(1.0, 0.0, 2.0, 0.9, "t", 3, "mean") == Interval(1.0, 0.0, 2.0, 0.9, "t", 3, "mean")
    assert len({Interval(1.0, 0.0, 2.0, 0.9, "t", 3, "mean"), Interval(1.0, 0.0, 2.0, 0.9, "t", 3, "mean")}) == 1
