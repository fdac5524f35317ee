"""Categories without an order: which of them go to the first child.

With numbers as target or two classes, and a loss whose value is a mean, the best of the 2^(L-1) - 1 ways to part L
levels keeps them in the order of their mean response (Fisher 1958; Breiman et al. 1984, theorem 4.5), so a column of
categories is put in that order and scanned like numbers. Three and more classes: up to 10 levels all ways are
tried; beyond, levels are ordered along the first principal component of their class shares, the direction in which
they differ most (Coppersmith, Hong, Hosking 1999, Data Mining and Knowledge Discovery 3, 197-217).

Cost: O(m + L log^2 L) for the order of a node of m rows, O(2^L K) for all ways.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._criteria import ROW, class_loss

__all__ = ["FEW", "level_keys", "level_runs", "ordered_view", "scan_subsets", "write_levels"]

Array = np.ndarray
BIT = np.uint32(1)

FEW = 10
"""Up to so many levels present, all ways to part them are tried for three classes and more."""
TURNS = 200


@kernel(inline=True)
def level_runs(entries: Array, column: int, low: int, end: int, runs: Array) -> int:
    """Where each level present begins among the entries (and, last, where the last one ends); how many there are."""
    found = 0
    for i in range(low, end):
        if i == low or (entries[column, i] >> 32) != (entries[column, i - 1] >> 32):
            runs[found] = i
            found += 1
    runs[found] = end
    return found


@kernel(inline=True)
def level_keys(
    entries: Array,
    column: int,
    levels: Array,
    found: int,
    y: Array,
    codes: Array,
    w: Array,
    classes: int,
    scratch: Array,
) -> None:
    """What the levels are ordered by, in the last column of `scratch`: mean response or principal component."""
    K = classes
    for g in range(found):
        weight = 0.0
        for k in range(K + 2):
            scratch[g, k] = 0.0
        for i in range(levels[0, g], levels[0, g + 1]):
            row = entries[column, i] & ROW
            v = w[row] if w.size > 0 else 1.0
            weight += v
            if K == 0:
                scratch[g, 1] += v * y[row]
            else:
                scratch[g, codes[row]] += v
        scratch[g, K] = weight
        if K == 0:
            scratch[g, 1] /= weight
        elif K == 2:
            scratch[g, 3] = scratch[g, 1] / weight
    if K > 2:
        _principal(scratch, found, K)


@kernel(inline=True)
def ordered_view(
    entries: Array, column: int, low: int, end: int, high: int, levels: Array, found: int, scratch: Array, view: int
) -> None:
    """The same entries with the levels in the order of their keys and ranks counted anew, in column `view`.

    Entries without a value keep their place at the end. `levels` holds where each level begins, and takes, in its
    third row, their order.
    """
    key = scratch.shape[1] - 1
    for g in range(found):
        levels[2, g] = g
    # Shell's sort, ties by number.
    gap = 1
    while gap < found // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, found):
            g = levels[2, i]
            k = i
            while k >= gap:
                other = levels[2, k - gap]
                if scratch[other, key] < scratch[g, key] or (scratch[other, key] == scratch[g, key] and other < g):
                    break
                levels[2, k] = other
                k -= gap
            levels[2, k] = g
        gap //= 3
    at = low
    for rank in range(found):
        g = levels[2, rank]
        levels[2, rank] = entries[column, levels[0, g]] >> 32
        for i in range(levels[0, g], levels[0, g + 1]):
            entries[view, at] = (rank << 32) | (entries[column, i] & ROW)
            at += 1
    for i in range(end, high):
        entries[view, i] = entries[column, i]


@kernel(inline=True)
def _principal(scratch: Array, found: int, K: int) -> None:
    """Each level's place along the first principal component of the class shares, by power iteration.

    Rows of `scratch` after the levels: their covariance (K of them), their mean, the axis and its image.
    """
    mean, axis, after = found + K, found + K + 1, found + K + 2
    total = 0.0
    for r in range(found, found + K + 3):
        for k in range(K):
            scratch[r, k] = 0.0
    for g in range(found):
        total += scratch[g, K]
        for k in range(K):
            scratch[mean, k] += scratch[g, k]
            scratch[g, k] /= scratch[g, K]
    for g in range(found):
        for k in range(K):
            d = scratch[g, K] * (scratch[g, k] - scratch[mean, k] / total)
            for c in range(K):
                scratch[found + k, c] += d * (scratch[g, c] - scratch[mean, c] / total)
    # The class that varies most starts and keeps its sign, so the direction is the same on every run.
    first = 0
    for k in range(K):
        if scratch[found + k, k] > scratch[found + first, first]:
            first = k
    scratch[axis, first] = 1.0
    for _turn in range(TURNS):
        size, change = 0.0, 0.0
        for k in range(K):
            image = 0.0
            for c in range(K):
                image += scratch[found + k, c] * scratch[axis, c]
            scratch[after, k] = image
            size += image * image
        if size == 0.0:
            break
        for k in range(K):
            turned = scratch[after, k] / np.sqrt(size)
            change = max(change, abs(turned - scratch[axis, k]))
            scratch[axis, k] = turned
        if change < 1e-13:
            break
    for g in range(found):
        for k in range(K):
            scratch[g, K + 1] += scratch[g, k] * scratch[axis, k]


@kernel(inline=True)
def scan_subsets(
    entries: Array,
    column: int,
    end: int,
    high: int,
    runs: Array,
    found: int,
    codes: Array,
    w: Array,
    counts: Array,
    criterion: int,
    totals: Array,
    scratch: Array,
    loss: float,
    weight: float,
    rows: int,
    min_leaf: int,
    min_weight: float,
    tie: float,
    best: float,
) -> tuple[float, int, int]:
    """All ways to part a few levels: the gain, the levels of the first child as bits, the side of missing rows.

    The lowest level present always goes to the first child; of equally good ways the lowest number wins.
    """
    unit = w.size == 0
    K = totals.shape[1]
    # Rows of `scratch`: the levels, missing rows, and the two children; weight and number stand behind the classes.
    for g in range(found + 1):
        for k in range(K + 2):
            scratch[g, k] = 0.0
        for i in range(runs[g], runs[g + 1] if g < found else high):
            row = entries[column, i] & ROW
            v = 1.0 if unit else w[row]
            scratch[g, codes[row]] += v
            scratch[g, K] += v
            scratch[g, K + 1] += 1.0 if unit else counts[row]
    left, right = scratch[found + 1, :K], scratch[found + 2, :K]
    sides = 2 if end < high else 1
    whole = (1 << found) - 1
    at, side = -1, -1
    for mask in range(1, whole + 1 if sides == 2 else whole, 2):
        for s in range(1 if mask == whole else 0, sides):
            inside = mask | (1 << found) if s == 0 and sides == 2 else mask
            wl, nl = 0.0, 0.0
            for k in range(K):
                left[k] = 0.0
            for g in range(found + 1):
                if (inside >> g) & 1:
                    wl += scratch[g, K]
                    nl += scratch[g, K + 1]
                    for k in range(K):
                        left[k] += scratch[g, k]
            wr = weight - wl
            if nl < min_leaf or rows - nl < min_leaf or wl < min_weight or wr < min_weight or wr <= 0.0:
                continue
            for k in range(K):
                right[k] = max(totals[0, k] - left[k], 0.0)
            gain = loss - class_loss(left, wl, criterion) - class_loss(right, wr, criterion)
            if gain > best + tie:
                best, at, side = gain, mask, s if sides == 2 else -1
    return best, at, side


@kernel(inline=True)
def write_levels(
    entries: Array,
    w: Array,
    column: int,
    low: int,
    end: int,
    levels: Array,
    picked: int,
    number: int,
    words: Array,
    base: int,
    gap: int,
    weight: float,
) -> int:
    """Set the bits of the levels that go to the first child; the side of missing values, decided here if it is -1."""
    for k in range(base, base + (number + 31) // 32):
        words[k] = 0
    for k in range(picked):
        code = levels[1, k]
        words[base + (code >> 5)] |= BIT << np.uint32(code & 31)
    if gap < 0:
        # No row decided: missing and unseen values go with the heavier child.
        up = 0.0
        for i in range(low, end):
            code = entries[column, i] >> 32
            if (words[base + (code >> 5)] >> np.uint32(code & 31)) & BIT:
                up += w[entries[column, i] & ROW] if w.size > 0 else 1.0
        gap = 0 if 2.0 * up >= weight else 1
    if gap == 0:
        # Levels that this node has not seen go where missing values go.
        code = 0
        for i in range(low, end + 1):
            seen = entries[column, i] >> 32 if i < end else number
            while code < seen:
                words[base + (code >> 5)] |= BIT << np.uint32(code & 31)
                code += 1
            if code == seen:
                code += 1
    return gap
