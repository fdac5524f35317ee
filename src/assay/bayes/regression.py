"""Bayesian linear regression, and the priors that ridge and lasso stand for.

    y_i | b0, b, sigma2 ~ N(b0 + x_i'b, sigma2),    b | sigma2 ~ N(m0, tau2 C),    b0 flat,
    sigma2 known, or 1/sigma2 ~ Gamma(shape, rate) with tau2 = sigma2 / lam  (normal-inverse-gamma, conjugate)

Posterior (m0 = 0, C = I; A = centred rows): mean b = (A'A + lam I)^-1 A'y, covariance sigma2 (A'A + lam I)^-1,
sigma2 | y ~ InverseGamma(shape + m/2, rate + Q(lam)/2). Coefficients and predictions then have Student's t, or the
normal law if sigma2 is known. What is not given is chosen by maximising the exact marginal likelihood (empirical
Bayes); see `_evidence`.

*MAP readings.* With y_i ~ N(x_i'b, sigma2) the posterior mode minimises RSS/(2 sigma2) - log prior(b): a normal prior
N(0, tau2) is ridge with alpha = sigma2/tau2, a Laplace prior exp(-|b|/tau)/(2 tau) is lasso.

Raiffa and Schlaifer (1961), section 13.5; Bishop (2006), Pattern Recognition and Machine Learning, chapter 3;
Tibshirani (1996), JRSS B 58, 267-288 (section 5, the Laplace prior).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import linalg, special
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, array_like, boolean, none, real
from assay.bayes._evidence import EvidenceRows, decompose, log_determinant, maximise, misfit
from assay.bayes._stable import log_gamma_weight
from assay.checks import choice, fraction, number, whole
from assay.constraints import any_number
from assay.errors import DataError, ParameterError
from assay.numerics.seeds import generator
from assay.results import Interval, Result, Summary
from assay.state import Specs, facts, floats, need

__all__ = ["BayesianLinearRegression", "MapPenalty", "map_lasso", "map_ridge"]

Array = np.ndarray
HUGE, TINY, FAR = 1e75, 1e-153, 1e152
"""Beyond the first the square of a square overflows; below the second a square is rounded to nothing; coefficients
beyond the third, or its inverse, have variances out of range."""
positive = real(0, open_low=True)


class BayesianLinearRegression(RegressorMixin, Estimator):
    """Linear regression with a normal prior on the coefficients: exact posterior, predictive intervals, evidence.

        b | sigma2, y ~ N(coef_, sigma2 (A'A + lam I)^-1),    lam = sigma2 / tau2

    By default tau2 and sigma2 are those that make the data most probable, and the uncertainty of sigma2 stays in the
    intervals (Student's t). The prior treats all coefficients alike, so columns should be in comparable units
    (standardise them, or pass `prior_covariance`). Weights count as repetition. tau2 is chosen and then taken as known,
    so with few rows the intervals of coefficients are too short (docs/simulations/bayes.md has figures). Where the data
    speak for no column at all the largest evidence is at tau2 = 0: every coefficient is then its prior mean, and
    `summary()` says so.

    | parameter        | default | range            | meaning                                                          |
    |------------------|---------|------------------|------------------------------------------------------------------|
    | tau2             | None    | above 0          | prior variance of a coefficient; None: by maximum evidence       |
    | sigma2           | None    | above 0          | variance of the noise; None: unknown, with the prior below       |
    | shape            | 0.0     | at least 0       | 1/sigma2 ~ Gamma(shape, rate); both 0: p(sigma2) ~ 1/sigma2      |
    | rate             | 0.0     | at least 0       | see shape; 0 only together with it                               |
    | prior_mean       | None    | p numbers        | m0; None: 0                                                      |
    | prior_covariance | None    | p, or p x p      | C (variances, or a positive definite matrix); None: identity     |
    | fit_intercept    | True    |                  | whether there is an intercept; its prior is flat                 |

    | attribute        | meaning                                                                                     |
    |------------------|---------------------------------------------------------------------------------------------|
    | coef_            | posterior mean (and mode) of the coefficients                                               |
    | intercept_       | posterior mean of the intercept                                                             |
    | covariance_      | posterior covariance matrix of the coefficients                                             |
    | sigma2_, tau2_   | noise variance (evidence-maximising, or posterior scale rate_/shape_), prior variance       |
    | alpha_           | lam = sigma2_/tau2_: the penalty of the ridge regression with the same coefficients         |
    | log_evidence_    | log p(y | tau2_, sigma2_), or with shape, rate > 0 and sigma2 unknown log p(y | alpha_)     |
    | shape_, rate_    | of the posterior of 1/sigma2; None if sigma2 is known                                       |
    | df_              | degrees of freedom of the t laws; infinite if sigma2 is known                               |
    | effective_df_    | sum d/(d + lam): how many coefficients the data decide, without the intercept               |

    MacKay (1992), Neural Computation 4, 415-447; Bishop (2006), sections 3.3-3.5.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 2))
    >>> model = BayesianLinearRegression().fit(X, X @ [2.0, 0.0] + rng.normal(size=50))
    >>> model.coef_.round(2).tolist()
    [2.16, 0.0]
    >>> print(model.predict_interval([[1.0, 0.0]], level=0.9))
    new observation (90% predictive (Student's t) interval, n = 50)
      0  2.2 [0.5, 3.8]
    """

    state: ClassVar[Specs] = {
        "coef_": floats("p"),
        "intercept_": real(),
        "_centre": floats("p"),
        "_basis": floats("p", None, order="F"),
        "_inverse": floats(None),
        "_root": none | floats("p", "p"),
        "_weight": real(0, open_low=True),
        "sigma2_": real(0),
        "df_": any_number,
        **facts("log_evidence_", "alpha_", "tau2_", "shape_", "rate_", "effective_df_"),
    }

    def _check_state(self) -> None:
        need(self._basis.shape[1] == self._inverse.size and self.df_ > 0)

    constraints: ClassVar[dict[str, Constraint]] = {
        "tau2": none | positive,
        "sigma2": none | positive,
        "shape": real(0),
        "rate": real(0),
        "prior_mean": none | array_like,
        "prior_covariance": none | array_like,
        "fit_intercept": boolean,
    }

    def __init__(
        self,
        tau2: float | None = None,
        sigma2: float | None = None,
        shape: float = 0.0,
        rate: float = 0.0,
        prior_mean: Any = None,
        prior_covariance: Any = None,
        fit_intercept: bool = True,
    ) -> None:
        self.tau2 = tau2
        self.sigma2 = sigma2
        self.shape = shape
        self.rate = rate
        self.prior_mean = prior_mean
        self.prior_covariance = prior_covariance
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Decompose the rows once, choose what was not given by maximum evidence, and keep the posterior."""
        X, y = self._validate(X, y)
        w = self._weights(sample_weight, len(X))
        self._refuse_scales(X, y)
        if (self.shape == 0) != (self.rate == 0):
            what = f"shape = {self.shape:g} and rate = {self.rate:g}: only one of them is 0"
            raise ParameterError(what, remedy="pass two numbers above 0, or 0 for both")
        mean, root = self._prior(X.shape[1])
        if mean.any():
            y = y - X @ mean
        rows = decompose(X if root is None else X @ root, y, w, self.fit_intercept)
        if rows.m <= 0 and self.sigma2 is None and self.shape == 0:
            what = f"{rows.weight:g} sample(s), counted by weight, are too few to estimate the noise"
            raise DataError(what, remedy="pass more rows, sigma2, or shape and rate")
        self._choose(rows)
        self._keep(rows, mean, root)
        return self

    def _refuse_scales(self, X: Array, y: Array) -> None:
        """Variances are squares of y, those of coefficients over squares of X: both must stay in range."""
        top = np.abs(X).max(axis=0)
        if (top > HUGE).any():
            j = int(np.argmax(top > HUGE))
            row, name = int(np.argmax(np.abs(X[:, j]))), self._feature_names()[j]
            what = f"X contains {X[row, j]:.3g} in column {name!r}, row {row}, too large for a variance"
            raise DataError(what, remedy="rescale the column")
        most = float(np.abs(y).max())
        if 0 < most < TINY:
            what = f"the values of y are at most {most:.3g}, and their squares underflow"
            raise DataError(what, remedy="rescale y")
        widest = float(top.max(initial=0.0))
        if 0 < widest < TINY:
            what = f"the values of X are at most {widest:.3g}, and their squares underflow"
            raise DataError(what, remedy="rescale its columns")
        if widest > 0 and most > 0 and not 1 / FAR <= most / widest <= FAR:
            what = f"y reaches {most:.3g} and X {widest:.3g}: the variances of such coefficients are out of range"
            raise DataError(what, remedy="rescale one of them")

    def _prior(self, p: int) -> tuple[Array, Array | None]:
        """m0 and a root R of C = R R' (None: identity)."""
        mean = np.zeros(p) if self.prior_mean is None else _vector(self.prior_mean, "prior_mean", p)
        if self.prior_covariance is None:
            return mean, None
        C = np.asarray(self.prior_covariance)
        if C.ndim < 2:
            variances = _vector(self.prior_covariance, "prior_covariance", p)
            if not (variances > 0).all():
                at = int(np.argmin(variances > 0))
                what = f"prior_covariance[{at}] = {variances[at]:g} is not a variance"
                raise ParameterError(what, remedy="pass numbers above 0")
            return mean, np.diag(np.sqrt(variances))
        if C.shape != (p, p) or C.dtype.kind not in "iuf" or not np.isfinite(C).all() or not np.allclose(C, C.T):
            what = f"prior_covariance is not a symmetric matrix of {p} x {p} finite numbers"
            raise ParameterError(what, remedy="pass one variance per column, or their covariance matrix")
        try:
            return mean, linalg.cholesky(C.astype(np.float64), lower=True)
        except linalg.LinAlgError as error:
            raise ParameterError("prior_covariance is not positive definite", remedy="correct it") from error

    # ------------------------------------------------------------------------------------------- hyperparameters

    def _choose(self, rows: EvidenceRows) -> None:
        """lam, sigma2, tau2, the posterior of sigma2 and the log evidence, in units of `rows.scale`."""
        unit = rows.scale**2
        known = None if self.sigma2 is None else self.sigma2 / unit
        tau2 = None if self.tau2 is None else self.tau2 / unit
        rate = self.rate / unit
        half = self.shape + 0.5 * rows.m
        if known is not None and tau2 is not None:
            lam = known / tau2
        elif tau2 is not None:
            lam = _noise_given_prior(rows, tau2)
        else:
            lam = _ratio(rows, known, half, rate)
        q = float(misfit(rows, np.array(lam)))
        scale = known if known is not None else (rate + 0.5 * q) / half
        determinant = float(log_determinant(rows, np.array(lam)))
        head = -0.5 * determinant - (0.5 * np.log(rows.weight) if self.fit_intercept else 0.0)
        self.log_evidence_ = head - rows.m * np.log(rows.scale)
        if known is None and self.shape > 0:
            # sigma2 integrated out: Gamma(half) rate^shape / (Gamma(shape) (rate + q/2)^half), near its peak.
            t = half / (rate + 0.5 * q)
            gammas = float(log_gamma_weight(self.shape, rate * t) - log_gamma_weight(half, half))
            self.log_evidence_ += gammas + 0.5 * rows.m * np.log(t / (2 * np.pi)) - 0.5 * q * t
        elif scale > 0:
            self.log_evidence_ += -0.5 * (rows.m * np.log(2 * np.pi * scale) + q / scale)
        else:
            self.log_evidence_ = np.inf  # an exact fit: noise of variance 0 makes the data certain
        self.alpha_ = float(lam)
        self.sigma2_ = float(scale * unit)
        given = self.tau2 if self.tau2 is not None else self.sigma2_ / self.alpha_
        self.tau2_ = float(given)
        self.shape_ = None if known is not None else float(half)
        self.rate_ = None if known is not None else float((rate + 0.5 * q) * unit)
        self.df_ = np.inf if known is not None else float(2.0 * half)

    def _keep(self, rows: EvidenceRows, mean: Array, root: Array | None) -> None:
        shrunk = np.zeros(rows.d.shape) if np.isinf(self.alpha_) else np.sqrt(rows.d) * rows.c / (rows.d + self.alpha_)
        basis = rows.V if root is None else root @ rows.V
        centre = rows.mx if root is None else linalg.solve(root.T, rows.mx)
        self.coef_ = mean + rows.scale * (basis @ shrunk)
        self.intercept_ = float(rows.scale * rows.my - centre @ (self.coef_ - mean)) if self.fit_intercept else 0.0
        self.effective_df_ = 0.0 if np.isinf(self.alpha_) else float((rows.d / (rows.d + self.alpha_)).sum())
        # The posterior scale is sigma2 (basis diag(1/(d + lam)) basis' + (C - basis basis') / lam).
        self._centre = centre
        self._basis = basis
        self._inverse = 1.0 / (rows.d + self.alpha_)
        self._root = root
        self._weight = rows.weight

    # ------------------------------------------------------------------------------------------- the posterior

    def _spread(self, Z: Array) -> Array:
        """z'S z for every row z of Z, S the posterior scale matrix of the coefficients over sigma2."""
        inside = (Z @ self._basis) ** 2 @ self._inverse
        return inside + np.maximum(self._outside(Z), 0.0) / self.alpha_

    def _outside(self, Z: Array) -> Array:
        """How much of each row the data say nothing about, in units of the prior."""
        if self._basis.shape[1] == self.n_features_in_:
            return np.zeros(len(Z))
        R = Z if self._root is None else Z @ self._root
        V = self._basis if self._root is None else linalg.solve_triangular(self._root, self._basis, lower=True)
        return ((R - (R @ V) @ V.T) ** 2).sum(axis=1)

    @property
    def covariance_(self) -> Array:
        """Posterior covariance of the coefficients; it exists for more than two degrees of freedom."""
        check_is_fitted(self)
        if self.df_ <= 2:
            raise AttributeError(f"with {self.df_:g} degrees of freedom the posterior has no covariance")
        S = (self._basis * self._inverse) @ self._basis.T
        if self._basis.shape[1] < self.n_features_in_ and np.isfinite(self.alpha_):
            C = np.eye(len(S)) if self._root is None else self._root @ self._root.T
            S += (C - self._basis @ self._basis.T) / self.alpha_
        return self.sigma2_ * _inflation(self.df_) * S

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive means, with `return_std` also the standard deviations of new observations."""
        X = self._validate(X, reset=False)
        mean = X @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        inflation = _inflation(self.df_) if self.df_ > 2 else np.inf
        return mean, np.sqrt(inflation * self.sigma2_ * (1.0 + self._uncertainty(X)))

    def _uncertainty(self, X: Array) -> Array:
        """Posterior variance of the regression function at each row, over sigma2."""
        return self._spread(X - self._centre) + (1.0 / self._weight if self.fit_intercept else 0.0)

    def predict_interval(self, X: Any, level: float = 0.95, of: str = "observation") -> Interval:
        """Intervals for a new "observation" at each row, or for the "mean" of many: Student's t, or normal."""
        level = fraction(level, "level")
        choice(of, "of", ("observation", "mean"))
        names = tuple(map(str, X.index)) if isinstance(X, pd.DataFrame) else None
        X = self._validate(X, reset=False)
        estimate = X @ self.coef_ + self.intercept_
        variance = self.sigma2_ * (self._uncertainty(X) + (of == "observation"))
        reach = _quantile(level, self.df_) * np.sqrt(variance)
        kind = "predictive" if of == "observation" else "credible"
        word = "normal" if np.isinf(self.df_) else "Student's t"
        estimand = "new observation" if of == "observation" else "mean at x"
        names = tuple(map(str, range(len(X)))) if names is None else names
        n = int(self._weight) if float(self._weight).is_integer() else self._weight
        return Interval(estimate, estimate - reach, estimate + reach, level, f"{kind} ({word})", n, estimand, names)

    def summary(self, level: float = 0.95) -> Summary:
        """Posterior means, standard deviations, credible intervals, and the chance that each is positive."""
        check_is_fitted(self)
        level = fraction(level, "level")
        scale = np.sqrt(self.sigma2_ * self._spread(np.eye(self.n_features_in_)))
        estimate, names = self.coef_, self._feature_names()
        if self.fit_intercept:
            at_zero = np.sqrt(self.sigma2_ * self._uncertainty(np.zeros((1, self.n_features_in_))))
            estimate, scale = np.r_[self.intercept_, estimate], np.r_[at_zero, scale]
            names = ["intercept", *names]
        reach = _quantile(level, self.df_) * scale
        inflation = np.sqrt(_inflation(self.df_)) if self.df_ > 2 else np.inf
        certain = np.where(estimate > 0, np.inf, np.where(estimate < 0, -np.inf, 0.0))
        standard = np.divide(estimate, scale, out=certain, where=scale > 0)
        above = special.ndtr(standard) if np.isinf(self.df_) else special.stdtr(self.df_, standard)
        deviation = np.where(scale > 0, inflation * np.maximum(scale, np.finfo(float).tiny), 0.0)
        columns = {
            "estimate": estimate,
            "std": deviation,
            "lower": estimate - reach,
            "upper": estimate + reach,
            "P(> 0)": above,
        }
        facts = {
            "rows (total weight)": float(self._weight),
            "log evidence": float(self.log_evidence_),
            "sigma2 (noise)": self.sigma2_,
            "tau2 (prior)": self.tau2_,
            "alpha = sigma2/tau2": self.alpha_,
            "effective df": self.effective_df_,
        }
        law = "normal" if np.isinf(self.df_) else f"Student's t with {self.df_:g} df"
        notes = [f"{100 * level:g}% credible intervals, {law}."]
        if self.tau2_ == 0:
            notes.append("The evidence is largest at tau2 = 0: no column is supported; pass tau2 to keep a prior.")
        return Summary("Bayesian linear regression", pd.DataFrame(columns, index=names), facts, tuple(notes))

    def sample_coefficients(self, size: int = 1, random_state: Any = None) -> pd.DataFrame:
        """Joint draws from the posterior, one per row: intercept (if any), coefficients, and sigma2."""
        check_is_fitted(self)
        size = whole(size, "size")
        rng = generator(random_state)
        sigma2 = np.full(size, self.sigma2_)
        if self.shape_ is not None and self.rate_ is not None:
            sigma2 = self.rate_ / rng.standard_gamma(self.shape_, size)
        draws = rng.standard_normal((size, self._basis.shape[1])) * np.sqrt(self._inverse) @ self._basis.T
        if self._basis.shape[1] < self.n_features_in_ and np.isfinite(self.alpha_):
            g = rng.standard_normal((size, self.n_features_in_))
            V = self._basis if self._root is None else linalg.solve_triangular(self._root, self._basis, lower=True)
            g -= (g @ V) @ V.T
            draws += (g if self._root is None else g @ self._root.T) / np.sqrt(self.alpha_)
        noise = np.sqrt(sigma2)[:, None] * draws
        table = pd.DataFrame(self.coef_ + noise, columns=self._feature_names())
        if self.fit_intercept:
            own = np.sqrt(sigma2 / self._weight) * rng.standard_normal(size)
            table.insert(0, "intercept", self.intercept_ + own - noise @ self._centre, allow_duplicates=True)
        table.insert(table.shape[1], "sigma2", sigma2, allow_duplicates=True)
        return table


def _ratio(rows: EvidenceRows, known: float | None, half: float, rate: float) -> float:
    """lam of largest evidence, with sigma2 known, or integrated (or maximised: the same lam) out."""
    squares = rows.c**2

    def score(lam: Array) -> Array:
        q = misfit(rows, lam)
        with np.errstate(divide="ignore"):
            fit = -0.5 * q / known if known is not None else -half * np.log(2.0 * rate + q)
        return fit - 0.5 * log_determinant(rows, lam)

    def slope(t: float) -> float:
        lam = np.exp(t)
        growth = float((squares * (rows.d / (rows.d + lam))) @ (lam / (rows.d + lam)))
        q = float(misfit(rows, np.array(lam)))
        fit = -0.5 * growth / known if known is not None else -half * growth / (2.0 * rate + q)
        return fit + 0.5 * float((rows.d / (rows.d + lam)).sum())

    return maximise(score, slope, rows)


def _noise_given_prior(rows: EvidenceRows, tau2: float) -> float:
    """lam = sigma2/tau2 of largest evidence for a given tau2."""
    squares = rows.c**2

    def score(lam: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            fit = -0.5 * (rows.m * np.log(lam) + misfit(rows, lam) / (lam * tau2))
        return np.where(np.isinf(lam), -np.inf, fit - 0.5 * log_determinant(rows, lam))

    def slope(t: float) -> float:
        lam = np.exp(t)
        q = float(misfit(rows, np.array(lam)))
        growth = float((squares * (rows.d / (rows.d + lam))) @ (lam / (rows.d + lam)))
        fit = -0.5 * (rows.m + (growth - q) / (lam * tau2))
        return fit + 0.5 * float((rows.d / (rows.d + lam)).sum())

    lam = maximise(score, slope, rows)
    # Without any column sigma2 is the variance of the target.
    return lam if np.isfinite(lam) else max(rows.r0 / rows.m, np.finfo(float).tiny) / tau2


def _inflation(df: float) -> float:
    """Variance of Student's t."""
    return 1.0 if np.isinf(df) else df / (df - 2.0)


def _quantile(level: float, df: float) -> float:
    return float(special.ndtri(0.5 + 0.5 * level) if np.isinf(df) else special.stdtrit(df, 0.5 + 0.5 * level))


def _vector(values: Any, name: str, p: int) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} contains a non-numeric value", remedy="pass one per column") from error
    if array.shape != (p,) or not np.isfinite(array).all():
        raise ParameterError(f"{name} is not {p} finite numbers", remedy="pass one per column")
    return array


# ------------------------------------------------------------------------------------------- MAP readings


@dataclass(frozen=True, eq=False, repr=False)
class MapPenalty(Result):
    """Which penalty a prior of the coefficients stands for: the posterior mode is the penalised fit.

    | field       | meaning                                                                     |
    |-------------|-----------------------------------------------------------------------------|
    | method      | "ridge" or "lasso"                                                          |
    | alpha       | the parameter of `assay.linear`'s estimator of that name                    |
    | lam         | the penalty in RSS + lam |b|^2 (ridge) or RSS + lam |b|_1 (lasso)           |
    | prior       | the prior, in words                                                         |
    | prior_scale | its scale: standard deviation sqrt(tau2) (ridge), tau (lasso)               |
    | formula     | how alpha follows from it, in words                                         |
    """

    method: str
    alpha: float
    lam: float
    prior: str
    prior_scale: float
    formula: str

    def __float__(self) -> float:
        return self.alpha

    def to_frame(self) -> pd.DataFrame:
        """One row: alpha, lam, prior and formula."""
        columns = {"alpha": self.alpha, "lam": self.lam, "prior": self.prior, "formula": self.formula}
        return pd.DataFrame([columns], index=[self.method])

    def __str__(self) -> str:
        lines = [f"prior {self.prior}: the posterior mode is the {self.method} fit with alpha = {self.alpha:.6g}"]
        return "\n".join([*lines, self.formula])


def map_ridge(sigma2: float, tau2: float) -> MapPenalty:
    """The ridge penalty of the prior b_j ~ N(0, tau2) under noise of variance sigma2: alpha = sigma2/tau2.

    | parameter | default | range   | meaning                          |
    |-----------|---------|---------|----------------------------------|
    | sigma2    |         | above 0 | variance of the noise            |
    | tau2      |         | above 0 | prior variance of a coefficient  |

    >>> print(map_ridge(2.0, 0.5))
    prior b_j ~ N(0, 0.5): the posterior mode is the ridge fit with alpha = 4
    RSS + alpha |b|^2 with alpha = sigma2/tau2 = 2/0.5: noise over prior variance
    """
    sigma2, tau2 = number(sigma2, "sigma2", 0, strict=True), number(tau2, "tau2", 0, strict=True)
    alpha = sigma2 / tau2
    formula = f"RSS + alpha |b|^2 with alpha = sigma2/tau2 = {sigma2:g}/{tau2:g}: noise over prior variance"
    return MapPenalty("ridge", alpha, alpha, f"b_j ~ N(0, {tau2:g})", float(np.sqrt(tau2)), formula)


def map_lasso(sigma2: float, tau: float, n: int) -> MapPenalty:
    """The lasso penalty of the prior b_j ~ Laplace(0, tau) under noise of variance sigma2.

        RSS/(2 sigma2) + |b|_1/tau  is  RSS + (2 sigma2/tau) |b|_1  is  RSS/(2n) + alpha |b|_1,  alpha = sigma2/(n tau)

    | parameter | default | range      | meaning                                                        |
    |-----------|---------|------------|----------------------------------------------------------------|
    | sigma2    |         | above 0    | variance of the noise                                          |
    | tau       |         | above 0    | scale of the Laplace prior exp(-|b|/tau)/(2 tau)               |
    | n         |         | at least 1 | number of rows (total weight), which the objective divides by  |

    >>> penalty = map_lasso(2.0, 0.5, 100)
    >>> penalty.alpha, penalty.lam
    (0.04, 8.0)
    """
    sigma2, tau = number(sigma2, "sigma2", 0, strict=True), number(tau, "tau", 0, strict=True)
    rows = number(n, "n", 0, strict=True)
    formula = (
        f"RSS/(2n) + alpha |b|_1 with alpha = sigma2/(n tau) = {sigma2:g}/({rows:g} x {tau:g}); "
        f"RSS + lam |b|_1 with lam = 2 sigma2/tau = {2 * sigma2 / tau:g}"
    )
    return MapPenalty("lasso", sigma2 / (rows * tau), 2 * sigma2 / tau, f"b_j ~ Laplace(0, {tau:g})", tau, formula)
