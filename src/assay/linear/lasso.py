"""Lasso and elastic net: estimators, whole paths, the constrained form and cross-validation.

    minimise  1/(2 sum w) sum_i w_i (y_i - b0 - x_i'b)^2 + alpha * Omega(b),
    Omega(b) = l1_ratio * sum_j f_j |b_j| + (1 - l1_ratio)/2 * sum_j f_j b_j^2        (lasso: l1_ratio = 1)

as in scikit-learn; f are penalty factors, used as given. Other scalings of the same problem:

    RSS + lambda |b|_1            lambda = 2 n alpha
    glmnet                        the same; but it scales the factors to sum to p and standardises the columns first
    min RSS s.t. Omega(b) <= nu   nu = `budget_` of the fit at alpha, and alpha = `alpha_` of the fit with budget = nu

Solved by coordinate descent with soft thresholding, finished by Newton steps on the face of the signs found (see
`_coordinate`), and certified by the duality gap. Cost: n p^2 once for p <= n (a Gram matrix serves the whole path),
else O(n p) per few penalties plus the work on the active columns; large sparse tables are never made dense.

Tibshirani (1996), JRSS B 58, 267-288; Zou and Hastie (2005), JRSS B 67, 301-320; Friedman, Hastie and Tibshirani
(2010), J. Stat. Software 33(1).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from assay.base import Constraint, array_like, boolean, integer, jobs, none, one_of, real
from assay.callbacks import fit_task
from assay.errors import ConvergenceWarning, ParameterError
from assay.linear._folds import Line, applies, held_out, refit_the_rest, trusted
from assay.linear._lasso_budget import within_budget
from assay.linear._lasso_cv import CrossValidation, alpha_grid, cross_validate, falls_beyond
from assay.linear._lasso_design import Design, Solutions, from_moments, from_rows
from assay.linear._lasso_model import SHARED, Penalised
from assay.numerics.moments import Moments
from assay.resampling import (
    cv_mean_and_error,
    folds,
    folds_constraint,
    group_codes,
    one_standard_error,
    whole_groups,
)
from assay.results import Curve, Path
from assay.state import Specs, facts

__all__ = ["ElasticNet", "ElasticNetCV", "Lasso", "LassoCV", "enet_path", "lasso_path"]

ALPHAS = integer(1) | array_like
UNIT = real(0, 1)
RATIOS = UNIT | Constraint(
    lambda value: isinstance(value, list | tuple | np.ndarray) and len(value) > 0 and all(map(UNIT.accepts, value)),
    "a list of such numbers",
)


class _OnePenalty(Penalised):
    """Lasso and elastic net at one alpha, or within one budget."""

    constraints = {**SHARED, "alpha": real(0) | none, "budget": none | real(0), "warm_start": boolean}

    def _ratio(self) -> float:
        return 1.0

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        X, y, w, factors = self._table(X, y, sample_weight)
        how, l1_ratio = self._settings(), self._ratio()
        self._one_of_alpha_and_budget()
        design = from_rows(X, y, w, factors, self.fit_intercept)
        start = self.coef_ if self.warm_start and getattr(self, "coef_", np.empty(0)).shape == factors.shape else None
        if self.budget is None:
            solutions = design.solve(np.array([float(self.alpha)]), l1_ratio, how, start)
        else:
            solutions = within_budget(design, float(self.budget), l1_ratio, how)
        self._keep(solutions, 0, l1_ratio, factors)
        self.n_iter_ = max(1, int(solutions.sweeps[0]))
        self._warn(solutions, f"{type(self).__name__}.fit")
        return self

    def predict_folds(self, X: Any, y: Any, splits: Any, *, sample_weight: Any = None) -> list[np.ndarray] | None:
        """Predictions of the test rows of every (train, test) pair of `splits`, from fold moments.

        They are those of a clone fitted to the training rows, to rounding; None where moments cannot give them
        (splits that are no partitions, sparse X, p > n, alpha = 0, random selection), and this model stays as it is.

        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0]
        >>> Lasso(alpha=0.25).predict_folds(X, y, [([2, 3], [0, 1]), ([0, 1], [2, 3])])
        [array([3.5, 4.5]), array([3.5, 4.5])]
        """
        if self.selection == "random" or (self.budget is None and self.alpha == 0) or not applies(self, X, y):
            return None
        model = clone(self)
        clean, y, w, factors = model._table(X, y, sample_weight)
        model._one_of_alpha_and_budget()
        how, l1_ratio = model._settings(), model._ratio()

        def line(m: Moments) -> Line | None:
            design = from_moments(m, factors, self.fit_intercept)
            if design is None:
                return None
            if self.budget is None:
                found = design.solve(np.array([float(self.alpha)]), l1_ratio, how)
            else:
                found = within_budget(design, float(self.budget), l1_ratio, how)
            coef = found.coefs[0]
            return (coef, float(found.intercepts[0])) if found.converged[0] and trusted(m, coef) else None

        found = held_out(clean, y, w, splits, self.fit_intercept, line)
        return refit_the_rest(self, X, clean, y, w, splits, found)

    def _one_of_alpha_and_budget(self) -> None:
        name = type(self).__name__
        if self.budget is None and self.alpha is None:
            raise ParameterError(f"{name}: alpha and budget are both None", remedy="pass one of them")
        if self.budget is not None and self.alpha not in (None, 1.0):
            raise ParameterError(
                f"{name}: alpha = {self.alpha!r} and budget = {self.budget!r} are both given",
                remedy="leave alpha at 1.0 or set it to None when you give a budget",
            )


class Lasso(_OnePenalty):
    """Least squares with an l1 penalty, which sets some coefficients to exactly zero.

        1/(2 sum w) sum_i w_i (y_i - b0 - x_i'b)^2 + alpha sum_j f_j |b_j|

    Unlike scikit-learn's, the default tolerance is 1e-6 (not 1e-4) and dense fits end at rounding accuracy.

    | parameter       | default  | range                        | meaning                                              |
    |-----------------|----------|------------------------------|------------------------------------------------------|
    | alpha           | 1.0      | >= 0, None with a budget     | weight of the penalty; 0 is least squares            |
    | budget          | None     | None or >= 0                 | constrained form: penalty sum <= budget; no alpha    |
    | fit_intercept   | True     | True, False                  | whether b0 is fitted (never penalised)               |
    | penalty_factors | None     | p numbers >= 0               | f; 0 leaves a column free of penalty and of sign     |
    | positive        | False    | True, False                  | penalised coefficients may not be negative           |
    | selection       | "cyclic" | "cyclic", "random", "greedy" | order of coordinates; the answer is the same         |
    | tol             | 1e-6     | >= 0                         | duality gap <= tol * mean (y - mean y)^2             |
    | max_iter        | 1000     | >= 1                         | most sweeps                                          |
    | warm_start      | False    | True, False                  | start from the last fit's coefficients               |
    | random_state    | None     | seed                         | for selection="random"                               |

    Fitted: `coef_`, `sparse_coef_`, `intercept_`, `alpha_`, `budget_` (the penalty sum, so that `budget=budget_` gives
    the same fit), `dual_gap_` (an upper bound on how far the objective is from its minimum), `n_iter_`.

    Tibshirani (1996), JRSS B 58, 267-288.

    >>> X = [[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, 1.0]]
    >>> model = Lasso(alpha=0.5).fit(X, [2.0, 4.0, 6.0, 8.0])
    >>> model.coef_.round(6).tolist(), round(model.intercept_, 6)
    ([1.6, 0.0], 1.0)
    >>> Lasso(budget=1.6).fit(X, [2.0, 4.0, 6.0, 8.0]).alpha_.__round__(6)
    0.5
    """

    def __init__(
        self,
        alpha: float | None = 1.0,
        *,
        budget: float | None = None,
        fit_intercept: bool = True,
        penalty_factors: Any = None,
        positive: bool = False,
        selection: str = "cyclic",
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.budget = budget
        self.fit_intercept = fit_intercept
        self.penalty_factors = penalty_factors
        self.positive = positive
        self.selection = selection
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X, targets y and optional weights."""
        return self._fit(X, y, sample_weight)


class ElasticNet(_OnePenalty):
    """Least squares with a mixture of the l1 and the squared l2 penalty: sparse, and stable under correlation.

        1/(2 sum w) sum_i w_i (y_i - b0 - x_i'b)^2 + alpha sum_j f_j (l1_ratio |b_j| + (1 - l1_ratio)/2 b_j^2)

    | parameter       | default  | range                        | meaning                                              |
    |-----------------|----------|------------------------------|------------------------------------------------------|
    | alpha           | 1.0      | >= 0, None with a budget     | weight of the penalty; 0 is least squares            |
    | l1_ratio        | 0.5      | [0, 1]                       | share of the l1 penalty: 1 is the lasso, 0 is ridge  |
    | budget          | None     | None or >= 0                 | constrained form: penalty sum <= budget; no alpha    |
    | fit_intercept   | True     | True, False                  | whether b0 is fitted (never penalised)               |
    | penalty_factors | None     | p numbers >= 0               | f; 0 leaves a column free of penalty and of sign     |
    | positive        | False    | True, False                  | penalised coefficients may not be negative           |
    | selection       | "cyclic" | "cyclic", "random", "greedy" | order of coordinates; the answer is the same         |
    | tol             | 1e-6     | >= 0                         | duality gap <= tol * mean (y - mean y)^2             |
    | max_iter        | 1000     | >= 1                         | most sweeps                                          |
    | warm_start      | False    | True, False                  | start from the last fit's coefficients               |
    | random_state    | None     | seed                         | for selection="random"                               |

    The fitted attributes are those of `Lasso`.

    Zou and Hastie (2005), JRSS B 67, 301-320.

    >>> X = [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]
    >>> ElasticNet(alpha=0.1).fit(X, [2.0, 4.0, 6.0, 8.0]).coef_.round(4).tolist()
    [0.9608, 0.9608]
    """

    constraints = {**_OnePenalty.constraints, "l1_ratio": UNIT}

    def __init__(
        self,
        alpha: float | None = 1.0,
        *,
        l1_ratio: float = 0.5,
        budget: float | None = None,
        fit_intercept: bool = True,
        penalty_factors: Any = None,
        positive: bool = False,
        selection: str = "cyclic",
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.budget = budget
        self.fit_intercept = fit_intercept
        self.penalty_factors = penalty_factors
        self.positive = positive
        self.selection = selection
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    def _ratio(self) -> float:
        return float(self.l1_ratio)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X, targets y and optional weights."""
        return self._fit(X, y, sample_weight)


class _Chosen(Penalised):
    """Alpha (and l1_ratio) chosen by cross-validation along whole paths."""

    state: ClassVar[Specs] = {
        **facts("l1_ratio_", "alpha_min_", "alpha_1se_", "alphas_", "mse_path_", "cv_curve_", "path_"),
    }

    constraints = {
        **SHARED,
        "alphas": ALPHAS,
        "eps": real(0, 1, open_low=True, open_high=True),
        "cv": none | folds_constraint,
        "rule": one_of("min", "1se"),
        "n_jobs": jobs,
    }

    fit_steps = "fold"

    def _ratios(self) -> list[float]:
        return [1.0]

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> Self:
        X, y, w, factors = self._table(X, y, sample_weight)
        how, ratios, together = self._settings(), self._ratios(), group_codes(groups, X.shape[0])
        splits = folds(whole_groups(5 if self.cv is None else self.cv, together), X, y, together)
        result = cross_validate(
            X, y, w, factors, splits, ratios, self.alphas, self.eps, how, self.fit_intercept, self.n_jobs,
            fit_task(self, len(splits), sequential=False),
        )  # fmt: skip
        curves = [_summary(result, errors) for errors in result.errors]
        chosen = int(np.argmin([mean[best] for mean, _, best, _ in curves]))
        mean, error, best, simplest = curves[chosen]
        alphas = result.grids[chosen]
        full = result.design.solve(alphas, ratios[chosen], how)
        at = simplest if self.rule == "1se" else best
        self._keep(full, at, ratios[chosen], factors)
        self.l1_ratio_ = ratios[chosen]
        self.alpha_min_, self.alpha_1se_ = float(alphas[best]), float(alphas[simplest])
        self.n_iter_ = max(1, int(full.sweeps[at]))
        many = len(ratios) > 1
        self.alphas_ = np.array(result.grids) if many else alphas
        self.mse_path_ = np.array([errors.T for errors in result.errors]) if many else result.errors[0].T
        marks = {"min": self.alpha_min_, "1se": self.alpha_1se_}
        title = type(self).__name__
        self.cv_curve_ = Curve(
            alphas, mean, "alpha", "mean squared error", std_error=error, marks=marks,
            rule=float(mean[best] + error[best]), log_x=True, title=f"{title}, {len(result.weights)} folds",
        )  # fmt: skip
        self.path_ = _path_of(full, self._feature_names(), title.removesuffix("CV") + " path", marks)
        self._warn(full, f"{type(self).__name__}.fit")
        automatic = isinstance(self.alphas, int | np.integer)
        if automatic and falls_beyond(alphas, mean, error):
            warnings.warn(
                f"the cross-validated error still falls at the smallest alpha, {alphas[-1]:.3g}, so alpha_min_ is the "
                "end of the grid and not the minimum; lower eps",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self


def _summary(result: CrossValidation, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Mean error, its standard error, and the positions of the minimum and of the one-standard-error choice."""
    if len(errors) < 2:  # one split has no spread
        best = int(np.argmin(errors[0]))
        return errors[0], np.full(errors.shape[1], np.nan), best, best
    mean, error = cv_mean_and_error(errors, result.weights)
    return mean, error, *one_standard_error(mean, error)


class LassoCV(_Chosen):
    """The lasso with alpha chosen by K-fold cross-validation, the whole curve with its standard errors kept.

    | parameter       | default  | range                        | meaning                                              |
    |-----------------|----------|------------------------------|------------------------------------------------------|
    | alphas          | 100      | >= 1 or an array             | grid size, or the grid itself                        |
    | eps             | 1e-3     | in (0, 1)                    | smallest alpha of the grid as a share of the largest |
    | cv              | None     | None (5), >= 2, splitter     | folds                                                |
    | rule            | "min"    | "min", "1se"                 | best alpha, or the largest within one standard error |
    | fit_intercept   | True     | True, False                  | whether b0 is fitted (never penalised)               |
    | penalty_factors | None     | p numbers >= 0               | f; 0 leaves a column free of penalty and of sign     |
    | positive        | False    | True, False                  | penalised coefficients may not be negative           |
    | selection       | "cyclic" | "cyclic", "random", "greedy" | order of coordinates; the answer is the same         |
    | tol             | 1e-6     | >= 0                         | duality gap <= tol * mean (y - mean y)^2             |
    | max_iter        | 1000     | >= 1                         | most sweeps                                          |
    | n_jobs          | None     | non-zero or None             | threads over folds; never changes the result         |
    | random_state    | None     | seed                         | for selection="random"                               |

    Where n >= p the folds' training problems are merged from one pass over the rows. Fitted, beside those of `Lasso`:
    `alpha_min_`, `alpha_1se_`, `alphas_`, `mse_path_` (alphas x folds), `cv_curve_` (a `Curve`; folds count by the
    weight of their rows, so unequal folds differ a little from the plain mean), `path_` (a `Path` on all rows).

    Friedman, Hastie and Tibshirani (2010), J. Stat. Software 33(1).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 5)); y = 3 * X[:, 0] + rng.standard_normal(80)
    >>> model = LassoCV(rule="1se").fit(X, y)
    >>> np.flatnonzero(model.coef_).tolist(), bool(model.alpha_1se_ > model.alpha_min_)
    ([0], True)
    """

    def __init__(
        self,
        *,
        alphas: Any = 100,
        eps: float = 1e-3,
        cv: Any = None,
        rule: str = "min",
        fit_intercept: bool = True,
        penalty_factors: Any = None,
        positive: bool = False,
        selection: str = "cyclic",
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.alphas = alphas
        self.eps = eps
        self.cv = cv
        self.rule = rule
        self.fit_intercept = fit_intercept
        self.penalty_factors = penalty_factors
        self.positive = positive
        self.selection = selection
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose alpha and fit to rows X, targets y and optional weights; rows of a group stay in one fold."""
        return self._fit(X, y, sample_weight, groups)


class ElasticNetCV(_Chosen):
    """The elastic net with alpha, and l1_ratio from a list, chosen by K-fold cross-validation.

    | parameter       | default  | range                        | meaning                                              |
    |-----------------|----------|------------------------------|------------------------------------------------------|
    | l1_ratio        | 0.5      | [0, 1] or a list of such     | share of the l1 penalty; of a list the best is taken |
    | alphas          | 100      | >= 1 or an array             | grid size, or the grid itself                        |
    | eps             | 1e-3     | in (0, 1)                    | smallest alpha of the grid as a share of the largest |
    | cv              | None     | None (5), >= 2, splitter     | folds                                                |
    | rule            | "min"    | "min", "1se"                 | best alpha, or the largest within one standard error |
    | fit_intercept   | True     | True, False                  | whether b0 is fitted (never penalised)               |
    | penalty_factors | None     | p numbers >= 0               | f; 0 leaves a column free of penalty and of sign     |
    | positive        | False    | True, False                  | penalised coefficients may not be negative           |
    | selection       | "cyclic" | "cyclic", "random", "greedy" | order of coordinates; the answer is the same         |
    | tol             | 1e-6     | >= 0                         | duality gap <= tol * mean (y - mean y)^2             |
    | max_iter        | 1000     | >= 1                         | most sweeps                                          |
    | n_jobs          | None     | non-zero or None             | threads over folds; never changes the result         |
    | random_state    | None     | seed                         | for selection="random"                               |

    The fitted attributes are those of `LassoCV`, and `l1_ratio_`; with a list, `alphas_` and
    `mse_path_` have one more axis in front. An automatic grid needs l1_ratio > 0.

    Zou and Hastie (2005), JRSS B 67, 301-320.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 5)); y = 3 * X[:, 0] + rng.standard_normal(80)
    >>> ElasticNetCV(l1_ratio=[0.2, 0.9], alphas=20).fit(X, y).l1_ratio_
    0.9
    """

    constraints = {**_Chosen.constraints, "l1_ratio": RATIOS}

    def __init__(
        self,
        *,
        l1_ratio: Any = 0.5,
        alphas: Any = 100,
        eps: float = 1e-3,
        cv: Any = None,
        rule: str = "min",
        fit_intercept: bool = True,
        penalty_factors: Any = None,
        positive: bool = False,
        selection: str = "cyclic",
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.l1_ratio = l1_ratio
        self.alphas = alphas
        self.eps = eps
        self.cv = cv
        self.rule = rule
        self.fit_intercept = fit_intercept
        self.penalty_factors = penalty_factors
        self.positive = positive
        self.selection = selection
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _ratios(self) -> list[float]:
        return [float(ratio) for ratio in np.atleast_1d(self.l1_ratio)]

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose alpha and l1_ratio and fit to rows X, targets y and weights; rows of a group stay in one fold."""
        return self._fit(X, y, sample_weight, groups)


def lasso_path(X: Any, y: Any, **options: Any) -> Path:
    """The lasso for a whole grid of alphas: a `Path` with coefficients (p, k), intercepts and duality gaps.

    Options as in `enet_path`, but for l1_ratio.

    >>> path = lasso_path([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], alphas=[0.5, 0.1])
    >>> path.coefficients.round(6).tolist()
    [[0.25, 0.85]]
    """
    if "l1_ratio" in options:
        raise ParameterError("lasso_path has no l1_ratio", remedy="call enet_path")
    return _path(X, y, "Lasso path", l1_ratio=1.0, **options)


def enet_path(X: Any, y: Any, *, l1_ratio: float = 0.5, **options: Any) -> Path:
    """The elastic net for a whole grid of alphas.

    | option        | default | meaning                                                                        |
    |---------------|---------|--------------------------------------------------------------------------------|
    | alphas        | 100     | grid size, or the grid itself (any order; the path runs from the largest down) |
    | eps           | 1e-3    | smallest alpha of the grid as a share of the largest                           |
    | sample_weight | None    | one weight per row                                                             |

    and `fit_intercept` (True, so the data need not be centred), `penalty_factors`, `positive`, `selection`, `tol`,
    `max_iter`, `random_state` as in `ElasticNet`.

    >>> enet_path([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], l1_ratio=0.5, alphas=3).coefficients.shape
    (1, 3)
    """
    return _path(X, y, "Elastic net path", l1_ratio=l1_ratio, **options)


class _PathGate(ElasticNetCV):
    """Checks what the path functions are given; the same names and ranges as the estimators'."""

    constraints = {**ElasticNetCV.constraints, "l1_ratio": UNIT}


def _path(X: Any, y: Any, title: str, *, sample_weight: Any = None, **options: Any) -> Path:
    unknown = set(options) - set(_PathGate().get_params()) | (set(options) & {"cv", "rule", "n_jobs"})
    if unknown:
        raise ParameterError(f"a path has no option {sorted(unknown)[0]!r}", remedy="see enet_path for the options")
    gate = _PathGate(**options)
    X, y, w, factors = gate._table(X, y, sample_weight)
    how, ratio = gate._settings(), float(gate.l1_ratio)
    design: Design = from_rows(X, y, w, factors, gate.fit_intercept)
    solutions = design.solve(alpha_grid(design, gate.alphas, gate.eps, ratio, how.positive), ratio, how)
    gate._warn(solutions, f"the {title.lower()}")
    return _path_of(solutions, gate._feature_names(), title, {})


def _path_of(solutions: Solutions, names: list[str], title: str, marks: Mapping[str, float]) -> Path:
    return Path(
        solutions.alphas, solutions.coefs.T, solutions.intercepts, names, marks=marks, dual_gaps=solutions.gaps,
        title=title,
    )  # fmt: skip
