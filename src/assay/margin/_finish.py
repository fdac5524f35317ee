"""The end of a dual ascent in double precision: an active-set method from where a first-order solver stopped.

Given which rows are free, the optimum solves a linear system,

    (K_FF 1; 1' 0) (beta_F; b) = (c_F - eps sign - K_FB beta_B; total - sum beta_B).

A step towards its solution ends at the first bound, which takes that row out of F; at the
solution, the row that violates its condition most comes in. D never falls, and the end is exact to rounding: it does
not depend on the solver, on the order of rows, or on whether a row is repeated or weighted.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, qr, solve

from assay.margin._dual import Dual

__all__ = ["finish"]

Array = np.ndarray
CLOSE = 1e-10
"""KKT violation that counts as none, relative to the size of e."""
FAR = 1e15
"""A step that meets a bound for certain."""
MANY, LOOSE = 100, 50
"""Of more free rows than this with more null directions than that, rows are first taken out along them."""


def finish(K: Array, dual: Dual, beta: Array, rounds: int = 400) -> tuple[Array, Array] | None:
    """The optimum (beta, e) near `beta`, or None where it is not reached within the rounds (or D would fall)."""
    beta = np.clip(beta, dual.lo, dual.hi)
    e = dual.c - K @ beta
    met = not dual.coupled or abs(beta.sum() - dual.total) <= 1e-9 * (1.0 + np.abs(beta).sum())
    before = dual.objective(beta, e) if met else -np.inf
    free = (beta > dual.lo) & (beta < dual.hi) & (beta != 0)
    side = np.sign(beta)  # which side of zero a free row moves on
    size = 1.0 + float(np.abs(dual.c).max()) + float(np.abs(dual.c - e).max())
    if np.count_nonzero(free) > MANY:
        _thin(K, dual, beta, e, free, side)
        e = dual.c - K @ beta
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
            after = dual.objective(beta, e)
            return (beta, e) if after >= before - 1e-9 * (1.0 + abs(after)) else None
        free[row] = True
        side[row] = np.sign(beta[row]) if beta[row] else way
    return None


def _towards(K: Array, dual: Dual, beta: Array, e: Array, F: Array, side: Array) -> tuple[Array, float]:
    """The change of the free rows that solves their equations, and the bias then (NaN where no row is free)."""
    r = e[F] - dual.eps * side
    if not F.size:
        return r, np.nan if dual.coupled else 0.0
    KF = K[np.ix_(F, F)]
    right = np.column_stack([r, np.ones(F.size)]) if dual.coupled else r[:, None]
    try:
        made = cho_solve(cho_factor(KF, lower=True, check_finite=False), right, check_finite=False)
        if np.abs(KF @ made - right).max() <= 1e-9 * (1.0 + np.abs(right).max()):
            if not dual.coupled:
                return made[:, 0], 0.0
            short = dual.total - beta.sum()
            b = (made[:, 0].sum() - short) / made[:, 1].sum()
            return made[:, 0] - b * made[:, 1], float(b)
    except np.linalg.LinAlgError:
        pass
    return _singular(KF, r, dual.total - beta.sum() if dual.coupled else None)


def _singular(KF: Array, r: Array, short: float | None) -> tuple[Array, float]:
    """The same where K_FF is singular: the shortest solution, or far along a direction in which D is linear."""
    m = r.size
    scale = float(np.abs(KF).max())
    scale = scale if scale > 1e-100 else 1.0  # rows that are nothing to the kernel have no scale of their own
    if short is None:
        A, right = KF / scale, r / scale
    else:
        A = np.zeros((m + 1, m + 1))
        A[:m, :m], A[m, :m], A[:m, m] = KF / scale, 1.0, 1.0
        right = np.append(r / scale, short)
    values, vectors = eigh(A, check_finite=False)
    large = np.abs(values) > m * 1e-13 * np.abs(values).max(initial=1e-300)
    found = vectors[:, large] @ ((vectors[:, large].T @ right) / values[large])
    left = (right - A @ found)[:m]
    b = 0.0 if short is None else float(found[m] * scale)
    if np.abs(left).max() > 1e-9 * (np.abs(right).max() + 1e-300):
        return left * (FAR / np.abs(left).max()), b
    return found[:m], b


def _thin(K: Array, dual: Dual, beta: Array, e: Array, free: Array, side: Array) -> None:
    """Move free rows to their bounds along directions that change neither K beta nor its sum, where there are many.

    Otherwise each of them would cost a round, and a round the eigenvectors of all free rows. D is linear along them.
    The directions are kept as in the simplex method: each moves one row `out` of its own, and the `basic` rows.
    """
    F = np.flatnonzero(free)
    KF = K[np.ix_(F, F)]
    A = KF if not dual.coupled else KF + float(np.abs(KF).max())  # K v = 0 and 1'v = 0
    values, vectors = eigh(A, check_finite=False)
    N = vectors[:, np.abs(values) <= F.size * 1e-13 * np.abs(values).max(initial=1e-300)]
    k = N.shape[1]
    if k <= LOOSE:
        return
    order = qr(N.T, mode="r", pivoting=True, check_finite=False)[1]
    out, basic = F[order[:k]], F[order[k:]]
    T = solve(N[order[:k]].T, N[order[k:]].T, check_finite=False).T
    r = e - dual.eps * side
    for j in range(k):
        column = np.where(np.abs(T[:, j]) > 1e-9 * np.abs(T[:, j]).max(initial=1.0), T[:, j], 0.0)
        rows, way = np.append(basic, out[j]), np.append(column, 1.0)
        way *= np.copysign(FAR, r[rows] @ way)
        share, hit = _first_bound(dual, beta, rows, way, side[rows])
        if hit is None:
            continue
        beta[rows] += share * way
        beta[hit[0]], free[hit[0]] = hit[1], False
        if hit[0] != out[j]:
            i = int(np.argmax(basic == hit[0]))
            share_of = T[i, j + 1 :] / T[i, j]
            T[:, j + 1 :] -= T[:, j][:, None] * share_of
            T[i, j + 1 :], basic[i] = -share_of, out[j]
    np.clip(beta, dual.lo, dual.hi, out=beta)


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
