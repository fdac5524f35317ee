"""Pictures of the results that all families share: curves, paths, traces, summaries, intervals, diagnostics."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy import stats

from assay.errors import ParameterError
from assay.report.picture import ACCENT, INK, MUTED, STYLE, WARM, canvas, draw, mark, trend
from assay.results import Curve, Diagnostics, Path, Summary, Trace

__all__: list[str] = []

LABELLED = 10
"""How many coefficients of a path are named; more would only cover each other."""


@draw.register
def _curve(result: Curve, ax: Axes | None = None) -> Axes:
    with canvas(ax) as axes:
        if result.points is not None:
            axes.scatter(*result.points, s=10, color=MUTED, alpha=0.5, linewidths=0, label="data", zorder=1)
        if result.lower is not None and result.upper is not None:
            text = "band" if result.level is None else f"{100 * result.level:g}% band, pointwise"
            axes.fill_between(result.x, result.lower, result.upper, color=ACCENT, alpha=0.18, linewidth=0, label=text)
        if result.std_error is not None and result.lower is None:
            axes.errorbar(
                result.x,
                result.estimate,
                yerr=result.std_error,
                fmt="o",
                markersize=3,
                color=ACCENT,
                ecolor=MUTED,
                elinewidth=0.8,
                label="estimate and one standard error",
            )
        else:
            few = result.x.size <= 30 and result.points is None
            axes.plot(result.x, result.estimate, color=ACCENT, marker="o" if few else None, markersize=4)
        if result.rule is not None:
            axes.axhline(result.rule, color=WARM, linewidth=1, linestyle="--", label="one-standard-error line")
        mark(axes, result.marks)
        if result.log_x:
            axes.set_xscale("log")
        elif np.all(result.x == np.round(result.x)):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel=result.x_name, ylabel=result.y_name, title=result.title)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best")
        return axes


@draw.register
def _path(result: Path, ax: Axes | None = None) -> Axes:
    with canvas(ax, (7.6, 4.8)) as axes:
        x, x_name, log_x, marks = _path_axis(result)
        ends = np.abs(result.coefficients).max(axis=1, initial=0.0)
        loud = set(np.argsort(-ends, kind="stable")[: min(LABELLED, int((ends > 0).sum()))].tolist())
        colours = plt.get_cmap("tab10")
        named: list[tuple[float, str, Any]] = []
        for j in np.flatnonzero(ends > 0):
            line = result.coefficients[j]
            if int(j) in loud:
                colour = colours(len(named) % 10)
                named.append((float(line[-1]), result.names[int(j)], colour))
                axes.plot(x, line, color=colour, linewidth=1.4)
            else:
                axes.plot(x, line, color=MUTED, linewidth=0.7, alpha=0.6)
        axes.axhline(0.0, color=INK, linewidth=0.8)
        if log_x:
            axes.set_xscale("log")
        if x.size > 1 and x[0] > x[-1]:
            axes.invert_xaxis()  # the path is read from the empty model to the full one
        mark(axes, marks)
        axes.set(xlabel=x_name, ylabel="coefficient", title=result.title)
        _name_ends(axes, named)
        return axes


def _path_axis(result: Path) -> tuple[np.ndarray, str, bool, Any]:
    """The x axis of a path. One that ends at zero has no logarithm there: it is drawn against |b|_1 instead."""
    if not result.log_x or np.all(result.x > 0):
        return result.x, result.x_name, result.log_x, result.marks
    size = np.abs(result.coefficients).sum(axis=0)
    share = size / size.max(initial=np.finfo(float).tiny)
    order = np.argsort(result.x, kind="stable")
    marks = {name: float(np.interp(at, result.x[order], share[order])) for name, at in result.marks.items()}
    return share, "sum |coefficient|, as a share of its largest", False, marks


def _name_ends(axes: Axes, named: list[tuple[float, str, Any]]) -> None:
    """Names beside the right end of each line, pushed apart where they would cover each other."""
    low, high = axes.get_ylim()
    gap = 0.045 * (high - low)
    previous = -np.inf
    for y, name, colour in sorted(named, key=lambda item: item[0]):
        at = max(y, previous + gap)
        previous = at
        axes.annotate(
            name,
            (1.0, at),
            xycoords=("axes fraction", "data"),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=colour,
            annotation_clip=False,
        )


@draw.register
def _trace(result: Trace, ax: Axes | None = None) -> Axes:
    with canvas(ax) as axes:
        steps = np.arange(1, result.n_iter + 1)
        axes.plot(steps, result.objective, color=ACCENT, marker="o" if result.n_iter <= 30 else None, markersize=3)
        if np.all(result.objective > 0):
            axes.set_yscale("log")
        verdict = "converged" if result.converged else "not converged"
        axes.set(xlabel="iteration", ylabel="objective", title=f"{verdict} after {result.n_iter} iterations")
        return axes


@draw.register
def _summary(result: Summary, ax: Axes | None = None) -> Axes:
    table = result.table.drop(index="intercept", errors="ignore").iloc[::-1]
    with canvas(ax, (7.0, 1.2 + 0.32 * len(table))) as axes:
        at = np.arange(len(table))
        axes.hlines(at, table["lower"], table["upper"], color=ACCENT, linewidth=2)
        axes.plot(table["estimate"], at, "o", color=INK, markersize=5)
        axes.axvline(0.0, color=WARM, linewidth=1, linestyle="--")
        axes.set_yticks(at, [str(name) for name in table.index])
        axes.set(xlabel="coefficient and its interval", title=result.title)
        return axes


@draw.register
def _diagnostics(result: Diagnostics, ax: Any = None) -> np.ndarray:
    """Four panels: residuals against fit, normal quantiles, scale against fit, and leverage with Cook's distance."""
    with plt.rc_context(STYLE):
        panels = plt.subplots(2, 2, figsize=(9.5, 7.2), layout="constrained")[1].ravel() if ax is None else np.ravel(ax)
        if len(panels) != 4:
            raise ParameterError(
                f"diagnostics need four panels, but ax has {len(panels)} axes",
                remedy="pass the axes of plt.subplots(2, 2)",
            )
        dots = {"s": 12, "color": ACCENT, "alpha": 0.6, "linewidths": 0}
        r = result.standardized
        worst = np.argsort(-np.nan_to_num(result.cooks_distance), kind="stable")[:3]

        panels[0].scatter(result.fitted, result.residuals, **dots)
        trend(panels[0], result.fitted, result.residuals)
        panels[0].axhline(0.0, color=INK, linewidth=0.8)
        panels[0].set(xlabel="fitted value", ylabel="residual", title="Residuals against fit")
        _name_rows(panels[0], result, worst, result.fitted, result.residuals)

        theory = stats.norm.ppf((stats.rankdata(r, method="ordinal") - 0.5) / r.size)
        panels[1].scatter(theory, r, **dots)
        reach = [float(np.nanmin(theory)), float(np.nanmax(theory))]
        panels[1].plot(reach, reach, color=INK, linewidth=0.8)
        panels[1].set(xlabel="normal quantile", ylabel="standardised residual", title="Normal quantiles")
        _name_rows(panels[1], result, worst, theory, r)

        scale = np.sqrt(np.abs(r))
        panels[2].scatter(result.fitted, scale, **dots)
        trend(panels[2], result.fitted, scale)
        panels[2].set(xlabel="fitted value", ylabel="√|standardised residual|", title="Scale against fit")
        _name_rows(panels[2], result, worst, result.fitted, scale)

        panels[3].scatter(result.leverage, r, **dots)
        panels[3].axhline(0.0, color=INK, linewidth=0.8)
        _cook_contours(panels[3], result)
        panels[3].set(xlabel="leverage", ylabel="standardised residual", title="Influence")
        _name_rows(panels[3], result, worst, result.leverage, r)
        return panels


def _name_rows(axes: Axes, result: Diagnostics, rows: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    for row in rows:
        axes.annotate(
            f"{result.label(int(row))}",
            (x[row], y[row]),
            xytext=(4, 3),
            textcoords="offset points",
            fontsize=8,
            color=INK,
        )


def _cook_contours(axes: Axes, result: Diagnostics) -> None:
    """Where Cook's distance would be one half and one: D = r^2 h / (1 - h) / k, k from the rows themselves."""
    rank = float(result.leverage.sum())
    low, high = axes.get_ylim()
    h = np.linspace(1e-3, min(0.999, 1.1 * float(result.leverage.max())), 200)
    for distance, style in ((0.5, "--"), (1.0, "-")):
        bound = np.sqrt(distance * rank * (1 - h) / h)
        for sign in (1, -1):
            axes.plot(h, sign * bound, color=WARM, linewidth=0.9, linestyle=style)
    axes.set_ylim(low, high)
    axes.plot([], [], color=WARM, linewidth=0.9, linestyle="--", label="Cook's distance ½")
    axes.plot([], [], color=WARM, linewidth=0.9, label="Cook's distance 1")
    axes.legend(loc="best")
