"""Newton's method for logistic regression: few passes over the rows, and a likelihood that never falls.

    theta <- theta - h H^-1 g,    h = 1, 1/2, 1/4, ... until the loss has fallen enough (Armijo)

*Start.* Of a large table a tenth of the rows (every tenth) is fitted first. Its curvature, corrected by what the steps
show (L-BFGS), is good enough for three or four passes that need no Hessian; Newton then only has to confirm. The
Hessian, scaled to a unit diagonal, is factored by Cholesky.

*Many coordinates.* Where the products n m^2 of a Hessian would cost far more than a few dozen passes, the step solves
H d = g by conjugate gradients on products H v, preconditioned by the Hessian of a sample of the rows (for more than two
classes by an approximation of it, `assay.linear._logistic_precondition`; for sparse X with many columns by the
diagonal), to a residual that falls with the gradient (inexact Newton, superlinear).

*Stop.* The largest gradient is at most tol times the total weight, in standardised columns, and the next step moves no
linear part by more than 1e-3 (1e-7 where standard errors are wanted, which belong to the point before it); that step,
which is already worked out, is then taken too. Where the gradient vanishes but the steps do not get shorter, the
likelihood has no maximum (see `assay.numerics.separation`): `flat`.

Dembo, Eisenstat and Steihaug (1982), SIAM J. Numer. Anal. 19, 400-408; Byrd, Chin, Neveitt and Nocedal (2011), SIAM J.
Optim. 21, 977-995 (samples for curvature).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky

from assay.linear._logistic_classes import symmetric_basis
from assay.linear._logistic_precondition import Kronecker, Solver, factored, sampled_hessian
from assay.linear._logistic_rows import LogisticRows, Point
from assay.numerics.threads import one_blas_thread

__all__ = [
    "NewtonFit",
    "approach",
    "is_direct",
    "newton",
    "null_point",
    "preconditioner",
    "solve_rows",
    "two_loops",
]

Array = np.ndarray

SHORT, SHORTER = 1e-3, 1e-7
"""A last step moves no eta by more than this; the second where the Hessian, that of the step before, is wanted."""

LONGEST = 30.0
"""No step starts by moving an eta by more than this: where probabilities are 0 and 1 the curvature says little."""

PATIENCE = 3
"""So often may the gradient be small and the step long before the likelihood is called flat."""

SAMPLE = 10
"""One row in so many makes the first approximation."""

WORTH_SAMPLING = 2_000_000
"""Cells of X from which a first approximation on a sample pays."""

APPROACH = 12
"""So many passes may be made with the curvature of a sample before Newton takes over."""

MANY_STEPS = 60
"""The same where no Hessian of all rows is formed at all, before conjugate gradients take over."""

MANY = 40.0
"""A Hessian that costs more than this many products with it is not formed at every step."""

SPREAD = 64
"""So many rows per coordinate show the spread of the columns well enough for a preconditioner."""

START = 3e-3
"""A sample is fitted until its gradient is below this; beyond, it speaks of itself and not of all rows."""

LARGEST = 4_000
"""A Hessian with more rows than this is never formed."""


@dataclass(frozen=True, eq=False)
class NewtonFit:
    """Where a solver ended: `status` is "converged", "flat" or "stopped".

    `losses` holds the start and one value per step; the start is missing where the losses `starts_after_one`.
    """

    point: Point
    losses: list[float]
    status: str
    starts_after_one: bool = False


def null_point(rows: LogisticRows) -> Array:
    """Class frequencies as intercepts where nothing else is known, zeros otherwise."""
    theta = np.zeros((rows.K - 1, rows.m))
    if rows.first and not rows.offset.any():
        share = np.log(np.bincount(rows.codes, weights=rows.w, minlength=rows.K) / rows.weight)
        theta[:, 0] = share[1] - share[0] if rows.K == 2 else symmetric_basis(rows.K).T @ share
    return theta.ravel()


def solve_rows(
    rows: LogisticRows,
    tol: float,
    max_iter: int,
    start: Array | None = None,
    hessian: bool = True,
    patience: int = PATIENCE,
) -> NewtonFit:
    """The fit of these rows; `hessian` asks for the Hessian at the end even if the way there did without."""
    theta = null_point(rows) if start is None else start
    losses: list[float] = []
    if not is_direct(rows):
        theta, precondition = preconditioner(rows, theta, start is None)
        near = approach(rows, theta, precondition, tol, False, MANY_STEPS)
        fit = near
        if near.status != "converged":
            fit = newton(rows, near.point.theta, tol, max_iter, False, precondition)
            fit = replace(fit, losses=near.losses + fit.losses)
        if hessian and rows.size <= LARGEST:
            fit = replace(fit, point=rows.evaluate(fit.point.theta))
        return fit
    if start is None and rows.n * rows.m >= WORTH_SAMPLING and rows.n >= 20 * SAMPLE * rows.m:
        sampled = _sampled(rows, theta)
        if sampled is not None:
            near = approach(rows, *sampled, tol, hessian)
            if near.status == "converged" and not hessian:
                return near
            theta, losses = near.point.theta, near.losses
    fit = newton(rows, theta, tol, max_iter, True, None, SHORTER if hessian else SHORT, patience)
    return replace(fit, losses=losses + fit.losses)


def is_direct(rows: LogisticRows) -> bool:
    """Whether Newton steps form the Hessian of all rows."""
    if rows.size > LARGEST:
        return False
    if rows.is_sparse:
        return rows.size <= 1000
    pairs = rows.K * (rows.K - 1) / 2
    hessian_in_products = rows.m * pairs / (4.0 * (rows.K if rows.K > 2 else 1))
    return hessian_in_products <= MANY or rows.n < 8 * rows.size


def _sampled(rows: LogisticRows, theta: Array) -> tuple[Array, Solver] | None:
    """A loose fit of every tenth row and its curvature; None where the sample does not speak for all rows.

    It does not where a class is missing, where it can be separated, or where its Hessian is close to singular.
    """
    part = rows.part(SAMPLE)
    if np.unique(part.codes).size < rows.K:
        return None
    if part.n >= 20 * SAMPLE * rows.m:
        first = _sampled(part, theta)
        theta = theta if first is None else first[0]
    fit = newton(part, theta, 1e-3, 12, True, None, 0.1)
    if fit.status != "converged" or fit.point.hessian is None:
        return None
    H = fit.point.hessian
    size = np.sqrt(np.maximum(np.diag(H), 1e-300))
    try:
        pivots = np.diag(cholesky(H / size[:, None] / size, lower=True, check_finite=False))
    except np.linalg.LinAlgError:
        return None
    return (fit.point.theta, factored(H)) if np.square(pivots).min() > 1e-6 else None


def approach(
    rows: LogisticRows,
    theta: Array,
    inverse: Solver,
    tol: float,
    hessian: bool,
    most: int = APPROACH,
    short: float = SHORT,
) -> NewtonFit:
    """Steps with the sample's curvature, corrected by what they show (L-BFGS): passes without a Hessian.

    Where the Hessian is wanted at the end, the last step leads to a point that Newton only has to confirm.
    """
    short = SHORTER if hessian else short
    point = rows.evaluate(theta, False)
    losses = [point.loss]
    memory: list[tuple[Array, Array]] = []
    for _ in range(most):
        step = two_loops(point.gradient, memory, inverse)
        move = rows.bound(step)
        largest = float(np.abs(point.gradient).max(initial=0.0))
        if largest <= tol * rows.weight and move <= short:
            return NewtonFit(_finished(point, step), losses, "converged")
        if hessian and move <= 20 * SHORTER:
            # The next point is closer still: let Newton look at it, Hessian and all.
            return NewtonFit(_finished(point, step), losses, "stopped")
        further = _search(rows, point, step, move, False)
        if further is None:
            break
        memory.append((further.theta - point.theta, further.gradient - point.gradient))
        if float(memory[-1][0] @ memory[-1][1]) <= 0:
            memory.pop()
        point = further
        losses.append(point.loss)
    return NewtonFit(point, losses, "stopped")


def two_loops(gradient: Array, memory: list[tuple[Array, Array]], inverse: Solver) -> Array:
    """L-BFGS's direction: `inverse` is the first approximation, pairs (step, change of gradient) correct it."""
    q, kept = gradient.copy(), []
    for s, y in reversed(memory):
        a = float(s @ q) / float(s @ y)
        q -= a * y
        kept.append(a)
    q = inverse(q)
    for (s, y), a in zip(memory, reversed(kept), strict=True):
        q = q + s * (a - float(y @ q) / float(s @ y))
    return q


def preconditioner(rows: LogisticRows, theta: Array, improve: bool) -> tuple[Array, Solver]:
    """A better start and an approximate inverse of the Hessian, from a sample of the rows or from its diagonal."""
    if rows.is_sparse or rows.m > LARGEST or (rows.K == 2 and rows.size > LARGEST):
        inverse = 1.0 / np.maximum(rows.diagonal(rows.evaluate(theta, False)), 1e-300)
        return theta, lambda g: inverse * g
    wanted = max(SPREAD * rows.m if rows.K > 2 else 8 * rows.size, 2000)
    part = rows.part(max(1, rows.n // wanted))
    if np.unique(part.codes).size < rows.K:
        part = rows
    if rows.K > 2:
        white = Kronecker.of(part)
        if improve:
            theta = approach(part, theta, white.at(theta), START, False, short=np.inf).point.theta
        return theta, white.at(theta)
    if improve:
        theta = newton(part, theta, 1e-3, 6, True, None).point.theta
    return theta, sampled_hessian(part, theta)


def newton(
    rows: LogisticRows,
    theta: Array,
    tol: float,
    max_iter: int,
    direct: bool,
    precondition: Solver | None,
    short: float = SHORT,
    patience: int = PATIENCE,
) -> NewtonFit:
    """Damped Newton steps from theta, direct or by conjugate gradients."""
    point = rows.evaluate(theta, direct)
    losses = [point.loss]
    target, flat, before = tol * rows.weight, 0, np.inf
    for _ in range(max_iter):
        if rows.is_separated_at(point):
            return NewtonFit(point, losses, "flat")
        largest = float(np.abs(point.gradient).max(initial=0.0))
        if direct:
            assert point.hessian is not None
            with one_blas_thread():
                step = factored(point.hessian)(point.gradient)
        else:
            ratio = min(0.1, np.sqrt(largest / rows.weight), largest / before)
            # The last step need not be better than what is asked for.
            ratio = max(ratio, 0.2 * target / max(largest, 1e-300))
            step = _conjugate(rows, point, precondition, ratio)
        before = largest
        move = rows.bound(step)
        # A row whose eta is far beyond those bounds is decided: its last digits do not count.
        unit = max(1.0, rows.bound(point.theta) / LONGEST)
        if largest <= target:
            if move <= short * unit:
                return NewtonFit(_finished(point, step), losses, "converged")
            # A penalty on every slope has a minimum, however long it takes to get there.
            flat += move > SHORT * unit and not rows.ridge[rows.first :].all()
            if flat == patience:
                return NewtonFit(point, losses, "flat")
        further = _search(rows, point, step, move, direct)
        if further is None:
            # No step lowers the loss: rounding is all that is left, or the way is lost.
            return NewtonFit(point, losses, "converged" if largest <= max(1e-6 * rows.weight, target) else "stopped")
        point = further
        losses.append(point.loss)
    largest = float(np.abs(point.gradient).max(initial=0.0))
    return NewtonFit(point, losses, "converged" if largest <= target and not flat else "stopped")


def _finished(point: Point, step: Array) -> Point:
    """The last step is known and short: taken, it squares the error at no further pass."""
    return Point(point.theta - step, point.loss, point.gradient, point.hessian, point.state)


def _search(rows: LogisticRows, point: Point, step: Array, move: float, direct: bool) -> Point | None:
    """The first of h = 1, 1/2, ... that lowers the loss; None where none does."""
    slope = float(point.gradient @ step)
    if not np.isfinite(slope) or slope <= 0:
        return None
    h, shortened = min(1.0, LONGEST / move) if move > 0 else 1.0, False
    noise = 4.0 * np.finfo(float).eps * abs(point.loss)
    for _ in range(40):
        trial = rows.evaluate(point.theta - h * step, direct)
        if trial.loss <= point.loss - 1e-4 * h * slope:
            return trial if shortened else _lengthen(rows, point, step, slope, h, trial, direct)
        shortened = True
        small = h * slope <= 1e3 * noise
        if small and trial.loss <= point.loss + noise:
            # Too close to see in the loss: the gradient decides.
            shorter = np.abs(trial.gradient).max() < np.abs(point.gradient).max()
            return trial if shorter else None
        h *= 0.5
    return None


def _lengthen(
    rows: LogisticRows, point: Point, step: Array, slope: float, h: float, reached: Point, direct: bool
) -> Point:
    """Where only the bound on the step kept it short (one row far from all others), four times h while that pays."""
    while h < 1.0:
        longer = min(1.0, 4.0 * h)
        trial = rows.evaluate(point.theta - longer * step, direct)
        if not trial.loss <= reached.loss - 1e-4 * (longer - h) * slope:
            break
        reached, h = trial, longer
    return reached


def _conjugate(rows: LogisticRows, point: Point, precondition: Solver | None, ratio: float) -> Array:
    """H d = g to a residual of `ratio` times g, both measured in the preconditioner's norm."""
    d = np.zeros_like(point.gradient)
    r = point.gradient.copy()
    z = r if precondition is None else precondition(r)
    v, rz = z.copy(), float(r @ z)
    limit = ratio * ratio * rz
    for _ in range(min(500, 2 * rows.size + 10)):
        if rz <= limit or rz <= 0:
            break
        Hv = rows.product(point, v)
        curvature = float(v @ Hv)
        if curvature <= 0:
            break
        a = rz / curvature
        d += a * v
        r -= a * Hv
        z = r if precondition is None else precondition(r)
        rz, old = float(r @ z), rz
        v = z + (rz / old) * v
    return d if d.any() else z
