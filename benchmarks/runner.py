"""Runs cases: first is our answer as good, then how long does it take, side by side.

Each contestant runs once to warm up, and the outcome of that run is scored. Then come rounds in which
everybody runs once, in random order, with the garbage collector off, so that whatever else the machine does
falls on all alike. A ratio is peer's time / ours within one round; its median and range over the rounds are
reported. A contestant that has used up its budget of seconds sits out the remaining rounds.

This module imports neither numpy nor assay: the cold start is timed in a process that starts here.
"""

from __future__ import annotations

import gc
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from statistics import median
from typing import Any

from benchmarks.case import Case

__all__ = ["Cold", "Contest", "Contestant", "cases", "cold_start", "families", "run"]

HERE = Path(__file__).resolve().parent
OURS, FLOOR = "assay", "floor"
BUDGET = 60.0
"""Seconds after which a contestant is not run again."""


# Finding cases.


def families() -> list[str]:
    """The names of the packages in this directory."""
    return sorted(info.name for info in iter_modules([str(HERE)]) if info.ispkg)


def cases(package: str) -> list[Case]:
    """All cases of a package, such as `benchmarks.linear`, in the order of its modules."""
    found: list[Case] = []
    for info in sorted(iter_modules(import_module(package).__path__), key=lambda info: info.name):
        if not info.name.startswith("_"):
            found += import_module(f"{package}.{info.name}").CASES
    names = [case.name for case in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"cases of {package} share a name: {sorted(twice)}")
    for case in found:
        if unknown := set(case.goals) - set(case.peers):
            raise ValueError(f"{case.name!r} has goals for peers it does not run: {sorted(unknown)}")
    return found


# What a contest yields.


@dataclass
class Contestant:
    """One side of a case: its score, and its time in the warm-up and in each round it ran."""

    name: str
    call: Callable[[Any], Any]
    problem: str | None = None
    quality: float = math.nan
    warm_up: float = math.nan
    times: dict[int, float] = field(default_factory=dict)
    spent: float = 0.0

    @property
    def time(self) -> float:
        """Median time; that of the warm-up where there was no time for more."""
        return median(self.times.values()) if self.times else self.warm_up

    def ratios(self, ours: Contestant) -> list[float]:
        """This one's time over ours, round by round."""
        both = [self.times[k] / ours.times[k] for k in self.times if k in ours.times]
        return both or [self.time / ours.time]


@dataclass(frozen=True)
class Cold:
    """Seconds to import the family, and of the first call with an empty and with a filled kernel cache."""

    imports: float
    empty: float
    filled: float


@dataclass
class Contest:
    """A case after it has run."""

    case: Case
    ours: Contestant
    peers: list[Contestant]
    floor: Contestant | None = None
    cold: Cold | None = None
    failures: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether our side broke, or gave a worse answer than a peer."""
        return bool(self.failures)


# Running.


def run(
    case: Case,
    *,
    repeats: int | None = None,
    budget: float = BUDGET,
    seed: int = 0,
    tell: Callable[[str], None] = lambda said: None,
) -> Contest:
    """Make the data, warm everybody up, compare the answers, and time the rounds."""
    tell("making data")
    data = case.data()
    ours = Contestant(OURS, case.ours)
    peers = [Contestant(name, call) for name, call in case.peers.items()]
    floor = None if case.floor is None else Contestant(FLOOR, case.floor)
    contest = Contest(case, ours, peers, floor)
    for one in _everybody(contest):
        tell(f"warm-up: {one.name}")
        _warm_up(one, case, data)
    contest.failures = _failures(contest)
    if ours.problem is None:
        _rounds(contest, data, case.repeats if repeats is None else repeats, budget, random.Random(seed), tell)
    return contest


def _everybody(contest: Contest) -> list[Contestant]:
    return [contest.ours, *contest.peers, *([contest.floor] if contest.floor else [])]


def _timed(one: Contestant, data: Any) -> tuple[float, Any]:
    """Seconds and outcome of one call; only peers are kept from warning."""
    gc.collect()
    with warnings.catch_warnings():
        if one.name != OURS:
            warnings.simplefilter("ignore")
        enabled = gc.isenabled()
        gc.disable()
        try:
            start = time.perf_counter()
            outcome = one.call(data)
            seconds = time.perf_counter() - start
        finally:
            if enabled:
                gc.enable()
    one.spent += seconds
    return seconds, outcome


def _warm_up(one: Contestant, case: Case, data: Any) -> None:
    try:
        one.warm_up, outcome = _timed(one, data)
        if one.name != FLOOR:
            one.quality = float(case.quality(outcome, data))
    except ImportError as error:
        if one.name == OURS:
            one.problem = f"{type(error).__name__}: {error}"
        else:
            one.problem = "not installed"
    except Exception as error:  # a crash of one side is a line in the table, not the end of the run
        one.problem = " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _failures(contest: Contest) -> list[str]:
    ours, case = contest.ours, contest.case
    if ours.problem is not None:
        return [f"assay: {ours.problem}"]
    if not math.isfinite(ours.quality):
        return [f"assay's {case.quality_name} is {ours.quality}"]
    return [
        f"assay's {case.quality_name} {ours.quality:.6g} is worse than {peer.name}'s {peer.quality:.6g}"
        + (f" by more than {case.slack:g}" if case.slack else "")
        for peer in contest.peers
        # A peer without a usable answer is no yardstick.
        if peer.problem is None and math.isfinite(peer.quality) and not ours.quality <= peer.quality + case.slack
    ]


def _rounds(
    contest: Contest, data: Any, repeats: int, budget: float, shuffle: random.Random, tell: Callable[[str], None]
) -> None:
    able = [one for one in _everybody(contest) if one.problem is None]
    for k in range(repeats):
        # Without our own time a round says nothing, so ours runs as long as anyone is left to compare with.
        running = [one for one in able if one.spent < budget]
        if not running or contest.ours not in running:
            break
        tell(f"round {k + 1} of {repeats}")
        shuffle.shuffle(running)
        for one in running:
            one.times[k], _ = _timed(one, data)


# Cold start: a new process with an empty kernel cache.


def cold_start(package: str, name: str) -> Cold:
    """Time the first call of a case in a new process, with an empty kernel cache and then with the one it filled."""
    with tempfile.TemporaryDirectory() as directory:
        first, second = (_in_new_process(package, name, directory) for _ in range(2))
    return Cold(second["imports"], first["call"], second["call"])


def _in_new_process(package: str, name: str, cache: str) -> dict[str, float]:
    code = f"from benchmarks.runner import first_call; first_call({package!r}, {name!r})"
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the cold start of {name!r} failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def first_call(package: str, name: str) -> None:
    """In the new process: import the family, make the data, time one call, and print both times as JSON."""
    family = f"assay.{package.rpartition('.')[2]}"
    start = time.perf_counter()
    try:
        module = import_module(family)
        for public in module.__all__:
            getattr(module, public)
    except ModuleNotFoundError as error:
        if error.name != family:
            raise
    imports = time.perf_counter() - start
    case = next(case for case in cases(package) if case.name == name)
    data = case.data()
    start = time.perf_counter()
    case.ours(data)
    print(json.dumps({"imports": imports, "call": time.perf_counter() - start}))


def run_all(
    package: str,
    chosen: Iterable[Case],
    *,
    repeats: int | None = None,
    tell: Callable[[str], None] = lambda said: None,
) -> list[Contest]:
    """Run the chosen cases of a package, with their cold starts."""
    contests = []
    for case in chosen:
        contest = run(case, repeats=repeats, tell=lambda said, case=case: tell(f"{case.name}: {said}"))
        if case.cold and contest.ours.problem is None:
            tell(f"{case.name}: cold start")
            try:
                contest.cold = cold_start(package, case.name)
            except RuntimeError as error:
                contest.failures.append(str(error))
        contests.append(contest)
    return contests
