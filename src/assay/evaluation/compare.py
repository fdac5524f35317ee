"""Which learner is better: a test that fits how the rows were split, corrected for the number of pairs.

For each pair the difference d = metric(first) - metric(second) is tested against 0:

    holdout                              McNemar's exact test for a 0/1 metric (error, accuracy), the paired t-test over
                                         rows for another mean over rows, the paired bootstrap of d for the rest
    k-fold, repeated, random holdouts    corrected resampled t-test over fold differences (Nadeau & Bengio 2003)
    5x2                                  the same; Dietterich's t (1998) and Alpaydin's F (1999) are there on request,
                                         but reject up to .23 at a nominal .05 (docs/simulations/comparison.md)
    leave-one-out                        paired t-test over rows, or the bootstrap of d for a figure of all rows at once
    bootstrap, time-ordered, other       corrected resampled t-test, with what it leaves open said aloud

With m pairs at level 1 - a, p-values are adjusted over the family and the intervals have level 1 - a/m each, so that
all of them cover together with at least 1 - a (Bonferroni). Cost: O(n) per pair; nothing is fitted again.
Demsar (2006), J. Machine Learning Research 7, 1-30; Bouckaert & Frank (2004), PAKDD, 3-12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    ROUNDING,
    RULES,
    caveats_of,
    choose,
    drawn_again,
    estimate_of,
    judge,
    refuse_misfit,
)
from assay.evaluation.validation import Validation, same_experiment
from assay.inference import (
    adjust_pvalues,
)
from assay.inference.multiple import METHODS as CORRECTIONS
from assay.inference.multiple import TITLES
from assay.metrics.definition import Metric
from assay.numbers import figure, limits
from assay.resampling import Scheme
from assay.results import Result, TestResult, format_p

__all__ = ["Comparison", "compare"]

Array = np.ndarray
TESTS = ("mcnemar", "mcnemar_corrected", "paired_t", "bootstrap", "corrected_t", "cv_t", "5x2_t", "5x2_F")
SHOWN = 40
"""How many pairs are printed; the frame holds all."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Differences between learners, each with its test, adjusted p-value and simultaneous interval.

    | field                   | meaning                                                                          |
    |-------------------------|----------------------------------------------------------------------------------|
    | names, estimates        | the learners and the mean of the metric for each                                 |
    | figures                 | the estimates in print, each to the precision of its own interval                |
    | pairs                   | (first, second) as positions in `names`; difference = metric(first) - metric(second) |
    | tests                   | one `TestResult` per pair                                                         |
    | p_values, adjusted      | before and after the correction for the number of pairs                           |
    | lower, upper            | limits of the differences, at `interval_level` each                               |
    | rejected                | adjusted <= 1 - level                                                             |
    | test, why, caveats      | which test it was, why this one, and what it leaves open                          |
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
    interval_level: float
    interval_method: str
    metric: Metric
    scheme: Scheme
    test: str
    why: str
    caveats: tuple[str, ...]
    correction: str
    alternative: str

    @property
    def differences(self) -> Array:
        """metric(first) - metric(second) of each pair, as its test estimates it."""
        return np.array([float(test.estimate) for test in self.tests])

    @property
    def rejected(self) -> Array:
        """For which pairs a difference is shown at the family's level."""
        return self.adjusted <= (1 - self.level) * (1 + ROUNDING)

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
        return self.correction != "none" and len(self.pairs) > 1

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
            won.append(self.names[a if first else b] if shown and difference != 0 else None)
        return tuple(won)

    def is_better(self, name: str, other: str) -> bool:
        """Whether a learner is shown to be better than another, at the family's level."""
        sets = [{self.names[a], self.names[b]} for a, b in self.pairs]
        return name != other and any(
            won == name and pair == {name, other} for won, pair in zip(self.winners, sets, strict=True)
        )

    @property
    def verdicts(self) -> tuple[str, ...]:
        """In words: who is better, only where it is shown; or why the pair could not be tested."""
        words = []
        for (a, b), won, shown, reason in zip(self.pairs, self.winners, self.rejected, self.reasons, strict=True):
            if reason:
                words.append(reason)
            elif not shown:
                words.append("no difference shown")
            elif won is None:
                words.append("they differ, neither on the whole")
            else:
                words.append(f"{won} better than {self.names[b] if won == self.names[a] else self.names[a]}")
        return tuple(words)

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
        m = len(self.pairs)
        each = f"{100 * self.interval_level:.4g}% {self.interval_method} intervals"
        if not self._corrected:
            family = f"{each}; " + ("a single pair." if m == 1 else "p-values not corrected for the number of pairs.")
        else:
            together = f"{each} each, {100 * self.level:g}% together (Bonferroni)"
            family = f"{TITLES[self.correction]} correction over {m} pairs; {together}."
        return [f"Test: {self.method}. {self.why}{toward}", family, *(f"Caveat: {c}." for c in self.caveats)]


def compare(
    results: Sequence[Validation] | Mapping[str, Validation],
    *,
    test: str = "auto",
    correction: str | None = "holm",
    level: float = 0.95,
    baseline: str | int | None = None,
    alternative: str = "two-sided",
    n_resamples: int = 1999,
    random_state: Any = 0,
) -> Comparison:
    """Test which learners differ, from results of `cross_validate` on the same rows, splits and metric.

        d = metric(first) - metric(second),    null d = 0, one test per pair, adjusted over all pairs

    | parameter    | default     | range                                    | meaning                                  |
    |--------------|-------------|------------------------------------------|------------------------------------------|
    | results      |             | two or more, listed or by name           | what `cross_validate` gave               |
    | test         | "auto"      | "auto", "mcnemar", "mcnemar_corrected",  | "auto" fits the scheme (top of the       |
    |              |             | "paired_t", "bootstrap", "corrected_t",  | module) and says why; "cv_t" is the      |
    |              |             | "cv_t", "5x2_t", "5x2_F"                 | textbooks' K-fold t, which is liberal    |
    | correction   | "holm"      | "holm", "bonferroni", "sidak",           | for the number of pairs                  |
    |              |             | "hochberg", "bh", "by", None             |                                          |
    | level        | 0.95        | (0, 1)                                   | of the family; alpha = 1 - level         |
    | baseline     | None        | a name or position                       | compare all with this one, not all pairs |
    | alternative  | "two-sided" | "two-sided", "less", "greater"           | "less": the first has the smaller metric |
    | n_resamples  | 1999        | at least 99                              | of the bootstrap; more for many pairs    |
    | random_state | 0           | seed                                     | of the bootstrap                         |

    The difference keeps the metric's own sign: for a loss a negative one favours the first learner, for a score a
    positive one; the verdict column says who is better, and only where the adjusted p-value shows it.

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
        why = "It was asked for."
        refuse_misfit(test, found)
    rule = partial(RULES[test], alternative=alternative)
    if test == "bootstrap":
        rule = partial(rule, drawn=drawn_again(found, n_resamples, random_state))
    tests = tuple(judge(rule, found, names, a, b) for a, b in pairs)
    p_values = np.array([float(one.p_value) for one in tests])
    each = level if chosen_correction == "none" else 1 - (1 - level) / len(pairs)
    unknown = np.isnan(p_values)
    adjusted = p_values
    if correction is not None:  # a pair that cannot be tested counts as one that shows nothing
        counted = np.where(unknown, 1.0, p_values)
        adjusted = np.where(unknown, np.nan, adjust_pvalues(counted, chosen_correction, 1 - level).adjusted)
    intervals = [one.interval(each) for one in tests]
    estimates = [estimate_of(result, test) for result in found]
    spoken = int(np.argmin(unknown))  # the first pair that was tested speaks for all
    return Comparison(
        names=names,
        estimates=freeze(np.array(estimates)),
        figures=tuple(_in_print(one, value) for one, value in zip(found, estimates, strict=True)),
        pairs=pairs,
        tests=tests,
        p_values=freeze(p_values.copy()),
        adjusted=freeze(np.array(adjusted)),
        lower=freeze(np.array([float(one.lower) for one in intervals])),
        upper=freeze(np.array([float(one.upper) for one in intervals])),
        level=level,
        interval_level=each,
        interval_method=intervals[spoken].method,
        metric=found[0].metric,
        scheme=found[0].scheme,
        test=test,
        why=why,
        caveats=(*caveats_of(test, tests[spoken], found[0]), *_left_out(found)),
        correction=chosen_correction,
        alternative=alternative,
    )


def _left_out(found: Sequence[Validation]) -> tuple[str, ...]:
    """That some folds have no figure, and how many."""
    metric, gone = found[0].metric, max(one.n_undefined for one in found)
    if not gone or found[0].scheme.kind == "leave-one-out":
        return ()
    return (f"{metric.name} is not defined on {gone} of {found[0].fold_scores.size} folds, which are left out",)


def _in_print(result: Validation, estimate: float) -> str:
    """A learner's figure to the precision of its own interval."""
    found = result.interval()
    return figure(estimate, found.lower, found.upper, percent=result.metric.percent)


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
