"""The error of a learner by the bootstrap, with its optimism taken out: .632, .632+ and out-of-bag (row G6).

    apparent       err   = mean_i L(y_i, f(x_i)),  f fitted to all rows: too low
    out-of-bag     Err1  = mean_i mean_{b without i} L(y_i, f_b(x_i)): too high, since f_b saw .632 n distinct rows
    no-information gamma = mean_{i,j} L(y_i, f(x_j)): the error if targets were independent of the rows
    overfitting    R     = (min(Err1, gamma) - err) / (gamma - err), between 0 and 1

    .632           .368 err + .632 Err1
    .632+          (1 - w) err + w min(Err1, gamma),   w = .632 / (1 - .368 R)

A row is left out of a bootstrap sample with probability (1 - 1/n)^n, about .368. The .632 rule is still too low for
learners that repeat their training rows (one nearest neighbour has err = 0); .632+ leans on Err1 as R grows. Cost: B+1
fits; gamma costs O(n K) for classes, O(n) for squared error and O(n^2) in blocks for other losses of numbers. Standard
error: the influence of each row (`_refits`) by the chain rule, with gamma held.
Efron & Tibshirani (1997), JASA 92, 548-560.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.checks import choice, fraction, whole
from assay.errors import DataError, ParameterError
from assay.evaluation._refits import (
    bootstrap_counts,
    bootstrap_rows,
    bootstrap_variance,
    fit_whole,
    means_by_row,
    refit_many,
    reseeded,
    two_classes,
)
from assay.evaluation.learner import Rows, choose_metric, fit_rows, label_of, predictions, rows_of
from assay.metrics.definition import Metric
from assay.metrics.scorer import class_options
from assay.numbers import figure
from assay.numerics.seeds import seed_sequence
from assay.resampling import take
from assay.results import Interval, Result

__all__ = ["BootstrapError", "bootstrap_error"]

Array = np.ndarray
METHODS = ("632+", "632", "oob")
TITLES = {"632+": ".632+ bootstrap", "632": ".632 bootstrap", "oob": "out-of-bag bootstrap"}
PAIRS = 1 << 20
"""Pairs of target and prediction per block of the no-information rate."""


@dataclass(frozen=True, eq=False, repr=False)
class BootstrapError(Result):
    """An error estimate and the parts it is made of.

    | field                     | meaning                                                            |
    |---------------------------|--------------------------------------------------------------------|
    | estimate, std_error       | of the method asked for                                            |
    | apparent                  | the error on the training rows                                     |
    | out_of_bag                | the mean error of rows left out, the leave-one-out bootstrap       |
    | no_information            | the error if targets and rows were independent                     |
    | overfitting               | the relative overfitting rate R, in [0, 1]                         |
    | weight                    | how much of the estimate is out-of-bag: .632 and up; 1 for "oob"   |
    | never_left_out            | rows that no sample left out, which the out-of-bag error omits     |
    """

    name: str
    metric: Metric
    method: str
    estimate: float
    std_error: float
    apparent: float
    out_of_bag: float
    no_information: float
    overfitting: float
    weight: float
    n: int
    n_resamples: int
    never_left_out: int = 0
    level: float = 0.95

    def interval(self, level: float | None = None) -> Interval:
        """Normal limits, cut to the range of the metric."""
        level = self.level if level is None else fraction(level, "level")
        reach = float(special.ndtri(0.5 + 0.5 * level)) * self.std_error
        low, high = self.metric.range
        limits = max(low, self.estimate - reach), min(high, self.estimate + reach)
        text = f"expected {self.metric.name} of {self.name} on new rows"
        return Interval(self.estimate, *limits, level, f"{TITLES[self.method]}, normal", self.n, text)

    def to_frame(self) -> pd.DataFrame:
        """One row: the estimate with its limits, and every part."""
        frame = self.interval().to_frame()
        frame.index = pd.Index([self.name])
        frame.insert(3, "std_error", self.std_error)
        for name in ("apparent", "out_of_bag", "no_information", "overfitting", "weight"):
            frame[name] = getattr(self, name)
        return frame

    def __str__(self) -> str:
        shown = self.interval()
        said = partial(figure, lower=shown.lower, upper=shown.upper, percent=self.metric.percent)
        title = f"{self.name}: {self.metric.name} by the {TITLES[self.method]}"
        lines = [
            f"n = {self.n}, {self.n_resamples} resamples",
            f"{self.metric.name} {said(self.estimate)} ± {said(self.std_error)}, "
            f"{100 * shown.level:.4g}% interval [{said(shown.lower)}, {said(shown.upper)}] (normal)",
            f"apparent {said(self.apparent)}, out of bag {said(self.out_of_bag)}, "
            f"no information {said(self.no_information)}",
            f"relative overfitting {self.overfitting:.3f}, weight of the out-of-bag error {self.weight:.3f}",
        ]
        rule = "-" * max(len(line) for line in [title, *lines])
        notes = [f"Excluded: {self.never_left_out} rows that every sample contains."] if self.never_left_out else []
        text = "Estimates the error on new rows of the learner trained on a table of this size, averaged over tables."
        return "\n".join([title, rule, *lines, rule, *notes, text])


def bootstrap_error(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    method: str = "632+",
    metric: Any = None,
    n_resamples: int = 200,
    level: float = 0.95,
    name: str | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> BootstrapError:
    """The error of a learner on new rows, from bootstrap samples and the rows they leave out.

        .632+ = (1 - w) apparent + w min(out-of-bag, gamma),   w = .632 / (1 - .368 R)

    | parameter    | default | range                    | meaning                                                   |
    |--------------|---------|--------------------------|-----------------------------------------------------------|
    | estimator    |         | fit and predict          | the learner; cloned, never changed                        |
    | X, y         |         | a table and its target   | the rows                                                  |
    | method       | "632+"  | "632+", "632", "oob"     | which estimate                                            |
    | metric       | by task | a mean over rows         | error rate for classes, squared error for numbers         |
    | n_resamples  | 200     | at least 4               | bootstrap samples                                         |
    | level        | 0.95    | in (0, 1)                | of the interval                                           |
    | name         | class   | text                     | what to call the learner                                  |
    | random_state | 0       | seed                     | the samples, and unset seeds of the learner               |
    | n_jobs       | None    | None or non-zero         | workers; never changes a result                           |

    The intervals run below their level for small tables and learners that memorise them; the rates are in
    docs/simulations/evaluation.md. Efron & Tibshirani (1997), JASA 92, 548-560.

    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)  # nothing to learn: the truth is 0.5
    >>> found = bootstrap_error(KNeighborsClassifier(1), X, y, n_resamples=50)
    >>> found.apparent, found.interval().lower < 0.5 < found.interval().upper
    (0.0, True)
    """
    choice(method, "method", METHODS)
    whole(n_resamples, "n_resamples", 4)
    level = fraction(level, "level")
    rows = rows_of(estimator, X, y)
    if rows.n < 4:
        raise DataError(f"{rows.n} rows are too few to resample", remedy="pass at least 4 rows")
    two_classes(rows)
    chosen = choose_metric(metric, rows)
    if chosen.losses is None:
        remedy = "choose one that is, such as 'error', 'log_loss', 'mse' or 'mae'"
        raise ParameterError(
            f"{chosen.name} is not a mean over rows, so out-of-bag rows cannot be pooled", remedy=remedy
        )
    first, rest = seed_sequence(random_state).spawn(2)
    _, fitted = fit_whole(estimator, rows, first, lambda full: predictions(full, rows.X, chosen, rows.classes))
    own = _losses(chosen, rows, rows.y, fitted)
    gamma = no_information_rate(chosen, rows, fitted)
    losses, counts = _left_out_losses(estimator, rows, chosen, n_resamples, rest, n_jobs)
    return _combine(
        label_of(estimator) if name is None else str(name), chosen, method, own, gamma, losses, counts, level
    )


def _losses(metric: Metric, rows: Rows, y: Array, predicted: Array) -> Array:
    found = metric.per_row(y, predicted, **class_options(metric, rows.classes))
    assert found is not None
    return np.asarray(found, dtype=float)


def _left_out_losses(
    estimator: Any, rows: Rows, metric: Metric, B: int, seeds: np.random.SeedSequence, n_jobs: int | None
) -> tuple[Array, Array]:
    """The loss of each row left out of each sample (B, n), zero elsewhere, and how often each row was drawn."""

    def task(rng: np.random.Generator, seed: int) -> tuple[Array, Array]:
        drawn = bootstrap_rows(rng, rows)
        count = bootstrap_counts(drawn, rows.n)
        out = np.flatnonzero(count == 0)
        if out.size == 0:
            return count, np.empty(0)
        model = fit_rows(reseeded(estimator, seed), rows, drawn)
        return count, _losses(metric, rows, rows.y[out], predictions(model, take(rows.X, out), metric, rows.classes))

    losses, counts = np.zeros((B, rows.n)), []
    found = refit_many(task, B, name=label_of(estimator), label="bootstrap sample", seeds=seeds, n_jobs=n_jobs)
    for b, (count, loss) in enumerate(found):
        losses[b, count == 0] = loss
        counts.append(count)
    return losses, np.stack(counts)


def no_information_rate(metric: Metric, rows: Rows, predicted: Array) -> float:
    """The mean loss over all pairs of a target and a prediction."""
    n = rows.n
    if rows.classes is not None:
        shares = np.array([(rows.y == label).mean() for label in rows.classes])
        means = [_losses(metric, rows, np.full(n, label), predicted).mean() for label in rows.classes]
        return float(shares @ np.array(means))
    if metric.name == "mse":
        return float(rows.y.var() + predicted.var() + (rows.y.mean() - predicted.mean()) ** 2)
    step, total = max(1, PAIRS // n), 0.0
    for start in range(0, n, step):
        block = predicted[start : start + step]
        total += float(_losses(metric, rows, np.tile(rows.y, len(block)), np.repeat(block, n)).sum())
    return total / n**2


def _combine(
    name: str,
    metric: Metric,
    method: str,
    own: Array,
    gamma: float,
    losses: Array,
    counts: Array,
    level: float,
) -> BootstrapError:
    """The estimate from its parts, and its standard error."""
    tested = counts == 0
    keep = tested.any(axis=0)
    if not keep.any():
        raise DataError("every sample contains every row", remedy="raise n_resamples, or pass more rows")
    tested, losses, counts = tested[:, keep], losses[:, keep], counts[:, keep]
    # A gain is a loss with its sign changed, so that "too low" and "no better than chance" keep their meaning.
    sign = -1.0 if metric.greater_is_better else 1.0
    apparent, out_of_bag = sign * float(own.mean()), sign * float(means_by_row(losses, tested)[0].mean())
    capped = min(out_of_bag, sign * gamma)
    overfits = capped > apparent  # and then gamma is above it too
    rate = (capped - apparent) / (sign * gamma - apparent) if overfits else 0.0
    weight = {"oob": 1.0, "632": 0.632, "632+": 0.632 / (1 - 0.368 * rate)}[method]
    judged = max(capped, apparent) if method == "632+" and overfits else out_of_bag
    estimate = (1 - weight) * apparent + weight * judged
    on_left_out, on_own = weight, 1 - weight
    if method == "632+" and 0 < rate < 1:
        # The weight moves with both errors: the chain rule through R, with gamma held (it hardly moves).
        steep = 0.632 * 0.368 / (1 - 0.368 * rate) ** 2 * rate
        on_left_out, on_own = weight + steep, 1 - weight - steep * (1 - rate)
    extra = on_own * (own[keep] - own.mean()) / own.size
    variance = bootstrap_variance(on_left_out * losses, tested, counts, extra=extra)
    return BootstrapError(
        name,
        metric,
        method,
        sign * estimate,
        float(np.sqrt(variance)),
        sign * apparent,
        sign * out_of_bag,
        gamma,
        rate,
        weight,
        int(keep.size),
        int(tested.shape[0]),
        int((~keep).sum()),
        level,
    )
