"""The gate of the logistic paths: clean rows, class codes, weights, offsets, factors and the grid of penalties."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin

from assay.base import Constraint, Estimator, array_like, boolean, instance_of, integer, none, one_of, real
from assay.errors import ConvergenceWarning, DataError, ParameterError
from assay.labels import class_codes
from assay.linear._logistic_path import LogisticProblem, Solutions

__all__ = ["SHARED", "PathModel", "Table"]

Array = np.ndarray

RIDGE_GRID = 1e-3
"""A grid for (nearly) no lasso part starts where this share of lasso sets all coefficients to zero, as in glmnet."""

TALL_EPS, WIDE_EPS = 1e-4, 1e-2
"""Smallest alpha as a share of the largest, for n >= p and n < p, as in glmnet."""

SHARED: dict[str, Constraint] = {
    "l1_ratio": real(0, 1),
    "alphas": integer(1) | array_like,
    "eps": none | real(0, 1, open_low=True, open_high=True),
    "class_weight": none | one_of("balanced") | instance_of(dict, "a dict of class weights"),
    "penalty_factors": none | array_like,
    "fit_intercept": boolean,
    "tol": real(0, open_low=True),
    "max_iter": integer(1),
}


@dataclass(frozen=True, eq=False)
class Table:
    """What has passed the gate; w is None where every row counts the same."""

    X: Any
    codes: Array
    K: int
    w: Array | None
    offset: Array | None
    factors: Array
    fit_intercept: bool

    def problem(self, rows: Array | None = None) -> LogisticProblem:
        """The problem of all rows, or of some."""
        X, codes, w, offset = self.X, self.codes, self.w, self.offset
        if rows is not None:
            X, codes = X[rows], codes[rows]
            w, offset = None if w is None else w[rows], None if offset is None else offset[rows]
        return LogisticProblem(X, codes, self.K, w, offset, self.factors, self.fit_intercept)


class PathModel(ClassifierMixin, Estimator):
    """What is fitted along a path of penalties; checks its settings and its rows."""

    constraints: ClassVar[dict[str, Constraint]] = SHARED

    l1_ratio: float
    alphas: Any
    eps: float | None
    class_weight: Any
    penalty_factors: Any
    fit_intercept: bool
    tol: float
    max_iter: int
    classes_: Array

    def _table(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Table:
        X = self._gate(X, sparse="csr")
        n, p = X.shape
        w = self._weights(sample_weight, n)
        self.classes_, codes = class_codes(y, n, w)
        K = self.classes_.size
        added = None if offset is None else offsets(offset, n, K)
        if self.class_weight is not None:
            w = np.ones(n) if w is None else w
            w = w * self._class_factors(codes, w)[codes]
        return Table(X, codes, K, w, added, self._factors(p), bool(self.fit_intercept))

    def _class_factors(self, codes: Array, w: Array) -> Array:
        """What the weights of each class are multiplied by."""
        K = self.classes_.size
        if isinstance(self.class_weight, str):
            return w.sum() / (K * np.bincount(codes, weights=w, minlength=K))
        factors = np.ones(K)
        for label, value in self.class_weight.items():
            at = np.flatnonzero(self.classes_ == label)
            if not at.size:
                what = f"class_weight names the class {label!r}, which y does not hold"
                raise ParameterError(what, remedy=f"the classes are {', '.join(map(str, self.classes_[:10]))}")
            if not real(0, open_low=True).accepts(value):
                raise ParameterError(f"class_weight of {label!r} is {value!r}", remedy="give a positive number")
            factors[at] = float(value)
        return factors

    def _factors(self, p: int) -> Array:
        if self.penalty_factors is None:
            return np.ones(p)
        try:
            factors = np.asarray(self.penalty_factors, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError("penalty_factors hold something that is no number", remedy="give numbers") from error
        if factors.shape != (p,) or not np.isfinite(factors).all() or (factors < 0).any():
            what = f"penalty_factors must be {p} finite numbers of at least 0, one per column"
            raise ParameterError(what, remedy="correct penalty_factors")
        return factors

    def _grid(self, problem: LogisticProblem) -> Array:
        """The given alphas from the largest down, or that many from alpha_max to eps * alpha_max in equal ratios."""
        if not isinstance(self.alphas, int | np.integer):
            try:
                grid = np.sort(np.asarray(self.alphas, dtype=np.float64).ravel())[::-1]
            except (TypeError, ValueError) as error:
                raise ParameterError("alphas hold something that is no number", remedy="give numbers") from error
            if not grid.size or not np.isfinite(grid).all() or grid[-1] <= 0:
                remedy = "give at least one such number; LogisticRegression() fits without penalty"
                raise ParameterError("alphas must be finite and above zero", remedy=remedy)
            return np.ascontiguousarray(grid)
        count = int(self.alphas)
        top = problem.alpha_max(max(float(self.l1_ratio), RIDGE_GRID))
        if top <= 0.0:  # no column says anything about y
            return np.ones(1)
        eps = self.eps if self.eps is not None else TALL_EPS if problem.table.n >= problem.table.p else WIDE_EPS
        return np.geomspace(top, top * eps, count) if count > 1 else np.array([top])

    def _automatic(self) -> bool:
        return isinstance(self.alphas, int | np.integer)

    def _warn(self, found: Solutions, what: str) -> None:
        late = np.flatnonzero(~found.converged)
        if late.size:
            warnings.warn(
                f"{what} stopped after {int(found.iterations[late].max())} steps with a duality gap of "
                f"{found.gaps[late].max():.3g}, above tol = {self.tol:g} times the null loss; "
                "raise max_iter, tol or alpha",
                ConvergenceWarning,
                stacklevel=3,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def offsets(offset: Any, n: int, K: int) -> Array:
    """Offsets as clean numbers: (n,) for two classes, (n, K) for more."""
    try:
        values = np.ascontiguousarray(offset, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("offset holds something that is no number", remedy="give one number per row") from error
    wanted = (n,) if K == 2 else (n, K)
    if values.shape != wanted:
        what = f"offset.shape == {values.shape}, expected {wanted}"
        raise DataError(what, remedy="give one number per row (and class)")
    finite = np.isfinite(values).reshape(n, -1).all(axis=1)
    if not finite.all():
        what = f"offset holds NaN or inf in row {int(np.argmin(finite))}"
        raise DataError(what, remedy="drop that row or give it a finite offset")
    return values
