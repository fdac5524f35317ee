"""Pictures of trees and directions: what they show, and that names do not cover each other."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from assay.clustering import HierarchicalClustering, PrincipalComponents


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def drawn(n, names=None, k=3, linkage="average"):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return HierarchicalClustering(k, linkage=linkage).fit(X).dendrogram(names).plot()


def test_a_dendrogram_has_one_bracket_per_merge_and_names_at_its_leaves():
    names = [f"leaf {i}" for i in range(8)]
    axes = drawn(8, names)
    assert len(axes.collections[0].get_segments()) == 7
    assert {tick.get_text() for tick in axes.get_xticklabels()} == set(names)
    assert len({tuple(colour) for colour in axes.collections[0].get_colors()}) <= 4


def test_many_leaves_lie_and_very_many_are_truncated():
    lying = drawn(100, [f"row {i}" for i in range(100)])
    assert lying.get_xlabel() == "height of the merge"
    assert len(lying.get_yticklabels()) == 100
    unnamed = drawn(300)
    assert "300 rows" in unnamed.get_xlabel()
    cut = drawn(2000)
    assert len(cut.collections[0].get_segments()) == 59
    assert "the last 59 merges" in cut.get_title(loc="left")
    inside = [text.get_text().strip("()") for text in cut.get_yticklabels()]
    in_brackets = [int(text.get_text().strip("()")) for text in cut.get_yticklabels() if "(" in text.get_text()]
    assert sum(in_brackets) + len(inside) - len(in_brackets) == 2000


def test_one_row_and_inversions_draw():
    assert HierarchicalClustering(1).fit([[1.0, 2.0]]).dendrogram().plot() is not None
    assert len(drawn(60, linkage="centroid").collections[0].get_segments()) == 59


def test_components_draw():
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(40, 5)), columns=list("abcde"))
    X["b"] = X["a"] + 0.1 * X["b"]
    model = PrincipalComponents(scale=True).fit(X)
    scree = model.explained(X, n_resamples=20, n_permutations=10, random_state=0).plot()
    assert scree.get_ylabel() == "share of the variance"
    assert len(model.summary().plot().texts) == 25
    axes = model.biplot(X, groups=["u", "v"] * 20).plot()
    assert {"a", "b", "c"} <= {text.get_text() for text in axes.texts}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["u", "v"]


def test_names_of_rows_do_not_cover_each_other():
    X = pd.DataFrame(np.random.default_rng(2).normal(size=(80, 4)), index=[f"a long name {i}" for i in range(80)])
    axes = PrincipalComponents().fit(X.set_axis(list("abcd"), axis=1)).biplot(X.set_axis(list("abcd"), axis=1)).plot()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text().startswith("a long")]
    assert 5 < len(boxes) < 80
    assert not any(one.overlaps(two) for i, one in enumerate(boxes) for two in boxes[:i])
