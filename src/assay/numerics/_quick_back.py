"""What LLVM makes of the code that Numba writes, with less of what is thrown away; see `numerics.quick`."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core import base, codegen
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment
from numba.core.registry import cpu_target

__all__ = ["REPLACEMENTS", "Library", "Part", "PartCompiler"]

_ask_size = base.BaseContext.get_abi_sizeof
_tell_environment = codegen.JITCPUCodegen.set_env

_ENVIRONMENT = "_ZN08NumbaEnv"

_sizes: dict[str, int] = {}


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
    (base.BaseContext, "get_abi_sizeof", _size),
    (llvm.ffi.lib._lock, "_cblist", []),  # two events for each of thirty thousand calls of LLVM, to time them
]
