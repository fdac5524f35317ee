"""The number of trees by cross-validation: fits to all folds grow together and stop together.

    loss(b) = mean over the folds of the held-out loss after round b;     stop at the first round t with
    min loss(t - patience + 1 .. t) > min loss(1 .. t - patience) - tol

The folds grow a few rounds at a time, side by side; what was grown beyond the stop is forgotten, so neither the size of
these steps nor the number of threads shows in a result. Cost: K fits of as many rounds as the stop needs.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.numerics.threads import parallel, workers
from assay.trees._losses import Loss
from assay.trees._predict import sum_values
from assay.trees._stages import BoostingPlan, BoostingRows, Rounds, Stages, stalled
from assay.trees.nodes import concatenate

__all__ = ["Held", "cross_validate", "scores_after"]

Array = np.ndarray
Split = tuple[Array, Array]
TOGETHER = 20
"""Rounds that a fold grows before the folds are compared."""


@dataclass(frozen=True, eq=False)
class Held:
    """Held-out mean losses (folds x rounds), the weight of each fold's held-out rows, and the folds' trees."""

    losses: Array
    weights: Array
    stages: Sequence[Stages]


def cross_validate(
    rows: BoostingRows, loss: Loss, plan: BoostingPlan, splits: Sequence[Split], patience: int | None, tol: float
) -> Held:
    """The loss on each fold's held-out rows after every round, until their mean has stalled (None: to the last)."""
    jobs = min(workers(plan.n_jobs), len(splits))
    # Folds side by side need no threads inside; a fit is the same with any number of them.
    inner = plan if jobs <= 1 else replace(plan, n_jobs=None)
    weights = np.array([rows.part(test).weight for _, test in splits])

    def start(split: Split) -> Rounds:
        train, test = split
        return Rounds(rows.part(train), copy.copy(loss), inner, watch=rows.part(test))

    fits = parallel(start, splits, n_jobs=plan.n_jobs)
    stop = 0
    for last in [*range(TOGETHER, plan.rounds, TOGETHER), plan.rounds]:

        def grow(fit: Rounds, last: int = last) -> None:
            fit.grow(last)

        parallel(grow, fits, n_jobs=plan.n_jobs)
        losses = np.array([fit.stages.watched for fit in fits])
        stop = _first_stall(losses, weights, patience, tol)
        if stop or not np.isfinite(losses).all():
            break
    return Held(losses[:, : stop or None], weights, [fit.stages for fit in fits])


def _first_stall(losses: Array, weights: Array, patience: int | None, tol: float) -> int:
    """The round at which the mean loss has stalled, 0 where it has not."""
    if patience is None:
        return 0
    mean = np.average(losses, axis=0, weights=weights).tolist()
    return next((t for t in range(patience + 1, len(mean) + 1) if stalled(mean[:t], patience, tol)), 0)


def scores_after(stages: Stages, rounds: int, X: Array) -> Array:
    """The scores of some rows after so many rounds, one column per output."""
    K = stages.initial.size
    out = np.empty((X.shape[0], K))
    out[:] = stages.initial
    return sum_values(concatenate(stages.trees[: rounds * K]), X, out, groups=K)
