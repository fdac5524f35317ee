"""Linear machines: the dual of `_dual` with K = X X', solved through the weights w = X'beta, O(p) for a step.

    P(w, b) = |w|^2 / 2 + sum_i L_i(c_i - x_i'w - b),    L_i(r) = max(0, hi_i (r - eps), lo_i (r + eps))

or, for squared losses, L_i(r) = max(0, |r| - eps)^2 / (2 extra_i) on the sides that the bounds allow, whose dual has
extra_i on the diagonal of K and no upper bounds. A bias is a further column `one` (augmentation, so that its weight is
penalised like the others) or free. A free bias moves by proximal steps: each round solves the augmented problem around
the last bias, and the bias of the next round is where it ended; the rounds end when sum beta is zero.

| solver           | losses  | step                                                        | cost of a step       |
|------------------|---------|-------------------------------------------------------------|----------------------|
| "dual_ascent"    | all     | an epoch of coordinates in closed form, idle rows left out  | stored cells         |
| "sgd"            | hinge   | an epoch of subgradient steps 1/t, weights averaged         | stored cells         |
| "newton"         | squared | Newton's step, by Cholesky or conjugate gradients           | n p^2, or some n p   |
| "interior_point" | hinge   | predictor and corrector on the dual, dense X with few columns | n p^2              |

Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), ICML (dual ascent); Shalev-Shwartz, Singer, Srebro, Cotter (2011),
Math. Program. 127 (sgd); Keerthi, DeCoste (2005), JMLR 6 (newton); Ferris, Munson (2002), SIAM J. Optim. 13 (interior).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from assay.margin._dual import Dual, Records, bias_and_gap
from assay.margin._finish import finish
from assay.margin._interior import interior_point
from assay.margin._linear_kernels import dual_epoch, dual_epoch_sparse, subgradient_epoch, subgradient_epoch_sparse
from assay.margin._linear_problem import LinearProblem, factored, weighted_product
from assay.numerics.threads import one_blas_thread

__all__ = ["LinearProblem", "LinearSVMFit", "solve_linear"]

Array = np.ndarray
SMALL = 1000
"""Up to this many rows the end is made exact by the active-set method."""
ENDED = 1e-6
"""The gap, relative to the objective, that an exact end must have."""
DENSE = 1500
"""Up to this many columns Newton's system is factored."""
PROXIMAL = 60
"""Rounds of a free bias."""


@dataclass(frozen=True, eq=False)
class LinearSVMFit:
    """Weights, bias, beta, and how good they are."""

    w: Array
    bias: float
    beta: Array
    primal: float
    gap: float
    converged: bool
    records: Records


def solve_linear(
    problem: LinearProblem, *, solver: str, tol: float, max_iter: int, rng: np.random.Generator, order: str = "epochs"
) -> LinearSVMFit:
    """Solve a linear problem; small ones are ended exactly."""
    with one_blas_thread():  # products with vectors are bound by memory; those of matrices are shared out by blocks
        return _solve(problem, solver, tol, max_iter, rng, order)


def _solve(
    problem: LinearProblem, solver: str, tol: float, max_iter: int, rng: np.random.Generator, order: str
) -> LinearSVMFit:
    records = Records(0.0, problem.c.size)
    if solver == "newton":
        w, bias, beta, good = _newton(problem, tol, max_iter, records)
    elif solver == "interior_point":
        w, bias, beta, good = interior_point(problem, tol, max_iter, records)
    elif solver == "sgd":
        w, bias, beta, good = _subgradient(problem, max_iter, rng, order, records)
    else:
        w, bias, beta, good = _ascent(problem, tol, max_iter, rng, order, records)
    primal, gap = _measured(problem, w, bias, beta)
    if solver != "sgd" and problem.c.size <= SMALL and np.isfinite(beta).all():
        exact = _exact(problem, beta)
        ended = (np.inf, np.inf) if exact is None else _measured(problem, *exact)
        done = ended[1] <= ENDED * (1.0 + abs(ended[0]))  # rounding may lead it astray where columns are wild
        if exact is not None and (done or ended[1] <= gap):
            (w, bias, beta), (primal, gap), good = exact, ended, good or done
    if solver == "sgd":
        good = gap <= tol * (1.0 + abs(primal))
    elif solver == "newton":  # far from zero a gradient is small only beside the one at the start
        good = good and gap <= max(tol, 1e-3) * (1.0 + abs(primal))
    nothing = np.zeros_like(w), 0.0, np.zeros(problem.c.size)
    least = _measured(problem, *nothing)
    if not primal <= least[0] * (1.0 + 1e-9):  # lost: no weights at all are better than these
        (w, bias, beta), (primal, gap), good = nothing, least, False
    return LinearSVMFit(w, bias, beta, primal, max(gap, 0.0), good, records)


def _measured(problem: LinearProblem, w: Array, bias: float, beta: Array) -> tuple[float, float]:
    """The primal objective and the duality gap."""
    primal = problem.primal(w, bias)
    gap = primal - problem.dual(beta, problem.weights(beta)) + (abs(bias * beta.sum()) if problem.free else 0.0)
    return primal, gap


def _exact(problem: LinearProblem, beta: Array) -> tuple[Array, float, Array] | None:
    """The active-set method on the Gram matrix."""
    one = 0.0 if problem.free else problem.one
    X = problem.X.toarray() if problem.is_sparse else problem.X
    mean = X.mean(axis=0) if problem.free else 0.0  # the sum of beta is zero, so a shift changes nothing but rounding
    K = (X - mean) @ (X - mean).T + one**2
    K[np.diag_indices_from(K)] += problem.extra
    if not np.isfinite(K).all():
        return None
    dual = Dual(problem.c, problem.eps, problem.lo, problem.hi, coupled=problem.free)
    found = finish(K, dual, beta)
    if found is None:
        return None
    beta, e = found
    w = replace(problem, one=one).weights(beta)
    if not problem.free:
        return w, 0.0, beta
    bias, _, _ = bias_and_gap(dual, beta, e)
    return w, bias - float(np.dot(mean, w[:-1])), beta


# Dual coordinate ascent.


def _ascent(
    problem: LinearProblem, tol: float, max_iter: int, rng: np.random.Generator, order: str, records: Records
) -> tuple[Array, float, Array, bool]:
    """Epochs of coordinates; with a free bias in proximal rounds around it."""
    beta, w = np.zeros(problem.c.size), np.zeros(problem.X.shape[1] + 1)
    if not problem.free:
        good = _epochs(problem, w, 0.0, beta, tol, max_iter, rng, order, records)
        return w, 0.0, beta, good
    squares = _squares(problem)
    inner = replace(problem, one=float(np.sqrt(max(1.0, np.median(squares)))), free=False)
    bias, good, left = 0.0, False, max_iter
    for _ in range(PROXIMAL):
        if left <= 0:
            break
        before = len(records.rows)
        w[-1] = inner.one * beta.sum()
        good = _epochs(inner, w, bias, beta, tol, left, rng, order, records)
        left -= len(records.rows) - before
        move = inner.one * w[-1]
        bias += move
        if abs(move) <= 0.1 * tol * (1.0 + abs(bias)):
            break
    w[-1] = 0.0
    return w, bias, beta, good


def _squares(problem: LinearProblem) -> Array:
    if problem.is_sparse:
        return np.asarray(problem.X.multiply(problem.X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", problem.X, problem.X)


def _epochs(
    problem: LinearProblem, w: Array, bias: float, beta: Array, tol: float, epochs: int,
    rng: np.random.Generator, order: str, records: Records,
) -> bool:  # fmt: skip
    """Coordinate ascent until an epoch over all rows meets no violation above tol."""
    curve = _squares(problem) + problem.one**2 + problem.extra
    common = (w, problem.one, bias, problem.c, problem.lo, problem.hi, problem.extra, curve, problem.eps, beta)
    table = _table(problem)
    epoch = dual_epoch_sparse if problem.is_sparse else dual_epoch
    everyone = np.flatnonzero(problem.lo < problem.hi)
    rows, limits = everyone, np.full(2, np.inf)
    for _ in range(epochs):
        drawn = rng.choice(everyone, everyone.size) if order == "uniform" else rng.permutation(rows)
        kept, worst, gained = epoch(*table, *common, drawn, limits)
        records.note(drawn.size, gained, worst, drawn.size, 0)
        if worst <= tol:
            if rows.size == everyone.size and order == "epochs":
                return True
            if order == "uniform":
                kept, worst, _ = epoch(*table, *common, everyone.copy(), np.full(2, np.inf))  # have all rows been seen?
                if worst <= tol:
                    return True
            rows, limits = everyone, np.full(2, np.inf)
        elif order == "uniform" or kept == 0:
            rows, limits = everyone, np.full(2, np.inf)
        else:
            rows = drawn[:kept]
    return False


def _table(problem: LinearProblem) -> tuple[Array, ...]:
    """The rows as kernels take them; column numbers without a sign need no look whether they are negative."""
    X = problem.X
    if not problem.is_sparse:
        return (X,)
    return X.data, X.indices.astype(np.int32, copy=False).view(np.uint32), X.indptr.astype(np.int64)


# Stochastic subgradient.


def _subgradient(
    problem: LinearProblem, epochs: int, rng: np.random.Generator, order: str, records: Records
) -> tuple[Array, float, Array, bool]:
    """Steps 1/t on |w|^2 / 2 + n L_i; the weights of the second half of all steps are averaged."""
    n, p = problem.X.shape
    z, tail = np.zeros(p + 1), np.zeros(p + 1)
    records.rows[-1] = (0, -problem.loss(problem.c), *records.rows[-1][2:])
    clock, harmonic, counts = np.array([0.0, float(n * epochs // 2)]), np.zeros(1), np.zeros((2, n))
    table = _table(problem)
    epoch = subgradient_epoch_sparse if problem.is_sparse else subgradient_epoch
    for _ in range(epochs):
        drawn = rng.integers(0, n, n) if order == "uniform" else rng.permutation(n)
        epoch(
            *table, z, tail, problem.one, problem.c, problem.lo, problem.hi, problem.eps, drawn, clock, harmonic, counts
        )
        w = z / clock[0] if clock[0] <= clock[1] else (harmonic[0] * z - tail) / (clock[0] - clock[1])
        records.note(n, -problem.primal(w, 0.0) - records.rows[-1][1], np.nan, n, 0)
    beta = (harmonic[0] * counts[0] - counts[1]) / (clock[0] - clock[1])
    beta = np.clip(beta, problem.lo, problem.hi)
    return w, 0.0, beta, True


# Newton's method for squared losses.


def _newton(problem: LinearProblem, tol: float, max_iter: int, records: Records) -> tuple[Array, float, Array, bool]:
    """Newton steps with a line search; the objective is quadratic between kinks, so few steps end it."""
    p = problem.X.shape[1]
    # Unknowns: w, and the weight of the further column; that of a free bias has no penalty.
    one = 1.0 if problem.free else problem.one
    inner = replace(problem, one=one)
    penalty = np.ones(p + 1)
    penalty[-1] = 0.0 if problem.free else 1.0
    v = np.zeros(p + 1)
    f = np.zeros(problem.c.size)
    value = problem.loss(problem.c)
    records.rows[-1] = (0, -value, *records.rows[-1][2:])
    good, start = False, None
    for _ in range(max_iter):
        beta = problem.pulls(problem.c - f)
        g = penalty * v - inner.weights(beta)
        size = float(np.abs(g).max())
        start = size if start is None else start
        # Half the squared gradient is the gap: beside a large C a gradient is small long before the gap is.
        if size <= 1e-3 * tol * max(1.0, start) and 0.5 * float(g @ g) <= tol * (1.0 + value):
            good = True
            break
        step = _newton_step(inner, penalty, beta != 0, g)
        change = inner.scores(step)
        slope, share = float(g @ step), 1.0
        while share > 1e-10:
            trial = v + share * step
            new = 0.5 * float(penalty @ trial**2) + problem.loss(problem.c - f - share * change)
            if new <= value + 1e-4 * share * slope:
                break
            share *= 0.5
        else:
            good = size <= 1e-6 * max(1.0, start)
            break
        v, f = trial, f + share * change
        records.note(1, value - new, size, int(np.count_nonzero(beta)), 0)
        value = new
    beta = problem.pulls(problem.c - f)
    if not problem.free:
        return v, 0.0, beta, good
    return np.append(v[:-1], 0.0), float(v[-1]), beta, good


def _newton_step(problem: LinearProblem, penalty: Array, active: Array, g: Array) -> Array:
    rows = np.flatnonzero(active)
    X, weight = problem.X[rows], 1.0 / problem.extra[rows]
    if problem.is_sparse or g.size > DENSE:
        return _conjugate(problem, penalty, X, weight, g)
    H = weighted_product(X, weight, problem.one)
    H[np.diag_indices_from(H)] += penalty
    H[-1, -1] += 0.0 if H[-1, -1] > 0 else 1.0
    return -cho_solve(factored(H), g, check_finite=False)


def _conjugate(problem: LinearProblem, penalty: Array, X: Any, weight: Array, g: Array) -> Array:
    """Conjugate gradients on the Hessian, which is never formed; preconditioned by its diagonal."""

    def times(v: Array) -> Array:
        inner = weight * (np.asarray(X @ v[:-1]) + problem.one * v[-1])
        return penalty * v + np.append(np.asarray(X.T @ inner), problem.one * inner.sum())

    squares = X.multiply(X) if problem.is_sparse else X**2
    diagonal = penalty + np.append(np.asarray(squares.T @ weight).ravel(), problem.one**2 * weight.sum())
    diagonal[diagonal == 0] = 1.0
    x, r = np.zeros_like(g), -g
    z = r / diagonal
    d, old = z.copy(), float(r @ z)
    enough = min(0.1, np.sqrt(float(np.linalg.norm(g)))) * 0.1 * float(np.linalg.norm(g))
    for _ in range(250):
        Hd = times(d)
        bent = float(d @ Hd)
        if bent <= 0:
            break
        x += (old / bent) * d
        r -= (old / bent) * Hd
        if np.linalg.norm(r) <= enough:
            break
        z = r / diagonal
        new = float(r @ z)
        d, old = z + (new / old) * d, new
    return x
