"""What k-means says beside its labels: variation within clusters and the local optima of its starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from assay.numbers import fmt
from assay.results import Result
from assay.state import Specs, array, bools, floats, ints

__all__ = ["ClusterVariation", "Starts"]

Array = np.ndarray
SAME = 1e-6
"""Inertias that differ by a smaller share belong to one optimum."""


@dataclass(frozen=True, eq=False, repr=False)
class ClusterVariation(Result):
    """How far rows are from each other within each cluster, under both definitions in use.

        inertia_k    = sum_{i in k} w_i |x_i - mean_k|^2
        over pairs_k = (1/w_k) sum_{i, j in k} w_i w_j |x_i - x_j|^2 = 2 inertia_k,    w_k = sum_{i in k} w_i

    | field   | meaning                                         |
    |---------|-------------------------------------------------|
    | sizes   | number of rows                                  |
    | weight  | their weight                                    |
    | inertia | sum of squared distances to the cluster's mean  |
    """

    sizes: Array
    weight: Array
    inertia: Array

    state: ClassVar[Specs] = {"sizes": ints("k"), "weight": floats("k", low=0), "inertia": floats("k", low=0)}

    @property
    def over_pairs(self) -> Array:
        """Variation over all ordered pairs, cluster by cluster: twice the inertia."""
        return 2.0 * self.inertia

    @property
    def total_inertia(self) -> float:
        """Sum of squared distances to the means."""
        return float(self.inertia.sum())

    @property
    def total_over_pairs(self) -> float:
        """Within-cluster variation over all ordered pairs."""
        return float(self.over_pairs.sum())

    def to_frame(self) -> pd.DataFrame:
        """One row per cluster."""
        columns = {"rows": self.sizes, "weight": self.weight, "inertia": self.inertia, "over_pairs": self.over_pairs}
        columns["mean_square"] = self.inertia / np.where(self.weight > 0, self.weight, 1.0)
        if np.array_equal(self.sizes, self.weight):
            del columns["weight"]
        return pd.DataFrame(columns, index=pd.RangeIndex(len(self.sizes), name="cluster"))

    def __str__(self) -> str:
        title = f"Within-cluster variation of {len(self.sizes)} clusters, {int(self.sizes.sum()):,} rows"
        table = self.to_frame().to_string(float_format=lambda value: fmt(value, 5)).splitlines()
        rule = "-" * max(len(line) for line in [title, *table])
        last = (
            f"inertia {fmt(self.total_inertia, 6)} (squared distances to the means); over pairs "
            f"{fmt(self.total_over_pairs, 6)} (1/n_k sum of |x_i - x_j|^2, twice the inertia)"
        )
        return "\n".join([title, rule, *(line.rstrip() for line in table), rule, last])


@dataclass(frozen=True, eq=False, repr=False)
class Starts(Result):
    """Where each start of an iterative search has led: its objective, iterations and whether it converged.

    Objectives that agree to a millionth are taken as one local optimum; `share` is the part of the starts that found
    the best one. Where it is small the search has probably not seen the best yet.
    """

    inertia: Array
    n_iter: Array
    converged: Array

    state: ClassVar[Specs] = {
        "inertia": floats("s", low=0),
        "n_iter": array(np.int64, "s", low=0),
        "converged": bools("s"),
    }

    @property
    def optimum(self) -> Array:
        """The number of the local optimum that each start found, 0 for the best."""
        order = np.argsort(self.inertia, kind="stable")
        ordered = self.inertia[order]
        number = np.concatenate([[0], np.cumsum(np.diff(ordered) > SAME * ordered[1:])])
        out = np.empty(len(order), dtype=np.int64)
        out[order] = number
        return out

    @property
    def n_optima(self) -> int:
        """How many different optima were found."""
        return int(self.optimum.max()) + 1

    @property
    def share(self) -> float:
        """The part of the starts that led to the best optimum."""
        return float(np.mean(self.optimum == 0))

    def to_frame(self) -> pd.DataFrame:
        """One row per start, in the order in which they ran."""
        columns = {"inertia": self.inertia, "optimum": self.optimum, "n_iter": self.n_iter, "converged": self.converged}
        return pd.DataFrame(columns, index=pd.RangeIndex(len(self.inertia), name="start"))

    def __str__(self) -> str:
        n, optima = len(self.inertia), self.n_optima
        title = f"{n} start{'s' if n > 1 else ''}, {optima} local optim{'a' if optima > 1 else 'um'}"
        frame = self.to_frame().groupby("optimum")
        rows = [
            (fmt(part["inertia"].min(), 6), len(part), f"{part['n_iter'].min()} to {part['n_iter'].max()}")
            for _, part in frame
        ]
        table = pd.DataFrame(rows, columns=["inertia", "starts", "iterations"]).head(10)
        shown = table.to_string(index=False).splitlines()
        more = [f"... and {optima - 10} more"] if optima > 10 else []
        rule = "-" * max(len(line) for line in [title, *shown])
        return "\n".join([title, rule, *shown, *more])
