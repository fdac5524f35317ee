"""Least-squares classification: regress the indicator of every class on the columns, and take the largest fit.

    y_ik = 1 if row i is of class k, else 0
    minimise  sum_i w_i sum_k (y_ik - b0_k - x_i'b_k)^2 + alpha sum_k |b_k|^2
    class of x = argmax_k  f_k(x),    f_k(x) = b0_k + x'b_k

With an intercept the fits sum to one, but they are no probabilities: they leave [0, 1]. *Masking*: where three or more
classes lie in a row, the fit of a middle class stays nearly flat and is nowhere the largest, so that the class is never
predicted, however clearly it is separated (`docs/examples/masking.py` draws it). Linear discriminant analysis uses the
same linear boundaries and has no such blind spot; for two classes of equal size both are the same rule.

Cost: one QR factorisation of the rows [1, x, y] (`assay.numerics.triangle`), 2 n (p + K)^2 flops.
Hastie, Tibshirani and Friedman, Elements of Statistical Learning, section 4.2.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin

from assay.base import Constraint, Estimator, boolean, instance_of, none, one_of, real
from assay.constraints import integer
from assay.errors import CollinearityWarning, DataError, ParameterError
from assay.labels import class_codes
from assay.linear._model import undetermined
from assay.numerics.triangle import Solution, Triangle, merge, solve, summarize
from assay.state import Specs, classes, contrasts, floats

__all__ = ["LeastSquaresClassifier"]

Array = np.ndarray


class LeastSquaresClassifier(ClassifierMixin, Estimator):
    """Classification by linear regression on the indicators of the classes.

        minimise  sum_i w_i sum_k (y_ik - b0_k - x_i'b_k)^2 + alpha sum_k |b_k|^2,    predict argmax_k b0_k + x'b_k

    | parameter     | default | range                  | meaning                                          |
    |---------------|---------|------------------------|--------------------------------------------------|
    | alpha         | 0.0     | >= 0                   | ridge penalty on the slopes, never the intercept |
    | fit_intercept | True    | True, False            | whether b0 is estimated or 0                     |
    | class_weight  | None    | None, "balanced", dict | factors on the weights of the rows of each class |

    Fitted: `classes_`, `coef_` (K, p) and `intercept_` (K,), `rank_` (of the centred X); for two classes `coef_` (1, p)
    and `intercept_` (1,) are those of f_1 - f_0. Weights are repetitions. Sparse X is read in dense blocks of rows.

    There is no `predict_proba`: the fits estimate class probabilities but may be negative or above one, and nothing
    honest can be done about that afterwards. Three or more classes may *mask* each other: a class that lies between
    others can be predicted nowhere at all. Use `LinearDiscriminantAnalysis` or `LogisticRegression` there.

    Reference: Hastie, Tibshirani and Friedman, Elements of Statistical Learning, section 4.2.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 1, 2, 2]
    >>> model = LeastSquaresClassifier().fit(X, y)
    >>> model.predict(X).tolist()  # class 1 lies between the others and is masked
    [0, 0, 0, 2, 2, 2]
    >>> model.decision_function([[2.0]]).round(3).tolist()
    [[0.448, 0.333, 0.219]]
    """

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "coef_": floats(contrasts, "p"),
        "intercept_": floats(contrasts),
        "rank_": integer(0),
    }

    constraints: ClassVar[dict[str, Constraint]] = {
        "alpha": real(0),
        "fit_intercept": boolean,
        "class_weight": none | one_of("balanced") | instance_of(dict, "a dict of class weights"),
    }

    def __init__(self, *, alpha: float = 0.0, fit_intercept: bool = True, class_weight: Any = None) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, p), dense or sparse, and classes y."""
        X = self._validate(X, sparse=("csr",))
        n, p = X.shape
        w = self._weights(sample_weight, n)
        self.classes_, codes = class_codes(y, n, w)
        K = len(self.classes_)
        if self.class_weight is not None:
            given = np.ones(n) if w is None else w
            w = given * self._class_factors(codes, given)[codes]
        indicators = np.zeros((n, K))
        indicators[np.arange(n), codes] = 1.0
        triangle = summarize(X, indicators, w, intercept=bool(self.fit_intercept))
        if self.alpha > 0:
            triangle = merge(triangle, _penalty(float(self.alpha), p, K, bool(self.fit_intercept)))
        solution = solve(triangle)
        self._keep(solution)
        self._warn(solution, triangle.n)
        return self

    def decision_function(self, X: Any) -> Array:
        """The fitted values (n, K); for two classes the difference f_1 - f_0, (n,)."""
        X = self._validate(X, reset=False, sparse=("csr", "csc"))
        with np.errstate(over="ignore", invalid="ignore"):
            fits = np.asarray(X @ self.coef_.T) + self.intercept_
        return fits.ravel() if len(self.classes_) == 2 else fits

    def predict(self, X: Any) -> Array:
        """The class with the largest fitted value; ties go to the first."""
        fits = self.decision_function(X)
        return self.classes_[(fits > 0).astype(int) if fits.ndim == 1 else np.argmax(fits, axis=1)]

    def _class_factors(self, codes: Array, w: Array) -> Array:
        """What the weights of each class are multiplied by."""
        K = len(self.classes_)
        if isinstance(self.class_weight, str):
            return w.sum() / (K * np.bincount(codes, weights=w, minlength=K))
        factors = np.ones(K)
        for label, value in self.class_weight.items():
            at = np.flatnonzero(self.classes_ == label)
            if not at.size:
                what = f"class_weight names the class {label!r}, which does not occur in y"
                raise ParameterError(what, remedy=f"the classes are {self.classes_.tolist()}")
            if not real(0, open_low=True).accepts(value):
                raise ParameterError(f"class_weight of {label!r} is {value!r}", remedy="pass a positive number")
            factors[at] = float(value)
        return factors

    def _keep(self, solution: Solution) -> None:
        bad = ~np.isfinite(solution.coef).all(axis=1)
        if bad.any():
            name = self._feature_names()[int(np.argmax(bad))]
            what = f"the coefficient of column {name!r} overflows because its values are too small"
            raise DataError(what, remedy="rescale the column")
        coef, intercept = solution.coef.T, solution.intercept
        if len(self.classes_) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_, self.intercept_ = np.ascontiguousarray(coef), np.array(intercept)
        self.rank_ = solution.rank

    def _warn(self, solution: Solution, n: int) -> None:
        what = undetermined(self, solution, n, "others")
        if what is not None:
            remedy = "the minimum-norm coefficients are returned: drop columns, or set alpha above 0"
            warnings.warn(f"{what}; {remedy}", CollinearityWarning, stacklevel=3)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _penalty(alpha: float, p: int, K: int, intercept: bool) -> Triangle:
    """The ridge penalty as p more rows sqrt(alpha) [0, e_j, 0], which leave the intercept alone."""
    factor = np.hstack([np.zeros((p, int(intercept))), np.sqrt(alpha) * np.eye(p), np.zeros((p, K))])
    return Triangle(factor, 0, 0.0, 0.0, K, intercept)
