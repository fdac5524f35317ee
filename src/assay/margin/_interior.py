"""A primal-dual interior-point method for linear machines with few columns.

The dual min z'A A'z / 2 - q'z, 0 <= z <= u (and s'z = 0 with a free bias) has as many unknowns as rows, but A A' has
rank p: each Newton system (diag(d) + A A') dz = r is solved through I + A' diag(1/d) A, one weighted product of p
columns. Numbers have two z for a row (beta = z+ - z-), which share that product. Mehrotra's predictor and corrector;
some twenty steps of n p^2 multiply-adds, whatever the data: coordinate ascent may need a thousand epochs.

Ferris, Munson (2002), Interior-point methods for massive support vector machines, SIAM J. Optim. 13, 783-804.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve

from assay.margin._dual import Records
from assay.margin._linear_problem import LinearProblem, factored, weighted_product

__all__ = ["interior_point"]

Array = np.ndarray
SNAPPED = 1000
"""Up to this many rows the active-set method follows, which starts from bounds that are met."""
AWAY = 0.995
"""Share of the way to the nearest bound that a step takes."""


def interior_point(
    problem: LinearProblem, tol: float, max_iter: int, records: Records
) -> tuple[Array, float, Array, bool]:
    """Weights, free bias, beta and whether the relative gap fell below tol."""
    split = _Split(problem)
    s, u = split.s, split.u
    z, lower, upper, bias, good = 0.5 * u, np.ones(u.size), np.ones(u.size), 0.0, False
    w = split.back(z)
    for _ in range(max_iter):
        beta = split.beta(z)
        D, P = problem.dual(beta, w), problem.primal(w, bias)
        gap = P - D + abs(bias * beta.sum())
        records.note(1, D - records.rows[-1][1], gap, problem.c.size, 0)
        if gap <= tol * (1.0 + abs(P)):
            good = True
            break
        r = split.q - split.forward(w) - s * bias  # stationarity: r + lower - upper = 0
        newton = _Newton(split, z, lower, upper, r)
        mu = float(z @ lower + (u - z) @ upper) / (2 * z.size)
        dz, _, dl, dh = newton.direction(np.zeros(z.size), np.zeros(z.size))
        share = newton.reach(dz, dl, dh)
        ahead = float((z + share * dz) @ (lower + share * dl) + (u - z - share * dz) @ (upper + share * dh))
        centre = (ahead / (2 * z.size) / mu) ** 3 * mu
        dz, db, dl, dh = newton.direction(centre - dz * dl, centre + dz * dh)
        share = AWAY * newton.reach(dz, dl, dh)
        z, lower, upper, bias = z + share * dz, lower + share * dl, upper + share * dh, bias + share * db
        w = split.back(z)
    if problem.free:
        w = np.append(w[:-1], 0.0)
    if problem.c.size <= SNAPPED:  # rows whose multiplier is larger than their distance to a bound end there
        z = np.where(lower > z / u, 0.0, np.where(upper > (u - z) / u, u, z))
    return w, bias, split.beta(z), good


class _Split:
    """The smooth form: z = the parts of beta above and below zero, with signs s, bounds u and linear gain q."""

    def __init__(self, problem: LinearProblem) -> None:
        up, down = np.flatnonzero(problem.hi > 0), np.flatnonzero(problem.lo < 0)
        self.X, self.n, self.free = problem.X, problem.c.size, problem.free
        self.one = 0.0 if problem.free else problem.one
        self.row = np.concatenate([up, down])
        self.s = np.concatenate([np.ones(up.size), -np.ones(down.size)])
        self.u = np.concatenate([problem.hi[up], -problem.lo[down]])
        self.q = self.s * problem.c[self.row] - problem.eps

    def beta(self, z: Array) -> Array:
        """Signed coefficients by row."""
        return np.bincount(self.row, self.s * z, minlength=self.n)

    def forward(self, v: Array) -> Array:
        """A v by variable."""
        return self.s * (self.X @ v[:-1] + self.one * v[-1])[self.row]

    def back(self, z: Array) -> Array:
        """A'z."""
        beta = self.beta(z)
        return np.append(self.X.T @ beta, self.one * beta.sum())


class _Newton:
    """The linear system of one step, factored once for predictor and corrector."""

    def __init__(self, split: _Split, z: Array, lower: Array, upper: Array, r: Array) -> None:
        self.split, self.z, self.above, self.lower, self.upper, self.r = split, z, split.u - z, lower, upper, r
        self.d = lower / z + upper / self.above
        H = weighted_product(split.X, np.bincount(split.row, 1.0 / self.d, minlength=split.n), split.one)
        H[np.diag_indices_from(H)] += 1.0
        self.factor = factored(H)
        self.along = self._solve(split.s) if split.free else split.s

    def _solve(self, right: Array) -> Array:
        """(diag(d) + A A')^-1 right, by Sherman, Morrison and Woodbury."""
        inner = right / self.d
        return inner - self.split.forward(cho_solve(self.factor, self.split.back(inner), check_finite=False)) / self.d

    def direction(self, low: Array, high: Array) -> tuple[Array, float, Array, Array]:
        """Changes of z, the bias and both multipliers that aim at z lower = low, (u - z) upper = high."""
        dz = self._solve(self.r + low / self.z - high / self.above)
        db, s = 0.0, self.split.s
        if self.split.free:
            db = (float(s @ dz) + float(s @ self.z)) / float(s @ self.along)
            dz = dz - db * self.along
        dl = low / self.z - self.lower - self.lower / self.z * dz
        dh = high / self.above - self.upper + self.upper / self.above * dz
        return dz, db, dl, dh

    def reach(self, dz: Array, dl: Array, dh: Array) -> float:
        """The longest step, at most one, that keeps everything positive."""
        longest = 1.0
        for value, change in ((self.z, dz), (self.above, -dz), (self.lower, dl), (self.upper, dh)):
            falling = change < 0
            if falling.any():
                longest = min(longest, float(np.min(value[falling] / -change[falling])))
        return longest
