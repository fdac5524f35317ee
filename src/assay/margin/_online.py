"""Classes that arrive in pieces: the first call names all of them, later ones bring rows of some."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.errors import DataError
from assay.labels import class_labels

__all__ = ["online_codes"]

Array = np.ndarray
REMEDY = "pass all classes to the first call of partial_fit"


def online_codes(known: Array | None, y: Any, classes: Any, n: int) -> tuple[Array, Array]:
    """All classes, sorted, and the place of each row's among them; `known` are those of earlier calls."""
    labels = class_labels(y, n)
    if known is None:
        known = np.unique(labels if classes is None else class_labels(classes, len(classes)))
        if known.size < 2:
            raise DataError(f"classes has only one class, {known.tolist()[0]!r}", remedy=REMEDY)
    codes = np.minimum(np.searchsorted(known, labels), known.size - 1)
    strange = known[codes] != labels
    if strange.any():
        row = int(np.argmax(strange))
        what = f"y contains the class {labels[row].item()!r} in row {row}, which was not passed in the first call"
        raise DataError(what, remedy=REMEDY)
    return known, codes
