"""Losses of boosting: where the score starts, its gradient and curvature row by row, and what a leaf adds.

With score f, target y, and p = 1 / (1 + e^-f) or the softmax of K scores:

    loss              per row                            gradient           curvature   start         leaf
    squared_error     (y - f)^2                          f - y              1           mean          mean
    absolute_error    |y - f|                            sign(f - y)        1           median        median
    quantile          q (y - f)+ + (1 - q) (f - y)+      1[y <= f] - q      1           q-quantile    q-quantile
    huber             r^2 / 2 up to d, d |r| - d^2 / 2   clip(f - y, d)     1           median        Huber's centre
    poisson           2 (y log(y / m) - y + m), m = e^f  m - y              m           log of mean   Newton step
    log_loss, K = 2   log(1 + e^f) - y f                 p - y              p (1 - p)   log-odds      Newton step
    log_loss, K > 2   log sum_k e^f_k - f_y              p_k - 1[y = k]     p_k(1-p_k)  log shares    Newton step
    exponential       e^(-t f), t = 2 y - 1              -t e^(-t f)        e^(-t f)    half log-odds Newton step

A leaf's value is -G / (H + l2), its sums of gradient and curvature, or the exact minimiser of its loss over the leaf's
residuals (the middle one where many minimise). Poisson's rising steps are log(1 + step): without l2 that is the exact
minimiser too, so a leaf never overshoots. Huber's d is the alpha-quantile of the absolute residuals, anew in each
round; scores are taken at the d of the start, for otherwise they could not be compared between rounds.

A loss is one class below. Cost per round: O(n K) for the gradients, O(n) for exact leaves (selection, no sort).
Friedman (2001), Annals of Statistics 29, 1189-1232; Koenker & Bassett (1978), Econometrica 46, 33-50.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy import special

from assay.errors import DataError
from assay.trees._loss_steps import (
    BINARY,
    CLASSES,
    SQUARED,
    binary_step,
    class_step,
    exponential_step,
    huber_centres,
    huber_step,
    own_step,
    pinball_step,
    poisson_step,
    quantile_at,
    quantiles,
    squared_step,
)

__all__ = ["CLASS_LOSSES", "NUMBER_LOSSES", "Loss", "quantile_of"]

Array = np.ndarray
NOTHING = np.empty(0)
LARGEST = 700.0
"""Exponentials of more would overflow."""


class Loss:
    """What boosting must know of a loss. Targets, scores and gradients are (n,), (K, n) and (K, n), float64.

    | attribute | meaning                                                                           |
    |-----------|-----------------------------------------------------------------------------------|
    | words     | what the mean loss is called                                                      |
    | link      | "identity", "log", "logit", "softmax" or "half logit": from scores to predictions |
    | outputs   | K, the number of scores and of trees per round                                    |
    | flat      | curvature 1 in every row, so that the sum of curvatures is a sum of weights       |
    | scale     | mean loss = scale * (sum over rows + constant) / sum of weights                   |
    | steady    | without weights the gradient rises by as much as the score                        |
    | fused     | its number in `slopes`, which makes gradients with the tree; 0: it has none        |
    | renews    | leaves take `centre` of their residuals instead of the Newton step                |
    """

    words: ClassVar[str]
    link: ClassVar[str] = "identity"
    flat: ClassVar[bool] = False
    scale: ClassVar[float] = 1.0
    steady: ClassVar[bool] = False
    fused: ClassVar[int] = 0
    renews: ClassVar[bool] = False
    outputs: int = 1

    def check(self, y: Array) -> None:
        """Refuse targets that the loss has no meaning for."""

    def initial(self, y: Array, w: Array) -> Array:
        """The K constant scores of least loss."""
        raise NotImplementedError

    def constant(self, y: Array, w: Array) -> float:
        """The part of the summed loss that depends on the targets alone."""
        return 0.0

    def begin(self, y: Array, w: Array, raw: Array) -> None:
        """Before each round: what the loss learns from the residuals."""

    def fill(self, y: Array, w: Array, raw: Array, g: Array, h: Array, start: int, stop: int) -> float:
        """Gradients and curvatures of rows start to stop, times weight; returns their summed loss."""
        part = slice(start, stop)
        return self.fill_one(y[part], w[part], raw[0, part], g[0, part], h[0, part])

    def fill_one(self, y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
        """The same for a single score, all arrays being vectors."""
        raise NotImplementedError

    def step(self, value: Array) -> Array:
        """Newton steps of the leaves, made safe."""
        return value

    def centre(self, starts: Array, residuals: Array, weights: Array, first: int, last: int, out: Array) -> None:
        """The best constant for the residuals of each of the nodes first to last, where there are any."""
        raise NotImplementedError


class Squared(Loss):
    """(y - f)^2: the mean."""

    words, flat, steady, fused = "mean squared error", True, True, SQUARED

    def initial(self, y: Array, w: Array) -> Array:
        """The weighted mean."""
        return np.array([_mean(y, w)])

    def fill_one(self, y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
        """Residuals with their sign turned."""
        return squared_step(y, w, raw, g)


class Absolute(Loss):
    """|y - f|: the median."""

    words, flat, renews = "mean absolute error", True, True
    q = 0.5

    def initial(self, y: Array, w: Array) -> Array:
        """The weighted quantile (here the median)."""
        return np.array([quantile_of(y, w, self.q)])

    def fill_one(self, y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
        """Signs of the residuals."""
        return 2.0 * pinball_step(y, w, raw, g, 0.5, 2.0)

    def centre(self, starts: Array, residuals: Array, weights: Array, first: int, last: int, out: Array) -> None:
        """The weighted quantile of each node's residuals."""
        quantiles(starts, residuals, weights, first, last, self.q, out)


class Pinball(Absolute):
    """q (y - f)+ + (1 - q) (f - y)+: the q-quantile."""

    words = "mean pinball loss"

    def __init__(self, q: float) -> None:
        self.q = float(q)

    def fill_one(self, y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
        """-q above the score, 1 - q below it."""
        return pinball_step(y, w, raw, g, self.q, 1.0)


class Huber(Loss):
    """Squares up to d and absolute values beyond."""

    words, flat, renews = "mean Huber loss", True, True

    def __init__(self, alpha: float) -> None:
        self.alpha = float(alpha)
        self.reference = self.width = 0.0

    def initial(self, y: Array, w: Array) -> Array:
        """The weighted median; its residuals give the d of the scores."""
        middle = quantile_of(y, w, 0.5)
        self.reference = self.width = self._width(y, w, np.full(y.size, middle))
        return np.array([middle])

    def begin(self, y: Array, w: Array, raw: Array) -> None:
        """The d of this round."""
        self.width = self._width(y, w, raw[0])

    def _width(self, y: Array, w: Array, f: Array) -> float:
        width = quantile_of(np.abs(y - f), w, self.alpha)
        # Where most residuals vanish d would be 0 and say nothing; the loss then is the absolute one, nearly.
        return width if width > 0 else 1e-10 * (float(np.abs(y - f).max()) or 1.0)

    def fill_one(self, y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
        """Residuals cut at d."""
        return huber_step(y, w, raw, g, self.width, self.reference)

    def centre(self, starts: Array, residuals: Array, weights: Array, first: int, last: int, out: Array) -> None:
        """Huber's M-estimate of location of each node's residuals."""
        huber_centres(starts, residuals, weights, first, last, self.width, out)


class Poisson(Loss):
    """Deviance of counts with mean e^f."""

    words, link, scale = "mean Poisson deviance", "log", 2.0

    def check(self, y: Array) -> None:
        """Counts are not negative."""
        if (y < 0).any():
            row = int(np.argmax(y < 0))
            what = f'y contains the negative value {y[row]:g} in row {row}, which loss="poisson" does not support'
            raise DataError(what, remedy="pass counts or rates of 0 or more, or choose another loss")

    def initial(self, y: Array, w: Array) -> Array:
        """The logarithm of the mean."""
        mean = _mean(y, w)
        if mean <= 0:
            what = 'every y is 0, so loss="poisson" has no finite mean on the log scale'
            raise DataError(what, remedy="pass rows with a positive count")
        return np.array([math.log(mean)])

    def constant(self, y: Array, w: Array) -> float:
        """sum of y log y - y."""
        own = special.xlogy(y, y) - y
        return float(own.sum() if w.size == 0 else own @ w)

    def fill_one(self, y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
        """m - y and m."""
        np.exp(np.minimum(raw, LARGEST, out=h), out=h)
        return poisson_step(y, w, raw, g, h)

    def step(self, value: Array) -> Array:
        """A rising step is log(1 + step), the minimiser itself where l2 is 0."""
        return np.where(value > 0, np.log1p(np.maximum(value, 0.0)), value)


class Binary(Loss):
    """Deviance of two classes, y = 0 or 1."""

    words, link, fused = "mean log loss", "logit", BINARY

    def initial(self, y: Array, w: Array) -> Array:
        """The log-odds."""
        return np.diff(np.log(_shares(y, w, 2)))

    def fill_one(self, y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
        """p - y and p (1 - p)."""
        np.abs(raw, out=h)
        np.exp(np.negative(h, out=h), out=h)
        logs = float(w @ np.log1p(h)) if w.size else 0.0
        return logs + binary_step(y, w, raw, g, h)


class Exponential(Loss):
    """e^(-t f) of two classes, t = -1 or 1: AdaBoost's loss."""

    words, link = "mean exponential loss", "half logit"

    def initial(self, y: Array, w: Array) -> Array:
        """Half the log-odds."""
        return np.diff(np.log(_shares(y, w, 2))) / 2

    def fill_one(self, y: Array, w: Array, raw: Array, g: Array, h: Array) -> float:
        """-t e^(-t f) and e^(-t f)."""
        np.exp(np.minimum((1.0 - 2.0 * y) * raw, LARGEST), out=h)
        return exponential_step(y, w, g, h)


class Multinomial(Loss):
    """Deviance of K classes, y = 0 .. K - 1."""

    words, link, fused = "mean log loss", "softmax", CLASSES

    def __init__(self, classes: int) -> None:
        self.outputs = classes

    def initial(self, y: Array, w: Array) -> Array:
        """Logarithms of the shares."""
        return np.log(_shares(y, w, self.outputs))

    def fill(self, y: Array, w: Array, raw: Array, g: Array, h: Array, start: int, stop: int) -> float:
        """p_k - 1[y = k] and p_k (1 - p_k)."""
        part = slice(start, stop)
        y, w = y[part], w[part]
        top = raw[:, part].max(axis=0)
        shares = np.subtract(raw[:, part], top, out=g[:, part])
        mass = np.exp(shares, out=shares).sum(axis=0)
        for k in range(self.outputs):
            class_step(w, mass, g[k, part], h[k, part])
        logs = np.log(mass)
        return float(logs.sum() if w.size == 0 else w @ logs) + own_step(y, w, raw, top, g, start)


NUMBER_LOSSES: dict[str, Any] = {
    "squared_error": lambda model: Squared(),
    "absolute_error": lambda model: Absolute(),
    "huber": lambda model: Huber(model.alpha),
    "quantile": lambda model: Pinball(model.quantile),
    "poisson": lambda model: Poisson(),
}
"""How a regressor makes each loss from its parameters."""

CLASS_LOSSES: dict[str, Any] = {
    "log_loss": lambda classes: Binary() if classes == 2 else Multinomial(classes),
    "exponential": lambda classes: Exponential(),
}
"""How a classifier makes each loss for a number of classes."""


def quantile_of(values: Array, w: Array, q: float) -> float:
    """The middle of the minimisers of the pinball loss: the median of numpy for q = 1/2, weights equal repetition.

    >>> quantile_of(np.array([3.0, 1.0, 2.0, 10.0]), np.empty(0), 0.5)
    2.5
    """
    mass = np.ones(values.size) if w.size == 0 else w.copy()
    return float(quantile_at(values.copy(), mass, 0, values.size, q))


def _mean(y: Array, w: Array) -> float:
    return float(y.mean() if w.size == 0 else np.average(y, weights=w))


def _shares(y: Array, w: Array, classes: int) -> Array:
    """Shares of the classes; one that a fold does not hold is rare, not impossible."""
    count = np.bincount(y.astype(np.int64), weights=None if w.size == 0 else w, minlength=classes)
    return np.maximum(count / count.sum(), np.finfo(float).eps)
