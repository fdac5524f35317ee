"""BCa intervals of a mean, a median and a correlation beside scipy: n = 10,000, 9,999 resamples."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import stats

from assay.inference import bootstrap
from benchmarks.case import Case

__all__ = ["CASES"]

N, B = 10_000, 9_999
BATCH = 500
"""scipy at its best: without a batch it would hold 800 MB of resamples and slow down further."""


def columns():
    rng = np.random.default_rng(0)
    x = rng.exponential(1.0, N)
    return x, x + rng.normal(0.0, 1.0, N)


def pearson(x, y, axis=-1):
    """A correlation for stacks of resamples, quicker than scipy's own pearsonr on them."""
    dx, dy = x - x.mean(axis=axis, keepdims=True), y - y.mean(axis=axis, keepdims=True)
    return (dx * dy).sum(axis=axis) / np.sqrt((dx * dx).sum(axis=axis) * (dy * dy).sum(axis=axis))


def ours(name, data):
    interval = bootstrap(name, data if name == "correlation" else data[0], n_resamples=B, random_state=0).interval()
    return interval.lower, interval.upper


def scipys(name, data):
    rule = {"mean": np.mean, "median": np.median, "correlation": pearson}[name]
    samples = data if name == "correlation" else data[:1]
    result = stats.bootstrap(
        samples, rule, n_resamples=B, method="BCa", paired=name == "correlation", batch=BATCH, rng=0
    )
    return tuple(result.confidence_interval)


def distance(name, outcome, data) -> float:
    """How far the limits lie from the large-sample ones, in standard errors: both sides carry Monte Carlo noise."""
    x, y = data
    if name == "mean":
        centre, error = x.mean(), x.std() / np.sqrt(N)
    elif name == "median":
        centre, error = np.median(x), 1.0 / np.sqrt(N)  # density of the exponential at its median: 1/2
    else:
        centre = np.corrcoef(x, y)[0, 1]
        u, v = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
        error = np.std(u * v - 0.5 * centre * (u * u + v * v)) / np.sqrt(N)
    expected = centre + 1.959964 * error * np.array([-1, 1])
    return float(np.abs(np.asarray(outcome) - expected).max() / error)


def case(name: str, goal: float) -> Case:
    return Case(
        name=f"bootstrap BCa of a {name}, n = {N:,}, B = {B:,}",
        data=columns,
        ours=partial(ours, name),
        peers={"scipy.stats.bootstrap": partial(scipys, name)},
        quality=partial(distance, name),
        quality_name="distance of the limits from the asymptotic ones, standard errors",
        goals={"scipy.stats.bootstrap": goal},
        slack=0.15,
        repeats=3,
        cold=name == "mean",
    )


CASES: list[Case] = [case("mean", 5.0), case("median", 5.0), case("correlation", 5.0)]
