"""Gradient boosting: many small trees, each grown on what the ones before have left, each shrunk.

    f_0 = the constant of least loss;      for b = 1 .. B:
        g_i, h_i = first and second derivative of the loss at f_(b-1)(x_i)
        grow a tree on g, h; a leaf's value is -sum g / (sum h + l2), or the exact minimiser of its loss
        f_b = f_(b-1) + lambda * tree_b

With squared error g is minus the residual and h = 1, so each tree is fitted to the residuals r, and then
r <- r - lambda * tree: boosting as it is taught, with B = n_estimators, lambda = learning_rate and d splits per tree,
d = max_leaf_nodes - 1 (d = 1: stumps, an additive model; init="zero" starts from f = 0). A larger lambda, B or d
*lowers* the bias and *raises* the variance: unlike bagging, boosting can overfit with too many trees, so choose B by
cross-validation. A small lambda needs a larger B.

Cost: O(n p) for the bins, then per tree O(n) for the gradients and about O(n p log(leaves)) for the tree at most.
Friedman (2001), Annals of Statistics 29, 1189-1232, and (2002), Comput. Stat. Data Anal. 38, 367-378; Friedman, Hastie,
Tibshirani (2000), Annals of Statistics 28, 337-407; Chen & Guestrin (2016), KDD, 785-794; Ke et al. (2017), NeurIPS 30.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin, RegressorMixin

from assay.base import Constraint, none, one_of, real
from assay.errors import DataError, ParameterError
from assay.labels import class_codes, class_factors
from assay.state import Specs, classes, contrasts, floats
from assay.trees._boosted import SHARED, Boosted
from assay.trees._losses import CLASS_LOSSES, NUMBER_LOSSES
from assay.trees._target import numeric_target
from assay.trees.influence import RelativeInfluence

__all__ = ["GradientBoostingClassifier", "GradientBoostingRegressor", "RelativeInfluence"]

Array = np.ndarray


class GradientBoostingRegressor(RegressorMixin, Boosted):
    """Boosted regression trees for five losses, on tables with text, categories and gaps as they come.

    Other than in scikit-learn's GradientBoostingRegressor, trees have up to 31 leaves of at least 20 rows (there:
    depth 3, 1 row), cuts lie between at most 255 bins, and `quantile` names the quantile (there: `alpha`). The
    defaults are those of its HistGradientBoostingRegressor, without the early stopping beyond 10,000 rows.

        f_b(x) = f_(b-1)(x) + learning_rate * tree_b(x),      tree_b grown on the gradients of the loss at f_(b-1)

    | parameter            | default         | range                   | meaning                                      |
    |----------------------|-----------------|-------------------------|----------------------------------------------|
    | loss                 | "squared_error" | or "absolute_error",    | what is minimised; predicted is a mean,      |
    |                      |                 | "huber", "quantile",    | median, quantile, or mean e^f of counts      |
    |                      |                 | "poisson"               |                                              |
    | n_estimators         | 100             | >= 1                    | B, trees, or the most of them                |
    | learning_rate        | 0.1             | > 0                     | lambda, the factor of every tree             |
    | max_leaf_nodes       | 31              | >= 2, None              | d + 1, one more than the splits of a tree    |
    | max_depth            | None            | >= 1, None              | deepest level of a tree                      |
    | min_samples_leaf     | 20              | >= 1                    | fewest rows in a leaf                        |
    | min_child_weight     | 1e-3            | >= 0                    | least sum of h in a leaf, mean weight 1      |
    | l2_regularization    | 0               | >= 0                    | penalty on the square of a leaf's value      |
    | max_bins             | 255             | 2 to 255                | bins of a numeric column                     |
    | quantile             | 0.5             | (0, 1)                  | which one, for loss="quantile"               |
    | alpha                | 0.9             | (0, 1)                  | loss="huber": share of residuals it squares  |
    | subsample            | 1.0             | (0, 1]                  | share of rows drawn for each tree            |
    | max_features         | None            | >= 1, (0, 1], None      | columns drawn for each tree, number or share |
    | growth               | "leaf"          | "leaf", "depth"         | best split first, or level by level          |
    | init                 | None            | None, "zero"            | start at the best constant, or at 0          |
    | categorical_features | "auto"          | "auto", None, columns   | columns without an order; text always is one |
    | monotonic_cst        | None            | -1, 0, 1 each, dict     | falling, free or rising predictions          |
    | early_stopping       | False           | False, True, "cv"       | B as it is; by held-out rows; by folds       |
    | validation_fraction  | 0.1             | (0, 1)                  | share held out, for early_stopping=True      |
    | n_iter_no_change     | 10              | >= 1, None              | rounds without progress before it stops      |
    | tol                  | 1e-7            | >= 0                    | progress that counts, likewise               |
    | cv                   | 5               | number, splitter, pairs | folds, for early_stopping="cv"               |
    | rule                 | "min"           | "min", "1se"            | least error, or fewest trees within one      |
    |                      |                 |                         | standard error of it                         |
    | warm_start           | False           | True, False             | go on with the trees of the last fit         |
    | random_state         | None            | seed, generator, None   | for subsample, max_features, held-out rows   |
    | n_jobs               | None            | None, number            | threads; never changes a result              |

    Only the ratios of weights count. `min_child_weight` and `l2_regularization` are in units of the mean weight. In
    `min_samples_leaf` a row counts as its weight over the smallest one (over a quarter of the mean, if that is more):
    weights of 1, 2, 3 equal repetition as long as they are 4 at most on average and there is no penalty.
    `l2_regularization` has no part in leaves that are medians, quantiles or Huber's centre, only in the choice of
    splits. Folds by number are in the order of the rows; pass KFold(5, shuffle=True) for sorted tables.
    Early stopping ends `n_iter_no_change` rounds after the best one (None: at the last) and keeps the best; folds grow
    together and are judged by their mean. `fit` also takes `groups`, rows that are held out together.
    With weights or loss="poisson", from 32,768 rows on, gradients and hessians enter the choice of splits with 12 bits
    each, as long as none is far above the others; leaves are exact.

    | fitted attribute     | meaning                                                                |
    |----------------------|------------------------------------------------------------------------|
    | nodes_               | the trees, their values shrunk already                                 |
    | initial_             | the score before the first tree                                        |
    | n_estimators_        | how many trees there are: B, or the number chosen                      |
    | train_score_         | mean training loss after each tree                                     |
    | validation_score_    | the same on held-out rows (early_stopping=True), or None               |
    | cv_curve_            | cross-validated loss and standard error for every B (a Curve), or None |
    | held_out_rows_,      | the rows that early stopping held out, and what trees that have not    |
    | held_out_prediction_ | seen them predict (probabilities of classes); in memory only           |
    | feature_importances_ | share of each column in the loss saved by splits                       |
    | levels_              | the levels of each column of categories, None for numbers              |

    Sparse X: a cell that is not stored is 0, an explicit NaN is missing (to XGBoost the absent ones are), and the model
    is that of X.toarray(). Bins are dense, 2 bytes per cell, stored or not; columns are not bundled.

    Friedman (2001), Annals of Statistics 29, 1189-1232. Partial dependence on one or two columns:
    `assay.evaluation.partial_dependence` takes any fitted model.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 3))
    >>> y = X[:, 0] ** 2 + X[:, 1] + rng.normal(0, 0.1, 300)
    >>> model = GradientBoostingRegressor(early_stopping="cv", rule="1se", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97), model.relative_influence().to_frame().index.tolist()
    (True, ['x0', 'x1', 'x2'])
    >>> from assay.evaluation import partial_dependence
    >>> shape = partial_dependence(model, X, 0, grid=[-1.5, 0.0, 1.5]).average[0]
    >>> bool(shape[1] < min(shape[0], shape[2]) - 1.5)
    True
    """

    state: ClassVar[Specs] = {
        "initial_": floats(1),
    }

    constraints = {
        **SHARED,
        "loss": one_of(*NUMBER_LOSSES),
        "quantile": real(0, 1, open_low=True, open_high=True),
        "alpha": real(0, 1, open_low=True, open_high=True),
    }

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        l2_regularization: float = 0.0,
        max_bins: int = 255,
        quantile: float = 0.5,
        alpha: float = 0.9,
        subsample: float = 1.0,
        max_features: float | None = None,
        growth: str = "leaf",
        init: str | None = None,
        categorical_features: Any = "auto",
        monotonic_cst: Any = None,
        early_stopping: Any = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 10,
        tol: float = 1e-7,
        cv: Any = 5,
        rule: str = "min",
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.quantile = quantile
        self.alpha = alpha
        self.subsample = subsample
        self.max_features = max_features
        self.growth = growth
        self.init = init
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.cv = cv
        self.rule = rule
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to a table X, numbers y and optional weights; rows of a group are held out together (early stopping)."""
        X = self._opened(X)
        w = self._weights(sample_weight, X.shape[0])
        target = numeric_target(self, y, X.shape[0])
        self._refuse_other_names()
        loss = NUMBER_LOSSES[self.loss](self)
        loss.check(target if w is None else np.where(w > 0, target, 0.0))
        self._boost(X, target, w, loss, None, groups)
        return self

    def _refuse_other_names(self) -> None:
        """scikit-learn's name for the quantile, which would leave the model at the median without a word."""
        if self.loss == "quantile" and self.quantile == 0.5 and self.alpha != 0.9:
            what = f'alpha = {self.alpha} applies to loss="huber"; loss="quantile" would still predict the median'
            raise ParameterError(what, remedy=f"pass quantile={self.alpha}")

    @property
    def held_out_prediction_(self) -> Array:
        """Predictions of `held_out_rows_`, by trees that have not seen them."""
        return self._linked(self._left_out()[1])

    def predict(self, X: Any) -> Array:
        """The prediction for each row: the score, or its exponential for loss="poisson"."""
        return self._linked(self._raw(X))

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The predictions after one tree, after two, and so on."""
        for raw in self._staged(X):
            yield self._linked(raw)

    def _linked(self, raw: Array) -> Array:
        score = raw[:, 0]
        return np.exp(np.minimum(score, 700.0)) if self.link_ == "log" else score


class GradientBoostingClassifier(ClassifierMixin, Boosted):
    """Boosted trees for two classes or more, on tables with text, categories and gaps as they come.

    Other than in scikit-learn's GradientBoostingClassifier, trees have up to 31 leaves of at least 20 rows (there:
    depth 3, 1 row), and cuts lie between at most 255 bins. The defaults are those of its
    HistGradientBoostingClassifier, without the early stopping beyond 10,000 rows.

        two classes    log-odds f_b(x) = f_(b-1)(x) + learning_rate * tree_b(x)
        K classes      one tree per class and round on the scores f_1 .. f_K;    P(k | x) = e^f_k / sum_j e^f_j

    | parameter            | default    | range                   | meaning                                           |
    |----------------------|------------|-------------------------|---------------------------------------------------|
    | loss                 | "log_loss" | or "exponential"        | deviance, or AdaBoost's loss (two classes)        |
    | n_estimators         | 100        | >= 1                    | B, rounds, or the most of them                    |
    | learning_rate        | 0.1        | > 0                     | lambda, the factor of every tree                  |
    | max_leaf_nodes       | 31         | >= 2, None              | d + 1, one more than the splits of a tree         |
    | max_depth            | None       | >= 1, None              | deepest level of a tree                           |
    | min_samples_leaf     | 20         | >= 1                    | fewest rows in a leaf                             |
    | min_child_weight     | 1e-3       | >= 0                    | least sum of h in a leaf; h = p (1 - p) for the   |
    |                      |            |                         | deviance                                          |
    | l2_regularization    | 0          | >= 0                    | penalty on the square of a leaf's value           |
    | max_bins             | 255        | 2 to 255                | bins of a numeric column                          |
    | subsample            | 1.0        | (0, 1]                  | share of rows drawn for each round                |
    | max_features         | None       | >= 1, (0, 1], None      | columns drawn for each round, number or share     |
    | growth               | "leaf"     | "leaf", "depth"         | best split first, or level by level               |
    | init                 | None       | None, "zero"            | start at the classes' shares, or at 0             |
    | categorical_features | "auto"     | "auto", None, columns   | columns without an order; text always is one      |
    | monotonic_cst        | None       | -1, 0, 1 each, dict     | falling, free or rising probability of the second |
    |                      |            |                         | class (two classes only)                          |
    | early_stopping       | False      | False, True, "cv"       | B as it is; by held-out rows; by folds            |
    | validation_fraction  | 0.1        | (0, 1)                  | share held out, for early_stopping=True           |
    | n_iter_no_change     | 10         | >= 1, None              | rounds without progress before it stops           |
    | tol                  | 1e-7       | >= 0                    | progress that counts, likewise                    |
    | cv                   | 5          | number, splitter, pairs | for early_stopping="cv"; a number: stratified     |
    | rule                 | "min"      | "min", "1se"            | least loss, or fewest trees within one standard   |
    |                      |            |                         | error of it                                       |
    | class_weight         | None       | None, "balanced", dict  | factors of the weights by class                   |
    | warm_start           | False      | True, False             | go on with the trees of the last fit              |
    | random_state         | None       | seed, generator, None   | for subsample, max_features, held-out rows        |
    | n_jobs               | None       | None, number            | threads; never changes a result                   |

    Only the ratios of weights count. `min_child_weight` and `l2_regularization` are in units of the mean weight. In
    `min_samples_leaf` a row counts as its weight over the smallest one (over a quarter of the mean, if that is more):
    weights of 1, 2, 3 equal repetition as long as they are 4 at most on average and there is no penalty.
    "balanced" gives every class the same total weight.
    Early stopping ends `n_iter_no_change` rounds after the best one (None: at the last) and keeps the best; folds grow
    together and are judged by their mean. `fit` also takes `groups`, rows that are held out together.

    | fitted attribute     | meaning                                                                   |
    |----------------------|---------------------------------------------------------------------------|
    | classes_             | the classes, sorted                                                       |
    | nodes_               | the trees, their values shrunk already; round b has K of them (1 for two) |
    | initial_             | the scores before the first tree                                          |
    | n_estimators_        | how many rounds there are: B, or the number chosen                        |
    | train_score_         | mean training loss after each round                                       |
    | validation_score_    | the same on held-out rows (early_stopping=True), or None                  |
    | cv_curve_            | cross-validated loss and standard error for every B (a Curve), or None    |
    | held_out_rows_,      | the rows that early stopping held out, and what trees that have not seen  |
    | held_out_prediction_ | them predict (probabilities of classes); in memory only                   |
    | feature_importances_ | share of each column in the loss saved by splits                          |
    | levels_              | the levels of each column of categories, None for numbers                 |

    From 32,768 rows on gradients and hessians enter the choice of splits with 12 bits each, as long as none is far
    above the others; leaves are exact.

    Sparse X: a cell that is not stored is 0, an explicit NaN is missing (to XGBoost the absent ones are), and the model
    is that of X.toarray(). Bins are dense, 2 bytes per cell, stored or not; columns are not bundled.

    Friedman, Hastie, Tibshirani (2000), Annals of Statistics 28, 337-407. Partial dependence on one or two columns:
    `assay.evaluation.partial_dependence` takes any fitted model.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = GradientBoostingClassifier(n_estimators=50).fit(X, y)
    >>> model.predict([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]]).tolist()
    ['same', 'different']
    >>> bool(np.allclose(model.predict_proba(X).sum(axis=1), 1.0))
    True
    """

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "initial_": floats(contrasts),
    }

    constraints = {
        **SHARED,
        "loss": one_of(*CLASS_LOSSES),
        "class_weight": none
        | one_of("balanced")
        | Constraint(lambda v: isinstance(v, dict) and len(v) > 0, "a dict of class: factor"),
    }
    classes_: Array

    def __init__(
        self,
        loss: str = "log_loss",
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        l2_regularization: float = 0.0,
        max_bins: int = 255,
        subsample: float = 1.0,
        max_features: float | None = None,
        growth: str = "leaf",
        init: str | None = None,
        categorical_features: Any = "auto",
        monotonic_cst: Any = None,
        early_stopping: Any = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 10,
        tol: float = 1e-7,
        cv: Any = 5,
        rule: str = "min",
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.subsample = subsample
        self.max_features = max_features
        self.growth = growth
        self.init = init
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.cv = cv
        self.rule = rule
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to a table X, classes y and optional weights; rows of a group are held out together (early stopping)."""
        known = self.classes_ if self._continues() else None
        X = self._opened(X)
        w = self._weights(sample_weight, X.shape[0])
        classes, codes = class_codes(y, X.shape[0], w)
        if known is not None and not np.array_equal(known, classes):
            what = "warm_start=True cannot continue a fit with other classes"
            raise ParameterError(what, remedy="set warm_start=False")
        if self.loss == "exponential" and classes.size > 2:
            what = f'loss="exponential" is for two classes, and y has {classes.size}'
            raise DataError(what, remedy='choose loss="log_loss"')
        if classes.size > 2 and self._monotone(self.monotonic_cst).any():
            what = f"monotonic_cst needs two classes, and y has {classes.size}"
            raise ParameterError(what, remedy="set monotonic_cst=None")
        self.classes_ = classes
        if self.class_weight is not None:
            factors = class_factors(self.class_weight, classes, codes, w)[codes]
            w = self._weights(factors if w is None else w * factors, codes.size)
        self._boost(X, codes.astype(np.float64), w, CLASS_LOSSES[self.loss](classes.size), codes, groups)
        return self

    def decision_function(self, X: Any) -> Array:
        """The score of the second class, or one column of scores per class."""
        raw = self._raw(X)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    @property
    def held_out_prediction_(self) -> Array:
        """Probabilities of `held_out_rows_`, by trees that have not seen them."""
        return self._probabilities(self._left_out()[1])

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        return self._probabilities(self._raw(X))

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of the probability of each class, also where the probability itself would be 0."""
        raw = self._raw(X)
        if raw.shape[1] > 1:
            return special.log_softmax(raw, axis=1)
        score = self._slope() * raw
        return -np.logaddexp(0.0, np.hstack([score, -score]))

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        return self._decided(self._raw(X))

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """The scores after one round, after two, and so on."""
        for raw in self._staged(X):
            yield raw[:, 0] if raw.shape[1] == 1 else raw

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:
        """The probabilities after one round, after two, and so on."""
        for raw in self._staged(X):
            yield self._probabilities(raw)

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The classes predicted after one round, after two, and so on."""
        for raw in self._staged(X):
            yield self._decided(raw)

    def _slope(self) -> float:
        """The log-odds per unit of score."""
        return 2.0 if self.link_ == "half logit" else 1.0

    def _probabilities(self, raw: Array) -> Array:
        if raw.shape[1] > 1:
            return special.softmax(raw, axis=1)
        out = np.empty((raw.shape[0], 2))
        score = self._slope() * raw[:, 0]
        special.expit(score, out=out[:, 1])
        special.expit(-score, out=out[:, 0])
        return out

    def _decided(self, raw: Array) -> Array:
        return self.classes_[(raw[:, 0] > 0).astype(np.intp) if raw.shape[1] == 1 else raw.argmax(axis=1)]
