"""Logistic regression by descent: the whole gradient at a time, or one row at a time.

Both minimise J = (1/W) sum_i w_i loss_i + (1/2W) sum_j r_j t_j^2 over standardised columns
(`assay.linear._logistic_rows`).

    gradient    t <- t - h dJ/dt                     holds for h < 2/L, L <= (1/4) lambda_max(Z'WZ/W) (1/2 for K > 2)
    sgd         B <- B - h w_i (p_i - y_i) z_i'      rows shuffled every epoch, h falling as 1/sqrt(epoch)

The answer of sgd is the mean of its iterates since the last epoch that is a power of two. Both stop when no
gradient exceeds tol, and `trace_` keeps J. They are here to be watched and compared; Newton is the faster way to the
answer. Robbins and Monro (1951), Ann. Math. Statist. 22, 400-407; Polyak and Juditsky (1992), SIAM J. Control Optim.
30, 838-855.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigvalsh

from assay.errors import DivergenceError
from assay.linear._logistic_classes import symmetric_basis
from assay.linear._logistic_kernels import standard_block
from assay.linear._logistic_newton import NewtonFit
from assay.linear._logistic_rows import LogisticRows
from assay.numerics.jit import kernel

__all__ = ["MAX_ITER", "TOL", "gradient_descent", "stochastic_descent"]

Array = np.ndarray

MAX_ITER = {"newton": 100, "gradient": 10_000, "sgd": 1_000, "lasso": 1_000, "firth": 500}
TOL = {"newton": 1e-8, "gradient": 1e-6, "sgd": 1e-3}
RUNAWAY = 100.0
"""An objective this many times its start has diverged."""


@kernel
def sgd_epoch(
    Z: Array, codes: Array, w: Array, offset: Array, ridge: Array, order: Array, step: float, B: Array
) -> None:
    """One pass over the rows in the given order; B has one row for two classes and K for more."""
    K = B.shape[0]
    m = Z.shape[1]
    eta = np.empty(K)
    for at in range(order.size):
        i = order[at]
        for k in range(K):
            s = offset[i, k]
            for j in range(m):
                s += B[k, j] * Z[i, j]
            eta[k] = s
        if K == 1:
            eta[0] = 1.0 / (1.0 + np.exp(-eta[0])) - codes[i]
        else:
            top = eta.max()
            total = 0.0
            for k in range(K):
                eta[k] = np.exp(eta[k] - top)
                total += eta[k]
            for k in range(K):
                eta[k] /= total
            eta[codes[i]] -= 1.0
        for k in range(K):
            r = step * w[i] * eta[k]
            for j in range(m):
                B[k, j] -= r * Z[i, j] + step * w[i] * ridge[j] * B[k, j]


def curvature(rows: LogisticRows) -> float:
    """An upper bound of the largest eigenvalue of the Hessian of J anywhere."""
    G = rows.gram() * (0.25 if rows.K == 2 else 0.5)
    G[np.diag_indices_from(G)] += rows.ridge
    return float(eigvalsh(G, subset_by_index=[rows.m - 1, rows.m - 1])[0]) / rows.weight


def gradient_descent(rows: LogisticRows, tol: float, max_iter: int, learning_rate: float | None) -> NewtonFit:
    """Batch gradient descent from zero; the default step is 1/L."""
    bound = curvature(rows)
    step = 1.0 / bound if learning_rate is None else learning_rate
    point = rows.evaluate(np.zeros(rows.size), False)
    start, losses, status = point.loss, [point.loss], "stopped"
    for _ in range(max_iter):
        point = rows.evaluate(point.theta - step / rows.weight * point.gradient, False)
        losses.append(point.loss)
        if not point.loss <= RUNAWAY * max(start, 1.0):
            raise _diverged("gradient", step, 2.0 / bound)
        if np.abs(point.gradient).max(initial=0.0) <= tol * rows.weight:
            status = "converged"
            break
    if status == "stopped" and step > 2.0 / bound and point.loss > start:
        raise _diverged("gradient", step, 2.0 / bound)
    return NewtonFit(point, [loss / rows.weight for loss in losses], status)


def stochastic_descent(
    rows: LogisticRows, tol: float, max_iter: int, learning_rate: float | None, random: np.random.Generator
) -> NewtonFit:
    """One row at a time from zero; the first step is 1 over the largest curvature of a single row unless given."""
    Z = np.empty((rows.n, rows.m))
    standard_block(rows.X.toarray() if rows.is_sparse else rows.X, rows.mean, rows.inverse, rows.first, Z)
    share = rows.w * (rows.n / rows.weight)
    ridge = rows.ridge / rows.weight
    bound = float((share * (0.25 if rows.K == 2 else 0.5) * np.square(Z).sum(axis=1)).max()) + float(ridge.max())
    step = 1.0 / bound if learning_rate is None else learning_rate
    offset = rows.offset.reshape(rows.n, -1)
    B = np.zeros((1 if rows.K == 2 else rows.K, rows.m))
    mean, Q = np.zeros_like(B), symmetric_basis(rows.K)
    start, restart = rows.evaluate(np.zeros(rows.size), False).loss, 1
    losses: list[float] = []
    for epoch in range(1, 1 + max_iter):
        order = random.permutation(rows.n)
        sgd_epoch(Z, rows.codes, share, offset, ridge, order, step / np.sqrt(epoch), B)
        restart = 2 * restart if epoch == 2 * restart else restart
        mean += (B - mean) / (1 + epoch - restart)
        point = rows.evaluate((mean if rows.K == 2 else Q.T @ mean).ravel(), False)
        losses.append(point.loss / rows.weight)
        if not point.loss <= RUNAWAY * max(start, rows.weight):
            raise _diverged("sgd", step, 2.0 / bound)
        if np.abs(point.gradient).max(initial=0.0) <= tol * rows.weight:
            return NewtonFit(point, losses, "converged", True)
    return NewtonFit(point, losses, "stopped", True)


def _diverged(solver: str, step: float, limit: float) -> DivergenceError:
    return DivergenceError(
        f"solver={solver!r} diverged at learning_rate = {step:.4g}",
        remedy=f"keep it below {limit:.4g}, leave it None, or use solver='newton'",
    )
