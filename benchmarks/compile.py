"""What the kernels of the trees cost before they first run: `python -m benchmarks.compile [--rounds N] [--no-write]`.

Every kind of fit and prediction that the family has a kernel of its own for runs once, one after the other, in a new
process with an empty kernel cache, then again in another new process with the cache that the first one filled. Wall
time says how long a person waits; processor time is what can be compared between machines that have other work too.

This module imports neither numpy nor assay until it is in the process that is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import table

__all__ = ["first_fits", "main", "measure"]

GOAL = 20.0
"""Seconds of processor time within which the whole family compiles."""

ABOUT = """The first fit and prediction of each kind, one after the other in a new process: kernels that an earlier line
made are there for the later ones. Then all again in another process, with the cache that the first one filled."""

Times = dict[str, tuple[float, float]]


def _jobs() -> dict[str, tuple[Any, bool]]:
    """Name of each fit, with the estimator and whether it tells two classes apart."""
    from assay import trees

    return {
        "tree": (trees.DecisionTreeRegressor(), False),
        "tree, 2 classes": (trees.DecisionTreeClassifier(), True),
        "tree, histogram": (trees.DecisionTreeRegressor(splitter="hist"), False),
        "pruned tree": (trees.PrunedTreeRegressor(), False),
        "pruned tree, 2 classes": (trees.PrunedTreeClassifier(), True),
        "forest": (trees.RandomForestRegressor(n_estimators=3), False),
        "forest, 2 classes": (trees.RandomForestClassifier(n_estimators=3), True),
        "boosting": (trees.GradientBoostingRegressor(n_estimators=2, n_jobs=1), False),
        "boosting, 2 classes": (trees.GradientBoostingClassifier(n_estimators=2, n_jobs=1), True),
    }


def first_fits() -> Times:
    """Processor and wall seconds of each fit and its prediction, in this process."""
    import numpy as np

    draw = np.random.default_rng(0)
    X = draw.normal(size=(500, 20))
    y = X[:, 0] + draw.normal(size=500)
    found = {}
    for name, (estimator, classes) in _jobs().items():
        processor, wall = time.process_time(), time.perf_counter()
        estimator.fit(X, y > 0 if classes else y).predict(X[:5])
        found[name] = time.process_time() - processor, time.perf_counter() - wall
    return found


def measure(plain: bool = False) -> tuple[Times, Times]:
    """`first_fits` in a new process with an empty cache, and in another with the cache that is there then."""
    here = str(Path(__file__).resolve().parent.parent)
    code = "import json; from benchmarks.compile import first_fits; print(json.dumps(first_fits()))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}
    environment["ASSAY_PLAIN_COMPILE"] = "1" if plain else ""
    with tempfile.TemporaryDirectory() as cache:
        environment["NUMBA_CACHE_DIR"] = cache
        command = [sys.executable, "-c", code]
        empty, filled = (
            json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)
            for _ in range(2)
        )
    return empty, filled


def _total(times: Times, which: int) -> float:
    return sum(pair[which] for pair in times.values())


def _lines(empty: Times, filled: Times) -> list[list[str]]:
    """Headings, a line for each fit, and one for all of them."""
    lines = [["trees", "empty cache, CPU", "wall", "filled cache, CPU", "wall"]]
    lines += [[name, *(f"{value:.2f} s" for value in (*empty[name], *filled[name]))] for name in empty]
    totals = [_total(times, which) for times in (empty, filled) for which in (0, 1)]
    return [*lines, ["the whole family", *(f"{value:.2f} s" for value in totals)]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write the round with the median processor time, and say whether it meets the goal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile", description="Time the kernels' compilation.")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="the median of N is reported (3)")
    parser.add_argument(
        "--plain", action="store_true", help="compile as Numba likes, for comparison; nothing is written"
    )
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md as it is")
    asked = parser.parse_args(arguments)
    rounds = [measure(asked.plain) for _ in range(asked.rounds)]
    empty, filled = sorted(rounds, key=lambda pair: _total(pair[0], 0))[len(rounds) // 2]
    lines = _lines(empty, filled)
    every = ", ".join(f"{_total(times, 0):.1f}" for times, _ in rounds)
    verdict = "reached" if _total(empty, 0) < GOAL else "MISSED"
    said = f"The whole family with an empty cache, CPU seconds of all rounds: {every}; median < {GOAL:g}: {verdict}."
    for line in lines:
        print(f"{line[0]:<24}" + "".join(f"{cell:>20}" for cell in line[1:]))
    print(said)
    if not asked.plain and not asked.no_write:
        made = table.made(f"benchmarks.compile --rounds {asked.rounds}")
        section = f"## compile\n\n{made}\n\n{ABOUT}\n\n{said}\n\n{table.in_columns(lines)}\n"
        table.write(table.DOCUMENT, {"compile": section})
    return 0


if __name__ == "__main__":
    sys.exit(main())
