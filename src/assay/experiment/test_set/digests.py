"""The content of a row as one 64-bit number, the same for the same content wherever the table came from.

Each cell becomes a tag and 64 bits:

    number   the bits of its float64 (-0 is 0); a whole number that float64 cannot hold keeps its own 64 bits
    date     nanoseconds since 1970, UTC
    text     BLAKE2b of its NFC form in UTF-8
    missing  0

and a row is the keyed BLAKE2b of its cells, in the order of the columns' names, the key made of a fixed word, the salt
and the names. What a cell is is read off its value, not off its column's type: 1, 1.0, True, "1" and "true" are one
number, "2020-01-31" is a date, and "", "NA" and "nan" are missing: one reader keeps text where another converts.
A float32 counts as the shortest decimal that names it (what a CSV of it says), also after it was widened to float64.
Two cells can be taken for equal when a strict reader would part them ("007" and 7); never the other way round.

Cost: O(cells), one pass per column in numpy (text: per distinct value) and one BLAKE2b call of about 1.5 us per row.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from assay.errors import DataError, DataTypeError

__all__ = [
    "DATE",
    "MISSING",
    "NEGATIVE",
    "NUMBER",
    "WHOLE",
    "Digests",
    "canonical",
    "column_of",
    "labels",
    "names_of",
    "row_digests",
    "uniform",
]

Array = np.ndarray
Cells = tuple[Array, Array]
"""64 bits and a tag for each row."""

MISSING, NUMBER, WHOLE, NEGATIVE, DATE, SPAN, TEXT = range(7)
LIMIT = 2**53
BLOCK = 65_536
NUMERIC = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?\Z", re.ASCII)
INFINITE = re.compile(r"([+-]?)inf(inity)?\Z", re.IGNORECASE)
ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d:?\d\d)?\Z",
    re.ASCII,
)
GAPS = frozenset(
    [
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
        "NaT",
    ]
)
"""What one or another reader of CSV files takes for a missing cell."""
TRUTHS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}


def row_digests(frame: Any, columns: Sequence[str] | None = None, salt: str = "") -> Array:
    """One uint64 per row: the keyed digest of its content in `columns`.

    The same for any order of rows and columns, any width of number, and CSV, Parquet, pandas, polars or Arrow.

    | parameter | default | range                     | meaning                                          |
    |-----------|---------|---------------------------|--------------------------------------------------|
    | frame     |         | pandas, polars, pyarrow   | the table                                        |
    | columns   | None    | names in the frame        | which columns count; None: all                   |
    | salt      | ""      | text                      | another salt gives unrelated digests             |

    >>> a = pd.DataFrame({"x": [1, 2], "s": ["é", None]})
    >>> b = pd.DataFrame({"s": ["e\\u0301", ""], "x": ["1.0", "2"]})
    >>> bool((row_digests(a) == row_digests(b)).all())
    True
    """
    known = names_of(frame)
    names = sorted(known if columns is None else [str(name) for name in columns])
    if not names:
        raise DataError("a row without columns has no content", remedy="name at least one column")
    places = {name: at for at, name in enumerate(known)} if len(set(known)) == len(known) else None
    cells = [canonical(column_of(frame, name, places), name) for name in names]
    key = _key(salt, names)
    n, p = len(cells[0][0]), len(names)
    digests = np.empty(n, dtype="<u8")
    for start in range(0, n, BLOCK):
        block = _interleave(cells, start, min(n, start + BLOCK), p)
        digests[start : start + BLOCK] = _hash_rows(block, key)
    return digests.astype(np.uint64, copy=False)


class Digests:
    """The row digests of one table on any choice of columns, each worked out once."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self._known: dict[tuple[str, tuple[str, ...]], Array] = {}

    def __len__(self) -> int:
        return int(self.frame.num_rows) if isinstance(self.frame, pa.Table) else len(self.frame)

    def on(self, columns: Sequence[str], salt: str = "") -> Array:
        """The digests on `columns`."""
        names = tuple(sorted(columns))
        if (salt, names) not in self._known:
            self._known[salt, names] = row_digests(self.frame, names, salt)
        return self._known[salt, names]


def uniform(digests: Array) -> Array:
    """Digests as numbers spread evenly over [0, 1), by their first 53 bits.

    >>> uniform(np.array([0, 2**63], dtype=np.uint64))
    array([0. , 0.5])
    """
    return (digests >> np.uint64(11)).astype(np.float64) * 2.0**-53


def labels(column: Any, name: str) -> Array:
    """The cells as text, one text per canonical value: what the strata of a seal are called.

    >>> labels(pd.Series([1, 2.5, None]), "y").tolist()
    ['1', '2.5', '']
    """
    bits, tags = canonical(column, name)
    pairs = np.empty(len(bits), dtype=[("bits", "u8"), ("tags", "u1")])
    pairs["bits"], pairs["tags"] = bits, tags
    _, first, codes = np.unique(pairs, return_index=True, return_inverse=True)
    arrow = isinstance(column, pa.ChunkedArray | pa.Array)
    values = column.take(pa.array(first)).to_pylist() if arrow else pd.Series(column).iloc[first].tolist()
    spoken = np.empty(len(first), dtype=object)
    spoken[:] = [_say(*cell) for cell in zip(values, bits[first].tolist(), tags[first].tolist(), strict=True)]
    return spoken[codes.ravel()]


def _say(value: Any, bits: int, tag: int) -> str:
    if tag == MISSING:
        return ""
    if tag == NUMBER:
        number = float(np.uint64(bits).view(np.float64))
        return str(int(number)) if number.is_integer() and abs(number) < LIMIT else repr(number)
    if tag == DATE:
        return str(np.int64(np.uint64(bits).view(np.int64)))
    return unicodedata.normalize("NFC", str(value))


def names_of(frame: Any) -> list[str]:
    """The column names of a pandas, polars or Arrow table."""
    names = frame.column_names if isinstance(frame, pa.Table) else frame.columns
    return [str(name) for name in names]


def column_of(frame: Any, name: str, places: Mapping[str, int] | None = None) -> Any:
    """One column: a pandas Series, or an Arrow array for polars and Arrow tables; `places` spares the search."""
    known = names_of(frame) if places is None or name not in places else None
    at = [places[name]] if known is None and places else [j for j, other in enumerate(known or ()) if other == name]
    if len(at) != 1:
        message = f"column {name!r} is {'missing' if not at else 'there more than once'}"
        raise DataError(message, remedy=f"choose from {', '.join(map(repr, names_of(frame)[:10]))}")
    if isinstance(frame, pa.Table):
        return frame.column(at[0])
    if isinstance(frame, pd.DataFrame):
        return frame.iloc[:, at[0]]
    if hasattr(frame, "to_arrow"):  # polars
        return frame.select(name).to_arrow().column(0)
    raise DataTypeError(f"a {type(frame).__name__} is not a table", remedy="pass a pandas, polars or Arrow table")


def canonical(column: Any, name: str) -> Cells:
    """64 bits and a tag per cell; equal content gives equal pairs, whatever the column's type."""
    if isinstance(column, pa.ChunkedArray | pa.Array):
        return _arrow(column, name)
    series = column if isinstance(column, pd.Series) else pd.Series(column)
    kind = series.dtype
    if isinstance(kind, pd.CategoricalDtype):
        bits, tags = canonical(pd.Series(series.cat.categories), name)
        return _take(bits, tags, series.cat.codes.to_numpy())
    if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_integer_dtype(kind) or pd.api.types.is_float_dtype(kind):
        return _numbers(*_unmask(series))
    if isinstance(kind, pd.DatetimeTZDtype):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        kind = series.dtype
    if isinstance(kind, np.dtype) and kind.kind in "mM":
        return _moments(series.to_numpy(), DATE if kind.kind == "M" else SPAN)
    return _objects(series, name)


def _unmask(series: pd.Series) -> tuple[Array, Array | None]:
    """The numbers, and where they are missing; a nullable column keeps whole numbers whole."""
    if isinstance(series.dtype, np.dtype):
        return series.to_numpy(), None
    gaps = series.isna().to_numpy(dtype=bool)
    kind = {"b": "bool", "i": "int64", "u": "uint64"}.get(series.dtype.kind, "float64")
    return series.fillna(False if kind == "bool" else 0).to_numpy(dtype=kind), gaps


def _arrow(column: pa.ChunkedArray | pa.Array, name: str) -> Cells:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        filled = pc.fill_null(column, False if pa.types.is_boolean(kind) else 0)
        return _numbers(np.asarray(filled), np.asarray(column.is_null(), dtype=bool))
    return canonical(column.to_pandas(), name)


def _numbers(values: Array, gaps: Array | None) -> Cells:
    if values.dtype.kind in "iu":
        bits, tags = _whole(values)
    else:
        bits, tags = _floats(values)
    if gaps is not None:
        bits[gaps], tags[gaps] = 0, MISSING
    return bits, tags


def _whole(values: Array) -> Cells:
    floats = values.astype(np.float64) + 0.0
    bits, tags = floats.view(np.uint64), np.full(values.size, NUMBER, dtype=np.uint8)
    if values.dtype.itemsize == 8:
        size = np.where(values < 0, np.negative(values.view(np.uint64)), values.view(np.uint64))
        # Float64 holds a whole number exactly if what is left without its trailing zero bits is below 2^53.
        lowest = np.maximum(size & np.negative(size), np.uint64(1))
        rounded = size // lowest >= np.uint64(LIMIT)
        bits = np.where(rounded, size, bits)
        tags[rounded] = np.where(values[rounded] < 0, NEGATIVE, WHOLE)
    return bits, tags


def _floats(values: Array) -> Cells:
    floats = np.ascontiguousarray(values, dtype=np.float64) + 0.0  # a copy, without -0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = floats.astype(np.float32)
    short = np.isfinite(narrow) & (narrow == floats) & (floats != np.trunc(floats))
    if short.any():
        # Shortest decimal of the float32, read again as float64: what its CSV says.
        words = pc.cast(pa.array(narrow[short]), pa.string())
        floats[short] = pc.cast(words, pa.float64()).to_numpy()
    missing = np.isnan(floats)
    bits, tags = floats.view(np.uint64), np.full(floats.size, NUMBER, dtype=np.uint8)
    bits[missing], tags[missing] = 0, MISSING
    return bits, tags


def _moments(values: Array, tag: int) -> Cells:
    missing = np.isnat(values)
    unit, step = np.datetime_data(values.dtype)
    factor = {"D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1_000, "ns": 1}
    # Modulo 2^64: exact for 1678 to 2262, and still one number per moment outside.
    bits = np.ascontiguousarray(values).view(np.uint64) * np.uint64(factor[unit] * step)
    tags = np.full(values.size, tag, dtype=np.uint8)
    bits[missing], tags[missing] = 0, MISSING
    return bits, tags


def _objects(series: pd.Series, name: str) -> Cells:
    """Text and mixed cells: each distinct value once."""
    try:
        codes, distinct = pd.factorize(series)
    except TypeError as error:
        row = next(at for at, value in enumerate(series) if not hasattr(value, "__hash__") or value.__hash__ is None)
        raise _odd(series.iloc[row], name) from error
    pairs = [_cell(value, name) for value in distinct]
    bits = np.array([bit for bit, _ in pairs], dtype=np.uint64)
    tags = np.array([tag for _, tag in pairs], dtype=np.uint8)
    return _take(bits, tags, codes)


def _take(bits: Array, tags: Array, codes: Array) -> Cells:
    # Code -1 is a missing cell: it takes the extra last place.
    return np.append(bits, np.uint64(0))[codes], np.append(tags, np.uint8(MISSING))[codes]


def _cell(value: Any, name: str) -> tuple[int, int]:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return _text(value.decode("utf-8", "backslashreplace"))
    if value is None or value is pd.NA or value is pd.NaT:
        return 0, MISSING
    if isinstance(value, bool | np.bool_ | Integral):
        return _integer(int(value))
    if isinstance(value, Decimal):
        return _text(str(value))
    if isinstance(value, Real):
        return _only(_floats(np.array([float(value)])))
    if isinstance(value, datetime | np.datetime64):
        return _only(canonical(pd.Series([value]), name))
    if isinstance(value, date):
        return _only(_moments(np.array([value], dtype="datetime64[D]"), DATE))
    if isinstance(value, timedelta | np.timedelta64):
        return _only(_moments(np.array([pd.Timedelta(value).to_timedelta64()]), SPAN))
    if isinstance(value, time | UUID | pd.Period | pd.Interval):
        return _text(str(value))
    raise _odd(value, name)


def _odd(value: Any, name: str) -> DataTypeError:
    message = f"column {name!r} contains a {type(value).__name__}, which cannot be hashed"
    return DataTypeError(message, remedy="turn it into text or numbers, or leave the column out")


def _only(cells: Cells) -> tuple[int, int]:
    return int(cells[0][0]), int(cells[1][0])


def _integer(value: int) -> tuple[int, int]:
    if -(2**63) <= value < 2**64:
        return _only(_whole(np.array([value], dtype=np.int64 if value < 0 else np.uint64)))
    return _digest_of(f"whole {value}"), NEGATIVE if value < 0 else WHOLE


def _text(value: str) -> tuple[int, int]:
    if value in GAPS:
        return 0, MISSING
    if value in TRUTHS:
        return _integer(int(TRUTHS[value]))
    if value[0] in "+-.0123456789" and len(value) < 400:
        if NUMERIC.match(value):
            return _numeral(value)
        if ISO.match(value):
            return _iso(value)
    if INFINITE.match(value):
        return _only(_floats(np.array([float(value)])))
    return _digest_of(unicodedata.normalize("NFC", value)), TEXT


def _numeral(value: str) -> tuple[int, int]:
    digits = value[1:] if value[0] in "+-" else value
    if digits.isdigit():
        return _integer(int(value))
    number = float(value)
    # Too large for a float64: it stays the text it is, and no two of them become one infinity.
    return _only(_floats(np.array([number]))) if np.isfinite(number) else (_digest_of(value), TEXT)


def _iso(value: str) -> tuple[int, int]:
    try:
        moment = pd.Timestamp(value)
    except ValueError:  # a 13th month
        return _digest_of(value), TEXT
    return _cell(moment, "")


def _digest_of(words: str) -> int:
    return int.from_bytes(hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _key(salt: str, names: Iterable[str]) -> bytes:
    words = [b"assay seal", salt.encode("utf-8"), *(unicodedata.normalize("NFC", name).encode() for name in names)]
    # Each word is preceded by its length, so that no two lists of words read the same.
    text = b"".join(len(word).to_bytes(8, "little") + word for word in words)
    return hashlib.blake2b(text, digest_size=32).digest()


def _interleave(cells: list[Cells], start: int, end: int, p: int) -> Array:
    block = np.empty((end - start, 9 * p), dtype=np.uint8)
    for j, (bits, tags) in enumerate(cells):
        part = np.ascontiguousarray(bits[start:end], dtype="<u8").view(np.uint8)
        block[:, 8 * j : 8 * j + 8] = part.reshape(-1, 8)
        block[:, 8 * p + j] = tags[start:end]
    return block


def _hash_rows(block: Array, key: bytes) -> Array:
    width, data, blake = block.shape[1], memoryview(block.tobytes()), hashlib.blake2b
    empty = blake(digest_size=8, key=key)
    made = bytearray()
    for at in range(0, len(data), width):
        row = empty.copy()  # cheaper than keying anew
        row.update(data[at : at + width])
        made += row.digest()
    return np.frombuffer(bytes(made), dtype="<u8")
