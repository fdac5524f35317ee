"""What a search gives back: the chosen setting, every candidate with its scores, and the model fitted to all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import ParameterError
from assay.evaluation._trials import Trial
from assay.evaluation.learner import label_of
from assay.evaluation.select import Selection
from assay.metrics.definition import Metric
from assay.numbers import fmt
from assay.resampling import Scheme
from assay.results import Result

__all__ = ["Search", "tabulate"]

Array = np.ndarray
FIGURES = ("estimate", "std_error", "rank", "seconds", "failed")


@dataclass(frozen=True, eq=False, repr=False)
class Search(Result):
    """What a search found: the chosen setting, every candidate with its scores, and the model refitted on all rows.

    | field      | meaning                                                                                       |
    |------------|-----------------------------------------------------------------------------------------------|
    | best       | the chosen parameters                                                                         |
    | index      | their position among the candidates                                                           |
    | candidates | every setting tried                                                                           |
    | table      | a row per candidate: parameters, estimate, std_error, rank, seconds, failed, score per fold   |
    | selection  | the rule, its table and why this candidate was chosen                                         |
    | model      | the chosen candidate fitted to all rows (None without refit)                                  |
    | nested     | the validation of the whole procedure on outer folds, where it was asked for                  |
    """

    best: dict[str, Any]
    index: int
    candidates: tuple[dict[str, Any], ...]
    table: pd.DataFrame
    selection: Selection
    model: Any
    estimator: Any
    method: str
    metric: Metric
    scheme: Scheme
    splits: Sequence[tuple[Array, Array]]
    nested: Any = None

    @property
    def estimate(self) -> float:
        """The figure of the chosen candidate; optimistic, see `nested`."""
        return float(self.table["estimate"].iloc[self.index])

    @property
    def std_error(self) -> float:
        """The standard error of `estimate`, which knows nothing of the choosing."""
        return float(self.table["std_error"].iloc[self.index])

    @property
    def optimism(self) -> float | None:
        """How much better the chosen candidate looks than the procedure is on rows it never saw; None if not nested."""
        if self.nested is None:
            return None
        apart = self.estimate - float(self.nested.estimate)
        return apart if self.metric.greater_is_better else -apart

    @property
    def varied(self) -> tuple[str, ...]:
        """The parameters that took more than one value."""
        names = dict.fromkeys(name for params in self.candidates for name in params)
        shown = {name: {repr(params.get(name, "")) for params in self.candidates} for name in names}
        return tuple(name for name in names if len(shown[name]) > 1)

    def predict(self, X: Any) -> Array:
        """Predictions of the model refitted on all rows."""
        if self.model is None:
            raise ParameterError("the search was run without refit, so there is no model", remedy="pass refit=True")
        return self.model.predict(X)

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate, in the order they were tried."""
        return self.table.copy()

    def __str__(self) -> str:
        kind = "Grid" if self.method == "grid" else "Random"
        better = "greater" if self.metric.greater_is_better else "smaller"
        title = f"{kind} search of {len(self.candidates)} candidates for {label_of(self.estimator)}"
        head = f"{self.metric.name} by {self.scheme}, {better} is better"
        shown = self.table.sort_values("rank", kind="stable").head(10)
        parameters = [name for name in shown.columns if name not in FIGURES and not str(name).startswith("fold ")]
        body = shown[[*parameters, "estimate", "std_error", "rank", "seconds"]]
        lines = body.to_string(index=False, float_format=lambda value: fmt(value, 5)).splitlines()
        rule = "-" * max(len(line) for line in [title, head, *lines])
        return "\n".join([title, rule, head, *lines, rule, *self._notes()])

    def _notes(self) -> list[str]:
        notes = [f"Chosen: {self.selection.name}. {self.selection.why}"]
        failed = self.table["failed"][self.table["failed"] != ""]
        if len(failed):
            more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            notes.append(f"Failed: {failed.index[0]}, {failed.iloc[0]}{more}.")
        if self.nested is None and len(self.candidates) > 1:
            notes.append(
                "Its score is optimistic because it was selected by it; nested=5 validates the whole procedure."
            )
        if self.nested is not None:
            notes.append(f"Nested: {self.nested.interval()}; optimism {fmt(self.optimism, 3)}.")
        return notes


def tabulate(settings: Sequence[Mapping[str, Any]], names: Sequence[str], trials: Sequence[Trial], folds: int) -> Any:
    """Parameters, figures to be filled in, and the score on every fold."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for params in settings for name in params):
        shown = f"param_{name}" if name in FIGURES or name.startswith("fold ") else name
        values = pd.Series([params.get(name) for params in settings], dtype=object)
        columns[shown] = values if values.isna().any() else values.infer_objects()  # None stays None
    columns |= {"estimate": np.nan, "std_error": np.nan, "rank": pd.array([pd.NA] * len(names), dtype="Int64")}
    columns |= {"seconds": [trial.seconds for trial in trials], "failed": [trial.failed for trial in trials]}
    missing = np.full(folds, np.nan)
    scores = np.array([missing if trial.figure is None else trial.figure.fold_scores for trial in trials])
    per_fold = pd.DataFrame(scores, columns=[f"fold {k}" for k in range(folds)])
    table = pd.concat([pd.DataFrame(columns, index=per_fold.index), per_fold], axis=1)
    return table.set_index(pd.Index(names, name="candidate"))
