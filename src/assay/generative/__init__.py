"""Classifiers that model each class and turn the model round by Bayes' rule: discriminants (B3), naive Bayes (B4)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "discriminant": ("LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"),
    "mixed": ("MixedNB",),
    "naive_bayes": ("BernoulliNB", "CategoricalNB", "GaussianNB", "MultinomialNB"),
    "plug_in": ("PlugInClassifier",),
    "text": ("TellingWords", "TextNB"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"assay.generative.{_HOME[name]}"), name)
    raise AttributeError(f"module 'assay.generative' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
