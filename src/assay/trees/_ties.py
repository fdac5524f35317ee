"""Which of several equally good splits is taken: that of the column which comes first in an order drawn for each tree.

A node of two rows is parted as well by any column in which they differ, and small nodes have many such ties. A search
over all columns that always took the first of them would make the trees of an ensemble alike and give the first columns
an importance they do not have. A tree that draws some columns at each node draws their order with them; one of an
ensemble that looks at all of them looks at them in an order of its own.
"""

from __future__ import annotations

import numpy as np

__all__ = ["drawn_order"]

Array = np.ndarray
TIES = 4
"""The stream of random numbers that draws the order of columns."""


def drawn_order(seed: int, p: int) -> Array:
    """An order of p columns that belongs to a tree's seed.

    >>> sorted(drawn_order(0, 4).tolist())
    [0, 1, 2, 3]
    """
    return np.random.default_rng((seed, TIES)).permutation(p)
