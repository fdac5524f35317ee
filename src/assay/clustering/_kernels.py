"""Kernels of k-means: the nearest centre from matrix products, made exact, sums over clusters, and Hamerly's bounds.

Products are taken in float32, with one row per centre and one column per table row, so that the comparison runs along
memory: `G[j, i]` is |c_j|^2 - 2 x_i'c_j up to an error of at most half of `slack[i]`. A row whose best and second best
differ by more than `slack` is settled; the few others are measured in float64, difference by difference.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["accumulate", "nearest_in_products", "screen", "settle", "small_lloyd", "squared_distances", "unimodal_cdf"]

Array = np.ndarray


@kernel
def nearest_in_products(
    G: Array, rows: Array, length: Array, slack: Array, unit: float, best: Array, second: Array, which: Array,
    labels: Array, lower: Array, near: Array,
) -> int:  # fmt: skip
    """Labels of the rows of G's columns and a lower bound on the distance to any other centre than that one.

    `rows` are their numbers in the table; returns how many rows, listed in `near`, are too close to call.
    """
    k, m = G.shape
    for i in range(m):
        best[i] = G[0, i]
        second[i] = np.float32(np.inf)
        which[i] = 0
    for j in range(1, k):
        at = np.int32(j)
        for i in range(m):
            v = G[j, i]
            b = best[i]
            s = second[i]
            w = which[i]
            other = b if v < b else v
            second[i] = other if other < s else s
            which[i] = at if v < b else w
            best[i] = v if v < b else b
    count = 0
    for i in range(m):
        row = rows[i]
        labels[row] = which[i]
        reach = np.float64(second[i]) + length[row] - 0.5 * slack[row]
        lower[row] = np.sqrt(reach) * unit if reach > 0.0 else 0.0
        if second[i] - best[i] <= slack[row]:
            near[count] = row
            count += 1
    return count


@kernel(exact=True)
def settle(X: Array, C: Array, rows: Array, labels: Array) -> None:
    """The nearest centre of the listed rows by their differences; of equally near ones the first."""
    for r in range(rows.size):
        i = rows[r]
        best = np.inf
        for j in range(C.shape[0]):
            total = 0.0
            for t in range(C.shape[1]):
                gap = X[i, t] - C[j, t]
                total += gap * gap
            if total < best:
                best = total
                labels[i] = j


@kernel
def accumulate(
    X: Array, w: Array, labels: Array, C: Array, first: int, last: int, moved: Array, weight: Array, inertia: Array,
    own: Array,
) -> None:  # fmt: skip
    """Add up, cluster by cluster, weights, weighted steps from the centre and squared distances to it."""
    for i in range(first, last):
        j = labels[i]
        mass = w[i]
        total = 0.0
        for t in range(C.shape[1]):
            gap = X[i, t] - C[j, t]
            total += gap * gap
            moved[j, t] += mass * gap
        own[i] = total
        weight[j] += mass
        inertia[j] += mass * total


@kernel
def screen(
    X: Array, C: Array, labels: Array, own: Array, shift: Array, most: Array, half_gap: Array, first: int, last: int,
    lower: Array, active: Array,
) -> int:  # fmt: skip
    """Move the bounds along with the centres; list the rows that might now be nearer to another one.

    `most` holds the largest shift, the second largest and whose the largest is. A row stays where its distance to its
    own centre is below its lower bound for all others, or below half the distance of that centre to the next one; the
    margin of 1e-9 is above all rounding, so ties are measured.
    """
    count = 0
    for i in range(first, last):
        j = labels[i]
        lower[i] -= most[1] if j == most[2] else most[0]
        limit = max(lower[i], half_gap[j]) * (1.0 - 1e-9)
        if np.sqrt(own[i]) + shift[j] < limit:
            continue
        total = 0.0
        for t in range(C.shape[1]):
            gap = X[i, t] - C[j, t]
            total += gap * gap
        if np.sqrt(total) < limit:
            continue
        active[count] = i
        count += 1
    return count


@kernel
def squared_distances(X: Array, C: Array, first: int, last: int, out: Array) -> None:
    """Squared distances of rows to a few centres, one row of `out` per centre."""
    for i in range(first, last):
        for j in range(C.shape[0]):
            total = 0.0
            for t in range(C.shape[1]):
                gap = X[i, t] - C[j, t]
                total += gap * gap
            out[j, i] = total


@kernel(exact=True)
def small_lloyd(
    X: Array, w: Array, C: Array, labels: Array, own: Array, weight: Array, inertia: Array, objective: Array, tol: float
) -> tuple[int, int]:
    """All iterations on a small table, measured by differences: how many, and why they ended.

    0: as many as `objective` has room for, but for the last; 1: the centres moved less than `tol`; 2: no label changed;
    -1: a cluster has no rows, and the caller starts again with what can move it. Labels are those of the centres C,
    except that C takes its last step after no label has changed.
    """
    n, d = X.shape
    k = C.shape[0]
    moved = np.empty((k, d))
    ended = 0
    for step in range(objective.size):
        changed = step == 0
        moved[:] = 0.0
        weight[:] = 0.0
        inertia[:] = 0.0
        for i in range(n):
            best = np.inf
            at = 0
            for j in range(k):
                total = 0.0
                for t in range(d):
                    gap = X[i, t] - C[j, t]
                    total += gap * gap
                if total < best:
                    best = total
                    at = j
            changed = changed or at != labels[i]
            labels[i] = at
            own[i] = best
            weight[at] += w[i]
            inertia[at] += w[i] * best
            for t in range(d):
                moved[at, t] += w[i] * (X[i, t] - C[at, t])
        objective[step] = inertia.sum()
        if ended == 1 or step == objective.size - 1:
            return step, ended
        squares = 0.0
        for j in range(k):
            if weight[j] == 0.0:
                return step, -1
            for t in range(d):
                move = moved[j, t] / weight[j]
                C[j, t] += move
                squares += move * move
        if not changed:
            return step + 1, 2
        if squares <= tol:
            ended = 1
    return objective.size, ended


@kernel(exact=True)
def unimodal_cdf(density: Array, width: Array, modes: Array, best: Array) -> None:
    """Fill `best` with the unimodal distribution function nearest to the steps of a histogram of equal shares.

    With the mode at a cell, densities are pooled so that they rise up to it and fall behind it (the greatest convex
    minorant and the least concave majorant of the distribution function); of the modes tried the one with the least
    largest distance is kept. `best` has one entry more than there are cells.
    """
    n = density.size
    level, span, cells = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    trial = np.empty(n + 1)
    least = np.inf
    for choice in range(modes.size):
        trial[0] = 0.0
        for side in range(2):  # rising from the left end, then rising from the right end: what falls behind the mode
            top = -1
            for step in range(modes[choice] if side == 0 else n - modes[choice]):
                i = step if side == 0 else n - 1 - step
                top += 1
                level[top], span[top], cells[top] = density[i], width[i], 1
                while top > 0 and level[top - 1] >= level[top]:
                    total = span[top - 1] + span[top]
                    level[top - 1] = (level[top - 1] * span[top - 1] + level[top] * span[top]) / total
                    span[top - 1] = total
                    cells[top - 1] += cells[top]
                    top -= 1
            i = 0 if side == 0 else n - 1
            for block in range(top + 1):
                for _ in range(cells[block]):
                    trial[i + 1] = level[block] * width[i]
                    i += 1 if side == 0 else -1
        gap = 0.0
        for i in range(n):
            trial[i + 1] += trial[i]
            gap = max(gap, abs(trial[i + 1] - (i + 1.0) / n))
        if gap < least:
            least = gap
            best[:] = trial
