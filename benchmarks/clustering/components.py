"""Principal components beside scikit-learn's solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA

from assay.clustering import PrincipalComponents
from benchmarks.case import Case

__all__ = ["CASES"]


def correlated(n: int, p: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 20)) @ rng.standard_normal((20, p)) + rng.standard_normal((n, p))


def thin(n: int, p: int) -> Any:
    """A sparse table of counts with a few topics."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(n), 30)
    columns = (rng.random(30 * n) ** 3 * p).astype(int) // (1 + rows % 5)
    return sparse.csr_array((np.ones(30 * n), (rows, columns)), shape=(n, p))


def lost(model: Any, X: Any) -> float:
    """The share of the variance that the components miss."""
    return 1.0 - float(model.explained_variance_ratio_.sum())


def theirs(solver: str, k: int) -> Any:
    return lambda X: PCA(k, svd_solver=solver, random_state=0).fit(X)


CASES = [
    Case(
        "10 principal components of 100,000 x 200",
        data=lambda: correlated(100_000, 200),
        ours=lambda X: PrincipalComponents(10).fit(X),
        peers={
            "scikit-learn covariance_eigh": theirs("covariance_eigh", 10),
            "scikit-learn randomized": theirs("randomized", 10),
        },
        quality=lost,
        quality_name="variance missed",
        goals={"scikit-learn covariance_eigh": 1.0, "scikit-learn randomized": 1.0},
        slack=1e-9,
        repeats=3,
    ),
    Case(
        "10 principal components of a sparse 50,000 x 5,000",
        data=lambda: thin(50_000, 5_000),
        ours=lambda X: PrincipalComponents(10, random_state=0).fit(X),
        peers={"scikit-learn arpack": theirs("arpack", 10)},
        quality=lost,
        quality_name="variance missed",
        slack=1e-3,
        repeats=3,
    ),
]
