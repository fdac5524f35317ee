"""Best subset: exact search with its proof, and splicing beside abess."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.linear import BestSubset
from benchmarks.case import Case

__all__ = ["CASES"]

LARGEST = 40


@dataclass(frozen=True)
class Table:
    """Rows with AR(1) columns and a sparse signal."""

    X: np.ndarray
    y: np.ndarray


def signal(n: int, p: int, true: int, size: float, noise: float, seed: int = 0) -> Table:
    """Columns with correlation 0.5^|i - j|; `true` coefficients of about +/- `size`."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    b = np.zeros(p)
    b[rng.choice(p, true, replace=False)] = size * rng.choice([-1, 1], true) * rng.uniform(0.5, 1.5, true)
    return Table(X, X @ b + noise * rng.standard_normal(n))


def exact(data: Table) -> BestSubset:
    return BestSubset(method="exact", n_jobs=-1).fit(data.X, data.y)


def total_log_rss(model: BestSubset, data: Table) -> float:
    """Sum over sizes of log RSS, plus infinity when a size is not proven."""
    return float(np.log(model.table_["rss"]).sum()) + (0.0 if model.proven_.all() else np.inf)


def splicing(data: Table) -> np.ndarray:
    return BestSubset(method="splicing", max_size=LARGEST).fit(data.X, data.y).support_


def abess_path(data: Table) -> np.ndarray:
    from abess import LinearRegression

    return np.asarray(LinearRegression(support_size=range(LARGEST + 1), ic_type="bic").fit(data.X, data.y).coef_ != 0)


def bic(support: np.ndarray, data: Table) -> float:
    """n log(RSS / n) + k log n of least squares on the chosen columns: both sides minimise it."""
    A = np.column_stack([np.ones(len(data.y)), data.X[:, support]])
    residual = data.y - A @ np.linalg.lstsq(A, data.y, rcond=None)[0]
    n = len(data.y)
    return float(n * np.log(residual @ residual / n) + support.sum() * np.log(n))


def _exact_case(p: int, repeats: int) -> Case:
    return Case(
        f"BestSubset exact, all sizes proven, 1,000 x {p}",
        data=lambda: signal(1_000, p, 10, 0.2, 1.0),
        ours=exact,
        peers={},  # no Python package proves the best subset; leaps in R needs about ten seconds at p = 40
        quality=total_log_rss,
        quality_name="sum of log RSS over sizes",
        slack=1e-6,
        repeats=repeats,
        cold=p == 30,
    )


CASES = [
    _exact_case(30, 5),
    _exact_case(40, 5),
    _exact_case(60, 2),
    Case(
        "BestSubset splicing, sizes 0 to 40, 1,000 x 2,000",
        data=lambda: signal(1_000, 2_000, 20, 1.0, 1.5),
        ours=splicing,
        peers={"abess": abess_path},
        quality=bic,
        quality_name="BIC of the chosen model",
        goals={"abess": 1.0},
        slack=1e-6,
    ),
]
