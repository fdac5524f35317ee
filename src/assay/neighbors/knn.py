"""k nearest neighbours: ask the training rows that look most like the new one (row B6).

    classes   P(c | x) = share of class c among the votes of the k nearest rows N(x);   the largest share wins
    numbers   f(x)     = mean of y over N(x), by votes

No model is fitted; everything is in the distance and in k. Small k follows the rows, large k smooths. With unlimited
rows a single neighbour errs at most twice as often as the best possible rule: R* <= R_1NN <= 2 R* (1 - R*) for two
classes. Columns should be in comparable units (standardise them, or use `metric="mahalanobis"`).

k may be chosen by leave-one-out over all candidates at once (`n_neighbors="loo"`): one search serves every k.

The search is exact: blocks of float32 products serve as a sieve with a proven error bound and what is left is measured
in float64, or a KD-tree is used where it is quicker. Ties in distance go to the lower row number and ties in votes to
the first class, whatever the algorithm and the number of threads. Cost: O(n p) per query at most, memory O(n p).

Cover, Hart (1967), IEEE Trans. Inform. Theory 13, 21-27; Hechenbichler, Schliep (2004) for kernels.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from assay.base import Constraint, boolean, one_of, real
from assay.labels import class_codes
from assay.neighbors._knn import Neighbours
from assay.neighbors._loo import running_classes, running_means
from assay.neighbors._votes import Neighbourhood, average, count, votes
from assay.state import Specs, classes, floats, ints, need

__all__ = ["KNeighborsClassifier", "KNeighborsRegressor"]

Array = np.ndarray


class KNeighborsClassifier(ClassifierMixin, Neighbours):
    """Vote of the k nearest training rows; of several classes with most votes the first wins (so k even may tie).

    With v_c the votes of class c, V their sum, pi the prior shares and alpha = `smoothing`

        P(c | x) = (k v_c / V + alpha pi_c) / (k + alpha)

    | parameter     | default        | range                                | meaning                                   |
    |---------------|----------------|--------------------------------------|-------------------------------------------|
    | n_neighbors   | 5              | from 1 on, "loo"                     | k; "loo": chosen by leave-one-out         |
    | weights       | "uniform"      | "distance", "kernel", function       | votes: 1, 1/d, K(d / d_(k+1)), or a function of the distances |
    | algorithm     | "auto"         | "brute", "kd_tree"                   | how to search; never changes a result     |
    | leaf_size     | 64             | from 1 on                            | most rows of a leaf of the tree; never changes a result |
    | p             | 2              | from 1 on, inf                       | power of the Minkowski distance           |
    | metric        | "minkowski"    | "euclidean", "manhattan", "chebyshev", "cosine", "mahalanobis", "hamming" | the distance |
    | metric_params | None           | dict                                 | "V" or its inverse "VI" for Mahalanobis; None: V of the rows |
    | n_jobs        | None           | threads                              | never changes a result                    |
    | kernel        | "epanechnikov" | "tricube", "gaussian"                | the shape of `weights="kernel"`           |
    | smoothing     | 0.0            | from 0 on                            | alpha; the number of classes, with a uniform prior, is Laplace's rule |
    | prior         | "uniform"      | "empirical"                          | pi: equal shares, or those of the training rows |
    | candidates    | 50             | from 1 on, list                      | with "loo": 1 .. this, or the numbers given |
    | rule          | "min"          | "1se"                                | with "loo": least error, or the largest k within one standard error of it |

    Fitted: `classes_`, `class_prior_`, `n_neighbors_`, `loo_` (a `LeaveOneOutCurve`, with "loo"), `algorithm_`,
    `n_samples_fit_`, `n_features_in_`, `feature_names_in_`.

    A row of weight w counts as w rows: neighbours are as many nearest rows as together weigh k. Under cosine a row of
    zeros is at distance 1 from every row.

    Cover, Hart (1967), Nearest neighbor pattern classification, IEEE Trans. Inform. Theory 13, 21-27.

    >>> X, y = [[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]], ["low", "low", "low", "high", "high", "low"]
    >>> model = KNeighborsClassifier(n_neighbors=3).fit(X, y)
    >>> model.predict([[2.5], [10.5]]).tolist(), model.predict_proba([[10.5]]).round(3).tolist()
    (['low', 'high'], [[0.667, 0.333]])
    >>> print(KNeighborsClassifier("loo", candidates=[1, 3]).fit(X, y).loo_)
    Leave-one-out error rate of 6 rows, 2 numbers of neighbours
    -----------------------------------------------------------
    least   0.16667 (standard error 0.167) at k = 1
    one-SE  0.16667 (standard error 0.167) at k = 1
    chosen  k = 1 (rule "min")
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **Neighbours.constraints,
        "smoothing": real(0),
        "prior": one_of("uniform", "empirical"),
    }
    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "_codes": ints("n", below="k"),
        "class_prior_": floats("k", low=0, high=1),
    }

    def __init__(
        self,
        n_neighbors: int | str = 5,
        *,
        weights: Any = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 64,
        p: float = 2,
        metric: str = "minkowski",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        kernel: str = "epanechnikov",
        smoothing: float = 0.0,
        prior: str = "uniform",
        candidates: Any = 50,
        rule: str = "min",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.p = p
        self.metric = metric
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.kernel = kernel
        self.smoothing = smoothing
        self.prior = prior
        self.candidates = candidates
        self.rule = rule

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Keep the rows, prepare the search, and choose k if asked; rows of weight 0 are as if they were not there."""
        rows = self._validate(X)
        w = self._weights(sample_weight, len(rows))
        self.classes_, codes = class_codes(y, len(rows), w)
        if w is not None:
            rows, codes, w = rows[w > 0], codes[w > 0], w[w > 0]
        self._codes = codes.astype(np.int64)
        shares = np.bincount(codes, w, minlength=self.classes_.size)
        self.class_prior_ = shares / shares.sum()
        self._keep(rows, w)
        if self.n_neighbors != "loo":
            self.n_neighbors_ = int(self.n_neighbors)
            return self
        turned = self.smoothing > 0 and self.prior == "empirical"  # a prior may outvote the neighbours
        plain = self.weights in ("uniform", "distance") and not turned
        self.loo_ = self._leave_one_out("error rate", self._running if plain else None, self._wrong)
        self.n_neighbors_ = self.loo_.chosen
        return self

    def _running(self, distance: Array, rows: Array, own: Array, tried: Array) -> Array:
        voting = votes(Neighbourhood(distance, rows, None, distance[:, -1]), self.weights, self.kernel)
        loss = np.empty((len(own), tried.size))
        running_classes(rows, voting, self._codes, own, tried, self.classes_.size, loss)
        return loss

    def _wrong(self, near: Neighbourhood, own: Array, k: int) -> Array:
        return (np.argmax(self._shares(near, k), axis=1) != self._codes[own]).astype(np.float64)

    def _shares(self, near: Neighbourhood, k: int) -> Array:
        """Class probabilities from the votes of neighbourhoods of weight k."""
        shares = np.empty((near.rows.shape[0], self.classes_.size))
        count(near.rows, votes(near, self.weights, self.kernel), self._codes, shares)
        if self.smoothing > 0:
            prior = self.class_prior_ if self.prior == "empirical" else np.full(self.classes_.size, 1.0)
            prior = prior / prior.sum()
            shares = (k * shares + self.smoothing * prior) / (k + self.smoothing)
        return shares

    def predict(self, X: Any) -> Array:
        """The class with the largest probability, of several the first."""
        shares = self.predict_proba(X)
        return self.classes_[np.argmax(shares, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """The classes' shares of the votes, smoothed, in the order of `classes_`."""
        rows = self._validate(X, reset=False)
        return self._shares(self._near(rows), self.n_neighbors_)

    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms, minus infinity for a class without a vote (`smoothing` prevents it)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class KNeighborsRegressor(RegressorMixin, Neighbours):
    """Mean of the k nearest training rows, by votes; y may have several columns.

        f(x) = sum_{i in N(x)} v_i y_i / sum_{i in N(x)} v_i

    | parameter     | default        | range                                | meaning                                   |
    |---------------|----------------|--------------------------------------|-------------------------------------------|
    | n_neighbors   | 5              | from 1 on, "loo"                     | k; "loo": chosen by leave-one-out         |
    | weights       | "uniform"      | "distance", "kernel", function       | votes: 1, 1/d, K(d / d_(k+1)), or a function of the distances |
    | algorithm     | "auto"         | "brute", "kd_tree"                   | how to search; never changes a result     |
    | leaf_size     | 64             | from 1 on                            | most rows of a leaf of the tree; never changes a result |
    | p             | 2              | from 1 on, inf                       | power of the Minkowski distance           |
    | metric        | "minkowski"    | "euclidean", "manhattan", "chebyshev", "cosine", "mahalanobis", "hamming" | the distance |
    | metric_params | None           | dict                                 | "V" or its inverse "VI" for Mahalanobis; None: V of the rows |
    | n_jobs        | None           | threads                              | never changes a result                    |
    | kernel        | "epanechnikov" | "tricube", "gaussian"                | the shape of `weights="kernel"`           |
    | candidates    | 50             | from 1 on, list                      | with "loo": 1 .. this, or the numbers given |
    | rule          | "min"          | "1se"                                | with "loo": least error, or the largest k within one standard error of it |

    Fitted: `n_neighbors_`, `loo_` (a `LeaveOneOutCurve` of mean squared errors, with "loo"), `algorithm_`,
    `n_samples_fit_`, `n_features_in_`, `feature_names_in_`.

    A row of weight w counts as w rows: neighbours are as many nearest rows as together weigh k.

    Stone (1977), Consistent nonparametric regression, Annals of Statistics 5, 595-620.

    >>> model = KNeighborsRegressor(n_neighbors=2).fit([[1.0], [2.0], [4.0]], [1.0, 3.0, 10.0])
    >>> model.predict([[1.6], [9.0]])
    array([2. , 6.5])
    >>> distance, row = model.kneighbors([[1.6]])
    >>> distance.round(1).tolist(), row.tolist()
    ([[0.4, 0.6]], [[1, 0]])
    """  # noqa: E501  (a table)

    state: ClassVar[Specs] = {"_y": floats("n", "t"), "_flat": boolean}

    def _check_state(self) -> None:
        super()._check_state()
        need(self._y.shape[1] == 1 or not self._flat)

    def __init__(
        self,
        n_neighbors: int | str = 5,
        *,
        weights: Any = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 64,
        p: float = 2,
        metric: str = "minkowski",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        kernel: str = "epanechnikov",
        candidates: Any = 50,
        rule: str = "min",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.p = p
        self.metric = metric
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.kernel = kernel
        self.candidates = candidates
        self.rule = rule

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Keep the rows, prepare the search, and choose k if asked; rows of weight 0 are as if they were not there."""
        rows, target = self._validate(X, y, multi_output=True)
        w = self._weights(sample_weight, len(rows))
        if w is not None:
            rows, target, w = rows[w > 0], target[w > 0], w[w > 0]
        self._flat = target.ndim == 1
        self._y = np.array(target.reshape(len(rows), -1), dtype=np.float64, order="C")
        self._keep(rows, w)
        if self.n_neighbors != "loo":
            self.n_neighbors_ = int(self.n_neighbors)
            return self
        plain = self.weights in ("uniform", "distance")
        self.loo_ = self._leave_one_out("mean squared error", self._running if plain else None, self._squared)
        self.n_neighbors_ = self.loo_.chosen
        return self

    def _running(self, distance: Array, rows: Array, own: Array, tried: Array) -> Array:
        voting = votes(Neighbourhood(distance, rows, None, distance[:, -1]), self.weights, self.kernel)
        loss = np.empty((len(own), tried.size))
        running_means(rows, voting, self._y, own, tried, loss)
        return loss

    def _squared(self, near: Neighbourhood, own: Array, _k: int) -> Array:
        return np.mean((self._means(near) - self._y[own]) ** 2, axis=1)

    def _means(self, near: Neighbourhood) -> Array:
        out = np.empty((near.rows.shape[0], self._y.shape[1]))
        average(near.rows, votes(near, self.weights, self.kernel), self._y, out)
        return out

    def predict(self, X: Any) -> Array:
        """The mean of the neighbours' targets, by votes."""
        rows = self._validate(X, reset=False)
        means = self._means(self._near(rows))
        return means[:, 0] if self._flat else means
