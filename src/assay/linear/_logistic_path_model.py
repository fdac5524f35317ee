# mypy: disable-error-code="no-untyped-def"
# Kernels are typed by Numba, from the arrays they are called with.
"""The quadratic model of a logistic loss on a working set of coefficients, and its minimum under the penalty.

    m(b) = 1/2 b'Gb - c'b + sum_j l_j |b_j| + 1/2 sum_j d_j b_j^2,      G = Z'HZ - Z'HU (U'HU)^+ U'HZ,

with H the curvature of the loss, U the unpenalised columns (the intercept first), projected out exactly, and
c = G b_now - gradient. H may be that of an earlier point: the minimiser of the loss is a fixed point for any G, and a G
that is a little old only makes the convergence linear with a small factor, while a product Z'HZ costs as much as many
gradients. So G is kept along the path, grows by the rows of the coefficients that join, and is taken anew when
the convergence says so; for the same reason single precision will do for it on large tables. The minimum itself is
found by coordinate descent ended by Newton steps on faces (`_coordinate`), whose Cholesky factor lives as long as G.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from assay.linear._coordinate import ACTIVE_SWEEPS, follow_support, gradient, newton_on_face, sweep
from assay.linear._logistic_path_columns import PathColumns
from assay.linear._logistic_path_curvature import between, free_curvature, pseudo_inverse, with_free
from assay.linear._logistic_path_loss import Loss, curvature
from assay.numerics.jit import kernel

__all__ = ["ColumnModel", "Model"]

Array = np.ndarray

SINGLE = 100_000_000
"""From so many products n m^2 on, G is computed in single precision."""

PROXIMAL = 1e-6
"""Single precision may leave G a little indefinite; its diagonal grows by this share (a proximal term)."""


@kernel
def model_solve(G, m, c, lam, d, b, q, L, order, slot, k, scratch, before, seed, tol, max_sweeps):
    """Minimise the model over the first m coefficients until the KKT conditions hold to tol; returns the factor's size.

    tol is a gradient: the columns have unit length, so that one number does for all.
    """
    step, cosines, sines = scratch[0], scratch[1], scratch[2]
    gradient(G, m, c, b, q, before)
    sweeps, crawl = 0, 0.0
    while True:
        sweep(G, m, lam, d, False, b, q, 0, seed, False)
        for _ in range(ACTIVE_SWEEPS):
            sweep(G, m, lam, d, False, b, q, 0, seed, True)
        sweeps += 1 + ACTIVE_SWEEPS
        support = 0
        for j in range(m):
            support += b[j] != 0.0
        crawl += (1.0 + ACTIVE_SWEEPS) * support * m
        worst = 0.0
        for j in range(m):
            bj = b[j]
            side = lam[j] if bj > 0.0 else -lam[j]
            over = abs(q[j]) - lam[j] if bj == 0.0 else abs(q[j] - d[j] * bj - side)
            worst = max(worst, over)
        if worst <= tol or sweeps >= max_sweeps:
            break
        if k > 0 or support <= 64 or crawl >= support**3 / 6.0:
            k = follow_support(G, m, lam, d, b, q, L, order, slot, k, step, cosines, sines)
            k = newton_on_face(G, m, lam, d, b, q, L, order, slot, k, scratch, before)
    return k


class Model:
    """A working set of coefficients (numbered class * p + column), the model's G on it, and the projection of U."""

    def __init__(self, table: PathColumns, loss: Loss, U: Array) -> None:
        self.table, self.loss, self.U = table, loss, U
        self.members = np.empty(0, dtype=np.int64)
        self.inside = np.zeros(loss.rows * table.p, dtype=bool)
        self.precise = False
        self.k = 0
        self.seed = np.ones(1, dtype=np.uint64)
        self._reserve(min(32, self.inside.size))
        self.shape = loss.shape.copy()
        self.inverse = pseudo_inverse(free_curvature(self.shape, self.loss.w, self.U))

    def _reserve(self, capacity: int) -> None:
        def grown(name: str, shape: tuple[int, ...], fill: float = 0.0, dtype: Any = np.float64) -> Array:
            new = np.full(shape, fill, dtype=dtype)
            old = getattr(self, name, None)
            if old is not None:
                new[tuple(slice(side) for side in old.shape)] = old
            return new

        self.capacity = capacity
        free = self.loss.rows * len(self.U)
        self.G = grown("G", (capacity, capacity))
        self.C, self.T = grown("C", (free, capacity)), grown("T", (free, capacity))
        self.L = grown("L", (capacity + 1, capacity + 1))
        self.order = grown("order", (capacity + 1,), dtype=np.int64)
        self.slot = grown("slot", (capacity,), -1, np.int64)
        self.d = grown("d", (capacity,))
        self.scratch = np.zeros((5, capacity + 1))
        self.before = np.zeros(capacity + 1, dtype=np.int64)

    def add(self, new: Array) -> None:
        """Take more coefficients in, with the curvature that G has."""
        if not new.size:
            return
        m, total = self.members.size, self.members.size + new.size
        if total > self.capacity:
            self._reserve(max(total, min(2 * self.capacity, self.inside.size), 32))
        self.members = np.concatenate([self.members, new])
        self.inside[new] = True
        self._fill(m, total)

    def refresh(self, keep: Array | None = None) -> None:
        """Take G anew at the present point, for the members that `keep` marks (None: all)."""
        self.shape[:] = self.loss.shape
        if keep is not None:
            self.inside[self.members[~keep]] = False
            self.members = self.members[keep]
        self.slot[:] = -1
        self.k = 0
        self.inverse = pseudo_inverse(free_curvature(self.shape, self.loss.w, self.U))
        if self.members.size:
            self._fill(0, self.members.size)

    def _fill(self, m: int, total: int) -> None:
        new, every = self.members[m:total], self.members[:total]
        self.C[:, m:total] = with_free(self.table, self.shape, self.loss.w, self.U, new)
        self.T[:, m:total] = self.inverse @ self.C[:, m:total]
        block = self._products(new, every) - self.C[:, m:total].T @ self.T[:, :total]
        self.G[m:total, :total] = block
        self.G[:m, m:total] = block[:, :m].T

    def _products(self, new: Array, every: Array) -> Array:
        """Z'HZ between new members and all."""
        precise = self.precise or self.table.n * float(new.size) * every.size < SINGLE
        out = between(self.table, self.shape, self.loss.w, new, every, precise)
        if not precise:
            at = np.arange(new.size)
            out[at, at + every.size - new.size] *= 1 + PROXIMAL
        return out

    def minimise(
        self, b: Array, g: Array, g_free: Array, lam: Array, d: Array, tol: float
    ) -> tuple[Array, Array, Array]:
        """The model's minimiser on the working set, from b with minus gradients g and g_free.

        Also the step of the free part (rows, nu) and the step of the linear predictor (rows, n).
        """
        m = self.members.size
        c = self.G[:m, :m] @ b + g - self.T[:, :m].T @ g_free if m else b
        if not m:
            best = b
        elif not lam.any():
            best = linalg.solve(self.G[:m, :m] + np.diag(d), c, assume_a="pos")
        else:
            if self.k and not np.array_equal(d, self.d[:m]):
                self.slot[:] = -1
                self.k = 0
            self.d[:m] = d
            best = b.copy()
            self.k = model_solve(
                self.G, m, c, lam, d, best, np.empty(m), self.L, self.order, self.slot, self.k, self.scratch,
                self.before, self.seed, tol, 3000,
            )  # fmt: skip
        change = best - b
        free = (self.inverse @ (g_free - self.C[:, :m] @ change if m else g_free)).reshape(self.loss.rows, -1)
        direction, p = free @ self.U, self.table.p
        for k in range(self.loss.rows):
            mine = (self.members // p == k) & (change != 0)
            self.table.combine(self.members[mine] - k * p, change[mine], direction[k])
        return best, free, direction


class ColumnModel:
    """The model where its matrix would not fit: by turns coordinate descent and conjugate gradients on the columns.

    Coordinate descent goes class by class (with more than two classes its curvature is diag(p), which lies above
    diag(p) - pp' and leaves the classes apart) and finds the support and its signs; conjugate gradients then make a
    Newton step on that face, all classes and the free part together, and coefficients that would change their sign
    stop at zero. Neither needs the model's exact minimum: the line search and the next step see to the rest.
    """

    SWEEPS, PRODUCTS, PRECISION = 12, 100, 1e-2
    """Sweeps of a descent; most products of a Newton step, and what it leaves of the gradient."""

    precise = True

    def __init__(self, table: PathColumns, loss: Loss, U: Array, intercept: bool, members: Array) -> None:
        self.table, self.loss, self.U, self.intercept = table, loss, U, intercept
        self.members = np.empty(0, dtype=np.int64)
        self.inside = np.zeros(loss.rows * table.p, dtype=bool)
        self.newton = False
        self.add(members)

    def add(self, new: Array) -> None:
        """Take more coefficients in."""
        self.members = np.sort(np.concatenate([self.members, new]))
        self.inside[new] = True
        self.newton = False

    def refresh(self, keep: Array | None = None) -> None:
        """Let the others go; the curvature is always that of the present point."""
        if keep is not None:
            self.inside[self.members[~keep]] = False
            self.members = self.members[keep]

    def minimise(
        self, b: Array, g: Array, g_free: Array, lam: Array, d: Array, tol: float
    ) -> tuple[Array, Array, Array]:
        """As `Model.minimise`, roughly."""
        turn, self.newton = self.newton, not self.newton
        best, free, direction = self._newton(b, g, g_free, lam, d) if turn else self._descend(b, lam, d, tol)
        if self.loss.rows > 1:
            self._level_classes(best, lam, d)
        return best, free, direction

    def _level_classes(self, b: Array, lam: Array, d: Array) -> None:
        """Shift each column's coefficients, of all classes alike, to where the penalty is least: the loss stays.

        The linear predictors may keep the old level, for the same reason.
        """
        rows, p = self.loss.rows, self.table.p
        place = np.full(rows * p, -1)
        place[self.members] = np.arange(self.members.size)
        at = place.reshape(rows, p)
        at = at[:, (at >= 0).all(axis=0)]
        if not at.size:
            return
        B, first, second = np.sort(b[at], axis=0), lam[at[0]], d[at[0]]
        # The penalty is convex and piecewise quadratic in the shift: its minimum is at a kink or inside one interval.
        tries = [B]
        if second.all():
            for above in range(rows + 1):  # so many coefficients above the shift
                tilt = first / second * (2 * above - rows) / rows
                inside = B.mean(axis=0) + tilt
                low = B[rows - above - 1] if above < rows else np.full_like(inside, -np.inf)
                high = B[rows - above] if above else np.full_like(inside, np.inf)
                tries.append(np.clip(inside, low, high)[None])
        shifts = np.concatenate(tries)
        moved = B[None] - shifts[:, None]
        cost = (first * np.abs(moved) + 0.5 * second * moved**2).sum(axis=1)
        best = np.take_along_axis(shifts, cost.argmin(axis=0)[None], axis=0)[0]
        stay = (first * np.abs(B) + 0.5 * second * B**2).sum(axis=0) <= cost.min(axis=0)
        b[at] -= np.where(stay, 0.0, best)

    def _descend(self, b: Array, lam: Array, d: Array, tol: float) -> tuple[Array, Array, Array]:
        loss, p = self.loss, self.table.p
        best, free = b.copy(), np.zeros((loss.rows, len(self.U)))
        direction = np.zeros_like(loss.eta)
        for k in range(loss.rows):
            mine = np.flatnonzero(self.members // p == k)
            h = loss.shape[0] if loss.rows == 1 else loss.w * loss.shape[k]
            part, norms = best[mine], np.full(mine.size, -1.0)
            state = (
                h, lam[mine], d[mine], part, loss.residual[k].copy(), direction[k], norms,
                float(h.sum()) if self.intercept else 0.0, self.SWEEPS, tol * tol,
            )  # fmt: skip
            moved = self.table.descend(self.members[mine] - k * p, state)
            best[mine] = part
            if self.intercept:
                free[k, 0] = moved
        return best, free, direction

    def _newton(self, b: Array, g: Array, g_free: Array, lam: Array, d: Array) -> tuple[Array, Array, Array]:
        rows, nu = self.loss.rows, len(self.U)
        face = np.flatnonzero((b != 0) | (lam == 0))
        members, ridge, size = self.members[face], d[face], face.size
        h = np.array([curvature(self.loss.shape, self.loss.w, k, k).sum() for k in range(rows)])
        weight = 1 / np.maximum(np.concatenate([h[members // self.table.p] + ridge, np.repeat(h, nu)]), 1e-300)
        left = np.concatenate([(g - d * b - lam * np.sign(b))[face], g_free])
        x, v = np.zeros_like(left), weight * left
        rho = float(left @ v)
        goal = self.PRECISION**2 * rho
        for _ in range(self.PRODUCTS):
            if rho <= goal:
                break
            eta = self._bent(self._linear(members, v[:size], v[size:].reshape(rows, nu)))
            product = np.concatenate([self._gather(members, eta) + ridge * v[:size], (eta @ self.U.T).ravel()])
            bend = float(v @ product)
            if bend <= 1e-12 * float(v @ (v / weight)):
                break  # flat: only the penalty changes along it, which is the descent's affair
            x += rho / bend * v
            left -= rho / bend * product
            fresh = float(left @ (weight * left))
            v = weight * left + fresh / rho * v
            rho = fresh
        best = b.copy()
        best[face] += x[:size]
        best[(lam > 0) & (best * b < 0)] = 0.0
        free = x[size:].reshape(rows, nu)
        return best, free, self._linear(members, (best - b)[face], free)

    def _linear(self, members: Array, values: Array, free: Array) -> Array:
        """What a step adds to the linear predictors."""
        eta, p = free @ self.U, self.table.p
        for k in range(self.loss.rows):
            mine = members // p == k
            self.table.combine(members[mine] - k * p, values[mine], eta[k])
        return eta

    def _gather(self, members: Array, V: Array) -> Array:
        """The members' products with their class's row of V."""
        out, p = np.empty(members.size), self.table.p
        for k in range(self.loss.rows):
            mine = members // p == k
            out[mine] = self.table.dots(V[k : k + 1], members[mine] - k * p)[0]
        return out

    def _bent(self, eta: Array) -> Array:
        """H times a step of the linear predictors."""
        P = self.loss.shape
        return P * eta if len(P) == 1 else self.loss.w * (P * (eta - (P * eta).sum(axis=0)))
