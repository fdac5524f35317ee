"""How choices are drawn: learners as dots with their standard errors, a search as a curve, a map or a ranking."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from assay.evaluation.search import Search
from assay.evaluation.select import Selection
from assay.numbers import figure, fmt
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw, mark, percents

__all__: list[str] = []

CHOSEN = "#ffb703"
"""A frame that stands out on dark and on light cells."""
SHOWN = 30
"""How many candidates a ranking shows; more have no room for their names."""
WRITTEN = 60
"""Up to this many cells of a map carry their figure."""
WIDE = 100.0
"""A parameter whose largest value is this many times its smallest is drawn on a logarithmic axis."""


@draw.register
def _selection(result: Selection, ax: Axes | None = None) -> Axes:
    """The simplest on top; the chosen one ringed, what the rule allows in colour, the best as a line."""
    return _dots(result, result.table.head(SHOWN), ax, "the simplest on top")


def _dots(result: Selection, table: pd.DataFrame, ax: Axes | None, how: str) -> Axes:
    at = np.arange(len(table))[::-1]
    with canvas(ax, (8.4, 1.4 + 0.3 * len(table))) as axes:
        within = table["within"].to_numpy(dtype=bool)
        if result.rule in ("best", "readable"):
            within = np.ones(len(table), dtype=bool)
        for mask, colour, words in ((within, ACCENT, _words(result)), (~within, MUTED, "outside it")):
            if not mask.any():
                continue
            error = np.nan_to_num(table["std_error"].to_numpy(float)[mask])
            axes.errorbar(
                table["estimate"].to_numpy(float)[mask],
                at[mask],
                xerr=error,
                fmt="o",
                color=colour,
                elinewidth=1.4,
                markersize=5,
                label=words,
            )
        best = float(result.table["estimate"].to_numpy(float)[result.table.index.get_loc(result.best)])
        error = float(np.nan_to_num(result.table["std_error"].to_numpy(float)[result.table.index.get_loc(result.best)]))
        said = figure(best, best - error, best + error, percent=result.metric.percent)
        axes.axvline(best, color=WARM, linewidth=1, linestyle="--", label=f"best, {said}")
        percents(axes, result.metric)
        chosen = table.index.get_indexer(pd.Index([result.name]))[0]
        if chosen >= 0:
            x = float(table["estimate"].iloc[chosen])
            axes.plot([x], [at[chosen]], "o", markersize=12, markerfacecolor="none", color=INK, label="chosen")
        axes.set_yticks(at, [str(name) for name in table.index])
        axes.grid(visible=False, axis="y")
        axes.set(xlabel=f"{result.metric.name} and one standard error, {how}\n{result.scheme}")
        axes.set_title(f"Chosen: {result.name}")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return axes


@draw.register
def _search(result: Search, ax: Axes | None = None) -> Axes:
    """One numeric parameter as a curve, two as a map, anything else as a ranking."""
    names = result.varied
    good = result.table[result.table["failed"] == ""]
    values = [_numbers([result.candidates[at].get(name) for at in _places(result)]) for name in names]
    if len(names) == 1 and values[0] is not None and len(good) > 1:
        return _curve(result, good, names[0], values[0], ax)
    if len(names) == 2 and values[0] is not None and values[1] is not None and len(good) > 1:
        return _map(result, good, names, values[0], values[1], ax)
    ranked = result.selection.table.loc[good.sort_values("rank", kind="stable").index[:SHOWN]]
    left_out = len(good) - len(ranked)
    how = "the best on top" + (f", {left_out} worse ones not shown" if left_out else "")
    return _dots(result.selection, ranked, ax, how)


def _places(result: Search) -> np.ndarray:
    return np.flatnonzero(result.table["failed"].to_numpy() == "")


def _numbers(values: list[Any]) -> np.ndarray | None:
    if not all(isinstance(value, Real) and not isinstance(value, bool) for value in values):
        return None
    return np.array([float(value) for value in values])


def _logarithmic(x: np.ndarray) -> bool:
    return bool(x.min() > 0 and x.max() >= WIDE * x.min())


def _words(chosen: Selection) -> str:
    """What the coloured candidates have in common, short enough for a legend."""
    if chosen.rule in ("best", "readable"):
        return "one standard error"
    if chosen.rule == "within":
        return f"within {chosen.percent:g}% of the best"
    return "within 1 SE of the best" + (", paired" if chosen.paired else "")


def _at(result: Search, x: np.ndarray, name: str) -> float:
    return float(x[list(result.table.index[_places(result)]).index(name)])


def _curve(result: Search, good: pd.DataFrame, name: str, x: np.ndarray, ax: Axes | None) -> Axes:
    chosen = result.selection
    order = np.argsort(x, kind="stable")
    with canvas(ax) as axes:
        axes.errorbar(
            x[order],
            good["estimate"].to_numpy(float)[order],
            yerr=np.nan_to_num(good["std_error"].to_numpy(float)[order]),
            fmt="o-",
            markersize=4,
            linewidth=1,
            color=ACCENT,
            ecolor=MUTED,
            elinewidth=0.9,
        )
        inside = chosen.table.loc[good.index, "within"].to_numpy(dtype=bool)
        if chosen.rule != "best":
            axes.plot(
                x[inside],
                good["estimate"].to_numpy(float)[inside],
                "o",
                markersize=9,
                markerfacecolor="none",
                color=WARM,
                label=_words(chosen),
            )
        if _logarithmic(x):
            axes.set_xscale("log")
        marks = {"best": _at(result, x, chosen.best)}
        if chosen.name != chosen.best:
            marks["chosen"] = _at(result, x, chosen.name)
        mark(axes, marks)
        axes.set(xlabel=f"{name}\n{result.scheme}", ylabel=f"{result.metric.name} ± one standard error")
        axes.set_title(f"Chosen: {chosen.name}")
        axes.margins(y=0.12)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best")
        return axes


def _map(
    result: Search, good: pd.DataFrame, names: tuple[str, ...], x: np.ndarray, y: np.ndarray, ax: Axes | None
) -> Axes:
    """Cells where the candidates fill a grid, coloured points where they were drawn at random."""
    estimate = good["estimate"].to_numpy(float)
    across, down = np.unique(x), np.unique(y)
    grid = np.full((down.size, across.size), np.nan)
    grid[np.searchsorted(down, y), np.searchsorted(across, x)] = estimate
    shades = "Blues" if result.metric.greater_is_better else "Blues_r"
    chosen = result.selection
    written = ""
    cells = across.size * down.size <= 2 * len(result.candidates)
    with canvas(ax, (7.0, 5.0)) as axes:
        if cells:
            picture: Any = axes.imshow(grid, cmap=shades, aspect="auto", origin="lower")
            axes.set_xticks(range(across.size), [fmt(v, 3) for v in across])
            axes.set_yticks(range(down.size), [fmt(v, 3) for v in down])
            axes.grid(visible=False)
            x, y = np.searchsorted(across, x).astype(float), np.searchsorted(down, y).astype(float)
            if grid.size <= WRITTEN:
                written = ", ± one standard error" if across.size <= 8 else ""
                _write(axes, picture, x, y, estimate, good["std_error"].to_numpy(float), across.size <= 8)
        else:
            picture = axes.scatter(x, y, c=estimate, cmap=shades, s=46, edgecolors=MUTED, linewidths=0.6)
            axes.set_xscale("log" if _logarithmic(x) else "linear")
            axes.set_yscale("log" if _logarithmic(y) else "linear")
        for name, colour in {chosen.best: WARM, chosen.name: CHOSEN}.items():
            left, low = _at(result, x, name), _at(result, y, name)
            if cells:
                frame = Rectangle((left - 0.46, low - 0.46), 0.92, 0.92, fill=False, edgecolor=colour, linewidth=2.5)
                axes.add_patch(frame)
            else:
                axes.plot([left], [low], "o", markersize=14, markerfacecolor="none", markeredgewidth=2, color=colour)
        axes.figure.colorbar(picture, ax=axes).set_label(f"{result.metric.name}{written}")
        text = "yellow: chosen and best" if chosen.name == chosen.best else "yellow: chosen, red: best"
        axes.set(xlabel=f"{names[0]}\n{result.scheme}; {text}", ylabel=names[1], title=f"Chosen: {chosen.name}")
        return axes


def _write(
    axes: Axes, picture: Any, x: np.ndarray, y: np.ndarray, estimate: np.ndarray, error: np.ndarray, roomy: bool
) -> None:
    """Each cell's figure, with its standard error where there is room."""
    for at_x, at_y, value, spread in zip(x, y, estimate, error, strict=True):
        text = f"{fmt(value)}\n± {_short(spread)}" if roomy and np.isfinite(spread) else fmt(value)
        red, green, blue, _ = picture.cmap(picture.norm(value))
        dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
        axes.text(at_x, at_y, text, ha="center", va="center", fontsize=8, color="white" if dark else INK)


def _short(spread: float) -> str:
    """Two digits, and no powers of ten where whole numbers will do."""
    return f"{spread:.0f}" if 10 <= spread < 1e5 else fmt(spread, 2)
