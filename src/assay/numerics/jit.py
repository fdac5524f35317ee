"""The one place that decides how kernels are compiled.

    @kernel                  cached, nogil, fast arithmetic that still respects NaN and infinity
    @kernel(exact=True)      the same without reordering: compensated and double-double sums need it
    @kernel(inner=True)      only other kernels call it: compiles faster, for it has no machine code of its own

Translating twenty arrays from Python objects is more code than many a loop that uses them, and a kernel is optimised
anew, entry and all, in each one that calls it; parts of a large kernel should therefore be inner. No kernel gets the
entry for C callbacks, which Numba would make of each by default. Division by zero gives infinity or NaN, as in numpy,
instead of an exception: a test at each division would keep its loop from doing several numbers at once.

Numba's own cache looks only at the file a kernel stands in, so editing a kernel that another one
inlines would leave stale machine code behind. Ours lives in a directory named by a hash of every
kernel source in the package. It is tried in this order: `NUMBA_CACHE_DIR` if the user set it, the
package's own `__pycache__`, the user's cache directory; where none can be written, kernels compile
anew in each process. A read-only install therefore never fails.

How Numba is kept from repeating itself while it compiles is in `numerics.quick`.
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
from numba.core.registry import CPUDispatcher

from assay.numerics.quick import PartCompiler, possible, quickly
from assay.progress import Notice

__all__ = ["cache_directory", "kernel", "listen_to_compilation"]

PACKAGE = Path(__file__).resolve().parent.parent

# All of LLVM's fast-math flags but nnan and ninf: those would delete our NaN checks.
SAFE_FASTMATH = frozenset({"nsz", "arcp", "contract", "afn", "reassoc"})

_decorating = threading.Lock()


class _Waiting(event.Listener):
    """Tells a person who waits for our kernels to be compiled why nothing seems to happen."""

    def __init__(self) -> None:
        words = "assay: compiling kernels, once for this machine; the next run starts at once"
        self.notice = Notice(words, after=2.0)

    def on_start(self, event: Any) -> None:
        """A kernel begins."""
        if _is_ours(event):
            self.notice.begin()

    def on_end(self, event: Any) -> None:
        """A kernel is done."""
        if _is_ours(event):
            self.notice.end()


def _is_ours(event: Any) -> bool:
    made = (event.data or {}).get("dispatcher")
    return str(getattr(getattr(made, "py_func", None), "__module__", "")).startswith("assay.")


event.register("numba:compile", _Waiting())


@contextmanager
def listen_to_compilation(told: Callable[[], None]) -> Iterator[None]:
    """Call `told` whenever a kernel begins to be compiled inside the block; those from the cache are silent."""

    class Listener(event.Listener):
        """Hears beginnings."""

        def on_start(self, _event: Any) -> None:
            """Pass it on."""
            told()

        def on_end(self, _event: Any) -> None:
            """Nothing to say."""

    listener = Listener()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)


class _Kernel(CPUDispatcher):
    """A kernel that compiles quickly."""

    def compile(self, sig: Any) -> Any:
        """Find the machine code for argument types in memory or in the cache, or make it."""
        with quickly():
            return super().compile(sig)


class _Inner(_Kernel):
    """A kernel without an entry from Python; calling it from there would end the process."""

    def __call__(self, *_arguments: Any, **_named: Any) -> Any:
        """Say so."""
        raise TypeError(f"{self.py_func.__name__} is an inner kernel: only other kernels can call it")


def kernel(function: Callable[..., Any] | None = None, *, exact: bool = False, inner: bool = False) -> Any:
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
        return lambda function: kernel(function, exact=exact, inner=inner)
    directory = cache_directory() if _source_file(function) else None
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": False if exact else set(SAFE_FASTMATH),
        "no_cpython_wrapper": inner,
        "no_cfunc_wrapper": True,
    }
    if inner:
        options["pipeline_class"] = PartCompiler
    config: Any = numba.config
    with _decorating:
        # Numba picks a cache directory while it decorates, from its configuration alone.
        before = config.CACHE_DIR
        config.CACHE_DIR = "" if directory is None else str(directory)
        try:
            compiled = numba.njit(cache=directory is not None, **options)(function)
        finally:
            config.CACHE_DIR = before
    if isinstance(compiled, CPUDispatcher):  # with NUMBA_DISABLE_JIT it is the function itself
        compiled.__class__ = _Inner if inner else _Kernel
    return compiled


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
    """A hash of every file that kernels are made of, so that any edit starts a fresh cache."""
    digest = hashlib.sha256(b"quick" if possible() else b"plain")
    for file in _sources():
        digest.update(file.relative_to(PACKAGE).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    """The files that hold kernels, or steps of them, and those that say how they are compiled."""
    words = (b"@kernel", b"@intrinsic")
    files = sorted(PACKAGE.rglob("*.py"))
    return [file for file in files if "quick" in file.name or any(word in file.read_bytes() for word in words)]


def _source_file(function: Callable[..., Any]) -> bool:
    """Whether the function stands in a file of its own; Numba cannot cache one typed at a prompt."""
    return Path(function.__code__.co_filename).is_file()
