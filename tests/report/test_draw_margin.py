"""Pictures of kernels, the perceptron and units show what their results say."""

from __future__ import annotations

import warnings

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from assay.errors import ConvergenceWarning, DataError, ParameterError
from assay.margin import DeltaRule, Perceptron
from assay.margin.kernels import RBF, Linear, Sigmoid, is_valid
from assay.report.draw_margin import draw_line

matplotlib.use("Agg")

X = np.array([[2.0, 1.0], [1.0, 3.0], [-1.0, -1.0], [-2.0, 1.0]])
Y = ["yes", "yes", "no", "no"]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_spectrum_and_what_lies_below_zero():
    axes = is_valid(Sigmoid(1.0, 1.0), [[1.0], [2.0]]).plot()
    assert axes.get_title(loc="left") == "tanh(<x, x'> + 1): not a kernel"
    assert legend(axes) == ["1 below zero"]
    axes = is_valid(RBF(1.0) + Linear(), X).plot()
    assert axes.get_title(loc="left").endswith("valid by construction")
    assert axes.get_legend() is None


def test_mistakes_and_their_bound():
    trace = Perceptron().fit(X, Y).trace_
    axes = trace.plot()
    assert axes.lines[0].get_ydata().tolist() == [1, 1]
    assert legend(axes) == ["yes: at most R²/γ² = 4"]  # one line and its bound, dashed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        crossed = Perceptron().fit([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1, 1]).trace_
    assert "no line separates" in crossed.plot().get_title(loc="left")


def test_error_and_weights_of_a_unit():
    trace = DeltaRule(learning_rate=0.01, max_iter=20, tol=0).fit([[1.0], [3.0], [4.0]], [2.0, 1.0, 5.0]).trace_
    left = trace.plot()
    assert left.lines[0].get_ydata()[0] == trace.start
    right = left.figure.axes[1]
    assert legend(right) == ["x0", "intercept"]
    _, alone = plt.subplots()
    assert trace.plot(ax=alone) is alone


def test_a_line_and_its_margin():
    model = Perceptron().fit(X, Y)
    axes = draw_line(model, X, Y)
    distance = np.abs(X @ model.coef_[0] + model.intercept_[0]).min() / np.linalg.norm(model.coef_)
    assert f"{distance:.4g}" in axes.get_title(loc="left")
    assert len([line for line in axes.lines if line.get_linestyle() == "--"]) == 2
    axes = draw_line(model, X, ["no", "yes", "no", "no"])
    assert "1 of 4 rows on the wrong side" in axes.get_title(loc="left")
    assert not [line for line in axes.lines if line.get_linestyle() == "--"]
    with pytest.raises(ParameterError, match="no line in a plane"):
        draw_line(Perceptron(kernel="rbf").fit(X, Y), X, Y)
    with pytest.raises(DataError, match="shape"):
        draw_line(model, X[:, :1], Y)
