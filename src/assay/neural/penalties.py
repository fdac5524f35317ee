"""Penalties on parameters: ridge and lasso, on weights or on everything, beside a mean or a sum of losses.

    scale="mean"   mean_i loss_i + ridge sum theta^2 + lasso sum |theta|
    scale="sum"    sum_i  loss_i + ridge sum theta^2 + lasso sum |theta|      (the form of the lecture notes)

Networks minimise mean losses, so the second form is the first with both numbers divided by the number of rows (by the
sum of their weights). The ridge is part of the gradient. The lasso has no gradient at zero; after each step the
parameters are moved by its proximal map, theta <- sign(theta) max(|theta| - step lasso, 0), which leaves exact zeros.

Parikh, Boyd (2014), Proximal Algorithms, section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from assay.constraints import one_of, real
from assay.neural._declared import Declared
from assay.state import Specs

__all__ = ["Penalty"]


@dataclass(frozen=True)
class Penalty(Declared):
    """ridge sum theta^2 + lasso sum |theta|.

    | parameter | default   | range            | meaning                                                     |
    |-----------|-----------|------------------|-------------------------------------------------------------|
    | ridge     | 0.0       | from 0 on        | strength of the squares                                     |
    | lasso     | 0.0       | from 0 on        | strength of the absolute values                             |
    | on        | "weights" | "weights", "all" | weights and filters, or also biases and scales              |
    | scale     | "mean"    | "mean", "sum"    | whether it is added to the mean or to the sum of the losses |

    >>> Penalty(ridge=2.0, scale="sum").strengths("weights", 100.0), Penalty(lasso=1.0).strengths("bias", 100.0)
    ((0.02, 0.0), (0.0, 0.0))
    """

    ridge: float = 0.0
    lasso: float = 0.0
    on: str = "weights"
    scale: str = "mean"

    state: ClassVar[Specs] = {
        "ridge": real(0),
        "lasso": real(0),
        "on": one_of("weights", "all"),
        "scale": one_of("mean", "sum"),
    }

    def strengths(self, kind: str, rows: float) -> tuple[float, float]:
        """Ridge and lasso for a parameter of this kind, beside the mean loss of rows with this sum of weights."""
        if kind != "weights" and self.on == "weights":
            return 0.0, 0.0
        unit = 1.0 if self.scale == "mean" else 1.0 / rows
        return self.ridge * unit, self.lasso * unit
