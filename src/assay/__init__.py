"""Assay: statistical learning with results you can defend.

Families load on first use, so importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_ROOMS = (
    "bayes",
    "calibration",
    "clustering",
    "errors",
    "evaluation",
    "experiment",
    "generative",
    "inference",
    "latent",
    "linear",
    "margin",
    "metrics",
    "neighbors",
    "neural",
    "progress",
    "report",
    "resampling",
    "results",
    "trees",
)

_NAMES = {"Study": "assay.experiment.study", "run": "assay.experiment.study"}

__all__ = ["__version__", *_NAMES, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    if name in _ROOMS:
        return import_module(f"assay.{name}")
    raise AttributeError(f"module 'assay' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
