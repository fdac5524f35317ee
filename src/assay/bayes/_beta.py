"""A chance and its successes: Beta(a, b) prior, binomial counts.

a' = a + k,   b' = b + n - k;      next n successes ~ beta-binomial;      p(k of n) = C(n, k) B(a', b') / B(a, b)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from assay.bayes._stable import log_poisson
from assay.bayes._validation import counted, grouped, labels_of, plain
from assay.bayes.conjugate_model import BayesFactor, Conjugate, Names, Statistics
from assay.bayes.count_laws import BetaBinomialLaw, log_beta_binomial
from assay.bayes.laws import Beta
from assay.errors import DataError, ParameterError

__all__ = ["BetaBinomial"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class BetaBinomial(Conjugate):
    """A chance theta with a Beta(a, b) prior, learned from successes and failures.

        theta | k successes in n trials ~ Beta(a + k, b + n - k)
        mean (a + k)/(a + b + n),   MAP (a + k - 1)/(a + b + n - 2),   next trial a success with the mean's chance

    With a = b = 1 the next success has chance (k + 1)/(n + 2): Laplace's rule of succession. The MAP formula holds
    where both parameters exceed 1; where one is at most 1 the density only falls or rises and `mode` is that end (0 or
    1), and it is NaN where no single point is highest (both 1: flat; both below 1: two infinite ends).

    | parameter | default | range       | meaning                                             |
    |-----------|---------|-------------|-----------------------------------------------------|
    | a         | 1.0     | above 0     | successes the prior is worth; one, or one per group |
    | b         | 1.0     | above 0     | failures the prior is worth; one, or one per group  |
    | names     | ()      | one a group | names of the groups                                 |
    | prior     | None    |             | where a posterior started from; kept by updating    |
    | seen      | None    |             | (trials, successes) behind a posterior              |

    Attributes: `mean`, `mode`, `var`, `std`, `n` (trials seen), `law` (the Beta distribution).

    Laplace (1774), Mémoire sur la probabilité des causes par les évènements; Gelman et al., Bayesian Data
    Analysis, chapter 2.

    >>> posterior = BetaBinomial(1, 1).update_counts(7, 10)
    >>> posterior.mode, round(posterior.mean, 4), round(posterior.predictive().mean, 4)
    (0.7, 0.6667, 0.6667)
    >>> print(posterior.interval(0.95, "highest-density"))
    chance 0.67 [0.41, 0.91] (95% credible (highest-density) interval, n = 10)
    """

    quantity: ClassVar[str] = "chance"
    a: Any = 1.0
    b: Any = 1.0

    def update(self, data: Any, *, weights: Any = None, groups: Any = None) -> Self:
        """The posterior after outcomes 0 or 1: one column, one column per group, or labelled by `groups`.

        Weights count as repetition.
        """
        statistics, _, names = self._statistics(data, weights=weights, groups=groups)
        return self._after(statistics, names)

    def update_counts(self, successes: Any, trials: Any) -> Self:
        """The posterior after so many successes in so many trials; arrays or Series hold one entry per group."""
        return self._after(*_counts(successes, trials))

    def _absorb(self, seen: Statistics) -> dict[str, Array]:
        n, k = seen
        return {"a": self.a + k, "b": self.b + (n - k)}

    @property
    def law(self) -> Beta:
        """The distribution of the chance."""
        a, b = np.broadcast_arrays(self.a, self.b)
        return Beta(a, b, names=self.names, n=self.n, quantity=self.quantity)

    @property
    def mean(self) -> Any:
        """The mean of the chance, (a / (a + b)): also the chance of success at the next trial."""
        return self.law.mean

    def predictive(self, trials: Any = 1) -> BetaBinomialLaw:
        """The law of the successes in the next trials: beta-binomial; its mean for one trial is their chance."""
        m = counted(trials, "trials")
        if (m != np.floor(m)).any():
            raise DataError("trials contains a number with a fraction", remedy="pass whole numbers")
        name = f"successes in {m:g} trials" if m.ndim == 0 else "successes"
        a, b = np.broadcast_arrays(self.a, self.b)
        return BetaBinomialLaw(m, a, b, names=self.names, n=self.n, quantity=name)

    def log_marginal_counts(self, successes: Any, trials: Any) -> Any:
        """log P(k successes in n trials), in whatever order: a beta-binomial probability."""
        statistics, names = _counts(successes, trials)
        return plain(self._log_evidence(self._aligned(statistics, names)[1]))

    def bayes_factor_counts(self, other: Any, successes: Any, trials: Any) -> BayesFactor:
        """This prior against another (or against a single chance, such as 0.5), from counts."""
        return self._against(other, *_counts(successes, trials))

    def _statistics(self, data: Any, **how: Any) -> tuple[Statistics, Array, Names]:
        rows = grouped(data, how.get("weights"), how.get("groups"))
        wrong = (rows.values != 0) & (rows.values != 1)
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            what = f"data contains {rows.values[row, column]:g} in row {row}, not 0 or 1"
            raise DataError(what, remedy="pass outcomes, or counts to update_counts")
        n, k = rows.n, rows.sum(rows.values)
        return (n, k), -_log_choose(n, k), rows.names

    def _log_evidence(self, statistics: Statistics) -> Array:
        n, k = statistics
        return log_beta_binomial(k, n, np.asarray(self.a), np.asarray(self.b))

    def _log_point(self, value: Array, statistics: Statistics) -> Array:
        if not ((value >= 0) & (value <= 1)).all():
            raise ParameterError(f"{value} is not a probability", remedy="pass a number from 0 to 1, or another prior")
        n, k = statistics
        return _log_choose(n, k) + special.xlogy(k, value) + special.xlog1py(n - k, -value)

    def _notes(self) -> list[str]:
        if self.a > 1 and self.b > 1:
            return []
        if self.a == 1 and self.b == 1:
            return ["no mode: every probability is equally likely"]
        if self.a < 1 and self.b < 1:
            return ["no mode: the density rises towards both ends"]
        return [f"the mode is the {'lower' if self.a < self.b else 'upper'} end: the density has no peak inside"]


def _counts(successes: Any, trials: Any) -> tuple[Statistics, Names]:
    names = labels_of(successes) or labels_of(trials)
    if labels_of(successes) and labels_of(trials) and labels_of(successes) != labels_of(trials):
        raise DataError("successes and trials are labelled differently", remedy="give both the same index")
    k, n = counted(successes, "successes"), counted(trials, "trials")
    try:
        k, n = np.broadcast_arrays(k, n)
    except ValueError as error:
        what = f"successes has {k.size} entries but trials has {n.size}"
        raise DataError(what, remedy="pass one number of trials for all, or one per group") from error
    if (k > n).any():
        at = int(np.argmax(np.atleast_1d(k > n)))
        where = f" in position {at}" if k.ndim else ""
        what = f"there are {np.atleast_1d(k)[at]:g} successes in {np.atleast_1d(n)[at]:g} trials{where}"
        raise DataError(what, remedy="pass successes and all trials, failures included")
    return (n, k), names


def _log_choose(n: Array, k: Array) -> Array:
    """log of the number of orders of k successes and n - k failures."""
    share = np.divide(k, n, out=np.zeros(np.shape(k)), where=np.asarray(n) > 0)
    rest = np.divide(n - k, n, out=np.ones(np.shape(k)), where=np.asarray(n) > 0)
    binomial = log_poisson(k, n * share) + log_poisson(n - k, n * rest) - log_poisson(n, n)
    return binomial - special.xlogy(k, share) - special.xlogy(n - k, rest)
