"""Which columns a forest needs: loss saved by splits, and loss added when a column is shuffled among unseen rows.

Impurity importance of column j in a tree is the weighted loss its splits save, as a share of what all splits save; the
forest's is the mean over trees. It is made on training rows and favours columns with many values: noise gets a share.

Permutation importance (%IncMSE) asks the rows that a tree did not see (out of bag, `rows_t` of them). With d_itj the
change of row i's loss when its value of column j comes from another unseen row,

    D_tj = mean of d_itj over rows_t,    I_j = mean of D_tj over trees,    scaled I_j = I_j / (sd(D_tj) / sqrt(trees)).

The scaled form grows without limit with the number of trees: sd / sqrt(trees) says how well the mean over trees is
known for these rows, not how well for others (with 400 trees on 200 rows of pure noise, mean -+ 1.98 sd / sqrt(trees)
misses zero four times in ten). The interval therefore counts rows too. With a_k (b_k) the part of I_j in which row k
receives (gives) a value, and c_itj = d_itj / (rows_t trees), so that a_k is the sum of c_ktj over trees,

    psi_k = a_k + b_k - mean,      se^2 = 2 (sum_k psi_k^2 - 2 sum_it c_itj^2) + var(D_tj) / trees.

The second sum is what finitely many trees add to the first. The factor 2 stands for the trees, which are made of the
same rows: row i is judged by trees grown on row k, row k by trees grown on row i, and where there is no effect both
say the same. Rows enter in up to 200 groups of equal size.

A column that a tree does not use changes nothing there, exactly. A row changes its leaf only if its path meets the
column and the new value turns it off the path; the walk starts there. Cost: O(unseen rows x depth^2 / 2) per tree at
most, whatever the number of columns. Breiman (2001), Machine Learning 45, 5-32; Strobl & Zeileis (2008), COMPSTAT,
59-66.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from assay.checks import fraction, freeze, whole
from assay.importance import Importance, summed
from assay.numbers import fmt
from assay.numerics.jit import kernel
from assay.numerics.threads import parallel
from assay.trees._oob import Sampler, child_of
from assay.trees._predict import LOW_31, _routes
from assay.trees._sparse import SparseTable, dense_blocks
from assay.trees.nodes import Nodes

__all__ = ["ForestImportance", "Judged", "impurity_shares", "permuted"]

Array = np.ndarray
GROUPS = 200
CHUNK = 64
"""How many trees' tables are held at once."""
HELD = 1 << 24
"""Numbers in those tables: fewer trees at once where there are very many columns."""


@dataclass(frozen=True, eq=False, repr=False)
class ForestImportance(Importance):
    """The importance of each column as the trees of a forest see it: the fields of `Importance`, and

    | field             | meaning                                                                              |
    |-------------------|--------------------------------------------------------------------------------------|
    | kind              | "permutation" (rows out of bag) or "impurity" (loss saved by splits, baseline NaN)   |
    | tree_error        | sd over trees / sqrt(trees)                                                          |
    | draws             | one row per column: its importance in each tree                                      |
    | by_class, classes | one row per column, one entry per class: the same among rows of that class           |
    """

    COLUMNS: ClassVar[tuple[str, ...]] = (*Importance.COLUMNS, "scaled")

    kind: str
    tree_error: Array
    by_class: Array | None = None
    classes: tuple[Any, ...] = ()

    @property
    def sd(self) -> Array:
        """The standard deviation over trees."""
        return self.draws.std(axis=1, ddof=1) if self.draws.shape[1] > 1 else np.zeros(self.draws.shape[0])

    @property
    def scaled(self) -> Array:
        """The mean divided by `tree_error` (0 where both are): randomForest's scaled %IncMSE."""
        out = np.zeros(self.importance.size)
        np.divide(self.importance, self.tree_error, out=out, where=self.tree_error > 0)
        return out

    def to_frame(self) -> pd.DataFrame:
        """One row per column, the most important first: importance, std_error, lower, upper, scaled, each class."""
        frame = super().to_frame()
        if self.by_class is None:
            return frame
        rises = self.by_class[self.order]
        return frame.assign(**{f"class {label}": rises[:, k] for k, label in enumerate(self.classes)})

    def _title(self) -> str:
        return f"{self.kind.capitalize()} importance of {len(self.names)} columns for {self.model}"

    def _about(self) -> list[str]:
        if self.kind != "permutation":
            return []
        before = f"{self.metric} of one tree {fmt(self.baseline, 5)} unshuffled"
        return [f"{before}, n = {self.n} rows out of bag, {self.draws.shape[1]} trees"]


def impurity_shares(nodes: Nodes, columns: int) -> Array:
    """One row per tree: the share of the loss saved that each column's splits saved (zeros in a tree of one leaf)."""
    inner = np.flatnonzero(nodes.feature >= 0)
    tree = np.searchsorted(nodes.starts, inner, side="right") - 1
    gain = np.maximum(nodes.gain[inner], 0.0)
    # Divided by the largest first, so that sums of huge losses stay in range.
    top = np.zeros(nodes.trees)
    np.maximum.at(top, tree, gain)
    scaled = np.divide(gain, top[tree], out=np.zeros(gain.size), where=top[tree] > 0)
    saved = np.bincount(tree * columns + nodes.feature[inner], scaled, nodes.trees * columns)
    saved = saved.reshape(nodes.trees, columns)
    total = saved.sum(axis=1, keepdims=True)
    return np.divide(saved, total, out=np.zeros_like(saved), where=total > 0)


def impurity_importance(shares: Array, names: Sequence[str], *, n: int, model: str, level: float) -> ForestImportance:
    """The shares of all trees as a result."""
    level = fraction(level, "level")
    trees = shares.shape[0]
    mean = shares.mean(axis=0)
    error = shares.std(axis=0, ddof=1) / np.sqrt(trees) if trees > 1 else np.zeros(mean.size)
    return ForestImportance.made(
        mean,
        error,
        max(1.0, trees - 1.0),
        np.ascontiguousarray(shares.T),
        names=tuple(names),
        kind="impurity",
        level=level,
        tree_error=freeze(error.copy()),
        baseline=float("nan"),
        metric="share of the loss saved",
        n=n,
        n_repeats=0,
        method="t over trees",
        estimand="share of the reduction in training loss due to the column, in infinitely many trees of these rows",
        model=model,
    )


@dataclass(frozen=True, eq=False)
class Judged:
    """What permutation needs of a fitted forest: its nodes, each leaf's answer, the seeds, and the rows of fit."""

    nodes: Nodes
    answer: Array
    seeds: Array
    rows: Sampler
    X: Array
    target: Array
    w: Array | None
    classes: int
    unit: float


def permuted(
    judged: Judged,
    names: Sequence[str],
    *,
    labels: Sequence[Any],
    model: str,
    n_repeats: int,
    level: float,
    n_jobs: int | None,
) -> ForestImportance:
    """Permutation importance of every column on the rows out of bag."""
    level, n_repeats = fraction(level, "level"), whole(n_repeats, "n_repeats")
    n, p = judged.X.shape
    groups = min(n, GROUPS)
    group = np.random.default_rng(0).permutation(n) % groups
    weights = np.ones(n) if judged.w is None else judged.w / judged.w.max()
    task = _Task(judged, weights, group, groups, n_repeats)
    kinds = max(1, judged.classes)
    baselines, classwise, met = [], np.zeros((p, kinds)), np.zeros(kinds)
    chunk = max(4, min(CHUNK, HELD // (2 * p * groups)))

    def trees() -> Iterator[_Tree]:
        for start in range(0, judged.seeds.size, chunk):
            some = range(start, min(start + chunk, judged.seeds.size))
            for found in parallel(task, some, n_jobs=n_jobs, work=100.0 * n * len(some)):
                if found is None:  # the tree has seen every row
                    continue
                baselines.append(found.baseline)
                np.add(classwise, found.by_class, out=classwise)
                np.add(met, found.met, out=met)
                yield found

    sums = summed(trees(), p, groups)
    # Twice: trees are made of the same rows. Twice the squares: what finitely many trees add to both sums of a row.
    error = np.sqrt(2.0 * np.maximum(0.0, sums.row_variance(2.0)) + sums.draw_error**2)
    metric, square = ("error rate", 1.0) if judged.classes else ("mean squared error", judged.unit**2)
    np.divide(classwise, met, out=classwise, where=met > 0)
    return ForestImportance.made(
        sums.mean * square,
        error * square,
        max(1.0, groups - 1.0),
        sums.draws * square,
        names=tuple(names),
        kind="permutation",
        level=level,
        tree_error=freeze(sums.draw_error * square),
        baseline=float(np.mean(baselines)) * square if baselines else float("nan"),
        metric=metric,
        n=n if judged.w is None else int(np.count_nonzero(judged.w)),
        n_repeats=n_repeats,
        method="t over rows and trees",
        estimand=f"rise of a tree's {metric} on new rows when the column comes from another row",
        model=model,
        by_class=freeze(classwise) if judged.classes else None,
        classes=tuple(labels),
    )


@dataclass(frozen=True, eq=False)
class _Tree:
    """One tree, an `assay.importance.Replicate`, with its loss unshuffled and its rise by class."""

    rise: Array
    received: Array
    given: Array
    squares: Array
    baseline: float
    by_class: Array
    met: Array


@dataclass(frozen=True, eq=False)
class _Task:
    """Shuffles every column among one tree's unseen rows."""

    judged: Judged
    weights: Array
    group: Array
    groups: int
    repeats: int

    def __call__(self, tree: int) -> _Tree | None:
        made, seed = self.judged, int(self.judged.seeds[tree])
        rows = made.rows.left_out(seed)
        rows = rows[self.weights[rows] > 0]
        if rows.size < 2:
            return None
        p, classes = made.X.shape[1], max(1, made.classes)
        rise = np.zeros((p, classes))
        squares, received, given = np.zeros(p), np.zeros((p, self.groups)), np.zeros((p, self.groups))
        nodes = made.nodes.tree(tree)
        steps, numbers, _ = _routes(nodes)
        answer = made.answer[made.nodes.starts[tree] : made.nodes.starts[tree + 1]]
        rng, base = np.random.default_rng((seed, 1)), 0.0
        path = np.empty(nodes.size, dtype=np.int64)
        for _ in range(self.repeats):
            donors = rows[rng.permutation(rows.size)]
            base = 0.0
            for some in _pairs(made.X, rows, donors, made.target, self.weights, self.group):
                base = _shuffle(
                    *some,
                    base,
                    steps,
                    numbers,
                    nodes.words,
                    answer,
                    made.classes,
                    made.unit,
                    path,
                    rise,
                    squares,
                    received,
                    given,
                )
        total = float(self.weights[rows].sum()) * self.repeats
        kind = made.target[rows].astype(np.int64) if made.classes else np.zeros(rows.size, dtype=np.int64)
        met = np.bincount(kind, self.weights[rows], classes) * self.repeats
        parts = (rise.sum(axis=1) / total, received / total, given / total, squares / total**2)
        return _Tree(*parts, base * self.repeats / total, rise, met)


def _pairs(X: Any, rows: Array, donors: Array, *others: Array) -> Iterator[tuple[Array, ...]]:
    """A dense table, row numbers in it of receivers and donors, and what else is known of its rows.

    All at once where X is dense; of a sparse table so many pairs at a time as are spread out together.
    """
    if not isinstance(X, SparseTable):
        yield X, rows, donors, *others
        return
    both = np.column_stack([rows, donors]).reshape(-1)
    for at, block in dense_blocks(X[both], 0, both.size):
        here = np.arange(len(block)).reshape(-1, 2)
        receivers, givers = (np.ascontiguousarray(side) for side in here.T)
        yield block, receivers, givers, *(other[both[at : at + len(block)]] for other in others)


@kernel
def _shuffle(
    X: Array,
    rows: Array,
    donors: Array,
    target: Array,
    w: Array,
    group: Array,
    base: float,
    steps: Array,
    numbers: Array,
    words: Array,
    answer: Array,
    classes: int,
    unit: float,
    path: Array,
    rise: Array,
    squares: Array,
    received: Array,
    given: Array,
) -> float:
    """Add each row's weighted rise of the loss, column by column; return `base` and the loss without shuffling."""
    done = np.full(X.shape[1], -1, dtype=np.int64)
    columns = np.empty(path.size, dtype=np.int64)
    for r in range(rows.size):
        i, giver = rows[r], donors[r]
        node, depth = 0, 0
        while (steps[2 * node + 1] & LOW_31) != node:  # a leaf is its own child
            path[depth] = node
            columns[depth] = (steps[2 * node + 1] >> 32) & LOW_31
            node = child_of(node, X[i, columns[depth]], steps, numbers, words)
            depth += 1
        path[depth] = node
        y = target[i]
        if classes:
            before = 0.0 if answer[node] == y else 1.0
        else:
            gap = (answer[node] - y) / unit
            before = gap * gap
        base += w[i] * before
        kind = np.int64(y) if classes else 0
        for s in range(depth):
            j = columns[s]
            if done[j] == r:
                continue
            done[j] = r
            value = X[giver, j]
            if value == X[i, j]:
                continue
            # The new value changes nothing until it turns off the row's own path.
            node = path[depth]
            for later in range(s, depth):
                if columns[later] == j:
                    turn = child_of(path[later], value, steps, numbers, words)
                    if turn != path[later + 1]:
                        node = turn
                        break
            if node == path[depth]:
                continue
            while (steps[2 * node + 1] & LOW_31) != node:
                f = (steps[2 * node + 1] >> 32) & LOW_31
                node = child_of(node, value if f == j else X[i, f], steps, numbers, words)
            if classes:
                after = 0.0 if answer[node] == y else 1.0
            else:
                gap = (answer[node] - y) / unit
                after = gap * gap
            change = w[i] * (after - before)
            rise[j, kind] += change
            squares[j] += change * change
            received[j, group[i]] += change
            given[j, group[giver]] += change
    return base
