"""Scores against the number of training rows, and against a parameter, with honest bands (learning, validation curves).

At each position s the out-of-fold rows of J folds give the figure u_s, and the folds' pseudo-values with deviation d_s
(`assay.evaluation.figures`):

    u_s -+ t_{J-1}(q) sqrt(1/J + n_test / n_train) d_s,

Nadeau and Bengio's correction for overlapping training sets. Pointwise limits take q = (1 + level) / 2 and hold at each
position; the simultaneous band shares 1 - level among the S positions (Bonferroni, valid whatever their dependence) and
holds at all of them. A learning curve trains on nested, stratified subsets of each fold's training rows, so that
neighbouring sizes differ by the rows added and not by luck; smaller subsets overlap less than whole training sets, so
the factor of the whole folds is kept. Of a single split the limits are those of the metric over its test rows.
Cost: J fits per position. Nadeau & Bengio (2003), Machine Learning 52, 239-281.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy import special

from assay.checks import choice, fraction, freeze
from assay.errors import AssayError, DataError, ParameterError
from assay.evaluation._refits import along, reseeded
from assay.evaluation.figures import out_of_fold
from assay.evaluation.learner import Rows, blame, choose_metric, fit_rows, label_of, predictions, rows_of, run
from assay.evaluation.learner import score as score_of
from assay.evaluation.score_curves import LearningCurve, ScoreCurve, ValidationCurve, is_numeric, short
from assay.metrics.definition import Metric
from assay.metrics.scorer import class_options
from assay.numerics.seeds import seed_sequence
from assay.resampling import Scheme, corrected_variance_factor, one_standard_error, scheme_of, splits_of, take
from assay.results import Interval
from assay.words import plural

__all__ = ["LearningCurve", "ScoreCurve", "ValidationCurve", "learning_curve", "validation_curve"]

Array = np.ndarray
SIZES = (0.1, 0.2, 0.4, 0.7, 1.0)
LOG_RANGE = 30.0
"""Values spread over more than this ratio, in even ratios, are drawn on a logarithmic axis."""


def learning_curve(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sizes: Sequence[float] = SIZES,
    cv: Any = 10,
    metric: Any = None,
    level: float = 0.95,
    groups: Any = None,
    sample_weight: Any = None,
    name: str | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> LearningCurve:
    """Held-out and training score against the number of training rows, with pointwise and simultaneous limits.

        u_s -+ t_{J-1} sqrt(1/J + n_test / n_train) d_s       (module's formula)

    | parameter     | default       | range                   | meaning                                         |
    |---------------|---------------|-------------------------|-------------------------------------------------|
    | estimator     |               | fit and predict         | the learner; cloned, never changed              |
    | X, y          |               | a table and its target  | the rows                                        |
    | sizes         | .1 .2 .4 .7 1 | shares in (0, 1], or    | training rows, as shares of the smallest        |
    |               |               | whole numbers           | training fold or as counts                      |
    | cv            | 10            | number, splitter, pairs | the folds                                       |
    | metric        | by task       | a name or a metric      | error rate for classes, mse for numbers         |
    | level         | 0.95          | in (0, 1)               | of both kinds of limits                         |
    | groups        | None          | one label per row       | rows that stay together                         |
    | sample_weight | None          | one number per row      | in fits and scores                              |
    | name          | class         | text                    | what to call the learner                        |
    | random_state  | 0             | seed                    | folds, subsets, unset seeds of the learner      |
    | n_jobs        | None          | None or non-zero        | workers; never changes a result                 |

    Subsets are nested, keep the shares of the classes and hold one row of each class as soon as they can; in the order
    of time they are the latest rows before the test part.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> curve = learning_curve(GaussianNB(), *load_iris(return_X_y=True), sizes=[10, 30, 120], cv=5)
    >>> curve.values, bool(curve.estimate[0] > curve.estimate[2])
    ((10, 30, 120), True)
    """
    level = fraction(level, "level")
    rows = rows_of(estimator, X, y, sample_weight, groups)
    chosen = choose_metric(metric, rows)
    splits = _splits(rows, cv, random_state)
    own = seed_sequence(random_state)
    scheme = scheme_of(splits, rows.n)
    counts = _counts(sizes, min(len(train) for train, _ in splits))
    orders = [
        train if scheme.kind == "time-ordered" else nested_order(train, rows, np.random.default_rng(seed))
        for (train, _), seed in zip(splits, own.spawn(len(splits)), strict=True)
    ]
    latest = scheme.kind == "time-ordered"
    jobs = [
        _Job(estimator, order[-m:] if latest else order[:m], test, f"fold {k} with {plural(m, 'training row')}", k)
        for m in counts
        for k, (order, (_, test)) in enumerate(zip(orders, splits, strict=True))
    ]
    called = label_of(estimator) if name is None else str(name)
    fields = _measure(jobs, rows, chosen, scheme, len(counts), level, called, own, n_jobs)
    gain = _gain(fields.pop("pseudo_values"), scheme, chosen, counts, level)
    return LearningCurve(
        called,
        chosen,
        scheme,
        tuple(counts),
        "training rows",
        level=level,
        log_x=even_ratios(counts),
        gain=gain,
        **fields,
    )


def validation_curve(
    estimator: Any,
    X: Any,
    y: Any,
    parameter: str,
    values: Sequence[Any],
    *,
    simplest: str | None = None,
    cv: Any = 10,
    metric: Any = None,
    level: float = 0.95,
    groups: Any = None,
    sample_weight: Any = None,
    name: str | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> ValidationCurve:
    """Held-out and training score against one parameter, with the best value and the one-standard-error choice.

        1se: the simplest value whose score is within one standard error, d_s / sqrt(K), of the best

    | parameter     | default | range                   | meaning                                                     |
    |---------------|---------|-------------------------|-------------------------------------------------------------|
    | estimator     |         | fit and predict         | the learner; cloned, never changed                          |
    | X, y          |         | a table and its target  | the rows                                                    |
    | parameter     |         | one of the learner's    | what is varied; `step__parameter` inside a pipeline         |
    | values        |         | a list                  | its values                                                  |
    | simplest      | None    | None, "low", "high"     | which end is the simplest model; None: no 1se choice. Of    |
    |               |         |                         | values that are no numbers, "low" is the first              |
    | cv            | 10      | number, splitter, pairs | the folds, the same for every value                         |
    | metric        | by task | a name or a metric      | error rate for classes, mse for numbers                     |
    | level         | 0.95    | in (0, 1)               | of both kinds of limits                                     |
    | groups        | None    | one label per row       | rows that stay together                                     |
    | sample_weight | None    | one number per row      | in fits and scores                                          |
    | name          | class   | text                    | what to call the learner                                    |
    | random_state  | 0       | seed                    | folds, unset seeds of the learner                           |
    | n_jobs        | None    | None or non-zero        | workers; never changes a result                             |

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> data, k = load_iris(return_X_y=True), [1, 5, 15, 40, 80]
    >>> curve = validation_curve(KNeighborsClassifier(), *data, "n_neighbors", k, simplest="high", cv=5)
    >>> sorted(curve.marks)
    ['1se', 'best']
    """
    level = fraction(level, "level")
    if simplest is not None:
        choice(simplest, "simplest", ("low", "high"))
    values = list(values)
    models = along(estimator, parameter, values)
    rows = rows_of(estimator, X, y, sample_weight, groups)
    chosen = choose_metric(metric, rows)
    splits = _splits(rows, cv, random_state)
    own = seed_sequence(random_state)
    scheme = scheme_of(splits, rows.n)
    jobs = [
        _Job(model, train, test, f"fold {k} with {parameter} = {short(value)}", k)
        for model, value in zip(models, values, strict=True)
        for k, (train, test) in enumerate(splits)
    ]
    called = label_of(estimator) if name is None else str(name)
    fields = _measure(jobs, rows, chosen, scheme, len(values), level, called, own, n_jobs)
    pseudo = fields.pop("pseudo_values")
    marks, rule = _choose(fields["estimate"], pseudo, scheme, chosen, values, simplest)
    return ValidationCurve(
        called,
        chosen,
        scheme,
        tuple(values),
        parameter,
        level=level,
        log_x=even_ratios(values),
        marks=marks,
        rule=rule,
        simplest=simplest,
        **fields,
    )


def _splits(rows: Rows, cv: Any, random_state: Any) -> Sequence[tuple[Array, Array]]:
    classes = rows.classes is not None
    return splits_of(cv, rows.X, rows.y, groups=rows.groups, classes=classes, random_state=random_state)


def _counts(sizes: Sequence[float], most: int) -> list[int]:
    """Numbers of training rows, increasing; shares are of the smallest training fold."""
    raw = np.asarray(sizes).ravel()
    wanted = raw.astype(float) if raw.dtype.kind in "iuf" else np.empty(0)
    if wanted.size == 0 or not np.isfinite(wanted).all() or (wanted <= 0).any():
        raise ParameterError(
            f"sizes = {sizes!r} is not a list of valid sizes", remedy="pass fractions in (0, 1] or whole numbers"
        )
    if (wanted <= 1).all():
        counts = np.maximum(1, np.round(wanted * most)).astype(int)
    elif (wanted == np.round(wanted)).all():
        counts = wanted.astype(int)
    else:
        raise ParameterError(f"sizes = {sizes!r} mixes fractions and counts", remedy="pass only one kind")
    if counts.max() > most:
        message = f"{counts.max()} training rows were requested, but the smallest training fold has {most}"
        raise ParameterError(message, remedy="lower sizes, or use more folds")
    return [int(m) for m in np.unique(counts)]


def nested_order(train: Array, rows: Rows, rng: np.random.Generator) -> Array:
    """The training rows in an order whose every beginning is a stratified random sample of them.

    >>> rows = Rows(None, np.array([0, 0, 0, 0, 1, 1]), None, np.array([0, 1]))
    >>> order = nested_order(np.arange(6), rows, np.random.default_rng(0))
    >>> [int(rows.y[order[:m]].sum()) for m in (2, 4, 6)]
    [1, 1, 2]
    """
    mixed = rng.permutation(train)
    if rows.classes is None:
        return mixed
    code = np.searchsorted(rows.classes, rows.y[mixed])
    size = np.bincount(code, minlength=rows.classes.size)
    by_class = np.argsort(code, kind="stable")
    rank = np.empty(mixed.size)
    rank[by_class] = np.arange(mixed.size) - np.repeat(np.cumsum(size) - size, size)
    # The r-th of c rows stands at (r + u) / c of the way; the first of each class goes to the front.
    key = np.where(rank == 0, -1.0, (rank + rng.random(rows.classes.size)[code]) / size[code])
    return np.asarray(mixed[np.argsort(key, kind="stable")])


@dataclass(frozen=True, eq=False)
class _Job:
    """One fit: which learner, which rows, and what to call it in an error."""

    model: Any
    train: Array
    test: Array
    where: str
    fold: int


def _measure(
    jobs: list[_Job],
    rows: Rows,
    metric: Metric,
    scheme: Scheme,
    positions: int,
    level: float,
    name: str,
    seeds: np.random.SeedSequence,
    n_jobs: int | None,
) -> dict[str, Any]:
    """Run every job and turn the scores into means and limits; the fields that both curves share."""
    single = len(jobs) == positions
    each = 1 - (1 - level) / positions
    levels = (level, each) if single else ()
    # One seed per fold: along the curve only the size or the parameter changes.
    state = seeds.generate_state(max(job.fold for job in jobs) + 1)

    def task(job: _Job) -> tuple[Array, float, float, list[Interval]]:
        try:
            return _one(job, int(state[job.fold] >> 1), rows, metric, levels)
        except Exception as error:
            raise blame(error, name, job.where) from error

    outcomes = list(run(task, jobs, label="fits", n_jobs=n_jobs))
    train, seconds = (np.array([f[k] for f in outcomes]).reshape(positions, -1) for k in (1, 2))
    folds = len(jobs) // positions
    figures = []
    for at in range(0, len(jobs), folds):
        splits = [(job.train, job.test) for job in jobs[at : at + folds]]
        try:
            figures.append(
                out_of_fold(metric, rows, splits, scheme, [f[0] for f in outcomes[at : at + folds]]).figure()
            )
        except AssayError as why:
            raise blame(why, name, jobs[at].where.replace("fold 0 ", "all folds ")) from why
    test, pseudo = (np.array([getattr(f, of) for f in figures]) for of in ("fold_scores", "pseudo_values"))
    estimate = np.array([f.value for f in figures])
    fields: dict[str, Any] = {"pseudo_values": pseudo}
    if single:
        lower, upper, band_lower, band_upper = (
            np.array([getattr(f[3][at], side) for f in outcomes]) for at in (0, 1) for side in ("lower", "upper")
        )
        error = np.full(positions, np.nan)
        method = f"{outcomes[0][3][0].method} over the test rows of one split"
    else:
        error = np.sqrt(corrected_variance_factor(scheme)) * pseudo.std(axis=1, ddof=1)
        lower, upper = _t_limits(estimate, error, folds, level, metric)
        band_lower, band_upper = _t_limits(estimate, error, folds, each, metric)
        method = "corrected t"
    arrays = {
        "test_scores": test,
        "train_scores": train,
        "estimate": estimate,
        "std_error": error,
        "lower": lower,
        "upper": upper,
        "band_lower": band_lower,
        "band_upper": band_upper,
        "train_estimate": np.nanmean(train, axis=1),
        "fit_seconds": seconds,
    }
    return fields | {key: freeze(value) for key, value in arrays.items()} | {"limits": method}


def _one(
    job: _Job, seed: int, rows: Rows, metric: Metric, levels: tuple[float, ...]
) -> tuple[Array, float, float, list[Interval]]:
    """Held-out predictions, training score, seconds of the fit, and intervals over the test rows at some levels."""
    learner = reseeded(job.model, seed)
    start = perf_counter()
    model = fit_rows(learner, rows, job.train)
    seconds = perf_counter() - start
    held, own = (predictions(model, take(rows.X, part), metric, rows.classes) for part in (job.test, job.train))
    options = class_options(metric, rows.classes)
    weights = (None, None) if rows.weights is None else (rows.weights[job.test], rows.weights[job.train])
    score = score_of(metric, rows.y[job.train], own, rows, weights[1])
    limits = [metric.interval(rows.y[job.test], held, level=one, sample_weight=weights[0], **options) for one in levels]
    if not np.isfinite(score):
        raise DataError(f"the {metric.name} is not a finite number", remedy="choose another metric, or larger folds")
    return held, score, seconds, limits


def _t_limits(estimate: Array, error: Array, folds: int, level: float, metric: Metric) -> tuple[Array, Array]:
    """Student limits, cut to the metric's range."""
    reach = float(special.stdtrit(folds - 1, 0.5 + 0.5 * level)) * error
    low, high = metric.range
    return np.maximum(low, estimate - reach), np.minimum(high, estimate + reach)


def _gain(pseudo: Array, scheme: Scheme, metric: Metric, counts: list[int], level: float) -> Interval | None:
    """What the last step in size changed, compared within folds."""
    if len(counts) < 2 or pseudo.shape[1] < 2:
        return None
    steps = pseudo[-1] - pseudo[-2]
    change = float(steps.mean())
    error = float(np.sqrt(corrected_variance_factor(scheme)) * steps.std(ddof=1))
    reach = float(special.stdtrit(steps.size - 1, 0.5 + 0.5 * level)) * error
    estimand = f"change of {metric.name} from {counts[-2]} to {counts[-1]} training rows"
    return Interval(change, change - reach, change + reach, level, "corrected t", scheme.n, estimand)


def _choose(
    estimate: Array, scores: Array, scheme: Scheme, metric: Metric, values: list[Any], simplest: str | None
) -> tuple[dict[str, Any], float | None]:
    """The best value and, where an order is given, the simplest within one standard error of it."""
    sign = -1.0 if metric.greater_is_better else 1.0
    loss = sign * estimate
    # Repeats do not make the rule stricter: the standard error is that of one round of K folds.
    spread = scores.std(axis=1, ddof=1) if scores.shape[1] > 1 else np.full(len(values), np.nan)
    error = spread / np.sqrt(scheme.n_splits)
    best = int(np.argmin(loss))
    if simplest is None or np.isnan(error[best]):  # one split has no spread to be within
        return {"best": values[best]}, None
    keys = np.asarray(values, dtype=float) if is_numeric(values) else np.arange(len(values), dtype=float)
    order = np.argsort(keys if simplest == "low" else -keys, kind="stable")
    best, within = (int(order[k]) for k in one_standard_error(loss[order], error[order]))
    return {"best": values[best], "1se": values[within]}, float(estimate[best] + sign * error[best])


def even_ratios(values: Sequence[Any]) -> bool:
    """Whether positive numbers span a wide range in more even ratios than steps."""
    if not is_numeric(values) or len(values) < 3:
        return False
    x = np.sort(np.asarray(values, dtype=float))
    if x[0] <= 0 or x[-1] / x[0] < LOG_RANGE or (np.diff(x) == 0).any():
        return False
    steps, ratios = np.diff(x), np.diff(np.log(x))
    return bool(ratios.std() / ratios.mean() < steps.std() / steps.mean())
