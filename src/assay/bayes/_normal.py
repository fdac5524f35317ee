"""A normal mean, its variance known or not: normal prior, and normal-gamma prior.

    known variance    1/v' = 1/v + n/sigma2,   m' = v' (m/v + n xbar/sigma2);           next x ~ N(m', v' + sigma2)
    unknown           kappa' = kappa + n,  m' = (kappa m + n xbar)/kappa',  shape' = shape + n/2,
                      rate' = rate + ss/2 + kappa n (xbar - m)^2 / (2 kappa');            next x ~ Student's t

Data enter as (n, xbar, ss), ss the sum of squares about xbar, which merge without cancellation (Chan, Golub
and LeVeque 1983).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from assay.bayes._stable import log_gamma_weight
from assay.bayes._validation import counted, draws, grouped, labels_of
from assay.bayes.conjugate_model import Conjugate, Names, Statistics
from assay.bayes.laws import Gamma, InverseGamma, Law, Normal, StudentT
from assay.checks import choice
from assay.errors import DataError
from assay.numerics.seeds import generator
from assay.results import Interval

__all__ = ["NormalGamma", "NormalMean"]

Array = np.ndarray
LOG_2PI = float(np.log(2 * np.pi))


class _OfNormalData(Conjugate):
    """Models of normal data share their statistics."""

    def _statistics(self, data: Any, **how: Any) -> tuple[Statistics, Array, Names]:
        rows = grouped(data, how.get("weights"), how.get("groups"))
        n = np.asarray(rows.n)
        safe = np.where(n > 0, n, 1.0)
        mean = rows.sum(rows.values) / safe
        mean = mean + rows.sum(rows.values - rows.spread(mean)) / safe  # what rounding left over
        ss = rows.sum((rows.values - rows.spread(mean)) ** 2)
        return (n, np.asarray(mean), np.asarray(ss)), np.asarray(0.0), rows.names

    def _add(self, a: Statistics, b: Statistics) -> Statistics:
        n = a[0] + b[0]
        share = np.divide(b[0], n, out=np.zeros(np.shape(n)), where=np.asarray(n) > 0)
        gap = b[1] - a[1]
        return n, a[1] + gap * share, a[2] + b[2] + a[0] * share * gap**2


@dataclass(frozen=True, eq=False, repr=False)
class NormalMean(_OfNormalData):
    """The mean of normal data whose variance sigma2 is known, with a N(mean, variance) prior.

        mu | x ~ N(m', v'),   1/v' = 1/variance + n/sigma2,   m' = v' (mean/variance + n xbar/sigma2)

    | parameter | default | range       | meaning                                             |
    |-----------|---------|-------------|-----------------------------------------------------|
    | mean      |         | any         | prior mean; one, or one per group                   |
    | variance  |         | above 0     | prior variance; one, or one per group               |
    | sigma2    |         | above 0     | variance of one observation, known                  |
    | names     | ()      | one a group | names of the groups                                 |
    | prior     | None    |             | where a posterior started from; kept by updating    |
    | seen      | None    |             | (n, mean, sum of squares) behind a posterior        |

    Attributes: `mean` (also the MAP, `mode`), `var`, `std`, `n`, `law` (the normal distribution).
    Gelman et al., Bayesian Data Analysis, section 2.5.

    >>> posterior = NormalMean(0, 4, 1).update([1.0, 2.0, 3.0])
    >>> round(posterior.mean, 4), round(posterior.var, 4), round(posterior.predictive().var, 4)
    (1.8462, 0.3077, 1.3077)
    """

    quantity: ClassVar[str] = "mean"
    free: ClassVar[tuple[str, ...]] = ("mean",)
    mean: Any
    variance: Any
    sigma2: Any

    def update(self, data: Any, *, weights: Any = None, groups: Any = None) -> Self:
        """The posterior after observations: one column, one column per group, or labelled by `groups`."""
        statistics, _, names = self._statistics(data, weights=weights, groups=groups)
        return self._after(statistics, names)

    def update_moments(self, n: Any, mean: Any) -> Self:
        """The posterior after n observations with that mean; arrays or Series hold one entry per group."""
        (size, middle, _), names = _moments(n, mean, 0.0)
        return self._after((size, middle, np.zeros(size.shape)), names)

    def _absorb(self, seen: Statistics) -> dict[str, Array]:
        n, mean, _ = seen
        gain = n * (self.variance / self.sigma2)  # observations against what the prior is worth
        middle = self.mean + (mean - self.mean) * (gain / (1.0 + gain))
        return {"mean": middle, "variance": self.variance / (1.0 + gain), "sigma2": self.sigma2}

    @property
    def law(self) -> Normal:
        """The distribution of the mean."""
        mean, variance, _ = np.broadcast_arrays(self.mean, self.variance, self.sigma2)
        return Normal(mean, variance, names=self.names, n=self.n, quantity=self.quantity)

    def predictive(self) -> Normal:
        """The law of the next observation: N(mean, variance + sigma2)."""
        mean, variance = np.broadcast_arrays(self.mean, np.add(self.variance, self.sigma2))
        return Normal(mean, variance, names=self.names, n=self.n, quantity="next observation", manner="predictive")

    def _log_evidence(self, statistics: Statistics) -> Array:
        n, mean, ss = statistics
        gain = n * (self.variance / self.sigma2)
        misfit = ss + n * (mean - self.mean) ** 2 / (1.0 + gain)
        return -0.5 * (n * (LOG_2PI + np.log(self.sigma2)) + np.log1p(gain) + misfit / self.sigma2)

    def _log_point(self, value: Array, statistics: Statistics) -> Array:
        n, mean, ss = statistics
        return -0.5 * (n * (LOG_2PI + np.log(self.sigma2)) + (ss + n * (mean - value) ** 2) / self.sigma2)


@dataclass(frozen=True, eq=False, repr=False)
class NormalGamma(_OfNormalData):
    """Mean and variance of normal data, both unknown, with a normal-gamma prior.

        precision 1/sigma2 ~ Gamma(shape, rate),    mu | sigma2 ~ N(mean, sigma2 / kappa)

    The mean by itself has Student's t with 2 shape degrees of freedom. `mode` is that of the mean; the joint MAP has it
    too, with the precision (shape - 1/2)/rate where shape > 1/2.

    | parameter | default | range       | meaning                                                     |
    |-----------|---------|-------------|-------------------------------------------------------------|
    | mean      |         | any         | prior location of the mean; one, or one per group           |
    | kappa     |         | above 0     | observations the prior location is worth                    |
    | shape     |         | above 0     | half the observations the prior of the variance is worth    |
    | rate      |         | above 0     | half their sum of squares                                   |
    | names     | ()      | one a group | names of the groups                                         |
    | prior     | None    |             | where a posterior started from; kept by updating            |
    | seen      | None    |             | (n, mean, sum of squares) behind a posterior                |

    Attributes: `mean`, `mode`, `var`, `std` (of the mean), `n`; `law`, `variance_law`, `precision_law`.
    DeGroot (1970), Optimal Statistical Decisions, section 9.6.

    >>> posterior = NormalGamma(0, 1, 2, 2).update([1.0, 2.0, 3.0])
    >>> posterior.mean, posterior.kappa, posterior.shape, posterior.rate
    (1.5, 4.0, 3.5, 4.5)
    >>> print(posterior.interval(0.9, parameter="variance"))
    variance 1.8 [0.6, 4.2] (90% credible (equal-tailed) interval, n = 3)
    """

    quantity: ClassVar[str] = "mean"
    free: ClassVar[tuple[str, ...]] = ("mean",)
    mean: Any
    kappa: Any
    shape: Any
    rate: Any

    def update(self, data: Any, *, weights: Any = None, groups: Any = None) -> Self:
        """The posterior after observations: one column, one column per group, or labelled by `groups`."""
        statistics, _, names = self._statistics(data, weights=weights, groups=groups)
        return self._after(statistics, names)

    def update_moments(self, n: Any, mean: Any, variance: Any) -> Self:
        """The posterior after n observations with that mean and variance (divisor n - 1, any value where n < 2)."""
        return self._after(*_moments(n, mean, variance))

    def _absorb(self, seen: Statistics) -> dict[str, Array]:
        n, mean, ss = seen
        kappa = self.kappa + n
        gap = mean - self.mean
        return {
            "mean": self.mean + gap * (n / kappa),
            "kappa": kappa,
            "shape": self.shape + 0.5 * n,
            "rate": self.rate + 0.5 * (ss + self.kappa * (n / kappa) * gap**2),
        }

    def _spread(self) -> list[Array]:
        return list(np.broadcast_arrays(self.mean, self.kappa, self.shape, self.rate))

    @property
    def law(self) -> StudentT:
        """The distribution of the mean: Student's t."""
        mean, kappa, shape, rate = self._spread()
        scale2 = rate / (shape * kappa)
        return StudentT(2.0 * shape, mean, scale2, names=self.names, n=self.n, quantity=self.quantity)

    @property
    def variance_law(self) -> InverseGamma:
        """The distribution of the variance: inverse gamma."""
        _, _, shape, rate = self._spread()
        return InverseGamma(shape, rate, names=self.names, n=self.n, quantity="variance")

    @property
    def precision_law(self) -> Gamma:
        """The distribution of 1/variance: gamma."""
        _, _, shape, rate = self._spread()
        return Gamma(shape, rate, names=self.names, n=self.n, quantity="precision")

    def interval(self, level: float = 0.95, kind: str = "equal-tailed", parameter: str = "mean") -> Interval:
        """Credible interval of the "mean", the "variance" or the "precision", equal-tailed or highest-density."""
        choice(parameter, "parameter", ("mean", "variance", "precision"))
        laws: dict[str, Law] = {"mean": self.law, "variance": self.variance_law, "precision": self.precision_law}
        return laws[parameter].interval(level, kind)

    def predictive(self) -> StudentT:
        """The law of the next observation: Student's t."""
        mean, kappa, shape, rate = self._spread()
        scale2 = rate / shape * ((kappa + 1.0) / kappa)
        words = {"quantity": "next observation", "manner": "predictive"}
        return StudentT(2.0 * shape, mean, scale2, names=self.names, n=self.n, **words)

    def sample(self, size: int | tuple[int, ...] | None = None, random_state: Any = None) -> tuple[Any, Any]:
        """Joint draws (mean, variance), `size` along the first axis of each."""
        rng = generator(random_state)
        mean, kappa, shape, rate = self._spread()
        full = draws(size) + mean.shape
        variance = rate / rng.standard_gamma(shape, full)
        centre = mean + np.sqrt(variance / kappa) * rng.standard_normal(full)
        return (float(centre), float(variance)) if centre.ndim == 0 else (centre, variance)

    def _log_evidence(self, statistics: Statistics) -> Array:
        n = statistics[0]
        after = self._absorb(statistics)
        shape, rate = np.asarray(self.shape), np.asarray(self.rate)
        unit = after["shape"] / after["rate"]  # the posterior precision: both gamma terms are near their peak there
        gammas = log_gamma_weight(shape, rate * unit) - log_gamma_weight(after["shape"], after["shape"])
        exponent = 0.5 * n * np.log(unit) - (after["rate"] - rate) * unit
        return gammas + exponent + 0.5 * (np.log(self.kappa) - np.log(after["kappa"])) - 0.5 * n * LOG_2PI


def _moments(n: Any, mean: Any, variance: Any) -> tuple[Statistics, Names]:
    labels = [labels_of(value) for value in (n, mean, variance) if labels_of(value)]
    if any(label != labels[0] for label in labels):
        raise DataError("n, mean and variance are labelled differently", remedy="give all the same index")
    size = counted(n, "n")
    # A table of groups holds no mean where n = 0, and no variance where n < 2; neither is needed there.
    raw_mean, raw_variance = (np.asarray(value, dtype=np.float64) for value in (mean, variance))
    try:
        size, raw_mean, raw_variance = np.broadcast_arrays(size, raw_mean, raw_variance)
    except ValueError as error:
        raise DataError("n, mean and variance have different lengths", remedy="pass one of each per group") from error
    middle = counted(np.where(size > 0, raw_mean, 0.0), "mean", least=None)
    spread = counted(np.where(size > 1, raw_variance, 0.0), "variance")
    return (size, middle, spread * np.maximum(size - 1.0, 0.0)), labels[0] if labels else ()
