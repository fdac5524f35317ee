"""Numbers in dress: "$1,100", "1.100,50 €", "12 %", "3.5 kg", every cell of a column with the same unit.

A cell is a sign, a currency, digits with a decimal separator and perhaps separators between thousands, and a currency,
a percent sign or a unit of letters. The separators are read for the column as a whole:

    English      commas (or blanks, or ') between thousands, a decimal point
    continental  points (or blanks, or ') between thousands, a decimal comma

and in the way that fits every cell. Where both do ("1,100 kg" in every cell: a ton, or a bag), three digits behind a
comma are thousands if the unit is a currency, or if somebody said that the column is a number, and three digits behind
a point, in every cell, are decimals if somebody said so; otherwise nothing is read: "950 €" and "1.100 €" are not.
Different units are never read as one. Cost: a match per level, and only one for a column of words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Dressed", "is_dressed", "same_unit", "undress"]

SIGNS = "$€£¥₹₽₩₺₪฿₫₴₦₱¢"
CODES = (
    "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|SGD|HKD|TRY|RUB|"
    r"DM|Fr\.|kr\.?|Rs\.?"
)
BLANKS = " \u00a0\u202f'\u2019"
"""Between thousands in English and continental numbers alike."""
CURRENCY = re.compile(rf"[A-Z]{{0,3}}[{SIGNS}]|{CODES}", re.IGNORECASE)
CELL = re.compile(
    rf"(?P<minus>[+-]?)(?:(?P<before>[A-Z]{{0,3}}[{SIGNS}]|{CODES})\s?)?(?P<inner>[+-]?)"
    rf"(?P<body>[0-9](?:[0-9.,{BLANKS}]*[0-9])?)(?P<power>[eE][+-]?[0-9]{{1,3}})?"
    rf"(?:\s?(?P<after>[%‰°{SIGNS}]|°[CFK]|Fr\.|kr\.)|\s?(?P<long>[^\W\d_]{{2,12}}[²³23]?(?:/[^\W\d_]{{1,6}}[²³23]?)?)|\s(?P<short>[^\W\d_][²³]?))?"
)
ENGLISH = re.compile(
    rf"(?:[0-9]+|[1-9][0-9]{{0,2}}(?P<mark>[,{BLANKS}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*)(?:\.[0-9]+)?"
)
CONTINENTAL = re.compile(
    rf"(?:[0-9]+|[1-9][0-9]{{0,2}}(?P<mark>[.{BLANKS}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*)(?:,[0-9]+)?"
)
PADDED = re.compile(r"0[0-9]")


class Dressed(NamedTuple):
    """What a column in dress reads as: one number per level, the unit, and whether a comma is the decimal separator."""

    numbers: list[float]
    unit: str
    comma: bool
    grouped: bool


def is_dressed(level: str) -> bool:
    """Whether a word is a number with a unit or with separators, however these are to be read.

    >>> [is_dressed(level) for level in ("$1,100", "3.5 kg", "1,100", "7", "12a", "A 12", "12-13", "1.2.3")]
    [True, True, True, False, False, False, False, False]
    """
    found = CELL.fullmatch(level)
    if found is None or _parts(found):
        return found is not None
    body = found["body"]
    return not body.replace(".", "", 1).isdecimal() and any(form.fullmatch(body) for form in (ENGLISH, CONTINENTAL))


def same_unit(one: str, other: str) -> bool:
    """Whether two units are the same.

    >>> same_unit("star", "stars"), same_unit("m", "ms")
    (True, False)
    """
    return _singular(one.split(" ")) == _singular(other.split(" "))


def undress(
    levels: Sequence[str], *, comma: bool = False, asked: bool = False, known: bool | None = None
) -> Dressed | None:
    """The numbers of a column whose cells all have the same unit; None where a cell has none, or another, or in doubt.

    `comma`: other columns of the file have a decimal comma. `asked`: somebody said that these are numbers, so commas
    between thousands may stand without a unit, and are meant where three digits follow. `known`: whether the comma is
    the decimal separator in this column, where other rows of it have told.

    >>> undress(["$1,100", "-$20.50"]).numbers, undress(["1.100,50 €", "7 €"]).numbers
    ([1100.0, -20.5], [1100.5, 7.0])
    >>> undress(["12 %", "3%"]), undress(["3 kg", "500 g"]), undress(["1,100 kg", "2,250 kg"])
    (Dressed(numbers=[12.0, 3.0], unit='%', comma=False, grouped=False), None, None)
    >>> undress(["1,100", "12"]), undress(["1,100", "12"], asked=True).numbers
    (None, [1100.0, 12.0])
    """
    cells: list[re.Match[str]] = []
    for level in levels:
        found = CELL.fullmatch(level)
        if found is None or PADDED.match(found["body"]) or (found["minus"] and found["inner"]):
            return None
        if _unit(found) != _unit((cells or [found])[0]) or not (_unit(found) or asked):
            return None
        cells.append(found)
    if not cells:
        return None
    bodies, unit = [found["body"] for found in cells], " ".join(_parts(cells[0]))
    if known is None:
        way = _way(bodies, CURRENCY.fullmatch(unit) is not None, comma, asked)
    else:
        way = known if all(map((CONTINENTAL if known else ENGLISH).fullmatch, bodies)) else None
    if way is None:
        return None
    numbers = [_number(found, way) for found in cells]
    grouped = not all(body.partition("," if way else ".")[0].isdecimal() for body in bodies)
    return Dressed(numbers, unit, way, grouped) if all(map(math.isfinite, numbers)) else None


def _unit(found: re.Match[str]) -> str:
    """The unit of a cell, the same for 1 year and 2 years."""
    return _singular(_parts(found))


def _singular(parts: list[str]) -> str:
    return " ".join(one.removesuffix("s") if len(one) > 3 else one for one in parts)


def _parts(found: re.Match[str]) -> list[str]:
    return [found[part].strip() for part in ("before", "after", "long", "short") if found[part]]


def _way(bodies: list[str], currency: bool, comma: bool, asked: bool) -> bool | None:
    """Whether the comma is the decimal separator of all; None where no way of reading fits, or two do."""
    english, continental = (all(map(form.fullmatch, bodies)) for form in (ENGLISH, CONTINENTAL))
    if english != continental:
        return continental
    if not english:
        return None
    commas, points = (any(mark in body for body in bodies) for mark in ",.")
    if points:  # thousands, or three decimals, which all cells would have
        return False if asked and not comma and all("." in body for body in bodies) else None
    if comma or not commas:
        return comma
    return False if currency or asked else None


def _number(found: re.Match[str], comma: bool) -> float:
    plain = re.sub(f"[{BLANKS}]", "", found["body"])
    plain = plain.replace(".", "").replace(",", ".") if comma else plain.replace(",", "")
    return float(found["minus"] + found["inner"] + plain + (found["power"] or ""))
