"""The training loop: epochs of mini-batches, a held-out part, best weights, and a checkpoint after every epoch.

    J(theta) = sum_i w_i loss(f(x_i; theta), y_i) / sum_i w_i + penalty(theta)

An epoch visits every row once, in random order without replacement: ceil(n / B) updates of B rows, the last perhaps of
fewer (48,000 rows in batches of 128 make 375). `replace` draws each batch anew with replacement; a batch of all
rows is taken as it stands, and a batch of one row is the stochastic gradient.

A batch that is worth it is cut into two shards, whatever the number of threads; each runs on one BLAS thread and
their gradients are added in order, so the numbers depend on the seed alone. Early stopping keeps the weights with the
least held-out loss and gives those back.

Bottou (2012), Stochastic gradient descent tricks; Prechelt (1998), Early stopping - but when?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import ceil, isfinite
from typing import Any

import numpy as np

from assay.callbacks import SILENT, Task
from assay.errors import DivergenceError
from assay.neural._kernels import squared_norm
from assay.neural.checkpoints import Checkpoint
from assay.neural.images import Augmentation
from assay.neural.layers import Workspace
from assay.neural.losses import Loss
from assay.neural.network import Network, NetworkPlan, Pass
from assay.neural.optimizers import Blocks, Optimizer, Schedule
from assay.neural.penalties import Penalty
from assay.neural.results import StepSizes, TrainingTrace
from assay.numbers import fmt
from assay.numerics.threads import one_blas_thread, parallel, workers
from assay.progress import track

__all__ = ["Recipe", "Trainer", "TrainingRows", "forward_rows", "train"]

Array = np.ndarray
WORTH = 8_000_000
"""Multiply-adds of a batch from which on it is cut into two shards; about a fifth of a millisecond each."""
BLOCK = 1 << 20
"""Numbers in the widest place of the rows that are predicted at a time."""


@dataclass(frozen=True)
class TrainingRows:
    """Inputs, targets (two-dimensional) and weights with mean one (empty: all ones), in the network's type."""

    X: Array
    y: Array
    w: Array

    @property
    def n(self) -> int:
        """How many."""
        return len(self.X)


@dataclass(frozen=True)
class Recipe:
    """How to train; the fields are those of the estimators, resolved."""

    loss: Loss
    optimizer: Optimizer
    schedule: Schedule
    learning_rate: float
    batch_size: int
    max_epochs: int
    replace: bool = False
    penalties: tuple[Penalty, ...] = ()
    clip: float | None = None
    patience: int = 10
    tol: float = 1e-4
    augmentation: Augmentation | None = None
    n_jobs: int | None = field(default=None, compare=False, repr=False)


def forward_rows(plan: NetworkPlan, theta: Array, statistics: Array, X: Array, n_jobs: int | None = None) -> Array:
    """Outputs for all rows, in blocks of a fixed size on one BLAS thread each."""
    count = int(min(1024, max(1, BLOCK // plan.widest)))
    out = np.empty((len(X), *plan.output_shape), dtype=theta.dtype)
    firsts = range(0, len(X), count)
    groups = min(workers(n_jobs), max(1, len(firsts)))

    def some(group: int) -> None:
        run = Pass(plan, theta, statistics)
        for first in firsts[group::groups]:
            out[first : first + count] = run.forward(X[first : first + count])

    parallel(some, range(groups), n_jobs=n_jobs, work=float(plan.work) * len(X))
    return out


def quiet() -> Any:
    """Overflow is answered by one sentence, when the loss is looked at."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


class Trainer:
    """One training run: its parameters, the memory of its optimizer, and all that a checkpoint needs."""

    def __init__(
        self,
        network: Network,
        rows: TrainingRows,
        recipe: Recipe,
        seeds: np.random.SeedSequence,
        held: TrainingRows | None = None,
    ) -> None:
        self.network, self.rows, self.recipe, self.held = network, rows, recipe, held
        self.plan = NetworkPlan(list(network.layers), tuple(network.input_shape), fused=True)
        self.theta, self.statistics = network.parameters_, network.statistics_
        self.batch = min(recipe.batch_size, rows.n)
        heavy = not self.plan.whole_batches and self.batch > 1 and self.plan.work * self.batch >= WORTH
        self.shards = 2 if heavy else 1
        self.rngs = [np.random.default_rng(one) for one in seeds.spawn(1 + self.shards)]
        self.gradients = np.zeros((self.shards, self.theta.size), dtype=self.theta.dtype)
        self.memory = np.zeros((recipe.optimizer.slots, self.theta.size), dtype=self.theta.dtype)
        self.blocks = _blocks(self.plan, recipe.penalties, float(rows.w.sum()) if rows.w.size else float(rows.n))
        self.passes = [
            Pass(
                self.plan, self.theta, self.statistics, gradient=self.gradients[s], rng=self.rngs[1 + s], training=True
            )
            for s in range(self.shards)
        ]
        self._scratch = [Workspace() for _ in range(self.shards)]
        self._ones = rows.w if rows.w.size == 0 else None
        self.count, self.waited, self.best, self.best_epoch, self.finished = 0, 0, np.inf, 0, ""
        self.stopped = False
        self.losses: list[float] = []
        self.held_losses: list[float] = []
        self.rates: list[float] = []
        self.kept: tuple[Array, Array] = (self.theta.copy(), self.statistics.copy())

    # One update.

    def _shard(self, s: int, rows: Array, size: int) -> float:
        """Loss of a shard of a batch of `size` rows; its gradient is left in its row."""
        work, data = self._scratch[s], self.rows
        count = len(rows)
        if count == 0:
            self.gradients[s] = 0
            return 0.0
        x = work.array("x", (count, *data.X.shape[1:]), data.X.dtype)
        y = work.array("y", (count, data.y.shape[1]), data.y.dtype)
        np.take(data.X, rows, axis=0, out=x, mode="clip")
        np.take(data.y, rows, axis=0, out=y, mode="clip")
        w = self._ones if self._ones is not None else data.w[rows]
        if self.recipe.augmentation is not None:
            x = self.recipe.augmentation.apply(x, self.rngs[1 + s], work)
        return self.passes[s].value(x, y, w, 1.0 / size, self.recipe.loss)

    def gradient(self, rows: Array) -> float:
        """Loss of a batch; the gradients of its shards are ready afterwards."""
        size = len(rows)
        if self.shards == 1:
            return self._shard(0, rows, size)
        half = (size + 1) // 2
        parts = (rows[:half], rows[half:])

        def one(s: int) -> float:
            with quiet():  # a thread has settings of its own
                return self._shard(s, parts[s], size)

        return sum(parallel(one, range(2), n_jobs=self.recipe.n_jobs))

    def update(self, rate: float) -> None:
        """One step of the optimizer."""
        self.count += 1
        scale = 1.0
        if self.recipe.clip is not None:
            norm = np.sqrt(squared_norm(self.theta, self.gradients, self.blocks.starts, self.blocks.ridge))
            scale = min(1.0, self.recipe.clip / norm) if norm > 0 else 1.0
        self.recipe.optimizer.step(self.theta, self.gradients, self.memory, self.blocks, rate, scale, self.count)

    # Epochs.

    def order(self) -> Array:
        """The rows of one epoch, in the order in which they are visited."""
        n = self.rows.n
        if self.recipe.replace:
            return self.rngs[0].integers(0, n, n)
        return np.arange(n) if self.batch >= n else self.rngs[0].permutation(n)

    @property
    def updates(self) -> int:
        """Updates per epoch."""
        return ceil(self.rows.n / self.batch)

    def epoch(self, rate: float) -> float:
        """One visit of all rows; the objective, with the losses as they were when each batch was visited."""
        before = self.penalty()
        order, total = self.order(), 0.0
        for first in range(0, self.rows.n, self.batch):
            rows = order[first : first + self.batch]
            value = self.gradient(rows)
            if not isfinite(value):
                raise self._divergence(rows, rate)
            total += value * len(rows)
            self.update(rate)
        if not np.isfinite(self.theta).all():
            raise self._divergence(order[: self.batch], rate)
        return total / self.rows.n + (before if self.updates == 1 else self.penalty())

    def penalty(self) -> float:
        """The penalty of the parameters as they are."""
        total = 0.0
        starts, ridge, lasso = self.blocks.starts, self.blocks.ridge, self.blocks.lasso
        for k in np.flatnonzero((ridge != 0) | (lasso != 0)):
            block = self.theta[starts[k] : starts[k + 1]]
            total += 0.5 * ridge[k] * float(block @ block) + lasso[k] * float(np.abs(block).sum(dtype=np.float64))
        return total

    def held_loss(self) -> float:
        """Loss of the held-out rows."""
        held = self.held
        assert held is not None
        z = forward_rows(self.plan, self.theta, self.statistics, held.X, self.recipe.n_jobs)
        total = float(held.w.sum()) if held.w.size else float(held.n)
        return self.recipe.loss.value(z, held.y, held.w, 1.0 / total, np.empty_like(z))

    def advance(self) -> None:
        """One more epoch, and whether to go on."""
        recipe, t = self.recipe, len(self.losses)
        watched = self.held_losses if self.held is not None else self.losses
        rate = recipe.learning_rate * recipe.schedule.factor(t, recipe.max_epochs, watched)
        before = self.theta.copy() if recipe.optimizer.monotone else self.theta
        self.losses.append(self.epoch(rate))
        self.rates.append(rate)
        if recipe.optimizer.monotone and t and self.losses[t] >= self.losses[t - 1]:
            # The step before this one failed: its objective has only been seen now.
            np.copyto(self.theta, self.kept[0])
            self.finished, self.best_epoch = "the objective failed to decrease", t
            return
        if recipe.optimizer.monotone:
            np.copyto(self.kept[0], before)
        self._watch(t)

    def _watch(self, t: int) -> None:
        """Keep the best weights, and count epochs without an improvement."""
        value = self.losses[-1]
        if self.held is None:
            self.best_epoch = t + 1
        else:
            value = self.held_loss()
            if not isfinite(value):
                raise self._divergence(np.arange(min(self.rows.n, self.batch)), self.rates[-1])
            self.held_losses.append(value)
            if value < min(self.held_losses[:-1], default=np.inf):
                np.copyto(self.kept[0], self.theta)
                np.copyto(self.kept[1], self.statistics)
                self.best_epoch = t + 1
        if value < self.best - self.recipe.tol:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        if self.waited >= self.recipe.patience and not self.recipe.optimizer.monotone:
            word = "loss" if self.held is None else "held-out loss"
            self.finished = f"the {word} has not improved by {self.recipe.tol:g} for {self.recipe.patience} epochs"

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """BLAS on one thread in each of our own."""
        with one_blas_thread(), quiet():
            yield

    def run(self, save: Callable[[Trainer], None] | None = None, task: Task = SILENT) -> TrainingTrace:
        """Epochs until something ends them; `save` and the callbacks of the task are called after each."""
        with self.at_work():
            left = range(len(self.losses), self.recipe.max_epochs)
            for _ in track(left, self._words):
                if self.finished:
                    break
                with task.step("epoch", lambda: self) as step:
                    self.advance()
                    if save is not None:
                        save(self)
                if step.stop:
                    self.stopped = True
                    break
        theta, statistics = self.weights()
        np.copyto(self.theta, theta)
        np.copyto(self.statistics, statistics)
        return self.trace()

    def weights(self) -> tuple[Array, Array]:
        """Parameters and statistics of the model: the best on the held-out rows, else those of the last epoch."""
        return self.kept if self.held is not None and self.held_losses else (self.theta, self.statistics)

    def _words(self) -> str:
        return f"epochs, loss {fmt(self.losses[-1], 4)}" if self.losses else "epochs"

    def trace(self) -> TrainingTrace:
        """What happened so far."""
        held = np.array(self.held_losses) if self.held is not None else None
        limit = "stopped by a callback" if self.stopped else f"max_epochs={self.recipe.max_epochs} reached"
        message = self.finished or limit
        rates = np.array(self.rates)
        return TrainingTrace(
            np.array(self.losses), held, rates, self.updates, self.best_epoch, bool(self.finished), message
        )

    @property
    def score(self) -> float:
        """What several starts are compared by: the least held-out loss, or the loss of the weights that are kept."""
        return min(self.held_losses) if self.held_losses else self.losses[self.best_epoch - 1]

    def _divergence(self, rows: Array, rate: float) -> DivergenceError:
        """Which layer overflows first."""
        run = Pass(self.plan, self.theta, self.statistics)
        where = "the last layer"
        for step, out in zip(self.plan.steps, run.outputs(self.rows.X[rows]), strict=True):
            if not all(np.isfinite(one).all() for one in (out, *step.views(self.theta))):
                where = f"layer {step.at + 1} ({type(step.layer).__name__.lstrip('_')})"
                break
        when = f"in epoch {len(self.losses) + 1} (update {self.count})"
        what = f"the loss is not a finite number {when}: {where} overflows first"
        clip = ", or clip=1.0" if self.recipe.clip is None else ""
        return DivergenceError(what, remedy=f"use a smaller step, learning_rate={min(rate / 10, 0.01):.2g}{clip}")

    # Checkpoints.

    def facts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Everything that another process needs to go on."""
        facts = {
            "count": self.count,
            "waited": self.waited,
            "best": self.best,
            "best_epoch": self.best_epoch,
            "finished": self.finished,
            "losses": self.losses,
            "held_losses": self.held_losses,
            "rates": self.rates,
            "generators": [rng.bit_generator.state for rng in self.rngs],
        }
        arrays = {"theta": self.theta, "statistics": self.statistics, "memory": self.memory}
        return facts, {**arrays, "kept_theta": self.kept[0], "kept_statistics": self.kept[1]}

    def go_on_from(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take up what `facts` gave."""
        for name in ("count", "waited", "best", "best_epoch", "finished", "losses", "held_losses", "rates"):
            setattr(self, name, facts[name])
        for rng, state in zip(self.rngs, facts["generators"], strict=True):
            rng.bit_generator.state = state
        pairs = {"theta": self.theta, "statistics": self.statistics, "memory": self.memory}
        for name, to in {**pairs, "kept_theta": self.kept[0], "kept_statistics": self.kept[1]}.items():
            np.copyto(to, arrays[name])

    # Step sizes.

    def step_sizes(self, low: float, high: float, steps: int) -> StepSizes:
        """Updates with growing steps until the loss runs away; the parameters are spoiled by it."""
        rates = np.geomspace(low, high, steps)
        losses: list[float] = []
        order = self.order()
        with self.at_work():
            for k, rate in enumerate(rates):
                at = np.arange(k * self.batch, (k + 1) * self.batch) % self.rows.n
                value = self.gradient(order[at])
                if not isfinite(value) or (k > steps // 10 and value > 4 * min(losses)):
                    break
                losses.append(value)
                self.update(rate)
        seen = np.array(losses)
        smooth = np.convolve(np.pad(seen, 2, mode="edge"), np.ones(5) / 5, mode="valid") if seen.size else seen
        best = rates[int(np.argmin(smooth))] if seen.size else low
        return StepSizes(rates[: seen.size], smooth, float(best / 10))


def _blocks(plan: NetworkPlan, penalties: tuple[Penalty, ...], total: float) -> Blocks:
    """The parameter vector cut where penalties change; the ridge as the factor of theta in the gradient."""
    starts: list[int] = [0]
    ridge: list[float] = []
    lasso: list[float] = []
    own_of = [own for step in plan.steps for own in step.layer.penalties(step.input_shape)]
    for (_, one, start), own in zip(plan.arrays(), own_of, strict=True):
        squares = sizes = 0.0
        for penalty in (*penalties, *([] if own is None else [own])):
            r, s = penalty.strengths(one.kind, total)
            squares, sizes = squares + 2 * r, sizes + s
        end = start + int(np.prod(one.shape))
        if ridge and (ridge[-1], lasso[-1]) == (squares, sizes):
            starts[-1] = end
        else:
            starts.append(end)
            ridge.append(squares)
            lasso.append(sizes)
    return Blocks(
        np.array(starts, dtype=np.int64), np.array(ridge, dtype=np.float64), np.array(lasso, dtype=np.float64)
    )


def train(
    make: Callable[[int], Network],
    rows: TrainingRows,
    recipe: Recipe,
    seeds: np.random.SeedSequence,
    *,
    held: TrainingRows | None = None,
    starts: int = 1,
    checkpoint: Checkpoint | None = None,
    task: Task = SILENT,
) -> tuple[Network, TrainingTrace, list[float], Trainer]:
    """The best of several starts: `make(k)` gives the network of the k-th; a checkpoint is taken up where it is.

    | parameter  | default | meaning                                            |
    |------------|---------|----------------------------------------------------|
    | make       |         | initialised network of each start                  |
    | rows       |         | training rows                                      |
    | recipe     |         | how to train                                       |
    | seeds      |         | where random numbers come from                     |
    | held       | None    | rows for early stopping                            |
    | starts     | 1       | how many                                           |
    | checkpoint | None    | a file that is renewed after every epoch           |
    | task       | silent  | its steps are the starts, or the epochs of one     |
    """
    spawned = seeds.spawn(starts)
    found = checkpoint.load() if checkpoint is not None else None
    scores: list[float] = list(found[0]["scores"]) if found else []
    best: tuple[Network, TrainingTrace, Trainer] | None = None
    champion: dict[str, Any] = {}
    if found and scores:
        champion = {"facts": found[0]["champion"], "arrays": _part(found[1], "champion ")}
        kept = Trainer(make(int(np.argmin(scores))), rows, recipe, spawned[int(np.argmin(scores))], held)
        kept.go_on_from(champion["facts"], champion["arrays"])
        best = (kept.network, kept.trace(), kept)

    def leading() -> Trainer:
        assert best is not None
        return best[2]

    for k in range(len(scores), starts):
        trainer = Trainer(make(k), rows, recipe, spawned[k], held)
        if found and found[0]["start"] == k:
            trainer.go_on_from(found[0]["current"], _part(found[1], "current "))

        save = None if checkpoint is None else partial(_save, checkpoint, k, scores, champion)
        many = task.step("start", leading, steps=recipe.max_epochs) if starts > 1 else nullcontext(task)
        with many as step:
            trace = trainer.run(save, step)
            scores.append(trainer.score)
            if best is None or scores[-1] < min(scores[:-1]):
                best = (trainer.network, trace, trainer)
                facts, arrays = trainer.facts()
                champion = {"facts": facts, "arrays": {name: one.copy() for name, one in arrays.items()}}
        if step.stop:
            break
    assert best is not None
    if checkpoint is not None:
        checkpoint.remove()
    return best[0], best[1], scores, best[2]


def _save(checkpoint: Checkpoint, start: int, scores: list[float], champion: dict[str, Any], now: Trainer) -> None:
    """The state of the start that runs, and that of the best one so far."""
    facts, arrays = now.facts()
    named = {f"current {name}": one for name, one in arrays.items()}
    named |= {f"champion {name}": one for name, one in champion.get("arrays", {}).items()}
    checkpoint.save({"start": start, "scores": scores, "current": facts, "champion": champion.get("facts")}, named)


def _part(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): one for name, one in arrays.items() if name.startswith(prefix)}
