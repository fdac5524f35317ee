"""The rows of a logistic regression, and what one pass over them gives: loss, gradient, Hessian.

Two classes, with eta_i = o_i + z_i't, z = (1, (x - mean) / scale), p_i = 1/(1 + exp(-eta_i)) and s_i = +1 or -1:

    loss = sum_i w_i log(1 + exp(-s_i eta_i)),    gradient = sum_i w_i (p_i - y_i) z_i,
    Hessian = sum_i w_i p_i q_i z_i z_i'

K classes, symmetric: eta_i = o_i + B z_i with B = Q T, where the K x (K - 1) matrix Q is an orthonormal basis of the
vectors that sum to zero. T has no free direction left, |B| = |T|, and the blocks of the Hessian of B are

    H_kl = -sum_i w_i p_ik p_il z_i z_i'  (k != l),     H_kk = -sum_{l != k} H_kl.

A ridge penalty (1/2) sum_j r_j t_j^2 is added to all three. Every block of rows is read once: a kernel leaves the
columns, centred, scaled and weighted by sqrt(w p q), in a buffer that stays in the cache, and one symmetric BLAS
product makes its share of the Hessian. Blocks are dealt out to a fixed number of lanes and lanes are added in order,
so the number of threads changes nothing. Cost of a pass: n p^2 flops (n p without the Hessian), K (K - 1)/2 times
that for K classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from assay.linear._logistic_classes import assemble, symmetric_basis
from assay.linear._logistic_kernels import (
    binary_block,
    binary_product_block,
    curve_block,
    softmax_block,
    standard_block,
    weigh_block,
)
from assay.linear._logistic_scale import standardise
from assay.numerics.threads import parallel
from assay.numerics.triangle import blocks

__all__ = ["LogisticRows", "Point", "make_rows"]

Array = np.ndarray
Outcome = TypeVar("Outcome")

LANES = 8
"""Into how many parts a pass is cut, whatever the number of threads."""

LANE_CELLS = 1 << 24
"""All lanes together hold at most this many cells of Hessian (128 MiB)."""


TAME = 1e3
"""A mean of at most this many spreads costs at most three of sixteen digits when it is subtracted late."""

FAR = 8.0
"""A column this many spreads from zero is measured from its mean where margins are compared with the size of rows."""


@dataclass(frozen=True, eq=False)
class Point:
    """Loss (penalty included), gradient and, where asked for, Hessian at theta; `state` is what a product needs."""

    theta: Array
    loss: float
    gradient: Array
    hessian: Array | None
    state: Array


@dataclass(frozen=True, eq=False)
class LogisticRows:
    """Clean rows in the units of the solver.

    `X` is dense (C order) or CSR, `codes` count the classes from 0, `w` > 0; `offset` is (n,) for two classes and (n,
    K) for more. z = (x - mean) * inverse; `reach` is the largest |z| of each column; `ridge` (m,) is the penalty of
    each coordinate, that of the intercept being 0.
    """

    X: Any
    codes: Array
    K: int
    w: Array
    offset: Array
    first: int
    mean: Array
    inverse: Array
    reach: Array
    ridge: Array
    n_jobs: int | None

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.X.shape[0])

    @property
    def m(self) -> int:
        """Coordinates per class, the intercept included."""
        return int(self.X.shape[1]) + self.first

    @property
    def size(self) -> int:
        """How many numbers theta holds."""
        return self.m * (self.K - 1)

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.w.sum())

    @property
    def is_sparse(self) -> bool:
        """Whether X is CSR."""
        return bool(sparse.issparse(self.X))

    def bound(self, step: Array) -> float:
        """The most by which a step can move any eta; the largest |z| of each column is known."""
        far = np.concatenate([np.ones(self.first), self.reach])
        return float((np.abs(step.reshape(self.K - 1, self.m)) @ far).max(initial=0.0))

    def near_zero(self) -> LogisticRows:
        """The same rows, measured from the means where some column is many times farther from zero than it is wide.

        Margins relative to rows as they stand, a year or a time in seconds, would be lost in rounding.
        """
        if not (np.abs(self.mean * self.inverse) > FAR).any():
            return self
        return replace(self, X=self.X - self.mean, mean=np.zeros_like(self.mean))

    def part(self, stride: int) -> LogisticRows:
        """Every stride-th row, in the same units, with weights that stand for all rows."""
        if self.is_sparse:
            keep: Any = np.arange(0, self.n, stride)
        else:
            keep = slice(None, None, stride)
        X: Any = self.X[keep]
        X = X if self.is_sparse else np.ascontiguousarray(X)
        codes, offset = np.ascontiguousarray(self.codes[keep]), np.ascontiguousarray(self.offset[keep])
        w = self.w[keep]
        total = float(w.sum())
        return replace(self, X=X, w=w * (self.weight / total if total > 0 else 1.0), codes=codes, offset=offset)

    def evaluate(self, theta: Array, hessian: bool = True) -> Point:
        """Loss, gradient and Hessian at theta, penalty included."""
        if self.K == 2:
            loss, gradient, H, state = (
                self._binary_sparse(theta, hessian) if self.is_sparse else self._binary(theta, hessian)
            )
        else:
            loss, gradient, H, state = self._multinomial(theta, hessian)
        ridge = np.tile(self.ridge, self.K - 1)
        if ridge.any():
            loss += 0.5 * float(ridge @ np.square(theta))
            gradient = gradient + ridge * theta
            if H is not None:
                H[np.diag_indices_from(H)] += ridge
        return Point(theta, loss, gradient, H, state)

    def product(self, point: Point, v: Array) -> Array:
        """The Hessian at a point times v, without forming it."""
        if self.K > 2:
            out = self._multinomial_product(point.state, v)
        elif self.is_sparse:
            s = point.state[1] * self.etas(v)
            out = self._gather(s)
        else:
            curve = point.state[1]

            def lane(parts: list[slice]) -> Array:
                total = np.zeros(self.m)
                for rows in parts:
                    binary_product_block(self.X[rows], curve[rows], self.mean, self.inverse, v, self.first, total)
                return total

            out = _sum(self.over_lanes(lane, 4.0 * self.n * self.m))
        return out + np.tile(self.ridge, self.K - 1) * v

    def diagonal(self, point: Point) -> Array:
        """An approximate diagonal of the Hessian, for preconditioning sparse problems: exact for two classes."""
        squares = self.X.multiply(self.X) if self.is_sparse else np.square((self.X - self.mean) * self.inverse)
        inverse = np.square(self.inverse) if self.is_sparse else 1.0
        if self.K == 2:
            curves = [point.state[1]]
        else:
            # The diagonal of Q'diag(p)Q - Q'pp'Q, one coordinate of T at a time.
            Q, P = symmetric_basis(self.K), point.state
            C = P @ np.square(Q) - np.square(P @ Q)
            curves = [self.w * C[:, a] for a in range(self.K - 1)]
        parts = [np.concatenate([[c.sum()][: self.first], np.asarray(squares.T @ c).ravel() * inverse]) for c in curves]
        return np.concatenate(parts) + np.tile(self.ridge, self.K - 1)

    def gram(self) -> Array:
        """sum_i w_i z_i z_i': four times the Hessian of two classes that are equally likely everywhere."""
        even = replace(self, K=2, codes=np.zeros_like(self.codes), offset=np.zeros(self.n), ridge=np.zeros(self.m))
        H = even.evaluate(np.zeros(self.m)).hessian
        assert H is not None
        return 4.0 * H

    def etas(self, theta: Array) -> Array:
        """The linear part of every row without its offset: (n,) for two classes, (n, K) for more."""
        if self.K == 2:
            return self.project(theta[:, None])[:, 0]
        return self.project((symmetric_basis(self.K) @ theta.reshape(self.K - 1, self.m)).T)

    def project(self, V: Array) -> Array:
        """Z V, for the standardised rows Z and a few columns V (m, r)."""
        start, slopes = V[: self.first].sum(axis=0), V[self.first :] * self.inverse[:, None]
        if self.is_sparse:
            return np.asarray(self.X @ slopes) + start
        out = np.empty((self.n, V.shape[1]))

        def one(rows: slice) -> None:
            out[rows] = (self.X[rows] - self.mean) @ slopes + start

        parallel(one, blocks(self.n, max(1, self.m)), n_jobs=self.n_jobs, work=4.0 * self.n * V.size)
        return out

    def is_separated_at(self, point: Point) -> bool:
        """Whether every row lies strictly on its side, so that theta itself proves that no maximum exists."""
        if self.ridge.any() or self.offset.any() or not point.theta.any():
            return False
        if self.K == 2:
            return bool((point.state[0] * (2.0 * self.codes - 1.0)).min() > 0)
        own = np.take_along_axis(point.state, self.codes[:, None], axis=1)
        return bool(np.count_nonzero(point.state >= own) == self.n)

    def over_blocks(self, function: Callable[[slice], Outcome]) -> list[Outcome]:
        """A function of each block of rows, over threads; the outcomes in order."""
        return parallel(
            function, blocks(self.n, max(1, self.m)), n_jobs=self.n_jobs, work=float(self.n) * self.m * self.m
        )

    # ------------------------------------------------------------------------------- two classes

    def _binary(self, theta: Array, hessian: bool) -> tuple[float, Array, Array | None, Array]:
        state = np.empty((2, self.n))
        sign = 2.0 * self.codes - 1.0

        def lane(parts: list[slice]) -> tuple[float, Array, Array]:
            tall = max(rows.stop - rows.start for rows in parts)
            Z = np.empty((tall if hessian else 1, self.m))
            loss, gradient = 0.0, np.zeros(self.m)
            H = np.zeros((self.m, self.m) if hessian else (0, 0))
            for rows in parts:
                loss += binary_block(
                    self.X[rows],
                    sign[rows],
                    self.w[rows],
                    self.offset[rows],
                    self.mean,
                    self.inverse,
                    theta,
                    self.first,
                    int(hessian),
                    state[0, rows],
                    state[1, rows],
                    gradient,
                    Z,
                )
                if hessian:
                    V = Z[: rows.stop - rows.start]
                    H += V.T @ V
            return loss, gradient, H

        lanes = self.over_lanes(lane, float(self.n) * self.m * (self.m if hessian else 4))
        H = _sum([part[2] for part in lanes]) if hessian else None
        return sum(part[0] for part in lanes), _sum([part[1] for part in lanes]), H, state

    def _binary_sparse(self, theta: Array, hessian: bool) -> tuple[float, Array, Array | None, Array]:
        eta = self.etas(theta) + self.offset
        sign = 2.0 * self.codes - 1.0
        margin = sign * eta
        e = np.exp(-np.abs(margin))
        near = 1.0 / (1.0 + e)
        loss = float(self.w @ (np.log1p(e) + np.maximum(-margin, 0.0)))
        gradient = self._gather(-sign * self.w * np.where(margin > 0, e * near, near))
        curve = self.w * e * near * near
        H = self._gram(curve) if hessian else None
        return loss, gradient, H, np.stack([eta, curve])

    def _gram(self, curve: Array) -> Array:
        """sum_i c_i z_i z_i' of sparse rows, never made dense row by row."""
        first = self.first
        H = np.empty((self.m, self.m))
        scaled = self.X.multiply(np.sqrt(curve)[:, None]).tocsr()
        H[first:, first:] = (scaled.T @ scaled).toarray() * self.inverse[:, None] * self.inverse
        if first:
            H[0, 0] = curve.sum()
            H[0, 1:] = H[1:, 0] = np.asarray(self.X.T @ curve).ravel() * self.inverse
        return H

    def _gather(self, r: Array) -> Array:
        """Z'r of sparse rows."""
        return np.concatenate([[r.sum()][: self.first], np.asarray(self.X.T @ r).ravel() * self.inverse])

    # ------------------------------------------------------------------------------- more classes

    @property
    def is_tame(self) -> bool:
        """Whether no mean is so large beside its spread that products with uncentred columns would lose digits."""
        return not self.is_sparse and bool((np.abs(self.mean * self.inverse) < TAME).all())

    def _gradient_lane(self, B: Array, P: Array) -> Callable[[list[slice]], tuple[float, Array, Array]]:
        """Loss and gradient from products with the columns as they are; centring and scaling happen to the results."""
        K, first = self.K, self.first
        S = B[:, first:] * self.inverse
        start, shifted = (B[:, 0] if first else 0.0) - S @ self.mean, bool(self.offset.any())

        def lane(parts: list[slice]) -> tuple[float, Array, Array]:
            loss, raw, pull = 0.0, np.zeros((K, self.X.shape[1])), np.zeros(K)
            tall = max(rows.stop - rows.start for rows in parts)
            eta, residual = np.empty((tall, K)), np.empty((tall, K))
            for rows in parts:
                X, size = self.X[rows], rows.stop - rows.start
                # The product is quicker this way round, with few columns on the left.
                np.add((S @ X.T).T, start, out=eta[:size])
                if shifted:
                    eta[:size] += self.offset[rows]
                loss += softmax_block(eta[:size], self.codes[rows], self.w[rows], P[rows], residual[:size], pull)
                raw += residual[:size].T @ X
            G = np.empty((K, self.m))
            G[:, :first] = pull[:, None]
            G[:, first:] = (raw - pull[:, None] * self.mean) * self.inverse
            return loss, G, np.zeros(0)

        return lane

    def _multinomial(self, theta: Array, hessian: bool) -> tuple[float, Array, Array | None, Array]:
        K, m, Q = self.K, self.m, symmetric_basis(self.K)
        B = Q @ theta.reshape(K - 1, m)
        P = np.empty((self.n, K))

        def lane(parts: list[slice]) -> tuple[float, Array, Array]:
            tall = max(rows.stop - rows.start for rows in parts)
            residual, buffer, pull = np.empty((tall, K)), np.empty((tall, m)), np.zeros(K)
            loss, G = 0.0, np.zeros((K, m))
            H = np.zeros((K, K, m, m) if hessian else (0, 0, 0, 0))
            for rows in parts:
                Z = self.standard(rows, buffer)
                size = rows.stop - rows.start
                eta = np.asarray(Z @ B.T) + self.offset[rows]
                loss += softmax_block(eta, self.codes[rows], self.w[rows], P[rows], residual[:size], pull)
                G += np.asarray(Z.T @ residual[:size]).T
                if hessian:
                    self._pairs(Z, P[rows], self.w[rows], H)
            return loss, G, H

        pairs = K * (K - 1) // 2
        share = self._gradient_lane(B, P) if not hessian and self.is_tame else lane
        lanes = self.over_lanes(share, float(self.n) * m * (m * pairs if hessian else 4 * K), K * K if hessian else 0)
        G = _sum([part[1] for part in lanes])
        H = assemble(_sum([part[2] for part in lanes]), Q) if hessian else None
        return sum(part[0] for part in lanes), (Q.T @ G).ravel(), H, P

    def standard(self, rows: slice, buffer: Array) -> Any:
        """The block's standardised columns: in the buffer where X is dense, sparse where it is not."""
        if self.is_sparse:
            part = self.X[rows].multiply(self.inverse[None, :])
            if self.first:
                ones: Any = sparse.csr_array(np.ones((part.shape[0], 1)))
                return sparse.hstack([ones, part], format="csr")
            return part.tocsr()
        Z = buffer[: rows.stop - rows.start]
        standard_block(self.X[rows], self.mean, self.inverse, self.first, Z)
        return Z

    def _pairs(self, Z: Any, P: Array, w: Array, H: Array) -> None:
        """Add sum_i w p_k p_l z z' to H[k, l] for all k < l."""
        K = P.shape[1]
        buffer = None if self.is_sparse else np.empty(Z.shape)
        for k in range(K):
            for other in range(k + 1, K):
                if buffer is None:
                    V = Z.multiply(np.sqrt(w * P[:, k] * P[:, other])[:, None]).tocsr()
                    H[k, other] += (V.T @ V).toarray()
                else:
                    weigh_block(Z, P, w, k, other, buffer)
                    H[k, other] += buffer.T @ buffer

    def _multinomial_product(self, P: Array, v: Array) -> Array:
        K, m, Q = self.K, self.m, symmetric_basis(self.K)
        V = Q @ v.reshape(K - 1, m)

        def lane(parts: list[slice]) -> Array:
            tall = max(rows.stop - rows.start for rows in parts)
            buffer = np.empty((tall, m))
            total = np.zeros((K, m))
            for rows in parts:
                Z = self.standard(rows, buffer)
                A = np.ascontiguousarray(Z @ V.T)
                curve_block(P[rows], self.w[rows], A)
                total += np.asarray(Z.T @ A).T
            return total

        return (Q.T @ _sum(self.over_lanes(lane, 4.0 * self.n * m * K))).ravel()

    def over_lanes(self, lane: Callable[[list[slice]], Outcome], work: float, cells: int = 1) -> list[Outcome]:
        """Deal the blocks out to lanes, whose number depends on the problem only, and run these over threads."""
        parts = blocks(self.n, max(1, self.m))
        room = max(1, LANE_CELLS // max(1, cells * self.m * self.m))
        count = min(LANES, len(parts), room)
        shares = [list(share) for share in np.array_split(np.arange(len(parts)), count)]
        return parallel(lane, [[parts[i] for i in share] for share in shares], n_jobs=self.n_jobs, work=work)


def _sum(parts: list[Array]) -> Array:
    """The sum in the order given."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def make_rows(
    X: Any, codes: Array, K: int, w: Array, offset: Array | None, intercept: bool, n_jobs: int | None
) -> LogisticRows:
    """Centre and scale the columns (sparse ones are only scaled); the penalty is none until it is set."""
    n, p = X.shape
    if offset is None:
        offset = np.zeros(n if K == 2 else (n, K))
    mean, scale, far = standardise(X, w, intercept, n_jobs)
    first = int(intercept)
    codes = np.ascontiguousarray(codes, dtype=np.int64)
    return LogisticRows(X, codes, K, w, offset, first, mean, 1.0 / scale, far / scale, np.zeros(p + first), n_jobs)
