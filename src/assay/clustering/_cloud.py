"""One cloud of points that looks like a table in everything but its clusters: the null of `choose_k`'s test.

A cloud is a Gaussian copula with the table's correlations and with margins that have one mode each:

    x_j = F_j^-1(Phi(z_j)),   z ~ N(0, R)

    a column of many values   F_j is the unimodal distribution nearest to its own: skewness and tails stay, valleys fill
    a column of few values    its levels with their shares; R is solved so that the correlation of the levels is the
                              table's, by Mehler's series sum_m rho^m h_jm h_lm / m! over Hermite coefficients
    exclusive dummy columns   one set of levels, in the order of their means on the other columns

A column's valleys are measured after each column of many values has been mapped to a normal one by its own unimodal fit
(`straighten`), so that skewness and outliers, however they go together, are no evidence of clusters. Columns permuted
one by one are no such null: they lose the correlations, and any elongated cloud beats them.

Liu, Hayes, Nobel, Marron (2008), JASA 103, 1281-1293 (a normal cloud as null); Hartigan, Hartigan (1985), Annals of
Statistics 13, 70-84 (the nearest unimodal distribution).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np
from scipy import special, stats

from assay.clustering._kernels import unimodal_cdf

__all__ = ["Cloud", "few_levels", "principal_scores", "straighten"]

Array = np.ndarray
FEW = 10
"""A column of at most so many values is drawn by its levels."""
MODES = 15
TERMS = 16


def few_levels(column: Array) -> bool:
    """Whether a column is drawn by its levels."""
    return len(np.unique(column)) <= FEW


def _spread_ties(x: Array, rng: np.random.Generator) -> Array:
    """Values that were rounded, spread over the cell that rounding gave them."""
    levels, at, counts = np.unique(x, return_inverse=True, return_counts=True)
    if counts.max() == 1:
        return x
    gaps = np.diff(levels) / 2
    low, high = np.concatenate([gaps[:1], gaps]), np.concatenate([gaps, gaps[-1:]])
    return np.where(counts[at] > 1, x + rng.uniform(-low[at], high[at]), x)


def _unimodal(x: Array) -> tuple[Array, Array]:
    """Edges of cells of equal shares, and the nearest unimodal distribution function there."""
    ordered = np.sort(x)
    n = len(ordered)
    inner = (ordered[1:] + ordered[:-1]) / 2
    edges = np.concatenate([[2 * ordered[0] - inner[0]], inner, [2 * ordered[-1] - inner[-1]]])
    width = np.maximum(np.diff(edges), 1e-12 * (edges[-1] - edges[0]))
    modes = np.unique(np.linspace(1, n - 1, MODES).astype(np.int64))
    best = np.empty(n + 1)
    unimodal_cdf(1.0 / n / width, width, modes, best)
    return edges[0] + np.concatenate([[0.0], np.cumsum(width)]), best / best[-1]


def straighten(X: Array, rng: np.random.Generator) -> Array:
    """Columns of many values mapped to normal ones of the same variance by their unimodal fits; levels stay."""
    n, out = len(X), np.array(X, dtype=np.float64, order="C")
    for j in range(X.shape[1]):
        if not few_levels(X[:, j]):
            x = _spread_ties(X[:, j], rng)
            share = np.interp(x, *_unimodal(x))
            out[:, j] = special.ndtri(np.clip(share, 0.25 / n, 1 - 0.25 / n)) * X[:, j].std()
    return out


def principal_scores(X: Array, most: int) -> Array:
    """Coordinates along the principal axes, at most so many: a rotation, which no distance feels."""
    centred = X - X.mean(axis=0)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    rank = max(1, int((s > 1e-10 * max(s[0], 1e-300)).sum()))
    return (U * s)[:, : min(rank, most)]


@dataclass(eq=False)
class _Margin:
    """Columns that are drawn together: `edges` and `cdf` of a column of many values, or levels with their shares."""

    columns: Array
    scores: Array
    hermite: Array
    edges: Array | None = None
    cdf: Array | None = None
    levels: Array | None = None

    def draw(self, share: Array) -> Array:
        if self.levels is not None and self.cdf is not None:
            at = np.minimum(np.searchsorted(self.cdf, share, side="right"), len(self.levels) - 1)
            return self.levels[at]
        return np.interp(share, self.cdf, self.edges)[:, None]  # type: ignore[arg-type]


class Cloud:
    """The cloud of a table; `draw` gives a table of as many rows from it."""

    def __init__(self, X: Array, rng: np.random.Generator) -> None:
        self.shape = X.shape
        self.margins = _margins(X, rng)
        scores = np.column_stack([margin.scores for margin in self.margins])
        observed = np.corrcoef(scores, rowvar=False).reshape(scores.shape[1], scores.shape[1])
        R = _latent(observed, np.array([margin.hermite for margin in self.margins]))
        values, vectors = np.linalg.eigh(R)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        self.root = root / np.sqrt((root**2).sum(axis=1))[:, None]

    def draw(self, rng: np.random.Generator) -> Array:
        """A table from the cloud."""
        shares = special.ndtr(rng.standard_normal((self.shape[0], len(self.root))) @ self.root.T)
        out = np.empty(self.shape)
        for margin, share in zip(self.margins, shares.T, strict=True):
            out[:, margin.columns] = margin.draw(share)
        return out


def _margins(X: Array, rng: np.random.Generator) -> list[_Margin]:
    n, p = X.shape
    straight = np.zeros(TERMS)
    straight[1] = 1.0
    out, few = [], []
    for j in range(p):
        if few_levels(X[:, j]):
            few.append(j)
            continue
        scores = special.ndtri((stats.rankdata(X[:, j]) - 0.5) / n)
        edges, cdf = _unimodal(_spread_ties(X[:, j], rng))
        out.append(_Margin(np.array([j]), scores, straight, edges, cdf))
    for columns in _exclusive(X, few):
        levels, codes = np.unique(X[:, columns], axis=0, return_inverse=True)
        if len(columns) > 1 and out:  # levels without an order of their own
            first = principal_scores(np.column_stack([margin.scores for margin in out]), 1)[:, 0]
            order = np.argsort(np.bincount(codes, first) / np.bincount(codes), kind="stable")
            levels, codes = levels[order], np.argsort(order)[codes]
        out.append(_level_margin(np.array(columns), levels, codes))
    return out


def _level_margin(columns: Array, levels: Array, codes: Array) -> _Margin:
    """Levels as cells of a normal variable: their scores are its means in the cells."""
    shares = np.bincount(codes, minlength=len(levels)) / len(codes)
    cdf = np.cumsum(shares)
    cdf[-1] = 1.0
    cuts = special.ndtri(np.concatenate([[0.0], cdf]))
    height = np.exp(-(cuts**2) / 2) / np.sqrt(2 * np.pi)
    means = -np.diff(height) / shares
    spread = float(np.sqrt(shares @ means**2)) or 1.0
    hermite, inner = np.zeros(TERMS), np.where(np.isfinite(cuts), cuts, 0.0)
    for m in range(1, TERMS):
        # The integral of He_m times the density over a cell is what He_{m-1} times the density loses in it.
        edge = height * special.eval_hermitenorm(m - 1, inner)
        hermite[m] = means @ -np.diff(edge) / spread
    return _Margin(columns, means[codes] / spread, hermite, cdf=cdf, levels=levels)


def _exclusive(X: Array, few: list[int]) -> list[list[int]]:
    """Columns of few values, those that are dummies of one factor together: two values each, never both high."""
    high = {j: X[:, j] == X[:, j].max() for j in few if len(np.unique(X[:, j])) == 2}
    groups: list[list[int]] = []
    for j in few:
        for group in groups:
            both = [(high[j] & high[other]).sum() for other in group if j in high and other in high]
            expected = [high[j].mean() * high[other].sum() for other in group if j in high and other in high]
            if both and len(both) == len(group) and not any(both) and sum(expected) >= 5:
                group.append(j)
                break
        else:
            groups.append([j])
    return groups


def _latent(observed: Array, hermite: Array) -> Array:
    """Correlations of the normal variables under those of the scores, by bisection over all pairs at once."""
    factorials = np.array([float(factorial(m)) for m in range(TERMS)])
    low, high = np.full(observed.shape, -0.99), np.full(observed.shape, 0.99)
    for _ in range(30):
        middle = (low + high) / 2
        value = np.zeros(observed.shape)
        for m in range(TERMS - 1, 0, -1):
            value = (value + np.outer(hermite[:, m] / factorials[m], hermite[:, m])) * middle
        rising = value < observed
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    R = (low + high) / 2
    np.fill_diagonal(R, 1.0)
    return R
