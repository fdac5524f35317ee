"""A tree in words: indented conditions from the root down, and one rule for each leaf.

Columns and categories bear their own names. The conditions of a rule on one column are merged into one interval or
one set, so a rule names a column once. The rules of a tree partition the space: every row, whatever is missing in it,
satisfies exactly one of them, and the rule's value is what the tree predicts for it.

Cost: O(nodes x depth).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import ParameterError
from assay.numbers import fmt
from assay.results import Result
from assay.trees.conditions import Condition, Wording, walk
from assay.trees.nodes import Nodes

__all__ = ["Rule", "Rules", "export_text", "leaves_below", "rules"]

SHOWN = ("value", "shares", "rows", "weight", "loss", "gain")


def export_text(
    nodes: Nodes,
    names: Sequence[Any],
    levels: Sequence[Any],
    classes: Sequence[Any] | None = None,
    *,
    max_depth: int | None = None,
    decimals: int | None = None,
    show: Sequence[str] = ("value", "rows"),
    missing: bool | Sequence[bool] | None = None,
) -> str:
    """One tree as indented text, a line for each node: the condition of its branch, and what training saw there.

    | parameter | default           | range          | meaning                                                      |
    |-----------|-------------------|----------------|--------------------------------------------------------------|
    | nodes     |                   | one tree       | of an ensemble: `nodes.tree(k)`                              |
    | names     |                   | one per column | what the columns are called                                  |
    | levels    |                   | one per column | None for a number, else the levels in the order of codes     |
    | classes   | None              | one per class  | what the columns of `value` stand for; None: a number        |
    | max_depth | None              | from 0 on      | deeper nodes are only counted                                |
    | decimals  | None              | from 0 on      | digits after the point; None: as few as keep numbers apart   |
    | show      | ("value", "rows") | words          | of value, shares, rows, weight, loss, gain: what is told     |
    | missing   | None              | bool, mask     | columns for which it is told where missing values go; None:  |
    |           |                   |                | those in which the tree has learnt it                        |

    "loss" is the mean loss per unit of weight (squared error, Gini, ...), "gain" the total loss that the split saves.

    >>> from assay.trees.nodes import Nodes
    >>> stump = Nodes(
    ...     starts=np.array([0, 3]), feature=np.array([0, -1, -1]), threshold=np.array([4.5, 0, 0]),
    ...     first=np.array([1, 0, 0]), count=np.array([2, 0, 0]), missing=np.array([1, 0, 0]),
    ...     offset=np.array([-1, -1, -1]), words=np.empty(0, np.uint32), value=np.array([[5.93], [5.11], [6.35]]),
    ...     rows=np.array([263, 90, 173]), weight=np.array([263.0, 90, 173]),
    ...     impurity=np.array([0.8, 0.3, 0.4]), gain=np.array([90.0, 0, 0]))
    >>> print(export_text(stump, names=["Years"], levels=[None]))
    all rows: 5.93, n = 263
    |- Years <= 4.5: 5.11, n = 90
    `- Years > 4.5: 6.35, n = 173
    """
    asked = _shown(show)
    if max_depth is not None and (isinstance(max_depth, bool) or not isinstance(max_depth, Integral) or max_depth < 0):
        raise ParameterError(f"max_depth is {max_depth!r}", remedy="pass a whole number of at least 0, or None")
    told = None if max_depth is None else np.flatnonzero(nodes.depth() <= max_depth)
    wording = Wording(nodes, names, levels, classes, decimals=decimals, missing=missing, told=told)
    below, up = leaves_below(nodes), nodes.parent()
    lines: list[str] = []
    rails: list[str] = []  # what stands to the left, one piece for each depth
    for t, depth, own, inside, _ in walk(nodes, levels, max_depth):
        head = "all rows" if own is None else wording.condition(own, inside) or "otherwise"
        words = ", ".join(part for part in (_told(wording, t, item) for item in asked) if part)
        line = f"{head}: {words}" if words else head
        if nodes.count[t] and depth == max_depth:
            line += f" ... {below[t]} leaves below"
        last = depth > 0 and t == nodes.first[up[t]] + nodes.count[up[t]] - 1
        del rails[max(0, depth - 1) :]
        lines.append("".join(rails) + ("" if depth == 0 else "`- " if last else "|- ") + line)
        if depth:
            rails.append("   " if last else "|  ")
    return "\n".join(lines)


def _shown(show: Sequence[str]) -> tuple[str, ...]:
    asked = (show,) if isinstance(show, str) else tuple(show)
    for item in asked:
        if item not in SHOWN:
            raise ParameterError(f"unknown item {item!r} in show", remedy=f"choose from {', '.join(SHOWN)}")
    return asked


def _told(wording: Wording, t: int, item: str) -> str:
    nodes = wording.nodes
    if item == "value":
        return wording.value(t)
    if item == "shares":
        return wording.shares(t)
    if item == "rows":
        return f"n = {nodes.rows[t]}"
    if item == "gain":
        return f"saves {fmt(nodes.gain[t])}" if nodes.count[t] else ""
    return f"{item} {(nodes.weight if item == 'weight' else nodes.impurity)[t]:.4g}"


def leaves_below(nodes: Nodes) -> np.ndarray:
    """For each node of one tree how many leaves hang below it, itself where it is one."""
    total = (nodes.count == 0).astype(np.int64)
    up, depth = nodes.parent(), nodes.depth()
    order = np.argsort(-depth, kind="stable")
    ends = np.cumsum(np.bincount(depth)[::-1])[:-1]
    for level in np.split(order, ends)[:-1]:
        np.add.at(total, up[level], total[level])
    return total


@dataclass(frozen=True, eq=False)
class Rule:
    """One leaf as a rule.

    | field      | meaning                                                                                  |
    |------------|------------------------------------------------------------------------------------------|
    | premise    | the conditions in words, empty where the tree is one leaf                                |
    | conclusion | the predicted number, or the class with its share, in words                              |
    | value      | the predicted number or class                                                            |
    | share      | the class's share of the leaf, None for a number                                         |
    | rows       | training rows in the leaf (its support)                                                  |
    | weight     | their total weight                                                                       |
    | loss       | mean loss per unit of weight                                                             |
    | leaf       | the number of the node                                                                   |
    | conditions | the same conditions as intervals and sets, one for each column that is asked about       |
    """

    premise: str
    conclusion: str
    value: Any
    share: float | None
    rows: int
    weight: float
    loss: float
    leaf: int
    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        head = f"if {self.premise} then" if self.premise else "always"
        return f"{head} {self.conclusion} (n = {self.rows})"

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class Rules(Result):
    """The leaves of one tree as rules, in the order of their paths; a sequence of `Rule`."""

    rules: tuple[Rule, ...]

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, k: int) -> Rule:
        return self.rules[k]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __str__(self) -> str:
        return "\n".join(str(rule) for rule in self.rules)

    def to_frame(self) -> pd.DataFrame:
        """One row per rule: rule, value, share (of a class), rows, weight, loss; its leaf is the index."""
        columns = ["value", "share", "rows", "weight", "loss"]
        columns = [c for c in columns if c != "share" or self.rules[0].share is not None]
        table: dict[str, Any] = {"rule": [rule.premise or "always" for rule in self.rules]}
        table |= {name: [getattr(rule, name) for rule in self.rules] for name in columns}
        return pd.DataFrame(table, index=pd.Index([rule.leaf for rule in self.rules], name="leaf"))


def rules(
    nodes: Nodes,
    names: Sequence[Any],
    levels: Sequence[Any],
    classes: Sequence[Any] | None = None,
    *,
    decimals: int | None = None,
    missing: bool | Sequence[bool] | None = None,
) -> Rules:
    """One rule for each leaf of one tree: "if Years <= 4.5 and Hits > 117.5 then 6.74 (n = 90)".

    | parameter | default | range          | meaning                                                               |
    |-----------|---------|----------------|-----------------------------------------------------------------------|
    | nodes     |         | one tree       | of an ensemble: `nodes.tree(k)`                                       |
    | names     |         | one per column | what the columns are called                                           |
    | levels    |         | one per column | None for a number, else the levels in the order of their codes        |
    | classes   | None    | one per class  | what the columns of `value` stand for; None: a number                 |
    | decimals  | None    | from 0 on      | digits after the point; None: as few as keep numbers apart            |
    | missing   | None    | bool, mask     | columns for which "or missing" is told; None: those in which the tree |
    |           |         |                | has learnt where missing values go                                    |

    >>> from assay.trees.nodes import Nodes
    >>> stump = Nodes(
    ...     starts=np.array([0, 3]), feature=np.array([0, -1, -1]), threshold=np.array([4.5, 0, 0]),
    ...     first=np.array([1, 0, 0]), count=np.array([2, 0, 0]), missing=np.array([1, 0, 0]),
    ...     offset=np.array([-1, -1, -1]), words=np.empty(0, np.uint32), value=np.array([[5.93], [5.11], [6.35]]),
    ...     rows=np.array([263, 90, 173]), weight=np.array([263.0, 90, 173]),
    ...     impurity=np.array([0.8, 0.3, 0.4]), gain=np.array([90.0, 0, 0]))
    >>> print(rules(stump, names=["Years"], levels=[None]))
    if Years <= 4.5 then 5.11 (n = 90)
    if Years > 4.5 then 6.35 (n = 173)
    """
    wording = Wording(nodes, names, levels, classes, decimals=decimals, missing=missing)
    found = []
    for step in walk(nodes, levels):
        t = step.node
        if nodes.count[t]:
            continue
        parts = [text for text in map(wording.condition, step.region.values()) if text]
        if len(parts) > 1:
            parts = [f"({text})" if text.endswith(" or missing") else text for text in parts]
        value, share = _prediction(nodes, t, classes)
        found.append(
            Rule(
                premise=" and ".join(parts),
                conclusion=wording.value(t),
                value=value,
                share=share,
                rows=int(nodes.rows[t]),
                weight=float(nodes.weight[t]),
                loss=float(nodes.impurity[t]),
                leaf=t,
                conditions=tuple(step.region.values()),
            )
        )
    return Rules(tuple(found))


def _prediction(nodes: Nodes, t: int, classes: Sequence[Any] | None) -> tuple[Any, float | None]:
    if classes is None or nodes.value.shape[1] < 2:
        return float(nodes.value[t, 0]), None
    best = int(np.argmax(nodes.value[t]))
    label = classes[best]
    return label.item() if isinstance(label, np.generic) else label, float(nodes.value[t, best])
