"""k-means to convergence from the same starts, beside scikit-learn's Lloyd and Elkan."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn import cluster as peer
from sklearn.datasets import make_blobs

from assay.clustering import KMeans
from benchmarks.case import Case

__all__ = ["CASES"]

JOBS = 2
ITERATIONS = 300


def overlapping(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """As many normal clusters as centres, wide enough to overlap, and rows of the table to start from."""
    X, _ = make_blobs(n, d, centers=k, cluster_std=4.0, random_state=0)
    return X, X[np.random.default_rng(0).choice(n, k, replace=False)]


def ours(data: Any) -> float:
    X, start = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both stop after the same number of iterations where they have not converged
        model = KMeans(len(start), init=start, tol=0, max_iter=ITERATIONS, n_jobs=JOBS).fit(X)
    return model.inertia_


def theirs(algorithm: str) -> Any:
    def run(data: Any) -> float:
        X, start = data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = peer.KMeans(len(start), init=start, n_init=1, tol=0, max_iter=ITERATIONS, algorithm=algorithm)
            return float(model.fit(X).inertia_)

    return run


def inertia(found: float, _: Any) -> float:
    return found


PEERS = {"scikit-learn lloyd": theirs("lloyd"), "scikit-learn elkan": theirs("elkan")}


def case(name: str, n: int, d: int, k: int, goal: float, **more: Any) -> Case:
    """One size; the objective must be the peers'."""
    return Case(
        name, data=lambda: overlapping(n, d, k), ours=ours, peers=more.pop("peers", PEERS), quality=inertia,
        quality_name="inertia", goals={"scikit-learn lloyd": goal}, slack=1e-6 * n * d, **more,
    )  # fmt: skip


CASES = [
    case("k-means 200,000 x 20, k = 50, same start", 200_000, 20, 50, 1.5, repeats=3, cold=True),
    case(
        "k-means 200,000 x 20, k = 500, same start", 200_000, 20, 500, 3.0, repeats=1,
        peers={"scikit-learn lloyd": PEERS["scikit-learn lloyd"]},
    ),
    case("k-means 1,000,000 x 2, k = 20, same start", 1_000_000, 2, 20, 2.0, repeats=3),
]  # fmt: skip
