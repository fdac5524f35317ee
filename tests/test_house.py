"""The house as a whole: light to enter, nothing happens on import, one direction of travel, everything explained."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import assay
from assay.base import Estimator
from tests import estimators

SOURCE = Path(assay.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(SOURCE).as_posix())


def fresh(code: str) -> dict:
    """What a new process prints as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


# Entering.


def test_importing_assay_is_quick_and_loads_nothing_heavy():
    code = """
import json, sys, time
before = set(sys.modules)
start = time.perf_counter()
import assay
took = time.perf_counter() - start
print(json.dumps({"took": took, "loaded": sorted({m.split(".")[0] for m in set(sys.modules) - before})}))
"""
    runs = [fresh(code) for _ in range(3)]
    assert min(run["took"] for run in runs) < 0.3
    assert not {"numpy", "scipy", "sklearn", "numba", "pandas", "matplotlib"} & set(runs[0]["loaded"])


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


@pytest.mark.parametrize("name", estimators.public_names())
def test_every_public_name_can_be_imported_and_is_documented(name):
    found = estimators.public_names()[name]
    if isinstance(found, Exception):
        raise found
    if not callable(found):
        return  # a table of things that are documented themselves
    assert inspect.getdoc(found), f"{name} has no docstring"
    # Results and metrics are made by us; their fields are nobody's parameters.
    if inspect.isfunction(found) or (inspect.isclass(found) and issubclass(found, Estimator)):
        assert ">>>" in found.__doc__, f"{name} has no example"
        for parameter in inspect.signature(found).parameters.values():
            said = parameter.kind is inspect.Parameter.VAR_KEYWORD or parameter.name in ("X", "y", "sample_weight")
            assert said or parameter.name in found.__doc__, f"{name} does not describe {parameter.name}"


def test_every_family_has_estimators():
    assert "linear" in estimators.families()
    assert len(estimators.classes()) >= 17


def test_every_variant_exists():
    kinds = {kind.__name__: kind for kind in estimators.classes()}
    for name, settings in estimators.VARIANTS.items():
        for setting in settings:
            assert set(setting) <= set(inspect.signature(kinds[name]).parameters), (name, setting)
    assert len({estimators.label(e) for e in estimators.instances()}) == len(estimators.instances())


# Sources: what the linters do not see.


def imports(file: Path) -> set[str]:
    """Every module and every name that a file imports, written with dots."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@every_file
def test_only_public_names_of_other_packages_are_used(file):
    # numba and scipy.linalg's BLAS wrappers are public; a leading underscore anywhere is not.
    outside = [name for name in imports(file) if name.split(".")[0] in ("sklearn", "scipy", "numpy", "pandas")]
    private = [name for name in outside if any(part.startswith("_") for part in name.split("."))]
    assert private == []


@every_file
def test_what_another_room_uses_has_a_public_name(file):
    room = file.relative_to(SOURCE).with_suffix("").parts[0]
    others = [name for name in imports(file) if name.startswith("assay.") and name.split(".")[1] != room]
    private = [name for name in others if name.split(".")[-1].startswith("_") and not name.endswith("__")]
    assert private == []


MAKERS = ("jit.py", "team.py", "vector.py")
"""How kernels are made, and what only they can do."""


@every_file
def test_kernels_are_compiled_in_one_way(file):
    if file.name in MAKERS:
        return
    used = {name.split(".")[0] for name in imports(file)}
    assert "numba" not in used, "use assay.numerics.jit.kernel"


@every_file
def test_only_the_report_draws(file):
    if file.is_relative_to(SOURCE / "report"):
        return
    assert not any(name.split(".")[0] == "matplotlib" for name in imports(file))


@every_file
def test_every_module_says_what_it_is(file):
    text = file.read_text(encoding="utf-8")
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "a module opens with its mathematics"
    for word in ("TODO", "FIXME", "XXX"):
        assert word not in text, word


def test_the_first_look_in_the_readme_runs():
    import matplotlib as mpl

    mpl.use("Agg")
    text = (SOURCE.parents[1] / "README.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    exec(compile(code, "README.md", "exec"), {})
