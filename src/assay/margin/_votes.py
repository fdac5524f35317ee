"""The voted perceptron: every set of weights that ever stood votes, with the number of rows that it survived.

The weights after j mistakes are w_j = sum_{l <= j} step_l a_(row l), so all scores w_j'a of a row are one cumulative
sum over the mistakes: no weights are stored, only which rows were mistaken. Cost per row: one addition per mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from assay.state import Specs, Stateful, floats, ints, need

__all__ = ["Votes"]

Array = np.ndarray
CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class Votes(Stateful):
    """Mistakes of all classes one after another: the row's place among the rows kept, the step, the votes after it.

    Those of class k are ends[k] .. ends[k + 1].
    """

    rows: Array
    steps: Array
    votes: Array
    ends: Array

    state: ClassVar[Specs] = {
        "rows": ints("t"),
        "steps": floats("t"),
        "votes": floats("t", low=0),
        "ends": ints("c+1", rising=True),
    }

    def _check_state(self) -> None:
        need(self.ends[0] == 0 and self.ends[-1] == self.rows.size)

    @classmethod
    def of(cls, paths: list[Array], signs: Array, step: float, seen: list[int]) -> tuple[Self, Array]:
        """From the mistakes (row, rows seen before) of each class; also the rows that were ever mistaken."""
        rows = np.concatenate([path[:, 0] for path in paths])
        used = np.unique(rows)
        votes = [np.append(path[1:, 1], last) - path[:, 1] for path, last in zip(paths, seen, strict=True)]
        steps = [step * sign[path[:, 0]] for path, sign in zip(paths, signs, strict=True)]
        ends = np.cumsum([0, *map(len, paths)]).astype(np.int64)
        places = np.searchsorted(used, rows).astype(np.int64)
        return cls(places, np.concatenate(steps), np.concatenate(votes).astype(np.float64), ends), used

    def last(self, size: int) -> Array:
        """The weights of the rows kept after the last mistake, one line per class."""
        out = np.zeros((self.ends.size - 1, size))
        for k, (start, stop) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True)):
            np.add.at(out[k], self.rows[start:stop], self.steps[start:stop])
        return out

    def balance(self, gram: Array) -> Array:
        """Votes for minus votes against, as a share, from the Gram matrix of new rows with the rows kept."""
        out = np.empty((len(gram), self.ends.size - 1))
        for k, (start, stop) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True)):
            rows, steps, votes = self.rows[start:stop], self.steps[start:stop], self.votes[start:stop]
            height = max(1, CELLS // max(1, rows.size))
            for first in range(0, len(gram), height):
                scores = np.cumsum(gram[first : first + height, rows] * steps, axis=1)
                out[first : first + height, k] = np.where(scores > 0, 1.0, -1.0) @ votes / max(1.0, votes.sum())
        return out
