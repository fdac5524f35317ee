"""The bootstrap: standard error, bias and confidence limits of any statistic, from resampling the rows.

    theta*_b = t(rows drawn with replacement),   b = 1..B,     se = sd(theta*),   bias = mean(theta*) - theta

    percentile    the a/2 and 1-a/2 quantiles of theta*
    basic         2 theta - those quantiles, exchanged
    normal        theta - bias -+ z se
    bca           quantiles at Phi(z0 + (z0 + z_a) / (1 - acc (z0 + z_a))): z0 from the share of theta* below theta,
                  acc from the jackknife; second-order accurate and the default
    studentised   theta - se t*_{1-a/2}, theta - se t*_{a/2} with t* = (theta* - theta) / se*

A mean, a variance, a standard deviation or a correlation is a function of sums, so one kernel draws rows and adds up
without storing a resample (about a nanosecond a row), and the jackknife is a closed form. The k-th smallest of n rows
drawn from sorted data is row floor(n U), U the k-th smallest of n uniforms, which is Beta(k, n+1-k): a median or any
quantile costs O(1) per resample, exactly in distribution. Any other statistic is called on chunks of resamples of
bounded size. Memory is O(n + B) whatever n and B.

It fails, at any n, for what hangs on a few rows or is no smooth function of the distribution: a maximum, a minimum, a
range or the number of distinct values (a resample is never beyond the data, and the result says so), a quantile close
to 0 or 1, a median of values with many ties, a mean of values without a variance (see `diagnose_tail`), an |estimate|
whose truth is 0, and rows that depend on each other.
Efron (1987), JASA 82, 171-185; Efron & Tibshirani (1993), An Introduction to the Bootstrap; Davison & Hinkley (1997).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special

from assay.checks import choice, fraction, freeze, sample, whole
from assay.errors import DataError, DataTypeError, ParameterError
from assay.numbers import figure, fmt, limits
from assay.numerics.seeds import seed_sequence
from assay.results import Interval, Result

if TYPE_CHECKING:
    from assay.inference._problems import BootstrapProblem

__all__ = ["Bootstrap", "bootstrap"]

Array = np.ndarray
METHODS = ("bca", "percentile", "basic", "studentised", "normal")
FEW = 100
"""Fewer resamples lie on one side of an estimate by chance."""
TITLES = {
    "bca": "BCa bootstrap",
    "percentile": "percentile bootstrap",
    "basic": "basic bootstrap",
    "studentised": "studentised bootstrap",
    "normal": "normal bootstrap",
}


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap(Result):
    """What resampling says about a statistic.

    `replicates` holds the statistic of each resample; those on which it is infinite or not defined (a correlation of
    one row drawn n times) are left out and counted in `undefined`. `interval(level, method)` works out limits on
    demand.
    """

    estimate: float
    std_error: float
    bias: float
    replicates: Array
    n: Any
    n_resamples: int
    undefined: int
    estimand: str
    method: str
    level: float
    resampling: str
    pivots: Array | None = field(default=None, repr=False)
    problem: BootstrapProblem | None = field(default=None, repr=False)

    def interval(self, level: float | None = None, method: str | None = None) -> Interval:
        """Confidence limits; without arguments at the level and by the method asked for in the first place."""
        level = self.level if level is None else fraction(level, "level")
        method = self.method if method is None else choice(method, "method", METHODS)
        tails = np.array([0.5 * (1 - level), 0.5 * (1 + level)])
        lower, upper = _LIMITS[method](self, tails)
        return Interval(self.estimate, float(lower), float(upper), level, TITLES[method], self.n, self.estimand)

    @property
    def acceleration(self) -> float:
        """How fast the standard error changes with the statistic: the skewness of the jackknife over six."""
        if self.problem is None:
            raise AttributeError("this result does not include the data that the jackknife needs")
        return acceleration(self.problem.influence())

    @property
    def is_one_sided(self) -> bool:
        """Whether the resamples vary, but none lies above the estimate, or none below: there the bootstrap fails."""
        low, high = float(self.replicates.min()), float(self.replicates.max())
        return self.replicates.size >= FEW and low < high and (high <= self.estimate or low >= self.estimate)

    def to_frame(self) -> pd.DataFrame:
        """One row: estimate, limits, standard error, bias, level, method, n."""
        frame = self.interval().to_frame()
        frame.insert(3, "std_error", self.std_error)
        frame.insert(4, "bias", self.bias)
        return frame

    def __str__(self) -> str:
        shown = self.interval()
        n = " + ".join(str(part) for part in self.n) if isinstance(self.n, tuple) else self.n
        lines = [
            f"Bootstrap of the {self.estimand}, {self.resampling}",
            f"n = {n}, {self.n_resamples} resamples",
            f"{self.estimand} {figure(self.estimate, shown.lower, shown.upper)}, "
            f"standard error {fmt(self.std_error)}, bias {fmt(self.bias, 3)}",
            f"{100 * shown.level:.4g}% interval {limits(shown.lower, shown.upper, self.estimate)} ({shown.method})",
        ]
        rule = "-" * max(len(line) for line in lines)
        notes = (
            [f"Excluded: {self.undefined} resamples on which it is infinite or not defined."] if self.undefined else []
        )
        if self.is_one_sided:
            side = "above" if float(self.replicates.max()) <= self.estimate else "below"
            notes.append(
                f"No resample lies {side} the estimate: the bootstrap fails for a statistic that hangs on the ends of "
                "the data, such as a maximum, a minimum or a range, and these limits cover less than they say."
            )
        return "\n".join([lines[0], rule, *lines[1:], rule, *notes, "Assumes: the rows are independent draws."])


def bootstrap(
    statistic: Any,
    data: Any,
    *,
    n_resamples: int = 9999,
    method: str = "bca",
    level: float = 0.95,
    paired: bool = False,
    strata: Any = None,
    vectorised: bool | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    std_error: Any = None,
) -> Bootstrap:
    """Standard error, bias and confidence limits of a statistic by resampling the rows.

    | parameter    | default | range                            | meaning                                              |
    |--------------|---------|----------------------------------|------------------------------------------------------|
    | statistic    |         | "mean", "median", "variance",    | what is estimated (variance and std divide by n-1);  |
    |              |         | "std", "correlation",            | of two samples a name means the difference;          |
    |              |         | ("quantile", q), or a function   | a function gets one resampled array per sample       |
    | data         |         | a sample, a table, or a tuple of | a table's rows stay together and a function gets     |
    |              |         | samples                          | the table; samples are resampled on their own        |
    | n_resamples  | 9999    | whole, at least 1                | B                                                    |
    | method       | "bca"   | "bca", "percentile", "basic",    | how limits are made                                  |
    |              |         | "studentised", "normal"          |                                                      |
    | level        | 0.95    | (0, 1)                           | confidence                                           |
    | paired       | False   | bool                             | row i of each sample belongs together                |
    | strata       | None    | one label per row                | rows are drawn within their stratum                  |
    | vectorised   | None    | bool or None                     | the function takes `axis=-1`; None: has it `axis`?   |
    | random_state | None    | seed, Generator or None          | makes the draws repeatable                           |
    | n_jobs       | None    | whole or None                    | threads; never changes the result                    |
    | std_error    | None    | a function, a whole number, None | for "studentised": the standard error of a resample, |
    |              |         |                                  | or how many inner resamples estimate it; None:       |
    |              |         |                                  | the formula (mean, variance and std only)            |

    Efron (1987), JASA 82, 171-185.

    >>> result = bootstrap("mean", [4.1, 5.0, 5.2, 4.7, 5.5, 9.1], random_state=0)
    >>> print(result.interval())
    mean 5.6 [4.7, 7.7] (95% BCa bootstrap interval, n = 6)
    >>> bootstrap(lambda x, y: x.max() - y.max(), ([1, 2, 4], [1, 3, 5, 9]), random_state=0).estimate
    -5.0
    """
    # Here, not above: the room loads this module at once, and compiled kernels should not delay it.
    from assay.inference._statistics import make_problem

    method = choice(method, "method", METHODS)
    level = fraction(level, "level")
    n_resamples = whole(n_resamples, "n_resamples")
    check_switches(paired, vectorised, n_jobs)
    if not _names_a_statistic(statistic) and _names_a_statistic(data):
        what = "statistic and data are swapped: the statistic comes first"
        raise DataTypeError(what, remedy=f"call bootstrap({_shown(data)}, data)")
    problem = make_problem(statistic, _samples(data), paired, strata, vectorised, std_error, method == "studentised")
    estimate = problem.estimate()
    seeds = seed_sequence(random_state)
    raw, errors = problem.replicates(seeds, n_resamples, n_jobs)
    kept = np.isfinite(raw)
    replicates = raw[kept]
    if replicates.size < 2 and n_resamples >= 2:
        what = f"the {problem.estimand} is not defined on {n_resamples - replicates.size} of {n_resamples} resamples"
        raise DataError(what, remedy="pass more rows, or a statistic that is defined on fewer distinct rows")
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.std(replicates, ddof=1)) if replicates.size > 1 else np.nan
        bias = float(np.mean(replicates - estimate))
    result = Bootstrap(
        estimate=estimate,
        std_error=spread,
        bias=bias,
        replicates=freeze(replicates),
        n=problem.n,
        n_resamples=n_resamples,
        undefined=int(n_resamples - replicates.size),
        estimand=problem.estimand,
        method=method,
        level=level,
        resampling=problem.words,
        pivots=None if errors is None else freeze(_pivots(replicates, estimate, errors[kept])),
        problem=problem,
    )
    result.interval()  # what cannot be worked out is said now, not when the result is read
    return result


def _names_a_statistic(value: Any) -> bool:
    """A function, a name, or ("quantile", q): what no sample is."""
    first = next(iter(value), None) if isinstance(value, tuple) else value
    return callable(value) or isinstance(first, str)


def _shown(statistic: Any) -> str:
    return str(getattr(statistic, "__name__", "statistic")) if callable(statistic) else repr(statistic)


def acceleration(influence: list[Array]) -> float:
    """a = sum_h sum_i (U_hi / n_h)^3 / (6 (sum_h sum_i (U_hi / n_h)^2)^1.5), U = (n_h - 1)(mean - leave-one-out)."""
    parts = np.concatenate([u / u.size for u in influence])
    size = np.abs(parts).max(initial=0.0)
    if size == 0:
        return 0.0
    scaled = parts / size
    return float(np.sum(scaled**3) / (6 * np.sum(scaled**2) ** 1.5))


def _pivots(replicates: Array, estimate: float, errors: Array) -> Array:
    """t* = (theta* - theta) / se*; a resample without any spread has no pivot."""
    good = errors > 0
    with np.errstate(over="ignore"):
        return (replicates[good] - estimate) / errors[good]


def _percentile(result: Bootstrap, tails: Array) -> Array:
    return np.quantile(result.replicates, tails)


def _basic(result: Bootstrap, tails: Array) -> Array:
    return 2 * result.estimate - np.quantile(result.replicates, tails)[::-1]


def _normal(result: Bootstrap, tails: Array) -> Array:
    return result.estimate - result.bias + special.ndtri(tails) * result.std_error


def _studentised(result: Bootstrap, tails: Array) -> Array:
    if result.pivots is None or result.problem is None:
        raise ParameterError("the studentised interval needs the standard error of every resample", remedy=_AGAIN)
    error = result.problem.error()
    if result.pivots.size == 0:
        return np.array([result.estimate, result.estimate])  # nothing varies in any resample
    return result.estimate - np.quantile(result.pivots, tails)[::-1] * error


def _bca(result: Bootstrap, tails: Array) -> Array:
    values = result.replicates
    low, high = float(values.min()), float(values.max())
    if low == high == result.estimate:
        return np.array([low, high])
    share = (np.sum(values < result.estimate) + 0.5 * np.sum(values == result.estimate)) / values.size
    if share in (0.0, 1.0):
        side = "below" if share == 1 else "above"
        what = f"every replicate lies {side} the estimate, so the BCa interval is not defined"
        raise DataError(what, remedy='use method="percentile" or "basic", or more resamples')
    shift, bend = special.ndtri(share), result.acceleration
    z = shift + special.ndtri(tails)
    room = 1 - bend * z
    # Where the denominator is not positive the limit has run out of the distribution's end.
    moved = np.where(room > 0, special.ndtr(shift + z / np.where(room > 0, room, 1.0)), (z > 0).astype(float))
    return np.quantile(values, moved)


_AGAIN = 'call bootstrap with method="studentised"'
_LIMITS = {
    "percentile": _percentile,
    "basic": _basic,
    "normal": _normal,
    "studentised": _studentised,
    "bca": _bca,
}


def _samples(data: Any) -> tuple[Array, ...]:
    """A tuple, or a list of arrays, is several samples; everything else is one sample or one table."""
    several = isinstance(data, tuple) or (
        isinstance(data, list) and len(data) > 0 and all(isinstance(part, np.ndarray | pd.Series) for part in data)
    )
    several = several and len(data) > 0 and np.ndim(data[0]) > 0
    if not several:
        values, names = sample(data, "data", least=2)
        return (values if names else values[:, 0],)
    parts = []
    for j, part in enumerate(data):
        values, names = sample(part, f"sample {j}", least=2)
        if names:
            raise DataError(f"sample {j} has {len(names)} columns", remedy="pass one column per sample")
        parts.append(values[:, 0])
    return tuple(parts)


def check_switches(paired: Any, vectorised: Any, n_jobs: Any) -> None:
    """Refuse switches that are no switches."""
    if not isinstance(paired, bool | np.bool_):
        raise ParameterError(f"paired = {paired!r} is not True or False")
    if vectorised is not None and not isinstance(vectorised, bool | np.bool_):
        raise ParameterError(f"vectorised = {vectorised!r} is not True, False or None")
    if n_jobs is not None and (not isinstance(n_jobs, int | np.integer) or isinstance(n_jobs, bool) or n_jobs == 0):
        raise ParameterError(f"n_jobs = {n_jobs!r} is not a whole number other than 0, or None")
