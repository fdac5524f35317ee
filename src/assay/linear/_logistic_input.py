"""What every logistic regression of this package shares: validation of its rows, and predictions from its coefficients.

    eta = b0 + x'b + offset,    P(second class) = 1 / (1 + exp(-eta)),    P(k) = exp(eta_k) / sum_l exp(eta_l)

Labels become codes, class weights become weights of rows, offsets and penalty factors become clean numbers; whatever
is wrong with them is said in one sentence. Probabilities are worked out from logarithms, so that none vanishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin

from assay.base import Constraint, Estimator, array_like, boolean, instance_of, none, one_of
from assay.checks import penalty_factors
from assay.constraints import integer
from assay.errors import DataError, ParameterError
from assay.labels import class_codes, class_factors
from assay.state import Specs, classes, contrasts, floats

__all__ = ["SHARED", "LogisticModel", "LogisticTable", "labels_of", "log_probabilities", "row_factors"]

Array = np.ndarray

SHARED: dict[str, Constraint] = {
    "class_weight": none | one_of("balanced") | instance_of(dict, "a dict of class weights"),
    "penalty_factors": none | array_like,
    "fit_intercept": boolean,
}


@dataclass(frozen=True, eq=False)
class LogisticTable:
    """Validated input: codes of K classes, w None where every row counts the same, factors f (p,)."""

    X: Any
    codes: Array
    K: int
    w: Array | None
    offset: Array | None
    factors: Array
    fit_intercept: bool


class LogisticModel(ClassifierMixin, Estimator):
    """A linear part for each class, and what follows from it."""

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "coef_": floats(contrasts, "p"),
        "intercept_": floats(contrasts),
        "n_iter_": integer(0),
    }

    constraints: ClassVar[Mapping[str, Constraint]] = SHARED

    class_weight: Any
    penalty_factors: Any
    fit_intercept: bool
    classes_: Array
    coef_: Array
    intercept_: Array

    def _table(self, X: Any, y: Any, sample_weight: Any, offset: Any, order: str | None = None) -> LogisticTable:
        X = self._validate(X, sparse="csr", order=order)
        n, p = X.shape
        w = self._weights(sample_weight, n)
        self.classes_, codes = class_codes(y, n, w)
        K = self.classes_.size
        added = None if offset is None else _offsets(offset, n, K)
        if self.class_weight is not None:
            w = np.ones(n) if w is None else w
            w = w * row_factors(self.class_weight, self.classes_, codes, w)
        return LogisticTable(X, codes, K, w, added, penalty_factors(self.penalty_factors, p), bool(self.fit_intercept))

    @property
    def _cut(self) -> float:
        """The linear part above which the second of two classes is predicted."""
        return 0.0

    def _linear(self, X: Any, offset: Any) -> Array:
        """The linear part, (n, 1) for two classes and (n, K) for more."""
        X = self._validate(X, reset=False, sparse=("csr", "csc"))
        eta = np.asarray(X @ self.coef_.T) + self.intercept_
        return eta if offset is None else eta + _offsets(offset, X.shape[0], self.classes_.size).reshape(eta.shape)

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """The linear part: (n,) log odds of the second class, or (n, K) for more."""
        eta = self._linear(X, offset)
        return eta[:, 0] if eta.shape[1] == 1 else eta

    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
        """Logarithms of the class probabilities, exact where the probabilities themselves would vanish."""
        return log_probabilities(self._linear(X, offset))

    def predict_proba(self, X: Any, offset: Any = None) -> Array:
        """Class probabilities, one column per class in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X, offset))

    def predict(self, X: Any, offset: Any = None) -> Array:
        """The most probable class, the first in a tie; of two the second above `threshold`, where there is one."""
        return labels_of(self._linear(X, offset), self.classes_, self._cut)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def log_probabilities(eta: Array) -> Array:
    """Logarithms of the class probabilities along the last axis, which has one entry for two classes."""
    if eta.shape[-1] == 1:
        return np.concatenate([special.log_expit(-eta), special.log_expit(eta)], axis=-1)
    return special.log_softmax(eta, axis=-1)


def labels_of(eta: Array, classes: Array, cut: float = 0.0) -> Array:
    """The class of each row from its linear part, (n, 1) for two classes and (n, K) for more."""
    return classes[(eta[:, 0] > cut).astype(np.int64) if eta.shape[1] == 1 else np.argmax(eta, axis=1)]


def row_factors(class_weight: Any, classes: Array, codes: Array, w: Array) -> Array:
    """What the weight of each row is multiplied by for its class."""
    factors = class_factors(class_weight, classes, codes, w)
    if not factors.all():
        label = classes[int(np.argmin(factors))]
        raise ParameterError(f"class_weight of {label!s} is 0", remedy="pass a positive number, or drop its rows")
    return factors[codes]


def _offsets(offset: Any, n: int, K: int) -> Array:
    """Offsets as clean numbers: (n,) for two classes, (n, K) for more."""
    try:
        values = np.ascontiguousarray(offset, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("offset contains a non-numeric value", remedy="pass one number per row") from error
    wanted = (n,) if K == 2 else (n, K)
    if values.shape != wanted:
        what = f"offset.shape == {values.shape}, expected {wanted}"
        raise DataError(what, remedy="pass one number per row (and class)")
    finite = np.isfinite(values).reshape(n, -1).all(axis=1)
    if not finite.all():
        what = f"offset contains NaN or inf in row {int(np.argmin(finite))}"
        raise DataError(what, remedy="drop that row or give it a finite offset")
    return values
