"""Each result of inference has its picture: the right marks in the right places."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from assay.inference import (
    adjust_pvalues,
    chernoff,
    diagnose_tail,
    hoeffding,
    markov,
    mean_interval,
    proportion_interval,
    t_test,
)
from assay.results import TestResult


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_a_test_shows_estimate_interval_and_null():
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [2.0, 2.5, 3.5]})
    axes = t_test(frame, popmean=1.0).plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert "null" in axes.get_legend_handles_labels()[1]
    assert "p = " in t_test(frame["a"]).plot().get_title(loc="left")
    t_test(frame, popmean=[0.0, 1.0]).plot()


def test_an_open_end_runs_past_the_null():
    result = t_test([10.0, 11.0, 12.0], popmean=2.0, alternative="less")
    axes = result.plot()
    assert axes.collections[0].get_segments()[0][:, 0].min() < 2.0


def test_intervals_draw_alone_and_in_rows():
    assert mean_interval([1.0, 2.0]).plot().get_xlabel() == "mean"
    assert len(proportion_interval([1, 2, 3], [4, 5, 6]).plot().get_yticks()) == 3
    mean_interval([1.0, 1.0]).plot()


@pytest.mark.parametrize("method", ["holm", "bonferroni", "sidak", "hochberg", "bh", "by"])
def test_the_line_divides_what_is_rejected(method):
    """The last rejected p-value lies on or under the drawn line, for single-step methods every one does."""
    rng = np.random.default_rng(0)
    result = adjust_pvalues(np.concatenate([rng.random(200), rng.random(30) * 1e-5]), method=method)
    axes = result.plot()
    line = axes.get_lines()[0].get_ydata()
    assert 0 < result.n_rejected < 230
    assert result.threshold <= line[result.n_rejected - 1] * (1 + 1e-12)
    if method in ("holm", "bonferroni", "sidak"):
        assert np.sort(result.p_values)[result.n_rejected] > line[result.n_rejected]


def test_corrections_with_nothing_to_see_still_draw():
    for p in ([0.2], [0.0, 0.0], [1.0, 1.0]):
        axes = adjust_pvalues(p).plot()
        drawn = np.concatenate([dots.get_offsets() for dots in axes.collections])
        assert sorted(drawn[:, 1]) == p


def test_bounds_draw_the_curve_through_the_solution():
    for bound in (hoeffding(n=100, delta=0.05), chernoff(p=0.3, n=10, eps=0.2), markov(mean=1.0, threshold=3.0)):
        x, y = bound.plot().get_lines()[1].get_data()
        assert bound.tail(x[0]) == pytest.approx(y[0])


def test_a_test_without_an_estimate_says_so():
    with pytest.raises(AttributeError, match="no interval"):
        TestResult(1.0, 0.5, (1, 2), "F test").plot()


def test_a_tail_shows_how_few_rows_make_up_how_much():
    found = diagnose_tail(np.r_[np.ones(99), 101.0])
    axes = found.plot()
    widths = sorted(round(bar.get_width(), 6) for bar in axes.patches)
    assert widths == [1.0, 50.5, 100.0, 100.0]
    assert "1 largest of 100" in axes.get_title(loc="left")
