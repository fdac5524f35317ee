"""Exact neighbours beside scikit-learn's searches, and leave-one-out over many k beside its loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import neighbors as peer
from sklearn.datasets import make_classification

from assay.neighbors import KNeighborsClassifier
from benchmarks.case import Case

__all__ = ["CASES"]

JOBS = 2


def cloud(n: int, p: int, queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Independent columns: the hardest case for trees."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + queries, p))
    return X[:n], rng.integers(0, 5, n), X[n:]


def classes(n: int, p: int, queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clusters, correlated and noisy columns, as classification tables have them."""
    X, y = make_classification(
        n + queries, p, n_informative=p // 2, n_redundant=p // 4, n_classes=5, class_sep=1.5, random_state=0
    )
    return X[:n], y[:n], X[n:]


def pictures() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """60,000 rows of 784 columns that fill few dimensions, as pictures do."""
    rng = np.random.default_rng(1)
    base = np.maximum(rng.standard_normal((30, 784)), 0.0)
    X = np.maximum(rng.standard_normal((60_000, 30)), 0.0) @ base + 0.3 * rng.standard_normal((60_000, 784))
    return X[:50_000], rng.integers(0, 10, 50_000), X[50_000:]


def ours(data: Any, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    X, y, Q = data
    distance, row = KNeighborsClassifier(k, n_jobs=JOBS).fit(X, y).kneighbors(Q)
    return distance, row


def theirs(algorithm: str) -> Any:
    def run(data: Any, k: int = 10) -> Any:
        X, y, Q = data
        return peer.KNeighborsClassifier(k, algorithm=algorithm, n_jobs=JOBS).fit(X, y).kneighbors(Q)

    return run


def farther(found: Any, data: Any) -> float:
    """The mean distance of the neighbours found, measured anew: no search can have a smaller one."""
    X, _, Q = data
    total = 0.0
    for at in range(0, len(Q), 256):
        steps = X[found[1][at : at + 256]] - Q[at : at + 256, None, :]
        total += float(np.sqrt((steps**2).sum(axis=2)).sum())
    return total / found[1].size


def loo_curve(data: Any) -> np.ndarray:
    X, y, _ = data
    return KNeighborsClassifier("loo", candidates=50, n_jobs=JOBS).fit(X, y).loo_.error


def loo_by_hand(data: Any) -> np.ndarray:
    """One search of scikit-learn's without the rows themselves, and the votes added up along it by hand."""
    X, y, _ = data
    rows = peer.NearestNeighbors(n_neighbors=50, n_jobs=JOBS).fit(X).kneighbors(return_distance=False)
    every, counts, errors = np.arange(len(y)), np.zeros((len(y), y.max() + 1)), []
    for t in range(50):
        counts[every, y[rows[:, t]]] += 1
        errors.append(np.mean(counts.argmax(axis=1) != y))
    return np.array(errors)


def loo_loop(data: Any) -> np.ndarray:
    """One search of scikit-learn's for each k."""
    X, y, _ = data
    errors = []
    for k in range(1, 51):
        model = peer.KNeighborsClassifier(k, n_jobs=JOBS).fit(X, y)
        errors.append(np.mean(model.predict(None) != y))
    return np.array(errors)


def curve_gap(errors: np.ndarray, _: Any) -> float:
    return float(np.sum(errors))


SEARCHES = {"scikit-learn brute": theirs("brute"), "scikit-learn kd_tree": theirs("kd_tree")}

CASES = [
    Case(
        "10 neighbours of 10,000 queries among 50,000 x 20",
        data=lambda: classes(50_000, 20, 10_000),
        ours=ours,
        peers=SEARCHES,
        quality=farther,
        quality_name="mean distance",
        goals={"scikit-learn brute": 1.3},
        slack=1e-9,
        repeats=3,
        cold=True,
    ),
    Case(
        "10 neighbours of 10,000 queries among 50,000 x 20, independent columns",
        data=lambda: cloud(50_000, 20, 10_000),
        ours=ours,
        peers={"scikit-learn brute": theirs("brute")},
        quality=farther,
        quality_name="mean distance",
        goals={"scikit-learn brute": 1.3},
        slack=1e-9,
        repeats=3,
    ),
    Case(
        "10 neighbours of 10,000 queries among 50,000 x 784",
        data=pictures,
        ours=ours,
        peers={"scikit-learn brute": theirs("brute")},
        quality=farther,
        quality_name="mean distance",
        goals={"scikit-learn brute": 1.3},
        slack=1e-9,
        repeats=2,
    ),
    Case(
        "10 neighbours of 100,000 queries among 100,000 x 3",
        data=lambda: cloud(100_000, 3, 100_000),
        ours=ours,
        peers={"scikit-learn kd_tree": theirs("kd_tree")},
        quality=farther,
        quality_name="mean distance",
        goals={"scikit-learn kd_tree": 1.3},
        slack=1e-9,
        repeats=3,
    ),
    Case(
        "leave-one-out error of k = 1 .. 50, 10,000 x 20",
        data=lambda: classes(10_000, 20, 1),
        ours=loo_curve,
        peers={
            "scikit-learn, one search per k": loo_loop,
            "scikit-learn, one search, votes added by hand": loo_by_hand,
        },
        quality=curve_gap,
        quality_name="sum of the errors",
        goals={"scikit-learn, one search per k": 10.0},
        slack=1e-9,
        repeats=2,
    ),
]
