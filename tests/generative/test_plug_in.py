"""The plug-in classifier against densities written out, scipy's and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity

from assay.errors import AssayWarning, DataError, ParameterError
from assay.generative.discriminant import QuadraticDiscriminantAnalysis
from assay.generative.plug_in import PlugInClassifier
from assay.numerics import threads


def sample(n=90, p=2, K=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    return (rng.normal(size=(n, p)) * (1 + y[:, None]) + 2.5 * y[:, None]) * np.arange(1, p + 1), y


def kernel_log_density(X, Z, w=None, rule="silverman"):
    """A product of Gaussian kernels, written out."""
    w = np.ones(len(X)) if w is None else w
    n, p = w.sum(), X.shape[1]
    mean = np.average(X, axis=0, weights=w)
    spread = np.sqrt((w @ (X - mean) ** 2) / (n - 1))
    h = spread * n ** (-1 / (p + 4)) * (1.0 if rule == "scott" else ((p + 2) / 4) ** (-1 / (p + 4)))
    if not isinstance(rule, str):
        h = np.full(p, rule)
    each = stats.norm.logpdf(Z[:, None, :], X, h).sum(axis=2)
    return special.logsumexp(each, axis=1, b=w / n)


def posterior(joint):
    return joint - special.logsumexp(joint, axis=1, keepdims=True)


@pytest.mark.parametrize("rule", ["silverman", "scott", 0.7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [90, 3300])  # one block of training rows, and more than one for each class
def test_kernels_are_those_of_the_definition(rule, weighted, n):
    X, y = sample(n)
    w = np.random.default_rng(1).uniform(0.5, 3, n) if weighted else None
    model = PlugInClassifier(bandwidth=rule).fit(X, y, sample_weight=w)
    Z = np.random.default_rng(2).normal(size=(40, 2)) * 6
    weights = np.ones(n) if w is None else w
    logs = np.column_stack([kernel_log_density(X[y == k], Z, weights[y == k], rule) for k in range(3)])
    assert_allclose(model.log_density(Z), logs, rtol=1e-10, atol=1e-10)
    shares = np.array([weights[y == k].sum() for k in range(3)]) / weights.sum()
    assert_allclose(model.predict_log_proba(Z), posterior(logs + np.log(shares)), rtol=1e-9, atol=1e-9)


def test_in_one_column_scott_is_scipys_kernel_density():
    X, y = sample(p=1)
    model = PlugInClassifier(bandwidth="scott").fit(X, y)
    Z = np.linspace(-5, 15, 50)
    for k in range(3):
        assert_allclose(model.log_density(Z[:, None])[:, k], stats.gaussian_kde(X[y == k, 0]).logpdf(Z), rtol=1e-9)


def test_normal_densities_are_quadratic_discriminants():
    X, y = load_iris(return_X_y=True)
    ours = PlugInClassifier("normal").fit(X, y)
    assert_allclose(
        ours.predict_log_proba(X), QuadraticDiscriminantAnalysis().fit(X, y).predict_log_proba(X), rtol=1e-9, atol=1e-9
    )
    for k in range(3):
        own = stats.multivariate_normal(X[y == k].mean(0), np.cov(X[y == k].T))
        assert_allclose(ours.log_density(X)[:, k], own.logpdf(X), rtol=1e-9)


def test_densities_of_scikit_learn():
    X, y = sample()
    theirs = PlugInClassifier(KernelDensity(bandwidth=0.8)).fit(X, y)
    ours = PlugInClassifier(bandwidth=0.8).fit(X, y)
    assert_allclose(theirs.predict_log_proba(X), ours.predict_log_proba(X), rtol=1e-6, atol=1e-8)
    w = np.random.default_rng(0).integers(1, 4, 90)
    weighted = PlugInClassifier(KernelDensity(bandwidth=0.8)).fit(X, y, sample_weight=w)
    repeated = PlugInClassifier(bandwidth=0.8).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert_allclose(weighted.predict_log_proba(X), repeated.predict_log_proba(X), rtol=1e-6, atol=1e-8)
    mixture = PlugInClassifier(GaussianMixture(2, random_state=0)).fit(X, y)
    assert len(mixture.densities_) == 3
    assert mixture.score(X, y) > 0.6
    with pytest.raises(DataError, match="GaussianMixture does not support sample_weight"):
        clone(mixture).fit(X, y, sample_weight=w)
    assert_array_equal(clone(mixture).fit(X, y, sample_weight=np.full(90, 2.0)).predict(X), mixture.predict(X))


def test_densities_of_scipy_column_by_column():
    X, y = load_iris(return_X_y=True)
    ours = PlugInClassifier(stats.norm).fit(X, y)
    assert_allclose(
        ours.predict_proba(X), GaussianNB(var_smoothing=0).fit(X, y).predict_proba(X), rtol=1e-7, atol=1e-10
    )
    waits, kinds = np.random.default_rng(0).exponential([1.0, 5.0], size=(200, 2)), np.arange(200) % 2
    waits[kinds == 1] *= 3
    expon = PlugInClassifier(stats.expon).fit(waits, kinds)
    assert expon.score(waits, kinds) > 0.6
    with pytest.raises(DataError, match="does not support sample_weight"):
        PlugInClassifier(stats.norm).fit(X, y, sample_weight=np.linspace(1, 2, 150))


def test_a_row_that_no_density_reaches_gets_the_priors():
    X, y = np.array([[0.0], [1.0], [5.0], [6.0], [7.0]]), np.array([0, 0, 1, 1, 1])
    model = PlugInClassifier(stats.uniform).fit(X, y)
    assert_allclose(model.predict_proba([[0.5], [6.5], [100.0]]), [[1, 0], [0, 1], [0.4, 0.6]])
    kernel = PlugInClassifier().fit(X, y)
    assert_allclose(kernel.predict_proba([[1e3], [-1e3]]).sum(axis=1), 1.0)
    assert_array_equal(kernel.predict([[1e3]]), [1])
    assert np.isfinite(kernel.predict_proba([[1e150]])).all()


def test_an_infinite_density_takes_all():
    class Spike:
        def fit(self, column):
            return (float(np.mean(column)),)

        def logpdf(self, x, at):
            return np.where(x == at, np.inf, -np.abs(x - at))

    model = PlugInClassifier(Spike()).fit([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1])
    assert_allclose(model.predict_proba([[1.0], [5.0]]), [[1, 0], [0, 1]])


def test_priors():
    X, y = sample()
    model = PlugInClassifier(priors=[0.6, 0.0, 0.4]).fit(X, y)
    assert (model.predict_proba(X)[:, 1] == 0).all()
    assert np.isneginf(model.predict_log_proba(X)[:, 1]).all()
    equal = PlugInClassifier(priors=[1 / 3] * 3).fit(X, y)
    assert_allclose(equal.predict_log_proba(X), posterior(equal.log_density(X)), rtol=1e-12, atol=1e-12)


def test_a_class_without_spread_borrows_a_bandwidth():
    X, y = sample()
    X[y == 1, 0] = 2.0
    with pytest.warns(AssayWarning, match="class 1 does not vary in column 'x0'; the bandwidths of all"):
        model = PlugInClassifier().fit(X, y)
    scatter = sum(((X[y == k, 0] - X[y == k, 0].mean()) ** 2).sum() for k in range(3))
    factor = (30 * 4 / 4) ** (-1 / 6)
    assert_allclose(model.bandwidths_[1, 0], np.sqrt(scatter / 87) * factor)
    assert np.isfinite(model.predict_log_proba(X)).all()
    with pytest.warns(AssayWarning, match="class 9 does not vary"):
        alone = PlugInClassifier().fit(X[y != 1], np.r_[9, y[y != 1][1:]])
    assert_allclose(alone.predict_proba(X).sum(axis=1), 1.0)
    with pytest.warns(AssayWarning, match="does not vary"):
        steps = PlugInClassifier().fit(np.repeat([[0.0, 1.0], [5.0, 1.0]], 3, axis=0), [0, 0, 0, 1, 1, 1])
    assert_array_equal(steps.predict([[1.0, 1.0], [4.0, 1.0]]), [0, 1])
    PlugInClassifier(bandwidth=1.0).fit(X, y)  # no warning: warnings are errors here


def test_what_is_refused():
    X, y = sample()
    X[y == 1, 0] = 2.0
    with pytest.raises(DataError, match="column 'x0' does not vary within class 1"):
        PlugInClassifier("normal").fit(X, y)
    with pytest.raises(DataError, match="column 'x2' without independent variation"):
        PlugInClassifier("normal").fit(np.column_stack([sample()[0], np.ones(90)]), y)
    with pytest.raises(DataError, match="count repetitions, but sum to less than 1"):
        PlugInClassifier().fit(X, y, sample_weight=np.full(90, 1e-9))
    with pytest.raises(ParameterError, match="density"):
        PlugInClassifier(density=object()).fit(X, y)

    class Broken:
        def fit(self, column):
            raise RuntimeError("no root\nwas found")

        def logpdf(self, x):
            return x

    with pytest.raises(DataError, match="Broken cannot be fitted to the 30 rows of class 0: no root was found"):
        PlugInClassifier(Broken()).fit(X, y)

    class Lost(Broken):
        def fit(self, column):
            return ()

        def logpdf(self, x):
            return np.full(len(x), np.nan)

    with pytest.raises(DataError, match="density of class 0 is NaN at row 0"):
        PlugInClassifier(Lost()).fit(X, y).predict(X)


def test_n_jobs_never_changes_a_bit(monkeypatch):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    X, y = sample(300)
    one, two = (PlugInClassifier(n_jobs=n_jobs).fit(X, y).predict_proba(X) for n_jobs in (1, 2))
    assert_array_equal(one, two)


def test_scales_do_not_matter():
    X, y = sample()
    expected = PlugInClassifier().fit(X, y).predict_log_proba(X)
    for factor in (2.0**400, 2.0**-400):
        scaled = X * [1.0, factor]
        assert_allclose(PlugInClassifier().fit(scaled, y).predict_log_proba(scaled), expected, rtol=1e-8, atol=1e-8)
