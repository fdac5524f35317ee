"""What a database says when it cannot go on, in one sentence with the remedy; and reading where nothing may be written.

A SQLite file in WAL mode needs to write beside itself even to be read. Where its directory is closed to writing and no
unfinished log lies beside it, the file cannot change either, and is read as it stands (`immutable`).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from urllib.parse import quote

from assay.errors import LedgerError

__all__ = ["connect", "explain", "reason", "still"]

LITTLE = 1 << 16
"""Bytes of free space below which an error of the disk is taken for a full one."""

FULL = ("the disk is full", "free some disk space and try again; nothing already written is lost")
CLOSED = ("its directory is not writable", "make the directory writable, or set ASSAY_HOME to another one")
TROUBLES = (
    (("append-only",), "the ledger is append-only", "append a new entry instead"),
    (("SQLITE_FULL", "disk is full"), *FULL),
    (
        ("SQLITE_BUSY", "SQLITE_LOCKED", "is locked"),
        "another process has locked it",
        "wait for that process or end it, then try again",
    ),
    (
        ("SQLITE_NOTADB", "SQLITE_CORRUPT", "malformed", "not a database"),
        "the file is damaged or not a ledger",
        "move it away and restore a backup; nothing was changed",
    ),
    (("SQLITE_READONLY", "readonly"), "it is read-only", "make the file and its directory writable"),
    (
        ("SQLITE_CANTOPEN", "unable to open"),
        "the file cannot be opened",
        "check that its directory exists and is writable",
    ),
    (("SQLITE_IOERR", "disk I/O"), "the disk reports an error", "check the disk; nothing already written was changed"),
)


def explain(error: object, where: str, done: str) -> LedgerError:
    """The error of a database, in one sentence: what could not be `done` to the ledger at `where`, and the remedy.

    >>> print(explain(sqlite3.OperationalError("database or disk is full"), "ledger.db", "written"))
    ledger.db cannot be written because the disk is full; free some disk space and try again; nothing already written is
    lost
    """
    name, words = getattr(error, "sqlite_errorname", ""), str(error)
    for marks, why, remedy in TROUBLES:
        if any(mark in name or mark in words for mark in marks):
            why, remedy = _nearer(marks[0], where) or (why, remedy)
            return LedgerError(f"{where} cannot be {done} because {why}", remedy=remedy)
    return LedgerError(f"{where} cannot be {done} ({words})", remedy="check the file and its disk")


def _nearer(mark: str, where: str) -> tuple[str, str] | None:
    """What SQLite does not tell apart: a closed directory from a missing one, a full disk from a broken one."""
    folder = Path(where).parent
    if not folder.is_dir():
        return None
    if mark in ("SQLITE_CANTOPEN", "SQLITE_READONLY") and not _writable(folder):
        return CLOSED
    if mark == "SQLITE_IOERR" and shutil.disk_usage(folder).free < LITTLE:
        return FULL
    return None


def reason(error: OSError) -> str:
    """What the system says, as the end of a sentence."""
    return (error.strerror or str(error)).lower()


def still(path: Path) -> bool:
    """Whether a SQLite file can be read only as it stands: its directory is closed and no log lies beside it."""
    log = path.with_name(path.name + "-wal")
    return path.is_file() and not _writable(path.parent) and not (log.exists() and log.stat().st_size)


def connect(path: Path, timeout: float) -> sqlite3.Connection:
    """A connection to a file that is `still`."""
    address = f"file:{quote(str(path))}?mode=ro&immutable=1"
    return sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
