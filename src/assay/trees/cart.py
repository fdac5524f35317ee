"""Single trees for numbers and classes (CART), and multiway trees by gain ratio (C4.5).

A tree asks one question after another about single columns and answers with the mean, the median or the class shares
of the training rows that gave the same answers. It is grown greedily: at each node, of all cuts of all columns, the
one that saves most loss

    gain = L(node) - L(first child) - L(second child),        L from `criterion`

The loss of a tree is the sum of its leaves' losses: each leaf's impurity counts with the leaf's weight. Growth stops
where a leaf is pure or a limit forbids the split; `min_impurity_decrease` is early stopping by threshold: a split that
saves less than that, per unit of the root's weight, is not made. It stops short of splits that pay only later, so
growing the tree large and pruning it back (`ccp_alpha`, `prune`, `PrunedTreeRegressor`) is usually better.

Categories, text and missing values need no preparation. Cost: O(n p log n) to sort, O(n p) a level to grow.

Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees; Quinlan (1993), C4.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from assay.base import Constraint, none, one_of
from assay.labels import class_codes, class_factors
from assay.state import Specs, classes, part
from assay.trees._criteria import CLASSIFICATION, REGRESSION
from assay.trees._target import numeric_target
from assay.trees.nodes import Nodes
from assay.trees.tree import GROWTH, Tree

__all__ = ["DecisionTreeClassifier", "DecisionTreeRegressor"]

Array = np.ndarray

class_weight_range: Constraint = (
    none | one_of("balanced") | Constraint(lambda value: isinstance(value, Mapping), "a dict of class: weight")
)


class DecisionTreeRegressor(RegressorMixin, Tree):
    """A tree whose leaves answer with the mean (or median) of their training rows.

    Each leaf R of the tree predicts c_R, and the tree is grown and pruned to make sum_R sum_{i in R} loss(y_i, c_R)
    small: squared error with c_R the mean, absolute error with the median, Poisson deviance with the mean.

    | parameter                | default         | range                              | meaning                         |
    |--------------------------|-----------------|------------------------------------|---------------------------------|
    | criterion                | "squared_error" | "absolute_error", "poisson"        | the loss (RSS by default)       |
    | splitter                 | "exact"         | "exact", "hist"                    | all cuts, or those of bins      |
    | multiway                 | False           | bool                               | categories split in one child per level, by gain ratio |
    | max_depth                | None            | from 1 on                          | most questions on a way         |
    | min_samples_split        | 2               | from 2 on, or a share in (0, 1]    | fewest rows of a node that is split |
    | min_samples_leaf         | 1               | from 1 on, or a share in (0, 1)    | fewest rows of a leaf           |
    | min_weight_fraction_leaf | 0.0             | [0, 0.5]                           | least share of the weight in a leaf |
    | max_features             | None            | int, share, "sqrt", "log2"         | columns drawn at each node; None: all |
    | max_leaf_nodes           | None            | from 2 on                          | most leaves, best split first   |
    | min_impurity_decrease    | 0.0             | from 0 on                          | least saving of a split, per unit of the root's weight (early stopping) |
    | categorical_features     | "auto"          | "auto", None, columns              | columns that are categories; text always is |
    | monotonic_cst            | None            | -1, 0, 1 per column, or a dict     | predictions rise (1) or fall (-1) with a column |
    | max_bins                 | 255             | 2 to 65,535                        | bins of a column, splitter="hist" |
    | ccp_alpha                | 0.0             | from 0 on                          | price per leaf by which the tree is pruned, as in scikit-learn |
    | random_state             | None            | seed                               | draws of columns; nothing else is random |
    | n_jobs                   | None            | threads                            | sorting and prediction; never changes a result |

    Fitted: `nodes_` (the tree), `feature_importances_`, `max_features_`, `levels_` (categories by column),
    `n_features_in_`, `feature_names_in_`.

    Of equally good splits the first column and the lowest threshold win. Missing values go to the side that fits
    better; where a node saw none in training, to its heavier child, and so do categories it has never seen.

    Sparse X: a cell that is not stored is 0, an explicit NaN is missing (to XGBoost the absent ones are), and the tree is
    that of X.toarray(). Of any X, growing holds 16 bytes per cell, stored or not, with splitter="hist" 3.

    Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees, ch. 8.

    >>> years, hits = [1, 2, 3, 4, 5, 6, 7, 8], [60, 90, 100, 120, 80, 130, 100, 150]
    >>> tree = DecisionTreeRegressor(max_leaf_nodes=3)
    >>> tree = tree.fit(list(zip(years, hits)), [5.0, 5.1, 5.1, 5.2, 6.0, 6.7, 6.1, 6.8])
    >>> print(tree.export_text())
    all rows: 5.75, n = 8
    |- x0 <= 4.5: 5.10, n = 4
    `- x0 > 4.5: 6.40, n = 4
       |- x1 <= 115: 6.05, n = 2
       `- x1 > 115: 6.75, n = 2
    >>> tree.predict([[2, 140], [9, 140]])
    array([5.1 , 6.75])
    """  # noqa: E501  (a table)

    state: ClassVar[Specs] = {
        "nodes_": part(Nodes, k=1),
    }

    constraints: ClassVar[dict[str, Constraint]] = {"criterion": one_of(*REGRESSION), **GROWTH}

    def __init__(
        self,
        *,
        criterion: str = "squared_error",
        splitter: str = "exact",
        multiway: bool = False,
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        categorical_features: Any = "auto",
        monotonic_cst: Any = None,
        max_bins: int = 255,
        ccp_alpha: float = 0.0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.splitter = splitter
        self.multiway = multiway
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.max_bins = max_bins
        self.ccp_alpha = ccp_alpha
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree; rows of weight 0 are as if they were not there."""
        table = self._table(X, reset=True)
        target = numeric_target(self, y, len(table))
        self.nodes_ = self._grow(table, target, self._weights(sample_weight, len(table)), 0)
        return self

    def predict(self, X: Any) -> Array:
        """The value of each row's leaf."""
        leaves = self._leaves(X)
        return self.nodes_.value[leaves, 0]


class DecisionTreeClassifier(ClassifierMixin, Tree):
    """A tree whose leaves answer with the commonest class of their training rows; of several the first.

    With p_k the class shares of a node, W its weight: Gini's index sum_k p_k (1 - p_k), at most 1 - 1/K; deviance
    (entropy) -sum_k p_k log2 p_k in bits, at most log2 K, which is 1 for two classes; error 1 - max_k p_k. The loss of
    the tree is the sum of W times that over its leaves.

    | parameter                | default | range                              | meaning                                 |
    |--------------------------|---------|------------------------------------|-----------------------------------------|
    | criterion                | "gini"  | "log_loss", "entropy", "error"     | the loss ("entropy" is "log_loss")      |
    | splitter                 | "exact" | "exact", "hist"                    | all cuts, or those of bins              |
    | multiway                 | False   | bool                               | categories split in one child per level, by gain ratio |
    | max_depth                | None    | from 1 on                          | most questions on a way                 |
    | min_samples_split        | 2       | from 2 on, or a share in (0, 1]    | fewest rows of a node that is split     |
    | min_samples_leaf         | 1       | from 1 on, or a share in (0, 1)    | fewest rows of a leaf                   |
    | min_weight_fraction_leaf | 0.0     | [0, 0.5]                           | least share of the weight in a leaf     |
    | max_features             | None    | int, share, "sqrt", "log2"         | columns drawn at each node; None: all   |
    | max_leaf_nodes           | None    | from 2 on                          | most leaves, best split first           |
    | min_impurity_decrease    | 0.0     | from 0 on                          | least saving of a split, per unit of the root's weight (early stopping) |
    | class_weight             | None    | "balanced", dict                   | weight of each class, times sample_weight; "balanced": all classes weigh the same |
    | categorical_features     | "auto"  | "auto", None, columns              | columns that are categories; text always is |
    | monotonic_cst            | None    | -1, 0, 1 per column, or a dict     | the second of two classes gets likelier (1) or rarer (-1) with a column |
    | max_bins                 | 255     | 2 to 65,535                        | bins of a column, splitter="hist"       |
    | ccp_alpha                | 0.0     | from 0 on                          | price per leaf by which the tree is pruned, as in scikit-learn |
    | random_state             | None    | seed                               | draws of columns; nothing else is random |
    | n_jobs                   | None    | threads                            | sorting and prediction; never changes a result |

    Fitted: `classes_`, `nodes_` (the tree), `feature_importances_`, `max_features_`, `levels_` (categories by column),
    `n_features_in_`, `feature_names_in_`.

    Categories: with two classes the best parting of the levels is found; with more, all partings of up to 10 levels
    are tried, and more levels are ordered along the first principal component of their class shares.

    Sparse X: a cell that is not stored is 0, an explicit NaN is missing (to XGBoost the absent ones are), and the tree is
    that of X.toarray(). Of any X, growing holds 16 bytes per cell, stored or not, with splitter="hist" 3.

    Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees, ch. 4; Quinlan (1993), C4.5.

    >>> tree = DecisionTreeClassifier().fit([["sun", 20], ["rain", 25], ["sun", 5], ["rain", 4]], [1, 0, 0, 0])
    >>> tree.predict([["sun", 25], ["rain", 25]])
    array([1, 0])
    >>> tree.nodes_.impurity[0]
    np.float64(0.375)
    """  # noqa: E501  (a table)

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
    }

    constraints: ClassVar[dict[str, Constraint]] = {
        "criterion": one_of(*CLASSIFICATION),
        "class_weight": class_weight_range,
        **GROWTH,
    }

    def __init__(
        self,
        *,
        criterion: str = "gini",
        splitter: str = "exact",
        multiway: bool = False,
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        class_weight: Any = None,
        categorical_features: Any = "auto",
        monotonic_cst: Any = None,
        max_bins: int = 255,
        ccp_alpha: float = 0.0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.splitter = splitter
        self.multiway = multiway
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.class_weight = class_weight
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.max_bins = max_bins
        self.ccp_alpha = ccp_alpha
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree; rows of weight 0 are as if they were not there."""
        table = self._table(X, reset=True)
        w = self._weights(sample_weight, len(table))
        self.classes_, codes = class_codes(y, len(table), w)
        if self.class_weight is not None:
            factors = class_factors(self.class_weight, self.classes_, codes, w)[codes]
            w = factors if w is None else w * factors
        self.nodes_ = self._grow(table, codes.astype(np.int64), w, self.classes_.size)
        return self

    def predict(self, X: Any) -> Array:
        """The commonest class of each row's leaf."""
        leaves = self._leaves(X)
        return self.classes_[np.argmax(self.nodes_.value, axis=1)[leaves]]

    def predict_proba(self, X: Any) -> Array:
        """The class shares of each row's leaf, in the order of `classes_`."""
        leaves = self._leaves(X)
        return self.nodes_.value[leaves]

    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms, minus infinity for a class without a row in the leaf."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
