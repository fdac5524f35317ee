"""How telling words are drawn: for each class a block of bars, the log odds that each word adds, with its limits."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from assay.generative.text import TellingWords
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw

__all__: list[str] = []

SHOWN = 60
"""More bars than this are told, not drawn: each class then shows its first words only."""
COLOURS = (ACCENT, WARM, "#3a7d44", "#8e6c8a", "#c98a2b", "#4f6d7a")


@draw.register
def _telling_words(result: TellingWords, ax: Axes | None = None) -> Axes:
    each = max(1, SHOWN // max(1, len(result.classes)))
    table = result.table.groupby("class", sort=False).head(each)
    rows = len(table) + len(result.classes)
    with canvas(ax, (7.0, 1.5 + 0.24 * rows)) as axes:
        at = 0.0
        ticks, names = [], []
        finite = table[["log_odds", "upper"]].to_numpy(dtype=float)
        reach = float(np.max(finite[np.isfinite(finite)], initial=1.0))
        for k, label in enumerate(result.classes):
            part = table[[one == label for one in table["class"]]]
            colour = COLOURS[k % len(COLOURS)]
            axes.text(0.0, at, f" {label}", color=colour, fontweight="bold", fontsize=10, va="center", ha="left")
            at -= 1.0
            place = at - np.arange(len(part))
            odds = np.minimum(part["log_odds"].to_numpy(dtype=float), 1.05 * reach)
            low = np.maximum(part["lower"].to_numpy(dtype=float), -1.05 * reach)
            high = np.minimum(part["upper"].to_numpy(dtype=float), 1.05 * reach)
            axes.barh(place, odds, height=0.72, color=colour, alpha=0.55, linewidth=0)
            axes.hlines(place, low, high, color=INK, linewidth=1.1)
            ticks += place.tolist()
            names += [str(word) for word in part["word"]]
            at -= len(part) + 0.4
        axes.set_yticks(ticks, names)
        axes.axvline(0.0, color=MUTED, linewidth=0.9)
        axes.set_ylim(at, 0.8)
        axes.grid(visible=False, axis="y")
        per = "occurrence of the word" if result.model == "multinomial" else "presence of the word"
        axes.set_xlabel(f"log odds of the class per {per}, {100 * result.level:g}% limits")
        axes.set_title("Most informative words")
        return axes
