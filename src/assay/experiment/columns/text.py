"""Words of a text column as numbers: tf-idf of the most frequent words.

    weight(w, cell) = tf(w, cell) * (1 + log((1 + n) / (1 + df(w)))),   each row divided by its length

over the `size` words that occur in most training cells (in at least two, in fewer than all; ties go by the alphabet).
The weights are learned from training rows only. Cost: one pass over the letters. Salton & Buckley (1988), Information
Processing & Management 24, 513-523.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from assay.state import Specs, Stateful, floats, need

__all__ = ["Words", "split_words"]

Array = np.ndarray
WORD = re.compile(r"\w{2,40}")


def split_words(cell: Any) -> list[str]:
    """The words of a cell in small letters; none where it is missing.

    >>> split_words("A warm, sunny Room"), split_words(None)
    (['warm', 'sunny', 'room'], [])
    """
    if cell is None or cell != cell:  # NaN is the one value that differs from itself
        return []
    return WORD.findall(str(cell).lower())


@dataclass(frozen=True, eq=False)
class Words(Stateful):
    """A vocabulary and the inverse document frequency of each of its words.

    >>> words = Words.learn([["red", "car"], ["red", "bike"], ["car"]], size=10)
    >>> words.vocabulary
    ('car', 'red')
    >>> words.weigh([["red", "red", "car"]]).round(3).tolist()
    [[0.447, 0.894]]
    """

    vocabulary: tuple[str, ...]
    idf: Array

    state: ClassVar[Specs] = {"idf": floats("words", low=0)}

    def _check_state(self) -> None:
        need(len(self.idf) == len({*self.vocabulary}) == len(self.vocabulary), "its words repeat")

    @classmethod
    def learn(cls, cells: list[list[str]], size: int) -> Words:
        """The vocabulary of some cells, each given as its list of words."""
        counts = Counter(word for cell in cells for word in set(cell))
        common = [(-count, word) for word, count in counts.items() if 2 <= count < len(cells)]
        chosen = sorted(word for _, word in sorted(common)[:size])
        frequency = np.array([counts[word] for word in chosen], dtype=np.float64)
        return cls(tuple(chosen), 1 + np.log((1 + len(cells)) / (1 + frequency)))

    def weigh(self, cells: list[list[str]]) -> Array:
        """The weights of each cell's words; a cell without known words is a row of zeros."""
        place = {word: j for j, word in enumerate(self.vocabulary)}
        out = np.zeros((len(cells), len(place)))
        if not place:
            return out
        hits = [(i, place[word]) for i, cell in enumerate(cells) for word in cell if word in place]
        if hits:
            rows, columns = np.array(hits).T
            np.add.at(out, (rows, columns), 1.0)
        out *= self.idf
        length = np.sqrt(np.einsum("ij,ij->i", out, out))
        return np.asarray(out / np.where(length > 0, length, 1.0)[:, None])
