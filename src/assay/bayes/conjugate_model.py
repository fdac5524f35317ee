"""What all conjugate models share: one object is prior and posterior, and updating returns the next one.

    prior.update(data) -> posterior,    posterior.update(more) -> posterior,    a.merge(b) -> posterior of both

A model keeps the prior it started from and the statistics it has seen, so that merging adds statistics and subtracts
nothing. `log_marginal` is the logarithm of the probability (density) of data before they are seen; the difference of
two is a Bayes factor, read on the scale of Kass and Raftery (1995), JASA 90, 773-795.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import special

from assay.bayes._validation import align, parameter, plain, share
from assay.bayes.laws import Law
from assay.checks import fraction
from assay.errors import DataError, ParameterError
from assay.numbers import fmt
from assay.results import Interval, Result

__all__ = ["BayesFactor", "Conjugate"]

Array = np.ndarray
Names = tuple[str, ...]
Statistics = tuple[Array, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Conjugate(Result):
    """Root of the conjugate models of one parameter; parameters are numbers or arrays, one entry per group."""

    quantity: ClassVar[str] = ""
    free: ClassVar[tuple[str, ...]] = ()  # parameters that may be negative
    names: Names = field(default=(), kw_only=True)
    prior: Self | None = field(default=None, kw_only=True)
    seen: Statistics | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(map(str, self.names)))
        values = {name: parameter(getattr(self, name), name, positive=name not in self.free) for name in self._fields()}
        share(values, self.names)
        for name, value in values.items():
            object.__setattr__(self, name, plain(value))

    def _fields(self) -> list[str]:
        return [f.name for f in fields(self) if not f.kw_only]

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields()}

    def _groups(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(value) for value in self._parameters().values()))

    @property
    def n(self) -> Any:
        """Total weight of the observations behind the posterior; 0 for a prior."""
        return 0 if self.seen is None else plain(self.seen[0])

    # ------------------------------------------------------------------------------------------- updating

    def _absorb(self, seen: Statistics) -> dict[str, Array]:
        """The parameters after statistics have been seen."""
        raise NotImplementedError

    def _add(self, a: Statistics, b: Statistics) -> Statistics:
        return tuple(x + y for x, y in zip(a, b, strict=True))

    def _after(self, statistics: Statistics, names: Names) -> Self:
        names, statistics = self._aligned(statistics, names)
        seen = statistics if self.seen is None else self._add(self.seen, statistics)
        first = self if self.prior is None else self.prior
        return type(self)(**self._absorb(statistics), **self._extras(), names=names, prior=first, seen=seen)

    def _extras(self) -> dict[str, Any]:
        return {}

    def _aligned(self, statistics: Statistics, names: Names) -> tuple[Names, Statistics]:
        groups = self._groups()
        names, statistics = align(self.names, names, statistics)
        count = np.shape(statistics[0])
        if groups and count and groups[0] != count[0] and 1 not in (groups[0], count[0]):
            what = f"the data have {count[0]} groups, the prior has {groups[0]}"
            raise DataError(what, remedy="pass one entry (or column) per group of the prior")
        return names, statistics

    def merge(self, other: Self) -> Self:
        """The posterior given what either has seen; both must come from the same prior."""
        if type(other) is not type(self):
            what = f"a {type(self).__name__} cannot be merged with a {type(other).__name__}"
            raise DataError(what, remedy="merge posteriors of one model")
        mine, theirs = (model.prior or model for model in (self, other))
        same = all(np.array_equal(mine._parameters()[name], theirs._parameters()[name]) for name in mine._fields())
        if not same:
            raise DataError("the two posteriors come from different priors", remedy="start both from the same prior")
        return self if other.seen is None else self._after(other.seen, other.names)

    # ------------------------------------------------------------------------------------------- the posterior

    @property
    def law(self) -> Law:
        """The distribution of the parameter: pdf, cdf, ppf, ... (see `Law`)."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most probable value (MAP); NaN where the density has no single highest point."""
        return self.law.mode

    @property
    def var(self) -> Any:
        """The variance of the parameter."""
        return self.law.var

    @property
    def std(self) -> Any:
        """The standard deviation of the parameter."""
        return self.law.std

    def interval(self, level: float = 0.95, kind: str = "equal-tailed") -> Interval:
        """Credible interval: `kind` "equal-tailed", or "highest-density", the shortest of that probability."""
        return self.law.interval(level, kind)

    def sample(self, size: int | tuple[int, ...] | None = None, random_state: Any = None) -> Any:
        """Draws of the parameter, `size` along the first axis, groups along the last; None: one."""
        return self.law.rvs(size, random_state)

    # ------------------------------------------------------------------------------------------- evidence

    def _statistics(self, data: Any, **how: Any) -> tuple[Statistics, Array, Names]:
        """Statistics of raw data, the part of log p(data) that no prior changes, and the names of groups."""
        raise NotImplementedError

    def _log_evidence(self, statistics: Statistics) -> Array:
        """Log of the marginal density of the statistics."""
        raise NotImplementedError

    def _log_point(self, value: Array, statistics: Statistics) -> Array:
        """Log of their density if the parameter were known."""
        what = f"a single value is not a valid hypothesis for a {type(self).__name__}"
        raise ParameterError(what, remedy="pass another prior")

    def log_marginal(self, data: Any, **how: Any) -> Any:
        """log p(data), the parameter integrated out; takes what `update` takes."""
        statistics, constant, names = self._statistics(data, **how)
        _, statistics = self._aligned(statistics, names)
        return plain(self._log_evidence(statistics) + constant)

    def bayes_factor(self, other: Any, data: Any, **how: Any) -> BayesFactor:
        """How much better this prior predicted the data than `other`: a prior, or a value of the parameter."""
        statistics, constant, names = self._statistics(data, **how)
        return self._against(other, statistics, names, other_data=(data, how), constant=constant)

    def _against(
        self, other: Any, statistics: Statistics, names: Names, other_data: Any = None, constant: Any = 0.0
    ) -> BayesFactor:
        names, statistics = self._aligned(statistics, names)
        mine = self._log_evidence(statistics)
        if isinstance(other, type(self)):
            theirs, word = other._log_evidence(other._aligned(statistics, names)[1]), other._says()
        elif isinstance(other, Conjugate) and other_data is not None:
            # Another model of the same data: here the constants differ and both are needed.
            data, how = other_data
            mine, theirs, word = mine + constant, np.asarray(other.log_marginal(data, **how)), other._says()
        elif isinstance(other, Result):
            what = f"a {type(other).__name__} is not a prior for these data"
            raise ParameterError(what, remedy="pass a prior or a value")
        else:
            theirs, word = self._log_point(np.asarray(other, dtype=np.float64), statistics), self._value_says(other)
        value = np.asarray(mine - theirs)
        return BayesFactor(plain(value), self._says(), word, plain(statistics[0]), names)

    def _value_says(self, value: Any) -> str:
        shown = np.asarray(value)
        return f"{self.quantity} = {float(shown):g}" if shown.ndim == 0 else f"{self.quantity} given"

    # ------------------------------------------------------------------------------------------- showing

    def _says(self) -> str:
        inside = (f"{name}={value:g}" if np.ndim(value) == 0 else name for name, value in self._parameters().items())
        return f"{type(self).__name__}({', '.join(inside)})"

    def to_frame(self) -> pd.DataFrame:
        """One row per group: parameters, mean, mode, standard deviation and 95% equal-tailed limits."""
        law = self.law.to_frame()
        shown = law[["mean", "mode", "std", "lower", "upper"]]
        front = pd.DataFrame({k: np.broadcast_to(v, len(law)) for k, v in self._parameters().items()}, index=law.index)
        return pd.concat([front.drop(columns=[c for c in shown if c in front]), shown], axis=1)

    def __str__(self) -> str:
        role = "prior" if self.seen is None else "posterior"
        law = self.law
        if law._groups():
            head = f"{type(self).__name__} {role} of {self.quantity}, {law._groups()[0]} groups"
            return f"{head}\n{self.to_frame().head(10).to_string()}"
        lines = [f"{self._says()}, {role}", str(law), *self._notes(), str(self.interval(0.95))]
        return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])

    def _notes(self) -> list[str]:
        """Sentences a reader of one group needs."""
        return []


STRENGTH = ((150.0, "very strong"), (20.0, "strong"), (3.0, "positive"), (1.0, "barely worth mentioning"))
"""Kass and Raftery (1995), section 3.2."""


@dataclass(frozen=True, eq=False, repr=False)
class BayesFactor(Result):
    """p(data | model) / p(data | other), as a logarithm and in words (Kass and Raftery 1995).

    | field            | meaning                                                      |
    |------------------|--------------------------------------------------------------|
    | log_bayes_factor | natural logarithm of the ratio, one per group                |
    | model, other     | the two hypotheses                                           |
    | n, names         | total weight of the observations, and names of the groups    |

    >>> print(BayesFactor(2.0, "A", "B", 10))
    Bayes factor of A against B: 7.389 (log 2), n = 10
    evidence for A: positive (Kass and Raftery 1995); with even prior odds P(A | data) = 0.881
    """

    log_bayes_factor: Any
    model: str
    other: str
    n: Any
    names: Names = ()

    @property
    def bayes_factor(self) -> Any:
        """The ratio itself; infinite beyond what a number holds."""
        with np.errstate(over="ignore", under="ignore"):
            return plain(np.exp(self.log_bayes_factor))

    def probability(self, prior: float = 0.5) -> Any:
        """P(model | data) if the model had probability `prior` before, and the other the rest."""
        return plain(special.expit(np.asarray(self.log_bayes_factor) + special.logit(fraction(prior, "prior"))))

    @property
    def strength(self) -> Any:
        """The evidence in words, for whichever is favoured; one word per group."""
        words = [_strength(value) for value in np.atleast_1d(self.log_bayes_factor)]
        return words[0] if np.ndim(self.log_bayes_factor) == 0 else words

    def to_frame(self) -> pd.DataFrame:
        """One row per group: log_bayes_factor, bayes_factor, favours, strength."""
        value = np.atleast_1d(self.log_bayes_factor)
        favours = np.where(value == 0, "neither", np.where(value > 0, self.model, self.other))
        index = list(self.names) or None
        columns = {
            "log_bayes_factor": value,
            "bayes_factor": np.atleast_1d(self.bayes_factor),
            "favours": favours,
            "strength": np.atleast_1d(self.strength),
        }
        return pd.DataFrame(columns, index=index)

    def __str__(self) -> str:
        if np.ndim(self.log_bayes_factor):
            head = f"Bayes factors of {self.model} against {self.other} (words: Kass and Raftery 1995)"
            return f"{head}\n{self.to_frame().head(20).to_string()}"
        value = float(self.log_bayes_factor)
        lines = [
            f"Bayes factor of {self.model} against {self.other}: {fmt(self.bayes_factor)} (log {fmt(value)}), "
            f"n = {self.n:g}"
        ]
        towards = self.model if value > 0 else self.other
        chance = f"with even prior odds P({self.model} | data) = {fmt(self.probability(), 3)}"
        words = "no evidence either way" if value == 0 else f"evidence for {towards}: {self.strength}"
        return "\n".join([*lines, f"{words} (Kass and Raftery 1995); {chance}"])


def _strength(value: float) -> str:
    size = abs(value)
    return next((word for bound, word in STRENGTH if size >= np.log(bound)), "none")
