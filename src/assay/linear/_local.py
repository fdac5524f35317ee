"""Kernels of locally weighted regression.

At a position x0 every kernel works with the scaled steps t_j = (x_j - x0)/h and the weights w_j = s_j K(t_j),
where s_j is the sample weight. The local polynomial's value at x0 is linear in y,

    f(x0) = sum_j s_j K_j a_j y_j,     a_j = c'z(t_j),     A c = e_1,   A = sum_j w_j z(t_j) z(t_j)',

and each kernel returns three numbers per position: f(x0), a_0 = c_1 (the leverage of a row that stands at x0 is
a_0 times its weight) and sum_j s_j (K_j a_j)^2, the variance of f(x0) in units of sigma^2.

One column: the rows are sorted and ties are merged, so a window is two binary searches and A, b come from one pass
over contiguous memory; in long windows a few nodes stand for each block of rows (`add_window`). Where A is close to
singular (`SHAKY`), and with several columns (`_local_tree`), the window is orthogonalised instead (`project`), lower
degrees first; directions the window does not determine are left out, so the degree falls by rank.
"""

# mypy: allow-untyped-defs
# (Numba infers the types of kernels from their arguments.)

from __future__ import annotations

import math

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.search import first_at_least

__all__ = [
    "CUT",
    "GAUSSIAN",
    "NARROW",
    "NODES",
    "TRICUBE",
    "decay",
    "fit_line",
    "kth_distances",
    "project",
    "window_ends",
]

TRICUBE = 0
GAUSSIAN = 1

CHUNK = 512
"""Steps and weights of this many rows stay in the first-level cache between the two loops over them."""

CUT = 81.0
"""Gaussian weights are cut at d^2 = d_nearest^2 + 81 h^2, where they are below 3e-18 of the largest one."""

NODES = 8
NARROW = 0.03
"""A bundle stands for the rows of a block by as many Chebyshev nodes, with weights that keep every sum of a polynomial
of lower degree. Over a block of half-width 0.03 h the kernels are such polynomials to twelve digits or more."""

SHAKY = 1e-3
"""A pivot this small beside its diagonal costs three digits: the orthogonal path takes over."""

RANK = 1e-20
"""A squared column norm that falls below this share of itself was rounding error: the column is left out."""


@kernel
def window(x, x0, middle, reach):
    """The first position within reach of x0, which comes before row `middle`, and the first one beyond it."""
    low, high = 0, middle
    while low < high:
        half = (low + high) >> 1
        if x0 - x[half] > reach:
            low = half + 1
        else:
            high = half
    start = low
    low, high = middle, x.size
    while low < high:
        half = (low + high) >> 1
        if x[half] - x0 > reach:
            high = half
        else:
            low = half + 1
    return start, low


@kernel
def window_ends(below, mass, ends):
    """ends[l]: where a window that starts at row l has `mass` for the first time; past the rows if it never has."""
    end = 0
    for start in range(ends.size):
        while end < below.size and below[end] - below[start] < mass:
            end += 1
        ends[start] = end


@kernel
def kth_distance(x, ends, x0):
    """The smallest distance from x0 that holds the mass of `window_ends`, by one binary search.

    As the start of a window moves right its left arm shrinks and its right arm grows; the best window is at the
    first start whose right arm is the longer one, or just before it.
    """
    low, high = 0, x.size
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] <= x.size and x0 - x[middle] > x[ends[middle] - 1] - x0:
            low = middle + 1
        else:
            high = middle
    best = np.inf
    if low < x.size and ends[low] <= x.size:
        best = x[ends[low] - 1] - x0
    if low > 0:
        best = min(best, x0 - x[low - 1])
    return best


@kernel
def kth_distances(x, ends, positions, out):
    """`kth_distance` at every position."""
    for i in range(positions.size):
        out[i] = kth_distance(x, ends, positions[i])


@kernel
def nearest_distance(x, s, x0, middle):
    """The distance from x0, which comes before row `middle`, to the nearest row that has weight."""
    right, left = middle, middle - 1
    while right < x.size and s[right] == 0.0:
        right += 1
    while left >= 0 and s[left] == 0.0:
        left -= 1
    if right == x.size:
        return x0 - x[left]
    if left < 0:
        return x[right] - x0
    return min(x0 - x[left], x[right] - x0)


@kernel
def decay(u):
    """exp(-u) for 0 <= u <= 42, by 2^-k times a polynomial, so that a loop over it runs in vector registers."""
    k = np.int64(u * 1.4426950408889634 + 0.5)
    r = k * 0.6931471805599453 - u
    # Taylor coefficients 1/i!; |r| <= log(2)/2 leaves less than one unit in the last place after the twelfth power.
    p = 1 / 39916800 + r * (1 / 479001600)
    p = 1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * p))
    p = 1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * p))
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * p))))
    return p / np.float64(np.int64(1) << k)


@kernel
def weigh(x, x0, h, nearest, shape, t, k):
    """Fill t and k with the scaled steps and kernel values of the rows x of a window."""
    scale = 1.0 / h
    if shape == GAUSSIAN:
        least = nearest * scale
        for j in range(x.size):
            step = (x[j] - x0) * scale
            t[j] = step
            far = abs(step)
            # The nearest row has weight one, however far it is: nothing underflows.
            k[j] = decay(min(max(0.5 * (far - least) * (far + least), 0.0), 42.0))
    elif nearest < h:
        for j in range(x.size):
            step = (x[j] - x0) * scale
            t[j] = step
            far = abs(step)
            value = max(1.0 - far * far * far, 0.0)
            k[j] = value * value * value
    else:
        for j in range(x.size):
            t[j] = (x[j] - x0) * scale
            k[j] = 1.0


@kernel
def add_moments(t, k, s, sy, degree, total):
    """Add the chunk's sums of w t^m, k sy t^m and w k t^m to total[0:5], total[5:8] and total[8:13]."""
    s0 = s1 = s2 = s3 = s4 = 0.0
    b0 = b1 = b2 = 0.0
    v0 = v1 = v2 = v3 = v4 = 0.0
    if degree < 2:
        for j in range(s.size):
            w = k[j] * s[j]
            u = w * t[j]
            q = w * k[j]
            s0 += w
            s1 += u
            s2 += u * t[j]
            b0 += k[j] * sy[j]
            b1 += k[j] * t[j] * sy[j]
            v0 += q
            v1 += q * t[j]
            v2 += q * t[j] * t[j]
    else:
        for j in range(s.size):
            w = k[j] * s[j]
            u = w * t[j]
            square = t[j] * t[j]
            q = w * k[j]
            s0 += w
            s1 += u
            s2 += w * square
            s3 += u * square
            s4 += w * square * square
            b0 += k[j] * sy[j]
            b1 += k[j] * t[j] * sy[j]
            b2 += k[j] * square * sy[j]
            v0 += q
            v1 += q * t[j]
            v2 += q * square
            v3 += q * square * t[j]
            v4 += q * square * square
    total[0] += s0
    total[1] += s1
    total[2] += s2
    total[3] += s3
    total[4] += s4
    total[5] += b0
    total[6] += b1
    total[7] += b2
    total[8] += v0
    total[9] += v1
    total[10] += v2
    total[11] += v3
    total[12] += v4


@kernel
def solve_moments(m, degree):
    """(safe, f(x0), a_0, variance) from the sums of `add_moments`; not safe when A is close to singular."""
    c1 = c2 = 0.0
    if m[0] <= 0.0:
        return False, 0.0, 0.0, 0.0
    if degree == 0:
        c0 = 1.0 / m[0]
    else:
        pivot = m[2] - m[1] * m[1] / m[0]
        if not pivot > SHAKY * m[2]:
            return False, 0.0, 0.0, 0.0
        if degree == 2:
            cross = m[3] - m[2] * m[1] / m[0]
            last = m[4] - m[2] * m[2] / m[0] - cross * cross / pivot
            if not last > SHAKY * m[4]:
                return False, 0.0, 0.0, 0.0
            c2 = (-m[2] / m[0] + (m[1] / m[0]) * (cross / pivot)) / last
        else:
            cross = 0.0
        c1 = (-m[1] / m[0] - cross * c2) / pivot
        c0 = (1.0 - m[1] * c1 - m[2] * c2) / m[0]
    value = c0 * m[5] + c1 * m[6] + c2 * m[7]
    variance = c0 * (c0 * m[8] + 2.0 * (c1 * m[9] + c2 * m[10])) + c1 * (c1 * m[10] + 2.0 * c2 * m[11])
    return True, value, c0, variance + c2 * c2 * m[12]


@kernel
def inner(k, s, u, v, m):
    """sum_j k_j s_j u_j v_j over the first m rows."""
    total = 0.0
    for j in range(m):
        total += k[j] * s[j] * u[j] * v[j]
    return total


@kernel
def remove(k, s, z, at, basis, m):
    """Take the part along column `basis` (of norm one) out of column z[at], also at x0, which is entry m."""
    share = inner(k, s, z[at], z[basis], m)
    for j in range(m + 1):
        z[at, j] -= share * z[basis, j]


@kernel
def project(k, s, y, z, size, levels, m, norm):
    """(f(x0), a_0, variance) by orthogonalising the columns z[:size] of a window of m rows under the weights k s.

    Entry m of a column is its value at x0, which travels along; levels[i] is the degree of column i. Within a
    degree the column that keeps most of its norm goes first. Row `size` of z is scratch.
    """
    for i in range(size):
        norm[i] = inner(k, s, z[i], z[i], m)
    value = leverage = 0.0
    for j in range(m):
        z[size, j] = 0.0
    for at in range(size):
        best, kept = -1, RANK
        for i in range(at, size):
            if levels[i] == levels[at] and norm[i] > 0.0:
                ratio = inner(k, s, z[i], z[i], m) / norm[i]
                if ratio > kept:
                    best, kept = i, ratio
        if best < 0:
            continue
        for j in range(m + 1):  # swapped into place, so that the basis fills the first rows of z
            z[at, j], z[best, j] = z[best, j], z[at, j]
        norm[best] = norm[at]
        norm[at] = 0.0
        if kept < 0.1:  # much was taken away: what is left may lean on earlier directions again
            for i in range(at):
                if norm[i] < 0.0:
                    remove(k, s, z, at, i, m)
        length = inner(k, s, z[at], z[at], m)
        if not length > 0.0:
            continue
        length = 1.0 / math.sqrt(length)
        for j in range(m + 1):
            z[at, j] *= length
        norm[at] = -1.0
        for i in range(at + 1, size):
            remove(k, s, z, i, at, m)
        here = z[at, m]
        value += here * inner(k, s, z[at], y, m)
        leverage += here * here
        for j in range(m):
            z[size, j] += here * z[at, j]
    variance = 0.0
    for j in range(m):
        variance += s[j] * (k[j] * z[size, j]) ** 2
    return value, leverage, variance


@kernel
def add_rows(x, s, sy, start, stop, x0, h, nearest, shape, degree, t, k, total):
    """Add the moments of rows start .. stop to total, chunk by chunk."""
    for at in range(start, stop, CHUNK):
        # Slices, not offsets: an index that starts at zero lets the loops run in vector registers.
        end = min(at + CHUNK, stop)
        weigh(x[at:end], x0, h, nearest, shape, t, k)
        add_moments(t, k, s[at:end], sy[at:end], degree, total)


@kernel
def add_window(x, s, sy, bx, bs, bsy, widths, size, start, middle, stop, x0, h, nearest, shape, degree, t, k, total):
    """Add the moments of a window, by bundles of `size` rows where they are narrow beside h and x0 is not inside."""
    at = start
    if size > 0:
        widest = 2.0 * NARROW * h
        block, end = (start + size - 1) // size, stop // size
        inside = middle // size if (middle - 1) // size == middle // size else -1
    else:
        widest, block, end, inside = 0.0, 0, 0, 0
    while block < end:
        run = block
        while run < end and run != inside and widths[run] <= widest:
            run += 1
        if run > block:
            add_rows(x, s, sy, at, block * size, x0, h, nearest, shape, degree, t, k, total)
            add_rows(bx, bs, bsy, block * NODES, run * NODES, x0, h, nearest, shape, degree, t, k, total)
            at = run * size
        block = run + 1
    add_rows(x, s, sy, at, stop, x0, h, nearest, shape, degree, t, k, total)


@kernel
def fit_line(
    x, s, y, sy, bx, bs, bsy, widths, size, ends, positions, tau, shape, degree, levels, t, k, z,
    value, leverage, variance,
):  # fmt: skip
    """Local fits at every position for one column: x sorted and distinct, s its weights, y the mean target, sy = s y.

    The bandwidth is tau, or with the `ends` of `window_ends` tau times the distance that holds their mass. bx, bs and
    bsy hold the bundles of blocks of `size` rows of given widths (size 0: none). t, k (n entries) and z (degree + 2
    rows of n + 1) are scratch.
    """
    total = np.empty(13)
    norm = np.empty(degree + 1)
    for i in range(positions.size):
        x0 = positions[i]
        h = tau
        if ends.size > 0:
            h = max(tau * kth_distance(x, ends, x0), 1e-100)
        middle = first_at_least(x, 0, x.size, x0)
        nearest = nearest_distance(x, s, x0, middle)
        spread = math.sqrt(nearest * nearest + CUT * h * h) if shape == GAUSSIAN else h
        reach = max(spread, nearest)
        start, stop = window(x, x0, middle, reach)
        total[:] = 0.0
        add_window(x, s, sy, bx, bs, bsy, widths, size, start, middle, stop, x0, h, nearest, shape, degree, t, k, total)
        safe, value[i], leverage[i], variance[i] = solve_moments(total, degree)
        if not safe:
            m = stop - start
            weigh(x[start:stop], x0, h, nearest, shape, t, k)
            shrink = min(h / reach, 1.0) if reach > 0.0 else 1.0  # steps of at most one: no power overflows
            for row in range(degree + 1):
                for j in range(m):
                    z[row, j] = (shrink * t[j]) ** row
                z[row, m] = 1.0 if row == 0 else 0.0
            value[i], leverage[i], variance[i] = project(
                k, s[start:stop], y[start:stop], z, degree + 1, levels, m, norm
            )
