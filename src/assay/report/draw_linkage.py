"""Pictures of trees and directions: the dendrogram, explained variance, loadings, the biplot."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator, PercentFormatter

from assay.clustering import Biplot, Dendrogram, ExplainedVariance, Loadings
from assay.clustering.dendrogram import flat_clusters
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, STYLE, WARM, canvas, draw

Array = np.ndarray

LEAVES = 500
"""A tree of more rows is drawn down to SHOWN clusters."""
SHOWN = 60
NAMED = 80
"""Leaves are named one by one up to here; the names of more would cover each other."""
ARROWS = 15


@draw.register
def _dendrogram(result: Dendrogram, ax: Axes | None = None) -> Axes:
    """The tree, upright for few leaves and lying for names of many; beyond LEAVES rows its upper part."""
    Z, names = _truncated(result)
    n = len(Z) + 1
    lying = 12 < n <= (4 * NAMED if result.names else SHOWN)
    size = (
        (7.6, 1.2 + max(2.8, (0.16 if n <= 120 else 0.1) * n)) if lying else (min(16.0, max(7.0, 0.05 * n + 4.0)), 4.6)
    )
    with canvas(ax, size) as axes:
        lines, colours, places = _tree_lines(Z, result)
        lines = [np.flip(line, axis=1) for line in lines] if lying else lines
        axes.add_collection(LineCollection(lines, colors=colours, linewidths=0.7 if n > 150 else 1.1))
        top = float(Z[:, 2].max(initial=0.0)) or 1.0
        title = f"{result.method.capitalize()} linkage of {result.n:,} rows" if result.method else f"{result.n:,} rows"
        if n < result.n:
            title += f", the last {n - 1} merges (number of rows in brackets)"
        _leaves(axes, places, names, lying, n)
        (axes.set_xlim if lying else axes.set_ylim)(0.0, 1.05 * top)
        (axes.set_ylim if lying else axes.set_xlim)(*((n - 0.2, -0.8) if lying else (-0.8, n - 0.2)))
        axes.grid(False, axis="y" if lying else "x")
        (axes.set_xlabel if lying else axes.set_ylabel)("height of the merge")
        axes.set_title(title)
        return axes


def _truncated(result: Dendrogram) -> tuple[Array, list[str]]:
    """The merges drawn, with their clusters numbered anew, and the names of their leaves."""
    if result.n <= LEAVES:
        return result.linkage, [str(name) for name in result.names] or [str(i) for i in range(result.n)]
    first = result.n - SHOWN
    sizes = np.r_[np.ones(result.n), result.linkage[:, 3]].astype(int)
    shown = result.linkage[first:].copy()
    below = sorted({int(c) for c in shown[:, :2].ravel() if c < result.n + first})
    number = {c: i for i, c in enumerate(below)} | {result.n + first + t: SHOWN + t for t in range(SHOWN - 1)}
    shown[:, :2] = [[number[int(c)] for c in pair] for pair in shown[:, :2]]
    names = [str(result.names[c]) if result.names else str(c) for c in below if c < result.n]
    alone = iter(names)
    return shown, [next(alone) if c < result.n else f"({sizes[c]:,})" for c in below]


def _tree_lines(Z: Array, result: Dendrogram) -> tuple[list[Array], list[Any], Array]:
    """One bracket per merge, coloured by the flat cluster it belongs to, and each leaf's place."""
    n = len(Z) + 1
    order, sides = [], Z[:, :2].astype(int).tolist()
    waiting = [2 * n - 2]
    while waiting:
        node = waiting.pop()
        if node < n:
            order.append(node)
        else:
            waiting.extend(reversed(sides[node - n]))
    places = np.empty(n)
    places[order] = np.arange(n)
    k = min(result.coloured, n)
    labels = flat_clusters(Z, np.arange(n - 1) < n - k)
    ranks = {label: rank for rank, label in enumerate(dict.fromkeys(labels[order].tolist()))}
    x, y, owner = [*places], [0.0] * n, [ranks[label] for label in labels.tolist()]
    palette, lines, colours = plt.get_cmap("tab10"), [], []
    for (a, b), height in zip(sides, Z[:, 2].tolist(), strict=True):
        lines.append(np.array([[x[a], y[a]], [x[a], height], [x[b], height], [x[b], y[b]]]))
        same = owner[a] == owner[b] and owner[a] >= 0
        owner.append(owner[a] if same else -1)
        colours.append(INK if k == 1 else palette(owner[a] % 10) if same else MUTED)
        x.append((x[a] + x[b]) / 2)
        y.append(height)
    return lines, colours, places


def _leaves(axes: Axes, places: Array, names: list[str], lying: bool, n: int) -> None:
    axis = axes.yaxis if lying else axes.xaxis
    if n > 4 * NAMED or (not lying and n > NAMED):
        axis.set_ticks([])
        axis.set_label_text(f"{n} rows, in the order of the tree")
        return
    axis.set_ticks(places.tolist(), names)
    longest = max(map(len, names), default=0)
    axes.tick_params(axis="y" if lying else "x", length=0, labelsize=9 if n <= 40 else 7 if n <= 120 else 5)
    if not lying and n * longest > 70:
        axes.tick_params(axis="x", labelrotation=90)


@draw.register
def _explained(result: ExplainedVariance, ax: Axes | None = None) -> Axes:
    """The scree: shares with their limits, and what unrelated columns explain."""
    k = min(result.share.size, 30)
    at = np.arange(1, k + 1)
    with canvas(ax) as axes:
        reach = np.vstack([result.share - result.lower, result.upper - result.share])[:, :k]
        axes.errorbar(
            at,
            result.share[:k],
            yerr=np.maximum(reach, 0.0),
            fmt="o-",
            color=ACCENT,
            ecolor=ACCENT,
            elinewidth=1.2,
            capsize=3,
            markersize=4,
            linewidth=1,
            label=f"share of the variance, {100 * result.level:g}% bootstrap limits",
        )
        total = result.variance[0] / result.share[0] if result.share[0] > 0 else 1.0
        if not np.isnan(result.independent).all():
            text = f"unrelated columns, {100 * result.level:g}% limit"
            axes.plot(at, result.independent[:k] / total, "--", color=WARM, linewidth=1.2, label=text)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0.0)
        axes.set(xlabel="component", ylabel="share of the variance", title=f"Explained variance, {result.n:,} rows")
        axes.legend(loc="upper right")
        return axes


@draw.register
def _loadings(result: Loadings, ax: Axes | None = None) -> Axes:
    """Loadings as a coloured grid; of many columns those with the largest."""
    k = min(result.share.size, 8)
    largest = np.argsort(-np.abs(result.loadings[:, :k]).max(axis=1), kind="stable")[:40]
    rows = np.sort(largest)
    table = result.loadings[rows, :k]
    with canvas(ax, (2.6 + 0.75 * k, 1.4 + 0.27 * len(rows))) as axes:
        top = float(np.abs(table).max(initial=0.0)) or 1.0
        axes.imshow(table, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto")
        for i, j in np.ndindex(table.shape):
            ink = "white" if abs(table[i, j]) > 0.6 * top else INK
            said = f"{table[i, j]:.2f}" if result.scaled else fmt(table[i, j], 2)
            axes.text(j, i, said, ha="center", va="center", fontsize=8, color=ink)
        heads = [f"pc{j + 1}\n{100 * result.share[j]:.1f}%" for j in range(k)]
        axes.set_xticks(range(k), heads)
        axes.set_yticks(range(len(rows)), [result.names[i] for i in rows])
        axes.tick_params(length=0)
        axes.grid(False)
        axes.set_title("Loadings" + (" (correlations)" if result.scaled else ""))
        return axes


@draw.register
def _biplot(result: Biplot, ax: Axes | None = None) -> Axes:
    """Scores as points or names, loadings as arrows on a scale of their own."""
    with plt.rc_context(STYLE), canvas(ax, (7.4, 6.4)) as axes:
        groups = list(dict.fromkeys(result.groups))
        palette = plt.get_cmap("tab20" if len(groups) > 10 else "tab10")
        x, y = result.scores.T
        if groups:
            marks = np.array(result.groups)
            for g, group in enumerate(groups):
                own = marks == group
                colour = palette(g % palette.N)
                axes.scatter(x[own], y[own], s=18, color=colour, alpha=0.85, linewidths=0, label=group)
        else:
            axes.scatter(x, y, s=12, color=MUTED, alpha=0.6 if len(x) < 2000 else 0.25, linewidths=0)
        taken = _arrows(axes, result)
        if result.rows and not groups:
            _name_points(axes, result, taken)
        labels = [f"pc{a + 1} ({100 * s:.1f}% of the variance)" for a, s in zip(result.axes, result.share, strict=True)]
        axes.set(xlabel=labels[0], ylabel=labels[1], title=f"{len(x):,} rows and {len(result.names):,} columns")
        axes.axhline(0.0, color=MUTED, linewidth=0.6)
        axes.axvline(0.0, color=MUTED, linewidth=0.6)
        if groups:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        return axes


HALO = [withStroke(linewidth=2.5, foreground="white")]


def _arrows(axes: Axes, result: Biplot) -> list[Text]:
    """The longest arrows, the longest as long as the scores reach; their names, pushed apart."""
    length = np.hypot(*result.loadings.T)
    most = ARROWS if len(result.names) <= 4 * ARROWS else ARROWS // 2  # more would hide the points
    chosen = np.argsort(-length, kind="stable")[:most]
    chosen = chosen[length[chosen] > 1e-9 * length.max(initial=0.0)]
    if chosen.size == 0:
        return []
    tips = result.loadings[chosen] * (0.8 * float(np.abs(result.scores).max(initial=0.0) or 1.0) / length.max())
    for tip in tips:
        axes.annotate("", tip, (0.0, 0.0), arrowprops={"arrowstyle": "->", "color": WARM, "linewidth": 1.1})
    for axis, limits, reach in ((0, axes.set_xlim, 1.4), (1, axes.set_ylim, 1.15)):
        low, high = (axes.get_xlim, axes.get_ylim)[axis]()
        limits(min(low, reach * tips[:, axis].min()), max(high, reach * tips[:, axis].max()))
    gap, names = 0.035 * float(np.ptp(axes.get_ylim())), [result.names[i] for i in chosen]
    return [text for side in (-1, 1) for text in _beside(axes, tips, names, gap, side)]


def _beside(axes: Axes, tips: Array, names: list[str], gap: float, side: int) -> list[Text]:
    """The names of the arrows that point to one side, from below upwards."""
    style: Any = {"xytext": (4 * side, 0), "textcoords": "offset points", "fontsize": 8.5, "color": WARM}
    style |= {"ha": "left" if side > 0 else "right", "va": "center", "path_effects": HALO}
    previous = -np.inf
    made: list[Text] = []
    for i in np.argsort(tips[:, 1], kind="stable"):
        if (tips[i, 0] < 0) == (side < 0):
            previous = max(tips[i, 1], previous + gap)
            made.append(axes.annotate(names[i], (tips[i, 0], previous), **style))
    return made


def _name_points(axes: Axes, result: Biplot, taken: list[Text]) -> None:
    """Names of rows, the outermost first; one that would cover another name is left out."""
    figure: Any = axes.get_figure(root=True)
    figure.draw_without_rendering()
    boxes = [one.get_window_extent() for one in taken]
    outer = np.argsort(-np.abs(result.scores).max(axis=1), kind="stable")[:200]
    for i in outer:
        style: Any = {
            "annotation_clip": True,
            "xytext": (3, 2),
            "textcoords": "offset points",
            "fontsize": 7,
            "color": INK,
        }
        name = axes.annotate(result.rows[i], tuple(result.scores[i]), **style)
        box = name.get_window_extent()
        if any(box.overlaps(other) for other in boxes):
            name.remove()
        else:
            boxes.append(box)
