"""What classes declare about their state, the classes that are known, and the one check of an object against it all.

`named` finds a class by its name in files, `kind_of` by an object; `check_state` is what writing and reading rely on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, reduce
from importlib import import_module
from numbers import Integral
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

import assay
from assay.constraints import Constraint, any_number, boolean, instance_of, integer, none, text

__all__ = [
    "Kind",
    "Sizes",
    "Specs",
    "StateError",
    "Stateful",
    "anything",
    "array",
    "bools",
    "check_state",
    "classes",
    "contrasts",
    "declared",
    "facts",
    "floats",
    "ints",
    "kind_of",
    "labels",
    "left_out",
    "named",
    "names",
    "need",
    "optional",
    "part",
    "register",
    "several",
    "size",
    "values",
]

Array = np.ndarray
Sizes = dict[str, int]
Size = int | str | Callable[[Sizes], int] | None
Specs = Mapping[str, Constraint | None]


class StateError(ValueError):
    """State that contradicts its declaration."""


def need(holds: Any, what: str = "its indices or sizes are inconsistent") -> None:
    """Raise a `StateError` unless it holds."""
    if not holds:
        raise StateError(what)


# What a class declares.


def _agrees(length: int, wanted: Size, sizes: Sizes) -> bool:
    """Whether a length is the one wanted; a letter without a size takes it. "n+1" is one more than n."""
    if wanted is None or isinstance(wanted, int):
        return wanted is None or length == wanted
    if callable(wanted):
        return bool(length == wanted(sizes))
    name, _, more = wanted.partition("+")
    length -= int(more or 0)
    return length >= 0 and sizes.setdefault(name, length) == length


class array(Constraint):  # noqa: N801 (declared like the functions below)
    """Exact dtype, sizes, range. `below` is a size or a number, `rising` forbids a step down, `order` is a fit's."""

    def __init__(
        self,
        dtype: Any,
        *shape: Size,
        low: float | None = None,
        high: float | None = None,
        below: Size = None,
        finite: bool = True,
        rising: bool = False,
        order: str = "C",
    ) -> None:
        super().__init__(lambda value: self.fits(value, {}), f"an array of {np.dtype(dtype)} with the sizes {shape}")
        self.dtype, self.shape, self.order = np.dtype(dtype), shape, order
        self.low, self.high, self.below, self.finite, self.rising = low, high, below, finite, rising

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """Type, sizes and range."""
        if type(value) is not np.ndarray or value.dtype != self.dtype or value.ndim != len(self.shape):
            return False
        if not all(_agrees(*pair, sizes) for pair in zip(value.shape, self.shape, strict=True)):
            return False
        return value.size == 0 or self._in_range(value, sizes)

    def _in_range(self, value: Array, sizes: Sizes) -> bool:
        if self.finite and self.dtype.kind == "f" and not np.isfinite(value).all():
            return False
        limit = sizes[self.below] if isinstance(self.below, str) else self.below
        return not (
            (self.low is not None and (value < self.low).any())
            or (self.high is not None and (value > self.high).any())
            or (limit is not None and (value >= limit).any())
            or (self.rising and (np.diff(value) < 0).any())
        )


def floats(*shape: Size, **more: Any) -> Constraint:
    """Float64, finite unless said otherwise."""
    return array(np.float64, *shape, **more)


def ints(*shape: Size, low: float | None = 0, **more: Any) -> Constraint:
    """Int64, not negative unless said otherwise."""
    return array(np.int64, *shape, low=low, **more)


class values(Constraint):  # noqa: N801
    """Numbers of any type and range that no compiled code reads."""

    def __init__(self, *shape: Size) -> None:
        super().__init__(lambda value: self.fits(value, {}), f"an array with the sizes {shape}")
        self.shape = shape

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """The sizes."""
        good = type(value) is np.ndarray and value.dtype.kind in "biuf" and value.ndim == len(self.shape)
        return good and all(_agrees(*pair, sizes) for pair in zip(value.shape, self.shape, strict=True))


def bools(*shape: Size) -> Constraint:
    """Truth values."""
    return array(np.bool_, *shape)


class _Labels(Constraint):
    def __init__(self, length: Size, kinds: str, least: int = 0) -> None:
        super().__init__(lambda value: self.fits(value, {}), "an array of distinct labels")
        self.length, self.kinds, self.least = length, kinds, least

    def fits(self, value: Any, sizes: Sizes) -> bool:
        if type(value) is not np.ndarray or value.ndim != 1 or value.dtype.kind not in self.kinds:
            return False
        plain = value.tolist()
        allowed = str if "i" not in self.kinds else str | int | float
        good = all(isinstance(one, allowed) and one == one for one in plain) and len(set(plain)) == len(plain)
        return good and value.size >= self.least and _agrees(value.size, self.length, sizes)


def classes(length: Size) -> Constraint:
    """The labels of a classifier, two at least."""
    return _Labels(length, "biufUO", least=2)


def labels(length: Size) -> Constraint:
    """Classes or levels: numbers or text, none of them missing or repeated."""
    return _Labels(length, "biufUO")


def names(length: Size, *, optional: bool = False) -> Constraint:
    """Column names."""
    made = _Labels(length, "UO")
    return _Optional(made) if optional else made


class size(Constraint):  # noqa: N801 (declared like the functions above)
    """A whole number that is the size with this letter."""

    def __init__(self, letter: Size) -> None:
        super().__init__(lambda value: self.fits(value, {}), f"the size {letter}")
        self.letter = letter

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """A number of at least one."""
        whole = isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) < 2**31
        return whole and _agrees(int(value), self.letter, sizes)


class part(Constraint):  # noqa: N801
    """An object of one of the given classes, whose sizes are those of its owner: by the same letter or renamed."""

    def __init__(self, kinds: type | str | tuple[type | str, ...], *same: str, **renamed: Size) -> None:
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        words = " or ".join(kind if isinstance(kind, str) else kind.__name__ for kind in kinds)

        def accepts(value: Any) -> bool:  # a class that stands further down in its file is given by its name
            return any(isinstance(value, _CLASSES[kind] if isinstance(kind, str) else kind) for kind in kinds)

        super().__init__(accepts, words)
        self.sizes: dict[str, Size] = {**{letter: letter for letter in same}, **renamed}

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """The part's own check, and its sizes; an estimator must be fitted."""
        kind = kind_of(value)
        if not self.accepts(value) or kind is None or not kind.is_fitted(value):
            return False
        found = check_state(value)
        return all(_agrees(found[inner], outer, sizes) for inner, outer in self.sizes.items() if inner in found)


class several(Constraint):  # noqa: N801
    """A list or tuple (as said by `kind`) of things alike."""

    def __init__(self, inner: Constraint, length: Size = None, *, kind: type = list) -> None:
        super().__init__(lambda value: self.fits(value, {}), f"a {kind.__name__} whose items are {inner.words}")
        self.inner, self.length = inner, length
        self.kind: type[Any] = kind

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """Its length, and each entry."""
        if not isinstance(value, self.kind) or not _agrees(len(value), self.length, sizes):
            return False
        return all(self.inner.fits(one, sizes) for one in value)


class _Optional(Constraint):
    """An attribute that need not be there; a field of a dataclass then has its default."""

    def __init__(self, inner: Constraint) -> None:
        super().__init__(inner.accepts, inner.words)
        self.inner = inner

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return self.inner.fits(value, sizes)


optional = _Optional


class left_out(Constraint):  # noqa: N801
    """An attribute that does not travel; it comes back as `value`, or from `_restore` where that makes it."""

    def __init__(self, value: Any = None) -> None:
        super().__init__(lambda _: True, "left out")
        self.value = value


def contrasts(sizes: Sizes) -> int:
    """Scores of k classes: one for two of them."""
    return 1 if sizes["k"] == 2 else sizes["k"]


class _Anything(Constraint):
    """Plain values, and objects that pass their own check."""

    def __init__(self) -> None:
        super().__init__(lambda _: True, "anything plain")

    def fits(self, value: Any, sizes: Sizes) -> bool:
        if isinstance(value, list | tuple):
            return all(self.fits(one, sizes) for one in value)
        if isinstance(value, dict):
            return all(self.fits(one, sizes) for one in value.values())
        value = value._stored() if isinstance(value, Stateful) else value
        if kind_of(value) is not None:
            check_state(value)
        return True


anything = _Anything()


def facts(*named: str) -> dict[str, Constraint]:
    """Attributes for readers, which no prediction and no compiled code uses; each may be missing."""
    return dict.fromkeys(named, _Optional(anything))


def _by_annotation(hint: Any) -> Constraint:
    """The constraint of a dataclass's field that is not in its table."""
    simple = {float: any_number, int: integer(), bool: boolean, str: text, NoneType: none}
    origin, inside = get_origin(hint), get_args(hint)
    if hint in simple:
        return simple[hint]
    if hint is np.ndarray or hint is pd.DataFrame:
        return instance_of(hint, "an array" if hint is np.ndarray else "a table")
    if origin in (Union, UnionType):
        return reduce(lambda a, b: a | b, map(_by_annotation, inside))
    if origin is list or (origin is tuple and inside[1:] == (...,)):
        return several(_by_annotation(inside[0]), kind=origin)
    if isinstance(hint, type) and issubclass(hint, Stateful):
        return part(hint)
    return anything


# Classes that are known.


class Stateful:
    """Root of what a model file can hold; a subclass inside assay registers itself by package and name."""

    state: ClassVar[Any] = {}
    state_version: ClassVar[int] = 1
    state_name: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        root, *inner = cls.__module__.split(".")
        if root != "assay" or not inner:
            return  # a user's own subclass is another class, which only the user can vouch for
        name = cls.__dict__.get("state_name") or f"{inner[0]}.{cls.__name__.lstrip('_')}"
        known = _CLASSES.setdefault(name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{cls.__module__}.{cls.__name__} needs a state_name: {known.__module__} has {name!r}")
        _CLASSES[name] = cls
        _NAMES[cls] = name

    def _check_state(self) -> None:
        """Raise `StateError` where attributes contradict each other in a way that the table cannot say."""

    def _restore(self) -> None:
        """Set what follows from the stored state."""

    def _stored(self) -> Any:
        """What a file holds in the place of this object."""
        return self


@dataclass(frozen=True, eq=False)
class Kind:
    """What is known about a class: its name in files, its parameters (None for a dataclass) and its table."""

    cls: type
    name: str
    version: int
    parameters: tuple[str, ...] | None
    table: Mapping[str, Constraint]
    check_parameters: Callable[[Any], None] = lambda _: None
    check: Callable[[Any], None] = lambda _: None
    restore: Callable[[Any], None] = lambda _: None

    def is_fitted(self, value: Any) -> bool:
        """Whether there is anything beside the parameters; a pipeline has nothing of its own, and its check is due."""
        return self.parameters is None or not self.table or any(name in vars(value) for name in self.table)


UNSTORED = (
    "_skl_callbacks",
    "_skl_callbacks_to_teardown",
    "_callback_fit_ctx",
    "_parent_callback_ctx",
    "_fit_task",
    "_metadata_request",
)
"""What steers a fit is no part of the model that it makes: scikit-learn's callbacks, what they and `assay.callbacks`
set on an estimator, and its requests for metadata."""

_CLASSES: dict[str, type] = {}
_NAMES: dict[type, str] = {}
_GUESTS: dict[type, Kind] = {}


def register(kind: type, name: str, parameters: Mapping[str, Constraint], state: Specs, check: Any) -> None:
    """Make a class of another package known, with the ranges of its parameters and its state."""

    def check_parameters(value: Any) -> None:
        for key, constraint in parameters.items():
            need(constraint.accepts(getattr(value, key)), f"{key} must be {constraint.words}")

    table = {key: spec for key, spec in state.items() if spec is not None}
    _GUESTS[kind] = Kind(kind, name, 1, tuple(parameters), table, check_parameters, check)
    _CLASSES[name] = kind


def kind_of(value: Any) -> Kind | None:
    """What is known about the class of an object; None for classes of others."""
    cls: Any = type(value)
    return _GUESTS[cls] if cls in _GUESTS else _own(cls) if cls in _NAMES else None


@cache
def _own(cls: type) -> Kind:
    table: dict[str, Constraint | None] = {}
    parameters = None
    if is_dataclass(cls):
        hints = get_type_hints(cls)
        table = {field.name: _by_annotation(hints[field.name]) for field in fields(cls)}
    else:
        parameters = tuple(inspect.signature(cls).parameters)
    for base in reversed(cls.__mro__):
        own = base.__dict__.get("state", {})
        table |= own if isinstance(own, Mapping) else {}
    kept = {name: spec for name, spec in table.items() if spec is not None}
    made: Any = cls
    check = getattr(made, "_check_parameters", lambda _: None)
    return Kind(cls, _NAMES[cls], made.state_version, parameters, kept, check, made._check_state, made._restore)


def named(name: Any) -> Kind:
    """A class by its name in files."""
    need(isinstance(name, str) and len(name) < 100, "it refers to an unknown class")
    if name not in _CLASSES:
        family, _, word = name.partition(".")
        if family in assay.__all__ and word.isidentifier():
            getattr(import_module(f"assay.{family}"), word, None)  # families load on first use
    need(name in _CLASSES, f"it contains a {name!r}, which this version does not support")
    cls = _CLASSES[name]
    return _GUESTS[cls] if cls in _GUESTS else _own(cls)


def declared(name: str) -> tuple[set[str], set[str]]:
    """The parameters and the stored attributes of a class, by its name in files."""
    kind = named(name)
    stored = {key for key, spec in kind.table.items() if not isinstance(spec, left_out)}
    return set(kind.parameters or ()), stored


def check_state(value: Any) -> Sizes:
    """Check an object and all that it holds against the declarations; its sizes, or a `StateError`."""
    kind = kind_of(value)
    assert kind is not None
    sizes: Sizes = {}
    where = kind.cls.__name__
    if kind.parameters is not None:
        for name in kind.parameters:
            anything.fits(getattr(value, name), {})
        kind.check_parameters(value)
        need(-1024 <= (getattr(value, "n_jobs", None) or 0) <= 1024, f"{where} asks for too many threads")
        if not kind.is_fitted(value):
            return {}
    for name, spec in kind.table.items():
        if isinstance(spec, left_out):
            continue
        if not hasattr(value, name):
            need(isinstance(spec, _Optional), f"{where} has no {name}")
        elif not spec.fits(getattr(value, name), sizes):
            raise StateError(f"{where}.{name} is not {spec.words}")
    try:
        kind.check(value)
    except StateError as error:
        raise error if str(error).startswith(where) else StateError(f"{where}: {error}") from error
    return sizes
