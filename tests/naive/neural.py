"""Networks by their definitions: loops over pixels, and back-propagation of one row as the lecture notes print it."""

from __future__ import annotations

import numpy as np


def convolve(image, filters, stride=(1, 1), padding="valid"):
    """Sums of products under every position; image (h, w, c), filters (a, b, c, f)."""
    h, w, _ = image.shape
    a, b, _, f = filters.shape
    if padding == "same":
        rows, columns = -(-h // stride[0]), -(-w // stride[1])
        above = max(0, (rows - 1) * stride[0] + a - h)
        left = max(0, (columns - 1) * stride[1] + b - w)
        around = ((above // 2, above - above // 2), (left // 2, left - left // 2), (0, 0))
        image = np.pad(image, around)
    else:
        rows, columns = (h - a) // stride[0] + 1, (w - b) // stride[1] + 1
    out = np.zeros((rows, columns, f))
    for r in range(rows):
        for c in range(columns):
            patch = image[r * stride[0] : r * stride[0] + a, c * stride[1] : c * stride[1] + b]
            for k in range(f):
                out[r, c, k] = np.sum(patch * filters[..., k])
    return out


def pool(image, size, stride, how):
    """Largest, smallest or mean of every whole window, channel by channel."""
    h, w, channels = image.shape
    rows, columns = (h - size[0]) // stride[0] + 1, (w - size[1]) // stride[1] + 1
    out = np.zeros((rows, columns, channels))
    for r in range(rows):
        for c in range(columns):
            window = image[r * stride[0] : r * stride[0] + size[0], c * stride[1] : c * stride[1] + size[1]]
            out[r, c] = {"max": np.max, "min": np.min, "mean": np.mean}[how](window, axis=(0, 1))
    return out


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def one_hidden_layer(x, y, w, beta):
    """The lecture notes' gradients for one row: f = beta_0 + sum_m beta_m g(w_m0 + sum_j w_mj x_j), R = (y - f)^2 / 2.

    `w` has a row for each hidden unit, its bias first; `beta` begins with the output's bias.
    """
    z = np.array([w[m, 0] + sum(w[m, 1 + j] * x[j] for j in range(len(x))) for m in range(len(w))])
    f = beta[0] + sum(beta[1 + m] * sigmoid(z[m]) for m in range(len(w)))
    d_beta, d_w = np.zeros_like(beta), np.zeros_like(w)
    d_beta[0] = -(y - f)
    for m in range(len(w)):
        d_beta[1 + m] = -(y - f) * sigmoid(z[m])
        slope = -(y - f) * beta[1 + m] * sigmoid(z[m]) * (1 - sigmoid(z[m]))
        d_w[m, 0] = slope
        for j in range(len(x)):
            d_w[m, 1 + j] = slope * x[j]
    return f, d_w, d_beta
