"""The journal of a study: finished pieces of work by name, on the disk before the next piece begins.

One SQLite file per study (WAL, synchronous FULL). A piece is a dict of JSON values and arrays; it is stored as one
row in one transaction, with its BLAKE2b digest: after a kill at any moment it is there whole or not at all, and a
piece that rotted on the disk is computed again instead of believed. A file that is no whole database any more is put
aside as `<name>.damaged` with a warning, and everything in it is computed again.

Cost: one synced transaction per piece, some milliseconds and the bytes of its arrays.
"""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import AssayWarning, DataTypeError, LedgerError
from assay.experiment.storage.canonical_json import decode, encode
from assay.experiment.storage.ledger import TIMEOUT, set_pragmas
from assay.experiment.storage.trouble import connect, explain, reason, still

__all__ = ["Journal"]

TABLE = "CREATE TABLE IF NOT EXISTS pieces (key TEXT PRIMARY KEY, value BLOB NOT NULL, digest BLOB NOT NULL)"
PUT = "INSERT INTO pieces VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, "
PUT += "digest = excluded.digest"


class Journal:
    """Pieces of work by key in the file `path`, which is made on first use; its directory must exist.

    | parameter | default | range            | meaning                             |
    |-----------|---------|------------------|-------------------------------------|
    | path      |         | a file's path    | where the journal lies              |
    | prefix    | ""      | text             | stands before every key             |

    >>> import tempfile
    >>> journal = Journal(tempfile.mkdtemp() + "/study.journal")
    >>> journal.put("ridge/fold 3", {"loss": np.array([0.5, 0.25]), "seconds": 1.5})
    >>> journal.get("ridge/fold 3")
    {'loss': array([0.5 , 0.25]), 'seconds': 1.5}
    >>> journal.keys()
    ['ridge/fold 3']
    """

    def __init__(self, path: str | Path, prefix: str = "") -> None:
        self.path, self.prefix = Path(path), prefix
        self._lock = threading.Lock()
        self._held: tuple[int, sqlite3.Connection] | None = None
        if self._damaged():
            self._move_away()
        with self._connection("opened") as connection:
            connection.execute(TABLE)  # does nothing where the table is there, also to a file that is read-only

    def __reduce__(self) -> tuple[Any, ...]:
        return Journal, (self.path, self.prefix)

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Keep `value` (JSON values and arrays) under `key`; it is on the disk when this returns."""
        if not isinstance(value, dict):
            raise DataTypeError(f"a {type(value).__name__} cannot be stored under {key!r}", remedy="pass a dict")
        data = _pack(value)
        with self._connection("written") as connection:
            connection.execute(PUT, (self.prefix + key, data, _digest(data)))

    def get(self, key: str) -> dict[str, Any] | None:
        """What was put under `key`; None if nothing was, or if it rotted on the disk."""
        with self._connection("read") as connection:
            row = connection.execute("SELECT value, digest FROM pieces WHERE key = ?", (self.prefix + key,)).fetchone()
        if row is None or _digest(row[0]) != row[1]:
            return None
        found: dict[str, Any] = _unpack(row[0])
        return found

    def keys(self) -> list[str]:
        """The keys in the order in which they were first put."""
        with self._connection("read") as connection:
            every = [str(row[0]) for row in connection.execute("SELECT key FROM pieces ORDER BY rowid")]
        return [key.removeprefix(self.prefix) for key in every if key.startswith(self.prefix)]

    def _damaged(self) -> bool:
        """Whether the file is there, but not a whole database with the table of pieces."""
        if not self.path.is_file() or still(self.path):
            return False
        try:
            with closing(sqlite3.connect(self.path, timeout=TIMEOUT)) as connection:
                whole = connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
                connection.execute(TABLE)
                connection.execute("SELECT key, value, digest FROM pieces LIMIT 1").fetchone()
        except sqlite3.OperationalError as error:  # a lock or the disk, which says nothing about the file
            return "no such column" in str(error)
        except sqlite3.DatabaseError:
            return True
        return not whole

    def _move_away(self) -> None:
        """Put a damaged file aside: what it held is computed again."""
        aside = self.path.with_name(f"{self.path.name}.damaged")
        what = f"the journal is damaged, so its folds are computed again; the old file was renamed to {aside}"
        try:
            os.replace(self.path, aside)
            for end in ("-wal", "-shm"):  # the log of a file that is gone would be taken for that of the new one
                self.path.with_name(self.path.name + end).unlink(missing_ok=True)
        except OSError as error:
            remedy = "make its directory writable, or remove the file"
            raise LedgerError(
                f"{self.path} is damaged and cannot be renamed ({reason(error)})", remedy=remedy
            ) from error
        warnings.warn(what, AssayWarning, stacklevel=3)

    @contextmanager
    def _connection(self, done: str) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                if self._held is None or self._held[0] != os.getpid():
                    self._held = os.getpid(), self._connect()
                yield self._held[1]
        except sqlite3.Error as error:
            raise explain(error, str(self.path), done) from error

    def _connect(self) -> sqlite3.Connection:
        """A connection that stays open, so that a piece costs one sync; a forked child makes one of its own."""
        if self._held is not None:
            LEFT.append(self._held[1])
        closed = still(self.path)  # nothing can be added then, but what is finished can be read
        connection = (
            connect(self.path, TIMEOUT)
            if closed
            else sqlite3.connect(self.path, timeout=TIMEOUT, isolation_level=None, check_same_thread=False)
        )
        weakref.finalize(self, _close, connection, os.getpid())
        if not closed:
            set_pragmas(connection, TIMEOUT)
        return connection


LEFT: list[sqlite3.Connection] = []
"""Connections of a parent process: SQLite forbids its child to use them, and even to close them."""


def _close(connection: sqlite3.Connection, owner: int) -> None:
    if owner == os.getpid():
        connection.close()
    else:
        LEFT.append(connection)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _pack(value: dict[str, Any]) -> bytes:
    """The JSON text, ended by a zero byte (which JSON never holds), then the arrays in numpy's own format."""
    arrays = io.BytesIO()

    def keep(array: np.ndarray) -> Any:
        if array.dtype.hasobject:
            return {"$objects": array.ravel().tolist(), "$shape": list(array.shape)}
        start = arrays.tell()
        np.lib.format.write_array(arrays, array, allow_pickle=False)
        return {"$array": start}

    text = encode(value, keep)
    return text.encode("utf-8", "surrogatepass") + b"\0" + arrays.getvalue()


def _unpack(data: bytes) -> Any:
    text, _, arrays = data.partition(b"\0")
    source = io.BytesIO(arrays)

    def restore(found: dict[str, Any]) -> Any:
        if set(found) == {"$objects", "$shape"}:
            made = np.empty(len(found["$objects"]), dtype=object)
            made[:] = found["$objects"]
            return made.reshape(found["$shape"])
        if set(found) == {"$array"}:
            source.seek(found["$array"])
            return np.lib.format.read_array(source, allow_pickle=False)
        return found

    return decode(text.decode("utf-8", "surrogatepass"), restore)
