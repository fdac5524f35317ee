"""What the kernels of the trees cost before they first run: `python -m benchmarks.compile [--rounds N] [--no-write]`.

Every estimator is fitted to numbers and predicts once, one after the other, in a new process with an empty kernel
cache; that is the family, and the goal is about it. What compiles more when it is first asked for (gaps, text, absolute
error, multiway splits, further losses, importance) comes after it. Then all runs again in another new process with the
cache that the first one filled. Wall time says how long a person waits; processor time is what can be compared between
machines that have other work too.

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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import table

__all__ = ["first_fits", "main", "measure"]

GOAL = 20.0
"""Seconds of processor time within which every estimator has been fitted to numbers and has predicted."""

ABOUT = """The first fit and prediction of each kind, one after the other in a new process: kernels that an earlier line
made are there for the later ones. Then all again in another process, with the cache that the first one filled. The
lines below the sum are what may compile more when it is first asked for."""

Times = dict[str, tuple[float, float]]
Round = tuple[tuple[Times, Times], tuple[Times, Times]]
"""Family and further work, with an empty cache and with a filled one."""


def _jobs() -> dict[str, Callable[[], Any]]:
    """Each estimator of the family, fitted to numbers and asked to predict."""
    from assay import trees

    X, y = _numbers()
    alone: dict[str, Any] = {"n_estimators": 2, "n_jobs": 1}
    return {
        "tree": lambda: _used(trees.DecisionTreeRegressor(), X, y),
        "tree, 2 classes": lambda: _used(trees.DecisionTreeClassifier(), X, y > 0),
        "tree, histogram": lambda: _used(trees.DecisionTreeRegressor(splitter="hist"), X, y),
        "pruned tree": lambda: _used(trees.PrunedTreeRegressor(), X, y),
        "pruned tree, 2 classes": lambda: _used(trees.PrunedTreeClassifier(), X, y > 0),
        "bagging": lambda: _used(trees.BaggingRegressor(n_estimators=3), X, y),
        "bagging, 2 classes": lambda: _used(trees.BaggingClassifier(n_estimators=3), X, y > 0),
        "forest": lambda: _used(trees.RandomForestRegressor(3), X, y),
        "forest, 2 classes": lambda: _used(trees.RandomForestClassifier(3), X, y > 0),
        "boosting": lambda: _used(trees.GradientBoostingRegressor(**alone), X, y),
        "boosting, 2 classes": lambda: _used(trees.GradientBoostingClassifier(**alone), X, y > 0),
    }


def _further() -> dict[str, Callable[[], Any]]:
    """What compiles more when it is first asked for."""
    import numpy as np
    import pandas as pd

    from assay import trees

    X, y = _numbers()
    draw = np.random.default_rng(1)
    gaps = np.where(draw.random(X.shape) < 0.1, np.nan, X)
    text = pd.DataFrame(X).rename(columns=str).assign(letter=draw.choice(list("abcdefgh"), len(X)))
    several = np.digitize(y, [-1.0, -0.3, 0.3, 1.0])
    alone: dict[str, Any] = {"n_estimators": 2, "n_jobs": 1}
    forest = trees.RandomForestRegressor(3, random_state=0)
    return {
        "boosting, 5 classes": lambda: _used(trees.GradientBoostingClassifier(**alone), X, several),
        "boosting, other losses": lambda: [
            _used(trees.GradientBoostingRegressor(loss=loss, **alone), X, np.exp(y) if loss == "poisson" else y)
            for loss in ("absolute_error", "huber", "quantile", "poisson")
        ],
        "forest with gaps": lambda: _used(trees.RandomForestRegressor(3), gaps, y),
        "boosting with gaps": lambda: _used(trees.GradientBoostingRegressor(**alone), gaps, y),
        "tree with text": lambda: _used(trees.DecisionTreeRegressor(), text, y),
        "boosting with text": lambda: _used(trees.GradientBoostingRegressor(**alone), text, y),
        "tree, absolute error": lambda: _used(trees.DecisionTreeRegressor(criterion="absolute_error"), X, y),
        "forest, absolute error": lambda: _used(trees.RandomForestRegressor(3, criterion="absolute_error"), X, y),
        "multiway tree": lambda: _used(trees.DecisionTreeClassifier(multiway=True), text, y > 0),
        "permutation importance": lambda: _used(forest, X, y).permutation_importance(X, y),
    }


def _numbers() -> tuple[Any, Any]:
    import numpy as np

    draw = np.random.default_rng(0)
    X = draw.normal(size=(500, 20))
    return X, X[:, 0] + draw.normal(size=500)


def _used(estimator: Any, X: Any, y: Any) -> Any:
    estimator.fit(X, y).predict(X[:5])
    return estimator


def first_fits() -> tuple[Times, Times]:
    """Processor and wall seconds of each fit and its prediction in this process: the family, and what else there is."""
    return _times(_jobs()), _times(_further())


def _times(jobs: dict[str, Callable[[], Any]]) -> Times:
    found = {}
    for name, job in jobs.items():
        processor, wall = time.process_time(), time.perf_counter()
        job()
        found[name] = time.process_time() - processor, time.perf_counter() - wall
    return found


def measure(plain: bool = False) -> Round:
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


def _compiling(measured: Round) -> float:
    """Processor seconds of the family with an empty cache."""
    return _total(measured[0][0], 0)


def _lines(measured: Round) -> list[list[str]]:
    """Headings, a line for each fit of the family, their sum, and a line for each of the others."""
    lines = [["trees", "empty cache, CPU", "wall", "filled cache, CPU", "wall"]]
    for k, sum_up in enumerate(("the whole family", "all of it")):
        empty, filled = (side[k] for side in measured)
        lines += [[name, *_seconds(*empty[name], *filled[name])] for name in empty]
        sides = [side[: k + 1] for side in measured]
        lines.append([sum_up, *_seconds(*(sum(_total(t, which) for t in side) for side in sides for which in (0, 1)))])
    return lines


def _seconds(*values: float) -> list[str]:
    return [f"{value:.2f} s" for value in values]


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
    measured = sorted(rounds, key=_compiling)[len(rounds) // 2]
    lines = _lines(measured)
    every = ", ".join(f"{_compiling(one):.1f}" for one in rounds)
    verdict = "reached" if _compiling(measured) < GOAL else "MISSED"
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
