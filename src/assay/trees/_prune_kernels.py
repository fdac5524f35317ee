"""Passes over the nodes of a tree that is being pruned (see `_prune`): prices upwards, answers downwards.

Children stand after their parents, so one pass over the nodes, forwards or backwards, meets each after all above or
below it. Prices of a subtree wait in a pairing heap: two subtrees' heaps become one in O(1), the dearest leaves it in
O(log n) on average. Fredman, Sedgewick, Sleator and Tarjan (1986), Algorithmica 1, 111-129.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel

__all__ = ["TIE", "add_losses", "collapse_all", "inherit", "stand"]

Array = np.ndarray
TIE = 1e-12
"""Prices closer than this share of themselves are one price; a split that saves less of its node's risk saves none."""


@kernel
def stand(first: Array, count: Array, stops: Array, standing: Array) -> None:
    """Mark the nodes that are reached from the root through nodes that split."""
    standing[0] = True
    for t in range(first.size):
        if standing[t] and not stops[t]:
            for child in range(first[t], first[t] + count[t]):
                standing[child] = True


@kernel(exact=True, inline=True)
def _meld(a: int, b: int, key: Array, child: Array, sibling: Array) -> int:
    """Two heaps as one; -1 is the empty heap."""
    if a < 0:
        return b
    if b < 0:
        return a
    if key[b] > key[a]:
        a, b = b, a
    sibling[b] = child[a]
    child[a] = b
    return a


@kernel(exact=True, inline=True)
def _pop(head: int, key: Array, child: Array, sibling: Array) -> int:
    """The heap without its largest: its children melded in pairs from the left, then all from the right."""
    none: Any = np.int64(-1)  # a literal would be another type, compiled anew
    pairs = none
    node = child[head]
    child[head] = -1
    while node >= 0:
        other = sibling[node]
        after = none
        if other >= 0:
            after = sibling[other]
            sibling[other] = -1
        sibling[node] = -1
        both = _meld(node, other, key, child, sibling)
        sibling[both] = pairs
        pairs = both
        node = after
    whole = none
    while pairs >= 0:
        after = sibling[pairs]
        sibling[pairs] = -1
        whole = _meld(whole, pairs, key, child, sibling)
        pairs = after
    return whole


@kernel(exact=True)
def collapse_all(
    first: Array,
    count: Array,
    risk: Array,
    at: Array,
    below: Array,
    leaves: Array,
    splits: Array,
    live: Array,
    child: Array,
    sibling: Array,
) -> None:
    """Fill `at` from the leaves up; `below`, `leaves`, `splits` describe the subtree just before a node collapses."""
    for t in range(first.size - 1, -1, -1):
        if count[t] == 0:
            continue
        none: Any = np.int64(-1)  # a literal would be another type, compiled anew
        head, rest, size, inner = none, 0.0, count[t], 1
        for c in range(first[t], first[t] + count[t]):
            rest += risk[c]
            if count[c] > 0:
                head = _meld(head, c, at, child, sibling)
        while True:
            saved = risk[t] - rest
            price = saved / (size - 1) if saved > TIE * risk[t] else 0.0
            if head < 0 or at[head] <= price:
                break
            # This descendant still splits when t collapses.
            live[head] = False
            rest -= risk[head] - below[head]
            size += leaves[head] - 1
            inner += splits[head]
            head = _pop(head, at, child, sibling)
        at[t], below[t], leaves[t], splits[t] = price, rest, size, inner
        live[t] = True
        child[t] = head  # every price in it is at most that of t


@kernel
def inherit(first: Array, count: Array, low: Array, high: Array) -> None:
    """A child answers only for prices at which no node above it does."""
    for t in range(first.size):
        for c in range(first[t], first[t] + count[t]):
            high[c] = min(high[t], low[t])


@kernel
def add_losses(
    leaf: Array,
    y: Array,
    w: Array,
    parent: Array,
    low: Array,
    high: Array,
    table: Array,
    loss: int,
    unit: float,
    sums: Array,
) -> None:
    """Walk each row from its leaf to the root and enter the loss of every node that answers for some price."""
    for i in range(leaf.size):
        node = np.int64(leaf[i])
        while node >= 0:
            if low[node] < high[node]:
                if loss == 3:
                    e = table[node, np.int64(y[i])]
                else:
                    v = table[node, 0]
                    if loss == 0:
                        e = (unit * (y[i] - v)) ** 2
                    elif loss == 1:
                        e = unit * abs(y[i] - v)
                    else:
                        e = unit * (v - y[i] + (y[i] * np.log(y[i] / v) if y[i] > 0 else 0.0))
                sums[0, low[node]] += w[i] * e
                sums[0, high[node]] -= w[i] * e
                sums[1, low[node]] += w[i] * e * e
                sums[1, high[node]] -= w[i] * e * e
            node = parent[node]
