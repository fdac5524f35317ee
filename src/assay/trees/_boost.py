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

Who works out the gradients. For squared error and the deviance of classes, without weights, it is the team itself,
before it grows a tree, so that no other threads must be woken for it.

Threads. The whole tree is one kernel that a team of threads runs together (`numerics.team`). Sums are of whole numbers
and each column is searched by one member, so the same tree follows for any number of threads, to the bit.

Friedman (2001), Annals of Statistics 29, 1189-1232; Chen and Guestrin (2016), KDD, 785-794; Ke et al. (2017), NeurIPS
30, 3146-3154; Shi et al. (2022), NeurIPS 35; Fisher (1958), JASA 53, 789-798.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from assay.numerics.team import CALL, OVER, new_gate
from assay.numerics.threads import Crew, parallel, workers
from assay.trees._binning import Codes
from assay.trees._boost_grow import grow, send
from assay.trees._boost_scan import (
    BEGIN,
    BIN,
    BITS,
    END,
    FEATURE,
    FIRST,
    GAIN,
    KEEP,
    MISSING,
    SCALE,
    SLOT,
    STEP,
    UNIT_G,
    WEIGHT,
)
from assay.trees._boost_words import PIECES
from assay.trees.nodes import Nodes, word_count

__all__ = ["COUNTED", "NO_SCORES", "BoostLimits", "Scores", "Workspace", "grow_boosted"]

Array = np.ndarray

TEAM_WORK = 250_000
"""Cells (rows times columns) below which a tree is grown by one thread."""
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
    """Scores whose gradients the team works out itself, before it grows a tree on them.

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

    | parameter | default | range             | meaning                                                        |
    |-----------|---------|-------------------|----------------------------------------------------------------|
    | codes     |         | Codes             | the binned table                                               |
    | levels    |         | p whole numbers   | categories of each column, 0 for a column of numbers           |
    | n_jobs    | None    | None or whole     | threads of the team                                            |
    | tally     | None    | n whole numbers   | what each row counts in `min_leaf`, in parts of `COUNTED`      |
    | team_work, pool_bytes, kept, short_rows |  | at least 0 | the constants above; tests lower them              |

    One workspace serves one call of `grow_boosted` at a time. Beside the given codes it holds them column by column. As
    long as it grows trees on the same gradients, helpers stay with it between trees; `dismiss` sends them home at once.
    """

    def __init__(
        self,
        codes: Codes,
        levels: Sequence[int],
        n_jobs: int | None = None,
        tally: Array | None = None,
        *,
        team_work: int = TEAM_WORK,
        pool_bytes: int = POOL_BYTES,
        kept: int = KEPT,
        short_rows: int = SHORT_ROWS,
    ) -> None:
        self.pool_bytes, self.kept, self.short_rows = pool_bytes, kept, short_rows
        # A single row has no split to refuse.
        self.tally = np.ones(1, dtype=np.int64) if tally is None else tally
        values = codes.values
        n, p = values.shape
        self.codes, self.levels = codes, np.asarray(levels, dtype=np.int64)
        self.rows, self.columns = n, p
        self.team = max(1, min(workers(n_jobs), p)) if n * p >= team_work else 1
        self.cells = values.reshape(-1)
        self.by_column = np.empty((p, n), dtype=values.dtype)
        blocks = np.linspace(0, p, self.team + 1).astype(np.int64).tolist()
        parallel(self._turn, itertools.pairwise(blocks), n_jobs=n_jobs, work=float(n * p))
        bins = codes.bins
        self.offsets = np.concatenate([[0], np.cumsum(bins.n_bins.astype(np.int64) + 1)])
        words = [
            word_count(int(b)) if category else 0 for b, category in zip(bins.n_bins, bins.categorical, strict=True)
        ]
        self.word_starts = np.concatenate([[0], np.cumsum(words)]).astype(np.int64)
        self.every = np.arange(n, dtype=np.int32)
        self.order = np.empty(n, dtype=np.int32)
        self.buffers = np.empty((2, n), dtype=np.int32)
        self.active, self.bound = np.empty(p, dtype=np.uint8), np.empty(p, dtype=np.int64)
        self.numbers, self.counts = np.zeros(7), np.zeros(14, dtype=np.int64)
        self.leaf_of_row = np.empty(n, dtype=np.int32)
        self._asked: tuple[Any, ...] = (None, None, 0, None)
        self.carried = self.age = 0
        self.gate, self.crew = new_gate(), Crew(lambda: None, 1)
        widest = int(bins.n_bins.max(initial=0)) + 1
        self.own = np.empty((self.team, 2 * int(self.offsets[-1]) if self.team > 1 else 0), dtype=np.int64)
        self.short = np.zeros((self.team, int(self.offsets[-1])), dtype=np.int64)
        self.gains = np.empty((self.team, widest))
        self.sums = np.empty((self.team, 3, widest), dtype=np.int64)
        self.tables = np.empty((self.team, widest), dtype=np.uint8)
        self.spare_bits = np.zeros((2, max(1, int(self.word_starts[-1]))), dtype=np.uint32)

    def _turn(self, block: tuple[int, int]) -> None:
        columns = slice(*block)
        self.by_column[columns] = self.codes.values[:, columns].T

    def dismiss(self) -> None:
        """Send the helpers home."""
        self.gate[CALL] = OVER

    def arguments(self, gradient: Array, hessian: Array | None, leaves: int, scores: Scores) -> tuple[Any, ...]:
        """What the kernel works with: the same for every tree on these gradients, so that helpers may stay in it."""
        asked, known = (gradient, hessian, leaves, scores.raw), self._asked
        if asked[0] is known[0] and asked[1] is known[1] and asked[2] == known[2] and asked[3] is known[3]:
            return self._arguments
        self.dismiss()
        size, lanes = 2 * int(self.offsets[-1]), 1 if hessian is None else 2
        nodes, bins = 2 * leaves - 1, self.codes.bins
        # Beside the sums that are kept there are two places whose sums are not.
        pool = np.empty((2 + max(1, min(leaves, self.pool_bytes // (8 * size))), size), dtype=np.int64)
        self.real, self.whole = np.empty((nodes, 5)), np.empty((nodes, 12), dtype=np.int64)
        words = int(np.diff(self.word_starts).max(initial=1))
        self.bits = np.empty((nodes if self.word_starts[-1] else 1, words), dtype=np.uint32)
        self.carry, self.carried = np.zeros((nodes, 2), dtype=np.int64), 0
        self.values, self.parts = np.zeros(nodes), np.zeros((PIECES, 5))
        self.slots = pool.shape[0] - 2
        self.gate = new_gate()
        self._asked = asked
        self._arguments: tuple[Any, ...] = (
            self.gate, self.cells, self.by_column.reshape(-1), self.offsets, bins.n_bins, bins.categorical,
            self.word_starts, gradient, gradient if hessian is None else hessian,
            np.empty(lanes * self.rows, dtype=np.int64), self.active, self.bound, self.numbers, self.counts, self.order,
            self.buffers, pool, self.own, self.short, self.gains, self.sums, self.tables, self.spare_bits, self.real,
            self.whole, self.bits, np.empty((2, self.columns)), np.empty((2, self.columns, 4), dtype=np.int64),
            np.empty((self.team + 1, 16), dtype=np.int64), np.empty(nodes + 1, dtype=np.int64),
            np.empty(pool.shape[0], dtype=np.int64), self.parts, np.empty((PIECES, 2), dtype=np.int64),
            np.empty((max(1, min(PIECES, LEAF_SUMS // nodes, self.rows // LEAF_ROWS)), 2 * nodes)), self.leaf_of_row,
            self.carry, scores.y, scores.raw, self.values, self.tally,
        )  # fmt: skip
        arguments = self._arguments
        self.crew = Crew(lambda: grow(False, 0, *arguments), self.team)
        return arguments

    @property
    def loss_sum(self) -> float:
        """The summed loss of `Scores` before the last tree for score 0 was grown."""
        return float(self.parts[:, 4].sum())

    def move(self, value: Array) -> None:
        """After a tree grown with `keep`: the next one's gradients are this one's plus the values of its nodes.

        The sums of the next root then follow from the leaves': where a leaf adds v, a bin with sum G and n rows has
        G + n v. Only whole numbers of the unit are added, so that after a few trees all is counted anew.
        """
        self.carried, made = 0, value.size
        leaf, c = self.whole[:made, FEATURE] < 0, self.counts[BITS]
        scale, self.age = self.numbers[UNIT_G] * self.numbers[SCALE], self.age + 1
        if not self.counts[KEEP] or scale == 0.0 or self.age % RENEWED == 0:
            return
        with np.errstate(over="ignore"):
            steps = np.where(leaf, np.floor(value / scale + 0.5), 0.0)
        if not np.abs(steps) @ (self.whole[:made, END] - self.whole[:made, BEGIN]) < 2.0 ** (62 - c):
            return
        self.carry[:made, 0] = np.where(leaf, self.whole[:made, SLOT], 0)
        self.carry[:made, 1] = steps.astype(np.int64) << c
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
    sampled, lanes = work.rows if rows is None else rows.size, 1 if hessian is None else 2
    weighed = work.tally.size > 1
    most = _most_leaves(replace(limits, min_leaf=1) if weighed else limits, sampled)
    arguments = work.arguments(gradient, hessian, most, scores)
    work.values[: scores.value.size] = scores.value
    work.active[:] = True if columns is None else columns
    work.bound[:] = 0 if monotone is None else monotone
    if rows is None:
        work.order[:] = work.every
    else:
        work.order[:sampled] = rows
    for blank in (work.real, work.whole, work.bits):
        blank[:] = 0
    mode = 2 if limits.max_leaves == 0 else int(limits.growth == "depth")
    work.numbers[:4] = limits.min_hessian, limits.l2, limits.min_gain, limits.smoothing
    if not work.carried:
        work.numbers[4:] = 0.0, 1.0, 0.0
    counted = int(work.tally[work.order[:sampled]].sum()) if weighed else sampled
    bits, bounded = counted.bit_length(), work.bound.any()
    # With too many rows the unit would not be small beside a gradient.
    keep = keep and lanes == 1 and bits <= 22 and most <= work.slots
    keep = keep and work.kept * most * work.offsets[-1] <= work.cells.size
    brief = work.offsets[-1] <= SHORT_BINS * work.columns
    least = limits.min_leaf * COUNTED if weighed else limits.min_leaf
    work.counts[:9] = most, limits.max_depth, least, mode, lanes, bits, bounded, sampled, score
    # Short words have no room for counts other than 1.
    work.counts[9:12] = keep, work.carried, lanes == 2 and sampled >= work.short_rows and brief and not weighed
    work.counts[12:] = scores.loss, scores.value.size
    made = grow(True, work.crew.muster(), *arguments)
    work.carried = 0
    if rows is not None:
        _send_others(work)
    return _nodes(work, work.real[:made], work.whole[:made], work.bits), work.leaf_of_row


def _send_others(work: Workspace) -> None:
    """Find the leaves of the rows that were not in the sample."""
    bins = work.codes.bins

    def part(k: int) -> None:
        rows = slice(k * work.rows // work.team, (k + 1) * work.rows // work.team)
        send(work.codes.values[rows], bins.n_bins, bins.categorical, work.whole, work.bits, work.leaf_of_row[rows])

    if work.team == 1:
        part(0)
    else:
        parallel(part, range(work.team), n_jobs=work.team)


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
