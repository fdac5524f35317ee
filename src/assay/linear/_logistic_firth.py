"""Firth's correction: logistic regression with Jeffreys' prior, whose estimates are finite even where classes separate.

    maximise  l(t) + (1/2) log |I(t)|,    I(t) = sum_i w_i p_i q_i z_i z_i'

The modified score is sum_i (w_i (y_i - p_i) + h_i (1/2 - p_i)) z_i with h_i = w_i p_i q_i z_i' I^-1 z_i, the leverage
of a row (all its repetitions together). It removes the first-order bias of maximum likelihood; in a 2 x 2 table it
adds 1/2 to each cell. Fisher steps I^-1 U, corrected by what the steps before have shown of the prior's curvature
(L-BFGS) and halved until the penalised likelihood rises. Cost: two passes per step, about ten steps. With coordinates
held at a value the information stays that of the full design, as the penalised likelihood ratio test asks.

Firth (1993), Biometrika 80, 27-38; Heinze and Schemper (2002), Statistics in Medicine 21, 2409-2419.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from assay.linear._logistic_newton import null_point, two_loops
from assay.linear._logistic_precondition import factored
from assay.linear._logistic_rows import LogisticRows, Point
from assay.numerics.threads import one_blas_thread

__all__ = ["FirthFit", "firth"]

Array = np.ndarray

MEMORY = 10
"""So many steps back the curvature of the penalty is learnt from; the information matrix knows nothing of it."""

LONGEST = 10.0
"""No step moves a linear part by more than this: far from the answer the information is a poor guide."""


@dataclass(frozen=True, eq=False)
class FirthFit:
    """Where the steps ended: `score` is the modified score, `value` the penalised log-likelihood."""

    point: Point
    score: Array
    value: float
    losses: list[float]
    converged: bool


def firth(rows: LogisticRows, tol: float, max_iter: int, free: Array | None = None, held: float = 0.0) -> FirthFit:
    """Maximise the penalised likelihood over the coordinates `free` (all by default), the others `held` at a value."""
    free = np.ones(rows.m, dtype=bool) if free is None else free
    theta = np.where(free, null_point(rows), held)
    point, value, L = _penalised(rows, theta)
    if np.isneginf(value):  # the determinant is zero wherever one looks: collinear columns
        return FirthFit(point, np.zeros(rows.m), value, [-value], False)
    score = _score(rows, point, L)
    losses, converged = [-value], False
    memory: list[tuple[Array, Array]] = []
    for _ in range(max_iter):
        converged = bool(np.abs(score[free]).max(initial=0.0) <= tol * rows.weight)
        if converged:
            break
        assert point.hessian is not None
        step = _quasi_newton(point.hessian[np.ix_(free, free)], score[free], memory)
        found = _rise(rows, point, value, free, step)
        if found is None and memory:  # the memory misleads; the information alone does not
            memory.clear()
            step = _quasi_newton(point.hessian[np.ix_(free, free)], score[free], memory)
            found = _rise(rows, point, value, free, step)
        if found is None:
            break
        further, value, L = found
        before, score = score, _score(rows, further, L)
        memory.append(((further.theta - point.theta)[free], (before - score)[free]))
        if float(memory[-1][0] @ memory[-1][1]) <= 0:
            memory.pop()
        del memory[:-MEMORY]
        point = further
        losses.append(-value)
    converged = converged or bool(np.abs(score[free]).max(initial=0.0) <= max(tol, 1e-10) * rows.weight)
    return FirthFit(point, score, value, losses, converged)


def _quasi_newton(information: Array, score: Array, memory: list[tuple[Array, Array]]) -> Array:
    """L-BFGS with the information matrix as the first approximation of the curvature."""
    with one_blas_thread():
        return two_loops(score, memory, factored(information))


def _rise(
    rows: LogisticRows, point: Point, value: float, free: Array, step: Array
) -> tuple[Point, float, Array] | None:
    """The first of h = 1, 1/2, ... at which the penalised likelihood has not fallen."""
    full = np.zeros(rows.m)
    full[free] = step
    h = min(1.0, LONGEST / max(rows.bound(full), 1e-300))
    noise = 8.0 * np.finfo(float).eps * abs(value)
    for _ in range(30):
        trial, better, L = _penalised(rows, point.theta + h * full)
        if better >= value - noise:
            return trial, better, L
        h *= 0.5
    return None


def _penalised(rows: LogisticRows, theta: Array) -> tuple[Point, float, Array]:
    point = rows.evaluate(theta)
    assert point.hessian is not None
    with one_blas_thread():
        try:
            L = cholesky(point.hessian, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return point, -np.inf, np.eye(rows.m)
    return point, -point.loss + float(np.log(np.diag(L)).sum()), L


def _score(rows: LogisticRows, point: Point, L: Array) -> Array:
    """The modified score, from a second pass for the leverages."""
    eta, curve = point.state

    def one(part: slice) -> Array:
        X = rows.X[part]
        Z = np.empty((X.shape[0], rows.m))
        Z[:, : rows.first] = 1.0
        Z[:, rows.first :] = ((X.toarray() if rows.is_sparse else X) - rows.mean) * rows.inverse
        V = solve_triangular(L, Z.T, lower=True, check_finite=False)
        leverage = curve[part] * np.einsum("ij,ij->j", V, V)
        return Z.T @ (-0.5 * leverage * np.tanh(0.5 * eta[part]))  # 1/2 - p = -tanh(eta / 2) / 2

    return np.sum(rows.over_blocks(one), axis=0) - point.gradient
