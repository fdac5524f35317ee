"""The loop of boosting: gradients, a tree, a step.

    f_0 = the best constant;      f_b = f_(b-1) + learning_rate * tree_b,   tree_b grown on the gradients at f_(b-1)

The loss after each tree costs nothing extra: the pass over the rows that works out the next gradients sums it. Rows
are worked on in blocks of a fixed size and sums are added in their order, so threads never change a result.
Rounds can be grown a few at a time, so that fits to several folds go on together and stop together (`_stopping`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.callbacks import SILENT, Task
from assay.numerics.jit import kernel
from assay.numerics.threads import halted, one_blas_thread, parallel
from assay.progress import track
from assay.trees._binning import bin_table
from assay.trees._boost import COUNTED, NO_SCORES, BoostLimits, Scores, Workspace, grow_boosted
from assay.trees._losses import NOTHING, Loss
from assay.trees._predict import sum_values
from assay.trees.nodes import Nodes

__all__ = ["BoostingPlan", "BoostingRows", "Rounds", "Stages", "boost", "share_of", "stalled", "start_loss"]

Array = np.ndarray
BLOCK = 32_768
ROWS, COLUMNS = 1, 2
"""Streams of random numbers; each tree has its own within a stream."""


@dataclass(frozen=True, eq=False)
class BoostingRows:
    """A validated table with targets and weights (empty: all the same)."""

    X: Array
    y: Array
    w: Array = field(default_factory=lambda: NOTHING)

    def part(self, rows: Array) -> BoostingRows:
        """Some of the rows."""
        return BoostingRows(self.X[rows], self.y[rows], self.w if self.w.size == 0 else self.w[rows])

    @property
    def weight(self) -> float:
        """Their total weight."""
        return float(self.y.size if self.w.size == 0 else self.w.sum())


@dataclass(frozen=True, eq=False)
class BoostingPlan:
    """What the parameters of an estimator mean for a table.

    | field         | meaning                                                                    |
    |---------------|----------------------------------------------------------------------------|
    | rounds        | B, how many rounds in all                                                  |
    | learning_rate | the factor of every tree                                                   |
    | zero          | start from 0 instead of the best constant                                  |
    | limits        | when a tree stops growing                                                  |
    | levels        | categories per column, 0: a number                                         |
    | monotone      | -1, 0, 1 per column                                                        |
    | max_bins      | bins of a column                                                           |
    | subsample     | share of the rows drawn for each round                                     |
    | columns       | how many columns are drawn for each round                                  |
    | entropy       | where random numbers come from                                             |
    | patience      | rounds without progress on the watched rows before stopping, 0: never stop |
    | tol           | what counts as progress                                                    |
    | n_jobs        | threads                                                                    |
    | row           | the weight that `limits.min_leaf` counts as one row, 0: each row is one    |
    """

    rounds: int
    learning_rate: float
    zero: bool
    limits: BoostLimits
    levels: Any
    monotone: Array
    max_bins: int
    subsample: float
    columns: int
    entropy: Any
    patience: int
    tol: float
    n_jobs: int | None
    row: float = 0.0

    def draw(self, stream: int, tree: int, n: int, m: int) -> Array | None:
        """m of n positions in ascending order for a round, None for all of them."""
        if m >= n:
            return None
        source = np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(stream, tree)))
        chosen = np.empty(m, dtype=np.int32)
        _choose(source.random(n), chosen)
        return chosen


@dataclass(eq=False)
class Stages:
    """What boosting has grown so far: K trees per round, the losses after each round."""

    initial: Array
    trees: list[Nodes]
    train: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.trees) // self.initial.size

    def kept(self, patience: int) -> int:
        """How many rounds make the model: with patience those up to the least watched loss, else all."""
        return int(np.argmin(self.watched)) + 1 if patience else self.rounds

    def cut(self, rounds: int) -> None:
        """Forget what came after a round."""
        del self.trees[rounds * self.initial.size :], self.train[rounds:], self.watched[rounds:]


class _Scores:
    """The scores of some rows, their gradients, and their mean loss."""

    def __init__(self, rows: BoostingRows, loss: Loss, stages: Stages, n_jobs: int | None) -> None:
        n, K = rows.y.size, loss.outputs
        self.rows, self.loss, self.n_jobs = rows, loss, n_jobs
        self._step: tuple[Array, Array, Array] | None = None
        self.raw = np.repeat(stages.initial[:, None], n, axis=1)
        for t, tree in enumerate(stages.trees):
            self.add(tree, t % K)
        self.gradient = np.empty((K, n))
        self.hessian = np.empty((K, 0 if loss.flat else n))
        self.fused = loss.fused > 0 and rows.w.size == 0
        # Of arrays that may not be written the kernel would be compiled once more.
        self.targets, self.weights = (np.require(given, requirements="W") for given in (rows.y, rows.w))
        self.base = loss.constant(rows.y, rows.w)
        self.weight = rows.weight

    def refresh(self) -> float:
        """Work out gradients and curvatures at the scores; returns the mean loss there."""
        y, w, n = self.rows.y, self.rows.w, self.rows.y.size
        step, self._step = self._step, None

        def block(at: int) -> float:
            stop = min(n, at + BLOCK)
            if step is not None:
                _advance(*step, at, stop)
            return self.loss.fill(y, w, self.raw, self.gradient, self.hessian, at, stop)

        return self.mean(sum(self._by_blocks(block)))

    def mean(self, total: float) -> float:
        """The mean loss, from its sum over the rows."""
        return self.loss.scale * (total + self.base) / self.weight

    def hand_over(self) -> Scores:
        """The scores whose gradients are worked out with the next tree, and the step that waits for it."""
        step, self._step = self._step, None
        return Scores(self.loss.fused, self.targets, self.raw, NOTHING if step is None else step[1])

    def add(self, tree: Nodes, k: int) -> None:
        """Add a tree to score k of rows it has not seen."""
        sum_values(tree, self.rows.X, self.raw[k][:, None], n_jobs=self.n_jobs)

    def advance(self, k: int, value: Array, leaf: Array) -> None:
        """Add the values of the rows' leaves to score k; the last step waits for the next tree or `refresh`."""
        self._step = step = (self.raw[k], value, leaf)
        # The next tree writes over the leaves, and a loss that looks at residuals needs the scores as they are.
        if not self.fused and (k < self.raw.shape[0] - 1 or self.loss.renews):
            self._step = None
            self._by_blocks(lambda at: _advance(*step, at, min(leaf.size, at + BLOCK)))

    def _by_blocks(self, function: Callable[[int], Any]) -> list[Any]:
        """Call a function with the first row of every block."""
        n = self.rows.y.size
        if n <= BLOCK:
            return [function(0)]
        return parallel(function, range(0, n, BLOCK), n_jobs=self.n_jobs, work=float(n))


class Rounds:
    """A fit that grows trees on demand, from the start or after what `stages` holds, scoring `watch` on the way."""

    def __init__(
        self,
        rows: BoostingRows,
        loss: Loss,
        plan: BoostingPlan,
        *,
        watch: BoostingRows | None = None,
        stages: Stages | None = None,
    ) -> None:
        with one_blas_thread():
            initial = loss.initial(rows.y, rows.w)
            if stages is None:
                stages = Stages(np.zeros_like(initial) if plan.zero else initial, [])
            codes = bin_table(
                rows.X, plan.levels, None if rows.w.size == 0 else rows.w, max_bins=plan.max_bins, n_jobs=plan.n_jobs
            )
            row_counts = None
            if plan.row > 0.0 and rows.w.size > 0:
                row_counts = np.maximum(1, np.rint(rows.w * (COUNTED / plan.row))).astype(np.int64)
            self.plan, self.stages = plan, stages
            self._work = Workspace(codes, plan.levels, plan.n_jobs, row_counts)
            self._here = _Scores(rows, loss, stages, plan.n_jobs)
            self._there = None if watch is None else _Scores(watch, loss, stages, plan.n_jobs)

    def grow(self, rounds: int, task: Task = SILENT) -> None:
        """Grow trees until there are so many rounds, or the plan's patience ends, or a callback of the task says so."""
        # Steps that are far too long end in infinities; who asked for them is told, by the losses.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            _loop(self._here, self._there, self._work, self.plan, self.stages, rounds, task)

    def finish(self) -> Stages:
        """What has grown, with the training loss of the last round, and with patience up to the best round."""
        stages = self.stages
        with np.errstate(over="ignore", invalid="ignore"):
            if len(stages.train) < stages.rounds:
                stages.train.append(self._here.refresh())
        stages.cut(stages.kept(self.plan.patience))
        return stages


def boost(
    rows: BoostingRows,
    loss: Loss,
    plan: BoostingPlan,
    *,
    watch: BoostingRows | None = None,
    stages: Stages | None = None,
    task: Task = SILENT,
) -> Stages:
    """Grow trees up to `plan.rounds`, from the start or after what `stages` holds, scoring `watch` on the way.

    Callbacks of the task are called around each round.
    """
    fit = Rounds(rows, loss, plan, watch=watch, stages=stages)
    fit.grow(plan.rounds, task)
    return fit.finish()


def start_loss(rows: BoostingRows, loss: Loss, stages: Stages) -> float:
    """The mean loss before the first tree."""
    scores = _Scores(rows, loss, Stages(stages.initial, []), None)
    loss.begin(rows.y, rows.w, scores.raw)
    return scores.refresh()


def _loop(
    here: _Scores,
    there: _Scores | None,
    work: Workspace,
    plan: BoostingPlan,
    stages: Stages,
    rounds: int,
    task: Task,
) -> None:
    """The rounds themselves. The loss of a round is known when the gradients of the next one are."""
    loss, n, p = here.loss, here.rows.y.size, here.rows.X.shape[1]
    w = here.rows.w
    drawn = max(1, round(plan.subsample * n))
    known = stages.rounds > 0
    # Squared error's gradients move with the scores, so the sums of one tree's leaves tell the next one's root.
    steady = loss.steady and w.size == 0 and drawn >= n and plan.columns >= p
    hessian = here.hessian if not loss.flat else (None if w.size == 0 else here.weights[None])
    for t in track(range(stages.rounds, rounds), "trees"):
        if halted():
            break  # nobody waits for this fit any more
        with task.step("round", lambda: stages) as step:
            loss.begin(here.rows.y, w, here.raw)
            score = 0.0 if here.fused else here.refresh()
            rows, columns = plan.draw(ROWS, t, n, drawn), _mask(plan.draw(COLUMNS, t, p, plan.columns), p)
            for k in range(loss.outputs):
                tree, leaf = grow_boosted(
                    work,
                    here.gradient,
                    hessian,
                    plan.limits,
                    score=k,
                    rows=rows,
                    columns=columns,
                    monotone=plan.monotone,
                    keep=steady,
                    scores=here.hand_over() if here.fused else NO_SCORES,
                )
                value = tree.value[:, 0]
                if loss.renews:
                    _renew(here, k, tree, value, leaf, rows, plan)
                else:
                    value[:] = loss.step(value)
                value *= plan.learning_rate
                here.advance(k, value, leaf)
                if steady:
                    work.move(value)
                stages.trees.append(tree)
                if there is not None:
                    there.add(tree, k)
            if known and len(stages.train) < t:
                stages.train.append(here.mean(work.loss_sum) if here.fused else score)
            known = True
            if there is not None:
                stages.watched.append(there.refresh())
                if plan.patience and stalled(stages.watched, plan.patience, plan.tol):
                    break
        if step.stop:
            break


def _mask(chosen: Array | None, size: int) -> Array | None:
    if chosen is None:
        return None
    mask = np.zeros(size, dtype=bool)
    mask[chosen] = True
    return mask


def stalled(losses: Sequence[float], patience: int, tol: float) -> bool:
    """Whether none of the last rounds was better than the best before them by more than tol."""
    if len(losses) <= patience:
        return False
    return min(losses[-patience:]) > min(losses[:-patience]) - tol


def _renew(
    here: _Scores, k: int, tree: Nodes, value: Array, leaf: Array, rows: Array | None, plan: BoostingPlan
) -> None:
    """Give each leaf the best constant for the residuals of the rows it was grown on."""
    y, w = here.rows.y, here.rows.w
    n = y.size if rows is None else rows.size
    starts = np.zeros(tree.size + 1, dtype=np.int64)
    residuals, weights = np.empty(n), np.empty(n)
    _gather(y, w, here.raw[k], leaf, np.empty(0, dtype=np.int32) if rows is None else rows, starts, residuals, weights)
    step = tree.size if n < BLOCK else 1
    parallel(
        lambda first: here.loss.centre(starts, residuals, weights, first, min(tree.size, first + step), value),
        range(0, tree.size, step),
        n_jobs=plan.n_jobs,
        work=20.0 * n,
    )
    if plan.monotone.any():
        _order(tree, value, np.diff(starts), plan.monotone)


def _order(tree: Nodes, value: Array, mass: Array, monotone: Array) -> None:
    """Keep renewed leaves in the order that constraints ask for: each side of a split stays on its side of the middle.

    The value of an inner node is the mean of its leaves; the bounds it passes on are those it got, cut at the mean of
    its two children where it splits on a constrained column.
    """
    mass = mass.astype(float)
    total = value * mass
    for node in range(tree.size - 1, -1, -1):
        if tree.count[node]:
            below = slice(int(tree.first[node]), int(tree.first[node] + 2))
            mass[node], total[node] = mass[below].sum(), total[below].sum()
            value[node] = total[node] / mass[node]
    low, high = np.full(tree.size, -np.inf), np.full(tree.size, np.inf)
    for node in range(tree.size):
        value[node] = min(max(value[node], low[node]), high[node])
        if not tree.count[node]:
            continue
        left = int(tree.first[node])
        low[left : left + 2], high[left : left + 2] = low[node], high[node]
        sign = monotone[tree.feature[node]]
        if sign:
            middle = min(max((value[left] + value[left + 1]) / 2, low[node]), high[node])
            lower, upper = (left, left + 1) if sign > 0 else (left + 1, left)
            high[lower] = low[upper] = middle


def share_of(n: int, share: float, classes: Array | None, source: np.random.Generator) -> Array:
    """A mask of floor(share * n) rows drawn at random, evenly over the classes where there are any."""
    order = source.permutation(n)
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
    steps = np.floor(np.arange(n + 1) * share + 1e-9)
    chosen = np.zeros(n, dtype=bool)
    chosen[order[steps[1:] > steps[:-1]]] = True
    return chosen


@kernel
def _choose(uniform: Array, chosen: Array) -> None:
    """Knuth's selection sampling: every set of m = chosen.size of n = uniform.size positions is equally likely."""
    n = uniform.size
    m = chosen.size
    taken = 0
    for i in range(n):
        if (n - i) * uniform[i] < m - taken:
            chosen[taken] = i
            taken += 1
            if taken == m:
                return


@kernel
def _advance(raw: Array, value: Array, leaf: Array, start: int, stop: int) -> None:
    # Unsigned, an index needs no look whether it counts from the end.
    for i in range(np.uint64(start), np.uint64(stop)):
        raw[i] += value[np.uint32(leaf[i])]


@kernel
def _gather(
    y: Array,
    w: Array,
    raw: Array,
    leaf: Array,
    rows: Array,
    starts: Array,
    residuals: Array,
    weights: Array,
) -> None:
    """Residuals and weights sorted by leaf; node t has those from starts[t] to starts[t + 1]."""
    n = residuals.size
    every = rows.size == 0
    for j in range(n):
        i = j if every else rows[j]
        starts[leaf[i] + 1] += 1
    for t in range(1, starts.size):
        starts[t] += starts[t - 1]
    at = starts[:-1].copy()
    for j in range(n):
        i = j if every else rows[j]
        place = at[leaf[i]]
        at[leaf[i]] = place + 1
        residuals[place] = y[i] - raw[i]
        weights[place] = 1.0 if w.size == 0 else w[i]
