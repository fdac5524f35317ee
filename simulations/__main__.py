"""Run the simulations of the named modules here, or of all, and write docs/simulations/<module>.md for each."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pandas as pd

import simulations

PAGES = Path(__file__).resolve().parent.parent / "docs" / "simulations"


def main(asked: list[str]) -> None:
    """Each module maps titles to functions in `SIMULATIONS`; a function returns a frame, its docstring the claim."""
    known = sorted(module.name for module in iter_modules(simulations.__path__) if not module.name.startswith("_"))
    unknown = sorted(set(asked) - set(known))
    if unknown:
        sys.exit(f"no simulations named {', '.join(unknown)}; there are {', '.join(known)}")
    PAGES.mkdir(exist_ok=True)
    for name in asked or known:
        lines = [f"# Simulations: {name}", "", f"Made by `python -m simulations {name}`; every run is seeded.", ""]
        for title, run in import_module(f"simulations.{name}").SIMULATIONS.items():
            start = time.perf_counter()
            frame = run()
            print(f"{title} ({time.perf_counter() - start:.1f} s)\n{frame.to_string(index=False)}\n", file=sys.stderr)
            claim = " ".join((run.__doc__ or "").split())
            lines += [f"## {title}", "", claim, "", _markdown(frame), ""]
        (PAGES / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")


def _markdown(frame: pd.DataFrame) -> str:
    def cell(value: object) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    body = [[cell(value) for value in row] for row in frame.itertuples(index=False)]
    rows = [[str(name) for name in frame.columns], ["---"] * frame.shape[1], *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    main(sys.argv[1:])
