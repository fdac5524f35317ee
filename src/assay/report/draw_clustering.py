"""Pictures of k-means: starts, the choice of k, silhouettes, the plane, profiles and variation within clusters."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from assay.clustering import ClusterPlane, ClusterProfile, ClusterVariation, KChoice, Silhouettes, Starts
from assay.errors import ParameterError
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, STYLE, WARM, canvas, draw
from assay.results import format_p

__all__: list[str] = []

MOST_ROWS, MOST_LETTERS = 30, 40
"""Rows of a heatmap that can still be read, and letters of a name beside it."""


def _colour(cluster: int) -> Any:
    return plt.get_cmap("tab10" if cluster < 10 else "tab20")(cluster % (10 if cluster < 10 else 20))


@draw.register
def _starts(result: Starts, ax: Axes | None = None) -> Axes:
    """Every start at the inertia it reached, the best first."""
    with canvas(ax) as axes:
        order = np.argsort(result.inertia, kind="stable")
        best = result.optimum[order] == 0
        at = np.arange(1, len(order) + 1)
        axes.plot(at, result.inertia[order], color=MUTED, linewidth=1, zorder=1)
        axes.scatter(at[best], result.inertia[order][best], color=ACCENT, s=28, zorder=2, label="best optimum")
        if not best.all():
            axes.scatter(at[~best], result.inertia[order][~best], color=WARM, s=28, zorder=2, label="other optima")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        title = f"{len(order)} starts, {result.n_optima} local optima, {result.share:.0%} found the best"
        axes.set(xlabel="start, best first", ylabel="inertia", title=title)
        axes.legend(loc="best")
        return axes


@draw.register
def _variation(result: ClusterVariation, ax: Axes | None = None) -> Axes:
    k = len(result.sizes)
    with canvas(ax, (7.0, 1.4 + 0.3 * k)) as axes:
        at = np.arange(k)
        axes.barh(at, result.inertia, color=[_colour(j) for j in range(k)], height=0.7)
        for j in range(k):
            axes.annotate(
                f" {fmt(result.inertia[j], 3)}, {result.sizes[j]:,} rows",
                (result.inertia[j], j),
                va="center",
                fontsize=8.5,
                color=INK,
            )
        axes.set_yticks(at, [f"cluster {j}" for j in at])
        axes.invert_yaxis()
        axes.margins(x=0.25)
        axes.set(xlabel="inertia (half the variation over pairs)", title="Variation within clusters")
        return axes


@draw.register
def _silhouettes(result: Silhouettes, ax: Axes | None = None) -> Axes:
    """One bar per row, sorted within its cluster."""
    with canvas(ax, (7.0, 5.0)) as axes:
        clusters, space = np.unique(result.labels), max(1, len(result.labels) // 60)
        low, ticks = 0, []
        for j in clusters:
            values = np.sort(result.values[result.labels == j])
            axes.fill_betweenx(
                np.arange(low, low + len(values)), 0, values, color=_colour(int(j)), alpha=0.8, linewidth=0
            )
            ticks.append(low + len(values) / 2)
            low += len(values) + space
        names = [f"cluster {j}\n{np.mean(result.values[result.labels == j]):.2f}" for j in clusters]
        axes.set_yticks(ticks, names if len(clusters) <= 12 else [str(j) for j in clusters])
        axes.axvline(result.mean.estimate, color=WARM, linestyle="--", linewidth=1)
        axes.axvline(0.0, color=INK, linewidth=0.8)
        axes.grid(axis="y", visible=False)
        mean = result.mean
        title = f"Mean silhouette {mean.estimate:.2f} [{mean.lower:.2f}, {mean.upper:.2f}]"
        axes.set(xlabel="silhouette", title=title)
        return axes


@draw.register
def _plane(result: ClusterPlane, ax: Axes | None = None) -> Axes:
    with canvas(ax, (7.0, 5.6)) as axes:
        size = 26 if len(result.points) <= 500 else 9
        for j in range(len(result.centres)):
            rows = result.points[result.labels == j]
            axes.scatter(rows[:, 0], rows[:, 1], s=size, color=_colour(j), alpha=0.6, linewidths=0)
        axes.scatter(
            result.centres[:, 0],
            result.centres[:, 1],
            s=150,
            marker="X",
            color="white",
            edgecolors=INK,
            linewidths=1.2,
            zorder=3,
        )
        for j, centre in enumerate(result.centres):
            axes.annotate(
                str(j), centre, xytext=(8, 6), textcoords="offset points", fontsize=10, fontweight="bold", color=INK,
                bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.7, "linewidth": 0},
            )  # fmt: skip
        title = f"{len(result.centres)} clusters, {len(result.points):,} rows"
        axes.set(xlabel=result.axes[0], ylabel=result.axes[1], title=title)
        return axes


@draw.register
def _profile(result: ClusterProfile, ax: Axes | None = None) -> Axes:
    """Effect sizes as colours, means and shares as numbers."""
    last = result.strongest(MOST_ROWS, left_out=True)  # below the others
    order = [*result.strongest(max(MOST_ROWS // 2, MOST_ROWS - len(last))), *last][:MOST_ROWS]
    names = [name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…" for name in result.names()]
    marks = ["" if not result.left_out[i] else f"  (left out, p {format_p(result.adjusted[i])})" for i in order]
    labels = [names[i] + mark for i, mark in zip(order, marks, strict=True)]
    k, rows = len(result.sizes), len(order)
    with canvas(ax, (2.0 + 1.0 * k + 0.09 * max(map(len, labels)), 1.8 + 0.3 * rows)) as axes:
        effects = result.effects[order]
        top = max(0.8, float(np.nanmax(np.abs(effects), initial=0.0)))
        shown = axes.imshow(effects, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto")
        for i, row in enumerate(order):
            for j in range(k):
                dark = abs(np.nan_to_num(effects[i, j])) > 0.6 * top
                axes.text(
                    j, i, fmt(result.values[row, j], 3), ha="center", va="center", fontsize=8.5,
                    color="white" if dark else INK,
                )  # fmt: skip
        axes.set_yticks(range(rows), labels)
        axes.set_xticks(range(k), [f"{j}\n{size:,} rows" for j, size in enumerate(result.sizes)])
        axes.grid(visible=False)
        more = f", the {rows} strongest of {len(names)}" if rows < len(names) else ""
        axes.set(xlabel="cluster", title=f"Means and shares{more}")
        bar = axes.figure.colorbar(shown, ax=axes, pad=0.02)
        bar.set_label("effect: Cohen's d or h against the other rows")
        return axes


@draw.register
def _choice(result: KChoice, ax: Any = None) -> np.ndarray:
    """Four panels: gap, silhouette, agreement of halves, and how often each k is chosen."""
    with plt.rc_context(STYLE):
        if ax is None:
            figure, grid = plt.subplots(2, 2, figsize=(9.5, 7.0), layout="constrained")
            p = format_p(result.p_value)
            verdict = "a single cluster is rejected" if result.several else "a single cluster is not rejected"
            figure.suptitle(f"{verdict} (p = {p}); chosen k = {result.chosen}", fontweight="bold", fontsize=12)
            panels = grid.ravel()
        else:
            panels = np.ravel(ax)
        if len(panels) != 4:
            message = f"the choice of k needs four panels, but ax has {len(panels)} axes"
            raise ParameterError(message, remedy="pass the axes of plt.subplots(2, 2)")
        ks = result.ks
        panels[0].errorbar(ks, result.gap, yerr=result.gap_error, fmt="o-", color=ACCENT, ecolor=MUTED, markersize=4)
        panels[0].set(ylabel="gap and its error", title="Gap statistic")
        for panel, name, title in (
            (panels[1], "silhouette", "Mean silhouette, 95% interval"),
            (panels[2], "agreement", "Adjusted Rand index between halves"),
        ):
            value, low, high = (getattr(result, f"{name}{end}") for end in ("", "_lower", "_upper"))
            panel.fill_between(ks, low, high, color=ACCENT, alpha=0.18, linewidth=0)
            panel.plot(ks, value, "o-", color=ACCENT, markersize=4)
            panel.set(ylabel=name, title=title)
        width = 0.38
        panels[3].bar(ks - width / 2, result.share_gap, width, color=ACCENT, label="gap")
        panels[3].bar(ks + width / 2, result.share_silhouette, width, color=WARM, label="silhouette")
        panels[3].set(ylabel="share of halves", title="Choice of k in halves of the rows", ylim=(0, 1))
        panels[3].legend(loc="best")
        for panel, name in zip(panels[:3], ("gap", "silhouette", "stability"), strict=True):
            panel.axvline(result.choices[name], color=INK, linewidth=1, linestyle=":")
        for panel in panels:
            panel.set_xlim(ks[0] - 0.5, ks[-1] + 0.5)
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
            panel.set_xlabel("number of clusters")
        return panels
