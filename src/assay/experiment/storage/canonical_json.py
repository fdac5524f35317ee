"""Canonical JSON: one text per value, so that a digest of the text is a digest of the value.

Keys are sorted, nothing is indented, text stays as it is, and numbers that JSON lacks (NaN and the infinities) are
written `{"$float": "nan"}`. Arrays go elsewhere: `encode` hands each to `keep` and writes what that returns. Keys that
begin with "$" are written with a second one, so that no user's key is taken for ours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from assay.errors import DataTypeError

__all__ = ["decode", "encode"]

Keep = Callable[[np.ndarray], Any]


def encode(value: Any, keep: Keep | None = None) -> str:
    """The one text of a value made of dicts, lists, text, numbers, booleans and None.

    >>> encode({"b": [1, 2.5, float("nan")], "a": None})
    '{"a":null,"b":[1,2.5,{"$float":"nan"}]}'
    """
    plain = _plain(value, keep or np.ndarray.tolist, "the entry")
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def decode(text: str, restore: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The value of a text made by `encode`; `restore` sees every dict and turns those that `keep` made into arrays.

    >>> decode('{"a":null,"b":[1,2.5,{"$float":"inf"}]}')
    {'a': None, 'b': [1, 2.5, inf]}
    """

    def special(found: dict[str, Any]) -> Any:
        if set(found) == {"$float"}:
            return float(found["$float"])
        kept = found if restore is None else restore(found)
        if kept is found:
            return {key[1:] if key.startswith("$$") else key: value for key, value in found.items()}
        return kept

    return json.loads(text, object_hook=special)


def _plain(value: Any, keep: Keep, where: str) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item(), keep, where)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.ndarray):
        kept = keep(value)
        if isinstance(kept, dict):  # its keys are ours
            return {key: _plain(item, keep, where) for key, item in kept.items()}
        return _plain(kept, keep, where)
    if isinstance(value, Mapping):
        return {_key(key, where): _plain(item, keep, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, keep, f"{where}[{at}]") for at, item in enumerate(value)]
    remedy = "pass text, numbers, booleans, None, lists and dicts of them"
    raise DataTypeError(f"{where} contains a {type(value).__name__}, which JSON cannot represent", remedy=remedy)


def _key(key: Any, where: str) -> str:
    if isinstance(key, str):
        return f"${key}" if key.startswith("$") else key
    raise DataTypeError(f"{where} has the key {key!r}, which is not text", remedy="use text for keys")
