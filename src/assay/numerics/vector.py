"""Steps of a kernel that the compiler does not find: cache lines asked for ahead, and several numbers at once.

prefetch(a, i)           ask for the cache line of a[i]
add_pair(a, i, x, y)     a[i] += x, a[i + 1] += y  at once
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic as numba_intrinsic

__all__ = ["add_pair", "prefetch"]

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
