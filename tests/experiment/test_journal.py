"""The journal: finished pieces come back as they were, also after a kill, and trouble is said in a sentence."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest

from assay.errors import AssayWarning, DataTypeError, LedgerError
from assay.experiment.storage.journal import Journal

WORKERS = multiprocessing.get_context("forkserver")
WORKERS.set_forkserver_preload(["tests.experiment.test_ledger", "tests.experiment.test_journal"])


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "study.journal")


def equal(a, b):
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.tobytes() == b.tobytes() and a.shape == b.shape
    return type(a) is type(b) and (a == b or a != a)


def test_values_come_back_to_the_bit(journal):
    value = {
        "floats": np.array([[1.0, np.nan], [-0.0, np.inf]]),
        "narrow": np.arange(3, dtype=np.float32),
        "whole": np.array([2**62 + 1, -1]),
        "flags": np.array([True, False]),
        "words": np.array(["a", "éü\0"]),
        "empty": np.empty((0, 3)),
        "dates": np.array(["2020-01-31"], dtype="datetime64[ns]"),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)).T.copy(),
        "nested": {"list": [np.arange(2), {"deep": np.array([7])}, None], "text": "ü\0\ud800", "flag": True},
        "nan": float("nan"),
        "n": 3,
        "$float": 1,
        "keys": [{"$float": "x"}, {"$array": 0}, {"$$array": 0}, {"$objects": 1, "$shape": 2}],
    }
    journal.put("a/0", value)
    assert equal(journal.get("a/0"), value)


def test_arrays_of_labels_come_back(journal):
    labels = np.array([["yes", None], ["no", 3]], dtype=object)
    journal.put("a", {"labels": labels})
    back = journal.get("a")["labels"]
    assert back.dtype == object
    assert back.tolist() == labels.tolist()


def test_keys_in_order_and_absent_ones(journal):
    for key in ("b", "a", "c"):
        journal.put(key, {"x": 1})
    journal.put("b", {"x": 2})
    assert journal.keys() == ["b", "a", "c"]
    assert journal.get("b") == {"x": 2}
    assert journal.get("d") is None
    assert Journal(journal.path).keys() == ["b", "a", "c"]


@pytest.mark.parametrize("value", [[1], 3, None])
def test_only_dicts_are_kept(journal, value):
    with pytest.raises(DataTypeError, match="pass a dict"):
        journal.put("a", value)


def test_objects_are_refused(journal):
    with pytest.raises(DataTypeError, match=r"\['x'\].* contains a object"):
        journal.put("a", {"x": object()})
    with pytest.raises(DataTypeError, match="contains a"):
        journal.put("a", {"x": np.array([object()], dtype=object)})
    assert journal.keys() == []


def test_a_rotten_piece_is_not_believed(journal):
    journal.put("a", {"x": np.arange(3.0)})
    journal.put("b", {"x": 1})
    with sqlite3.connect(journal.path) as connection:
        connection.execute("UPDATE pieces SET value = CAST(value || x'00' AS BLOB) WHERE key = 'a'")
    connection.close()
    assert journal.get("a") is None
    assert journal.get("b") == {"x": 1}


def test_it_crosses_to_other_processes_and_threads(journal):
    journal.put("a", {"x": 1})
    assert pickle.loads(pickle.dumps(journal)).get("a") == {"x": 1}
    threads = [threading.Thread(target=journal.put, args=(f"t{i}", {"x": i})) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(journal.keys()) == ["a", "t0", "t1", "t2", "t3"]


def put_for_ever(path, told):
    journal = Journal(path)
    done = len(journal.keys())
    while True:
        journal.put(f"fold {done}", {"loss": np.full(2000, float(done))})
        told.send(done)
        done += 1


def test_finished_pieces_survive_kills(tmp_path):
    path, rng = tmp_path / "study.journal", np.random.default_rng(1)
    for _ in range(6):
        heard, told = WORKERS.Pipe(duplex=False)
        worker = WORKERS.Process(target=put_for_ever, args=(path, told))
        worker.start()
        told.close()
        for _ in range(rng.integers(1, 100)):
            last = heard.recv()
        worker.kill()
        worker.join(600)
        while True:
            try:
                last = heard.recv()
            except EOFError:
                break
        journal = Journal(path)
        assert len(journal.keys()) >= last + 1
        for at in range(len(journal.keys())):
            assert (journal.get(f"fold {at}")["loss"] == at).all()
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


def random_bytes(path):
    path.write_bytes(np.random.default_rng(0).bytes(5000))


def cut(path):
    os.truncate(path, 5000)


def hole(path):
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(data)


def other_table(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE pieces (x)")


@pytest.mark.parametrize("harm", [random_bytes, cut, hole, other_table])
def test_a_damaged_journal_is_put_aside_and_begun_anew(tmp_path, harm):
    path = tmp_path / "journal.db"
    journal = Journal(path)
    for at in range(20):
        journal.put(f"fold {at}", {"x": np.zeros(500)})
    with journal._connection("x") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    del journal
    harm(path)
    left = path.read_bytes()
    with pytest.warns(AssayWarning, match=r"is damaged, so its folds are computed again; .*journal.db.damaged"):
        journal = Journal(path)
    assert (tmp_path / "journal.db.damaged").read_bytes() == left
    assert journal.keys() == []
    journal.put("fold 0", {"x": 1})
    assert Journal(path).get("fold 0") == {"x": 1}


def test_trouble_is_said(tmp_path):
    with pytest.raises(LedgerError, match="cannot be opened because the file cannot be opened"):
        Journal(tmp_path / "missing" / "study.journal")
    journal = Journal(tmp_path / "full")
    journal.put("a", {"x": 1})
    with journal._connection("x") as connection:
        connection.execute("PRAGMA max_page_count = 4")
    with pytest.raises(LedgerError, match="the disk is full"):
        journal.put("b", {"x": np.zeros(100_000)})
    assert journal.get("a") == {"x": 1}
    assert Journal(tmp_path / "full").keys() == ["a"]
