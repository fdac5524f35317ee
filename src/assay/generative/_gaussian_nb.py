"""Gaussian naive Bayes: within a class every column is normal and independent of the others.

    f_kj(x) = exp(-(x - theta_kj)^2 / (2 v_kj)) / sqrt(2 pi v_kj),      v_kj = S_kj / W_k + epsilon

Cost of a fit: 5 n p flops, one pass over memory; of a prediction: 3 n p K.
Hastie, Tibshirani and Friedman, Elements of Statistical Learning, section 6.6.3.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from assay.base import Constraint, array_like, none, real
from assay.errors import DataError
from assay.generative._diagonal import Normal, normal_scores, summarize
from assay.generative._naive import LogOdds, NaiveBayes, log0, open_array
from assay.labels import class_priors
from assay.state import Specs, floats, need

__all__ = ["GaussianNB"]

Array = np.ndarray


class GaussianNB(LogOdds, NaiveBayes):
    """Naive Bayes with a normal density for each column in each class.

        P(y = k | x)  ~  pi_k prod_j N(x_j; theta_kj, var_kj)

    | parameter     | default | range                         | meaning                                            |
    |---------------|---------|-------------------------------|----------------------------------------------------|
    | priors        | None    | K numbers >= 0 with sum 1     | prior of each class (sorted); None: their shares   |
    | var_smoothing | 1e-9    | >= 0                          | `epsilon_` is this share of the largest variance   |
    |               |         |                               | of a column, and is added to every variance        |

    Fitted: `classes_`, `class_count_` (sum of weights), `class_prior_`, `theta_` and `var_` (K, p), `squares_` (sums of
    squares about the means, from which `partial_fit` goes on) and `epsilon_`. Weights are repetitions.

    A class of prior 0 is never predicted, nor one of which `partial_fit` has seen no row. A row so far from every class
    that all densities vanish gets the prior. Differences from scikit-learn: `epsilon_` comes from all rows with their
    weights, there from the last part given to `partial_fit`, without weights; a fit in parts is therefore the fit of
    all rows. Where no column varies, `epsilon_` is 1, and the prior decides. A variance of 0 (`var_smoothing=0` and a
    column that is constant within a class) is refused. Tables are computed in float64.

    Reference: Chan, Golub and LeVeque (1983), Am. Statistician 37, 242-247.

    >>> X, y = [[-1.0], [-2.0], [-3.0], [1.0], [2.0], [3.0]], ["a", "a", "a", "b", "b", "b"]
    >>> model = GaussianNB().fit(X, y)
    >>> model.theta_.tolist(), model.var_.round(4).tolist()
    ([[-2.0], [2.0]], [[0.6667], [0.6667]])
    >>> model.predict([[-0.5]]).tolist(), model.predict_proba([[-0.5]]).round(4).tolist()
    (['a'], [[0.9526, 0.0474]])
    >>> parts = GaussianNB().partial_fit(X[:4], y[:4], classes=["a", "b"]).partial_fit(X[4:], y[4:])
    >>> bool(np.allclose(parts.theta_, model.theta_) and np.allclose(parts.var_, model.var_))
    True
    """

    state: ClassVar[Specs] = {
        "class_count_": floats("k", low=0),
        "class_prior_": floats("k", low=0, high=1),
        "theta_": floats("k", "p"),
        "squares_": floats("k", "p", low=0),
        "var_": floats("k", "p", low=0),
        "epsilon_": real(0),
    }

    def _check_state(self) -> None:
        need((self.var_[self.class_count_ > 0] > 0).all() and self.class_count_.any(), "variances must be positive")

    constraints: ClassVar[dict[str, Constraint]] = {"priors": none | array_like, "var_smoothing": real(0)}

    def __init__(self, *, priors: Any = None, var_smoothing: float = 1e-9) -> None:
        self.priors = priors
        self.var_smoothing = var_smoothing

    def _table(self, X: Any, *, reset: bool) -> Array:
        return open_array(self._validate(X, reset=reset, order="C"))

    def _summaries(self, X: Any, codes: Array, w: Array | None, K: int, fold: Array | None, F: int) -> list[Normal]:
        group = codes if fold is None else fold * K + codes
        whole = summarize(X, group, w, F * K)
        if F == 1:
            return [whole]
        parts = [slice(f * K, (f + 1) * K) for f in range(F)]
        return [Normal(whole.weight[part], whole.mean[part], whole.square[part]) for part in parts]

    def _summary(self) -> Normal:
        return Normal(self.class_count_, self.theta_, self.squares_)

    def _solve(self, summary: Normal) -> None:
        weight, seen = summary.weight, summary.weight > 0
        given = None if self.priors is None else class_priors(self.priors, self.classes_, "priors")
        overall = _overall_variance(summary)
        if not np.isfinite(overall).all():
            where = self._column(int(np.argmax(~np.isfinite(overall))))
            raise DataError(f"{where} has a range that overflows floating point", remedy="rescale it")
        largest = float(overall.max())
        epsilon = self.var_smoothing * largest if largest > 0 else 1.0
        var = np.zeros_like(summary.square)
        var[seen] = summary.square[seen] / weight[seen, None]
        var += epsilon
        still = (var == 0) & seen[:, None]
        if still.any():
            k, j = (int(at[0]) for at in np.nonzero(still))
            what = f"{self._column(j)} does not vary in class {self.classes_.tolist()[k]!r}, so its variance is 0"
            raise DataError(what, remedy="set var_smoothing above 0, such as 1e-9, or drop the column")
        self.class_count_, self.theta_, self.squares_ = weight, summary.mean, summary.square
        self.epsilon_, self.var_ = float(epsilon), var
        self.class_prior_ = weight / weight.sum() if given is None else given

    def _log_prior(self) -> Array:
        return log0(self.class_prior_)

    def _scores(self, X: Any, rows: Array) -> Array:
        seen = self.class_count_ > 0
        constant = np.where(seen, self._log_prior(), -np.inf)
        var = np.where(seen[:, None], self.var_, 1.0)
        return normal_scores(X, rows, self.theta_, var, constant)


def _overall_variance(summary: Normal) -> Array:
    """The variance of each column over all classes."""
    weight = summary.weight
    with np.errstate(over="ignore", invalid="ignore"):
        mean = weight @ summary.mean / weight.sum()
        between = weight @ (summary.mean - mean) ** 2
        return (summary.square.sum(axis=0) + between) / weight.sum()
