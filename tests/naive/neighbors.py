"""Slow obvious oracles for neighbours: all distances, sorted by distance and row number."""

from __future__ import annotations

import numpy as np


def distance(x, z, metric, p=2.0, V=None):
    """The definition, one pair at a time."""
    if metric == "cosine":
        lengths = np.linalg.norm(x) * np.linalg.norm(z)
        return 1.0 if lengths == 0 else 1.0 - x @ z / lengths
    if metric == "mahalanobis":
        return float(np.sqrt((x - z) @ np.linalg.solve(V, x - z)))
    if metric == "hamming":
        return float(np.mean(x != z))
    steps = [abs(float(a) - float(b)) for a, b in zip(x, z, strict=True)]
    power = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": np.inf}.get(metric, p)
    if np.isinf(power):
        return max(steps)
    largest = max(steps)
    return 0.0 if largest == 0 else largest * sum((s / largest) ** power for s in steps) ** (1 / power)


def neighbours(X, Q, k, metric="euclidean", *, p=2.0, V=None, own=None):
    """Distances and rows of the k nearest, ties to the lower row; `own` names a row to leave out of each query."""
    distances, rows = [], []
    for i, x in enumerate(Q):
        pairs = [(distance(x, z, metric, p, V), j) for j, z in enumerate(X) if own is None or j != own[i]]
        best = sorted(pairs)[:k]
        distances.append([d for d, _ in best])
        rows.append([j for _, j in best])
    return np.array(distances), np.array(rows)


def squares(X, Q, k, own=None):
    """Neighbours by squared distances of whole numbers, which are exact, so that ties are ties."""
    rows = np.empty((len(Q), k), dtype=np.int64)
    for i, x in enumerate(Q):
        d = ((X - x) ** 2).sum(axis=1)
        order = np.argsort(d, kind="stable")
        rows[i] = order[order != (-1 if own is None else own[i])][:k]
    return rows


def votes(d, weights, beyond, kernel="epanechnikov"):
    """What each neighbour counts for."""
    if weights == "uniform":
        return np.ones(len(d))
    if weights == "distance":
        return (d == 0).astype(float) if (d == 0).any() else 1 / d
    if beyond == 0:
        return np.ones(len(d))
    u = d / beyond
    found = {
        "epanechnikov": 0.75 * (1 - u**2),
        "tricube": 70 / 81 * (1 - u**3) ** 3,
        "gaussian": np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi),
    }[kernel]
    return found if found.any() else np.ones(len(d))


def shares(X, codes, classes, Q, k, weights="uniform", kernel="epanechnikov"):
    """Class shares of the votes."""
    size = min(k + 1, len(X))
    distances, rows = neighbours(X, Q, size)
    out = np.zeros((len(Q), classes))
    for i in range(len(Q)):
        v = votes(distances[i, :k], weights, distances[i, size - 1], kernel)
        for t in range(k):
            out[i, codes[rows[i, t]]] += v[t]
    return out / out.sum(axis=1, keepdims=True)
