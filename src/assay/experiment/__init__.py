"""The experiment engine (rows H1, H6): a sealed test set, a panel of learners, one honest look, a ledger of looks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "columns": ("Columns",),
    "model_file": ("load_model", "predict_table", "save_model"),
    "panel": ("Learner", "learners"),
    "plan": ("Plan",),
    "storage": ("Ledger", "home"),
    "study": ("Study", "run"),
    "table": ("Table", "read_table"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"assay.experiment.{_HOME[name]}"), name)
    raise AttributeError(f"module 'assay.experiment' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
