"""Principal components: variance is maximal, precision survives squares, and limits cover."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

from assay.clustering import PrincipalComponents, _spectrum
from assay.errors import DataError, ParameterError
from tests.naive import clustering_linkage as naive


def cloud(n=80, p=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + rng.normal(size=p)


def graded(n, p, smallest, seed=0):
    """A centred table with singular values from 1 down to the smallest, and its right singular vectors."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, p))]))[0][:, 1:]
    V = np.linalg.qr(rng.normal(size=(p, p)))[0]
    values = np.geomspace(1.0, smallest, p)
    return (U * values) @ V.T, values, V.T


@pytest.mark.parametrize("scale", [False, True])
def test_equals_the_eigenvectors_of_the_covariance(scale):
    X = cloud()
    values, vectors = naive.principal_components(X, scale)
    model = PrincipalComponents(scale=scale).fit(X)
    assert_allclose(model.explained_variance_, values, rtol=1e-10)
    assert_allclose(model.components_, vectors, atol=1e-10)
    assert_allclose(model.explained_variance_ratio_, values / values.sum())
    scores = model.transform(X)
    assert_allclose(np.cov(scores.T), np.diag(values), atol=1e-10)  # uncorrelated, with these variances
    assert_allclose(model.inverse_transform(scores), X)


def test_no_other_directions_explain_more():
    X = cloud(p=5)
    model = PrincipalComponents(2).fit(X)
    rng = np.random.default_rng(1)
    for _ in range(200):
        V = np.linalg.qr(rng.normal(size=(5, 2)))[0]
        assert np.var(X @ V, axis=0, ddof=1).sum() <= model.explained_variance_.sum() + 1e-12
    lost = ((X - model.inverse_transform(model.transform(X))) ** 2).sum() / (len(X) - 1)
    assert_allclose(lost, model.noise_variance_ * 3)


@pytest.mark.parametrize("shape", [(200, 7), (30, 30), (12, 40)])
@pytest.mark.parametrize("k", [3, 5])
def test_equals_scikit_learn(shape, k):
    X = cloud(*shape)
    ours, theirs = PrincipalComponents(k).fit(X), PCA(k, svd_solver="full").fit(X)
    for name in ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-10)
    assert_allclose(ours.noise_variance_, theirs.noise_variance_)
    assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-9)
    white = PrincipalComponents(k, whiten=True).fit(X)
    assert_allclose(white.transform(X), PCA(k, whiten=True, svd_solver="full").fit_transform(X), atol=1e-8)
    assert_allclose(white.inverse_transform(white.transform(X)), ours.inverse_transform(ours.transform(X)))


def test_iris_as_printed_by_r():
    """prcomp(iris[, 1:4]): standard deviations and shares as published in many texts."""
    model = PrincipalComponents().fit(load_iris().data)
    assert_allclose(np.sqrt(model.explained_variance_), [2.0563, 0.4926, 0.2797, 0.1544], atol=5e-5)
    assert_allclose(model.explained_variance_ratio_, [0.9246, 0.05307, 0.0171, 0.00521], atol=5e-5)


@pytest.mark.parametrize("shape", [(300, 6), (6, 300)])
def test_small_singular_values_keep_their_digits(shape):
    """Squares would lose everything below 1e-8 of the largest; a QR decomposition does not."""
    X, values, V = graded(max(shape), 6, 1e-11)
    X = X if shape[0] > shape[1] else None
    if X is None:
        rng = np.random.default_rng(3)
        W = np.linalg.qr(rng.normal(size=(300, 5)))[0]
        left = np.linalg.qr(np.column_stack([np.ones(6), rng.normal(size=(6, 5))]))[0][:, 1:]
        values = np.geomspace(1.0, 1e-11, 5)
        X, V = (left * values) @ W.T, W.T
    model = PrincipalComponents().fit(X)
    assert_allclose(model.singular_values_, values, rtol=1e-3)
    assert_allclose(model.singular_values_, values, atol=1e-14)
    assert (np.abs(np.sum(model.components_ * V, axis=1)) > 1 - 1e-6).all()


def test_a_huge_offset_costs_no_more_than_the_digits_it_takes():
    X, values, V = graded(400, 5, 1e-2)
    for offset in (1e3, 1e7):
        model = PrincipalComponents().fit(X + offset)
        assert_allclose(model.singular_values_, values, atol=50 * np.finfo(float).eps * offset)
        assert (np.abs(np.sum(model.components_ * V, axis=1)) > 1 - 1e-9).all()


def test_nearly_collinear_columns():
    rng = np.random.default_rng(4)
    x = rng.normal(size=500)
    noise = rng.normal(size=500)
    X = np.column_stack([x, x + 1e-9 * noise])
    model = PrincipalComponents().fit(X)
    exact = np.var(noise - noise.mean() - x * (np.cov(noise, x)[0, 1] / np.var(x, ddof=1)), ddof=1) * 1e-18 / 2
    assert_allclose(model.explained_variance_[1], exact, rtol=1e-4)


def test_wide_and_tall_take_the_same_directions_as_a_dense_decomposition(monkeypatch):
    X = cloud(40, 7)
    full = np.linalg.svd(X - X.mean(axis=0))[1]
    assert_allclose(PrincipalComponents().fit(X).singular_values_, full)
    assert_allclose(PrincipalComponents().fit(X.T).singular_values_, np.linalg.svd(X.T - X.T.mean(axis=0))[1][:6])
    monkeypatch.setattr(_spectrum, "SQUARE_LOSS", 1.0)  # so that squares are never trusted
    assert_allclose(PrincipalComponents().fit(X).singular_values_, full)


@pytest.mark.parametrize("shape", [(120, 15), (15, 120)])
@pytest.mark.parametrize("scale", [False, True])
def test_sparse_equals_dense_by_products_and_by_lanczos(shape, scale, monkeypatch):
    S = sparse.random(*shape, density=0.2, random_state=0, format="csr")
    dense = PrincipalComponents(4, scale=scale).fit(S.toarray())
    for limit in (5_000, 1):
        monkeypatch.setattr(_spectrum, "GRAM", limit)
        model = PrincipalComponents(4, scale=scale).fit(S)
        assert_allclose(model.singular_values_, dense.singular_values_, rtol=1e-7)
        assert_allclose(model.transform(S), dense.transform(S.toarray()), atol=1e-6)
        assert_allclose(model.explained_variance_ratio_, dense.explained_variance_ratio_, rtol=1e-7)
    with pytest.raises(ParameterError, match="needs all of its components"):
        PrincipalComponents(15).fit(S)


def test_a_large_sparse_table_is_not_made_dense():
    rng = np.random.default_rng(0)
    at = (rng.integers(0, 200_000, 50_000), rng.integers(0, 30_000, 50_000))
    S = sparse.csr_array((rng.normal(size=50_000), at), shape=(200_000, 30_000))  # 48 GB if dense
    model = PrincipalComponents(2, n_iter=1, random_state=0).fit(S)
    assert model.solver_ == "randomized"
    assert model.transform(S[:5]).shape == (5, 2)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_random_directions_find_the_leading_ones(as_sparse):
    X, _, _ = graded(400, 60, 1e-3)
    X = sparse.csr_array(X) if as_sparse else X
    exact = PrincipalComponents(5, solver="exact").fit(X)
    random = PrincipalComponents(5, solver="randomized", random_state=0).fit(X)
    assert_allclose(random.singular_values_, exact.singular_values_, rtol=1e-6)
    assert_allclose(random.components_, exact.components_, atol=1e-4)
    assert_allclose(random.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-5)
    assert (random.solver_, exact.solver_) == ("randomized", "exact")


def test_weights_are_repetitions():
    X = cloud(50, 4)
    counts = np.random.default_rng(5).integers(0, 4, 50)
    for more in ({}, {"scale": True}, {"solver": "randomized", "n_components": 2, "random_state": 0}):
        weighted = PrincipalComponents(**more).fit(X, sample_weight=counts)
        repeated = PrincipalComponents(**more).fit(np.repeat(X, counts, axis=0))
        for name in ("components_", "explained_variance_", "noise_variance_", "mean_", "scale_"):
            assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-8, atol=1e-12)


def test_how_many():
    X = cloud(60, 6)
    full = PrincipalComponents().fit(X)
    share = PrincipalComponents(0.8).fit(X)
    assert share.n_components_ == int(np.argmax(np.cumsum(full.explained_variance_ratio_) >= 0.8)) + 1
    assert PrincipalComponents().fit(np.repeat(X[:, :2], 3, axis=1)).n_components_ == 2  # all that vary
    assert PrincipalComponents(4).fit(np.repeat(X[:, :2], 3, axis=1)).explained_variance_[2:].max() < 1e-25
    with pytest.raises(DataError, match="n_components = 7 of a table with 60 rows and 6 columns"):
        PrincipalComponents(7).fit(X)
    with pytest.raises(ParameterError, match="is a fraction"):
        PrincipalComponents(0.5, solver="randomized").fit(X)


def test_constant_columns_stay_when_scaled():
    X = np.column_stack([cloud(30, 2), np.full(30, 1e5 + 0.1)])
    model = PrincipalComponents(scale=True).fit(X)
    assert model.scale_[2] == 1.0
    assert model.n_components_ == 2
    assert_allclose(model.inverse_transform(model.transform(X)), X)


def test_the_table_of_loadings():
    X = pd.DataFrame(cloud(60, 4), columns=["a", "b", "c", "d"])
    model = PrincipalComponents(scale=True).fit(X)
    expected = np.corrcoef(X.T, model.transform(X).T)[:4, 4:]
    assert_allclose(model.summary().loadings, expected, atol=1e-10)
    assert_allclose((model.loadings() ** 2).sum(axis=1), 1.0)  # communalities of all components
    said = str(model.summary())
    assert "share of variance" in said
    assert "60 rows and 4 columns" in said
    assert list(model.summary().to_frame().columns) == list(model.get_feature_names_out())


def test_a_biplot_has_points_and_arrows():
    X = pd.DataFrame(cloud(20, 3), index=[f"row {i}" for i in range(20)], columns=list("xyz"))
    result = PrincipalComponents(3).fit(X).biplot(X, groups=["u", "v"] * 10, axes=(0, 2))
    assert result.to_frame().shape == (20, 3)
    assert "pc1" in str(result)
    assert "pc3" in str(result)
    with pytest.raises(ParameterError, match="axes"):
        PrincipalComponents(1).fit(X).biplot(X)
    with pytest.raises(DataError, match="groups has 1 entries for 20 rows"):
        PrincipalComponents().fit(X).biplot(X, groups=["u"])


# Limits.


def test_explained_shares_and_what_unrelated_columns_explain():
    rng = np.random.default_rng(6)
    factor = rng.normal(size=(200, 1))
    X = np.column_stack([factor + 0.5 * rng.normal(size=(200, 3)), rng.normal(size=(200, 4))])
    model = PrincipalComponents(scale=True).fit(X)
    result = model.explained(X, random_state=0, n_resamples=100)
    assert_allclose(result.share, model.explained_variance_ratio_)
    assert_allclose(result.variance, model.explained_variance_)
    assert_allclose(result.cumulative, np.cumsum(result.share))
    assert ((result.lower <= result.share) & (result.share <= result.upper)).all()
    assert result.n_above == 1
    assert result.separated[0]
    assert not result.separated[2:6].any()
    assert result.upper[-1] < 1
    assert result.cumulative_lower[-1] == result.cumulative_upper[-1] == 1.0
    assert "1 component above" in str(result)
    again = PrincipalComponents(scale=True, n_jobs=2).fit(X).explained(X, random_state=0, n_resamples=100)
    assert_array_equal(again.to_frame(), result.to_frame())
    with pytest.raises(DataError, match="one row"):
        PrincipalComponents().fit(X).explained(X[:1])


def coverage(variances, n, runs, seed):
    """How often the limits hold the share of the population, and of the sums."""
    rng = np.random.default_rng(seed)
    share = variances / variances.sum()
    own, sums = np.zeros(len(share)), np.zeros(len(share))
    for run in range(runs):
        X = rng.normal(size=(n, len(share))) * np.sqrt(variances)
        found = PrincipalComponents().fit(X).explained(X, n_resamples=100, n_permutations=0, random_state=run)
        own += (found.lower <= share) & (share <= found.upper)
        sums += (found.cumulative_lower <= np.cumsum(share) + 1e-12) & (
            np.cumsum(share) <= found.cumulative_upper + 1e-12
        )
    return own / runs, sums / runs


def test_limits_of_separated_components_cover():
    """At least 91% in the long run (docs/simulations); fewer than the bound has probability 1e-6."""
    own, sums = coverage(np.array([8.0, 4.0, 2.0, 1.0]), 100, 150, seed=7)
    bound = stats.binom.ppf(1e-6, 150, 0.91) / 150
    assert own.min() >= bound
    assert sums.min() >= bound


@pytest.mark.parametrize("solver", ["exact", "randomized"])
@pytest.mark.parametrize("shape", [(30, 4), (4, 30)])
@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e120])
def test_shares_of_variance_do_not_depend_on_the_unit(size, shape, solver):
    X = np.random.default_rng(0).normal(size=shape)
    model = PrincipalComponents(2, solver=solver, random_state=0)
    shares = model.fit(X).explained_variance_ratio_
    assert_allclose(model.fit(X * size).explained_variance_ratio_, shares, rtol=1e-9)
    assert PrincipalComponents(0.9).fit(X * size).n_components_ == PrincipalComponents(0.9).fit(X).n_components_


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(
    ("constant", "size", "weight"), [(1.0, 1e-120, 1.0), (1e150, 1e-200, 1.0), (0.0, 1e-310, 1.0), (1.0, 1.0, 1e-300)]
)
def test_tiny_columns_beside_a_constant_and_tiny_weights(constant, size, weight, scale):
    X = np.random.default_rng(0).normal(size=(30, 2))
    w = np.arange(1.0, 31.0)
    model = PrincipalComponents(2, scale=scale).fit(
        np.column_stack([np.full(30, constant), X * size]), sample_weight=w * weight
    )
    plain = PrincipalComponents(2, scale=scale).fit(X, sample_weight=w)
    assert_allclose(model.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=1e-9)
    assert_allclose(model.components_[:, 1:], plain.components_, atol=1e-9)


def test_a_biplot_of_one_component_says_what_it_needs():
    X = np.random.default_rng(0).normal(size=(9, 3))
    with pytest.raises(ParameterError, match="fit two or more components"):
        PrincipalComponents(1).fit(X).biplot(X)
