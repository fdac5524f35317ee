"""Decision rules: closed forms, exact sizes, minimax equality, and densities of every make."""

import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from assay.bayes import BayesRule, minimax_test, neyman_pearson
from assay.errors import DataError, DataTypeError, ParameterError

norm = stats.norm


@pytest.mark.parametrize(("mu0", "mu1"), [(0.0, 2.0), (2.0, 0.0), (-1.0, 0.5)])
@pytest.mark.parametrize("prior", [0.5, 0.2, 0.9])
def test_threshold_of_two_normals(mu0, mu1, prior):
    """x* = (mu0 + mu1)/2 - sigma^2 / (mu1 - mu0) log(pi / (1 - pi)); for mu1 < mu0 class 1 lies *below* it."""
    sigma = 1.3
    rule = BayesRule([norm(mu0, sigma), norm(mu1, sigma)], [1 - prior, prior])
    cut = (mu0 + mu1) / 2 - sigma**2 / (mu1 - mu0) * np.log(prior / (1 - prior))
    above = int(mu1 > mu0)
    assert rule.decide([cut - 1e-6, cut + 1e-6]).tolist() == [1 - above, above]
    tail0 = norm.sf(cut, mu0, sigma) if mu1 > mu0 else norm.cdf(cut, mu0, sigma)
    tail1 = norm.cdf(cut, mu1, sigma) if mu1 > mu0 else norm.sf(cut, mu1, sigma)
    assert rule.bayes_risk().estimate == pytest.approx((1 - prior) * tail0 + prior * tail1, rel=1e-10)
    table = rule.risk()
    assert table["risk"].to_numpy() == pytest.approx([tail0, tail1], rel=1e-9)
    np.testing.assert_allclose(table[[0, 1]].sum(axis=1), 1)


def test_no_other_rule_costs_less():
    """Bayes risk against every threshold pair on a grid, unequal variances and costs."""
    cost = np.array([[0.0, 3.0], [1.0, 0.0]])
    f0, f1 = norm(0, 1), norm(0.5, 2)
    risk = BayesRule([f0, f1], [0.6, 0.4], cost).bayes_risk().estimate
    grid = np.linspace(-6, 6, 241)
    a, b = (part.ravel() for part in np.meshgrid(grid, grid))
    keep = a < b
    between0, between1 = f0.cdf(b[keep]) - f0.cdf(a[keep]), f1.cdf(b[keep]) - f1.cdf(a[keep])
    rivals = 0.6 * 3 * (1 - between0) + 0.4 * between1
    assert risk <= rivals.min() + 1e-12
    assert risk == pytest.approx(rivals.min(), abs=2e-4)


def test_posterior_and_refusal():
    rule = BayesRule({"a": norm(0, 1), "b": norm(2, 1)}, [0.3, 0.7])
    posterior = rule.posterior([0.0, 1.0, 60.0])
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    assert posterior[1].tolist() == pytest.approx([0.3, 0.7])
    assert rule.decide([0.0, 2.0]).tolist() == ["a", "b"]
    refusing = BayesRule({"a": norm(0, 1), "b": norm(2, 1)}, [0.5, 0.5], [[0, 1, 0.2], [1, 0, 0.2]])
    assert refusing.decide([-1.0, 1.0, 3.0]).tolist() == [0, 2, 1]
    apart = BayesRule([stats.uniform(0, 1), stats.uniform(2, 1)], [0.4, 0.6])
    assert apart.posterior([5.0]).ravel().tolist() == [0.4, 0.6]
    assert apart.bayes_risk().estimate == pytest.approx(0, abs=1e-12)


def test_counts_are_summed():
    f0, f1 = stats.poisson(2), stats.poisson(5)
    x = np.arange(60)
    least = np.minimum(0.4 * f0.pmf(x), 0.6 * f1.pmf(x)).sum()
    assert BayesRule([f0, f1], [0.4, 0.6]).bayes_risk().estimate == pytest.approx(least, rel=1e-10)


def test_more_dimensions_are_drawn_with_an_interval():
    f = [stats.multivariate_normal([0, 0]), stats.multivariate_normal([2, 0])]
    interval = BayesRule(f).bayes_risk(n_draws=20_000, level=0.9999)
    assert norm.sf(1) in interval
    assert interval.upper - interval.lower < 0.03
    test = neyman_pearson(*f, 0.05, n_draws=20_000)
    assert test.size == pytest.approx(0.05, abs=1e-9)
    assert test.power == pytest.approx(norm.sf(norm.isf(0.05) - 2), abs=0.03)
    assert 0.05 in test.size_interval
    assert test.decide([[5.0, 0.0], [-5.0, 0.0]]).tolist() == [True, False]


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5, 0.99])
@pytest.mark.parametrize("shift", [1.5, -1.5])
def test_neyman_pearson_of_two_normals(alpha, shift):
    """Reject beyond z_alpha on the side of the alternative; eta = exp(shift x - shift^2 / 2) there."""
    test = neyman_pearson(norm(0, 1), norm(shift, 1), alpha)
    z = norm.isf(alpha)
    assert test.size == pytest.approx(alpha, rel=1e-9)
    assert test.power == pytest.approx(norm.sf(z - abs(shift)), rel=1e-8)
    assert test.log_threshold == pytest.approx(abs(shift) * z - shift**2 / 2, abs=1e-8)
    low, high = test.regions()[0]
    assert (low if shift > 0 else -high) == pytest.approx(z, abs=1e-8)
    assert test.randomisation == 0
    assert test.decide([5 * shift, -5 * shift]).tolist() == [True, False]


@pytest.mark.parametrize("alpha", [0.0016, 0.05, 0.9, 0.9985])
def test_two_sided_regions(alpha):
    wide = neyman_pearson(norm(0, 1), norm(0, 2), alpha)
    edge = norm.isf(alpha / 2)
    assert wide.size == pytest.approx(alpha, rel=1e-8)
    assert wide.power == pytest.approx(2 * norm.sf(edge / 2), rel=1e-7)
    narrow = neyman_pearson(norm(0, 1), norm(0, 0.5), alpha)
    assert narrow.size == pytest.approx(alpha, rel=1e-8)
    assert narrow.power == pytest.approx(1 - 2 * norm.sf(2 * norm.isf((1 - alpha) / 2)), rel=1e-7)


@pytest.mark.parametrize(
    ("f0", "f1"),
    [
        (stats.poisson(2), stats.poisson(5)),
        (stats.poisson(5), stats.poisson(2)),
        (stats.binom(10, 0.5), stats.binom(10, 0.7)),
        (stats.binom(3, 0.5), stats.binom(5, 0.5)),
        (stats.geom(0.3), stats.geom(0.5)),
        (stats.uniform(0, 1), stats.uniform(0.5, 1)),
        (stats.laplace(0), stats.laplace(1)),
        (stats.expon(), stats.expon(scale=3)),
        (stats.t(3), norm(1, 1)),
    ],
)
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_the_size_is_exactly_alpha(f0, f1, alpha):
    test = neyman_pearson(f0, f1, alpha)
    assert test.size == pytest.approx(alpha, rel=1e-8)
    assert test.power >= alpha - 1e-12
    if isinstance(f0.dist, stats.rv_discrete):
        x = np.arange(0, 200)
        chance = test.chance(x.astype(float))
        assert f0.pmf(x) @ chance == pytest.approx(alpha, rel=1e-9)
        assert f1.pmf(x) @ chance == pytest.approx(test.power, rel=1e-9)
    else:
        x = np.linspace(-60, 60, 240_001)
        assert np.trapezoid(f0.pdf(x) * test.chance(x), x) == pytest.approx(alpha, abs=6e-4)
        assert np.trapezoid(f1.pdf(x) * test.chance(x), x) == pytest.approx(test.power, abs=6e-4)


def test_binomial_by_hand():
    """Ten throws, 1/2 against 7/10: P0(K >= 9) = 11/1024 and P0(K = 8) = 45/1024, which fix gamma."""
    test = neyman_pearson(stats.binom(10, 0.5), stats.binom(10, 0.7), 0.05)
    gamma = (0.05 - 11 / 1024) / (45 / 1024)
    assert test.randomisation == pytest.approx(gamma, rel=1e-10)
    assert test.chance([7, 8, 9]).tolist() == pytest.approx([0, gamma, 1])
    assert test.threshold == pytest.approx(1.4**8 * 0.6**2, rel=1e-10)
    rejected = test.decide(np.full(4000, 8.0), rng=0)
    assert rejected.mean() == pytest.approx(gamma, abs=0.03)
    np.testing.assert_array_equal(rejected, test.decide(np.full(4000, 8.0), rng=0))


def test_no_test_of_the_same_size_is_more_powerful():
    """Linear programme over all randomised tests of a small experiment."""
    from scipy.optimize import linprog

    f0, f1 = stats.binom(6, 0.4), stats.binom(6, 0.55)
    x = np.arange(7)
    best = linprog(-f1.pmf(x), A_ub=[f0.pmf(x)], b_ub=[0.07], bounds=(0, 1))
    assert neyman_pearson(f0, f1, 0.07).power == pytest.approx(-best.fun, rel=1e-9)
    games = linprog([0, 0, 0, 0, 0, 0, 0, 1], A_ub=[[*f0.pmf(x), -1], [*-f1.pmf(x), -1]], b_ub=[0, -1], bounds=(0, 1))
    minimax = minimax_test(f0, f1)
    assert max(minimax.risks) == pytest.approx(games.fun, rel=1e-9)


def test_minimax_equalises_and_is_bayes_for_its_prior():
    cost = [[0, 2], [1, 0]]
    f0, f1 = norm(0, 1), norm(2, 1.5)
    test = minimax_test(f0, f1, cost)
    assert test.risks[0] == pytest.approx(test.risks[1], rel=1e-9)
    bayes = BayesRule([f0, f1], [1 - test.prior, test.prior], cost).bayes_risk().estimate
    assert bayes == pytest.approx(test.risks[0], rel=1e-8)
    for prior in (0.2, 0.4, 0.6, 0.8):  # least favourable: every other prior lets Bayes do better
        assert BayesRule([f0, f1], [1 - prior, prior], cost).bayes_risk().estimate <= bayes + 1e-12
    # Beyond 1 always reject, on (1/2, 1) with chance gamma: risks gamma/2 and (1 - gamma)/2.
    flat = minimax_test(stats.uniform(0, 1), stats.uniform(0.5, 1))
    assert (flat.randomisation, *flat.risks) == pytest.approx((0.5, 0.25, 0.25))
    lopsided = minimax_test(f0, f1, [[5, 9], [1, 0]])
    assert (lopsided.size, lopsided.prior) == (0.0, 0.0)


def test_roc():
    test = neyman_pearson(norm(0, 1), norm(1.5, 1))
    curve = test.roc()
    np.testing.assert_allclose(curve.estimate, norm.sf(norm.isf(curve.x) - 1.5), atol=1e-9)
    assert np.trapezoid(curve.estimate, curve.x) == pytest.approx(norm.cdf(1.5 / np.sqrt(2)), abs=2e-3)
    counts = neyman_pearson(stats.poisson(2), stats.poisson(5)).roc()
    slopes = np.diff(counts.estimate) / np.maximum(np.diff(counts.x), 1e-300)
    assert np.all(np.diff(slopes) <= 1e-9 * slopes[:-1])  # concave
    assert (counts.x[0], counts.estimate[0], counts.x[-1], counts.estimate[-1]) == pytest.approx((0, 0, 1, 1))


def test_score_samples():
    rng = np.random.default_rng(0)
    s0, s1 = rng.integers(0, 6, 101) * 1.0, rng.integers(2, 9, 80) * 1.0
    test = neyman_pearson(s0, s1, 0.1)
    assert np.mean(test.chance(s0)) == pytest.approx(0.1, rel=1e-12)
    assert np.mean(test.chance(s1)) == pytest.approx(test.power, rel=1e-12)
    equal = minimax_test(s0, s1)
    assert equal.risks[0] == pytest.approx(equal.risks[1])
    assert equal.prior is None


def test_densities_of_every_make():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, 300), rng.normal(2, 1, 300)
    truth = norm.sf(1)
    makes = {
        "samples": (a, b),
        "kde": (stats.gaussian_kde(a), stats.gaussian_kde(b)),
        "mixtures": tuple(GaussianMixture(1, random_state=0).fit(v[:, None]) for v in (a, b)),
        "kernel": tuple(KernelDensity(bandwidth=0.3).fit(v[:, None]) for v in (a, b)),
        "mixed": (norm(0, 1), stats.gaussian_kde(b)),
        "new": (stats.Normal(mu=0, sigma=1), stats.Normal(mu=2, sigma=1)),
    }
    for make in makes.values():
        rule = BayesRule(make)
        assert rule.bayes_risk().estimate == pytest.approx(truth, abs=0.04)
        assert rule.decide([-1.0, 3.0]).tolist() == [0, 1]
    test = neyman_pearson(*makes["mixtures"], 0.05)
    assert test.size == pytest.approx(0.05, rel=1e-7)
    models = tuple(GaussianMixture(2, random_state=0).fit(rng.normal(m, 1, (200, 2))) for m in (0, 2))
    state = [model.random_state for model in models]
    assert BayesRule(models).bayes_risk(n_draws=5000).estimate == pytest.approx(norm.sf(np.sqrt(2)), abs=0.04)
    assert [model.random_state for model in models] == state


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: BayesRule([norm(0, 1)]), ParameterError, "two densities"),
        (lambda: BayesRule([norm(0, 1), 3]), DataTypeError, "no density"),
        (lambda: BayesRule([norm(0, 1), stats.poisson(2)]), DataError, "same space"),
        (lambda: BayesRule([norm(0, 1), stats.multivariate_normal([0, 0])]), DataError, "same space"),
        (lambda: BayesRule([norm(0, 1), norm(1, 1)], [0.5, 0.6]), ParameterError, "sums to 1.1"),
        (lambda: BayesRule([norm(0, 1), norm(1, 1)], [1.0]), ParameterError, r"expected \(2,\)"),
        (lambda: BayesRule([norm(0, 1), norm(1, 1)], cost=[[1, 2]]), ParameterError, "cost"),
        (lambda: BayesRule([norm(0, 1), [1.0, 1.0, 1.0]]), DataError, "does not vary"),
        (lambda: BayesRule([norm(0, 1), norm(1, 1)]).decide([np.nan]), DataError, "NaN"),
        (lambda: BayesRule([norm(0, 1), norm(1, 1)]).decide([[1.0, 2.0]]), DataError, "2 columns"),
        (lambda: neyman_pearson(norm(0, 1), norm(1, 1), 0), ParameterError, "alpha"),
        (lambda: neyman_pearson(norm(0, 1), [1.0, 2.0], 0.1), ParameterError, "two samples or two densities"),
        (lambda: minimax_test(norm(0, 1), norm(1, 1), [[1, 0], [0, 1]]), ParameterError, "costing more"),
    ],
)
def test_bad_input_gets_one_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    "f1", [norm(100, 1), norm(0, 1e-3), norm(1e-6, 1), norm(1e150, 1e149), norm(0, 1e5), stats.cauchy(0, 1)]
)
def test_ratios_of_any_size(f1):
    """From nearly flat to thirty orders of magnitude within the line."""
    test = neyman_pearson(norm(0, 1), f1, 0.05)
    assert test.size == pytest.approx(0.05, rel=1e-8)
    equal = minimax_test(norm(0, 1), f1)
    assert equal.risks[0] == pytest.approx(equal.risks[1], rel=1e-6, abs=1e-14)


def test_equal_hypotheses_toss_a_coin():
    test = neyman_pearson(norm(0, 1), norm(0, 1), 0.07)
    assert (test.size, test.power, test.randomisation) == pytest.approx((0.07, 0.07, 0.07))
