"""Facts that the checks share, computed once: codes, ranks, missing values, how well one column predicts another.

Every column becomes whole codes (equal cells have equal codes, -1 is a gap; codes of numbers and dates follow their
order) from which distinct values, repeats, ranks and hashes follow without touching the cells again. Predictive power
is that of the plainest rule, judged on rows it has not seen: the other half of the rows gives every level (or narrow
band) of the column its mean or its most frequent class, and levels it lacks get the overall one.

    R2 = 1 - sum (y - yhat)^2 / sum (y - ybar)^2        skill = (accuracy - share of the largest class) / (1 - share)

Cost: a sort per column of numbers, a hash per column of words; everything else is counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["Column", "Target", "auc", "columns_of", "dot", "ranks", "rule_r2", "rule_skill", "spearman", "target_of"]

Array = np.ndarray
BANDS = 500
"""Bands that a column of numbers is cut into at most; ten rows each at least."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column: its kind, its codes, for numbers and dates its values, and for words its levels."""

    name: str
    kind: str
    codes: Array
    levels: int
    values: Array | None = None
    labels: Sequence[Any] = ()

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.codes.size)

    @cached_property
    def counts(self) -> Array:
        """How often each code occurs."""
        return np.bincount(self.codes[self.codes >= 0], minlength=self.levels)

    @cached_property
    def gaps(self) -> Array:
        """Which cells are missing."""
        return self.codes < 0

    @cached_property
    def missing(self) -> int:
        """How many cells are missing."""
        return int(self.gaps.sum())

    @property
    def ordered(self) -> bool:
        """Whether larger codes mean larger values."""
        return self.values is not None

    @cached_property
    def rank(self) -> Array:
        """Mean ranks of the cells that are there, NaN for gaps."""
        after = np.cumsum(self.counts)
        table = np.append(after - 0.5 * (self.counts - 1), np.nan)
        return table[self.codes]

    @cached_property
    def bands(self) -> tuple[Array, int]:
        """Codes with at most a few hundred values: the levels themselves, or bands of equally many rows."""
        wanted = max(1, min(BANDS, (self.n - self.missing) // 10))
        if not self.ordered or self.levels <= wanted:
            return self.codes, self.levels
        cut = (np.nan_to_num(self.rank) - 0.5) * wanted // max(1, self.n - self.missing)
        return np.where(self.gaps, -1, np.clip(cut, 0, wanted - 1)).astype(np.int64), wanted

    @cached_property
    def whole(self) -> bool:
        """Whether it holds whole numbers only."""
        if self.values is None or self.kind == "date":
            return False
        seen = self.values[~self.gaps]
        return bool(seen.size) and bool((seen == np.round(seen)).all())


def columns_of(frame: pd.DataFrame, kinds: Mapping[str, str], leave: frozenset[str]) -> list[Column]:
    """The columns of a frame except those to leave out."""
    found = []
    for name, kind in kinds.items():
        if name in leave:
            continue
        cells = frame[name]
        found.append(_numbers(name, kind, cells) if _is_ordered(cells, kind) else _words(name, kind, cells))
    return found


def _is_ordered(cells: pd.Series, kind: str) -> bool:
    plain = isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "biufM"
    return plain and (kind in ("number", "date", "id"))


def _numbers(name: str, kind: str, cells: pd.Series) -> Column:
    raw = cells.to_numpy()
    if raw.dtype.kind == "M":
        whole = raw.astype("datetime64[ns]").astype(np.int64)
        values = np.where(np.isnat(raw), np.nan, whole.astype(np.float64))
    else:
        values = raw.astype(np.float64)
    order = np.argsort(values, kind="stable")
    seen = values.size - int(np.isnan(values).sum())
    ranked = values[order[:seen]]
    new = np.append(False, ranked[1:] != ranked[:-1]) if seen else np.empty(0, dtype=bool)
    codes = np.full(values.size, -1, dtype=np.int64)
    codes[order[:seen]] = np.cumsum(new)
    return Column(name, kind, codes, int(codes.max(initial=-1)) + 1, values)


def _words(name: str, kind: str, cells: pd.Series) -> Column:
    codes, levels = pd.factorize(cells.to_numpy(dtype=object))
    return Column(name, kind, codes.astype(np.int64), len(levels), labels=list(levels))


@dataclass(frozen=True, eq=False)
class Target:
    """The target of the rows that have one: numbers, or codes of classes with their labels."""

    name: str
    task: str
    codes: Array
    labels: Array
    values: Array | None
    rank: Array

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.codes.size)

    @cached_property
    def counts(self) -> Array:
        """Rows of each class."""
        return np.bincount(self.codes, minlength=len(self.labels))


def target_of(cells: pd.Series, name: str, task: str) -> Target:
    """The target behind its gaps."""
    if task == "regression":
        column = _numbers(name, "number", cells)
        return Target(name, task, column.codes, np.unique(np.asarray(column.values)), column.values, column.rank)
    codes, labels = pd.factorize(cells.to_numpy(dtype=object))
    return Target(name, task, codes.astype(np.int64), np.asarray(labels), None, np.empty(0))


def ranks(values: Array) -> Array:
    """Mean ranks, from 1."""
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1))[codes]


def dot(a: Array, b: Array) -> float:
    """The inner product, on one thread: short products lose more by sharing work than they win."""
    return float(np.einsum("i,i->", a, b))


def spearman(x: Array, y: Array) -> float:
    """The correlation of two columns of ranks; 0 where one does not vary."""
    a, b = x - x.mean(), y - y.mean()
    size = np.sqrt(dot(a, a) * dot(b, b))
    return dot(a, b) / float(size) if size > 0 else 0.0


def auc(rank: Array, positive: Array) -> float:
    """The chance that a positive row ranks above a negative one, ties counting half; 0.5 where one side is empty."""
    m = int(positive.sum())
    rest = positive.size - m
    if m == 0 or rest == 0:
        return 0.5
    return float((rank[positive].sum() - 0.5 * m * (m + 1)) / (m * rest))


def rule_r2(codes: Array, levels: int, y: Array) -> float:
    """R2 of the level's mean, each half of the rows judged by the other one; `codes` and `y` without gaps."""
    centred = y - y.mean()
    total = dot(centred, centred)
    if total == 0:
        return 0.0
    half = np.arange(y.size) % 2 == 0
    loss = 0.0
    for seen, new in ((half, ~half), (~half, half)):
        count = np.bincount(codes[seen], minlength=levels)
        sums = np.bincount(codes[seen], weights=centred[seen], minlength=levels)
        overall = centred[seen].mean() if seen.any() else 0.0
        mean = np.where(count > 0, sums / np.maximum(count, 1), overall)
        error = centred[new] - mean[codes[new]]
        loss += dot(error, error)
    return 1.0 - loss / total


def rule_skill(codes: Array, levels: int, y: Array, classes: int) -> float:
    """Skill of the level's most frequent class, each half of the rows judged by the other one."""
    share = np.bincount(y, minlength=classes).max() / y.size
    if share == 1:
        return 0.0
    half = np.arange(y.size) % 2 == 0
    right = 0
    for seen, new in ((half, ~half), (~half, half)):
        right += int((_majority(codes[seen], levels, y[seen], classes)[codes[new]] == y[new]).sum())
    return (right / y.size - float(share)) / (1.0 - float(share))


def _majority(codes: Array, levels: int, y: Array, classes: int) -> Array:
    """The most frequent class of each level, by sorting pairs: the full table may be far larger than the data."""
    overall = int(np.bincount(y, minlength=classes).argmax()) if y.size else 0
    pairs, counts = np.unique(codes * classes + y, return_counts=True)
    level, label = pairs // classes, pairs % classes
    order = np.lexsort((-label, counts, level))
    best = np.full(levels, overall)
    best[level[order]] = label[order]  # the last one of each level is its largest
    return best
