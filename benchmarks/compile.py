"""`python -m benchmarks.compile [--rounds N] [--plain]`: what the kernels of the trees cost before they first run.

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
from pathlib import Path
from typing import Any

__all__ = ["first_fits", "main", "measure"]

GOAL = 20.0
"""Seconds of processor time within which the whole family compiles."""

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


def main() -> int:
    """Measure, print the round with the median processor time, and say whether it meets the goal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile", description="Time the kernels' compilation.")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="the median of N is reported (3)")
    parser.add_argument("--plain", action="store_true", help="compile as Numba likes, for comparison")
    asked = parser.parse_args()
    rounds = [measure(asked.plain) for _ in range(asked.rounds)]
    empty, filled = sorted(rounds, key=lambda pair: _total(pair[0], 0))[len(rounds) // 2]
    print(f"{'trees':<24}{'empty cache':>22}{'filled cache':>22}\n{'':<24}" + 2 * f"{'CPU s':>11}{'wall s':>11}")
    for name in empty:
        print(f"{name:<24}" + "".join(f"{value:11.2f}" for value in (*empty[name], *filled[name])))
    totals = [_total(times, which) for times in (empty, filled) for which in (0, 1)]
    print(f"{'the whole family':<24}" + "".join(f"{value:11.2f}" for value in totals))
    every = ", ".join(f"{_total(times, 0):.1f}" for times, _ in rounds)
    print(f"rounds, CPU s: {every}; to be under {GOAL:g}: {'met' if totals[0] < GOAL else 'missed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
