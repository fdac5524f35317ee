"""Slow obvious oracles for trees: recursive search over everything, from the definitions, no cleverness.

A node is a dict: `rows`, `weight`, `value`, `loss`, and, if it is split, `feature`, `threshold` or `first` (the set of
levels of the first child), `gap` (the child of missing values), `gain` and `children`.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

SAME = 1e-12


def value_of(y, w, criterion, classes):
    if classes:
        return np.array([w[y == k].sum() for k in range(classes)]) / w.sum()
    if criterion == "absolute_error":
        order = np.argsort(y, kind="stable")
        y, total = y[order], np.cumsum(w[order])
        low = y[np.argmax(total >= total[-1] / 2 - 1e-12)]
        high = y[np.argmax(total > total[-1] / 2 + 1e-12)]
        return np.array([(low + high) / 2])
    return np.array([np.average(y, weights=w)])


def loss_of(y, w, criterion, classes):
    """Total weighted loss of answering with one value."""
    value = value_of(y, w, criterion, classes)
    total = w.sum()
    if criterion == "squared_error":
        return float((w * (y - value) ** 2).sum())
    if criterion == "absolute_error":
        return float((w * np.abs(y - value)).sum())
    if criterion == "poisson":
        positive = y > 0
        logs = np.zeros(y.size)
        logs[positive] = y[positive] * np.log(y[positive] / value)
        return float((w * (logs - y + value)).sum())
    if criterion == "gini":
        return float(total * (1 - (value**2).sum()))
    if criterion in ("log_loss", "entropy"):
        p = value[value > 0]
        return float(-total * (p * np.log2(p)).sum())
    return float(total * (1 - value.max()))


def mid(a, b):
    t = a + (b - a) / 2
    return t if a <= t < b else a


def level_order(codes, y, w, classes):
    """Levels by mean response, or for three classes and more along the first principal component of class shares."""
    present = np.unique(codes)
    if classes <= 2:
        return sorted(present, key=lambda c: (np.average(y[codes == c], weights=w[codes == c]), c))
    mass = np.array([w[codes == c].sum() for c in present])
    shares = np.array([[w[(codes == c) & (y == k)].sum() for k in range(classes)] for c in present]) / mass[:, None]
    spread = shares - np.average(shares, axis=0, weights=mass)
    cov = (spread * mass[:, None]).T @ spread
    axis = np.linalg.eigh(cov)[1][:, -1]
    axis = axis * np.sign(axis[np.argmax(np.diag(cov))])
    return [c for _, c in sorted(zip(shares @ axis, present, strict=True))]


def candidates(x, y, w, levels, classes):
    """Every split of one column as (name, rows of the first child, gap) in the order in which ties are settled."""
    gap = np.isnan(x)
    here = ~gap
    sides = (0, 1) if gap.any() else (None,)
    sets = []
    if levels:
        present = np.unique(x[here])
        if classes > 2 and present.size <= 10:
            for mask in range(1, 2**present.size, 2):
                sets.append(frozenset(present[[bool(mask >> g & 1) for g in range(present.size)]]))
        elif present.size:
            order = level_order(x[here], y[here], w[here], classes)
            sets = [frozenset(order[: k + 1]) for k in range(len(order))]
        whole = frozenset(present)
        splits = [(s, np.isin(x, list(s)), s == whole) for s in sets]
    else:
        values = np.unique(x[here])
        cuts = [mid(a, b) for a, b in pairwise(values)] + [np.inf] * (values.size > 0)
        splits = [(t, np.where(here, x <= t, False), t == np.inf) for t in cuts]
    for name, first, all_of_them in splits:
        for side in sides:
            if all_of_them and side != 1:
                continue
            yield name, first | gap if side == 0 else first, side


def every_subset_gain(x, y, w, criterion, classes):
    """The best gain over all ways to part the levels of a column without gaps."""
    present = np.unique(x)
    total = loss_of(y, w, criterion, classes)
    best = -np.inf
    for size in range(1, present.size):
        for chosen in combinations(present, size):
            inside = np.isin(x, chosen)
            left = loss_of(y[inside], w[inside], criterion, classes)
            best = max(best, total - left - loss_of(y[~inside], w[~inside], criterion, classes))
    return best


def best_split(X, y, w, counts, levels, criterion, classes, limits, monotone, bounds):
    loss = loss_of(y, w, criterion, classes)
    best = None
    for j in range(X.shape[1]):
        for name, first, side in candidates(X[:, j], y, w, levels[j], classes):
            parts = (first, ~first)
            if any(counts[r].sum() < limits.min_leaf or w[r].sum() < limits.min_weight for r in parts):
                continue
            if criterion == "poisson" and any(y[r].sum() == 0 for r in parts):
                continue
            if classes <= 2:
                a, b = (value_of(y[r], w[r], criterion, classes)[-1] for r in parts)
                inside = all(bounds[0] <= v <= bounds[1] for v in (a, b))
                if not inside or (a - b) * monotone[j] > 0:
                    continue
            gain = loss - sum(loss_of(y[r], w[r], criterion, classes) for r in parts)
            if best is None or gain > best["gain"] + SAME * loss:
                best = {"feature": j, "name": name, "rows": first, "gap": side, "gain": gain, "kind": levels[j] > 0}
    return best


def grow(X, y, w, levels, criterion, classes, limits, *, counts=None, monotone=None, depth=0, bounds=(-np.inf, np.inf)):
    """The tree of an exhaustive search, depth first."""
    counts = np.ones(y.size, dtype=int) if counts is None else counts
    monotone = np.zeros(X.shape[1]) if monotone is None else monotone
    node = {
        "rows": int(counts.sum()),
        "weight": w.sum(),
        "value": value_of(y, w, criterion, classes),
        "loss": loss_of(y, w, criterion, classes),
    }
    if np.ptp(y) == 0 or node["rows"] < limits.min_split or depth >= limits.max_depth:
        return node
    found = best_split(X, y, w, counts, levels, criterion, classes, limits, monotone, bounds)
    if found is None or node["loss"] <= 0 or found["gain"] + SAME * node["loss"] < limits.min_decrease:
        return node
    parts = (found["rows"], ~found["rows"])
    weights = [w[r].sum() for r in parts]
    node.update(feature=found["feature"], gain=found["gain"])
    node["first" if found["kind"] else "threshold"] = found["name"]
    node["gap"] = found["gap"] if found["gap"] is not None else int(weights[1] > weights[0])
    reach = [bounds, bounds]
    sign = monotone[found["feature"]]
    if sign:
        middle = sum(value_of(y[r], w[r], criterion, classes)[-1] for r in parts) / 2
        reach = [(bounds[0], middle), (middle, bounds[1])]
        if sign < 0:
            reach = [(middle, bounds[1]), (bounds[0], middle)]
    node["children"] = [
        grow(
            X[r], y[r], w[r], levels, criterion, classes, limits,
            counts=counts[r], monotone=monotone, depth=depth + 1, bounds=b,
        )
        for r, b in zip(parts, reach, strict=True)
    ]  # fmt: skip
    return node


def grow_multiway(X, y, w, levels, criterion, classes, limits, *, depth=0):
    """A child per level, or a cut in two, by gain ratio among splits of at least average gain."""
    node = {
        "rows": y.size,
        "weight": w.sum(),
        "value": value_of(y, w, criterion, classes),
        "loss": loss_of(y, w, criterion, classes),
    }
    if np.ptp(y) == 0 or y.size < limits.min_split or depth >= limits.max_depth:
        return node
    offers = []
    for j in range(X.shape[1]):
        x = X[:, j]
        if levels[j]:
            present = np.unique(x[~np.isnan(x)])
            if present.size < 2:
                continue
            heavy = int(np.argmax([w[x == c].sum() for c in present]))
            parts = [(x == c) | (np.isnan(x) if k == heavy else False) for k, c in enumerate(present)]
            if any(r.sum() < limits.min_leaf for r in parts):
                continue
            if criterion == "poisson" and any(y[r].sum() == 0 for r in parts):
                continue
            extra = {"levels": present, "gap": heavy}
        else:
            free = (-np.inf, np.inf)
            found = best_split(X[:, [j]], y, w, np.ones(y.size), [0], criterion, classes, limits, [0], free)
            if found is None:
                continue
            parts = [found["rows"], ~found["rows"]]
            side = found["gap"] if found["gap"] is not None else int(w[parts[1]].sum() > w[parts[0]].sum())
            extra = {"threshold": found["name"], "gap": side}
        gain = node["loss"] - sum(loss_of(y[r], w[r], criterion, classes) for r in parts)
        shares = np.array([w[r].sum() for r in parts]) / w.sum()
        offers.append({"feature": j, "gain": gain, "info": -(shares * np.log2(shares)).sum(), "parts": parts, **extra})
    if not offers:
        return node
    average = np.mean([o["gain"] for o in offers])
    best = None
    for offer in offers:
        ratio = offer["gain"] / offer["info"]
        if offer["gain"] + SAME * node["loss"] >= average and (best is None or ratio > best * (1 + 1e-12) + 1e-12):
            best, chosen = ratio, offer
    node.update({k: v for k, v in chosen.items() if k != "parts"})
    node["children"] = [
        grow_multiway(X[r], y[r], w[r], levels, criterion, classes, limits, depth=depth + 1) for r in chosen["parts"]
    ]
    return node
