"""Array work of the basis expansions: recurrences, knots, centres, and the kernels that fill new columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from assay.numerics.jit import kernel
from assay.numerics.scale import power_of_two

__all__ = [
    "are_counts",
    "farthest_rows", "fill_splines", "merged_knots", "multiply_out", "product_plan",
    "quantile_knots", "recurrence", "typical_gap", "unit_of",
]  # fmt: skip


def product_plan(terms: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each term as an earlier term (or none) times a power of its last column."""
    at = {term: i for i, term in enumerate(terms)}
    parent, column, power = (np.empty(len(terms), dtype=np.int64) for _ in range(3))
    for i, term in enumerate(terms):
        last = term[-1]
        rest = tuple(c for c in term if c != last)
        parent[i], column[i], power[i] = at.get(rest, -1), last, len(term) - len(rest)
    return parent, column, power


@kernel(exact=True)
def next_polynomial(t: Any, P: Any, k: Any, h: Any, g: Any) -> None:
    """P[k + 1] = g (t P[k] - sum_j h_j P[j]), in the very operations of `multiply_out`."""
    for i in range(t.size):
        value = t[i] * P[k, i]
        for j in range(k + 1):
            value -= h[j] * P[j, i]
        P[k + 1, i] = value * g


def recurrence(x: np.ndarray, w: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(centre, scale, P_0), h and g of the polynomials of norm one that are orthogonal on x under the weights w.

    P_{k+1} = g_k (t P_k - sum_j h_kj P_j) with t = (x - centre) scale in [-1, 1]. In exact arithmetic only h_kk and
    h_k,k-1 are not zero (the three-term recurrence); the others carry away the rounding errors of earlier steps, which
    grow fast on skewed data (Brubeck, Nakatsukasa and Trefethen, 2021, SIAM Review 63, 405-415).
    """
    centre = 0.5 * x.min() + 0.5 * x.max()
    half = float(np.abs(x - centre).max())
    h, g = np.zeros((degree, degree)), np.zeros(degree)
    # Built under `share`; P_0 then carries the root of the unit, an exact power of two, to all of them, so that new
    # rows and training rows see the same operations to the bit.
    root = unit_of(np.sqrt(w))
    share = w / root / root
    start = 1.0 / np.sqrt(share.sum())
    affine = np.array([centre, 1.0 / half if half > 1e-300 else 0.0, start])
    t = (x - centre) * affine[1]
    P = np.zeros((degree + 1, x.size))
    P[0] = start
    for k in range(min(degree, np.unique(x).size - 1) if affine[1] else 0):
        rest = t * P[k]
        for _ in range(2):
            along = P[: k + 1] @ (share * rest)
            h[k, : k + 1] += along
            rest -= along @ P[: k + 1]
        length = float(np.sqrt(np.sum(share * rest**2)))
        if length < 1e-14:  # distinct values so close that rounding decides
            break
        g[k] = 1.0 / length
        next_polynomial(t, P, k, h[k], g[k])
    affine[2] /= root
    return affine, h, g


@kernel(exact=True)
def multiply_out(
    X: Any, centre: Any, scale: Any, start: Any, h: Any, g: Any, parent: Any, column: Any, power: Any, first: Any,
    out: Any,
) -> None:  # fmt: skip
    """Row by row: P_1 .. P_top of each column by its recurrence, then every product into out[:, first:].

    An empty h stands for plain powers, P_{k+1} = t P_k.
    """
    n, p = X.shape
    top = g.shape[1]
    plain = h.size == 0
    P = np.empty((p, top + 1))
    for i in range(n):
        for c in range(p):
            t = (X[i, c] - centre[c]) * scale[c]
            P[c, 0] = start[c]
            for k in range(top):
                value = t * P[c, k]
                if not plain:
                    for j in range(k + 1):
                        value -= h[c, k, j] * P[c, j]
                    value *= g[c, k]
                P[c, k + 1] = value
        for j in range(parent.size):
            value = P[column[j], power[j]]
            if parent[j] >= 0:
                value *= out[i, first + parent[j]]
            out[i, first + j] = value


def quantile_knots(x: np.ndarray, w: np.ndarray | None, shares: np.ndarray) -> np.ndarray:
    """Quantiles between order statistics, as numpy's default; a whole weight counts as that many rows."""
    if w is None:
        return np.quantile(x, shares)
    order = np.argsort(x, kind="stable")
    x = x[order]
    if not are_counts(w):
        w = w * (w.size / w.sum())
    before = np.cumsum(w[order])
    position = shares * (before[-1] - 1.0)
    low = np.floor(position)
    at = [np.minimum(np.searchsorted(before, rank, side="right"), x.size - 1) for rank in (low, low + 1)]
    part = position - low
    return (1.0 - part) * x[at[0]] + part * x[at[1]]


def merged_knots(knots: np.ndarray) -> np.ndarray:
    """Distinct increasing knots: those closer than rounding error of the range become one."""
    apart = 1e-13 * float(np.abs(knots).max())
    kept = [float(knots[0])]
    for knot in knots[1:]:
        if knot - kept[-1] > apart:
            kept.append(float(knot))
    return np.array(kept)


@kernel
def fill_splines(
    x: Any, knots: Any, degree: Any, tangent: Any, edges: Any, wrap: Any, first: Any, width: Any, out: Any,
) -> None:  # fmt: skip
    """The degree + 1 B-splines that are not zero at each x, into out[:, first : first + width].

    Spline j goes to column j modulo `wrap` (periodic splines meet themselves again). edges holds, for `tangent`
    extrapolation, values at both ends and then slopes at both ends; without it the outer pieces continue.
    """
    low, high = knots[degree], knots[knots.size - 1 - degree]
    b = np.empty(degree + 1)
    for i in range(x.size):
        v = x[i]
        if tangent and (v < low or v > high):
            side = 0 if v < low else 1
            step = v - (low if side == 0 else high)
            for j in range(width):
                out[i, first + j] = edges[side, j] + step * edges[2 + side, j]
            continue
        left, right = degree, knots.size - 1 - degree
        while right - left > 1:
            middle = (left + right) >> 1
            if knots[middle] <= v:
                left = middle
            else:
                right = middle
        b[0] = 1.0
        for d in range(1, degree + 1):
            carry = 0.0
            for r in range(d):
                after, before = knots[left + r + 1], knots[left + 1 - d + r]
                share = b[r] / (after - before)
                b[r] = carry + (after - v) * share
                carry = (v - before) * share
            b[d] = carry
        for r in range(degree + 1):
            j = (left - degree + r) % wrap
            if j < width:
                out[i, first + j] += b[r]


def farthest_rows(x: np.ndarray, count: int) -> np.ndarray:
    """Rows far from each other: each the farthest from those before it, the first one nearest the mean."""
    chosen = [int(np.argmin(((x - x.mean(axis=0)) ** 2).sum(axis=1)))]
    gap = ((x - x[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        at = int(np.argmax(gap))
        if not gap[at] > 0:
            break
        chosen.append(at)
        np.minimum(gap, ((x - x[at]) ** 2).sum(axis=1), out=gap)
    return x[chosen]


def typical_gap(x: np.ndarray, centers: np.ndarray) -> float:
    """The mean distance from a centre to its nearest neighbour; with one centre, that of the rows to it."""
    if len(centers) > 1:
        between = cdist(centers, centers)
        np.fill_diagonal(between, np.inf)
        return float(between.min(axis=1).mean()) or 1.0
    return float(cdist(x, centers).mean()) or 1.0


def unit_of(X: np.ndarray) -> float:
    """A power of two next above the largest magnitude, so that squares of scaled values cannot overflow."""
    return float(power_of_two(np.abs(X).max(initial=0.0)))


def are_counts(weights: np.ndarray) -> bool:
    """Whether the weights are whole numbers (beyond 2^53 every float is one, and means nothing by it)."""
    return bool(weights.max() < 2.0**53 and (weights == np.floor(weights)).all())
