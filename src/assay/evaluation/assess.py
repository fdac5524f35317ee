"""One learner against a stated error p0: is it really better than that?

    one test set   e of n rows are wrong, X ~ Binomial(n, p0):
                   alternative "less"      reject when P(X <= e | p0) <= alpha: the error is below p0
                   alternative "greater"   reject when P(X >= e | p0) <= alpha: the error is above p0
    J folds        the folds' error rates p_1..p_J (pseudo-values) with mean m and standard deviation S:
                   t (as textbooks have it)   sqrt(J) (m - p0) / S ~ t_{J-1}: takes folds as independent
                   corrected t                (m - p0) / (S sqrt(1/J + n_test/n_train)) ~ t_{J-1}

The textbook question "may the error be p0 or less?" has the null p <= p0 and so the alternative "greater"; with "less"
a rejection is evidence that the learner keeps the promise. Tails sum from X = 0. Cost: O(n).
Nadeau & Bengio (2003), Machine Learning 52, 239-281; Clopper & Pearson (1934), Biometrika 26, 404-413.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from textwrap import fill

import numpy as np
import pandas as pd

from assay.checks import ALTERNATIVES, choice, fraction, number
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation._paired import binary, fold_sizes
from assay.evaluation.validate import Validation
from assay.inference import binomial_test, corrected_t_test, cv_t_test, t_test
from assay.numbers import figure, fmt, limits
from assay.resampling import Scheme
from assay.results import Interval, Result, TestResult, format_p

__all__ = ["Assessment", "assess"]

Array = np.ndarray
TESTS = ("binomial", "t", "corrected_t")
# Measured on learners really fitted, 300 rows, at a nominal .05: docs/simulations/comparison.md.
LIBERAL = (
    "folds are taken as independent, but share training rows; measured type-I error at .05 over 10 folds: .04 to .09, "
    "higher for less stable learners, and far higher with repeats"
)
SHARED = (
    "rows are taken as independent, but their models were fitted to nearly the same rows; measured type-I error at .05 "
    "over 10 folds: .04 to .09"
)


@dataclass(frozen=True, eq=False, repr=False)
class Assessment(Result):
    """A learner's error beside the one stated, with its test and interval.

    | field           | meaning                                                    |
    |-----------------|------------------------------------------------------------|
    | name, estimand  | the learner, and what was estimated                        |
    | p0, test, why   | the stated error, the `TestResult`, and why this test      |
    | bounds          | the range of the error, to which intervals are cut         |
    | caveats         | what the test leaves open                                  |
    """

    name: str
    estimand: str
    p0: float
    test: TestResult
    scheme: Scheme
    level: float
    why: str
    bounds: tuple[float, float] = (-np.inf, np.inf)
    caveats: tuple[str, ...] = ()

    @property
    def estimate(self) -> float:
        """The error seen."""
        return float(self.test.estimate)

    @property
    def p_value(self) -> float:
        """How unlikely such an error, or one further off, would be if p0 were true."""
        return float(self.test.p_value)

    @property
    def rejected(self) -> bool:
        """Whether the alternative is shown at the level."""
        return bool(self.p_value <= 1 - self.level)

    def interval(self, level: float | None = None) -> Interval:
        """Limits of the error, with the same alternative as the test, cut to the range of the error."""
        found = self.test.interval(self.level if level is None else level)
        low, high = self.bounds
        return replace(found, lower=max(low, found.lower), upper=min(high, found.upper), estimand=self.estimand)

    @property
    def verdict(self) -> str:
        """In words."""
        side = {"less": "below", "greater": "above", "two-sided": "different from"}[self.test.alternative]
        what = f"{self.estimand} {side} {self.p0:g}"
        return f"{what} is shown" if self.rejected else f"{what} is not shown"

    def to_frame(self) -> pd.DataFrame:
        """One row: estimate, limits, p0, p_value, test, verdict."""
        shown = self.interval()
        row = {
            "estimate": self.estimate,
            "lower": shown.lower,
            "upper": shown.upper,
            "p0": self.p0,
            "p_value": self.p_value,
            "test": self.test.method,
            "verdict": self.verdict,
        }
        return pd.DataFrame([row], index=[self.name])

    def __str__(self) -> str:
        shown = self.interval()
        sided = "interval" if self.test.alternative == "two-sided" else "one-sided interval"
        estimate = figure(self.estimate, shown.lower, shown.upper)
        reach = limits(shown.lower, shown.upper, self.estimate)
        lines = [
            f"{self.estimand} {estimate}, {100 * shown.level:.4g}% {sided} {reach}",
            f"null {self.p0:g}, alternative: {self.test.alternative}, p = {format_p(self.p_value)}",
            f"{self.verdict} at level {fmt(1 - self.level)}",
        ]
        title = f"{self.name} against a stated {self.estimand} of {self.p0:g}, {self.scheme}"
        rule = "-" * max(len(line) for line in [title, *lines])
        notes = [f"Test: {self.test.method}. {self.why}", *(f"Caveat: {caveat}." for caveat in self.caveats)]
        width = max(88, len(rule))
        return "\n".join([title, rule, *lines, rule, *(fill(note, width) for note in notes)])


def assess(
    result: Validation, p0: float, *, test: str = "auto", alternative: str = "less", level: float = 0.95
) -> Assessment:
    """Test one learner's error against a stated one.

        one test set: P(X <= e | p0), X ~ Binomial(n, p0);    folds: t = (m - p0) / (S sqrt(1/J + n_test/n_train))

    | parameter   | default | range                            | meaning                                               |
    |-------------|---------|----------------------------------|-------------------------------------------------------|
    | result      |         | what `cross_validate` gave       | its metric must be a loss, or accuracy (as 1 - it)    |
    | p0          |         | (0, 1) for 0/1 losses, or finite | the stated error                                      |
    | test        | "auto"  | "auto", "binomial", "t",         | auto: binomial on one test set, corrected t over      |
    |             |         | "corrected_t"                    | folds; "t" is the textbooks' over folds, and liberal  |
    | alternative | "less"  | "two-sided", "less", "greater"   | "less": the error lies below p0                       |
    | level       | 0.95    | (0, 1)                           | reject when p <= 1 - level; also of the interval      |

    For plain counts, e errors in n rows, call `assay.inference.binomial_test(e, n, p0, alternative="less")`.

    Nadeau & Bengio (2003), Machine Learning 52, 239-281.

    >>> from assay.evaluation import cross_validate
    >>> from assay.resampling import Holdout
    >>> from sklearn.naive_bayes import GaussianNB
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.where(X[:, 0] + 0.3 * rng.normal(size=200) > 0, "yes", "no")
    >>> print(assess(cross_validate(GaussianNB(), X, y, cv=Holdout(0.5)), 0.2).verdict)
    error below 0.2 is shown
    """
    if not isinstance(result, Validation):
        raise DataTypeError("result is not a result of cross_validate", remedy="pass one; for counts use binomial_test")
    test = choice(test, "test", ("auto", *TESTS))
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    level = fraction(level, "level")
    hits = binary([result])
    estimand = _estimand(result, hits)
    p0 = fraction(p0, "p0") if hits else number(p0, "p0")
    test, why = _choose(result, test, hits)
    losses = _losses if result.metric.greater_is_better is False else _flipped
    if test == "binomial":
        wrong = losses(result.row_losses()[0])
        found = binomial_test(round(float(wrong.sum())), wrong.size, p0, alternative=alternative)
    elif result.scheme.kind == "holdout":
        units = result.pseudo_values if result.in_groups else result.row_losses()[0]
        found = t_test(losses(units), popmean=p0, alternative=alternative)
    elif test == "t":
        found = cv_t_test(losses(result.pseudo_values), popmean=p0, alternative=alternative)
    else:
        n_train, n_test = fold_sizes(result)
        sizes = {"n_train": n_train, "n_test": n_test}
        found = corrected_t_test(losses(result.pseudo_values), **sizes, popmean=p0, alternative=alternative)
    caveats: tuple[str, ...] = ()
    if test == "t" and result.scheme.kind != "holdout":
        caveats = (LIBERAL,)
    elif test == "binomial" and result.scheme.kind != "holdout":
        caveats = (SHARED,)
    return Assessment(
        name=result.name,
        estimand=estimand,
        p0=p0,
        test=replace(found, estimand=estimand),
        scheme=result.scheme,
        level=level,
        why=why,
        bounds=result.metric.range,
        caveats=caveats,
    )


def _losses(values: Array) -> Array:
    return values


def _flipped(values: Array) -> Array:
    return 1.0 - values


def _estimand(result: Validation, hits: bool) -> str:
    """The loss that is judged; a share of hits is judged by its complement."""
    metric = result.metric
    if not metric.greater_is_better:
        return metric.name
    if hits:
        return "error" if metric.name == "accuracy" else f"1 - {metric.name}"
    raise ParameterError(f"{metric.name} is not an error", remedy='cross-validate with metric="error" or another loss')


def _choose(result: Validation, test: str, hits: bool) -> tuple[str, str]:
    one, weighted = result.scheme.kind == "holdout", result.weights is not None
    name = result.metric.name
    if one and weighted:
        message = "the test rows have weights, which the exact tests do not support"
        raise DataError(message, remedy="use folds, or metric.interval on the predictions")
    if test == "corrected_t" and one:
        raise ParameterError("one test set has no spread over folds", remedy='use test="auto", or several folds')
    if test == "binomial":
        if not hits or weighted:
            raise ParameterError(f"the binomial test counts errors, not {name}", remedy='use test="auto"')
        if result.scheme.kind not in ("holdout", "k-fold", "leave-one-out"):
            message = f"the binomial test needs every row tested once, not {result.scheme}"
            raise ParameterError(message, remedy='use test="corrected_t"')
    if test != "auto":
        if one and test == "t" and result.fold_losses is None:
            raise ParameterError(f"a single {name} has no spread", remedy="use several folds")
        return test, "It was requested."
    if result.in_groups and result.fold_losses is not None:
        return "t", "There is one test set, in groups, which are counted in place of rows."
    if one and hits:
        return (
            "binomial",
            "There is one test set, and each of its predictions is right or wrong: the number of errors is binomial.",
        )
    if one and result.fold_losses is not None:
        return "t", f"There is one test set, and {name} is a mean over its rows."
    if one:
        raise ParameterError(f"a single {name} has no spread", remedy="use several folds, or a mean over rows")
    return (
        "corrected_t",
        "Folds share training rows, so their errors are correlated: the variance is corrected for that.",
    )
