"""The vault: a file of its own for the test rows, closed until the test set is opened.

Rows are written as Arrow IPC to a file beside, synced, and renamed over, so that a half-written vault is never seen;
the file belongs to its user alone (mode 0600). `write` returns the SHA-256 of the file, which goes into the ledger, and
`read` refuses a file that does not have it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from assay.errors import DataTypeError, SealError
from assay.experiment.storage import home
from assay.experiment.storage.files import sync_folder

__all__ = ["Vault"]

KINDS = b"assay kinds"


class Vault:
    """The test rows of a seal in one file.

    | parameter | default | range          | meaning                                        |
    |-----------|---------|----------------|------------------------------------------------|
    | name      |         | text           | the file's name without its ending: the seal's id, or the study's |
    | folder    | None    | a directory    | where it lies; None: `vaults` in `home()`      |

    >>> import tempfile
    >>> vault = Vault("a1", tempfile.mkdtemp())
    >>> sha256 = vault.write(pd.DataFrame({"x": [1.5, None], "s": ["a", None]}))
    >>> vault.read(sha256)["x"].tolist()
    [1.5, nan]
    """

    def __init__(self, name: str, folder: str | Path | None = None) -> None:
        if not name or name != Path(name).name or name.startswith("."):
            raise SealError(f"{name!r} is not a valid vault name", remedy="use letters and digits")
        self.holds = "training rows" if folder is not None and name == "train" else "test rows"
        self.path = (home() / "vaults" if folder is None else Path(folder)) / f"{name}.arrow"

    def write(self, frame: pd.DataFrame) -> str:
        """Put the rows of `frame` away; the SHA-256 of the file."""
        data = _pack(frame)
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_synced(beside, data)
            os.replace(beside, self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            with suppress(OSError):  # a read-only disk refuses even this
                beside.unlink(missing_ok=True)
            message = f"cannot write the {self.holds} to {self.path} ({(error.strerror or str(error)).lower()})"
            raise SealError(message, remedy="free some disk space, or make the directory writable") from error
        return hashlib.sha256(data).hexdigest()

    def read(self, sha256: str) -> pd.DataFrame:
        """The rows, if the file is still the one whose `sha256` the ledger knows; only `open` may call this."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError as error:
            message = f"the file of the {self.holds} is missing: {self.path}"
            raise SealError(message, remedy="restore the file, or seal the table again with a reason") from error
        except OSError as error:
            message = f"the {self.holds} in {self.path} cannot be read ({(error.strerror or str(error)).lower()})"
            raise SealError(message, remedy="restore the file, or seal the table again with a reason") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            message = f"the {self.holds} in {self.path} are not the ones that were sealed"
            raise SealError(message, remedy="restore the file, or seal the table again with a reason")
        return _unpack(data)

    def remove(self) -> None:
        """Delete the file, if it is there."""
        self.path.unlink(missing_ok=True)


def _pack(frame: pd.DataFrame) -> bytes:
    # Text in object columns comes back as whatever pandas prefers, so what it was is written down.
    kinds = [str(kind) for kind in frame.dtypes]
    try:
        table = pa.Table.from_pandas(frame)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        message = " ".join(str(part) for part in error.args)
        raise DataTypeError(
            f"the test rows cannot be stored ({message})", remedy="use one data type per column"
        ) from error
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), KINDS: json.dumps(kinds).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _unpack(data: bytes) -> pd.DataFrame:
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    frame = table.to_pandas()
    for at, kind in enumerate(json.loads(table.schema.metadata[KINDS])):
        if kind == "object":
            frame.isetitem(at, _objects(frame.iloc[:, at]))
    return frame


def _objects(column: pd.Series) -> pd.Series:
    """A column as Python objects, None where it is missing; a text is one object however often it occurs."""
    if not isinstance(column.dtype, pd.StringDtype):
        column = column.astype(object)
        return column.where(column.notna(), None)
    codes, texts = pd.factorize(column)
    objects = np.array([*texts, None], dtype=object)
    return pd.Series(objects[codes], index=column.index, dtype=object)


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
