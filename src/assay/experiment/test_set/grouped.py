"""The interval of a figure whose rows come in groups: groups are the units, whatever the figure is.

With theta the figure on all rows, theta_(-g) the figure without block g of B blocks of whole groups, and h a scale on
which figures spread evenly (log for figures in [0, inf), logit in [0, 1], log(1 - theta) in (-inf, 1]),

    se^2  = (B - 1)/B sum_g (h(theta_(-g)) - mean_g h(theta_(-g)))^2
    limits = h^-1( h(theta) -+ t_{v} se ),    v = (sum_g n_g)^2 / sum_g n_g^2 - 1

(v is B - 1 for blocks of n_g equal sizes, and less where a few hold most rows.)
Rows of one group may depend on each other in any way; different groups must be independent. Up to `BLOCKS` groups each
is a block of its own; more are dealt to blocks of about equal numbers of rows. Where the jackknife cannot be had (one
figure cannot be computed without a block, or no block makes a difference), every group is counted as one row: the row
interval of the figure, its arms stretched by sqrt(n/G). Cost: B evaluations of the figure.
Means of unbounded losses (and rmse, by their root) have at least the upper limit that allows for a long tail of the
pseudo-values B theta - (B - 1) theta_(-g) (`assay.inference.heavy_tails`). Quantiles of the errors, for which the
jackknife fails, lie between the order statistics at the shares q -+ t se, where se is the error of the share of rows
below the quantile, its sums taken by group (Woodruff 1952, JASA 47, 635-646).
Quenouille (1956), Biometrika 43, 353-360; delete-a-group: Kott (2001), Journal of Official Statistics 17, 521-526;
why clusters matter: Cameron and Miller (2015), Journal of Human Resources 50, 317-372; effective number of clusters:
Carter, Schnepel, Steigerwald (2017), Review of Economics and Statistics 99, 698-709.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.errors import AssayError
from assay.inference.heavy_tails import mean_limits
from assay.inference.quantiles import quantile
from assay.metrics.definition import Metric
from assay.metrics.regression import quantile_level
from assay.metrics.tails import loss_behind
from assay.results import Interval

__all__ = ["BLOCKS", "blocks_of", "grouped_interval"]

Array = np.ndarray
BLOCKS = 200
"""Replicates at most: more change the interval by less than its own uncertainty."""


def grouped_interval(
    metric: Metric, y: Array, predicted: Array, groups: Any, *, level: float = 0.95, most: int = BLOCKS, **options: Any
) -> Interval:
    """The interval of a metric on rows that come in groups; `n` is the number of groups.

    | parameter    | default | range           | meaning                                  |
    |--------------|---------|-----------------|------------------------------------------|
    | metric       |         | a `Metric`      | the figure                               |
    | y, predicted |         | one per row     | targets and what the metric needs        |
    | groups       |         | one per row     | rows with one label belong together      |
    | level        | 0.95    | (0, 1)          | confidence                               |
    | most         | 200     | at least 2      | more groups are dealt to so many blocks  |
    | options      |         |                 | passed on to the metric                  |

    >>> from assay.metrics import get_metric
    >>> y, labels = np.arange(12.0), np.repeat(["a", "b", "c", "d"], 3)
    >>> print(grouped_interval(get_metric("mae"), y, y + [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2], labels).n)
    4
    """
    codes, _ = pd.factorize(np.asarray(groups), use_na_sentinel=False)
    count = int(codes.max()) + 1
    theta = float(metric(y, predicted, **options))
    if count < 2:
        low, high = metric.range
        return Interval(theta, low, high, level, "one group, which says nothing about other groups", count, metric.name)
    if quantile_level(metric) is not None:
        return _woodruff(metric, y, predicted, codes, level, options)
    blocks = blocks_of(codes, most)
    try:
        without = np.array(
            [float(metric(y[blocks != g], predicted[blocks != g], **options)) for g in range(int(blocks.max()) + 1)]
        )
    except AssayError:
        without = np.array([theta])
    sizes = np.bincount(blocks).astype(float)
    limits = _jackknife(metric, theta, without, float(sizes.sum() ** 2 / (sizes**2).sum() - 1), level)
    if limits is None:
        return _stretched(metric, y, predicted, count, level, options)
    lower, upper = limits
    upper = max(upper, _tail_upper(metric, theta, without, level))
    name = "jackknife over groups" if blocks.max() + 1 == count else f"jackknife over {most} blocks of groups"
    return Interval(theta, lower, upper, level, name, count, metric.name)


def _woodruff(
    metric: Metric, y: Array, predicted: Array, codes: Array, level: float, options: dict[str, Any]
) -> Interval:
    """The interval of a quantile of absolute errors: the quantiles at q -+ t se, se by groups."""
    q = float(options.get("q", quantile_level(metric) or 0.5))
    errors = np.abs(np.asarray(y, dtype=float) - np.asarray(predicted, dtype=float))
    ordered, n, sizes = np.sort(errors), errors.size, np.bincount(codes).astype(float)
    theta = quantile(ordered, None, q)
    sums = np.bincount(codes, weights=(errors <= theta) - np.mean(errors <= theta))
    error = float(np.sqrt(sizes.size / (sizes.size - 1) * (sums**2).sum())) / n
    if error == 0:
        return _stretched(metric, y, predicted, sizes.size, level, options)
    df = max(1.0, float(n**2 / (sizes**2).sum() - 1))
    half = float(special.stdtrit(df, (1 + level) / 2)) * error
    low, high = int(np.floor(n * (q - half))), int(np.ceil(n * (q + half)))
    lower = 0.0 if low < 1 else float(ordered[low - 1])
    upper = np.inf if high > n else float(ordered[high - 1])
    return Interval(theta, lower, upper, level, "order statistics over groups", sizes.size, metric.name)


def blocks_of(codes: Array, most: int = BLOCKS) -> Array:
    """The block of each row: its group, or groups dealt to blocks, the largest first and back and forth."""
    count = int(codes.max()) + 1
    if count <= most:
        return codes
    order = np.argsort(-np.bincount(codes, minlength=count), kind="stable")
    turn = np.arange(count) % (2 * most)
    block = np.empty(count, dtype=np.intp)
    block[order] = np.minimum(turn, 2 * most - 1 - turn)
    return block[codes]


def _jackknife(metric: Metric, theta: float, without: Array, df: float, level: float) -> tuple[float, float] | None:
    low, high = metric.range
    every = np.append(without, theta)
    if without.size < 2 or not np.isfinite(every).all() or np.ptp(without) == 0:
        return None
    there, back = _scale(low, high)
    if (every <= low).any() or (every >= high).any():
        there, back = _same, _same
    values = there(without)
    size = values.size
    error = float(np.sqrt((size - 1) / size * ((values - values.mean()) ** 2).sum()))
    half = float(special.stdtrit(max(1.0, df), (1 + level) / 2)) * error
    centre = float(there(np.array([theta]))[0])
    ends = back(np.array([centre - half, centre + half]))
    return float(np.clip(ends.min(), low, high)), float(np.clip(ends.max(), low, high))


def _tail_upper(metric: Metric, theta: float, without: Array, level: float) -> float:
    """The upper limit that allows for a long tail of the blocks, for figures that are means of unbounded losses."""
    if metric.range != (0.0, np.inf) or loss_behind(metric) is None:
        return theta
    power = 2 if metric.name == "rmse" else 1
    mean, size = theta**power, without.size
    values = size * mean - (size - 1) * without**power
    upper = mean_limits(values - values.mean() + mean, level=level)[1]
    return float(max(upper, 0.0)) ** (1 / power)


def _same(values: Array) -> Array:
    return values


def _scale(low: float, high: float) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """A scale without ends on which a figure between `low` and `high` spreads evenly, and the way back."""
    if low == 0 and high == 1:
        return special.logit, special.expit
    if low == 0 and np.isinf(high):
        return np.log, np.exp
    if np.isinf(low) and high == 1:
        return (lambda values: np.log1p(-values)), (lambda values: -np.expm1(values))
    return _same, _same


def _stretched(
    metric: Metric, y: Array, predicted: Array, count: int, level: float, options: dict[str, Any]
) -> Interval:
    """The interval of independent rows, as wide as that of `count` rows: no group can tell less than one row."""
    interval = metric.interval(y, predicted, level=level, **options)
    more, (low, high) = float(np.sqrt(len(y) / count)), metric.range
    lower = max(low, interval.estimate - more * (interval.estimate - interval.lower))
    upper = min(high, interval.estimate + more * (interval.upper - interval.estimate))
    return replace(interval, lower=lower, upper=upper, method=f"{interval.method}, each group as one row", n=count)
