"""Steps of a single unit on rows as they are, with a constant step: the literal rules of the delta rule.

A unit o = g(w'a) of the row a = (x, 1), linear (g = 1) or sigmoid (g(z) = 1/(1 + e^-z)), with squared error
E(w) = 1/2 sum_i v_i (t_i - o_i)^2, goes downhill by

    all rows    w <- w + h sum_i v_i (t_i - o_i) g'(w'a_i) a_i          (h / sum_i v_i for the mean instead of the sum)
    one row     w <- w + h v_i (t_i - o_i) g'(w'a_i) a_i

For the linear unit the sum converges exactly when h < 2 / lambda, lambda the largest eigenvalue of sum_i v_i a_i a_i'.
The sigmoid's error has second derivatives of at most CURVATURE lambda, so it falls with each step when h < 2 /
(CURVATURE lambda). One row at a time stays bounded when h < 2 / max_i v_i |a_i|^2. The rows of a linear unit can be
replaced by their triangular factor, which has the same error and gradient. Widrow, Hoff (1960), IRE WESCON 4, 96-104.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.errors import DataError
from assay.numerics.jit import kernel

__all__ = ["LINEAR", "SIGMOID", "augmented", "batch_steps", "downhill", "largest_step", "row_steps", "triangle_of"]

Array = np.ndarray

LINEAR, SIGMOID = 0, 1

CURVATURE = 0.0770293
"""The largest second derivative of (t - g(z))^2 / 2 for t in [0, 1]: that of s^2 (1 - s) (2 - 3 s), s = g(z)."""


@kernel
def downhill(A: Array, y: Array, v: Array, w: Array, kind: int, g: Array) -> float:
    """Fill g with minus the gradient of the error at w; return the error."""
    for j in range(w.size):
        g[j] = 0.0
    error = 0.0
    for i in range(A.shape[0]):
        z = 0.0
        for j in range(w.size):
            z += w[j] * A[i, j]
        slope = v[i]
        if kind == SIGMOID:
            z = 1.0 / (1.0 + np.exp(-z))
            slope *= z * (1.0 - z)
        gap = y[i] - z
        error += 0.5 * v[i] * gap * gap
        gap *= slope
        for j in range(w.size):
            g[j] += gap * A[i, j]
    return error


@kernel
def batch_steps(
    A: Array,
    y: Array,
    v: Array,
    w: Array,
    step: float,
    kind: int,
    limit: Array,
    lost: float,
    out: Array,
    path: Array,
) -> int:
    """Steps over all rows until no gradient exceeds its limit; how many, negative if lost.

    out[t] is the error after step t + 1, path[t] the weights before it (as many as fit); an error above `lost` times
    that at the start is lost.
    """
    g = np.empty(w.size)
    start = downhill(A, y, v, w, kind, g)
    for t in range(out.size):
        if t < path.shape[0]:
            for j in range(w.size):
                path[t, j] = w[j]
        for j in range(w.size):
            w[j] += step * g[j]
        out[t] = downhill(A, y, v, w, kind, g)
        if not out[t] <= lost * start:
            return -(t + 1)
        done = True
        for j in range(w.size):
            done = done and abs(g[j]) <= limit[j]
        if done:
            return t + 1
    return out.size


@kernel
def row_steps(A: Array, y: Array, v: Array, order: Array, w: Array, step: float, kind: int) -> None:
    """One step for each row in the given order."""
    for i in order:
        z = 0.0
        for j in range(w.size):
            z += w[j] * A[i, j]
        slope = step * v[i]
        if kind == SIGMOID:
            z = 1.0 / (1.0 + np.exp(-z))
            slope *= z * (1.0 - z)
        change = slope * (y[i] - z)
        for j in range(w.size):
            w[j] += change * A[i, j]


def augmented(X: Array, intercept: bool) -> Array:
    """Rows with a column of ones behind the others, or without.

    >>> augmented(np.array([[1.0], [3.0]]), True).tolist()
    [[1.0, 1.0], [3.0, 1.0]]
    """
    return np.column_stack([X, np.ones(len(X))]) if intercept else np.array(X, dtype=np.float64, order="C")


def triangle_of(A: Array, y: Array, v: Array) -> tuple[Array, Array]:
    """At most p + 1 rows and targets with the same squared error and gradient for every w.

    >>> T, c = triangle_of(np.array([[1.0], [1.0], [1.0]]), np.array([1.0, 2.0, 3.0]), np.ones(3))
    >>> T.shape, round(float(c @ c), 9)
    ((2, 1), 14.0)
    """
    root = np.sqrt(v)
    factor: Any = np.linalg.qr(np.column_stack([A * root[:, None], y * root]), mode="r")
    return np.ascontiguousarray(factor[:, :-1]), np.ascontiguousarray(factor[:, -1])


def largest_step(A: Array, v: Array, kind: int, *, single: bool = False) -> float:
    """Steps below this hold: of the sum over all rows, or (`single`) of one row at a time.

    >>> A, v = np.array([[2.0], [1.0]]), np.ones(2)
    >>> round(largest_step(A, v, LINEAR), 9), round(largest_step(A, v, LINEAR, single=True), 9)
    (0.4, 0.5)
    """
    with np.errstate(over="ignore"):
        if single:
            size = (v * np.einsum("ij,ij->i", A, A)).max()
        else:
            size = np.square(np.linalg.norm(A * np.sqrt(v)[:, None], 2)) if A.any() else 0.0
        size = float(size * (CURVATURE if kind == SIGMOID else 1.0))
    if not np.isfinite(size):
        raise DataError("the columns are too large for any step size", remedy="scale the columns first")
    return 2.0 / max(size, 1e-300)
