"""Cross-validation that keeps what it saw: out-of-fold predictions, losses per row, and an interval with its estimand.

The figure theta is the metric of all out-of-fold rows together (`assay.evaluation.figures`), the mean over repeats.
Three intervals, from the pseudo-values p_j of J = K R folds (of a mean over rows, the folds' means) and from the losses
of n tested rows:

    naive        mean -+ z sd(losses) / sqrt(n): as if the losses were independent. They are not (every training set
                 shares rows with the others), so it covers too little where models are fitted hard.
    corrected_t  theta -+ t_(J-1) sd(p) sqrt(1/J + n_test/n_train)                    (Nadeau & Bengio 2003), on the
                 scale of the metric's range (log, logit; on the log scale with the plain lower limit, if that is
                 less), and at least the metric's own interval on as many independent rows: stratified folds may be
                 more alike than their rows allow
    nested       the mean squared error of cross-validation itself is estimated by cross-validating inside the
                 training rows of each fold: MSE = mean_k [(mean e_in - mean e_out)^2 - var(e_out)/n_k], then
                 mean -+ z sqrt((K-1)/K MSE), held between 1 and sqrt(K) naive errors, around a mean corrected for
                 the smaller training sets                             (Bates, Hastie & Tibshirani 2024, JASA 119)

Cost: J fits; nested K(K-1)/2 + K more per repeat. An estimator with `predict_folds` gives all predictions at once, from
summaries that add (about one fit per repeat) or by the closed form of leave-one-out.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from assay.checks import choice, fraction, freeze
from assay.errors import AssayWarning, ParameterError
from assay.evaluation._nested import nest
from assay.evaluation._refits import reseeded, seed_of
from assay.evaluation.learner import (
    Rows,
    choose_metric,
    fit_fold,
    fold_predictions,
    label_of,
    needs_of,
    rows_of,
    run,
)
from assay.evaluation.validation import METHODS, Validation, validation_of
from assay.metrics.definition import Metric
from assay.resampling import AllButOne, scheme_of, splits_of

__all__ = ["Validation", "cross_validate"]

Array = np.ndarray


def cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 10,
    metric: Any = None,
    interval: str = "corrected_t",
    level: float = 0.95,
    groups: Any = None,
    sample_weight: Any = None,
    name: str | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    nested_repeats: int = 10,
) -> Validation:
    """How well a learner predicts rows it has not seen, with an interval that says what it covers.

        estimate = metric of all rows, each predicted by a model fitted to the other folds; over repeats, the mean

    | parameter      | default       | range                                     | meaning                            |
    |----------------|---------------|-------------------------------------------|------------------------------------|
    | estimator      |               | anything with fit and predict             | the learner; cloned, never changed |
    | cv             | 10            | a number, a splitter, (train, test) pairs | how to split (below)               |
    | metric         | None          | a metric, its name, or several            | the first is primary               |
    | interval       | "corrected_t" | "corrected_t", "naive", "nested"          | how the interval is made           |
    | level          | 0.95          | (0, 1)                                    | its level                          |
    | groups         | None          | one label per row                         | rows that must stay together       |
    | sample_weight  | None          | zero or more per row                      | how much a row counts              |
    | name           | None          | text                                      | the learner's name in tables       |
    | n_jobs         | None          | None, whole number but 0                  | workers; never changes the figures |
    | random_state   | 0             | seed                                      | folds, unset seeds of the learner  |
    | nested_repeats | 10            | at least 1                                | partitions for a nested interval   |

    A number `cv` means that many shuffled folds, stratified for classes. Without a metric it is the mean squared
    error of numbers and the error rate of classes. `interval` is explained at the top of this module.

    Any joblib backend works: `with joblib.parallel_config("threading", n_jobs=2): cross_validate(...)`.
    Nadeau & Bengio (2003); Bates, Hastie & Tibshirani (2024).

    >>> from assay.linear import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> print(cross_validate(Ridge(), X, X @ [1, 2, 3] + rng.normal(size=100), metric=["mse", "r2"]).interval())
    mse of Ridge trained on 90 rows 0.88 [0.38, 2.26] (95% corrected t interval, n = 100)
    """
    interval, level = choice(interval, "interval", METHODS), fraction(level, "level")
    rows = rows_of(estimator, X, y, sample_weight, groups)
    metrics = _metrics(metric, rows)
    splits = splits_of(
        cv, rows.X, rows.y, groups=rows.groups, classes=rows.classes is not None, random_state=random_state
    )
    label = label_of(estimator) if name is None else str(name)
    _warn_of_unseen(rows, splits, label)
    learner = reseeded(estimator, seed_of(random_state))
    kept, seconds, fast = _out_of_fold(learner, rows, splits, metrics, label, n_jobs)
    inner = None
    if interval == "nested":
        scheme = scheme_of(splits, rows.n)
        inner = nest(learner, rows, metrics[0], scheme, label, n_jobs, random_state, nested_repeats)
    found = validation_of(
        label, estimator, rows, splits, metrics, kept, seconds, fast=fast, level=level, method=interval, nested=inner
    )
    for other in metrics[1:]:
        found.scores(other)  # what cannot be scored is said now, not when the result is printed
    return found


def _warn_of_unseen(rows: Rows, splits: Any, label: str) -> None:
    """Say so when a fold tests a class that none of its training rows has."""
    if rows.classes is None or isinstance(splits, AllButOne):
        return
    codes = np.searchsorted(rows.classes, rows.y)
    for k, (train, test) in enumerate(splits):
        trained = np.bincount(codes[train], minlength=rows.classes.size) > 0
        unseen = ~trained[codes[test]]
        if unseen.any():
            name = rows.y[test[np.argmax(unseen)]].item()
            what = f"{label}: class {name!r} occurs in the test rows of fold {k} but not in its training rows"
            warnings.warn(f"{what}; use fewer folds, or merge rare classes", AssayWarning, stacklevel=3)
            return


def _metrics(metric: Any, rows: Rows) -> tuple[Metric, ...]:
    several = metric if isinstance(metric, list | tuple) else [metric]
    if not several:
        raise ParameterError("metric is empty", remedy="pass at least one metric, or leave it out")
    return tuple(choose_metric(one, rows) for one in several)


def _out_of_fold(
    estimator: Any, rows: Rows, splits: Any, metrics: tuple[Metric, ...], label: str, n_jobs: int | None
) -> tuple[dict[str, tuple[Array, ...]], Array, bool]:
    """Predictions of every fold by what they are, seconds per fold, and whether the fast path made them."""
    needs = needs_of(metrics)
    start = perf_counter()
    asked = () if "scores" in needs else needs  # scores take fitted models, which then give the rest as well
    quick = {need: fold_predictions(estimator, rows, splits, need) for need in asked}
    if quick and all(found is not None for found in quick.values()):
        each = (perf_counter() - start) / len(splits)
        ready = {need: tuple(freeze(part) for part in found or ()) for need, found in quick.items()}
        return ready, np.full(len(splits), each), True
    task = partial(_fold, estimator, rows, splits, needs, label)
    outcomes = list(run(task, range(len(splits)), label=f"cross-validation of {label}", n_jobs=n_jobs))
    kept = {need: tuple(freeze(outcome[0][need]) for outcome in outcomes) for need in needs}
    return kept, np.array([outcome[1] for outcome in outcomes]), False


def _fold(
    estimator: Any, rows: Rows, splits: Any, needs: Mapping[str, Metric], label: str, k: int
) -> tuple[dict[str, Array], float]:
    start = perf_counter()
    train, test = splits[k]
    predicted, _ = fit_fold(estimator, rows, train, test, needs, label=label, where=f"fold {k}")
    return predicted, perf_counter() - start
