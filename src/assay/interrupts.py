"""Ctrl-C, SIGTERM and SIGHUP at any moment: one sentence, how to go on, and the exit code 128 + signal.

`watch` comes first in the console script, before anything large is imported. While modules load, and once a command is
done, there is nothing to clean up: the process ends at once. While a command works (`working`), a signal raises
`KeyboardInterrupt` in the main thread, so that files and the progress line are closed. Compiled code may keep the
interpreter from seeing it, so a thread that hears of the signal ends the process after `GRACE` seconds. Nothing is lost
by either: finished folds and looks are on disk before the next begins.

A command that ends by itself leaves through `leave_with`: after all exit handlers of Python, and before the destructors
of C++ libraries. pyarrow's threads now and then outlive the latter and abort a finished command with "terminate called
without an active exception" (apache/arrow issue 34314).

A worker process calls `end_with_parent`: after a SIGKILL of the command, which nobody can answer, it would wait for
ever to hand its result over, with all its memory.

Standard library only, and little of it.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

__all__ = ["at_end", "begin", "code", "end", "end_with_parent", "leave_with", "resume_with", "say", "watch", "working"]

GRACE = 1.5
LOOK = 1.0
"""Seconds between two looks of a worker process whether its parent is still there."""
SHOW_CURSOR = b"\x1b[?25h"
"""A progress line hides it."""
QUIET_TRACKER = "ignore:resource_tracker:UserWarning"
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

at_end: list[Callable[[], Any]] = []
"""What to do before the process is ended by a signal, such as to kill its child processes."""
_command = ""
_received: int | None = None
_busy = False
_said = False
_status: int | None = None
_child = 0


def watch() -> None:
    """Answer the signals from now on; those that the caller ignores (`nohup`) stay ignored."""
    # The process that cleans up after ended workers would add a warning to the sentence; it reads this when it starts.
    asked = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = f"{asked},{QUIET_TRACKER}" if asked else QUIET_TRACKER
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)
    atexit.register(_leave)  # the first to be registered is the last to run


def leave_with(status: Any) -> None:
    """The exit code of a command that has ended by itself, as `SystemExit` has it."""
    global _status
    _status = 0 if status is None else status if isinstance(status, int) else None


def _leave() -> None:
    if _status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_status)


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
        words = f"\nassay: interrupted; finished work is saved. Continue with: {_command}\n"
    else:
        words = "\nassay: interrupted before anything was saved; run the same command again.\n"
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
    if "logging" in sys.modules:  # a library that is interrupted while it closes a file logs a traceback
        sys.modules["logging"].disable()
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


def end_with_parent() -> None:
    """In a worker process, once: end as soon as the process that started it is gone."""
    global _child
    import multiprocessing

    if multiprocessing.parent_process() is None or _child == os.getpid():
        return
    import threading

    _child = os.getpid()
    threading.Thread(target=_outlive, args=(os.getppid(),), name="assay-parent", daemon=True).start()


def _outlive(parent: int) -> None:
    import time

    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


def _take(number: int) -> None:
    global _received
    _received = _received or number


def _quiet(usual: Any) -> Callable[[Any], None]:
    """Do not print an interrupt that arrived where nobody can catch it; the thread ends the process."""

    def hook(problem: Any) -> None:
        if _received is None or not issubclass(problem.exc_type, KeyboardInterrupt):
            usual(problem)

    return hook
