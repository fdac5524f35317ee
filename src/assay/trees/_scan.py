"""Along one column: every cut between two different values, from the lowest to the highest.

A column's part of a node is a run of entries `rank << 32 | row`, ascending, rows without a value last. A scan adds
up what lies below the cut; what lies above is the node's total less that. Means are taken around the node's mean,
so that with S the sum below, A and B the weights below and above, squared error gains

    S^2 / A + S^2 / B,

a number without cancellation. Rows without a value are tried below the cut and above it; the last cut of all puts
them on one side and everything else on the other.

A scan returns the gain to beat raised as far as this column can raise it, the place of the last entry below the cut
(-1: nothing better) and the side of the missing rows. Cost: O(rows of the node); with weights or gaps
and K classes O(rows x K).
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._criteria import GINI, POISSON, ROW, class_loss

__all__ = ["allowed", "scan_classes", "scan_counts", "scan_means", "scan_squares"]

Array = np.ndarray


@kernel(inline=True)
def allowed(left: float, right: float, sign: int, least: float, most: float) -> bool:
    """Whether two values keep within the bounds of their node and in the order asked for."""
    inside = left >= least and left <= most and right >= least and right <= most
    return inside and (left - right) * sign <= 0.0


@kernel(inline=True)
def scan_squares(
    entries: Array,
    column: int,
    low: int,
    high: int,
    y: Array,
    mean: float,
    inverse: Array,
    min_leaf: int,
    tie: float,
    best: float,
    sign: int,
    least: float,
    most: float,
) -> tuple[float, int, int]:
    """Squared error where every row counts once and none is missing: the fast road."""
    m = high - low
    at = -1
    s = 0.0
    bar = best + tie
    for i in range(low, low + min_leaf - 1):
        s += y[entries[column, i] & ROW] - mean
    here = entries[column, low + min_leaf - 1]
    for i in range(low + min_leaf - 1, high - min_leaf):
        after = entries[column, i + 1]
        s += y[here & ROW] - mean
        if (here >> 32) != (after >> 32):
            left = i - low + 1
            gain = s * s * (inverse[left] + inverse[m - left])
            if gain > bar and allowed(mean + s * inverse[left], mean - s * inverse[m - left], sign, least, most):
                best = gain
                bar = gain + tie
                at = i
        here = after
    return best, at, -1


@kernel(inline=True)
def scan_counts(
    entries: Array,
    column: int,
    low: int,
    high: int,
    codes: Array,
    criterion: int,
    sums: Array,
    inverse: Array,
    terms: Array,
    loss: float,
    min_leaf: int,
    tie: float,
    best: float,
    sign: int,
    least: float,
    most: float,
) -> tuple[float, int, int]:
    """Gini's index and deviance where every row counts once and none is missing, O(1) a row for any K.

    With q = sum_k c_k^2 Gini's loss is n - q / n, with q = sum_k c_k log2 c_k the deviance is n log2 n - q; either
    changes by one class when a row crosses the cut. Squares are whole numbers, and the terms c log2 c are rounded
    to a grid on which their sums are exact, so nothing accumulates.
    """
    m = high - low
    at = -1
    bar = loss - best - tie
    gini = criterion == GINI
    K = sums.shape[1]
    ql, qr = 0.0, 0.0
    for k in range(K):
        c = sums[0, k]
        sums[1, k] = 0.0
        qr += c * c if gini else terms[np.int64(c)]
    here = entries[column, low]
    for i in range(low, high - min_leaf):
        after = entries[column, i + 1]
        k = codes[here & ROW]
        below = sums[1, k]
        above = sums[0, k] - below
        sums[1, k] = below + 1.0
        n = i - low + 1
        if gini:
            ql += 2.0 * below + 1.0
            qr -= 2.0 * above - 1.0
        else:
            b, a = np.int64(below), np.int64(above)
            ql += terms[b + 1] - terms[b]
            qr += terms[a - 1] - terms[a]
        if (here >> 32) != (after >> 32) and n >= min_leaf:
            if gini:
                left, right = float(n), float(m - n)
                rest = (left * left - ql) * inverse[n] + (right * right - qr) * inverse[m - n]
            else:
                rest = (terms[n] - ql) + (terms[m - n] - qr)
            if rest < bar and allowed(sums[1, 1] / n, (sums[0, 1] - sums[1, 1]) / (m - n), sign, least, most):
                best = loss - rest
                bar = rest - tie
                at = i
        here = after
    return best, at, -1


@kernel(inline=True)
def scan_means(
    entries: Array,
    column: int,
    low: int,
    end: int,
    high: int,
    y: Array,
    w: Array,
    counts: Array,
    criterion: int,
    mean: float,
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
    """Squared error and Poisson with weights and gaps: entries end .. high - 1 are those without a value."""
    unit = w.size == 0
    gap_s, gap_w, gap_n = 0.0, 0.0, 0
    for i in range(end, high):
        row = entries[column, i] & ROW
        v = 1.0 if unit else w[row]
        gap_s += v * (y[row] - mean)
        gap_w += v
        gap_n += 1 if unit else counts[row]
    sides = 2 if end < high else 1
    at, side = -1, -1
    s, a, n = 0.0, 0.0, 0
    for i in range(low, end if sides == 2 else end - 1):
        row = entries[column, i] & ROW
        v = 1.0 if unit else w[row]
        s += v * (y[row] - mean)
        a += v
        n += 1 if unit else counts[row]
        last = i + 1 == end
        if not last and (entries[column, i] >> 32) == (entries[column, i + 1] >> 32):
            continue
        for k in range(1 if last else 0, sides):
            below = k == 0 and sides == 2
            sl = s + gap_s if below else s
            wl = a + gap_w if below else a
            nl = n + gap_n if below else n
            wr = weight - wl
            if nl < min_leaf or rows - nl < min_leaf or wl < min_weight or wr < min_weight or wr <= 0.0:
                continue
            if criterion == POISSON:
                up, down = sl + wl * mean, wr * mean - sl
                if up <= 1e-14 * weight * mean or down <= 1e-14 * weight * mean:
                    continue  # a mean of zero would make any later count infinitely surprising
                gain = up * np.log(up / (wl * mean)) + down * np.log(down / (wr * mean))
            else:
                gain = sl * sl * (1.0 / wl + 1.0 / wr)
            if gain > best + tie and allowed(mean + sl / wl, mean - sl / wr, sign, least, most):
                best = gain
                at = i
                side = k if sides == 2 else -1
    return best, at, side


@kernel(inline=True)
def scan_classes(
    entries: Array,
    column: int,
    low: int,
    end: int,
    high: int,
    codes: Array,
    w: Array,
    counts: Array,
    criterion: int,
    sums: Array,
    loss: float,
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
    """Any criterion of classes with weights and gaps; `sums` has five rows of K numbers, the first the totals."""
    unit = w.size == 0
    K = sums.shape[1]
    left, right = sums[3], sums[4]
    for k in range(K):
        sums[1, k] = 0.0
        sums[2, k] = 0.0
    gap_w, gap_n = 0.0, 0
    for i in range(end, high):
        row = entries[column, i] & ROW
        v = 1.0 if unit else w[row]
        sums[2, codes[row]] += v
        gap_w += v
        gap_n += 1 if unit else counts[row]
    sides = 2 if end < high else 1
    at, side = -1, -1
    a, n = 0.0, 0
    for i in range(low, end if sides == 2 else end - 1):
        row = entries[column, i] & ROW
        v = 1.0 if unit else w[row]
        sums[1, codes[row]] += v
        a += v
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
            for c in range(K):
                left[c] = sums[1, c] + sums[2, c] if below else sums[1, c]
                right[c] = max(sums[0, c] - left[c], 0.0)
            gain = loss - class_loss(left, wl, criterion) - class_loss(right, wr, criterion)
            if gain > best + tie and allowed(left[1] / wl, right[1] / wr, sign, least, most):
                best = gain
                at = i
                side = k if sides == 2 else -1
    return best, at, side
