"""Losses of a node: what it costs to answer every row in it with one value.

With weights w, total W and class shares p_k = W_k / W the total loss L of a node and the value that has it are

    squared_error    L = sum w (y - value)^2                       value = weighted mean
    absolute_error   L = sum w |y - value|                         value = weighted median
    poisson          L = sum w (y log(y / value) - y + value)      value = weighted mean (half the deviance)
    gini             L = W sum_k p_k (1 - p_k)                     value = shares;  L / W <= 1 - 1/K
    log_loss         L = -W sum_k p_k log2 p_k                     value = shares;  L / W <= log2 K bits (K = 2: 1)
    error            L = W (1 - max_k p_k)                         value = shares;  L / W <= 1 - 1/K

The impurity of a node is L / W. The loss of a tree is the *sum* of its leaves' losses, so it weights each leaf's
impurity by the leaf's weight. A split gains L(node) - sum L(children), never less than 0.

Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees, ch. 4, 8.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = [
    "ABSOLUTE",
    "CLASSIFICATION",
    "CRITERIA",
    "ERROR",
    "GINI",
    "LOG",
    "MISSING",
    "POISSON",
    "REGRESSION",
    "SAME",
    "SQUARED",
    "class_loss",
    "class_stats",
    "mean_stats",
    "median_stats",
]

Array = np.ndarray

SQUARED, ABSOLUTE, POISSON, GINI, LOG, ERROR = range(6)
CRITERIA = {
    "squared_error": SQUARED,
    "absolute_error": ABSOLUTE,
    "poisson": POISSON,
    "gini": GINI,
    "log_loss": LOG,
    "entropy": LOG,
    "error": ERROR,
}
"""The number by which kernels know a criterion."""
REGRESSION = ("squared_error", "absolute_error", "poisson")
CLASSIFICATION = ("gini", "log_loss", "entropy", "error")

SAME = 1e-12
"""Gains that differ by less than this share of the node's loss are ties."""
MISSING = 0x7FFFFFFF
"""The rank of a missing value: behind all others."""
ROW = 0xFFFFFFFF
"""The bits of an entry that hold the row; the rank stands above them."""


@kernel(inline=True)
def class_loss(sums: Array, total: float, criterion: int) -> float:
    """The loss of a node from the weight of each class."""
    loss = 0.0
    if total <= 0.0:
        return loss
    if criterion == GINI:
        for k in range(sums.size):
            loss += sums[k] * (total - sums[k])
        return loss / total
    if criterion == LOG:
        for k in range(sums.size):
            if sums[k] > 0.0:
                loss -= sums[k] * np.log2(sums[k] / total)
        return max(loss, 0.0)
    most = 0.0
    for k in range(sums.size):
        most = max(most, sums[k])
    return max(total - most, 0.0)


@kernel(inline=True)
def mean_stats(
    entries: Array,
    column: int,
    low: int,
    high: int,
    y: Array,
    w: Array,
    counts: Array,
    poisson: bool,
    value: Array,
    node: int,
) -> tuple[int, float, float, bool]:
    """Rows, weight, loss and whether all targets agree, for entries low .. high - 1 of a column; the
    value of the node becomes their mean.

    `w` and `counts` are empty where every row counts once.
    """
    rows, weight, total = 0, 0.0, 0.0
    least, most = np.inf, -np.inf
    for i in range(low, high):
        row = entries[column, i] & ROW
        v = y[row]
        least = min(least, v)
        most = max(most, v)
        if w.size > 0:
            weight += w[row]
            total += w[row] * v
            rows += counts[row]
        else:
            total += v
    if w.size == 0:
        rows = high - low
        weight = float(rows)
    mean = total / weight
    # The mean of equal numbers may round away from them.
    mean = min(max(mean, least), most)
    loss = 0.0
    for i in range(low, high):
        row = entries[column, i] & ROW
        d = y[row] - mean
        part = d * d
        if poisson:
            part = -d
            if y[row] > 0.0:
                part += y[row] * np.log(y[row] / mean)
        loss += part * w[row] if w.size > 0 else part
    value[node, 0] = mean
    pure = most - least <= 8.9e-16 * max(abs(least), abs(most))
    return rows, weight, max(loss, 0.0), pure


@kernel(inline=True)
def median_stats(
    entries: Array,
    column: int,
    low: int,
    high: int,
    y: Array,
    w: Array,
    counts: Array,
    value: Array,
    node: int,
) -> tuple[int, float, float, bool]:
    """The same for the median; the entries must be in the order of y."""
    rows, weight = 0, 0.0
    for i in range(low, high):
        row = entries[column, i] & ROW
        weight += w[row] if w.size > 0 else 1.0
        rows += counts[row] if w.size > 0 else 1
    below, median = 0.0, 0.0
    for i in range(low, high):
        row = entries[column, i] & ROW
        below += w[row] if w.size > 0 else 1.0
        if below >= 0.5 * weight * (1.0 - 1e-12):
            median = y[row]
            if i + 1 < high and below <= 0.5 * weight * (1.0 + 1e-12):
                median += 0.5 * (y[entries[column, i + 1] & ROW] - median)
            break
    loss = 0.0
    for i in range(low, high):
        row = entries[column, i] & ROW
        part = abs(y[row] - median)
        loss += part * w[row] if w.size > 0 else part
    value[node, 0] = median
    least, most = y[entries[column, low] & ROW], y[entries[column, high - 1] & ROW]
    return rows, weight, loss, most - least <= 8.9e-16 * max(abs(least), abs(most))


@kernel(inline=True)
def class_stats(
    entries: Array,
    column: int,
    low: int,
    high: int,
    codes: Array,
    w: Array,
    counts: Array,
    criterion: int,
    value: Array,
    node: int,
) -> tuple[int, float, float, bool]:
    """The same for classes; the value becomes their shares."""
    rows, weight, present = 0, 0.0, 0
    shares = value[node]
    shares[:] = 0.0
    for i in range(low, high):
        row = entries[column, i] & ROW
        if w.size > 0:
            shares[codes[row]] += w[row]
            weight += w[row]
            rows += counts[row]
        else:
            shares[codes[row]] += 1.0
    if w.size == 0:
        rows = high - low
        weight = float(rows)
    for k in range(shares.size):
        present += shares[k] > 0.0
    loss = class_loss(shares, weight, criterion)
    for k in range(shares.size):
        shares[k] /= weight
    return rows, weight, loss, present <= 1
