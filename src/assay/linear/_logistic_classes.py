"""K classes as K - 1 coordinates: coefficients that sum to zero over the classes, and the Hessian in them."""

from __future__ import annotations

import numpy as np

__all__ = ["assemble", "symmetric_basis"]

Array = np.ndarray


def symmetric_basis(K: int) -> Array:
    """An orthonormal basis (K, K - 1) of the vectors that sum to zero: Helmert's contrasts.

    >>> Q = symmetric_basis(4)
    >>> bool(np.abs(Q.T @ Q - np.eye(3)).max() < 1e-12), bool(np.abs(Q.sum(axis=0)).max() < 1e-12)
    (True, True)
    """
    Q = np.zeros((K, K - 1))
    for k in range(1, K):
        Q[:k, k - 1] = 1.0
        Q[k, k - 1] = -float(k)
        Q[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return Q


def assemble(H: Array, Q: Array) -> Array:
    """The Hessian of T from the sums of w p_k p_l z z' (k < l) of B = Q T."""
    K, m = Q.shape[0], H.shape[2]
    full = np.zeros_like(H)
    for k in range(K):
        for other in range(k + 1, K):
            full[k, other] = full[other, k] = -H[k, other]
    for k in range(K):
        full[k, k] = -full[k].sum(axis=0)
    half = np.tensordot(Q, full, axes=(0, 0))  # (a, l, m, m)
    both = np.tensordot(Q, half, axes=(0, 1))  # (b, a, m, m)
    return np.ascontiguousarray(both.transpose(1, 2, 0, 3)).reshape((K - 1) * m, (K - 1) * m)
