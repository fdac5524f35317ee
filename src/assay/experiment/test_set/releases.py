"""Releases: what is told about the losses of a look, written to the ledger before it is told.

A planned look gets its mean loss as it is. One beyond the plan is answered through the Ladder: only a submission that
beats the best earlier answer about these rows is told, and in steps. Losses of two looks are compared on the rows they
share. Cost: one pass over the earlier answers in the ledger.
Ladder: Blum & Hardt (2015), Proceedings of ICML 37, 1006-1014.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.errors import DataError
from assay.experiment.storage.ledger import Entry, Ledger, Transaction
from assay.experiment.test_set.digests import Digests
from assay.experiment.test_set.ladder import Release, checked_losses, ladder_release
from assay.experiment.test_set.looks import Look
from assay.experiment.test_set.related_rows import KnownRows

__all__ = ["release"]

Array = np.ndarray


def release(
    ledger: Ledger, look: Look, test: Any, losses: Any, *, loss: str = "loss", step: float | str = "auto"
) -> Release:
    """What may be said about the losses of a recorded look: the mean if it was planned, the Ladder's answer if not.

    The answer is written to the ledger before it is returned; asked again about the same look, it is the same.

    | parameter | default | range            | meaning                                                              |
    |-----------|---------|------------------|----------------------------------------------------------------------|
    | ledger    |         | a Ledger         | where looks and answers are recorded                                 |
    | look      |         | a Look           | from `record_look`                                                   |
    | test      |         | a Table, a frame | the test rows, as they were given there                              |
    | losses    |         | n finite numbers | one loss per test row, small is good                                 |
    | loss      | "loss"  | text             | its name; answers are compared with earlier ones of the same name    |
    | step      | "auto"  | see `Ladder`     | the rule for the Ladder's step, or a fixed one                       |

    >>> import tempfile
    >>> import pandas as pd
    >>> from assay.experiment.test_set.looks import record_look
    >>> from assay.experiment.test_set.seal import make_seal
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
    >>> frame = pd.DataFrame({"x": range(8), "y": range(8)})
    >>> seal, train, test = make_seal(frame, "y", "regression", share=0.5)
    >>> look = record_look(ledger, seal, frame.iloc[test], [0, 0, 0, 0])
    >>> print(release(ledger, look, frame.iloc[test], [1, 0, 0, 0], loss="error"))
    mean error 0.25 (exact, a planned look, n = 4)
    """
    mine = checked_losses(losses, "losses")
    rows = KnownRows(ledger, Digests(getattr(test, "frame", test)))
    if len(rows.rows) != mine.size or len(rows.rows) != look.entry.body["n"]:
        message = f"there are {mine.size} losses for {len(rows.rows)} rows, and the look saw {look.entry.body['n']}"
        raise DataError(message, remedy="pass the rows of the look, with one loss per row")
    known = next((entry for entry in ledger.entries("release") if _answers(entry, look, loss)), None)
    if known is not None:  # read without a lock: what is written stays
        return _answer(known)
    with ledger.transaction() as writer:
        past = [entry for entry in writer.entries(kind="release") if entry.body["loss"] == loss]
        for entry in past:
            if _answers(entry, look, loss):
                return _answer(entry)
        answer = _climb(writer, past, rows, mine, loss, step) if look.beyond else _exact(mine, loss)
        body = {"look": look.entry.seq, "columns": look.entry.body["columns"], "loss": loss, "method": answer.method}
        body |= {"value": answer.value, "improved": answer.improved, "step": answer.step, "n": answer.n}
        digests = rows.on(look.entry.body["columns"])[0]  # a replay may know its rows by their old digests alone
        order = np.argsort(digests, kind="stable")
        kept = digests[order].astype("<u8").tobytes() + mine[order].astype("<f8").tobytes()
        # Losses of a submission that was not better are nobody's business: only the best is compared with.
        writer.append("release", body, look.entry.study, kept if answer.improved else None)
        return answer


def _exact(losses: Array, loss: str) -> Release:
    return Release(float(losses.mean()), True, 0.0, losses.size, loss, "plain mean")


def _answers(entry: Entry, look: Look, loss: str) -> bool:
    return bool(entry.body["look"] == look.entry.seq and entry.body["loss"] == loss)


def _answer(entry: Entry) -> Release:
    return Release(**{name: entry.body[name] for name in ("value", "improved", "step", "n", "loss", "method")})


def _climb(
    writer: Transaction, past: list[Entry], rows: KnownRows, losses: Array, loss: str, step: float | str
) -> Release:
    """The Ladder against the best earlier answer about (some of) these rows."""
    best, known = None, np.inf
    for entry in past:
        if entry.blob is None or entry.body["value"] >= known:
            continue
        data = writer.blob(entry)
        seen = np.frombuffer(data[: len(data) // 2], dtype="<u8")
        for digests in rows.on(entry.body["columns"]):
            at = np.minimum(np.searchsorted(seen, digests), seen.size - 1)
            shared = seen[at] == digests
            if shared.any():
                theirs = np.frombuffer(data[len(data) // 2 :], dtype="<f8")[at]
                best, known = (shared, theirs), entry.body["value"]
    if best is None:
        return ladder_release(losses, step=step, loss=loss)
    shared, theirs = best
    if shared.all():
        return ladder_release(losses, theirs, known, step=step, loss=loss)
    # Only on shared rows can the two be compared; the rest of the rows is new and may be told of.
    judged = ladder_release(losses[shared], theirs[shared], step=step, loss=loss)
    if not judged.improved:
        return Release(known, False, judged.step, losses.size, loss)
    return ladder_release(losses, step=judged.step, loss=loss)
