"""Checkpoints: one file of JSON and plain arrays, written beside and renamed over, so that a killed fit can go on.

The file is a NumPy archive without pickled objects. It begins with a digest of the data and settings it belongs to; a
fit with others refuses it instead of mixing the two. It is removed when the fit is complete.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import StoreError

__all__ = ["Checkpoint", "digest"]

Array = np.ndarray
FACTS = "facts.json"


def digest(words: str, *arrays: Array) -> str:
    """A fingerprint of settings and data."""
    made = blake2b(words.encode(), digest_size=16)
    for one in arrays:
        made.update(f"{one.dtype} {one.shape}".encode())
        made.update(np.ascontiguousarray(one).view(np.uint8).data if one.size else b"")
    return made.hexdigest()


class Checkpoint:
    """A file that holds the latest state of one fit.

    | parameter | meaning                              |
    |-----------|--------------------------------------|
    | path      | the file; its folder must exist      |
    | belongs   | fingerprint of the fit it belongs to |
    """

    def __init__(self, path: Any, belongs: str = "", entropy: Any = None) -> None:
        self.path, self.belongs, self.entropy = Path(path), belongs, entropy

    def stored_entropy(self) -> Any:
        """The seed of the fit in the file, for a fit without one of its own; None where there is no file."""
        return None if not self.path.exists() else self._read()[0].get("entropy")

    def load(self) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """What was saved, or None where there is no file."""
        if not self.path.exists():
            return None
        facts, arrays = self._read()
        if facts.get("belongs") != self.belongs:
            what = f"the checkpoint {self.path} belongs to a fit with other data or settings"
            raise StoreError(what, remedy="delete that file, or choose another path")
        return facts, arrays

    def _read(self) -> tuple[dict[str, Any], dict[str, Array]]:
        if self.path.is_dir():
            raise StoreError(f"the checkpoint {self.path} is a directory", remedy="pass the path of a file in it")
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            facts = json.loads(bytes(arrays.pop(FACTS)).decode())
            if not isinstance(facts, dict):
                raise ValueError(f"{FACTS} is not an object")
        except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            what = f"the checkpoint {self.path} cannot be read ({type(error).__name__})"
            raise StoreError(what, remedy="delete that file to start again") from error
        return facts, arrays

    def save(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Write beside, then rename over."""
        words = json.dumps({**facts, "belongs": self.belongs, "entropy": self.entropy})
        beside = self.path.with_name(self.path.name + ".new")
        try:
            with beside.open("wb") as file:
                np.savez(file, allow_pickle=False, **{FACTS: np.frombuffer(words.encode(), np.uint8)}, **arrays)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            what = f"the checkpoint {self.path} cannot be written ({error.strerror or error})"
            raise StoreError(what, remedy="choose a path in an existing, writable directory") from error

    def remove(self) -> None:
        """The fit is complete."""
        self.path.unlink(missing_ok=True)
