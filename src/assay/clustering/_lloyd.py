"""Lloyd's iteration from one start, and its mini-batch form.

    assign    label_i = argmin_j |x_i - c_j|^2                      (of equally near centres the first)
    update    c_j = sum_{i in j} w_i x_i / sum_{i in j} w_i

Both lower the inertia sum_i w_i |x_i - c_{label_i}|^2, so it never rises. It ends where no label changes, where the
centres together move by less than the tolerance, or after `max_iter`. A cluster that has lost all its rows moves to the
row that is farthest from its centre (and to those equal to it), which leave their old cluster: the inertia falls by
more than that row's share. Bounds then start anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.clustering._kernels import small_lloyd
from assay.clustering._rows import Bounds, DenseRows, Pass, SparseRows, make_rows

__all__ = ["SMALL", "Run", "batch_step", "lloyd", "mini_batches"]

Array = np.ndarray
KMeansRows = DenseRows | SparseRows
SMALL = 100_000
"""Up to so many differences an iteration takes less time than a call of Python's."""
LONGEST = 1000
"""Iterations that a small table is given room for; what takes longer starts again in the general loop."""


@dataclass(eq=False)
class Run:
    """Where one start has led."""

    centres: Array
    labels: Array
    weight: Array
    inertia: Array
    objective: Array
    n_iter: int
    converged: bool

    @property
    def total(self) -> float:
        """The inertia of all clusters."""
        return float(self.inertia.sum())


def lloyd(rows: KMeansRows, C: Array, max_iter: int, tol: float, bounds: str) -> Run:
    """Assign and update from the centres C on; `tol` is compared with the sum of squared steps of the centres."""
    if isinstance(rows, DenseRows) and rows.X.size * len(C) <= SMALL:
        run = _small(rows, C, max_iter, tol)
        if run is not None:
            return run
    known, before = rows.start(), np.empty(0, dtype=np.int32)
    objective: list[float] = []
    n_iter, ended, settled = 0, False, False
    C = np.array(C, dtype=np.float64, order="C")
    while n_iter < max_iter and not ended:
        n_iter += 1
        found = rows.one_pass(C, known, bounds)
        objective.append(float(found.inertia.sum()))
        refilled = _refill(rows, C, known, found)
        settled = not refilled and np.array_equal(known.labels, before)
        before = known.labels.copy()
        step = found.moved / np.where(found.weight > 0, found.weight, 1.0)[:, None]
        C = C + step
        ended = settled or (not refilled and float((step**2).sum()) <= tol)
    if not settled:  # the labels are those of the last centres but one
        found = rows.one_pass(C, known, bounds)
        objective.append(float(found.inertia.sum()))
    return Run(C, known.labels, found.weight, found.inertia, np.array(objective), n_iter, ended)


def _small(rows: DenseRows, C: Array, max_iter: int, tol: float) -> Run | None:
    """The same in one kernel; None where a cluster becomes empty."""
    (n, _), k = rows.shape, len(C)
    C = np.array(C, dtype=np.float64, order="C")
    labels, own, objective = np.zeros(n, dtype=np.int32), np.empty(n), np.empty(min(max_iter, LONGEST) + 1)
    weight, inertia = np.empty(k), np.empty(k)
    steps, ended = small_lloyd(rows.X, rows.w, C, labels, own, weight, inertia, objective, tol)
    if ended == -1 or (ended == 0 and steps < max_iter):
        return None
    objective = objective[: steps + (ended != 2)].copy()
    return Run(C, labels, weight, inertia, objective, steps, ended > 0)


def _refill(rows: KMeansRows, C: Array, known: Bounds, found: Pass) -> bool:
    """Move clusters without rows to the rows that are farthest from their centres; whether there were any."""
    far = known.own.copy() if (found.weight == 0).any() else known.own
    refilled = False
    for j in np.flatnonzero(found.weight == 0):
        while far.max() > 0:
            row = int(far.argmax())
            donor = known.labels[row]
            equal = rows.equal_to(row) & (known.labels == donor)
            far[equal] = 0.0
            rest = np.flatnonzero((known.labels == donor) & ~equal)
            if rest.size == 0:  # the donor's next centre is this very row
                continue
            known.labels[equal], known.own[equal] = j, 0.0
            C[j] = rows.take(row)
            found.weight[j], found.moved[j], found.inertia[j] = rows.w[equal].sum(), 0.0, 0.0
            # Added up anew: to subtract what is far away would leave its rounding errors.
            found.weight[donor] = rows.w[rest].sum()
            found.moved[donor] = rows.w[rest] @ rows.X[rest] - found.weight[donor] * C[donor]
            found.inertia[donor] = rows.w[rest] @ known.own[rest]
            known.forget()
            refilled = True
            break
    return refilled


def batch_step(rows: KMeansRows, C: Array, counts: Array) -> tuple[Array, Array, float]:
    """Centres and their weights after a batch, and its mean squared distance to the centres it came to.

        c_j <- c_j + sum_{i in j} w_i (x_i - c_j) / (n_j + sum_{i in j} w_i)

    A centre that no row has ever come to moves to the row of the batch that is farthest from its own.
    """
    known = rows.start()
    found = rows.one_pass(C, known)
    mean = float(found.inertia.sum() / rows.w.sum())
    C, found.weight[counts > 0] = C.copy(), np.where(found.weight == 0, -1.0, found.weight)[counts > 0]
    _refill(rows, C, known, found)
    weight = np.maximum(found.weight, 0.0)
    total = counts + weight
    return C + found.moved / np.where(total > 0, total, 1.0)[:, None], total, mean


def mini_batches(
    rows: KMeansRows, C: Array, batch_size: int, max_iter: int, patience: int | None, rng: np.random.Generator
) -> Run:
    """Steps on batches of rows drawn by their weights, until their smoothed inertia has stopped to fall."""
    n, k = rows.shape[0], len(C)
    size = min(batch_size, n)
    running, counts = np.cumsum(rows.w), np.zeros(k)
    share, smooth, least, idle = min(1.0, 2.0 * size / (n + 1)), None, np.inf, 0
    objective: list[float] = []
    steps = max_iter * -(-n // size)
    ended = False
    for _ in range(steps):
        drawn = np.minimum(np.searchsorted(running, rng.random(size) * running[-1], side="right"), n - 1)
        C, counts, mean = batch_step(make_rows(rows.X[drawn], None, rows.n_jobs), C, counts)
        smooth = mean if smooth is None else smooth + share * (mean - smooth)
        objective.append(smooth * float(running[-1]))
        idle = 0 if smooth < least else idle + 1
        least = min(least, smooth)
        ended = patience is not None and idle >= patience
        if ended:
            break
    known = rows.start()
    found = rows.one_pass(C, known)
    objective.append(float(found.inertia.sum()))
    return Run(C, known.labels, found.weight, found.inertia, np.array(objective), len(objective) - 1, ended)
