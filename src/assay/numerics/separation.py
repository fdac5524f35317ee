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
Columns far from zero, such as times in seconds since 1970, are measured from their middle, where rounding hides less.

Albert and Anderson (1984), Biometrika 71, 1-10; Konis (2007), thesis, University of Oxford (linear programmes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse

from assay.checks import name_columns
from assay.numerics._margins import LARGEST_PROGRAMME, ZERO, Labelled, Margins, least, non_negative
from assay.results import Result

__all__ = ["Labelled", "Overlap", "Separation", "find_separation", "least", "non_negative", "separate"]

Array = np.ndarray

FAR = 8.0
"""A column this many times farther from zero than it is wide is measured from its middle."""


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
        if not self.intercept and self.rows.size == 1:
            return f"no line through zero separates the classes: row {shown} is all zeros"
        if not self.intercept:
            return f"no line through zero separates the classes: rows {shown} balance each other around zero"
        first, second = (self.rows[self.sides == side] for side in (1, -1))
        if first.size == second.size == 1:
            pair, how = f"rows {min(self.rows)} and {max(self.rows)}", "" if self.residual == 0 else " up to rounding"
            return f"no line separates the classes: {pair} are equal{how}, their classes are not"
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
    middle, scale = _column_sizes(X, intercept)
    near = X - middle if middle.any() else X
    rows = _Rows(near, np.asarray(upper).astype(np.int64), int(intercept), 1.0 / scale)
    A = Margins(rows, np.ones(p, dtype=bool))
    score = np.zeros(n) if start is None else np.asarray(start, dtype=np.float64)
    found = A.strict(np.column_stack([np.zeros(n), np.where(rows.codes == 1, score, -score)]))
    named = tuple(names) or tuple(f"x{j}" for j in range(p))
    if found is None:
        return None
    if isinstance(found, tuple):
        return _overlap(A, *found, middle, names=named)
    slopes, offset = A.in_units(found)
    offset = offset - slopes @ middle
    if (np.where(rows.codes == 1, 1.0, -1.0) * (np.asarray(X @ slopes[0]).ravel() + offset) <= 0).any():
        return None  # it separates, but not in the digits that the units of the table leave
    columns = tuple(name for name, slope in zip(named, slopes[0], strict=True) if slope != 0)
    pairs = ((str(labels[0]), str(labels[1])),)
    return Separation("complete", columns, slopes, offset, 0, n, pairs[0], pairs)


def _column_sizes(X: Any, intercept: bool) -> tuple[Array, Array]:
    """What to subtract from each column (zeros where none is far from zero), and how large it is then."""
    ends = (X.max(axis=0), X.min(axis=0))  # no copy of the table, as its absolute value would be
    high, low = (
        np.asarray(end.toarray() if hasattr(end, "toarray") else end, dtype=np.float64).ravel() for end in ends
    )
    middle, half = 0.5 * high + 0.5 * low, 0.5 * high - 0.5 * low
    if not intercept or sparse.issparse(X) or not (np.abs(middle) > FAR * half).any():
        middle, half = np.zeros(middle.size), np.maximum(high, -low)
    return middle, np.where(half > 1e-300, half, 1.0)  # the inverse of a smaller one would overflow


def _overlap(A: Margins, rows: Array, alpha: Array, middle: Array, names: tuple[str, ...]) -> Overlap:
    """The certificate in the units of the table, checked there."""
    sides = np.where(A.rows.codes[rows] == 1, 1, -1)
    alpha = alpha / (alpha[sides == 1].sum() if A.rows.first else alpha.sum())
    table = A.X[rows].toarray() if A.rows.is_sparse else A.X[rows].astype(np.float64)
    if A.rows.first and len(table) == 2 and (table[0] == table[1]).all():
        alpha = np.ones(2)
    point = alpha[sides == 1] @ table[sides == 1] + middle
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
    A = Margins(rows, free)
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
