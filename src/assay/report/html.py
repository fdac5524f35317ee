"""A study as one HTML file: verdict, evidence, limits, and everything needed to repeat it.

The first page answers four questions in plain words; evidence follows, and what is for the record folds away. The file
stands alone: no fonts, no address it calls, no script but that of the print button, and a policy inside that forbids
browsers to try. It holds its numbers a second time as JSON and CSV. Sections are made one by one; one that fails is a
sentence on the page. Cost: about fifteen small pictures and at most 60,000 predicted rows, a second or two.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from assay.experiment.checks import Check
from assay.experiment.model_card import limitations, model_card
from assay.experiment.state import Context, StudyState
from assay.experiment.storage.files import write_beside
from assay.experiment.study import Study
from assay.experiment.wording import called
from assay.numbers import fmt
from assay.report._about_checks import ABOUT
from assay.report._embed import (
    Part,
    attempt,
    csv_uri,
    decimal,
    failure,
    json_block,
    percent,
    picture,
    say,
    sentence,
    table_of,
)
from assay.report._error_sections import error_parts, subgroup_parts
from assay.report._first_page import Answer, how_far_off, what_drives_it, what_to_do, where_it_fails
from assay.report._held_out import HeldOut
from assay.report._model_section import Learned, learned
from assay.report._outer_section import outer_part
from assay.report._result_sections import board_part, comparisons_part, selection_part, test_parts
from assay.report.draw_experiment import Target, plain

__all__ = ["render", "report_state", "write_report"]

SCRIPT = "const b=document.getElementById('print');b.hidden=false;b.addEventListener('click',()=>window.print());"
"""The one script of the page, allowed by its hash: the print button, which stays hidden where scripts do not run."""
LISTED = 500
"""How many columns of the table are listed."""


def write_report(study: Study, path: Any) -> str:
    """Write the report of a study as one self-contained HTML file; the SHA-256 of the file.

    | parameter | default | range            | meaning                                    |
    |-----------|---------|------------------|--------------------------------------------|
    | study     |         | a `Study`        | evaluated at least; opened or still sealed |
    | path      |         | a file to write  | written beside and renamed over            |

    >>> import numpy as np
    >>> from assay.experiment.storage import home
    >>> from assay.experiment.study import run
    >>> frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60.0) * 2 + np.tile([0.5, -0.5], 30)})
    >>> study = run(frame, "y", learners=["least squares"])
    >>> len(write_report(study, home() / "report.html"))
    64
    """
    data = render(study).encode("utf-8", "replace")
    write_beside(Path(path), data)
    return hashlib.sha256(data).hexdigest()


def report_state(state: StudyState, context: Context, path: Path) -> str:
    """Write the report of a study in this state; the steps call it (`assay.upcalls`)."""
    return write_report(Study.of(state, context), path)


def render(study: Study) -> str:
    """The report of a study as text.

    | parameter | range     | meaning                                    |
    |-----------|-----------|--------------------------------------------|
    | study     | a `Study` | evaluated at least; opened or still sealed |
    """
    told = study.summary()
    board = study.leaderboard.to_frame().reset_index()
    held = HeldOut.of(study)
    model = learned(study, held)
    sections = [
        ("leaderboard", "Leaderboard", _leaderboard(study, board)),
        ("comparisons", "Comparisons", attempt("Comparisons", lambda: comparisons_part(study))),
        _judged(study),
        ("errors", "Errors of held-out rows", error_parts(held)),
        ("subgroups", "Subgroups and slices", subgroup_parts(held)),
        ("model", "What the model learned", model.parts),
        ("limits", "Limits", attempt("Limits", lambda: Part(words=limitations(study.state)))),
        ("checks", "Checks", attempt("Checks", lambda: _checks(study))),
        ("data", "Data", _data(study)),
        ("protocol", "Protocol, fixed beforehand", attempt("Protocol", lambda: _protocol(study, told))),
        ("manifest", "Reproducing the study", attempt("Manifest", lambda: _manifest(study, told["manifest"]))),
        ("card", "Model card", attempt("Model card", lambda: _card(study))),
    ]
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            study=study.name,
            target=study.plan.target,
            source=Path(study.plan.source).name,
            verdict=told["verdict"],
            good=told["better_than_baseline"] and not study.checks.serious,
            answers=_answers(study, held, model, told["finding"]),
            sections=[section for section in sections if section[2]],
            numbers=json_block(told),
            csv=csv_uri(board),
            about=_about(study),
            made=told["manifest"],
            script=Markup(SCRIPT),
            script_hash="sha256-" + b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
        )
    )


def _judged(study: Study) -> tuple[str, str, Any]:
    """What the figure of the study comes from: its test set, or outer folds where it has none."""
    if study.has_test_set:
        return "test", "Test set", test_parts(study)
    return "outer", "Outer folds", attempt("Outer folds", lambda: outer_part(study))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("assay.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["decimal"] = decimal
    return made


# The first page.


def _answers(study: Study, held: HeldOut, model: Learned, finding: str) -> list[Answer]:
    """The four questions; one that cannot be answered is left out with a warning."""
    makers: dict[str, Callable[[], Answer]] = {
        "How far off is it?": lambda: how_far_off(study),
        "What drives it?": lambda: what_drives_it(study, model.importance, model.curves),
        "Where does it fail?": lambda: where_it_fails(study, held),
        "What to do with it?": lambda: what_to_do(study, held, finding),
    }
    found = []
    for title, make in makers.items():
        try:
            found.append(make())
        except Exception as error:
            failure(title, f"{type(error).__name__}: {error}")
    return found


def _leaderboard(study: Study, board: pd.DataFrame) -> list[Part]:
    """Every learner, and the selected one against the best."""
    parts = attempt("Leaderboard", lambda: board_part(study, board))
    return parts + attempt("Selected against best", lambda: selection_part(study))


# The data and the checks.


def _data(study: Study) -> list[Part]:
    """The target as a picture, and the columns."""
    return attempt("The target", lambda: _target(study)) + attempt("Columns", lambda: _columns(study))


def _target(study: Study) -> Part:
    y, plan = study.data.rows.y, study.plan
    kinds = 1 if study.data.rows.classes is None else min(40, study.data.rows.classes.size)
    size = (5.4, 3.2 if kinds == 1 else 1.2 + 0.28 * kinds)
    image = picture(
        Target(plan.target, y, study.wishes.unit), size, f"Distribution of {plain(plan.target)}", titled=False
    )
    return Part("The target", picture=image, caption=f"{plan.target} in the training rows.")


def _columns(study: Study) -> Part:
    plan, rows = study.plan, study.rows
    roles = {plan.target: "target", plan.group: "group", plan.time: "time"}
    shown = list(plan.kinds)[:LISTED]
    cells = [
        (
            name,
            roles.get(name, "left out" if plan.kinds[name] == "id" else ""),
            plan.kinds[name],
            _missing(rows[name], study.missing.get(name, {})),
            _range(rows[name], plan.kinds[name]),
        )
        for name in shown
    ]
    words = [
        f"{Path(plan.source).name}: {len(rows):,} training rows with {len(plan.kinds):,} columns"
        + (f"; the {study.n_test:,} test rows are not described here." if study.has_test_set else ".")
    ]
    words += [sentence(note) for note in study.notes]
    if len(shown) < len(plan.kinds):
        words.append(f"The first {len(shown)} of {len(plan.kinds)} columns are listed.")
    view = table_of("Columns of the training rows", ("column", "role", "kind", "missing", "values"), cells)
    return Part("", tuple(words), view=view, folded=True)


def _range(values: pd.Series, kind: str) -> str:
    """The values of a column, in brief."""
    known = values.dropna()
    if not len(known):
        return "no values"
    if kind in ("number", "date") and known.dtype != object:
        low, high = known.min(), known.max()
        if kind == "date":
            return f"{str(low)[:10]} to {str(high)[:10]}"
        ends = [fmt(one, 6, group=False) for one in (low, high, known.median())]  # as the table writes them: years
        return f"{ends[0]} to {ends[1]}, median {ends[2]}"
    counts = known.astype(str).value_counts()
    if kind in ("text", "id") or len(counts) > 200:
        return f"{len(counts)} distinct values"
    first = ", ".join(f"{plain(name, 24)} {percent(count / len(known))}" for name, count in counts.iloc[:3].items())
    return first if len(counts) <= 3 else f"{len(counts)} levels: {first}, …"


LOOKS = {"info": "info", "warning": "warn", "serious": "severe"}
"""Severities from the least to the most, and how the page shows them."""


def _all_checks(study: Study) -> list[Check]:
    """Those of the training rows and, once the test set is open, those that compare the two parts."""
    found = list(study.checks)
    opened = study.opened
    if opened is not None and opened.parts is not None and not opened.look.beyond:
        found += list(opened.parts.entries)
    return found


def _checks(study: Study) -> Part:
    every = _all_checks(study)
    hits = sorted((one for one in every if one.status == "found"), key=lambda one: -list(LOOKS).index(one.severity))
    rest = [one for one in every if one.status != "found"]
    passed = sum(one.status == "passed" for one in every)
    words = (
        f"{len(every)} checks: {len(hits)} with findings, {passed} passed, {len(rest) - passed} not applicable. "
        "The link of each check leads to what it looks for.",
    )
    shown = tuple(
        {
            "code": one.code,
            "look": LOOKS[one.severity],
            "state": one.severity,
            "title": one.title[:1].upper() + one.title[1:],
            "detail": sentence(one.detail),
            "columns": one.columns[:20],
            "more": max(0, len(one.columns) - 20),
            "remedy": sentence(one.remedy),
        }
        for one in hits
    )
    view = table_of(
        "Checks that passed or do not apply",
        ("check", "status", "detail"),
        [(one.title, one.status, one.detail) for one in sorted(rest, key=lambda one: one.status != "passed")],
    )
    return Part("", words, checks=shown, view=view if rest else None, folded=True, for_record=True)


def _about(study: Study) -> list[tuple[str, str, str]]:
    """Code, title and explanation of every check made."""
    return [(one.code, one.title[:1].upper() + one.title[1:], ABOUT.get(one.code, "")) for one in _all_checks(study)]


# The protocol.


def _missing(cells: pd.Series, texts: dict[str, int]) -> str:
    """The share of missing cells, and what was read as missing beside empty ones."""
    held = ", ".join(repr(text) for text in texts if text)
    share = float(cells.isna().mean())
    return (percent(share) if share else "none") + (f" ({held})" if held else "")


def _protocol(study: Study, told: dict[str, Any]) -> Part:
    plan = study.plan
    assert study.sealed is not None
    seal = study.sealed.seal
    ways = {
        "content": "a keyed hash of each row's content: equal rows stay together, and adding rows moves none of them",
        "group": f"a keyed hash of {plan.group!r}, so that groups are not split",
        "time": f"the order of {plan.time!r}: the latest rows are the test rows",
        "file": "a separate test file",
        "none": "",
    }
    scheme = study.leaderboard.results[study.leaderboard.order[0]].scheme
    looks = (
        "one look" if plan.looks == 1 else f"{plan.looks} looks, with the error probability split equally among them"
    )
    rules = {
        "best": "the learner with the best figure",
        "readable": "the best readable learner if within one standard error of the best, or else the best",
    }
    settings = "with hyperparameters tuned inside each fold" if plan.tuned else "with defaults or built-in tuning"
    rows = [
        ("Task", f"{plan.task} of {plan.target}"),
        ("Estimand", f"{called(plan.metric)} on {plan.population}"),
        *(
            [("Test rows", f"{study.n_test:,} of {len(study.rows) + study.n_test:,}, chosen by {ways[seal.by]}")]
            if study.has_test_set
            else [("Test rows", "none; outer folds repeat the whole procedure")]
        ),
        *([("Why so many", sentence(study.sealed.why))] if study.sealed.why else []),
        ("Sealed", f"{study.sealed.entry.created[:19]}, seal {seal.id}" + (", shared" if study.sealed.shared else "")),
        ("Folds", f"{scheme}; preprocessing and tuning are fitted inside each fold"),
        ("Learners", f"{', '.join(plan.learners)}, each {settings}"),
        ("Main metric", f"{called(plan.metric)}; also reported: {', '.join(map(called, plan.also)) or 'none'}"),
        ("Confidence", f"{100 * plan.level:g}%, corrected for the number of pairs by {plan.correction}"),
        ("Selection", rules[plan.select]),
        *([("Looks at the test set", f"{looks} planned")] if study.has_test_set else []),
        *((f"Hash of {name}", str(value)) for name, value in told["manifest"]["hashes"].items()),
    ]
    return Part(view=table_of("The plan", ("", ""), rows), folded=True, for_record=True)


def _card(study: Study) -> Part:
    card = model_card(study.state, study.wishes)
    words = ("What the model is, what it is for, and where that is recorded; also written as model-card.md.",)
    return Part("", words, listing=decimal(card.to_markdown()), folded=True)


def _manifest(study: Study, made: dict[str, Any]) -> Part:
    rows = [
        *((f"{name} version", str(version)) for name, version in made["versions"].items()),
        ("Seed", str(made["seed"])),
        ("Machine", made["machine"]),
        ("Command", made["command"] or "none"),
        ("Seconds", say(made["seconds"])),
        ("Seal", made["seal"]),
        *((f"Hash of {name}", str(value)) for name, value in made["hashes"].items()),
        ("Ledger head", made["ledger_head"]),
    ]
    words = (
        f"assay verify {study.name} checks the ledger's chain, the hashes, and that a refit gives the same numbers.",
    )
    view = table_of("Manifest", ("", ""), rows)
    return Part("", words, view=view, listing=study.code(), folded=True, for_record=True)
