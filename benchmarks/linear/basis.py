"""Basis expansions beside scikit-learn's transformers, on the same columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import Case

__all__ = ["CASES"]


def table() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(100_000, 10))


def splines(X: np.ndarray) -> Any:
    from assay.linear import SplineBasis

    return SplineBasis(8).fit_transform(X)


def scikit_learn_splines(X: np.ndarray) -> Any:
    from sklearn.preprocessing import SplineTransformer

    options = {"knots": "quantile", "extrapolation": "linear", "include_bias": False}
    return SplineTransformer(8, **options).fit_transform(X)


def splines_off_one(out: np.ndarray, X: np.ndarray) -> float:
    """How far the splines of a column, with the one left out, are from what de Boor's algorithm gives."""
    from scipy.interpolate import BSpline

    base = np.quantile(X[:, 0], np.linspace(0, 1, 8))
    steps = np.arange(1, 4)
    knots = np.r_[base[0] - (base[1] - base[0]) * steps[::-1], base, base[-1] + (base[-1] - base[-2]) * steps]
    return float(np.abs(out[:, :9] - BSpline(knots, np.eye(10), 3)(X[:, 0])[:, :9]).max())


def powers(X: np.ndarray) -> Any:
    from assay.linear import PolynomialBasis

    return PolynomialBasis(3).fit_transform(X)


def scikit_learn_powers(X: np.ndarray) -> Any:
    from sklearn.preprocessing import PolynomialFeatures

    return PolynomialFeatures(3, include_bias=False).fit_transform(X)


def last_cube(out: np.ndarray, X: np.ndarray) -> float:
    """Relative error of the last column, the cube of the last variable."""
    return float(np.abs(out[:, -1] / X[:, -1] ** 3 - 1.0).max())


CASES = [
    Case(
        name="SplineBasis, cubic, 8 quantile knots, 100,000 x 10",
        data=table,
        ours=splines,
        peers={"scikit-learn": scikit_learn_splines},
        quality=splines_off_one,
        quality_name="largest error against de Boor's algorithm",
        goals={"scikit-learn": 1.0},
        slack=1e-12,
    ),
    Case(
        name="PolynomialBasis, degree 3, 100,000 x 10 to 285",
        data=table,
        ours=powers,
        peers={"scikit-learn": scikit_learn_powers},
        quality=last_cube,
        quality_name="relative error of a cube",
        goals={"scikit-learn": 1.0},
        slack=1e-14,
    ),
]
