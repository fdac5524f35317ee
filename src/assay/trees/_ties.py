"""Which of several equally good splits is taken: that of the column which comes first in an order drawn for each tree.

A node of two rows is parted as well by any column in which they differ, and small nodes have many such ties. A search
over all columns that always took the first of them would make the trees of an ensemble alike and give the first columns
an importance they do not have. A tree that draws some columns at each node draws their order with them; one that looks
at all of them is grown on a table whose columns are shuffled, and afterwards its nodes get their own columns back.

Cost: one copy of the binned table for each tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from assay.trees._binning import Bins, Codes
from assay.trees._nodes import Nodes

__all__ = ["TIES", "drawn_order", "in_drawn_order"]

Array = np.ndarray
TIES = 4
"""The stream of random numbers that draws the order of columns."""


def drawn_order(seed: int, p: int) -> Array:
    """An order of p columns that belongs to a tree's seed.

    >>> sorted(drawn_order(0, 4).tolist())
    [0, 1, 2, 3]
    """
    return np.random.default_rng((seed, TIES)).permutation(p)


def in_drawn_order(codes: Codes, monotone: Array, seed: int, grow: Callable[[Codes, Array], Nodes]) -> Nodes:
    """The tree that `grow` makes of a binned table and its constraints, its columns looked at in a drawn order."""
    bins, p = codes.bins, codes.values.shape[1]
    columns = drawn_order(seed, p)
    cuts = [bins.cuts[bins.starts[j] : bins.starts[j + 1]] for j in columns]
    moved = Bins(
        cuts=np.concatenate(cuts),
        starts=np.append(0, np.cumsum([part.size for part in cuts])).astype(bins.starts.dtype),
        n_bins=bins.n_bins[columns],
        levels=bins.levels[columns],
    )
    tree = grow(Codes(np.take(codes.values, columns, axis=1), moved), monotone[columns])
    return replace(tree, feature=np.where(tree.feature < 0, tree.feature, columns[tree.feature]).astype(np.int32))
