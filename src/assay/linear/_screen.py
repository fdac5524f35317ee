"""Correlations of very many columns with one target, in a single pass over the data.

With weights w_i (total W) and the target centred and scaled so that sum_i w_i t_i = 0, sum_i w_i t_i^2 = 1,

    r_j = sum_i w_i t_i d_ij / sqrt(sum_i w_i d_ij^2 - (sum_i w_i d_ij)^2 / W),     d_ij = x_ij - x_1j,

so one reading of X gives mean, variance and cross-product of every column. The shift by the first row
takes the column's level out before anything is squared, and sums are kept in double precision whatever
the type of X. A column whose sums are not finite, too small, or lost more than six digits to the
subtraction comes out as NaN and is looked at again, alone, in two passes and on a scale of its own: that
second look also tells an overflow from a NaN or an infinity in the data. Cost: n p multiply-adds, X is
neither copied nor converted. Conditional on a set A with orthonormal basis Q (the constant included) and
residual e of the target,

    r_j|A = x_j'e / sqrt(|x_j|^2 - |Q'x_j|^2),

one matrix product per block of columns. Fan and Lv (2008), JRSS B 70, 849-911.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from assay.base import IMPUTE
from assay.errors import DataError
from assay.numerics.jit import kernel
from assay.numerics.threads import parallel

__all__ = ["Target", "default_keep", "marginal", "partial", "top"]

BLOCK = 4096
"""Columns per task: their sums stay in the second-level cache while the rows stream past."""

LOST = 1e-6
"""A variance below this share of the shifted sum of squares has lost six digits: look again."""

TINY = 1e-200
"""Sums of squares below this may have underflowed."""

ALIASED = 1e-12
"""A column of whose variance less than this is left by the selected ones repeats what they say."""


@kernel
def row_sums(X: Any, start: Any, stop: Any, w: Any, wt: Any, total: Any, sums: Any, out: Any) -> Any:
    """Correlations of columns start..stop of a C-ordered X, four rows at a time; NaN asks for a second look."""
    n, m = X.shape[0], stop - start
    shift, s1, s2, st = sums[0, :m], sums[1, :m], sums[2, :m], sums[3, :m]
    first = X[0, start:stop]
    for j in range(m):
        shift[j] = first[j]
        s1[j] = 0.0
        s2[j] = 0.0
        st[j] = 0.0
    i = 0
    while i + 4 <= n:
        a, b, c, d = X[i, start:stop], X[i + 1, start:stop], X[i + 2, start:stop], X[i + 3, start:stop]
        wa, wb, wc, wd = w[i], w[i + 1], w[i + 2], w[i + 3]
        ta, tb, tc, td = wt[i], wt[i + 1], wt[i + 2], wt[i + 3]
        for j in range(m):
            s = shift[j]
            da, db, dc, dd = a[j] - s, b[j] - s, c[j] - s, d[j] - s
            s1[j] += wa * da + wb * db + wc * dc + wd * dd
            s2[j] += wa * da * da + wb * db * db + wc * dc * dc + wd * dd * dd
            st[j] += ta * da + tb * db + tc * dc + td * dd
        i += 4
    while i < n:
        a = X[i, start:stop]
        for j in range(m):
            da = a[j] - shift[j]
            s1[j] += w[i] * da
            s2[j] += w[i] * da * da
            st[j] += wt[i] * da
        i += 1
    for j in range(m):
        out[start + j] = correlation(s1[j], s2[j], st[j], total)


@kernel
def column_sums(T: Any, start: Any, stop: Any, w: Any, wt: Any, total: Any, out: Any) -> Any:
    """The same for columns that are contiguous: row j of T is column j of X."""
    for j in range(start, stop):
        x = T[j]
        shift = np.float64(x[0])
        s1, s2, st = 0.0, 0.0, 0.0
        for i in range(x.size):
            d = x[i] - shift
            wd = w[i] * d
            s1 += wd
            s2 += wd * d
            st += wt[i] * d
        out[j] = correlation(s1, s2, st, total)


@kernel
def correlation(s1: Any, s2: Any, st: Any, total: Any) -> Any:
    """Correlation from shifted sums, or NaN where they cannot be trusted."""
    left = s2 - s1 * s1 / total
    if TINY < s2 < np.inf and left > LOST * s2:
        return min(1.0, max(-1.0, st / np.sqrt(left)))
    return np.nan


@kernel
def centre_columns(T: Any, w: Any, total: Any, scale: Any) -> Any:
    """Centre each row of T and bring it into [-2, 2], in place; scale is 0 for a constant, NaN for bad cells."""
    for j in range(T.shape[0]):
        x = T[j]
        low, high, clean = np.inf, -np.inf, True
        for i in range(x.size):
            if not np.isfinite(x[i]):
                clean = False
            elif w[i] > 0.0:
                low, high = min(low, x[i]), max(high, x[i])
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        scale[j] = half if clean else np.nan
        if not clean or half == 0.0:
            x[:] = 0.0
            continue
        mean = 0.0
        for i in range(x.size):
            x[i] = (x[i] - middle) / half if w[i] > 0.0 else 0.0
            mean += w[i] * x[i]
        mean /= total
        for i in range(x.size):
            x[i] -= mean


class Target:
    """The target, centred and of unit length, with the weights brought to a largest value of one."""

    def __init__(self, y: np.ndarray, weight: np.ndarray | None) -> None:
        self.w = np.ones(y.size) if weight is None else weight / weight.max()
        self.total = float(self.w.sum())
        t = np.array(y, dtype=np.float64).reshape(1, -1)
        scale = np.empty(1)
        centre_columns(t, self.w, self.total, scale)
        self.constant = bool(scale[0] == 0.0)
        length = np.sqrt(self.w @ t[0] ** 2)
        self.t = t[0] if self.constant else t[0] / length

    @property
    def root(self) -> np.ndarray:
        """Square roots of the weights, by which rows are multiplied in weighted projections."""
        return np.sqrt(self.w)


def default_keep(n: float) -> int:
    """How many columns survive by default: floor(n / log n).

    >>> default_keep(100), default_keep(1)
    (21, 2)
    """
    n = max(n, 2.0)
    return int(n / np.log(n))


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the k largest scores in increasing order; among equals the leftmost win.

    >>> top(np.array([0.5, 0.9, 0.5, 0.5]), 2)
    array([0, 1])
    """
    if k >= scores.size:
        return np.arange(scores.size)
    if k <= 0:
        return np.arange(0)
    least = np.partition(scores, scores.size - k)[scores.size - k]
    above = np.flatnonzero(scores > least)
    equal = np.flatnonzero(scores == least)[: k - above.size]
    return np.sort(np.concatenate([above, equal]))


def marginal(X: Any, target: Target, names: Any, n_jobs: int | None) -> np.ndarray:
    """The correlation of every column with the target; refuses NaN and infinities by column and row."""
    out = np.empty(X.shape[1])
    wt = target.w * target.t
    if sparse.issparse(X):
        _sparse_marginal(X, target, wt, out)
    else:
        _dense_marginal(X, target, wt, out, n_jobs)
    again = np.flatnonzero(np.isnan(out))
    for columns in _chunks(again, X.shape[0]):
        T, _ = _centred(X, columns, target, names)
        length = np.sqrt(T**2 @ target.w)
        out[columns] = np.clip(np.divide(T @ wt, length, out=np.zeros(length.size), where=length > 0), -1, 1)
    return out


def _dense_marginal(X: np.ndarray, target: Target, wt: np.ndarray, out: np.ndarray, n_jobs: int | None) -> None:
    n, p = X.shape
    # Kernels are compiled for read-only arrays alone, so that a memory map opened for reading needs no second copy
    # of the machine code; a view costs nothing.
    X = X.view(np.ndarray)
    X.flags.writeable = False
    by_rows, by_columns = X.flags.c_contiguous, X.flags.f_contiguous

    def task(start: int) -> None:
        stop = min(start + BLOCK, p)
        if by_columns:
            column_sums(X.T, start, stop, target.w, wt, target.total, out)
            return
        block, first = (X, start) if by_rows else (np.ascontiguousarray(X[:, start:stop]), 0)
        block.flags.writeable = False
        row_sums(
            block,
            first,
            first + stop - start,
            target.w,
            wt,
            target.total,
            np.empty((4, stop - start)),
            out if by_rows else out[start:stop],
        )

    parallel(task, range(0, p, BLOCK), n_jobs=n_jobs, work=float(n) * p)


def _sparse_marginal(X: Any, target: Target, wt: np.ndarray, out: np.ndarray) -> None:
    """Sums over the stored cells; the zeros need no shift and enter through the total weight."""
    with np.errstate(over="ignore", invalid="ignore"):
        s1, st = (X.T @ np.column_stack([target.w, wt])).T
        s2 = _squared(X).T @ target.w
        left = s2 - s1**2 / target.total
        sound = (s2 > TINY) & (s2 < np.inf) & (left > LOST * s2)
    out[:] = np.nan
    out[sound] = np.clip(st[sound] / np.sqrt(left[sound]), -1, 1)


def _squared(X: Any) -> Any:
    return type(X)((X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape)


def partial(
    X: Any, target: Target, selected: np.ndarray, names: Any, n_jobs: int | None, *, full: bool = True
) -> np.ndarray:
    """Correlations of all columns with the target, both without what the selected columns explain.

    `full=False` takes the selected columns out of the target only: the correlation of x_j with the residual.
    The selected columns themselves, and what they span, score 0.
    """
    root = target.root
    basis = _basis(X, target, selected, names)
    e = root * target.t
    for _ in range(2):  # once more, for what rounding left of the projection
        e -= basis @ (basis.T @ e)
    length = np.linalg.norm(e)
    scores = np.zeros(X.shape[1])
    if length <= 1e-10:  # the selected columns explain the target completely
        return scores
    e /= length
    scores[:] = np.nan
    taken = basis if full else basis[:, :1]
    directions = np.column_stack([taken, e])
    if sparse.issparse(X):
        _sparse_partial(X, target, directions, scores)
    else:
        _dense_partial(X, root, directions, scores, n_jobs)
    scores[selected] = 0.0
    for columns in _chunks(np.flatnonzero(np.isnan(scores)), X.shape[0]):
        T, _ = _centred(X, columns, target, names)
        T *= root
        before = np.einsum("ji,ji->j", T, T)
        for _ in range(2):
            T -= (T @ taken) @ taken.T
        after = np.einsum("ji,ji->j", T, T)
        sound = after > ALIASED * before
        scores[columns] = np.divide(T @ e, np.sqrt(after), out=np.zeros(after.size), where=sound)
    return scores


def _dense_partial(
    X: np.ndarray, root: np.ndarray, directions: np.ndarray, scores: np.ndarray, n_jobs: int | None
) -> None:
    n, p = X.shape

    def task(start: int) -> None:
        columns = slice(start, start + BLOCK // 4)
        with np.errstate(over="ignore", invalid="ignore"):
            block = np.subtract(X[:, columns], X[0, columns], dtype=np.float64)
            block *= root[:, None]
            scores[columns] = _ratio(directions.T @ block, np.einsum("ij,ij->j", block, block))

    work = float(n) * p * directions.shape[1]
    parallel(task, range(0, p, BLOCK // 4), n_jobs=n_jobs, work=work)


def _sparse_partial(X: Any, target: Target, directions: np.ndarray, scores: np.ndarray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        products = (X.T @ (target.root[:, None] * directions)).T
        scores[:] = _ratio(products, _squared(X).T @ target.w)


def _ratio(products: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """x'e / sqrt(|x|^2 - |Q'x|^2) from products with (Q, e), or NaN where it cannot be trusted."""
    left = squares - np.einsum("ij,ij->j", products[:-1], products[:-1])
    sound = (squares > TINY) & (squares < np.inf) & (left > LOST * squares)
    return np.divide(products[-1], np.sqrt(left, where=sound, out=left), out=np.full(left.size, np.nan), where=sound)


def _basis(X: Any, target: Target, selected: np.ndarray, names: Any) -> np.ndarray:
    """Orthonormal columns that span the constant and the selected columns of X, times the root weights."""
    T, _ = _centred(X, selected, target, names)
    A = target.root[:, None] * np.column_stack([np.ones(X.shape[0]), T.T])
    length = np.linalg.norm(A, axis=0)
    A /= np.where(length > 0, length, 1.0)
    Q, R = np.linalg.qr(A)
    # A column that others span leaves a direction of pure rounding behind; its share of R tells.
    return np.asarray(Q[:, np.abs(np.diag(R)) > 1e-10])


def _centred(X: Any, columns: np.ndarray, target: Target, names: Any) -> tuple[np.ndarray, np.ndarray]:
    """A few columns as rows of a small array, centred and scaled, with their scales; refuses what is not finite."""
    cells = X[:, columns]
    if not isinstance(cells, np.ndarray):
        cells = cells.toarray()
    T = np.array(cells.T, dtype=np.float64, order="C")
    scale = np.empty(columns.size)
    centre_columns(T, target.w, target.total, scale)
    if np.isnan(scale).any():
        _refuse(cells[:, int(np.argmax(np.isnan(scale)))], int(columns[np.argmax(np.isnan(scale))]), names)
    return T, scale


def _refuse(column: np.ndarray, j: int, names: Any) -> None:
    row = int(np.argmax(~np.isfinite(column)))
    is_nan = bool(np.isnan(column[row]))
    where = f"column {j}" if names is None else f"column {str(names[j])!r}"
    raise DataError(
        f"X contains {'NaN' if is_nan else 'inf'} in {where}, row {row}",
        remedy=IMPUTE if is_nan else "replace it with a finite number or drop that row",
    )


def _chunks(columns: np.ndarray, n: int) -> list[np.ndarray]:
    size = max(1, (1 << 18) // n)
    return [columns[at : at + size] for at in range(0, columns.size, size)]
