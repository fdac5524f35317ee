"""How contests are printed and kept: a table for the terminal, and docs/benchmarks.md."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import median

from benchmarks import machine
from benchmarks.runner import Contest, Contestant

__all__ = ["DOCUMENT", "as_markdown", "as_text", "in_columns", "made", "write"]

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"

TITLE = """# Benchmarks

Made by `python -m benchmarks` (or `make bench FAMILY=linear`); nothing here is written by hand. In each case
assay and its peers do the same task on the same data in the same process. The answers are scored first: a run
in which assay's answer is worse than a peer's fails. Then all run in turn, in random order within each round,
after one run to warm up. The *ratio* is the peer's time divided by assay's, the median over the rounds with
the smallest and the largest in brackets: above 1 assay is faster. Against the *floor*, a bare operation that
no method could do without, it is assay's time divided by the floor's. A lower *quality* is a better answer.
*Cold* is the first call in a new process.
"""

HEADINGS = ("case", "against", "assay", "peer", "ratio", "goal", "quality: assay / peer")


def seconds(value: float) -> str:
    """A time in the unit that suits it.

    >>> seconds(0.00123), seconds(2.5), seconds(75.0)
    ('1.23 ms', '2.50 s', '75.0 s')
    """
    if value < 1e-3:
        return f"{1e6 * value:.3g} µs"
    if value < 1:
        return f"{1e3 * value:.3g} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def _number(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}" if ratio < 99.95 else f"{ratio:.0f}"


def spread(ratios: Sequence[float]) -> str:
    """Median and range."""
    middle = _number(median(ratios))
    return middle if len(ratios) == 1 else f"{middle} [{_number(min(ratios))}, {_number(max(ratios))}]"


def rows(contest: Contest) -> list[tuple[str, ...]]:
    """The lines of one case: one per peer, one for the floor, one for the cold start, one per failure."""
    case, ours = contest.case, contest.ours
    if ours.problem is not None:
        return [(case.name, "-", f"FAILED: {ours.problem}", "", "", "", "")]
    own = seconds(ours.time)
    lines = [_against(contest, peer, own) for peer in contest.peers]
    if contest.floor is not None and contest.floor.problem is None:
        over = [1 / ratio for ratio in contest.floor.ratios(ours)]
        goal = _goal(median(over), case.floor_goal, at_most=True)
        lines.append((case.name, "floor", own, seconds(contest.floor.time), spread(over), goal, ""))
    if not lines:
        lines.append((case.name, "-", own, "", "", "", f"{case.quality_name}: {ours.quality:.6g}"))
    if contest.cold is not None:
        cold = contest.cold
        said = f"{seconds(cold.empty)} with no kernel cache, {seconds(cold.filled)} with one"
        lines.append((case.name, "cold", said, "", "", "", f"imports {seconds(cold.imports)}"))
    lines += [(case.name, "FAILED", failure, "", "", "", "") for failure in contest.failures]
    return lines


def _against(contest: Contest, peer: Contestant, own: str) -> tuple[str, ...]:
    case, ours = contest.case, contest.ours
    if peer.problem is not None:
        return (case.name, peer.name, own, peer.problem, "-", _goal(None, case.goals.get(peer.name)), "")
    ratios = peer.ratios(ours)
    quality = f"{case.quality_name}: {ours.quality:.6g} / {peer.quality:.6g}"
    goal = _goal(median(ratios), case.goals.get(peer.name))
    return (case.name, peer.name, own, seconds(peer.time), spread(ratios), goal, quality)


def _goal(reached: float | None, goal: float | None, *, at_most: bool = False) -> str:
    if goal is None:
        return ""
    wanted = f"{'≤' if at_most else '≥'} {goal:g}"
    if reached is None:
        return f"{wanted}: not run"
    return f"{wanted}: {'reached' if (reached <= goal if at_most else reached >= goal) else 'MISSED'}"


def as_text(contests: Sequence[Contest]) -> str:
    """The table for a terminal; a case's name stands on its first line only."""
    table = [HEADINGS, *_grouped(contests)]
    # A failure or a cold start is a sentence; it may run over the columns behind it.
    sentences = ("FAILED", "cold")
    widths = [max(len(row[j]) for row in table if j < 2 or row[1] not in sentences) for j in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _grouped(contests: Sequence[Contest]) -> list[tuple[str, ...]]:
    return [row if i == 0 else ("", *row[1:]) for contest in contests for i, row in enumerate(rows(contest))]


def as_markdown(family: str, contests: Sequence[Contest]) -> str:
    """The section of one family: how, when and where it was made, and its table."""
    return f"## {family}\n\n{made(f'benchmarks {family}')}\n\n{in_columns([HEADINGS, *_grouped(contests)])}\n"


def made(module: str) -> str:
    """By which command, when and where figures were made."""
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions().items())
    where = f"{machine.processor()}, {machine.cores()} cores"
    return f"`python -m {module}`, {date.today().isoformat()}, {where}; {versions}."


def in_columns(lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; its first line has the headings."""
    ruled = [lines[0], ["---" for _ in lines[0]], *lines[1:]]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in ruled)


def renewed(path: Path, family: str, contests: Sequence[Contest]) -> str:
    """The family's section in the document with the rows of these contests renewed, and a line that says so."""
    new = as_markdown(family, contests)
    found = re.search(rf"(?ms)^## {re.escape(family)}\n.*?(?=^## |\Z)", path.read_text(encoding="utf-8"))
    if found is None:
        return new
    cases = _by_case(found[0]) | _by_case(new)
    said = re.findall(r"(?m)^Renewed (\S+): (.*)\.$", found[0])
    days = {name: day for day, names in said for name in names.split("; ")}  # a case counts on its last day only
    days |= {contest.case.name: date.today().isoformat() for contest in contests}
    top = re.split(r"(?m)^(?:Renewed|\| case)", found[0])[0].rstrip()
    on = {day: "; ".join(name for name in days if days[name] == day) for day in sorted({*days.values()})}
    lines = [f"Renewed {day}: {names}." for day, names in on.items()]
    return "\n\n".join([top, *lines, in_columns([HEADINGS])]) + "\n" + "\n".join(cases.values()) + "\n"


def _by_case(section: str) -> dict[str, str]:
    """The rows of each case in a section."""
    found: dict[str, str] = {}
    name = ""
    for line in section.split("| --- |\n", 1)[1].splitlines():
        if line.startswith("| "):
            name = line.split(" | ", 1)[0] if not line.startswith("|  |") else name
            found[name] = f"{found[name]}\n{line}" if line.startswith("|  |") else line
    return found


def write(path: Path, sections: Mapping[str, str]) -> None:
    """Replace the sections of the families that ran and keep the others; write beside and rename over."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    kept = {part.split("\n", 1)[0].strip(): f"## {part.strip()}\n" for part in re.split(r"(?m)^## ", old)[1:]}
    merged = {**kept, **sections}
    text = "\n".join([TITLE, *(merged[family].rstrip() + "\n" for family in sorted(merged))])
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as beside:
        beside.write(text)
    os.chmod(beside.name, 0o644)
    os.replace(beside.name, path)
