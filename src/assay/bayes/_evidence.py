"""The exact marginal likelihood of a linear model from one decomposition of its rows.

Write A for the rows (centred if there is an intercept) times sqrt(w), B for the target likewise, A = U diag(sqrt d) V',
c = U'B and r0 = |B - U c|^2. With prior b ~ N(0, sigma2/lam I) and a flat prior of the intercept, W = sum w and
m = W - 1 (W without an intercept),

    log p(y | sigma2, lam) = -m/2 log(2 pi sigma2) - 1/2 log W - 1/2 sum log(1 + d_j/lam) - Q(lam) / (2 sigma2),
    Q(lam) = r0 + sum_j c_j^2 lam / (d_j + lam),

so that every pair of hyperparameters costs p operations. The maximum in log lam is bracketed on a grid and then
found as the root of the derivative: no iteration over the rows, and no local maximum for the global one. Cost:
n p^2 + p^3 (or n^2 p for p > n), once. MacKay (1992), Neural Computation 4, 415-447; Bishop (2006), Pattern Recognition
and Machine Learning, section 3.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from assay.numerics.moments import about_zero, summarize

__all__ = ["EvidenceRows", "decompose", "log_determinant", "maximise", "misfit"]

Array = np.ndarray
EPS = float(np.finfo(np.float64).eps)
SAFE = 1e7
"""Products of the rows are trusted up to this condition number (of the squares): nine digits remain."""
GRID = 241


@dataclass(frozen=True, eq=False)
class EvidenceRows:
    """What the evidence needs: total weight W, means, d, c, V (p, r), r0; y is in units of `scale`."""

    weight: float
    m: float
    mx: Array
    my: float
    d: Array
    c: Array
    V: Array
    r0: float
    scale: float


def decompose(X: Array, y: Array, w: Array | None, intercept: bool) -> EvidenceRows:
    """Centre and decompose: products of the rows where they keep the digits, the rows themselves otherwise."""
    if w is not None and not w.all():
        keep = np.flatnonzero(w)
        X, y, w = X[keep], y[keep], w[keep]
    scale = float(np.ldexp(1.0, int(np.frexp(np.abs(y).max())[1]))) if y.any() else 1.0
    y = y / scale
    weight = float(len(y)) if w is None else float(w.sum())
    n, p = X.shape
    if n > 2 * p:
        found = _from_products(X, y, w, intercept)
        if found is not None:
            mx, my, d, c, V, r0 = found
            return EvidenceRows(weight, weight - intercept, mx, my, d, c, V, r0, scale)
    share = np.full(n, 1.0 / n) if w is None else w / weight
    mx, my = (share @ X, float(share @ y)) if intercept else (np.zeros(p), 0.0)
    A, B = X - mx, y - my
    if intercept:  # what rounding left in the means
        slip, rest = share @ A, float(share @ B)
        A, B, mx, my = A - slip, B - rest, mx + slip, my + rest
    narrow = np.abs(A).max(axis=0) <= 16 * EPS * np.abs(mx)
    A[:, narrow] = 0.0  # a constant column, but for rounding
    if w is not None:
        A, B = A * np.sqrt(w)[:, None], B * np.sqrt(w)
    U, s, Vt = linalg.svd(A, full_matrices=False, check_finite=False)
    keep = s > max(n, p) * EPS * s.max(initial=0.0)
    U, s, Vt = U[:, keep], s[keep], Vt[keep]
    c = U.T @ B
    r0 = float(((B - U @ c) ** 2).sum())
    full = s.size >= n - intercept  # the columns reach every target: nothing but rounding is left
    return EvidenceRows(weight, weight - intercept, mx, my, s**2, c, Vt.T, 0.0 if full else r0, scale)


def _from_products(
    X: Array, y: Array, w: Array | None, intercept: bool
) -> tuple[Array, float, Array, Array, Array, float] | None:
    """The same from centred moments; None where squaring the rows would lose digits."""
    m = summarize(X, y, w)
    if not intercept:
        m = about_zero(m)
    if (np.diag(m.xx) <= 1e-10 * m.weight * m.mx**2).any():
        return None  # a column that hardly moves beside its mean
    d, V = linalg.eigh(m.xx, check_finite=False)
    if not d[0] * SAFE > d[-1]:
        return None
    z = V.T @ m.xy[:, 0]
    c = z / np.sqrt(d)
    r0 = float(m.yy[0] - c @ c)
    if r0 < 1e-4 * float(m.yy[0]):
        # Nearly all is explained, so the difference has few digits: residuals have them.
        e = y - m.my[0] - (X @ (V @ (z / d)) - m.mx @ (V @ (z / d)))
        r0 = float(e @ e if w is None else w @ e**2)
    return m.mx, float(m.my[0]), d, c, V, r0


def misfit(rows: EvidenceRows, lam: Array) -> Array:
    """Q(lam) = r0 + sum c^2 lam / (d + lam), for an array of lam; infinite lam: no column is used."""
    lam = np.asarray(lam, dtype=np.float64)[..., None]
    share = np.where(np.isinf(lam), 1.0, lam / (rows.d + np.where(np.isinf(lam), 0.0, lam)))
    return rows.r0 + share @ rows.c**2


def log_determinant(rows: EvidenceRows, lam: Array) -> Array:
    """sum log(1 + d / lam)."""
    lam = np.asarray(lam, dtype=np.float64)[..., None]
    return np.log1p(rows.d / lam).sum(axis=-1)


def maximise(score: Callable[[Array], Array], slope: Callable[[float], float], rows: EvidenceRows) -> float:
    """The lam of largest score: 0 < lam < infinity, or infinity where the data do not speak for any column.

    `score` takes an array of lam, `slope` is its derivative with respect to log lam.
    """
    if rows.d.size == 0 or not rows.c.any():
        return np.inf
    top = float(rows.d.max())
    grid = np.geomspace(max(float(rows.d.min()), EPS * top) * EPS, top * 1e12, GRID)
    values = score(grid)
    best = int(np.argmax(values))
    if best == GRID - 1 or values[best] <= score(np.array([np.inf]))[0]:
        return np.inf
    if best == 0:
        return float(grid[0])
    low, high = np.log(grid[best - 1]), np.log(grid[best + 1])
    if not slope(low) > 0 > slope(high):
        return float(grid[best])
    return float(np.exp(optimize.brentq(slope, low, high, xtol=1e-13, rtol=4 * EPS)))
