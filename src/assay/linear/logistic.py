"""Logistic regression, without a penalty unless one is asked for.

    P(y = 1 | x) = 1 / (1 + exp(-eta)),  eta = b0 + x'b + offset                        two classes
    P(y = k | x) = exp(eta_k) / sum_l exp(eta_l),  eta_k = b0_k + x'b_k + offset_k,     K classes, sum_k b_k = 0

    minimise  sum_i w_i (-log P(y_i | x_i)) + (1/C) penalty(b)
    penalty   None: 0;   "l2": (1/2) sum_j f_j b_j^2;   "l1": sum_j f_j |b_j|;
              "elasticnet": sum_j f_j (l1_ratio |b_j| + (1 - l1_ratio)/2 b_j^2)

exp(b_j) is the factor by which one more unit of x_j multiplies the odds. Newton's method needs three to six passes over
the rows (`assay.linear._logistic_newton`); its cost is n p^2 flops a pass. Where a linear rule separates the classes,
no maximum exists: the rule is found, its columns are named, and a finite stand-in is given
(`assay.linear._separation`).

McCullagh and Nelder (1989), Generalized Linear Models, chapter 4; Hastie, Tibshirani and Friedman, Elements of
Statistical Learning, section 4.4.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special, stats
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, array_like, boolean, instance_of, integer, jobs, none, one_of, real, seed
from assay.errors import CollinearityWarning, ConvergenceWarning, DataError, ParameterError, SeparationWarning
from assay.labels import class_codes, class_labels
from assay.linear._logistic_descent import MAX_ITER, TOL, gradient_descent, stochastic_descent
from assay.linear._logistic_fit import WEAK, Maximum, Problem, loss_at, maximise, null_loss
from assay.linear._logistic_inference import (
    Inference,
    check_level,
    likelihood_ratios,
    profile_intervals,
    refuse_changed_rows,
)
from assay.linear._logistic_newton import Fit
from assay.linear._logistic_path import fit_penalized
from assay.linear._logistic_rows import Rows
from assay.linear._logistic_threshold import ThresholdChoice, choose_threshold
from assay.linear._separation import name_some, repeats
from assay.numerics.seeds import generator
from assay.results import Summary, TestResult, Trace

__all__ = ["LogisticRegression"]

Array = np.ndarray

SMALL = 1 << 20
"""A sparse table of at most this many cells is made dense: eight MiB, and every pass is quicker."""

KINDS = {None: "maximum likelihood", "l2": "ridge", "l1": "lasso", "elasticnet": "elastic net"}


class LogisticRegression(ClassifierMixin, Estimator):
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
    | inference       | True     | True, False                      | keep the covariance matrix for `summary`         |
    | random_state    | None     | seed                             | order of the rows in sgd                         |
    | n_jobs          | -1       | whole number or None             | threads; never changes the answer                |

    Fitted: `classes_`, `coef_` (1, p) or (K, p) and `intercept_` as in scikit-learn (K classes: rows that sum to zero),
    `cut_`, `n_iter_`, `trace_` (the objective, one value per step), `deviance_`, `null_deviance_`, `aic_`, `bic_`,
    `std_errors_` and `covariance_` (intercept first; K classes: each against the first), `separation_` (the rule that
    separates the classes, or None), `rank_`. Weights are repetitions: a row of weight w is w rows.

    *Separation.* If a linear rule separates the classes, wholly or in part, the likelihood has no maximum and some
    coefficients would be infinite. A `SeparationWarning` names the columns, and the fit is that of a ridge
    penalty of 1e-4 on standardised columns, which is unique and finite; standard errors do not exist and are NaN. Use
    `firth=True` for estimates and tests that do exist, or `penalty="l2"` for a stronger penalty. *Collinear columns*
    are named in a `CollinearityWarning` and the coefficients of least norm are given.

    `fit` keeps a reference to its rows, for the refits of `summary(likelihood_ratio=True)`; it is not pickled.

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

    constraints: ClassVar[dict[str, Constraint]] = {
        "penalty": one_of(None, "l2", "l1", "elasticnet"),
        "C": real(0, open_low=True),
        "l1_ratio": none | real(0, 1),
        "fit_intercept": boolean,
        "solver": one_of("newton", "gradient", "sgd"),
        "tol": none | real(0, open_low=True),
        "max_iter": none | integer(1),
        "learning_rate": none | real(0, open_low=True),
        "class_weight": none | one_of("balanced") | instance_of(dict, "a dict of class weights"),
        "penalty_factors": none | array_like,
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
        n_jobs: int | None = -1,
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
        self._refuse_contradictions()
        problem = self._problem(X, y, sample_weight, offset)
        found = self._penalised(problem) if self.penalty in ("l1", "elasticnet") else self._maximum(problem)
        self._keep(problem, found)
        self._warn(found, problem)
        return self

    # ------------------------------------------------------------------------------- answers

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """The linear part: (n,) log odds of the second class, or (n, K) for more."""
        X = self._gate(X, reset=False, sparse=("csr", "csc"))
        eta = np.asarray(X @ self.coef_.T) + self.intercept_
        if offset is not None:
            added = _offset(offset, X.shape[0], len(self.classes_))
            eta = eta + added.reshape(eta.shape)
        return eta.ravel() if len(self.classes_) == 2 else eta

    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
        """Logarithms of the class probabilities, exact where the probabilities themselves would vanish."""
        eta = self.decision_function(X, offset)
        if eta.ndim == 1:
            return np.column_stack([special.log_expit(-eta), special.log_expit(eta)])
        return special.log_softmax(eta, axis=1)

    def predict_proba(self, X: Any, offset: Any = None) -> Array:
        """Class probabilities, one column per class in the order of `classes_`."""
        eta = self.decision_function(X, offset)
        if eta.ndim == 1:
            return np.column_stack([special.expit(-eta), special.expit(eta)])
        return special.softmax(eta, axis=1)

    def predict(self, X: Any, offset: Any = None) -> Array:
        """The most probable class; with two classes the second one where its probability exceeds `threshold`."""
        eta = self.decision_function(X, offset)
        return self.classes_[(eta > self.cut_).astype(int) if eta.ndim == 1 else np.argmax(eta, axis=1)]

    # ------------------------------------------------------------------------------- inference

    def summary(self, level: float = 0.95, likelihood_ratio: bool = False, intervals: str = "wald") -> Summary:
        """Coefficients, standard errors, Wald tests, intervals and odds ratios under deviance, AIC, BIC and pseudo R2.

        `likelihood_ratio=True` adds the p-value of each term's likelihood ratio test (penalised ones with Firth's
        correction), one refit per term; `intervals="profile"` takes the limits from the profile likelihood
        (two classes, maximum likelihood), about twenty refits per term.
        """
        check_is_fitted(self)
        level = check_level(level)
        if intervals not in ("wald", "profile"):
            raise ParameterError(f"intervals = {intervals!r} is out of range", remedy="it must be 'wald' or 'profile'")
        extra: dict[str, Array] = {}
        if likelihood_ratio:
            problem = self._rows_of_fit("a likelihood ratio test")
            p_values = likelihood_ratios(problem, self._inference, bool(self.firth))
            extra["lr_p_value"] = np.tile(p_values, len(self.classes_) - 1)
        if intervals == "profile":
            problem = self._rows_of_fit("a profile interval")
            if self.firth or len(self.classes_) > 2:
                what = "profile intervals are for two classes and plain maximum likelihood"
                raise ParameterError(what, remedy="use intervals='wald'")
            extra["lower"], extra["upper"] = profile_intervals(problem, self._inference, level)
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
        for model in (self, other):
            if model.penalty is not None or model.firth or model.separation_ is not None:
                what = "the likelihood ratio test compares maximum-likelihood fits"
                raise ParameterError(what, remedy="fit both with penalty=None and firth=False on rows that overlap")
        large, small = self._inference, other._inference
        if large.df < small.df:
            large, small = small, large
        same = np.isclose(large.n, small.n) and np.array_equal(self.classes_, other.classes_)
        if not same or not np.isclose(large.null_loss, small.null_loss, rtol=1e-8):
            raise DataError(
                "the two fits are of different rows", remedy="fit both to the same rows, weights and offsets"
            )
        names = [set(model._feature_names()) for model in (self, other)]
        nested = names[0] <= names[1] or names[1] <= names[0]
        df = large.df - small.df
        if df <= 0 or not nested:
            raise DataError("neither fit is nested in the other", remedy="leave out columns of one to get the other")
        statistic = 2.0 * (small.loss - large.loss)
        if statistic < -1e-6 * max(1.0, small.loss):
            raise DataError("the larger fit is worse, so the two are not nested", remedy="use columns of the larger")
        statistic = max(statistic, 0.0)
        return TestResult(statistic, float(stats.chi2.sf(statistic, df)), df, "Likelihood ratio test", n=large.n)

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
                f"y holds {labels[row]!r} in row {row}, a class that fit did not see", remedy="drop that row"
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

    # ------------------------------------------------------------------------------- the way there

    def _refuse_contradictions(self) -> None:
        """Settings that would have no effect, or two that cannot both be meant."""
        if self.penalty is None:
            for name, silent in (("C", self.C == 1.0), ("penalty_factors", self.penalty_factors is None)):
                if not silent:
                    what = f"LogisticRegression: {name} is given but penalty is None, so nothing is penalised"
                    raise ParameterError(
                        what, remedy=f"set penalty='l2' (scikit-learn's default), or leave {name} alone"
                    )
        if (self.penalty == "elasticnet") != (self.l1_ratio is not None):
            what = f"LogisticRegression: penalty = {self.penalty!r} with l1_ratio = {self.l1_ratio!r}"
            raise ParameterError(what, remedy="l1_ratio belongs to penalty='elasticnet', and must be given there")
        if self.firth and (self.penalty is not None or self.solver != "newton"):
            what = "LogisticRegression: Firth's correction is a penalty of its own, solved by Newton's method"
            raise ParameterError(what, remedy="use firth=True with penalty=None and solver='newton'")
        if self.penalty in ("l1", "elasticnet") and self.solver != "newton":
            what = f"LogisticRegression: solver = {self.solver!r} cannot solve penalty = {self.penalty!r}"
            raise ParameterError(what, remedy="leave solver='newton', which stands for coordinate descent there")
        if self.solver == "newton" and self.learning_rate is not None:
            what = "LogisticRegression: learning_rate has no meaning for Newton's method"
            raise ParameterError(what, remedy="leave it None, or use solver='gradient' or 'sgd'")

    def _problem(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Problem:
        """The gate: clean rows of positive weight, class codes, weights and offsets."""
        X = self._gate(X, sparse=("csr",), order="C")
        n, p = X.shape
        if not isinstance(X, np.ndarray) and n * p <= SMALL:
            X = X.toarray()
        w = self._weights(sample_weight, n)
        self.classes_, codes = class_codes(y, n, w)
        K = len(self.classes_)
        if K > 2 and self.firth:
            raise ParameterError("Firth's correction is for two classes", remedy="use penalty='l2' for more")
        if K > 2 and self.threshold != 0.5:
            raise ParameterError("a threshold is for two classes", remedy="leave it at 0.5 for more")
        added = None if offset is None else _offset(offset, n, K)
        w = np.ones(n) if w is None else w
        kept = w > 0
        if not kept.all():
            X, codes, w = X[np.flatnonzero(kept)], codes[kept], w[kept]
            added = None if added is None else np.ascontiguousarray(added[kept])
        w = w * self._class_factors(codes, w)[codes]
        ridge = None
        if self.penalty is not None:
            factors = np.ones(p) if self.penalty_factors is None else _factors(self.penalty_factors, p)
            ridge = factors / self.C
        how = "firth" if self.firth else "lasso" if self.penalty in ("l1", "elasticnet") else self.solver
        tol = TOL[self.solver] if self.tol is None else float(self.tol)
        most = MAX_ITER[how] if self.max_iter is None else int(self.max_iter)
        return Problem(X, codes, K, w, added, self.fit_intercept, ridge, tol, most, self.n_jobs, self._feature_names())

    def _class_factors(self, codes: Array, w: Array) -> Array:
        """What the weights of each class are multiplied by."""
        K = len(self.classes_)
        if self.class_weight is None:
            return np.ones(K)
        if isinstance(self.class_weight, str):
            total = np.bincount(codes, weights=w, minlength=K)
            return w.sum() / (K * total)
        factors = np.ones(K)
        for label, value in self.class_weight.items():
            at = np.flatnonzero(self.classes_ == label)
            if not at.size:
                what = f"class_weight names the class {label!r}, which y does not hold"
                raise ParameterError(what, remedy=f"the classes are {name_some([str(c) for c in self.classes_])[8:]}")
            if not real(0, open_low=True).accepts(value):
                raise ParameterError(f"class_weight of {label!r} is {value!r}", remedy="give a positive number")
            factors[at] = float(value)
        return factors

    def _maximum(self, problem: Problem) -> Maximum:
        if self.solver == "newton":
            return maximise(problem, firth_correction=self.firth, inference=self.inference)
        random = generator(self.random_state)

        def descend(rows: Rows) -> Fit:
            if self.solver == "gradient":
                return gradient_descent(rows, problem.tol, problem.max_iter, self.learning_rate)
            return stochastic_descent(rows, problem.tol, problem.max_iter, self.learning_rate, random)

        return maximise(problem, inference=self.inference, descend=descend)

    def _penalised(self, problem: Problem) -> Maximum:
        """Lasso and elastic net, at one value of the penalty."""
        assert problem.ridge is not None
        factors, weight = problem.ridge * self.C, float(problem.w.sum())
        ratio = 1.0 if self.penalty == "l1" else float(self.l1_ratio or 0.0)
        coefs, intercepts, gaps, steps = fit_penalized(
            problem.X,
            problem.codes,
            problem.K,
            problem.w,
            problem.offset,
            np.array([1.0 / (self.C * weight)]),
            ratio,
            factors,
            self.fit_intercept,
            problem.tol,
            problem.max_iter,
        )
        coef, intercept, gap = coefs[0], intercepts[0], float(gaps[0])
        loss = loss_at(problem, coef, intercept)
        sizes = factors @ (ratio * np.abs(coef) + 0.5 * (1.0 - ratio) * np.square(coef)).sum(axis=0)
        df = float(np.count_nonzero(coef) + len(intercept) * int(self.fit_intercept))
        return Maximum(
            coef,
            intercept,
            loss,
            [loss + float(sizes) / self.C],
            gap <= 1.01 * problem.tol * null_loss(problem) / weight,
            gap,
            None,
            np.ones(1 + coef.shape[1], dtype=bool),
            coef.shape[1],
            (),
            df,
            None,
            -loss,
            max(1, int(steps[0])),
        )

    def _keep(self, problem: Problem, found: Maximum) -> None:
        """Set the fitted attributes."""
        K = problem.K
        with np.errstate(over="ignore"):
            bad = ~np.isfinite(found.coef).all(axis=0)
        if bad.any():
            name = problem.names[int(np.argmax(bad))]
            what = f"the coefficient of column {name!r} is too large for a number, so small are its values"
            raise DataError(what, remedy="multiply the column by a constant")
        self.coef_, self.intercept_ = found.coef, found.intercept
        self.cut_ = float(special.logit(self.threshold))
        self.n_iter_ = found.n_iter
        self.rank_, self.separation_ = found.rank, found.separation
        what = "duality gap" if self.penalty in ("l1", "elasticnet") else "largest gradient"
        message = f"the {what} is {found.largest_gradient:.2g} per unit of weight"
        self.trace_ = Trace(np.array(found.losses), found.converged, message)
        estimates = np.hstack([found.intercept[:, None], found.coef])
        estimates = estimates if K == 2 else estimates[1:] - estimates[0]
        kind = "Firth" if self.firth else KINDS[self.penalty]
        kind = kind if found.separation is None else "stand-in, no maximum"
        weight = float(problem.w.sum())
        self._inference = Inference(
            estimates,
            found.covariance,
            found.loss,
            null_loss(problem),
            found.value,
            weight,
            found.effective_df,
            (K - 1) * int(self.fit_intercept),
            bool(self.fit_intercept),
            kind,
            self.n_iter_,
            self._notes(found),
        )
        self._training = problem
        facts = self._inference.facts()
        self.deviance_, self.null_deviance_ = facts["deviance"], facts["null deviance"]
        self.aic_, self.bic_ = facts["AIC"], facts["BIC"]

    def _notes(self, found: Maximum) -> tuple[str, ...]:
        notes = []
        if found.separation is not None:
            notes.append(f"No maximum exists: {found.separation}; standard errors do not exist either.")
        elif self.penalty in ("l1", "elasticnet"):
            notes.append("A lasso has no standard errors of the usual kind.")
        elif found.covariance is None:
            why = "fit with inference=True" if not self.inference else "there are too many coefficients"
            notes.append(f"The covariance matrix was not kept; {why}.")
        elif self.penalty == "l2":
            notes.append("Standard errors are those of a biased estimate around its own mean; df is effective.")
        if found.aliased:
            notes.append(f"Not determined by the data: {repeats(found.aliased)} others.")
        if self.class_weight is not None:
            notes.append("Class weights count as repetitions in standard errors and tests.")
        return tuple(notes)

    def _warn(self, found: Maximum, problem: Problem) -> None:
        if found.separation is not None:
            warnings.warn(
                f"{found.separation}, so no maximum-likelihood fit exists and coefficients would be infinite; "
                f"a penalty of {WEAK:g} on standardised columns holds them: use firth=True or penalty='l2'",
                SeparationWarning,
                stacklevel=3,
            )
        elif not found.converged:
            what = "duality gap" if self.penalty in ("l1", "elasticnet") else "gradient"
            raised = f"{found.n_iter} steps left a {what} of {found.largest_gradient:.2g} per unit of weight"
            remedy = "raise max_iter or tol" + ("" if self.solver == "newton" else ", or use solver='newton'")
            warnings.warn(f"solver={self.solver!r}: {raised}; {remedy}", ConvergenceWarning, stacklevel=3)
        if found.rank < problem.X.shape[1] and found.separation is None:
            said = f"{repeats(found.aliased)} what the intercept and the other columns say"
            remedy = "the coefficients of least norm are given: drop columns, or use penalty='l2'"
            warnings.warn(f"{said}; {remedy}", CollinearityWarning, stacklevel=3)

    def _rows_of_fit(self, what: str) -> Problem:
        if self.penalty is not None or self.separation_ is not None:
            why = "the classes are separated" if self.penalty is None else "the fit is penalised"
            raise ParameterError(f"{what} needs a maximum of the likelihood, but {why}", remedy="use firth=True")
        problem = getattr(self, "_training", None)
        if problem is None:
            raise DataError("the training rows do not travel with a stored model", remedy="fit again to ask for this")
        refuse_changed_rows(problem, self._inference, self.coef_, self.intercept_)
        return replace(problem, tol=min(problem.tol, 1e-8), max_iter=max(problem.max_iter, 100))

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state.pop("_training", None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _offset(offset: Any, n: int, K: int) -> Array:
    """Offsets as clean numbers: (n,) for two classes, (n, K) for more."""
    try:
        values = np.ascontiguousarray(offset, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("offset holds something that is no number", remedy="give one number per row") from error
    wanted = (n,) if K == 2 else (n, K)
    if values.shape != wanted:
        raise DataError(
            f"offset.shape == {values.shape}, expected {wanted}", remedy="give one number per row (and class)"
        )
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).reshape(n, -1).all(axis=1)))
        raise DataError(f"offset holds NaN or inf in row {row}", remedy="drop that row or give it a finite offset")
    return values


def _factors(factors: Any, p: int) -> Array:
    try:
        values = np.asarray(factors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            "penalty_factors hold something that is no number", remedy="give one per column"
        ) from error
    if values.shape != (p,) or not np.isfinite(values).all() or (values < 0).any():
        what = f"penalty_factors must be {p} numbers of at least 0, one per column"
        raise ParameterError(what, remedy="correct penalty_factors")
    return values
