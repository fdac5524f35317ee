"""Conjugate models against direct integration, scipy and their own definitions."""

from __future__ import annotations

import pickle
from decimal import Decimal, localcontext

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from assay.bayes._beta_limits import _by_scipy, beta_limits
from assay.bayes._stable import log_beta, log_beta_weight, log_poisson
from assay.bayes.conjugate import (
    BayesFactor,
    BetaBinomial,
    DirichletMultinomial,
    GammaPoisson,
    NormalGamma,
    NormalMean,
)
from assay.bayes.count_laws import _integral, log_beta_binomial
from assay.bayes.laws import Beta, Gamma, InverseGamma
from assay.errors import AssayError, DataError, ParameterError

COIN = np.array([1, 0, 1, 1, 0, 1, 1])
COUNTS = np.array([3, 1, 4, 1, 5])
REALS = np.array([1.2, -0.7, 2.9, 0.4])


NODES, WEIGHTS = special.roots_legendre(40)


def over(f, low, high):
    """An integral by 40 nodes in each of 50 pieces."""
    edges = np.linspace(low, high, 51)
    half = np.diff(edges) / 2
    x = (edges[:-1] + half)[:, None] + half[:, None] * NODES
    return float(half @ (f(x.ravel()).reshape(x.shape) @ WEIGHTS))


# ------------------------------------------------------------------------------------------- posteriors


def prior_times_likelihood(model, data):
    """The unnormalised posterior density, its range, and log p(data) as an integral: the definition."""
    if isinstance(model, BetaBinomial):
        prior, low, high = stats.beta(model.a, model.b).pdf, 0.0, 1.0
        chance = lambda t: np.prod([t if x else 1 - t for x in data], axis=0)  # noqa: E731
    elif isinstance(model, GammaPoisson):
        prior, low, high = stats.gamma(model.shape, scale=1 / model.rate).pdf, 0.0, 40.0
        chance = lambda t: np.prod([stats.poisson.pmf(x, t) for x in data], axis=0)  # noqa: E731
    else:
        prior, low, high = stats.norm(model.mean, np.sqrt(model.variance)).pdf, -15.0, 15.0
        chance = lambda t: np.prod([stats.norm.pdf(x, t, np.sqrt(model.sigma2)) for x in data], axis=0)  # noqa: E731
    return (lambda t: prior(t) * chance(t)), low, high


ONE_PARAMETER = [
    (BetaBinomial(2.0, 3.5), COIN),
    (BetaBinomial(1.0, 1.0), COIN),
    (GammaPoisson(2.5, 0.7), COUNTS),
    (NormalMean(0.5, 2.0, 1.3), REALS),
]


@pytest.mark.parametrize(("model", "data"), ONE_PARAMETER)
def test_posterior_is_prior_times_likelihood(model, data):
    f, low, high = prior_times_likelihood(model, data)
    total = over(f, low, high)
    posterior = model.update(data)
    for x in posterior.law.ppf([0.05, 0.5, 0.9]):
        np.testing.assert_allclose(posterior.law.pdf(x), f(x) / total, rtol=1e-9)
        np.testing.assert_allclose(posterior.law.cdf(x), over(f, low, x) / total, rtol=1e-8)
    mean = over(lambda t: t * f(t), low, high) / total
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(posterior.var, over(lambda t: (t - mean) ** 2 * f(t), low, high) / total, rtol=1e-8)
    grid = np.linspace(*posterior.law.ppf([0.01, 0.99]), 4001)
    assert abs(grid[np.argmax(posterior.law.pdf(grid))] - posterior.mode) <= grid[1] - grid[0]


@pytest.mark.parametrize(("model", "data"), ONE_PARAMETER)
def test_marginal_likelihood_is_the_integral(model, data):
    f, low, high = prior_times_likelihood(model, data)
    np.testing.assert_allclose(model.log_marginal(data), np.log(over(f, low, high)), rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "data"),
    [*ONE_PARAMETER, (NormalGamma(0.5, 1.3, 2.0, 1.7), REALS), (DirichletMultinomial([1, 2, 0.5]), [0, 2, 2, 1])],
)
def test_sequential_batch_and_merged_updates_agree(model, data):
    batch = model.update(data)
    chained = model
    for value in data:
        chained = chained.update([value])
    merged = model.update(data[:2]).merge(model.update(data[2:]))
    for other in (chained, merged):
        for name in model._fields():
            np.testing.assert_allclose(getattr(other, name), getattr(batch, name), rtol=1e-13)
    assert batch.n == chained.n == merged.n == len(data)
    # The chain rule of probability, one observation after the other.
    parts, so_far = 0.0, model
    for value in data:
        parts += so_far.log_marginal([value])
        so_far = so_far.update([value])
    np.testing.assert_allclose(parts, model.log_marginal(data), rtol=1e-12)


@pytest.mark.parametrize(("model", "data"), [*ONE_PARAMETER, (NormalGamma(0.5, 1.3, 2.0, 1.7), REALS)])
def test_weights_are_repetition(model, data):
    w = np.arange(len(data)) % 3
    heavy, repeated = model.update(data, weights=w), model.update(np.repeat(data, w))
    for name in model._fields():
        np.testing.assert_allclose(getattr(heavy, name), getattr(repeated, name), rtol=1e-13)
    np.testing.assert_allclose(model.log_marginal(data, weights=w), model.log_marginal(np.repeat(data, w)), rtol=1e-11)


def test_normal_gamma_is_prior_times_likelihood_in_two_dimensions():
    model = NormalGamma(0.5, 1.3, 2.0, 1.7)

    nodes, weights = special.roots_legendre(400)
    precision, spread = 15 * (nodes + 1), 15 * nodes[:, None]  # up to 30; 15 conditional standard deviations
    mean = 0.7 + spread / np.sqrt(precision)
    log = stats.gamma(model.shape, scale=1 / model.rate).logpdf(precision)
    log = log + stats.norm(model.mean, 1 / np.sqrt(model.kappa * precision)).logpdf(mean)
    log = log + sum(stats.norm(mean, 1 / np.sqrt(precision)).logpdf(x) for x in REALS)
    mass = np.exp(log) / np.sqrt(precision) * np.outer(15 * weights, 15 * weights)
    total = mass.sum()
    np.testing.assert_allclose(model.log_marginal(REALS), np.log(total), rtol=1e-9)
    posterior = model.update(REALS)
    np.testing.assert_allclose(posterior.precision_law.mean, (precision * mass).sum() / total, rtol=1e-8)
    np.testing.assert_allclose(posterior.mean, (mean * mass).sum() / total, rtol=1e-8)
    t = stats.t(2 * posterior.shape, posterior.mean, np.sqrt(posterior.rate / (posterior.shape * posterior.kappa)))
    x = np.linspace(-2, 3, 7)
    np.testing.assert_allclose(posterior.law.pdf(x), t.pdf(x), rtol=1e-10)
    np.testing.assert_allclose(posterior.law.cdf(x), t.cdf(x), rtol=1e-10)
    low, high = 1 / stats.gamma(posterior.shape, scale=1 / posterior.rate).ppf([0.975, 0.025])
    found = posterior.interval(0.95, parameter="variance")
    np.testing.assert_allclose([found.lower, found.upper], [low, high], rtol=1e-10)


# ------------------------------------------------------------------------------------------- worked examples


def test_map_of_the_coin():
    """MAP = (k + b_H - 1)/(n + b_H + b_T - 2)."""
    heads, tails, k, n = 3.0, 5.0, 7, 10
    posterior = BetaBinomial(heads, tails).update_counts(k, n)
    assert posterior.mode == pytest.approx((k + heads - 1) / (n + heads + tails - 2), rel=1e-15)
    assert BetaBinomial(1, 1).update_counts(k, n).mode == pytest.approx(k / n)  # flat prior: the observed share


@pytest.mark.parametrize(("n1", "total"), [(0, 0), (0, 5), (3, 7), (10, 10), (1_826_213, 1_826_213)])
def test_rule_of_succession(n1, total):
    """Laplace: after n1 successes in N trials the next has chance (n1 + 1)/(N + 2)."""
    posterior = BetaBinomial().update_counts(n1, total)
    assert posterior.predictive().mean == pytest.approx((n1 + 1) / (total + 2), rel=1e-15)
    assert posterior.predictive().pmf(1) == pytest.approx((n1 + 1) / (total + 2), rel=1e-12)
    many = DirichletMultinomial(np.ones(4)).update_counts([n1, total - n1, 0, 0]).predictive().mean
    assert many[0] == pytest.approx((n1 + 1) / (total + 4), rel=1e-15)


def test_modes_at_the_edge():
    a, b = np.array([0.5, 1.0, 1.0, 0.5, 3.0, 2.0, 1.0]), np.array([3.0, 3.0, 1.0, 0.5, 0.9, 2.0, 0.5])
    np.testing.assert_array_equal(BetaBinomial(a, b).mode, [0, 0, np.nan, np.nan, 1, 0.5, 1])
    assert "lower end" in str(BetaBinomial(0.5, 3))
    assert "upper end" in str(BetaBinomial(3, 1))
    assert "both ends" in str(BetaBinomial(0.5, 0.5))
    assert "equally likely" in str(BetaBinomial())
    assert GammaPoisson(0.5, 1).mode == 0
    assert "lower end" in str(GammaPoisson(1, 1))
    np.testing.assert_array_equal(DirichletMultinomial([0.5, 0.5, 2]).mode, [0, 0, 1])
    assert np.isnan(DirichletMultinomial([0.5, 2, 2]).mode).all()
    assert np.isnan(DirichletMultinomial([1, 1, 1]).mode).all()
    np.testing.assert_allclose(DirichletMultinomial([1, 2, 4]).mode, [0, 0.25, 0.75])


# ------------------------------------------------------------------------------------------- intervals


PAIRS = [
    (8.0, 4.0),
    (1.0, 1.0),
    (0.5, 7.0),
    (7.0, 0.5),
    (0.4, 0.6),
    (1.02, 9.0),
    (1.0, 5.0),
    (40.0, 2.0),
    (3e3, 7e3),
    (1e6, 2e6),
]


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_beta_limits_are_quantiles(level):
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.uniform(np.log(0.03), np.log(3e5), (2, 3000)))
    low, high = beta_limits(a, b, level, False)
    tail = (1 - level) / 2
    np.testing.assert_allclose(low, special.betaincinv(a, b, tail), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(1 - high, 1 - special.betainccinv(a, b, tail), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("a", "b"), [(1e-3, 1e-3), (2e-3, 5.0)])
def test_a_lower_limit_below_the_smallest_float_is_zero(a, b):
    # A quarter of Beta(0.001, 0.001) lies below 1e-308, which a lower limit there would leave out.
    law = Beta(a, b)
    assert law.ppf(0.025) == law.interval(0.95).lower == 0.0
    assert law.cdf(law.interval(0.95).upper) >= 0.95


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_highest_density_interval_is_the_shortest(a, b, level):
    """Every interval of that probability starts at some lower tail u; none of 4,001 is shorter."""
    found = BetaBinomial(a, b).interval(level, "highest-density")
    law = stats.beta(a, b)
    assert law.cdf(found.upper) - law.cdf(found.lower) == pytest.approx(level, abs=1e-9)
    u = np.linspace(0, 1 - level, 4001)
    widths = law.ppf(np.minimum(u + level, 1)) - law.ppf(u)
    width = found.upper - found.lower
    assert width <= widths.min() * (1 + 1e-9)
    assert width >= widths.min() * (1 - 1e-5)


def test_the_kernel_and_the_slow_way_agree():
    rng = np.random.default_rng(1)
    a, b = np.exp(rng.uniform(np.log(0.1), np.log(2e3), (2, 300)))
    for short in (False, True):
        for ours, slow in zip(beta_limits(a, b, 0.9, short), _by_scipy(a, b, 0.9, short), strict=True):
            np.testing.assert_allclose(ours, slow, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("law", [Gamma, InverseGamma])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_shortest_intervals_of_gammas(law, level):
    shapes, rates = np.array([0.3, 1.0, 1.001, 1.5, 4.0, 90.0, 5e4]), np.array([1.0, 2.0, 3.0, 0.1, 7.0, 1.0, 1e-3])
    found = law(shapes, rates).interval(level, "highest-density")
    for i, (shape, rate) in enumerate(zip(shapes, rates, strict=True)):
        peer = stats.gamma(shape, scale=1 / rate) if law is Gamma else stats.invgamma(shape, scale=rate)
        assert peer.cdf(found.upper[i]) - peer.cdf(found.lower[i]) == pytest.approx(level, abs=1e-9)
        u = np.linspace(0, 1 - level, 2001)[:-1]
        widths = peer.ppf(u + level) - peer.ppf(u)
        assert found.upper[i] - found.lower[i] <= widths.min() * (1 + 1e-9)


def test_intervals_say_what_they_are():
    found = BetaBinomial().update_counts(7, 10).interval(0.9, "highest-density")
    assert found.method == "credible (highest-density)"
    assert (found.estimand, found.n, found.level) == ("chance", 10, 0.9)
    rate = GammaPoisson(1, 1).update([1, 2]).predictive().interval()
    assert rate.method == "predictive (equal-tailed)"
    assert NormalGamma(0, 1, 1, 1).predictive().interval().method.startswith("predictive")


def test_credible_intervals_cover_when_the_prior_is_right():
    """8 checks of 40,000 draws each, two-sided at 1e-7: a false alarm in about 1 of 1.2 million runs of this file."""
    rng = np.random.default_rng(7)
    runs, level = 40_000, 0.9
    low, high = stats.binom.interval(1 - 1e-7, runs, level)
    theta, trials = rng.beta(2, 5, runs), rng.integers(0, 40, runs)
    rate = rng.gamma(3, 1 / 2, runs)
    variance = 1.7 / rng.gamma(2.5, 1, runs)
    mean = 0.5 + np.sqrt(variance / 0.8) * rng.standard_normal(runs)
    x = mean + np.sqrt(variance) * rng.standard_normal((6, runs))
    known = rng.normal(1, 2, runs)
    z = known + 3 * rng.standard_normal((4, runs))
    models = [
        (BetaBinomial(2, 5).update_counts(rng.binomial(trials, theta), trials), theta),
        (GammaPoisson(3, 2).update_counts(rng.poisson(rate * 1.5), 1.5), rate),
        (NormalGamma(0.5, 0.8, 2.5, 1.7).update(x), mean),
        (NormalMean(1, 4, 9).update(z), known),
    ]
    for model, truth in models:
        for kind in ("equal-tailed", "highest-density"):
            found = model.interval(level, kind)
            hits = np.count_nonzero((found.lower <= truth) & (truth <= found.upper))
            assert low <= hits <= high, (model._says(), kind)


# ------------------------------------------------------------------------------------------- prediction


def test_predictive_is_the_integral_over_the_posterior():
    posterior = BetaBinomial(2.0, 3.5).update(COIN)
    k = np.arange(6)
    direct = [over(lambda t: stats.binom.pmf(j, 5, t) * posterior.law.pdf(t), 0, 1) for j in k]  # noqa: B023
    np.testing.assert_allclose(posterior.predictive(5).pmf(k), direct, rtol=1e-9)
    posterior = GammaPoisson(2.5, 0.7).update(COUNTS)
    direct = [over(lambda t: stats.poisson.pmf(j, 2 * t) * posterior.law.pdf(t), 0, 30) for j in k]  # noqa: B023
    np.testing.assert_allclose(posterior.predictive(2.0).pmf(k), direct, rtol=1e-9)
    posterior = NormalMean(0.5, 2.0, 1.3).update(REALS)
    direct = over(lambda t: stats.norm.pdf(2.0, t, np.sqrt(1.3)) * posterior.law.pdf(t), -15, 15)
    np.testing.assert_allclose(posterior.predictive().pdf(2.0), direct, rtol=1e-9)
    posterior = NormalGamma(0.5, 1.3, 2.0, 1.7).update(REALS)
    before = posterior.log_marginal([2.0])  # p(next | data) is a ratio of marginal likelihoods
    np.testing.assert_allclose(posterior.predictive().logpdf(2.0), before, rtol=1e-12)


@pytest.mark.parametrize(("a", "b"), [(2.0, 3.5), (0.3, 0.4), (1.0, 1.0), (30.0, 0.7), (200.0, 900.0)])
@pytest.mark.parametrize("m", [1, 12, 700])
def test_beta_binomial_law(a, b, m):
    ours, peer = BetaBinomial(a, b).predictive(m), stats.betabinom(m, a, b)
    k = np.unique(np.linspace(-1, m + 1, 40).round())
    np.testing.assert_allclose(ours.pmf(k), peer.pmf(k), rtol=1e-9, atol=1e-300)
    cumulated = np.cumsum(peer.pmf(np.arange(m + 1)))
    inside = k[(k >= 0) & (k <= m)].astype(int)
    np.testing.assert_allclose(ours.cdf(inside), cumulated[inside], rtol=1e-9)
    np.testing.assert_allclose(ours.cdf(k) + ours.sf(k), 1.0, rtol=1e-12)
    np.testing.assert_allclose([ours.mean, ours.var], [peer.mean(), peer.var()], rtol=1e-10)
    for q in (0.0, 0.01, 0.3, 0.5, 0.99):
        j = ours.ppf(q)
        assert ours.cdf(j) >= q * (1 - 1e-12)
        assert j == 0 or ours.cdf(j - 1) < q
    if np.isfinite(ours.mode):
        np.testing.assert_allclose(peer.pmf(ours.mode), peer.pmf(np.arange(m + 1)).max(), rtol=1e-9)


@pytest.mark.parametrize(("a", "b"), [(2.0, 3.5), (0.5, 0.5), (60.0, 900.0), (1e4, 3e4)])
def test_sum_and_integral_give_one_distribution_function(a, b):
    m, k = np.full(5, 5_000.0), np.array([10.0, 300.0, 1250.0, 2500.0, 4000.0])
    full = np.full(5, a), np.full(5, b)
    law = BetaBinomial(a, b).predictive(5_000)
    np.testing.assert_allclose(_integral(k, m, *full, False), law.cdf(k), rtol=1e-7, atol=1e-13)
    np.testing.assert_allclose(_integral(k, m, *full, True), law.sf(k), rtol=1e-7, atol=1e-13)


def test_negative_binomial_law():
    ours, peer = GammaPoisson(3.2, 0.4).predictive(2.0), stats.nbinom(3.2, 0.4 / 2.4)
    k = np.arange(-1, 60)
    np.testing.assert_allclose(ours.pmf(k), peer.pmf(k), rtol=1e-10)
    np.testing.assert_allclose(ours.cdf(k), peer.cdf(k), rtol=1e-10)
    np.testing.assert_allclose(ours.sf(k), peer.sf(k), rtol=1e-10)
    np.testing.assert_array_equal(ours.ppf([0.01, 0.5, 0.975]), peer.ppf([0.01, 0.5, 0.975]))
    np.testing.assert_allclose([ours.mean, ours.var], [peer.mean(), peer.var()], rtol=1e-12)
    assert ours.pmf(ours.mode) == pytest.approx(max(peer.pmf(k)), rel=1e-10)


def test_dirichlet_multinomial_law():
    alpha = np.array([0.7, 2.0, 1.3])
    ours, peer = DirichletMultinomial(alpha).predictive(6), stats.dirichlet_multinomial(alpha, 6)
    grid = np.array([(i, j, 6 - i - j) for i in range(7) for j in range(7 - i)])
    np.testing.assert_allclose(ours.pmf(grid), [peer.pmf(row) for row in grid], rtol=1e-10)
    assert ours.pmf(grid).sum() == pytest.approx(1)
    assert ours.pmf([1, 1, 1]) == 0
    np.testing.assert_allclose(ours.mean, peer.mean())
    np.testing.assert_allclose(ours.var, peer.var())
    np.testing.assert_allclose(ours.cov, peer.cov())
    by_hand = [ours.pmf(grid)[grid[:, 1] == j].sum() for j in range(7)]
    np.testing.assert_allclose(ours.marginal(1).pmf(np.arange(7)), by_hand, rtol=1e-10)
    # K = 2 is the beta-binomial.
    pair = DirichletMultinomial([1.5, 4.0])
    assert pair.log_marginal_counts([3, 5]) == pytest.approx(
        BetaBinomial(1.5, 4.0).log_marginal_counts(3, 8), rel=1e-13
    )
    np.testing.assert_allclose(pair.interval().lower[0], BetaBinomial(1.5, 4.0).interval().lower)


def test_draws_follow_their_laws():
    """Kolmogorov-Smirnov at 1e-7 for 6 samples; means of counts within 6 standard errors."""
    n = 20_000
    laws = {
        "chance": (BetaBinomial(0.7, 3).sample(n, 0), stats.beta(0.7, 3)),
        "rate": (GammaPoisson(2, 3).sample(n, 1), stats.gamma(2, scale=1 / 3)),
        "mean": (NormalMean(1, 4, 1).sample(n, 2), stats.norm(1, 2)),
        "t": (NormalGamma(1, 2, 3, 4).sample(n, 3)[0], stats.t(6, 1, np.sqrt(4 / 6))),
        "variance": (NormalGamma(1, 2, 3, 4).sample(n, 3)[1], stats.invgamma(3, scale=4)),
        "category": (DirichletMultinomial([0.05, 2, 1]).sample(n, 4)[:, 1], stats.beta(2, 1.05)),
    }
    for name, (x, law) in laws.items():
        assert stats.kstest(x, law.cdf).pvalue > 1e-7, name
    for law in (BetaBinomial(2, 3).predictive(9), GammaPoisson(2, 3).predictive(5)):
        x = law.rvs(n, 5)
        assert abs(x.mean() - law.mean) < 6 * law.std / np.sqrt(n)
    x = DirichletMultinomial([1, 2, 3]).predictive(7).rvs(n, 6)
    assert (x.sum(axis=1) == 7).all()
    assert np.abs(x.mean(axis=0) - 7 * np.array([1, 2, 3]) / 6).max() < 0.1
    np.testing.assert_array_equal(BetaBinomial([1, 2], [3, 4]).sample((5, 3), 0).shape, (5, 3, 2))
    assert BetaBinomial(2, 3).sample(4, 9).tolist() == BetaBinomial(2, 3).sample(4, 9).tolist()


# ------------------------------------------------------------------------------------------- evidence


def test_bayes_factors():
    """115 heads in 200 tosses, fair coin against an unknown chance: 1.2 in favour of the fair coin."""
    fair = BetaBinomial().bayes_factor_counts(0.5, 115, 200)
    direct = np.log(1 / 201) - stats.binom(200, 0.5).logpmf(115)
    assert fair.log_bayes_factor == pytest.approx(direct, rel=1e-10)
    assert fair.strength == "barely worth mentioning"
    assert fair.probability() == pytest.approx(1 / (1 + np.exp(-direct)))
    both = BetaBinomial(2, 3).bayes_factor(BetaBinomial(4, 1), COIN)
    expected = BetaBinomial(2, 3).log_marginal(COIN) - BetaBinomial(4, 1).log_marginal(COIN)
    assert both.log_bayes_factor == pytest.approx(expected, rel=1e-12)
    # The number of orders cancels.
    counts = BetaBinomial(2, 3).bayes_factor_counts(BetaBinomial(4, 1), 5, 7)
    assert counts.log_bayes_factor == pytest.approx(expected, rel=1e-11)
    poisson = GammaPoisson(2, 1).bayes_factor(2.5, COUNTS).log_bayes_factor
    direct = GammaPoisson(2, 1).log_marginal(COUNTS) - stats.poisson(2.5).logpmf(COUNTS).sum()
    assert poisson == pytest.approx(direct, rel=1e-10)
    normal = NormalMean(0, 1, 1).bayes_factor(0.0, REALS).log_bayes_factor
    assert normal == pytest.approx(NormalMean(0, 1, 1).log_marginal(REALS) - stats.norm(0, 1).logpdf(REALS).sum())
    given = DirichletMultinomial([1, 1, 1]).bayes_factor_counts([0.2, 0.3, 0.5], [2, 3, 9]).log_bayes_factor
    direct = DirichletMultinomial([1, 1, 1]).log_marginal_counts([2, 3, 9])
    assert given == pytest.approx(direct - stats.multinomial(14, [0.2, 0.3, 0.5]).logpmf([2, 3, 9]), rel=1e-10)
    # Two models of the same data: known against unknown variance.
    across = NormalGamma(0, 1, 2, 2).bayes_factor(NormalMean(0, 1, 1), REALS).log_bayes_factor
    assert across == pytest.approx(
        NormalGamma(0, 1, 2, 2).log_marginal(REALS) - NormalMean(0, 1, 1).log_marginal(REALS)
    )


@pytest.mark.parametrize(
    ("log", "word"), [(0.0, "barely"), (1.0, "barely"), (-1.2, "positive"), (3.5, "strong"), (-6.0, "very strong")]
)
def test_words_of_the_scale(log, word):
    factor = BayesFactor(log, "A", "B", 10)
    assert factor.strength.startswith(word)
    assert ("no evidence" in str(factor)) == (log == 0)
    assert np.isinf(BayesFactor(1e5, "A", "B", 1).bayes_factor)


# ------------------------------------------------------------------------------------------- huge and tiny


def log_gamma(z: Decimal) -> Decimal:
    """Stirling's series in 60 digits, for z so large that four terms have them all."""
    half_log_2pi = Decimal("0.918938533204672741780329736405617639861397473637783412817152")
    series = 1 / (12 * z) - 1 / (360 * z**3) + 1 / (1260 * z**5) - 1 / (1680 * z**7)
    return (z - Decimal("0.5")) * z.ln() - z + half_log_2pi + series


def test_logarithms_keep_their_digits():
    """Against 60 digits: u = v + 10^6 for v = 10^12, B(10^12, 1/2), and a beta density of such parameters."""
    with localcontext() as context:
        context.prec = 60
        big = Decimal(10) ** 12
        u = big + 10**6
        exact = u * big.ln() - big - log_gamma(u + 1)
        assert float(log_poisson(1e12 + 1e6, 1e12)) == pytest.approx(float(exact), rel=1e-13)
        half_log_pi = Decimal("0.572364942924700087071713675676529355823647406457655785756812")
        exact = log_gamma(big) + half_log_pi - log_gamma(big + Decimal("0.5"))
        assert float(log_beta(1e12, 0.5)) == pytest.approx(float(exact), rel=1e-14)
        near = 0.33333366666
        x = Decimal(near)  # the float itself, digit by digit
        exact = big * x.ln() + 2 * big * (1 - x).ln() - log_gamma(big) - log_gamma(2 * big) + log_gamma(3 * big)
        ours = log_beta_weight(1e12, 2e12, near, 1 - near)
        assert float(ours) == pytest.approx(float(exact), rel=1e-9)


def test_huge_counts_and_tiny_priors():
    posterior = BetaBinomial(1e-12, 1e-12).update_counts(3e11, 1e12)
    assert posterior.mean == pytest.approx(0.3, rel=1e-15)
    for kind in ("equal-tailed", "highest-density"):
        found = posterior.interval(0.95, kind)
        reach = 1.959963985 * np.sqrt(0.21 / 1e12)
        np.testing.assert_allclose([found.lower - 0.3, found.upper - 0.3], [-reach, reach], rtol=1e-4)
    law = posterior.predictive(10**12)
    sd = law.std
    assert law.cdf(law.mean) == pytest.approx(0.5, abs=1e-5)
    np.testing.assert_allclose(law.cdf(law.mean + sd * np.array([-2, 1])), stats.norm.cdf([-2, 1]), rtol=1e-4)
    np.testing.assert_allclose(law.pmf(law.mean) * sd, 1 / np.sqrt(2 * np.pi), rtol=1e-4)
    assert np.isfinite(law.interval().lower)
    events = GammaPoisson(1e-9, 1e-9).update_counts(1e12, 1e3)
    assert events.mean == pytest.approx(1e9)
    assert abs(events.predictive().interval().upper - 1e9) < 1e5
    assert BetaBinomial(1e-300, 1e-300).predictive(3).pmf([0, 1, 3]) == pytest.approx([0.5, 0, 0.5])
    assert BetaBinomial(1e-300, 1e-300).log_marginal([1, 1, 1]) == pytest.approx(np.log(0.5))
    theta = DirichletMultinomial(np.full(4, 1e-8)).sample(100, 0)
    np.testing.assert_allclose(theta.sum(axis=1), 1)
    shifted = NormalGamma(0, 1e-9, 1e-9, 1e-9).update(1e9 + REALS)
    np.testing.assert_allclose(shifted.rate, 0.5 * ((REALS - REALS.mean()) ** 2).sum() + 0.5e9, rtol=1e-6)
    assert np.isfinite(shifted.log_marginal([1e9]))


def test_log_beta_binomial_sums_to_one():
    k = np.arange(2001.0)
    for a, b in ((0.01, 5.0), (1e7, 3e7), (300.0, 0.2)):
        assert np.exp(log_beta_binomial(k, np.full(2001, 2000.0), a, b)).sum() == pytest.approx(1, rel=1e-9)


# ------------------------------------------------------------------------------------------- many groups


def test_groups_equal_one_at_a_time():
    rng = np.random.default_rng(3)
    n = rng.integers(0, 30, 50)
    k = rng.binomial(n, 0.3)
    a = rng.uniform(0.3, 3, 50)
    every = BetaBinomial(a, 2.0).update_counts(k, n)
    frame = every.to_frame()
    for i in (0, 7, 49):
        one = BetaBinomial(a[i], 2.0).update_counts(k[i], n[i])
        assert one.interval(kind="highest-density").lower == every.interval(kind="highest-density").lower[i]
        np.testing.assert_array_equal(frame.iloc[i][["a", "b", "mean", "std"]], [one.a, one.b, one.mean, one.std])
    assert every.predictive(5).pmf(2).shape == (50,)
    np.testing.assert_allclose(every.predictive(5).pmf(np.arange(6)[:, None]).sum(axis=0), 1)


def test_labels_columns_and_series_name_the_groups():
    y, g = np.array([1, 0, 1, 1, 0]), np.array(["b", "a", "b", "a", "a"])
    by_label = BetaBinomial().update(y, groups=g)
    assert by_label.names == ("a", "b")
    np.testing.assert_array_equal([by_label.a, by_label.b], [[2, 3], [3, 1]])
    table = pd.DataFrame({"y": y, "g": g}).groupby("g").y.agg(["sum", "size"])
    by_series = BetaBinomial().update_counts(table["sum"], table["size"])
    assert by_series.names == by_label.names
    assert by_series.interval() == by_label.interval()
    # A later batch in another order, and without one of the groups.
    later = by_label.update([1], groups=["b"])
    np.testing.assert_array_equal(later.a, [2, 4])
    np.testing.assert_array_equal(later.n, [3, 3])
    turned = by_label.update_counts(pd.Series([1, 0], index=["b", "a"]), pd.Series([1, 0], index=["b", "a"]))
    np.testing.assert_array_equal(turned.a, later.a)
    columns = NormalMean(0, 1, 1).update(pd.DataFrame({"u": [1.0, 2.0], "v": [3.0, 5.0]}))
    assert columns.names == ("u", "v")
    np.testing.assert_allclose(columns.mean, [1.0, 8 / 3])
    frame = pd.DataFrame({"x": [1.0, 4.0, 2.0, 8.0, 5.0], "g": g})
    moments = frame.groupby("g").x.agg(["size", "mean", "var"])
    from_moments = NormalGamma(0, 1, 1, 1).update_moments(moments["size"], moments["mean"], moments["var"])
    raw = NormalGamma(0, 1, 1, 1).update(frame["x"], groups=frame["g"])
    np.testing.assert_allclose(from_moments.rate, raw.rate)
    single = NormalGamma(0, 1, 1, 1).update_moments([1, 0], [2.0, np.nan], [np.nan, np.nan])
    np.testing.assert_allclose(single.kappa, [2, 1])
    known = NormalMean(0, 1, 1).update_moments(moments["size"], moments["mean"])
    np.testing.assert_allclose(known.mean, NormalMean(0, 1, 1).update(frame["x"], groups=frame["g"]).mean)
    words = DirichletMultinomial([1, 1], categories=("no", "yes")).update(["yes", "no", "yes"], groups=[1, 1, 2])
    np.testing.assert_array_equal(words.alpha, [[2, 2], [1, 2]])
    counts = pd.DataFrame([[2, 0], [1, 1]], columns=["yes", "no"], index=["u", "v"])
    swapped = DirichletMultinomial([1, 1], categories=("no", "yes")).update_counts(counts)
    np.testing.assert_array_equal(swapped.alpha, [[1, 3], [2, 2]])
    assert swapped.marginal("yes").interval().names == ("u", "v")


def test_one_sample_many_priors():
    priors = BetaBinomial([1, 10, 100], [1, 10, 100])
    np.testing.assert_array_equal(priors.update(COIN).a, [6, 15, 105])
    assert priors.log_marginal(COIN).shape == (3,)


def test_exposure_of_counts():
    model = GammaPoisson(2, 1)
    e = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    posterior = model.update(COUNTS, exposure=e)
    assert (posterior.shape, posterior.rate) == (16.0, 8.5)
    same = model.update_counts(COUNTS.sum(), e.sum())
    assert (same.shape, same.rate) == (posterior.shape, posterior.rate)
    direct = over(
        lambda t: (
            stats.gamma.pdf(t, 2)
            * np.prod([stats.poisson.pmf(x, t * u) for x, u in zip(COUNTS, e, strict=True)], axis=0)
        ),
        0,
        40,
    )
    assert model.log_marginal(COUNTS, exposure=e) == pytest.approx(np.log(direct), rel=1e-9)


def test_repeated_groups_are_worked_out_once_and_the_same():
    rng = np.random.default_rng(4)
    n = rng.integers(0, 30, 6_000)
    k = rng.binomial(n, 0.3)
    for kind in ("equal-tailed", "highest-density"):
        every = BetaBinomial(1.5, 2.0).update_counts(k, n).interval(kind=kind)
        part = BetaBinomial(1.5, 2.0).update_counts(k[:500], n[:500]).interval(kind=kind)
        np.testing.assert_array_equal(every.lower[:500], part.lower)
        np.testing.assert_array_equal(every.upper[:500], part.upper)
    rates = GammaPoisson(1.5, 2.0).update_counts(k, n + 1.0).interval()
    few = GammaPoisson(1.5, 2.0).update_counts(k[:500], n[:500] + 1.0).interval()
    np.testing.assert_array_equal(rates.upper[:500], few.upper)


def test_a_million_groups_at_once():
    n = np.full(1_000_000, 50)
    k = np.arange(1_000_000) % 51
    np.testing.assert_allclose(BetaBinomial(1, 1).update_counts(k, n).mean, (k + 1) / 52, rtol=1e-12)


# ------------------------------------------------------------------------------------------- showing


def test_everything_prints_frames_and_draws():
    rng = np.random.default_rng(0)
    things = [
        BetaBinomial(2, 2).update_counts(7, 10),
        BetaBinomial(0.5, 0.5).update_counts(0, 12),
        BetaBinomial().update_counts(rng.integers(0, 5, 100), 10),
        GammaPoisson(1, 0.2).update(COUNTS),
        NormalMean(0, 1, 1),
        NormalGamma(0, 0.01, 1, 1).update(REALS),
        NormalGamma(0, 0.01, 1, 1).variance_law,
        DirichletMultinomial([1, 1, 1]).update_counts([15, 3, 0]),
        DirichletMultinomial([1, 1, 1]).update_counts([[15, 3, 0], [0, 0, 4]]),
        DirichletMultinomial([1, 1, 1]).predictive(10),
        BetaBinomial(8, 4).predictive(20),
        BetaBinomial(8, 4).predictive(5000),
        GammaPoisson([2, 5.0], [1, 0.1]).predictive(),
        BetaBinomial().bayes_factor_counts(0.5, 140, 200),
        BetaBinomial().bayes_factor_counts(0.5, [140, 90], 200),
    ]
    for thing in things:
        assert len(str(thing)) > 20
        assert "<table" in thing._repr_html_()
        assert len(thing.to_frame()) >= 1
        axes = thing.plot()
        assert axes.get_title(loc="left")
        plt.close(axes.figure)


def test_models_are_frozen_and_travel():
    model = BetaBinomial(2, 2).update_counts([7, 3], 10)
    with pytest.raises(AttributeError):
        model.a = 3
    with pytest.raises(ValueError, match="read-only"):
        model.a[0] = 3
    again = pickle.loads(pickle.dumps(model))
    assert again.interval() == model.interval()


# ------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: BetaBinomial(0, 1), "no mass"),
        (lambda: BetaBinomial(-1, 1), "a = -1 is out of range"),
        (lambda: BetaBinomial([1, np.nan], 1), "position 1"),
        (lambda: BetaBinomial("x", 1), "not a number"),
        (lambda: BetaBinomial([1, 2], [1, 2, 3]), "different lengths"),
        (lambda: BetaBinomial([1, 2], 1, names=("a",)), "1 names"),
        (lambda: BetaBinomial().update([0, 1, 2]), "contains 2 in row 2"),
        (lambda: BetaBinomial().update([0, np.nan]), "NaN in row 1"),
        (lambda: BetaBinomial().update([]), "empty"),
        (lambda: BetaBinomial().update([0, 1], weights=[1, -1]), "weights contains -1 in row 1"),
        (lambda: BetaBinomial().update([0, 1], weights=[1]), "weights has shape"),
        (lambda: BetaBinomial().update([0, 1], groups=["a"]), "groups has 1 entries"),
        (lambda: BetaBinomial().update([0, 1], groups=["a", None]), "groups contains NaN in row 1"),
        (lambda: BetaBinomial().update_counts(11, 10), "11 successes in 10 trials"),
        (lambda: BetaBinomial().update_counts([1, 3], [2, 2]), "position 1"),
        (lambda: BetaBinomial().update_counts(-1, 10), "successes contains -1"),
        (lambda: BetaBinomial().update_counts(np.nan, 10), "successes contains NaN"),
        (lambda: BetaBinomial().update_counts("a", 10), "non-numeric value"),
        (lambda: BetaBinomial().update_counts([1, 2, 3], [4, 5]), "3 entries but trials has 2"),
        (lambda: BetaBinomial([1, 2], 1).update_counts([1, 2, 3], 4), "3 groups, the prior has 2"),
        (lambda: BetaBinomial([1, 2], 1, names=("a", "b")).update([1], groups=["z"]), "'z' has no prior"),
        (lambda: BetaBinomial().predictive(1.5), "fraction"),
        (lambda: BetaBinomial().interval(1.5), "level"),
        (lambda: BetaBinomial().interval(0.9, "widest"), "kind"),
        (lambda: BetaBinomial().bayes_factor(1.5, [0, 1]), "not a probability"),
        (lambda: BetaBinomial().merge(BetaBinomial(2, 2).update([1])), "different priors"),
        (lambda: BetaBinomial().merge(GammaPoisson(1, 1)), "cannot be merged"),
        (lambda: BetaBinomial().law.ppf(2.0), "outside"),
        (lambda: BetaBinomial().sample(-1), "size"),
        (lambda: DirichletMultinomial([1, 0, 1]), "position 1 gives that category no mass"),
        (lambda: DirichletMultinomial([1]), "at least two categories"),
        (lambda: DirichletMultinomial([1, 1]).update_counts([1, 2, 3]), "shape"),
        (lambda: DirichletMultinomial([1, 1]).update_counts([1, -2]), "counts contains -2"),
        (lambda: DirichletMultinomial([1, 1]).update([0, 2]), "row 1, which is not a category"),
        (lambda: DirichletMultinomial([1, 1]).update([0.0, np.nan]), "row 1, which is not a category"),
        (lambda: DirichletMultinomial([1, 1]).marginal("x"), "not a category"),
        (lambda: DirichletMultinomial([1, 1]).bayes_factor_counts([0.5, 0.6], [1, 2]), "sums to 1.1"),
        (lambda: GammaPoisson(1, 0), "no mass"),
        (lambda: GammaPoisson(1, 1).update([1, -2]), "row 1, which is not a count"),
        (lambda: GammaPoisson(1, 1).update([1, 2.5]), "2.5 in row 1"),
        (lambda: GammaPoisson(1, 1).update([1, 2], exposure=[1, 0]), "exposure is 0 in row 1"),
        (lambda: GammaPoisson(1, 1).update_counts(3, 0), "exposure of 0"),
        (lambda: GammaPoisson(1, 1).predictive(0), "exposure contains 0"),
        (lambda: NormalMean(0, -1, 1), "variance = -1"),
        (lambda: NormalMean(np.inf, 1, 1), "mean = inf"),
        (lambda: NormalMean(0, 1, 1).update(["a"]), "text"),
        (lambda: NormalMean(0, 1, 1).update_moments(3, np.nan), "mean contains NaN"),
        (lambda: NormalGamma(0, 1, 1, 1).update_moments(3, 0, -1), "variance contains -1"),
        (lambda: NormalGamma(0, 1, 1, 1).bayes_factor(0.0, [1.0]), "not a valid hypothesis"),
        (lambda: NormalGamma(0, 1, 1, 1).interval(parameter="median"), "parameter"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises(AssayError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    assert isinstance(caught.value, DataError | ParameterError | TypeError)


def test_laws_outside_their_range():
    law = Beta(np.asarray(0.5), np.asarray(2.0))
    np.testing.assert_array_equal(law.pdf([-1.0, 0.0, 1.0, 2.0]), [0, np.inf, 0, 0])
    np.testing.assert_array_equal(law.cdf([-1.0, 2.0]), [0, 1])
    assert np.isnan(law.pdf(np.nan))
    gamma = Gamma(np.asarray(1.0), np.asarray(2.0))
    np.testing.assert_allclose(gamma.pdf([-1.0, 0.0]), [0, 2])
    inverse = InverseGamma(np.asarray(1.5), np.asarray(2.0))
    np.testing.assert_allclose([inverse.mean, inverse.var], [4.0, np.inf])
    np.testing.assert_array_equal(inverse.cdf([0.0, np.inf]), [0, 1])
