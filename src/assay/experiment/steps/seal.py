"""Sealing: the rows are parted, the test rows go into the vault, and the ledger has it on record.

From here on only the step that opens the test set sees its rows. What a study needs to go on lies in
`home()/studies/<name>`: the plan, the training rows, the journal of folds.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from assay import __version__
from assay.errors import DataError
from assay.evaluation.learner import Rows, undefined
from assay.experiment.events import StepBegan
from assay.experiment.options import read_config
from assay.experiment.plan import Plan, name_of
from assay.experiment.protocol import OUTER, folds_at_least
from assay.experiment.state import Context, Parted, StudyState, made
from assay.experiment.storage import canonical_json, home
from assay.experiment.storage.files import write_beside
from assay.experiment.test_set.seal import Seal, Sealed, row_digests, seal_rows
from assay.experiment.test_set.size import Precision
from assay.experiment.test_set.vault import Vault
from assay.words import plural

__all__ = ["CONFIG", "load", "seal", "stored_wishes"]

CONFIG = "assay.toml"
"""Where a study's folder, and the directory of its report, say how it was begun."""
WISHES = ("open_test", "despite", "out", "trust", "unit", "by", "background")


def seal(state: StudyState, context: Context) -> StudyState:
    """Part the rows, put the test rows into the vault, and record it."""
    context.emit(StepBegan("seal", "sealing the test rows"))
    plan, asked = state.plan, made(state.asked)
    sealed = seal_rows(
        context.ledger,
        asked.table,
        plan.target,
        plan.task,
        share=asked.test_size,
        precision=Precision(asked.margin, plan.level, plan.metric),
        group=plan.group,
        time=plan.time,
        test=asked.test,
        reason=asked.reseal,
    )
    train = asked.table.frame.iloc[sealed.train].reset_index(drop=True)
    kept = asked.table.row_numbers
    row_numbers = sealed.train + 1 if kept is None else kept[sealed.train]
    test = (asked.table if asked.test is None else asked.test).frame.iloc[sealed.test].reset_index(drop=True)
    both = 0 if asked.test is None else len(asked.table.frame) - len(train)
    if both:
        verb = "is" if both == 1 else "are"
        text = f"{plural(both, 'row')} of the table {verb} in the test file as well, and so not trained on"
        state = replace(state, notes=(*state.notes, text))
    none = sealed.seal.by == "none"
    test, left = (test, []) if none else _of_new_groups(plan, train, test)
    folds = folds_at_least(plan)
    share = 0.5 if plan.time is not None else 1 - 1 / OUTER[-1]
    trained = len(train) * share if none else len(train)
    if trained < max(4, 2 * folds):
        verb = "is" if len(train) == 1 else "are"
        message = f"{plural(len(train), 'training row')} {verb} too few for {plural(folds, 'fold')}"
        message += " inside outer folds" if none and len(train) >= max(4, 2 * folds) else ""
        fewer = int(trained) // 2 if isinstance(plan.cv, int) and plan.time is None else 0
        option = ("cv", str(fewer)) if fewer >= 2 else None
        raise DataError(message, remedy="use more rows" + (", or fewer folds" if option else ""), option=option)
    # In the order of their digests, so that a sum over shuffled rows ends in the same digit.
    test = test.iloc[np.argsort(row_digests(test, sealed.seal.columns), kind="stable")].reset_index(drop=True)
    if not none:
        _refuse_unscorable(plan, train, test)
    digests = row_digests(train, sealed.seal.columns)
    rows = hashlib.sha256(np.sort(digests).astype("<u8").tobytes()).hexdigest()
    name = name_of(plan, sealed.seal.id, rows)
    vault = Vault(name).write(test)
    state = replace(state, notes=(*state.notes, *sealed.notes, *left))
    groups = None if plan.group is None else int(test[plan.group].nunique(dropna=False))
    hashes = _hashes(rows, sealed.seal, vault)
    parted = Parted(name, sealed, train, len(test), vault, hashes, row_numbers, groups, margin=asked.margin)
    parted = _store(state, context, parted)
    write_beside(parted.folder / CONFIG, asked.config.encode())
    pa.default_memory_pool().release_unused()  # what reading and hashing took is free, but Arrow's until now
    return replace(state, asked=None, parted=parted)  # from here on the test rows are in the vault alone


def _of_new_groups(plan: Plan, train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The test rows and, where new groups in the future are asked about, without later rows of known groups."""
    if plan.group is None or plan.time is None or plan.known_groups:
        return test, []
    known = test[plan.group].isin(train[plan.group]).to_numpy()
    if known.all():
        message = f"every later row belongs to a {plan.group!r} that has earlier rows as well"
        raise DataError(message, remedy="pass known_groups (--known-groups) to predict later rows of known groups")
    if not known.any():
        return test, []
    groups = test.loc[known, plan.group].nunique()
    text = f"{plural(int(known.sum()), 'later row')} of {plural(groups, 'group')} with earlier rows "
    text += f"{'is' if known.sum() == 1 else 'are'} left out: the question is about new groups in the future"
    return test.loc[~known].reset_index(drop=True), [text]


def _hashes(rows: str, seal: Seal, vault: str) -> dict[str, str]:
    return {"training rows": rows} | ({} if seal.by == "none" else {"test rows": seal.rows, "vault": vault})


def _store(state: StudyState, context: Context, parted: Parted) -> Parted:
    """Put the plan and the training rows where a later process finds them, and record it in the ledger."""
    vault = Vault("train", parted.folder)
    sha = vault.write(parted.train.set_axis(made(parted.row_numbers), axis=0))
    body = {
        "plan": state.plan.state(),
        "seal": parted.sealed.seal.id,
        "seal_entry": parted.sealed.entry.seq,
        "why": parted.sealed.why,
        "margin": parted.margin,
        "train": sha,
        "vault": parted.vault,
        "rows": parted.hashes["training rows"],
        "n_train": len(parted.train),
        "n_test": parted.n_test,
        "test_groups": parted.test_groups,
        "notes": list(state.notes),
        "missing": {name: dict(texts) for name, texts in state.missing.items()},
        "version": __version__,
    }
    write_beside(parted.folder / "study.json", canonical_json.encode(body).encode())
    if not any(entry.body == body for entry in context.ledger.entries("study", parted.name)):
        context.ledger.append("study", body, parted.name)
    return replace(parted, **_training_rows(vault, sha))  # a resumed study computes on these very arrays


def load(name: str, context: Context) -> StudyState:
    """A sealed study by its name; its folds and looks are in the journal and in the ledger."""
    entries = context.ledger.entries("study", name)
    if not entries:
        known = ", ".join(dict.fromkeys(str(entry.study) for entry in context.ledger.entries("study"))) or "none yet"
        raise DataError(f"unknown study {name!r}", remedy=f"choose among: {known}")
    body = entries[-1].body
    entry = next(one for one in context.ledger.entries("seal") if one.seq == body["seal_entry"])
    found = Seal.from_ledger(context.ledger, entry)
    why = str(body.get("why", entry.body.get("why", "")))
    sealed = Sealed(found, np.arange(body["n_train"]), np.arange(body["n_test"]), entry, True, why=why)
    train = _training_rows(Vault("train", home() / "studies" / name), body["train"])
    hashes = _hashes(body["rows"], found, body["vault"])
    parted = Parted(
        name,
        sealed,
        n_test=body["n_test"],
        vault=body["vault"],
        hashes=hashes,
        test_groups=body.get("test_groups"),
        margin=body.get("margin"),
        **train,
    )
    plan, missing = Plan.from_state(body["plan"]), body.get("missing", {})
    return StudyState(plan, tuple(body["notes"]), missing, done="seal", parted=parted)


def _training_rows(vault: Vault, sha: str) -> dict[str, Any]:
    """The training rows of a study and their numbers in the table, which versions before did not store as an index."""
    rows = vault.read(sha)
    numbers = None if isinstance(rows.index, pd.RangeIndex) else rows.index.to_numpy()
    return {"train": rows.reset_index(drop=True), "row_numbers": numbers}


def stored_wishes(name: str) -> dict[str, Any]:
    """The options that decide no number and with which a study was begun."""
    folder = home() / "studies" / name
    if (folder / CONFIG).exists():
        return {key: value for key, value in read_config(folder / CONFIG).items() if key in WISHES}
    try:  # a study of an earlier version; one that was to stay sealed must not be opened unasked
        begun = json.loads((folder / "command.json").read_text())
        return {"open_test": bool(begun["open"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _refuse_unscorable(plan: Plan, train: pd.DataFrame, test: pd.DataFrame) -> None:
    """Refuse test rows that the plan could not score, before anything is computed."""
    y = test[plan.target].to_numpy()
    classes = None
    if plan.task == "classification":
        classes = np.array(sorted(set(train[plan.target].tolist())))
        unseen = sorted({str(value) for value in y.tolist()} - {str(value) for value in classes.tolist()})
        if unseen:
            message = f"class {unseen[0]!r} occurs only in the test rows"
            raise DataError(message, remedy="merge it with another class, leave its rows out, or collect more rows")
        y = np.array(y.tolist())
    why = undefined(plan.measure(plan.metric), y, Rows(None, y, None, classes))
    if why is not None:
        message = f"{plan.metric} is not defined on the {len(test)} test rows: {why.what}"
        raise DataError(message, remedy="use another metric, or more rows")
