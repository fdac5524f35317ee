"""Rows of earlier looks under other columns: a dropped or renamed column must not make an old test set look new.

The rows of a look are recognised by their digests on the columns of its seal. Where some of those columns are gone, the
digests cannot be compared, but the test rows of an opened study still lie in its vault, and they are no secret any
more. Both tables are then digested on the columns they have in common, and a row that is there in both was looked at,

    if  at least half of the look's columns are in common (by name), they tell its rows apart (a share d of at most 5%
        of them have a twin), and  shared > max(3, 10 d n)  of the n rows asked about,

for a row that has nothing to do with the look meets one of its rows by chance with probability about d. What this does
not see: more than half of the columns dropped or renamed, a vault that is gone or lies on another machine, and columns
whose values were changed. Cost: one pass over both tables per such look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import AssayError
from assay.experiment.test_set.digests import Digests, names_of
from assay.experiment.test_set.vault import Vault

if TYPE_CHECKING:
    from assay.experiment.storage.ledger import Entry, Ledger, Transaction

__all__ = ["HALF", "relatives"]

Array = np.ndarray
HALF = 0.5
"""Share of a look's columns that must be in common."""
TWINS = 0.05
"""Share of a look's rows that may have a twin on the common columns."""
LEAST = 3
SURE = 10


def relatives(ledger: Ledger | Transaction, rows: Digests) -> Iterator[tuple[Entry, Array]]:
    """Looks some of whose columns `rows` lacks, but which saw some of the same rows: the entry, and which rows."""
    names = set(names_of(rows.frame))
    looks = [entry for entry in ledger.entries(kind="look") if not names.issuperset(entry.body["columns"])]
    vaults: dict[str, Any] = {}
    if looks:
        vaults = {str(entry.study): entry.body.get("vault") for entry in ledger.entries(kind="study")}
    for entry in looks:
        common = [name for name in entry.body["columns"] if name in names]
        sha = vaults.get(str(entry.study))
        if len(common) < max(2, HALF * len(entry.body["columns"])) or sha is None:
            continue
        try:
            seen = Digests(Vault(str(entry.study)).read(sha)).on(common)
        except AssayError:  # no vault here: the rows cannot be compared
            continue
        shared = _shared(rows.on(common), seen)
        if shared is not None:
            yield entry, shared


def _shared(mine: Array, seen: Array) -> Array | None:
    """Which of my rows were seen; None where that may be chance."""
    values, counts = np.unique(seen, return_counts=True)
    twins = 1.0 - np.count_nonzero(counts == 1) / max(1, seen.size)
    if twins > TWINS:
        return None
    shared = np.isin(mine, values[counts == 1])
    return shared if np.count_nonzero(shared) > max(LEAST, SURE * twins * mine.size) else None
