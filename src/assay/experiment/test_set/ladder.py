"""The Ladder: answers about one test set that an adaptive questioner can hardly climb.

Submission t has losses l_t(i) on the n test rows and mean R_t. With the losses of the best submission so far, l_best,
and its released mean r_best (none so far: zero losses, r_best infinite),

    step "difference"  sd(l_t - l_best) / sqrt(n)
    step "auto"        max(sd(l_t - l_best), sd(l_t)) / sqrt(n)           both at least 1/n of the largest loss
    release            R_t rounded to a multiple of the step, if R_t < r_best - step;  r_best again otherwise.

Whoever asks learns only of improvements larger than chance, and no digit finer than the step. With a fixed step of
about (log(k n) / n)^(1/3), the best released mean errs by no more than the order of that after k adaptive questions,
for losses in [0, 1]; plain answers can be made to err by about sqrt(k / n) / 2. "difference" is Blum and Hardt's rule
without a parameter. A small change of the best submission makes its step small too, so that it can be climbed a few
labels at a time, for ever; "auto" also asks for a standard error of the loss itself, which stops that
(docs/simulations/looks.md). Steps scale with the losses, so they may have any unit.

Cost: O(n) per answer.
Blum & Hardt (2015), Proceedings of ICML 37, 1006-1014: algorithm 3 ("difference") and 1 (a fixed step). There the
answer of algorithm 3 is rounded to 1/n; here to the step, which tells less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import choice, number, sample
from assay.errors import DataError
from assay.numbers import fmt
from assay.results import Result

__all__ = ["Ladder", "Release", "checked_losses", "ladder_release", "ladder_step"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Release(Result):
    """What may be said about a submission: `value` is the best mean loss so far, as far as the Ladder tells.

    `improved` says whether this submission is the best; `step` is how finely the value is told (0: exactly, a planned
    look) and how much better than the best a submission must be. The value estimates `estimand` on `n` rows; its error
    is bounded for all answers together, not by an interval at a level.
    """

    value: float
    improved: bool
    step: float
    n: int
    loss: str = "loss"
    method: str = "Ladder"

    @property
    def estimand(self) -> str:
        """What the value estimates."""
        return f"mean {self.loss} of the best submission so far"

    def to_frame(self) -> pd.DataFrame:
        """One row: value, improved, step, n."""
        row = {"value": self.value, "improved": self.improved, "step": self.step, "n": self.n, "method": self.method}
        return pd.DataFrame([row], index=[self.estimand])

    def __str__(self) -> str:
        if self.step == 0:
            return f"mean {self.loss} {fmt(self.value, 6)} (exact, a planned look, n = {self.n})"
        new = "a new best" if self.improved else "no better than the best so far, by more than the step"
        return f"{self.estimand} {fmt(self.value)}: {new} ({self.method}, step {fmt(self.step, 2)}, n = {self.n})"


def ladder_release(
    losses: Any,
    best_losses: Any = None,
    best_value: float | None = None,
    *,
    step: float | str = "auto",
    loss: str = "loss",
) -> Release:
    """What the Ladder says about one submission, given the best one so far.

    | parameter   | default | range                          | meaning                                                |
    |-------------|---------|--------------------------------|--------------------------------------------------------|
    | losses      |         | n finite numbers               | the submission's loss on each test row, small is good  |
    | best_losses | None    | n finite numbers               | those of the best so far; None: there is none          |
    | best_value  | None    | finite                         | what was released about it; None: its mean             |
    | step        | "auto"  | "auto", "difference", positive | the rule for the step (above), or a fixed one          |
    | loss        | "loss"  | text                           | its name, for the printed answer                       |

    Blum & Hardt (2015), Proceedings of ICML 37, 1006-1014.

    >>> first = ladder_release([1, 0, 0, 1, 0, 0, 0, 0])
    >>> print(first)
    mean loss of the best submission so far 0.3273: a new best (Ladder, step 0.16, n = 8)
    >>> ladder_release([1, 0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 1, 0, 0, 0, 0], first.value).improved
    False
    """
    mine = checked_losses(losses, "losses")
    n = mine.size
    best = np.zeros(n) if best_losses is None else checked_losses(best_losses, "best_losses")
    if best.size != n:
        raise DataError(f"expected {best.size} losses, as for the best submission, got {n}", remedy="use the same rows")
    known = None if best_losses is None else float(best.mean()) if best_value is None else float(best_value)
    wide = ladder_step(mine, best, step)
    mean = float(mine.mean())
    # An improvement of exactly one step, up to rounding, is not more than a step.
    if known is not None and not known - mean > wide * (1 + 1e-9):
        return Release(known, False, wide, n, loss)
    return Release(round(mean / wide) * wide, True, wide, n, loss)


def ladder_step(losses: Array, best: Array, step: float | str = "auto") -> float:
    """How much better than `best` a submission must be, and how finely its mean is told.

    >>> ladder_step(np.array([0.0, 1, 0, 1]), np.array([0.0, 1, 0, 1]), "difference")
    0.25
    """
    if not isinstance(step, str):
        return number(step, "step", 0, strict=True)
    choice(step, "step", ("auto", "difference"))
    n = losses.size
    spread = 0.0
    if n > 1:
        spread = float(np.std(losses - best, ddof=1))
        if step == "auto":
            spread = max(spread, float(np.std(losses, ddof=1)))
    scale = float(max(np.abs(losses).max(), np.abs(best).max()))
    # Losses that are zero throughout still need a width to round to.
    return max(spread / np.sqrt(n), scale / n) or 1.0 / n


class Ladder:
    """The Ladder over a series of submissions to the same rows, in memory.

    | parameter | default | range                          | meaning                                       |
    |-----------|---------|--------------------------------|-----------------------------------------------|
    | step      | "auto"  | "auto", "difference", positive | the rule for the step (above), or a fixed one |
    | loss      | "loss"  | text                           | its name, for the printed answers             |

    >>> ladder = Ladder(step=0.1)
    >>> [round(ladder.release(x).value, 3) for x in ([0, 1, 1, 1, 0], [0, 1, 0, 1, 0], [1, 0, 1, 0, 0])]
    [0.6, 0.4, 0.4]
    """

    def __init__(self, step: float | str = "auto", *, loss: str = "loss") -> None:
        self.step = step
        self.loss = loss
        self._best: Array | None = None
        self._value: float | None = None

    def release(self, losses: Any) -> Release:
        """What may be said about a submission with these `losses`, which becomes the best if it is better."""
        answer = ladder_release(losses, self._best, self._value, step=self.step, loss=self.loss)
        if answer.improved:
            self._best, self._value = checked_losses(losses, "losses"), answer.value
        return answer


def checked_losses(losses: Any, name: str) -> Array:
    """One finite number per row, as an array of its own."""
    values, names = sample(losses, name)
    if names and len(names) > 1:
        raise DataError(f"{name} has {len(names)} columns", remedy="pass one loss per row")
    return values[:, 0].copy()
