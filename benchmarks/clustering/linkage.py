"""Hierarchical clustering beside fastcluster and scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster import hierarchy

from assay.clustering import HierarchicalClustering
from benchmarks.case import Case

__all__ = ["CASES"]

JOBS = 2


def cloud(n: int, p: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, p))


def ours(linkage: str) -> Any:
    return lambda X: HierarchicalClustering(linkage=linkage, n_jobs=JOBS).fit(X).linkage_


def fastcluster(linkage: str, *, vector: bool = False) -> Any:
    def run(X: np.ndarray) -> np.ndarray:
        import fastcluster

        return (fastcluster.linkage_vector if vector else fastcluster.linkage)(X, linkage)

    return run


def apart(linkage: str) -> Any:
    """How far a tree is from scipy's, over its heights; the exact tree has 0 but for rounding."""

    def gap(Z: np.ndarray, X: np.ndarray) -> float:
        heights = _scipy(linkage, X)
        return float(np.abs(Z[:, 2] - heights).max() / heights.max())

    return gap


_KNOWN: dict[str, np.ndarray] = {}


def _scipy(linkage: str, X: np.ndarray) -> np.ndarray:
    key = f"{linkage} {X.shape}"
    if key not in _KNOWN:
        _KNOWN[key] = hierarchy.linkage(X, linkage)[:, 2]
    return _KNOWN[key]


def length(Z: np.ndarray, _: Any) -> float:
    """The length of the spanning tree, which single linkage makes as short as possible."""
    return float(Z[:, 2].sum())


def table(linkage: str) -> Case:
    return Case(
        f"{linkage} linkage, 10,000 x 10",
        data=lambda: cloud(10_000, 10),
        ours=ours(linkage),
        peers={
            "fastcluster": fastcluster(linkage),
            "scipy": lambda X: hierarchy.linkage(X, linkage),
        },
        quality=apart(linkage),
        quality_name="largest difference of a height from scipy's",
        goals={"fastcluster": 1.2, "scipy": 1.5},
        slack=1e-9,
        repeats=3,
        cold=linkage == "average",
    )


CASES = [
    *(table(linkage) for linkage in ("average", "complete", "centroid")),
    Case(
        "single linkage in O(n) memory, 50,000 x 3",
        data=lambda: cloud(50_000, 3),
        ours=ours("single"),
        peers={"fastcluster linkage_vector": fastcluster("single", vector=True)},
        quality=length,
        quality_name="length of the tree",
        goals={"fastcluster linkage_vector": 1.2},
        slack=1e-6,
        repeats=3,
    ),
    Case(
        "Ward linkage in O(n p) memory, 20,000 x 10",
        data=lambda: cloud(20_000, 10),
        ours=ours("ward"),
        peers={"fastcluster linkage_vector": fastcluster("ward", vector=True)},
        quality=length,
        quality_name="sum of the heights",
        slack=1e-6,
        repeats=3,
    ),
]
