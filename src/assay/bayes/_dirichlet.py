"""Probabilities of categories and their counts: Dirichlet(alpha) prior, multinomial counts.

alpha' = alpha + counts;    next counts ~ Dirichlet-multinomial;    each probability by itself ~ Beta(alpha_j, rest)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import special

from assay.bayes._beta import BetaBinomial
from assay.bayes._stable import log_poisson
from assay.bayes._validation import counted, draws, grouped, plain
from assay.bayes.conjugate_model import BayesFactor, Conjugate, Names, Statistics
from assay.bayes.count_laws import DirichletMultinomialLaw, cross, draw_dirichlet, log_dirichlet_multinomial
from assay.bayes.laws import Beta
from assay.checks import refuse_improbable, whole
from assay.errors import DataError, ParameterError
from assay.numerics.seeds import generator
from assay.results import Interval

__all__ = ["DirichletMultinomial"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class DirichletMultinomial(Conjugate):
    """Probabilities of K categories with a Dirichlet(alpha) prior, learned from counts.

        theta | counts ~ Dirichlet(alpha + counts),    mean_j (alpha_j + k_j) / (A + n),   A = sum alpha
        MAP_j (alpha_j + k_j - 1) / (A + n - K)   where every alpha_j + k_j is at least 1

    With alpha = 1 the next observation falls into category j with chance (k_j + 1)/(n + K), Laplace's rule. Where
    some parameter is below 1 the density is infinite at the edge: `mode` is a corner if only one parameter is at least
    1, and NaN otherwise, as it is where all are 1 (flat).

    | parameter  | default | range               | meaning                                                  |
    |------------|---------|---------------------|----------------------------------------------------------|
    | alpha      |         | above 0, K >= 2     | counts the prior is worth: (K,), or (groups, K); a       |
    |            |         |                     | Series or DataFrame names categories (and groups)        |
    | categories | ()      | K of them           | names of the categories; empty: 0, 1, ..., K - 1         |
    | names      | ()      | one per group       | names of the groups                                      |
    | prior      | None    |                     | where a posterior started from; kept by updating         |
    | seen       | None    |                     | (n, counts) behind a posterior                           |

    Attributes: `mean`, `mode`, `var`, `std` (one entry per category), `n`; `marginal(j)` is one category against the
    rest. Johnson and Kotz (1972); Gelman et al., Bayesian Data Analysis, section 3.4.

    >>> posterior = DirichletMultinomial([1, 1, 1], categories=("red", "green", "blue")).update_counts([5, 3, 0])
    >>> posterior.mean.round(4).tolist(), posterior.mode.tolist()
    ([0.5455, 0.3636, 0.0909], [0.625, 0.375, 0.0])
    >>> round(posterior.predictive(2).pmf([1, 1, 0]), 6)
    0.363636
    """

    quantity: ClassVar[str] = "probability"
    alpha: Any
    categories: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        given = self.alpha
        if isinstance(given, pd.DataFrame):
            _fill(self, "names", given.index)
            _fill(self, "categories", given.columns)
        elif isinstance(given, pd.Series):
            _fill(self, "categories", given.index)
        alpha = _alpha(given)
        k = alpha.shape[-1]
        if self.categories and len(self.categories) != k:
            what = f"there are {len(self.categories)} categories for {k} parameters"
            raise ParameterError(what, remedy="pass one name per category, or none")
        if self.names and (alpha.ndim == 1 or len(self.names) != alpha.shape[0]):
            what = f"there are {len(self.names)} names for alpha of shape {alpha.shape}"
            raise ParameterError(what, remedy="pass one name per row of alpha, or none")
        object.__setattr__(self, "alpha", plain(alpha))
        object.__setattr__(self, "categories", tuple(map(str, self.categories)) or tuple(map(str, range(k))))
        object.__setattr__(self, "names", tuple(map(str, self.names)))

    def _fields(self) -> list[str]:
        return ["alpha"]

    def _groups(self) -> tuple[int, ...]:
        return self.alpha.shape[:-1]

    def _extras(self) -> dict[str, Any]:
        return {"categories": self.categories}

    # ------------------------------------------------------------------------------------------- updating

    def update(self, data: Any, *, weights: Any = None, groups: Any = None) -> Self:
        """The posterior after observed categories (their names or numbers), all together or by `groups`."""
        statistics, _, names = self._statistics(data, weights=weights, groups=groups)
        return self._after(statistics, names)

    def update_counts(self, counts: Any) -> Self:
        """The posterior after counts (K,), or (groups, K); columns and rows of a DataFrame are matched by name."""
        return self._after(*self._counts(counts))

    def _absorb(self, seen: Statistics) -> dict[str, Array]:
        return {"alpha": self.alpha + seen[1]}

    def _counts(self, counts: Any) -> tuple[Statistics, Names]:
        names: Names = ()
        if isinstance(counts, pd.DataFrame | pd.Series):
            labels = counts.columns if isinstance(counts, pd.DataFrame) else counts.index
            known = list(map(str, labels))
            if sorted(known) != sorted(self.categories):
                what = f"the counts are of {', '.join(known[:5])}, the prior is of {', '.join(self.categories[:5])}"
                raise DataError(what, remedy="pass one column per category of the prior")
            order = [known.index(name) for name in self.categories]
            names = tuple(map(str, counts.index)) if isinstance(counts, pd.DataFrame) else ()
            counts = counts.iloc[:, order] if isinstance(counts, pd.DataFrame) else counts.iloc[order]
        k = counted(counts, "counts", dims=2)
        if k.ndim == 0 or k.shape[-1] != len(self.categories):
            what = f"counts has shape {k.shape} for {len(self.categories)} categories"
            raise DataError(what, remedy="pass one count per category along the last axis")
        return (k.sum(axis=-1), k), names

    def _statistics(self, data: Any, **how: Any) -> tuple[Statistics, Array, Names]:
        codes = self._codes(data)
        rows = grouped(codes, how.get("weights"), how.get("groups"))
        size = len(self.categories)
        cell = codes if rows.codes is None else rows.codes * size + codes
        k = np.bincount(cell, weights=rows.weights, minlength=size * (rows.size or 1))
        k = k if rows.codes is None else k.reshape(-1, size)
        n = k.sum(axis=-1)
        return (n, k), -_log_orders(n, k), rows.names

    def _codes(self, data: Any) -> Array:
        labels = np.asarray(data).reshape(-1) if np.ndim(data) < 2 else np.asarray(data)
        if labels.ndim > 1 or labels.size == 0:
            what = f"data has shape {labels.shape}"
            raise DataError(what, remedy="pass one column of categories, or counts to update_counts")
        place = {name: j for j, name in enumerate(self.categories)}
        found, inverse = np.unique(pd.Series(labels).map(_label).to_numpy(dtype=str), return_inverse=True)
        codes = np.array([place.get(name, -1) for name in found])[inverse]
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            what = f"data contains {labels[row]!r} in row {row}, which is not a category"
            raise DataError(what, remedy=f"the categories are {', '.join(self.categories[:8])}")
        return codes

    # ------------------------------------------------------------------------------------------- the posterior

    @property
    def law(self) -> Beta:
        """The distributions of the probabilities, each by itself: one Beta per (group and) category."""
        a = np.asarray(self.alpha)
        names = cross(self.names, self.categories, a.shape)
        n = self.n if np.ndim(self.n) == 0 else np.repeat(self.n, len(self.categories))
        return Beta(a.reshape(-1), _rest(a).reshape(-1), names=names, n=n, quantity=self.quantity)

    @property
    def mean(self) -> Array:
        """Expected probabilities: also those of the next observation."""
        return plain(self.alpha / self.alpha.sum(axis=-1, keepdims=True))

    @property
    def mode(self) -> Array:
        """The most probable probabilities (MAP); NaN where no single point is highest."""
        a = np.asarray(self.alpha)
        above = a - 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = above / above.sum(axis=-1, keepdims=True)
        inside = (a >= 1).all(axis=-1, keepdims=True) & (a > 1).any(axis=-1, keepdims=True)
        corner = ((a >= 1).sum(axis=-1, keepdims=True) == 1) & ~inside
        return plain(np.where(inside, inner, np.where(corner, (a >= 1) * 1.0, np.nan)))

    @property
    def var(self) -> Array:
        """Variances of the probabilities."""
        share, total = self.mean, self.alpha.sum(axis=-1, keepdims=True)
        return plain(share * (_rest(self.alpha) / total) / (total + 1.0))

    @property
    def std(self) -> Array:
        """Standard deviations of the probabilities."""
        return plain(np.sqrt(self.var))

    def marginal(self, category: str | int) -> BetaBinomial:
        """One category against all others, as a `BetaBinomial`."""
        j = self.categories.index(category) if category in self.categories else category
        if isinstance(j, str) or not 0 <= whole(j, "category", 0) < len(self.categories):
            raise ParameterError(
                f"{category!r} is not a category", remedy=f"choose from {', '.join(self.categories[:8])}"
            )
        first = None if self.prior is None else self.prior.marginal(j)
        seen = None if self.seen is None else (np.asarray(self.seen[0]), np.asarray(self.seen[1])[..., j])
        return BetaBinomial(self.alpha[..., j], _rest(self.alpha)[..., j], names=self.names, prior=first, seen=seen)

    def sample(self, size: int | tuple[int, ...] | None = None, random_state: Any = None) -> Array:
        """Draws of the probabilities, `size` along the first axis, categories along the last."""
        return draw_dirichlet(generator(random_state), np.asarray(self.alpha), draws(size))

    def predictive(self, trials: int = 1) -> DirichletMultinomialLaw:
        """The law of the counts among the next `trials` observations."""
        m = float(whole(trials, "trials", 0))
        return DirichletMultinomialLaw(m, np.asarray(self.alpha), self.categories, self.names, self.n)

    # ------------------------------------------------------------------------------------------- evidence

    def log_marginal_counts(self, counts: Any) -> Any:
        """log P(counts), in whatever order: a Dirichlet-multinomial probability."""
        statistics, names = self._counts(counts)
        return plain(self._log_evidence(self._aligned(statistics, names)[1]))

    def bayes_factor_counts(self, other: Any, counts: Any) -> BayesFactor:
        """This prior against another, or against given probabilities, from counts."""
        return self._against(other, *self._counts(counts))

    def _log_evidence(self, statistics: Statistics) -> Array:
        return log_dirichlet_multinomial(statistics[1], np.asarray(self.alpha))

    def _log_point(self, value: Array, statistics: Statistics) -> Array:
        if value.ndim == 0 or value.shape[-1] != len(self.categories):
            what = f"{np.round(value, 6).tolist()} are not {len(self.categories)} probabilities"
            raise ParameterError(what, remedy="pass one per category, or another prior")
        refuse_improbable(value, "other", most=1 + 1e-9, tolerance=1e-9, error=ParameterError)
        n, k = statistics
        return _log_orders(n, k) + special.xlogy(k, value).sum(axis=-1)

    # ------------------------------------------------------------------------------------------- showing

    def interval(self, level: float = 0.95, kind: str = "equal-tailed") -> Interval:
        """Credible intervals of each probability by itself, one entry per (group and) category."""
        return self.law.interval(level, kind)

    def _says(self) -> str:
        if self.alpha.ndim > 1:
            return "DirichletMultinomial(alpha)"
        shown = ", ".join(f"{value:g}" for value in self.alpha[:6])
        return f"DirichletMultinomial([{shown}{', ...' if self.alpha.size > 6 else ''}])"

    def to_frame(self) -> pd.DataFrame:
        """One row per (group and) category: alpha, mean, mode, standard deviation and 95% limits."""
        law = self.law.to_frame()
        columns = {"alpha": self.alpha, "mean": self.mean, "mode": self.mode, "std": self.std}
        table = {name: np.asarray(value).reshape(-1) for name, value in columns.items()}
        return pd.DataFrame({**table, "lower": law["lower"], "upper": law["upper"]}, index=law.index)

    def __str__(self) -> str:
        role = "prior" if self.seen is None else "posterior"
        groups = "" if self.alpha.ndim == 1 else f", {self.alpha.shape[0]} groups"
        head = f"{self._says()}, {role} of {len(self.categories)} probabilities{groups}"
        return f"{head}\n{self.to_frame().head(20).to_string()}"


def _fill(model: Any, name: str, labels: Any) -> None:
    if not getattr(model, name):
        object.__setattr__(model, name, tuple(map(str, labels)))


def _alpha(value: Any) -> Array:
    try:
        alpha = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError("alpha contains a non-numeric value", remedy="pass one per category") from error
    if alpha.ndim not in (1, 2) or alpha.size == 0 or alpha.shape[-1] < 2:
        what = f"alpha has shape {alpha.shape}"
        raise ParameterError(what, remedy="pass one number for each of at least two categories, a row per group")
    if not (alpha.min() > 0 and alpha.max() < np.inf):
        bad = ~(np.isfinite(alpha) & (alpha > 0))
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"position {at[0] if len(at) == 1 else at}"
        why = "gives that category no mass" if alpha[at] == 0 else "is out of range"
        raise ParameterError(f"alpha = {alpha[at]:g} in {where} {why}", remedy="it must be a finite number above 0")
    return alpha


def _label(value: Any) -> str:
    """A category's name: 2.0 and 2 are one."""
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def _rest(alpha: Array) -> Array:
    """For each category the sum of all others, by prefixes and suffixes: nothing is subtracted."""
    zero = np.zeros((*alpha.shape[:-1], 1))
    before = np.concatenate([zero, np.cumsum(alpha[..., :-1], axis=-1)], axis=-1)
    after = np.concatenate([np.cumsum(alpha[..., :0:-1], axis=-1)[..., ::-1], zero], axis=-1)
    return before + after


def _log_orders(n: Array, k: Array) -> Array:
    """log of the number of orders in which counts k may have come."""
    total = np.asarray(n)[..., None]
    share = np.divide(k, total, out=np.zeros(k.shape), where=total > 0)
    multinomial = log_poisson(k, total * share).sum(axis=-1) - log_poisson(n, n)
    return multinomial - special.xlogy(k, share).sum(axis=-1)
