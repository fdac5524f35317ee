"""A table from a file or a frame, and for every column what it holds and why.

Everything passes through Arrow: CSV, TSV, Parquet, Arrow IPC and Feather files (compressed too), and pandas, polars or
pyarrow tables. Cells become numbers only by rules that can be defended: "inf", "nan", "1e999", "0x1F", "1_000" and
"1,000" never do. The kinds (number, category, date, text, id) are inferred by the rules written down in `_kinds.py`
and given with their reason; `kinds=` overrides them. What had to be repaired is listed in `notes`, and what cannot be
read is refused in one sentence with the line and the remedy. Cost: one parse of the file and one cast per column.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import DataError, ParameterError
from assay.experiment.table.kinds import KINDS, settle
from assay.experiment.table.reading import Raw, read_source
from assay.results import Result
from assay.words import plural, printable

__all__ = ["EVERY", "KINDS", "Table", "nearest", "read_table"]

EVERY = "*"
"""Stands for every column in the rules for missing values."""


@dataclass(frozen=True, eq=False, repr=False)
class Table(Result):
    """A table with what each column was taken for, and why.

    | field   | meaning                                                                                            |
    |---------|----------------------------------------------------------------------------------------------------|
    | frame   | the cells: int64 or float64 numbers, datetime64[ns] dates, text as objects with None where missing |
    | kinds   | by column: number, category, date, text or id                                                      |
    | reasons | by column: why, in a clause, and which cells were read as missing                                  |
    | name    | the name of the file, or "frame"                                                                   |
    | notes   | what was repaired or should be known: encoding, separator, names that were changed                 |
    | missing | by column with missing cells: the texts that were read as missing and how often, "" for empty ones |
    | gaps    | by column where they are not the usual ones: the texts that are read as missing                    |
    | units   | by column where every cell has one: the unit beside the number, as "$" or "kg"                     |
    | commas  | of each of these columns: whether the comma is its decimal separator                               |
    | row_numbers | of each row where some were left out: its number in the source, from 1; None: all are there    |

    >>> import pandas as pd
    >>> print(read_table(pd.DataFrame({"size": [1.5, 2, None], "colour": ["red", "blue", "red"]})))
    frame: 3 rows, 2 columns
      column  kind      missing  reason
      size    number          1  numbers from 1.5 to 2
      colour  category        0  text, 2 levels
    """

    frame: pd.DataFrame
    kinds: dict[str, str]
    reasons: dict[str, str]
    name: str = "frame"
    notes: tuple[str, ...] = ()
    missing: dict[str, dict[str, int]] = field(default_factory=dict)
    gaps: dict[str, list[str]] = field(default_factory=dict)
    row_numbers: np.ndarray | None = None
    units: dict[str, str] = field(default_factory=dict)
    commas: dict[str, bool] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """One row per column: its kind, how many cells are missing, and why it was taken for that kind."""
        missing = self.frame.isna().to_numpy().sum(axis=0)
        columns = {"kind": self.kinds.values(), "missing": missing, "reason": self.reasons.values()}
        shown = pd.DataFrame({key: list(value) for key, value in columns.items()}, index=list(self.kinds))
        return shown.rename_axis("column")

    def __str__(self) -> str:
        rows, width = self.frame.shape
        facts = self.to_frame()
        shown = [(name, *row) for name, row in zip(facts.index, facts.itertuples(index=False), strict=True)]
        cells = [("column", "kind", "missing", "reason"), *((_cut(a), b, str(c), _cut(d, 90)) for a, b, c, d in shown)]
        more = len(cells) - 61
        if more > 0:
            cells = cells[:61]
        wide = [max(len(cell[j]) for cell in cells) for j in range(3)]
        lines = [f"  {a:<{wide[0]}}  {b:<{wide[1]}}  {c:>{wide[2]}}  {d}" for a, b, c, d in cells]
        if more > 0:
            lines.append(f"  ... and {more} more columns: {_tally(self.kinds)}")
        head = f"{self.name}: {plural(rows, 'row')}, {plural(width, 'column')}"
        return "\n".join([head, *lines, *(f"note: {note}" for note in self.notes)])


def _cut(text: str, width: int = 40) -> str:
    plain = printable(text)
    return plain if len(plain) <= width else plain[: width - 3] + "..."


def _tally(kinds: Mapping[str, str]) -> str:
    counts = Counter(kinds.values())
    return ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])


def read_table(
    source: Any,
    *,
    kinds: Mapping[str, str] | None = None,
    target: str | None = None,
    missing: Mapping[str, Sequence[str]] | None = None,
    unused: Container[str] = (),
    commas: Mapping[str, bool] | None = None,
) -> Table:
    """Read a table and say what each column holds.

    | parameter | default | range                                      | meaning                                      |
    |-----------|---------|--------------------------------------------|----------------------------------------------|
    | source    |         | a path, or a pandas, polars, pyarrow table | where the table is                           |
    | kinds     | None    | column -> number, category, date, text, id | kinds that are known better than inferred    |
    | target    | None    | a column name                              | never taken for an id or text; must be there |
    | missing   | None    | column -> texts                            | read as missing; "*": in every other column  |
    | unused    | ()      | column names                               | these may hold anything, such as lists       |
    | commas    | None    | column -> True, False                      | how numbers with a unit are known to be read |

    A wanted kind that a cell does not allow is refused with the column and the place of that cell. RFC 4180 (2005).

    >>> import pandas as pd
    >>> table = read_table(pd.DataFrame({"zip": [10115, 20095], "rent": [14.5, 12.0]}), kinds={"zip": "category"})
    >>> table.kinds
    {'zip': 'category', 'rent': 'number'}
    >>> list(table.frame["zip"])
    ['10115', '20095']
    """
    wanted = _check_kinds(kinds)
    raw = read_source(source)
    if not raw.labels:
        raise DataError(f"{raw.name} has no columns", remedy="pass a table with at least one column")
    if raw.rows == 0:
        raise DataError(f"{raw.name} has column names but no rows", remedy="pass a table with at least one row")
    names, notes = _names(raw)
    rules = {str(name): frozenset(str(text).strip() for text in texts) for name, texts in (missing or {}).items()}
    usual = rules.pop(EVERY, None)
    for name in [*wanted, *([target] if target is not None else []), *rules]:
        if name not in names:
            raise DataError(f"{raw.name} has no column {name!r}", remedy=nearest(name, list(names)))
    found = {
        name: settle(
            column,
            name,
            raw,
            wanted.get(name),
            target=name == target,
            unused=name in unused,
            gaps=rules.get(name, usual),
            comma=(commas or {}).get(name),
        )
        for name, column in zip(names, raw.columns, strict=True)
    }
    frame = _frame({name: column.values for name, column in found.items()}, raw.rows)
    if target is not None:
        notes += _check_target(frame[target], target, raw)
    kinds_found = {name: column.kind for name, column in found.items()}
    reasons = {name: column.reason for name, column in found.items()}
    texts = {name: column.missing for name, column in found.items() if column.missing}
    gaps = {name: sorted(column.gaps) for name, column in found.items() if column.gaps is not None}
    units = {name: column.unit for name, column in found.items() if column.unit}
    signs = {name: column.comma for name, column in found.items() if column.comma is not None}
    return Table(frame, kinds_found, reasons, raw.name, tuple(notes), texts, gaps, units=units, commas=signs)


def _check_kinds(kinds: Mapping[str, str] | None) -> dict[str, str]:
    wanted = {}
    for name, kind in (kinds or {}).items():
        if kind not in KINDS:
            remedy = f"choose one of {', '.join(KINDS)}"
            raise ParameterError(f"unknown kind {kind!r} for column {name!r}", remedy=remedy)
        wanted[unicodedata.normalize("NFC", str(name))] = str(kind)
    return wanted


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy for an unknown name: the known one most like it, or the first few."""
    names = list(known)
    close = get_close_matches(name, names[:2000], n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(repr(_cut(known)) for known in names[:8])
    return f"its columns are {shown}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _names(raw: Raw) -> tuple[dict[str, None], list[str]]:
    """Unique names, NFC, without surrounding blanks or line breaks; every change is noted."""
    notes, changed = list(raw.notes), []
    names: dict[str, None] = {}
    counts: Counter[str] = Counter()
    tidy = [" ".join(unicodedata.normalize("NFC", label).split()) for label in raw.labels]
    taken = set(tidy)
    repeated, nameless = [], []
    for j, (label, name) in enumerate(zip(raw.labels, tidy, strict=True)):
        if name != label and name:
            changed.append(name)
        if not name:
            name = _free(f"column_{j + 1}", taken)
            nameless.append(name)
        elif name in names:
            counts[name] += 1
            name = _free(f"{name}_{counts[name] + 1}", taken)
            repeated.append(name)
        taken.add(name)
        names[name] = None
    for what, group in (
        ("whitespace in column names was removed", changed),
        ("columns without a name were named", nameless),
        ("duplicate column names were renamed", repeated),
    ):
        if group:
            more = f" and {len(group) - 5} more" if len(group) > 5 else ""
            notes.append(f"{what}: {', '.join(repr(_cut(name)) for name in group[:5])}{more}")
    if raw.text and all(_is_number(name) for name in tidy if name) and any(tidy):
        notes.append("the first line has only numbers but was read as column names; add a header line if they are data")
    return names, notes


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _frame(columns: dict[str, Any], rows: int) -> pd.DataFrame:
    # Series of objects keep their type; left to itself pandas would make its own kind of text of them.
    parts = {
        name: pd.Series(values, dtype=object, copy=False) if values.dtype == object else values
        for name, values in columns.items()
    }
    return pd.DataFrame(parts, index=pd.RangeIndex(rows), copy=True)


def _check_target(column: pd.Series, target: str, raw: Raw) -> list[str]:
    missing = int(np.asarray(column.isna()).sum())
    if missing == len(column):
        remedy = "choose another target"
        raise DataError(f"the target {target!r} of {raw.name} is missing in every row", remedy=remedy)
    return [f"the target {target!r} is missing in {missing} of {len(column)} rows"] if missing else []
