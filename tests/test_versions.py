"""The lowest supported versions are those that `make test-lowest` installs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
NO_PART = {"ruff", "mypy", "import-linter"}  # linters, which the tests do not call


def floors() -> dict[str, Version]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = map(Requirement, project["dependencies"] + project["optional-dependencies"]["test"])
    bounded = {one.name: next(iter(one.specifier)) for one in named if one.specifier and one.name not in NO_PART}
    assert {bound.operator for bound in bounded.values()} == {">="}
    return {name: Version(bound.version) for name, bound in bounded.items()}


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    named = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {one.name: Version(next(iter(one.specifier)).version) for one in named}


@pytest.mark.parametrize("name", floors())
def test_the_constraint_is_the_floor(name):
    assert pins()[name] == floors()[name]
