"""Kernels of locally weighted regression in several columns: windows found in a KD-tree (see `_local`).

The tree is scikit-learn's, given by its arrays: node i has the rows first[i] .. last[i], the box low[i] .. high[i] and
the children 2i + 1 and 2i + 2. A window is gathered from the boxes that reach into it; the k-th nearest row is
selected from the smallest ball around a box that is sure to hold it. Cost: the rows gathered, times the square of
the size of the local design.
"""

# mypy: allow-untyped-defs
# (Numba infers the types of kernels from their arguments.)

from __future__ import annotations

import math

import numpy as np

from assay.linear._local import CUT, GAUSSIAN, decay, project
from assay.numerics.jit import kernel

__all__ = ["fit_cloud"]


@kernel
def box_nearest(low, high, node, x0):
    """Squared distance from x0 to the nearest corner or side of a node's box, zero inside it."""
    total = 0.0
    for c in range(x0.size):
        gap = max(low[node, c] - x0[c], x0[c] - high[node, c], 0.0)
        total += gap * gap
    return total


@kernel
def box_farthest(low, high, node, x0):
    """Squared distance from x0 to the farthest corner of a node's box."""
    total = 0.0
    for c in range(x0.size):
        gap = max(abs(low[node, c] - x0[c]), abs(high[node, c] - x0[c]))
        total += gap * gap
    return total


@kernel
def squared_distance(x, j, x0):
    """||x_j - x0||^2."""
    total = 0.0
    for c in range(x0.size):
        total += (x[j, c] - x0[c]) ** 2
    return total


@kernel
def nearest_in_tree(x, s, first, last, leaf, low, high, x0, stack):
    """Squared distance from x0 to the nearest row that has weight."""
    best = np.inf
    stack[0] = 0
    depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if box_nearest(low, high, node, x0) >= best:
            continue
        if leaf[node]:
            for j in range(first[node], last[node]):
                if s[j] > 0.0:
                    best = min(best, squared_distance(x, j, x0))
            continue
        near, far = 2 * node + 1, 2 * node + 2
        if box_nearest(low, high, far, x0) < box_nearest(low, high, near, x0):
            near, far = far, near
        stack[depth] = far
        stack[depth + 1] = near
        depth += 2
    return best


@kernel
def gather(x, first, last, leaf, low, high, x0, reach, stack, rows, d):
    """Fill rows and d with the rows within squared distance `reach` of x0; return how many there are."""
    m = 0
    stack[0] = 0
    depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if box_nearest(low, high, node, x0) > reach:
            continue
        if leaf[node]:
            for j in range(first[node], last[node]):
                square = squared_distance(x, j, x0)
                if square <= reach:
                    rows[m] = j
                    d[m] = square
                    m += 1
            continue
        stack[depth] = 2 * node + 1
        stack[depth + 1] = 2 * node + 2
        depth += 2
    return m


@kernel
def select(d, w, m, mass):
    """The smallest value of d[:m] up to which w adds to `mass`; both are reordered (weighted quickselect)."""
    low, high = 0, m
    while high - low > 1:
        a, b, c = d[low], d[(low + high) >> 1], d[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        less, i, more = low, low, high
        below = 0.0
        equal = 0.0
        while i < more:
            if d[i] < pivot:
                below += w[i]
                d[i], d[less] = d[less], d[i]
                w[i], w[less] = w[less], w[i]
                less += 1
                i += 1
            elif d[i] > pivot:
                more -= 1
                d[i], d[more] = d[more], d[i]
                w[i], w[more] = w[more], w[i]
            else:
                equal += w[i]
                i += 1
        if below >= mass:
            high = less
        elif below + equal >= mass or more == high:
            return pivot
        else:
            mass -= below + equal
            low = more
    return d[low]


@kernel
def kth_in_tree(x, share, below, first, last, leaf, low, high, x0, mass, stack, rows, d, w):
    """The squared distance from x0 that holds `mass`: the smallest box that holds it bounds the search."""
    node = 0
    while not leaf[node]:
        near, far = 2 * node + 1, 2 * node + 2
        if box_nearest(low, high, far, x0) < box_nearest(low, high, near, x0):
            near = far
        if below[last[near]] - below[first[near]] < mass:
            break
        node = near
    reach = box_farthest(low, high, node, x0) * (1.0 + 1e-12)
    m = gather(x, first, last, leaf, low, high, x0, reach, stack, rows, d)
    for j in range(m):
        w[j] = share[rows[j]]
    return select(d, w, m, mass)


@kernel
def fit_cloud(
    x, s, y, share, below, first, last, leaf, low, high, positions, tau, mass, shape, degree, levels, stack, rows,
    d, k, z, value, leverage, variance,
):  # fmt: skip
    """Local fits at every position for several columns: rows in the order of a KD-tree given by its arrays.

    `share` holds the weights that nearest-neighbour distances count, `below` its running sum. rows, d, k (n
    entries) and z (one row of n + 1 per column of the local design, and three more) are scratch.
    """
    size = levels.size
    norm = np.empty(size)
    for i in range(positions.shape[0]):
        x0 = positions[i]
        h = tau
        if mass > 0.0:
            square = kth_in_tree(x, share, below, first, last, leaf, low, high, x0, mass, stack, rows, d, k)
            h = max(tau * math.sqrt(square), 1e-100)
        nearest = nearest_in_tree(x, s, first, last, leaf, low, high, x0, stack)
        # The two traversals may round a distance differently, hence the slack.
        reach = nearest * (1.0 + 1e-12)
        if shape == GAUSSIAN:
            reach = max(reach, nearest + CUT * h * h)
        elif nearest < h * h:
            reach = h * h
        m = gather(x, first, last, leaf, low, high, x0, reach, stack, rows, d)
        scale = 1.0 / h
        weight, target = z[size + 1], z[size + 2]
        for j in range(m):
            weight[j] = s[rows[j]]
            target[j] = y[rows[j]]
            if shape == GAUSSIAN:
                k[j] = decay(min(max(0.5 * (d[j] - nearest) * scale * scale, 0.0), 42.0))
            elif nearest < h * h:
                far = math.sqrt(d[j]) * scale
                cube = max(1.0 - far * far * far, 0.0)
                k[j] = cube * cube * cube
            else:
                k[j] = 1.0
        fill_design(x, rows, x0, 1.0 / max(h, math.sqrt(nearest)), degree, m, z)
        value[i], leverage[i], variance[i] = project(k, weight, target, z, size, levels, m, norm)


@kernel
def fill_design(x, rows, x0, scale, degree, m, z):
    """Rows of z: one, the p scaled steps, and their products; entry m is the value at x0."""
    p = x0.size
    for j in range(m):
        z[0, j] = 1.0
    z[0, m] = 1.0
    if degree > 0:
        for c in range(p):
            for j in range(m):
                z[1 + c, j] = (x[rows[j], c] - x0[c]) * scale
            z[1 + c, m] = 0.0
    if degree > 1:
        at = 1 + p
        for c in range(p):
            for e in range(c, p):
                for j in range(m):
                    z[at, j] = z[1 + c, j] * z[1 + e, j]
                z[at, m] = 0.0
                at += 1
