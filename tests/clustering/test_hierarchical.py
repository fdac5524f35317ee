"""Hierarchical clustering against its definition, scipy, the lecture notes' dendrogram, and bad distances."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from assay.clustering import Dendrogram, HierarchicalClustering, _agglomerate
from assay.errors import AssayWarning, DataError, ParameterError
from assay.state import StateError, check_state, from_state, to_state
from tests.naive import clustering_linkage as naive

LINKAGES = ("single", "complete", "average", "weighted", "centroid", "median", "ward")
every_linkage = pytest.mark.parametrize("linkage", LINKAGES)


def tree(X, linkage="average", **more):
    return HierarchicalClustering(1, linkage=linkage, **more).fit(X)


def partition(labels):
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


# The definition.


@every_linkage
def test_equals_the_naive_version_without_ties(linkage):
    for seed, (n, p) in enumerate([(2, 1), (3, 2), (17, 1), (40, 3), (60, 40)]):
        X = np.random.default_rng(seed).normal(size=(n, p))
        D = squareform(pdist(X))
        expected = naive.linkage_matrix(D, linkage)
        for found in (tree(X, linkage), tree(D, linkage, metric="precomputed")):
            assert_array_equal(found.linkage_[:, [0, 1, 3]], expected[:, [0, 1, 3]])
            assert_allclose(found.linkage_[:, 2], expected[:, 2], rtol=1e-10)


@every_linkage
def test_equals_the_naive_version_with_ties(linkage):
    """Lattices, equal points and equal distances: the same merges in the same order, to the last digit."""
    rng = np.random.default_rng(0)
    grid = np.array([[i, j] for i in range(6) for j in range(5)], dtype=float)
    tables = [grid, rng.permutation(grid), rng.integers(0, 3, (40, 2)).astype(float), np.zeros((9, 2)), np.eye(12)]
    tables += [np.repeat(rng.normal(size=(6, 2)), 3, axis=0), np.arange(16.0)[:, None], rng.integers(0, 9, (50, 1)) / 7]
    for X in tables:
        D = squareform(pdist(X))
        expected = naive.linkage_matrix(D, linkage)
        found = tree(D, linkage, metric="precomputed").linkage_
        assert_array_equal(found[:, [0, 1, 3]], expected[:, [0, 1, 3]])
        assert_allclose(found[:, 2], expected[:, 2], rtol=1e-9, atol=1e-9)
        of_points = tree(X, linkage).linkage_
        if linkage in ("single", "complete", "average", "weighted"):  # squares are not rounded to roots and back
            assert_array_equal(of_points, found)
        else:
            assert_allclose(of_points[:, 2], found[:, 2], rtol=1e-7, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(LINKAGES), st.integers(2, 30), st.integers(2, 12))
def test_equals_the_naive_version_on_few_different_distances(seed, linkage, n, levels):
    D = np.triu(np.random.default_rng(seed).integers(levels, 2 * levels, (n, n)), 1).astype(float)
    D += D.T
    if linkage in ("centroid", "median"):
        D = np.sqrt(D)  # squares of any such distances are those of points: their triangle inequality holds
    expected = naive.linkage_matrix(D, linkage)
    found = tree(D, linkage, metric="precomputed").linkage_
    assert_array_equal(found[:, [0, 1, 3]], expected[:, [0, 1, 3]])
    assert_allclose(found[:, 2], expected[:, 2], rtol=1e-9)


@pytest.mark.parametrize("linkage", ["single", "complete", "average", "centroid", "ward"])
def test_heights_are_the_linkage_distances_of_the_merged_sets(linkage):
    X = np.random.default_rng(1).normal(size=(30, 3)) + 1e6
    Z = tree(X, linkage).linkage_
    sets = naive.members(Z)
    for a, b, height, size in Z:
        assert_allclose(height, naive.distance_by_definition(X, sets[int(a)], sets[int(b)], linkage), rtol=1e-6)
        assert size == len(sets[int(a)]) + len(sets[int(b)])


@every_linkage
def test_equals_scipy_on_many_rows(linkage):
    X = np.random.default_rng(2).normal(size=(700, 5))
    assert_allclose(tree(X, linkage).linkage_, hierarchy.linkage(X, linkage), rtol=1e-9)


@pytest.mark.parametrize("linkage", ["single", "ward"])
def test_lean_and_square_give_one_tree(linkage, monkeypatch):
    X = np.random.default_rng(3).normal(size=(900, 3))
    assert_allclose(tree(X, linkage).linkage_, tree(squareform(pdist(X)), linkage, metric="precomputed").linkage_)
    monkeypatch.setattr(_agglomerate, "LARGE", 1)
    wide = np.random.default_rng(4).normal(size=(60, 50))
    assert_allclose(tree(wide, linkage).linkage_, hierarchy.linkage(wide, linkage))


@pytest.mark.parametrize("linkage", ["single", "ward"])
def test_ties_without_an_array_leave_a_valid_tree(linkage, monkeypatch):
    X = np.random.default_rng(5).integers(0, 12, (400, 3)).astype(float)
    exact = tree(X, linkage).linkage_
    monkeypatch.setattr(_agglomerate, "LARGE", 1)
    found = tree(X, linkage).linkage_
    assert hierarchy.is_valid_linkage(found)
    assert_array_equal(found, tree(X, linkage).linkage_)
    if linkage == "single":  # the clusters at a height do not depend on ties, only the order inside them
        assert_array_equal(hierarchy.cophenet(found), hierarchy.cophenet(exact))
    else:
        sets = naive.members(found)
        for a, b, height, _ in found[::7]:
            apart = naive.distance_by_definition(X, sets[int(a)], sets[int(b)], "ward")
            assert_allclose(height, apart, atol=1e-9)


def test_members_are_rows_that_have_merged_before():
    rng = np.random.default_rng(6)
    X, counts = rng.normal(size=(20, 2)), rng.integers(1, 5, 20)
    for linkage in LINKAGES:
        weighted = HierarchicalClustering(4, linkage=linkage).fit(X, members=counts)
        repeated = tree(np.repeat(X, counts, axis=0), linkage)
        assert_allclose(weighted.distances_, repeated.distances_[counts.sum() - 20 :], rtol=1e-9)
        assert_array_equal(np.repeat(weighted.labels_, counts), repeated.cut(4))
    plain = HierarchicalClustering(4).fit(X)
    assert_allclose(HierarchicalClustering(4).fit(X, members=np.full(20, 3)).distances_, np.sqrt(3) * plain.distances_)


# Reading the tree.


def test_members_count_by_their_ratios_at_any_scale():
    rng = np.random.default_rng(0)
    X, counts = rng.normal(size=(30, 2)), rng.integers(1, 9, 30)
    for linkage in ("ward", "centroid", "average"):
        plain = HierarchicalClustering(3, linkage=linkage).fit(X, members=counts)
        for unit in (1e-300, 1e299):  # sums of such numbers would overflow, and no pair would be closest
            other = HierarchicalClustering(3, linkage=linkage).fit(X, members=counts * unit)
            grown = np.sqrt(unit) if linkage == "ward" else 1.0
            assert_allclose(other.distances_, grown * plain.distances_, rtol=1e-12)
            assert np.array_equal(other.children_, plain.children_)
    with pytest.raises(DataError, match="members ranges from 1e-200 to 1, more than a factor of 1e\\+100"):
        HierarchicalClustering().fit(X, members=np.r_[1e-200, np.ones(29)])


def test_the_dendrogram_of_the_lecture_notes():
    """B joins (A, C) at 2; a cut at 1.5 leaves (D, E), (B), (A, C)."""
    D = pd.DataFrame(5.0 * (1 - np.eye(5)), index=list("ABCDE"), columns=list("ABCDE"))
    for a, b, d in (("A", "C", 1.0), ("D", "E", 0.5), ("A", "B", 2.0), ("B", "C", 1.8)):
        D.loc[a, b] = D.loc[b, a] = d
    model = tree(D, "complete", metric="precomputed")
    assert model.merge_height("B", ["A", "C"]) == 2.0
    assert partition(model.cut(height=1.5)) == {frozenset({3, 4}), frozenset({1}), frozenset({0, 2})}
    assert model.merge_height("D", "E") == 0.5
    assert model.merge_height(["A", "C"], ["D", "E"]) == model.merge_height(0, -1) == 5.0
    assert model.merge_height("A", "A") == 0.0
    with pytest.raises(ParameterError, match="no row is named 'F'"):
        model.merge_height("A", "F")
    with pytest.raises(ParameterError, match="unknown row 5"):
        model.merge_height(0, 5)
    with pytest.raises(ParameterError, match="the group has no rows"):
        model.merge_height([], 1)


@every_linkage
def test_a_cut_into_k_gives_k_clusters_even_with_inversions(linkage):
    X = np.random.default_rng(8).normal(size=(40, 3))
    model = tree(X, linkage)
    assert (model.dendrogram().inversions > 0) == (linkage in ("centroid", "median"))
    finer = model.cut(40)
    for k in range(39, 0, -1):
        labels = model.cut(k)
        assert len(np.unique(labels)) == k
        assert all(len(set(labels[finer == c])) == 1 for c in range(k + 1))  # each cut joins two clusters of the last
        first = [int(np.flatnonzero(labels == c)[0]) for c in range(k)]
        assert first == sorted(first)
        finer = labels
    for height in np.r_[0.0, model.distances_, 10.0]:
        assert partition(model.cut(height=height)) == naive.cut_at(model.linkage_, height)


def test_cuts_equal_scipys():
    X = np.random.default_rng(8).normal(size=(80, 3))
    for linkage in ("average", "centroid"):
        model = tree(X, linkage)
        for height in (0.5, 1.0, 1.7):
            theirs = hierarchy.fcluster(model.linkage_, height, "distance")
            assert adjusted_rand_score(theirs, model.cut(height=height)) == 1.0


@every_linkage
def test_cophenetic_distances_and_leaf_order(linkage):
    X = np.random.default_rng(9).normal(size=(25, 2))
    model = tree(X, linkage)
    C = squareform(model.cophenetic_distances())
    for i, j in ((0, 1), (3, 20), (24, 7)):
        assert C[i, j] == model.merge_height(i, j)
    assert_allclose(model.cophenetic_correlation(X), hierarchy.cophenet(model.linkage_, pdist(X))[0])
    order = model.leaf_order()
    for rows in naive.members(model.linkage_):
        places = np.flatnonzero(np.isin(order, list(rows)))
        assert np.ptp(places) == len(rows) - 1  # each cluster stands in one piece


def test_labels_equal_scikit_learns():
    X = np.random.default_rng(10).normal(size=(120, 4))
    for linkage in ("single", "complete", "average", "ward"):
        for more in ({"n_clusters": 5}, {"n_clusters": None, "distance_threshold": 1.5}):
            theirs = AgglomerativeClustering(linkage=linkage, **more).fit(X)
            ours = HierarchicalClustering(linkage=linkage, **more).fit(X)
            assert ours.n_clusters_ == theirs.n_clusters_
            assert adjusted_rand_score(theirs.labels_, ours.labels_) == 1.0
            assert_array_equal(ours.fit_predict(X), ours.labels_)
    assert (ours.n_leaves_, ours.children_.shape) == (120, (119, 2))


def test_a_threshold_is_not_reached_by_clusters_and_a_cut_height_may_be():
    X = [[0.0], [1.0], [3.0]]
    assert HierarchicalClustering(None, linkage="single", distance_threshold=1.0).fit(X).n_clusters_ == 3
    assert len(np.unique(tree(X, "single").cut(height=1.0))) == 2


def test_linkage_matrices_go_out_to_scipy_and_come_in():
    X = np.random.default_rng(11).normal(size=(30, 2))
    Z = hierarchy.linkage(X, "average")
    model = HierarchicalClustering.from_linkage(Z, 3, names=[f"r{i}" for i in range(30)])
    assert_array_equal(model.linkage_, Z)
    assert_array_equal(model.labels_, HierarchicalClustering(3, linkage="average").fit(X).labels_)
    assert model.merge_height("r3", "r4") == tree(X).merge_height(3, 4)
    assert hierarchy.is_valid_linkage(tree(X, "centroid").linkage_)


@pytest.mark.parametrize(
    ("Z", "words"),
    [
        ([[0, 1, 1.0]], "4 columns"),
        ([[0, 3, 1.0, 2], [1, 2, 2.0, 2]], "merge 0 joins 0 and 3"),
        ([[0, 1, 1.0, 2], [0, 2, 2.0, 2]], "merge 1 joins 0 and 2, one of which"),
        ([[0, 1, 1.0, 2], [2, 3, 2.0, 4]], "merge 1 has 4 rows, but its parts have 3"),
        ([[0, 1, -1.0, 2]], "merge 0 has the height -1"),
        ([[0, 1, np.nan, 2]], "merge 0 has the height nan"),
        ([["a", 1, 1.0, 2]], "non-numeric value"),
    ],
)
def test_a_wrong_linkage_matrix_is_refused(Z, words):
    with pytest.raises(DataError, match=words):
        HierarchicalClustering.from_linkage(Z)


def test_a_dendrogram_prints_and_has_a_table():
    model = HierarchicalClustering(2, linkage="centroid").fit(np.random.default_rng(12).normal(size=(50, 2)))
    result = model.dendrogram()
    assert "50 rows, centroid linkage" in str(result)
    assert "inversions" in str(result)
    frame = result.to_frame()
    assert list(frame.columns) == ["left", "right", "height", "size"]
    assert frame["size"].iloc[-1] == 50
    assert str(Dendrogram(np.empty((0, 4)))).startswith("Dendrogram of 1 rows")
    with pytest.raises(ParameterError, match="2 entries for 50 rows"):
        model.dendrogram(names=["a", "b"])


# Distances.


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "cosine", "correlation"])
def test_named_metrics_equal_scipys(metric):
    X = np.random.default_rng(13).normal(size=(30, 6))
    theirs = hierarchy.linkage(X, "average", {"manhattan": "cityblock"}.get(metric, metric))
    assert_allclose(tree(X, metric=metric).linkage_, theirs, rtol=1e-9)


def test_a_function_and_condensed_distances():
    X = np.random.default_rng(14).normal(size=(25, 3))
    by_function = tree(X, "complete", metric=lambda a, b: float(np.abs(a - b).sum()))
    condensed = tree(pdist(X, "cityblock"), "complete", metric="precomputed")
    assert_allclose(by_function.linkage_, condensed.linkage_)
    assert condensed.n_features_in_ == 25


def test_gower_equals_the_naive_version_with_gaps_and_categories():
    rows = [(1.0, "a", True), (3.0, "b", False), (None, "a", True), (9.0, None, False), (2.0, "c", None)]
    table = pd.DataFrame(rows, columns=["x", "c", "b"]).astype({"x": float})
    expected = naive.gower(rows, ["number", "level", "level"])
    model = tree(table, metric="gower")
    assert_allclose(model.linkage_, naive.linkage_matrix(expected, "average"))
    as_category = table.assign(c=pd.Categorical(table["c"]))
    assert_allclose(tree(as_category, metric="gower").linkage_, model.linkage_)
    ranks = pd.Categorical(["low", "high", "mid", "low", "mid"], categories=["low", "mid", "high"], ordered=True)
    by_rank = tree(pd.DataFrame({"o": ranks, "x": range(5)}), metric="gower")
    assert_allclose(
        by_rank.linkage_, tree(pd.DataFrame({"o": [0, 2, 1, 0, 1], "x": range(5)}), metric="gower").linkage_
    )
    assert model.cophenetic_correlation(table) > 0.5


def test_distances_that_are_none_are_refused():
    good = squareform(pdist(np.random.default_rng(15).normal(size=(5, 2))))

    def refused(words, *, at=None, value=0.0, both=True, D=None):
        D = good.copy() if D is None else D
        if at is not None:
            D[at] = value
            if both:
                D[at[::-1]] = value
        with pytest.raises(DataError, match=words) as caught:
            tree(D, metric="precomputed")
        assert caught.value.remedy

    refused("3 from row 1 to row 2, but", at=(1, 2), value=3.0, both=False)
    refused("distance -1 in row 1, column 3", at=(1, 3), value=-1.0)
    refused("distance NaN in row 0, column 4", at=(0, 4), value=np.nan)
    refused("distance inf in row 0, column 4", at=(0, 4), value=np.inf)
    refused("distance 2 of row 2 from itself", at=(2, 2), value=2.0)
    refused("square array", D=np.ones((3, 4)))
    refused("not a condensed vector", D=np.ones(4))


@pytest.mark.parametrize("linkage", ["centroid", "median", "ward"])
def test_distances_of_no_points_still_give_a_tree(linkage):
    D = np.triu(np.random.default_rng(0).random((40, 40)), 1)
    assert hierarchy.is_valid_linkage(tree(D + D.T, linkage, metric="precomputed").linkage_)


def test_parameters_that_contradict_each_other_are_refused():
    X = np.random.default_rng(16).normal(size=(6, 2))
    for model, words in (
        (HierarchicalClustering(None), "n_clusters = None and distance_threshold = None"),
        (HierarchicalClustering(2, distance_threshold=1.0), "n_clusters = 2 and distance_threshold = 1.0"),
        (HierarchicalClustering(metric="correlation"), "ward linkage needs Euclidean"),
    ):
        with pytest.raises(ParameterError, match=words):
            model.fit(X)
    with pytest.raises(ParameterError, match="k or height"):
        tree(X).cut()
    with pytest.raises(ParameterError, match="k = 7"):
        tree(X).cut(7)


def test_few_rows_and_rows_without_a_direction():
    assert tree([[1.0, 2.0]]).linkage_.shape == (0, 4)
    assert tree([[1.0, 2.0]]).cut(1).tolist() == [0]
    with pytest.raises(DataError, match="n_clusters = 3 but X has 2"):
        HierarchicalClustering(3).fit([[1.0], [2.0]])
    with pytest.raises(DataError, match="row 1 is constant"):
        tree([[1.0, 2.0], [3.0, 3.0], [0.0, 1.0]], metric="correlation")
    with pytest.raises(DataError, match="no two rows share a column"):
        tree(pd.DataFrame({"a": [np.nan, 1.0], "b": ["x", None]}), metric="gower")
    with pytest.raises(DataError, match="row 0 is zero"):
        tree([[0.0, 0.0], [3.0, 3.0]], metric="cosine")
    with pytest.warns(AssayWarning, match="1 pairs of rows, such as 0 and 1, share no column"):
        gaps = tree(pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [None, "x", "y"]}), metric="gower")
    assert_allclose(gaps.distances_, [1.0, 1.0])
    with pytest.raises(DataError, match="members is 0 in row 1"):
        tree([[0.0], [1.0]]).fit([[0.0], [1.0]], members=[1, 0])


@every_linkage
def test_heights_follow_the_scale(linkage):
    X = np.random.default_rng(17).normal(size=(30, 3))
    Z = tree(X, linkage).linkage_
    for factor in (2.0**500, 2.0**-500):
        scaled = tree(X * factor, linkage).linkage_
        assert_array_equal(scaled[:, 2], Z[:, 2] * factor)
        assert_array_equal(scaled[:, :2], Z[:, :2])


# Files.


def no_guests(value):
    raise AssertionError(f"{type(value).__name__} is not part of assay")


def again(value):
    tree_, arrays = to_state(value, no_guests)
    return from_state(json.loads(json.dumps(tree_)), [np.array(one, order="C") for one in arrays], no_guests)


def test_trees_come_back_from_their_state_and_broken_ones_do_not():
    X = pd.DataFrame(np.random.default_rng(18).normal(size=(12, 2)), index=list("abcdefghijkl"), columns=["x", "y"])
    fitted = HierarchicalClustering(3).fit(X)
    for model in (fitted, HierarchicalClustering.from_linkage(fitted.linkage_, 3), fitted.dendrogram()):
        back = again(model)
        assert_array_equal(back.cut(4), model.cut(4))
    assert again(fitted).merge_height("a", "b") == fitted.merge_height("a", "b")
    for row, column, value in ((3, 0, 5.0), (3, 0, 99.0), (10, 3, 3.0), (0, 1, 0.5)):
        broken = HierarchicalClustering.from_linkage(fitted.linkage_, 3)
        broken.linkage_[row, column] = value
        with pytest.raises(StateError):
            check_state(broken)
