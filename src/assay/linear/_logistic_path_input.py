"""What is fitted along a path of penalties: the problem of some rows, the grid, and a warning where it stops short."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from assay.base import Constraint, array_like, integer, none, real
from assay.errors import ConvergenceWarning, ParameterError
from assay.linear._logistic_input import SHARED, LogisticModel, LogisticTable
from assay.linear._logistic_path import LogisticProblem, Solutions

__all__ = ["PATH_SHARED", "PathModel", "problem_of"]

Array = np.ndarray

RIDGE_GRID = 1e-3
"""A grid for (nearly) no lasso part starts where this share of lasso sets all coefficients to zero, as in glmnet."""

TALL_EPS, WIDE_EPS = 1e-4, 1e-2
"""Smallest alpha as a share of the largest, for n >= p and n < p, as in glmnet."""

PATH_SHARED: dict[str, Constraint] = {
    **SHARED,
    "l1_ratio": real(0, 1),
    "alphas": integer(1) | array_like,
    "eps": none | real(0, 1, open_low=True, open_high=True),
    "tol": real(0, open_low=True),
    "max_iter": integer(1),
}


def problem_of(table: LogisticTable, rows: Array | None = None) -> LogisticProblem:
    """The problem of all rows, or of some."""
    X, codes, w, offset = table.X, table.codes, table.w, table.offset
    if rows is not None:
        X, codes = X[rows], codes[rows]
        w, offset = None if w is None else w[rows], None if offset is None else offset[rows]
    return LogisticProblem(X, codes, table.K, w, offset, table.factors, table.fit_intercept)


class PathModel(LogisticModel):
    """A logistic model on a path of penalties: its grid, and its warning where the path stops short."""

    constraints: ClassVar[Mapping[str, Constraint]] = PATH_SHARED

    l1_ratio: float
    alphas: Any
    eps: float | None
    tol: float
    max_iter: int

    def _grid(self, problem: LogisticProblem) -> Array:
        """The given alphas from the largest down, or that many from alpha_max to eps * alpha_max in equal ratios."""
        if not isinstance(self.alphas, int | np.integer):
            try:
                grid = np.sort(np.asarray(self.alphas, dtype=np.float64).ravel())[::-1]
            except (TypeError, ValueError) as error:
                raise ParameterError("alphas contain a non-numeric value", remedy="pass numbers") from error
            if not grid.size or not np.isfinite(grid).all() or grid[-1] <= 0:
                remedy = "pass at least one such number; LogisticRegression() fits without penalty"
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
