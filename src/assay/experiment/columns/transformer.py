"""From a table of numbers, categories, dates and words to a matrix of numbers, learned from the rows it is fitted to.

    number    (x - mean) / sd with gaps at the median, and beside it [x missing] if training rows had gaps
    category  [x = level] for the frequent levels, [x = other], [x missing]; crowded ones also n_level / n
    date      days since 1970, year, month, weekday, and the place in the year and in the day on a circle
    text      tf-idf of the most frequent words, and how many words there are
    id        left out

It is a step of a pipeline, so that cross-validation fits it to the training rows of each fold and nothing leaks. What
it learned is a handful of names and arrays. Cost: O(cells), vectorised; 100,000 x 30 numbers take about a tenth of a
second. Kuhn & Johnson (2019), Feature Engineering and Selection, ch. 5, 6 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from assay.checks import choice, whole
from assay.constraints import instance_of
from assay.errors import DataError, ParameterError
from assay.experiment.columns.cells import Cells, as_frame
from assay.experiment.columns.dates import PARTS
from assay.experiment.columns.encoded import remember
from assay.experiment.columns.encoders import GAP, OTHER, Levels, Numbers
from assay.experiment.columns.text import Words
from assay.experiment.table.kinds import KINDS
from assay.state import Specs, Stateful, anything, left_out, names, need, part, size

__all__ = ["ENCODINGS", "Columns"]

Array = np.ndarray
ENCODINGS = ("onehot", "treatment", "ordinal", "native")


class Columns(Stateful, TransformerMixin, BaseEstimator):
    """Turn the columns of a table into numbers, each by its kind, learned from the rows given to `fit` only.

    | parameter     | default  | range                              | meaning                                          |
    |---------------|----------|------------------------------------|--------------------------------------------------|
    | kinds         |          | column -> kind, as `Table.kinds`   | the columns to use, without the target           |
    | scale         | True     | True or False                      | centre numbers, divide by the standard deviation |
    | encode        | "onehot" | onehot, treatment, ordinal, native | how categories become numbers, see below         |
    | impute        | True     | True or False                      | fill and flag gaps of numbers; False leaves NaN  |
    | max_levels    | 30       | whole number >= 1                  | so many levels at most have a place of their own |
    | text_features | 100      | whole number >= 0                  | so many words at most per text column            |

    One-hot has a column for every level (one for a pair of them); treatment leaves out the first level, for models
    without a penalty; ordinal numbers the sorted levels and treats them as a number; native gives a table whose
    categories stay categories (pandas', NaN for a gap), for learners that split them themselves. A level that
    fewer than two rows (or one in a thousand) have shares "other"; a level never seen goes there too, or is all zeros.

    Columns that say nothing in the training rows (constant, all missing, ids) are left out and named in `dropped_`. At
    `transform` columns may come in any order, extra ones are ignored, and a missing one is an error.
    Kuhn & Johnson (2019), Feature Engineering and Selection.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, None, 3.0], "colour": ["red", "blue", "red", "blue"]})
    >>> columns = Columns({"size": "number", "colour": "category"}, scale=False).fit(frame)
    >>> columns.get_feature_names_out().tolist()
    ['size', 'size missing', 'colour=red']
    >>> columns.transform(frame).tolist()
    [[1.0, 0.0, 1.0], [2.0, 0.0, 0.0], [2.0, 1.0, 1.0], [3.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        *,
        scale: bool = True,
        encode: str = "onehot",
        impute: bool = True,
        max_levels: int = 30,
        text_features: int = 100,
    ) -> None:
        self.kinds = kinds
        self.scale = scale
        self.encode = encode
        self.impute = impute
        self.max_levels = max_levels
        self.text_features = text_features

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn medians, spreads, levels and words from the rows of a frame; `y` is not looked at."""
        self._learn(self._start(X))
        self._tell()
        return self

    def _tell(self) -> None:
        """Let messages of the learner behind use the names of the columns."""
        remember(() if self.encode == "native" else self._names)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """The same as fit and then transform, reading the cells once."""
        cells = self._start(X)
        self._learn(cells)
        self._tell()
        return self._emit(cells)

    def transform(self, X: Any) -> Any:
        """The matrix of numbers for the rows of a frame: float64, one column per name of `get_feature_names_out`.

        With encode="native" a table of the same columns, its categories among them.
        """
        check_is_fitted(self)
        frame = as_frame(X, self.feature_names_in_)
        return self._emit(Cells(frame, {name: kind for name, kind in self._kinds().items() if self._needs(name)}))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the columns of the matrix; `input_features` is there for pipelines and not needed."""
        check_is_fitted(self)
        return np.array(self._names, dtype=object)

    @property
    def divisors(self) -> Array:
        """By how much each column of the matrix was divided: the spread of a number that was scaled, else 1."""
        check_is_fitted(self)
        divided = np.ones(len(self._names))
        divided[: self.numbers_.kept.size] = self.numbers_.spread
        return divided[self._order]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "numbers_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    # Learning.

    def _kinds(self) -> dict[str, str]:
        return {str(name): kind for name, kind in self.kinds.items()}

    def _start(self, X: Any) -> Cells:
        remember(())
        self._check_parameters()
        kinds = self._kinds()
        frame = as_frame(X, np.array(list(kinds), dtype=object))
        if len(frame) == 0:
            raise DataError("the table has no rows", remedy="fit to at least one row")
        self.feature_names_in_ = np.array(list(kinds), dtype=object)
        self.n_features_in_ = len(kinds)
        return Cells(frame, {name: kind for name, kind in kinds.items() if kind != "id"})

    def _check_parameters(self) -> None:
        if not isinstance(self.kinds, Mapping) or not self.kinds:
            remedy = "pass column names and their kinds, such as read_table(...).kinds without the target"
            raise ParameterError("kinds must be a mapping with at least one column", remedy=remedy)
        for name, kind in self.kinds.items():
            choice(kind, f"the kind of column {name!r}", KINDS)
        choice(self.encode, "encode", ENCODINGS)
        whole(self.max_levels, "max_levels", 1)
        whole(self.text_features, "text_features", 0)
        for name in ("scale", "impute"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ParameterError(f"{name} = {getattr(self, name)!r} is not a boolean", remedy="pass True or False")

    def _learn(self, cells: Cells) -> None:
        self.dropped_: dict[str, str] = {}
        self.levels_ = {name: Levels.learn(*pair, self.max_levels) for name, pair in cells.levels.items()}
        self.words_ = {name: Words.learn(part, self.text_features) for name, part in cells.words.items()}
        names = [label for _, label in self._measures()]
        measures = self._matrix(cells)
        self.numbers_ = Numbers.learn(measures, names, impute=self.impute, scale=self.scale)
        self._lay_out()
        told = set(self.sources_)
        for name, kind in self._kinds().items():
            if name not in told:
                missing = kind != "id" and cells.all_missing(name)
                why = "missing in every training row" if missing else "constant in the training rows"
                self.dropped_[name] = "an identifier" if kind == "id" else why
        if not self._names:
            raise DataError("no column varies in the training rows", remedy="pass at least one column that varies")

    def _measures(self) -> list[tuple[str, str]]:
        """Everything that is treated as a number: its column, and what it is called."""
        found = []
        for name, kind in self._kinds().items():
            if kind == "number":
                found.append((name, name))
            elif kind == "date":
                found += [(name, f"{name} {part}") for part in PARTS]
            elif kind == "text":
                found.append((name, f"{name} words"))
            elif kind == "category":
                if self.encode == "ordinal":
                    found.append((name, name))
                if self.levels_[name].known:
                    found.append((name, f"{name} frequency"))
        return found

    def _matrix(self, cells: Cells) -> Array:
        """The numbers behind `_measures`, NaN for gaps and for columns that say nothing."""
        parts: list[Array] = []
        for name, kind in self._kinds().items():
            if kind == "number":
                parts.append(cells.numbers.get(name, cells.nothing))
            elif kind == "date":
                parts += list(cells.dates[name].T) if name in cells.dates else [cells.nothing] * len(PARTS)
            elif kind == "text":
                parts.append(cells.lengths.get(name, cells.nothing))
            elif kind == "category":
                if self.encode == "ordinal":
                    parts.append(self._code(name, cells) if name in cells.levels else cells.nothing)
                if self.levels_[name].known:
                    parts.append(self._frequency(name, cells) if name in cells.levels else cells.nothing)
        if not parts:
            return np.empty((cells.rows, 0), order="F")
        return np.stack(parts).T  # whole columns in a row: every step from here on goes by column

    def _frequency(self, name: str, cells: Cells) -> Array:
        return self.levels_[name].frequency(*cells.levels[name])

    def _code(self, name: str, cells: Cells) -> Array:
        """The number of each cell's level, the others after the last one; NaN for a gap or a level without a place."""
        levels = self.levels_[name]
        place = levels.place(*cells.levels[name]).astype(np.float64)
        place[place == OTHER] = len(levels.names) if levels.other else np.nan
        place[place == GAP] = np.nan
        return place

    # What comes out.

    def _lay_out(self) -> None:
        """The names, sources and order of the output: the columns of the table in turn, what each gave side by side."""
        measures = self._measures()
        entries = [measures[j] for j in self.numbers_.kept]
        entries += [(measures[j][0], f"{measures[j][0]} missing") for j in self.numbers_.flagged]
        codes = 0
        for name, levels in self.levels_.items():
            shown = self._shown(levels)
            codes += len(shown) if self.encode == "native" else 0
            entries += [(name, f"{name}{state}") for state in shown]
        for name, words in self.words_.items():
            entries += [(name, f"{name}: {word}") for word in words.vocabulary]
        place = {name: j for j, name in enumerate(self._kinds())}
        order = sorted(range(len(entries)), key=lambda k: place[entries[k][0]])
        native = np.zeros(len(entries), dtype=bool)
        start = self.numbers_.kept.size + self.numbers_.flagged.size
        native[start : start + codes] = True
        self._order = np.array(order, dtype=np.int64)
        self._names = _unique([entries[k][1] for k in order])
        self.sources_ = [entries[k][0] for k in order]
        self.categorical_ = native[self._order]

    def _shown(self, levels: Levels) -> list[str]:
        """What the columns of a category are called after its name."""
        states = self._states(levels)
        if len(states) < 2 or self.encode == "ordinal":
            return []
        if self.encode == "native":
            return [""]
        return states[1:] if len(states) == 2 or self.encode == "treatment" else states

    def _states(self, levels: Levels) -> list[str]:
        return [f"={name}" for name in levels.names] + ["=other"] * levels.other + [" missing"] * levels.gaps

    def _needs(self, name: str) -> bool:
        return name not in self.dropped_

    def _emit(self, cells: Cells) -> Any:
        blocks = [self.numbers_.transform(self._matrix(cells))]
        for name, levels in self.levels_.items():
            if shown := self._shown(levels):
                native = self.encode == "native"
                blocks.append(self._code(name, cells)[:, None] if native else self._dummies(name, cells, len(shown)))
        blocks += [words.weigh(cells.words[name]) for name, words in self.words_.items() if words.vocabulary]
        out = np.empty((cells.rows, len(self._names)))
        where, start = np.argsort(self._order), 0
        for block in blocks:
            out[:, where[start : start + block.shape[1]]] = block
            start += block.shape[1]
        return self._as_table(out) if self.encode == "native" else out

    def _as_table(self, out: Array) -> pd.DataFrame:
        """Codes as pandas categories with their names, everything else as it is."""
        table: dict[str, Any] = {}
        for j, name in enumerate(self._names):
            if not self.categorical_[j]:
                table[name] = out[:, j]
                continue
            levels = self.levels_[self.sources_[j]]
            codes = np.where(np.isnan(out[:, j]), -1, out[:, j]).astype(np.int64)
            names = pd.Index(_unique([*levels.names, *["other"] * levels.other]))
            table[name] = pd.Categorical.from_codes(codes, categories=names)
        return pd.DataFrame(table)

    def _dummies(self, name: str, cells: Cells, width: int) -> Array:
        levels = self.levels_[name]
        place = levels.place(*cells.levels[name])
        other, gap = len(levels.names), len(levels.names) + levels.other
        state = np.where(place == OTHER, other if levels.other else -1, place)
        state = np.where(place == GAP, gap if levels.gaps else -1, state)
        column = state - (len(self._states(levels)) - width)  # the first state has no column where it is left out
        column[state < 0] = -1
        out = np.zeros((cells.rows, width))
        rows = np.flatnonzero(column >= 0)
        out[rows, column[rows]] = 1.0
        return out

    # Storing.

    state: ClassVar[Specs] = {
        "n_features_in_": size("p"),
        "feature_names_in_": names("p"),
        "dropped_": instance_of(dict, "a dict of reasons"),
        "levels_": anything,
        "words_": anything,
        "numbers_": part(Numbers),
        "_order": left_out(),
        "_names": left_out(),
        "sources_": left_out(),
        "categorical_": left_out(),
    }

    def _check_state(self) -> None:
        kinds = self._kinds()
        need(list(kinds) == self.feature_names_in_.tolist(), "its columns are not those of its kinds")
        for found, kind, of in ((self.levels_, "category", Levels), (self.words_, "text", Words)):
            need(isinstance(found, dict) and all(type(one) is of for one in found.values()))
            need(set(found) == {name for name in kinds if kinds[name] == kind})
        need(self.dropped_.keys() <= kinds.keys() and all(isinstance(one, str) for one in self.dropped_.values()))
        measures, learned = len(self._measures()), self.numbers_
        need(all((at < measures).all() for at in (learned.kept, learned.flagged)))
        need((learned.impute, learned.scale) == (self.impute, self.scale))

    def _restore(self) -> None:
        self._lay_out()


def _unique(names: list[str]) -> list[str]:
    """The same names, with a number behind those that repeat."""
    taken, found = set(names), set()
    out = []
    for name in names:
        number, new = 2, name
        while new in found or (new != name and new in taken):
            new, number = f"{name} ({number})", number + 1
        found.add(new)
        out.append(new)
    return out
