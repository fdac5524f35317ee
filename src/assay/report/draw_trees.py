"""A clear picture of a tree: what each node asks, what it predicts, how many rows it holds.

Boxes are measured before they are placed, so no two texts meet, and the figure grows with the tree. Fill says what a
node predicts: the depth of one hue for a number, the hue of the commonest class paled by how mixed the node is (its
bar shows all shares). Edges are as wide as the share of rows that takes them. A tree with more leaves than can be
read is opened where its splits save most loss; the other branches are closed and say what is below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch, Rectangle

from assay.errors import ParameterError
from assay.report._tree_plan import (
    BAR,
    PAD,
    SMALL,
    TINY,
    TreeBoxes,
    boxes,
    line_height,
    measured,
    opened_nodes,
    place,
    plain,
    short_names,
)
from assay.report.picture import ACCENT, INK, STYLE, WARM
from assay.trees.conditions import Wording
from assay.trees.nodes import Nodes

__all__ = ["draw_tree"]

Array = np.ndarray
LEGIBLE = 5.5
"""In axes that are too small, branches are closed before type gets smaller than this."""
SCREEN = (16.0, 10.0)
"""The tree hangs down or grows to the right, whichever fills this shape better."""
PALETTE = (ACCENT, WARM, "#3a9d6e", "#e0a030", "#7d5ba6", "#4bb3c4", "#a0603d", "#d183b4", "#7f7f7f", "#9aa832")
WIDEST = 250.0
"""Inches; beyond it no canvas can be made."""


def draw_tree(
    tree: Any,
    ax: Axes | None = None,
    *,
    index: int | None = None,
    names: Sequence[Any] | None = None,
    levels: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    max_depth: int | None = None,
    max_leaves: int = 30,
    decimals: int | None = None,
    missing: bool | Sequence[bool] | None = None,
    branch: str = "even",
    grow: str = "auto",
) -> Axes:
    """Draw one tree and return the axes.

    | parameter  | default | range             | meaning                                                             |
    |------------|---------|-------------------|---------------------------------------------------------------------|
    | tree       |         | fitted, or nodes  | an estimator with `nodes_`, or `Nodes` themselves                   |
    | ax         | None    | axes              | where to draw; None: a figure as large as the tree needs            |
    | index      | None    | from 0 on         | which tree of an ensemble                                           |
    | names      | None    | one per column    | what the columns are called; None: the estimator knows              |
    | levels     | None    | one per column    | None for a number, else its levels; None: the estimator knows       |
    | classes    | None    | one per class     | what is predicted; None: the estimator knows, or a number           |
    | max_depth  | None    | from 0 on         | deeper branches are closed                                          |
    | max_leaves | 30      | from 1 on         | branches that save least are closed until so many ends are left     |
    | decimals   | None    | from 0 on         | digits after the point; None: as few as keep numbers apart          |
    | missing    | None    | bool, mask        | columns for which edges say where missing values go; None: those in |
    |            |         |                   | which the tree has learnt it                                        |
    | branch     | "even"  | "even", "loss"    | "loss": branches are as long as the loss that the split saves       |
    | grow       | "auto"  | "auto", "down",   | which way; "auto": the one that fits a screen better                |
    |            |         | "right"           |                                                                     |

    >>> from assay.trees.cart import DecisionTreeRegressor
    >>> tree = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 0.0, 1.0, 2.0])
    >>> axes = draw_tree(tree)
    >>> axes.get_title(loc="left"), axes.texts[2].get_text()
    ('Regression tree: 2 leaves, 4 rows', 'x0 ≤ 1.5')
    >>> plt.close(axes.figure)
    """
    nodes, names, levels, classes = _parts(tree, index, names, levels, classes)
    _check(max_depth, max_leaves, branch, grow)
    told = _with_children(nodes, opened_nodes(nodes, max_depth, int(max_leaves)))
    wording = Wording(nodes, names, levels, classes, decimals=decimals, missing=missing, told=told)
    wording.names = short_names(wording.names)
    directions = {"auto": ("down", "right")}.get(grow, (grow,))
    room = SCREEN if ax is None else _room(ax)

    def planned(leaves: int) -> TreeBoxes:
        pieces = boxes(wording, opened_nodes(nodes, max_depth, leaves))
        plans = [place(wording, pieces, branch, direction == "down") for direction in directions]
        return min(plans, key=lambda plan: max(plan.size[0] / room[0], plan.size[1] / room[1]))

    plan = planned(int(max_leaves))
    with plt.rc_context(STYLE):
        if ax is None:
            axes, scale = _new_axes(plan, wording)
        else:
            axes, leaves = ax, int(max_leaves)
            while (scale := _fit(plan, room, wording)) * TINY < LEGIBLE and leaves > 2:
                leaves = max(2, min(leaves, plan.ends) - 1)
                plan = planned(leaves)
            _limits(axes, plan, room, scale, wording)
        _paint(axes, plan, wording, scale)
        axes.set_title(_title(wording, plan))
    return axes


# What is drawn.


def _parts(
    tree: Any, index: int | None, names: Any, levels: Any, classes: Any
) -> tuple[Nodes, Sequence[Any], Sequence[Any], Any]:
    """Nodes of one tree, and the words for its columns and classes."""
    nodes = tree if isinstance(tree, Nodes) else getattr(tree, "nodes_", None)
    if not isinstance(nodes, Nodes):
        message = f"a {type(tree).__name__} has no nodes to draw"
        raise ParameterError(message, remedy="pass a fitted tree of assay.trees")
    if tree is not nodes:
        names = tree._feature_names() if names is None else names
        levels = getattr(tree, "_level_words", lambda: tree.levels_)() if levels is None else levels
        classes = getattr(tree, "classes_", None) if classes is None else classes
    columns = int(nodes.feature.max(initial=-1)) + 1
    names = [f"x{j}" for j in range(columns)] if names is None else names
    if levels is None and (nodes.offset >= 0).any():
        raise ParameterError("the tree tests categories, but levels is None", remedy="pass the levels per column")
    levels = [None] * columns if levels is None else levels
    if index is not None:
        if isinstance(index, bool) or not isinstance(index, Integral) or not 0 <= int(index) < nodes.trees:
            message = f"index is {index!r}, but there are {nodes.trees} trees"
            raise ParameterError(message, remedy=f"pass a whole number from 0 to {nodes.trees - 1}")
        nodes = nodes.tree(int(index))
    elif nodes.trees != 1:
        raise ParameterError(f"there are {nodes.trees} trees", remedy="choose one with index=0, 1, ...")
    return nodes, names, levels, classes


def _with_children(nodes: Nodes, opened: set[int]) -> Array:
    """All nodes of the picture: the root and the children of every opened node."""
    below = [int(nodes.first[t]) + k for t in opened for k in range(int(nodes.count[t]))]
    return np.array(sorted({0, *below}), dtype=np.int64)


def _check(max_depth: Any, max_leaves: Any, branch: str, grow: str) -> None:
    for name, value, low in (("max_depth", max_depth, 0), ("max_leaves", max_leaves, 1)):
        whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= low
        if not whole and not (name == "max_depth" and value is None):
            raise ParameterError(f"{name} is {value!r}", remedy=f"pass a whole number of at least {low}")
    for name, word, known in (("branch", branch, ("even", "loss")), ("grow", grow, ("auto", "down", "right"))):
        if word not in known:
            raise ParameterError(f"{name} is {word!r}", remedy=f"choose from {', '.join(map(repr, known))}")


# The canvas.


def _legend(wording: Wording, width: float) -> list[list[tuple[int, float]]]:
    """Rows of (class, x): a key to the colours of the classes."""
    if wording.classes is None:
        return []
    rows: list[list[tuple[int, float]]] = [[]]
    x = 0.0
    for k, name in enumerate(wording.classes):
        wide = 12 + measured(plain(name), SMALL, False) + 14
        if rows[-1] and x + wide > width:
            rows.append([])
            x = 0.0
        rows[-1].append((k, x))
        x += wide
    return rows


def _extent(plan: TreeBoxes, wording: Wording) -> tuple[float, float, float]:
    """Width and height of tree and key together, and how much of the height the key takes."""
    key = 15.0 * len(_legend(wording, plan.size[0]))
    key += 4.0 if key else 0.0
    return plan.size[0] + 2.0, plan.size[1] + key + 2.0, key


def _new_axes(plan: TreeBoxes, wording: Wording) -> tuple[Axes, float]:
    """A figure in which one unit of the axes is one point."""
    wide, tall, _ = _extent(plan, wording)
    wide = max(wide, measured(_title(wording, plan), 11.0, True))
    margin, head = 8.0, 24.0
    total = (wide + 2 * margin, tall + 2 * margin + head)
    scale = min(1.0, 72 * WIDEST / max(total))
    figure = plt.figure(figsize=(total[0] * scale / 72, total[1] * scale / 72))
    axes = figure.add_axes((margin / total[0], margin / total[1], wide / total[0], tall / total[1]))
    _limits(axes, plan, (wide * scale, tall * scale), scale, wording)
    return axes, scale


def _room(ax: Axes) -> tuple[float, float]:
    """Width and height of given axes, in points."""
    figure: Any = ax.get_figure(root=True)
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()  # the engine moves axes only then
    box = ax.get_window_extent()
    return 72 * box.width / figure.dpi, 72 * box.height / figure.dpi


def _fit(plan: TreeBoxes, room: tuple[float, float], wording: Wording) -> float:
    wide, tall, _ = _extent(plan, wording)
    return min(1.0, room[0] / wide, room[1] / tall)


def _limits(axes: Axes, plan: TreeBoxes, room: tuple[float, float], scale: float, wording: Wording) -> None:
    """One unit is `scale` points both ways; the tree stands in the middle, its root at the upper or left end."""
    _, tall, key = _extent(plan, wording)
    across_spare, down_spare = room[0] / scale - plan.size[0], room[1] / scale - tall
    axes.set_xlim(-across_spare / 2, plan.size[0] + across_spare / 2)
    axes.set_ylim(plan.size[1] + 1.0 + max(0.0, down_spare), -key - 1.0)
    axes.set_axis_off()
    axes.grid(visible=False)


def _title(wording: Wording, plan: TreeBoxes) -> str:
    kind = "Regression tree" if wording.classes is None else "Classification tree"
    leaves, rows = wording.nodes.leaves, int(wording.nodes.rows[0])
    closed = sum(piece.closed for piece in plan.pieces)
    cut = f", {closed} {'branch' if closed == 1 else 'branches'} collapsed" if closed else ""
    return f"{kind}: {leaves} {'leaf' if leaves == 1 else 'leaves'}, {rows} rows{cut}"


# Painting.


def _paint(axes: Axes, plan: TreeBoxes, wording: Wording, scale: float) -> None:
    fills = _fills(plan, wording)
    colours = _class_colours(wording)
    for v, piece in enumerate(plan.pieces):
        if piece.parent >= 0:
            _edge(axes, plan, wording, v, scale)
    for v in range(len(plan.pieces)):
        _box(axes, plan, v, fills[v], scale)
    if wording.classes is not None:
        _shares(axes, plan, wording, colours)
    left = axes.get_xlim()[0]
    key = _extent(plan, wording)[2]
    for r, row in enumerate(_legend(wording, plan.size[0])):
        for k, x in row:
            y = -key + 15.0 * r + 5.0
            axes.add_artist(Rectangle((left + x, y - 4), 8, 8, facecolor=colours[k], linewidth=0))
            assert wording.classes is not None
            _write(axes, left + x + 12, y, plain(wording.classes[k]), SMALL * scale, ha="left")


def _write(axes: Axes, x: float, y: float, text: str, size: float, **more: Any) -> None:
    # Names come from files: a dollar sign in them is no mathematics.
    style = {"ha": "center", "va": "center", "color": INK, **more}
    axes.text(x, y, text, fontsize=size, parse_math=False, **style)


def _fills(plan: TreeBoxes, wording: Wording) -> list[Array]:
    nodes = wording.nodes
    values = nodes.value[[piece.node for piece in plan.pieces]]
    if wording.classes is not None:
        colours, count = _class_colours(wording), values.shape[1]
        best = values.argmax(axis=1)
        purity = (values.max(axis=1) - 1 / count) / (1 - 1 / count)
        return [_mixed(colours[k], 0.10 + 0.42 * float(p)) for k, p in zip(best, purity, strict=True)]
    low, spread = values[:, 0].min(), np.ptp(values[:, 0])
    shade = (values[:, 0] - low) / spread if spread > 0 else np.zeros(len(values))
    hue = plt.get_cmap("Blues")
    return [np.array(hue(0.06 + 0.62 * float(s))[:3]) for s in shade]


def _class_colours(wording: Wording) -> list[Any]:
    count = len(wording.classes or ())
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    wheel = plt.get_cmap("turbo")
    return [wheel((k + 0.5) / count)[:3] for k in range(count)]


def _mixed(colour: Any, share: float) -> Array:
    """A colour thinned with white."""
    return 1.0 - share * (1.0 - np.array(to_rgb(colour)))


def _box(axes: Axes, plan: TreeBoxes, v: int, fill: Array, scale: float) -> None:
    piece = plan.pieces[v]
    x, y, width, height = plan.x[v], plan.y[v], plan.width[v], plan.height[v]
    dark = float(fill @ [0.299, 0.587, 0.114]) < 0.55
    axes.add_artist(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=4",
            facecolor=fill,
            edgecolor=0.72 * fill,
            linewidth=0.9 * scale,
            linestyle=(0, (3, 2)) if piece.closed else "-",
            zorder=3,
            gid=f"node{piece.node}",
        )
    )
    at = y + 0.7 * PAD
    for line in piece.lines:
        at += line_height(line.size) / 2
        colour = "white" if dark else INK
        weight = "bold" if line.bold else "normal"
        style = "italic" if line.faint else "normal"
        _write(
            axes,
            x + width / 2,
            at,
            line.text,
            line.size * scale,
            color=colour,
            fontweight=weight,
            fontstyle=style,
            zorder=5,
        )
        at += line_height(line.size) / 2


def _shares(axes: Axes, plan: TreeBoxes, wording: Wording, colours: Sequence[Any]) -> None:
    """All class shares of a node as one bar at the foot of its box."""
    bars, shades = [], []
    for v, piece in enumerate(plan.pieces):
        left, wide = plan.x[v] + PAD, plan.width[v] - 2 * PAD
        foot = plan.y[v] + plan.height[v] - 0.6 * PAD - BAR
        for share, colour in zip(wording.nodes.value[piece.node], colours, strict=True):
            if share > 0:
                bars.append(Rectangle((left, foot), wide * float(share), BAR))
                shades.append(colour)
                left += wide * float(share)
    axes.add_collection(PatchCollection(bars, facecolors=shades, linewidths=0, zorder=4), autolim=False)


def _edge(axes: Axes, plan: TreeBoxes, wording: Wording, v: int, scale: float) -> None:
    """From the parent's foot to the node's head at right angles, as wide as the share of rows that goes there."""
    p, nodes = plan.pieces[v].parent, wording.nodes
    whole = float(nodes.weight[0]) or 1.0
    wide = (0.8 + 4.5 * float(nodes.weight[plan.pieces[v].node]) / whole) * scale
    bend = plan.bend[v]
    if plan.hangs:
        foot = plan.y[p] + plan.height[p]
        a, b = plan.x[p] + plan.width[p] / 2, plan.x[v] + plan.width[v] / 2
        xs, ys = [a, a, b, b], [foot, bend, bend, plan.y[v]]
        label = (b, plan.y[v] - 3 - line_height(TINY) / 2)
    else:
        foot = plan.x[p] + plan.width[p]
        a, b = plan.y[p] + plan.height[p] / 2, plan.y[v] + plan.height[v] / 2
        xs, ys = [foot, bend, bend, plan.x[v]], [a, a, b, b]
        label = (plan.x[v] - 4 - measured(plan.pieces[v].label, TINY, False) / 2, b)
    axes.plot(xs, ys, color="#c3cad5", linewidth=wide, solid_joinstyle="round", solid_capstyle="butt", zorder=1)
    if plan.pieces[v].label:
        back = {"facecolor": "white", "edgecolor": "none", "boxstyle": "square,pad=0.12"}
        _write(axes, *label, plan.pieces[v].label, TINY * scale, color="#4a5568", bbox=back, zorder=2)
