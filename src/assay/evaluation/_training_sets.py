"""Predictions of learners trained on many training sets: fresh ones from a sampler, or bootstrap samples of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from assay.checks import choice, whole
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation._refits import bootstrap_counts, bootstrap_rows, refit_many, reseeded, two_classes
from assay.evaluation.learner import Rows, fit_rows, label_of, rows_of
from assay.resampling import take

__all__ = ["LOSSES", "Sampler", "TrainingSetStudy", "from_sampler", "from_table"]

Array = np.ndarray
Sampler = Callable[[np.random.Generator], tuple[Any, Any]]
LOSSES = ("squared", "zero-one", "kohavi-wolpert")


@dataclass(frozen=True, eq=False)
class TrainingSetStudy:
    """Predictions of every model for the test rows, and where they come from."""

    rows: Rows  # the test rows
    outcomes: list[list[Array]]  # [model][training set] -> predictions of the rows it tests
    tested: Array  # (B, m)
    n_train: float
    setting: str
    estimand: str
    notes: tuple[str, ...]
    counts: Array | None  # (B, m): how often each row was drawn, where the test rows are also trained on
    rows_vary: bool
    has_target: bool = True

    @property
    def known(self) -> Array:
        """The rows tested often enough to speak of a variance."""
        return self.tested.sum(axis=0) >= 2

    def loss(self, loss: str | None) -> str:
        """The loss asked for, checked against the task."""
        if loss is None:
            return "squared" if self.rows.classes is None else "zero-one"
        choice(loss, "loss", LOSSES)
        if (loss == "squared") != (self.rows.classes is None):
            message = (
                f"the {loss} loss does not fit a target of {'numbers' if self.rows.classes is None else 'classes'}"
            )
            raise ParameterError(message, remedy="leave loss out")
        return loss

    def predicted(self, k: int) -> Array:
        """The predictions (B, m) of one learner, anything where not tested."""
        parts = self.outcomes[k]
        kind = np.result_type(*parts) if parts[0].dtype.kind in "biuf" else parts[0].dtype
        wide = np.zeros(self.tested.shape, dtype=object if kind.kind in "USO" else kind)
        for b, part in enumerate(parts):
            wide[b, self.tested[b]] = part
        if kind.kind in "USO":
            wide[~self.tested] = self.rows.y[0]
        elif kind.kind == "f" and not np.isfinite(wide).all():
            b = int(np.argmin(np.isfinite(wide).all(axis=1)))
            message = f"the learner predicts NaN or infinity after training set {b}"
            raise DataError(message, remedy="scale the columns, or regularise the learner")
        return wide


def from_table(
    models: list[Any], rows: Rows, B: int, seeds: np.random.SeedSequence, n_jobs: int | None
) -> TrainingSetStudy:
    """Bootstrap samples of one table, judged on the rows they leave out."""
    if rows.n < 4:
        raise DataError(f"{rows.n} rows are too few to resample", remedy="pass at least 4 rows")
    two_classes(rows)

    def task(rng: np.random.Generator, seed: int) -> tuple[Array, list[Array]]:
        drawn = bootstrap_rows(rng, rows)
        count = bootstrap_counts(drawn, rows.n)
        out = np.flatnonzero(count == 0)
        if out.size == 0:
            return count, [rows.y[:0] for _ in models]
        X = take(rows.X, out)
        return count, [_predict(fit_rows(reseeded(model, seed), rows, drawn), X, rows) for model in models]

    found = list(refit_many(task, B, name=_names(models), label="bootstrap sample", seeds=seeds, n_jobs=n_jobs))
    counts = np.stack([count for count, _ in found])
    tested = counts == 0
    few = int((tested.sum(axis=0) < 2).sum())
    if few == rows.n:
        raise DataError("no row was out of bag twice", remedy="raise n_datasets")
    notes = (f"Excluded: {few} rows that are out of bag in fewer than two samples; raise n_datasets.",) if few else ()
    return TrainingSetStudy(
        rows,
        [[parts[k] for _, parts in found] for k in range(len(models))],
        tested,
        float(rows.n),
        "bootstrap samples of one table, evaluated out of bag",
        "the mean over rows like these of learners trained on bootstrap samples of such a table (.632 n distinct rows)",
        notes,
        counts,
        rows_vary=True,
    )


def _names(models: list[Any]) -> str:
    return " or ".join(dict.fromkeys(label_of(model) for model in models))


def _predict(model: Any, X: Any, rows: Rows) -> Array:
    found = np.asarray(model.predict(X))
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    return found if rows.classes is not None else found.astype(float)


def from_sampler(
    models: list[Any],
    sampler: Sampler,
    test: Any,
    B: int,
    seeds: np.random.SeedSequence,
    for_test: np.random.SeedSequence,
    n_jobs: int | None,
) -> TrainingSetStudy:
    """Fresh training sets, judged on test rows that are drawn once or given."""
    drawn = isinstance(test, int | np.integer) and not isinstance(test, bool)
    has_target = drawn or (isinstance(test, tuple | list) and len(test) == 2)
    if drawn:
        rows = rows_of(models[0], *_draw_rows(sampler, whole(test, "test", 2), np.random.default_rng(for_test)))
    elif has_target:
        rows = rows_of(models[0], *test)
    else:
        sample = _draw(sampler, np.random.default_rng(for_test))
        known = rows_of(models[0], *sample)  # for the task alone
        table = test if hasattr(test, "shape") else np.asarray(test)
        rows = Rows(table, np.resize(known.y, int(table.shape[0])), None, known.classes)

    def task(rng: np.random.Generator, seed: int) -> tuple[int, list[Array]]:
        here = rows_of(models[0], *_draw(sampler, rng))
        two_classes(here)
        return here.n, [_predict(fit_rows(reseeded(model, seed), here), rows.X, rows) for model in models]

    found = list(refit_many(task, B, name=_names(models), label="training set", seeds=seeds, n_jobs=n_jobs))
    over = f"{rows.n} test rows drawn from it" if drawn else f"these {rows.n} test rows, held fixed"
    return TrainingSetStudy(
        rows,
        [[parts[k] for _, parts in found] for k in range(len(models))],
        np.ones((B, rows.n), dtype=bool),
        float(np.mean([n for n, _ in found])),
        "fresh training sets from a sampler",
        f"the mean over training sets from the sampler and over {over}",
        (),
        None,
        rows_vary=drawn,
        has_target=has_target,
    )


def _draw(sampler: Sampler, rng: np.random.Generator) -> tuple[Any, Any]:
    made = sampler(rng)
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise DataTypeError("the sampler did not return a pair", remedy="return (X, y) for a numpy Generator")
    return made[0], made[1]


def _draw_rows(sampler: Sampler, m: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """At least m rows from as many draws as it takes, cut to m."""
    tables, targets, n = [], [], 0
    while n < m:
        X, y = _draw(sampler, rng)
        if len(y) == 0:
            raise DataError("the sampler returned no rows", remedy="return at least one row")
        tables.append(X)
        targets.append(np.asarray(y))
        n += len(y)
    if hasattr(tables[0], "iloc"):
        table: Any = pd.concat(tables, ignore_index=True)
    else:
        table = sparse.vstack(tables).tocsr() if sparse.issparse(tables[0]) else np.concatenate(tables)
    return take(table, np.arange(m)), np.concatenate(targets)[:m]
