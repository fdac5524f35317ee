"""Cross-validation along whole paths.

For p <= n each fold is summarised once by centred moments; the training moments of a fold are the merge of the
others', so ten folds cost one pass over the rows. Otherwise each fold solves its own path, folds spread over threads.
Test errors of all alphas come from one product per fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from assay.callbacks import Task, side_by_side
from assay.errors import DataError, ParameterError
from assay.linear._lasso_design import Design, from_moments, from_rows, gram_fits, is_sparse
from assay.linear._path import Settings
from assay.numerics.moments import Moments, all_but_one, merge, summarize
from assay.numerics.threads import parallel
from assay.resampling import is_partition

__all__ = ["CrossValidation", "alpha_grid", "cross_validate", "falls_beyond"]

WORTH = 0.01
"""Standard errors that a longer grid must promise."""

Splits = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The problem on all rows, the grid and the errors (folds, alphas) for each l1_ratio, the weight of each fold."""

    design: Design
    grids: list[np.ndarray]
    errors: list[np.ndarray]
    weights: np.ndarray


def falls_beyond(alphas: np.ndarray, mean: np.ndarray, error: np.ndarray) -> bool:
    """Whether the error would fall noticeably below its value at the smallest alpha, where the grid ends.

    Near alpha = 0 the error changes in proportion to alpha, so what the last step gained, d, leaves d r / (1 - r) to
    gain below it, r being the ratio of the last two alphas. A plateau, where the fit is as good as saturated, leaves
    next to nothing; more than `WORTH` standard errors are worth a longer grid.

    >>> alphas, error = np.array([1.0, 0.5, 0.25]), np.ones(3)
    >>> falls_beyond(alphas, 5 + alphas, error), falls_beyond(alphas, 5 + 1e-3 * alphas, error)
    (True, False)
    """
    if alphas.size < 2 or int(np.argmin(mean)) < mean.size - 1:
        return False
    ratio = alphas[-1] / alphas[-2]
    return bool((mean[-2] - mean[-1]) * ratio / (1 - ratio) > WORTH * np.nan_to_num(error[-1]))


def alpha_grid(design: Design, alphas: Any, eps: float, l1_ratio: float, positive: bool) -> np.ndarray:
    """The given alphas from the largest down, or that many from alpha_max to eps * alpha_max in equal ratios."""
    if not isinstance(alphas, int | np.integer):
        try:
            grid = np.sort(np.asarray(alphas, dtype=np.float64).ravel())[::-1]
        except (TypeError, ValueError) as error:
            raise ParameterError("alphas contain a non-numeric value", remedy="pass numbers") from error
        if not grid.size or not np.isfinite(grid).all() or grid[-1] < 0:
            raise ParameterError("alphas must be finite and at least zero", remedy="pass at least one")
        return np.ascontiguousarray(grid)
    if l1_ratio == 0:
        raise ParameterError(
            "with l1_ratio = 0 no alpha sets all coefficients to zero, so there is no grid to derive",
            remedy="pass alphas as an array, or use RidgeCV",
        )
    top = design.alpha_max(l1_ratio, positive)
    resolution = float(np.finfo(np.float64).resolution)
    if top <= 0.0:
        return np.full(int(alphas), resolution)
    return np.geomspace(top, top * eps, int(alphas)) if alphas > 1 else np.array([top])


def cross_validate(
    X: Any,
    y: np.ndarray,
    w: np.ndarray | None,
    factors: np.ndarray,
    splits: Splits,
    ratios: list[float],
    alphas: Any,
    eps: float,
    how: Settings,
    fit_intercept: bool,
    n_jobs: int | None,
    task: Task,
) -> CrossValidation:
    """Mean squared test errors of every fold along the path of every l1_ratio."""
    weights = np.array([float(len(test)) if w is None else float(w[test].sum()) for _, test in splits])
    for k, (train, _) in enumerate(splits):
        if not len(train) or (w is not None and not w[train].any()):
            raise DataError(
                f"fold {k} has no training row of positive weight", remedy="use other folds or other weights"
            )
    by_rows: Any = sparse.csr_array(X) if is_sparse(X) else X
    whole, trained = _from_fold_moments(X, y, w, factors, splits, fit_intercept, n_jobs)
    design = from_rows(X, y, w, factors, fit_intercept) if whole is None else whole
    grids = [alpha_grid(design, alphas, eps, ratio, how.positive) for ratio in ratios]

    def fold(k: int) -> list[np.ndarray]:
        train, test = splits[k]
        local = trained[k]
        if local is None:
            rows: Any = _rows(by_rows, train)
            local = from_rows(
                sparse.csc_array(rows) if is_sparse(rows) else rows, y[train], None if w is None else w[train],
                factors, fit_intercept,
            )  # fmt: skip
        errors = []
        for ratio, grid in zip(ratios, grids, strict=True):
            found = local.solve(grid, ratio, how)
            residuals = _rows(by_rows, test) @ found.coefs.T
            residuals += found.intercepts
            residuals -= y[test, None]
            errors.append(_mean_square(residuals, None if w is None else w[test]))
        return errors

    work = float(X.shape[0]) * X.shape[1] * len(grids[0])
    counted = side_by_side(fold, len(splits), "folds", task=task, step="fold")
    outcomes = parallel(counted, range(len(splits)), n_jobs=n_jobs, work=work)
    errors = [np.array([outcome[r] for outcome in outcomes]) for r in range(len(ratios))]
    return CrossValidation(design, grids, errors, weights)


def _mean_square(residuals: np.ndarray, w: np.ndarray | None) -> np.ndarray:
    with np.errstate(over="ignore"):
        np.square(residuals, out=residuals)
        if w is None:
            return residuals.mean(axis=0)
        return w @ residuals / w.sum() if w.any() else np.zeros(residuals.shape[1])


def _rows(X: Any, index: np.ndarray) -> Any:
    """The rows of X, without a copy where they are consecutive."""
    if index.size and index[-1] - index[0] == index.size - 1 and (np.diff(index) == 1).all():
        return X[index[0] : index[-1] + 1]
    return X[index]


def _from_fold_moments(
    X: Any,
    y: np.ndarray,
    w: np.ndarray | None,
    factors: np.ndarray,
    splits: Splits,
    fit_intercept: bool,
    n_jobs: int | None,
) -> tuple[Design | None, list[Design | None]]:
    """The problem on all rows and on each training set, merged from fold moments; None where that is not the way."""
    none: list[Design | None] = [None] * len(splits)
    n, p = X.shape
    fewest = min(len(train) for train, _ in splits)
    if is_sparse(X) or not (gram_fits(fewest, p) and p <= fewest) or len(splits) < 2 or not is_partition(splits, n):
        return None, none

    def part(k: int) -> Moments:
        test = splits[k][1]
        return summarize(_rows(X, test), y[test], None if w is None else w[test])

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        parts = parallel(part, range(len(splits)), n_jobs=n_jobs, work=float(n) * p)
        others = all_but_one(parts, merge)
        whole = from_moments(merge(parts[0], others[0]), factors, fit_intercept)
        trained = [from_moments(other, factors, fit_intercept) for other in others]
    if whole is None:
        return None, none
    return whole, trained
