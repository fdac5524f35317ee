"""Whether a linear rule separates the classes, proved by a direction that does, and which columns it needs.

The likelihood of a logistic regression has no maximum exactly when there is a direction D = (d_1, ..., d_K) with

    (d_y(i) - d_k)' a_i >= 0   for every row i and every class k other than its own, and > 0 somewhere,   a = (1, x),

because walking along D never lowers it (Albert and Anderson 1984). If all of them are positive the separation is
complete, otherwise quasi-complete. Among all such directions with given sum of margins the one of least sum |d| over
standardised columns is found by a linear programme,

    minimise sum_kj |d_kj|   subject to   margins >= 0,   sum of margins = n,

which has no solution exactly when the classes overlap. It starts from a few rows; rows that the answer violates are
added until none is left, so most rows never enter. A programme without a solution on some rows has none on all. The
direction is then checked on every row: it is the certificate, and its columns are the ones that separate.

Whether it is complete is asked next: of the columns found, and of all of them.

`separate` asks for two classes whether a rule is right on *every* row, s_i w'a_i > 0, s = +1 or -1, and proves either
answer. By Gordan's theorem (1873) exactly one of these exists:

    w     with  s_i w'a_i > 0 for all i                     the rule
    alpha with  sum_i alpha_i s_i a_i = 0,  alpha >= 0,  sum alpha = 1    a point that both classes surround

With an intercept the second is a point in the convex hulls of both classes. A basic solution needs at most p + 2 rows.

Albert and Anderson (1984), Biometrika 71, 1-10; Konis (2007), thesis, University of Oxford (linear programmes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linprog, nnls

from assay.checks import name_columns
from assay.results import Result

__all__ = ["Labelled", "Overlap", "Separation", "find_separation", "separate"]

Array = np.ndarray

ZERO = 1e-7
"""Margins above minus this count as no violation; they are measured against the size of their row."""

LARGEST_PROGRAMME = 600
"""With more unknowns than this the rule that Newton found is the only direction tried."""

ROUNDS = 60

POSITIVE = 1e-13
"""A margin above this, relative to its row, is positive whatever rounding did to it."""

BALANCED = 1e-9
"""A signed sum of rows below this, relative to their size, counts as zero."""


class Labelled(Protocol):
    """Rows with their classes: X (n, p) dense or CSR, `codes` in 0 .. K - 1.

    `first` is 1 where the rule has an intercept, `inverse` is what each column is multiplied with to be of order one.
    """

    @property
    def X(self) -> Any: ...  # noqa: D102, N802 (as in the mathematics)
    @property
    def codes(self) -> Array: ...  # noqa: D102
    @property
    def K(self) -> int: ...  # noqa: D102, N802
    @property
    def first(self) -> int: ...  # noqa: D102
    @property
    def inverse(self) -> Array: ...  # noqa: D102
    @property
    def n(self) -> int: ...  # noqa: D102
    @property
    def is_sparse(self) -> bool: ...  # noqa: D102


@dataclass(frozen=True, eq=False, repr=False)
class Separation(Result):
    """A linear rule without error on the training rows: why the likelihood has no maximum.

    `columns` are those the rule uses, `direction` (K or 1, p) and `intercept` the rule itself in the units of the data,
    `kind` is "complete" or "quasi-complete", `tied` counts the rows that lie on the border of a quasi-complete one.
    `classes` are the names of the classes and `pairs` those of them that the rule tells apart.
    """

    state_name: ClassVar[str] = "linear.Separation"  # where it lived when the first model files were written

    kind: str
    columns: tuple[str, ...]
    direction: Array
    intercept: Array
    tied: int
    n: int
    classes: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """One row per column that separates: its weight in the rule of each class."""
        heads = ["direction"] if len(self.direction) == 1 else [f"direction {name}" for name in self.classes]
        used = np.abs(self.direction).max(axis=0) > 0
        return pd.DataFrame(self.direction[:, used].T, index=list(self.columns), columns=heads)

    def __str__(self) -> str:
        said = name_columns(self.columns)
        verb = "separates" if len(self.columns) == 1 else "separate"
        if self.kind == "complete":
            return f"{said} {verb} the classes completely"
        if len(self.classes) > 2:
            return f"{said} {verb} {self._whom()} (quasi-complete separation)"
        ties = f", with {self.tied} of {self.n} rows on the border" if self.tied else ""
        return f"{said} {verb} the classes in part (quasi-complete separation){ties}"

    def _whom(self) -> str:
        """Which of many classes are told apart."""
        for name in self.classes:
            if len(self.pairs) == len(self.classes) - 1 and all(name in pair for pair in self.pairs):
                return f"the class {name!r} from all others"
        if len(self.pairs) > 3:
            return f"{len(self.pairs)} of {len(self.classes) * (len(self.classes) - 1) // 2} pairs of classes"
        return " and ".join(f"{one!r} from {other!r}" for one, other in self.pairs)


@dataclass(frozen=True, eq=False, repr=False)
class Overlap(Result):
    """The proof that no linear rule is right on all rows: a point in the hulls of both classes.

    `rows` and `weights` (which add up to 1 in each class, or to 1 in all without an intercept) are the certificate:
    the weighted sum of the rows of one class is that of the other, `point`, up to `residual` relative to their size.
    """

    rows: Array
    weights: Array
    sides: Array
    point: Array
    residual: float
    n: int
    intercept: bool
    names: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """One line per row of the certificate: which, on which side (+1 or -1), and its weight."""
        return pd.DataFrame({"row": self.rows, "side": self.sides, "weight": self.weights})

    def __str__(self) -> str:
        shown = ", ".join(str(row) for row in self.rows[:6].tolist()) + (", ..." if self.rows.size > 6 else "")
        if not self.intercept:
            return f"no line through zero separates the classes: rows {shown} balance each other around zero"
        first, second = (self.rows[self.sides == side] for side in (1, -1))
        if first.size == second.size == 1:
            pair = f"rows {min(self.rows)} and {max(self.rows)}"
            return f"no line separates the classes: {pair} are equal, their classes are not"
        return f"no line separates the classes: rows {shown} of both classes surround the same point"


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of two classes in units of order one."""

    X: Any
    codes: Array
    first: int
    inverse: Array
    K: int = 2

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def is_sparse(self) -> bool:
        return bool(sparse.issparse(self.X))


def separate(
    X: Any,
    upper: Array,
    *,
    intercept: bool = True,
    names: Sequence[str] = (),
    labels: Sequence[str] = ("0", "1"),
    start: Array | None = None,
) -> Separation | Overlap | None:
    """A linear rule that is right on every row, or the proof that there is none; None where rounding hides which.

    | parameter | default    | range         | meaning                                                              |
    |-----------|------------|---------------|----------------------------------------------------------------------|
    | X         |            | (n, p)        | dense or CSR rows                                                    |
    | upper     |            | (n,) bool     | which rows are of the second class                                   |
    | intercept | True       | bool          | whether the rule may have one                                        |
    | names     | x0, x1 ... |               | of the columns                                                       |
    | labels    | "0", "1"   |               | of the classes                                                       |
    | start     | None       | (n,)          | signed margins of a rule that is nearly right: worst rows first      |

    >>> print(separate(np.array([[1.0], [2.0], [3.0]]), np.array([False, False, True])))
    column 'x0' separates the classes completely
    >>> print(separate(np.array([[1.0], [2.0], [3.0]]), np.array([False, True, False])))
    no line separates the classes: rows 0, 1, 2 of both classes surround the same point
    """
    n, p = X.shape
    scale = _column_sizes(X)
    rows = _Rows(X, np.asarray(upper).astype(np.int64), int(intercept), 1.0 / scale)
    A = _Margins(rows, np.ones(p, dtype=bool))
    score = np.zeros(n) if start is None else np.asarray(start, dtype=np.float64)
    found = A.strict(np.column_stack([np.zeros(n), np.where(rows.codes == 1, score, -score)]))
    named = tuple(names) or tuple(f"x{j}" for j in range(p))
    if found is None:
        return None
    if isinstance(found, tuple):
        return _overlap(A, *found, names=named)
    slopes, offset = A.in_units(found)
    columns = tuple(name for name, slope in zip(named, slopes[0], strict=True) if slope != 0)
    pairs = ((str(labels[0]), str(labels[1])),)
    return Separation("complete", columns, slopes, offset, 0, n, pairs[0], pairs)


def _column_sizes(X: Any) -> Array:
    top = abs(X).max(axis=0)
    large = np.asarray(top.toarray() if hasattr(top, "toarray") else top, dtype=np.float64).ravel()
    return np.where(large > 1e-300, large, 1.0)  # the inverse of a smaller one would overflow


def _overlap(A: _Margins, rows: Array, alpha: Array, names: tuple[str, ...]) -> Overlap:
    """The certificate in the units of the table, checked there."""
    sides = np.where(A.rows.codes[rows] == 1, 1, -1)
    if A.rows.first:
        alpha = alpha / alpha[sides == 1].sum()
    table = A.X[rows].toarray() if A.rows.is_sparse else A.X[rows].astype(np.float64)
    point = alpha[sides == 1] @ table[sides == 1]
    gap = np.abs((alpha * sides) @ table) * A.inverse
    size = (alpha @ np.abs(table)) * A.inverse
    residual = float((gap / np.maximum(size, 1e-300)).max(initial=0.0))
    return Overlap(rows, alpha, sides, point, residual, A.rows.n, bool(A.rows.first), names)


def find_separation(
    rows: Labelled, eta: Array, rule: tuple[Array, Array], names: Sequence[str], free: Array, labels: Sequence[str]
) -> Separation | None:
    """A direction that separates the classes using the columns `free`, or None where they overlap.

    eta (without offsets) and `rule` (slopes and intercepts in the units of the table) are where Newton stood when its
    steps stopped getting shorter; a complete separation shows there already.
    """
    A = _Margins(rows, free)
    full = eta if rows.K > 2 else np.column_stack([np.zeros(rows.n), eta])
    complete = bool(free.all()) and bool((A.margins_of(full)[A.others] > 0).all())
    if A.unknowns > LARGEST_PROGRAMME:
        every = tuple(combinations(labels, 2))
        return Separation("complete", tuple(names), *rule, 0, rows.n, tuple(labels), every) if complete else None
    D = A.sparsest(full)
    if D is None:
        return None
    slopes, intercept = A.in_units(D)
    strict = A.widest(full, np.abs(slopes).max(axis=0) > 0)
    if strict is None and complete:
        strict = A.sparsest(full, least=1.0)
    if strict is not None:
        D = strict
        slopes, intercept = A.in_units(D)
    margins = A.margins(D)
    tied = int(np.count_nonzero(np.where(A.others, margins <= ZERO * A.sizes[:, None], True).all(axis=1)))
    columns = tuple(name for name, used in zip(names, np.abs(slopes).max(axis=0) > 0, strict=True) if used)
    kind = "quasi-complete" if strict is None else "complete"
    tied = 0 if strict is not None else tied
    return Separation(kind, columns, slopes, intercept, tied, rows.n, tuple(labels), A.apart(margins, labels))


class _Margins:
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
        chosen = np.sort(np.argsort(margins, kind="stable")[:batch])
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
            chosen = np.union1d(chosen, np.argsort(margins, kind="stable")[:batch])
        return None

    def _balance(self, half: Array, chosen: Array) -> tuple[Array, Array] | None:
        """Weights of some of the rows whose signed sum is zero; None where rounding does not let them be found."""
        table = np.vstack([half.T, np.ones(len(half))])
        target = np.concatenate([np.zeros(half.shape[1]), [1.0]])
        alpha, _ = nnls(table, target, maxiter=30 * len(half))
        used = np.flatnonzero(alpha > 1e-12 * alpha.max(initial=0.0))
        if used.size == 0:
            return None
        # One more least-squares fit on the rows in use squeezes out the last digits.
        polished = np.linalg.lstsq(table[:, used], target, rcond=None)[0]
        alpha = polished if (polished > 0).all() else alpha[used]
        if np.abs(table[:, used] @ alpha - target).max() > BALANCED:
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


def _smallest(margins: Array, count: int, below: float = np.inf) -> Array:
    """The (row, class) pairs of the smallest margins, at most `count` and all below a limit."""
    flat = margins.ravel()
    count = min(count, int(np.count_nonzero(flat < below)))
    best = np.argpartition(flat, count - 1)[:count] if count < flat.size else np.arange(flat.size)
    best = np.sort(best[flat[best] < below])
    return np.column_stack(np.unravel_index(best, margins.shape))
