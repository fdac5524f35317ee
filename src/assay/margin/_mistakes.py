"""How many mistakes a perceptron can make: the widest margin through zero, and the report of a fit.

If some u of length one has y_i u'a_i >= gamma > 0 on all rows, and |a_i| <= R, a perceptron that starts at zero makes

    at most (R^2 + 2 margin / step) / gamma^2 mistakes, whatever the order of the rows,

because w'u grows by at least step gamma and |w|^2 by at most step^2 R^2 + 2 step margin with each (Block 1962, Novikoff
1962; with a margin, Krauth and Mezard 1987). gamma is the *half*-width of the margin, and both are of the augmented
rows a = (x, 1) that the algorithm sees. The largest gamma is the distance of zero from the hull of the y_i a_i: least
squares with non-negative weights on a few rows, to which rows that its answer violates are added until none is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import linalg, sparse

from assay.constraints import text
from assay.margin._perceptron import Gram, Run
from assay.margin.kernels._kernel import is_sparse
from assay.numbers import fmt
from assay.numerics.separation import Overlap, Separation, least, non_negative
from assay.results import Result
from assay.state import Specs, several, values

__all__ = ["MistakeTrace", "half_width", "longest", "margin_of", "signs_of", "space_of"]

Array = np.ndarray

ROUNDS, TIGHT = 200, 1e-6
LARGEST = 400_000
"""Cells of a least-squares problem beyond which the margin that the perceptron found itself is reported."""
PROVABLE = 400
"""Rows beyond which the space of a kernel is not spelled out to prove anything about it."""


def half_width(A: Any, signs: Array, w: Array, longest: float) -> float:
    """The largest half-width, near enough, of a slab around a plane through zero that separates rows a, as w does.

    >>> round(half_width(np.array([[1.0, 1.0], [-1.0, 1.0]]), np.array([1.0, -1.0]), np.array([0.5, 0.1]), 1.4), 9)
    1.0
    """
    w = w / np.abs(w).max()  # of columns in tiny units the square would overflow
    length = float(np.sqrt(w @ w))
    margins = signs * np.asarray(A @ w).ravel() / (length * longest)
    best, columns = float(margins.min()), A.shape[1]
    active = least(margins, 2 * columns + 20)
    for _ in range(ROUNDS):
        if active.size * columns > LARGEST:
            break
        part = A[active].toarray() if hasattr(A, "toarray") else A[active]
        B = signs[active][:, None] * part / longest
        weights = non_negative(np.vstack([B.T, np.ones(active.size)]), np.append(np.zeros(columns), 1.0))
        if weights is None:
            break
        u = weights @ B
        size, total = float(np.sqrt(u @ u)), float(weights.sum())
        if total == 0.0 or size <= 1e-14 * total:
            break
        margins = signs * np.asarray(A @ u).ravel() / (size * longest)
        best = max(best, float(margins.min()))
        if margins.min() >= size / total * (1.0 - TIGHT):
            break
        grown = np.union1d(active, least(margins, columns + 20))
        if grown.size == active.size:
            break
        active = grown
    return best * longest


@dataclass(frozen=True, eq=False, repr=False)
class MistakeTrace(Result):
    """How a perceptron went, one line per class that is told from the rest (one for two classes).

    | field         | meaning                                                                                         |
    |---------------|-------------------------------------------------------------------------------------------------|
    | `mistakes`    | per pass over the rows, one line per class                                                      |
    | `passes`      | how many, per class                                                                             |
    | `radius`      | R, the length of the longest augmented row                                                      |
    | `margin`      | gamma, the largest half-width of a separating slab (of more rows than can be searched that of   |
    |               | the last weights, which is smaller); NaN where no line is known to separate                     |
    | `bound`       | (R^2 + 2 margin / step) / gamma^2, the most mistakes from zero in any order; NaN where unknown  |
    | `converged`   | whether the last pass had no mistake                                                            |
    | `separable`   | 1: a line separates the class, 0: none does (proved), -1: not known                             |
    | `cycle`       | after how many passes the weights came back; 0: they did not                                    |
    | `certificates`| the proof, where no line separates                                                              |
    """

    names: tuple[str, ...]
    mistakes: Array
    passes: Array
    radius: float
    margin: Array
    bound: Array
    converged: Array
    separable: Array
    cycle: Array
    certificates: tuple[Overlap | None, ...]

    state: ClassVar[Specs] = {
        "names": several(text, "c", kind=tuple),
        "mistakes": values("c", None),
        **dict.fromkeys(("passes", "margin", "bound", "converged", "separable", "cycle"), values("c")),
    }

    @property
    def total(self) -> Array:
        """All mistakes, per class."""
        return np.asarray(self.mistakes.sum(axis=1))

    def to_frame(self) -> pd.DataFrame:
        """One line per class."""
        names = ("passes", "margin", "bound", "converged", "separable", "cycle")
        columns = {name: getattr(self, name) for name in names}
        return pd.DataFrame({"mistakes": self.total, **columns}, index=list(self.names))

    def __str__(self) -> str:
        return "\n".join(self._line(k) for k in range(len(self.names)))

    def _line(self, k: int) -> str:
        passes, made = int(self.passes[k]), int(self.total[k])
        said = f"{self.names[k]}: {made:,} mistake{'s' * (made != 1)} in {passes:,} pass{'es' * (passes != 1)}"
        proof = self.certificates[k]
        if np.isfinite(self.bound[k]):
            said += (
                f" (at most {fmt(np.floor(self.bound[k]), 6)}: R = {fmt(self.radius)}, gamma = {fmt(self.margin[k])})"
            )
        if self.converged[k]:
            return f"{said}, none in the last"
        if self.cycle[k]:
            said += f", in a cycle of {self.cycle[k]}"
        return f"{said}; {proof}" if proof is not None else f"{said}, not finished"


def signs_of(codes: Array, count: int) -> Array:
    """+1 for a class and -1 for the rest, one line per class; for two classes one line."""
    own = range(1, 2) if count == 2 else range(count)
    return np.array([np.where(codes == k, 1.0, -1.0) for k in own])


def longest(X: Any, intercept: bool) -> float:
    squares = X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
    return float(np.sqrt(np.max(squares) + float(intercept))) or 1.0


def space_of(held: Any, X: Any) -> Any:
    """Rows whose inner products are those of the algorithm, the column of ones left out.

    None where there are too many of them, where there are none (the Gram matrix is not symmetric and positive
    semi-definite), or where rounding hides which directions have length zero.
    """
    if held is None:
        return X
    if held.n > PROVABLE:
        return None
    gram = held.block().astype(np.float64)
    values, vectors = linalg.eigh(gram)
    zero = _zero(held) * np.abs(values).max()
    if values[0] < -zero or np.abs(gram - gram.T).max() > zero:
        return None
    used = values > zero
    if (values[used] < 100.0 * zero).any():
        return None
    return np.ascontiguousarray(vectors[:, used] * np.sqrt(values[used]))


def margin_of(table: Any, made: Run, space: Any, signs: Array, radius: float, intercept: bool) -> float:
    """The largest half-width of the separating slab, from whatever rule is known to separate; 0 if none is."""
    scores = signs * table.scores(table.w)
    if isinstance(made.answer, Separation):
        w = np.append(made.answer.direction[0], made.answer.intercept[0] if intercept else 0.0)
    elif scores.min() > 0 and not isinstance(table, Gram):
        w = table.w
    elif scores.min() > 0 and space is None:
        if not table.held.kernel.valid:  # without inner products there are no lengths and no margins
            return 0.0
        return float(scores.min() / np.sqrt(abs(table.w @ table.f)))
    elif scores.min() > 0:
        flat = space.T @ table.w
        w = np.append(flat, table.w.sum() if intercept else 0.0)
    else:
        return 0.0
    if is_sparse(space):
        join: Any = sparse.hstack
        A: Any = join([space, np.full((space.shape[0], 1), float(intercept))], format="csr")
    else:
        A = np.column_stack([space, np.full(len(space), float(intercept))])
    if (signs * np.asarray(A @ w).ravel()).min() <= 0:
        return 0.0
    gamma = half_width(A, signs, w, radius)
    if isinstance(table, Gram) and gamma**2 <= _zero(table.held) * radius**2:
        return 0.0  # a Gram matrix says where rows are up to the root of its rounding
    return gamma


def _zero(held: Any) -> float:
    """What rounding leaves of an eigenvalue of zero, relative to the largest."""
    return 10.0 * float(held.n * np.finfo(held.dtype).eps)
