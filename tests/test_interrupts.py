"""A signal at any moment of a command: one sentence, the right exit code, no traceback, nothing left running."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from assay.cli import app
from tests.tiers import slow

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="handlers are seen in /proc")

WAITS = """
import threading
from sklearn.base import BaseEstimator, RegressorMixin
class Waits(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        print("fitting", flush=True)
        threading.Event().wait()
        return self
    def predict(self, X):
        return [0.0] * len(X)
"""


STAYS = """
import os, threading
from sklearn.base import BaseEstimator, RegressorMixin
class Stays(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        os.write(os.open("alive", os.O_WRONLY), b"x")  # open as long as this process lives
        threading.Event().wait()
    def predict(self, X):
        raise AssertionError("it is never fitted")
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    frame.assign(y=frame["a"] + rng.normal(size=120)).to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "waits.py").write_text(WAITS)
    return tmp_path


def start(folder, *args):
    paths = [str(folder), *(path for path in sys.path if path)]
    environment = {**os.environ, "ASSAY_HOME": str(folder / "home"), "PYTHONPATH": os.pathsep.join(paths)}

    def usual():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # a background job of a shell ignores SIGINT

    return subprocess.Popen(
        [sys.executable, "-u", "-m", "assay", *args],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=usual,
    )


def catches(process, number):
    """Whether the process has a handler of the signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def until_it_listens(process):
    while process.poll() is None and not catches(process, signal.SIGTERM):
        pass


def stop(process, number):
    process.send_signal(number)
    _, said = process.communicate(timeout=600)
    return process.returncode, said


RUN = ("run", "table.csv", "-t", "y", "--learner", "least squares", "--cv", "3", "--no-open")


@pytest.mark.parametrize("name", ["SIGINT", *map(slow, ("SIGTERM", "SIGHUP"))])
def test_a_signal_while_modules_load(folder, name):
    number = getattr(signal, name)
    process = start(folder, *RUN)
    until_it_listens(process)
    code, said = stop(process, number)
    assert code == 128 + number
    assert said.strip() == "assay: interrupted before anything was saved; run the same command again."


@pytest.mark.parametrize("name", ["SIGTERM", *map(slow, ("SIGINT", "SIGHUP"))])
def test_a_signal_in_a_fit_that_never_ends(folder, name):
    number = getattr(signal, name)
    process = start(folder, "run", "table.csv", "-t", "y", "--learner", "waits:Waits", "--cv", "3", "--no-open")
    assert any(line.startswith("fitting") for line in process.stdout)
    code, said = stop(process, number)
    assert code == 128 + number
    study = os.listdir(folder / "home" / "studies")[0]
    assert said.strip() == f"assay: interrupted; finished work is saved. Continue with: assay resume {study}"


@pytest.mark.slow
def test_a_signal_at_any_moment_leaves_no_traceback(folder):
    """From the first line of the console script to the last: every 30 ms; what comes out does not depend on when."""
    for turn in range(60):
        process = start(folder, *RUN, "--seed", str(turn))
        until_it_listens(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.03 * turn)
        number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[turn % 3]
        done = process.poll()
        code, said = stop(process, number)
        assert code == done if done is not None else code in (0, 128 + number), (turn, code, said)
        assert "Traceback" not in said, (turn, said)
        assert "terminate called" not in said, (turn, said)


def test_worker_processes_do_not_outlive_a_command_that_is_killed(folder):
    (folder / "stays.py").write_text(STAYS)
    os.mkfifo(folder / "alive")
    process = start(folder, *RUN[:4], "--learner", "stays:Stays", "--cv", "3", "--n-jobs", "2", "--no-open")
    with open(folder / "alive", "rb", buffering=0) as workers:  # waits for the first of them
        assert workers.read(1) == b"x"
        process.kill()
        process.wait()
        while select.select([workers], [], [], 120)[0] and workers.read(1):
            pass
        assert select.select([workers], [], [], 0)[0]  # at its end: no process has it open any more
    process.communicate()


def test_an_ignored_signal_stays_ignored(folder):
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\nfrom assay import interrupts\n"
    script += "interrupts.watch(); print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


LEAVES = """
import atexit
from assay import interrupts
class Outlives:
    def __del__(self):
        print("torn down")
interrupts.watch()
atexit.register(print, "cleaned up")
kept = Outlives()
try:
    raise SystemExit(3)
except SystemExit as ended:
    interrupts.leave_with(ended.code)
    raise
"""


def test_a_finished_command_runs_exit_handlers_and_leaves_before_libraries_are_torn_down():
    done = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "cleaned up\n", "")


INTERRUPTED_CLOSE = """
import logging, os, signal
from assay import interrupts
interrupts.watch()
with interrupts.working():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    except BaseException:
        logging.getLogger("pool").exception("Exception closing connection")
        raise
"""


def test_a_library_that_logs_the_interrupt_adds_no_traceback():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_CLOSE], capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr.strip() == "assay: interrupted before anything was saved; run the same command again."


def test_the_cleaner_of_ended_workers_is_told_not_to_warn(monkeypatch):
    script = "from assay import interrupts\ninterrupts.watch()\nimport os, subprocess, sys\n"
    script += 'warn = \'import warnings; warnings.warn("resource_tracker: leaked"); warnings.warn("other")\'\n'
    script += "subprocess.run([sys.executable, '-c', warn])"
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "other" in done.stderr
    assert "resource_tracker" not in done.stderr


def test_an_interrupt_without_a_signal_is_one_sentence(monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("assay.cli.out.table", interrupted)
    done = CliRunner().invoke(app, ["learners"])
    assert done.exit_code == 130
