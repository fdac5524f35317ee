"""The end of a dual ascent in double precision: an active-set method from where a first-order solver stopped.

Given which rows are free, the optimum solves a linear system, (K_FF 1; 1' 0) (beta_F; b) = (c_F - eps sign - K_FB beta_B;
total - sum beta_B). A step towards its solution ends at the first bound, which takes that row out of F; at the
solution, the row that violates its condition most comes in. D never falls, and the end is exact to rounding: it does
not depend on the solver, on the order of rows, or on whether a row is repeated or weighted.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgWarning, cho_factor, cho_solve, lstsq

from assay.margin._dual import Dual

__all__ = ["finish"]

Array = np.ndarray
CLOSE = 1e-10
"""KKT violation that counts as none, relative to the size of e."""


def finish(K: Array, dual: Dual, beta: Array, rounds: int = 400) -> tuple[Array, Array] | None:
    """The optimum (beta, e) near `beta`, or None where it is not reached within the rounds (or D would fall)."""
    beta = np.clip(beta, dual.lo, dual.hi)
    e = dual.c - K @ beta
    before = dual.objective(beta, e)
    free = (beta > dual.lo) & (beta < dual.hi) & (beta != 0)
    side = np.sign(beta)  # which side of zero a free row moves on
    size = 1.0 + float(np.abs(dual.c).max()) + float(np.abs(dual.c - e).max())
    for _ in range(rounds):
        F = np.flatnonzero(free)
        step, b = _towards(K, dual, beta, e, F, side[F])
        share, hit = _first_bound(dual, beta, F, step, side[F])
        beta[F] += share * step
        if hit is not None:
            row, end = hit
            beta[row], free[row] = end, False
        e = dual.c - K @ beta
        if hit is not None:
            continue
        row, way, worst = _worst(dual, beta, e, free, b)
        if worst <= CLOSE * size:
            good = dual.objective(beta, e) >= before - 1e-9 * (1.0 + abs(before))
            return (beta, e) if good else None
        free[row] = True
        side[row] = np.sign(beta[row]) if beta[row] else way
    return None


def _towards(K: Array, dual: Dual, beta: Array, e: Array, F: Array, side: Array) -> tuple[Array, float]:
    """The change of the free rows that solves their equations, and the bias then (NaN where no row is free)."""
    r = e[F] - dual.eps * side
    short = dual.total - beta.sum() if dual.coupled else 0.0
    if not F.size:
        return r, np.nan if dual.coupled else 0.0
    KF = K[np.ix_(F, F)]
    if not dual.coupled:
        return _solve(KF, r[:, None])[:, 0], 0.0
    both = _solve(KF, np.column_stack([r, np.ones(F.size)]))
    weight = both[:, 1].sum()
    if weight <= 0 or not np.isfinite(both).all() or np.abs(KF @ both[:, 1] - 1.0).max() > 1e-8:
        border = np.zeros((F.size + 1, F.size + 1))  # K_FF is singular: the bordered system may still have a solution
        scale = max(float(np.abs(KF).max()), 1e-300)
        border[:-1, :-1], border[-1, :-1], border[:-1, -1] = KF / scale, 1.0, 1.0
        found = lstsq(border, np.append(r / scale, short), check_finite=False)[0]
        return found[:-1], float(found[-1] * scale)
    b = (both[:, 0].sum() - short) / weight
    return both[:, 0] - b * both[:, 1], float(b)


def _solve(KF: Array, right: Array) -> Array:
    try:
        made = cho_solve(cho_factor(KF, lower=True, check_finite=False), right, check_finite=False)
        if np.isfinite(made).all() and np.abs(KF @ made - right).max() <= 1e-9 * (1.0 + np.abs(right).max()):
            return made
    except (np.linalg.LinAlgError, LinAlgWarning, ValueError):
        pass
    return lstsq(KF, right, check_finite=False)[0]


def _first_bound(dual: Dual, beta: Array, F: Array, step: Array, side: Array) -> tuple[float, tuple[int, float] | None]:
    """How much of the step fits, and the row and bound that end it (None: all of it fits)."""
    low = np.where(side > 0, np.maximum(dual.lo[F], 0.0), dual.lo[F])
    high = np.where(side < 0, np.minimum(dual.hi[F], 0.0), dual.hi[F])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(step > 0, (high - beta[F]) / step, np.where(step < 0, (low - beta[F]) / step, np.inf))
    if not share.size or not np.nanmin(share) < 1.0:
        return 1.0, None
    a = int(np.nanargmin(share))
    return max(0.0, float(share[a])), (int(F[a]), float(high[a] if step[a] > 0 else low[a]))


def _worst(dual: Dual, beta: Array, e: Array, free: Array, b: float) -> tuple[int, float, float]:
    """The row at a bound that gains most by moving, which way, and by how much per unit."""
    up, down = dual.rates(beta, e)
    up[free], down[free] = -np.inf, np.inf
    i, j = int(np.argmax(up)), int(np.argmin(down))
    if np.isnan(b):  # no row is free: only a pair can move, and its first half is as good as its second
        return (i, 1.0, float(up[i] - down[j])) if np.isfinite(up[i] - down[j]) else (i, 1.0, 0.0)
    rise, fall = float(up[i] - b), float(b - down[j])
    return (i, 1.0, rise) if rise >= fall else (j, -1.0, fall)
