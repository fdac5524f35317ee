"""What a study keeps: files for the reader, and enough in its folder to go on or be checked later."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay import __version__
from assay.errors import DataError, LedgerError, UntrustedError
from assay.experiment.model_file import save_model
from assay.experiment.plan import Plan
from assay.experiment.storage import Ledger, canonical_json, home
from assay.experiment.test_set.seal import Seal, Sealed
from assay.experiment.test_set.vault import Vault
from assay.numerics.threads import one_blas_thread

if TYPE_CHECKING:
    from assay.experiment.study import Study

__all__ = [
    "forgotten",
    "keep",
    "make_folder",
    "problems",
    "publish",
    "record_result",
    "restore",
    "save",
    "trusted_ledger",
    "write_beside",
]

EVERY_ROW_ONCE = ("k-fold", "repeated k-fold", "5x2", "leave-one-out")


def trusted_ledger(ledger: Any) -> Ledger:
    """The ledger asked for (one, a URL, or None for the user's own) if a quick look finds it whole and complete."""
    found = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    found.guard()
    gone = forgotten(found)
    if gone:
        named = ", ".join(gone[:3]) + (" and others" if len(gone) > 3 else "")
        what = f"the ledger {found.where} was cut or replaced: it does not know studies that began here ({named})"
        raise LedgerError(what, remedy=f"restore it from a copy, or move their folders out of {home() / 'studies'}")
    return found


def forgotten(ledger: Ledger) -> list[str]:
    """Studies that have begun in this home, but that the home's own ledger has no entry of.

    A study's journal is made after its entry is on the disk, so a journal without an entry shows a ledger that was
    replaced by another or by an older copy, which nothing inside it can show.
    """
    if Path(ledger.where) != home() / "ledger.db":
        return []
    known = set(ledger.studies())
    return sorted(one.parent.name for one in (home() / "studies").glob("*/journal.db") if one.parent.name not in known)


def keep(study: Study, rows: str) -> None:
    """Put the plan and the training rows where a later process finds them, and tell the ledger."""
    assert study.name is not None
    assert study.sealed is not None
    assert study.train is not None
    folder = home() / "studies" / study.name
    vault = Vault("train", folder)
    sha = vault.write(study.train)
    study.train = vault.read(sha)  # a resumed study computes on these very arrays, so this one does too
    study.hashes = {"training rows": rows, "test rows": study.sealed.seal.rows, "vault": str(study.vault)}
    body = {
        "plan": study.plan.state(),
        "seal": study.sealed.seal.id,
        "seal_entry": study.sealed.entry.seq,
        "train": sha,
        "vault": study.vault,
        "rows": rows,
        "n_train": len(study.train),
        "n_test": study.n_test,
        "notes": study.notes,
        "version": __version__,
    }
    write_beside(folder / "study.json", canonical_json.encode(body).encode())
    if not any(entry.body == body for entry in study.ledger.entries("study", study.name)):
        study.ledger.append("study", body, study.name)


def restore(study: Study, name: str) -> None:
    """Fill a study from what `keep` wrote."""
    entries = study.ledger.entries("study", name)
    if not entries:
        known = ", ".join(dict.fromkeys(str(entry.study) for entry in study.ledger.entries("study"))) or "none yet"
        raise DataError(f"the ledger knows no study {name!r}", remedy=f"choose among: {known}")
    body = entries[-1].body
    entry = next(one for one in study.ledger.entries("seal") if one.seq == body["seal_entry"])
    seal = Seal.from_state(entry.body, np.frombuffer(study.ledger.blob(entry), dtype="<u8"))
    study.plan, study.name = Plan.from_state(body["plan"]), name
    study.train = Vault("train", home() / "studies" / name).read(body["train"])
    study.sealed = Sealed(seal, np.arange(body["n_train"]), np.arange(body["n_test"]), entry, True)
    study.vault, study.n_test, study.notes = body["vault"], body["n_test"], list(body["notes"])
    study.hashes = {"training rows": body["rows"], "test rows": seal.rows, "vault": body["vault"]}


def publish(study: Study, folder: Path, trust: Sequence[str] = ()) -> dict[str, str]:
    """Write model, report, numbers and script into a directory, and record their hashes in the ledger.

    A model of another package that is not trusted is no reason to lose the rest: `study.unwritten` says how to get it.
    """
    study.says(f"writing to {folder}")
    make_folder(folder)
    model, hashes = folder / "model.assay", {}
    study.files, study.unwritten = {}, None
    try:
        hashes["model"] = save(study, model, trust)
        study.files["model"] = str(model)
    except UntrustedError as error:
        model.unlink(missing_ok=True)  # one of an earlier study would be taken for this one's
        options = " ".join(f"--trust {name}" for name in error.classes)
        command = f"assay report {study.name} --out {shlex.quote(str(folder))} {options}"
        study.unwritten = (f"the model file was not written: {error.what}; if you trust it, write it with:", command)
    study.files["report"] = str(folder / "report.html")
    hashes["report"] = study.report(folder / "report.html")
    study.ledger.append("files", {"files": hashes}, study.name)
    for name, words in (("study.json", canonical_json.encode(study.summary())), ("study.py", study.code())):
        write_beside(folder / name, words.encode())
        study.files[name] = str(folder / name)
    return study.files


def make_folder(folder: Path) -> None:
    """A directory that can be written to, or one sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be made ({error.strerror})", remedy="choose another directory") from error
    if not os.access(folder, os.W_OK):
        raise DataError(f"{folder} cannot be written to", remedy="choose another directory")


def record_result(study: Study) -> None:
    """Write down what was selected and found, once."""
    opened = {} if study.opened is None else study.opened.intervals
    body = {
        "selected": study.select().name,
        "fitted": _fitted(study),
        "test": None if study.opened is None else {name: found.estimate for name, found in opened.items()},
        "limits": {name: [found.lower, found.upper] for name, found in opened.items()},
    }
    earlier = study.ledger.entries("result", study.name)
    # A version that recorded less is not contradicted by this one.
    if not earlier or any(body.get(key) != value for key, value in earlier[-1].body.items()):
        study.ledger.append("result", body, study.name)


def save(study: Study, path: Any, trust: Sequence[str] = ()) -> str:
    """Write the fitted model with what predictions need; the SHA-256 of the file."""
    plan, rows = study.plan, study.data.rows
    chosen = study.leaderboard.results[study.select().name]
    parts: dict[str, Any] = {
        "pipeline": study.model,
        "task": plan.task,
        "target": plan.target,
        "kinds": {name: plan.kinds[name] for name in plan.features},
        "schema": {"features": plan.features},
        "metadata": {
            "study": study.name,
            "version": __version__,
            "level": plan.level,
            "ledger_head": study.ledger.head(),
        },
    }
    whole = chosen.scheme.kind in EVERY_ROW_ONCE
    if rows.classes is not None:
        parts["classes"] = rows.classes
        if whole and "probabilities" in chosen.fold_predictions:
            shares = chosen.out_of_fold("probabilities")
            parts["probabilities"] = np.column_stack([1 - shares, shares]) if shares.ndim == 1 else shares
            parts["schema"]["codes"] = np.searchsorted(rows.classes, rows.y).tolist()
    elif whole:
        parts["residuals"] = rows.y - chosen.out_of_fold("values")
    return save_model(path, parts, trust=trust)


def problems(study: Study) -> list[str]:
    """What does not fit: the ledger's chain, the hashes of the rows, and whether a refit says the same."""
    found = list(study.ledger.verify())
    assert study.name is not None
    vault = Vault(study.name).path
    if not vault.exists():
        found.append(f"the test rows are not in {vault}")
    elif hashlib.sha256(vault.read_bytes()).hexdigest() != study.vault:
        found.append("the test rows in the vault are not those that were sealed")
    results = study.ledger.entries("result", study.name)
    if not results:
        return [*found, "the study has no recorded result yet"]
    told = results[-1].body
    if study.select().name != told["selected"]:
        found.append(f"the selection is {study.select().name} now, but {told['selected']} was recorded")
    elif _fitted(study) != told["fitted"]:
        found.append(f"{told['selected']} fitted again to the training rows says something else")
    return found


def _fitted(study: Study) -> str:
    """A digest of what the fitted model says of the training rows, to recognise it by."""
    with one_blas_thread():
        said = np.asarray(study.model.predict(study.data.rows.X))
    data = said.astype("<f8").tobytes() if said.dtype.kind == "f" else "\n".join(map(str, said.tolist())).encode()
    return hashlib.sha256(data).hexdigest()


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
    except OSError as error:
        with suppress(OSError):  # a read-only disk refuses even this
            beside.unlink(missing_ok=True)
        what = f"{path} cannot be written ({(error.strerror or str(error)).lower()})"
        raise DataError(what, remedy="free some space, or choose a directory you may write to") from error
