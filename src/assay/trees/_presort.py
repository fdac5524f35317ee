"""Tables sorted column by column, and what growth on them starts from and ends with.

Entries `rank << 32 | row` of each column are sorted once; any weights, bootstrap samples and folds of the rows share
the sort. Trees with two children (`_exact`) and with many (`_multiway`) start from the same arrays and end as the same
columns of nodes.

Cost: O(n p log n) for the sort, O(n p) for a start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel
from assay.trees._criteria import ABSOLUTE, CRITERIA, GINI, LOG, MISSING, ROW, SAME, SQUARED
from assay.trees._limits import Limits
from assay.trees._node import (
    ABOVE,
    BELOW,
    COUNT,
    DEPTH,
    FEATURE,
    FIRST,
    GAIN,
    GAP,
    IMPURITY,
    LEAST,
    MOST,
    OFFSET,
    ROWS,
    WEIGHT,
)
from assay.trees.nodes import Nodes

__all__ = ["Presort", "Start", "as_nodes", "node_room", "presort", "start"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Presort:
    """The entries of each column, `rank << 32 | row` ascending (p x n, int64); a category's rank is its code."""

    entries: Array


def presort(X: Array, levels: Sequence[int] | Array, n_jobs: int | None = None) -> Presort:
    """Sort each column once; any weights, bootstrap samples and folds of the rows share it."""
    n, p = X.shape
    entries = np.empty((p, n), dtype=np.int64)

    def sort(j: int) -> None:
        column = X[:, j].copy()  # never read-only: that would be another type, compiled anew
        _rank(column, np.argsort(column), bool(levels[j]), entries[j])

    parallel(sort, range(p), n_jobs=n_jobs, work=20.0 * n * p)
    return Presort(entries)


@kernel
def _rank(x: Array, order: Array, category: bool, entries: Array) -> None:
    rank: Any = 0
    for i in range(x.size):
        v = x[order[i]]
        if v != v:
            entries[i] = (MISSING << 32) | order[i]
            continue
        if category:
            rank = np.int64(v)
        elif i > 0 and v != x[order[i - 1]]:
            rank += 1
        entries[i] = (rank << 32) | order[i]


@dataclass(frozen=True, eq=False)
class Start:
    """What the kernels of growth are given.

    | field    | meaning                                                                                           |
    |----------|---------------------------------------------------------------------------------------------------|
    | given    | entries, targets, class codes, weights, counts, 1 / count, count log2 count, rules, least weights |
    | scratch  | shuffled columns and which are searched; sums of classes; medians or None; state of the draws     |
    | rows     | how many rows there are                                                                           |
    """

    given: tuple[Array, ...]
    scratch: tuple[Any, ...]
    rows: int


def start(
    presort: Presort,
    y: Array,
    w: Array | None,
    criterion: str,
    classes: int,
    limits: Limits,
    *,
    max_features: int,
    seed: int,
    counts: Array | None,
    columns: Array | None,
) -> Start:
    """Set up growth; the arguments are those of `grow_exact`."""
    kind, p = CRITERIA[criterion], presort.entries.shape[0]
    entries, rows = _present(presort.entries, y, w, kind == ABSOLUTE)
    weights, many = _row_weights(y.size, w, counts)
    min_leaf, min_weight = limits.min_leaf, limits.min_weight
    if weights.size == 0:  # every row weighs 1, so the weight of a leaf is a number of rows
        min_leaf, min_weight = max(min_leaf, ceil(min_weight * (1 - SAME))), 0.0
    min_split = max(limits.min_split, 2 * min_leaf)
    rules = [kind, classes, p, max_features, limits.max_depth, limits.max_leaves, min_split, min_leaf]
    given = (
        entries,
        np.empty(0) if classes else np.array(y, dtype=np.float64),
        np.array(y, dtype=np.int32) if classes else np.empty(0, dtype=np.int32),
        weights,
        many,
        *_count_tables(rows if weights.size == 0 else 0, kind),
        np.array(rules, dtype=np.int64),
        np.array([min_weight, limits.min_decrease]),
    )
    scratch = (
        np.array([np.arange(p) if columns is None else columns, np.ones(p)], dtype=np.int64),
        np.empty((5, max(2, classes))),
        _median_space(y.size, rows) if kind == ABSOLUTE else None,
        np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64),
    )
    return Start(given, scratch, rows)


def _median_space(n: int, rows: int) -> tuple[Array, Array, Array]:
    """Each row's place among the node's targets; targets, losses and medians; a chain through the targets."""
    return np.empty(n, dtype=np.int64), np.zeros((11, rows + 2)), np.empty((2, rows + 2), dtype=np.int64)


def _present(entries: Array, y: Array, w: Array | None, absolute: bool) -> tuple[Array, int]:
    """A copy of the entries of rows with weight, and three more columns: the order of y, ordered levels, room."""
    p, n = entries.shape
    keep = np.ones(n, dtype=bool) if w is None else w > 0
    rows = int(np.count_nonzero(keep))
    out = np.empty((p + 3, rows), dtype=np.int64)
    if rows == n:
        out[:p] = entries
    else:
        _keep(entries, keep, out)
    if absolute:
        y, by_y = np.array(y, dtype=np.float64), np.empty(n, dtype=np.int64)
        _rank(y, np.argsort(y), False, by_y)
        out[p] = by_y[keep[by_y & ROW]]
    return out, rows


@kernel
def _keep(entries: Array, keep: Array, out: Array) -> None:
    for j in range(entries.shape[0]):
        at = 0
        for i in range(entries.shape[1]):
            if keep[entries[j, i] & ROW]:
                out[j, at] = entries[j, i]
                at += 1


def _row_weights(n: int, w: Array | None, counts: Array | None) -> tuple[Array, Array]:
    """Weights and counts for the kernel, both empty where every row that is there weighs 1 and counts once."""
    active = np.ones(n, dtype=bool) if w is None else w > 0
    plain = w is None or bool(np.all(w[active] == 1.0))
    plain = plain and (counts is None or bool(np.all(counts[active] == 1)))
    if plain:
        return np.empty(0), np.empty(0, dtype=np.int64)
    weights = np.ones(n) if w is None else np.array(w, dtype=np.float64)
    many = np.ones(n, dtype=np.int64) if counts is None else np.array(counts, dtype=np.int64)
    return weights, many


def _count_tables(rows: int, kind: int) -> tuple[Array, Array]:
    """1 / c and c log2 c of every count up to `rows` (0: none is needed)."""
    count = np.maximum(np.arange(rows + 1.0), 1.0)
    if rows and kind in (SQUARED, GINI):
        return 1.0 / count, np.empty(0)
    if rows and kind == LOG:
        terms = count * np.log2(count)
        # A multiple of one power of two, coarse enough that any sum of terms is a float without rounding.
        grid = 2.0 ** (50 - ceil(np.log2(terms[-1] + 2.0)))
        return np.empty(0), np.rint(terms * grid) / grid
    return np.empty(0), np.empty(0)


def node_room(leaves: int, classes: int) -> tuple[Array, Array, Array]:
    """Whole numbers, real numbers and values of the nodes of a tree with up to so many leaves; the root is free."""
    size = 2 * leaves - 1
    ints, reals = np.empty((size, 12), dtype=np.int64), np.empty((size, 5))
    ints[0, DEPTH], reals[0, LEAST], reals[0, MOST] = 0, -np.inf, np.inf
    return ints, reals, np.empty((size, max(1, classes)))


def as_nodes(X: Array, room: tuple[Array, Array, Array], size: int, words: Array) -> Nodes:
    """The grown tree as columns, with thresholds half way between the values on both sides of a cut."""
    ints, reals, value = (table[:size] for table in room)
    cut = np.flatnonzero((ints[:, COUNT] == 2) & (ints[:, OFFSET] < 0))
    below, above, column = ints[cut, BELOW], ints[cut, ABOVE], ints[cut, FEATURE]
    low, high = X[below, column], X[above, column]
    with np.errstate(over="ignore"):
        middle = low + (high - low) / 2.0
    # Between neighbours of floating point the middle may round up to the right one.
    middle = np.where((middle >= low) & (middle < high), middle, low)
    threshold = np.zeros(len(ints))
    threshold[cut] = np.where(above < 0, np.inf, middle)
    return Nodes(
        starts=np.array([0, len(ints)], dtype=np.int64),
        feature=ints[:, FEATURE].astype(np.int32),
        threshold=threshold,
        first=ints[:, FIRST].astype(np.int32),
        count=ints[:, COUNT].astype(np.int32),
        missing=ints[:, GAP].astype(np.int32),
        offset=ints[:, OFFSET].copy(),
        words=words,
        value=value.copy(),
        rows=ints[:, ROWS].copy(),
        weight=reals[:, WEIGHT].copy(),
        impurity=reals[:, IMPURITY].copy(),
        gain=reals[:, GAIN].copy(),
    )
