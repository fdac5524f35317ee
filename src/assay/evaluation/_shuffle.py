"""What shuffling a column does to a fitted model's metric: the mean over repeats, and its standard error.

See `importance.py` for the mathematics; sums and errors over rows are those of `assay.importance`. `RowJudge` is for
metrics that are means over rows, `FigureJudge` for others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.errors import DataError
from assay.evaluation._workbench import Workbench, copies_for, workbench
from assay.evaluation.learner import Rows, predictions, score
from assay.importance import summed
from assay.metrics.definition import Metric
from assay.metrics.scorer import class_options

__all__ = ["FigureJudge", "Found", "Judge", "RowJudge", "Shuffle", "Shuffler", "permutations"]

Array = np.ndarray
PARTS = 10
"""How many parts the jackknife leaves out in turn."""


@dataclass(frozen=True, eq=False)
class Found:
    """The importance of one column on one set of rows."""

    importance: float
    std_error: float
    df: float
    draws: Array
    method: str


def permutations(n: int, repeats: int, seeds: np.random.SeedSequence) -> Array:
    """One permutation of the rows per repeat, the same for all columns."""
    rng = np.random.default_rng(seeds)
    kind = np.int32 if n < 2**31 else np.int64
    return np.array([rng.permutation(n) for _ in range(repeats)], dtype=kind)


class Shuffler:
    """A fitted model on some rows: its figure as it is, and its predictions with columns shuffled."""

    def __init__(self, model: Any, rows: Rows, metric: Metric, orders: Array) -> None:
        self.model, self.rows, self.metric, self.orders = model, rows, metric, orders
        self.copies = copies_for(rows.X, len(orders))
        self.sign = -1.0 if metric.greater_is_better else 1.0
        self.predicted = predictions(model, rows.X, metric, rows.classes)
        self.baseline = score(metric, rows.y, self.predicted, rows, rows.weights)

    def shuffled(self, at: tuple[int, ...], bench: Workbench) -> Iterator[tuple[int, Array]]:
        """(first repeat, predictions) of one batch of repeats after another; the columns are put back at the end."""
        try:
            for start in range(0, len(self.orders), self.copies):
                batch = self.orders[start : start + self.copies]
                for j in at:
                    bench.permute(j, batch.ravel())
                yield start, predictions(self.model, bench.table(len(batch)), self.metric, self.rows.classes)
        finally:
            for j in at:
                bench.restore(j)


class Judge(Shuffler, ABC):
    """The importance of columns, each with its standard error."""

    bench: Workbench | None = None

    def open(self) -> None:
        """Make the working copy now, to be shared by all calls in this process."""
        self.bench = workbench(self.rows.X, self.copies)

    def share(self, parts: Sequence[tuple[int, ...]]) -> list[Found]:
        """Some columns, one after another."""
        bench = self.bench if self.bench is not None else workbench(self.rows.X, self.copies)
        return [self.column(at, bench) for at in parts]

    @abstractmethod
    def column(self, at: tuple[int, ...], bench: Workbench) -> Found:
        """One column, or one group of columns."""


@dataclass(frozen=True, eq=False)
class Shuffle:
    """One permutation of one column: the rise of the loss, by receiver and by giver (`assay.importance.Replicate`).

    All in `unit`s, so that squares of losses stay in range; `weighted` is the sum of the parts times the rows' weights.
    """

    rise: Array
    received: Array
    given: Array
    squares: Array
    unit: float
    weighted: float


class RowJudge(Judge):
    """Metrics that are means over rows: the influence of each row, as a receiver and as a giver."""

    def __init__(self, model: Any, rows: Rows, metric: Metric, orders: Array) -> None:
        super().__init__(model, rows, metric, orders)
        self.options = class_options(metric, rows.classes)
        self.losses = np.asarray(metric.per_row(rows.y, self.predicted, **self.options), dtype=float)
        self.y = np.tile(rows.y, self.copies)
        weights = rows.weights
        self.weights = np.ones(rows.n) if weights is None else weights / weights.mean()
        self.mass = self.weights.copy()  # the mean weight with which each row receives and gives
        for order in orders:
            self.mass[order] += self.weights / len(orders)

    def shuffles(self, at: tuple[int, ...], bench: Workbench) -> Iterator[Shuffle]:
        """What each repeat does to the loss."""
        n, w, unit = self.rows.n, self.weights, 0.0
        for start, predicted in self.shuffled(at, bench):
            batch = np.asarray(self.metric.per_row(self.y[: len(predicted)], predicted, **self.options), dtype=float)
            for b, rise in enumerate(batch.reshape(-1, n) - self.losses, start):
                unit = unit or float(np.abs(rise).max())
                part = w * (rise / (n * self.sign * (unit or 1.0)))  # scores turn round
                given = np.empty(n)
                given[self.orders[b]] = part
                sums = part.sum(keepdims=True), part[None], given[None], np.array([part @ part])
                yield Shuffle(*sums, unit, float(part @ w))

    def column(self, at: tuple[int, ...], bench: Workbench) -> Found:
        n, repeats, w = self.rows.n, len(self.orders), self.weights
        seen: list[tuple[float, float]] = []

        def noted() -> Iterator[Shuffle]:
            for one in self.shuffles(at, bench):
                seen.append((one.unit, one.weighted))
                yield one

        sums = summed(noted(), 1, n)
        mean, draws, unit = float(sums.mean[0]), sums.draws[0], seen[-1][0]
        # Squares about the mean: what single pairs add to the influence of a row beyond its own.
        cross = sum(weighted for _, weighted in seen)
        about = float(sums.squares[0]) - 2 * mean * cross / n + repeats * mean**2 * float(w @ w) / n**2
        variance = replace(sums, squares=np.array([about])).row_variance(1.0, mean * self.mass / n)
        error = float(np.sqrt(_positive(float(variance[0]), draws)))
        method = "t, over rows and repeats (U-statistic influence)"
        return Found(unit * mean, unit * error, n - 1.0, unit * draws, method)


class FigureJudge(Judge):
    """Any other metric: the same two influences by the jackknife, leaving out one part of the rows after another."""

    def __init__(self, model: Any, rows: Rows, metric: Metric, orders: Array) -> None:
        super().__init__(model, rows, metric, orders)
        self.parts = min(PARTS, rows.n // 2)
        # Parts are drawn by the first permutation, so that sorted rows do not leave class by class.
        self.part = orders[0].argsort() % max(1, self.parts)
        self.plain = [self._leave_out(self.predicted, part) for part in (self.part, *self.part[orders])]

    def _figure(self, predicted: Array, keep: Any = slice(None)) -> float:
        weights = None if self.rows.weights is None else self.rows.weights[keep]
        return score(self.metric, self.rows.y[keep], predicted[keep], self.rows, weights)

    def _leave_out(self, predicted: Array, part: Array) -> Array | None:
        """The figure without each part in turn; None where it does not exist without one of them."""
        try:
            return np.array([self._figure(predicted, part != g) for g in range(self.parts)])
        except DataError:  # a class is gone with the part
            return None

    def _influences(self, predicted: Array, b: int) -> tuple[Array, Array] | None:
        """The importance in repeat b without the pairs that receive in, and without those that give from, each part."""
        found = []
        for part, plain in ((self.part, self.plain[0]), (self.part[self.orders[b]], self.plain[b + 1])):
            without = None if plain is None else self._leave_out(predicted, part)
            if plain is None or without is None:
                return None
            found.append(self.sign * (without - plain))
        return found[0], found[1]

    def column(self, at: tuple[int, ...], bench: Workbench) -> Found:
        n, repeats = self.rows.n, len(self.orders)
        draws = np.empty(repeats)
        left: list[tuple[Array, Array]] = []
        for start, predicted in self.shuffled(at, bench):
            for b, one in enumerate(predicted.reshape(-1, n, *predicted.shape[1:]), start):
                draws[b] = self.sign * (self._figure(one) - self.baseline)
                found = self._influences(one, b) if self.parts > 1 and len(left) == b else None
                left += [] if found is None else [found]
        mean = float(draws.mean())
        if len(left) == repeats:
            receives, gives = np.array(left).transpose(1, 0, 2)
            both = float((receives.mean(axis=0) + gives.mean(axis=0)).var())
            other = float(receives.var(axis=1).mean()) / repeats
            error = float(np.sqrt(_positive((self.parts - 1) * (both - other), draws)))
            method = f"t, over rows and repeats (jackknife, {self.parts} parts)"
            return Found(mean, error, self.parts - 1.0, draws, method)
        if repeats == 1:
            message = (
                f"one repeat gives no estimate of the spread, and {self.metric.name} is not defined on part of the rows"
            )
            raise DataError(message, remedy="raise n_repeats, or pass more rows of each class")
        method = "t, over repeats only: variation between rows is not included"
        return Found(mean, float(np.sqrt(_positive(0.0, draws))), repeats - 1.0, draws, method)


def _positive(variance: float, draws: Array) -> float:
    """A difference of variances can fall to zero or below in few rows; the luck of the shuffle is then what is left."""
    if variance > 0 or draws.size < 2:
        return max(variance, 0.0)
    return float(draws.var(ddof=1)) / draws.size
