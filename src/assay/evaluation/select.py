"""Choosing among validated learners: the best, the simplest within one standard error, or within some percent.

With e_jk the pseudo-value of fold k for learner j (`assay.evaluation.figures`: their mean is the figure of all
out-of-fold rows; of a mean over rows they are fold means), b the best, and d_jk how much worse j is than b on fold k,

    best      argmin_j  mean_k e_jk
    one_se    the simplest j with  mean_k d_jk <= sqrt(c var_k d_jk),   c = 1/(K R) + n_test/n_train
    within    the simplest j with  mean_k d_jk <= percent/100 |mean_k e_bk|

The folds share training rows, so the variance of a mean over them is
c s^2 rather than s^2/K (Nadeau and Bengio). All learners see the same folds, and what makes a fold hard for one makes
it hard for the others: the spread of the difference, not of the scores themselves, says whether two can be told apart.
`paired=False` is the classic rule of Breiman et al., which compares with the best one's own s/sqrt(K). On one
validation set, and in leave-one-out, the rows take the place of the folds for metrics that are means over rows.

Cost: O(learners x folds). Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees, 3.4.3;
Nadeau and Bengio (2003), Machine Learning 52, 239-281.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from assay import numbers
from assay.checks import choice, number
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation.figures import Figure, held_out
from assay.evaluation.validation import same_experiment
from assay.metrics.definition import Metric
from assay.metrics.limits import standard_error
from assay.numbers import fmt
from assay.results import Result

__all__ = ["RULES", "Panel", "Selection", "about_as_good", "choose", "panel_of", "ranks_of", "select"]

Array = np.ndarray
RULES = ("best", "one_se", "within")
TITLES = {
    "best": "Selection of the best",
    "one_se": "Selection by the one-standard-error rule",
    "within": "Selection of the simplest within {percent:g}% of the best",
    "readable": "Selection of a readable learner about as good as the best",
}
ROUNDING = 16 * np.finfo(float).eps
"""Differences of this share of the figures are rounding, not evidence."""


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Result):
    """Which learner was chosen, by which rule and why.

    `table` has a row per learner, the simplest first: estimate, std_error, difference (how much worse than the best),
    allowed (how much worse it may be), within (whether it is no worse than that) and order (1 is the simplest).
    """

    name: str
    best: str
    rule: str
    why: str
    table: pd.DataFrame
    metric: Metric
    scheme: str
    paired: bool
    errors: str
    percent: float | None = None

    def to_frame(self) -> pd.DataFrame:
        """One row per learner, the simplest first."""
        return self.table.copy()

    def __str__(self) -> str:
        better = "greater" if self.metric.greater_is_better else "smaller"
        head = f"{self.metric.name} by {self.scheme}, {better} is better; standard errors {self.errors}"
        shown = self.table if len(self.table) <= 20 else self._notable()
        body = shown.to_string(float_format=lambda value: fmt(value, 5)).splitlines()
        left_out = len(self.table) - len(shown)
        body += [f"... and {left_out} more"] if left_out else []
        title = TITLES[self.rule].format(percent=self.percent)
        rule = "-" * max(len(line) for line in [title, head, *body])
        return "\n".join([title, rule, head, *body, rule, f"Chosen: {self.name}. {self.why}"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _notable(self) -> pd.DataFrame:
        """The twenty with the smallest differences; the chosen one is always among them."""
        near = set(self.table["difference"].sort_values(kind="stable").index[:20]) | {self.name}
        return self.table[self.table.index.isin(near)]


@dataclass(frozen=True, eq=False)
class Panel:
    """What to choose from: a row per learner and a column per fold, or per row of the table where `by_rows`.

    The variance of a mean over folds is `factor` times the variance between them.
    """

    names: tuple[str, ...]
    units: Array
    weights: Array
    by_rows: bool
    factor: float
    metric: Metric
    scheme: str

    @property
    def losses(self) -> Array:
        """The units with the sign of a loss."""
        return -self.units if self.metric.greater_is_better else self.units

    def mean(self, values: Array) -> Array:
        """Means over the columns."""
        return np.average(values, axis=-1, weights=self.weights)

    def error(self, values: Array, corrected: bool = True) -> Array:
        """Standard errors of those means; NaN where a single column has no spread."""
        k = values.shape[-1]
        if k < 2:
            return np.full(len(values), np.nan)
        if self.by_rows:
            return np.array([standard_error(row - self.mean(row), self.weights) for row in values])
        scale = np.abs(values).max(axis=-1)
        scale = np.where(scale > 0, scale, 1.0)
        factor = self.factor if corrected else 1.0 / k
        return scale * np.std(values / scale[:, None], axis=-1, ddof=1) * np.sqrt(factor)


def panel_of(
    names: Sequence[str], figures: Sequence[Any], splits: Any, weights: Array | None, scheme: Any, metric: Any
) -> Panel:
    """The panel of some figures over the same folds.

    Single rows are judged one by one, with no training sets to tell folds apart: the rows are then the units, or the
    groups of one held-out set. Where pseudo-values are missing the figure alone is left, which has no standard error.
    """
    values = np.array([[figure.value] for figure in figures], dtype=float)
    if not np.isfinite(values).all():
        worst = int(np.argmin(np.isfinite(values[:, 0])))
        raise DataError(f"{names[worst]} has no finite {metric.name}", remedy="use fewer folds, or another metric")
    units = np.array([figure.pseudo_values for figure in figures], dtype=float)
    units = values if np.isnan(units).any() else units
    in_groups = scheme.kind == "holdout" and units.shape[1] > 1
    factor = 1.0 / units.shape[1] + (0.0 if in_groups else scheme.ratio)
    single = ("holdout", "leave-one-out", "out-of-bag", "held out by the learner")
    by_rows = scheme.kind in single and not in_groups and all(f.losses is not None for f in figures)
    w = np.ones(units.shape[1])
    if by_rows:
        units = np.array([np.concatenate(figure.losses) for figure in figures])
        w = np.ones(units.shape[1]) if weights is None else weights[np.concatenate(held_out(splits))]
    return Panel(tuple(names), units, w, by_rows, factor, metric, str(scheme))


def ranks_of(keys: Sequence[Any]) -> Array:
    """Positions in the order of the keys from 1, equal keys sharing one."""
    try:
        if any(key != key for key in keys):
            raise TypeError("one of them is NaN")
        known = sorted(set(keys))
    except TypeError as error:
        message = f"the simplicity keys cannot be put in order: {error}"
        raise ParameterError(message, remedy="return a number from the key, smaller for simpler") from error
    place = {key: at for at, key in enumerate(known, start=1)}
    return np.array([place[key] for key in keys])


def choose(
    panel: Panel,
    order: Array,
    rule: str = "one_se",
    percent: float = 2.0,
    paired: bool = True,
    given: str = "",
    figures: Sequence[str] = (),
) -> Selection:
    """Apply a rule to a panel; `order` counts from the simplest, `given` says where that order comes from.

    `figures` are the estimates in print; without them the standard errors decide the digits.
    """
    estimate, losses = panel.mean(panel.units), panel.losses
    loss = panel.mean(losses)
    position = np.arange(loss.size)
    slack = ROUNDING * np.maximum(np.abs(loss), abs(loss.min()))
    best = int(np.lexsort((position, order, np.where(loss - loss.min() <= slack, loss.min(), loss)))[0])
    apart = losses - losses[best]
    difference = panel.mean(apart)
    difference = np.where(difference <= slack, 0.0, difference)
    std_error = panel.error(losses, corrected=paired)
    if rule == "within":
        allowed = np.full(loss.size, percent / 100 * abs(loss[best]))
    elif rule == "one_se":
        allowed = panel.error(apart) if paired else np.full(loss.size, std_error[best])
    else:
        allowed = np.zeros(loss.size)
    within = difference <= np.nan_to_num(allowed) + slack
    within[best] = True
    ranked = np.lexsort((position, loss, order)) if rule != "best" else np.array([best])
    chosen = int(ranked[within[ranked]][0])
    table = pd.DataFrame(
        {
            "estimate": estimate,
            "std_error": std_error,
            "difference": difference,
            "allowed": allowed,
            "within": within,
            "order": order,
        },
        index=pd.Index(panel.names, name="learner"),
    )
    error = np.nan_to_num(std_error[best])
    figure = figures[best] if len(figures) == estimate.size else _print(panel.metric, estimate[best], 2 * error)
    why = _why(panel, table, chosen, best, rule, percent, paired, given, figure)
    return Selection(
        name=panel.names[chosen],
        best=panel.names[best],
        rule=rule,
        why=why,
        table=table.iloc[np.lexsort((position, order))],
        metric=panel.metric,
        scheme=panel.scheme,
        paired=paired,
        errors="over rows" if panel.by_rows else "corrected for shared training rows" if paired else "s/sqrt(K)",
        percent=percent if rule == "within" else None,
    )


def about_as_good(table: pd.DataFrame, name: str, best: str) -> bool | None:
    """Whether a learner is at most min(SE of its difference to the best, SE of the best's own figure) worse than it.

    The second limit is there because an unstable learner has differences of large standard error to every other one:
    its instability alone must not make it about as good. None where a standard error is unknown.

    | parameter | range                       | meaning                                |
    |-----------|-----------------------------|----------------------------------------|
    | table     | of a `Selection` by "one_se" | differences and standard errors        |
    | name      | a learner                   | the one in question                    |
    | best      | a learner                   | the one with the best figure           |
    """
    limit = np.minimum(float(table["allowed"][name]), float(table["std_error"][best]))
    return None if np.isnan(limit) else bool(float(table["difference"][name]) <= limit)


def _why(
    panel: Panel,
    table: pd.DataFrame,
    chosen: int,
    best: int,
    rule: str,
    percent: float,
    paired: bool,
    given: str,
    figure: str,
) -> str:
    metric, top, row = panel.metric.name, panel.names[best], table.iloc[chosen]
    figure = f"{metric} {figure}"
    if len(table) == 1:
        return "It is the only one."
    if rule == "best":
        word = "greatest" if panel.metric.greater_is_better else "smallest"
        return f"It has the {word} {figure.replace(metric, f'{metric},', 1)}, of {len(table)}."
    if rule == "one_se" and panel.units.shape[1] < 2:
        return f"It is the best ({figure}); a single validation set gives {metric} no standard error."
    text = f" Simplicity: {given}." if given else ""
    line = f"{percent:g}%" if rule == "within" else "one standard error"
    if chosen == best:
        return f"It is the best ({figure}), and nothing simpler is within {line} of it.{text}"
    near = int(table["within"].sum())
    kind = "paired difference" if paired and rule == "one_se" else "difference"
    error = "its standard error" if paired else "one standard error"
    bound = f"{percent:g}% of the best is" if rule == "within" else error
    apart, allowed = (_print(panel.metric, row[name], row["allowed"], " points") for name in ("difference", "allowed"))
    return (
        f"It is the simplest of {near} within {line} of the best, {top} ({figure}): "
        f"the {kind} is {apart}, {bound} {allowed}.{text}"
    )


def _print(metric: Metric, value: float, error: float, unit: str = "%") -> str:
    """A figure to the precision of its error; differences of percentages are points."""
    scale, unit = (100.0, unit) if metric.percent else (1.0, "")
    return numbers.figure(scale * value, scale * (value - error), scale * (value + error)) + unit


def select(
    results: Any,
    *,
    rule: str = "one_se",
    percent: float = 2.0,
    paired: bool = True,
    simplicity: Sequence[str] | Callable[[Any], Any] | None = None,
) -> Selection:
    """Choose among learners validated on the same folds.

        one_se:  the simplest j with  mean_k d_jk <= sqrt((1/(K R) + n_test/n_train) var_k d_jk)

    where d_jk is how much worse than the best learner j is on fold k. Ties go to the simpler one, then the better one,
    then the one that comes first.

    | parameter  | default  | range                      | meaning                                                   |
    |------------|----------|----------------------------|-----------------------------------------------------------|
    | results    |          | from `cross_validate`      | one per learner, on the same folds and by the same metric |
    | rule       | "one_se" | "best", "one_se", "within" | the best, or the simplest that is not much worse          |
    | percent    | 2.0      | >= 0                       | with "within": how much worse, in percent of the best     |
    | paired     | True     | True, False                | with "one_se": False is the classic rule, one s/sqrt(K)   |
    | simplicity | None     | list of names, function    | names with the simplest first, or a key of a result that  |
    |            |          |                            | grows with complexity; None: the order they are given in  |

    Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees, section 3.4.3.

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from assay.evaluation import cross_validate
    >>> X, y = load_diabetes(return_X_y=True)
    >>> tried = [cross_validate(KNeighborsRegressor(k), X, y, cv=5, name=f"k = {k}") for k in (80, 40, 20, 10, 5)]
    >>> chosen = select(tried)
    >>> chosen.name, chosen.best
    ('k = 40', 'k = 20')
    >>> select(tried, rule="within", percent=5).name
    'k = 40'
    """
    choice(rule, "rule", RULES)
    percent = number(percent, "percent", 0)
    found = _results(results)
    named = isinstance(results, Mapping)
    names = [str(name) for name in results] if named else [str(result.name) for result in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError(
            f"two results are named {twice[0]!r}", remedy="give them different names with cross_validate(..., name=...)"
        )
    _same_folds(found)
    first = found[0]
    measured = [Figure(one.value, one.fold_scores, one.pseudo_values, one.fold_losses) for one in found]
    panel = panel_of(names, measured, first.splits, first.weights, first.scheme, first.metric)
    order, given = _order(simplicity, names, found)
    figures = [result.figure() for result in found if hasattr(result, "figure")]
    return choose(panel, order, rule, percent, paired, given if rule != "best" else "", figures)


def _results(results: Any) -> list[Any]:
    if hasattr(results, "pseudo_values"):
        results = [results]
    if isinstance(results, Mapping):
        results = results.values()
    if not isinstance(results, Iterable):
        raise DataTypeError(f"{results!r} is not a list of results", remedy="pass a list of results of cross_validate")
    found = list(results)
    if not found:
        raise DataError("there is nothing to select from", remedy="pass at least one result of cross_validate")
    for result in found:
        if not hasattr(result, "pseudo_values") or not hasattr(result, "splits"):
            message = f"a {type(result).__name__} is not a result of cross_validate"
            raise DataTypeError(message, remedy="pass the results of cross_validate")
    return found


def _same_folds(found: Sequence[Any]) -> None:
    """Figures can be compared if they are the same figure on the same rows."""
    first = found[0]
    for other in found[1:]:
        if other.metric.name != first.metric.name:
            message = f"{first.name} was scored by {first.metric.name}, {other.name} by {other.metric.name}"
            raise ParameterError(message, remedy="use the same metric for both")
        same_experiment(first.name, first, other.name, other)


def _order(simplicity: Any, names: Sequence[str], found: Sequence[Any]) -> tuple[Array, str]:
    """Ranks of simplicity from 1, and in words where they come from."""
    if simplicity is None:
        return np.arange(1, len(names) + 1), "the order in which the results were given"
    if callable(simplicity):
        return ranks_of([simplicity(result) for result in found]), "the key given"
    if isinstance(simplicity, str) or not isinstance(simplicity, Iterable):
        raise ParameterError(
            f"simplicity = {simplicity!r} is not a valid order",
            remedy="pass the names in a list, simplest first, or a function",
        )
    listed = [str(name) for name in simplicity]
    for name in [*names, *listed]:
        if name not in listed or name not in names or listed.count(name) > 1:
            how = (
                "is missing from" if name not in listed else "is unknown in" if name not in names else "occurs twice in"
            )
            raise ParameterError(f"{name!r} {how} the simplicity order", remedy=f"list each of {', '.join(names)} once")
    return np.array([listed.index(name) + 1 for name in names]), ""  # the caller knows it
