"""Hidden variables: Gaussian mixtures, Markov chains and hidden Markov models (rows E3, E4)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "mixture": ("GaussianMixture",),
    "_em": ("EMTrace",),
    "_mixture_results": ("MixtureDensity", "MixtureSelection"),
    "markov_chain": ("MarkovChain",),
    "hmm": ("CategoricalHMM",),
    "table_hmm": ("GaussianHMM", "PoissonHMM"),
    "_hmm_steps": ("ExpectedCounts",),
    "_chain_results": (
        "HiddenPath",
        "NextStep",
        "StateChoice",
        "StateDiagram",
        "StationaryLaws",
        "TransitionIntervals",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"assay.latent.{_HOME[name]}"), name)
    raise AttributeError(f"module 'assay.latent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
