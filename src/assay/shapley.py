"""How a model hands over its own Shapley values: the question, the answer, and the hook `__shapley__`.

The values are interventional: with a background of m rows, v(S) is the mean prediction when the columns of S come from
the row that is explained and all others from a background row,

    v(S) = (1/m) sum_z f(x_S, z_-S),     phi_j = sum over S without j of  |S|! (p - |S| - 1)! / p!  (v(S + j) - v(S))

The players are columns of the table as it was read. An encoded column belongs to the player it was made from, so a
category of twenty levels is one player, and its missing indicator belongs to it as well.

A model that knows its values in closed form has a method `__shapley__(task)` that returns a `ShapleyPart`, or None if
it has none on the scale asked for; a model around others passes the task on by `task.explain(model)`. Everything else
is left to `evaluation.shapley_values`, which samples.

Shapley (1953), Contributions to the Theory of Games II; Lundberg et al. (2020), Nature Machine Intelligence 2, 56-67;
Janzing, Minorics & Bloebaum (2020), AISTATS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = [
    "LOG_ODDS",
    "LOG_PREDICTION",
    "PREDICTION",
    "PROBABILITY",
    "SCORE",
    "ShapleyPart",
    "ShapleyTask",
    "weighted_sum",
]

Array = np.ndarray
PREDICTION, LOG_PREDICTION, LOG_ODDS, SCORE, PROBABILITY = (
    "prediction",
    "log prediction",
    "log-odds",
    "score",
    "probability",
)
"""The scales on which values add up."""


@dataclass(frozen=True, eq=False)
class ShapleyPart:
    """Values of some rows: they add up to `prediction - base`, with two classes those of the second one.

    | field      | shape                   | meaning                                                        |
    |------------|-------------------------|----------------------------------------------------------------|
    | values     | rows, players, outputs  | what each column adds                                          |
    | base       | outputs                 | the mean prediction of the background                          |
    | prediction | rows, outputs           | the prediction on the same scale                               |
    | scale      |                         | one of the scales above                                        |
    | variance   | as `values`, or None    | of the Monte-Carlo error; None: exact                          |
    """

    values: Array
    base: Array
    prediction: Array
    scale: str
    variance: Array | None = None

    def affine(self, slope: float, intercept: float) -> ShapleyPart:
        """The values of slope * f + intercept."""
        return replace(
            self,
            values=slope * self.values,
            base=slope * self.base + intercept,
            prediction=slope * self.prediction + intercept,
            variance=None if self.variance is None else slope**2 * self.variance,
        )


@dataclass(frozen=True, eq=False)
class ShapleyTask:
    """What is asked for.

    | field         | meaning                                                                                         |
    |---------------|-------------------------------------------------------------------------------------------------|
    | X, background | the rows to explain, and those that stand for "not known"                                       |
    | players       | for each column of X the player it belongs to                                                   |
    | n_players     | how many players there are                                                                      |
    | response      | True: on the scale of predictions and probabilities; False: on the margin where there is one    |
    | entropy       | seeds of what is sampled                                                                        |
    | permutations  | antithetic pairs of permutations per background row                                             |
    | explainer     | the function that explains any model                                                            |
    """

    X: Any
    background: Any
    players: Array
    n_players: int
    response: bool
    entropy: tuple[int, ...]
    permutations: int
    explainer: Callable[[Any, ShapleyTask], ShapleyPart]

    def explain(self, model: Any) -> ShapleyPart:
        """The values of a model that takes the same table."""
        return self.explainer(model, self)

    def member(self, k: int) -> ShapleyTask:
        """The same question to the k-th of several models that are added, with random numbers of its own."""
        return replace(self, response=True, entropy=(*self.entropy, k))


def weighted_sum(parts: Sequence[ShapleyPart], weights: Sequence[float]) -> ShapleyPart:
    """The values of sum_m w_m f_m: Shapley values are linear in the model. Errors are those of independent samples."""
    scaled = [part.affine(float(weight), 0.0) for part, weight in zip(parts, weights, strict=True)]
    sampled = [part.variance for part in scaled if part.variance is not None]
    return ShapleyPart(
        np.sum([part.values for part in scaled], axis=0),
        np.sum([part.base for part in scaled], axis=0),
        np.sum([part.prediction for part in scaled], axis=0),
        parts[0].scale,
        np.sum(sampled, axis=0) if sampled else None,
    )
