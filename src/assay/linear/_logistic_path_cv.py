"""Test scores of every fold along a path of penalised logistic fits.

    deviance   2 sum_i w_i (-log p_i(y_i)) / sum_i w_i
    error      share of wrong classes, by weight
    auc        area under the ROC curve (two classes)

Each fold solves its own path, each penalty from the last; the linear predictors of all penalties on its test rows are
one product. Folds spread over threads, with BLAS held to one thread in each, so that n_jobs never changes a result.
"""

from __future__ import annotations

import numpy as np

from assay.callbacks import Task, side_by_side
from assay.errors import DataError
from assay.linear._logistic_input import LogisticTable, log_probabilities
from assay.linear._logistic_path import Solutions
from assay.linear._logistic_path_input import problem_of
from assay.metrics import auc
from assay.numerics.threads import parallel

__all__ = ["fold_scores"]

Array = np.ndarray
Splits = list[tuple[Array, Array]]


def fold_scores(
    table: LogisticTable,
    splits: Splits,
    alphas: Array,
    l1_ratio: float,
    metric: str,
    tol: float,
    max_iter: int,
    n_jobs: int | None,
    task: Task,
) -> tuple[Array, Array]:
    """Scores (folds, alphas), and the weight of each fold's test rows."""
    w = np.ones(table.codes.size) if table.w is None else table.w
    for k, (train, test) in enumerate(splits):
        _refuse_missing_classes(table, w, train, f"the training rows of fold {k}")
        if metric == "auc":
            _refuse_missing_classes(table, w, test, f"the test rows of fold {k}")

    def fold(k: int) -> Array:
        train, test = splits[k]
        found = problem_of(table, train).solve(alphas, l1_ratio, tol, max_iter)
        return _scores(table, found, test, w[test], metric)

    counted = side_by_side(fold, len(splits), "folds", task=task, step="fold")
    outcomes = parallel(counted, range(len(splits)), n_jobs=n_jobs)
    return np.array(outcomes), np.array([w[test].sum() for _, test in splits])


def _refuse_missing_classes(table: LogisticTable, w: Array, rows: Array, where: str) -> None:
    present = np.bincount(table.codes[rows], weights=w[rows], minlength=table.K) > 0
    if not present.all():
        what = f"{where} have no row of class number {int(np.argmin(present))} (counted from 0)"
        raise DataError(what, remedy="use fewer folds, or merge or drop the rare class")


def _scores(table: LogisticTable, found: Solutions, test: Array, w: Array, metric: str) -> Array:
    X, codes = table.X[test], table.codes[test]
    A, rows, p = found.coefs.shape
    eta = np.asarray(X @ found.coefs.reshape(A * rows, p).T).reshape(test.size, A, rows) + found.intercepts
    if table.offset is not None:
        eta += table.offset[test].reshape(test.size, 1, rows)
    if not w.any():  # a fold of no weight counts for nothing
        return np.zeros(A)
    if metric == "auc":
        return np.array([auc(codes, eta[:, a, 0], labels=[0, 1], sample_weight=w) for a in range(A)])
    if metric == "error":
        guess = np.argmax(eta, axis=2) if rows > 1 else (eta[:, :, 0] > 0).astype(np.int64)
        return w @ (guess != codes[:, None]) / w.sum()
    losses = -np.take_along_axis(log_probabilities(eta), codes[:, None, None], axis=2)[:, :, 0]
    return 2 * (w @ losses) / w.sum()
