"""Publishing: model, report, model card, numbers and a script in a directory, and their hashes in the ledger."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from assay import __version__
from assay.errors import UntrustedError
from assay.evaluation import Validation
from assay.evaluation.learner import Rows
from assay.experiment import record
from assay.experiment.events import StepBegan
from assay.experiment.model_card import model_card
from assay.experiment.model_file import save_model
from assay.experiment.model_file.background import background_cells
from assay.experiment.model_file.training_rows import training_counts
from assay.experiment.state import Context, Published, StudyState, made
from assay.experiment.steps.seal import CONFIG
from assay.experiment.storage import canonical_json
from assay.experiment.storage.files import make_folder, write_beside
from assay.upcalls import upcall

__all__ = ["fitted_parts", "publish", "save", "write_model"]

CARD = "model-card.md"
EVERY_ROW_ONCE = ("k-fold", "repeated k-fold", "5x2", "leave-one-out")


def publish(state: StudyState, context: Context) -> StudyState:
    """Write the files into `context.out`; without one nothing is written.

    A model of another package that is not trusted is no reason to lose the rest: `unwritten` says how to get it.
    """
    folder, parted = context.out, made(state.parted)
    if folder is None:
        return state
    context.emit(StepBegan("publish", f"writing to {folder}"))
    make_folder(folder)
    model, files, hashes, unwritten = folder / "model.assay", {}, {}, None
    try:
        hashes["model"] = save(state, context, model)
        files["model"] = str(model)
    except UntrustedError as error:
        model.unlink(missing_ok=True)  # one of an earlier study would be taken for this one's
        options = " ".join(f"--trust {name}" for name in error.classes)
        command = f"assay report {parted.name} --out {shlex.quote(str(folder))} {options}"
        unwritten = (
            f"the model file was not written: {error.what}; if you trust the class, write the model with:",
            command,
        )
    files["report"] = str(folder / "report.html")
    state = replace(state, published=Published(files, unwritten))
    hashes["report"] = upcall("report_state")(state, context, folder / "report.html")
    card = model_card(state, context).to_markdown().encode()
    write_beside(folder / CARD, card)
    files[CARD], hashes["card"] = str(folder / CARD), hashlib.sha256(card).hexdigest()
    context.ledger.append("files", {"files": hashes}, parted.name)
    if (parted.folder / CONFIG).exists():
        write_beside(folder / CONFIG, (parted.folder / CONFIG).read_bytes())
        files[CONFIG] = str(folder / CONFIG)
    numbers, script = canonical_json.encode(record.summary(state, context)), record.code(state)
    for name, text in (("study.json", numbers), ("study.py", script)):
        write_beside(folder / name, text.encode())
        files[name] = str(folder / name)
    return replace(state, published=Published(files, unwritten))


def save(state: StudyState, context: Context, path: Path) -> str:
    """Write the fitted model with what predictions need; the SHA-256 of the file."""
    fitted = made(state.fitted)
    chosen = made(state.leaderboard).results[fitted.selection.name]
    return write_model(state, context, path, fitted.model, made(state.training).rows, chosen)


def fitted_parts(state: StudyState, context: Context) -> dict[str, Any]:
    """What the model file of a study would hold."""
    fitted = made(state.fitted)
    chosen = made(state.leaderboard).results[fitted.selection.name]
    return model_parts(state, context, fitted.model, made(state.training).rows, chosen)


def write_model(
    state: StudyState,
    context: Context,
    path: Path,
    model: Any,
    rows: Rows,
    chosen: Validation,
    about: Mapping[str, Any] | None = None,
) -> str:
    """Write a model fitted to `rows`, with its out-of-fold predictions of them; `about` adds to the metadata."""
    return save_model(path, model_parts(state, context, model, rows, chosen, about), trust=context.trust)


def model_parts(
    state: StudyState,
    context: Context,
    model: Any,
    rows: Rows,
    chosen: Validation,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a model file holds."""
    plan = state.plan
    parts: dict[str, Any] = {
        "pipeline": model,
        "task": plan.task,
        "target": plan.target,
        "kinds": {name: plan.kinds[name] for name in plan.features},
        "schema": {
            "features": plan.features,
            "gaps": {name: list(texts) for name, texts in plan.gaps.items() if name in plan.features},
            **({"units": dict(plan.units)} if plan.units else {}),
            **({"commas": dict(plan.commas)} if plan.commas else {}),
            "training": training_counts(rows.X, {name: plan.kinds[name] for name in plan.features}),
        },
        "metadata": {
            "study": made(state.parted).name,
            "version": __version__,
            "level": plan.level,
            "ledger_head": context.ledger.head(),
            **({} if made(state.parted).has_test_set else {"test_set": "none", "outer": record.outer_figure(state)}),
            **(about or {}),
        },
    }
    if context.background:
        parts["schema"]["background"] = background_cells(rows.X[plan.features], context.background)
    whole = chosen.scheme.kind in EVERY_ROW_ONCE
    if rows.classes is not None:
        parts["classes"] = rows.classes
        if whole and "probabilities" in chosen.fold_predictions:
            shares = chosen.out_of_fold("probabilities")
            parts["probabilities"] = np.column_stack([1 - shares, shares]) if shares.ndim == 1 else shares
            parts["schema"]["codes"] = np.searchsorted(rows.classes, rows.y).tolist()
    elif whole:
        parts["residuals"] = rows.y - chosen.out_of_fold("values")
    return parts
