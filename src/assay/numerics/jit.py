"""The one place that decides how kernels are compiled.

    @kernel                  cached, nogil, fast arithmetic that still respects NaN and infinity
    @kernel(exact=True)      the same without reordering: compensated and double-double sums need it
    @kernel(inner=True)      only other kernels call it: compiles faster, for it has no entry from Python

Translating twenty arrays from Python objects is more code than many a loop that uses them, and a kernel is optimised
anew, entry and all, in each one that calls it; parts of a large kernel should therefore be inner. No kernel gets the
entry for C callbacks, which Numba would make of each by default.

Numba's own cache looks only at the file a kernel stands in, so editing a kernel that another one
inlines would leave stale machine code behind. Ours lives in a directory named by a hash of every
kernel source in the package. It is tried in this order: `NUMBA_CACHE_DIR` if the user set it, the
package's own `__pycache__`, the user's cache directory; where none can be written, kernels compile
anew in each process. A read-only install therefore never fails.

Two thirds of the time that a kernel takes to compile go by in Python, before LLVM sees it, and most of that on
questions that were answered before. Inside `quickly()` it takes two thirds of the time to make the same machine code:

  * what `a + b` or `x[i]` means for given types is asked once. Numba tries some twenty rules each time, and looks
    every one up by comparing all of the compiler's options. Rules that compile something are still asked each time;
  * whether an array is of a kind that wraps itself is asked once per type, not at each mention of the array, when it
    makes Numba load all its registries anew;
  * the variables in an instruction are found without a call for each of its fields;
  * LLVM's passes run on functions that have a body, not on bare declarations;
  * the garbage collector rests: a compiler makes many objects that live until its end.

All of this leans on Numba's insides. With a version that it was not tried on, or where the environment variable
`ASSAY_PLAIN_COMPILE` is set, `quickly()` does nothing and kernels compile as Numba likes, to the same code.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import base, codegen, event, ir
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.types.functions import BaseFunction

from assay.progress import Notice

__all__ = ["cache_directory", "kernel", "listen_to_compilation", "possible", "quickly"]

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


KNOWN = ("0.68.",)
"""The versions of Numba that machine code was compared for, with and without."""

_ask_rules: Any = getattr(BaseFunction, "get_call_type", None)
_ask_implementations: Any = getattr(base.BaseContext, "get_function", None)

_NESTS = (dict, list, tuple)

_depth = 0
_signatures: dict[int, tuple[BaseFunction, dict[Any, Any]]] = {}
_absent: set[Any] = set()
_barren: set[type] = set()


class _Library(getattr(codegen, "JITCodeLibrary", object)):  # type: ignore[misc]
    """A code library whose declarations are left alone."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)


def _call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """`BaseFunction.get_call_type`, with a memory for rules that compile nothing."""
    if kws or context is not cpu_target.typing_context:
        return _ask_rules(self, context, args, kws)
    _, memory = _signatures.setdefault(id(self), (self, {}))  # holding the function keeps its id its own
    types = tuple(args)
    if types in memory:
        self._impl_keys[memory[types].args] = self.typing_key
        return memory[types]
    signature: Any = _ask_rules(self, context, args, kws)
    # A rule that compiled its answer leaves what it compiled as the key.
    if self._impl_keys.get(signature.args) is self.typing_key and all(kind.is_precise() for kind in types):
        memory[types] = signature
    return signature


def _function(self: Any, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
    """`BaseContext.get_function`, with a memory for arrays that do not wrap themselves."""
    if not isinstance(fn, str) or fn != "__array__":
        return _ask_implementations(self, fn, sig, _firstcall)
    if sig not in _absent:
        try:
            return _ask_implementations(self, fn, sig, _firstcall)
        except NotImplementedError:
            _absent.add(sig)
    raise NotImplementedError(f"No definition for lowering {fn}{sig}")


def _variables(self: Any, value: Any) -> list[Any]:
    """`Inst._rec_list_vars`, with a memory for the kinds of fields in which there is nothing to find."""
    fields = value.values() if isinstance(value, dict) else value if isinstance(value, _NESTS) else (value,)
    found: list[Any] = []
    for field in fields:
        kind = type(field)
        if kind in _barren:
            continue
        if kind is ir.Var or isinstance(field, ir.Var):
            found.append(field)
        elif isinstance(field, ir.Inst):
            found += field.list_vars()
        elif isinstance(field, _NESTS):
            found += _variables(self, field)
        else:
            _barren.add(kind)
    return found


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute for the length of a block; one that the owner only inherits is inherited again after it."""
    own = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Collect no garbage for the length of a block."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def possible() -> bool:
    """Whether Numba's insides are those that this file knows, and nobody asked for the plain way."""
    known = numba.__version__.startswith(KNOWN) and _codegen()._library_class is codegen.JITCodeLibrary
    return known and not os.environ.get("ASSAY_PLAIN_COMPILE")


def _codegen() -> Any:
    return cpu_target.target_context.codegen()


@contextmanager
def quickly() -> Iterator[None]:
    """Let Numba compile without repeating itself for the length of a block, and no other thread compile meanwhile."""
    global _depth
    with ExitStack() as undo:
        undo.enter_context(global_compiler_lock)
        if _depth == 0 and possible():
            undo.enter_context(_collector_at_rest())
            undo.enter_context(_replaced(BaseFunction, "get_call_type", _call_type))
            undo.enter_context(_replaced(base.BaseContext, "get_function", _function))
            undo.enter_context(_replaced(ir.Inst, "_rec_list_vars", _variables))
            undo.enter_context(_replaced(_codegen(), "_library_class", _Library))
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1


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
    """A hash of every file that holds a kernel, so that any edit starts a fresh cache."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_bytes()
        if b"@kernel" in text:
            digest.update(file.relative_to(PACKAGE).as_posix().encode())
            digest.update(text)
    return digest.hexdigest()[:16]


def _source_file(function: Callable[..., Any]) -> bool:
    """Whether the function stands in a file of its own; Numba cannot cache one typed at a prompt."""
    return Path(function.__code__.co_filename).is_file()
