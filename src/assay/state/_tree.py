"""Objects as trees of JSON values with numbered arrays, and back: only what is declared is written or built.

A node is null, a truth value, a number, a text or a list, or a dict with one of these first:

    {"number": "nan"}    {"tuple": [...]}    {"dict": [[key, value], ...]}    {"array": 3}
    {"labels": ["a", "b"], "fixed": true}    {"table": [heads, index, columns]}
    {"object": "trees.Nodes", "version": 1, "parameters": {...}, "state": {...}}    {"foreign": name, ...}
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from assay.constraints import Constraint
from assay.errors import DataTypeError
from assay.state._declarations import (
    UNSTORED,
    Kind,
    StateError,
    Stateful,
    anything,
    array,
    kind_of,
    left_out,
    named,
    need,
    optional,
)

__all__ = ["from_state", "to_state"]

Array = np.ndarray
DEEPEST = 50
SHARED, SPARE = 4, 1 << 20
"""How often the bytes of all arrays may be referred to, and how many more: each place is checked, or copied."""
PADDED = 16
"""Bytes of an array of text for each letter and entry, beyond which they count as padding: an array takes as much for
each entry as for the longest."""


def _padding(texts: Sequence[str]) -> int:
    """Bytes that an array of the texts takes beyond what is proportional to them."""
    longest = max(map(len, texts), default=0)
    return max(0, 4 * len(texts) * longest - PADDED * sum(len(one) + 1 for one in texts))


def _objects(entries: Sequence[Any]) -> Array:
    """An array of the entries as they are."""
    out = np.empty(len(entries), dtype=object)
    out[:] = entries
    return out


# Writing.


class _Writer:
    """Values as nodes of a tree; arrays are numbered."""

    def __init__(self, foreign: Callable[[Any], Any]) -> None:
        self.arrays: list[Array] = []
        self.foreign = foreign
        self.padding = SPARE
        self._numbers: dict[int, tuple[int, int]] = {}
        self._above: list[int] = []

    def node(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            return float(value) if np.isfinite(float(value)) else {"number": str(float(value))}
        if isinstance(value, pd.Series | pd.Index):
            return self.node(value.to_numpy())
        if isinstance(value, np.ndarray):
            return self._array(value)
        if id(value) in self._above:
            what = f"a {type(value).__name__} contains itself, which a model file cannot store"
            raise DataTypeError(what, remedy="remove the circular reference from the learner's attributes")
        self._above.append(id(value))
        try:
            return self._container(value)
        finally:
            self._above.pop()

    def _container(self, value: Any) -> Any:
        if type(value) is list:
            return [self.node(one) for one in value]
        if type(value) is tuple:
            return {"tuple": [self.node(one) for one in value]}
        if type(value) is dict:
            return {"dict": [[self.node(key), self.node(one)] for key, one in value.items()]}
        if isinstance(value, pd.DataFrame):
            columns = [self._column(value.iloc[:, j]) for j in range(value.shape[1])]
            return {"table": [self.node(list(value.columns)), self.node(np.asarray(value.index)), columns]}
        if isinstance(value, Stateful) and value._stored() is not value:
            return self.node(value._stored())
        kind = kind_of(value)
        return self.foreign(value) if kind is None else self._object(value, kind)

    def _array(self, value: Array) -> Any:
        if value.dtype.kind in "OUS":
            need(value.ndim == 1, "it has an array of objects")
            texts = value.tolist()
            self.padding -= _padding(texts) if value.dtype.kind == "U" else 0
            return {"labels": [self.node(one) for one in texts], "fixed": value.dtype.kind == "U" and self.padding >= 0}
        if value.dtype.kind not in "biuf":
            raise DataTypeError(f"an array of {value.dtype} cannot be stored", remedy="use numbers or text")
        number, times = self._numbers.get(id(value), (-1, SHARED))
        if times == SHARED:  # the array is kept, so that its id is not given away meanwhile
            number, times = len(self.arrays), 0
            self.arrays.append(value)
        self._numbers[id(value)] = number, times + 1
        return {"array": number}

    def _column(self, column: pd.Series) -> Any:
        values = column.to_numpy()
        return self.node(values) if values.dtype.kind in "biuf" else [self.node(one) for one in column]

    def _object(self, value: Any, kind: Kind) -> Any:
        out: dict[str, Any] = {"object": kind.name, "version": kind.version}
        if kind.parameters is None:
            given = {name: getattr(value, name) for name in kind.table if kind.table[name]}
            out["state"] = {name: None if callable(one) else self.node(one) for name, one in given.items()}
            return out
        out["parameters"] = {name: self._parameter(value, name) for name in kind.parameters}
        stored = {name: one for name, one in vars(value).items() if name not in kind.parameters + UNSTORED}
        strange = sorted(set(stored) - set(kind.table))
        if strange:
            what = f"{kind.cls.__name__} has the attribute {strange[0]}, which its state does not declare"
            raise DataTypeError(what, remedy="remove it, or declare it in the class's `state`")
        if stored:
            travels = [name for name in stored if not isinstance(kind.table[name], left_out)]
            out["state"] = {name: self.node(stored[name]) for name in travels}
        return out

    def _parameter(self, value: Any, name: str) -> Any:
        """How a model was split or seeded matters for another fit only: what cannot be written becomes the default."""
        given = getattr(value, name)
        random = isinstance(given, np.random.RandomState | np.random.Generator)
        if random or (name == "cv" and not isinstance(given, int | str | None)):
            return self.node(inspect.signature(type(value)).parameters[name].default)
        return self.node(os.fspath(given) if isinstance(given, os.PathLike) else given)


def to_state(value: Any, foreign: Callable[[Any], Any]) -> tuple[Any, list[Array]]:
    """An object as a tree of JSON values and a list of arrays; `foreign` makes the node of an unknown object."""
    writer = _Writer(foreign)
    tree = writer.node(value)
    anything.fits(value, {})  # what could not be read again is not written
    return tree, writer.arrays


# Reading.


class _Reader:
    """Nodes of a tree as values; every array must be used."""

    def __init__(self, arrays: Sequence[Array], foreign: Callable[[Any], Any]) -> None:
        self.arrays, self.foreign = arrays, foreign
        self.used: set[int] = set()
        self.left = SHARED * sum(one.nbytes for one in arrays) + SPARE
        self.padding = SPARE
        self.made: list[Any] = []

    def value(self, node: Any, depth: int = 0) -> Any:
        need(depth < DEEPEST, f"its objects are nested more than {DEEPEST} deep")
        if isinstance(node, list):
            return [self.value(one, depth + 1) for one in node]
        if not isinstance(node, dict):
            need(not isinstance(node, int) or -(2**200) < node < 2**200, "it has a number out of range")
            return node
        key = next(iter(node), None)
        need(key in _NODES, "it has a node of an unknown kind")
        if key == "foreign":
            return self.foreign(node)
        return self._object(node, depth) if key == "object" else getattr(self, f"_{key}")(node[key], node, depth + 1)

    def _number(self, value: Any, _node: Any, _depth: int) -> float:
        need(value in ("nan", "inf", "-inf"))
        return float(value)

    def _tuple(self, value: Any, _node: Any, depth: int) -> tuple[Any, ...]:
        need(isinstance(value, list))
        return tuple(self.value(one, depth) for one in value)

    def _dict(self, value: Any, _node: Any, depth: int) -> dict[Any, Any]:
        need(isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value))
        keys = [self.value(key, depth) for key, _ in value]
        need(all(isinstance(key, str | int | float | bool | tuple | None) and _hashes_well(key) for key in keys))
        return dict(zip(keys, (self.value(one, depth) for _, one in value), strict=True))

    def _array(self, value: Any, _node: Any, _depth: int) -> Array:
        need(isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(self.arrays))
        self.used.add(value)
        self.left -= self.arrays[value].nbytes
        need(self.left >= 0, "it refers to the same arrays too often")
        return self.arrays[value]

    def _labels(self, value: Any, node: Any, _depth: int) -> Array:
        plain = isinstance(value, list) and all(one is None or isinstance(one, str | int | float) for one in value)
        need(plain and all(map(_hashes_well, value)) and isinstance(node.get("fixed"), bool))
        if not node["fixed"]:
            return _objects(value)
        need(all(isinstance(one, str) for one in value))
        self.padding -= _padding(value)
        need(self.padding >= 0, "it has labels that are too long")
        return np.array(value, dtype=str) if value else np.empty(0, dtype="<U1")

    def _table(self, value: Any, _node: Any, depth: int) -> pd.DataFrame:
        need(isinstance(value, list) and len(value) == 3 and isinstance(value[2], list))
        heads, index, columns = (self.value(one, depth) for one in value)
        need(isinstance(heads, list) and isinstance(index, np.ndarray) and len(columns) == len(heads))
        need(all(isinstance(one, np.ndarray | list) and len(one) == len(index) for one in columns))
        cells = [one if isinstance(one, np.ndarray) else _objects(one) for one in columns]
        return pd.DataFrame(dict(enumerate(cells))).set_axis(heads, axis=1).set_axis(index, axis=0)

    def _object(self, node: Any, depth: int) -> Any:
        kind = named(node["object"])
        given, state = node.get("parameters", {}), node.get("state", {})
        need(isinstance(given, dict) and isinstance(state, dict))
        if node.get("version") != kind.version or isinstance(node.get("version"), bool):
            raise StateError(f"it has a {kind.name} of version {str(node.get('version'))[:20]}, not {kind.version}")
        strange = [*(set(state) - set(kind.table)), *(set(given) - set(kind.parameters or ()))]
        need(not strange, f"{kind.cls.__name__} has no {str(strange[:1])[:40]}")
        parameters = {name: self.value(one, depth + 1) for name, one in given.items()}
        found = {name: _ordered(self.value(one, depth + 1), kind.table[name]) for name, one in state.items()}
        if kind.parameters is None:
            needed = {name for name, spec in kind.table.items() if not isinstance(spec, optional)}
            need(needed <= set(found), f"{kind.cls.__name__} is incomplete")
            made = kind.cls(**found)
        else:
            made = kind.cls(**parameters)
            vars(made).update(found)
            if "state" in node:
                need(kind.is_fitted(made), f"{kind.cls.__name__} has an empty state")
                vars(made).update({name: spec.value for name, spec in kind.table.items() if isinstance(spec, left_out)})
        self.made.append((made, kind))
        return made


def _hashes_well(key: Any) -> bool:
    """Numbers as long as one likes can be chosen to have one hash, so that a dict of them takes for ever."""
    if isinstance(key, tuple):
        return all(map(_hashes_well, key))
    return not isinstance(key, int) or -(2**63) <= key < 2**64


def _ordered(value: Any, spec: Constraint) -> Any:
    """An array as a fit leaves it: sums along the other axis would differ in the last digit."""
    by_column = isinstance(spec, array) and spec.order == "F" and isinstance(value, np.ndarray)
    return np.asfortranarray(value) if by_column else value


_NODES = ("number", "tuple", "dict", "array", "labels", "table", "object", "foreign")


def from_state(tree: Any, arrays: Sequence[Array], foreign: Callable[[Any], Any]) -> Any:
    """The object again, everything in it checked; `StateError` or `AssayError` where something is not right."""
    reader = _Reader(arrays, foreign)
    value = reader.value(tree)
    need(len(reader.used) == len(arrays), "it has arrays that nothing refers to")
    anything.fits(value, {})
    for made, kind in reader.made:
        if kind.is_fitted(made):
            kind.restore(made)
    return value
