"""Along one column with absolute error: the median of everything below each cut, and of everything above.

Where every row counts once, rows leave a list of the node's sorted targets one by one; the median moves by at most
one place when a row leaves, so a pass costs O(1) a row. With weights the median may jump: rows enter a Fenwick tree
over the sorted targets, and half the weight is found by walking down it, O(log m) a row. With W_b, S_b the weight
and the sum of targets up to the median, and W, S those of all,

    sum w |y - median| = median W_b - S_b + (S - S_b) - median (W - W_b).

Targets are taken around the node's own median. Cost: two passes over the m rows of a node, four with gaps.
Fenwick (1994), Software: Practice and Experience 24, 327-336.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._criteria import ROW
from assay.trees._scan import allowed

__all__ = ["rank_targets", "scan_medians"]

Array = np.ndarray


@kernel(inline=True)
def rank_targets(
    entries: Array, column: int, low: int, high: int, y: Array, centre: float, place: Array, targets: Array
) -> None:
    """Each row's place (from 1) among the node's targets, and the targets around the centre, ascending."""
    for i in range(low, high):
        row = entries[column, i] & ROW
        place[row] = i - low + 1
        targets[0, i - low + 1] = y[row] - centre


@kernel(inline=True)
def _leave(
    entries: Array,
    column: int,
    low: int,
    end: int,
    high: int,
    keep_gap: bool,
    upwards: bool,
    place: Array,
    targets: Array,
    links: Array,
    slot: int,
) -> None:
    """Loss and median of low .. i (or, upwards, of i .. end - 1) for each i, by taking rows away one at a time.

    Results go to rows slot + 3 and slot + 7 of `targets`. With the gap's rows kept they are part of every set,
    and what they cost alone goes to place end - low.
    """
    m = high - low
    total = 0.0
    for t in range(m + 2):
        links[0, t] = t - 1
        links[1, t] = t + 1
    count = m
    middle = (m + 1) // 2
    lower = 0.0
    for t in range(1, m + 1):
        total += targets[0, t]
        if t == middle:
            lower = total
    upper = total - lower
    first = 0 if keep_gap else high - end  # the gap's rows go first, and nothing is told of them
    for k in range(first + end - low + 1):
        i = end + k if k < first else (low + k - first if upwards else end - 1 - (k - first))
        if k >= first:
            told = i - low if k < first + end - low else end - low
            if count > 0:
                odd = count & 1
                targets[slot + 3, told] = max(upper - lower + targets[0, middle] * odd, 0.0)
                targets[slot + 7, told] = 0.5 * (targets[0, middle] + targets[0, middle if odd else links[1, middle]])
        if k == first + end - low:
            break
        t = place[entries[column, i] & ROW]
        before, after = links[0, t], links[1, t]
        # The lower half, which ends at `middle`, holds (count + 1) // 2 targets.
        if t <= middle:
            lower -= targets[0, t]
            if count & 1:
                if t == middle:
                    middle = before
            else:
                middle = links[1, middle]
                lower += targets[0, middle]
                upper -= targets[0, middle]
        else:
            upper -= targets[0, t]
            if count & 1:
                lower -= targets[0, middle]
                upper += targets[0, middle]
                middle = links[0, middle]
        links[1, before] = after
        links[0, after] = before
        count -= 1


@kernel(inline=True)
def _find(targets: Array, m: int, goal: float, strict: int) -> int:
    """The first place at which the weight up to it reaches (or, if strict, passes) the goal."""
    step = 1
    while 2 * step <= m:
        step *= 2
    at = 0
    while step > 0:
        after = at + step
        if after <= m and (targets[1, after] < goal or (strict == 1 and targets[1, after] == goal)):
            at = after
            goal -= targets[1, after]
        step //= 2
    return min(at + 1, m)


@kernel(inline=True)
def _enter(
    entries: Array,
    column: int,
    low: int,
    end: int,
    high: int,
    keep_gap: bool,
    upwards: bool,
    w: Array,
    place: Array,
    targets: Array,
    slot: int,
) -> None:
    """The same with weights, by letting rows enter one at a time."""
    m = high - low
    for t in range(m + 1):
        targets[1, t] = 0.0
        targets[2, t] = 0.0
    W, S = 0.0, 0.0
    first = high - end if keep_gap else 0
    for k in range(first + end - low):
        i = end + k if k < first else (end - 1 - (k - first) if upwards else low + k - first)
        t = place[entries[column, i] & ROW]
        v = w[entries[column, i] & ROW]
        d = v * targets[0, t]
        W += v
        S += d
        while t <= m:
            targets[1, t] += v
            targets[2, t] += d
            t += t & -t
        if k < first - 1:
            continue
        at = _find(targets, m, 0.5 * W * (1.0 - 1e-12), m - m)
        median = targets[0, at]
        below, under = 0.0, 0.0
        t = at
        while t > 0:
            below += targets[1, t]
            under += targets[2, t]
            t -= t & -t
        told = end - low if k < first else i - low
        targets[slot + 3, told] = max(median * below - under + (S - under) - median * (W - below), 0.0)
        targets[slot + 7, told] = 0.5 * (median + targets[0, _find(targets, m, 0.5 * W * (1.0 + 1e-12), m - m + 1)])


@kernel(inline=True)
def scan_medians(
    entries: Array,
    column: int,
    low: int,
    end: int,
    high: int,
    w: Array,
    counts: Array,
    place: Array,
    targets: Array,
    links: Array,
    loss: float,
    centre: float,
    weight: float,
    rows: int,
    min_leaf: int,
    min_weight: float,
    tie: float,
    best: float,
    sign: int,
    least: float,
    most: float,
) -> tuple[float, int, int]:
    """Absolute error with weights and gaps; `links` is 2 x (n + 2).

    `targets`, 11 x (n + 2), holds the sorted targets, the tree (weights, sums), four losses and four medians a cut.
    """
    unit = w.size == 0
    gap_w, gap_n = 0.0, 0
    for i in range(end, high):
        row = entries[column, i] & ROW
        gap_w += 1.0 if unit else w[row]
        gap_n += 1 if unit else counts[row]
    sides = 2 if end < high else 1
    # Slots 0 and 1: below the cut without and with the gap's rows; slots 2 and 3: above it.
    for slot in range(4):
        keep = slot % 2 == 1
        if keep and sides == 1:
            continue
        if unit:
            _leave(entries, column, low, end, high, keep, slot >= 2, place, targets, links, slot)
        else:
            _enter(entries, column, low, end, high, keep, slot >= 2, w, place, targets, slot)
    at, side = -1, -1
    a, n = 0.0, 0
    for i in range(low, end if sides == 2 else end - 1):
        row = entries[column, i] & ROW
        a += 1.0 if unit else w[row]
        n += 1 if unit else counts[row]
        last = i + 1 == end
        if not last and (entries[column, i] >> 32) == (entries[column, i + 1] >> 32):
            continue
        for k in range(1 if last else 0, sides):
            below = k == 0 and sides == 2
            wl = a + gap_w if below else a
            nl = n + gap_n if below else n
            wr = weight - wl
            if nl < min_leaf or rows - nl < min_leaf or wl < min_weight or wr < min_weight or wr <= 0.0:
                continue
            up = 1 if below else 0
            down = 2 if below or sides == 1 else 3
            rest = targets[up + 3, i - low] + targets[down + 3, i + 1 - low]
            if loss - rest > best + tie and allowed(
                targets[up + 7, i - low] + centre, targets[down + 7, i + 1 - low] + centre, sign, least, most
            ):
                best = loss - rest
                at = i
                side = k if sides == 2 else -1
    return best, at, side
