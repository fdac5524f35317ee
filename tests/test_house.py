"""The house as a whole: light to enter, nothing happens on import, one direction of travel, everything explained."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

import assay
from assay.base import Estimator
from assay.experiment.steps import ORDER
from tests import estimators

SOURCE = Path(assay.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def fresh(code: str) -> dict:
    """What a new process prints as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


# Entering.


def test_importing_assay_loads_nothing_but_the_standard_library():
    code = """
import json, sys
before = set(sys.modules)
import assay
print(json.dumps(sorted({m.split(".")[0] for m in set(sys.modules) - before} - sys.stdlib_module_names)))
"""
    assert fresh(code) == ["assay"]


def test_importing_everything_has_no_side_effects():
    """No figure library, no threads, no changed settings: those belong to whoever imports us."""
    code = """
import json, os, random, sys, threading, warnings
import numpy as np, numba, pandas, scipy.linalg, sklearn.base, sklearn.model_selection, sklearn.utils.validation
import sklearn.feature_selection, threadpoolctl
def state():
    return {
        "errors": np.geterr(), "print": str(np.get_printoptions()), "random": str(np.random.get_state()[1].tolist()),
        "python random": str(hash(random.getstate())), "threads": threading.active_count(),
        "environment": dict(os.environ), "directory": os.getcwd(), "filters": [str(f) for f in warnings.filters],
        "numba": numba.config.CACHE_DIR, "blas": [l["num_threads"] for l in threadpoolctl.threadpool_info()],
    }
before = state()
import assay
for room in assay.__all__:
    module = getattr(assay, room)
    for name in getattr(module, "__all__", ()):
        getattr(module, name)
after = state()
changed = [name for name in before if before[name] != after[name]]
print(json.dumps({"changed": changed, "drawing": "matplotlib" in sys.modules, "tests": "pytest" in sys.modules}))
"""
    assert fresh(code) == {"changed": [], "drawing": False, "tests": False}


def test_rooms_open_on_first_use():
    code = """
import json, sys
import assay
closed = "assay.linear" in sys.modules
assay.linear
print(json.dumps([closed, "assay.linear" in sys.modules]))
"""
    assert fresh(code) == [False, True]


def test_what_is_there_is_listed_and_the_rest_is_an_attribute_error():
    assert set(assay.__all__) <= set(dir(assay))
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = assay.nothing_of_that_name
    for family in estimators.families().values():
        if hasattr(family, "__all__"):
            assert set(family.__all__) <= set(dir(family))
        with pytest.raises(AttributeError, match="nothing_of_that_name"):
            _ = family.nothing_of_that_name


def test_version_is_a_number_with_dots():
    assert all(part.isdigit() for part in assay.__version__.split("."))


# Public names.


def complaint(name: str, value: object) -> str | None:
    """What is wrong with the documentation of a public name, or None."""
    if isinstance(value, Exception):
        return f"{name} cannot be imported: {value!r}"
    if not callable(value):
        return None  # a table of things that are documented themselves
    if not inspect.getdoc(value):
        return f"{name} has no docstring"
    # Results and metrics are made by us; their fields are nobody's parameters.
    if not (inspect.isfunction(value) or (inspect.isclass(value) and issubclass(value, Estimator))):
        return None
    if ">>>" not in value.__doc__:
        return f"{name} has no example"
    for parameter in inspect.signature(value).parameters.values():
        said = parameter.kind is inspect.Parameter.VAR_KEYWORD or parameter.name in ("X", "y", "sample_weight")
        if not said and parameter.name not in value.__doc__:
            return f"{name} does not describe {parameter.name}"
    return None


def test_every_public_name_can_be_imported_and_is_documented():
    names = estimators.public_names()
    assert len(names) > 100
    assert [said for name, value in names.items() if (said := complaint(name, value))] == []


def test_every_family_has_estimators():
    assert "linear" in estimators.families()
    assert len(estimators.classes()) >= 17


def test_every_variant_is_one_of_an_estimator_and_differs_from_the_others():
    everyone = [*estimators.QUICK, *estimators.SLOW]
    assert {*estimators.SMALL, *estimators.VARIANTS} <= {type(e).__name__ for e in estimators.QUICK}
    assert len({estimators.label(e) for e in everyone}) == len(everyone)


# Sources: what the linters do not see.


@cache
def imports(file: Path) -> set[str]:
    """Every module and every name that a file imports, written with dots."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def offenders(rule: Callable[[Path], Iterable[str]]) -> list[str]:
    """All that `rule` finds wrong in the sources, each with its file."""
    assert len(FILES) > 100
    return [f"{file.relative_to(SOURCE)}: {what}" for file in FILES for what in rule(file)]


def test_what_another_room_uses_has_a_public_name():
    def private(file):
        room = file.relative_to(SOURCE).with_suffix("").parts[0]
        others = [name for name in imports(file) if name.startswith("assay.") and name.split(".")[1] != room]
        return [
            name for name in others if any(part.startswith("_") for part in name.removesuffix("__version__").split("."))
        ]

    assert offenders(private) == []


def test_a_step_of_a_study_imports_no_later_one():
    order = [*ORDER, "finalize"]
    steps = SOURCE / "experiment" / "steps"
    later = [
        f"{name} imports {other}"
        for at, name in enumerate(order)
        for other in order[at + 1 :]
        if any(one.startswith(f"assay.experiment.steps.{other}.") for one in imports(steps / f"{name}.py"))
    ]
    assert later == []


MAKERS = ("jit.py", "vector.py")
"""How kernels are made, and what only they can do."""


def test_kernels_are_compiled_in_one_way():
    def compiles(file):
        return [] if file.name in MAKERS else [name for name in imports(file) if name.split(".")[0] == "numba"]

    assert offenders(compiles) == [], "use assay.numerics.jit.kernel"


def test_only_the_report_draws():
    def draws(file):
        if file.is_relative_to(SOURCE / "report"):
            return []
        return [name for name in imports(file) if name.split(".")[0] == "matplotlib"]

    assert offenders(draws) == []


def test_every_module_says_what_it_is():
    def unsaid(file):
        text = file.read_text(encoding="utf-8")
        if text.strip() and not ast.get_docstring(ast.parse(text)):
            yield "no docstring: a module opens with its mathematics"
        yield from (word for word in ("TODO", "FIXME", "XXX") if word in text)

    assert offenders(unsaid) == []


def test_no_test_looks_at_the_clock():
    # A busy machine fails such a test: count calls, wait for events or bring a clock of your own. Times are benchmarks.
    tests = sorted(Path(__file__).parent.rglob("*.py"))
    clocks = [file.name for file in tests if any(name.split(".")[0] == "time" for name in imports(file))]
    assert clocks == []
