"""The ledger: every seal and every look at test data, in order, and nobody can take one back unnoticed.

Entry i carries the digest of entry i - 1,

    digest_i = SHA-256(digest_{i-1} | canonical JSON of (seq, kind, study, body, created, SHA-256 of the blob)),

so that an edited, deleted or moved entry breaks the chain from there on, and whoever wrote down `head()` also sees a
cut tail. Triggers refuse UPDATE, DELETE and INSERT OR REPLACE. An entry is on the disk when `append` returns (SQLite
in WAL mode, synchronous FULL); writers queue behind BEGIN IMMEDIATE, so several processes may write at once and a
killed one leaves either its whole entry or nothing.

Cost: one transaction with its syncs per entry, some milliseconds; `verify` reads everything once.
Haber & Stornetta (1991), Journal of Cryptology 3, 99-111 (linked time stamps).
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from platformdirs import user_data_path
from sqlalchemy import URL, Connection, Engine, create_engine, event, func, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from assay.checks import number
from assay.errors import LedgerError
from assay.experiment.storage import chain, schema
from assay.experiment.storage.canonical_json import decode, encode
from assay.experiment.storage.trouble import connect, explain, reason, still
from assay.results import Result

__all__ = ["Entry", "Ledger", "Transaction", "explain", "forgotten", "home", "set_pragmas", "trusted_ledger"]

TIMEOUT = 30.0
"""Seconds a writer waits for the others before it says that the ledger is locked."""

RESTORE = "list the damage with assay doctor, and restore the ledger from a backup"

PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "recursive_triggers = ON", "foreign_keys = ON")


def home() -> Path:
    """The directory of this user's ledger and vaults: `ASSAY_HOME`, or the platform's place for user data.

    A relative `ASSAY_HOME` is one of the current directory. It is made on first use, closed to other users (mode 0700).

    >>> home().is_dir()
    True
    """
    named = os.environ.get("ASSAY_HOME")
    path = Path(named).expanduser().absolute() if named else user_data_path("assay", appauthor=False)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        remedy = "set ASSAY_HOME to a writable directory"
        raise LedgerError(f"cannot create the directory {path} ({reason(error)})", remedy=remedy) from error
    return path


@dataclass(frozen=True, repr=False)
class Entry(Result):
    """One line of the ledger; `digest` covers all of it and, through `previous`, everything before it."""

    seq: int
    kind: str
    study: str | None
    body: dict[str, Any]
    created: str
    previous: str
    digest: str
    blob: str | None = field(default=None)

    def to_frame(self) -> pd.DataFrame:
        """One row: when, what, for which study, and the digest."""
        row = {"created": self.created, "kind": self.kind, "study": self.study, "digest": self.digest}
        return pd.DataFrame([row], index=pd.Index([self.seq], name="seq"))

    def __str__(self) -> str:
        study = "" if self.study is None else f" of study {self.study}"
        return f"{self.seq:>5}  {self.created[:19]}  {self.kind}{study}  {self.digest[:12]}"


class Transaction:
    """Reading and writing under one lock: what was read is still true when the entry is written."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, kind: str, body: dict[str, Any], study: str | None = None, blob: bytes | None = None) -> Entry:
        """Add an entry after the last; it is durable once the transaction ends."""
        table, last = schema.entries, self._last()
        seq, previous = (1, schema.GENESIS) if last is None else (last.seq + 1, last.digest)
        made = {"seq": seq, "kind": kind, "study": study, "body": encode(body), "created": schema.now()}
        made |= {"blob": None if blob is None else self._keep(blob), "previous": previous}
        made["digest"] = chain.digest_of(made)
        self._connection.execute(table.insert().values(**made))
        return _entry(made)

    def entries(self, kind: str | None = None, study: str | None = None) -> list[Entry]:
        """All entries in order, or those of one kind or study."""
        query = select(schema.entries).order_by(schema.entries.c.seq)
        if kind is not None:
            query = query.where(schema.entries.c.kind == kind)
        if study is not None:
            query = query.where(schema.entries.c.study == study)
        rows = [{**row} for row in self._connection.execute(query).mappings()]
        for row in rows:
            if chain.altered(row):
                message = f"entry {row['seq']} ({row['kind']}) of the ledger was altered after it was written"
                raise LedgerError(message, remedy=RESTORE)
        return [_entry(row) for row in rows]

    def blob(self, entry: Entry) -> bytes:
        """The bytes that belong to an entry, checked against their digest."""
        if entry.blob is None:
            raise LedgerError(f"entry {entry.seq} ({entry.kind}) has no stored bytes", remedy="choose another entry")
        query = select(schema.blobs.c.data).where(schema.blobs.c.digest == entry.blob)
        data = self._connection.scalar(query)
        if data is None or hashlib.sha256(data).hexdigest() != entry.blob:
            message = f"the bytes of entry {entry.seq} ({entry.kind}) are {'missing' if data is None else 'altered'}"
            raise LedgerError(message, remedy="list the damage with assay doctor, and restore the ledger from a backup")
        return bytes(data)

    def head(self) -> str:
        """The digest of the last entry; 64 zeros before the first."""
        last = self._last()
        return schema.GENESIS if last is None else str(last.digest)

    def _last(self) -> Any:
        table = schema.entries
        query = select(table.c.seq, table.c.digest).order_by(table.c.seq.desc()).limit(1)
        return self._connection.execute(query).first()

    def _keep(self, blob: bytes) -> str:
        digest, table = hashlib.sha256(blob).hexdigest(), schema.blobs
        if self._connection.scalar(select(table.c.digest).where(table.c.digest == digest)) is None:
            self._connection.execute(table.insert().values(digest=digest, data=blob))
        return digest


class Ledger:
    """An append-only, hash-chained list of entries in a SQLite file, or in PostgreSQL by URL.

    | parameter | default | range                   | meaning                                                       |
    |-----------|---------|-------------------------|---------------------------------------------------------------|
    | url       | None    | a path, a database URL  | where it lies; None: `ASSAY_LEDGER`, or ledger.db in `home()` |
    | timeout   | 30      | at least 0, seconds     | how long to wait for other writers                            |

    >>> import tempfile
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
    >>> first = ledger.append("note", {"words": "the first of many"}, study="a1")
    >>> ledger.head() == first.digest, ledger.verify()
    (True, [])
    """

    def __init__(self, url: str | Path | None = None, *, timeout: float = TIMEOUT) -> None:
        self.url = _url(url)
        self.timeout = number(timeout, "timeout", 0)
        self.where = self.url.render_as_string(hide_password=True)
        if self.url.get_backend_name() == "sqlite":
            self.where = self.url.database or ":memory:"
        self.engine = _engine(self.url, self.timeout)
        with self._errors("opened"):
            self._open()

    def append(self, kind: str, body: dict[str, Any], study: str | None = None, blob: bytes | None = None) -> Entry:
        """Write an entry; when this returns it is on the disk.

        | parameter | default | range              | meaning                                       |
        |-----------|---------|--------------------|-----------------------------------------------|
        | kind      |         | text               | what it records: "seal", "look", ...          |
        | body      |         | dict of JSON types | what is to be remembered                      |
        | study     | None    | text               | which study it belongs to                     |
        | blob      | None    | bytes              | bytes kept beside it, their digest in the chain |
        """
        with self.transaction() as writer:
            return writer.append(kind, body, study, blob)

    def entries(self, kind: str | None = None, study: str | None = None) -> list[Entry]:
        """All entries in order, or those of one `kind` or one `study`."""
        with self._reading() as reader:
            return reader.entries(kind, study)

    def blob(self, entry: Entry) -> bytes:
        """The bytes that belong to `entry`, checked against their digest."""
        with self._reading() as reader:
            return reader.blob(entry)

    def head(self) -> str:
        """The digest of the last entry; whoever has written it down can tell whether the tail was cut."""
        with self._reading() as reader:
            return reader.head()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A block that reads and appends while every other writer waits; nothing of it stays if it raises."""
        with self._errors("written"), self.engine.connect() as plain:
            connection = plain.execution_options(immediate=True)
            with connection.begin():
                if self.engine.dialect.name != "sqlite":
                    connection.exec_driver_sql("LOCK TABLE entries IN EXCLUSIVE MODE")
                yield Transaction(connection)

    def verify(self, head: str | None = None) -> list[str]:
        """Every sign of damage or tampering, a sentence each; an empty list if there is none.

        `head` is a head digest known from a report: if no entry has it, the ledger was cut or rewritten.
        """
        with self._errors("read"), self.engine.connect() as connection, connection.begin():
            problems = chain.damage(connection) or schema.missing(connection)
            return problems or schema.tampered(connection) + chain.broken(connection) + chain.lost(connection, head)

    def glance(self) -> list[str]:
        """The signs of damage or tampering that a quick look finds: the last entries, the count, the triggers."""
        with self._errors("read"), self.engine.connect() as connection, connection.begin():
            return chain.glance(connection)

    def guard(self) -> None:
        """Refuse to go on with a ledger that a quick look finds damaged; `verify` looks at everything."""
        problems = self.glance()
        if problems:
            more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
            raise LedgerError(f"the ledger {self.where} was tampered with ({problems[0]}{more})", remedy=RESTORE)

    def studies(self) -> list[str]:
        """The names of the studies on record, the oldest first."""
        table = schema.entries
        query = select(table.c.study).where(table.c.kind == "study").group_by(table.c.study)
        with self._errors("read"), self.engine.connect() as connection, connection.begin():
            return [str(name) for name in connection.scalars(query.order_by(func.min(table.c.seq)))]

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        with self._errors("read"), self.engine.connect() as connection, connection.begin():
            yield Transaction(connection)

    def _open(self) -> None:
        with self.engine.connect() as plain, plain.begin():
            query = select(schema.versions.c.version).order_by(schema.versions.c.version.desc()).limit(1)
            known = inspect(plain).has_table("versions") and plain.scalar(query) == schema.VERSION
        if not known:
            with self.engine.connect() as plain:
                connection = plain.execution_options(immediate=True)
                with connection.begin():
                    schema.install(connection, self.where)

    @contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            raise explain(getattr(error, "orig", error), self.where, done) from error


def _url(url: str | Path | None) -> URL:
    named = os.environ.get("ASSAY_LEDGER") if url is None else str(url)
    if named is None:
        named = str(home() / "ledger.db")
    if "://" not in named:
        return URL.create("sqlite", database=str(Path(named).expanduser().absolute()))
    try:
        return make_url(named)
    except ArgumentError as error:
        raise LedgerError(f"{named!r} is not a database URL", remedy="pass a path, or sqlite:///file") from error


def _engine(url: URL, timeout: float) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, timeout)
    try:
        return create_engine(url, poolclass=NullPool)
    except (ImportError, NoSuchModuleError) as error:
        remedy = "install its driver, or use a SQLite file"
        raise LedgerError(f"no driver for {url.drivername} is installed ({error})", remedy=remedy) from error


def _sqlite(url: URL, timeout: float) -> Engine:
    if not url.database or url.database == ":memory:":
        raise LedgerError("a ledger in memory would be lost", remedy="pass the path of a file")
    folder = Path(url.database).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot create the directory {folder} ({reason(error)})"
        raise LedgerError(message, remedy="choose a writable directory") from error
    # A connection per operation: nothing is shared across a fork, and nobody holds a lock while idle.
    path = Path(url.database)
    more: dict[str, Any] = {"connect_args": {"timeout": timeout}}
    if still(path):
        more = {"creator": lambda: connect(path, timeout)}
    engine = create_engine(url, poolclass=NullPool, **more)

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        if "creator" not in more:
            set_pragmas(connection, timeout)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def set_pragmas(connection: sqlite3.Connection, timeout: float) -> None:
    """Make a SQLite connection durable, patient and append-only."""
    end = time.monotonic() + timeout
    for pragma in PRAGMAS:
        while True:
            try:
                connection.execute(f"PRAGMA {pragma}")
                break
            except sqlite3.OperationalError as error:
                # Two processes that make the same file at once: SQLite does not wait for the switch to WAL.
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry(**{**row, "body": decode(row["body"])})


def trusted_ledger(ledger: Any) -> Ledger:
    """The ledger asked for (one, a URL, or None for the user's own) if a quick look finds it whole and complete."""
    found = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    found.guard()
    missing = forgotten(found)
    if missing:
        named = ", ".join(missing[:3]) + (" and others" if len(missing) > 3 else "")
        message = (
            f"the ledger {found.where} was truncated or replaced: it has no record of studies started here ({named})"
        )
        raise LedgerError(
            message, remedy=f"restore it from a backup, or move their folders out of {home() / 'studies'}"
        )
    return found


def forgotten(ledger: Ledger) -> list[str]:
    """Studies that have begun in this home, but that the home's own ledger has no entry of.

    A study's journal is made after its entry is on the disk, so a journal without an entry shows a ledger that was
    replaced by another or by an older copy, which nothing inside it can show.
    """
    if Path(ledger.where) != home() / "ledger.db":
        return []
    known = set(ledger.studies())
    return sorted(one.parent.name for one in (home() / "studies").glob("*/journal.db") if one.parent.name not in known)
