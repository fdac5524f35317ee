"""Order-statistic intervals: published ranks, scipy's test, exact coverage, weights and ends."""

import numpy as np
import pytest
from scipy import stats

import assay.metrics as am
from assay.errors import ParameterError
from assay.inference import quantile_interval
from assay.inference.quantiles import order_limits, quantile


def test_published_ranks_of_the_median():
    """Ranks and levels as textbooks' tables of the median's interval print them; n = 100: Gardner and Altman (1989),
    Statistics with Confidence, ch. 8."""
    printed = {9: (2, 8, 96.1), 10: (2, 9, 97.9), 12: (3, 10, 96.1), 15: (4, 12, 96.5), 17: (5, 13, 95.1)}
    printed |= {18: (5, 14, 96.9), 19: (5, 15, 98.1), 20: (6, 15, 95.9), 100: (40, 61, None)}
    for n, (low, high, level) in printed.items():
        assert order_limits(np.arange(1.0, n + 1), None, q=0.5, level=0.95) == (low, high)
        if level is not None:
            covered = stats.binom.cdf(high - 1, n, 0.5) - stats.binom.cdf(low - 1, n, 0.5)
            assert 100 * covered == pytest.approx(level, abs=0.06)


def test_the_example_of_ci_median_in_r():
    """`ci.median(.05, y)` of the R package statpsych prints 20.7, 10.8, 30.9 (its documentation's example)."""
    y = [30.2, 20.4, 15.1, 10.2, 10.5, 60.8, 20.8, 25.0, 20.7, 30.9, 10.8, 5.1, 50.9, 40.0, 20.9, 10.8, 0, 20.5, 50.8]
    found = quantile_interval(y)
    assert (found.estimate, found.lower, found.upper) == (20.7, 10.8, 30.9)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("n", [5, 36, 37, 200])
def test_limits_are_those_of_scipy(n, q):
    x = np.random.default_rng(n).lognormal(size=n)
    for level in (0.8, 0.95, 0.99):
        found = quantile_interval(x, q, level=level)
        theirs = stats.quantile_test(x, p=q).confidence_interval(level)
        expected = np.where(np.isnan(theirs), [-np.inf, np.inf], theirs)
        assert (found.lower, found.upper) == tuple(expected)


def test_estimate_is_the_averaged_inverse_of_the_distribution_function():
    rng = np.random.default_rng(0)
    x = np.sort(rng.integers(0, 9, 40).astype(float))
    times = rng.integers(1, 5, 40)
    for q in (0.1, 0.25, 0.5, 0.75, 0.9):
        assert quantile(x, None, q) == np.quantile(x, q, method="averaged_inverted_cdf")
        assert quantile(x, times.astype(float), q) == quantile(np.repeat(x, times), None, q)


def test_coverage_is_at_least_the_level_by_summing_over_all_counts():
    """Nothing is simulated: the limits are ranks, so coverage is a sum of binomial probabilities."""
    for n in (10, 30, 60, 250):
        for q in (0.5, 0.9):
            lower, upper = order_limits(np.arange(1.0, n + 1), None, q=q, level=0.95)
            count = np.arange(n + 1)
            inside = (count >= lower) & (count < upper)
            assert stats.binom.pmf(count, n, q)[inside].sum() >= 0.95


def test_a_limit_needs_rows():
    needed = int(np.ceil(np.log(0.025) / np.log(0.9)))
    assert needed == 36
    for n, finite in ((needed - 1, False), (needed, True)):
        assert np.isfinite(quantile_interval(np.arange(n), 0.9).upper) == finite
    assert quantile_interval([3.0]).lower == -np.inf
    with pytest.raises(ParameterError, match="q = 1"):
        quantile_interval([1.0, 2.0], 1)


def test_several_columns_have_names():
    found = quantile_interval(np.column_stack([np.arange(20.0), -np.arange(20.0)]), 0.5)
    np.testing.assert_array_equal(found.lower, [5.0, -14.0])
    np.testing.assert_array_equal(found.upper, [14.0, -5.0])


def test_metrics_of_absolute_errors():
    rng = np.random.default_rng(1)
    y, f = rng.normal(size=(2, 150))
    errors = np.abs(y - f)
    for metric, q in ((am.median_absolute_error, 0.5), (am.quantile_absolute_error, 0.9), (am.p90_absolute_error, 0.9)):
        found, plain = metric.interval(y, f), quantile_interval(errors, q)
        assert (found.estimate, found.lower, found.upper) == (plain.estimate, plain.lower, plain.upper)
        assert found.estimand == metric.name
        assert metric(y, f, sample_weight=np.full(150, 2.0)) == metric(y, f) == found.estimate
    assert am.quantile_absolute_error(y, f, q=0.5) == am.median_absolute_error(y, f) == np.median(errors)
    few = am.p90_absolute_error.interval(y[:20], f[:20])
    assert np.isinf(few.upper)
    assert few.lower > 0
    assert am.median_absolute_error.interval(y[:4], f[:4]).lower == 0


def test_unequal_weights_count_by_their_effective_number():
    rng = np.random.default_rng(2)
    x, w = np.sort(rng.exponential(size=400)), rng.uniform(0.2, 2.0, 400)
    inside = 0
    for _ in range(400):
        x, w = np.sort(rng.exponential(size=100)), rng.uniform(0.1, 2.0, 100)
        lower, upper = order_limits(x, w, q=0.9, level=0.95)
        inside += lower <= -np.log(0.1) <= upper
    # An approximation; below .92 in truth would be found, a true .94 is blamed less often than once in 10,000.
    assert inside >= stats.binom.ppf(1e-4, 400, 0.94)
