"""Text files as columns of text cells: decode, find the separator, parse, and say which line is wrong.

The text is decoded as UTF-8, by its byte-order mark, or else as Windows-1252 with a note. The separator is the one of
, ; tab | that splits the first records into equally many fields, more than one. Arrow parses, every cell as text: what
is a number is decided later. The names are read as the first row, since they may repeat, be empty or span lines.
Cost: one pass over the bytes to decode, one to parse. RFC 4180 (2005) is the dialect.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from assay.errors import DataError

__all__ = ["Parsed", "first_line", "parse_text"]

SEPARATORS = (",", ";", "\t", "|")
SAMPLE = 1 << 16
"""So many characters are looked at to find the separator."""
DECIMAL_COMMA = re.compile(
    r"[+-]?([0-9]{1,3}(\.[0-9]{3})+,[0-9]+|0,[0-9]+|[0-9]+,[0-9]{1,2}|[0-9]+,[0-9]{4,}|[0-9]{4,},[0-9]+)"
)
"""A decimal comma beyond doubt: 1,234 could also be a thousand and some."""


@dataclass(frozen=True)
class Parsed:
    """The names and columns of a text file, whether rows are lines, and how it was read."""

    labels: list[str]
    columns: list[Any]
    rows: int
    decimal_comma: bool
    lines: bool
    notes: list[str]


def parse_text(file: str, data: bytes, separator: str | None) -> Parsed:
    """The columns of a text file; `separator` is None where it has to be found."""
    data, notes = _decode(data, file)
    head = data[: 64 * SAMPLE].decode("utf-8", "ignore")
    if re.match(r"\s*(<!doctype|<html|<\?xml)", head[:1000], re.IGNORECASE):
        raise DataError(f"{file} is a web page or XML, not a table", remedy="download the table itself")
    found, sample = _separator(head, separator)
    table = _parse(file, data, found, sample)
    if table.num_rows == 0 or table.num_columns == 0:
        raise DataError(f"{file} is empty", remedy="pass a table with column names in its first line")
    labels = [_cell(column) for column in table.columns]
    columns = [column.slice(1) for column in table.columns]
    rows = table.num_rows - 1
    breaks = data.count(b"\n") or data.count(b"\r")
    # Only where every line is a row does a line number say the same as a row number.
    lines = rows in (breaks - 1, breaks) and not data.startswith((b"\n", b"\r"))
    cells = [cell.strip() for record in sample[1:] for cell in record] if found != "," else []
    comma = any(DECIMAL_COMMA.fullmatch(cell) for cell in cells)
    if comma:
        notes.append("numbers are written with a decimal comma")
    if found != (separator or ","):
        notes.append(f"columns are separated by {_NAMES[found]}")
    return Parsed(labels, columns, rows, comma, lines, notes)


_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def _cell(column: Any) -> str:
    value = column[0].as_py()
    return "" if value is None else str(value)


_MARKS = (
    *((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32")),
    *((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")),
)


def _decode(data: bytes, file: str) -> tuple[bytes, list[str]]:
    """The same text in UTF-8 without a byte-order mark; a line that holds NUL is refused."""
    notes: list[str] = []
    encoding = next((code for mark, code in _MARKS if data.startswith(mark)), None)
    if encoding:
        try:
            data = data.decode(encoding).encode("utf-8")
        except UnicodeError as error:
            raise DataError(f"{file} is not valid {encoding.upper()} text", remedy="save it as UTF-8") from error
        notes.append(f"the text was {encoding.upper()}")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if (at := data.find(b"\x00")) >= 0:
        line = data.count(b"\n", 0, at) + 1
        message = f"{file} has a NUL byte in line {line}, so it is not plain text"
        raise DataError(message, remedy="save it as UTF-8 text, or correct that line")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        try:
            data = data.decode("cp1252").encode("utf-8")
        except UnicodeDecodeError:
            data = data.decode("latin-1").encode("utf-8")
        notes.append(f"line {line} is not UTF-8, so the text was read as latin-1 (Windows-1252)")
    return data, notes


def _separator(head: str, fixed: str | None) -> tuple[str, list[list[str]]]:
    """The separator that splits the first records best, and those records."""
    best, chosen, sample = (-1.0, 0), fixed or ",", list(_records(head, fixed or ","))
    for candidate in [] if fixed else SEPARATORS:
        records = list(_records(head, candidate))
        width = len(records[0]) if records else 0
        if width < 2:
            continue
        agree = sum(len(record) == width for record in records) / len(records)
        # A stray comma in a sentence must not beat semicolons that split every line alike.
        if (round(agree, 2), width) > best:
            best, chosen, sample = (round(agree, 2), width), candidate, records
    return chosen, sample


def _records(head: str, separator: str) -> Iterator[list[str]]:
    """The first records, as many as SAMPLE characters hold and at least one; none where they cannot be told."""
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    seen, cut = 0, len(head) >= 64 * SAMPLE
    try:
        held = None
        for record in reader:
            if held:
                yield held
            held = record
            seen += sum(map(len, record)) + len(record)
            if seen > SAMPLE:
                break
        if held and not (cut and seen <= SAMPLE):
            yield held
    except csv.Error:  # a huge cell, or a lone carriage return inside a line
        return


def _parse(file: str, data: bytes, separator: str, sample: list[list[str]]) -> Any:
    width = len(sample[0]) if sample else 0
    first = data.find(b"\n") if b"\n" in data else len(data)
    width = max(width, data.count(separator.encode(), 0, first) + 1)
    block = min(max(1 << 20, 64 * first), 1 << 30)
    bad: list[Any] = []
    try:
        try:
            table = _arrow_parse(data, separator, width, block, bad)
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error):
                raise
            bad.clear()  # one line is longer than a block
            table = _arrow_parse(data, separator, width, min(len(data) + 1, (1 << 31) - 2), bad)
    except pa.ArrowException as error:
        if "Empty CSV" in str(error):
            if sample and any(sample[0]):
                raise _no_rows(file) from error
            raise DataError(f"{file} is empty", remedy="pass a table with column names in its first line") from error
        remedy = "open it in a text editor and look for an unclosed quote"
        raise DataError(f"{file} cannot be parsed: {first_line(error)}", remedy=remedy) from error
    if bad:
        raise _ragged(file, data, separator, table.num_columns, bad)
    if table.num_rows == 1:
        raise _no_rows(file)
    return table


def _no_rows(file: str) -> DataError:
    return DataError(f"{file} has column names but no rows", remedy="pass a table with at least one row")


def _arrow_parse(data: bytes, separator: str, width: int, block: int, bad: list[Any]) -> Any:
    def keep(row: Any) -> str:
        bad.append((row.expected_columns, row.actual_columns, row.text))
        return "skip"

    return arrow_csv.read_csv(
        pa.BufferReader(data),
        # Names are read as the first row: they may repeat, be empty, or span lines.
        read_options=arrow_csv.ReadOptions(autogenerate_column_names=True, block_size=block),
        parse_options=arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=b'"' in data, invalid_row_handler=keep
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={f"f{j}": pa.string() for j in range(width)}, null_values=[""], strings_can_be_null=True
        ),
    )


def _ragged(file: str, data: bytes, separator: str, width: int, bad: list[Any]) -> DataError:
    """The first line with another number of fields than the names have."""
    line, fields = None, bad[0][1]
    before, text = 0, data.decode("utf-8")
    if text.count('"') % 2:
        message = f"{file} has a quote that is opened and never closed"
        return DataError(message, remedy='close it, or write a quote inside a cell as ""')
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        for record in reader:
            if record and len(record) != width:
                line, fields = before + 1, len(record)
                break
            before = reader.line_num
    except csv.Error:
        line = None
    where = f"line {line}" if line else f"the line {bad[0][2][:40]!r}"
    message = f"{file} has {fields} {'field' if fields == 1 else 'fields'} in {where} but {width} column names"
    remedy = "correct that line, and put cells that contain the separator in quotes"
    return DataError(message, remedy=remedy)


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    lines = str(error).strip().splitlines()
    return (lines[0].strip().rstrip(".")[:200] if lines else "") or type(error).__name__
