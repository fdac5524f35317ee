"""The values that Numba writes code about, in fewer words for LLVM to read; see `numerics.quick`.

Numba gives each variable, and each bundle of values that it has at hand, a place in memory, and takes it out of there
again field by field. LLVM's first passes do little else than undo that. Here a value stays a value where that is known
to be the same: what is put into a bundle is what is taken out of it.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir as llvm
from llvmlite.ir.instructions import ExtractValue, InsertValue, PhiInstr
from numba.core import analysis, cgutils, ir
from numba.core.lowering import Lower
from numba.core.runtime.context import NRTContext
from numba.core.types import Array
from numba.np import arrayobj

__all__ = ["REPLACEMENTS"]

Builder = llvm.IRBuilder
Bundle = cgutils._StructProxy

_find_local = Lower._find_singly_assigned_variable
_lower_function = Lower.lower_normal_function
_lower_assignment = Lower.lower_assign
_end_variable = Lower.delvar
_assign_variable = Lower.storevar
_make_bundle = Bundle.__init__
_take_attribute = Bundle.__getattr__
_take_field = Bundle.__getitem__
_put_field = Bundle.__setitem__
_take_all = Bundle._getvalue
_make_array = arrayobj.make_array
_extract = Builder.extract_value
_add = Builder.add
_multiply = Builder.mul
_compare = Builder.icmp_signed
_select = Builder.select

_BIT = llvm.IntType(1)
_SMALL = 1 << 31
_ORDERS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne
}  # fmt: skip

_counts: dict[Any, bool] = {}
_arrays: dict[Any, Any] = {}


# Variables.


def _find_kept(self: Any) -> None:
    """`Lower._find_singly_assigned_variable`: the variables that need no memory, for they get a value before any use.

    Numba keeps those that a single block mentions. Here those are kept, too, that are mentioned where no way leads but
    through their assignment. Where references to a value are counted, the ends of its life may be elsewhere, and it is
    kept only if it is an argument, which the caller holds: references to those need not be counted at all.
    """
    self._borrowed = set()
    if self.func_ir.is_generator or self._disable_sroa_like_opt:
        _find_local(self)
        return
    blocks, manager = self.func_ir.blocks, self.context.data_model_manager
    dominators = analysis.compute_cfg_from_blocks(blocks).dominators()
    kept = set()
    for name, (label, value, users) in _given_once(blocks).items():
        kind = self.typeof(name)
        if isinstance(value, ir.Arg) and self.typeof("arg." + value.name) == kind:
            self._borrowed.add(name)
        elif not users <= {label} and (_counted(manager, kind) or not all(label in dominators[user] for user in users)):
            continue
        kept.add(name)
    self._singly_assigned_vars = kept
    self._blk_local_varmap = {}


def _given_once(blocks: Any) -> dict[str, tuple[int, Any, set[int]]]:
    """Variables with one assignment that is written before all their uses: its block, its value, and who uses them."""
    given: dict[str, tuple[int, Any, set[int]]] = {}
    barred = set(analysis.must_use_alloca(blocks))
    for label, block in sorted(blocks.items()):  # in the order in which they will be written
        for statement in block.body:
            if isinstance(statement, ir.Del):
                continue
            mentioned = [variable.name for variable in statement.list_vars()]
            target = statement.target.name if isinstance(statement, ir.Assign) else None
            if target is not None:
                mentioned.remove(target)
            for name in mentioned:
                if name in given:
                    given[name][2].add(label)
                else:
                    barred.add(name)
            if target in given:
                barred.add(target)
            elif target is not None:
                given[target] = label, statement.value, set()
    return {name: found for name, found in given.items() if name not in barred}


def _assignment(self: Any, kind: Any, statement: Any) -> Any:
    """`Lower.lower_assign`, which takes an argument as it is."""
    if statement.target.name in self._borrowed:
        return self.fnargs[statement.value.index]
    return _lower_assignment(self, kind, statement)


def _end(self: Any, name: str) -> None:
    """`Lower.delvar`, which clears a variable only where what it held is counted."""
    if name in self._borrowed:
        return
    if self._disable_sroa_like_opt or _counted(self.context.data_model_manager, self.typeof(name)):
        _end_variable(self, name)
    elif name not in self._blk_local_varmap:
        self._singly_assigned_vars.discard(name)


def _assign(self: Any, value: Any, name: str, argidx: Any = None) -> None:
    """`Lower.storevar`, which looks at what a variable held before only where that is counted."""
    kind = self.typeof(name)
    kept = argidx is None and not self._disable_sroa_like_opt and name not in self._singly_assigned_vars
    if kept and not _counted(self.context.data_model_manager, kind):
        self._alloca_var(name, kind)
        place = self.getvar(name)
        if value.type == place.type.pointee:
            self.builder.store(value, place)
            return
    _assign_variable(self, value, name, argidx)


def _counted(manager: Any, kind: Any) -> bool:
    """Whether references to a value of this type, or to a part of it, are counted."""
    if kind not in _counts:
        model = manager[kind]
        inner = (part for part, _ in model.traverse(None))
        _counts[kind] = model.has_nrt_meminfo() or any(_counted(manager, part) for part in inner)
    return _counts[kind]


def _references(self: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """`NRTContext.get_meminfos`, which takes only those parts out of a value in which there is something to count."""
    manager = self._context.data_model_manager
    if not _counted(manager, kind):
        return []
    model = manager[kind]
    found = [(kind, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    for part, get in model.traverse(builder):
        if _counted(manager, part):
            found += self.get_meminfos(builder, part, get(value))
    return found


# Bundles: arrays, ranges, iterators, pairs.


def _at_end(builder: Any) -> bool:
    """Whether what is written next comes last in a block that is not the first one, where memory is laid out."""
    block = builder._block
    return builder._anchor == len(block.instructions) and block is not block.parent.blocks[0]


def _bundle(self: Any, context: Any, builder: Any, value: Any = None, ref: Any = None) -> None:
    """`_StructProxy.__init__`, which leaves a bundle where it is until someone wants it in memory."""
    plain = type(self)._make_refs is Bundle._make_refs or type(self._fe_type) is Array
    vars(self)["_fields"] = None
    if ref is not None or not plain or not isinstance(self, cgutils.ValueStructProxy) or not _at_end(builder):
        _make_bundle(self, context, builder, value, ref)
        return
    model = context.data_model_manager[self._fe_type]
    kind = self._get_be_type(model)
    if value is not None and value.type != kind:
        raise AssertionError(f"bad value type: expected {kind}, got {value.type}")
    vars(self).update(_context=context, _datamodel=model, _builder=builder, _be_type=kind, _base=value, _fields={})
    _mark(self)


def _mark(self: Any) -> None:
    """Remember where in its block all that the bundle holds is known."""
    block = self._builder._block
    vars(self)["_at"] = block, block.instructions[-1] if block.instructions else None


def _attribute(self: Any, name: str) -> Any:
    """`_StructProxy.__getattr__`: who asks for the place in memory gets one."""
    if name in ("_value", "_outer_ref") and vars(self).get("_fields") is not None:
        _to_memory(self)
        return vars(self)[name]
    return _take_attribute(self, name)


def _to_memory(self: Any) -> None:
    """Put a bundle into memory, where all it holds was known: what follows on any path finds it there."""
    builder, fields, (home, last) = self._builder, self._fields, self._at
    with builder.goto_entry_block():
        place = builder.alloca(self._be_type)
    block, anchor, before = builder._block, builder._anchor, len(home.instructions)
    if last is None:
        builder.position_at_start(home)
    else:
        builder.position_after(last)
    start = builder._anchor
    vars(self).update(_fields=None, _value=place, _outer_ref=place)
    builder.store(self._be_type(None) if self._base is None else self._base, place)
    for index, value in fields.items():
        _put_field(self, index, value)
    builder._block = block
    builder._anchor = anchor + (len(home.instructions) - before if block is home and anchor >= start else 0)


def _field(self: Any, index: int) -> Any:
    """`_StructProxy.__getitem__`, from the value at hand."""
    if self._fields is None:
        return _take_field(self, index)
    if index in self._fields:
        return self._fields[index]
    if self._base is None:
        return self._be_type.elements[index](None)
    return self._builder.extract_value(self._base, index)


def _set_field(self: Any, index: int, value: Any) -> None:
    """`_StructProxy.__setitem__`, which keeps the value at hand as long as nothing has branched since."""
    if self._fields is not None:
        here = _at_end(self._builder) and self._builder._block is self._at[0]
        if here and value.type == self._be_type.elements[index]:
            self._fields[index] = value
            _mark(self)
            return
        _to_memory(self)
    _put_field(self, index, value)


def _whole(self: Any) -> Any:
    """`_StructProxy._getvalue`, from the values at hand."""
    if self._fields is None:
        return _take_all(self)
    whole = self._base
    if whole is None:
        whole = self._be_type(llvm.Undefined if len(self._fields) == len(self._be_type.elements) else None)
    for index, value in self._fields.items():
        whole = self._builder.insert_value(whole, value, index)
    return whole


def _array(kind: Any) -> Any:
    """`make_array`, which makes one class for a type, and takes the shape, too, from the value at hand."""
    if kind in _arrays:
        return _arrays[kind]
    make = _make_array(kind)
    if type(kind) is not Array:
        return make

    class Lazy(make):  # type: ignore[misc, valid-type]
        @property
        def shape(self) -> Any:
            return super().shape if self._fields is None else _attribute(self, "shape")

    _arrays[kind] = Lazy
    return Lazy


# Code.


def _taken(self: Any, bundle: Any, index: Any, name: str = "") -> Any:
    """`IRBuilder.extract_value`: what was put in, if that was seen, and once in a block."""
    if isinstance(index, (tuple, list)):
        if len(index) > 1:
            return _extract(self, bundle, index, name)
        (index,) = index
    while type(bundle) is InsertValue:
        if bundle.indices[0] == index:
            if len(bundle.indices) == 1:
                return bundle.value
            break
        bundle = bundle.aggregate
    if not _at_end(self):
        return _extract(self, bundle, index, name)
    taken = vars(self._block).setdefault("_taken", {})
    if (id(bundle), index) not in taken:
        taken[id(bundle), index] = _extract(self, bundle, index, name)
    return taken[id(bundle), index]


def _known(value: Any) -> int | None:
    """The number that a value is, where that is written down."""
    number = value.constant if type(value) is llvm.Constant else None
    return number if type(number) is int and -_SMALL < number < _SMALL else None


def _sum(self: Any, a: Any, b: Any, name: str = "", flags: Any = ()) -> Any:
    """`IRBuilder.add`, which adds no zeros."""
    if _known(a) == 0:
        return b
    return a if _known(b) == 0 else _add(self, a, b, name, flags)


def _product(self: Any, a: Any, b: Any, name: str = "", flags: Any = ()) -> Any:
    """`IRBuilder.mul`, which takes nothing once."""
    if _known(a) == 1:
        return b
    return a if _known(b) == 1 else _multiply(self, a, b, name, flags)


def _order(self: Any, sign: str, a: Any, b: Any, name: str = "") -> Any:
    """`IRBuilder.icmp_signed`, which compares no constants; a short one may be written without its sign."""
    one, other = _known(a), _known(b)
    if one is None or other is None or a.type.width < 32:
        return _compare(self, sign, a, b, name)
    return _BIT(int(_ORDERS[sign](one, other)))


def _choice(self: Any, condition: Any, yes: Any, no: Any, name: str = "", flags: Any = ()) -> Any:
    """`IRBuilder.select`, where there is a choice."""
    known = _known(condition)
    return _select(self, condition, yes, no, name, flags) if known is None else yes if known else no


_IDLE = (InsertValue, ExtractValue)


def _function(self: Any, description: Any) -> None:
    """`Lower.lower_normal_function`, without what is put together or taken apart for nobody."""
    _lower_function(self, description)
    uses: dict[int, int] = {}
    for block in self.function.blocks:
        for instruction in block.instructions:
            for value in _operands(instruction):
                uses[id(value)] = uses.get(id(value), 0) + 1
    for block in self.function.blocks:
        wanted = []
        for instruction in reversed(block.instructions):
            if isinstance(instruction, _IDLE) and not uses.get(id(instruction)):
                for value in instruction.operands:
                    uses[id(value)] -= 1
            else:
                wanted.append(instruction)
        block.instructions[:] = reversed(wanted)


def _operands(instruction: Any) -> Any:
    return [value for value, _ in instruction.incomings] if type(instruction) is PhiInstr else instruction.operands


REPLACEMENTS: list[tuple[Any, str, Any]] = [
    (Lower, "_find_singly_assigned_variable", _find_kept),
    (Lower, "lower_assign", _assignment),
    (Lower, "delvar", _end),
    (Lower, "storevar", _assign),
    (Lower, "lower_normal_function", _function),
    (NRTContext, "get_meminfos", _references),
    (Bundle, "__init__", _bundle),
    (Bundle, "__getattr__", _attribute),
    (Bundle, "__getitem__", _field),
    (Bundle, "__setitem__", _set_field),
    (Bundle, "_getvalue", _whole),
    (arrayobj, "make_array", _array),
    (Builder, "extract_value", _taken),
    (Builder, "add", _sum),
    (Builder, "mul", _product),
    (Builder, "icmp_signed", _order),
    (Builder, "select", _choice),
]
