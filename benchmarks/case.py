"""What a benchmark case declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Case"]

Data = Any
Outcome = Any


@dataclass(frozen=True)
class Case:
    """One task, done by assay and by its peers on the same data.

    `data()` makes the data once; `ours(data)` and each `peers[name](data)` do the work and return
    an outcome; `quality(outcome, data)` scores an outcome of either side, lower is better
    (an objective, a duality gap, an error). Ours must be at most every peer's plus `slack`.
    `goals[name]` is the ratio (peer's time / ours) to reach. `cold=True` also times the first call in a
    new process with an empty kernel cache. `floor` is a reference that no method could beat (a bare
    matrix product), reported as ours / floor and held to `floor_goal`.
    """

    name: str
    data: Callable[[], Data]
    ours: Callable[[Data], Outcome]
    peers: Mapping[str, Callable[[Data], Outcome]]
    quality: Callable[[Outcome, Data], float]
    quality_name: str
    goals: Mapping[str, float] = field(default_factory=dict)
    slack: float = 0.0
    repeats: int = 5
    cold: bool = False
    floor: Callable[[Data], Any] | None = None
    floor_goal: float | None = None
