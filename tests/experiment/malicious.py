"""Model files made to harm: every one must be refused, and none may touch the sentinel.

`files(folder, sentinel)` writes them into `folder`. Those that carry code would create the file `sentinel` if any of
it ran. Where a checksum stands in the way it is computed anew, as an attacker would.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from assay.experiment.columns import Columns
from assay.experiment.model_file import save_model
from assay.trees import DecisionTreeRegressor

EVIL_MODULE = "assay_test_evil_module"
TRUSTED = "sklearn.svm._classes.SVC"
"""A class of another package that the reader trusts; no file here may hold more than it under its name."""
Members = dict[str, bytes]


class Payload:
    """Unpickled, it touches the sentinel."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = str(sentinel)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.sentinel}",)


def evil_module(folder: Path, sentinel: Path) -> None:
    """A module that touches the sentinel when it is imported, and once more for good measure."""
    code = f"open({str(sentinel)!r}, 'w').close()\n\n\nclass Evil:\n"
    code += f"    def __setstate__(self, state):\n        open({str(sentinel)!r}, 'w').close()\n"
    (folder / f"{EVIL_MODULE}.py").write_text(code)


def good(folder: Path, learner: Any = None) -> Members:
    """The members of a sound model file, to be spoiled."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    y = frame["a"] + frame["b"]
    kinds = {"a": "number", "b": "number"}
    model = Pipeline([("columns", Columns(kinds)), ("model", learner or DecisionTreeRegressor(max_leaf_nodes=8))])
    parts = {"pipeline": model.fit(frame, y), "task": "regression", "target": "y", "residuals": rng.normal(size=60)}
    save_model(folder / "good.assay", parts)
    with zipfile.ZipFile(folder / "good.assay") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(members: Members, version: int = 2) -> Members:
    """The same members under a manifest that fits them."""
    rest = {name: data for name, data in members.items() if name != "manifest.json"}
    listed = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in rest.items()}
    manifest = {"format": "assay-model", "version": version, "members": listed}
    return {"manifest.json": json.dumps(manifest).encode(), **rest}


def zipped(members: Members, *, method: int = zipfile.ZIP_DEFLATED, attributes: int = 0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo("x")
            entry.filename, entry.compress_type = name, method  # past the constructor, which tidies names
            entry.external_attr = attributes if name.endswith("000001.npy") else 0o600 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


def node(loader: str, name: str, **more: Any) -> dict[str, Any]:
    module, _, word = name.rpartition(".")
    return {"__class__": word, "__module__": module, "__loader__": loader, **more}


def words(value: Any) -> dict[str, Any]:
    return node("JsonNode", "builtins.str", content=json.dumps(value), is_json=True)


def series(kind: str, *content: Any) -> dict[str, Any]:
    return node("TupleNode" if kind == "tuple" else "ListNode", f"builtins.{kind}", content=list(content))


def mapping(key_type: Any = None, /, **content: Any) -> dict[str, Any]:
    types = series("list", *[key_type or node("TypeNode", "builtins.str") for _ in content])
    return node("DictNode", "builtins.dict", content=content, key_types=types)


def pipeline(part: Any, *, protocol: Any = 2) -> Callable[[Members], Members]:
    """A model file of version 1, in the format of skops, whose pipeline is the given node."""

    def spoil(members: Members) -> Members:
        schema = {**mapping(pipeline=part), "protocol": protocol, "_skops_version": "0.16"}
        parts = {"about.json": members["about.json"], "model/schema.json": json.dumps(schema).encode()}
        return sealed(parts, version=1)

    return spoil


def as_guest(spoil: Callable[[Members], Members]) -> Callable[[Members], Members]:
    """The same tree of skops as the state of a class that the reader trusts, in a file of this version."""

    def hidden(members: Members) -> Members:
        schema = json.loads(spoil(members)["model/schema.json"])
        inside = schema["content"].get("pipeline", schema) if isinstance(schema.get("content"), dict) else schema
        part = {**inside, "protocol": schema.get("protocol"), "_skops_version": "0.16"}
        tree = {"dict": [["pipeline", {"foreign": TRUSTED, "member": 0}]]}
        blob = zipped({"schema.json": json.dumps(part).encode()}, method=zipfile.ZIP_STORED)
        parts = {"model/schema.json": json.dumps(tree).encode(), "model/000000.bin": blob}
        return sealed({"about.json": members["about.json"], **parts})

    return hidden


def _schemas(sentinel: Path) -> Iterator[tuple[str, Callable[[Members], Members]]]:
    """Trees of objects that name what must not be called."""
    command = f"touch {sentinel}"
    system = node("FunctionNode", "os.system")
    evil = node("ObjectNode", f"{EVIL_MODULE}.Evil", content=mapping(a=words(1)))
    call = series("tuple", words(command))
    state = {"bit_generator": words("seed"), "state": mapping()}
    estimator = "sklearn.preprocessing._function_transformer.FunctionTransformer"
    yield "function os.system", pipeline(system)
    yield "function posix.system", pipeline(node("FunctionNode", "posix.system"))
    yield "function builtins.eval", pipeline(node("FunctionNode", "builtins.eval"))
    yield "type builtins.exec", pipeline(node("TypeNode", "builtins.exec"))
    yield "object subprocess.Popen", pipeline(node("ObjectNode", "subprocess.Popen", content=mapping(args=words("x"))))
    yield (
        "constructor subprocess.Popen",
        pipeline(
            node(
                "ConstructorFromReduceNode",
                "subprocess.Popen",
                content=series("tuple", words(["touch", str(sentinel)])),
            )
        ),
    )
    yield "constructor os.system", pipeline(node("ConstructorFromReduceNode", "os.system", content=call))
    yield (
        "partial os.system",
        pipeline(
            node(
                "PartialNode",
                "functools.partial",
                content={"func": system, "args": call, "kwds": mapping(), "namespace": words(None)},
            )
        ),
    )
    yield "bound method", pipeline(node("MethodNode", f"{EVIL_MODULE}.Evil", content={"func": "run", "obj": evil}))
    yield "operator.methodcaller", pipeline(node("OperatorFuncNode", "operator.methodcaller", attrs=call))
    yield "keys made by os.system", pipeline(mapping(system, **{command: words(1)}))
    yield (
        "default factory os.system",
        pipeline(
            node("DefaultDictNode", "collections.defaultdict", content={"main": mapping(), "default_factory": system})
        ),
    )
    yield (
        "loss of a foreign class",
        pipeline({**node("LossNode", "subprocess.Popen", content=mapping()), "__reduce__": {"args": call}}),
    )
    yield "module that runs on import", pipeline(evil)
    yield "list of a foreign class", pipeline(node("ListNode", f"{EVIL_MODULE}.Evil", content=[]))
    yield (
        "array of a foreign class",
        pipeline(
            {**node("NdArrayNode", f"{EVIL_MODULE}.Evil", content=[], type="json"), "shape": series("tuple", words(0))}
        ),
    )
    yield (
        "trusted estimator with a function",
        pipeline(node("ObjectNode", estimator, content=mapping(func=system, kw_args=words(None)))),
    )
    yield (
        "generator named seed",
        pipeline(
            node(
                "RandomGeneratorNode",
                "numpy.random._generator.Generator",
                content={"bit_generator": mapping(**state), "seed_seq": mapping()},
            )
        ),
    )
    yield "old protocol", pipeline(system, protocol=0)
    yield "protocol True", pipeline(system, protocol=True)
    yield "protocol of the future", pipeline(system, protocol=99)
    yield "unknown loader", pipeline(node("EvalNode", "os.system"))
    yield "names with code", pipeline(node("ObjectNode", "os;import os.system"))
    yield "private attribute path", pipeline(node("FunctionNode", "os.__dict__['system']"))
    yield (
        "file outside the archive",
        pipeline(node("NdArrayNode", "numpy.ndarray", type="numpy", file="../../../../etc/passwd")),
    )
    yield "file that is not there", pipeline(node("NdArrayNode", "numpy.ndarray", type="numpy", file="000001.npy"))
    yield "no pipeline but text", pipeline(words("predict"))
    yield "sixty thousand nested lists", _nested
    yield "number of a hundred thousand digits", _digits
    yield (
        "neighbours that are a module",
        pipeline(
            node(
                "ObjectNode",
                "assay.experiment._portable.StoredNeighbours",
                content=mapping(learner=words("os"), rows=words([]), target=words([]), names=words(None)),
            )
        ),
    )
    yield (
        "preprocessing of nonsense",
        pipeline(
            node(
                "ObjectNode",
                "assay.experiment._portable.StoredColumns",
                content=mapping(schema=words('{"version": 1, "kinds": 5}'), arrays=mapping()),
            )
        ),
    )


def _nested(members: Members) -> Members:
    deep = b"[" * 60_000 + b"]" * 60_000
    return sealed({"about.json": members["about.json"], "model/schema.json": b'{"protocol":2,"a":' + deep + b"}"})


def _digits(members: Members) -> Members:
    return sealed({**members, "model/schema.json": b'{"protocol":' + b"9" * 100_000 + b"}"})


def npy(array: Any, *, header: str | None = None) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    if header is None:
        return buffer.getvalue()
    text = header.ljust(118 - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + bytes(64)


def _arrays(sentinel: Path) -> Iterator[tuple[str, Callable[[Members], Members]]]:
    """Arrays that are pickles, or not what they say."""

    def first(data: bytes) -> Callable[[Members], Members]:
        return lambda members: sealed({**members, "model/000001.npy": data})

    pickled = np.array([Payload(sentinel)], dtype=object)
    head = "{{'descr': {}, 'fortran_order': False, 'shape': {}, }}"
    yield "array of pickles in the model", first(npy(pickled))
    yield "array of pickles beside it", lambda members: sealed({**members, "arrays/residuals.npy": npy(pickled)})
    yield "bare pickle as an array", first(pickle.dumps(Payload(sentinel)))
    yield "array of 10^15 numbers", first(npy(0, header=head.format("'<f8'", (10**15,))))
    yield "array of negative length", first(npy(0, header=head.format("'<f8'", (-8,))))
    yield "array shorter than it says", first(npy(np.zeros(100))[:-8])
    yield "array header with code", first(npy(0, header=head.format(f"__import__('os').system('touch {sentinel}')", 8)))
    yield "array of texts without letters", first(npy(0, header=head.format("'<U0'", (10**8,)))[:128])
    yield "truth values that are neither", first(npy(0, header=head.format("'|b1'", (64,)))[:128] + b"\2" * 64)
    yield (
        "array of seventy dimensions",
        lambda members: sealed(
            {**members, "arrays/residuals.npy": npy(0, header=head.format("'|u1'", (64, *[1] * 69)))}
        ),
    )
    yield "array of an unknown name", lambda members: sealed({**members, "arrays/evil.npy": npy(np.zeros(1))})


def _containers(sentinel: Path) -> Iterator[tuple[str, Callable[[Members], bytes]]]:
    """Files that are no model at all, or an archive that was tampered with."""
    payload = Payload(sentinel)
    compressed = io.BytesIO()
    joblib.dump(payload, compressed, compress=3)
    plain = io.BytesIO()
    joblib.dump(payload, plain)
    yield "pickle", lambda m: pickle.dumps(payload)
    yield "pickle in protocol 0", lambda m: pickle.dumps(payload, protocol=0)
    yield "packed pickle", lambda m: zlib.compress(pickle.dumps(payload))
    yield "joblib", lambda m: plain.getvalue()
    yield "packed joblib", lambda m: compressed.getvalue()
    yield "pickle before a sound model", lambda m: pickle.dumps(payload) + zipped(m)
    yield "sound model before a pickle", lambda m: zipped(m) + pickle.dumps(payload)
    yield "pickle behind the signature of an archive", lambda m: b"PK\x03\x04" + pickle.dumps(payload) + zipped(m)
    yield "archive of a pickle", lambda m: zipped({"archive/data.pkl": pickle.dumps(payload)})
    yield "bare array of pickles", lambda m: npy(np.array([payload], dtype=object))
    yield "script", lambda m: f"import os; os.system('touch {sentinel}')".encode()
    yield "empty", lambda m: b""
    yield "empty archive", lambda m: zipped({})
    yield "half a file", lambda m: zipped(m)[: len(zipped(m)) // 2]
    yield "last byte missing", lambda m: zipped(m)[:-1]
    yield "one bit changed", lambda m: _flip(zipped(m, method=zipfile.ZIP_STORED))
    yield "manifest missing", lambda m: zipped({k: v for k, v in m.items() if k != "manifest.json"})
    yield "manifest of nonsense", lambda m: zipped({**m, "manifest.json": b"\xff\x00{"})
    yield "manifest of another format", lambda m: zipped({**m, "manifest.json": b'{"format":"x","version":1}'})
    yield (
        "manifest of a later version",
        lambda m: zipped({**m, "manifest.json": m["manifest.json"].replace(b'"version": 2', b'"version": 3')}),
    )
    yield "member changed, manifest not", lambda m: zipped({**m, "model/000001.npy": npy(np.zeros(3))})
    yield "member missing", lambda m: zipped({k: v for k, v in m.items() if not k.endswith("000001.npy")})
    yield "member that is not listed", lambda m: zipped({**m, "model/000999.npy": npy(np.zeros(3))})
    yield "member that nothing needs", lambda m: zipped(sealed({**m, "model/000999.npy": npy(np.zeros(3))}))
    yield "a script among the members", lambda m: zipped(sealed({**m, "evil.py": b"import os"}))
    yield "path out of the archive", lambda m: zipped(sealed({**m, "../evil.npy": npy(np.zeros(3))}))
    yield "path out through the model", lambda m: zipped(sealed({**m, "model/../../evil.npy": npy(np.zeros(3))}))
    yield "absolute path", lambda m: zipped(sealed({**m, "/tmp/evil.npy": npy(np.zeros(3))}))
    yield "path of Windows", lambda m: zipped(sealed({**m, "C:\\evil.npy": npy(np.zeros(3))}))
    yield "name with a NUL", lambda m: zipped(sealed({**m, "model/000001.npy\0.py": b""}))
    yield "member given twice", _twice
    yield "link", lambda m: zipped(m, attributes=(0o120000 | 0o777) << 16)
    yield "flat bomb", lambda m: zipped(sealed({**m, "arrays/residuals.npy": npy(np.zeros(10_000_000))}))
    yield "small bomb", lambda m: zipped(sealed({**m, "arrays/residuals.npy": npy(np.zeros(6_000_000))}))
    yield "many small bombs", lambda m: _alone(m, [{"array": at} for at in range(60)], *[np.zeros(100_000)] * 60)
    yield "nested bomb", lambda m: zipped(sealed({**m, "model/000099.zip": zipped({"a": bytes(20_000_000)})}))
    yield "bomb in JSON", lambda m: zipped(sealed({**m, "about.json": b" " * 70_000_000}))
    yield "bomb of lists in JSON", lambda m: _about(m, schema={"x": [[]] * 4_000_000})
    yield "bomb in what skops wrote", _guest_bomb
    yield "size of a terabyte declared", lambda m: _declare(zipped(m), 0xFFFFFF00)
    yield "size of one byte declared", lambda m: _declare(zipped(m), 1)
    yield "256 MiB declared as 1000 bytes", _understated
    yield "compressed by lzma", lambda m: zipped(m, method=zipfile.ZIP_LZMA)
    yield "encrypted", _encrypted
    yield "comment with a script", lambda m: _commented(zipped(m), sentinel)
    yield "about something else", lambda m: zipped(sealed({**m, "about.json": b'{"task":"os.system","target":1}'}))
    yield "about a list", lambda m: zipped(sealed({**m, "about.json": b"[]"}))
    yield "about a number", lambda m: zipped(sealed({**m, "about.json": b'{"$float": "nan"}'}))
    yield "half a letter as the target", lambda m: _about(m, target="\ud800")
    yield "classes of different lengths", lambda m: _about(m, classes=[[1], [2, 3]])
    yield (
        "one label as long as all others",
        lambda m: _alone(m, {"labels": ["x"] * 20000 + ["x" * 20000], "fixed": True}),
    )
    yield (
        "many labels, each as long as the longest",
        lambda m: _alone(m, [{"labels": ["x"] * 1000 + ["x" * 1000], "fixed": True}] * 60),
    )
    yield "one array as each column of a table", lambda m: _alone(m, _table(100), np.zeros(4_000_000))
    yield "one array of noise as each column", lambda m: _alone(m, _table(100), _noise(250_000), stored=True)
    yield "one array a million times", lambda m: _alone(m, [{"array": 0}] * 1_000_000, np.zeros(1000))
    yield "one array a million times, not packed", _repeated
    yield "table of a million columns without rows", lambda m: _alone(m, _empty_table(1_000_000), np.zeros(0))
    yield "table of many columns without rows", lambda m: _alone(m, _empty_table(20_000), np.zeros(0), stored=True)
    yield "keys with one hash", lambda m: _alone(m, _same_hash(100_000), stored=True)
    yield "labels with one hash", _same_labels
    yield "model that was never fitted", lambda m: _alone(m, {"object": "linear.Ridge", "version": 1})
    yield "pipeline of nothing", lambda m: _alone(m, _pipeline(["model", None]))
    yield (
        "pipeline of one never fitted",
        lambda m: _alone(m, _pipeline(["model", {"object": "linear.Ridge", "version": 1}])),
    )
    yield "step that takes other columns", _other_columns


def _about(members: Members, **more: Any) -> bytes:
    return zipped(sealed({**members, "about.json": json.dumps({**json.loads(members["about.json"]), **more}).encode()}))


def _alone(members: Members, part: Any, *arrays: np.ndarray, stored: bool = False) -> bytes:
    """A file whose pipeline is the given node; stored as it is, its size allows for more."""
    tree = json.dumps({"dict": [["pipeline", part]]}, separators=(",", ":")).encode()
    numbered = {f"model/{at:06d}.npy": npy(one) for at, one in enumerate(arrays)}
    method = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    parts = {"about.json": members["about.json"], "model/schema.json": tree, **numbered}
    return zipped(sealed(parts), method=method)


def _noise(size: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=size)


def _table(columns: int) -> dict[str, Any]:
    return {"table": [[f"x{j}" for j in range(columns)], {"array": 0}, [{"array": 0}] * columns]}


def _empty_table(columns: int) -> dict[str, Any]:
    return {"table": [[0] * columns, {"array": 0}, [[]] * columns]}


def _repeated(members: Members) -> bytes:
    return _alone(members, [{"array": 0}] * 1_000_000, _noise(1000), stored=True)


def _same_hash(keys: int) -> dict[str, Any]:
    """Python's hash of a whole number is its remainder of 2^61 - 1."""
    return {"dict": [[k * (2**61 - 1), 0] for k in range(1, keys + 1)]}


def _same_labels(members: Members) -> bytes:
    labels = {"labels": [k * (2**61 - 1) for k in range(1, 100_001)], "fixed": False}
    state = {"n_features_in_": 1, "n_outputs_": 1, "classes_": labels}
    node = {"object": "sklearn.DummyClassifier", "version": 1, "state": state}
    return _alone(members, node, stored=True)


def _guest_bomb(members: Members) -> bytes:
    """An archive of skops with an array of zeros that unpacks to a thousand times its size."""
    blob = zipped({"schema.json": b"{}", "1.npy": npy(np.zeros(4_000_000))})
    tree = json.dumps({"dict": [["pipeline", {"foreign": TRUSTED, "member": 0}]]}).encode()
    return zipped(
        sealed({"about.json": members["about.json"], "model/schema.json": tree, "model/000000.bin": blob}),
    )


def large(folder: Path, size: int) -> Path:
    """A sound model file of about `size` bytes, most of which are names: what a wide table leaves."""
    rng = np.random.default_rng(size)
    names = [f"{name:x}" for name in rng.integers(0, 2**24, size=max(1, size // 4)).tolist()]
    frame = pd.DataFrame({"a": np.arange(30.0)})
    model = Pipeline([("columns", Columns({"a": "number"})), ("model", DecisionTreeRegressor())])
    parts = {"pipeline": model.fit(frame, frame["a"]), "task": "regression", "target": "y", "schema": {"names": names}}
    save_model(folder / f"large{size}.assay", parts)
    return folder / f"large{size}.assay"


def _pipeline(*steps: list[Any]) -> dict[str, Any]:
    return {"object": "sklearn.Pipeline", "version": 1, "parameters": {"steps": [{"tuple": step} for step in steps]}}


def _other_columns(members: Members) -> bytes:
    """A sound tree of three columns behind preprocessing that gives two."""
    schema = json.loads(members["model/schema.json"])
    next(one for one in _objects(schema) if one.get("object") == "trees.DecisionTreeRegressor")["state"][
        "n_features_in_"
    ] = 3
    return zipped(sealed({**members, "model/schema.json": json.dumps(schema).encode()}))


def _flip(data: bytes) -> bytes:
    at = data.index(b"NUMPY") + 200
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _twice(members: Members) -> bytes:
    data = zipped({**members, "model/000009.npy": members["model/000001.npy"]})
    return data.replace(b"model/000009.npy", b"model/000001.npy")


def _declare(data: bytes, size: int) -> bytes:
    """The unpacked size of the last member in the directory, overwritten."""
    at = data.rindex(b"PK\x01\x02")
    return data[: at + 24] + struct.pack("<I", size) + data[at + 28 :]


def _understated(members: Members) -> bytes:
    """A last member that unpacks to 256 MiB; the directory tells of its first thousand bytes, with their checksum."""
    buffer, large = io.BytesIO(), "arrays/residuals.npy"
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sealed({**members, large: bytes(1000)}).items():
            if name != large:
                archive.writestr(name, data)
        with archive.open(large, "w") as member:
            for _ in range(256):
                member.write(bytes(1 << 20))
    data = buffer.getvalue()
    at = data.rindex(b"PK\x01\x02")
    shown = struct.pack("<I", zlib.crc32(bytes(1000)))
    return data[: at + 16] + shown + data[at + 20 : at + 24] + struct.pack("<I", 1000) + data[at + 28 :]


def _encrypted(members: Members) -> bytes:
    data = zipped(members)
    at = data.rindex(b"PK\x01\x02")
    return data[: at + 8] + struct.pack("<H", 1) + data[at + 10 :]


def _commented(data: bytes, sentinel: Path) -> bytes:
    text = f"touch {sentinel}".encode()
    return data[:-2] + struct.pack("<H", len(text)) + text


def _trees(folder: Path) -> Iterator[tuple[str, bytes]]:
    """A tree of ours with numbers inside that compiled code would follow out of its arrays."""
    tree = good(folder)
    schema = json.loads(tree["model/schema.json"])
    nodes = next(one for one in _objects(schema) if one.get("object") == "trees.Nodes")

    def changed(field: str, at: int, value: int) -> bytes:
        name = f"model/{nodes['state'][field]['array']:06d}.npy"
        array = np.load(io.BytesIO(tree[name]), allow_pickle=False)
        array[at] = value
        return zipped(sealed({**tree, name: npy(array)}))

    yield "tree with a child out of its array", changed("first", 0, 10**6)
    yield "tree with a negative child", changed("first", 0, -7)
    yield "tree that walks in a circle", changed("first", 0, 0)
    yield "tree with a column out of the table", changed("feature", 0, 10**6)
    yield "tree with a set out of its array", changed("offset", 0, 10**6)
    yield "tree with too many children", changed("count", 0, 10**6)
    yield "tree whose missing values leave it", changed("missing", 0, 5)
    yield "tree that ends before its nodes", changed("starts", 1, 3)


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for one in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _objects(one)


def aimed(members: Members) -> Iterator[bytes]:
    """Every array of whole numbers of a model, its first, middle and last cell set to what an attacker would try."""
    for name, content in members.items():
        if not name.endswith(".npy"):
            continue
        array = np.load(io.BytesIO(content), allow_pickle=False)
        if array.dtype.kind not in "iu" or not array.size:
            continue
        for at in sorted({0, array.size // 2, array.size - 1}):
            for value in (np.iinfo(array.dtype).max, np.iinfo(array.dtype).min, 5000):
                new = array.copy()
                new.reshape(-1)[at] = value
                yield zipped(sealed({**members, name: npy(new)}))


def files(folder: Path, sentinel: Path) -> dict[str, Path]:
    """Write all of them, and give their paths by what is wrong with them."""
    members = good(folder)
    contents = {name: make(members) for name, make in _containers(sentinel)}
    contents |= {name: zipped(spoil(members)) for name, spoil in [*_schemas(sentinel), *_arrays(sentinel)]}
    contents |= {
        f"{name}, as a guest": zipped(as_guest(spoil)(members))
        for name, spoil in _schemas(sentinel)
        if "thousand" not in name
    }
    contents |= dict(_trees(folder))
    paths = {}
    for number, (name, data) in enumerate(contents.items()):
        paths[name] = folder / f"{number:03d}.assay"
        paths[name].write_bytes(data)
    paths["a folder"] = folder / "folder.assay"
    paths["a folder"].mkdir()
    return paths
