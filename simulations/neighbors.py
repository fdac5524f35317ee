"""One nearest neighbour beside the best possible rule: the bound of Cover and Hart, and how it is reached."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats

from assay.neighbors import KNeighborsClassifier

__all__ = ["SIMULATIONS"]

FALSE_ALARM = 1e-6
TESTED = 200_000
RUNS = 4


def _logit(t: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-4.0 * t))


# P(class 1 | x) as a function of the first column, which is uniform on (-1, 1).
CHANCES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "certain: 0 or 1": lambda t: (t > 0).astype(float),
    "smooth: logistic": _logit,
    "half certain, half a coin": lambda t: np.where(t > 0, 0.5, 0.0),
    "constant .2 or .8": lambda t: np.where(t > 0, 0.8, 0.2),
    "a coin": lambda t: np.full(t.shape, 0.5),
}


def _risks(chance: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """The least possible error, and the limit 2 E[q(1 - q)] of a single neighbour, by fine averaging."""
    q = chance(np.linspace(-1, 1, 2_000_001)[1::2])
    return float(np.minimum(q, 1 - q).mean()), float((2 * q * (1 - q)).mean())


def limit_of_one_neighbour() -> pd.DataFrame:
    """With unlimited rows a single neighbour has the class probabilities of the query itself, so it errs with
    probability 2 E[q(1 - q)], q = P(class 1 | x), which lies between R* = E[min(q, 1 - q)], the error of the best
    possible rule, and 2 R*(1 - R*): never more than twice the best. The lower end is reached where q is 0, 1/2 or 1,
    the upper end where q is constant up to its side. Two columns, 100,000 training rows, 200,000 tested; "verdict"
    compares the measured error with the limit, false-alarm rate 1e-6 (twice the binomial variance: the training rows
    are drawn too; and .002 for queries near a jump of q, whose neighbour may stand across it).
    """
    rng = np.random.default_rng(0)
    rows = []
    for name, chance in CHANCES.items():
        best, limit = _risks(chance)
        X, Q = rng.uniform(-1, 1, (100_000, 2)), rng.uniform(-1, 1, (TESTED, 2))
        y, truth = (rng.random(len(Z)) < chance(Z[:, 0]) for Z in (X, Q))
        wrong = float(np.mean(KNeighborsClassifier(1).fit(X, y).predict(Q) != truth))
        reach = stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(2 * max(limit * (1 - limit), 1e-4) / TESTED)
        # Where q jumps, neighbours across the border cost a little that vanishes with the distance between rows.
        verdict = "as claimed" if abs(wrong - limit) <= reach + 2e-3 else "off"
        rows.append((name, best, limit, 2 * best * (1 - best), wrong, verdict))
    columns = ["P(class 1), given x", "R*", "limit of 1-NN", "2 R*(1 - R*)", "1-NN measured", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def error_against_rows_and_k() -> pd.DataFrame:
    """The smooth case with one to eight columns of which one matters: more rows bring k = 1 to its limit, never to R*;
    k growing with the rows (here by leave-one-out, at most 300) goes on to R*; columns that do not matter slow both
    down. Means of 4 training sets, each tested on the same 20,000 rows.
    """
    rng = np.random.default_rng(1)
    chance = CHANCES["smooth: logistic"]
    best, limit = _risks(chance)
    rows = []
    for p in (1, 2, 8):
        Q = rng.uniform(-1, 1, (20_000, p))
        truth = rng.random(len(Q)) < chance(Q[:, 0])
        for n in (100, 1_000, 10_000):
            single, chosen, sizes = [], [], []
            for _ in range(RUNS):
                X = rng.uniform(-1, 1, (n, p))
                y = rng.random(n) < chance(X[:, 0])
                single.append(np.mean(KNeighborsClassifier(1).fit(X, y).predict(Q) != truth))
                tried = np.unique(np.geomspace(1, min(n // 3, 300), 25).astype(int))
                model = KNeighborsClassifier("loo", candidates=tried).fit(X, y)
                chosen.append(np.mean(model.predict(Q) != truth))
                sizes.append(model.n_neighbors_)
            rows.append((p, n, best, limit, float(np.mean(single)), float(np.mean(chosen)), float(np.median(sizes))))
    columns = ["columns", "rows", "R*", "limit of 1-NN", "1-NN", "k by leave-one-out", "median k"]
    return pd.DataFrame(rows, columns=columns)


SIMULATIONS: dict[str, Callable[[], pd.DataFrame]] = {
    "The limit of one neighbour": limit_of_one_neighbour,
    "Error against rows and k": error_against_rows_and_k,
}
