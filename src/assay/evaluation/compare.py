"""Which learner is better: a test that fits how the rows were split, corrected for the number of pairs.

For each pair the difference d = metric(first) - metric(second) is tested against 0:

    holdout                              McNemar's exact test for a 0/1 metric (error, accuracy), the paired t-test over
                                         rows for another mean over rows, the paired bootstrap of d for the rest;
                                         of rows in groups, the t-test over the pseudo-values of groups
    k-fold, repeated, random holdouts    corrected resampled t-test over fold differences (Nadeau & Bengio 2003)
    5x2                                  the same; Dietterich's t (1998) and Alpaydin's F (1999) are there on request,
                                         but reject up to .23 at a nominal .05 (docs/simulations/comparison.md)
    leave-one-out                        paired t-test over rows, or the bootstrap of d for a figure of all rows at once
    bootstrap, time-ordered, other       corrected resampled t-test, with what it leaves open said aloud

The figure of a learner is that of all its out-of-fold rows (`assay.evaluation.figures`); a test over folds takes the
folds' pseudo-values. P-values, intervals and words of all pairs come from one simultaneous procedure, single-step max-t
(`assay.evaluation._simultaneous`), so all intervals cover together and a learner is called better exactly where its
interval excludes 0. Cost: O(n) per pair; nothing is fitted again.
Demsar (2006), J. Machine Learning Research 7, 1-30; Bouckaert & Frank (2004), PAKDD, 3-12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from itertools import combinations
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import ALTERNATIVES, choice, fraction, freeze, whole
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation._paired import (
    RULES,
    caveats_of,
    choose,
    directed,
    drawn_again,
    drawn_gaps,
    fold_sizes,
    gaps_of,
    half_width,
    judge,
    refuse_misfit,
    spread_of,
    used_test,
)
from assay.evaluation._simultaneous import MaxT, agreeing, levels, max_t_of_draws, max_t_of_folds, rejects
from assay.evaluation.validation import Validation, same_experiment
from assay.inference import adjust_pvalues
from assay.inference.multiple import METHODS
from assay.inference.multiple import TITLES as STEPWISE
from assay.metrics.definition import Metric
from assay.numbers import figure, limits
from assay.numerics.seeds import generator
from assay.resampling import Scheme
from assay.results import Result, TestResult, format_p

__all__ = ["Comparison", "compare"]

Array = np.ndarray
TESTS = ("mcnemar", "mcnemar_corrected", "paired_t", "groups_t", "bootstrap", "corrected_t", "cv_t", "5x2_t", "5x2_F")
BY_T = ("corrected_t", "cv_t", "paired_t", "groups_t")
"""Tests of a mean over folds or rows: their greatest t has a law of its own."""
CORRECTIONS = ("max-t", *METHODS)
TITLES = {"max-t": "Single-step max-t", **STEPWISE}
TOGETHER = ("max-t", "bonferroni", "sidak")
"""Single-step corrections, whose intervals cover together."""
SHOWN = 40
"""How many pairs are printed; the frame holds all."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Differences between learners, each with its test, adjusted p-value and simultaneous interval.

    | field                   | meaning                                                                          |
    |-------------------------|----------------------------------------------------------------------------------|
    | names, estimates        | the learners and the figure of each                                              |
    | figures                 | the estimates in print, each to the precision of its own interval                |
    | pairs                   | (first, second) as positions in `names`; difference = metric(first) - metric(second) |
    | tests                   | one `TestResult` per pair                                                         |
    | p_values, adjusted      | before and after the correction for the number of pairs                           |
    | lower, upper            | limits of the differences                                                         |
    | rejected                | whose limits exclude 0                                                            |
    | test, why, caveats      | which test it was, why this one, and what it leaves open                          |
    | stopped                 | learners that were stopped early: in no pair, but counted in the correction       |
    """

    names: tuple[str, ...]
    estimates: Array
    figures: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    tests: tuple[TestResult, ...]
    p_values: Array
    adjusted: Array
    lower: Array
    upper: Array
    level: float
    interval_method: str
    metric: Metric
    scheme: Scheme
    test: str
    why: str
    caveats: tuple[str, ...]
    correction: str
    alternative: str
    stopped: tuple[str, ...] = ()

    @property
    def differences(self) -> Array:
        """metric(first) - metric(second) of each pair, as its test estimates it."""
        return np.array([float(test.estimate) for test in self.tests])

    @property
    def rejected(self) -> Array:
        """For which pairs a difference is shown at the family's level: those whose interval excludes 0."""
        return (self.lower > 0) | (self.upper < 0)

    @property
    def method(self) -> str:
        """The test in words; of the first pair that could be tested."""
        return next((one.method for one in self.tests if not one.untested), self.tests[0].method)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a pair could not be tested; empty for one that was."""
        return tuple(one.method if one.untested else "" for one in self.tests)

    @property
    def _corrected(self) -> bool:
        return self.correction != "none" and self.n_pairs > 1

    @property
    def n_pairs(self) -> int:
        """How many pairs the correction counts: those compared, and those of learners that were stopped."""
        return len(self.pairs) + _more_pairs(len(self.names), len(self.pairs), len(self.stopped))

    @property
    def together(self) -> bool:
        """Whether the intervals cover all together at the level, not each on its own."""
        return self._corrected and self.correction in TOGETHER

    @property
    def labels(self) -> tuple[str, ...]:
        """What each row of the table is called."""
        return tuple(f"{self.names[a]} - {self.names[b]}" for a, b in self.pairs)

    @property
    def winners(self) -> tuple[str | None, ...]:
        """The learner of each pair that is shown to be better, at the family's level; None where neither is."""
        won: list[str | None] = []
        for (a, b), difference, shown in zip(self.pairs, self.differences, self.rejected, strict=True):
            first = (difference > 0) == self.metric.greater_is_better
            won.append(self.names[a if first else b] if shown else None)
        return tuple(won)

    def is_better(self, name: str, other: str) -> bool:
        """Whether a learner is shown to be better than another, at the family's level."""
        sets = [{self.names[a], self.names[b]} for a, b in self.pairs]
        return name != other and any(
            won == name and pair == {name, other} for won, pair in zip(self.winners, sets, strict=True)
        )

    def untested(self, name: str, other: str) -> str:
        """Why no test can judge a pair; empty where one did, or where the two are no pair."""
        pairs = ({self.names[a], self.names[b]} for a, b in self.pairs)
        tests = zip(pairs, self.tests, strict=True)
        return next((test.untested for pair, test in tests if pair == {name, other}), None) or ""

    @property
    def verdicts(self) -> tuple[str, ...]:
        """In words: who is better, only where it is shown; or why the pair could not be tested."""
        sentences = []
        for (a, b), won, reason in zip(self.pairs, self.winners, self.reasons, strict=True):
            if reason:
                sentences.append(reason)
            elif won is None:
                sentences.append("no difference shown")
            else:
                sentences.append(f"{won} better than {self.names[b] if won == self.names[a] else self.names[a]}")
        return tuple(sentences)

    def to_frame(self) -> pd.DataFrame:
        """One row per pair: first, second, difference, lower, upper, p_value, adjusted, verdict."""
        columns = {
            "first": [self.names[a] for a, _ in self.pairs],
            "second": [self.names[b] for _, b in self.pairs],
            "difference": self.differences,
            "lower": self.lower,
            "upper": self.upper,
            "p_value": self.p_values,
            "adjusted": self.adjusted,
            "verdict": self.verdicts,
        }
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        better = "greater" if self.metric.greater_is_better else "smaller"
        title = f"{len(self.names)} learners by {self.metric.name} ({better} is better), {self.scheme}"
        width = max(len(name) for name in self.names)
        order = np.argsort(-self.estimates if self.metric.greater_is_better else self.estimates, kind="stable")
        means = [f"{self.names[i]:<{width}}  {self.metric.name} {self.figures[i]}" for i in order]
        frame = self.to_frame().iloc[:SHOWN]
        scale, unit = (100.0, " (points)") if self.metric.percent else (1.0, "")
        rows = (scale * frame[["difference", "lower", "upper"]]).to_numpy().tolist()
        shown = {
            f"difference{unit}": [figure(middle, low, high) for middle, low, high in rows],
            "interval": [limits(low, high, middle) for middle, low, high in rows],
            "p": [format_p(p) for p in frame["p_value"]],
            **({"adjusted p": [format_p(p) for p in frame["adjusted"]]} if self._corrected else {}),
            "": list(frame["verdict"]),
        }
        table = pd.DataFrame(shown, index=list(self.labels[:SHOWN])).to_string(justify="right").splitlines()
        if len(self.pairs) > SHOWN:
            table.append(f"... and {len(self.pairs) - SHOWN} more pairs: to_frame() has them all")
        rule = "-" * max(len(line) for line in [title, *means, *table])
        width = max(88, len(rule))
        return "\n".join([title, rule, *means, rule, *table, rule, *(fill(note, width) for note in self._notes())])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _notes(self) -> list[str]:
        toward = "" if self.alternative == "two-sided" else f" Alternative: difference {self.alternative} than 0."
        m, level = self.n_pairs, f"{100 * self.level:g}%"
        shows = "a difference is shown where its interval excludes 0"
        if not self._corrected:
            only = "a single pair" if m == 1 else "not corrected for the number of pairs"
            family = f"{level} {self.interval_method} intervals; {only}."
        elif self.together:
            family = f"{TITLES[self.correction]} over {m} pairs: intervals {level} together, {shows}."
        else:
            each = "each interval has the level at which its pair was tested, so they do not cover together"
            family = f"{TITLES[self.correction]} correction over {m} pairs: {shows}; {each}."
        if self.stopped and self._corrected:
            family += f" Counted, but not compared, as they were stopped early: {', '.join(self.stopped)}."
        return [f"Test: {self.method}. {self.why}{toward}", family, *(f"Caveat: {c}." for c in self.caveats)]


def compare(
    results: Sequence[Validation] | Mapping[str, Validation],
    *,
    test: str = "auto",
    correction: str | None = "max-t",
    level: float = 0.95,
    baseline: str | int | None = None,
    alternative: str = "two-sided",
    n_resamples: int = 1999,
    random_state: Any = 0,
    stopped: Sequence[str] = (),
) -> Comparison:
    """Test which learners differ, from results of `cross_validate` on the same rows, splits and metric.

        d = metric(first) - metric(second),    null d = 0, one test per pair, adjusted over all pairs

    | parameter    | default     | range                                    | meaning                                  |
    |--------------|-------------|------------------------------------------|------------------------------------------|
    | results      |             | two or more, listed or by name           | what `cross_validate` gave               |
    | test         | "auto"      | "auto", "mcnemar", "mcnemar_corrected",  | "auto" fits the scheme (top of the       |
    |              |             | "paired_t", "groups_t", "bootstrap",     | module) and says why; "cv_t" is the      |
    |              |             | "corrected_t", "cv_t", "5x2_t", "5x2_F"  | textbooks' K-fold t, which is liberal    |
    | correction   | "max-t"     | "max-t", "bonferroni", "sidak",          | for the number of pairs; the first three |
    |              |             | "holm", "hochberg", "bh", "by", None     | have intervals that cover together       |
    | level        | 0.95        | (0, 1)                                   | of the family; alpha = 1 - level         |
    | baseline     | None        | a name or position                       | compare all with this one, not all pairs |
    | alternative  | "two-sided" | "two-sided", "less", "greater"           | "less": the first has the smaller metric |
    | n_resamples  | 1999        | at least 99                              | of the bootstrap; more for many pairs    |
    | random_state | 0           | seed                                     | of the bootstrap and of max-t            |
    | stopped      | ()          | names                                    | learners stopped early: not tested, but  |
    |              |             |                                          | the correction counts their pairs        |

    The difference keeps the metric's own sign: for a loss a negative one favours the first learner, for a score a
    positive one; the verdict column says who is better, and only where the interval excludes 0. Tests that max-t does
    not fit (McNemar's, 5x2) have Bonferroni's correction instead, which the result then names.

    Nadeau & Bengio (2003), Machine Learning 52, 239-281; Dietterich (1998), Neural Computation 10, 1895-1923.

    >>> from assay.evaluation import cross_validate
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.dummy import DummyRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> y = X[:, 0] + rng.normal(size=100)
    >>> found = compare([cross_validate(model, X, y) for model in (LinearRegression(), DummyRegressor())])
    >>> found.verdicts, found.tests[0].method
    (('LinearRegression better than DummyRegressor',), 'Corrected resampled t-test')
    """
    test = choice(test, "test", ("auto", *TESTS))
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    level = fraction(level, "level")
    chosen_correction = "none" if correction is None else choice(correction, "correction", CORRECTIONS)
    n_resamples = whole(n_resamples, "n_resamples", 99)
    names, found = _gate(results)
    pairs = _pairs(names, baseline)
    if test == "auto":
        test, why = choose(found)
    else:
        why = "It was requested."
        refuse_misfit(test, found)
    rule = partial(RULES[test], alternative=alternative)
    drawn = drawn_again(found, n_resamples, random_state) if test == "bootstrap" else None
    if drawn is not None:
        rule = partial(rule, drawn=drawn)
    tests = tuple(judge(test, rule, found, names, a, b) for a, b in pairs)
    p_values = np.array([float(one.p_value) for one in tests])
    known = np.flatnonzero(~np.isnan(p_values))
    more = _more_pairs(len(names), len(pairs), len(stopped))
    family = _Family(tests, p_values, known, level, alternative, float(np.ptp(found[0].metric.range)), more)
    law = None
    if chosen_correction == "max-t":
        tested = [pairs[i] for i in known]
        law = _law(test, found, tested, [tests[i] for i in known], drawn, alternative, random_state)
        # Draws of the bootstrap know nothing of pairs without a statistic.
        law = None if law is None or (more and law[0].df is None) else (replace(law[0], more=more), law[1])
        chosen_correction = "bonferroni" if law is None else "max-t"
    adjusted, lower, upper, method = family.stepped(chosen_correction) if law is None else family.single_step(*law)
    spoken = int(known[0]) if known.size else 0  # the first pair that was tested speaks for all
    return Comparison(
        names=names,
        estimates=freeze(np.array([result.value for result in found])),
        figures=tuple(_in_print(one) for one in found),
        pairs=pairs,
        tests=tests,
        p_values=freeze(p_values.copy()),
        adjusted=freeze(adjusted),
        lower=freeze(lower),
        upper=freeze(upper),
        level=level,
        interval_method=method,
        metric=found[0].metric,
        scheme=found[0].scheme,
        test=test,
        why=why,
        caveats=(*caveats_of(test, tests[spoken], found[0]), *_left_out(found)),
        correction=chosen_correction,
        alternative=alternative,
        stopped=tuple(str(name) for name in stopped),
    )


def _more_pairs(compared: int, pairs: int, stopped: int) -> int:
    """The pairs of stopped learners: with a baseline one each, else with all others and among themselves."""
    all_pairs = pairs == compared * (compared - 1) // 2
    return stopped * compared + stopped * (stopped - 1) // 2 if all_pairs else stopped


def _law(
    test: str,
    found: Sequence[Validation],
    pairs: Sequence[tuple[int, int]],
    tests: Sequence[TestResult],
    drawn: Mapping[int, Array] | None,
    alternative: str,
    random_state: Any,
) -> tuple[MaxT, Array] | None:
    """How far the greatest statistic of these pairs goes by chance, and the standard error of each; None where their
    tests have no law in common.
    """
    if not pairs:
        return None
    if drawn is not None:
        gaps = np.column_stack([drawn_gaps(drawn, found[a], found[b]) for a, b in pairs])
        estimate = np.array([float(one.estimate) for one in tests])
        error = spread_of(gaps, estimate)
        return max_t_of_draws(gaps, estimate, error, alternative), error
    if test not in BY_T or any(used_test(test, found[a], found[b]) != test for a, b in pairs):
        return None
    gaps = gaps_of(test, found, pairs)
    n_train, n_test = fold_sizes(found[0])
    factor = 1 / gaps.shape[0] + (n_test / n_train if test == "corrected_t" else 0.0)
    law = max_t_of_folds(gaps, gaps.shape[0] - 1.0, alternative, generator(random_state))
    return law, spread_of(gaps) * np.sqrt(factor)


@dataclass(frozen=True)
class _Family:
    """The tests of all pairs, of which `known` have a p-value, put together."""

    tests: tuple[TestResult, ...]
    p_values: Array
    known: Array
    level: float
    alternative: str
    most: float
    more: int = 0

    def single_step(self, law: MaxT, error: Array) -> tuple[Array, Array, Array, str]:
        """Adjusted p-values and limits by the greatest statistic."""
        adjusted, lower, upper = self._nothing()
        statistic = np.array([float(self.tests[i].statistic) for i in self.known])
        estimate = np.array([float(self.tests[i].estimate) for i in self.known])
        alone = self.p_values[self.known]
        together = law.adjusted(directed(statistic, self.alternative), alone)
        # Resamples without a spread have no place in the law of the others: their sign tests, by Bonferroni.
        together = np.where(error > 0, together, np.minimum(1.0, self.known.size * alone))
        half = half_width(law, error, estimate, together, self.level)
        adjusted[self.known] = together
        lower[self.known] = -np.inf if self.alternative == "less" else estimate - half
        upper[self.known] = np.inf if self.alternative == "greater" else estimate + half
        name = "max-t" if law.pairs + law.more > 1 else self.tests[self.known[0]].interval(self.level).method
        return adjusted, *self._agreeing(lower, upper, adjusted), name

    def stepped(self, correction: str) -> tuple[Array, Array, Array, str]:
        """P-values adjusted one after another, each pair's limits at the level of its own test."""
        adjusted, lower, upper = self._nothing()
        # A pair that cannot be tested counts as one that shows nothing, and so does one of a stopped learner.
        counted = np.append(np.where(np.isnan(self.p_values), 1.0, self.p_values), np.ones(self.more))
        every = counted if correction == "none" else adjust_pvalues(counted, correction, 1 - self.level).adjusted
        adjusted[self.known] = every[self.known]
        method = ""
        for i, each in enumerate(levels(counted, correction, self.level)[: len(self.tests)]):
            found = self.tests[i].interval(float(each))
            lower[i], upper[i] = float(found.lower), float(found.upper)
            method = method or ("" if self.tests[i].untested else found.method)
        return adjusted, *self._agreeing(lower, upper, adjusted), method

    def _agreeing(self, lower: Array, upper: Array, adjusted: Array) -> tuple[Array, Array]:
        sides = {"greater": 1.0, "less": -1.0}
        estimate = np.array([float(one.estimate) for one in self.tests])
        side = np.sign(estimate) if self.alternative == "two-sided" else np.full(estimate.size, sides[self.alternative])
        return agreeing(lower, upper, side, rejects(adjusted, self.level), self.most)

    def _nothing(self) -> tuple[Array, Array, Array]:
        adjusted, lower, upper = (np.full(len(self.tests), np.nan) for _ in range(3))
        return adjusted, lower, upper


def _left_out(found: Sequence[Validation]) -> tuple[str, ...]:
    """That some folds have no figure, and how many."""
    metric, missing = found[0].metric, max(one.n_undefined for one in found)
    if not missing or found[0].scheme.kind == "leave-one-out":
        return ()
    return (
        f"{metric.name} is not defined on {missing} of {found[0].fold_scores.size} folds, which have no weight in it",
    )


def _in_print(result: Validation) -> str:
    """A learner's figure to the precision of its own interval."""
    found = result.interval()
    return figure(result.value, found.lower, found.upper, percent=result.metric.percent)


# The gate: results that can be compared.


def _gate(results: Any) -> tuple[tuple[str, ...], tuple[Validation, ...]]:
    named = isinstance(results, Mapping)
    found = tuple(results.values()) if named else tuple(results) if isinstance(results, list | tuple) else None
    if found is None or not all(isinstance(one, Validation) for one in found):
        raise DataTypeError("results are not results of cross_validate", remedy="pass a list or a dict of them")
    if len(found) < 2:
        raise DataError(
            f"there is {len(found)} result to compare", remedy="pass at least two; assess judges a single one"
        )
    names = _distinct([str(name) for name in results] if named else [one.name for one in found])
    for name, one in zip(names[1:], found[1:], strict=True):
        same_experiment(names[0], found[0], name, one)
    return names, found


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Names told apart by a number where they repeat."""
    out: list[str] = []
    for name in names:
        label, k = name, 1
        while label in out:
            k += 1
            label = f"{name} ({k})"
        out.append(label)
    return tuple(out)


def _pairs(names: tuple[str, ...], baseline: Any) -> tuple[tuple[int, int], ...]:
    if baseline is None:
        return tuple(combinations(range(len(names)), 2))
    if isinstance(baseline, str) and baseline in names:
        at = names.index(baseline)
    elif isinstance(baseline, int | np.integer) and not isinstance(baseline, bool) and 0 <= baseline < len(names):
        at = int(baseline)
    else:
        known = ", ".join(repr(name) for name in names)
        raise ParameterError(f"baseline = {baseline!r} is not among the results", remedy=f"choose one of {known}")
    return tuple((i, at) for i in range(len(names)) if i != at)
