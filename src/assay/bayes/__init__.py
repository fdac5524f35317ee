"""Bayesian methods: decision rules (row B9), conjugate models (F1), linear regression and penalties as priors (F2)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "conjugate": (
        "BayesFactor",
        "BetaBinomial",
        "DirichletMultinomial",
        "GammaPoisson",
        "NormalGamma",
        "NormalMean",
    ),
    "decision": ("BayesRule", "LikelihoodRatioTest", "minimax_test", "neyman_pearson"),
    "regression": ("BayesianLinearRegression", "MapPenalty", "map_lasso", "map_ridge"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"assay.bayes.{_HOME[name]}"), name)
    raise AttributeError(f"module 'assay.bayes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
