"""Kernels keep NaN and error terms, and a place that cannot be written to never stops them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from assay.numerics import jit
from assay.numerics.jit import kernel


@kernel
def count_nan(x):
    count = 0
    for value in x:
        if value != value:
            count += 1
    return count


@kernel
def count_finite(x):
    count = 0
    for value in x:
        if np.isfinite(value):
            count += 1
    return count


@kernel(exact=True)
def two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel
def two_sum_from_a_fast_kernel(a, b):
    return two_sum(a, b)


@kernel(inline=True)
def inner_square(x):
    return x * x


@kernel
def sum_of_squares(x):
    total = 0.0
    for value in x:
        total += inner_square(value)
    return total


def test_an_inlined_kernel_can_be_called_from_python_too():
    assert sum_of_squares(np.arange(4.0)) == 14.0
    assert inner_square(3.0) == 9.0


def test_nan_and_infinity_survive_fast_arithmetic():
    x = np.array([1.0, np.nan, np.inf, -np.inf, np.nan, 0.0])
    assert count_nan(x) == 2
    assert count_finite(x) == 2


@pytest.mark.parametrize("compiled", [two_sum, two_sum_from_a_fast_kernel])
def test_exact_keeps_the_error_term(compiled):
    s, error = compiled(1e16, 1.0)
    assert int(s) + int(error) == 10**16 + 1
    s, error = compiled(1.0, 1e-20)
    assert (s, error) == (1.0, 1e-20)


def test_a_kernel_lets_go_of_the_interpreter_lock_and_is_cached():
    assert count_nan.targetoptions["nogil"]
    assert not {"nnan", "ninf", "fast"} & set(count_nan.targetoptions["fastmath"])
    assert not two_sum.targetoptions["fastmath"]
    if jit.cache_directory() is not None:
        count_nan(np.zeros(1))
        assert Path(count_nan.stats.cache_path).is_relative_to(jit.cache_directory())


def test_decorating_leaves_numbas_configuration_alone():
    import numba

    before = numba.config.CACHE_DIR

    @kernel
    def half(x):
        return x / 2

    assert half(3.0) == 1.5
    assert before == numba.config.CACHE_DIR


# The order of the candidates, with the file system imagined.


@pytest.fixture
def fresh():
    jit.cache_directory.cache_clear()
    yield
    jit.cache_directory.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_places_are_tried_in_order(monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/asked")
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/me/.cache")
    monkeypatch.setattr(sys, "platform", "linux")
    wanted = ["/asked", str(jit.PACKAGE / "__pycache__"), "/home/me/.cache/assay"]
    for first in range(3):
        closed = wanted[:first]
        monkeypatch.setattr(jit, "_writable", lambda place, closed=closed: str(place.parent) not in closed)
        jit.cache_directory.cache_clear()
        assert str(jit.cache_directory().parent) == wanted[first]
    monkeypatch.setattr(jit, "_writable", lambda place: False)
    jit.cache_directory.cache_clear()
    assert jit.cache_directory() is None


def test_without_a_home_there_is_still_no_error(monkeypatch):
    """`Path.expanduser` raises where no home can be found, as in a container with an unknown user."""

    def homeless(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert jit._candidates()


# The same for real: a copy of the package in its own process.

PROBE = """
import assay.numerics.probe as probe
from assay.numerics import jit
print(jit.cache_directory())
print(probe.outer(3.0))
print(sum(probe.outer.stats.cache_hits.values()))
"""
INNER = "from assay.numerics.jit import kernel\n@kernel\ndef inner(x):\n    return x + {}\n"
OUTER = """from assay.numerics.jit import kernel
from assay.numerics.inner import inner
@kernel
def outer(x):
    return 2 * inner(x)
"""


@pytest.fixture
def copy(tmp_path):
    """A copy of the package with two kernels, one calling the other from another file."""
    package = tmp_path / "site" / "assay"
    shutil.copytree(jit.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "linear", "report"))
    (package / "numerics" / "inner.py").write_text(INNER.format(1))
    (package / "numerics" / "probe.py").write_text(OUTER)
    return package


def run(copy: Path, **environment: str) -> tuple[str, float, int]:
    """Directory, value of outer(3) and number of kernels found in the cache, in a new process."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE],
        env={**kept, "PYTHONPATH": str(copy.parent), **environment},
        cwd=copy.parent,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    directory, value, hits = done.stdout.split()
    return directory, float(value), int(hits)


def test_an_edit_in_another_file_starts_a_fresh_cache(copy):
    first, value, hits = run(copy)
    assert Path(first).parent == copy / "__pycache__"
    assert (value, hits) == (8.0, 0)
    assert run(copy) == (first, 8.0, 1)
    (copy / "numerics" / "inner.py").write_text(INNER.format(10))
    second, value, _ = run(copy)
    assert second != first
    assert value == 26.0


def test_a_package_that_cannot_be_written_to_uses_the_users_cache(copy, tmp_path):
    # Root may write anywhere, but not even root can make a directory below a file.
    (copy / "__pycache__").write_text("")
    home = tmp_path / "home"
    directory, value, _ = run(copy, XDG_CACHE_HOME=str(home))
    assert Path(directory).parent == home / "assay"
    assert value == 8.0
    assert run(copy, XDG_CACHE_HOME=str(home))[2] == 1


def test_nowhere_to_write_compiles_anew(copy):
    (copy / "__pycache__").write_text("")
    nowhere = str(copy / "__pycache__" / "below-a-file")
    assert run(copy, XDG_CACHE_HOME=nowhere, HOME=nowhere) == ("None", 8.0, 0)
    assert run(copy, XDG_CACHE_HOME=nowhere, HOME=nowhere, NUMBA_CACHE_DIR=nowhere) == ("None", 8.0, 0)


def test_the_users_own_choice_of_directory_comes_first(copy, tmp_path):
    directory, value, _ = run(copy, NUMBA_CACHE_DIR=str(tmp_path / "mine"))
    assert Path(directory).parent == tmp_path / "mine"
    assert value == 8.0


def test_every_file_that_kernels_are_made_of_counts():
    files = {file.name for file in jit._sources()}
    assert {"jit.py", "vector.py", "_boost_grow.py"} <= files
    for file in jit.PACKAGE.rglob("*.py"):
        text = file.read_text()
        if "from numba" in text or "import numba" in text or re.search(r"import kernel\b", text):
            assert file.name in files


def test_division_by_zero_is_numpys():
    @kernel
    def ratio(a, b):
        return a / b

    assert ratio(1.0, 0.0) == np.inf
    assert np.isnan(ratio(0.0, 0.0))
