"""Splits that run through partitions of the rows, so that a training set's summary is the merge of the other folds'.

Cost: one pass over the row numbers of all training sets, on all cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel

__all__ = ["Partition", "Splits", "partitions_of", "row_numbers"]

Array = np.ndarray
Splits = Sequence[tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Partition:
    """One repeat: the fold of each row, and how many folds there are."""

    fold: Array
    size: int

    def rows(self) -> list[Array]:
        """The rows of each fold, ascending."""
        # Sixteen bits are sorted by counting, in a fifth of the time.
        keys = self.fold.astype(np.uint16) if self.size <= 1 << 16 else self.fold
        order = np.argsort(keys, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.fold, minlength=self.size))[:-1])


def row_numbers(chosen: Any) -> Array:
    """Row numbers as int64, also where a mask was given; what is no row number stays as it is.

    | parameter | range                  | meaning             |
    |-----------|------------------------|---------------------|
    | chosen    | row numbers, or a mask | one side of a split |

    >>> row_numbers([True, False, True]).tolist(), row_numbers([2, 0]).tolist()
    ([0, 2], [2, 0])
    """
    chosen = np.asarray(chosen)
    if chosen.dtype == bool:
        return np.flatnonzero(chosen)
    return np.ascontiguousarray(chosen, dtype=np.int64) if chosen.dtype.kind in "iu" else chosen


def partitions_of(pairs: list[tuple[Array, Array]], n: int) -> list[Partition] | None:
    """The repeats that the splits run through, or None where the tests do not share out the rows again and again.

    | parameter | range                                | meaning                |
    |-----------|--------------------------------------|------------------------|
    | pairs     | (train, test) of row numbers (int64) | one fold after another |
    | n         | whole number                         | rows of the table      |

    >>> one = partitions_of([(np.array([2, 3]), np.array([0, 1])), (np.array([0, 1]), np.array([2, 3]))], 4)
    >>> [(part.fold.tolist(), part.size) for part in one or []]
    [([0, 0, 1, 1], 2)]
    """
    partitions: list[Partition] = []
    work: list[tuple[Array, list[Array]]] = []
    start = covered = 0
    for at, (train, test) in enumerate(pairs):
        numbers = all(rows.dtype.kind in "iu" and rows.ndim == 1 for rows in (train, test))
        if not numbers or train.size + test.size != n or not test.size:
            return None
        covered += test.size
        if covered < n:
            continue
        block = pairs[start : at + 1]
        fold = _fold_of_rows([test for _, test in block], n) if covered == n else None
        if fold is None:
            return None
        partitions.append(Partition(fold, len(block)))
        work.append((fold, [train for train, _ in block]))
        start, covered = at + 1, 0
    if covered or not partitions or any(part.size < 2 for part in partitions):
        return None
    fine = parallel(_complementary, work, n_jobs=-1, work=float(n) * len(pairs))
    return partitions if all(fine) else None


def _fold_of_rows(tests: list[Array], n: int) -> Array | None:
    fold = np.full(n, -1, dtype=np.int64)
    for k, test in enumerate(tests):
        if test.min() < 0 or test.max() >= n:
            return None
        fold[test] = k
    return fold if fold.min() >= 0 else None


def _complementary(task: tuple[Array, list[Array]]) -> bool:
    """Whether each training set is all rows outside its fold, each once (their number is known to be right)."""
    fold, trains = task
    seen = np.full(fold.size, -1, dtype=np.int64)
    return all(_is_rest(train, fold, k, seen) for k, train in enumerate(trains))


@kernel
def _is_rest(train: Array, fold: Array, k: int, seen: Array) -> bool:
    n = fold.size
    for at in range(train.size):
        i = train[at]
        if i < 0 or i >= n or fold[i] == k or seen[i] == k:
            return False
        seen[i] = k
    return True
