"""What Markov chains and hidden Markov models give back: diagrams, laws, paths and choices."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import clone

from assay.checks import choice, whole
from assay.errors import AssayWarning, ParameterError
from assay.numbers import fmt
from assay.progress import track
from assay.results import Result
from assay.state import Specs, floats, ints, labels

__all__ = [
    "HiddenPath",
    "NextStep",
    "StateChoice",
    "StateDiagram",
    "StationaryLaws",
    "TransitionIntervals",
    "select_states",
]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class StateDiagram(Result):
    """States and the ways between them: start law, transition matrix, share of time in each, what each one emits."""

    names: Array
    start: Array
    transitions: Array
    share: Array
    emits: tuple[str, ...] = ()

    state: ClassVar[Specs] = {
        "names": labels("k"),
        "start": floats("k", low=0, high=1),
        "transitions": floats("k", "k", low=0, high=1),
        "share": floats("k", low=0),
    }

    def to_frame(self) -> pd.DataFrame:
        """One row per state: share of time, start law, then the law of the next state."""
        names = [str(name) for name in self.names]
        frame = pd.DataFrame(self.transitions, index=names, columns=[f"to {name}" for name in names])
        frame.insert(0, "start", self.start)
        frame.insert(0, "share", self.share)
        if self.emits:
            frame["emits"] = list(self.emits)
        return frame

    def __str__(self) -> str:
        table = self.to_frame().to_string(float_format=lambda v: fmt(round(v, 4), 4))
        return f"Transitions of {len(self.names)} states\n{table}"


@dataclass(frozen=True, eq=False, repr=False)
class StationaryLaws(Result):
    """The laws that a chain keeps once it has them: one for each closed class of states, and mixtures of these.

    | field     | meaning                                                                             |
    |-----------|-------------------------------------------------------------------------------------|
    | names     | the states                                                                          |
    | laws      | one row per closed class                                                            |
    | periods   | of each class; where it is 1, the law of the state tends to the row                 |
    | transient | states that are left for ever at some time                                          |
    """

    names: Array
    laws: Array
    periods: tuple[int, ...]
    transient: Array

    @property
    def unique(self) -> bool:
        """Whether there is just one."""
        return len(self.laws) == 1

    @property
    def law(self) -> Array:
        """The law, where there is just one."""
        if not self.unique:
            raise AttributeError(
                f"there are {len(self.laws)} closed classes, each with its own stationary distribution: see laws"
            )
        return self.laws[0]

    def to_frame(self) -> pd.DataFrame:
        """One row per closed class."""
        frame = pd.DataFrame(self.laws, columns=[str(name) for name in self.names])
        frame.insert(0, "period", list(self.periods))
        frame.index = pd.RangeIndex(1, len(frame) + 1, name="class")
        return frame

    def __str__(self) -> str:
        table = self.to_frame().to_string(float_format=lambda v: fmt(v, 4))
        lost = [str(name) for name in self.names[self.transient]]
        note = f"\ntransient: {', '.join(lost)}" if lost else ""
        title = (
            "Stationary distribution"
            if self.unique
            else f"{len(self.laws)} stationary distributions, one for each closed class"
        )
        return f"{title}\n{table}{note}"


@dataclass(frozen=True, eq=False, repr=False)
class TransitionIntervals(Result):
    """Every transition probability with its standard error and limits, one row per pair of states.

    The limits are those of a proportion of n_i departures; given the state, departures are independent draws.
    """

    table: pd.DataFrame
    level: float
    method: str

    def to_frame(self) -> pd.DataFrame:
        """One row per pair: from, to, count, n, estimate, std_error, lower, upper."""
        return self.table.copy()

    def __str__(self) -> str:
        title = f"Transition probabilities with {100 * self.level:g}% {self.method} intervals"
        return f"{title}\n{self.table.to_string(index=False, float_format=lambda v: fmt(v, 4))}"


@dataclass(frozen=True, eq=False, repr=False)
class HiddenPath(Result):
    """The hidden states behind sequences: the decoded path and the posterior probability of each state at each step.

    | field          | meaning                                                                         |
    |----------------|---------------------------------------------------------------------------------|
    | names          | the states                                                                      |
    | codes          | the decoded state of each step, as a place among the names                      |
    | posterior      | (T, K): P(q_t = k given X)                                                      |
    | first          | where each sequence begins, and T                                               |
    | log_joint      | log P(X, path) of each sequence, minus infinity where the path cannot occur     |
    | log_likelihood | log P(X) of each sequence                                                       |
    | method         | "viterbi": the most probable path; "posterior": the most probable state of each step |
    """

    names: Array
    codes: Array
    posterior: Array
    first: Array
    log_joint: Array
    log_likelihood: Array
    method: str

    state: ClassVar[Specs] = {
        "names": labels("k"),
        "codes": ints("n", below="k"),
        "posterior": floats("n", "k"),
        "first": ints("m+1"),
        "log_joint": floats("m", finite=False),
        "log_likelihood": floats("m"),
    }

    @property
    def path(self) -> Array:
        """The decoded state of each step, by name, all sequences one behind the other."""
        return self.names[self.codes]

    @property
    def paths(self) -> list[Array]:
        """The decoded states, sequence by sequence."""
        return np.split(self.path, self.first[1:-1])

    def to_frame(self) -> pd.DataFrame:
        """One row per step: sequence, step, state, and the posterior probability of each state."""
        lengths = np.diff(self.first)
        columns = {
            "sequence": np.repeat(np.arange(lengths.size), lengths),
            "step": np.concatenate([np.arange(n) for n in lengths]),
            "state": self.path,
        }
        posterior = pd.DataFrame(self.posterior, columns=[f"P({name})" for name in self.names])
        return pd.concat([pd.DataFrame(columns), posterior], axis=1)

    def __str__(self) -> str:
        word = "most probable path" if self.method == "viterbi" else "most probable state of each step"
        many = f"{self.first.size - 1:,} sequences, " if self.first.size > 2 else ""
        lines = [f"{word.capitalize()} of {many}{self.codes.size:,} steps"]
        for s in range(min(3, self.first.size - 1)):
            shown = [str(name) for name in self.path[self.first[s] : self.first[s + 1]][:20]]
            more = " ..." if self.first[s + 1] - self.first[s] > 20 else ""
            share = np.exp(self.log_joint[s] - self.log_likelihood[s])
            lines.append(f"  {' '.join(shown)}{more}")
            lines.append(f"    log P(X) {fmt(self.log_likelihood[s], 6)}, P(path given X) {fmt(share, 4)}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class NextStep(Result):
    """What comes after each sequence: the law of the hidden state, and of the observation.

    | field     | meaning                                                                                   |
    |-----------|-------------------------------------------------------------------------------------------|
    | steps     | how many steps ahead                                                                      |
    | states    | P(q_{T + steps} given X), one row per sequence                                            |
    | law       | symbols: their probabilities, one row per sequence; numbers: mean of each column          |
    | std       | numbers: standard deviation of each column about that mean; None for symbols              |
    """

    steps: int
    names: Array
    states: Array
    columns: tuple[str, ...]
    law: Array
    std: Array | None = None

    def to_frame(self) -> pd.DataFrame:
        """One row per sequence: the states, then symbols or means and standard deviations."""
        parts = [pd.DataFrame(self.states, columns=[f"P(state {name})" for name in self.names])]
        if self.std is None:
            parts.append(pd.DataFrame(self.law, columns=[f"P(symbol {name})" for name in self.columns]))
        else:
            parts.append(pd.DataFrame(self.law, columns=[f"mean {name}" for name in self.columns]))
            parts.append(pd.DataFrame(self.std, columns=[f"sd {name}" for name in self.columns]))
        return pd.concat(parts, axis=1)

    def __str__(self) -> str:
        ahead = "The next step" if self.steps == 1 else f"{self.steps} steps ahead"
        return f"{ahead}\n{self.to_frame().to_string(index=False, max_rows=10, float_format=lambda v: fmt(v, 4))}"


@dataclass(frozen=True, eq=False, repr=False)
class StateChoice(Result):
    """Information criteria over the number of states; the least is best.

    `table` has one row per fit, `n_components` is the number that was chosen, `best_model` the fitted model with it,
    `models` all of them by their number. Fits in which a state collapsed onto few rows are listed, but win only where
    there is no other.
    """

    table: pd.DataFrame
    criterion: str
    models: Mapping[int, Any]

    @property
    def n_components(self) -> int:
        """The number of states that was chosen."""
        sound = self.table[~self.table["collapsed"]]
        table = self.table if sound.empty else sound
        return int(table["n_components"].iloc[int(table[self.criterion].to_numpy().argmin())])

    @property
    def best_model(self) -> Any:
        """The fitted model with that number of states."""
        return self.models[self.n_components]

    def to_frame(self) -> pd.DataFrame:
        """One row per number of states: log-likelihood, parameters, AIC, BIC, convergence."""
        return self.table.copy()

    def __str__(self) -> str:
        table = self.table.to_string(index=False, float_format=lambda v: fmt(v, 7))
        return f"{self.n_components} states have the least {self.criterion.upper()}\n{table}"


def select_states(model: Any, X: Any, n_components: Any, lengths: Any, criterion: str) -> StateChoice:
    """Fit all of them; see `select` of the models."""
    choice(criterion, "criterion", ("bic", "aic"))
    numbers = [
        whole(K, "n_components") for K in (n_components if isinstance(n_components, Iterable) else [n_components])
    ]
    if not numbers:
        raise ParameterError("there are no candidates", remedy="pass at least one number of states")
    given = [name for name in model.get_params(deep=False) if name.endswith("_init") or name == "state_names"]
    if any(getattr(model, name) is not None for name in given if name != "n_init"):
        raise ParameterError(
            "names and initial values fit only one number of states", remedy="leave them out for select"
        )
    rows, models = [], {}
    for K in track(numbers, "numbers of states"):
        one = clone(model).set_params(n_components=K)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssayWarning)  # the table says it, fit by fit
            one.fit(X, lengths=lengths)
        models[K] = one
        fit, free = one.score(X, lengths=lengths), one.n_parameters()
        row = {"n_components": K, "log_likelihood": fit, "n_parameters": free}
        row |= {"bic": one.bic(X, lengths=lengths), "aic": -2.0 * fit + 2.0 * free}
        rows.append({**row, "converged": one.converged_, "collapsed": bool(one._params.held.any())})
    return StateChoice(pd.DataFrame(rows), criterion, models)
