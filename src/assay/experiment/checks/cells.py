"""Cells that say something else than they seem to: numbers that mean "missing", and numbers that are read as words."""

from __future__ import annotations

import re

import numpy as np

from assay.experiment.checks.facts import Check, Facts, idle, passed, verb
from assay.experiment.checks.profile import Column
from assay.experiment.table.levels import ISO, SLASHED, is_number
from assay.experiment.table.units import is_dressed, undress
from assay.numbers import fmt
from assay.words import listed, plural

__all__ = ["as_text", "sentinel"]

Array = np.ndarray
LONG = re.compile(r"-?(9+[6-9]|7{2,}|8{2,})(\.9+)?")
"""Numbers of two digits or more that often stand for a missing value, such as -99, 999, 9999, 98 and -999.9."""
SHORT = re.compile(r"-[1789]")
REPEATED = 2
"""So often at least does such a number occur."""
FAR, FARTHER = 0.5, 1.0
"""Its distance from all other numbers, in units of their range; of a short one."""
MANY = 20
"""A column of at most so many levels may well be a category, whatever its cells look like."""
MOST = 0.9
"""Share of levels that read as numbers, or as dates."""
ODD = 3
"""So many different words among numbers at most are named in a remedy."""


# Numbers that mean "missing".


def sentinel(facts: Facts) -> Check:
    """Numbers that stand for a missing value."""
    code, title = "sentinel", "numbers that may stand for missing values"
    numbers = [column for column in facts.columns if column.kind == "number" and column.ordered]
    spread = {column.name: (np.asarray(column.values), column.counts) for column in numbers}
    if facts.target.task == "regression":
        spread[facts.target.name] = (np.asarray(facts.target.values), facts.target.counts)
    if not spread:
        return idle(code, title, "warning", "no columns of numbers")
    found, evidence = {}, []
    for name, (values, counts) in spread.items():
        levels = np.unique(values[~np.isnan(values)])
        marked = _sentinels(levels, counts)
        if marked.any():
            low, high = (fmt(end, 6, group=False) for end in (levels[~marked].min(), levels[~marked].max()))
            found[name] = [_text(value) for value in levels[marked]]
            cells = plural(int(counts[marked].sum()), "cell")
            evidence.append(f"{', '.join(found[name])} in {cells} of {name!r}, whose other values are {low} to {high}")
    if not found:
        return passed(code, title, "warning", "no repeated number such as -99 or 999 lies far from all others")
    of_target = facts.target.name in found
    remedy = "if such a number stands for a missing value, read it as one"
    remedy += "; rows without a target are left out" if of_target else ""
    rules = tuple(f"{name}=" + ",".join([*facts.missing.get(name, ()), *texts]) for name, texts in found.items())
    option = ("missing", rules) if not any("=" in name for name in found) else None
    severity = "serious" if of_target else "warning"
    return Check(code, title, "found", severity, "; ".join(evidence[:5]), tuple(found), remedy, option)


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _sentinels(levels: Array, counts: Array) -> Array:
    """Which of the sorted values are sentinels: at an end, of their form, repeated, far from all others."""
    marked = np.zeros(levels.size, dtype=bool)
    first, last = _run(levels, counts), _run(levels[::-1], counts[::-1])
    # With both ends set aside first: -99 and 999 must not hide each other.
    for low in range(first, -1, -1):
        for high in range(last, -1, -1):
            inner = levels[low : levels.size - high]
            if low + high and inner.size >= 3 and _is_far(levels, low, high):
                marked[:low] = marked[levels.size - high :] = True
                return marked
    return marked


def _run(levels: Array, counts: Array) -> int:
    """How many values from an end on have the form of a sentinel and are repeated; three at most."""
    texts = [_text(value) for value in levels[:3]]
    fits = [
        n >= REPEATED and bool(LONG.fullmatch(text) or SHORT.fullmatch(text))
        for text, n in zip(texts, counts[:3], strict=True)
    ]
    return fits.index(False) if False in fits else len(fits)


def _is_far(levels: Array, low: int, high: int) -> bool:
    inner = levels[low : levels.size - high]
    width = float(inner[-1] - inner[0])
    if high and 2 * np.sum(np.round(inner - levels[-high], 6) % 1 == 0) >= inner.size and levels[-high] % 1:
        return False  # 999.99 among prices that end in .99
    if low and not high and levels[low - 1] < 0 <= inner[0] and LONG.fullmatch(_text(levels[low - 1])):
        return True  # however far the others reach
    gaps = [(inner[0] - levels[low - 1], levels[low - 1])] if low else []
    gaps += [(levels[-high] - inner[-1], levels[-high])] if high else []
    return all(gap > (FAR if LONG.fullmatch(_text(value)) else FARTHER) * width for gap, value in gaps)


# Numbers and dates that are read as words.


def as_text(facts: Facts) -> Check:
    """Categories that are numbers or dates, written in a way that is not read as such."""
    code, title = "as-text", "numbers or dates that are read as categories"
    categories = [column for column in facts.used if column.kind == "category"]
    if not categories:
        return idle(code, title, "warning", "no categorical columns")
    told = {column.name: why for column in categories if (why := _written(column)) is not None}
    if not told:
        return passed(code, title, "warning", f"{plural(len(categories), 'categorical column')} checked")
    text = "; ".join(f"{name!r} {why}" for name, (why, _) in list(told.items())[:5])
    numbers = tuple(f"{name}=number" for name, (_, option) in told.items() if option == "kind")
    odd = {name: words for name, (_, words) in told.items() if isinstance(words, list)}
    rules = tuple(f"{name}=" + ",".join([*facts.missing.get(name, ()), *words]) for name, words in odd.items())
    option = ("kind", numbers) if numbers else ("missing", rules) if rules else None
    remedy = "write numbers in one unit and dates as 2020-12-31"
    if numbers:
        remedy = (
            f"read {listed(one.removesuffix('=number') for one in numbers)} as {verb(numbers, 'a number', 'numbers')}"
        )
    elif rules:
        remedy = "read the other texts as missing, or write them as numbers"
    return Check(code, title, "found", "warning", text, tuple(told), remedy, option)


def _written(column: Column) -> tuple[str, str | list[str]] | None:
    """How a category's levels are written that are numbers or dates, and what would read them: a kind, or gaps."""
    levels = [str(label) for label in column.labels]
    if len(levels) <= MANY:
        return None
    dates = sum(bool(ISO.fullmatch(level) or SLASHED.fullmatch(level)) for level in levels)
    if dates >= MOST * len(levels):
        return f"has {len(levels):,} levels that are dates, such as {levels[0]!r}, in several or unclear formats", ""
    plain = [is_number(level) for level in levels]
    dressed = [not bare and is_dressed(level) for bare, level in zip(plain, levels, strict=True)]
    words = [level for level, one, two in zip(levels, plain, dressed, strict=True) if not (one or two)]
    if len(words) > (1 - MOST) * len(levels):
        return None
    if not words and all(map(_is_code, levels)):  # whole numbers, which may be codes of places
        return None
    example = next((level for level, one in zip(levels, dressed, strict=True) if one), levels[0])
    if not any(dressed) and words:
        more = f" and {len(words) - ODD} other texts" if len(words) > ODD else ""
        usable = len(words) <= ODD and not any("," in word or "=" in word for word in (*words, column.name))
        named = f"{', '.join(map(repr, words[:ODD]))}{more}"
        return f"has {len(levels):,} levels, numbers but for {named}", words if usable else ""
    readable = not words and (all(plain) or undress(levels, asked=True) is not None) and "=" not in column.name
    return f"has {len(levels):,} levels that are numbers, such as {example!r}", "kind" if readable else ""


def _is_code(level: str) -> bool:
    return level.lstrip("+-").isdecimal()
