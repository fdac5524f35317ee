"""Model files: a fitted pipeline with what is needed to use and defend it, in a file that runs no code when opened.

`save_model` writes an archive (`archive.py`) of JSON and plain arrays: each class of ours gives the state that it
declares (`assay.state`). The same parts give the same bytes, so the checksum can be compared. `load_model` believes
nothing: sizes, names and SHA-256 digests are checked before anything is unpacked, and every object against the
declaration of its class before it is handed out.

    opens by itself    assay's own estimators, pipelines of them, and scikit-learn's dummies
    opens if trusted   any other class, named by you: trust=("package.module.Class",) or --trust package.module.Class;
                       it goes through skops (`foreign.py`), and is written only if you name it, too
    never opens        pickles

A checksum shows that a file was changed since it was written, not who wrote it. Cost: one pass to compress, one to
check; a forest is checked at about ten million nodes a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from assay.checks import choice, whole
from assay.errors import AssayError, DataTypeError, ParameterError, UntrustedError
from assay.experiment import calibrated, peers  # noqa: F401 (what stands around a learner registers itself)
from assay.experiment.columns import Columns
from assay.experiment.model_file import sklearn_state  # noqa: F401 (registers a few classes)
from assay.experiment.model_file.archive import (
    ABOUT,
    SCHEMA,
    as_npy,
    from_npy,
    parse,
    read_archive,
    refuse,
    write_archive,
)
from assay.experiment.model_file.background import check_background
from assay.experiment.model_file.foreign import Foreign
from assay.experiment.model_file.training_rows import check_training
from assay.experiment.model_file.version1 import translated
from assay.experiment.storage import canonical_json
from assay.state import StateError, from_state, need, to_state

__all__ = ["PARTS", "SUFFIX", "load_model", "save_model"]

SUFFIX = ".assay"
TASKS = ("regression", "classification")
OBJECTS = ("pipeline", "calibration", "conformal")
ARRAYS = ("residuals", "probabilities")
WORDS = ("task", "target", "classes", "kinds", "schema", "features", "metadata")
PARTS = (*OBJECTS, *ARRAYS, *WORDS)
"""What a model file can hold; `pipeline` is always there, `task` and `target` where the model has a target."""
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def save_model(path: Any, parts: Mapping[str, Any], *, trust: Sequence[str] = ()) -> str:
    """Write a fitted model and what belongs to it, beside and then over `path`; give the SHA-256 of the file.

    | parameter | range                  | meaning                                            |
    |-----------|------------------------|----------------------------------------------------|
    | path      | ends in .assay         | where to write; an older file there is replaced    |
    | parts     | names of `PARTS`       | what to write, see below                           |
    | trust     | "package.Class", ...   | classes of other packages that the file may hold   |

    | part          | meaning                                                                                 |
    |---------------|-----------------------------------------------------------------------------------------|
    | pipeline      | fitted pipeline of `Columns` and a learner, or a `SearchCV` around one (its choice)     |
    | task, target  | "regression" or "classification", and the name of the target; left out for models that  |
    |               | have none: clusterings, components, mixtures, Markov models                             |
    | classes       | the labels                                                                              |
    | kinds, schema | what each column holds, and anything else about the columns, as JSON                    |
    | features      | names of the columns behind the preprocessing                                           |
    | metadata      | study, seal, versions, date, as JSON                                                    |
    | residuals     | out-of-fold residuals, for intervals                                                    |
    | probabilities | out-of-fold probabilities of the true class, or of all classes, for sets                |
    | calibration   | a fitted map or classifier of `assay.calibration`                                       |
    | conformal     | a `Conformal`, where its fold models are wanted too                                     |

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
    members = {ABOUT: canonical_json.encode(about).encode(), **_dump(objects, _check_trust(trust))}
    for name in ARRAYS:
        if given.get(name) is not None:
            members[f"arrays/{name}.npy"] = as_npy(_numbers(given[name], name))
    return write_archive(where, members)


def load_model(path: Any, *, trust: Sequence[str] = (), limit: int | None = None) -> dict[str, Any]:
    """Open a model file without running code from it; give its parts, and `checksum`, the SHA-256 of the file.

    | parameter | default | range                          | meaning                                             |
    |-----------|---------|--------------------------------|-----------------------------------------------------|
    | path      |         | a file that `save_model` wrote | where it is                                         |
    | trust     | ()      | names like "package.Class"     | types to open beyond the list, exactly these        |
    | limit     | None    | whole number >= 1, None        | unpacked bytes at most; None: 2 GiB, and no more    |
    |           |         |                                | than a few times the size of the file               |

    Trusting a class means importing its module and building its objects: name only what you would run yourself.
    Everything that is not right raises `StoreError` with what and why.

    >>> load_model("nowhere.assay")
    Traceback (most recent call last):
    assay.errors.StoreError: the model file 'nowhere.assay' cannot be read (no such file or directory); check the path
    """
    where = _path(path, written=True)
    trusted = _check_trust(trust)
    members, checksum, version = read_archive(where, None if limit is None else whole(limit, "limit"))
    found: dict[str, Any] = dict.fromkeys(PARTS) | _about(where, members.pop(ABOUT))
    for name in [name for name in members if name.startswith("arrays/")]:
        key = name[len("arrays/") : -len(".npy")]
        if key not in ARRAYS:
            raise refuse(where, f"has an unexpected member {name!r}")
        found[key] = from_npy(members.pop(name))
    try:
        found |= _build(where, members, trusted, version)
        _check_together(found)
    except UntrustedError as error:
        raise UntrustedError(f"the model file {str(where)!r}: {error.what}", remedy=error.remedy) from error
    except ImportError as error:
        remedy = "install the packages and versions listed in its metadata"
        raise refuse(where, f"needs a package that is not installed ({_line(error)})", remedy) from error
    except Exception as error:  # a crafted tree may break any constructor or check; none of it was handed out
        raise refuse(where, f"has an inconsistent model ({_line(error)})") from error
    found["checksum"] = checksum
    return found


# The parts.


def _path(path: Any, *, written: bool = False) -> Path:
    try:
        where = Path(path)
    except TypeError as error:
        raise ParameterError(f"path = {path!r} is not a path", remedy="pass a str or a Path") from error
    if not written and where.suffix != SUFFIX:
        raise ParameterError(f"path = {str(where)!r} does not end in {SUFFIX}", remedy=f"end the name in {SUFFIX}")
    return where


def _check_trust(trust: Any) -> frozenset[str]:
    names = [trust] if isinstance(trust, str) else list(trust)
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name) or "." not in name:
            raise ParameterError(f"trust = {name!r} is not the name of a class", remedy='write it as "module.Class"')
    return frozenset(names)


def _check_parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(parts)
    for name in given:
        if name not in PARTS:
            raise ParameterError(f"a model file has no part {name!r}", remedy=f"its parts are {', '.join(PARTS)}")
    if given.get("pipeline") is None:
        raise ParameterError("the part 'pipeline' is missing", remedy="pass a fitted model or pipeline")
    named = [name for name in ("task", "target") if given.get(name) is not None]
    if not named and _has_no_target(given["pipeline"]):
        return given
    for name in ("task", "target"):
        if name not in named:
            raise ParameterError(f"the part {name!r} is missing", remedy="a model with a target needs it")
    choice(given["task"], "task", TASKS)
    if not hasattr(given["pipeline"], "predict"):
        remedy = "pass a fitted pipeline, or leave 'task' and 'target' out if the model has no target"
        raise ParameterError("the part 'pipeline' has no predict", remedy=remedy)
    return given


def _has_no_target(model: Any) -> bool:
    """Whether a model is fitted without y: clusterings, components, mixtures, Markov models, and pipelines with one."""
    return hasattr(model, "fit") and not get_tags(model).target_tags.required


def _numbers(values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DataTypeError(f"the part {name!r} is not numeric", remedy="pass an array of numbers")
    return array


def _about(path: Path, content: bytes) -> dict[str, Any]:
    parse(path, ABOUT, content)
    try:
        about = canonical_json.decode(content.decode())
    except (ValueError, TypeError) as error:
        raise refuse(path, "contains a damaged about.json") from error
    right = (
        isinstance(about, dict)
        and set(about) <= set(WORDS)
        and (about.get("task") in TASKS if "target" in about else "task" not in about)
        and isinstance(about.get("target", ""), str)
    )
    if not right:
        raise refuse(path, "does not say what it predicts")
    if about.get("classes") is not None:
        plain = isinstance(about["classes"], list) and all(
            isinstance(one, str | int | float) for one in about["classes"]
        )
        if not plain:
            raise refuse(path, "does not list its classes")
        labels = np.array(about["classes"], dtype=object)
        about["classes"] = labels if any(isinstance(label, str) for label in labels) else np.array(about["classes"])
    return about


# Objects.


def _line(error: Exception) -> str:
    """The first line of what an error says, without what to do about it."""
    said = error.what if isinstance(error, AssayError) else str(error)
    return (said.splitlines()[0][:200].rstrip(". ") if said else "") or type(error).__name__


def _dump(objects: Mapping[str, Any], trusted: frozenset[str]) -> dict[str, bytes]:
    """The members of the objects: their tree, its arrays, and what belongs to other packages."""
    guests = Foreign(trusted)
    try:
        tree, arrays = to_state(dict(objects), guests.write)
    except StateError as error:
        message = f"the model cannot be stored: {error}"
        raise DataTypeError(message, remedy="fit it again, and do not change its fitted attributes") from error
    members = {SCHEMA: json.dumps(tree, separators=(",", ":")).encode()}
    members |= {f"model/{at:06d}.npy": as_npy(one) for at, one in enumerate(arrays)}
    return members | {f"model/{at:06d}.bin": one for at, one in enumerate(guests.members)}


def _build(path: Path, members: dict[str, bytes], trusted: frozenset[str], version: int) -> dict[str, Any]:
    tree: Any = parse(path, SCHEMA, members.pop(SCHEMA))
    inside = [members.pop(f"model/{at:06d}.bin") for at in range(sum(name.endswith(".bin") for name in members))]
    if version == 1:
        tree, arrays = translated(tree, members)
        members.clear()
    else:
        arrays = [from_npy(members.pop(f"model/{at:06d}.npy")) for at in range(len(members))]
    guests = Foreign(trusted, inside)
    objects = from_state(tree, arrays, guests.build)
    need(not members and guests.read == len(inside), "it has members that nothing refers to")
    need(isinstance(objects, dict) and set(objects) <= set(OBJECTS) and "pipeline" in objects, "it has no pipeline")
    _check_steps([step for _, step in getattr(objects["pipeline"], "steps", [("", objects["pipeline"])])])
    return objects


def _check_steps(steps: Sequence[Any]) -> None:
    """That all are fitted, and that each gives as many columns as the next one takes."""
    for step in steps:
        check_is_fitted(step)
    for step, after in pairwise(steps):
        given, taken = vars(step).get("n_features_in_"), vars(after).get("n_features_in_")
        if given is not None and taken is not None and hasattr(step, "get_feature_names_out"):
            need(len(step.get_feature_names_out()) == taken, "a step gets the wrong number of columns")


def _check_together(found: Mapping[str, Any]) -> None:
    """That the parts belong to one model: classes, rows and columns."""
    model, schema = found["pipeline"], found["schema"]
    predicts = callable(getattr(type(model), "predict", None))
    need(predicts if found["task"] is not None else _has_no_target(model), "its pipeline does not predict")
    for name, dimensions in (("residuals", 1), ("probabilities", 2)):
        if found[name] is not None:
            good = found[name].ndim == dimensions and found[name].size > 0 and found[name].dtype.kind in "fiub"
            need(good and np.isfinite(found[name]).all(), f"its {name} are not a numeric table")
    if found["classes"] is not None and hasattr(model, "classes_"):
        need(np.array_equal(found["classes"], np.asarray(model.classes_)), "its classes differ from those of the model")
    if found["probabilities"] is not None and isinstance(schema, dict) and "codes" in schema:
        codes, shares = np.asarray(schema["codes"]), found["probabilities"]
        need(found["classes"] is not None and codes.dtype.kind in "iu" and codes.shape == (len(shares),))
        need(shares.shape[1] == len(found["classes"]) and codes.min() >= 0 and codes.max() < shares.shape[1])
        need(
            (shares >= 0).all() and (shares <= 1).all() and np.allclose(shares.sum(axis=1), 1.0),
            "its shares are not probabilities",
        )
    if isinstance(schema, dict) and "features" in schema:
        need(_are_names(schema["features"]), "its features are not named")
        first = next((step for _, step in getattr(model, "steps", ()) if isinstance(step, Columns)), None)
        known = first is None or set(first.feature_names_in_) == set(schema["features"])
        need(known, "its features differ from those of the model")
        if "training" in schema:
            check_training(schema["training"], schema["features"])
        if "background" in schema:
            check_background(schema["background"], schema["features"])
        gaps = schema.get("gaps", {})
        named = isinstance(gaps, dict) and all(isinstance(one, list) for one in gaps.values())
        named = named and all(isinstance(text, str) for texts in gaps.values() for text in texts)
        need(named and set(gaps) <= set(schema["features"]), "its texts for missing values are not named")
        units = schema.get("units", {})
        need(
            isinstance(units, dict) and all(isinstance(unit, str) for unit in units.values()), "its units are not text"
        )
        commas = schema.get("commas", {})
        need(
            isinstance(commas, dict) and all(isinstance(one, bool) for one in commas.values()),
            "its decimal separators are not known",
        )
    if found["kinds"] is not None:
        need(isinstance(found["kinds"], dict) and _are_names(list(found["kinds"].values())), "its kinds are not named")
        if isinstance(schema, dict) and "features" in schema:
            need(set(found["kinds"]) <= set(schema["features"]), "its kinds do not match its features")


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
