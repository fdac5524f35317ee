"""The seal: which rows are test rows is decided by their content, once, and stays so.

A row's number u in [0, 1) is a keyed hash of its content (or of its group), and

    row is a test row  <=>  u < t_s,    s its stratum: its class in classification, one for all in regression.

t_s is the value that puts the wanted share of the stratum's rows below it, as nearly as twins (equal rows) allow;
of all such values the one nearest to the share itself, so that rows appended later are split in about that share. A
stratum never seen uses the share. The hash knows nothing of seeds, machines, file formats or the order of rows: a rerun
shares the seal, appended rows change no old row's side, and twins stay together. By time, the rows after a cut are
test rows; given a test file, its rows are. Where there is no test set (`by` is "none") the seal lists all rows.

Cost: `_digests`, and a sort of the numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import choice, fraction, freeze
from assay.errors import SealError
from assay.experiment.storage.canonical_json import encode
from assay.experiment.storage.ledger import Entry, Ledger, Transaction
from assay.experiment.test_set.changing import is_opened, is_scored, prefer_unscored
from assay.experiment.test_set.cut import apportion, cut, threshold, times
from assay.experiment.test_set.digests import (
    Digests,
    column_of,
    labels,
    names_of,
    row_digests,
    uniform,
)
from assay.experiment.test_set.following import alike, changed, old_sides, sentences, whole_groups
from assay.experiment.test_set.related_rows import KnownRows, Relative, relatives
from assay.experiment.test_set.size import LEAST, USUAL, Precision, Size, choose_size
from assay.experiment.test_set.used_rows import used_rows, used_up
from assay.results import Result

__all__ = ["NONE", "Seal", "Sealed", "known_seals", "make_seal", "row_digests", "seal_rows", "side"]

Array = np.ndarray
ARRAYS = frozenset({"digests", "kept"})
ALL, NONE = "*", "none"
"""The name of the one stratum where there is only one; how a table without a test set is sealed."""
ANOTHER_WAY = "ask for the same kind and share again, or pass reseal with the reason for a new seal"


@dataclass(frozen=True, eq=False, repr=False)
class Seal(Result):
    """How a table's rows are parted, so that anybody can part them again.

    | field      | meaning                                                                            |
    |------------|------------------------------------------------------------------------------------|
    | id         | sixteen hexadecimal digits made of everything below                                 |
    | by         | "content", "group", "time" or "file": what decides; "none": no test set              |
    | columns    | the columns whose content makes a row what it is                                    |
    | stratum    | the column of the classes, each with a threshold of its own; None: one stratum       |
    | key        | the column of groups or times; None for content and file                             |
    | salt       | "" for the first seal of these rows, a counter for later ones                        |
    | share      | the wanted share of test rows                                                       |
    | thresholds | by stratum: hash numbers below it are test rows                                      |
    | cut        | by time: later rows are test rows (a number, or nanoseconds since 1970)              |
    | n, n_test  | rows at sealing, and how many of them are test rows                                  |
    | rows       | SHA-256 of the test rows' sorted digests; of all rows' without a test set            |
    | digests    | those digests (without the salt, so that seals of the same rows can be compared)     |
    | follows    | the seal that decided the side of rows which were recognised after changes; None: none |
    | kept       | digests of the training rows among them; without a test set, of all rows            |
    """

    id: str
    by: str
    columns: tuple[str, ...]
    stratum: str | None
    key: str | None
    salt: str
    share: float
    thresholds: Mapping[str, float]
    cut: float | int | None
    n: int
    n_test: int
    rows: str
    digests: Array = field(repr=False)
    follows: str | None = None
    kept: Array = field(repr=False, default_factory=lambda: np.empty(0, dtype=np.uint64))

    def state(self) -> dict[str, Any]:
        """Everything but the digests, in JSON types."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ARRAYS}
        if self.follows is None:
            del values["follows"]
        return {**values, "columns": list(self.columns), "thresholds": dict(self.thresholds)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], digests: Array, kept: Array | None = None) -> Seal:
        """The seal that `state` and the digests describe."""
        known = {item.name for item in fields(cls)} - ARRAYS
        values = {name: value for name, value in state.items() if name in known}
        arrays = {"digests": digests, "kept": () if kept is None else kept}
        made = {name: freeze(np.array(array, np.uint64)) for name, array in arrays.items()}
        return cls(**{**values, "columns": tuple(values["columns"]), **made})

    @classmethod
    def from_ledger(cls, ledger: Ledger | Transaction, entry: Entry) -> Seal:
        """The seal of an entry."""
        blob = np.frombuffer(ledger.blob(entry), dtype="<u8")
        end = blob.size - 2 * sum(one["test"] for one in entry.body.get("recognised", ()))
        start = end - entry.body.get("n_kept", 0)
        return cls.from_state(entry.body, blob[:start], blob[start:end])

    def to_frame(self) -> pd.DataFrame:
        """One row: what decides, the share, and how many rows are test rows."""
        names = ("by", "share", "n", "n_test", "salt", "rows")
        return pd.DataFrame([{name: getattr(self, name) for name in names}], index=pd.Index([self.id], name="seal"))

    def __str__(self) -> str:
        if self.by == NONE:
            return f"seal {self.id}: no test set, all {self.n:,} rows are training rows"
        how = {
            "content": "by a hash of each row's content",
            "group": f"by a hash of {self.key!r}, groups whole",
            "time": f"by time, the latest rows by {self.key!r}",
            "file": "by a test file",
        }[self.by]
        if self.stratum is not None and self.by == "content":
            how += f", in the same share of each class of {self.stratum!r}"
        again = f"; seal {self.salt} after the first" if self.salt else ""
        return f"seal {self.id}: {self.n_test:,} of {self.n:,} rows sealed {how}{again}"


def make_seal(
    table: Any,
    target: str,
    task: str,
    *,
    share: float | str = "auto",
    precision: Precision = USUAL,
    group: str | None = None,
    time: str | None = None,
    test: Any = None,
    salt: str = "",
    columns: Sequence[str] | None = None,
) -> tuple[Seal, Array, Array]:
    """A seal for the rows of a table, its training rows and its test rows.

    | parameter | default | range                          | meaning                                                   |
    |-----------|---------|--------------------------------|-----------------------------------------------------------|
    | table     |         | a Table or a data frame        | the rows                                                  |
    | target    |         | a column                       | what is to be predicted                                   |
    | task      |         | "classification", "regression" | classes become strata                                     |
    | share     | "auto"  | "auto", "none", (0, 1)         | test rows; "auto": enough for `precision` (`size`)        |
    | precision | 5 points, 10% | a Precision              | what "auto" aims at                                       |
    | group     | None    | a column                       | rows of one group stay together; with time, only counted  |
    | time      | None    | a column of numbers or dates   | the latest rows are test rows, equal times together       |
    | test      | None    | a Table or a data frame        | test rows made by someone else; not trained on if in both |
    | salt      | ""      | text                           | another salt, another split                               |
    | columns   | None    | columns                        | what makes a row what it is; None: all but id columns     |

    Test rows are positions in `table`; with `test` given, positions in that.

    >>> frame = pd.DataFrame({"x": range(10), "y": list("aaaaaabbbb")})
    >>> seal, train, test = make_seal(frame, "y", "classification", share=0.5)
    >>> len(train), frame["y"][test].value_counts().to_dict(), bool((side(seal, frame)[test]).all())
    (5, {'a': 3, 'b': 2}, True)
    """
    choice(task, "task", ("classification", "regression"))
    by, key = _way(group, time, test, share)
    content, given = Digests(_frame(table)), None if test is None else Digests(_frame(test))
    named = _content(table, content.frame, given) if columns is None else [str(name) for name in columns]
    size = _size(content, by, group, target, task, share, precision)
    return _make(content, given, by, key, named, target, task, size, salt)


def side(seal: Seal, frame: Any) -> Array:
    """Which rows of `frame` are test rows under `seal`, true or false for each.

    The columns that decide must be there; other columns may have been added and rows appended.

    >>> frame = pd.DataFrame({"x": range(8), "y": range(8)})
    >>> seal, train, test = make_seal(frame, "y", "regression", share=0.5)
    >>> longer = pd.concat([frame, frame + 8])
    >>> bool((side(seal, longer)[:8] == side(seal, frame)).all())
    True
    """
    return _side(seal, Digests(_frame(frame)))


@dataclass(frozen=True, eq=False, repr=False)
class Sealed(Result):
    """Rows parted under a recorded seal: it, training and test rows, whether it is an earlier one's, and notes.

    `why` says how large the test set is and why; it is empty where a share or a file was given, and where an earlier
    seal has another size than this question would get.
    """

    seal: Seal
    train: Array
    test: Array
    entry: Entry
    shared: bool
    notes: tuple[str, ...] = ()
    why: str = ""

    def to_frame(self) -> pd.DataFrame:
        """One row: the seal and the sizes of both parts."""
        return self.seal.to_frame().assign(n_train=len(self.train), n_test=len(self.test), shared=self.shared)

    def __str__(self) -> str:
        since = f" (shared since {self.entry.created[:10]})" if self.shared else ""
        text = f"{self.seal}{since}; {len(self.train):,} training and {len(self.test):,} test rows"
        return "\n".join([text, *(f"  {note}" for note in self.notes)])


def known_seals(ledger: Ledger | Transaction, frame: Any) -> list[tuple[Seal, Entry, int]]:
    """Earlier seals that share test rows with `frame`, oldest first: the seal, its entry, how many rows they share.

    Rows are compared on the earlier seal's columns, so that added columns hide nothing.

    >>> import tempfile
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
    >>> frame = pd.DataFrame({"x": range(8), "y": range(8)})
    >>> _ = seal_rows(ledger, frame, "y", "regression", share=0.5)
    >>> [shared for _, _, shared in known_seals(ledger, frame.assign(z=0).iloc[::-1])]
    [4]
    """
    return _known(ledger, Digests(_frame(frame)))


def seal_rows(
    ledger: Ledger,
    table: Any,
    target: str,
    task: str,
    *,
    share: float | str = "auto",
    precision: Precision = USUAL,
    group: str | None = None,
    time: str | None = None,
    test: Any = None,
    reason: str | None = None,
    study: str | None = None,
) -> Sealed:
    """Seal the rows of a table and record it, or share the seal these rows already have.

    Rows that are test rows of an earlier seal of the same kind stay so; asking for another kind or share, or giving a
    `reason`, makes a new seal, and that is recorded with the reason. When none is needed: `changing`.

    | parameter                   | default | range            | meaning                                  |
    |-----------------------------|---------|------------------|------------------------------------------|
    | ledger                      |         | a Ledger         | where seals are recorded                 |
    | table, target, task         |         | see `make_seal`  | the rows and what is to be predicted     |
    | share, precision, group, time, test | | see `make_seal` | how they are parted                      |
    | reason                      | None    | text             | why these rows need another seal         |
    | study                       | None    | text             | the study that asks                      |

    >>> import tempfile
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
    >>> frame = pd.DataFrame({"x": range(8), "y": range(8)})
    >>> seal_rows(ledger, frame, "y", "regression").shared
    False
    >>> seal_rows(ledger, frame.iloc[::-1], "y", "regression").shared
    True
    """
    choice(task, "task", ("classification", "regression"))
    by, key = _way(group, time, test, share)
    content, given = Digests(_frame(table)), None if test is None else Digests(_frame(test))
    named = _content(table, content.frame, given)
    digests = content.on(named)  # the long parts, before the lock is taken
    size = _size(content, by, group, target, task, share, precision)
    found = _recognised(ledger, content) if given is None else []
    with ledger.transaction() as writer:
        earlier = _known(writer, content if given is None else given)
        known = KnownRows(writer, content if given is None else given, found)
        used, studies = used_rows(writer, known, found)
        if given is not None and used.any():
            raise used_up(int(used.sum()), studies, "rows of the test file")
        shared = None
        if earlier and reason is None and not found:
            shared = _shared(earlier, content, given, by, key, share)
            if shared is not None and (given is not None or not used[shared.test].any()):
                notes = (*_unmoved(shared, size, precision), *sentences(writer, shared.entry))
                return replace(shared, notes=notes, why=_why_shared(shared, size))
        scored = np.zeros(len(content), dtype=bool) if given is not None else _scored(writer, earlier, known, found)
        if shared is not None:
            seal, train, rows = shared.seal, shared.train, shared.test
        else:
            size = _as_recognised(size, share, found) if reason is None else size
            salt = _salt(earlier, by, key, reason)
            seal, train, rows = _make(content, given, by, key, named, target, task, size, salt)
            if found and reason is None:
                seal, train, rows = _follow(writer, seal, content, found, share)
            elif reason is None and scored.any() and _can_choose(seal, earlier):
                seal, train, rows = _unscored(seal, content, scored, share == "auto")
        if given is None and used[rows].any():
            seal, train, rows = _spare(seal, content, used, studies)
        count = 0 if given is not None else int(np.count_nonzero(scored[rows]))
        if shared is None and earlier and reason is None and not found:
            reason = _reason_to_change(writer, earlier, seal, group, count)
        body = {**seal.state(), "reason": reason, "after": [old.id for old, _, _ in earlier]}
        if size.why and seal.follows is None:
            body["why"] = size.why
        if count:
            body["scored"] = count
        if given is None:  # the rows of a test file are compared when they are looked at
            body |= {"n_kept": seal.kept.size, "recognised": [one.state() for one in found]}
        blob = np.concatenate([seal.digests, seal.kept, *(one.pairs(digests) for one in found)])
        entry = writer.append("seal", body, study, blob.astype("<u8").tobytes())
        notes = (*sentences(writer, entry), *alike(digests))
        return Sealed(seal, train, rows, entry, shared=False, notes=notes, why=str(body.get("why", "")))


def _why_shared(shared: Sealed, size: Size) -> str:
    """Why a shared seal has its size, for the question asked now: the seal may be of another metric or level."""
    if shared.seal.by == NONE:
        return str(shared.entry.body.get("why", ""))
    return size.why if shared.seal.follows is None and shared.seal.share == size.share else ""


def _unmoved(shared: Sealed, size: Size, precision: Precision) -> list[str]:
    """The sentence about a margin that moves nothing, because the rows have a seal of another size already."""
    if precision.margin is None or shared.seal.share == size.share:
        return []
    text = f"these rows are sealed since {shared.entry.created[:10]}, so the requested margin of {precision.margin:g} "
    return [text + "changes nothing; pass reseal (--reseal) with the reason for a test set of another size"]


def _recognised(ledger: Ledger, content: Digests) -> list[Relative]:
    """Earlier studies whose rows are here in another form; not sought for a table that is known to the last row."""
    sealed = {entry.body["id"]: entry for entry in ledger.entries(kind="seal")}
    names = set(names_of(content.frame))
    for study in ledger.entries(kind="study"):
        entry = sealed.get(study.body.get("seal"))
        if entry is not None and names.issuperset(entry.body["columns"]) and entry.body["n"] == len(content):
            digests = content.on(entry.body["columns"])
            test = np.isin(digests, Seal.from_ledger(ledger, entry).digests)
            named = digests if entry.body["by"] == NONE else digests[test]
            parts = (_digest_of_rows(named), _digest_of_rows(digests[~test]))
            if parts == (entry.body["rows"], study.body.get("rows")):
                return []
    return changed(relatives(ledger, content.frame), content)


def _as_recognised(size: Size, share: float | str, found: list[Relative]) -> Size:
    """The size that recognised rows have had already, where "auto" would take another."""
    if not found or share != "auto":
        return size
    old = found[-1].entry.body
    if old["by"] == NONE:
        return Size(0.0, str(old.get("why", "")))
    return size if size.share else Size(float(old["share"]), "")


def _follow(
    ledger: Ledger | Transaction, seal: Seal, content: Digests, found: list[Relative], share: float | str
) -> tuple[Seal, Array, Array]:
    """The seal, with recognised rows on the side they had."""
    latest = found[-1]
    old = latest.entry.body
    if seal.by == NONE and (old["by"] == NONE or not is_opened(ledger, [one.entry.body["id"] for one in found])):
        return seal, np.arange(len(content)), np.arange(0)
    if old["by"] != seal.by or share not in ("auto", old["share"]):
        message = (
            f"{int(latest.rows.sum())} of these rows, recognised though columns or values were changed, were sealed "
        )
        message += f"on {latest.entry.created[:10]} in a different way (by {old['by']}, {old['share']:.4g})"
        raise SealError(message, remedy=ANOTHER_WAY, option=("reseal", "the reason"))
    rows, test = old_sides(found)
    digests, chosen = content.on(seal.columns), _side(seal, content)
    if seal.by == "time" and (rows & ~test).any():
        when = times(content.frame, str(seal.key))
        last = when[rows & ~test].max()
        seal = replace(seal, cut=int(last) if when.dtype.kind == "i" else float(last))
        chosen = when > last
    elif seal.by == "group":
        chosen = whole_groups(labels(column_of(content.frame, str(seal.key)), str(seal.key)), rows, test, chosen)
    chosen = np.where(rows, test, chosen) if seal.by != "group" else chosen
    chosen = np.isin(digests, digests[chosen])  # rows that have become equal stay together
    _refuse_one_sided(chosen, seal)
    seal = replace(seal, follows=str(old["id"]), kept=freeze(np.unique(digests[rows & ~chosen])))
    return _finish(seal, digests, chosen), np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _spare(seal: Seal, content: Digests, used: Array, studies: list[str]) -> tuple[Seal, Array, Array]:
    """The seal, with rows that a final model was fitted to as training rows, and with them their groups or times."""
    digests, chosen = content.on(seal.columns), _side(seal, content)
    if seal.by == "time":
        when = times(content.frame, str(seal.key))
        last = when[used].max()
        chosen &= when > last
        seal = replace(seal, cut=max(made for made in (seal.cut, last.item()) if made is not None))
    elif seal.by == "group":
        codes, _ = pd.factorize(labels(column_of(content.frame, str(seal.key)), str(seal.key)))
        chosen &= ~(np.bincount(codes, weights=used) > 0)[codes]
    kept = used | (~chosen & _side(seal, content))
    chosen &= ~np.isin(digests, digests[kept])
    if not chosen.any():
        raise used_up(int(used.sum()), studies, "rows of this table")
    seal = replace(seal, follows=seal.id, kept=freeze(np.union1d(seal.kept, digests[kept])))
    return _finish(seal, digests, chosen), np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _frame(table: Any) -> Any:
    return getattr(table, "frame", table)


def _way(group: str | None, time: str | None, test: Any, share: float | str) -> tuple[str, str | None]:
    """What decides a row's side, and the column that holds it."""
    if test is not None and share == NONE:
        raise SealError("a test file was passed, but no test set was requested", remedy="leave out one of them")
    if test is not None and (group is not None or time is not None):
        raise SealError("a test file excludes group and time: each determines the test rows", remedy="pass one of them")
    if test is not None:
        return "file", None
    return ("time", time) if time is not None else ("group", group) if group is not None else ("content", None)


def _size(
    content: Digests, by: str, group: str | None, target: str, task: str, share: float | str, precision: Precision
) -> Size:
    """The share that is asked for, or with "auto" the one that gives the precision asked for."""
    for name in (target, *(() if group is None else (group,))):
        column_of(content.frame, name)  # a sentence if it is missing
    if share == NONE:
        return Size(0.0, "no test set was requested, so all rows are training rows")
    if share != "auto":
        return Size(fraction(share, "test_size"), "")
    if by == "file" or len(content) < 2:
        return Size(0.5, "")
    members = None if group is None else labels(column_of(content.frame, group), group)
    y = labels(column_of(content.frame, target), target) if task == "classification" else np.zeros(len(content))
    size = choose_size(y, task, precision, members)
    # Cut by time, rows of groups are dropped later on: a number of groups said here would not be the one tested.
    return replace(size, why="") if by == "time" and group is not None and size.share else size


def _make(
    content: Digests,
    given: Digests | None,
    by: str,
    key: str | None,
    named: Sequence[str],
    target: str,
    task: str,
    size: Size,
    salt: str,
) -> tuple[Seal, Array, Array]:
    digests = content.on(named)
    blank: dict[str, Any] = {"by": by, "key": key, "salt": salt, "columns": tuple(sorted(named)), "stratum": None}
    blank |= {"id": "", "thresholds": {}, "cut": None, "n_test": 0, "rows": "", "digests": digests[:0]}
    if given is not None:
        return _by_file(digests, given.on(named), blank)
    n = len(digests)
    if n < 2:
        raise SealError(f"a table with {n} row{'' if n == 1 else 's'} cannot be split", remedy="pass at least two rows")
    seal = Seal(**{**blank, "share": size.share, "n": n})
    if not size.share:
        _refuse_unusable(content, by, key)
        seal = replace(seal, by=NONE, key=None, salt="", kept=freeze(np.unique(digests)))
        return _finish(seal, digests, np.zeros(n, dtype=bool)), np.arange(n), np.arange(0)
    if by == "time":
        seal = replace(seal, cut=cut(content.frame, str(key), seal.share))
    else:
        seal = replace(seal, stratum=target if task == "classification" and by == "content" else None)
        counted = by == "group" and size.chosen
        seal = replace(seal, thresholds=_group_threshold(seal, content) if counted else _thresholds(seal, content))
    chosen = _side(seal, content)
    _refuse_one_sided(chosen, seal)
    return _finish(seal, digests, chosen), np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _refuse_unusable(content: Digests, by: str, key: str | None) -> None:
    """Refuse a column of groups or times that outer folds could not be made of either."""
    if by == "time":
        cut(content.frame, str(key), 0.5)
    elif by == "group" and np.unique(labels(column_of(content.frame, str(key)), str(key))).size < 2:
        message = f"all rows belong to one group of {key!r}, and groups are never split"
        raise SealError(message, remedy="leave the group out, or collect rows of other groups")


def _side(seal: Seal, content: Digests) -> Array:
    chosen = _decided(seal, content)
    if seal.follows is None:
        return chosen
    digests = content.on(seal.columns)
    test, kept = np.isin(digests, seal.digests), np.isin(digests, seal.kept)
    if seal.by == "group":
        return whole_groups(labels(column_of(content.frame, str(seal.key)), str(seal.key)), test | kept, test, chosen)
    return test | (chosen & ~kept)


def _decided(seal: Seal, content: Digests) -> Array:
    """The side that the rule of a seal gives each row."""
    if seal.by in ("file", NONE):
        return np.isin(content.on(seal.columns), seal.digests)
    if seal.by == "time":
        return np.asarray(times(content.frame, str(seal.key)) > seal.cut)
    codes, names = _strata(seal, content.frame)
    limits = np.array([seal.thresholds.get(name, seal.share) for name in names])
    return np.asarray(_hashed(seal, content) < limits[codes])


def _known(ledger: Ledger | Transaction, content: Digests) -> list[tuple[Seal, Entry, int]]:
    names, found = set(names_of(content.frame)), []
    for entry in ledger.entries(kind="seal"):
        if names.issuperset(entry.body["columns"]):
            seal = Seal.from_ledger(ledger, entry)
            named = seal.kept if seal.by == NONE else seal.digests
            shared = int(np.count_nonzero(np.isin(content.on(seal.columns), named)))
            if shared:
                found.append((seal, entry, shared))
    return found


def _salt(earlier: list[tuple[Seal, Entry, int]], by: str, key: str | None, reason: str | None) -> str:
    """A new salt, but the old one for the same way in another share: a smaller test set is then part of the larger."""
    same = [old.salt for old, _, _ in earlier if (old.by, old.key) == (by, key)]
    if same and reason is None:
        return same[-1]
    return str(max(int(old.salt or 0) for old, _, _ in earlier) + 1) if earlier else ""


def _scored(
    ledger: Ledger | Transaction, earlier: list[tuple[Seal, Entry, int]], known: KnownRows, found: list[Relative]
) -> Array:
    """Which rows were training rows under an earlier seal whose folds have been scored, under any of their names."""
    content = known.rows
    scored = np.zeros(len(content), dtype=bool)
    for old, _, _ in earlier:
        if old.by != "file" and is_scored(ledger, old.id):
            trained = np.isin(content.on(old.columns), old.kept) if old.by == NONE else ~_side(old, content)
            # The hash of a changed row says nothing of the side it had.
            scored |= trained & ~known.seen(old.columns, old.digests)
    for one in found:
        if one.entry.body["by"] != "file" and is_scored(ledger, one.entry.body["id"]):
            scored |= one.rows & ~one.test
    return scored


def _can_choose(seal: Seal, earlier: list[tuple[Seal, Entry, int]]) -> bool:
    """Whether test rows can be chosen among those that were never scored."""
    return seal.by == "group" or (seal.by == "content" and all(old.by == NONE for old, _, _ in earlier))


def _unscored(seal: Seal, content: Digests, scored: Array, auto: bool) -> tuple[Seal, Array, Array]:
    """The seal, with scored rows as training rows where that can be: of groups the least scored ones are tested.

    Without groups, of a table that has grown since it had no test set, rows that are new are; with `auto` there is
    still no test set where these are too few.
    """
    digests, chosen, numbers = content.on(seal.columns), _side(seal, content), _hashed(seal, content)
    if seal.by == "group":
        groups = labels(column_of(content.frame, str(seal.key)), str(seal.key))
        chosen = prefer_unscored(groups, scored, numbers, np.unique(numbers[chosen]).size)
    else:
        free = np.sort(numbers[~scored])[: np.count_nonzero(chosen)]
        if free.size >= LEAST:
            chosen = ~scored & (numbers <= free[-1])
        elif auto:
            chosen = np.zeros_like(chosen)
        else:
            return seal, np.flatnonzero(~chosen), np.flatnonzero(chosen)
    if not chosen.any():
        seal = replace(seal, by=NONE, key=None, salt="", stratum=None, thresholds={}, share=0.0)
    seal = replace(seal, follows=seal.id if chosen.any() else None, kept=freeze(np.unique(digests[~chosen])))
    return _finish(seal, digests, chosen), np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _reason_to_change(
    ledger: Ledger | Transaction, earlier: list[tuple[Seal, Entry, int]], seal: Seal, group: str | None, scored: int
) -> str | None:
    """Why a seal may follow earlier ones of these rows although no reason was given; refused where it may not."""
    ids = [old.id for old, _, _ in earlier]
    if not is_opened(ledger, ids):
        if not any(is_scored(ledger, one) for one in ids):
            return "no fold had been scored"
        if not scored and seal.by != "file":
            return "no test row had been scored"
        told = ["content", *(["group"] if seal.by == "time" else [])]  # a time beside the group that was declared
        known = all(old.by in told and old.key in (None, group) for old, _, _ in earlier)
        if seal.by in ("group", "time") and known:
            return f"{seal.key!r} was declared as {seal.by} before any look"
    old, entry, shared = earlier[-1]
    role = "training" if old.by == NONE else "test"
    message = f"{shared} of these rows were sealed as {role} rows on {entry.created[:10]} in a different way ({old})"
    raise SealError(message, remedy=ANOTHER_WAY, option=("reseal", "the reason"))


def _shared(
    earlier: list[tuple[Seal, Entry, int]],
    content: Digests,
    given: Digests | None,
    by: str,
    key: str | None,
    share: float | str,
) -> Sealed | None:
    """The earlier seal that parts the rows in the way that is asked for; None where there is none.

    First come those whose test rows are all here, of these those of the most columns, then the latest: a seal of rows
    with other values or fewer columns parts by the hashes of those.
    """
    here = content if given is None else given

    def rank(one: tuple[Seal, Entry, int]) -> tuple[bool, int, int]:
        old, entry, _ = one
        return bool(np.isin(old.digests, here.on(old.columns)).all()), len(old.columns), entry.seq

    for old, entry, _ in sorted(earlier, key=rank, reverse=True):
        if old.by == NONE and given is None and share in ("auto", NONE):
            if old.rows == _digest_of_rows(content.on(old.columns)):
                return Sealed(old, np.arange(len(content)), np.arange(0), entry, shared=True)
            continue
        if (old.by, old.key) != (by, key):
            continue
        chosen = _side(old, content)
        if given is not None:
            if old.rows == _digest_of_rows(given.on(old.columns)):
                return Sealed(old, np.flatnonzero(~chosen), np.arange(old.n_test), entry, shared=True)
        elif share in ("auto", old.share):
            _refuse_one_sided(chosen, old)
            return Sealed(old, np.flatnonzero(~chosen), np.flatnonzero(chosen), entry, shared=True)
    return None


def _content(table: Any, frame: Any, given: Digests | None) -> list[str]:
    """The columns that make a row what it is: all but numbers that only count the rows."""
    kinds = getattr(table, "kinds", {})
    names = names_of(frame)
    if given is not None:
        names = [name for name in names if name in set(names_of(given.frame))]
        if not names:
            raise SealError("the table and the test file share no column", remedy="give both the same columns")
    return [name for name in names if kinds.get(name) != "id"] or names


def _by_file(digests: Array, test: Array, blank: dict[str, Any]) -> tuple[Seal, Array, Array]:
    if not test.size:
        raise SealError("the test file has no rows", remedy="add rows, or let assay split the table")
    train = np.flatnonzero(~np.isin(digests, test))
    if not train.size:
        raise SealError("every row of the table is also in the test file", remedy="pass other rows to train on")
    n = len(test) + len(train)
    seal = Seal(**{**blank, "share": len(test) / n, "n": n})
    return _finish(seal, test, np.ones(len(test), dtype=bool)), train, np.arange(len(test))


def _finish(seal: Seal, digests: Array, chosen: Array) -> Seal:
    """The seal with its test rows counted, digested and named."""
    sealed = freeze(np.unique(digests[chosen]))
    rows = _digest_of_rows(digests if seal.by == NONE else digests[chosen])
    seal = replace(seal, n_test=int(np.count_nonzero(chosen)), rows=rows, digests=sealed)
    encoded = encode(seal.state()).encode("utf-8", "surrogatepass")
    return replace(seal, id=hashlib.blake2b(encoded, digest_size=8).hexdigest())


def _digest_of_rows(digests: Array) -> str:
    return hashlib.sha256(np.sort(digests).astype("<u8").tobytes()).hexdigest()


def _refuse_one_sided(chosen: Array, seal: Seal) -> None:
    if not chosen.any() or chosen.all():
        part = "training" if chosen.any() else "test"
        why = {
            "content": "equal rows, or single rows of a class, cannot be split",
            "group": "all rows may belong to one group",
            "time": "all rows may have one time",
        }.get(seal.by, "the test file determines the split")
        raise SealError(f"sealed by {seal.by}, no {part} row is left ({why})", remedy="pass more rows, or a test file")


def _hashed(seal: Seal, content: Digests) -> Array:
    """The number in [0, 1) that decides each row's side."""
    return uniform(content.on(seal.columns if seal.key is None else (seal.key,), seal.salt))


def _strata(seal: Seal, frame: Any) -> tuple[Array, list[str]]:
    """Each row's stratum as a number, and their names."""
    if seal.stratum is None:
        return np.zeros(len(column_of(frame, names_of(frame)[0])), dtype=np.intp), [ALL]
    codes, names = pd.factorize(labels(column_of(frame, seal.stratum), seal.stratum), sort=True)
    return codes, [str(name) for name in names]


def _group_threshold(seal: Seal, content: Digests) -> dict[str, float]:
    """The value with the wanted share of the groups below it, whatever their sizes; of the rows, if most would go."""
    numbers = _hashed(seal, content)
    groups = np.unique(numbers)
    limit = threshold(groups, max(1, round(seal.share * groups.size)), seal.share, alone=True)
    return {ALL: limit} if np.mean(numbers < limit) <= 0.5 else _thresholds(seal, content)


def _thresholds(seal: Seal, content: Digests) -> dict[str, float]:
    codes, names = _strata(seal, content.frame)
    sizes = np.bincount(codes, minlength=len(names))
    wanted = apportion(sizes, seal.share)
    order = np.argsort(codes, kind="stable")
    parts = np.split(_hashed(seal, content)[order], np.cumsum(sizes)[:-1])
    alone = len(names) == 1
    limits = [threshold(part, int(k), seal.share, alone) for part, k in zip(parts, wanted, strict=True)]
    return dict(zip(names, limits, strict=True))
