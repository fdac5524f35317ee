"""The plug-in classifier: estimate the density of each class and turn it round by Bayes' rule.

    P(k | x) = pi_k f_k(x) / sum_l pi_l f_l(x),    in logarithms throughout

f_k is a multivariate normal, a product-kernel density estimate

    f_k(x) = (1 / n_k) sum_i prod_j phi((x_j - x_ij) / h_kj) / h_kj,    h_kj = s_kj c_k
    c_k = n_k^(-1/(p + 4))  (Scott),    c_k = (n_k (p + 2) / 4)^(-1/(p + 4))  (Silverman),

or any density that scikit-learn or scipy knows how to fit. With the true densities this is the rule of least error;
the nearer the estimates, the nearer the rule. Cost of the kernel estimate: n_test n_train p multiply-adds in BLAS and
n_test n_train exponentials, block by block, summed in logarithms so that far rows do not underflow.

Silverman (1986), Density Estimation, sections 4.3 and 6.1; Devroye, Gyorfi and Lugosi (1996), A Probabilistic Theory of
Pattern Recognition, chapter 2.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin, clone

from assay.base import Constraint, Estimator, array_like, jobs, none, one_of, real, weight_name
from assay.constraints import boolean
from assay.errors import AssayWarning, DataError
from assay.generative._discriminant import NOISE, fit_quadratic, name_columns
from assay.generative._discriminant_rules import DiagonalRule, QuadraticRule, evaluate
from assay.generative._gaussian_summary import ClassMoments, Frame, frame_of, summarize
from assay.labels import class_codes, class_priors
from assay.numerics.threads import parallel
from assay.state import Specs, Stateful, anything, classes, floats, need, optional, part, several

__all__ = ["PlugInClassifier"]

Array = np.ndarray

TRAIN_ROWS, TEST_ROWS = 1024, 64
"""The block of distances held at a time: half a MiB of float64."""


def _is_density(value: Any) -> bool:
    fits = callable(getattr(value, "fit", None))
    return (
        fits
        and not isinstance(value, type)
        and any(callable(getattr(value, name, None)) for name in ("score_samples", "logpdf"))
    )


class PlugInClassifier(ClassifierMixin, Estimator):
    """Bayes' rule with estimated class densities plugged in.

        P(k | x) = pi_k f_k(x) / sum_l pi_l f_l(x)

    | parameter | default     | range                           | meaning                                              |
    |-----------|-------------|---------------------------------|------------------------------------------------------|
    | density   | "kernel"    | "kernel", "normal", an object   | f_k: Gaussian product kernels; a multivariate normal |
    |           |             |                                 | (unbiased covariance); or see below                  |
    | priors    | None        | probabilities, or None          | pi_k in the order of `classes_`; None: shares of the |
    |           |             |                                 | rows                                                 |
    | bandwidth | "silverman" | "silverman", "scott", > 0       | of the kernel, by class and column; a number is used |
    |           |             |                                 | for all of them, in the units of X                   |
    | n_jobs    | None        | whole number or None            | threads; never changes the answer                    |

    *Other densities.* An object with `fit(X)` and `score_samples(X)`, such as scikit-learn's `KernelDensity` or
    `GaussianMixture`, is cloned and fitted for each class. One with `fit(column)` and `logpdf(column, *parameters)`,
    such as `scipy.stats.gamma`, is fitted to each class and column by itself, and the columns count as independent
    (naive Bayes). Weights are repetitions and need a density whose `fit` takes them; both of our own do.

    Fitted: `classes_`, `priors_`, `densities_` (for each class a fitted object, or for each column its parameters;
    empty for our own), `bandwidths_` (K, p) of the kernel. A row that no density reaches (all f_k(x) = 0) gets the
    priors. A class without spread in some column borrows the bandwidth of all classes there, with a warning.

    Reference: Silverman (1986), Density Estimation for Statistics and Data Analysis.

    >>> X, y = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]], ["a", "a", "a", "b", "b", "b"]
    >>> PlugInClassifier().fit(X, y).predict([[3.0], [9.0]]).tolist()
    ['a', 'b']
    >>> from scipy import stats
    >>> PlugInClassifier(density=stats.norm).fit(X, y).predict_proba([[6.0]]).round(6).tolist()
    [[0.5, 0.5]]
    """

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "priors_": floats("k", low=0, high=1),
        "densities_": several(anything),
        "bandwidths_": optional(floats("k", "p")),
        "_kernels": optional(several(part("generative.Kernels", "p"), "k")),
        "_rule": optional(part((QuadraticRule, DiagonalRule), "p", "k")),
        "_scipy": optional(boolean),
    }

    def _check_state(self) -> None:
        own = [name for name in ("_kernels", "_rule", "_scipy") if hasattr(self, name)]
        need(len(own) == 1 and (own == ["_scipy"] or not self.densities_))
        need(own != ["_scipy"] or len(self.densities_) == self.classes_.size)

    constraints: ClassVar[dict[str, Constraint]] = {
        "density": one_of("kernel", "normal")
        | Constraint(_is_density, "an object with fit and score_samples or logpdf"),
        "priors": none | array_like,
        "bandwidth": one_of("silverman", "scott") | real(0, open_low=True),
        "n_jobs": jobs,
    }

    def __init__(
        self,
        density: Any = "kernel",
        *,
        priors: Any = None,
        bandwidth: Any = "silverman",
        n_jobs: int | None = None,
    ) -> None:
        self.density = density
        self.priors = priors
        self.bandwidth = bandwidth
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a density to the rows X (n, p) of each class in y."""
        X = self._validate(X, order="C")
        w = self._weights(sample_weight, len(X))
        self.classes_, codes = class_codes(y, len(X), w)
        K = len(self.classes_)
        total = np.bincount(codes, weights=w, minlength=K).astype(float)
        shares = total if self.priors is None else class_priors(self.priors, self.classes_)
        self.priors_ = shares / shares.sum()
        for name in ("_rule", "_kernels", "_scipy", "bandwidths_"):
            self.__dict__.pop(name, None)
        self.densities_: list[Any] = []
        if isinstance(self.density, str):
            kind = "full" if self.density == "normal" else "diagonal"
            m = summarize(X, codes, K, frame_of(X, w), w, kind=kind, n_jobs=self.n_jobs)
            if self.density == "normal":
                self._rule = self._normal(m)
            else:
                self._kernels = self._place_kernels(X, codes, w, m)
        else:
            self._fit_densities(X, codes, w)
        return self

    # Our own densities.

    def _normal(self, m: ClassMoments) -> QuadraticRule | DiagonalRule:
        remedy = "use density='kernel', drop columns, or use QuadraticDiscriminantAnalysis with shrinkage"
        classes, names = self.classes_.tolist(), self._feature_names()
        # Densities, not posteriors: priors of one.
        fit = fit_quadratic(m, np.ones(len(classes)), names, classes, unbiased=True, remedy=remedy)
        if not fit.whitening.full:
            empty = np.union1d(fit.whitening.constant, fit.whitening.repeated)
            what = f"{name_columns(names, empty)} without independent variation within the classes: no density exists"
            raise DataError(what, remedy=remedy)
        return fit.rule

    def _place_kernels(self, X: Array, codes: Array, w: Array | None, m: ClassMoments) -> list[_Kernels]:
        """The rows of each class in units of its bandwidths."""
        p, unit = X.shape[1], m.frame.unit
        if isinstance(self.bandwidth, str):
            widths = self._widths(m, p)
        else:
            with np.errstate(over="ignore", under="ignore"):
                widths = np.broadcast_to(float(self.bandwidth) / unit, m.mean.shape)
        with np.errstate(over="ignore", under="ignore"):
            self.bandwidths_ = widths * unit
        kernels = []
        for k in range(len(self.classes_)):
            rows = np.flatnonzero((codes == k) if w is None else (codes == k) & (w > 0))
            Z = ((X[rows] - m.frame.centre) / unit - m.mean[k]) / widths[k]
            log_weight = np.zeros(len(rows)) if w is None else np.log(w[rows] / w[rows].max())
            offset = log_weight - special.logsumexp(log_weight) - 0.5 * np.einsum("ij,ij->i", Z, Z)
            kernels.append(_Kernels(m.frame, m.mean[k], np.array(widths[k]), Z, offset))
        return kernels

    def _widths(self, m: ClassMoments, p: int) -> Array:
        """Silverman's or Scott's bandwidths (K, p), in the frame."""
        if ((m.weight <= 1) & (m.rows > 1)).any():
            k = int(np.argmax((m.weight <= 1) & (m.rows > 1)))
            what = f"the weights of class {self.classes_.tolist()[k]!r} count repetitions, but sum to less than 1"
            raise DataError(what, remedy="multiply the weights, or give bandwidth as a number")
        floor = NOISE * (np.abs(m.frame.centre) / m.frame.unit + np.abs(m.mean).max(axis=0))
        n, K = m.weight[:, None], len(m.weight)
        spread = np.sqrt(m.scatter / np.maximum(n - 1.0, 1e-300))
        still = (spread <= floor) | (m.rows < 2)[:, None]
        if still.any():
            self._warn(still)
            total = float(m.weight.sum())
            within = np.sqrt(m.scatter.sum(axis=0) / max(total - K, 1.0))
            shares = m.weight / total
            between = np.sqrt(shares @ np.square(m.mean - shares @ m.mean))
            lent = np.where(within > floor, within, np.where(between > floor, between, 1.0))
            spread = np.where(still, lent, spread)
        shape = (p + 2) / 4 if self.bandwidth == "silverman" else 1.0
        return spread * (n * shape) ** (-1.0 / (p + 4))

    def _warn(self, still: Array) -> None:
        k = int(np.argmax(still.any(axis=1)))
        columns = name_columns(self._feature_names(), np.flatnonzero(still[k]))
        more = int(still.any(axis=1).sum()) - 1
        others = f" (and in {more} more)" if more else ""
        what = f"class {self.classes_.tolist()[k]!r} does not vary in {columns}{others}"
        remedy = "the bandwidths of all classes together are used there; pass bandwidth as a number to set them"
        warnings.warn(f"{what}; {remedy}", AssayWarning, stacklevel=5)

    # Densities of others.

    def _fit_densities(self, X: Array, codes: Array, w: Array | None) -> None:
        self._scipy = not callable(getattr(self.density, "score_samples", None))
        word = type(self.density).__name__
        weights = None if self._scipy else weight_name(self.density)
        if w is not None and (self._scipy or weights is None):
            if np.ptp(w[w > 0]) > 0:
                remedy = "use 'kernel', 'normal' or a density whose fit takes sample_weight, or repeat the rows"
                raise DataError(f"{word} does not support sample_weight", remedy=remedy)
            w = np.where(w > 0, 1.0, 0.0)
        for k, label in enumerate(self.classes_.tolist()):
            rows = np.flatnonzero((codes == k) if w is None else (codes == k) & (w > 0))
            given = {} if w is None or weights is None else {weights: w[rows]}
            fitted: Any
            try:
                if self._scipy:
                    fitted = [tuple(self.density.fit(X[rows, j])) for j in range(X.shape[1])]
                else:
                    fitted = clone(self.density).fit(X[rows], **given)
            except Exception as error:
                why = " ".join(str(error).split())
                what = f"{word} cannot be fitted to the {len(rows)} rows of class {label!r}: {why}"
                raise DataError(what, remedy="choose another density, or pass other rows") from error
            self.densities_.append(fitted)

    def _others(self, X: Array) -> Array:
        """Log densities (n, K) of densities that are not ours."""
        found = np.empty((len(X), len(self.classes_)))
        with np.errstate(all="ignore"):
            for k, fitted in enumerate(self.densities_):
                if self._scipy:
                    found[:, k] = sum(self.density.logpdf(X[:, j], *fitted[j]) for j in range(X.shape[1]))
                else:
                    found[:, k] = fitted.score_samples(X)
        if np.isnan(found).any():
            row, k = (int(i) for i in np.argwhere(np.isnan(found))[0])
            what = f"the density of class {self.classes_.tolist()[k]!r} is NaN at row {row}"
            raise DataError(what, remedy="choose another density, or other rows")
        return found

    # Answers.

    def log_density(self, X: Any) -> Array:
        """log f_k(x) for every row and class, (n, K), before priors come in."""
        X = self._validate(X, reset=False, order="C")
        if hasattr(self, "_rule"):
            return evaluate(self._rule, X, "scores", n_jobs=self.n_jobs) - 0.5 * X.shape[1] * np.log(2 * np.pi)
        if hasattr(self, "_kernels"):
            return np.column_stack([kernels.log_density(X, self.n_jobs) for kernels in self._kernels])
        return self._others(X)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the posterior probabilities, exact where the probabilities themselves would vanish."""
        joint = self.log_density(X)
        endless = np.isposinf(joint)
        if endless.any():  # an infinite density beats every finite one
            joint = np.where(endless.any(axis=1, keepdims=True), np.where(endless, 0.0, -np.inf), joint)
        with np.errstate(divide="ignore"):
            priors = np.log(self.priors_)
        joint = joint + priors
        nowhere = np.isneginf(joint).all(axis=1)
        joint[nowhere] = priors
        return joint - special.logsumexp(joint, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> Array:
        """Posterior probabilities, one column per class in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Array:
        """The most probable class of each row; ties go to the first."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]


@dataclass(frozen=True, eq=False)
class _Kernels(Stateful):
    """Gaussian product kernels on the rows of one class: Z holds them in units of the bandwidths around their mean."""

    frame: Frame
    mean: Array
    widths: Array
    Z: Array
    offset: Array

    state: ClassVar[Specs] = {
        "frame": part(Frame, "p"),
        "mean": floats("p"),
        "widths": floats("p"),
        "Z": floats("n", "p"),
        "offset": floats("n"),
    }

    def _check_state(self) -> None:
        need((self.widths > 0).all() and self.offset.size > 0)

    def log_density(self, X: Array, n_jobs: int | None) -> Array:
        """The logarithm of the estimate at each row of X."""
        p, n = X.shape[1], len(X)
        out = np.empty(n)
        constant = 0.5 * p * np.log(2 * np.pi) + float(np.log(self.widths).sum() + np.log(self.frame.unit).sum())

        def block(start: int) -> None:
            rows = slice(start, min(start + TEST_ROWS, n))
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                A = ((X[rows] - self.frame.centre) / self.frame.unit - self.mean) / self.widths
                found = self._log_sum(A) - constant
                out[rows] = np.where(np.isnan(found), -np.inf, found)  # squares that overflow are infinitely far

        parallel(block, range(0, n, TEST_ROWS), n_jobs=n_jobs, work=float(n) * self.Z.size)
        return out

    def _log_sum(self, A: Array) -> Array:
        """log sum_i w_i exp(-|a - z_i|^2 / 2), over blocks of training rows with a running maximum."""
        own = 0.5 * np.einsum("ij,ij->i", A, A)
        top, total = np.full(len(A), -np.inf), np.zeros(len(A))
        for start in range(0, len(self.Z), TRAIN_ROWS):
            some = slice(start, start + TRAIN_ROWS)
            terms = A @ self.Z[some].T
            terms += self.offset[some]
            best = np.maximum(top, terms.max(axis=1))
            terms -= best[:, None]
            np.exp(terms, out=terms)
            total = total * np.exp(top - best) + terms.sum(axis=1)
            top = best
        return top + np.log(total) - own
