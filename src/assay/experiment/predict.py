"""Predictions from a model file: values or classes, with probabilities and limits that say what they cover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import fraction
from assay.errors import DataError
from assay.evaluation import Conformal
from assay.experiment.data import read_table
from assay.experiment.store import load_model

__all__ = ["predict_table"]


def predict_table(model: Any, table: Any, *, level: float = 0.9, trust: Sequence[str] = ()) -> pd.DataFrame:
    """Predictions for every row of a table, with conformal limits or sets from the study's out-of-fold rows.

        limits = prediction -+ q,   q the ceil(level (n + 1))-th smallest out-of-fold |residual|

    | parameter | default | range                      | meaning                                                      |
    |-----------|---------|----------------------------|--------------------------------------------------------------|
    | model     |         | a model file               | what `assay run` left                                        |
    | table     |         | a file or a data frame     | the rows; the target need not be there                       |
    | level     | 0.9     | (0, 1)                     | the coverage the limits aim at                               |
    | trust     | ()      | names like "module.Class"  | your own learners that the file may hold                     |

    The limits come from models fitted without the row ("cv"): near the level where leaving out a fold moves the model
    little, without a proof. Columns: `prediction`, then `lower` and `upper`, or `set` and a probability per class.

    >>> predict_table("nowhere.assay", pd.DataFrame({"x": [1.0]}))
    Traceback (most recent call last):
    ...
    assay.errors.StoreError: ...
    """
    level = fraction(level, "level")
    parts = load_model(model, trust=trust)
    kinds = dict(parts["kinds"])
    frame = _columns(table, kinds, list(parts["schema"]["features"]))
    pipeline = parts["pipeline"]
    out = pd.DataFrame(index=frame.index)
    out["prediction"] = pipeline.predict(frame)
    if parts["task"] == "regression":
        if parts.get("residuals") is not None:
            made = Conformal.from_residuals(pipeline, parts["residuals"], level=level)
            limits = made.interval(frame)
            out["lower"], out["upper"] = limits.lower, limits.upper
        return out
    classes = np.asarray(parts["classes"])
    if hasattr(pipeline, "predict_proba"):
        shares = np.asarray(pipeline.predict_proba(frame))
        if parts.get("probabilities") is not None:
            truth = classes[np.asarray(parts["schema"]["codes"], dtype=int)]
            made = Conformal.from_probabilities(pipeline, parts["probabilities"], truth, classes=classes, level=level)
            sets = made.sets(frame)
            out["set"] = [" | ".join(str(label) for label in sets[row]) for row in range(len(sets))]
        for k, label in enumerate(classes):
            out[f"probability of {label}"] = shares[:, k]
    return out


def _columns(table: Any, kinds: dict[str, str], features: list[str]) -> pd.DataFrame:
    """The table as the study read it: every column with the kind it had."""
    found = read_table(table)
    gone = [name for name in features if name not in found.frame.columns]
    if gone:
        raise DataError(f"column {gone[0]!r} is missing from {found.name}", remedy="the model was fitted with it")
    wrong = {name: kind for name, kind in kinds.items() if found.kinds[name] != kind}
    if wrong:
        found = read_table(table, kinds=wrong)
    return found.frame[features]
