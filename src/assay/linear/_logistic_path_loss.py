# mypy: disable-error-code="no-untyped-def"
# Kernels are typed by Numba, from the arrays they are called with.
"""The logistic and the softmax loss: value, residuals, curvature, and the dual value that certifies a minimum.

    loss_i = log sum_k exp(eta_ik) - eta_i,y_i,     r_i = e_{y_i} - p_i,     H_i = diag(p_i) - p_i p_i'.

Two classes have one linear predictor, that of class 1 (eta_i0 = 0), and one row per array; K > 2 classes have K.
The convex conjugate of the loss is minus the entropy of p, so any p' on the way from the classes to p,

    p' = e_y - t (e_y - p),    0 <= t <= 1,

whose residuals t w r are orthogonal to the unpenalised columns gives the lower bound

    sum_i w_i entropy(p_i') + t sum_i w_i <p_i - e_{y_i}, offset_i> - (conjugate of the penalty at t X'w r).
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["Loss", "curvature", "penalty_along", "violation"]

Array = np.ndarray

BLOCK = 256
"""Sums go over blocks of so many rows: a gap is the small difference of two large sums."""


@kernel
def binary_state(eta, codes, w, residual, curvature, wrong):
    """Fill w r, w p (1 - p) and the probability of the other class; return the weighted loss."""
    total, part = 0.0, 0.0
    for i in range(eta.size):
        if i % BLOCK == 0:
            total += part
            part = 0.0
        positive = codes[i] == 1
        margin = -eta[i] if positive else eta[i]
        e = np.exp(-abs(margin))
        part += w[i] * (max(margin, 0.0) + np.log1p(e))
        miss = (1.0 if margin > 0.0 else e) / (1.0 + e)
        wrong[i] = miss
        residual[i] = w[i] * miss if positive else -w[i] * miss
        curvature[i] = w[i] * e / ((1.0 + e) * (1.0 + e))
    return total + part


@kernel
def settle_level(eta, codes, w, residual, curvature, wrong, value, tol):
    """Newton steps on the intercept of two classes until sum w r vanishes beside sum w |r|; the state is left there.

    Returns the loss, how far the intercept has moved, and what is left of the gradient.
    """
    base = eta.copy()
    moved, left = 0.0, np.inf
    for _ in range(50):
        g, bend, size = 0.0, 0.0, 0.0
        for i in range(eta.size):
            g += residual[i]
            bend += curvature[i]
            size += w[i] * wrong[i]
        before, left = left, abs(g) / max(size, 1e-300)
        if left <= tol or (left < 100.0 * tol and left > 0.5 * before) or bend <= 0.0:
            break
        step, start, t, falls = g / bend, value, 1.0, False
        for _ in range(40):
            for i in range(eta.size):
                eta[i] = base[i] + (moved + t * step)
            value = binary_state(eta, codes, w, residual, curvature, wrong)
            if value <= start - 1e-4 * t * g * step + 1e-13 * abs(start):
                falls = True
                break
            t *= 0.5
        if not falls:
            for i in range(eta.size):
                eta[i] = base[i] + moved
            value = binary_state(eta, codes, w, residual, curvature, wrong)
            break
        moved += t * step
    return value, moved, left


@kernel
def softmax_state(eta, codes, w, residual, P, wrong):
    """Fill w r and p (classes, rows) and the probability of all other classes; return the weighted loss."""
    K, n = eta.shape
    total, part = 0.0, 0.0
    for i in range(n):
        if i % BLOCK == 0:
            total += part
            part = 0.0
        best = 0
        for k in range(1, K):
            if eta[k, i] > eta[best, i]:
                best = k
        top = eta[best, i]
        rest = 0.0
        for k in range(K):
            P[k, i] = 1.0
            if k != best:
                P[k, i] = np.exp(eta[k, i] - top)
                rest += P[k, i]
        s = 1.0 + rest
        own = codes[i]
        part += w[i] * np.log1p(rest)
        if own != best:  # apart, or reordering would add the small logarithm to the large predictor
            part += w[i] * (top - eta[own, i])
        miss = 0.0
        for k in range(K):
            P[k, i] /= s
            if k != own:
                miss += P[k, i]
                residual[k, i] = -w[i] * P[k, i]
        residual[own, i] = w[i] * miss
        wrong[i] = miss
    return total + part


@kernel
def entropy_part(x):
    """-x log x, and 0 at 0."""
    return -x * np.log(x) if x > 0.0 else 0.0


@kernel
def binary_entropy(wrong, w, t):
    """sum w entropy(p') for two classes."""
    total, part = 0.0, 0.0
    for i in range(wrong.size):
        if i % BLOCK == 0:
            total += part
            part = 0.0
        x = t * wrong[i]
        rest = 1.0 - x
        part += w[i] * (entropy_part(x) - (rest * np.log1p(-x) if rest > 0.0 else 0.0))
    return total + part


@kernel
def softmax_entropy(P, wrong, codes, w, t):
    """sum w entropy(p') for K classes."""
    K, n = P.shape
    total, part = 0.0, 0.0
    for i in range(n):
        if i % BLOCK == 0:
            total += part
            part = 0.0
        x = t * wrong[i]
        rest = 1.0 - x
        s = -(rest * np.log1p(-x)) if rest > 0.0 else 0.0
        for k in range(K):
            if k != codes[i]:
                s += entropy_part(t * P[k, i])
        part += w[i] * s
    return total + part


@kernel
def penalty_along(b, change, t, lam, d):
    """The penalty of b + t change."""
    total = 0.0
    for j in range(b.size):
        x = b[j] + t * change[j]
        total += lam[j] * abs(x) + 0.5 * d[j] * x * x
    return total


@kernel
def violation(q, b, lam, d):
    """The largest violation of the KKT conditions, q being minus the gradient of the loss."""
    worst = 0.0
    for j in range(b.size):
        if b[j] == 0.0:
            worst = max(worst, abs(q[j]) - lam[j])
        else:
            worst = max(worst, abs(q[j] - d[j] * b[j] - (lam[j] if b[j] > 0.0 else -lam[j])))
    return worst


class Loss:
    """The loss at one linear predictor `eta` (rows of classes), with all that is derived from it."""

    def __init__(self, codes: Array, classes: int, w: Array, offset: Array | None) -> None:
        n = codes.size
        self.rows = 1 if classes == 2 else classes
        self.codes, self.w = np.ascontiguousarray(codes, dtype=np.int64), w
        self.offset = offset
        self.eta = np.zeros((self.rows, n)) if offset is None else offset.copy()
        self.residual, self.shape = np.empty((self.rows, n)), np.empty((self.rows, n))
        self.wrong = np.empty(n)
        self.value = self.update()

    def update(self) -> float:
        """Take in a new `eta`; returns the loss."""
        if self.rows == 1:
            args = self.eta[0], self.codes, self.w, self.residual[0], self.shape[0], self.wrong
            self.value = float(binary_state(*args))
        else:
            self.value = float(softmax_state(self.eta, self.codes, self.w, self.residual, self.shape, self.wrong))
        return self.value

    def settle_level(self, tol: float) -> tuple[float, float]:
        """Two classes: bring the intercept to its best; how far it has moved, and what is left of its gradient."""
        args = self.eta[0], self.codes, self.w, self.residual[0], self.shape[0], self.wrong
        self.value, moved, left = settle_level(*args, self.value, tol)
        return moved, left

    def dual(self, t: float) -> float:
        """The dual value of t times the residuals, without the conjugate of the penalty."""
        if self.rows == 1:
            total = float(binary_entropy(self.wrong, self.w, t))
        else:
            total = float(softmax_entropy(self.shape, self.wrong, self.codes, self.w, t))
        return total if self.offset is None else total - t * float(np.vdot(self.residual, self.offset))


def curvature(shape: Array, w: Array, k: int, m: int) -> Array:
    """The diagonal of the Hessian's block of classes k and m, from `Loss.shape`."""
    if len(shape) == 1:
        return shape[0]
    # 1 - p_k as the sum of the others: a difference would lose the digits that make H singular along (1, ..., 1).
    return w * shape[k] * (np.delete(shape, k, axis=0).sum(axis=0) if k == m else -shape[m])
