"""k-means: the labels of plain Lloyd iterations, whatever the algorithm; both variations; starts, weights, batches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.cluster import KMeans as Peer
from sklearn.datasets import load_iris, make_blobs

from assay import metrics
from assay.clustering import KMeans
from assay.errors import AssayWarning, ConvergenceWarning, DataError, ParameterError
from tests.naive import clustering as naive


@pytest.fixture(autouse=True, params=["small", "large"])
def size_of_tables(request, monkeypatch):
    """Small tables run in one kernel; the general loop must give the same."""
    if request.param == "large":
        monkeypatch.setattr("assay.clustering._lloyd.SMALL", 0)


ALGORITHMS = ("lloyd", "hamerly", "yinyang")


def cloud(n=400, d=3, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def exact(k, C, **more):
    return KMeans(k, init=C, tol=0, max_iter=1000, **more)


# Agreement with the definition.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("d", "k"), [(1, 5), (2, 9), (3, 2), (4, 7), (5, 1), (20, 33)])
def test_every_algorithm_is_lloyds(algorithm, d, k):
    X = cloud(d=d, seed=d)
    labels, C, trace = naive.lloyd(X, X[:k])
    model = exact(k, X[:k], algorithm=algorithm).fit(X)
    assert_array_equal(model.labels_, labels)
    assert_allclose(model.cluster_centers_, C, rtol=1e-12, atol=1e-12)
    assert_allclose(model.trace_.objective, trace, rtol=1e-12)
    assert model.n_iter_ == len(trace)
    assert_array_equal(model.predict(X), labels)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ties_go_to_the_first_centre(algorithm):
    """Whole numbers: many rows are exactly as far from two centres."""
    X = np.random.default_rng(3).integers(0, 4, (300, 2)).astype(float)
    start = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [1.0, 1.0]])
    labels, C, _ = naive.lloyd(X, start)
    model = exact(5, start, algorithm=algorithm).fit(X)
    assert_array_equal(model.labels_, labels)
    assert_allclose(model.cluster_centers_, C, atol=1e-14)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("spread", [1e4, 1e7, 1e9])
def test_structure_that_single_precision_cannot_see(algorithm, spread):
    """Two far groups, each with two clusters: products in float32 tell nothing about those."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * 0.1
    X[::2] += spread
    X[::4, 0] += 1.0
    X[1::4, 0] += 1.0
    start = X[:4]
    labels, C, _ = naive.lloyd(X, start)
    model = exact(4, start, algorithm=algorithm).fit(X)
    assert_array_equal(model.labels_, labels)
    assert_allclose(model.cluster_centers_, C, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_many_blocks_agree_with_scikit_learn(algorithm, dtype):
    X, _ = make_blobs(20_000, 6, centers=30, cluster_std=2.0, random_state=1)
    X = X.astype(dtype)
    model = exact(30, X[:30], algorithm=algorithm).fit(X)
    peer = Peer(30, init=X[:30].astype(float), n_init=1, tol=0, max_iter=1000).fit(X.astype(float))
    assert model.cluster_centers_.dtype == dtype
    assert_allclose(model.inertia_, peer.inertia_, rtol=1e-9)
    assert np.mean(model.labels_ == peer.labels_) > 0.9999
    assert (np.diff(model.trace_.objective) <= 0).all()


def test_sparse_rows_give_the_dense_fit():
    X = np.maximum(cloud(500, 8), 0.3) - 0.3
    dense = exact(6, X[:6]).fit(X)
    found = exact(6, X[:6]).fit(sparse.csr_array(X))
    assert_array_equal(found.labels_, dense.labels_)
    assert_allclose(found.cluster_centers_, dense.cluster_centers_, atol=1e-12)
    assert_allclose(found.transform(sparse.csr_array(X)), dense.transform(X), atol=1e-7)
    for init in ("k-means++", "random", "random_partition"):
        one, two = (KMeans(4, init=init, random_state=5).fit(Z) for Z in (X, sparse.csr_array(X)))
        assert_allclose(one.inertia_, two.inertia_)


def test_small_tables_reach_the_best_partition():
    for seed in range(5):
        X = cloud(8, 2, seed)
        assert_allclose(KMeans(3, n_init=30, random_state=0).fit(X).inertia_, naive.best_partition(X, 3))


def test_iris_as_published():
    """R: kmeans(iris[, 1:4], 3, nstart = 25) has tot.withinss 78.85144 and sizes 50, 62, 38."""
    model = KMeans(3, n_init=25, random_state=0).fit(load_iris().data)
    assert_allclose(model.inertia_, 78.85144, atol=5e-6)
    assert sorted(model.variation_.sizes) == [38, 50, 62]


# Variation and starts.


def test_both_definitions_of_variation():
    X = cloud(60)
    model = KMeans(4, random_state=0).fit(X)
    assert_allclose(model.variation_.over_pairs, naive.over_pairs(X, model.labels_))
    assert_allclose(model.variation_.total_over_pairs, 2 * model.inertia_)
    assert_allclose(metrics.within_cluster_variation(X, model.labels_), model.variation_.total_over_pairs)
    assert_allclose(metrics.inertia(X, model.labels_), model.inertia_)


def test_starts_list_every_optimum():
    X = cloud(300)
    model = KMeans(6, init="random_partition", random_state=0).fit(X)
    starts = model.starts_
    assert len(starts.inertia) == 10
    assert model.inertia_ == starts.inertia.min()
    frame = starts.to_frame()
    assert frame.groupby("optimum")["inertia"].nunique().min() == 1
    assert frame.loc[frame["optimum"] == 0, "inertia"].max() <= model.inertia_ * (1 + 1e-6)
    assert "local optim" in str(starts)
    assert 0 < starts.share <= 1


def test_greedy_starts_are_better_than_plain_ones():
    """Both spread their centres; the mean inertia of 40 greedy starts is below that of 40 plain ones, seeds fixed."""
    X, _ = make_blobs(600, 2, centers=20, random_state=0)

    def mean(trials):
        fits = [KMeans(20, n_local_trials=trials, max_iter=1, tol=1e9, random_state=s) for s in range(40)]
        return np.mean([fit.fit(X).trace_.objective[0] for fit in fits])

    assert mean(None) < mean(1)


def test_a_function_may_start_it():
    X = cloud(100)
    model = KMeans(3, init=lambda X, k, random_state: X[:k], n_init=1).fit(X)
    assert_array_equal(model.labels_, KMeans(3, init=X[:3]).fit(X).labels_)


# Weights.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_weights_are_repetition_from_a_given_start(algorithm):
    X = cloud(150)
    counts = np.random.default_rng(1).integers(0, 4, 150)
    counts[:5] = 1
    weighted = exact(5, X[:5], algorithm=algorithm).fit(X, sample_weight=counts)
    repeated = exact(5, X[:5], algorithm=algorithm).fit(np.repeat(X, counts, axis=0))
    assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-12)
    assert_allclose(weighted.variation_.inertia, repeated.variation_.inertia, atol=1e-12)
    assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert_array_equal(weighted.labels_, weighted.predict(X))


def test_a_refilled_cluster_takes_repeated_rows_along():
    """The third start is far away, so its cluster is empty at first and moves to the farthest row, with its copies."""
    X = np.r_[cloud(30), [[9.0, 9.0, 9.0]]]
    w = np.ones(31)
    w[-1] = 3
    start = np.r_[X[:2], [[500.0, 500.0, 500.0]]]
    weighted = exact(3, start).fit(X, sample_weight=w)
    repeated = exact(3, start).fit(np.repeat(X, w.astype(int), axis=0))
    assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-12)
    assert (weighted.variation_.sizes > 0).all()


# Empty clusters, few distinct rows.


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_empty_clusters_are_refilled(algorithm, kind):
    X = cloud(200, 2)
    start = np.r_[X[:2], np.full((3, 2), 50.0), [[60.0, 60.0]]]
    model = exact(6, start, algorithm=algorithm).fit(kind(X))
    assert (model.variation_.sizes > 0).all()
    assert (np.diff(model.trace_.objective) <= 1e-9).all()
    # At a fixed point each centre is the mean of its rows, and each row is with its nearest centre.
    for j, c in enumerate(model.cluster_centers_):
        assert_allclose(X[model.labels_ == j].mean(axis=0), c, atol=1e-12)
    assert_array_equal(naive.nearest(X, model.cluster_centers_), model.labels_)


def test_fewer_distinct_rows_than_clusters():
    X = np.repeat(cloud(3), 5, axis=0)
    with pytest.warns(AssayWarning, match="X has only 3 distinct rows, so 2 of 5 clusters are empty; use n_clusters=3"):
        model = KMeans(5, random_state=0).fit(X)
    assert model.inertia_ == 0
    assert len(set(model.labels_)) == 3


def test_identical_rows():
    X = np.ones((10, 3))
    with pytest.warns(AssayWarning, match="X has only 1 distinct row, so 1 of 2 clusters are empty; use n_clusters=1"):
        model = KMeans(2, random_state=0).fit(X)
    assert model.inertia_ == 0
    assert KMeans(1).fit(X).cluster_centers_.tolist() == [[1.0, 1.0, 1.0]]


def test_more_clusters_than_rows():
    with pytest.raises(DataError, match="n_clusters = 8 exceeds the number of rows, n_samples = 3; lower n_clusters"):
        KMeans().fit(cloud(3))


def test_a_start_of_the_wrong_shape():
    with pytest.raises(ParameterError, match=r"init has the shape \(2, 3\), expected \(4, 3\)"):
        KMeans(4, init=np.zeros((2, 3))).fit(cloud())
    with pytest.raises(ParameterError, match="init contains NaN or inf in row 1, column 2"):
        KMeans(2, init=[[0, 0, 0], [0, 0, np.nan]]).fit(cloud())


def test_stopping_early_warns():
    X = cloud(500)
    with pytest.warns(ConvergenceWarning, match="max_iter = 2 iterations; raise max_iter or tol"):
        model = KMeans(8, max_iter=2, tol=0, random_state=0).fit(X)
    assert not model.trace_.converged
    assert_array_equal(model.labels_, model.predict(X))


# Mini-batches.


def test_mini_batches_come_close():
    X, _ = make_blobs(5000, 4, centers=6, random_state=2)
    full = KMeans(6, n_init=5, random_state=0).fit(X)
    batches = KMeans(6, algorithm="minibatch", batch_size=500, random_state=0).fit(X)
    assert batches.inertia_ < 1.05 * full.inertia_


def test_partial_fit_is_a_running_mean():
    """With one cluster the centre is the mean of all that was seen, whatever the batches."""
    X, w = cloud(90), np.random.default_rng(0).uniform(0.5, 2, 90)
    model = KMeans(1, random_state=0)
    for part in np.array_split(np.arange(90), 4):
        model.partial_fit(X[part], sample_weight=w[part])
    assert_allclose(model.cluster_centers_[0], np.average(X, axis=0, weights=w))
    assert_allclose(model.counts_, [w.sum()])
    assert model.n_iter_ == 4


def test_partial_fit_goes_on_from_fit():
    """Each centre becomes the mean of the rows it had and of those of the batch that are nearest to it."""
    X = cloud(100)
    model = KMeans(3, random_state=0, tol=0).fit(X)
    C, n, steps, batch = model.cluster_centers_, model.variation_.weight, model.n_iter_, cloud(50, seed=1)
    near = model.predict(batch)
    model.partial_fit(batch)
    sums = np.array([n[j] * C[j] + batch[near == j].sum(axis=0) for j in range(3)])
    assert_allclose(model.counts_, n + np.bincount(near, minlength=3))
    assert_allclose(model.cluster_centers_, sums / model.counts_[:, None])
    assert model.n_iter_ == steps + 1
    assert not hasattr(model, "trace_")
    with pytest.raises(ParameterError, match="n_clusters = 4, but the centres so far are 3; start anew"):
        model.set_params(n_clusters=4).partial_fit(batch)


def test_partial_fit_labels_rows_without_weight():
    X, w = cloud(40), np.arange(40) % 3
    model = KMeans(3, random_state=0).partial_fit(X, sample_weight=w)
    assert_array_equal(model.labels_, model.predict(X))
    assert model.counts_.sum() == w.sum()


@pytest.mark.parametrize("unit", [1e-160, 1e-30, 1e30, 1e120])
def test_distances_and_batches_at_any_scale(unit):
    X = np.vstack([cloud(30, 2), 10 + cloud(30, 2)])
    plain, model = KMeans(2, random_state=0).fit(X), KMeans(2, random_state=0).fit(X * unit)
    assert_array_equal(model.labels_, plain.labels_)
    assert_allclose(model.transform(X * unit) / unit, plain.transform(X), rtol=1e-9)
    batch = KMeans(2, random_state=0).partial_fit(X * unit)
    assert_allclose(batch.cluster_centers_ / unit, KMeans(2, random_state=0).partial_fit(X).cluster_centers_, rtol=1e-9)

    def first(table, k, random_state):
        return table[:k] / 2  # in the units of the table

    asked = KMeans(2, init=first, tol=0).fit(X * unit)
    assert_allclose(asked.cluster_centers_ / unit, KMeans(2, init=X[:2] / 2, tol=0).fit(X).cluster_centers_, rtol=1e-9)


def test_single_precision_and_sparse_give_what_double_precision_and_dense_do():
    """Squared lengths of float32 rows would lose the distances of rows far from the origin."""
    X = (cloud(300, 4) + 1000).astype(np.float32)
    dense = exact(5, X[:5]).fit(X.astype(np.float64))
    single = exact(5, X[:5]).fit(sparse.csr_array(X))
    assert_array_equal(single.labels_, dense.labels_)
    assert_allclose(single.inertia_, dense.inertia_, rtol=1e-6)
    with pytest.warns(AssayWarning, match="X has only 1 distinct row"):
        assert KMeans(3, random_state=0).fit(sparse.csr_array(np.full((9, 4), 0.1, np.float32))).inertia_ < 1e-12


def test_empty_clusters_are_not_blamed_on_equal_rows():
    """An iteration that may not be followed by another leaves a cluster without rows; X has rows enough."""
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [50.0]])
    start = np.array([[-30.0], [3.5], [49.0]])
    with pytest.warns(ConvergenceWarning, match=r"stopped after max_iter = 1 iterations") as caught:
        model = KMeans(3, init=start, max_iter=1).fit(X)
    empty = int((np.bincount(model.labels_, minlength=3) == 0).sum())
    assert ("distinct" in str(caught[0].message)) is False
    assert (f"{empty} of 3 clusters are empty" in str(caught[0].message)) == (empty > 0)


def test_mini_batches_say_why_they_ended():
    X = cloud(400)
    assert "10 mini-batches in a row" in KMeans(3, algorithm="minibatch", random_state=0).fit(X).trace_.message
    with pytest.warns(AssayWarning, match="X has only 3 distinct rows, so 2 of 5 clusters are empty"):
        KMeans(5, algorithm="minibatch", random_state=0).fit(np.repeat([[0.0], [1.0], [2.0]], 4, axis=0))


def test_a_fit_that_fails_leaves_the_one_before():
    X = cloud(60)
    model = KMeans(3, random_state=0).fit(X)
    with pytest.raises(ParameterError):
        model.set_params(init=np.ones((3, 9)), algorithm="hamerly").fit(X[:, :2])
    assert (model.n_features_in_, model.algorithm_) == (3, "lloyd")
    assert_array_equal(model.predict(X), model.labels_)


def test_centres_may_be_given_as_a_table():
    frame = pd.DataFrame(cloud(60), columns=list("abc"))
    assert_allclose(
        KMeans(3, init=frame.iloc[:3]).fit(frame).inertia_, KMeans(3, init=cloud(60)[:3]).fit(frame).inertia_
    )


# The rest of the interface.


def test_transform_and_score():
    X = cloud(50)
    model = KMeans(3, random_state=0).fit(X)
    distances = model.transform(X)
    assert_allclose(distances, np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2))
    assert_array_equal(distances.argmin(axis=1), model.labels_)
    assert_allclose(model.score(X), -model.inertia_)
    assert model.get_feature_names_out().tolist() == ["kmeans0", "kmeans1", "kmeans2"]
