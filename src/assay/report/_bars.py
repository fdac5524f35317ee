"""Horizontal bars with a name beside each, on a canvas as large as the names need; importance is drawn with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from assay.importance import Importance
from assay.metrics.definition import PERCENT
from assay.numbers import fmt
from assay.report._tree_plan import measured, plain
from assay.report.picture import ACCENT, INK, canvas
from assay.trees.conditions import clean

__all__ = ["BARS", "bars", "importance_bars"]

BARS = 30
"""How many columns or rules are drawn, the largest ones."""
LETTERS = 60
"""How many letters of a name are shown beside its bar."""


@contextmanager
def bars(ax: Axes | None, names: Sequence[str], *, letters: int = LETTERS) -> Iterator[Axes]:
    """A canvas as large as its bars and the names beside them need."""
    words = [plain(clean(name if len(name) <= letters else f"{name[: letters - 1]}…")) for name in names]
    beside = max((measured(word, 9.0, False) for word in words), default=0.0) / 72
    with canvas(ax, (5.4 + beside, 1.4 + 0.28 * len(words))) as axes:
        yield axes
        # Names come from files: a dollar sign in them is no mathematics.
        axes.set_yticks(np.arange(len(words)), words, parse_math=False)
        axes.set_ylim(-0.6, len(words) - 0.4)
        axes.grid(visible=False, axis="y")


def importance_bars(result: Importance, ax: Axes | None, *, title: str, axis: str, rows: str) -> Axes:
    """The most important columns on top, each with its interval; zero is a column that does not matter."""
    top = result.order[:BARS][::-1]
    with bars(ax, [result.names[j] for j in top]) as axes:
        at = np.arange(top.size)
        axes.barh(at, result.importance[top], color=ACCENT, alpha=0.25, height=0.7)
        axes.hlines(at, result.lower[top], result.upper[top], color=ACCENT, linewidth=2)
        axes.plot(result.importance[top], at, "o", color=INK, markersize=4)
        axes.axvline(0.0, color=INK, linewidth=0.8)
        shown = "" if top.size == len(result.names) else f" ({top.size} of {len(result.names)})"
        if result.metric in PERCENT:
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: fmt(100 * value)))
            axis = f"{axis} (points)"
        axes.set(xlabel=f"{axis}, {100 * result.level:g}% interval")
        axes.set_title(f"{title}{shown}\n{result.model}{rows}")
        return axes
