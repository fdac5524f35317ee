"""Which test of a difference fits the splits and the metric, and how two results feed it.

A test over rows takes the metric's value per row, averaged where a row was tested several times; a test over folds the
metric of each fold; the bootstrap the predictions themselves. Each gives metric(first) - metric(second). Differences
that only rounding keeps from zero are zero. Cost: O(n); the bootstrap calls the metric once per learner and resample.
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
from assay.evaluation.validation import Validation, defined
from assay.inference import corrected_t_test, cv_t_test, five_by_two_test, mcnemar_test, t_test
from assay.metrics.scorer import class_options
from assay.numerics.seeds import generator
from assay.progress import track
from assay.resampling import AllButOne
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
    "drawn_again",
    "estimate_of",
    "fold_sizes",
    "judge",
    "refuse_misfit",
]

Array = np.ndarray
BY_ROWS = ("mcnemar", "mcnemar_corrected", "paired_t")
ROUNDING = 1e-12
"""Scores closer than this share of their size are the same score, summed in another order."""
UNTESTED = "not testable"


def binary(found: Sequence[Validation]) -> bool:
    """Whether every row is right or wrong: a 0/1 value of a metric that does not judge numbers."""
    if found[0].fold_losses is None or found[0].metric.needs == "values":
        return False
    return all(bool(np.isin(part, (0.0, 1.0)).all()) for one in found for part in one.fold_losses or ())


def choose(found: Sequence[Validation]) -> tuple[str, str]:
    one = found[0]
    kind, name = one.scheme.kind, one.metric.name
    if kind in ("holdout", "leave-one-out"):
        where = "There is one test set" if kind == "holdout" else "Every row is tested once, alone"
        if one.weights is not None:
            return "bootstrap", f"{where}, and rows have weights: rows are drawn again to see how {name} varies."
        if kind == "holdout" and binary(found):
            return "mcnemar", f"{where} of rows that are right or wrong: only those on which the two disagree tell."
        if one.fold_losses is not None:
            return "paired_t", f"{where}, and {name} is a mean over rows: the two are compared row by row."
        return "bootstrap", f"{where}, and {name} is a figure of all rows at once: rows are drawn again."
    if kind == "5x2":
        why = "The tests made for five halvings (5x2_t, 5x2_F) reject too often when learners are unsteady; this held."
        return "corrected_t", why
    shared = "Folds share training rows, so their differences vary together: the variance is enlarged for that."
    return "corrected_t", shared


def refuse_misfit(test: str, found: Sequence[Validation]) -> None:
    """Refuse a test that the splits or the metric cannot feed."""
    one = found[0]
    kind, name = one.scheme.kind, one.metric.name
    if test in ("5x2_t", "5x2_F") and kind != "5x2":
        raise ParameterError(f"the 5x2cv test needs five halvings, not a {one.scheme}", remedy="use cv=FiveByTwo()")
    if test in ("cv_t", "corrected_t") and kind == "holdout":
        raise ParameterError("one test set has no spread over folds", remedy='use test="auto", or several folds')
    if test in ("cv_t", "corrected_t") and np.isnan(one.fold_scores).all():
        raise ParameterError(f"{name} has no value on a single row", remedy='use test="bootstrap", or fewer folds')
    if test == "bootstrap" and kind not in ("holdout", "leave-one-out", "k-fold"):
        raise ParameterError("rows tested several times cannot be drawn again", remedy='use test="corrected_t"')
    if test not in BY_ROWS:
        return
    if one.weights is not None:
        raise ParameterError(f"{test} takes every row alike, but there are weights", remedy='use test="auto"')
    if one.fold_losses is None:
        raise ParameterError(f"{name} is no mean over rows", remedy='use test="auto", or a metric such as "error"')
    if test != "paired_t":
        if not binary(found):
            raise ParameterError(
                f"McNemar's test needs rows that are right or wrong, not a {name}", remedy='use "error"'
            )
        if kind not in ("holdout", "leave-one-out", "k-fold"):
            what = f"McNemar's test needs every row tested once, not {one.scheme}"
            raise ParameterError(what, remedy='use test="auto"')


SHARED = (
    "rows are taken as independent, but their models were fitted to nearly the same rows; measured type-I error "
    "at .05: .04 to .11, the more the less steady the learners"
)


def caveats_of(test: str, result: TestResult, one: Validation) -> tuple[str, ...]:
    """What the test leaves open on these splits, with rates measured in docs/simulations/comparison.md."""
    kind = one.scheme.kind
    said = [result.liberal] if result.liberal else []
    if kind != "holdout" and test in (*BY_ROWS, "bootstrap"):
        said.append(SHARED)
    if test in ("5x2_t", "5x2_F"):
        said.append('test="corrected_t" on the same splits was measured at .03 to .04')
    if test in ("corrected_t", "cv_t"):
        if kind == "bootstrap":
            said.append("training sets are counted by their distinct rows, as no theory is made for bootstrap samples")
        if kind == "time-ordered":
            said.append(
                "training sets grow and rows follow each other in time; no theory covers that, so take p as a guide"
            )
        if kind == "other":
            said.append("the splits follow no known scheme; mean sizes of the parts are used")
    if test == "5x2_t":
        said.append(
            "the first of the ten differences alone is tested, so another order of halvings gives another answer"
        )
    return tuple(said)


# The tests, from two results to a TestResult.


def judge(
    rule: partial[TestResult],
    found: Sequence[Validation],
    names: Sequence[str],
    a: int,
    b: int,
) -> TestResult:
    """The test of one pair; where nothing can be tested, a result without a p-value whose method is the reason."""
    first, second = found[a], found[b]
    if _flat(first, second) and first.weights is None and first.fold_losses is not None:
        # Folds that all differ by the same have no spread to judge by; the rows have.
        rule = partial(_mcnemar if binary([first, second]) else _paired_t, **_row_options(rule, first, second))
    try:
        return rule(first, second)
    except DataError as error:
        why = "no variance between folds" if _flat(first, second) else error.what
        return _untested(first, second, why, rule.keywords["alternative"])
    except AssayError as error:
        raise type(error)(f"{names[a]} against {names[b]}: {error.what}", remedy=error.remedy) from error


def _flat(first: Validation, second: Validation) -> bool:
    """Whether the folds differ, and all by the same."""
    gaps = _gaps(first, second)
    return gaps.size > 1 and gaps[0] != 0 and float(np.ptp(gaps)) <= ROUNDING * float(np.abs(gaps).max())


def _untested(first: Validation, second: Validation, why: str, alternative: str) -> TestResult:
    """A difference that no test can judge: its estimate, without a p-value and limits."""
    gaps = _gaps(first, second)
    estimate = float(gaps.mean()) if gaps.size else float("nan")
    return TestResult(
        statistic=float("nan"),
        p_value=float("nan"),
        df=None,
        method=f"{UNTESTED}: {why}",
        estimate=estimate,
        n=int(gaps.size),
        alternative=alternative,
        null=0.0,
        estimand="mean difference",
        untested=why,
        interval_rule=partial(_no_limits, estimate=estimate, n=int(gaps.size)),
    )


def _no_limits(level: float, *, estimate: float, n: int) -> Interval:
    return Interval(estimate, np.nan, np.nan, fraction(level, "level"), UNTESTED, n, "mean difference")


def _row_options(rule: Any, first: Validation, second: Validation) -> dict[str, Any]:
    told = {"alternative": rule.keywords["alternative"]}
    return {**told, "exact": True} if binary([first, second]) else told


def estimate_of(result: Validation, test: str) -> float:
    """The learner's own figure, as its test sees it: over rows, over folds, or of all rows at once."""
    if test in BY_ROWS:
        return float(result.row_losses()[0].mean())
    if test == "bootstrap":
        y, predicted, weights = _pooled(result)
        return _value(result, y, predicted, weights)
    return float(defined(result.fold_scores).mean())


def _mcnemar(first: Validation, second: Validation, *, alternative: str, exact: bool) -> TestResult:
    a, b = first.row_losses()[0], second.row_losses()[0]
    # One is an error for a loss and a hit for a score; either way the estimate is metric(first) - metric(second).
    more, less = int(np.sum(a > b)), int(np.sum(a < b))
    return mcnemar_test(more, less, n=a.size, exact=exact, alternative=alternative)


def _paired_t(first: Validation, second: Validation, *, alternative: str) -> TestResult:
    found = t_test(_settled(first.row_losses()[0], second.row_losses()[0]), alternative=alternative)
    return replace(found, method="Paired t-test over rows", estimand="mean difference")


def _settled(a: Array, b: Array) -> Array:
    """a - b, exactly 0 where only rounding keeps them apart."""
    gap = a - b
    return np.where(np.abs(gap) <= ROUNDING * np.maximum(np.abs(a), np.abs(b)), 0.0, gap)


def _gaps(first: Validation, second: Validation) -> Array:
    """Differences on the folds where both have a figure."""
    return defined(_settled(first.fold_scores, second.fold_scores))


def fold_sizes(result: Validation) -> tuple[float, float]:
    """Mean numbers of distinct training rows and of test rows."""
    scheme = result.scheme
    if scheme.kind != "bootstrap":
        return scheme.n_train, scheme.n_test
    return float(np.mean([np.unique(train).size for train, _ in result.splits])), scheme.n_test


def _corrected_t(first: Validation, second: Validation, *, alternative: str) -> TestResult:
    n_train, n_test = fold_sizes(first)
    return corrected_t_test(_gaps(first, second), n_train=n_train, n_test=n_test, alternative=alternative)


def _cv_t(first: Validation, second: Validation, *, alternative: str) -> TestResult:
    return cv_t_test(_gaps(first, second), alternative=alternative)


def _five_by_two(first: Validation, second: Validation, *, alternative: str, statistic: str) -> TestResult:
    gaps = _gaps(first, second)
    if gaps.size < 10:
        raise DataError(f"{first.metric.name} is not defined on every half", remedy='use test="corrected_t"')
    gaps = gaps.reshape(5, 2)
    return five_by_two_test(gaps, statistic=statistic, alternative=alternative)


def _pooled(result: Validation) -> tuple[Array, Array, Array | None]:
    """Targets, predictions and weights of the tested rows, in the same order for every learner."""
    kept = result.fold_predictions[result.metric.needs]
    tests = np.arange(result.y.shape[0]) if isinstance(result.splits, AllButOne) else None
    rows = np.concatenate([test for _, test in result.splits]) if tests is None else tests
    return result.y[rows], np.concatenate(kept), None if result.weights is None else result.weights[rows]


def _value(result: Validation, y: Array, predicted: Array, weights: Array | None) -> float:
    options = class_options(result.metric, result.classes)
    if weights is not None:
        options["sample_weight"] = weights
    return float(result.metric(y, predicted, **options))


def drawn_again(found: Sequence[Validation], n_resamples: int, random_state: Any) -> dict[int, Array]:
    """The metric of every learner on the same resamples of the rows; NaN where one of the classes is not drawn."""
    pooled = [_pooled(result) for result in found]
    rng, n = generator(random_state), pooled[0][0].shape[0]
    values = np.full((n_resamples, len(found)), np.nan)
    for row in track(range(n_resamples), "paired bootstrap", n_resamples):
        i = rng.integers(0, n, n)
        for column, (result, (y, predicted, weights)) in enumerate(zip(found, pooled, strict=True)):
            # A resample may lack a class, and then has no such figure: it is left out for every learner.
            with suppress(AssayError):
                values[row, column] = _value(result, y[i], predicted[i], None if weights is None else weights[i])
    values = values[~np.isnan(values).any(axis=1)]
    if values.shape[0] < n_resamples / 2:
        what = f"{found[0].metric.name} is not defined on {n_resamples - values.shape[0]} of {n_resamples} resamples"
        raise DataError(what, remedy="test more rows")
    return {id(result): values[:, column] for column, result in enumerate(found)}


def _bootstrapped(first: Validation, second: Validation, *, alternative: str, drawn: Mapping[int, Array]) -> TestResult:
    """The paired bootstrap: rows are drawn again, with both learners' predictions for them."""
    estimate = float(
        _settled(np.array([estimate_of(first, "bootstrap")]), np.array([estimate_of(second, "bootstrap")]))[0]
    )
    values = _settled(drawn[id(first)], drawn[id(second)])
    count, n = values.size + 1, _pooled(first)[0].shape[0]
    below, above = float(1 + np.sum(values <= 0)) / count, float(1 + np.sum(values >= 0)) / count
    p = {"less": above, "greater": below, "two-sided": min(1.0, 2 * min(below, above))}[alternative]
    spread = float(np.std(values, ddof=1))
    what = f"difference in {first.metric.name}"
    return TestResult(
        statistic=estimate / spread if spread > 0 else 0.0,
        p_value=p,
        df=None,
        method="Paired bootstrap test",
        estimate=estimate,
        n=n,
        alternative=alternative,
        null=0.0,
        estimand=what,
        assumptions=("the rows are independent draws", "n is large enough for resamples to vary as samples do"),
        interval_rule=partial(
            _percentiles, values=values, estimate=estimate, alternative=alternative, n=n, estimand=what
        ),
    )


def _percentiles(level: float, *, values: Array, estimate: float, alternative: str, n: int, estimand: str) -> Interval:
    level = fraction(level, "level")
    tail = (1 - level) / 2 if alternative == "two-sided" else 1 - level
    low, high = np.quantile(values, [tail, 1 - tail])
    lower, upper = -np.inf if alternative == "less" else low, np.inf if alternative == "greater" else high
    return Interval(estimate, float(lower), float(upper), level, "percentile bootstrap", n, estimand)


RULES: dict[str, Callable[..., TestResult]] = {
    "mcnemar": partial(_mcnemar, exact=True),
    "mcnemar_corrected": partial(_mcnemar, exact=False),
    "paired_t": _paired_t,
    "bootstrap": _bootstrapped,
    "corrected_t": _corrected_t,
    "cv_t": _cv_t,
    "5x2_t": partial(_five_by_two, statistic="t"),
    "5x2_F": partial(_five_by_two, statistic="F"),
}
