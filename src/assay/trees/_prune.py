"""Cost-complexity pruning of one tree: the nested subtrees that minimise risk plus a price per leaf.

For a price alpha per leaf the best pruned subtree, and the smallest of them where several are equally good, is

    T(alpha) = argmin_T  R(T) + alpha |T|,     R(T) = sum over leaves of weight x impurity   (or x share of errors)

and T(alpha) shrinks in steps as alpha grows. With V_t(a) the least cost below node t,

    V_t(a) = min(R(t) + a, sum over children V_c(a)),

node t collapses from alpha c_t on, the root of R(t) + a = sum V_c(a). The right side is concave with a slope of at
least 2, so there is one root; it is found from above by expanding descendants in falling order of their own c. A
descendant that is passed on the way never collapses by itself and is never looked at again, so a pairing heap of
descendants, melded on the way up, finds all c_t in O(nodes log nodes), for any depth and any number of children.
A node is a leaf of T(alpha) when c <= alpha and all nodes above it have c > alpha.

Breiman, Friedman, Olshen and Stone (1984), Classification and Regression Trees, chapter 3.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import choice, number, whole
from assay.errors import AssayWarning, DataError, ParameterError
from assay.numbers import fmt
from assay.results import Result
from assay.trees._prune_kernels import TIE, add_losses, collapse_all, inherit, stand
from assay.trees.nodes import LEAF, Nodes

__all__ = [
    "TIE",
    "Collapse",
    "PruningPath",
    "answers",
    "collapse",
    "cost_complexity_path",
    "cut",
    "held_out_sums",
    "node_risk",
    "path_of",
    "pruned",
    "pruned_to",
]

Array = np.ndarray
RISKS = ("criterion", "error")


@dataclass(frozen=True, eq=False, repr=False)
class PruningPath(Result):
    """The nested subtrees of one tree, from the largest to the root alone, as scikit-learn orders them.

    | field     | meaning                                                                                   |
    |-----------|-------------------------------------------------------------------------------------------|
    | alpha     | price per leaf from which on the subtree is best, in units of the root's risk (rpart's cp) |
    | ccp_alpha | the same price per unit of weight in the units of the loss (scikit-learn's ccp_alpha)     |
    | leaves    | leaves of the subtree                                                                     |
    | splits    | its inner nodes                                                                           |
    | risk      | its risk per unit of weight (scikit-learn's impurities)                                   |
    | root_risk | the risk of the root alone, per unit of weight                                            |
    | kind      | "criterion" or "error": which risk                                                        |
    """

    alpha: Array
    ccp_alpha: Array
    leaves: Array
    splits: Array
    risk: Array
    root_risk: float
    kind: str = "criterion"

    @property
    def relative_risk(self) -> Array:
        """The risk as a share of the root's (rpart's rel error); 0 where the root has none."""
        return self.risk / self.root_risk if self.root_risk > 0 else np.zeros_like(self.risk)

    def to_frame(self) -> pd.DataFrame:
        """One row per subtree: alpha, ccp_alpha, leaves, splits, risk, relative_risk."""
        names = ("alpha", "ccp_alpha", "leaves", "splits", "risk", "relative_risk")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def __str__(self) -> str:
        frame = self.to_frame().drop(columns="splits")
        shown = frame if len(frame) <= 20 else frame.iloc[[*range(3), *range(len(frame) - 16, len(frame))]]
        lines = shown.to_string(float_format=lambda v: fmt(v, 5)).splitlines()
        if len(frame) > 20:
            lines.insert(4, f"... {len(frame) - 19} more, all in to_frame() ...")
        word = "errors" if self.kind == "error" else "the growing criterion"
        title = f"Pruning path of {len(frame)} nested subtrees, risk by {word}"
        return "\n".join([title, "-" * max(len(title), len(lines[0])), *lines])


@dataclass(frozen=True, eq=False)
class Collapse:
    """When each node collapses.

    | field  | meaning                                                                          |
    |--------|----------------------------------------------------------------------------------|
    | at     | price per leaf, in total risk, from which on the node is no longer split         |
    | live   | inner nodes that are leaves of some T(alpha); the others go with a node above    |
    | risk   | total risk of each node as a leaf                                                |
    | saves  | what the subtree below saves just before the node collapses                      |
    | leaves | its leaves then                                                                  |
    | splits | its inner nodes then                                                             |
    """

    at: Array
    live: Array
    risk: Array
    saves: Array
    leaves: Array
    splits: Array


def node_risk(nodes: Nodes, risk: str = "criterion") -> Array:
    """Total risk of each node as a leaf: weight x impurity, or the weight of the rows outside the largest class."""
    choice(risk, "risk", RISKS)
    if risk == "criterion":
        return np.maximum(nodes.weight * nodes.impurity, 0.0)  # rounding may leave a trace below nothing
    if nodes.value.shape[1] < 2:
        raise ParameterError(
            'risk = "error" counts wrong classes, but this is a regression tree', remedy="leave it out"
        )
    wrong = nodes.weight * (1.0 - nodes.value.max(axis=1))
    # Without weights errors are whole numbers; kept as such, equal prices stay equal to the last bit.
    return np.rint(wrong) if np.array_equal(nodes.weight, nodes.rows) else wrong


def collapse(nodes: Nodes, risk: str = "criterion") -> Collapse:
    """The price from which on each node of one tree collapses."""
    if nodes.trees != 1:
        raise DataError(f"pruning takes one tree, not {nodes.trees}", remedy="choose one with nodes.tree(k)")
    of_node = np.ascontiguousarray(node_risk(nodes, risk), dtype=np.float64)
    size = nodes.size
    at, below = np.zeros(size), of_node.copy()
    leaves, splits = np.ones(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    live = np.zeros(size, dtype=np.bool_)
    links = np.full((2, size), -1, dtype=np.int64)
    collapse_all(nodes.first, nodes.count, of_node, at, below, leaves, splits, live, links[0], links[1])
    return Collapse(at, live, of_node, of_node - below, leaves, splits)


def cost_complexity_path(nodes: Nodes, risk: str = "criterion") -> PruningPath:
    """All subtrees that are best for some price per leaf.

    | parameter | default     | range                | meaning                                                  |
    |-----------|-------------|----------------------|----------------------------------------------------------|
    | nodes     |             | one tree             | the tree to prune                                        |
    | risk      | "criterion" | "criterion", "error" | the loss it was grown by, or wrong classes (rpart's way) |
    """
    return path_of(nodes, collapse(nodes, risk), risk)


def path_of(nodes: Nodes, fate: Collapse, risk: str) -> PruningPath:
    """The path that belongs to the prices of the nodes."""
    live = np.flatnonzero(fate.live)
    order = live[np.argsort(fate.at[live], kind="stable")]
    at = fate.at[order]
    # The first entry is the tree for a price of nothing, without the splits that save nothing.
    free = int(np.searchsorted(at, 0.0, side="right"))
    at, order = at[free:], order[free:]
    ends = np.append(at[1:] - at[:-1] > TIE * at[1:], True)[: at.size]
    lost = fate.leaves[order] - 1
    standing = _standing(nodes, fate.at, 0.0)
    base = fate.risk[standing & _stops(nodes, fate.at, 0.0)].sum()
    leaves = 1 + int(lost.sum())
    splits = int(fate.splits[order].sum())
    weight = float(nodes.weight[0])
    risks = np.append(base, base + np.cumsum(fate.saves[order])[ends])
    if risks.size > 1:
        risks[-1] = fate.risk[0]
    root = float(fate.risk[0])
    price = np.append(0.0, at[ends])
    return PruningPath(
        alpha=price / root if root > 0 else price,
        ccp_alpha=price / weight,
        leaves=np.append(leaves, leaves - np.cumsum(lost)[ends]),
        splits=np.append(splits, splits - np.cumsum(fate.splits[order])[ends]),
        risk=risks / weight,
        root_risk=root / weight,
        kind=risk,
    )


def pruned(nodes: Nodes, alpha: float, *, risk: str = "criterion", raw: bool = False) -> Nodes:
    """The best subtree for a price per leaf, the smallest where several are.

    | parameter | default     | range                | meaning                                                       |
    |-----------|-------------|----------------------|---------------------------------------------------------------|
    | nodes     |             | one tree             | the tree to prune                                             |
    | alpha     |             | at least 0           | price per leaf, in units of the root's risk                   |
    | risk      | "criterion" | "criterion", "error" | the loss it was grown by, or wrong classes                    |
    | raw       | False       | True, False          | alpha is in units of the loss, as scikit-learn's ccp_alpha    |
    """
    price = number(alpha, "alpha", 0.0) if alpha != np.inf else np.inf
    fate = collapse(nodes, risk)
    unit = float(nodes.weight[0]) if raw else float(fate.risk[0])
    return cut(nodes, fate, price if price == np.inf else price * unit)


def pruned_to(nodes: Nodes, leaves: int, *, risk: str = "criterion") -> Nodes:
    """The largest subtree of the nested sequence with at most so many leaves.

    The sequence jumps over some sizes; where it has none of exactly `leaves`, a warning says which one is taken.

    | parameter | default     | range                | meaning                                    |
    |-----------|-------------|----------------------|--------------------------------------------|
    | nodes     |             | one tree             | the tree to prune                          |
    | leaves    |             | at least 1           | how many leaves it may have                |
    | risk      | "criterion" | "criterion", "error" | the loss it was grown by, or wrong classes |
    """
    most = whole(leaves, "leaves", 1)
    fate = collapse(nodes, risk)
    path = path_of(nodes, fate, risk)
    k = int(np.argmax(path.leaves <= most))
    taken = int(path.leaves[k])
    if taken != most:
        what = f"no subtree of the nested sequence has {most} leaves: the one with {taken} is used"
        warnings.warn(AssayWarning(what), stacklevel=2)
    return cut(nodes, fate, float(path.ccp_alpha[k]) * float(nodes.weight[0]))


def cut(nodes: Nodes, fate: Collapse, price: float) -> Nodes:
    """The subtree that is left at a price in total risk: its nodes in their old order, children still side by side."""
    keep = _standing(nodes, fate.at, price)
    leaf = (_stops(nodes, fate.at, price) | (nodes.count == 0))[keep]
    place = np.cumsum(keep) - 1
    words, offset = _words(nodes, np.flatnonzero(keep)[~leaf])
    at: dict[str, Any] = {name: getattr(nodes, name)[keep] for name in _BY_NODE}
    first = place[at.pop("first")]
    for name, nothing in (("feature", LEAF), ("threshold", 0.0), ("count", 0), ("missing", 0), ("gain", 0.0)):
        at[name] = np.where(leaf, nothing, at[name]).astype(at[name].dtype)
    return replace(
        nodes,
        **at,
        first=np.where(leaf, 0, first).astype(np.int32),
        starts=np.array([0, leaf.size], dtype=np.int64),
        words=words,
        offset=offset[keep],
    )


def answers(nodes: Nodes, fate: Collapse, prices: Array) -> tuple[Array, Array]:
    """For each node the positions low .. high - 1 of the rising `prices`, per unit of weight, at which it is a leaf."""
    stops_from = np.searchsorted(prices * (1.0 + TIE), fate.at / nodes.weight[0], side="left")
    high = np.full(nodes.size, prices.size, dtype=np.int64)
    inherit(nodes.first, nodes.count, stops_from, high)
    return stops_from, high


def held_out_sums(
    nodes: Nodes, fate: Collapse, prices: Array, leaf: Array, y: Array, w: Array, loss: int, table: Array, unit: float
) -> tuple[Array, Array]:
    """For each price the sums of w L and of w L^2 over rows that reach the given leaves of the full tree.

    `loss` 0: (unit (y - v))^2, 1: unit |y - v|, 2: unit x half the Poisson deviance, with v = table[node, 0];
    3: table[node, y] for class codes y.
    """
    low, high = answers(nodes, fate, prices)
    sums = np.zeros((2, prices.size + 1))
    add_losses(leaf, y, w, nodes.parent(), low, high, table, loss, unit, sums)
    # Each node's loss enters where its range of prices begins and leaves where that ends.
    total = np.maximum(np.cumsum(sums, axis=1)[:, :-1], 0.0)
    return total[0], total[1]


_BY_NODE = ("feature", "threshold", "first", "count", "missing", "value", "rows", "weight", "impurity", "gain")


def _stops(nodes: Nodes, at: Array, price: float) -> Array:
    """Which nodes do not split at this price."""
    return at <= price * (1.0 + TIE)


def _standing(nodes: Nodes, at: Array, price: float) -> Array:
    """Which nodes still stand at this price: every node above them splits."""
    standing = np.zeros(nodes.size, dtype=np.bool_)
    stand(nodes.first, nodes.count, _stops(nodes, at, price), standing)
    return standing


def _words(nodes: Nodes, inner: Array) -> tuple[Array, Array]:
    """The words of some nodes alone, and where each node's now begin."""
    offset = np.full(nodes.size, -1, dtype=np.int64)
    holds = inner[nodes.offset[inner] >= 0]
    if not holds.size:
        return nodes.words[:0], offset
    # Words stand one node after the other, so a node's end where the next one's begin.
    begins = np.unique(nodes.offset[nodes.offset >= 0])
    ends = np.append(begins[1:], nodes.words.size)
    at = np.searchsorted(begins, nodes.offset[holds])
    sizes = (ends - begins)[at]
    offset[holds] = np.cumsum(sizes) - sizes
    pieces = [nodes.words[begins[k] : ends[k]] for k in at]
    return np.concatenate(pieces), offset
