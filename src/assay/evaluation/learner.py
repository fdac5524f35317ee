"""What evaluation knows of a learner: it can be cloned, fitted to some rows and asked for predictions.

Nothing here looks inside an estimator, so scikit-learn's, LightGBM's and the user's own run as well as ours. The
learner passed in is cloned and never changed; X is handed on as it came (arrays, sparse matrices, frames with text and
gaps), since only the learner knows what it can take.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from assay.base import groups_name, weight_name
from assay.checks import row_weights, with_shape
from assay.errors import AssayError, DataError, DataTypeError, LearnerError, ParameterError
from assay.interrupts import end_with_parent
from assay.metrics.definition import Metric, find
from assay.metrics.scorer import class_options, respond
from assay.numerics.threads import one_blas_thread, one_openmp_thread
from assay.progress import track
from assay.resampling import take

__all__ = [
    "Rows",
    "any_prediction",
    "blame",
    "choose_metric",
    "fit_fold",
    "fit_rows",
    "fold_predictions",
    "label_of",
    "needs_of",
    "out_of_bag",
    "predictions",
    "refuse_unfitted",
    "rows_of",
    "run",
    "score",
    "undefined",
]

Array = np.ndarray
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, eq=False)
class Rows:
    """A validated table with its target and weights; `classes` are the sorted labels, None for a numeric target."""

    X: Any
    y: Array
    weights: Array | None
    classes: Array | None
    groups: Array | None = None

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.y.shape[0])


def rows_of(estimator: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Rows:
    """The validated data: one target, weight and group per row, none of them missing."""
    if not hasattr(estimator, "fit") or not hasattr(estimator, "predict") or isinstance(estimator, type):
        got = "a class" if isinstance(estimator, type) else label_of(estimator)
        message = f"expected an estimator with fit and predict, got {got}"
        raise DataTypeError(message, remedy="pass an instance, such as assay.linear.Ridge()")
    X = with_shape(X)
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    n, target = int(X.shape[0]), _plain(y, "y")
    if target.shape[0] != n:
        raise DataError(f"X has {n} rows but y has {target.shape[0]}", remedy="pass one target per row")
    if target.ndim > 1 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim > 1:
        raise DataError(f"y has {target.shape[1]} columns", remedy="evaluate one target at a time")
    if n == 0:
        raise DataError("the table has no rows", remedy="pass at least two rows")
    weights = row_weights(sample_weight, n)
    if weights is not None and weight_name(estimator) is None:
        raise ParameterError(f"{label_of(estimator)} does not support sample_weight", remedy="leave sample_weight out")
    if groups is not None:
        groups = _plain(groups, "groups", dates=True)
        if groups.shape != (n,):
            raise DataError(f"groups has shape {groups.shape} for {n} rows", remedy="pass one group per row")
    if not _classifies(estimator, target):
        try:
            return Rows(X, target.astype(float), weights, None, groups)
        except (TypeError, ValueError) as error:
            message = f"y contains text such as {str(target[0])!r}, but {label_of(estimator)} predicts numbers"
            raise DataTypeError(message, remedy="pass a classifier, or a numeric target") from error
    try:
        return Rows(X, target, weights, np.unique(target), groups)
    except TypeError as error:
        raise DataTypeError("y mixes types of labels", remedy="use only numbers, or only text") from error


def _plain(values: Any, name: str, *, dates: bool = False) -> Array:
    """A target or group column as an array in which nothing is missing; groups may be dates."""
    if sparse.issparse(values):
        raise DataTypeError(f"{name} is sparse", remedy=f"pass {name}.toarray()")
    array = np.asarray(values)
    if array.ndim == 0:
        raise DataError(f"{name} is a single value", remedy="pass one value per row")
    if array.shape[0] == 0:
        return array
    missing = np.asarray(pd.isna(array)).reshape(array.shape[0], -1).any(axis=1)
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(f"{name} is missing in row {row}", remedy="drop that row, or fill it in")
    if array.dtype.kind in "mM" and not dates:
        raise DataTypeError(
            f"{name} contains dates or times", remedy="convert it to numbers, such as days since a fixed date"
        )
    if array.dtype.kind == "c":
        raise DataTypeError(f"{name} contains complex numbers", remedy="pass real and imaginary parts separately")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argmax(~np.isfinite(array).reshape(array.shape[0], -1).all(axis=1)))
        raise DataError(f"{name} is infinite in row {row}", remedy="correct that row, or drop it")
    if array.dtype.kind == "O" and len({type(value) for value in array.flat}) == 1:
        array = np.array(array.tolist())  # text and numbers in their own type sort and compare faster
    return array


def _classifies(estimator: Any, y: Array) -> bool:
    if hasattr(estimator, "__sklearn_tags__"):
        if is_classifier(estimator):
            return True
        if is_regressor(estimator):
            return False
    # Untagged learners: probabilities or text can only mean classes.
    return hasattr(estimator, "predict_proba") or y.dtype.kind not in "biuf"


def label_of(estimator: Any) -> str:
    """What to call a learner in a table: its class, or the last step of a pipeline and those before it."""
    if isinstance(estimator, type):
        return estimator.__name__
    steps = getattr(estimator, "steps", None)
    if steps:
        return " + ".join(label_of(step) for _, step in steps if step is not None and step != "passthrough")
    return type(estimator).__name__


def refuse_unfitted(model: Any) -> None:
    """Raise scikit-learn's error if a model of its kind is not fitted; others are taken at their word."""
    if hasattr(model, "__sklearn_tags__"):
        check_is_fitted(model)


def choose_metric(metric: Any, rows: Rows) -> Metric:
    """The metric asked for by name or given; by default the error rate for classes, mean squared error for numbers."""
    chosen = find(metric) if metric is not None else find("mse" if rows.classes is None else "error")
    if chosen.first == "X":
        raise ParameterError(f"{chosen.name} is a clustering metric", remedy="choose a metric for predictions")
    average = inspect.signature(chosen).parameters.get("average")
    several = rows.classes is not None and rows.classes.size > 2
    if several and average is not None and chosen.options.get("average", average.default) == "binary":
        remedy = f'choose how to average over classes: assay.metrics.{chosen.name}.bind(average="macro")'
        raise ParameterError(f"{chosen.name} is for two classes, but there are more", remedy=remedy)
    if rows.classes is None and chosen.needs in ("probabilities", "scores"):
        raise ParameterError(f"{chosen.name} needs classes", remedy="choose a metric for numbers, such as 'mse'")
    if rows.classes is not None and chosen.needs == "values" and rows.y.dtype.kind not in "biuf":
        raise ParameterError(f"{chosen.name} needs numbers", remedy="choose a metric for classes, such as 'error'")
    return chosen


def fit_rows(estimator: Any, rows: Rows, chosen: Array | None = None) -> Any:
    """A fresh clone of the learner, fitted to the chosen rows (all of them by default)."""
    model = clone(estimator, safe=False)
    X, y, more = rows.X, rows.y, _extras(estimator, rows)
    if chosen is not None:
        X, y, more = take(X, chosen), y[chosen], {name: values[chosen] for name, values in more.items()}
    model.fit(X, y, **more)
    return model


def needs_of(metrics: Sequence[Metric]) -> dict[str, Metric]:
    """What the metrics need of a model, the first metric's need first, each with the first metric that has it."""
    return {metric.needs: metric for metric in [*metrics, *reversed(metrics)]}


def fit_fold(
    estimator: Any,
    rows: Rows,
    train: Array,
    test: Array,
    needs: Mapping[str, Metric],
    *,
    label: str,
    where: str,
    spared: bool = False,
) -> tuple[dict[str, Array], Any]:
    """Fit the training rows and predict the test rows: what each metric needs, by what it is; and the fitted model.

    What goes wrong names the learner and the fold. With `spared`, probabilities may be absent where the first metric
    does not need them.
    """
    first = next(iter(needs))
    try:
        model = fit_rows(estimator, rows, train)
        X = take(rows.X, test)
        predicted = {
            need: predictions(model, X, metric, rows.classes)
            for need, metric in needs.items()
            if not (spared and need == "probabilities" != first and not hasattr(model, "predict_proba"))
        }
    except Exception as error:
        raise blame(error, label, where) from error
    for need, values in predicted.items():
        _refuse_unusable(values, label, need, where, test)
    return predicted, model


def _refuse_unusable(values: Array, label: str, need: str, where: str, test: Array) -> None:
    """Refuse predictions of another number of rows, or that are not finite."""
    if values.ndim == 0:
        what = f"{label} gave {values.item()!r} instead of {need} in {where}"
        raise DataTypeError(what, remedy="let it return one prediction per row")
    if values.shape[0] != len(test):
        raise DataError(
            f"{label} gave {values.shape[0]} {need} for the {len(test)} rows of {where}", remedy="correct it"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = int(np.argmax(~np.isfinite(values).reshape(len(test), -1).all(axis=1)))
        message = f"{label} predicted {values.reshape(len(test), -1)[bad].tolist()} for row {int(test[bad])} in {where}"
        raise DataError(message, remedy="check that row, or the learner")


def _extras(estimator: Any, rows: Rows) -> dict[str, Array]:
    """What else `fit` gets: weights, and groups where the learner splits rows itself (a tuned one)."""
    name = None if rows.weights is None else weight_name(estimator)
    more = {} if name is None or rows.weights is None else {name: rows.weights}
    together = None if rows.groups is None else groups_name(estimator)
    if together is not None and rows.groups is not None:
        more[together] = rows.groups
    return more


def predictions(model: Any, X: Any, metric: Metric, classes: Array | None) -> Array:
    """What the metric needs of a fitted model; columns of probabilities follow `classes`, also those it never saw."""
    found = np.asarray(respond(model, X, metric))
    own = getattr(model, "classes_", None)
    if classes is None or own is None or metric.needs in ("labels", "values"):
        return found
    own = np.asarray(own)
    if own.shape == classes.shape and (own == classes).all():
        return found[:, 1] if found.ndim == 2 and classes.size == 2 else found
    if metric.needs == "scores" and (found.ndim == 1 or not _is_probability(found)):
        if not hasattr(model, "predict_proba"):
            missing = sorted(set(classes.tolist()) - set(own.tolist()))
            message = f"class {missing[0]!r} does not occur in the training rows of a fold"
            raise DataError(
                f"{message}, so {metric.name} has no score for it",
                remedy="use fewer folds, or merge or drop that class",
            )
        found = np.asarray(model.predict_proba(X))
    aligned = np.zeros((found.shape[0], classes.size))
    aligned[:, np.searchsorted(classes, own)] = found
    return aligned[:, 1] if classes.size == 2 else aligned


def fold_predictions(estimator: Any, rows: Rows, splits: Any, need: str) -> list[Array] | None:
    """Predictions for the test rows of all splits without a fit per split, from an estimator that can and will.

    A classifier is asked for labels or for probabilities by `method`; its margins only a fitted model gives.
    """
    if not hasattr(estimator, "predict_folds") or need == "scores":
        return None
    options: dict[str, Any] = {"sample_weight": rows.weights}
    if rows.classes is not None:
        options["method"] = "predict" if need == "labels" else "predict_proba"
    found = clone(estimator).predict_folds(rows.X, rows.y, splits, **options)
    if found is None:
        return None
    parts = [np.asarray(part) for part in found]
    two = need == "probabilities" and rows.classes is not None and rows.classes.size == 2
    return [part[:, 1] for part in parts] if two else parts


def out_of_bag(model: Any, metric: Metric, classes: Array | None) -> Array:
    """What the metric needs, for every training row from the parts of an ensemble that have not seen it."""
    while hasattr(model, "steps"):
        model = model.steps[-1][1]
    found = getattr(model, "oob_prediction_" if classes is None else "oob_decision_function_", None)
    if found is None:
        message = f"{type(model).__name__} has no out-of-bag predictions"
        raise DataError(message, remedy="set bootstrap=True and oob_score=True if it has them, or use folds")
    found = np.asarray(found)
    missing = np.isnan(found).reshape(len(found), -1).any(axis=1)
    if missing.any():
        message = (
            f"row {int(np.argmax(missing))} is in the sample of every member of the ensemble, so it is never out of bag"
        )
        raise DataError(message, remedy="raise n_estimators")
    if classes is None:
        return found
    if metric.needs == "labels":
        return np.asarray(model.classes_)[np.argmax(found, axis=1)]
    return found[:, 1] if classes.size == 2 else found


def held_out(model: Any, metric: Metric, classes: Array | None) -> tuple[Array, Array]:
    """The rows that a learner has held out for itself, and what the metric needs of its predictions for them."""
    while hasattr(model, "steps"):
        model = model.steps[-1][1]
    if not hasattr(model, "held_out_prediction_"):
        message = f"{type(model).__name__} has no predictions of rows that it held out"
        raise DataError(message, remedy="switch its early stopping on if it has one, or use folds")
    rows, found = np.asarray(model.held_out_rows_), np.asarray(model.held_out_prediction_)
    if classes is None:
        return rows, found
    if metric.needs == "labels":
        return rows, np.asarray(model.classes_)[np.argmax(found, axis=1)]
    return rows, found[:, 1] if classes.size == 2 else found


def _is_probability(found: Array) -> bool:
    return bool((found >= 0).all() and np.allclose(found.sum(axis=1), 1.0))


def score(metric: Metric, y: Array, predicted: Array, rows: Rows, weights: Array | None) -> float:
    """The metric of some predictions; an error in it names the metric."""
    options = class_options(metric, rows.classes)
    if weights is not None:
        options["sample_weight"] = weights
    return float(metric(y, predicted, **options))


def undefined(metric: Metric, y: Array, rows: Rows) -> DataError | None:
    """Why a metric has no value on these targets, whatever is predicted (AUC of one class); None where it has one."""
    if metric.losses is not None:
        return None
    try:
        score(metric, y, any_prediction(metric, y, rows), rows, None)
    except DataError as error:
        return error
    return None


def any_prediction(metric: Metric, y: Array, rows: Rows) -> Array:
    """Predictions of the kind that the metric needs, to see whether it has a value."""
    if metric.needs == "labels":
        return y
    if metric.needs == "values":
        return np.full(y.size, y.mean())
    count = 2 if rows.classes is None else rows.classes.size
    return np.full(y.size if count == 2 else (y.size, count), 1 / count)


def run(
    task: Callable[[Item], Outcome],
    items: Iterable[Item],
    *,
    label: str,
    n_jobs: int | None = None,
) -> Iterator[Outcome]:
    """`task` of every item, in order, over joblib's workers (any backend) with progress; a task may be interrupted.

    BLAS and OpenMP run on one thread inside a task whatever `n_jobs` is, so that the figures never depend on it; give
    `n_jobs` to use more cores.
    """
    work = list(items)
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise ParameterError(f"n_jobs = {n_jobs!r} is out of range", remedy="pass None or a non-zero whole number")
    if n_jobs is not None:
        n_jobs = min(n_jobs, max(1, len(work)))  # joblib starts as many processes as it is told to, also for few tasks
    calls = [delayed(_guarded)(task, item) for item in work]
    try:
        outcomes = Parallel(n_jobs=n_jobs, return_as="generator")(calls)
    except ValueError as error:
        if "return_as" not in str(error):
            raise
        outcomes = Parallel(n_jobs=n_jobs)(calls)  # a backend that gives all answers at the end, or none
    return track(outcomes, label, len(work))


def _guarded(task: Callable[[Item], Outcome], item: Item) -> Outcome:
    end_with_parent()
    with one_blas_thread(), one_openmp_thread():
        return task(item)


def blame(error: Exception, name: str, where: str) -> AssayError:
    """The same error with the learner and the place in front: one sentence whoever raised it."""
    if isinstance(error, AssayError):
        return type(error)(f"{name} in {where}: {error.what}", remedy=error.remedy)
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason given").rstrip(".")
    return LearnerError(f"{name} failed in {where} ({type(error).__name__}: {first})", remedy="see the error above")
