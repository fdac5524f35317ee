"""Power and sample size: agreement with statsmodels, published tables, exact sums, simulation."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import NormalIndPower, TTestIndPower, TTestPower

from assay.errors import ParameterError
from assay.inference import binomial_test, cohens_h, power, sample_size, t_test
from tests.naive.inference import binomial_power_by_definition

WORDS = {"two-sided": "two-sided", "less": "smaller", "greater": "larger"}


def same(ours, peer):
    """Equal, or the peer's noncentral t gave up (NaN), where the integral below speaks instead."""
    return np.isnan(peer) or ours == pytest.approx(peer, rel=1e-10, abs=1e-12)


def noncentral_tail(t, df, delta):
    """P(T > t) = E Phi(delta - t S), S = sqrt(chi^2 / df), by quadrature."""
    centre = stats.chi(df, scale=df**-0.5)
    low, high = centre.ppf(1e-17), centre.isf(1e-17)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(low, high, 101)
    half = (edges[1] - edges[0]) / 2
    s = edges[:-1, None] + half * (1 + nodes)
    return float(np.sum(half * weights * centre.pdf(s) * stats.norm.cdf(delta - t * s)))


def test_noncentral_t_by_quadrature():
    for d, n, alpha in ((0.5, 100, 0.05), (1.5, 1000, 0.001), (-0.7, 20, 0.05), (2.0, 3, 0.01), (0.2, 5000, 0.05)):
        t, delta = stats.t.isf(alpha / 2, n - 1), d * np.sqrt(n)
        expected = noncentral_tail(t, n - 1, delta) + noncentral_tail(t, n - 1, -delta)
        assert power("one-sample t", effect_size=d, n=n, alpha=alpha) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("alternative", list(WORDS))
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_agrees_with_statsmodels(alternative, alpha):
    word = WORDS[alternative]
    for d in (-0.7, -0.1, 0.0, 0.2, 0.5, 1.5):
        for n in (2, 5, 20, 100, 1000):
            common = {"effect_size": d, "alpha": alpha, "alternative": alternative}
            for name in ("one-sample t", "paired t"):
                expected = TTestPower().power(d, n, alpha, alternative=word)
                assert same(power(name, n=n, **common), expected)
            expected = NormalIndPower(ddof=0).power(d, n, alpha, ratio=0, alternative=word)
            assert power("one-sample z", n=n, **common) == pytest.approx(expected, rel=1e-10, abs=1e-14)
            for ratio in (1, 2, 0.5):
                if (ratio * n) % 1:
                    continue
                expected = TTestIndPower().power(d, n, alpha, ratio=ratio, alternative=word)
                ours = power("two-sample t", n=n, ratio=ratio, **common)
                assert same(ours, expected)
                expected = NormalIndPower().power(d, n, alpha, ratio=ratio, alternative=word)
                assert power("two-sample z", n=n, ratio=ratio, **common) == pytest.approx(
                    expected, rel=1e-10, abs=1e-14
                )


def test_cohens_published_table():
    """Cohen (1992), A power primer, table 2: n per group, two-sided, power .80."""
    for alpha, sizes in ((0.05, (393, 64, 26)), (0.01, (586, 95, 38)), (0.10, (310, 50, 20))):
        ours = tuple(sample_size("two-sample t", effect_size=d, alpha=alpha) for d in (0.2, 0.5, 0.8))
        # Cohen rounded from tables; exact noncentral t moves an entry by one where it falls between.
        assert np.abs(np.subtract(ours, sizes)).max() <= 1
    assert [sample_size("two-sample t", effect_size=d) for d in (0.5, 0.8)] == [64, 26]


@pytest.mark.parametrize(
    "name", ["one-sample z", "two-sample z", "paired z", "one-sample t", "two-sample t", "paired t"]
)
@pytest.mark.parametrize("alternative", list(WORDS))
def test_sample_size_is_the_smallest(name, alternative):
    sign = -1 if alternative == "less" else 1
    for d in (0.05, 0.4, 3.0):
        common = {"effect_size": sign * d, "alternative": alternative}
        n = sample_size(name, power=0.9, **common)
        assert power(name, n=n, **common) >= 0.9
        least = 2 if name.endswith("t") else 1
        assert n == least or power(name, n=n - 1, **common) < 0.9


def test_ratio_rounds_up_and_costs():
    assert power("two-sample z", effect_size=0.5, n=10, ratio=0.25) == power(
        "two-sample z", effect_size=0.5, n=10, ratio=0.3
    )
    assert sample_size("two-sample t", effect_size=0.5, ratio=2) < 64


@pytest.mark.parametrize("alternative", list(WORDS))
@pytest.mark.parametrize("p0", [0.5, 0.1, 0.83])
def test_binomial_power_is_the_exact_sum(alternative, p0):
    for n in (1, 4, 17, 60):
        p_values = binomial_test(np.arange(n + 1), n, p0, alternative=alternative).p_value
        for p1 in (0.0, 0.05, 0.1, 0.5, 0.6, 0.95, 1.0):
            expected = binomial_power_by_definition(n, p0, p1, 0.05, lambda k, p=p_values: p[k])
            ours = power("binomial", effect_size=cohens_h(p1, p0), n=n, alternative=alternative, null=p0)
            assert ours == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
@pytest.mark.parametrize(("p0", "p1"), [(0.5, 0.7), (0.1, 0.2), (0.9, 0.99)])
def test_binomial_sample_size_by_exhaustive_search(alternative, p0, p1):
    h = cohens_h(p1, p0)
    n = sample_size("binomial", effect_size=h, null=p0, alternative=alternative)
    curve = power("binomial", effect_size=h, n=np.arange(1, n + 1), null=p0, alternative=alternative)
    assert np.flatnonzero(curve >= 0.8)[0] + 1 == n


def test_binomial_size_never_exceeds_alpha():
    size = power("binomial", effect_size=0.0, n=np.arange(1, 200), null=0.3)
    assert np.all(size <= 0.05)


def test_large_binomial_plan_is_quick():
    assert sample_size("binomial", effect_size=0.02, alternative="greater") == pytest.approx(15_460, rel=0.01)


def test_power_is_the_rejection_rate():
    """10,000 samples; false alarm 1e-6."""
    x = np.random.default_rng(0).normal(0.8, 1, (8, 10_000))
    rejected = np.sum(t_test(x).p_value <= 0.05)
    low, high = stats.binom.interval(1 - 1e-6, 10_000, power("one-sample t", effect_size=0.8, n=8))
    assert low <= rejected <= high


def test_extremes_stay_probabilities():
    assert power("one-sample t", effect_size=1e150, n=50) == 1.0
    assert power("one-sample t", effect_size=-1e150, n=50, alternative="greater") == 0.0
    assert power("one-sample t", effect_size=0.0, n=7) == pytest.approx(0.05)
    assert power("two-sample t", effect_size=1e-9, n=10**9) == pytest.approx(0.05, abs=1e-6)
    # One degree of freedom and a tiny alpha: P(S < delta / t) with S = |N(0, 1)|.
    t = stats.t.isf(0.5e-6, 1)
    assert power("one-sample t", effect_size=3e5, n=2, alpha=1e-6) == pytest.approx(
        2 * stats.norm.cdf(3e5 * np.sqrt(2) / t) - 1, rel=1e-7
    )


def test_power_broadcasts():
    curve = power("two-sample t", effect_size=[[0.2], [0.5]], n=[10, 20, 30])
    assert curve.shape == (2, 3)
    assert curve[1, 2] == power("two-sample t", effect_size=0.5, n=30)


@pytest.mark.parametrize(
    "call",
    [
        lambda: power("t", effect_size=1, n=5),
        lambda: power("one-sample t", effect_size=1, n=1),
        lambda: power("one-sample t", effect_size=1, n=5.5),
        lambda: power("one-sample t", effect_size=np.nan, n=5),
        lambda: power("one-sample t", effect_size=1, n=5, ratio=1),
        lambda: power("one-sample t", effect_size=1, n=5, null=0.5),
        lambda: power("two-sample t", effect_size=1, n=5, ratio=0),
        lambda: power("one-sample z", effect_size=1, n=5, alpha=0),
        lambda: power("binomial", effect_size=2.0, n=5),
        lambda: power("one-sample z", effect_size=[1, 2], n=[1, 2, 3]),
        lambda: sample_size("one-sample t", effect_size=0),
        lambda: sample_size("one-sample t", effect_size=-1, alternative="greater"),
        lambda: sample_size("one-sample t", effect_size=1e-9),
        lambda: sample_size("one-sample t", effect_size=1, power=1.0),
        lambda: cohens_h(70, 50),
    ],
)
def test_bad_plans(call):
    with pytest.raises(ParameterError):
        call()


def test_target_below_alpha_needs_the_least():
    assert sample_size("one-sample z", effect_size=0.0, power=0.01) == 1


@pytest.mark.parametrize("alpha", [0.5, 0.8])
def test_one_sided_tests_of_a_high_level(alpha):
    for d in (-0.5, 0.0, 0.5):
        n, df = 12, 11
        expected = stats.nct.sf(stats.t.isf(alpha, df), df, d * np.sqrt(n))
        assert power("one-sample t", effect_size=d, n=n, alpha=alpha, alternative="greater") == pytest.approx(expected)
        assert power("one-sample t", effect_size=-d, n=n, alpha=alpha, alternative="less") == pytest.approx(expected)
    assert power("one-sample t", effect_size=1e5, n=3, alpha=alpha, alternative="less") == 0.0
