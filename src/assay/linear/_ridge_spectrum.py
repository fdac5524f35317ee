"""All alphas of a ridge regression from one decomposition, and leave-one-out for all of them at once.

Write A for the centred rows times sqrt(w) and B for the targets likewise. The columns with f_j = 0 are projected
out, the others divided by sqrt(f_j), and one eigendecomposition S = V diag(d) V' serves every alpha:

    g(alpha) = V (c / (d + alpha)),   c = V'A'B.

S is the Gram matrix, or, where that would lose digits, the rows (or their triangular factor) go through an SVD; for
p > n the n x n matrix of inner products takes its place (the dual form). With the left factors U = A V / sqrt(d),
leaving row i out costs nothing more:

    y_i - yhat_(-i)(x_i) = r_i / (1 - h_i),   1 - h_i = q_i + sum_j u_ij^2 alpha / (d_j + alpha),

where q_i is the part that no column reaches; r_i has the same form, so that neither cancels when alpha is small.
Both sums are matrix products over all alphas. Cost: n p^2 + p^3, or n^2 p + n^3, and 2 n p m for leaving one out at m
alphas. Golub, Heath and Wahba (1979), Technometrics 21, 215-223.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse

from assay.linear._ridge_rows import (
    EPS,
    SAFE,
    RidgeRows,
    centred_factors,
    centred_rows,
    factor_of_rows,
    moments_of,
    unit_diagonal,
)
from assay.numerics.moments import Moments

__all__ = [
    "LeaveOneOut",
    "Spectrum",
    "leave_one_out",
    "spectrum_from_factor",
    "spectrum_from_gram",
    "spectrum_from_rows",
    "spectrum_of",
]

Array = np.ndarray

ALONE = 1e-14
"""A row with 1 - h below this decides its own fit; what would happen without it is not defined."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """b(alpha) = base + lift(c / (d + alpha)).

    `lift` maps coordinates (r, m) to coefficients (p, m); `free` (p, u) whitens the unpenalised columns, and
    `base` is their fit. `U` (n, r) and `Q` (n, u) are the left factors where the rows themselves were decomposed.
    """

    d: Array
    c: Array
    lift: Callable[[Array], Array]
    free: Array
    base: Array
    U: Array | None = None
    Q: Array | None = None

    def coef(self, alphas: Array) -> Array:
        """Coefficients (p, k) for alphas (k,) given per target, or (p, k, m) for alphas (m, 1, 1)."""
        if alphas.ndim == 1:
            return self.base + self.lift(self.c / (self.d[:, None] + alphas))
        g = self.c[:, :, None] / (self.d[:, None, None] + alphas.ravel())
        k, m = g.shape[1:]
        return self.base[:, :, None] + self.lift(g.reshape(-1, k * m)).reshape(-1, k, m)

    def size_of(self, target: int) -> Callable[[float], float]:
        """sum_j f_j b_j^2 as a function of alpha."""

        def size(alpha: float) -> float:
            with np.errstate(over="ignore"):
                return float(((self.c[:, target] / (self.d + alpha)) ** 2).sum())

        return size

    def safe_at(self, alpha: float) -> bool:
        """Whether squaring the rows cost nothing that matters at this alpha."""
        return self.d.size == 0 or bool(self.d.max() / SAFE <= self.d.min() + alpha)

    def edf(self, alpha: float) -> float:
        """Trace of the hat matrix, without the intercept."""
        return float((self.d / (self.d + alpha)).sum()) + self.free.shape[1]

    def describe(self, alpha: float, mean: Array, weight: float, intercept: bool) -> tuple[float, Array, float]:
        """As `_describe`."""
        basis = self.lift(np.eye(self.d.size))
        with np.errstate(over="ignore", invalid="ignore"):
            g = self.d / (self.d + alpha) / (self.d + alpha)
            variance = basis**2 @ g + (self.free**2).sum(axis=1)
            of_intercept = 1.0 / weight + (mean @ basis) ** 2 @ g + ((mean @ self.free) ** 2).sum()
        return self.edf(alpha) + intercept, variance, float(of_intercept) if intercept else np.nan


def spectrum_from_gram(m: Moments, factors: Array, alpha_min: float) -> Spectrum | None:
    """From the centred Gram matrix, or None when that would lose too many digits at `alpha_min`."""
    P, U = np.flatnonzero(factors > 0), np.flatnonzero(factors == 0)
    root = np.sqrt(factors[P])
    free, S = np.zeros((len(factors), 0)), m.xx[np.ix_(P, P)]
    C = np.zeros((U.size, P.size))
    if U.size:
        M, t = unit_diagonal(m.xx[np.ix_(U, U)], 0.0, np.zeros(U.size))
        e, V = linalg.eigh(M, check_finite=False)
        if e[0] * SAFE < e[-1] or (np.diag(m.xx)[U] == 0).any():
            return None
        free = np.zeros((len(factors), U.size))
        free[U] = V / np.sqrt(e) / t[:, None]
        C = free[U] @ (free[U].T @ m.xx[np.ix_(U, P)])
        before = np.diag(S)
        S = S - m.xx[np.ix_(P, U)] @ C
        if (np.diag(S) * SAFE < before).any():
            return None
    d, V = linalg.eigh(S / root[:, None] / root, check_finite=False) if P.size else (np.zeros(0), S)
    if d.size and d[-1] > SAFE * (max(float(d[0]), 0.0) + alpha_min):
        return None
    keep = d > EPS * len(d) * d[-1] if d.size else np.zeros(0, dtype=bool)
    basis = np.zeros((len(factors), int(keep.sum())))
    basis[P] = V[:, keep] / root[:, None]
    basis[U] = -C @ basis[P]
    return Spectrum(d[keep], basis.T @ m.xy, basis.__matmul__, free, free @ (free.T @ m.xy))


def spectrum_from_rows(A: Array, B: Array, factors: Array, alpha_min: float, nulls: int = 0) -> Spectrum:
    """From centred rows A (or their triangular factor) and targets B.

    With fewer rows than columns the n x n matrix of inner products is decomposed where that keeps the
    digits, otherwise A itself by SVD. `nulls` directions are known to be empty (the mean).
    """
    P, F = np.flatnonzero(factors > 0), np.flatnonzero(factors == 0)
    root = np.sqrt(factors[P])
    AP = A[:, P] / root
    free, Q, C = np.zeros((len(factors), 0)), np.zeros((len(A), 0)), np.zeros((0, P.size))
    if F.size:
        t = np.sqrt((A[:, F] ** 2).sum(axis=0))
        t[t == 0] = 1.0
        Q, s, Wt = linalg.svd(A[:, F] / t, full_matrices=False, check_finite=False)
        keep = s > 10 * max(A.shape) * EPS * max(float(s[0]), 0.0)
        Q = Q[:, keep]
        free = np.zeros((len(factors), int(keep.sum())))
        free[F] = Wt[keep].T / s[keep] / t[:, None]
        C = free[F] @ (Q.T @ AP)
        before = (AP**2).sum(axis=0)
        AP = AP - Q @ (Q.T @ AP)
        AP -= Q @ (Q.T @ AP)
        AP[:, (AP**2).sum(axis=0) <= (100 * EPS) ** 2 * before] = 0.0
    U, d, Vt = _decompose(AP, alpha_min, nulls + Q.shape[1])

    def lift(g: Array) -> Array:
        b = np.zeros((len(factors), g.shape[1]))
        h = Vt.T @ g if Vt is not None else AP.T @ ((U / np.sqrt(d)) @ g)
        b[P] = h / root[:, None]
        b[F] = -C @ h
        return b

    c = np.sqrt(d)[:, None] * (U.T @ B)
    return Spectrum(d, c, lift, free, free @ (Q.T @ B), U, Q)


def _decompose(A: Array, alpha_min: float, nulls: int) -> tuple[Array, Array, Array | None]:
    """U, squared singular values above rounding, and V' (None where A'U / sqrt(d) gives it)."""
    n, p = A.shape
    if nulls < n < p:
        d, U = linalg.eigh(A @ A.T, check_finite=False)
        if d[-1] <= SAFE * (max(float(d[nulls]), 0.0) + alpha_min):
            keep = np.arange(n) >= nulls
            keep &= d > EPS * n * d[-1]
            return U[:, keep], d[keep], None
    if p == 0 or n == 0:
        return np.zeros((n, 0)), np.zeros(0), np.zeros((0, p))
    U, s, Vt = linalg.svd(A, full_matrices=False, check_finite=False)
    keep = s > max(n, p) * EPS * s[0]
    return U[:, keep], s[keep] ** 2, Vt[keep]


def spectrum_of(rows: RidgeRows, how: str, factors: Array, alpha_min: float) -> tuple[RidgeRows, Moments, Spectrum]:
    """The spectrum by the primal or dual way, with the moments (of the dual way only their means)."""
    if how == "primal":
        rows, m = moments_of(rows)
        spectrum = spectrum_from_gram(m, factors, alpha_min)
        if spectrum is None:
            spectrum = spectrum_from_factor(factor_of_rows(rows, m.mx, m.my), rows, factors, alpha_min)
        return rows, m, spectrum
    if rows.is_sparse:
        return _sparse_dual(rows, factors)
    rows, m, A, B = centred_rows(rows)
    return rows, m, spectrum_from_rows(A, B, factors, alpha_min, nulls=int(rows.intercept))


def spectrum_from_factor(R: Array, rows: RidgeRows, factors: Array, alpha_min: float) -> Spectrum:
    RX, RY = centred_factors(R, rows)
    return replace(spectrum_from_rows(RX, RY, factors, alpha_min), U=None, Q=None)


def _sparse_dual(rows: RidgeRows, factors: Array) -> tuple[RidgeRows, Moments, Spectrum]:
    """The dual way for sparse rows with more columns than rows: n x n, X never centred explicitly."""
    X = rows.X.astype(np.float64, copy=False)
    w = np.ones(rows.n) if rows.w is None else rows.w
    weight, root = float(w.sum()), np.sqrt(w)
    mx = X.T @ w / weight if rows.intercept else np.zeros(rows.p)
    my = w @ rows.Y / weight if rows.intercept else np.zeros(rows.Y.shape[1])
    K = (X @ sparse.diags_array(1 / factors) @ X.T).toarray()
    if rows.intercept:
        across = w @ K / weight
        K = K - across - across[:, None] + across @ w / weight
    K *= root
    K *= root[:, None]
    d, U = linalg.eigh(K, check_finite=False)
    keep = d > EPS * rows.n * max(float(d[-1]), 0.0)
    keep[: int(rows.intercept)] = False
    U, d = U[:, keep], d[keep]
    B = (rows.Y - my) * root[:, None]

    def lift(g: Array) -> Array:
        theta = root[:, None] * ((U / np.sqrt(d)) @ g)
        return (X.T @ theta - np.outer(mx, theta.sum(axis=0))) / factors[:, None]

    none = np.zeros((rows.p, 0))
    m = Moments(weight, rows.n, mx, my, np.zeros((0, 0)), np.zeros((0, 0)), (B**2).sum(axis=0))
    base = np.zeros((rows.p, rows.Y.shape[1]))
    return rows, m, Spectrum(d, np.sqrt(d)[:, None] * (U.T @ B), lift, none, base, U, np.zeros((rows.n, 0)))


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Weighted mean squared errors of rows left out: per target (k, m), over targets (m,), with standard errors."""

    each: Array
    mean: Array
    std_error: Array
    rss: Array
    undefined: int | None


def leave_one_out(rows: RidgeRows, m: Moments, spectrum: Spectrum, alphas: Array) -> LeaveOneOut:
    """Leave-one-out errors of all alphas at once; `undefined` names a row whose own leverage is one.

    A row counts as one unit whatever its weight: with weights, the whole row is left out.
    """
    s = spectrum
    full = s.d.size > 0 and s.d.size + s.free.shape[1] + rows.intercept >= rows.n
    # At full rank both sides vanish with alpha. A factor they share drops out, and this one keeps them near one.
    kappa = alphas + s.d.min() if full else alphas
    shrink = kappa / (s.d[:, None] + alphas)
    inner = s.c / np.sqrt(s.d)[:, None]
    k, count = rows.Y.shape[1], alphas.size
    target = (inner[:, :, None] * shrink[:, None, :]).reshape(s.d.size, k * count)
    whiten = np.hstack([s.lift(np.diag(1 / np.sqrt(s.d))), s.free]) if s.U is None else None
    free_fit = s.free.T @ m.xy if s.Q is None else s.Q.T @ _targets(rows, m)
    running: tuple[float, Array, Array] | None = None
    each, rss, undefined = np.zeros((k, count)), np.zeros((k, count)), None
    for part in rows.blocks(max(s.d.size, k * count)):
        U, Q = _left_factors(rows, m, s, whiten, part)
        e = (U @ target).reshape(-1, k, count)
        squares = U**2
        left = squares @ shrink
        if not full:
            r0, q = _unreached(rows, m, part, squares, U @ inner, Q, free_fit)
            e += r0[:, :, None]
            left += q[:, None]
        rss += np.einsum("ijk,ijk->jk", e, e)
        low = left <= (0.0 if full else ALONE)
        if undefined is None and low.any():
            undefined = part.start + int(np.argmax(low.any(axis=1)))
        with np.errstate(divide="ignore", invalid="ignore"):
            e /= left[:, None, :]
            e *= e
        each += e.sum(axis=0)
        running = _running(running, None if rows.w is None else rows.w[part], e.mean(axis=1) if k > 1 else e[:, 0])
    assert running is not None
    weight, mean, spread = running
    error = np.sqrt(spread / weight / max(rows.n - 1, 1))
    return LeaveOneOut(each / weight, mean, error, rss * (alphas / kappa) ** 2 if full else rss, undefined)


def _unreached(
    rows: RidgeRows, m: Moments, part: slice, squares: Array, fitted: Array, Q: Array, free_fit: Array
) -> tuple[Array, Array]:
    """What no column reaches: its residuals and its share q of each row; rounding is set to zero."""
    B = rows.Y[part] - m.my
    q = 1.0 - squares.sum(axis=1) - (Q**2).sum(axis=1)
    if rows.w is not None:
        B *= np.sqrt(rows.w[part])[:, None]
    if rows.intercept:
        q -= (1.0 if rows.w is None else rows.w[part]) / m.weight
    B -= Q @ free_fit + fitted
    reached = q < 1e-12
    B[reached], q[reached] = 0.0, 0.0
    return B, q


def _targets(rows: RidgeRows, m: Moments) -> Array:
    B = rows.Y - m.my
    return B if rows.w is None else B * np.sqrt(rows.w)[:, None]


def _left_factors(rows: RidgeRows, m: Moments, s: Spectrum, whiten: Array | None, part: slice) -> tuple[Array, Array]:
    if whiten is None:
        assert s.U is not None
        assert s.Q is not None
        return s.U[part], s.Q[part]
    Z = np.asarray(rows.X[part] @ whiten)
    Z -= m.mx @ whiten
    if rows.w is not None:
        Z *= np.sqrt(rows.w[part])[:, None]
    return Z[:, : s.d.size], Z[:, s.d.size :]


def _running(before: tuple[float, Array, Array] | None, w: Array | None, e: Array) -> tuple[float, Array, Array]:
    """Weight, weighted mean and spread of e / w over the rows so far (e already carries its weight once)."""
    weight = float(len(e)) if w is None else float(w.sum())
    mean = e.sum(axis=0) / weight
    with np.errstate(invalid="ignore"):
        off = e - mean if w is None else (e / w[:, None] - mean) * np.sqrt(w)[:, None]
        spread = np.einsum("ij,ij->j", off, off)
        if before is None:
            return weight, mean, spread
        total = before[0] + weight
        step = mean - before[1]
        between = step**2 * (before[0] * weight / total)
    return total, before[1] + step * (weight / total), before[2] + spread + between
