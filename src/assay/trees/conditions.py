"""What the splits of a tree ask, as conditions on single columns, and the words for them.

On the way from the root to a node every column is confined to what the splits have let through:

    a number      lower < x <= upper           (an interval: splits on one column merge)
    a category    x in a set of levels         (an intersection)
    nothing       whether missing and unseen values have come this way

Numbers are written with the fewest digits that keep the thresholds of a column apart. Cost: O(nodes x depth).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from assay.errors import ParameterError
from assay.trees.nodes import UNSEEN, Nodes

__all__ = ["Condition", "Wording", "clean", "condition_of", "split_conditions", "walk"]

Array = np.ndarray
LISTED = 5
"""How many levels of a set are named before the rest is counted."""
LONGEST = 24
"""How many letters of a level are shown."""


@dataclass(frozen=True, eq=False)
class Condition:
    """What one column must be.

    | field        | meaning                                                                             |
    |--------------|-------------------------------------------------------------------------------------|
    | column       | its position                                                                        |
    | lower, upper | numbers (and codes of ordered levels): lower < x <= upper                           |
    | levels       | categories: one truth value per level, None for numbers                             |
    | missing      | whether missing and unseen values satisfy it                                        |
    """

    column: int
    lower: float = -np.inf
    upper: float = np.inf
    levels: Array | None = None
    missing: bool = True


def condition_of(column: int, levels: Sequence[Any], category: bool) -> Condition:
    """No restriction of a column yet."""
    return Condition(column, levels=np.ones(len(levels[column]), dtype=bool) if category else None)


def split_conditions(nodes: Nodes, t: int, inside: Condition) -> list[Condition]:
    """For each child of node t what its column must be, given what it is already `inside` the node."""
    takes = [inside.missing and int(nodes.missing[t]) == k for k in range(int(nodes.count[t]))]
    if nodes.offset[t] < 0:
        at = float(nodes.threshold[t])
        below = replace(inside, upper=min(inside.upper, at), missing=takes[0])
        return [below, replace(inside, lower=max(inside.lower, at), missing=takes[1])]
    assert inside.levels is not None
    codes = np.arange(inside.levels.size)
    begin = int(nodes.offset[t])
    if nodes.count[t] == 2:
        bits = nodes.words[begin + (codes >> 5)] >> (codes & 31).astype(np.uint32)
        child = 1 - (bits & np.uint32(1)).astype(np.int64)
    else:
        words = nodes.words[begin + codes]
        child = np.where(words == UNSEEN, nodes.missing[t], words.astype(np.int64))
    return [replace(inside, levels=inside.levels & (child == k), missing=takes[k]) for k in range(len(takes))]


class Step(NamedTuple):
    """A node on the walk: the condition of its branch, what that column was `inside` the parent, and all conditions."""

    node: int
    depth: int
    own: Condition | None
    inside: Condition | None
    region: dict[int, Condition]


def walk(
    nodes: Nodes, levels: Sequence[Any], max_depth: int | None = None, opened: Container[int] | None = None
) -> Iterator[Step]:
    """The nodes of one tree in reading order: a node, then its first child with all below it, then the next.

    Nodes at `max_depth`, and those that are not among the `opened` ones, are not entered.
    """
    stack = [Step(0, 0, None, None, {})]
    while stack:
        step = stack.pop()
        yield step
        t, depth, region = step.node, step.depth, step.region
        shut = (max_depth is not None and depth >= max_depth) or (opened is not None and t not in opened)
        if nodes.feature[t] < 0 or shut:
            continue
        j, first = int(nodes.feature[t]), int(nodes.first[t])
        inside = region.get(j) or condition_of(j, levels, bool(nodes.offset[t] >= 0))
        parts = split_conditions(nodes, t, inside)
        for k in range(len(parts) - 1, -1, -1):
            stack.append(Step(first + k, depth + 1, parts[k], inside, {**region, j: parts[k]}))


class Wording:
    """Names, levels and numbers of one tree as people read them.

    | parameter | meaning                                                                                             |
    |-----------|-----------------------------------------------------------------------------------------------------|
    | nodes     | one tree                                                                                            |
    | names     | the columns                                                                                         |
    | levels    | per column None (a number) or its levels in the order of their codes                                |
    | classes   | what the columns of `value` stand for; None: `value` is a number                                    |
    | decimals  | digits after the point; None: as few as keep the thresholds of a column, and the values, apart      |
    | missing   | where missing values go is said for: True all columns, False none, a mask those columns, None those |
    |           | in which the tree has learnt it (some node sends them to the smaller child)                         |
    | told      | the nodes that will be told of, whose numbers must stay apart; None: all                            |
    """

    def __init__(
        self,
        nodes: Nodes,
        names: Sequence[Any],
        levels: Sequence[Any],
        classes: Sequence[Any] | None = None,
        *,
        decimals: int | None = None,
        missing: bool | Sequence[bool] | None = None,
        told: Array | None = None,
    ) -> None:
        if nodes.trees != 1:
            what = f"nodes has {nodes.trees} trees"
            raise ParameterError(what, remedy="pass one of them, for instance nodes.tree(0)")
        if decimals is not None and (not isinstance(decimals, Integral) or decimals < 0):
            raise ParameterError(f"decimals is {decimals!r}", remedy="pass a whole number of at least 0, or None")
        most = int(nodes.feature.max(initial=-1))
        for what, given in (("names", names), ("levels", levels)):
            if len(given) <= most:
                remedy = "pass one entry for each column of the training data"
                raise ParameterError(f"{what} has {len(given)} entries, but the tree uses column {most}", remedy=remedy)
        self.nodes, self.levels = nodes, levels
        self.names = [clean(name) for name in names]
        self.classes = None if classes is None or nodes.value.shape[1] < 2 else [level_word(c) for c in classes]
        self.decimals = decimals
        self.gaps = _gaps(nodes, len(self.names), missing)
        part = np.arange(nodes.size) if told is None else told
        columns = np.unique(nodes.feature[part])
        self._numbers = {int(j): _digits(_thresholds(nodes, part, j), decimals) for j in columns if j >= 0}
        self._places = _places(nodes.value[part], decimals)

    # Conditions.

    def condition(self, condition: Condition, within: Condition | None = None) -> str:
        """The condition in words, empty where nothing is asked; what already holds `within` is not repeated."""
        name = self.names[condition.column]
        extra = condition.missing and self.gaps[condition.column]
        if self._is_empty(condition):
            return f"{name} missing"
        known = self.known(condition, within)
        if known:
            return f"{known} or missing" if extra else known
        return "" if condition.missing or not self.gaps[condition.column] else f"{name} known"

    def known(self, condition: Condition, within: Condition | None = None) -> str:
        """What is asked of values that are there, empty where all of them will do."""
        name = self.names[condition.column]
        if condition.levels is None:
            if within is not None:
                low = -np.inf if condition.lower == within.lower else condition.lower
                high = np.inf if condition.upper == within.upper else condition.upper
                condition = replace(condition, lower=low, upper=high)
            return self._interval(condition, name)
        pool = np.ones_like(condition.levels) if within is None or within.levels is None else within.levels
        if condition.levels[pool].all():
            return ""
        yes, no = (self.level_words(condition.column, part & pool) for part in (condition.levels, ~condition.levels))
        if len(yes) == 1:
            return f"{name} = {yes[0]}"
        if len(yes) > LISTED and len(no) < len(yes):
            return f"{name} not in {{{shortened(no)}}}"
        return f"{name} in {{{shortened(yes)}}}"

    def level_words(self, column: int, chosen: Array) -> list[str]:
        """The chosen levels of a column."""
        return [level_word(self.levels[column][k]) for k in np.flatnonzero(chosen)]

    def _is_empty(self, c: Condition) -> bool:
        return c.missing and (c.lower >= c.upper if c.levels is None else not c.levels.any())

    def _interval(self, c: Condition, name: str) -> str:
        if self.levels[c.column] is not None:
            return self._ordered(c, name)
        low, high = self.number(c.column, c.lower), self.number(c.column, c.upper)
        if np.isinf(c.lower):
            return "" if np.isinf(c.upper) else f"{name} <= {high}"
        return f"{name} > {low}" if np.isinf(c.upper) else f"{low} < {name} <= {high}"

    def _ordered(self, c: Condition, name: str) -> str:
        """An interval of ordered levels: codes low + 1 .. high."""
        words = self.levels[c.column]
        low = -1 if np.isinf(c.lower) else int(np.floor(c.lower))
        high = len(words) - 1 if np.isinf(c.upper) else int(np.floor(c.upper))
        if high - low == 1:
            return f"{name} = {level_word(words[high])}"
        if low < 0:
            return "" if high >= len(words) - 1 else f"{name} <= {level_word(words[high])}"
        if high >= len(words) - 1:
            return f"{name} > {level_word(words[low])}"
        return f"{level_word(words[low])} < {name} <= {level_word(words[high])}"

    # Numbers.

    def number(self, column: int, x: float) -> str:
        """A threshold of a column."""
        return _positional(x, *self._numbers[column]) if np.isfinite(x) else str(x)

    def value(self, t: int) -> str:
        """What a node predicts: a number, or the commonest class with its share."""
        if self.classes is None:
            return f"{self.nodes.value[t, 0] + 0.0:.{self._places}f}"
        best = int(np.argmax(self.nodes.value[t]))
        return f"{self.classes[best]} {percent(float(self.nodes.value[t, best]))}"

    def shares(self, t: int) -> str:
        """The share of every class, the largest first where there are many."""
        if self.classes is None:
            return ""
        row = self.nodes.value[t]
        order = np.arange(row.size) if row.size <= LISTED else np.argsort(-row, kind="stable")[:LISTED]
        told = ", ".join(f"{self.classes[k]} {percent(float(row[k]))}" for k in order)
        return f"({told}{', ...' if order.size < row.size else ''})"


def _gaps(nodes: Nodes, columns: int, missing: bool | Sequence[bool] | None) -> Array:
    """Columns for which it is said where missing values go."""
    if isinstance(missing, bool | np.bool_):
        return np.full(columns, bool(missing))
    if missing is not None:
        mask = np.asarray(missing)
        if mask.shape != (columns,) or mask.dtype != bool:
            raise ParameterError("missing is not a mask of the columns", remedy="pass one boolean per column")
        return mask
    inner = np.flatnonzero(nodes.count)
    heaviest = nodes.weight[nodes.first[inner]]
    for step in range(1, int(nodes.count.max(initial=0))):
        has = nodes.count[inner] > step
        heaviest[has] = np.maximum(heaviest[has], nodes.weight[nodes.first[inner[has]] + step])
    taken = nodes.weight[nodes.first[inner] + nodes.missing[inner]]
    # A node that saw no gaps sends them with the majority; sums of weights may differ by rounding.
    learnt = inner[(taken < (1 - 1e-9) * heaviest) | ~np.isfinite(nodes.threshold[inner])]
    found = np.zeros(columns, dtype=bool)
    found[nodes.feature[learnt]] = True
    return found


def _thresholds(nodes: Nodes, part: Array, column: int) -> Array:
    found = np.unique(nodes.threshold[part][(nodes.feature[part] == column) & (nodes.offset[part] < 0)])
    return found[np.isfinite(found)]


def _digits(values: Array, decimals: int | None) -> tuple[int, bool]:
    """The precision for numbers that must stay apart, and whether it counts digits after the point."""
    if decimals is not None:
        for places in range(int(decimals), 18):
            if len({f"{v:.{places}f}" for v in values}) == values.size:
                return places, True
        return 17, False
    # Middles of whole numbers are shown in full; others get five digits, or as many as tell them apart.
    shortest = [
        next((d for d in range(1, 18 if 2 * v == round(2 * v) else 6) if float(f"{v:.{d}g}") == v), 5)
        for v in values.tolist()
    ]
    for digits in range(max(shortest, default=1), 18):
        if len({_positional(v, digits, False) for v in values.tolist()}) == values.size:
            return digits, False
    return 17, False


def _positional(x: float, digits: int, after_point: bool) -> str:
    """A number without an exponent where it has a usual size."""
    if after_point:
        return f"{x + 0.0:.{digits}f}"
    size = abs(x)
    if size != 0.0 and not 1e-4 <= size < 1e9:
        return f"{x:.{digits}g}"
    whole = int(np.floor(np.log10(size))) + 1 if size >= 1.0 else 0
    text = np.format_float_positional(x, precision=max(digits, whole), fractional=False, trim="-")
    return "0" if text == "-0" else text


def _places(values: Array, decimals: int | None) -> int:
    """Digits after the point for predicted values: three figures of their spread."""
    if decimals is not None:
        return int(decimals)
    spread = float(np.ptp(values[:, 0])) if values.size else 0.0
    size = spread if spread > 0 else float(np.abs(values[:1, 0]).max(initial=0.0))
    return int(np.clip(2 - np.floor(np.log10(size)), 0, 12)) if size > 0 else 0


def percent(share: float) -> str:
    """A share in whole percent, never rounded to certainty.

    >>> percent(0.734), percent(0.999), percent(1.0), percent(0.001)
    ('73%', '>99%', '100%', '<1%')
    """
    shown = f"{100 * share:.0f}%"
    if shown == "100%" and share < 1.0 - 1e-12:
        return ">99%"
    return "<1%" if shown == "0%" and share > 0.0 else shown


def level_word(level: Any) -> str:
    """One category or class as a word; quoted where it could be mistaken, cut where it is long.

    >>> level_word("Bad"), level_word(2.0), level_word("a, b"), level_word("")
    ('Bad', '2', "'a, b'", "''")
    """
    if isinstance(level, Real) and not isinstance(level, bool | np.bool_):
        return str(int(level)) if isinstance(level, Integral) else f"{float(level):.10g}"
    raw = clean(level)
    word = raw if len(raw) <= LONGEST else f"{raw[: LONGEST - 3]}..."
    return f"'{word}'" if not raw or raw != raw.strip() or set(raw) & set(",{}'") else word


def clean(name: Any) -> str:
    """A name on one line, without control characters."""
    return "".join(c if c.isprintable() else " " for c in str(name))


def shortened(words: Sequence[str]) -> str:
    """A list of words, the end of a long one only counted.

    >>> shortened(["Bad", "Medium"]), shortened(list("ABCDEFG"))
    ('Bad, Medium', 'A, B, C, D, ... 3 more')
    """
    if len(words) <= LISTED:
        return ", ".join(words)
    return f"{', '.join(words[: LISTED - 1])}, ... {len(words) - LISTED + 1} more"
