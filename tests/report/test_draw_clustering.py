"""Pictures of k-means: every result has one, with the numbers it shows."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from assay.clustering import KMeans, choose_k, describe_clusters
from assay.errors import ParameterError

mpl.use("Agg")
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(90, 3)) + 5 * np.eye(3)[np.arange(90) % 3], columns=["a", "b", "c"])
MODEL = KMeans(3, init="random", n_init=6, random_state=0).fit(X)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_every_result_has_a_picture():
    left = pd.DataFrame({"d": rng.normal(size=90), "e": np.where(np.arange(90) % 3, "x", "y")})
    for result in (
        MODEL.trace_, MODEL.starts_, MODEL.variation_, MODEL.silhouettes(X), MODEL.plane(X),
        describe_clusters(X, MODEL.labels_, left_out=left),
    ):  # fmt: skip
        axes = result.plot()
        axes.figure.canvas.draw()
        assert axes.get_title(loc="left")


def test_bars_of_silhouettes_are_the_silhouettes():
    found = MODEL.silhouettes(X)
    axes = found.plot()
    assert f"{found.mean.estimate:.2f}" in axes.get_title(loc="left")
    assert len(axes.collections) == 3


def test_a_profile_shows_means_and_left_out_columns_last():
    left = pd.DataFrame({"strong": MODEL.labels_ + 0.01 * rng.normal(size=90)})
    found = describe_clusters(X, MODEL.labels_, left_out=left)
    axes = found.plot()
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[-1].startswith("strong  (left out, p ")
    assert len(axes.texts) == 4 * 3


def test_the_choice_of_k_is_four_pictures():
    found = choose_k(X, 4, n_bootstrap=19, n_references=5, n_resamples=3, n_init=1, random_state=0)
    panels = found.plot()
    assert len(panels) == 4
    panels[0].figure.canvas.draw()
    with pytest.raises(ParameterError, match="four panels"):
        found.plot(plt.subplots()[1])


def test_one_start_and_many_clusters_can_be_drawn():
    many = KMeans(14, random_state=0).fit(X)
    for result in (many.starts_, many.variation_, many.silhouettes(X), many.plane(X)):
        result.plot().figure.canvas.draw()
