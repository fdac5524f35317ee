"""Nested cross-validation: the error of cross-validation itself, from cross-validations inside each training set.

For fold k of K, let e_in be the losses of the other folds, each by models that saw neither it nor fold k, and e_out
the losses of fold k by the model trained on all others. Then

    MSE = mean_k [(mean e_in - mean e_out)^2 - var(e_out) / n_k]

is an estimate of the mean squared error of cross-validation on (K-1)/K of the rows, averaged over random partitions;
its root over the naive standard error is how far the naive interval must be widened, held between 1 and sqrt(K). The
inner models are trained on (K-2)/K of the rows. If errors fall like 1/n, their mean exceeds that of n rows by
(1 + (K-2)/K) times its distance to ordinary cross-validation, which is taken off. K(K-1)/2 + K fits per partition.
Bates, Hastie & Tibshirani (2024), Cross-validation: what does it estimate and how well does it do it?, JASA 119.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from time import perf_counter
from typing import Any

import numpy as np

from assay.checks import whole
from assay.errors import ParameterError
from assay.evaluation.learner import Rows, fit_fold, run
from assay.metrics.definition import Metric
from assay.metrics.limits import average, standard_error
from assay.metrics.scorer import class_options
from assay.resampling import Folds, Scheme, splits_of

__all__ = ["Nested", "nest"]

Array = np.ndarray


@dataclass(frozen=True)
class Nested:
    """What was found: mean loss inside and outside, the factor of the naive standard error, and the partitions."""

    inside: float
    outside: float
    inflation: float
    repeats: int
    n_folds: int
    seconds: float

    @property
    def centre(self) -> float:
        """The mean loss, corrected to models trained on all rows."""
        return self.inside - (1 + (self.n_folds - 2) / self.n_folds) * (self.inside - self.outside)


def nest(
    estimator: Any,
    rows: Rows,
    metric: Metric,
    scheme: Scheme,
    label: str,
    n_jobs: int | None,
    random_state: Any,
    repeats: int,
) -> Nested:
    """Nested cross-validation: how far the mean inside each fold's training rows lies from the error on the fold."""
    repeats, K = whole(repeats, "nested_repeats"), scheme.n_splits
    if metric.losses is None:
        message = f"{metric.name} is not a mean over rows, which nested intervals need"
        raise ParameterError(message, remedy='use interval="corrected_t", or a metric such as "mse" or "error"')
    if scheme.kind not in ("k-fold", "repeated k-fold") or K < 3:
        message = f"nested intervals need at least 3 folds, not {scheme}"
        raise ParameterError(message, remedy="pass cv as a number of folds")
    classes = rows.classes is not None
    dealt = Folds(K, repeats=repeats, stratify=classes, random_state=random_state)
    tests = [test for _, test in splits_of(dealt, rows.X, rows.y, groups=rows.groups)]
    pairs = [*combinations(range(K), 2), *((k, k) for k in range(K))]
    tasks = [(r, a, b) for r in range(repeats) for a, b in pairs]
    task = partial(_leave_two, estimator, rows, metric, label, tests, K)
    errors: dict[tuple[int, int, int], Array] = {}
    start = perf_counter()
    for (r, a, b), found in zip(
        tasks, run(task, tasks, label=f"nested cross-validation of {label}", n_jobs=n_jobs), strict=True
    ):
        errors[r, a, b], errors[r, b, a] = found
    return _summary(errors, rows, tests, K, repeats, perf_counter() - start)


def _leave_two(
    estimator: Any, rows: Rows, metric: Metric, label: str, tests: list[Array], K: int, task: tuple[int, int, int]
) -> tuple[Array, Array]:
    """Losses of two folds (or twice the one) by a model that saw neither."""
    r, a, b = task
    first, second = tests[r * K + a], tests[r * K + b]
    train = np.ones(rows.n, dtype=bool)
    train[first] = train[second] = False
    both = first if a == b else np.concatenate([first, second])
    where = f"nested folds {a} and {b}"
    needs = {metric.needs: metric}
    predicted, _ = fit_fold(estimator, rows, np.flatnonzero(train), both, needs, label=label, where=where)
    losses = metric.per_row(rows.y[both], predicted[metric.needs], **class_options(metric, rows.classes))
    assert losses is not None
    return losses[: first.size], losses[-second.size :]


def _summary(
    errors: Mapping[tuple[int, int, int], Array], rows: Rows, tests: list[Array], K: int, repeats: int, seconds: float
) -> Nested:
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    gaps, inside, outside, naive = [], [], [], []
    for r in range(repeats):
        part = [weights[test] for test in tests[r * K : (r + 1) * K]]
        for k in range(K):
            others = [j for j in range(K) if j != k]
            # errors[r, j, k]: losses of fold j by the model that saw neither j nor k.
            e_in, w_in = (
                np.concatenate(parts) for parts in ([errors[r, j, k] for j in others], [part[j] for j in others])
            )
            e_out, w_out = errors[r, k, k], part[k]
            mean_in, mean_out = average(e_in, w_in), average(e_out, w_out)
            gaps.append((mean_in - mean_out) ** 2 - standard_error(e_out - mean_out, w_out) ** 2)
            inside.append(mean_in)
            outside.append(mean_out)
            naive.append(standard_error(e_in - mean_in, w_in))  # of (K-1)/K of the rows, as is the MSE
    error = float(np.mean(naive))
    inflation = float(np.sqrt(max(0.0, float(np.mean(gaps))))) / error if error > 0 else 1.0
    held = float(min(max(1.0, inflation), np.sqrt(K)))
    return Nested(float(np.mean(inside)), float(np.mean(outside)), held, repeats, K, seconds)
