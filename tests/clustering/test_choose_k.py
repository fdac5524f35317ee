"""How many clusters: the null is one cloud like the table, gap by its definition, halves that agree, clear refusals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from simulations.clustering import CLOUDS, claims
from sklearn.datasets import load_iris

from assay.clustering import KMeans, choose_k
from assay.clustering._cloud import Cloud, few_levels, straighten
from assay.errors import DataError, ParameterError

QUICK = {"n_bootstrap": 19, "n_references": 5, "n_resamples": 4, "n_init": 1}


def blobs(n=90, gap=6.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + gap * np.array([[0, 0], [1, 0], [0, 1]])[np.arange(n) % 3]


# The null.


def test_a_cloud_has_the_tables_correlations_and_margins():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 3)) @ np.linalg.cholesky([[1, 0.8, 0.5], [0.8, 1, 0.3], [0.5, 0.3, 1]]).T
    X = np.column_stack([z[:, 0], np.exp(z[:, 1]), (z[:, 2] > 0.5).astype(float)])
    drawn = Cloud(X, rng).draw(rng)
    assert_allclose(stats.spearmanr(drawn).statistic, stats.spearmanr(X).statistic, atol=0.05)
    assert_allclose(
        np.quantile(drawn, [0.05, 0.5, 0.95], axis=0), np.quantile(X, [0.05, 0.5, 0.95], axis=0), rtol=0.15, atol=0.1
    )
    assert set(drawn[:, 2]) == {0.0, 1.0}


def test_a_cloud_fills_valleys():
    """Two heaps in a column: between them the cloud has as many rows as a unimodal law must have."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-3, 0.5, 500), rng.normal(3, 0.5, 500)])[:, None]
    drawn = Cloud(x, rng).draw(rng)
    assert np.mean(np.abs(x) < 1) == 0
    assert np.mean(np.abs(drawn) < 1) > 0.05


def test_dummies_of_one_factor_stay_exclusive():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.eye(3)[rng.integers(0, 3, 200)]])
    drawn = Cloud(X, rng).draw(rng)
    assert (drawn[:, 1:].sum(axis=1) == 1).all()
    assert_allclose(drawn[:, 1:].mean(axis=0), X[:, 1:].mean(axis=0), atol=0.15)


def test_tetrachoric_correlation_is_found():
    """Two halved normal columns of correlation .6: their cloud has the same phi as they."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(5000, 2)) @ np.linalg.cholesky([[1, 0.6], [0.6, 1]]).T
    cloud = Cloud((z > 0).astype(float), rng)
    assert_allclose((cloud.root @ cloud.root.T)[0, 1], 0.6, atol=0.05)


def test_straight_columns_are_normal_where_they_have_one_mode():
    rng = np.random.default_rng(0)
    out = straighten(np.column_stack([rng.exponential(size=2000), rng.integers(0, 3, 2000)]), rng)
    assert abs(stats.skew(out[:, 0])) < 0.15
    assert few_levels(out[:, 1])


# The choice.


def test_three_clusters_are_found():
    found = choose_k(blobs(), 5, random_state=0, **QUICK)
    assert found.several
    assert found.chosen == 3
    assert found.choices == {"gap": 3, "silhouette": 3, "stability": 3}
    assert found.agreement[2] > 0.9
    assert_allclose([found.share_gap.sum(), found.share_silhouette.sum()], 1.0)
    assert "rejected" in str(found)


def test_one_long_cloud_is_one_cluster_however_stable_its_halves():
    X = np.random.default_rng(5).normal(size=(200, 2)) * [5.0, 1.0]
    found = choose_k(X, 4, random_state=0, **QUICK)
    assert found.chosen == 1
    assert found.agreement[1] > 0.6
    assert "no evidence of more clusters" in str(found)


def test_iris_has_more_than_one():
    assert choose_k(load_iris().data, 4, random_state=0, **QUICK).several


def test_the_gap_is_that_of_its_definition():
    """Mean log inertia of uniform tables along the principal axes, less that of the table."""
    X = load_iris().data
    rng, ks, count = np.random.default_rng(3), (1, 2, 3), 20
    centred = X - X.mean(axis=0)
    scores = centred @ np.linalg.svd(centred, full_matrices=False)[2].T

    def logs(Z):
        return [np.log(KMeans(k, n_init=5, random_state=0).fit(Z).inertia_) for k in ks]

    drawn = np.array([logs(rng.uniform(scores.min(axis=0), scores.max(axis=0), X.shape)) for _ in range(count)])
    found = choose_k(X, 3, random_state=0, n_bootstrap=19, n_references=count, n_resamples=3, n_init=5)
    # Two means of 20 logarithms each; six standard errors of their difference, false-alarm rate 1e-8.
    reach = 6 * drawn.std(axis=0) * np.sqrt(2 / count)
    assert (np.abs(found.gap - (drawn.mean(axis=0) - logs(X))) <= reach).all()
    assert_allclose(found.gap_error, drawn.std(axis=0) * np.sqrt(1 + 1 / count), rtol=0.6)
    assert_allclose(found.inertia, np.exp(logs(X)), rtol=1e-6)


def test_threads_do_not_change_it():
    X = blobs(60)
    one, two = (choose_k(X, 3, random_state=1, n_jobs=jobs, **QUICK).to_frame() for jobs in (1, 2))
    assert one.equals(two)


def test_units_do_not_change_it():
    X = blobs(60)
    one = choose_k(X, 3, random_state=1, **QUICK)
    two = choose_k(X * 2.0**300, 3, random_state=1, **QUICK)
    assert one.p_value == two.p_value
    assert_allclose(one.gap, two.gap)


@pytest.mark.parametrize(
    ("X", "k", "words"),
    [
        (np.ones((10, 2)), 3, "X has only 1 distinct row; there is nothing to choose"),
        (blobs(10), 8, "k = 8 exceeds half the number of rows, 5; use k=5 or less"),
        (blobs(30), [1], "k has no number above 1"),
        (np.full((9, 2), np.nan), 3, "NaN"),
    ],
)
def test_what_cannot_be_chosen_is_said(X, k, words):
    with pytest.raises((DataError, ParameterError), match=words):
        choose_k(X, k)


def test_too_few_clouds_for_the_level():
    with pytest.raises(
        ParameterError, match=r"n_bootstrap = 19 simulated tables cannot give a p-value of 0\.01; use n_bootstrap=99"
    ):
        choose_k(blobs(), alpha=0.01, n_bootstrap=19)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CLOUDS))
def test_one_cloud_is_seldom_taken_for_several(name):
    """Forty tables each at level .05: more than 8 claims have a probability of 1e-4 if the level is held."""
    assert sum(found.several for found in claims(CLOUDS[name], 40, 77)) <= 8


def test_what_varies_in_few_rows_is_no_cluster():
    """Clouds drawn from such a table may be constant, and so may the rows that the test looks at."""
    for n in (200, 1998):
        X = np.append(np.zeros(n), [1.0, 2.0])
        assert choose_k(X, 2, n_bootstrap=19, n_references=5, n_resamples=3, n_init=1, random_state=0).chosen == 1


def test_the_largest_number_tried_is_named_where_it_was_chosen():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2)) + np.repeat([[0, 0], [9, 0], [0, 9], [9, 9]], 30, axis=0)
    cheap = {"n_bootstrap": 19, "n_references": 5, "n_resamples": 3, "random_state": 0}
    assert "k = 3 is the largest number tried: pass a larger k" in str(choose_k(X, 3, **cheap))
    assert "largest number tried" not in str(choose_k(X, 6, **cheap))
