"""Lasso and elastic-net paths on sparse columns, centred without ever being made dense.

With Q an orthonormal basis of what is projected out (the intercept and the unpenalised columns) and Z = Q'X, a column
is x_j - Q z_j and the residual e + Q t with e = y - X b, t = Z b, so one coordinate costs the non-zeros of its column:

    x_j' r = x_j' e + z_j' t.

Each penalty starts from the line through the last two solutions and is solved on a working set by sweeps, which settle
the signs, and conjugate gradients on the face of those signs, which end the crawl that sweeps alone would be on where
nearly as many columns as rows are active. Each is kept only if the objective falls; the duality gap over all columns
ends it.

Massias, Gramfort and Salmon (2018), ICML (working sets); Byrd, Chin, Nocedal and Oztoprak (2016), Math. Program. 157,
375-396 (second-order steps on a face).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from assay.linear._coordinate import GREEDY, PATIENCE, RANDOM, certificate, gram_solve
from assay.linear._lasso_columns import (
    face_descent,
    members_gradient,
    sparse_gradient,
    sparse_objective,
    sparse_sweep,
    subtract_columns,
)
from assay.linear._path import Settings

__all__ = ["SparseColumns", "sparse_path"]

SWEEPS = 2
"""Sweeps over the working set before each conjugate-gradient step."""

NEAR = 0.98
"""A column joins the working set when its gradient reaches this share of its threshold."""

CG_TOL, CG_MOST, ROUGH = 0.3, 100, 5
"""The Newton step is solved to this share of its residual, in at most so many products, for so many rounds."""

FEW = 600
"""A working set of at most so many columns is solved by its Gram matrix when the rounds have not settled it."""

TINY = 1e-300


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """CSC arrays of the weighted columns, Q (n, k), Z' (p, k), squared norms of the projected columns."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    Q: np.ndarray
    Zt: np.ndarray
    norms: np.ndarray

    def raw(self) -> Any:
        """The weighted columns before projection."""
        shape = (len(self.Q), self.norms.size)
        return sparse.csc_array((self.data, self.indices.view(np.int32), self.indptr), shape=shape)

    def dense(self) -> np.ndarray:
        """The projected columns, written out."""
        return self.raw().toarray() - self.Q @ self.Zt.T


class SparseSolver:
    """One penalty after another on the same sparse columns; holds b, e = y - X b and t = Z b."""

    def __init__(self, X: SparseColumns, y: np.ndarray, l1: np.ndarray, l2: np.ndarray, how: Settings) -> None:
        self.X, self.y, self.how = X, y, how
        self.l1, self.l2 = l1, l2
        self.csc = (X.data, X.indices, X.indptr)
        self.q = np.empty(l1.size)
        self.seed = how.generator()
        self.place(np.zeros(l1.size))

    def place(self, b: np.ndarray) -> None:
        """Move to b."""
        members = np.flatnonzero(b)
        self.b = b
        self.e = self.y.copy()
        self.t = (self.X.Zt[members] * b[members, None]).sum(axis=0)
        subtract_columns(*self.csc, members, b, self.e)

    def objective(self) -> float:
        """The objective at b with the current penalty."""
        return float(sparse_objective(self.X.Q, self.e, self.t, self.lam, self.d, self.b))

    def gap(self) -> float:
        """The duality gap over all columns; leaves the gradient of all columns in q."""
        sparse_gradient(*self.csc, self.X.Zt, self.X.norms, self.e, self.t, self.q)
        r = self.e + (self.X.Q * self.t).sum(axis=1)
        return float(certificate(self.y, r, self.b, self.q, self.lam, self.d, self.how.positive))

    def solve(self, alpha: float) -> tuple[float, int]:
        """Minimise from where b stands; returns the gap and the number of sweeps."""
        self.lam, self.d = alpha * self.l1, alpha * self.l2
        sweeps = rounds = 0
        while True:
            gap = self.gap()
            if gap <= self.how.tol or sweeps >= self.how.max_iter:
                return gap, sweeps
            size = self.q if self.how.positive else np.abs(self.q)
            members = np.flatnonzero((size >= NEAR * self.lam) | (self.b != 0))
            if rounds >= ROUGH and members.size <= FEW:
                sweeps += self._direct(members, self.how.max_iter - sweeps)
                continue
            turns = min(SWEEPS, self.how.max_iter - sweeps)
            for _ in range(turns):
                self._sweep(members)
            sweeps += turns
            rounds += 1
            # The first rounds only look for the signs; later ones find them settled and finish the solve.
            self._newton(CG_TOL if rounds <= ROUGH else max(CG_TOL ** (rounds - ROUGH + 1), 1e-10))

    def _direct(self, members: np.ndarray, most: int) -> int:
        """Solve over a few columns by their Gram matrix, to rounding: for those too correlated for anything less."""
        X, m = self.X, members.size
        columns = X.raw()[:, members]
        G = (columns.T @ columns).toarray() - X.Zt[members] @ X.Zt[members].T
        live = X.norms[members] > 0
        G *= live[:, None] & live
        b = self.b[members]
        _, sweeps, _ = gram_solve(
            np.ascontiguousarray(G), m, (columns.T @ self.y) * live, float(self.y @ self.y), self.lam[members],
            self.d[members], self.how.positive, b, np.empty(m), np.empty((m + 1, m + 1)),
            np.zeros(m + 1, dtype=np.int64), np.full(m, -1, dtype=np.int64), 0, np.zeros((5, m + 1)),
            np.zeros(m + 1, dtype=np.int64), self.how.selection, self.seed, 0.0, most, PATIENCE,
        )  # fmt: skip
        whole = np.zeros_like(self.b)
        whole[members] = b
        self.place(whole)
        return max(1, int(sweeps))

    def extrapolate(self, old: np.ndarray, now: np.ndarray, a_old: float, a_now: float, alpha: float) -> None:
        """Start from the line through the last two solutions (the path is piecewise linear) if that is lower."""
        self.lam, self.d = alpha * self.l1, alpha * self.l2
        before, state = self.objective(), (self.b, self.e, self.t)
        ahead = now + (now - old) * ((alpha - a_now) / (a_now - a_old))
        ahead[(now == 0) | (ahead * now < 0)] = 0.0
        self.place(ahead)
        if self.objective() >= before:
            self.b, self.e, self.t = state

    def _sweep(self, members: np.ndarray) -> None:
        if self.how.selection == GREEDY:  # largest step first
            step = np.empty(members.size)
            members_gradient(*self.csc, self.X.Zt, members, self.e, self.t, step)
            value = step + self.X.norms[members] * self.b[members]
            value = np.sign(value) * np.maximum(np.abs(value) - self.lam[members], 0)
            step = np.abs(value / np.maximum(self.X.norms[members], TINY) - self.b[members])
            members = members[np.argsort(-step, kind="stable")]
        sparse_sweep(
            *self.csc, self.X.Zt, self.X.norms, self.lam, self.d, self.how.positive, members, self.b, self.e, self.t,
            self.how.selection == RANDOM, self.seed,
        )  # fmt: skip

    def _newton(self, tol: float) -> None:
        """A conjugate-gradient step on the face of the signs, bent at zero, kept only if the objective falls."""
        members = np.flatnonzero(self.b)
        k, n = members.size, self.y.size
        if k == 0:
            return
        rhs = np.empty(k)
        members_gradient(*self.csc, self.X.Zt, members, self.e, self.t, rhs)
        rhs -= self.lam[members] * np.sign(self.b[members]) + self.d[members] * self.b[members]
        step, *_ = room = np.empty((4, k))
        face_descent(
            *self.csc, self.X.Zt, self.X.norms, self.d, members, rhs, step, room[1:], np.empty(n),
            np.empty(self.t.size), tol, CG_MOST,
        )  # fmt: skip
        before, state = self.objective(), (self.b, self.e, self.t)
        at = state[0][members]
        crossing = at * (at + step) < 0
        # The last resort, up to the first zero, lies on the face, where the step is downhill.
        first = float(np.min(-at[crossing] / step[crossing], initial=1.0))
        for length in (1.0, 0.5, 0.125, first):
            b = state[0].copy()
            moved = at + length * step
            b[members] = np.where(moved * at <= 1e-15 * at * at, 0.0, moved)
            self.place(b)
            if self.objective() < before:
                return
        self.b, self.e, self.t = state


def sparse_path(
    X: SparseColumns,
    y: np.ndarray,
    l1: np.ndarray,
    l2: np.ndarray,
    alphas: np.ndarray,
    how: Settings,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients (k, p), duality gaps and sweeps for decreasing alphas; lam = alpha l1, d = alpha l2."""
    solver = SparseSolver(X, y, l1, l2, how)
    if start is not None:
        solver.place(start.copy())
    coefs = np.zeros((alphas.size, l1.size))
    gaps, sweeps = np.empty(alphas.size), np.empty(alphas.size, dtype=np.int64)
    for i, alpha in enumerate(alphas):
        if i >= 2 and alphas[i - 2] > alphas[i - 1]:
            solver.extrapolate(coefs[i - 2], coefs[i - 1], alphas[i - 2], alphas[i - 1], alpha)
        gaps[i], sweeps[i] = solver.solve(alpha)
        coefs[i] = solver.b
    return coefs, gaps, sweeps
