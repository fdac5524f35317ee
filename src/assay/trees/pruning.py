"""Trees grown large and pruned back to the size that cross-validation chooses, with rpart's table of prices.

    T(alpha) = argmin_T  R(T) + alpha |T|,     alpha (or |T|) by the loss on held-out rows

with R(T) the total loss of a pruned subtree's leaves and |T| their number. All subtrees that are best for some alpha
are scored in one pass over each fold's tree, so the whole choice costs K + 1 fits; `_prune` and `_cp_table` say how.

Breiman, Friedman, Olshen and Stone (1984), Classification and Regression Trees, chapter 3; Therneau and Atkinson,
An Introduction to Recursive Partitioning Using the RPART Routines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, one_of
from assay.constraints import any_number
from assay.errors import DataError
from assay.numerics.seeds import seed_sequence
from assay.resampling import folds_constraint, group_codes, splits_of, whole_groups
from assay.state import Specs, part
from assay.trees._cp_table import CPTable, PruningProblem, cross_validated
from assay.trees._prune import PruningPath, cost_complexity_path, cut, pruned, pruned_to
from assay.trees.cart import DecisionTreeClassifier, DecisionTreeRegressor
from assay.trees.nodes import Nodes
from assay.trees.tree import Tree

__all__ = [
    "CPTable",
    "PrunedTreeClassifier",
    "PrunedTreeRegressor",
    "PruningPath",
    "cost_complexity_path",
    "pruned",
    "pruned_to",
]

Array = np.ndarray

SELECTION: dict[str, Constraint] = {
    "select": one_of("alpha", "leaves"),
    "cv": folds_constraint,
    "rule": one_of("1se", "min"),
}
"""Ranges of the parameters that choose the subtree."""


class PrunedTree(Tree):
    """A tree that is grown large and cut back to the subtree that cross-validation chooses."""

    state: ClassVar[Specs] = {
        "full_nodes_": part(Nodes, k="k"),
        "path_": part(PruningPath),
        "cp_table_": part(CPTable),
        **dict.fromkeys(("alpha_", "ccp_alpha_"), any_number),
    }

    select: str
    cv: Any
    rule: str
    cp_table_: CPTable
    path_: PruningPath
    full_nodes_: Nodes
    alpha_: float
    ccp_alpha_: float

    def _grow(self, X: Array, y: Array, w: Array | None, classes: int) -> Nodes:
        """The subtree that is chosen; the full tree and the table stay to be looked at."""
        weights = np.ones(len(X)) if w is None else w
        top = seed_sequence(self.random_state)
        # The full tree starts from the same seed as a tree that is not pruned.
        full_seed, (fold_seed, *more) = top.generate_state(1, np.uint64)[0], top.spawn(2)
        splits = self._splits(X, y, weights, classes > 0, int(fold_seed.generate_state(1)[0]))
        seeds = [int(full_seed), *(int(s) for s in more[0].generate_state(len(splits), np.uint64))]
        problem = PruningProblem(X, y, weights, self._grower(X, y, classes), self.criterion, self._risk(), seeds)
        full, fate, self.path_, table = cross_validated(
            problem, splits, rule=self.rule, select=self.select, n_jobs=self.n_jobs
        )
        self.full_nodes_, self.cp_table_ = full, table
        self.alpha_, self.ccp_alpha_ = float(table.cp[table.chosen]), float(table.ccp_alpha[table.chosen])
        return cut(full, fate, self.ccp_alpha_ * float(full.weight[0]))

    def _splits(self, X: Array, y: Array, w: Array, stratify: bool, seed: int) -> Sequence[Any]:
        """Training and test rows; a number of folds is dealt out among the rows that have weight."""
        groups = group_codes(getattr(self, "_groups", None), len(X))
        if not isinstance(self.cv, int | np.integer):
            return splits_of(self.cv, X, y, groups=groups)
        rows = np.flatnonzero(w)
        if rows.size < self.cv:
            what = f"cv = {self.cv} folds need at least {self.cv} rows with weight, but n_samples = {rows.size}"
            raise DataError(what, remedy="lower cv or pass more rows")
        part = None if groups is None else groups[rows]
        cv = whole_groups(self.cv, part, stratify=stratify, random_state=seed)
        dealt = splits_of(cv, X[rows], y[rows], groups=part, classes=stratify, random_state=seed)
        return [(rows[train], rows[test]) for train, test in dealt]

    def _risk(self) -> str:
        return "criterion"

    @property
    def n_leaves_(self) -> int:
        """How many leaves the tree has."""
        return self.get_n_leaves()

    def cost_complexity_path(self, risk: str | None = None) -> PruningPath:
        """The nested subtrees of the full tree, by the risk it was pruned by unless another is named."""
        check_is_fitted(self)
        return cost_complexity_path(self.full_nodes_, risk or self._risk())

    def _unpruned(self) -> Tree:
        plain = self._plain()
        return plain.set_params(**{name: getattr(self, name) for name in plain.get_params() if name != "ccp_alpha"})

    def _plain(self) -> Tree:
        raise NotImplementedError

    def prune(self, alpha: float, risk: str | None = None) -> Self:
        """A copy that takes another row of the table: the full tree cut back at a price in units of the root's risk.

        Its `alpha_` is that row's CP; its `cp_table_` still marks what cross-validation chose.
        """
        check_is_fitted(self)
        return self._taking(pruned(self.full_nodes_, alpha, risk=risk or self._risk()), risk or self._risk())

    def prune_leaves(self, leaves: int, risk: str | None = None) -> Self:
        """A copy that takes the largest of the full tree's nested subtrees with at most so many leaves."""
        check_is_fitted(self)
        return self._taking(pruned_to(self.full_nodes_, leaves, risk=risk or self._risk()), risk or self._risk())

    def _taking(self, nodes: Nodes, risk: str) -> Self:
        """A copy with another subtree of the sequence, and the price from which on that is the best."""
        other = self._with(nodes)
        path = self.path_ if risk == self._risk() else cost_complexity_path(self.full_nodes_, risk)
        row = int(np.argmin(np.abs(path.leaves - nodes.leaves)))
        other.alpha_, other.ccp_alpha_ = float(path.alpha[row]), float(path.ccp_alpha[row])
        return other


class PrunedTreeRegressor(PrunedTree, DecisionTreeRegressor):
    """A regression tree pruned to the size that cross-validation chooses, as rpart does.

    The full tree is cut back to the subtree with the least R(T) + alpha |T|, R the sum of the leaves' losses, |T| the
    number of leaves, and alpha chosen by the cross-validated loss xerror: the least of all, or the simplest tree
    with xerror <= min xerror + its xstd.

    | parameter                | default         | range                            | meaning                             |
    |--------------------------|-----------------|----------------------------------|-------------------------------------|
    | select                   | "alpha"         | "alpha", "leaves"                | what folds have in common: the price per leaf, or the number of leaves |
    | cv                       | 10              | from 2 on, splitter, pairs       | folds; a number: shuffled by random_state |
    | rule                     | "1se"           | "1se", "min"                     | simplest tree within one standard error of the best, or the best |
    | criterion                | "squared_error" | "absolute_error", "poisson"      | the loss of growing, pruning and cross-validation |
    | splitter                 | "exact"         | "exact", "hist"                  | all cuts, or those of bins          |
    | multiway                 | False           | bool                             | categories split in one child per level, by gain ratio |
    | max_depth                | None            | from 1 on                        | most questions on a way             |
    | min_samples_split        | 2               | from 2 on, or a share in (0, 1]  | fewest rows of a node that is split |
    | min_samples_leaf         | 1               | from 1 on, or a share in (0, 1)  | fewest rows of a leaf               |
    | min_weight_fraction_leaf | 0.0             | [0, 0.5]                         | least share of the weight in a leaf |
    | max_features             | None            | int, share, "sqrt", "log2"       | columns drawn at each node; None: all |
    | max_leaf_nodes           | None            | from 2 on                        | most leaves of the full tree        |
    | min_impurity_decrease    | 0.0             | from 0 on                        | least saving of a split, per unit of the root's weight |
    | categorical_features     | "auto"          | "auto", None, columns            | columns that are categories; text always is |
    | monotonic_cst            | None            | -1, 0, 1 per column, or a dict   | predictions rise (1) or fall (-1) with a column |
    | max_bins                 | 255             | 2 to 65,535                      | bins of a column, splitter="hist"   |
    | random_state             | None            | seed                             | folds, and draws of columns         |
    | n_jobs                   | None            | threads                          | folds, sorting, prediction; never changes a result |

    Fitted: `cp_table_` (a `CPTable`, with `plot()`), `alpha_` (the price chosen, in units of the root's risk),
    `ccp_alpha_` (the same as scikit-learn's ccp_alpha), `n_leaves_`, `nodes_` (the pruned tree), `full_nodes_`,
    `path_`, and what a `DecisionTreeRegressor` has. `prune` and `prune_leaves` take another subtree of the full tree.

    Bins, where asked for, are those of all rows: held-out rows have a say in where cuts may stand, never in which
    cut is taken. A Poisson leaf without events is judged by rpart's shrunken rate.

    Sparse X: as `DecisionTreeRegressor` takes it.

    Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees, ch. 3 and 8.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 3))
    >>> tree = PrunedTreeRegressor(random_state=0).fit(X, 3.0 * (X[:, 0] > 0.5) + rng.normal(size=200))
    >>> tree.n_leaves_, tree.full_nodes_.leaves
    (2, 200)
    >>> tree.cp_table_.to_frame().iloc[:2][["nsplit", "rel_error", "xerror", "xstd"]].round(3)
       nsplit  rel_error  xerror   xstd
    1       0      1.000   1.009  0.073
    2       1      0.298   0.315  0.029
    """  # noqa: E501  (a table)

    state: ClassVar[Specs] = {
        "full_nodes_": part(Nodes, k=1),
    }

    constraints: ClassVar[dict[str, Constraint]] = {
        **{name: range_ for name, range_ in DecisionTreeRegressor.constraints.items() if name != "ccp_alpha"},
        **SELECTION,
    }

    def __init__(
        self,
        *,
        select: str = "alpha",
        cv: Any = 10,
        rule: str = "1se",
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
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.select = select
        self.cv = cv
        self.rule = rule
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
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Grow the tree and prune it; rows of weight 0 are as if they were not there, groups stay in one fold."""
        self._groups = groups
        try:
            return super().fit(X, y, sample_weight)
        finally:
            del self._groups

    def _plain(self) -> Tree:
        return DecisionTreeRegressor()


class PrunedTreeClassifier(PrunedTree, DecisionTreeClassifier):
    """A classification tree pruned to the size that cross-validation chooses, as rpart does.

    The full tree, grown by `criterion`, is cut back to the subtree with the least R(T) + alpha |T|, R the (weighted)
    number of wrong training rows, |T| the number of leaves, and alpha chosen by the errors on held-out rows: the least
    xerror of all, or the simplest tree with xerror <= min xerror + its xstd. With `risk="criterion"` R is the
    criterion itself, and held-out rows are judged by what it estimates: the squared error of the class shares
    for Gini, the deviance for log loss (each class of a leaf counted half a row more).

    | parameter                | default | range                            | meaning                                     |
    |--------------------------|---------|----------------------------------|---------------------------------------------|
    | select                   | "alpha" | "alpha", "leaves"                | what folds have in common: the price per leaf, or the number of leaves |
    | cv                       | 10      | from 2 on, splitter, pairs       | folds; a number: shuffled by random_state, stratified by class |
    | rule                     | "1se"   | "1se", "min"                     | simplest tree within one standard error of the best, or the best |
    | risk                     | "error" | "error", "criterion"             | what pruning and cross-validation count: wrong classes, or the criterion |
    | criterion                | "gini"  | "log_loss", "entropy", "error"   | the loss of growing ("entropy" is "log_loss") |
    | splitter                 | "exact" | "exact", "hist"                  | all cuts, or those of bins                  |
    | multiway                 | False   | bool                             | categories split in one child per level, by gain ratio |
    | max_depth                | None    | from 1 on                        | most questions on a way                     |
    | min_samples_split        | 2       | from 2 on, or a share in (0, 1]  | fewest rows of a node that is split         |
    | min_samples_leaf         | 1       | from 1 on, or a share in (0, 1)  | fewest rows of a leaf                       |
    | min_weight_fraction_leaf | 0.0     | [0, 0.5]                         | least share of the weight in a leaf         |
    | max_features             | None    | int, share, "sqrt", "log2"       | columns drawn at each node; None: all       |
    | max_leaf_nodes           | None    | from 2 on                        | most leaves of the full tree                |
    | min_impurity_decrease    | 0.0     | from 0 on                        | least saving of a split, per unit of the root's weight |
    | class_weight             | None    | "balanced", dict                 | weight of each class, times sample_weight, in growing, pruning and errors |
    | categorical_features     | "auto"  | "auto", None, columns            | columns that are categories; text always is |
    | monotonic_cst            | None    | -1, 0, 1 per column, or a dict   | the second of two classes gets likelier (1) or rarer (-1) with a column |
    | max_bins                 | 255     | 2 to 65,535                      | bins of a column, splitter="hist"           |
    | random_state             | None    | seed                             | folds, and draws of columns                 |
    | n_jobs                   | None    | threads                          | folds, sorting, prediction; never changes a result |

    Fitted: `classes_`, `cp_table_` (a `CPTable`, with `plot()`), `alpha_` (the price chosen, in units of the root's
    risk), `ccp_alpha_` (the same per unit of weight), `n_leaves_`, `nodes_` (the pruned tree), `full_nodes_`, `path_`,
    and what a `DecisionTreeClassifier` has. `prune` and `prune_leaves` take another subtree of the full tree.

    Sparse X: as `DecisionTreeClassifier` takes it.

    Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees, ch. 3 and 4.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 3))
    >>> wet = (X[:, 0] > 0.5) != (rng.uniform(size=200) < 0.1)
    >>> tree = PrunedTreeClassifier(random_state=0).fit(X, np.where(wet, "rain", "sun"))
    >>> tree.n_leaves_, tree.predict([[0.9, 0.5, 0.5]])
    (2, array(['rain'], dtype='<U4'))
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **{name: range_ for name, range_ in DecisionTreeClassifier.constraints.items() if name != "ccp_alpha"},
        **SELECTION,
        "risk": one_of("error", "criterion"),
    }

    def __init__(
        self,
        *,
        select: str = "alpha",
        cv: Any = 10,
        rule: str = "1se",
        risk: str = "error",
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
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.select = select
        self.cv = cv
        self.rule = rule
        self.risk = risk
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
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _risk(self) -> str:
        return self.risk

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Grow the tree and prune it; rows of weight 0 are as if they were not there, groups stay in one fold."""
        self._groups = groups
        try:
            return super().fit(X, y, sample_weight)
        finally:
            del self._groups

    def _plain(self) -> Tree:
        return DecisionTreeClassifier()
