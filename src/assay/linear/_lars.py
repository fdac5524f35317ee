"""The kernel behind `Lars`: one event after another along the path, on a Cholesky factor that follows the active set.

In coordinates where every column z_j and the target t have length one, and with weights v_j (what the lengths of the
original columns make of the penalty), the active set A with signs s satisfies

    z_j'(t - Z b) = C s_j v_j  for j in A,      so that   b_A(C) = G_A^-1 q_A - C G_A^-1 (s v)_A,

with G = Z'Z, q = Z't. As the level falls from C to C', the correlations c_j of the others move to c_j - (C - C') a_j
with a = Z'Z_A G_A^-1 (s v)_A, and the next event is at the largest C' <= C for which

    s (c_j - (C - C') a_j) = C' v_j    column j joins with sign s = +1 or -1,
    b_i(C') = 0                        column i leaves (the lasso modification only), or C' = 0.

The coefficients come from the closed form at every knot, so rounding does not pile up along the path. A column
whose share outside the span of the active ones is below `tol` is passed over until one of those leaves. One that
left is not taken back with the same sign before C has moved, so ties cannot make the path go round in circles.
Cost per event: k^2 + k p with the Gram matrix, n p + k n on rows, where the n p
are in single precision: they bound every column's distance, and only columns that may be the next are computed in full.
Efron, Hastie, Johnstone and Tibshirani (2004), Ann. Statist. 32, 407-499; Osborne, Presnell and Turlach (2000), IMA
J. Numer. Anal. 20, 389-403.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["follow"]

FREE, ACTIVE, BARRED, ALIASED = 0, 1, 2, 3
END, JOIN, DROP = 0, 1, 2
NOISE = 1e-14
REFRESH = 24

# Places in the vector of counters that the kernel carries from call to call.
SIZE, DONE, AGE, EVENTS = 0, 1, 2, 3


@kernel
def follow(
    lasso: Any,
    rows: Any,
    G: Any,
    Z: Any,
    Z32: Any,
    t: Any,
    q: Any,
    v: Any,
    tol: Any,
    rank: Any,
    limit: Any,
    most: Any,
    active: Any,
    status: Any,
    sign: Any,
    c: Any,
    R: Any,
    f: Any,
    x: Any,
    h: Any,
    a: Any,
    r: Any,
    u: Any,
    u32: Any,
    level: Any,
    count: Any,
    out_level: Any,
    out_size: Any,
    out_rss: Any,
    out_index: Any,
    out_value: Any,
) -> Any:
    """Follow the path from its present state until it ends or the output is full; return how many knots were written.

    `limit` is how many columns may be active, `rank` how many can be, `most` the events allowed in all.
    `level` carries (C, error of c), `count` (active columns, done, age of c, events); done becomes 1 at the end
    of the path and 2 when `most` is reached.
    """
    p, written = q.size, 0
    while written < out_level.size and count[DONE] == 0:
        k, C = count[SIZE], level[0]
        if count[EVENTS] >= most:
            count[DONE] = 2
            break
        solve_direction(R, f, x, k)
        if count[AGE] >= REFRESH:
            refresh(rows, G, Z, t, q, active, x, C, k, c, r)
            count[AGE], level[1] = 0, 0.0
        slack = move_correlations(rows, G, Z, Z32, active, status, x, k, a, u, u32)
        fits = False
        event, who, low = END, -1, 0.0
        while not fits:  # pass over columns that the active ones already span
            event, who, low = next_drop(C, active, sign, v, x, k) if lasso else (END, -1, 0.0)
            if k < rank:
                j, joined = next_join(rows, C, low, level[1], slack, Z, r, u, c, a, v, status, sign)
                if j >= 0:
                    event, who, low = JOIN, j, joined
            fits = event != JOIN or k >= limit or append(rows, G, Z, R, h, active, k, who, tol)
            if not fits:
                status[who] = ALIASED
        step = C - low
        moved = step > 1e-15 * C
        C = low
        level[0] = C
        level[1] += step * slack
        for j in range(p):
            c[j] -= step * a[j]
        if rows:
            for i in range(r.size):
                r[i] -= step * u[i]
        gain = 0.0
        for i in range(k):
            j = active[i]
            value = 0.0 if event == DROP and i == who else x[1, i] - C * x[0, i]
            c[j] = C * sign[j] * v[j]
            gain += value * (q[j] + c[j])
            out_index[written, i] = j
            out_value[written, i] = value
        out_level[written], out_size[written], out_rss[written] = C, k, max(0.0, 1.0 - gain)
        written += 1
        count[AGE] += 1
        count[EVENTS] += 1
        if moved:
            for j in range(p):
                if status[j] == BARRED:
                    status[j] = FREE
        if event == END or (event == JOIN and k >= limit):
            count[DONE] = 1
        elif event == JOIN:
            enter(R, f, q, v, c, active, status, sign, k, who)
            count[SIZE] = k + 1
        else:
            leave(R, f, active, status, k, who)
            count[SIZE] = k - 1
            for j in range(p):
                if status[j] == ALIASED:
                    status[j] = FREE
    return written


@kernel
def next_drop(C: Any, active: Any, sign: Any, v: Any, x: Any, k: Any) -> Any:
    """The nearest level below C at which a coefficient comes back to zero.

    One whose penalty is down at the size of rounding is as good as free and stays: it could not be told when to return.
    """
    event, who, low = END, -1, 0.0
    for i in range(k):
        s = sign[active[i]]
        if -s * x[0, i] > 0.0:
            # From the present solve, not from the last knot: the two differ where columns are nearly collinear.
            level = min(C, x[1, i] / x[0, i])
            if level > low and level * v[active[i]] > NOISE:
                event, who, low = DROP, i, level
    return event, who, low


@kernel
def next_join(
    rows: Any,
    C: Any,
    low: Any,
    c_error: Any,
    a_error: Any,
    Z: Any,
    r: Any,
    u: Any,
    c: Any,
    a: Any,
    v: Any,
    status: Any,
    sign: Any,
) -> Any:
    """The leftmost column that joins first, above the level `low`, and its level; -1 when there is none.

    c and a are known up to c_error and a_error. The first look finds a distance that the first column to join
    cannot exceed, the second computes exactly, from the rows, those columns that may come before it.
    """
    bound = C - low
    if rows:
        for j in range(c.size):
            if status[j] == FREE or status[j] == BARRED:
                for s in (1.0, -1.0):
                    close = v[j] - s * a[j] - a_error
                    if close > 0.0 and not (status[j] == BARRED and s == sign[j]):
                        g = max(0.0, C * v[j] - s * c[j] + c_error) / close
                        if g < bound and (C - g) * v[j] > NOISE:
                            bound = g
    who = -1
    for j in range(c.size):
        if status[j] != FREE and status[j] != BARRED:
            continue
        for s in (1.0, -1.0):
            close = v[j] - s * a[j]
            if close + a_error <= 0.0 or (status[j] == BARRED and s == sign[j]):
                continue
            if rows:
                # The margin is for rounding, which may differ between the two looks at the same column.
                if (1.0 - 1e-12) * C * v[j] - s * c[j] - c_error > bound * (close + a_error):
                    continue
                z, c[j], a[j] = Z[j], 0.0, 0.0
                for m in range(z.size):
                    c[j] += z[m] * r[m]
                    a[j] += z[m] * u[m]
                close = v[j] - s * a[j]
                if close <= 0.0:
                    continue
            # The level itself, not C less a distance, which would swallow it where columns differ much in scale.
            level = min(C, s * (c[j] - C * a[j]) / close)
            # Correlations of the size of rounding say nothing; the path then runs on to its end.
            if level > low and level * v[j] > NOISE:
                who, low = j, level
    return who, low


@kernel
def move_correlations(
    rows: Any, G: Any, Z: Any, Z32: Any, active: Any, status: Any, x: Any, k: Any, a: Any, u: Any, u32: Any
) -> Any:
    """How fast each correlation falls along the present direction, a = Z'Z_A x_A; returns the error of a."""
    if not rows:
        combine(G, active, x, k, a)
        return 0.0
    combine(Z, active, x, k, u)
    length = 0.0
    for m in range(u.size):
        length += u[m] * u[m]
    length = np.sqrt(length)
    for m in range(u.size):
        u32[m] = u[m] / max(length, 1e-300)
    for j in range(a.size):
        z, product = Z32[j], np.float32(0.0)
        if status[j] == FREE or status[j] == BARRED:
            for m in range(z.size):
                product += z[m] * u32[m]
        a[j] = length * product
    # A sum of n products in single precision, in whatever order, and the rounding of both factors.
    return length * (u.size + 2) * 6e-8


@kernel
def combine(rows: Any, which: Any, x: Any, k: Any, out: Any) -> Any:
    """out = the sum of x[0, i] times row which[i], four rows at a time to spare the traffic of `out`."""
    for m in range(out.size):
        out[m] = 0.0
    i = 0
    while i + 4 <= k:
        za, zb, zc, zd = rows[which[i]], rows[which[i + 1]], rows[which[i + 2]], rows[which[i + 3]]
        xa, xb, xc, xd = x[0, i], x[0, i + 1], x[0, i + 2], x[0, i + 3]
        for m in range(out.size):
            out[m] += xa * za[m] + xb * zb[m] + xc * zc[m] + xd * zd[m]
        i += 4
    while i < k:
        z, weight = rows[which[i]], x[0, i]
        for m in range(out.size):
            out[m] += weight * z[m]
        i += 1


@kernel
def refresh(rows: Any, G: Any, Z: Any, t: Any, q: Any, active: Any, x: Any, C: Any, k: Any, c: Any, r: Any) -> Any:
    """Correlations from the coefficients anew, to shed what rounding has added step by step."""
    if rows:
        for m in range(r.size):
            r[m] = t[m]
        for i in range(k):
            z, weight = Z[active[i]], x[1, i] - C * x[0, i]
            for m in range(r.size):
                r[m] -= weight * z[m]
        for j in range(c.size):
            z, product = Z[j], 0.0
            for m in range(z.size):
                product += z[m] * r[m]
            c[j] = product
    else:
        for j in range(c.size):
            c[j] = q[j]
        for i in range(k):
            g, weight = G[active[i]], x[1, i] - C * x[0, i]
            for j in range(c.size):
                c[j] -= weight * g[j]


@kernel
def solve_direction(R: Any, f: Any, x: Any, k: Any) -> Any:
    """Both right-hand sides at once, R x = f, by rows of R."""
    for i in range(k - 1, -1, -1):
        row, first, second = R[i], f[0, i], f[1, i]
        for m in range(i + 1, k):
            first -= row[m] * x[0, m]
            second -= row[m] * x[1, m]
        x[0, i], x[1, i] = first / row[i], second / row[i]


@kernel
def append(rows: Any, G: Any, Z: Any, R: Any, h: Any, active: Any, k: Any, j: Any, tol: Any) -> Any:
    """Write the factor's last column for column j of the data; False when the active columns span it."""
    for i in range(k):
        if rows:
            z, other, g = Z[j], Z[active[i]], 0.0
            for m in range(z.size):
                g += z[m] * other[m]
            h[i] = g
        else:
            h[i] = G[j, active[i]]
    left = 1.0
    for i in range(k):
        row = R[i]
        h[i] /= row[i]
        g = h[i]
        left -= g * g
        for m in range(i + 1, k):
            h[m] -= g * row[m]
    if left <= tol:
        return False
    for i in range(k):
        R[i, k] = h[i]
    R[k, k] = np.sqrt(left)
    return True


@kernel
def enter(R: Any, f: Any, q: Any, v: Any, c: Any, active: Any, status: Any, sign: Any, k: Any, j: Any) -> Any:
    """Column j, whose column is already in the factor, becomes active with the sign of its correlation."""
    active[k], status[j] = j, ACTIVE
    sign[j] = 1.0 if c[j] >= 0.0 else -1.0
    first, second = sign[j] * v[j], q[j]
    for m in range(k):
        first -= R[m, k] * f[0, m]
        second -= R[m, k] * f[1, m]
    f[0, k], f[1, k] = first / R[k, k], second / R[k, k]


@kernel
def leave(R: Any, f: Any, active: Any, status: Any, k: Any, at: Any) -> Any:
    """The active column in place `at` leaves; rotations of rows bring the factor back to triangular form."""
    status[active[at]] = BARRED
    for i in range(at, k - 1):
        active[i] = active[i + 1]
    for i in range(k):
        row = R[i]
        for m in range(max(at, i - 1), k - 1):
            row[m] = row[m + 1]
    for i in range(at, k - 1):
        upper, lower = R[i], R[i + 1]
        length = np.hypot(upper[i], lower[i])
        cosine, sine = upper[i] / length, lower[i] / length
        for m in range(i, k - 1):
            above, below = upper[m], lower[m]
            upper[m] = cosine * above + sine * below
            lower[m] = cosine * below - sine * above
        for side in range(2):
            above, below = f[side, i], f[side, i + 1]
            f[side, i] = cosine * above + sine * below
            f[side, i + 1] = cosine * below - sine * above
