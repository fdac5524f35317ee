"""What every picture shares: the dispatcher that results register with, the style, and small marks.

    @draw.register
    def _my_result(result: MyResult, ax: Axes | None = None) -> Axes: ...

in a module `draw_<subject>.py` of this package is all that a new kind of result needs; `assay.report.draw` finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import singledispatch
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from assay.numbers import fmt

__all__ = ["ACCENT", "INK", "MUTED", "STYLE", "WARM", "canvas", "draw", "mark", "percents", "trend"]

INK, MUTED, ACCENT, WARM = "#1b2a41", "#8d99ae", "#1f77b4", "#d1495b"

STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "grid.color": "#e8ebf0",
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "font.size": 10,
    "figure.dpi": 110,
    "savefig.bbox": "tight",
}


@singledispatch
def draw(result: Any, ax: Axes | None = None) -> Any:
    """Draw a result into `ax`, or into a new figure."""
    raise TypeError(f"a {type(result).__name__} cannot be plotted")


@contextmanager
def canvas(ax: Axes | None, size: tuple[float, float] = (7.0, 4.4)) -> Iterator[Axes]:
    """The axes to draw into, in the style of the house: those given, or new ones of this size in inches."""
    with plt.rc_context(STYLE):
        yield plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def percents(axes: Axes, metric: Any, *, points: bool = False) -> None:
    """Ticks of a metric that people read in percent as percentages, or of differences as points."""
    if metric.percent:
        sign = "" if points else "%"
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{fmt(100 * value)}{sign}"))


def mark(axes: Axes, marks: Any) -> None:
    """Named vertical lines; two marks at one place share a line and a label."""
    at: dict[float, list[str]] = {}
    for name, x in marks.items():
        at.setdefault(float(x), []).append(name)
    for x, names in at.items():
        axes.axvline(x, color=INK, linewidth=1, linestyle=":")
        axes.annotate(
            ", ".join(names),
            (x, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -3),
            textcoords="offset points",
            va="top",
            fontsize=9,
            color=INK,
        )


def trend(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """The mean of y in twelve equally filled slices of x, enough to see a bend or a fan."""
    order = np.argsort(x, kind="stable")
    slices = [part for part in np.array_split(order, 12) if part.size >= 3]
    if len(slices) > 2:
        axes.plot([x[part].mean() for part in slices], [y[part].mean() for part in slices], color=WARM, linewidth=1.4)
