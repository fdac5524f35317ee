"""Figures for predicted numbers: squared, absolute and quantile losses, deviances, R2.

    mse = mean (y - f)^2        rmse = sqrt(mse)        mae = mean |y - f|
    r2 = 1 - sum (y - f)^2 / sum (y - ybar)^2          over folds, ybar is the mean of a row's training fold
    quantile loss = mean max(q (y - f), (q - 1)(y - f))
    deviance: normal (y - f)^2, poisson 2 (y log(y/f) - y + f), gamma 2 (log(f/y) + y/f - 1), averaged over rows

Means of row losses have Student's t interval. rmse and r2 are smooth functions of such means: the delta method on the
log scale (of 1 - r2), which keeps the range. The median of the absolute errors has the binomial interval of an order
statistic, which holds for any distribution. One pass over the rows, O(n) (O(n log n) for the median).
McCullagh & Nelder (1989), ch. 2; Conover (1999), sec. 3.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from assay.checks import choice, fraction, row_weights
from assay.errors import DataError
from assay.metrics.definition import Metric, metric, register, row_metric
from assay.metrics.inputs import pair_of_columns
from assay.metrics.limits import average, effective, smooth_limits, standard_error
from assay.results import Interval

__all__ = [
    "deviance",
    "gamma_deviance",
    "mae",
    "median_absolute_error",
    "mse",
    "poisson_deviance",
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
        raise DataError(f"the squared error of row {row} overflows", remedy="rescale y")
    return squares


@row_metric("mse", needs="values")
def mse(y_true: Any, y_pred: Any) -> Array:
    """Mean squared error, mean (y - f)^2, with Student's t interval on the squared errors.

    >>> mse([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0])
    0.375
    >>> print(mse.interval([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0]))
    mse 0.38 [0.00, 1.06] (95% t interval, n = 4)
    """
    return _squares(y_true, y_pred)


@row_metric("mae", needs="values")
def mae(y_true: Any, y_pred: Any) -> Array:
    """Mean absolute error, mean |y - f|, with Student's t interval.

    >>> mae([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0])
    0.5
    """
    truth, predicted = pair_of_columns(y_true, y_pred)
    with np.errstate(over="ignore"):
        return np.abs(truth - predicted)


@row_metric("quantile_loss", needs="values")
def quantile_loss(y_true: Any, y_pred: Any, *, q: float = 0.5) -> Array:
    """Quantile (pinball) loss of predicted q-quantiles, mean max(q (y - f), (q - 1)(y - f)), with a t interval.

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
    """Mean unit deviance of predicted means under a distribution, with a t interval.

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


@metric(
    "rmse",
    better="smaller",
    range=(0.0, np.inf),
    needs="values",
    rules={"delta": _rmse_limits},
)
def rmse(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Root mean squared error, sqrt(mean (y - f)^2), with a delta-method interval on the log scale.

    >>> print(rmse.interval([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0]))
    rmse 0.61 [0.24, 1.53] (95% delta (log scale, t) interval, n = 4)
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


@metric(
    "r2",
    better="greater",
    range=(-np.inf, 1.0),
    needs="values",
    rules={"delta": _r2_limits},
    over_folds="reference",
)
def r2(y_true: Any, y_pred: Any, *, reference: Any = None, sample_weight: Any = None) -> float:
    """Share of the variance explained, 1 - sum (y - f)^2 / sum (y - ybar)^2, with a delta-method interval.

    | parameter | default | range                      | meaning                                                      |
    |-----------|---------|----------------------------|--------------------------------------------------------------|
    | reference | None    | a number, or one per row   | what the model is compared with; None: the mean ybar of      |
    |           |         |                            | y_true. In cross-validation it is the mean of the training   |
    |           |         |                            | rows, so that the guess without features has exactly 0       |

    The interval is made on the scale log(1 - r2), so it never passes 1. Where y does not vary there is
    nothing to explain, and the figure is refused (scikit-learn gives 0 or 1).

    >>> round(r2([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0]), 4)
    0.9486
    """
    squares, spread, weights = _r2_parts(y_true, y_pred, sample_weight, reference)
    mass = np.ones(squares.size) if weights is None else weights
    value = 1 - float(np.dot(squares, mass) / np.dot(spread, mass))
    return value if abs(value) > ROUNDING else 0.0


def _median_limits(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float) -> Interval:
    """The order statistics between which the median lies with probability `level`, whatever the distribution."""
    level = fraction(level, "level")
    truth, predicted = pair_of_columns(y_true, y_pred)
    errors, weights = _kept(np.abs(truth - predicted), sample_weight)
    order = np.argsort(errors, kind="stable")
    errors = errors[order]
    n = errors.size
    trials = effective(weights, n)
    # The most k with P(Binomial(n, 1/2) <= k - 1) <= tail: the k-th errors from both ends are the limits.
    tail = (1 - level) / 2
    ranks = np.arange(0, int(trials / 2) + 1)
    inside = special.betaincc(ranks + 1, np.maximum(trials - ranks, 1e-300), 0.5) <= tail
    k = int(inside.sum())
    lower, upper = 0.0, np.inf
    if k > 0:
        mass = np.ones(n) if weights is None else weights[order]
        cut = np.cumsum(mass) * (trials / mass.sum())
        lower = float(errors[min(n - 1, int(np.searchsorted(cut, k - 1e-9)))])
        upper = float(errors[min(n - 1, int(np.searchsorted(cut, trials - k + 1 - 1e-9)))])
    estimate = median_absolute_error(y_true, y_pred, sample_weight=sample_weight)
    return Interval(estimate, lower, upper, level, "order statistics", n, "median_absolute_error")


@metric(
    "median_absolute_error",
    better="smaller",
    range=(0.0, np.inf),
    needs="values",
    rules={"order": _median_limits},
)
def median_absolute_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Median of the absolute errors, with the distribution-free interval between two order statistics.

    With weights, the half-way point between the lower and the upper weighted median. Fewer rows than
    log2(2 / (1 - level)) give no finite upper limit.

    >>> print(median_absolute_error.interval([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 4, 4, 6, 8, 7, 5]))
    median_absolute_error 0.5 [0.0, 3.0] (95% order statistics interval, n = 8)
    """
    truth, predicted = pair_of_columns(y_true, y_pred)
    errors = np.abs(truth - predicted)
    weights = row_weights(sample_weight, errors.size)
    if weights is None:
        return float(np.median(errors))
    kept = weights > 0
    errors, weights = errors[kept], weights[kept]
    order = np.argsort(errors, kind="stable")
    cumulative = np.cumsum(weights[order])
    half = cumulative[-1] / 2
    low = int(np.searchsorted(cumulative, half * (1 - 1e-12)))
    high = int(np.searchsorted(cumulative, half * (1 + 1e-12), side="right"))
    return float(errors[order[low]] / 2 + errors[order[min(high, errors.size - 1)]] / 2)


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
