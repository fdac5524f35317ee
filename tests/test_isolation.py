"""Tests and doctests leave the user's own data alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.experiment.storage import Ledger, home

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("time", ["first", "second"])
def test_each_test_has_a_home_of_its_own(time):
    assert not Path(os.environ["ASSAY_HOME"]).exists()
    assert home() == Path(os.environ["ASSAY_HOME"])


def test_the_command_line_writes_to_the_home_of_the_test():
    done = CliRunner().invoke(app, ["history"])
    assert done.exit_code == 0, done.output
    assert Ledger().where == str(Path(os.environ["ASSAY_HOME"]) / "ledger.db")
    assert "ledger.db" in os.listdir(os.environ["ASSAY_HOME"])


def test_the_users_data_directory_is_untouched(tmp_path):
    """The same test and a doctest, run by a user without `ASSAY_HOME` but with a ledger on record."""
    environment = {name: value for name, value in os.environ.items() if name != "ASSAY_HOME"}
    environment |= {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    environment |= {"ASSAY_LEDGER": f"sqlite:///{tmp_path}/ledger.db"}
    items = ["src/assay/experiment/storage/ledger.py::assay.experiment.storage.ledger.home"]
    items.append(f"tests/test_isolation.py::{test_the_command_line_writes_to_the_home_of_the_test.__name__}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *items]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert os.listdir(tmp_path) == []
