"""When growth stops: the limits that every single tree shares, worked out once from scikit-learn's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from assay.base import Constraint, integer, none, real

__all__ = ["LIMITS", "Limits", "limits_of"]

MANY = 2**31 - 1

LIMITS: dict[str, Constraint] = {
    "max_depth": none | integer(1),
    "max_leaf_nodes": none | integer(2),
    "min_samples_split": integer(2) | real(0, 1, open_low=True),
    "min_samples_leaf": integer(1) | real(0, 1, open_low=True, open_high=True),
    "min_weight_fraction_leaf": real(0, 0.5),
    "min_impurity_decrease": real(0),
}
"""Ranges of the parameters behind `limits_of`."""


@dataclass(frozen=True)
class Limits:
    """Growth limits as plain numbers for the kernels.

    | field        | meaning                                                                                   |
    |--------------|-------------------------------------------------------------------------------------------|
    | max_depth    | a node at this depth is a leaf (the root has depth 0)                                     |
    | max_leaves   | 0: every allowed split is made; otherwise best first until there are this many leaves     |
    | min_split    | a node with fewer rows is a leaf                                                          |
    | min_leaf     | no split leaves a child with fewer rows                                                   |
    | min_weight   | no split leaves a child with less weight                                                  |
    | min_decrease | no split that saves less weighted loss than this (an absolute sum, not a share)           |

    Rows are those with positive weight; a bootstrap's repeated row counts once for each time it was drawn.
    """

    max_depth: int = MANY
    max_leaves: int = 0
    min_split: int = 2
    min_leaf: int = 1
    min_weight: float = 0.0
    min_decrease: float = 0.0


def limits_of(estimator: Any, rows: int, weight: float) -> Limits:
    """The limits that an estimator's parameters mean for so many rows of such a total weight."""
    split, leaf = estimator.min_samples_split, estimator.min_samples_leaf
    leaf = leaf if leaf >= 1 else ceil(leaf * rows)
    split = max(2, split if isinstance(split, int) or split > 1 else ceil(split * rows))
    return Limits(
        max_depth=MANY if estimator.max_depth is None else int(estimator.max_depth),
        max_leaves=0 if estimator.max_leaf_nodes is None else int(estimator.max_leaf_nodes),
        min_split=int(max(split, 2 * leaf)),
        min_leaf=int(leaf),
        min_weight=float(estimator.min_weight_fraction_leaf) * weight,
        min_decrease=float(estimator.min_impurity_decrease) * weight,
    )
