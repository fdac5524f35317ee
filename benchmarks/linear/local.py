"""Local regression beside statsmodels' lowess: same windows, same kernel, same values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.case import Case

__all__ = ["CASES"]

Data = tuple[np.ndarray, np.ndarray]


def wave(n: int) -> Data:
    """A sine wave with noise at random positions."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, n)
    return x, np.sin(x) + 0.3 * rng.normal(size=n)


def ours(data: Data, fraction: float) -> np.ndarray:
    from assay.linear import LocalRegression

    x, y = data
    return LocalRegression(kernel="tricube", fraction=fraction).fit(x[:, None], y).predict(x[:, None])


def statsmodels(data: Data, fraction: float) -> np.ndarray:
    from statsmodels.nonparametric.smoothers_lowess import lowess

    x, y = data
    return lowess(y, x, frac=fraction, it=0, delta=0.0, return_sorted=False)


def distance_to_definition(fraction: float) -> Callable[[np.ndarray, Data], float]:
    """The largest error over fifty rows, against weighted least squares written out."""

    def quality(fitted: np.ndarray, data: Data) -> float:
        from tests.naive.linear import kth_nearest_distance, local_smoother_row

        x, y = data
        k = int(fraction * len(x) + 1e-10)
        X, rows = x[:, None], np.linspace(0, len(x) - 1, 50).astype(int)
        true = [local_smoother_row(X, x[i], kth_nearest_distance(X, x[i], k), "tricube", 1) @ y for i in rows]
        return float(np.abs(fitted[rows] - true).max())

    return quality


def case(n: int, fraction: float, goal: float) -> Case:
    return Case(
        name=f"LocalRegression (tricube, fraction {fraction:g}) fit + predict, {n:,} points",
        data=partial(wave, n),
        ours=partial(ours, fraction=fraction),
        peers={"statsmodels lowess": partial(statsmodels, fraction=fraction)},
        quality=distance_to_definition(fraction),
        quality_name="largest error against the definition",
        goals={"statsmodels lowess": goal},
        slack=1e-8,
    )


CASES = [case(10_000, 0.3, 2.0), case(10_000, 0.05, 2.0)]
