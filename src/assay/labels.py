"""One class label per row: the gate of every classifier's target.

Behind it labels are a clean vector of text, numbers or truth values, none of them missing; a fit counts classes from
zero in sorted order, as scikit-learn does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from assay.errors import DataError, DataTypeError

__all__ = ["class_codes", "class_labels"]

Array = np.ndarray


def class_codes(y: Any, n: int, w: Array | None = None) -> tuple[Array, Array]:
    """The sorted classes and each row's place among them; two at least must have weight.

    >>> class_codes(["no", "yes", "no"], 3)
    (array(['no', 'yes'], dtype='<U3'), array([0, 1, 0]))
    """
    labels = class_labels(y, n)
    counted = labels if w is None else labels[w > 0]
    classes = np.unique(counted)
    if classes.size < 2:
        what = f"y holds one class only, {classes.tolist()[0]!r}, in n_samples = {counted.size} rows"
        raise DataError(what, remedy="pass rows of at least two classes")
    # A row without weight may be of a class that no other row has; it counts for nothing, under any number.
    return classes, np.minimum(np.searchsorted(classes, labels), classes.size - 1)


def class_labels(y: Any, n: int) -> Array:
    """One class label per row, none of them missing."""
    if y is None:
        raise DataError("fit requires y to be passed, but the target y is None", remedy="pass the classes as y")
    if sparse.issparse(y):
        raise DataTypeError("y is sparse", remedy="pass y.toarray()")
    raw = np.asarray(y)
    if raw.dtype.kind in "Mm":
        raise DataTypeError("y holds dates or times", remedy="give one class per row")
    if raw.ndim == 1 or (raw.ndim == 2 and raw.shape[1] == 1):
        _refuse_gaps(raw.ravel())
        if raw.dtype == object:
            y = _plain(raw)
    try:
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        np.unique(labels)
    except (TypeError, ValueError) as error:
        what = " ".join(str(error).split()).split(". ")[0]
        raise DataError(f"y cannot be used: {what}", remedy="give one class per row") from error
    if labels.size != n:
        what = f"Found input variables with inconsistent numbers of samples: X has {n} rows but y has {labels.size}"
        raise DataError(what, remedy="give X and y the same number of rows")
    return labels


def _refuse_gaps(values: Array) -> None:
    """A missing or infinite label, by row."""
    gap = np.asarray(pd.isna(values))
    endless = np.array([isinstance(v, float) and np.isinf(v) for v in values]) if values.dtype == object else gap
    if values.dtype.kind == "f":
        endless = np.isinf(values)
    if gap.any() or endless.any():
        row = int(np.argmax(gap | endless))
        word = "NaN" if gap[row] else "inf"
        raise DataError(f"y contains {word} in row {row}", remedy="drop the rows without a class")


def _plain(values: Array) -> Array:
    """Objects as text or numbers, whichever they all are."""
    text = np.array([isinstance(value, str) for value in values.flat]).reshape(values.shape)
    if text.any() and not text.all():
        row = int(np.argmax(text.ravel() != text.flat[0]))
        what = f"y mixes text and numbers: {values.flat[0]!r} in row 0, {values.flat[row]!r} in row {row}"
        raise DataTypeError(what, remedy="convert all classes to text")
    return np.array(values.tolist())
