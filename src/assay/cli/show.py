"""Commands that look back: `history`, `compare`, `show`, `report`, `verify`, `learners`, `doctor`."""

from __future__ import annotations

import os
import platform
import shutil
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from assay import __version__
from assay.cli import live, out
from assay.cli.options import Explain, Id, Json, options_of, study_names, takes
from assay.cli.session import full_name, load, recall, refuse_unwritable
from assay.errors import AssayError, ParameterError

__all__ = ["compare", "doctor", "history", "learners", "report", "show", "verify"]

PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "numba", "SQLAlchemy", "skops", "typer", "rich")
LITTLE = 1 << 30
"""Bytes of free space below which the doctor warns."""
ROWS, COLUMNS = 10_000, 20
"""The size of the table for which the cost of a fit is given."""

Plain = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def history(json_: Plain = False) -> None:
    """List the studies in the ledger: when, what, how many looks, and their results."""
    from assay.experiment.storage.ledger import trusted_ledger

    ledger = trusted_ledger(None)
    entries = ledger.entries()
    found = _studies(entries)
    if json_:
        out.document({"ledger": ledger.where, "head": ledger.head(), "studies": found})
        return
    if not found:
        out.lines(["No studies yet; start one with: assay run TABLE --target COLUMN"], indent=0)
        return
    titles = {
        "study": "whole",
        "begun (UTC)": "words",
        "target": "left",
        "rows": "right",
        "looks": "right",
        "selected": "left",
        "score": "right",
    }
    rows = [
        (
            one["study"],
            one["begun"][:16].replace("T", " "),
            one["target"],
            f"{one['n_train']:,} + {one['n_test']:,}",
            one["looks"] or ("sealed" if one["n_test"] else "none"),
            one["selected"] or "unfinished",
            _score(one),
        )
        for one in found
    ]
    out.table(titles, rows, cut=33)
    out.lines([f"Ledger {ledger.where}, {out.count(len(entries), 'entry', 'entries')}, head {ledger.head()[:16]}"])


def _score(one: dict[str, Any]) -> str:
    """The main figure of the test set, formatted as in the study."""
    from assay.experiment.wording import called, figure

    metric, figures = one["metric"], one["test"] if one["outer"] is None else one["outer"]
    if figures is None:
        return ""
    if metric not in figures:
        return "not planned" if one["outer"] is None else ""
    score = f"{called(metric, short=True)} {figure(metric, figures[metric], *one['limits'].get(metric, ()))}"
    return score if one["outer"] is None else f"{score} (outer folds)"


def _studies(entries: list[Any]) -> list[dict[str, Any]]:
    """One record per study, the newest last."""
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if entry.kind == "study" and entry.study not in found:
            plan = entry.body["plan"]
            found[entry.study] = {
                "study": entry.study,
                "begun": entry.created,
                "source": plan["source"],
                "target": plan["target"],
                "task": plan["task"],
                "metric": plan["metric"],
                "n_train": entry.body["n_train"],
                "n_test": entry.body["n_test"],
                "looks": 0,
                "selected": None,
                "test": None,
                "outer": None,
                "limits": {},
            }
        elif entry.study in found and entry.kind in ("look", "replay"):
            # A replay is the same answer again: it shows that the set is open, and counts no further look.
            found[entry.study]["looks"] = max(1, found[entry.study]["looks"] + (entry.kind == "look"))
        elif entry.study in found and entry.kind == "result":
            limits = entry.body.get("limits") or {}
            found[entry.study] |= {
                "selected": entry.body["selected"],
                "test": entry.body["test"],
                "outer": entry.body.get("outer"),
                "limits": limits,
            }
    return list(found.values())


def compare(
    names: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Two or more studies.", autocompletion=study_names)
    ],
    json_: Plain = False,
) -> None:
    """Show studies side by side: figures with intervals, picks, and what differs in their plans."""
    from dataclasses import asdict

    from assay.experiment.side_by_side import side_by_side
    from assay.experiment.storage.ledger import trusted_ledger

    found = side_by_side(trusted_ledger(None), [full_name(name) for name in names])
    if json_:
        out.document({**asdict(found), "caution": found.caution()})
        return
    frame = found.to_frame()
    titles = {"": "words", **dict.fromkeys(found.studies, "words")}
    out.table(
        titles, [(label, *row) for label, row in zip(frame.index, frame.to_numpy().tolist(), strict=True)], cut=200
    )
    if found.warnings:
        out.complain(f"{found.caution()}; compare learners on the same rows with one assay run")


def show(name: Id, json_: Json = False, explain: Explain = False) -> None:
    """Print a study again, as `run` did; a sealed test set stays sealed."""
    with live.heard(json_):
        study = recall(name, live.Live(json_))
        if json_:
            out.document(study.summary())
            return
        from assay.cli import tell

        for told in tell.AFTER.values():
            told(study, explain)
        tell.verdict(study)


@takes("out", "unit", "by", "trust", "background")
def report(ctx: typer.Context, name: Id, *, json_: Json = False, **given: Any) -> None:
    """Write the report and the model of a study again."""
    options = options_of(ctx, given)
    with live.heard(json_):
        refuse_unwritable(options.get("out"))
        asked = {key: value for key, value in options.items() if key in ("unit", "by", "background")}
        study = recall(name, live.Live(json_), **asked)
        folder = options.get("out") or study.wishes.out or Path("out") / study.name
        files = study.publish(folder, trust=options.get("trust", ()))
    if json_:
        out.document({"study": study.name, **files})
    else:
        width = max(map(len, files), default=0)
        out.lines([f"{name:<{width}} {path}" for name, path in files.items()], indent=0)
    if study.unwritten is not None:
        out.complain(" ".join(study.unwritten))


def verify(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="The study, or a unique prefix of its name.", autocompletion=study_names),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(
            "--report", metavar="FILE", help="A report.html, study.json or model.assay that records a ledger head."
        ),
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="HASH", help="A ledger head that you wrote down earlier.")
    ] = None,
    json_: Json = False,
) -> None:
    """Verify a study: the ledger's chain, the hashes of its rows, and that a refit gives the same model.

    Or check that a ledger head recorded elsewhere is still in the ledger: assay verify --report out/report.html
    """
    from assay.experiment.storage import Ledger

    if name is None and report is None and head is None:
        raise ParameterError("nothing to verify", remedy="pass a study, --report FILE or --head HASH")
    if report is not None or head is not None:
        _verify_head(Ledger(), report, head, json_ and name is None)
    if name is None:
        return
    ledger, full = Ledger(), full_name(name)
    problems = ledger.verify()
    if not problems:  # what a damaged ledger says of a study is not worth checking
        with live.heard(json_):
            shown = live.Live(json_)
            study = load(full, shown)
            with shown:
                problems = study.verify()
    now = ledger.head()
    if json_:
        out.document({"study": full, "problems": problems, "ledger_head": now})
    elif problems:
        for words in problems:
            out.complain(words)
    else:
        rows = "sealed rows" if study.has_test_set else "training rows"
        sentence = f"{full} verified: the ledger is intact, the {rows} are unchanged, and a refit gives the same model."
        out.lines(
            [sentence, f"The ledger's head is now {now}; a report records the head at the time it was written."],
            indent=0,
        )
    if problems:
        raise typer.Exit(1)


def _verify_head(ledger: Any, report: str | None, head: str | None, json_: bool) -> None:
    """Say whether the head in a file, or one that was written down, is still in the ledger."""
    from assay.experiment.anchor import head_in, look_up

    heads = [one for one in (head, None if report is None else head_in(report)) if one is not None]
    damage = ledger.verify()
    found = [(False, words) for words in damage] or [look_up(ledger, one) for one in heads]
    if json_:
        out.document({"heads": heads, "problems": [words for held, words in found if not held]})
    else:
        for held, words in found:
            out.lines([words], indent=0) if held else out.complain(words)
    if not all(held for held, _ in found):
        raise typer.Exit(1)


def learners(
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", help="regression or classification (default: both).")
    ] = None,
    json_: Plain = False,
) -> None:
    """List the learners of the panels: what is tuned, and what a fit costs."""
    from assay.experiment.panel import TASKS
    from assay.experiment.panel import learners as declared

    if task is not None and task not in TASKS:
        raise ParameterError(f"unknown task {task!r}", remedy=f"choose {' or '.join(TASKS)}")
    found = [_learner(one) for one in declared(task)]
    if json_:
        out.document(found)
        return
    titles = {"order": "right", "learner": "words", "cost": "right", "description, and what each panel runs": "left"}
    for part in TASKS if task is None else (task,):
        out.heading(f"{part.capitalize()}")
        rows = [
            (
                one["order"],
                one["learner"] + ("" if one["ours"] else " *"),
                f"{one['cost']:.0e}".replace("e+0", "e").replace("e+", "e"),
                f"{one['about']}. {_runs(one)}",
            )
            for one in found
            if one["task"] == part
        ]
        out.table(titles, rows, cut=300)
    out.lines(
        [
            "",
            f"Cost: multiply-adds of one fit to {ROWS:,} rows and {COLUMNS} columns, of a classifier with two "
            "classes. All other parameters have the estimator's defaults; random_state is set by --seed.",
            "Values are tuned inside each fold, by five inner folds unless stated otherwise.",
            "* from another package: its results may change with the version of that package.",
        ]
    )


JUDGED = {"oob": " by out-of-bag predictions", "own": " by the rows that early stopping holds out"}
"""How values are tuned, where it is not by inner folds."""


def _runs(one: dict[str, Any]) -> str:
    """Which panels run what: the estimator as it is, or tuned over some values."""
    tuned = "; ".join(f"{name} {_values(values)}" for name, values in one["tuning"].items())
    plain = [name for name in one["panels"] if name == "quick" or not tuned]
    searched = [name for name in one["panels"] if name not in plain]
    how = JUDGED.get(one["judged"], "")
    told = [f"{', '.join(plain)}: {one['estimator']}"] if plain else []
    if searched:
        told.append(f"{', '.join(searched)}: {'the same' if plain else one['estimator']}, tuned{how}: {tuned}")
    return ". ".join(told)


def _values(values: list[Any]) -> str:
    return "[" + ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values) + "]"


def _learner(one: Any) -> dict[str, Any]:
    return {
        "learner": one.name,
        "task": one.task,
        "about": one.about,
        "order": one.order,
        "panels": list(one.panels),
        "estimator": one.call,
        "settings": one.settings,
        "tuning": {key: list(values) for key, values in one.space.items()},
        "judged": one.judged,
        "candidates": one.candidates,
        "cost": float(one.cost(ROWS, COLUMNS)),
        "cost_of": {"rows": ROWS, "columns": COLUMNS, "classes": None if one.task == "regression" else 2},
        "ours": one.own,
    }


def doctor(json_: Plain = False) -> None:
    """Check this machine: versions, threads, kernels, ledger and free space."""
    found = {"versions": _versions(), **_threads(), **_kernels(), **_ledger()}
    problems = found["problems"]
    if json_:
        out.document(found)
    else:
        out.heading("Versions")
        out.lines([", ".join(f"{name} {version}" for name, version in found["versions"].items())])
        out.heading("Machine")
        blas = ", ".join(f"{one['library']} {one['threads']}" for one in found["blas"]) or "unknown"
        out.lines([f"{found['machine']}; {out.count(found['cores'], 'core')}; threads of BLAS and OpenMP: {blas}"])
        state = "all compiled" if found["kernels"]["warm"] else "not all compiled; compile the rest with: assay warm"
        out.lines([f"kernels in {found['kernels']['directory'] or 'no writable directory'} ({state})"])
        out.heading("Ledger")
        size = out.count(found["entries"] or 0, "entry", "entries")
        out.lines([f"home {found['home']} ({found['free'] / 1e9:.1f} GB free)"])
        out.lines([f"ledger {found['ledger']}, {size}, {'no problems' if not problems else 'PROBLEMS'}"])
        for words in problems:
            out.complain(words)
    if problems:
        raise typer.Exit(1)


def _versions() -> dict[str, str]:
    found = {"assay": __version__, "Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def _threads() -> dict[str, Any]:
    import sklearn.utils.validation  # noqa: F401  (loads the OpenMP and BLAS that learners use)
    import threadpoolctl

    from assay.numerics.threads import cores

    pools = [{"library": one["internal_api"], "threads": one["num_threads"]} for one in threadpoolctl.threadpool_info()]
    return {"machine": f"{platform.system()} {platform.machine()}", "cores": cores(), "blas": pools}


def _kernels() -> dict[str, Any]:
    from assay.numerics.jit import cache_directory
    from assay.warm import declared, pending

    where = cache_directory()
    warm = where is not None and not pending(declared())
    return {"kernels": {"directory": where and str(where), "warm": warm}}


def _ledger() -> dict[str, Any]:
    from assay.experiment.storage.ledger import Ledger, forgotten, home

    place = home()
    free = shutil.disk_usage(place).free
    problems = [] if os.access(place, os.W_OK) else [f"{place} is not writable"]
    if free < LITTLE:
        problems.append(f"only {free / 1e6:.0f} MB free in {place}")
    found = {"home": str(place), "free": free, "ledger": None, "entries": None, "head": None}
    try:
        ledger = Ledger()
        found |= {"ledger": ledger.where, "entries": len(ledger.entries()), "head": ledger.head()}
        problems += ledger.verify()
        problems += [f"study {name} has a working folder but is not in the ledger" for name in forgotten(ledger)]
    except AssayError as error:
        problems.append(str(error))
    return {**found, "problems": problems}
