# mypy: disable-error-code="no-untyped-def"
# Kernels are typed by Numba, from the arrays they are called with.
"""The columns of a table as the logistic paths see them: standardised, and asked for a few products only.

    dots      z_j' v           for some or all columns and a few vectors v
    combine   sum_j c_j z_j    over some columns
    cross     z_i' H z_j       H diagonal, by BLAS
    joint     z_i' H z_j       H diagonal with w p_k p_m for coefficients of the classes k and m, by BLAS

Dense columns are centred (weighted mean zero, if there is an intercept), divided by their weighted root mean square
and kept one after another in memory; sparse columns are divided only, and the intercept is projected out of the
products instead. The penalties carry the scale, so that the problem solved is that of the columns as given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from assay.errors import DataError
from assay.numerics.jit import kernel
from assay.numerics.scale import power_of_two

__all__ = ["DenseColumns", "PathColumns", "SparseColumns", "columns_of"]

Array = np.ndarray

CONSTANT = 1e-13
"""A column that spreads less than this share of its mean leaves only the rounding of the mean behind."""

BLOCK_CELLS = 32_000_000
"""Products with H go over so many cells at a time: their copy of the columns stays small."""

MOST = 0.4
"""From this share of the columns on, a product with all of them is cheaper than gathering the chosen ones."""

DENSE_ENOUGH = 0.04
"""Above this share of non-zeros the product of sparse columns is slower than BLAS on their dense copy."""

SMALL_CELLS = 200_000
"""A sparse table of at most so many cells is made dense."""


@kernel
def standardise(Z, w, centre, mean, scale):
    """Centre (if asked) and scale each row of Z in place; a constant one becomes zero with scale 1."""
    p, n = Z.shape
    for j in range(p):
        z = Z[j]
        m = 0.0
        if centre:
            for i in range(n):
                m += w[i] * z[i]
            for i in range(n):
                z[i] -= m
        s = 0.0
        for i in range(n):
            s += w[i] * z[i] * z[i]
        s = np.sqrt(s)
        mean[j] = m
        if s <= CONSTANT * abs(m):
            s = 0.0
        scale[j] = s
        inverse = 1.0 / s if s > 0.0 else 0.0
        for i in range(n):
            z[i] *= inverse


@kernel
def dense_dots(Z, columns, V, out):
    """out[s, t] = <V_s, z_t> for the chosen columns."""
    for t in range(columns.size):
        z = Z[columns[t]]
        for s in range(V.shape[0]):
            v = V[s]
            total = 0.0
            for i in range(z.size):
                total += z[i] * v[i]
            out[s, t] = total


@kernel
def dense_combine(Z, columns, values, out):
    """out += sum of values_t z_t, four columns at a time so that `out` is read a quarter as often."""
    t = 0
    n = out.size
    while t + 4 <= columns.size:
        a0, a1, a2, a3 = values[t], values[t + 1], values[t + 2], values[t + 3]
        z0, z1, z2, z3 = Z[columns[t]], Z[columns[t + 1]], Z[columns[t + 2]], Z[columns[t + 3]]
        for i in range(n):
            out[i] += a0 * z0[i] + a1 * z1[i] + a2 * z2[i] + a3 * z3[i]
        t += 4
    while t < columns.size:
        a, z = values[t], Z[columns[t]]
        for i in range(n):
            out[i] += a * z[i]
        t += 1


@kernel
def sparse_dots(data, indices, indptr, columns, V, out):
    """The same on sparse columns."""
    for t in range(columns.size):
        j = columns[t]
        for s in range(V.shape[0]):
            total = 0.0
            for at in range(indptr[j], indptr[j + 1]):
                total += data[at] * V[s, indices[at]]
            out[s, t] = total


@kernel
def sparse_combine(data, indices, indptr, columns, values, out):
    """The same on sparse columns."""
    for t in range(columns.size):
        j, a = columns[t], values[t]
        for at in range(indptr[j], indptr[j + 1]):
            out[indices[at]] += a * data[at]


@kernel
def best_of(g, curvature, lam, d, b):
    """The minimiser over one coordinate of the model whose minus gradient there is g."""
    z = g + curvature * b
    if abs(z) <= lam:
        return 0.0
    return (z - lam if z > 0.0 else z + lam) / (curvature + d)


@kernel
def level(h, residual, eta, total):
    """Take the best constant out of the residuals; returns it."""
    if total <= 0.0:
        return 0.0
    shift = 0.0
    for i in range(h.size):
        shift += residual[i]
    shift /= total
    for i in range(h.size):
        residual[i] -= h[i] * shift
        eta[i] += shift
    return shift


@kernel
def dense_descent(Z, columns, h, lam, d, b, residual, eta, norms, total, sweeps, tol):
    """Coordinate descent on a model with curvature h, without its matrix; every fourth sweep visits zeros too."""
    moved_level = 0.0
    for sweep in range(sweeps):
        moved = 0.0
        moved_level += level(h, residual, eta, total)
        for t in range(columns.size):
            if sweep % 4 != 0 and b[t] == 0.0:
                continue
            z = Z[columns[t]]
            g, size = 0.0, norms[t]
            for i in range(h.size):
                g += z[i] * residual[i]
            if size < 0.0:
                size = 0.0
                for i in range(h.size):
                    size += h[i] * z[i] * z[i]
                norms[t] = size
            if size <= 0.0:
                continue
            step = best_of(g, size, lam[t], d[t], b[t]) - b[t]
            if step != 0.0:
                b[t] += step
                moved = max(moved, step * step * (size + d[t]))
                for i in range(h.size):
                    residual[i] -= step * h[i] * z[i]
                    eta[i] += step * z[i]
        if moved <= tol:
            break
    return moved_level


@kernel
def sparse_descent(data, indices, indptr, columns, h, lam, d, b, residual, eta, norms, total, sweeps, tol):
    """The same on sparse columns."""
    moved_level = 0.0
    for sweep in range(sweeps):
        moved = 0.0
        moved_level += level(h, residual, eta, total)
        for t in range(columns.size):
            if sweep % 4 != 0 and b[t] == 0.0:
                continue
            start, stop = indptr[columns[t]], indptr[columns[t] + 1]
            g, size = 0.0, 0.0
            for at in range(start, stop):
                i = indices[at]
                g += data[at] * residual[i]
                size += h[i] * data[at] * data[at]
            norms[t] = size
            if size <= 0.0:
                continue
            step = best_of(g, size, lam[t], d[t], b[t]) - b[t]
            if step != 0.0:
                b[t] += step
                moved = max(moved, step * step * (size + d[t]))
                for at in range(start, stop):
                    i = indices[at]
                    residual[i] -= step * h[i] * data[at]
                    eta[i] += step * data[at]
        if moved <= tol:
            break
    return moved_level


class PathColumns:
    """What the solver asks of a table; `mean` and `scale` lead back to the columns as given."""

    n: int
    p: int
    mean: Array
    scale: Array
    alive: Array
    """Columns that vary; the others have coefficient zero."""

    def dots(self, V: Array, columns: Array) -> Array:
        """<V_s, z_j> for the chosen columns."""
        raise NotImplementedError

    def all_dots(self, V: Array) -> Array:
        """<V_s, z_j> for every column."""
        return self.dots(V, np.arange(self.p))

    def combine(self, columns: Array, values: Array, out: Array) -> None:
        """Add the columns times their values to `out`."""
        raise NotImplementedError

    def cross(self, a: Array, h: Array, b: Array | None, precise: bool) -> Array:
        """z_i' diag(h) z_j for i in a, j in b (None: b = a and h >= 0); in single precision unless `precise`."""
        raise NotImplementedError

    def joint(self, new: Array, every: Array, P: Array, w: Array, precise: bool) -> Array:
        """z_i' diag(w p_k p_m) z_j for coefficients i of class k and j of class m, numbered class * p + column.

        Pairs of one class may be left out: their curvature is another.
        """
        out = np.zeros((new.size, every.size))
        places = [(np.flatnonzero(new // self.p == k), np.flatnonzero(every // self.p == k)) for k in range(len(P))]
        for k, (left, _) in enumerate(places):
            for m, (_, right) in enumerate(places):
                if m != k and left.size and right.size:
                    h = w * P[k] * P[m]
                    out[np.ix_(left, right)] = self.cross(new[left] - k * self.p, h, every[right] - m * self.p, precise)
        return out

    def descend(self, columns: Array, state: tuple[Any, ...]) -> float:
        """Coordinate descent on a model without its matrix: see `dense_descent`; returns the move of the intercept."""
        raise NotImplementedError

    def rows(self, columns: Array) -> Array:
        """The chosen columns, written out one after another."""
        raise NotImplementedError


class DenseColumns(PathColumns):
    """Standardised dense columns."""

    def __init__(self, X: Array, w: Array, centre: bool) -> None:
        self.n, self.p = X.shape
        unit = power_of_two(np.maximum(X.max(axis=0), -X.min(axis=0)))
        self.Z = np.array(X.T, dtype=np.float64, order="C", copy=True)
        if (np.abs(np.frexp(unit)[1]) > 60).any():  # squares could leave the range of floats
            self.Z /= unit[:, None]
        else:
            unit = np.ones(self.p)
        mean, scale = np.empty(self.p), np.empty(self.p)
        standardise(self.Z, w, centre, mean, scale)
        self.alive = scale > 0
        self.mean, self.scale = mean * unit, np.where(self.alive, scale, 1.0) * unit
        self.single: Array | None = None

    def dots(self, V: Array, columns: Array) -> Array:
        """<V_s, z_j> for the chosen columns."""
        if columns.size > 0.7 * self.p and V.shape[0] > 1:
            return self.all_dots(V)[:, columns]
        out = np.empty((V.shape[0], columns.size))
        dense_dots(self.Z, columns, V, out)
        return out

    def all_dots(self, V: Array) -> Array:
        """<V_s, z_j> for every column."""
        return (self.Z @ V[0])[None] if len(V) == 1 else np.ascontiguousarray(V @ self.Z.T)

    def combine(self, columns: Array, values: Array, out: Array) -> None:
        """Add the columns times their values to `out`."""
        dense_combine(self.Z, columns, values, out)

    def cross(self, a: Array, h: Array, b: Array | None, precise: bool) -> Array:
        """z_i' diag(h) z_j, a block of rows at a time."""
        if not precise and self.single is None:
            self.single = self.Z.astype(np.float32)
        Z = self.Z if precise or self.single is None else self.single
        h = (np.sqrt(h) if b is None else h).astype(Z.dtype)
        # Where most columns are asked for, all of them cost less than a copy of those.
        every = b is not None and b.size > MOST * self.p
        out = np.zeros((a.size, a.size if b is None else self.p if every else b.size))
        step = max(1024, BLOCK_CELLS // max(1, sum(out.shape)))
        for start in range(0, self.n, step):
            rows = slice(start, min(start + step, self.n))
            A = Z[a, rows] if step < self.n else Z[a]
            A *= h[rows]
            out += A @ (A if b is None else Z[:, rows] if every else Z[b, rows]).T
        return out[:, b] if every else out

    def joint(self, new: Array, every: Array, P: Array, w: Array, precise: bool) -> Array:
        """One product of the columns times the probabilities of their classes, a block of rows at a time."""
        if not precise and self.single is None:
            self.single = self.Z.astype(np.float32)
        Z = self.Z if precise or self.single is None else self.single
        root, whole = np.sqrt(w), new.size == every.size
        out = np.zeros((new.size, every.size))
        step = max(256, BLOCK_CELLS // (8 * max(1, new.size + every.size)))
        for start in range(0, self.n, step):
            rows = slice(start, start + step)
            Q = (P[:, rows] * root[rows]).astype(Z.dtype)
            B = Z[every % self.p, rows]
            B *= Q[every // self.p]
            out += (B if whole else B[-new.size :]) @ B.T
        return out

    def descend(self, columns: Array, state: tuple[Any, ...]) -> float:
        """Coordinate descent on a model without its matrix."""
        return float(dense_descent(self.Z, columns, *state))

    def rows(self, columns: Array) -> Array:
        """The chosen columns, written out one after another."""
        return self.Z[columns]


class SparseColumns(PathColumns):
    """Scaled sparse columns; nothing is centred."""

    def __init__(self, X: Any, w: Array, centre: bool) -> None:
        self.n, self.p = X.shape
        A = sparse.csc_array(X, dtype=np.float64, copy=True)
        A.sum_duplicates()
        if A.nnz > np.iinfo(np.int32).max:
            raise DataError(f"X has {A.nnz} non-zeros, more than 2^31", remedy="use fewer columns or rows")
        counts = np.diff(A.indptr)
        owner = np.repeat(np.arange(self.p), counts)
        top = np.zeros(self.p)
        np.maximum.at(top, owner, np.abs(A.data))
        unit = power_of_two(top)
        A.data /= unit[owner]
        squares = np.bincount(owner, weights=w[A.indices] * A.data**2, minlength=self.p)
        mean = np.bincount(owner, weights=w[A.indices] * A.data, minlength=self.p)
        spread = squares - mean**2 if centre else squares
        self.alive = spread > CONSTANT * squares
        scale = np.where(self.alive, np.sqrt(np.maximum(spread, 0.0)), 1.0)
        A.data *= (self.alive / scale)[owner]
        self.mean, self.scale = np.zeros(self.p), scale * unit
        self.A: Any = A
        self.arrays = (A.data, A.indices.astype(np.uint32), A.indptr.astype(np.int64))

    def dots(self, V: Array, columns: Array) -> Array:
        """<V_s, z_j> for the chosen columns."""
        out = np.empty((V.shape[0], columns.size))
        sparse_dots(*self.arrays, columns, V, out)
        return out

    def combine(self, columns: Array, values: Array, out: Array) -> None:
        """Add the columns times their values to `out`."""
        sparse_combine(*self.arrays, columns, values, out)

    def cross(self, a: Array, h: Array, b: Array | None, precise: bool) -> Array:
        """z_i' diag(h) z_j, sparse or by BLAS on blocks of rows, whichever is faster."""
        A = self.A[:, a]
        B = A if b is None else self.A[:, b]
        cells = max(1, self.n * a.size)
        if A.nnz < DENSE_ENOUGH * cells:
            weighted: Any = B.copy()
            weighted.data = weighted.data * h[weighted.indices]
            return np.asarray((A.T @ weighted).toarray())
        out = np.zeros((a.size, B.shape[1]))
        A, B = A.tocsr(), B.tocsr()
        kind = np.float64 if precise else np.float32
        step = max(256, BLOCK_CELLS // max(1, a.size + B.shape[1]))
        for start in range(0, self.n, step):
            left = A[start : start + step].toarray() * h[start : start + step, None]
            out += left.astype(kind).T @ B[start : start + step].toarray().astype(kind)
        return out

    def descend(self, columns: Array, state: tuple[Any, ...]) -> float:
        """Coordinate descent on a model without its matrix."""
        return float(sparse_descent(*self.arrays, columns, *state))

    def rows(self, columns: Array) -> Array:
        """The chosen columns, written out one after another."""
        return np.ascontiguousarray(self.A[:, columns].toarray().T)


def columns_of(X: Any, w: Array, centre: bool) -> PathColumns:
    """The standardised columns of a table, dense or sparse; w sums to one."""
    if not sparse.issparse(X):
        return DenseColumns(X, w, centre)
    table: Any = X
    if table.shape[0] * table.shape[1] <= SMALL_CELLS:
        return DenseColumns(table.toarray(), w, centre)
    return SparseColumns(table, w, centre)
