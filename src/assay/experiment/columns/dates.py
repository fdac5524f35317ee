"""Parts of a date as numbers: days since 1970, year, month, weekday, and the place in the year (and day) on a circle.

    circle(t) = (sin 2 pi t, cos 2 pi t),   t = (day of year - 1) / length of the year,   t = seconds of the day / 86400

The circle joins 31 December to 1 January, which a number from 1 to 365 does not. Nothing is learned from the data, so
a date has the same parts in every fold. Cost: O(n), vectorised.
"""

from __future__ import annotations

import numpy as np

__all__ = ["PARTS", "date_parts"]

Array = np.ndarray
PARTS = (
    *("days", "year", "month", "weekday", "year sin", "year cos"),
    *("day sin", "day cos"),
)
"""The names of the parts, in order; constant ones are dropped later, as any constant column is."""


def date_parts(dates: Array) -> Array:
    """The parts of each date as a matrix of eight columns, NaN where the date is missing; Monday is weekday 0.

    >>> date_parts(np.array(["2024-01-01T06:00"], dtype="datetime64[ns]"))[0, :4].tolist()
    [19723.25, 2024.0, 1.0, 0.0]
    """
    out = np.full((dates.size, len(PARTS)), np.nan)
    known = ~np.isnat(dates)
    moments = dates[known].astype("datetime64[ns]")
    day, month, year = (moments.astype(f"datetime64[{unit}]") for unit in "DMY")
    seconds = (moments - day).astype(np.int64) / 1e9
    number = day.astype(np.int64)
    into = (day - year).astype(np.int64)
    length = ((year + 1).astype("datetime64[D]") - year.astype("datetime64[D]")).astype(np.int64)
    turn, hour = 2 * np.pi * into / length, 2 * np.pi * seconds / 86400
    parts = (
        number + seconds / 86400,
        year.astype(np.int64) + 1970.0,
        (month - year).astype(np.int64) + 1.0,
        (number + 3.0) % 7,
        *(np.sin(turn), np.cos(turn), np.sin(hour), np.cos(hour)),
    )
    for j, part in enumerate(parts):
        out[known, j] = part
    return out
