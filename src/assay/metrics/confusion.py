"""The K x K table of true against assigned classes: entry (i, j) counts rows of class i assigned to class j.

    error rate = 1 - trace / total        sensitivity of class i = entry (i, i) / row total
                                          precision of class j = entry (j, j) / column total

Cost: one pass over the rows, O(n + K^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import freeze, row_weights
from assay.metrics.inputs import encode_pair
from assay.numbers import fmt
from assay.results import Result

__all__ = ["Confusion", "confusion_matrix"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Confusion(Result):
    """A confusion table: `counts[i, j]` is the number (or weight) of rows of class i assigned to class j.

    numpy sees the table itself: `np.asarray(confusion)`, `confusion[0, 1]`.
    """

    counts: Array
    labels: tuple[Any, ...]

    @property
    def total(self) -> float:
        """The number (or weight) of rows."""
        return float(self.counts.sum())

    @property
    def error(self) -> float:
        """The share of rows assigned to a wrong class."""
        return 1.0 - float(np.trace(self.counts)) / self.total

    def normalized(self) -> Array:
        """Each row divided by its total: where the rows of a class went (zeros for a class without rows)."""
        totals = self.counts.sum(axis=1, keepdims=True)
        return self.counts / np.where(totals > 0, totals, 1)

    def per_class(self) -> pd.DataFrame:
        """Rows, sensitivity and precision of each class; NaN where a class has no true or no assigned row."""
        right, rows, assigned = np.diag(self.counts), self.counts.sum(axis=1), self.counts.sum(axis=0)
        share = [np.where(base > 0, right / np.where(base > 0, base, 1), np.nan) for base in (rows, assigned)]
        columns = {"rows": rows, "assigned": assigned, "sensitivity": share[0], "precision": share[1]}
        return pd.DataFrame(columns, index=pd.Index(self.labels, name="class"))

    def to_frame(self) -> pd.DataFrame:
        """The table, true classes down, assigned classes across."""
        down, across = pd.Index(self.labels, name="true"), pd.Index(self.labels, name="assigned")
        return pd.DataFrame(self.counts, index=down, columns=across)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.array(self.counts, dtype=dtype)

    def __getitem__(self, at: Any) -> Any:
        return self.counts[at]

    def __str__(self) -> str:
        frame = self.to_frame()
        frame["total"] = frame.sum(axis=1)
        frame.loc["total"] = frame.sum(axis=0)
        frame.index.name, frame.columns.name = "true", "assigned"
        shown = frame.map(lambda value: fmt(value, 6))
        return f"{shown.to_string()}\nerror rate {fmt(self.error)}"

    def _repr_html_(self) -> str:
        return self.to_frame().to_html()


def confusion_matrix(y_true: Any, y_pred: Any, *, labels: Any = None, sample_weight: Any = None) -> Confusion:
    """Count how the rows of each class were assigned.

    | parameter     | default | range       | meaning                                                      |
    |---------------|---------|-------------|--------------------------------------------------------------|
    | y_true        |         | labels      | the class of each row                                        |
    | y_pred        |         | labels      | the class each row was assigned to                           |
    | labels        | None    | all classes | their order; None: sorted. A row of another class is refused |
    | sample_weight | None    | at least 0  | how much each row counts                                     |

    >>> print(confusion_matrix(["cat", "dog", "dog", "cat", "cow"], ["cat", "dog", "cat", "cat", "dog"]))
    assigned cat cow dog total
    true
    cat        2   0   0     2
    cow        0   0   1     1
    dog        1   0   1     2
    total      3   0   2     5
    error rate 0.4
    """
    truth, predicted, classes = encode_pair(y_true, y_pred, labels)
    weights = row_weights(sample_weight, truth.size)
    k = classes.size
    cells = np.bincount(truth * k + predicted, weights=weights, minlength=k * k).reshape(k, k)
    return Confusion(freeze(cells), tuple(classes.tolist()))
