"""Deep trees on binned tables: the engine of forests, of bagged trees and of histogram splits.

A node's rows are one stretch of an index array, and so are their responses and weights. To split a node, a few columns
are drawn, and the best division of each is found from its bins (`_grow_split`, `_grow_categories`, `_grow_median`).
The stretch is then divided in place, keeping the order of rows.

    cost of a node with n rows:  O(m (n + min(n, bins))) for m columns;  of a tree:  O(m n depth)

Thresholds come from the bins of the whole table: between the neighbouring bins a and b that a node divides, the cut
nearest to the middle of the gap. Where every column has no more different values than there are bins, this is the tree
of an exact search, but for where in its gap a threshold stands. Columns that have become constant are remembered down
the branch and do not count as drawn. A tree is one kernel call that holds no lock, so a forest grows one per thread;
one large tree alone is grown in parts, its branches at the same time (`_grow_parts`).
Breiman, Friedman, Olshen and Stone (1984); Breiman (2001), Machine Learning 45, 5-32.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from assay.numerics.threads import parallel, workers
from assay.trees._binning import Codes
from assay.trees._grow_kernel import NEVER, SMALL, grow
from assay.trees._grow_node import BEGIN, BINS, DEPTH, END, FINISHED, HIGH, LEVELS, LOW, SIZE_, USED, write
from assay.trees._grow_parts import Grown, join, left_aside
from assay.trees._grow_split import ABSOLUTE, ERROR, GINI, LOG_LOSS, POISSON, SQUARED, Rules
from assay.trees._limits import Limits
from assay.trees.nodes import Nodes

__all__ = ["grow_binned"]

Array = np.ndarray
CRITERIA = {
    "squared_error": SQUARED,
    "poisson": POISSON,
    "absolute_error": ABSOLUTE,
    "gini": GINI,
    "log_loss": LOG_LOSS,
    "entropy": LOG_LOSS,
    "error": ERROR,
}
ROOM = 4096
"""Nodes for which there is room at first, if there are rows for so many."""
SHARED = 20_000
"""From this many rows on, the branches of one tree are worth sharing out."""


def grow_binned(
    codes: Codes,
    y: Array,
    w: Array | None,
    criterion: str,
    classes: int,
    limits: Limits,
    *,
    max_features: int,
    monotone: Array | None,
    seed: int,
    counts: Array | None = None,
    columns: Array | None = None,
    n_jobs: int | None = None,
) -> Nodes:
    """One tree on a binned table.

    | argument     | meaning                                                                                       |
    |--------------|-----------------------------------------------------------------------------------------------|
    | codes        | the binned table                                                                              |
    | y            | float64 targets (classes = 0), or class codes 0 .. classes - 1                                |
    | w            | weights, None: all one; rows of weight 0 are ignored                                          |
    | criterion    | "squared_error", "absolute_error", "poisson"; "gini", "log_loss" ("entropy"), "error"         |
    | classes      | 0, or how many classes there are                                                              |
    | limits       | when growth stops                                                                             |
    | max_features | columns drawn at each node, without replacement; as many as there are: all, in their order    |
    | monotone     | -1, 0 or 1 for each column, None: no constraint (numeric targets and two classes)             |
    | seed         | where the draws begin                                                                         |
    | counts       | how many drawn rows each row stands for, None: one where the weight is positive               |
    | columns      | the order in which all columns are looked at, None: their own; the first wins ties            |
    | n_jobs       | threads for the branches of a large tree that looks at all columns; the tree stays the same   |

    A zero-gain split is allowed, as in scikit-learn; a Poisson split leaves a positive sum on both sides.

    >>> from assay.trees._binning import bin_table
    >>> X = np.arange(6.0)[:, None]
    >>> y = np.array([0.0, 0.0, 0.0, 5.0, 5.0, 9.0])
    >>> tree = grow_binned(
    ...     bin_table(X, [0]), y, None, "squared_error", 0, Limits(max_depth=1), max_features=1, monotone=None, seed=0
    ... )
    >>> tree.threshold[0], tree.value.ravel().round(2).tolist()
    (np.float64(2.5), [3.17, 0.0, 6.33])
    """
    kind = CRITERIA[criterion]
    # The Gini loss of two classes is twice the squared error of their indicator.
    twice = classes == 2 and kind == GINI
    kind, width = (SQUARED, 1) if twice else (kind, max(classes, 1))
    bins = codes.bins
    index = np.arange(y.size, dtype=np.int32) if w is None else np.flatnonzero(w > 0).astype(np.int32)
    if kind == ABSOLUTE:
        index = index[np.argsort(y[index], kind="stable")]
    n = index.size
    rows = np.empty((n, 2))
    rows[:, 0] = 1.0 if w is None else w[index]
    rows[:, 1] = y[index]
    count = np.ones(n, dtype=np.int32) if counts is None else counts[index].astype(np.int32)
    apart = not np.array_equal(rows[:, 0], count)
    count = count if apart else count[:0]
    signs = np.zeros(bins.n_bins.size, dtype=np.int8) if monotone is None else np.asarray(monotone)
    rules = _rules(kind, width, limits, max_features, apart, signs, 0.5 if twice else 1.0)
    info = np.column_stack([bins.n_bins, bins.levels, bins.starts[:-1], signs]).astype(np.int64)
    values, gaps = _prepared(codes)
    plain = rules.simple and not bins.categorical.any() and not gaps
    columns = np.arange(bins.n_bins.size) if columns is None else columns
    growth = _Growth(values, info, bins.cuts, rules, plain, columns, seed)
    share = n >= SHARED and workers(n_jobs) > 1 and rules.max_features >= info.shape[0] and not rules.max_leaves
    grown = growth.shared(index, rows, count, n_jobs) if share else growth.run(index, rows, count)
    return _nodes(grown, twice)


@dataclass(frozen=True, eq=False)
class _Growth:
    """All that the branches of one tree have in common."""

    codes: Array
    info: Array
    cuts: Array
    rules: Rules
    plain: bool
    columns: Array
    seed: int

    def run(
        self,
        index: Array,
        rows: Array,
        count: Array,
        *,
        depth: int = 0,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        aside: int = 0,
    ) -> Grown:
        """Grow until done, with more room for nodes whenever the kernel comes back for it."""
        info, rules, n = self.info, self.rules, index.size
        room = int(info[:, BINS].max(initial=0)) + 3
        most = int(info[:, LEVELS].max(initial=0)) // 32 + 1
        given = (self.codes, info, self.cuts, rules, index, rows, count)
        space = _space(self.columns, room, n, rules.classes, count.size, self.seed)
        general = None if self.plain else _general_space(room)
        medians = _median_space(room, n) if rules.criterion == ABSOLUTE else None
        done = np.zeros(6, dtype=np.int64)
        start = min(2 * n + 1, ROOM)
        ints, reals, value = np.empty((start, 10), np.int32), np.empty((start, 8)), np.empty((start, rules.classes))
        waiting, words = np.empty(start, np.int64), np.empty(most, np.uint32)
        ints[0], (reals[0, LOW], reals[0, HIGH]) = 0, bounds
        ints[0, END], ints[0, DEPTH] = n, depth
        while not done[FINISHED]:
            grow(*given, *space, general, medians, most, aside, done, ints, reals, value, waiting, words)
            if done[SIZE_] + 2 > ints.shape[0]:
                ints, reals, value, waiting = (_longer(array) for array in (ints, reals, value, waiting))
            if done[USED] + most > words.size:
                words = np.concatenate([words, np.empty(words.size + most, np.uint32)])
        size = int(done[SIZE_])
        return Grown(ints[:size], reals[:size], value[:size], words[: done[USED]].copy())

    def shared(self, index: Array, rows: Array, count: Array, n_jobs: int | None) -> Grown:
        """The same tree: first its top, then the branches of up to an eighth of the rows, several at a time."""
        top = self.run(index, rows, count, aside=index.size // 8)

        def branch(t: int) -> Grown:
            begin, end = int(top.ints[t, BEGIN]), int(top.ints[t, END])
            return self.run(
                index[begin:end],
                rows[begin:end],
                count[begin:end],
                depth=int(top.ints[t, DEPTH]),
                bounds=(float(top.reals[t, LOW]), float(top.reals[t, HIGH])),
            )

        marked = left_aside(top)
        return join(top, marked, parallel(branch, marked.tolist(), n_jobs=n_jobs), self.info)


def _longer(array: Array) -> Array:
    return np.concatenate([array, np.empty((3 * array.shape[0], *array.shape[1:]), array.dtype)])


def _prepared(codes: Codes) -> tuple[Array, bool]:
    """The codes as 16-bit numbers, and whether any value is missing; made once for all trees of a forest.

    Growth on bytes is no faster, and for two types of codes the kernel would be compiled twice.
    """
    with _preparing:  # else each thread would make them
        if codes not in _known:
            values = codes.values.astype(np.uint16, copy=False)
            n_bins = codes.bins.n_bins.astype(np.uint16)
            gaps = any(bool((values[i : i + 4096] == n_bins).any()) for i in range(0, values.shape[0], 4096))
            _known[codes] = values, gaps
        return _known[codes]


_known: WeakKeyDictionary[Codes, tuple[Array, bool]] = WeakKeyDictionary()
_preparing = threading.Lock()


def _rules(kind: int, width: int, limits: Limits, max_features: int, apart: bool, signs: Array, unit: float) -> Rules:
    constrained, counted = width <= 2 and bool(signs.any()), apart and limits.min_leaf > 1
    # Where weights are counts, fewest rows are least weight; a speck below is rounding.
    least = limits.min_weight if apart else max(limits.min_weight, float(limits.min_leaf))
    return Rules(
        criterion=kind,
        classes=width,
        max_depth=int(limits.max_depth),
        max_leaves=int(limits.max_leaves),
        min_split=int(limits.min_split),
        min_leaf=int(limits.min_leaf),
        min_weight=float(least) * (1 - 1e-12),
        min_decrease=float(limits.min_decrease) * unit,
        max_features=int(max_features),
        counted=bool(counted),
        constrained=constrained,
        simple=kind in (SQUARED, GINI) and not constrained and not counted,
    )


def _space(columns: Array, bins: int, n: int, classes: int, counted: int, seed: int) -> tuple[Array, ...]:
    """What every tree needs: sums and class weights by bin, ranks, bins in a bitmap and a list, rows, columns, seed."""
    return (
        np.zeros((bins, 2)),
        np.zeros((bins if classes > 1 else 1, classes)),
        np.zeros((3, classes)),
        np.empty((n if classes == 1 else 1, 2)),
        np.empty((3, SMALL), dtype=np.uint16 if SMALL * (bins - 2) <= 1 << 16 else np.int32),
        np.zeros(bins // 64 + 1, dtype=np.uint64),
        np.empty(bins, dtype=np.int64),
        np.empty(n, dtype=np.int32),
        np.empty((n, 2)),
        np.empty(counted, dtype=np.int32),
        np.stack([columns, np.full(columns.size, NEVER)]),
        np.array([seed % 2**64], dtype=np.uint64),
    )


def _general_space(bins: int) -> tuple[Array, ...]:
    """What gaps, categories and constraints need: counts, lists of bins, their keys."""
    return np.zeros(bins, dtype=np.int64), np.zeros((3, bins), np.int64), np.empty(bins)


def _median_space(bins: int, n: int) -> tuple[Array, ...]:
    """Heads and chains of the rows of each bin, Fenwick tree, losses, and rows of a child."""
    return np.full(bins, -1), np.empty(n, dtype=np.int64), np.empty((n + 1, 2)), np.zeros((4, bins)), np.empty((n, 2))


def _nodes(grown: Grown, twice: bool) -> Nodes:
    ints, reals, value, words = grown
    size = ints.shape[0]
    whole = np.empty((4, size), dtype=np.int32)
    offset, rows = np.empty((2, size), dtype=np.int64)
    real = np.empty((4, size))
    shares = np.empty((size, 2 if twice else value.shape[1]))
    write(ints, reals, value, whole, offset, rows, real, shares, 2.0 if twice else 1.0)
    return Nodes(
        starts=np.array([0, size], dtype=np.int64),
        feature=whole[0],
        threshold=real[0],
        first=whole[1],
        count=whole[2],
        missing=whole[3],
        offset=offset,
        words=words,
        value=shares,
        rows=rows,
        weight=real[1],
        impurity=real[2],
        gain=real[3],
    )
