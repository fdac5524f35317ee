"""The interval of a mean with a long tail: invariances, Zhang and Stephens by definition, coverage, the warning."""

import numpy as np
import pytest
from scipy import stats
from simulations.tails import DESIGNS, measure

import assay.metrics as am
from assay.errors import DataError
from assay.inference import diagnose_tail, loss_interval
from assay.inference.heavy_tails import _fit_tail, _hall, mean_limits
from assay.metrics.tails import tail_of

FALSE_ALARM = 1e-6


def test_limits_depend_on_the_losses_alone():
    rng = np.random.default_rng(0)
    x = rng.standard_t(3, 150) ** 2
    once = mean_limits(x, level=0.95)
    assert mean_limits(x, level=0.95) == once
    np.testing.assert_allclose(mean_limits(rng.permutation(x), level=0.95), once, rtol=1e-9)
    for unit in (1e-290, 1e-3, 7.0, 1e290):
        np.testing.assert_allclose(np.array(mean_limits(x * unit, level=0.95)) / unit, once, rtol=1e-9)
    wider = mean_limits(x, level=0.99)
    assert wider[0] < once[0] < x.mean() < once[1] < wider[1]


def test_light_tails_at_large_n_give_students_t():
    x = np.random.default_rng(1).normal(size=20_000) ** 2
    half = stats.t.ppf(0.975, x.size - 1) * x.std(ddof=1) / np.sqrt(x.size)
    np.testing.assert_allclose(mean_limits(x, level=0.95), [x.mean() - half, x.mean() + half], rtol=2e-3)


def test_hall_inverts_his_cubic():
    """Hall (1992): g(t) = t + a t^2 / 3 + a^2 t^3 / 27 + a / 6n^(1/2).., with a = skewness / sqrt n; g(q) is -t."""
    x = np.random.default_rng(2).exponential(size=40)
    centred, n = x - x.mean(), 40
    skew = stats.skew(x)
    q = _hall(centred, 2.0)
    a = skew / np.sqrt(n)
    assert q + a * q**2 / 3 + a**2 * q**3 / 27 + skew / (6 * np.sqrt(n)) == pytest.approx(-2.0, rel=1e-9)


def test_the_tail_is_fitted_as_zhang_and_stephens_say():
    """Posterior means over the grid lie near the maximum of the likelihood, and near the truth for Pareto data."""
    rng = np.random.default_rng(3)
    for shape in (0.1, 0.5, 0.9):
        x = stats.genpareto(shape, scale=2.0).rvs(20_000, random_state=rng)
        tail = _fit_tail(x)
        assert tail.excess.size == 400
        index = float(tail.weight @ tail.index)
        fitted = stats.genpareto.fit(tail.excess, floc=0)[0]
        assert index == pytest.approx(fitted, abs=0.03)
        assert index == pytest.approx(shape, abs=5 * (1 + shape) / np.sqrt(400))


def test_few_constant_and_tied_losses():
    assert mean_limits(np.zeros(30), level=0.95) == (0.0, 0.0)
    assert mean_limits(np.full(30, 2.5), level=0.95) == (2.5, 2.5)
    for x in (
        np.r_[np.zeros(29), 4.0],
        np.r_[np.zeros(50), np.ones(50)],
        np.r_[np.zeros(80), np.arange(1.0, 21)],
        np.arange(2.0),
        np.arange(9.0),
        np.arange(10.0),
        np.r_[np.ones(99), 1e300],
    ):
        lower, upper = mean_limits(x, level=0.95)
        assert 0 < lower < x.mean() < upper < np.inf
    with pytest.raises(DataError, match="row 1"):
        loss_interval([1.0, -2.0, 3.0])


def test_metrics_use_it():
    rng = np.random.default_rng(4)
    y, f = rng.normal(size=(2, 80))
    squares = (y - f) ** 2
    lower, upper = mean_limits(squares, level=0.9)
    found = am.mse.interval(y, f, level=0.9)
    assert (found.lower, found.upper) == pytest.approx((lower, upper))
    root = am.rmse.interval(y, f, level=0.9)
    assert (root.lower, root.upper) == pytest.approx((np.sqrt(lower), np.sqrt(upper)))
    assert am.mse.methods == ("tail", "t", "bootstrap")
    assert am.rmse.methods == ("tail", "delta", "bootstrap")
    assert am.log_loss.methods[0] == "tail"
    assert am.brier.methods[0] == "t"  # bounded: no tail beyond what was seen
    # Weights enter by values with the mean and the error of the weighted losses.
    w = rng.uniform(0.5, 2.0, 80)
    found = am.mse.interval(y, f, sample_weight=w)
    mean = np.average(squares, weights=w)
    values = mean + (squares - mean) * w / w.mean()
    assert (found.lower, found.upper) == pytest.approx(mean_limits(values, level=0.95))
    assert values.mean() == pytest.approx(found.estimate)


def test_the_designs_have_the_moments_they_claim():
    """E e^2 = int 2 a P(|e| > a) da; of Student's laws, whose tails a grid does not reach, the formula is known."""
    size = np.r_[np.linspace(0, 10, 201), np.geomspace(10, 400, 300)[1:]]
    for design in DESIGNS.values():
        if not design.name.startswith("t("):
            above = np.array([1 - design.below(a, 60) for a in size])
            assert np.trapezoid(2 * size * above, size) == pytest.approx(design.mse(60), rel=5e-3), design.name
    assert DESIGNS["t(3)"].mse(60) == stats.t(3).var()
    assert DESIGNS["t(2.5)"].mse(60) == pytest.approx(stats.t(2.5).var())


@pytest.mark.parametrize(
    ("name", "n", "least", "old"),
    [("normal", 30, 0.94, 1.0), ("Laplace", 60, 0.93, 1.0), ("t(5)", 120, 0.92, 1.0), ("t(3)", 120, 0.87, 0.85)],
)
def test_coverage(name, n, least, old):
    """300 samples at nominal 95%; a true coverage of `least` is blamed once in a million, and so is Student's `old`."""
    found = measure(name, n, 300, seed=1)
    assert found["tail-corrected"] * 300 >= stats.binom.ppf(FALSE_ALARM, 300, least)
    assert found["Student, mse"] * 300 <= stats.binom.isf(FALSE_ALARM, 300, old)
    assert found["tail-corrected"] >= found["log t"]


def test_the_warning_speaks_of_heavy_tails_and_not_of_light_ones():
    """Over 300 samples: of light tails at most, of heavy ones at least this share; false alarm 1e-6 each."""
    rng = np.random.default_rng(6)

    def warned(name, n):
        return sum(diagnose_tail(row**2).heavy for row in DESIGNS[name].draw(rng, (300, n)))

    for name, n, most in (("normal", 60, 0.03), ("normal", 500, 0.01), ("Laplace", 500, 0.05)):
        assert warned(name, n) <= stats.binom.isf(FALSE_ALARM, 300, most), name
    for name, n, least in (("t(2.5)", 500, 0.75), ("contaminated 5% x 10", 250, 0.95), ("lognormal", 250, 0.9)):
        assert warned(name, n) >= stats.binom.ppf(FALSE_ALARM, 300, least), name


def test_diagnosis_in_words():
    losses = np.r_[np.random.default_rng(0).normal(size=116) ** 2, [40.0, 55.0, 70.0, 90.0]]
    found = diagnose_tail(losses)
    top = np.sort(losses)[::-1]
    assert found.rows == 2
    assert found.share == pytest.approx(top[:2].sum() / top.sum())
    assert found.heavy
    assert found.carried("squared error") == f"2 of 120 rows make up {found.share:.0%} of the squared error"
    assert found.unseen == 40  # 0.975 ** 120 is 0.048
    assert found.to_frame().loc[0, "rows"] == 2
    # Without a row, or with its weight at zero, it is the same diagnosis.
    weights = np.ones(120)
    weights[:20] = 0
    assert str(diagnose_tail(losses, weights)) == str(diagnose_tail(losses[20:]))
    assert not diagnose_tail(np.zeros(50)).heavy
    assert not diagnose_tail(np.ones(50)).heavy
    assert diagnose_tail(np.r_[np.zeros(49), 1.0]).heavy


def test_tail_of_a_metric():
    rng = np.random.default_rng(5)
    y = rng.normal(size=200)
    f = y + rng.standard_t(2, 200)
    assert tail_of(am.rmse, y, f).rows == tail_of(am.r2, y, f).rows == diagnose_tail((y - f) ** 2).rows
    assert tail_of(am.mae, y, f).share == diagnose_tail(np.abs(y - f)).share
    assert tail_of(am.median_absolute_error, y, f) is None
    assert tail_of(am.accuracy, y > 0, f > 0) is None


def test_r2_covers_with_long_tails_where_the_delta_method_does_not():
    """300 tables of 120 rows, errors t(3) and lognormal, half the variance explained: the delta method covers .80 of
    them; .88 is expected of the union, and less than .83 of 300 has a probability below 1e-2.
    """
    for name, seed in (("t(3)", 1), ("lognormal", 2)):
        rng, design = np.random.default_rng(seed), DESIGNS[name]
        hits = {"tail": 0, "delta": 0}
        for errors in design.draw(rng, (300, 120)):
            guess = np.sqrt(design.mse(120)) * rng.normal(size=120)
            for method in hits:
                found = am.r2.interval(guess + errors, guess, method=method)
                hits[method] += found.lower <= 0.5 <= found.upper
        assert hits["tail"] >= 0.83 * 300, name
        assert hits["tail"] >= hits["delta"] + 15, name
