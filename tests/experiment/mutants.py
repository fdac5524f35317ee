"""Model files altered at random and signed again, and what comes of opening them.

`honest()` writes one model file for every public estimator and for every way of building one (`stored/make.py`), so a
new family is attacked by existing. `mutant(members, rng)` changes one to three things in the JSON or the arrays of a
file, as someone would who knows the format. `outcome` opens a file in a forked child and uses what it holds.
"""

from __future__ import annotations

import io
import json
import os
import resource
import select
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from assay.errors import AssayError
from assay.experiment.model_file import load_model, save_model
from assay.experiment.model_file.predict import predict_rows
from assay.generative import TextNB
from assay.latent import CategoricalHMM, MarkovChain
from tests import estimators
from tests.experiment.malicious import Members, npy, sealed, zipped
from tests.experiment.stored import make

SECONDS = 60.0
"""A child that says nothing for so long hangs."""
METHODS = ("predict", "predict_proba", "decision_function", "transform")


# Honest files.


def bare(*, variants: bool = True) -> Iterator[tuple[str, Any, Any]]:
    """Every public estimator, fitted, with rows to ask it about; those that hold others are among the stored models."""
    quick, slow = estimators.instances()
    for model in [*quick, *(slow if variants else []), TextNB(), MarkovChain(), CategoricalHMM(random_state=0)]:
        inside = [type(value).__module__.split(".")[0] for value in model.get_params(deep=False).values()]
        if {"sklearn", "scipy"} & set(inside):
            continue  # what another package made is not checked
        if isinstance(model, TextNB):
            X: Any = ["cheap pills", "cheap watches", "meeting at noon", "notes of a meeting"]
            y: Any = ["spam", "spam", "ham", "ham"]
        elif isinstance(model, MarkovChain | CategoricalHMM):
            X, y = list("abbabcabbbaaabcbabacbbabaaab"), None
        else:
            X, y = estimators.easy(model)
        for name, value in (("n_estimators", 3), ("alphas", 5), ("cv", 3)):
            if isinstance(model.get_params().get(name), int) and hasattr(model, "fit"):
                model.set_params(**{name: value})
        yield estimators.label(model), model.fit(X, y), X


def honest(folder: Path, *, variants: bool = True) -> dict[str, tuple[Path, Any]]:
    """Model files by name, each with the rows that it can be asked about; None for the table of `make`."""
    found: dict[str, tuple[Path, Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, parts in make.models():
            found[name] = (folder / f"{len(found)}.assay", None)
            save_model(found[name][0], parts)
        for name, model, X in bare(variants=variants):
            if hasattr(model, "predict"):
                found[name] = (folder / f"{len(found)}.assay", X)
                task = "classification" if is_classifier(model) else "regression"
                save_model(found[name][0], {"pipeline": model, "task": task, "target": "y"})
    return found


def members_of(path: Path) -> Members:
    """What an archive holds."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# Mutants.


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, -1, 3, 7, 255, 10**6, 2**31 - 1, 2**31, 2**63, 10**18, -(2**63), 10**30),
    *(0.5, -0.0, 1e-320, 1e308, -1e308, {"number": "nan"}, {"number": "inf"}, {"number": "-inf"}, {"number": "1"}),
    *("", "x", "nan", "kd_tree", "trees.Nodes", "os.system", "linear.Ridge", [], {}, [[]], {"array": 0}, {"array": -1}),
    *({"array": 10**9}, {"tuple": []}, {"dict": []}, {"labels": [], "fixed": True}, {"table": [[], [], []]}),
    *({"object": "trees.Nodes", "version": 1, "state": {}}, {"foreign": "os.system", "member": 0}),
)


def mutant(members: Members, rng: np.random.Generator) -> bytes:
    """A file with one to three changes, and a manifest that fits them."""
    changed = dict(members)
    for _ in range(int(rng.integers(1, 4))):
        names = [name for name in changed if name != "manifest.json"]
        arrays = [name for name in names if name.endswith(".npy")]
        kind = rng.random()
        if arrays and kind < 0.55:
            name = _pick(arrays, rng)
            changed[name] = _spoil_array(changed[name], rng)
        elif len(arrays) > 1 and kind < 0.62:
            one, other = _pick(arrays, rng), _pick(arrays, rng)
            changed[one], changed[other] = changed[other], changed[one]
        else:
            name = "about.json" if kind > 0.95 else "model/schema.json"
            changed[name] = _spoil_json(changed[name], rng)
    return zipped(sealed(changed))


def _pick(items: Any, rng: np.random.Generator) -> Any:
    return items[int(rng.integers(len(items)))]


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every place of a JSON tree, as its container and its key."""
    found, stack = [], [tree]
    while stack:
        part = stack.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part))
        for key in keys:
            found.append((part, key))
            if isinstance(part[key], dict | list):
                stack.append(part[key])
    return found


def _spoil_json(content: bytes, rng: np.random.Generator) -> bytes:
    tree = json.loads(content)
    places = _places(tree)
    if not places:
        return content
    container, key = _pick(places, rng)
    kind = int(rng.integers(7))
    value = container[key]
    if kind == 0:
        del container[key]
    elif kind == 1:
        other, place = _pick(places, rng)
        container[key] = json.loads(json.dumps(other[place])) if place in other or isinstance(other, list) else None
    elif kind == 2 and isinstance(value, int | float) and not isinstance(value, bool):
        container[key] = _pick([value + 1, value - 1, -value, 2 * value, value + 0.5, 10 * value], rng)
    elif kind == 3 and isinstance(value, list) and value:
        container[key] = _pick([value[:-1], value[1:], value + value[:1], value[::-1], value * 2], rng)
    elif kind == 4 and isinstance(container, dict):
        container[_pick(["x", "state", "object", "array", "_index", "__class__", "nodes_"], rng)] = value
    else:
        container[key] = _pick(VALUES, rng)
    return json.dumps(tree).encode()


def _spoil_array(content: bytes, rng: np.random.Generator) -> bytes:
    array = np.load(io.BytesIO(content), allow_pickle=False)
    kinds: list[Callable[[], Any]] = [
        lambda: _one_changed(array, rng),
        lambda: _one_changed(array, rng),
        lambda: _one_changed(array, rng),
        lambda: array[: max(0, len(array) - 1)],
        lambda: np.concatenate([array, array[:1]]),
        lambda: array[..., :-1],
        lambda: array.T,
        lambda: np.asfortranarray(array),
        lambda: array.reshape(-1),
        lambda: array[None],
        lambda: array[::-1],
        lambda: np.zeros_like(array),
        lambda: rng.permuted(array, axis=0),
        lambda: array.astype(_pick(["f4", "f8", "i4", "i8", "u4", "u1", "?", ">f8"], rng)),
        lambda: np.frombuffer(rng.bytes(array.nbytes), dtype=array.dtype).reshape(array.shape),
        lambda: np.empty((0, *array.shape[1:]), dtype=array.dtype),
    ]
    with np.errstate(all="ignore"):
        return npy(_pick(kinds, rng)() if array.ndim and array.size else array.astype("f8").reshape(-1))


def _one_changed(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A few cells with a number that somebody would try."""
    out = array.copy()
    cells = out.reshape(-1)
    if out.dtype.kind == "f":
        new = _pick([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -1.0, 0.0, 1.0], rng)
    elif out.dtype.kind == "b":
        new = bool(rng.integers(2))
    else:
        limits = np.iinfo(out.dtype)
        new = _pick([limits.max, limits.min, 0, 1, max(limits.min, -1), min(limits.max, out.size)], rng)
        new = int(cells[0]) + int(rng.integers(-2, 3)) if limits.min and rng.random() < 0.3 else new
    cells[rng.integers(0, cells.size, int(rng.integers(1, 4)))] = new
    return out


# What comes of it.


def use(path: Path, X: Any) -> str:
    """Open a model file and ask it: "predicted", or "refused: ..." where assay says in one sentence why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if X is None:
                predict_rows(path, make.table()[0].head(make.ROWS))
                return "predicted"
            model = load_model(path)["pipeline"]
            for name in METHODS:
                if hasattr(model, name):
                    np.asarray(getattr(model, name)(X))
    except AssayError as error:
        text = str(error)
        return f"refused: {text}" if "\n" not in text and len(text) < 600 else f"too long: {text}"
    except Exception as error:
        return f"bug: {type(error).__name__}: {error}"
    return "predicted"


def outcome(path: Path, X: Any) -> tuple[str, int]:
    """`use` in a forked child: also "crashed" or "hung"; and how many bytes the child took beyond its start."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        said = use(path, X)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.write(writer, json.dumps([said[:2000], 1024 * (after - before)]).encode())
        os._exit(0)
    os.close(writer)
    ready = select.select([reader], [], [], SECONDS)[0]
    content = os.read(reader, 1 << 16) if ready else b""
    os.close(reader)
    if not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ready:
        return "hung", 0
    if not content or status:
        return f"crashed: status {status}", 0
    said, grown = json.loads(content)
    return said, grown


def attack(
    folder: Path, count: int, *, seed: int = 0, variants: bool = True
) -> Iterator[tuple[str, str, int, int, Path]]:
    """`count` mutants over all models in turn: the model, what came of it, its memory, and the honest file's."""
    rng = np.random.default_rng(seed)
    files = honest(folder, variants=variants)
    usual = {}
    for name, (path, X) in files.items():
        assert use(path, X) == "predicted", name  # warms every kernel, too
        usual[name] = outcome(path, X)[1]
    place = folder / "mutant.assay"
    for at in range(count):
        name = list(files)[at % len(files)]
        place.write_bytes(mutant(members_of(files[name][0]), rng))
        said, grown = outcome(place, files[name][1])
        yield name, said, grown, usual[name], place
