"""The gate of the metrics room: labels, values, scores and probabilities, clean or refused in one sentence.

Rows are counted from 0. Labels may be text, numbers or booleans; they are encoded as positions in the sorted classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from assay.checks import SUM_TOLERANCE, refuse_improbable, sample
from assay.errors import DataError, DataTypeError, ParameterError

__all__ = [
    "binary_truth",
    "class_list",
    "encode",
    "encode_pair",
    "label_column",
    "matrix",
    "pair_of_columns",
    "positive_class",
    "probabilities",
    "same_rows",
    "score_matrix",
    "value_column",
]

Array = np.ndarray


def value_column(x: Any, name: str) -> Array:
    """One column of finite numbers."""
    values, _ = sample(x, name)
    if values.shape[1] != 1:
        raise DataError(f"{name} has {values.shape[1]} columns", remedy="pass one value per row")
    return np.ascontiguousarray(values[:, 0])


def matrix(x: Any, name: str) -> Array:
    """A table of finite numbers, rows contiguous; one column stays a table."""
    return np.ascontiguousarray(sample(x, name)[0])


def pair_of_columns(y_true: Any, y_pred: Any) -> tuple[Array, Array]:
    """Targets and predicted values of the same length."""
    truth, predicted = value_column(y_true, "y_true"), value_column(y_pred, "y_pred")
    same_rows(truth, predicted, "y_pred")
    return truth, predicted


def same_rows(truth: Array, other: Array, name: str, first: str = "y_true") -> None:
    """Both must have one entry per row."""
    if len(truth) != len(other):
        what = f"{first} has {len(truth)} rows but {name} has {len(other)}"
        raise DataError(what, remedy="pass one entry per row in both")


def label_column(y: Any, name: str) -> Array:
    """One column of labels: text, numbers or booleans; whole numbers only among floats."""
    if isinstance(y, pd.DataFrame):
        y = y.to_numpy()
    try:
        raw = np.asarray(y)
    except ValueError as error:
        raise DataError(f"{name} has rows of different lengths", remedy="pass one label per row") from error
    if raw.dtype.kind in "US" and isinstance(y, list | tuple) and not all(isinstance(v, str | bytes) for v in y):
        raise DataTypeError(f"{name} mixes text and other labels", remedy="convert all labels to text")
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.ndim != 1:
        shape = "one value" if raw.ndim == 0 else f"{raw.ndim} dimensions"
        raise DataError(f"{name} has {shape}", remedy="pass one label per row, in a list or an array")
    if raw.size == 0:
        raise DataError(f"{name} is empty", remedy="pass at least one row")
    if raw.dtype.kind == "f" and not np.array_equal(raw, np.round(raw)):
        row = int(np.argmax(~(raw == np.round(raw))))
        if np.isnan(raw[row]):
            raise DataError(f"{name} contains NaN in row {row}", remedy="drop or fill it first")
        what = f"{name} contains {raw[row]:g} in row {row}, which is a number and not a label"
        raise DataError(what, remedy="pass predicted labels, for instance scores >= 0.5")
    return raw


def encode(y: Array, name: str, classes: Array | None = None) -> tuple[Array, Array]:
    """Positions in `classes` and the classes; without them, the sorted distinct labels."""
    codes, found = pd.factorize(y)
    if codes.min() < 0:
        raise DataError(f"{name} has no label in row {int(np.argmin(codes))}", remedy="drop or fill it first")
    found = np.asarray(found)
    if classes is None:
        try:
            order = np.argsort(found, kind="stable")
        except TypeError as error:
            raise DataTypeError(f"{name} mixes labels that cannot be sorted", remedy="convert all to text") from error
        place = np.empty(order.size, dtype=np.intp)
        place[order] = np.arange(order.size)
        return place[codes], found[order]
    _refuse_mixture(found, classes, name, "labels")
    known = {label: position for position, label in enumerate(classes.tolist())}
    place = np.array([known.get(label, -1) for label in found.tolist()], dtype=np.intp)
    if place.min() < 0:
        strange = int(np.argmin(place))
        row = int(np.argmax(codes == strange))
        what = (
            f"{name} contains {found.tolist()[strange]!r} in row {row}, which is not one of the {len(classes)} classes"
        )
        raise DataError(what, remedy="correct that label, or name all classes in labels=")
    return place[codes], classes


def _is_text(values: Array) -> bool:
    return values.dtype.kind in "US" or (values.dtype.kind == "O" and any(isinstance(v, str) for v in values.flat))


def _refuse_mixture(a: Array, b: Array, a_name: str, b_name: str) -> None:
    if a.size and b.size and _is_text(a) != _is_text(b):
        kinds = ("text", "numbers") if _is_text(a) else ("numbers", "text")
        what = f"{a_name} contains {kinds[0]} but {b_name} contains {kinds[1]}"
        raise DataTypeError(what, remedy="use the same kind of label in both")


def encode_pair(y_true: Any, y_pred: Any, labels: Any = None) -> tuple[Array, Array, Array]:
    """True and predicted positions, and the classes: `labels` in the order given, else all labels seen, sorted."""
    truth, predicted = label_column(y_true, "y_true"), label_column(y_pred, "y_pred")
    same_rows(truth, predicted, "y_pred")
    if labels is not None:
        classes = class_list(labels)
        return encode(truth, "y_true", classes)[0], encode(predicted, "y_pred", classes)[0], classes
    _, a = pd.factorize(truth)
    _, b = pd.factorize(predicted)
    _refuse_mixture(np.asarray(a), np.asarray(b), "y_true", "y_pred")
    for column, name in ((truth, "y_true"), (predicted, "y_pred")):
        gap = pd.isna(column)
        if gap.any():
            raise DataError(f"{name} has no label in row {int(np.argmax(gap))}", remedy="drop or fill it first")
    codes, classes = encode(np.concatenate([truth, predicted]), "y_true or y_pred")
    return codes[: truth.size], codes[truth.size :], classes


def class_list(labels: Any) -> Array:
    """The classes as a column without repetitions, in the order given."""
    classes = label_column(labels, "labels")
    if len(set(classes.tolist())) != classes.size:
        raise ParameterError("labels contains a class twice", remedy="name each class once")
    return classes


def positive_class(classes: Array, pos_label: Any = None) -> Any:
    """Which of at most two classes is the positive one: `pos_label`, else the greater."""
    known = classes.tolist()
    if len(known) > 2:
        what = f"there are {len(known)} classes, but this needs two"
        raise DataError(what, remedy="average over classes (average='macro'), or make one class against the rest")
    if pos_label is not None:
        if len(known) == 2 and pos_label not in known:
            raise DataError(f"pos_label = {pos_label!r} is not one of {known}", remedy="pass one of the two classes")
        return pos_label
    if len(known) == 2:
        return known[1]
    if isinstance(known[0], bool) or (not isinstance(known[0], str) and known[0] in (-1, 0, 1)):
        return type(known[0])(1)
    what = f"only the class {known[0]!r} occurs, so the positive class is ambiguous"
    raise DataError(what, remedy="pass pos_label=")


def binary_truth(y_true: Any, pos_label: Any = None, *, both: bool = True) -> Array:
    """Which rows are positive; with `both`, there must be positive and negative rows."""
    truth = label_column(y_true, "y_true")
    positive: Array | None = None
    if truth.dtype.kind in "biuf" and pos_label is None:
        low, high = truth.min(), truth.max()
        if low != high and not np.isnan(high):
            # Two passes instead of a table of distinct values: a million labels cost a millisecond.
            positive = truth == high
            if not np.all(positive | (truth == low)):
                positive = None
    if positive is None:
        codes, classes = encode(truth, "y_true")
        chosen = positive_class(classes, pos_label)
        known = classes.tolist()
        positive = codes == known.index(chosen) if chosen in known else np.zeros(codes.size, dtype=bool)
    if both and (positive.all() or not positive.any()):
        missing = "negative" if positive.all() else "positive"
        raise DataError(f"no row of y_true is {missing}", remedy="this metric compares two classes; pass rows of both")
    return positive


def score_matrix(
    y_true: Any, y_score: Any, labels: Any = None, pos_label: Any = None
) -> tuple[Array, Array, Array | None]:
    """(codes, scores, classes): a column of scores of the positive class, or one column of scores per class.

    For a column, codes are 0 and 1 and the classes None; a table of two columns keeps the second.
    """
    scores, _ = sample(y_score, "y_pred")
    if scores.shape[1] <= 2:
        positive = pos_label
        if labels is not None and pos_label is None:
            classes = class_list(labels)
            if classes.size != 2:
                raise ParameterError(
                    f"labels has {classes.size} classes, but y_pred has scores for 2", remedy="pass two"
                )
            encode(label_column(y_true, "y_true"), "y_true", classes)
            positive = classes.tolist()[1]
        column = np.ascontiguousarray(scores[:, -1])
        same_rows(label_column(y_true, "y_true"), column, "y_pred")
        return binary_truth(y_true, positive, both=False).astype(np.intp), column, None
    truth = label_column(y_true, "y_true")
    same_rows(truth, scores, "y_pred")
    if labels is not None:
        codes, classes = encode(truth, "y_true", class_list(labels))
    else:
        codes, classes = encode(truth, "y_true")
    if classes.size != scores.shape[1]:
        what = f"y_pred has {scores.shape[1]} columns but there are {classes.size} classes"
        raise DataError(what, remedy="name the classes of the columns, in their order, in labels=")
    return codes, np.ascontiguousarray(scores), classes


def probabilities(
    y_true: Any, y_proba: Any, labels: Any = None, pos_label: Any = None
) -> tuple[Array, Array, Array | None]:
    """(codes, table, classes) as in `score_matrix`, with one column per class always: rows are probabilities."""
    raw, _ = sample(y_proba, "y_pred")
    tolerance = SUM_TOLERANCE if raw.shape[1] > 1 else None
    remedy = "pass probabilities in [0, 1], for instance from predict_proba"
    refuse_improbable(raw, "y_pred", tolerance=tolerance, remedy=remedy)
    codes, table, classes = score_matrix(y_true, raw, labels, pos_label)
    if classes is None:
        table = np.column_stack([1 - table, table]) if raw.shape[1] == 1 else np.ascontiguousarray(raw)
    return codes, table, classes
