"""Approximate inverses of the Hessian of a logistic regression that cost less than the Hessian.

The Hessian of K classes is sum_i w_i C_i x z_i z_i' (x is Kronecker's), C_i = Q'(diag(p_i) - p_i p_i')Q. The
probabilities depend on z only through the linear parts B z. With columns whitened, u = G^-1/2 z and G = sum_i w_i z_i
z_i' / W, what is orthogonal to the directions of B is all but independent of them (exactly so for normal columns, by
Stein's lemma), which leaves

    H ~ W A x I   across the directions of B, with A the mean of C_i,
    H   itself    along them and the intercept: K (K - 1) coordinates, small enough to form.

A ridge penalty stays diagonal in the same coordinates. Cost: one product of the columns of a sample and an
eigendecomposition of size m, instead of K (K - 1)/2 products and a factor of size (K - 1) m.

Stein (1981), Ann. Statist. 9, 1135-1151; Erdogdu, Dicker and Bayati (2016), NIPS 29 (generalised linear models).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from assay.linear._logistic_classes import symmetric_basis
from assay.linear._logistic_rows import LogisticRows
from assay.numerics.threads import one_blas_thread

__all__ = ["Kronecker", "Solver", "factored", "sampled_hessian"]

Array = np.ndarray
Solver = Callable[[Array], Array]

FLOOR = 1e-6
"""Directions in which the sample spreads less than this share of the mean are treated as if they spread so much."""

MOST_ALONG = 1_000
"""With more coordinates K (K - 1) than this along the linear parts, these are treated as all others."""


def factored(H: Array) -> Solver:
    """H^-1 by Cholesky after scaling to a unit diagonal; a pseudo-inverse where H is singular."""
    size = np.sqrt(np.maximum(np.diag(H), 1e-300))
    unit = H / size[:, None] / size

    def divide(g: Array) -> Array:
        return (g.T / size).T

    try:
        factor = cho_factor(unit, lower=True, check_finite=False)
        if np.abs(np.diag(factor[0])).min(initial=1.0) > 1e-8:
            return lambda g: divide(cho_solve(factor, divide(g), check_finite=False))
    except np.linalg.LinAlgError:
        pass
    if not np.isfinite(unit).all():
        return lambda g: np.zeros_like(g)
    values, vectors = eigh(unit)
    keep = values > 1e-14 * max(float(values[-1]), 1e-300)
    half = vectors[:, keep] / np.sqrt(values[keep])
    return lambda g: divide(half @ (half.T @ divide(g)))


def sampled_hessian(part: LogisticRows, theta: Array) -> Solver:
    """The Hessian of a sample that stands for all rows."""
    H = part.evaluate(theta).hessian
    assert H is not None
    diagonal = np.diag_indices_from(H)
    # A little more on the diagonal than the sample says: directions it hardly sees must not dominate.
    H[diagonal] += 1e-3 * H[diagonal].mean()
    return factored(H)


@dataclass(frozen=True, eq=False)
class Kronecker:
    """The approximation for K > 2 classes on a sample that stands for all rows.

    u = T'z are its white coordinates, in which the penalty (per unit of weight) is diagonal.
    """

    part: LogisticRows
    T: Array
    penalty: Array

    @classmethod
    def of(cls, part: LogisticRows) -> Kronecker:
        """Whiten the columns: T'GT = I and T'RT diagonal, with G the mean of w z z' and R the penalty."""
        G = part.gram() / part.weight
        G[np.diag_indices_from(G)] += FLOOR * np.trace(G) / len(G)
        with one_blas_thread():
            if part.ridge.any():
                values, T = eigh(np.diag(part.ridge / part.weight), G)
                return cls(part, T, np.maximum(values, 0.0))
            values, vectors = eigh(G)
        return cls(part, vectors / np.sqrt(values), np.zeros(part.m))

    def at(self, theta: Array) -> Solver:
        """The approximate inverse of the Hessian at theta."""
        K, m, T, penalty, W = self.part.K, self.part.m, self.T, self.penalty, self.part.weight
        P = self.part.evaluate(theta, False).state
        with one_blas_thread():
            V = self._directions(theta)
            values, E = np.linalg.eigh(_mean_curvature(P, self.part.w))
            across = 1.0 / (W * (np.maximum(values, FLOOR * values[-1])[:, None] + penalty))
            along = factored(W * self._along(P, V)) if V.shape[1] else None

        def solve(g: Array) -> Array:
            u = g.reshape(K - 1, m) @ T
            inside = u @ V
            x = E @ (across * (E.T @ (u - inside @ V.T)))
            if along is not None:
                x += along(inside.ravel()).reshape(inside.shape) @ V.T
            return (x @ T.T).ravel()

        return solve

    def _directions(self, theta: Array) -> Array:
        """An orthonormal basis of what the linear parts depend on, the intercept included, in white coordinates."""
        K, m = self.part.K, self.part.m
        if K * (K - 1) > MOST_ALONG:
            return np.empty((m, 0))
        lines = np.vstack([np.eye(1, m)[: self.part.first], theta.reshape(K - 1, m)])
        lines = np.linalg.solve(self.T, lines[np.abs(lines).max(axis=1) > 0].T)
        U, s, _ = np.linalg.svd(lines / np.linalg.norm(lines, axis=0), full_matrices=False)
        return U[:, s > 1e-6]

    def _along(self, P: Array, V: Array) -> Array:
        """The mean Hessian (penalty included) in the coordinates V'u of each of K - 1 combinations of classes."""
        part, Q, r = self.part, symmetric_basis(self.part.K), V.shape[1]
        U, share, PQ = part.project(self.T @ V), part.w / part.weight, P @ Q
        paid = V.T @ (self.penalty[:, None] * V)
        H = np.empty((part.K - 1, r, part.K - 1, r))
        for a in range(part.K - 1):
            for b in range(a, part.K - 1):
                curve = share * (P @ (Q[:, a] * Q[:, b]) - PQ[:, a] * PQ[:, b])
                H[a, :, b] = H[b, :, a] = U.T @ (U * curve[:, None]) + (paid if a == b else 0.0)
        return H.reshape((part.K - 1) * r, (part.K - 1) * r)


def _mean_curvature(P: Array, w: Array) -> Array:
    """The mean of Q'(diag(p) - pp')Q."""
    Q, share = symmetric_basis(P.shape[1]), w / w.sum()
    return Q.T @ (np.diag(share @ P) - (P * share[:, None]).T @ P) @ Q
