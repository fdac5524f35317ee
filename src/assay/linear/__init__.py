"""Linear models: least squares, penalties, selection, screening, bases and local fits (rows A1 to A7)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "least_squares": ("LinearRegression",),
    "basis": ("PolynomialBasis", "RadialBasis", "SplineBasis"),
    "local": ("LocalRegression",),
    "ridge": ("Ridge", "RidgeCV", "ridge_path"),
    "lasso": ("ElasticNet", "ElasticNetCV", "Lasso", "LassoCV", "enet_path", "lasso_path"),
    "lars": ("Lars",),
    "subset": ("BestSubset",),
    "stepwise": ("Stagewise", "Stepwise"),
    "screening": ("SIS", "IterativeSIS"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"assay.linear.{_HOME[name]}"), name)
    raise AttributeError(f"module 'assay.linear' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
