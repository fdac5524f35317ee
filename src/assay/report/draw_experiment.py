"""How a study is drawn: its table, its leaderboard, and the opened test set.

Names come from files, so a dollar sign is a dollar sign (never mathematics), and long names are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text

from assay.experiment.outcome import Leaderboard, Opened
from assay.experiment.panel import BASELINE
from assay.experiment.table import Table
from assay.experiment.test_set.against_baseline import BaselineTest
from assay.metrics import get_metric
from assay.metrics.confusion import Confusion, confusion_matrix
from assay.metrics.curves import calibration_curve, precision_recall_curve, roc_curve
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, STYLE, WARM, canvas, draw, percents, trend

__all__ = ["PLAIN", "PredictedAgainstTrue", "Residuals", "Target", "pictures_of", "plain", "safe"]

DOTS = 1_200
"""How many test rows are drawn as dots; more is a blot."""
CROWDED = 1_000
"""From here on calibration bins are ten instead of five."""
CLASSES = 40
"""Up to this many classes a confusion table can be read."""
BESIDE = np.array([(x * r, y * r) for r in (1, 2, 3) for y in (0, 9, -9) for x in (7, -7, 0) if x or y])
"""Where the number of a dot may stand, in points from it, the best first."""
LETTER = np.array([10.0, 11.0])
"""Width and height of a number in points, with room for the layout that comes after."""
BARS = 40
"""How many columns of a table are drawn."""
PLAIN: Any = {"text.parse_math": False}
"""Text is drawn as it is written."""


def plain(name: Any, width: int = 28) -> str:
    """A name as one short printable line.

    >>> plain("a\\nb"), plain("x" * 40, 10)
    ('a b', 'xxxxxxxxx…')
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def safe(axes: Any) -> None:
    """Turn every text of some axes, or of a figure, into plain text."""
    for text in axes.findobj(Text):
        text.set_parse_math(False)


@contextmanager
def _plain_canvas(ax: Axes | None, size: tuple[float, float] = (7.0, 4.4)) -> Iterator[Axes]:
    with plt.rc_context(PLAIN), canvas(ax, size) as axes:
        yield axes
        safe(axes)


@draw.register
def _leaderboard(result: Leaderboard, ax: Axes | None = None) -> Axes:
    """Every learner with its interval, the best on top, beside the line of the guess without features."""
    names = result.order[::-1]
    found = [result.results[name].interval(result.level) for name in names]
    first = result.results[names[0]]
    with _plain_canvas(ax, (7.0, 1.3 + 0.36 * len(names))) as axes:
        at = np.arange(len(names))
        estimate, lower, upper = (
            np.array([float(getattr(one, end)) for one in found]) for end in ("estimate", "lower", "upper")
        )
        colours = [MUTED if name == BASELINE else ACCENT for name in names]
        known = np.isfinite(lower) & np.isfinite(upper)
        axes.hlines(at[known], lower[known], upper[known], colors=[c for c, k in zip(colours, known, strict=True) if k])
        axes.collections[-1].set_linewidth(2.6)
        axes.scatter(estimate, at, c=colours, s=38, zorder=3)
        if BASELINE in result.results:
            guess = result.results[BASELINE].estimate
            axes.axvline(guess, color=WARM, linewidth=1, linestyle="--", label="no features")
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
        axes.set_yticks(at, [plain(name) for name in names])
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.grid(visible=False, axis="y")
        percents(axes, first.metric)
        way = "greater is better ▸" if first.metric.greater_is_better else "◂ smaller is better"
        axes.set(
            xlabel=f"{first.metric.name}, {100 * result.level:g}% interval ({way})",
            title=f"Leaderboard, {first.scheme}",
        )
        return axes


@draw.register
def _table(result: Table, ax: Axes | None = None) -> Axes:
    """The share of missing cells of each column, the kinds told by colour."""
    names = list(result.frame.columns)[:BARS][::-1]
    shades = {"number": ACCENT, "category": WARM, "date": INK, "text": "#6a994e", "id": MUTED}
    with _plain_canvas(ax, (7.0, 1.3 + 0.26 * len(names))) as axes:
        shares = [float(result.frame[name].isna().mean()) for name in names]
        at = np.arange(len(names))
        colours = [shades[result.kinds[name]] for name in names]
        axes.barh(at, shares, color=colours, alpha=0.55, height=0.7)
        axes.scatter(np.zeros(len(names)), at, c=colours, s=18, zorder=3, clip_on=False)
        axes.set_yticks(at, [plain(name) for name in names])
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.set_xlim(0.0, max(0.05, 1.05 * max(shares, default=0.0)))
        for kind in dict.fromkeys(result.kinds[name] for name in names[::-1]):
            axes.scatter([], [], c=shades[kind], s=24, label=kind)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
        axes.grid(visible=False, axis="y")
        more = "" if len(names) == len(result.frame.columns) else f", first {len(names)} columns"
        axes.set(xlabel=f"share of missing cells, n = {len(result.frame)}{more}", title=plain(result.name, 60))
        return axes


class PredictedAgainstTrue:
    """Targets beside their predictions, for a scatter; `named` rows, the worst first, are numbered in it."""

    def __init__(
        self, y: np.ndarray, predicted: np.ndarray, which: str = "test rows", named: np.ndarray | None = None
    ) -> None:
        self.n, self.which = int(y.size), which
        self.named = np.empty(0, dtype=int) if named is None else named
        chosen = np.unique(np.linspace(0, self.n - 1, min(self.n, DOTS)).astype(int))
        self.chosen = np.union1d(chosen, self.named).astype(int)
        self.y, self.predicted = y[self.chosen], predicted[self.chosen]

    @property
    def words(self) -> str:
        """How many rows are shown."""
        return f"{self.n:,} {self.which}" if self.y.size == self.n else f"{self.y.size:,} of {self.n:,} {self.which}"

    def number(self, axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
        """Number the named rows beside their dots: towards the middle of the picture, or where no number stands yet."""
        axes.autoscale_view()
        middle, taken = (x.min() + x.max()) / 2, np.empty((0, 2))
        for k, at in enumerate(np.searchsorted(self.chosen, self.named), start=1):
            dot = axes.transData.transform((x[at], y[at])) * 72 / axes.figure.dpi
            sides = BESIDE if x[at] <= middle else BESIDE * (-1, 1)
            apart = [np.abs(dot + side - taken) / LETTER for side in sides]
            free = [j for j, one in enumerate(apart) if one.max(axis=1).min(initial=np.inf) >= 1]
            side = sides[free[0] if free else 0]
            taken = np.vstack([taken, dot + side])
            axes.annotate(
                str(k),
                (x[at], y[at]),
                side,
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=8,
                color=WARM,
            )


class Residuals(PredictedAgainstTrue):
    """The same, for residuals against predictions."""


@draw.register
def _fit(result: PredictedAgainstTrue, ax: Axes | None = None) -> Axes:
    """What was predicted against what happened, beside the diagonal."""
    with _plain_canvas(ax, (5.2, 4.6)) as axes:
        _dots(axes, result.predicted, result.y)
        ends = np.array([result.y, result.predicted])
        reach = [float(ends.min()), float(ends.max())]
        axes.plot(reach, reach, color=WARM, linewidth=1, linestyle="--", label="prediction = outcome")
        result.number(axes, result.predicted, result.y)
        axes.set(xlabel=f"predicted ({result.words})", ylabel="observed", title="Predicted and observed")
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
        return axes


@draw.register
def _residuals(result: Residuals, ax: Axes | None = None) -> Axes:
    """What was missed against what was predicted; the line is the mean in slices."""
    with _plain_canvas(ax, (5.2, 4.6)) as axes:
        missed = result.y - result.predicted
        _dots(axes, result.predicted, missed)
        axes.axhline(0.0, color=INK, linewidth=0.8)
        if np.ptp(result.predicted) > 0:
            trend(axes, result.predicted, missed)
        result.number(axes, result.predicted, missed)
        axes.set(xlabel=f"predicted ({result.words})", ylabel="observed - predicted", title="Residuals")
        return axes


class Target:
    """The target of the training rows: a histogram of numbers, or a bar for each class."""

    def __init__(self, name: str, values: np.ndarray, unit: str | None = None) -> None:
        self.name, self.values, self.unit = name, values, unit


@draw.register
def _target(result: Target, ax: Axes | None = None) -> Axes:
    """Numbers in bins with their mean, the guess of the baseline; classes by their counts, the largest on top."""
    with _plain_canvas(ax, (5.4, 3.4)) as axes:
        values = result.values
        if values.dtype.kind == "f":
            axes.hist(values, bins=min(40, max(8, int(np.sqrt(values.size)))), color=ACCENT, alpha=0.6)
            mean = float(values.mean())
            axes.axvline(mean, color=WARM, linewidth=1.2, linestyle="--", label=f"mean {fmt(mean)}")
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
            name = plain(result.name) + (f" ({result.unit})" if result.unit else "")
            axes.set(xlabel=name, ylabel="training rows", title="The target")
            return axes
        labels, counts = np.unique(values, return_counts=True)
        order = np.argsort(counts, kind="stable")[-BARS:]
        axes.barh(np.arange(order.size), counts[order], color=ACCENT, alpha=0.6, height=0.7)
        shown = [f"{plain(labels[k], 20)}  {100 * counts[k] / values.size:.2g}%" for k in order]
        axes.set_yticks(np.arange(order.size), shown)
        axes.grid(visible=False, axis="y")
        axes.set(xlabel=f"training rows, n = {values.size:,}", title="The target")
        return axes


def _dots(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    axes.scatter(x, y, s=12, color=ACCENT, alpha=0.45, linewidths=0)


def pictures_of(opened: Opened, level: float = 0.95) -> dict[str, Any]:
    """What can be drawn of an opened test set, by its title; nothing beyond the plan, where the Ladder alone tells, and
    nothing of figures that are read from the ledger.

    | parameter | default | range                 | meaning                |
    |-----------|---------|-----------------------|------------------------|
    | opened    |         | of `Study.open`       | the opened test set    |
    | level     | 0.95    | in (0, 1)             | of the bands           |
    """
    if opened.look.beyond or opened.recorded:
        return {}
    if opened.classes is None:
        values = np.asarray(opened.predictions["values"], dtype=float)
        return {
            "predicted and observed": PredictedAgainstTrue(opened.y, values),
            "residuals": Residuals(opened.y, values),
        }
    found: dict[str, Any] = {}
    if "labels" in opened.predictions:
        counts = confusion_matrix(opened.y, opened.predictions["labels"], labels=opened.classes)
        if len(counts.labels) <= CLASSES:
            found["confusion table"] = Confusion(counts.counts, tuple(plain(one, 16) for one in counts.labels))
    if opened.classes.size == 2 and np.unique(opened.y).size == 2:
        found |= _two_classes(opened.y, opened.predictions, opened.classes[1], level)
    return found


def _two_classes(y: np.ndarray, said: Mapping[str, np.ndarray], positive: Any, level: float) -> dict[str, Any]:
    """ROC and precision-recall by scores or probabilities, calibration by probabilities."""
    score = said.get("probabilities", said.get("scores"))
    found: dict[str, Any] = {}
    if score is not None and score.ndim == 1:
        found["ROC curve"] = roc_curve(y, score, pos_label=positive, level=level, band="simultaneous")
        found["precision-recall curve"] = precision_recall_curve(
            y, score, pos_label=positive, level=level, drop_intermediate=True
        )
    shares = said.get("probabilities")
    if shares is not None and shares.ndim == 1:
        bins = 10 if y.size >= CROWDED else 5
        found["calibration curve"] = calibration_curve(
            y, shares, pos_label=positive, level=level, band="simultaneous", n_bins=bins
        )
    return found


@draw.register
def _opened(result: Opened, ax: Any = None) -> Any:
    """All pictures of the opened test set side by side; beyond the plan, the Ladder's answer and its step."""
    shown = pictures_of(result)
    if not shown:
        return _answer(result, ax)
    with plt.rc_context({**STYLE, **PLAIN}):
        rows = (len(shown) + 1) // 2
        wide = min(2, len(shown))
        panels = (
            plt.subplots(rows, wide, figsize=(5.2 * wide, 4.6 * rows), layout="constrained", squeeze=False)[1].ravel()
            if ax is None
            else np.ravel(ax)
        )
        for axes, one in zip(panels, shown.values(), strict=False):
            draw(one, ax=axes)
            safe(axes)
        for spare in panels[len(shown) :]:
            spare.set_visible(False)
        return panels


@draw.register
def _against_baseline(result: BaselineTest, ax: Axes | None = None) -> Axes:
    """The difference to the baseline with its interval, and the line of no difference."""
    axes: Axes = draw(result.interval, ax=ax)
    axes.axvline(0.0, color=MUTED, linestyle="--", linewidth=1)
    metric = get_metric(result.metric)
    if metric.percent:
        percents(axes, metric, points=True)
        axes.set_xlabel(f"{axes.get_xlabel()}, points")
    return axes


def _answer(result: Opened, ax: Axes | None) -> Axes:
    with _plain_canvas(ax, (6.0, 1.5)) as axes:
        told = result.release
        if told is not None:
            axes.hlines([0], [told.value - told.step], [told.value + told.step], color=MUTED, linewidth=3)
            axes.plot([told.value], [0], "o", color=INK)
            axes.set(xlabel=f"{told.estimand}, reported in steps of {fmt(told.step, 2)}")
        axes.set_yticks([])
        axes.set(title="A look beyond the plan: the Ladder's answer")
        return axes
