"""What the documents promise to list is all there."""

from __future__ import annotations

import doctest
import re
import tomllib
from pathlib import Path

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
