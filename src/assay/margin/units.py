"""Single units and their learning rules, as the textbooks write them (row B2).

    linear unit    o = w'x + b                     delta rule  w <- w + eta (t - o) x
    sigmoid unit   o = 1 / (1 + exp(-(w'x + b)))               w <- w + eta (t - o) o (1 - o) x

Both go down the squared error E = 1/2 sum (t - o)^2 from zero, on the columns as they are and with a constant step: all
rows at once (the sum, or their mean), or one row at a time, in the order given, shuffled in each pass, or drawn with
replacement. The rules are literal; `LinearRegression` and `LogisticRegression` answer the same questions better. Cost
of a step over all rows: n p (sigmoid) or, after n p^2 once, p^2 (linear).

Widrow, Hoff (1960), IRE WESCON 4, 96-104; Mitchell (1997), Machine Learning, McGraw-Hill, chapter 4.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from assay.base import integer, real
from assay.labels import class_codes
from assay.margin._mistakes import signs_of
from assay.margin._online import online_codes
from assay.margin._units import Unit, UnitTrace
from assay.numerics.units import LINEAR, SIGMOID
from assay.state import Specs, classes, contrasts, floats, part, several

__all__ = ["DeltaRule", "SigmoidUnit", "UnitTrace"]

Array = np.ndarray


class DeltaRule(RegressorMixin, Unit):
    """A linear unit trained by the delta rule: gradient steps on 1/2 sum (t - o)^2 with a constant step.

        all rows (sum)   w <- w + eta sum_d (t_d - o_d) x_d        converges exactly for eta < 2 / lambda_max(A'A)
        all rows (mean)  w <- w + (eta / n) sum_d (t_d - o_d) x_d  for eta < 2 n / lambda_max(A'A),  A = [x, 1]
        one row          w <- w + eta (t_d - o_d) x_d              stays bounded for eta < 2 / max |a_d|^2

    | parameter     | default    | range                              | meaning                                       |
    |---------------|------------|------------------------------------|-----------------------------------------------|
    | solver        | "gradient" | "sgd"                              | all rows at once, or one at a time            |
    | reduction     | "sum"      | "mean"                             | of the gradient over the rows ("gradient")    |
    | learning_rate | None       | above 0                            | eta; None: half the largest that holds        |
    | order         | "given"    | "shuffled", "replacement"          | of the rows in a pass ("sgd")                 |
    | fit_intercept | True       | bool                               | whether rows get a column of ones             |
    | max_iter      | None       | from 1 on                          | most steps (None: 100,000) or passes (100)    |
    | tol           | 1e-8       | from 0 on                          | stop when no gradient is above tol times the lengths of its column and of the errors at the start; "given": when a pass moves no weight by more than tol of the largest |
    | warm_start    | False      | bool                               | start from the last weights                   |
    | random_state  | None       | seed                               | for "shuffled" and "replacement"              |

    Fitted: `coef_`, `intercept_`, `trace_` (a `UnitTrace`: error after each step or pass, first weights, the step and the
    largest that holds), `n_iter_`, `n_features_in_`, `feature_names_in_`. A row of weight v counts v times in the sum.

    A step that is too large ends in a `DivergenceError` that names the largest one.

    Widrow, Hoff (1960), Adaptive switching circuits, IRE WESCON Convention Record 4, 96-104.

    >>> step = DeltaRule(learning_rate=0.01, max_iter=1, tol=0).fit([[1.0], [3.0], [4.0]], [2.0, 1.0, 5.0])
    >>> round(step.intercept_, 12), step.coef_.round(12).tolist()
    (0.08, [0.25])
    >>> print(DeltaRule().fit([[1.0], [3.0], [4.0]], [2.0, 1.0, 5.0]).trace_)
    820 steps, step 0.03508 (below 0.07015 converges), error 15 to 2.8929: the residuals are not correlated with any column by more than tol = 1e-08
    """  # noqa: E501  (a table)

    kind: ClassVar[int] = LINEAR
    state: ClassVar[Specs] = {
        "coef_": floats("p"),
        "intercept_": real(),
        "trace_": part(UnitTrace),
        "n_iter_": integer(0),
    }

    def __init__(
        self,
        *,
        solver: str = "gradient",
        reduction: str = "sum",
        learning_rate: float | None = None,
        order: str = "given",
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-8,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            solver, reduction, learning_rate, order, fit_intercept, max_iter, tol, warm_start, random_state
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Steps from zero (or, warm, from where they stood) until the gradient is small."""
        last = np.append(self.coef_, self.intercept_) if self.warm_start and hasattr(self, "coef_") else None
        X, y = self._validate(X, y)
        v = self._shares(sample_weight, len(X))
        keep = last if last is not None and last.size == X.shape[1] + 1 else None
        w, self.trace_ = self._learn(X, y, v, keep)
        self._set(w, self.trace_.n_iter)
        return self

    def _set(self, w: Array, passes: int) -> None:
        p = self.n_features_in_
        self.coef_, self.intercept_, self.n_iter_ = w[:p].copy(), float(w[p]) if self.fit_intercept else 0.0, passes

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One step for each row, in the order given, from where the weights stand; longer rows shorten the step."""
        first = not hasattr(self, "coef_")
        X, y = self._validate(X, y, reset=first)
        v = self._shares(sample_weight, len(X))
        w = np.zeros(X.shape[1] + 1) if first else np.append(self.coef_, self.intercept_)
        w, self.trace_ = self._pass(X, y, v, w, None if first else self.trace_)
        self._set(w, 1 if first else self.n_iter_ + 1)
        return self

    def predict(self, X: Any) -> Array:
        """w'x + b."""
        check_is_fitted(self)
        return self._validate(X, reset=False) @ self.coef_ + self.intercept_


class SigmoidUnit(ClassifierMixin, Unit):
    """A sigmoid unit with squared error: gradient steps on 1/2 sum (t - o)^2, o = 1 / (1 + exp(-(w'x + b))).

        w <- w + eta sum_d (t_d - o_d) o_d (1 - o_d) x_d            t = 1 for the second class, 0 for the first

    The error is not convex: where o is near 0 or 1 the steps are short even for rows on the wrong side, which the
    likelihood (`LogisticRegression`) does not suffer from. It falls with each step over all rows when eta is below
    2 / (0.077 lambda_max(A'A)). Several classes get a unit each, told from the rest.

    | parameter     | default    | range                              | meaning                                       |
    |---------------|------------|------------------------------------|-----------------------------------------------|
    | solver        | "gradient" | "sgd"                              | all rows at once, or one at a time            |
    | reduction     | "sum"      | "mean"                             | of the gradient over the rows ("gradient")    |
    | learning_rate | None       | above 0                            | eta; None: half the largest that holds        |
    | order         | "given"    | "shuffled", "replacement"          | of the rows in a pass ("sgd")                 |
    | fit_intercept | True       | bool                               | whether rows get a column of ones             |
    | max_iter      | None       | from 1 on                          | most steps (None: 10,000) or passes (100)     |
    | tol           | 1e-3       | from 0 on                          | as in `DeltaRule`                             |
    | warm_start    | False      | bool                               | start from the last weights                   |
    | random_state  | None       | seed                               | for "shuffled" and "replacement"              |

    Fitted: `coef_`, `intercept_`, `classes_`, `traces_` (a `UnitTrace` per unit; `trace_` is the first), `n_iter_`,
    `n_features_in_`, `feature_names_in_`. A row of weight v counts v times in the sum.

    Mitchell (1997), Machine Learning, McGraw-Hill, section 4.5.

    >>> unit = SigmoidUnit().fit([[0.0], [1.0], [2.0], [3.0], [4.0]], ["no", "no", "yes", "no", "yes"])
    >>> unit.predict([[0.5], [4.5]]).tolist(), unit.predict_proba([[2.0]]).round(2).tolist()
    (['no', 'yes'], [[0.61, 0.39]])
    """

    kind: ClassVar[int] = SIGMOID
    most: ClassVar[dict[str, int]] = {"gradient": 10_000, "sgd": 100}
    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "coef_": floats(contrasts, "p"),
        "intercept_": floats(contrasts),
        "traces_": several(part(UnitTrace), contrasts),
        "n_iter_": integer(0),
    }

    def __init__(
        self,
        *,
        solver: str = "gradient",
        reduction: str = "sum",
        learning_rate: float | None = None,
        order: str = "given",
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-3,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            solver, reduction, learning_rate, order, fit_intercept, max_iter, tol, warm_start, random_state
        )

    @property
    def trace_(self) -> UnitTrace:
        """How the first unit learnt."""
        return self.traces_[0]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Steps from zero (or, warm, from where they stood) until the gradient is small."""
        warm = self.warm_start and hasattr(self, "coef_")
        last = np.column_stack([self.coef_, self.intercept_]) if warm else None
        X = self._validate(X, order="C")
        v = self._weights(sample_weight, len(X))
        self.classes_, codes = class_codes(y, len(X), v)
        v = np.ones(len(X)) if v is None else v
        targets = 0.5 * (signs_of(codes, self.classes_.size) + 1.0)
        keep = last if last is not None and last.shape == (len(targets), X.shape[1] + 1) else None
        done = []
        for k, t in enumerate(targets):
            done.append(self._learn(X, t, v, None if keep is None else keep[k]))
        self._set(np.array([w for w, _ in done]))
        self.traces_ = [trace for _, trace in done]
        self.n_iter_ = max(trace.n_iter for trace in self.traces_)
        return self

    def _set(self, weights: Array) -> None:
        p = self.n_features_in_
        self.coef_ = np.ascontiguousarray(weights[:, :p])
        self.intercept_ = weights[:, p].copy() if self.fit_intercept else np.zeros(len(weights))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One step for each row, in the order given; the first call names all `classes`."""
        first = not hasattr(self, "coef_")
        X = self._validate(X, order="C", reset=first)
        self.classes_, codes = online_codes(None if first else self.classes_, y, classes, len(X))
        v = self._shares(sample_weight, len(X))
        targets = 0.5 * (signs_of(codes, self.classes_.size) + 1.0)
        weights = np.zeros((len(targets), X.shape[1] + 1))
        if not first:
            weights = np.column_stack([self.coef_, self.intercept_])
        done = [self._pass(X, t, v, weights[k], None if first else self.traces_[k]) for k, t in enumerate(targets)]
        self._set(np.array([w for w, _ in done]))
        self.traces_, self.n_iter_ = [trace for _, trace in done], 1 if first else self.n_iter_ + 1
        return self

    def decision_function(self, X: Any) -> Array:
        """w'x + b of each unit; one column per class for more than two."""
        check_is_fitted(self)
        scores = self._validate(X, reset=False) @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Array:
        """The unit's output o for the second class; of several units each output's share of their sum."""
        scores = np.clip(self.decision_function(X), -700.0, 700.0)
        out = 1.0 / (1.0 + np.exp(-scores))
        return np.column_stack([1.0 - out, out]) if out.ndim == 1 else out / out.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Array:
        """The class whose unit answers most; for two classes the second where o > 1/2."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.int64) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return self.classes_[codes]
