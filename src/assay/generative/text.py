"""From documents to classes: words, a vocabulary, and naive Bayes over it.

A document is the bag of its words. The vocabulary is what is left of all words after those in too few documents and
those in too many, and, where it is limited, the words that say most about the class: by their mutual information

    I(word; class) = sum_{e in {0, 1}} sum_k P(e, k) log( P(e, k) / (P(e) P(k)) ),       e: is the word in the document?

What one more occurrence of a word adds to the log odds of class k against the other classes together is

    multinomial   log p_k - log p_rest           Bernoulli   logit p_k - logit p_rest

with limits from the posterior of the chances under the same smoothing, a Dirichlet or Beta prior of alpha: their
logarithms are taken as normal with their exact moments,

    E log p = psi(a) - psi(a_0),  Var log p = psi'(a) - psi'(a_0),
    E logit p = psi(a) - psi(b),  Var logit p = psi'(a) + psi'(b).

Cost: reading the documents. McCallum and Nigam (1998), A comparison of event models for naive Bayes text
classification; Manning, Raghavan and Schütze (2008), Introduction to Information Retrieval, chapter 13.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import sparse, special, stats
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, array_like, boolean, instance_of, integer, none, one_of, real
from assay.checks import fraction, whole
from assay.errors import DataError, DataTypeError, ParameterError
from assay.generative._count_nb import BernoulliNB, MultinomialNB
from assay.generative._naive import LogOdds
from assay.labels import class_codes
from assay.results import Result
from assay.state import Specs, floats, names, need, part

__all__ = ["TellingWords", "TextNB"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class TellingWords(Result):
    """The words that speak most for each class, with what each adds to its log odds.

    `table` has one row per class and word: class, word, log_odds, lower, upper, documents (how many of the class have
    the word) and others (how many of the rest).
    """

    table: pd.DataFrame
    classes: tuple[Any, ...]
    model: str
    level: float
    words: int

    def to_frame(self) -> pd.DataFrame:
        """One row per class and word, the most telling first."""
        return self.table.copy()

    def __str__(self) -> str:
        title = f"Most informative of {self.words} words ({self.model} model)"
        note = f"log odds of the class against the others per occurrence, {100 * self.level:g}% credible limits"
        if self.model == "bernoulli":
            note = f"log odds of the class if the word is present, not absent, {100 * self.level:g}% credible limits"
        body: list[str] = []
        for label in self.classes:
            part = self.table[[one == label for one in self.table["class"]]].drop(columns="class")
            shown = part.set_index("word").rename_axis(None)
            lines = shown.to_string(float_format=lambda value: f"{value:.3g}").splitlines()
            body += [f"{label}", *(f"  {line}" for line in (lines if len(shown) else ["no word is evidence for it"]))]
        rule = "-" * max(len(line) for line in [title, note, *body])
        return "\n".join([title, rule, *body, rule, note])


class TextNB(LogOdds):
    """Documents in, classes out: words, vocabulary and naive Bayes in one.

        P(y = k | document)  ~  pi_k prod_words p_k(word)^count         (multinomial; Bernoulli: which words are there)

    | parameter     | default       | range                    | meaning                                               |
    |---------------|---------------|--------------------------|-------------------------------------------------------|
    | model         | "multinomial" | or "bernoulli"           | how often a word occurs, or whether it does           |
    | alpha         | 1.0           | >= 0                     | smoothing: 1 is Laplace's, 0 none                     |
    | lowercase     | True          | True, False              | whether capitals count as small letters               |
    | token_pattern | two or more   | regular expression       | what a word is; the default is two or more letters or |
    |               | letters       |                          | digits of any script                                  |
    | min_count     | 1             | >= 1                     | a word must stand in this many documents              |
    | max_share     | 0.5           | in (0, 1]                | and in no more than this share of them                |
    | drop_top      | 0             | >= 0                     | then this many of the most frequent words are dropped |
    | max_features  | None          | >= 1 or None             | of the rest so many words are kept; None: all         |
    | select        | "information" | or "frequency"           | by mutual information with the class, or by documents |
    | fit_prior     | True          | True, False              | priors from the classes' shares, or all alike         |
    | class_prior   | None          | K numbers, sum 1         | prior of each class (sorted); overrules `fit_prior`   |

    Fitted: `classes_`, `vocabulary_` (the words, sorted), `information_` (nats of each), `document_count_` (documents
    of each class with each word, (K, words)), `n_words_` (distinct words before selection), `model_` (the fitted
    `MultinomialNB` or `BernoulliNB`). Words outside the vocabulary are ignored; a document without any gets the prior
    from the multinomial model. Weights are repetitions. Everything is fitted from the training documents alone, so
    cross-validation of this class is honest about the choice of words.

    Reference: McCallum and Nigam (1998), A comparison of event models for naive Bayes text classification.

    >>> documents = ["cheap pills now", "cheap watches", "meeting at noon", "notes of the meeting"]
    >>> model = TextNB().fit(documents, ["spam", "spam", "ham", "ham"])
    >>> model.predict(["cheap cheap", "the next meeting"]).tolist()
    ['spam', 'ham']
    >>> model.telling_words(1).to_frame()["word"].tolist()
    ['meeting', 'cheap']
    """

    state: ClassVar[Specs] = {
        "n_features_in_": None,
        "feature_names_in_": None,
        "vocabulary_": names("words"),
        "n_words_": integer(1),
        "information_": floats("words"),
        "document_count_": floats("k", "words", low=0),
        "model_": part((BernoulliNB, MultinomialNB), "k", p="words"),
    }

    def _check_state(self) -> None:
        need(self.vocabulary_.dtype.kind == "U" and np.array_equal(self.model_.classes_, self.classes_))
        need(isinstance(self.model_, BernoulliNB) == (self.model == "bernoulli"))
        # Without groups nothing can be repeated within a repetition, which could take for ever.
        need(len(self.token_pattern) < 100 and "(" not in self.token_pattern.removeprefix("(?u)"))

    constraints: ClassVar[dict[str, Constraint]] = {
        "model": one_of("multinomial", "bernoulli"),
        "alpha": real(0),
        "lowercase": boolean,
        "token_pattern": instance_of(str, "a regular expression"),
        "min_count": integer(1),
        "max_share": real(0, 1, open_low=True),
        "drop_top": integer(0),
        "max_features": none | integer(1),
        "select": one_of("information", "frequency"),
        "fit_prior": boolean,
        "class_prior": none | array_like,
    }

    def __init__(
        self,
        *,
        model: str = "multinomial",
        alpha: float = 1.0,
        lowercase: bool = True,
        token_pattern: str = r"\b\w\w+\b",
        min_count: int = 1,
        max_share: float = 0.5,
        drop_top: int = 0,
        max_features: int | None = None,
        select: str = "information",
        fit_prior: bool = True,
        class_prior: Any = None,
    ) -> None:
        self.model = model
        self.alpha = alpha
        self.lowercase = lowercase
        self.token_pattern = token_pattern
        self.min_count = min_count
        self.max_share = max_share
        self.drop_top = drop_top
        self.max_features = max_features
        self.select = select
        self.fit_prior = fit_prior
        self.class_prior = class_prior

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to documents X, one text each, and their classes y; weights count as repetition."""
        self._check_parameters()
        documents = _documents(X)
        w = self._weights(sample_weight, len(documents))
        self.classes_, codes = class_codes(y, len(documents), w)
        words, counts = self._count(documents)
        weights = np.ones(len(documents)) if w is None else w
        K = len(self.classes_)
        one_hot = sparse.csr_array((weights, (codes, np.arange(codes.size))), shape=(K, codes.size))
        holding = np.asarray((one_hot @ (counts > 0).astype(np.float64)).todense())
        size = np.bincount(codes, weights=weights, minlength=K)
        information = _information(holding, size)
        self.n_words_ = int(np.count_nonzero(holding.any(axis=0)))
        kept = self._kept(words, holding.sum(axis=0), float(size.sum()), information)
        self.vocabulary_ = words[kept]
        self.information_, self.document_count_ = information[kept], holding[:, kept]
        options = {"alpha": self.alpha, "fit_prior": self.fit_prior, "class_prior": self.class_prior}
        made = BernoulliNB(**options) if self.model == "bernoulli" else MultinomialNB(**options)
        self.model_ = made.fit(counts[:, kept], y, sample_weight=w)
        return self

    def _count(self, documents: Sequence[str], vocabulary: Any = None) -> tuple[Array, Any]:
        """The distinct words, sorted, and how often each document has each of them."""
        try:
            re.compile(self.token_pattern)
            reader = CountVectorizer(
                lowercase=self.lowercase, token_pattern=self.token_pattern, vocabulary=vocabulary, dtype=np.float64
            )
            counts = reader.fit_transform(documents) if vocabulary is None else reader.transform(documents)
        except re.error as error:
            what = f"token_pattern = {self.token_pattern!r} is not a valid regular expression: {error}"
            raise ParameterError(what, remedy="correct it") from error
        except ValueError as error:
            if "capturing group" in str(error):
                what = f"token_pattern = {self.token_pattern!r} has more than one capturing group"
                raise ParameterError(what, remedy="use (?:...) for non-capturing groups") from error
            what = f"no document has a word that matches token_pattern = {self.token_pattern!r}"
            raise DataError(what, remedy="pass documents with words, or another token_pattern") from error
        found = reader.get_feature_names_out() if vocabulary is None else np.asarray(vocabulary)
        return np.asarray(found, dtype=object).astype(str), sparse.csr_array(counts)

    def _kept(self, words: Array, documents: Array, total: float, information: Array) -> Array:
        """Positions of the vocabulary among the words, in their order."""
        slack = 1.0 + 1e-12  # shares of weights are rounded
        common = np.flatnonzero((documents >= self.min_count / slack) & (documents <= self.max_share * total * slack))
        common = common[documents[common] > 0]
        if self.drop_top:
            order = np.lexsort((words[common], -documents[common]))
            common = np.sort(common[order[self.drop_top :]])
        if self.max_features is not None and common.size > self.max_features:
            rank = np.round(information, 12) if self.select == "information" else documents
            order = np.lexsort((words[common], -documents[common], -rank[common]))
            common = np.sort(common[order[: self.max_features]])
        if common.size == 0:
            limits = f"min_count = {self.min_count}, max_share = {self.max_share:g} and drop_top = {self.drop_top}"
            what = f"{limits} leave none of the {self.n_words_} words"
            raise DataError(what, remedy="raise max_share, or lower min_count or drop_top")
        return common

    # Answers.

    def _log_prior(self) -> Array:
        return self.model_.class_log_prior_

    def _asked(self, X: Any) -> Array:
        check_is_fitted(self)
        documents = _documents(X)
        return self.model_.predict_joint_log_proba(self._count(documents, self.vocabulary_)[1])

    def telling_words(self, n: int = 10, level: float = 0.95) -> TellingWords:
        """The n words of the vocabulary that speak most for each class, by what an occurrence adds to its log odds.

        `level` is that of the credible limits, which are those of one word looked at by itself.

        >>> documents = ["red wine", "red rose", "blue sky", "blue sea"]
        >>> print(TextNB().fit(documents, ["warm", "warm", "cold", "cold"]).telling_words(1))
        Most informative of 6 words (multinomial model)
        ---...
        cold
              log_odds  lower  upper  documents  others
          blue       1.1  -1.15   4.15          2       0
        warm
             log_odds  lower  upper  documents  others
          red       1.1  -1.15   4.15          2       0
        ---...
        log odds of the class against the others per occurrence, 95% credible limits
        """
        check_is_fitted(self)
        n, level = whole(n, "n"), fraction(level, "level")
        width = stats.norm.ppf(0.5 + level / 2)
        labels = self.classes_.tolist()
        parts = []
        for k, label in enumerate(labels):
            odds, middle, error = self._log_odds(k)
            rest = self.document_count_.sum(axis=0) - self.document_count_[k]
            speaking = np.flatnonzero(odds > 0)
            order = np.lexsort((self.vocabulary_[speaking], -self.document_count_[k, speaking], -odds[speaking]))
            top = speaking[order[:n]]
            with np.errstate(invalid="ignore"):
                lower, upper = middle[top] - width * error[top], middle[top] + width * error[top]
            columns = {
                "class": [label] * top.size,
                "word": self.vocabulary_[top].tolist(),
                "log_odds": odds[top],
                "lower": np.where(np.isnan(lower), -np.inf, lower),
                "upper": np.where(np.isnan(upper), np.inf, upper),
                "documents": _plain(self.document_count_[k, top]),
                "others": _plain(rest[top]),
            }
            parts.append(pd.DataFrame(columns))
        table = pd.concat(parts, ignore_index=True)
        return TellingWords(table, tuple(labels), self.model, level, len(self.vocabulary_))

    def _log_odds(self, k: int) -> tuple[Array, Array, Array]:
        """For each word the log odds it adds to class k against the others together; their posterior mean and error."""
        counts, size = self.model_.feature_count_, self.model_.class_count_
        others = np.arange(len(size)) != k
        there_and_else = [(counts[k], size[k]), (counts[others].sum(axis=0), size[others].sum())]
        found = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for total, documents in there_and_else:
                a = total + self.alpha
                if self.model == "bernoulli":
                    b = np.maximum(documents - total, 0.0) + self.alpha
                    variance = special.polygamma(1, a) + special.polygamma(1, b)
                else:
                    b = np.full(a.shape, a.sum())
                    variance = special.polygamma(1, a) - special.polygamma(1, b)
                found.append((np.log(a) - np.log(b), special.digamma(a) - special.digamma(b), variance))
            (odds, middle, one), (other_odds, other_middle, other) = found
            return odds - other_odds, middle - other_middle, np.sqrt(np.maximum(one + other, 0.0))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags


def _documents(X: Any) -> list[str]:
    """One text per document."""
    remedy = "pass a list, a Series or an array with one text per document"
    if isinstance(X, str | bytes):
        raise DataTypeError("X is one text, not a list of documents", remedy=remedy)
    if isinstance(X, pd.DataFrame) and X.shape[1] == 1:
        X = X.iloc[:, 0]
    if isinstance(X, pd.DataFrame) or sparse.issparse(X) or getattr(X, "ndim", 1) != 1:
        raise DataTypeError("X is a table, not a list of documents", remedy=remedy)
    try:
        documents = list(X)
    except TypeError as error:
        raise DataTypeError(f"X is a {type(X).__name__}, not a list of documents", remedy=remedy) from error
    if not documents:
        raise DataError("X has no documents: found 0 sample(s)", remedy=remedy)
    for row, document in enumerate(documents):
        if not isinstance(document, str):
            gap = bool(np.ndim(document) == 0 and pd.isna(document))
            what = "is missing" if gap else f"is a {type(document).__name__}, not a text"
            hint = "fill it with an empty text, or drop it" if gap else "pass one text per document"
            raise DataError(f"document {row} {what}", remedy=hint)
    return documents


def _information(holding: Array, size: Array) -> Array:
    """Mutual information of each word's presence and the class, in nats, from documents of each class with each word.

    >>> _information(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([2.0, 2.0])).round(4).tolist()
    [0.6931, 0.0]
    """
    total = size.sum()
    both = np.stack([holding, np.maximum(size[:, None] - holding, 0.0)]) / total  # e, class, word
    expected = both.sum(axis=1, keepdims=True) * (size / total)[None, :, None]
    return np.maximum(special.rel_entr(both, expected).sum(axis=(0, 1)), 0.0)


def _plain(values: Array) -> Array:
    """Whole numbers as such: documents are counted unless weights are broken."""
    return values.astype(np.int64) if (values == np.round(values)).all() else values
