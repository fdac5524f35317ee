"""The ledger: append-only, chained, durable, shared by processes, and clear about trouble."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
from contextlib import contextmanager

import numpy as np
import pytest
from sqlalchemy import event

from assay.errors import DataTypeError, LedgerError, ParameterError
from assay.experiment.storage import schema
from assay.experiment.storage.canonical_json import decode, encode
from assay.experiment.storage.chain import RECENT
from assay.experiment.storage.ledger import Entry, Ledger, home
from tests.naive.experiment import chain_digest

# One import for all workers, and none of this process's threads in them.
WORKERS = multiprocessing.get_context("forkserver")
WORKERS.set_forkserver_preload(["tests.experiment.test_ledger"])


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.db")


def filled(path, n=5):
    made = Ledger(path)
    for at in range(n):
        made.append("note", {"at": at}, study=f"s{at % 2}", blob=b"bytes %d" % at if at % 2 else None)
    return made


def raw(ledger, *statements):
    """Somebody with the file and no scruples: triggers dropped, then the statements."""
    with sqlite3.connect(ledger.where) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
    connection.close()


def restore_triggers(ledger):
    with sqlite3.connect(ledger.where) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for name, statement in schema.triggers("sqlite").items():
            if name.split("_")[0] in tables:
                connection.execute(statement)
    connection.close()


# What it keeps.


def test_entries_come_back_as_they_were(ledger):
    body = {"x": 1, "ü": [1.5, None, True], "nan": float("nan"), "inf": -np.inf, "n": np.int64(3), "a": np.arange(2)}
    made = ledger.append("seal", body, study="s", blob=b"\x00\xff")
    assert isinstance(made, Entry)
    (back,) = ledger.entries()
    assert (back.seq, back.kind, back.study, back.digest) == (1, "seal", "s", made.digest)
    assert np.isnan(back.body.pop("nan"))
    assert back.body == {"x": 1, "ü": [1.5, None, True], "inf": -np.inf, "n": 3, "a": [0, 1]}
    assert ledger.blob(back) == b"\x00\xff"
    assert ledger.head() == made.digest
    assert str(made).strip().startswith("1 ")
    assert made.to_frame().loc[1, "kind"] == "seal"


def test_entries_are_found_by_kind_and_study(tmp_path):
    ledger = filled(tmp_path / "l.db")
    assert [entry.seq for entry in ledger.entries(study="s1")] == [2, 4]
    assert [entry.seq for entry in ledger.entries("note", "s0")] == [1, 3, 5]
    assert ledger.entries("look") == []


def test_the_chain_is_what_the_definition_says(tmp_path):
    ledger = filled(tmp_path / "l.db")
    connection = sqlite3.connect(ledger.where)
    previous = "0" * 64
    for seq, kind, study, body, blob, created, stored, digest in connection.execute("SELECT * FROM entries"):
        assert stored == previous
        previous = chain_digest(previous, seq, kind, study, body, created, blob)
        assert digest == previous
    connection.close()
    assert ledger.head() == previous


def test_an_empty_ledger_has_a_head_and_no_problem(ledger):
    assert ledger.head() == "0" * 64
    assert ledger.verify() == ledger.verify(ledger.head()) == []


def test_equal_bytes_are_kept_once_and_missing_ones_are_said(ledger):
    first, second, third = ledger.append("a", {}, blob=b"x"), ledger.append("a", {}, blob=b"x"), ledger.append("a", {})
    assert first.blob == second.blob
    with pytest.raises(LedgerError, match=r"entry 3 .* has no stored bytes"):
        ledger.blob(third)


def test_what_json_cannot_hold_is_refused_and_nothing_is_written(ledger):
    for body in ({"x": object()}, {"x": {1: 2}}, {"x": {1, 2}}):
        with pytest.raises(DataTypeError, match="the entry"):
            ledger.append("note", body)
    assert ledger.entries() == []


def test_canonical_json_has_one_text():
    assert encode({"b": 1, "a": [1.0, -np.inf]}) == '{"a":[1.0,{"$float":"-inf"}],"b":1}'
    assert decode(encode({"a": (1, 2)})) == {"a": [1, 2]}


def test_a_transaction_that_raises_leaves_nothing(ledger):
    def stopped():
        with ledger.transaction() as writer:
            writer.append("note", {})
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stopped()
    assert ledger.entries() == []
    with ledger.transaction() as writer:
        assert writer.append("a", {}).digest == writer.append("b", {}).previous
        assert [entry.kind for entry in writer.entries()] == ["a", "b"]
        assert writer.head() == writer.entries()[-1].digest


# Append-only.


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = '{}' WHERE seq = 1",
        "DELETE FROM entries WHERE seq = 5",
        "INSERT OR REPLACE INTO entries VALUES (5, 'x', NULL, '{}', NULL, '', '', 'x')",
        "INSERT OR REPLACE INTO blobs SELECT digest, x'00' FROM blobs LIMIT 1",
        "INSERT INTO entries VALUES (9, 'x', NULL, '{}', NULL, '', '', 'x')",
        "INSERT INTO entries VALUES (6, 'x', NULL, '{}', NULL, '', 'not the head', 'x')",
        "DELETE FROM blobs",
        "UPDATE blobs SET data = x'00'",
        "UPDATE versions SET version = 0",
        "DELETE FROM versions",
        "REPLACE INTO versions VALUES (1, '')",
    ],
)
@pytest.mark.parametrize("recursive", ["ON", "OFF"])
def test_triggers_refuse_all_changes(tmp_path, statement, recursive):
    ledger = filled(tmp_path / "l.db")
    connection = sqlite3.connect(ledger.where)
    connection.execute(f"PRAGMA recursive_triggers = {recursive}")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()
    assert ledger.verify() == []


def test_connections_are_durable_and_recursive(ledger):
    with ledger.engine.connect() as connection:
        wanted = {"journal_mode": "wal", "synchronous": 2, "recursive_triggers": 1, "busy_timeout": 30_000}
        for pragma, value in wanted.items():
            assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() == value


# Tampering shows.


TAMPERINGS = {
    "edited body": ["UPDATE entries SET body = '{\"at\":7}' WHERE seq = 3"],
    "edited date": ["UPDATE entries SET created = 'x' WHERE seq = 3"],
    "edited study": ["UPDATE entries SET study = NULL WHERE seq = 3"],
    "deleted row": ["DELETE FROM entries WHERE seq = 3"],
    "deleted first": ["DELETE FROM entries WHERE seq = 1"],
    "swapped rows": [
        "UPDATE entries SET seq = 99 WHERE seq = 2",
        "UPDATE entries SET seq = 2 WHERE seq = 3",
        "UPDATE entries SET seq = 3 WHERE seq = 99",
    ],
    "truncated tail": ["DELETE FROM entries WHERE seq >= 4"],
    "deleted last": ["DELETE FROM entries WHERE seq = 5"],
    "edited blob": ["UPDATE blobs SET data = x'00'"],
    "deleted blob": ["DELETE FROM blobs WHERE digest = (SELECT blob FROM entries WHERE seq = 2)"],
    "deleted blobs": ["DELETE FROM blobs"],
    "emptied": ["DELETE FROM entries"],
    "dropped table": ["DROP TABLE blobs"],
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_verify_finds(name, tmp_path):
    ledger = filled(tmp_path / "l.db")
    assert ledger.verify(ledger.head()) == []
    raw(ledger, *TAMPERINGS[name])
    restore_triggers(ledger)
    assert ledger.verify() != []


def chain_anew(ledger):
    """Make every link from the entries as they are now."""
    with sqlite3.connect(ledger.where) as connection:
        previous = "0" * 64
        for seq, kind, study, body, blob, created, *_ in connection.execute("SELECT * FROM entries").fetchall():
            digest = chain_digest(previous, seq, kind, study, body, created, blob)
            connection.execute("UPDATE entries SET previous = ?, digest = ? WHERE seq = ?", (previous, digest, seq))
            previous = digest
    connection.close()


@pytest.mark.parametrize("look", ["verify", "glance"])
def test_an_entry_with_a_digest_of_its_own_does_not_fit_the_next(look, tmp_path):
    ledger = filled(tmp_path / "l.db")
    entry = ledger.entries()[2]
    forged = chain_digest(entry.previous, 3, "note", entry.study, '{"at":7}', entry.created, entry.blob)
    raw(ledger, f"UPDATE entries SET body = '{{\"at\":7}}', digest = '{forged}' WHERE seq = 3")
    restore_triggers(ledger)
    assert getattr(ledger, look)() == ["entry 4 does not follow the entry before it"]


def test_a_deleted_entry_shows_by_its_number_when_the_rest_is_chained_anew(tmp_path):
    ledger = filled(tmp_path / "l.db")
    raw(ledger, "DELETE FROM entries WHERE seq = 3")
    chain_anew(ledger)
    restore_triggers(ledger)
    assert ledger.verify() == ["entry 3 is missing"]


@pytest.mark.parametrize("n", [RECENT - 1, RECENT, RECENT + 1])
def test_a_glance_finds_nothing_wrong_with_ledgers_of_any_length(n, tmp_path):
    assert filled(tmp_path / "l.db", n).glance() == []


def test_verify_finds_dropped_and_foreign_and_altered_triggers(tmp_path):
    ledger = filled(tmp_path / "l.db")
    raw(ledger)
    assert any("entries_no_update is missing" in problem for problem in ledger.verify())
    restore_triggers(ledger)
    assert ledger.verify() == []
    name = "entries_no_update"
    harmless = f"CREATE TRIGGER {name} BEFORE UPDATE ON entries WHEN 0 BEGIN SELECT 1; END"
    with sqlite3.connect(ledger.where) as connection:
        connection.execute(f"DROP TRIGGER {name}")
        connection.execute(harmless)
        connection.execute("CREATE TRIGGER other AFTER INSERT ON entries BEGIN SELECT 1; END")
    connection.close()
    problems = ledger.verify()
    assert "trigger entries_no_update was altered" in problems
    assert "trigger other is not the ledger's" in problems


def test_a_tail_cut_without_a_trace_shows_by_the_known_head(tmp_path):
    ledger = filled(tmp_path / "l.db")
    head = ledger.head()
    raw(ledger, "DELETE FROM entries WHERE seq = 5", "UPDATE sqlite_sequence SET seq = 4")
    restore_triggers(ledger)
    assert ledger.verify() == []  # nothing inside the file can tell
    assert any(head[:12] in problem for problem in ledger.verify(head))
    ledger.append("note", {"at": "later"})
    assert any(head[:12] in problem for problem in ledger.verify(head))


def test_reading_altered_bytes_is_refused(tmp_path):
    ledger = filled(tmp_path / "l.db")
    raw(ledger, "UPDATE blobs SET data = x'00'")
    with pytest.raises(LedgerError, match="altered"):
        ledger.blob(ledger.entries()[1])


# Several processes, and killed ones.


def write_many(path, who, n):
    ledger = Ledger(path)
    for at in range(n):
        ledger.append("note", {"who": who, "at": at})


def test_eight_processes_write_at_once(tmp_path):
    path = tmp_path / "l.db"
    workers = [WORKERS.Process(target=write_many, args=(path, who, 50)) for who in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
        assert worker.exitcode == 0
    ledger = Ledger(path)
    entries = ledger.entries()
    assert [entry.seq for entry in entries] == list(range(1, 401))
    for who in range(8):
        assert [entry.body["at"] for entry in entries if entry.body["who"] == who] == list(range(50))
    assert ledger.verify() == []


def write_for_ever(path, told):
    ledger = Ledger(path)
    while True:
        told.send(ledger.append("note", {"words": "x" * 3000}, blob=os.urandom(5000)).seq)


def drain(told):
    while True:
        try:
            yield told.recv()
        except EOFError:
            return


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path):
    path, rng = tmp_path / "l.db", np.random.default_rng(0)
    acknowledged = 0
    for _ in range(6):
        heard, told = WORKERS.Pipe(duplex=False)
        worker = WORKERS.Process(target=write_for_ever, args=(path, told))
        worker.start()
        told.close()
        for _ in range(rng.integers(1, 100)):
            acknowledged = heard.recv()
        worker.kill()
        worker.join(600)
        acknowledged = max([acknowledged, *drain(heard)])
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
        ledger = Ledger(path)
        assert ledger.verify() == []
        assert len(ledger.entries()) >= acknowledged > 0


def open_and_wait(path):
    ledger = Ledger(path)
    with ledger.transaction() as writer:
        writer.append("half", {})
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_writer_killed_inside_a_transaction_leaves_nothing_of_it(tmp_path):
    ledger = filled(tmp_path / "l.db")
    worker = WORKERS.Process(target=open_and_wait, args=(ledger.where,))
    worker.start()
    worker.join(600)
    assert worker.exitcode == -signal.SIGKILL
    assert ledger.entries("half") == []
    assert ledger.append("note", {}).seq == 6
    assert ledger.verify() == []


# Trouble is said in a sentence, and old data stay.


def test_locked(tmp_path):
    ledger = filled(tmp_path / "l.db")
    other = sqlite3.connect(ledger.where, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match=r"l\.db cannot be written because another process has locked it; wait"):
        Ledger(ledger.where, timeout=0.1).append("note", {})
    assert len(Ledger(ledger.where, timeout=0.1).entries()) == 5  # readers do not wait
    other.execute("ROLLBACK")
    other.close()
    assert ledger.append("note", {}).seq == 6


def test_corrupt_files(tmp_path):
    path = tmp_path / "l.db"
    path.write_bytes(b"this is no database at all" * 100)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="damaged or not a ledger; move it away"):
        Ledger(path)
    assert path.read_bytes() == before


def test_damaged_pages_show(tmp_path):
    ledger = filled(tmp_path / "l.db", 60)
    with sqlite3.connect(ledger.where) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with open(ledger.where, "r+b") as file:
        file.seek(4096)
        file.write(np.random.default_rng(0).bytes(4 * 4096))
    with pytest.raises(LedgerError, match="damaged or not a ledger; move it away"):
        Ledger(ledger.where)


def test_full_disk(tmp_path):
    ledger = filled(tmp_path / "l.db")
    pages = sqlite3.connect(ledger.where).execute("PRAGMA page_count").fetchone()[0]
    event.listen(ledger.engine, "connect", lambda c, _: c.execute(f"PRAGMA max_page_count = {pages + 1}"))
    with pytest.raises(LedgerError, match="because the disk is full; free some disk space"):
        ledger.append("note", {}, blob=bytes(100_000))
    again = Ledger(ledger.where)
    assert len(again.entries()) == 5
    assert again.verify() == []
    assert again.append("note", {}, blob=bytes(100_000)).seq == 6


@contextmanager
def nobody():
    """As a user without rights: root may write anywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_read_only_directory(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    ledger = filled(folder / "l.db")
    os.chmod(ledger.where, 0o444)
    folder.chmod(0o555)
    above = [up for up in (tmp_path, *tmp_path.parents[:4]) if os.stat(up).st_uid == os.geteuid()]
    modes = [up.stat().st_mode for up in above]
    said = []
    try:
        for up in above:
            up.chmod(0o755)
        with nobody():
            for path in (folder / "l.db", folder / "new.db", folder / "below" / "new.db"):
                with pytest.raises(LedgerError) as caught:
                    Ledger(path).append("note", {})
                said.append(str(caught.value))
    finally:
        for up, mode in zip(above, modes, strict=True):
            up.chmod(mode)
        folder.chmod(0o755)
        os.chmod(ledger.where, 0o644)
    assert "cannot be written because its directory is not writable; make the directory writable" in said[0]
    assert "cannot be opened because its directory is not writable" in said[1]
    assert "(permission denied); choose a writable directory" in said[2]
    assert len(ledger.entries()) == 5
    assert ledger.verify() == []


def test_a_read_only_connection_says_so(tmp_path):
    ledger = filled(tmp_path / "l.db")
    event.listen(ledger.engine, "connect", lambda c, _: c.execute("PRAGMA query_only = ON"))
    with pytest.raises(LedgerError, match="it is read-only; make the file"):
        ledger.append("note", {})
    assert len(ledger.entries()) == 5


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_ledger_in_memory_is_refused(url):
    with pytest.raises(LedgerError, match="would be lost"):
        Ledger(url)


def test_bad_urls_and_drivers():
    with pytest.raises(LedgerError, match="not a database URL"):
        Ledger("http//://x")
    with pytest.raises(LedgerError, match="no driver for"):
        Ledger("nosuch://host/db")
    with pytest.raises(ParameterError, match="timeout"):
        Ledger("x.db", timeout=-1)


# Versions.


def version_zero(path):
    """A made-up older file: entries without a study, and no chain."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE versions (version INTEGER PRIMARY KEY NOT NULL, created TEXT NOT NULL)")
        connection.execute("INSERT INTO versions VALUES (0, '2020')")
        connection.execute("CREATE TABLE lines (at INTEGER PRIMARY KEY, kind TEXT, body TEXT)")
        connection.executemany("INSERT INTO lines VALUES (?, ?, ?)", [(1, "note", '{"a":1}'), (2, "look", "{}")])
    connection.close()


def upgrade_zero(connection):
    from assay.experiment.storage.ledger import Transaction

    schema.metadata.create_all(connection)
    for kind, body in connection.exec_driver_sql("SELECT kind, body FROM lines ORDER BY at").all():
        Transaction(connection).append(kind, json.loads(body))
    connection.exec_driver_sql("DROP TABLE lines")


def test_an_older_file_is_upgraded(tmp_path, monkeypatch):
    path = tmp_path / "l.db"
    version_zero(path)
    monkeypatch.setitem(schema.UPGRADES, 0, upgrade_zero)
    ledger = Ledger(path)
    assert [(entry.kind, entry.body) for entry in ledger.entries()] == [("note", {"a": 1}), ("look", {})]
    assert ledger.verify() == []
    assert ledger.append("note", {}).seq == 3
    assert Ledger(path).verify() == []
    versions = sqlite3.connect(path).execute("SELECT version FROM versions").fetchall()
    assert versions == [(0,), (1,)]


def test_an_upgrade_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "l.db"
    version_zero(path)

    def fails(connection):
        upgrade_zero(connection)
        raise LedgerError("power failed")

    monkeypatch.setitem(schema.UPGRADES, 0, fails)
    with pytest.raises(LedgerError, match="power failed"):
        Ledger(path)
    assert sqlite3.connect(path).execute("SELECT COUNT(*) FROM lines").fetchone() == (2,)
    monkeypatch.setitem(schema.UPGRADES, 0, upgrade_zero)
    assert len(Ledger(path).entries()) == 2


def test_no_way_up_a_newer_file_and_a_foreign_one(tmp_path):
    version_zero(tmp_path / "old.db")
    with pytest.raises(LedgerError, match="has schema 0, from which there is no upgrade"):
        Ledger(tmp_path / "old.db")
    new = filled(tmp_path / "new.db")
    with sqlite3.connect(new.where) as connection:
        connection.execute("INSERT INTO versions VALUES (7, '2099')")
    connection.close()
    with pytest.raises(LedgerError, match=r"written by a newer version of assay \(schema 7"):
        Ledger(new.where)
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    with pytest.raises(LedgerError, match="not an assay ledger"):
        Ledger(tmp_path / "other.db")


# Where it lies.


def test_home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "deep" / "home"))
    monkeypatch.delenv("ASSAY_LEDGER", raising=False)
    assert home() == tmp_path / "deep" / "home"
    assert home().stat().st_mode & 0o777 == 0o700
    assert Ledger().where == str(home() / "ledger.db")
    monkeypatch.setenv("ASSAY_LEDGER", f"sqlite:///{tmp_path}/elsewhere.db")
    assert Ledger().where == f"{tmp_path}/elsewhere.db"
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(LedgerError, match="set ASSAY_HOME"):
        home()


def test_home_without_a_name_is_the_platforms(tmp_path, monkeypatch):
    monkeypatch.delenv("ASSAY_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home().name == "assay"


def test_postgresql_gets_triggers_of_its_own():
    made = schema.triggers("postgresql")
    assert set(made) == {"versions_no_change", "entries_no_change", "blobs_no_change"}
    assert all("BEFORE UPDATE OR DELETE OR TRUNCATE" in statement for statement in made.values())
