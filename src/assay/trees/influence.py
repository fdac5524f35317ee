"""Relative influence: which columns a boosted ensemble owes its fit to.

    I_j = sum of the gains of all splits on column j,      in per cent of the sum over all columns

A gain is what a split saves of the training loss (of its second-order expansion, before shrinkage). The figures
describe the fit on its own training rows, so noise has its share and columns with many values are favoured; what a
column is worth on new rows is a question for permutation importance.
Friedman (2001), Annals of Statistics 29, 1189-1232, section 8.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from assay.numbers import fmt
from assay.results import Result
from assay.trees.nodes import LEAF, Nodes

__all__ = ["RelativeInfluence", "gains", "influence_of"]

Array = np.ndarray
SHOWN = 20
"""How many columns are printed; the frame holds all."""


@dataclass(frozen=True, eq=False, repr=False)
class RelativeInfluence(Result):
    """The share of each column in what the trees saved, in per cent, in the order of the columns.

    | field     | meaning                                                             |
    |-----------|---------------------------------------------------------------------|
    | names     | the columns                                                         |
    | influence | summed gains in per cent; they add up to 100 (all 0 without splits) |
    | gain      | summed gains in units of the loss                                   |
    | splits    | how many splits each column has                                     |
    | model     | the ensemble                                                        |
    | trees     | how many trees it has                                               |
    """

    names: tuple[str, ...]
    influence: Array
    gain: Array
    splits: Array
    model: str
    trees: int

    @property
    def order(self) -> Array:
        """Positions of the columns, the most influential first."""
        return np.argsort(-self.influence, kind="stable")

    def to_frame(self) -> pd.DataFrame:
        """One row per column, the most influential first: influence, gain, splits."""
        columns = {"influence": self.influence, "gain": self.gain, "splits": self.splits}
        return pd.DataFrame(columns, index=pd.Index(self.names, name="column")).iloc[self.order]

    def __str__(self) -> str:
        title = f"Relative influence of {len(self.names)} columns in {self.model}, {self.trees} trees"
        frame = self.to_frame().head(SHOWN)
        body = frame.to_string(float_format=fmt, index_names=False).splitlines()
        rest = len(self.names) - len(frame)
        tail = [f"and {rest} less influential columns"] if rest > 0 else []
        rule = "-" * max(len(line) for line in [title, *body])
        note = "Per cent of the training loss saved by splits; it says nothing about new rows."
        return "\n".join([title, rule, *body, *tail, rule, note])


def gains(nodes: Nodes, columns: int) -> Array:
    """The summed gain of each column."""
    inner = nodes.feature != LEAF
    return np.bincount(nodes.feature[inner], weights=nodes.gain[inner], minlength=columns)


def influence_of(nodes: Nodes, names: Sequence[str], model: str) -> RelativeInfluence:
    """The relative influence of every column of an ensemble."""
    gain = gains(nodes, len(names))
    total = gain.sum()
    splits = np.bincount(nodes.feature[nodes.feature != LEAF], minlength=len(names))
    share = 100.0 * gain / total if total > 0 else np.zeros(len(names))
    return RelativeInfluence(tuple(names), share, gain, splits, model, nodes.trees)
