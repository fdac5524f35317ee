"""McNemar's test, t-tests over folds and 5x2cv: agreement, intervals, degenerate folds, bad input, calibration."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from assay.errors import DataError, ParameterError
from assay.inference import corrected_t_test, cv_t_test, five_by_two_test, mcnemar_test, t_test
from tests.naive.inference import (
    corrected_t_by_definition,
    five_by_two_by_definition,
    mcnemar_by_enumeration,
    tango_statistic,
)

ALTERNATIVES = ("two-sided", "less", "greater")
COUNTS = [(0, 1), (3, 9), (9, 3), (25, 11), (0, 7), (120, 161), (1, 1), (40, 40)]
HALVINGS = [[0.03, 0.01], [0.02, 0.03], [0.04, 0.00], [0.01, 0.02], [0.03, 0.03]]


# McNemar.


@pytest.mark.parametrize(("b", "c"), COUNTS)
def test_mcnemar_agrees_with_statsmodels(b, c):
    table = [[50, b], [c, 30]]
    exact = mcnemar_test(b, c, n=80 + b + c)
    assert exact.p_value == pytest.approx(statsmodels_mcnemar(table, exact=True).pvalue, rel=1e-12)
    plain, theirs = mcnemar_test(b, c, exact=False, correction=False), statsmodels_mcnemar(table, False, False)
    assert (plain.statistic, plain.p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-12)
    corrected, theirs = mcnemar_test(b, c, exact=False), statsmodels_mcnemar(table, False, True)
    if b == c:  # statsmodels counts the correction against a difference of zero; R, and we, do not
        assert (corrected.statistic, corrected.p_value) == (0.0, 1.0)
    else:
        assert (corrected.statistic, corrected.p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-12)


@pytest.mark.parametrize(("b", "c"), COUNTS)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_mcnemar_exact_and_mid_p_by_enumeration(b, c, alternative):
    exact = mcnemar_by_enumeration(b, c, alternative)
    assert mcnemar_test(b, c, alternative=alternative).p_value == pytest.approx(exact, rel=1e-12)
    point = stats.binom.pmf(b, b + c, 0.5)
    mid = exact - (point if alternative == "two-sided" else point / 2)
    expected = 1.0 if alternative == "two-sided" and b == c else mid
    assert mcnemar_test(b, c, exact="mid-p", alternative=alternative).p_value == pytest.approx(expected, rel=1e-10)


def test_mcnemar_published():
    """Agresti (2013), table 11.1: 150 and 86 changed their minds, z = 4.17 without correction."""
    found = mcnemar_test(150, 86, n=1600, exact=False, correction=False)
    assert np.sqrt(found.statistic) == pytest.approx(4.17, abs=0.005)
    assert found.estimate == pytest.approx(0.04)


@pytest.mark.parametrize(("b", "c", "n"), [(25, 11, 300), (3, 9, 40), (1, 0, 40), (0, 5, 60), (60, 80, 200)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_tango_limits_are_where_the_score_test_turns(b, c, n, level):
    found = mcnemar_test(b, c, n=n).interval(level)
    z = stats.norm.ppf((1 + level) / 2)
    assert found.lower < (b - c) / n < found.upper
    assert tango_statistic(found.upper, b, c, n) == pytest.approx(-z, rel=1e-5)
    assert tango_statistic(-found.lower, c, b, n) == pytest.approx(-z, rel=1e-5)


def test_mcnemar_where_nobody_disagrees():
    for exact in (True, False, "mid-p"):
        found = mcnemar_test(0, 0, n=40, exact=exact)
        assert found.p_value == 1.0
        assert found.estimate == 0.0
    z2 = stats.norm.ppf(0.975) ** 2
    assert mcnemar_test(0, 0, n=40).interval().upper == pytest.approx(z2 / (40 + z2))
    assert mcnemar_test(40, 0, n=40).interval().upper == 1.0
    assert mcnemar_test(0, 40, n=40).interval().lower == -1.0
    with pytest.raises(DataError, match="pass n"):
        mcnemar_test(0, 0)


def test_mcnemar_takes_rows_or_counts():
    rng = np.random.default_rng(0)
    first, second = rng.random(200) < 0.8, rng.random(200) < 0.7
    by_rows = mcnemar_test(first, second)
    by_counts = mcnemar_test(int((~first & second).sum()), int((first & ~second).sum()), n=200)
    assert by_rows == by_counts
    assert by_rows.estimate == pytest.approx(second.mean() - first.mean())
    assert mcnemar_test(pd.Series(first), list(second.astype(int))) == by_rows
    share = mcnemar_test(9, 3)
    assert share.estimate == 0.75
    assert share.interval().method == "Clopper-Pearson"


def test_one_sided_intervals_of_mcnemar():
    less, greater = (mcnemar_test(9, 20, n=100, alternative=side) for side in ("less", "greater"))
    assert less.interval(0.975).lower == -1
    assert greater.interval(0.975).upper == 1
    both = mcnemar_test(9, 20, n=100).interval(0.95)
    assert (greater.interval(0.975).lower, less.interval(0.975).upper) == pytest.approx((both.lower, both.upper))


# Folds.


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_corrected_t_by_definition(alternative):
    rng = np.random.default_rng(1)
    d = rng.normal(0.02, 0.03, 50)
    found = corrected_t_test(d, n_train=270, n_test=30, alternative=alternative)
    t = corrected_t_by_definition(d.tolist(), 30 / 270)
    p = {"two-sided": 2 * stats.t.sf(abs(t), 49), "less": stats.t.cdf(t, 49), "greater": stats.t.sf(t, 49)}
    assert (found.statistic, found.df, found.p_value) == pytest.approx((t, 49, p[alternative]), rel=1e-10)


def test_interval_and_test_agree():
    d = np.random.default_rng(2).normal(0.02, 0.03, 10)
    for found in (corrected_t_test(d, n_train=9, n_test=1), cv_t_test(d), five_by_two_test(HALVINGS, statistic="t")):
        edge = found.interval(1 - found.p_value)
        assert min(abs(edge.lower), abs(edge.upper)) == pytest.approx(0.0, abs=1e-9)
    found = five_by_two_test(HALVINGS)
    edge = found.interval(1 - found.p_value)
    assert min(abs(edge.lower), abs(edge.upper)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_cv_t_is_the_paired_t_over_folds_and_says_it_is_liberal(alternative):
    a, b = np.random.default_rng(3).random((2, 10))
    found, plain = cv_t_test(a - b, alternative=alternative), t_test(a, b, paired=True, alternative=alternative)
    assert (found.statistic, found.p_value) == pytest.approx((plain.statistic, plain.p_value), rel=1e-12)
    assert "liberal" in found.method
    assert "share training rows" in found.liberal
    shifted = cv_t_test(a, popmean=0.4, alternative=alternative)
    assert shifted.p_value == pytest.approx(t_test(a, popmean=0.4, alternative=alternative).p_value)


def test_columns_are_separate_tests():
    d = np.random.default_rng(4).normal(size=(10, 3))
    found = corrected_t_test(pd.DataFrame(d, columns=["a", "b", "c"]), n_train=90, n_test=10)
    alone = [corrected_t_test(d[:, j], n_train=90, n_test=10).p_value for j in range(3)]
    np.testing.assert_allclose(found.p_value, alone)
    assert found.names == ("a", "b", "c")


def test_five_by_two_by_definition():
    d = np.random.default_rng(5).normal(0.01, 0.02, (5, 2))
    t, f = five_by_two_by_definition(d.tolist())
    found = five_by_two_test(d)
    assert (found.statistic, found.p_value) == pytest.approx((f, stats.f.sf(f, 10, 5)))
    assert found.estimate == pytest.approx(d.mean())
    for side in ALTERNATIVES:
        p = {"two-sided": 2 * stats.t.sf(abs(t), 5), "less": stats.t.cdf(t, 5), "greater": stats.t.sf(t, 5)}[side]
        found = five_by_two_test(d, statistic="t", alternative=side)
        assert (found.statistic, found.p_value, found.estimate) == pytest.approx((t, p, d[0, 0]))


def test_the_first_difference_alone_is_in_the_numerator_of_t():
    d = np.array(HALVINGS)
    other = d.copy()
    other[1:] += 0.5  # the spread within halvings stays
    assert five_by_two_test(d, statistic="t").statistic == pytest.approx(
        five_by_two_test(other, statistic="t").statistic
    )


def test_halvings_that_disagree_leave_no_interval_for_f():
    d = np.array([[0.5, 0.5001], [-0.5, -0.5001], [0.3, 0.3001], [-0.2, -0.2001], [0.1, 0.1001]])
    found = five_by_two_test(d).interval()
    assert np.isnan(found.lower)
    assert np.isnan(found.upper)
    print(five_by_two_test(d))


# Degenerate and bad input.


def test_folds_without_spread():
    same = [0.1, 0.3 - 0.2, 0.1, 0.4 - 0.3]  # equal but for rounding
    for test in (lambda d: corrected_t_test(d, n_train=9, n_test=1), cv_t_test):
        zero = test(np.zeros(10))
        assert (zero.p_value, zero.statistic, zero.interval().upper) == (1.0, 0.0, 0.0)
        with pytest.raises(DataError, match=r"every fold shows the same difference, 0.1.*row by row"):
            test(same)
        with pytest.raises(DataError, match="in column '1'"):
            test(np.column_stack([np.arange(4.0), same]))
    for kind in ("t", "F"):
        assert five_by_two_test(np.zeros((5, 2)), statistic=kind).p_value == 1.0
        with pytest.raises(DataError, match="within every halving"):
            five_by_two_test(np.full((5, 2), 0.1), statistic=kind)
    assert cv_t_test([0.2, 0.2, 0.2], popmean=0.2).p_value == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mcnemar_test(-1, 2), "b = -1"),
        (lambda: mcnemar_test(3, 2.5), "c = 2.5"),
        (lambda: mcnemar_test(30, 20, n=40), "less than b"),
        (lambda: mcnemar_test(3, 2, exact="no"), "exact = 'no'"),
        (lambda: mcnemar_test(3, 2, correction=1), "correction"),
        (lambda: mcnemar_test(3, 2, alternative="both"), "alternative"),
        (lambda: mcnemar_test([1, 0, 2], [1, 0, 1]), "contains 2 in row 2"),
        (lambda: mcnemar_test([1, 0], [1, 0, 1]), "same rows"),
        (lambda: mcnemar_test([1, 0], [1, 0], n=2), "leave n out"),
        (lambda: mcnemar_test([], []), "empty"),
        (lambda: mcnemar_test([True, None], [True, False]), "NaN in row 1"),
        (lambda: corrected_t_test([0.1], n_train=9, n_test=1), "a single fold"),
        (lambda: corrected_t_test([0.1, np.nan], n_train=9, n_test=1), "NaN in row 1"),
        (lambda: corrected_t_test([0.1, 0.2], n_train=0, n_test=1), "n_train"),
        (lambda: cv_t_test([]), "empty"),
        (lambda: five_by_two_test(np.zeros((2, 5))), "five rows of two"),
        (lambda: five_by_two_test(HALVINGS, statistic="z"), "statistic = 'z'"),
        (lambda: five_by_two_test(HALVINGS, alternative="less"), "two-sided"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises((DataError, ParameterError), match=words):
        call()


def test_results_print_travel_and_become_tables():
    for found in (
        mcnemar_test(25, 11, n=300),
        mcnemar_test(25, 11, exact=False),
        corrected_t_test([0.1, 0.2, 0.15], n_train=9, n_test=1),
        five_by_two_test(HALVINGS),
        five_by_two_test(HALVINGS, statistic="t"),
    ):
        assert found.method in str(found)
        assert len(found.to_frame()) == 1
        again = pickle.loads(pickle.dumps(found))
        assert again == found
        assert again.interval(0.9) == found.interval(0.9)


# Calibration.


def test_tango_covers_at_its_level():
    """2,000 tables, true difference .06: false alarm below 1e-6 for coverage between .925 and .975."""
    rng = np.random.default_rng(6)
    counts = rng.multinomial(150, [0.16, 0.10, 0.74], size=2000)
    inside = sum(0.06 in mcnemar_test(int(b), int(c), n=150).interval() for b, c, _ in counts)
    low, high = stats.binom.interval(1 - 1e-6, 2000, 0.95)
    assert low <= inside <= high


def test_mcnemar_holds_its_level():
    """The exact test never rejects too often; mid-p stays near the level. False alarm below 1e-6 each."""
    rng = np.random.default_rng(7)
    counts = [(int(b), int(c)) for b, c, _ in rng.multinomial(200, [0.1, 0.1, 0.8], size=3000)]
    bar = stats.binom.isf(1e-6, 3000, 0.05)
    for exact in (True, False, "mid-p"):
        assert sum(mcnemar_test(b, c, exact=exact).p_value <= 0.05 for b, c in counts) <= bar
