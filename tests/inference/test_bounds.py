"""Tail bounds: they hold against exact tails, invert exactly, and their intervals cover."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from assay.errors import DataError, ParameterError
from assay.inference import (
    chebyshev,
    chebyshev_interval,
    chernoff,
    chernoff_interval,
    empirical_bernstein,
    empirical_bernstein_interval,
    hoeffding,
    hoeffding_interval,
    markov,
    markov_interval,
)


def exact_tails(n, p, eps):
    """P(phat - p >= eps) and P(p - phat >= eps) for a binomial share; rounding may not move a count across."""
    k = np.arange(n + 1)
    mass = stats.binom.pmf(k, n, p)
    return mass[k / n - p >= eps + 1e-12].sum(), mass[p - k / n >= eps + 1e-12].sum()


@pytest.mark.parametrize(("n", "p"), list(product((1, 5, 40, 200), (0.02, 0.3, 0.5, 0.9))))
def test_every_bound_holds_for_the_binomial(n, p):
    for eps in (0.01, 0.05, 0.1, 0.25, 0.6):
        upper, lower = exact_tails(n, p, eps)
        variance = p * (1 - p)
        assert hoeffding(n=n, eps=eps).value >= upper + lower - 1e-12
        assert hoeffding(n=n, eps=eps, two_sided=False).value >= max(upper, lower) - 1e-12
        assert chebyshev(n=n, eps=eps, variance=variance).value >= upper + lower - 1e-12
        assert chebyshev(n=n, eps=eps, variance=variance, two_sided=False).value >= max(upper, lower) - 1e-12
        for form in ("kl", "multiplicative"):
            assert chernoff(n=n, p=p, eps=eps, tail="upper", form=form).value >= upper - 1e-12
            assert chernoff(n=n, p=p, eps=eps, tail="lower", form=form).value >= lower - 1e-12
            assert chernoff(n=n, p=p, eps=eps, form=form).value >= upper + lower - 1e-12
        assert markov(mean=p, threshold=p + eps).value >= upper - 1e-12


def test_the_best_exponent_is_never_beaten():
    for p, eps in product((0.05, 0.3, 0.5, 0.8), (0.01, 0.1, 0.19)):
        for tail in ("upper", "lower"):
            if eps > p and tail == "lower":
                continue
            kl = chernoff(n=50, p=p, eps=eps, tail=tail).value
            assert kl <= hoeffding(n=50, eps=eps, two_sided=False).value * (1 + 1e-12)
            assert kl <= chernoff(n=50, p=p, eps=eps, tail=tail, form="multiplicative").value * (1 + 1e-12)


def test_chernoff_formulas():
    q, p, n = 0.2, 0.1, 100
    kl = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    assert chernoff(n=n, p=p, eps=0.1, tail="upper").value == pytest.approx(np.exp(-n * kl), rel=1e-12)
    product_form = (np.e / 2**2) ** (n * p)
    assert chernoff(n=n, p=p, eps=0.1, tail="upper", form="multiplicative").value == pytest.approx(product_form)
    assert chernoff(n=n, p=0.5, eps=0.6, tail="upper").value == 0.0
    assert chernoff(n=3, p=0.5, eps=0.5, tail="upper").value == pytest.approx(0.5**3)
    # Three trials cannot get below 1/8 inside the range, so the deviation lies just past its end.
    assert chernoff(n=3, p=0.5, delta=0.1, tail="upper").value == pytest.approx(0.5)


def test_hoeffding_worked_example_and_exponent():
    assert hoeffding(n=100, delta=0.05).value == pytest.approx(0.136, abs=5e-4)
    bound = hoeffding(n=50, eps=0.4, low=-1, high=3)
    assert bound.value == pytest.approx(2 * np.exp(-2 * 50 * 0.4**2 / 4**2), rel=1e-14)
    assert hoeffding(eps=0.05, delta=0.05).value == 738


def test_markov_slip():
    """At most half earn twice the mean; more than half may earn above it."""
    assert markov(mean=30.0, threshold=60.0).value == 0.5
    incomes = np.array([0.0, 40.0, 40.0])
    assert np.mean(incomes > incomes.mean()) > 0.5
    assert markov(mean=1.0, delta=0.1).value == pytest.approx(10.0)
    assert markov(threshold=5.0, delta=0.1).value == pytest.approx(0.5)
    assert markov(mean=3.0, threshold=1.0).value == 1.0
    assert markov(mean=0.0, threshold=1.0).value == 0.0


CASES = {
    "chebyshev": lambda **q: chebyshev(variance=0.2, **q),
    "cantelli": lambda **q: chebyshev(variance=0.2, two_sided=False, **q),
    "hoeffding": lambda **q: hoeffding(low=-1, high=2, **q),
    "hoeffding one": lambda **q: hoeffding(two_sided=False, **q),
    "bernstein": lambda **q: empirical_bernstein(variance=0.05, **q),
    "bernstein one": lambda **q: empirical_bernstein(variance=0.0, two_sided=False, **q),
    "chernoff": lambda **q: chernoff(p=0.3, **q),
    "chernoff upper": lambda **q: chernoff(p=0.3, tail="upper", **q),
    "chernoff lower": lambda **q: chernoff(p=0.3, tail="lower", **q),
    "chernoff product": lambda **q: chernoff(p=0.3, form="multiplicative", **q),
}


@pytest.mark.parametrize("name", list(CASES))
def test_each_quantity_follows_from_the_others(name):
    bound = CASES[name]
    for n, delta in product((20, 137, 5000), (0.2, 0.05, 1e-6)):
        eps = bound(n=n, delta=delta)
        assert eps.solved == "eps"
        back = bound(n=n, eps=eps.value)
        if (n, delta) == (20, 1e-6) and name in ("chernoff lower", "chernoff product"):
            assert back.value == 0  # so few trials reach that level only where no deviation is possible
            continue
        assert back.value == pytest.approx(delta, rel=1e-6)
        # The deviation that n allows needs n again, and a little more than it needs fewer.
        assert bound(eps=eps.value * (1 + 1e-9), delta=delta).value <= n
        assert bound(eps=eps.value * (1 - 1e-9), delta=delta).value >= n
    size = bound(eps=0.1, delta=0.05).value
    assert isinstance(size, int)
    assert bound(n=size, eps=0.1).value <= 0.05 * (1 + 1e-9)
    assert bound(n=size - 1, eps=0.1).value > 0.05


def test_known_sample_sizes():
    assert chebyshev(eps=0.1, delta=0.05, variance=0.25).value == 500
    assert chebyshev(n=1, eps=2.0, variance=1.0).value == 0.25
    assert hoeffding(eps=0.1, delta=0.05).value == int(np.ceil(np.log(40) / 0.02))


def interval_by_name(name, x, level, alternative):
    if name == "hoeffding":
        return hoeffding_interval(x, 0, 1, level, alternative=alternative)
    if name == "bernstein":
        return empirical_bernstein_interval(x, 0, 1, level, alternative=alternative)
    if name == "chebyshev":
        return chebyshev_interval(x, variance=0.01, level=level, alternative=alternative)
    return chernoff_interval(x.sum(axis=0), x.shape[0], level=level, alternative=alternative)


@pytest.mark.parametrize("name", ["hoeffding", "bernstein", "chebyshev", "chernoff"])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_intervals_cover_at_least_their_level(name, alternative):
    """2,000 samples with a rare event (p = .01); a bound fails this with chance 1e-6 at most."""
    x = (np.random.default_rng(5).random((40, 2000)) < 0.01).astype(float)
    interval = interval_by_name(name, x, 0.9, alternative)
    inside = np.sum((interval.lower <= 0.01) & (interval.upper >= 0.01))
    assert inside >= stats.binom.ppf(1e-6, 2000, 0.9)


def test_chernoff_interval_covers_exactly_and_sits_inside_hoeffding():
    n, k = 25, np.arange(26)
    interval = chernoff_interval(k, n)
    for p in np.linspace(0.002, 0.998, 101):
        inside = (interval.lower <= p) & (p <= interval.upper)
        assert stats.binom.pmf(k, n, p)[inside].sum() >= 0.95
    half = np.sqrt(np.log(40) / (2 * n))
    assert np.all(interval.lower >= k / n - half - 1e-12)
    assert np.all(interval.upper <= k / n + half + 1e-12)
    assert interval.lower[0] == 0.0
    assert interval.upper[-1] == 1.0
    assert interval.upper[0] == pytest.approx(1 - (1 / 40) ** (1 / n), rel=1e-12)


def test_intervals_invert_the_bounds():
    x = np.random.default_rng(6).random(50)
    eps = hoeffding(n=50, delta=0.1).value
    assert hoeffding_interval(x, level=0.9).upper == pytest.approx(x.mean() + eps)
    eps = empirical_bernstein(n=50, delta=0.1, variance=x.var(ddof=1)).value
    assert empirical_bernstein_interval(x, -5, 5, 0.9).estimate == pytest.approx(x.mean())
    assert empirical_bernstein_interval(x, 0, 1, 0.9).lower == pytest.approx(max(0, x.mean() - eps))
    eps = chebyshev(n=50, delta=0.1, variance=1 / 12).value
    assert chebyshev_interval(x, variance=1 / 12, level=0.9).lower == pytest.approx(x.mean() - eps)
    calm = 0.5 + 0.01 * (x - 0.5)
    calm = np.tile(calm, 40)
    assert empirical_bernstein_interval(calm).upper < hoeffding_interval(calm).upper


def test_markov_interval_covers():
    """5,000 skewed samples of 3; false alarm 1e-6."""
    x = np.random.default_rng(7).lognormal(0, 2, (3, 5000))
    interval = markov_interval(x, level=0.9)
    assert np.sum(interval.lower <= np.exp(2)) >= stats.binom.ppf(1e-6, 5000, 0.9)
    assert np.all(np.isinf(interval.upper))


def test_one_sided_ends_and_columns():
    frame = pd.DataFrame({"a": [0.1, 0.2, 0.3], "b": [0.5, 0.5, 0.5]})
    less = hoeffding_interval(frame, alternative="less")
    assert less.names == ("a", "b")
    assert np.all(less.lower == 0)
    assert np.all(chebyshev_interval(frame, variance=1, alternative="greater").upper == np.inf)
    assert np.all(empirical_bernstein_interval(frame, -1, 2, alternative="greater").upper == 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: hoeffding(n=10),
        lambda: hoeffding(n=10, eps=0.1, delta=0.1),
        lambda: hoeffding(n=0, eps=0.1),
        lambda: hoeffding(n=2.5, eps=0.1),
        lambda: hoeffding(n=5, eps=0.0),
        lambda: hoeffding(n=5, eps=-1),
        lambda: hoeffding(n=5, delta=1.0),
        lambda: hoeffding(n=5, delta=0.1, low=1, high=1),
        lambda: hoeffding(n=5, delta=0.1, high=np.inf),
        lambda: hoeffding(n=5, delta=0.1, two_sided=2),
        lambda: hoeffding(eps=1e-12, delta=0.1),
        lambda: chebyshev(n=5, eps=0.1, variance=-1),
        lambda: empirical_bernstein(n=1, eps=0.1, variance=0.1),
        lambda: chernoff(p=0, n=5, eps=0.1),
        lambda: chernoff(p=0.5, n=5, eps=0.1, tail="two"),
        lambda: chernoff(p=0.5, n=5, eps=0.1, form="simple"),
        lambda: markov(mean=-1, threshold=2),
        lambda: markov(mean=1),
        lambda: hoeffding_interval([0.1], level=2),
        lambda: chebyshev_interval([0.1], variance=np.nan),
    ],
)
def test_bad_parameters(call):
    with pytest.raises(ParameterError):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hoeffding_interval([0.1, 1.2]), "1.2 in row 1, outside"),
        (lambda: hoeffding_interval(pd.DataFrame({"a": [0.5, -3]})), "column 'a' of x contains -3 in row 1"),
        (lambda: markov_interval([1.0, -2.0]), "never negative"),
        (lambda: empirical_bernstein_interval([0.1]), "at least 2"),
        (lambda: chernoff_interval(3, 2), "impossible"),
        (lambda: hoeffding_interval([]), "empty"),
        (lambda: hoeffding_interval([np.nan]), "NaN in row 0"),
    ],
)
def test_bad_data(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_extreme_scales():
    assert hoeffding(n=5, eps=1e200, high=1e150).value == 0.0
    assert chebyshev(n=5, eps=1e-200, variance=1e-300).value == 1.0
    assert chebyshev(n=5, eps=1e200, variance=1.0).value == 0.0
    assert hoeffding(n=100, delta=0.05, low=-1e150, high=1e150).value == pytest.approx(2e150 * 0.135810, rel=1e-5)
    assert hoeffding_interval([1e150], -1e150, 2e150).estimate == pytest.approx(1e150)


def test_bound_prints_pickles_and_tabulates():
    bound = hoeffding(n=100, delta=0.05)
    assert "eps = 0.13581" in str(bound)
    assert bound["n"] == 100
    assert float(bound) == bound.value
    assert bound.to_frame().loc["Hoeffding's inequality", "solved"] == "eps"
    copy = pickle.loads(pickle.dumps(bound))
    assert copy.value == bound.value
    assert copy.tail(0.2) == pytest.approx(2 * np.exp(-8))
    with pytest.raises(AttributeError):
        bound.value = 3
