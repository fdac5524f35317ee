"""Files that are written whole or not at all, and directories that can be written to."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from assay.errors import DataError

__all__ = ["make_folder", "sync_folder", "write_beside"]


def make_folder(folder: Path) -> None:
    """A directory that can be written to, or one sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot create {folder} ({error.strerror})", remedy="choose another directory") from error
    if not os.access(folder, os.W_OK):
        raise DataError(f"{folder} is not writable", remedy="choose another directory")


def write_beside(path: Path, data: bytes) -> None:
    """Write a file beside its place, sync it, and rename it over: nobody ever sees half of it."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):  # a read-only disk refuses even this
            beside.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        message = f"cannot write {path} ({(error.strerror or str(error)).lower()})"
        raise DataError(message, remedy="free some disk space, or choose a writable directory") from error


def sync_folder(folder: Path) -> None:
    """Write a directory's entries to the disk, so that a file that was renamed into it is there after a power cut."""
    if os.name != "nt":  # Windows cannot open a directory, and does not need to
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
