"""Rows down the trees: the leaf each row reaches, and sums of the leaves' values.

Rows are taken in blocks, and within a block tree by tree, so that a tree's nodes stay in the cache while many rows
pass through it. Cost: O(rows x trees x depth).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel, workers
from assay.trees._nodes import UNSEEN, Nodes

__all__ = ["leaf_indices", "sum_values"]

Array = np.ndarray
BLOCK = 512


def leaf_indices(nodes: Nodes, X: Array, *, n_jobs: int | None = None) -> Array:
    """The node in which each row of X ends, one column per tree (absolute indices, int32)."""
    n = X.shape[0]
    out = np.empty((n, nodes.trees), dtype=np.int32)
    arrays = (
        nodes.starts,
        nodes.feature,
        nodes.threshold,
        nodes.first,
        nodes.count,
        nodes.missing,
        nodes.offset,
        nodes.words,
    )
    parallel(
        lambda rows: _leaves(X[rows], *arrays, out[rows]),
        _row_blocks(n, n_jobs),
        n_jobs=n_jobs,
        work=20.0 * n * nodes.trees,
    )
    return out


def sum_values(nodes: Nodes, X: Array, out: Array, *, groups: int = 1, n_jobs: int | None = None) -> Array:
    """Add each row's leaf values to `out` (n x K).

    With groups = 1 every tree adds its K values; with groups = G (boosting several classes) tree t has one value
    and adds it to column t mod G.
    """
    n = X.shape[0]
    arrays = (
        nodes.starts,
        nodes.feature,
        nodes.threshold,
        nodes.first,
        nodes.count,
        nodes.missing,
        nodes.offset,
        nodes.words,
    )
    parallel(
        lambda rows: _add(X[rows], *arrays, nodes.value, groups, out[rows]),
        _row_blocks(n, n_jobs),
        n_jobs=n_jobs,
        work=20.0 * n * nodes.trees,
    )
    return out


def _routes(nodes: Nodes) -> tuple[Array, ...]:
    """What decides where a row goes."""
    return (
        nodes.starts,
        nodes.feature,
        nodes.threshold,
        nodes.first,
        nodes.count,
        nodes.missing,
        nodes.offset,
        nodes.words,
    )


def _row_blocks(n: int, n_jobs: int | None) -> list[slice]:
    pieces = max(1, min(4 * workers(n_jobs), n // BLOCK))
    ends = np.linspace(0, n, pieces + 1, dtype=np.int64)
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


@kernel
def descend(
    x: Array,
    node: int,
    feature: Array,
    threshold: Array,
    first: Array,
    count: Array,
    missing: Array,
    offset: Array,
    words: Array,
) -> int:
    """The leaf that one row reaches from a node."""
    while feature[node] >= 0:
        value = x[feature[node]]
        if value != value:
            node = first[node] + missing[node]
        elif offset[node] < 0:
            node = first[node] + (value > threshold[node])
        else:
            code = np.int64(value)
            if count[node] == 2:
                bit = (words[offset[node] + (code >> 5)] >> np.uint32(code & 31)) & np.uint32(1)
                node = first[node] + 1 - np.int64(bit)
            else:
                child = words[offset[node] + code]
                node = first[node] + (missing[node] if child == UNSEEN else np.int64(child))
    return node


@kernel
def _leaves(
    X: Array,
    starts: Array,
    feature: Array,
    threshold: Array,
    first: Array,
    count: Array,
    missing: Array,
    offset: Array,
    words: Array,
    out: Array,
) -> None:
    n = X.shape[0]
    for begin in range(0, n, 512):
        stop = min(n, begin + 512)
        for t in range(starts.size - 1):
            for i in range(begin, stop):
                out[i, t] = descend(X[i], starts[t], feature, threshold, first, count, missing, offset, words)


@kernel
def _add(
    X: Array,
    starts: Array,
    feature: Array,
    threshold: Array,
    first: Array,
    count: Array,
    missing: Array,
    offset: Array,
    words: Array,
    value: Array,
    groups: int,
    out: Array,
) -> None:
    n, K = X.shape[0], value.shape[1]
    for begin in range(0, n, 512):
        stop = min(n, begin + 512)
        for t in range(starts.size - 1):
            for i in range(begin, stop):
                leaf = descend(X[i], starts[t], feature, threshold, first, count, missing, offset, words)
                if groups > 1:
                    out[i, t % groups] += value[leaf, 0]
                else:
                    for k in range(K):
                        out[i, k] += value[leaf, k]
