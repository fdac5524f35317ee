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


@kernel(inline=True)
def _turn(X: Array, start: int, m: int, x: Array) -> None:
    """m rows from `start` on as columns."""
    for b in range(m):
        for j in range(X.shape[1]):
            x[j, b] = X[start + b, j]


@kernel(inline=True)
def _take(shares: Array, start: int, m: int, k: int, r: Array) -> float:
    """The shares of m rows in component k, zero for the rest of the block; their sum in return."""
    total = 0.0
    for b in range(BLOCK):
        r[b] = shares[start + b, k] if b < m else 0.0
        total += r[b]
    return total


@kernel
def whitened_distances(X: Array, means: Array, whiten: Array, log_norm: Array, out: Array) -> None:
    """out[i, k] = log_norm[k] - |W_k (x_i - mu_k)|^2 / 2 for lower triangular W (one for all k, or one each)."""
    n, p = X.shape
    K = means.shape[0]
    x, z, y, q = np.zeros((p, BLOCK)), np.empty((p, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        _turn(X, start, m, x)
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
        _turn(X, start, m, x)
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


def normalise(scores: Array, log_weights: Array, w: Array, rows: Array) -> float:
    """Turn log densities into posterior probabilities times w (empty: 1), in place; sum_i w_i log p(x_i) in return.

    rows[i] takes log p(x_i) unless it is empty. A row of density zero under every component gets no posterior. The
    exponentials are numpy's, which takes several at once where the processor can.
    """
    value, total = np.empty(len(scores)), np.empty(len(scores))
    _below_top(scores, log_weights, value)
    np.exp(scores, out=scores)
    _share(scores, w, total)
    value += np.log(total)
    if rows.size:
        rows[:] = value
    return float(np.dot(w, value) if w.size else value.sum())


@kernel
def _below_top(scores: Array, log_weights: Array, top: Array) -> None:
    """Add the log weights, and subtract the largest of each row, which goes to `top`."""
    n, K = scores.shape
    for i in range(n):
        largest = -np.inf
        for k in range(K):
            scores[i, k] += log_weights[k]
            largest = max(largest, scores[i, k])
        top[i] = largest
        if largest > -np.inf:
            for k in range(K):
                scores[i, k] -= largest


@kernel
def _share(scores: Array, w: Array, total: Array) -> None:
    """Divide each row by its sum, which goes to `total` (1 for a row of zeros), and multiply it by its weight."""
    n, K = scores.shape
    for i in range(n):
        s = 0.0
        for k in range(K):
            s += scores[i, k]
        total[i] = s if s > 0.0 else 1.0
        share = (w[i] if w.size else 1.0) / total[i]
        for k in range(K):
            scores[i, k] *= share


@kernel
def add_products(X: Array, shares: Array, centre: Array, weight: Array, first: Array, second: Array) -> None:
    """Add sum_i r_ik, sum_i r_ik z and sum_i r_ik z z' (lower triangle), z = x_i - centre_k, to the last three."""
    n, p = X.shape
    x, z, r, rz = np.zeros((p, BLOCK)), np.empty((p, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        _turn(X, start, m, x)
        for k in range(centre.shape[0]):
            weight[k] += _take(shares, start, m, k, r)
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
        _turn(X, start, m, x)
        for k in range(centre.shape[0]):
            weight[k] += _take(shares, start, m, k, r)
            for j in range(p):
                c, one, two = centre[k, j], 0.0, 0.0
                for b in range(BLOCK):
                    z = x[j, b] - c
                    one += r[b] * z
                    two += r[b] * z * z
                first[k, j] += one
                second[k, j] += two
