"""Permutation tests: every arrangement against definitions and scipy, random ones against exact, bad input."""

import pickle
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from assay.errors import DataError, ParameterError
from assay.inference import permutation, permutation_test
from assay.results import TestResult
from tests.naive.inference import permutation_p_by_definition

ALTERNATIVES = ("two-sided", "less", "greater")
RULES = {
    "mean": lambda x, y: np.mean(x) - np.mean(y),
    "median": lambda x, y: np.median(x) - np.median(y),
    "correlation": lambda x, y: np.corrcoef(x, y)[0, 1],
}
PAIRED = {"mean": lambda x, y: np.mean(x - y), "median": lambda x, y: np.median(x - y)}


def samples(n1=5, n2=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.8, 1, n1).round(1), rng.normal(0, 1, n2).round(1)


def expected(less, greater, alternative):
    return {"less": less, "greater": greater, "two-sided": min(1.0, 2 * min(less, greater))}[alternative]


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("seed", range(3))
def test_every_arrangement(alternative, seed):
    """Rounded values make ties; they count as equal."""
    x, y = samples(seed=seed)
    for name in ("mean", "median"):
        less, greater = permutation_p_by_definition(x, y, RULES[name], "groups")
        for statistic in (name, RULES[name]):
            result = permutation_test(x, y, statistic=statistic, alternative=alternative)
            assert result.exact
            assert result.p_value == pytest.approx(expected(less, greater, alternative), abs=1e-14)
            assert result.n_resamples == 462
        less, greater = permutation_p_by_definition(x, y[:5], PAIRED[name], "signs")
        for statistic in (name, PAIRED[name]):
            result = permutation_test(x, y[:5], statistic=statistic, paired=True, alternative=alternative)
            assert result.p_value == pytest.approx(expected(less, greater, alternative), abs=1e-14)
        alone = permutation_test(x - y[:5], statistic=name, alternative=alternative)
        assert alone.p_value == result.p_value
    less, greater = permutation_p_by_definition(x, y[:5], RULES["correlation"], "pairings")
    for statistic in ("correlation", RULES["correlation"]):
        result = permutation_test(x, y[:5], statistic=statistic, permute="pairings", alternative=alternative)
        assert result.p_value == pytest.approx(expected(less, greater, alternative), abs=1e-14)


def test_two_sided_conventions_are_those_of_r():
    """Exact numbers of R's coin ("deviation") and of twice the smaller tail: tests/reference/make.R."""
    table = pd.read_csv(Path(__file__).parents[1] / "reference" / "r.csv")
    r = table[table["case"] == "permutation"].set_index("figure")["value"]
    x, y = [1.2, 3.4, 9.8, 2.2], [0.3, 0.9, 1.4, 0.2, 1.1, 0.8, 2.9]
    result = permutation_test(x, y)
    assert result.two_sided == "doubled"
    assert dict(result.p_values) == pytest.approx(r.to_dict(), abs=1e-14)
    assert result.p_value == result.p_values["doubled"] != result.p_values["deviation"]
    other = permutation_test(x, y, two_sided="deviation")
    assert other.p_value == other.p_interval.estimate == result.p_values["deviation"]
    assert "two-sided p-value, twice the smaller tail: 0.0485" in str(result)
    assert "two-sided p-value, as far from the centre of the null distribution: 0.0242" in str(result)
    assert permutation_test(x, y, alternative="greater").p_values == {}
    with pytest.raises(ParameterError, match="two_sided"):
        permutation_test(x, y, two_sided="both")


@pytest.mark.parametrize("seed", range(3))
def test_deviations_are_counted_from_the_centre_of_all_arrangements(seed):
    x, y = samples(4, 8, seed)
    for name, rule in RULES.items():
        if name == "correlation":
            continue
        pool, null = np.r_[x, y], []
        for rows in combinations(range(12), 4):
            null.append(rule(pool[list(rows)], np.delete(pool, rows)))
        away = np.abs(np.array(null) - np.mean(null))
        expected = np.mean(away >= abs(rule(x, y) - np.mean(null)) - 1e-12)
        for statistic in (name, rule):
            found = permutation_test(x, y, statistic=statistic, two_sided="deviation", n_resamples=1000)
            assert found.exact
            assert found.p_value == pytest.approx(expected, abs=1e-14)


def test_both_conventions_hold_their_level():
    """Skewed samples of 4 and 12 under the null, 2,000 tests of 99 draws each: P(p <= .1) is at most .1; a binomial
    count above its 1 - 1e-6 quantile is a false alarm of one in a million."""

    def largest(x, y, axis=-1):
        return x.max(axis) - y.max(axis)

    rng = np.random.default_rng(0)
    hits = dict.fromkeys(("doubled", "deviation"), 0)
    for run in range(2000):
        z = rng.exponential(size=16)
        found = permutation_test(z[:4], z[4:], statistic=largest, n_resamples=99, random_state=run)
        for name, p in found.p_values.items():
            hits[name] += p <= 0.1
    assert max(hits.values()) <= stats.binom.ppf(1 - 1e-6, 2000, 0.1)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_agrees_with_scipy(alternative):
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 1, 6), rng.normal(0, 1, 7)

    def difference(x, y, axis=-1):
        return x.mean(axis=axis) - y.mean(axis=axis)

    theirs = stats.permutation_test((x, y), difference, alternative=alternative, n_resamples=np.inf)
    ours = permutation_test(x, y, alternative=alternative)
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=1e-14)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-13)


@pytest.mark.parametrize("statistic", ["mean", "median"])
@pytest.mark.parametrize("kind", ["groups", "signs"])
@pytest.mark.parametrize("n1", [4, 7])
def test_random_arrangements_agree_with_all_of_them(statistic, kind, n1):
    """Drawn at random and gone through one by one: counts binomial, false alarm one in a million."""
    x, y = samples(n1, 6 if kind == "groups" else n1, seed=3)
    paired = kind == "signs"
    exact = permutation_test(x, y, statistic=statistic, paired=paired, alternative="greater")
    task = permutation._task(x, y, statistic, paired, None, None)
    from assay.numerics.seeds import seed_sequence

    null = task.draw(seed_sequence(0), 20_000, None)
    hits = int(np.sum(null >= exact.statistic - 1e-9))
    low, high = stats.binom.interval(1 - 1e-6, null.size, exact.p_value)
    assert low <= hits <= high
    assert set(null.round(9)) <= set(exact.null_distribution.round(9))


def test_random_pairings_agree_with_all_of_them():
    x, y = samples(6, 6, seed=1)
    exact = permutation_test(x, y, statistic="correlation", alternative="greater")
    from assay.numerics.seeds import seed_sequence

    null = permutation._task(x, y, "correlation", False, None, None).draw(seed_sequence(0), 20_000, None)
    low, high = stats.binom.interval(1 - 1e-6, null.size, exact.p_value)
    assert low <= int(np.sum(null >= exact.statistic - 1e-9)) <= high


def test_monte_carlo_p_value_and_its_interval():
    x, y = samples(40, 50)
    result = permutation_test(x, y, random_state=0, alternative="greater", n_resamples=999)
    hits = int(np.sum(result.null_distribution >= result.statistic - 1e-12))
    assert not result.exact
    assert result.p_value == (hits + 1) / 1000
    proportion = stats.binomtest(hits, 999).proportion_ci(0.95, "exact")
    assert (result.p_interval.lower, result.p_interval.upper) == pytest.approx((proportion.low, proportion.high))
    two = permutation_test(x, y, random_state=0, n_resamples=999)
    assert two.p_interval.upper == pytest.approx(min(1, 2 * proportion.high))
    assert permutation_test(x + 9, y, random_state=0).p_value == 2 / 10_000
    assert "95% interval" in str(result)


@pytest.mark.parametrize(
    ("statistic", "extra"),
    [("mean", {}), ("median", {}), ("mean", {"paired": True}), ("correlation", {}), (RULES["mean"], {})],
)
def test_threads_never_change_a_bit(statistic, extra):
    x, y = samples(60, 60)
    one = permutation_test(x, y, statistic=statistic, random_state=1, n_resamples=500, **extra)
    two = permutation_test(x, y, statistic=statistic, random_state=1, n_resamples=500, n_jobs=2, **extra)
    np.testing.assert_array_equal(one.null_distribution, two.null_distribution)


def test_error_rate_is_at_most_its_level():
    """500 true nulls at .05: at most 25 + 4.9 standard deviations, false alarm below one in a million."""
    rng = np.random.default_rng(0)
    p = np.array(
        [
            permutation_test(
                rng.exponential(size=15), rng.exponential(size=20), n_resamples=199, random_state=i
            ).p_value
            for i in range(500)
        ]
    )
    assert np.sum(p <= 0.05) <= 50
    assert 0.4 < p.mean() < 0.6


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_units_do_not_matter(scale):
    x, y = samples(30, 40)
    for extra in ({}, {"statistic": "median"}):
        a = permutation_test(x, y, random_state=0, n_resamples=300, **extra)
        b = permutation_test(x * scale, y * scale, random_state=0, n_resamples=300, **extra)
        assert a.p_value == b.p_value


def test_data_that_do_not_vary():
    assert permutation_test([1.0, 1.0], [1.0, 1.0, 1.0]).p_value == 1
    assert permutation_test([0.0, 0.0, 0.0]).p_value == 1
    assert permutation_test([1.0], [2.0]).p_value == 1
    assert permutation_test([3.0]).p_value == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: permutation_test([], [1.0]), DataError, "empty"),
        (lambda: permutation_test([1.0, np.nan], [1.0]), DataError, "NaN in row 1"),
        (lambda: permutation_test([1.0, 2.0], [1.0], paired=True), DataError, "one length"),
        (lambda: permutation_test([1.0, 2.0], [1.0], statistic="correlation"), DataError, "one length"),
        (lambda: permutation_test([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], statistic="correlation"), DataError, "constant"),
        (lambda: permutation_test([1.0, 2.0], statistic="correlation"), ParameterError, "pass y"),
        (lambda: permutation_test([1.0, 2.0], [1.0], statistic="mode"), ParameterError, "statistic"),
        (lambda: permutation_test([1.0, 2.0], [1.0], statistic=3), ParameterError, "statistic"),
        (lambda: permutation_test([1.0, 2.0], [1.0], permute="pairings"), ParameterError, "does not apply"),
        (lambda: permutation_test([1.0, 2.0], [1.0], alternative="up"), ParameterError, "alternative"),
        (lambda: permutation_test([1.0, 2.0], [1.0], n_resamples=0), ParameterError, "n_resamples"),
        (lambda: permutation_test([1.0, 2.0], [1.0], random_state="x"), ParameterError, "random_state"),
        (lambda: permutation_test([1.0, 2.0], [1.0], statistic=lambda x, y: x), ParameterError, "one number"),
        (lambda: permutation_test([1.0, 2.0], [1.0], statistic=lambda x, y: np.nan), DataError, "nan"),
        (lambda: permutation_test(np.ones((3, 2)), [1.0]), DataError, "2 columns"),
    ],
)
def test_bad_input_gets_one_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_the_result_is_a_test_result():
    x, y = samples()
    before = x.copy(), y.copy()
    result = permutation_test(x, y)
    assert isinstance(result, TestResult)
    assert "all 462 arrangements" in str(result)
    assert result.to_frame()["p_value"].item() == result.p_value
    assert pickle.loads(pickle.dumps(result)).p_value == result.p_value
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])
    with pytest.raises(AttributeError, match="bootstrap"):
        result.interval(0.95)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_the_largest_numbers_are_tested_where_the_statistic_is_finite(statistic):
    """As after division by 2^20; a statistic that overflows is refused in one sentence, without a warning of numpy."""
    for x, y, paired in [
        ([1e308, 1e308], [-1e307, 1.0], False),
        ([1.7e308] * 2, [1.7e308, -1e307, 1e307], False),
        ([1.7e308] * 3, None, False),
        ([1e308, -1e307, 1e308], [2e307, 1.0, -5.0], True),
    ]:
        small = None if y is None else np.divide(y, 2.0**20)
        for kind in ({}, {"n_resamples": 99, "random_state": 0}):
            large = permutation_test(x, y, paired=paired, statistic=statistic, **kind)
            usual = permutation_test(np.divide(x, 2.0**20), small, paired=paired, statistic=statistic, **kind)
            assert large.p_value == usual.p_value
            np.testing.assert_array_equal(large.null_distribution / 2.0**20, usual.null_distribution)
    for x, y, paired in [
        ([1.7e308] * 2, [-1.7e308, -1.7e308], False),
        ([1.7e308] * 20, [-1.7e308] * 20, False),
        ([1e308, 1e308], [-1e308, 1.0], True),
    ]:
        with pytest.raises(DataError, match="overflows floating point; rescale"):
            permutation_test(x, y, paired=paired, statistic=statistic)
