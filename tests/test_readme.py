"""What the README shows runs as it stands there: its Python from top to bottom, its commands one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from assay.cli import app

README = Path(__file__).parents[1] / "README.md"
NOT_HERE = {"make demo", "make test"}  # the suite itself, and a study that has tests of its own


def blocks() -> list[tuple[str, int, str]]:
    """The language, the first line and the text of each fenced block; those without a language are for the shell."""
    text = README.read_text(encoding="utf-8")
    fenced = re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(block[1] or "sh", text[: block.start(2)].count("\n"), block[2]) for block in fenced]


def commands() -> list[str]:
    """Every command line, of fenced blocks and of indented ones, without its comment."""
    fenced = [line for language, _, text in blocks() if language == "sh" for line in text.splitlines()]
    indented = re.findall(r"^    (?:assay|make) .*$", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [shlex.join(shlex.split(line, comments=True)) for line in indented + fenced]


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """The files that the commands name, in a directory of their own; enough rows and patients for a test set."""
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(0), 200
    houses = pd.DataFrame({"size": rng.normal(100, 20, n).round(), "town": rng.choice(["Ulm", "Bonn"], n)})
    houses["price"] = 2 * houses["size"] + 30 * (houses["town"] == "Bonn") + rng.normal(0, 10, n).round()
    houses.to_csv("houses.csv", index=False)
    houses.drop(columns="price").head(7).to_csv("new.csv", index=False)
    visits = pd.DataFrame({"patient": np.repeat(np.arange(n), 2), "dose": rng.normal(size=2 * n).round(3)})
    visits["cured"] = np.where(visits["dose"] + rng.normal(size=2 * n) > 0, "yes", "no")
    visits.to_csv("visits.csv", index=False)
    return tmp_path


def test_every_block_is_python_or_shell_and_both_are_there():
    assert {language for language, _, _ in blocks()} == {"python", "sh"}
    assert len([language for language, _, _ in blocks() if language == "python"]) >= 4
    assert set(commands()) > NOT_HERE


def test_the_python_blocks_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for language, line, text in blocks():
        if language == "python":
            exec(compile("\n" * line + text, README, "exec"), names)
    assert list(tmp_path.iterdir()) == []


def test_the_commands_run_one_after_the_other(tables):
    for line in commands():
        if line in NOT_HERE:
            continue
        program, *args = shlex.split(line)
        assert program == "assay", line
        done = CliRunner().invoke(app, args)
        assert done.exit_code == 0, f"{line}\n{done.output}"
    assert len(pd.read_csv("predictions.csv")) == 7
