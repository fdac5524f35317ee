"""Pictures of Markov chains and hidden Markov models: each is drawn, named and takes an axes of the caller."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from assay.latent import CategoricalHMM, GaussianHMM, MarkovChain, PoissonHMM

ICE = CategoricalHMM.from_parameters(
    [0.8, 0.2], [[0.6, 0.4], [0.5, 0.5]], [[0.2, 0.4, 0.4], [0.5, 0.4, 0.1]], state_names=["H", "C"], symbols=[1, 2, 3]
)
CHAIN = MarkovChain().fit("HHHCHHCCHHHHCCCHHHCHCHHC")
NORMAL = GaussianHMM.from_parameters([1, 0, 0], np.full((3, 3), 1 / 3), [[0.0], [2.0], [4.0]], [[[1.0]]] * 3)
COUNTED = PoissonHMM.from_parameters([1.0], [[1.0]], [[3.0]])

RESULTS = {
    "diagram of two": ICE.diagram,
    "diagram of one": COUNTED.diagram,
    "diagram of three with long names": lambda: MarkovChain(1.0).fit(["incubation", "illness", "recovered"]).diagram(),
    "many states": lambda: MarkovChain(1.0).fit(np.random.default_rng(0).integers(30, size=400)).diagram(),
    "path": lambda: ICE.decode([[3, 1, 3], [1]]),
    "states of each step": lambda: NORMAL.decode(np.zeros((5, 1)), method="posterior"),
    "next symbol": lambda: ICE.predict_next([3]),
    "next row": lambda: NORMAL.predict_next([np.zeros((5, 1)), np.ones((2, 1))], steps=2),
    "choice": lambda: GaussianHMM(random_state=0).select(NORMAL.sample(80, random_state=0)[0], [1, 2]),
    "stationary": CHAIN.stationary,
    "two stationary laws": lambda: MarkovChain.from_parameters([0.5, 0.5], np.eye(2)).stationary(),
    "intervals": CHAIN.intervals,
}


@pytest.mark.parametrize("name", RESULTS)
def test_pictures(name):
    result = RESULTS[name]()
    _, ax = plt.subplots()
    try:
        assert result.plot(ax=ax) is ax
        assert result.plot() is not ax
        assert ax.get_title(loc="left") or ax.get_title()
        ax.figure.canvas.draw()
        assert str(result)
        assert len(result.to_frame())
    finally:
        plt.close("all")


def test_models_draw_their_diagram():
    for model in (ICE, CHAIN, NORMAL):
        assert model.plot().patches
    plt.close("all")


def test_of_many_transitions_the_most_frequent_are_drawn_with_their_limits():
    found = MarkovChain(1.0).fit(np.random.default_rng(0).integers(9, size=300)).intervals()
    axes = found.plot()
    try:
        shown = [label.get_text() for label in axes.get_yticklabels()][::-1]
        top = found.table.loc[np.sort(found.table["count"].nlargest(40).index)]
        assert shown == [f"{a} → {b}" for a, b in zip(top["from"], top["to"], strict=True)]
        assert "the 40 most frequent of 81" in axes.get_title(loc="left") + axes.get_title()
    finally:
        plt.close("all")


def test_a_space_can_be_seen():
    axes = MarkovChain().fit("a b a  b a").stationary().plot()
    try:
        assert [label.get_text() for label in axes.get_xticklabels()] == ["' '", "a", "b"]
    finally:
        plt.close("all")
    assert "' ': 1" in CategoricalHMM.from_parameters([1.0], [[1.0]], [[1.0]], symbols=" ").diagram().emits[0]
