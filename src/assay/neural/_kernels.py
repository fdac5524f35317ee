"""Compiled parts of the layers: activations with their biases, losses, patches, pools and the optimizers' updates.

Everything works on rows of contiguous arrays, in single precision (the default) or double (gradient checks and
predictions); matrix products are left to BLAS.
"""

from __future__ import annotations

import numpy as np

from assay.numerics.jit import kernel

__all__ = [
    "ACTIVATIONS",
    "absolute",
    "activate",
    "adam",
    "binary_entropy",
    "col2im",
    "descend",
    "differentiate",
    "drop",
    "give_largest",
    "huber",
    "im2col",
    "keep_largest",
    "moments_of",
    "pool_back",
    "pool_forward",
    "shift_images",
    "softmax",
    "softmax_entropy",
    "squared",
    "squared_norm",
]

Array = np.ndarray
ACTIVATIONS = {"identity": 0, "relu": 1, "sigmoid": 2, "tanh": 3}
"""Activations of one number, by the code that the kernels know."""


# Activations.


@kernel
def activate(z: Array, bias: Array, code: int) -> None:
    """z <- g(z + bias), row by row; an empty bias adds nothing."""
    n, k = z.shape
    biased = bias.size > 0
    one = z.dtype.type(1)
    zero = z.dtype.type(0)
    for i in range(n):
        row = z[i]
        if biased:
            for j in range(k):
                row[j] += bias[j]
        if code == 1:
            for j in range(k):
                row[j] = max(row[j], zero)
        elif code == 2:
            for j in range(k):
                small = np.exp(-abs(row[j]))
                row[j] = (one if row[j] >= 0 else small) / (one + small)
        elif code == 3:
            for j in range(k):
                row[j] = np.tanh(row[j])


@kernel
def differentiate(dy: Array, y: Array, code: int) -> None:
    """dy <- dy g'(z), from the output y = g(z); both flat."""
    one = dy.dtype.type(1)
    zero = dy.dtype.type(0)
    if code == 1:
        for i in range(dy.size):
            dy[i] = dy[i] if y[i] > zero else zero
    elif code == 2:
        for i in range(dy.size):
            dy[i] *= y[i] * (one - y[i])
    elif code == 3:
        for i in range(dy.size):
            dy[i] *= one - y[i] * y[i]


@kernel
def softmax(z: Array) -> None:
    """Each row <- exp(z) / sum exp(z), from its largest entry down."""
    for i in range(z.shape[0]):
        row = z[i]
        top = row[0]
        for j in range(1, row.size):
            top = max(top, row[j])
        total = z.dtype.type(0)
        for j in range(row.size):
            row[j] = np.exp(row[j] - top)
            total += row[j]
        for j in range(row.size):
            row[j] /= total


@kernel
def drop(x: Array, uniform: Array, rate: float, out: Array) -> None:
    """out = x / (1 - rate) where the uniform number reaches the rate, 0 elsewhere."""
    scale = x.dtype.type(1.0 / (1.0 - rate))
    zero = x.dtype.type(0)
    for i in range(x.size):
        out[i] = x[i] * scale if uniform[i] >= rate else zero


# Losses: each fills dz with the gradient of sum_i w_i loss(z_i, y_i) * unit and returns that sum.


@kernel
def squared(z: Array, y: Array, w: Array, unit: float, dz: Array, _: float) -> float:
    """(z - y)^2 / 2."""
    total = 0.0
    for i in range(z.shape[0]):
        weight = unit * w[i] if w.size else unit
        for j in range(z.shape[1]):
            r = np.float64(z[i, j]) - y[i, j]
            total += 0.5 * weight * r * r
            dz[i, j] = weight * r
    return total


@kernel
def absolute(z: Array, y: Array, w: Array, unit: float, dz: Array, _: float) -> float:
    """|z - y|."""
    total = 0.0
    for i in range(z.shape[0]):
        weight = unit * w[i] if w.size else unit
        for j in range(z.shape[1]):
            r = np.float64(z[i, j]) - y[i, j]
            total += weight * abs(r)
            dz[i, j] = weight * np.sign(r)
    return total


@kernel
def huber(z: Array, y: Array, w: Array, unit: float, dz: Array, delta: float) -> float:
    """r^2 / 2 up to |r| = delta, a line beyond."""
    total = 0.0
    for i in range(z.shape[0]):
        weight = unit * w[i] if w.size else unit
        for j in range(z.shape[1]):
            r = np.float64(z[i, j]) - y[i, j]
            if abs(r) <= delta:
                total += 0.5 * weight * r * r
                dz[i, j] = weight * r
            else:
                total += weight * delta * (abs(r) - 0.5 * delta)
                dz[i, j] = weight * delta * np.sign(r)
    return total


@kernel
def binary_entropy(z: Array, y: Array, w: Array, unit: float, dz: Array, _: float) -> float:
    """log(1 + exp(z)) - y z, without overflow."""
    total = 0.0
    for i in range(z.shape[0]):
        weight = unit * w[i] if w.size else unit
        for j in range(z.shape[1]):
            at = np.float64(z[i, j])
            small = np.exp(-abs(at))
            total += weight * (max(at, 0.0) + np.log1p(small) - y[i, j] * at)
            chance = (1.0 if at >= 0 else small) / (1.0 + small)
            dz[i, j] = weight * (chance - y[i, j])
    return total


@kernel
def softmax_entropy(z: Array, y: Array, w: Array, unit: float, dz: Array, _: float) -> float:
    """log sum exp(z) - z[class], the class being y[i, 0]."""
    total = 0.0
    k = z.shape[1]
    for i in range(z.shape[0]):
        weight = unit * w[i] if w.size else unit
        row, d = z[i], dz[i]
        top = row[0]
        for j in range(1, k):
            top = max(top, row[j])
        mass = z.dtype.type(0)
        for j in range(k):
            d[j] = np.exp(row[j] - top)
            mass += d[j]
        label = int(y[i, 0])
        total += weight * (np.log(np.float64(mass)) - np.float64(row[label]) + top)
        share = z.dtype.type(weight / mass)
        for j in range(k):
            d[j] *= share
        d[label] -= weight
    return total


# Images: rows, columns, channels last.


@kernel
def im2col(x: Array, kernel_size: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int], out: Array) -> None:
    """The patch under each position of the filter as one row of `out`; outside of the image there are zeros."""
    n, height, width, channels = x.shape
    rows, columns = out.shape[1], out.shape[2]
    run, step = kernel_size[1] * channels, stride[1] * channels
    flat = x.reshape(n, height, width * channels)
    # Positions whose patch lies between the left and the right border.
    inner = min(columns, max(0, -(-pad[1] // stride[1])))
    outer = max(inner, min(columns, (width - kernel_size[1] + pad[1]) // stride[1] + 1))
    start = (inner * stride[1] - pad[1]) * channels
    for i in range(n):
        for r in range(rows):
            for a in range(kernel_size[0]):
                at = r * stride[0] - pad[0] + a
                patches = out[i, r, :, a * run : (a + 1) * run]
                if at < 0 or at >= height:
                    patches[:] = 0
                    continue
                line = flat[i, at]
                for c in range(columns):
                    if c < inner or c >= outer:
                        for t in range(run):
                            source = c * step - pad[1] * channels + t
                            patches[c, t] = line[source] if 0 <= source < line.size else 0
                if outer == inner:
                    continue
                whole, source = patches[inner:outer], line[start:]
                if run < 8:
                    for t in range(run):
                        for c in range(whole.shape[0]):
                            whole[c, t] = source[c * step + t]
                else:
                    for c in range(whole.shape[0]):
                        part = source[c * step : c * step + run]
                        for t in range(part.size):
                            whole[c, t] = part[t]


@kernel
def col2im(d: Array, kernel_size: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int], dx: Array) -> None:
    """Add each patch's gradient to the pixels that the patch was made of."""
    n, height, width, channels = dx.shape
    rows, columns = d.shape[1], d.shape[2]
    run = kernel_size[1] * channels
    flat = dx.reshape(n, height, width * channels)
    for i in range(n):
        for r in range(rows):
            for a in range(kernel_size[0]):
                at = r * stride[0] - pad[0] + a
                if at < 0 or at >= height:
                    continue
                patches = d[i, r, :, a * run : (a + 1) * run]
                line = flat[i, at]
                for c in range(columns):
                    left = c * stride[1] - pad[1]
                    first = max(0, -left) * channels
                    last = min(kernel_size[1], width - left) * channels
                    to = line[left * channels + first : left * channels + last]
                    part = patches[c, first:last]
                    for t in range(to.size):
                        to[t] += part[t]


@kernel
def keep_largest(z: Array, out: Array, place: Array) -> None:
    """The largest of each column of z (windows by their pixels), and which it was; all flat."""
    best = z[0]
    for j in range(out.size):
        out[j] = best[j]
        place[j] = 0
    for q in range(1, z.shape[0]):
        there, code = z[q], np.int32(q)
        for j in range(out.size):
            wins = there[j] > out[j]
            out[j] = there[j] if wins else out[j]
            place[j] = code if wins else place[j]


@kernel
def give_largest(d: Array, place: Array, dz: Array) -> None:
    """The gradient of each column to the entry that was kept, zero to the others."""
    zero = d.dtype.type(0)
    for q in range(dz.shape[0]):
        to, code = dz[q], np.int32(q)
        for j in range(d.size):
            to[j] = d[j] if place[j] == code else zero


@kernel
def pool_forward(
    x: Array, size: tuple[int, int], stride: tuple[int, int], sign: float, out: Array, place: Array
) -> None:
    """Largest (sign 1), smallest (sign -1) or mean (sign 0) value of each window; `place` keeps where it stood."""
    n, rows, columns, channels = out.shape
    share = x.dtype.type(1.0 / (size[0] * size[1]))
    turn = x.dtype.type(sign)
    for i in range(n):
        for r in range(rows):
            for c in range(columns):
                best = out[i, r, c]
                best[:] = x[i, r * stride[0], c * stride[1]]
                if sign == 0:
                    best[:] = 0
                at = place[i, r, c]
                at[:] = 0
                for a in range(size[0]):
                    for b in range(size[1]):
                        there = x[i, r * stride[0] + a, c * stride[1] + b]
                        code = np.int32(a * size[1] + b)
                        for ch in range(channels):
                            if sign == 0:
                                best[ch] += share * there[ch]
                            elif turn * there[ch] > turn * best[ch]:
                                best[ch] = there[ch]
                                at[ch] = code


@kernel
def pool_back(d: Array, place: Array, size: tuple[int, int], stride: tuple[int, int], mean: bool, dx: Array) -> None:
    """Add each window's gradient to the pixel that was kept, or in equal shares to all of them."""
    n, rows, columns, channels = d.shape
    share = d.dtype.type(1.0 / (size[0] * size[1]))
    for i in range(n):
        for r in range(rows):
            for c in range(columns):
                given, kept = d[i, r, c], place[i, r, c]
                for a in range(size[0]):
                    for b in range(size[1]):
                        to = dx[i, r * stride[0] + a, c * stride[1] + b]
                        code = np.int32(a * size[1] + b)
                        for ch in range(channels):
                            if mean:
                                to[ch] += share * given[ch]
                            elif kept[ch] == code:
                                to[ch] += given[ch]


@kernel
def shift_images(x: Array, down: Array, right: Array, flip: Array, out: Array) -> None:
    """Each image moved by whole pixels, its border repeated, and mirrored left to right where asked."""
    n, height, width, channels = x.shape
    for i in range(n):
        for r in range(height):
            row = min(max(r - down[i], 0), height - 1)
            for c in range(width):
                column = min(max(c - right[i], 0), width - 1)
                if flip[i]:
                    column = width - 1 - column
                for ch in range(channels):
                    out[i, r, c, ch] = x[i, row, column, ch]


# Updates. Gradients come one row per shard and are added in that order; the blocks of the parameter vector are given by
# their first entries, each with a ridge penalty (part of the gradient), a lasso penalty (a proximal step) and a decay.


@kernel
def squared_norm(theta: Array, gradients: Array, starts: Array, ridge: Array) -> float:
    """The squared length of the whole gradient, penalty included."""
    total = 0.0
    for block in range(ridge.size):
        for i in range(starts[block], starts[block + 1]):
            g = np.float64(gradients[0, i]) + ridge[block] * theta[i]
            for s in range(1, gradients.shape[0]):
                g += gradients[s, i]
            total += g * g
    return total


@kernel
def adam(
    theta: Array,
    gradients: Array,
    moments: Array,
    starts: Array,
    ridge: Array,
    lasso: Array,
    step: float,
    scale: float,
    betas: tuple[float, float],
    epsilon: float,
    corrections: tuple[float, float],
    decay: float,
) -> None:
    """One step of Adam: theta <- prox(theta - step m / (sqrt(v) + epsilon)), without the bias of their start."""
    number = theta.dtype.type
    b1, b2 = number(betas[0]), number(betas[1])
    c1, c2 = number(1.0 - betas[0]), number(1.0 - betas[1])
    rate, root, tiny = number(step / corrections[0]), number(1.0 / np.sqrt(corrections[1])), number(epsilon)
    factor, shrink, plain = number(scale), number(1.0 - step * decay), number(step)
    zero = number(0)
    for block in range(ridge.size):
        # Views of the block, counted from zero: a loop from a number that may be negative is not vectorised.
        here = slice(starts[block], starts[block + 1])
        p, g, m, v = theta[here], gradients[0, here], moments[0, here], moments[1, here]
        penalty, threshold = number(ridge[block]), number(lasso[block])
        for s in range(1, gradients.shape[0]):
            more = gradients[s, here]
            for i in range(g.size):
                g[i] += more[i]
        for i in range(g.size):
            slope = (g[i] + penalty * p[i]) * factor
            m[i] = b1 * m[i] + c1 * slope
            v[i] = b2 * v[i] + c2 * slope * slope
        if threshold == zero:
            for i in range(g.size):
                p[i] = p[i] * shrink - rate * m[i] / (np.sqrt(v[i]) * root + tiny)
        else:
            for i in range(g.size):
                scaled = np.sqrt(v[i]) * root + tiny
                new = p[i] * shrink - rate * m[i] / scaled
                cut = plain * threshold / scaled
                p[i] = max(new - cut, zero) + min(new + cut, zero)


@kernel
def descend(
    theta: Array,
    gradients: Array,
    velocity: Array,
    starts: Array,
    ridge: Array,
    lasso: Array,
    step: float,
    scale: float,
    momentum: float,
    nesterov: bool,
) -> None:
    """One step of gradient descent: v <- momentum v + gradient, theta <- prox(theta - step v)."""
    number = theta.dtype.type
    rate, factor, kept = number(step), number(scale), number(momentum)
    zero = number(0)
    for block in range(ridge.size):
        here = slice(starts[block], starts[block + 1])
        p, g, v = theta[here], gradients[0, here], velocity[here]
        penalty, cut = number(ridge[block]), number(step * lasso[block])
        for s in range(1, gradients.shape[0]):
            more = gradients[s, here]
            for i in range(g.size):
                g[i] += more[i]
        for i in range(g.size):
            g[i] = (g[i] + penalty * p[i]) * factor
        if momentum > 0:
            for i in range(g.size):
                v[i] = kept * v[i] + g[i]
            if nesterov:
                for i in range(g.size):
                    g[i] += kept * v[i]
            else:
                for i in range(g.size):
                    g[i] = v[i]
        for i in range(g.size):
            p[i] -= rate * g[i]
        if cut > zero:
            for i in range(g.size):
                p[i] = max(p[i] - cut, zero) + min(p[i] + cut, zero)


@kernel
def moments_of(x: Array, mean: Array, variance: Array) -> None:
    """Mean and variance (over n) of each column, in two passes."""
    n, k = x.shape
    mean[:] = 0
    variance[:] = 0
    for i in range(n):
        for j in range(k):
            mean[j] += x[i, j]
    for j in range(k):
        mean[j] /= n
    for i in range(n):
        for j in range(k):
            gap = x[i, j] - mean[j]
            variance[j] += gap * gap
    for j in range(k):
        variance[j] /= n
