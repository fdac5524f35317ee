"""How the results of inference are drawn: tests, intervals, corrections, bounds, resampling, sequential looks."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from assay.bayes.decision import LikelihoodRatioTest
from assay.inference.bootstrap import Bootstrap
from assay.inference.heavy_tails import TailDiagnosis
from assay.inference.multiple import TITLES
from assay.inference.permutation import PermutationTest
from assay.inference.sequential import ConfidenceSequence, EProcess, Peeking, SpendingPlan
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw
from assay.results import Adjustment, Bound, Interval, TestResult

__all__: list[str] = []

SHOWN = 2_000
"""How many points of a long sorted list are drawn; the eye sees no more."""


@draw.register
def _interval(result: Interval, ax: Axes | None = None) -> Axes:
    labels = list(result.names) or [""]
    with canvas(ax, (6.0, 1.2 + 0.32 * len(labels))) as axes:
        _rows(axes, result, labels, np.empty(0))
        title = f"{100 * result.level:g}% {result.method} interval, n = {_words(result.n)}"
        axes.set(xlabel=result.estimand, title=title)
        return axes


@draw.register
def _tail(result: TailDiagnosis, ax: Axes | None = None) -> Axes:
    """The rows with the largest losses as a share of the rows, above their share of the sum."""
    with canvas(ax, (6.0, 2.0)) as axes:
        for at, share in ((1, result.rows / result.n), (0, result.share)):
            axes.barh(at, 100.0, height=0.5, color=MUTED, alpha=0.25)
            axes.barh(at, 100 * share, height=0.5, color=WARM if result.heavy else ACCENT)
            axes.annotate(f"{100 * share:.3g}%", (100 * share, at), (4, 0), textcoords="offset points", va="center")
        axes.set_yticks([1, 0], ["of the rows", "of the loss"])
        axes.grid(axis="y", visible=False)
        text = "a long tail" if result.heavy else "no sign of a heavy tail"
        axes.set(xlim=(0, 110), xlabel="percent", title=f"The {result.rows:,} largest of {result.n:,} losses: {text}")
        return axes


@draw.register
def _test(result: TestResult, ax: Axes | None = None) -> Axes:
    """The estimate and its interval beside the value under the null."""
    interval = result.interval(0.95)
    labels = list(result.names) or [""]
    with canvas(ax, (6.4, 1.5 + 0.32 * len(labels))) as axes:
        _rows(axes, interval, labels, np.atleast_1d(result.null))
        if np.ndim(result.null) == 0:
            axes.axvline(float(result.null), color=WARM, linewidth=1, linestyle="--", label="null")
        else:
            at = np.arange(len(labels))[::-1]
            axes.plot(np.asarray(result.null), at, "|", color=WARM, markersize=12, label="null")
        axes.legend(loc="best")
        p = "" if result.names else f", p = {fmt(result.p_value, 3)}"
        axes.set(xlabel=f"{result.estimand} and its 95% interval", title=f"{result.method}{p}")
        return axes


def _rows(axes: Axes, result: Interval, labels: list[str], seen: np.ndarray) -> None:
    """One line per interval, the first on top; an infinite end runs past everything `seen` as an arrow."""
    estimate, lower, upper = (np.atleast_1d(part) for part in (result.estimate, result.lower, result.upper))
    ends = np.concatenate([estimate, lower[np.isfinite(lower)], upper[np.isfinite(upper)], seen])
    reach = 0.15 * (ends.max() - ends.min()) or 1.0
    at = np.arange(len(labels))[::-1]
    left = np.where(np.isfinite(lower), lower, ends.min() - reach)
    right = np.where(np.isfinite(upper), upper, ends.max() + reach)
    axes.hlines(at, left, right, color=ACCENT, linewidth=3)
    for x, open_end, marker in ((left, ~np.isfinite(lower), "<"), (right, ~np.isfinite(upper), ">")):
        axes.plot(x[open_end], at[open_end], marker, color=ACCENT, markersize=8)
    axes.plot(estimate, at, "o", color=INK)
    axes.set_yticks(at if result.names else [], labels if result.names else [])
    axes.set_ylim(-0.7, len(labels) - 0.3)
    axes.grid(axis="y", visible=False)


@draw.register
def _adjustment(result: Adjustment, ax: Axes | None = None) -> Axes:
    """Sorted p-values against the line that the method draws through them."""
    m, found = result.m, result.n_rejected
    top = min(m, max(2 * found, 50))  # beyond this nothing is decided
    values = np.sort(np.partition(result.p_values, top - 1)[:top])
    ranks = np.arange(1, top + 1)
    shown = np.unique(np.linspace(0, top - 1, min(top, SHOWN)).astype(int))
    with canvas(ax) as axes:
        below = ranks[shown] <= found
        code = next(code for code, title in TITLES.items() if title == result.method)
        style: Any = {"s": 14, "linewidths": 0, "zorder": 3}
        axes.scatter(ranks[shown][~below], values[shown][~below], color=MUTED, label="not rejected", **style)
        axes.scatter(ranks[shown][below], values[shown][below], color=ACCENT, label=f"rejected ({found})", **style)
        line = _line(code, ranks, m, result.alpha)
        axes.plot(ranks, line, color=WARM, linewidth=1.4, label=f"{result.method} line, alpha = {result.alpha:g}")
        axes.set_ylim(0.0, max(1e-300, min(1.0, 1.1 * max(float(values.max()), float(line[-1])))))
        text = f"smallest {top} of {m}" if top < m else f"{m}"
        axes.set(xlabel=f"rank ({text})", ylabel="p-value", title=f"Sorted p-values and the {result.method} line")
        axes.legend(loc="upper left")
        return axes


def _line(method: str, rank: np.ndarray, m: int, alpha: float) -> np.ndarray:
    """What the p-value of each rank is compared with."""
    if method in ("bh", "by"):
        constant = float(np.sum(1.0 / np.arange(1, m + 1))) if method == "by" else 1.0
        return rank * alpha / (m * constant)
    if method in ("holm", "hochberg"):
        return alpha / (m - rank + 1)
    level = alpha / m if method == "bonferroni" else -np.expm1(np.log1p(-alpha) / m)
    return np.full(rank.size, level)


@draw.register
def _bound(result: Bound, ax: Axes | None = None) -> Axes:
    """The bound on the probability against the deviation, with the point that was solved for."""
    if result.tail is None:
        raise TypeError("this bound carries no curve to draw")
    at, delta = float(result[result.deviation]), float(result["delta"])
    with canvas(ax) as axes:
        x = np.linspace(at / 50, 2 * at, 400)
        y = np.asarray(result.tail(x))
        axes.plot(x, y, color=ACCENT, linewidth=1.6)
        axes.plot([at], [delta], "o", color=WARM, label=f"{result.solved} = {fmt(result.value)}")
        positive = y[y > 0]
        if positive.size and delta > 0 and positive.min() < 0.05:
            axes.set_yscale("log")
        axes.set(xlabel=result.deviation, ylabel="bound on the probability", title=result.method)
        axes.legend(loc="best")
        return axes


def _words(n: Any) -> str:
    if isinstance(n, tuple):
        return " + ".join(str(part) for part in n)
    return f"{n}" if np.ndim(n) == 0 else f"{np.min(n)} to {np.max(n)}"


@draw.register
def _bootstrap(result: Bootstrap, ax: Axes | None = None) -> Axes:
    """The replicates, the estimate and the interval."""
    interval = result.interval()
    with canvas(ax) as axes:
        _histogram(axes, result.replicates, "replicates")
        axes.axvspan(interval.lower, interval.upper, color=ACCENT, alpha=0.12, linewidth=0, label=_title(interval))
        axes.axvline(result.estimate, color=WARM, linewidth=1.6, label=f"{result.estimand} {fmt(result.estimate)}")
        title = f"{result.n_resamples} bootstrap replicates, standard error {fmt(result.std_error, 3)}"
        axes.set(xlabel=result.estimand, ylabel="resamples", title=title)
        axes.legend(loc="best")
        return axes


@draw.register
def _permutation(result: PermutationTest, ax: Axes | None = None) -> Axes:
    """The null distribution and the value seen."""
    with canvas(ax) as axes:
        _histogram(axes, result.null_distribution, "rearranged")
        axes.axvline(result.estimate, color=WARM, linewidth=1.6, label=f"seen: {fmt(result.estimate)}")
        axes.set(xlabel=result.estimand, ylabel="arrangements", title=f"{result.method}, p = {fmt(result.p_value, 3)}")
        axes.legend(loc="best")
        return axes


def _histogram(axes: Axes, values: np.ndarray, label: str) -> None:
    spread = float(values.max() - values.min())
    bins = min(60, max(1, np.unique(values[:SHOWN]).size)) if spread > 0 else 1
    axes.hist(values, bins=bins, color=MUTED, alpha=0.6, label=label)


def _title(interval: Interval) -> str:
    return f"{100 * interval.level:g}% {interval.method} interval"


@draw.register
def _sequence(result: ConfidenceSequence, ax: Axes | None = None) -> Axes:
    """The running mean inside its ever tighter limits."""
    with canvas(ax) as axes:
        at = _thinned(result.n)
        text = f"{100 * result.level:g}% {result.method} sequence, valid for all n at once"
        axes.fill_between(
            at, result.lower[at - 1], result.upper[at - 1], color=ACCENT, alpha=0.18, linewidth=0, label=text
        )
        axes.plot(at, result.estimate[at - 1], color=ACCENT, linewidth=1.4, label="running mean")
        _stretch(axes, result.n)
        axes.set(xlabel="observations", ylabel="mean", title=f"Confidence sequence after {result.n} observations")
        axes.legend(loc="best")
        return axes


@draw.register
def _e_process(result: EProcess, ax: Axes | None = None) -> Axes:
    """Evidence against the null, with the line that a true null crosses at most once in twenty."""
    with canvas(ax) as axes:
        at = _thinned(result.n)
        axes.plot(at, result.log_e[at - 1] / np.log(10), color=ACCENT, linewidth=1.4)
        axes.axhline(np.log10(20), color=WARM, linewidth=1, linestyle="--", label="reject at level 0.05")
        axes.axhline(0.0, color=INK, linewidth=0.8)
        _stretch(axes, result.n)
        title = f"Evidence against mean {result.null:g}, anytime p = {fmt(result.p_value, 3)}"
        axes.set(xlabel="observations", ylabel="log10 of the e-value", title=title)
        axes.legend(loc="best")
        return axes


def _thinned(n: int) -> np.ndarray:
    """Numbers of observations to draw: all of few, evenly in logarithm of many."""
    return np.unique(np.geomspace(1, n, min(n, SHOWN)).round().astype(int)) if n > SHOWN else np.arange(1, n + 1)


def _stretch(axes: Axes, n: int) -> None:
    if n >= 100:
        axes.set_xscale("log")


@draw.register
def _peeking(result: Peeking, ax: Axes | None = None) -> Axes:
    """How the chance of a rejection grows with every look, beside the level that each look claims."""
    with canvas(ax) as axes:
        few = result.x.size <= 30
        axes.plot(result.x, result.estimate, color=ACCENT, marker="o" if few else None, markersize=4)
        if result.rule is not None:
            axes.axhline(
                result.rule, color=WARM, linewidth=1, linestyle="--", label=f"level of one look: {result.rule:g}"
            )
        axes.set_ylim(0.0, 1.08 * float(result.estimate.max()))
        axes.set(xlabel=result.x_name, ylabel=result.y_name, title=result.title)
        axes.legend(loc="lower right")
        return axes


@draw.register
def _spending(result: SpendingPlan, ax: Axes | None = None) -> Axes:
    """The boundary at each look beside the one of a single look."""
    with canvas(ax) as axes:
        shown = np.isfinite(result.boundaries)
        signs = {"two-sided": (1, -1), "greater": (1,), "less": (-1,)}[result.alternative]
        for sign in signs:
            label = "reject beyond" if sign == signs[0] else None
            line = sign * result.boundaries[shown]
            axes.plot(result.fractions[shown], line, "o-", color=ACCENT, markersize=4, label=label)
        axes.axhline(0.0, color=INK, linewidth=0.8)
        axes.set(xlabel="share of the data seen", ylabel="z", title=str(result).splitlines()[0])
        axes.legend(loc="best")
        return axes


@draw.register
def _ratio_test(result: LikelihoodRatioTest, ax: Axes | None = None) -> Axes:
    """The best reachable power at every size, and where this test stands."""
    curve = result.roc()
    with canvas(ax, (5.0, 4.8)) as axes:
        axes.plot(curve.x, curve.estimate, color=ACCENT, linewidth=1.6, label="likelihood-ratio tests")
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=":")
        text = f"{result.method}: size {fmt(result.size, 3)}, power {fmt(result.power, 3)}"
        axes.plot([result.size], [result.power], "o", color=WARM, label=text)
        axes.set(xlabel=curve.x_name, ylabel=curve.y_name, title=f"{result.method} test")
        axes.legend(loc="lower right")
        return axes
