"""Which categories go together: the order in which the levels of a column are divided in a node.

For a numeric response and for two classes some best division is a cut through the levels in the order of their mean
response (Fisher 1958; Breiman et al. 1984, section 4.2.2), for any number of levels. With more classes no such order
exists. Up to `SUBSETS` levels all 2^(L - 1) - 1 divisions are tried, the level with the lowest code in the first
child; above, levels are ordered along the first principal component of their class shares (Coppersmith, Hong and
Hosking 1999), which is not always the best division but close to it at the price of a sort.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["SUBSETS", "order_levels"]

Array = np.ndarray
SUBSETS = 10
STEPS = 200


@kernel(inline=True)
def order_levels(size: int, sums: Array, shares: Array, order: Array, key: Array, spare: Array) -> None:
    """Sort the listed levels by their mean response, or by their principal score; equal ones by their code."""
    K = shares.shape[1]
    if K > 2:
        principal_scores(size, sums, shares, order, key)
    else:
        for i in range(size):
            b = order[i]
            key[b] = (sums[b, 1] if K == 1 else shares[b, 1]) / sums[b, 0]
    most = 0.0
    for i in range(size):
        most = max(most, abs(key[order[i]]))
    if most > 0.0:
        for i in range(size):  # keys that differ by rounding only are equal
            key[order[i]] = np.rint(key[order[i]] / most * 1e12)
    width = 1
    while width < size:  # merge runs of growing length
        for low in range(0, size, 2 * width):
            middle = min(low + width, size)
            high = min(low + 2 * width, size)
            a = low
            b = middle
            for i in range(low, high):
                if a < middle and (b >= high or key[order[a]] <= key[order[b]]):
                    spare[i] = order[a]
                    a += 1
                else:
                    spare[i] = order[b]
                    b += 1
        for i in range(size):
            order[i] = spare[i]
        width *= 2


@kernel(inline=True)
def principal_scores(size: int, sums: Array, shares: Array, order: Array, key: Array) -> None:
    """Scores of the levels along the direction in which their class shares vary most, by the power method."""
    K = shares.shape[1]
    share = np.empty((size, K))
    line = np.zeros((3, K))  # mean shares, direction, next direction
    total = 0.0
    for i in range(size):
        total += sums[order[i], 0]
    for i in range(size):
        for k in range(K):
            line[0, k] += shares[order[i], k] / total
    far = -1.0
    for i in range(size):
        distance = 0.0
        for k in range(K):
            share[i, k] = shares[order[i], k] / sums[order[i], 0] - line[0, k]
            distance += share[i, k] * share[i, k] * sums[order[i], 0]
        if distance > far * (1.0 + 1e-9):  # begin with the level farthest from the mean
            far = distance
            for k in range(K):
                line[1, k] = share[i, k]
    for _ in range(STEPS):
        for k in range(K):
            line[2, k] = 0.0
        for i in range(size):
            score = 0.0
            for k in range(K):
                score += share[i, k] * line[1, k]
            for k in range(K):
                line[2, k] += sums[order[i], 0] * score * share[i, k]
        length = 0.0
        for k in range(K):
            length += line[2, k] * line[2, k]
        if length == 0.0:
            break
        length = np.sqrt(length)
        change = 0.0
        for k in range(K):
            change = max(change, abs(line[2, k] / length - line[1, k]))
            line[1, k] = line[2, k] / length
        if change < 1e-13:
            break
    # The sign is free: the first of the largest entries is made positive.
    most = 0.0
    for k in range(K):
        most = max(most, abs(line[1, k]))
    sign = 0.0
    for k in range(K):
        if sign == 0.0 and abs(line[1, k]) >= most * (1.0 - 1e-9):
            sign = 1.0 if line[1, k] >= 0.0 else -1.0
    for i in range(size):
        score = 0.0
        for k in range(K):
            score += share[i, k] * line[1, k]
        key[order[i]] = sign * score
