# mypy: disable-error-code="no-untyped-def"
# Kernels are typed by Numba, from the arrays they are called with.
"""Kernels on sparse columns (CSC) that are centred and projected implicitly; see `_lasso_sparse` for the algebra.

`data, indices, indptr` are the columns, `Zt` (p, k) their coordinates in the projected-out basis, and the residual is
e + Q t. Indices are unsigned: Numba then need not ask whether each is negative, and the gathers vectorise.
"""

from __future__ import annotations

import numpy as np

from assay.linear._coordinate import next_random
from assay.numerics.jit import kernel

__all__ = [
    "face_descent",
    "members_gradient",
    "sparse_gradient",
    "sparse_objective",
    "sparse_sweep",
    "subtract_columns",
]

FLAT = 1e-11
"""Curvature below this share of the diagonal's is a null direction: the columns depend on each other."""


@kernel
def column_dot(data, indices, start, stop, e):
    """x_j' e."""
    s = 0.0
    for at in range(start, stop):
        s += data[at] * e[indices[at]]
    return s


@kernel
def sparse_gradient(data, indices, indptr, Zt, norms, e, t, q):
    """q_j = x_j' r for every column; zero for those that the projection leaves nothing of."""
    for j in range(q.size):
        if norms[j] <= 0.0:
            q[j] = 0.0
            continue
        s = column_dot(data, indices, indptr[j], indptr[j + 1], e)
        for a in range(t.size):
            s += Zt[j, a] * t[a]
        q[j] = s


@kernel
def sparse_sweep(data, indices, indptr, Zt, norms, lam, d, positive, members, b, e, t, random, seed):
    """Update each member once in the order given (or at random); returns the weighted size of the moves."""
    moved = 0.0
    for turn in range(members.size):
        j = members[turn]
        if random:
            j = members[np.int64(next_random(seed) % np.uint64(members.size))]
        h = norms[j]
        if h <= 0.0:
            continue
        start, stop = indptr[j], indptr[j + 1]
        bj = b[j]
        z = column_dot(data, indices, start, stop, e) + h * bj
        for a in range(t.size):
            z += Zt[j, a] * t[a]
        value = 0.0
        if not (bj == 0.0 and abs(z) <= lam[j] * (1.0 + 1e-12)):
            if z > lam[j]:
                value = (z - lam[j]) / (h + d[j])
            elif z < -lam[j] and not positive:
                value = (z + lam[j]) / (h + d[j])
        delta = value - bj
        if delta != 0.0:
            b[j] = value
            for at in range(start, stop):
                e[indices[at]] -= delta * data[at]
            for a in range(t.size):
                t[a] += delta * Zt[j, a]
            moved += delta * delta * (h + d[j])
    return moved


@kernel
def members_gradient(data, indices, indptr, Zt, members, e, t, out):
    """x_j' r for the members alone."""
    for i in range(members.size):
        j = members[i]
        s = column_dot(data, indices, indptr[j], indptr[j + 1], e)
        for a in range(t.size):
            s += Zt[j, a] * t[a]
        out[i] = s


@kernel
def face_product(data, indices, indptr, Zt, d, members, v, u, t, out):
    """out = (X_A'X_A + D_A) v on the projected columns; returns v'out. u and t are room for X_A v and Z_A v."""
    u[:] = 0.0
    t[:] = 0.0
    for i in range(members.size):
        j = members[i]
        vi = v[i]
        for at in range(indptr[j], indptr[j + 1]):
            u[indices[at]] += vi * data[at]
        for a in range(t.size):
            t[a] += vi * Zt[j, a]
    total = 0.0
    for i in range(members.size):
        j = members[i]
        s = column_dot(data, indices, indptr[j], indptr[j + 1], u) + d[j] * v[i]
        for a in range(t.size):
            s -= Zt[j, a] * t[a]
        out[i] = s
        total += s * v[i]
    return total


@kernel
def face_descent(data, indices, indptr, Zt, norms, d, members, rhs, x, room, u, t, tol, max_iter):
    """Conjugate gradients for the Newton step x on a face, preconditioned by the diagonal; returns the iterations."""
    direction, product, inverse = room[0], room[1], room[2]
    size = members.size
    rho = 0.0
    for i in range(size):
        x[i] = 0.0
        inverse[i] = 1.0 / (norms[members[i]] + d[members[i]])
        direction[i] = rhs[i] * inverse[i]
        rho += rhs[i] * direction[i]
    goal = tol * tol * rho
    for iteration in range(max_iter):
        if rho <= goal or rho <= 0.0:
            return iteration
        curvature = face_product(data, indices, indptr, Zt, d, members, direction, u, t, product)
        size2 = 0.0
        for i in range(size):
            size2 += direction[i] * direction[i] / inverse[i]
        flat = curvature <= FLAT * size2
        length = rho / max(curvature, FLAT * size2)
        fresh = 0.0
        for i in range(size):
            x[i] += length * direction[i]
            rhs[i] -= length * product[i]
            fresh += rhs[i] * rhs[i] * inverse[i]
        if flat:  # only the penalty changes along this direction; the caller goes as far as the signs allow
            return iteration + 1
        ratio = fresh / rho
        rho = fresh
        for i in range(size):
            direction[i] = rhs[i] * inverse[i] + ratio * direction[i]
    return max_iter


@kernel
def sparse_objective(Q, e, t, lam, d, b):
    """1/2 |e + Q t|^2 + sum lam |b| + 1/2 sum d b^2."""
    total = 0.0
    for i in range(e.size):
        r = e[i]
        for a in range(t.size):
            r += Q[i, a] * t[a]
        total += r * r
    for j in range(b.size):
        bj = b[j]
        if bj != 0.0:
            total += 2.0 * lam[j] * abs(bj) + d[j] * bj * bj
    return 0.5 * total


@kernel
def subtract_columns(data, indices, indptr, members, b, e):
    """e -= X b over the members."""
    for i in range(members.size):
        j = members[i]
        for at in range(indptr[j], indptr[j + 1]):
            e[indices[at]] -= b[j] * data[at]
