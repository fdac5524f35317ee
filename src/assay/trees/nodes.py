"""How a tree is kept: one row of plain arrays per node, the same for one tree and for a thousand.

Node t tests column feature[t] and sends a row to one of count[t] children, which stand side by side from first[t] on:

    a number      x <= threshold[t] -> first[t], x > threshold[t] -> first[t] + 1               (offset[t] = -1)
    a category    two children: bit `code` of the words from offset[t] on is set -> first[t], else first[t] + 1
                  more than two: words[offset[t] + code] is the number of the child             (multiway)
    nothing       missing values, and categories the node has never seen: child number missing[t]

A leaf has feature -1 and no children. Indices are absolute within the arrays, children always stand after their
parent, and `starts` marks where each tree of an ensemble begins: starts[k] is the root of tree k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from assay.state import Specs, Stateful, array, floats, ints, need

__all__ = ["LEAF", "UNSEEN", "Nodes", "concatenate", "word_count"]

Array = np.ndarray
LEAF = -1
UNSEEN = np.uint32(0xFFFFFFFF)
"""The word of a multiway node for a category that was not there in training."""


@dataclass(frozen=True, eq=False)
class Nodes(Stateful):
    """The nodes of one tree or several, with what training saw in each.

    | field     | shape, type     | meaning                                                                        |
    |-----------|-----------------|--------------------------------------------------------------------------------|
    | starts    | trees + 1, int64 | first node of each tree, and the number of all nodes                          |
    | feature   | nodes, int32    | the column tested, -1 in a leaf                                                |
    | threshold | nodes, float64  | numbers up to it go to the first child (0 where no number is tested, infinity  |
    |           |                 | where every number does, missing values being the second child)                |
    | first     | nodes, int32    | the first child (0 in a leaf)                                                  |
    | count     | nodes, int32    | how many children: 0, 2, or more for a multiway node                           |
    | missing   | nodes, int32    | the child, counted from 0, that takes missing and unseen values                |
    | offset    | nodes, int64    | where the node's words begin, -1 if it tests a number                          |
    | words     | any, uint32     | for two children a bit per category, set: first child; else a child per category |
    | value     | nodes x K, float64 | mean, class shares, or step of a boosted score                              |
    | rows      | nodes, int64    | training rows with positive weight                                             |
    | weight    | nodes, float64  | their total weight                                                             |
    | impurity  | nodes, float64  | loss per unit of weight of predicting `value` (0.0 in boosted trees)           |
    | gain      | nodes, float64  | total weighted loss saved by the split (0 in a leaf)                           |
    """

    starts: Array
    feature: Array
    threshold: Array
    first: Array
    count: Array
    missing: Array
    offset: Array
    words: Array
    value: Array
    rows: Array
    weight: Array
    impurity: Array
    gain: Array

    state: ClassVar[Specs] = {
        "starts": ints("trees+1", rising=True),
        "feature": array(np.int32, "n", low=LEAF),
        "threshold": floats("n", finite=False),
        "first": array(np.int32, "n", low=0),
        "count": array(np.int32, "n", low=0),
        "missing": array(np.int32, "n", low=0),
        "offset": ints("n", low=-1),
        "words": array(np.uint32, None),
        "value": floats("n", "k"),
        "rows": ints("n"),
        **dict.fromkeys(("weight", "impurity", "gain"), floats("n", finite=False)),
    }

    def _check_state(self) -> None:
        """Every child behind its parent and inside its tree."""
        need(not np.isnan(self.threshold).any(), "a threshold is not a number")
        inner = np.flatnonzero(self.feature >= 0)
        first, count = self.first[inner].astype(np.int64), self.count[inner]
        need(self.starts.size > 1 and self.starts[0] == 0 and self.starts[-1] == self.size)
        need((np.diff(self.starts) > 0).all() and (count >= 2).all() and self.value.shape[1] > 0)
        ends = self.starts[1:][np.searchsorted(self.starts, inner, side="right") - 1]
        need((first > inner).all() and (first + count <= ends).all() and (self.missing[inner] < count).all())
        need((self.count[self.feature < 0] == 0).all() and (count[self.offset[inner] < 0] == 2).all())

    def check_columns(self, levels: Sequence[Array | None]) -> None:
        """Raise `StateError` where a node tests a column or a level that is not there."""
        most = np.array([0 if known is None else len(known) for known in levels], dtype=np.int64)
        need((self.feature < most.size).all(), "a node uses a column that does not exist")
        coded = np.flatnonzero((self.feature >= 0) & (self.offset >= 0))
        known, count = most[self.feature[coded]], self.count[coded]
        room = np.where(count == 2, (known + 31) // 32, known)
        need(
            (known > 0).all() and (self.offset[coded] + room <= self.words.size).all(),
            "a node's categories are truncated",
        )
        for node in coded[count > 2]:
            words = self.words[self.offset[node] :][: most[self.feature[node]]]
            need(((words < self.count[node]) | (words == UNSEEN)).all(), "a category has no child")

    @property
    def trees(self) -> int:
        """How many trees there are."""
        return self.starts.size - 1

    @property
    def size(self) -> int:
        """How many nodes there are, leaves included."""
        return self.feature.size

    @property
    def leaves(self) -> int:
        """How many leaves there are in all."""
        return int(np.count_nonzero(self.feature == LEAF))

    def parent(self) -> Array:
        """Each node's parent, -1 for a root."""
        up = np.full(self.size, -1, dtype=np.int64)
        inner = np.flatnonzero(self.count)
        for step in range(int(self.count.max(initial=0))):
            has = inner[self.count[inner] > step]
            up[self.first[has] + step] = has
        return up

    def depth(self) -> Array:
        """Each node's distance from its root."""
        up, depth = self.parent(), np.zeros(self.size, dtype=np.int64)
        level = np.flatnonzero(up == -1)
        below = 0
        while level.size:
            depth[level] = below
            below += 1
            inner = level[self.count[level] > 0]
            level = np.concatenate([self.first[inner], *_later(self, inner)]) if inner.size else inner
        return depth

    def tree(self, k: int) -> Nodes:
        """Tree k on its own, its nodes counted from zero."""
        low, high = int(self.starts[k]), int(self.starts[k + 1])
        cut: dict[str, Any] = {f.name: getattr(self, f.name)[low:high] for f in fields(self) if f.name not in _WHOLE}
        inner = cut["count"] > 0
        cut["first"] = np.where(inner, cut["first"] - low, 0).astype(np.int32)
        cut["starts"], cut["words"] = np.array([0, high - low]), self.words
        return Nodes(**cut)


_WHOLE = ("starts", "words")


def _later(nodes: Nodes, inner: Array) -> list[Array]:
    """The children after the first, level by level of their number."""
    most = int(nodes.count[inner].max())
    return [nodes.first[inner[nodes.count[inner] > step]] + step for step in range(1, most)]


def concatenate(parts: Sequence[Nodes]) -> Nodes:
    """All trees of several parts, in their order."""
    nodes = np.cumsum([0, *(part.size for part in parts)])
    words = np.cumsum([0, *(part.words.size for part in parts)])
    joined: dict[str, Any] = {}
    for f in fields(Nodes):
        columns = [getattr(part, f.name) for part in parts]
        if f.name == "starts":
            columns = [c[:-1] + shift for c, shift in zip(columns, nodes, strict=False)] + [nodes[-1:]]
        elif f.name == "first":
            columns = [
                np.where(part.count > 0, c + shift, 0).astype(np.int32)
                for part, c, shift in zip(parts, columns, nodes, strict=False)
            ]
        elif f.name == "offset":
            columns = [np.where(c >= 0, c + shift, -1) for c, shift in zip(columns, words, strict=False)]
        joined[f.name] = np.concatenate(columns)
    return Nodes(**joined)


def word_count(levels: int) -> int:
    """How many words hold one bit for each of so many categories."""
    return (levels + 31) // 32
