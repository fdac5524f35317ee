"""How the ledger lies on disk: its tables, the triggers that keep them append-only, and upgrades between versions.

    versions (version, created)                                     one row per schema version the file has had
    entries  (seq, kind, study, body, blob, created, previous, digest)   the chain
    blobs    (digest, data)                                         bytes by their SHA-256

Three triggers per table refuse UPDATE, DELETE and, for the chain, any INSERT that is not its next link; so INSERT OR
REPLACE is refused also where somebody has switched recursive triggers off. A trigger can be dropped by whoever can
write the file: then the hash chain and the stored text of the schema tell (`tampered`).

An upgrade is one transaction: the file has the old version or the new one, never something between.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Column, Connection, Integer, LargeBinary, MetaData, Table, Text, inspect, text

from assay.errors import LedgerError

__all__ = ["GENESIS", "UPGRADES", "VERSION", "blobs", "entries", "install", "missing", "now", "tampered", "versions"]

VERSION = 1
UPGRADES: dict[int, Callable[[Connection], None]] = {}
"""From a version to the next: what to do to the tables before the new triggers are set."""

metadata = MetaData()
versions = Table(
    "versions",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("created", Text, nullable=False),
)
entries = Table(
    "entries",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("kind", Text, nullable=False, index=True),
    Column("study", Text, index=True),
    Column("body", Text, nullable=False),
    Column("blob", Text),
    Column("created", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    # SQLite then remembers the largest number ever given, so that a cut tail shows.
    sqlite_autoincrement=True,
)
blobs = Table(
    "blobs",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

GENESIS = "0" * 64
"""What the first entry names as the digest before it."""
REFUSED = "the ledger is append-only"
NEXT = f"""NEW.seq IS NOT (SELECT COALESCE(MAX(seq), 0) + 1 FROM entries)
  OR NEW.previous IS NOT COALESCE((SELECT digest FROM entries ORDER BY seq DESC LIMIT 1), '{GENESIS}')"""
TAKEN = {
    "versions": "EXISTS (SELECT 1 FROM versions WHERE version >= NEW.version)",
    "entries": NEXT,
    "blobs": "EXISTS (SELECT 1 FROM blobs WHERE digest = NEW.digest)",
}


def now() -> str:
    """This moment, UTC, in the form the ledger keeps."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def triggers(dialect: str) -> dict[str, str]:
    """The statements that make the tables append-only, by the trigger's name.

    >>> print(triggers("sqlite")["blobs_no_delete"])
    CREATE TRIGGER blobs_no_delete BEFORE DELETE ON blobs BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
    """
    if dialect != "sqlite":
        return {
            f"{table}_no_change": f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION assay_refuse()"
            for table in TAKEN
        }
    made = {}
    for table, taken in TAKEN.items():
        for event in ("UPDATE", "DELETE"):
            name = f"{table}_no_{event.lower()}"
            refuse = f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
            made[name] = f"CREATE TRIGGER {name} BEFORE {event} ON {table} {refuse}"
        name = f"{table}_next"
        made[name] = f"CREATE TRIGGER {name} BEFORE INSERT ON {table} WHEN {taken} BEGIN"
        made[name] += f" SELECT RAISE(ABORT, '{REFUSED}'); END"
    return made


def install(connection: Connection, where: str) -> None:
    """Make the tables of a new file, bring an older one up to date, and leave a current one alone."""
    found = set(inspect(connection).get_table_names())
    if not found:
        _create(connection)
        connection.execute(versions.insert().values(version=VERSION, created=now()))
        return
    if "versions" not in found:
        remedy = "use a separate file for the ledger"
        raise LedgerError(f"{where} is a database, but not an assay ledger", remedy=remedy)
    version = connection.scalar(text("SELECT MAX(version) FROM versions"))
    if version is None or version > VERSION:
        message = f"{where} was written by a newer version of assay (schema {version}, this one knows {VERSION})"
        raise LedgerError(message, remedy="update assay; nothing was changed")
    if version < VERSION:
        _upgrade(connection, int(version), where)


def _upgrade(connection: Connection, version: int, where: str) -> None:
    for step in range(version, VERSION):
        if step not in UPGRADES:
            remedy = "move the file away and start a new ledger; nothing was changed"
            raise LedgerError(f"{where} has schema {step}, from which there is no upgrade", remedy=remedy)
        UPGRADES[step](connection)
    _create(connection)
    connection.execute(versions.insert().values(version=VERSION, created=now()))


def _create(connection: Connection) -> None:
    metadata.create_all(connection)
    if connection.dialect.name != "sqlite":
        body = f"BEGIN RAISE EXCEPTION '{REFUSED}'; END"
        head = "CREATE OR REPLACE FUNCTION assay_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        connection.exec_driver_sql(f"{head} $$ {body} $$")
        present: set[str] = set()
    else:
        present = set(_stored(connection))
    for name, statement in triggers(connection.dialect.name).items():
        if name not in present:
            connection.exec_driver_sql(statement)


def _stored(connection: Connection) -> dict[str, str]:
    rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    return {str(row.name): str(row.sql) for row in rows}


def missing(connection: Connection) -> list[str]:
    """One sentence per table that is gone."""
    found = set(inspect(connection).get_table_names())
    return [f"table {name} is missing" for name in metadata.tables if name not in found]


def tampered(connection: Connection) -> list[str]:
    """One sentence per trigger that is missing, altered or not ours (SQLite only)."""
    if connection.dialect.name != "sqlite":
        return []
    stored, ours = _stored(connection), triggers("sqlite")
    problems = [f"trigger {name} is missing: rows could be changed" for name in ours if name not in stored]
    problems += [f"trigger {name} was altered" for name in ours if stored.get(name, ours[name]) != ours[name]]
    return problems + [f"trigger {name} is not the ledger's" for name in stored if name not in ours]
