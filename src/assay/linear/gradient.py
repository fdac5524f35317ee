"""Descent for least squares: the whole gradient at a time, or one row at a time.

Both minimise J(a, b) = 1/(2W) sum_i w_i (y_i - a - b'z_i)^2 over standardised columns z = (x - mean)/sd, where
W is the total weight, so one step size suits all columns and the defaults converge on real tables.

    gradient    b <- b - h dJ/db,  dJ/db = T'(T b - c)/W       holds for h < 2/L, L = largest eigenvalue of T'T/W
    sgd (LMS)   b <- b + h w_i (y_i - a - b'z_i) z_i           holds for h < 2/max_i w_i (1 + |z_i|^2)

T and c come from the triangle of the rows (`numerics.triangle`), so an exact batch gradient costs p^2 and not n p
operations. The rows of an epoch are shuffled. At a constant step LMS wanders around the answer instead of
reaching it, so the step falls as 1/sqrt(epoch) and the answer is the mean of the iterates since the last
epoch that is a power of two: large steps for the slow directions, averaging against the noise.
Both stop when no column's gradient exceeds tol sd(y): the residuals' covariance with any
standardised column is then below tol, whatever the units.

`literal` makes the steps as the textbooks print them: on the columns as they are (a column of ones for the intercept),
along the gradient of the sum 1/2 sum_i w_i (y_i - a - b'x_i)^2, with a constant step and without averaging
(`numerics.units`). Widrow and Hoff (1960), IRE WESCON 4, 96-104;
Polyak and Juditsky (1992), SIAM J. Control Optim. 30, 838-855.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import svdvals

from assay.errors import ConvergenceWarning, DivergenceError
from assay.numerics.jit import kernel
from assay.numerics.scale import norms
from assay.numerics.triangle import RowBlock, Solution, Triangle, blas_for, dense, over_blocks
from assay.numerics.units import LINEAR, augmented, batch_steps, downhill, largest_step, row_steps, triangle_of
from assay.results import Trace

__all__ = ["Descent", "gradient_descent", "literal", "lms"]

MAX_ITER = {"gradient": 100_000, "sgd": 10_000}
TOL = {"gradient": 1e-8, "sgd": 1e-3}
LITERAL_EPOCHS = 100
RUNAWAY = 100.0
"""An objective this many times its value at zero, where descent starts, has diverged."""


@kernel
def slope(T: Any, c: Any, b: Any, u: Any, g: Any) -> Any:
    """Fill u = T b - c (T upper trapezoid) and g = T'u; return |u|^2."""
    rows, p = T.shape
    k = b.shape[1]
    g[:] = 0.0
    total = 0.0
    for target in range(k):
        for i in range(rows):
            s = -c[i, target]
            for j in range(i, p):
                s += T[i, j] * b[j, target]
            u[i, target] = s
            total += s * s
            for j in range(i, p):
                g[j, target] += T[i, j] * s
    return total


@kernel
def descend(
    T: Any, c: Any, rest: Any, b: Any, u: Any, g: Any, step: Any, limit: Any, runaway: Any, objective: Any
) -> Any:
    """Gradient steps from b until every |g| is within its target's limit; how many, negative if they ran away.

    `objective[t]` is J after step t + 1. T and c are divided by sqrt(W), so that J = (|T b - c|^2 + rest)/2.
    """
    slope(T, c, b, u, g)
    for t in range(objective.size):
        for j in range(b.shape[0]):
            for target in range(b.shape[1]):
                b[j, target] -= step * g[j, target]
        objective[t] = 0.5 * (slope(T, c, b, u, g) + rest)
        if not objective[t] <= runaway:
            return -(t + 1)
        done = True
        for target in range(b.shape[1]):
            for j in range(b.shape[0]):
                if abs(g[j, target]) > limit[target]:
                    done = False
        if done:
            return t + 1
    return objective.size


@kernel
def lms_epoch(Z: Any, Y: Any, w: Any, order: Any, step: Any, intercept: Any, a: Any, b: Any) -> Any:
    """One pass over the rows in the given order: each moves a (if it is fitted) and b along its own residual."""
    p = Z.shape[1]
    for i in order:
        for target in range(Y.shape[1]):
            e = Y[i, target] - a[target]
            for j in range(p):
                e -= b[target, j] * Z[i, j]
            e *= step * w[i]
            if intercept:
                a[target] += e
            for j in range(p):
                b[target, j] += e * Z[i, j]


@dataclass(frozen=True, eq=False)
class Descent:
    """Where descent ended, in the units of the data: coef (p, k), intercept (k,), and how it went."""

    coef: np.ndarray
    intercept: np.ndarray
    trace: Trace


@dataclass(frozen=True, eq=False)
class _Standard:
    """The least-squares problem in standardised columns and targets of unit size."""

    T: np.ndarray
    c: np.ndarray
    rest: float
    spread: np.ndarray
    size: np.ndarray
    y_mean: np.ndarray
    limit: np.ndarray

    @property
    def start(self) -> float:
        """The objective at zero."""
        return float(0.5 * (np.square(self.c).sum() + self.rest))


def _standardise(triangle: Triangle, solution: Solution, tol: float) -> _Standard:
    first, k = int(triangle.intercept), triangle.targets
    m = triangle.factor.shape[1] - k
    root = np.sqrt(triangle.weight)
    T = triangle.factor[first:m, first:m]
    spread = norms(T) / root
    spread[spread == 0] = 1.0
    T = np.ascontiguousarray(T / spread / root)
    T[:, solution.constant] = 0.0
    size = norms(triangle.factor[first:, m:]) / root
    # A constant target leaves rounding noise after centring, and there is nothing to descend to.
    size[size * root <= 64 * np.finfo(float).eps * norms(triangle.factor[:, m:])] = np.inf
    c = np.ascontiguousarray(triangle.factor[first:m, m:] / size / root)
    rest = float(np.square(triangle.factor[m:, m:] / size / root).sum())
    y_mean = triangle.factor[0, m:] / triangle.factor[0, 0] if first else np.zeros(k)
    # Targets are divided by their standard deviation, so the limit on the gradient is tol itself.
    return _Standard(T, c, rest, spread, size, y_mean, np.full(k, tol))


def gradient_descent(
    triangle: Triangle, solution: Solution, learning_rate: float | None, max_iter: int | None, tol: float | None
) -> Descent:
    """Batch gradient descent from zero; the default step is 1/L."""
    problem = _standardise(triangle, solution, TOL["gradient"] if tol is None else tol)
    T, k = problem.T, triangle.targets
    with blas_for(4.0 * T.size * len(T)):
        bound = float(svdvals(T)[0] ** 2) if T.size and T.any() else 1.0
    step = 1.0 / bound if learning_rate is None else learning_rate
    objective = np.empty(MAX_ITER["gradient"] if max_iter is None else max_iter)
    b, u, g = np.zeros((T.shape[1], k)), np.empty((len(T), k)), np.empty((T.shape[1], k))
    runaway = RUNAWAY * max(problem.start, np.finfo(float).tiny)
    made = descend(T, problem.c, problem.rest, b, u, g, step, problem.limit, runaway, objective)
    converged = made > 0 and bool(np.all(np.abs(g).max(axis=0, initial=0.0) <= problem.limit))
    if made < 0 or (not converged and step > 2.0 / bound):
        raise _diverged("gradient", step, 2.0 / bound)
    trace = _trace("gradient", objective[:made], converged, problem.limit[0], "iterations")
    return _unscale(problem, solution, b, np.zeros(k), trace)


def lms(
    X: RowBlock,
    Y: np.ndarray,
    w: np.ndarray | None,
    triangle: Triangle,
    solution: Solution,
    random: np.random.RandomState | np.random.Generator,
    learning_rate: float | None,
    max_iter: int | None,
    tol: float | None,
) -> Descent:
    """Least mean squares, one row at a time from zero; the first step is 1/max_i w_i (1 + |z_i|^2) unless given."""
    problem = _standardise(triangle, solution, TOL["sgd"] if tol is None else tol)
    T, k, first = problem.T, triangle.targets, triangle.intercept
    Z, V = _standard_rows(X, Y, problem, solution)
    share = np.ones(len(Y)) if w is None else w * (np.count_nonzero(w) / w.sum())
    bound = float((share * (float(first) + np.square(Z).sum(axis=1))).max()) or 1.0
    step = 1.0 / bound if learning_rate is None else learning_rate
    a, b = np.zeros(k), np.zeros((k, T.shape[1]))
    mean_a, mean_b = np.zeros(k), np.zeros((T.shape[1], k))
    u, g = np.empty((len(T), k)), np.empty((T.shape[1], k))
    objective: list[float] = []
    converged, restart = False, 1
    for epoch in range(1, 1 + (MAX_ITER["sgd"] if max_iter is None else max_iter)):
        lms_epoch(Z, V, share, random.permutation(len(Y)), step / np.sqrt(epoch), first, a, b)
        restart = 2 * restart if epoch == 2 * restart else restart
        share_new = 1.0 / (1 + epoch - restart)
        mean_a += (a - mean_a) * share_new
        mean_b += (b.T - mean_b) * share_new
        fit = slope(T, problem.c, mean_b, u, g)
        objective.append(float(0.5 * (fit + problem.rest + np.square(mean_a).sum())))
        if not objective[-1] <= RUNAWAY * max(problem.start, 1.0):
            raise _diverged("sgd", step, 2.0 / bound)
        largest = np.maximum(np.abs(g).max(axis=0, initial=0.0), np.abs(mean_a))
        converged = bool(np.all(largest <= problem.limit))
        if converged:
            break
    trace = _trace("sgd", np.array(objective), converged, problem.limit[0], "epochs")
    return _unscale(problem, solution, mean_b, mean_a, trace)


def literal(
    X: RowBlock,
    Y: np.ndarray,
    w: np.ndarray | None,
    intercept: bool,
    solver: str,
    random: np.random.RandomState | np.random.Generator,
    learning_rate: float | None,
    max_iter: int | None,
    tol: float | None,
) -> Descent:
    """The printed rules from zero, one target after another; the default step is half the largest that holds."""
    A = augmented(dense(X, slice(0, X.shape[0])), intercept)
    v = np.ones(len(A)) if w is None else w
    B = np.zeros((Y.shape[1], A.shape[1]))
    made = [_literal_one(A, y, v, b, solver, random, learning_rate, max_iter, tol) for y, b in zip(Y.T, B, strict=True)]
    objective = np.zeros(max(one.size for one, _ in made))
    for one, _ in made:  # a target that is done stays where it is
        objective += np.append(one, np.full(objective.size - one.size, one[-1]))
    converged = all(done for _, done in made)
    limit = TOL["gradient"] if tol is None else tol
    if solver == "gradient":
        trace = _trace(solver, objective, converged, limit, "iterations")
    else:
        trace = Trace(objective, False, "a constant step oscillates around the solution instead of converging to it")
    p = X.shape[1]
    return Descent(B[:, :p].T.copy(), B[:, p].copy() if intercept else np.zeros(len(B)), trace)


def _literal_one(
    A: np.ndarray,
    y: np.ndarray,
    v: np.ndarray,
    b: np.ndarray,
    solver: str,
    random: np.random.RandomState | np.random.Generator,
    learning_rate: float | None,
    max_iter: int | None,
    tol: float | None,
) -> tuple[np.ndarray, bool]:
    """The steps of one target: the objective after each, and whether the gradient vanished; b is changed."""
    y, g = np.ascontiguousarray(y), np.empty(b.size)
    start = max(float(downhill(A, y, v, b, LINEAR, g)), np.finfo(float).tiny)
    single = solver == "sgd"
    largest = largest_step(A, v, LINEAR, single=single)
    step = 0.5 * largest if learning_rate is None else learning_rate
    if not single:
        T, c = triangle_of(A, y, v)
        ones, objective = np.ones(len(T)), np.empty(MAX_ITER["gradient"] if max_iter is None else max_iter)
        limit = (TOL["gradient"] if tol is None else tol) * np.sqrt(2.0 * start) * norms(T)
        made = int(batch_steps(T, c, ones, b, step, LINEAR, limit, RUNAWAY, objective, np.empty((0, b.size))))
        downhill(T, c, ones, b, LINEAR, g)
        converged = made > 0 and bool((np.abs(g) <= limit).all())
        if made < 0 or (not converged and step > largest):
            raise _diverged(solver, step, largest, "raw")
        return objective[:made], converged
    passes = []
    for _ in range(LITERAL_EPOCHS if max_iter is None else max_iter):
        row_steps(A, y, v, random.permutation(len(A)), b, step, LINEAR)
        passes.append(float(downhill(A, y, v, b, LINEAR, g)))
        if not passes[-1] <= RUNAWAY * start:
            raise _diverged(solver, step, largest, "raw")
    return np.array(passes), False


def _standard_rows(X: RowBlock, Y: np.ndarray, problem: _Standard, solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    Z = np.empty(X.shape)
    height = max(1, (1 << 17) // max(1, X.shape[1]))

    def fill(rows: slice) -> None:
        np.subtract(dense(X, rows), solution.mean, out=Z[rows])
        Z[rows] /= problem.spread

    over_blocks(fill, [slice(start, start + height) for start in range(0, len(Z), height)])
    Z[:, solution.constant] = 0.0
    return Z, np.ascontiguousarray((Y - problem.y_mean) / problem.size)


def _unscale(problem: _Standard, solution: Solution, b: np.ndarray, a: np.ndarray, trace: Trace) -> Descent:
    size = np.where(np.isinf(problem.size), 0.0, problem.size)
    coef = b * size / problem.spread[:, None]
    intercept = problem.y_mean + a * size - solution.mean @ coef
    return Descent(coef, intercept, trace)


def _trace(solver: str, objective: np.ndarray, converged: bool, tol: float, unit: str) -> Trace:
    if converged:
        return Trace(objective.copy(), True, f"every gradient is within tol = {tol:g} of zero")
    if tol == 0:
        return Trace(objective.copy(), False, f"made the {objective.size:,} {unit} asked for")
    message = f"solver={solver!r} made {objective.size} {unit} and some gradient is still above tol = {tol:g}"
    warnings.warn(f"{message}; raise max_iter or tol, or use solver='qr'", ConvergenceWarning, stacklevel=5)
    return Trace(objective.copy(), False, message)


def _diverged(solver: str, step: float, largest: float, columns: str = "standardised") -> Any:
    return DivergenceError(
        f"solver={solver!r} diverged with learning_rate = {step:g}",
        remedy=f"on these ({columns}) data steps below {largest:.4g} converge; None uses half of that",
    )
