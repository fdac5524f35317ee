"""The curvature of a logistic or softmax loss between coefficients, and between them and the unpenalised columns.

Of K > 2 classes the blocks of H off the diagonal are -w p_k p_m, so all of them are one product of the columns times
their class's probabilities; a block on the diagonal has w p_k (1 - p_k), where 1 - p_k is the sum of the other
probabilities: a difference would lose the digits that make H singular along (1, ..., 1).
"""

from __future__ import annotations

import numpy as np

from assay.linear._logistic_path_columns import PathColumns
from assay.linear._logistic_path_loss import curvature

__all__ = ["between", "free_curvature", "pseudo_inverse", "with_free"]

Array = np.ndarray


def between(table: PathColumns, shape: Array, w: Array, new: Array, every: Array, precise: bool) -> Array:
    """Z'HZ between new coefficients and all, which end with the new ones; numbered class * p + column."""
    p, whole, classes = table.p, new.size == every.size, range(len(shape))
    if len(shape) == 1:
        return table.cross(new, shape[0], None if whole else every, precise)
    out = -table.joint(new, every, shape, w, precise)
    for k in classes:
        left, right = np.flatnonzero(new // p == k), np.flatnonzero(every // p == k)
        if left.size:
            others = None if whole else every[right] - k * p
            out[np.ix_(left, right)] = table.cross(new[left] - k * p, curvature(shape, w, k, k), others, precise)
    return out


def with_free(table: PathColumns, shape: Array, w: Array, U: Array, new: Array) -> Array:
    """U'HZ for new coefficients, the unpenalised rows class by class."""
    rows, nu, p = len(shape), len(U), table.p
    out = np.zeros((rows * nu, new.size))
    for m in range(rows if nu else 0):
        at = np.flatnonzero(new // p == m)
        if at.size:
            V = U * shape if rows == 1 else _beside(shape, w, m)[:, None] * U
            out[:, at] = table.dots(V.reshape(rows * nu, U.shape[1]), new[at] - m * p)
    return out


def _beside(shape: Array, w: Array, m: int) -> Array:
    """The diagonals of the blocks of class m with every class."""
    h = shape * (-w * shape[m])
    h[m] = curvature(shape, w, m, m)
    return h


def free_curvature(shape: Array, w: Array, U: Array) -> Array:
    """U'HU, class by class."""
    rows, nu = len(shape), len(U)
    if rows == nu == 1:
        return np.array([[shape[0] @ np.square(U[0])]])
    if rows == 1:
        return (U * shape[0]) @ U.T
    V = (shape[:, None] * U).reshape(rows * nu, U.shape[1])
    S = -((V * w) @ V.T).reshape(rows, nu, rows, nu)
    for k in range(rows):
        S[k, :, k] = 0.0
        S[k, :, k] = -S[k].sum(axis=1)
    return S.reshape(rows * nu, rows * nu)


def pseudo_inverse(S: Array) -> Array:
    """The pseudo-inverse of a symmetric non-negative matrix, blind to the scale of its rows."""
    if len(S) == 1:
        return 1.0 / S if S[0, 0] > 0 else np.zeros((1, 1))
    size = np.sqrt(np.maximum(np.diag(S), 0.0))
    size = np.where(size > 0, size, 1.0)
    values, V = np.linalg.eigh(S / size / size[:, None])
    keep = values > 1e-12 * max(1, len(S))
    V = V[:, keep] / size[:, None]
    return (V / values[keep]) @ V.T
