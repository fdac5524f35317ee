"""Is a table that was changed recognised, and is another one left alone? The detector of `test_set.alignment`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
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
    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        made[name] = getattr(datasets, f"load_{name}")(as_frame=True, **_plain(name)).frame
    for name, target in {"fair": "affairs", "randhie": "mdvis", "star98": "NABOVE", "anes96": "vote"}.items():
        frame = import_module(f"statsmodels.datasets.{name}").load_pandas().data.reset_index(drop=True)
        made[name] = frame[[*(other for other in frame if other != target), target]]
    made["randhie"] = made["randhie"].iloc[:6000]
    made["bikes"], made["patients"] = _bikes(), _patients()
    return {name: frame.rename(columns=str) for name, frame in made.items()}


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
    "a tenth of the rows": lambda f, r: f.sample(n=max(20, len(f) // 10), random_state=1),
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
