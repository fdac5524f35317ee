"""Leave-one-out error for every k from one search.

The neighbours of a training row among the others are the same list for every k, only read further, so one search for
the largest k answers for all. The standard error of the mean loss treats the n losses as independent, which is nearly
so: two of them share all but two training rows, but each answer rests on a few neighbours only.

With votes that do not depend on k (uniform, by distance) the votes are added up along the list and all k cost what the
largest costs; kernels are scaled by the next neighbour, so each k counts its votes anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from assay.numerics.jit import kernel
from assay.resampling.folds import one_standard_error
from assay.results import Curve

__all__ = ["BLOCK", "LeaveOneOutCurve", "blocks", "running_classes", "running_means", "summarise"]

Array = np.ndarray

BLOCK = 4096
"""Rows searched at a time, so that memory does not grow with their number."""


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOutCurve(Curve):
    """Leave-one-out error against the number of neighbours.

    `k`, `error` and `std_error` are arrays; `best` has the least error (of several the largest k, the smoothest fit),
    `one_se` is the largest k within one standard error of it, `chosen` the one that `rule_name` asks for.
    """

    best: int = 0
    one_se: int = 0
    chosen: int = 0
    rule_name: str = "min"
    n: float = 0.0

    @property
    def k(self) -> Array:
        """The numbers of neighbours tried."""
        return self.x

    @property
    def error(self) -> Array:
        """The mean loss at each of them."""
        return self.estimate

    def __str__(self) -> str:
        at = {int(k): i for i, k in enumerate(self.x)}
        errors = np.zeros(self.x.size) if self.std_error is None else self.std_error
        lines = [f"Leave-one-out {self.y_name} of {self.n:g} rows, {self.x.size} numbers of neighbours"]
        for name, k in (("least", self.best), ("one-SE", self.one_se)):
            i = at[k]
            lines.append(f"{name:<7} {self.estimate[i]:.5g} (standard error {errors[i]:.3g}) at k = {k}")
        lines.append(f'chosen  k = {self.chosen} (rule "{self.rule_name}")')
        lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join(lines)


@kernel(exact=True)
def running_classes(
    rows: Array, voting: Array, codes: Array, own: Array, tried: Array, classes: int, loss: Array
) -> None:
    """Fill loss[i, a] with 1 where the first tried[a] neighbours of row own[i] vote for another class than its own."""
    held = np.empty(classes)
    for i in range(rows.shape[0]):
        held[:] = 0.0
        best, a = 0, 0
        for t in range(tried[-1]):
            c = codes[rows[i, t]]
            held[c] += voting[i, t]
            # Votes only grow, so the leader changes only to the class that has just voted.
            if held[c] > held[best] or (held[c] == held[best] and c < best):
                best = c
            if t + 1 == tried[a]:
                loss[i, a] = 1.0 if best != codes[own[i]] else 0.0
                a += 1


@kernel(exact=True)
def running_means(rows: Array, voting: Array, y: Array, own: Array, tried: Array, loss: Array) -> None:
    """Fill loss[i, a] with the squared error of the mean of the first tried[a] neighbours of row own[i]."""
    outputs = y.shape[1]
    held = np.empty(outputs)
    for i in range(rows.shape[0]):
        held[:] = 0.0
        total = 0.0
        a = 0
        for t in range(tried[-1]):
            total += voting[i, t]
            for c in range(outputs):
                held[c] += voting[i, t] * y[rows[i, t], c]
            if t + 1 == tried[a]:
                square = 0.0
                for c in range(outputs):
                    square += (held[c] / total - y[own[i], c]) ** 2
                loss[i, a] = square / outputs
                a += 1


def summarise(losses: Iterator[tuple[Array, Array]], tried: Array, rule: str, y_name: str) -> LeaveOneOutCurve:
    """The curve from blocks of losses (rows x k) and the rows' weights, merged one after the other."""
    n, mean, spread = 0.0, np.zeros(tried.size), np.zeros(tried.size)
    for loss, weight in losses:
        here = float(weight.sum())
        average = weight @ loss / here
        step = average - mean
        spread += weight @ (loss - average) ** 2 + step**2 * (n * here / (n + here))
        mean += step * (here / (n + here))
        n += here
    error = np.sqrt(spread / max(n - 1.0, 1.0) / n)
    best, simple = (int(tried[::-1][i]) for i in one_standard_error(mean[::-1], error[::-1]))
    chosen = best if rule == "min" else simple
    line = float(mean[tried == best][0] + error[tried == best][0])
    return LeaveOneOutCurve(
        tried, mean, "number of neighbours", y_name, std_error=error, marks={"min": best, "1se": simple}, rule=line,
        title=f"Leave-one-out {y_name}", best=best, one_se=simple, chosen=chosen, rule_name=rule, n=n,
    )  # fmt: skip


def blocks(n: int, block: Callable[[Array], Array], weight: Array | None) -> Iterator[tuple[Array, Array]]:
    """The losses of rows 0 .. n - 1 and their weights, `BLOCK` rows at a time."""
    for at in range(0, n, BLOCK):
        rows = np.arange(at, min(at + BLOCK, n))
        yield block(rows), np.ones(rows.size) if weight is None else weight[rows]
