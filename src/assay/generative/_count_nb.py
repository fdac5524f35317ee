"""Naive Bayes for words: Bernoulli (is the word there?) and multinomial (how often?), with additive smoothing.

    Bernoulli     f_kj(x) = p_kj^x (1 - p_kj)^(1-x),     p_kj = (N_kj + alpha) / (N_k + 2 alpha)
    multinomial   f_k(x)  ~ prod_j p_kj^x_j,             p_kj = (N_kj + alpha) / (sum_l N_kl + alpha p)

alpha = 1 is Laplace's rule of succession, the mean of a uniform prior; alpha = 0 is maximum likelihood. Both scores are
linear in x, so a sparse table is read once and never made dense.
McCallum and Nigam (1998), A comparison of event models for naive Bayes text classification, AAAI workshop.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from assay.base import Constraint, array_like, boolean, none, real
from assay.errors import DataError, ParameterError
from assay.generative._counts import Counts, count, is_sparse, linear_scores
from assay.generative._naive import LogOdds, NaiveBayes, log0, open_array
from assay.labels import class_priors
from assay.state import Specs, floats, need

__all__ = ["BernoulliNB", "DiscreteNB", "MultinomialNB", "negative"]

Array = np.ndarray


def negative(model: Any, value: float, column: int, row: int) -> DataError:
    """The sentence for a count below zero."""
    what = f"Negative values in data: {model._column(column)} contains {value:g} in row {row}"
    return DataError(what, remedy="give counts of at least 0")


class DiscreteNB(NaiveBayes):
    """What counts of every kind share: smoothing and the prior."""

    state: ClassVar[Specs] = {
        "class_count_": floats("k", low=0),
        "class_log_prior_": floats("k", high=0, finite=False),
    }

    def _check_state(self) -> None:
        need(not np.isnan(self.class_log_prior_).any() and self.classes_.size > 1)

    alpha: Any
    fit_prior: bool
    class_prior: Any
    class_count_: Array

    def _set_prior(self, weight: Array) -> None:
        """`class_log_prior_` from the counts of the classes, as given, or uniform."""
        if self.class_prior is not None:
            prior = class_priors(self.class_prior, self.classes_, "class_prior")
        elif self.fit_prior:
            prior = weight / weight.sum()
        else:
            prior = np.full(weight.size, 1.0 / weight.size)
        self.class_count_ = weight
        self.class_log_prior_ = log0(prior)

    def _log_prior(self) -> Array:
        return self.class_log_prior_

    def _alpha(self, p: int) -> Any:
        """The smoothing: one number, or one per column."""
        if not isinstance(self.alpha, list | tuple | np.ndarray) and np.ndim(self.alpha) == 0:
            return float(self.alpha)
        remedy = f"pass one number of at least 0, or one for each of the {p} columns"
        try:
            alpha = np.asarray(self.alpha, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError("alpha contains a non-numeric value", remedy=remedy) from error
        if alpha.shape != (p,):
            raise ParameterError(f"alpha has shape {alpha.shape} for {p} columns", remedy=remedy)
        if not np.isfinite(alpha).all() or (alpha < 0).any():
            raise ParameterError("alpha has a negative or non-finite value", remedy=remedy)
        return alpha


class _WordNB(DiscreteNB):
    """Rows of counts, dense or sparse, summed by class and scored by a linear function."""

    state: ClassVar[Specs] = {
        "feature_count_": floats("k", "p", low=0),
        "feature_log_prob_": floats("k", "p", high=0, finite=False),
    }

    def _check_state(self) -> None:
        super()._check_state()
        need(not np.isnan(self.feature_log_prob_).any())
        self._alpha(self.n_features_in_)

    feature_count_: Array
    feature_log_prob_: Array

    def _table(self, X: Any, *, reset: bool) -> Any:
        table = self._validate(X, reset=reset, sparse=("csr",), order="C")
        if not is_sparse(table):
            return open_array(table)
        if not self._adds() and not table.has_canonical_format:
            table = table.copy()
            table.sum_duplicates()
        narrow = max(table.nnz, *table.shape) < 2**31
        kind = np.int32 if narrow else np.int64
        parts = (open_array(table.data), open_array(table.indices, kind), open_array(table.indptr, kind))
        return sparse.csr_array(parts, shape=table.shape)

    def _cut(self) -> float:
        """Counts are compared with it; NaN: they are taken as they are."""
        return float("nan")

    def _adds(self) -> bool:
        """Whether a count may be stored in parts, which add up by themselves."""
        return bool(np.isnan(self._cut()))

    def _summaries(self, X: Any, codes: Array, w: Array | None, K: int, fold: Array | None, F: int) -> list[Counts]:
        group = codes if fold is None else fold * K + codes
        whole = count(X, group, w, F * K, self._cut())
        parts = [slice(f * K, (f + 1) * K) for f in range(F)]
        return [Counts(whole.weight[part], whole.total[part]) for part in parts]

    def _summary(self) -> Counts:
        return Counts(self.class_count_, self.feature_count_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.poor_score = True  # on the continuous data of scikit-learn's checks
        return tags


class BernoulliNB(LogOdds, _WordNB):
    """Naive Bayes with a probability for each yes-or-no column in each class; what is absent counts too.

        P(y = k | x)  ~  pi_k prod_j p_kj^x_j (1 - p_kj)^(1 - x_j),      p_kj = (N_kj + alpha) / (N_k + 2 alpha)

    | parameter   | default | range                     | meaning                                                    |
    |-------------|---------|---------------------------|------------------------------------------------------------|
    | alpha       | 1.0     | >= 0, or one per column   | smoothing: 1 is Laplace's, 0 none                          |
    | binarize    | 0.0     | >= 0 or None              | x is 1 above it; None: the table holds 0 and 1 only        |
    | fit_prior   | True    | True, False               | priors from the classes' shares, or all alike              |
    | class_prior | None    | K numbers >= 0 with sum 1 | prior of each class (sorted); overrules `fit_prior`        |

    Fitted: `classes_`, `class_count_`, `feature_count_` (K, p), `class_log_prior_`, `feature_log_prob_` and
    `absence_log_prob_` (log p_kj and log(1 - p_kj), K x p). Weights are repetitions; sparse X stays sparse. With
    `alpha=0` a column may rule a class out (log 0 = -inf, without a warning); a row that every class rules out gets the
    prior, where scikit-learn gives NaN. With `binarize=None`, anything but 0 and 1 is refused, where scikit-learn goes
    on.

    Reference: McCallum and Nigam (1998), A comparison of event models for naive Bayes text classification.

    >>> X, y = [[1, 0], [1, 1], [0, 1], [0, 0]], ["spam", "spam", "ham", "ham"]
    >>> model = BernoulliNB().fit(X, y)
    >>> np.exp(model.feature_log_prob_).tolist()
    [[0.25, 0.5], [0.75, 0.5]]
    >>> model.predict([[1, 0]]).tolist(), model.predict_proba([[1, 0]]).round(4).tolist()
    (['spam'], [[0.25, 0.75]])
    """

    state: ClassVar[Specs] = {
        "absence_log_prob_": floats("k", "p", high=0, finite=False),
    }

    constraints: ClassVar[dict[str, Constraint]] = {
        "alpha": real(0) | array_like,
        "binarize": none | real(0),
        "fit_prior": boolean,
        "class_prior": none | array_like,
    }

    def __init__(
        self, *, alpha: Any = 1.0, binarize: float | None = 0.0, fit_prior: bool = True, class_prior: Any = None
    ) -> None:
        self.alpha = alpha
        self.binarize = binarize
        self.fit_prior = fit_prior
        self.class_prior = class_prior

    def _cut(self) -> float:
        return 0.5 if self.binarize is None else float(self.binarize)

    def _table(self, X: Any, *, reset: bool) -> Any:
        table = super()._table(X, reset=reset)
        if self.binarize is None:
            values = table.data if is_sparse(table) else table
            odd = (values != 0) & (values != 1)
            if odd.any():
                row, j, value = _first(table, odd)
                what = f"{self._column(j)} contains {value:g} in row {row}, which is neither 0 nor 1"
                raise DataError(what, remedy="set binarize=0.0, or another threshold")
        return table

    def _solve(self, summary: Counts) -> None:
        total, weight = summary.total, summary.weight[:, None]
        alpha = self._alpha(total.shape[1])
        self._set_prior(summary.weight)
        self.feature_count_ = total
        logs = _log_share(total + alpha, weight + 2.0 * alpha, 0.5)
        # The chance of absence from counts: one minus a chance near one would lose its digits.
        absent = _log_share(np.maximum(weight - total, 0.0) + alpha, weight + 2.0 * alpha, 0.5)
        self.feature_log_prob_, self.absence_log_prob_ = logs, absent

    def _scores(self, X: Any, rows: Array) -> Array:
        there, absent = self.feature_log_prob_, self.absence_log_prob_
        never, always = np.isneginf(there), np.isneginf(absent)
        banned = never.any() or always.any()
        if banned:
            there, absent = np.where(never, 0.0, there), np.where(always, 0.0, absent)
        constant = self.class_log_prior_ + absent.sum(axis=1)
        scores = linear_scores(X, rows, (there - absent).T, constant, self._cut())
        if banned:
            against = never.astype(np.float64) - always
            ruled_out = linear_scores(X, rows, against.T, always.sum(axis=1).astype(np.float64), self._cut())
            scores[ruled_out > 0.5] = -np.inf
        return scores


class MultinomialNB(_WordNB):
    """Naive Bayes for counts: a row is drawn word by word from its class's vocabulary.

        P(y = k | x)  ~  pi_k prod_j p_kj^x_j,      p_kj = (N_kj + alpha) / (sum_l N_kl + alpha p)

    | parameter   | default | range                     | meaning                                                    |
    |-------------|---------|---------------------------|------------------------------------------------------------|
    | alpha       | 1.0     | >= 0, or one per column   | smoothing: 1 is Laplace's, 0 none                          |
    | fit_prior   | True    | True, False               | priors from the classes' shares, or all alike              |
    | class_prior | None    | K numbers >= 0 with sum 1 | prior of each class (sorted); overrules `fit_prior`        |

    Fitted: `classes_`, `class_count_`, `feature_count_` (K, p), `class_log_prior_`, `feature_log_prob_` (K, p). Counts
    need not be whole (tf-idf), but not below 0. Weights are repetitions; sparse X stays sparse. A row of zeros gets the
    prior. With `alpha=0` a word may rule a class out (log 0 = -inf, without a warning); a row that every class rules
    out gets the prior, where scikit-learn gives NaN.

    Reference: McCallum and Nigam (1998), A comparison of event models for naive Bayes text classification.

    >>> X, y = [[2, 0, 1], [3, 1, 0], [0, 2, 2], [0, 3, 1]], ["sport", "sport", "music", "music"]
    >>> model = MultinomialNB().fit(X, y)
    >>> np.exp(model.feature_log_prob_).round(3).tolist()
    [[0.091, 0.545, 0.364], [0.6, 0.2, 0.2]]
    >>> model.predict([[1, 0, 0], [0, 1, 0]]).tolist(), model.predict_proba([[0, 0, 0]]).tolist()
    (['sport', 'music'], [[0.5, 0.5]])
    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "alpha": real(0) | array_like,
        "fit_prior": boolean,
        "class_prior": none | array_like,
    }

    def __init__(self, *, alpha: Any = 1.0, fit_prior: bool = True, class_prior: Any = None) -> None:
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior

    def _table(self, X: Any, *, reset: bool) -> Any:
        table = super()._table(X, reset=reset)
        values = table.data if is_sparse(table) else table
        if values.size and values.min() < 0:
            row, j, value = _first(table, values < 0)
            raise negative(self, value, j, row)
        return table

    def _solve(self, summary: Counts) -> None:
        total = summary.total
        p = total.shape[1]
        alpha = self._alpha(p)
        with np.errstate(over="ignore"):
            smoothed = total + alpha
            whole = smoothed.sum(axis=1, keepdims=True)
        if not np.isfinite(whole).all():
            raise DataError("the sum of the counts overflows", remedy="divide the table by a constant")
        self._set_prior(summary.weight)
        self.feature_count_ = total
        self.feature_log_prob_ = _log_share(smoothed, whole, 1.0 / p)

    def _scores(self, X: Any, rows: Array) -> Array:
        logs = self.feature_log_prob_
        never = np.isneginf(logs)
        banned = bool(never.any())
        scores = linear_scores(X, rows, np.where(never, 0.0, logs).T if banned else logs.T, self.class_log_prior_)
        if banned:
            zero = np.zeros(len(logs))
            scores[linear_scores(X, rows, never.T.astype(np.float64), zero, 0.0) > 0.5] = -np.inf
        return scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def _log_share(part: Array, whole: Array, limit: float) -> Array:
    """log(part / whole); `limit` where both are zero, as for an alpha that goes to zero."""
    part, whole = np.broadcast_arrays(part, whole)
    share = np.divide(part, whole, out=np.full(part.shape, limit), where=whole > 0)
    return log0(share)


def _first(table: Any, odd: Array) -> tuple[int, int, float]:
    """Row, column and value of the first odd number."""
    at = int(np.argmax(odd))
    if not is_sparse(table):
        row, j = divmod(at, table.shape[1])
        return row, j, float(table[row, j])
    row = int(np.searchsorted(table.indptr, at, side="right")) - 1
    return row, int(table.indices[at]), float(table.data[at])
