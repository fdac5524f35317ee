"""Excel workbooks, in and out: the first sheet of an .xlsx file as a table, and a table as a sheet that runs nothing.

Needs openpyxl (`pip install 'assay[excel]'`). Formulas are read by the value that Excel stored with them; rows that
are empty throughout are skipped, and a first column without a name may be an index. Text that would be run as a formula
is written with an apostrophe in front.
"""

from __future__ import annotations

import io
import zipfile
from importlib import import_module
from typing import Any

import pandas as pd

from assay.errors import DataError
from assay.experiment.table.spreadsheet import inert
from assay.words import plural

__all__ = ["excel_bytes", "is_workbook", "read_workbook"]

INSTALL = "install it with: pip install 'assay[excel]', or save the sheet as CSV"


def is_workbook(data: bytes) -> bool:
    """Whether bytes are an Excel workbook (.xlsx, .xlsm).

    >>> is_workbook(b"a,b")
    False
    """
    if data[:4] != b"PK\x03\x04":
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except zipfile.BadZipFile:
        return False


def read_workbook(file: str, data: bytes, limit: int) -> tuple[pd.DataFrame, list[str]]:
    """The first sheet as a frame with the names of its first row, and notes; at most `limit` bytes unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > limit:
            raise DataError(f"{file} decompresses to more than {limit} bytes", remedy="save the sheet as CSV")
    openpyxl = _openpyxl(f"{file} is an Excel workbook, which needs the package openpyxl")
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        rows = [row for row in sheet.iter_rows(values_only=True) if any(cell is not None for cell in row)]
    except Exception as error:  # whatever a damaged workbook makes the parser raise
        message = f"{file} is not a valid Excel workbook ({type(error).__name__})"
        raise DataError(message, remedy="save it again, or save the sheet as CSV") from error
    others = [one.title for one in book.worksheets[1:]]
    notes = [f"read the sheet {sheet.title!r}; {plural(len(others), 'other sheet')} ignored"] if others else []
    if not rows:
        raise DataError(f"the sheet {sheet.title!r} of {file} is empty", remedy="put column names in its first row")
    used = [j for j in range(len(rows[0])) if any(j < len(row) and row[j] is not None for row in rows)]
    nameless = next((j for j in used if rows[0][j] is None), None)
    if nameless is not None and [j for j in used if rows[0][j] is None] != [0]:  # one alone is an index without a name
        message = f"column {nameless + 1} of the sheet {sheet.title!r} of {file} has no name"
        raise DataError(message, remedy="put column names in the first row")
    cells = {j: [row[j] if j < len(row) else None for row in rows[1:]] for j in used}
    frame = pd.DataFrame({j: pd.Series(column, dtype=object).infer_objects() for j, column in cells.items()})
    frame.columns = pd.Index(["" if rows[0][j] is None else str(rows[0][j]) for j in used])
    return frame, notes


def excel_bytes(frame: pd.DataFrame) -> bytes:
    """A table as the only sheet of a workbook."""
    openpyxl = _openpyxl("an .xlsx file needs the package openpyxl")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("predictions")
    sheet.append([inert(str(name)) for name in frame.columns])
    plain = frame.astype(object).where(frame.notna(), None)
    for row in plain.itertuples(index=False, name=None):
        sheet.append([inert(cell) for cell in row])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _openpyxl(what: str) -> Any:
    try:
        return import_module("openpyxl")
    except ImportError as error:
        raise DataError(what, remedy=INSTALL) from error
