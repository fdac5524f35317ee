"""How a solver went: objective, KKT violation, rows at work, kernel values and seconds, and a picture of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd

from assay.margin._dual import Records
from assay.numbers import fmt
from assay.results import Result
from assay.state import Specs, values

__all__ = ["SolverComparison", "SolverTrace", "trace_of"]

Array = np.ndarray
COLUMNS = ("step", "objective", "violation", "working", "evaluations", "seconds")


@dataclass(frozen=True, eq=False, repr=False)
class SolverTrace(Result):
    """One solver's way to the optimum, one entry for each look at it.

    | field       | meaning                                                                              |
    |-------------|--------------------------------------------------------------------------------------|
    | solver      | its name                                                                             |
    | step        | steps so far: pairs, coordinates, rows or Newton's steps                             |
    | objective   | the dual objective D, which rises (of "sgd" and "newton" minus the primal)           |
    | violation   | KKT violation met (of "newton" the gradient, of "interior_point" the gap)            |
    | working     | rows at work                                                                         |
    | evaluations | kernel values computed so far (0 for linear machines)                                |
    | seconds     | since the start                                                                      |
    | gap         | duality gap at the end                                                               |
    | converged   | whether the tolerance was met                                                        |
    """

    solver: str
    step: Array
    objective: Array
    violation: Array
    working: Array
    evaluations: Array
    seconds: Array = field(compare=False)
    gap: float
    converged: bool

    state: ClassVar[Specs] = dict.fromkeys(COLUMNS, values("looks"))

    @property
    def n_iter(self) -> int:
        """Steps made."""
        return int(self.step[-1])

    def to_frame(self) -> pd.DataFrame:
        """One row per look."""
        return pd.DataFrame({name: getattr(self, name) for name in COLUMNS})

    def __str__(self) -> str:
        done = "converged" if self.converged else "not converged"
        kernel = f", {int(self.evaluations[-1]):,} kernel values" if self.evaluations[-1] else ""
        return (
            f"{self.solver}: {done} after {self.n_iter:,} steps{kernel}, "
            f"objective {fmt(self.objective[-1], 6)}, duality gap {fmt(self.gap, 3)}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class SolverComparison(Result):
    """Traces of several solvers of one problem, by name, to be drawn together.

    >>> from assay.margin import SVC
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> traces = {s: SVC(solver=s).fit(X, y).trace_ for s in ("smo", "working_set")}
    >>> list(SolverComparison(traces).to_frame().columns[:3])
    ['solver', 'step', 'objective']
    """

    traces: Mapping[str, SolverTrace]

    def to_frame(self) -> pd.DataFrame:
        """One row per look of each solver."""
        parts = [trace.to_frame().assign(solver=name) for name, trace in self.traces.items()]
        table = pd.concat(parts, ignore_index=True)
        return table[["solver", *COLUMNS]]

    def __str__(self) -> str:
        width = max(len(name) for name in self.traces)
        return "\n".join(f"{name:<{width}}  {str(trace).partition(': ')[2]}" for name, trace in self.traces.items())


def trace_of(solver: str, records: Records, gap: float, converged: bool) -> SolverTrace:
    """A solver's notes as a result."""
    step, objective, broken, working, evaluations, seconds = (
        np.array(column) for column in zip(*records.rows, strict=True)
    )
    return SolverTrace(solver, step, objective, broken, working, evaluations, seconds, float(gap), bool(converged))
