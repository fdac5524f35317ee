"""Sure independence screening against the floor of one matrix-vector product, and beside scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.linear import SIS
from benchmarks.case import Case

__all__ = ["CASES"]


@dataclass(frozen=True)
class Table:
    """Wide single-precision data with a few columns that matter."""

    X: np.ndarray
    y: np.ndarray


def wide(n: int, p: int) -> Table:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32)
    return Table(X, X[:, :: (p // 5)].sum(axis=1, dtype=np.float64) + rng.standard_normal(n))


def screen(data: Table) -> np.ndarray:
    return SIS(n_jobs=-1).fit(data.X, data.y).scores_


def sklearn_correlations(data: Table) -> np.ndarray:
    from sklearn.feature_selection import r_regression

    return np.abs(r_regression(data.X, data.y))


def one_product(data: Table) -> np.ndarray:
    centred = (data.y - data.y.mean()).astype(np.float32)
    return data.X.T @ centred


def error(scores: np.ndarray, data: Table) -> float:
    """Largest error of the scores of every hundredth column, against two passes in double precision."""
    Z = data.X[:, ::100].astype(np.float64)
    Z -= Z.mean(axis=0)
    t = data.y - data.y.mean()
    exact = np.abs(t @ Z) / np.sqrt((Z**2).sum(axis=0) * (t @ t))
    return float(np.abs(scores[::100] - exact).max())


CASES = [
    Case(
        "SIS, 200 x 1,000,000 float32",
        data=lambda: wide(200, 1_000_000),
        ours=screen,
        peers={},
        quality=error,
        quality_name="largest error of a score",
        floor=one_product,
        floor_goal=3.0,
    ),
    Case(
        "SIS, 200 x 100,000 float32",
        data=lambda: wide(200, 100_000),
        ours=screen,
        peers={"scikit-learn r_regression": sklearn_correlations},
        quality=error,
        quality_name="largest error of a score",
        goals={"scikit-learn r_regression": 2.0},
        slack=1e-12,
    ),
]
