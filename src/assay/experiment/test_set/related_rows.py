"""Rows of earlier studies in a table whose values, names or units were changed since, and what they were called there.

A study keeps its test rows in the vault and its training rows in its folder. A new table is compared with each of these
tables (`alignment.py`); nothing of them is told but which rows it shares, and nothing is added to the ledger but pairs
of row digests, as it has them anyway. From then on a row goes by its old digest as well as by its own, so that earlier
looks, seals and answers are found under either.

What this does not see: tables of which less than about a third is left, rows that cannot be told apart (a handful of
distinct ones), columns mixed with each other (principal components), sums over rows, and studies whose files are gone
or lie on another machine; those are recognised by exact content alone.
Cost: each stored table is read and sorted once per new table; see docs/simulations/recognition.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from assay.errors import AssayError
from assay.experiment.storage import home
from assay.experiment.test_set.alignment import align
from assay.experiment.test_set.axes import axes
from assay.experiment.test_set.digests import Digests, names_of, row_digests
from assay.experiment.test_set.vault import Vault

if TYPE_CHECKING:
    from assay.experiment.storage.ledger import Entry, Ledger, Transaction

__all__ = ["KnownRows", "Relative", "pairs_of", "relatives"]

Array = np.ndarray
NEEDED = frozenset({"seal_entry", "rows", "vault", "train"})


@dataclass(frozen=True, eq=False)
class Relative:
    """An earlier study some of whose rows are in a table.

    | field   | meaning                                                            |
    |---------|--------------------------------------------------------------------|
    | study   | its name                                                           |
    | entry   | the entry of its seal                                              |
    | rows    | for each row of the table: whether it is one of the study          |
    | test    | ... and was a test row there                                       |
    | digests | ... and its digest there, on the columns of that seal (0: unknown) |
    """

    study: str
    entry: Entry
    rows: Array
    test: Array
    digests: Array

    def pairs(self, mine: Array) -> Array:
        """Digests of the rows that were test rows there: as they are now, then as they were."""
        return np.concatenate([mine[self.test], self.digests[self.test]])

    def state(self) -> dict[str, Any]:
        """What the ledger has of it, beside the pairs."""
        counts = {"rows": int(self.rows.sum()), "test": int(self.test.sum())}
        return {"study": self.study, "seal_entry": self.entry.seq, "columns": self.entry.body["columns"], **counts}


def relatives(ledger: Ledger | Transaction, frame: Any) -> list[Relative]:
    """The earlier studies that share rows with a table, whatever happened to its columns since; oldest first."""
    # Studies of early versions may lack an entry; they are known by exact content.
    all_studies = [entry for entry in ledger.entries(kind="study") if entry.body.keys() >= NEEDED]
    studies = {(entry.body["seal_entry"], entry.body["rows"]): entry for entry in all_studies}
    seals = {entry.seq: entry for entry in ledger.entries(kind="seal")} if studies else {}
    mine, found = None, []
    for study in studies.values():
        entry, stored = seals.get(study.body["seal_entry"]), _stored(study)
        if entry is None or stored is None:
            continue
        mine = axes(frame) if mine is None else mine
        at = align(axes(stored.frame), mine)
        if at is not None:
            known = at >= 0
            digests = row_digests(stored.frame, entry.body["columns"])
            test = known & (at < stored.n_test)
            found.append(Relative(str(study.study), entry, known, test, np.where(known, digests[at], np.uint64(0))))
    return found


@dataclass(frozen=True, eq=False)
class _Stored:
    frame: pd.DataFrame
    n_test: int


def _stored(study: Entry) -> _Stored | None:
    """The rows of a study, those of the test set first; None where they are gone."""
    parts = []
    for vault, sha in (
        (Vault(str(study.study)), study.body["vault"]),
        (Vault("train", home() / "studies" / str(study.study)), study.body["train"]),
    ):
        try:
            parts.append(vault.read(sha))
        except AssayError:
            if not parts:  # without its test rows there is nothing to recognise
                return None
    return _Stored(pd.concat(parts, ignore_index=True), len(parts[0]))


def pairs_of(entry: Entry, blob: Array) -> list[tuple[tuple[str, ...], Array, Array]]:
    """What a seal's entry has of recognised rows: the old columns, the new digests and the old ones."""
    found, end = [], blob.size
    for one in reversed(entry.body.get("recognised", ())):
        start = end - 2 * one["test"]
        found.append((tuple(one["columns"]), blob[start : start + one["test"]], blob[start + one["test"] : end]))
        end = start
    return found


class KnownRows:
    """The digests of a table's rows under each name the ledger knows them by.

    | parameter | meaning                                                                       |
    |-----------|-------------------------------------------------------------------------------|
    | ledger    | what seals have recognised                                                    |
    | rows      | the table                                                                     |
    | found     | what was recognised just now, for a table that was not sealed                 |
    """

    def __init__(self, ledger: Ledger | Transaction, rows: Digests, found: Iterable[Relative] = ()) -> None:
        self.rows, self._names = rows, frozenset(names_of(rows.frame))
        self._other: dict[tuple[str, ...], list[Array]] = {}
        for relative in found:
            columns = tuple(relative.entry.body["columns"])
            self._other.setdefault(columns, []).append(np.where(relative.test, relative.digests, np.uint64(0)))
        for entry in ledger.entries(kind="seal"):
            if not entry.body.get("recognised"):
                continue
            later = tuple(entry.body["columns"])
            for earlier, now, then in pairs_of(entry, np.frombuffer(ledger.blob(entry), dtype="<u8")):
                # A study that was sealed first may be opened last: its rows may have been looked at under either name.
                for here, mine, there, theirs in ((later, now, earlier, then), (earlier, then, later, now)):
                    if self._names.issuperset(here):
                        self._other.setdefault(there, []).append(_renamed(rows.on(here), mine, theirs))

    def on(self, columns: Sequence[str]) -> list[Array]:
        """The digests on `columns`: of the rows as they are, and as they were once (0: unknown)."""
        exact, renamed = self.split(columns)
        return renamed if exact is None else [exact, *renamed]

    def split(self, columns: Sequence[str]) -> tuple[Array | None, list[Array]]:
        """The digests of the rows as they are (None if columns are missing), and of what they were."""
        exact = self.rows.on(columns) if self._names.issuperset(columns) else None
        return exact, self._other.get(tuple(columns), [])

    def seen(self, columns: Sequence[str], digests: Array) -> Array:
        """Which rows are among these digests."""
        found = np.zeros(len(self.rows), dtype=bool)
        for mine in self.on(columns):
            found |= np.isin(mine, digests)
        return found


def _renamed(mine: Array, now: Array, then: Array) -> Array:
    if not now.size:
        return np.zeros_like(mine)
    order = np.argsort(now)
    at = order[np.minimum(np.searchsorted(now[order], mine), now.size - 1)]
    return np.where(now[at] == mine, then[at], np.uint64(0))
