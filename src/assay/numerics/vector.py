"""Steps of a kernel that the compiler does not find: cache lines asked for ahead, and several numbers at once.

prefetch(a, i)           ask for the cache line of a[i]
add_pair(a, i, x, y)     a[i] += x, a[i + 1] += y  at once
to_real(i)               float(i), correctly rounded, several at once
count_to_real(i)         float(i) of -2^31 <= i < 2^31, in fewer steps

Before AVX-512 no x86 processor turns several 64-bit whole numbers into reals at once, and a loop that has to
do so does everything else one by one too. With 32-bit numbers they all can. Of longer ones `to_real` puts two halves
into the lower bits of two powers of two, which are real numbers already, and the sign into an excess of 2^63.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic as numba_intrinsic

from assay.numerics.jit import kernel

__all__ = ["add_pair", "count_to_real", "prefetch", "to_real"]

intrinsic: Any = numba_intrinsic  # its first argument is filled in by Numba, which its types do not say


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """The address of one entry of a vector."""
    made = context.make_array(kind)(context, builder, array)
    return builder.gep(made.data, [index])


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of array[index]; only a hint, so any index will do."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], *arguments)
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        call, name = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole]), "llvm.prefetch.p0"
        function = builder.module.globals.get(name) or ir.Function(builder.module, call, name)
        builder.call(function, [builder.bitcast(place, byte), whole(0), whole(3), whole(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build


@intrinsic
def add_pair(typing: Any, array: Any, index: Any, one: Any, two: Any) -> Any:
    """Add two numbers to array[index] and array[index + 1] at once; the compiler does not see that it could."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pair = ir.VectorType(ir.IntType(64), 2)
        place = builder.bitcast(_place(context, builder, signature.args[0], *arguments[:2]), pair.as_pointer())
        both = ir.Constant(pair, ir.Undefined)
        for k in range(2):
            both = builder.insert_element(both, arguments[2 + k], ir.IntType(32)(k))
        builder.store(builder.add(builder.load(place, align=8), both), place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, types.int64, types.int64), build


SIGN, LOWER = np.int64(-(2**63)), np.int64(2**32 - 1)
UPPER_POWER, LOWER_POWER = (np.float64(2.0**power).view(np.int64) for power in (84, 52))
EXCESS = 2.0**84 + 2.0**63 + 2.0**52


@kernel(exact=True, inline=True)
def to_real(i: int) -> float:
    """A whole number as a real one: only the last addition rounds."""
    upper = np.int64(np.int64(np.uint64(i ^ SIGN) >> np.uint64(32)) | UPPER_POWER).view(np.float64)
    lower = np.int64((i & LOWER) | LOWER_POWER).view(np.float64)
    return (upper - EXCESS) + lower


@kernel(inline=True)
def count_to_real(i: int) -> float:
    """A whole number of 32 bits as a real one."""
    return float(np.int32(i))
