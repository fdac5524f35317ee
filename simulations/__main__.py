"""Run every simulation of every module here and write docs/simulations.md."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import simulations

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulations.md"


def main() -> None:
    """Each module maps titles to functions in `SIMULATIONS`; a function returns a frame, its docstring the claim."""
    names = sorted(module.name for module in iter_modules(simulations.__path__) if not module.name.startswith("_"))
    lines = ["# Simulations", "", "Made by `make simulate`; every run is seeded.", ""]
    for name in names:
        for title, run in import_module(f"simulations.{name}").SIMULATIONS.items():
            start = time.perf_counter()
            frame = run()
            print(f"{title} ({time.perf_counter() - start:.1f} s)\n{frame.to_string(index=False)}\n", file=sys.stderr)
            claim = " ".join((run.__doc__ or "").split())
            lines += [f"## {title}", "", claim, "", _markdown(frame), ""]
    PAGE.write_text("\n".join(lines), encoding="utf-8")


def _markdown(frame) -> str:
    def cell(value: object) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    rows = [
        list(frame.columns),
        ["---"] * frame.shape[1],
        *[[cell(v) for v in row] for row in frame.itertuples(index=False)],
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    main()
