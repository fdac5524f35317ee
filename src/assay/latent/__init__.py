"""Hidden variables: Gaussian mixtures, Markov chains and hidden Markov models (rows E3, E4)."""

from assay.latent.chain_results import (
    HiddenPath,
    NextStep,
    StateChoice,
    StateDiagram,
    StationaryLaws,
    TransitionIntervals,
)
from assay.latent.markov_chain import MarkovChain

__all__ = [
    "HiddenPath",
    "MarkovChain",
    "NextStep",
    "StateChoice",
    "StateDiagram",
    "StationaryLaws",
    "TransitionIntervals",
]
