"""Whole lasso and elastic-net paths over dense columns too many for one Gram matrix.

Only a working set of columns is solved (its Gram matrix grows as columns are met); all other columns must then prove
that they may stay at zero, and the duality gap over all columns certifies each answer:

    |x_j' r| <= l_j  for b_j = 0,        P(b) - D(theta) <= tol.

Several penalties are solved ahead before the proof, so that one matrix product X'[r_1 ... r_k] serves them all; the
gradient is piecewise linear in alpha, so its secant predicts which columns will be needed. Columns that
fail join the working set and the path goes on from the first penalty that was not proven.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.linear._coordinate import PATIENCE, certificate, gram_solve

__all__ = ["Settings", "WorkingSet", "wide_path"]

AHEAD = 4
"""At most this many penalties are solved before all columns are checked for them in one product."""

STRIDE = 0.7
"""The next penalty on the way is at least this share of the last, so that each solve starts near its answer."""

MARGIN = 0.97
"""A column joins when its predicted gradient reaches this share of its threshold."""


@dataclass(frozen=True)
class Settings:
    """How to solve: tolerance on the gap, most sweeps per penalty, order of coordinates, seed."""

    tol: float
    max_iter: int
    selection: int = 0
    seed: int = 88172645463325252
    positive: bool = False

    def generator(self) -> np.ndarray:
        """A fresh state for the kernels' random numbers."""
        return np.array([self.seed], dtype=np.uint64)


class WorkingSet:
    """Some columns, their Gram matrix, coefficients and Cholesky factor; grows by doubling."""

    def __init__(self, X: np.ndarray, c: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> None:
        self.X, self.all_c, self.l1, self.l2 = X, c, l1, l2
        self.columns = np.empty(0, dtype=np.int64)
        self.inside = np.zeros(c.size, dtype=bool)
        self.k = 0
        self._reserve(64)

    def _reserve(self, capacity: int) -> None:
        m = self.columns.size

        def grown(name: str, shape: tuple[int, ...], fill: float = 0.0, dtype: Any = np.float64) -> np.ndarray:
            new = np.full(shape, fill, dtype=dtype)
            old = getattr(self, name, None)
            if old is not None:
                new[tuple(slice(side) for side in old.shape)] = old
            return new

        n = self.X.shape[0]
        self.capacity = capacity
        self.rows = grown("rows", (capacity, n))
        self.G = grown("G", (capacity, capacity))
        # Without a ridge part no more columns are ever factored than there are rows; one row tries the next column.
        k = (capacity if self.l2.any() else min(capacity, n)) + 1
        self.L = grown("L", (k, k))
        self.order = grown("order", (k,), dtype=np.int64)
        self.slot = grown("slot", (capacity,), -1, np.int64)
        self.scratch = np.zeros((5, max(capacity, k)))
        self.before = np.zeros(capacity, dtype=np.int64)
        self.b, self.c, self.q = grown("b", (capacity,)), grown("c", (capacity,)), np.zeros(capacity)
        self.lam, self.d = grown("lam", (capacity,)), grown("d", (capacity,))
        assert m <= capacity

    def add(self, new: np.ndarray) -> None:
        """Take more columns in."""
        m, total = self.columns.size, self.columns.size + new.size
        if total > self.capacity:
            self._reserve(max(total, 2 * self.capacity))
        self.rows[m:total] = self.X.T[new]
        block = self.rows[m:total] @ self.rows[:total].T
        self.G[m:total, :total] = block
        self.G[:m, m:total] = block[:, :m].T
        self.c[m:total] = self.all_c[new]
        self.columns = np.concatenate([self.columns, new])
        self.inside[new] = True

    def solve(self, alpha: float, yy: float, how: Settings, seed: np.ndarray) -> int:
        """Minimise over the working set; returns the number of sweeps."""
        m = self.columns.size
        if m == 0:
            return 0
        d = alpha * self.l2[self.columns]
        if self.k and not np.array_equal(d, self.d[:m]):
            self.slot[:] = -1
            self.k = 0
        self.lam[:m], self.d[:m] = alpha * self.l1[self.columns], d
        _, sweeps, self.k = gram_solve(
            self.G, m, self.c, yy, self.lam, self.d, how.positive, self.b, self.q, self.L, self.order, self.slot,
            self.k, self.scratch, self.before, how.selection, seed, how.tol, how.max_iter, PATIENCE,
        )  # fmt: skip
        return int(sweeps)


def wide_path(
    X: np.ndarray,
    y: np.ndarray,
    c: np.ndarray,
    l1: np.ndarray,
    l2: np.ndarray,
    alphas: np.ndarray,
    how: Settings,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients (k, p), duality gaps and sweeps for decreasing alphas; lam = alpha l1, d = alpha l2."""
    path = _WidePath(X, y, c, l1, l2, how)
    coefs = np.zeros((alphas.size, c.size))
    gaps, sweeps = np.empty(alphas.size), np.zeros(alphas.size, dtype=np.int64)
    if start is not None and start.any():
        path.start(start)
    steps, kept = _stepping_stones(path.first, alphas)
    for position, b, gap, count in path.run(steps):
        at = kept[position]
        if at >= 0:
            coefs[at], gaps[at] = b, gap
        sweeps[max(at, 0)] += count
    return coefs, gaps, sweeps


def _stepping_stones(first: float, alphas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The alphas with stones between where the next is far below the last, and each one's place in `alphas` or -1."""
    steps: list[float] = []
    kept: list[int] = []
    last = first
    for at, alpha in enumerate(alphas):
        if 0 < alpha < STRIDE * last < np.inf:
            between = np.geomspace(last, alpha, 1 + int(np.ceil(np.log(alpha / last) / np.log(STRIDE))))[1:-1]
            steps += between.tolist()
            kept += [-1] * between.size
        steps.append(float(alpha))
        kept.append(at)
        last = alpha
    return np.array(steps), np.array(kept)


class _WidePath:
    """The path in progress: the working set and the last two proven gradients."""

    def __init__(
        self, X: np.ndarray, y: np.ndarray, c: np.ndarray, l1: np.ndarray, l2: np.ndarray, how: Settings
    ) -> None:
        self.X, self.y, self.l1, self.l2, self.how = X, y, l1, l2, how
        self.yy = float(y @ y)
        self.work = WorkingSet(X, c, l1, l2)
        self.seed = how.generator()
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(c != 0, (c if how.positive else np.abs(c)) / l1, 0.0)
        self.first = float(np.max(reach, initial=0.0))
        self.now, self.old = (self.first, c), (np.inf, c)

    def start(self, b: np.ndarray) -> None:
        """Begin at b instead of zero; no gradient is known to predict from, so nothing is stepped over."""
        self.work.add(np.flatnonzero(b))
        self.work.b[: self.work.columns.size] = b[self.work.columns]
        self.first = np.inf
        self.now = (np.inf, (self.y - self.X @ b) @ self.X)

    def run(self, alphas: np.ndarray) -> Iterator[tuple[int, np.ndarray, float, int]]:
        """Yield (position, b, gap, sweeps) for each alpha as soon as it is proven."""
        i, ahead, spent = 0, 1, np.zeros(alphas.size, dtype=np.int64)
        while i < alphas.size:
            part = alphas[i : i + ahead]
            self.work.add(self._expected(float(part[-1])))
            m = self.work.columns.size
            B = np.zeros((part.size, m))
            for t, alpha in enumerate(part):
                spent[i + t] += self.work.solve(alpha, self.yy, self.how, self.seed)
                B[t] = self.work.b[:m]
            R = self.y - B @ self.work.rows[:m]
            Q = R @ self.X
            proven = 0
            for t, alpha in enumerate(part):
                b = np.zeros(self.l1.size)
                b[self.work.columns] = B[t]
                gap = certificate(self.y, R[t], b, Q[t], alpha * self.l1, alpha * self.l2, self.how.positive)
                if gap > self.how.tol and self._violators(Q[t], alpha).size:
                    break
                yield i + t, b, gap, int(spent[i + t])
                self.old, self.now = self.now, (float(alpha), Q[t])
                proven += 1
            if proven < part.size:
                self.work.b[:m] = B[proven]
                late = [self._violators(Q[t], part[t]) for t in range(proven, part.size)]
                self.work.add(np.unique(np.concatenate(late)))
            ahead = min(AHEAD, 2 * ahead) if proven == part.size else max(1, proven)
            i += proven

    def _violators(self, q: np.ndarray, alpha: float) -> np.ndarray:
        over = (q if self.how.positive else np.abs(q)) > alpha * self.l1 * (1 + 1e-9)
        return np.flatnonzero(over & ~self.work.inside)

    def _expected(self, alpha: float) -> np.ndarray:
        """Columns whose gradient, followed along its secant, reaches the threshold at alpha."""
        (a_now, q), (a_old, q_old) = self.now, self.old
        if np.isfinite(a_old) and a_old != a_now:
            q = q + (q - q_old) * ((alpha - a_now) / (a_now - a_old))
        size = q if self.how.positive else np.abs(q)
        return np.flatnonzero((size >= MARGIN * alpha * self.l1) & ~self.work.inside)
