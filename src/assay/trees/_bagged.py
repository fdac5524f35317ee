"""Bagged trees: the table is read and sorted once for all of them.

Every model of a bag sees the same table, weighted by how often its sample drew each row. For single trees with exact
splits the reading of text and categories and the sorting of every column therefore need not be repeated B times; the
trees are those that `fit` would grow, to the last bit.

Cost: O(n p log n) once, then O(n p) a level and tree.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import clone

from assay.numerics.seeds import seed_sequence
from assay.trees._predict import leaf_indices
from assay.trees._prune import pruned
from assay.trees.cart import DecisionTreeClassifier, DecisionTreeRegressor

__all__ = ["SharedTable", "leaf_values"]

Array = np.ndarray


class SharedTable:
    """A table that many trees with the same parameters are grown on."""

    def __init__(self, base: Any, X: Any, target: Array, classes: Array | None) -> None:
        self._first = clone(base)
        self._first._draws_ties = True
        self.table = self._first._table(X, reset=True)
        if classes is not None:
            self._first.classes_ = classes
        self._grow = self._first._grower(self.table, target, 0 if classes is None else classes.size)

    @staticmethod
    def serves(base: Any) -> bool:
        """Whether a learner is a tree that reads and sorts its table without looking at the weights."""
        known = type(base) in (DecisionTreeRegressor, DecisionTreeClassifier)
        return known and base.splitter == "exact" and getattr(base, "class_weight", None) is None

    def tree(self, model: Any, w: Array | None) -> Any:
        """The model (a clone of the base, seeded) grown on rows of weights w."""
        tree = copy(self._first).set_params(random_state=model.random_state)
        start = int(seed_sequence(tree.random_state).generate_state(1, np.uint64)[0])
        nodes = self._grow(w, None, start)
        tree.nodes_ = pruned(nodes, tree.ccp_alpha, raw=True) if tree.ccp_alpha > 0 else nodes
        return tree


def leaf_values(tree: Any, table: Array) -> Array:
    """What a tree's leaves say about rows that have been read already: numbers or class shares, rows x K."""
    return tree.nodes_.value[leaf_indices(tree.nodes_, table, n_jobs=1)[:, 0]]
