"""Is anything lost when a run is killed?"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["SIMULATIONS"]

KILLS = 200
LEARNERS = ("least squares", "lasso", "ridge", "tree")


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
    return frame.assign(y=frame["a"] + rng.normal(size=400))


def _study(folder: str) -> None:
    import assay

    os.environ["ASSAY_HOME"] = folder
    assay.run(_table(), "y", learners=LEARNERS, repeats=3, out=Path(folder) / "out")


def _figures(folder: str) -> dict[str, Any]:
    from assay.experiment import Study

    os.environ["ASSAY_HOME"] = folder
    name = next(Path(folder).glob("studies/*")).name
    study = Study.load(name).finish()
    assert study.opened is not None
    board = study.leaderboard.to_frame()[["estimate", "lower", "upper"]]
    return {"board": board, "test": study.opened.intervals["rmse"], "problems": study.ledger.verify()}


def _intact(folder: str, known: list[tuple[int, str]]) -> tuple[bool, list[tuple[int, str]]]:
    """Whether every database in the home is whole and holds all that was seen in the ledger before."""
    for file in [*Path(folder).glob("ledger.db"), *Path(folder).glob("studies/*/journal.db")]:
        with sqlite3.connect(file) as connection:
            if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
                return False, known
    from assay.experiment import Ledger

    if not Path(folder, "ledger.db").exists():
        return not known, known
    now = [(entry.seq, entry.digest) for entry in Ledger(Path(folder, "ledger.db")).entries()]
    return now[: len(known)] == known, now


def kills() -> pd.DataFrame:
    """200 SIGKILLs at random moments of a study (4 learners, 30 folds, report, model). After each kill the databases
    are checked and the ledger must hold all it held before; a study that gets through is compared with one that nobody
    disturbed, and the next begins.
    """
    import assay.experiment.study
    import assay.report.html  # noqa: F401  (loaded before the fork, so that a kill hits the work and not the imports)

    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        child = fork.Process(target=_study, args=(folder,))
        child.start()
        child.join()
        duration = time.monotonic() - start
        expected = _ask(fork, folder)
    rng = np.random.default_rng(0)
    done = {"kills": 0, "studies finished": 0, "databases damaged or entries lost": 0, "numbers that differ": 0}
    while done["kills"] < KILLS:
        with tempfile.TemporaryDirectory() as folder:
            known: list[tuple[int, str]] = []
            while done["kills"] < KILLS:
                child = fork.Process(target=_study, args=(folder,))
                child.start()
                child.join(rng.uniform(0, 1.1 * duration))
                if child.exitcode is not None:
                    break
                assert child.pid is not None
                os.kill(child.pid, signal.SIGKILL)
                child.join()
                done["kills"] += 1
                whole, known = _intact(folder, known)
                done["databases damaged or entries lost"] += not whole
            if not any(Path(folder).glob("studies/*/journal.db")):
                continue
            found = _ask(fork, folder)
            done["studies finished"] += 1
            same = (
                found["board"].equals(expected["board"]) and found["test"] == expected["test"] and not found["problems"]
            )
            done["numbers that differ"] += not same
    return pd.DataFrame(list(done.items()), columns=["what", "count"])


def _ask(fork: Any, folder: str) -> dict[str, Any]:
    """The figures of a study, worked out in a process of its own."""
    with fork.Pool(1) as pool:
        return pool.apply(_figures, (folder,))


SIMULATIONS = {"Runs that are killed": kills}
