"""How often stopping learners that cannot win drops the one that would have won, and how much work it saves."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from assay.evaluation.stopping import FIRST, settle

__all__ = ["SIMULATIONS"]

RUNS, LEARNERS, FOLDS = 2_000, 8, 10
FALSE_ALARM = 1e-6
Array = np.ndarray


def _squared(rng: np.random.Generator, n: int, size: Array, inflate: Array | None = None) -> Array:
    """Squared errors of learners that share a row's noise and add errors of their own, larger in some folds."""
    own = rng.standard_normal((size.size, n)) * size[:, None]
    if inflate is not None:
        own *= inflate[:, _folds(n)]
    return (rng.standard_normal(n) + own) ** 2


def _folds(n: int) -> Array:
    return np.repeat(np.arange(FOLDS), n // FOLDS)


def _unstable(rng: np.random.Generator, n: int) -> Array:
    """The first learner is the best, but four times as far off in a fold of seven."""
    inflate = np.ones((LEARNERS, FOLDS))
    inflate[0, rng.random(FOLDS) < 0.15] = 4.0
    return _squared(rng, n, np.array([0.3, *[0.55] * (LEARNERS - 1)]), inflate)


def _rare(rng: np.random.Generator, n: int) -> Array:
    """The first learner is a little worse on most rows and much better on 3% of them."""
    found = rng.standard_normal(n) + 0.5 * rng.standard_normal((LEARNERS, n)) + np.where(rng.random(n) < 0.03, 4.0, 0.0)
    found[0] = rng.standard_normal(n) + 0.75 * rng.standard_normal(n)
    return found**2


def _wrong(rng: np.random.Generator, n: int) -> Array:
    """Right or wrong, with error rates from 15 to 25%; hard rows are hard for all."""
    hard = 0.7 * rng.random(n) + 0.3 * rng.random((LEARNERS, n))
    return (hard < np.linspace(0.15, 0.25, LEARNERS)[:, None]).astype(float)


DESIGNS = {
    "equal learners": lambda rng, n: _squared(rng, n, np.full(LEARNERS, 0.5)),
    "close seconds": lambda rng, n: _squared(rng, n, np.array([0.5, 0.52, 0.54, *[0.9] * (LEARNERS - 3)])),
    "each a quarter worse": lambda rng, n: _squared(rng, n, 0.3 * 1.25 ** np.arange(LEARNERS)),
    "the best is unstable": _unstable,
    "all are unstable": lambda rng, n: _squared(
        rng, n, np.full(LEARNERS, 0.5), np.exp(0.6 * rng.standard_normal((LEARNERS, FOLDS)))
    ),
    "heavy tails of the rows": lambda rng, n: (rng.standard_t(2, n) + 0.5 * rng.standard_normal((LEARNERS, n))) ** 2,
    "heavy tails of the learners": lambda rng, n: (
        (rng.standard_normal(n) + 0.5 * rng.standard_t(2, (LEARNERS, n))) ** 2
    ),
    "better on rare rows": _rare,
    "right or wrong": _wrong,
}


def _run(losses: Array) -> tuple[bool, int]:
    """Whether the winner of all folds was stopped, and how many learners were."""
    fold = _folds(losses.shape[1])
    whole = {str(j): [row[fold == k] for k in range(FOLDS)] for j, row in enumerate(losses)}
    done = {name: parts[:FIRST] for name, parts in whole.items()}
    while True:
        stopped, needed = settle(done, FOLDS)
        if not needed:
            return str(int(losses.mean(axis=1).argmin())) in stopped, len(stopped)
        done |= {name: whole[name] for name in needed}


def dropped_winners() -> pd.DataFrame:
    """2,000 panels of eight learners in ten folds, by their row losses: how often the learner with the least mean over
    all folds was stopped after the first three (at most 1%: "more" where the count says otherwise, false alarm one in
    a million), and the share of folds that were not run.
    """
    rows = []
    for title, make in DESIGNS.items():
        for n in (100, 300, 1_000):
            rng = np.random.default_rng([n, len(title)])
            found = [_run(make(rng, n)) for _ in range(RUNS)]
            lost = sum(one[0] for one in found)
            saved = np.mean([one[1] for one in found]) / LEARNERS * (1 - FIRST / FOLDS)
            verdict = "more" if lost > stats.binom.isf(FALSE_ALARM, RUNS, 0.01) else "as claimed"
            high = stats.binomtest(lost, RUNS).proportion_ci(0.95, "exact").high
            rows.append((title, n, lost / RUNS, float(high), float(saved), verdict))
    return pd.DataFrame(rows, columns=["design", "n", "winner stopped", "at most (97.5%)", "folds saved", "verdict"])


SIMULATIONS = {"The winner that was stopped": dropped_winners}
