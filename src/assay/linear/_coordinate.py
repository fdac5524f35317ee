# mypy: disable-error-code="no-untyped-def"
# Kernels are typed by Numba, from the arrays they are called with.
"""Coordinate descent for the lasso and the elastic net on a Gram matrix, finished by Newton steps on a face.

    minimise  1/2 yy - c'b + 1/2 b'Gb + sum_j l_j |b_j| + 1/2 sum_j d_j b_j^2,     q = c - G b.

One coordinate has the closed form (soft thresholding)

    b_j <- S(G_jj b_j + q_j, l_j) / (G_jj + d_j),    S(z, lam) = sign(z) max(|z| - lam, 0).

Sweeps find the support and its signs in a few rounds and then crawl; on a face of fixed signs the objective
is quadratic, so one solve with the Cholesky factor of (G + D) on the support ends the crawl. The step stops
where the first coefficient reaches zero (that one leaves), so the objective never rises, and the factor is
kept along a path: a coefficient that enters appends a row, one that leaves is rotated out, O(k^2) each. A column
that depends on the factored ones moves along the null direction, which changes only the penalty, until a
coefficient vanishes; so duplicate and collinear columns, and more columns than rows, need no special care.

The duality gap P(b) - D(theta) with theta a multiple of the residual bounds P(b) - min P and certifies each answer.

Friedman, Hastie and Tibshirani (2010), J. Stat. Software 33(1); Osborne, Presnell and Turlach (2000), IMA J.
Numer. Anal. 20, 389-403; Fercoq, Gramfort and Salmon (2015), ICML (duality gap).
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["CYCLIC", "GREEDY", "PATIENCE", "RANDOM", "certificate", "gram_path", "gram_solve"]

CYCLIC, RANDOM, GREEDY = 0, 1, 2

DEPENDENT = 1e-10
"""A column whose share outside the span of the factored ones is below this has no coefficient of its own."""

EXACT = 1e-12
"""KKT conditions hold to rounding when no violation exceeds this share of its Cauchy-Schwarz bound."""

PATIENCE = 3
"""Rounds granted, once the gap is small enough, to reach the KKT conditions to rounding."""

ACTIVE_SWEEPS = 5
"""Sweeps over the support between two sweeps over all columns: cheaper than letting the Newton step find the signs."""

FACE_ROUNDS = 32
"""How many coefficients may leave in one visit to the Newton step before sweeps take over again."""


@kernel
def duality_gap(ry, rr, l1, d2, worst, excess, ridge):
    """Gap from <r, y>, |r|^2, sum lam|b|, sum d b^2, max |q - d b| / lam, sum (|q| - lam)_+^2 / d.

    The dual point is the residual, shrunk until it is feasible; where every d_j > 0 (`ridge`) it
    may also stay as it is and pay for the excess. Both are bounds, the smaller one counts.
    """
    primal = 0.5 * (rr + d2) + l1
    gap = np.inf
    size = rr + d2
    if np.isfinite(worst):
        scale = 1.0 if size <= 0.0 else max(ry / size, 0.0)
        if worst * scale > 1.0:
            scale = 1.0 / worst
        gap = primal - (scale * ry - 0.5 * scale * scale * size)
    if ridge:
        gap = min(gap, primal - (ry - 0.5 * rr - 0.5 * excess))
    return max(gap, 0.0)


@kernel
def gap_of(ry, rr, b, q, lam, d, m, positive):
    """The duality gap of b over the first m columns from <r, y>, |r|^2 and the gradient q = X'r."""
    l1, d2, worst, excess = 0.0, 0.0, 0.0, 0.0
    ridge = True
    for j in range(m):
        bj = b[j]
        l1 += lam[j] * abs(bj)
        d2 += d[j] * bj * bj
        z = q[j] - d[j] * bj
        z = z if positive else abs(z)
        if z > 0.0:
            worst = max(worst, z / lam[j] if lam[j] > 0.0 else np.inf)
        if d[j] <= 0.0:
            ridge = False
        else:
            over = (q[j] if positive else abs(q[j])) - lam[j]
            if over > 0.0:
                excess += over * over / d[j]
    return duality_gap(ry, rr, l1, d2, worst, excess, ridge)


@kernel
def certificate(y, r, b, q, lam, d, positive):
    """The duality gap of b from the residual and the gradient of all columns."""
    ry, rr = 0.0, 0.0
    for i in range(y.size):
        ry += r[i] * y[i]
        rr += r[i] * r[i]
    return gap_of(ry, rr, b, q, lam, d, b.size, positive)


@kernel
def gram_gap(m, c, yy, lam, d, positive, b, q):
    """The same with |r|^2 = yy - b'(c + q) and <r, y> = yy - b'c."""
    cb, bq = 0.0, 0.0
    for j in range(m):
        cb += c[j] * b[j]
        bq += q[j] * b[j]
    return gap_of(yy - cb, max(yy - cb - bq, 0.0), b, q, lam, d, m, positive)


@kernel
def carry(G, m, members, count, change, q):
    """q -= sum over the members of change_j G_j, four columns at a time so that q is read a quarter as often."""
    i = 0
    while i + 4 <= count:
        j0, j1, j2, j3 = members[i], members[i + 1], members[i + 2], members[i + 3]
        a0, a1, a2, a3 = change[j0], change[j1], change[j2], change[j3]
        r0, r1, r2, r3 = G[j0], G[j1], G[j2], G[j3]
        for t in range(m):
            q[t] -= a0 * r0[t] + a1 * r1[t] + a2 * r2[t] + a3 * r3[t]
        i += 4
    while i < count:
        a, r = change[members[i]], G[members[i]]
        for t in range(m):
            q[t] -= a * r[t]
        i += 1


@kernel
def gradient(G, m, c, b, q, before):
    """q = c - G b over the first m columns, afresh."""
    count = 0
    for j in range(m):
        q[j] = c[j]
        if b[j] != 0.0:
            before[count] = j
            count += 1
    carry(G, m, before, count, b, q)


@kernel
def next_random(seed):
    """Advance a xorshift generator and return its state."""
    x = seed[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    seed[0] = x
    return x


@kernel
def best_value(j, h, lam, d, positive, b, q):
    """The minimiser over coordinate j. Rounding alone does not make a coefficient enter."""
    bj = b[j]
    z = h * bj + q[j]
    if bj == 0.0 and abs(z) <= lam[j] * (1.0 + 1e-12):
        return 0.0
    if z > lam[j]:
        return (z - lam[j]) / (h + d[j])
    if z < -lam[j] and not positive:
        return (z + lam[j]) / (h + d[j])
    return 0.0


@kernel
def move(G, m, j, value, b, q):
    """Set b_j and carry the gradient along."""
    delta = value - b[j]
    b[j] = value
    row = G[j]
    for i in range(m):
        q[i] -= delta * row[i]


@kernel
def sweep(G, m, lam, d, positive, b, q, selection, seed, only_active):
    """As many coordinate updates as there are coordinates, in the order asked for."""
    for turn in range(m):
        j = turn
        if selection == 1:
            j = np.int64(next_random(seed) % np.uint64(m))
        elif selection == 2:
            j = greediest(G, m, lam, d, positive, b, q, only_active)
            if j < 0:
                return
        if only_active and b[j] == 0.0:
            continue
        h = G[j, j]
        if h > 0.0:
            value = best_value(j, h, lam, d, positive, b, q)
            if value != b[j]:
                move(G, m, j, value, b, q)


@kernel
def greediest(G, m, lam, d, positive, b, q, only_active):
    """The coordinate with the largest step in units of its curvature (Gauss-Southwell), -1 if none moves."""
    best, at = 0.0, -1
    for j in range(m):
        h = G[j, j]
        if h <= 0.0 or (only_active and b[j] == 0.0):
            continue
        step = (best_value(j, h, lam, d, positive, b, q) - b[j]) ** 2 * (h + d[j])
        if step > best * (1.0 + 1e-12):
            best, at = step, j
    return at


@kernel
def append(G, j, d, L, order, slot, k):
    """Add column j to the factor as row k; False where it depends on the rows already there.

    Row k is filled with L^-1 G_Aj either way, which the null direction needs.
    """
    row = L[k]
    total = 0.0
    for i in range(k):
        Li = L[i]
        s = G[j, order[i]]
        for t in range(i):
            s -= Li[t] * row[t]
        row[i] = s / Li[i]
        total += row[i] * row[i]
    h = G[j, j] + d[j]
    pivot = h - total
    if pivot <= DEPENDENT * h or k + 1 >= L.shape[0]:
        return False
    row[k] = np.sqrt(pivot)
    order[k] = j
    slot[j] = k
    return True


@kernel
def remove(L, order, slot, k, at, cosines, sines):
    """Take row `at` out of a factor of k rows: shift the later rows up and rotate them back to a triangle."""
    slot[order[at]] = -1
    for i in range(at, k - 1):
        order[i] = order[i + 1]
        slot[order[i]] = i
        old, row = L[i + 1], L[i]
        for t in range(at):
            row[t] = old[t]
        carry = old[at]
        for t in range(at, i):
            following = old[t + 1]
            row[t] = cosines[t] * carry + sines[t] * following
            carry = cosines[t] * following - sines[t] * carry
        last = old[i + 1]
        radius = np.sqrt(carry * carry + last * last)
        cosines[i] = carry / radius
        sines[i] = last / radius
        row[i] = radius


@kernel
def solve_back(L, k, x):
    """x <- L'^-1 x."""
    for i in range(k - 1, -1, -1):
        row = L[i]
        x[i] /= row[i]
        xi = x[i]
        for t in range(i):
            x[t] -= xi * row[t]


@kernel
def solve_forward(L, k, x):
    """x <- L^-1 x."""
    for i in range(k):
        row = L[i]
        s = x[i]
        for t in range(i):
            s -= row[t] * x[t]
        x[i] = s / row[i]


@kernel
def slide(G, m, j, lam, b, q, L, order, slot, k, step, cosines, sines):
    """Column j depends on the factored ones: move along the null direction until a coefficient vanishes.

    Returns the new number of factored columns; b_j is zero afterwards, or one of the others has left.
    """
    for i in range(k):
        step[i] = -L[k, i]
    solve_back(L, k, step)  # d b_A / d b_j with the fit held still
    slope = lam[j] if b[j] > 0.0 else -lam[j]
    for i in range(k):
        slope += (lam[order[i]] if b[order[i]] > 0.0 else -lam[order[i]]) * step[i]
    toward = -1.0 if slope > 0.0 or (slope == 0.0 and b[j] > 0.0) else 1.0
    length, hit = np.inf, -1
    if b[j] * toward < 0.0:
        length = abs(b[j])
    for i in range(k):
        rate = step[i] * toward
        at = b[order[i]]
        if at * rate < 0.0 and -at / rate < length:
            length, hit = -at / rate, i
    if not np.isfinite(length):
        move(G, m, j, 0.0, b, q)
        return k
    move(G, m, j, 0.0 if hit < 0 else b[j] + toward * length, b, q)
    for i in range(k):
        i_at = order[i]
        move(G, m, i_at, 0.0 if i == hit else b[i_at] + toward * length * step[i], b, q)
    if hit >= 0:
        remove(L, order, slot, k, hit, cosines, sines)
        return k - 1
    return k


@kernel
def follow_support(G, m, lam, d, b, q, L, order, slot, k, step, cosines, sines):
    """Bring the factor in line with the support of b; returns the number of factored columns."""
    i = k - 1
    while i >= 0:
        if b[order[i]] == 0.0:
            remove(L, order, slot, k, i, cosines, sines)
            k -= 1
        i -= 1
    for j in range(m):
        while b[j] != 0.0 and slot[j] < 0:
            if append(G, j, d, L, order, slot, k):
                k += 1
            else:
                k = slide(G, m, j, lam, b, q, L, order, slot, k, step, cosines, sines)
    return k


@kernel
def newton_on_face(G, m, lam, d, b, q, L, order, slot, k, scratch, before):
    """Minimise over the face of the current signs; stop at each coefficient that reaches zero and drop it.

    A step of length t along the Newton direction leaves (1 - t) times the gradient on the face, so the
    gradient is carried to all columns only once, at the end.
    """
    step, rhs, change = scratch[0], scratch[3], scratch[4]
    first = k
    for i in range(k):
        j = order[i]
        before[i] = j
        change[j] = b[j]
        rhs[j] = q[j] - d[j] * b[j] - (lam[j] if b[j] > 0.0 else -lam[j])
    for _ in range(FACE_ROUNDS):
        for i in range(k):
            step[i] = rhs[order[i]]
        solve_forward(L, k, step)
        solve_back(L, k, step)
        length, hit = 1.0, -1
        for i in range(k):
            at = b[order[i]]
            if at * (at + step[i]) <= 0.0 and (hit < 0 or -at / step[i] < length):
                length, hit = -at / step[i], i
        for i in range(k):
            j = order[i]
            b[j] += length * step[i]
            rhs[j] *= 1.0 - length
        if hit < 0:
            break
        b[order[hit]] = 0.0
        remove(L, order, slot, k, hit, scratch[1], scratch[2])
        k -= 1
    for i in range(first):
        change[before[i]] = b[before[i]] - change[before[i]]
    carry(G, m, before, first, change, q)
    return k


@kernel
def violation(G, m, yy, lam, d, positive, b, q):
    """The largest violation of the KKT conditions, as a share of its bound |x_j| |y|."""
    worst = 0.0
    for j in range(m):
        if G[j, j] <= 0.0:
            continue
        if b[j] != 0.0:
            over = abs(q[j] - d[j] * b[j] - (lam[j] if b[j] > 0.0 else -lam[j]))
        else:
            over = (q[j] if positive else abs(q[j])) - lam[j]
        if over > 0.0:
            worst = max(worst, over / np.sqrt(G[j, j] * yy))
    return worst


@kernel
def gram_solve(
    G, m, c, yy, lam, d, positive, b, q, L, order, slot, k, scratch, before, selection, seed, tol, max_iter, patience
):
    """Solve over the first m columns from the warm start b.

    `L, order, slot, k` hold the Cholesky factor of the support between calls with the same d. Returns the duality gap,
    the number of sweeps and the number of factored columns. When the gap is below `tol`, up to `patience` more rounds
    try to reach the KKT conditions to rounding.
    """
    step, cosines, sines = scratch[0], scratch[1], scratch[2]
    gradient(G, m, c, b, q, before)
    sweeps, crawl, extra = 0, 0.0, 0
    gap = np.inf
    while True:
        sweep(G, m, lam, d, positive, b, q, selection, seed, False)
        more = min(ACTIVE_SWEEPS, max_iter - sweeps - 1)
        for _ in range(more):
            sweep(G, m, lam, d, positive, b, q, selection, seed, True)
        sweeps += 1 + more
        support = 0
        for j in range(m):
            support += b[j] != 0.0
        crawl += (1.0 + more) * support * m
        if k > 0 or support <= 64 or crawl >= support**3 / 6.0:
            k = follow_support(G, m, lam, d, b, q, L, order, slot, k, step, cosines, sines)
            k = newton_on_face(G, m, lam, d, b, q, L, order, slot, k, scratch, before)
        gap = gram_gap(m, c, yy, lam, d, positive, b, q)
        exact = violation(G, m, yy, lam, d, positive, b, q) <= EXACT
        if exact or (gap <= tol and extra >= patience) or sweeps >= max_iter:
            break
        extra += gap <= tol
    gradient(G, m, c, b, q, before)
    return gram_gap(m, c, yy, lam, d, positive, b, q), sweeps, k


@kernel
def forget(slot, order, k):
    """Empty the factor."""
    for i in range(k):
        slot[order[i]] = -1
    return 0


@kernel
def gram_path(
    G,
    c,
    yy,
    l1,
    l2,
    alphas,
    positive,
    selection,
    seed,
    tol,
    max_iter,
    L,
    order,
    slot,
    scratch,
    before,
    b,
    coefs,
    gaps,
    iters,
):
    """Solve for every alpha in turn, each from the last: lam = alpha l1, d = alpha l2."""
    m = c.size
    lam, d, q = scratch[5], scratch[6], scratch[7]
    k = np.int64(0)  # a literal would have `gram_solve` compiled once more
    for a in range(alphas.size):
        changed = False
        for j in range(m):
            lam[j] = alphas[a] * l1[j]
            changed = changed or d[j] != alphas[a] * l2[j]
            d[j] = alphas[a] * l2[j]
        if changed:
            k = forget(slot, order, k)
        gaps[a], iters[a], k = gram_solve(
            G,
            m,
            c,
            yy,
            lam,
            d,
            positive,
            b,
            q,
            L,
            order,
            slot,
            k,
            scratch,
            before,
            selection,
            seed,
            tol,
            max_iter,
            PATIENCE,
        )
        for j in range(m):  # an assignment of rows takes a second to compile
            coefs[a, j] = b[j]
