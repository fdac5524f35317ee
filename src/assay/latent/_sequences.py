"""Many sequences as one: where each begins in an array that holds them one behind the other.

Sequences come as a table with `lengths` (one sequence where there are none), or as a list of sequences; answers go back
in the same form. Behind this gate symbols are places among sorted symbols, -1 where one is missing (None, NaN, NA).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from assay.checks import listed
from assay.errors import DataError, DataTypeError, ParameterError

__all__ = ["Sequences", "as_tables", "encode", "known_labels", "look_up", "offsets", "symbol_sequences"]

Array = np.ndarray
NEAR = 1000
"""Whole numbers within this range are counted instead of sorted."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """Where each sequence begins, and the number of steps; whether they came as a list."""

    first: Array
    in_list: bool = False

    @property
    def n(self) -> int:
        """Steps of all sequences."""
        return int(self.first[-1])

    def __len__(self) -> int:
        return len(self.first) - 1

    def split(self, values: Array) -> Any:
        """One value per step, in the form in which the sequences came."""
        return np.split(values, self.first[1:-1]) if self.in_list else values

    def place(self, t: int) -> str:
        """How a message names a step."""
        s = int(np.searchsorted(self.first, t, side="right")) - 1
        at = f"position {t - int(self.first[s])}"
        return f"{at} of sequence {s}" if len(self) > 1 else at

    @property
    def ends(self) -> Array:
        """The last step of each sequence."""
        return self.first[1:] - 1


def offsets(lengths: Any, n: int) -> Array:
    """Where sequences of these lengths begin, and n; None is one sequence.

    >>> offsets([2, 3], 5).tolist(), offsets(None, 5).tolist()
    ([0, 2, 5], [0, 5])
    """
    if lengths is None:
        return np.array([0, n], dtype=np.int64)
    try:
        given = np.asarray(lengths)
        whole = given.astype(np.int64)
        good = given.ndim == 1 and given.dtype.kind in "iuf" and bool((whole == given).all())
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise DataError(
            "lengths must be whole numbers", remedy="give the number of steps of each sequence, as in [40, 25]"
        )
    if whole.size == 0 or (whole < 1).any():
        where = (
            f"lengths[{int(np.argmax(whole < 1))}] = {whole[np.argmax(whole < 1)]}"
            if whole.size
            else "lengths is empty"
        )
        raise DataError(f"{where}, but every sequence has at least one step", remedy="leave empty sequences out")
    if whole.sum() != n:
        what = f"lengths sum to {whole.sum():,}, but there are {n:,} rows"
        raise DataError(what, remedy="give lengths whose sum is the number of rows")
    return np.concatenate([[0], np.cumsum(whole)]).astype(np.int64)


def _refuse_lengths(lengths: Any) -> None:
    if lengths is not None:
        what = "lengths applies to a single table of all sequences, but a list of sequences was passed"
        raise DataError(what, remedy="leave lengths out")


def _lengths(parts: Sequence[Any], name: str) -> Array:
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    if (sizes == 0).any():
        what = f"sequence {int(np.argmin(sizes))} of {name} is empty"
        raise DataError(what, remedy="leave sequences without a step out")
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


# Symbols.


def symbol_sequences(X: Any, lengths: Any = None, name: str = "X") -> tuple[Array, Sequences]:
    """The symbols of all sequences in one vector.

    A text is a sequence of characters; a flat list, a vector or a table of one column is one sequence, or several with
    `lengths`; a list of lists or vectors is one sequence each.

    >>> symbols, sequences = symbol_sequences([["a", "b"], ["b"]])
    >>> symbols.tolist(), sequences.first.tolist()
    (['a', 'b', 'b'], [0, 2, 3])
    """
    if sparse.issparse(X):
        raise DataTypeError(f"{name} is sparse", remedy=f"pass {name}.toarray()")
    if X is None:
        raise DataError(f"{name} is missing", remedy="pass a sequence of symbols or a list of them")
    if isinstance(X, str):
        X = list(X)
    if isinstance(X, list | tuple) and len(X) and any(_is_sequence(part) for part in X):
        _refuse_lengths(lengths)
        odd = next((s for s, part in enumerate(X) if not _is_sequence(part)), None)
        if odd is not None:
            what = f"{name} mixes sequences with single symbols (entry {odd} is {X[odd]!r})"
            raise DataError(what, remedy="pass one list per sequence, as in [['a', 'b'], ['b']]")
        parts = [_flat(part, f"sequence {s} of {name}") for s, part in enumerate(X)]
        first = _lengths(parts, name)
        kinds = {part.dtype.kind for part in parts}
        same = len(kinds) == 1 or kinds <= set("iuf")
        symbols = np.concatenate(parts if same else [part.astype(object) for part in parts])
        return _scalars(symbols, name), Sequences(first, in_list=True)
    symbols = _flat(X, name)
    if symbols.size == 0:
        raise DataError(f"{name} is an empty sequence: 0 sample(s)", remedy="pass at least one symbol")
    return _scalars(symbols, name), Sequences(offsets(lengths, symbols.size))


def _is_sequence(part: Any) -> bool:
    return isinstance(part, list | tuple) or (hasattr(part, "__array__") and len(getattr(part, "shape", ())) > 0)


def _flat(part: Any, name: str) -> Array:
    """One vector of symbols; text in lists stays beside numbers as it is."""
    if isinstance(part, list | tuple):
        array: Array = np.empty(len(part), dtype=object)
        array[:] = part
        plain = np.asarray(part) if all(type(one) in (int, float) for one in part) and len(part) else array
        exact = plain.dtype.kind == "i" or (plain.dtype.kind == "f" and not (np.abs(plain) >= 2**53).any())
        array = plain if exact else array
    else:
        array = np.asarray(part)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        what = f"{name} has the shape {array.shape}, but symbols are one column"
        raise DataError(what, remedy="pass one symbol per step, as a vector or a table of one column")
    if array.dtype.kind in "Mmc":
        raise DataTypeError(
            f"{name} contains dates, times or complex numbers", remedy="pass text or whole numbers as symbols"
        )
    return array


def _scalars(symbols: Array, name: str) -> Array:
    """Refuse what is no symbol."""
    if symbols.dtype.kind == "O":
        for t, value in enumerate(symbols):
            if not (pd.api.types.is_scalar(value) or value is None) or isinstance(value, complex):
                what = f"{name} contains a {type(value).__name__} at position {t}"
                raise DataTypeError(what, remedy="pass text or whole numbers as symbols")
    if symbols.dtype.kind == "f" and np.isinf(symbols).any():
        what = f"{name} contains inf at position {int(np.argmax(np.isinf(symbols)))}"
        raise DataError(what, remedy="pass NaN or None where a symbol is missing")
    return symbols


def encode(symbols: Array) -> tuple[Array, Array]:
    """The sorted symbols and each step's place among them, -1 where it is missing.

    >>> known, codes = encode(np.array(["b", None, "a"], dtype=object))
    >>> known.tolist(), codes.tolist()
    (['a', 'b'], [1, -1, 0])
    """
    if symbols.dtype.kind in "iu" and symbols.size:
        low, high = int(symbols.min()), int(symbols.max())
        if high - low < NEAR and high < 2**63:
            place = symbols.astype(np.int64) - low  # in 64 bits: a difference of int8 may not fit into int8
            there = np.bincount(place) > 0
            return (np.flatnonzero(there) + low).astype(np.int64), (np.cumsum(there) - 1)[place]
    missing = pd.isna(symbols)
    codes, known = pd.factorize(symbols)
    codes = np.where(missing, -1, codes).astype(np.int64)
    known = np.asarray(known)
    whole = known.dtype.kind == "f" and bool((known == np.round(known)).all())  # NaN made whole numbers floats
    known = known.astype(np.int64) if whole and np.abs(known).max(initial=0) < 2**53 else _plain(known)
    try:
        order = np.argsort(known, kind="stable")
    except TypeError:  # text beside numbers: in the order of their first use
        return known, codes
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1
    return known[order], rank[codes]


def _plain(labels: Array) -> Array:
    """Labels of one kind as an array of that kind, so that they are stored and printed as they were given."""
    if labels.dtype.kind == "O" and all(isinstance(one, str) for one in labels):
        return labels.astype(str) if labels.size else labels
    if labels.dtype.kind == "O" and all(type(one) is int and abs(one) < 2**53 for one in labels):
        return labels.astype(np.int64)  # a missing label beside them made them objects
    return labels


def known_labels(given: Any, parameter: str) -> Array:
    """Names given in advance, in their order.

    >>> known_labels(["hot", "cold"], "state_names").tolist()
    ['hot', 'cold']
    """
    labels = _plain(_flat(list(given), parameter))
    if labels.size == 0 or pd.isna(labels).any() or len(set(labels.tolist())) < labels.size:
        what = f"{parameter} = {listed(labels.tolist())} must have distinct names, none of them missing"
        raise ParameterError(what, remedy="pass each name once")
    return labels


def look_up(symbols: Array, known: Array, sequences: Sequences, *, what: str, remedy: str) -> Array:
    """Each step's place among known symbols, -1 where it is missing; a `DataError` names the first unknown one.

    >>> look_up(np.array([3, 1]), np.array([1, 3]), Sequences(np.array([0, 2])), what="symbol", remedy="").tolist()
    [1, 0]
    """
    if symbols.dtype.kind in "iu" and known.dtype.kind == "i" and known.size and symbols.size:
        low, high = int(known[0]), int(known[-1])
        all_there = high - low == known.size - 1 and bool((np.diff(known) == 1).all())
        if all_there and symbols.min() >= low and symbols.max() <= high:
            return symbols.astype(np.int64) - low
    codes = pd.Index(known).get_indexer(pd.Index(symbols)).astype(np.int64)
    unknown = (codes < 0) & ~pd.isna(symbols)
    if unknown.any():
        t = int(np.argmax(unknown))
        value = symbols[t].item() if isinstance(symbols[t], np.generic) else symbols[t]
        text = f"the {what} {value!r} at {sequences.place(t)} is unknown; known are {listed(known.tolist())}"
        if isinstance(value, str) and len(value) > 1 and set(value) <= set(known.tolist()):
            remedy = "if each text is a sequence of its own, pass [list(text) for text in X]"
        raise DataError(text, remedy=remedy)
    return codes


# Tables.


def as_tables(X: Any, lengths: Any = None) -> tuple[Any, Sequences | None]:
    """One table of all sequences; the second is None for a table, whose number of rows is not checked yet.

    A list of tables or vectors, or of nested lists, is one sequence each; a list of lists of numbers is a table.

    >>> as_tables([np.zeros((2, 3)), np.ones((1, 3))])[0].shape
    (3, 3)
    """
    if not (isinstance(X, list | tuple) and len(X) and _holds_tables(X[0])):
        return X, None
    _refuse_lengths(lengths)
    frames = all(hasattr(part, "columns") for part in X)  # of pandas, or of another package
    parts: list[Any] = [_frame(part) if frames else _table(part, s) for s, part in enumerate(X)]
    widths = [part.shape[1] for part in parts]
    odd = next((s for s, width in enumerate(widths) if width != widths[0]), None)
    if odd is not None:
        what = f"sequence {odd} has {widths[odd]} columns, sequence 0 has {widths[0]}"
        raise DataError(what, remedy="give all sequences the same columns")
    sequences = Sequences(_lengths(parts, "X"), in_list=True)
    return (pd.concat(parts, ignore_index=True) if frames else np.concatenate(parts)), sequences


def _holds_tables(part: Any) -> bool:
    if _is_sequence(part) and not isinstance(part, list | tuple):
        return True
    return isinstance(part, list | tuple) and len(part) > 0 and isinstance(part[0], list | tuple | np.ndarray)


def _frame(part: Any) -> pd.DataFrame:
    if isinstance(part, pd.DataFrame):
        return part
    return pd.DataFrame(np.asarray(part), columns=[str(name) for name in part.columns])


def _table(part: Any, s: int) -> Array:
    try:
        array = np.asarray(part)
    except ValueError as error:
        raise DataError(
            f"sequence {s} is ragged: its rows differ in length", remedy="give every row one number per column"
        ) from error
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise DataError(
            f"sequence {s} has {array.ndim} dimensions", remedy="pass one table per sequence, one row per step"
        )
    return array
