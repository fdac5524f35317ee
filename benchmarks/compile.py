"""What the kernels of each family cost before they first run: `python -m benchmarks.compile [FAMILY...] [--no-write]`.

`assay warm FAMILY` runs in a new process with an empty kernel cache, with one worker process and with one for each
core; then all warm-ups of the family run again in another new process with the cache that is filled. Wall time says how
long a person waits; processor time is what can be compared between machines that have other work too.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks import table

__all__ = ["main", "measure"]

ABOUT = """`assay warm FAMILY` with an empty kernel cache, one worker process and one for each core, and all of the
family's warm-ups again in a new process that finds them in the cache (imports included). A study compiles the part that
its panel needs, beside its other work."""

AGAIN = "import sys; from assay.warm import declared; [one.run() for one in declared(sys.argv[1:]).values()]"


def _timed(command: Sequence[str], cache: str) -> tuple[float, float]:
    """Processor and wall seconds of a command and the processes it starts."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measure(family: str) -> list[float]:
    """Processor and wall seconds with one worker, wall seconds with all cores, wall seconds with a filled cache."""
    warm = [sys.executable, "-m", "assay", "warm", family]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as all_cores:
        processor, alone = _timed([*warm, "--n-jobs", "1"], one)
        _, together = _timed(warm, all_cores)
        _, again = _timed([sys.executable, "-W", "ignore", "-c", AGAIN, family], all_cores)
    return [processor, alone, together, again]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write a table."""
    from assay.warm import families

    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile", description="Time the kernels' compilation.")
    parser.add_argument("family", nargs="*", help="all by default; only then the table is written")
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md as it is")
    asked = parser.parse_args(arguments)
    lines = [["family", "one worker, CPU", "one worker, wall", "all cores, wall", "filled cache, wall"]]
    for family in asked.family or families():
        lines.append([family, *(f"{value:.1f} s" for value in measure(family))])
        print("".join(f"{cell:>20}" for cell in lines[-1]), flush=True)
    if not asked.family and not asked.no_write:
        made = table.made("benchmarks.compile")
        table.write(table.DOCUMENT, {"compile": f"## compile\n\n{made}\n\n{ABOUT}\n\n{table.in_columns(lines)}\n"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
