"""How a whole study grows with its rows, or with its classes: `python -m benchmarks growth [--rows N ...]`.

The command `assay run` as a process of its own: seconds, CPU seconds of all processes, their peak memory together, and
the pick. Kernels are compiled before.

    by default     the quick panel on made-up tables of 15 numbers and 5 categories with a nonlinear signal, for
                   regression and two classes
    --classes K    the standard panel on made-up letters: 16 whole numbers, K classes of unequal spread
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

__all__ = ["letters", "made_up", "main"]

ROWS = (10_000, 100_000, 1_000_000)
SECTION = "growth"
HEADINGS = ("rows", "task", "seconds", "CPU seconds", "peak memory", "pick")
GOALS = {100_000: (75, 1.0), 1_000_000: (600, 3.0)}
"""Rows -> seconds on two cores, and GB."""
LETTERS, CLASSES = 4_500, 26
MANY = "growth, many classes"
MANY_HEADINGS = ("rows", "classes", "seconds", "CPU seconds", "peak memory", "pick")


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


def letters(n: int, classes: int, seed: int = 0) -> pd.DataFrame:
    """A table like that of recognised letters: 16 whole numbers from 0 to 15 and one of many classes.

    Each class has three shapes, points in a space of 10 dimensions, and a spread of its own: linear discriminants err
    on a quarter of the rows, support vectors on a twentieth.
    """
    rng = np.random.default_rng(seed)
    shapes = rng.normal(size=(classes, 1, 10)) + 1.2 * rng.normal(size=(classes, 3, 10))
    mixing = rng.normal(size=(10, 16)) / np.sqrt(10)
    spread = rng.uniform(0.2, 1.0, size=classes)
    letter = rng.choice(classes, size=n, p=rng.dirichlet(np.full(classes, 30.0)))
    hidden = shapes[letter, rng.integers(3, size=n)] + spread[letter, None] * rng.normal(size=(n, 10))
    X = 7.5 + 2.2 * hidden @ mixing + 0.3 * rng.normal(size=(n, 16))
    frame = pd.DataFrame(np.clip(np.rint(X), 0, 15).astype(int), columns=[f"measure {j}" for j in range(16)])
    return frame.assign(target=np.char.add("class ", letter.astype(str)))


def study(made: pd.DataFrame, *options: str) -> tuple[str, ...]:
    """One study: seconds, CPU seconds, memory and pick."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        made.to_csv(path, index=False)
        command = [sys.executable, "-m", "assay", "run", str(path), "--target", "target", "--json", *options]
        ran = measured([*command, "--out", f"{folder}/out"], {"ASSAY_HOME": f"{folder}/home"})
    if ran.code:
        return (f"FAILED: {ran.errors.strip().splitlines()[-1]}", "", "", "")
    return f"{ran.wall:.0f}", f"{ran.cpu:.0f}", f"{ran.peak / 1e9:.2f} GB", json.loads(ran.output)["selected"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and write the section of docs/benchmarks.md if its usual sizes were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth", description="How a study grows.")
    parser.add_argument("--rows", type=int, nargs="+", default=None)
    parser.add_argument("--classes", type=int, default=None, metavar="K", help="letters of K classes instead")
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md as it is")
    asked = parser.parse_args(arguments)
    if asked.classes is not None:
        return _many_classes(tuple(asked.rows or (LETTERS,)), asked.classes, not asked.no_write)
    rows = tuple(asked.rows or ROWS)
    lines = [HEADINGS]
    for n in rows:
        for task in ("regression", "classification"):
            lines.append(_shown(f"{n:,}", task, *study(made_up(n, task))))
    goals = "; ".join(f"{n:,} rows {s} s and {gb:g} GB" for n, (s, gb) in GOALS.items())
    about = f"A whole quick study as a command. Goals on two cores of their own: {goals}."
    if rows == ROWS and not asked.no_write:
        _write(SECTION, "benchmarks growth", about, lines)
    return _failed(lines)


def _many_classes(rows: tuple[int, ...], classes: int, write: bool) -> int:
    lines = [MANY_HEADINGS]
    lines += [_shown(f"{n:,}", str(classes), *study(letters(n, classes), "--panel", "standard")) for n in rows]
    about = "A whole standard study as a command. Goal on two cores of their own: 900 s."
    if (rows, classes) == ((LETTERS,), CLASSES) and write:
        _write(MANY, f"benchmarks growth --classes {classes}", about, lines)
    return _failed(lines)


def _shown(*line: str) -> tuple[str, ...]:
    print("  ".join(line), flush=True)
    return line


def _write(section: str, command: str, about: str, lines: Sequence[tuple[str, ...]]) -> None:
    text = f"## {section}\n\n{table.made(command)}\n\n{about}\n\n{table.in_columns(lines)}\n"
    table.write(table.DOCUMENT, {section: text})


def _failed(lines: Sequence[tuple[str, ...]]) -> int:
    return int(any(line[2].startswith("FAILED") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
