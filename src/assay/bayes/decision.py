"""Decisions from densities: Bayes' rule, the minimax test, and the most powerful test of a given size.

    Bayes            decide argmin_j sum_k cost[k, j] prior_k f_k(x);     with 0-1 cost: the most probable class
    Neyman-Pearson   reject when f1(x) / f0(x) > eta, with chance gamma when it equals eta: size exactly alpha,
                     and no test of that size has more power
    minimax          the likelihood-ratio test whose two risks are equal; the prior for which it is Bayes' rule is the
                     least favourable one

For two normals with common sigma the rejection region is x > (mu0 + mu1)/2 + sigma^2 log(eta) / (mu1 - mu0) if
mu1 > mu0, and x < the same number if mu1 < mu0. Ratios with flat parts or counts need gamma; it is worked out, not
ignored. Probabilities come from distribution functions in one dimension, from lists of counts, or from draws (then with
their intervals). Cost: a few thousand evaluations of each density; draws: their number.
Neyman & Pearson (1933), Phil. Trans. A 231, 289-337; Wald (1950), Statistical Decision Functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.bayes._densities import Density, Line, agree, atoms
from assay.bayes._ratio import Ratio
from assay.checks import fraction, freeze, probabilities, sample, whole
from assay.errors import DataError, ParameterError
from assay.inference.intervals import proportion_interval
from assay.numbers import fmt
from assay.numerics.seeds import generator
from assay.results import Curve, Interval, Result

__all__ = ["BayesRule", "LikelihoodRatioTest", "minimax_test", "neyman_pearson"]

Array = np.ndarray
DRAWS = 100_000


# ------------------------------------------------------------------------------------------ Bayes' rule


class BayesRule:
    """Decide for the least expected cost, given class-conditional densities and priors.

        decide(x) = argmin_j sum_k cost[k, j] prior_k f_k(x)

    | parameter | default | range                                 | meaning                                          |
    |-----------|---------|---------------------------------------|--------------------------------------------------|
    | densities |         | two or more: frozen scipy             | f_k; a mapping names the classes, a list numbers |
    |           |         | distributions, fitted models, samples | them; a sample becomes a Gaussian kernel density |
    | priors    | None    | positive, summing to 1                | class probabilities; None: all equal             |
    | cost      | None    | K x D numbers                         | cost[k, j] of deciding j when k is true;         |
    |           |         |                                       | None: 0-1; more columns than rows: to refuse     |

    >>> from scipy import stats
    >>> rule = BayesRule([stats.norm(0, 1), stats.norm(2, 1)], priors=[0.5, 0.5])
    >>> rule.decide([0.9, 1.1]), round(rule.bayes_risk().estimate, 6)
    (array([0, 1]), 0.158655)
    """

    def __init__(self, densities: Any, priors: Any = None, cost: Any = None) -> None:
        pairs = list(densities.items()) if isinstance(densities, Mapping) else list(enumerate(densities))
        if len(pairs) < 2:
            raise ParameterError("a decision rule needs at least two densities", remedy="pass one per class")
        self.classes = np.array([label for label, _ in pairs])
        self.densities = tuple(Density(source, f"density {label!r}") for label, source in pairs)
        agree(self.densities)
        self.priors = _priors(priors, len(pairs))
        self.cost = _cost(cost, len(pairs))
        self.actions = self.classes if self.cost.shape[1] == len(pairs) else np.arange(self.cost.shape[1])

    def posterior(self, x: Any) -> Array:
        """P(class k | x), one row per point; where every density is zero, the priors."""
        joint = self._joint(_points(x, self.densities[0].dim))
        top = joint.max(axis=1, keepdims=True)
        share = np.exp(joint - np.where(np.isfinite(top), top, 0.0))
        total = share.sum(axis=1, keepdims=True)
        return np.where(total > 0, share / np.where(total > 0, total, 1.0), self.priors)

    def decide(self, x: Any) -> Array:
        """The decision at each point: a class, or the number of a column of `cost` if those are not the classes."""
        return self.actions[np.argmin(self.posterior(x) @ self.cost, axis=1)]

    def risk(self, *, n_draws: int = DRAWS, random_state: Any = 0) -> pd.DataFrame:
        """How often each class gets each decision, and the expected cost within the class."""
        table = self._table(whole(n_draws, "n_draws", 2), random_state)[0]
        frame = pd.DataFrame(table, index=self.classes, columns=list(self.actions))
        frame["risk"] = (table * self.cost).sum(axis=1)
        return frame

    def bayes_risk(self, *, level: float = 0.95, n_draws: int = DRAWS, random_state: Any = 0) -> Interval:
        """The expected cost of the rule: exact in one dimension (a point), from draws with an interval otherwise."""
        level = fraction(level, "level")
        table, costs = self._table(whole(n_draws, "n_draws", 2), random_state)
        value = float(self.priors @ (table * self.cost).sum(axis=1))
        if costs is None:
            how = "exact (sum)" if self.densities[0].discrete else "exact (quadrature)"
            return Interval(value, value, value, level, how, 0, "Bayes risk")
        # A stratified mean: each class was drawn from separately.
        error = np.sqrt(sum(p**2 * np.var(c, ddof=1) / c.size for p, c in zip(self.priors, costs, strict=True)))
        reach = float(special.ndtri(0.5 + 0.5 * level) * error)
        low, high = max(float(self.cost.min()), value - reach), min(float(self.cost.max()), value + reach)
        return Interval(value, low, high, level, "Monte Carlo", sum(c.size for c in costs), "Bayes risk")

    def _joint(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            logs = np.log(self.priors)
        return np.column_stack([density.log(x) + log for density, log in zip(self.densities, logs, strict=True)])

    def _action(self, x: Array) -> Array:
        return np.argmin(self.posterior(x) @ self.cost, axis=1)

    def _table(self, n_draws: int, random_state: Any) -> tuple[Array, list[Array] | None]:
        """P(decision j | class k), and the drawn costs where it was drawn."""
        actions = self.cost.shape[1]
        table = np.zeros((len(self.densities), actions))
        if self.densities[0].dim > 1:
            rng = generator(random_state)
            costs = []
            for k, density in enumerate(self.densities):
                chosen = self._action(density.draw(n_draws, rng))
                table[k] = np.bincount(chosen, minlength=actions) / n_draws
                costs.append(self.cost[k, chosen])
            return table, costs
        if self.densities[0].discrete:
            x = np.unique(np.concatenate([atoms(d, d)[0] for d in self.densities]))
            chosen = self._action(x)
            for k, density in enumerate(self.densities):
                table[k] = np.bincount(chosen, weights=np.exp(density.log(x)), minlength=actions)
            return table / table.sum(axis=1, keepdims=True), None
        self._on_line(table)
        return table / table.sum(axis=1, keepdims=True), None

    def _on_line(self, table: Array) -> None:
        line = Line(self.densities)
        first, last = self._action(line.left), self._action(line.right)
        whole_cells = first == last
        for k in range(len(self.densities)):
            table[k] += np.bincount(first[whole_cells], weights=line.p[k, whole_cells], minlength=table.shape[1])
        mixed = np.flatnonzero(~whole_cells)
        if mixed.size == 0:
            return
        border = line.split(mixed, lambda x, cells: self._action(x) == first[cells])
        for k, density in enumerate(self.densities):
            np.add.at(table[k], first[mixed], density.mass(line.a[mixed], border))
            np.add.at(table[k], last[mixed], density.mass(border, line.b[mixed]))

    def __repr__(self) -> str:
        return f"BayesRule({len(self.classes)} classes, priors {np.round(self.priors, 4).tolist()})"


def _points(x: Any, dim: int) -> Array:
    values, _ = sample(x, "x")
    if dim == 1 and values.shape[1] == 1:
        return np.ascontiguousarray(values[:, 0])
    if values.shape[1] == 1 and values.shape[0] == dim:
        values = values.T
    if values.shape[1] != dim:
        raise DataError(f"x has {values.shape[1]} columns, the densities {dim}", remedy="pass one column per dimension")
    return np.ascontiguousarray(values)


def _priors(priors: Any, classes: int) -> Array:
    if priors is None:
        return np.full(classes, 1 / classes)
    values = probabilities(priors, "priors", (classes,), tolerance=1e-9)
    return values / values.sum()


def _cost(cost: Any, classes: int) -> Array:
    if cost is None:
        return 1.0 - np.eye(classes)
    values = sample(cost, "cost")[0]
    if values.shape[0] != classes or values.shape[1] < 2:
        what = f"cost has shape {values.shape}"
        raise ParameterError(what, remedy=f"pass {classes} rows (the truth), one column per decision")
    return np.ascontiguousarray(values)


# ------------------------------------------------------------------------------------------ two hypotheses


@dataclass(frozen=True, eq=False, repr=False)
class LikelihoodRatioTest(Result):
    """Reject when log f1/f0 exceeds `log_threshold`; at equality with chance `randomisation`.

    | field                    | meaning                                                                |
    |--------------------------|------------------------------------------------------------------------|
    | log_threshold, threshold | where the (log) likelihood ratio rejects; scores: where the score does |
    | randomisation            | chance to reject at equality                                           |
    | size, power              | P0(reject), P1(reject)                                                 |
    | size_interval            | with draws: where the true size lies (95%)                             |
    | risks, prior             | minimax: expected cost under each, and the least favourable P(H1)      |
    """

    method: str
    log_threshold: float
    randomisation: float
    size: float
    power: float
    size_interval: Interval | None = None
    risks: tuple[float, float] | None = None
    prior: float | None = None
    ratio: Any = field(default=None, repr=False)

    @property
    def threshold(self) -> float:
        """The likelihood ratio at the border (the score itself, if scores were given)."""
        if self.ratio.scores:
            return self.log_threshold
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_threshold))

    def chance(self, x: Any) -> Array:
        """The chance that the test rejects at each point: 0, 1 or, at the border, `randomisation`."""
        dim = 1 if self.ratio.scores else self.ratio.first.dim
        values = self.ratio.at(_points(x, dim))
        with np.errstate(invalid="ignore"):
            near = np.abs(values - self.log_threshold) <= 1e-11 * max(1.0, abs(self.log_threshold))
        equal = (values == self.log_threshold) | (near & np.isfinite(values))
        return np.where(equal, self.randomisation, (values > self.log_threshold).astype(float))

    def decide(self, x: Any, rng: Any = None) -> Array:
        """Whether to reject at each point; `rng` (a seed or Generator) tosses the coin at the border."""
        chance = self.chance(x)
        return generator(rng).random(chance.size) < chance

    def regions(self) -> list[tuple[float, float]]:
        """In one dimension: the intervals of x on which the test rejects (the border itself apart)."""
        if self.ratio.line is None:
            raise AttributeError("only continuous densities in one dimension have rejection intervals")
        line = self.ratio.line
        a, b = self.ratio.over(self.log_threshold)
        ends = sorted(zip(a, b, strict=True))
        merged: list[tuple[float, float]] = []
        for a, b in ends:
            if merged and a <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], float(b)))
            else:
                merged.append((float(a), float(b)))
        outer = float(line.a[0]), float(line.b[-1])
        return [(-np.inf if a == outer[0] else a, np.inf if b == outer[1] else b) for a, b in merged]

    def roc(self, n_points: int = 200) -> Curve:
        """Power against size over all thresholds; no test lies above this curve."""
        size, power = self._roc(whole(n_points, "n_points", 2))
        return Curve(
            x=freeze(size),
            estimate=freeze(power),
            x_name="size (false alarm rate)",
            y_name="power (detection rate)",
            marks={self.method: self.size},
            title="ROC of the likelihood-ratio test",
        )

    def _roc(self, n_points: int) -> tuple[Array, Array]:
        ratio = self.ratio
        if ratio.line is None:
            p0, p1 = np.cumsum(ratio.p0[::-1]), np.cumsum(ratio.p1[::-1])
            size, power = np.concatenate([[0.0], p0 / p0[-1]]), np.concatenate([[0.0], p1 / p1[-1]])
            keep = np.unique(np.linspace(0, size.size - 1, min(size.size, 50 * n_points)).astype(int))
            return size[keep], power[keep]
        knots = np.concatenate([ratio.left, ratio.right])
        weight = np.tile(ratio.line.p[:, ratio.sloped].sum(axis=0), 2)
        order = np.argsort(knots)
        share = np.cumsum(weight[order])
        inner = (
            np.interp(np.linspace(0, share[-1] if share.size else 0, n_points), share, knots[order])
            if share.size
            else []
        )
        points = {(0.0, 0.0), (1.0, 1.0)}
        for t in np.unique(np.concatenate([inner, ratio.values])):
            over, step = ratio.above(float(t)), ratio.step(float(t))
            points |= {over, (min(1.0, over[0] + step[0]), min(1.0, over[1] + step[1]))}
        size, power = np.array(sorted(points)).T
        return size, np.maximum.accumulate(power)

    def to_frame(self) -> pd.DataFrame:
        """One row: threshold, randomisation, size, power and, for minimax, risks and prior."""
        row = {name: getattr(self, name) for name in ("threshold", "randomisation", "size", "power")}
        if self.risks is not None:
            row |= {"risk_0": self.risks[0], "risk_1": self.risks[1], "prior_1": self.prior}
        return pd.DataFrame([row], index=[self.method])

    def __str__(self) -> str:
        word = "score" if self.ratio.scores else "likelihood ratio"
        lines = [
            f"{self.method} test",
            f"reject when the {word} exceeds {fmt(self.threshold, 6)}, "
            f"with chance {fmt(self.randomisation)} at equality",
            f"size {fmt(self.size, 6)}, power {fmt(self.power, 6)}",
        ]
        if self.size_interval is not None:
            lines.append(
                f"size from draws, 95% interval [{fmt(self.size_interval.lower)}, {fmt(self.size_interval.upper)}]"
            )
        if self.risks is not None:
            lines.append(
                f"risks {fmt(self.risks[0], 6)} and {fmt(self.risks[1], 6)}, least favourable P(H1) {fmt(self.prior)}"
            )
        rule = "-" * max(len(line) for line in lines)
        return "\n".join([lines[0], rule, *lines[1:]])


def neyman_pearson(
    f0: Any, f1: Any, alpha: float = 0.05, *, n_draws: int = DRAWS, random_state: Any = 0
) -> LikelihoodRatioTest:
    """The most powerful test of f0 against f1 whose size is exactly alpha.

        reject if f1/f0 > eta, with chance gamma if f1/f0 = eta,    P0(L > eta) + gamma P0(L = eta) = alpha

    | parameter    | default | range                        | meaning                                               |
    |--------------|---------|------------------------------|-------------------------------------------------------|
    | f0, f1       |         | frozen scipy distributions,  | the hypotheses; two samples of scores are thresholded |
    |              |         | fitted models, score samples | as they are (large speaks for f1)                     |
    | alpha        | 0.05    | (0, 1)                       | the size                                              |
    | n_draws      | 100,000 | whole, at least 2            | draws per density in more than one dimension          |
    | random_state | 0       | seed, Generator or None      | makes the draws repeatable                            |

    Neyman & Pearson (1933), Phil. Trans. A 231, 289-337.

    >>> from scipy import stats
    >>> test = neyman_pearson(stats.poisson(2), stats.poisson(5), alpha=0.05)
    >>> round(test.size, 12), round(test.power, 4), test.chance([4, 5, 6]).round(4)
    (0.05, 0.5466, array([0.    , 0.9265, 1.    ]))
    """
    alpha = fraction(alpha, "alpha")
    ratio = Ratio(f0, f1, whole(n_draws, "n_draws", 2), random_state)
    t, gamma = ratio.threshold(lambda reject0, reject1: reject0 - alpha)
    return _tested("Neyman-Pearson", ratio, t, gamma)


def minimax_test(
    f0: Any, f1: Any, cost: Any = None, *, n_draws: int = DRAWS, random_state: Any = 0
) -> LikelihoodRatioTest:
    """The test whose larger risk is smallest: the likelihood-ratio test that makes both risks equal.

    | parameter    | default | range                     | meaning                                                 |
    |--------------|---------|---------------------------|---------------------------------------------------------|
    | f0, f1       |         | as for `neyman_pearson`   | the hypotheses                                          |
    | cost         | None    | 2 x 2, errors dearer than | cost[k, j] of deciding j when k is true; None: 0-1, and |
    |              |         | right decisions           | the risks are the two error rates                       |
    | n_draws      | 100,000 | whole, at least 2         | draws per density in more than one dimension            |
    | random_state | 0       | seed, Generator or None   | makes the draws repeatable                              |

    `prior` is the least favourable P(H1), for which the test is also Bayes' rule.

    Wald (1950), Statistical Decision Functions.

    >>> from scipy import stats
    >>> test = minimax_test(stats.norm(0, 1), stats.norm(2, 1))
    >>> round(test.size, 6), round(1 - test.power, 6), round(test.prior, 6)
    (0.158655, 0.158655, 0.5)
    """
    values = _cost(cost, 2)
    if values.shape != (2, 2) or values[0, 1] <= values[0, 0] or values[1, 0] <= values[1, 1]:
        raise ParameterError(
            "cost must be 2 x 2, with each error costing more than the right decision", remedy="check cost"
        )
    ratio = Ratio(f0, f1, whole(n_draws, "n_draws", 2), random_state)
    false_alarm, miss = values[0, 1] - values[0, 0], values[1, 0] - values[1, 1]

    def excess(reject0: float, reject1: float) -> float:
        return float(values[0, 0] + false_alarm * reject0 - values[1, 1] - miss * (1 - reject1))

    if excess(0.0, 0.0) > 0 or excess(1.0, 1.0) < 0:
        # One risk is the larger whatever the test does: give that hypothesis its right decision always.
        never = excess(0.0, 0.0) > 0
        return _tested("Minimax", ratio, np.inf if never else -np.inf, 0.0 if never else 1.0, values, float(not never))
    t, gamma = ratio.threshold(excess)
    prior = float(special.expit(np.log(false_alarm / miss) - t)) if not ratio.scores else None
    return _tested("Minimax", ratio, t, gamma, values, prior)


def _tested(
    method: str, ratio: Ratio, t: float, gamma: float, cost: Array | None = None, prior: float | None = None
) -> LikelihoodRatioTest:
    over, step = ratio.above(t), ratio.step(t)
    size, power = (min(1.0, o + gamma * s) for o, s in zip(over, step, strict=True))
    if t == -np.inf and gamma == 1.0:
        size = power = 1.0
    risks = None
    if cost is not None:
        risks = (
            float(cost[0, 0] + (cost[0, 1] - cost[0, 0]) * size),
            float(cost[1, 1] + (cost[1, 0] - cost[1, 1]) * (1 - power)),
        )
    limits = None
    if ratio.drawn:
        count = round(size * ratio.sizes[0])
        limits = proportion_interval(count, ratio.sizes[0], method="exact")
    return LikelihoodRatioTest(method, t, gamma, size, power, limits, risks, prior, ratio)
