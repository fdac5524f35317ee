"""Looks: every opening of a test set is counted by the rows it saw, and written down before its score exists.

K looks planned before the first share the error rate equally,

    level of each = 1 - (1 - level) / K        (Bonferroni: all K intervals hold together with probability >= level),

which is valid for models fixed before the first opening: what was learned at one look must not shape the next. A look
with the same predictions for the same rows as an earlier one is a replay: it tells nothing new and costs nothing; it is
written down once per study, and a study that shows its own look again writes nothing. One
beyond the plan needs a reason, is answered through the Ladder (`releases.py`), and its interval carries no level.

Rows are recognised by their content on the columns of the earlier seal, so that neither a new directory, seed, file
name, row order nor an added column hides a look; a shared row is enough for it to count. Where values or columns were
changed, rows go by what they were called before the change (`related_rows.py`).

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
from assay.experiment.test_set.digests import Digests, canonical
from assay.experiment.test_set.related_rows import KnownRows, relatives
from assay.experiment.test_set.seal import Seal
from assay.experiment.test_set.used_rows import used_rows, used_up
from assay.results import Result

__all__ = [
    "EarlierLook",
    "Look",
    "looks_at",
    "opened_rows",
    "opened_rows_in",
    "other_look",
    "plan_level",
    "record_look",
]

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
    | changed  | whether values or columns were changed since                      |
    """

    entry: Entry
    shared: int
    rows: int
    replay: bool = False
    changed: bool = False

    def to_frame(self) -> pd.DataFrame:
        """One row: when, by which study, how many rows are shared."""
        row = {"created": self.entry.created, "study": self.entry.study, "shared": self.shared, "rows": self.rows}
        return pd.DataFrame([{**row, "replay": self.replay}], index=pd.Index([self.entry.seq], name="seq"))

    def __str__(self) -> str:
        study = "" if self.entry.study is None else f" by study {self.entry.study}"
        again = ", with the same predictions" if self.replay else ""
        again += ", recognised though columns or values were changed" if self.changed else ""
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
        text = f"look {self.number} of {self.planned} planned at these test rows"
        if self.replay:
            text += ", a replay (not counted)"
        if self.level is None:
            text += f", beyond the plan ({self.reason})"
        else:
            text += f", with a {100 * self.level:.6g}% interval"
        return "\n".join([text, *(f"  {note}" for note in self.notes)])


def known_rows(ledger: Ledger | Transaction, frame: Any, seal: Seal | None = None) -> KnownRows:
    """The rows of a table by every name; those of a recorded `seal` were compared when it was made."""
    rows = Digests(getattr(frame, "frame", frame))
    done = seal is not None and any(
        "recognised" in entry.body and entry.body["id"] == seal.id for entry in ledger.entries(kind="seal")
    )
    return KnownRows(ledger, rows, () if done else relatives(ledger, rows.frame))


def looks_at(
    ledger: Ledger | Transaction, frame: Any, predictions: Any = None, *, among: KnownRows | None = None
) -> list[EarlierLook]:
    """The earlier looks that saw rows of `frame`, oldest first.

    | parameter   | default | range               | meaning                                                      |
    |-------------|---------|---------------------|--------------------------------------------------------------|
    | ledger      |         | a Ledger            | where looks are recorded                                     |
    | frame       |         | a Table, a frame    | the rows asked about                                         |
    | predictions | None    | one per row         | to recognise a replay; None: nothing is called one           |
    | among       | None    | rows of `frame`     | spares recognising them again                                |

    >>> import tempfile
    >>> looks_at(Ledger(tempfile.mkdtemp() + "/ledger.db"), pd.DataFrame({"x": [1, 2]}))
    []
    """
    rows = known_rows(ledger, frame) if among is None else among
    found = []
    for entry in ledger.entries(kind="look"):
        columns, n = entry.body["columns"], len(rows.rows)
        names, (exact, _) = rows.on(columns), rows.split(columns)
        if not names:
            continue
        seen = np.frombuffer(ledger.blob(entry), dtype="<u8")
        hits = [np.isin(digests, seen) for digests in names]
        shared = int(np.count_nonzero(np.any(hits, axis=0)))
        if shared:
            same = predictions is not None and n == entry.body["n"]
            same = same and any(_same(entry, one, predictions) for one in names)
            changed = exact is None or shared > int(np.count_nonzero(hits[0]))
            found.append(EarlierLook(entry, shared, n, same, changed))
    return found


def _same(entry: Entry, digests: Array, predictions: Any) -> bool:
    """Whether a look saw these rows with these predictions, but for rounding of their last digits."""
    if predictions_digest(digests, predictions) == entry.body["predictions"]:
        return True
    return not set(near_digests(digests, predictions)).isdisjoint(entry.body.get("near", ()))


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
    >>> seal, train, test = make_seal(frame, "y", "regression", share=0.5)
    >>> print(record_look(ledger, seal, frame.iloc[test], [0, 0, 0, 0]))
    look 1 of 1 planned at these test rows, with a 95% interval
    >>> record_look(ledger, seal, frame.iloc[test], [0, 0, 0, 0]).replay
    True
    """
    level, looks = fraction(level, "level"), whole(looks, "looks")
    rows = known_rows(ledger, test, seal)
    digests = rows.rows.on(seal.columns)
    if not digests.size:
        raise SealError("there are no test rows to look at", remedy="use a table with more rows")
    digest = predictions_digest(digests, predictions)
    known = _known(ledger, rows, test, predictions, study)
    if known is not None:
        return known
    used, studies = used_rows(ledger, rows)
    if used.any():
        raise used_up(int(used.sum()), studies, "of these test rows")
    with ledger.transaction() as writer:
        earlier = tuple(looks_at(writer, test, predictions, among=rows))
        for look in earlier:
            if look.replay:
                writer.append("replay", {"look": look.entry.seq}, study)
                return _told(look.entry, True, earlier)
        body = _plan(earlier, looks, level, reason)
        if despite:
            body["despite"] = list(despite)
            body["notes"] += [f"opened despite a serious check: {title} ({code})" for code, title in despite.items()]
        body |= {"seal": seal.id, "columns": list(seal.columns), "n": len(digests), "predictions": digest}
        body["near"] = near_digests(digests, predictions)
        blob = np.unique(digests).astype("<u8").tobytes()
        return _told(writer.append("look", body, study, blob), False, earlier)


def _known(ledger: Ledger, rows: KnownRows, test: Any, predictions: Any, study: str | None) -> Look | None:
    """A look of this very study with these predictions: to read it again is no look, and nothing is written."""
    if study is None or not any(ledger.entries(kind, study) for kind in ("look", "replay")):
        return None
    earlier = tuple(looks_at(ledger, test, predictions, among=rows))
    return next((_told(look.entry, True, earlier) for look in earlier if look.replay), None)


def other_look(ledger: Ledger, seal: Seal, test: Any, predictions: Any, study: str) -> Look | None:
    """The look that a study took with other predictions than these; None if it took none, or took it with these.

    | parameter   | range               | meaning                                     |
    |-------------|---------------------|---------------------------------------------|
    | ledger      | a Ledger            | where looks are recorded                    |
    | seal        | a Seal              | the seal of the test rows                   |
    | test        | a Table, a frame    | the test rows                               |
    | predictions | one per row         | what would be scored now                    |
    | study       | text                | the study that looked                       |
    """
    again = {entry.body["look"] for entry in ledger.entries("replay", study)}
    own = [entry for entry in ledger.entries(kind="look") if entry.study == study or entry.seq in again]
    if not own or _known(ledger, known_rows(ledger, test, seal), test, predictions, study) is not None:
        return None
    return _told(own[-1], True, ())


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
        partial = [look for look in earlier if look.shared < look.rows or look.changed]
        notes += [f"the {look}" for look in partial]
    if count <= planned:
        if planned > 1:
            notes.append("the intervals are valid for models that were fixed before the first look")
        own: float | None = plan_level(family, planned)
    else:
        if not (reason and reason.strip()):
            plan = f"{planned} {'was' if planned == 1 else 'were'} planned ({earlier[-1]})"
            remedy = "give a reason, or score new rows"
            message = f"this would be look {count} at these test rows, and {plan}"
            raise SealError(message, remedy=remedy, option=("reason", "the reason"))
        own = None
        notes.append(
            "this look was not planned: its score is reported in steps, only if it is the best so far, without interval"
        )
    return {"number": count, "planned": planned, "level": own, "family": family, "reason": reason, "notes": notes}


def _told(entry: Entry, replay: bool, earlier: tuple[EarlierLook, ...]) -> Look:
    body = entry.body
    # A replay has the notes of its first time, and the reader should know how its rows were recognised.
    recognised = [f"the {look}" for look in earlier if look.entry.seq == entry.seq and look.replay and look.changed]
    return Look(
        entry=entry,
        number=body["number"],
        planned=body["planned"],
        level=body["level"],
        family=body["family"],
        replay=replay,
        reason=body["reason"],
        earlier=earlier,
        notes=(*body["notes"], *recognised),
    )


def opened_rows(ledger: Ledger | Transaction, frame: Any, seal: Seal | None = None) -> Array:
    """Which rows of `frame` were test rows at an earlier look, true or false for each.

    Rows of a recorded `seal` were compared with those of earlier studies when it was made; others are compared now.

    >>> import tempfile
    >>> opened_rows(Ledger(tempfile.mkdtemp() + "/ledger.db"), pd.DataFrame({"x": [1, 2]}))
    array([False, False])
    """
    rows = known_rows(ledger, frame, seal)
    opened = np.zeros(len(rows.rows), dtype=bool)
    for entry in ledger.entries(kind="look"):
        opened |= rows.seen(entry.body["columns"], np.frombuffer(ledger.blob(entry), dtype="<u8"))
    return opened


def opened_rows_in(ledger: Ledger | Transaction, frame: Any, seal: Seal | None = None) -> int:
    """How many rows of `frame` were test rows of a seal that has been opened: training on them is no secret any more.

    >>> import tempfile
    >>> opened_rows_in(Ledger(tempfile.mkdtemp() + "/ledger.db"), pd.DataFrame({"x": [1, 2]}))
    0
    """
    return int(np.count_nonzero(opened_rows(ledger, frame, seal)))


def predictions_digest(digests: Array, predictions: Any) -> str:
    """SHA-256 of predictions and the rows they are for, whatever the order of the rows.

    >>> rows = np.array([7, 5], dtype=np.uint64)
    >>> predictions_digest(rows, [0.1, 0.2]) == predictions_digest(rows[::-1], [0.2, 0.1])
    True
    """
    columns = pd.DataFrame(predictions)
    if len(columns) != len(digests):
        message = f"expected {len(digests)} predictions, one per test row, got {len(columns)}"
        raise DataError(message, remedy="pass one prediction per row")
    cells = [canonical(columns.iloc[:, j], "predictions") for j in range(columns.shape[1])]
    parts = [digests, *(part for bits, tags in cells for part in (bits, tags.astype(np.uint64)))]
    table = np.column_stack([part.astype("<u8") for part in parts])
    # By row digest first, then by everything else: twins may stand in either order.
    ordered = table[np.lexsort(table.T[::-1])]
    return hashlib.sha256(np.ascontiguousarray(ordered).tobytes()).hexdigest()


def near_digests(digests: Array, predictions: Any) -> list[str]:
    """Digests of predictions on two grids of about 1e-7: columns in another order move the last digits only.

    >>> rows = np.array([7, 5], dtype=np.uint64)
    >>> near_digests(rows, [0.1, 0.3]) == near_digests(rows, [0.1, 0.1 + 0.1 + 0.1])
    True
    """
    columns = pd.DataFrame(predictions)
    numbers = [at for at, kind in enumerate(columns.dtypes) if kind.kind == "f"]
    values = columns.iloc[:, numbers].to_numpy(dtype=float)
    finite = np.abs(values[np.isfinite(values)])
    if not finite.size:
        return []
    grid = 2.0 ** (np.frexp(1.37 * finite.max())[1] - 24)
    rest = columns.drop(columns=columns.columns[numbers]).to_numpy(dtype=object)
    near = (np.column_stack([rest, to(values / grid).astype(object)]) for to in (np.rint, np.floor))
    return [predictions_digest(digests, one) for one in near]
