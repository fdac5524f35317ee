"""Other packages are used through their public names alone, and nothing of theirs is replaced."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import assay

SOURCE = Path(assay.__file__).parent
OURS = {"assay", *sys.stdlib_module_names}
# `numba.core` is Numba's inside, but for its documented events; llvmlite's public part is its IR builder.
PUBLIC = {
    "numba": ("numba.__version__", "numba.config", "numba.njit", "numba.types", "numba.extending", "numba.core.event"),
    "llvmlite": ("llvmlite.ir",),
}


@cache
def trees() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))}


def private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def imported(tree: ast.AST) -> dict[str, str]:
    """The names that a file binds to modules and objects of other packages, with their full paths."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                names[bound] = alias.name if alias.asname else bound
                names.setdefault(alias.name, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return {bound: path for bound, path in names.items() if path.split(".")[0] not in OURS}


def dotted(node: ast.AST) -> list[str]:
    """The parts of `a.b.c`; empty for anything else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def used(tree: ast.AST) -> set[str]:
    """Every path into another package that a file imports or follows, attribute by attribute."""
    names = imported(tree)
    paths = set(names.values())
    for node in ast.walk(tree):
        parts = dotted(node) if isinstance(node, ast.Attribute) else []
        if parts and parts[0] in names:
            paths.add(".".join([names[parts[0]], *parts[1:]]))
    return paths


def is_public(path: str) -> bool:
    package = path.split(".")[0]
    listed = path == package or any(f"{path}.".startswith(f"{one}.") for one in PUBLIC.get(package, [package]))
    return listed and not any(private(part) for part in path.split("."))


def test_imports_and_attributes_of_other_packages_are_public():
    offenders = [
        f"{file.relative_to(SOURCE)}: {path}"
        for file, tree in trees().items()
        for path in sorted(used(tree))
        if not is_public(path)
    ]
    assert offenders == []


def defined() -> set[str]:
    """Every private name that our own sources give to something: functions, classes, variables, attributes."""
    names = set()
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def test_private_attributes_of_objects_are_our_own():
    ours = {*defined(), "_exit", "_init_callback_context"}  # these two are documented
    offenders = []
    for file, tree in trees().items():
        for node in ast.walk(tree):
            name = node.attr if isinstance(node, ast.Attribute) else None
            if isinstance(node, ast.Call) and dotted(node.func) in (["getattr"], ["hasattr"], ["setattr"]):
                given = node.args[1]
                name = given.value if isinstance(given, ast.Constant) else None
            if name is not None and private(name) and name not in ours:
                offenders.append(f"{file.relative_to(SOURCE)}:{node.lineno}: {name}")
    assert offenders == []


def test_nothing_of_another_package_is_replaced():
    offenders = []
    for file, tree in trees().items():
        names = imported(tree)
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else []
            if isinstance(node, ast.Call) and dotted(node.func) in (["setattr"], ["delattr"]):
                targets = [ast.Attribute(node.args[0], "?", ast.Store())]
            for target in targets:
                parts = dotted(target) if isinstance(target, ast.Attribute) else []
                if parts and parts[0] in names:
                    offenders.append(f"{file.relative_to(SOURCE)}:{node.lineno}: {'.'.join(parts)}")
    assert offenders == []
