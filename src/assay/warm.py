"""Compiling kernels before they are needed: what each family declares in its `warmups`, run in worker processes.

    assay warm                 all families
    assay warm trees linear    these

What was compiled is noted in the kernel cache, which a change of any kernel starts anew, so nothing is run twice. A
study asks for the warm-ups of its learners when it begins; those that are ready are fitted while the rest compile.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import assay
from assay import interrupts
from assay.errors import ParameterError
from assay.numerics.jit import cache_directory
from assay.numerics.threads import cores
from assay.numerics.warmup import Warmup, fits_name

__all__ = ["Workers", "declared", "families", "names_for", "pending", "start"]


def families() -> list[str]:
    """The packages that declare warm-ups.

    >>> "trees" in families()
    True
    """
    return [name for name in assay.__all__ if _declares(name)]


def _declares(name: str) -> bool:
    package = find_spec(f"assay.{name}")
    return bool(package and package.submodule_search_locations and find_spec(f"assay.{name}.warmups"))


def declared(only: Sequence[str] = ()) -> dict[str, Warmup]:
    """Every warm-up of all or of the named families, by its full name: `trees.RandomForestRegressor`."""
    known = families()
    unknown = next((name for name in only if name not in known), None)
    if unknown is not None:
        raise ParameterError(f"unknown family {unknown!r}", remedy=f"choose from {', '.join(known)}")
    return {
        f"{family}.{warmup.name}": warmup
        for family in only or known
        for warmup in import_module(f"assay.{family}.warmups").WARMUPS
    }


def names_for(estimator: Any, *, classes: int = 0, categories: bool = False) -> list[str]:
    """The warm-ups that compile what an estimator needs for such a table; none for other packages' estimators."""
    package, _, rest = type(estimator).__module__.partition(".")
    family = rest.partition(".")[0]
    if package != "assay" or not _declares(family):
        return []
    names = [
        f"{family}.{fits_name(type(estimator), classes=classes, categories=mixed)}" for mixed in {False, categories}
    ]
    return [name for name in names if name in declared([family])]


def pending(names: Iterable[str]) -> list[str]:
    """Those that were not compiled on this machine yet; none where no cache can be written."""
    return [name for name in names if not (stamp := _stamp(name)) or not stamp.exists()] if cache_directory() else []


def _stamp(name: str) -> Path | None:
    directory = cache_directory()
    return None if directory is None else directory / "warm" / name.replace(" ", "-")


class Workers:
    """Processes that run warm-ups; `wait_for_any` says what is ready.

    Warm-ups of one estimator share most of their kernels, so one process runs them one after the other. Families take
    turns in the queue for the same reason. A warm-up that fails, or whose worker dies, counts as done: whoever needs
    its kernels compiles them then.
    """

    def __init__(
        self, names: Sequence[str], n_jobs: int, done: Callable[[str, str | None], None] | None = None
    ) -> None:
        self._queue, self._left, self._done = deque(_groups(names)), set(names), done
        self._changed = threading.Condition()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads = [
            threading.Thread(target=self._serve, name="assay-warm", daemon=True)
            for _ in range(min(n_jobs, len(self._queue)))
        ]
        for thread in self._threads:
            thread.start()
        if self._threads:
            atexit.register(self.close)
            interrupts.at_end.append(self._kill)

    def wait_for_any(self, wanted: Sequence[Sequence[str]]) -> int:
        """The place of the first entry of `wanted` all of whose warm-ups are done, as soon as there is one."""
        with self._changed:
            while True:
                for place, names in enumerate(wanted):
                    if self._left.isdisjoint(names):
                        return place
                self._changed.wait()

    def wait(self) -> None:
        """Until all are done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._left)

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        atexit.unregister(self.close)
        if self._kill in interrupts.at_end:
            interrupts.at_end.remove(self._kill)
        self._kill()
        for thread in self._threads:
            thread.join()

    def _kill(self) -> None:
        with self._changed:
            self._queue.clear()
            processes = list(self._processes)
        for process in processes:
            process.kill()

    def _serve(self) -> None:
        """Hand names to one worker process, one at a time; where none can be started, nobody waits for them."""
        try:
            self._serve_one()
        except OSError as error:
            while names := self._next():
                for name in names:
                    self._finish(name, str(error))

    def _serve_one(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "assay.warm"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, bufsize=0, env=environment, **pipes) as process:
            with self._changed:
                self._processes.append(process)
            while names := self._next():
                for name in names:
                    self._finish(name, _ask(process, name))

    def _next(self) -> list[str]:
        with self._changed:
            return self._queue.popleft() if self._queue else []

    def _finish(self, name: str, error: str | None) -> None:
        if self._done is not None:
            self._done(name, error)
        with self._changed:
            self._left.discard(name)
            self._changed.notify_all()


def _groups(names: Sequence[str]) -> list[list[str]]:
    """The names of one estimator together, the first estimators of all families before their second ones."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.partition(",")[0], []).append(name)
    turns = Counter[str]()
    turn = {}
    for key in groups:
        family = key.partition(".")[0]
        turn[key] = turns[family]
        turns[family] += 1
    return [groups[key] for key in sorted(groups, key=lambda key: turn[key])]


def _ask(process: subprocess.Popen[bytes], name: str) -> str | None:
    """Let a worker run a warm-up; what went wrong, if anything."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{json.dumps(name)}\n".encode())
        answer = process.stdout.readline()
        return json.loads(answer) if answer else "the worker process died"
    except (OSError, ValueError) as error:
        return str(error)


def start(
    names: Iterable[str], n_jobs: int | None = None, done: Callable[[str, str | None], None] | None = None
) -> Workers:
    """Begin to compile what is pending among `names`; `done(name, error)` is called after each, in a thread."""
    return Workers(pending(names), cores() if n_jobs is None else n_jobs, done)


def _work() -> None:
    """A worker: a name per line comes in, null or what went wrong goes out."""
    for line in sys.stdin:
        name, error = json.loads(line), None
        try:
            declared([name.partition(".")[0]])[name].run()
            stamp = _stamp(name)
            if stamp is not None:
                stamp.parent.mkdir(exist_ok=True)
                stamp.touch()
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        sys.stdout.write(json.dumps(error) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _work()
