"""What follows when rows are recognised: each stays on the side of the seal it had, and a sentence says so.

Of several earlier studies the latest decides. Rows nobody has seen are parted as ever, with two exceptions: a group
with a recognised row goes with it as a whole (to the test rows if any of its rows was one), and by time the cut is at
the latest recognised training row. Cost: a few passes over arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from assay.experiment.test_set.digests import Digests, names_of
from assay.experiment.test_set.related_rows import Relative, pairs_of

if TYPE_CHECKING:
    from assay.experiment.storage.ledger import Entry, Ledger, Transaction

__all__ = ["alike", "changed", "old_sides", "sentences", "whole_groups"]

Array = np.ndarray
SLIPS = 0.05
"""Share of rows that may be recognised by mistake."""
TWINS = 0.5
"""Share of rows with an equal one from which a table is said to be unrecognisable."""


def changed(found: Sequence[Relative], content: Digests) -> list[Relative]:
    """Those with rows that are not settled: by exact content, theirs or that of a study which has recognised them."""
    names = set(names_of(content.frame))
    exact = {
        one.study: one.rows & (content.on(one.entry.body["columns"]) == one.digests)
        for one in found
        if names.issuperset(one.entry.body["columns"])
    }
    news = []
    for one in found:
        settled = np.zeros_like(one.rows)
        for other in found:
            heirs = [old["study"] for old in other.entry.body.get("recognised", ())]
            if other.study in exact and (other is one or one.study in heirs):
                settled |= exact[other.study]
        if np.count_nonzero(one.rows & ~settled) > SLIPS * np.count_nonzero(one.rows):
            news.append(one)
    return news


def old_sides(found: Sequence[Relative]) -> tuple[Array, Array]:
    """Which rows are recognised, and which of these were test rows: as the latest study has it."""
    rows, test = np.zeros_like(found[0].rows), np.zeros_like(found[0].test)
    for one in found:  # the oldest first, so that later ones have the last word
        rows, test = rows | one.rows, np.where(one.rows, one.test, test)
    return rows, test


def whole_groups(groups: Array, rows: Array, test: Array, chosen: Array) -> Array:
    """The test rows, with each group that has a recognised row on one side."""
    codes, _ = pd.factorize(groups)
    seen, tested = (np.bincount(codes, weights=mask) > 0 for mask in (rows, rows & test))
    return np.asarray(np.where(seen[codes], tested[codes], chosen))


def sentences(ledger: Ledger | Transaction, entry: Entry) -> list[str]:
    """What a seal's entry says was recognised, what became of it, and how often it was looked at: a sentence each."""
    pairs = pairs_of(entry, np.frombuffer(ledger.blob(entry), dtype="<u8")) if entry.body.get("recognised") else []
    looks = ledger.entries(kind="look") if pairs else []
    made = []
    if entry.body.get("scored"):
        text = f"{entry.body['scored']:,} of the {entry.body['n_test']:,} test rows were training rows before, under "
        made.append(text + "an earlier seal of these rows, so figures of those folds may have been seen")
    for one, (columns, _, then) in zip(reversed(entry.body.get("recognised", ())), pairs, strict=True):
        seen = [
            np.frombuffer(ledger.blob(look), dtype="<u8") for look in looks if look.body["columns"] == list(columns)
        ]
        count = sum(bool(np.isin(then, rows).any()) for rows in seen)
        text = f"{one['rows']:,} of {entry.body['n']:,} rows are those of study {one['study']}, though columns or "
        text += "values were changed"
        if one["test"]:
            text += f"; {one['test']:,} of them were test rows there"
            text += ", and stay test rows" if entry.body["reason"] is None else ", and are split anew"
        again = f"; the same predictions for them are a replay, any others are look {count + 1}"
        made.append(text + (again if count else ""))
    return made[::-1]


def alike(digests: Array) -> list[str]:
    """The sentence about a table whose rows cannot be told apart; none if they can."""
    values, counts = np.unique(digests, return_counts=True)
    if counts[counts > 1].sum() <= TWINS * digests.size:
        return []
    text = f"only {values.size:,} of {digests.size:,} rows differ from each other"
    return [f"{text}: if they come back with other values or columns, they cannot be recognised"]
