"""Ridge regression: least squares that pays for long coefficients.

    minimise over b0, b   sum_i w_i (y_i - b0 - x_i'b)^2 + alpha sum_j f_j b_j^2            (penalised form)
    minimise over b0, b   sum_i w_i (y_i - b0 - x_i'b)^2  subject to  sum_j f_j b_j^2 <= budget  (constrained form)

Each solves the other: a penalised fit is the constrained fit with budget_ = sum_j f_j b_j^2, and alpha_ is the
multiplier of a budget. The whole path, leave-one-out and K folds come from one decomposition (see
`assay.linear._ridge`).

*MAP reading.* With y_i | b ~ N(b0 + x_i'b, sigma^2 / w_i) and b_j ~ N(0, tau^2 / f_j) the posterior mode is the ridge
fit with alpha = sigma^2 / tau^2.

*Scalings.* `alpha` here is scikit-learn's. In terms of the objective (1/2n) RSS + (a/2) |b|^2 of `ElasticNet` (with
l1_ratio = 0), alpha = n a. glmnet (alpha = 0) minimises (1/2n) RSS + (lambda/2) |b|^2 after dividing y by its standard
deviation s_y (divisor n) and lambda by the same s_y, so alpha = n lambda / s_y with standardize = FALSE; with
standardize = TRUE column j also gets the penalty factor var(x_j) (divisor n). glmnet rescales penalty factors
to sum to p; here they are used as given: alpha f_j is what coefficient j pays.

Hoerl and Kennard (1970), Technometrics 12, 55-67; Cule, Vineis and De Iorio (2011), BMC Bioinformatics 12, 372
(standard errors); Hastie, Tibshirani and Friedman, Elements of Statistical Learning, sections 3.4 and 7.10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from assay.base import Constraint, array_like, boolean, integer, jobs, none, one_of, real
from assay.checks import non_negative
from assay.errors import DataError, ParameterError
from assay.linear._folds import Line, applies, held_out, line_of, refit_the_rest, whitener
from assay.linear._ridge import RidgeFit, fit_alpha, path_from_moments, solve_budget, solve_path
from assay.linear._ridge_cv import (
    default_grid,
    eigenvalues,
    held_out_error,
    length_of,
    paths_of_folds,
    splits_of,
    weight_of,
)
from assay.linear._ridge_model import RidgeModel, per_target
from assay.linear._ridge_rows import RidgeRows, factor_of_rows, moments_of, moments_of_parts, route
from assay.linear._ridge_spectrum import Spectrum, leave_one_out, spectrum_from_gram, spectrum_of
from assay.numerics.moments import Moments
from assay.numerics.threads import parallel
from assay.resampling import (
    cv_mean_and_error,
    folds,
    folds_constraint,
    group_codes,
    is_partition,
    one_standard_error,
    whole_groups,
)
from assay.results import Curve, Path
from assay.state import Specs, facts

__all__ = ["Ridge", "RidgeCV", "ridge_path"]

Array = np.ndarray


class Ridge(RidgeModel):
    """Ridge regression in penalised or constrained form, with its degrees of freedom and leave-one-out error.

        minimise  sum_i w_i (y_i - b0 - x_i'b)^2 + alpha sum_j f_j b_j^2

    | parameter       | default | range                                     | meaning                                  |
    |-----------------|---------|-------------------------------------------|------------------------------------------|
    | alpha           | 1.0     | >= 0, or one per target, or None          | penalty; 0 is least squares (least norm) |
    | budget          | None    | > 0, or one per target, or None           | bound on sum_j f_j b_j^2 instead; alpha  |
    |                 |         |                                           | must then be left at 1.0 or be None      |
    | fit_intercept   | True    | bool                                      | add b0, which is never penalised         |
    | penalty_factors | None    | >= 0, one per column                      | f_j, used as given; 0 leaves j free      |
    | positive        | False   | bool                                      | require b >= 0                           |
    | inference       | True    | bool                                      | one more pass over the rows for degrees  |
    |                 |         |                                           | of freedom, sigma and leave-one-out      |
    | tol             | 1e-12   | in (0, 1)                                 | LSMR's tolerance (large sparse X only)   |
    | max_iter        | None    | >= 1, or None for 10 min(n, p)            | LSMR's iterations (large sparse X only)  |

    After `fit`: `coef_`, `intercept_`, `alpha_` (the multiplier) and `budget_` (the size sum_j f_j b_j^2) whichever
    was given, `solver_` ("cholesky", "qr", "svd", "dual", "lsmr" or "active-set") and `n_iter_`. Unless the fit is
    nonnegative or iterative, also `effective_df_` (trace of the hat matrix, the intercept counted as one), `sigma_`,
    `loo_error_` and `summary()`. With a table of targets each is fitted on its own.

    As a posterior mode (prior b_j ~ N(0, tau^2 / f_j)), alpha = sigma^2 / tau^2. Scalings against scikit-learn,
    `ElasticNet` and glmnet stand at the head of the module.

    Reference: Hoerl and Kennard (1970), Technometrics 12, 55-67.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0]
    >>> ridge = Ridge(alpha=5.0).fit(X, y)
    >>> ridge.coef_, ridge.intercept_, round(ridge.effective_df_, 12)
    (array([1.]), 2.5, 1.5)
    >>> Ridge(budget=1.0).fit(X, y).alpha_
    5.0
    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "alpha": real(0) | array_like | none,
        "budget": real(0, open_low=True) | array_like | none,
        "fit_intercept": boolean,
        "penalty_factors": array_like | none,
        "positive": boolean,
        "inference": boolean,
        "tol": real(0, 1, open_low=True, open_high=True),
        "max_iter": integer(1) | none,
    }

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        budget: Any = None,
        fit_intercept: bool = True,
        penalty_factors: Any = None,
        positive: bool = False,
        inference: bool = True,
        tol: float = 1e-12,
        max_iter: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.budget = budget
        self.fit_intercept = fit_intercept
        self.penalty_factors = penalty_factors
        self.positive = positive
        self.inference = inference
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit one target, or each column of a table of targets; a row of weight w counts as w rows."""
        rows, factors, _, y, _ = self._rows(X, y, sample_weight)
        alpha, budget = self._level(rows.Y.shape[1])
        how = route(rows, factors, self.positive)
        if self.positive or how == "iterative":
            fit, alpha = self._fit_by_search(rows, alpha, budget, factors, how)
        elif budget is None:
            assert alpha is not None
            fit = fit_alpha(rows, alpha, factors, how, inference=self.inference)
        else:
            rows, m, spectrum = spectrum_of(rows, how, factors, 0.0)
            nu = _in_units(budget, rows)
            alpha = np.array([solve_budget(spectrum.size_of(j), float(nu[j])) for j in range(nu.size)])
            fit = fit_alpha(rows, alpha, factors, how, m, spectrum, self.inference)
        assert alpha is not None
        self._keep(rows, fit, alpha, factors, y.ndim)
        return self

    def predict_folds(self, X: Any, y: Any, splits: Any, *, sample_weight: Any = None) -> list[Array] | None:
        """Predictions of the test rows of every (train, test) pair of `splits`, without a fit per pair.

        They are those of a clone fitted to the training rows, to rounding; None where summaries cannot give them
        (splits that are no partitions, sparse X, several targets, p > n, digits that squares would lose), and this
        model stays as it is.

        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0]
        >>> Ridge(alpha=0.5).predict_folds(X, y, [([2, 3], [0, 1]), ([0, 1], [2, 3])])
        [array([3.5, 4.5]), array([3.5, 4.5])]
        """
        if not applies(self, X, y) or (self.positive and self.budget is not None):
            return None
        model = clone(self)
        rows, factors, clean, y, w = model._rows(X, y, sample_weight)
        alpha, budget = model._level(1)
        inverse = None if alpha is None or self.positive else whitener(float(alpha[0]), factors)

        def line(m: Moments) -> Line | None:
            if self.positive:
                assert alpha is not None
                path = path_from_moments(m, rows, alpha, factors, True)
                return None if path is None else line_of(m, path[0][:, 0, 0])
            whiten = inverse
            if whiten is None:
                assert budget is not None
                spectrum = spectrum_from_gram(m, factors, 0.0)
                if spectrum is None:
                    return None
                whiten = whitener(solve_budget(spectrum.size_of(0), float(budget[0])), factors)
            solved = whiten(m)
            return None if solved is None else line_of(m, solved[1][:, 0])

        found = held_out(clean, y, w, splits, self.fit_intercept, line, inverse)
        return refit_the_rest(self, X, clean, y, w, splits, found)

    def _level(self, k: int) -> tuple[Array | None, Array | None]:
        """alpha per target, or budget per target: exactly one of them."""
        if self.budget is None:
            if self.alpha is None:
                raise ParameterError("Ridge: alpha and budget are both None", remedy="pass one of them")
            return per_target("alpha", self.alpha, k), None
        if self.alpha is not None and not (np.ndim(self.alpha) == 0 and self.alpha == 1.0):
            raise ParameterError(
                f"Ridge: alpha = {self.alpha!r} and budget = {self.budget!r} are both given",
                remedy="leave alpha at 1.0 or set it to None when you give a budget",
            )
        budget = per_target("budget", self.budget, k)
        if not budget.all():
            raise ParameterError("Ridge: budget contains a zero", remedy="every budget must be positive")
        return None, budget

    def _fit_by_search(
        self, rows: RidgeRows, alpha: Array | None, budget: Array | None, factors: Array, how: str
    ) -> tuple[RidgeFit, Array]:
        """Fits without a spectrum, target by target; a budget is met by a search over alpha."""
        k = rows.Y.shape[1]
        coef, intercept, found = np.empty((rows.p, k)), np.empty(k), np.empty(k)
        n_iter = 1
        for j in range(k):
            solve = self._solver(replace(rows, Y=rows.Y[:, [j]]), factors, how)
            if budget is None:
                assert alpha is not None
                found[j] = alpha[j]
            else:
                found[j] = solve_budget(_size_of(solve, factors), float(_in_units(budget, rows)[j]))
            b, b0, steps = solve(float(found[j]))
            coef[:, j], intercept[j], n_iter = b[:, 0, 0], b0[0, 0], max(n_iter, steps)
        return RidgeFit(coef, intercept, "lsmr" if how == "iterative" else "active-set", n_iter=n_iter), found

    def _solver(self, rows: RidgeRows, factors: Array, how: str) -> Callable[[float], tuple[Array, Array, int]]:
        if how == "iterative":
            return lambda a: solve_path(rows, np.array([a]), factors, how, False, self.tol, self.max_iter)
        rows, m = moments_of(rows)

        def solve(a: float) -> tuple[Array, Array, int]:
            solved = path_from_moments(m, rows, np.array([a]), factors, True, lambda: factor_of_rows(rows, m.mx, m.my))
            assert solved is not None
            return *solved, 1

        return solve


class RidgeCV(RidgeModel):
    """Ridge regression with alpha chosen by leave-one-out or by K folds, and the curve it was chosen from.

    Leave-one-out (`cv=None`) is exact and costs one decomposition for all alphas. K folds of data with n >= p cost
    about one fit: the moments of a training set are the merged moments of the other folds. The score is the mean
    squared error (over all targets), measured on the rows left out.

    | parameter       | default | range                            | meaning                                      |
    |-----------------|---------|----------------------------------|----------------------------------------------|
    | alphas          | 100     | whole number >= 2, or array >= 0 | size of the grid, or the grid                |
    | cv              | None    | None, K >= 2, splitter or splits | leave-one-out, or folds                      |
    | rule            | "min"   | "min" or "1se"                   | best mean, or the largest alpha within one   |
    |                 |         |                                  | standard error of it                         |
    | fit_intercept   | True    | bool                             | add b0, which is never penalised             |
    | penalty_factors | None    | >= 0, one per column             | f_j, used as given; 0 leaves j free          |
    | positive        | False   | bool                             | require b >= 0 (needs a cv)                  |
    | tol             | 1e-12   | in (0, 1)                        | LSMR's tolerance (large sparse X only)       |
    | max_iter        | None    | >= 1, or None for 10 min(n, p)   | LSMR's iterations (large sparse X only)      |
    | n_jobs          | None    | non-zero whole number            | threads over folds; never changes the result |

    A grid of its own is geometric, from 100 tr(G) (at most 0.01 degrees of freedom are used) down to 1e-4 times the
    smallest eigenvalue of G that is not zero (at most 0.01% of each degree is lost), but not below 1e-10 times the
    largest; G is the centred Gram matrix of the columns x_j / sqrt(f_j).

    After `fit`: everything `Ridge` has, `alphas_` (from the simplest model to the most complex), `alpha_`,
    `alpha_min_`, `alpha_1se_`, `cv_curve_` (mean and standard error per alpha; under leave-one-out every row is a fold)
    and, with folds, `mse_path_` (alphas x folds). Fold means are weighted by the weight of their rows. With weights,
    errors are weighted, and leaving a row out means the whole row.

    Reference: Golub, Heath and Wahba (1979), Technometrics 21, 215-223.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RidgeCV(rule="1se").fit(X, y)
    >>> bool(model.alpha_min_ < model.alpha_ == model.alpha_1se_), round(model.effective_df_, 1)
    (True, 5.8)
    >>> print(model.cv_curve_)
    Leave-one-out error of ridge regression against alpha, 100 points, min at ..., 1se at ...
    """

    state: ClassVar[Specs] = {
        **facts("alphas_", "cv_curve_", "alpha_min_", "alpha_1se_", "mse_path_"),
    }

    constraints: ClassVar[dict[str, Constraint]] = {
        "alphas": integer(2) | array_like,
        "cv": none | folds_constraint,
        "rule": one_of("min", "1se"),
        "fit_intercept": boolean,
        "penalty_factors": array_like | none,
        "positive": boolean,
        "tol": real(0, 1, open_low=True, open_high=True),
        "max_iter": integer(1) | none,
        "n_jobs": jobs,
    }

    def __init__(
        self,
        alphas: Any = 100,
        *,
        cv: Any = None,
        rule: str = "min",
        fit_intercept: bool = True,
        penalty_factors: Any = None,
        positive: bool = False,
        tol: float = 1e-12,
        max_iter: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.rule = rule
        self.fit_intercept = fit_intercept
        self.penalty_factors = penalty_factors
        self.positive = positive
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose alpha along the grid, then fit all rows with it; rows of a group stay in one fold."""
        rows, factors, X, y, w = self._rows(X, y, sample_weight, min_samples=2)
        together = group_codes(groups, X.shape[0])
        if together is not None and self.cv is None:
            raise ParameterError("RidgeCV: leaving out one row at a time parts groups", remedy="set cv, say cv=5")
        if rows.n < 2:
            raise DataError("only 1 sample has a positive weight", remedy="cross-validation needs two rows or more")
        how = route(rows, factors, self.positive)
        moments: Moments | None
        spectrum: Spectrum | None = None
        kept = np.arange(rows.n) if w is None else np.flatnonzero(w)
        if hasattr(self, "mse_path_"):
            del self.mse_path_  # an earlier fit had folds; this one may not
        if self.cv is None:
            moments, spectrum, rows = self._by_leave_one_out(rows, how, factors, kept)
        else:
            pairs = folds(whole_groups(self.cv, together), X, y, together)
            moments, rows = self._by_folds(rows, how, factors, splits_of(pairs, kept))
        self.alpha_min_, self.alpha_1se_ = (float(self.cv_curve_.marks[name]) for name in ("min", "1se"))
        alpha = np.full(rows.Y.shape[1], self.alpha_min_ if self.rule == "min" else self.alpha_1se_)
        if self.positive or how == "iterative":
            b, b0, steps = solve_path(rows, alpha[:1], factors, how, self.positive, self.tol, self.max_iter)
            solver = "active-set" if self.positive else "lsmr"
            fit = RidgeFit(b[:, :, 0], b0[:, 0], solver, n_iter=steps)
        else:
            fit = fit_alpha(rows, alpha, factors, how, moments, spectrum)
        self._keep(rows, fit, alpha, factors, y.ndim)
        return self

    def _by_leave_one_out(
        self, rows: RidgeRows, how: str, factors: Array, kept: Array
    ) -> tuple[Moments, Spectrum, RidgeRows]:
        if self.positive or how == "iterative":
            why = "a nonnegative fit" if self.positive else "a sparse X this large both ways"
            raise ParameterError(f"RidgeCV: leave-one-out has no closed form for {why}", remedy="set cv, say cv=5")
        least = np.inf if isinstance(self.alphas, int | np.integer) else float(_grid(self.alphas).min())
        rows, m, spectrum = spectrum_of(rows, how, factors, least)
        alphas = self._alphas(spectrum.d)
        if not spectrum.safe_at(float(alphas[-1])):
            rows, m, spectrum = spectrum_of(rows, how, factors, float(alphas[-1]))
        left_out = leave_one_out(rows, m, spectrum, alphas)
        if left_out.undefined is not None:
            raise DataError(
                f"row {kept[left_out.undefined]} alone determines a coefficient, so at alpha = {alphas[-1]:g} its "
                "leave-one-out error does not exist",
                remedy="use positive alphas, or set cv, say cv=5",
            )
        self._curve(alphas, left_out.mean, left_out.std_error, rows.scale, "Leave-one-out error")
        return m, spectrum, rows

    def _alphas(self, d: Array) -> Array:
        """The grid, largest alpha first."""
        if not isinstance(self.alphas, int | np.integer):
            return _grid(self.alphas)
        return default_grid(d, int(self.alphas))

    def _by_folds(
        self, rows: RidgeRows, how: str, factors: Array, splits: list[tuple[Any, Any]]
    ) -> tuple[Moments | None, RidgeRows]:
        """Errors of every alpha on every fold, from merged moments where the folds are complementary."""
        smallest = min(length_of(train, rows.n) for train, _ in splits)
        merged = how == "primal" and (rows.is_sparse or self.positive or smallest >= rows.p)
        total, parts = None, None
        if merged and is_partition(splits, rows.n) and len(splits) > 1:
            rows, parts, total = moments_of_parts(rows, [test for _, test in splits])
        alphas = self._alphas(self._eigenvalues(rows, total, how, factors))
        if parts is not None:
            coefs = paths_of_folds(rows, parts, splits, alphas, factors, self.positive, self.n_jobs)
        else:

            def path(split: tuple[Any, Any]) -> tuple[Array, Array]:
                part = rows.take(split[0])
                way = route(part, factors, self.positive)
                return solve_path(part, alphas, factors, way, self.positive, self.tol, self.max_iter)[:2]

            coefs = parallel(path, splits, n_jobs=self.n_jobs)
        errors = np.array([held_out_error(rows.take(test), *c) for (_, test), c in zip(splits, coefs, strict=True)])
        weights = np.array([weight_of(rows, test) for _, test in splits])
        if len(splits) > 1:
            mean, error = cv_mean_and_error(errors, weights)
        else:
            mean, error = errors[0], np.full(alphas.size, np.nan)
        self.mse_path_ = errors.T * rows.scale**2
        self._curve(alphas, mean, error, rows.scale, f"{len(splits)}-fold error")
        return total, rows

    def _eigenvalues(self, rows: RidgeRows, total: Moments | None, how: str, factors: Array) -> Array:
        """What the default grid is made from; nothing is computed for a grid that was given."""
        if not isinstance(self.alphas, int | np.integer):
            return np.zeros(0)
        return eigenvalues(rows, total, how, factors)

    def _curve(self, alphas: Array, mean: Array, error: Array, scale: float, what: str) -> None:
        best, simple = one_standard_error(mean, np.nan_to_num(error))
        self.alphas_ = alphas
        self.cv_curve_ = Curve(
            x=alphas,
            estimate=mean * scale**2,
            std_error=error * scale**2,
            x_name="alpha",
            y_name="mean squared error",
            marks={"min": float(alphas[best]), "1se": float(alphas[simple])},
            rule=float((mean[best] + np.nan_to_num(error[best])) * scale**2),
            log_x=bool(alphas[-1] > 0),
            title=f"{what} of ridge regression",
        )


def ridge_path(
    X: Any,
    y: Any,
    alphas: Any = None,
    *,
    sample_weight: Any = None,
    fit_intercept: bool = True,
    penalty_factors: Any = None,
    positive: bool = False,
    tol: float = 1e-12,
    max_iter: int | None = None,
) -> Path:
    """Coefficients of one target for every alpha, from the largest to the smallest, from one decomposition.

    `alphas` is the grid or its size (None: 100); the grid is that of `RidgeCV`. The other parameters are those of
    `Ridge`: `fit_intercept`, `penalty_factors`, `positive`, and `tol` and `max_iter` for large sparse X.

    >>> path = ridge_path([[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0], alphas=[0, 5, 15])
    >>> path.x, path.coefficients
    (array([15.,  5.,  0.]), array([[0.5, 1. , 2. ]]))
    """
    model = RidgeCV(
        100 if alphas is None else alphas,
        fit_intercept=fit_intercept,
        penalty_factors=penalty_factors,
        positive=positive,
        tol=tol,
        max_iter=max_iter,
    )
    rows, factors, _, y, _ = model._rows(X, y, sample_weight)
    if y.ndim > 1:
        raise DataError("ridge_path takes one target", remedy="call it once per column of y")
    how = route(rows, factors, positive)
    grid = model._alphas(model._eigenvalues(rows, None, how, factors))
    coef, intercept, _ = solve_path(rows, grid, factors, how, positive, tol, max_iter)
    return Path(
        x=grid,
        coefficients=coef[:, 0] * rows.scale,
        intercepts=intercept[0] * rows.scale,
        names=model._feature_names(),
        log_x=bool(grid[-1] > 0),
        title="Ridge path",
    )


def _size_of(solve: Callable[[float], tuple[Array, Array, int]], factors: Array) -> Callable[[float], float]:
    return lambda alpha: float(factors @ solve(alpha)[0][:, 0, 0] ** 2)


def _in_units(budget: Array, rows: RidgeRows) -> Array:
    """Budgets for targets divided by `rows.scale`; one beyond all numbers does not bind."""
    with np.errstate(over="ignore"):
        return budget / rows.scale / rows.scale


def _grid(alphas: Any) -> Array:
    """A given grid, largest first."""
    grid = non_negative(alphas, "alphas", None, "alpha")
    if grid.size == 0:
        raise ParameterError("alphas is empty", remedy="give at least one alpha")
    return np.sort(grid)[::-1].copy()
