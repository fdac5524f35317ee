"""Compiling in less time, by not doing twice what once is enough for, and not at all what is thrown away.

More than half of the time that a kernel takes to compile goes by in Python, before LLVM sees it, and most of that on
questions that were answered before. Inside `quickly()` they are answered once:

  * what `a + b` or `x[i]` means for given types is asked once. Numba tries some twenty rules each time, and looks
    every one up by comparing all of the compiler's options. Rules that compile something are still asked each time;
  * whether an array is of a kind that wraps itself is asked once per type, not at each mention of the array, when it
    makes Numba load all its registries anew;
  * the variables in an instruction are found without a call for each of its fields;
  * a variable that is assigned to twice is looked for in the blocks that mention it, not once in every statement;
  * which variables are alive where is worked out when their ends are to be marked, not after each of nine passes;
  * passes that mark all ends to look for closures, lists or array expressions run where there are any;
  * filters of warnings are not set anew for each statement, nor a generator made to say where an error stood;
  * LLVM is asked once how large a type is, and not timed call by call;
  * LLVM's passes run on functions that have a body, not on bare declarations;
  * the garbage collector rests, and does not look through all that was made meanwhile as if it were young.

And LLVM is given a third as much to read. A variable that gets one value is that value, not a place in memory; so is
an array, a range or an iterator, and what is taken out of it is what was put in. No code is written to count references
to numbers, to clear a number that is done with, to add nothing or to multiply by one. LLVM would delete all of that, so
the machine code computes with the same instructions. What it does not have is the counting of references to arguments,
which the caller holds anyway; LLVM finds that out only where a kernel is simple.

An inner kernel is a part of those that call it: they link its code and optimise it together with their own. Numba
optimises and translates it on its own as well, for nothing. Here a part stays as it is after the passes that tidy up
single functions, and the cache keeps that. Rounding may differ from plain Numba's in a last digit, where what is
optimised as a whole adds up in another order, but not from one time to the next: what is linked is always read from
the bitcode that the cache keeps. A part that calls itself needs an address, and is translated after all.

All of this leans on Numba's insides: in `_quick_front` before code is written, in `_quick_values` while it is, and in
`_quick_back` after that. With a version that it was not tried on they are not even imported. There, and where the
environment variable `ASSAY_PLAIN_COMPILE` is set, `quickly()` does nothing and kernels compile as Numba likes.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numba
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock

from assay.numerics._replace import replaced

__all__ = ["PartCompiler", "possible", "quickly"]

KNOWN = ("0.68.",)
"""The versions of Numba that machine code was compared for, with and without."""

PartCompiler: Any = Compiler
_replacements: list[tuple[Any, str, Any]] = []

if numba.__version__.startswith(KNOWN):
    from assay.numerics import _quick_back, _quick_front, _quick_values

    PartCompiler = _quick_back.PartCompiler
    _replacements = [*_quick_front.REPLACEMENTS, *_quick_back.REPLACEMENTS, *_quick_values.REPLACEMENTS]

_depth = 0


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Collect no garbage for the length of a block; what is alive after it counts as old, which costs no look at it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # someone who froze objects wants them to stay so
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def possible() -> bool:
    """Whether Numba's version is one that was tried, and nobody asked for the plain way."""
    return numba.__version__.startswith(KNOWN) and not os.environ.get("ASSAY_PLAIN_COMPILE")


@contextmanager
def quickly() -> Iterator[None]:
    """Let Numba compile without repeating itself for the length of a block, and no other thread compile meanwhile."""
    global _depth
    with ExitStack() as undo:
        undo.enter_context(global_compiler_lock)
        if _depth == 0 and possible():
            undo.enter_context(_collector_at_rest())
            for owner, name, value in _replacements:
                undo.enter_context(replaced(owner, name, value))
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1
