"""Is a table that was changed recognised, and is another one left alone? The detector of `test_set.alignment`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from importlib import import_module

import numpy as np
import pandas as pd
from sklearn import datasets

from assay.experiment.test_set.alignment import align
from assay.experiment.test_set.axes import axes

__all__ = ["CHANGES", "SIMULATIONS", "shipped"]

Change = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]


def shipped() -> dict[str, pd.DataFrame]:
    """Real tables that ship with scikit-learn and statsmodels; the last column is the target."""
    made = {}
    for name in ("iris", "wine", "breast_cancer", "diabetes", "digits"):
        made[name] = getattr(datasets, f"load_{name}")(as_frame=True, **_plain(name)).frame.iloc[:800]
    for name, target in {"fair": "affairs", "star98": "NABOVE", "anes96": "vote"}.items():
        made[name] = _statsmodels(name, target)
    made["bikes"], made["patients"] = _bikes(), _patients()
    return {name: frame.rename(columns=str) for name, frame in made.items()}


def _statsmodels(name: str, target: str) -> pd.DataFrame:
    frame = import_module(f"statsmodels.datasets.{name}").load_pandas().data.reset_index(drop=True)
    return frame[[*(other for other in frame if other != target), target]]


def _plain(name: str) -> dict[str, bool]:
    return {"scaled": False} if name == "diabetes" else {}


def _bikes() -> pd.DataFrame:
    """Hourly counts with dates, weather in words and gaps, as such files have."""
    rng = np.random.default_rng(11)
    hours = pd.date_range("2020-01-01", periods=3000, freq="h")
    temperature = 10 + 8 * np.sin(np.arange(3000) / 24 * 2 * np.pi) + rng.normal(0, 3, 3000)
    frame = pd.DataFrame({"time": hours.strftime("%Y-%m-%d %H:%M"), "temperature": temperature.round(1)})
    frame["weather"] = rng.choice(["clear", "mist", "rain", "snow"], 3000, p=[0.5, 0.3, 0.15, 0.05])
    frame["humidity"] = np.where(rng.random(3000) < 0.1, np.nan, rng.integers(20, 100, 3000))
    frame["wind"] = rng.gamma(2, 4, 3000).round(1)
    frame["holiday"] = (rng.random(3000) < 0.03).astype(int)
    return frame.assign(riders=rng.poisson(np.exp(3 + 0.05 * temperature)))


def _patients() -> pd.DataFrame:
    """Clinical rows: categories, whole numbers, gaps, a rare outcome."""
    rng = np.random.default_rng(12)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 800), "age": rng.integers(18, 95, 800)})
    frame["site"] = rng.choice([f"site {k}" for k in range(12)], 800)
    frame["weight"] = rng.normal(75, 14, 800).round(1)
    frame["height"] = rng.normal(170, 9, 800).round()
    for name, mean in {"systolic": 130, "cholesterol": 200, "glucose": 100}.items():
        frame[name] = np.where(rng.random(800) < 0.07, np.nan, rng.normal(mean, mean / 8, 800).round())
    frame["smoker"] = rng.choice(["never", "former", "current"], 800, p=[0.5, 0.3, 0.2])
    frame["visit"] = (pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 900, 800), "D")).strftime("%Y-%m-%d")
    return frame.assign(event=(rng.random(800) < 0.12).astype(int))


def _numbers(frame: pd.DataFrame) -> list[str]:
    return list(frame.select_dtypes("number").columns)


def _each(
    frame: pd.DataFrame, change: Callable[[pd.Series], pd.Series], names: list[str] | None = None
) -> pd.DataFrame:
    chosen = _numbers(frame) if names is None else names
    return frame.assign(**{name: change(frame[name]) for name in chosen})


def _target(change: Callable[[pd.Series], pd.Series]) -> Change:
    return lambda frame, rng: frame.assign(**{frame.columns[-1]: change(frame[frame.columns[-1]])})


def _codes(column: pd.Series) -> pd.Series:
    return pd.Series(pd.factorize(column)[0], column.index)


def _digits(column: pd.Series, digits: int) -> pd.Series:
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(column.where(column != 0, 1.0)))))
    return (column * scale).round() / scale


def _spelled(column: pd.Series) -> pd.Series:
    return column.map(lambda value: "level " + hashlib.sha1(str(value).encode()).hexdigest()[:6])


def _some(frame: pd.DataFrame, rng: np.random.Generator, share: float) -> list[str]:
    names = list(frame.columns)
    return [str(name) for name in rng.permutation(names)[: int(np.ceil(share * len(names)))]]


def _positive(column: pd.Series) -> pd.Series:
    return column - min(0.0, float(column.min())) + 1


def _noise(share: float) -> Change:
    def change(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        return _each(frame, lambda column: column + share * float(column.std()) * rng.normal(size=len(column)))

    return change


def _dummies(frame: pd.DataFrame, _rng: np.random.Generator) -> pd.DataFrame:
    words = [name for name in frame.columns[:-1] if frame[name].nunique() < 8]
    return pd.get_dummies(frame, columns=words, dtype=float)


def _dates(frame: pd.DataFrame, _rng: np.random.Generator) -> pd.DataFrame:
    known = [name for name in ("time", "visit") if name in frame]
    return _each(frame, lambda column: pd.to_datetime(column).dt.strftime("%d/%m/%y %Hh%M"), known)


def _lost(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Two thirds of the columns replaced by numbers that have nothing to do with them."""
    gone = _some(frame, rng, 0.6)
    return frame.assign(**{name: rng.normal(size=len(frame)) for name in gone})


def _swap(frame: pd.DataFrame, rng: np.random.Generator, share: float) -> pd.DataFrame:
    return frame.rename(columns={name: f"v{at}" for at, name in enumerate(_some(frame, rng, share))})


CHANGES: dict[str, Change] = {
    "log(target)": _target(lambda y: np.log(_positive(_codes(y) if y.dtype == object else y))),
    "target x 10": _target(lambda y: 10 * (_codes(y) if y.dtype == object else y)),
    "target cut into classes": _target(lambda y: (y > y.median()).map({True: "high", False: "low"})),
    "one column in other units": lambda f, r: _each(f, lambda x: 1.8 * x + 32, _numbers(f)[:1]),
    "all columns x 2.54": lambda f, r: _each(f, lambda x: 2.54 * x),
    "noise of 1e-9": _noise(1e-9),
    "noise of 1e-3": _noise(1e-3),
    "noise of 1e-2": _noise(1e-2),
    "rounded to two digits": lambda f, r: _each(f, lambda x: _digits(x, 2)),
    "a column recoded as text": lambda f, r: _each(f, _spelled, _numbers(f)[:1]),
    "six of eleven columns renamed": lambda f, r: _swap(f, r, 6 / 11),
    "all columns renamed": lambda f, r: _swap(f, r, 1.0),
    "six of eleven columns dropped": lambda f, r: f.drop(columns=_some(f, r, 6 / 11)),
    "six of eleven columns noise": _lost,
    "rows shuffled": lambda f, r: f.sample(frac=1, random_state=1),
    "half of the rows": lambda f, r: f.sample(frac=0.5, random_state=1),
    "a tenth of the rows": lambda f, r: f.sample(n=max(30, len(f) // 10), random_state=1),
    "the upper half by one column": lambda f, r: f[f[_numbers(f)[0]] >= f[_numbers(f)[0]].median()],
    "rows given twice": lambda f, r: pd.concat([f, f]),
    "resampled with replacement": lambda f, r: f.sample(frac=1, replace=True, random_state=1),
    "as many new rows added": lambda f, r: pd.concat([f, _shaken(f, r)]),
    "columns reordered": lambda f, r: f[list(r.permutation(f.columns))],
    "categories renamed": lambda f, r: _each(f, _spelled, [c for c in f if f[c].nunique() < 13]),
    "categories as numbers": lambda f, r: _each(f, _codes, [c for c in f if f[c].dtype == object]),
    "dates reformatted": _dates,
    "missing values imputed": lambda f, r: _each(f, lambda x: x.fillna(x.median())),
    "a tenth of the cells emptied": lambda f, r: f.mask(r.random(f.shape) < 0.1),
    "standardised": lambda f, r: _each(f, lambda x: (x - x.mean()) / x.std()),
    "scaled to [0, 1]": lambda f, r: _each(f, lambda x: (x - x.min()) / (x.max() - x.min())),
    "ranks": lambda f, r: _each(f, lambda x: x.rank()),
    "all columns logged": lambda f, r: _each(f, lambda x: np.log(_positive(x))),
    "all columns squared": lambda f, r: _each(f, lambda x: _positive(x) ** 2),
    "all signs turned": lambda f, r: _each(f, lambda x: -x),
    "outliers clipped": lambda f, r: _each(f, lambda x: x.clip(*x.quantile([0.02, 0.98]))),
    "float32": lambda f, r: _each(f, lambda x: x.astype(np.float32)),
    "a column added": lambda f, r: f.assign(more=r.normal(size=len(f))),
    "ten columns added": lambda f, r: f.assign(**{f"more{k}": r.normal(size=len(f)) for k in range(10)}),
    "categories as indicators": _dummies,
    "x 2.54, renamed, reordered, shuffled": lambda f, r: _swap(
        _each(f, lambda x: 2.54 * x).sample(frac=1, axis=1, random_state=2).sample(frac=1, random_state=1), r, 1.0
    ),
    "x 2.54, half of the rows": lambda f, r: _each(f.sample(frac=0.5, random_state=1), lambda x: 2.54 * x),
    "log(target), half dropped, shuffled": lambda f, r: (
        CHANGES["log(target)"](f, r).drop(columns=_some(f.iloc[:, :-1], r, 0.5)).sample(frac=1, random_state=1)
    ),
}
"""What a table may have gone through, by name."""


def _shaken(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Other rows with about the same columns: each column in an order of its own."""
    return pd.DataFrame({name: rng.permutation(frame[name].to_numpy()) for name in frame})


def recall() -> pd.DataFrame:
    """A table is changed and compared with what it was: how many of ten tables (iris, wine, breast_cancer, diabetes and
    800 rows of digits of scikit-learn; fair, star98 and anes96 of statsmodels; an hourly series and a clinical table
    made up here) are recognised, which are not, and which share of the rows that were kept is taken for a row of the
    same old content (the least and the median over recognised tables).
    """
    tables = shipped()
    found = []
    for kind, change in CHANGES.items():
        hits, missed, rows = 0, [], []
        for name, frame in tables.items():
            new = change(frame, np.random.default_rng(5))
            at = align(axes(frame), axes(new))
            if at is None:
                missed.append(name)
                continue
            hits += 1
            kept = (
                np.arange(len(new)) < len(frame) if kind == "as many new rows added" else np.ones(len(new), dtype=bool)
            )
            groups = frame.groupby(list(frame.columns), dropna=False).ngroup().to_numpy()
            same = (at >= 0) & (groups[at] == groups[new.index.to_numpy()])
            rows.append(float(same[kept].mean()))
        found.append((kind, hits, ", ".join(missed) or "none", min(rows), float(np.median(rows))))
    return pd.DataFrame(
        found, columns=["change", "recognised of 10", "missed", "right rows, least", "right rows, median"]
    )


def _made_up(rng: np.random.Generator) -> pd.DataFrame:
    """Few levels, independent numbers, columns that nearly repeat each other, rounded ones, increasing maps of one
    column, or forty clusters."""
    n, k, kind = 600, int(rng.integers(2, 9)), int(rng.integers(0, 6))
    z = rng.normal(size=(n, 1))
    if kind == 0:
        return pd.DataFrame(rng.integers(0, rng.integers(2, 6), size=(n, k)))
    noise = rng.normal(size=(n, k))
    if kind == 5:
        return pd.DataFrame(rng.normal(size=(40, k))[rng.integers(0, 40, n)] + 0.01 * noise)
    return pd.DataFrame(
        [noise, z + 0.05 * noise, np.round(z + 0.3 * noise, 1), np.exp(z * np.arange(1, k + 1))][kind - 1]
    )


def _halves(frame: pd.DataFrame, rng: np.random.Generator, m: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    order, other = rng.permutation(len(frame)), m if rng.random() < 0.7 else m // 2 + 10
    return frame.iloc[order[:m]], frame.iloc[order[m : m + other]]


def _changed(frame: pd.DataFrame, rng: np.random.Generator, m: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    old, new = _halves(frame, rng, m)
    return old, CHANGES[str(rng.choice(list(CHANGES)))](new.reset_index(drop=True), rng)


def _numbered(frame: pd.DataFrame, rng: np.random.Generator, m: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    old, new = _halves(frame, rng, m)
    return old.assign(number=np.arange(len(old))), new.assign(number=np.arange(len(new)))


def _sorted(frame: pd.DataFrame, rng: np.random.Generator, m: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    some = frame.iloc[rng.permutation(len(frame))[: 2 * m]]
    some = some.iloc[np.argsort(_codes(some[str(rng.choice(some.columns))]).to_numpy(), kind="stable")]
    return some.iloc[:m], some.iloc[m:]


def _contiguous(frame: pd.DataFrame, _rng: np.random.Generator, m: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    return frame.iloc[:m], frame.iloc[m : 2 * m]


def _every_other(frame: pd.DataFrame, _rng: np.random.Generator, m: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    return frame.iloc[: 2 * m : 2], frame.iloc[1 : 2 * m : 2]


PAIRS = {
    "random halves, equal or not": _halves,
    "random halves, one of them changed": _changed,
    "random halves, rows numbered": _numbered,
    "first rows and next rows": _contiguous,
    "halves parted by a column": _sorted,
}


def false_alarms() -> pd.DataFrame:
    """3,000 pairs of tables that share no row and must not be linked, at most 3 of them: disjoint samples of 30 to 400
    rows of one table (the ten above; 6,000 rows of randhie, where two rows of three have an equal one; and made-up ones
    with few levels, clusters, columns that repeat each other), or samples of two tables. Below, and not among the
    3,000: every other row of each table, where neighbouring rows may be alike (hours of a series, years of a person),
    which no rule that compares rows alone can tell from changed ones with certainty, least of all in random walks
    such as prices.
    Tables whose rows share cells with their neighbours (a series with its lags, such as daily returns beside those of
    the five days before) were linked even as halves during development; such a link costs a look too many, never one
    too few.
    """
    tables = {**shipped(), "randhie": _statsmodels("randhie", "mdvis").iloc[:6000]}
    rng = np.random.default_rng(3)
    rows = []
    for name, part in [*PAIRS.items(), ("two tables", None), ("(every other row)", _every_other)]:
        pairs, linked = 500, 0
        for _ in range(pairs):
            frame, other = (_any(tables, rng) for _ in range(2))
            m = int(min(len(frame) // 2, rng.choice([30, 60, 100, 200, 400])))
            if part is None:
                while frame.shape[1] == other.shape[1]:
                    other = _any(tables, rng)
                old, new = frame.sample(m, random_state=1), other.sample(min(m, len(other)), random_state=2)
            else:
                old, new = part(frame, rng, m)
            linked += align(axes(old), axes(new)) is not None
        rows.append((name, pairs, linked))
    total = [sum(row[k] for row in rows[:-1]) for k in (1, 2)]
    return pd.DataFrame([*rows[:-1], ("all", *total), rows[-1]], columns=["pairs", "number", "linked"])


def _any(tables: dict[str, pd.DataFrame], rng: np.random.Generator) -> pd.DataFrame:
    frame = _made_up(rng) if rng.random() < 0.3 else tables[str(rng.choice(list(tables)))]
    return frame.rename(columns=str)


def cost() -> pd.DataFrame:
    """Processor seconds to compare a new table of 11 columns (8 numbers, 3 of them with ties; 3 categories) with a
    stored table of as many rows: unrelated, or the same in other units, when every row is assigned. The ledger gets 8
    bytes for each recognised training row and 24 for each recognised test row; nothing else is stored.
    """
    rows = []
    for n in (10_000, 100_000, 1_000_000):
        rng = np.random.default_rng(4)
        frames = [_eleven(n, rng) for _ in range(2)]
        old = axes(frames[0])
        for words, new in {"unrelated": frames[1], "x 2.54": _each(frames[0], lambda x: 2.54 * x)}.items():
            start = time.process_time()
            at = align(old, axes(new))
            spent = time.process_time() - start
            right = float(np.mean(at == np.arange(n))) if at is not None else 0.0
            rows.append((n, words, round(spent, 1), right))
    return pd.DataFrame(rows, columns=["rows", "new table", "seconds", "rows recognised"])


def _eleven(n: int, rng: np.random.Generator) -> pd.DataFrame:
    frame = pd.DataFrame(rng.normal(size=(n, 8)), columns=list("abcdefgh"))
    frame[["f", "g", "h"]] = frame[["f", "g", "h"]].round(1)
    return frame.assign(**{name: rng.choice(list("uvwxyz")[:k], n) for k, name in ((2, "p"), (4, "q"), (6, "r"))})


SIMULATIONS = {
    "Changed tables that are recognised": recall,
    "Tables that share no row": false_alarms,
    "What it costs": cost,
}
