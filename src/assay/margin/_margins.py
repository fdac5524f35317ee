"""Where rows lie: margins y f(x), slacks, signed distances to the boundary, and a picture of two columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from assay.errors import DataError
from assay.labels import class_labels
from assay.numbers import fmt
from assay.results import Result
from assay.state import Specs, values

__all__ = ["MarginRegions", "Margins", "margins_of", "regions_of"]

Array = np.ndarray
NEAR = 1e-3
"""A row with |y f - 1| below this lies on the margin."""
PLACES = ("beyond", "on", "inside", "wrong side")
GRID = 161


@dataclass(frozen=True, eq=False, repr=False)
class Margins(Result):
    """How each row lies to the boundary between two classes, one entry for each row and pair of classes.

    | field    | meaning                                                                                        |
    |----------|------------------------------------------------------------------------------------------------|
    | row      | number of the row                                                                              |
    | pair     | number of the pair of classes                                                                  |
    | score    | f(x), towards the row's own class                                                              |
    | slack    | max(0, 1 - score)                                                                              |
    | distance | score / abs(w): from the boundary, negative on the wrong side, in the features of the kernel   |
    | place    | 0 beyond the margin, 1 on it, 2 inside, 3 on the wrong side                                    |
    | width    | half-width 1/abs(w) of each pair's margin                                                      |
    """

    row: Array
    pair: Array
    score: Array
    slack: Array
    distance: Array
    place: Array
    width: Array
    pairs: tuple[str, ...]

    state: ClassVar[Specs] = dict.fromkeys(("row", "pair", "score", "slack", "distance", "place"), values("n"))

    @property
    def total_slack(self) -> float:
        """The sum of all slacks."""
        return float(self.slack.sum())

    def to_frame(self) -> pd.DataFrame:
        """One row per row and pair."""
        return pd.DataFrame(
            {
                "row": self.row,
                "pair": np.array(self.pairs)[self.pair],
                "score": self.score,
                "slack": self.slack,
                "distance": self.distance,
                "place": np.array(PLACES)[self.place],
            }
        )

    def __str__(self) -> str:
        lines = []
        for k, name in enumerate(self.pairs):
            mine = self.pair == k
            counts = np.bincount(self.place[mine], minlength=4)
            told = ", ".join(f"{count:,} {place}" for count, place in zip(counts, PLACES, strict=True) if count)
            total = fmt(float(self.slack[mine].sum()), 4)
            lines.append(f"{name}: {told}; total slack {total}, half-width {fmt(self.width[k], 4)}")
        return "\n".join(lines)


def margins_of(model: Any, scores: Array, y: Any) -> Margins:
    """Margins of rows with scores by pair of classes."""
    labels = class_labels(y, len(scores))
    known = model.classes_.tolist()
    strange = [label for label in np.unique(labels).tolist() if label not in known]
    if strange:
        raise DataError(
            f"y contains {strange[0]!r}, which is not a class of the model", remedy="pass rows of the model's classes"
        )
    codes = np.searchsorted(model.classes_, labels)
    parts, names = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for m, (a, b) in enumerate(combinations(range(len(known)), 2)):
            rows = np.flatnonzero((codes == a) | (codes == b))
            own = np.where((codes[rows] == b) == (len(known) == 2), 1.0, -1.0) * scores[rows, m]
            place = np.select([own > 1 + NEAR, own >= 1 - NEAR, own > 0], [0, 1, 2], 3)
            parts.append((rows, np.full(rows.size, m), own, np.maximum(0.0, 1.0 - own), own * model.margin_[m], place))
            names.append(f"{known[a]} | {known[b]}")
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    row, pair, score, slack, distance, place = columns
    return Margins(row, pair, score, slack, distance, place, model.margin_.copy(), tuple(names))


@dataclass(frozen=True, eq=False, repr=False)
class MarginRegions(Result):
    """Two columns: the predicted class and the scores on a grid, the rows, and which of them are support vectors."""

    x: Array
    y: Array
    code: Array
    score: Array
    points: Array
    label: Array
    support: Array
    classes: tuple[str, ...]
    names: tuple[str, str]
    title: str

    def to_frame(self) -> pd.DataFrame:
        """The rows: both columns, class, and whether a support vector."""
        columns = {self.names[0]: self.points[:, 0], self.names[1]: self.points[:, 1]}
        return pd.DataFrame({**columns, "class": np.array(self.classes)[self.label], "support": self.support})

    def __str__(self) -> str:
        return f"{self.title}: {len(self.points)} rows, {int(self.support.sum())} of them support vectors"


def regions_of(model: Any, X: Any, y: Any) -> MarginRegions:
    """What is drawn of a machine of two columns; support vectors are the rows of X with |y f| <= 1."""
    names = [str(name) for name in X.columns] if isinstance(X, pd.DataFrame) else ["x0", "x1"]
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        what = f"regions are drawn over two columns, but X has shape {points.shape}"
        raise DataError(what, remedy="fit the machine to two columns")
    labels = class_labels(y, len(points))
    low, high = points.min(axis=0), points.max(axis=0)
    edge = np.where(high > low, 0.08 * (high - low), 0.5)
    x, v = (np.linspace(low[j] - edge[j], high[j] + edge[j], GRID) for j in range(2))
    grid = np.column_stack([part.ravel() for part in np.meshgrid(x, v)])
    table = pd.DataFrame(grid, columns=names) if hasattr(model, "feature_names_in_") else grid
    scores = np.asarray(model.decision_function(table)).reshape(len(grid), -1)
    code = np.searchsorted(model.classes_, model.predict(table)).reshape(GRID, GRID)
    place = margins_of(model, model._pair_scores(X), labels)
    support = np.zeros(len(points), dtype=bool)
    support[place.row[place.score <= 1 + NEAR]] = True
    return MarginRegions(
        x, v, code, scores.reshape(GRID, GRID, -1), points, np.searchsorted(model.classes_, labels), support,
        tuple(str(label) for label in model.classes_.tolist()), (names[0], names[1]), _title(model),
    )  # fmt: skip


def _title(model: Any) -> str:
    machine = getattr(model, "machine_", model)
    kernel = f", {machine.kernel_}" if hasattr(machine, "kernel_") and getattr(model, "_unit", 1.0) == 1.0 else ""
    return f"{type(model).__name__}, C = {fmt(float(machine.C_ if hasattr(machine, 'C_') else machine.C), 3)}{kernel}"
