"""One class label per row: validation of every classifier's target.

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

from assay.checks import is_real, listed, probabilities
from assay.errors import DataError, DataTypeError, ParameterError

__all__ = ["class_codes", "class_factors", "class_labels", "class_priors"]

Array = np.ndarray
FEW = 1000
"""Classes that are whole numbers within this range are counted, in tables of more rows than that."""


def class_codes(y: Any, n: int, w: Array | None = None) -> tuple[Array, Array]:
    """The sorted classes and each row's place among them; two at least must have weight.

    >>> class_codes(["no", "yes", "no"], 3)
    (array(['no', 'yes'], dtype='<U3'), array([0, 1, 0]))
    """
    counts = _counted(y, n) if w is None or w.all() else None
    if counts is not None:
        return counts
    labels = class_labels(y, n)
    counted = labels if w is None else labels[w > 0]
    classes = np.unique(counted)
    if classes.size < 2:
        what = f"y has only one class, {classes.tolist()[0]!r}, in n_samples = {counted.size} rows"
        raise DataError(what, remedy="pass rows of at least two classes")
    # A row without weight may be of a class that no other row has; it counts for nothing, under any number.
    return classes, np.minimum(np.searchsorted(classes, labels), classes.size - 1)


def _counted(y: Any, n: int) -> tuple[Array, Array] | None:
    """The same for whole numbers that lie close together, which are counted instead of sorted; None for others."""
    if type(y) is not np.ndarray or y.shape != (n,) or y.dtype.kind not in "iu" or n <= FEW:
        return None
    low, high = int(y.min()), int(y.max())
    if high - low >= FEW:
        return None
    place = (y - y.dtype.type(low)).astype(np.int64)
    there = np.bincount(place) > 0
    if there.sum() < 2:
        return None
    classes = (np.flatnonzero(there) + low).astype(y.dtype)
    return classes, place if there.all() else (np.cumsum(there) - 1)[place]


def class_labels(y: Any, n: int) -> Array:
    """One class label per row, none of them missing."""
    if y is None:
        raise DataError("fit requires y to be passed, but the target y is None", remedy="pass the classes as y")
    if sparse.issparse(y):
        raise DataTypeError("y is sparse", remedy="pass y.toarray()")
    raw = np.asarray(y)
    if raw.dtype.kind in "Mm":
        raise DataTypeError("y contains dates or times", remedy="pass one class per row")
    if raw.ndim == 1 or (raw.ndim == 2 and raw.shape[1] == 1):
        _refuse_gaps(raw.ravel())
        # Nullable truth values would become numbers in column_or_1d.
        y = _plain(raw) if raw.dtype == object else raw
    try:
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        np.unique(labels)
    except (TypeError, ValueError) as error:
        what = " ".join(str(error).split()).split(". ")[0]
        raise DataError(f"y cannot be used: {what}", remedy="pass one class per row") from error
    if labels.size != n:
        what = f"Found input variables with inconsistent numbers of samples: X has {n} rows but y has {labels.size}"
        raise DataError(what, remedy="give X and y the same number of rows")
    return labels


def class_priors(priors: Any, classes: Array, name: str = "priors") -> Array:
    """Given prior probabilities, one per class in the order of the sorted classes; they add up to 1 within rounding.

    >>> class_priors([0.25, 0.75], np.array(["a", "b"])).tolist()
    [0.25, 0.75]
    """
    return probabilities(priors, name, (len(classes),), labels=classes.tolist(), tolerance=1e-5)


def class_factors(asked: Any, classes: Array, codes: Array, w: Array | None = None) -> Array:
    """What `class_weight` multiplies the weights of each class by; "balanced" gives every class the same total.

    >>> class_factors("balanced", np.array(["a", "b"]), np.array([0, 0, 0, 1])).round(3).tolist()
    [0.667, 2.0]
    >>> class_factors({"b": 3}, np.array(["a", "b"]), np.array([0, 0, 0, 1])).tolist()
    [1.0, 3.0]
    """
    if asked is None:
        return np.ones(classes.size)
    if isinstance(asked, str):
        held = np.bincount(codes, w, minlength=classes.size).astype(np.float64)
        return np.divide(held.sum(), classes.size * held, out=np.zeros(classes.size), where=held > 0)
    known = classes.tolist()
    for key, factor in asked.items():
        label = key.item() if isinstance(key, np.generic) else key
        if label not in known:
            what = f"class_weight names {label!r}, which is not a class of y"
            raise ParameterError(what, remedy=f"the classes are {listed(known)}")
        if not is_real(factor) or not 0 <= float(factor) < np.inf:
            what = f"class_weight of {label!r} is {factor!r}"
            raise ParameterError(what, remedy="give each class a finite weight of zero or more")
    factors = np.array([float(asked.get(label, 1.0)) for label in known])
    if np.count_nonzero(factors) < 2:
        raise ParameterError("class_weight leaves fewer than two classes", remedy="give two classes a positive weight")
    return factors


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
        first, other = (v.item() if isinstance(v, np.generic) else v for v in (values.flat[0], values.flat[row]))
        what = f"y mixes text and numbers: {first!r} in row 0, {other!r} in row {row}"
        raise DataTypeError(what, remedy="convert all classes to text")
    return np.array(values.tolist())
