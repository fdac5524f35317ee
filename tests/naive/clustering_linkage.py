"""Hierarchical clustering by its definition: all pairs of clusters compared in each step."""

from __future__ import annotations

from itertools import combinations

import numpy as np

SQUARED = ("centroid", "median", "ward")


def updated(linkage, ik, jk, ij, si, sj, sk):
    """The distance of the union of i and j from k: the table of Lance and Williams."""
    match linkage:
        case "single":
            return min(ik, jk)
        case "complete":
            return max(ik, jk)
        case "average":
            return (si * ik + sj * jk) / (si + sj)
        case "weighted":
            return (ik + jk) / 2
        case "centroid":
            return (si * ik + sj * jk - si * sj * ij / (si + sj)) / (si + sj)
        case "median":
            return (ik + jk - ij / 2) / 2
    return ((si + sk) * ik + (sj + sk) * jk - sk * ij) / (si + sj + sk)


def linkage_matrix(D, linkage):
    """Merge the closest pair, of several the one with the smallest first rows, n - 1 times."""
    n = len(D)
    power = 2 if linkage in SQUARED else 1
    far = {(i, j): float(D[i, j]) ** power for i, j in combinations(range(n), 2)}  # by the clusters' first rows
    number, size = {i: i for i in range(n)}, dict.fromkeys(range(n), 1)
    Z = []
    for t in range(n - 1):
        i, j = min(far, key=lambda pair: (far[pair], pair))
        ij = far.pop((i, j))
        for k in set(number) - {i, j}:
            ik, jk = (min(i, k), max(i, k)), (min(j, k), max(j, k))
            far[ik] = updated(linkage, far[ik], far.pop(jk), ij, size[i], size[j], size[k])
        Z.append([*sorted((number[i], number[j])), max(ij, 0.0) ** (1 / power), size[i] + size[j]])
        size[i] += size.pop(j)
        number[i] = n + t
        del number[j]
    return np.array(Z).reshape(-1, 4)


def members(Z):
    """The rows of each cluster: 0 .. n - 1 alone, then those of the merges."""
    found = [{i} for i in range(len(Z) + 1)]
    for a, b in Z[:, :2].astype(int):
        found.append(found[a] | found[b])
    return found


def distance_by_definition(X, A, B, linkage, midpoint=None):
    """The linkage distance of two sets of rows from the points themselves."""
    pairs = [float(np.linalg.norm(X[a] - X[b])) for a in A for b in B]
    apart = float(np.linalg.norm(X[list(A)].mean(axis=0) - X[list(B)].mean(axis=0)))
    return {
        "single": min(pairs),
        "complete": max(pairs),
        "average": float(np.mean(pairs)),
        "centroid": apart,
        "ward": np.sqrt(2 * len(A) * len(B) / (len(A) + len(B))) * apart,
    }[linkage]


def cut_at(Z, height):
    """Sets of rows that have merged up to a height, with nothing higher inside them."""
    n, sets = len(Z) + 1, members(Z)
    highest = [0.0] * n
    for a, b, h, _ in Z:
        highest.append(max(h, highest[int(a)], highest[int(b)]))
    kept = [s for s, h in zip(sets, highest, strict=True) if h <= height]
    return {frozenset(s) for s in kept if not any(s < other for other in kept)}


def gower(rows, kinds):
    """Gower's distance of each pair; kinds are "number" or "level", None is a missing cell."""
    n, p = len(rows), len(kinds)
    spread = [
        (max(r[c] for r in rows if r[c] is not None) - min(r[c] for r in rows if r[c] is not None)) or 1.0
        if kinds[c] == "number"
        else None
        for c in range(p)
    ]
    D = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        both = [c for c in range(p) if rows[i][c] is not None and rows[j][c] is not None]
        parts = [
            abs(rows[i][c] - rows[j][c]) / spread[c] if kinds[c] == "number" else float(rows[i][c] != rows[j][c])
            for c in both
        ]
        D[i, j] = D[j, i] = sum(parts) / len(both)
    return D


def principal_components(X, scale=False):
    """Variances and directions from the covariance (or correlation) matrix of the columns, largest first."""
    C = np.atleast_2d(np.corrcoef(X.T) if scale else np.cov(X.T))
    values, vectors = np.linalg.eigh(C)
    vectors = vectors[:, ::-1].T
    largest = np.abs(vectors).argmax(axis=1)
    return values[::-1], vectors * np.sign(vectors[np.arange(len(vectors)), largest])[:, None]
