"""How comparisons are drawn: differences with their intervals beside zero, one error beside a stated one."""

from __future__ import annotations

from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from assay.evaluation.assess import Assessment
from assay.evaluation.compare import Comparison
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw, percents

__all__: list[str] = []

MOST = 60
"""How many pairs are drawn; more lines cannot be read."""


@draw.register
def _comparison(result: Comparison, ax: Axes | None = None) -> Axes:
    """A forest plot: one line per pair, coloured where a difference is shown, with the better side written."""
    m = min(len(result.pairs), MOST)
    at = np.arange(m)[::-1]
    shown = result.rejected[:m]
    with canvas(ax, (7.6, 1.7 + 0.36 * m)) as axes:
        colours = np.where(shown, ACCENT, MUTED).tolist()
        lower, upper = _reach(result.differences[:m], result.lower[:m], result.upper[:m])
        axes.hlines(at, lower, upper, colors=colours, linewidth=2.2)
        axes.scatter(result.differences[:m], at, c=colours, s=30, zorder=3)
        axes.axvline(0.0, color=WARM, linewidth=1, linestyle="--")
        axes.set_yticks(at, list(result.labels[:m]))
        axes.set_ylim(-0.7, m - 0.3)
        _open_ends(axes, at, lower, np.isneginf(result.lower[:m]), "<", colours)
        _open_ends(axes, at, upper, np.isposinf(result.upper[:m]), ">", colours)
        left, right = ("second", "first") if result.metric.greater_is_better else ("first", "second")
        level = f"{100 * result.level:g}%"
        family = f"{level} together" if result.together else f"{level}, each on its own"
        unit = ", points" if result.metric.percent else ""
        percents(axes, result.metric, points=True)
        more = f", first {m} of {len(result.pairs)} pairs" if m < len(result.pairs) else ""
        axes.set(
            xlabel=f"difference in {result.metric.name}{unit} ({result.interval_method} intervals, {family}{more})\n"
            f"◂ {left} is better   |   {right} is better ▸",
            title=fill(f"{result.method}, {result.scheme}", 70),
        )
        axes.grid(visible=False, axis="y")
        _legend(axes, result, shown)
        return axes


def _reach(centre: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Infinite ends of one-sided intervals drawn to the edge of what else there is."""
    ends = np.concatenate([centre[np.isfinite(centre)], lower[np.isfinite(lower)], upper[np.isfinite(upper)], [0.0]])
    span = float(ends.max() - ends.min()) or 1.0
    low, high = float(ends.min()) - 0.3 * span, float(ends.max()) + 0.3 * span
    return np.where(np.isneginf(lower), low, lower), np.where(np.isposinf(upper), high, upper)


def _open_ends(axes: Axes, at: np.ndarray, ends: np.ndarray, infinite: np.ndarray, marker: str, colours: list) -> None:
    """An arrow head where an interval has no end."""
    for y, x, goes_on, colour in zip(at, ends, infinite, colours, strict=True):
        if goes_on:
            axes.plot([x], [y], marker=marker, color=colour, markersize=7)


def _legend(axes: Axes, result: Comparison, shown: np.ndarray) -> None:
    kinds = []
    if shown.any():
        kinds.append(Line2D([], [], color=ACCENT, marker="o", linewidth=2.2, label="shown to differ"))
    if not shown.all():
        kinds.append(Line2D([], [], color=MUTED, marker="o", linewidth=2.2, label="no difference shown"))
    axes.legend(handles=kinds, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.2)


@draw.register
def _assessment(result: Assessment, ax: Axes | None = None) -> Axes:
    """The error and its interval beside the stated one."""
    found = result.interval()
    with canvas(ax, (6.4, 1.9)) as axes:
        values = (np.array([value], dtype=float) for value in (found.estimate, found.lower, found.upper))
        centre, lower, upper = values
        lower, upper = _reach(np.append(centre, result.p0), lower, upper)
        axes.hlines([0], lower, upper, color=ACCENT if result.rejected else MUTED, linewidth=3)
        axes.plot(centre, [0], "o", color=INK)
        axes.axvline(result.p0, color=WARM, linewidth=1, linestyle="--")
        axes.annotate(
            f"stated {result.p0:g}",
            (result.p0, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(4, -2),
            textcoords="offset points",
            va="top",
            fontsize=9,
            color=WARM,
        )
        axes.set_yticks([])
        axes.set(
            xlabel=f"{result.estimand}, {100 * found.level:g}% {found.method} interval, n = {found.n}",
            title=fill(f"{result.name}: {result.verdict}", 70),
        )
        return axes
