"""The root of estimators around other estimators: a validated table and target, and the tags of what is inside."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from assay.callbacks import SupportsCallbacks
from assay.errors import DataError
from assay.evaluation.learner import Rows, rows_of
from assay.state import Stateful, need

__all__ = ["Wrapper", "check_inside"]

Array = np.ndarray


def check_inside(model: Any, classes: Array | None) -> None:
    """Raise `StateError` unless a model inside another one is fitted and speaks of the same classes (None: numbers)."""
    fitted = hasattr(model, "predict") and getattr(model, "__sklearn_is_fitted__", lambda: True)()
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        fitted = False
    need(fitted, "a model inside it is not fitted")
    own = getattr(model, "classes_", None)
    if classes is None:
        need(own is None, "it mixes classifiers and regressors")
    else:
        known = isinstance(own, np.ndarray) and own.dtype.kind == classes.dtype.kind and np.isin(own, classes).all()
        need(hasattr(model, "predict_proba") and known, "a model inside it has other classes or no probabilities")


class Wrapper(SupportsCallbacks, MetaEstimatorMixin, Stateful, BaseEstimator):
    """An estimator around others: it is what they are (classifier or regressor, sparse input, missing values)."""

    def _inner(self) -> Any:
        """The estimator that decides what this one takes."""
        raise NotImplementedError

    def _validated(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Rows:
        """Table and target, refusing what an estimator refuses but a validation has no reason to."""
        if y is None:
            message = f"{type(self).__name__} requires y to be passed, but the target y is None"
            raise DataError(message, remedy="pass the target as y")
        if not hasattr(X, "shape") and hasattr(X, "__array__"):
            X = np.asarray(X)
        if not hasattr(y, "shape"):
            y = np.asarray(y)
        if np.iscomplexobj(y):
            raise DataError("Complex data not supported: y contains complex numbers", remedy="pass a real target")
        if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        rows = rows_of(self._inner(), X, y, sample_weight, groups)
        if rows.n < 2:
            raise DataError("one row cannot be split into folds, and n_samples = 1", remedy="pass more rows")
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = deepcopy(get_tags(self._inner()))
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "input_tags", "target_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.non_deterministic = inner.non_deterministic
        tags.target_tags.multi_output = False  # one target at a time
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        tags.target_tags.required = True
        return tags
