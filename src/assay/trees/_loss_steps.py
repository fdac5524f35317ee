"""Kernels of the losses: gradients row by row, and exact leaves.

An empty `w` means that all rows weigh the same, so that each kernel is compiled once. Exponentials and logarithms are
numpy's, made for whole blocks before a kernel is called: they run eight at a time there and one at a time here. Only
where the threads that grow trees work out the gradients as well (`slopes`) is there an exponential of our own.

A loop that adds up the loss of whole arrays stores nothing: with stores, short arrays that lie close together in memory
would be added up one by one, and others several at a time, and the last bit would tell where they lie.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = [
    "binary_step",
    "class_step",
    "exponential_step",
    "huber_centres",
    "huber_step",
    "own_step",
    "pinball_step",
    "poisson_step",
    "quantile_at",
    "quantiles",
    "slopes",
    "squared_step",
]

Array = np.ndarray
SQUARED, BINARY, CLASSES = 1, 2, 3
"""Losses whose gradients `slopes` works out."""
BLOCK = 512
LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453


@kernel(inline=True)
def slopes(
    kind: int, score: int, y: Array, raw: Array, leaf: Array, value: Array, g: Array, h: Array, low: int, high: int
) -> float:
    """Step by the values of the last tree's leaves, if any; before a round's first tree work out gradients and loss.

    For the rows low to high, without weights.
    """
    total, past = 0.0, raw[score - 1]
    for at in range(low, high, BLOCK):
        stop = min(at + BLOCK, high)
        if value.size:
            for i in range(np.uint64(at), np.uint64(stop)):
                past[i] += value[np.uint32(leaf[i])]
        if score > 0:
            continue
        if kind == SQUARED:
            for i in range(np.uint64(at), np.uint64(stop)):
                r = past[i] - y[i]
                g[0, i] = r
                total += r * r
        elif kind == BINARY:
            _exp_minus_size(raw[0, at:stop], h[0, at:stop])
            total += _binary_block(y[at:stop], raw[0, at:stop], g[0, at:stop], h[0, at:stop])
        else:
            total += _class_slopes(y[at:stop], raw, g, h, at, stop)
    return total


@kernel(inline=True)
def _class_slopes(y: Array, raw: Array, g: Array, h: Array, low: int, high: int) -> float:
    """p_k - 1[y = k] and p_k (1 - p_k), with p_k = e^(f_k - top) / mass; the loss is top - f_y + log(mass)."""
    total, classes, n = 0.0, raw.shape[0], y.size
    top = mass = h[0, low:high]
    top[:] = -np.inf
    for k in range(classes):
        scores = raw[k, low:high]
        for i in range(n):
            top[i] = max(top[i], scores[i])
    for i in range(n):
        total += top[i] - raw[np.int64(y[i]), low + i]
    for k in range(classes):
        slope, scores = g[k, low:high], raw[k, low:high]
        for i in range(n):
            slope[i] = scores[i] - top[i]
        _exp_minus_size(slope, slope)
    mass[:] = 0.0
    for k in range(classes):
        slope = g[k, low:high]
        for i in range(n):
            mass[i] += slope[i]
    for at in range(0, n, 32):
        # At most 2^31 classes: the product is below 2^992.
        product = 1.0
        for i in range(at, min(at + 32, n)):
            product *= mass[i]
        total += np.log(product)
    for k in range(classes - 1, -1, -1):  # the first row of h holds the masses
        slope, curve = g[k, low:high], h[k, low:high]
        for i in range(n):
            p = slope[i] / mass[i]
            slope[i] = p
            curve[i] = p * (1.0 - p)
    for i in range(n):
        g[np.int64(y[i]), low + i] -= 1.0
    return total


@kernel(inline=True)
def _exp_minus_size(x: Array, out: Array) -> None:
    """e^-|x| to 4 + |x| / 5 units of the last digit: Taylor's series within half an octave; octaves as exponents."""
    for i in range(x.size):
        a = max(-abs(x[i]), -708.0)
        octaves = np.floor(a * LOG2_E + 0.5)
        r = a - octaves * LN_2
        p = r / 6227020800 + 1 / 479001600
        p = p * r + 1 / 39916800
        p = p * r + 1 / 3628800
        p = p * r + 1 / 362880
        p = p * r + 1 / 40320
        p = p * r + 1 / 5040
        p = p * r + 1 / 720
        p = p * r + 1 / 120
        p = p * r + 1 / 24
        p = p * r + 1 / 6
        p = p * r + 1 / 2
        p = (p * r + 1) * r + 1
        power = np.int64((np.int64(octaves) + 1023) << 52).view(np.float64)
        out[i] = p * power if a > -708.0 else a + 708.0  # NaN stays NaN


@kernel
def squared_step(y: Array, w: Array, raw: Array, g: Array) -> float:
    """Residuals with their sign turned, and the sum of their squares."""
    total = 0.0
    if w.size == 0:
        for i in range(y.size):
            g[i] = raw[i] - y[i]
        for i in range(y.size):
            total += g[i] * g[i]
    else:
        for i in range(y.size):
            g[i] = w[i] * (raw[i] - y[i])
        for i in range(y.size):
            r = raw[i] - y[i]
            total += w[i] * r * r
    return total


@kernel
def pinball_step(y: Array, w: Array, raw: Array, g: Array, q: float, scale: float) -> float:
    """Slopes times `scale`, and the pinball loss."""
    total = 0.0
    for i in range(y.size):
        r = y[i] - raw[i]
        weight = 1.0 if w.size == 0 else w[i]
        slope = -q if r > 0 else (1.0 - q if r < 0 else 0.5 - q)
        g[i] = weight * scale * slope
    for i in range(y.size):
        r = y[i] - raw[i]
        weight = 1.0 if w.size == 0 else w[i]
        total += weight * max(q * r, (q - 1.0) * r)
    return total


@kernel
def huber_step(y: Array, w: Array, raw: Array, g: Array, width: float, reference: float) -> float:
    """Residuals with their sign turned, cut at `width`, and the loss at `reference`."""
    total = 0.0
    for i in range(y.size):
        r = raw[i] - y[i]
        weight = 1.0 if w.size == 0 else w[i]
        g[i] = weight * min(max(r, -width), width)
    for i in range(y.size):
        a = abs(raw[i] - y[i])
        weight = 1.0 if w.size == 0 else w[i]
        total += weight * (0.5 * a * a if a <= reference else reference * (a - 0.5 * reference))
    return total


@kernel
def poisson_step(y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
    """Comes with h = e^f."""
    total = 0.0
    for i in range(y.size):
        weight = 1.0 if w.size == 0 else w[i]
        total += weight * (h[i] - y[i] * raw[i])
    for i in range(y.size):
        mean = h[i]
        weight = 1.0 if w.size == 0 else w[i]
        g[i] = weight * (mean - y[i])
        h[i] = weight * mean
    return total


@kernel
def binary_step(y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
    """Comes with h = e^-|f|, so that p = 1 / (1 + h) or h / (1 + h) needs no branch, which would be guessed wrong.

    The loss is max(f, 0) - f y + log(1 + h); with weights its last part is the caller's.
    """
    total = 0.0
    if w.size:
        for i in range(y.size):
            f, small = raw[i], h[i]
            share = 1.0 / (1.0 + small)
            g[i] = w[i] * ((1.0 if f > 0.0 else small) * share - y[i])
            h[i] = w[i] * small * share * share
        for i in range(y.size):
            total += w[i] * (0.5 * (raw[i] + abs(raw[i])) - raw[i] * y[i])
        return total
    for low in range(0, y.size, BLOCK):
        high = low + BLOCK
        total += _binary_block(y[low:high], raw[low:high], g[low:high], h[low:high])
    return total


@kernel(inline=True)
def _binary_block(y: Array, raw: Array, g: Array, h: Array) -> float:
    """The same for at most `BLOCK` rows that weigh the same, with the whole loss.

    The logarithm of a product of factors up to 2 costs less than a logarithm each, and so few do not overflow.
    """
    product, total = 1.0, 0.0
    for i in range(y.size):
        product *= 1.0 + h[i]
    for i in range(y.size):
        total += raw[i] * ((1.0 if raw[i] > 0.0 else 0.0) - y[i])
    for i in range(y.size):
        share = 1.0 / (1.0 + h[i])
        g[i] = (1.0 if raw[i] > 0.0 else h[i]) * share - y[i]
        h[i] = h[i] * share * share
    return total + np.log(product)


@kernel
def exponential_step(y: Array, w: Array, g: Array, h: Array) -> float:
    """Comes with h = e^(-t f)."""
    total = 0.0
    for i in range(y.size):
        loss = h[i] * (1.0 if w.size == 0 else w[i])
        g[i] = (1.0 - 2.0 * y[i]) * loss
        h[i] = loss
    for i in range(y.size):
        total += h[i]
    return total


@kernel
def class_step(w: Array, mass: Array, g: Array, h: Array) -> None:
    """Comes with g = e^(f_k - top) and `mass`, its sum over classes."""
    for i in range(g.size):
        p = g[i] / mass[i]
        weight = 1.0 if w.size == 0 else w[i]
        g[i] = weight * p
        h[i] = weight * p * (1.0 - p)


@kernel
def own_step(y: Array, w: Array, raw: Array, top: Array, g: Array, start: int) -> float:
    """What belongs to each row's own class; the loss without log(mass)."""
    total = 0.0
    for i in range(y.size):
        weight = 1.0 if w.size == 0 else w[i]
        own = np.int64(y[i])
        g[own, start + i] -= weight
        total += weight * (top[i] - raw[own, start + i])
    return total


# Exact leaves.


@kernel
def quantile_at(v: Array, w: Array, low: int, high: int, q: float) -> float:
    """The middle minimiser of the pinball loss over v[low:high] with weights w; reorders both."""
    total = 0.0
    for i in range(low, high):
        total += w[i]
    target = q * total
    slack = 1e-12 * total
    below = 0.0
    a = low
    b = high
    while True:
        x = v[a]
        y = v[(a + b) // 2]
        z = v[b - 1]
        pivot = max(min(x, y), min(max(x, y), z))
        left = 0.0
        here = 0.0
        i = a
        less = a
        more = b
        while i < more:
            value = v[i]
            mass = w[i]
            if value < pivot:
                v[i] = v[less]
                w[i] = w[less]
                v[less] = value
                w[less] = mass
                left += mass
                less += 1
                i += 1
            elif value > pivot:
                more -= 1
                v[i] = v[more]
                w[i] = w[more]
                v[more] = value
                w[more] = mass
            else:
                here += mass
                i += 1
        if less > a and below + left >= target - slack:
            b = less
        elif below + left + here >= target - slack or more == b:
            if below + left + here <= target + slack and more < high:
                after = v[more]
                for i in range(more + 1, high):
                    after = min(after, v[i])
                return pivot + 0.5 * (after - pivot)
            return pivot
        else:
            below += left + here
            a = more


@kernel
def quantiles(starts: Array, v: Array, w: Array, first: int, last: int, q: float, out: Array) -> None:
    """The q-quantile of each node's residuals."""
    for node in range(first, last):
        if starts[node + 1] > starts[node]:
            out[node] = quantile_at(v, w, starts[node], starts[node + 1], q)


@kernel
def huber_centres(starts: Array, v: Array, w: Array, first: int, last: int, width: float, out: Array) -> None:
    """The root of sum w clip(v - c, width), which falls in c: Newton's method kept inside a shrinking bracket."""
    for node in range(first, last):
        begin = starts[node]
        end = starts[node + 1]
        if end == begin:
            continue
        low = v[begin]
        high = v[begin]
        total = 0.0
        for i in range(begin, end):
            low = min(low, v[i])
            high = max(high, v[i])
            total += w[i]
        reach = 1e-13 * max(abs(low), abs(high))
        c = min(max(0.0, low), high)
        for _ in range(200):
            push = 0.0
            inside = 0.0
            for i in range(begin, end):
                r = v[i] - c
                push += w[i] * min(max(r, -width), width)
                if abs(r) <= width:
                    inside += w[i]
            if push > 0:
                low = c
            elif push < 0:
                high = c
            if abs(push) <= 1e-13 * width * total or high - low <= reach:
                break
            step = c + push / inside if inside > 0 else 0.5 * (low + high)
            c = step if low < step < high else 0.5 * (low + high)
        out[node] = c
