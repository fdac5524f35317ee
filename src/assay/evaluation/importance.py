"""Permutation importance: how much worse a model predicts when the values of a column are shuffled among the rows.

    I_j = E L(Y, f(X with column j from another row)) - E L(Y, f(X))          (scores: the other way round)

estimated by B permutations pi_b, with d_ib = L(y_i, f(x_i with x_{pi_b(i), j})) - L(y_i, f(x_i)) and I = mean of d_ib.
Larger is more important, whatever the direction of the metric. A row takes part twice, as the one that receives a value
and as the one that gives it, so the influence of row k is the sum of two means over the repeats,

    psi_k = (mean of d where k receives - I) + (mean of d where k gives - I),      se^2 = (var psi - var d / B) / n,

where var d / B is what the other half of each pair adds to psi and not to I (its n parts cancel in the mean). Counting
rows as receivers alone would halve the standard error of a linear model. Metrics that are no means over rows (AUC, R2,
RMSE) get the same two influences by a jackknife over ten parts of the rows, which asks twenty times for the metric. All
columns are shuffled by the same permutations, so they can be compared. With `cv`, a clone is fitted to each fold's
training rows, its held-out rows alone are shuffled, and the error over folds is the corrected one,
(1/(K R) + n_test/n_train) var.

Correlated columns stand in for each other: permute them together (`columns={"place": ["lat", "lon"]}`).
Cost: B predictions of all rows for each column; one working copy of X, changed in place.
Breiman (2001), Machine Learning 45, 5-32; Fisher, Rudin, Dominici (2019), JMLR 20(177); Nadeau & Bengio (2003), Machine
Learning 52, 239-281.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.checks import fraction, freeze, row_weights, whole
from assay.errors import DataError, ParameterError
from assay.evaluation._shuffle import FigureJudge, Found, Judge, RowJudge, Shuffler, permutations
from assay.evaluation._workbench import as_table, find_columns, names_of, workbench
from assay.evaluation.learner import (
    Rows,
    choose_metric,
    fit_rows,
    label_of,
    refuse_unfitted,
    rows_of,
    run,
    score,
)
from assay.importance import Importance
from assay.metrics.definition import Metric
from assay.numbers import fmt
from assay.numerics.seeds import seed_sequence
from assay.numerics.threads import workers
from assay.resampling import corrected_variance_factor, scheme_of, splits_of, take

__all__ = ["Importance", "permutation_importance", "pool_importance"]

Array = np.ndarray
SWAPPED = "when the column is taken from another row"


def permutation_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    metric: Any = None,
    n_repeats: int = 10,
    columns: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Importance:
    """How much a model's metric suffers when a column is shuffled, with a standard error that counts rows and repeats.

        importance = mean over rows and repeats of L(y_i, f(x_i, column j shuffled)) - L(y_i, f(x_i))

    | parameter     | default | range                                | meaning                                       |
    |---------------|---------|--------------------------------------|-----------------------------------------------|
    | model         |         | has fit and predict                  | fitted; with `cv` a learner, which is cloned  |
    | X, y          |         | a table and its target               | rows to judge by, for a fitted model new ones |
    | cv            | None    | None, folds, splitter, pairs         | None: the model is fitted                     |
    | metric        | None    | a metric or its name                 | None: mean squared error, or the error rate   |
    | n_repeats     | 10      | 1 or more                            | permutations of each column                   |
    | columns       | None    | names, positions, lists or a mapping | which; a list inside it is shuffled together  |
    | groups        | None    | one per row                          | rows that `cv` keeps in one fold              |
    | sample_weight | None    | one per row, 0 or more               | in the metric and, with `cv`, in fit          |
    | level         | 0.95    | (0, 1)                               | confidence of each interval                   |
    | random_state  | 0       | seed, generator or None              | the permutations, the folds of a number       |
    | n_jobs        | None    | None or non-zero                     | at a time; never changes the result           |

    Of training rows it says what the model leans on, not what helps it predict: give it rows it has not seen, or `cv`.
    Fisher, Rudin, Dominici (2019), JMLR 20(177).

    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = 2 * X[:, 0] + X[:, 1] + rng.normal(size=400)
    >>> found = permutation_importance(LinearRegression().fit(X[:200], y[:200]), X[200:], y[200:])
    >>> found.to_frame().round(2)
            importance  std_error  lower  upper
    column
    x0            7.76       0.86   6.07   9.45
    x1            1.64       0.25   1.14   2.14
    x2            0.00       0.01  -0.02   0.02
    """
    level, n_repeats = fraction(level, "level"), whole(n_repeats, "n_repeats")
    X = as_table(X)
    if cv is not None:
        asked = _Asked(metric, n_repeats, columns, level, random_state, n_jobs)
        return _over_folds(model, rows_of(model, X, y, sample_weight, groups), cv, asked)
    if groups is not None:
        message = "groups keep rows together in folds, but cv was not passed"
        raise ParameterError(message, remedy="pass cv, or leave groups out; columns={...} shuffles columns together")
    rows = _seen(model, rows_of(model, X, y), row_weights(sample_weight, X.shape[0]))
    if rows.n < 2:
        raise DataError("one row cannot be shuffled", remedy="pass at least two rows")
    chosen = choose_metric(metric, rows)
    parts = find_columns(columns, X, names_of(X, model))
    orders = permutations(rows.n, n_repeats, seed_sequence(random_state))
    judge = (FigureJudge if chosen.losses is None else RowJudge)(model, rows, chosen, orders)
    found = _all_columns(judge, [at for _, at in parts], n_jobs)
    figures = np.array([(f.importance, f.std_error) for f in found])
    return Importance.made(
        figures[:, 0],
        figures[:, 1],
        found[0].df,
        np.array([f.draws for f in found]),
        names=tuple(label for label, _ in parts),
        level=level,
        baseline=judge.baseline,
        metric=chosen.name,
        n=rows.n,
        n_repeats=n_repeats,
        method=found[0].method,
        estimand=f"{_rise(chosen)} of this fitted model on new rows {SWAPPED}",
        model=label_of(model),
    )


def _rise(metric: Metric) -> str:
    return f"{'loss' if metric.greater_is_better else 'rise'} of {metric.name}"


@dataclass(frozen=True)
class _Asked:
    """What the caller chose, for the way over folds."""

    metric: Any
    n_repeats: int
    columns: Any
    level: float
    random_state: Any
    n_jobs: int | None


def _seen(model: Any, rows: Rows, weights: Array | None) -> Rows:
    """The rows with the classes of the fitted model, some of which may be missing among them."""
    refuse_unfitted(model)
    own = getattr(model, "classes_", None)
    if rows.classes is None or own is None:
        return replace(rows, weights=weights)
    unknown = ~np.isin(rows.classes, own)
    if unknown.any():
        label = rows.classes[unknown][0].item() if rows.classes.dtype.kind != "O" else rows.classes[unknown][0]
        raise DataError(
            f"class {label!r} does not occur in the training rows of the model",
            remedy="leave its rows out, or refit the model",
        )
    return replace(rows, weights=weights, classes=np.asarray(own))


def _all_columns(judge: Judge, parts: Sequence[tuple[int, ...]], n_jobs: int | None) -> list[Found]:
    """Every column; each worker has one working copy of the table for its share of them."""
    one_each = n_jobs is None or n_jobs == 1
    share = 1 if one_each or not n_jobs else -(-len(parts) // (4 * workers(n_jobs)))
    if one_each:
        judge.open()
    shares = [parts[start : start + share] for start in range(0, len(parts), share)]
    return [f for part in run(judge.share, shares, label="columns", n_jobs=n_jobs) for f in part]


def _over_folds(learner: Any, rows: Rows, cv: Any, asked: _Asked) -> Importance:
    """Fit each fold's training rows, shuffle its held-out rows, and take the corrected error over folds."""
    metric = choose_metric(asked.metric, rows)
    parts = find_columns(asked.columns, rows.X, names_of(rows.X))
    root = seed_sequence(asked.random_state)
    seed, classes = int(root.spawn(1)[0].generate_state(1)[0]), rows.classes is not None
    splits = list(splits_of(cv, rows.X, rows.y, groups=rows.groups, classes=classes, random_state=seed))
    if len(splits) < 2:
        raise ParameterError("one split has no spread over folds", remedy="pass a cv with at least two splits")
    small = min(test.size for _, test in splits)
    if small < 2:
        raise DataError("a fold holds one row out, which cannot be shuffled", remedy="use fewer folds")
    scheme = scheme_of(splits, rows.n)
    seeds = root.spawn(len(splits))
    task = _Fold(learner, rows, metric, tuple(at for _, at in parts), asked.n_repeats)
    done = list(run(task, zip(splits, seeds, strict=True), label="folds", n_jobs=asked.n_jobs))
    draws = np.array([figures for _, figures in done]).T
    sizes = np.array([test.size for _, test in splits], dtype=float)
    mean = draws @ sizes / sizes.sum()
    error = np.sqrt(corrected_variance_factor(scheme) * draws.var(axis=1, ddof=1))
    return Importance.made(
        mean,
        error,
        len(splits) - 1.0,
        draws,
        names=tuple(label for label, _ in parts),
        level=asked.level,
        baseline=float(np.average([base for base, _ in done], weights=sizes)),
        metric=metric.name,
        n=rows.n,
        n_repeats=asked.n_repeats,
        method=f"corrected t over {scheme}",
        estimand=f"{_rise(metric)} of models fitted to {fmt(scheme.n_train, 6)} rows, on new rows, {SWAPPED}",
        model=label_of(learner),
    )


@dataclass(frozen=True, eq=False)
class _Fold:
    """One fold: the baseline and the importance of every column on its held-out rows."""

    learner: Any
    rows: Rows
    metric: Metric
    parts: tuple[tuple[int, ...], ...]
    repeats: int

    def __call__(self, item: Any) -> tuple[float, list[float]]:
        (train, test), seeds = item
        rows = self.rows
        model = fit_rows(self.learner, rows, train)
        weights = None if rows.weights is None else rows.weights[test]
        held = Rows(take(rows.X, test), rows.y[test], weights, rows.classes)
        judge = Shuffler(model, held, self.metric, permutations(held.n, self.repeats, seeds))
        bench = workbench(held.X, judge.copies)
        y, found = np.asarray(held.y), []
        for at in self.parts:
            figures = []
            for _, predicted in judge.shuffled(at, bench):
                for one in predicted.reshape(-1, held.n, *predicted.shape[1:]):
                    figures.append(score(self.metric, y, one, held, weights))
            found.append(judge.sign * (float(np.mean(figures)) - judge.baseline))
        return judge.baseline, found


def pool_importance(found: Sequence[Importance]) -> Importance:
    """Importances of several fitted models, each on rows of its own, as one figure over all rows.

        I = sum_k n_k I_k / n,    se^2 = sum_k (n_k / n)^2 se_k^2,    n = sum_k n_k

    | parameter | range            | meaning                                                                     |
    |-----------|------------------|-----------------------------------------------------------------------------|
    | found     | one or more      | of the same columns and metric, on disjoint rows that their models had not seen |

    The models are taken as given: the estimand is the mean importance of these models on new rows.

    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = 2 * X[:, 0] + rng.normal(size=400)
    >>> halves = (slice(0, 200), slice(200, 400)), (slice(200, 400), slice(0, 200))
    >>> parts = [
    ...     permutation_importance(LinearRegression().fit(X[a], y[a]), X[b], y[b]) for a, b in halves
    ... ]
    >>> pool_importance(parts).n
    400
    """
    first = found[0]
    if len(found) == 1:
        return first
    if any(one.names != first.names or one.metric != first.metric for one in found):
        message = "importances of different columns or metrics cannot be pooled"
        raise ParameterError(message, remedy="measure the same columns by the same metric")
    n = np.array([one.n for one in found], dtype=float)
    share = n / n.sum()
    mean = share @ np.array([one.importance for one in found])
    error = np.sqrt(share**2 @ np.array([one.std_error for one in found]) ** 2)
    # Halves of the intervals add as the errors do: each keeps its own t, so the pooled limits are no shorter than due.
    half = np.sqrt(share**2 @ np.array([one.upper - one.importance for one in found]) ** 2)
    return replace(
        first,
        importance=freeze(mean),
        std_error=freeze(error),
        lower=freeze(mean - half),
        upper=freeze(mean + half),
        draws=freeze(np.column_stack([one.draws for one in found])),
        baseline=float(share @ np.array([one.baseline for one in found])),
        n=int(n.sum()),
        method=f"{first.method}, pooled over {len(found)} models",
        estimand=f"{first.estimand}, the mean of {len(found)} models",
    )
