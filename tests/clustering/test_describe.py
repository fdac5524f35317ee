"""Clusters described: effect sizes by their formulas, no tests of what made them, tests of what was left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats

from assay.clustering import KMeans, cluster_plane, describe_clusters, silhouettes
from assay.errors import AssayError, DataError
from assay.metrics import silhouette_samples

rng = np.random.default_rng(0)
X = pd.DataFrame({"a": np.r_[rng.normal(0, 1, 60), rng.normal(6, 1, 40)], "b": rng.normal(size=100)})
OTHERS = pd.DataFrame(
    {
        "income": rng.normal(size=100) + np.repeat([0, 2], [60, 40]),
        "city": rng.choice(["Rome", "Oslo"], 100),
        "none": np.nan,
    }
)
MODEL = KMeans(2, init=X.to_numpy()[[0, -1]]).fit(X)
labels = MODEL.labels_


def test_columns_that_made_the_clusters_are_never_tested():
    found = MODEL.describe(X)
    assert np.isnan(found.p_value).all()
    assert "p_value" not in found.to_frame()
    assert "double dipping" in str(found)


def test_effect_sizes_are_those_of_their_formulas():
    found = describe_clusters(X, labels)
    a, one = X["a"].to_numpy(), labels == 1
    pooled = np.sqrt((a[one].var() * one.sum() + a[~one].var() * (~one).sum()) / 98)
    assert_allclose(
        found.effects[0], [(a[~one].mean() - a[one].mean()) / pooled, (a[one].mean() - a[~one].mean()) / pooled]
    )
    between = sum(m.sum() * (a[m].mean() - a.mean()) ** 2 for m in (one, ~one))
    assert_allclose(found.strength[0], between / ((a - a.mean()) ** 2).sum())
    assert_allclose(found.values[0], [a[~one].mean(), a[one].mean()])


def test_columns_left_out_are_tested_and_corrected():
    found = describe_clusters(X, labels, left_out=OTHERS)
    frame = found.to_frame()
    assert list(frame.index.get_level_values("column").unique()) == ["a", "b", "income", "city"]
    income, city = frame.loc[("income", "")], frame.loc[("city", "Oslo")]
    groups = [OTHERS["income"][labels == j] for j in (0, 1)]
    assert_allclose(income["p_value"], stats.ttest_ind(*groups, equal_var=False).pvalue)
    table = pd.crosstab(OTHERS["city"], labels)
    assert_allclose(city["p_value"], stats.chi2_contingency(table, correction=False).pvalue)
    assert_allclose(city["strength"], stats.contingency.association(table, correction=False))
    assert_allclose(income["adjusted"], 2 * income["p_value"])
    assert frame.loc[("city", "Rome"), "adjusted"] == city["adjusted"]


def test_shares_of_levels_sum_to_one():
    found = describe_clusters(OTHERS[["city"]], labels)
    assert_allclose(found.values.sum(axis=0), 1.0)
    assert_allclose(found.overall.sum(), 1.0)


def test_rare_levels_are_tested_by_permutation():
    rare = pd.DataFrame({"kind": ["x"] * 97 + ["y"] * 3})
    found = describe_clusters(X, labels, left_out=rare)
    hypergeometric = stats.hypergeom.pmf(3, 100, 3, int((labels == labels[-1]).sum()))
    assert_allclose(found.p_value[-1], hypergeometric, atol=0.03)


def test_labels_of_another_table_are_refused():
    with pytest.raises(DataError, match="X has 100 rows, but there are 3 labels; pass one label per row"):
        describe_clusters(X, [0, 1, 1])
    with pytest.raises(DataError, match="labels must be cluster numbers, one per row"):
        describe_clusters(X, ["a"] * 100)


def test_silhouettes_and_plane():
    found = silhouettes(X, labels)
    assert_allclose(found.values, silhouette_samples(X, labels))
    assert_allclose(found.mean.estimate, found.values.mean())
    assert MODEL.plane(X).axes == ("a", "b")
    wide = np.column_stack([X, X["a"] + X["b"]])
    plane = cluster_plane(wide, labels, np.zeros((2, 3)))
    assert plane.axes[0].startswith("principal axis 1 (")
    # Two axes hold all of this table, so distances in the plane are those in the table.
    assert_allclose(np.linalg.norm(plane.points[0] - plane.points[1]), np.linalg.norm(wide[0] - wide[1]))
    assert cluster_plane(X[["a"]], labels, [[0.0], [1.0]]).points.shape == (100, 2)


def test_clusters_without_rows_have_no_mean():
    """Labels from 1 on, as scipy's fcluster has them."""
    found = describe_clusters(X, labels + 1)
    assert np.isnan(found.values[:, 0]).all()
    assert_allclose(found.values[:, 1:], describe_clusters(X, labels).values)
    assert str(found).startswith("3 clusters of 0, ")


def test_many_levels_are_printed_by_their_effects():
    """A few of each column: a column of names must not fill the page."""
    names = pd.DataFrame({"name": [f"car {i % 70}" for i in range(100)], "kind": np.where(labels == 1, "x", "y")})
    shown = str(describe_clusters(names, labels))
    assert shown.count("name = car") == 5
    assert shown.count("kind = ") == 2
    assert "... and 65 more columns or levels: to_frame() has all" in shown


def test_columns_left_out_of_the_same_name_keep_their_own_p_values():
    twice = pd.DataFrame(np.column_stack([OTHERS["income"], X["b"]]), columns=["z", "z"])
    found = describe_clusters(X, labels, left_out=twice)
    assert_allclose(found.adjusted[-2], 2 * found.p_value[-2])
    assert_allclose(found.adjusted[-1], found.p_value[-1])


def test_a_column_that_is_constant_in_a_cluster_is_tested_by_permutation():
    """Welch's test has no answer where a group does not vary: dummy columns are often so."""
    dummy = np.where(labels == 1, 0.0, (np.arange(100) % 2).astype(float))
    found = describe_clusters(X, labels, left_out=pd.DataFrame({"dummy": dummy, "same": 1.0}))
    assert found.p_value[-2] == pytest.approx(1 / 2000)
    assert np.isnan(found.p_value[-1])
    free = np.random.default_rng(1)
    p = []
    for _ in range(60):  # uniform where nothing is there: 60 draws, fixed seed
        rare = (free.random(100) < 0.03).astype(float)
        if rare.any() and (rare[labels == 0].std() == 0 or rare[labels == 1].std() == 0):
            p.append(describe_clusters(X, labels, left_out=pd.DataFrame({"rare": rare})).p_value[-1])
    assert np.mean(np.array(p) <= 0.05) <= 0.2


def test_numbers_beside_text_in_an_array_stay_numbers():
    table = np.array([[1.0, "a"], [2.0, "b"], [5.0, "b"], [6.0, "b"]], dtype=object)
    assert describe_clusters(table, [0, 0, 1, 1]).levels == ("", "a", "b")


@pytest.mark.parametrize(
    ("table", "codes", "words"),
    [
        (pd.DataFrame({"a": [1.0, np.inf, 2.0]}), [0, 1, 1], "column 'a' contains inf in row 1"),
        (pd.DataFrame({"a": pd.date_range("2020", periods=3)}), [0, 1, 1], "column 'a' contains dates or times"),
        (sparse.csr_array(np.eye(3)), [0, 1, 1], "X is sparse"),
        (pd.DataFrame({"a": [1.0, 2.0]}), [0, 10**9], "labels reach 1000000000, but there are 2 rows"),
        (pd.DataFrame({"a": [1.0, 2.0]}), [0, -1], "labels must be cluster numbers"),
        (pd.DataFrame({"a": []}), np.empty(0, dtype=int), "labels must be cluster numbers"),
    ],
)
def test_what_cannot_be_described(table, codes, words):
    with pytest.raises(AssayError, match=words):
        describe_clusters(table, codes)


def test_a_plane_needs_what_belongs_together():
    with pytest.raises(DataError, match="pass one label per row, and centres of the same columns"):
        cluster_plane(X, labels, np.zeros((2, 3)))
    with pytest.raises(AssayError, match="contains text, not numbers"):
        cluster_plane(OTHERS[["city", "income"]], labels, np.zeros((2, 2)))
