"""Pictures of decision regions: what stands in them, and what cannot be drawn."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from assay.errors import DataError, ParameterError
from assay.report.draw_regions import draw_regions

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    mpl.pyplot.close("all")


def flowers():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X.iloc[:, :2], np.array(["setosa", "versicolor", "virginica"])[y]


def test_one_picture_for_each_classifier_with_its_error():
    X, y = flowers()
    models = {
        "logistic": LogisticRegression(max_iter=500).fit(X, y),
        "tree": DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y),
    }
    figure = draw_regions(models, X, y)
    assert len(figure.axes) == 2
    for ax, (name, model) in zip(figure.axes, models.items(), strict=True):
        error = np.mean(model.predict(X) != y)
        assert ax.get_title(loc="left") == f"{name}: error {error:.3g}"
        drawn = sum(len(marks.get_offsets()) for marks in ax.collections if hasattr(marks, "get_sizes"))
        assert drawn >= len(y)
        assert ax.images[0].get_array().max() <= 2
    assert figure.axes[0].get_ylabel() == "sepal width (cm)"
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["setosa", "versicolor", "virginica", "hollow: classified wrongly"]


def test_lists_arrays_and_many_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 2)), rng.integers(0, 2, 4000)
    model = LogisticRegression().fit(X, y)
    figure = draw_regions([model, model, model, model], X, y, columns=("a", "b"))
    assert [ax.get_title(loc="left").split(":")[0] for ax in figure.axes[:4]] == [
        f"LogisticRegression {i}" for i in (1, 2, 3, 4)
    ]
    assert figure.axes[0].get_ylabel() == "b"
    assert len(draw_regions(model, X, y).axes) == 1


def test_what_cannot_be_drawn():
    X, y = flowers()
    model = LogisticRegression(max_iter=500).fit(X, y)
    with pytest.raises(DataError, match="two columns"):
        draw_regions(model, np.ones((150, 3)), y)
    with pytest.raises(ParameterError, match="not a fitted classifier"):
        draw_regions(LogisticRegression(), X, y)
    with pytest.raises(ParameterError, match="no classifier was given"):
        draw_regions([], X, y)
    with pytest.raises(ParameterError, match="fitted to 3 columns"):
        draw_regions(LogisticRegression().fit(np.eye(3), [0, 1, 1]), X, y)
    with pytest.raises(ParameterError, match="pass two names"):
        draw_regions(model, X, y, columns=["a"])
    many = pd.Series(np.arange(150) % 9).astype(str)
    with pytest.raises(DataError, match="there are 9 classes"):
        draw_regions(LogisticRegression(max_iter=2000).fit(X, many), X, many)
