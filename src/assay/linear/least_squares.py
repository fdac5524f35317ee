"""Least squares with everything a statistician asks of it.

    minimise  sum_i w_i (y_i - a - x_i'b)^2

solved from the triangular factor of the rows (`numerics.triangle`: blocked QR over all cores, 2 n p^2 flops, the rows
squared never), then once more in double-double (`numerics.double_double`) where the columns are close to
collinear. A second pass over the rows gives residuals, leverage and robust covariances. The factor is
a summary that adds: `partial_fit` merges, K-fold error comes from merged folds without a refit, and
leave-one-out error from e_i/(1 - h_i). Golub (1965), Numer. Math. 7, 206-216.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from assay.base import boolean, integer, none, one_of, real, seed
from assay.errors import CollinearityWarning, DataError, ParameterError
from assay.linear._folds import Line, applies, held_out, line_of, refit_the_rest, whitener
from assay.linear._inference import (
    FULL_LEVERAGE,
    ROBUST,
    Inference,
    RowPass,
    diagnose,
    finish_block,
    pass_over_rows,
    target_size,
    total_meat,
)
from assay.linear._model import LinearModel, undetermined
from assay.linear.gradient import Descent, gradient_descent, literal, lms
from assay.numerics.double_double import refine
from assay.numerics.moments import Moments, all_but_one
from assay.numerics.triangle import (
    RowBlock,
    Solution,
    Triangle,
    blocks,
    dense,
    error_norms,
    merge,
    over_blocks,
    solve,
    summarize,
)
from assay.resampling import cv_mean_and_error, folds, folds_constraint, is_partition
from assay.results import Diagnostics, Interval, Summary, Trace
from assay.state import Specs, anything, facts, left_out, optional, part

__all__ = ["LinearRegression"]

REFINE = 1e6
"""Above this condition number float64 keeps fewer than ten digits, and the fit is done in double-double."""

REFINE_SMALL, SMALL = 1e3, 4e6
"""Small data (n p^2 at most SMALL, some hundredths of a second) are refined sooner: a small coefficient beside
large ones loses more digits than the condition number says."""

LEVEL = real(0, 1, open_low=True, open_high=True)


def _merges(estimator: LinearRegression) -> bool:
    if estimator.solver != "qr" or estimator.covariance != "classical":
        raise AttributeError(
            "partial_fit merges triangles: it needs solver='qr' and covariance='classical' "
            "(descent and robust covariances need all rows at once)"
        )
    return True


class LinearRegression(LinearModel):
    """Ordinary and weighted least squares with the full table of inference.

    Minimises sum_i w_i (y_i - a - x_i'b)^2 by QR. Columns that repeat others are named in a `CollinearityWarning`
    and the coefficients of least norm are given; p > n interpolates the same way. Nearly collinear data are
    solved in double-double precision. Weights are precisions (var(y_i) = sigma^2/w_i): they act like
    repetition on the coefficients, while degrees of freedom count rows of positive weight.

    | parameter     | default     | range                          | meaning                                        |
    |---------------|-------------|--------------------------------|------------------------------------------------|
    | fit_intercept | True        | True, False                    | whether a is estimated or 0                    |
    | solver        | "qr"        | "qr", "gradient", "sgd"        | closed form, batch descent, or LMS row by row  |
    | covariance    | "classical" | "classical", "HC0", ..., "HC3" | which standard errors, tests, intervals to use |
    | learning_rate | None        | > 0 or None                    | step of descent on standardised columns; None: |
    |               |             |                                | 1/L for gradient, 1/max w(1 + z'z) for sgd     |
    | max_iter      | None        | >= 1 or None                   | most steps (None: 100,000) or epochs (10,000)  |
    | tol           | None        | >= 0 or None                   | largest gradient left, in units of sd(y);      |
    |               |             |                                | None: 1e-8 for gradient, 1e-3 for sgd;         |
    |               |             |                                | 0: `max_iter` steps or epochs are made         |
    | scale         | True        | True, False                    | False: descent by the printed rules, on raw    |
    |               |             |                                | columns, the summed gradient, a constant step, |
    |               |             |                                | no averaging (100 epochs of sgd)               |
    | random_state  | None        | seed                           | order of the rows in sgd                       |

    Fitted: `coef_`, `intercept_`, `rank_` (of the centred X), `condition_number_` (of [1, X] with columns of unit
    length), `sigma_` (residual standard deviation, RSS over `df_residual_`; maximum likelihood would
    divide by n), `std_errors_` and `covariance_` (intercept first), `leverage_`, `residuals_`, `loo_error_`
    (leave-one-out mean squared error), `n_iter_`, and `trace_` for the descents (J as a share of var(y)). For several
    targets all of these have one entry or row per target. Sparse X is read in dense blocks of rows.
    Golub (1965), Numer. Math. 7, 206-216.

    >>> import numpy as np
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> model = LinearRegression().fit(X, [2.1, 3.9, 6.2, 7.8])
    >>> model.coef_.round(3).tolist(), round(model.intercept_, 3)
    ([1.94], 0.15)
    >>> model.summary().to_frame().loc["x0", ["estimate", "std_error", "p_value"]].round(4).tolist()
    [1.94, 0.0906, 0.0022]
    >>> model.predict([[5.0]], interval="prediction").round(2)
       estimate  lower  upper
    0      9.85   8.47  11.23
    """

    state: ClassVar[Specs] = {
        "_one_target": boolean,
        "_inference": part(Inference),
        "_index": left_out(),
        "trace_": optional(part(Trace)),
        "_rows": optional(anything),
        "n_iter_": integer(1),
        **facts("rank_", "condition_number_", "df_residual_", "sigma_", "leverage_", "residuals_", "loo_error_"),
    }

    takes_sparse = True
    takes_many_targets = True
    constraints = {
        "fit_intercept": boolean,
        "solver": one_of("qr", "gradient", "sgd"),
        "covariance": one_of("classical", *ROBUST),
        "learning_rate": none | real(0, open_low=True),
        "max_iter": none | integer(1),
        "tol": none | real(0),
        "scale": boolean,
        "random_state": seed,
    }

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        solver: str = "qr",
        covariance: str = "classical",
        learning_rate: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        scale: bool = True,
        random_state: Any = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.covariance = covariance
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.scale = scale
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, p), dense or sparse, and y (n,) or (n, k)."""
        self._index = X.index if isinstance(X, pd.DataFrame) else None
        X, Y, w = self._take(X, y, sample_weight)
        triangle = summarize(X, Y, w, intercept=self.fit_intercept)
        solution = solve(triangle)
        self._refuse_overflow(solution.coef)
        self._warn(solution, triangle.n)
        limit = REFINE_SMALL if Y.shape[0] * solution.factor.size <= SMALL else REFINE
        rows, refined = None, False
        if self.solver != "qr":
            descent = self._descend(X, Y, w, triangle, solution)
            solution = replace(solution, coef=descent.coef, intercept=descent.intercept)
        elif limit < solution.condition < np.inf:
            better = _refine(X, Y, w, triangle, solution, self.covariance)
            if better is not None:
                (solution, rows), refined = better, True
        if rows is None:
            rows = pass_over_rows(X, Y, w, triangle, solution, self.covariance)
        e = rows.residuals / target_size(triangle)
        rss = np.square(e).sum(axis=0) if w is None else w @ np.square(e)
        self._store(triangle, solution, rss, rows.meat, w is not None, refined)
        self._store_rows(Y, w, rows)
        return self

    @available_if(_merges)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add rows to the model: their triangle is merged with that of all rows seen before.

        The answer is that of `fit` on all rows together; what belongs to single rows
        (`leverage_`, `residuals_`, `loo_error_`, diagnostics) is not available after it.
        """
        before = getattr(self, "_inference", None)
        X, Y, w = self._take(X, y, sample_weight, reset=before is None)
        triangle = summarize(X, Y, w, intercept=self.fit_intercept)
        if before is not None:
            if before.triangle.targets != triangle.targets or before.triangle.intercept != triangle.intercept:
                raise DataError(
                    f"y has {triangle.targets} columns (intercept: {triangle.intercept}), but the rows before had "
                    f"{before.triangle.targets} (intercept: {before.triangle.intercept})",
                    remedy="pass the same targets to every partial_fit, or start a new model",
                )
            triangle = merge(before.triangle, triangle)
        solution = solve(triangle)
        rss = np.square(error_norms(triangle, solution.coef, solution.intercept) / target_size(triangle))
        weighted = w is not None or (before is not None and before.weighted)
        self._store(triangle, solution, rss, None, weighted, False)
        for name in ("leverage_", "residuals_", "loo_error_", "_rows"):
            self.__dict__.pop(name, None)
        return self

    def predict(self, X: Any, interval: str | None = None, level: float = 0.95) -> Any:
        """The fitted function at each row, or a DataFrame `estimate, lower, upper`.

        `interval="confidence"` covers the mean at x, `"prediction"` a new observation of weight one. Limits are NaN
        where the training data do not determine the mean (collinear columns moved apart).
        """
        if interval is None:
            return super().predict(X)
        if interval not in ("confidence", "prediction"):
            raise ParameterError(
                f"interval = {interval!r} is out of range", remedy="it must be None, 'confidence' or 'prediction'"
            )
        _check_level(level)
        index = X.index if isinstance(X, pd.DataFrame) else None
        X = self._validate(X, reset=False, sparse=("csr",))
        target = self._target(None)
        fitted = (X @ self.coef_.T + self.intercept_).reshape(X.shape[0])
        band = self._inference.band(dense(X, slice(None)), fitted, target, interval, level)
        return pd.DataFrame(band, columns=["estimate", "lower", "upper"], index=index)

    def summary(self, level: float = 0.95, target: int | None = None) -> Summary:
        """The table of coefficients under n, R2, sigma, F, likelihood and condition number.

        AIC and BIC are given twice: counting intercept and slopes (as statsmodels does), and sigma as well (as R does).
        With several targets, `target` says which.
        """
        check_is_fitted(self)
        _check_level(level)
        return self._inference.summary(self._feature_names(), self._target(target), level)

    def diagnostics(self, target: int | None = None) -> Diagnostics:
        """Leverage, internally and externally studentised residuals and Cook's distance of the training rows."""
        check_is_fitted(self)
        if not hasattr(self, "_rows"):
            raise DataError("partial_fit does not store the rows", remedy="use fit to get diagnostics")
        target = self._target(target)
        fitted, w = self._rows
        residuals = self.residuals_ if self.residuals_.ndim == 1 else self.residuals_[:, target]
        return diagnose(fitted[:, target], residuals, self.leverage_, w, self._inference, target, self._index)

    def cv_error(self, X: Any, y: Any, cv: Any = 10, level: float = 0.95, sample_weight: Any = None) -> Interval:
        """K-fold mean squared error with a t interval over folds, from merged fold summaries: no refits.

        The interval treats fold errors as independent, which they nearly are for n well above p; it is
        about the average of K fits on (K - 1)/K of the rows, not about this one fit. A number as `cv` cuts the rows
        in their order; where that order means something, pass KFold(10, shuffle=True, random_state=0).
        """
        _check_level(level)
        if not folds_constraint.accepts(cv):
            raise ParameterError(f"cv = {cv!r} is out of range", remedy=f"it must be {folds_constraint.words}")
        X, Y, w = clone(self)._take(X, y, sample_weight)
        if Y.shape[1] > 1:
            raise DataError(f"y has {Y.shape[1]} columns", remedy="pass one target at a time")
        splits = folds(cv, X, Y[:, 0])
        tests = [_summarize_rows(X, Y, w, test, self.fit_intercept) for _, test in splits]
        if is_partition(splits, len(Y)):
            trains = all_but_one(tests, merge)
        else:
            trains = [_summarize_rows(X, Y, w, train, self.fit_intercept) for train, _ in splits]
        errors, weights = np.empty(len(splits)), np.array([test.weight for test in tests])
        for k, (train, test) in enumerate(zip(trains, tests, strict=True)):
            if train.weight == 0 or test.weight == 0:
                raise DataError(f"fold {k} has no row of positive weight", remedy="lower cv or shuffle the rows")
            fit = solve(train)
            errors[k] = error_norms(test, fit.coef, fit.intercept)[0] ** 2 / test.weight
        mean, error = cv_mean_and_error(errors, weights)
        half = float(stats.t.ppf(0.5 + level / 2, len(splits) - 1) * error)
        estimand, low, high = f"{len(splits)}-fold CV mean squared error", float(mean) - half, float(mean) + half
        return Interval(float(mean), low, high, level, "naive fold-wise t", len(Y), estimand)

    def predict_folds(self, X: Any, y: Any, splits: Any, *, sample_weight: Any = None) -> list[np.ndarray] | None:
        """Predictions of the test rows of every (train, test) pair of `splits`, without a fit per pair.

        They are those of a clone fitted to the training rows, to rounding; None where summaries cannot give them
        (splits that are no partitions, sparse X, several targets, collinear columns, a descent), and this model stays
        as it is.

        >>> X, y = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([1.0, 3.0, 2.0, 4.0])
        >>> LinearRegression().predict_folds(X, y, [([2, 3], [0, 1]), ([0, 1], [2, 3])])
        [array([-2.,  0.]), array([5., 7.])]
        """
        if self.solver != "qr" or not applies(self, X, y):
            return None
        clean, Y, w = clone(self)._take(X, y, sample_weight)
        inverse = whitener(0.0, np.ones(clean.shape[1]), least=True)

        def line(m: Moments) -> Line | None:
            solved = inverse(m)
            return None if solved is None else line_of(m, solved[1][:, 0])

        found = held_out(clean, Y[:, 0], w, splits, self.fit_intercept, line, inverse)
        return refit_the_rest(self, X, clean, Y[:, 0], w, splits, found)

    @property
    def covariance_(self) -> np.ndarray:
        """Covariance matrix of intercept (if fitted) and slopes, one per target if there are several."""
        check_is_fitted(self)
        matrices = [self._inference.covariance(j) for j in range(self._inference.rss.size)]
        return np.stack(matrices) if self.coef_.ndim == 2 else matrices[0]

    @property
    def std_errors_(self) -> np.ndarray:
        """Standard errors of intercept (if fitted) and slopes, one row per target if there are several."""
        check_is_fitted(self)
        errors = [self._inference.std_errors(j) for j in range(self._inference.rss.size)]
        return np.stack(errors) if self.coef_.ndim == 2 else errors[0]

    def _take(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = True
    ) -> tuple[RowBlock, np.ndarray, np.ndarray | None]:
        X, y = self._validate(X, y, sparse=("csr",), multi_output=True, reset=reset)
        y = np.ascontiguousarray(y, dtype=np.float64)
        if reset:
            self._one_target = y.ndim == 1
        return X, y.reshape(len(y), -1), self._weights(sample_weight, len(y))

    def _descend(
        self, X: RowBlock, Y: np.ndarray, w: np.ndarray | None, triangle: Triangle, solution: Solution
    ) -> Descent:
        random = self.random_state
        if not isinstance(random, np.random.Generator):
            random = check_random_state(random)
        if not self.scale:
            steps = (self.learning_rate, self.max_iter, self.tol)
            descent = literal(X, Y, w, self.fit_intercept, self.solver, random, *steps)
        elif self.solver == "gradient":
            descent = gradient_descent(triangle, solution, self.learning_rate, self.max_iter, self.tol)
        else:
            descent = lms(X, Y, w, triangle, solution, random, self.learning_rate, self.max_iter, self.tol)
        self.trace_: Trace = descent.trace
        return descent

    def _store(
        self,
        triangle: Triangle,
        solution: Solution,
        rss: np.ndarray,
        meat: np.ndarray | None,
        weighted: bool,
        refined: bool,
    ) -> None:
        first = int(triangle.intercept)
        estimates = np.vstack([solution.intercept[None, :], solution.coef])[1 - first :]
        kind = self.covariance
        inference = Inference(estimates, triangle, solution, rss, kind, meat, weighted, refined)
        self._inference = inference
        if self.solver == "qr":
            self.__dict__.pop("trace_", None)
        self.n_iter_ = self.trace_.n_iter if self.solver != "qr" else 1
        self.rank_, self.condition_number_ = solution.rank, solution.condition
        self.df_residual_ = inference.df
        one = self._one_target
        self.coef_ = solution.coef[:, 0].copy() if one else np.ascontiguousarray(solution.coef.T)
        self.intercept_ = float(solution.intercept[0]) if one else solution.intercept.copy()
        self.sigma_ = float(inference.sigma[0]) if one else inference.sigma

    def _store_rows(self, Y: np.ndarray, w: np.ndarray | None, rows: RowPass) -> None:
        self._rows = (Y - rows.residuals, None if w is None else w.copy())
        self.leverage_ = rows.leverage
        left = np.where(1.0 - rows.leverage < FULL_LEVERAGE, np.nan, 1.0 - rows.leverage)
        with np.errstate(over="ignore"):
            loo = np.average(np.square(rows.residuals / left[:, None]), axis=0, weights=w)
        self.residuals_ = rows.residuals[:, 0] if self._one_target else rows.residuals
        self.loo_error_ = float(loo[0]) if self._one_target else loo

    def _target(self, target: int | None) -> int:
        k = self._inference.rss.size
        if target is None and k > 1:
            raise ParameterError(
                f"there are {k} targets, and this result is for a single target",
                remedy="fit one target at a time, or pass target=0, 1, ... where it is taken",
            )
        if target is not None and not integer(0, k - 1).accepts(target):
            raise ParameterError(f"target = {target!r} is out of range", remedy=f"it must be from 0 to {k - 1}")
        return int(target or 0)

    def _warn(self, solution: Solution, n: int) -> None:
        what = undetermined(self, solution, n, "the intercept and the other columns")
        if what is not None:
            remedy = "the minimum-norm coefficients are returned: drop columns, or use Ridge or Lasso"
            warnings.warn(f"{what}; {remedy}", CollinearityWarning, stacklevel=3)


def _check_level(level: float) -> None:
    if not LEVEL.accepts(level):
        raise ParameterError(f"level = {level!r} is out of range", remedy=f"it must be {LEVEL.words}")


def _summarize_rows(X: RowBlock, Y: np.ndarray, w: np.ndarray | None, rows: np.ndarray, intercept: bool) -> Triangle:
    return summarize(X[rows], Y[rows], None if w is None else w[rows], intercept=intercept)


def _refine(
    X: RowBlock, Y: np.ndarray, w: np.ndarray | None, triangle: Triangle, solution: Solution, kind: str
) -> tuple[Solution, RowPass] | None:
    """The same least-squares problem in double-double, from the rows; None where even that cannot help."""
    first, m, size = int(triangle.intercept), len(solution.scale), target_size(triangle)
    # Columns, targets and weights are brought near one by powers of two (of four for the weights, whose root
    # is then exact as well): no digit changes and nothing over- or underflows.
    four = 1.0 if w is None else float(np.ldexp(1.0, 2 * (int(np.frexp(w.max())[1]) // 2)))
    root = np.sqrt(four)

    def load(rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        A = np.empty((rows.stop - rows.start, m))
        A[:, :first] = 1.0
        A[:, first:] = dense(X, rows)
        A /= solution.scale / root
        return A, Y[rows] / size, np.ones(len(A)) if w is None else w[rows] / four

    parts = blocks(len(Y), m + Y.shape[1])
    better = refine(load, parts, solution.factor, Y.shape[1])
    if better is None:
        return None
    estimates = better.coef * (size * root) / solution.scale[:, None]
    intercept = estimates[0] if first else np.zeros(Y.shape[1])
    refined = replace(
        solution,
        coef=estimates[first:],
        intercept=intercept,
        basis=better.basis,
        coordinates=better.coordinates * (size * root),
    )
    residuals, leverage = better.residuals * size, np.empty(len(Y))

    def finish(rows: slice) -> np.ndarray | None:
        return finish_block(better.Z[rows] / root, rows, residuals, leverage, w, kind, size)

    meats = over_blocks(finish, parts)
    return refined, RowPass(residuals, leverage, total_meat(meats, triangle.n, m, kind))
