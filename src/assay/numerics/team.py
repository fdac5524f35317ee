"""A team: several threads that run one kernel together and wait for each other inside it, without Python.

Growing a boosted tree asks for a hundred short steps, each worth a few threads and each needing the one before. Sent
through a pool, a step's hand-over would cost more than the step. Here a caller and its helpers (`threads.Crew`) enter
the same nogil kernel and meet at barriers, a few tenths of a microsecond each, made of the processor's atomic
operations:

    size = lead(gate, wanted)           the caller, rank 0: how many are we?
    rank, size, seen = follow(gate, s)  a helper waits for a call later than s; rank -1: nobody called, go home
    ... my share ...
    meet(gate, size)                    nobody passes before all have come; what was written before is seen after
    k = take(gate)                      0, 1, 2, ... since the last meeting, each number for one member only

A helper stays in the kernel from one call to the next, for waking a thread costs as much as a tenth of a small tree.
No promise of threads is needed: the caller waits a short while for the others and then closes the door; those who came
are the team, and whoever comes later waits for the next call. A pool that is busy thus gives a team of one, never a
deadlock. Nobody waits for a thread that has not begun to run the kernel. Waiting threads spin at first and then hand
their core over at every look, so more threads than cores still advance; a helper that is not called for a while leaves.

Work must be shared out so that no result depends on the size of the team: each number is computed by one member
alone, whoever that is, or is a sum of whole numbers, which is the same in any order.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic as numba_intrinsic

from assay.numerics.jit import kernel

__all__ = ["CALL", "OVER", "follow", "lead", "meet", "new_gate", "take"]

Array = np.ndarray
intrinsic: Any = numba_intrinsic  # its first argument is filled in by Numba, which its types do not say

# Each counter stands in a cache line of its own.
COMERS, TEAM, WAITING, ROUND, TICKET, CALL = 0, 8, 16, 24, 32, 40
CLOSED, OVER = 1 << 32, -1
PATIENCE = 400
"""Looks before a waiting thread hands over its core; about ten microseconds."""
LEAVE = 40_000
"""Looks before a helper leaves whom nobody calls; several milliseconds."""


def new_gate() -> Array:
    """The counters of one team; `gate[CALL] = OVER` sends its helpers home."""
    return np.zeros(48, dtype=np.int64)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """The address of one entry of a vector of int64."""
    made = context.make_array(kind)(context, builder, array)
    return builder.gep(made.data, [index])


@intrinsic
def _fetch_add(typing: Any, array: Any, index: Any, amount: Any) -> Any:
    """Add to an entry in one indivisible step and return what was there before."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.atomic_rmw("add", place, arguments[2], "acq_rel")

    return types.int64(array, types.int64, types.int64), build


@intrinsic
def _look(typing: Any, array: Any, index: Any) -> Any:
    """Read an entry together with everything its writer had written before it."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(array, types.int64), build


@intrinsic
def _tell(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write an entry so that whoever reads it sees everything written before."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store_atomic(arguments[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), build


@intrinsic
def _hand_over(typing: Any) -> Any:
    """Offer the core to whoever else wants to run."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
        call = ir.FunctionType(ir.IntType(32), [])
        if name in builder.module.globals:
            function = builder.module.globals[name]
        else:
            function = ir.Function(builder.module, call, name)
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), build


@kernel(inline=True)
def lead(gate: Array, wanted: int) -> int:
    """Call the helpers; the size of the team, the caller included."""
    _tell(gate, TICKET, 0)
    if wanted == 1:
        return 1
    _tell(gate, TEAM, 0)
    _tell(gate, COMERS, 1)
    _fetch_add(gate, CALL, 1)
    looks = 0
    # About a millisecond at most, less than a tree of two threads saves.
    while _look(gate, COMERS) < wanted and looks < 10 * PATIENCE:
        looks += 1
        if looks > PATIENCE:
            _hand_over()
    size = _fetch_add(gate, COMERS, CLOSED)
    _tell(gate, TEAM, size)
    return size


@kernel(inline=True)
def follow(gate: Array, seen: int) -> tuple[int, int, int]:
    """Wait for a call after number `seen`: this thread's rank, the size of its team, the number of the call."""
    looks = 0
    while looks < LEAVE:
        call = _look(gate, CALL)
        if call == OVER:
            break
        if call != seen:
            seen = call
            rank = _fetch_add(gate, COMERS, 1)
            if rank < CLOSED:
                size = _look(gate, TEAM)
                while size == 0:
                    looks += 1
                    if looks > PATIENCE:
                        _hand_over()
                    size = _look(gate, TEAM)
                return rank, size, _look(gate, CALL)
        looks += 1
        if looks > PATIENCE:
            _hand_over()
    return -1, 0, seen


@kernel(inline=True)
def meet(gate: Array, size: int) -> None:
    """Wait until every member of the team has come here."""
    if size == 1:
        gate[TICKET] = 0
        return
    now = _look(gate, ROUND)
    if _fetch_add(gate, WAITING, 1) == size - 1:
        _tell(gate, WAITING, 0)
        _tell(gate, TICKET, 0)
        _tell(gate, ROUND, now + 1)
        return
    looks = 0
    while _look(gate, ROUND) == now:
        looks += 1
        if looks > PATIENCE:
            _hand_over()


@kernel(inline=True)
def take(gate: Array) -> int:
    """The next piece of work that nobody has taken since the team last met."""
    return _fetch_add(gate, TICKET, 1)
