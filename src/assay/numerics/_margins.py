"""The inequalities of separating directions, and the linear programmes over them, grown row by row.

A programme starts from the rows of smallest margin; rows that its answer violates are added until none is left. Most
rows never enter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from scipy.optimize import linprog, nnls

__all__ = ["LARGEST_PROGRAMME", "ZERO", "Labelled", "Margins", "least", "non_negative"]

Array = np.ndarray

ZERO = 1e-7
"""Margins above minus this count as no violation; they are measured against the size of their row."""

LARGEST_PROGRAMME = 600
"""With more unknowns than this the rule that Newton found is the only direction tried."""

ROUNDS = 60

POSITIVE = 1e-13
"""A margin above this, relative to its row, is positive whatever rounding did to it."""

BALANCED = 1e-14
"""A signed sum of rows below this, relative to their size and the number of columns, is zero up to rounding."""


class Labelled(Protocol):
    """Rows with their classes: X (n, p) dense or CSR, `codes` in 0 .. K - 1.

    `first` is 1 where the rule has an intercept, `inverse` is what each column is multiplied with to be of order one.
    """

    @property
    def X(self) -> Any: ...  # noqa: N802 (as in the mathematics)
    @property
    def codes(self) -> Array: ...
    @property
    def K(self) -> int: ...  # noqa: N802
    @property
    def first(self) -> int: ...
    @property
    def inverse(self) -> Array: ...
    @property
    def n(self) -> int: ...
    @property
    def is_sparse(self) -> bool: ...


class Margins:
    """The inequalities of the programme: rows a = (1, x * inverse), uncentred so that zeros of the table stay zeros."""

    def __init__(self, rows: Labelled, usable: Array) -> None:
        self.rows, self.usable = rows, usable
        self.inverse = rows.inverse[usable]
        self.width = rows.first + int(usable.sum())
        self.unknowns = self.width * (rows.K - 1)
        if rows.is_sparse:
            self.X: Any = rows.X[:, np.flatnonzero(usable)]
        else:
            self.X = rows.X if usable.all() else np.ascontiguousarray(rows.X[:, usable])
        self.others = np.ones((rows.n, rows.K), dtype=bool)
        self.others[np.arange(rows.n), rows.codes] = False
        self.sizes = self._sizes()

    def _sizes(self) -> Array:
        if self.rows.is_sparse:
            large = np.asarray(abs(self.X.multiply(self.inverse[None, :])).sum(axis=1)).ravel()
        else:
            large = np.abs(self.X) @ self.inverse
        return 1.0 + large

    def margins_of(self, eta: Array) -> Array:
        """eta of the own class minus eta of each class, (n, K)."""
        return np.take_along_axis(eta, self.rows.codes[:, None], axis=1) - eta

    def apart(self, margins: Array, labels: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """The pairs of classes of which some row lies strictly on its side."""
        clear = margins > ZERO * self.sizes[:, None]
        codes = self.rows.codes
        seen = np.array([clear[codes == k].any(axis=0) for k in range(self.rows.K)])
        return tuple((labels[a], labels[b]) for a, b in combinations(range(self.rows.K), 2) if seen[a, b] or seen[b, a])

    def margins(self, D: Array) -> Array:
        """Margins of a direction (K, width)."""
        first = self.rows.first
        eta = np.asarray(self.X @ (D[:, first:] * self.inverse).T)
        if first:
            eta = eta + D[:, 0]
        return self.margins_of(eta)

    def _inequalities(self, pairs: Array) -> Array:
        """One row of -(margin) per (row, class) pair, in the unknowns d_1, ..., d_{K-1} (d_0 is zero)."""
        rows, first = self.rows, self.rows.first
        i, k = pairs[:, 0], pairs[:, 1]
        a = np.empty((len(i), self.width))
        a[:, :first] = 1.0
        a[:, first:] = (self.X[i].toarray() if rows.is_sparse else self.X[i]) * self.inverse
        a /= self.sizes[i, None]
        out = np.zeros((len(i), rows.K, self.width))
        at = np.arange(len(i))
        out[at, rows.codes[i]] -= a
        out[at, k] += a
        return out[:, 1:].reshape(len(i), -1)

    def _total(self) -> Array:
        """The sum of all margins as a function of the unknowns."""
        rows, first = self.rows, self.rows.first
        Y = np.zeros((rows.n, rows.K))
        Y[np.arange(rows.n), rows.codes] = 1.0
        S = np.zeros((rows.K, self.width))
        S[:, first:] = np.asarray(self.X.T @ Y).T * self.inverse
        if first:
            S[:, 0] = Y.sum(axis=0)
        return (rows.K * S - S.sum(axis=0))[1:].ravel()

    def sparsest(self, eta: Array, least: float = 0.0) -> Array | None:
        """The direction (K, width) of least sum |d| with all margins >= least; None where there is none."""
        total = self._total()
        size = float(np.abs(total).max())
        if size <= 0:
            return None
        cost = np.ones((self.rows.K - 1, self.width))
        cost[:, : self.rows.first] = 0.0
        cost = np.concatenate([cost.ravel(), cost.ravel()])
        equal: dict[str, Any] = {}
        if least == 0.0:
            equal = {"A_eq": np.concatenate([total, -total])[None, :] / size, "b_eq": [1.0]}

        def solve(half: Array, sizes: Array) -> tuple[Array, float] | None:
            answer: Any = linprog(cost, A_ub=np.hstack([half, -half]), b_ub=-least / sizes, method="highs", **equal)
            if answer.status != 0:
                return None
            return answer.x[: self.unknowns] - answer.x[self.unknowns :], least

        return self._grow(eta, solve)

    def widest(self, eta: Array, used: Array) -> Array | None:
        """The direction in the columns `used` with the largest least margin; None where that is not positive."""
        open_slope = np.tile(np.concatenate([np.ones(self.rows.first), used[self.usable]]), self.rows.K - 1)
        start = np.tile(np.arange(self.width) < self.rows.first, self.rows.K - 1)
        bounds = [(None, None) if s else (-o, o) for s, o in zip(start, open_slope, strict=True)]
        cost = np.concatenate([np.zeros(self.unknowns), [-1.0]])

        def solve(half: Array, sizes: Array) -> tuple[Array, float] | None:
            A = np.column_stack([half, 1.0 / sizes])
            answer: Any = linprog(cost, A_ub=A, b_ub=np.zeros(len(A)), bounds=[*bounds, (None, 1e6)], method="highs")
            return (answer.x[:-1], float(answer.x[-1])) if answer.status == 0 and answer.x[-1] > ZERO else None

        return self._grow(eta, solve)

    def strict(self, eta: Array) -> Array | tuple[Array, Array] | None:
        """A direction with all margins positive, or rows and weights that rule it out; None: undecided (two classes).

        The largest least margin t of directions in a box is the least size of sum alpha_i s_i a_i over the simplex,
        so the answer of the programme is a rule where t > 0, and its dual the certificate where t = 0.
        """
        own = (np.arange(self.rows.n), 1 - self.rows.codes)
        margins = self.margins_of(eta)[own] / self.sizes
        if self.unknowns > LARGEST_PROGRAMME:
            return None
        batch = max(200, 10 * self.unknowns)
        cost = np.concatenate([np.zeros(self.unknowns), [-1.0]])
        limits = [*[(-1.0, 1.0)] * self.unknowns, (None, 1.0)]
        chosen = least(margins, batch)
        for _ in range(ROUNDS):
            half = self._inequalities(np.column_stack([chosen, own[1][chosen]]))
            table = np.column_stack([half, np.ones(len(half))])
            answer: Any = linprog(cost, A_ub=table, b_ub=np.zeros(len(half)), bounds=limits, method="highs")
            if answer.status != 0:
                return None
            D = np.vstack([np.zeros(self.width), answer.x[:-1]])
            margins = self.margins(D)[own] / self.sizes
            if margins.min() > POSITIVE * max(float(np.abs(D).max()), 1e-300):
                return D
            if margins[chosen].min() <= POSITIVE:
                return self._balance(half, chosen)
            chosen = np.union1d(chosen, least(margins, batch))
        return None

    def _balance(self, half: Array, chosen: Array) -> tuple[Array, Array] | None:
        """Weights of some of the rows whose signed sum is zero; None where rounding does not let them be found."""
        table = np.vstack([half.T, np.ones(len(half))])
        target = np.concatenate([np.zeros(half.shape[1]), [1.0]])
        alpha = non_negative(table, target)
        if alpha is None:
            return None
        used = np.flatnonzero(alpha > 1e-12 * alpha.max(initial=0.0))
        if used.size == 0:
            return None
        # One more least-squares fit on the rows in use squeezes out the last digits.
        polished = np.linalg.lstsq(table[:, used], target, rcond=None)[0]
        alpha = polished if (polished > 0).all() else alpha[used]
        if np.abs(table[:, used] @ alpha - target).max() > BALANCED * len(table):
            return None
        rows = chosen[used]
        return rows, alpha / self.sizes[rows]

    def _grow(self, eta: Array, solve: Callable[[Array, Array], tuple[Array, float] | None]) -> Array | None:
        """Solve a programme on the rows of smallest margin adding those that its answer violates until none is left."""
        margins = np.where(self.others, self.margins_of(eta) / self.sizes[:, None], np.inf)
        batch = max(200, 10 * self.unknowns)
        chosen = _smallest(margins, batch)
        for _ in range(ROUNDS):
            found = solve(self._inequalities(chosen), self.sizes[chosen[:, 0]])
            if found is None:
                return None
            d, least = found
            top = float(np.abs(d).max())
            d = np.where(np.abs(d) <= 1e-9 * top, 0.0, d)
            D = np.vstack([np.zeros(self.width), d.reshape(self.rows.K - 1, self.width)])
            margins = np.where(self.others, (self.margins(D) - least) / self.sizes[:, None] / top, np.inf)
            if margins.min() >= -ZERO:
                return D / top if (np.where(self.others, self.margins(D), 0.0) > 10 * ZERO * top).any() else None
            chosen = np.unique(np.vstack([chosen, _smallest(margins, batch, -ZERO)]), axis=0)
        return None

    def in_units(self, D: Array) -> tuple[Array, Array]:
        """Slopes (K or 1, p) and intercepts of a direction, in the units of the table."""
        first = self.rows.first
        slopes = np.zeros((len(D), self.usable.size))
        slopes[:, self.usable] = D[:, first:] * self.inverse
        intercept = D[:, 0] if first else np.zeros(len(D))
        if self.rows.K == 2:
            return slopes[1:], intercept[1:]
        return slopes, intercept


def non_negative(A: Array, b: Array) -> Array | None:
    """The x >= 0 of least |A x - b|; None where rounding keeps it from being found.

    >>> non_negative(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([2.0, -1.0])).tolist()
    [2.0, 0.0]
    """
    try:
        return np.asarray(nnls(A, b, maxiter=30 * A.shape[1])[0])
    except RuntimeError:  # it goes round in circles among columns that are nearly dependent
        return None


def least(margins: Array, count: int) -> Array:
    """The places of the smallest margins, in order of place; of equal ones the first.

    >>> least(np.array([3.0, 1.0, 2.0, 1.0]), 2).tolist()
    [1, 3]
    """
    if count >= margins.size:
        return np.arange(margins.size)
    limit = np.partition(margins, count - 1)[count - 1]
    below = np.flatnonzero(margins < limit)
    return np.union1d(below, np.flatnonzero(margins == limit)[: count - below.size])


def _smallest(margins: Array, count: int, below: float = np.inf) -> Array:
    """The (row, class) pairs of the smallest margins, at most `count` and all below a limit."""
    flat = margins.ravel()
    count = min(count, int(np.count_nonzero(flat < below)))
    best = np.argpartition(flat, count - 1)[:count] if count < flat.size else np.arange(flat.size)
    best = np.sort(best[flat[best] < below])
    return np.column_stack(np.unravel_index(best, margins.shape))
