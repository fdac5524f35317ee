"""How many studies some rows and a target have had: the guard of figures for which no look is counted.

A study is known by its seal, whose rows are compared on its own columns, and by those that its seal recognised though
values or columns were changed. Cost: one pass over the rows per distinct set of sealed columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.experiment.test_set.seal import known_seals

if TYPE_CHECKING:
    from assay.experiment.storage.ledger import Ledger

__all__ = ["studies_of"]


def studies_of(ledger: Ledger, frame: Any, target: str) -> tuple[str, ...]:
    """The studies of these rows that predicted this target, oldest first; a rerun of one is the same study.

    One that was refused before a fold was scored has shown nothing and does not count.

    | parameter | range            | meaning                        |
    |-----------|------------------|--------------------------------|
    | ledger    | a Ledger         | where studies are recorded     |
    | frame     | a Table, a frame | all rows of a study            |
    | target    | a column         | what was predicted             |
    """
    seals = [entry for _, entry, _ in known_seals(ledger, frame)]
    ids = {entry.body["id"] for entry in seals}
    names = {one["study"] for entry in seals for one in entry.body.get("recognised", ())}
    scored = {entry.study for kind in ("folds", "result") for entry in ledger.entries(kind=kind)}
    found = [
        str(entry.study)
        for entry in ledger.entries(kind="study")
        if entry.study in scored
        and entry.body["plan"]["target"] == target
        and (entry.body["seal"] in ids or entry.study in names)
    ]
    return tuple(dict.fromkeys(found))
