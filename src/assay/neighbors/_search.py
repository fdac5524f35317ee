"""Exact search for the k nearest rows: a KD-tree, sifted matrix products, or every row in turn.

    kd_tree   few dimensions: a query opens few leaves                               `_kd.search_tree`
    brute     Euclidean: float32 products as a sieve, the rest measured in float64   `_sift`
              other distances: all rows, block by block                              `_kd.scan_all`

All three give the same neighbours and the same distances to the last bit, ties included: the lower row number is the
nearer one. "auto" therefore only decides how long it takes. Up to `TREE_COLUMNS` columns it builds the tree and lets a
few training rows look for their neighbours: the tree is kept if they open few enough of its leaves. Queries are shared
out in blocks of a size that does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.neighbors._distances import EUCLIDEAN, HAMMING, Space
from assay.neighbors._kd import fill_blocks, first_leaf, grow, leaf_of, scan_all, search_tree, slack_of
from assay.neighbors._sift import GROUP, TINY, error_share, settle, sift
from assay.numerics.scale import power_of_two
from assay.numerics.threads import parallel

__all__ = ["Index"]

Array = np.ndarray

BLOCK_ROWS = 64
"""Rows of a block where there is no tree."""
SIEVE = (256, 1024)
"""Queries and rows of a product: its megabyte stays in the second-level cache while it is sifted."""
TREE_COLUMNS = 32
FEW_ROWS = 1_000
"""Fewer rows than this are scanned quicker than a tree is built."""
PROBES = 32
SMALL = 2e6
"""Less work than this, in multiplications, is done before a second thread has begun."""
FAR = 2.0**12
"""A query more times the longest training row from the middle is measured against all rows: float32 would not do."""


@dataclass(frozen=True, eq=False)
class _Tree:
    """The rows of each node, its box and, of inner nodes, the column and the value of the cut."""

    inner: int
    order: Array
    starts: Array
    low: Array
    high: Array
    cut: Array
    axis: Array
    blocks: Array


@dataclass(frozen=True, eq=False)
class _Sieve:
    """The training rows for products in single precision, in random order, and what turns queries into theirs."""

    order: Array
    middle: Array
    unit: float
    table: Array


class Index:
    """The training rows, ready to be searched under a distance.

    | parameter | default | range                      | meaning                                           |
    |-----------|---------|----------------------------|---------------------------------------------------|
    | X         |         | rows, in the user's space  | the training rows                                 |
    | space     |         | `Space`                    | the distance                                      |
    | algorithm | "auto"  | "brute", "kd_tree"         | how to search; never changes a result             |
    | leaf_size | 64      | from 1 on                  | rows of a leaf at most                            |

    >>> from assay.neighbors._distances import make_space
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> Index(X, make_space("euclidean", 2.0, None, X)).search(np.array([[1.2]]), 2)
    (array([[0.2, 1.2]]), array([[1, 0]]))
    """

    def __init__(self, X: Array, space: Space, algorithm: str = "auto", leaf_size: int = 64) -> None:
        self.given = X
        self.space = space
        self.X = space.map(X, training=True)
        self.slack = slack_of(self.X.shape[1], space.power)
        self.leaf_size = leaf_size
        self.tree: _Tree | None = None
        self.sieve: _Sieve | None = None
        if algorithm == "kd_tree" or (algorithm == "auto" and self._may_be_a_tree()):
            self.tree = _grow_tree(self.X, leaf_size)
            if algorithm == "auto" and not self._tree_pays(self.tree):
                self.tree = None
        self.algorithm = "brute" if self.tree is None else "kd_tree"
        self.flat: _Tree | None = None
        if self.tree is None:
            if space.code == EUCLIDEAN and error_share(self.X.shape[1]) < 0.01:
                self.sieve = _make_sieve(self.X)
            else:
                self.flat = _in_blocks(self.X)

    def _may_be_a_tree(self) -> bool:
        n, p = self.X.shape
        return n >= FEW_ROWS and p <= TREE_COLUMNS and self.space.code != HAMMING

    def _tree_pays(self, tree: _Tree) -> bool:
        """Whether a few training rows open few enough leaves; a count, not a time, so the choice is always the same."""
        n, p = self.X.shape
        asked = np.linspace(0, n - 1, PROBES).astype(np.int64)
        D, R = np.empty((PROBES, 10)), np.empty((PROBES, 10), dtype=np.int64)
        opened = self._walk(tree, self.X[asked], asked, np.arange(PROBES), D, R)
        rows = opened * tree.blocks.shape[2] / PROBES
        # The relative cost, as measured, of a row in a leaf with its share of the way, and of one in the sieve or scan.
        in_leaf = 1.0 + 0.25 * p
        elsewhere = 0.12 + 0.02 * p if self.space.code == EUCLIDEAN else 0.3 * in_leaf
        return rows * in_leaf < n * elsewhere

    def search(self, Q: Array, k: int, own: Array | None = None, n_jobs: int | None = None) -> tuple[Array, Array]:
        """Distances and row numbers of the k nearest rows of each query, nearest first.

        `own` names, for each query, a row that is not to be found: the query itself where it is a training row.
        """
        strained = self.space.strained(Q)
        if strained.any():
            return self._search_apart(strained, Q, k, own, n_jobs)
        queries = self.space.map(Q, training=False) if own is None else self.X[own]
        m = len(queries)
        D, R = np.empty((m, k)), np.empty((m, k), dtype=np.int64)
        skip = np.full(m, -1, dtype=np.int64) if own is None else own
        if self.tree is not None:
            self._by_tree(self.tree, queries, skip, D, R, n_jobs)
        elif self.sieve is not None:
            self._by_sieve(self.sieve, queries, skip, own is not None, D, R, n_jobs)
        elif self.flat is not None:
            self._by_scan(self.flat, queries, skip, D, R, n_jobs)
        found = self.space.distance(D, self.X.shape[1])
        if self.space.name == "cosine":
            _answer_zeros(Q, skip, found, R)
        return found, R

    def _search_apart(
        self, strained: Array, Q: Array, k: int, own: Array | None, n_jobs: int | None
    ) -> tuple[Array, Array]:
        """Queries beyond the units of this index are searched in an index of their own."""
        wide = Index(self.given, self.space.wider(Q[strained]), self.algorithm, self.leaf_size)
        D, R = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.int64)
        for rows, index in ((np.flatnonzero(~strained), self), (np.flatnonzero(strained), wide)):
            if rows.size:
                D[rows], R[rows] = index.search(Q[rows], k, None if own is None else own[rows], n_jobs)
        return D, R

    def _walk(self, tree: _Tree, Q: Array, own: Array, queries: Array, D: Array, R: Array) -> int:
        return int(
            search_tree(
                self.X, tree.inner, tree.order, tree.starts, tree.low, tree.high, tree.blocks, Q, own, queries,
                self.space.code, self.space.power, self.slack, D, R,
            )
        )  # fmt: skip

    def _by_tree(self, tree: _Tree, Q: Array, own: Array, D: Array, R: Array, n_jobs: int | None) -> None:
        leaves = np.empty(len(Q), dtype=np.int64)
        leaf_of(Q, tree.inner, tree.cut, tree.axis, leaves)
        queries = np.argsort(leaves, kind="stable")
        parts = [queries[at : at + 256] for at in range(0, len(Q), 256)]
        work = len(Q) * 50.0 * Q.shape[1] * D.shape[1]
        _share_out(lambda part: self._walk(tree, Q, own, part, D, R), parts, n_jobs, work)

    def _by_scan(self, flat: _Tree, Q: Array, own: Array, D: Array, R: Array, n_jobs: int | None) -> None:
        def one(at: int) -> None:
            part = slice(at, at + 64)
            scan_all(
                self.X, flat.order, flat.starts, flat.blocks, Q[part], own[part], self.space.code, self.space.power,
                self.slack, D[part], R[part],
            )  # fmt: skip

        _share_out(one, range(0, len(Q), 64), n_jobs, float(Q.size) * len(self.X))

    def _by_sieve(
        self, sieve: _Sieve, Q: Array, own: Array, among: bool, D: Array, R: Array, n_jobs: int | None
    ) -> None:
        p, k = Q.shape[1], D.shape[1] + among
        c, tiny = error_share(p), TINY * (p + 8)
        capacity = 3 * k + 16 + GROUP
        # Many neighbours need long buffers, so fewer queries go at a time.
        size = max(16, min(SIEVE[0], (1 << 22) // capacity, -(-len(Q) // 4)))

        def one(at: int) -> None:
            x, skip, d, r = Q[at : at + size], own[at : at + size], D[at : at + size], R[at : at + size]
            m = len(x)
            A, squared, far = _query_side(sieve, x)
            values, places = np.empty((m, capacity), dtype=np.float32), np.empty((m, capacity), dtype=np.int32)
            fill, sizes = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
            cut = np.full(m, np.inf, dtype=np.float32)
            space = np.empty(m * SIEVE[1], dtype=np.float32)
            scratch = np.empty(capacity)
            fixed = (k, self.X, sieve.order, x, skip, squared, sieve.unit**-2, c, self.slack, tiny)
            state = (values, places, fill, cut, sizes, far, d, r, scratch)
            for first in range(0, len(sieve.table), SIEVE[1]):
                rows = sieve.table[first : first + SIEVE[1]]
                G = space[: m * len(rows)].reshape(m, len(rows))
                np.dot(A, rows.T, out=G)
                sift(G, first, *fixed, *state)
            settle(*fixed, *state)

        _share_out(one, range(0, len(Q), size), n_jobs, float(Q.size) * len(self.X))


def _share_out(one: Callable[[Any], object], parts: Sequence[Any], n_jobs: int | None, work: float) -> None:
    """Run the parts over threads; a single small one at once, since even asking for threads takes longer."""
    if len(parts) == 1 and work < SMALL:
        one(parts[0])
    else:
        parallel(one, parts, n_jobs=n_jobs, work=work)


def _grow_tree(X: Array, leaf_size: int) -> _Tree:
    n, p = X.shape
    inner = first_leaf(n, leaf_size)
    nodes = 2 * inner + 1
    order, starts = np.arange(n), np.empty((nodes, 2), dtype=np.int64)
    low, high = np.empty((nodes, p)), np.empty((nodes, p))
    cut, axis = np.empty(max(inner, 1)), np.empty(max(inner, 1), dtype=np.int64)
    grow(X, inner, order, starts, low, high, cut, axis)
    leaves = starts[inner:]
    width = -(-int((leaves[:, 1] - leaves[:, 0]).max()) // 8) * 8
    blocks = np.empty((inner + 1, p, width))
    fill_blocks(X, order, leaves, blocks)
    return _Tree(inner, order, starts, low, high, cut, axis, blocks)


def _in_blocks(X: Array) -> _Tree:
    """All rows as leaves without a tree, in random order: sorted tables would improve on every neighbour row by row."""
    n, p = X.shape
    order = np.random.default_rng(0).permutation(n)
    first = np.arange(0, n, BLOCK_ROWS)
    starts = np.column_stack([first, np.minimum(first + BLOCK_ROWS, n)])
    blocks = np.empty((len(first), p, BLOCK_ROWS))
    fill_blocks(X, order, starts, blocks)
    none = np.empty((0, p))
    return _Tree(0, order, starts, none, none, np.empty(0), np.empty(0, dtype=np.int64), blocks)


def _make_sieve(X: Array) -> _Sieve:
    n, p = X.shape
    order = np.random.default_rng(0).permutation(n)
    middle = X.mean(axis=0)
    table = np.empty((n, p + 1), dtype=np.float32)
    squares = np.empty(n)
    step = max(1, (1 << 18) // p)
    for at in range(0, n, step):  # by blocks: no second table in double precision
        part = X[at : at + step] - middle
        squares[at : at + step] = np.einsum("ij,ij->i", part, part)
    unit = float(power_of_two(np.sqrt(squares.max())))
    for at in range(0, n, step):
        rows = order[at : at + step]
        table[at : at + step, :p] = (X[rows] - middle) / unit
        table[at : at + step, p] = (1.0 - 2.0 * error_share(p)) * (squares[rows] / unit**2)
    return _Sieve(order, middle, unit, table)


def _query_side(sieve: _Sieve, x: Array) -> tuple[Array, Array, Array]:
    """The left factor, the squared lengths of the queries, and a mark on those that float32 cannot hold."""
    p = x.shape[1]
    a = (x - sieve.middle) / sieve.unit
    squared = np.einsum("ij,ij->i", a, a)
    far = squared > FAR**2
    a[far] = 0.0
    squared[far] = -np.inf
    A = np.empty((len(x), p + 1), dtype=np.float32)
    np.multiply(a, -2.0, out=A[:, :p], casting="same_kind")
    A[:, p] = 1.0
    return A, squared, far.astype(np.uint8)


def _answer_zeros(Q: Array, own: Array, found: Array, rows: Array) -> None:
    """Under cosine a row of zeros is at distance 1 from every row, so its neighbours are the first rows."""
    for i in np.flatnonzero(~Q.any(axis=1)):
        first = np.arange(found.shape[1] + 1)
        rows[i] = first[first != own[i]][: found.shape[1]]
        found[i] = 1.0
