"""Rows down the trees: the leaf each row reaches, and sums of the leaves' values.

What a step needs stands in two neighbouring words per node, made once for each `Nodes` and kept as long as it lives:

    word 0   the threshold's bits;  of a category: offset, number of the child for missing values, multiway or not
    word 1   category (bit 63), column (32-62), missing goes right (31), first child (0-30)

A leaf tests column 0 against infinity and is its own first child, so a row that has arrived stays where it is and a
step needs no question. Eight rows go down side by side, because one row alone would wait for memory at each step. Rows
are taken in blocks, and within a block tree by tree, so that a tree's nodes stay in the cache while many rows pass
through it. Each row adds its trees in their order, whatever the block or the thread. Sparse rows are spread out block
by block.

Cost: O(rows x trees x depth).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel, workers
from assay.trees._sparse import dense_blocks
from assay.trees.nodes import UNSEEN, Nodes

__all__ = ["child_of", "leaf_indices", "sum_values"]

Array = np.ndarray
BLOCK_CELLS = 32_768
"""Numbers of a block of rows: a quarter of a megabyte."""
ALONE = 20_000
"""Rows times trees below which even asking for threads takes too long."""
LOW_31 = np.int64(0x7FFFFFFF)

_kept: WeakKeyDictionary[Nodes, tuple[Array, Array, Array]] = WeakKeyDictionary()


def leaf_indices(nodes: Nodes, X: Array, *, n_jobs: int | None = None) -> Array:
    """The node in which each row of X ends, one column per tree (absolute indices, int32)."""
    n = X.shape[0]
    out = np.empty((n, nodes.trees), dtype=np.int32)
    steps, numbers, depths = _routes(nodes)

    def block(low: int, high: int) -> None:
        for at, rows in dense_blocks(X, low, high):
            _leaves(rows, nodes.starts, depths, steps, numbers, nodes.words, out[at : at + len(rows)])

    _by_rows(block, n, nodes.trees, n_jobs)
    return out


def sum_values(nodes: Nodes, X: Array, out: Array, *, groups: int = 1, n_jobs: int | None = None) -> Array:
    """Add each row's leaf values to `out` (n x K).

    With groups = 1 every tree adds its K values; with groups = G (boosting several classes) tree t has one value
    and adds it to column t mod G.
    """
    n = X.shape[0]
    steps, numbers, depths = _routes(nodes)

    def block(low: int, high: int) -> None:
        for at, rows in dense_blocks(X, low, high):
            said = out[at : at + len(rows)]
            _add(rows, nodes.starts, depths, steps, numbers, nodes.words, nodes.value, groups, said)

    _by_rows(block, n, nodes.trees, n_jobs)
    return out


def _by_rows(block: Callable[[int, int], None], n: int, trees: int, n_jobs: int | None) -> None:
    """Call block(low, high) for all rows, over threads where it is worth while."""
    if n * trees < ALONE or workers(n_jobs) == 1:
        block(0, n)
        return
    ends = np.linspace(0, n, 1 + max(1, min(4 * workers(n_jobs), n // 8)), dtype=np.int64)
    parallel(
        lambda part: block(int(part[0]), int(part[1])),
        list(pairwise(ends)),
        n_jobs=n_jobs,
        work=20.0 * n * trees,
    )


def _routes(nodes: Nodes) -> tuple[Array, Array, Array]:
    """The packed steps, the same as numbers, and each tree's depth, -1 if it tests categories; packed once."""
    found = _kept.get(nodes)
    if found is None:
        steps, depths = np.empty(2 * nodes.size, dtype=np.int64), np.zeros(nodes.trees, dtype=np.int64)
        below = np.zeros(nodes.size, dtype=np.int32)
        _pack(
            nodes.starts, nodes.feature, nodes.threshold, nodes.first, nodes.count, nodes.missing, nodes.offset,
            steps.view(np.float64), steps, below, depths,
        )  # fmt: skip
        found = _kept[nodes] = (steps, steps.view(np.float64), depths)
    return found


@kernel(exact=True)
def _pack(
    starts: Array, feature: Array, threshold: Array, first: Array, count: Array, missing: Array, offset: Array,
    numbers: Array, steps: Array, below: Array, depths: Array,
) -> None:  # fmt: skip
    for k in range(starts.size - 1):
        plain = True
        for t in range(starts[k], starts[k + 1]):
            if feature[t] < 0:
                numbers[2 * t] = np.inf
                steps[2 * t + 1] = t
                depths[k] = max(depths[k], np.int64(below[t]))
                continue
            for c in range(count[t]):
                below[first[t] + c] = below[t] + 1
            steps[2 * t + 1] = (np.int64(feature[t]) << 32) | np.int64(first[t])
            if offset[t] < 0:
                numbers[2 * t] = threshold[t]
                steps[2 * t + 1] |= np.int64(missing[t] != 0) << 31
            else:
                steps[2 * t] = (offset[t] << 21) | (np.int64(missing[t]) << 1) | np.int64(count[t] > 2)
                steps[2 * t + 1] |= np.int64(-1) << 63
                plain = False
        if not plain:
            depths[k] = -1


@kernel(inline=True)
def _number(steps: Array, numbers: Array, X: Array, row: int, t: int) -> int:
    """The child to which node t, if it tests a number, sends the row that begins at `row`; a leaf is its own child."""
    where = steps[np.uint64(2 * t + 1)]
    x = X[np.uint64(row + (where >> 32))]
    right = np.int64(x > numbers[np.uint64(2 * t)]) | (np.int64(x != x) & (where >> 31))
    return (where & LOW_31) + (right & 1)


@kernel(inline=True)
def _category(steps: Array, words: Array, x: float, where: int, t: int) -> int:
    """The child to which node t, if it tests a category, sends one that has the code x."""
    how = steps[2 * t]
    child = (how >> 1) & 0xFFFFF
    if x == x:
        code, begin = np.int64(x), how >> 21
        if how & 1:
            seen = words[begin + code]
            child = child if seen == UNSEEN else np.int64(seen)
        else:
            child = 1 - np.int64((words[begin + (code >> 5)] >> np.uint32(code & 31)) & np.uint32(1))
    return (where & LOW_31) + child


@kernel(inline=True)
def _any(steps: Array, numbers: Array, words: Array, X: Array, row: int, t: int) -> int:
    """The leaf that one row reaches from node t, whatever the nodes test."""
    before = -1
    while t != before:
        before = t
        where = steps[2 * t + 1]
        if where >= 0:
            t = _number(steps, numbers, X, row, t)
            continue
        t = _category(steps, words, X[row + ((where >> 32) & LOW_31)], where, t)
    return t


@kernel(inline=True)
def child_of(t: int, x: float, steps: Array, numbers: Array, words: Array) -> int:
    """The child of an inner node t that a value of its column goes to."""
    where = steps[2 * t + 1]
    if where < 0:
        return _category(steps, words, x, where, t)
    right = np.int64(x > numbers[2 * t]) | (np.int64(x != x) & (where >> 31))
    return (where & LOW_31) + (right & 1)


@kernel(inline=True)
def _group(
    X: Array, i: int, stop: int, p: int, root: int, depth: int, steps: Array, numbers: Array, words: Array, out: Array
) -> int:
    """The leaves of up to eight rows from row i on; return how many rows there were. Categories: depth -1."""
    if i + 8 > stop or depth < 0:
        m = min(8, stop - i)
        for k in range(m):
            out[k] = _any(steps, numbers, words, X, (i + k) * p, root)
        return m
    r0 = i * p
    r1, r2, r3, r4 = r0 + p, r0 + 2 * p, r0 + 3 * p, r0 + 4 * p
    r5, r6, r7 = r0 + 5 * p, r0 + 6 * p, r0 + 7 * p
    a = b = c = d = e = f = g = h = root
    left = depth
    while left > 0:
        before = a + b + c + d + e + f + g + h
        for _ in range(min(left, 4)):
            a = _number(steps, numbers, X, r0, a)
            b = _number(steps, numbers, X, r1, b)
            c = _number(steps, numbers, X, r2, c)
            d = _number(steps, numbers, X, r3, d)
            e = _number(steps, numbers, X, r4, e)
            f = _number(steps, numbers, X, r5, f)
            g = _number(steps, numbers, X, r6, g)
            h = _number(steps, numbers, X, r7, h)
        left -= 4
        # Children stand after their parents, so the sum grows until all have arrived.
        if a + b + c + d + e + f + g + h == before:
            break
    out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7] = a, b, c, d, e, f, g, h
    return 8


@kernel(inline=True)
def _height(p: int, steps: int, trees: int) -> int:
    """Rows of a block: what stays in the cache, or more where a tree is larger than that and is to be read seldom."""
    return max(8, max(BLOCK_CELLS // p, steps // trees) // 8 * 8)


@kernel
def _leaves(X: Array, starts: Array, depths: Array, steps: Array, numbers: Array, words: Array, out: Array) -> None:
    n, p = X.shape
    flat, found = X.reshape(-1), np.empty(8, dtype=np.int64)
    height = _height(p, steps.size, starts.size)
    for begin in range(0, n, height):
        stop = min(n, begin + height)
        for t in range(starts.size - 1):
            i = begin
            while i < stop:
                m = _group(flat, i, stop, p, starts[t], depths[t], steps, numbers, words, found)
                for k in range(m):
                    out[i + k, t] = found[k]
                i += m


@kernel
def _add(
    X: Array, starts: Array, depths: Array, steps: Array, numbers: Array, words: Array, value: Array, groups: int,
    out: Array,
) -> None:  # fmt: skip
    n, p = X.shape
    K = value.shape[1]
    flat, found = X.reshape(-1), np.empty(8, dtype=np.int64)
    height = _height(p, steps.size, starts.size)
    for begin in range(0, n, height):
        stop = min(n, begin + height)
        for t in range(starts.size - 1):
            i = begin
            while i < stop:
                m = _group(flat, i, stop, p, starts[t], depths[t], steps, numbers, words, found)
                if K == 1 or groups > 1:
                    for k in range(m):
                        out[i + k, t % groups] += value[found[k], 0]
                else:
                    for k in range(m):
                        for c in range(K):
                            out[i + k, c] += value[found[k], c]
                i += m
