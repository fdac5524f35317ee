"""Predictions from a model file: values or classes, with probabilities and limits that say what they cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import fraction, whole
from assay.errors import DataError, DataTypeError, ParameterError, StoreError
from assay.evaluation import Conformal, ShapleyValues, shapley_values
from assay.experiment.columns.encoders import level_codes
from assay.experiment.model_file.background import background_rows
from assay.experiment.model_file.file import load_model
from assay.experiment.model_file.training_rows import Alert, alerts_of
from assay.experiment.table import Table, read_table
from assay.experiment.table.levels import MISSING
from assay.experiment.table.question import refuse_other_units
from assay.experiment.table.reading import read_source
from assay.experiment.table.table import EVERY
from assay.experiment.wording import decision
from assay.numbers import fmt
from assay.results import Result
from assay.words import listed, plural, printable

__all__ = ["Predictions", "predict_parts", "predict_rows", "predict_table"]

NOTHING: dict[str, Any] = {"n": 0, "columns": {}}
"""What a file of an earlier version knows of its training rows."""
ROW = "row"
SHOWN = 3


@dataclass(frozen=True, eq=False, repr=False)
class Predictions(Result):
    """Predictions for the rows of a table, and what a reader must know about them.

    | field     | meaning                                                                                     |
    |-----------|---------------------------------------------------------------------------------------------|
    | frame     | one row per row of the table, in its order: `row` (from 1), id columns, `prediction`, and   |
    |           | `lower` and `upper`, or `set` and a probability per class; with `explain`, `reason_1`, ...  |
    | coverage  | what the limits or sets cover, in a sentence; None where there are none                     |
    | notes     | columns that were not used, the sentences of `alerts`, what `top` and `explain` mean, and   |
    |           | from which probability a row is called positive where that was chosen                       |
    | alerts    | levels never seen, values outside the training range, columns that have drifted             |
    | threshold | the least figure of the rows that `top` returns; None without it                            |
    | explained | the contributions of the rows; None without `explain`                                       |
    """

    frame: pd.DataFrame
    coverage: str | None
    notes: tuple[str, ...] = ()
    alerts: tuple[Alert, ...] = ()
    threshold: float | None = None
    explained: ShapleyValues | None = None

    def to_frame(self) -> pd.DataFrame:
        """The predictions."""
        return self.frame.copy()

    def __str__(self) -> str:
        words = [] if self.coverage is None else [self.coverage]
        shown = self.frame.head(20).map(lambda cell: printable(cell) if isinstance(cell, str) else cell)
        table = shown.rename(columns=printable).to_string(index=False)
        return "\n".join([table, *words, *(f"note: {one}" for one in self.notes)])


def predict_table(
    model: Any,
    table: Any,
    *,
    level: float = 0.9,
    trust: Sequence[str] = (),
    explain: int = 0,
    top: int | None = None,
) -> pd.DataFrame:
    """Predictions for every row of a table, as a frame: the `frame` of `predict_rows`.

    | parameter | default | range                      | meaning                                                      |
    |-----------|---------|----------------------------|--------------------------------------------------------------|
    | model     |         | a model file               | what `assay run` left                                        |
    | table     |         | a file or a data frame     | the rows; the target need not be there                       |
    | level     | 0.9     | (0, 1)                     | the coverage the limits aim at                               |
    | trust     | ()      | names like "module.Class"  | your own learners that the file may hold                     |
    | explain   | 0       | 0 or more                  | so many leading contributions per row: `reason_1`, ...       |
    | top       | None    | 1 or more                  | so many rows only, the highest first                         |

    >>> predict_table("nowhere.assay", pd.DataFrame({"x": [1.0]}))
    Traceback (most recent call last):
    ...
    assay.errors.StoreError: ...
    """
    return predict_rows(model, table, level=level, trust=trust, explain=explain, top=top).frame


def predict_rows(
    model: Any,
    table: Any,
    *,
    level: float = 0.9,
    trust: Sequence[str] = (),
    explain: int = 0,
    top: int | None = None,
) -> Predictions:
    """Predictions for every row of a table, with conformal limits or sets from the study's out-of-fold rows.

        limits = prediction -+ q,   q the ceil(level (n + 1))-th smallest out-of-fold |residual|

    | parameter | default | range                      | meaning                                                      |
    |-----------|---------|----------------------------|--------------------------------------------------------------|
    | model     |         | a model file               | what `assay run` left                                        |
    | table     |         | a file or a data frame     | the rows; the target need not be there                       |
    | level     | 0.9     | (0, 1)                     | the coverage the limits aim at                               |
    | trust     | ()      | names like "module.Class"  | your own learners that the file may hold                     |
    | explain   | 0       | 0 or more                  | so many leading contributions per row: `reason_1`, ...       |
    | top       | None    | 1 or more                  | so many rows only, the highest first                         |

    The limits come from models fitted without the row ("cv"): near the level where leaving out a fold moves the model
    little, without a proof. Vovk (2015), Annals of Mathematics and Artificial Intelligence 74, 9-28 (cross-conformal).
    Contributions are interventional Shapley values (`evaluation.shapley_values`). `top` ranks by the prediction of a
    regression, the probability of the positive one of two classes, or of the predicted one of more.

    >>> predict_rows("nowhere.assay", pd.DataFrame({"x": [1.0]}))
    Traceback (most recent call last):
    ...
    assay.errors.StoreError: ...
    """
    level, explain = fraction(level, "level"), whole(explain, "explain", 0)
    if top is not None:
        top = whole(top, "top", 1)
    return predict_parts(load_model(model, trust=trust), str(model), table, level, explain, top)


def predict_parts(
    parts: dict[str, Any], name: str, table: Any, level: float, explain: int, top: int | None
) -> Predictions:
    """The same for the parts of a model file, which `name` stands for in messages."""
    known = isinstance(parts["schema"], dict) and "features" in parts["schema"] and parts["kinds"] is not None
    if not known or (parts["task"] == "classification" and parts["classes"] is None):
        message = f"the model file {name!r} does not say which columns and classes it was fitted to"
        raise StoreError(
            message, remedy="use the model file of a study, or load_model(...)['pipeline'].predict in Python"
        )
    features = list(parts["schema"]["features"])
    found = _read(table, dict(parts["kinds"]), features, parts["schema"])
    refuse_other_units(parts["schema"].get("units", {}), found, features)
    frame, pipeline = found.frame.reindex(columns=features), parts["pipeline"]  # ids, which it ignores, may be absent
    out = _keys(found, dict(parts["kinds"]), parts["target"])
    out["prediction"] = pipeline.predict(frame)
    alerts = (*_unseen(pipeline, frame), *alerts_of(parts["schema"].get("training", NOTHING), frame))
    notes = (*_unused(found, features, out, parts["target"]), *(alert.words for alert in alerts))
    coverage = _limits(out, parts, pipeline, frame, level)
    rule = decision(pipeline)
    if rule:
        notes = (f"a {rule}" + ("; the column set does not go by it" if "set" in out else ""), *notes)
    threshold = None
    if top is not None:
        rows, threshold, words = _leading(out, parts, top)
        out, frame, notes = out.iloc[rows], frame.iloc[rows], (words, *notes)
    explained = None
    if explain:
        explained = shapley_values(pipeline, frame, background_rows(parts, features))
        notes = (_add_reasons(out := out.copy(), explained, parts, explain), *notes)
    return Predictions(out, coverage, notes, alerts, threshold, explained)


def _leading(out: pd.DataFrame, parts: dict[str, Any], top: int) -> tuple[np.ndarray, float, str]:
    """The positions of the rows with the highest figures, the least of these, and a sentence."""
    figure, called = out["prediction"], "prediction"
    if parts["task"] == "classification":
        labels = [f"probability of {label}" for label in parts["classes"]]
        if labels[0] not in out:
            message = "the rows cannot be ranked, because the model has no probabilities"
            raise ParameterError(message, remedy="leave --top out")
        positive = getattr(parts["pipeline"], "positive_", parts["classes"][-1])
        if len(labels) == 2:
            called = f"probability of {positive}"
            figure = out[called]
        else:
            figure, called = out[labels].max(axis=1), "probability of the predicted class"
    values = figure.to_numpy(dtype=float)
    rows = np.argsort(-values, kind="stable")[:top]
    threshold = float(values[rows[-1]])
    same = int((values == threshold).sum() - (values[rows] == threshold).sum())
    text = f"the {plural(len(rows), 'row')} of {len(out)} with the highest {called}, which is at least {fmt(threshold)}"
    if same:
        text += f"; {plural(same, 'further row')} with exactly this value {'are' if same > 1 else 'is'} left out"
    return rows, threshold, text


def _add_reasons(out: pd.DataFrame, explained: ShapleyValues, parts: dict[str, Any], most: int) -> str:
    """Add the leading contributions of each row; return the sentence on their scale."""
    several = len(explained.outputs) > 1
    place = {label: k for k, label in enumerate(explained.outputs)}
    lists = [
        explained.leading(i, most, place[str(label)] if several else 0)
        for i, label in enumerate(out["prediction"].tolist())
    ]
    for k in range(most):
        cells = [f"{one[k][0]} = {_cell(one[k][1])} ({one[k][2]:+.3g})" if k < len(one) else "" for one in lists]
        out[f"reason_{k + 1}"] = cells
    of = "the predicted class" if several else explained.outputs[0] or parts["target"]
    text = f"the columns reason_1 to reason_{most} give the largest contributions to the {explained.scale} of {of}"
    if not several:
        text += f", relative to a mean of {fmt(float(explained.base))}"
    text += f" over {explained.n_background} training rows"
    if explained.std_error is not None:
        text += f"; they are sampled, with a standard error of at most {fmt(float(explained.std_error.max()), 2)}"
    return text


def _cell(value: Any) -> str:
    if isinstance(value, pd.Timestamp):
        return str(value.date()) if value == value.normalize() else str(value)
    if isinstance(value, float | np.floating):
        return "missing" if np.isnan(value) else fmt(float(value))
    return "missing" if value is None or value is pd.NaT else str(value)


def _limits(out: pd.DataFrame, parts: dict[str, Any], pipeline: Any, frame: pd.DataFrame, level: float) -> str | None:
    """Add limits, or sets and probabilities; return the sentence on their coverage."""
    if parts["task"] == "regression":
        if parts.get("residuals") is None:
            return None
        made = Conformal.from_residuals(pipeline, parts["residuals"], level=level)
        limits = made.interval(frame)
        out["lower"], out["upper"] = limits.lower, limits.upper
        return _coverage("the columns lower and upper are", "prediction intervals", made.n, level)
    if not hasattr(pipeline, "predict_proba"):
        return None
    classes = np.asarray(parts["classes"])
    shares = np.asarray(pipeline.predict_proba(frame))
    promise = None
    if parts.get("probabilities") is not None and "codes" in parts["schema"]:
        truth = classes[np.asarray(parts["schema"]["codes"], dtype=int)]
        made = Conformal.from_probabilities(pipeline, parts["probabilities"], truth, classes=classes, level=level)
        sets = made.sets(frame)
        out["set"] = [" | ".join(str(label) for label in sets[row]) for row in range(len(sets))]
        promise = _coverage("the column set contains", "prediction sets", made.n, level, *made.scope(level))
    for k, label in enumerate(classes):
        out[f"probability of {label}"] = shares[:, k]
    return promise


def _coverage(which: str, what: str, n: int, level: float, where: str = "", never: str = "") -> str:
    """What limits or sets cover: `where` names the classes it holds within, `never` those of which nothing is said."""
    share = f"{100 * level:g}"
    among = f", {where}," if where else ""
    none = f"; {never}" if never else ""
    return (
        f"{which} {share}% {what}: for about {share} of 100 new rows like the training rows{among} they contain the "
        f"true value{none}. Method: conformal, calibrated on {n} out-of-fold predictions; the coverage is close to the "
        "level if the model changes little when some rows are left out, but is not guaranteed"
    )


@dataclass(frozen=True)
class _AllBut:
    """Every name but these."""

    names: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return name not in self.names


def _read(table: Any, kinds: dict[str, str], features: list[str], schema: Mapping[str, Any]) -> Table:
    """The table as the study read it: every column with the kind it had, the same texts read as missing."""
    table = table if isinstance(table, pd.DataFrame) else read_source(table)  # what is no table needs another remedy
    usual, unused = {EVERY: MISSING}, _AllBut(frozenset(features))
    gaps, commas = schema.get("gaps", {}), schema.get("commas", {})
    try:
        found = read_table(table, missing=usual, unused=unused, commas=commas)
    except DataTypeError as error:
        raise DataTypeError(error.what, remedy="give that column the cells it had in the training rows") from error
    missing = [name for name in features if name not in found.frame.columns and kinds.get(name) != "id"]
    if missing:
        more = "" if len(missing) == 1 else f" and {len(missing) - 1} more ({listed(missing[1:], SHOWN)})"
        verb, it = ("is", "it") if len(missing) == 1 else ("are", "them")
        message = f"column {missing[0]!r}{more} {verb} missing from {found.name}"
        low = {str(name).lower().strip(): name for name in found.frame.columns if name not in features}
        near = get_close_matches(missing[0].lower().strip(), list(low), 1, 0.8)
        remedy = f"add {it}; cells may be empty where the value is unknown"
        raise DataError(message, remedy=f"rename {low[near[0]]!r} if it is the same column" if near else remedy)
    wrong = {name: kind for name, kind in kinds.items() if found.kinds.get(name, kind) != kind}
    try:
        if not (wrong or gaps):
            return found
        return read_table(table, kinds=wrong, missing={**usual, **gaps}, unused=unused, commas=commas)
    except DataError as error:
        raise DataError(error.what, remedy="correct that cell, or leave it empty") from error


def _keys(found: Table, kinds: dict[str, str], target: str) -> pd.DataFrame:
    """What finds a row again: its number in the table, counted from 1, and the columns that are ids."""
    ids = [
        name
        for name in found.frame.columns
        if name != target and (kinds.get(name) == "id" or (name not in kinds and found.kinds[name] == "id"))
    ]
    keys = pd.DataFrame({ROW: np.arange(1, len(found.frame) + 1)}, index=found.frame.index)
    taken = {ROW, "prediction", "lower", "upper", "set"}
    for name in ids:
        keys[f"{name} (id)" if name in taken else name] = found.frame[name]
    return keys


def _unused(found: Table, features: list[str], out: pd.DataFrame, target: str) -> list[str]:
    extra = [name for name in found.frame.columns if name not in {*features, *out.columns, target}]
    return [f"columns that the model does not use: {listed(extra, SHOWN)}"] if extra else []


def _unseen(pipeline: Any, frame: pd.DataFrame) -> list[Alert]:
    """Categories that do not occur in the training rows; skipped where rare levels were pooled without their names."""
    found = []
    for name, part in _levels_of(pipeline).items():
        if part.other and not part.known:
            continue
        codes, names = level_codes(frame[name])
        seen = set(part.known or part.names)
        new = [label for label in names if label not in seen]
        if new:
            rows = int(np.isin(codes, [at for at, label in enumerate(names) if label not in seen]).sum())
            where = f"in {plural(rows, 'row')} that do not occur in the training rows ({listed(new, SHOWN)})"
            text = f"column {name!r} has values {where}; predictions for those rows are less reliable"
            found.append(Alert("unseen-level", name, rows, text))
    return found


def _levels_of(model: Any) -> dict[str, Any]:
    """The levels that a model's preprocessing has learned, also inside thresholds, calibration and ensembles."""
    while not hasattr(model, "steps"):
        inner = getattr(model, "best_estimator_", None) or getattr(model, "estimator_", None)
        inner = inner or next(iter(getattr(model, "estimators_", ())), None)
        if inner is None:
            return {}
        model = inner
    return next((step.levels_ for _, step in model.steps if hasattr(step, "levels_")), {})
