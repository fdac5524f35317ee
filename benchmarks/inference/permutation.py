"""A permutation test of a mean difference beside scipy: 10,000 resamples."""

from __future__ import annotations

import numpy as np
from scipy import stats

from assay.inference import permutation_test
from benchmarks.case import Case

__all__ = ["CASES"]

B = 10_000


def two_samples(n: int):
    rng = np.random.default_rng(0)
    return rng.normal(2.5 / np.sqrt(n), 1.0, n), rng.normal(0.0, 1.0, n)


def difference(x, y, axis=-1):
    return x.mean(axis=axis) - y.mean(axis=axis)


def scipys(data):
    return stats.permutation_test(data, difference, n_resamples=B, vectorized=True, batch=1_000, rng=0).pvalue


def distance(p, data) -> float:
    """Against the t-test, which the permutation test of normal data follows closely."""
    return abs(float(p) - float(stats.ttest_ind(*data).pvalue))


def case(n: int, goal: float) -> Case:
    return Case(
        name=f"permutation test of a mean difference, {n} + {n} rows, B = {B:,}",
        data=lambda: two_samples(n),
        ours=lambda data: permutation_test(*data, n_resamples=B, random_state=0).p_value,
        peers={"scipy.stats.permutation_test": scipys},
        quality=distance,
        quality_name="distance of p from the t-test's",
        goals={"scipy.stats.permutation_test": goal},
        slack=0.01,
        repeats=3,
    )


CASES: list[Case] = [case(100, 3.0), case(1_000, 3.0)]
