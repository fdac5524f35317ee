"""The perceptron and single units, one row at a time, as a textbook writes them."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def augmented(X: Array) -> Array:
    """Rows with a one behind them."""
    return np.column_stack([X, np.ones(len(X))])


def perceptron(A: Array, y: Array, eta: float, passes: int, margin: float = 0.0) -> tuple[list[Array], list[int]]:
    """The weights after each row, and the rows that were mistakes."""
    w, after, mistakes = np.zeros(A.shape[1]), [], []
    for _ in range(passes):
        before = len(mistakes)
        for i, (a, t) in enumerate(zip(A, y, strict=True)):
            if t * (w @ a) <= margin:
                w = w + 2 * eta * t * a
                mistakes.append(i)
            after.append(w)
        if len(mistakes) == before:
            break
    return after, mistakes


def subgradient(A: Array, y: Array, step: float, passes: int, corner: float) -> list[Array]:
    """Stochastic subgradient steps on max(0, corner - y w'a), one row at a time in order."""
    w, after = np.zeros(A.shape[1]), []
    for _ in range(passes):
        for a, t in zip(A, y, strict=True):
            slope = -t * a if corner - t * (w @ a) >= 0 else 0 * a
            w = w - step * slope
            after.append(w)
    return after


def delta_rule(A: Array, y: Array, eta: float, steps: int) -> list[Array]:
    """Batch steps w <- w + eta sum_d (t_d - o_d) x_d of a linear unit."""
    w, after = np.zeros(A.shape[1]), []
    for _ in range(steps):
        w = w + eta * sum((t - w @ a) * a for a, t in zip(A, y, strict=True))
        after.append(w)
    return after


def sigmoid_step(A: Array, y: Array, eta: float, w: Array) -> Array:
    """One batch step of a sigmoid unit with squared error."""
    change = np.zeros_like(w)
    for a, t in zip(A, y, strict=True):
        o = 1 / (1 + np.exp(-(w @ a)))
        change += (t - o) * o * (1 - o) * a
    return w + eta * change
