"""Whether a function is a kernel: the spectrum of its Gram matrix on some rows.

k is valid exactly when c'Kc >= 0 for the Gram matrix K of any rows and any c (Mercer's condition on finite sets), that
is, when no K has a negative eigenvalue. One negative eigenvalue disproves it, and its eigenvector is the
counter-example; a non-negative spectrum on some rows proves nothing about others. Rounding moves eigenvalues by about
n eps times the largest, so smaller violations count as zero. Cost: O(n^3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg

from assay.margin.kernels._functions import wrap
from assay.margin.kernels._kernel import Kernel
from assay.numbers import fmt
from assay.results import Result

__all__ = ["Validity", "is_valid"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Validity(Result):
    """The spectrum of a Gram matrix, and the counter-example where it is not positive semi-definite.

    | field                 | meaning                                                                             |
    |-----------------------|-------------------------------------------------------------------------------------|
    | `valid`               | no eigenvalue below -`tolerance`, and the matrix is symmetric; also `bool(result)`   |
    | `smallest_eigenvalue` | of the Gram matrix of all rows                                                      |
    | `rows`, `c`, `value`  | c'Kc = value < 0 for the Gram matrix of these rows, few of them (empty if valid)     |
    | `asymmetry`           | the largest |k(x, x') - k(x', x)|                                                   |
    | `by_construction`     | whether the kernel is built of valid ones, so that no rows could disprove it        |
    | `eigenvalues`         | all of them, from the smallest                                                      |
    """

    valid: bool
    formula: str
    smallest_eigenvalue: float
    tolerance: float
    eigenvalues: Array
    rows: Array
    c: Array
    value: float
    asymmetry: float
    by_construction: bool

    def __bool__(self) -> bool:
        return self.valid

    def to_frame(self) -> pd.DataFrame:
        """The counter-example: one line per row of the table with its coefficient."""
        return pd.DataFrame({"row": self.rows, "c": self.c})

    def __str__(self) -> str:
        n = f"{self.eigenvalues.size:,} rows"
        if self.asymmetry > self.tolerance:
            return f"{self.formula} is not a kernel: k(x, x') and k(x', x) differ by {fmt(self.asymmetry, 4)} on {n}"
        least = f"smallest eigenvalue {fmt(self.smallest_eigenvalue, 4)} on {n}"
        if self.valid:
            said = (
                "valid by construction" if self.by_construction else "not refuted by these rows; others may refute it"
            )
            return f"{self.formula}: {least}, {said}"
        shown = ", ".join(
            f"{fmt(value, 3)} (row {row})" for row, value in list(zip(self.rows, self.c, strict=True))[:5]
        )
        more = ", ..." if self.rows.size > 5 else ""
        return f"{self.formula} is not a kernel: {least}; c'Kc = {fmt(self.value, 4)} for c = {shown}{more}"


def is_valid(k: Any, X: Any) -> Validity:
    """Whether `k` (a kernel or a function of two tables) has a non-negative spectrum on the rows of X.

    >>> from assay.margin.kernels import Sigmoid
    >>> print(is_valid(Sigmoid(gamma=1.0, coef0=1.0), [[1.0], [2.0]]))
    tanh(<x, x'> + 1) is not a kernel: smallest eigenvalue -0.01325 on 2 rows; c'Kc = -0.01325 for c = 0.713 (row 0), -0.701 (row 1)
    >>> bool(is_valid(lambda A, B: A @ B.T, np.array([[1.0], [2.0]])))
    True
    """  # noqa: E501  (a sentence)
    held = wrap(k).prepare(X)
    kernel: Kernel = held.kernel
    gram = held.block().astype(np.float64)
    asymmetry = float(np.abs(gram - gram.T).max(initial=0.0))
    K = 0.5 * (gram + gram.T)
    values, vectors = linalg.eigh(K)
    eps = float(np.finfo(held.dtype).eps)
    tolerance = float(10.0 * len(K) * eps * np.abs(values).max(initial=0.0))
    symmetric = asymmetry <= tolerance
    positive = bool(values.size == 0 or values[0] >= -tolerance)
    rows, c, value = np.empty(0, dtype=np.int64), np.empty(0), 0.0
    if not positive:
        rows, c, value = _fewest_rows(K, vectors[:, 0], tolerance)
    least = float(values[0]) if values.size else 0.0
    return Validity(
        positive and symmetric, str(kernel), least, tolerance, values, rows, c, value, asymmetry, kernel.valid
    )


def _fewest_rows(K: Array, vector: Array, tolerance: float) -> tuple[Array, Array, float]:
    """A counter-example on few rows: those with the largest coefficients, more and more of them until they suffice."""
    order = np.argsort(-np.abs(vector), kind="stable")
    count = 1
    while True:
        rows = np.sort(order[:count])
        values, vectors = linalg.eigh(K[np.ix_(rows, rows)])
        if values[0] < -tolerance or count == order.size:
            c = vectors[:, 0] if vectors[np.argmax(np.abs(vectors[:, 0])), 0] >= 0 else -vectors[:, 0]
            return rows.astype(np.int64), c, float(c @ K[np.ix_(rows, rows)] @ c)
        count = min(order.size, count + 1 + count // 4)
