"""The links of the ledger's chain: how they are made, and every sign that one was altered, moved, lost or cut off.

    digest_i = SHA-256(digest_{i-1} | canonical JSON of (seq, kind, study, body, created, SHA-256 of the blob))

`broken`, `lost` and `damage` read everything; `glance` reads the last `RECENT` entries and counts the rest, which takes
a millisecond or two and shows a cut tail, a deleted entry, a dropped trigger and any change among the last entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, select

from assay.experiment.storage import schema
from assay.experiment.storage.canonical_json import encode

__all__ = ["RECENT", "altered", "broken", "damage", "digest_of", "glance", "lost"]

RECENT = 50
"""Entries at the end of the chain whose links are looked at every time."""


def digest_of(row: Mapping[str, Any]) -> str:
    """The link of an entry to the one before it; `body` enters as the text that is stored."""
    encoded = encode([row["seq"], row["kind"], row["study"], row["body"], row["created"], row["blob"]])
    return hashlib.sha256(f"{row['previous']}|{encoded}".encode("utf-8", "surrogatepass")).hexdigest()


def altered(row: Mapping[str, Any]) -> bool:
    """Whether a stored entry is not the one its digest was made of."""
    return digest_of(row) != row["digest"]


def damage(connection: Connection) -> list[str]:
    """What SQLite itself finds wrong with its file."""
    if connection.dialect.name != "sqlite":
        return []
    found = [row[0] for row in connection.exec_driver_sql("PRAGMA integrity_check")]
    return [] if found == ["ok"] else [f"the file is damaged: {words}" for words in found]


def broken(connection: Connection) -> list[str]:
    """Links that do not fit: numbers, digests, and the bytes they cover."""
    rows = connection.execute(select(schema.entries).order_by(schema.entries.c.seq)).mappings()
    problems = _unlinked([{**row} for row in rows], schema.GENESIS, 1)
    kept = {row.digest: hashlib.sha256(row.data).hexdigest() for row in connection.execute(select(schema.blobs))}
    problems += [f"the stored bytes {digest[:12]} were altered" for digest, true in kept.items() if digest != true]
    named = connection.execute(select(schema.entries.c.seq, schema.entries.c.blob))
    return problems + [f"the bytes of entry {seq} are missing" for seq, blob in named if blob and blob not in kept]


def lost(connection: Connection, head: str | None = None) -> list[str]:
    """Signs that the tail was cut: a larger number was once given, or a known head is gone."""
    problems, table = [], schema.entries
    last = connection.scalar(select(func.max(table.c.seq))) or 0
    if connection.dialect.name == "sqlite":
        given = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").scalar() or 0
        if given > last:
            problems.append(f"the last {given - last} entries were cut off")
    if head is not None and head != schema.GENESIS:
        found = connection.scalar(select(table.c.seq).where(table.c.digest == head))
        if found is None:
            problems.append(f"no entry has the known head {head[:12]}: the ledger was cut or rewritten")
    return problems


def glance(connection: Connection) -> list[str]:
    """The first signs of damage that a quick look finds, a clause each."""
    problems = schema.missing(connection)
    if problems:
        return problems
    problems = schema.tampered(connection) + lost(connection)
    table = schema.entries
    count, last = connection.execute(select(func.count(), func.max(table.c.seq)).select_from(table)).one()
    if count != (last or 0):
        problems.append(f"{(last or 0) - count} entries before the last are missing")
    query = select(table).order_by(table.c.seq.desc()).limit(RECENT)
    rows = [{**row} for row in connection.execute(query).mappings()][::-1]
    if rows:
        whole = len(rows) < RECENT
        problems += _unlinked(rows, schema.GENESIS if whole else rows[0]["previous"], 1 if whole else rows[0]["seq"])
    return problems


def _unlinked(rows: list[dict[str, Any]], previous: str, expected: int) -> list[str]:
    problems = []
    for row in rows:
        seq = row["seq"]
        if seq != expected:
            problems.append(f"entry {expected} is missing" if seq > expected else f"entry {seq} is out of order")
        if row["previous"] != previous:
            problems.append(f"entry {seq} does not follow the entry before it")
        if altered(row):
            problems.append(f"entry {seq} was altered")
        previous, expected = row["digest"], seq + 1
    return problems
