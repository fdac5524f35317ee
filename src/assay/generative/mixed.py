"""Naive Bayes for tables as they come: numbers, categories, text, counts and truth values side by side, with gaps.

    P(y = k | x)  ~  pi_k prod_{j present} f_kj(x_j)

    kind        f_kj                               estimate
    normal      normal density                     mean and variance (divisor N) of the class, + epsilon_j
    bins        table of chances of k quantile bins     as a category
    category    table of chances                   (N_kjc + alpha) / (N_kj + alpha n_j)
    binary      p^x (1 - p)^(1 - x)                (N_kj1 + alpha) / (N_kj + 2 alpha)
    count       Poisson with rate r_kj             (sum x + alpha m_j) / (N_kj + alpha),  m_j the column's mean

A missing value leaves its factor out, in training and in prediction: under independence that is what the model itself
says of a row of which less is known. Cost: a few passes over each column.
Hastie, Tibshirani and Friedman, Elements of Statistical Learning, section 6.6.3; Little and Rubin (2019), Statistical
Analysis with Missing Data (values must be missing at random within the class).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import special

from assay.base import Constraint, array_like, instance_of, integer, none, real
from assay.constraints import one_of
from assay.errors import DataError
from assay.generative._categorical_nb import padded_sum
from assay.generative._columns import KINDS, encode, infer, levels_of, named_kinds
from assay.generative._diagonal import chan
from assay.generative._naive import LogOdds, NaiveBayes, log0
from assay.labels import class_priors
from assay.state import Specs, bools, floats, labels, need, several

__all__ = ["MixedNB"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class MixedSummary:
    """Weight of each class (K,); of its values that are there (K, p), their means and squares; tables of categories."""

    weight: Array
    present: Array
    mean: Array
    square: Array
    tables: list[Array | None]

    def merged(self, other: MixedSummary) -> MixedSummary:
        """The summary of both sets of rows; a table has the levels of either."""
        moments = chan(self.present, self.mean, self.square, other.present, other.mean, other.square)
        pairs = zip(self.tables, other.tables, strict=True)
        tables = [None if a is None or b is None else padded_sum(a, b) for a, b in pairs]
        return MixedSummary(self.weight + other.weight, *moments, tables)


class MixedNB(LogOdds, NaiveBayes):
    """Naive Bayes for tables with numbers, categories, text, counts and truth values together, and with gaps.

        P(y = k | x)  ~  pi_k prod_{j present} f_kj(x_j)

    | parameter     | default | range                      | meaning                                                   |
    |---------------|---------|----------------------------|-----------------------------------------------------------|
    | kinds         | None    | dict of column: kind       | "normal", "category", "count" (Poisson) or "binary" for   |
    |               |         |                            | some columns, by name or position; None: all by dtype     |
    | discretize    | None    | >= 2 or None               | cut the numbers that `kinds` does not name at this many   |
    |               |         |                            | quantile bins of the training rows instead of a normal    |
    | alpha         | 1.0     | >= 0                       | smoothing of categories, bins, truth values and rates     |
    | var_smoothing | 1e-9    | >= 0                       | this share of a column's variance is added within classes |
    | priors        | None    | K numbers >= 0 with sum 1  | prior of each class (sorted); None: their shares          |

    Without `kinds`, text and pandas categories are categories, truth values binary, and all numbers normal (whole ones
    too: only the user knows whether 3 is a count or a code). An array of numbers is all normal.

    Fitted: `classes_`, `class_count_`, `class_prior_`, `kinds_` (one word per column), `levels_` and `cuts_` (for each
    column its levels or cuts, or None), `theta_` and `var_` (K, p; NaN where not normal), `rate_` (K, p; NaN where no
    count), `feature_log_prob_` (for each column an array (K, levels), or None); `present_`, `means_`, `squares_` and
    `category_count_`, from which `partial_fit` goes on. Weights are repetitions.

    Missing values (NaN, None, NA) and levels never seen in training leave their factor out. A class without a single
    value in a column of numbers gets the mean and variance of all rows; a column without any, or that never varies, has
    no say. `partial_fit` learns new levels as they come, and keeps the cuts of its first part. Smoothing of variances
    is column by column, so units do not matter (in `GaussianNB`, as in scikit-learn, the largest variance of the table
    sets it for all). A column that hardly varies within a rare class speaks very loudly for or against it: raise
    `var_smoothing`, or use `discretize`.

    Reference: Hastie, Tibshirani and Friedman, Elements of Statistical Learning, section 6.6.3.

    >>> table = pd.DataFrame({"size": [1.0, 1.2, 3.0, None], "colour": ["red", "blue", "blue", "blue"]})
    >>> model = MixedNB().fit(table, ["a", "a", "b", "b"])
    >>> model.kinds_
    ['normal', 'category']
    >>> new = pd.DataFrame({"size": [None, 1.1], "colour": ["blue", "green"]})
    >>> model.predict(new).tolist(), model.predict_proba(new)[0].round(3).tolist()
    (['b', 'a'], [0.4, 0.6])
    """

    state: ClassVar[Specs] = {
        "kinds_": several(one_of(*KINDS, "bins"), "p"),
        "levels_": several(labels(None) | none, "p"),
        "cuts_": several(floats(None, rising=True) | none, "p"),
        "declared_": bools("p"),
        "class_count_": floats("k", low=0),
        "class_prior_": floats("k", low=0, high=1),
        **dict.fromkeys(("present_", "squares_"), floats("k", "p", low=0)),
        "means_": floats("k", "p"),
        **dict.fromkeys(("theta_", "var_", "rate_"), floats("k", "p", low=0, finite=False)),
        "theta_": floats("k", "p", finite=False),
        "category_count_": several(floats("k", None, low=0) | none, "p"),
        "feature_log_prob_": several(floats("k", None, high=0, finite=False) | none, "p"),
    }

    def _check_state(self) -> None:
        need(self.class_count_.any())
        for j, kind in enumerate(self.kinds_):
            need((kind == "category") == (self.levels_[j] is not None) and (kind == "bins" or self.cuts_[j] is None))
            table, counts = self.feature_log_prob_[j], self.category_count_[j]
            need(kind in ("category", "binary", "bins") or (table is None and counts is None))
            need(table is None or counts is None or table.shape == counts.shape)
            need(table is None or (0 < table.shape[1] <= self._size(j) and not np.isnan(table).any()))
        need(not ((self.var_ == 0).any() or np.isinf(self.var_).any() or np.isinf(self.theta_).any()))
        need(not np.isinf(self.rate_).any())

    constraints: ClassVar[dict[str, Constraint]] = {
        "kinds": none | instance_of(dict, "a dict of column: kind"),
        "discretize": none | integer(2, 10_000),
        "alpha": real(0),
        "var_smoothing": real(0),
        "priors": none | array_like,
    }

    def __init__(
        self,
        *,
        kinds: dict[Any, str] | None = None,
        discretize: int | None = None,
        alpha: float = 1.0,
        var_smoothing: float = 1e-9,
        priors: Any = None,
    ) -> None:
        self.kinds = kinds
        self.discretize = discretize
        self.alpha = alpha
        self.var_smoothing = var_smoothing
        self.priors = priors

    # The table.

    def _table(self, X: Any, *, reset: bool) -> Array:
        frame = self._validate_frame(X, reset=reset)
        if reset:
            self._learn_kinds(frame)
        out = np.empty(frame.shape, order="F")
        for j, (kind, levels) in enumerate(zip(self.kinds_, self.levels_, strict=True)):
            out[:, j] = encode(frame.iloc[:, j], kind, levels, f"column {frame.columns[j]!r}")  # a number without names
        return out

    def _learn_kinds(self, frame: pd.DataFrame) -> None:
        p = frame.shape[1]
        asked = named_kinds(self.kinds, getattr(self, "feature_names_in_", [f"x{j}" for j in range(p)]))
        self.kinds_: list[str] = []
        self.levels_: list[Array | None] = [None] * p
        self.cuts_: list[Array | None] = [None] * p
        # A pandas categorical names levels that may have no row yet; others exist as far as they are seen.
        self.declared_ = np.array([isinstance(kind, pd.CategoricalDtype) for kind in frame.dtypes])
        for j in range(p):
            kind = asked.get(j) or infer(frame.iloc[:, j])
            if kind == "category":
                self.levels_[j] = levels_of(frame.iloc[:, j], self._column(j))
            elif kind == "normal" and self.discretize is not None and j not in asked:
                kind = "bins"
            self.kinds_.append(kind)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to what is known; `classes` names all classes there will be, at the first call."""
        if hasattr(self, "classes_"):
            frame = self._validate_frame(X, reset=False)
            for j, levels in enumerate(self.levels_):
                if levels is not None:
                    known = set(levels)
                    new = [level for level in levels_of(frame.iloc[:, j], self._column(j)) if level not in known]
                    self.levels_[j] = np.asarray([*levels, *new], dtype=levels.dtype if not new else object)
        return super().partial_fit(X, y, classes, sample_weight)

    # Summaries.

    def _cells(self, X: Any) -> int:
        return int(3 * X.shape[1] + sum(0 if levels is None else len(levels) for levels in self.levels_))

    def predict_folds(
        self, X: Any, y: Any, splits: Any, *, sample_weight: Any = None, method: str = "predict"
    ) -> list[Array] | None:
        """As in `GaussianNB`; None with `discretize`, whose cuts belong to the training rows of each fold."""
        if self.discretize is not None:
            return None
        return super().predict_folds(X, y, splits, sample_weight=sample_weight, method=method)

    def _summaries(
        self, X: Any, codes: Array, w: Array | None, K: int, fold: Array | None, F: int
    ) -> list[MixedSummary]:
        n, p = X.shape
        G = F * K
        group = codes if fold is None else fold * K + codes
        weights = np.ones(n) if w is None else w
        present, mean, square = (np.zeros((G, p)) for _ in range(3))
        tables: list[Array | None] = [None] * p
        for j, kind in enumerate(self.kinds_):
            there = (weights > 0) & ~np.isnan(X[:, j])
            x, g, f = X[there, j], group[there], weights[there]
            present[:, j] = np.bincount(g, weights=f, minlength=G)
            if kind in ("normal", "count"):
                mean[:, j], square[:, j] = _moments(x, g, f, present[:, j])
                continue
            if kind == "bins" and self.cuts_[j] is None:
                assert self.discretize is not None
                self.cuts_[j] = _cuts(x, f, self.discretize)
            cell, size = self._cell(j, x), self._size(j)
            tables[j] = np.bincount(g * size + cell, weights=f, minlength=G * size).reshape(G, size)
        weight = np.bincount(group, weights=weights, minlength=G)
        parts = [slice(k * K, (k + 1) * K) for k in range(F)]
        return [
            MixedSummary(
                weight[part], present[part], mean[part], square[part], [None if t is None else t[part] for t in tables]
            )
            for part in parts
        ]

    def _size(self, j: int) -> int:
        """The number of cells in the table of a column."""
        levels, cuts = self.levels_[j], self.cuts_[j]
        return len(levels) if levels is not None else 2 if cuts is None else len(cuts) + 1

    def _cell(self, j: int, x: Array) -> Array:
        """The place of each value in the table of its column."""
        cuts = self.cuts_[j]
        return x.astype(np.int64) if cuts is None else np.searchsorted(cuts, x, side="left")

    def _summary(self) -> MixedSummary:
        return MixedSummary(self.class_count_, self.present_, self.means_, self.squares_, self.category_count_)

    def _solve(self, summary: MixedSummary) -> None:
        K, p = summary.present.shape
        prior = None if self.priors is None else class_priors(self.priors, self.classes_, "priors")
        theta, var, rate = (np.full((K, p), np.nan) for _ in range(3))
        logs: list[Array | None] = [None] * p
        for j, (kind, table) in enumerate(zip(self.kinds_, summary.tables, strict=True)):
            if not summary.present[:, j].any():
                continue
            if kind == "normal":
                found = self._normal(j, summary.present[:, j], summary.mean[:, j], summary.square[:, j])
                if found is not None:
                    theta[:, j], var[:, j] = found
            elif kind == "count":
                rate[:, j] = self._rate(summary.present[:, j], summary.mean[:, j])
            else:
                assert table is not None
                logs[j] = self._chances(j, table)
        self.class_count_, self.present_ = summary.weight, summary.present
        self.means_, self.squares_, self.category_count_ = summary.mean, summary.square, summary.tables
        self.class_prior_ = summary.weight / summary.weight.sum() if prior is None else prior
        self.theta_, self.var_, self.rate_, self.feature_log_prob_ = theta, var, rate, logs

    def _normal(self, j: int, weight: Array, mean: Array, square: Array) -> tuple[Array, Array] | None:
        """Mean and variance of each class; None for a column that never varies."""
        with np.errstate(over="ignore", invalid="ignore"):
            centre = weight @ mean / weight.sum()
            overall = (square.sum() + weight @ (mean - centre) ** 2) / weight.sum()
        if not np.isfinite(overall):
            what = f"{self._column(j)} has a range that overflows floating point"
            raise DataError(what, remedy="rescale it")
        if overall == 0:
            return None
        seen = weight > 0
        var = np.full(weight.size, overall)
        var[seen] = square[seen] / weight[seen]
        var += self.var_smoothing * overall
        if not var.all():
            label = self.classes_.tolist()[int(np.argmin(var))]
            what = f"{self._column(j)} does not vary in class {label!r}, so its variance is 0"
            raise DataError(what, remedy="set var_smoothing above 0, such as 1e-9, or drop the column")
        return np.where(seen, mean, centre), var

    def _rate(self, weight: Array, mean: Array) -> Any:
        """Rates drawn towards the mean of the column by alpha rows; NaN where nothing was ever counted."""
        overall = weight @ mean / weight.sum()
        if overall == 0:
            return np.nan
        below = weight + self.alpha
        rate = (weight * mean + self.alpha * overall) / np.where(below > 0, below, 1.0)
        return np.where(below > 0, rate, overall)

    def _chances(self, j: int, table: Array) -> Array:
        """Logarithms of the smoothed chances of the levels that exist; 0, which says nothing, for others."""
        exists = table.any(axis=0)
        if self.kinds_[j] != "category" or self.declared_[j]:
            exists = np.ones(table.shape[1], dtype=bool)
        smoothed = np.where(exists, table + self.alpha, 0.0)
        whole = smoothed.sum(axis=1, keepdims=True)
        share = np.divide(smoothed, whole, out=np.full(table.shape, 1.0 / exists.sum()), where=whole > 0)
        return log0(np.where(exists, share, 1.0))

    # Answers.

    def _log_prior(self) -> Array:
        return log0(self.class_prior_)

    def _scores(self, X: Any, rows: Array) -> Array:
        Z = X[rows] if rows.size else X
        # A class of which no row has come yet has no densities.
        start = np.where(self.class_count_ > 0, self._log_prior(), -np.inf)
        scores = np.tile(start, (len(Z), 1))
        for j in range(Z.shape[1]):
            there = np.flatnonzero(~np.isnan(Z[:, j]))
            scores[there] += self._factor(j, Z[there, j])
        return scores

    def _factor(self, j: int, x: Array) -> Any:
        """log f_kj(x) for all classes, (n, K); 0 for a column that has no say."""
        table = self.feature_log_prob_[j]
        if table is not None:
            cell = self._cell(j, x)
            # A level that came with rows of no class, after the last fit, has no place in the table.
            known = cell < table.shape[1]
            return np.where(known[:, None], table.T[np.where(known, cell, 0)], 0.0)
        rate = self.rate_[:, j]
        if not np.isnan(rate).any():
            return special.xlogy(x[:, None], rate) - rate - special.gammaln(x + 1.0)[:, None]
        var = self.var_[:, j]
        if np.isnan(var).any():
            return 0.0
        with np.errstate(over="ignore"):
            return -0.5 * ((x[:, None] - self.theta_[:, j]) ** 2 / var + np.log(2.0 * np.pi * var))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _moments(x: Array, group: Array, w: Array, weight: Array) -> tuple[Array, Array]:
    """Mean of each group, corrected once by the mean of what is left, and sum of squares about it."""
    G = weight.size
    scale = np.where(weight > 0, weight, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # told where it is solved
        mean = np.bincount(group, weights=w * x, minlength=G) / scale
        mean += np.bincount(group, weights=w * (x - mean[group]), minlength=G) / scale
        return mean, np.bincount(group, weights=w * (x - mean[group]) ** 2, minlength=G)


def _cuts(x: Array, w: Array, bins: int) -> Array:
    """Cuts between quantile bins: the values at which shares 1/k, 2/k, ... of the weight are reached; (cut, cut].

    >>> _cuts(np.arange(8.0), np.ones(8), 4).tolist()
    [1.0, 3.0, 5.0]
    """
    order = np.argsort(x, kind="stable")
    reached = np.cumsum(w[order])
    # A share counts as reached when rounding alone keeps it away.
    asked = reached[-1] * np.arange(1, bins) / bins * (1.0 - 1e-12)
    cuts = np.unique(x[order][np.searchsorted(reached, asked)])
    return cuts[cuts < x[order[-1]]]
