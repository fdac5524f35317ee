"""Where the nodes of a tree stand, so that nothing covers anything.

Across the tree (x in a tree that hangs down) every subtree has a contour, its leftmost and rightmost reach at each
depth. Siblings move together until their contours stand a gap apart, and a parent stands in the middle of its first
and last child (Reingold and Tilford 1981, IEEE Trans. Softw. Eng. 7, 223-228, for nodes of any width and any number
of children). Where branches have lengths of their own depth means nothing, and a subtree is one solid block.

Along the tree each depth has a band as thick as its thickest node, with a channel before it for edges and their
labels. Cost: O(nodes x depth).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["across", "along"]

Array = np.ndarray


def across(children: Sequence[Sequence[int]], breadth: Array, gap: float, *, solid: bool = False) -> Array:
    """Centres of the nodes across the tree, from 0 on; children are numbered after their parents.

    `breadth` is what each node needs across the tree, `gap` stays free between neighbours, and `solid` subtrees never
    reach under each other.
    """
    size = len(children)
    shift = np.zeros(size)  # of each node against its parent
    reach: list[tuple[Array, Array]] = [(np.empty(0), np.empty(0))] * size
    for v in range(size - 1, -1, -1):
        half = np.array([breadth[v] / 2])
        low, high = -half, half
        if children[v]:
            left, right, places = _beside([reach[c] for c in children[v]], gap)
            middle = (places[0] + places[-1]) / 2
            shift[list(children[v])] = np.array(places) - middle
            low, high = np.concatenate([-half, left - middle]), np.concatenate([half, right - middle])
            for c in children[v]:
                reach[c] = (low[:0], high[:0])  # no longer needed
        reach[v] = (low.min(keepdims=True), high.max(keepdims=True)) if solid else (low, high)
    centre = np.zeros(size)
    for v in range(size):
        for c in children[v]:
            centre[c] = centre[v] + shift[c]
    return centre - reach[0][0].min()


def _beside(contours: Sequence[tuple[Array, Array]], gap: float) -> tuple[Array, Array, list[float]]:
    """Subtrees as close together as the gap allows: their common contour, and where their roots stand."""
    left, right = contours[0]
    places = [0.0]
    for low, high in contours[1:]:
        common = min(right.size, low.size)
        at = float(np.max(right[:common] - low[:common])) + gap
        places.append(at)
        left = np.concatenate([left, low[left.size :] + at])
        right = np.concatenate([high + at, right[high.size :]])
    return left, right, places


def along(
    parent: Sequence[int], depth: Array, thickness: Array, channel: Array, length: Array | None = None
) -> tuple[Array, Array]:
    """Where each node begins along the tree, and where the channel behind it begins.

    `channel[v]` is the room that edge and label need before node v. Without `length` all nodes of a depth begin at
    the same place, and behind the thickest of them their channel; with it node v stands that much further from its
    parent.
    """
    start, end = np.zeros(len(parent)), np.zeros(len(parent))
    if length is None:
        edge = 0.0
        for d in range(int(depth.max(initial=0)) + 1):
            here = depth == d
            edge += float(channel[here].max()) if d else 0.0
            start[here] = edge
            edge += float(thickness[here].max())
            end[here] = edge
        return start, end
    for v in range(1, len(parent)):
        start[v] = start[parent[v]] + thickness[parent[v]] + channel[v] + length[v]
    return start, start + thickness
