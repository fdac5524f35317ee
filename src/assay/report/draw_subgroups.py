"""How subgroups and slices are drawn: figures or differences with intervals, beside what other rows have."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from assay.evaluation.subgroups import Slices, Subgroups
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, WARM, canvas, draw

__all__: list[str] = []


@draw.register
def _slices(result: Slices, ax: Axes | None = None) -> Axes:
    """The worst slice on top; those shown to be worse in a warm colour."""
    at = np.arange(len(result))[::-1]
    with canvas(ax, (7.0, 1.4 + 0.3 * max(1, len(result)))) as axes:
        colours = [WARM if low > 0 else ACCENT for low in result.lower]
        known = np.isfinite(result.lower) & np.isfinite(result.upper)
        shown = [colour for colour, one in zip(colours, known, strict=True) if one]
        axes.hlines(at[known], result.lower[known], result.upper[known], colors=shown, linewidth=2.4)
        axes.scatter(result.difference, at, c=colours, s=26, zorder=3)
        axes.axvline(0.0, color=INK, linewidth=0.9)
        names = [f"{name} ({rows:,})" for name, rows in zip(result.names, result.n, strict=True)]
        axes.set_yticks(at, names)
        axes.set_ylim(-0.6, len(result) - 0.4)
        axes.grid(visible=False, axis="y")
        unit = ""
        if result.loss == "error rate":
            unit = " (points)"
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: fmt(100 * value)))
        axes.set(xlabel=f"{result.loss}{unit}, slice minus other rows")
        axes.set_title(f"{len(result.worse)} of {len(result)} slices shown to be worse")
        return axes


@draw.register
def _subgroups(result: Subgroups, ax: Axes | None = None) -> Axes:
    """Each subgroup with its interval."""
    found = list(result.intervals.values())
    at = np.arange(len(found))[::-1]
    with canvas(ax, (7.0, 1.4 + 0.3 * len(found))) as axes:
        low, high = (np.array([float(getattr(one, end)) for one in found]) for end in ("lower", "upper"))
        known = np.isfinite(low) & np.isfinite(high)
        axes.hlines(at[known], low[known], high[known], colors=ACCENT, linewidth=2.4)
        axes.scatter([float(one.estimate) for one in found], at, color=ACCENT, s=26, zorder=3)
        axes.set_yticks(at, [f"{name} (n = {one.n})" for name, one in result.intervals.items()])
        axes.set_ylim(-0.6, len(found) - 0.4)
        axes.grid(visible=False, axis="y")
        axes.set(xlabel=f"{found[0].estimand.split(' of ')[0]}, {100 * found[0].level:g}% interval each")
        axes.set_title(f"By {result.column}")
        return axes
