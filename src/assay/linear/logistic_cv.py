"""Penalised logistic regression along a whole path of penalties, and the penalty chosen by cross-validation.

    minimise  1/(sum w) sum_i w_i (-log P(y_i | x_i)) + alpha sum_j f_j [ l1_ratio |b_j| + (1 - l1_ratio)/2 b_j^2 ]

over intercept and coefficients b, one row of them for two classes and one per class for more (symmetric softmax,
glmnet's "ungrouped" penalty: every coefficient may vanish on its own). Other scalings of the same problem:

    scikit-learn   C = 1 / (alpha sum w)
    glmnet         lambda = alpha; but it standardises the columns first and scales the factors to sum to p

Each answer is certified by a duality gap, alpha by alpha (see `_logistic_path`). Cost: a few passes over the active
columns per alpha, and one over all columns.

Friedman, Hastie and Tibshirani (2010), J. Stat. Software 33(1); Hastie, Tibshirani and Wainwright (2015), Statistical
Learning with Sparsity, chapter 3.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from assay.base import jobs, one_of, seed
from assay.callbacks import fit_task
from assay.errors import ConvergenceWarning, ParameterError
from assay.linear._lasso_cv import falls_beyond
from assay.linear._logistic_input import LogisticTable
from assay.linear._logistic_path import Solutions
from assay.linear._logistic_path_cv import fold_scores
from assay.linear._logistic_path_input import PATH_SHARED, PathModel, problem_of
from assay.numbers import fmt
from assay.resampling import (
    Folds,
    cv_mean_and_error,
    folds,
    folds_constraint,
    group_codes,
    one_standard_error,
    whole_groups,
)
from assay.results import Curve, Path
from assay.state import Specs, facts, part

__all__ = ["LogisticPath", "LogisticRegressionCV", "logistic_path"]

Array = np.ndarray


SCORE_NAMES = {"deviance": "deviance per row", "error": "misclassification rate", "auc": "area under the ROC curve"}


@dataclass(frozen=True, eq=False, repr=False)
class LogisticPath(Path):
    """Coefficients of a penalised logistic regression along a path of alphas.

    Beside what a `Path` has: `coefs` (alphas, rows, p), with one row for two classes (that of the second) and one per
    class for more, `deviance_ratio` (share of the null deviance explained), `df` (non-zero coefficients), `steps`
    (Newton steps) and `classes`. With more than two classes `coefficients` holds the classes' rows one after another
    and `intercepts` one column per class.
    """

    coefs: Array = field(default_factory=lambda: np.empty((0, 1, 0)))
    deviance_ratio: Array = field(default_factory=lambda: np.empty(0))
    df: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    steps: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    classes: Array = field(default_factory=lambda: np.empty(0))

    def to_frame(self) -> pd.DataFrame:
        """One row per alpha: df, deviance ratio, duality gap, intercepts, coefficients."""
        parts = {self.x_name: self.x, "df": self.df, "deviance_ratio": self.deviance_ratio, "dual_gap": self.dual_gaps}
        intercepts = self.intercepts.reshape(self.x.size, -1)
        names = ["intercept"] if intercepts.shape[1] == 1 else [f"intercept [{c}]" for c in self.classes]
        tables = [pd.DataFrame(intercepts, columns=names), pd.DataFrame(self.coefficients.T, columns=list(self.names))]
        return pd.concat([pd.DataFrame(parts), *tables], axis=1)

    def __str__(self) -> str:
        head = f"{self.title} of {len(self.names)} coefficients over {self.x.size} values of {self.x_name}"
        shown = np.unique(np.linspace(0, self.x.size - 1, min(8, self.x.size)).round().astype(int))
        table = self.to_frame().iloc[shown, :4].to_string(index=False, float_format=fmt)
        rule = "-" * max(len(line) for line in [head, *table.splitlines()])
        return "\n".join([head, rule, table])


class LogisticRegressionCV(PathModel):
    """Lasso, elastic-net or ridge logistic regression, its penalty chosen by cross-validation with standard errors.

        1/(sum w) sum_i w_i (-log P(y_i | x_i)) + alpha sum_j f_j [ l1_ratio |b_j| + (1 - l1_ratio)/2 b_j^2 ]

    Unlike scikit-learn's class it is the lasso by default, shuffles its (stratified) folds, chooses by deviance, and
    its grid of alphas (C = 1 / (alpha sum w)) comes from the data.

    | parameter       | default    | range                      | meaning                                              |
    |-----------------|------------|----------------------------|------------------------------------------------------|
    | l1_ratio        | 1.0        | [0, 1]                     | share of the l1 penalty: 1 is the lasso, 0 is ridge  |
    | alphas          | 100        | >= 1 or an array           | grid size, or the grid itself (above 0)              |
    | eps             | None       | in (0, 1)                  | smallest alpha as a share of the largest;            |
    |                 |            |                            | None: 1e-4 for n >= p, 1e-2 for n < p                |
    | cv              | 10         | >= 2, splitter, pairs      | folds; a number means shuffled, stratified folds     |
    | rule            | "min"      | "min", "1se"               | best alpha, or the largest within one standard error |
    | metric          | "deviance" | "deviance", "error", "auc" | what is estimated on test rows (auc: two classes)    |
    | class_weight    | None       | None, "balanced", dict     | factors on the weights of the rows of each class     |
    | penalty_factors | None       | p numbers >= 0             | f; 0 leaves a column unpenalised                     |
    | fit_intercept   | True       | True, False                | whether intercepts are fitted (never penalised)      |
    | tol             | 1e-6       | > 0                        | duality gap <= tol * loss of the intercept alone     |
    | max_iter        | 100        | >= 1                       | most Newton steps per alpha                          |
    | random_state    | 0          | seed                       | how the rows are dealt into folds                    |
    | n_jobs          | None       | non-zero or None           | threads over folds; never changes the result         |

    A grid from the data ends early where glmnet ends it: 99.9% of the deviance explained, or a gain of less than 1e-5
    of it. Weights (and class weights) count in the fits and in the scores of the test rows alike. The curve is
    cv.glmnet's: the mean over folds by their weight, and its standard error.

    Fitted: `classes_`, `coef_` (1, p) or (K, p), `intercept_`, `alpha_`, `C_` (the same penalty in the terms of
    `LogisticRegression`), `alpha_min_`, `alpha_1se_`, `alphas_`, `score_path_` (alphas x folds), `cv_curve_` (a
    `Curve`), `path_` (a `LogisticPath` on all rows), `dual_gap_`, `deviance_ratio_`, `n_iter_`.

    Friedman, Hastie and Tibshirani (2010), J. Stat. Software 33(1).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 6))
    >>> y = np.where(2 * X[:, 0] + rng.logistic(size=200) > 0, "yes", "no")
    >>> model = LogisticRegressionCV(rule="1se").fit(X, y)
    >>> np.flatnonzero(model.coef_[0]).tolist(), bool(model.alpha_1se_ > model.alpha_min_)
    ([0], True)
    """

    fit_steps = "fold"
    state: ClassVar[Specs] = {
        "path_": part(LogisticPath),
        **facts(
            "alpha_",
            "C_",
            "dual_gap_",
            "deviance_ratio_",
            "alpha_min_",
            "alpha_1se_",
            "alphas_",
            "score_path_",
            "cv_curve_",
        ),
    }

    constraints = {
        **PATH_SHARED,
        "cv": folds_constraint,
        "rule": one_of("min", "1se"),
        "metric": one_of(*SCORE_NAMES),
        "random_state": seed,
        "n_jobs": jobs,
    }

    def __init__(
        self,
        *,
        l1_ratio: float = 1.0,
        alphas: Any = 100,
        eps: float | None = None,
        cv: Any = 10,
        rule: str = "min",
        metric: str = "deviance",
        class_weight: Any = None,
        penalty_factors: Any = None,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 100,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.l1_ratio = l1_ratio
        self.alphas = alphas
        self.eps = eps
        self.cv = cv
        self.rule = rule
        self.metric = metric
        self.class_weight = class_weight
        self.penalty_factors = penalty_factors
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, groups: Any = None) -> Self:
        """Choose alpha and fit to classes y; a row of weight w counts as w rows, its offset joins its linear part.

        Rows of a group stay in one fold.
        """
        table = self._table(X, y, sample_weight, offset)
        if self.metric == "auc" and table.K > 2:
            raise ParameterError("metric = 'auc' is for two classes", remedy="use 'deviance' or 'error' for more")
        together = group_codes(groups, table.X.shape[0])
        cv = whole_groups(self.cv, together, stratify=True, random_state=self.random_state)
        if isinstance(cv, int | np.integer):
            cv = Folds(int(cv), stratify=True, random_state=self.random_state)
        splits = folds(cv, table.X, table.codes, together)
        problem, ratio = problem_of(table), float(self.l1_ratio)
        grid = self._grid(problem)
        full = problem.solve(grid, ratio, self.tol, self.max_iter, early_stop=self._automatic())
        scores, weights = fold_scores(
            table, splits, full.alphas, ratio, self.metric, self.tol, self.max_iter, self.n_jobs,
            fit_task(self, len(splits), sequential=False),
        )  # fmt: skip
        mean, error = cv_mean_and_error(scores, weights)
        sign = -1.0 if self.metric == "auc" else 1.0
        best, simplest = one_standard_error(sign * mean, error)
        self._keep(full, simplest if self.rule == "1se" else best, table)
        alphas = full.alphas
        self.alpha_min_, self.alpha_1se_ = float(alphas[best]), float(alphas[simplest])
        self.alphas_, self.score_path_ = alphas, scores.T
        marks = {"min": self.alpha_min_, "1se": self.alpha_1se_}
        self.cv_curve_ = Curve(
            alphas, mean, "alpha", SCORE_NAMES[self.metric], std_error=error, marks=marks,
            rule=float(mean[best] + sign * error[best]), log_x=True,
            title=f"Logistic regression, {_kind(ratio)}, {len(splits)} folds",
        )  # fmt: skip
        self.path_ = _path_of(full, self._feature_names(), self.classes_, ratio, marks)
        self._warn(full, f"{type(self).__name__}.fit")
        if self._automatic() and full.alphas.size == grid.size:
            self._warn_at_the_end(sign * mean, error)
        return self

    def _keep(self, full: Solutions, at: int, table: LogisticTable) -> None:
        self.coef_, self.intercept_ = full.coefs[at].copy(), full.intercepts[at].copy()
        self.alpha_ = float(full.alphas[at])
        total = float(table.codes.size if table.w is None else table.w.sum())
        self.C_ = 1.0 / (self.alpha_ * total)
        self.dual_gap_, self.deviance_ratio_ = float(full.gaps[at]), float(full.deviance_ratio[at])
        self.n_iter_ = max(1, int(full.iterations[at]))

    def _warn_at_the_end(self, mean: Array, error: Array) -> None:
        if falls_beyond(self.alphas_, mean, error):
            warnings.warn(
                f"the cross-validated {SCORE_NAMES[self.metric]} still improves at the smallest alpha, "
                f"{fmt(self.alphas_[-1], 3)}, so alpha_min_ is the end of the grid and not the best; lower eps",
                ConvergenceWarning,
                stacklevel=3,
            )


def logistic_path(
    X: Any,
    y: Any,
    *,
    l1_ratio: float = 1.0,
    alphas: Any = 100,
    eps: float | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    class_weight: Any = None,
    penalty_factors: Any = None,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int = 100,
    early_stop: bool | None = None,
) -> LogisticPath:
    """Penalised logistic regression for a whole grid of alphas: a `LogisticPath`, largest alpha first.

    | option     | default | range             | meaning                                                               |
    |------------|---------|-------------------|-----------------------------------------------------------------------|
    | alphas     | 100     | >= 1 or an array  | grid size, or the grid itself (any order)                             |
    | offset     | None    | (n,) or (n, K)    | added to the linear part                                              |
    | early_stop | None    | True, False, None | end where glmnet ends a path (99.9% of the deviance explained, or a   |
    |            |         |                   | gain below 1e-5 of it); None: unless the alphas are given             |

    and `l1_ratio`, `eps`, `class_weight`, `penalty_factors`, `fit_intercept`, `tol`, `max_iter`, `sample_weight` as in
    `LogisticRegressionCV`.

    >>> path = logistic_path([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"], alphas=[0.1, 0.05], tol=1e-10)
    >>> path.coefficients.round(4).tolist(), path.df.tolist()
    ([[0.5003, 0.691]], [1, 1])
    """
    gate = LogisticRegressionCV(
        l1_ratio=l1_ratio, alphas=alphas, eps=eps, class_weight=class_weight, penalty_factors=penalty_factors,
        fit_intercept=fit_intercept, tol=tol, max_iter=max_iter,
    )  # fmt: skip
    if early_stop not in (None, True, False):
        raise ParameterError(f"early_stop = {early_stop!r} is out of range", remedy="it must be True, False or None")
    table = gate._table(X, y, sample_weight, offset)
    problem = problem_of(table)
    stop = gate._automatic() if early_stop is None else bool(early_stop)
    found = problem.solve(gate._grid(problem), float(l1_ratio), tol, max_iter, early_stop=stop)
    gate._warn(found, "the path")
    return _path_of(found, gate._feature_names(), gate.classes_, float(l1_ratio), {})


def _kind(l1_ratio: float) -> str:
    return "lasso" if l1_ratio == 1 else "ridge" if l1_ratio == 0 else f"elastic net {l1_ratio:g}"


def _path_of(
    found: Solutions, columns: list[str], classes: Array, l1_ratio: float, marks: Mapping[str, float]
) -> LogisticPath:
    A, rows, p = found.coefs.shape
    intercepts = found.intercepts[:, 0] if rows == 1 else found.intercepts
    names = columns if rows == 1 else [f"{name} [{label}]" for label in classes for name in columns]
    return LogisticPath(
        found.alphas, found.coefs.reshape(A, rows * p).T, intercepts, names,
        marks=marks, dual_gaps=found.gaps, title=f"Logistic regression path ({_kind(l1_ratio)})",
        coefs=found.coefs, deviance_ratio=found.deviance_ratio, df=(found.coefs != 0).sum(axis=(1, 2)),
        steps=found.iterations, classes=classes,
    )  # fmt: skip
