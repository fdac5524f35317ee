"""An archive that may come from anyone: every member named, measured and hashed before a byte of it is used.

The file is a zip of plain members behind `manifest.json`, which lists their sizes and SHA-256 digests:

    manifest.json              {"format": "assay-model", "version": 2, "members": {name: {"size", "sha256"}}}
    about.json                 what the model is
    model/schema.json          the tree of objects (`assay.state`)
    model/000001.npy           its arrays, numbered from 0
    model/000001.bin           objects of other packages, in the format of skops
    arrays/NAME.npy            arrays that belong to the model

Refused, before anything is unpacked: names that are not of this list (so no paths out of the archive), names given
twice, links, encryption, compression other than deflate, anything before the first or after the last byte, and more
unpacked bytes than the file's own size allows: the memory that a file takes is proportional to its size, whatever it
claims. Written files keep to that, because a member that compresses better is stored as it is. No member is unpacked
beyond the size that the directory declares. Arrays hold numbers (objects would be pickles) and exactly as many bytes as
their header says. Cost: one pass over the bytes. Version 1 differs in the tree of objects alone (`version1.py`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import stat
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from assay.errors import DataError, StoreError
from assay.experiment.storage.files import write_beside

__all__ = ["as_npy", "from_npy", "parse", "read_archive", "write_archive"]

FORMAT, VERSION, READ = "assay-model", 2, (1, 2)
LIMIT = 2 << 30
"""Unpacked bytes that are read at most, unless the caller allows more."""
ALLOWED = {"json": (4, 128 << 10), "npy": (16, 1 << 20), "bin": (16, 1 << 20)}
"""Unpacked bytes of all members of a kind: so many per byte of the file, and so many more. An object takes some twenty
times as much memory as its JSON."""
TINY = 2048
"""Bytes of a member that is not worth a look: its place in the directory takes enough of the file."""
WORDS = 64 << 20
"""Bytes of one JSON member at most; a forest of a thousand trees takes ten million."""
MEMBERS = 200_000
DIMENSIONS = 32
MANIFEST, ABOUT, SCHEMA = "manifest.json", "about.json", "model/schema.json"
NAMES = re.compile(r"manifest\.json|about\.json|model/schema\.json|model/[0-9]{6}\.(npy|bin)|arrays/[a-z_]{1,40}\.npy")
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, KeyError, OverflowError, OSError)
AGAIN = "do not use this file; get a new copy from its source"


def refuse(path: Any, what: str, remedy: str = AGAIN) -> StoreError:
    """The sentence that a file cannot be used."""
    return StoreError(f"the model file {str(path)!r} {what}", remedy=remedy)


# Writing.


def write_archive(path: Path, members: Mapping[str, bytes]) -> str:
    """Write the members beside `path`, sync, and rename over it; return the SHA-256 of the file."""
    listed = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in members.items()}
    manifest = {"format": FORMAT, "version": VERSION, "members": listed}
    packed = _pack({MANIFEST: json.dumps(manifest, sort_keys=True).encode(), **members})
    remedy = "choose an existing, writable directory with enough free space"
    if not path.parent.is_dir():
        raise StoreError(f"cannot write the model to {str(path)!r} (no such file or directory)", remedy=remedy)
    try:
        write_beside(path, packed)
    except DataError as error:
        raise StoreError(f"the model file: {error.what}", remedy=remedy) from error
    return hashlib.sha256(packed).hexdigest()


def _pack(members: Mapping[str, bytes]) -> bytes:
    """The same members always give the same bytes: no clock, no owner, one order."""
    packed, entries = _zip(members)
    # What is nearly all zeros is kept as it is, or it would look like a bomb when read.
    dense = {one.filename for one in entries if one.file_size > max(TINY, _ratio(one) * one.compress_size)}
    return _zip(members, dense)[0] if dense else packed


def _ratio(entry: zipfile.ZipInfo) -> int:
    return ALLOWED[entry.filename.rpartition(".")[2]][0]


def _zip(members: Mapping[str, bytes], stored: Collection[str] = ()) -> tuple[bytes, list[zipfile.ZipInfo]]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            entry.create_system, entry.external_attr = 3, (stat.S_IFREG | 0o600) << 16
            archive.writestr(entry, data, compresslevel=1)
    return buffer.getvalue(), archive.infolist()


def as_npy(array: np.ndarray) -> bytes:
    """An array in numpy's own format, without pickles."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


# Reading.


def read_archive(path: Path, limit: int | None = None) -> tuple[dict[str, bytes], str, int]:
    """The members that the manifest lists, checked, the SHA-256 of the file, and its version.

    With a `limit` nothing but that many unpacked bytes is asked of the sizes.
    """
    with _opened(path, LIMIT if limit is None else limit) as file:
        try:
            members = _members(path, file, limit)
            file.seek(0)
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        except StoreError:
            raise
        except RuntimeError as error:  # how zipfile says that a password is needed
            raise refuse(path, "is encrypted") from error
        except DAMAGE as error:
            raise refuse(path, "is damaged or truncated") from error
    version = _check_manifest(path, members)
    for name, content in members.items():
        if name.endswith(".npy"):
            _check_npy(path, name, content)
    return members, checksum, version


def _members(path: Path, file: io.BufferedReader, limit: int | None) -> dict[str, bytes]:
    """What the archive holds, unpacked only if its directory is in order."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        packed = file.seek(0, os.SEEK_END)
        _check_entries(path, entries)
        _check_sizes(path, entries, limit, packed)
        # The end record is 22 bytes long; anything behind it, or a comment in it, would be carried along unseen.
        file.seek(packed - 22)
        ends = file.read(4) == b"PK\x05\x06" and not archive.comment
        if not ends or min(entry.header_offset for entry in entries) != 0:
            raise refuse(path, "contains bytes outside its members")
        return {entry.filename: _unpacked(archive, entry) for entry in entries}


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A member, no further than its declared size: `ZipFile.read` unpacks all there is before it compares."""
    with archive.open(entry) as member:
        content = member.read(entry.file_size)
    if len(content) != entry.file_size:
        raise zipfile.BadZipFile(entry.filename)
    return content


def _opened(path: Path, limit: int) -> io.BufferedReader:
    """The file, open, if it is one, is not too large and starts as a model does."""
    try:
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode):  # a pipe would wait for ever
            raise refuse(path, "is not a file", "pass the path of a file that assay wrote")
        if facts.st_size > limit:
            raise _too_large(path, limit)
        file = open(path, "rb")  # noqa: SIM115 (the caller closes it)
        start = file.read(4)
    except StoreError:
        raise
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        why = getattr(error, "strerror", None) or str(error)
        raise refuse(path, f"cannot be read ({why.lower()})", "check the path") from error
    if start != b"PK\x03\x04":
        file.close()
        kind = "is not an assay model file" if start else "is empty"
        raise refuse(path, kind, "pass a file that assay wrote; pickle and joblib files are never loaded")
    return file


def _too_large(path: Any, limit: int) -> StoreError:
    return refuse(path, f"unpacks to more than {limit / 2**20:.4g} MiB", "raise `limit` if you trust its source")


def _check_entries(path: Any, entries: list[zipfile.ZipInfo]) -> None:
    """What the directory of the archive claims, before any of it is unpacked."""
    names = [entry.filename for entry in entries]
    if len(names) > MEMBERS:
        raise refuse(path, f"has {len(names)} members, more than {MEMBERS}")
    if len(set(names)) != len(names):
        raise refuse(path, "has two members with the same name")
    for entry in entries:
        if not NAMES.fullmatch(entry.filename) or entry.orig_filename != entry.filename:
            raise refuse(path, f"has an unexpected member {_shown(entry.filename)}")
        mode = entry.external_attr >> 16
        if entry.is_dir() or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
            raise refuse(path, f"contains a link or directory {_shown(entry.filename)}")
        if entry.flag_bits & 0x1:
            raise refuse(path, "is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise refuse(path, f"uses an unknown compression for {_shown(entry.filename)}")
        if entry.filename.endswith(".json") and entry.file_size > WORDS:
            raise refuse(path, f"contains {_shown(entry.filename)} of {entry.file_size / 2**20:.4g} MiB")
    if not {MANIFEST, ABOUT, SCHEMA} <= set(names):
        raise refuse(path, "is not an assay model file: it lacks " + min({MANIFEST, ABOUT, SCHEMA} - set(names)))


def _check_sizes(path: Any, entries: list[zipfile.ZipInfo], limit: int | None, packed: int) -> None:
    """That unpacking takes no more than the limit and, where none was given, than a file of this size may."""
    total = sum(entry.file_size for entry in entries)
    if total > (LIMIT if limit is None else limit):
        raise _too_large(path, LIMIT if limit is None else limit)
    for kind, (ratio, spare) in ALLOWED.items() if limit is None else ():
        size = sum(entry.file_size for entry in entries if entry.filename.endswith(kind))
        if size > ratio * packed + spare:
            command = f"assay convert {shlex.quote(str(path))} NEW.assay --limit {total}"
            message = f"unpacks its .{kind} members to {size / packed:.4g} times its size, like a zip bomb"
            raise refuse(path, message, f"if you trust its source, write it anew with: {command}")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:57] + "...")


def _check_manifest(path: Any, members: dict[str, bytes]) -> int:
    manifest = parse(path, MANIFEST, members.pop(MANIFEST))
    version = manifest.get("version")
    if manifest.get("format") != FORMAT or type(version) is not int or version not in READ:
        message = f"is of format {str(manifest.get('format'))[:40]!r}, version {str(version)[:20]!r}"
        raise refuse(path, message, f"this version of assay reads {FORMAT!r}, versions {READ[0]} to {READ[-1]}")
    listed = manifest.get("members")
    if not isinstance(listed, dict) or set(listed) != set(members):
        raise refuse(path, "does not have the members listed in its manifest")
    for name, content in members.items():
        facts = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        if listed[name] != facts:
            raise refuse(path, f"was modified after it was written: {name} does not match its checksum")
    return version


def parse(path: Any, name: str, content: bytes) -> dict[str, Any]:
    """A JSON member, which must be an object, and whose text can be written to files."""
    try:
        found = json.loads(content.decode("utf-8"))
        if b"\\ud" in content.lower():  # half a pair of surrogates is no text
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise refuse(path, f"has a damaged {name}") from error
    if not isinstance(found, dict):
        raise refuse(path, f"has a damaged {name}")
    return found


def _check_npy(path: Any, name: str, content: bytes) -> None:
    """That an array is one, holds no objects, and is as long as its header says: numpy would allocate first."""
    buffer = io.BytesIO(content)
    try:
        version = npy.read_magic(buffer)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, _, dtype = read(buffer)
    except Exception as error:  # the header is an expression, so that anything may be wrong with it
        raise refuse(path, f"has a damaged array {name}") from error
    if dtype.hasobject:
        raise refuse(path, f"has pickled objects in the array {name}, which are never loaded")
    if dtype.kind not in "biufU" or not dtype.isnative or not dtype.itemsize or len(shape) > DIMENSIONS:
        raise refuse(path, f"has something other than numbers in the array {name}")
    size = dtype.itemsize
    for length in shape:
        size *= length
    if any(not 0 <= length < 2**31 for length in shape) or size != len(content) - buffer.tell():
        raise refuse(path, f"has an array {name} whose size contradicts its header")
    if dtype.kind == "b" and content[buffer.tell() :].strip(b"\0\1"):
        raise refuse(path, f"has booleans in the array {name} that are neither 0 nor 1")


def from_npy(content: bytes) -> np.ndarray:
    """The array of a member that was checked, row by row in memory."""
    return np.asarray(np.load(io.BytesIO(content), allow_pickle=False), order="C")
