"""What Numba writes for LLVM, and what LLVM makes of it, with less of what is thrown away; see `numerics.quick`."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core import base, cgutils, codegen
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment
from numba.core.lowering import Lower
from numba.core.registry import cpu_target
from numba.core.runtime.context import NRTContext
from numba.core.types import Array
from numba.np import arrayobj

__all__ = ["REPLACEMENTS", "Library", "Part", "PartCompiler"]

_ask_size = base.BaseContext.get_abi_sizeof
_ask_array = arrayobj.make_array
_ask_end = Lower.delvar
_ask_assign = Lower.storevar
_tell_environment = codegen.JITCPUCodegen.set_env

_ENVIRONMENT = "_ZN08NumbaEnv"

_sizes: dict[str, int] = {}
_counts: dict[Any, bool] = {}


class Library(codegen.JITCodeLibrary):
    """A code library whose declarations are left alone."""

    _codegen: Any

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _finalize_specific(self) -> None:
        """Give the inner kernels in this module what Python objects they use; they had no address before."""
        super()._finalize_specific()
        named = (variable.name for variable in self._final_module.global_variables)
        found = {name: lookup_environment(name) for name in named if name.startswith(_ENVIRONMENT)}
        self._environments = {name: objects for name, objects in found.items() if objects is not None}  # kept alive
        for name, objects in self._environments.items():
            self._codegen.set_env(name, objects)

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        return Part(codegen, name)._read(data) if kind == "bitcode" else super()._unserialize(codegen, state)


class Part(Library):
    """The code library of an inner kernel: linked into others, which optimise it and turn it into machine code."""

    _bitcode: bytes | None = None
    _translated = False

    def _optimize_final_module(self) -> None:
        if self._is_recursive():
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        if self._is_recursive():
            super()._finalize_final_module()
            return
        self._verify_declare_only_symbols()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"  # several may bring it along, and whoever does not use it drops it
        # What others link is always read from bitcode: it is the same, use by use, whether it was cached or not.
        self._read(self._final_module.as_bitcode())

    def _get_module_for_linking(self) -> Any:
        if self._bitcode and not self._translated and self._codegen._library_class is not Library:
            # Whoever compiles without haste does not look for environments: they must have an address by now.
            self._translated = True
            self._codegen._add_module(self._final_module)
            self._finalize_specific()
        return super()._get_module_for_linking()

    def _read(self, bitcode: bytes) -> Part:
        """Be what the bitcode says."""
        self._bitcode = bitcode
        self._final_module = self._shared_module = llvm.parse_bitcode(bitcode)
        self._finalize_dynamic_globals()
        self._finalized = True
        return self

    def _is_recursive(self) -> bool:
        """Whether something in the module calls a function by its address, which only machine code has."""
        unresolved = codegen.RuntimeLinker.PREFIX
        return any(variable.name.startswith(unresolved) for variable in self._final_module.global_variables)

    def serialize_using_object_code(self) -> Any:
        """What the cache keeps; any code library can read it."""
        self._ensure_finalized()
        if self._bitcode is None:
            return super().serialize_using_object_code()
        return self.name, "bitcode", self._bitcode


class PartCompiler(Compiler):
    """Numba's compiler, for inner kernels."""

    def _compile_core(self) -> Any:
        owner = self.state.targetctx.codegen()
        if owner._library_class is Library:
            self.state.library = Part(owner, self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super()._compile_core()


def _set_env(self: Any, name: str, environment: Any) -> None:
    """`JITCPUCodegen.set_env`, where there is machine code that could look for it."""
    if self._engine.is_symbol_defined(name):
        _tell_environment(self, name, environment)


class _ArrayValue:
    """An array at hand, whose fields are taken out of its value; it goes to memory if someone wants it there.

    Memory is written where the array was first mentioned: what follows on any path finds it there.
    """

    def __init__(self, make: Any, context: Any, builder: Any, value: Any) -> None:
        block = builder.block
        vars(self).update(
            _made=(make, context, builder, value),
            _at=(block, block.instructions[-1] if block.instructions else None),
            _model=context.data_model_manager[make._fe_type],
            _fields={},
            _stored=None,
        )

    def _getvalue(self) -> Any:
        return self._memory()._getvalue() if self._stored else self._made[3]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._stored:
            return getattr(self._memory(), name)
        _, _, builder, value = self._made
        block, field = self._fields.get(name, (None, None))
        if block is not builder.block:  # what another block took out may not be there on the way to this one
            field = builder.extract_value(value, self._model.get_field_position(name))
            self._fields[name] = builder.block, field
        return field

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._memory(), name, value)

    def _memory(self) -> Any:
        if self._stored is None:
            make, context, builder, value = self._made
            place = cgutils.alloca_once(builder, value.type)
            here = builder.block
            block, last = self._at
            if last is None:
                builder.position_at_start(block)
            else:
                builder.position_after(last)
            builder.store(value, place)
            builder.position_at_end(here)
            vars(self)["_stored"] = make(context, builder, ref=place)
        return self._stored


def _array(kind: Any) -> Any:
    """`make_array`, which leaves an array that is only read where it is."""
    make = _ask_array(kind)
    if type(kind) is not Array:
        return make

    def proxy(context: Any, builder: Any, value: Any = None, ref: Any = None) -> Any:
        if value is None or ref is not None or builder.block is builder.function.entry_basic_block:
            return make(context, builder, value, ref)
        return _ArrayValue(make, context, builder, value)

    return proxy


def _counted(manager: Any, kind: Any, builder: Any) -> bool:
    """Whether references to a value of this type, or to a part of it, are counted."""
    if kind not in _counts:
        model = manager[kind]
        inner = (part for part, _ in model.traverse(builder))
        _counts[kind] = model.has_nrt_meminfo() or any(_counted(manager, part, builder) for part in inner)
    return _counts[kind]


def _references(self: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """`NRTContext.get_meminfos`, which takes only those parts out of a value in which there is something to count."""
    manager = self._context.data_model_manager
    if not _counted(manager, kind, builder):
        return []
    model = manager[kind]
    found = [(kind, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    for part, get in model.traverse(builder):
        if _counted(manager, part, builder):
            found += self.get_meminfos(builder, part, get(value))
    return found


def _end(self: Any, name: str) -> None:
    """`Lower.delvar`, which clears a variable only where what it held is counted."""
    if self._disable_sroa_like_opt or _counted(self.context.data_model_manager, self.typeof(name), self.builder):
        _ask_end(self, name)
    elif name not in self._blk_local_varmap:
        self._singly_assigned_vars.discard(name)


def _assign(self: Any, value: Any, name: str, argidx: Any = None) -> None:
    """`Lower.storevar`, which looks at what a variable held before only where that is counted."""
    kind = self.typeof(name)
    kept = argidx is None and not self._disable_sroa_like_opt and name not in self._singly_assigned_vars
    if kept and not _counted(self.context.data_model_manager, kind, self.builder):
        self._alloca_var(name, kind)
        place = self.getvar(name)
        if value.type == place.type.pointee:
            self.builder.store(value, place)
            return
    _ask_assign(self, value, name, argidx)


def _size(self: Any, kind: Any) -> int:
    """`BaseContext.get_abi_sizeof`, with a memory for types that are written out."""
    written = str(kind)
    if "%" in written or self.target_data is not cpu_target.target_context.target_data:
        return int(_ask_size(self, kind))
    if written not in _sizes:
        _sizes[written] = _ask_size(self, kind)
    return _sizes[written]


REPLACEMENTS: list[tuple[Any, str, Any]] = [
    (codegen.JITCPUCodegen, "_library_class", Library),
    (codegen.JITCPUCodegen, "set_env", _set_env),
    (arrayobj, "make_array", _array),
    (NRTContext, "get_meminfos", _references),
    (Lower, "delvar", _end),
    (Lower, "storevar", _assign),
    (base.BaseContext, "get_abi_sizeof", _size),
    (llvm.ffi.lib._lock, "_cblist", []),  # two events for each of thirty thousand calls of LLVM, to time them
]
