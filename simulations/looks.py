"""Looks at one test set: planned ones keep their level, and the Ladder holds off those who come back wiser."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats

from assay.experiment.test_set.ladder import Ladder
from assay.experiment.test_set.looks import plan_level
from assay.inference import proportion_interval

__all__ = ["SIMULATIONS"]

FALSE_ALARM = 1e-6
LEVEL = 0.95
Array = np.ndarray


def planned_looks() -> pd.DataFrame:
    """K models fixed beforehand are scored on the same n test rows, each with an exact interval for its accuracy: the
    share of 4,000 test sets in which all K intervals hold. With the level shared it stays at .95 or above, whether the
    models err together (rows are hard for all of them: correlation .8) or apart; at the full level each, it does not.
    "short": fewer than .95 allows, false alarm one in a million.
    """
    rng = np.random.default_rng(0)
    runs, rows = 4_000, []
    for n in (100, 1_000):
        for shared in (0.0, 0.8):
            for looks in (1, 2, 5, 20):
                accuracy = np.linspace(0.6, 0.9, looks)
                right = _correct(rng, runs, n, accuracy, shared)
                held = {}
                for words, level in (("shared", plan_level(LEVEL, looks)), ("full", LEVEL)):
                    table = proportion_interval(np.arange(n + 1), n, level=level, method="exact")
                    inside = (table.lower[right] <= accuracy) & (accuracy <= table.upper[right])
                    held[words] = int(np.sum(inside.all(axis=1)))
                least = stats.binom.ppf(FALSE_ALARM, runs, LEVEL)
                verdict = "short" if held["shared"] < least else "as claimed"
                words = "together" if shared else "apart"
                rows.append((looks, n, words, held["shared"] / runs, held["full"] / runs, verdict))
    columns = ["looks", "n", "models err", "all hold, level shared", "all hold, full level each", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def _correct(rng: np.random.Generator, runs: int, n: int, accuracy: Array, shared: float) -> Array:
    """How many of n rows each model gets right; the rows' difficulty is `shared` between the models."""
    counts = np.empty((runs, accuracy.size), dtype=int)
    limits = stats.norm.ppf(accuracy)
    for run in range(runs):
        common = rng.standard_normal((n, 1))
        own = rng.standard_normal((n, accuracy.size))
        counts[run] = np.sum(np.sqrt(shared) * common + np.sqrt(1 - shared) * own < limits, axis=0)
    return counts


class Plain:
    """Every question is answered with the exact mean loss."""

    def __init__(self) -> None:
        self.best = np.inf

    def ask(self, losses: Array) -> tuple[float, bool]:
        """The answer, and whether it is the best so far."""
        value = float(losses.mean())
        better, self.best = value < self.best, min(value, self.best)
        return value, better


class Guarded:
    """Questions are answered by the Ladder."""

    def __init__(self, step: float | str) -> None:
        self.ladder = Ladder(step)

    def ask(self, losses: Array) -> tuple[float, bool]:
        """The answer, and whether it is the best so far."""
        told = self.ladder.release(losses)
        return told.value, told.improved


def boosting(rng: np.random.Generator, labels: Array, looks: int, oracle: Plain | Guarded) -> float:
    """Blum and Hardt's attack: random votes, those answered with less than 1/2 outvote each other at the last look."""
    kept = []
    for _ in range(looks - 1):
        vote = rng.integers(0, 2, labels.size)
        value, better = oracle.ask(vote != labels)
        # The Ladder repeats its best answer, so there only a new best says something about this vote.
        if better if isinstance(oracle, Guarded) else value < 0.5:
            kept.append(vote)
    final = (np.mean(kept, axis=0) > 0.5).astype(int) if kept else rng.integers(0, 2, labels.size)
    return 1 - oracle.ask(final != labels)[0]


def climbing(flips: int) -> Callable[[np.random.Generator, Array, int, Plain | Guarded], float]:
    """An attack that changes `flips` random labels of its best submission and keeps what is answered as better."""

    def attack(rng: np.random.Generator, labels: Array, looks: int, oracle: Plain | Guarded) -> float:
        best = rng.integers(0, 2, labels.size)
        answer, _ = oracle.ask(best != labels)
        for _ in range(looks - 1):
            trial = best.copy()
            trial[rng.choice(labels.size, flips, replace=False)] ^= 1
            value, better = oracle.ask(trial != labels)
            if better:
                best, answer = trial, value
        return 1 - answer

    return attack


def adaptive_looks() -> pd.DataFrame:
    """Labels are coin tosses, so every model's accuracy is .5; an attacker may ask 100 or 400 times and is
    told the score each time. The accuracy he can show in the end, mean over 60 test sets (20 for 400 looks), with plain
    answers, with the Ladder by Blum and Hardt's step (standard error of the difference), and with ours (not below the
    standard error of the loss). Ours lets through little more than the luck of the best of as many honest models (its
    median beside it), and longer asking gains little; plain answers let through far more, and Blum and Hardt's
    step can be climbed by changing a few labels at a time.
    """
    rng = np.random.default_rng(1)
    rows = []
    oracles: dict[str, Callable[[], Plain | Guarded]] = {
        "plain": Plain,
        "difference": lambda: Guarded("difference"),
        "auto": lambda: Guarded("auto"),
    }
    for n in (250, 1_000, 4_000):
        for looks in (100, 400):
            luck = stats.binom.ppf(0.5 ** (1 / looks), n, 0.5) / n
            attacks = {"boosting": boosting} | {
                f"climbing, {flips} labels": climbing(flips) for flips in (2, n // 50, n // 4)
            }
            for name, attack in attacks.items() if looks == 100 or n < 4_000 else ():
                runs = 60 if looks == 100 else 20
                shown = [
                    [attack(rng, rng.integers(0, 2, n), looks, make()) for _ in range(runs)]
                    for make in oracles.values()
                ]
                error = float(np.std(shown, axis=1, ddof=1).max() / np.sqrt(runs))
                rows.append((n, looks, name, *np.mean(shown, axis=1), error, float(luck)))
    columns = ["n", "looks", "attack", "plain answers", "Ladder, difference", "Ladder, auto", "standard error, at most"]
    columns.append("best of honest ones")
    return pd.DataFrame(rows, columns=columns)


SIMULATIONS = {
    "Planned looks share the level": planned_looks,
    "An adaptive attacker": adaptive_looks,
}
