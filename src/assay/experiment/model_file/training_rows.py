"""What a model file remembers of its training rows, and how a batch of new rows differs from them.

Per column a file holds counts: of a number or a date the smallest and largest value and how many rows lie between
twentieths, of a category how many rows have each level (the 200 most frequent). No row can be read from them, but for
extremes and rare levels. A batch is compared with them by three questions:

    range    numbers and dates below the smallest or above the largest training value
    drift    the two-sample chi-squared test of the counts, one per column, corrected by Holm's method:

        X2 = sum over cells (o - e)^2 / e,  df = cells - 1,  cells joined until each expects 5 rows of the batch

The tests take rows as independent: a batch that has not drifted is named with a probability of at most `ALARM`, rows
that come in groups more often. Cost: one pass over the batch. Pearson (1900); Cochran (1952), Ann. Math. Stat. 23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.experiment.columns.encoders import level_codes
from assay.inference.multiple import adjust_pvalues
from assay.numbers import fmt
from assay.results import format_p
from assay.state import need
from assay.words import plural

__all__ = ["ALARM", "Alert", "alerts_of", "check_training", "training_counts"]

Array = np.ndarray
ALARM = 0.01
"""The probability that any column of a batch that has not drifted is named."""
BINS, LEVELS, EXPECTED, FEW = 20, 200, 5.0, 20
"""Bins of a number; levels counted; rows that a cell expects at least; rows below which a batch is not tested."""


@dataclass(frozen=True)
class Alert:
    """Something about a batch that the reader of its predictions must know.

    | field  | meaning                                                      |
    |--------|--------------------------------------------------------------|
    | kind   | "unseen-level", "outside-range" or "drift"                   |
    | column | where                                                        |
    | rows   | how many rows are concerned                                  |
    | words  | a sentence                                                   |
    """

    kind: str
    column: str
    rows: int
    words: str


def training_counts(frame: pd.DataFrame, kinds: Mapping[str, str]) -> dict[str, Any]:
    """The counts of the training rows in JSON types.

    >>> frame = pd.DataFrame({"x": [1.0, 2.0, None], "c": ["a", "b", "a"]})
    >>> found = training_counts(frame, {"x": "number", "c": "category"})
    >>> found["columns"]["c"]["levels"], found["columns"]["x"]["high"]
    ({'a': 2, 'b': 1}, 2.0)
    """
    columns: dict[str, Any] = {}
    for name, kind in kinds.items():
        if kind in ("number", "date"):
            values = _numbers(frame[name])
            there = values[~np.isnan(values)]
            if there.size == 0:
                continue
            edges = np.unique(np.quantile(there, np.arange(1, BINS) / BINS, method="inverted_cdf"))
            counts = np.bincount(np.searchsorted(edges, there), minlength=edges.size + 1)
            columns[name] = {
                "low": float(there.min()),
                "high": float(there.max()),
                "mean": float(there.mean()),
                "edges": edges.tolist(),
                "counts": counts.tolist(),
                "missing": int(values.size - there.size),
            }
        elif kind == "category":
            codes, names = level_codes(frame[name])
            counts = np.bincount(codes[codes >= 0], minlength=len(names))
            order = np.argsort(-counts, kind="stable")[:LEVELS]
            columns[name] = {
                "levels": {names[k]: int(counts[k]) for k in order},
                "others": int(counts.sum() - counts[order].sum()),
                "missing": int((codes < 0).sum()),
            }
    return {"n": len(frame), "columns": columns}


def check_training(found: Any, features: Any) -> None:
    """Raise `StateError` where stored counts are not those of the features."""
    need(isinstance(found, dict) and _whole(found.get("n")) and isinstance(found.get("columns"), dict))
    need(set(found["columns"]) <= set(features), "its training counts are of other columns")
    for one in found["columns"].values():
        need(isinstance(one, dict) and _whole(one.get("missing")), "its training counts are damaged")
        if "levels" in one:
            need(isinstance(one["levels"], dict) and all(map(_whole, one["levels"].values())) and _whole(one["others"]))
            continue
        figures = [one.get("low"), one.get("high"), one.get("mean"), *_list(one.get("edges"))]
        need(all(isinstance(value, int | float) and np.isfinite(value) for value in figures))
        need(all(map(_whole, _list(one.get("counts")))) and len(one["counts"]) == len(one["edges"]) + 1)
        need(bool((np.diff(one["edges"]) > 0).all()), "its training counts are not in order")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _list(value: Any) -> list[Any]:
    need(isinstance(value, list), "its training counts are damaged")
    return list(value)


def _numbers(column: pd.Series) -> Array:
    """Numbers, or dates as seconds; NaN where missing."""
    if column.dtype.kind == "M":
        seconds = column.to_numpy().astype("datetime64[ns]").astype(np.int64) / 1e9
        return np.where(column.isna(), np.nan, seconds)
    return column.to_numpy(dtype=float, na_value=np.nan)


def alerts_of(training: Mapping[str, Any], frame: pd.DataFrame) -> list[Alert]:
    """What is outside the range of the training rows, and which columns have drifted."""
    found, tests = [], []
    for name, counts in training["columns"].items():
        column = frame[name]
        if "edges" in counts:
            found += _outside(name, counts, column)
        if len(frame) >= FEW:
            cells = _cells(counts, column)
            p_value = _chi_squared(*cells, ordered="edges" in counts)
            if p_value is not None:
                tests.append((name, p_value))
    if not tests:
        return found
    adjusted = adjust_pvalues([p for _, p in tests], method="holm", alpha=ALARM)
    for (name, _), p_value, fired in zip(tests, adjusted.adjusted, adjusted.rejected, strict=True):
        if fired:
            change = _change(training["columns"][name], frame[name], training["n"])
            p = format_p(p_value)
            p = f"p {p}" if p.startswith("<") else f"p = {p}"
            text = f"column {name!r} is not distributed as in the training rows ({change}; {p}, "
            text += f"corrected for {plural(len(tests), 'column')})"
            found.append(Alert("drift", name, len(frame), text))
    return found


def _outside(name: str, counts: Mapping[str, Any], column: pd.Series) -> list[Alert]:
    values = _numbers(column)
    found = []
    for side, beyond, limit, way, far in (
        ("below the smallest", values < counts["low"], counts["low"], "down", np.nanmin),
        ("above the largest", values > counts["high"], counts["high"], "up", np.nanmax),
    ):
        rows = int(beyond.sum())
        if rows:
            known, most = (_shown(value, column) for value in (limit, float(far(values))))
            text = f"column {name!r} is {side} training value ({known}) in {plural(rows, 'row')}, {way} to {most}"
            found.append(Alert("outside-range", name, rows, f"{text}; the model extrapolates there"))
    return found


def _shown(value: float, column: pd.Series) -> str:
    if column.dtype.kind != "M":
        return fmt(value)
    return str(np.datetime64(int(value), "s")).replace("T", " ").removesuffix(" 00:00:00")


def _cells(counts: Mapping[str, Any], column: pd.Series) -> tuple[Array, Array]:
    """Rows per cell, of training and of the batch; the last cell holds the missing ones."""
    if "edges" in counts:
        values = _numbers(column)
        there = values[~np.isnan(values)]
        new = np.bincount(np.searchsorted(counts["edges"], there), minlength=len(counts["counts"]))
        return np.array([*counts["counts"], counts["missing"]]), np.array([*new, values.size - there.size])
    codes, names = level_codes(column)
    batch = dict(zip(names, np.bincount(codes[codes >= 0], minlength=len(names)).tolist(), strict=True))
    known = counts["levels"]
    others = sum(rows for level, rows in batch.items() if level not in known)
    old = [*known.values(), counts["others"], counts["missing"]]
    new = np.array([*(batch.get(level, 0) for level in known), others, int((codes < 0).sum())])
    return np.array(old), new


def _chi_squared(old: Array, new: Array, *, ordered: bool) -> float | None:
    """The p-value of the same distribution in both; None where there are not two cells to compare."""
    m, n = int(new.sum()), int(old.sum())
    total = old + new
    if not ordered:
        order = np.argsort(-total, kind="stable")
        old, new, total = old[order], new[order], total[order]
    least = EXPECTED * (m + n) / min(m, n)
    joined, cell, filled = np.zeros(total.size, dtype=int), 0, 0.0
    for k, rows in enumerate(total):
        joined[k] = cell
        filled += rows
        if filled >= least:
            cell, filled = cell + 1, 0.0
    if filled < least and cell > 0:
        joined[joined == cell] = cell - 1  # what is left is too little for a cell of its own
    cells = int(joined.max()) + 1
    if cells < 2:
        return None
    both = np.array([np.bincount(joined, part, minlength=cells) for part in (old, new)])
    expected = both.sum(axis=1, keepdims=True) * both.sum(axis=0) / (m + n)
    return float(special.chdtrc(cells - 1, ((both - expected) ** 2 / expected).sum()))


def _change(counts: Mapping[str, Any], column: pd.Series, n: int) -> str:
    """The plainest difference: of means, or of the level or the missing values whose share moved most."""
    old, new = _cells(counts, column)
    shares = new / max(1, new.sum()) - old / max(1, old.sum())
    missing = abs(shares[-1])
    if "edges" in counts:
        here = float(np.nanmean(_numbers(column))) if new[:-1].sum() else np.nan
        if missing < 0.5 * np.abs(shares[:-1]).sum() and np.isfinite(here):
            return f"mean {_shown(counts['mean'], column)} there, {_shown(here, column)} here"
        k, name = old.size - 1, "missing"
    else:
        k = int(np.argmax(np.abs(shares)))
        name = [*(f"of {level!r}" for level in counts["levels"]), "of other levels", "missing"][k]
    return f"{100 * old[k] / n:.3g}% {name} there, {100 * new[k] / new.sum():.3g}% here"
