"""When a seal may be changed, and which rows have been scored before.

A row is scored once a fold of training rows that holds it has been evaluated; figures of such rows may have been seen.
A seal may be changed

    freely            while no fold has been scored under an earlier seal of these rows
    without a reason  while no earlier seal has been opened, if no new test row has been scored
    as advised        if all that changes is that a group or a time is declared, and no earlier seal has been opened

and otherwise with a reason. Groups of rows that were never scored are taken as test groups first, and what cannot be
avoided is counted. Cost: a few passes over arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from assay.experiment.storage.ledger import Ledger, Transaction

__all__ = ["is_opened", "is_scored", "prefer_unscored", "record_scored"]

Array = np.ndarray
KIND = "folds"


def record_scored(ledger: Ledger, seal: str, study: str) -> None:
    """Record, before the first fold, that folds of the training rows under a seal are scored; once per study."""
    if not ledger.entries(KIND, study):
        ledger.append(KIND, {"seal": seal}, study)


def is_scored(ledger: Ledger | Transaction, seal: str) -> bool:
    """Whether a fold has been scored under a seal; a study of an earlier version is known by its result."""
    if any(entry.body["seal"] == seal for entry in ledger.entries(kind=KIND)):
        return True
    names = {entry.study for entry in ledger.entries(kind="study") if entry.body.get("seal") == seal}
    return any(entry.study in names for entry in ledger.entries(kind="result"))


def is_opened(ledger: Ledger | Transaction, seals: Iterable[str]) -> bool:
    """Whether a test set of these seals has been looked at."""
    ids = set(seals)
    return any(look.body["seal"] in ids for look in ledger.entries(kind="look"))


def prefer_unscored(groups: Any, scored: Array, numbers: Array, wanted: int) -> Array:
    """The rows of `wanted` test groups: first those with the smallest share of scored rows, then by their numbers.

    >>> groups, scored = ["a", "a", "b", "b", "c"], np.array([True, False, False, False, True])
    >>> prefer_unscored(groups, scored, np.array([0.1, 0.1, 0.9, 0.9, 0.2]), 1)
    array([False, False,  True,  True, False])
    """
    codes, _ = pd.factorize(np.asarray(groups))
    share = np.bincount(codes, weights=scored) / np.bincount(codes)
    first = np.unique(codes, return_index=True)[1]
    order = np.lexsort((numbers[first], share))
    return np.asarray(np.isin(codes, order[:wanted]))
