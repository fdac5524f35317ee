"""How inspections of a model are drawn: importance, partial dependence, prediction intervals and sets, coverage."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from assay.evaluation.conformal import Conformal
from assay.evaluation.conformal_results import Coverage, PredictionIntervals, PredictionSets
from assay.evaluation.dependence import Dependence, label_of_output
from assay.importance import Importance
from assay.numbers import fmt
from assay.report._bars import importance_bars
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw

__all__: list[str] = []

LINES = 200
"""How many rows' own lines are drawn; more is a grey sheet."""
ROWS = 300
"""How many prediction intervals are drawn side by side."""


@draw.register
def _importance(result: Importance, ax: Axes | None = None) -> Axes:
    axis, rows = f"change of {result.metric} when shuffled", f", n = {result.n}"
    return importance_bars(result, ax, title="Permutation importance", axis=axis, rows=rows)


@draw.register
def _dependence(result: Dependence, ax: Any = None) -> Any:
    """A curve with its band (categories: points with bars) or a surface; the curves of classes share a picture."""
    if len(result.columns) == 2:
        return _surface(result, ax)
    with canvas(ax) as axes:
        x = np.arange(result.grids[0].size) if result.categorical[0] else result.grids[0]
        if result.individual is not None and len(result.outputs) == 1:
            _own_lines(axes, x, result.individual[0])
        if result.kind != "individual":
            _averages(axes, x, result)
        _rug(axes, x, result)
        axes.set(xlabel=result.columns[0], ylabel=("change of " if result.centered else "") + label_of_output(result))
        axes.set_title(f"Partial dependence, {result.n} rows")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best")
        return axes


def _averages(axes: Axes, x: np.ndarray, result: Dependence) -> None:
    colours = (
        [ACCENT] if len(result.outputs) == 1 else [plt.get_cmap("tab10")(k % 10) for k in range(len(result.outputs))]
    )
    for k, (name, colour) in enumerate(zip(result.outputs, colours, strict=True)):
        average, lower, upper = result.average[k], result.lower[k], result.upper[k]
        label = name if len(result.outputs) > 1 else "average over rows"
        band = f"{100 * result.level:g}% pointwise, model treated as fixed" if k == 0 else ""
        if result.categorical[0]:
            axes.vlines(x, lower, upper, color=colour, linewidth=3, alpha=0.6, label=band)
            axes.plot(x, average, "o", color=colour, markersize=6, label=label)
        else:
            axes.fill_between(x, lower, upper, color=colour, alpha=0.2, linewidth=0, label=band)
            axes.plot(x, average, color=colour, linewidth=1.8, label=label)


def _own_lines(axes: Axes, x: np.ndarray, lines: np.ndarray) -> None:
    chosen = np.unique(np.linspace(0, len(lines) - 1, min(LINES, len(lines))).astype(int))
    axes.plot(x, lines[chosen].T, color=MUTED, linewidth=0.5, alpha=0.35, zorder=1)
    axes.plot([], [], color=MUTED, linewidth=1, label=f"{chosen.size} of {len(lines)} rows")


def _rug(axes: Axes, x: np.ndarray, result: Dependence) -> None:
    """Deciles of the column along its axis; shares of rows under each category."""
    if result.categorical[0]:
        names = [
            f"{level}\n{100 * share:.0f}%" for level, share in zip(result.grids[0], result.deciles[0], strict=True)
        ]
        axes.set_xticks(x, names)
        axes.set_xlim(-0.5, x.size - 0.5)
        return
    foot = axes.get_xaxis_transform()
    axes.vlines(result.deciles[0], 0.0, 0.03, transform=foot, color=INK, linewidth=1.2, label="deciles of the rows")


def _surface(result: Dependence, ax: Any) -> Any:
    """Contours of two numbers, a heat map where a category takes part; hatched where there are no rows."""
    panels = len(result.outputs)
    if panels > 1 and ax is None:
        with canvas(None, (5.2 * panels, 4.4)) as first:
            figure: Any = first.figure
            figure.clear()
            axes = figure.subplots(1, panels, sharey=True)
            for k, one in enumerate(axes):
                _one_surface(result, k, one)
            return axes
    chosen = np.ravel(ax) if ax is not None and np.ndim(ax) else [ax]
    with canvas(chosen[0], (6.4, 4.8)) as axes:
        _one_surface(result, 0, axes)
        return axes


def _one_surface(result: Dependence, k: int, axes: Axes) -> None:
    x, y = (np.arange(g.size) if c else g for g, c in zip(result.grids, result.categorical, strict=True))
    z = result.average[k].T
    outside = ~result.support.T
    if any(result.categorical):
        edges = [
            np.arange(g.size + 1) - 0.5 if c else _edges(g) for g, c in zip((x, y), result.categorical, strict=True)
        ]
        shade: Any = axes.pcolormesh(*edges, z, cmap="viridis")
        if outside.any():
            hatched = np.ma.masked_where(~outside, z)
            axes.pcolor(
                *edges, hatched, hatch="///", edgecolor="white", facecolor="none", cmap="viridis", alpha=0.6, lw=0
            )
    else:
        shade = axes.contourf(x, y, z, levels=14, cmap="viridis")
        axes.contour(x, y, z, levels=14, colors="white", linewidths=0.4, alpha=0.6)
        if outside.any() and min(outside.shape) > 1:
            axes.contourf(x, y, outside.astype(float), levels=[0.5, 1.5], colors=["white"], alpha=0.55, hatches=["///"])
    axes.figure.colorbar(shade, ax=axes, label=("change of " if result.centered else "") + label_of_output(result))
    for set_ticks, grid, categorical in zip(
        (axes.set_xticks, axes.set_yticks), result.grids, result.categorical, strict=True
    ):
        if categorical:
            set_ticks(np.arange(grid.size), [str(level) for level in grid])
    axes.grid(visible=False)
    note = "\nhatched: no rows there, the model extrapolates" if outside.any() else ""
    name = f" for {result.outputs[k]}" if len(result.outputs) > 1 else ""
    axes.set(xlabel=result.columns[0], ylabel=result.columns[1])
    axes.set_title(f"Partial dependence{name}, {result.n} rows{note}")


def _edges(points: np.ndarray) -> np.ndarray:
    if points.size == 1:
        return np.array([points[0] - 0.5, points[0] + 0.5])
    middle = (points[1:] + points[:-1]) / 2
    return np.concatenate([[points[0] - (middle[0] - points[0])], middle, [points[-1] + (points[-1] - middle[-1])]])


@draw.register
def _prediction_intervals(result: PredictionIntervals, ax: Axes | None = None) -> Axes:
    """Intervals in the order of their predictions."""
    order = np.argsort(result.prediction, kind="stable")
    order = order[np.unique(np.linspace(0, order.size - 1, min(ROWS, order.size)).astype(int))]
    with canvas(ax) as axes:
        at = np.arange(order.size)
        finite = np.isfinite(result.lower[order]) & np.isfinite(result.upper[order])
        axes.vlines(at[finite], result.lower[order][finite], result.upper[order][finite], color=ACCENT, alpha=0.45)
        axes.plot(at, result.prediction[order], ".", color=INK, markersize=3, label="prediction")
        axes.set(xlabel="rows in the order of their prediction", ylabel="target")
        extent = f"{100 * result.level:g}% prediction intervals, {result.method}"
        axes.set_title(extent if finite.all() else f"{extent} (infinite: too few calibration rows)")
        axes.legend(loc="best")
        return axes


@draw.register
def _prediction_sets(result: PredictionSets, ax: Axes | None = None) -> Axes:
    """How many sets hold how many classes."""
    counts = np.bincount(result.size, minlength=result.classes.size + 1)
    with canvas(ax, (5.6, 3.8)) as axes:
        at = np.arange(counts.size)
        axes.bar(at, counts / max(1, len(result)), color=[WARM] + [ACCENT] * (counts.size - 1), alpha=0.7, width=0.7)
        for x, count in zip(at, counts, strict=True):
            axes.annotate(f"{count}", (x, count / max(1, len(result))), ha="center", va="bottom", fontsize=9)
        axes.set_xticks(at)
        axes.grid(visible=False, axis="x")
        axes.set(xlabel="classes in the set", ylabel="share of rows")
        axes.set_title(f"{100 * result.level:g}% prediction sets, mean size {fmt(result.size.mean(), 3)}")
        return axes


@draw.register
def _coverage(result: Coverage, ax: Axes | None = None) -> Axes:
    """Coverage of all rows and of each part with exact intervals, beside the nominal level."""
    frame = result.to_frame().iloc[::-1]
    with canvas(ax, (7.0, 1.4 + 0.34 * len(frame))) as axes:
        at = np.arange(len(frame))
        colours = [INK if name == "all" else ACCENT for name in frame.index]
        axes.hlines(at, frame["lower"], frame["upper"], color=colours, linewidth=2.5)
        axes.scatter(frame["coverage"], at, color=colours, s=28, zorder=3)
        axes.axvline(result.nominal, color=WARM, linewidth=1.2, linestyle="--")
        names = [f"{name} (n = {rows})" for name, rows in zip(frame.index, frame["rows"], strict=True)]
        axes.set_yticks(at, names)
        axes.set_ylim(-0.6, len(frame) - 0.4)
        size = f"{result.size.estimand} {fmt(result.size.estimate)}"
        text = f"coverage, {100 * result.coverage.level:g}% exact interval (dashed: nominal {result.nominal:g})"
        axes.set(xlabel=text, title=f"Measured coverage, {size}")
        return axes


@draw.register
def _conformal(result: Conformal, ax: Axes | None = None) -> Axes:
    """The calibration scores and the quantile that the level takes from them."""
    words = {"residual": "|y - prediction|", "normalised": "|y - prediction| / spread", "lac": "1 - probability"}
    with canvas(ax) as axes:
        axes.hist(result.scores, bins=min(60, max(10, result.n // 10)), color=ACCENT, alpha=0.35)
        frame = result.to_frame()
        frame = frame[frame["level"] == result.level]
        for k, (_, row) in enumerate(frame.iterrows()):
            name = f" of class {row['class']}" if "class" in frame else ""
            value = float(row["quantile"])
            if np.isfinite(value):
                style = ("--", "-.", ":")[k % 3]
                axes.axvline(value, color=WARM, linestyle=style, label=f"{result.level:g} quantile{name}: {fmt(value)}")
        axes.set(
            xlabel=f"score: {words.get(result.score, 'probability of more likely classes')}", ylabel="calibration rows"
        )
        axes.set_title(f"{result.n} calibration scores, {result.method}\n{result.name}")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best")
        return axes
