"""What a picture of a tree shows, and how large it is, before anything is drawn.

A tree with more leaves than can be read is opened from the root on where its splits save most loss; the other
branches stay closed. Every text is measured, every box is as large as its texts, and the boxes are laid out by
`_tree_layout` both ways, hanging down and growing to the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties

from assay.report._tree_layout import across, along
from assay.trees.conditions import Condition, Wording, walk
from assay.trees.nodes import Nodes
from assay.trees.rules import leaves_below

__all__ = [
    "Line",
    "Piece",
    "TreeBoxes",
    "boxes",
    "line_height",
    "measured",
    "opened_nodes",
    "place",
    "plain",
    "short_names",
]

Array = np.ndarray
BIG, SMALL, TINY = 9.0, 8.0, 7.5
"""Sizes of type, in points: what a node asks or predicts, what else it says, labels of edges."""
PAD, GAP, CHANNEL = 6.0, 10.0, 22.0
"""Points inside a box, between boxes, and for an edge between two depths."""
BAR = 4.0
"""How high the bar of class shares is."""
NAME, LABEL = 22, 24
"""How many letters of a column, and of an edge's label, are shown."""
LONGEST = 200.0
"""Points by which the branch that saves most is longer than one that saves nothing."""


@dataclass(frozen=True)
class Line:
    """One line of a box."""

    text: str
    size: float
    bold: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Piece:
    """One box of the picture: its node, its place among the others, and what stands in it and on its edge."""

    node: int
    parent: int
    depth: int
    closed: bool
    lines: tuple[Line, ...]
    label: str


@dataclass(frozen=True)
class TreeBoxes:
    """All boxes with their places, in points from the upper left corner; `bend` is where the edge to a box turns."""

    pieces: list[Piece]
    x: Array
    y: Array
    width: Array
    height: Array
    bend: Array
    size: tuple[float, float]
    hangs: bool

    @property
    def ends(self) -> int:
        """How many boxes have nothing behind them."""
        return len(self.pieces) - len({piece.parent for piece in self.pieces if piece.parent >= 0})


def opened_nodes(nodes: Nodes, max_depth: int | None, max_leaves: int) -> set[int]:
    """The nodes whose children are drawn: those that save most, from the root on."""
    opened: set[int] = set()
    ends, heap = 1, [(0.0, 0, 0)]
    while heap:
        _, t, depth = heappop(heap)
        more = int(nodes.count[t]) - 1
        too_deep = max_depth is not None and depth >= max_depth
        # A multiway root is opened however many ways it has.
        too_many = ends + more > max_leaves and not (t == 0 and max_leaves > 1)
        if more < 1 or too_deep or too_many:
            continue
        opened.add(t)
        ends += more
        for child in range(int(nodes.first[t]), int(nodes.first[t]) + more + 1):
            heappush(heap, (-float(nodes.gain[child]), child, depth + 1))
    return opened


def boxes(wording: Wording, opened: set[int]) -> list[Piece]:
    """Boxes in reading order."""
    nodes, below, pieces = wording.nodes, leaves_below(wording.nodes), list[Piece]()
    up, found = nodes.parent(), dict[int, int]()
    for t, depth, own, inside, region in walk(nodes, wording.levels, opened=opened):
        found[t] = len(pieces)
        label = "" if own is None or inside is None else _edge_words(wording, own, inside, int(up[t]), t)
        pieces.append(
            Piece(
                node=t,
                parent=found.get(int(up[t]), -1),
                depth=depth,
                closed=bool(nodes.count[t]) and t not in opened,
                lines=_lines(wording, t, opened, region, int(below[t])),
                label=plain(label),
            )
        )
    return pieces


def _lines(wording: Wording, t: int, opened: set[int], region: dict[int, Condition], below: int) -> tuple[Line, ...]:
    nodes, value, rows = wording.nodes, plain(wording.value(t)), f"n = {wording.nodes.rows[t]}"
    if t in opened:
        return Line(plain(_question(wording, t)), BIG, bold=True), Line(f"{value}    {rows}", SMALL)
    lines = [Line(value, BIG, bold=True), Line(rows, SMALL)]
    if nodes.count[t]:
        lines.append(Line(f"… {below} leaves below", TINY, faint=True))
    return tuple(lines)


def _question(wording: Wording, t: int) -> str:
    """What an opened node asks: a column and a number, or a column whose answers stand on the edges."""
    nodes, j = wording.nodes, int(wording.nodes.feature[t])
    at = float(nodes.threshold[t])
    if nodes.offset[t] >= 0 or not np.isfinite(at):
        return wording.names[j]
    return wording.known(Condition(j, upper=at)).replace(" <= ", " ≤ ") or wording.names[j]


def _edge_words(wording: Wording, own: Condition, inside: Condition, parent: int, t: int) -> str:
    nodes, j = wording.nodes, own.column
    last = " or missing" if own.missing and wording.gaps[j] else ""
    if own.levels is None:
        if not np.isfinite(nodes.threshold[parent]):
            return "missing" if t > nodes.first[parent] else "known"
        return ("no" if t > nodes.first[parent] else "yes") + last
    assert inside.levels is not None
    words = wording.level_words(j, own.levels)
    if not words:
        return "missing" if own.missing else "none"
    if not (inside.levels & ~own.levels).any():
        return "known" + last
    rest = wording.level_words(j, inside.levels & ~own.levels)
    if nodes.count[parent] == 2 and len(words) > len(rest) and len(", ".join(words)) > LABEL:
        return f"the other {len(words)}{last}"
    return _listed(words) + last


def _listed(words: Sequence[str]) -> str:
    """As many words as fit on an edge, and the number of the others."""
    shown = 1
    while shown < len(words) and len(", ".join(words[: shown + 1])) <= LABEL:
        shown += 1
    return ", ".join(words[:shown]) + (f", {len(words) - shown} more" if shown < len(words) else "")


def short_names(names: Sequence[str]) -> list[str]:
    """Long names lose their middle, as little as keeps them apart."""
    for most in range(NAME, 4 * NAME):
        cut = [n if len(n) <= most else f"{n[: most - most // 3 - 1]}…{n[len(n) - most // 3 :]}" for n in names]
        if len(set(cut)) == len(set(names)):
            break
    return cut


@lru_cache(maxsize=4)
def _fonts(families: tuple[str, ...]) -> tuple[Any, ...]:
    found = (font_manager.findfont(FontProperties(family=[family])) for family in families)
    return tuple(font_manager.get_font(path) for path in found)


def plain(text: str) -> str:
    """Letters that no font has become boxes here, instead of warnings later."""
    fonts = _fonts(tuple(FontProperties().get_family()))
    return "".join(c if any(font.get_char_index(ord(c)) for font in fonts) else "□" for c in text)


@lru_cache(maxsize=4096)
def measured(text: str, size: float, bold: bool) -> float:
    """The width of a text in points, with a little for the differences between devices."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    width = RendererAgg(1, 1, 72).get_text_width_height_descent(text, font, False)[0]
    return 1.04 * width + 1.0


def line_height(size: float) -> float:
    return 1.35 * size


def place(wording: Wording, pieces: list[Piece], branch: str, hangs: bool) -> TreeBoxes:
    """Sizes from the texts, places from the sizes."""
    bar = BAR + 3 if wording.classes is not None else 0.0
    width = np.array([max(measured(line.text, line.size, line.bold) for line in p.lines) for p in pieces]) + 2 * PAD
    height = np.array([sum(line_height(line.size) for line in p.lines) for p in pieces]) + 1.4 * PAD + bar
    width = np.maximum(width, 44.0)
    label = np.array([measured(p.label, TINY, False) + 4 if p.label else 0.0 for p in pieces])
    children: list[list[int]] = [[] for _ in pieces]
    for v, piece in enumerate(pieces):
        if piece.parent >= 0:
            children[piece.parent].append(v)
    depth, parent = np.array([p.depth for p in pieces]), [p.parent for p in pieces]
    length = None
    if branch == "loss":
        gain = np.array([wording.nodes.gain[p.node] for p in pieces])
        length = np.array([LONGEST * gain[p] / max(gain[0], gain.max(), 1e-300) if p >= 0 else 0.0 for p in parent])
    solid = length is not None
    if hangs:
        x = across(children, np.maximum(width, label), GAP, solid=solid) - width / 2
        y, ends = along(parent, depth, height, np.where(label > 0, CHANNEL + line_height(TINY), CHANNEL), length)
        size = (float(max((x + width).max(), (x + width / 2 + label / 2).max())), float(ends.max()))
    else:
        y = across(children, np.maximum(height, line_height(TINY) + 4), GAP, solid=solid) - height / 2
        x, ends = along(parent, depth, width, CHANNEL + label, length)
        size = (float(ends.max()), float((y + height).max()))
    return TreeBoxes(pieces, x, y, width, height, ends[parent] + CHANNEL / 2, size, hangs)
