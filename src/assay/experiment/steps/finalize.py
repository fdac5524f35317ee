"""Finalizing: after the look, the selected recipe is fitted to all rows, training and test rows together.

The recipe is the learner with its preprocessing and its search: the search runs again, so settings may change. Limits
of predictions are made again by cross-fitting on all rows. No row is left to judge the final model by: the figure of
the test set is that of the recipe fitted to the training rows. The ledger records that the rows were used, and from
then on none of them is sealed as a test row again (`test_set.used_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import SealError
from assay.experiment.events import StepBegan
from assay.experiment.panel import pipeline_of
from assay.experiment.protocol import in_folds, splits_for
from assay.experiment.state import Context, StudyState, made
from assay.experiment.steps.evaluate import refit, training_data, validate_one
from assay.experiment.steps.publish import write_model
from assay.experiment.storage.files import make_folder
from assay.experiment.storage.journal import Journal
from assay.experiment.test_set.digests import row_digests
from assay.experiment.test_set.used_rows import record_used
from assay.experiment.test_set.vault import Vault
from assay.experiment.warned import collected
from assay.numerics.threads import one_blas_thread
from assay.results import Interval, Result

__all__ = ["FINAL", "OF_THE_RECIPE", "Final", "finalize"]

FINAL = "model-final.assay"
OF_THE_RECIPE = "of the recipe fitted to the training rows"
"""What the figure of the test set is a figure of, once a model is fitted to all rows."""


@dataclass(frozen=True, eq=False, repr=False)
class Final(Result):
    """The selected recipe, fitted to all rows of a study.

    | field      | meaning                                                                            |
    |------------|------------------------------------------------------------------------------------|
    | study      | its name                                                                           |
    | selected   | the learner                                                                        |
    | n_train, n_test | rows of the study's two parts                                                  |
    | n_fitted   | rows of the earlier fit, fewer than n_train where it was not refitted              |
    | before, after | settings that the search chose on the training rows, and on all rows            |
    | metric, figure | the figure of the test set, before these rows were used; None after an unplanned look |
    | warnings   | what the learner warned of                                                         |
    | path, checksum | the model file and its SHA-256                                                 |
    | model      | the fitted pipeline                                                                |
    """

    study: str
    selected: str
    n_train: int
    n_test: int
    n_fitted: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    metric: str
    figure: Interval | None
    warnings: tuple[str, ...]
    path: str
    checksum: str
    model: Any

    def to_frame(self) -> pd.DataFrame:
        """One row per setting: as chosen on the training rows, and on all rows."""
        names = list(dict.fromkeys([*self.before, *self.after]))
        rows = {name: {"training rows": self.before.get(name), "all rows": self.after.get(name)} for name in names}
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=["training rows", "all rows"], dtype=object)
        return frame.rename_axis("setting")

    def __str__(self) -> str:
        title = f"{self.selected}, fitted to all {self.n_train + self.n_test:,} rows of study {self.study}: {self.path}"
        told = [f"{name}: {row.iloc[0]} on the training rows, {row.iloc[1]} on all" for name, row in self._settings()]
        told += [] if self.figure is None else [str(self.figure)]
        return "\n".join([title, *told])

    def _repr_html_(self) -> str:
        settings = super()._repr_html_() if len(self.to_frame()) else ""
        return f"<p>{escape(str(self))}</p>{settings}"

    def _settings(self) -> list[tuple[Any, pd.Series]]:
        return list(self.to_frame().iterrows())


def finalize(state: StudyState, context: Context, folder: Path) -> Final:
    """Fit the selected recipe to all rows and write `model-final.assay`; refused before the look."""
    parted, fitted, opened = made(state.parted), made(state.fitted), state.opened
    name = fitted.selection.name
    if not parted.has_test_set:
        message = f"study {parted.name} has no test set, so its model is fitted to all rows already"
        raise SealError(message, remedy=f"use its model.assay; write it again with: assay report {parted.name}")
    if opened is None:
        message = f"study {parted.name} has not been opened; a model fitted to its test rows as well cannot be tested"
        raise SealError(message, remedy=f"open the test set first: assay open {parted.name}")
    context.emit(StepBegan("finalize", f"fitting {name} to all rows"))
    make_folder(folder)
    test = Vault(parted.name).read(parted.vault)
    every = pd.concat([parted.train, test], ignore_index=True)
    data = training_data(state.plan, replace(parted, train=every, row_numbers=None))
    plan = in_folds(replace(state.plan, refit=True), data.rows)
    data = replace(data, splits=splits_for(plan, data.rows, data.rows.n))
    with one_blas_thread(), collected() as warned:
        model = refit(plan, data, name, context.n_jobs)
    if hasattr(fitted.model, "threshold_"):  # the one whose figure the test rows gave
        model.threshold_ = fitted.model.threshold_
    journal = Journal(parted.folder / "journal-final.db")
    validation = validate_one(plan, data, name, journal, replace(context, deadline=None))
    tuned = (made(state.leaderboard).settings.get(name) or [{}])[0]
    before, after = (_settings(one, tuned) for one in (fitted.model, model))
    path, about = folder / FINAL, {"fitted_to": "training and test rows", "test_figure": OF_THE_RECIPE}
    part = path.with_stem(f"{path.stem}-part")  # a model that cannot be written uses no row; one in use is on record
    checksum = write_model(state, context, part, model, data.rows, validation, about)
    columns = parted.sealed.seal.columns
    record_used(context.ledger, columns, row_digests(every, columns), parted.name)
    part.replace(path)
    context.ledger.append("files", {"files": {"final model": checksum}}, parted.name)
    figure = opened.intervals.get(opened.primary)
    if figure is not None:
        figure = replace(figure, estimand=f"{figure.estimand}, {OF_THE_RECIPE}")
    fitted_to = made(state.training).fitted_to(state.plan)
    counts = (len(parted.train), int(np.shape(test)[0]), int(fitted_to.size))
    return Final(
        parted.name,
        name,
        *counts,
        before,
        after,
        opened.primary,
        figure,
        tuple(warned),
        str(path),
        checksum,
        model,
    )


def _settings(model: Any, tuned: Mapping[str, Any]) -> dict[str, Any]:
    """What the search chose; of learners that tune themselves, what they found."""
    pipe = pipeline_of(model)
    if pipe is None:
        return {}
    params = pipe.get_params()
    chosen = {one.removeprefix("model__"): params[one] for one in tuned if one in params}
    last = pipe.steps[-1][1]
    own = {one: getattr(last, one, None) for one in ("alpha_", "l1_ratio_")}
    return chosen | {one: float(value) for one, value in own.items() if value is not None and np.ndim(value) == 0}
