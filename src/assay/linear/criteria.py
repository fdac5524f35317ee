"""How good is a model of k variables? Interchangeable criteria over any family of linear models.

A family is a list of linear models of the same rows, from the simplest to the most complex: the best
subset of every size, the steps of a stepwise search, the knots of a path. With n rows (the total
weight, where rows are weighted: a weight of two is a row written twice), k variables, i = 1 with an
intercept and 0 without, residual sum of squares RSS, total sum of squares TSS (about the mean if i = 1)
and s2 = RSS_full / (n - rank - i), the residual variance of the model with all columns:

    R2             1 - RSS / TSS
    adjusted_r2    1 - (RSS / (n - k - i)) / (TSS / (n - i))                  the largest is best
    cp             (RSS + 2 k s2) / n                                         Mallows' Cp, as an error
    aic, sigma     (RSS + 2 k s2) / n                                         the same as cp
    bic, sigma     (RSS + log(n) k s2) / n                                    heavier than aic from n = 8
    aic, likelihood    n log(2 pi RSS / n) + n + 2 (k + i)                    -2 log L + 2 (k + i)
    bic, likelihood    n log(2 pi RSS / n) + n + log(n) (k + i)               -2 log L + log(n) (k + i)
    cv             mean squared error of left-out rows over the folds
    validation     mean squared error of rows held out once

The likelihood forms are those of statsmodels, digit for digit; R's `AIC` also counts the variance as a
parameter and is larger by 2 (or log n) for every model, which changes no choice. The sigma forms exist
only when n exceeds the number of parameters of the full model; with p >= n they are refused, and the
likelihood forms or cross-validation take their place. An RSS that rounding alone keeps from zero is
floored at 64 eps TSS, so that an exact fit wins by its size and never by log 0.

`cv` repeats the whole search inside every fold: choosing variables on all rows first and
cross-validating afterwards is the classical way to be fooled (Hastie, Tibshirani, Friedman, The
Elements of Statistical Learning, section 7.10.2). With n >= p a fold's training set is the merge of the
other folds' moments, and no row is read twice.

Mallows (1973), Technometrics 15, 661-675; Akaike (1974), IEEE TAC 19, 716-723; Schwarz (1978), Ann.
Statist. 6, 461-464.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from assay.base import one_of
from assay.errors import AssayWarning, DataError, ParameterError
from assay.numerics.moments import Moments, all_but_one, merge, summarize
from assay.numerics.threads import parallel
from assay.resampling import cv_mean_and_error, folds, is_partition, one_standard_error
from assay.results import Curve

__all__ = [
    "CRITERIA",
    "Models",
    "Selection",
    "criterion_constraint",
    "criterion_values",
    "cv_errors",
    "form_constraint",
    "full_model_variance",
    "largest_size",
    "rule_constraint",
    "select",
    "selection_table",
    "validation_errors",
    "warn_of_light_weights",
]

Array = np.ndarray
Fit = Callable[[Any], tuple[Array, Array]]
"""Training data -> coefficients (one row per model, simplest first) and intercepts of a family."""

CRITERIA = ("cp", "aic", "bic", "adjusted_r2", "cv", "validation")

criterion_constraint = one_of(*CRITERIA)
form_constraint = one_of("likelihood", "sigma")
rule_constraint = one_of("min", "1se")


@dataclass(frozen=True, eq=False)
class Models:
    """A family of linear models on the same rows, from the simplest to the most complex.

    `sizes` counts the variables of each (or its degrees of freedom without the intercept), `n` is the
    total weight, `sigma2` the residual variance of the full model or NaN where none exists.
    """

    sizes: Array
    rss: Array
    variables: Sequence[tuple[str, ...]]
    n: float
    tss: float
    intercept: bool
    sigma2: float = float("nan")


@dataclass(frozen=True, eq=False)
class Selection:
    """Which model of a family a criterion chose (`index`), every figure it saw, and the curve."""

    index: int
    table: pd.DataFrame
    curve: Curve


def criterion_values(models: Models, criterion: str, form: str = "likelihood") -> Array:
    """The value of `cp`, `aic`, `bic` or `adjusted_r2` for each model of the family.

    >>> models = Models(np.array([0, 1]), np.array([10.0, 4.0]), [(), ("x0",)], 8.0, 10.0, True, sigma2=0.5)
    >>> criterion_values(models, "cp").tolist()
    [1.25, 0.625]
    >>> criterion_values(models, "adjusted_r2").round(6).tolist()
    [0.0, 0.533333]
    """
    k, n = models.sizes.astype(np.float64), models.n
    rss = np.maximum(models.rss, 64 * np.finfo(float).eps * models.tss)
    i = float(models.intercept)
    if criterion == "adjusted_r2":
        df = np.where(n - k - i > 0, n - k - i, np.nan)
        if models.tss == 0 or n <= i:
            return np.zeros(k.size)
        return 1.0 - (rss / df) / (models.tss / (n - i))
    weight = np.log(n) if criterion == "bic" else 2.0
    if criterion == "cp" or form == "sigma":
        return (rss + weight * k * models.sigma2) / n
    # A constant target leaves every model without a residual; the smallest is then as good as any.
    mean = np.where(rss > 0, rss / n, 1.0)
    return n * (np.log(2 * np.pi * mean) + 1.0) + weight * (k + i)


def selection_table(models: Models, form: str = "likelihood") -> pd.DataFrame:
    """One row per model: size, variables, rss, r2, adjusted_r2, cp, aic, bic (the two in the asked form)."""
    with np.errstate(invalid="ignore"):
        r2 = 1.0 - models.rss / models.tss if models.tss > 0 else np.zeros(models.rss.size)
    columns: dict[str, Any] = {
        "size": np.asarray(models.sizes),
        "variables": list(models.variables),
        "rss": np.asarray(models.rss, dtype=np.float64),
        "r2": r2,
    }
    for name in ("adjusted_r2", "cp", "aic", "bic"):
        columns[name] = criterion_values(models, name, form)
    return pd.DataFrame(columns)


def select(
    models: Models,
    criterion: str,
    *,
    form: str = "likelihood",
    rule: str = "min",
    errors: tuple[Array, Array] | None = None,
    x: Array | None = None,
    x_name: str = "size",
) -> Selection:
    """Choose from the family; `errors` are the mean and standard error per model for cv and validation.

    Ties go to the simplest model. `rule="1se"` takes, for cv and validation, the simplest model whose
    error is within one standard error of the least. The curve runs over `x`, the sizes unless given.
    """
    x = np.asarray(models.sizes if x is None else x, dtype=np.float64)
    _require_variance(models, criterion, form)
    if rule == "1se" and errors is None:
        raise ParameterError(
            f'rule = "1se" needs standard errors, and criterion = {criterion!r} has none',
            remedy='use criterion="cv" or "validation", or rule="min"',
        )
    table = selection_table(models, form)
    se: Array | None = None
    line: float | None = None
    if errors is not None:
        values, se = errors
        table[criterion], table[f"{criterion}_std_error"] = values, se
        best, simplest = one_standard_error(values, se)
        line = float(values[best] + se[best])
        index = best if rule == "min" else simplest
        marks = {"min": float(x[best]), "1se": float(x[simplest])}
    else:
        values = table[criterion].to_numpy()
        index = int(np.nanargmax(values) if criterion == "adjusted_r2" else np.nanargmin(values))
        marks = {}
    marks["chosen"] = float(x[index])
    named = f"{criterion} ({form} form)" if criterion in ("aic", "bic") else criterion
    curve = Curve(
        x=x,
        estimate=np.asarray(values, dtype=np.float64),
        x_name=x_name,
        y_name=named,
        std_error=se,
        marks=marks,
        rule=line,
        title=named,
    )
    return Selection(index, table, curve)


def _require_variance(models: Models, criterion: str, form: str) -> None:
    if (criterion == "cp" or (form == "sigma" and criterion in ("aic", "bic"))) and np.isnan(models.sigma2):
        what = "cp" if criterion == "cp" else f'{criterion}" with form="{form}'
        raise DataError(
            f'criterion="{what}" needs the residual variance of the model with all columns, but a total weight of '
            f"{models.n:g} rows leaves it none",
            remedy='use criterion="aic" or "bic" with form="likelihood", or criterion="cv"',
        )


def largest_size(n: float, p: int, intercept: bool, asked: int | None = None) -> int:
    """The largest model a criterion may choose: one degree of freedom is left, and with p >= n only n / log n columns.

    Without that second limit a model that fits every row wins by its likelihood alone.

    >>> largest_size(100, 10, True), largest_size(100, 5_000, True), largest_size(100, 5_000, True, asked=60)
    (10, 21, 60)
    """
    ceiling = int(max(0, min(p, n - 1 - intercept)))
    if asked is not None:
        return min(int(asked), ceiling)
    return ceiling if ceiling == p or n < 3 else min(ceiling, int(n / np.log(n)))


def warn_of_light_weights(w: Array | None, stacklevel: int = 4) -> None:
    """Weights count as repetitions where n matters; a total below the number of rows is hardly meant that way."""
    if w is None:
        return
    rows, total = int(np.count_nonzero(w)), float(w.sum())
    if total < 0.999 * rows:
        warnings.warn(
            f"sample_weight sums to {total:.4g} over {rows} rows, and weights count as repetitions of a row here, so n "
            f"is taken as {total:.4g}; multiply the weights so that they sum to the number of rows",
            AssayWarning,
            stacklevel=stacklevel,
        )


def full_model_variance(moments: Moments, intercept: bool = True) -> float:
    """s2 = RSS_full / (n - rank - i), from moments `about_zero` without an intercept; NaN where no rows are left.

    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> round(full_model_variance(summarize(X, np.array([0.0, 1.0, 1.0, 2.0]))), 12)
    0.1
    """
    scale = np.sqrt(np.diag(moments.xx))
    scale[scale == 0] = 1.0
    values, vectors = np.linalg.eigh(moments.xx / scale / scale[:, None])
    kept = values > values[-1] * len(values) * np.finfo(float).eps * 16
    df = moments.weight - kept.sum() - intercept
    if df <= 0:
        return float("nan")
    score = (vectors[:, kept].T @ (moments.xy[:, 0] / scale)) ** 2 / values[kept]
    return float(max(moments.yy[0] - score.sum(), 0.0) / df)


def cv_errors(
    X: Array,
    y: Array,
    w: Array | None,
    cv: Any,
    fit: Fit,
    *,
    count: int,
    from_moments: bool,
    n_jobs: int | None = None,
) -> tuple[Array, Array]:
    """Mean squared error of left-out rows for each of `count` models of a family; its standard error over folds.

    `fit` does the whole search on a training set: it is given `Moments` when `from_moments`, else
    the tuple (X, y, w) of the training rows. A fold whose search ends early (fewer rows,
    lower rank) is scored by its largest model at the sizes it lacks.
    """
    splits = [(train, test) for train, test in folds(cv, X, y) if w is None or (w[test].any() and w[train].any())]
    if len(splits) < 2:
        raise DataError("fewer than two folds have rows of positive weight", remedy="use other folds or weights")
    trains: Sequence[Callable[[], Any]]
    trains = _training_sets(X, y, w, splits) if from_moments else [partial(_rows, X, y, w, t) for t, _ in splits]

    def score(item: tuple[Callable[[], Any], Array]) -> Array:
        train, test = item
        coef, intercept = fit(train())
        return _squared_errors(X[test], y[test], None if w is None else w[test], coef, intercept)[0]

    items = [(train, test) for train, (_, test) in zip(trains, splits, strict=True)]
    found = parallel(score, items, n_jobs=n_jobs)
    errors = np.array([_fill(e, count) for e in found])
    weights = np.array([len(test) if w is None else w[test].sum() for _, test in splits])
    return cv_mean_and_error(errors, weights)


def validation_errors(
    X: Array,
    y: Array,
    w: Array | None,
    fit: Fit,
    *,
    count: int,
    fraction: float,
    random_state: Any,
    from_moments: bool,
) -> tuple[Array, Array]:
    """Mean squared error of a held-out `fraction` of rows for `count` models fitted to the rest; its standard error."""
    n = len(y)
    rows = np.arange(n) if w is None else np.flatnonzero(w)
    held = int(np.ceil(fraction * rows.size))
    if held < 1 or held >= rows.size:
        raise DataError(
            f"holding out {fraction:g} of {rows.size} rows leaves no rows to fit or none to test",
            remedy="pass more rows or another validation_fraction",
        )
    order = check_random_state(random_state).permutation(rows)
    test, train = np.sort(order[:held]), np.sort(order[held:])
    if from_moments:
        coef, intercept = fit(summarize(X[train], y[train], None if w is None else w[train]))
    else:
        coef, intercept = fit(_rows(X, y, w, train))
    mean, error = _squared_errors(X[test], y[test], None if w is None else w[test], coef, intercept)
    return _fill(mean, count), _fill(error, count)


def _fill(values: Array, count: int) -> Array:
    """Exactly `count` values: the last one stands for those a shorter family lacks."""
    return values[np.minimum(np.arange(count), len(values) - 1)]


def _squared_errors(X: Array, y: Array, w: Array | None, coef: Array, intercept: Array) -> tuple[Array, Array]:
    """Weighted mean of the squared errors of each model, and the standard error of that mean over the rows."""
    residuals = y[:, None] - X @ coef.T - intercept
    # One wild residual may have a square but not a fourth power, so both are taken of shares of the largest.
    unit = np.abs(residuals).max(axis=0)
    squares = (residuals / np.where(unit > 0, unit, 1.0)) ** 2
    mean = np.average(squares, axis=0, weights=w)
    n = len(y) if w is None else w.sum()
    spread = np.average((squares - mean) ** 2, axis=0, weights=w)
    with np.errstate(over="ignore"):
        return mean * unit**2, np.sqrt(spread / max(n - 1, 1)) * unit**2


def _training_sets(
    X: Array, y: Array, w: Array | None, splits: list[tuple[Array, Array]]
) -> list[Callable[[], Moments]]:
    """The moments of each training set: merges of the other folds where the test sets part the rows."""
    if is_partition(splits, len(y)):
        pieces = [summarize(*_rows(X, y, w, test)) for _, test in splits]
        return [partial(_given, merged) for merged in all_but_one(pieces, merge)]
    return [partial(lambda t: summarize(*_rows(X, y, w, t)), train) for train, _ in splits]


def _given(moments: Moments) -> Moments:
    return moments


def _rows(X: Array, y: Array, w: Array | None, rows: Array) -> tuple[Array, Array, Array | None]:
    return X[rows], y[rows], None if w is None else w[rows]
