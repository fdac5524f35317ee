"""The distribution of the log likelihood ratio under two hypotheses, exact where that is possible.

    L(x) = log f1(x) - log f0(x),    P0(L > t), P1(L > t), P0(L = t), P1(L = t)

Counts, draws and scores make steps; on the line, cells on which L is flat are steps too (uniform or Laplace densities
have them), and in all other cells L crosses t at a point found by bisection.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from assay.bayes._densities import Density, Line, agree, atoms
from assay.checks import sample
from assay.errors import DataError, ParameterError
from assay.numerics.seeds import generator

__all__ = ["Ratio"]

Array = np.ndarray


class Ratio:
    """The distribution of L = log f1/f0 under both hypotheses: steps (counts, draws, flat parts) and cells."""

    def __init__(self, f0: Any, f1: Any, n_draws: int, random_state: Any) -> None:
        self.line: Line | None = None
        self.drawn = self.scores = False
        arrays = [isinstance(f, np.ndarray | list | tuple) or hasattr(f, "iloc") for f in (f0, f1)]
        if any(arrays):
            self._from_scores(f0, f1, arrays)
            return
        self.first, self.second = Density(f0, "f0"), Density(f1, "f1")
        agree((self.first, self.second))
        if self.first.discrete:
            x, p0, p1 = atoms(self.first, self.second)
            self._steps(self.at(x), p0 / p0.sum(), p1 / p1.sum())
        elif self.first.dim == 1:
            self._from_line()
        else:
            rng = generator(random_state)
            x0, x1 = self.first.draw(n_draws, rng), self.second.draw(n_draws, rng)
            self._weigh(self.at(x0), self.at(x1))
            self.drawn = True

    def _from_scores(self, f0: Any, f1: Any, arrays: list[bool]) -> None:
        if not all(arrays):
            raise ParameterError(
                "one hypothesis is a sample of scores, the other is not", remedy="pass two samples or two densities"
            )
        self.scores = True
        parts = []
        for values, name in ((f0, "f0"), (f1, "f1")):
            array, names = sample(values, name)
            if len(names) > 1:
                raise DataError(f"{name} has {len(names)} columns", remedy="pass one score per row")
            parts.append(array[:, 0])
        self._weigh(parts[0], parts[1])

    def _weigh(self, l0: Array, l1: Array) -> None:
        values = np.concatenate([l0, l1])
        p0 = np.concatenate([np.full(l0.size, 1 / l0.size), np.zeros(l1.size)])
        p1 = np.concatenate([np.zeros(l0.size), np.full(l1.size, 1 / l1.size)])
        self.sizes = (l0.size, l1.size)
        self._steps(values, p0, p1)

    def _steps(self, values: Array, p0: Array, p1: Array) -> None:
        """Equal ratios (up to rounding) become one step; steps ascend."""
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        low, high = ordered[:-1], ordered[1:]
        with np.errstate(invalid="ignore"):
            close = np.isfinite(high - low) & (high - low <= 1e-11 * np.maximum(1.0, np.abs(high)))
        gap = (low != high) & ~close
        starts = np.concatenate([[0], np.flatnonzero(gap) + 1])
        self.values = ordered[starts]
        self.p0, self.p1 = np.add.reduceat(p0[order], starts), np.add.reduceat(p1[order], starts)

    def _from_line(self) -> None:
        line = self.line = Line((self.first, self.second))
        line.refine(self.at)
        possible = line.p.sum(axis=0) > 0
        left, middle, right = (self.at(x) for x in (line.left, line.middle, line.right))
        with np.errstate(invalid="ignore"):
            size = 1e-13 * np.maximum(1.0, np.abs(middle))
            close = (np.abs(left - middle) <= size) & (np.abs(right - middle) <= size)
        flat = possible & (close | ((left == middle) & (middle == right)))
        self.sloped = np.flatnonzero(possible & ~flat)
        self.left, self.right = left[self.sloped], right[self.sloped]
        at = np.flatnonzero(flat)
        if at.size:
            self._steps(middle[at], line.p[0, at], line.p[1, at])
        else:
            self.values, self.p0, self.p1 = np.empty(0), np.empty(0), np.empty(0)

    def at(self, x: Array) -> Array:
        """log f1(x) - log f0(x); where both are zero the point cannot occur and counts as even."""
        if self.scores:
            return x
        a, b = self.first.log(x), self.second.log(x)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(np.isneginf(a) & np.isneginf(b), 0.0, b - a)

    def above(self, t: float) -> tuple[float, float]:
        """P0(L > t) and P1(L > t)."""
        over = self.values > t
        masses = [float(self.p0[over].sum()), float(self.p1[over].sum())]
        if self.line is not None:
            full = self.sloped[(self.left > t) & (self.right > t)]
            a, b = self._partial(t)
            for j, density in enumerate((self.first, self.second)):
                masses[j] += float(self.line.p[j, full].sum() + density.mass(a, b).sum())
        return min(1.0, masses[0]), min(1.0, masses[1])

    def _partial(self, t: float) -> tuple[Array, Array]:
        """The parts with L > t of the cells in which L crosses t."""
        assert self.line is not None
        line = self.line
        starts_over = self.left > t
        crosses = starts_over != (self.right > t)
        cells, started = self.sloped[crosses], starts_over[crosses]
        x = line.split(cells, lambda at, _: (self.at(at) > t) == started)
        return np.where(started, line.a[cells], x), np.where(started, x, line.b[cells])

    def over(self, t: float) -> tuple[Array, Array]:
        """Every piece of the line with L > t, cell by cell."""
        assert self.line is not None
        line = self.line
        level = np.setdiff1d(np.flatnonzero(line.p.sum(axis=0) > 0), self.sloped)
        level = level[self.at(line.middle[level]) > t]
        full = np.concatenate([level, self.sloped[(self.left > t) & (self.right > t)]])
        a, b = self._partial(t)
        return np.concatenate([line.a[full], a]), np.concatenate([line.b[full], b])

    def step(self, t: float) -> tuple[float, float]:
        """P0(L = t) and P1(L = t)."""
        here = self.values == t
        return float(self.p0[here].sum()), float(self.p1[here].sum())

    def threshold(self, excess: Any) -> tuple[float, float]:
        """The (t, gamma) at which `excess(P0 reject, P1 reject)`, rising in both, is zero; ends if it never is."""
        tried = self._step_at(excess)
        if tried is not None:
            return tried
        # Between neighbouring values at cell borders first: the ratio may span thirty orders of magnitude.
        knots = np.unique(np.concatenate([self.left, self.right]))
        knots = knots[np.isfinite(knots)]
        reach = 0.01 * float(knots[-1] - knots[0])
        knots = np.concatenate([[knots[0] - reach], knots, [knots[-1] + reach]])
        low, high = 0, knots.size - 1
        while high - low > 1:
            mid = (low + high) // 2
            low, high = (mid, high) if excess(*self.above(float(knots[mid]))) > 0 else (low, mid)
        a, b = float(knots[low]), float(knots[high])
        t = optimize.brentq(lambda t: excess(*self.above(t)), a, b, xtol=max(1e-15 * (b - a), 1e-300), rtol=1e-15)
        return float(t), 0.0

    def _step_at(self, excess: Any) -> tuple[float, float] | None:
        """The step across which the excess changes sign, by bisection over the ascending steps."""
        low, high = -1, self.values.size  # excess(above) > 0 at low, <= 0 at high
        while high - low > 1:
            mid = (low + high) // 2
            if excess(*self.above(float(self.values[mid]))) > 0:
                low = mid
            else:
                high = mid
        if high == self.values.size:
            # Nothing lies above the last step; only sloped cells beyond it can decide.
            return None if self.line is not None and self.sloped.size else (float(self.values[-1]), 0.0)
        t = float(self.values[high])
        over, step = self.above(t), self.step(t)
        ends = excess(*over), excess(over[0] + step[0], over[1] + step[1])
        if ends[1] < 0:
            return None if self.line is not None and self.sloped.size else (t, 1.0)
        return t, float(np.clip(abs(ends[0]) / (ends[1] - ends[0]), 0.0, 1.0)) if ends[1] > ends[0] else 0.0
