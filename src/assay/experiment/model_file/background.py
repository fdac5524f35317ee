"""The rows that contributions to a prediction are measured against: in the model file, or of the study on this machine.

A model file holds training rows only if it was asked to (`--background 100`), since whoever has the file can read them
(nearest neighbours and support vectors hold them in any case). Without them, contributions can be had where the study
itself is, whose folder keeps its training rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from assay.errors import AssayError, StoreError
from assay.experiment.storage.ledger import Ledger, home
from assay.experiment.table import read_table
from assay.experiment.table.levels import MISSING
from assay.experiment.table.table import EVERY
from assay.experiment.test_set.vault import Vault
from assay.state import need

__all__ = ["background_cells", "background_rows", "check_background"]

ROWS = 100


def background_cells(frame: pd.DataFrame, rows: int) -> dict[str, list[Any]]:
    """So many rows, chosen by a hash of their cells, as JSON: by column the cells, None where missing, dates as text.

    >>> background_cells(pd.DataFrame({"x": [1.5, None]}), 5)
    {'x': [1.5, None]}
    """
    drawn = _drawn(frame, rows)
    found = {}
    for name in drawn.columns:
        column = drawn[name]
        cells = column.astype(str).tolist() if column.dtype.kind == "M" else column.tolist()
        found[str(name)] = [None if gap else cell for cell, gap in zip(cells, column.isna(), strict=True)]
    return found


def check_background(found: Any, features: Any) -> None:
    """Raise `StateError` where stored rows are not cells of the features."""
    need(isinstance(found, dict) and set(found) == set(features), "its background rows have other columns")
    sizes = {len(cells) if isinstance(cells, list) else 0 for cells in found.values()}
    need(len(sizes) == 1 and min(sizes) > 0, "its background rows are damaged")
    for cells in found.values():
        need(all(cell is None or isinstance(cell, str | int | float) for cell in cells), "a background cell is damaged")


def background_rows(parts: dict[str, Any], features: list[str]) -> pd.DataFrame:
    """The background of a model: the rows in its file, or rows of its study if that is on this machine."""
    stored = parts["schema"].get("background")
    if stored is not None:
        kinds = dict(parts["kinds"])
        gaps = {EVERY: MISSING, **parts["schema"].get("gaps", {})}
        return read_table(pd.DataFrame(stored, dtype=object), kinds=kinds, missing=gaps).frame[features]
    about = parts["metadata"] or {}
    study = about.get("study")
    try:
        train = _training_rows(str(study))
    except (AssayError, OSError, IndexError, KeyError) as error:
        message = f"the model file has no background rows, and its study {str(study)!r} is not on this machine"
        command = "finalize" if "fitted_to" in about else "report"
        remedy = f"write the model again where the study is: assay {command} {study} --background {ROWS}"
        raise StoreError(message, remedy=remedy) from error
    return _drawn(train[features], ROWS)


def _training_rows(study: str) -> pd.DataFrame:
    digest = Ledger().entries("study", study)[-1].body["train"]
    return Vault("train", home() / "studies" / study).read(digest)


def _drawn(frame: pd.DataFrame, rows: int) -> pd.DataFrame:
    """Rows chosen by a hash of their cells, so that neither order of the table matters."""
    digests = pd.util.hash_pandas_object(frame[sorted(frame.columns)], index=False).to_numpy()
    return frame.iloc[np.argsort(digests, kind="stable")[:rows]].reset_index(drop=True)
