"""Trouble with disks and ledgers, through the command line: one sentence, exit code 1 or 2, and old data stay readable.

Full and read-only disks are small tmpfs mounts where this user may mount (root in a container); elsewhere directories
without rights and a limit on file sizes stand in for them.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.experiment.storage import Ledger, files

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="mounts, rights and limits differ there")
RUN = ["run", "houses.csv", "-t", "price", "--test-size", "0.25", "--learner", "least squares", "--cv", "3"]
OTHER = ["run", "houses.csv", "-t", "price", "--test-size", "0.25", "--learner", "ridge", "--cv", "3", "--no-open"]


def call(*args: str):
    return CliRunner().invoke(app, list(args))


def refused(done, *words: str, codes=(1, 2)) -> str:
    """One sentence on standard error that holds the words; nothing that looks like a bug."""
    assert done.exit_code in codes, done.output
    assert done.stderr.startswith("assay: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.output
    assert "bug" not in done.stderr
    for word in words:
        assert word in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A home with one finished study; each test takes a copy."""
    root = tmp_path_factory.mktemp("trouble")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(100, 20, 90), "rooms": rng.integers(1, 6, 90)})
    frame.assign(price=2 * frame["size"] + rng.normal(0, 10, 90)).to_csv(root / "houses.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(root / "home"))
        patch.delenv("ASSAY_LEDGER", raising=False)
        patch.setattr("assay.report.html.write_report", page)
        patch.chdir(root)
        done = call(*RUN, "--out", "out")
        assert done.exit_code == 0, done.output
        yield root


def page(study, path):
    files.write_beside(path, b"<html>" * 20_000)
    return "0" * 64


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A directory of its own with the table and a copy of the home."""
    shutil.copytree(made / "home", tmp_path / "home")
    shutil.copy(made / "houses.csv", tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("assay.report.html.write_report", page)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def study_of(home: Path) -> str:
    return next(home.glob("studies/*")).name


def intact(home: Path) -> None:
    """The study that was there before is still there, whole, and can be shown."""
    os.environ["ASSAY_HOME"] = str(home)
    assert call("verify", study_of(home)).exit_code == 0
    assert json.loads(call("show", study_of(home), "--json").stdout)["test"]["rmse"]["n"] == 22


def mount(folder: Path, *options: str) -> bool:
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", folder], capture_output=True)
    return done.returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a tmpfs of some kilobytes at a new directory."""
    made: list[Path] = []

    def make(kilobytes: int) -> Path:
        folder = tmp_path / f"disk{len(made)}"
        folder.mkdir()
        if not shutil.which("mount") or os.geteuid() != 0 or not mount(folder, f"size={kilobytes}k"):
            pytest.skip("needs a user who may mount")
        made.append(folder)
        return folder

    yield make
    for folder in made:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def closed(tmp_path):
    """Closes a directory to writing, by rights or, for root, whom rights do not bind, by a read-only mount over it."""
    done: list[Path] = []

    def close(folder: Path) -> None:
        if os.geteuid() != 0:
            folder.chmod(0o555)
            done.append(folder)
            return
        bound = subprocess.run(["mount", "--bind", folder, folder], capture_output=True).returncode == 0
        if not bound:
            pytest.skip("root may write everywhere here")
        done.append(folder)
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)

    yield close
    for folder in done:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", folder], check=True)
        else:
            folder.chmod(0o755)


# A full disk.


@pytest.mark.parametrize("kilobytes", [4, 8, 80, 120, 128, 136, 144, 152])
def test_a_disk_that_fills_up_under_the_home(place, small_disk, monkeypatch, kilobytes):
    """Whatever is being written when the disk is full, the sentence says so, and no learner is blamed for it."""
    disk = small_disk(kilobytes)
    monkeypatch.setenv("ASSAY_HOME", str(disk / "home"))
    done = call(*RUN, "--out", "out")
    said = refused(done, "full" if "space" not in done.stderr else "space")
    assert "learner" not in said
    assert "Selected: baseline" not in done.stdout
    subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
    again = call(*RUN, "--out", "out")
    assert again.exit_code == 0, again.output
    assert "Selected: least squares" in again.stdout
    assert Ledger().verify() == []


@pytest.mark.parametrize("kilobytes", [4, 60])
def test_a_disk_that_fills_up_under_the_results(place, small_disk, kilobytes):
    disk = small_disk(kilobytes)
    done = call("report", study_of(place / "home"), "--out", str(disk / "out"))
    refused(done, "no space left")
    name = study_of(place / "home")
    again = call("open", name, "--out", str(disk / "out"))
    refused(again, "no space left", f"assay report {name} --out DIR")
    left = [one.name for one in (disk / "out").iterdir()]
    assert not [one for one in left if one.startswith(".")]  # no half-written file
    intact(place / "home")


def test_files_that_may_not_grow(place):
    """The same without a mount: a limit on the size of every file, hit by whatever is written."""
    limit = 100_000

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-m", "assay", *OTHER, "--out", "out"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, timeout=600)
    assert done.returncode in (1, 2)
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr
    assert not list(place.glob("**/.*.????????"))
    intact_after_more = call(*OTHER, "--out", "out")
    assert intact_after_more.exit_code == 0, intact_after_more.output
    assert Ledger().verify() == []


# A directory that is closed.


def test_a_home_that_cannot_be_written_to_can_still_be_read(place, closed):
    name = study_of(place / "home")
    closed(place / "home")
    refused(call(*OTHER, "--out", "out"), "writable")
    told = call("history")
    assert told.exit_code == 0
    assert name in told.stdout
    shown = call("show", name)
    assert shown.exit_code == 0, shown.output
    assert "Selected: least squares" in shown.stdout
    assert call("verify", name).exit_code == 0
    doctor = call("doctor")
    assert doctor.exit_code == 1
    assert "is not writable" in doctor.stderr


def test_a_new_home_that_cannot_be_made(place, closed, monkeypatch):
    (place / "shut").mkdir()
    closed(place / "shut")
    monkeypatch.setenv("ASSAY_HOME", str(place / "shut" / "home"))
    for args in (OTHER, ["history"], ["doctor"]):
        refused(call(*args), "shut", codes=(1, 2))


def test_results_that_cannot_be_written_are_refused_before_the_look(place, closed):
    (place / "shut").mkdir()
    closed(place / "shut")
    before = len(Ledger().entries())
    name = study_of(place / "home")
    for args in ([*RUN, "--out", "shut/out"], ["open", name, "--out", "shut/out"], ["report", name, "--out", "shut"]):
        refused(call(*args), "is not writable", codes=(2,))
    (place / "odd" / "report.html").mkdir(parents=True)
    refused(call(*RUN, "--out", "odd"), "report.html is a directory", codes=(2,))
    assert len(Ledger().entries()) == before
    intact(place / "home")


# A ledger that is locked, damaged, tampered with or replaced.


def test_a_locked_ledger(place, monkeypatch):
    monkeypatch.setattr("assay.experiment.storage.ledger.TIMEOUT", 0.2)
    monkeypatch.setattr(Ledger.__init__, "__kwdefaults__", {"timeout": 0.2})
    with closing(sqlite3.connect(place / "home" / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused(call(*OTHER, "--out", "out"), "another process has locked it", codes=(1,))
        assert call("history").exit_code == 0  # readers do not wait
        other.execute("ROLLBACK")
    intact(place / "home")


@pytest.mark.parametrize("damage", ["noise", "cut", "empty", "pages"])
def test_a_corrupt_ledger(place, damage):
    path = place / "home" / "ledger.db"
    name = study_of(place / "home")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    bad = {
        "noise": rng.bytes(5_000),
        "cut": good[: len(good) // 2],
        "empty": b"",
        "pages": good[:4096] + rng.bytes(len(good) - 4096),
    }[damage]
    path.write_bytes(bad)
    for args in (OTHER, ["history"], ["show", name], ["open", name], ["resume", name], ["verify", name], ["doctor"]):
        done = call(*args)
        assert done.exit_code == 1, (args, done.output)
        assert "Traceback" not in done.output
        assert "bug" not in done.stderr
        assert done.stderr.startswith("assay: ")
    for left in path.parent.glob("ledger.db*"):
        left.unlink()
    path.write_bytes(good)
    intact(place / "home")


CHANGES = {
    "an altered entry": ["UPDATE entries SET body = replace(body, '45', '46') WHERE kind = 'look'"],
    "a look taken back": ["DELETE FROM entries WHERE kind = 'look'"],
    "a tail cut off": ["DELETE FROM entries WHERE seq > 2"],
    "everything deleted": ["DELETE FROM entries"],
    "a tail cut off without a trace": ["DELETE FROM entries", "DELETE FROM sqlite_sequence"],
    "triggers dropped": [],
    "a table dropped": ["DROP TABLE blobs"],
}


def tamper(path: Path, statements: list[str], keep: bool) -> None:
    with closing(sqlite3.connect(path)) as connection:
        stored = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in stored:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for name, sql in stored if keep else ():
            if "blobs" not in name or "blobs" not in " ".join(statements):
                connection.execute(sql)
        connection.commit()


@pytest.mark.parametrize("change", CHANGES)
def test_tampering_is_noticed_by_every_command(place, change):
    """The look is the entry everybody would like to take back; the triggers are put back so that only it shows."""
    name = study_of(place / "home")
    tamper(place / "home" / "ledger.db", CHANGES[change], keep=change != "triggers dropped")
    for args in (OTHER, RUN, ["history"], ["show", name], ["open", name], ["resume", name], ["report", name]):
        refused(call(*args), "ledger", codes=(1,))
    for args in (["verify", name], ["doctor"]):
        done = call(*args)
        assert done.exit_code == 1
        assert "assay: " in done.stderr
        assert "Traceback" not in done.output


def test_an_entry_altered_long_ago_is_noticed_when_it_is_read(place):
    """Beyond the entries of the quick look: what is read is checked, whoever reads it."""
    ledger = Ledger()
    for at in range(60):
        ledger.append("note", {"at": at})
    tamper(place / "home" / "ledger.db", CHANGES["an altered entry"], keep=True)
    assert Ledger().glance() == []
    for args in (["history"], ["show", study_of(place / "home")], [*RUN, "--out", "out"]):
        refused(call(*args), "entry 4 (look) of the ledger was altered", codes=(1,))


def test_a_ledger_put_back_to_an_older_copy_is_noticed(place):
    """Nothing inside an older copy is wrong; the work of the later study beside it tells."""
    path = place / "home" / "ledger.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    older = path.read_bytes()
    assert call(*OTHER, "--out", "out").exit_code == 0
    for left in path.parent.glob("ledger.db*"):
        left.unlink()
    path.write_bytes(older)
    for args in (RUN, ["history"], ["show", study_of(place / "home")]):
        refused(call(*args), "was truncated or replaced", codes=(1,))
    assert "has a working folder but is not in the ledger" in call("doctor").stderr


# Reading.


def test_reading_writes_nothing(place):
    """Showing, verifying or running the very same study again is no look and leaves no line."""
    name = study_of(place / "home")
    before = [entry.kind for entry in Ledger().entries()]
    for args in (["show", name], ["show", name, "--json"], ["verify", name], ["history"], ["doctor"]):
        assert call(*args).exit_code == 0
    assert [entry.kind for entry in Ledger().entries()] == before
    for args in (["report", name, "--out", "again"], ["open", name, "--out", "again"], [*RUN, "--out", "again"]):
        done = call(*args)
        assert done.exit_code == 0, done.output
    assert [entry.kind for entry in Ledger().entries()] == [*before, "files", "files", "files"]
    # Another study that comes to the same predictions is written down once, as a replay.
    other = [*RUN[:-1], "4", "--out", "other"]
    for _ in range(2):
        assert call(*other).exit_code == 0
    kinds = [entry.kind for entry in Ledger().entries()]
    assert kinds.count("replay") == 1
    assert kinds.count("look") == 1
