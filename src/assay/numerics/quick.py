"""Compiling in less time, by not doing twice what once is enough for.

Two thirds of the time that a kernel takes to compile go by in Python, before LLVM sees it, and most of that on
questions that were answered before. Inside `quickly()` they are answered once, to the same machine code:

  * what `a + b` or `x[i]` means for given types is asked once. Numba tries some twenty rules each time, and looks
    every one up by comparing all of the compiler's options. Rules that compile something are still asked each time;
  * whether an array is of a kind that wraps itself is asked once per type, not at each mention of the array, when it
    makes Numba load all its registries anew;
  * the variables in an instruction are found without a call for each of its fields;
  * LLVM's passes run on functions that have a body, not on bare declarations;
  * the garbage collector rests: a compiler makes many objects that live until its end.

An inner kernel is a part of those that call it: they link its code and optimise it together with their own. Numba
optimises and translates it on its own as well, for nothing. Here a part stays as it is after the passes that tidy up
single functions, and the cache keeps that. Rounding may differ from plain Numba's in a last digit, where what is
optimised as a whole adds up in another order, but not from one time to the next: what is linked is always read from
the bitcode that the cache keeps. A part that calls itself needs an address, and is translated after all.

All of this leans on Numba's insides. With a version that it was not tried on, or where the environment variable
`ASSAY_PLAIN_COMPILE` is set, `quickly()` does nothing and kernels compile as Numba likes.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import base, codegen, ir
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.registry import cpu_target
from numba.core.types.functions import BaseFunction

__all__ = ["PartCompiler", "possible", "quickly"]

KNOWN = ("0.68.",)
"""The versions of Numba that machine code was compared for, with and without."""

_ask_rules: Any = getattr(BaseFunction, "get_call_type", None)
_ask_implementations: Any = getattr(base.BaseContext, "get_function", None)
_tell_environment: Any = getattr(getattr(codegen, "JITCPUCodegen", None), "set_env", None)

_ENVIRONMENT = "_ZN08NumbaEnv"

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
        return _Part(codegen, name)._read(data) if kind == "bitcode" else super()._unserialize(codegen, state)


class _Part(_Library):
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
        if self._bitcode and not self._translated and self._codegen._library_class is not _Library:
            # Whoever compiles without haste does not look for environments: they must have an address by now.
            self._translated = True
            self._codegen._add_module(self._final_module)
            self._finalize_specific()
        return super()._get_module_for_linking()

    def _read(self, bitcode: bytes) -> _Part:
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
        if owner._library_class is _Library:
            self.state.library = _Part(owner, self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super()._compile_core()


def _set_env(self: Any, name: str, environment: Any) -> None:
    """`JITCPUCodegen.set_env`, where there is machine code that could look for it."""
    if self._engine.is_symbol_defined(name):
        _tell_environment(self, name, environment)


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
            undo.enter_context(_replaced(codegen.JITCPUCodegen, "set_env", _set_env))
            undo.enter_context(_replaced(_codegen(), "_library_class", _Library))
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1
