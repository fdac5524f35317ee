"""Kernels of Gaussian components: log densities, posteriors, and weighted sums, over rows in blocks.

A block of rows is transposed into the first-level cache, so that every inner loop runs over rows; for tables of up to
some dozens of columns that is several times faster than matrix products of such thin blocks.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["add_products", "add_squares", "normalise", "scaled_distances", "whitened_distances"]

Array = np.ndarray

BLOCK = 64


@kernel
def whitened_distances(X: Array, means: Array, whiten: Array, log_norm: Array, out: Array) -> None:
    """out[i, k] = log_norm[k] - |W_k (x_i - mu_k)|^2 / 2 for lower triangular W (one for all k, or one each)."""
    n, p = X.shape
    K = means.shape[0]
    x, z, y, q = np.zeros((p, BLOCK)), np.empty((p, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for b in range(m):
            for j in range(p):
                x[j, b] = X[start + b, j]
        for k in range(K):
            W = whiten[min(k, whiten.shape[0] - 1)]
            for j in range(p):
                centre = means[k, j]
                for b in range(BLOCK):
                    z[j, b] = x[j, b] - centre
            for b in range(BLOCK):
                q[b] = 0.0
            for i in range(p):
                for b in range(BLOCK):
                    y[b] = 0.0
                for j in range(i + 1):
                    f = W[i, j]
                    for b in range(BLOCK):
                        y[b] += f * z[j, b]
                for b in range(BLOCK):
                    q[b] += y[b] * y[b]
            for b in range(m):
                out[start + b, k] = log_norm[k] - 0.5 * q[b]


@kernel
def scaled_distances(X: Array, means: Array, scale: Array, log_norm: Array, out: Array) -> None:
    """out[i, k] = log_norm[k] - sum_j (scale_kj (x_ij - mu_kj))^2 / 2."""
    n, p = X.shape
    x, q = np.zeros((p, BLOCK)), np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for b in range(m):
            for j in range(p):
                x[j, b] = X[start + b, j]
        for k in range(means.shape[0]):
            for b in range(BLOCK):
                q[b] = 0.0
            for j in range(p):
                centre, s = means[k, j], scale[k, j]
                for b in range(BLOCK):
                    z = s * (x[j, b] - centre)
                    q[b] += z * z
            for b in range(m):
                out[start + b, k] = log_norm[k] - 0.5 * q[b]


@kernel
def normalise(scores: Array, log_weights: Array, w: Array, rows: Array) -> float:
    """Turn log densities into posterior probabilities times w (empty: 1), in place; sum_i w_i log p(x_i) in return.

    rows[i] takes log p(x_i) unless it is empty. A row of density zero under every component gets no posterior.
    """
    n, K = scores.shape
    total = 0.0
    for i in range(n):
        top = -np.inf
        for k in range(K):
            scores[i, k] += log_weights[k]
            top = max(top, scores[i, k])
        s = 0.0
        if top > -np.inf:
            for k in range(K):
                e = np.exp(scores[i, k] - top)
                scores[i, k] = e
                s += e
        weight = w[i] if w.size else 1.0
        share = weight / s if s > 0.0 else 0.0
        for k in range(K):
            scores[i, k] = share * scores[i, k] if s > 0.0 else 0.0
        value = top + np.log(s) if s > 0.0 else -np.inf
        if weight > 0.0:
            total += weight * value
        if rows.size:
            rows[i] = value
    return total


@kernel
def add_products(X: Array, shares: Array, centre: Array, weight: Array, first: Array, second: Array) -> None:
    """Add sum_i r_ik, sum_i r_ik z and sum_i r_ik z z' (lower triangle), z = x_i - centre_k, to the last three."""
    n, p = X.shape
    x, z, r, rz = np.zeros((p, BLOCK)), np.empty((p, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for b in range(m):
            for j in range(p):
                x[j, b] = X[start + b, j]
        for k in range(centre.shape[0]):
            total = 0.0
            for b in range(BLOCK):
                r[b] = shares[start + b, k] if b < m else 0.0
                total += r[b]
            weight[k] += total
            for j in range(p):
                c = centre[k, j]
                for b in range(BLOCK):
                    z[j, b] = x[j, b] - c
            for i in range(p):
                total = 0.0
                for b in range(BLOCK):
                    rz[b] = r[b] * z[i, b]
                    total += rz[b]
                first[k, i] += total
                for j in range(i + 1):
                    total = 0.0
                    for b in range(BLOCK):
                        total += rz[b] * z[j, b]
                    second[k, i, j] += total


@kernel
def add_squares(X: Array, shares: Array, centre: Array, weight: Array, first: Array, second: Array) -> None:
    """The same with the squares of z alone, (K, p), in the place of its products."""
    n, p = X.shape
    x, r = np.zeros((p, BLOCK)), np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for b in range(m):
            for j in range(p):
                x[j, b] = X[start + b, j]
        for k in range(centre.shape[0]):
            total = 0.0
            for b in range(BLOCK):
                r[b] = shares[start + b, k] if b < m else 0.0
                total += r[b]
            weight[k] += total
            for j in range(p):
                c, one, two = centre[k, j], 0.0, 0.0
                for b in range(BLOCK):
                    z = x[j, b] - c
                    one += r[b] * z
                    two += r[b] * z * z
                first[k, j] += one
                second[k, j] += two
