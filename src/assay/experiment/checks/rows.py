"""Columns without information of their own, and rows that are not as independent as they look."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from assay.experiment.checks.facts import Check, Facts, idle, passed, verb
from assay.experiment.checks.profile import Column, Target, spearman
from assay.numbers import fmt
from assay.words import listed, plural

__all__ = [
    "constant",
    "contradictions",
    "duplicate_columns",
    "duplicate_rows",
    "groups",
    "ids",
    "near_constant",
    "time_order",
]

Array = np.ndarray
MANY_COPIES = 0.25
"""The share of copies from which on folds mostly judge models on rows that they were fitted to."""
PAIRS = 5_000
"""Pairs of rows with the same label that are looked at; enough to see 99% agreement."""
LABELS = 1_000
"""Columns tried as labels of a source, those named like one first; where more look like labels, it means little."""
WIDE, SHORT = 100, 20_000
"""More columns and fewer rows than this: columns that may follow from a label are screened by a few pairs first."""
SOME = 8
"""Pairs of that screen, of which all but one must agree; of columns that follow in 99% of pairs 1 in 370 is missed."""
GROUP_NAME = re.compile(
    r"(^|[_ .-])(patient|subject|person|user|customer|client|household|family|hospital|clinic|school|store|shop|site|"
    r"group|cluster|batch|session|device|machine|farm|plot|animal|litter|cow|region|district)s?([_ .-]?(id|no|nr|num|"
    r"number|code|key))?$|[a-z](ID|Id)$|[_ .-]id$",
    re.IGNORECASE,
)


# Columns that say nothing, or nothing new.


def ids(facts: Facts) -> Check:
    """Columns that identify the rows."""
    code, title = "id", "identifier columns"
    known = [column.name for column in facts.columns if column.kind == "id"]
    like = [column.name for column in facts.columns if column.kind != "id" and _is_id(column)]
    if not known and not like:
        return passed(code, title, "warning", "no column has a different value in nearly every row")
    if not like:
        why = {name: facts.reasons[name] for name in known[:3] if name in facts.reasons}
        text = f"{listed(known)} {verb(known, 'looks like an identifier', 'look like identifiers')} and was left out"
        text += "".join(f"; {name!r}: {reason}" for name, reason in why.items())
        return Check(
            code,
            title,
            "found",
            "info",
            text,
            tuple(known),
            "if it is a measurement, set its kind",
            ("kind", tuple(f"{name}={_measure(facts, name)}" for name in known[:1])),
        )
    how = verb(like, "differs in nearly every row but is", "differ in nearly every row but are")
    text = f"{listed(like)} {how} used as {_kinds(facts, like)}"
    remedy = "a learner can only memorise such a column; drop it"
    return Check(code, title, "found", "warning", text, (*like, *known), remedy, ("drop", tuple(like)))


def _measure(facts: Facts, name: str) -> str:
    """The kind that an identifier would have if it measured something."""
    column = next(one for one in facts.columns if one.name == name)
    return "number" if column.ordered else "category"


def _is_id(column: Column) -> bool:
    seen = column.n - column.missing
    if seen < 20:
        return False
    if column.ordered:
        # Whole numbers that count up without repeats; measures are all different, too, but not so evenly spaced.
        if not column.whole or column.levels < seen:
            return False
        values = np.sort(np.asarray(column.values)[~column.gaps])
        return bool((values[-1] - values[0] + 1) <= 1.5 * seen)
    return column.kind == "category" and column.levels > 0.9 * seen


def _kinds(facts: Facts, names: Sequence[str]) -> str:
    found = {column.kind for column in facts.columns if column.name in names}
    return " and ".join("a category" if kind == "category" else f"a {kind}" for kind in sorted(found))


def constant(facts: Facts) -> Check:
    """Columns that never change."""
    code, title = "constant", "constant columns"
    same = [c.name for c in facts.columns if c.levels == 1 and c.missing == 0]
    empty = [c.name for c in facts.columns if c.levels == 0]
    if not same and not empty:
        return passed(code, title, "info", "every column varies")
    parts = [(same, "a single value"), (empty, "no values")]
    text = "; ".join(f"{listed(names)} {verb(names, 'has', 'have')} {what}" for names, what in parts if names)
    return Check(code, title, "found", "info", text, (*same, *empty), "nothing needs to be done: they are left out")


def near_constant(facts: Facts) -> Check:
    """Columns with one value nearly everywhere."""
    code, title = "near-constant", "nearly constant columns"
    if facts.n < 100:
        return idle(code, title, "info", "fewer than 100 rows")
    found = [c.name for c in facts.used if c.counts.max() >= 0.99 * c.n]
    if not found:
        return passed(code, title, "info", "no value fills 99% of a column")
    text = f"one value fills 99% or more of {listed(found)}"
    remedy = "some folds may have no other value; expect little from these columns"
    return Check(code, title, "found", "info", text, tuple(found), remedy)


def duplicate_columns(facts: Facts) -> Check:
    """Columns with the same information."""
    code, title = "duplicate-columns", "duplicate columns"
    if len(facts.used) < 2:
        return idle(code, title, "warning", "fewer than two columns")
    copies: dict[bytes, list[str]] = defaultdict(list)
    for name, key in facts.keys.items():
        copies[key].append(name)
    sets = [names for names in copies.values() if len(names) > 1]
    if not sets:
        return passed(code, title, "warning", "no two columns are copies, relabellings or changes of unit")
    text = "; ".join(listed(names) for names in sets[:4]) + " have the same information"
    remedy = "keep one of each: coefficients and importances are split among copies"
    every, copied = (tuple(name for names in sets for name in names[k:]) for k in (0, 1))
    return Check(code, title, "found", "warning", text, every, remedy, ("drop", copied))


# Rows.


def duplicate_rows(facts: Facts) -> Check:
    """Rows that occur more than once, target included."""
    code, title = "duplicate-rows", "duplicate rows"
    if not facts.used:
        return idle(code, title, "warning", "no column varies")
    _, counts = np.unique(_row_keys(facts, target=True), return_counts=True)
    extra = facts.n - counts.size
    if extra == 0:
        return passed(code, title, "warning", "every row is different")
    repeat = verb(extra, "repeats", "repeat")
    text = f"{plural(extra, 'row')} ({extra / facts.n:.1%}) {repeat} another row, target included"
    remedy = "remove the copies from the table, or pass the column that they share as group"
    if _combinations(facts) < 100 * facts.n:
        return Check(code, title, "found", "info", text + ", as expected with so few distinct values")
    if facts.group is None and extra >= MANY_COPIES * facts.n:
        text += ", so folds judge models on rows that they were fitted to"
        return Check(code, title, "found", "serious", text, (), remedy)
    severity = "warning" if extra >= 0.01 * facts.n else "info"
    return Check(code, title, "found", severity, text, (), remedy)


def contradictions(facts: Facts) -> Check:
    """Rows with equal features but different targets."""
    code, title = "contradictions", "rows with equal features but different targets"
    if not facts.used:
        return idle(code, title, "info", "no column varies")
    alike = _row_keys(facts, target=False)
    _, same, size = np.unique(alike, return_inverse=True, return_counts=True)
    first = np.full(size.size, -1, dtype=np.int64)
    first[same[::-1]] = facts.target.codes[::-1]
    differs = np.zeros(size.size, dtype=bool)
    differs[same[facts.target.codes != first[same]]] = True
    rows = int(size[differs].sum())
    if rows == 0:
        return passed(code, title, "info", "rows with equal features have equal targets")
    text = f"{plural(rows, 'row')} ({rows / facts.n:.1%}) share their features with a row that has another target"
    remedy = "no learner can predict all of them; this sets a floor for the error"
    heavy = rows >= 0.05 * facts.n and _combinations(facts) >= 100 * facts.n
    return Check(code, title, "found", "warning" if heavy else "info", text, (), remedy)


def _row_keys(facts: Facts, *, target: bool) -> Array:
    """A 64-bit key per row; two of a million different rows agree with chance 3e-8."""
    rng = np.random.default_rng(20_240_607)
    keys = np.zeros(facts.n, dtype=np.uint64)
    parts = [column.codes for column in facts.used] + ([facts.target.codes] if target else [])
    for codes in parts:
        keys ^= _mix(codes.astype(np.uint64) + rng.integers(0, 2**64, dtype=np.uint64))
        keys = _mix(keys + rng.integers(0, 2**64, dtype=np.uint64))
    return keys


def _mix(x: Array) -> Array:
    """The finaliser of splitmix64: every bit of the input reaches every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _combinations(facts: Facts) -> float:
    """How many different rows the columns could make, if they were independent and even: exp of their entropies."""
    total = 0.0
    for column in facts.used:
        share = column.counts[column.counts > 0] / max(1, column.n - column.missing)
        total -= float(share @ np.log(share))
    return float(np.exp(min(total, 700.0)))


# Rows that belong together.


def groups(facts: Facts) -> Check:
    """Rows of one source that are treated as independent."""
    code, title = "groups", "undeclared groups"
    if facts.group is not None:
        return idle(code, title, "serious", f"rows are kept together by {facts.group!r}")
    found, screen = {}, _screen(facts)
    every = [*facts.columns, *facts.dropped]  # rows of one source are alike, whether its label is used or not
    labels = sorted(filter(lambda one: _may_label(one, facts), every), key=lambda one: not _is_named(one))
    for column in labels[:LABELS]:
        if (evidence := _repeats(column, facts, screen)) is not None:
            found[column.name] = evidence
    if not found:
        return passed(code, title, "serious", "no column looks like a group label")
    first, why = next(iter(found.items()))
    text = f"{listed(found)}: {why}"
    remedy = f"if rows with the same {first!r} are alike, pass --group {shlex.quote(first)}"
    remedy += "; otherwise scores are too optimistic"
    return Check(code, title, "found", "serious", text, tuple(found), remedy, ("group", (first,)))


def _may_label(column: Column, facts: Facts) -> bool:
    """Whether a column has the form of a label: no measure, and its values repeat."""
    labelled = not column.ordered or column.whole
    seen = column.n - column.missing
    if column.kind in ("date", "text") or not labelled or column.name == facts.time or seen < 40:
        return False
    return 10 <= column.levels <= seen / 2


def _is_named(column: Column) -> bool:
    return bool(GROUP_NAME.search(column.name))


def _screen(facts: Facts) -> Array | None:
    """The codes of the columns in use, cut to 16 bits, a row of the table per row; None where they are few."""
    if len(facts.used) <= WIDE or facts.n > SHORT:
        return None
    return np.stack([column.codes.astype(np.uint16) for column in facts.used], axis=1)


def _likely(facts: Facts, screen: Array | None, left: Array, right: Array) -> list[Column]:
    """The columns that may follow from a label, by a few pairs of rows that share it; of few columns all."""
    if screen is None or left.size < SOME:
        return facts.used
    at = np.linspace(0, left.size - 1, SOME).astype(np.int64)
    alike = (screen[left[at]] == screen[right[at]]).sum(axis=0)
    return [facts.used[j] for j in np.flatnonzero(alike >= SOME - 1)]


def _repeats(column: Column, facts: Facts, screen: Array | None) -> str | None:
    """Why a column looks like the label of a source: repeated, and other columns follow from it."""
    seen = column.n - column.missing
    order = np.argsort(column.codes, kind="stable")[column.missing :]
    left, right = order[:-1], order[1:]
    same = np.flatnonzero(column.codes[left] == column.codes[right])
    some = same[np.linspace(0, same.size - 1, min(same.size, PAIRS)).astype(np.int64)]
    left, right = left[some], right[some]
    follows, keys = [], {facts.keys.get(column.name)}
    for other in _likely(facts, screen, left, right):
        if other is column or facts.keys[other.name] in keys or other.levels >= column.levels * 2:
            continue
        chance = float(((other.counts / other.n) ** 2).sum())
        if chance <= 0.7 and (other.codes[left] == other.codes[right]).mean() >= 0.99:
            follows.append(other.name)
            keys.add(facts.keys[other.name])
    named = _is_named(column)
    if len(follows) >= (1 if named else 2):
        each = fmt(seen / column.levels, 3)
        return f"{column.levels:,} labels, {each} rows each on average, which determine {listed(follows, 3)}"
    if named and _target_repeats(facts.target, left, right) >= 0.1:
        return f"{column.levels:,} labels, {fmt(seen / column.levels, 3)} rows each on average, with similar targets"
    return None


def _target_repeats(target: Target, left: Array, right: Array) -> float:
    """How alike the targets of neighbours are: rank correlation, or agreement beyond chance; 0 if it may be chance."""
    if target.task == "regression":
        alike = spearman(target.rank[left], target.rank[right])
    else:
        chance = float(((target.counts / target.n) ** 2).sum())
        alike = (float((target.codes[left] == target.codes[right]).mean()) - chance) / max(1e-12, 1 - chance)
    return alike if alike * np.sqrt(left.size) > 5 else 0.0


def time_order(facts: Facts) -> Check:
    """An order of the rows, often in time, that is not declared."""
    code, title = "time", "undeclared time order"
    if facts.time is not None:
        return idle(code, title, "warning", f"rows are split by {facts.time!r}")
    every = [*facts.columns, *facts.dropped]
    dates = [column.name for column in every if column.kind == "date" and column.levels > 1]
    at = np.arange(facts.n - 1)
    alike = _target_repeats(facts.target, at, at + 1) if facts.n >= 50 else 0.0
    parts = []
    if dates:
        parts.append(f"{listed(dates)} {verb(dates, 'contains', 'contain')} dates")
    if alike >= 0.2 and not _is_sorted(facts.target.codes):
        parts.append(f"neighbouring rows have similar targets (correlation {alike:.2f})")
    if not parts:
        return passed(code, title, "warning", "no dates, and neighbouring rows are no more similar than others")
    how = (
        f"pass --time {shlex.quote(dates[0])}"
        if dates
        else "find the column that orders the rows and pass it as --time"
    )
    remedy = f"if the model will predict later rows, {how}; random folds let it learn from the future"
    option = ("time", (dates[0],)) if dates else None
    return Check(code, title, "found", "warning", "; ".join(parts), tuple(dates), remedy, option)


def _is_sorted(codes: Array) -> bool:
    """Whether the rows are simply sorted by the target, which is no harm: each value in one piece."""
    return int(np.count_nonzero(np.diff(codes))) + 1 == np.unique(codes).size
