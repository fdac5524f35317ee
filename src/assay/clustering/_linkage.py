"""Agglomeration: from distances, or from points in O(n p) memory, to merges.

After clusters i and j have merged at d_ij, their distance to k follows from the three distances before (Lance, Williams
1967); sizes are s, and Ward, centroid and median update squared distances:

    single    min(d_ik, d_jk)                   average   (s_i d_ik + s_j d_jk) / (s_i + s_j)
    complete  max(d_ik, d_jk)                   weighted  (d_ik + d_jk) / 2
    centroid  (s_i d_ik + s_j d_jk - s_i s_j d_ij / (s_i + s_j)) / (s_i + s_j)
    median    (d_ik + d_jk - d_ij / 2) / 2
    ward      ((s_i + s_k) d_ik + (s_j + s_k) d_jk - s_k d_ij) / (s_i + s_j + s_k)

A cluster stands in the place of its first row. `closest_pairs` merges the closest pair again and again, of several the
first in the order of their places: the definition, with a lower bound of each row's distances to earlier rows that is
corrected only when it becomes the least of all (Müllner 2011): O(n^2) but for contrived data. Distances are a triangle,
row by row, d_10, d_20, d_21, ...; clusters that are gone are squeezed out from time to time.

Two linkages need no array. `ward_chain` follows nearest centres until two are each other's nearest: under Ward a merge
brings no other pair closer, so such pairs may merge in any order (Murtagh 1983), and there are at most 3n looks at the
centres. `spanning_tree` is Prim's; single linkage merges along its edges. Both give the tree of the definition unless
two distances tie, up to TIE, which is beyond what different orders of the same updates differ by; they say so.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.vector import prefetch

__all__ = ["LINKAGES", "SQUARED", "closest_pairs", "euclidean", "label", "spanning_tree", "ward_chain"]

Array = np.ndarray

LINKAGES = ("single", "complete", "average", "weighted", "centroid", "median", "ward")
SQUARED = ("centroid", "median", "ward")
SINGLE, COMPLETE, AVERAGE, WEIGHTED, CENTROID, MEDIAN, WARD = range(7)

TIE = 1.0 + 1e-12
SQUEEZE = 0.75
"""The share of clusters left at which the array is squeezed."""
STRIP = 256
AHEAD = 48
"""How many rows ahead a column is fetched: its entries lie ever farther apart, which no processor foresees."""


@kernel(exact=True, inline=True)
def _add_squares(column: Array, x: float, out: Array) -> None:
    """Add the squared differences of a column from x. Slices start at 0, so that the loop is done several at a time."""
    for k in range(out.size):
        step = column[k] - x
        out[k] += step * step


@kernel(exact=True)
def euclidean(columns: Array, sizes: Array, start: int, stop: int, squared: bool, ward: bool, out: Array) -> None:
    """Fill rows start .. stop - 1 of the triangle into `out`; `columns` is X transposed, `ward` weighs by sizes."""
    base = start * (start - 1) // 2
    for own in range(start, stop):
        row = out[own * (own - 1) // 2 - base : own * (own + 1) // 2 - base]
        row[:] = 0.0
        for at in range(0, own, STRIP):
            part, others = row[at : at + STRIP], sizes[at : at + STRIP]
            for c in range(columns.shape[0]):
                _add_squares(columns[c, at : at + STRIP], columns[c, own], part)
            if ward:
                size = sizes[own]
                for k in range(part.size):
                    part[k] *= 2.0 * size * others[k] / (size + others[k])
            if not squared:
                for k in range(part.size):
                    part[k] = np.sqrt(part[k])


@kernel(exact=True, inline=True)
def _joined(linkage: int, ik: float, jk: float, ij: float, si: float, sj: float, sk: float) -> float:
    """The distance of i and j together from k."""
    if linkage == SINGLE:
        return min(ik, jk)
    if linkage == COMPLETE:
        return max(ik, jk)
    if linkage == WARD:
        return ((si + sk) * ik + (sj + sk) * jk - sk * ij) / (si + sj + sk)
    if linkage in (WEIGHTED, MEDIAN):
        si, sj = 1.0, 1.0
    drop = si * sj * ij / (si + sj) if linkage in (CENTROID, MEDIAN) else 0.0
    return (si * ik + sj * jk - drop) / (si + sj)


@kernel(exact=True)
def _squeeze(D: Array, sizes: Array, shut: Array, first: Array, place: Array, width: int) -> int:
    """Close the places of clusters that are gone, in their order; `place` says where each has moved to."""
    left, to = 0, 0
    for k in range(width):
        place[k] = -1
        if shut[k] == 0.0:
            place[k] = left
            first[left], sizes[left] = first[k], sizes[k]
            left += 1
            base = k * (k - 1) // 2
            for c in range(k):
                if place[c] >= 0:  # never ahead of what is still to be read
                    D[to] = D[base + c]
                    to += 1
    shut[:left] = 0.0
    return left


@kernel(exact=True)
def _nearest_earlier(D: Array, shut: Array, j: int) -> tuple[float, int]:
    """The least distance to an earlier place, and the first place that has it."""
    row = D[j * (j - 1) // 2 : j * (j + 1) // 2]
    least, near = np.inf, -1
    for k in range(row.size):
        d = row[k] + shut[k]
        if d < least:
            least, near = d, k
    return least, near


@kernel(exact=True)
def closest_pairs(D: Array, sizes: Array, linkage: int, merges: Array, heights: Array) -> None:
    """Fill merges (two rows, one of each cluster) and heights in the order of the definition. D is destroyed.

    low[k] is a lower bound of row k's distances to earlier places, reached first at near[k] unless that is -1.
    """
    n = sizes.size
    width, left = n, n
    shut, first, place = np.zeros(n), np.arange(n), np.empty(n, np.int64)
    low, near = np.empty(n), np.empty(n, np.int64)
    for k in range(n):
        low[k], near[k] = _nearest_earlier(D, shut, k)
    for t in range(n - 1):
        if left < SQUEEZE * width:
            before, width = width, _squeeze(D, sizes, shut, first, place, width)
            for k in range(before):
                if place[k] >= 0:
                    low[place[k]] = low[k]
                    near[place[k]] = place[near[k]] if near[k] >= 0 else -1
        while True:
            j = 0
            for k in range(
                1, width
            ):  # the first pair: of equal bounds that with the earlier partner, unknown ones first
                if low[k] < low[j] or (low[k] == low[j] and near[k] < near[j]):
                    j = k
            if near[j] >= 0:
                break
            low[j], near[j] = _nearest_earlier(D, shut, j)
        i, d = near[j], low[j]
        merges[t, 0], merges[t, 1], heights[t] = first[i], first[j], d
        shut[j], low[j], near[j] = np.inf, np.inf, n
        si, sj = sizes[i], sizes[j]
        row, other = D[i * (i - 1) // 2 : i * (i + 1) // 2], D[j * (j - 1) // 2 : j * (j + 1) // 2]
        for k in range(row.size):
            row[k] = _joined(linkage, row[k], other[k], d, si, sj, sizes[k])
        low[i], near[i] = _nearest_earlier(D, shut, i)
        at = i * (i + 1) // 2 + i  # down the column of i
        for k in range(i + 1, width):
            ahead = at + AHEAD * k + AHEAD * (AHEAD - 1) // 2
            prefetch(D, ahead)
            prefetch(D, ahead + j - i)
            if shut[k] == 0.0:
                new = _joined(linkage, D[at], other[k] if k < j else D[at + j - i], d, si, sj, sizes[k])
                D[at] = new
                if new < low[k]:
                    low[k], near[k] = new, i
                elif near[k] == i or near[k] == j:
                    near[k] = i if new == low[k] else -1
                elif new == low[k] and near[k] > i:
                    near[k] = i
            at += k
        sizes[i] += sj
        left -= 1


@kernel(exact=True)
def ward_chain(centres: Array, sizes: Array, merges: Array, heights: Array) -> bool:
    """Fill merges and squared heights from the clusters' centres, p x n, in no order; centres and sizes are destroyed.

    A tie goes to the cluster before in the path, else to the first; False if there was one.
    """
    p, n = centres.shape
    width, left, length, clear, start = n, n, 0, True, 0
    shut, first, place = np.zeros(n), np.arange(n), np.empty(n, np.int64)
    path, row = np.empty(n, np.int64), np.empty(n)
    for t in range(n - 1):
        if left < SQUEEZE * width:
            left = 0
            for k in range(width):
                if shut[k] == 0.0:
                    place[k] = left
                    first[left], sizes[left] = first[k], sizes[k]
                    for c in range(p):
                        centres[c, left] = centres[c, k]
                    left += 1
            for c in range(length):
                path[c] = place[path[c]]
            shut[:left] = 0.0
            width, start = left, 0
        if length == 0:
            while shut[start] != 0.0:
                start += 1
            path[0], length = start, 1
        while True:
            own = path[length - 1]
            size = sizes[own]
            least, second, near = np.inf, np.inf, -1
            if length > 1:
                near = path[length - 2]
            for at in range(0, width, STRIP):
                end = min(width, at + STRIP)
                part, others, gone = row[at:end], sizes[at:end], shut[at:end]
                part[:] = 0.0
                for c in range(p):
                    _add_squares(centres[c, at:end], centres[c, own], part)
                for k in range(part.size):
                    part[k] = part[k] * (2.0 * size * others[k] / (size + others[k])) + gone[k]
            row[own] = np.inf
            if near >= 0:
                least = row[near]
            for k in range(width):
                if row[k] < second and k != near:
                    if row[k] < least:
                        least, second, near = row[k], least, k
                    else:
                        second = row[k]
            clear = clear and second > least * TIE
            if length > 1 and near == path[length - 2]:
                break
            path[length] = near
            length += 1
        i, j = min(path[length - 1], path[length - 2]), max(path[length - 1], path[length - 2])
        length -= 2
        merges[t, 0], merges[t, 1], heights[t] = first[i], first[j], least
        total = sizes[i] + sizes[j]
        for c in range(p):
            centres[c, i] += (centres[c, j] - centres[c, i]) * (sizes[j] / total)
        sizes[i] = total
        shut[j] = np.inf
        left -= 1
    return clear


@kernel(exact=True)
def spanning_tree(points: Array, rows: Array, counts: Array, merges: Array, heights: Array) -> None:
    """Prim's minimum spanning tree of points in blocks that lie close together; squared lengths of its edges.

    points[b, c, k] is column c of the k-th point of block b, which is row rows[b, k] of the table. bound[b] is at most
    the distance of the block's points from the tree. Only a block that may hold the next point is brought up to date,
    with the latest points of the tree first: most others are then farther from its box than its points are from the
    tree. Points that joined are moved behind the others of their block.
    """
    blocks, p, size = points.shape
    n = heights.size + 1
    near, link, row = np.full((blocks, size), np.inf), np.zeros((blocks, size), np.int64), np.empty(size)
    lower, upper = np.full((p, blocks), np.inf), np.full((p, blocks), -np.inf)
    tree, names = np.empty((n, p)), np.empty(n, np.int64)
    bound, gap = np.full(blocks, np.inf), np.empty(blocks)
    fresh, seen = np.zeros(blocks, np.bool_), np.zeros(blocks, np.int64)
    for b in range(blocks):
        for c in range(p):
            for k in range(counts[b]):
                lower[c, b] = min(lower[c, b], points[b, c, k])
                upper[c, b] = max(upper[c, b], points[b, c, k])
    home, new = 0, 0
    for t in range(n):
        while t > 0:
            home = int(np.argmin(bound))
            if fresh[home]:
                break
            most = near[home, : counts[home]].max()
            for s in range(t - 1, seen[home] - 1, -1):
                far = 0.0
                for c in range(p):
                    step = max(lower[c, home] - tree[s, c], tree[s, c] - upper[c, home], 0.0)
                    far += step * step
                if far < most:
                    row[:] = 0.0
                    for c in range(p):
                        _add_squares(points[home, c], tree[s, c], row)
                    most, source = 0.0, names[s]
                    for k in range(counts[home]):
                        if row[k] < near[home, k]:
                            near[home, k], link[home, k] = row[k], source
                        most = max(most, near[home, k])
            bound[home], fresh[home], seen[home] = near[home, : counts[home]].min(), True, t
        if t > 0:
            new = int(np.argmin(near[home, : counts[home]]))
            merges[t - 1, 0], merges[t - 1, 1], heights[t - 1] = link[home, new], rows[home, new], near[home, new]
        counts[home] -= 1
        last, names[t] = counts[home], rows[home, new]
        for c in range(p):
            tree[t, c] = points[home, c, new]
            points[home, c, new] = points[home, c, last]
        rows[home, new], near[home, new], link[home, new] = rows[home, last], near[home, last], link[home, last]
        if last == 0:
            bound[home], lower[:, home] = np.inf, np.inf  # out of the way of the comparison below
        elif t > 0:
            bound[home] = near[home, :last].min()
        gap[:] = 0.0
        for c in range(p):
            x, below, beyond = tree[t, c], lower[c], upper[c]
            for b in range(blocks):
                step = max(below[b] - x, x - beyond[b], 0.0)
                gap[b] += step * step
        for b in range(blocks):
            fresh[b] = fresh[b] and gap[b] >= bound[b]
            bound[b] = min(bound[b], gap[b])


@kernel(exact=True)
def label(merges: Array, heights: Array, Z: Array) -> bool:
    """Fill scipy's linkage matrix from merges in the order of their heights; False if two heights tie."""
    n = heights.size + 1
    above, name, size = np.arange(n), np.arange(n), np.ones(n)
    clear = True
    for t in range(n - 1):
        i, j = merges[t, 0], merges[t, 1]
        while above[i] != i:
            above[i] = above[above[i]]
            i = above[i]
        while above[j] != j:
            above[j] = above[above[j]]
            j = above[j]
        if size[i] < size[j]:
            i, j = j, i
        above[j] = i
        size[i] += size[j]
        Z[t, 0], Z[t, 1] = min(name[i], name[j]), max(name[i], name[j])
        Z[t, 2], Z[t, 3] = heights[t], size[i]
        name[i] = n + t
        clear = clear and (t == 0 or heights[t] > heights[t - 1] * TIE)
    return clear
