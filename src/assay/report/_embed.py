"""Pictures, tables and numbers as safe pieces of an HTML page.

Pictures are inline SVG with text as text, so that a reader's font shows every script, and with ink and grid taken from
the page, so that they follow its light or dark colours. Whatever comes from a table is escaped where it enters.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, ScalarFormatter

from assay.errors import ReportWarning
from assay.experiment.table.spreadsheet import csv_text
from assay.numbers import fmt
from assay.report.draw import draw
from assay.report.draw_experiment import PLAIN
from assay.report.picture import INK, STYLE

__all__ = [
    "WIDTH",
    "Part",
    "View",
    "attempt",
    "csv_uri",
    "decimal",
    "failure",
    "json_block",
    "p_value",
    "percent",
    "picture",
    "say",
    "sentence",
    "table_of",
]

GRID = "#e8ebf0"
DASH = "—"
BROAD = 420
"""A picture of more points than these has the width of the paper to itself."""
WIDTH = 5.5
"""How wide a picture may be, in inches, to be read on a phone as it is."""
ROOMY = 12
"""Longer names beside a picture leave it too narrow for the words under it."""
LETTERS = 14.0
"""How many letters of the numbers under a picture have room in an inch."""
SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "assay", "text.color": INK}
_NUMBER = r"[-+<]?\D{0,3}\d[\d.,]*%?|-?∞"
_FIGURE = re.compile(rf"(?:{_NUMBER}|-?inf)(?: \((?:{_NUMBER}) to (?:{_NUMBER})\)| to (?:{_NUMBER}))?")
_EXPONENT = re.compile(r"(?<![\w.])-?\d(?:\.\d+)?e[+-]\d+(?!\w)")
_TINY_P = re.compile(r"\bp [=<] \d(?:\.\d+)?e-(?:0[5-9]|[1-9]\d+)")
_PLUS_MINUS = re.compile(r"\+-(?=\d)")
_TAG = re.compile(r"<[^<>]+>")
_LETTERING = re.compile(r">[^<>]*e[+-]\d[^<>]*<")
_FONT = re.compile(r"font-family: [^;\"]*; ?")
_AIM = re.compile(r'(\bid="|\burl\(#|href="#)')


@dataclass(frozen=True)
class View:
    """A table as the page shows it: cells are text, `numbers` are the positions of columns set to the right."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    marked: frozenset[int] = frozenset()
    shades: tuple[tuple[float, ...], ...] = ()
    """By row and column after the first: how dark a cell is, from 0 to 1; empty for a plain table."""


@dataclass(frozen=True)
class Part:
    """A piece of a section: a heading, sentences, a picture, a table; or the sentence that says why there is none.

    A `folded` part shows its table or listing on a click: it repeats a picture, or is for the record. On paper it is
    left out, unless it is one `for_record`. A `wide` part takes the whole width of the page, others half of it.
    """

    title: str = ""
    words: tuple[str, ...] = ()
    picture: Markup | None = None
    caption: str = ""
    view: View | None = None
    listing: str = ""
    failed: str = ""
    """Why the part could not be made, and nothing else is there."""
    checks: tuple[Any, ...] = ()
    folded: bool = False
    for_record: bool = False
    wide: bool = False


def attempt(title: str, make: Callable[[], Part | None]) -> list[Part]:
    """The part, or a sentence in its place and a `ReportWarning`: one that fails must not lose the report."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a learner's complaints belong to its fit, not to the page
            made = make()
    except Exception as error:
        lines = str(error).strip().splitlines()
        why = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        return [failure(title, why)]
    return [] if made is None else [made]


def failure(title: str, why: str) -> Part:
    """What stands in the place of a part that could not be made; nobody should have to find it on the page."""
    warnings.warn(
        f"the report has no section {title!r}, which could not be made ({why[:300]})", ReportWarning, stacklevel=3
    )
    return Part(title, failed=why[:300])


def picture(
    result: Any,
    size: tuple[float, float],
    alt: str,
    *,
    paper: bool = False,
    panels: tuple[int, int] | None = None,
    paint: Callable[[Any], Any] | None = None,
    titled: bool = True,
) -> Markup:
    """A result as inline SVG; `paper` keeps its own white ground, `paint` draws on bare axes instead of a result.

    A picture whose heading says the same goes without its title.
    """
    with warnings.catch_warnings(), mpl.rc_context({**STYLE, **PLAIN, **SVG}):
        warnings.simplefilter("ignore")  # scripts that matplotlib's font lacks are shown by the reader's own
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)  # some painters measure their text while they draw
        axes: Any = figure.subplots() if panels is None else figure.subplots(*panels, squeeze=False)
        if paint is None:
            draw(result, ax=axes)
            if not titled:
                axes.set_title("", loc="left")
        else:
            paint(axes)
        _legends_above(figure)
        _write_out(figure)
        for one in figure.axes:
            if _beside(one) > ROOMY:  # a label centred under narrow axes would be cut off at the edge
                one.set_xlabel(one.get_xlabel(), loc="right")
        if not paper:
            figure.patch.set_alpha(0.0)
            for one in figure.axes:
                one.patch.set_alpha(0.0)
        file = io.StringIO()
        # The canvas itself draws once; `savefig` would draw a second time to lay out what is laid out already.
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
    return _inline(file.getvalue(), alt, paper)


def _write_out(figure: Figure) -> None:
    """Ticks as numbers are written elsewhere: 26,000 and 0.0000015, and no power of ten beside the axis."""
    for text in figure.findobj(Text):
        if _EXPONENT.search(text.get_text()):
            text.set_text(decimal(text.get_text()))  # before the layout, which must know how long it is
    for one in figure.axes:
        for axis in (one.xaxis, one.yaxis):
            if isinstance(axis.get_major_formatter(), ScalarFormatter):
                axis.set_major_formatter(FuncFormatter(lambda value, _: decimal(fmt(value))))
        named = isinstance(one.xaxis.get_major_locator(), FixedLocator)  # categories keep all their names
        if isinstance(one.xaxis.get_major_formatter(), FuncFormatter) and not named:
            _thin_out(one, figure.get_size_inches()[0])


def _beside(axes: Axes) -> int:
    """How many letters the longest name beside some axes has."""
    return max((len(label.get_text()) for label in axes.get_yticklabels()), default=0)


def _thin_out(axes: Axes, width: float) -> None:
    """Fewer ticks where their labels would touch, in a figure of this width in inches."""
    low, high = sorted(axes.get_xlim())
    grid: Any = axes.get_gridspec()
    panels = 1 if grid is None else grid.ncols
    room = width / panels * LETTERS - _beside(axes)
    for most in (9, 7, 5, 4, 3):
        at = [tick for tick in axes.xaxis.get_majorticklocs() if low <= tick <= high]
        if sum(len(label) + 2 for label in axes.xaxis.get_major_formatter().format_ticks(at)) <= room:
            return
        axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))


def _legends_above(figure: Figure) -> None:
    """Legends that stand to the right of their axes go above the picture, which is then narrow enough for a phone."""
    for axes in figure.axes:
        legend = axes.get_legend()
        if legend is None:
            continue
        start = legend.get_bbox_to_anchor().transformed(axes.transAxes.inverted()).x0
        if start > 0.99 and not axes.get_title(loc="left"):
            handles = [one for one in legend.legend_handles if one is not None]
            labels = [text.get_text() for text in legend.get_texts()]
            legend.remove()
            figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))


def _inline(svg: str, alt: str, paper: bool) -> Markup:
    """The SVG element alone: its own names for ids, colours of the page, and words for those who cannot see it."""
    svg = svg[svg.index("<svg") :]
    # A style inside an SVG would hold for the whole page, which has the same rule of its own.
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    mark = f"p{hash_of(svg + alt)}-"

    def tag(found: re.Match[str]) -> str:
        text = _AIM.sub(lambda aim: aim.group(1) + mark, found.group())
        text = _FONT.sub("", text)
        return text if paper else text.replace(INK, "currentColor").replace(GRID, "var(--grid)")

    svg = _LETTERING.sub(lambda found: decimal(found.group()), _TAG.sub(tag, svg))
    width, height = (float(x) for x in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    # On a phone a picture shrinks to its width; a broad one would be too small to read and is moved sideways.
    least = f";min-width:{(0.95 if width > BROAD else 0.72) * width:.0f}px" if width > 320 else ""
    look = ("paper" if paper else "ink") + (" broad" if width > BROAD else "")
    head = (
        f'<svg class="{look}" role="img" aria-label="{escape(alt)}" '
        f'viewBox="0 0 {width:g} {height:g}" style="max-width:{1.25 * width:.0f}px{least}" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    # The text between tags is escaped by matplotlib; the opening tag is written anew, with the page's own width.
    return Markup(head + svg[svg.index(">") + 1 :].strip())


def hash_of(text: str) -> str:
    """Eight digits that tell one picture from another, the same in every run."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def say(value: Any, digits: int = 4) -> str:
    """A cell in print: numbers to four digits, a dash for what is not there.

    >>> say(0.123456), say(None), say(1234567), say(float("inf")), say((12, 1500))
    ('0.1235', '—', '1,234,567', '∞', '12 + 1,500')
    """
    if value is None:
        return DASH
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, tuple):
        return " + ".join(say(one, digits) for one in value)
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return DASH
        if math.isinf(number):
            return "∞" if number > 0 else "-∞"
        return decimal(fmt(number, digits))
    return decimal(str(value)) if _EXPONENT.fullmatch(str(value)) else str(value)


def decimal(text: Any) -> str:
    """A sentence whose numbers are written out: readers of the page are not asked to know powers of ten.

    >>> decimal("p = 9.06e-05"), decimal("1.5e+15 rows"), decimal("id 3e10")
    ('p < 0.0001', '1,500,000,000,000,000 rows', 'id 3e10')
    >>> decimal("p = 9.06e-14"), decimal("to +-5 points")
    ('p < 0.0001', 'to ±5 points')
    """
    short = _PLUS_MINUS.sub("±", _TINY_P.sub("p < 0.0001", str(text)))
    return _EXPONENT.sub(lambda found: f"{Decimal(found.group()):,f}", short)


def p_value(p: float) -> str:
    """A p-value in a cell; a smaller one than 0.0001 says no more than that.

    >>> p_value(0.0213), p_value(9e-14), p_value(float("nan"))
    ('0.021', '<0.0001', '—')
    """
    if math.isnan(p):
        return DASH
    return "<0.0001" if p < 1e-4 else fmt(p, 2)


def percent(value: float) -> str:
    """A share in percent; one below 1 is not rounded to all.

    >>> percent(0.0123), percent(0.99982), percent(1.0)
    ('1.2%', '>99.9%', '100%')
    """
    text = f"{fmt(100 * value, 2 if value < 0.1 else 3)}%"
    return ">99.9%" if text == "100%" and value < 1 else text


def table_of(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    marked: Iterable[int] = (),
    shades: Sequence[Sequence[float]] = (),
    amounts: Iterable[int] = (),
) -> View:
    """A table from any cells; columns that hold numbers only, and those of `amounts`, are set to the right."""
    cells = [tuple(row) for row in rows]
    numbers = frozenset(j for j in range(len(columns)) if cells and all(_numeric(row[j]) for row in cells))
    numbers |= frozenset(amounts)
    shown = tuple(tuple(decimal(say(value)) if j else say(value) for j, value in enumerate(row)) for row in cells)
    dark = tuple(tuple(round(float(one), 3) for one in row) for row in shades)
    return View(caption, tuple(columns), shown, numbers, frozenset(marked), dark)


def _numeric(value: Any) -> bool:
    if value is None or isinstance(value, int | float | np.number):
        return True
    return str(value) == DASH or bool(_FIGURE.fullmatch(decimal(value)))


def json_block(value: Any) -> Markup:
    """JSON that no parser of HTML can leave: every bracket and ampersand is written by its number.

    >>> json_block({"a": "</script>"})
    Markup('{"a": "\\\\u003c/script\\\\u003e"}')
    """
    text = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, default=str)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _finite(value: Any) -> Any:
    """JSON has no word for NaN and infinity; they become null."""
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def csv_uri(frame: pd.DataFrame) -> str:
    """A CSV file as an address; text that a spreadsheet would run as a formula gets a quote in front.

    >>> csv_uri(pd.DataFrame({"a": ["=1+1"]}))
    'data:text/csv;charset=utf-8;base64,YQonPTErMQo='
    """
    return "data:text/csv;charset=utf-8;base64," + b64encode(csv_text(frame).encode("utf-8", "replace")).decode()


def sentence(words: Any) -> str:
    """Words with a capital and a full stop.

    >>> sentence("one row is missing")
    'One row is missing.'
    """
    words = str(words).strip()
    words = words[:1].upper() + words[1:]
    return words if not words or words[-1] in ".!?" else words + "."
