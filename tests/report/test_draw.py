import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from assay.results import Curve, Diagnostics, Interval, Path, Result, Summary, Trace


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def curve(**more):
    x = np.array([0.01, 0.1, 1.0])
    return Curve(x, np.array([3.0, 1.0, 2.0]), "alpha", "error", **more)


def texts(ax):
    return {text.get_text() for text in ax.texts}


def test_a_curve_shows_its_errors_marks_and_rule():
    ax = curve(std_error=np.ones(3), marks={"min": 0.1, "1se": 1.0}, rule=2.0, log_x=True, title="CV").plot()
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "alpha"
    assert ax.get_title(loc="left") == "CV"
    assert texts(ax) == {"min", "1se"}
    assert any(np.allclose(line.get_ydata(), 2.0) for line in ax.lines if len(line.get_ydata()) == 2)


def test_marks_at_one_place_share_a_label():
    assert texts(curve(marks={"min": 0.1, "1se": 0.1}).plot()) == {"min, 1se"}


def test_a_band_and_points_are_drawn_when_there():
    band = curve(lower=np.zeros(3), upper=np.full(3, 4.0), level=0.9, points=(np.arange(3.0), np.arange(3.0)))
    labels = band.plot().get_legend_handles_labels()[1]
    assert labels == ["data", "90% band, pointwise"]


def test_a_path_is_read_from_empty_to_full_and_names_the_loudest():
    path = Path(np.array([1.0, 0.1]), np.array([[0.0, 2.0], [0.0, 0.0]]), np.zeros(2), ["age", "never"])
    ax = path.plot()
    left, right = ax.get_xlim()
    assert left > right
    assert texts(ax) == {"age"}


def test_a_path_that_ends_at_zero_is_drawn_against_its_l1_norm():
    path = Path(np.array([2.0, 1.0, 0.0]), np.array([[0.0, 1.0, 4.0]]), np.zeros(3), ["age"], marks={"bic": 1.0})
    ax = path.plot()
    assert ax.get_xscale() == "linear"
    assert np.allclose(ax.lines[0].get_xdata(), [0.0, 0.25, 1.0])
    assert any(np.allclose(line.get_xdata(), 0.25) for line in ax.lines)


def test_a_result_is_drawn_into_the_axes_it_is_given():
    _, ax = plt.subplots()
    assert curve().plot(ax=ax) is ax
    assert len(plt.get_fignums()) == 1


def test_the_other_results_draw():
    table = pd.DataFrame({"estimate": [1.0, 2.0], "lower": [0.0, 1.0], "upper": [2.0, 3.0]}, index=["intercept", "age"])
    ax = Summary("OLS", table, {"n": 2}).plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age"]
    assert Interval(0.5, 0.4, 0.6, 0.95, "Wilson", 10, "accuracy").plot().get_xlabel() == "accuracy"
    assert Trace(np.array([3.0, 2.0]), False, "stopped").plot().get_yscale() == "log"


def test_diagnostics_have_four_panels_and_name_the_worst_row():
    rng = np.random.default_rng(0)
    r = rng.standard_normal(60)
    cook = np.zeros(60)
    cook[7] = 2.0
    panels = Diagnostics(np.arange(60.0), r, np.full(60, 0.05), r, r, cook).plot()
    assert len(panels) == 4
    assert all("7" in texts(panel) for panel in panels)


def test_a_result_without_a_picture_says_so():
    class Silent(Result):
        pass

    with pytest.raises(TypeError, match="Silent cannot be plotted"):
        Silent().plot()
    with pytest.raises(AttributeError, match="Result has no table"):
        Result().to_frame()
