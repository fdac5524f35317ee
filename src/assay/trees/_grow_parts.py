"""One large tree by several threads: the top first, then every branch by a kernel call of its own, then all joined.

Nodes are numbered depth first, so that below its root a branch is one stretch of numbers and of words of categories.
The joined tree is the tree of a single call, bit for bit: a node depends on its rows alone, where no columns are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from assay.numerics.jit import kernel
from assay.trees._grow_kernel import ASIDE
from assay.trees._grow_node import BEGIN, CHILD, END, FEATURE, LEVELS, OFFSET

__all__ = ["Grown", "join", "left_aside"]

Array = np.ndarray


class Grown(NamedTuple):
    """A tree as it grew: whole numbers, reals and values of its nodes (see `_grow_node`), words of its categories."""

    ints: Array
    reals: Array
    value: Array
    words: Array


def left_aside(top: Grown) -> Array:
    """The nodes that were left for calls of their own, the largest first."""
    marked = np.flatnonzero(top.ints[:, CHILD] == ASIDE)
    return marked[np.argsort(top.ints[marked, BEGIN] - top.ints[marked, END], kind="stable")]


def join(top: Grown, marked: Array, branches: Sequence[Grown], info: Array) -> Grown:
    """The top with a branch grown onto each marked node, numbered as by a single call."""
    sizes = np.array([branch.ints.shape[0] for branch in branches], dtype=np.int64)
    used = np.array([branch.words.size for branch in branches], dtype=np.int64)
    branch_at = np.full(top.ints.shape[0], -1)
    branch_at[marked] = np.arange(marked.size)
    size = top.ints.shape[0] + int((sizes - 1).sum())
    words = np.empty(top.words.size + int(used.sum()), dtype=np.uint32)
    number = np.zeros(top.ints.shape[0], dtype=np.int64)
    before = np.empty((marked.size, 2), dtype=np.int64)
    ints = top.ints.copy()
    _number(ints, branch_at, sizes, used, info, top.words, number, before, words)
    whole, reals, value = (np.empty((size, part.shape[1]), part.dtype) for part in top[:3])
    out = Grown(whole, reals, value, words)
    for all_rows, part in zip(out[:3], (ints, top.reals, top.value), strict=True):
        all_rows[number] = part
    for t, branch, (nodes, start) in zip(marked, branches, before, strict=True):
        below = branch.ints.copy()
        below[below[:, CHILD] > 0, CHILD] += nodes
        below[below[:, OFFSET] >= 0, OFFSET] += start
        for all_rows, part in zip(out[:3], (below, branch.reals, branch.value), strict=True):
            all_rows[number[t]] = part[0]
            all_rows[nodes + 1 : nodes + part.shape[0]] = part[1:]
        words[start : start + branch.words.size] = branch.words
    return out


@kernel
def _number(
    ints: Array,
    branch_at: Array,
    sizes: Array,
    used: Array,
    info: Array,
    old: Array,
    number: Array,
    before: Array,
    words: Array,
) -> None:
    """Depth first through the top: new numbers of its nodes, and how many nodes and words stand before each branch.

    `ints` gets the new numbers of children and places of words. `before` is such that a branch's node k is node
    before + k of the whole tree.
    """
    stack = np.empty(ints.shape[0], dtype=np.int64)
    stack[0] = 0
    waiting = 1
    size = 1
    at = 0
    while waiting > 0:
        waiting -= 1
        t = stack[waiting]
        k = branch_at[t]
        child = np.int64(ints[t, CHILD])
        if k >= 0:
            before[k, 0] = size - 1
            before[k, 1] = at
            size += sizes[k] - 1
            at += used[k]
        elif child > 0:
            if ints[t, OFFSET] >= 0:
                start = np.int64(ints[t, OFFSET])
                ints[t, OFFSET] = at
                for i in range((info[ints[t, FEATURE], LEVELS] + 31) // 32):
                    words[at] = old[start + i]
                    at += 1
            number[child] = size
            number[child + 1] = size + 1
            ints[t, CHILD] = size
            size += 2
            stack[waiting] = child + 1
            stack[waiting + 1] = child
            waiting += 2
