"""Ridge fits: arrays in, arrays out.

    minimise  sum_i w_i (y_i - b0 - x_i'b)^2 + alpha sum_j f_j b_j^2

*One alpha* (`fit_alpha`): M = G + alpha F, with the centred Gram matrix G and F = diag(f), is scaled to a unit
diagonal and factorized, M^-1 = T T'. The fit, its degrees of freedom tr(T'GT), its covariance T (T'GT) T' and the
leverages |T'a_i|^2 all follow from T. When the condition number of the scaled M says that digits are lost, T comes from
a pivoted QR of the rows [A; sqrt(alpha F)], and where even that has no full rank, from the spectrum (least norm).

*All alphas* (`solve_path`): see `assay.linear._ridge_spectrum`. *Sparse and large both ways*: LSMR on the implicitly
centred, column-scaled rows. *Nonnegative*: block principal pivoting on M.

Cost: n p^2 + p^3 for n >= p, n^2 p + n^3 otherwise. Kim and Park (2011), SIAM J. Sci. Comput. 33, 3261-3281; Fong and
Saunders (2011), SIAM J. Sci. Comput. 33, 2950-2971.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import lapack
from scipy.optimize import brentq, nnls
from scipy.sparse.linalg import LinearOperator, lsmr

from assay.errors import ConvergenceWarning, DataError
from assay.linear._ridge_rows import (
    EPS,
    SAFE,
    RidgeRows,
    centred_factors,
    factor_of_rows,
    intercepts,
    moments_of,
    unit_diagonal,
)
from assay.linear._ridge_spectrum import (
    Spectrum,
    leave_one_out,
    spectrum_from_factor,
    spectrum_from_gram,
    spectrum_of,
)
from assay.numerics.moments import Moments

__all__ = ["RidgeFit", "block_pivoting", "direct", "fit_alpha", "path_from_moments", "solve_budget", "solve_path"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """One fit of k targets; what no theory gives (leave-one-out of a nonnegative fit) is None or NaN."""

    coef: Array
    intercept: Array
    solver: str
    edf: Array | None = None
    variance: Array | None = None
    intercept_variance: Array | None = None
    rss: Array | None = None
    loo: Array | None = None
    n_iter: int = 1


def direct(m: Moments, alpha: float, factors: Array) -> tuple[Array, Array] | None:
    """T with T T' = (G + alpha F)^-1 and the coefficients, or None when Cholesky would lose too many digits."""
    M, t = unit_diagonal(m.xx, alpha, factors)
    L, info = lapack.dpotrf(M, lower=1)
    if info != 0:
        return None
    rcond, _ = lapack.dpocon(L, np.abs(M).sum(axis=0).max(), uplo="L")
    if rcond * SAFE < 1:
        return None
    inverse, _ = lapack.dtrtri(L, lower=1)
    T = np.tril(inverse).T
    rhs = m.xy / t[:, None]
    b = T @ (T.T @ rhs)
    b += T @ (T.T @ (rhs - M @ b))  # one step of refinement
    return T / t[:, None], b / t[:, None]


def augmented(R: Array, S: Array, alpha: float, factors: Array) -> tuple[Array, Array] | None:
    """The same T and coefficients from a pivoted QR of [R; sqrt(alpha F)], or None where the rank falls short."""
    t, rows = _augmented_rows(R, alpha, factors)
    Q, U, pivots = linalg.qr(rows, mode="economic", pivoting=True, check_finite=False)
    size = np.abs(np.diag(U))
    rank = int((size > 0).sum())
    if rank < np.count_nonzero((rows != 0).any(axis=0)) or (rank and size[rank - 1] <= 10 * len(t) * EPS * size[0]):
        return None
    T = np.zeros((len(t), rank))
    T[pivots[:rank]] = linalg.solve_triangular(U[:rank, :rank], np.eye(rank), check_finite=False)
    T /= t[:, None]
    return T, T @ (Q[: len(R), :rank].T @ S)


def _augmented_rows(R: Array, alpha: float, factors: Array) -> tuple[Array, Array]:
    """[R; sqrt(alpha F)] with columns of norm one, and the norms t (one for empty columns)."""
    rows = np.vstack([R, np.diag(np.sqrt(alpha * factors))])
    t = np.sqrt((rows**2).sum(axis=0))
    t[t == 0] = 1.0
    return t, rows / t


def _describe(T: Array, G: Array, mean: Array, weight: float, intercept: bool) -> tuple[float, Array, float]:
    """Degrees of freedom, diagonal of the covariance over sigma^2, and the same for the intercept."""
    with np.errstate(over="ignore", invalid="ignore"):
        middle = T.T @ (G @ T)
        variance = np.maximum(np.einsum("ij,ij->i", T @ middle, T), 0.0)
        at_mean = T.T @ mean
        of_intercept = 1.0 / weight + float(at_mean @ middle @ at_mean) if intercept else np.nan
    return float(np.trace(middle)) + intercept, variance, of_intercept


def _row_errors(rows: RidgeRows, m: Moments, T: Array, coef: Array) -> tuple[Array, Array | None]:
    """RSS and mean squared leave-one-out error per target; None for the latter when a leverage is close to one."""
    K = np.hstack([T, coef])
    offset = m.mx @ K
    rss, total = np.zeros(coef.shape[1]), np.zeros(coef.shape[1])
    least = 1.0
    for part in rows.blocks(K.shape[1]):
        H = np.asarray(rows.X[part] @ K)
        H -= offset
        residual = rows.Y[part] - m.my - H[:, T.shape[1] :]
        left = np.einsum("ij,ij->i", H[:, : T.shape[1]], H[:, : T.shape[1]])
        left += 1.0 / m.weight if rows.intercept else 0.0
        w = 1.0 if rows.w is None else rows.w[part, None]
        left = 1.0 - left * (1.0 if rows.w is None else rows.w[part])
        least = min(least, float(left.min()))
        if least < 1e-6:
            left = np.maximum(left, 1e-6)  # the caller takes the careful way
        rss += (w * residual**2).sum(axis=0)
        total += (w * (residual / left[:, None]) ** 2).sum(axis=0)
    return rss, None if least < 1e-6 else total / m.weight


def fit_alpha(
    rows: RidgeRows,
    alpha: Array,
    factors: Array,
    how: str,
    moments: Moments | None = None,
    spectrum: Spectrum | None = None,
    inference: bool = True,
) -> RidgeFit:
    """The fit of each target at its alpha, with everything inference needs, by the primal or dual way.

    `moments` (and the `spectrum`, for the dual way) of the same rows are taken where the caller has them.
    """
    if how == "primal":
        spectrum = None
        rows, m = (rows, moments) if moments is not None else moments_of(rows)
    elif moments is not None and spectrum is not None and spectrum.safe_at(float(alpha.min())):
        m = moments
    else:
        rows, m, spectrum = spectrum_of(rows, how, factors, float(alpha.min()))
    parts = []
    R = None
    for a in np.unique(alpha):
        targets = np.flatnonzero(alpha == a)
        some = replace(rows, Y=rows.Y[:, targets])
        ms = replace(m, my=m.my[targets], xy=m.xy[:, targets] if m.xy.size else m.xy, yy=m.yy[targets])
        solved = direct(ms, a, factors) if how == "primal" else None
        solver = "cholesky"
        if solved is None and how == "primal":
            R = factor_of_rows(rows, m.mx, m.my) if R is None else R
            RX, RY = centred_factors(R, rows)
            solved, solver = augmented(RX, RY[:, targets], a, factors), "qr"
        if solved is not None and not inference:
            parts.append((targets, RidgeFit(solved[1], intercepts(some, ms, solved[1]), solver)))
            continue
        if solved is not None:
            parts.append((targets, _fit_from_inverse(some, ms, solved, solver, a, factors)))
            continue
        if spectrum is None:
            assert R is not None
            spectrum = spectrum_from_factor(R, rows, factors, a)
        parts.append((targets, _fit_from_spectrum(some, ms, _pick(spectrum, targets), a, how, inference)))
    return parts[0][1] if len(parts) == 1 else _join(parts)


def _pick(s: Spectrum, targets: Array) -> Spectrum:
    return replace(s, c=s.c[:, targets], base=s.base[:, targets])


def _fit_from_inverse(
    rows: RidgeRows, m: Moments, solved: tuple[Array, Array], solver: str, alpha: float, factors: Array
) -> RidgeFit:
    T, coef = solved
    edf, variance, of_intercept = _describe(T, m.xx, m.mx + rows.shift, m.weight, rows.intercept)
    rss, loo = _row_errors(rows, m, T, coef)
    if loo is None:
        s = spectrum_from_gram(m, factors, alpha)
        if s is None:
            s = spectrum_from_factor(factor_of_rows(rows, m.mx, m.my), rows, factors, alpha)
        loo = _loo_at(rows, m, s, alpha)[0]
    return _spread_out(rows, m, coef, solver, edf, variance, of_intercept, rss, loo)


def _fit_from_spectrum(rows: RidgeRows, m: Moments, s: Spectrum, alpha: float, how: str, inference: bool) -> RidgeFit:
    coef = s.coef(np.full(rows.Y.shape[1], alpha))
    solver = "svd" if how == "primal" else "dual"
    if not inference:
        return RidgeFit(coef, intercepts(rows, m, coef), solver)
    loo, rss = _loo_at(rows, m, s, alpha)
    if rows.is_sparse and how == "dual":  # a covariance of p x n dense numbers is not worth its memory
        edf, variance, of_intercept = s.edf(alpha) + rows.intercept, np.full(rows.p, np.nan), np.nan
    else:
        edf, variance, of_intercept = s.describe(alpha, m.mx + rows.shift, m.weight, rows.intercept)
    return _spread_out(rows, m, coef, solver, edf, variance, of_intercept, rss, loo)


def _loo_at(rows: RidgeRows, m: Moments, s: Spectrum, alpha: float) -> tuple[Array, Array]:
    left_out = leave_one_out(rows, m, s, np.array([alpha]))
    loo = left_out.each[:, 0] if left_out.undefined is None else np.full(rows.Y.shape[1], np.nan)
    return loo, left_out.rss[:, 0]


def _spread_out(
    rows: RidgeRows,
    m: Moments,
    coef: Array,
    solver: str,
    edf: float,
    variance: Array,
    of_intercept: float,
    rss: Array,
    loo: Array,
) -> RidgeFit:
    k = coef.shape[1]
    return RidgeFit(
        coef,
        intercepts(rows, m, coef),
        solver,
        np.full(k, edf),
        np.tile(variance[:, None], k),
        np.full(k, of_intercept),
        np.asarray(rss),
        loo,
    )


def _join(parts: list[tuple[Array, RidgeFit]]) -> RidgeFit:
    """One fit from those of several groups of targets."""
    order = np.argsort(np.concatenate([targets for targets, _ in parts]))

    def together(name: str) -> Any:
        values = [getattr(fit, name) for _, fit in parts]
        return None if values[0] is None else np.concatenate(values, axis=-1)[..., order]

    names = ("coef", "intercept", "edf", "variance", "intercept_variance", "rss", "loo")
    return RidgeFit(solver=parts[0][1].solver, **{name: together(name) for name in names})


def solve_budget(size: Callable[[float], float], budget: float) -> float:
    """The alpha at which sum_j f_j b_j^2 = budget; zero when the budget does not bind.

    1 / sqrt(size) is increasing and nearly linear in alpha, so a bracketing root finder reaches the
    last digit in a few steps.
    """
    if size(0.0) <= budget:
        return 0.0

    def secular(alpha: float) -> float:
        reached = size(alpha)
        return float(np.sqrt(budget / reached)) - 1.0 if reached > 0 else 1.0

    high = 1.0
    while secular(high) < 0:
        high *= 16.0
    low = high / 16.0
    while secular(low) > 0 and low > 1e-300:
        high, low = low, low / 16.0
    return float(brentq(secular, low, high, xtol=1e-300, rtol=4 * EPS, maxiter=500))


def path_from_moments(
    m: Moments,
    rows: RidgeRows,
    alphas: Array,
    factors: Array,
    positive: bool,
    factor: Callable[[], Array] | None = None,
) -> tuple[Array, Array] | None:
    """Coefficients (p, k, m) and intercepts (k, m) for all alphas, from moments alone.

    Where the moments would lose digits, the triangular factor of the same rows is asked for; None without one.
    """
    if positive:
        coef = _nonnegative_path(m, alphas, factors, factor, rows)
        if coef is None:
            return None
    else:
        spectrum = spectrum_from_gram(m, factors, float(alphas.min()))
        if spectrum is None:
            if factor is None:
                return None
            spectrum = spectrum_from_factor(factor(), rows, factors, float(alphas.min()))
        coef = spectrum.coef(alphas[:, None, None])
    return coef, intercepts(rows, m, coef)


def solve_path(
    rows: RidgeRows, alphas: Array, factors: Array, how: str, positive: bool, tol: float, max_iter: int | None
) -> tuple[Array, Array, int]:
    """Coefficients (p, k, m), intercepts (k, m) and iterations for all alphas, by any way."""
    if how == "iterative":
        return _iterative_path(rows, alphas, factors, tol, max_iter)
    if positive or how == "primal":
        rows, m = moments_of(rows)
        solved = path_from_moments(m, rows, alphas, factors, positive, lambda: factor_of_rows(rows, m.mx, m.my))
        assert solved is not None
        return *solved, 1
    rows, m, spectrum = spectrum_of(rows, how, factors, float(alphas.min()))
    coef = spectrum.coef(alphas[:, None, None])
    return coef, intercepts(rows, m, coef), 1


def _nonnegative_path(
    m: Moments, alphas: Array, factors: Array, factor: Callable[[], Array] | None, rows: RidgeRows
) -> Array | None:
    """Block pivoting, each alpha started from the active set before; Lawson and Hanson where that goes in circles."""
    k = m.xy.shape[1]
    coef = np.empty((len(factors), k, alphas.size))
    inside = np.zeros((k, len(factors)), dtype=bool)
    R = None
    for at, alpha in enumerate(alphas):
        M, t = unit_diagonal(m.xx, float(alpha), factors)
        L, info = lapack.dpotrf(M, lower=1, clean=1)
        good = info == 0 and lapack.dpocon(L, np.abs(M).sum(axis=0).max(), uplo="L")[0] * SAFE >= 1
        if not good and R is None:
            if factor is None:
                return None
            R = factor()
        for j in range(k):
            if good:
                q = m.xy[:, j] / t
                b = block_pivoting(M, q, inside[j])
                b = _lawson_hanson(L.T, linalg.solve_triangular(L, q, lower=True)) if b is None else b
            else:
                assert R is not None
                RX, RY = centred_factors(R, rows)
                t, A = _augmented_rows(RX, float(alpha), factors)
                b = _lawson_hanson(A, np.concatenate([RY[:, j], np.zeros(len(A) - len(RY))]))
            inside[j] = b > 0
            coef[:, j, at] = b / t
    return coef


def block_pivoting(M: Array, q: Array, start: Array | None = None) -> Array | None:
    """argmin over b >= 0 of b'Mb/2 - q'b for positive definite M of unit diagonal, to rounding.

    All variables of the wrong sign change sides at once; None when that stops making progress.
    """
    inside = np.zeros(q.size, dtype=bool) if start is None else start.copy()
    slack = 10 * EPS * max(float(np.abs(q).max(initial=0.0)), 1e-300)
    fewest, chances = q.size + 1, 5
    while True:
        some = np.flatnonzero(inside)
        b = np.zeros(q.size)
        if some.size:
            b[some] = linalg.solve(M[np.ix_(some, some)], q[some], assume_a="pos", check_finite=False)
        gradient = M[:, some] @ b[some] - q
        wrong = np.where(inside, b < -slack, gradient < -slack)
        count = int(wrong.sum())
        if count == 0:
            return np.maximum(b, 0.0)
        if count >= fewest:
            chances -= 1
        fewest = min(count, fewest)
        if chances < 0:
            return None
        inside ^= wrong


def _lawson_hanson(A: Array, b: Array) -> Array:
    """argmin over x >= 0 of |Ax - b|: slower, but it never goes in circles and never squares A."""
    try:
        return nnls(A, b, maxiter=30 * A.shape[1])[0]
    except RuntimeError as error:
        raise DataError(
            "the nonnegative fit did not converge because the columns are nearly collinear",
            remedy="raise alpha or drop redundant columns",
        ) from error


def _iterative_path(
    rows: RidgeRows, alphas: Array, factors: Array, tol: float, max_iter: int | None
) -> tuple[Array, Array, int]:
    """LSMR for each alpha and target, each started from the solution before."""
    X = rows.X.astype(np.float64, copy=False)
    w = np.ones(rows.n) if rows.w is None else rows.w
    weight, root = float(w.sum()), np.sqrt(w)
    mx = X.T @ w / weight if rows.intercept else np.zeros(rows.p)
    my = w @ rows.Y / weight if rows.intercept else np.zeros(rows.Y.shape[1])
    B = (rows.Y - my) * root[:, None]
    squares = (X.multiply(X)).T @ w - weight * mx**2
    limit = max_iter if max_iter is not None else 10 * min(rows.n, rows.p)
    k = B.shape[1]
    coef = np.zeros((rows.p, k, alphas.size))
    most = 1
    for at, alpha in enumerate(alphas):
        operator, t = _augmented_operator(X, mx, root, np.maximum(squares, 0.0), float(alpha) * factors)
        for j in range(k):
            start = coef[:, j, at - 1] * t if at else None
            target = np.concatenate([B[:, j], np.zeros(rows.p)])
            b, stop, steps = lsmr(operator, target, atol=tol, btol=tol, conlim=0, maxiter=limit, x0=start)[:3]
            coef[:, j, at] = b / t
            most = max(most, int(steps))
            if stop == 7:
                warnings.warn(
                    f"LSMR stopped after {steps} iterations at alpha = {alpha:.3g} before it reached tol = {tol:g}; "
                    "raise max_iter or tol",
                    ConvergenceWarning,
                    stacklevel=4,
                )
    return coef, my[:, None] - np.tensordot(mx, coef, axes=1), most


def _augmented_operator(X: Any, mx: Array, root: Array, squares: Array, penalty: Array) -> tuple[LinearOperator, Array]:
    """[sqrt(w)(X - 1 mx'); sqrt(penalty)] with columns of norm one; unscaled without a penalty (least norm)."""
    n, p = X.shape
    norm = np.sqrt(squares + penalty)
    t = np.where(norm > 0, norm, 1.0) if penalty.any() else np.ones(p)
    ridge = np.sqrt(penalty)

    def forward(v: Array) -> Array:
        b = np.ravel(v) / t
        return np.concatenate([root * (X @ b - mx @ b), ridge * b])

    def backward(u: Array) -> Array:
        u = np.ravel(u)
        top = root * u[:n]
        return (X.T @ top - mx * top.sum() + ridge * u[n:]) / t

    operator: Any = LinearOperator((n + p, p), matvec=forward, rmatvec=backward, dtype=np.float64)
    return operator, t
