"""How beliefs are drawn: prior and posterior densities, limits of many groups, laws of what comes next."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from assay.bayes.conjugate_model import BayesFactor, Conjugate
from assay.bayes.count_laws import DirichletMultinomialLaw
from assay.bayes.laws import Law
from assay.bayes.regression import MapPenalty
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw

__all__: list[str] = []

SHOWN = 30
"""More groups than this are told, not drawn."""
POINTS = 400
BARS = 60
"""More counts than this are drawn as a line."""


@draw.register
def _posterior(result: Conjugate, ax: Axes | None = None) -> Axes:
    """One parameter: its densities before and after the data; several: their limits beside the prior means."""
    if result.law._groups():
        return _forest(result, ax)
    with canvas(ax) as axes:
        prior = None if result.prior is None else result.prior.law
        x = _span([result.law] if prior is None else [result.law, prior])
        shown = result.interval(0.95)
        if prior is not None and not prior._groups():
            axes.plot(x, _heights(prior, x), color=MUTED, linewidth=1.6, linestyle="--", label=f"prior {_short(prior)}")
        y = _heights(result.law, x)
        word = "prior" if prior is None else "posterior"
        axes.plot(x, y, color=ACCENT, linewidth=2, label=f"{word} {_short(result.law)}")
        inside = (x >= shown.lower) & (x <= shown.upper)
        text = f"95% credible [{fmt(shown.lower, 3)}, {fmt(shown.upper, 3)}]"
        axes.fill_between(x[inside], y[inside], color=ACCENT, alpha=0.15, linewidth=0, label=text)
        axes.axvline(shown.estimate, color=INK, linewidth=1, linestyle=":", label=f"mean {fmt(shown.estimate, 3)}")
        axes.set(xlabel=result.quantity, ylabel="density", title=f"{type(result).__name__}, n = {result.n:g}")
        axes.set_ylim(0, 1.12 * _tallest(result.law, y, None if prior is None else _heights(prior, x)))
        axes.set_xlim(x[0], x[-1])
        axes.legend(loc="best")
        return axes


def _forest(result: Conjugate, ax: Axes | None) -> Axes:
    interval = result.interval(0.95)
    total = len(interval.names)
    rows = np.arange(min(total, SHOWN))
    with canvas(ax, (7.0, 1.4 + 0.3 * len(rows))) as axes:
        at = rows[::-1]
        axes.hlines(at, interval.lower[rows], interval.upper[rows], color=ACCENT, linewidth=2.2)
        axes.plot(np.asarray(interval.estimate)[rows], at, "o", color=INK, markersize=5, label="posterior mean")
        if result.prior is not None:
            before = np.ravel(result.prior.law._moments()[0])
            if before.size in (1, total):
                before = np.broadcast_to(before, (total,))
                axes.plot(before[rows], at, "|", color=WARM, markersize=11, markeredgewidth=1.6, label="prior mean")
        axes.set_yticks(at, [interval.names[i] for i in rows])
        more = f", first {SHOWN} of {total:,}" if total > SHOWN else ""
        axes.set(xlabel=f"{result.quantity} and its 95% credible interval")
        axes.set_title(f"{type(result).__name__}{more}")
        axes.margins(y=0.06)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2) if len(rows) < 4 else axes.legend(
            loc="best"
        )
        return axes


@draw.register
def _law(result: Law, ax: Axes | None = None) -> Axes:
    """One law: bars for counts, a line for a density; of several, the first ten."""
    with canvas(ax) as axes:
        groups = result._groups()
        parts = [(result, "")] if not groups else [(result._at(i), name) for i, name in _first(result, groups[0])]
        for law, name in parts:
            _one_law(axes, law, name, alone=not groups)
        axes.set(xlabel=result.quantity, ylabel="probability" if result.discrete else "density")
        axes.set_title(_short(result) if not groups else result.word)
        axes.set_ylim(bottom=0)
        if groups:
            axes.legend(loc="best")
        return axes


def _first(result: Law, size: int) -> list[tuple[int, str]]:
    names = result.names or tuple(map(str, range(size)))
    return [(i, names[i]) for i in range(min(size, 10))]


def _one_law(axes: Axes, law: Law, name: str, alone: bool) -> None:
    colour: Any = {"color": ACCENT} if alone else {}
    if not law.discrete:
        x = _span([law])
        y = _heights(law, x)
        axes.plot(x, y, linewidth=2, label=name, **colour)
        return
    low, high = (float(law._ppf(np.asarray(q))) for q in (1e-4, 1 - 1e-4))
    counts = np.unique(np.floor(np.linspace(low, high, min(int(high - low) + 1, POINTS))))
    chance = np.exp(law._logpdf(counts))
    if alone and counts.size <= BARS and counts.size == high - low + 1:
        axes.bar(counts, chance, width=0.85, color=ACCENT, alpha=0.75)
    else:
        axes.plot(counts, chance, linewidth=1.8, label=name, **colour)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _span(laws: list[Law]) -> np.ndarray:
    """Where the laws have nearly all their probability; of a very wide prior only what lies near the posterior."""
    ends = [tuple(float(law._ppf(np.asarray(q))) for q in (5e-4, 1 - 5e-4)) for law in laws]
    low, high = ends[0]
    reach = 0.75 * (high - low)
    for left, right in ends[1:]:
        low, high = max(min(low, left), low - reach), min(max(high, right), high + reach)
    fine = [np.asarray(law._ppf(np.linspace(0.002, 0.998, POINTS // 2))) for law in laws]
    x = np.concatenate([np.linspace(low, high, POINTS), *fine])
    return np.unique(x[(x >= low) & (x <= high)])


def _heights(law: Law, x: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(law._logpdf(x), 700.0))


def _tallest(law: Law, y: np.ndarray, other: np.ndarray | None) -> float:
    """The height to show: all of the posterior unless it runs away at an end, and as much of the prior as fits."""
    middle = float(_heights(law, np.asarray(law._ppf(np.linspace(0.25, 0.95, 15)))).max())
    top = min(float(y.max()), 2.0 * middle)
    return top if other is None else max(top, min(float(other.max()), 1.5 * top))


def _short(law: Law) -> str:
    return f"{law.word}({', '.join(fmt(float(value)) for value in law._parameters().values())})"


@draw.register
def _counts_to_come(result: DirichletMultinomialLaw, ax: Axes | None = None) -> Axes:
    frame = result.to_frame().head(SHOWN)
    with canvas(ax, (7.0, 1.4 + 0.3 * len(frame))) as axes:
        at = np.arange(len(frame))[::-1]
        axes.hlines(at, frame["lower"], frame["upper"], color=ACCENT, linewidth=2.2)
        axes.plot(frame["mean"], at, "o", color=INK, markersize=5)
        axes.set_yticks(at, list(frame.index))
        axes.margins(y=0.1)
        axes.set(xlabel=f"count in the next {result.trials:g}, mean and 95% limits", title="Dirichlet-multinomial")
        return axes


@draw.register
def _factor(result: BayesFactor, ax: Axes | None = None) -> Axes:
    """The logarithm of each factor over the borders of the verbal scale."""
    frame = result.to_frame().head(SHOWN)
    value = frame["log_bayes_factor"].to_numpy()
    with canvas(ax, (7.0, 1.7 + 0.32 * len(frame))) as axes:
        at = np.arange(len(frame))[::-1]
        reach = 1.15 * max(float(np.abs(value).max()), np.log(150.0) * 1.15)
        edges = [0.0, np.log(3), np.log(20), np.log(150), reach]
        for shade, (left, right) in enumerate(pairwise(edges)):
            for sign, colour in ((1, ACCENT), (-1, WARM)):
                axes.axvspan(sign * left, sign * right, color=colour, alpha=0.05 + 0.05 * shade, linewidth=0)
        axes.hlines(at, 0, value, color=INK, linewidth=2)
        axes.plot(value, at, "o", color=INK, markersize=6)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(at, [str(name) for name in frame.index] if len(frame) > 1 else [""])
        axes.set_xlim(-reach, reach)
        axes.set_ylim(-0.7, len(frame) - 0.3)
        scale = "shades: 1-3 hardly, 3-20 positive, 20-150 strong, above very strong (Kass and Raftery 1995)"
        axes.set_xlabel(f"← {result.other}      log Bayes factor      {result.model} →\n{scale}")
        axes.set_title("Bayes factor")
        axes.grid(visible=False, axis="y")
        return axes


@draw.register
def _penalty(result: MapPenalty, ax: Axes | None = None) -> Axes:
    """The prior's density beside that of the other penalty with the same variance."""
    with canvas(ax) as axes:
        tau: Any = result.prior_scale
        x = np.linspace(-4 * tau, 4 * tau, 401)
        laplace = np.exp(-np.abs(x) / tau) / (2 * tau)
        normal = np.exp(-0.5 * (x / tau) ** 2) / (tau * np.sqrt(2 * np.pi))
        shown, other = (normal, laplace) if result.method == "ridge" else (laplace, normal)
        words = ("normal: ridge", "Laplace: lasso")
        own = words[0] if result.method == "ridge" else words[1]
        axes.plot(x, shown, color=ACCENT, linewidth=2, label=f"{own}, alpha = {fmt(result.alpha)}")
        axes.plot(x, other, color=MUTED, linewidth=1.2, linestyle="--", label=words[1] if own == words[0] else words[0])
        axes.set(xlabel="coefficient", ylabel="prior density", title=f"Prior behind {result.method}: {result.prior}")
        axes.legend(loc="best")
        return axes
