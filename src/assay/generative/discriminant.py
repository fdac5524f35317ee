"""Gaussian discriminant analysis: linear with one covariance matrix for all classes, quadratic with one for each.

    x | class k  ~  N(mu_k, Sigma)      linear:     log P(k | x) = log pi_k + mu_k' Sigma^-1 (x - mu_k / 2) + constant
    x | class k  ~  N(mu_k, Sigma_k)    quadratic:  log P(k | x) = log pi_k - log det(Sigma_k) / 2
                                                                   - (x - mu_k)' Sigma_k^-1 (x - mu_k) / 2 + constant

Both need only the weight, mean and scatter of each class (`assay.generative._gaussian_summary`), which add: `fit` is
one pass over the rows, `partial_fit` merges, and the training sets of K folds together cost one pass. The fit costs
n p^2 multiply-adds in BLAS, a prediction n p K (linear) or n p^2 K (quadratic).

Fisher (1936), Annals of Eugenics 7, 179-188; Friedman (1989), JASA 84, 165-175; Hastie, Tibshirani and Friedman,
Elements of Statistical Learning, section 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, array_like, integer, jobs, none, one_of, real
from assay.errors import DataError, ParameterError
from assay.generative._discriminant import (
    LinearFit,
    QuadraticFit,
    fit_linear,
    fit_quadratic,
)
from assay.generative._discriminant_model import Discriminant
from assay.generative._discriminant_rules import LinearRule
from assay.generative._gaussian_summary import ClassMoments
from assay.state import Specs, facts, floats, need, several

__all__ = ["LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"]

Array = np.ndarray


SHARED_CONSTRAINTS: Mapping[str, Constraint] = {
    "priors": none | array_like,
    "shrinkage": none | one_of("auto") | real(0, 1),
    "estimate": one_of("unbiased", "ml"),
    "tol": real(0),
    "n_jobs": jobs,
}


class LinearDiscriminantAnalysis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Discriminant):
    """Linear discriminant analysis: Gaussian classes that share one covariance matrix.

        f_k(x) = log pi_k + mu_k' Sigma^-1 x - mu_k' Sigma^-1 mu_k / 2,    P(k | x) = exp f_k(x) / sum_l exp f_l(x)

    Sigma is the scatter within the classes over N - K, as in R; scikit-learn divides by N, which `estimate="ml"` does.

    | parameter    | default    | range                   | meaning                                                    |
    |--------------|------------|-------------------------|------------------------------------------------------------|
    | priors       | None       | probabilities, or None  | pi_k in the order of `classes_`; None: shares of the rows  |
    | shrinkage    | None       | None, "auto", in [0, 1] | s in (1 - s) Sigma + s mean(diagonal) I; "auto": Ledoit    |
    |              |            |                         | and Wolf's s class by class, on standardised columns       |
    | covariance   | "pooled"   | "pooled", "diagonal"    | all of Sigma, or only its diagonal                         |
    | estimate     | "unbiased" | "unbiased", "ml"        | divide the scatter by N - K, or by N (maximum likelihood)  |
    | n_components | None       | 1 to min(K - 1, p)      | how many coordinates `transform` gives; None: all          |
    | tol          | 1e-4       | >= 0                    | standardised directions with a smaller spread are left out |
    | n_jobs       | None       | whole number or None    | threads; never changes the answer                          |

    Fitted: `classes_`, `priors_`, `means_` (K, p), `covariance_` (p, p) (a diagonal: (p,)), `coef_` and `intercept_` of
    the discriminant functions ((K, p) and (K,); two classes: their difference, (1, p) and (1,)), `xbar_` (the mean of
    the means by priors), `scalings_` (p, q) with scalings' Sigma scalings = I, `explained_variance_ratio_` (shares of
    the variance between classes), `rank_` (of Sigma). Weights are repetitions: a row of weight w is w rows.

    *Columns that repeat others or do not vary within the classes* say nothing that a finite Sigma could use: a
    `CollinearityWarning` names them, and the rule is that of the directions that do vary. A class may have a single
    row. `partial_fit` merges moments, and `predict_folds` cross-validates in one pass over the rows.

    Reference: Fisher (1936), Annals of Eugenics 7, 179-188; Ledoit and Wolf (2004), J. Multivariate Analysis 88,
    365-411.

    >>> X, y = [[1.0], [2.0], [3.0], [5.0], [6.0], [7.0]], ["a", "a", "a", "b", "b", "b"]
    >>> model = LinearDiscriminantAnalysis().fit(X, y)
    >>> model.coef_.tolist(), model.intercept_.tolist()
    ([[4.0]], [-16.0])
    >>> model.predict_proba([[4.0]]).tolist(), model.predict([[3.9]]).tolist()
    ([[0.5, 0.5]], ['a'])
    """

    state: ClassVar[Specs] = {
        "_n_features_out": integer(0),
        "_coordinates": several(floats("p") | floats("p", None), 2, kind=tuple),
        **facts("xbar_", "scalings_", "coef_", "intercept_", "explained_variance_ratio_", "rank_"),
    }

    def _check_state(self) -> None:
        super()._check_state()
        need([part.ndim for part in self._coordinates] == [1, 2])
        need(self._coordinates[1].shape[1] == self._n_features_out)

    constraints: ClassVar[dict[str, Constraint]] = {
        **SHARED_CONSTRAINTS,
        "covariance": one_of("pooled", "diagonal"),
        "n_components": none | integer(1),
    }

    def __init__(
        self,
        *,
        priors: Any = None,
        shrinkage: Any = None,
        covariance: str = "pooled",
        estimate: str = "unbiased",
        n_components: int | None = None,
        tol: float = 1e-4,
        n_jobs: int | None = None,
    ) -> None:
        self.priors = priors
        self.shrinkage = shrinkage
        self.covariance = covariance
        self.estimate = estimate
        self.n_components = n_components
        self.tol = tol
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, p) and classes y; a row of weight w counts as w rows."""
        return self._fit(X, y, sample_weight)

    def _kind(self) -> str:
        return "diagonal" if self.covariance == "diagonal" else "full" if self.shrinkage == "auto" else "pooled"

    def _solve(
        self, m: ClassMoments, priors: Array, names: list[str], classes: list[Any], rows: Array | None = None
    ) -> LinearFit:
        most = min(len(priors) - 1, m.mean.shape[1])
        if self.n_components is not None and self.n_components > most:
            what = f"n_components = {self.n_components} cannot be larger than min(n_features, n_classes - 1) = {most}"
            raise ParameterError(what, remedy="lower n_components")
        return fit_linear(
            m,
            priors,
            names,
            unbiased=self.estimate == "unbiased",
            shrinkage=self.shrinkage,
            tol=float(self.tol),
            rows=rows,
        )

    def _keep(self, fit: LinearFit) -> None:
        frame, rule = fit.rule.frame, fit.rule
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            units = frame.unit**2 if fit.covariance.ndim == 1 else frame.unit[:, None] * frame.unit
            self.covariance_ = fit.covariance * units
            self.xbar_ = frame.centre + fit.xbar * frame.unit
            self.scalings_ = fit.scalings / frame.unit[:, None]
            slope, offset = rule.slope, rule.offset
            if len(offset) == 2:
                slope, offset = slope[:, 1:] - slope[:, :1], offset[1:] - offset[:1]
            self.coef_ = (slope / frame.unit[:, None]).T
            self.intercept_ = offset - self.coef_ @ frame.centre
        self.explained_variance_ratio_ = fit.ratio[: self.n_components]
        self.rank_ = fit.whitening.rank
        self._n_features_out = len(self.explained_variance_ratio_)
        self._coordinates = (fit.xbar, fit.scalings[:, : self._n_features_out])

    def transform(self, X: Any) -> Array:
        """Canonical coordinates: rows minus `xbar_`, times `scalings_`; within the classes they have unit variance.

        Coordinates come by falling share of the variance between the classes; each has the sign that makes its
        largest standardised coefficient positive.
        """
        X = self._validate(X, reset=False, order="C")
        if hasattr(self, "_unsolved"):
            raise DataError(self._unsolved[0] + " so far", remedy=self._unsolved[1])
        xbar, scalings = self._coordinates
        frame = self._moments.frame
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return ((X - frame.centre) / frame.unit - xbar) @ scalings

    def logistic_form(self, reference: Any = None) -> pd.DataFrame:
        """The logistic regression this model implies: log P(k | x) / P(reference | x) = intercept + x'coefficients.

        A column for every class but the `reference`, which is the first class unless named. Logistic regression fits
        the same form without assuming Gaussian classes.

        >>> X, y = [[1.0], [2.0], [3.0], [5.0], [6.0], [7.0]], ["a", "a", "a", "b", "b", "b"]
        >>> LinearDiscriminantAnalysis().fit(X, y).logistic_form()
        log odds against 'a'     b
        intercept            -16.0
        x0                     4.0
        """
        check_is_fitted(self, "coef_")
        at = 0
        if reference is not None:
            found = np.flatnonzero(self.classes_ == reference)
            if not found.size:
                what = f"reference = {reference!r} is not one of the classes"
                raise ParameterError(what, remedy=f"the classes are {self.classes_.tolist()}")
            at = int(found[0])
        if self.priors_[at] == 0:
            what = f"class {self.classes_.tolist()[at]!r} has prior 0, so odds against it are not defined"
            raise ParameterError(what, remedy="choose another reference")
        rule, others = self._rule, np.arange(len(self.classes_)) != at
        assert isinstance(rule, LinearRule)
        slope = (rule.slope - rule.slope[:, [at]]) / rule.frame.unit[:, None]
        intercept = rule.offset - rule.offset[at] - rule.frame.centre @ slope
        name = f"log odds against {self.classes_.tolist()[at]!r}"
        return pd.DataFrame(
            np.vstack([intercept, slope])[:, others],
            index=["intercept", *self._feature_names()],
            columns=pd.Index(self.classes_[others].tolist(), name=name),
        )


class QuadraticDiscriminantAnalysis(Discriminant):
    """Quadratic discriminant analysis: Gaussian classes, each with a covariance matrix of its own.

        f_k(x) = log pi_k - log det(Sigma_k) / 2 - (x - mu_k)' Sigma_k^-1 (x - mu_k) / 2,   P(k | x) ~ exp f_k(x)

    Sigma_k is the scatter of class k over n_k - 1, as in R; scikit-learn divides by n_k, which `estimate="ml"` does.
    Friedman's regularised discriminant analysis leads from here to the linear one:

        Sigma_k(c) = ((1 - c) S_k + c S) / ((1 - c) f_k + c f),    S = sum of the scatters S_k, f_k and f their divisors
        Sigma_k(c, s) = (1 - s) Sigma_k(c) + s mean(diagonal of Sigma_k(c)) I,      c = pooling, s = shrinkage

    | parameter  | default    | range                   | meaning                                                      |
    |------------|------------|-------------------------|--------------------------------------------------------------|
    | priors     | None       | probabilities, or None  | pi_k in the order of `classes_`; None: shares of the rows    |
    | pooling    | 0.0        | in [0, 1]               | c: 0 quadratic, 1 one matrix for all (linear)                |
    | shrinkage  | None       | None, "auto", in [0, 1] | s; "auto": Ledoit and Wolf's, on standardised columns,       |
    |            |            |                         | before pooling                                               |
    | reg_param  | 0.0        | in [0, 1]               | scikit-learn's: r in (1 - r) Sigma_k + r I, at the very end  |
    | covariance | "full"     | "full", "diagonal"      | all of Sigma_k, or its diagonal (Gaussian naive Bayes)       |
    | estimate   | "unbiased" | "unbiased", "ml"        | divide scatters by n_k - 1, or by n_k (maximum likelihood)   |
    | tol        | 1e-4       | >= 0                    | a standardised direction with a smaller spread is no spread  |
    | n_jobs     | None       | whole number or None    | threads; never changes the answer                            |

    Fitted: `classes_`, `priors_`, `means_` (K, p), `covariance_` (K, p, p) (diagonals: (K, p)). Weights are
    repetitions: a row of weight w is w rows. A class whose covariance matrix is singular (one row, too few rows, a
    column that does not vary or repeats others) is refused in a sentence that names the class and the columns;
    `pooling` above 0 lends it what the other classes know. Columns that do so in *every* class are left out with a
    `CollinearityWarning`. `partial_fit` merges moments, and `predict_folds` cross-validates in one pass over the rows.

    Reference: Friedman (1989), JASA 84, 165-175; Ledoit and Wolf (2004), J. Multivariate Analysis 88, 365-411.

    >>> X, y = [[1.0], [2.0], [3.0], [3.0], [6.0], [9.0]], ["a", "a", "a", "b", "b", "b"]
    >>> model = QuadraticDiscriminantAnalysis().fit(X, y)
    >>> model.covariance_.ravel().tolist(), model.predict([[-2.0], [2.0], [5.0]]).tolist()
    ([1.0, 9.0], ['b', 'a', 'b'])
    """

    constraints: ClassVar[dict[str, Constraint]] = {
        **SHARED_CONSTRAINTS,
        "covariance": one_of("full", "diagonal"),
        "pooling": real(0, 1),
        "reg_param": real(0, 1),
    }

    def __init__(
        self,
        *,
        priors: Any = None,
        pooling: float = 0.0,
        shrinkage: Any = None,
        reg_param: float = 0.0,
        covariance: str = "full",
        estimate: str = "unbiased",
        tol: float = 1e-4,
        n_jobs: int | None = None,
    ) -> None:
        self.priors = priors
        self.pooling = pooling
        self.shrinkage = shrinkage
        self.reg_param = reg_param
        self.covariance = covariance
        self.estimate = estimate
        self.tol = tol
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, p) and classes y; a row of weight w counts as w rows."""
        return self._fit(X, y, sample_weight)

    def _kind(self) -> str:
        return self.covariance

    def _solve(
        self, m: ClassMoments, priors: Array, names: list[str], classes: list[Any], rows: Array | None = None
    ) -> QuadraticFit:
        return fit_quadratic(
            m,
            priors,
            names,
            classes,
            unbiased=self.estimate == "unbiased",
            pooling=float(self.pooling),
            shrinkage=self.shrinkage,
            reg_param=float(self.reg_param),
            tol=float(self.tol),
        )

    def _keep(self, fit: QuadraticFit) -> None:
        unit = fit.rule.frame.unit
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            self.covariance_ = fit.covariances * (unit**2 if fit.covariances.ndim == 2 else unit[:, None] * unit)
