"""One tree of gradient boosting, grown on bins from each row's gradient g and hessian h.

With G and H the sums of a node's g and h, and l2 the penalty, a leaf steps by -G / (H + l2), and a split saves

    gain = 1/2 [ G_L^2 / (H_L + l2) + G_R^2 / (H_R + l2) - G^2 / (H + l2) ]

of the loss' second-order expansion. Under monotone constraints a step v is kept inside the bounds inherited from above,
and the gain is the difference of G v + (H + l2) v^2 / 2 at the bounded steps; at a split of a constrained column the
children's bounds part at the mean of their steps.

Missing values are tried on both sides. Where a node has none in the column it splits, they will follow the child of
larger hessian. Categories are put in the order of G_c / (H_c + smoothing), which keeps rare ones in the middle, and
scanned like numbers; with smoothing 0 and l2 0 that finds the best of all subsets (Fisher). Categories that a node
does not hold go where missing values go. A later split must be better by more than rounding to win, so ties fall to
the first column and the lowest cut.

Cost. A node's sums per bin take one pass over its rows; of two children only the smaller is summed, the other is its
parent minus it, so that a tree costs at most O(n p log leaves) and in practice two or three passes. A scan is O(bins).

Under squared error a tree moves each gradient by its leaf's step v, so the sums of the next tree's root need no pass:
in a bin in which leaf l has the sum G_l of n_l rows they are the sum over the leaves of G_l + n_l v_l. That spares the
largest pass of all, over every row.

Digits. The sums per bin are of whole numbers: each gradient is counted in units of about 2^-61 times the sum of all
|g|, less the bits that count the rows (for a million rows and unit hessian 2^-41), each hessian likewise. Whole numbers
add up to the same in any order and subtract without rest, gradient and count fit one word, and one addition does for
both: half the time of sums in floating point. A row's rounding is of the size of the errors that sums of a million
floating-point numbers make. Steps are then computed in floating point from the gradients of the leaf's own rows.

Short words. With hessians that takes two words a row. From 32,768 rows on, where no row's gradient or hessian is more
than 16 times the mean, both are counted in units of 2^-12 times the power of two above the largest: then gradient,
hessian and count fit one word, whose sums have room for fewer than 8,192 rows and are emptied into long ones in time:
half the memory to fetch and to add to. A row is rounded by at most half a unit, up as often as down, far less than its
own noise; only splits that are nearly as good as each other change places. Two or three bits have been found to be
enough (Shi et al. 2022); steps stay exact.

Gradients of squared error and of the deviance of classes, without weights, are worked out in the same pass over the
rows that measures them.

Threads. Passes over the rows are shared out by pieces of a fixed size. Each thread adds up and searches a block of
columns, whose cells lie together, of the nodes in hand (`_boost_grow.grow`); where that is little work, as in most
nodes of a deep tree, one thread does all of it. Sums are of whole numbers and each column is searched by one thread, so
the same tree follows for any number of threads, to the bit.

Friedman (2001), Annals of Statistics 29, 1189-1232; Chen and Guestrin (2016), KDD, 785-794; Ke et al. (2017), NeurIPS
30, 3146-3154; Shi et al. (2022), NeurIPS 35; Fisher (1958), JASA 53, 789-798.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from assay.numerics.threads import parallel, workers
from assay.trees._binning import Codes
from assay.trees._boost_grow import SEARCH_ONLY, grow, predict_others, set_steps, sum_leaves
from assay.trees._boost_scan import (
    BEGIN,
    BEST_FIRST,
    BIN,
    BY_LEVEL,
    END,
    FEATURE,
    FIRST,
    GAIN,
    MISSING,
    SLOT,
    STEP,
    WEIGHT,
    YOUNGEST_FIRST,
    Rows,
    Setting,
    Sums,
    Table,
    Tree,
)
from assay.trees._boost_words import NO_UNITS, PIECES, carry_fits, choose_units, measure, pack, prepare
from assay.trees.nodes import Nodes, word_count

__all__ = ["COUNTED", "NO_SCORES", "BoostLimits", "Scores", "Workspace", "grow_boosted"]

Array = np.ndarray

SHARED_WORK = 250_000
"""Cells (rows times columns) below which a tree is grown by one thread."""
SHARED_CELLS = 400_000
"""Cells to add up, or bins to search, from which on a step is shared between threads."""
ROW_STEPS = 4.0
"""Operations that a pass over the rows takes for each, roughly."""
POOL_BYTES = 256 << 20
"""Sums of at most so many bytes are kept for later subtraction; beyond that, both children are summed."""

KEPT, RENEWED = 4, 16
"""Leaves' sums are kept where adding them up is so many times less than the cells; all is counted anew so often."""
COUNTED = 16
"""Rows that count by weight are counted in parts of so many."""
SHORT_ROWS, SHORT_BINS = 32_768, 300
"""Gradient, hessian and count are summed in one short word from so many rows on, with at most so many bins a column."""
LEAF_SUMS, LEAF_ROWS = 8192, 4096
"""Leaves' sums of gradients are made in pieces of so many nodes together, and of so many rows at least."""


@dataclass(frozen=True)
class BoostLimits:
    """When a tree stops growing, and its penalty.

    | field       | default | range        | meaning                                                              |
    |-------------|---------|--------------|----------------------------------------------------------------------|
    | max_leaves  | 31      | 0, >= 2      | most leaves; 0: no limit                                             |
    | max_depth   | 2^31 -1 | >= 1         | a node at this depth is a leaf (the root has depth 0)                |
    | min_leaf    | 20      | >= 1         | no split leaves a child with fewer rows                              |
    | min_hessian | 1e-3    | >= 0         | no split leaves a child with a smaller sum of hessians               |
    | l2          | 0.0     | >= 0         | penalty on the square of a step                                      |
    | min_gain    | 0.0     | >= 0         | a split must save more than this                                     |
    | growth      | "leaf"  | leaf, depth  | best split first, or level by level (within a level best first)      |
    | smoothing   | 10.0    | >= 0         | added to a category's hessian when categories are put in order       |
    """

    max_leaves: int = 31
    max_depth: int = 2**31 - 1
    min_leaf: int = 20
    min_hessian: float = 1e-3
    l2: float = 0.0
    min_gain: float = 0.0
    growth: Literal["leaf", "depth"] = "leaf"
    smoothing: float = 10.0


class Scores(NamedTuple):
    """Scores whose gradients are worked out together with the tree that is grown on them.

    | field | meaning                                                                          |
    |-------|----------------------------------------------------------------------------------|
    | loss  | as `_loss_steps` numbers them, without weights; 0: gradients are given           |
    | y     | the targets                                                                      |
    | raw   | the K x n scores; stepped first, then all gradients follow before score 0's tree |
    | value | what the nodes of the last tree add to the score it is for; empty: nothing       |
    """

    loss: int
    y: Array
    raw: Array
    value: Array


NO_SCORES = Scores(0, np.empty(0), np.empty((1, 0)), np.empty(0))


class Workspace:
    """What all trees of one fit share: the codes row by row and column by column, and room for sums and rows.

    | parameter  | default | range           | meaning                                                           |
    |------------|---------|-----------------|-------------------------------------------------------------------|
    | codes      |         | Codes           | the binned table                                                  |
    | levels     |         | p whole numbers | categories of each column, 0 for a column of numbers              |
    | n_jobs     | None    | None or whole   | threads                                                           |
    | row_counts | None    | n whole numbers | what each row counts in `min_leaf`, in parts of `COUNTED`         |
    | shared_work, shared_cells, pool_bytes, kept, short_rows |  | at least 0 | the constants above; tests lower them |

    One workspace serves one call of `grow_boosted` at a time. Beside the given codes it holds them column by column,
    and for several threads block by block of columns. `setting` is that of the last tree.
    """

    setting: Setting

    def __init__(
        self,
        codes: Codes,
        levels: Sequence[int],
        n_jobs: int | None = None,
        row_counts: Array | None = None,
        *,
        shared_work: int | None = None,
        shared_cells: int | None = None,
        pool_bytes: int = POOL_BYTES,
        kept: int = KEPT,
        short_rows: int = SHORT_ROWS,
    ) -> None:
        self.pool_bytes, self.kept, self.short_rows = pool_bytes, kept, short_rows
        self.shared_cells = SHARED_CELLS if shared_cells is None else shared_cells
        values, bins = codes.values, codes.bins
        n, p = values.shape
        self.codes, self.levels = codes, np.asarray(levels, dtype=np.int64)
        self.rows, self.columns = n, p
        enough = n * p >= (SHARED_WORK if shared_work is None else shared_work)
        self.threads = max(1, min(workers(n_jobs), p)) if enough else 1
        blocks = np.linspace(0, p, self.threads + 1).astype(np.int64)
        by_column = np.empty(n * p, dtype=values.dtype)
        cells = values.reshape(-1) if self.threads == 1 else np.empty_like(by_column)

        def copy(first: int, last: int) -> None:
            for low, high in zip(blocks[first:last], blocks[first + 1 : last + 1], strict=True):
                by_column[n * low : n * high] = values[:, low:high].T.reshape(-1)
                if self.threads > 1:
                    cells[n * low : n * high] = values[:, low:high].reshape(-1)

        self.share(copy, self.threads, float(n * p))
        words = [
            word_count(int(b)) if category else 0 for b, category in zip(bins.n_bins, bins.categorical, strict=True)
        ]
        self.table = Table(
            cells=cells,
            by_column=by_column,
            blocks=blocks,
            offsets=np.concatenate([[0], np.cumsum(bins.n_bins.astype(np.int64) + 1)]),
            n_bins=bins.n_bins,
            categorical=bins.categorical,
            word_starts=np.concatenate([[0], np.cumsum(words)]).astype(np.int64),
            # A single row has no split to refuse.
            row_counts=np.ones(1, dtype=np.int64) if row_counts is None else row_counts,
        )
        self.order, self.buffer = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        self.leaf_of_row, self.packed = np.empty(n, dtype=np.int32), np.empty(0, dtype=np.int64)
        self.sizes, self.totals = np.zeros((PIECES, 5)), np.empty((PIECES, 2), dtype=np.int64)
        self.most_leaves, self.units, self.carried, self.age = 0, NO_UNITS, 0, 0

    def share(self, function: Callable[[int, int], object], count: int, work: float) -> None:
        """Call a function with ranges that make up 0 to count: one for each thread, if so much `work` is worth it."""
        if self.threads == 1:
            function(0, count)
        else:
            ends = [k * count // self.threads for k in range(self.threads + 1)]
            parallel(lambda k: function(ends[k], ends[k + 1]), range(self.threads), n_jobs=self.threads, work=work)

    def reserve(self, leaves: int, lanes: int) -> None:
        """Room for trees of at most so many leaves, the same for one tree after another."""
        if self.packed.size != lanes * self.rows:
            self.packed, self.carried = np.empty(lanes * self.rows, dtype=np.int64), 0
        if leaves == self.most_leaves:
            return
        self.most_leaves, self.carried = leaves, 0
        table, nodes, total = self.table, 2 * leaves - 1, int(self.table.offsets[-1])
        blocks, widest, words = self.threads, int(table.n_bins.max(initial=0)) + 1, table.word_starts
        # Beside the sums that are kept there are two places whose sums are not.
        places = 2 + max(1, min(leaves, self.pool_bytes // (16 * total)))
        self.sums = Sums(
            pool=np.empty((places, 2 * total), dtype=np.int64),
            short=np.zeros(total, dtype=np.int64),
            gains=np.empty((blocks, widest)),
            prefixes=np.empty((blocks, 3, widest), dtype=np.int64),
            sides=np.empty(widest, dtype=np.uint8),
            best=np.empty((2, self.columns)),
            cuts=np.empty((2, self.columns, 4), dtype=np.int64),
            bits=np.zeros((2, max(1, int(words[-1]))), dtype=np.uint32),
        )
        self.tree = Tree(
            real=np.empty((nodes, 5)),
            whole=np.empty((nodes, 12), dtype=np.int64),
            bits=np.empty((nodes if words[-1] else 1, int(np.diff(words).max(initial=1))), dtype=np.uint32),
            heap=np.empty(nodes + 1, dtype=np.int64),
            free=np.empty(places, dtype=np.int64),
            state=np.empty(12, dtype=np.int64),
            active=np.empty(self.columns, dtype=np.uint8),
            signs=np.empty(self.columns, dtype=np.int64),
            carry=np.zeros((nodes, 2), dtype=np.int64),
        )
        self.leaf_sums = np.empty((max(1, min(PIECES, LEAF_SUMS // nodes, self.rows // LEAF_ROWS)), 2 * nodes))

    @property
    def loss_sum(self) -> float:
        """The summed loss of `Scores` before the last tree for score 0 was grown."""
        return float(self.sizes[:, 4].sum())

    def move(self, value: Array) -> None:
        """After a tree grown with `keep`: the next one's gradients are this one's plus the values of its nodes.

        The sums of the next root then follow from the leaves': where a leaf adds v, a bin with sum G and n rows has
        G + n v. Only whole numbers of the unit are added, so that after a few trees all is counted anew.
        """
        self.carried, made = 0, value.size
        whole, carry, c = self.tree.whole[:made], self.tree.carry, self.setting.bits
        leaf, scale, self.age = whole[:, FEATURE] < 0, self.units.g * self.units.scale, self.age + 1
        if not self.setting.keep or scale == 0.0 or self.age % RENEWED == 0:
            return
        with np.errstate(over="ignore"):
            steps = np.where(leaf, np.floor(value / scale + 0.5), 0.0)
        if not np.abs(steps) @ (whole[:, END] - whole[:, BEGIN]) < 2.0 ** (62 - c):
            return
        carry[:made, 0] = np.where(leaf, whole[:, SLOT], 0)
        carry[:made, 1] = steps.astype(np.int64) << c
        self.carried = made


def grow_boosted(
    work: Workspace,
    gradient: Array,
    hessian: Array | None,
    limits: BoostLimits,
    *,
    score: int = 0,
    rows: Array | None = None,
    columns: Array | None = None,
    monotone: Array | None = None,
    keep: bool = False,
    scores: Scores = NO_SCORES,
) -> tuple[Nodes, Array]:
    """Grow one tree; return its nodes and the leaf of every row, in or out of the sample (int32).

    | parameter | default | range              | meaning                                                            |
    |-----------|---------|--------------------|--------------------------------------------------------------------|
    | work      |         | Workspace          | the binned table and room to work in                               |
    | gradient  |         | K x n, float64     | of the loss at the present scores, times the row's weight          |
    | hessian   |         | K x n, 1 x n, None | likewise, not negative; None: 1 for every row                      |
    | limits    |         | BoostLimits        | when growth stops                                                  |
    | score     | 0       | 0 to K - 1         | which of the gradients                                             |
    | rows      | None    | int32, ascending   | the sample the tree is grown on; None: all rows                    |
    | columns   | None    | p truth values     | columns that may be split; None: all                               |
    | monotone  | None    | p of -1, 0, 1      | direction of each column                                           |
    | keep      | False   | True, False        | keep the leaves' sums for `Workspace.move` where that saves work   |
    | scores    | none    | Scores             | where gradient and hessian come from, if not given: see `loss_sum` |

    In the nodes, `weight` is the sum of hessians, `impurity` 0 and `value` the step -G / (H + l2). Where a column's
    missing values stand against all others, the threshold is infinity. The leaves of the rows are written over by the
    workspace's next tree.

    >>> from assay.trees._binning import bin_table
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> work = Workspace(bin_table(X, [0]), [0])
    >>> nodes, leaf = grow_boosted(work, np.array([[1.0, 1.0, -1.0, -1.0]]), None, BoostLimits(min_leaf=1))
    >>> float(nodes.threshold[0]), nodes.value[leaf, 0].tolist()
    (2.5, [-1.0, -1.0, 1.0, 1.0])
    """
    setting = work.setting = _setting(work, hessian, limits, score, rows, monotone, keep)
    table, tree, sums = work.table, work.tree, work.sums
    tree.active[:] = True if columns is None else columns
    tree.signs[:] = 0 if monotone is None else monotone
    tree.real[:], tree.whole[:], tree.bits[:], tree.state[:] = 0, 0, 0, 0
    work.order[: setting.rows] = np.arange(work.rows, dtype=np.int32) if rows is None else rows
    data = Rows(
        scores.y, scores.raw, scores.value, gradient, gradient if hessian is None else hessian, work.packed, work.order,
        work.buffer, work.leaf_of_row, work.sizes, work.totals, work.leaf_sums,
    )  # fmt: skip
    carried, work.carried = work.carried if rows is None else 0, 0
    steps = ROW_STEPS * work.rows
    work.share(lambda first, last: prepare(data, tree, setting, scores.loss, carried > 0, first, last), PIECES, steps)
    if carried == 0 or not carry_fits(data, setting):
        if carried > 0 or rows is not None:
            work.share(lambda first, last: measure(data, setting, first, last), PIECES, steps)
        carried, units = 0, choose_units(data, setting, _short_words(work, setting))
        work.units = units
        work.share(lambda first, last: pack(data, setting, units, table.row_counts, first, last), PIECES, steps)

    def search(first: int, last: int, most: int) -> bool:
        return bool(grow(table, data, tree, sums, setting, work.units, carried, first, last, most))

    while search(0, 0, work.shared_cells if work.threads > 1 else np.iinfo(np.int64).max):
        work.share(lambda first, last: search(first, last, SEARCH_ONLY), work.threads, float("inf"))
    pieces = work.leaf_sums.shape[0]
    work.share(lambda first, last: sum_leaves(data, tree, setting, first, last), pieces, steps)
    made = set_steps(data, tree, setting, work.units)
    if rows is not None:
        _predict_others(work)
    return _nodes(work, tree.real[:made], tree.whole[:made], tree.bits), work.leaf_of_row


def _setting(
    work: Workspace,
    hessian: Array | None,
    limits: BoostLimits,
    score: int,
    rows: Array | None,
    monotone: Array | None,
    keep: bool,
) -> Setting:
    """What holds for one tree, with room made for it."""
    sampled, counts = work.rows if rows is None else rows.size, work.table.row_counts
    lanes = 1 if hessian is None else 2
    weighed = counts.size > 1
    most = _most_leaves(replace(limits, min_leaf=1) if weighed else limits, sampled)
    work.reserve(most, lanes)
    counted = sampled
    if weighed:
        counted = int(counts.sum() if rows is None else counts[rows].sum())
    bits, total = counted.bit_length(), int(work.table.offsets[-1])
    # With too many rows the unit would not be small beside a gradient.
    keep = keep and lanes == 1 and bits <= 22 and most <= work.sums.pool.shape[0] - 2
    by_level = BY_LEVEL if limits.growth == "depth" else BEST_FIRST
    return Setting(
        max_leaves=most,
        max_depth=int(limits.max_depth),
        min_leaf=int(limits.min_leaf) * (COUNTED if weighed else 1),
        min_hessian=float(limits.min_hessian),
        l2=float(limits.l2),
        min_gain=float(limits.min_gain),
        smoothing=float(limits.smoothing),
        order=YOUNGEST_FIRST if limits.max_leaves == 0 else by_level,
        rows=sampled,
        score=score,
        lanes=lanes,
        bits=bits,
        bounded=monotone is not None and bool(np.any(monotone)),
        keep=keep and work.kept * most * total <= work.rows * work.columns,
    )


def _short_words(work: Workspace, setting: Setting) -> bool:
    """Whether gradient, hessian and count may share a word, which has no room for counts other than 1."""
    narrow = work.table.offsets[-1] <= SHORT_BINS * work.columns
    return bool(setting.lanes == 2 and setting.rows >= work.short_rows and narrow and work.table.row_counts.size == 1)


def _predict_others(work: Workspace) -> None:
    """Find the leaves of the rows that were not in the sample."""
    bins, tree = work.codes.bins, work.tree

    def part(first: int, last: int) -> None:
        values, leaves = work.codes.values[first:last], work.leaf_of_row[first:last]
        predict_others(values, bins.n_bins, bins.categorical, tree.whole, tree.bits, leaves)

    work.share(part, work.rows, ROW_STEPS * work.rows)


def _most_leaves(limits: BoostLimits, rows: int) -> int:
    """How many leaves a tree can have at all."""
    most = max(1, rows // max(1, limits.min_leaf))
    if limits.max_leaves:
        most = min(most, limits.max_leaves)
    return min(most, 2**limits.max_depth) if limits.max_depth < 31 else most


def _nodes(work: Workspace, real: Array, whole: Array, bits: Array) -> Nodes:
    """The tree in the layout all trees share: cuts instead of bins, a bit for each level of a category."""
    bins = work.codes.bins
    size = real.shape[0]
    feature = whole[:, FEATURE]
    inner = np.flatnonzero(feature >= 0)
    column, cut = feature[inner], whole[inner, BIN]
    threshold, offset, words = np.zeros(size), np.full(size, -1, dtype=np.int64), np.empty(0, dtype=np.uint32)
    at = bins.starts[column] + cut
    threshold[inner] = np.inf
    below = at < bins.starts[column + 1]
    threshold[inner[below]] = bins.cuts[at[below]]
    if bins.categorical.any():
        parts, filled = [words], 0
        for t, j in zip(inner, column, strict=True):
            if bins.categorical[j]:
                threshold[t], offset[t] = 0.0, filled
                parts.append(_level_bits(bits[t], int(work.levels[j]), int(bins.n_bins[j])))
                filled += parts[-1].size
        words = np.concatenate(parts)
    return Nodes(
        starts=np.array([0, size]),
        feature=feature.astype(np.int32),
        threshold=threshold,
        first=whole[:, FIRST].astype(np.int32),
        count=((feature >= 0) * 2).astype(np.int32),
        missing=whole[:, MISSING].astype(np.int32),
        offset=offset,
        words=words,
        value=real[:, STEP : STEP + 1].copy(),
        rows=whole[:, END] - whole[:, BEGIN],
        weight=real[:, WEIGHT].copy(),
        impurity=np.zeros(size),
        gain=real[:, GAIN] * (feature >= 0),
    )


def _level_bits(bits: Array, levels: int, bins: int) -> Array:
    """The bits of a column's levels, of which those beyond the last bin share its bit."""
    if levels <= bins:
        return bits[: word_count(levels)].copy()
    flags = np.unpackbits(bits.view(np.uint8), bitorder="little")[np.minimum(np.arange(levels), bins - 1)]
    padded = np.zeros(32 * word_count(levels), dtype=np.uint8)
    padded[:levels] = flags
    return np.packbits(padded, bitorder="little").view(np.uint32)
