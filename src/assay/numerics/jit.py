"""The one place that decides how kernels are compiled.

    @kernel                  cached, nogil, fast arithmetic that still respects NaN and infinity
    @kernel(exact=True)      the same without reordering: compensated and double-double sums need it
    @kernel(inline=True)     inlined into the kernels that call it, however long it is: for parts of a large kernel

LLVM calls a long function instead of inlining it, and a call with twenty arrays costs as much as a short loop; trees
grow a sixth faster with their parts inlined. No kernel gets the entry for C callbacks, which Numba would make of each
by default. Division by zero gives infinity or NaN, as in numpy, instead of an exception: a test at each division would
keep its loop from being vectorised.

Numba's own cache looks only at the file a kernel stands in, so editing a kernel that another one
inlines would leave stale machine code behind. Ours lives in a directory named by a hash of every
kernel source in the package. It is tried in this order: `NUMBA_CACHE_DIR` if the user set it, the
package's own `__pycache__`, the user's cache directory; where none can be written, kernels compile
anew in each process. A read-only install therefore never fails.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from assay.progress import Notice

__all__ = ["COMPILING", "cache_directory", "first_announcement", "kernel", "listen_to_compilation"]

PACKAGE = Path(__file__).resolve().parent.parent

# All of LLVM's fast-math flags but nnan and ninf: those would delete our NaN checks.
SAFE_FASTMATH = frozenset({"nsz", "arcp", "contract", "afn", "reassoc"})

COMPILING = "assay: compiling kernels, once for this machine (`assay warm` compiles all of them in advance)"

_decorating = threading.Lock()


class _Waiting(event.Listener):
    """Tells a person who waits for our kernels to be compiled, once per machine, why nothing seems to happen."""

    def __init__(self) -> None:
        self.notice = Notice(COMPILING, after=2.0, first_time=first_announcement)

    def on_start(self, event: Any) -> None:
        """A kernel begins."""
        if _is_ours(event):
            self.notice.begin()

    def on_end(self, event: Any) -> None:
        """A kernel is done."""
        if _is_ours(event):
            self.notice.end()


def _is_ours(event: Any) -> bool:
    dispatcher = (event.data or {}).get("dispatcher")
    return str(getattr(getattr(dispatcher, "py_func", None), "__module__", "")).startswith("assay.")


def first_announcement() -> bool:
    """Whether nobody on this machine was told yet that these kernels are being compiled; true only once."""
    directory = cache_directory()
    if directory is None:
        return True
    try:
        (directory / "announced").touch(exist_ok=False)
    except OSError:
        return False
    return True


event.register("numba:compile", _Waiting())


@contextmanager
def listen_to_compilation(listener: Callable[[str], None]) -> Iterator[None]:
    """Call `listener` with the name of each kernel that is compiled inside the block, not of those from the cache."""

    class Listener(event.Listener):
        """Passes beginnings on."""

        def on_start(self, event: Any) -> None:
            """A kernel begins."""
            if _is_ours(event):
                function = event.data["dispatcher"].py_func
                listener(f"{function.__module__}.{function.__name__}")

        def on_end(self, event: Any) -> None:
            """A kernel is done."""

    registered = Listener()
    event.register("numba:compile", registered)
    try:
        yield
    finally:
        event.unregister("numba:compile", registered)


def kernel(function: Callable[..., Any] | None = None, *, exact: bool = False, inline: bool = False) -> Any:
    """Compile a plain function of arrays and scalars on its first call.

    >>> @kernel
    ... def total(x):
    ...     s = 0.0
    ...     for value in x:
    ...         s += value
    ...     return s
    >>> import numpy as np
    >>> total(np.arange(4.0))
    6.0
    """
    if function is None:
        return lambda function: kernel(function, exact=exact, inline=inline)
    directory = cache_directory() if _source_file(function) else None
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": False if exact else set(SAFE_FASTMATH),
        "forceinline": inline,
        "no_cfunc_wrapper": True,
    }
    config: Any = numba.config
    with _decorating:
        # Numba picks a cache directory while it decorates, from its configuration alone.
        before = config.CACHE_DIR
        config.CACHE_DIR = "" if directory is None else str(directory)
        try:
            return numba.njit(cache=directory is not None, **options)(function)
        finally:
            config.CACHE_DIR = before


@cache
def cache_directory() -> Path | None:
    """The directory that holds compiled kernels, or None where nothing can be written."""
    name = f"kernels-{_source_hash()}"
    for parent in _candidates():
        if _writable(parent / name):
            return parent / name
    return None


def _candidates() -> list[Path]:
    asked = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(asked)] if asked else []
    places.append(PACKAGE / "__pycache__")
    with suppress(RuntimeError):  # a user without a home directory
        places.append(_user_cache() / "assay")
    return places


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path("~/AppData/Local").expanduser())
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())


def _writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _source_hash() -> str:
    """A hash of Numba's version and every file that kernels are made of, so that any change starts a fresh cache."""
    digest = hashlib.sha256(numba.__version__.encode())
    for file in _sources():
        digest.update(file.relative_to(PACKAGE).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    """The files that hold kernels, or parts of them, and the one that says how they are compiled."""
    marks = (b"@kernel", b"@intrinsic")
    return [file for file in sorted(PACKAGE.rglob("*.py")) if any(mark in file.read_bytes() for mark in marks)]


def _source_file(function: Callable[..., Any]) -> bool:
    """Whether the function stands in a file of its own; Numba cannot cache one typed at a prompt."""
    return Path(function.__code__.co_filename).is_file()
