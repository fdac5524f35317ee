"""What every check shares: the form of a finding, and the facts of the training rows that the rules look at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import DataError
from assay.experiment.checks.profile import Column, Target

__all__ = ["SEVERITIES", "Check", "Facts", "check_names", "idle", "passed", "verb"]

SEVERITIES = ("info", "warning", "serious")


@dataclass(frozen=True)
class Check:
    """One check: what was looked for, whether it was found, and what to do.

    | field    | meaning                                                                  |
    |----------|--------------------------------------------------------------------------|
    | code     | its short name, also its anchor in docs/checks.md                        |
    | title    | what it looks for                                                        |
    | status   | "passed", "found" or "not applicable"                                    |
    | severity | "info", "warning" or "serious": how much it would matter                 |
    | detail   | what was seen, with figures                                              |
    | columns  | the columns concerned                                                    |
    | remedy   | what to do; empty where nothing was found                                |
    | option   | the option of a study that does it, and its values; None: there is none   |
    | anchor   | where it is explained                                                    |
    """

    code: str
    title: str
    status: str
    severity: str
    detail: str
    columns: tuple[str, ...] = ()
    remedy: str = ""
    option: tuple[str, tuple[str, ...]] | None = None

    @property
    def anchor(self) -> str:
        """Where the check is explained."""
        return f"docs/checks.md#{self.code}"


@dataclass(frozen=True, eq=False)
class Facts:
    """The training rows as the rules see them."""

    columns: list[Column]
    target: Target
    absent: int
    n_folds: int
    group: str | None
    time: str | None
    level: float
    n_test: int | None
    test_groups: int | None = None
    train_groups: int | None = None
    metric: str | None = None
    margin: float | None = None
    left_out: tuple[int, int] = (0, 0)
    reasons: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[Column] = ()
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.target.n

    @cached_property
    def used(self) -> list[Column]:
        """Columns that vary and are not identifiers."""
        return [column for column in self.columns if column.kind != "id" and column.levels > 1]

    @cached_property
    def keys(self) -> dict[str, bytes]:
        """A digest of each column's content: equal for copies, for relabelled categories and for changes of unit."""
        return {column.name: _key(column) for column in self.used}


def passed(code: str, title: str, severity: str, detail: str) -> Check:
    """A check that found nothing."""
    return Check(code, title, "passed", severity, detail)


def idle(code: str, title: str, severity: str, why: str) -> Check:
    """A check that does not apply."""
    return Check(code, title, "not applicable", severity, why)


def verb(names: Sequence[str] | int, one: str, many: str) -> str:
    """The form of a verb that fits the number of names."""
    count = names if isinstance(names, int) else len(names)
    return one if count == 1 else many


def _key(column: Column) -> bytes:
    if column.ordered and (column.levels > 2):
        values = np.asarray(column.values)
        centred = values - np.nanmean(values)
        spread = np.nanmax(np.abs(centred))
        first = centred[np.flatnonzero(~column.gaps & (np.abs(centred) > 1e-6 * spread))[0]]
        # One sign, one unit, nine digits: a copy in another unit differs only beyond them. The zero keeps -0 out.
        canon = np.nan_to_num(np.round(centred / (spread * np.sign(first)), 9), nan=9.0) + 0.0
        return b"n" + hashlib.blake2b(canon.tobytes(), digest_size=16).digest()
    if column.levels > 0.5 * column.n:
        # All different: every such column divides the rows in the same way, and only the cells could tell.
        return b"u" + column.name.encode()
    _, first_seen = np.unique(column.codes, return_index=True)
    place = np.empty(first_seen.size + 1, dtype=np.int64)
    place[np.argsort(first_seen, kind="stable")] = np.arange(first_seen.size)
    shifted = column.codes - (column.codes.min(initial=0))
    return b"c" + hashlib.blake2b(place[shifted].tobytes() + bytes([column.missing > 0]), digest_size=16).digest()


def check_names(frame: Any, kinds: Mapping[str, str], wanted: list[str]) -> None:
    """Raise an error unless the rows are a data frame with at least one row and the named columns."""
    if not isinstance(frame, pd.DataFrame):
        raise DataError("the training rows are not a data frame", remedy="pass the frame of read_table(...)")
    if len(frame) == 0:
        raise DataError("there are no training rows", remedy="pass at least one row")
    for name in [*wanted, *kinds]:
        if name not in frame.columns:
            raise DataError(
                f"the table has no column {name!r}", remedy="check the name, and that `kinds` matches the table"
            )
