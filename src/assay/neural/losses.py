"""Losses: how far an output is from its target, and the gradient with respect to the output.

    squared                 (f - y)^2 / 2                       f - y
    absolute                |f - y|                             sign(f - y)
    Huber                   r^2/2 if |r| <= d, else d|r| - d^2/2
    binary cross-entropy    log(1 + exp(z)) - y z               sigmoid(z) - y
    softmax cross-entropy   log sum_l exp(z_l) - z_y            softmax(z) - onehot(y)

The entropies take z, the output before the sigmoid or softmax: together they need no logarithm of a probability that
has been rounded to zero, and their gradient is a difference. Sums over several outputs, means over rows by weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from assay.constraints import real
from assay.neural._declared import Declared
from assay.neural._kernels import absolute, binary_entropy, huber, softmax, softmax_entropy, squared
from assay.state import Specs

__all__ = [
    "LOSSES",
    "AbsoluteError",
    "BinaryCrossEntropy",
    "Huber",
    "Loss",
    "SoftmaxCrossEntropy",
    "SquaredError",
]

Array = np.ndarray


class Loss(Declared):
    """What every loss is: a value with its gradient, and a map from outputs to predictions."""

    kernel: ClassVar[Callable[..., float]]
    fused: ClassVar[str] = "identity"
    """The activation of the output layer that belongs to the loss."""

    def value(self, z: Array, y: Array, w: Array, unit: float, dz: Array) -> float:
        """unit sum_i w_i loss_i, its gradient in dz; an empty w stands for ones."""
        return type(self).kernel(z, y, w, unit, dz, self._constant())

    def _constant(self) -> float:
        return 0.0

    def predict(self, z: Array) -> Array:
        """Predictions: outputs as they are, or probabilities."""
        return z


@dataclass(frozen=True)
class SquaredError(Loss):
    """Half the squared error, (f - y)^2 / 2, as in the lecture notes.

    >>> SquaredError().predict(np.array([[2.0]])).tolist()
    [[2.0]]
    """

    kernel: ClassVar[Callable[..., float]] = staticmethod(squared)


@dataclass(frozen=True)
class AbsoluteError(Loss):
    """The absolute error |f - y|, whose best constant is the median.

    >>> AbsoluteError().fused
    'identity'
    """

    kernel: ClassVar[Callable[..., float]] = staticmethod(absolute)


@dataclass(frozen=True)
class Huber(Loss):
    """Squared for small errors and absolute for large ones.

    | parameter | default | range   | meaning                                                                  |
    |-----------|---------|---------|--------------------------------------------------------------------------|
    | delta     | 1.35    | above 0 | where it turns; estimators count it in standard deviations of the target |

    Huber (1964), Annals of Mathematical Statistics 35, 73-101.

    >>> Huber(2.0).delta
    2.0
    """

    delta: float = 1.35

    kernel: ClassVar[Callable[..., float]] = staticmethod(huber)
    state: ClassVar[Specs] = {"delta": real(0, open_low=True)}

    def _constant(self) -> float:
        return float(self.delta)


@dataclass(frozen=True)
class BinaryCrossEntropy(Loss):
    """Minus the log-likelihood of y in {0, 1} with one output unit.

    >>> BinaryCrossEntropy().predict(np.array([[0.0]])).tolist()
    [[0.5]]
    """

    kernel: ClassVar[Callable[..., float]] = staticmethod(binary_entropy)
    fused: ClassVar[str] = "sigmoid"

    def predict(self, z: Array) -> Array:
        """1 / (1 + exp(-z))."""
        small = np.exp(-np.abs(z))
        return np.where(z >= 0, 1.0, small) / (1.0 + small)


@dataclass(frozen=True)
class SoftmaxCrossEntropy(Loss):
    """Minus the log-likelihood of classes counted from zero, with one output unit each.

    >>> SoftmaxCrossEntropy().predict(np.zeros((1, 4))).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """

    kernel: ClassVar[Callable[..., float]] = staticmethod(softmax_entropy)
    fused: ClassVar[str] = "softmax"

    def predict(self, z: Array) -> Array:
        """exp(z) over its sum."""
        out = np.array(z, order="C")
        softmax(out)
        return out


LOSSES: dict[str, Any] = {
    "squared": SquaredError(),
    "absolute": AbsoluteError(),
    "huber": Huber(),
    "binary_cross_entropy": BinaryCrossEntropy(),
    "cross_entropy": SoftmaxCrossEntropy(),
}
"""Losses by name."""
