"""`python -m benchmarks [family|all] [--only substring [--renew]] [--repeats N] [--no-write]`.

`python -m benchmarks picks --data DIR` compares picks, not times; see `benchmarks.picks`. `python -m benchmarks growth`
runs whole studies on more and more rows, `python -m benchmarks costs` compares the panel's declared costs with times.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module

from benchmarks import runner, table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write; 1 when an answer of ours is worse than a peer's, or missing."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] in (["picks"], ["growth"], ["costs"]):
        return int(import_module(f"benchmarks.{given[0]}").main(given[1:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Time assay beside its peers.")
    parser.add_argument("family", nargs="?", default="all", choices=["all", *runner.families()])
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="only cases named so; nothing is written")
    parser.add_argument("--renew", action="store_true", help="with --only: write the rows of these cases")
    parser.add_argument("--repeats", type=int, default=None, metavar="N", help="rounds, instead of each case's own")
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md as it is")
    asked = parser.parse_args(arguments)

    start = time.perf_counter()

    def tell(said: str) -> None:
        print(f"[{time.perf_counter() - start:7.1f} s] {said}", file=sys.stderr, flush=True)

    sections, failed = {}, False
    for family in runner.families() if asked.family == "all" else [asked.family]:
        package = f"benchmarks.{family}"
        chosen = [case for case in runner.cases(package) if asked.only.lower() in case.name.lower()]
        if not chosen:
            tell(f"{family}: no case has {asked.only!r} in its name")
            continue
        contests = runner.run_all(package, chosen, repeats=asked.repeats, tell=tell)
        print(f"\n{family}\n{table.as_text(contests)}\n", flush=True)
        if asked.only and table.DOCUMENT.exists():
            sections[family] = table.renewed(table.DOCUMENT, family, contests)
        else:
            sections[family] = table.as_markdown(family, contests)
        failed |= any(contest.failed for contest in contests)
    if sections and not asked.no_write and (asked.renew or not asked.only):
        table.write(table.DOCUMENT, sections)
        tell(f"wrote {table.DOCUMENT}")
    if failed:
        tell("FAILED: an answer of ours is missing or worse than a peer's; see the table")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
