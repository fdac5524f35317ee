"""Active sets that grow, shrink and swap: forward steps and splicing over Gram rows.

With columns and y of unit length, an active set A of k columns, H = inv(G_AA), b = H c_A and for every column l

    g_l = c_l - G_lA b,    h_l = G_ll - G_lA H G_Al      (what is left of x_l'y and x_l'x_l beside A),

adding l lowers the RSS by g_l^2 / h_l and dropping the i-th of A raises it by b_i^2 / H_ii, both exactly. Either
move updates H, b, g, h in O(p k), from the Gram rows of A alone; rows are computed when a column is about to
enter, a batch of the most promising ones at a time, so that p may be in the thousands without a p x p matrix.

Splicing (Zhu et al. 2020, PNAS 117, 33117-33123): drop the m columns that matter least, add the m that matter
most, keep the exchange when the RSS falls, for m = 1 .. `EXCHANGE`, until no exchange helps. The gains used here
are conditional on the active set, where the original ranks by b^2 and g^2 alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["ActiveSet", "backward_path", "forward_path", "independent", "splicing_path"]

Array = np.ndarray

DEPENDENT = 1e-9
"""A column with less than this share of its length left beside the active set cannot enter."""

EXCHANGE = 5
EXCHANGES = 20
"""How many columns are exchanged at once at most, and how many exchanges a size gets."""

BATCH = 32
DRIFT = 1e-9
"""Coefficients this far (relatively) from a fresh solution mean that the updates have drifted and are redone."""

GAIN = 1e-11
"""An exchange must lower the RSS by this share of the total, or rounding could keep it going for ever."""

DONE, NOTHING_LEFT = -1, -2


@kernel
def _best_gain(g: Any, h: Any, active: Any) -> Any:
    best, at = 0.0, -1
    for j in range(g.size):
        if active[j] == 0 and h[j] > DEPENDENT:
            gain = g[j] * g[j] / h[j]
            if gain > best or at < 0:
                best, at = gain, j
    return at


@kernel
def _least_loss(b: Any, H: Any, k: Any) -> Any:
    best, at = np.inf, -1
    for i in range(k):
        loss = b[i] * b[i] / H[i, i]
        if loss < best:
            best, at = loss, i
    return at


@kernel
def _add(j: Any, k: Any, A: Any, H: Any, b: Any, g: Any, h: Any, active: Any, G: Any, slot: Any, v: Any, w: Any) -> Any:
    """Add column j; return by how much the RSS falls."""
    row = slot[j]
    hj = G[row, j]
    for a in range(k):
        s = 0.0
        for q in range(k):
            s += H[a, q] * G[row, A[q]]
        w[a] = s
        hj -= s * G[row, A[a]]
    if hj < DEPENDENT * 1e-3:
        hj = h[j]
    v[:] = G[row]
    for a in range(k):
        f, source = w[a], slot[A[a]]
        for q in range(v.size):
            v[q] -= f * G[source, q]
    x = g[j] / hj
    gain = g[j] * x
    for q in range(v.size):
        h[q] -= v[q] * v[q] / hj
        g[q] -= v[q] * x
    for a in range(k):
        f = w[a] / hj
        for q in range(k):
            H[a, q] += f * w[q]
        H[a, k] = -f
        H[k, a] = -f
        b[a] -= w[a] * x
    H[k, k] = 1.0 / hj
    b[k] = x
    A[k] = j
    active[j] = 1
    return gain


@kernel
def _drop(
    i: Any, k: Any, A: Any, H: Any, b: Any, g: Any, h: Any, active: Any, G: Any, slot: Any, v: Any, w: Any
) -> Any:
    """Drop the i-th active column; return by how much the RSS rises."""
    hi = H[i, i]
    x = b[i] / hi
    loss = b[i] * x
    v[:] = 0.0
    for a in range(k):
        w[a] = H[i, a]
        f, source = w[a], slot[A[a]]
        for q in range(v.size):
            v[q] += f * G[source, q]
    for q in range(v.size):
        h[q] += v[q] * v[q] / hi
        g[q] += v[q] * x
    h[A[i]], g[A[i]] = 1.0 / hi, x
    active[A[i]] = 0
    for a in range(k):
        f = w[a] / hi
        b[a] -= f * b[i]
        for q in range(k):
            H[a, q] -= f * w[q]
    last = k - 1
    A[i], b[i] = A[last], b[last]
    for q in range(k):
        H[i, q] = H[last, q]
    for q in range(k):
        H[q, i] = H[q, last]
    return loss


@kernel
def _grow(
    k: Any,
    target: Any,
    A: Any,
    H: Any,
    b: Any,
    g: Any,
    h: Any,
    active: Any,
    G: Any,
    slot: Any,
    v: Any,
    w: Any,
    need: Any,
) -> Any:
    """Add the best column until `target` are in; `need[0]` is a column whose Gram row is missing, or why it ended."""
    while k < target:
        j = _best_gain(g, h, active)
        if j < 0:
            need[0] = NOTHING_LEFT
            return k
        if slot[j] < 0:
            need[0] = j
            return k
        _add(j, k, A, H, b, g, h, active, G, slot, v, w)
        k += 1
    need[0] = DONE
    return k


@kernel
def _copy(
    k: Any,
    A: Any,
    H: Any,
    b: Any,
    g: Any,
    h: Any,
    active: Any,
    A2: Any,
    H2: Any,
    b2: Any,
    g2: Any,
    h2: Any,
    active2: Any,
) -> Any:
    A2[:k], b2[:k] = A[:k], b[:k]
    for a in range(k):
        for q in range(k):
            H2[a, q] = H[a, q]
    g2[:], h2[:], active2[:] = g, h, active


@kernel
def _splice(
    k: Any,
    most: Any,
    A: Any,
    H: Any,
    b: Any,
    g: Any,
    h: Any,
    active: Any,
    G: Any,
    slot: Any,
    v: Any,
    w: Any,
    need: Any,
    A2: Any,
    H2: Any,
    b2: Any,
    g2: Any,
    h2: Any,
    active2: Any,
) -> Any:
    """Exchange columns while the RSS falls; everything is restored when a Gram row is missing (`need[0]`)."""
    m = 1
    exchanges = 0
    while m <= most and exchanges < EXCHANGES:
        _copy(k, A, H, b, g, h, active, A2, H2, b2, g2, h2, active2)
        change = 0.0
        for d in range(m):
            change += _drop(_least_loss(b, H, k - d), k - d, A, H, b, g, h, active, G, slot, v, w)
        missing = DONE
        for d in range(m):
            j = _best_gain(g, h, active)
            if j < 0 or (d == m - 1 and change - g[j] * g[j] / h[j] > -GAIN):
                change = 0.0
                break
            if slot[j] < 0:
                missing = j
                break
            change -= _add(j, k - m + d, A, H, b, g, h, active, G, slot, v, w)
        if missing == DONE and change < -GAIN:
            m = 1
            exchanges += 1
            continue
        _copy(k, A2, H2, b2, g2, h2, active2, A, H, b, g, h, active)
        if missing >= 0:
            need[0] = missing
            return
        m += 1
    need[0] = DONE


@kernel
def _backward(H: Any, b: Any, ids: Any, out: Any, losses: Any, k: Any) -> Any:
    """Drop the column that matters least, again and again; `out` lists them in the order they leave."""
    for step in range(k):
        u = k - step
        i = _least_loss(b, H, u)
        losses[step] = b[i] * b[i] / H[i, i]
        out[step] = ids[i]
        for a in range(u):
            f = H[a, i] / H[i, i]
            if a != i:
                b[a] -= f * b[i]
                for q in range(u):
                    if q != i:
                        H[a, q] -= f * H[i, q]
        last = u - 1
        ids[i], b[i] = ids[last], b[last]
        for q in range(u):
            H[i, q] = H[last, q]
        for q in range(u):
            H[q, i] = H[q, last]


@dataclass
class ActiveSet:
    """An active set over Gram rows that are fetched when needed.

    `rows(columns)` returns the Gram rows of the given columns, `c` are the products with y and `squares` the
    squared lengths, one or (for a column that can never enter) zero.
    """

    c: Array
    rows: Callable[[Array], Array]
    most: int
    gram: Array | None = None
    squares: Array | None = None

    def __post_init__(self) -> None:
        p = len(self.c)
        cap = max(1, min(self.most, p))
        self.k = 0
        self.A, self.b, self.H = np.zeros(cap, np.int64), np.zeros(cap), np.zeros((cap, cap))
        self.g, self.active = self.c.copy(), np.zeros(p, np.uint8)
        if self.gram is not None:
            self.G, self.slot, self.filled = self.gram, np.arange(p), p
        else:
            self.G, self.slot, self.filled = np.empty((0, p)), np.full(p, -1), 0
        self._start = np.ones(p) if self.squares is None else self.squares
        self.h = self._start.copy()
        self._v, self._w = np.empty(p), np.empty(cap)
        self._need = np.zeros(1, np.int64)
        self._spare = (self.A.copy(), self.H.copy(), self.b.copy(), self.g.copy(), self.h.copy(), self.active.copy())

    def columns(self) -> Array:
        """The active columns, in order of entry unless some were exchanged."""
        return self.A[: self.k].copy()

    def grow(self, target: int) -> bool:
        """Forward steps until `target` columns are in; False when no further column is independent."""
        while True:
            self.k = _grow(
                self.k, target, self.A, self.H, self.b, self.g, self.h, self.active, self.G, self.slot, self._v,
                self._w, self._need,
            )  # fmt: skip
            if self._need[0] < 0:
                return bool(self._need[0] == DONE)
            self.fetch(int(self._need[0]))

    def splice(self) -> None:
        """Exchange columns while that lowers the RSS."""
        while True:
            _splice(
                self.k, min(EXCHANGE, self.k), self.A, self.H, self.b, self.g, self.h, self.active, self.G, self.slot,
                self._v, self._w, self._need, *self._spare,
            )  # fmt: skip
            if self._need[0] < 0:
                return
            self.fetch(int(self._need[0]))

    def best_gain(self) -> float:
        """By how much the best further column lowers the RSS; zero when none is independent."""
        j = _best_gain(self.g, self.h, self.active)
        return float(self.g[j] ** 2 / self.h[j]) if j >= 0 else 0.0

    def shrink(self) -> None:
        """Drop the column that matters least."""
        self.drop(int(np.argmin(self.b[: self.k] ** 2 / np.diag(self.H)[: self.k])))

    def drop(self, i: int) -> None:
        """Drop the i-th active column."""
        _drop(
            i, self.k, self.A, self.H, self.b, self.g, self.h, self.active, self.G, self.slot, self._v, self._w
        )  # fmt: skip
        self.k -= 1

    def rss(self) -> float:
        """1 - c_A' inv(G_AA) c_A, afresh from the Gram rows; updates that have drifted from it are redone."""
        A = self.columns()
        if not A.size:
            return 1.0
        b = np.linalg.solve(self.G[np.ix_(self.slot[A], A)], self.c[A])
        if np.abs(b - self.b[: self.k]).max() > DRIFT * np.abs(b).max():
            self._rebuild(A)
        return max(float(1.0 - self.c[A] @ b), 0.0)

    def _rebuild(self, A: Array) -> None:
        self.g[:], self.h[:], self.active[:] = self.c, self._start, 0
        for k, j in enumerate(A):
            _add(
                int(j), k, self.A, self.H, self.b, self.g, self.h, self.active, self.G, self.slot, self._v, self._w
            )  # fmt: skip

    def fetch(self, j: int) -> None:
        """Gram rows of column j and of those most likely to be asked for next, in one matrix product."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where((self.slot < 0) & (self.h > DEPENDENT), self.g**2 / self.h, -1.0)
        gain[j] = np.inf
        batch = np.argsort(-gain, kind="stable")[: max(BATCH, self.filled // 2)]
        batch = batch[gain[batch] >= 0]
        self.slot[batch] = self.filled + np.arange(batch.size)
        self.G = np.vstack([self.G, self.rows(batch)])
        self.filled += batch.size


def forward_path(active: ActiveSet, most: int) -> list[Array]:
    """The active sets of sizes 0, 1, .. `most` of the greedy search (or as far as independent columns go)."""
    sets = [active.columns()]
    while active.k < most and active.grow(active.k + 1):
        active.rss()  # for its check of the updates
        sets.append(active.columns())
    return sets


def splicing_path(active: ActiveSet, most: int) -> list[tuple[float, Array]]:
    """RSS and active set of sizes 0, 1, .. `most`, spliced on the way up from the empty set and on the way back.

    The two ways start every size from different neighbours, and the better end is kept.
    """
    found = [(1.0, active.columns())]
    while active.k < most and active.grow(active.k + 1):
        active.splice()
        found.append((active.rss(), active.columns()))
    while active.k > 1:
        active.shrink()
        active.splice()
        rss = active.rss()
        if rss < found[active.k][0]:
            found[active.k] = (rss, active.columns())
    return found


def independent(G: Array) -> Array:
    """The columns that are not combinations of those before them, by Cholesky in the order they stand."""
    p = len(G)
    kept: list[int] = []
    L = np.zeros((p, p))
    left = np.diag(G).copy()
    for j in range(p):
        if left[j] <= DEPENDENT:
            continue
        k = len(kept)
        L[k, j:] = (G[j, j:] - L[:k, j] @ L[:k, j:]) / np.sqrt(left[j])
        left[j:] -= L[k, j:] ** 2
        kept.append(j)
    return np.array(kept, dtype=np.int64)


def backward_path(G: Array, c: Array, ids: Array) -> tuple[Array, Array]:
    """Columns in the order they leave the model of all `ids`, and what each adds to the RSS."""
    k = ids.size
    H = np.linalg.inv(G[np.ix_(ids, ids)])
    out, losses = np.empty(k, np.int64), np.empty(k)
    _backward(H, H @ c[ids], ids.copy(), out, losses, k)
    return out, losses
