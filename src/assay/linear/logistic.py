"""Logistic regression, without a penalty unless one is asked for.

    P(y = 1 | x) = 1 / (1 + exp(-eta)),  eta = b0 + x'b + offset                        two classes
    P(y = k | x) = exp(eta_k) / sum_l exp(eta_l),  eta_k = b0_k + x'b_k + offset_k,     K classes, sum_k b_k = 0

    minimise  sum_i w_i (-log P(y_i | x_i)) + (1/C) penalty(b)
    penalty   None: 0;   "l2": (1/2) sum_j f_j b_j^2;   "l1": sum_j f_j |b_j|;
              "elasticnet": sum_j f_j (l1_ratio |b_j| + (1 - l1_ratio)/2 b_j^2)

exp(b_j) is the factor by which one more unit of x_j multiplies the odds. Newton's method needs three to six passes over
the rows (`assay.linear._logistic_newton`); its cost is n p^2 flops a pass. Where a linear rule separates the classes,
no maximum exists: the rule is found, its columns are named, and a finite stand-in is given
(`assay.numerics.separation`).

McCullagh and Nelder (1989), Generalized Linear Models, chapter 4; Hastie, Tibshirani and Friedman, Elements of
Statistical Learning, section 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, boolean, integer, jobs, none, one_of, real, seed
from assay.errors import DataError, ParameterError
from assay.labels import class_labels
from assay.linear._logistic_fit import LikelihoodProblem, Maximum
from assay.linear._logistic_folds import predict_folds
from assay.linear._logistic_inference import (
    Inference,
    check_level,
    inference_of,
    likelihood_ratios,
    nested_test,
    profile_intervals,
    refuse_changed_rows,
)
from assay.linear._logistic_input import SHARED, LogisticModel
from assay.linear._logistic_run import LASSOS, find_maximum, make_problem, refuse_contradictions, tell
from assay.linear._logistic_threshold import ThresholdChoice, choose_threshold
from assay.numerics.separation import Separation
from assay.results import Summary, TestResult, Trace
from assay.state import Specs, facts, left_out, part

__all__ = ["LogisticRegression"]

Array = np.ndarray
REFIT_WORK = 3e8
"""Steps (rows times columns cubed) up to which `summary` refits without every term unasked."""


class LogisticRegression(LogisticModel):
    """Logistic regression for two or more classes, *unpenalised unless a penalty is asked for*, with its inference.

        minimise  sum_i w_i (-log P(y_i | x_i)) + (1/C) penalty(b)

    scikit-learn's class penalises by default (`penalty="l2"`, C = 1); here that is said:
    `LogisticRegression(penalty="l2")`. A C without a penalty is refused, so no penalty is ever lost or gained in
    silence.

    | parameter       | default  | range                            | meaning                                          |
    |-----------------|----------|----------------------------------|--------------------------------------------------|
    | penalty         | None     | None, "l2", "l1", "elasticnet"   | what coefficients pay; intercepts never do       |
    | C               | 1.0      | > 0                              | the penalty is divided by C                      |
    | l1_ratio        | None     | in [0, 1]                        | share of the lasso; required by "elasticnet"     |
    | fit_intercept   | True     | True, False                      | whether b0 is estimated or 0                     |
    | solver          | "newton" | "newton", "gradient", "sgd"      | Newton, batch or stochastic gradient descent     |
    | tol             | None     | > 0 or None                      | largest gradient left per unit of weight, in     |
    |                 |          |                                  | standardised columns; None: 1e-8 (newton), 1e-6  |
    |                 |          |                                  | (gradient), 1e-3 (sgd)                           |
    | max_iter        | None     | >= 1 or None                     | most steps; None: 100 (newton), 10,000 (gradient)|
    |                 |          |                                  | 1,000 (sgd, in epochs; lasso), 500 (firth)       |
    | learning_rate   | None     | > 0 or None                      | step of the descents; None: one that holds       |
    | class_weight    | None     | None, "balanced", dict           | factors on the weights of the rows of each class |
    | penalty_factors | None     | >= 0, one per column             | f_j; 0 leaves column j unpenalised               |
    | firth           | False    | True, False                      | Firth's correction (two classes, no penalty)     |
    | threshold       | 0.5      | in (0, 1)                        | the second class is predicted above it (two      |
    |                 |          |                                  | classes only); `cut_` is the same for the        |
    |                 |          |                                  | linear part                                      |
    | inference       | True     | True, False                      | keep the covariance matrix and the rows, which   |
    |                 |          |                                  | `summary` needs                                  |
    | random_state    | None     | seed                             | order of the rows in sgd                         |
    | n_jobs          | None     | whole number or None             | threads; never changes the answer                |

    Fitted: `classes_`, `coef_` (1, p) or (K, p) and `intercept_` as in scikit-learn (K classes: rows that sum to zero),
    `cut_`, `n_iter_`, `trace_` (the objective, one value per step), `deviance_`, `null_deviance_`, `aic_`, `bic_`,
    `std_errors_` and `covariance_` (intercept first; K classes: each against the first), `separation_` (the rule that
    separates the classes, or None), `rank_`. Weights are repetitions: a row of weight w is w rows.

    *Separation.* If a linear rule separates the classes, wholly or in part, the likelihood has no maximum and some
    coefficients would be infinite. A `SeparationWarning` names the columns, and the fit is that of a ridge
    penalty of 1e-4 on standardised columns, which is unique and finite; standard errors do not exist and are NaN. Use
    `firth=True` (two classes) for estimates and tests that do exist, or `penalty="l2"` for a stronger penalty.
    *Collinear columns* are named in a `CollinearityWarning` and the coefficients of least norm are given.

    `fit` keeps a reference to its rows, for the refits of likelihood ratio tests in `summary`: copies and files of the
    model do without, and `inference=False` keeps none.

    Reference: McCullagh and Nelder (1989), Generalized Linear Models; Firth (1993), Biometrika 80, 27-38.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], ["no", "no", "yes", "no", "yes", "yes"]
    >>> model = LogisticRegression().fit(X, y)
    >>> model.coef_.round(4).tolist(), model.intercept_.round(4).tolist()
    ([[1.214]], [-3.0351])
    >>> model.predict_proba([[2.5]]).round(4).tolist()
    [[0.5, 0.5]]
    >>> model.summary().to_frame().loc["x0", ["std_error", "odds_ratio"]].round(4).tolist()
    [0.9126, 3.367]
    """

    state: ClassVar[Specs] = {
        "cut_": real(),
        "rank_": integer(0),
        "separation_": none | part(Separation),
        "trace_": part(Trace),
        "_inference": none | part(Inference),
        "_training": left_out(),
        **facts("deviance_", "null_deviance_", "aic_", "bic_"),
    }

    constraints: ClassVar[Mapping[str, Constraint]] = {
        **SHARED,
        "penalty": one_of(None, "l2", "l1", "elasticnet"),
        "C": real(0, open_low=True),
        "l1_ratio": none | real(0, 1),
        "solver": one_of("newton", "gradient", "sgd"),
        "tol": none | real(0, open_low=True),
        "max_iter": none | integer(1),
        "learning_rate": none | real(0, open_low=True),
        "firth": boolean,
        "threshold": real(0, 1, open_low=True, open_high=True),
        "inference": boolean,
        "random_state": seed,
        "n_jobs": jobs,
    }

    def __init__(
        self,
        *,
        penalty: str | None = None,
        C: float = 1.0,
        l1_ratio: float | None = None,
        fit_intercept: bool = True,
        solver: str = "newton",
        tol: float | None = None,
        max_iter: int | None = None,
        learning_rate: float | None = None,
        class_weight: Any = None,
        penalty_factors: Any = None,
        firth: bool = False,
        threshold: float = 0.5,
        inference: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.class_weight = class_weight
        self.penalty_factors = penalty_factors
        self.firth = firth
        self.threshold = threshold
        self.inference = inference
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit to classes y; a row of weight w counts as w rows, and its offset is added to its linear part.

        `offset` has one number per row for two classes, and a column per class (in sorted order) for more.
        """
        self._check_parameters()
        refuse_contradictions(self)
        problem = make_problem(self, self._table(X, y, sample_weight, offset, order="C"))
        found = find_maximum(self, problem)
        self._keep(problem, found)
        tell(self, found, problem.X.shape[1])
        return self

    @property
    def _cut(self) -> float:
        return self.cut_

    def predict_folds(
        self, X: Any, y: Any, splits: Any, *, sample_weight: Any = None, method: str = "predict"
    ) -> list[Array] | None:
        """Answers for the test rows of every (train, test) pair of `splits`, each from the fit of all rows.

        They are those of a clone fitted to the training rows, to the same tolerance; `method` is "predict" or
        "predict_proba". None where a training part lacks a class, and for lassos, Firth's correction, descents and
        collinear columns; this model stays as it is.

        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 1, 0, 1, 0, 1]
        >>> splits = [([0, 1, 2, 3], [4, 5]), ([2, 3, 4, 5], [0, 1])]
        >>> [part.round(3).tolist() for part in LogisticRegression().predict_folds(X, y, splits)]
        [[1, 1], [0, 0]]
        """
        return predict_folds(self, X, y, splits, sample_weight, method)

    # ------------------------------------------------------------------------------- inference

    def summary(self, level: float = 0.95, likelihood_ratio: bool | None = None, intervals: str = "wald") -> Summary:
        """Coefficients, standard errors, tests, intervals and odds ratios under deviance, AIC, BIC and pseudo R2.

        | parameter        | default | range             | meaning                                                    |
        |------------------|---------|-------------------|------------------------------------------------------------|
        | level            | 0.95    | (0, 1)            | of the intervals                                           |
        | likelihood_ratio | None    | None, True, False | a column `lr_p_value` beside Wald's `p_value`: twice the   |
        |                  |         |                   | fall of the log-likelihood without the term against        |
        |                  |         |                   | chi-squared (R's `drop1(test="LRT")`); with Firth's        |
        |                  |         |                   | correction that of the penalised one with the term held at |
        |                  |         |                   | zero (R's logistf). One refit per term; None: where the    |
        |                  |         |                   | training rows are at hand and it takes about a second      |
        | intervals        | "wald"  | "wald", "profile" | limits from standard errors, or where the (penalised)      |
        |                  |         |                   | profile likelihood has fallen far enough (two classes, no  |
        |                  |         |                   | penalty), about twenty refits per term                     |

        Near separation Wald's tests lose their power (Hauck and Donner 1977, JASA 72, 851-853) and the others do not.
        """
        check_is_fitted(self)
        level = check_level(level)
        if intervals not in ("wald", "profile"):
            raise ParameterError(f"intervals = {intervals!r} is out of range", remedy="it must be 'wald' or 'profile'")
        extra: dict[str, Array] = {}
        if self._refits_are_cheap() if likelihood_ratio is None else likelihood_ratio:
            problem = self._rows_of_fit("a likelihood ratio test")
            p_values = likelihood_ratios(problem, self._inference, bool(self.firth))
            extra["lr_p_value"] = np.tile(p_values, len(self.classes_) - 1)
        if intervals == "profile":
            problem = self._rows_of_fit("a profile interval")
            if len(self.classes_) > 2:
                raise ParameterError("profile intervals are for two classes", remedy="use intervals='wald'")
            extra["lower"], extra["upper"] = profile_intervals(problem, self._inference, level, bool(self.firth))
        return self._inference.summary(self._feature_names(), self.classes_, level, extra)

    def likelihood_ratio_test(self, other: LogisticRegression) -> TestResult:
        """Whether the larger of two nested fits to the same rows explains more than chance: 2 (l1 - l0), chi-squared.

        >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0], [4.0, 0.0], [5.0, 1.0], [2.0, 1.0]])
        >>> y = [0, 0, 1, 0, 0, 1, 1]
        >>> large, small = LogisticRegression().fit(X, y), LogisticRegression().fit(X[:, :1], y)
        >>> print(large.likelihood_ratio_test(small))
        Likelihood ratio test: statistic 0.0040663 (df 1), p = 0.949
        """
        check_is_fitted(self)
        if not isinstance(other, LogisticRegression):
            raise ParameterError(
                f"a {type(other).__name__} has no likelihood to compare", remedy="pass a fit of this kind"
            )
        check_is_fitted(other)
        if not np.array_equal(self.classes_, other.classes_):
            raise DataError("the two fits have different classes", remedy="fit both to the same rows")
        columns = set(self._feature_names()), set(other._feature_names())
        return nested_test(self._inference, other._inference, columns)

    def best_threshold(self, X: Any, y: Any, cost: Any, sample_weight: Any = None) -> ThresholdChoice:
        """The threshold of least mean cost on the rows (X, y), beside the theoretical one.

        cost[k][j] is the cost of deciding class j where class k is true. Use rows that were not fitted.

        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> choice = LogisticRegression().fit(X, y).best_threshold(X, y, [[0, 1], [5, 0]])
        >>> round(choice.theoretical, 4), round(choice.cost, 4)
        (0.1667, 0.1667)
        """
        probability = self.predict_proba(X)
        if probability.shape[1] > 2:
            raise ParameterError("a threshold is for two classes", remedy="use assay.bayes.BayesRule for more")
        labels = class_labels(y, len(probability))
        known = np.isin(labels, self.classes_)
        if not known.all():
            row = int(np.argmin(known))
            raise DataError(
                f"y contains {labels.tolist()[row]!r} in row {row}, a class that does not occur in the training rows",
                remedy="drop that row",
            )
        w = self._weights(sample_weight, len(labels))
        w = np.ones(len(labels)) if w is None else w
        return choose_threshold(probability[:, 1], labels == self.classes_[1], w, cost)

    @property
    def std_errors_(self) -> Array:
        """Standard errors of intercept (if fitted) and slopes; K classes: a row for each after the first."""
        check_is_fitted(self)
        errors = self._inference.std_errors()[:, 0 if self.fit_intercept else 1 :]
        return errors[0] if len(errors) == 1 else errors

    @property
    def covariance_(self) -> Array:
        """Covariance matrix of intercept (if fitted) and slopes; K classes: of all K - 1 against the first."""
        check_is_fitted(self)
        V = self._inference.covariance
        if V is None:
            raise AttributeError("this fit has no covariance matrix: " + " ".join(self._inference.notes))
        if self.fit_intercept:
            return V.copy()
        keep = np.arange(len(V)) % (self.n_features_in_ + 1) > 0
        return V[np.ix_(keep, keep)]

    # ------------------------------------------------------------------------------- what is kept

    def _keep(self, problem: LikelihoodProblem, found: Maximum) -> None:
        """Set the fitted attributes."""
        bad = ~np.isfinite(found.coef).all(axis=0)
        if bad.any():
            name = problem.names[int(np.argmax(bad))]
            what = f"the coefficient of column {name!r} overflows because its values are too small"
            raise DataError(what, remedy="rescale the column")
        self.coef_, self.intercept_ = found.coef, found.intercept
        self.cut_ = float(special.logit(self.threshold))
        self.n_iter_ = found.n_iter
        self.rank_, self.separation_ = found.rank, found.separation
        what = "duality gap" if self.penalty in LASSOS else "largest gradient"
        message = f"the {what} is {found.largest_gradient:.2g} per unit of weight"
        self.trace_ = Trace(np.array(found.losses), found.converged, message)
        self._inference = inference_of(self, problem, found)
        # How many threads there were is no property of the fit; refits ask the setting again.
        self._training = replace(problem, n_jobs=None) if self.inference else None
        facts = self._inference.facts()
        self.deviance_, self.null_deviance_ = facts["deviance"], facts["null deviance"]
        self.aic_, self.bic_ = facts["AIC"], facts["BIC"]

    def _refits_are_cheap(self) -> bool:
        """Whether one refit per term is possible and soon done."""
        if self._training is None or self.penalty is not None or self.separation_ is not None:
            return False
        n, p = self._training.X.shape
        if n * (1 + p) ** 3 * (len(self.classes_) - 1) ** 2 > REFIT_WORK:
            return False
        try:
            self._rows_of_fit("a likelihood ratio test")
        except DataError:  # the rows have changed since
            return False
        return True

    def _rows_of_fit(self, what: str) -> LikelihoodProblem:
        if self.penalty is not None or self.separation_ is not None:
            why = "the classes are separated" if self.penalty is None else "the fit is penalised"
            many = "leave out the columns that separate them" if self.penalty is None else "fit with penalty=None"
            remedy = "use firth=True" if len(self.classes_) == 2 else many
            raise ParameterError(f"{what} needs a maximum of the likelihood, but {why}", remedy=remedy)
        problem = self._training
        if problem is None and not self.inference:
            raise DataError(
                "with inference=False the rows are not stored for a refit", remedy="fit again with inference=True"
            )
        if problem is None:
            what = f"{what} refits the training rows, which are not stored in model files or copies"
            raise DataError(what, remedy="fit again first")
        refuse_changed_rows(problem, self._inference, self.coef_, self.intercept_)
        return replace(problem, tol=min(problem.tol, 1e-8), max_iter=max(problem.max_iter, 100), n_jobs=self.n_jobs)

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        return {**state, "_training": None} if "_training" in state else state
