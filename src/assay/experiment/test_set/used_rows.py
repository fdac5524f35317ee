"""Rows that a final model was fitted to: the ledger lists them, and none of them is ever a test row again.

A row is known by its digest on the columns of the seal of its study, as elsewhere. Cost: one pass over the rows per
distinct set of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from assay.errors import SealError
from assay.experiment.test_set.related_rows import KnownRows, Relative

if TYPE_CHECKING:
    from assay.experiment.storage.ledger import Ledger, Transaction

__all__ = ["record_used", "used_rows", "used_up"]

Array = np.ndarray
KIND = "final"


def record_used(ledger: Ledger, columns: Sequence[str], digests: Array, study: str) -> None:
    """Record the rows that a final model is fitted to, before it gets its name; once for the same rows."""
    rows = np.unique(digests).astype("<u8").tobytes()
    body = {"columns": list(columns), "n": int(digests.size)}
    if not any(entry.body == body and ledger.blob(entry) == rows for entry in ledger.entries(KIND, study)):
        ledger.append(KIND, body, study, rows)


def used_rows(ledger: Ledger | Transaction, rows: KnownRows, found: Iterable[Relative] = ()) -> tuple[Array, list[str]]:
    """Which rows a final model was fitted to, true or false for each, and the studies of these models.

    `found` are studies whose rows were recognised though values or columns were changed.
    """
    used, studies = np.zeros(len(rows.rows), dtype=bool), []
    # Several studies have the same rows; those of a table were recognised as the latest one's.
    same = {str(one.study): (one.body["seal"], one.body.get("rows")) for one in ledger.entries(kind="study")}
    for entry in ledger.entries(kind=KIND):
        seen = rows.seen(entry.body["columns"], np.frombuffer(ledger.blob(entry), dtype="<u8"))
        if seen.any():
            studies.append(str(entry.study))
        used |= seen
        for one in found:
            if one.study == entry.study or same.get(one.study, ()) == same.get(str(entry.study)):
                used |= one.rows
                studies.append(str(entry.study))
    return used, list(dict.fromkeys(studies))


def used_up(count: int, studies: list[str], what: str) -> SealError:
    """The refusal of rows as test rows."""
    name = studies[0] if studies else "an earlier study"
    message = f"{count:,} {what} were used to fit the final model of study {name} and cannot be test rows again"
    return SealError(message, remedy=f"add new rows; the study is still there: assay show {name}")
