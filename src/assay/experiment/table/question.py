"""The tables of a question: the rows that have a target, and every column that the question names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.errors import DataError
from assay.experiment.table.kinds import ID_NAME, MISSING
from assay.experiment.table.table import EVERY, Table, nearest, read_table
from assay.experiment.table.units import same_unit
from assay.words import plural

__all__ = ["read_parts", "refuse_other_units"]


def read_parts(
    source: Any,
    test: Any,
    target: str,
    *,
    kinds: Mapping[str, str] | None = None,
    group: str | None = None,
    time: str | None = None,
    drop: tuple[str, ...] = (),
    missing: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Table, Table | None, list[str]]:
    """The table, the test rows that someone else made (None: there are none), and what should be known of both.

    Rows without a target are left out; a table that cannot answer the question is refused.

    >>> import pandas as pd
    >>> table, given, notes = read_parts(pd.DataFrame({"x": [1, 2, 3], "y": [1.0, None, 2.5]}), None, "y")
    >>> len(table.frame), given, notes[-1]
    (2, None, '1 row without a target was left out')
    """
    table = read_table(source, kinds=kinds, target=target, missing=missing, unused=drop)
    rules = {EVERY: MISSING, **(missing or {}), **table.gaps}  # the test rows are read as the others were
    given = None
    if test is not None:
        given = read_table(test, kinds=kinds, target=target, missing=rules, unused=drop, commas=table.commas)
        refuse_other_units(table.units, given, set(table.frame.columns) - set(drop))
    notes = list(table.notes)
    table = _with_target(table, target, notes)
    given = None if given is None else _with_target(given, target, notes)
    _refuse_columns(table, given, group, time)
    _refuse_dropped(table, target, time, drop)
    kept = _only_columns(table, (target, group, time, *drop), time is not None, kinds or {}, notes)
    if kept:
        table = replace(table, kinds={**table.kinds, **kept})
        given = None if given is None else replace(given, kinds={**given.kinds, **kept})
    return table, given, notes


def refuse_other_units(known: Mapping[str, str], table: Table, names: Collection[str]) -> None:
    """Refuse a table that has one of these columns in another unit than it was known in."""
    for name, unit in table.units.items():
        if name in names and not same_unit(known.get(name, ""), unit):
            was = f"was {known[name]!r}" if name in known else "had none"
            message = f"column {name!r} of {table.name} has the unit {unit!r}, but {was} in the training rows"
            remedy = "convert it to that unit" if name in known else "write it as plain numbers, as they were there"
            raise DataError(message, remedy=remedy)


def _only_columns(
    table: Table, roles: tuple[str | None, ...], timed: bool, wanted: Mapping[str, str], notes: list[str]
) -> dict[str, str]:
    """Kinds of columns that look like row numbers, but are all there is to learn from: they are numbers then.

    Refused where nothing but identifiers is left.
    """
    features = [name for name in table.frame.columns if name not in roles]
    if any(table.kinds[name] != "id" and table.frame[name].nunique(dropna=False) > 1 for name in features):
        return {}
    ids = [name for name in features if table.kinds[name] == "id" and name not in wanted]
    if not ids or timed:
        return {}
    numbers = [name for name in ids if table.frame[name].dtype.kind in "iuf" and not ID_NAME.search(name)]
    if numbers:
        looks = "looks like a row number" if len(numbers) == 1 else "look like row numbers"
        named = f"{', '.join(repr(name) for name in numbers)} {looks}"
        notes.append(f"{named}, but no other column varies, so it is used as a number")
        return dict.fromkeys(numbers, "number")
    message = f"no columns are left to learn from: {ids[0]!r} looks like an identifier ({table.reasons[ids[0]]})"
    kind = "number" if table.frame[ids[0]].dtype.kind in "iuf" else "category"
    option = ("kind", f"{ids[0]}={kind}")
    raise DataError(message, remedy="if it is a measurement, set its kind", option=option)


def _with_target(table: Table, target: str, notes: list[str]) -> Table:
    if target not in table.frame.columns:
        known = ", ".join(repr(name) for name in list(table.frame.columns)[:8])
        raise DataError(f"{table.name} has no column {target!r}", remedy=f"choose the target from {known}")
    there = table.frame[target].notna().to_numpy()
    if there.all():
        return table
    if not there.any():
        raise DataError(f"the target {target!r} is missing in every row", remedy="choose another target")
    missing = int((~there).sum())
    text = f"{plural(missing, 'row')} without a target {'was' if missing == 1 else 'were'} left out"
    if text not in notes:
        notes.append(text)
    frame = table.frame.loc[there].reset_index(drop=True)
    return replace(table, frame=frame, row_numbers=np.flatnonzero(there) + 1)


def _refuse_dropped(table: Table, target: str, time: str | None, drop: tuple[str, ...]) -> None:
    for name in drop:
        if name not in table.frame.columns:
            raise DataError(f"cannot drop {name!r}: {table.name} has no such column", remedy=nearest(name, table.kinds))
        if name == target:
            raise DataError(f"the target {name!r} cannot be dropped", remedy="choose another column")
    if not set(table.frame.columns) - {target, time, *drop}:
        raise DataError("no column is left to learn from", remedy="drop fewer columns")


def _refuse_columns(table: Table, test: Table | None, group: str | None, time: str | None) -> None:
    for role, name in (("group", group), ("time", time)):
        if name is not None and name not in table.frame.columns:
            raise DataError(f"unknown column {name!r} for {role}", remedy="check its name")
    if test is None and len(table.frame) < 2:
        message = f"{table.name} has {plural(len(table.frame), 'row')} with a target, too few to set test rows aside"
        raise DataError(message, remedy="add rows, or pass the test rows as a separate file")
    if len(table.frame.columns) < 2:
        raise DataError("the table has no column besides the target", remedy="add columns to predict it from")
    if test is not None:
        missing = [name for name in table.frame.columns if name not in test.frame.columns]
        if missing:
            raise DataError(
                f"the test file has no column {missing[0]!r}", remedy="give it the same columns as the table"
            )
