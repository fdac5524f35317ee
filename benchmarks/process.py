"""A command run as a process of its own: wall seconds, CPU seconds, and the peak memory of all its processes."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Ran", "measured"]

PAUSE = 0.25
"""Seconds between two looks at the memory."""
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Ran:
    """What a command took; `cpu` and `peak` (bytes) cover its worker processes, `output` is what it printed."""

    wall: float
    cpu: float
    peak: int
    output: str
    errors: str
    code: int


def measured(command: Sequence[str], env: Mapping[str, str] | None = None) -> Ran:
    """Run a command and measure it; its environment is ours with `env` on top.

    Memory is looked at four times a second, and only where there is /proc: elsewhere the peak is 0.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    done = threading.Event()
    peaks = [0]

    def watch() -> None:
        while not done.wait(PAUSE):
            peaks[0] = max(peaks[0], _memory(_tree(process.pid)))

    before = os.times()
    watcher = threading.Thread(target=watch)
    watcher.start()
    output, errors = process.communicate()
    wall = time.perf_counter() - start
    done.set()
    watcher.join()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Ran(wall, cpu, peaks[0], output, errors, process.returncode)


def _tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(one) for thread in threads for one in (thread / "children").read_text().split()]
    except OSError:  # it has ended
        return
    for child in children:
        yield from _tree(child)


def _memory(pids: Iterable[int]) -> int:
    """Resident bytes: what each process has for itself, and of what they may share the largest part."""
    own, shared = 0, 0
    for pid in pids:
        try:
            resident, common = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
        except OSError:
            continue
        own, shared = own + resident - common, max(shared, common)
    return PAGE * (own + shared)
