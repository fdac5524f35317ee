"""Exact interventional Shapley values of trees: for each row x and background row z, one walk through the tree.

At a node where x and z part ways, the row taken from both goes with x if the tested column is in the coalition, and
with z if it is not; once decided, a column stays decided. A leaf that is reached when the columns A come from x and B
from z, with a = |A| and b = |B|, is worth its value if A is in the coalition and B is not, so it adds

    value * (a-1)! b! / (a+b)!   to each column of A,      -value * a! (b-1)! / (a+b)!   to each column of B

Columns that belong to the same player are decided together. Cost: O(rows x background x leaves that a mixture of x and
z can reach x their depth). Lundberg et al. (2020), Nature Machine Intelligence 2, 56-67; Laberge & Pequignot (2022).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import gammaln

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel, workers
from assay.shapley import ShapleyPart, ShapleyTask
from assay.trees._predict import _routes, child_of, sum_values
from assay.trees._sparse import dense_blocks
from assay.trees.nodes import Nodes

__all__ = ["shapley_of_trees", "shapley_part"]

Array = np.ndarray
FROM_X, FROM_Z = 1, 2


def shapley_part(
    nodes: Nodes,
    task: ShapleyTask,
    tables: tuple[Any, Any],
    scale: str,
    *,
    initial: Any = 0.0,
    groups: int = 1,
    mean: bool = False,
    n_jobs: int | None = None,
) -> ShapleyPart:
    """The answer of `initial` + the sum (or mean) of trees; the tables are X and background, coded. Of two classes
    the second one counts.
    """
    X, background = tables
    values = shapley_of_trees(nodes, X, background, task.players, task.n_players, groups=groups, n_jobs=n_jobs)
    share = 1.0 / nodes.trees if mean else 1.0
    sums = []
    for table in (background, X):
        out = np.zeros((table.shape[0], values.shape[2]))
        sums.append(initial + share * sum_values(nodes, table, out, groups=groups, n_jobs=n_jobs))
    kept = slice(1, None) if values.shape[2] == 2 and groups == 1 else slice(None)
    base, prediction = sums[0].mean(axis=0)[kept], sums[1][:, kept]
    return ShapleyPart(share * values[:, :, kept], base, prediction, scale)


def shapley_of_trees(
    nodes: Nodes, X: Array, background: Array, players: Array, n_players: int, *, groups: int = 1, n_jobs: int | None
) -> Array:
    """The values of the sum of all trees: rows x players x outputs; `groups` as in `sum_values`."""
    n, m = X.shape[0], background.shape[0]
    outputs = groups if groups > 1 else nodes.value.shape[1]
    out = np.zeros((n, n_players, outputs))
    steps, numbers, _ = _routes(nodes)
    inside, outside = _weights(min(n_players, int(nodes.depth().max())))
    players = np.ascontiguousarray(players, dtype=np.int64)
    others = np.concatenate([rows.copy() for _, rows in dense_blocks(background, 0, m)])

    def block(part: tuple[int, int]) -> None:
        low, high = part
        for at, rows in dense_blocks(X, low, high):
            _walk(
                rows, others, nodes.starts, nodes.feature, steps, numbers, nodes.words,
                nodes.value, players, inside, outside, groups, out[at : at + len(rows)],
            )  # fmt: skip

    count = max(1, min(4 * workers(n_jobs), n))
    ends = np.linspace(0, n, 1 + count, dtype=np.int64).tolist()
    parallel(block, list(pairwise(ends)), n_jobs=n_jobs, work=200.0 * n * m * nodes.trees)
    return out / m


def _weights(most: int) -> tuple[Array, Array]:
    """(a-1)! b! / (a+b)! and a! (b-1)! / (a+b)! for a, b up to the largest number of players on a path."""
    a, b = np.meshgrid(np.arange(most + 1.0), np.arange(most + 1.0), indexing="ij")
    whole = gammaln(a + b + 1)
    inside = np.where(a > 0, np.exp(gammaln(np.maximum(a, 1)) + gammaln(b + 1) - whole), 0.0)
    outside = np.where(b > 0, np.exp(gammaln(a + 1) + gammaln(np.maximum(b, 1)) - whole), 0.0)
    return inside, outside


@kernel
def _walk(
    X: Array, Z: Array, starts: Array, feature: Array, steps: Array, numbers: Array, words: Array, value: Array,
    players: Array, inside: Array, outside: Array, groups: int, out: Array,
) -> None:  # fmt: skip
    K, most = value.shape[1], inside.shape[0]
    decided = np.zeros(out.shape[1], dtype=np.int8)
    path, node = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    held, waiting = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    for i in range(X.shape[0]):
        for k in range(starts.size - 1):
            for z in range(Z.shape[0]):
                at, length, ones, top = starts[k], 0, 0, 0
                while True:
                    while feature[at] >= 0:
                        j = feature[at]
                        mine = child_of(at, X[i, j], steps, numbers, words)
                        theirs = child_of(at, Z[z, j], steps, numbers, words)
                        g = players[j]
                        if mine == theirs or decided[g] == FROM_X:
                            at = mine
                        elif decided[g] == FROM_Z:
                            at = theirs
                        else:
                            node[top], held[top], waiting[top] = theirs, length, g
                            top += 1
                            decided[g], path[length] = FROM_X, g
                            length, ones, at = length + 1, ones + 1, mine
                    for q in range(length):
                        g = path[q]
                        w = inside[ones, length - ones] if decided[g] == FROM_X else -outside[ones, length - ones]
                        if K == 1 or groups > 1:
                            out[i, g, k % groups] += w * value[at, 0]
                        else:
                            for c in range(K):
                                out[i, g, c] += w * value[at, c]
                    if top == 0:
                        break
                    top -= 1
                    while length > held[top]:
                        length -= 1
                        ones -= decided[path[length]] == FROM_X
                        decided[path[length]] = 0
                    g, at = waiting[top], node[top]
                    decided[g], path[length] = FROM_Z, g
                    length += 1
                while length > 0:
                    length -= 1
                    decided[path[length]] = 0
