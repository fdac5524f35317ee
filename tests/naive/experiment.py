"""Slow obvious oracles for the experiment room: the ledger's chain, what a cell is, encodings, the Ladder."""

from __future__ import annotations

import numpy as np


def chain_digest(previous, seq, kind, study, body, created, blob):
    """The link of a ledger entry, from the definition; `body` is the stored text, `blob` the hex digest or None."""
    import hashlib
    import json

    told = json.dumps([seq, kind, study, body, created, blob], separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256((previous + "|" + told).encode()).hexdigest()


def cell_content(value):
    """What a cell says, whoever read it: a number, a date, text, or nothing."""
    import datetime
    import re
    import unicodedata
    from fractions import Fraction

    if value is None or value != value:
        return None
    if isinstance(value, datetime.datetime):
        return ("date", value)
    if isinstance(value, bool | int | float):
        return float(value) if value in (float("inf"), -float("inf")) else Fraction(value)
    if value in ("", "NA", "nan"):
        return None
    if value.lower() in ("true", "false"):
        return Fraction(value.lower() == "true")
    if re.fullmatch(r"[+-]?[0-9]+", value):
        return Fraction(int(value))
    if re.fullmatch(r"[+-]?[0-9]*\.[0-9]+", value):
        return Fraction(float(value))
    return ("text", unicodedata.normalize("NFC", value))


def ladder_answers(losses, step=None):
    """Blum and Hardt's algorithm over the rows of `losses`, answers rounded to the step."""
    n = losses.shape[1]
    best, answer, answers = np.zeros(n), np.inf, []
    for mine in losses:
        width = step
        if width is None:
            width = max(np.std(mine - best, ddof=1) / np.sqrt(n), max(abs(mine).max(), abs(best).max()) / n)
        if np.mean(mine) < answer - width:
            answer, best = round(np.mean(mine) / width) * width, mine
        answers.append(answer)
    return answers


def guarded_ladder_answers(losses):
    """The Ladder whose step is at least the standard error of the loss; one step up to rounding is not enough."""
    n = losses.shape[1]
    best, answer, answers = np.zeros(n), np.inf, []
    for mine in losses:
        width = max(np.std(mine - best, ddof=1), np.std(mine, ddof=1)) / np.sqrt(n)
        width = max(width, max(abs(mine).max(), abs(best).max()) / n) or 1 / n
        if answer - np.mean(mine) > width * (1 + 1e-9):
            answer, best = round(np.mean(mine) / width) * width, mine
        answers.append(answer)
    return answers


def stratum_threshold_counts(numbers, share):
    """All counts of rows below some threshold that equal numbers allow, and the best distance to the share."""
    counts = sorted({sum(other < limit for other in numbers) for limit in [*numbers, 2.0]})
    return min(abs(count - share * len(numbers)) for count in counts)


def standardised_by_definition(cells, *, impute):
    """A column with gaps (None): filled with the median and flagged, or left, and standardised; None if constant."""
    seen = sorted(cell for cell in cells if cell is not None)
    if not seen or seen[0] == seen[-1]:
        flags = [[float(cell is None)] for cell in cells]
        return flags if impute and seen and len(seen) < len(cells) else None
    half = len(seen) // 2
    median = seen[half] if len(seen) % 2 else (seen[half - 1] + seen[half]) / 2
    filled = [median if cell is None and impute else cell for cell in cells]
    known = [cell for cell in filled if cell is not None]
    mean = np.sum(known) / len(known)
    sd = np.sqrt(np.sum([(value - mean) ** 2 for value in known]) / len(known))
    rows = [[np.nan if value is None else (value - mean) / sd] for value in filled]
    if impute and len(seen) < len(cells):
        rows = [[*row, float(cell is None)] for row, cell in zip(rows, cells, strict=True)]
    return rows


def dummies_by_definition(cells, fresh, size, encode):
    """Names and 0/1 columns of a category learned from `cells` and applied to `fresh`, cell by cell."""
    seen = sorted({cell for cell in cells if cell is not None}, key=lambda level: (-cells.count(level), level))
    least = 2 if len(seen) > 2 else 1
    kept = [level for level in seen[:size] if cells.count(level) >= least]
    kept.sort(key=lambda level: (0, int(level), "") if level.isdigit() else (1, 0, level))
    states = [f"={level}" for level in kept]
    states += ["=other"] if len(kept) < len(seen) else []
    states += [" missing"] if None in cells else []
    if len(states) < 2:
        return [], [[] for _ in fresh]
    shown = states[1:] if len(states) == 2 or encode == "treatment" else states
    rows = []
    for cell in fresh:
        state = " missing" if cell is None else f"={cell}" if cell in kept else "=other"
        rows.append([float(state == name) for name in shown])
    return shown, rows


def one_rule_r2(codes, y):
    """R2 of the mean of a row's level among the rows at positions of the other parity; unseen levels: overall mean."""
    loss = 0.0
    for i, (level, value) in enumerate(zip(codes, y, strict=True)):
        others = [j for j in range(len(y)) if j % 2 != i % 2]
        same = [y[j] for j in others if codes[j] == level] or [y[j] for j in others]
        loss += (value - np.mean(same)) ** 2
    return 1 - loss / np.sum((y - np.mean(y)) ** 2)


def one_rule_skill(codes, labels):
    """Skill of the most frequent class (the first of equals) of a row's level among rows of the other parity."""
    right = 0
    for i, (level, label) in enumerate(zip(codes, labels, strict=True)):
        others = [j for j in range(len(labels)) if j % 2 != i % 2]
        same = [int(labels[j]) for j in others if codes[j] == level] or [int(labels[j]) for j in others]
        right += max(sorted(set(same)), key=same.count) == label
    share = max(np.bincount(labels)) / len(labels)
    return (right / len(labels) - share) / (1 - share)
