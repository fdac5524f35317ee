"""Tables that go wrong in as many ways as we know: each must give a result or one sentence, quickly, never a traceback.

`tables()` gives them by name. The target is always called `y`. `reads` says whether `read_table(path, target="y")`
should succeed; whether a study of such a table makes sense is another question (one class, one row), asked elsewhere.
"""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet


@dataclass(frozen=True)
class Malformed:
    """A file by its ending and bytes, and whether it can be read all the same."""

    name: str
    ending: str
    content: bytes
    reads: bool

    def write(self, folder: Path) -> Path:
        """Put the file into a folder and give its path."""
        path = folder / f"{self.name}{self.ending}"
        path.write_bytes(self.content)
        return path


def tables(wide: int = 50_000) -> dict[str, Malformed]:
    """All malformed tables by name; `wide` is the number of columns of the widest one."""
    parts = [*_empty(), *_bytes(), *_shapes(wide), *_names(), *_cells(), *_separators(), *_containers()]
    found = {
        name: Malformed(name, ending, content.encode() if isinstance(content, str) else content, reads)
        for name, ending, content, reads in parts
    }
    assert len(found) == len(parts) >= 60
    return found


def _rows(header: str, row, n: int = 60) -> str:
    return "\n".join([header, *(row(i) for i in range(n))]) + "\n"


def _column(cell, n: int = 60) -> str:
    """One odd column beside a number and a target of two classes."""
    return _rows("x,odd,y", lambda i: f"{(i * 37) % 101 / 7:.3f},{cell(i)},{'ab'[(i * 13 % 7) % 2]}", n)


def _empty():
    yield "empty", ".csv", "", False
    yield "blanks only", ".csv", "   \n \t \n", False
    yield "newlines only", ".csv", "\n\n\n", False
    yield "byte order mark only", ".csv", b"\xef\xbb\xbf", False
    yield "header only", ".csv", "x,z,y\n", False
    yield "header without newline", ".csv", "x,z,y", False
    yield "one cell", ".csv", "y\n1\n", True
    yield "one row", ".csv", "x,y\n1,2\n", True
    yield "separators only", ".csv", ",,\n,,\n,,\n", False
    yield "empty tab file", ".tsv", "", False


def _bytes():
    accents = "größe,Ort,y\n" + "".join(f"{i * 7 % 11},{'Köln' if i % 3 else 'Zürich'},{i % 2}\n" for i in range(30))
    yield "latin-1", ".csv", accents.encode("latin-1"), True
    yield "undefined Windows byte", ".csv", accents.encode("latin-1") + b"1,\x81,0\n", True
    yield "UTF-8 with mark", ".csv", accents.encode("utf-8-sig"), True
    yield "UTF-16 little", ".csv", b"\xff\xfe" + accents.encode("utf-16-le"), True
    yield "UTF-16 big", ".csv", b"\xfe\xff" + accents.encode("utf-16-be"), True
    yield "UTF-32", ".csv", accents.encode("utf-32"), True
    yield "UTF-16 without mark", ".csv", accents.encode("utf-16-le"), False
    yield "UTF-16 cut in half", ".csv", (b"\xff\xfe" + accents.encode("utf-16-le"))[:-1], False
    yield "NUL in a cell", ".csv", "x,y\n1,2\n3\x00,4\n", False
    yield "NUL bytes only", ".csv", b"\x00" * 500, False
    yield "random bytes", ".csv", np.random.default_rng(0).bytes(5000), False
    yield "pickle", ".csv", pickle.dumps({"x": [1, 2], "y": [3.5, 4.5]}), False
    yield (
        "UTF-8 cut inside a letter",
        ".csv",
        accents.encode()[: accents.encode().index("ö".encode()) + 1] + b"\n1,",
        False,
    )


def _shapes(wide: int):
    yield "ragged short", ".csv", "x,z,y\n1,2,3\n4,5\n6,7,8\n", False
    yield "ragged long", ".csv", "x,z,y\n1,2,3\n4,5,6,7\n", False
    yield "separator behind each row", ".csv", "x,z,y\n1,2,3,\n4,5,6,\n", False
    yield "comment in front", ".csv", "# made by hand\nx,y\n1,2\n3,4\n", False
    yield "huge line", ".csv", _column(lambda i: "word " * 400_000 if i == 30 else "short"), True
    yield "huge name", ".csv", "n" * 200_000 + ",y\n" + "".join(f"{i % 7},{i % 3}\n" for i in range(30)), True
    header = ",".join(f"c{j}" for j in range(wide - 1)) + ",y\n"
    yield "very many columns", ".csv", header + "".join(_wide(i, wide) for i in range(6)), True
    yield "one column", ".csv", _rows("y", lambda i: str(i % 5)), True
    yield "blank lines between", ".csv", _column(str).replace("\n", "\n\n"), True
    yield "old Mac lines", ".csv", _column(str).replace("\n", "\r"), True
    yield "mixed line ends", ".csv", _column(str).replace("\n", "\r\n", 20), True
    yield "quoted line breaks", ".csv", _column(lambda i: f'"two\nlines {i % 3}"'), True
    yield "quote never closed", ".csv", _column(lambda i: '"open' if i == 7 else "shut"), False
    yield "quotes inside cells", ".csv", _column(lambda i: f'5" pipe {i % 3}'), True


def _wide(i: int, wide: int) -> str:
    return ",".join(str((i * j) % 7) for j in range(wide - 1)) + f",{i % 2}\n"


def _names():
    body = "".join(f"{i % 7},{i % 5},{i % 3},{i % 2}\n" for i in range(40))
    yield "repeated names", ".csv", "x,x,x_2,y\n" + body, True
    yield "repeated target", ".csv", "x,z,y,y\n" + body, True
    yield "names missing", ".csv", ",,,y\n" + body, True
    yield "script names", ".csv", '<script>alert(1)</script>,"a&b",<img src=x onerror=alert(2)>,y\n' + body, True
    yield "foreign names", ".csv", "größe,身長,🚲 العربية,y\n" + body, True
    yield "names with line breaks", ".csv", '"a\nb"," c ",d\t,y\n' + body, True
    yield "names that are keywords", ".csv", "None,nan,__class__,y\n" + body, True
    yield "no names", ".csv", "1,2,3,y\n" + body, True
    yield "target not there", ".csv", "x,z,w,Y\n" + body, False


def _cells():
    yield "column all missing", ".csv", _column(lambda i: ""), True
    yield "everything missing", ".csv", "x,y\n" + "NA,?\n" * 30, False
    yield (
        "every word for missing",
        ".csv",
        _column(lambda i: ["", "NA", "N/A", "null", "NaN", "?", "-", "3"][i % 8]),
        True,
    )
    yield "one class", ".csv", _rows("x,y", lambda i: f"{i % 9},a"), True
    yield "target partly missing", ".csv", _rows("x,y", lambda i: f"{i % 9},{'' if i % 4 == 0 else i % 2}"), True
    yield "target all missing", ".csv", _rows("x,y", lambda i: f"{i % 9},"), False
    yield "formulas", ".csv", _column(lambda i: ["\"=cmd|' /C calc'!A0\"", "+1+2", "-2+3", "@SUM(A1)"][i % 4]), True
    yield "infinities as words", ".csv", _column(lambda i: ["1.5", "inf", "2", "-Infinity"][i % 4]), True
    yield "not numbers as words", ".csv", _column(lambda i: ["1.5", "nan", "2"][i % 3]), True
    yield "numbers out of reach", ".csv", _column(lambda i: ["1.5", "1e999", "4e492493924924"][i % 3]), True
    yield "enormous numbers", ".csv", _column(lambda i: f"{(-1) ** i}.{i % 10}e308"), True
    yield "tiny numbers", ".csv", _column(lambda i: f"{1 + i % 7}e-320"), True
    yield "underscores", ".csv", _column(lambda i: f"1_{i % 10}00"), True
    yield "hexadecimal", ".csv", _column(lambda i: f"0x{i % 16:X}F"), True
    yield "leading zeros", ".csv", _column(lambda i: f"{i * 37:05d}"), True
    yield "long whole numbers", ".csv", _column(lambda i: f"1234567890123456789{i}"), True
    yield "thousands separators", ".csv", _column(lambda i: f'"{i + 1},{i * 7 % 1000:03d}"'), True
    yield "words among numbers", ".csv", _column(lambda i: "broken" if i == 40 else str(i * i)), True
    yield "thousands of categories", ".csv", _column(lambda i: f"level{i * 7919 % 3000}", 4000), True
    yield "constant columns", ".csv", _rows("x,z,y", lambda i: f"1,a,{i % 2}"), True
    yield "impossible dates", ".csv", _column(lambda i: f"2023-02-{1 + i % 31:02d}"), True
    yield "dates out of reach", ".csv", _column(lambda i: ["2020-01-05", "9999-12-31", "0001-01-01"][i % 3]), True
    yield "zones in some cells", ".csv", _column(lambda i: "2020-01-05T10:00:00" + ["", "Z", "+02:00"][i % 3]), True
    yield "days or months", ".csv", _column(lambda i: f"{1 + i % 12:02d}/{1 + i * 5 % 12:02d}/2021"), True
    yield "control letters", ".csv", _column(lambda i: "a\x07b\x1b[31m" + "cd"[i % 2]), True
    yield "minus signs", ".csv", _column(lambda i: ["-0", "0", "+0", "-0.0"][i % 4]), True


def _separators():
    yield "semicolons and decimal commas", ".csv", _rows("x;z;y", lambda i: f"{i},5;{i % 7},25;{i % 2}"), True
    yield "semicolons, commas in words", ".csv", _rows("x;z;y", lambda i: f"{i % 9};here, there;{i % 2}"), True
    yield "tabs in a csv", ".csv", _rows("x\tz\ty", lambda i: f"{i % 9}\ta,b\t{i % 2}"), True
    yield "bars", ".txt", _rows("x|z|y", lambda i: f"{i % 9}|a|{i % 2}"), True
    yield "commas in a tsv", ".tsv", _rows("x,z,y", lambda i: f"{i % 9},a,{i % 2}"), False


def _containers():
    plain = _column(lambda i: "abc"[i % 3]).encode()
    yield "gzip under csv", ".csv", gzip.compress(plain), True
    yield "gzip cut in half", ".csv.gz", gzip.compress(plain)[:60], False
    yield "gzip in name only", ".csv.gz", plain, False
    yield "bzip2 damaged", ".csv.bz2", bz2.compress(plain)[:-8] + b"\x00" * 8, False
    yield "zip of two", ".zip", _zip({"a.csv": plain, "b.csv": plain}), False
    yield "zip of none", ".zip", _zip({}), False
    yield "zip that climbs", ".zip", _zip({"../../etc/table.csv": plain}), True
    yield "office document", ".csv", _zip({"[Content_Types].xml": b"<x/>", "xl/sheet.xml": b"<x/>"}), False
    yield "web page", ".csv", "<!DOCTYPE html><html><body>404</body></html>", False
    yield "unknown ending", ".json", '{"x": [1, 2], "y": [3, 4]}', False
    buffer = io.BytesIO()
    parquet.write_table(pa.table({"x": [i * i % 17 for i in range(50)], "y": ["a", "b"] * 25}), buffer)
    yield "parquet", ".csv", buffer.getvalue(), True
    yield "parquet cut in half", ".parquet", buffer.getvalue()[:200], False
    yield "parquet of nothing", ".parquet", b"PAR1", False
    yield "csv under parquet", ".parquet", plain, False
    yield "csv under arrow", ".arrow", plain, False
    buffer = io.BytesIO()
    parquet.write_table(pa.table({"x": [[1, 2], [3]], "y": [1, 2]}), buffer)
    yield "lists in cells", ".parquet", buffer.getvalue(), False
    buffer = io.BytesIO()
    parquet.write_table(pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}), buffer)
    yield "parquet without rows", ".parquet", buffer.getvalue(), False


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()
