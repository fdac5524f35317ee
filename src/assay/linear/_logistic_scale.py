"""Where the columns of a logistic regression lie and how far they spread, from one pass and at any scale.

    mean = shift + sum w (x - shift) / W,    scale^2 = sum w (x - shift)^2 / W - (mean - shift)^2

The shift is a value that the column takes, a median of a few rows, so that the difference loses no digits. Sparse
columns, and those of a model without intercept, are not centred: their scale is the root mean square.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.linear._logistic_kernels import column_sums
from assay.numerics.threads import parallel
from assay.numerics.triangle import blocks

__all__ = ["standardise"]

Array = np.ndarray

TINY = 1e-300
"""Scales below this have no inverse; whoever asks for the fit of such a column is told so."""


def standardise(X: Any, w: Array, intercept: bool, n_jobs: int | None) -> tuple[Array, Array, Array]:
    """Centre, scale and largest distance from the centre of each column."""
    p = X.shape[1]
    total, square, far, mean = _columns(X, w, n_jobs)
    weight = float(w.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        shift = total / weight
        variance = square / weight - np.square(shift)
    if not isinstance(X, np.ndarray) or not intercept:
        # Nothing is centred, so the size of a column is its root mean square.
        centre, variance, far = np.zeros(p), square / weight, far
        if isinstance(X, np.ndarray):
            with np.errstate(over="ignore", invalid="ignore"):
                variance = variance + np.square(mean) + 2.0 * mean * shift
            far = far + np.abs(mean)
    else:
        centre, far = mean + shift, far + np.abs(shift)
    scale = np.sqrt(np.maximum(variance, 0.0))
    # Squares that overflow or vanish leave the largest entry as the size of a column.
    usable = np.isfinite(scale) & (scale > 1e-10 * far)
    scale = np.maximum(np.where(usable, scale, np.where(far > 0, far, 1.0)), TINY)
    return centre, scale, far


def _columns(X: Any, w: Array, n_jobs: int | None) -> tuple[Array, Array, Array, Array]:
    """Sums, sums of squares and largest sizes of x - shift, and the shift: a value each column really takes."""
    n, p = X.shape
    if not isinstance(X, np.ndarray):
        squares = X.multiply(X)
        far = abs(X).max(axis=0).toarray().ravel()
        return np.asarray(X.T @ w).ravel(), np.asarray(squares.T @ w).ravel(), far, np.zeros(p)
    few = X[:: max(1, n // 9)][:9]
    few = few if len(few) % 2 else few[:-1]
    shift = np.median(few, axis=0)  # an odd number of rows: one of them, so a constant column is zero exactly

    def one(rows: slice) -> tuple[Array, Array, Array]:
        sums = np.zeros(p), np.zeros(p), np.zeros(p)
        column_sums(X[rows], shift, w[rows], *sums)
        return sums

    parts = parallel(one, blocks(n, p + 1), n_jobs=n_jobs, work=4.0 * n * p)
    far = np.max([part[2] for part in parts], axis=0)
    return np.sum([part[0] for part in parts], axis=0), np.sum([part[1] for part in parts], axis=0), far, shift
