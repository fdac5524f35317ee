"""What a metric is: a figure that knows its direction, its range, what predictions it needs and its interval.

    metric(y_true, y_pred, sample_weight=None, ...)            the figure
    metric.interval(y_true, y_pred, level=0.95, method=None)   an `Interval`; `metric.methods` names the ways
    metric.per_row(y_true, y_pred)                             one value per row, where the figure is their mean
    metric.scorer()                                            for cross_val_score(scoring=...), greater is better
    metric.bind("f2", beta=2)                                  the same with other defaults

A family module writes the mathematics as a small function and one of the decorators here turns it into a metric:
`row_metric` (the mean of a loss per row, Student's t) and `metric` (anything else, with its own rules). Every metric
of two columns can also be bootstrapped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from assay.checks import row_weights
from assay.errors import DataError, ParameterError
from assay.metrics.inputs import pair_of_columns
from assay.metrics.limits import average, bootstrap_limits, loss_limits, tail_limits
from assay.results import Interval

__all__ = ["METRICS", "NEEDS", "Metric", "Rule", "find", "loss_metric", "metric", "row_metric"]

Array = np.ndarray
Rule = Callable[..., Interval]
NEEDS = ("labels", "probabilities", "scores", "values")
_registry: dict[str, Metric] = {}
METRICS: Mapping[str, Metric] = MappingProxyType(_registry)
"""Every metric by its name."""

PERCENT = frozenset(["error", "accuracy", "balanced_accuracy"])
"""Metrics whose figures people read as percentages."""


@dataclass(frozen=True, eq=False, repr=False)
class Metric:
    """A figure of merit or of loss: callable, with its direction, range, needs, interval and scorer.

    | field             | meaning                                                                              |
    |-------------------|--------------------------------------------------------------------------------------|
    | name              | what it is called here                    |
    | greater_is_better | its direction                                                                        |
    | range             | the least and the greatest value it can take                                         |
    | needs             | "labels", "probabilities", "scores" or "values": what y_pred must hold               |
    | methods           | the names of its intervals, the default first                                        |
    | first             | "y_true", or "X" for the clustering figures that judge labels by the rows themselves |
    | over_folds        | how out-of-fold rows of several models make one figure (below)                       |

    Out-of-fold rows are judged together, as one test set ("pooled"), never as a mean of small folds' figures, which
    is another figure: R2 of six rows is far below R2. Two kinds of metric must know more of each row, and take it by
    the option that `over_folds` names: "reference", the mean of the training rows it was predicted from (R2), and
    "folds", the fold it is in, since scores of different models cannot be compared (AUC, average precision).

    >>> from assay.metrics import accuracy
    >>> accuracy(["a", "b", "b"], ["a", "b", "a"]).__round__(3), accuracy.needs, accuracy.range
    (0.667, 'labels', (0.0, 1.0))
    >>> print(accuracy.interval([1] * 20, [1] * 19 + [0]))
    accuracy 0.95 [0.76, 0.99] (95% Wilson interval, n = 20)
    """

    name: str
    value: Callable[..., Any]
    greater_is_better: bool
    range: tuple[float, float]
    needs: str
    rules: Mapping[str, Rule]
    first: str = "y_true"
    weighted: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
    losses: Callable[..., Array] | None = None
    over_folds: str = "pooled"

    def __call__(self, y_true: Any, y_pred: Any, *, sample_weight: Any = None, **options: Any) -> Any:
        """The figure, a float (an array with one entry per class where `average=None`)."""
        if sample_weight is not None and not self.weighted:
            raise ParameterError(f"{self.name} has no weighted form", remedy="leave sample_weight out")
        chosen = {**self.options, **options}
        if self.weighted:
            chosen["sample_weight"] = sample_weight
        return self.value(y_true, y_pred, **chosen)

    def per_row(self, y_true: Any, y_pred: Any, **options: Any) -> Array | None:
        """One value per row, whose (weighted) mean is the figure; None where the figure is no such mean.

        >>> from assay.metrics import auc, mae
        >>> mae.per_row([1.0, 2.0], [1.5, 0.0]).tolist(), auc.per_row([0, 1], [0.2, 0.7])
        ([0.5, 2.0], None)
        """
        if self.losses is None:
            return None
        return _finite(self.losses(y_true, y_pred, **{**self.options, **options}), self.name)

    @property
    def right_or_wrong(self) -> bool:
        """Whether every row counts as right or wrong, 0 or 1; with costs it does not, whatever errors were drawn.

        >>> find("error").right_or_wrong, find("risk").right_or_wrong, find("brier").right_or_wrong
        (True, False, False)
        """
        return self.losses is not None and self.range == (0.0, 1.0) and self.needs in ("labels", "scores")

    @property
    def percent(self) -> bool:
        """Whether people read its figures as percentages."""
        return self.name in PERCENT

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the intervals this metric can make, the default first."""
        return (*self.rules, "bootstrap") if self.weighted else tuple(self.rules)

    def interval(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        level: float = 0.95,
        method: str | None = None,
        sample_weight: Any = None,
        n_resamples: int = 999,
        random_state: Any = 0,
        **options: Any,
    ) -> Interval:
        """The confidence interval, by the first of `methods` unless another is named.

        `n_resamples` and `random_state` are for `method="bootstrap"` alone.
        """
        method = self.methods[0] if method is None else method
        if method not in self.methods:
            known = ", ".join(repr(name) for name in self.methods)
            raise ParameterError(f"unknown method = {method!r} for {self.name}", remedy=f"choose one of {known}")
        if sample_weight is not None and not self.weighted:
            raise ParameterError(f"{self.name} has no weighted form", remedy="leave sample_weight out")
        options = {**self.options, **options}
        if method != "bootstrap":
            return self.rules[method](y_true, y_pred, sample_weight=sample_weight, level=level, **options)
        plain = self.value(y_true, y_pred, sample_weight=sample_weight, **options)
        if np.ndim(plain):
            raise ParameterError(
                "the bootstrap interval is for a single value", remedy="choose an average other than None"
            )
        rows = len(y_true)
        return bootstrap_limits(
            lambda weights: self.value(y_true, y_pred, sample_weight=weights, **options),
            row_weights(sample_weight, rows),
            rows,
            level=level,
            n_resamples=n_resamples,
            random_state=random_state,
            estimand=self.name,
        )

    def bind(self, name: str | None = None, **options: Any) -> Metric:
        """The same metric with other defaults, under its own name if it gets one."""
        merged = {**self.options, **options}
        label = self.name if name is None else name
        rules = {method: partial(_renamed, rule, label) for method, rule in self.rules.items()}
        origin = (_rebind, (self, name, tuple(options.items())))
        made = replace(self, name=label, rules=rules, options=merged, origin=origin)
        _describe(made, self.value, keep=getattr(self, "__wrapped__", None))
        for attribute in ("__name__", "__qualname__"):
            object.__setattr__(made, attribute, label)
        return made

    def scorer(self, **options: Any) -> Any:
        """A scikit-learn scorer: `scorer(estimator, X, y)`, where greater is always better.

        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.model_selection import cross_val_score
        >>> from assay.metrics import auc
        >>> x = np.arange(40.0)[:, None]
        >>> cross_val_score(LogisticRegression(), x, x.ravel() > 20, cv=3, scoring=auc.scorer()).tolist()
        [1.0, 1.0, 1.0]
        """
        from assay.metrics.scorer import Scorer

        return Scorer(self, options)

    def __repr__(self) -> str:
        better = "greater" if self.greater_is_better else "smaller"
        low, high = self.range
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"<metric {self.name}: {better} is better, in [{low:g}, {high:g}], needs {self.needs}{options}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Rules are closures, so a metric travels between processes by its name or by how it was made.
        return self.origin if self.origin is not None else (find, (self.name,))

    def __deepcopy__(self, memo: dict[int, Any]) -> Metric:
        return self  # frozen


def _renamed(rule: Rule, label: str, *args: Any, **kwargs: Any) -> Interval:
    found = rule(*args, **kwargs)
    parts = (found.estimate, found.lower, found.upper, found.level, found.method, found.n)
    return Interval(*parts, label, found.names)


def _rebind(parent: Metric, name: str | None, options: tuple[tuple[str, Any], ...]) -> Metric:
    return parent.bind(name, **dict(options))


def _describe(made: Metric, function: Callable[..., Any], keep: Callable[..., Any] | None = None) -> None:
    """Give the object the words of the function it was made from, so that help() and doctest see them."""
    source = function if keep is None else keep
    for name in ("__doc__", "__module__", "__name__", "__qualname__"):
        if hasattr(source, name):
            object.__setattr__(made, name, getattr(source, name))
    found = inspect.signature(source).parameters.values()
    parameters = [p.replace(default=made.options[p.name]) if p.name in made.options else p for p in found]
    if made.weighted and all(p.name != "sample_weight" for p in parameters):
        parameters.append(inspect.Parameter("sample_weight", inspect.Parameter.KEYWORD_ONLY, default=None))
    object.__setattr__(made, "__signature__", inspect.Signature(parameters))
    object.__setattr__(made, "__wrapped__", source)


def register(made: Metric) -> Metric:
    """Put a metric into the registry."""
    _registry[made.name] = made
    if made.origin is not None:
        object.__setattr__(made, "origin", None)  # from here on its name is enough to find it
    return made


def find(name: str) -> Metric:
    """A metric by its name or scikit-learn's.

    >>> from assay.metrics import get_metric
    >>> get_metric("roc_auc_score")
    <metric auc: greater is better, in [0, 1], needs scores>
    """
    if isinstance(name, Metric):
        return name
    from assay.metrics import SAME, load_all

    load_all()
    key = SAME.get(name, name) if isinstance(name, str) else None
    if key not in _registry:
        if callable(name):
            message = f"{getattr(name, '__name__', name)} is a function, not a metric"
            raise ParameterError(message, remedy="make one of a loss per row with assay.metrics.loss_metric(function)")
        # scikit-learn's scorers of losses are called neg_...
        near = get_close_matches(str(name).removeprefix("neg_"), [*_registry, *SAME], 1)
        every = f"choose one of {', '.join(sorted(_registry))}"
        remedy = f"did you mean {SAME.get(near[0], near[0])!r}?" if near else every
        raise ParameterError(f"unknown metric {name!r}", remedy=remedy)
    return _registry[key]


def metric(
    name: str,
    *,
    better: str,
    range: tuple[float, float],
    needs: str,
    rules: Mapping[str, Rule],
    first: str = "y_true",
    weighted: bool = True,
    losses: Callable[..., Array] | None = None,
    over_folds: str = "pooled",
) -> Callable[[Callable[..., Any]], Metric]:
    """Turn `value(y_true, y_pred, *, sample_weight, ...)` into a registered metric.

    `losses(y_true, y_pred, ...)` gives one value per row where the figure is their mean; `over_folds` is the option by
    which it hears of folds, if it must.
    """

    def decorate(function: Callable[..., Any]) -> Metric:
        parts = (name, function, better == "greater", range, needs, rules, first, weighted)
        made = Metric(*parts, losses=losses, over_folds=over_folds)
        _describe(made, function)
        return register(made)

    return decorate


def row_metric(
    name: str,
    *,
    needs: str,
    range: tuple[float, float] = (0.0, np.inf),
    better: str = "smaller",
) -> Callable[[Callable[..., Array]], Metric]:
    """Turn `losses(y_true, y_pred, ...)`, one loss per row, into a registered metric: their mean, with its interval.

    Losses in [0, inf) have the interval that allows for a long tail first and Student's t second, others Student's t.
    """

    def decorate(losses: Callable[..., Array]) -> Metric:
        return register(_from_losses(name, losses, needs, range, better, None))

    return decorate


def _from_losses(
    name: str,
    losses: Callable[..., Array],
    needs: str,
    bounds: tuple[float, float],
    better: str,
    origin: tuple[Callable[..., Any], tuple[Any, ...]] | None,
) -> Metric:
    def value(y_true: Any, y_pred: Any, *, sample_weight: Any = None, **options: Any) -> float:
        per_row = _finite(losses(y_true, y_pred, **options), name)
        return average(per_row, row_weights(sample_weight, per_row.size))

    def student(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float, **options: Any) -> Interval:
        per_row = _finite(losses(y_true, y_pred, **options), name)
        return loss_limits(per_row, row_weights(sample_weight, per_row.size), level=level, estimand=name, bounds=bounds)

    def tailed(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float, **options: Any) -> Interval:
        per_row = _finite(losses(y_true, y_pred, **options), name)
        return tail_limits(per_row, row_weights(sample_weight, per_row.size), level=level, estimand=name)

    rules = {"tail": tailed, "t": student} if bounds == (0.0, np.inf) and better == "smaller" else {"t": student}
    made = Metric(name, value, better == "greater", bounds, needs, rules, origin=origin, losses=losses)
    _describe(made, value, keep=losses)
    return made


def _finite(losses: Array, name: str) -> Array:
    if not np.isfinite(losses).all():
        row = int(np.argmin(np.isfinite(losses)))
        raise DataError(f"the {name} of row {row} is not finite", remedy="check that row, or rescale the target")
    return losses


def loss_metric(
    function: Callable[[Array, Array], Array],
    name: str | None = None,
    *,
    needs: str = "values",
    range: tuple[float, float] = (0.0, np.inf),
    greater_is_better: bool = False,
) -> Metric:
    """A metric from any loss: the mean of `function(y_true, y_pred)`, which gives one loss per row.

        risk = mean_i L(y_i, f_i)

    | parameter         | default  | range                                         | meaning                   |
    |-------------------|----------|-----------------------------------------------|---------------------------|
    | function          |          | takes two arrays, returns one number per row  | the loss                  |
    | name              | its name | text                                          | what the metric is called |
    | needs             | "values" | "labels", "probabilities", "scores", "values" | what the predictions are  |
    | range             | (0, inf) | two numbers                                   | the interval is cut to it |
    | greater_is_better | False    | True, False                                   | True for a gain           |

    With "values" both columns are checked and passed as floats; otherwise they are passed as arrays.

    >>> cubic = loss_metric(lambda y, f: np.abs(y - f) ** 3, "cubic")
    >>> cubic([1.0, 2.0, 3.0], [1.0, 2.0, 5.0]).__round__(3)
    2.667
    """
    if not callable(function):
        raise ParameterError("the loss is not a function", remedy="pass a function of y_true and y_pred")
    if needs not in NEEDS:
        raise ParameterError(f"unknown needs = {needs!r}", remedy=f"choose one of {', '.join(map(repr, NEEDS))}")
    label = str(name or getattr(function, "__name__", "loss"))

    def losses(y_true: Any, y_pred: Any) -> Array:
        truth, predicted = pair_of_columns(y_true, y_pred) if needs == "values" else map(np.asarray, (y_true, y_pred))
        out = np.asarray(function(truth, predicted), dtype=float)
        if out.shape != (len(truth),):
            what = f"the loss {label!r} returned an array of shape {out.shape} for {len(truth)} rows"
            raise DataError(what, remedy="return one number per row")
        return out

    losses.__doc__ = function.__doc__
    origin = (_again, (function, label, needs, tuple(range), greater_is_better))
    better = "greater" if greater_is_better else "smaller"
    return _from_losses(label, losses, needs, (float(range[0]), float(range[1])), better, origin)


def _again(function: Callable[..., Array], name: str, needs: str, bounds: tuple[float, float], greater: bool) -> Metric:
    return loss_metric(function, name, needs=needs, range=bounds, greater_is_better=greater)
