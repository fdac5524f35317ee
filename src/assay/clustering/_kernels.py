"""Kernels of k-means: the nearest centre from matrix products, made exact, sums over clusters, and Hamerly's bounds.

Products are taken in float32, with one row per centre and one column per table row, so that the comparison runs along
memory: `G[j, i]` is |c_j|^2 - 2 x_i'c_j up to half the margin `slack[0] * length[i] + slack[1]`, length[i] = |x_i|^2.
Rows whose best and second best differ by more are settled; the others are measured in float64, by differences.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = [
    "accumulate",
    "column_sums",
    "fill_sieve",
    "nearest_in_few_columns",
    "nearest_in_products",
    "rows_of_group",
    "scan_group",
    "screen",
    "screen_groups",
    "settle",
    "small_lloyd",
    "squared_distances",
    "unimodal_cdf",
]

Array = np.ndarray
Slack = tuple[float, float]


@kernel
def nearest_in_products(
    G: Array, rows: Array, length: Array, slack: Slack, unit: float, best: Array, second: Array, which: Array,
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
    return _note(rows, length, slack, unit, best, second, which, labels, lower, near)


@kernel
def nearest_in_few_columns(
    F: Array, at: int, B: Array, rows: Array, length: Array, slack: Slack, unit: float, best: Array,
    second: Array, which: Array, labels: Array, lower: Array, near: Array,
) -> int:  # fmt: skip
    """The same for at most four columns, which are rows of F from `at` on: too few for a matrix product to be worth it.

    As many rows at a time as `best` has room for.

    B has five columns, those of the centres times -2 (zeros where there are fewer) and their squared lengths, and an
    even number of rows: one may be added that is infinitely long.
    """
    count = 0
    for start in range(0, rows.size, best.size):
        some = rows[start : start + best.size]
        m = some.size
        begin, end = at + start, at + start + m
        f, g, h, e = F[0, begin:end], F[1, begin:end], F[2, begin:end], F[3, begin:end]
        best[:m] = np.float32(np.inf)
        second[:m] = np.float32(np.inf)
        which[:m] = 0
        # Two centres at a time: what is known of a row is read and written half as often.
        for j in range(0, B.shape[0], 2):
            a, b, c, d, square = B[j, 0], B[j, 1], B[j, 2], B[j, 3], B[j, 4]
            p, q, r, t, other_square = B[j + 1, 0], B[j + 1, 1], B[j + 1, 2], B[j + 1, 3], B[j + 1, 4]
            one, two = np.int32(j), np.int32(j + 1)
            for i in range(m):
                u = square + a * f[i] + b * g[i] + c * h[i] + d * e[i]
                v = other_square + p * f[i] + q * g[i] + r * h[i] + t * e[i]
                low, after, label = best[i], second[i], which[i]
                less, more = (v if v < u else u), (u if v < u else v)
                nearer = two if v < u else one
                middle = low if less < low else less
                middle = middle if middle < more else more
                second[i] = middle if middle < after else after
                which[i] = nearer if less < low else label
                best[i] = less if less < low else low
        count += _note(some, length, slack, unit, best, second, which, labels, lower, near[count:])
    return count


@kernel(inline=True)
def _note(
    rows: Array, length: Array, slack: Slack, unit: float, best: Array, second: Array, which: Array, labels: Array,
    lower: Array, near: Array,
) -> int:  # fmt: skip
    """Write down labels and bounds; list the rows that are too close to call."""
    count = 0
    for i in range(rows.size):
        row = rows[i]
        labels[row] = which[i]
        margin = slack[0] * length[row] + slack[1]
        reach = np.float64(second[i]) + length[row] - 0.5 * margin
        lower[row] = np.sqrt(reach) * unit if reach > 0.0 else 0.0
        if second[i] - best[i] <= margin:
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


@kernel(inline=True)
def _squared(X: Array, i: int, C: Array, j: int) -> float:
    """The squared distance of a row and a centre."""
    total = 0.0
    for t in range(C.shape[1]):
        gap = X[i, t] - C[j, t]
        total += gap * gap
    return total


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
        total = _squared(X, i, C, j)
        if np.sqrt(total) < limit:
            continue
        active[count] = i
        count += 1
    return count


@kernel
def screen_groups(
    X: Array, C: Array, labels: Array, shift: Array, group_shift: Array, half_gap: Array, first: int, last: int,
    own: Array, lower: Array, active: Array,
) -> int:  # fmt: skip
    """The same with one lower bound per group of centres: the rows for which some group has to be looked at.

    `own` is the squared distance to a row's centre before it moved, and after it for the rows that are listed.
    """
    count = 0
    for i in range(first, last):
        j = labels[i]
        least = np.float32(np.inf)
        for g in range(group_shift.size):
            lower[i, g] -= group_shift[g]
            least = min(least, lower[i, g])
        limit = max(np.float64(least), half_gap[j]) * (1.0 - 1e-6)
        if np.sqrt(own[i]) + shift[j] < limit:
            continue
        total = _squared(X, i, C, j)
        if np.sqrt(total) < limit:
            continue
        own[i] = total
        active[count] = i
        count += 1
    return count


@kernel
def rows_of_group(active: Array, lower: Array, group: int, radius: Array, out: Array) -> int:
    """Which of the active rows, so far from their own centre, may have their nearest one in a group."""
    count = 0
    for a in range(active.size):
        out[count] = active[a]
        count += 1 if lower[active[a], group] <= radius[a] else 0
    return count


@kernel
def scan_group(
    G: Array, members: Array, place: Array, rows: Array, group: int, group_of: Array, length: Array, slack: Slack,
    unit: float, own: Array, labels: Array, value: Array, second: Array, found: Array, lower: Array, scratch: Array,
    which: Array,
) -> None:  # fmt: skip
    """Compare rows, the columns of G, with the centres of one group.

    `found` and `value` are the best so far, first their own centre; `place` says where in its group a centre stands.
    The bound of a group leaves out the best centre. One that is no longer the best returns into its group's bound.
    """
    best, after = scratch[0], scratch[1]
    for c in range(rows.size):
        mine = labels[rows[c]]
        if group_of[mine] == group:
            G[place[mine], c] = np.float32(np.inf)
        best[c] = np.float32(np.inf)
        after[c] = np.float32(np.inf)
        which[c] = 0
    for j in range(members.size):
        at = np.int32(j)
        for c in range(rows.size):
            v = G[j, c]
            b = best[c]
            s = after[c]
            w = which[c]
            other = b if v < b else v
            after[c] = other if other < s else s
            which[c] = at if v < b else w
            best[c] = v if v < b else b
    for c in range(rows.size):
        i = rows[c]
        mine = labels[i]
        known = length[i] - 0.5 * (slack[0] * length[i] + slack[1])
        beaten = np.float64(best[c])
        if beaten < value[i]:
            home = group_of[found[i]]
            lower[i, home] = min(lower[i, home], _reach(value[i] + known, unit))
            second[i] = min(second[i], value[i])
            value[i] = beaten
            found[i] = members[which[c]]
            beaten = np.float64(after[c])
        second[i] = min(second[i], beaten)
        lower[i, group] = _reach(beaten + known, unit)
        if group == group_of[mine] and found[i] != mine:
            lower[i, group] = min(lower[i, group], np.float32(np.sqrt(own[i]) * (1.0 - 1e-6)))


@kernel(inline=True)
def _reach(square: float, unit: float) -> np.float32:
    """A lower bound on a distance, from one on its square."""
    return np.float32(np.sqrt(square) * unit * (1.0 - 1e-6)) if square > 0.0 else np.float32(0.0)


@kernel
def column_sums(X: Array, w: Array, centre: Array, first: int, last: int, steps: Array, squares: Array) -> float:
    """Add up weighted steps from a centre and their squares, column by column; returns the largest step."""
    largest = 0.0
    for i in range(first, last):
        for t in range(X.shape[1]):
            gap = X[i, t] - centre[t]
            steps[t] += w[i] * gap
            squares[t] += w[i] * gap * gap
            largest = max(largest, abs(gap))
    return largest


@kernel
def fill_sieve(X: Array, centre: Array, scale: float, first: int, last: int, F: Array, lengths: Array) -> None:
    """Centred rows in float32 and in units of one over `scale`, a column of ones, and their squared lengths."""
    for i in range(first, last):
        total = 0.0
        for t in range(X.shape[1]):
            gap = (X[i, t] - centre[t]) * scale
            F[i, t] = gap
            total += gap * gap
        F[i, X.shape[1]] = 1.0
        lengths[i] = total


@kernel
def squared_distances(X: Array, C: Array, first: int, last: int, out: Array) -> None:
    """Squared distances of rows to a few centres, one row of `out` per centre."""
    for i in range(first, last):
        for j in range(C.shape[0]):
            out[j, i] = _squared(X, i, C, j)


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
