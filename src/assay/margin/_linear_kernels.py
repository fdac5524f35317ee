"""Kernels of linear machines: an epoch of dual coordinate ascent and of stochastic subgradient steps, dense and sparse.

Each row is x_i with one more entry `one` (0: no bias), whose weight stands last in w. The dual is that of `_dual` with
K = X X' + one^2 and, for squared losses, extra_i added to its diagonal. Sums over stored cells keep their order
(`exact`): LLVM would read the weights by vector gathers, which take three times as long as one by one.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["dual_epoch", "dual_epoch_sparse", "subgradient_epoch", "subgradient_epoch_sparse"]

Array = np.ndarray


@kernel(inline=True)
def _moved(
    e: float, beta: float, lo: float, hi: float, eps: float, curve: float, growing: float, falling: float
) -> tuple[float, float, bool]:
    """Beta after its step, the violation it had, and whether the row can be left out of the next epochs.

    A row at zero is left out where it is further from growing than any row was from falling in the last epoch, a row at
    its bound likewise the other way round.
    """
    up = (e - eps if beta >= 0.0 else e + eps) if beta < hi else -np.inf
    down = (e - eps if beta > 0.0 else e + eps) if beta > lo else np.inf
    if up <= 0.0 and down >= 0.0:
        limit = falling if beta == 0.0 else growing
        return beta, 0.0, up < -limit and down > limit
    rate = up if up > 0.0 else down
    low = 0.0 if beta > 0.0 or (beta == 0.0 and rate > 0.0) else lo
    high = 0.0 if beta < 0.0 or (beta == 0.0 and rate < 0.0) else hi
    if curve > 0.0:
        return min(max(beta + rate / curve, low), high), abs(rate), False
    return high if rate > 0.0 else low, abs(rate), False


@kernel
def dual_epoch(
    X: Array,
    w: Array,
    one: float,
    bias: float,
    c: Array,
    lo: Array,
    hi: Array,
    extra: Array,
    curve: Array,
    eps: float,
    beta: Array,
    order: Array,
    limits: Array,
) -> tuple[int, float, float]:
    """One step on each row of `order`, which keeps those worth another look; how many, the violation, the gain in D.

    `limits` holds the largest violations of rows that grow and that fall in the last epoch, and then in this one.
    """
    p = X.shape[1]
    grew, fell, gained, kept = 0.0, 0.0, 0.0, 0
    for a in range(order.size):
        i = order[a]
        row = X[i]
        f = one * w[p]
        for k in range(p):
            f += row[k] * w[k]
        b = beta[i]
        new, broken, idle = _moved(c[i] - bias - f - extra[i] * b, b, lo[i], hi[i], eps, curve[i], limits[0], limits[1])
        if broken > 0.0:
            if abs(new) > abs(b) or b == 0.0:
                grew = max(grew, broken)
            else:
                fell = max(fell, broken)
        if not idle:
            order[kept] = i
            kept += 1
        if new != b:
            step = new - b
            beta[i] = new
            gained += abs(step) * (broken - 0.5 * abs(step) * curve[i])
            w[p] += step * one
            for k in range(p):
                w[k] += step * row[k]
    limits[0] = grew if grew > 0.0 else np.inf
    limits[1] = fell if fell > 0.0 else np.inf
    return kept, max(grew, fell), gained


@kernel(exact=True)
def dual_epoch_sparse(
    data: Array,
    indices: Array,
    indptr: Array,
    w: Array,
    one: float,
    bias: float,
    c: Array,
    lo: Array,
    hi: Array,
    extra: Array,
    curve: Array,
    eps: float,
    beta: Array,
    order: Array,
    limits: Array,
) -> tuple[int, float, float]:
    """The same for compressed rows."""
    p = w.size - 1
    grew, fell, gained, kept = 0.0, 0.0, 0.0, 0
    for a in range(order.size):
        i = order[a]
        first, last = indptr[i], indptr[i + 1]
        f = one * w[p]
        for k in range(first, last):
            f += data[k] * w[indices[k]]
        b = beta[i]
        new, broken, idle = _moved(c[i] - bias - f - extra[i] * b, b, lo[i], hi[i], eps, curve[i], limits[0], limits[1])
        if broken > 0.0:
            if abs(new) > abs(b) or b == 0.0:
                grew = max(grew, broken)
            else:
                fell = max(fell, broken)
        if not idle:
            order[kept] = i
            kept += 1
        if new != b:
            step = new - b
            beta[i] = new
            gained += abs(step) * (broken - 0.5 * abs(step) * curve[i])
            w[p] += step * one
            for k in range(first, last):
                w[indices[k]] += step * data[k]
    limits[0] = grew if grew > 0.0 else np.inf
    limits[1] = fell if fell > 0.0 else np.inf
    return kept, max(grew, fell), gained


@kernel(inline=True)
def _pull(r: float, eps: float, lo: float, hi: float) -> float:
    """The subgradient of a row's loss, as a coefficient of x_i."""
    return hi if r > eps else (lo if r < -eps else 0.0)


@kernel
def subgradient_epoch(
    X: Array,
    z: Array,
    tail: Array,
    one: float,
    c: Array,
    lo: Array,
    hi: Array,
    eps: float,
    order: Array,
    clock: Array,
    harmonic: Array,
    counts: Array,
) -> None:
    """Steps w_t = (1 - 1/t) w + (1/t) n g_i x_i on the rows of `order`; z = t w, `tail` adds up harmonic numbers.

    `clock` holds t and the t from which on weights are averaged; `counts` holds the same two sums by row.
    """
    n, p = X.shape
    t, since = clock[0], clock[1]
    for a in range(order.size):
        i = order[a]
        row = X[i]
        f = one * z[p]
        for k in range(p):
            f += row[k] * z[k]
        g = _pull(c[i] - f / max(t, 1.0), eps, lo[i], hi[i])
        t += 1.0
        if t > since:
            harmonic[0] += 1.0 / t
        if g != 0.0:
            step, late = n * g, n * g * (harmonic[0] - (1.0 / t if t > since else 0.0))
            counts[0, i] += step
            counts[1, i] += late
            z[p] += step * one
            tail[p] += late * one
            for k in range(p):
                z[k] += step * row[k]
                tail[k] += late * row[k]
    clock[0] = t


@kernel(exact=True)
def subgradient_epoch_sparse(
    data: Array,
    indices: Array,
    indptr: Array,
    z: Array,
    tail: Array,
    one: float,
    c: Array,
    lo: Array,
    hi: Array,
    eps: float,
    order: Array,
    clock: Array,
    harmonic: Array,
    counts: Array,
) -> None:
    """The same for compressed rows."""
    n, p = c.size, z.size - 1
    t, since = clock[0], clock[1]
    for a in range(order.size):
        i = order[a]
        first, last = indptr[i], indptr[i + 1]
        f = one * z[p]
        for k in range(first, last):
            f += data[k] * z[indices[k]]
        g = _pull(c[i] - f / max(t, 1.0), eps, lo[i], hi[i])
        t += 1.0
        if t > since:
            harmonic[0] += 1.0 / t
        if g != 0.0:
            step, late = n * g, n * g * (harmonic[0] - (1.0 / t if t > since else 0.0))
            counts[0, i] += step
            counts[1, i] += late
            z[p] += step * one
            tail[p] += late * one
            for k in range(first, last):
                z[indices[k]] += step * data[k]
                tail[indices[k]] += late * data[k]
    clock[0] = t
