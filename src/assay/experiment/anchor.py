"""Heads of the ledger that lie outside of it, in reports and model files, looked up in its chain.

Whoever may write the ledger's file can write another one, with another chain, and nothing inside shows it. The head
that a report or a model file holds commits to every entry up to its day: if no entry has that digest any more, the
ledger was rewritten since, or the file is of another ledger.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from assay.errors import DataError
from assay.experiment.model_file import load_model
from assay.experiment.storage import schema
from assay.experiment.storage.ledger import Ledger

__all__ = ["head_in", "look_up"]

NUMBERS = re.compile(r'<script type="application/json" id="numbers">(.*?)</script>', re.DOTALL)
HEAD = re.compile(r"[0-9a-f]{12,64}")


def head_in(path: str | Path) -> str:
    """The head of the ledger that a report, a study's JSON or a model file holds."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no such file: {str(path)!r}", remedy="pass a report.html, study.json or model.assay")
    try:
        if path.suffix == ".assay":
            return str(load_model(path)["metadata"]["ledger_head"])
        text = path.read_text(encoding="utf-8")
        block = NUMBERS.search(text)
        return str(json.loads(block[1] if block else text)["manifest"]["ledger_head"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        message = f"{str(path)!r} records no ledger head"
        raise DataError(
            message, remedy="pass a report.html, study.json or model.assay written by this version"
        ) from error


def look_up(ledger: Ledger, head: str) -> tuple[bool, str]:
    """Whether an entry of the ledger has this digest, or begins with it, and a sentence that says so.

    >>> import tempfile
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
    >>> look_up(ledger, "0" * 64)
    (True, 'This is the head of an empty ledger, which every ledger starts from.')
    >>> look_up(ledger, "1" * 64)
    (False, 'head 111111111111 is not in this ledger: the ledger was rewritten, or the head belongs to another one')
    """
    if not HEAD.fullmatch(head):
        raise DataError(f"{head!r} is not a ledger head", remedy="pass its 64 hexadecimal digits, or the first 12")
    if head == schema.GENESIS:
        return True, "This is the head of an empty ledger, which every ledger starts from."
    entries = ledger.entries()
    found = next((entry for entry in entries if entry.digest.startswith(head)), None)
    if found is None:
        return (
            False,
            f"head {head[:12]} is not in this ledger: the ledger was rewritten, or the head belongs to another one",
        )
    where = f"entry {found.seq} of {len(entries)}, from {found.created[:10]}"
    return True, f"Head {head[:12]} is {where}: nothing up to it was changed."
