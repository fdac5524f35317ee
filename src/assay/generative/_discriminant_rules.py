"""Discriminant functions over many rows: scores, posteriors, and the best class, block by block.

    linear:     z'slope + offset                                n p K multiply-adds
    quadratic:  offset_k - |T_k'z - s_k|^2 / 2                  n p^2 K, one matrix product for all classes
    diagonal:   offset_k - sum_j ((z_j - m_kj) t_kj)^2 / 2      n p K

A block of rows and its products lie in the cache. Posteriors are computed from differences to the largest score, so
that nothing underflows that matters; a row so far away that its squares overflow goes to the nearest class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from assay.generative._gaussian_summary import Frame
from assay.numerics.jit import kernel
from assay.numerics.threads import parallel
from assay.state import Specs, Stateful, floats, need, part

__all__ = ["DiagonalRule", "LinearRule", "QuadraticRule", "Rule", "evaluate"]

Array = np.ndarray

BLOCK_CELLS = 1 << 16
"""Rows and their products are held in the second-level cache: half a MiB of float64."""

MOST_PARTS = 16
"""Rows are shared out in at most this many parts, whatever the number of threads."""

FAR = -1e300
"""The discriminant of every class but the nearest, for a row so far away that squares overflow."""


@dataclass(frozen=True, eq=False)
class LinearRule(Stateful):
    """Discriminants z'slope + offset; slope (p, K), offset (K,)."""

    frame: Frame
    slope: Array
    offset: Array

    state: ClassVar[Specs] = {
        "frame": part(Frame, "p"),
        "offset": floats("k", finite=False),
        "slope": floats("p", "k"),
    }

    @property
    def width(self) -> int:
        """Numbers needed beside each row."""
        return self.offset.size

    def scores(self, Z: Array) -> Array:
        """(n, K) for rows in the frame."""
        return Z @ self.slope + self.offset

    def nearest(self, Z: Array, shrunk: float) -> Array:
        """The best class of rows that are given divided by a huge factor."""
        return np.argmax(np.where(np.isinf(self.offset), -np.inf, Z @ self.slope), axis=1)


@dataclass(frozen=True, eq=False)
class QuadraticRule(Stateful):
    """Discriminants offset_k - |Z T_k - s_k|^2 / 2; whiten (p, K p) holds T_1, ..., T_K, shift (K p,) s_1, ..., s_K."""

    frame: Frame
    whiten: Array
    shift: Array
    offset: Array

    state: ClassVar[Specs] = {
        "frame": part(Frame, "p"),
        "offset": floats("k", finite=False),
        "whiten": floats("p", "kp"),
        "shift": floats("kp"),
    }

    def _check_state(self) -> None:
        need(self.shift.size % self.offset.size == 0)

    @property
    def width(self) -> int:
        """Numbers needed beside each row."""
        return self.shift.size

    def scores(self, Z: Array) -> Array:
        """(n, K) for rows in the frame."""
        out = np.empty((len(Z), self.offset.size))
        _square_sums(Z @ self.whiten, self.shift, self.offset, out)
        return out

    def nearest(self, Z: Array, shrunk: float) -> Array:
        """The best class of rows that are given divided by a huge factor."""
        K = self.offset.size
        U = (Z @ self.whiten - self.shift / shrunk).reshape(len(Z), K, self.shift.size // K)
        return np.argmin(np.where(np.isinf(self.offset), np.inf, np.square(U).sum(axis=2)), axis=1)


@dataclass(frozen=True, eq=False)
class DiagonalRule(Stateful):
    """Discriminants offset_k - sum_j ((z_j - mean_kj) inverse_kj)^2 / 2; mean and inverse are (K, p)."""

    frame: Frame
    mean: Array
    inverse: Array
    offset: Array

    state: ClassVar[Specs] = {
        "frame": part(Frame, "p"),
        "offset": floats("k", finite=False),
        "mean": floats("k", "p"),
        "inverse": floats("k", "p"),
    }

    @property
    def width(self) -> int:
        """Numbers needed beside each row."""
        return self.offset.size

    def scores(self, Z: Array) -> Array:
        """(n, K) for rows in the frame."""
        out = np.empty((len(Z), self.offset.size))
        _diagonal_sums(Z, self.mean, self.inverse, self.offset, out)
        return out

    def nearest(self, Z: Array, shrunk: float) -> Array:
        """The best class of rows that are given divided by a huge factor."""
        squares = np.square((Z[:, None, :] - self.mean / shrunk) * self.inverse).sum(axis=2)
        return np.argmin(np.where(np.isinf(self.offset), np.inf, squares), axis=1)


Rule = LinearRule | QuadraticRule | DiagonalRule


@kernel
def _square_sums(U: Array, shift: Array, offset: Array, out: Array) -> None:
    n, K = out.shape
    p = shift.size // K
    for i in range(n):
        for k in range(K):
            s = 0.0
            for j in range(k * p, (k + 1) * p):
                u = U[i, j] - shift[j]
                s += u * u
            out[i, k] = offset[k] - 0.5 * s


@kernel
def _diagonal_sums(Z: Array, mean: Array, inverse: Array, offset: Array, out: Array) -> None:
    n, K = out.shape
    p = Z.shape[1]
    for i in range(n):
        for k in range(K):
            s = 0.0
            for j in range(p):
                u = (Z[i, j] - mean[k, j]) * inverse[k, j]
                s += u * u
            out[i, k] = offset[k] - 0.5 * s


# Scores of many rows.


def evaluate(rule: Rule, X: Array, what: str, rows: Array | None = None, n_jobs: int | None = -1) -> Array:
    """Rows of X (or the numbered ones): "scores", "proba", "log_proba" (n, K), or "codes" (n,) of the best class."""
    n, p = len(X) if rows is None else len(rows), X.shape[1]
    K = rule.offset.size
    out = np.empty(n if what == "codes" else (n, K), dtype=np.int64 if what == "codes" else np.float64)
    height = max(64, BLOCK_CELLS // (p + rule.width))
    share = -(-n // (MOST_PARTS * height)) * height if n else 1
    inverse = 1.0 / rule.frame.unit

    def part(start: int) -> None:
        stop = min(start + share, n)
        Z = np.empty((min(height, stop - start), p))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for at in range(start, stop, height):
                to = min(at + height, stop)
                raw = X[at:to] if rows is None else X[rows[at:to]]
                z = Z[: to - at]
                np.subtract(raw, rule.frame.centre, out=z)
                np.multiply(z, inverse, out=z)
                scores = rule.scores(z)
                if _lost(scores):
                    _place_far_rows(rule, raw, scores)
                _finish(scores, what, out[at:to])

    parallel(part, range(0, n, share), n_jobs=n_jobs, work=float(n) * p * rule.width)
    return out


def _finish(scores: Array, what: str, out: Array) -> None:
    if what == "scores":
        out[...] = scores
    elif what == "codes":
        _best(scores, out)
    else:
        _posterior(scores, what == "log_proba", out)


@kernel
def _lost(scores: Array) -> bool:
    """Whether some row has no finite best score, or a score that is no number."""
    for i in range(scores.shape[0]):
        best = -np.inf
        for k in range(scores.shape[1]):
            if np.isnan(scores[i, k]):
                return True
            best = max(best, scores[i, k])
        if np.isinf(best):
            return True
    return False


@kernel
def _best(scores: Array, out: Array) -> None:
    for i in range(scores.shape[0]):
        best = 0
        for k in range(1, scores.shape[1]):
            if scores[i, k] > scores[i, best]:
                best = k
        out[i] = best


@kernel
def _posterior(scores: Array, log: bool, out: Array) -> None:
    n, K = scores.shape
    for i in range(n):
        best = scores[i, 0]
        for k in range(1, K):
            best = max(best, scores[i, k])
        total = 0.0
        for k in range(K):
            e = np.exp(scores[i, k] - best)
            out[i, k] = e
            total += e
        if log:
            total = best + np.log(total)
            for k in range(K):
                out[i, k] = scores[i, k] - total
        else:
            for k in range(K):
                out[i, k] /= total


def _place_far_rows(rule: Rule, raw: Array, scores: Array) -> None:
    """Rows whose squares overflow: the nearest class gets everything, found after division by a power of two."""
    far = np.flatnonzero(np.isnan(scores).any(axis=1) | np.isinf(scores.max(axis=1)))
    steps = raw[far] - rule.frame.centre
    powers = np.frexp(steps)[1] - np.frexp(rule.frame.unit)[1]
    powers = np.where(steps == 0, -4000, powers)
    largest = powers.max(axis=1, keepdims=True)
    Z = np.where(steps == 0, 0.0, np.ldexp(np.frexp(steps)[0], powers - largest))
    best = rule.nearest(Z, 2.0 ** min(1000.0, float(largest.max())))
    scores[far] = np.where(np.isinf(rule.offset), -np.inf, FAR)
    scores[far, best] = 0.0
