"""The models behind a conformal predictor: fitted to each split's training rows, scored on the rows left out.

With a model of the spread sigma(x), learnt from absolute residuals of an inner cross-validation, scores are
|y - f(x)| / sigma(x).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from assay.errors import DataError, ParameterError
from assay.evaluation.learner import Rows, fit_rows, run
from assay.resampling import Holdout, is_partition, splits_of, take, whole_groups
from assay.state import Stateful, need

__all__ = ["ConformalFit", "finite_scores", "fit_all", "fit_one", "residuals"]

Array = np.ndarray
INNER = 5
"""Folds of the inner cross-validation that the model of the spread learns from."""


@dataclass(frozen=True, eq=False)
class ConformalFit(Stateful):
    """A fitted model, with a model of its absolute residuals where one was asked for."""

    state_name: ClassVar[str] = "evaluation.Fit"  # its name in model files

    model: Any
    spread: Any = None
    floor: float = 0.0

    def _check_state(self) -> None:
        need(all(one is None or hasattr(one, "predict") for one in (self.model, self.spread)), "it has no predict")
        need(self.model is not None and np.isfinite(self.floor))

    def centre(self, X: Any) -> Array:
        """The prediction of each row."""
        return np.asarray(self.model.predict(X), dtype=float).reshape(X.shape[0])

    def width(self, X: Any) -> Array:
        """What a residual is divided by."""
        if self.spread is None:
            return np.ones(X.shape[0])
        return np.maximum(np.asarray(self.spread.predict(X), dtype=float).reshape(X.shape[0]), self.floor)


def fit_all(
    estimator: Any, rows: Rows, method: str, cv: Any, scale: Any, seeds: np.random.SeedSequence, n_jobs: int | None
) -> tuple[tuple[ConformalFit, ...], Array, Array]:
    """The models of all splits, the model that has not seen each calibration row, and those rows in order."""
    seed = int(seeds.generate_state(1)[0])
    if cv is None:
        cv = Holdout(random_state=seed) if method == "split" else _default_folds(rows, seed)
    splits = list(
        splits_of(cv, rows.X, rows.y, groups=rows.groups, classes=rows.classes is not None, random_state=seed)
    )
    if method == "split" and len(splits) != 1:
        message = f'method="split" needs one split, but cv gives {len(splits)}'
        raise ParameterError(message, remedy='pass Holdout(), or method="cv+"')
    if method != "split" and not is_partition(splits, rows.n):
        message = f"method={method!r} needs folds that test every row exactly once"
        raise ParameterError(
            message, remedy="pass a number of folds; repeats, bootstraps and time series splits are not supported"
        )
    task = _Task(estimator, rows, scale, seeds)
    fits = tuple(run(task, [train for train, _ in splits], label="folds", n_jobs=n_jobs))
    fold = np.empty(rows.n, dtype=np.intp)
    for k, (_, test) in enumerate(splits):
        fold[test] = k
    held = np.sort(np.concatenate([test for _, test in splits]))
    return fits, fold[held], held


def _default_folds(rows: Rows, seed: int) -> Any:
    """Ten folds, or as many as there are rows or groups."""
    if rows.groups is None:
        return min(10, rows.n)
    return whole_groups(10, rows.groups, stratify=rows.classes is not None, random_state=seed)


@dataclass(frozen=True, eq=False)
class _Task:
    """Fits one set of training rows; an object, so that it travels to other processes."""

    estimator: Any
    rows: Rows
    scale: Any
    seeds: np.random.SeedSequence

    def __call__(self, train: Array) -> ConformalFit:
        return fit_one(self.estimator, self.rows, train, self.scale, self.seeds)


def fit_one(estimator: Any, rows: Rows, train: Array | None, scale: Any, seeds: np.random.SeedSequence) -> ConformalFit:
    """The model of some rows and, where asked for, a model of its absolute residuals on rows held out among them."""
    model = fit_rows(estimator, rows, train)
    if scale is None:
        return ConformalFit(model)
    groups = rows.groups if rows.groups is None or train is None else rows.groups[train]
    part = rows if train is None else Rows(take(rows.X, train), rows.y[train], None, None, groups)
    if part.n < INNER:
        raise DataError(
            f"{part.n} training rows are too few to estimate a scale", remedy="leave scale out, or pass more rows"
        )
    size = np.empty(part.n)
    seed = int(seeds.generate_state(2)[1])
    cv = whole_groups(INNER, groups, random_state=seed)
    for inside, out in splits_of(cv, part.X, part.y, groups=groups, random_state=seed):
        size[out] = np.abs(part.y[out] - ConformalFit(fit_rows(estimator, part, inside)).centre(take(part.X, out)))
    # A learner may predict a spread of zero or less; a hundredth of the typical residual keeps scores finite.
    floor = 0.01 * float(size.mean()) or 1.0
    return ConformalFit(model, fit_rows(scale, Rows(part.X, size, None, None, groups)), floor)


def residuals(fits: tuple[ConformalFit, ...], fold: Array, held: Array, rows: Rows) -> Array:
    """The score of each calibration row by the model that has not seen it."""
    scores = np.empty(held.size)
    for k, fit in enumerate(fits):
        here = fold == k
        X = take(rows.X, held[here])
        scores[here] = np.abs(rows.y[held[here]] - fit.centre(X)) / fit.width(X)
    return finite_scores(scores, "predictions")


def finite_scores(values: Any, name: str) -> Array:
    """Scores as numbers; one that is not finite is refused by row."""
    array = np.array(values, dtype=float).ravel()
    if array.size == 0:
        raise DataError(f"there are no {name}", remedy="pass at least one")
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        raise DataError(f"{name} are not finite in row {row}", remedy="check that row, or the model")
    return array
