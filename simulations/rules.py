"""What each rule of selection costs: the expected loss of the learner it takes, above that of the best there is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from assay.evaluation.select import Panel, about_as_good, choose
from assay.metrics import get_metric

__all__ = ["SIMULATIONS"]

RUNS, FOLDS = 1_000, 10
Array = np.ndarray


@dataclass(frozen=True)
class Learner:
    """A learner by its errors beside the noise of the rows: `size` at n = 300, falling as n^-shrink; `jump` is how
    much its size varies between training sets (the standard deviation of its logarithm).
    """

    name: str
    readable: bool
    size: float
    shrink: float = 0.25
    jump: float = 0.0

    def sizes(self, n: int) -> float:
        """The root mean squared error beside the noise, at n rows."""
        return self.size * (300 / n) ** self.shrink

    def risk(self, n: int) -> float:
        """The expected squared error, noise of variance 1 included."""
        return 1.0 + self.sizes(n) ** 2 * float(np.exp(2 * self.jump**2))


FLEXIBLE = (Learner("forest", False, 0.50), Learner("boosting", False, 0.52), Learner("support vectors", False, 0.55))
DESIGNS = {
    "a line is the truth": (Learner("line", True, 0.20, 0.5), Learner("tree", True, 0.80), *FLEXIBLE),
    "a line is as good": (Learner("line", True, 0.50), Learner("tree", True, 0.80), *FLEXIBLE),
    "a line is a little worse": (Learner("line", True, 0.60, 0.1), Learner("tree", True, 0.80), *FLEXIBLE),
    "a line is much worse": (Learner("line", True, 0.95, 0.02), Learner("tree", True, 1.0), *FLEXIBLE),
    "the readable one is unstable": (Learner("tree", True, 0.60, 0.25, jump=0.5), *FLEXIBLE),
    "an unreadable one is unstable": (
        Learner("line", True, 0.60, 0.1),
        Learner("network", False, 0.55, 0.25, jump=0.5),
        *FLEXIBLE,
    ),
}


def _fold_means(learners: tuple[Learner, ...], n: int, rng: np.random.Generator) -> Array:
    """Mean squared errors of each learner on each fold; the noise of a row is the same for all."""
    m = n // FOLDS
    noise = rng.standard_normal((FOLDS, m))
    found = []
    for one in learners:
        size = one.sizes(n) * np.exp(one.jump * rng.standard_normal((FOLDS, 1)))
        found.append(((noise + size * rng.standard_normal((FOLDS, m))) ** 2).mean(axis=1))
    return np.array(found)


def _picks(learners: tuple[Learner, ...], means: Array) -> dict[str, int]:
    """The place of the learner that each rule takes."""
    names = tuple(one.name for one in learners)
    panel = Panel(names, means, np.ones(FOLDS), False, 1 / FOLDS + 1 / (FOLDS - 1), get_metric("mse"), "10 folds")
    order = np.array([1 if one.readable else 2 for one in learners])
    best, one_se = (choose(panel, order, rule) for rule in ("best", "one_se"))
    table = one_se.table
    readable = [one.name for one in learners if one.readable]
    name = str(table.loc[readable, "difference"].idxmin())
    taken = name if about_as_good(table, name, best.name) else best.name
    return {"best": names.index(best.name), "readable": names.index(taken), "one SE": names.index(one_se.name)}


def expected_loss() -> pd.DataFrame:
    """1,000 panels of learners with known risks in ten folds, squared errors with noise of variance 1: by how many
    percent the expected loss of the learner that a rule takes is above that of the best learner of the panel (with a
    standard error), and how often it takes a readable one. "best" is the default, "readable" takes the best readable
    learner if its difference is at most the standard errors of the difference and of the best's own figure, "one SE"
    the first readable one within the standard error of the difference alone. With an unstable readable learner "one SE"
    takes it because its differences vary; the second limit of "readable" is there to prevent that.
    """
    rows = []
    for title, learners in DESIGNS.items():
        for n in (100, 300, 1_000):
            rng = np.random.default_rng([n, len(title)])
            risks = np.array([one.risk(n) for one in learners])
            over = 100 * (risks / risks.min() - 1)
            found = [_picks(learners, _fold_means(learners, n, rng)) for _ in range(RUNS)]
            row: list[object] = [title, n]
            for rule in ("best", "readable", "one SE"):
                taken = np.array([one[rule] for one in found])
                cost = over[taken]
                share = np.mean([learners[at].readable for at in taken])
                row += [f"{cost.mean():.2f} ({cost.std() / np.sqrt(RUNS):.2f})", f"{100 * share:.0f}%"]
            rows.append(row)
    heads = [
        f"{rule}: {what}" for rule in ("best", "readable", "one SE") for what in ("loss above the best, %", "readable")
    ]
    return pd.DataFrame(rows, columns=["design", "n", *heads])


SIMULATIONS = {"Expected loss of the rules": expected_loss}
