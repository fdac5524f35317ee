from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from assay.neural import Conv2D, Dense, FeatureMaps, Filters, Network, NeuralNetworkClassifier, StepSizes, TrainingTrace


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_a_trace_shows_both_losses_and_the_weights_that_were_kept():
    held = np.array([2.0, 0.5, 0.9])
    trace = TrainingTrace(np.array([3.0, 1.0, 0.1]), held, np.full(3, 0.1), 375, 2, True, "stopped")
    ax = trace.plot()
    assert ax.get_legend_handles_labels()[1] == ["training", "held out", "weights kept"]
    assert ax.lines[-1].get_xydata().tolist() == [[2.0, 0.5]]
    assert ax.get_xlabel() == "epoch of 375 updates"
    assert ax.get_yscale() == "log"


def test_step_sizes_mark_the_suggestion():
    ax = StepSizes(np.geomspace(1e-4, 1, 5), np.array([3.0, 2.0, 1.0, 1.5, 2.0]), 0.001).plot()
    assert ax.get_xscale() == "log"
    assert ax.get_legend_handles_labels()[1] == ["try 0.001"]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_filters_and_maps_are_grids_of_pictures(channels):
    rng = np.random.default_rng(0)
    cells = Filters(rng.normal(size=(5, 3, 3, channels)), "1 (Conv2D)").plot()
    assert len(cells) == 5
    cells = FeatureMaps(rng.normal(size=(6, 6, channels)), rng.normal(size=(4, 4, 50)), "1 (Conv2D)").plot()
    assert len(cells) == 36
    assert [cell.get_title() for cell in cells[:2]] == ["image", "map 1"]
    _, ax = plt.subplots()
    assert len(Filters(rng.normal(size=(40, 3, 3, channels)), "1 (Conv2D)").plot(ax)) == 36


def test_layers_and_gradients():
    rng = np.random.default_rng(0)
    network = Network([Conv2D(2, 3), Dense(3)], (5, 5, 1), random_state=0)
    texts = [text.get_text() for text in network.summary().plot().texts]
    assert {"input", "5 x 5 x 1", "Conv2D", "20", "3 x 3 x 2", "57"} <= set(texts)
    check = network.gradient_check(rng.normal(size=(2, 5, 5, 1)), [0, 1], "cross_entropy")
    assert [label.get_text() for label in check.plot().get_yticklabels()] == ["1 Conv2D", "2 Dense"]
    model = NeuralNetworkClassifier(hidden=(2,), max_epochs=2).fit(rng.normal(size=(9, 2)), [0, 1, 2] * 3)
    assert model.trace_.plot().get_xlabel() == "epoch of 1 update"
