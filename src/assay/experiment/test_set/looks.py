"""Looks: every opening of a test set is counted by the rows it saw, and written down before its score exists.

K looks planned before the first share the error rate equally,

    level of each = 1 - (1 - level) / K        (Bonferroni: all K intervals hold together with probability >= level),

which is valid for models fixed before the first opening: what was learned at one look must not shape the next. A look
with the same predictions for the same rows as an earlier one is a replay: it tells nothing new and costs nothing; it is
written down once per study, and a study that shows its own look again writes nothing. One
beyond the plan needs a reason, is answered through the Ladder (`releases.py`), and its interval carries no level.

Rows are recognised by their content on the columns of the earlier seal, so that neither a new directory, seed, file
name, row order nor an added column hides a look; a shared row is enough for it to count. Where columns were dropped or
renamed, rows are recognised by the columns in common, as far as that is sure (`_relatives.py`).

Cost: one pass over the rows per distinct set of sealed columns in the ledger.
Bonferroni: Dunn (1961), JASA 56, 52-64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import fraction, whole
from assay.errors import DataError, SealError
from assay.experiment.storage.ledger import Entry, Ledger, Transaction
from assay.experiment.test_set.digests import Digests, canonical, names_of
from assay.experiment.test_set.related_rows import relatives
from assay.experiment.test_set.seal import Seal
from assay.results import Result

__all__ = ["EarlierLook", "Look", "looks_at", "opened_rows", "opened_rows_in", "plan_level", "record_look"]

Array = np.ndarray


def plan_level(level: float, looks: int) -> float:
    """The confidence level of each of several planned looks, so that all hold together at `level`.

    | parameter | default | range      | meaning                               |
    |-----------|---------|------------|---------------------------------------|
    | level     |         | in (0, 1)  | probability that all intervals hold   |
    | looks     |         | at least 1 | how many are planned                  |

    >>> plan_level(0.95, 5)
    0.99
    """
    return 1.0 - (1.0 - fraction(level, "level")) / whole(looks, "looks")


@dataclass(frozen=True, eq=False, repr=False)
class EarlierLook(Result):
    """An earlier look that saw some of the same rows.

    | field    | meaning                                                           |
    |----------|-------------------------------------------------------------------|
    | entry    | its entry in the ledger                                           |
    | shared   | how many of the rows asked about it saw                           |
    | rows     | how many rows were asked about                                    |
    | replay   | whether it saw exactly these rows with exactly these predictions  |
    | columns_differ | whether it was recognised by the columns in common          |
    """

    entry: Entry
    shared: int
    rows: int
    replay: bool = False
    columns_differ: bool = False

    def to_frame(self) -> pd.DataFrame:
        """One row: when, by which study, how many rows are shared."""
        row = {"created": self.entry.created, "study": self.entry.study, "shared": self.shared, "rows": self.rows}
        return pd.DataFrame([{**row, "replay": self.replay}], index=pd.Index([self.entry.seq], name="seq"))

    def __str__(self) -> str:
        study = "" if self.entry.study is None else f" by study {self.entry.study}"
        again = ", with the same predictions" if self.replay else ""
        again += ", recognised by the columns in common" if self.columns_differ else ""
        return f"look of {self.entry.created[:10]}{study} saw {self.shared} of these {self.rows} rows{again}"


@dataclass(frozen=True, eq=False, repr=False)
class Look(Result):
    """A recorded look at test rows: what its interval may claim, and why.

    | field   | meaning                                                                                   |
    |---------|-------------------------------------------------------------------------------------------|
    | entry   | its entry in the ledger, written before any score (that of the first time for a replay)    |
    | number  | which look at these rows it is, from 1                                                     |
    | planned | how many were planned at the first                                                         |
    | level   | the confidence level of this look's interval; None beyond the plan                         |
    | family  | the level at which all planned looks hold together                                         |
    | replay  | the same rows with the same predictions were seen before                                   |
    | reason  | why a look beyond the plan was needed                                                      |
    | earlier | the earlier looks that share rows                                                          |
    | notes   | what the reader should know, a sentence each                                               |
    """

    entry: Entry
    number: int
    planned: int
    level: float | None
    family: float
    replay: bool
    reason: str | None
    earlier: tuple[EarlierLook, ...]
    notes: tuple[str, ...]

    @property
    def beyond(self) -> bool:
        """Whether the plan is used up, so that the answer comes through the Ladder."""
        return self.level is None

    def to_frame(self) -> pd.DataFrame:
        """One row: number, planned, level, replay, reason."""
        row = {name: getattr(self, name) for name in ("number", "planned", "level", "replay", "reason")}
        return pd.DataFrame([row], index=pd.Index([self.entry.seq], name="seq"))

    def __str__(self) -> str:
        said = f"look {self.number} of {self.planned} planned at these test rows"
        if self.replay:
            said += ", a replay (not counted)"
        if self.level is None:
            said += f", beyond the plan ({self.reason})"
        else:
            said += f", with a {100 * self.level:.6g}% interval"
        return "\n".join([said, *(f"  {note}" for note in self.notes)])


def looks_at(
    ledger: Ledger | Transaction, frame: Any, predictions: Any = None, *, among: Digests | None = None
) -> list[EarlierLook]:
    """The earlier looks that saw rows of `frame`, oldest first.

    | parameter   | default | range               | meaning                                                      |
    |-------------|---------|---------------------|--------------------------------------------------------------|
    | ledger      |         | a Ledger            | where looks are recorded                                     |
    | frame       |         | a Table, a frame    | the rows asked about                                         |
    | predictions | None    | one per row         | to recognise a replay; None: nothing is called one           |
    | among       | None    | digests of `frame`  | spares working them out again                                |

    >>> import tempfile
    >>> looks_at(Ledger(tempfile.mkdtemp() + "/ledger.db"), pd.DataFrame({"x": [1, 2]}))
    []
    """
    rows = Digests(getattr(frame, "frame", frame)) if among is None else among
    found = []
    for entry, columns, seen in _looks(ledger, rows):
        digests = rows.on(columns)
        shared = int(np.count_nonzero(np.isin(digests, seen)))
        if shared:
            same = predictions is not None and len(digests) == entry.body["n"]
            same = same and predictions_digest(digests, predictions) == entry.body["predictions"]
            found.append(EarlierLook(entry, shared, len(digests), same))
    for entry, seen_too in relatives(ledger, rows):
        found.append(EarlierLook(entry, int(seen_too.sum()), seen_too.size, columns_differ=True))
    return sorted(found, key=lambda look: look.entry.seq)


def _looks(ledger: Ledger | Transaction, rows: Digests) -> list[tuple[Entry, list[str], Array]]:
    """The recorded looks whose columns are all there: entry, columns, digests of the rows seen."""
    names = set(names_of(rows.frame))
    entries = [entry for entry in ledger.entries(kind="look") if names.issuperset(entry.body["columns"])]
    return [(entry, entry.body["columns"], np.frombuffer(ledger.blob(entry), dtype="<u8")) for entry in entries]


def record_look(
    ledger: Ledger,
    seal: Seal,
    test: Any,
    predictions: Any,
    *,
    study: str | None = None,
    looks: int = 1,
    level: float = 0.95,
    reason: str | None = None,
    despite: Mapping[str, str] | None = None,
) -> Look:
    """Write down that these predictions are about to be scored; only after this returns may a score be computed.

    | parameter   | default | range                    | meaning                                                    |
    |-------------|---------|--------------------------|------------------------------------------------------------|
    | ledger      |         | a Ledger                 | where it is recorded                                       |
    | seal        |         | a Seal                   | the seal that is opened                                    |
    | test        |         | a Table, a frame         | the test rows                                              |
    | predictions |         | n values, or an n x k array | what will be scored, in the order of the rows           |
    | study       | None    | text                     | the study that looks                                       |
    | looks       | 1       | at least 1               | how many looks are planned; the first look fixes it        |
    | level       | 0.95    | in (0, 1)                | the level all planned looks share; the first look fixes it |
    | reason      | None    | text                     | needed for a look beyond the plan                          |
    | despite     | None    | code -> title            | serious checks that the look was taken in spite of         |

    >>> import tempfile
    >>> from assay.experiment.test_set.seal import make_seal
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
    >>> frame = pd.DataFrame({"x": range(8), "y": range(8)})
    >>> seal, train, test = make_seal(frame, "y", "regression")
    >>> print(record_look(ledger, seal, frame.iloc[test], [0, 0, 0, 0]))
    look 1 of 1 planned at these test rows, with a 95% interval
    >>> record_look(ledger, seal, frame.iloc[test], [0, 0, 0, 0]).replay
    True
    """
    level, looks = fraction(level, "level"), whole(looks, "looks")
    rows = Digests(getattr(test, "frame", test))
    digests = rows.on(seal.columns)
    if not digests.size:
        raise SealError("there are no test rows to look at", remedy="use a table with more rows")
    told = predictions_digest(digests, predictions)
    known = _known(ledger, rows, predictions, study)
    if known is not None:
        return known
    with ledger.transaction() as writer:
        earlier = tuple(looks_at(writer, rows.frame, predictions, among=rows))
        for look in earlier:
            if look.replay:
                writer.append("replay", {"look": look.entry.seq}, study)
                return _told(look.entry, True, earlier)
        body = _plan(earlier, looks, level, reason)
        if despite:
            body["despite"] = list(despite)
            body["notes"] += [f"opened despite a serious check: {title} ({code})" for code, title in despite.items()]
        body |= {"seal": seal.id, "columns": list(seal.columns), "n": len(digests), "predictions": told}
        blob = np.unique(digests).astype("<u8").tobytes()
        return _told(writer.append("look", body, study, blob), False, earlier)


def _known(ledger: Ledger, rows: Digests, predictions: Any, study: str | None) -> Look | None:
    """A look of this very study with these predictions: to read it again is no look, and nothing is written."""
    if study is None or not any(ledger.entries(kind, study) for kind in ("look", "replay")):
        return None
    earlier = tuple(looks_at(ledger, rows.frame, predictions, among=rows))
    return next((_told(look.entry, True, earlier) for look in earlier if look.replay), None)


def _plan(earlier: Sequence[EarlierLook], looks: int, level: float, reason: str | None) -> dict[str, Any]:
    """The number, plan and level of the next look, given those before it."""
    count = 1 + len(earlier)
    notes = []
    planned, family = looks, level
    if earlier:
        first = earlier[0].entry.body
        planned, family = first["planned"], first["family"]
        if (planned, family) != (looks, level):
            asked = f"{looks} at {100 * level:g}%"
            notes.append(f"the first look planned {planned} at {100 * family:g}%, which holds; {asked} came after it")
        partial = [look for look in earlier if look.shared < look.rows]
        notes += [f"the {look}" for look in partial]
    if count <= planned:
        if planned > 1:
            notes.append("the intervals are valid for models that were fixed before the first look")
        own: float | None = plan_level(family, planned)
    else:
        if not (reason and reason.strip()):
            plan = f"{planned} {'was' if planned == 1 else 'were'} planned ({earlier[-1]})"
            remedy = "give a reason, or score new rows"
            what = f"this would be look {count} at these test rows, and {plan}"
            raise SealError(what, remedy=remedy, option=("reason", "the reason"))
        own = None
        notes.append(
            "this look was not planned: its score is reported in steps, only if it is the best so far, without interval"
        )
    return {"number": count, "planned": planned, "level": own, "family": family, "reason": reason, "notes": notes}


def _told(entry: Entry, replay: bool, earlier: tuple[EarlierLook, ...]) -> Look:
    body = entry.body
    return Look(
        entry=entry,
        number=body["number"],
        planned=body["planned"],
        level=body["level"],
        family=body["family"],
        replay=replay,
        reason=body["reason"],
        earlier=earlier,
        notes=tuple(body["notes"]),
    )


def opened_rows(ledger: Ledger | Transaction, frame: Any) -> Array:
    """Which rows of `frame` were test rows at an earlier look, true or false for each.

    >>> import tempfile
    >>> opened_rows(Ledger(tempfile.mkdtemp() + "/ledger.db"), pd.DataFrame({"x": [1, 2]}))
    array([False, False])
    """
    rows = Digests(getattr(frame, "frame", frame))
    opened = np.zeros(len(rows.frame), dtype=bool)
    for _, columns, seen in _looks(ledger, rows):
        opened |= np.isin(rows.on(columns), seen)
    for _, seen_too in relatives(ledger, rows):
        opened |= seen_too
    return opened


def opened_rows_in(ledger: Ledger | Transaction, frame: Any) -> int:
    """How many rows of `frame` were test rows of a seal that has been opened: training on them is no secret any more.

    >>> import tempfile
    >>> opened_rows_in(Ledger(tempfile.mkdtemp() + "/ledger.db"), pd.DataFrame({"x": [1, 2]}))
    0
    """
    return int(np.count_nonzero(opened_rows(ledger, frame)))


def predictions_digest(digests: Array, predictions: Any) -> str:
    """SHA-256 of predictions and the rows they are for, whatever the order of the rows.

    >>> rows = np.array([7, 5], dtype=np.uint64)
    >>> predictions_digest(rows, [0.1, 0.2]) == predictions_digest(rows[::-1], [0.2, 0.1])
    True
    """
    columns = pd.DataFrame(predictions)
    if len(columns) != len(digests):
        what = f"expected {len(digests)} predictions, one per test row, got {len(columns)}"
        raise DataError(what, remedy="pass one prediction per row")
    cells = [canonical(columns.iloc[:, j], "predictions") for j in range(columns.shape[1])]
    parts = [digests, *(part for bits, tags in cells for part in (bits, tags.astype(np.uint64)))]
    table = np.column_stack([part.astype("<u8") for part in parts])
    # By row digest first, then by everything else: twins may stand in either order.
    ordered = table[np.lexsort(table.T[::-1])]
    return hashlib.sha256(np.ascontiguousarray(ordered).tobytes()).hexdigest()
