"""How a whole study grows with its rows: `python -m benchmarks growth [--rows N ...]`.

The command `assay run` with its defaults, as a process of its own, on made-up tables of 15 numbers and 5 categories
with a nonlinear signal, for regression and two classes: seconds, CPU seconds of all processes, their peak memory
together, and the pick. Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import table
from benchmarks.process import measured

__all__ = ["made_up", "main"]

ROWS = (10_000, 100_000, 1_000_000)
SECTION = "growth"
HEADINGS = ("rows", "task", "seconds", "CPU seconds", "peak memory", "pick")
GOALS = {100_000: (75, 1.0), 1_000_000: (600, 3.0)}
"""Rows -> seconds on two cores, and GB."""


def made_up(n: int, task: str, seed: int = 0) -> pd.DataFrame:
    """A table of n rows, 15 numbers, 5 categories and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 15)).round(4)
    levels = [rng.integers(0, k, size=n) for k in (2, 4, 8, 12, 20)]
    signal = 3 * np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + 2 * np.abs(X[:, 3]) + X[:, 4] - X[:, 5]
    signal = signal + 2 * (levels[1] == 1) * X[:, 6] + levels[2] % 3 + 0.3 * np.sqrt(levels[4])
    y = signal + 2 * rng.normal(size=n)
    frame = pd.DataFrame(X, columns=[f"number {j}" for j in range(15)])
    for j, codes in enumerate(levels):
        frame[f"category {j}"] = np.char.add("level ", codes.astype(str))
    return frame.assign(target=y.round(3) if task == "regression" else np.where(y > np.median(y), "yes", "no"))


def study(n: int, task: str) -> tuple[str, ...]:
    """One study, a line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        made_up(n, task).to_csv(path, index=False)
        command = [sys.executable, "-m", "assay", "run", str(path), "--target", "target", "--json"]
        ran = measured([*command, "--out", f"{folder}/out"], {"ASSAY_HOME": f"{folder}/home"})
    if ran.code:
        return (f"{n:,}", task, f"FAILED: {ran.errors.strip().splitlines()[-1]}", "", "", "")
    pick = json.loads(ran.output)["selected"]
    return (f"{n:,}", task, f"{ran.wall:.0f}", f"{ran.cpu:.0f}", f"{ran.peak / 1e9:.2f} GB", pick)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and write the section of docs/benchmarks.md if all sizes were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth", description="How a study grows with its rows.")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    asked = parser.parse_args(arguments)
    lines = [HEADINGS]
    for n in asked.rows:
        for task in ("regression", "classification"):
            lines.append(study(n, task))
            print("  ".join(lines[-1]), flush=True)
    if tuple(asked.rows) == ROWS:
        goals = "; ".join(f"{n:,} rows {s} s and {gb:g} GB" for n, (s, gb) in GOALS.items())
        about = f"A whole quick study as a command. Goals on two cores of their own: {goals}."
        section = f"## {SECTION}\n\n{table.made('benchmarks growth')}\n\n{about}\n\n{table.in_columns(lines)}\n"
        table.write(table.DOCUMENT, {SECTION: section})
    return int(any(line[2].startswith("FAILED") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
