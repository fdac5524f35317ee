"""What the documents promise to list is all there."""

from __future__ import annotations

import doctest
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd

import assay
from assay.experiment.record import WORDS

ROOT = Path(__file__).parents[1]


def test_contributing_lists_every_family_and_room():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    rooms = {room.strip().removeprefix("assay.") for layer in layers for room in layer.split("|")}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {room for room in rooms if not re.search(rf"`{room}/?`", text)} == set()


def test_the_walk_of_a_run_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walk = text[text.index("## The walk") : text.index("## Words of our own")]
    source = ROOT / "src" / "assay"
    named = re.findall(r"`([a-z_/0-9]+(?:\.py|/))`", walk)
    assert len(named) > 30
    assert [name for name in named if not any((source / room / name).exists() for room in ("", "experiment"))] == []


def test_errata_tables_are_whole():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "errata.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| S")
    ]
    assert {row[0] for row in rows} == {"S0", "S1", "S2", "S3", "S4"}
    for row in rows:
        assert len(row) == 5, row
        assert row[2] != row[3]
        assert row[4] in ("yes", "no")


def test_examples_of_the_methods_run():
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    path = ROOT / "docs" / "methods.md"
    found = doctest.testfile(str(path), module_relative=False, optionflags=options, encoding="utf-8")
    assert found.attempted >= 10
    assert found.failed == 0


def test_every_key_of_the_json_document_is_documented():
    """Of a study with a test set, and of one without."""
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    about = {key: cell for keys, cell in rows for key in re.findall(r"`(\w+)`", keys)}
    codes = {code.split("-")[1] for code in WORDS}
    assert {key for key in about if key in codes} == codes
    rng = np.random.default_rng(0)
    for size in (0.3, "none"):
        frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "z"])
        frame["y"] = frame["x"] + rng.normal(size=60)
        study = assay.run(frame, "y", test_size=size, learners=["least squares"], cv=3, n_jobs=1)
        document = json.loads(json.dumps(study.summary(), allow_nan=False))
        assert set(document) == set(about) - codes
        assert (document["test"] is None) == (size == "none")
        for name, value in document.items():
            many = (
                [value] if name not in ("test", "outer") else list((value or {}).get("figures", value or {}).values())
            )
            if name in ("warnings", "missing"):
                continue  # by column or learner, not by fixed keys
            parts = [row for one in many for row in (one if isinstance(one, list) else [one]) if isinstance(row, dict)]
            named = set(re.findall(r"`(\w+)`", about["test" if name == "outer" else name]))
            for part in parts:
                assert named <= set(part) if name in ("test", "outer") else named == set(part), name
        if document["outer"] is not None:
            assert set(re.findall(r"`(\w+)`", about["outer"])) - {"test"} == set(document["outer"])
