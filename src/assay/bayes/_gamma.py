"""A rate and its events: Gamma(shape, rate) prior, Poisson counts.

shape' = shape + total,   rate' = rate + exposure;      next count ~ negative binomial
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from assay.bayes._stable import log_poisson
from assay.bayes._validation import counted, grouped, labels_of, plain
from assay.bayes.conjugate_model import BayesFactor, Conjugate, Names, Statistics
from assay.bayes.count_laws import NegativeBinomialLaw, log_negative_binomial
from assay.bayes.laws import Gamma
from assay.errors import DataError, ParameterError

__all__ = ["GammaPoisson"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class GammaPoisson(Conjugate):
    """A rate of events lambda with a Gamma(shape, rate) prior, learned from counts.

        lambda | counts x_i in exposures e_i ~ Gamma(shape + sum x_i, rate + sum e_i)
        mean shape'/rate',   MAP (shape' - 1)/rate' (0 where shape' <= 1),   next count ~ negative binomial

    | parameter | default | range       | meaning                                                |
    |-----------|---------|-------------|--------------------------------------------------------|
    | shape     |         | above 0     | events the prior is worth; one, or one per group       |
    | rate      |         | above 0     | exposure the prior is worth; one, or one per group     |
    | names     | ()      | one a group | names of the groups                                    |
    | prior     | None    |             | where a posterior started from; kept by updating       |
    | seen      | None    |             | (n, total, exposure) behind a posterior                |

    Attributes: `mean`, `mode`, `var`, `std`, `n`, `law` (the Gamma distribution).
    Gelman et al., Bayesian Data Analysis, section 2.6.

    >>> posterior = GammaPoisson(2, 1).update([3, 1, 4])
    >>> posterior.shape, posterior.rate, posterior.mean, posterior.mode
    (10.0, 4.0, 2.5, 2.25)
    >>> round(posterior.predictive().pmf(0), 6)
    0.107374
    """

    quantity: ClassVar[str] = "rate"
    shape: Any
    rate: Any

    def update(self, data: Any, *, exposure: Any = None, weights: Any = None, groups: Any = None) -> Self:
        """The posterior after counts, each over its `exposure` (None: 1): one column, several, or by `groups`."""
        statistics, _, names = self._statistics(data, exposure=exposure, weights=weights, groups=groups)
        return self._after(statistics, names)

    def update_counts(self, total: Any, exposure: Any) -> Self:
        """The posterior after so many events in so much exposure; arrays or Series hold one entry per group."""
        return self._after(*_totals(total, exposure))

    def _absorb(self, seen: Statistics) -> dict[str, Array]:
        _, total, exposure = seen
        return {"shape": self.shape + total, "rate": self.rate + exposure}

    @property
    def law(self) -> Gamma:
        """The distribution of the rate."""
        shape, rate = np.broadcast_arrays(self.shape, self.rate)
        return Gamma(shape, rate, names=self.names, n=self.n, quantity=self.quantity)

    @property
    def mean(self) -> Any:
        """The mean of the rate."""
        return self.law.mean

    def predictive(self, exposure: Any = 1.0) -> NegativeBinomialLaw:
        """The law of the events in the next `exposure`: negative binomial."""
        e = counted(exposure, "exposure")
        if (e <= 0).any():
            raise DataError("exposure contains 0, in which no events can occur", remedy="pass numbers above 0")
        shape, rate = np.broadcast_arrays(self.shape, self.rate)
        name = f"events in exposure {e:g}" if e.ndim == 0 else "events"
        return NegativeBinomialLaw(shape, rate, e, names=self.names, n=self.n, quantity=name)

    def log_marginal_counts(self, total: Any, exposure: Any) -> Any:
        """log P(total events in that exposure): a negative binomial probability."""
        statistics, names = _totals(total, exposure)
        return plain(self._log_evidence(self._aligned(statistics, names)[1]))

    def bayes_factor_counts(self, other: Any, total: Any, exposure: Any) -> BayesFactor:
        """This prior against another (or against a single rate), from totals."""
        return self._against(other, *_totals(total, exposure))

    def _statistics(self, data: Any, **how: Any) -> tuple[Statistics, Array, Names]:
        rows = grouped(data, how.get("weights"), how.get("groups"))
        x = rows.values
        wrong = (x < 0) | (x != np.floor(x))
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            what = f"data contains {x[row, column]:g} in row {row}, which is not a count"
            raise DataError(what, remedy="pass whole numbers of at least 0")
        e = np.ones(x.shape) if how.get("exposure") is None else _exposures(how["exposure"], x.shape)
        total, exposure = rows.sum(x), rows.sum(e)
        # log p(x) = log p(total) + log p(x | total), and the second is multinomial whatever the prior.
        whole_ = np.asarray(exposure)
        best = np.divide(total, whole_, out=np.zeros(np.shape(total)), where=whole_ > 0)
        constant = rows.sum(log_poisson(x, rows.spread(best) * e)) - log_poisson(total, best * exposure)
        return (rows.n, total, exposure), constant, rows.names

    def _log_evidence(self, statistics: Statistics) -> Array:
        _, total, exposure = statistics
        rate = np.asarray(self.rate)
        both = rate + exposure
        return log_negative_binomial(total, np.asarray(self.shape), rate / both, exposure / both)

    def _log_point(self, value: Array, statistics: Statistics) -> Array:
        if not (np.isfinite(value) & (value >= 0)).all():
            raise ParameterError(f"{value} is not a rate", remedy="pass a number of at least 0, or another prior")
        _, total, exposure = statistics
        return log_poisson(total, value * exposure)

    def _notes(self) -> list[str]:
        return ["the mode is the lower end: the density only falls"] if self.shape <= 1 else []


def _totals(total: Any, exposure: Any) -> tuple[Statistics, Names]:
    names = labels_of(total) or labels_of(exposure)
    if labels_of(total) and labels_of(exposure) and labels_of(total) != labels_of(exposure):
        raise DataError("total and exposure are labelled differently", remedy="give both the same index")
    t, e = counted(total, "total"), counted(exposure, "exposure")
    try:
        t, e = np.broadcast_arrays(t, e)
    except ValueError as error:
        what = f"total has {t.size} entries but exposure has {e.size}"
        raise DataError(what, remedy="pass one exposure for all, or one per group") from error
    idle = (e == 0) & (t > 0)
    if idle.any():
        where = f" in position {int(np.argmax(np.atleast_1d(idle)))}" if t.ndim else ""
        raise DataError(f"there are events in an exposure of 0{where}", remedy="correct the exposure")
    return (e, t, e), names


def _exposures(exposure: Any, shape: tuple[int, ...]) -> Array:
    e = counted(exposure, "exposure", dims=2)
    e = e[:, None] if e.ndim == 1 and e.shape[0] == shape[0] else e
    if (e <= 0).any():
        row = int(np.argwhere(np.atleast_1d(e) <= 0)[0][0])
        raise DataError(f"exposure is 0 in row {row}", remedy="pass numbers above 0, or drop that row")
    try:
        return np.broadcast_to(e, shape)
    except ValueError as error:
        what = f"exposure has shape {e.shape} for data of shape {shape}"
        raise DataError(what, remedy="pass one exposure per count") from error
