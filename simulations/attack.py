"""Does a model file that somebody altered do any harm?"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from tests.experiment import malicious, mutants

__all__ = ["SIMULATIONS"]

MUTANTS, CRAFTED = 5000, 300
SLACK = 8 << 20
"""Bytes by which the memory of two children that do the same may differ."""
COLUMNS = ["what", "files", "refused", "predicted", "other errors", "crashed", "hung", "over twice the memory"]


def _row(what: str, outcomes: Iterator[tuple[str, int, int]]) -> list[object]:
    found: Counter[str] = Counter()
    for said, grown, usual in outcomes:
        found[said.split(":")[0]] += 1
        found["files"] += 1
        found["memory"] += grown > 2 * usual + SLACK
    known = [found[name] for name in ("refused", "predicted", "bug", "crashed", "hung")]
    known[2] += found["too long"]
    return [what, found["files"], *known, found["memory"]]


def altered() -> pd.DataFrame:
    """5,000 model files with one to three changes in their JSON or arrays, signed anew, over every public estimator and
    every way of building a model, each opened and asked for predictions in a forked child. A file must be refused in
    one sentence or predict; no other error, no crash, no hang within a minute, and no more than twice the memory of the
    honest file (with 8 MiB for chance).
    """
    table = []
    with tempfile.TemporaryDirectory() as folder:
        by_model: dict[str, list[tuple[str, int, int]]] = {}
        for name, said, grown, usual, _ in mutants.attack(Path(folder), MUTANTS):
            by_model.setdefault(name, []).append((said, grown, usual))
        table = [_row(name, iter(outcomes)) for name, outcomes in by_model.items()]
    frame = pd.DataFrame(table, columns=COLUMNS)
    total = pd.DataFrame([["all", *frame[COLUMNS[1:]].sum()]], columns=COLUMNS)
    return pd.concat([frame, total], ignore_index=True)


def crafted() -> pd.DataFrame:
    """Files made to harm: archives that are bombs, lie about their sizes or hold pickles, trees that refer to one array
    a million times, trees of skops that name what must not be called (alone, and as the state of a class that the
    reader trusts), and 300 times an index of a model set to the least or greatest number or to 5000. The first must be
    refused, and take no more than twice the memory of an honest file of their size; the others refused or predict.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        honest = mutants.honest(folder)
        usual = {}
        for model, (path, X) in honest.items():
            mutants.use(path, X)
            usual[model] = mutants.outcome(path, X)[1]
        place = folder / "crafted.assay"

        def aimed() -> Iterator[tuple[str, int, int]]:
            rng = np.random.default_rng(0)
            every = [
                (model, content)
                for model, (path, _) in honest.items()
                for content in malicious.aimed(mutants.members_of(path))
            ]
            for at in rng.permutation(len(every))[:CRAFTED]:
                model, content = every[int(at)]
                place.write_bytes(content)
                yield *mutants.outcome(place, honest[model][1]), usual[model]

        def harmful() -> Iterator[tuple[str, int, int]]:
            (folder / "harm").mkdir()
            files = malicious.files(folder / "harm", folder / "sentinel")
            for path in files.values():
                large = mutants.outcome(malicious.large(folder, path.stat().st_size), None)[1]
                yield *mutants.outcome(path, None), max(large, *usual.values())

        rows = [_row("made to harm", harmful()), _row("an index out of its array", aimed())]
        rows[0][0] = f"made to harm ({'code ran' if (folder / 'sentinel').exists() else 'no code ran'})"
    return pd.DataFrame(rows, columns=COLUMNS)


SIMULATIONS = {"Altered model files": altered, "Crafted model files": crafted}
