"""What every linear model shares once it is fitted: f(x) = intercept + x'coef."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from assay.base import Estimator
from assay.checks import name_columns
from assay.constraints import real
from assay.errors import DataError
from assay.numerics.triangle import Solution
from assay.state import Specs, floats

__all__ = ["LinearModel", "repeats", "undetermined"]


def repeats(names: Sequence[str], most: int = 6) -> str:
    """Columns by name, and the verb that goes with their number.

    >>> repeats(["a"]), repeats(["a", "b"])
    ("column 'a' repeats", "columns 'a', 'b' repeat")
    """
    return f"{name_columns(names, most)} {'repeats' if len(names) == 1 else 'repeat'}"


def undetermined(model: Estimator, solution: Solution, n: int, others: str) -> str | None:
    """Why n rows leave coefficients open: too few of them, or columns that repeat the others; None if they do not."""
    p = len(solution.coef)
    if solution.rank == p:
        return None
    if n <= p:
        return f"{n} rows cannot determine the coefficients of {p} columns"
    names = model._feature_names()
    return f"{repeats([names[j] for j in solution.aliased], most=8)} {others}"


class LinearModel(RegressorMixin, Estimator):
    """A regressor with `coef_` (p,) or (k, p) and `intercept_`; says in its tags whether X may be sparse."""

    state: ClassVar[Specs] = {
        "coef_": floats("p") | floats("t", "p"),
        "intercept_": real() | floats("t"),
    }

    takes_sparse: ClassVar[bool] = False
    takes_many_targets: ClassVar[bool] = False

    def predict(self, X: Any) -> np.ndarray:
        """The fitted linear function at each row of X."""
        X = self._validate(X, reset=False, sparse=("csr", "csc") if self.takes_sparse else False)
        return X @ self.coef_.T + self.intercept_

    def _refuse_overflow(self, coef: np.ndarray) -> None:
        """Name the column whose coefficient (along the first axis of coef) is too large for a float64."""
        bad = ~np.isfinite(coef).reshape(len(coef), -1).all(axis=1)
        if bad.any():
            name = self._feature_names()[int(np.argmax(bad))]
            raise DataError(
                f"the coefficient of column {name!r} overflows because its values are too small",
                remedy="rescale the column",
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.takes_sparse
        tags.target_tags.multi_output = self.takes_many_targets
        return tags
