"""Declared costs beside measured ones: `python -m benchmarks costs [--learner NAME ...]`.

The panel declares the multiply-adds of every fit; they decide worker processes, members of ensembles and candidates of
searches. Here every learner is fitted as a quick panel does, on five shapes of tables, and its CPU seconds per declared
multiply-add are divided by the median over all learners of the task: 1 is as declared, 10 ten times dearer. Fits that
take less than a hundredth of a second decide nothing and show their seconds only.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from assay.experiment.panel import BASELINE, assemble, learners
from assay.numerics.threads import one_blas_thread

__all__ = ["SHAPES", "main"]

SHAPES = ((500, 10, 2), (5_000, 20, 2), (500, 200, 2), (3_000, 16, 10), (3_600, 16, 26))
"""Rows, columns and (for classification) classes."""
OFF, SHORT = 10.0, 0.01
"""A ratio beyond which a declaration is wrong, and seconds below which it does not matter."""


def table(n: int, p: int, classes: int, task: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers with a nonlinear signal in a few of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    centres = rng.normal(size=(classes, 8))
    scores = X[:, :8] @ centres.T + np.sin(2 * X[:, :1] * X[:, 1:2]) * centres[:, 0] + rng.gumbel(size=(n, classes))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
    if task == "regression":
        return frame, scores[:, 0]
    return frame, np.array([f"class {k}" for k in range(classes)])[scores.argmax(axis=1)]


def seconds(learner, n: int, p: int, classes: int) -> float:
    """CPU seconds of one fit, the second one: the first loads kernels."""
    X, y = table(n, p, classes, learner.task)
    metric = "rmse" if learner.task == "regression" else "log_loss"
    made = assemble(learner, dict.fromkeys(X, "number"), tune=False, metric=metric, shape=(n, p, classes))
    small, few = table(200, p, 2, learner.task)
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        made.fit(small, few)
        start = time.process_time()
        made.fit(X, y)
    return time.process_time() - start


_pairs = partial(zip, strict=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a declaration is off."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks costs", description="Declared costs beside times.")
    parser.add_argument("--learner", action="append", default=[], help="only this one; can be repeated")
    asked = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wrong = False
    for task in ("regression", "classification"):
        chosen = [one for one in learners(task) if one.name != BASELINE and one.name in (asked.learner or [one.name])]
        spent: dict[str, list[float]] = {}
        for one in chosen:
            spent[one.name] = [seconds(one, *shape) for shape in SHAPES]
            print(task, one.name, *(f"{s:.3f} s" for s in spent[one.name]), sep="  ", file=sys.stderr, flush=True)
        each = {one.name: [s / one.work(*shape) for s, shape in _pairs(spent[one.name], SHAPES)] for one in chosen}
        middle = np.median([ratio for name in each for ratio, s in _pairs(each[name], spent[name]) if s >= SHORT])
        print(f"\n{task}, {1e9 * middle:.3g} ns a multiply-add")
        for name, ratios in each.items():
            cells = []
            for ratio, s in _pairs(ratios, spent[name]):
                off = s >= SHORT and not 1 / OFF <= ratio / middle <= OFF
                wrong |= off
                cells.append(f"{s:.3f} s: {ratio / middle:.2g}{' OFF' if off else ''}" if s >= SHORT else f"{s:.3f} s")
            print(f"  {name:20}", "  ".join(f"{cell:>18}" for cell in cells))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
