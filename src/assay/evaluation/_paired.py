"""Which test of a difference fits the splits and the metric, and how two results feed it.

A test over rows takes the metric's value per row, averaged where a row was tested several times; a test over folds the
pseudo-values of the folds (`assay.evaluation.figures`), whose mean is the figure of all out-of-fold rows; the bootstrap
the predictions themselves. Each gives metric(first) - metric(second). Differences that only rounding keeps from zero
are zero. Cost: O(n); the bootstrap calls the metric once per learner and resample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from assay.checks import fraction
from assay.errors import AssayError, DataError, ParameterError
from assay.evaluation._simultaneous import MaxT, max_t_of_draws, rejects
from assay.evaluation.figures import OutOfFold, out_of_fold, rows_that_differ
from assay.evaluation.learner import Rows
from assay.evaluation.validation import Validation
from assay.inference import corrected_t_test, cv_t_test, five_by_two_test, mcnemar_test, t_test
from assay.numerics.seeds import generator
from assay.progress import track
from assay.results import Interval, TestResult

__all__ = [
    "BY_ROWS",
    "ROUNDING",
    "RULES",
    "SHARED",
    "UNTESTED",
    "binary",
    "caveats_of",
    "choose",
    "directed",
    "drawn_again",
    "drawn_gaps",
    "fold_sizes",
    "gaps_of",
    "half_width",
    "judge",
    "refuse_misfit",
    "spread_of",
    "used_test",
]

Array = np.ndarray
BY_ROWS = ("mcnemar", "mcnemar_corrected", "paired_t")
ROUNDING = 1e-12
"""Scores closer than this share of their size are the same score, summed in another order."""
UNTESTED = "not testable"


def binary(found: Sequence[Validation]) -> bool:
    """Whether every row is right or wrong."""
    if not found[0].metric.right_or_wrong:
        return False
    return all(bool(np.isin(part, (0.0, 1.0)).all()) for one in found for part in one.fold_losses or ())


def choose(found: Sequence[Validation]) -> tuple[str, str]:
    one = found[0]
    kind, name = one.scheme.kind, one.metric.name
    if one.in_groups:
        why = f"There is one set of held-out rows, in groups: {name} without each of them shows how far it varies."
        return "groups_t", why
    if kind in ("holdout", "leave-one-out"):
        where = "There is one set of held-out rows" if kind == "holdout" else "Every row is tested once, alone"
        if one.weights is not None:
            return "bootstrap", f"{where}, and rows have weights: rows are resampled to see how {name} varies."
        if kind == "holdout" and binary(found):
            return "mcnemar", f"{where}, each right or wrong: only the discordant ones count."
        if one.fold_losses is not None:
            return "paired_t", f"{where}, and {name} is a mean over rows: the two are compared row by row."
        return "bootstrap", f"{where}, and {name} is a figure of all rows at once: rows are resampled."
    if kind == "5x2":
        why = "The tests for five halvings (5x2_t, 5x2_F) reject too often for unstable learners"
        return "corrected_t", f"{why}; this one holds its level."
    shared = "Folds share training rows, so their differences vary together: the variance is enlarged for that."
    return "corrected_t", shared


def refuse_misfit(test: str, found: Sequence[Validation]) -> None:
    """Refuse a test that the splits or the metric cannot feed."""
    one = found[0]
    kind, name = one.scheme.kind, one.metric.name
    if test in ("5x2_t", "5x2_F") and kind != "5x2":
        raise ParameterError(f"the 5x2cv test needs five halvings, not a {one.scheme}", remedy="use cv=FiveByTwo()")
    if test == "groups_t" and not one.in_groups:
        message = f"the t-test over groups needs one held-out set with groups, not a {one.scheme}"
        raise ParameterError(message, remedy="use cv=Holdout() and groups=")
    if test in ("cv_t", "corrected_t") and kind == "holdout":
        raise ParameterError("one test set has no spread over folds", remedy='use test="auto", or several folds')
    if test in ("cv_t", "corrected_t") and kind == "leave-one-out" and one.fold_losses is None:
        raise ParameterError(f"{name} has no value on a single row", remedy='use test="bootstrap", or fewer folds')
    if test == "bootstrap" and kind not in ("holdout", "leave-one-out", "k-fold"):
        raise ParameterError("rows that are tested several times cannot be resampled", remedy='use test="corrected_t"')
    if test not in BY_ROWS:
        return
    if one.weights is not None:
        raise ParameterError(f"{test} does not support sample_weight", remedy='use test="auto"')
    if one.fold_losses is None:
        raise ParameterError(f"{name} is not a mean over rows", remedy='use test="auto", or a metric such as "error"')
    if test != "paired_t":
        if not binary(found):
            raise ParameterError(
                f"McNemar's test needs rows that are right or wrong, not a {name}", remedy='use "error"'
            )
        if kind not in ("holdout", "leave-one-out", "k-fold"):
            message = f"McNemar's test needs every row tested once, not {one.scheme}"
            raise ParameterError(message, remedy='use test="auto"')


SHARED = (
    "rows are taken as independent, but their models were fitted to nearly the same rows; measured type-I error "
    "at .05: .04 to .11, higher for less stable learners"
)


def caveats_of(test: str, result: TestResult, one: Validation) -> tuple[str, ...]:
    """What the test leaves open on these splits, with rates measured in docs/simulations/comparison.md."""
    kind = one.scheme.kind
    caveats = [result.liberal] if result.liberal else []
    if kind != "holdout" and test in (*BY_ROWS, "bootstrap"):
        caveats.append(SHARED)
    if kind == "leave-one-out" and one.metric.needs == "labels":
        caveats.append(
            "where classes are equally large, the majority of the other rows is always the wrong class, so learners "
            "that lean to it look worse than they are; folds leave out rows of each class"
        )
    if test in ("5x2_t", "5x2_F"):
        caveats.append('test="corrected_t" on the same splits was measured at .03 to .04')
    if test in ("corrected_t", "cv_t"):
        if kind == "bootstrap":
            caveats.append("training sets are counted by their distinct rows: the theory is not for bootstrap samples")
        if kind == "time-ordered":
            caveats.append(
                "training sets grow and rows follow each other in time; no theory covers that, so take p as a guide"
            )
        if kind == "other":
            caveats.append("the splits follow no known scheme; mean sizes of the parts are used")
    if test == "5x2_t":
        caveats.append(
            "only the first of the ten differences is tested, so another order of halvings gives another answer"
        )
    return tuple(caveats)


def directed(statistic: Array, alternative: str) -> Array:
    """Statistics signed so that the greater is the further from the null."""
    return {"two-sided": np.abs(statistic), "greater": statistic, "less": -statistic}[alternative]


# The tests, from two results to a TestResult.


def used_test(test: str, first: Validation, second: Validation) -> str:
    """The test of one pair: `test`, or one over rows where the folds all differ by the same and so have no spread."""
    if not _flat(first, second) or first.weights is not None or first.fold_losses is None or first.in_groups:
        return test
    return "mcnemar" if binary([first, second]) else "paired_t"


def judge(
    test: str,
    rule: partial[TestResult],
    found: Sequence[Validation],
    names: Sequence[str],
    a: int,
    b: int,
) -> TestResult:
    """The test of one pair; where nothing can be tested, a result without a p-value whose method is the reason."""
    first, second = found[a], found[b]
    used = used_test(test, first, second)
    if used != test:
        rule = partial(RULES[used], alternative=rule.keywords["alternative"])
    try:
        return rule(first, second)
    except DataError as error:
        why = "no variance between folds" if _flat(first, second) and not first.in_groups else error.what
        return _untested(first, second, why, rule.keywords["alternative"])
    except AssayError as error:
        raise type(error)(f"{names[a]} against {names[b]}: {error.what}", remedy=error.remedy) from error


def _flat(first: Validation, second: Validation) -> bool:
    """Whether the folds differ, and all by the same."""
    gaps = _gaps(first, second)
    return gaps.size > 1 and gaps[0] != 0 and float(np.ptp(gaps)) <= ROUNDING * float(np.abs(gaps).max())


def _untested(first: Validation, second: Validation, why: str, alternative: str) -> TestResult:
    """A difference that no test can judge: its estimate, without a p-value and limits."""
    estimate, folds = first.value - second.value, int(first.pseudo_values.size)
    return TestResult(
        statistic=float("nan"),
        p_value=float("nan"),
        df=None,
        method=f"{UNTESTED}: {why}",
        estimate=estimate,
        n=folds,
        alternative=alternative,
        null=0.0,
        estimand="mean difference",
        untested=why,
        interval_rule=partial(_no_limits, estimate=estimate, n=folds),
    )


def _no_limits(level: float, *, estimate: float, n: int) -> Interval:
    return Interval(estimate, np.nan, np.nan, fraction(level, "level"), UNTESTED, n, "mean difference")


def _mcnemar(first: Validation, second: Validation, *, alternative: str, exact: bool) -> TestResult:
    a, b = first.row_losses()[0], second.row_losses()[0]
    # One is an error for a loss and a hit for a score; either way the estimate is metric(first) - metric(second).
    more, less = int(np.sum(a > b)), int(np.sum(a < b))
    return mcnemar_test(more, less, n=a.size, exact=exact, alternative=alternative)


def _paired_t(first: Validation, second: Validation, *, alternative: str) -> TestResult:
    found = t_test(_row_gaps(first, second), alternative=alternative)
    return replace(found, method="Paired t-test over rows", estimand="mean difference")


def _settled(a: Array, b: Array) -> Array:
    """a - b, exactly 0 where only rounding keeps them apart."""
    gap = a - b
    return np.where(np.abs(gap) <= ROUNDING * np.maximum(np.abs(a), np.abs(b)), 0.0, gap)


def _row_gaps(first: Validation, second: Validation) -> Array:
    return _settled(first.row_losses()[0], second.row_losses()[0])


def _gaps(first: Validation, second: Validation) -> Array:
    """Differences of pseudo-values, whose mean is the difference of the figures."""
    return _settled(first.pseudo_values, second.pseudo_values)


def gaps_of(test: str, found: Sequence[Validation], pairs: Sequence[tuple[int, int]]) -> Array:
    """What a t-test of each pair takes, a column per pair: differences over rows or over folds."""
    of = _row_gaps if test in BY_ROWS else _gaps
    return np.column_stack([of(found[a], found[b]) for a, b in pairs])


def _tested_gaps(first: Validation, second: Validation) -> Array:
    gaps = _gaps(first, second)
    if np.isnan(gaps).any():
        what = "group" if first.in_groups else "fold"
        message = f"a single {what} decides the {first.metric.name}, so its spread is unknown"
        raise DataError(message, remedy=f"use {'more groups' if first.in_groups else 'fewer folds'}, or another metric")
    return gaps


def fold_sizes(result: Validation) -> tuple[float, float]:
    """Mean numbers of distinct training rows and of test rows."""
    scheme = result.scheme
    if scheme.kind != "bootstrap":
        return scheme.n_train, scheme.n_test
    return float(np.mean([np.unique(train).size for train, _ in result.splits])), scheme.n_test


def _corrected_t(first: Validation, second: Validation, *, alternative: str) -> TestResult:
    n_train, n_test = fold_sizes(first)
    return corrected_t_test(_tested_gaps(first, second), n_train=n_train, n_test=n_test, alternative=alternative)


def _cv_t(first: Validation, second: Validation, *, alternative: str) -> TestResult:
    return cv_t_test(_tested_gaps(first, second), alternative=alternative)


def _groups_t(first: Validation, second: Validation, *, alternative: str) -> TestResult:
    gaps = _tested_gaps(first, second)
    if gaps.size == 1:
        raise DataError("the held-out rows are of one group", remedy="hold out more groups")
    if _flat(first, second):
        raise DataError("no variance between groups", remedy="hold out more groups")
    found = t_test(gaps, alternative=alternative)
    return replace(found, method="Paired t-test over groups", estimand="mean difference")


def _five_by_two(first: Validation, second: Validation, *, alternative: str, statistic: str) -> TestResult:
    gaps = _tested_gaps(first, second).reshape(5, 2)
    return five_by_two_test(gaps, statistic=statistic, alternative=alternative)


def _tested(result: Validation) -> OutOfFold:
    """The tested rows, in the same order for every learner."""
    rows = Rows(None, result.y, result.weights, result.classes)
    kept = result.fold_predictions[result.metric.needs]
    return out_of_fold(result.metric, rows, result.splits, result.scheme, kept)


def drawn_again(found: Sequence[Validation], n_resamples: int, random_state: Any) -> dict[int, Array]:
    """The metric of every learner on the same resamples of the rows; NaN where one of the classes is not drawn."""
    tested = [_tested(result) for result in found]
    rng, n = generator(random_state), tested[0].y.shape[0]
    values = np.full((n_resamples, len(found)), np.nan)
    for row in track(range(n_resamples), "paired bootstrap", n_resamples):
        i = rng.integers(0, n, n)
        for column, one in enumerate(tested):
            # A resample may lack a class, and then has no such figure: it is left out for every learner.
            with suppress(AssayError):
                values[row, column] = one.value(i)
    values = values[~np.isnan(values).any(axis=1)]
    if values.shape[0] < n_resamples / 2:
        message = f"{found[0].metric.name} is not defined on {n_resamples - values.shape[0]} of {n_resamples} resamples"
        raise DataError(message, remedy="test more rows")
    return {id(result): values[:, column] for column, result in enumerate(found)}


def _bootstrapped(first: Validation, second: Validation, *, alternative: str, drawn: Mapping[int, Array]) -> TestResult:
    """The paired bootstrap: rows are drawn again, with both learners' predictions for them.

    How far resamples fall from the estimate, in either direction, is how far the estimate may be from the truth. Where
    every resample has the same difference there is no spread to judge by: a sign test over the rows that differ.
    """
    estimate = float(_settled(np.array([first.value]), np.array([second.value]))[0])
    values = drawn_gaps(drawn, first, second)
    error = spread_of(values[:, None], np.array([estimate]))
    law = max_t_of_draws(values[:, None], np.array([estimate]), error, alternative)
    if error[0] > 0:
        statistic = estimate / float(error[0])
        p_value = float(law.adjusted(directed(np.array([statistic]), alternative), np.ones(1))[0])
    else:
        statistic, p_value = np.copysign(np.inf, estimate) if estimate else 0.0, 1.0
        if directed(np.array([statistic]), alternative)[0] > 0:
            p_value = min(1.0, (2.0 if alternative == "two-sided" else 1.0) * 0.5 ** _differing(first, second))
    what, n = f"difference in {first.metric.name}", _tested(first).y.shape[0]
    around = partial(_around, law=law, error=float(error[0]), estimate=estimate, p=p_value)
    return TestResult(
        statistic=statistic,
        p_value=p_value,
        df=None,
        method="Paired bootstrap test",
        estimate=estimate,
        n=n,
        alternative=alternative,
        null=0.0,
        estimand=what,
        assumptions=("the rows are independent draws", "n is large enough for resamples to vary as samples do"),
        interval_rule=partial(around, alternative=alternative, n=n, estimand=what),
    )


def drawn_gaps(drawn: Mapping[int, Array], first: Validation, second: Validation) -> Array:
    """The difference of two learners on each resample."""
    return _settled(drawn[id(first)], drawn[id(second)])


def spread_of(gaps: Array, estimate: Any = 0.0) -> Array:
    """The standard deviation of each column, at any scale; 0 where rounding of the estimate alone keeps rows apart."""
    unit = float(np.abs(gaps).max(initial=0.0)) or 1.0
    spread = unit * (gaps / unit).std(axis=0, ddof=1)
    return np.where(spread <= ROUNDING * np.abs(estimate), 0.0, spread)


def _differing(first: Validation, second: Validation) -> int:
    a, b = _tested(first), _tested(second)
    return rows_that_differ(first.metric, a.y, a.predicted, b.predicted, a.weights)


def half_width(law: MaxT, error: Array, estimate: Array, p_values: Array, level: float) -> Array:
    """How far the limits are away; without a spread nowhere, or out of sight where too few rows differ to tell."""
    flat = np.where(rejects(p_values, level) | (estimate == 0), 0.0, np.inf)
    return np.multiply(law.critical(level), error, where=error > 0, out=flat)


def _around(
    level: float, *, law: MaxT, error: float, estimate: float, p: float, alternative: str, n: int, estimand: str
) -> Interval:
    level = fraction(level, "level")
    errors, estimates, p_values = np.array([[error], [estimate], [p]])
    half = float(half_width(law, errors, estimates, p_values, level)[0])
    lower = -np.inf if alternative == "less" else estimate - half
    upper = np.inf if alternative == "greater" else estimate + half
    return Interval(estimate, float(lower), float(upper), level, "bootstrap t", n, estimand)


RULES: dict[str, Callable[..., TestResult]] = {
    "mcnemar": partial(_mcnemar, exact=True),
    "mcnemar_corrected": partial(_mcnemar, exact=False),
    "paired_t": _paired_t,
    "bootstrap": _bootstrapped,
    "corrected_t": _corrected_t,
    "cv_t": _cv_t,
    "groups_t": _groups_t,
    "5x2_t": partial(_five_by_two, statistic="t"),
    "5x2_F": partial(_five_by_two, statistic="F"),
}
