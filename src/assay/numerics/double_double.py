"""Double-double arithmetic: a number is an unevaluated sum hi + lo of two float64, about 32 digits.

    two_sum(a, b) = (s, e)   with s = fl(a + b) and s + e = a + b exactly      (Knuth 1969)
    two_prod(a, b) = (p, e)  with p = fl(a b)   and p + e = a b exactly        (Dekker 1971, no FMA needed)

On top of these stands the one thing least squares needs of it: the normal equations of a design that
an ordinary QR has already made nearly orthonormal. With R the float64 factor of A,

    Q = A R^-1,   G = Q'WQ = L L',   g = Q'Wy,   L u = g,   L'gamma = u,   R beta = gamma,

everything in double-double. Because Q is orthonormal up to cond(A) 1e-16, G is close to the
identity, and beta, the basis R^-1 L'^-1 and the residuals are right to about cond(A) 1e-32.
Cost: about 25 flops for each of the n p^2 multiply-adds, vectorised over columns.

Operands must stay clear of overflow (the split multiplies by 2^27 + 1) and underflow, so the caller scales by
powers of two, which is exact. Dekker, Numer. Math. 18 (1971) 224-242; Hida, Li and Bailey (2001), ARITH-15.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel

__all__ = ["Refined", "refine", "two_prod", "two_sum"]

SPLITTER = 134217729.0  # 2^27 + 1


@kernel(exact=True)
def two_sum(a: Any, b: Any) -> Any:
    """The rounded sum of a and b and what rounding took away."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel(exact=True)
def two_prod(a: Any, b: Any) -> Any:
    """The rounded product of a and b and what rounding took away."""
    p = a * b
    t = SPLITTER * a
    ah = t - (t - a)
    al = a - ah
    t = SPLITTER * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@kernel(exact=True)
def add(ah: Any, al: Any, bh: Any, bl: Any) -> Any:
    """Sum of two double-doubles."""
    s, e = two_sum(ah, bh)
    e += al + bl
    hi = s + e
    return hi, e - (hi - s)


@kernel(exact=True)
def mul(ah: Any, al: Any, bh: Any, bl: Any) -> Any:
    """Product of two double-doubles."""
    p, e = two_prod(ah, bh)
    e += ah * bl + al * bh
    hi = p + e
    return hi, e - (hi - p)


@kernel(exact=True)
def div(ah: Any, al: Any, bh: Any, bl: Any) -> Any:
    """Quotient of two double-doubles: one float64 quotient, corrected twice by its remainder."""
    q1 = ah / bh
    rh, rl = mul(q1, 0.0, bh, bl)
    rh, rl = add(ah, al, -rh, -rl)
    q2 = rh / bh
    th, tl = mul(q2, 0.0, bh, bl)
    rh, rl = add(rh, rl, -th, -tl)
    q3 = rh / bh
    s, e = two_sum(q1, q2)
    return add(s, e, q3, 0.0)


@kernel(exact=True)
def root(ah: Any, al: Any) -> Any:
    """Square root of a positive double-double: one Newton step from the float64 root."""
    x = np.sqrt(ah)
    ph, pl = two_prod(x, x)
    rh, _ = add(ah, al, -ph, -pl)
    return add(x, 0.0, rh / (2.0 * x), 0.0)


@kernel(exact=True)
def normal_equations(
    A: Any, Y: Any, w: Any, R: Any, Q: Any, Gh: Any, Gl: Any, gh: Any, gl: Any, qh: Any, ql: Any
) -> Any:
    """Add the rows of A R^-1 to the Gram matrix G and to g = Q'WY; keep Q rounded to float64.

    A is (n, m), Y (n, k), R (m, m) upper; G (m, m) upper half and g (m, k) accumulate; qh, ql (m,) are scratch.
    """
    n, m = A.shape
    for i in range(n):
        for j in range(m):
            qh[j] = A[i, j]
            ql[j] = 0.0
        for c in range(m):
            ch, cl = div(qh[c], ql[c], R[c, c], 0.0)
            qh[c] = ch
            ql[c] = cl
            Q[i, c] = ch
            for j in range(c + 1, m):
                ph, pl = mul(ch, cl, R[c, j], 0.0)
                qh[j], ql[j] = add(qh[j], ql[j], -ph, -pl)
        for c in range(m):
            ch, cl = mul(qh[c], ql[c], w[i], 0.0)
            for j in range(c, m):
                ph, pl = mul(ch, cl, qh[j], ql[j])
                Gh[c, j], Gl[c, j] = add(Gh[c, j], Gl[c, j], ph, pl)
            for j in range(Y.shape[1]):
                ph, pl = mul(ch, cl, Y[i, j], 0.0)
                gh[c, j], gl[c, j] = add(gh[c, j], gl[c, j], ph, pl)


@kernel(exact=True)
def accumulate(sh: Any, sl: Any, th: Any, tl: Any) -> Any:
    """Add the double-double matrix t to s, in place."""
    for i in range(sh.shape[0]):
        for j in range(sh.shape[1]):
            sh[i, j], sl[i, j] = add(sh[i, j], sl[i, j], th[i, j], tl[i, j])


@kernel(exact=True)
def cholesky(Gh: Any, Gl: Any) -> Any:
    """Overwrite the upper half of G by U with U'U = G; say whether every pivot was positive."""
    m = Gh.shape[0]
    for c in range(m):
        if not Gh[c, c] > 0.0:
            return False
        dh, dl = root(Gh[c, c], Gl[c, c])
        Gh[c, c] = dh
        Gl[c, c] = dl
        for j in range(c + 1, m):
            Gh[c, j], Gl[c, j] = div(Gh[c, j], Gl[c, j], dh, dl)
        for i in range(c + 1, m):
            uh = Gh[c, i]
            ul = Gl[c, i]
            for j in range(i, m):
                ph, pl = mul(uh, ul, Gh[c, j], Gl[c, j])
                Gh[i, j], Gl[i, j] = add(Gh[i, j], Gl[i, j], -ph, -pl)
    return True


@kernel(exact=True)
def solve_transposed(Uh: Any, Ul: Any, bh: Any, bl: Any) -> Any:
    """Overwrite b (m, k) by the solution of U'x = b, U upper triangular."""
    m, k = bh.shape
    for c in range(m):
        for j in range(k):
            bh[c, j], bl[c, j] = div(bh[c, j], bl[c, j], Uh[c, c], Ul[c, c])
        for i in range(c + 1, m):
            for j in range(k):
                ph, pl = mul(bh[c, j], bl[c, j], Uh[c, i], Ul[c, i])
                bh[i, j], bl[i, j] = add(bh[i, j], bl[i, j], -ph, -pl)


@kernel(exact=True)
def solve_upper(Uh: Any, Ul: Any, bh: Any, bl: Any) -> Any:
    """Overwrite b (m, k) by the solution of U x = b, U upper triangular."""
    m, k = bh.shape
    for c in range(m - 1, -1, -1):
        for j in range(k):
            bh[c, j], bl[c, j] = div(bh[c, j], bl[c, j], Uh[c, c], Ul[c, c])
        for i in range(c):
            for j in range(k):
                ph, pl = mul(bh[c, j], bl[c, j], Uh[i, c], Ul[i, c])
                bh[i, j], bl[i, j] = add(bh[i, j], bl[i, j], -ph, -pl)


@kernel(exact=True)
def residuals(A: Any, Y: Any, bh: Any, bl: Any, out: Any) -> Any:
    """Fill `out` (n, k) with Y - A b, b (m, k) in double-double, rounded once at the end."""
    n, m = A.shape
    for i in range(n):
        for j in range(Y.shape[1]):
            sh = Y[i, j]
            sl = 0.0
            for c in range(m):
                ph, pl = mul(bh[c, j], bl[c, j], A[i, c], 0.0)
                sh, sl = add(sh, sl, -ph, -pl)
            out[i, j] = sh


@dataclass(frozen=True, eq=False)
class Refined:
    """Least squares of scaled rows, right to float64 precision.

    `coef` (m, k); `basis` (m, m) with Z = A basis orthonormal under the weights; `coordinates` (m, k) = Z'Wy;
    `residuals` (n, k); `Z` (n, m).
    """

    coef: np.ndarray
    basis: np.ndarray
    coordinates: np.ndarray
    residuals: np.ndarray
    Z: np.ndarray


def refine(
    load: Callable[[slice], tuple[np.ndarray, np.ndarray, np.ndarray]],
    blocks: list[slice],
    R: np.ndarray,
    targets: int,
) -> Refined | None:
    """Solve in double-double from `load(rows) -> (A, Y, w)` and the float64 factor R; None if R is too far off."""
    m, n = R.shape[0], blocks[-1].stop
    R = np.ascontiguousarray(R)
    Q = np.empty((n, m))
    E = np.empty((n, targets))
    Gh, Gl, gh, gl = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, targets)), np.zeros((m, targets))

    def add_block(rows: slice) -> tuple[np.ndarray, ...]:
        A, Y, w = load(rows)
        parts = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, targets)), np.zeros((m, targets))
        normal_equations(A, Y, w, R, Q[rows], *parts, np.empty(m), np.empty(m))
        return parts

    for parts in parallel(add_block, blocks, n_jobs=-1):
        accumulate(Gh, Gl, parts[0], parts[1])
        accumulate(gh, gl, parts[2], parts[3])
    if not cholesky(Gh, Gl):
        return None
    solve_transposed(Gh, Gl, gh, gl)
    coordinates = gh.copy()
    solve_upper(Gh, Gl, gh, gl)
    solve_upper(R, np.zeros_like(R), gh, gl)
    Bh, Bl = np.eye(m), np.zeros((m, m))
    solve_upper(Gh, Gl, Bh, Bl)
    correction = Bh.copy()
    solve_upper(R, np.zeros_like(R), Bh, Bl)

    def finish(rows: slice) -> None:
        A, Y, _ = load(rows)
        residuals(A, Y, gh, gl, E[rows])
        Q[rows] = Q[rows] @ correction

    parallel(finish, blocks, n_jobs=-1)
    return Refined(gh, Bh, coordinates, E, Q)
