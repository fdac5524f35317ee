"""Lasso paths and cross-validated lasso beside scikit-learn and celer, at a relative duality gap of 1e-6 or better."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from assay.linear import LassoCV, lasso_path
from benchmarks.case import Case

__all__ = ["CASES"]

GAP = 1e-6
"""Relative to |y - mean y|^2 / (2 n). scikit-learn and celer compare the gap with tol |y|^2, hence tol = GAP / 2."""


class Table(NamedTuple):
    """Raw data, centred columns, the common grid, and room for centred rows and columns.

    The peers' path functions fit no intercept: from raw data they must centre first, into memory that is there already.
    """

    X: Any
    y: np.ndarray
    centred: Any
    target: np.ndarray
    alphas: np.ndarray
    room: np.ndarray
    columns: np.ndarray


def correlated(n: int, p: int, active: int, noise: float, order: str, rho: float = 0.6) -> Table:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)).astype(np.float64, order="F")
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    signal = X[:, rng.choice(p, active, replace=False)] @ rng.choice([-1.0, 1.0], active)
    y = signal + noise * np.std(signal) * rng.standard_normal(n)
    X = np.asarray(X, order=order)
    return _table(X, y, np.asfortranarray(X - X.mean(axis=0)))


def thin(n: int = 20_000, p: int = 50_000, density: float = 0.001, active: int = 100) -> Table:
    rng = np.random.default_rng(0)
    X = sparse.random_array(
        (n, p), density=density, format="csc", rng=rng, data_sampler=lambda size: rng.standard_normal(size)
    )
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    signal = X[:, rng.choice(p, active, replace=False)] @ rng.choice([-1.0, 1.0], active)
    y = signal + np.std(signal) / 3 * rng.standard_normal(n)
    return _table(X, y - y.mean(), X)  # without intercept on both sides: the peer's path function does not centre


def _table(X: Any, y: np.ndarray, centred: Any) -> Table:
    target = y - y.mean()
    top = np.abs(centred.T @ target).max() / len(y)
    room = np.zeros(0) if sparse.issparse(X) else np.zeros(X.shape)
    return Table(X, y, centred, target, np.geomspace(top, top * 1e-3, 100), room, np.zeros_like(room, order="F"))


class Coefficients(NamedTuple):
    """What quality looks at: coefficients (p, k)."""

    coefs: np.ndarray


def our_path(table: Table, **options: Any) -> Coefficients:
    return Coefficients(lasso_path(table.X, table.y, alphas=table.alphas, tol=GAP / 2, **options).coefficients)


def sklearn_path(table: Table, precompute: Any, given_centred: bool = True) -> Coefficients:
    from sklearn.linear_model import lasso_path as peer

    X = table.centred if given_centred else np.subtract(table.X, table.X.mean(axis=0), out=table.columns)
    options = {"alphas": table.alphas, "tol": GAP / 2, "precompute": precompute, "max_iter": 100_000}
    return Coefficients(peer(X, table.target, **options)[1])


def celer_path(table: Table) -> Coefficients:
    from celer import celer_path as peer

    _, coefs, _ = peer(table.centred, table.target, "lasso", alphas=table.alphas, tol=GAP / 2, max_iter=100)
    return Coefficients(coefs)


def worst_gap(outcome: Coefficients, table: Table) -> float:
    """The largest relative duality gap on the path, floored at GAP: below it both sides have done what was asked."""
    X, y, n = table.centred, table.target, len(table.y)
    gaps = []
    for k in range(0, table.alphas.size, 3):
        b, alpha = outcome.coefs[:, k], table.alphas[k]
        r = y - X @ b
        scale = min(1.0, alpha * n / np.abs(X.T @ r).max())
        primal = r @ r / (2 * n) + alpha * np.abs(b).sum()
        gaps.append(primal - (scale * (r @ y) / n - scale**2 * (r @ r) / (2 * n)))
    return float(max(GAP, max(gaps) / (y @ y / (2 * n))))


def centred_gram(table: Table) -> np.ndarray:
    Z = np.subtract(table.X, table.X.mean(axis=0), out=table.room)
    return Z.T @ Z


def our_cv(table: Table) -> np.ndarray:
    return LassoCV(alphas=table.alphas, cv=10, n_jobs=2).fit(table.X, table.y).mse_path_


def sklearn_cv(table: Table) -> np.ndarray:
    from sklearn.linear_model import LassoCV as Peer

    return Peer(alphas=table.alphas, cv=10, n_jobs=2, tol=1e-6).fit(table.X, table.y).mse_path_


def least_error(mse: np.ndarray, table: Table) -> float:
    return float(mse.mean(axis=1).min())


CASES = [
    Case(
        "Lasso path, 100 alphas, 1,000 x 5,000",
        data=partial(correlated, 1_000, 5_000, 50, 1 / 3, "F"),
        ours=our_path,
        peers={"scikit-learn": partial(sklearn_path, precompute=False), "celer": celer_path},
        quality=worst_gap,
        quality_name="largest relative duality gap (floored at 1e-6)",
        goals={"scikit-learn": 3.0, "celer": 1.5},
        slack=1e-8,
        repeats=1,
    ),
    Case(
        "Lasso path, 100 alphas, 100,000 x 200",
        data=partial(correlated, 100_000, 200, 20, 1.0, "C"),
        ours=our_path,
        peers={
            "scikit-learn": partial(sklearn_path, precompute=True, given_centred=False),
            "scikit-learn, centring not counted": partial(sklearn_path, precompute=True),
        },
        quality=worst_gap,
        quality_name="largest relative duality gap (floored at 1e-6)",
        goals={"scikit-learn": 1.3},
        slack=1e-8,
        repeats=15,
        cold=True,
        floor=centred_gram,
        floor_goal=1.6,
    ),
    Case(
        "Lasso path, 100 alphas, sparse 20,000 x 50,000 at 0.1%",
        data=thin,
        ours=partial(our_path, fit_intercept=False),
        peers={"scikit-learn": partial(sklearn_path, precompute=False)},
        quality=worst_gap,
        quality_name="largest relative duality gap (floored at 1e-6)",
        goals={"scikit-learn": 3.0},
        slack=1e-8,
        repeats=1,
    ),
    Case(
        "LassoCV, 10 folds x 100 alphas, 50,000 x 100",
        data=partial(correlated, 50_000, 100, 10, 1.0, "C"),
        ours=our_cv,
        peers={"scikit-learn (n_jobs=2)": sklearn_cv},
        quality=least_error,
        quality_name="least cross-validated mean squared error",
        goals={"scikit-learn (n_jobs=2)": 8.0},
        slack=1e-4,
    ),
]
