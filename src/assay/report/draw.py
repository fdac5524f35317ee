"""How each kind of result is drawn: `draw(result, ax=None)` dispatches on its type and returns the axes.

Results call this through their own `plot()` (`assay.upcalls`). A module `draw_<subject>.py` of this package registers
its pictures when it is loaded; all of them are found here, none is listed.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from assay.report.picture import draw

__all__ = ["draw"]

for _module in sorted(Path(__file__).parent.glob("draw_*.py")):
    import_module(f"assay.report.{_module.stem}")
