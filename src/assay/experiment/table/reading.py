"""From a file or a frame to named columns of Arrow cells; nothing is interpreted here except bytes.

A file is unpacked (gzip, bzip2, xz, zstd, zip, told by its first bytes), up to a bound so that a bomb cannot fill the
memory, and handed to the reader of its format: Parquet, Arrow IPC (file or stream), Feather, or text. A frame is taken
column by column, as is the first sheet of an Excel workbook (`excel.py`); a column of mixed objects becomes text. Cost:
one pass over the bytes.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as arrow_feather
import pyarrow.ipc as arrow_ipc
import pyarrow.parquet as arrow_parquet

from assay.errors import DataError, DataTypeError
from assay.experiment.table.excel import is_workbook, read_workbook
from assay.experiment.table.parsing import first_line, parse_text
from assay.numbers import fmt

__all__ = ["Raw", "pandas_column", "read_source"]

TEXT_ENDINGS = {".csv": None, ".txt": None, ".tsv": "\t", ".tab": "\t"}
ARROW_ENDINGS = (".arrow", ".feather", ".ipc")
PACKED_ENDINGS = (".gz", ".bz2", ".xz", ".zst", ".zip")
FORMATS = "CSV, TSV, Excel, Parquet or Arrow, also compressed with gzip, bzip2, xz, zstd or zip"
ROOM = 1 << 30
"""A packed file may always unfold to this many bytes, and beyond that to a hundred times its own size."""
_DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError)


@dataclass(frozen=True)
class Raw:
    """Columns as they stand in the source, their names as they stand there, and what had to be repaired."""

    name: str
    labels: list[str]
    columns: list[Any]
    rows: int
    text: bool = False
    decimal_comma: bool = False
    lines: bool = False
    notes: list[str] = field(default_factory=list)

    def place(self, row: int) -> str:
        """Where a row stands: its line in a plain text file, its number from 0 otherwise."""
        return f"line {row + 2}" if self.lines else f"row {row}"


def read_source(source: Any) -> Raw:
    """The columns of a path or a frame."""
    if isinstance(source, str | Path):
        return _read_path(Path(source))
    if isinstance(source, Raw):
        return source
    if isinstance(source, pd.DataFrame):
        return _from_pandas(source)
    if isinstance(source, pd.Series):  # Arrow would take its cells for a column, or fail
        raise DataTypeError("expected a table, got a Series", remedy="pass one row as frame.iloc[[0]]")
    table = _as_arrow(source)
    return Raw("frame", [str(label) for label in table.column_names], table.columns, table.num_rows)


def _as_arrow(source: Any) -> Any:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    try:
        if hasattr(source, "collect") and hasattr(source, "collect_schema"):
            source = source.collect()  # a lazy polars frame
        if hasattr(source, "to_arrow"):
            found = source.to_arrow()
            if isinstance(found, pa.Table):
                return found
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
        if hasattr(source, "__dataframe__"):
            return pa.interchange.from_dataframe(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"the {type(source).__name__} cannot be read: {first_line(error)}") from error
    message = f"expected a table, got a {type(source).__name__}"
    raise DataTypeError(message, remedy="pass a path, or a pandas, polars or pyarrow table with named columns")


# Frames.


def _from_pandas(frame: pd.DataFrame) -> Raw:
    notes = []
    if any(name is not None for name in frame.index.names):
        notes.append("the index of the data frame was ignored; use reset_index() to make it a column")
    labels = [str(label) if isinstance(label, str) else _word(label) for label in frame.columns]
    columns = [pandas_column(frame.iloc[:, j], labels[j]) for j in range(frame.shape[1])]
    return Raw("frame", labels, columns, len(frame), notes=notes)


def _word(label: Any) -> str:
    return " ".join(str(part) for part in label) if isinstance(label, tuple) else str(label)


def pandas_column(column: pd.Series, label: str) -> Any:
    """The cells of a pandas column as an Arrow array; `label` names it in errors."""
    dtype = column.dtype
    kind = getattr(dtype, "kind", "O")
    if kind == "c":
        remedy = "split it into real and imaginary parts"
        raise DataTypeError(f"column {label!r} contains complex numbers", remedy=remedy)
    if isinstance(dtype, pd.SparseDtype):
        column = pd.Series(np.asarray(column))
    try:
        array = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        array = _as_words(column, label)
    if isinstance(array, pa.ExtensionArray):
        array = _as_words(column, label)
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _as_words(column: pd.Series, label: str) -> Any:
    """A column of mixed objects: each cell as the text it prints as, gaps kept."""
    values = column.astype(object).to_numpy()
    missing = np.asarray(pd.isna(values)) if len(values) else np.zeros(0, dtype=bool)
    if missing.ndim != 1:
        missing = np.zeros(len(values), dtype=bool)
    for row, value in enumerate(values):
        if isinstance(value, list | tuple | dict | set | np.ndarray):
            message = f"column {label!r} contains a {type(value).__name__} in row {row}"
            raise DataTypeError(message, remedy="split it into separate columns, or drop the column")
    words = [None if gap else str(value) for value, gap in zip(values, missing, strict=True)]
    try:
        return pa.array(words, type=pa.string())
    except (pa.ArrowException, UnicodeError) as error:
        row = next((i for i, word in enumerate(words) if word is not None and not _encodes(word)), 0)
        message = f"column {label!r} contains text that is not valid Unicode in row {row}"
        raise DataError(message, remedy="correct that cell") from error


def _encodes(word: str) -> bool:
    try:
        word.encode("utf-8")
    except UnicodeError:
        return False
    return True


# Files.


def _read_path(path: Path) -> Raw:
    data, name = _bytes_of(path), path.name
    if not is_workbook(data):  # which is a zip archive itself
        data, name = _unpack(data, name)
    if is_workbook(data):
        frame, notes = read_workbook(path.name, data, max(ROOM, 100 * len(data)))
        found = _from_pandas(frame)
        # A sheet is typed cell by cell: one "n/a" makes words of a column of numbers, and nobody chose that.
        return replace(found, name=path.name, text=True, notes=[*notes, *found.notes])
    ending = Path(name).suffix.lower()
    if not data[:4096].strip() and not data.strip():
        raise DataError(f"{path.name} is empty", remedy="pass a table with column names in its first line")
    if data[:4] == b"PAR1" or ending == ".parquet":
        return _from_table(path.name, "Parquet", data)
    if data[:6] == b"ARROW1" or data[:4] == b"FEA1" or ending in ARROW_ENDINGS:
        return _from_table(path.name, "Arrow", data)
    if ending not in TEXT_ENDINGS:
        message = f"{path.name}: unknown format {ending!r}" if ending else f"{path.name}: no file extension"
        raise DataError(f"{message}", remedy=f"save the table as {FORMATS}")
    parsed = parse_text(path.name, data, TEXT_ENDINGS[ending])
    return Raw(path.name, text=True, **vars(parsed))


def _bytes_of(path: Path) -> bytes:
    try:
        if not path.exists():
            raise DataError(f"no such file: {str(path)!r}", remedy=_nearest(path))
        if not path.is_file():
            message = "a directory" if path.is_dir() else "not a regular file"
            raise DataError(f"{str(path)!r} is {message}", remedy="pass the path of a table")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = getattr(error, "strerror", None) or first_line(error)
        raise DataError(
            f"{str(path)!r} cannot be read: {reason}", remedy="check the path and its permissions"
        ) from error


def _nearest(path: Path) -> str:
    """What the missing file may have been meant to be: a file beside it, or the tables there are."""
    folder = path.parent
    if not folder.is_dir():
        return f"its directory {str(folder)!r} does not exist either"
    files = sorted(one.name for one in folder.iterdir() if one.is_file() and not one.name.startswith("."))
    close = get_close_matches(path.name, files, n=1, cutoff=0.6)
    if close:
        return f"did you mean {str(folder / close[0])!r}?"
    tables = [name for name in files if Path(name).suffix.lower() in (*TEXT_ENDINGS, ".parquet", *ARROW_ENDINGS)]
    where = "here" if str(folder) == "." else f"in {str(folder)!r}"
    more = f" and {len(tables) - 5} more" if len(tables) > 5 else ""
    return f"tables {where}: {', '.join(tables[:5])}{more}" if tables else "check the path"


_OPENERS: tuple[tuple[bytes, Callable[[bytes], Any]], ...] = (
    (b"\x1f\x8b", lambda data: gzip.GzipFile(fileobj=io.BytesIO(data))),
    (b"BZh", lambda data: bz2.BZ2File(io.BytesIO(data))),
    (b"\xfd7zXZ\x00", lambda data: lzma.LZMAFile(io.BytesIO(data))),  # noqa: SIM115 (read to its end)
    (b"\x28\xb5\x2f\xfd", lambda data: pa.CompressedInputStream(pa.BufferReader(data), "zstd")),
)


def _unpack(data: bytes, name: str) -> tuple[bytes, str]:
    """The bytes and the name without their compression, which is told by the first bytes and not by the ending."""
    file = name
    try:
        if data[:4] == b"PK\x03\x04":
            return _unzip(data, file)
        opener = next((opener for mark, opener in _OPENERS if data.startswith(mark)), None)
        if opener is not None:
            data = _bounded(opener(data), len(data), file)
    except DataError:
        raise
    except _DAMAGED as error:
        raise DataError(f"{file} cannot be decompressed: {first_line(error)}", remedy="compress it again") from error
    suffix = Path(name).suffix.lower()
    if suffix in PACKED_ENDINGS:
        if opener is None and data.strip():
            raise DataError(
                f"{file} ends in {suffix!r} but is not compressed", remedy="rename it, or compress it again"
            )
        name = Path(name).stem
    return data, name


def _unzip(data: bytes, file: str) -> tuple[bytes, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX/")]
        if any(m.filename == "[Content_Types].xml" for m in members):
            raise DataError(f"{file} is an office document", remedy="save its sheet as CSV")
        if len(members) != 1:
            raise DataError(f"{file} contains {len(members)} files", remedy="put one table in each archive")
        with archive.open(members[0]) as stream:
            return _bounded(stream, len(data), file), Path(members[0].filename).name


def _bounded(stream: Any, packed: int, file: str) -> bytes:
    limit, pieces, size = max(ROOM, 100 * packed), [], 0
    while piece := stream.read(1 << 24):
        size += len(piece)
        if size > limit:
            message = f"{file} decompresses to more than {fmt(limit / 2**30, 3)} GiB"
            raise DataError(message, remedy="decompress it yourself and pass the table")
        pieces.append(piece)
    return b"".join(pieces)


def _from_table(file: str, kind: str, data: bytes) -> Raw:
    try:
        buffer = pa.BufferReader(data)
        if kind == "Parquet":
            table = arrow_parquet.ParquetFile(buffer).read()
        elif data[:4] == b"FEA1":
            table = arrow_feather.read_table(buffer)
        elif data[:6] == b"ARROW1":
            table = arrow_ipc.open_file(buffer).read_all()
        else:
            table = arrow_ipc.open_stream(buffer).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        message = f"{file} is not a valid {kind} file: {first_line(error)}"
        raise DataError(message, remedy="write it again") from error
    return Raw(file, [str(label) for label in table.column_names], table.columns, table.num_rows)
