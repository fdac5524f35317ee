"""Random forests: many trees on bootstrap rows, each split chosen among a few columns drawn at random.

    f(x) = (1/B) sum_b f_b(x),     Var f(x) = rho s^2 + (1 - rho) s^2 / B

with s^2 the variance of one tree and rho the correlation of two. More trees remove the second term; looking at m of p
columns at each node lowers rho in the first (m = p is bagging). Classifiers average the class shares of the leaves or
count the trees' votes. Rows a tree did not see give the error on new rows for nothing (`_oob`) and tell which columns
matter (`importance`).

The table is put into bins once; each tree is one task, its seed spawned before the work is shared out, so `n_jobs`
never changes a result. Of equally good splits that of the column drawn first wins; with m = p each tree has an order of
columns of its own (`_ties`). Weights: a bootstrap draws rows by their weights (`_oob`), so a weight equals repetition
in distribution, and exactly with bootstrap=False and all columns.

Cost: O(B m n log n) to grow, O(B n log n) for the rows out of bag. Breiman (2001), Machine Learning 45, 5-32;
Hastie, Tibshirani & Friedman (2009), The Elements of Statistical Learning, ch. 15.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor, sqrt
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, boolean, instance_of, integer, jobs, none, one_of, real, seed
from assay.errors import DataError, ParameterError
from assay.labels import class_codes, class_factors
from assay.state import Specs, classes, part
from assay.trees._forest import Forest
from assay.trees._limits import LIMITS
from assay.trees._members import Members, fitted_like
from assay.trees._oob import OOB_SCORE, SAMPLES
from assay.trees._table import categories, monotone
from assay.trees._target import numeric_target
from assay.trees.cart import DecisionTreeClassifier, DecisionTreeRegressor
from assay.trees.nodes import Nodes

__all__ = ["RandomForestClassifier", "RandomForestRegressor"]

Array = np.ndarray

SHARED: dict[str, Constraint] = {
    **LIMITS,
    "n_estimators": integer(1),
    "max_features": one_of("auto", "sqrt", "log2") | none | integer(1) | real(0, 1, open_low=True),
    "splitter": one_of("hist", "exact"),
    "bootstrap": boolean,
    "max_samples": SAMPLES,
    "oob_score": OOB_SCORE,
    "max_bins": none | integer(2, 65_535),
    "categorical_features": categories,
    "monotonic_cst": monotone,
    "warm_start": boolean,
    "random_state": seed,
    "n_jobs": jobs,
}
CLASS_WEIGHTS = none | one_of("balanced", "balanced_subsample") | instance_of(dict, "a dict of class: weight")


class RandomForestRegressor(RegressorMixin, Forest):
    """The mean of many trees, each grown on bootstrap rows with m columns drawn at every node.

    Defaults that differ from scikit-learn's: `max_features="auto"` looks at p/3 columns (scikit-learn: all of them,
    which is bagging), splits are found on at most 255 bins per column, 1,023 from 5,000 rows on, a third of them for
    its ends (`splitter="exact"` for all values), and the out-of-bag error is always there.

        f(x) = (1/B) sum_b f_b(x)

    | parameter                | default         | range                  | meaning                                   |
    |--------------------------|-----------------|------------------------|-------------------------------------------|
    | n_estimators             | 100             | 1 or more              | trees B; more only lower the variance     |
    | criterion                | "squared_error" | a loss; see below      | loss that a split lowers                  |
    | max_features             | "auto"          | count, share, a name   | m columns tried per node, see below       |
    | splitter                 | "hist"          | "hist", "exact"        | cuts between bins, or between all values  |
    | max_depth                | None            | 1 or more              | longest path                              |
    | min_samples_split        | 2               | 2 or more, or a share  | fewer rows are a leaf                     |
    | min_samples_leaf         | 1               | 1 or more, or a share  | rows that a leaf must keep                |
    | min_weight_fraction_leaf | 0.0             | [0, 0.5]               | share of the weight a leaf must keep      |
    | max_leaf_nodes           | None            | 2 or more              | grow best first up to so many leaves      |
    | min_impurity_decrease    | 0.0             | 0 or more              | least loss saved by a split, per row      |
    | bootstrap                | True            | True, False            | draw rows with replacement                |
    | max_samples              | None            | count or share         | rows drawn per tree; None: n              |
    | oob_score                | "auto"          | "auto", True, False    | out-of-bag figures; True insists on them  |
    | max_bins                 | None            | 2 to 65,535            | bins of a number; None: 255, or see above |
    | categorical_features     | "auto"          | names, positions, mask | columns of categories; auto: text         |
    | monotonic_cst            | None            | -1, 0, 1 per column    | falling, free or rising                   |
    | warm_start               | False           | True, False            | keep the trees and add more               |
    | random_state             | None            | seed                   | rows and columns drawn                    |
    | n_jobs                   | None            | non-zero               | trees at a time; never changes the result |

    Losses: "squared_error", "absolute_error", "poisson". m: a whole number, a share of p, "sqrt", "log2", or None for
    all.

    Sparse X: a cell that is not stored is 0, an explicit NaN is missing (to XGBoost the absent ones are), and the
    forest is that of X.toarray(). Bins are dense, 3 bytes per cell, stored or not (splitter="exact": 8, and as many for
    each tree that is growing), and growth takes as long as on a full table.

    Fitted: `nodes_` (all trees), `estimators_` (each as a `DecisionTreeRegressor`), `seeds_` (one per tree),
    `max_features_` (m), `feature_importances_`; out of bag `oob_error_` (mean squared error with its interval),
    `oob_prediction_` (NaN for rows that every tree saw), `oob_votes_` (trees behind each), `oob_curve_` (error against
    the number of trees) and `oob_score_` (R2). `permutation_importance(X, y)` gives %IncMSE. Breiman (2001), Machine
    Learning 45, 5-32.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 4))
    >>> y = 10 * X[:, 0] + 5 * X[:, 1] ** 2 + rng.normal(size=500)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> bool(1 < forest.oob_error_.estimate < 2)
    True
    >>> forest.permutation_importance(X, y).to_frame().index[:2].tolist()
    ['x0', 'x1']
    """

    state: ClassVar[Specs] = {
        "nodes_": part(Nodes, "trees", k=1),
    }

    constraints = {**SHARED, "criterion": one_of("squared_error", "absolute_error", "poisson")}

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "squared_error",
        max_features: Any = "auto",
        splitter: str = "hist",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = True,
        max_samples: Any = None,
        oob_score: Any = "auto",
        max_bins: int | None = None,
        categorical_features: Any = "auto",
        monotonic_cst: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_features = max_features
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the forest; text, categories and gaps in X need no preparation."""
        self._check_parameters()
        X = self._table(X, reset=not (self.warm_start and hasattr(self, "nodes_")))
        w = self._weights(sample_weight, X.shape[0])
        target = numeric_target(self, y, X.shape[0])
        if self.criterion == "poisson":
            _refuse_negative(target, w)
        self._grow(X, target, w, 0)
        return self

    def predict(self, X: Any) -> Array:
        """The mean of the trees."""
        return self._summed(X)[:, 0]

    @property
    def estimators_(self) -> Members[DecisionTreeRegressor]:
        """The trees as fitted single trees, views into `nodes_`: to print, to draw, to ask and to prune one of them."""
        check_is_fitted(self, "nodes_")
        return Members(self.nodes_.trees, lambda k: fitted_like(self, DecisionTreeRegressor, k))

    def _default_columns(self, p: int) -> int:
        return p // 3

    def _known_target(self, y: Any, n: int) -> tuple[Array, int]:
        return numeric_target(self, y, n), 0


class RandomForestClassifier(ClassifierMixin, Forest):
    """The class most trees agree on, each grown on bootstrap rows with m columns drawn at every node.

    Defaults that differ from scikit-learn's: splits are found on at most 255 bins per column, 1,023 from 5,000 rows on,
    a third of them for its ends (`splitter="exact"` for all values), and the out-of-bag error is always there.
    m = sqrt(p) as in scikit-learn; m = p is bagging.

        P(class k | x) = (1/B) sum_b share of k in x's leaf of tree b      (vote="majority": share of trees that say k)

    | parameter                | default       | range                     | meaning                                   |
    |--------------------------|---------------|---------------------------|-------------------------------------------|
    | n_estimators             | 100           | 1 or more                 | trees B; more only lower the variance     |
    | criterion                | "gini"        | a loss; see below         | loss that a split lowers                  |
    | max_features             | "auto"        | count, share, a name      | m columns tried per node, see below       |
    | splitter                 | "hist"        | "hist", "exact"           | cuts between bins, or between all values  |
    | max_depth                | None          | 1 or more                 | longest path                              |
    | min_samples_split        | 2             | 2 or more, or a share     | fewer rows are a leaf                     |
    | min_samples_leaf         | 1             | 1 or more, or a share     | rows that a leaf must keep                |
    | min_weight_fraction_leaf | 0.0           | [0, 0.5]                  | share of the weight a leaf must keep      |
    | max_leaf_nodes           | None          | 2 or more                 | grow best first up to so many leaves      |
    | min_impurity_decrease    | 0.0           | 0 or more                 | least loss saved by a split, per row      |
    | bootstrap                | True          | True, False               | draw rows with replacement                |
    | max_samples              | None          | count or share            | rows drawn per tree; None: n              |
    | vote                     | "probability" | "probability", "majority" | average shares, or count trees' votes     |
    | class_weight             | None          | a name or a dict          | weight of each class, see below           |
    | oob_score                | "auto"        | "auto", True, False       | out-of-bag figures; True insists on them  |
    | max_bins                 | None          | 2 to 65,535               | bins of a number; None: 255, or see above |
    | categorical_features     | "auto"        | names, positions, mask    | columns of categories; auto: text         |
    | monotonic_cst            | None          | -1, 0, 1 per column       | falling, free or rising P(second class)   |
    | warm_start               | False         | True, False               | keep the trees and add more               |
    | random_state             | None          | seed                      | rows and columns drawn                    |
    | n_jobs                   | None          | non-zero                  | trees at a time; never changes the result |

    Losses: "gini", "log_loss" (or "entropy"), "error". m: a whole number, a share of p, "sqrt", "log2", or None for
    all. `class_weight`: "balanced" weighs classes by n / (K n_k), "balanced_subsample" by the same in each tree's
    sample. Between classes with equal votes the first in order wins.

    Sparse X: a cell that is not stored is 0, an explicit NaN is missing (to XGBoost the absent ones are), and the
    forest is that of X.toarray(). Bins are dense, 3 bytes per cell, stored or not (splitter="exact": 8, and as many for
    each tree that is growing), and growth takes as long as on a full table.

    Fitted: `classes_`, `nodes_` (all trees), `estimators_` (each as a `DecisionTreeClassifier`), `seeds_` (one per
    tree), `max_features_` (m), `feature_importances_`; out of bag `oob_error_` (error rate with its interval),
    `oob_decision_function_` (NaN for rows that every tree saw), `oob_votes_` (trees behind each), `oob_curve_` (error
    against the number of trees) and `oob_score_` (accuracy). `permutation_importance(X, y)` also tells classes apart.
    Breiman (2001), Machine Learning 45, 5-32.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 4))
    >>> y = np.where(X[:, 0] + X[:, 1] > 1, "high", "low")
    >>> forest = RandomForestClassifier(random_state=0).fit(X, y)
    >>> forest.predict([[0.9, 0.9, 0.5, 0.5], [0.1, 0.1, 0.5, 0.5]]).tolist()
    ['high', 'low']
    >>> bool(forest.oob_error_.upper < 0.15)
    True
    """

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
    }

    constraints = {
        **SHARED,
        "criterion": one_of("gini", "log_loss", "entropy", "error"),
        "vote": one_of("probability", "majority"),
        "class_weight": CLASS_WEIGHTS,
    }

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "gini",
        max_features: Any = "auto",
        splitter: str = "hist",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = True,
        max_samples: Any = None,
        vote: str = "probability",
        class_weight: Any = None,
        oob_score: Any = "auto",
        max_bins: int | None = None,
        categorical_features: Any = "auto",
        monotonic_cst: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_features = max_features
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.vote = vote
        self.class_weight = class_weight
        self.oob_score = oob_score
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the forest; text, categories and gaps in X need no preparation."""
        self._check_parameters()
        warm = self.warm_start and hasattr(self, "nodes_")
        X = self._table(X, reset=not warm)
        w = self._weights(sample_weight, X.shape[0])
        classes, codes = class_codes(y, X.shape[0], w)
        if warm and not np.array_equal(classes, self.classes_):
            what = (
                f"y contains the classes {classes.tolist()}, but the trees already fitted have {self.classes_.tolist()}"
            )
            raise DataError(what, remedy="use warm_start=False")
        if self.monotonic_cst is not None and classes.size > 2:
            what = f"monotonic_cst needs two classes, y has {classes.size}"
            raise ParameterError(what, remedy="leave it out, or fit one class against the rest")
        self.classes_: Array = classes
        self._grow(X, codes, w, classes.size)
        return self

    def predict(self, X: Any) -> Array:
        """The class with the largest mean share, or the most votes."""
        return self.classes_[np.argmax(self._summed(X), axis=1)] if hasattr(self, "nodes_") else self._summed(X)

    def predict_proba(self, X: Any) -> Array:
        """Mean class shares of the leaves, or shares of the votes; one column per class."""
        return self._summed(X)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`, -inf where it is zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @property
    def estimators_(self) -> Members[DecisionTreeClassifier]:
        """The trees as fitted single trees, views into `nodes_`: to print, to draw, to ask and to prune one of them."""
        check_is_fitted(self, "nodes_")
        return Members(self.nodes_.trees, lambda k: fitted_like(self, DecisionTreeClassifier, k))

    def _default_columns(self, p: int) -> int:
        return floor(sqrt(p))

    def _known_target(self, y: Any, n: int) -> tuple[Array, int]:
        return class_codes(y, n)[1], self.classes_.size

    def _settle(self, classes: int) -> None:
        self._voting = self.nodes_
        if self.vote == "majority":
            value = self.nodes_.value
            votes = np.zeros_like(value)
            votes[np.arange(len(value)), np.argmax(value, axis=1)] = 1.0
            self._voting = replace(self.nodes_, value=votes)

    def _asked(self) -> Nodes:
        return self._voting

    def _weigher(self, target: Array, w: Array | None, classes: int) -> Any:
        asked = self.class_weight
        if asked is None:
            return None
        if asked == "balanced_subsample":
            return lambda weights: class_factors("balanced", self.classes_, target, weights)
        whole = class_factors(asked, self.classes_, target, w)
        return lambda weights: whole


def _refuse_negative(y: Array, w: Array | None) -> None:
    used = np.ones(y.size, dtype=bool) if w is None else w > 0
    bad = used & (y < 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"y is {y[row]:g} in row {row}, but counts are not negative", remedy="use another criterion")
    if not y[used].any():
        raise DataError("y is zero in every row, which has no Poisson loss", remedy="use another criterion")
