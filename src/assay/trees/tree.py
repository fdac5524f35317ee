"""What all single trees share: growing, answering, looking inside and pruning."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, boolean, integer, jobs, none, one_of, real, seed
from assay.errors import DataError, ParameterError
from assay.numerics.seeds import seed_sequence
from assay.shapley import PREDICTION, PROBABILITY, ShapleyPart, ShapleyTask
from assay.state import Specs, optional, part
from assay.trees._binning import bin_table
from assay.trees._exact import grow_exact, presort
from assay.trees._interrupt import interrupts
from assay.trees._limits import LIMITS, limits_of
from assay.trees._multiway import grow_multiway
from assay.trees._predict import leaf_indices
from assay.trees._prune import PruningPath, cost_complexity_path, pruned, pruned_to
from assay.trees._shapley import shapley_part
from assay.trees._table import TableEstimator, categories, monotone
from assay.trees._target import in_range
from assay.trees._ties import drawn_order
from assay.trees.nodes import Nodes
from assay.trees.rules import Rules, export_text, rules
from assay.upcalls import upcall

__all__ = ["GROWTH", "Grow", "Tree", "columns_drawn"]

Array = np.ndarray
Grow = Callable[[Array | None, Array | None, int], Nodes]
"""Weights (None: 1 each), how often each row was drawn (None: once) and a seed in; a tree out."""

GROWTH: dict[str, Constraint] = {
    **LIMITS,
    "splitter": one_of("exact", "hist"),
    "multiway": boolean,
    "max_features": none | one_of("sqrt", "log2") | integer(1) | real(0, 1, open_low=True),
    "categorical_features": categories,
    "monotonic_cst": monotone,
    "max_bins": integer(2, 65_535),
    "ccp_alpha": real(0),
    "random_state": seed,
    "n_jobs": jobs,
}
"""Ranges of the parameters that all single trees have; `criterion` is each class's own."""


def columns_drawn(max_features: Any, columns: int) -> int:
    """How many columns are searched at each node.

    >>> columns_drawn(None, 10), columns_drawn("sqrt", 10), columns_drawn(0.5, 10), columns_drawn(3, 10)
    (10, 3, 5, 3)
    """
    if max_features is None:
        return columns
    if isinstance(max_features, str):
        return max(1, int(np.sqrt(columns) if max_features == "sqrt" else np.log2(columns)))
    if isinstance(max_features, float | np.floating):
        return max(1, int(max_features * columns))
    if max_features > columns:
        what = f"max_features = {max_features}, but X has {columns} columns"
        raise ParameterError(what, remedy=f"use at most {columns}, or a fraction such as 1.0")
    return int(max_features)


class Tree(TableEstimator):
    """A fitted tree: `nodes_` holds it, everything else is read off.

    A class adds its `criterion`, `fit` and `predict`, and for classes `classes_`.
    """

    state: ClassVar[Specs] = {
        "max_features_": integer(1),
        "nodes_": part(Nodes, k="k"),
        "_draws_ties": optional(boolean),
    }

    constraints: ClassVar[dict[str, Constraint]] = GROWTH

    criterion: str
    splitter: str
    multiway: bool
    max_features: Any
    monotonic_cst: Any
    max_bins: int
    ccp_alpha: float
    random_state: Any
    n_jobs: int | None
    nodes_: Nodes
    max_features_: int
    _draws_ties: bool = False
    """Whether equally good splits go to the column that is first in an order drawn for this tree, as in a bag."""

    def __shapley__(self, task: ShapleyTask) -> ShapleyPart:
        """Exact Shapley values of the leaves' means, or of their shares of the classes."""
        tables = self._table(task.X, reset=False), self._table(task.background, reset=False)
        scale = PROBABILITY if hasattr(self, "classes_") else PREDICTION
        return shapley_part(self.nodes_, task, tables, scale, n_jobs=self.n_jobs)

    # Growing.

    def _weights(self, sample_weight: Any, n: int) -> Array | None:
        return in_range(super()._weights(sample_weight, n))

    def _grow(self, X: Array, y: Array, w: Array | None, classes: int) -> Nodes:
        """The tree of checked rows, pruned if `ccp_alpha` asks for it."""
        start = int(seed_sequence(self.random_state).generate_state(1, np.uint64)[0])
        nodes = self._grower(X, y, classes, w)(w, None, start)
        return pruned(nodes, self.ccp_alpha, raw=True) if self.ccp_alpha > 0 else nodes

    def _grower(self, X: Array, y: Array, classes: int, w: Array | None = None) -> Grow:
        """Sort or bin the table once (bins by weight w); what is returned grows a tree for any weights."""
        levels = self._level_counts()
        signs = self._monotone(self.monotonic_cst)
        self._refuse(y, classes, signs)
        self.max_features_ = columns_drawn(self.max_features, X.shape[1])
        some, drawn = self.max_features_, self._draws_ties and self.max_features_ >= X.shape[1]
        if self.splitter == "hist":
            from assay.trees._grow import grow_binned

            codes = bin_table(X, list(levels), w, max_bins=self.max_bins, n_jobs=self.n_jobs)
        else:
            order = presort(X, levels, self.n_jobs)

        def grow(w: Array | None, counts: Array | None, seed: int) -> Nodes:
            there = np.ones(len(X), dtype=bool) if w is None else w > 0
            rows = int(np.count_nonzero(there) if counts is None else counts[there].sum())
            limits = limits_of(self, rows, float(rows if w is None else w.sum()))
            data = (y, w, self.criterion, classes, limits)
            options: dict[str, Any] = {"max_features": some, "seed": seed, "counts": counts}
            options["columns"] = drawn_order(seed, X.shape[1]) if drawn else None
            with interrupts():
                if self.splitter == "hist":
                    return grow_binned(codes, *data, **options, monotone=signs, n_jobs=self.n_jobs)
                if self.multiway:
                    return grow_multiway(X, order, levels, *data, **options)
                return grow_exact(X, order, levels, *data, **options, monotone=signs)

        return grow

    def _refuse(self, y: Array, classes: int, signs: Array) -> None:
        """Combinations that mean nothing, and targets outside a criterion's range."""
        if self.multiway and self.splitter == "hist":
            raise ParameterError("multiway = True needs exact splits", remedy='set splitter="exact"')
        if self.multiway and getattr(self, "max_leaf_nodes", None) is not None:
            what = "max_leaf_nodes counts binary splits, but multiway = True splits categories into many branches"
            raise ParameterError(what, remedy="limit the tree by max_depth or min_samples_leaf, or prune it")
        if signs.any() and self.multiway:
            raise ParameterError("monotonic_cst and multiway = True exclude each other", remedy="drop one of them")
        if signs.any() and classes > 2:
            what = f"monotonic_cst needs numbers or two classes as target, but y has {classes} classes"
            raise ParameterError(what, remedy="drop the constraint")
        if self.criterion == "poisson":
            if (y < 0).any():
                row = int(np.argmax(y < 0))
                what = f"y is {y[row]:g} in row {row}, but the Poisson criterion does not support negative targets"
                raise DataError(what, remedy='correct it, or use criterion="squared_error"')
            if not (y > 0).any():
                raise DataError("y is zero in every row, and so is its Poisson mean", remedy="nothing can be learned")

    # Answering.

    def _leaves(self, X: Any) -> Array:
        """The leaf of each row."""
        table = self._table(X, reset=False)  # which says so if the tree is not fitted
        return leaf_indices(self.nodes_, table, n_jobs=self.n_jobs)[:, 0]

    def apply(self, X: Any) -> Array:
        """The number of the leaf in which each row ends, counted in `nodes_`."""
        return self._leaves(X).astype(np.int64)

    def decision_path(self, X: Any) -> sparse.csr_matrix:
        """A sparse table of rows by nodes, 1 where the row passes through the node."""
        leaves = self._leaves(X)
        up, depth = self.nodes_.parent(), self.nodes_.depth()
        ends = np.concatenate([[0], np.cumsum(depth[leaves] + 1)])
        columns = np.empty(ends[-1], dtype=np.int64)
        node, active = leaves.astype(np.int64), np.arange(leaves.size)
        while active.size:
            # A node at depth d is the d-th on every path through it.
            columns[ends[active] + depth[node]] = node
            node = up[node]
            active, node = active[node >= 0], node[node >= 0]
        ones = np.ones(columns.size, dtype=np.int64)
        return sparse.csr_matrix((ones, columns, ends), shape=(leaves.size, self.nodes_.size))

    # Looking inside.

    def get_depth(self) -> int:
        """The number of splits on the longest way from the root to a leaf."""
        check_is_fitted(self)
        return int(self.nodes_.depth().max())

    def get_n_leaves(self) -> int:
        """The number of leaves."""
        check_is_fitted(self)
        return self.nodes_.leaves

    @property
    def feature_importances_(self) -> Array:
        """Each column's share of the loss that all splits saved (they sum to 1; all zero in a tree without splits)."""
        check_is_fitted(self)
        inner = self.nodes_.count > 0
        saved = np.bincount(self.nodes_.feature[inner], self.nodes_.gain[inner], minlength=self.n_features_in_)
        return saved / saved.sum() if saved.sum() > 0 else saved

    def _words(self) -> tuple[Any, ...]:
        check_is_fitted(self)
        return self.nodes_, self._feature_names(), self._level_words(), getattr(self, "classes_", None)

    def export_text(self, **options: Any) -> str:
        """The tree as indented text, one line a node.

        | option    | default           | meaning                                                                     |
        |-----------|-------------------|-----------------------------------------------------------------------------|
        | max_depth | None              | deeper nodes are only counted                                               |
        | decimals  | None              | digits after the point; None: as few as keep numbers apart                  |
        | show      | ("value", "rows") | what is told of a node: of value, shares, rows, weight, loss, gain          |
        | missing   | None              | True, False or one per column: say where missing values go; None: where the |
        |           |                   | tree has learnt it                                                          |
        """
        return export_text(*self._words(), **options)

    def rules(self, **options: Any) -> Rules:
        """One rule in words for each leaf: a sequence that prints, with `to_frame` and `plot`.

        | option   | default | meaning                                                                                |
        |----------|---------|----------------------------------------------------------------------------------------|
        | decimals | None    | digits after the point; None: as few as keep numbers apart                             |
        | missing  | None    | True, False or one per column: say where missing values go; None: where it was learnt  |
        """
        return rules(*self._words(), **options)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the tree into `ax`, or into a new figure as large as it needs, and return the axes.

        | option     | default | meaning                                                                               |
        |------------|---------|---------------------------------------------------------------------------------------|
        | max_depth  | None    | deeper branches are closed                                                            |
        | max_leaves | 30      | branches that save least are closed until so many ends are left                       |
        | decimals   | None    | digits after the point; None: as few as keep numbers apart                            |
        | missing    | None    | True, False or one per column: edges say where missing values go; None: where learnt  |
        | branch     | "even"  | "loss": branches are as long as the loss that the split saves                         |
        | grow       | "auto"  | "down" or "right"; "auto": the way that fits a screen better                          |
        """
        check_is_fitted(self)
        return upcall("draw_tree")(self, ax, **options)

    # Pruning.

    def cost_complexity_path(self, risk: str = "criterion") -> PruningPath:
        """The nested subtrees with the price per leaf from which on each is best."""
        check_is_fitted(self)
        return cost_complexity_path(self.nodes_, risk)

    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> Bunch:
        """The same for a tree grown on X and y, under scikit-learn's names: `ccp_alphas` and `impurities`.

        A full tree is grown with this one's parameters and forgotten; of a tree that is fitted `cost_complexity_path()`
        tells more. Steps of the same price are one entry, and splits that save nothing are gone from the first.
        """
        path = self._unpruned().fit(X, y, sample_weight).cost_complexity_path("criterion")
        return Bunch(ccp_alphas=path.ccp_alpha, impurities=path.risk)

    def _unpruned(self) -> Tree:
        """The same tree, not fitted, that will be grown in full."""
        return clone(self).set_params(ccp_alpha=0.0)

    def prune(self, alpha: float, risk: str = "criterion") -> Self:
        """A copy of the tree, cut back to the best subtree for a price per leaf in units of the root's risk."""
        return self._with(pruned(self._checked(), alpha, risk=risk))

    def prune_leaves(self, leaves: int, risk: str = "criterion") -> Self:
        """A copy of the tree, cut back to the largest of the nested subtrees with at most so many leaves."""
        return self._with(pruned_to(self._checked(), leaves, risk=risk))

    def _checked(self) -> Nodes:
        check_is_fitted(self)
        return self.nodes_

    def _with(self, nodes: Nodes) -> Self:
        other = copy(self)
        other.nodes_ = nodes
        return other
