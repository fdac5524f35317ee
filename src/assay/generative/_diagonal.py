"""Mean and variance of every column within every class: summaries that add.

A block of rows is read twice while it lies in the cache, for its means and then for squares about them,

    m = sum w x / W,    c = sum w (x - m),    S = sum w (x - m)^2 - c^2 / W,    m <- m + c / W,

the corrected two-pass algorithm; blocks are merged by Chan, Golub and LeVeque's update (1983, Am. Statistician 37,
242-247), in which nothing cancels: columns with mean 1e8 and standard deviation 1 keep their digits. Cost: 5 flops a
cell, one pass over memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel

__all__ = ["Normal", "chan", "normal_scores", "summarize"]

Array = np.ndarray

CACHE_CELLS = 1 << 15
"""A block of rows lies in the second-level cache: 256 KiB of float64."""

TASK_CELLS = 1 << 20
"""What one thread reads before it takes the next part."""


@dataclass(frozen=True, eq=False)
class Normal:
    """Weight (K,), means (K, p) and sums of squares about them (K, p)."""

    weight: Array
    mean: Array
    square: Array

    def merged(self, other: Normal) -> Normal:
        """The summary of both sets of rows together.

        >>> a, b = (Normal(np.ones(1), np.array([[x]]), np.zeros((1, 1))) for x in (1.0, 3.0))
        >>> c = a.merged(b)
        >>> c.weight.tolist(), c.mean.tolist(), c.square.tolist()
        ([2.0], [[2.0]], [[2.0]])
        """
        _, mean, square = chan(
            self.weight[:, None], self.mean, self.square, other.weight[:, None], other.mean, other.square
        )
        return Normal(self.weight + other.weight, mean, square)


def chan(a: Array, m: Array, s: Array, b: Array, n: Array, t: Array) -> tuple[Array, Array, Array]:
    """Weight, mean and sum of squares of two sets of rows together, from weights a, b, means m, n and squares s, t."""
    weight = a + b
    share = np.divide(b, weight, out=np.zeros_like(weight), where=weight > 0)
    shift = n - m
    with np.errstate(over="ignore", invalid="ignore"):  # told where it is solved
        # A class without rows so far has a mean of no meaning.
        return weight, np.where(a > 0, m + shift * share, n), s + t + a * share * shift**2


@kernel
def _moments(
    X: Array,
    group: Array,
    w: Array,
    start: int,
    stop: int,
    height: int,
    weight: Array,
    mean: Array,
    square: Array,
) -> None:
    """Weight, mean and squares of each group among some rows; the outputs begin at zero."""
    G, p = mean.shape
    W, m, c, s = np.empty(G), np.empty((G, p)), np.empty((G, p)), np.empty((G, p))
    for low in range(start, stop, height):
        high = min(low + height, stop)
        W[:] = 0.0
        m[:] = 0.0
        c[:] = 0.0
        s[:] = 0.0
        for i in range(low, high):
            g = group[i]
            f = w[i] if w.size else 1.0
            W[g] += f
            for j in range(p):
                m[g, j] += f * X[i, j]
        for g in range(G):
            if W[g] > 0.0:
                for j in range(p):
                    m[g, j] /= W[g]
        for i in range(low, high):
            g = group[i]
            f = w[i] if w.size else 1.0
            for j in range(p):
                d = X[i, j] - m[g, j]
                c[g, j] += f * d
                s[g, j] += f * d * d
        for g in range(G):
            if W[g] > 0.0:
                total = weight[g] + W[g]
                share = W[g] / total
                before = weight[g] * share
                for j in range(p):
                    slip = c[g, j] / W[g]
                    shift = m[g, j] + slip - mean[g, j]
                    mean[g, j] += shift * share
                    square[g, j] += max(s[g, j] - c[g, j] * slip, 0.0) + before * shift * shift
                weight[g] = total


def summarize(X: Array, group: Array, w: Array | None, G: int) -> Normal:
    """The summary of G groups of rows; X and w are open and contiguous.

    >>> s = summarize(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1]), None, 2)
    >>> s.weight.tolist(), s.mean.tolist(), s.square.tolist()
    ([2.0, 1.0], [[2.0], [5.0]], [[2.0], [0.0]])
    """
    n, p = X.shape
    weights = np.empty(0) if w is None else w
    height = max(CACHE_CELLS // p, 16 * G)
    task = height * max(1, -(-TASK_CELLS // (height * p)))

    def part(start: int) -> Normal:
        out = Normal(np.zeros(G), np.zeros((G, p)), np.zeros((G, p)))
        _moments(X, group, weights, start, min(start + task, n), height, out.weight, out.mean, out.square)
        return out

    return reduce(Normal.merged, parallel(part, range(0, n, task), n_jobs=-1, work=5.0 * n * p))


@kernel
def _scores(
    X: Array, rows: Array, mean: Array, half: Array, constant: Array, start: int, stop: int, out: Array
) -> None:
    K, p = mean.shape
    for at in range(start, stop):
        i = rows[at] if rows.size else at
        for k in range(K):
            s = 0.0
            for j in range(p):
                d = X[i, j] - mean[k, j]
                s += d * d * half[k, j]
            out[at, k] = constant[k] - s


def normal_scores(X: Array, rows: Array, mean: Array, var: Array, constant: Array) -> Array:
    """constant_k - sum_j ((x_j - mean_kj)^2 / var_kj + log(2 pi var_kj)) / 2 for some rows, or for all (none named).

    Squares of differences, not expanded into products, so that nothing cancels.
    """
    n, (K, p) = rows.size or X.shape[0], mean.shape
    if rows.size == 0 and X.shape[0] == 0:
        return np.empty((0, K))
    with np.errstate(divide="ignore", over="ignore"):
        half = 0.5 / var
    constant = constant - 0.5 * np.log(2.0 * np.pi * var).sum(axis=1)
    out = np.empty((n, K))
    height = max(64, TASK_CELLS // (8 * p))

    def part(start: int) -> None:
        _scores(X, rows, mean, half, constant, start, min(start + height, n), out)

    parallel(part, range(0, n, height), n_jobs=-1, work=3.0 * n * p * K)
    return out
