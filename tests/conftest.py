"""What every test gets: a fixed global seed, quiet figures and the same hypothesis examples on every run."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from hypothesis import settings

from assay.numerics.jit import first_announcement

os.environ.setdefault("MPLBACKEND", "Agg")  # before anything draws; subprocesses inherit it

settings.register_profile("quick", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("long", settings.get_profile("quick"), max_examples=500)
settings.load_profile("quick")  # `make test-all` asks for the long one, which is loaded after this file


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_announced() -> None:
    """On a cold cache the first command says that kernels are being compiled; tests read what it says otherwise."""
    first_announcement()


@pytest.fixture(autouse=True)
def _same_start() -> None:
    """`random_state=None` draws from numpy's global state, which starts alike in every test, in any order."""
    np.random.seed(0)  # noqa: NPY002  (it is the legacy global state that must be pinned)


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
