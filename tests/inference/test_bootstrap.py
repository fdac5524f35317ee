"""The bootstrap: agreement with definitions, kernels against calls, coverage, degenerate data."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from assay.errors import DataError, DataTypeError, ParameterError
from assay.inference import Bootstrap, bootstrap
from assay.inference._bootstrap import draw_indices
from tests.naive.inference import bca_by_definition

METHODS = ("bca", "percentile", "basic", "studentised", "normal")
CALLS = {
    "mean": np.mean,
    "variance": lambda x, axis=-1: np.var(x, axis=axis, ddof=1),
    "std": lambda x, axis=-1: np.std(x, axis=axis, ddof=1),
    "median": np.median,
}


def skewed(n=41, seed=0):
    return np.random.default_rng(seed).exponential(2.0, n)


def pearson(x, y):
    return np.corrcoef(x, y)[0, 1]


def state(seed=0):
    return np.random.SeedSequence(seed).generate_state(1, np.uint64)


def test_a_row_is_left_out_with_probability_about_368():
    n, resamples = 1000, 400
    rows = np.empty((resamples, n), dtype=np.uint32)
    draw_indices(state(), np.array([0, n]), rows)
    left_out = np.mean([1 - np.unique(row).size / n for row in rows])
    assert left_out == pytest.approx((1 - 1 / n) ** n, abs=0.003)
    assert left_out == pytest.approx(0.368, abs=0.003)


@pytest.mark.parametrize("n", [2, 3, 7, 64, 1001])
def test_every_row_is_equally_likely(n):
    """Chi-square over many draws; false alarm one in a million."""
    rows = np.empty((max(1, 200_000 // n), n), dtype=np.uint32)
    draw_indices(state(n), np.array([0, n]), rows)
    counts = np.bincount(rows.ravel(), minlength=n)
    assert counts.size == n
    assert stats.chisquare(counts).pvalue > 1e-6
    # Neighbours in a resample are independent of each other.
    pairs = np.bincount(rows[:, 0].astype(int) % 2 * 2 + rows[:, -1].astype(int) % 2, minlength=4)
    if n % 2 == 0:
        assert stats.chisquare(pairs).pvalue > 1e-6


@pytest.mark.parametrize("name", ["mean", "variance", "std"])
@pytest.mark.parametrize("strata", [False, True])
def test_kernels_equal_calls_on_the_same_draws(name, strata):
    x = skewed()
    labels = np.arange(x.size) % 3 if strata else None
    ours = bootstrap(name, x, random_state=3, n_resamples=500, strata=labels)
    called = bootstrap(CALLS[name], x, random_state=3, n_resamples=500, strata=labels)
    np.testing.assert_allclose(ours.replicates, called.replicates, rtol=1e-12)
    assert ours.estimate == pytest.approx(called.estimate, rel=1e-14)
    assert ours.acceleration == pytest.approx(called.acceleration, rel=1e-10)
    for method in ("bca", "percentile", "basic", "normal"):
        a, b = ours.interval(0.9, method), called.interval(0.9, method)
        np.testing.assert_allclose([a.lower, a.upper], [b.lower, b.upper], rtol=1e-10)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("name", ["mean", "variance", "std"])
def test_two_samples_give_the_difference(name, paired):
    x, y = skewed(30), skewed(30 if paired else 45, 1)
    ours = bootstrap(name, (x, y), random_state=3, n_resamples=300, paired=paired)
    call = CALLS[name]
    called = bootstrap(lambda a, b: call(a) - call(b), (x, y), random_state=3, n_resamples=300, paired=paired)
    np.testing.assert_allclose(ours.replicates, called.replicates, rtol=1e-9, atol=1e-12)
    assert ours.acceleration == pytest.approx(called.acceleration, rel=1e-8)
    assert ours.n == (30 if paired else (30, 45))


def test_correlation_kernel_equals_calls():
    x = skewed(50)
    y = x + np.random.default_rng(1).normal(size=50)
    ours = bootstrap("correlation", (x, y), random_state=0, n_resamples=300)
    called = bootstrap(pearson, (x, y), paired=True, random_state=0, n_resamples=300)
    np.testing.assert_allclose(ours.replicates, called.replicates, rtol=1e-11)
    assert ours.acceleration == pytest.approx(called.acceleration, rel=1e-9)
    table = bootstrap("correlation", np.column_stack([x, y]), random_state=0, n_resamples=300)
    np.testing.assert_array_equal(table.replicates, ours.replicates)
    rows = bootstrap(lambda t: pearson(*t.T), pd.DataFrame({"x": x, "y": y}), random_state=0, n_resamples=300)
    np.testing.assert_allclose(rows.replicates, ours.replicates, rtol=1e-11)


@pytest.mark.parametrize("statistic", [np.mean, np.median, CALLS["variance"], lambda x: np.sort(x)[-3]])
def test_bca_is_its_definition(statistic):
    x = skewed()
    result = bootstrap(statistic, x, random_state=5, n_resamples=999)
    a, lower, upper = bca_by_definition(x, statistic, result.replicates, 0.95)
    assert result.acceleration == pytest.approx(a, abs=1e-12)
    np.testing.assert_allclose([result.interval().lower, result.interval().upper], [lower, upper], rtol=1e-12)


@pytest.mark.parametrize("n", [5, 6, 31, 40])
@pytest.mark.parametrize("q", [0.0, 0.3, 0.5, 0.77, 1.0])
def test_quantiles_without_resampling_have_the_right_distribution(n, q):
    """Order statistics drawn directly against quantiles of real resamples: chi-square, false alarm one in a million."""
    x = np.arange(float(n))
    direct = bootstrap(("quantile", q), x, random_state=1, n_resamples=20_000, method="percentile")
    called = bootstrap(
        lambda x, axis=-1: np.quantile(x, q, axis=axis), x, random_state=2, n_resamples=20_000, method="percentile"
    )
    assert direct.estimate == called.estimate == np.quantile(x, q)
    assert direct.acceleration == pytest.approx(called.acceleration, abs=1e-9)
    values = np.concatenate([direct.replicates, called.replicates]).round(9)
    kinds, code = np.unique(values, return_inverse=True)
    table = np.array([np.bincount(part, minlength=kinds.size) for part in np.split(code, 2)])
    big = table.sum(axis=0) >= 20
    merged = np.column_stack([table[:, big], table[:, ~big].sum(axis=1)]) if (~big).any() else table
    merged = merged[:, merged.sum(axis=0) > 0]
    if merged.shape[1] > 1:
        assert stats.chi2_contingency(merged).pvalue > 1e-6


def test_limits_agree_with_scipy_in_the_limit_of_many_resamples():
    x = skewed(60)
    for name, call in (("mean", np.mean), ("std", CALLS["std"])):
        ours = bootstrap(name, x, random_state=0, n_resamples=50_000)
        for method, theirs in (("bca", "BCa"), ("percentile", "percentile"), ("basic", "basic")):
            other = stats.bootstrap((x,), call, n_resamples=20_000, rng=1, method=theirs).confidence_interval
            mine = ours.interval(0.95, method)
            np.testing.assert_allclose([mine.lower, mine.upper], other, atol=0.1 * ours.std_error)
        assert ours.std_error == pytest.approx(call(x) * 0 + np.std(ours.replicates, ddof=1))


@pytest.mark.parametrize("name", ["mean", "variance", "std"])
def test_studentised_by_formula_equals_the_same_formula_called(name):
    x = skewed(25)

    def error(x, axis=-1):
        n = x.shape[-1]
        d = x - x.mean(axis=axis, keepdims=True)
        s2, m4 = (d**2).sum(axis=axis) / (n - 1), (d**4).mean(axis=axis)
        wide = np.sqrt(np.maximum(0, m4 - (d**2).mean(axis=axis) ** 2) / n)
        return {"mean": np.sqrt(s2 / n), "variance": wide, "std": wide / (2 * np.sqrt(s2))}[name]

    ours = bootstrap(name, x, method="studentised", random_state=0, n_resamples=400)
    called = bootstrap(name, x, method="studentised", std_error=error, random_state=0, n_resamples=400)
    plain = bootstrap(CALLS[name], x, method="studentised", std_error=error, random_state=0, n_resamples=400)
    for other in (called, plain):
        a, b = ours.interval(), other.interval()
        np.testing.assert_allclose([a.lower, a.upper], [b.lower, b.upper], rtol=1e-8)


def test_studentised_by_inner_resamples():
    x = skewed(30)
    inner = bootstrap(np.mean, x, method="studentised", std_error=40, random_state=0, n_resamples=500)
    formula = bootstrap("mean", x, method="studentised", random_state=0, n_resamples=500)
    gap = abs(inner.interval().upper - formula.interval().upper)
    assert gap < formula.std_error
    with pytest.raises(ParameterError, match="std_error"):
        bootstrap("median", x, method="studentised")
    without = bootstrap("mean", x, n_resamples=50)
    with pytest.raises(ParameterError, match="studentised"):
        without.interval(0.9, "studentised")


def test_studentised_difference_of_pairs_knows_the_pairs():
    x = skewed(30)
    y = x + np.random.default_rng(1).normal(0, 0.1, 30)
    pairs = bootstrap("mean", (x, y), paired=True, method="studentised", random_state=0, n_resamples=300)
    alone = bootstrap("mean", x - y, method="studentised", random_state=0, n_resamples=300)
    np.testing.assert_array_equal(pairs.replicates, alone.replicates)
    assert pairs.interval().upper == alone.interval().upper
    assert pairs.estimand == "difference of means"
    with pytest.raises(ParameterError, match="std_error"):
        bootstrap("std", (x, y), paired=True, method="studentised")


def test_strata_keep_their_sizes():
    x = np.repeat([0.0, 10.0, 100.0], [3, 5, 2])
    result = bootstrap("mean", x, strata=np.repeat(["a", "b", "c"], [3, 5, 2]), random_state=0, n_resamples=50)
    np.testing.assert_allclose(result.replicates, x.mean())
    interval = result.interval()
    assert (interval.lower, interval.upper) == pytest.approx((25, 25))
    assert "3 strata" in str(result)


@pytest.mark.parametrize("data", ["named", "called", "two", "correlation", "median"])
def test_threads_never_change_a_bit(data):
    x, y = skewed(300), skewed(300, 1)
    args = {
        "named": ("variance", x),
        "called": (np.mean, x),
        "two": ("mean", (x, y)),
        "correlation": ("correlation", (x, y)),
        "median": ("median", x),
    }[data]
    one = bootstrap(*args, random_state=7, n_resamples=1000)
    two = bootstrap(*args, random_state=7, n_resamples=1000, n_jobs=2)
    np.testing.assert_array_equal(one.replicates, two.replicates)
    assert not np.array_equal(one.replicates, bootstrap(*args, random_state=8, n_resamples=1000).replicates)


def test_bca_covers_skewed_data_better_than_percentile():
    """Standard deviation of exponential data, n = 30, 400 samples: seeded, so the counts are facts, not chances."""
    rng = np.random.default_rng(0)
    hits = {"bca": 0, "percentile": 0, "studentised": 0}
    for seed in range(400):
        x = rng.exponential(1.0, 30)
        result = bootstrap("std", x, n_resamples=599, method="studentised", random_state=seed)
        for method in hits:
            hits[method] += 1.0 in result.interval(0.95, method)
    assert hits["percentile"] < hits["bca"] < hits["studentised"]
    # A true coverage of .86 leaves these bounds with a chance below one in a million.
    assert 304 <= hits["bca"] <= 379


def test_standard_error_and_bias_have_their_known_values():
    x = skewed(200)
    mean = bootstrap("mean", x, random_state=0, n_resamples=20_000)
    assert mean.std_error == pytest.approx(x.std() / np.sqrt(200), rel=0.03)
    variance = bootstrap("variance", x, random_state=0, n_resamples=20_000)
    # E* of the resample's variance is the plug-in variance: bias = -s^2 / n.
    assert variance.bias == pytest.approx(-variance.estimate / 200, abs=4 * variance.std_error / np.sqrt(20_000))


@pytest.mark.parametrize("statistic", ["mean", "median", "variance", "std", ("quantile", 0.2), np.mean])
def test_constant_data_give_a_point(statistic):
    result = bootstrap(statistic, [3.0] * 8, random_state=0, n_resamples=99)
    assert result.std_error == 0
    for method in ("bca", "percentile", "basic", "normal"):
        interval = result.interval(0.95, method)
        assert interval.lower == interval.upper == result.estimate
    if statistic in ("mean", "variance"):
        point = bootstrap(statistic, [3.0] * 8, random_state=0, n_resamples=99, method="studentised").interval()
        assert point.lower == point.upper


@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e-300])
def test_units_do_not_matter(scale):
    x = skewed()
    for name in ("mean", "std", "median"):
        unit, scaled = (bootstrap(name, u, random_state=0, n_resamples=200) for u in (x, x * scale))
        np.testing.assert_allclose(scaled.replicates / scale, unit.replicates, rtol=1e-9)
        assert scaled.acceleration == pytest.approx(unit.acceleration, rel=1e-6, abs=1e-9)
    y = x[::-1].copy()
    a, b = bootstrap("correlation", (x, y), random_state=0), bootstrap("correlation", (x * scale, y), random_state=0)
    np.testing.assert_allclose(a.replicates, b.replicates, rtol=1e-9, atol=1e-12)


def test_large_offsets_cost_no_digits():
    x = skewed()
    near, far = bootstrap("variance", x, random_state=0), bootstrap("variance", x + 1e8, random_state=0)
    np.testing.assert_allclose(near.replicates, far.replicates, rtol=1e-6)


@pytest.mark.parametrize("method", ["percentile", "basic", "normal"])
def test_infinite_replicates_are_left_out(method):
    def log_of_mean(v):
        with np.errstate(divide="ignore"):
            return np.log(v.mean())

    result = bootstrap(log_of_mean, np.r_[np.zeros(19), 1.0], n_resamples=300, method=method, random_state=0)
    assert 0 < result.undefined < 300
    assert np.isfinite([result.std_error, result.bias, result.interval().lower, result.interval().upper]).all()
    assert f"Excluded: {result.undefined} resamples on which it is infinite or not defined." in str(result)


def test_undefined_replicates_are_counted():
    result = bootstrap("correlation", ([1.0, 2.0, 4.0, 3.0], [1.0, 3.0, 2.0, 5.0]), random_state=0)
    assert 0 < result.undefined < 9999
    assert result.undefined / 9999 == pytest.approx(4 * (1 / 4) ** 4, abs=0.006)
    assert "not defined" in str(result)
    assert np.isfinite(result.replicates).all()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: bootstrap("mean", [1.0]), DataError, "at least 2"),
        (lambda: bootstrap("mean", []), DataError, "empty"),
        (lambda: bootstrap("mean", [1.0, np.nan, 2.0]), DataError, "NaN in row 1"),
        (lambda: bootstrap("mean", [1.0, np.inf]), DataError, "infinity in row 1"),
        (lambda: bootstrap("mean", ["a", "b"]), DataTypeError, "text"),
        (lambda: bootstrap("variance", [1.0, 2.0]), DataError, "percentile"),
        (lambda: bootstrap("correlation", ([1.0, 2.0], [1.0, 3.0])), DataError, "3 rows"),
        (lambda: bootstrap("correlation", ([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])), DataError, "second column is constant"),
        (lambda: bootstrap("correlation", ([1.0, 2.0, 3.0], [1.0, 1.0])), DataError, "3 and 2 rows"),
        (lambda: bootstrap("correlation", [1.0, 2.0, 3.0]), DataError, "two columns"),
        (lambda: bootstrap("mean", np.ones((4, 2))), DataError, "one column"),
        (lambda: bootstrap("nonsense", [1.0, 2.0]), ParameterError, "unknown"),
        (lambda: bootstrap("quantile", [1.0, 2.0]), ParameterError, "quantile"),
        (lambda: bootstrap(("quantile", 2), [1.0, 2.0]), ParameterError, "quantile"),
        (lambda: bootstrap("mean", [1.0, 2.0], method="magic"), ParameterError, "method"),
        (lambda: bootstrap("mean", [1.0, 2.0], level=1.5), ParameterError, "level"),
        (lambda: bootstrap("mean", [1.0, 2.0], n_resamples=0), ParameterError, "n_resamples"),
        (lambda: bootstrap("mean", [1.0, 2.0], random_state=-1), ParameterError, "random_state"),
        (lambda: bootstrap("mean", [1.0, 2.0], paired="yes"), ParameterError, "paired"),
        (lambda: bootstrap("mean", [1.0, 2.0], n_jobs=0), ParameterError, "n_jobs"),
        (lambda: bootstrap("mean", [1.0, 2.0], strata=[1]), DataError, "one label per row"),
        (lambda: bootstrap("mean", ([1.0, 2.0], [1.0, 2.0]), strata=[1, 1]), ParameterError, "paired=True"),
        (lambda: bootstrap(np.mean, [1.0, 2.0], std_error=3), ParameterError, "studentised"),
        (lambda: bootstrap(lambda x: x, [1.0, 2.0]), ParameterError, "one number"),
        (lambda: bootstrap(lambda x, axis: x, [1.0, 2.0]), ParameterError, "vectorised=False"),
        (lambda: bootstrap(lambda x: np.nan, [1.0, 2.0]), DataError, "nan"),
        (lambda: bootstrap(lambda x: float(len(set(x))), list(range(30))), DataError, "percentile"),
    ],
)
def test_bad_input_gets_one_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_any_layout_of_the_same_numbers():
    x = np.arange(20.0) ** 1.5
    expected = bootstrap("mean", x, random_state=0, n_resamples=50).replicates
    wide = np.zeros((20, 3))
    wide[:, 1] = x
    readonly = x.copy()
    readonly.flags.writeable = False
    for form in (x.tolist(), wide[:, 1], readonly, pd.Series(x), x.astype(object)):
        np.testing.assert_array_equal(bootstrap("mean", form, random_state=0, n_resamples=50).replicates, expected)
    mixed = x[::-1].copy()
    bootstrap(lambda v: v.sort() or v[0], mixed, random_state=0, n_resamples=5, method="percentile")
    np.testing.assert_array_equal(mixed, x[::-1])


def test_seeds_of_every_kind():
    x = skewed()
    a = bootstrap("mean", x, random_state=np.random.default_rng(4), n_resamples=20)
    b = bootstrap("mean", x, random_state=np.random.default_rng(4), n_resamples=20)
    c = bootstrap("mean", x, random_state=np.random.RandomState(4), n_resamples=20)
    np.testing.assert_array_equal(a.replicates, b.replicates)
    assert not np.array_equal(a.replicates, c.replicates)
    assert not np.array_equal(
        bootstrap("mean", x, n_resamples=20).replicates, bootstrap("mean", x, n_resamples=20).replicates
    )


def test_the_result_prints_tabulates_pickles_and_is_frozen():
    result = bootstrap("mean", skewed(), random_state=0)
    assert "BCa" in str(result)
    assert "standard error" in str(result)
    assert list(result.to_frame().columns)[:5] == ["estimate", "lower", "upper", "std_error", "bias"]
    copy = pickle.loads(pickle.dumps(result))
    assert isinstance(copy, Bootstrap)
    assert copy.interval(0.9).lower == result.interval(0.9).lower
    with pytest.raises(ValueError, match="read-only"):
        result.replicates[0] = 1
    assert "<table" in result._repr_html_()


@pytest.mark.parametrize("statistic", ["mean", np.median, ("quantile", 0.9)])
def test_swapped_arguments_are_named(statistic):
    with pytest.raises(DataTypeError, match="swapped: the statistic comes first; call bootstrap"):
        bootstrap([1.0, 2.0, 4.0], statistic)


@pytest.mark.parametrize(("statistic", "side"), [(np.max, "above"), (np.min, "below"), (np.ptp, "above")])
def test_a_statistic_of_the_ends_of_the_data_is_named(statistic, side):
    x = skewed()
    result = bootstrap(statistic, x, n_resamples=999, random_state=0)
    assert result.is_one_sided
    assert f"No resample lies {side} the estimate: the bootstrap fails" in str(result)
    # Uniform values: their maximum never reaches the end that a 95% interval should cover.
    assert bootstrap(np.max, np.random.default_rng(0).random(50), n_resamples=999, random_state=0).interval().upper < 1


def test_no_other_statistic_is_named():
    results = [bootstrap(name, skewed(), n_resamples=999, random_state=0) for name in CALLS]
    results += [bootstrap("mean", values, n_resamples=999, random_state=0) for values in ([1.0] * 9, [0, 0, 0, 0, 1])]
    results += [bootstrap("mean", skewed(), n_resamples=3, method="basic", random_state=seed) for seed in range(9)]
    assert not any(result.is_one_sided for result in results)
    assert "fails" not in str(results[0])
