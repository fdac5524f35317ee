"""Model files: a fitted pipeline with what is needed to use and defend it, in a file that runs no code when opened.

`save_model` writes an archive (`_archive.py`) of plain members: JSON, arrays without objects, and the tree of objects
in the format of skops, which names types and never calls what it finds. Nothing is pickled. The same parts give the
same bytes, so the checksum can be compared. `load_model` believes nothing: sizes, names and SHA-256 digests are
checked before anything is unpacked, every type must stand on the list below before anything is built, and what
compiled code would follow blindly (children of trees, rows of neighbours) is checked after it (`_portable.py`).

    opens by itself    scikit-learn's estimators, numpy's arrays and dtypes, the classes of assay in `ALLOWED`
    opens if trusted   any other type, named by you: trust=("package.module.Class",) or --trust package.module.Class
    never opens        bound methods, partial functions, attribute getters, pickles, and Python's own os, subprocess,
                       builtins and the like, trusted or not: no learner needs them, and naming them is an attack

A checksum shows that a file was changed since it was written, not who wrote it. Cost: one pass to compress, one to
check. skops (2022), Secure persistence, https://skops.readthedocs.io.
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from assay.checks import choice, whole
from assay.errors import AssayError, DataTypeError, ParameterError
from assay.experiment import _json
from assay.experiment._archive import ABOUT, LIMIT, SCHEMA, as_npy, from_npy, parse, read_archive, refuse, write_archive
from assay.experiment._portable import ALLOWED, pack, unpack

__all__ = ["PARTS", "SUFFIX", "load_model", "save_model"]

SUFFIX = ".assay"
TASKS = ("regression", "classification")
OBJECTS = ("pipeline", "calibration", "conformal")
ARRAYS = ("residuals", "probabilities")
WORDS = ("task", "target", "classes", "kinds", "schema", "features", "metadata")
PARTS = (*OBJECTS, *ARRAYS, *WORDS)
"""What a model file can hold; `pipeline`, `task` and `target` are always there."""
PROTOCOL = 2
"""The protocol of skops that is read and written; older ones are refused, because they were checked less."""
LOADERS = frozenset(
    f"{kind}Node"
    for kind in (
        *("Dict", "DefaultDict", "List", "Set", "Tuple", "Slice", "Json", "Bytes", "Bytearray", "NdArray", "DType"),
        *("MaskedArray", "RandomState", "RandomGenerator", "Type", "Object", "ConstructorFromReduce", "Tree", "Loss"),
        "Function",
    )
)
"""The kinds of nodes that are opened; those that call what they name, or hold a call, are not among them."""
DEEPEST = 100
PLAIN = frozenset(["collections", "datetime", "decimal", "enum", "fractions", "pathlib", "types", "uuid", "zoneinfo"])
"""Modules of Python itself whose types only hold values, so that they may be trusted by name."""
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def save_model(path: Any, parts: Mapping[str, Any]) -> str:
    """Write a fitted model and what belongs to it, beside and then over `path`; give the SHA-256 of the file.

    | parameter | range                  | meaning                                            |
    |-----------|------------------------|----------------------------------------------------|
    | path      | ends in .assay         | where to write; an older file there is replaced    |
    | parts     | names of `PARTS`       | what to write, see below                           |

    | part          | meaning                                                                                 |
    |---------------|-----------------------------------------------------------------------------------------|
    | pipeline      | fitted pipeline of `Columns` and a learner, or a `SearchCV` around one (its choice)     |
    | task, target  | "regression" or "classification", and the name of the target                            |
    | classes       | the labels                                                                              |
    | kinds, schema | what each column holds, and anything else about the columns, as JSON                    |
    | features      | names of the columns behind the preprocessing                                           |
    | metadata      | study, seal, versions, date, as JSON                                                    |
    | residuals     | out-of-fold residuals, for intervals                                                    |
    | probabilities | out-of-fold probabilities of the true class, or of all classes, for sets                |
    | calibration   | a fitted map or classifier of `assay.calibration`                                       |
    | conformal     | a `Conformal`, where its fold models are wanted too                                     |

    skops (2022), Secure persistence.

    >>> import tempfile, pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from assay.experiment.columns import Columns
    >>> from assay.linear import Ridge
    >>> frame, y = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]}), [1.0, 3.0, 5.0, 7.0]
    >>> model = make_pipeline(Columns({"x": "number"}), Ridge(alpha=1e-9)).fit(frame, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checksum = save_model(folder + "/line.assay", {"pipeline": model, "task": "regression", "target": "y"})
    ...     again = load_model(folder + "/line.assay")["pipeline"]
    >>> len(checksum), again.predict(frame).round(6).tolist()
    (64, [1.0, 3.0, 5.0, 7.0])
    """
    where = _path(path)
    given = _check_parts(parts)
    objects = {name: given[name] for name in OBJECTS if given.get(name) is not None}
    about = {name: given[name] for name in WORDS if given.get(name) is not None}
    if "classes" in about:
        about["classes"] = np.asarray(about["classes"]).tolist()
    members = {ABOUT: _json.encode(about).encode(), **_dump(objects)}
    for name in ARRAYS:
        if given.get(name) is not None:
            members[f"arrays/{name}.npy"] = as_npy(_numbers(given[name], name))
    return write_archive(where, members)


def load_model(path: Any, *, trust: Sequence[str] = (), limit: int = LIMIT) -> dict[str, Any]:
    """Open a model file without running code from it; give its parts, and `checksum`, the SHA-256 of the file.

    | parameter | default | range                          | meaning                                             |
    |-----------|---------|--------------------------------|-----------------------------------------------------|
    | path      |         | a file that `save_model` wrote | where it is                                         |
    | trust     | ()      | names like "package.Class"     | types to open beyond the list, exactly these        |
    | limit     | 2 GiB   | whole number >= 1              | unpacked bytes at most                              |

    Trusting a class means importing its module and building its objects: name only what you would run yourself.
    Everything that is not right raises `StoreError` with what and why. skops (2022), Secure persistence.

    >>> load_model("nowhere.assay")
    Traceback (most recent call last):
    assay.errors.StoreError: the model file 'nowhere.assay' cannot be read (no such file or directory); check the path
    """
    where = _path(path, written=True)
    trusted = _check_trust(trust)
    members, checksum = read_archive(where, whole(limit, "limit"))
    about = _about(where, members.pop(ABOUT))
    arrays = {name: members.pop(name) for name in list(members) if name.startswith("arrays/")}
    found: dict[str, Any] = dict.fromkeys(PARTS) | about
    for name, content in arrays.items():
        key = name[len("arrays/") : -len(".npy")]
        if key not in ARRAYS:
            raise refuse(where, f"holds a member {name!r} that no model has")
        found[key] = from_npy(content)
    found |= _build(where, members, trusted)
    found["checksum"] = checksum
    return found


# The parts.


def _path(path: Any, *, written: bool = False) -> Path:
    try:
        where = Path(path)
    except TypeError as error:
        raise ParameterError(f"path = {path!r} is not a path", remedy="pass a text or a Path") from error
    if not written and where.suffix != SUFFIX:
        raise ParameterError(f"path = {str(where)!r} does not end in {SUFFIX}", remedy=f"end the name in {SUFFIX}")
    return where


def _check_trust(trust: Any) -> frozenset[str]:
    names = [trust] if isinstance(trust, str) else list(trust)
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name) or "." not in name:
            raise ParameterError(f"trust = {name!r} names no type", remedy='name it as "module.Class"')
    return frozenset(names)


def _check_parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(parts)
    for name in given:
        if name not in PARTS:
            raise ParameterError(f"a model file has no part {name!r}", remedy=f"its parts are {', '.join(PARTS)}")
    for name in ("pipeline", "task", "target"):
        if given.get(name) is None:
            raise ParameterError(f"the part {name!r} is missing", remedy="a model file needs it")
    choice(given["task"], "task", TASKS)
    if not hasattr(given["pipeline"], "predict"):
        raise ParameterError("the part 'pipeline' has no predict", remedy="pass a fitted pipeline")
    return given


def _numbers(values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DataTypeError(f"the part {name!r} does not hold numbers", remedy="pass an array of numbers")
    return array


def _about(path: Path, content: bytes) -> dict[str, Any]:
    parse(path, ABOUT, content)
    try:
        about = _json.decode(content.decode())
    except (ValueError, TypeError) as error:
        raise refuse(path, "holds a damaged about.json") from error
    right = set(about) <= set(WORDS) and about.get("task") in TASKS and isinstance(about.get("target"), str)
    if not right:
        raise refuse(path, "does not say what it predicts")
    if about.get("classes") is not None:
        if not isinstance(about["classes"], list):
            raise refuse(path, "does not list its classes")
        labels = np.array(about["classes"], dtype=object)
        about["classes"] = labels if any(isinstance(label, str) for label in labels) else np.array(about["classes"])
    return about


# Objects and their tree.


def _skops() -> Any:
    """The module, when it is needed: it imports every module of scikit-learn, testing tools included."""
    return import_module("skops.io")


def _dump(objects: Mapping[str, Any]) -> dict[str, bytes]:
    """The members of the objects, renamed by the order of the tree: skops names them by addresses."""
    try:
        with zipfile.ZipFile(io.BytesIO(_skops().dumps(pack(dict(objects))))) as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
    except AssayError:
        raise
    except Exception as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        what = f"the model holds something that a model file cannot hold ({words.rstrip('. ')})"
        raise DataTypeError(what, remedy="store a learner whose attributes are numbers, text and arrays") from error
    schema = json.loads(content["schema.json"])
    numbers: dict[int, int] = {}
    files: dict[str, str] = {}
    for node, _ in _nodes(schema):
        if "__id__" in node:
            node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
        if "file" in node:
            name = node["file"]
            node["file"] = files.setdefault(name, f"{len(files) + 1:06d}{name[name.rindex('.') :]}")
    members = {SCHEMA: json.dumps(schema, separators=(",", ":")).encode()}
    for old, new in files.items():
        members[f"model/{new}"] = content[old]
    return members


def _nodes(schema: Any) -> Iterator[tuple[dict[str, Any], int]]:
    """Every object of the tree with its depth, in one fixed order, without recursion."""
    stack = [(schema, 0)]
    while stack:
        part, depth = stack.pop()
        if isinstance(part, dict):
            if "__loader__" in part:
                yield part, depth
            inside: Any = part.values()
        else:
            inside = part
        for value in reversed(list(inside)):
            if isinstance(value, dict | list):
                stack.append((value, depth + 1))


def _build(path: Path, members: Mapping[str, bytes], trusted: frozenset[str]) -> dict[str, Any]:
    schema = parse(path, SCHEMA, members[SCHEMA])
    used = _check_nodes(path, schema, members)
    if used != set(members) - {SCHEMA}:
        raise refuse(path, "holds members that nothing in it refers to")
    data = _as_skops(members)
    try:
        found = set(_skops().get_untrusted_types(data=data))
    except Exception as error:
        raise refuse(path, "holds a damaged tree of objects") from error
    for name in sorted(found):
        root = name.split(".")[0]
        if root in sys.stdlib_module_names and root not in PLAIN:
            raise refuse(path, f"names {name}, which no learner needs and which is never opened")
    unknown = sorted(found - ALLOWED - trusted)
    if unknown:
        several = f"the types {', '.join(unknown)}" if len(unknown) > 1 else f"the type {unknown[0]}"
        option = " ".join(f"--trust {name}" for name in unknown)
        raise refuse(path, f"holds {several}, which assay does not know", f"if you trust the file, say {option}")
    return _construct(path, data, found, trusted)


def _check_nodes(path: Path, schema: dict[str, Any], members: Mapping[str, bytes]) -> set[str]:
    """That the tree is made of known kinds of nodes, none too deep, and refers to members that are there."""
    if schema.get("protocol") != PROTOCOL or isinstance(schema.get("protocol"), bool) or "__loader__" not in schema:
        raise refuse(path, f"holds objects in protocol {str(schema.get('protocol'))[:20]} of skops", "write it again")
    used = set()
    for node, depth in _nodes(schema):
        if depth > DEEPEST:
            raise refuse(path, f"holds objects inside objects more than {DEEPEST} deep")
        loader, module, name = (node.get(key) for key in ("__loader__", "__module__", "__class__"))
        if loader not in LOADERS:
            raise refuse(path, f"holds a {str(loader)[:40]!r}, which could run code and is never opened")
        if not all(isinstance(word, str) and NAME.fullmatch(word) for word in (module, name)):
            raise refuse(path, f"names a type {str(module)[:40]}.{str(name)[:40]} that cannot exist")
        if "file" in node:
            member, suffix = f"model/{node['file']}", ".bin" if loader.startswith("Byte") else ".npy"
            if member not in members or not member.endswith(suffix):
                raise refuse(path, "refers to a member that it does not hold")
            used.add(member)
    return used


def _as_skops(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name[len("model/") :], content)
    return buffer.getvalue()


def _construct(path: Path, data: bytes, found: set[str], trusted: frozenset[str]) -> dict[str, Any]:
    try:
        objects = unpack(_skops().loads(data, trusted=sorted(found & (ALLOWED | trusted))))
    except (ImportError, AttributeError) as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = "install what it was made with, in the versions of its metadata"
        raise refuse(path, f"needs something that is not here ({words})", remedy) from error
    except Exception as error:
        words = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
        raise refuse(path, f"does not hold a model that fits together ({words})") from error
    if not isinstance(objects, dict) or not set(objects) <= set(OBJECTS) or "pipeline" not in objects:
        raise refuse(path, "does not hold a pipeline")
    if not callable(getattr(type(objects["pipeline"]), "predict", None)):
        raise refuse(path, "holds something else than a pipeline that predicts")
    return objects
