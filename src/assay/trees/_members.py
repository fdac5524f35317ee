"""The trees of a forest one by one, as fitted single trees.

All nodes of a forest stand in one set of arrays. A tree of its own is a view into them with what the forest knows of
the table beside it, made when it is asked for: a list of B trees costs nothing until one is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, overload

import numpy as np

from assay.trees.nodes import Nodes

__all__ = ["Members", "alone", "fitted_like"]

Tree = TypeVar("Tree")
KNOWN = ("n_features_in_", "feature_names_in_", "levels_", "ordered_", "_truths", "max_features_", "classes_")
"""What a forest knows of its table, and each of its trees with it."""
NO_BINS = ("max_bins", None)


class Members(Sequence[Tree], Generic[Tree]):
    """A sequence that makes its k-th tree anew each time somebody asks for it.

    >>> squares = Members(3, lambda k: k * k)
    >>> squares[-1], squares[:2], list(squares), len(squares)
    (4, [0, 1], [0, 1, 4], 3)
    >>> squares
    <3 fitted trees, made when asked for: [0] is 0>
    """

    def __init__(self, size: int, make: Callable[[int], Tree]) -> None:
        self._size, self._make = size, make

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, k: int) -> Tree: ...
    @overload
    def __getitem__(self, k: slice) -> list[Tree]: ...
    def __getitem__(self, k: int | slice) -> Tree | list[Tree]:
        """Tree k, or a list of some."""
        places = range(self._size)[k]
        return [self._make(place) for place in places] if isinstance(places, range) else self._make(places)

    def __iter__(self) -> Iterator[Tree]:
        return map(self._make, range(self._size))

    def __repr__(self) -> str:
        return f"<{self._size} fitted trees, made when asked for: [0] is {self[0]!r}>"


def alone(nodes: Nodes, k: int) -> Nodes:
    """Tree k on its own, with the words of its own categories only, so that it can be pruned and stored by itself."""
    tree = nodes.tree(k)
    mine = tree.offset[tree.offset >= 0]
    if not mine.size:
        return replace(tree, words=nodes.words[:0])
    # The words of the trees stand one after the other, as the trees do.
    later = nodes.offset[int(nodes.starts[k + 1]) :]
    later = later[later >= 0]
    begin, end = int(mine.min()), int(later.min()) if later.size else nodes.words.size
    return replace(tree, words=nodes.words[begin:end], offset=np.where(tree.offset >= 0, tree.offset - begin, -1))


def fitted_like(forest: Any, kind: Callable[..., Any], k: int) -> Any:
    """Tree k of a fitted forest as a fitted tree of a kind, with the forest's parameters where it has the same ones."""
    own = {"max_features": int(forest.max_features_), "random_state": int(forest.seeds_[k]), "n_jobs": None}
    tree = kind(**own)
    for name, value in forest.get_params(deep=False).items():
        # Weights of classes are in the rows the tree was given; max_bins=None is a forest's word.
        if name in tree.get_params() and name not in own and name != "class_weight" and (name, value) != NO_BINS:
            setattr(tree, name, value)
    for name in KNOWN:
        if hasattr(forest, name):
            setattr(tree, name, getattr(forest, name))
    tree.nodes_ = alone(forest.nodes_, k)
    return tree
