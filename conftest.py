"""No test and no doctest reaches the ledger of whoever runs them: each has a home of its own."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _homes(tmp_path_factory):
    """The directory that holds a home for each test; `ASSAY_LEDGER`, which may name a database, is unset."""
    folder = tmp_path_factory.mktemp("homes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder))
        patch.delenv("ASSAY_LEDGER", raising=False)
        yield folder, count()


@pytest.fixture(autouse=True)
def _home(_homes: tuple[Path, count], monkeypatch):
    """A home of its own, unless a fixture that several tests share has already set one; made on first use only."""
    folder, number = _homes
    if os.environ.get("ASSAY_HOME") == str(folder):
        monkeypatch.setenv("ASSAY_HOME", str(folder / str(next(number))))
