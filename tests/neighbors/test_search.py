"""The search: brute force, tree and definition agree index by index, ties included, whatever the numbers look like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import NearestNeighbors

from assay.neighbors import _heap
from assay.neighbors._distances import make_space
from assay.neighbors._search import FAR, Index, _make_sieve, _query_side
from assay.neighbors._sift import error_share, level
from tests.naive import neighbors as naive

PLAIN = ("euclidean", "manhattan", "chebyshev", "minkowski")
ALL = (*PLAIN, "cosine", "mahalanobis", "hamming")


def index(X, metric="euclidean", algorithm="brute", p=2.0, leaf_size=32):
    return Index(X, make_space(metric, p, None, X), algorithm, leaf_size)


def both(X, Q, k, metric="euclidean", p=2.0, own=None, leaf_size=8):
    """Distances and rows by brute force, after checking that the tree gives the same to the last bit."""
    found = index(X, metric, "brute", p).search(Q, k, own)
    if metric != "hamming":
        again = index(X, metric, "kd_tree", p, leaf_size).search(Q, k, own)
        assert_array_equal(found[1], again[1])
        assert_array_equal(found[0], again[0])
    return found


# Ties.


@given(st.integers(0, 10**6))
def test_grids_full_of_ties(seed):
    rng = np.random.default_rng(seed)
    n, p, side = int(rng.integers(1, 400)), int(rng.integers(1, 6)), int(rng.integers(1, 5))
    X = rng.integers(0, side, (n, p)).astype(float)
    Q = rng.integers(-1, side + 1, (30, p)).astype(float)
    k = int(rng.integers(1, n + 1))
    _, rows = both(X, Q, k)
    assert_array_equal(rows, naive.squares(X, Q, k))


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "hamming"])
def test_grids_full_of_ties_under_other_distances(metric):
    rng = np.random.default_rng(3)
    X, Q = rng.integers(0, 4, (150, 3)).astype(float), rng.integers(0, 4, (20, 3)).astype(float)
    distances, rows = both(X, Q, 40, metric)
    expected = naive.neighbours(X, Q, 40, metric)
    assert_array_equal(rows, expected[1])
    assert_allclose(distances, expected[0], rtol=1e-14)


@pytest.mark.parametrize("k", [1, 7, 300])
def test_many_equal_rows_beyond_every_buffer_and_block(k):
    rng = np.random.default_rng(4)
    X, Q = rng.integers(0, 2, (5000, 6)).astype(float), rng.integers(0, 2, (300, 6)).astype(float)
    _, rows = both(X, Q, k)
    assert_array_equal(rows, naive.squares(X, Q, k))
    own = np.arange(0, 5000, 17)
    _, rows = both(X, X[own], k, own=own)
    assert_array_equal(rows, naive.squares(X, X[own], k, own))


def test_all_rows_equal():
    X = np.full((500, 3), 0.1)
    distances, rows = both(X, X[:3], 20)
    assert (distances == 0).all()
    assert_array_equal(rows, np.tile(np.arange(20), (3, 1)))


# Agreement with the definition and with scikit-learn.


@pytest.mark.parametrize("metric", ALL)
def test_agrees_with_the_definition(metric):
    rng = np.random.default_rng(5)
    X, Q = rng.normal(size=(120, 4)) @ rng.normal(size=(4, 4)), rng.normal(size=(15, 4))
    if metric == "hamming":
        X, Q = np.round(X), np.round(Q)
    V = np.cov(X.T)
    distances, rows = both(X, Q, 11, metric, 3.0 if metric == "minkowski" else 2.0)
    expected = naive.neighbours(X, Q, 11, metric, p=3.0, V=V)
    assert_array_equal(rows, expected[1])
    assert_allclose(distances, expected[0], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("power", [1, 2, np.inf, 60.0])
def test_minkowski_at_its_special_powers(power):
    rng = np.random.default_rng(6)
    X, Q = 1e-3 * rng.normal(size=(200, 3)), 1e-3 * rng.normal(size=(10, 3))
    distances, rows = both(X, Q, 5, "minkowski", power)
    expected = naive.neighbours(X, Q, 5, "minkowski", p=float(power))
    assert_array_equal(rows, expected[1])
    assert_allclose(distances, expected[0], rtol=1e-12)


@pytest.mark.parametrize("metric", [*PLAIN, "cosine"])
@pytest.mark.parametrize(("n", "p"), [(3000, 2), (1500, 25), (1100, 90)])
def test_agrees_with_scikit_learn(metric, n, p):
    rng = np.random.default_rng(7)
    X, Q = rng.normal(size=(n, p)), rng.normal(size=(30 if metric == "minkowski" else 300, p))
    distances, rows = both(X, Q, 10, metric, 3.0, leaf_size=32)
    peer = NearestNeighbors(n_neighbors=10, metric=metric, p=3 if metric == "minkowski" else 2, algorithm="brute")
    expected = peer.fit(X).kneighbors(Q)
    assert_allclose(distances, expected[0], rtol=1e-8, atol=1e-12)
    assert_array_equal(rows, expected[1])


# Hard numbers.


def assert_nearest(X, Q, k, own=None):
    """Both searches agree, and what they give is sorted and no worse than any row they left out."""
    distances, rows = both(X, Q, k, own=own)
    assert_array_equal(rows, naive.neighbours(X, Q, k, own=own)[1])
    assert (np.diff(distances, axis=1) >= 0).all()


@pytest.mark.parametrize("mean", [0.0, 1e8, -1e12])
def test_columns_far_from_zero(mean):
    rng = np.random.default_rng(8)
    X, Q = mean + rng.normal(size=(300, 5)), mean + rng.normal(size=(20, 5))
    assert_nearest(X, Q, 9)


@pytest.mark.parametrize("spread", [1e-3, 1e-6, 1e-9])
def test_clusters_that_single_precision_cannot_tell_apart(spread):
    rng = np.random.default_rng(9)
    X = np.where(rng.random((600, 1)) < 0.5, -1.0, 1.0) + spread * rng.normal(size=(600, 3))
    assert_nearest(X, X[:20], 7, own=np.arange(20))


def test_columns_of_very_different_scales():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(400, 4)) * [1e-8, 1.0, 1e8, 1e-3]
    assert_nearest(X, X[:25] * 1.0001, 6)


@pytest.mark.parametrize("scale", [2.0**500, 2.0**-500, 2.0**-400, 1e-300])
def test_huge_and_tiny_tables(scale):
    rng = np.random.default_rng(11)
    X, Q = rng.normal(size=(200, 3)), rng.normal(size=(10, 3))
    for metric in PLAIN:
        plain = both(X, Q, 5, metric, 3.0)
        found = both(X * scale, Q * scale, 5, metric, 3.0)
        assert_array_equal(found[1], plain[1])
        assert_allclose(found[0] / scale, plain[0], rtol=1e-12)


@pytest.mark.parametrize("away", [2 * FAR, 1e9, 1e30, 1e150])
def test_queries_far_away(away):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(300, 3))
    Q = np.vstack([away * rng.normal(size=(5, 3)), rng.normal(size=(5, 3))])
    found = both(X, Q, 4)
    expected = naive.neighbours(X, Q, 4)
    assert_allclose(found[0], expected[0], rtol=1e-12)
    assert_array_equal(found[1][5:], expected[1][5:])


def test_tiny_rows_and_a_huge_query():
    X = 1e-200 * np.arange(1.0, 40.0)[:, None]
    distances, _ = both(X, np.array([[1e150], [3.4e-200]]), 2)
    assert_allclose(distances[0], 1e150)


def test_sorted_rows_are_no_harder():
    X = np.sort(np.random.default_rng(13).normal(size=(4000, 1)), axis=0) * np.ones((1, 3))
    assert_array_equal(both(X, X[:5], 3)[1][:, 0], np.arange(5))


@given(st.integers(0, 10**6))
def test_bounds_of_the_sieve_hold(seed):
    """g + (1 - c)||a||^2 <= d^2 <= (g + (1 + 9c)||a||^2)/(1 - 8c) for every pair, in any summation order of BLAS."""
    rng = np.random.default_rng(seed)
    n, p = 60, int(rng.integers(1, 300))
    scales = 10.0 ** rng.uniform(-12, 3, p) if rng.random() < 0.5 else np.ones(p)
    X = (rng.normal(size=(n, p)) + (rng.random((n, 1)) < 0.1) * 1e3 + rng.normal() * 1e4) * scales
    Q = X[:20] + 10.0 ** rng.uniform(-8, 1) * rng.normal(size=(20, p)) * scales
    sieve = _make_sieve(X)
    A, squared, far = _query_side(sieve, Q)
    keep = far == 0
    g = (A @ sieve.table.T).astype(np.float64)[keep]
    Z = X[sieve.order].astype(np.longdouble)
    d = (((Q[keep][:, None, :] - Z[None]) ** 2).sum(axis=2) / np.longdouble(sieve.unit) ** 2).astype(float)
    c, a = error_share(p), squared[keep][:, None]
    assert (g + (1 - c) * a <= d * (1 + 1e-12) + 1e-30).all()
    assert (d <= (g + (1 + 9 * c) * a) / (1 - 8 * c) * (1 + 1e-12) + 1e-30).all()


# Threads, blocks, choices.


@pytest.mark.parametrize(
    ("metric", "algorithm"), [("euclidean", "brute"), ("euclidean", "kd_tree"), ("manhattan", "brute")]
)
def test_threads_never_change_a_bit(metric, algorithm):
    rng = np.random.default_rng(14)
    X, Q = rng.normal(size=(2500, 7)), rng.normal(size=(1200, 7))
    search = index(X, metric, algorithm)
    one, two = search.search(Q, 12, n_jobs=1), search.search(Q, 12, n_jobs=2)
    assert_array_equal(one[0], two[0])
    assert_array_equal(one[1], two[1])
    single = search.search(Q[37:38], 12)
    assert_array_equal(single[0][0], one[0][37])


def test_auto_takes_the_tree_in_few_dimensions_and_products_in_many():
    rng = np.random.default_rng(15)
    assert index(rng.normal(size=(5000, 2)), algorithm="auto").algorithm == "kd_tree"
    assert index(rng.normal(size=(5000, 30)), algorithm="auto").algorithm == "brute"
    assert index(rng.normal(size=(200, 2)), algorithm="auto").algorithm == "brute"


# The best so far.


@pytest.mark.parametrize("n", [30, 400])
@given(seed=st.integers(0, 10**6))
def test_short_lists_and_heaps_keep_the_best(n, seed):
    rng = np.random.default_rng(seed)
    values, k = rng.integers(0, int(rng.integers(1, 50)), n), int(rng.integers(1, n + 1))
    d, r = np.empty(k), np.empty(k, dtype=np.int64)
    size = 0
    for row in rng.permutation(n):
        size = _heap.push(d, r, size, float(values[row]), int(row))
    _heap.nearest_first(d, r)
    best = sorted((value, row) for row, value in enumerate(values.tolist()))[:k]
    assert [(int(a), int(b)) for a, b in zip(d, r, strict=True)] == best


@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=60), st.integers(1, 60))
def test_a_level_has_at_least_as_many_below(values, k):
    values, k = np.array(values, dtype=np.float32), min(k, len(values))
    found = level(values, k)
    assert np.count_nonzero(values <= found) >= k
    assert found <= values.max()
