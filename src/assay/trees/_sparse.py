"""Tables of which only some cells are stored: every other cell is the number 0.

An explicit NaN is missing, as in a dense table; a cell that is not stored is 0 and never missing. A `SparseTable`
answers what growing and asking trees want of a dense table, so a fit to X equals one to X.toarray() to the last bit:

    X[rows]      some rows, sparse again          X[:, j]    a column, dense
    X[i, j]      single cells, dense              len(X), X.shape, X.size

Cells given twice add up in the order in which they are stored, as toarray() adds them, and stored zeros of either sign
are dropped: what is left is sorted, without repeats, and nowhere 0.

    bins         of a column come from its stored values and the number of zeros
    codes        a row begins as the codes of 0; the stored cells are written over it
    walks        rows are spread out in blocks of a megabyte or eight rows, and wiped by what was written

Cost: O(stored) for each of these, and O(n p) bytes for codes, which are dense. No n x p table of float64 is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from assay.errors import DataError, DataTypeError
from assay.numerics.jit import kernel
from assay.numerics.search import first_at_least

__all__ = ["SparseTable", "canonical", "dense_blocks", "write_codes"]

Array = np.ndarray
BLOCK_CELLS = 1 << 17
"""Numbers of a block of rows that are spread out: a megabyte."""


class SparseTable:
    """A validated table, float64 numbers by rows; the same by columns is made when first asked for.

    >>> X = SparseTable(canonical(sparse.coo_array([[0.0, 2.0], [3.0, 0.0]])))
    >>> X[:, 1], X[np.array([1]), np.array([0])], X[np.array([1])].shape
    (array([2., 0.]), array([3.]), (1, 2))
    """

    ndim = 2

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.shape: tuple[int, int] = rows.shape

    def __len__(self) -> int:
        """How many rows there are."""
        return self.shape[0]

    @property
    def size(self) -> int:
        """How many cells there are, stored or not."""
        return self.shape[0] * self.shape[1]

    def __getitem__(self, key: Any) -> Any:
        """Some rows, a whole column, or single cells by row and column."""
        if not isinstance(key, tuple):
            return SparseTable(self.rows[key])
        rows, columns = key
        if isinstance(rows, slice):
            out = np.zeros(self.shape[0])
            at, values = self.column(columns)
            out[at] = values
            return out[rows]
        cells = self.rows[rows, columns]
        return np.asarray(cells.toarray() if hasattr(cells, "toarray") else cells)  # by the version of scipy

    @cached_property
    def parts(self) -> tuple[Array, Array, Array]:
        """Values, columns (int32) and starts of the rows (int64): always of one type, so kernels compile once."""
        return _parts(self.rows)

    @cached_property
    def _by_column(self) -> tuple[Array, Array, Array]:
        return _parts(self.rows.tocsc())

    def column(self, j: int) -> tuple[Array, Array]:
        """The rows, ascending, and the values of the stored cells of a column."""
        values, rows, starts = self._by_column
        part = slice(int(starts[j]), int(starts[j + 1]))
        return rows[part], values[part]

    def with_columns(self, columns: dict[int, Array]) -> SparseTable:
        """The table with other, dense, columns in some places."""
        values, rows, starts = self._by_column
        ends = [0, *sorted(columns), self.shape[1]]
        pieces: list[tuple[Array, Array]] = []
        counts = np.diff(starts)
        for k, j in enumerate(ends[1:]):
            part = slice(int(starts[0 if k == 0 else ends[k] + 1]), int(starts[j]))
            pieces.append((rows[part], values[part]))
            if j < self.shape[1]:
                at = np.flatnonzero(columns[j])  # NaN too
                pieces.append((at.astype(np.int32), columns[j][at]))
                counts[j] = at.size
        data = np.concatenate([piece[1] for piece in pieces])
        indices = np.concatenate([piece[0] for piece in pieces])
        starts = np.concatenate([[0], np.cumsum(counts)])
        return SparseTable(sparse.csc_array((data, indices, starts), shape=self.shape).tocsr())


def _parts(table: Any) -> tuple[Array, Array, Array]:
    # A closed array is another type to the compiler.
    return (
        np.require(table.data, np.float64, ("C", "W")),
        np.require(table.indices, np.int32, ("C", "W")),
        np.require(table.indptr, np.int64, ("C", "W")),
    )


def canonical(X: Any) -> Any:
    """Any sparse matrix or array of real numbers by rows, sorted, each cell once, float64, zeros dropped.

    What may be shared with X is; X itself stays as it is.

    >>> canonical(sparse.coo_array(([1, 2, 0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))).toarray().tolist()
    [[0.0, 3.0], [0.0, 0.0]]
    """
    if X.dtype.kind not in "biuf":
        what = f"X is sparse and contains {X.dtype}, not numbers"
        raise DataTypeError(what, remedy="pass X.astype(float)")
    if X.format in ("csr", "csc"):
        _refuse_broken(X)
    if X.format in ("csr", "csc") and X.has_canonical_format:
        rows = X.tocsr()
        stored = int(rows.indptr[-1])
        values, columns, starts = rows.data[:stored], rows.indices[:stored], rows.indptr
    else:
        values, columns, starts = _added(X)
    with np.errstate(over="ignore"):  # a long double beyond the range becomes infinite, and that is said
        values = values.astype(np.float64, copy=False)
    keep = values != 0.0  # NaN too
    if not keep.all():
        starts = np.concatenate([[0], np.cumsum(keep)])[starts]
        values, columns = values[keep], columns[keep]
    small = np.int32 if max(values.size, *X.shape) < 2**31 else np.int64  # some learners take no others
    parts = (values, columns.astype(small, copy=False), starts.astype(small, copy=False))
    return sparse.csr_array(parts, shape=X.shape)


def _refuse_broken(X: Any) -> None:
    """Cells outside the table, which would be read and written elsewhere in memory."""
    starts = X.indptr
    major, minor = X.shape if X.format == "csr" else X.shape[::-1]
    right = starts.size == major + 1 and starts[0] == 0 and (np.diff(starts) >= 0).all()
    right = right and starts[-1] <= min(X.indices.size, X.data.size)
    places = X.indices[: starts[-1]] if right else X.indices[:0]
    if not right or (places.size and not 0 <= places.min() <= places.max() < minor):
        what = f"X is sparse ({X.format}) and its indices or indptr do not match its shape {X.shape}"
        raise DataError(what, remedy="build it again, and call its check_format(full_check=True)")


def _added(X: Any) -> tuple[Array, Array, Array]:
    """Values, columns and starts of the rows; cells given twice are added in the order and the type of storage."""
    if X.format in ("csr", "csc"):
        stored = int(X.indptr[-1])
        along = np.repeat(np.arange(X.indptr.size - 1), np.diff(X.indptr))
        across, data = X.indices[:stored], X.data[:stored]
        row, column = (along, across) if X.format == "csr" else (across, along)
    else:
        cells = X.tocoo()
        row, column, data = cells.row, cells.col, cells.data
    order = np.lexsort((column, row))
    row, column, data = row[order], column[order], data[order]
    first = np.ones(data.size, dtype=bool)
    first[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    if not first.all():
        total = np.zeros(np.count_nonzero(first), dtype=data.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(total, np.cumsum(first) - 1, data)
        row, column, data = row[first], column[first], total
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=X.shape[0]))])
    return data, column, starts


def dense_blocks(X: Any, low: int, high: int) -> Iterator[tuple[int, Array]]:
    """Rows from `low` to `high` as (number of the first, dense rows): all at once if X is dense, else some at a time.

    A block of a sparse table is written over by the next; it holds an even number of rows but for the last.

    >>> [(at, block.tolist()) for at, block in dense_blocks(SparseTable(canonical(sparse.eye_array(3))), 1, 3)]
    [(1, [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])]
    """
    if not isinstance(X, SparseTable):
        yield low, np.ascontiguousarray(X[low:high])
        return
    p = X.shape[1]
    height = max(1, min(max(8, BLOCK_CELLS // p // 8 * 8), high - low))
    room = np.zeros((height, p))
    for begin in range(low, high, height):
        end = min(high, begin + height)
        _spread(*X.parts, begin, end, True, room)
        yield begin, room[: end - begin]
        _spread(*X.parts, begin, end, False, room)


@kernel
def _spread(values: Array, columns: Array, starts: Array, low: int, high: int, there: bool, out: Array) -> None:
    """Write stored cells into a table of zeros, or zeros over them."""
    for i in range(low, high):
        for k in range(starts[i], starts[i + 1]):
            out[i - low, columns[k]] = values[k] if there else 0.0


@kernel(exact=True)
def write_codes(
    values: Array, columns: Array, starts: Array, low: int, high: int, cuts: Array, first: Array, n_bins: Array,
    categorical: Array, zero: Array, codes: Array,
) -> None:  # fmt: skip
    """Codes of some rows: those of 0, and over them those of the stored cells. See `_binning` for what a code is."""
    for i in range(low, high):
        codes[i, :] = zero
        for k in range(starts[i], starts[i + 1]):
            x, j = values[k], columns[k]
            missing = np.int64(n_bins[j])
            if x != x:
                codes[i, j] = missing
            elif categorical[j]:
                codes[i, j] = min(np.int64(x), missing - 1) if x >= 0.0 else missing
            else:
                codes[i, j] = first_at_least(cuts, first[j], first[j + 1], x) - first[j]
