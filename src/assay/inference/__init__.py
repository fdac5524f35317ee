"""Arrays in, frozen results out (rows G1 to G6).

Tests, intervals, power, multiple testing, tail bounds, the bootstrap, permutation tests and sequential looks.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# At once, not on first use: a module and its function share a name, and the function must win.
from assay.inference.bootstrap import Bootstrap as Bootstrap
from assay.inference.bootstrap import bootstrap as bootstrap
from assay.inference.power import cohens_h as cohens_h
from assay.inference.power import power as power
from assay.inference.power import sample_size as sample_size

_HOMES = {
    "tests": ("binomial_test", "t_test", "z_test"),
    "intervals": ("mean_interval", "proportion_interval", "variance_interval"),
    "heavy_tails": ("TailDiagnosis", "diagnose_tail", "loss_interval"),
    "quantiles": ("quantile_interval",),
    "paired": ("corrected_t_test", "cv_t_test", "five_by_two_test", "mcnemar_test"),
    "permutation": ("PermutationTest", "permutation_test"),
    "sequential": (
        "ConfidenceSequence",
        "EProcess",
        "Peeking",
        "SpendingPlan",
        "alpha_spending",
        "confidence_sequence",
        "e_process",
        "peeking",
    ),
    "multiple": ("adjust_pvalues", "family_wise_error_rate"),
    "bounds": (
        "chebyshev",
        "chebyshev_interval",
        "chernoff",
        "chernoff_interval",
        "empirical_bernstein",
        "empirical_bernstein_interval",
        "hoeffding",
        "hoeffding_interval",
        "markov",
        "markov_interval",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME, "Bootstrap", "bootstrap", "cohens_h", "power", "sample_size"])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"assay.inference.{_HOME[name]}"), name)
    raise AttributeError(f"module 'assay.inference' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
