"""Linear support vector machines, solved through their weights: no Gram matrix, one pass over the rows for a step.

    classes   min |w|^2 / 2 + sum_i C_i max(0, 1 - y_i (x_i'w + b))        (or its square), one class against the rest
    numbers   min |w|^2 / 2 + sum_i C_i max(0, |y_i - x_i'w - b| - epsilon)  (or its square)

b is the weight of a further column `intercept_scaling`, penalised like the others (augmentation, scikit-learn's and
LIBLINEAR's way: the kernel k + intercept_scaling^2), or free. The solvers and their costs are in `_linear`. The duality
gap of every fit is measured.

Fan, Chang, Hsieh, Wang, Lin (2008), LIBLINEAR, JMLR 9, 1871-1874.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from assay.base import Constraint, Estimator, boolean, instance_of, integer, jobs, none, one_of, real, seed
from assay.errors import ConvergenceWarning, ParameterError
from assay.labels import class_codes, class_factors
from assay.margin._linear import LinearSVMFit, solve_linear
from assay.margin._linear_problem import LinearProblem
from assay.margin._machine import is_sparse, refuse_huge, wide_columns
from assay.margin._margins import MarginRegions, Margins, margins_of, regions_of
from assay.margin._trace import SolverTrace, trace_of
from assay.margin.svr import numbers
from assay.numerics.seeds import seed_sequence
from assay.numerics.threads import parallel
from assay.state import Specs, anything, classes, contrasts, floats, part

__all__ = ["LinearSVC", "LinearSVR"]

Array = np.ndarray
FEW_COLUMNS = 500
"""Up to this many dense columns the interior-point method beats coordinate ascent."""


class _LinearMachine(Estimator):
    """What both share."""

    constraints: ClassVar[dict[str, Constraint]] = {
        "tol": real(0, open_low=True),
        "C": real(0, open_low=True),
        "fit_intercept": boolean,
        "intercept_scaling": real(0, open_low=True),
        "random_state": seed,
        "max_iter": integer(1),
        "bias": one_of("augmented", "unpenalised"),
        "solver": one_of("auto", "dual_ascent", "sgd", "newton", "interior_point"),
        "order": one_of("epochs", "uniform"),
    }
    state: ClassVar[Specs] = {"n_iter_": anything, "trace_": part(SolverTrace)}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _rows(self, X: Any, *, reset: bool = True) -> Any:
        rows = self._validate(X, reset=reset, sparse="csr", order="C")
        if reset:
            refuse_huge(self, rows)
        if reset and not is_sparse(rows):
            wide_columns(self, rows)
        if is_sparse(rows):
            rows.sum_duplicates()
        return rows

    def _problem(self, X: Any, c: Array, eps: float, price: Array, up: Array, down: Array) -> LinearProblem:
        """The problem of targets c; `up` and `down` say on which sides of the target there is a loss."""
        squared = self.loss.startswith("squared")
        top = np.full(c.size, np.inf) if squared else price
        free = bool(self.fit_intercept and self.bias == "unpenalised")
        one = float(self.intercept_scaling) if self.fit_intercept and not free else 0.0
        extra = 1.0 / (2.0 * price) if squared else np.zeros(c.size)
        lo, hi = np.where(down, -top, 0.0), np.where(up, top, 0.0)
        return LinearProblem(X, c, eps, lo, hi, extra, one, free)

    def _solver(self, X: Any) -> str:
        squared = self.loss.startswith("squared")
        dense = not is_sparse(X)
        if self.solver == "auto":
            if squared:
                return "newton"
            return "interior_point" if dense and X.shape[1] <= min(FEW_COLUMNS, X.shape[0]) else "dual_ascent"
        if squared and self.solver in ("sgd", "interior_point"):
            what = f"solver = {self.solver!r} does not support a squared loss, but loss = {self.loss!r}"
            raise ParameterError(what, remedy="pass solver='newton' or solver='dual_ascent'")
        if not squared and self.solver == "newton":
            what = f"solver = 'newton' needs a squared loss, but loss = {self.loss!r} is not differentiable"
            raise ParameterError(what, remedy=f"pass loss='squared_{self.loss}' or solver='dual_ascent'")
        if self.solver == "sgd" and self.fit_intercept and self.bias == "unpenalised":
            what = "solver = 'sgd' does not support an unpenalised bias"
            raise ParameterError(what, remedy="pass bias='augmented' or another solver")
        if self.solver == "interior_point" and not dense:
            raise ParameterError("solver = 'interior_point' needs dense X", remedy="pass solver='dual_ascent'")
        return str(self.solver)

    def _fit(self, problem: LinearProblem, solver: str, rng: np.random.Generator) -> LinearSVMFit:
        tol = min(self.tol, 1e-6) if solver == "interior_point" else self.tol
        return solve_linear(problem, solver=solver, tol=tol, max_iter=self.max_iter, rng=rng, order=self.order)

    def _report(self, fits: list[LinearSVMFit], solver: str) -> None:
        self.n_iter_ = max(len(fit.records.rows) - 1 for fit in fits)
        longest = max(fits, key=lambda fit: len(fit.records.rows))
        self.trace_ = trace_of(solver, longest.records, longest.gap, longest.converged)
        worst = max(fits, key=lambda fit: fit.gap)
        if not all(fit.converged for fit in fits):
            what = (
                f"{type(self).__name__} (solver {solver!r}) stopped after {self.n_iter_} iterations with a duality gap "
                f"of {worst.gap:.3g} at the objective {worst.primal:.6g}; standardise the columns, lower C, or raise "
                "max_iter or tol"
            )
            warnings.warn(what, ConvergenceWarning, stacklevel=3)


class LinearSVC(ClassifierMixin, _LinearMachine):
    """Linear classifier of the widest margin; several classes one against the rest.

        min |w|^2 / 2 + sum_i C_i max(0, 1 - y_i (x_i'w + b))^2      (without the square for loss="hinge")

    As scikit-learn's, with our own solvers (no `penalty="l1"`). Up to 1,000 rows the optimum is exact.

    | parameter         | default         | range                                             | meaning                      |
    |-------------------|-----------------|---------------------------------------------------|------------------------------|
    | loss              | "squared_hinge" | "hinge"                                           | loss of a row                |
    | tol               | 1e-4            | above 0                                           | violation at which to stop   |
    | C                 | 1.0             | above 0                                           | price of slack               |
    | fit_intercept     | True            | True, False                                       | whether there is a bias      |
    | intercept_scaling | 1.0             | above 0                                           | the further column's entries |
    | class_weight      | None            | "balanced", dict                                  | factors of C by class        |
    | random_state      | None            | seed                                              | order of the rows            |
    | max_iter          | 1000            | from 1 on                                         | epochs or Newton's steps     |
    | bias              | "augmented"     | "unpenalised"                                     | a further column, or free    |
    | solver            | "auto"          | "dual_ascent", "sgd", "newton", "interior_point"  | auto: newton for squares, interior_point for few dense columns, else dual_ascent |
    | order             | "epochs"        | "uniform"                                         | rows permuted, or drawn      |
    | n_jobs            | None            | threads                                           | classes at a time; never changes a result |

    Fitted: `classes_`, `coef_`, `intercept_`, `margin_` (half-widths), `dual_gap_`, `n_iter_`, `trace_`,
    `n_features_in_`, `feature_names_in_`. A row of weight w counts w times (in distribution with "sgd").

    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), A dual coordinate descent method for large-scale linear SVM, ICML.

    >>> X, y = [[0.0, 0.0], [1.0, 1.0], [3.0, 3.0], [4.0, 4.0]], ["a", "a", "b", "b"]
    >>> model = LinearSVC(loss="hinge", bias="unpenalised", C=10.0).fit(X, y)
    >>> model.coef_.round(4).tolist(), model.intercept_.round(4).tolist(), model.predict([[1.5, 1.0]]).tolist()
    ([[0.5, 0.5]], [-2.0], ['a'])
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **_LinearMachine.constraints,
        "loss": one_of("hinge", "squared_hinge"),
        "class_weight": none | one_of("balanced") | instance_of(dict, "a dict of weights by class"),
        "n_jobs": jobs,
    }
    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "coef_": floats(contrasts, "p"),
        "intercept_": floats(contrasts),
        "margin_": floats(contrasts, low=0, finite=False),
        "dual_gap_": floats(contrasts, low=0),
    }

    def __init__(
        self,
        *,
        loss: str = "squared_hinge",
        tol: float = 1e-4,
        C: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        random_state: Any = None,
        max_iter: int = 1000,
        bias: str = "augmented",
        solver: str = "auto",
        order: str = "epochs",
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.tol = tol
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.max_iter = max_iter
        self.bias = bias
        self.solver = solver
        self.order = order
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve one problem, or one for each class against the rest; rows of weight 0 are as if they were not there."""
        rows = self._rows(X)
        w = self._weights(sample_weight, rows.shape[0])
        self.classes_, codes = class_codes(y, rows.shape[0], w)
        price = class_factors(self.class_weight, self.classes_, codes, w)[codes] * (self.C if w is None else self.C * w)
        if not price.all():
            rows, codes, price = rows[price > 0], codes[price > 0], price[price > 0]
        solver = self._solver(rows)
        positive = [1] if self.classes_.size == 2 else list(range(self.classes_.size))
        seeds = seed_sequence(self.random_state).spawn(len(positive))

        def fit(task: int) -> LinearSVMFit:
            up = codes == positive[task]
            problem = self._problem(rows, np.where(up, 1.0, -1.0), 0.0, price, up, ~up)
            return self._fit(problem, solver, np.random.default_rng(seeds[task]))

        fits = [fit(0)] if len(positive) == 1 else parallel(fit, range(len(positive)), n_jobs=self.n_jobs)
        self.coef_ = np.array([made.w[:-1] for made in fits])
        one = float(self.intercept_scaling) if self.fit_intercept and self.bias == "augmented" else 0.0
        self.intercept_ = np.array([made.bias + one * made.w[-1] for made in fits])
        with np.errstate(divide="ignore"):
            self.margin_ = 1.0 / np.linalg.norm(self.coef_, axis=1)
        self.dual_gap_ = np.array([made.gap for made in fits])
        self._report(fits, solver)
        return self

    def _class_scores(self, X: Any) -> Array:
        rows = self._rows(X, reset=False)
        return np.asarray(rows @ self.coef_.T) + self.intercept_

    def _pair_scores(self, X: Any) -> Array:
        return self._class_scores(X)

    def decision_function(self, X: Any) -> Array:
        """x'w + b of the second of two classes, or of each class against the rest."""
        scores = self._class_scores(X)
        return scores[:, 0] if self.classes_.size == 2 else scores

    def predict(self, X: Any) -> Array:
        """The class with the largest score; for two the sign."""
        scores = self._class_scores(X)
        codes = (scores[:, 0] > 0).astype(np.int64) if self.classes_.size == 2 else np.argmax(scores, axis=1)
        return self.classes_[codes]

    def margins(self, X: Any, y: Any) -> Margins:
        """Slacks, signed distances and where each row lies; for two classes."""
        if self.classes_.size > 2:
            what = f"margins are between two classes, but there are {self.classes_.size}"
            raise ParameterError(what, remedy="fit two classes, or use SVC(kernel='linear')")
        return margins_of(self, self._class_scores(X), y)

    def regions(self, X: Any, y: Any) -> MarginRegions:
        """A picture of two columns and two classes: regions, margins and support vectors; call `.plot()` on it."""
        self.margins(X, y)
        return regions_of(self, X, y)


class LinearSVR(RegressorMixin, _LinearMachine):
    """A linear function within epsilon of the targets as far as it can, with small weights.

        min |w|^2 / 2 + sum_i C_i max(0, |y_i - x_i'w - b| - epsilon)      (or its square)

    As scikit-learn's, with our own solvers. Up to 1,000 rows the optimum is exact.

    | parameter         | default               | range                         | meaning                                    |
    |-------------------|-----------------------|-------------------------------|--------------------------------------------|
    | epsilon           | 0.0                   | from 0 on                     | half-width of the tube, in units of y      |
    | tol               | 1e-4                  | above 0                       | violation at which to stop                 |
    | C                 | 1.0                   | above 0                       | price of an error                          |
    | loss              | "epsilon_insensitive" | "squared_epsilon_insensitive" | loss of a row                              |
    | fit_intercept     | True                  | True, False                   | whether there is a bias                    |
    | intercept_scaling | 1.0                   | above 0                       | the further column's entries               |
    | random_state      | None                  | seed                          | order of the rows                          |
    | max_iter          | 1000                  | from 1 on                     | epochs or Newton's steps                   |
    | bias              | "augmented"           | "unpenalised"                 | a further column, or free                  |
    | solver            | "auto"                | "dual_ascent", "sgd", "newton", "interior_point" | as in LinearSVC         |
    | order             | "epochs"              | "uniform"                     | rows permuted, or drawn                    |

    Fitted: `coef_`, `intercept_`, `dual_gap_`, `n_iter_`, `trace_`, `n_features_in_`, `feature_names_in_`. A row of
    weight w counts w times (in distribution with "sgd").

    Ho, Lin (2012), Large-scale linear support vector regression, JMLR 13, 3323-3348.

    >>> model = LinearSVR(C=100.0, bias="unpenalised").fit([[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 70.0])
    >>> model.coef_.round(4).tolist(), model.intercept_.round(4).tolist()
    ([2.0], [1.0])
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **_LinearMachine.constraints,
        "epsilon": real(0),
        "loss": one_of("epsilon_insensitive", "squared_epsilon_insensitive"),
    }
    state: ClassVar[Specs] = {"coef_": floats("p"), "intercept_": floats(1), "dual_gap_": anything}

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-4,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        random_state: Any = None,
        max_iter: int = 1000,
        bias: str = "augmented",
        solver: str = "auto",
        order: str = "epochs",
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.random_state = random_state
        self.max_iter = max_iter
        self.bias = bias
        self.solver = solver
        self.order = order

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the problem; rows of weight 0 are as if they were not there."""
        rows = self._rows(X)
        target = numbers(y, rows.shape[0])
        w = self._weights(sample_weight, rows.shape[0])
        price = np.full(target.size, float(self.C)) if w is None else self.C * w
        if not price.all():
            rows, target, price = rows[price > 0], target[price > 0], price[price > 0]
        solver = self._solver(rows)
        both = np.ones(target.size, dtype=bool)
        problem = self._problem(rows, target, float(self.epsilon), price, both, both)
        rng = np.random.default_rng(seed_sequence(self.random_state))
        made = self._fit(problem, solver, rng)
        self.coef_ = made.w[:-1].copy()
        self.intercept_ = np.array([made.bias + problem.one * made.w[-1]])
        self.dual_gap_ = float(made.gap)
        self._report([made], solver)
        return self

    def predict(self, X: Any) -> Array:
        """x'w + b of each row."""
        rows = self._rows(X, reset=False)
        return np.asarray(rows @ self.coef_) + self.intercept_[0]
