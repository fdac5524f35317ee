"""Tests of means and proportions: agreement, degenerate data, bad input, calibration."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW
from statsmodels.stats.weightstats import ztest as statsmodels_z

from assay.errors import DataError, DataTypeError, ParameterError
from assay.inference import binomial_test, t_test, z_test
from assay.results import TestResult
from tests.naive.inference import binomial_two_sided_by_definition

ALTERNATIVES = ("two-sided", "less", "greater")
TOL = 1e-10


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=TOL, atol=1e-300)


def samples(seed=0, columns=None):
    rng = np.random.default_rng(seed)
    shape = (lambda n: n) if columns is None else (lambda n: (n, columns))
    return rng.normal(1.0, 2.0, shape(17)), rng.normal(0.3, 1.0, shape(23))


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("kind", ["one", "pooled", "welch", "paired"])
@pytest.mark.parametrize("columns", [None, 4])
def test_t_agrees_with_scipy(alternative, kind, columns):
    x, y = samples(1, columns)
    if kind == "one":
        ours, theirs = (
            t_test(x, popmean=0.5, alternative=alternative),
            stats.ttest_1samp(x, 0.5, alternative=alternative),
        )
    elif kind == "paired":
        y = y[:17]
        ours = t_test(x, y, paired=True, alternative=alternative)
        theirs = stats.ttest_rel(x, y, alternative=alternative)
    else:
        pooled = kind == "pooled"
        ours = t_test(x, y, equal_var=pooled, alternative=alternative)
        theirs = stats.ttest_ind(x, y, equal_var=pooled, alternative=alternative)
    close(ours.statistic, theirs.statistic)
    close(ours.p_value, theirs.pvalue)
    close(ours.df, theirs.df)
    for level in (0.9, 0.95, 0.999):
        limits = theirs.confidence_interval(level)
        close(ours.interval(level).lower, limits.low)
        close(ours.interval(level).upper, limits.high)


def test_r_sleep_data():
    """Student's sleep data as R prints them: t.test(extra ~ group) and its paired form."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    welch = t_test(first, second)
    assert welch.statistic == pytest.approx(-1.8608, abs=5e-5)
    assert welch.df == pytest.approx(17.776, abs=5e-4)
    assert welch.p_value == pytest.approx(0.07939, abs=5e-6)
    assert welch.interval().lower == pytest.approx(-3.3654832, abs=5e-8)
    assert welch.interval().upper == pytest.approx(0.2054832, abs=5e-8)
    pairs = t_test(first, second, paired=True)
    assert pairs.statistic == pytest.approx(-4.0621, abs=5e-5)
    assert pairs.p_value == pytest.approx(0.002833, abs=5e-7)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_z_agrees_with_statsmodels(alternative):
    x, y = samples(2)
    word = {"two-sided": "two-sided", "less": "smaller", "greater": "larger"}[alternative]
    close((z := z_test(x, popmean=0.4, alternative=alternative)).statistic, statsmodels_z(x, value=0.4)[0])
    close(z.p_value, statsmodels_z(x, value=0.4, alternative=word)[1])
    low, high = DescrStatsW(x).zconfint_mean(0.05, alternative=word)
    close([z.interval().lower, z.interval().upper], [low, high])
    for equal_var, use in ((True, "pooled"), (False, "unequal")):
        z = z_test(x, y, equal_var=equal_var, alternative=alternative)
        means = CompareMeans(DescrStatsW(x), DescrStatsW(y))
        close((z.statistic, z.p_value), means.ztest_ind(alternative=word, usevar=use))
        close([z.interval(0.9).lower, z.interval(0.9).upper], means.zconfint_diff(0.1, alternative=word, usevar=use))


def test_z_with_known_sigma():
    assert z_test([2.33], sigma=1).p_value == pytest.approx(0.0198, abs=5e-5)
    assert z_test([2.33], sigma=1).p_value == pytest.approx(2 * stats.norm.sf(2.33), rel=1e-14)
    x, y = samples(3)
    z = z_test(x, y, sigma=(2.0, 1.0))
    close(z.statistic, (x.mean() - y.mean()) / np.sqrt(4 / 17 + 1 / 23))
    close(z_test(x, y, sigma=1.5).statistic, (x.mean() - y.mean()) / (1.5 * np.sqrt(1 / 17 + 1 / 23)))


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("p", [0.0, 1e-4, 0.1, 0.3, 0.5, 0.77, 1.0])
def test_binomial_agrees_with_scipy(alternative, p):
    for n in (1, 2, 10, 31):
        k = np.arange(n + 1)
        ours = binomial_test(k, n, p, alternative=alternative)
        theirs = [stats.binomtest(int(i), n, p, alternative=alternative) for i in k]
        np.testing.assert_allclose(ours.p_value, [r.pvalue for r in theirs], rtol=1e-10, atol=1e-300)
        limits = [r.proportion_ci(0.95) for r in theirs]
        np.testing.assert_allclose(ours.interval().lower, [c.low for c in limits], rtol=TOL, atol=1e-15)
        np.testing.assert_allclose(ours.interval().upper, [c.high for c in limits], rtol=TOL, atol=1e-15)


def test_binomial_agrees_with_exact_fractions():
    for n in (1, 5, 12, 30):
        for p in (0.5, 0.25, 0.125, 1e-12, 1e-20, 1 - 1e-12):
            ours = binomial_test(np.arange(n + 1), n, p).p_value
            close(ours, [binomial_two_sided_by_definition(k, n, p) for k in range(n + 1)])


def test_binomial_worked_example_and_large_counts():
    assert binomial_test(7, 10, alternative="greater").p_value == 176 / 1024
    assert binomial_test(7, 10).p_value == pytest.approx(352 / 1024, rel=1e-14)
    assert binomial_test(7, 10).effect_size == pytest.approx(2 * np.arcsin(np.sqrt(0.7)) - np.pi / 2)
    big = binomial_test(500_900, 1_000_000)
    assert big.p_value == pytest.approx(stats.binomtest(500_900, 1_000_000).pvalue, rel=1e-8)
    assert binomial_test(0, 5000, alternative="less").p_value == pytest.approx(0.5**5000, abs=1e-300)


def test_effect_sizes():
    x, y = samples(4)
    n1, n2 = x.size, y.size
    pooled = np.sqrt(((n1 - 1) * x.var(ddof=1) + (n2 - 1) * y.var(ddof=1)) / (n1 + n2 - 2))
    result = t_test(x, y, equal_var=True)
    close(result.effect_size, (x.mean() - y.mean()) / pooled)
    # Hedges' approximation 1 - 3 / (4 df - 1) is good to a few in ten thousand at df = 38.
    assert result.hedges_g / result.effect_size == pytest.approx(1 - 3 / (4 * 38 - 1), abs=1e-4)
    welch = t_test(x, y)
    close(welch.effect_size, (x.mean() - y.mean()) / np.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2))
    close(t_test(x, popmean=1).effect_size, (x.mean() - 1) / x.std(ddof=1))
    assert np.isnan(t_test([1.0, 2.0]).hedges_g)


def test_hedges_correction_removes_the_bias():
    """20,000 samples of 5 at d = 1: five standard errors, false alarm 6e-7."""
    x = np.random.default_rng(5).normal(1.0, 1.0, (5, 20_000))
    g = t_test(x).hedges_g
    assert abs(g.mean() - 1.0) < 5 * g.std() / np.sqrt(g.size)
    assert t_test(x).effect_size.mean() > 1.2


def test_scales_shifts_and_columns():
    x, y = samples(6, 3)
    base = t_test(x, y)
    for scale in (1e150, 1e-150, 1e300, 1e-300):
        scaled = t_test(x * scale, y * scale)
        close(scaled.p_value, base.p_value)
        close(scaled.effect_size, base.effect_size)
    one = t_test(x[:, 1], y[:, 1])
    assert isinstance(one.p_value, float)
    assert base.p_value[1] == one.p_value
    assert base.interval().lower[1] == one.interval().lower
    shifted = t_test(np.arange(10.0) + 1e12, popmean=1e12)
    close(shifted.statistic, t_test(np.arange(10.0)).statistic)
    broadcast = t_test(x, y[:, 0])
    close(broadcast.p_value[2], t_test(x[:, 2], y[:, 0]).p_value)
    per_column = t_test(x, popmean=[0.0, 1.0, 2.0])
    close(per_column.p_value[2], t_test(x[:, 2], popmean=2.0).p_value)


def test_data_without_spread_give_the_limit():
    same = t_test([0.1] * 10, popmean=0.1)
    assert (same.statistic, same.p_value, same.effect_size) == (0.0, 1.0, 0.0)
    away = t_test([0.1] * 10)
    assert (away.statistic, away.p_value) == (np.inf, 0.0)
    assert (away.interval().lower, away.interval().upper) == (0.1, 0.1)
    assert t_test([0.1] * 10, alternative="less").p_value == 1.0
    assert t_test([3, 3], [2, 2]).p_value == 0.0
    assert t_test([3, 3], [3, 3, 3]).p_value == 1.0
    assert t_test([1, 2, 3], [3, 4, 5], paired=True).statistic == -np.inf
    assert "do not vary" in away.assumptions[-1]
    assert "column 'b'" in t_test(pd.DataFrame({"a": [1.0, 2], "b": [1.0, 1]})).assumptions[-1]
    assert t_test([1.0], [2.0, 4.0], equal_var=True).df == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: t_test([]), "x is empty"),
        (lambda: t_test([1.0]), "a single value has no spread"),
        (lambda: t_test([1.0], [1.0, 2.0]), "x has a single value"),
        (lambda: t_test([1.0, np.nan]), "NaN in row 1"),
        (lambda: t_test([1.0, np.inf, 2.0]), "infinity in row 1"),
        (lambda: t_test(pd.DataFrame({"age": [1.0, 2.0, None]})), "column 'age' of x contains NaN in row 2"),
        (lambda: t_test([1.0, 2.0], 5), "popmean"),
        (lambda: t_test([1.0, 2.0], [1.0, 2.0, 3.0], paired=True), "2 rows but y has 3"),
        (lambda: t_test(np.ones((3, 2)), np.ones((3, 4))), "2 columns but y has 4"),
        (lambda: t_test(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]})), "column 0 is 'a' in x but 'b' in y"),
        (lambda: t_test([[1.0, 2.0], [3.0]]), "different lengths"),
        (lambda: t_test(np.ones((2, 2, 2))), "3 dimensions"),
        (lambda: t_test(3.0), "a single number"),
        (lambda: binomial_test(5, 3), "k = 5 successes in n = 3"),
        (lambda: binomial_test(-1, 3), "impossible"),
        (lambda: binomial_test(1.5, 3), "impossible"),
        (lambda: binomial_test(0, 0), "n >= 1"),
        (lambda: binomial_test([1, 2], [3, 4, 5]), "2 entries but n has 3"),
        (lambda: binomial_test([1, np.nan], 3), "position 1"),
        (lambda: t_test(np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])), "NaN in row 1"),
        (lambda: t_test(np.array([1.7e308, 1.6e308]), np.array([-1.7e308, 1.0]), paired=True), "floating point"),
    ],
)
def test_bad_data_gets_one_sentence(call, words):
    with pytest.raises(DataError, match=words):
        call()


@pytest.mark.parametrize("bad", [["a", "b"], np.array([1 + 2j, 3]), pd.Series(pd.to_datetime(["2020", "2021"]))])
def test_what_is_not_a_number_is_refused(bad):
    with pytest.raises(DataTypeError, match="x"):
        t_test(bad)


@pytest.mark.parametrize(
    "call",
    [
        lambda: t_test([1, 2], alternative="larger"),
        lambda: t_test([1, 2], popmean=np.nan),
        lambda: t_test([1, 2], popmean=[1, 2, 3]),
        lambda: t_test([1, 2], [3, 4], paired="yes"),
        lambda: t_test([1, 2], paired=True),
        lambda: t_test([1, 2], [3, 4], paired=True, equal_var=True),
        lambda: z_test([1, 2], sigma=0.0),
        lambda: z_test([1, 2], sigma=-1.0),
        lambda: binomial_test(1, 2, p=1.5),
        lambda: binomial_test(1, 2, p=np.nan),
        lambda: t_test([1, 2]).interval(0.0),
        lambda: t_test([1, 2]).interval(95),
    ],
)
def test_bad_parameters(call):
    with pytest.raises(ParameterError):
        call()


def test_input_of_any_kind_and_never_changed():
    x, _ = samples(7, 2)
    expected = t_test(x).p_value
    locked = x.copy()
    locked.flags.writeable = False
    forms = [locked, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x.astype(object), pd.DataFrame(x), x.tolist()]
    for form in forms:
        np.testing.assert_array_equal(t_test(form).p_value, expected)
    np.testing.assert_allclose(t_test(x.astype(np.float32)).p_value, expected, rtol=1e-4)
    assert t_test(np.array([True, False, True])).estimate == pytest.approx(2 / 3)
    np.testing.assert_array_equal(x, samples(7, 2)[0])
    assert t_test(pd.Series([1, 2, 4], dtype="Int64")).estimate == pytest.approx(7 / 3)


def test_result_is_frozen_pickles_prints_and_tabulates():
    frame = pd.DataFrame({"größe": [1.0, 2.0, 4.0], "b": [2.0, 2.5, 3.5]})
    for result in (t_test(frame), t_test(frame["b"]), z_test(frame, sigma=1), binomial_test([1, 2], [5, 6])):
        copy = pickle.loads(pickle.dumps(result))
        assert copy == result
        np.testing.assert_array_equal(copy.interval(0.9).upper, result.interval(0.9).upper)
        with pytest.raises(AttributeError):
            result.p_value = 0.0
        assert result.method in str(result)
        assert "Assumes" in str(result)
        assert len(result.to_frame()) == (len(result.names) or 1)
        assert "<table" in result._repr_html_()
    table = t_test(frame).to_frame()
    assert list(table.index) == ["größe", "b"]
    with pytest.raises(ValueError, match="read-only"):
        t_test(frame).p_value[0] = 0.0
    assert "n = 3 + 2" in str(t_test([1, 2, 3], [1.0, 5.0]))


def test_f_test_form_still_works():
    result = TestResult(12.5, 0.0004, (1.0, 30.0), "F test")
    assert str(result) == "F test: statistic 12.5 (df 1, 30), p = 0.0004"
    assert list(result.to_frame().columns) == ["statistic", "df", "p_value"]
    assert result == TestResult(statistic=12.5, p_value=0.0004, df=(1.0, 30.0), method="F test")
    with pytest.raises(AttributeError, match="no interval"):
        result.interval()


def within(count, runs, rate, false_alarm=1e-6):
    """Whether a count is binomially consistent with a rate; a true rate fails once in a million."""
    low, high = stats.binom.interval(1 - false_alarm, runs, rate)
    return low <= count <= high


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("kind", ["one", "pooled", "paired", "sigma"])
def test_type_one_error_and_coverage(alternative, kind):
    """10,000 nulls each; false alarm 1e-6 per comparison."""
    runs = 10_000
    rng = np.random.default_rng(8)
    x, y = rng.normal(3, 2, (6, runs)), rng.normal(3, 2, (6, runs))
    result = {
        "one": lambda: t_test(x, popmean=3, alternative=alternative),
        "pooled": lambda: t_test(x, y, equal_var=True, alternative=alternative),
        "paired": lambda: t_test(x, y, paired=True, alternative=alternative),
        "sigma": lambda: z_test(x, popmean=3, sigma=2, alternative=alternative),
    }[kind]()
    truth = 3 if kind in ("one", "sigma") else 0
    for alpha in (0.05, 0.01):
        assert within(np.sum(result.p_value <= alpha), runs, alpha)
        interval = result.interval(1 - alpha)
        assert within(np.sum((interval.lower <= truth) & (truth <= interval.upper)), runs, 1 - alpha)
