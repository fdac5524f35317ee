"""Estimators of other packages in a model file: in the format of skops, and only where the user names their class.

Their attributes are not declared anywhere, so nothing can be checked before compiled code follows them: a crafted file
could crash the interpreter or read its memory. Trusting a class means importing its module, building its objects and
following whatever numbers are in them; it is for files that you, or someone you trust, have made. skops names types and
calls nothing it finds. Python's own modules (os, subprocess, builtins) are never opened, trusted or not, because no
learner needs them. skops (2022), Secure persistence, https://skops.readthedocs.io.
"""

from __future__ import annotations

import io
import sys
import zipfile
from importlib import import_module
from typing import Any

from assay.errors import DataTypeError, UntrustedError
from assay.state import StateError, need

__all__ = ["Foreign", "class_name"]

PLAIN = frozenset(["collections", "datetime", "decimal", "enum", "fractions", "pathlib", "types", "uuid", "zoneinfo"])
"""Modules of Python itself whose types only hold values, so that they may be trusted by name."""


def class_name(value: Any) -> str:
    """The full name of an object's class."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _check_stored(data: bytes) -> None:
    """That nothing in an archive of skops is compressed, which it never does: it unpacks to no more than it is."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    need(
        all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        and sum(entry.file_size for entry in entries) <= len(data),
        "it holds an object of another package that is compressed twice",
    )


def _untrusted(names: list[str], what: str) -> UntrustedError:
    several = ", ".join(names)
    option = " ".join(f"--trust {name}" for name in names)
    python = f"trust=[{', '.join(repr(name) for name in names)}] in Python"
    error = UntrustedError(
        f"{what} {several}, not part of assay, whose state cannot be checked",
        remedy=f"if you trust it, pass {option} ({python})",
    )
    error.classes = tuple(names)
    return error


class Foreign:
    """Writes and reads the objects of other packages whose classes are trusted."""

    def __init__(self, trusted: frozenset[str], members: list[bytes] | None = None) -> None:
        self.trusted = trusted
        self.members: list[bytes] = [] if members is None else members
        self.read = 0

    def write(self, value: Any) -> Any:
        """The node of an object."""
        name = class_name(value)
        try:
            skops = import_module("skops.io")
            data = skops.dumps(value)
        except Exception as error:
            if name not in self.trusted:
                raise _untrusted([name], "the model contains") from error
            words = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
            message = f"the model contains something that cannot be saved ({words})"
            raise DataTypeError(
                message, remedy="use a learner whose attributes are numbers, text and arrays"
            ) from error
        unknown = {name, *skops.get_untrusted_types(data=data)} - self.trusted  # all that reading it will ask for
        if unknown:
            raise _untrusted(sorted(unknown), "the model contains")
        self.members.append(data)
        return {"foreign": name, "member": len(self.members) - 1}

    def build(self, node: Any) -> Any:
        """The object of a node."""
        name, at = node["foreign"], node.get("member")
        need(isinstance(name, str) and len(name) < 200 and name.replace(".", "").isidentifier())
        need(type(at) is int and at == self.read < len(self.members))
        self.read += 1
        if name not in self.trusted:
            raise _untrusted([name], "it contains")
        skops, data = import_module("skops.io"), self.members[at]
        _check_stored(data)
        found = set(skops.get_untrusted_types(data=data))
        for one in sorted(found):
            root = one.split(".")[0]
            never = root in sys.stdlib_module_names and root not in PLAIN
            need(not never, f"it refers to {one}, which is never loaded")
        unknown = sorted(found - self.trusted)
        if unknown:
            raise _untrusted(unknown, "it contains")
        value = skops.loads(data, trusted=sorted(found))
        if class_name(value) != name:
            raise StateError(f"it contains a {class_name(value)} under the name {name}")
        return value
