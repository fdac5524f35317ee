"""Optimizers and schedules: how gradients become steps.

    gradient descent   theta <- theta - eta g
    momentum           v <- mu v + g;  theta <- theta - eta v
    Adam               m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  theta <- theta - eta m^ / (sqrt(v^) + eps)
    AdamW              Adam, and theta <- (1 - eta decay) theta beside it

m^ and v^ are without the bias of their start at zero. A lasso follows as a proximal step, scaled like the step itself.
The whole network is one vector, so an update is one pass over memory.

Polyak (1964); Kingma, Ba (2015), ICLR; Loshchilov, Hutter (2019), ICLR; Loshchilov, Hutter (2017) for the cosine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from assay.constraints import boolean, integer, real
from assay.neural._declared import Declared
from assay.neural._kernels import adam, descend
from assay.state import Specs

__all__ = [
    "OPTIMIZERS",
    "SCHEDULES",
    "SGD",
    "Adam",
    "AdamW",
    "Blocks",
    "Constant",
    "Cosine",
    "Decay",
    "GradientDescent",
    "Optimizer",
    "ReduceOnPlateau",
    "Schedule",
]

Array = np.ndarray


@dataclass(frozen=True)
class Blocks:
    """The parameter vector in blocks: where each begins (and the last ends), its ridge and its lasso."""

    starts: Array
    ridge: Array
    lasso: Array


class Optimizer(Declared):
    """What every optimizer is: memory of a size, and a step."""

    slots: ClassVar[int] = 0
    """Vectors of memory beside the parameters."""
    monotone: bool = False
    """Whether to stop when the objective fails to decrease."""

    def step(
        self, theta: Array, gradients: Array, memory: Array, blocks: Blocks, rate: float, scale: float, count: int
    ) -> None:
        """Update theta by the sum of the shards' gradients times `scale`; `count` is the number of this step."""
        raise NotImplementedError


def _descend(
    theta: Array, gradients: Array, memory: Array, blocks: Blocks, rate: float, scale: float, mu: float, nesterov: bool
) -> None:
    velocity = memory[0] if len(memory) else theta  # never read without momentum
    descend(theta, gradients, velocity, blocks.starts, blocks.ridge, blocks.lasso, rate, scale, mu, nesterov)


@dataclass(frozen=True)
class GradientDescent(Optimizer):
    """A constant step down the gradient, on the whole batch until the objective fails to decrease.

    | parameter | default | range       | meaning                                                            |
    |-----------|---------|-------------|--------------------------------------------------------------------|
    | monotone  | True    | True, False | stop when a step fails to decrease the objective, and take it back |

    >>> GradientDescent().monotone
    True
    """

    monotone: bool = True

    state: ClassVar[Specs] = {"monotone": boolean}

    def step(
        self, theta: Array, gradients: Array, memory: Array, blocks: Blocks, rate: float, scale: float, count: int
    ) -> None:
        """theta <- theta - rate g."""
        _descend(theta, gradients, memory, blocks, rate, scale, 0.0, False)


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    | parameter | default | range       | meaning                                             |
    |-----------|---------|-------------|-----------------------------------------------------|
    | momentum  | 0.9     | [0, 1)      | mu                                                  |
    | nesterov  | False   | True, False | look ahead: the step is g + mu v after v is renewed |

    >>> SGD(momentum=0.5).momentum
    0.5
    """

    momentum: float = 0.9
    nesterov: bool = False

    slots: ClassVar[int] = 1
    state: ClassVar[Specs] = {"momentum": real(0, 1, open_high=True), "nesterov": boolean}

    def step(
        self, theta: Array, gradients: Array, memory: Array, blocks: Blocks, rate: float, scale: float, count: int
    ) -> None:
        """v <- mu v + g; theta <- theta - rate v."""
        _descend(theta, gradients, memory, blocks, rate, scale, self.momentum, self.nesterov)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Steps divided by the root of each parameter's mean squared gradient.

    | parameter | default | range   | meaning                |
    |-----------|---------|---------|------------------------|
    | beta_1    | 0.9     | [0, 1)  | memory of the gradient |
    | beta_2    | 0.999   | [0, 1)  | memory of its square   |
    | epsilon   | 1e-8    | above 0 | added to the root      |

    >>> Adam(beta_1=0.8).beta_2
    0.999
    """

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8

    slots: ClassVar[int] = 2
    state: ClassVar[Specs] = {
        "beta_1": real(0, 1, open_high=True),
        "beta_2": real(0, 1, open_high=True),
        "epsilon": real(0, 1, open_low=True),
    }

    @property
    def decay(self) -> float:
        """How fast parameters shrink beside the gradient."""
        return 0.0

    def step(
        self, theta: Array, gradients: Array, memory: Array, blocks: Blocks, rate: float, scale: float, count: int
    ) -> None:
        """One pass over theta and both moments."""
        betas = (self.beta_1, self.beta_2)
        corrections = (1.0 - self.beta_1**count, 1.0 - self.beta_2**count)
        adam(
            theta,
            gradients,
            memory,
            blocks.starts,
            blocks.ridge,
            blocks.lasso,
            rate,
            scale,
            betas,
            self.epsilon,
            corrections,
            self.decay,
        )


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with weight decay that is not divided by the root of the squared gradients.

    | parameter    | default | range     | meaning                                        |
    |--------------|---------|-----------|------------------------------------------------|
    | beta_1       | 0.9     | [0, 1)    | memory of the gradient                         |
    | beta_2       | 0.999   | [0, 1)    | memory of its square                           |
    | epsilon      | 1e-8    | above 0   | added to the root                              |
    | weight_decay | 0.01    | from 0 on | theta shrinks by rate times this at every step |

    >>> AdamW(weight_decay=0.1).decay
    0.1
    """

    weight_decay: float = 0.01

    state: ClassVar[Specs] = {**Adam.state, "weight_decay": real(0)}

    @property
    def decay(self) -> float:
        """The weight decay."""
        return float(self.weight_decay)


class Schedule(Declared):
    """What every schedule is: a factor of the step size for each epoch."""

    def factor(self, epoch: int, epochs: int, losses: list[float]) -> float:
        """The factor for an epoch (from 0 on) of `epochs`, after these losses."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Schedule):
    """The same step size throughout.

    >>> Constant().factor(5, 10, [])
    1.0
    """

    def factor(self, epoch: int, epochs: int, losses: list[float]) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class Decay(Schedule):
    """1 / (1 + rate t): step sizes whose sum diverges and whose squares' sum does not.

    | parameter | default | range     | meaning  |
    |-----------|---------|-----------|----------|
    | rate      | 0.1     | from 0 on | how fast |

    Robbins, Monro (1951), Annals of Mathematical Statistics 22, 400-407.

    >>> Decay(1.0).factor(3, 10, [])
    0.25
    """

    rate: float = 0.1

    state: ClassVar[Specs] = {"rate": real(0)}

    def factor(self, epoch: int, epochs: int, losses: list[float]) -> float:
        """1 / (1 + rate t)."""
        return 1.0 / (1.0 + self.rate * epoch)


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from 1 down to `least` at the last epoch; with `partial_fit`, which knows no last one, it stays 1.

    | parameter | default | range  | meaning               |
    |-----------|---------|--------|-----------------------|
    | least     | 0.0     | [0, 1] | the factor at the end |

    >>> Cosine().factor(0, 11, []), round(Cosine().factor(5, 11, []), 6)
    (1.0, 0.5)
    """

    least: float = 0.0

    state: ClassVar[Specs] = {"least": real(0, 1)}

    def factor(self, epoch: int, epochs: int, losses: list[float]) -> float:
        """least + (1 - least) (1 + cos(pi t / T)) / 2."""
        share = epoch / max(1, epochs - 1)
        return float(self.least + (1.0 - self.least) * 0.5 * (1.0 + np.cos(np.pi * min(1.0, share))))


@dataclass(frozen=True)
class ReduceOnPlateau(Schedule):
    """A smaller step each time the loss (held-out where there is one) has not improved for some epochs.

    | parameter | default | range     | meaning                                  |
    |-----------|---------|-----------|------------------------------------------|
    | by        | 0.5     | (0, 1)    | what the step is multiplied by           |
    | patience  | 5       | from 1 on | epochs without an improvement            |
    | tol       | 1e-4    | from 0 on | what counts as one, relative to the loss |

    >>> ReduceOnPlateau(patience=2).factor(5, 10, [1.0, 0.5, 0.5, 0.5, 0.4])
    0.5
    """

    by: float = 0.5
    patience: int = 5
    tol: float = 1e-4

    state: ClassVar[Specs] = {
        "by": real(0, 1, open_low=True, open_high=True),
        "patience": integer(1),
        "tol": real(0),
    }

    def factor(self, epoch: int, epochs: int, losses: list[float]) -> float:
        """by, to the number of plateaus so far."""
        best, waited, cuts = np.inf, 0, 0
        for loss in losses:
            if loss < best - self.tol * abs(best if np.isfinite(best) else 0.0):
                best, waited = loss, 0
            else:
                waited += 1
            if waited >= self.patience:
                cuts, waited = cuts + 1, 0
        return float(self.by**cuts)


OPTIMIZERS: dict[str, Any] = {
    "adam": Adam(),
    "adamw": AdamW(),
    "sgd": SGD(),
    "gradient_descent": GradientDescent(),
}
"""Optimizers by name."""
SCHEDULES: dict[str, Any] = {
    "constant": Constant(),
    "decay": Decay(),
    "cosine": Cosine(),
    "plateau": ReduceOnPlateau(),
}
"""Schedules by name."""
