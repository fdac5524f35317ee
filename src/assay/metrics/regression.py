"""Figures for predicted numbers: squared, absolute and quantile losses, deviances, R2.

    mse = mean (y - f)^2        rmse = sqrt(mse)        mae = mean |y - f|
    r2 = 1 - sum (y - f)^2 / sum (y - ybar)^2          over folds, ybar is the mean of a row's training fold
    quantile loss = mean max(q (y - f), (q - 1)(y - f))
    deviance: normal (y - f)^2, poisson 2 (y log(y/f) - y + f), gamma 2 (log(f/y) + y/f - 1), averaged over rows

Means of row losses have an interval that allows for a long upper tail (`assay.inference.heavy_tails`; Student's t by
name), rmse its square root. r2 is a smooth function of means: the delta method on the scale log(1 - r2), which keeps
the range. Quantiles of the absolute errors have the binomial interval of an order statistic, which holds for any
distribution. O(n), O(n log n) for quantiles. McCullagh & Nelder (1989), ch. 2; Conover (1999), sec. 3.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from assay.checks import choice, fraction, row_weights
from assay.errors import DataError
from assay.inference.heavy_tails import TITLE, mean_limits
from assay.inference.quantiles import order_limits, quantile
from assay.metrics.definition import Metric, metric, register, row_metric
from assay.metrics.inputs import pair_of_columns
from assay.metrics.limits import average, smooth_limits, standard_error, tail_limits
from assay.results import Interval

__all__ = [
    "deviance",
    "gamma_deviance",
    "mae",
    "median_absolute_error",
    "mse",
    "p90_absolute_error",
    "poisson_deviance",
    "quantile_absolute_error",
    "quantile_level",
    "quantile_loss",
    "r2",
    "rmse",
]

Array = np.ndarray
ROUNDING = 1e-13
"""An R2 nearer to zero is that of the reference itself, summed in another order."""


def _squares(y_true: Any, y_pred: Any) -> Array:
    truth, predicted = pair_of_columns(y_true, y_pred)
    with np.errstate(over="ignore"):
        squares = (truth - predicted) ** 2
    if not np.isfinite(squares).all():
        row = int(np.argmin(np.isfinite(squares)))
        y, f = float(truth[row]), float(predicted[row])
        reason, remedy = (
            (f"the prediction is {f:g}", "check the learner") if abs(f) > abs(y) else (f"y is {y:g}", "rescale y")
        )
        raise DataError(f"the squared error of row {row} overflows because {reason}", remedy=remedy)
    return squares


@row_metric("mse", needs="values")
def mse(y_true: Any, y_pred: Any) -> Array:
    """Mean squared error, mean (y - f)^2, with an interval that allows for a long tail of the squared errors.

    >>> mse([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0])
    0.375
    >>> print(mse.interval([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0]))
    mse 0.4 [0.1, 3.0] (95% tail-corrected t interval, n = 4)
    """
    return _squares(y_true, y_pred)


@row_metric("mae", needs="values")
def mae(y_true: Any, y_pred: Any) -> Array:
    """Mean absolute error, mean |y - f|, with an interval that allows for a long tail.

    >>> mae([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0])
    0.5
    """
    truth, predicted = pair_of_columns(y_true, y_pred)
    with np.errstate(over="ignore"):
        return np.abs(truth - predicted)


@row_metric("quantile_loss", needs="values")
def quantile_loss(y_true: Any, y_pred: Any, *, q: float = 0.5) -> Array:
    """Quantile (pinball) loss of predicted q-quantiles, mean max(q (y - f), (q - 1)(y - f)), with its interval.

    | parameter | default | range  | meaning                      |
    |-----------|---------|--------|------------------------------|
    | q         | 0.5     | (0, 1) | which quantile was predicted |

    >>> quantile_loss([1.0, 2.0, 3.0], [0.0, 2.0, 5.0], q=0.9).__round__(4)
    0.3667
    """
    truth, predicted = pair_of_columns(y_true, y_pred)
    q = fraction(q, "q")
    with np.errstate(over="ignore"):
        gap = truth - predicted
        return np.maximum(q * gap, (q - 1) * gap)


FAMILIES = ("normal", "poisson", "gamma")


@row_metric("deviance", needs="values")
def deviance(y_true: Any, y_pred: Any, *, family: str = "normal") -> Array:
    """Mean unit deviance of predicted means under a distribution, with its interval.

    | parameter | default  | range                        | meaning                                               |
    |-----------|----------|------------------------------|-------------------------------------------------------|
    | family    | "normal" | "normal", "poisson", "gamma" | poisson needs y >= 0 and f > 0, gamma y > 0 and f > 0 |

    >>> deviance([2, 0, 1], [1.0, 0.5, 2.0], family="poisson").__round__(4)
    0.7954
    """
    family = choice(family, "family", FAMILIES)
    if family == "normal":
        return _squares(y_true, y_pred)
    truth, predicted = pair_of_columns(y_true, y_pred)
    _above(predicted, "y_pred", family, strict=True)
    _above(truth, "y_true", family, strict=family == "gamma")
    if family == "poisson":
        return 2 * (special.xlogy(truth, truth / predicted) - truth + predicted)
    return 2 * (np.log(predicted / truth) + truth / predicted - 1)


def _above(values: Array, name: str, family: str, *, strict: bool) -> None:
    bad = values <= 0 if strict else values < 0
    if bad.any():
        row = int(np.argmax(bad))
        words = "above 0" if strict else "at least 0"
        what = f"{name} is {values[row]:g} in row {row}"
        raise DataError(what, remedy=f"the {family} deviance needs {name} {words}")


poisson_deviance: Metric = register(deviance.bind("poisson_deviance", family="poisson"))
gamma_deviance: Metric = register(deviance.bind("gamma_deviance", family="gamma"))


def _rmse_limits(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float) -> Interval:
    squares, weights = _kept(_squares(y_true, y_pred), sample_weight)
    mean = average(squares, weights)
    root = float(np.sqrt(mean))
    error = standard_error(squares - mean, weights) / (2 * root) if root > 0 else 0.0
    return _smooth("rmse", root, error, level, "log", (0.0, np.inf), squares.size)


def _rmse_tail(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float) -> Interval:
    squares = _squares(y_true, y_pred)
    found = tail_limits(squares, row_weights(sample_weight, squares.size), level=level, estimand="rmse")
    estimate, lower, upper = (float(np.sqrt(end)) for end in (found.estimate, found.lower, found.upper))
    return Interval(estimate, lower, upper, found.level, found.method, found.n, "rmse")


@metric(
    "rmse",
    better="smaller",
    range=(0.0, np.inf),
    needs="values",
    rules={"tail": _rmse_tail, "delta": _rmse_limits},
)
def rmse(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Root mean squared error, sqrt(mean (y - f)^2), with the root of the interval of mse, which allows for long tails.

    `method="delta"` is the delta method with Student's t on the log scale: as good for normal errors, too short for
    others (docs/simulations/tails.md). Where a few rows carry the sum no interval of a mean can be relied on;
    `assay.inference.diagnose_tail` tells, and the median and 90% absolute errors stand for any distribution.

    >>> print(rmse.interval([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0]))
    rmse 0.61 [0.24, 1.72] (95% tail-corrected t interval, n = 4)
    """
    squares = _squares(y_true, y_pred)
    return float(np.sqrt(average(squares, row_weights(sample_weight, squares.size))))


def _r2_parts(y_true: Any, y_pred: Any, sample_weight: Any, reference: Any = None) -> tuple[Array, Array, Array | None]:
    """Squared errors, squared distances from the reference, weights; rows of weight zero are gone."""
    squares = _squares(y_true, y_pred)
    truth = pair_of_columns(y_true, y_pred)[0]
    weights = row_weights(sample_weight, truth.size)
    guess = None if reference is None else np.broadcast_to(np.asarray(reference, dtype=float), truth.shape)
    if weights is not None:
        kept = weights > 0
        squares, truth, weights = squares[kept], truth[kept], weights[kept]
        guess = None if guess is None else guess[kept]
    if guess is None and truth.size < 2:
        raise DataError("r2 of one row is not defined", remedy="pass at least 2 rows")
    flat = guess is None and truth.min() == truth.max()
    with np.errstate(over="ignore"):
        spread = (truth - (average(truth, weights) if guess is None else guess)) ** 2
    if flat or not spread.any() or not np.isfinite(spread).all():
        raise DataError("y_true does not vary, so there is nothing to explain", remedy="use mse, or pass other rows")
    return squares, spread, weights


def _r2_limits(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float, reference: Any = None) -> Interval:
    squares, spread, weights = _r2_parts(y_true, y_pred, sample_weight, reference)
    total = average(spread, weights)
    ratio = average(squares, weights) / total
    error = standard_error((squares - ratio * spread) / total, weights)
    if abs(1 - ratio) <= ROUNDING:
        ratio = 1.0
    return _smooth("r2", 1 - ratio, error, level, "log_gap", (-np.inf, 1.0), squares.size)


def _r2_tail(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float, reference: Any = None) -> Interval:
    """The union of three intervals: where a few rows carry both sums, each of them falls short in its own way."""
    squares, spread, weights = _r2_parts(y_true, y_pred, sample_weight, reference)
    delta = _r2_limits(y_true, y_pred, sample_weight=sample_weight, level=level, reference=reference)
    total, left = average(spread, weights), average(squares, weights)
    ratio = left / total
    if left == 0:
        return replace(delta, method=TITLE)
    mass = 1.0 if weights is None else weights / weights.mean()
    ratios = [mean_limits(ratio + mass * ((squares - ratio * spread) / total), level=level)]
    if total > left:  # what is explained stays, what is not has the interval of the mse
        low, high = mean_limits(left + mass * (squares - left), level=level)
        ratios.append((low / (low + total - left), 1 / (1 + (total - left) / high)))
    lower = min(delta.lower, *(1 - high for _, high in ratios))
    upper = max(delta.upper, *(1 - low for low, _ in ratios))
    return replace(delta, lower=min(lower, delta.estimate), upper=min(1.0, upper), method=TITLE)


@metric(
    "r2",
    better="greater",
    range=(-np.inf, 1.0),
    needs="values",
    rules={"tail": _r2_tail, "delta": _r2_limits},
    over_folds="reference",
)
def r2(y_true: Any, y_pred: Any, *, reference: Any = None, sample_weight: Any = None) -> float:
    """Share of the variance explained, 1 - sum (y - f)^2 / sum (y - ybar)^2; its interval allows for long tails.

    | parameter | default | range                      | meaning                                                      |
    |-----------|---------|----------------------------|--------------------------------------------------------------|
    | reference | None    | a number, or one per row   | what the model is compared with; None: the mean ybar of      |
    |           |         |                            | y_true. In cross-validation it is the mean of the training   |
    |           |         |                            | rows, so that the guess without features has exactly 0       |

    With q = 1 - r2 the ratio of the two sums, the interval is the union of the delta method on the scale of log q, of
    the tail-corrected interval of the mean of the rows' q + (e^2 - q d^2) / mean d^2, and of M / (M + D), with M
    between the tail-corrected limits of mse and D = mean d^2 - mse as it is. `method="delta"` is the first alone: too
    short with long tails (docs/simulations/tails.md). Where y does not vary there is nothing to explain, and the figure
    is refused (scikit-learn gives 0 or 1).

    >>> round(r2([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0]), 4)
    0.9486
    """
    squares, spread, weights = _r2_parts(y_true, y_pred, sample_weight, reference)
    mass = np.ones(squares.size) if weights is None else weights
    value = 1 - float(np.dot(squares, mass) / np.dot(spread, mass))
    return value if abs(value) > ROUNDING else 0.0


def _absolute(y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[Array, Array | None]:
    """Absolute errors in ascending order and their weights; rows of weight zero are gone."""
    truth, predicted = pair_of_columns(y_true, y_pred)
    with np.errstate(over="ignore"):
        errors, weights = _kept(np.abs(truth - predicted), sample_weight)
    order = np.argsort(errors, kind="stable")
    return errors[order], None if weights is None else weights[order]


def _quantile_limits(
    y_true: Any, y_pred: Any, *, sample_weight: Any, level: float, q: float = 0.5, name: str = "median_absolute_error"
) -> Interval:
    q, level = fraction(q, "q"), fraction(level, "level")
    errors, weights = _absolute(y_true, y_pred, sample_weight)
    lower, upper = order_limits(errors, weights, q=q, level=level)
    estimate = quantile(errors, weights, q)
    return Interval(estimate, max(0.0, lower), upper, level, "order statistics", errors.size, name)


def _q_limits(y_true: Any, y_pred: Any, *, q: float = 0.9, **options: Any) -> Interval:
    return _quantile_limits(y_true, y_pred, q=q, name="quantile_absolute_error", **options)


@metric(
    "median_absolute_error",
    better="smaller",
    range=(0.0, np.inf),
    needs="values",
    rules={"order": _quantile_limits},
)
def median_absolute_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Median of the absolute errors, with the exact interval between two order statistics.

    The interval covers at least its level for any distribution and any n; fewer rows than log2(2 / (1 - level)) give no
    finite upper limit. With weights, the half-way point between the lower and the upper weighted median; unequal
    weights make the interval an approximation (see `assay.inference.quantile_interval`).

    >>> print(median_absolute_error.interval([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 4, 4, 6, 8, 7, 5]))
    median_absolute_error 0.5 [0.0, 3.0] (95% order statistics interval, n = 8)
    """
    return quantile(*_absolute(y_true, y_pred, sample_weight), 0.5)


@metric(
    "quantile_absolute_error",
    better="smaller",
    range=(0.0, np.inf),
    needs="values",
    rules={"order": _q_limits},
)
def quantile_absolute_error(y_true: Any, y_pred: Any, *, q: float = 0.9, sample_weight: Any = None) -> float:
    """The absolute error that a share q of the rows does not exceed, with the exact interval of an order statistic.

        min {e : share of rows with |y - f| <= e is at least q}     (half-way to the next where it is q exactly)

    The interval covers at least its level for any distribution and any n; it has a finite upper limit from
    n >= log((1 - level)/2) / log(q) rows on (36 for q = 0.9 at 95%). Unequal weights make it an approximation.

    | parameter | default | range  | meaning        |
    |-----------|---------|--------|----------------|
    | q         | 0.9     | (0, 1) | which quantile |

    `p90_absolute_error` is the same with q = 0.9, under a name that studies can ask for.

    >>> quantile_absolute_error(range(10), [0] * 10, q=0.75)
    7.0
    """
    return quantile(*_absolute(y_true, y_pred, sample_weight), fraction(q, "q"))


def quantile_level(metric: Metric) -> float | None:
    """Which quantile of the absolute errors a metric is; None for other metrics."""
    if metric.value not in (median_absolute_error.value, quantile_absolute_error.value):
        return None
    return 0.5 if metric.value is median_absolute_error.value else float(metric.options.get("q", 0.9))


p90_absolute_error: Metric = register(quantile_absolute_error.bind("p90_absolute_error", q=0.9))


def _kept(losses: Array, sample_weight: Any) -> tuple[Array, Array | None]:
    weights = row_weights(sample_weight, losses.size)
    return (losses, None) if weights is None else (losses[weights > 0], weights[weights > 0])


def _smooth(
    name: str, estimate: float, error: float, level: float, scale: str, bounds: tuple[float, float], n: int
) -> Interval:
    if n < 2:
        raise DataError("one row gives no estimate of the spread", remedy="an interval needs at least 2 rows")
    words = f"delta ({scale.replace('_gap', '')} scale, t)"
    return smooth_limits(
        estimate,
        error,
        level=level,
        scale=scale,
        bounds=bounds,
        method=words,
        rows=n,
        estimand=name,
        df=n - 1.0,
    )
