"""What the passes over the rows of a logistic regression do to a block of them.

z = (1, (x - mean) * inverse). Blocks are small enough to stay in the cache, every one is read once, and the caller
adds up the results in a fixed order. See `assay.linear._logistic_rows` for the mathematics.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = [
    "binary_block",
    "binary_product_block",
    "column_sums",
    "curve_block",
    "folds_block",
    "softmax_block",
    "standard_block",
    "weigh_block",
]

Array = np.ndarray


@kernel
def column_sums(X: Array, shift: Array, w: Array, total: Array, square: Array, far: Array) -> None:
    """Weighted sums of x - shift and of its square, and its largest size, column by column."""
    for i in range(X.shape[0]):
        wi = w[i]
        for j in range(X.shape[1]):
            d = X[i, j] - shift[j]
            total[j] += wi * d
            square[j] += wi * d * d
            far[j] = max(far[j], abs(d))


@kernel
def binary_block(
    X: Array,
    sign: Array,
    w: Array,
    offset: Array,
    mean: Array,
    inverse: Array,
    theta: Array,
    first: int,
    with_hessian: int,
    eta: Array,
    curve: Array,
    gradient: Array,
    Z: Array,
) -> float:
    """One block of rows: fill eta, curve = w p q and Z = sqrt(curve) z, add to the gradient, return the loss."""
    n, p = X.shape
    slope = np.empty(p)
    for j in range(p):
        slope[j] = theta[first + j] * inverse[j]
    raw = np.zeros(p)
    start = theta[0] if first == 1 else 0.0
    loss = 0.0
    pull = 0.0
    for i in range(n):
        s = 0.0
        for j in range(p):
            s += (X[i, j] - mean[j]) * slope[j]
        s += start + offset[i]
        eta[i] = s
        margin = sign[i] * s
        e = np.exp(-abs(margin))
        near = 1.0 / (1.0 + e)
        # The chance of the class that was not seen; exact however small it is.
        miss = e * near if margin > 0 else near
        loss += w[i] * (np.log1p(e) + max(-margin, 0.0))
        r = -sign[i] * w[i] * miss
        c = w[i] * e * near * near
        curve[i] = c
        pull += r
        for j in range(p):
            raw[j] += r * (X[i, j] - mean[j])
        if with_hessian == 1:
            root = np.sqrt(c)
            if first == 1:
                Z[i, 0] = root
            for j in range(p):
                Z[i, first + j] = root * ((X[i, j] - mean[j]) * inverse[j])
    if first == 1:
        gradient[0] += pull
    for j in range(p):
        gradient[first + j] += raw[j] * inverse[j]
    return loss


@kernel
def binary_product_block(X: Array, curve: Array, mean: Array, inverse: Array, v: Array, first: int, out: Array) -> None:
    """Add this block's share of Hessian times v to out."""
    n, p = X.shape
    slope = np.empty(p)
    for j in range(p):
        slope[j] = v[first + j] * inverse[j]
    raw = np.zeros(p)
    start = v[0] if first == 1 else 0.0
    pull = 0.0
    for i in range(n):
        s = start
        for j in range(p):
            s += (X[i, j] - mean[j]) * slope[j]
        s *= curve[i]
        pull += s
        for j in range(p):
            raw[j] += s * (X[i, j] - mean[j])
    if first == 1:
        out[0] += pull
    for j in range(p):
        out[first + j] += raw[j] * inverse[j]


@kernel
def standard_block(X: Array, mean: Array, inverse: Array, first: int, Z: Array) -> None:
    """Fill Z with (1, (x - mean) / scale)."""
    for i in range(X.shape[0]):
        if first == 1:
            Z[i, 0] = 1.0
        for j in range(X.shape[1]):
            Z[i, first + j] = (X[i, j] - mean[j]) * inverse[j]


def softmax_block(eta: Array, codes: Array, w: Array, P: Array, residual: Array, pull: Array) -> float:
    """Class probabilities and w (P - Y) of a block, the latter exact however small and added to `pull`.

    Returns the loss and spends eta. The exponentials are numpy's, which takes eight at a time.
    """
    loss = lower_block(eta, codes, w)
    np.exp(eta, out=P)
    return float(loss + share_block(P, codes, w, residual, pull))


@kernel
def lower_block(eta: Array, codes: Array, w: Array) -> float:
    """Subtract the largest of each row; returns the sum of w times what that leaves of the row's own class, negated."""
    n, K = eta.shape
    loss = 0.0
    for i in range(n):
        top = eta[i, 0]
        for k in range(1, K):
            top = max(top, eta[i, k])
        for k in range(K):
            eta[i, k] -= top
        loss -= w[i] * eta[i, codes[i]]
    return loss


@kernel
def share_block(P: Array, codes: Array, w: Array, residual: Array, pull: Array) -> float:
    """Divide each row by its sum, fill and add up the residuals; returns sum w log(sum of the row)."""
    n, K = P.shape
    loss = 0.0
    for i in range(n):
        total = 0.0
        for k in range(K):
            total += P[i, k]
        inverse = 1.0 / total
        own = codes[i]
        others = 0.0
        for k in range(K):
            P[i, k] *= inverse
            if k != own:
                others += P[i, k]
            residual[i, k] = w[i] * P[i, k]
        residual[i, own] = -w[i] * others
        for k in range(K):
            pull[k] += residual[i, k]
        loss += w[i] * np.log(total)
    return loss


@kernel
def weigh_block(Z: Array, P: Array, w: Array, k: int, other: int, out: Array) -> None:
    """Fill out with sqrt(w p_k p_l) z."""
    for i in range(Z.shape[0]):
        root = np.sqrt(w[i] * P[i, k] * P[i, other])
        for j in range(Z.shape[1]):
            out[i, j] = root * Z[i, j]


@kernel
def curve_block(P: Array, w: Array, A: Array) -> None:
    """Replace each row a of A by w (diag(p) - p p') a."""
    for i in range(A.shape[0]):
        inner = 0.0
        for k in range(A.shape[1]):
            inner += P[i, k] * A[i, k]
        for k in range(A.shape[1]):
            A[i, k] = w[i] * P[i, k] * (A[i, k] - inner)


@kernel
def folds_block(eta: Array, sign: Array, offset: Array, W: Array, losses: Array, residual: Array) -> None:
    """Two classes, several problems on the same rows (a column each): residuals w (p - y); adds to the losses."""
    for i in range(eta.shape[0]):
        for f in range(eta.shape[1]):
            w = W[i, f]
            if w == 0.0:
                residual[i, f] = 0.0
                continue
            margin = sign[i] * (eta[i, f] + offset[i])
            e = np.exp(-abs(margin))
            near = 1.0 / (1.0 + e)
            losses[f] += w * (np.log1p(e) + max(-margin, 0.0))
            residual[i, f] = -sign[i] * w * (e * near if margin > 0 else near)
