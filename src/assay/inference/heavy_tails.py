"""The mean of a loss with a long upper tail: an interval that allows for rows not seen, and a diagnosis of the tail.

Student's t = (m - mu) / (s / sqrt n) is skewed to the left where losses are skewed to the right: a sample without a
large loss has a small mean and a small spread at once, so the upper limit falls short. With errors from t(3) a nominal
95% covers 65-79%, at any n up to thousands, because their squares have no variance. Here

    lower = m exp(-t_{n-1} s / (m sqrt n))                        Student's t on the log scale, which keeps the sign
    upper = m - q s / sqrt n,      q = min(q_Hall, q_tail)

    q_Hall    Hall's cubic correction of t for the skewness g:  3 sqrt n / g ((1 - g (t / sqrt n + g / 6n))^(1/3) - 1)
    q_tail    the lower quantile of (m* - mu) / (s* / sqrt n) over samples from a model of the losses: k = min(n/5,
              3 sqrt n, 400) rows lie above a threshold u and follow a generalised Pareto law, the others are as seen;
              mu is the mean of the model

The Pareto index xi and scale are drawn anew for each sample from their posterior (Zhang and Stephens' grid), xi shrunk
towards 1/2 by the weight of ten rows and kept below 3/4: beyond that the mean hangs on rows that n rows do not show.
Draws are seeded, so the limits depend on the losses alone, not on their order or unit. No finite-sample bound exists
for the mean of an unbounded loss (Bahadur and Savage 1956), and none is promised: what was measured stands in
docs/simulations/tails.md, and `diagnose_tail` says when a few rows carry the sum. Cost: a partial sort and at
most 200,000 exponential draws (400,000 beyond n = 10,000), about ten milliseconds.

Hall (1992), JRSS B 54, 221-228; Zhang and Stephens (2009), Technometrics 51, 316-325; the size of the tail and the weak
prior: Vehtari, Simpson, Gelman, Yao, Gabry (2024), JMLR 25(72); bootstrap with a Pareto tail: Cowell and Flachaire
(2007), Journal of Econometrics 141, 1044-1072; Bahadur and Savage (1956), Annals of Mathematical Statistics 27,
1115-1122.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.checks import fraction, row_weights, sample
from assay.errors import DataError
from assay.results import Interval, Result

__all__ = ["TITLE", "TailDiagnosis", "diagnose_tail", "loss_interval", "mean_limits"]

Array = np.ndarray
TITLE = "tail-corrected t"
LEAST_TAIL, MOST_TAIL = 5, 400
"""Rows that a Pareto law is fitted to, at the least and at the most."""
LEAST_ROWS = 10
"""Fewer rows have no tail to look at: Hall's correction alone."""
PRIOR_INDEX, PRIOR_ROWS, MOST_INDEX = 0.5, 10.0, 0.75
DRAWS, MOST_SAMPLES, LEAST_SAMPLES = 200_000, 4_000, 1_000
SEED = 20_090


def loss_interval(x: Any, *, level: float = 0.95) -> Interval:
    """An interval for the mean of losses, numbers from 0 up, that allows for a long upper tail.

        [m exp(-t s / (m sqrt n)),  m - min(q_Hall, q_tail) s / sqrt n]         (see the module's first lines)

    | parameter | default | range                        | meaning    |
    |-----------|---------|------------------------------|------------|
    | x         |         | one column, all at least 0   | the losses |
    | level     | 0.95    | (0, 1)                       | confidence |

    Hall (1992), JRSS B 54, 221-228; Cowell and Flachaire (2007), Journal of Econometrics 141, 1044-1072.

    >>> losses = np.random.default_rng(0).standard_t(3, 200) ** 2
    >>> print(loss_interval(losses))
    mean 2.25 [1.65, 3.55] (95% tail-corrected t interval, n = 200)
    """
    losses, level = _column(x), fraction(level, "level")
    lower, upper = mean_limits(losses, level=level)
    return Interval(_mean(losses), lower, upper, level, TITLE, losses.size, "mean")


def _column(x: Any) -> Array:
    values, _ = sample(x, "x", least=2)
    if values.shape[1] != 1:
        raise DataError(f"x has {values.shape[1]} columns", remedy="pass one loss per row")
    if (values < 0).any():
        row = int(np.argmax(values[:, 0] < 0))
        raise DataError(f"x holds {values[row, 0]:g} in row {row}", remedy="losses are numbers of at least 0")
    return np.ascontiguousarray(values[:, 0])


def _mean(values: Array) -> float:
    """The mean, between the least and the greatest value whatever their size."""
    scale = float(np.abs(values).max(initial=0.0))
    if scale == 0:
        return 0.0
    return float(np.clip(float((values / scale).mean()) * scale, values.min(), values.max()))


def mean_limits(values: Array, *, level: float) -> tuple[float, float]:
    """The limits of the mean, which lies between them.

    Values may be below zero where they stand for rows of a ratio, their mean may not. An upper limit beyond the largest
    float is infinite.
    """
    n, mean = values.size, _mean(values)
    if n < 2 or mean <= 0:
        return mean, mean
    scale = float(np.abs(values).max())
    x = values / scale
    x /= x.mean()  # of mean one
    centred = x - 1.0
    spread = float(np.sqrt(np.dot(centred, centred) / (n - 1)))
    if spread <= 1e-14:
        return mean, mean
    error, t = spread / np.sqrt(n), float(special.stdtrit(n - 1.0, (1 + level) / 2))
    q = _hall(centred, t)
    if n >= LEAST_ROWS:
        q = min(q, _tail_quantile(x, (1 - level) / 2))
    # At low levels the quantile of a skewed law may lie on the other side of the mean.
    with np.errstate(under="ignore"):
        return mean * float(np.exp(-t * error)), mean * float(1 - min(q, 0.0) * error)


def _hall(centred: Array, t: float) -> float:
    """The lower quantile of t for a sample of this skewness."""
    n = centred.size
    squares = centred * centred
    skew = float(np.dot(squares, centred)) / n / float(squares.mean()) ** 1.5
    if abs(skew) < 1e-6:
        return -t
    root = np.sqrt(n)
    return float(3 * root / skew * (np.cbrt(1 - skew * (t / root + skew / (6 * n))) - 1))


@dataclass(frozen=True)
class _Tail:
    """Values above a threshold, and the grid of Pareto laws they may follow with its weights."""

    threshold: float
    excess: Array
    index: Array
    scale: Array
    weight: Array


def _fit_tail(x: Array) -> _Tail | None:
    """Zhang and Stephens' posterior over a grid; None where too few values differ."""
    n = x.size
    size = int(min(MOST_TAIL, max(LEAST_TAIL, np.ceil(min(n / 5, 3 * np.sqrt(n))))))
    top = np.sort(np.partition(x, n - size - 1)[n - size - 1 :])
    threshold = top[0]
    excess = top[top > threshold] - threshold
    if excess.size < LEAST_TAIL:  # ties at the threshold: take it lower
        lower = x[x < threshold]
        if lower.size == 0:
            return None
        threshold = lower.max()
        excess = np.sort(x[x > threshold]) - threshold
        if excess.size < LEAST_TAIL or excess.size > max(n / 2, LEAST_TAIL):
            return None
    k = excess.size
    points = 30 + int(np.sqrt(k))
    quartile = max(excess[int(k / 4 + 0.5) - 1], 1e-12 * excess[-1])  # ties but for rounding
    theta = 1 / excess[-1] + (1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))) / (3 * quartile)
    theta = theta[np.abs(theta) > 1e-12]
    index = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = k * (np.log(-theta / index) - index - 1)
    weight = np.exp(profile - profile.max())
    return _Tail(float(threshold), excess, index, -index / theta, weight / weight.sum())


def _tail_quantile(x: Array, tail_mass: float) -> float:
    """The quantile of t over samples whose largest rows come from the Pareto laws."""
    tail = _fit_tail(x)
    if tail is None:
        return np.inf
    n, k = x.size, tail.excess.size
    rng = np.random.default_rng(SEED)
    samples = int(np.clip(DRAWS // k, LEAST_SAMPLES, MOST_SAMPLES))
    law = np.searchsorted(np.cumsum(tail.weight)[:-1], rng.random(samples))
    index = np.minimum((k * tail.index[law] + PRIOR_ROWS * PRIOR_INDEX) / (k + PRIOR_ROWS), MOST_INDEX)
    index = np.where(np.abs(index) < 1e-9, 1e-9, index)
    scale = tail.scale[law]
    body = x[x <= tail.threshold]
    truth = (body.sum() + k * (tail.threshold + scale / (1 - index))) / n
    above = rng.binomial(n, k / n, samples)
    total, squares = _body_sums(body, n - above, rng)
    draws = rng.standard_exponential((samples, int(above.max())))
    draws = tail.threshold + (scale / index)[:, None] * np.expm1(index[:, None] * draws)
    draws[np.arange(draws.shape[1]) >= above[:, None]] = 0.0
    total += draws.sum(axis=1)
    squares += np.einsum("ij,ij->i", draws, draws)
    mean = total / n
    variance = np.maximum(squares / n - mean**2, 1e-6 * mean**2) / (n - 1)
    told = variance > 0  # a sample of zeros has no t, and is not the sample at hand
    return float(np.quantile((mean - truth)[told] / np.sqrt(variance[told]), tail_mass))


def _body_sums(body: Array, rows: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Sums of values and of squares of so many rows drawn from the body: bounded, so normal to a good approximation."""
    square = body * body
    one, two, three, four = (float(np.dot(*pair)) / body.size for pair in _powers(body, square))
    spread, spread_of_squares = np.sqrt(max(0.0, two - one**2)), np.sqrt(max(0.0, four - two**2))
    product = spread * spread_of_squares
    slope = float(np.clip((three - one * two) / product, -1.0, 1.0)) if product > 0 else 0.0
    first, other = rng.standard_normal((2, rows.size))
    second = slope * first + np.sqrt(1 - slope**2) * other
    total = rows * one + np.sqrt(rows) * spread * first
    return total, np.maximum(rows * two + np.sqrt(rows) * spread_of_squares * second, 0.0)


def _powers(x: Array, square: Array) -> tuple[tuple[Array, Array], ...]:
    """Pairs whose products add up to the first four powers."""
    return (np.ones_like(x), x), (x, x), (square, x), (square, square)


# ------------------------------------------------------------------------------------------ the diagnosis


CARRIED = 1 / 3
FEW_ROWS = 0.025
HEAVY_INDEX = 0.55


@dataclass(frozen=True, eq=False, repr=False)
class TailDiagnosis(Result):
    """Whether a few rows carry the sum of the losses, and how long their tail is.

    | field  | meaning                                                                                          |
    |--------|--------------------------------------------------------------------------------------------------|
    | n      | rows                                                                                             |
    | rows   | the smallest number of rows that carry a third of the sum                                        |
    | share  | the share of the sum that they carry                                                             |
    | index  | the Pareto index of the upper tail (1/2: no variance, 1: no mean); NaN where nothing can be fitted |
    | heavy  | whether the interval of the mean may be too short: few rows, and a long tail                     |
    | unseen | losses of fewer rows than one in so many are missing from n rows with probability 0.05            |
    """

    n: int
    rows: int
    share: float
    index: float
    heavy: bool

    @property
    def unseen(self) -> int:
        """What strikes one row in this many, or fewer, is missing from n rows once in twenty samples."""
        return max(1, int(-1 / np.expm1(np.log(0.05) / self.n)))

    def carried(self, loss: str = "loss") -> str:
        """How few rows carry how much, as a clause."""
        rows = f"{self.rows:,} of {self.n:,} rows" if self.rows > 1 else f"1 of {self.n:,} rows"
        return f"{rows} make{'' if self.rows > 1 else 's'} up {self.share:.0%} of the {loss}"

    def to_frame(self) -> pd.DataFrame:
        """One row: n, rows, share, index, heavy, unseen."""
        names = ("n", "rows", "share", "index", "heavy", "unseen")
        return pd.DataFrame([{name: getattr(self, name) for name in names}])

    def __str__(self) -> str:
        length = "no tail to fit" if np.isnan(self.index) else f"Pareto index of the tail {self.index:.2f}"
        verdict = "the interval of the mean may be too short" if self.heavy else "no sign of a heavy tail"
        return f"{self.carried()}; {length}: {verdict}"


def diagnose_tail(losses: Any, weights: Any = None) -> TailDiagnosis:
    """Whether a few rows carry the mean of the losses, from the losses alone.

        rows = min {r : l_(n) + ... + l_(n-r+1) >= sum l / 3},     heavy: rows <= ceil(0.025 n) and index > 0.55

    | parameter | default | range                      | meaning                                        |
    |-----------|---------|----------------------------|------------------------------------------------|
    | losses    |         | one column, all at least 0 | the loss of each row                           |
    | weights   | None    | one per row, at least 0    | how much a row counts: l stands for w l / mean(w); rows |
    |           |         |                            | of weight 0 are left out, and one row must be left |

    The index is the posterior mean of Zhang and Stephens (2009), Technometrics 51, 316-325, for the largest min(n/5,
    3 sqrt n) losses, shrunk towards 1/2 by the weight of ten rows. How often it speaks, where intervals fall short
    and where they do not, is measured in docs/simulations/tails.md. Rows that would matter and were not drawn leave no
    trace, so silence is no proof: `unseen` says how rare they may be.

    >>> print(diagnose_tail(np.random.default_rng(0).standard_t(2, 300) ** 2))
    2 of 300 rows make up 34% of the loss; Pareto index of the tail 0.95: the interval of the mean may be too short
    >>> diagnose_tail(np.random.default_rng(0).normal(size=300) ** 2).heavy
    False
    """
    values = _column(losses)
    top = float(values.max())
    values = values / (top or 1.0)
    mass = row_weights(weights, values.size, "weights")
    if mass is not None:
        values, mass = values[mass > 0], mass[mass > 0] / mass.max()
        values = values * (mass / mass.mean())
    n = values.size
    if n < LEAST_ROWS or not values.any():
        return TailDiagnosis(n, n, 1.0, float("nan"), False)
    shares = np.cumsum(np.sort(values)[::-1])
    shares /= shares[-1]
    rows = int(np.searchsorted(shares, CARRIED)) + 1
    tail = _fit_tail(values)
    index = float("nan")
    if tail is not None:
        k = tail.excess.size
        index = (k * float(np.dot(tail.weight, tail.index)) + PRIOR_ROWS * PRIOR_INDEX) / (k + PRIOR_ROWS)
    heavy = rows <= np.ceil(FEW_ROWS * n) and not index <= HEAVY_INDEX  # too few different values to fit: rows alone
    return TailDiagnosis(n, rows, float(shares[rows - 1]), index, bool(heavy))
