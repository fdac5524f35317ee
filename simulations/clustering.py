"""How often `choose_k` claims several clusters where there is one cloud, and how often it sees those that are there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.datasets import load_iris

from assay.clustering import KChoice, choose_k
from assay.numerics.threads import parallel

__all__ = ["CLOUDS", "SIMULATIONS", "claims"]

Array = np.ndarray
Table = Callable[[np.random.Generator], Array]
TABLES = 200
FALSE_ALARM = 1e-3


def _normal(rng: np.random.Generator, n: int, p: int, rho: float) -> Array:
    """Normal columns, all pairs with one correlation."""
    return np.sqrt(1 - rho) * rng.standard_normal((n, p)) + np.sqrt(rho) * rng.standard_normal((n, 1))


def _mixed(rng: np.random.Generator) -> Array:
    z = _normal(rng, 150, 6, 0.5)
    return np.column_stack([z[:, 0], np.exp(z[:, 1]), 2.0 * (z[:, 2] > 0.3), rng.poisson(np.exp(z[:, 3])), z[:, 4] > 0])


def _dummies(rng: np.random.Generator) -> Array:
    z = _normal(rng, 200, 3, 0.4)
    return np.column_stack([z[:, :2], 1.5 * np.eye(3)[np.digitize(z[:, 2], [-0.5, 0.6])]])


CLOUDS: dict[str, Table] = {
    "normal, 100 x 2": lambda rng: _normal(rng, 100, 2, 0.0),
    "normal, correlation .9, 100 x 2": lambda rng: _normal(rng, 100, 2, 0.9),
    "normal, correlation .7, 150 x 5": lambda rng: _normal(rng, 150, 5, 0.7),
    "normal, more columns than rows, 40 x 60": lambda rng: _normal(rng, 40, 60, 0.2),
    "lognormal, correlation .6, 150 x 3": lambda rng: np.exp(_normal(rng, 150, 3, 0.6)),
    "gamma with a common factor, 300 x 4": lambda rng: rng.gamma(2, size=(300, 1)) + rng.gamma(1, size=(300, 4)),
    "independent exponential, 100 x 4": lambda rng: rng.exponential(size=(100, 4)),
    "independent t, 3 df, 150 x 3": lambda rng: rng.standard_t(3, (150, 3)),
    "multivariate t, 3 df, 300 x 6": lambda rng: _normal(rng, 300, 6, 0.4) / np.sqrt(rng.chisquare(3, (300, 1)) / 3),
    "uniform square, 100 x 2": lambda rng: rng.uniform(size=(100, 2)),
    "counts, 200 x 3": lambda rng: rng.poisson(np.exp(0.7 * _normal(rng, 200, 3, 0.5))).astype(float),
    "zeros and exponential amounts, 200 x 3": lambda rng: rng.exponential(size=(200, 3)) * (rng.random((200, 3)) < 0.6),
    "binary items, 200 x 6": lambda rng: (_normal(rng, 200, 6, 0.4) > 0).astype(float),
    "normal, lognormal, binary, counts: 150 x 5": _mixed,
    "two normal columns and three dummies, 200 x 5": _dummies,
}


def _curved(rng: np.random.Generator) -> Array:
    x = rng.standard_normal(100)
    return np.column_stack([x, x**2 + 0.5 * rng.standard_normal(100)])


def _funnel(rng: np.random.Generator) -> Array:
    x = rng.standard_normal(100)
    return np.column_stack([x, np.exp(x) * rng.standard_normal(100)])


OTHERS: dict[str, Table] = {"a parabola with noise, 100 x 2": _curved, "a funnel, 100 x 2": _funnel}


def _blobs(gap: float) -> Table:
    centres = gap * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.866]])
    return lambda rng: rng.standard_normal((120, 2)) + centres[np.arange(120) % 3]


def _faithful(rng: np.random.Generator) -> Array:
    """Two kinds of eruptions, like those of Old Faithful, in standard units."""
    short = rng.random(272) < 0.36
    length = np.where(short, rng.normal(2.04, 0.26, 272), rng.normal(4.29, 0.41, 272))
    wait = np.where(short, rng.normal(54.5, 5.8, 272), rng.normal(80.0, 6.0, 272))
    return np.column_stack([length / 1.14, wait / 13.6])


def _iris(rng: np.random.Generator) -> Array:
    return np.asarray(load_iris().data)[rng.integers(0, 150, 150)] + rng.normal(0, 0.03, (150, 4))


def _classes(rng: np.random.Generator) -> Array:
    """Two latent classes of binary answers."""
    chance = np.where(np.arange(200)[:, None] % 2, 0.85, 0.15)
    return (rng.random((200, 8)) < chance).astype(float)


CLUSTERS: dict[str, tuple[int, Table]] = {
    "three normal clusters, 3 sd apart, 120 x 2": (3, _blobs(3.0)),
    "three normal clusters, 4 sd apart": (3, _blobs(4.0)),
    "three normal clusters, 5 sd apart": (3, _blobs(5.0)),
    "three normal clusters, 7 sd apart": (3, _blobs(7.0)),
    "like Old Faithful, 272 x 2": (2, _faithful),
    "five normal clusters in 10 columns, 200 rows": (
        5, lambda rng: rng.standard_normal((200, 10)) + 2 * rng.standard_normal((5, 10))[np.arange(200) % 5],
    ),
    "two classes of eight binary answers, 200 rows": (2, _classes),
    "iris, rows drawn again and blurred, 150 x 4": (3, _iris),
}  # fmt: skip


def claims(table: Table, count: int, seed: int) -> list[KChoice]:
    """What is said of so many tables of one kind."""
    return parallel(
        lambda i: choose_k(
            table(np.random.default_rng((seed, i))), 5, n_bootstrap=19, n_references=5, n_resamples=3, n_init=1,
            random_state=i,
        ),
        range(count), n_jobs=-1,
    )  # fmt: skip


def _gap_alone(found: KChoice) -> bool:
    """Whether the gap statistic by itself would claim several clusters."""
    return bool(found.gap[0] < found.gap[1] - found.gap_error[1])


def false_claims() -> pd.DataFrame:
    """One cloud each, 200 tables of every kind, level .05, 19 clouds drawn: the share of tables of which `choose_k`
    claims more than one cluster, the share in which the gap statistic alone would, and the mean agreement of
    halves at k = 2 (high for long clouds: stability is no evidence). "verdict": at most .05, false-alarm rate 1e-3.
    """
    rows = []
    for seed, (name, table) in enumerate(CLOUDS.items()):
        found = claims(table, TABLES, seed)
        several = sum(one.several for one in found)
        limit = stats.binom.isf(FALSE_ALARM, TABLES, 0.05)
        alone = float(np.mean([_gap_alone(one) for one in found]))
        halves = float(np.mean([one.agreement[1] for one in found]))
        rows.append((name, several / TABLES, alone, halves, "as claimed" if several <= limit else "off"))
    columns = ["one cloud", "claims of several", "claims by gap alone", "agreement of halves, k = 2", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def other_clouds() -> pd.DataFrame:
    """Single clouds that no column and no correlation describes, 100 of every kind: the share of tables of which
    `choose_k` claims more than one cluster at the level .05. The null has no such cloud, so that no level is promised.
    """
    rows = [
        (name, float(np.mean([one.several for one in claims(table, TABLES // 2, 2000 + seed)])))
        for seed, (name, table) in enumerate(OTHERS.items())
    ]
    return pd.DataFrame(rows, columns=["one cloud", "claims of several"])


def power() -> pd.DataFrame:
    """Tables with clusters, 100 of every kind: the share in which one cloud is refused, and in which the number of
    clusters is right, by the gap statistic among k = 2 .. 5 once one cloud is refused.
    """
    rows = []
    for seed, (name, (k, table)) in enumerate(CLUSTERS.items()):
        found = claims(table, TABLES // 2, 1000 + seed)
        right = float(np.mean([one.chosen == k for one in found]))
        rows.append((name, float(np.mean([one.several for one in found])), right))
    return pd.DataFrame(rows, columns=["clusters", "one cloud refused", "number right"])


SIMULATIONS: dict[str, Callable[[], pd.DataFrame]] = {
    "One cloud taken for several": false_claims,
    "Clouds that are not among those of the null": other_clouds,
    "Clusters that are there": power,
}
