"""Refitting a learner to resampled rows, and the standard error of what is averaged over the rows left out.

Let c_bi be a figure of row i under the model fitted to bootstrap sample b, known where the sample left row i out, and
N_bi how often it drew row i. The figure reported is T = mean_i k_i with k_i = mean_{b without i} c_bi. A row moves it
twice, as a row that is judged and as a row that is learnt from. Its influence, the derivative of T towards more weight
on row i, is

    D_i = (k_i - T) / n + sum_b (N_bi - Nbar_i) g_b,      g_b = (1/n) sum_{i not in b} (c_bi - k_i) / B_i,

and Var T is about sum_i D_i^2. This is the delta-method standard error of Efron and Tibshirani, with the first half of
their covariance worked out by hand, which takes the differences in difficulty between rows out of the simulation. What
the finite number of samples adds to sum_i D_i^2 by chance, (n-1) sum_b g_b^2, is subtracted, and the simulation's own
error, sum_b g_b^2, is added. Cost: one product of the N and g, O(n B).
Efron & Tibshirani (1997), JASA 92, 548-560, section 5; Wager, Hastie & Efron (2014), JMLR 15, 1625-1651.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation.learner import Rows, blame, fit_rows, label_of, run
from assay.numerics.seeds import seed_sequence

__all__ = [
    "along",
    "bootstrap_counts",
    "bootstrap_rows",
    "bootstrap_variance",
    "crossed_variance",
    "fit_whole",
    "means_by_row",
    "refit_many",
    "reseeded",
    "row_influence",
    "seed_of",
    "two_classes",
]

Array = np.ndarray
Outcome = TypeVar("Outcome")
REDRAWS = 1_000
"""A bootstrap sample of one class teaches a classifier nothing and is drawn again, at most this often."""
CHUNK = 16
"""Refits per task: one fit of a small learner is shorter than handing it to a worker."""


def along(estimator: Any, parameter: str, values: Sequence[Any]) -> list[Any]:
    """Clones of the learner with one parameter set to each value."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        message = f"{label_of(estimator)} has no parameters to set"
        raise DataTypeError(message, remedy="pass a learner with get_params and set_params")
    known = estimator.get_params(deep=True)
    if parameter not in known:
        message = f"{label_of(estimator)} has no parameter {parameter!r}"
        near = get_close_matches(parameter, known, 1)
        remedy = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(sorted(known))}"
        raise ParameterError(message, remedy=remedy)
    if len(values) == 0:
        raise ParameterError("values is empty", remedy=f"pass at least one value of {parameter}")
    return [clone(estimator).set_params(**{parameter: value}) for value in values]


def reseeded(estimator: Any, seed: int) -> Any:
    """A clone whose unset `random_state`s, also those of its parts, are set, so that a run can be repeated."""
    if not hasattr(estimator, "get_params"):
        return estimator
    unset = {
        name: seed
        for name, value in estimator.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return clone(estimator).set_params(**unset) if unset else estimator


def seed_of(random_state: Any) -> int:
    """A whole number for learners, drawn from any seed."""
    return int(seed_sequence(random_state).generate_state(1)[0] >> 1)


def fit_whole(estimator: Any, rows: Rows, seeds: np.random.SeedSequence, predict: Callable[[Any], Outcome]) -> Any:
    """The learner fitted to all rows and what `predict` asks of it; an error names the learner."""
    try:
        model = fit_rows(reseeded(estimator, int(seeds.generate_state(1)[0] >> 1)), rows)
        return model, predict(model)
    except Exception as error:
        raise blame(error, label_of(estimator), "the whole table") from error


def refit_many(
    task: Callable[[np.random.Generator, int], Outcome],
    n_refits: int,
    *,
    name: str,
    label: str,
    seeds: np.random.SeedSequence,
    n_jobs: int | None,
) -> Iterator[Outcome]:
    """`task(rng, seed)` so many times, each with a generator and a seed of its own, whatever `n_jobs` is.

    `name` is the learner's and `label` says what is drawn; an error names both.
    """
    each = list(enumerate(seeds.spawn(n_refits)))

    def chunk(part: list[tuple[int, np.random.SeedSequence]]) -> list[Outcome]:
        outcomes = []
        for at, one in part:
            try:
                outcomes.append(task(np.random.default_rng(one), int(one.generate_state(1)[0] >> 1)))
            except Exception as error:
                raise blame(error, name, f"{label} {at}") from error
        return outcomes

    parts = [each[start : start + CHUNK] for start in range(0, n_refits, CHUNK)]
    for outcomes in run(chunk, parts, label=f"{label}s", n_jobs=n_jobs):
        yield from outcomes


def bootstrap_rows(rng: np.random.Generator, rows: Rows) -> Array:
    """n rows drawn with replacement; a sample of a single class is drawn again."""
    for _ in range(REDRAWS):
        drawn = rng.integers(0, rows.n, rows.n)
        if rows.classes is None or (rows.y[drawn] != rows.y[drawn[0]]).any():
            return drawn
    message = f"{REDRAWS} bootstrap samples in a row held a single class"
    raise DataError(message, remedy="pass more rows of the rarer class")


def bootstrap_counts(drawn: Array, n: int) -> Array:
    """How often each row was drawn."""
    return np.bincount(drawn, minlength=n).astype(np.int16 if n < 1 << 15 else np.int32)


def two_classes(rows: Rows) -> None:
    """Refuse a class target with a single class."""
    if rows.classes is not None and rows.classes.size < 2:
        message = f"y contains the single class {rows.classes.tolist()[0]!r}"
        raise DataError(message, remedy="pass rows of at least two classes")


def means_by_row(values: Array, tested: Array) -> tuple[Array, Array]:
    """The mean over samples of each row that they left out, and the number of those samples."""
    times = tested.sum(axis=0)
    return np.where(tested, values, 0.0).sum(axis=0) / np.maximum(times, 1), times


def _parts(values: Array, tested: Array) -> tuple[Array, Array, float, float]:
    """k_i, g_b, the variance over draws and the share of it that single cells make."""
    by_row, times = means_by_row(values, tested)
    rest = np.where(tested, values - by_row, 0.0) / (np.maximum(times, 1) * by_row.size)
    g = rest.sum(axis=1)
    draws = float(g @ g) * g.size / max(1, g.size - 1)
    return by_row, g, draws, float(np.einsum("bi,bi->", rest, rest))


def crossed_variance(values: Array, tested: Array, *, rows_vary: bool, draws: float | None = None) -> float:
    """The variance of the grand mean where training sets and test rows were drawn independently of each other.

    Var = Var over training sets + Var over test rows - the share of single cells, which both of them count; only the
    first where the test rows are fixed (`rows_vary=False`). `draws` is the first one where it is known better.
    """
    by_row, _, own, cells = _parts(values, tested)
    if not rows_vary:
        return own if draws is None else draws
    rows = float(by_row.var(ddof=1)) / by_row.size if by_row.size > 1 else 0.0
    return max(rows + own - cells, rows, own) if draws is None else rows + draws


def row_influence(values: Array, tested: Array, counts: Array) -> tuple[Array, Array]:
    """The two halves of each row's influence D_i: as a row that is judged, and as a row that is learnt from."""
    by_row, g, _, _ = _parts(values, tested)
    return (by_row - by_row.mean()) / by_row.size, g @ counts  # the g add up to zero: the counts need no centring


def bootstrap_variance(
    values: Array, tested: Array, counts: Array, *, extra: Array | None = None, draws: float | None = None
) -> float:
    """The variance of the mean over rows left out of bootstrap samples of these same rows (module's formula).

    `extra` is added to the influences D_i, for figures that combine this mean with another one; `draws` is the
    simulation's own error where it is known better.
    """
    judged, learnt = row_influence(values, tested, counts)
    if extra is not None:
        judged = judged + extra
    own = _parts(values, tested)[2]
    whole = float(np.sum((judged + learnt) ** 2)) - (judged.size - 1) * own
    # Noise in the correction may leave less than the rows alone account for.
    return max(whole, float(judged @ judged)) + (own if draws is None else draws)
