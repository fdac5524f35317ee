"""Kernels of the dual: pairs of coordinates where a bias couples them, single ones where it does not.

All support vector machines of this family share one dual, in signed coefficients beta (alpha_i y_i for classes,
alpha_i - alpha_i* for numbers):

    max  D(beta) = c'beta - eps |beta|_1 - beta'K beta / 2,    lo <= beta <= hi,    sum beta fixed (with a bias only)

With e = c - K beta, moving beta_i up gains at the rate u_i = e_i - eps (beta_i >= 0) or e_i + eps (beta_i < 0), moving
it down costs l_i = e_i - eps (beta_i > 0) or e_i + eps (beta_i <= 0). Beta is optimal when the largest u of those that
may go up is at most the smallest l of those that may go down: the difference is the KKT violation. Zero is a kink of
|beta|_1 (and a bound for classes), so no step crosses it.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["coordinate_ascent", "gather", "pair_ascent", "subtract_rows"]

Array = np.ndarray

FLAT = 1e-12
"""Curvature is at least this share of the largest diagonal entry: where rows coincide, or K is not positive."""


@kernel(inline=True)
def _offsets(t: int, beta: Array, lo: Array, hi: Array, eps: float, up: Array, down: Array) -> None:
    """What must be added to e_t for the rates up and down; infinite where beta_t cannot move."""
    b = beta[t]
    up[t] = -np.inf if b >= hi[t] else (-eps if b >= 0.0 else eps)
    down[t] = np.inf if b <= lo[t] else (-eps if b > 0.0 else eps)


@kernel
def pair_ascent(
    K: Array,
    slot: Array,
    stamp: Array,
    diag: Array,
    e: Array,
    beta: Array,
    lo: Array,
    hi: Array,
    eps: float,
    tol: float,
    steps: int,
    active: Array,
    up: Array,
    down: Array,
) -> tuple[int, float, float, int]:
    """Make up to `steps` steps on pairs among the `active` rows; e is kept for all rows.

    The row that gains most per unit goes up; its partner is the one with the largest second-order gain. Row i of the
    Gram matrix stands in row slot[i] of K; where it is -1 the call ends and asks for it. Returns the number of steps,
    the gain in D, the KKT violation left, and the row asked for (-1: none).
    """
    n = e.size
    for a in range(active.size):
        _offsets(active[a], beta, lo, hi, eps, up, down)
    floor = FLAT * max(np.max(diag), 1e-300)
    gained, made = 0.0, 0
    clock = np.max(stamp) + 1
    while True:
        i, top = -1, -np.inf
        for a in range(active.size):
            t = active[a]
            rate = e[t] + up[t]
            if rate > top:
                top, i = rate, t
        if i < 0:
            return made, gained, 0.0, -1
        if slot[i] < 0:
            return made, gained, np.inf, i
        Ki, ki = K[slot[i]], diag[i]
        j, bottom, best, best_curve, best_rate = -1, np.inf, 0.0, 1.0, 0.0
        for a in range(active.size):
            t = active[a]
            rate = e[t] + down[t]
            if rate < bottom:
                bottom = rate
            d = top - rate
            if d > 0.0:
                curve = max(ki + diag[t] - 2.0 * Ki[t], floor)
                if d * d * best_curve > best * curve:
                    best, best_curve, best_rate, j = d * d, curve, rate, t
        if top - bottom <= tol or j < 0 or made >= steps:
            return made, gained, max(top - bottom, 0.0), -1
        if slot[j] < 0:
            return made, gained, top - bottom, j
        end_up = 0.0 if beta[i] < 0.0 else hi[i]
        end_down = 0.0 if beta[j] > 0.0 else lo[j]
        d = top - best_rate
        step = min(d / best_curve, end_up - beta[i], beta[j] - end_down)
        # Ends are met exactly, so that a row at its bound is known as such.
        met_up, met_down = step == end_up - beta[i], step == beta[j] - end_down
        beta[i] = end_up if met_up else beta[i] + step
        beta[j] = end_down if met_down else beta[j] - step
        gained += step * (d - 0.5 * step * (ki + diag[j] - 2.0 * Ki[j]))
        Kj = K[slot[j]]
        for t in range(n):
            e[t] -= step * (Ki[t] - Kj[t])
        _offsets(i, beta, lo, hi, eps, up, down)
        _offsets(j, beta, lo, hi, eps, up, down)
        stamp[slot[i]] = clock + made
        stamp[slot[j]] = clock + made
        made += 1


@kernel
def coordinate_ascent(
    K: Array, slot: Array, diag: Array, e: Array, beta: Array, lo: Array, hi: Array, eps: float, order: Array
) -> tuple[int, float, float]:
    """One step on each row of `order`, none coupled to another; returns steps that moved, gain and violation met."""
    n = e.size
    gained, moved, worst = 0.0, 0, 0.0
    for a in range(order.size):
        i = order[a]
        b = beta[i]
        rate_up = (e[i] - eps if b >= 0.0 else e[i] + eps) if b < hi[i] else -np.inf
        rate_down = (e[i] - eps if b > 0.0 else e[i] + eps) if b > lo[i] else np.inf
        if rate_up <= 0.0 and rate_down >= 0.0:
            continue
        rate = rate_up if rate_up > 0.0 else rate_down
        worst = max(worst, abs(rate))
        low = 0.0 if b > 0.0 or (b == 0.0 and rate > 0.0) else lo[i]
        high = 0.0 if b < 0.0 or (b == 0.0 and rate < 0.0) else hi[i]
        full = b + rate / diag[i] if diag[i] > 0.0 else (high if rate > 0.0 else low)
        step = min(max(full, low), high) - b
        beta[i] = min(max(full, low), high)
        gained += step * (rate - 0.5 * step * diag[i])
        Ki = K[slot[i]]
        for t in range(n):
            e[t] -= step * Ki[t]
        moved += 1
    return moved, gained, worst


@kernel
def subtract_rows(K: Array, slots: Array, factors: Array, e: Array, first: int, last: int) -> None:
    """e -= factors' K[slots] in the columns from `first` to `last`, four rows at a time."""
    for s in range(0, slots.size, 4):
        many = min(4, slots.size - s)
        if many == 4:
            a, b, c, d = K[slots[s]], K[slots[s + 1]], K[slots[s + 2]], K[slots[s + 3]]
            fa, fb, fc, fd = factors[s], factors[s + 1], factors[s + 2], factors[s + 3]
            for t in range(first, last):
                e[t] -= fa * a[t] + fb * b[t] + fc * c[t] + fd * d[t]
        else:
            for r in range(s, s + many):
                a, fa = K[slots[r]], factors[r]
                for t in range(first, last):
                    e[t] -= fa * a[t]


@kernel
def gather(K: Array, slots: Array, columns: Array, out: Array) -> None:
    """out = K[slots][:, columns]."""
    for a in range(slots.size):
        row, to = K[slots[a]], out[a]
        for b in range(columns.size):
            to[b] = row[columns[b]]
