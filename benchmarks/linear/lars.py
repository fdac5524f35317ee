"""The exact lasso path by least angles beside scikit-learn's `lars_path`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.linear import Lars
from benchmarks.case import Case

__all__ = ["CASES"]

PEER = "scikit-learn lars_path"


@dataclass(frozen=True)
class Table:
    """Centred columns of unit length and a centred target."""

    X: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Knots:
    """alphas and one column of coefficients for each."""

    alphas: np.ndarray
    coef: np.ndarray


def centred(X: np.ndarray, y: np.ndarray) -> Table:
    X = X - X.mean(axis=0)
    return Table(X / np.linalg.norm(X, axis=0), y - y.mean())


def diabetes_with_products() -> Table:
    """Ten columns, their squares (but the dummy's) and products: 442 x 64, as in Efron et al."""
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import PolynomialFeatures

    X, y = load_diabetes(return_X_y=True)
    expansion = PolynomialFeatures(2, include_bias=False)
    wide = expansion.fit_transform(X)
    dummy_squared = list(expansion.get_feature_names_out()).index("x1^2")
    return centred(np.delete(wide, dummy_squared, axis=1), y)


def wide() -> Table:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2000))
    b = np.zeros(2000)
    b[:20] = 3.0
    return centred(X, X @ b + 3 * rng.standard_normal(500))


def ours(data: Table) -> Knots:
    model = Lars(method="lasso").fit(data.X, data.y)
    return Knots(model.alphas_, model.path_.coefficients)


def sklearn_path(data: Table) -> Knots:
    from sklearn.linear_model import lars_path

    alphas, _, coef = lars_path(data.X, data.y, method="lasso", max_iter=20_000)
    return Knots(alphas, coef)


def violation(path: Knots, data: Table) -> float:
    """Largest breach of the lasso's conditions over 50 alphas down to a thousandth of the first, relative to it.

    The path is read as it is meant to be, by straight lines between its knots.
    """
    n = len(data.y)
    top = float(np.max(np.abs(data.X.T @ data.y)) / n)
    order = np.argsort(path.alphas, kind="stable")
    grid = top * np.geomspace(1.0, 1e-3, 50)
    B = np.array([np.interp(grid, path.alphas[order], row[order]) for row in path.coef])
    gradient = data.X.T @ (data.y[:, None] - data.X @ B) / n
    outside = np.abs(gradient).max(axis=0) - grid
    inside = np.where(np.abs(B) > 1e-12 * np.abs(B).max(), np.abs(gradient - grid * np.sign(B)), 0.0).max(axis=0)
    return float(max(outside.max(), inside.max()) / top)


CASES = [
    Case(
        "Lasso path by least angles, 442 x 64 (diabetes with products)",
        data=diabetes_with_products,
        ours=ours,
        peers={PEER: sklearn_path},
        quality=violation,
        quality_name="largest breach of optimality",
        goals={PEER: 2.0},
        slack=1e-9,
        repeats=9,
    ),
    Case(
        "Lasso path by least angles, 500 x 2,000",
        data=wide,
        ours=ours,
        peers={PEER: sklearn_path},
        quality=violation,
        quality_name="largest breach of optimality",
        goals={PEER: 2.0},
        slack=1e-9,
    ),
]
