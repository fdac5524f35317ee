"""Pictures of Markov chains and hidden Markov models: state diagrams, laws, hidden paths, criteria over the states."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch
from matplotlib.ticker import MaxNLocator

from assay.latent import HiddenPath, NextStep, StateChoice, StateDiagram, StationaryLaws, TransitionIntervals
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw

__all__: list[str] = []

CIRCLED = 8
"""More states than this are drawn as a matrix."""
FAINT = 0.005
"""Transitions of less probability are left out of a diagram."""
NAMED = 12
"""More states than this have no legend."""
SHOWN = 40
"""More transitions than this are not drawn with their intervals."""
INSIDE = 5
"""Longer names are written beside their circle."""


def _colours(K: int) -> list[Any]:
    table = plt.get_cmap("tab10" if K <= 10 else "tab20")
    return [table(k % table.N) for k in range(K)]


def _shown(name: Any) -> str:
    """A name as it is written in a picture: one of spaces alone in quotes, so that it can be seen."""
    return str(name) if str(name).strip() else repr(str(name))


@draw.register
def _diagram(result: StateDiagram, ax: Axes | None = None) -> Axes:
    """Circles whose area is the share of time, arrows as wide as their probability; many states as a matrix."""
    if len(result.names) > CIRCLED:
        return _matrix(result, ax)
    K = len(result.names)
    with canvas(ax, (6.8, 6.0) if K > 2 else (6.8, 3.4)) as axes:
        turn = np.pi / 2 - 2 * np.pi * np.arange(K) / K if K != 2 else np.array([np.pi, 0.0])
        centre = np.column_stack([np.cos(turn), np.sin(turn)]) if K > 1 else np.zeros((1, 2))
        out = centre if K > 2 else np.tile([0.0, 1.0], (K, 1))
        radius = 0.2 + 0.12 * np.sqrt(result.share)
        colours = _colours(K)
        for i in range(K):
            for j in range(K):
                if i != j and result.transitions[i, j] >= FAINT:
                    _arrow(axes, centre[i], centre[j], radius[i], radius[j], result.transitions[i, j], colours[i])
            _loop(axes, centre[i] + (radius[i] + 0.09) * out[i], result.transitions[i, i], colours[i])
            axes.add_patch(Circle(centre[i], radius[i], facecolor=colours[i], edgecolor="white", linewidth=2, zorder=3))
            share, name = f"{100 * result.share[i]:.0f}%", _shown(result.names[i])
            label = f"{name}\n{share}" if len(name) <= INSIDE else share
            axes.text(
                centre[i, 0],
                centre[i, 1],
                label,
                ha="center",
                va="center",
                color="white",
                weight="bold",
                zorder=4,
                fontsize=9,
            )
            _caption(
                axes,
                result,
                i,
                centre[i] + (radius[i] + 0.3) * out[i] if K > 2 else centre[i] - [0, radius[i]],
                out[i],
                K,
            )
        reach = {"xlim": (-2.2, 2.2), "ylim": (-1.9, 1.9)} if K > 2 else {"xlim": (-1.6, 1.6), "ylim": (-0.75, 0.75)}
        axes.set(**reach, aspect="equal", title="States: share of time and transitions")
        axes.axis("off")
        return axes


def _caption(axes: Axes, result: StateDiagram, i: int, at: Any, out: Any, K: int) -> None:
    """Beside each circle: a name too long for it, what the state emits, and the chance to begin there."""
    lines = [_shown(result.names[i])] if len(_shown(result.names[i])) > INSIDE else []
    lines += _wrapped(result.emits[i]) if result.emits else []
    lines.append(f"start {fmt(result.start[i], 2)}" if result.start[i] >= FAINT else "start 0")
    across = "center" if K <= 2 or abs(out[0]) < 0.3 else "left" if out[0] > 0 else "right"
    upright = "top" if K <= 2 or out[1] < -0.3 else "bottom" if out[1] > 0.3 else "center"
    axes.text(at[0], at[1], "\n".join(lines), ha=across, va=upright, fontsize=8, color=INK, zorder=5, bbox=_PAPER)


def _wrapped(text: str, most: int = 2) -> list[str]:
    """Two things a line, so that captions stay narrow."""
    parts = text.split(", ")
    return [", ".join(parts[at : at + most]) for at in range(0, len(parts), most)]


def _arrow(axes: Axes, a: Any, b: Any, ra: float, rb: float, p: float, colour: Any) -> None:
    """A bent arrow from one circle's edge to another's, and its probability a third of the way along the bend."""
    step = (b - a) / np.linalg.norm(b - a)
    side = np.array([step[1], -step[0]])
    begin, end = a + (ra + 0.02) * step + 0.05 * side, b - (rb + 0.04) * step + 0.05 * side
    bend = 0.16
    axes.add_patch(
        FancyArrowPatch(
            begin, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=12,
            linewidth=0.8 + 3.2 * p, color=colour, alpha=0.75, zorder=2, shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip
    # arc3 is a parabola whose control point lies `bend` of the chord to its right.
    t, chord = 0.3, end - begin
    control = (begin + end) / 2 + bend * np.array([chord[1], -chord[0]])
    at = (1 - t) ** 2 * begin + 2 * t * (1 - t) * control + t**2 * end
    axes.text(at[0], at[1], fmt(p, 2), fontsize=8, color=INK, ha="center", va="center", zorder=6, bbox=_PAPER)


_PAPER: Any = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 0.6}


def _loop(axes: Axes, at: Any, p: float, colour: Any) -> None:
    """Staying: a ring on the outer side, with its probability inside."""
    if p < FAINT:
        return
    axes.add_patch(Circle(at, 0.17, fill=False, edgecolor=colour, linewidth=0.8 + 3.2 * p, alpha=0.75, zorder=1))
    axes.text(
        at[0],
        at[1] + 0.05 * np.sign(at[1]),
        fmt(p, 2 if p < 0.99 else 3),
        fontsize=7.5,
        color=INK,
        ha="center",
        va="center",
        zorder=6,
    )


def _matrix(result: StateDiagram, ax: Axes | None) -> Axes:
    with canvas(ax, (6.6, 5.6)) as axes:
        K = len(result.names)
        image = axes.imshow(result.transitions, cmap="Blues", vmin=0.0, vmax=float(result.transitions.max()))
        axes.grid(visible=False)
        every = np.arange(0, K, -(-K // 30))
        axes.set_xticks(every, [_shown(result.names[k]) for k in every], rotation=90 if K > 12 else 0)
        axes.set_yticks(every, [_shown(result.names[k]) for k in every])
        axes.set(xlabel="to", ylabel="from", title=f"Transitions of {K} states")
        axes.figure.colorbar(image, ax=axes, label="probability", shrink=0.85)
        return axes


@draw.register
def _path(result: HiddenPath, ax: Axes | None = None) -> Axes:
    """Posterior probabilities of the states, stacked, over time; below them the decoded path as a strip."""
    with canvas(ax, (9.0, 3.6)) as axes:
        K, T = len(result.names), len(result.codes)
        colours = _colours(K)
        steps = np.arange(T)
        edges = np.arange(T + 1) - 0.5
        top = np.cumsum(result.posterior, axis=1)
        low = np.zeros(T)
        for k in range(K):
            high = top[:, k]
            label = _shown(result.names[k]) if K <= NAMED else None
            axes.fill_between(
                edges, np.append(low, low[-1]), np.append(high, high[-1]), step="post", color=colours[k], alpha=0.75,
                linewidth=0, label=label,
            )  # fmt: skip
            low = high
        turns = np.flatnonzero(np.diff(result.codes)) + 1
        runs = list(zip(np.r_[0, turns] - 0.5, np.diff(np.r_[0, turns, T]), strict=True))
        axes.broken_barh(
            runs, (-0.16, 0.11), facecolors=[colours[k] for k in result.codes[np.r_[0, turns]]], linewidth=0
        )
        for begin in result.first[1:-1]:
            axes.axvline(begin - 0.5, color=INK, linewidth=0.6)
        word = "path" if result.method == "viterbi" else "state"
        axes.set_yticks([-0.105, 0.0, 0.25, 0.5, 0.75, 1.0], [f"best {word}", "0", "0.25", "0.5", "0.75", "1"])
        axes.set(xlabel="step", ylabel="P(state given X)", ylim=(-0.18, 1.0), title="Hidden states over time")
        axes.set_xlim(-0.5, steps[-1] + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False)
        if K <= NAMED:
            axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
        return axes


@draw.register
def _choice(result: StateChoice, ax: Axes | None = None) -> Axes:
    with canvas(ax) as axes:
        K = result.table["n_components"].to_numpy()
        for name, colour in (("bic", ACCENT), ("aic", MUTED)):
            width = 2.0 if name == result.criterion else 1.2
            axes.plot(
                K, result.table[name], color=colour, marker="o", markersize=4, linewidth=width, label=name.upper()
            )
        axes.axvline(
            result.n_components,
            color=WARM,
            linewidth=1,
            linestyle="--",
            label=f"{result.n_components} states, least {result.criterion.upper()}",
        )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="number of states", ylabel="criterion (lower is better)", title="How many hidden states")
        axes.legend(loc="best")
        return axes


@draw.register
def _stationary(result: StationaryLaws, ax: Axes | None = None) -> Axes:
    r, K = result.laws.shape
    with canvas(ax, (max(4.5, min(10.0, 1.5 + 0.5 * K)), 3.6)) as axes:
        width = 0.8 / r
        for c, law in enumerate(result.laws):
            label = f"class {c + 1}" + (f", period {result.periods[c]}" if result.periods[c] > 1 else "")
            axes.bar(np.arange(K) + (c - (r - 1) / 2) * width, law, width, color=_colours(max(r, 2))[c], label=label)
        axes.set_xticks(np.arange(K), [_shown(name) for name in result.names], rotation=90 if K > 12 else 0)
        axes.set(
            ylabel="share of time",
            title="Stationary distribution" if result.unique else f"{r} stationary distributions",
        )
        if r > 1 or result.periods[0] > 1:
            axes.legend(loc="best")
        return axes


@draw.register
def _intervals(result: TransitionIntervals, ax: Axes | None = None) -> Axes:
    """One line per transition, in the order of the table; of many the most frequent ones."""
    most = result.table["count"].nlargest(SHOWN, keep="first").index
    table = result.table.loc[np.sort(most)].iloc[::-1]
    left = len(result.table) - len(table)
    of = f", the {SHOWN} most frequent of {len(result.table)}" if left else ""
    with canvas(ax, (6.4, 1.2 + 0.26 * len(table))) as axes:
        at = np.arange(len(table))
        axes.hlines(at, table["lower"], table["upper"], color=ACCENT, linewidth=2)
        axes.plot(table["estimate"], at, "o", color=INK, markersize=4)
        axes.set_yticks(at, [f"{_shown(a)} → {_shown(b)}" for a, b in zip(table["from"], table["to"], strict=True)])
        axes.set(
            xlim=(0, 1),
            xlabel="transition probability",
            title=f"{100 * result.level:g}% {result.method} intervals{of}",
        )
        return axes


@draw.register
def _next(result: NextStep, ax: Axes | None = None) -> Axes:
    """Symbols: bars of the first sequence's law; numbers: mean and standard deviation of each column."""
    names = [_shown(name) for name in result.columns]
    with canvas(ax, (max(4.5, min(10.0, 1.5 + 0.35 * len(names))), 3.6)) as axes:
        at = np.arange(len(names))
        ahead = "the next step" if result.steps == 1 else f"{result.steps} steps ahead"
        many = len(result.law) > 1
        if result.std is None:
            axes.bar(at, result.law[0], color=ACCENT, width=0.7)
            axes.set(ylabel="probability")
        else:
            axes.errorbar(at, result.law[0], yerr=result.std[0], fmt="o", color=INK, ecolor=ACCENT, elinewidth=2)
            axes.set(ylabel="mean and standard deviation")
            axes.set_xlim(-0.7, len(names) - 0.3)
        axes.set_xticks(at, names, rotation=90 if len(names) > 15 else 0)
        axes.set(title=f"Distribution of {ahead}" + (" (first sequence)" if many else ""))
        return axes
