"""What a linear machine minimises, and what it maximises instead: the two objectives of `_linear`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor

from assay.numerics.threads import parallel

__all__ = ["LinearProblem", "factored", "weighted_product"]

Array = np.ndarray
BLOCK = 4096
"""Rows of a block of a weighted product."""


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """One linear problem; `one` is the entry of the further column, 0 without; `free` says that the bias is free."""

    X: Any
    c: Array
    eps: float
    lo: Array
    hi: Array
    extra: Array
    one: float
    free: bool

    @property
    def squared(self) -> bool:
        """Whether the loss is squared."""
        return bool(self.extra.any())

    @property
    def is_sparse(self) -> bool:
        """Whether X is sparse (compressed rows)."""
        return sparse.issparse(self.X)

    def scores(self, w: Array) -> Array:
        """x_i'w, with the further column."""
        return np.asarray(self.X @ w[:-1]) + self.one * w[-1]

    def weights(self, beta: Array) -> Array:
        """w = X'beta, with the further column's last."""
        return np.append(np.asarray(self.X.T @ beta), self.one * beta.sum())

    def loss(self, r: Array) -> float:
        """The sum of the losses."""
        above, below = np.maximum(r - self.eps, 0.0), np.maximum(-r - self.eps, 0.0)
        if self.squared:
            sides = np.where(self.hi > 0, above, 0.0) ** 2 + np.where(self.lo < 0, below, 0.0) ** 2
            return float((sides / (2 * self.extra)).sum())
        return float((np.where(above > 0, self.hi, 0.0) * above - np.where(below > 0, self.lo, 0.0) * below).sum())

    def pulls(self, r: Array) -> Array:
        """Beta of a squared loss at its residuals."""
        above = np.where(self.hi > 0, np.maximum(r - self.eps, 0.0), 0.0)
        below = np.where(self.lo < 0, np.maximum(-r - self.eps, 0.0), 0.0)
        return (above - below) / self.extra

    def primal(self, w: Array, bias: float) -> float:
        """P at w and a free bias."""
        return 0.5 * float(w @ w) + self.loss(self.c - self.scores(w) - bias)

    def dual(self, beta: Array, w: Array) -> float:
        """D at beta with w = X'beta."""
        square = 0.5 * float(w @ w) + 0.5 * float(self.extra @ beta**2)
        return float(self.c @ beta - self.eps * np.abs(beta).sum()) - square


def factored(H: Array) -> Any:
    """Cholesky factor of a positive definite H; where rounding made it indefinite, of H with a larger diagonal.

    A step from such a factor still descends, and the duality gap says how far it came.
    """
    size = np.abs(np.diag(H))
    size = np.where(np.isfinite(size) & (size > 0), size, 1.0)
    for share in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-4):
        try:
            return cho_factor(H + np.diag(share * size) if share else H, lower=True, check_finite=False)
        except LinAlgError:
            continue
    return np.diag(np.sqrt(size)), True


def weighted_product(X: Array, weight: Array, one: float) -> Array:
    """Z' diag(weight) Z with Z = (X, one), by blocks of rows, added up in their order."""
    p = X.shape[1]

    def block(at: int) -> Array:
        Z = np.empty((min(BLOCK, len(X) - at), p + 1))
        Z[:, :p], Z[:, p] = X[at : at + BLOCK], one
        Z *= np.sqrt(weight[at : at + BLOCK])[:, None]
        return Z.T @ Z

    return np.asarray(sum(parallel(block, range(0, len(X), BLOCK), n_jobs=-1, work=X.size * p)))
