"""Pictures of support vector machines: solvers against time, margins, regions with support vectors, the C-gamma map."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.patches import Rectangle

from assay.margin import CGammaMap, MarginRegions, Margins, SolverComparison, SolverTrace
from assay.numbers import fmt
from assay.report.draw_regions import COLOURS, MARKS, PALE
from assay.report.picture import ACCENT, INK, WARM, canvas, draw

__all__: list[str] = []

SHOWN = 1_500
"""How many rows are drawn; the eye sees no more."""
LEAST = 1e-10
"""Nearer to the best than this is the best."""
WRITTEN = 80
"""Up to this many cells of a map carry their figure."""
CHOSEN = "#ffb703"
"""A frame that stands out on dark and on light cells."""


@draw.register
def _trace(result: SolverTrace, ax: Axes | None = None) -> Axes:
    return _solvers(SolverComparison({result.solver: result}), ax)


@draw.register
def _solvers(result: SolverComparison, ax: Axes | None = None) -> Axes:
    """How far each solver's objective is from the best of all, and its violation, against time."""
    with canvas(ax, (7.6, 4.6)) as axes:
        dual = [trace for trace in result.traces.values() if not _is_primal(trace)]
        best = max((float(trace.objective[-1]) for trace in dual), default=np.nan)
        for k, (name, trace) in enumerate(result.traces.items()):
            colour = COLOURS[k % len(COLOURS)]
            short = best - trace.objective
            if _is_primal(trace):  # minus the primal: above the best dual objective by the same measure
                short = -trace.objective - (best if dual else float(-np.max(trace.objective)))
            short = np.maximum(short / max(abs(float(trace.objective[-1])), 1e-300), LEAST)
            milliseconds = 1e3 * trace.seconds
            axes.plot(milliseconds, short, color=colour, marker="o", markersize=2.5, linewidth=1.4, label=name)
            known = np.isfinite(trace.violation) & (trace.violation > 0)
            axes.plot(milliseconds[known], trace.violation[known], ":", color=colour, linewidth=1.2, alpha=0.8)
        axes.set(yscale="log", xlabel="milliseconds", ylabel="relative distance of the objective from the optimum")
        one = next(iter(result.traces.values()))
        title = f"{one.solver}: {one.n_iter:,} steps, duality gap {fmt(one.gap, 2)}"
        axes.set_title("Convergence of the solvers" if len(result.traces) > 1 else title)
        axes.plot([], [], ":", color=INK, label="KKT violation")
        axes.legend(loc="upper right")
        return axes


def _is_primal(trace: SolverTrace) -> bool:
    """Whether the objective is minus the primal one."""
    return trace.solver in ("sgd", "newton")


@draw.register
def _margins(result: Margins, ax: Axes | None = None) -> Axes:
    """Histogram of the scores towards the own class, by where rows lie."""
    with canvas(ax) as axes:
        low, high = np.quantile(result.score, [0.002, 0.998])
        edges = np.linspace(min(low, -0.5), max(high, 1.5), 60).tolist()
        shown = [result.score[result.place == k] for k in range(4)]
        names = [f"{word} ({part.size:,})" for word, part in zip(_PLACES, shown, strict=True)]
        colours = [ACCENT, INK, "#E69F00", WARM]
        used = [k for k in range(4) if shown[k].size]
        axes.hist(
            [np.clip(shown[k], edges[0], edges[-1]) for k in used], edges, stacked=True,
            color=[colours[k] for k in used], label=[names[k] for k in used],
        )  # fmt: skip
        for at, style in ((0.0, "-"), (1.0, "--")):
            axes.axvline(at, color=INK, linewidth=1, linestyle=style)
        title = f"Total slack {fmt(result.total_slack, 4)}"
        if len(result.pairs) == 1:
            title = f"{result.pairs[0]}: total slack {fmt(result.total_slack, 4)}, half-width {fmt(result.width[0], 3)}"
        axes.set(xlabel="score towards the own class: boundary at 0, margin at 1", ylabel="rows", title=title)
        axes.legend(loc="best")
        return axes


_PLACES = ("beyond the margin", "on the margin", "inside", "wrong side")


@draw.register
def _regions(result: MarginRegions, ax: Axes | None = None) -> Axes:
    """Predicted classes as ground, boundary and margins as lines, support vectors ringed."""
    with canvas(ax, (6.4, 5.4)) as axes:
        K = len(result.classes)
        pale = [PALE + (1 - PALE) * np.array(to_rgb(COLOURS[k % len(COLOURS)])) for k in range(K)]
        ends = (result.x[0], result.x[-1], result.y[0], result.y[-1])
        axes.imshow(
            result.code, extent=ends, origin="lower", aspect="auto", interpolation="nearest",
            cmap=ListedColormap(pale), vmin=-0.5, vmax=K - 0.5, zorder=0,
        )  # fmt: skip
        axes.grid(visible=False)
        if K == 2:
            levels, styles = [-1.0, 0.0, 1.0], ["--", "-", "--"]
            widths = [1.0, 1.6, 1.0]
            score = result.score[:, :, 0]
            axes.contour(result.x, result.y, score, levels, colors=INK, linestyles=styles, linewidths=widths)
        else:
            for k in range(1, K):
                axes.contour(result.x, result.y, (result.code >= k).astype(float), [0.5], colors=INK, linewidths=1.0)
        rows = np.arange(len(result.points))
        if rows.size > SHOWN:
            rows = np.sort(np.random.default_rng(0).choice(rows.size, SHOWN, replace=False))
        for k, name in enumerate(result.classes):
            mine = rows[result.label[rows] == k]
            axes.scatter(
                result.points[mine, 0], result.points[mine, 1], s=24, marker=MARKS[k % len(MARKS)],
                color=COLOURS[k % len(COLOURS)],
                edgecolors="white", linewidths=0.4, label=name, zorder=3,
            )  # fmt: skip
        held = rows[result.support[rows]]
        axes.scatter(
            result.points[held, 0], result.points[held, 1], s=80, facecolors="none", edgecolors=INK, linewidths=0.8,
            zorder=4,
            label="on or inside the margin",
        )  # fmt: skip
        axes.set(xlabel=result.names[0], ylabel=result.names[1], title=result.title)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=min(K + 1, 5))
        return axes


@draw.register
def _grid(result: CGammaMap, ax: Axes | None = None) -> Axes:
    """The error of each cell; the least and the chosen one framed."""
    G, C = result.error.shape
    with canvas(ax, (2.6 + 0.78 * C, 1.9 + 0.55 * G)) as axes:
        image = axes.imshow(result.error, origin="lower", aspect="auto", cmap="viridis_r")
        axes.grid(visible=False)
        axes.set_xticks(range(C), [fmt(value, 3) for value in result.Cs])
        axes.set_yticks(range(G), [fmt(value, 3) for value in result.gammas])
        if G * C <= WRITTEN:
            middle = 0.5 * (result.error.min() + result.error.max())
            for g in range(G):
                for c in range(C):
                    colour = "white" if result.error[g, c] > middle else INK
                    axes.text(c, g, f"{result.error[g, c]:.3f}", ha="center", va="center", color=colour, fontsize=8)
        frames = [(result.best, WARM, "least error"), (result.chosen, CHOSEN, f'chosen (rule "{result.rule}")')]
        for (g, c), colour, label in frames if result.best != result.chosen else frames[1:]:
            axes.add_patch(
                Rectangle((c - 0.48, g - 0.46), 0.96, 0.92, fill=False, edgecolor=colour, linewidth=2.4, label=label)
            )
        axes.set(xlabel="C", ylabel="gamma", title=f"Error rate in {result.n_folds} folds")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)
        plt.colorbar(image, ax=axes, label="error rate")
        return axes
