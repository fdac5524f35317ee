"""Calls from lower layers to higher ones: the only ones, by name.

A result draws itself and a study writes its report, but pictures and pages stand above both and know them. The lower
layer asks for the function by name when it needs it; nothing is imported before.

>>> upcall("draw").__name__
'draw'
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["UPCALLS", "upcall"]

UPCALLS = {
    "draw": "assay.report.draw",
    "draw_tree": "assay.report.draw_trees",
    "report_state": "assay.report.html",
}
"""Function -> the module that has it."""


def upcall(name: str) -> Callable[..., Any]:
    """The function of a higher layer with this name."""
    found: Callable[..., Any] = getattr(import_module(UPCALLS[name]), name)
    return found
