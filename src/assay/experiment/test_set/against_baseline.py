"""The one planned test of a study: the selected learner against the baseline, on the same test rows.

With d the difference of the two figures, selected minus baseline, and alpha one minus the level of the look,

    right or wrong  exact McNemar test on the rows on which the two differ, Tango's score limits of d; a limit that
                    excludes 0 where the exact test does not reject is moved to 0
    costs           limits from the shares of each kind of error, also of those not drawn (`costs`), and their p
    row losses      d -+ t_{n-1} se,  se^2 = var(l_i - l0_i) / n: the paired t-test
    in groups       d -+ t_v se,  se by leaving out blocks of whole groups, v + 1 their effective number (`grouped`)
    other figures   d -+ t_v se,  se from B resamples of the rows (of groups, where there are groups), both learners'
                    predictions drawn together

so that p < alpha exactly where the interval excludes 0, and whatever is said follows the interval. Among figures of
classes a rare class decides how well the error of d is known: with U_i = cov(N_i, d*) the influence of row i on the
resamples (N_i how often it was drawn) and V_k = sum_{i in k} U_i^2 n_k/(n_k - 1) that of class k,

    se^2 = var(d*) sum_k V_k / sum_k U_k^2,    v = (sum_k V_k)^2 / sum_k (V_k^2 / (n_k - 1))        (Satterthwaite)

The test is about these two fitted models on rows like the test rows. Cost: O(n), or B evaluations of both figures.
McNemar (1947), Psychometrika 12, 153-157; Tango (1998), Statistics in Medicine 17, 891-908; Efron & Tibshirani (1993),
An Introduction to the Bootstrap, ch. 13; influence from resamples: Efron (2014), JASA 109, 991-1007; Satterthwaite
(1946), Biometrics Bulletin 2, 110-114.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.errors import AssayError, DataError
from assay.evaluation.figures import rows_that_differ
from assay.experiment.test_set.costs import CostDifference, cost_difference
from assay.experiment.test_set.grouped import blocks_of
from assay.inference.paired import mcnemar_test
from assay.metrics.definition import Metric
from assay.numbers import with_limits
from assay.results import Interval, Result, format_p

__all__ = ["BETTER", "UNCLEAR", "WORSE", "BaselineTest", "against_baseline"]

Array = np.ndarray
BETTER, WORSE, UNCLEAR = "better", "worse", "unclear"
ROUNDING = 1e-12
"""Losses closer than this share of their size are the same, computed twice."""
RESAMPLES, LEAST, WORK = 999, 199, 5_000_000
"""Resamples at most and at least, and rows drawn in all of them together: more change the error by a few percent."""
DEFINED = 0.5
"""The share of resamples on which a figure must be defined."""


@dataclass(frozen=True, eq=False, repr=False)
class BaselineTest(Result):
    """The selected learner against the baseline on the test rows.

    | field             | meaning                                                          |
    |-------------------|------------------------------------------------------------------|
    | metric            | the primary metric                                               |
    | selected          | the learner                                                      |
    | difference        | its figure minus that of the baseline                            |
    | lower, upper      | limits of the difference                                         |
    | p_value           | of no difference, two-sided                                      |
    | level             | of the interval: the share of the look                           |
    | method            | the test                                                         |
    | n                 | independent units: rows, or groups                               |
    | greater_is_better | which sign is good                                               |
    """

    metric: str
    selected: str
    difference: float
    lower: float
    upper: float
    p_value: float
    level: float
    method: str
    n: int
    greater_is_better: bool

    @property
    def code(self) -> str:
        """ "better" or "worse" than the baseline if the interval excludes 0, else "unclear"."""
        if self.lower <= 0.0 <= self.upper:
            return UNCLEAR
        return BETTER if (self.lower > 0.0) == self.greater_is_better else WORSE

    @property
    def p_text(self) -> str:
        """The p-value as it is written: p = 0.03, or p < 0.0001, below which no approximation is exact."""
        return "p < 0.0001" if self.p_value < 1e-4 else f"p = {format_p(self.p_value)}"

    @property
    def interval(self) -> Interval:
        """The difference with its limits."""
        estimand = f"difference in {self.metric}, {self.selected} minus baseline"
        return Interval(self.difference, self.lower, self.upper, self.level, self.method, self.n, estimand)

    def to_frame(self) -> pd.DataFrame:
        """One row: difference, lower, upper, level, p_value, method, n, finding."""
        names = ("difference", "lower", "upper", "level", "p_value", "method", "n")
        row = {name: getattr(self, name) for name in names} | {"finding": self.code}
        return pd.DataFrame([row], index=pd.Index([self.metric], name="metric"))

    def __str__(self) -> str:
        shown = with_limits(self.difference, self.lower, self.upper)
        return (
            f"{self.selected} minus baseline: difference in {self.metric} {shown[0]}, {100 * self.level:.6g}% interval "
            f"[{shown[1]}, {shown[2]}], {self.p_text} ({self.method}, n = {self.n:,}): {self.code}"
        )


def against_baseline(
    metric: Metric,
    y: Array,
    selected: Array,
    baseline: Array,
    *,
    name: str = "selected",
    level: float = 0.95,
    groups: Any = None,
    random_state: int = 0,
    **options: Any,
) -> BaselineTest:
    """Test whether two models have the same figure on rows like these, paired.

    | parameter          | default    | range        | meaning                                       |
    |--------------------|------------|--------------|-----------------------------------------------|
    | metric             |            | a `Metric`   | the figure                                    |
    | y                  |            | one per row  | the targets                                   |
    | selected, baseline |            | one per row  | what the metric needs, from each              |
    | name               | "selected" | text         | the first model                               |
    | level              | 0.95       | (0, 1)       | confidence of the interval of the difference  |
    | groups             | None       | one per row  | rows with one label belong together           |
    | random_state       | 0          | whole number | seed of the resamples                         |
    | options            |            |              | passed on to the metric                       |

    >>> from assay.metrics import get_metric
    >>> y = np.arange(8.0)
    >>> print(against_baseline(get_metric("mae"), y, y + [0, 1, 0, 1, 0, 1, 0, 1], np.full(8, 3.5), name="line"))
    line minus baseline: difference in mae -1.5, 95% interval [-2.6, -0.4], p = 0.0142 (paired t-test, n = 8): better
    """
    first, second = (metric.per_row(y, one, **options) for one in (selected, baseline))
    if groups is not None:
        codes, _ = pd.factorize(np.asarray(groups), use_na_sentinel=False)
        if first is None or second is None:
            found = _resampled(metric, y, selected, baseline, codes, level, random_state, options)
        else:
            found = _by_groups(_settled(first, second), codes, level)
    elif first is None or second is None:
        found = _resampled(metric, y, selected, baseline, None, level, random_state, options)
    elif metric.right_or_wrong and np.isin(first, (0.0, 1.0)).all() and np.isin(second, (0.0, 1.0)).all():
        found = _right_or_wrong(first, second, level)
    elif metric.needs == "labels":
        found = _of_costs(cost_difference(metric, y, selected, baseline, **options), level)
    else:
        found = _paired_t(_settled(first, second), level, "paired t-test")
    difference, (lower, upper), p_value, method, n = found
    most = metric.range[1] - metric.range[0]  # no difference is larger than the range of the figure
    ends = (float(np.clip(lower, -most, most)), float(np.clip(upper, -most, most)))
    return BaselineTest(metric.name, name, difference, *ends, p_value, level, method, n, metric.greater_is_better)


Found = tuple[float, tuple[float, float], float, str, int]


def _settled(first: Array, second: Array) -> Array:
    """Differences, 0 where they are rounding alone."""
    gaps = first - second
    return np.asarray(np.where(np.abs(gaps) <= ROUNDING * (np.abs(first) + np.abs(second)), 0.0, gaps))


def _right_or_wrong(first: Array, second: Array, level: float) -> Found:
    b, c, n = int(np.sum(first > second)), int(np.sum(first < second)), first.size
    test = mcnemar_test(b, c, n=n)
    limits = test.interval(level)
    lower, upper, p_value = float(limits.lower), float(limits.upper), float(test.p_value)
    if p_value >= 1 - level:
        lower, upper = min(lower, 0.0), max(upper, 0.0)
    return (b - c) / n, (lower, upper), p_value, "exact McNemar test, Tango score limits", n


def _paired_t(gaps: Array, level: float, method: str) -> Found:
    unit = float(np.abs(gaps).max(initial=0.0)) or 1.0  # squares stay in range
    scaled = gaps / unit
    error = unit * float(scaled.std(ddof=1) / np.sqrt(gaps.size)) if gaps.size > 1 else 0.0
    return _student(unit * float(scaled.mean()), error, gaps.size - 1.0, level, gaps.size, method)


def _of_costs(costs: CostDifference, level: float) -> Found:
    lower, upper = costs.limits(float(-special.ndtri((1 - level) / 2)))
    p_value = costs.p_value()
    if p_value >= 1 - level:
        lower, upper = min(lower, 0.0), max(upper, 0.0)
    return costs.estimate, (lower, upper), p_value, "Wilson limits of the shares of errors, by cost", costs.n


def _student(
    difference: float, error: float, df: float, level: float, n: int, method: str, differing: int | None = None
) -> Found:
    """Limits and p by Student's t; where the n units do not vary at all, by the common sign of those that differ."""
    if n > 1 and error > 0:
        df = max(1.0, df)
        half = float(special.stdtrit(df, (1 + level) / 2)) * error
        p_value = 2 * float(special.stdtr(df, -abs(difference) / error))
        return difference, (difference - half, difference + half), p_value, method, n
    p_value = 1.0 if difference == 0 else min(1.0, 2.0 ** (1 - (n if differing is None else differing)))
    ends = (difference, difference) if p_value < 1 - level or (difference == 0 and n > 1) else (-np.inf, np.inf)
    return difference, ends, p_value, f"{method} without spread: sign test", n


def _by_groups(gaps: Array, codes: Array, level: float) -> Found:
    """The mean difference of the rows, its error by leaving out blocks of whole groups."""
    blocks = blocks_of(codes)
    sizes, sums = np.bincount(blocks).astype(float), np.bincount(blocks, weights=gaps)
    difference, count = float(gaps.mean()), sizes.size
    if count > 1:
        without = (sums.sum() - sums) / (sizes.sum() - sizes)
        error = float(np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum()))
        if error <= ROUNDING * abs(difference):
            error = 0.0
    else:
        error = 0.0
    return _student(
        difference, error, _effective(sizes) - 1, level, int(codes.max()) + 1, "paired jackknife over groups"
    )


def _effective(sizes: Array) -> float:
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def _resampled(
    metric: Metric,
    y: Array,
    selected: Array,
    baseline: Array,
    codes: Array | None,
    level: float,
    random_state: int,
    options: dict[str, Any],
) -> Found:
    """The paired bootstrap: units are drawn again, with both models' predictions for them.

    Rows are drawn by their place in the order of target and predictions, so that neither the order of the table nor
    the units of its columns choose other resamples.
    """
    order = _ordered(y, selected, baseline)
    y, selected, baseline = y[order], selected[order], baseline[order]
    codes = None if codes is None else pd.factorize(codes[order])[0]

    def gap(rows: Any) -> float:
        a, b = (np.array([float(metric(y[rows], one[rows], **options))]) for one in (selected, baseline))
        return float(_settled(a, b)[0])

    unit = np.arange(y.shape[0]) if codes is None else codes
    count = int(unit.max()) + 1
    method = "paired bootstrap" if codes is None else "paired bootstrap of groups"
    order = np.argsort(unit, kind="stable")
    starts = np.searchsorted(unit[order], np.arange(count + 1))
    rng = np.random.default_rng(random_state)
    total = int(np.clip(WORK / y.shape[0], LEAST, RESAMPLES))
    drawn, counts = [], np.zeros((2, count))  # sums of N and of N d*
    for _ in range(total):
        chosen = rng.integers(0, count, count)
        rows = chosen if codes is None else np.concatenate([order[starts[g] : starts[g + 1]] for g in chosen])
        try:
            one = gap(rows)
        except AssayError:  # a resample may lack a class, and then has no such figure
            continue
        drawn.append(one)
        times = np.bincount(chosen, minlength=count)
        counts += (times, times * one)
    if len(drawn) < DEFINED * total:
        message = f"{metric.name} is defined on only {len(drawn)} of {total} resamples of the test rows"
        raise DataError(message, remedy="use another metric, or more rows")
    values = np.array(drawn)
    influence = counts[1] / values.size - values.mean() * counts[0] / values.size
    strata = np.zeros(count, dtype=int)
    if codes is None and metric.needs != "values":
        strata = pd.factorize(np.asarray(y))[0]
    growth, df = _correction(influence, strata, float(values.var(ddof=1)) / values.size)
    if codes is not None:
        df = _effective(np.bincount(codes).astype(float)) - 1
    difference, error = gap(slice(None)), float(values.std(ddof=1)) * growth
    if error <= ROUNDING * abs(difference):
        error = 0.0
    differing = min(count, rows_that_differ(metric, y, selected, baseline))
    return _student(difference, error, df, level, count, f"{method}, {values.size} resamples", differing)


def _ordered(*columns: Array) -> Array:
    """The order of the rows by the first of these columns, ties by the next; of the same rows in any order the same."""
    keys = [part for column in columns for part in column.reshape(column.shape[0], -1).T]
    return np.lexsort([pd.factorize(key, sort=True)[0] for key in reversed(keys)])


def _correction(influence: Array, strata: Array, noise: float) -> tuple[float, float]:
    """By how much the resamples' spread is too small, and its degrees of freedom: each stratum estimates its own part.

    `noise` is what the finite number of resamples adds to each squared influence.
    """
    sizes = np.bincount(strata).astype(float)
    parts = np.maximum(0.0, np.bincount(strata, weights=influence**2) - sizes * noise)
    if sizes.size == 1 or parts.sum() == 0:
        n = float(sizes.sum())
        return float(np.sqrt(n / max(1.0, n - 1))), n - 1
    free = np.maximum(1.0, sizes - 1)
    larger = parts * np.maximum(sizes, 2) / free
    return float(np.sqrt(larger.sum() / parts.sum())), float(larger.sum() ** 2 / (larger**2 / free).sum())
