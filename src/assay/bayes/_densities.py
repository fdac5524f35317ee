"""Densities of many makes behind one face, and the probabilities of regions of the line.

A density may be a frozen scipy distribution (continuous, discrete or multivariate), a fitted model with `score_samples`
(scikit-learn's mixtures and kernel densities), anything with `logpdf` or `pdf`, or a sample, which becomes a Gaussian
kernel density. `Line` cuts the real line into cells between quantiles of all densities; inside a cell the log
densities are taken to be monotone against each other, so the border between two decisions is found by bisection
and its probabilities by the distribution functions (Gauss-Legendre quadrature where there is none). Counts are
listed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special, stats

from assay.checks import sample
from assay.errors import DataError, DataTypeError

__all__ = ["Density", "Line", "agree", "atoms"]

Array = np.ndarray
CELLS = 600
"""Quantiles of each density that cut the line."""
OUTER = 1e-15
"""Counts whose tail probability is below this are left out of the list."""
NODES, WEIGHTS = special.roots_legendre(12)


class Density:
    """One class-conditional density: `log(x)`, `draw`, and in one dimension the mass between two points."""

    def __init__(self, source: Any, name: str) -> None:
        self.source, self.name = source, name
        if isinstance(source, np.ndarray | list | tuple) or hasattr(source, "iloc"):
            values = sample(source, name, least=2)[0]
            try:
                self.source = stats.gaussian_kde(values.T)
            except (np.linalg.LinAlgError, ValueError) as error:
                what = f"{name} does not vary in every direction, so it has no kernel density"
                raise DataError(what, remedy="pass a sample that varies, or a distribution") from error
        methods = ("logpmf", "logpdf", "score_samples", "pdf")
        found = [method for method in methods if callable(getattr(self.source, method, None))]
        if isinstance(getattr(self.source, "dist", None), stats.rv_discrete):
            found = ["logpmf"]
        elif "logpmf" in found and "logpdf" in found:
            found.remove("logpmf")
        if not found:
            what = f"{name} is a {type(source).__name__}, which has no density"
            raise DataTypeError(
                what, remedy="pass a frozen scipy distribution, a model with score_samples, or a sample"
            )
        self.way = found[0]
        self.discrete = self.way == "logpmf"
        self.dim = self._dimension()

    def _dimension(self) -> int:
        for attribute in ("dim", "d", "n_features_in_"):
            if hasattr(self.source, attribute):
                return int(getattr(self.source, attribute))
        if hasattr(self.source, "mean") and not isinstance(getattr(self.source, "dist", None), stats.rv_continuous):
            mean = self.source.mean() if callable(self.source.mean) else self.source.mean
            return int(np.size(mean))
        return 1

    def log(self, x: Array) -> Array:
        """Log density at points of shape (m,) in one dimension, (m, d) in more."""
        if len(x) == 0:
            return np.empty(0)
        if self.way == "score_samples":
            return np.asarray(self.source.score_samples(x.reshape(-1, self.dim)), dtype=float)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            if self.way == "pdf":
                value = np.log(np.asarray(self.source.pdf(x), dtype=float))
            else:
                points = x.T if isinstance(self.source, stats.gaussian_kde) else x
                value = np.asarray(getattr(self.source, self.way)(points), dtype=float)
        # One point in d dimensions comes back as a number.
        return value.reshape(len(x))

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Points drawn from the density; (m,) in one dimension."""
        if hasattr(self.source, "rvs"):
            points = np.asarray(self.source.rvs(size=size, random_state=rng), dtype=float)
        elif hasattr(self.source, "resample"):
            points = np.asarray(self.source.resample(size, seed=rng)).T
        elif hasattr(self.source, "icdf"):
            points = np.asarray(self.source.sample(size, rng=rng), dtype=float)
        elif hasattr(self.source, "sample"):
            points = _sampled(self.source, size, rng)
        else:
            what = f"{self.name} has no rvs, and is not one-dimensional with a cdf"
            raise DataTypeError(what, remedy="give it a method rvs(size, random_state)")
        return points.reshape(size) if self.dim == 1 else points.reshape(size, self.dim)

    @property
    def has_cdf(self) -> bool:
        """Whether the mass of an interval is known without quadrature."""
        return self.dim == 1 and hasattr(self.source, "cdf") and self._sf is not None

    # scipy has two generations of distributions: sf, isf, ppf and rvs became ccdf, iccdf, icdf and sample.
    @property
    def _sf(self) -> Any:
        return getattr(self.source, "sf", getattr(self.source, "ccdf", None))

    @property
    def _ppf(self) -> Any:
        return getattr(self.source, "ppf", getattr(self.source, "icdf", None))

    @property
    def _isf(self) -> Any:
        return getattr(self.source, "isf", getattr(self.source, "iccdf", None))

    def mass(self, a: Array, b: Array) -> Array:
        """P(a < X <= b) for arrays of ends, by the tail that keeps the digits."""
        if a.size == 0:
            return np.empty(0)
        if self.has_cdf:
            below = np.asarray(self.source.cdf(b))
            left = below - np.asarray(self.source.cdf(a))
            right = np.asarray(self._sf(a)) - np.asarray(self._sf(b))
            return np.maximum(0.0, np.where(below <= 0.5, left, right))
        if isinstance(self.source, stats.gaussian_kde):
            spread = np.sqrt(self.source.covariance[0, 0])
            points, weights = self.source.dataset[0], self.source.weights
            low, high = ((end[:, None] - points) / spread for end in (a, b))
            flip = low + high > 0
            near, far = np.where(flip, -high, low), np.where(flip, -low, high)
            return np.maximum(0.0, (special.ndtr(far) - special.ndtr(near)) @ weights)
        half, middle = 0.5 * (b - a), 0.5 * (a + b)
        at = middle[:, None] + half[:, None] * NODES
        return half * (np.exp(self.log(at.ravel())).reshape(at.shape) @ WEIGHTS)

    def cuts(self) -> Array:
        """Points that follow the density: its quantiles, its support's ends, and far tails."""
        share = np.concatenate([np.logspace(-15, -3, 40), np.linspace(0.002, 0.998, CELLS), [0.5]])
        if self.has_cdf and self._ppf is not None and self._isf is not None:
            points = np.concatenate([self._ppf(share), self._isf(share[:40])])
            if hasattr(self.source, "support"):
                points = np.concatenate([points, np.ravel(self.source.support())])
        else:
            seen = np.sort(self.draw(4 * CELLS, np.random.default_rng(0)))
            width = seen[-1] - seen[0]
            points = np.concatenate([np.linspace(seen[0] - width, seen[-1] + width, CELLS // 2), seen[::16]])
        return np.asarray(points, dtype=float)


def _sampled(source: Any, size: int, rng: np.random.Generator) -> Array:
    """scikit-learn's models draw by a seed of their own: a copy is given one, so theirs is left alone."""
    from copy import copy

    seed = int(rng.integers(0, 2**31))
    if hasattr(source, "random_state"):
        source = copy(source)
        source.random_state = seed
        points = source.sample(size)
    else:
        points = source.sample(size, random_state=seed)
    return np.asarray(points[0] if isinstance(points, tuple) else points, dtype=float)


class Line:
    """The real line cut into cells, with every density's mass of each."""

    def __init__(self, densities: Sequence[Density]) -> None:
        self.densities = tuple(densities)
        points = np.unique(np.concatenate([density.cuts() for density in densities]))
        self.cut(points[np.isfinite(points)])
        lost = np.abs(1 - self.p.sum(axis=1))
        if (lost > 1e-6).any():
            worst = int(np.argmax(lost))
            what = f"{self.densities[worst].name} integrates to {self.p[worst].sum():.6g}, not to 1"
            raise DataError(what, remedy="pass a normalised density")

    def cut(self, points: Array) -> None:
        """Cells between ascending points."""
        self.a, self.b = points[:-1], points[1:]
        self.p = np.array([density.mass(self.a, self.b) for density in self.densities])
        inset = 1e-9 * (self.b - self.a)
        # Inside the cell: at the end of a support a density may jump.
        self.left, self.middle, self.right = self.a + inset, 0.5 * (self.a + self.b), self.b - inset

    def refine(self, function: Callable[[Array], Array]) -> None:
        """Cut where the function turns inside a cell, and where it begins or ends to be flat."""
        step = 1e-3 * (self.right - self.left)
        first, second = function(self.left), function(self.left + step)
        last, before = function(self.right), function(self.right - step)
        with np.errstate(invalid="ignore", over="ignore"):
            rise, fall = second - first, last - before
            size = 1e-13 * np.maximum(1.0, np.abs(first))
            slopes = np.isfinite(rise) & np.isfinite(fall)
            turning = np.flatnonzero(slopes & (np.sign(rise) * np.sign(fall) < 0))
            starts = np.flatnonzero(slopes & (np.abs(rise) <= size) & (np.abs(last - first) > size))
            ends = np.flatnonzero(slopes & (np.abs(fall) <= size) & (np.abs(last - first) > size))
        extra = [self._turn(turning, function, np.sign(rise[turning]))]
        extra.append(self.split(starts, lambda x, cells: np.abs(function(x) - first[cells]) <= size[cells]))
        extra.append(self.split(ends, lambda x, cells: np.abs(function(x) - last[cells]) > size[cells]))
        self.cut(np.unique(np.concatenate([self.a, self.b[-1:], *extra])))

    def _turn(self, cells: Array, function: Callable[[Array], Array], sign: Array) -> Array:
        """The extremum inside each cell, by thirds."""
        low, high = self.left[cells].copy(), self.right[cells].copy()
        for _ in range(80 if cells.size else 0):
            third = (high - low) / 3
            climbs = sign * (function(high - third) - function(low + third)) > 0
            low, high = np.where(climbs, low + third, low), np.where(climbs, high, high - third)
        return 0.5 * (low + high)

    def split(self, cells: Array, same_side: Callable[[Array, Array], Array]) -> Array:
        """In each cell the border x: `same_side(x, cells)` says whether x still belongs to the cell's left end."""
        low, high = self.left[cells].copy(), self.right[cells].copy()
        for _ in range(60 if cells.size else 0):
            x = 0.5 * (low + high)
            same = same_side(x, cells)
            low, high = np.where(same, x, low), np.where(same, high, x)
        return 0.5 * (low + high)


def atoms(first: Density, second: Density) -> tuple[Array, Array, Array]:
    """Counts that either distribution can give, and their probabilities under both."""
    low = min(float(d.source.ppf(OUTER)) for d in (first, second))
    high = max(float(d.source.isf(OUTER)) for d in (first, second))
    if not np.isfinite(low + high) or high - low > 10_000_000:
        raise DataError("the counts spread over more than ten million values", remedy="use a continuous approximation")
    x = np.arange(low, high + 1)
    return x, np.exp(first.log(x)), np.exp(second.log(x))


def agree(densities: Sequence[Density]) -> None:
    """Refuse densities that do not live in one space."""
    if len({(d.dim, d.discrete) for d in densities}) > 1:
        words = ", ".join(f"{d.name}: {d.dim}-dimensional {'counts' if d.discrete else 'density'}" for d in densities)
        raise DataError(
            f"the densities are not on the same space ({words})", remedy="pass densities of the same kind and dimension"
        )
