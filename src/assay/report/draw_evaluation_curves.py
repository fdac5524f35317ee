"""How learning and validation curves, bootstrap bands, and bias and variance are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator
from scipy import special

from assay.evaluation.bands import BootstrapBand
from assay.evaluation.bias_variance import WORDS, BiasVariance
from assay.evaluation.curves import even_ratios
from assay.evaluation.optimism import BootstrapError
from assay.evaluation.score_curves import LearningCurve, ScoreCurve, ValidationCurve, is_numeric
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw, mark

__all__: list[str] = []

SHADES = {"bias": WARM, "variance": ACCENT, "noise": MUTED, "total": INK}
DARK = 0.28
LIGHT = 0.12


def _positions(values: Any, axes: Axes, log_x: bool) -> np.ndarray:
    """Numbers stand where they are; anything else at 0, 1, 2, with its name."""
    if not is_numeric(values):
        names = [str(v) for v in values]
        crowded = sum(map(len, names)) > 60
        axes.set_xticks(range(len(names)), names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
        axes.set_xlim(-0.5, len(names) - 0.5)
        return np.arange(len(names), dtype=float)
    x = np.asarray(values, dtype=float)
    if log_x:
        axes.set_xscale("log")
    elif np.all(x == np.round(x)):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return x


def _scores(result: ScoreCurve, axes: Axes) -> None:
    """Both bands and both lines; positions are joined in the order of the axis."""
    x = _positions(result.values, axes, result.log_x)
    order = np.argsort(x, kind="stable")
    level = f"{100 * result.level:g}%"
    bands = (
        (result.band_lower, result.band_upper, LIGHT, f"{level} simultaneous (Bonferroni)"),
        (result.lower, result.upper, DARK, f"{level} pointwise ({result.limits})"),
    )
    joined = is_numeric(result.values)
    for width, (low, high, alpha, words) in zip((2, 7), bands, strict=True):
        if joined:
            axes.fill_between(x[order], low[order], high[order], color=ACCENT, alpha=alpha, linewidth=0, label=words)
        else:  # nothing lies between two names
            axes.vlines(x, low, high, color=ACCENT, alpha=alpha + 0.2, linewidth=width, label=words)
    held_out, training = ("o-", "s--") if joined else ("o", "s")
    axes.plot(x[order], result.estimate[order], held_out, color=ACCENT, markersize=4, label="held-out rows")
    axes.plot(
        x[order],
        result.train_estimate[order],
        training,
        color=MUTED,
        markersize=3.5,
        linewidth=1.2,
        label="training rows",
    )
    axes.set(xlabel=result.x_name, ylabel=result.metric.name)


@draw.register
def _learning(result: LearningCurve, ax: Axes | None = None) -> Axes:
    with canvas(ax) as axes:
        _scores(result, axes)
        if result.log_x:  # few sizes, each worth its own number
            axes.xaxis.set_major_locator(FixedLocator(list(result.values)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set(title=f"Learning curve of {result.name}\n{result.scheme}")
        axes.legend(loc="best")
        return axes


@draw.register
def _validation(result: ValidationCurve, ax: Axes | None = None) -> Axes:
    with canvas(ax) as axes:
        _scores(result, axes)
        if result.rule is not None:
            axes.axhline(result.rule, color=WARM, linewidth=1, linestyle="--", label="one-standard-error line")
        x = _positions(result.values, axes, result.log_x)
        mark(axes, {name: x[result.values.index(at)] for name, at in result.marks.items()})
        axes.set(title=f"Validation curve of {result.name}\n{result.scheme}")
        axes.legend(loc="best")
        return axes


@draw.register
def _band(result: BootstrapBand, ax: Axes | None = None) -> Axes:
    """The curve in its two bands, with the data behind; rows of several columns stand side by side."""
    with canvas(ax) as axes:
        level = f"{100 * result.level:g}%"
        if result.x is None:
            at = np.arange(result.estimate.size)
            words = f"{level} simultaneous (sup-t)"
            axes.vlines(at, result.band_lower, result.band_upper, color=ACCENT, linewidth=1, label=words)
            words = f"{level} pointwise ({result.method})"
            axes.vlines(at, result.lower, result.upper, color=ACCENT, linewidth=3, label=words)
            axes.plot(at, result.estimate, "o", color=INK, markersize=4)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set(xlabel="row of the grid", ylabel=result.y_name)
        else:
            order = np.argsort(result.x, kind="stable")
            x = result.x[order]
            if result.points is not None:
                axes.scatter(*result.points, s=10, color=MUTED, alpha=0.5, linewidths=0, label="data", zorder=1)
            bands = (
                (result.band_lower, result.band_upper, LIGHT, f"{level} simultaneous (sup-t)"),
                (result.lower, result.upper, DARK, f"{level} pointwise ({result.method})"),
            )
            for low, high, alpha, words in bands:
                axes.fill_between(x, low[order], high[order], color=ACCENT, alpha=alpha, linewidth=0, label=words)
            axes.plot(x, result.estimate[order], color=ACCENT, linewidth=1.6)
            axes.set(xlabel=result.x_name, ylabel=result.y_name)
        axes.set(title=f"{result.name}\n{result.n_resamples} resamples of {result.resample}, n = {result.n}")
        axes.legend(loc="best")
        return axes


def _shade(name: str) -> str:
    return next(colour for word, colour in SHADES.items() if word in name)


@draw.register
def _bias_variance(result: BiasVariance, ax: Axes | None = None) -> Axes:
    """Along a parameter the U-shaped picture, for one learner one bar per component; whiskers at the level."""
    reach = float(special.ndtri(0.5 + 0.5 * result.level))
    names = [*result.adds_up, "total"]
    text = f"{result.n_datasets} training sets, whiskers {100 * result.level:g}%"
    title = f"Bias and variance, {result.loss} loss ({text})"
    if len(result.values) == 1:
        return _bars(result, ax, names, reach, title)
    with canvas(ax) as axes:
        x = _positions(result.values, axes, even_ratios(result.values))
        order = np.argsort(x, kind="stable")
        for name in names:
            axes.errorbar(
                x[order],
                result.components[name][order],
                yerr=reach * result.std_errors[name][order],
                fmt="o-",
                color=_shade(name),
                linewidth=2.0 if name == "total" else 1.4,
                markersize=4,
                elinewidth=0.9,
                capsize=2,
                label=WORDS[name],
            )
        axes.axhline(0.0, color=INK, linewidth=0.8)
        mark(axes, {"least total": x[int(np.argmin(result.components["total"]))]})
        axes.set(xlabel=result.x_name, ylabel="expected loss", title=title)
        axes.legend(loc="best")
        return axes


def _bars(result: BiasVariance, ax: Axes | None, names: list[str], reach: float, title: str) -> Axes:
    with canvas(ax, (7.0, 1.2 + 0.45 * len(names))) as axes:
        at = np.arange(len(names))[::-1]
        size = np.array([result.components[name][0] for name in names])
        error = reach * np.array([result.std_errors[name][0] for name in names])
        axes.barh(at, size, color=[_shade(name) for name in names], alpha=0.75)
        axes.errorbar(size, at, xerr=error, fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
        axes.set_yticks(at, [WORDS[name] for name in names])
        axes.axvline(0.0, color=INK, linewidth=0.8)
        axes.set(xlabel=f"expected loss of {result.values[0]}", title=title)
        return axes


@draw.register
def _bootstrap_error(result: BootstrapError, ax: Axes | None = None) -> Axes:
    """The estimate with its interval between the apparent and the out-of-bag error, and the error of guessing."""
    with canvas(ax, (7.0, 2.2)) as axes:
        shown = result.interval()
        axes.hlines([0], [shown.lower], [shown.upper], color=ACCENT, linewidth=3)
        axes.plot([shown.estimate], [0], "o", color=INK, zorder=3)
        parts = (
            ("apparent", result.apparent),
            ("out of bag", result.out_of_bag),
            ("no information", result.no_information),
        )
        for place, (name, value) in enumerate(parts):
            axes.axvline(value, color=MUTED, linewidth=1, linestyle=":")
            axes.annotate(
                name,
                (value, 0.98 - 0.13 * place),
                xycoords=("data", "axes fraction"),
                xytext=(3, 0),
                textcoords="offset points",
                va="top",
                fontsize=9,
                color=INK,
            )
        axes.set_yticks([])
        axes.set_ylim(-1, 1)
        axes.margins(x=0.12)
        title = f"{result.name}: {fmt(shown.estimate, 3)} [{fmt(shown.lower, 3)}, {fmt(shown.upper, 3)}]"
        axes.set(xlabel=f"{result.metric.name} ({100 * shown.level:g}% {shown.method})", title=title)
        return axes
