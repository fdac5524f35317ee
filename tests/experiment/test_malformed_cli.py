"""Every malformed table through the command line: a result, or one sentence and exit code 2; no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli import app
from tests.experiment.malformed import tables
from tests.tiers import slow

TABLES = tables(wide=5_000)
WHOLE = ("script names", "formulas", "huge name", "control letters")
"""Tables whose report is really written: they try to speak to the reader of it."""
QUICK = {*WHOLE, *list(TABLES)[::6]}
"""A study of each of these in the quick tier; test_data reads all of them there."""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`run(name)` studies a malformed table and gives what it printed."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_DEBUG", raising=False)

    def study(name: str):
        if name not in WHOLE:
            monkeypatch.setattr("assay.report.html.write_report", lambda study, path: "0" * 64)
        path = TABLES[name].write(tmp_path)
        options = ["--learner", "tree", "--cv", "3", "--no-open", "--out", str(tmp_path / "out")]
        return CliRunner().invoke(app, ["run", str(path), "--target", "y", *options])

    return study


@pytest.mark.parametrize("name", [one if one in QUICK else slow(one) for one in TABLES])
def test_result_or_one_sentence(name, run, tmp_path):
    done = run(name)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert "Traceback" not in done.output
    assert "\x1b" not in done.output
    if done.exit_code == 0:
        assert TABLES[name].reads
        assert "Verdict" in done.stdout
        assert (tmp_path / "out" / "model.assay").is_file()
        folded = [line for line in done.stdout.splitlines() if not line.lstrip().startswith("assay run")]
        assert max(map(len, folded)) <= 80  # a command to be pasted is never folded
    else:
        assert done.exit_code == 2
        said = done.stderr.strip()
        assert said.startswith("assay: ")
        assert len(said.splitlines()) == 1
        assert "bug" not in said
        assert len(said) < 700


def test_hostile_names_are_escaped_in_the_report(run, tmp_path):
    done = run("script names")
    assert done.exit_code == 0
    report = Path(tmp_path / "out" / "report.html").read_text()
    assert "<script>alert(1)" not in report
    assert "<img src=x" not in report


def test_a_table_without_test_rows_says_so_in_one_sentence(run):
    done = run("one row")
    assert done.exit_code == 2
    assert "rows" in done.stderr
