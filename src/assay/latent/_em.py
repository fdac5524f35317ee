"""The EM loop that every model with hidden variables uses.

    E step   l(theta) and the expected sufficient statistics S of the rows under theta
    M step   theta <- argmax_theta E[log p(X, Z; theta)], read off S

A model supplies `e_step(params) -> (objective, summary)` and `m_step(summary) -> params`; summaries add, so that blocks
of rows, sequences and batches are the same thing. The objective is the log-likelihood, plus the log prior where the
M step maximises a posterior, and never falls from one iteration to the next; this is checked, with an allowance for
rounding. An iteration is one M step and the E step that judges it. The loop stops when the objective per unit of
weight rises by less than `tol`.

Dempster, Laird, Rubin (1977), J. R. Statist. Soc. B 39, 1-38; Wu (1983), Annals of Statistics 11, 95-103.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pandas as pd

from assay.callbacks import SILENT, Task
from assay.errors import ConvergenceWarning, DivergenceError
from assay.progress import track
from assay.results import Trace
from assay.state import Specs, values

__all__ = ["EMFit", "EMModel", "EMTrace", "best_of", "climb", "warn_of"]

Array = np.ndarray
Params = TypeVar("Params")
Summary = TypeVar("Summary")

ALLOWANCE = 1e-10
"""A fall of the objective by less than this share of it is rounding."""


class EMModel(Generic[Params, Summary]):
    """What the loop asks of a model; `rescue` is optional."""

    def e_step(self, params: Params) -> tuple[float, Summary]:
        """The objective at these parameters, summed over all rows, and the expected statistics."""
        raise NotImplementedError

    def m_step(self, summary: Summary) -> Params:
        """The parameters that maximise the expected log-likelihood of complete data."""
        raise NotImplementedError

    def rescue(self, params: Params, times: int) -> Params | None:
        """Parameters to go on from where these are degenerate, None where they are sound or nothing helps.

        Asked after every M step, with the number of times that this start was rescued before.
        """
        del params, times
        return None

    def sound(self, params: Params) -> bool:
        """Whether these parameters may win among several starts; a collapsed component may not."""
        del params
        return True

    def describe(self, params: Params) -> Mapping[str, Array]:
        """The parameters by name and in the units of the data, for a trace that keeps them."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class EMTrace(Trace):
    """How EM went: the mean log-likelihood after each iteration, and the parameters where they were asked for.

    | field      | meaning                                                                                   |
    |------------|-------------------------------------------------------------------------------------------|
    | objective  | mean log-likelihood after each iteration                                                  |
    | initial    | the same at the start values                                                              |
    | restarted  | iterations (from 1 on) after which a degenerate component was started anew                |
    | fell       | whether it stopped because the objective fell; the parameters are those before the fall   |
    | parameters | of the start values and of each iteration, by name; empty unless the trace was to keep them |

    >>> print(EMTrace(np.array([-2.0, -1.5]), True, "rose by less than tol", initial=-3.0))
    converged after 2 iterations, objective -1.5: rose by less than tol
    """

    initial: float = np.nan
    restarted: tuple[int, ...] = ()
    parameters: tuple[Mapping[str, Array], ...] = field(default=())
    fell: bool = False

    state: ClassVar[Specs] = {"objective": values("n")}

    def to_frame(self) -> pd.DataFrame:
        """One row per iteration, from the start values (iteration 0) on; parameters as columns, one per number."""
        frame = pd.DataFrame({"iteration": np.arange(self.n_iter + 1), "objective": [self.initial, *self.objective]})
        if not self.parameters:
            return frame
        columns = [f"{name}{_place(at)}" for name, v in self.parameters[0].items() for at in np.ndindex(np.shape(v))]
        rows = [np.concatenate([np.ravel(value) for value in one.values()]) for one in self.parameters]
        return pd.concat([frame, pd.DataFrame(np.array(rows), columns=columns)], axis=1)


def _place(at: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, at))}]" if at else ""


@dataclass(frozen=True, eq=False)
class EMFit(Generic[Params, Summary]):
    """Where one start led: parameters, the objective there (over all rows), the statistics there, and the way."""

    params: Params
    objective: float
    summary: Summary
    trace: EMTrace
    objectives: tuple[float, ...] = ()
    """Of every start, in order, where `best_of` chose."""
    stopped: bool = False
    """Whether a callback stopped it."""


def climb(
    model: EMModel[Params, Summary],
    start: Params,
    *,
    size: float,
    tol: float,
    max_iter: int,
    keep: bool = False,
    label: str = "EM",
    task: Task = SILENT,
) -> EMFit[Params, Summary]:
    """Iterate from given parameters.

    | parameter | default | range     | meaning                                                                  |
    |-----------|---------|-----------|--------------------------------------------------------------------------|
    | model     |         |           | supplies the steps                                                       |
    | start     |         |           | its parameters to begin with                                             |
    | size      |         | above 0   | number (or weight) of rows that the objective sums over                  |
    | tol       |         | from 0 on | stop when objective / size rises by less; 0 runs all iterations          |
    | max_iter  |         | from 0 on | iterations at most                                                       |
    | keep      | False   |           | whether the trace holds the parameters of each iteration                 |
    | label     | "EM"    |           | what listeners of `assay.progress` are told                              |
    | task      | silent  |           | whose steps are the iterations, for callbacks                            |
    """
    params, (value, summary) = start, model.e_step(start)
    _refuse_not_finite(value, 0)
    objective: list[float] = []
    restarted: list[int] = []
    kept = [model.describe(params)] if keep else []
    initial, converged, fell, message, stopped = value / size, False, False, "stopped by a callback", False

    def reached() -> EMFit[Params, Summary]:
        trace = EMTrace(np.array(objective), converged, message, initial, tuple(restarted), tuple(kept), fell)
        return EMFit(params, value, summary, trace, stopped=stopped)

    for iteration in track(range(1, max_iter + 1), label):
        with task.step("EM iteration", reached) as step:
            new = model.m_step(summary)
            rescued = model.rescue(new, len(restarted))
            new = new if rescued is None else rescued
            found, statistics = model.e_step(new)
            _refuse_not_finite(found, iteration)
            rise = found - value
            if rescued is None and rise < -ALLOWANCE * (abs(value) + size):
                fell, message = True, f"the log-likelihood fell by {-rise / size:.3g} per row in iteration {iteration}"
                break  # what the step before found is better
            params, value, summary = new, found, statistics
            objective.append(value / size)
            kept += [model.describe(params)] if keep else []
            if rescued is not None:
                restarted.append(iteration)
            elif abs(rise) < tol * size:
                converged, message = True, f"rose by less than tol = {tol:g}"
                break
        if step.stop:
            stopped = True
            break
    else:
        message = f"max_iter = {max_iter} reached"
    return reached()


def _refuse_not_finite(value: float, iteration: int) -> None:
    if not np.isfinite(value):
        raise DivergenceError(
            f"the log-likelihood is {value} in iteration {iteration} of EM",
            remedy="check the initial values, or rescale the columns",
        )


def best_of(
    model: EMModel[Params, Summary],
    starts: Iterable[Callable[[], Params]],
    *,
    label: str = "EM",
    task: Task = SILENT,
    **options: Any,
) -> EMFit[Params, Summary]:
    """The sound fit of highest objective over several starts, each a function that makes parameters.

    The options are those of `climb`. The steps of `task` are the starts if there are several, else the iterations.
    """
    best: EMFit[Params, Summary] | None = None
    rank = (False, -np.inf)
    found: list[float] = []
    many = list(starts)
    if len(many) == 1:
        fit = climb(model, many[0](), label=label, task=task, **options)
        return replace(fit, objectives=(fit.objective,))

    def reached() -> EMFit[Params, Summary]:
        assert best is not None
        return replace(best, objectives=tuple(found))

    for start in track(many, f"{label}, starts"):
        with task.step("start", reached, steps=options["max_iter"]) as step:
            fit = climb(model, start(), label=label, task=step, **options)
            found.append(fit.objective)
            own = (model.sound(fit.params), fit.objective)
            if best is None or own > rank:
                best, rank = fit, own
        if step.stop:
            break
    return reached()


def warn_of(trace: EMTrace, *, stacklevel: int = 3) -> None:
    """Warn where the loop stopped before its tolerance, and say which parameter to turn."""
    if trace.converged:
        return
    if trace.fell:
        why = f"{trace.message}; the parameters before it are kept; rescale the columns or raise the regularisation"
    else:
        last = [trace.initial, *trace.objective][-2:]
        gained = f"the last iteration gained {last[-1] - last[0]:.2g} per row"
        why = f"{trace.message} ({gained}); raise max_iter, or raise tol if these parameters are good enough"
    warnings.warn(f"EM stopped before it converged: {why}", ConvergenceWarning, stacklevel=stacklevel)
