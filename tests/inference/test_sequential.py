"""Peeking, spending, confidence sequences and e-processes: published numbers, definitions, error rates at all times."""

import pickle

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from assay.bayes import neyman_pearson
from assay.errors import DataError, ParameterError
from assay.inference import alpha_spending, bootstrap, confidence_sequence, e_process, peeking, permutation_test
from tests.naive.inference import betting_interval_by_definition


def test_peeking_as_published():
    """Armitage, McPherson & Rowe (1969), table 2."""
    rate = peeking(100).estimate
    looks = {1: 0.05, 2: 0.083, 3: 0.107, 4: 0.126, 5: 0.142, 10: 0.193, 20: 0.248, 50: 0.320, 100: 0.374}
    for look, published in looks.items():
        assert rate[look - 1] == pytest.approx(published, abs=6e-4)
    one_percent = peeking(10, 0.01).estimate
    for look, published in {1: 0.01, 2: 0.018, 5: 0.033, 10: 0.047}.items():
        assert one_percent[look - 1] == pytest.approx(published, abs=6e-4)
    assert np.all(np.diff(rate) > 0)


def test_peeking_with_two_looks_is_a_bivariate_normal():
    z = stats.norm.isf(0.025)
    joint = stats.multivariate_normal([0, 0], [[1, np.sqrt(0.5)], [np.sqrt(0.5), 1]])
    inside = joint.cdf([z, z], lower_limit=[-z, -z])
    assert peeking(2).estimate[1] == pytest.approx(1 - inside, abs=1e-7)
    one = stats.norm.isf(0.05)
    assert peeking(2, alternative="greater").estimate[1] == pytest.approx(1 - joint.cdf([one, one]), abs=1e-7)
    np.testing.assert_allclose(peeking(4, alternative="less").estimate, peeking(4, alternative="greater").estimate)


def test_peeking_as_simulated():
    """20,000 runs of ten looks: binomial bound, false alarm one in a million."""
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.normal(size=(20_000, 10)), axis=1) / np.sqrt(np.arange(1, 11))
    hits = np.sum(np.any(np.abs(z) > stats.norm.isf(0.025), axis=1))
    low, high = stats.binom.interval(1 - 1e-6, 20_000, peeking(10).estimate[-1])
    assert low <= hits <= high


def test_spending_as_published():
    """Lan-DeMets boundaries for five equal looks at a two-sided .05."""
    np.testing.assert_allclose(
        alpha_spending(5, 0.05, "obrien_fleming").boundaries, [4.877, 3.357, 2.680, 2.290, 2.031], atol=6e-4
    )
    np.testing.assert_allclose(
        alpha_spending(5, 0.05, "pocock").boundaries, [2.438, 2.427, 2.410, 2.397, 2.386], atol=6e-4
    )
    np.testing.assert_allclose(
        alpha_spending(5, 0.05, "linear").boundaries, [2.576, 2.492, 2.411, 2.339, 2.276], atol=6e-4
    )


@pytest.mark.parametrize("kind", ["obrien_fleming", "pocock", "linear"])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_all_looks_together_err_with_chance_alpha(kind, alternative):
    plan = alpha_spending([0.1, 0.35, 0.36, 0.8, 1.0], 0.04, kind, alternative=alternative)
    np.testing.assert_allclose(plan.power(0.0), plan.spent, rtol=1e-8)
    assert plan.spent[-1] == pytest.approx(0.04, rel=1e-12)
    assert np.all(plan.nominal <= 0.04 + 1e-12)


def test_a_single_look_is_the_ordinary_test():
    plan = alpha_spending(1)
    assert plan.boundaries[0] == pytest.approx(stats.norm.isf(0.025), rel=1e-9)
    drift = 2.8
    expected = stats.norm.sf(stats.norm.isf(0.025) - drift) + stats.norm.cdf(-stats.norm.isf(0.025) - drift)
    assert plan.power(drift)[0] == pytest.approx(expected, rel=1e-9)
    assert plan.decide([2.0]).tolist() == [True]
    assert alpha_spending(3, alternative="less").decide([-1.0, -9.0]).tolist() == [False, True]
    assert 0.7 < alpha_spending(5).power(drift)[-1] < plan.power(drift)[0]


def test_betting_is_its_definition():
    x = np.random.default_rng(0).beta(2, 5, 40)
    sequence = confidence_sequence(x, level=0.9)
    cells = 1000 + int(32 * np.sqrt(40))
    grid = np.arange(1, cells) / cells
    low, high = betting_interval_by_definition(x, 0.9, grid)
    assert sequence.lower[-1] == pytest.approx(low - 1 / cells, abs=1e-9)
    assert sequence.upper[-1] == pytest.approx(high + 1 / cells, abs=1e-9)
    # An e-value at the limit is what the limit says: beyond it the null is rejected.
    assert e_process(x, float(low) - 2 / cells, alpha=0.1, alternative="greater").log_e.max() >= np.log(2 / 0.1)


@pytest.mark.parametrize(
    "extra", [{"method": "betting"}, {"method": "bernstein"}, {"kind": "normal", "sigma": 0.5}], ids=str
)
def test_sequences_cover_at_all_times(extra):
    """300 streams of 400 coins (in any one of which a 95% interval at each n would fail often): at most 15 misses
    expected; more than 35 has a chance below one in a million.
    """
    rng = np.random.default_rng(0)
    misses = naive = 0
    for _ in range(300):
        x = (rng.random(400) < 0.3).astype(float)
        sequence = confidence_sequence(x, **extra)
        misses += bool(np.any((sequence.lower > 0.3) | (sequence.upper < 0.3)))
        n = np.arange(10, 401)
        naive += bool(np.any(np.abs(np.cumsum(x)[9:] / n - 0.3) > 1.96 * np.sqrt(0.21 / n)))
    assert misses <= 35
    assert naive > 70
    assert np.all(np.diff(sequence.lower) >= 0)
    assert np.all(np.diff(sequence.upper) <= 0)


def test_normal_sequence_is_tightest_where_asked():
    x = np.zeros(2000)
    at = {n: confidence_sequence(x, kind="normal", sigma=1, n_tight=n) for n in (50, 500)}
    for n, other in ((50, 500), (500, 50)):
        mine, theirs = (at[k].upper[n - 1] for k in (n, other))
        assert mine < theirs
        near = [
            confidence_sequence(x, kind="normal", sigma=1, n_tight=k).upper[n - 1] for k in (int(0.9 * n), int(1.1 * n))
        ]
        assert mine <= min(near)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("kind", ["bounded", "normal"])
def test_true_nulls_reach_the_bar_at_most_at_their_level(kind, alternative):
    """400 streams of 300: at most 20 expected, more than 45 has a chance below one in a million."""
    rng = np.random.default_rng(1)
    rejected = 0
    for _ in range(400):
        x = rng.random(300) if kind == "bounded" else rng.normal(0.5, 2.0, 300)
        process = e_process(x, 0.5, kind=kind, alternative=alternative, sigma=2.0 if kind == "normal" else None)
        rejected += process.rejected_at(0.05) is not None
    assert rejected <= 45


def test_e_values_have_mean_at_most_one():
    """Exactly one under the null for every n: a martingale."""
    rng = np.random.default_rng(0)
    values = [e_process((rng.random(10) < 0.4) * 1.0, 0.4).e_values for _ in range(4000)]
    mean, error = np.mean(values, axis=0), np.std(values, axis=0) / np.sqrt(4000)
    assert np.all(np.abs(mean - 1) <= 5 * error + 1e-12)


def test_e_processes_find_effects_and_keep_their_p_values():
    rng = np.random.default_rng(0)
    x = (rng.random(500) < 0.7) * 1.0
    process = e_process(x, 0.5)
    assert process.rejected_at(0.05) < 200
    assert process.rejected_at(1e-300) is None
    assert np.all(np.diff(process.p_values) <= 0)
    np.testing.assert_allclose(process.p_values, np.minimum(1, 1 / np.maximum.accumulate(process.e_values)))
    assert e_process(x, 0.5, alternative="less").rejected_at() is None
    shifted = e_process(3 + 10 * x, 8.0, low=3, high=13)
    np.testing.assert_allclose(shifted.log_e, process.log_e, rtol=1e-9, atol=1e-9)
    many = e_process(np.ones(5000), 0.1)
    assert many.p_value < 1e-300
    assert "rejected at level 0.05" in str(process)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: peeking(0), ParameterError, "n_looks"),
        (lambda: peeking(3, 2), ParameterError, "alpha"),
        (lambda: alpha_spending([0.5, 0.4]), ParameterError, "increase"),
        (lambda: alpha_spending([0.5, 1.4]), ParameterError, "increase"),
        (lambda: alpha_spending(3, kind="all"), ParameterError, "kind"),
        (lambda: alpha_spending(2).decide([1, 2, 3]), DataError, "at most 2"),
        (lambda: confidence_sequence([]), DataError, "empty"),
        (lambda: confidence_sequence([0.5, np.nan]), DataError, "NaN in row 1"),
        (lambda: confidence_sequence([0.5, 1.5]), DataError, "1.5 in row 1"),
        (lambda: confidence_sequence([0.5], low=1, high=0), ParameterError, "low"),
        (lambda: confidence_sequence([0.5], kind="normal"), ParameterError, "sigma"),
        (lambda: confidence_sequence([0.5], sigma=1), ParameterError, "normal"),
        (lambda: confidence_sequence([0.5], method="magic"), ParameterError, "method"),
        (lambda: confidence_sequence([0.5], kind="normal", sigma=1, high=2), ParameterError, "bounded"),
        (lambda: e_process([0.5], 0.5, kind="normal", sigma=1, low=-1), ParameterError, "bounded"),
        (lambda: confidence_sequence([0.5]).interval(2), ParameterError, "n = 2"),
        (lambda: e_process([0.5], 1.0), ParameterError, "popmean"),
        (lambda: e_process([0.5], 0.5, kind="magic"), ParameterError, "kind"),
    ],
)
def test_bad_input_gets_one_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_one_constant_and_extreme_streams():
    assert confidence_sequence([0.3]).interval().lower <= 0.3
    for value in (0.0, 1.0, 0.5):
        sequence = confidence_sequence(np.full(500, value))
        assert value in sequence.interval()
        assert sequence.upper[-1] - sequence.lower[-1] < 0.1
    for method in ("betting", "bernstein"):
        assert 1.0 in confidence_sequence(np.ones(50), method=method).interval()


def test_results_draw_print_and_pickle():
    rng = np.random.default_rng(0)
    x = rng.random(150)
    results = [
        peeking(5),
        alpha_spending(4),
        confidence_sequence(x),
        e_process(x, 0.4),
        bootstrap("mean", x, random_state=0, n_resamples=99),
        bootstrap("mean", [1.0, 1.0], random_state=0, n_resamples=99),
        permutation_test(x[:4], x[4:8]),
        neyman_pearson(stats.poisson(2), stats.poisson(5)),
        neyman_pearson(stats.norm(0, 1), stats.norm(1, 1)),
    ]
    for result in results:
        axes = result.plot()
        assert axes.get_xlabel()
        assert axes.get_title(loc="left")
        assert str(pickle.loads(pickle.dumps(result))) == str(result)
        assert "<table" in result._repr_html_()
        plt.close("all")
