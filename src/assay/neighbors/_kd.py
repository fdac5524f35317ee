"""Rows in blocks, and a KD-tree over the blocks.

A block holds up to W rows, transposed and contiguous: block[j] is column j of all its rows, so that one pass over the
columns gives the distances of all rows of the block in vector registers. The tree halves the rows at the median of the
column in which they spread most, until a leaf fits into a block; node i has the children 2i + 1 and 2i + 2, the leaves
come last, all at the same depth. A node's box bounds the distance of its rows from below.

The distances of a block are the sums of `reduced` in the same order, so they are the same to the last bit, but for sums
of powers (Minkowski), where a row that passes is measured again. Bounds of boxes may be off by their rounding error, so
boxes are opened up to `slack` beyond the worst neighbour: the answer does not depend on the tree.
Boxes exactly as far as the worst neighbour so far are opened too: an equally distant row there may come first.

Cost: O(n log n p) to build; a query opens few leaves while the rows fill few dimensions, and nearly all from about ten.
Friedman, Bentley, Finkel (1977), ACM Trans. Math. Software 3, 209-226.
"""

from __future__ import annotations

import numpy as np

from assay.neighbors._distances import CHEBYSHEV, EUCLIDEAN, MANHATTAN, MINKOWSKI, reduced
from assay.neighbors._heap import nearest_first, push
from assay.numerics.jit import kernel

__all__ = ["fill_blocks", "first_leaf", "grow", "leaf_of", "scan_all", "search_tree", "slack_of"]

Array = np.ndarray

DEPTH = 64


def slack_of(columns: int, power: float) -> float:
    """A bound on the relative error of quick distances, boxes and reduced distances together."""
    return 4.0 * (columns + 16 + 4.0 * power) * 2.0**-52


def first_leaf(n: int, leaf_size: int) -> int:
    """The number of inner nodes: 2^depth - 1 for the least depth at which a leaf has at most `leaf_size` rows.

    From two rows a leaf on none is empty.
    """
    leaves = 1
    while leaves * max(leaf_size, 2) < n:
        leaves *= 2
    return leaves - 1


@kernel
def split(key: Array, order: Array, start: int, stop: int, middle: int) -> None:
    """Reorder key and order from start to stop so that nothing before `middle` is larger than anything from it on."""
    low, high = start, stop
    while high - low > 1:
        a, b, c = key[low], key[(low + high) >> 1], key[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        less, i, more = low, low, high
        while i < more:
            if key[i] < pivot:
                key[i], key[less] = key[less], key[i]
                order[i], order[less] = order[less], order[i]
                less += 1
                i += 1
            elif key[i] > pivot:
                more -= 1
                key[i], key[more] = key[more], key[i]
                order[i], order[more] = order[more], order[i]
            else:
                i += 1
        if middle < less:
            high = less
        elif middle < more:
            return
        else:
            low = more


@kernel
def grow(X: Array, inner: int, order: Array, starts: Array, low: Array, high: Array, cut: Array, axis: Array) -> None:
    """Build the tree over `inner` inner nodes; node i has the rows order[starts[i, 0] .. starts[i, 1]]."""
    n, p = X.shape
    key = np.empty(n)
    starts[0, 0] = 0
    starts[0, 1] = n
    for node in range(2 * inner + 1):
        start, stop = starts[node, 0], starts[node, 1]
        for j in range(p):
            low[node, j] = X[order[start], j]
            high[node, j] = low[node, j]
        for i in range(start + 1, stop):
            row = X[order[i]]
            for j in range(p):
                low[node, j] = min(low[node, j], row[j])
                high[node, j] = max(high[node, j], row[j])
        if node >= inner:
            continue
        widest = 0
        for j in range(1, p):
            if high[node, j] - low[node, j] > high[node, widest] - low[node, widest]:
                widest = j
        for i in range(start, stop):
            key[i] = X[order[i], widest]
        middle = (start + stop) >> 1
        split(key, order, start, stop, middle)
        axis[node] = widest
        cut[node] = key[middle]
        starts[2 * node + 1, 0] = start
        starts[2 * node + 1, 1] = middle
        starts[2 * node + 2, 0] = middle
        starts[2 * node + 2, 1] = stop


@kernel
def fill_blocks(X: Array, order: Array, starts: Array, blocks: Array) -> None:
    """Copy the rows of each leaf, transposed; what a leaf does not fill is zero and never looked at."""
    for leaf in range(blocks.shape[0]):
        start, stop = starts[leaf, 0], starts[leaf, 1]
        for j in range(blocks.shape[1]):
            for i in range(blocks.shape[2]):
                blocks[leaf, j, i] = X[order[start + i], j] if start + i < stop else 0.0


@kernel
def leaf_of(Q: Array, inner: int, cut: Array, axis: Array, out: Array) -> None:
    """The leaf on whose side of every cut a query lies: in this order queries find their rows still in the cache."""
    for i in range(Q.shape[0]):
        node = 0
        while node < inner:
            node = 2 * node + 1 if Q[i, axis[node]] < cut[node] else 2 * node + 2
        out[i] = node


# Kernels that are called in the innermost loops take whole tables and a position: a slice made there would be counted
# in and out of use, and the counting costs more than the sums.


@kernel
def box_bound(low: Array, high: Array, node: int, x: Array, metric: int, power: float) -> float:
    """A lower bound on the distance from x to any row of a node's box, in the terms of `quick`."""
    total = 0.0
    if metric == EUCLIDEAN:
        for j in range(x.size):
            gap = max(max(low[node, j] - x[j], x[j] - high[node, j]), 0.0)
            total += gap * gap
    elif metric == MANHATTAN:
        for j in range(x.size):
            total += max(max(low[node, j] - x[j], x[j] - high[node, j]), 0.0)
    elif metric == CHEBYSHEV:
        for j in range(x.size):
            total = max(total, max(low[node, j] - x[j], x[j] - high[node, j]))
    else:
        for j in range(x.size):
            gap = max(max(low[node, j] - x[j], x[j] - high[node, j]), 0.0)
            if gap > 0.0:
                total += gap**power
    return total


@kernel(exact=True)
def quick(blocks: Array, block: int, x: Array, metric: int, power: float, out: Array) -> None:
    """The distances of all rows of a block from x: squares, sums, largest, sums of powers or counts."""
    size = out.size
    for i in range(size):
        out[i] = 0.0
    if metric == EUCLIDEAN:
        for j in range(x.size):
            at = x[j]
            for i in range(size):
                step = at - blocks[block, j, i]
                out[i] += step * step
    elif metric == MANHATTAN:
        for j in range(x.size):
            at = x[j]
            for i in range(size):
                out[i] += abs(at - blocks[block, j, i])
    elif metric == CHEBYSHEV:
        for j in range(x.size):
            at = x[j]
            for i in range(size):
                step = abs(at - blocks[block, j, i])
                out[i] = step if step > out[i] else out[i]
    elif metric == MINKOWSKI:
        for j in range(x.size):
            at = x[j]
            for i in range(size):
                out[i] += abs(at - blocks[block, j, i]) ** power
    else:
        for j in range(x.size):
            at = x[j]
            for i in range(size):
                out[i] += 1.0 if blocks[block, j, i] != at else 0.0


@kernel
def reach(d: Array, size: int, metric: int, power: float, slack: float) -> float:
    """The quick distance up to which a row may still belong to the neighbours; infinite until there are k of them."""
    if size < d.size:
        return np.inf
    if metric == MINKOWSKI:
        return d[0] ** power * (1.0 + slack) + 1e-290  # powers may vanish where the distance does not
    return d[0] * (1.0 + slack)


@kernel
def open_block(
    X: Array, blocks: Array, block: int, order: Array, start: int, stop: int, x: Array, own: int, metric: int,
    power: float, slack: float, d: Array, r: Array, size: int, limit: float, out: Array,
) -> tuple[int, float]:  # fmt: skip
    """Offer the rows of a block to a query's heap; return the heap's size and the new reach."""
    quick(blocks, block, x, metric, power, out)
    for i in range(stop - start):
        if out[i] <= limit:
            row = order[start + i]
            if row != own:
                far = reduced(x, X[row], metric, power) if metric == MINKOWSKI else out[i]
                size = push(d, r, size, far, row)
                limit = reach(d, size, metric, power, slack)
    return size, limit


@kernel
def search_tree(
    X: Array, inner: int, order: Array, starts: Array, low: Array, high: Array, blocks: Array, Q: Array, own: Array,
    queries: Array, metric: int, power: float, slack: float, D: Array, R: Array,
) -> int:  # fmt: skip
    """Fill D and R with the neighbours of the given queries, nearest first; return how many leaves were opened."""
    nodes = np.empty(DEPTH, dtype=np.int64)
    bounds = np.empty(DEPTH)
    out = np.empty(blocks.shape[2])
    opened = 0
    for q in queries:
        x, d, r = Q[q], D[q], R[q]
        size, limit = 0, np.inf
        nodes[0], bounds[0] = 0, 0.0
        depth = 1
        while depth > 0:
            depth -= 1
            node = nodes[depth]
            if bounds[depth] > limit:
                continue
            while node < inner:  # down to the nearest leaf; what is passed on the way waits
                near, far = 2 * node + 1, 2 * node + 2
                close = box_bound(low, high, near, x, metric, power)
                wide = box_bound(low, high, far, x, metric, power)
                if wide < close:
                    near, far = far, near
                    close, wide = wide, close
                if wide <= limit:
                    nodes[depth], bounds[depth] = far, wide
                    depth += 1
                node = near
                if close > limit:
                    node = -1
                    break
            if node < 0:
                continue
            opened += 1
            size, limit = open_block(
                X, blocks, node - inner, order, starts[node, 0], starts[node, 1], x, own[q], metric, power, slack,
                d, r, size, limit, out,
            )  # fmt: skip
        nearest_first(d, r)
    return opened


@kernel
def scan_all(
    X: Array, order: Array, starts: Array, blocks: Array, Q: Array, own: Array, metric: int, power: float,
    slack: float, D: Array, R: Array,
) -> None:  # fmt: skip
    """Fill D and R with the neighbours of all queries, by every block; a block stays in the cache for all of them."""
    m = Q.shape[0]
    sizes = np.zeros(m, dtype=np.int64)
    limits = np.full(m, np.inf)
    out = np.empty(blocks.shape[2])
    for leaf in range(blocks.shape[0]):
        for q in range(m):
            sizes[q], limits[q] = open_block(
                X, blocks, leaf, order, starts[leaf, 0], starts[leaf, 1], Q[q], own[q], metric, power, slack,
                D[q], R[q], sizes[q], limits[q], out,
            )  # fmt: skip
    for q in range(m):
        nearest_first(D[q], R[q])
