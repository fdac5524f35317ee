"""Ctrl-C, SIGTERM and SIGHUP at any moment: one sentence, how to go on, and the exit code 128 + signal.

`watch` comes first in the console script, before anything large is imported. While modules load, and once a command is
done, there is nothing to clean up: the process ends at once. While a command works (`working`), a signal raises
`KeyboardInterrupt` in the main thread, so that files and the progress line are closed. Compiled code may keep the
interpreter from seeing it, so a thread that hears of the signal ends the process after `GRACE` seconds. Nothing is lost
by either: finished folds and looks are on disk before the next begins.

Standard library only, and little of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

__all__ = ["at_end", "begin", "code", "end", "resume_with", "say", "watch", "working"]

GRACE = 1.5
SHOW_CURSOR = b"\x1b[?25h"
"""A progress line hides it."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

at_end: list[Callable[[], Any]] = []
"""What to do before the process is ended by a signal, such as to kill its child processes."""
_command = ""
_received: int | None = None
_busy = False
_said = False


def watch() -> None:
    """Answer the signals from now on; those that the caller ignores (`nohup`) stay ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)


def begin() -> None:
    """A new command: nothing is being worked on yet."""
    global _command, _received, _said
    _command, _received, _said = "", None, False


def resume_with(command: str) -> None:
    """What to type after an interrupt: the command that goes on."""
    global _command
    _command = command


def code() -> int:
    """The exit code: 128 + the signal, 130 where nobody knows it."""
    return 128 + (_received or signal.SIGINT)


@contextmanager
def working() -> Iterator[None]:
    """A command is at work: let it clean up after a signal, but not for long."""
    global _busy
    if not _watched():
        yield
        return
    import socket
    import threading

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_wait, args=(reader,), name="assay-interrupt", daemon=True)
    hook, sys.unraisablehook = sys.unraisablehook, _quiet(sys.unraisablehook)
    watcher.start()
    _busy = True
    try:
        yield
    except BaseException:
        if _received is not None:  # what it became on its way up does not matter
            with suppress(Exception):
                sys.stdout.flush()
            end()
        raise
    finally:
        _busy = False
        sys.unraisablehook = hook
        signal.set_wakeup_fd(before)
        writer.close()  # the thread reads the end, and leaves
        watcher.join()
        reader.close()


def _watched() -> bool:
    return any(signal.getsignal(number) is _handle for number in SIGNALS)


def say() -> None:
    """Say, once, that it was stopped and how to go on."""
    global _said
    if _said:
        return
    _said = True
    if _command:
        words = f"\nassay: stopped; what is finished is kept. Go on with: {_command}\n"
    else:
        words = "\nassay: stopped before anything was sealed; run the same command again.\n"
    with suppress(OSError):  # the terminal may be gone
        if os.isatty(2):
            os.write(2, SHOW_CURSOR)
        os.write(2, words.encode("utf-8", "replace"))


def end() -> None:
    """End the process after a signal, and its children with it."""
    say()
    for call in at_end:
        with suppress(Exception):
            call()
    with suppress(Exception):  # it may be half imported
        for child in sys.modules["multiprocessing"].active_children() if "multiprocessing" in sys.modules else ():
            child.terminate()
    os._exit(code())


def _handle(number: int, frame: FrameType | None) -> None:
    global _received
    again, _received = _received is not None, _received or number
    if again or not _busy:
        end()
    raise KeyboardInterrupt


def _wait(reader: Any) -> None:
    """End the process if a signal has not ended it by itself."""
    import time

    numbers = {bytes([number]) for number in SIGNALS}
    while heard := reader.recv(1):
        if heard in numbers:
            time.sleep(GRACE)
            _take(heard[0])
            end()


def _take(number: int) -> None:
    global _received
    _received = _received or number


def _quiet(usual: Any) -> Callable[[Any], None]:
    """Do not print an interrupt that arrived where nobody can catch it; the thread ends the process."""

    def hook(problem: Any) -> None:
        if _received is None or not issubclass(problem.exc_type, KeyboardInterrupt):
            usual(problem)

    return hook
