"""Support vector regression and the support of one class (row B7).

    numbers     min |w|^2 / 2 + sum_i C_i max(0, |y_i - f(x_i)| - epsilon),    f(x) = <w, phi(x)> + b
    one class   min |w|^2 / 2 - rho nu n + sum_i max(0, rho - <w, phi(x_i)>),   f(x) = <w, phi(x)> - rho

Regression has no loss within epsilon of the target: rows inside that tube are no support vectors. The one-class
machine parts the rows from the origin of the features; at most a share nu of them has f < 0, at least a share nu are
support vectors. Both are the dual of `_dual` (signed coefficients, one box) and share its solvers.

Drucker, Burges, Kaufman, Smola, Vapnik (1997), NIPS 9; Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson (2001),
Neural Computation 13, 1443-1471.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OutlierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from assay.base import Constraint, boolean, check_target, one_of, real, seed
from assay.errors import DataError
from assay.margin._dual import Dual
from assay.margin._machine import KernelMachine, Machine
from assay.margin._trace import SolverTrace
from assay.margin.kernels import Linear as LinearKernel
from assay.state import Specs, anything, floats, ints, optional, part

__all__ = ["SVR", "OneClassSVM"]

Array = np.ndarray


class _OneDual(KernelMachine):
    """Machines made of a single dual."""

    state: ClassVar[Specs] = {
        "support_": ints("m"),
        "dual_coef_": floats(1, "m"),
        "intercept_": floats(1),
        "trace_": part(SolverTrace),
        "coef_": optional(floats(1, "p")),
    }

    @property
    def n_support_(self) -> Array:
        """How many support vectors there are, as an array of one number."""
        check_is_fitted(self)
        return np.array([self.support_.size])

    def _keep(self, X: Any, machine: Machine, kept: Array) -> None:
        self._report([machine])
        used = np.flatnonzero(machine.beta)
        self.support_ = kept[used].astype(np.int64)
        self.dual_coef_ = machine.beta[used][None, :]
        self.intercept_ = np.array([machine.bias])
        self.trace_ = machine.trace
        self._hold(X, self.support_)
        if isinstance(self.kernel_, LinearKernel):
            mean = self._centre()
            vectors = self.support_vectors_ if mean is None else self.support_vectors_ - mean
            self.coef_ = np.asarray(vectors.T @ self.dual_coef_[0]).reshape(1, -1)
            if mean is not None:
                self.intercept_ = self.intercept_ - self.coef_ @ mean

    def _score(self, X: Any) -> Array:
        rows = self._read(X, reset=False)
        if hasattr(self, "coef_"):
            return np.asarray(rows @ self.coef_[0]) + self.intercept_[0]
        return self._scores(rows, self.dual_coef_.T, self.intercept_)[:, 0]


class SVR(RegressorMixin, _OneDual):
    """A function within epsilon of the targets as far as it can, as flat as it can be in the features of a kernel.

        min |w|^2 / 2 + sum_i C_i max(0, |y_i - f(x_i)| - epsilon),    f(x) = sum_i beta_i k(x_i, x) + b

    As scikit-learn's, but for `cache_size` (1000 MB) and `max_iter` = -1, which caps the steps at a million (or a hundred
    per row) and says what gap is left; up to 1,000 rows the optimum is exact.

    | parameter    | default       | range                               | meaning                                   |
    |--------------|---------------|-------------------------------------|-------------------------------------------|
    | kernel       | "rbf"         | "linear", "poly", "sigmoid", "laplacian", "cosine", "chi2", "additive_chi2", "precomputed", Kernel, function | k |
    | degree       | 3             | from 1 on                           | of "poly"                                 |
    | gamma        | "scale"       | above 0, "auto"                     | rate of the kernel; 1/(p var X), or 1/p; "chi2": 1 |
    | coef0        | 0.0           | finite                              | of "poly" and "sigmoid"                   |
    | tol          | 1e-3          | above 0                             | KKT violation at which to stop            |
    | C            | 1.0           | above 0                             | price of an error beyond epsilon          |
    | epsilon      | 0.1           | from 0 on                           | half-width of the tube, in units of y     |
    | shrinking    | True          | True, False                         | leave rows out that cannot move           |
    | cache_size   | 1000          | above 0                             | MB of kernel rows kept                    |
    | max_iter     | -1            | from -1 on                          | steps; -1: as above                       |
    | solver       | "auto"        | "smo", "working_set", "dual_ascent" | auto: pairs up to 2,000 rows, then sets   |
    | order        | "epochs"      | "uniform"                           | rows of "dual_ascent": permuted or drawn  |
    | bias         | "unpenalised" | "augmented", "none"                 | b free, as a column of ones (k + 1), or 0 |
    | random_state | None          | seed                                | order of "dual_ascent"                    |
    | standardize_target | False   | True, False                         | C and epsilon in standard deviations of y |

    Fitted: `support_`, `support_vectors_`, `n_support_`, `dual_coef_`, `intercept_`, `coef_` (linear kernel), `kernel_`,
    `dual_gap_`, `violation_`, `n_iter_`, `trace_`, `n_features_in_`, `feature_names_in_`. A row of weight w counts w times.

    Drucker, Burges, Kaufman, Smola, Vapnik (1997), Support vector regression machines, NIPS 9, 155-161.

    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = SVR(C=10.0, epsilon=0.05).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.5]]).round(2).tolist(), model.support_.size < 20
    ([0.95], True)
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **KernelMachine.constraints,
        "C": real(0, open_low=True),
        "epsilon": real(0),
        "order": one_of("epochs", "uniform"),
        "random_state": seed,
        "standardize_target": boolean,
    }

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 1000,
        max_iter: int = -1,
        solver: str = "auto",
        order: str = "epochs",
        bias: str = "unpenalised",
        random_state: Any = None,
        standardize_target: bool = False,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.solver = solver
        self.order = order
        self.bias = bias
        self.random_state = random_state
        self.standardize_target = standardize_target

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the dual; rows of weight 0 are as if they were not there."""
        rows = self._read(X)
        target = numbers(y, rows.shape[0])
        w = self._weights(sample_weight, rows.shape[0])
        kept = np.arange(target.size) if w is None else np.flatnonzero(w)
        source = self._source(rows, w)
        inner = source if kept.size == source.n else source.take(kept)
        bound = np.full(kept.size, float(self.C)) if w is None else self.C * w[kept]
        # Far from zero the targets would leave no digits for their differences; a free bias takes the middle back.
        middle = float(np.median(target[kept])) if self.bias == "unpenalised" else 0.0
        spread = _spread(target[kept], bound) if self.standardize_target else 1.0
        dual = Dual((target[kept] - middle) / spread, float(self.epsilon), -bound, bound, self.bias == "unpenalised")
        machine = self._solve(inner, dual)
        self._keep(rows, machine, kept)
        self.intercept_ = spread * self.intercept_ + middle
        self.dual_coef_ *= spread
        if hasattr(self, "coef_"):
            self.coef_ *= spread
        return self

    def predict(self, X: Any) -> Array:
        """f(x) of each row."""
        return self._score(X)


class OneClassSVM(OutlierMixin, _OneDual):
    """The region where most rows lie: f >= 0 inside, f < 0 outside, for at most a share nu of the training rows.

        max over sum beta = nu n, 0 <= beta <= 1 of -beta'K beta / 2,    f(x) = sum_i beta_i k(x_i, x) - rho

    | parameter    | default | range                        | meaning                                                 |
    |--------------|---------|------------------------------|---------------------------------------------------------|
    | kernel       | "rbf"   | "linear", "poly", "sigmoid", "laplacian", "cosine", "chi2", "additive_chi2", "precomputed", Kernel, function | k |
    | degree       | 3       | from 1 on                    | of "poly"                                               |
    | gamma        | "scale" | above 0, "auto"              | rate of the kernel; 1/(p var X), or 1/p; "chi2": 1    |
    | coef0        | 0.0     | finite                       | of "poly" and "sigmoid"                                 |
    | tol          | 1e-3    | above 0                      | KKT violation at which to stop                          |
    | nu           | 0.5     | (0, 1]                       | largest share of rows outside, least of support vectors |
    | shrinking    | True    | True, False                  | leave rows out that cannot move                         |
    | cache_size   | 1000    | above 0                      | MB of kernel rows kept                                  |
    | max_iter     | -1      | from -1 on                   | steps; -1: a million, or a hundred per row              |
    | solver       | "auto"  | "smo", "working_set"         | auto: pairs up to 2,000 rows, then working sets         |

    Fitted: `support_`, `support_vectors_`, `n_support_`, `dual_coef_`, `intercept_`, `offset_` (rho), `coef_` (linear
    kernel), `kernel_`, `dual_gap_`, `violation_`, `n_iter_`, `trace_`, `n_features_in_`, `feature_names_in_`. `p_values(X, held)`
    compares new rows with held-out ones. A row of weight w counts w times.

    Schoelkopf et al. (2001), Estimating the support of a high-dimensional distribution, Neural Comput. 13, 1443-1471.

    >>> rng = np.random.default_rng(0)
    >>> model = OneClassSVM(nu=0.1).fit(rng.normal(size=(200, 2)))
    >>> model.predict([[0.0, 0.0], [5.0, 5.0]]).tolist()
    [1, -1]
    >>> model.p_values([[0.0, 0.0], [5.0, 5.0]], rng.normal(size=(99, 2))).tolist()[1]
    0.01
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **{name: one for name, one in KernelMachine.constraints.items() if name != "bias"},
        "nu": real(0, 1, open_low=True),
        "solver": one_of("auto", "smo", "working_set"),
    }
    bias = "unpenalised"

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float = 1000,
        max_iter: int = -1,
        solver: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.solver = solver

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Solve the dual; y is ignored, rows of weight 0 are as if they were not there."""
        del y
        rows = self._read(X)
        w = self._weights(sample_weight, rows.shape[0])
        kept = np.arange(rows.shape[0]) if w is None else np.flatnonzero(w)
        source = self._source(rows, w)
        inner = source if kept.size == source.n else source.take(kept)
        top = np.ones(kept.size) if w is None else w[kept]
        zero = np.zeros(kept.size)
        machine = self._solve(inner, Dual(zero, 0.0, zero, top, True, float(self.nu * top.sum())))
        self._keep(rows, machine, kept)
        self.offset_ = -self.intercept_[0]
        return self

    def decision_function(self, X: Any) -> Array:
        """f(x): below 0 outside; what is 0 up to rounding, as rows on the boundary are, is 0."""
        f = self._score(X)
        f[np.abs(f) <= 1e-10 * (1.0 + abs(self.offset_))] = 0.0
        return f

    def score_samples(self, X: Any) -> Array:
        """f(x) + rho: without the offset."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Array:
        """1 inside and on the boundary, -1 outside."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def p_values(self, X: Any, held_out: Any) -> Array:
        """For each row the share of rows at most as usual as it: (1 + #{held-out f <= f(x)}) / (1 + m).

        `held_out` are m rows that were not used in `fit` and come from where the training rows do: then the p-value of
        a further such row is at most alpha with probability at most alpha, whatever the model is worth.
        """
        known = np.sort(self._score(held_out))
        return (1.0 + np.searchsorted(known, self._score(X), side="right")) / (1.0 + known.size)

    state: ClassVar[Specs] = {"offset_": anything}


def _spread(y: Array, w: Array) -> float:
    """The standard deviation of weighted targets; 1 where they are all equal."""
    mean = np.average(y, weights=w)
    spread = float(np.sqrt(np.average((y - mean) ** 2, weights=w)))
    return spread if spread > 0 else 1.0


def numbers(y: Any, n: int) -> Array:
    """A target of one number per row."""
    if y is None:
        raise DataError("fit requires y to be passed, but the target y is None", remedy="pass the target as y")
    check_target(y)
    try:
        target = column_or_1d(y, warn=True)
    except ValueError as error:
        raise DataError(
            f"y cannot be used: {' '.join(str(error).split())}", remedy="pass one number per row"
        ) from error
    if target.size != n:
        what = f"Found input variables with inconsistent numbers of samples: X has {n} rows but y has {target.size}"
        raise DataError(what, remedy="give X and y the same number of rows")
    return np.ascontiguousarray(target, dtype=np.float64)
