"""k-means by its definition."""

from __future__ import annotations

from itertools import product

import numpy as np

__all__ = ["best_partition", "lloyd", "over_pairs"]

Array = np.ndarray


def nearest(X: Array, C: Array) -> Array:
    """The nearest centre of every row, of equally near ones the first."""
    return np.array([np.argmin([((x - c) ** 2).sum() for c in C]) for x in X])


def lloyd(X: Array, C: Array, w: Array | None = None, max_iter: int = 300) -> tuple[Array, Array, list[float]]:
    """Labels, centres and the inertia after each assignment, until no label changes; no cluster may become empty."""
    w = np.ones(len(X)) if w is None else w
    C, labels, trace = np.array(C, dtype=float), None, []
    for _ in range(max_iter):
        before, labels = labels, nearest(X, C)
        trace.append(float((w * ((X - C[labels]) ** 2).sum(axis=1)).sum()))
        if before is not None and (before == labels).all():
            break
        C = np.array([np.average(X[labels == j], axis=0, weights=w[labels == j]) for j in range(len(C))])
    return labels, C, trace


def over_pairs(X: Array, labels: Array) -> Array:
    """(1/n_k) sum over all ordered pairs of a cluster of their squared distance."""
    out = []
    for j in range(labels.max() + 1):
        Z = X[labels == j]
        out.append(sum(((a - b) ** 2).sum() for a in Z for b in Z) / len(Z))
    return np.array(out)


def best_partition(X: Array, k: int) -> float:
    """The least inertia over all partitions into at most k clusters."""
    least = np.inf
    for labels in product(range(k), repeat=len(X)):
        codes = np.array(labels)
        least = min(least, sum(((X[codes == j] - X[codes == j].mean(axis=0)) ** 2).sum() for j in set(labels)))
    return float(least)
