"""Isotonic regression on a line: pool-adjacent-violators and reading off the step function.

    g = argmin over rising g of sum_i w_i (y_i - g(s_i))^2

Two classes without weights are sorted each by itself and merged, which needs no permutation; otherwise rows are taken
in the order of their scores. Ties are pooled first, then neighbours whose means fall, on a stack. Cost: the sort, then
O(n). Ayer et al. (1955), Ann. Math. Stat. 26, 641-647.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["guide_to", "isotonic_blocks", "read_off", "soften_ends"]

Array = np.ndarray
NO_WEIGHTS = np.empty(0)


@kernel(exact=True)
def merge_classes(negative: Array, positive: Array, score: Array, total: Array, mass: Array) -> int:
    """Pool two sorted columns by distinct score: `total` events among `mass` rows; returns how many there are."""
    i, j, k = 0, 0, 0
    while i < negative.size or j < positive.size:
        use_negative = j == positive.size or (i < negative.size and negative[i] <= positive[j])
        s = negative[i] if use_negative else positive[j]
        rows, events = 0.0, 0.0
        while i < negative.size and negative[i] == s:
            rows += 1.0
            i += 1
        while j < positive.size and positive[j] == s:
            rows += 1.0
            events += 1.0
            j += 1
        score[k], total[k], mass[k] = s, events, rows
        k += 1
    return k


@kernel(exact=True)
def pool_ties(order: Array, scores: Array, y: Array, w: Array, score: Array, total: Array, mass: Array) -> int:
    """The same for any target and weights (none: an empty array), from the order of the scores."""
    k = -1
    for i in range(order.size):
        row = order[i]
        weight = w[row] if w.size else 1.0
        if k < 0 or scores[row] != score[k]:
            k += 1
            score[k], total[k], mass[k] = scores[row], 0.0, 0.0
        total[k] += weight * y[row]
        mass[k] += weight
    return k + 1


@kernel(exact=True)
def pool_violators(total: Array, mass: Array, start: Array) -> int:
    """Pool neighbours whose means do not rise, in place; block b begins at `start[b]`. Returns how many there are."""
    top = -1
    for i in range(start.size):
        t, m = total[i], mass[i]
        first = i
        # Cross products instead of quotients: exact for counts. Divided by the larger mass, they do not vanish either.
        while top >= 0 and total[top] * (m / max(m, mass[top])) >= t * (mass[top] / max(m, mass[top])):
            t += total[top]
            m += mass[top]
            first = start[top]
            top -= 1
        top += 1
        total[top], mass[top], start[top] = t, m, first
    return top + 1


@kernel(exact=True)
def read_off(knots: Array, values: Array, linear: bool, guide: Array, scores: Array, out: Array) -> None:
    """The value at each score, constant beyond the first and the last knot, straight or level between knots.

    `guide[c]` counts the knots before cell c of equal cells over the knots, so that a search begins next to its end.
    """
    last, cells = knots.size - 1, guide.size - 1
    bottom, reach = 0.5 * knots[0], 0.5 * knots[last] - 0.5 * knots[0]
    for i in range(scores.size):
        s = scores[i]
        if not s > knots[0]:
            out[i] = values[0]
            continue
        if s >= knots[last]:
            out[i] = values[last]
            continue
        # Halves first: the gap between two finite numbers need not be finite. One cell more on each side for rounding.
        cell = int((0.5 * s - bottom) / reach * cells)
        low, high = max(0, guide[max(0, cell - 1)] - 1), min(last, guide[min(cells, cell + 2)])
        while high - low > 1:
            middle = (low + high) >> 1
            if knots[middle] <= s:
                low = middle
            else:
                high = middle
        left, right = values[low], values[high]
        if not linear or left == right:
            out[i] = left
            continue
        share = (0.5 * s - 0.5 * knots[low]) / (0.5 * knots[high] - 0.5 * knots[low])
        at = left + share * (right - left)
        out[i] = min(max(at, min(left, right)), max(left, right))


def guide_to(knots: Array, cells: int) -> Array:
    """How many knots lie before each cell of `cells` equal ones."""
    edges = 2.0 * (0.5 * knots[0] + np.linspace(0.0, 1.0, cells + 1) * (0.5 * knots[-1] - 0.5 * knots[0]))
    return np.searchsorted(knots, edges)


def isotonic_blocks(scores: Array, y: Array, w: Array | None) -> tuple[Array, Array, Array, Array]:
    """First score, last score, mean and weight of each block, from the lowest to the highest."""
    n, unit = scores.size, 1.0 if w is None else float(w.max())
    score, total, mass = np.empty(n), np.empty(n), np.empty(n)
    is_event = y == 1.0
    if w is None and np.all(is_event | (y == 0.0)):
        m = merge_classes(np.sort(scores[~is_event]), np.sort(scores[is_event]), score, total, mass)
    else:
        weights = NO_WEIGHTS if w is None else w / unit
        m = pool_ties(np.argsort(scores, kind="stable"), scores, y, weights, score, total, mass)
    start = np.empty(m, dtype=np.intp)
    blocks = pool_violators(total, mass, start)
    start = start[:blocks]
    end = np.append(start[1:], m) - 1
    return score[start], score[end], total[:blocks] / mass[:blocks], mass[:blocks] * unit


def soften_ends(value: Array, mass: Array) -> Array:
    """Laplace's rule for a block of no events (1/(m + 2)) and one of nothing else, as far as the next block allows."""
    value = value.copy()
    if value.size > 1 and value[0] == 0.0:
        value[0] = min(1 / (mass[0] + 2), value[1])
    if value.size > 1 and value[-1] == 1.0:
        value[-1] = max(1 - 1 / (mass[-1] + 2), value[-2])
    return value
