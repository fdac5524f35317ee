"""What Numba finds out about a kernel before it writes code for LLVM, without asking twice; see `numerics.quick`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numba
from numba.core import base, ir, lowering, postproc, ssa, transforms, typed_passes, typeinfer, untyped_passes
from numba.core.annotations.type_annotations import TypeAnnotation
from numba.core.inline_closurecall import InlineClosureCallPass
from numba.core.registry import cpu_target
from numba.core.targetconfig import TargetConfig
from numba.core.types import Array, StringLiteral
from numba.core.types.functions import BaseFunction
from numba.stencils.stencil import StencilFunc

from assay.numerics._replace import replaced

__all__ = ["REPLACEMENTS"]

errors: Any = importlib.import_module("numba.core.errors")

_ask_rules = BaseFunction.get_call_type
_ask_implementations = base.BaseContext.get_function
_ask_place = base._has_loc
_define = untyped_passes.fixup_var_define_in_scope
_rename = ssa._run_ssa
_rename_in_blocks = ssa._run_block_rewrite
_clean_up = postproc.PostProcessor.run
_inline_closures = InlineClosureCallPass.run
_rewrite_arrays = typed_passes.NopythonRewrites.run_pass

_NESTS = (dict, list, tuple)

_signatures: dict[int, tuple[BaseFunction, dict[Any, Any]]] = {}
_absent: set[Any] = set()
_barren: set[type] = set()
_places: dict[Any, bool] = {}


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


def _has_place(function: Any) -> bool:
    """`_has_loc`, with a memory."""
    if function not in _places:
        _places[function] = _ask_place(function)
    return _places[function]


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


def _define_once(blocks: Any) -> None:
    """`fixup_var_define_in_scope`, once for a scope that all blocks share."""
    scopes = {id(block.scope): block.scope for block in blocks.values()}
    if len(scopes) > 1:
        _define(blocks)
        return
    (scope,) = scopes.values()
    for statement in (statement for block in blocks.values() for statement in block.body):
        for variable in statement.list_vars():
            if variable.name not in scope.localvars:
                scope.localvars.define(variable.name, variable)


def _single_assignment(blocks: Any) -> Any:
    """`_run_ssa`, which looks for a variable to rename in the blocks that mention it."""
    mentioned = {
        label: {variable.name for statement in block.body for variable in statement.list_vars()}
        for label, block in blocks.items()
    }

    def rewrite(blocks: Any, states: Any, handler: Any) -> Any:
        name = states["varname"]
        concerned = {label: block for label, block in blocks.items() if name in mentioned[label]}
        renamed = _rename_in_blocks(concerned, states, handler)
        return {label: renamed.get(label) or _twin(block) for label, block in blocks.items()}

    with replaced(ssa, "_run_block_rewrite", rewrite):
        return _rename(blocks)


def _twin(block: Any) -> Any:
    """Another block with the same statements; what is put before them is not put before the first one's."""
    twin = ir.Block(scope=block.scope, loc=block.loc)
    twin.body = block.body
    return twin


def _after_pass(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """`PostProcessor.run`, which looks into the lives of variables where their ends are to be marked."""
    if self.func_ir.is_generator:
        _clean_up(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


def _assigned(function: Any) -> Iterator[Any]:
    """All assignments of a function."""
    for block in function.blocks.values():
        for statement in block.body:
            if isinstance(statement, ir.Assign):
                yield statement


def _inline(self: Any) -> None:
    """`InlineClosureCallPass.run`, where there is a closure, a list, a reduction or a stencil."""
    if any(_could_be_inlined(statement.value) for statement in _assigned(self.func_ir)):
        _inline_closures(self)


def _could_be_inlined(value: Any) -> bool:
    if isinstance(value, ir.Expr):
        named = value.op == "getattr" and value.attr in ("reduce", "stencil")
        return named or value.op in ("make_function", "build_list")
    known = value.value if isinstance(value, (ir.Global, ir.FreeVar)) else None
    return known is functools.reduce or known is numba.stencil or isinstance(known, StencilFunc)


def _rewrite(self: Any, state: Any) -> Any:
    """`NopythonRewrites.run_pass`, where an expression makes an array, or a name stands for a field."""
    texts = any(isinstance(kind, StringLiteral) for kind in state.typemap.values())
    if texts or any(_could_be_rewritten(statement, state.typemap) for statement in _assigned(state.func_ir)):
        return _rewrite_arrays(self, state)
    return True


def _could_be_rewritten(statement: Any, types: Any) -> bool:
    makes = isinstance(statement.value, ir.Expr) and statement.value.op in ("unary", "binop", "call")
    return makes and isinstance(types.get(statement.target.name), Array)


def _options(self: Any) -> dict[str, Any]:
    """`TargetConfig.values`, without a call for each of them."""
    return {name: self._values.get(name, option.default) for name, option in self.options.items()}


class _ErrorContext:
    """`new_error_context`, as a class, which costs a third of a generator."""

    __slots__ = ("about",)

    def __init__(self, text: str, *args: Any, **kws: Any) -> None:
        self.about = text, args, kws
        place = kws.get("loc")
        if place is not None and not place.filename.startswith(errors._numba_path):
            errors.loc_info.update(kws)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _traceback: Any) -> None:
        if isinstance(error, errors.NumbaError):
            error.add_context(errors._format_msg(*self.about))


def _let_warn(self: Any, filename: Any = None, lineno: Any = None) -> Any:
    """`WarningsFixer.catch_warnings`, which sets all filters anew for each statement; whoever warns does it at once."""
    return nullcontext()


def _no_listing(self: Any) -> str:
    """`TypeAnnotation.__str__`: the source with all types beside it, which the cache would keep for `inspect_types`."""
    return ""


REPLACEMENTS: list[tuple[Any, str, Any]] = [
    (BaseFunction, "get_call_type", _call_type),
    (base.BaseContext, "get_function", _function),
    (base, "_has_loc", _has_place),
    (ir.Inst, "_rec_list_vars", _variables),
    (untyped_passes, "fixup_var_define_in_scope", _define_once),
    (ssa, "_run_ssa", _single_assignment),
    (postproc.PostProcessor, "run", _after_pass),
    (InlineClosureCallPass, "run", _inline),
    (typed_passes.NopythonRewrites, "run_pass", _rewrite),
    (TargetConfig, "values", _options),
    (errors.WarningsFixer, "catch_warnings", _let_warn),
    (typeinfer, "new_error_context", _ErrorContext),
    (lowering, "new_error_context", _ErrorContext),
    (TypeAnnotation, "__str__", _no_listing),
]
