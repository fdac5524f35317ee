"""Model files of version 1: their tree of objects, which was in the format of skops, as a tree of this version.

Only the JSON is rewritten; nothing of it is run, and the tree that comes out is checked like any other. Estimators of
other packages are refused: their state was never declared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.experiment.model_file.archive import from_npy
from assay.state import declared, need

__all__ = ["translated"]

RENAMED = {
    "assay.linear._logistic_inference.Inference": "linear.LogisticInference",
    "sklearn.pipeline.Pipeline": "sklearn.Pipeline",
    "sklearn.dummy.DummyClassifier": "sklearn.DummyClassifier",
    "sklearn.dummy.DummyRegressor": "sklearn.DummyRegressor",
}
STORED = "assay.experiment._portable.Stored"


def translated(tree: Any, members: dict[str, bytes]) -> tuple[Any, list[np.ndarray]]:
    """The tree of this version, and its arrays, which are taken out of the members."""
    reader = _Reader(members)
    return reader.node(tree), reader.arrays


class _Reader:
    def __init__(self, members: dict[str, bytes]) -> None:
        self.members = members
        self.numbers: dict[str, int] = {}
        self.arrays: list[np.ndarray] = []

    def node(self, node: Any, depth: int = 0) -> Any:
        need(isinstance(node, dict) and depth < 100, "it has a node of an unknown kind")
        loader, content = node.get("__loader__"), node.get("content")
        if loader == "JsonNode":
            return self._plain(json.loads(content))
        if loader in ("ListNode", "TupleNode"):
            inside = [self.node(one, depth + 1) for one in content]
            return inside if loader == "ListNode" else {"tuple": inside}
        if loader == "DictNode":
            words = [kind["__class__"] for kind in node["key_types"]["content"]]
            keys = [{"int": int, "float": float}.get(word, str)(key) for key, word in zip(content, words, strict=True)]
            return {"dict": [[key, self.node(one, depth + 1)] for key, one in zip(keys, content.values(), strict=True)]}
        if loader == "NdArrayNode":
            return self._array(node, depth)
        name = f"{node.get('__module__')}.{node.get('__class__')}"
        need(loader == "ObjectNode", f"it contains a {name[:80]}, which is no longer loaded from files of version 1")
        need(isinstance(content, dict) and content.get("__loader__") == "DictNode")
        return self._object(name, content["content"], depth)

    def _plain(self, value: Any) -> Any:
        return {"number": str(value)} if isinstance(value, float) and not np.isfinite(value) else value

    def _array(self, node: Any, depth: int) -> Any:
        if node.get("type") == "json":
            return {"labels": [self.node(one, depth + 1) for one in node["content"]], "fixed": False}
        file = f"model/{node['file']}"
        if file not in self.numbers:
            found = from_npy(self.members.pop(file))
            if found.ndim == 0:
                return self._plain(found.item())
            if found.dtype.kind == "U":
                return {"labels": found.tolist(), "fixed": True}
            self.numbers[file] = self.add(found)["array"]
        return {"array": self.numbers[file]}

    def add(self, found: np.ndarray) -> dict[str, int]:
        """The node of an array."""
        self.arrays.append(found)
        return {"array": len(self.arrays) - 1}

    def _object(self, name: str, content: Mapping[str, Any], depth: int) -> Any:
        """Attributes that now follow from others are left behind."""
        if name.startswith(STORED):
            state = {key: self.node(one, depth + 1) for key, one in content.items()}
            if name == f"{STORED}Columns":
                return self._columns(json.loads(state["schema"]), dict(state["arrays"]["dict"]))
            need(name == f"{STORED}Frame" and state["kind"] == "frame", "it has a column outside a table")
            columns = [one if "array" in one else one["labels"] for one in state["columns"]]
            return {"table": [state["names"], state["index"], columns]}
        root, _, word = name.rpartition(".")
        ours = root.startswith("assay.") or name in RENAMED
        need(ours, f"it contains a {name[:80]}; convert it with the version of assay that wrote it, or fit it again")
        made = RENAMED.get(name, f"{root.split('.')[1]}.{word.lstrip('_')}" if ours else "")
        given, stored = (
            {key: self.node(one, depth + 1) for key, one in content.items() if key in known} for known in declared(made)
        )
        return _object(made, stored, given)

    def _columns(self, schema: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
        """The preprocessing, which was stored by names and arrays of its own."""
        if "parameters" in schema:
            given = dict(schema["parameters"])
            kinds = given.pop("kinds")
            return _object(
                "experiment.Columns", {}, {**given, "kinds": {"dict": [list(pair) for pair in kinds.items()]}}
            )
        options = {key: schema[key] for key in ("scale", "encode", "impute", "max_levels", "text_features")}
        kinds = [name for name, _ in schema["kinds"]]
        levels = [
            [
                name,
                _object(
                    "experiment.Levels",
                    {"names": {"tuple": own}, "other": other, "gaps": gaps, "known": {"tuple": known}},
                ),
            ]
            for name, own, other, gaps, known in schema["levels"]
        ]
        for name, level in levels:
            at = f"share.{kinds.index(name)}"
            level["state"]["share"] = arrays[at] if at in arrays else self.add(np.empty(0))
        words = [
            [
                name,
                _object("experiment.Words", {"vocabulary": {"tuple": own}, "idf": arrays[f"idf.{kinds.index(name)}"]}),
            ]
            for name, own in schema["words"]
        ]
        learned = {key: arrays[key] for key in ("kept", "flagged", "median", "centre", "spread")}
        state = {
            "n_features_in_": len(kinds),
            "feature_names_in_": {"labels": kinds, "fixed": False},
            "dropped_": {"dict": schema["dropped"]},
            "levels_": {"dict": levels},
            "words_": {"dict": words},
            "numbers_": _object(
                "experiment.Numbers", {**learned, "impute": schema["impute"], "scale": schema["scale"]}
            ),
        }
        return _object("experiment.Columns", state, {**options, "kinds": {"dict": schema["kinds"]}})


def _object(name: str, state: Mapping[str, Any], parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    given = {"parameters": dict(parameters)} if parameters else {}
    return {"object": name, "version": 1, **given, **({"state": dict(state)} if state else {})}
