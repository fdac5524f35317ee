"""Documents to classes: words, vocabulary, both event models, and the words that tell."""

from __future__ import annotations

import inspect
import re
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, optimize, signal, special, stats
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import mutual_info_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import BernoulliNB as PeerBernoulli
from sklearn.naive_bayes import MultinomialNB as PeerMultinomial
from sklearn.pipeline import make_pipeline

import assay.report.draw_words  # noqa: F401  (registers the picture)
from assay.errors import DataError, DataTypeError, ParameterError
from assay.generative.text import TellingWords, TextNB

NAMES = re.compile(r"\b(numpy|np|scipy|pandas|pd|sklearn|scikit)\b", re.IGNORECASE)


@cache
def docstrings() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Real text that is always at hand: what three packages say of their own functions, without saying their names."""
    homes = {
        "numpy": (np, np.linalg, np.fft),
        "pandas": (pd, pd.DataFrame, pd.Series),
        "scipy": (stats, signal, linalg, special, optimize),
    }
    texts: dict[str, str] = {}
    for package, places in homes.items():
        for place in places:
            for name in (name for name in sorted(dir(place)) if not name.startswith("_")):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    text = inspect.getdoc(getattr(place, name, None))
                if text and len(text) > 400:
                    texts.setdefault(NAMES.sub(" ", text), package)
    some = sorted(texts)[::4]
    return tuple(some), tuple(texts[text] for text in some)


DOCUMENTS = ["cheap pills now", "cheap watches, cheap!", "meeting at noon", "notes of the meeting", "lunch at noon now"]
LABELS = ["spam", "spam", "ham", "ham", "ham"]


def test_it_is_scikit_learns_pipeline_without_selection():
    texts, labels = docstrings()
    for model, peer in (("multinomial", PeerMultinomial()), ("bernoulli", PeerBernoulli())):
        ours = TextNB(model=model, max_share=1.0).fit(texts, labels)
        other = make_pipeline(CountVectorizer(), peer).fit(texts, labels)
        assert_array_equal(ours.vocabulary_, other[0].get_feature_names_out())
        assert_allclose(ours.predict_log_proba(texts[:50]), other.predict_log_proba(texts[:50]), rtol=1e-9, atol=1e-9)
        assert_array_equal(ours.predict(texts), other.predict(texts))


def test_it_tells_packages_by_their_docstrings():
    texts, labels = docstrings()
    assert len(texts) > 300
    for setting in ({}, {"model": "bernoulli"}, {"max_features": 300}):
        score = cross_val_score(TextNB(**setting), list(texts), list(labels), cv=3).mean()
        assert score > 0.8, setting  # the largest class has less than 60 percent
    told = TextNB().fit(texts, labels).telling_words(15).to_frame()
    assert set(told[told["class"] == "pandas"]["word"]) & {"dataframe", "series", "index", "dtype", "column", "columns"}


@pytest.mark.parametrize("n", [5, 40])
def test_the_words_kept_have_the_highest_mutual_information(n):
    texts, labels = (part[::2] for part in docstrings())
    model = TextNB(max_features=n, max_share=1.0).fit(texts, labels)
    reader = CountVectorizer(binary=True)
    there = reader.fit_transform(texts).toarray()
    words = reader.get_feature_names_out()
    for word, nats in zip(model.vocabulary_, model.information_, strict=True):
        assert_allclose(nats, mutual_info_score(labels, there[:, reader.vocabulary_[word]]), atol=1e-12)
    others = [word for word in words[:: len(words) // 300] if word not in set(model.vocabulary_)]
    most = max(mutual_info_score(labels, there[:, reader.vocabulary_[word]]) for word in others)
    assert most <= model.information_.min() + 1e-12


def test_frequent_and_rare_words_are_dropped():
    model = TextNB(max_share=1.0).fit(DOCUMENTS, LABELS)
    assert "meeting" in model.vocabulary_
    documents = {word: sum(word in re.findall(r"\w\w+", text) for text in DOCUMENTS) for word in model.vocabulary_}
    assert set(TextNB(min_count=2).fit(DOCUMENTS, LABELS).vocabulary_) == {w for w, d in documents.items() if d >= 2}
    low = TextNB(max_share=0.3).fit(DOCUMENTS, LABELS)
    assert set(low.vocabulary_) == {w for w, d in documents.items() if d <= 1.5}
    top = sorted(documents, key=lambda word: (-documents[word], word))
    assert set(TextNB(max_share=1.0, drop_top=3).fit(DOCUMENTS, LABELS).vocabulary_) == set(top[3:])
    often = TextNB(max_share=1.0, max_features=3, select="frequency").fit(DOCUMENTS, LABELS)
    assert set(often.vocabulary_) == set(top[:3])


def test_words_of_any_script_capitals_and_patterns():
    texts, y = ["Größe zählt ДА 東京", "größe nein", "нет 大阪 Zählt", "да nein"], [1, 0, 0, 1]
    assert {"größe", "да", "東京"} <= set(TextNB(max_share=1.0).fit(texts, y).vocabulary_)
    assert {"Größe", "größe"} <= set(TextNB(max_share=1.0, lowercase=False).fit(texts, y).vocabulary_)
    single = TextNB(max_share=1.0, token_pattern=r"\w").fit(texts, y)
    assert all(len(word) == 1 for word in single.vocabulary_)


def test_documents_without_known_words_get_the_prior():
    model = TextNB().fit(DOCUMENTS, LABELS)
    assert_allclose(model.predict_proba(["", "unheard things"]), [[0.6, 0.4]] * 2)


def test_weights_are_repetitions_also_of_the_vocabulary():
    texts, labels = (np.array(part[::6], dtype=object) for part in docstrings())
    times = np.random.default_rng(0).integers(0, 3, len(texts))
    setting = {"max_features": 60, "min_count": 3, "max_share": 0.4, "drop_top": 2}
    weighted = TextNB(**setting).fit(texts, labels, sample_weight=times)
    repeated = TextNB(**setting).fit(np.repeat(texts, times), np.repeat(labels, times))
    assert_array_equal(weighted.vocabulary_, repeated.vocabulary_)
    assert_allclose(weighted.predict_log_proba(texts), repeated.predict_log_proba(texts), rtol=1e-9, atol=1e-9)


def test_log_odds_by_hand():
    model = TextNB(max_share=1.0).fit(DOCUMENTS, LABELS)
    told = model.telling_words(3)
    frame = told.to_frame()
    V = len(model.vocabulary_)
    spam, ham = 6, 11  # words of two letters or more
    row = frame[(frame["class"] == "spam") & (frame["word"] == "cheap")].iloc[0]
    assert_allclose(row["log_odds"], np.log((3 + 1) / (spam + V)) - np.log((0 + 1) / (ham + V)))
    assert (row["documents"], row["others"]) == (2, 0)
    assert (frame.groupby("class")["log_odds"].diff().dropna() <= 1e-12).all()
    presence = TextNB(max_share=1.0, model="bernoulli").fit(DOCUMENTS, LABELS).telling_words(3).to_frame()
    row = presence[(presence["class"] == "spam") & (presence["word"] == "cheap")].iloc[0]
    p, q = (2 + 1) / (2 + 2), (0 + 1) / (3 + 2)
    assert_allclose(row["log_odds"], np.log(p / (1 - p)) - np.log(q / (1 - q)))


def test_limits_of_log_odds_hold_the_posterior():
    """Draws from the Dirichlet posterior: the limits hold 95% of them, to the error of a normal approximation."""
    texts, labels = docstrings()
    model = TextNB(max_features=200).fit(texts, labels)
    frame = model.telling_words(5).to_frame()
    rng = np.random.default_rng(0)
    counts = model.model_.feature_count_
    place = {word: j for j, word in enumerate(model.vocabulary_)}
    for k, label in enumerate(model.classes_):
        mine = rng.dirichlet(counts[k] + 1, 4_000)
        rest = rng.dirichlet(np.delete(counts, k, axis=0).sum(axis=0) + 1, 4_000)
        for row in frame[frame["class"] == label].itertuples():
            ratio = np.log(mine[:, place[row.word]]) - np.log(rest[:, place[row.word]])
            inside = np.mean((ratio >= row.lower) & (ratio <= row.upper))
            assert 0.925 < inside < 0.985  # 4,000 draws: seven standard errors around .95
            assert row.lower < stats.trim_mean(ratio, 0.1) < row.upper


def test_telling_words_print_frame_and_plot():
    told = TextNB().fit(DOCUMENTS, LABELS).telling_words(2)
    assert isinstance(told, TellingWords)
    text = str(told)
    assert "ham" in text
    assert "cheap" in text
    assert "95%" in text
    assert list(told.to_frame()) == ["class", "word", "log_odds", "lower", "upper", "documents", "others"]
    assert "<table" in told._repr_html_()
    axes = told.plot()
    assert "cheap" in [label.get_text() for label in axes.get_yticklabels()]
    with pytest.raises(AttributeError):
        told.level = 0.9
    unsmoothed = TextNB(alpha=0).fit(DOCUMENTS, LABELS).telling_words(2)
    assert np.isinf(unsmoothed.to_frame()["log_odds"]).all()
    unsmoothed.plot()


def test_other_forms_of_documents():
    expected = TextNB().fit(DOCUMENTS, LABELS).predict_proba(DOCUMENTS)
    for form in (pd.Series(DOCUMENTS), np.array(DOCUMENTS), np.array(DOCUMENTS, dtype=object), tuple(DOCUMENTS)):
        assert_array_equal(TextNB().fit(form, LABELS).predict_proba(form), expected)
    frame = pd.DataFrame({"text": DOCUMENTS})
    assert_array_equal(TextNB().fit(frame, LABELS).predict_proba(frame), expected)


@pytest.mark.parametrize(
    ("documents", "kind", "words"),
    [
        ("one text", DataTypeError, "one text, not a list"),
        (np.zeros((5, 2)), DataTypeError, "a table, not a list"),
        (["a b", None, "c", "d", "e"], DataError, "document 1 is missing"),
        (["a b", 3, "c", "d", "e"], DataError, "document 1 is a int"),
        ([], DataError, "no documents"),
        (["!", "?", ".", ",", ";"], DataError, "no document has a word"),
        (DOCUMENTS[:4], DataError, "inconsistent numbers of samples"),
    ],
)
def test_bad_documents_are_told(documents, kind, words):
    with pytest.raises(kind, match=words):
        TextNB().fit(documents, LABELS)


def test_bad_settings_are_told():
    with pytest.raises(DataError, match=r"min_count = 4.* leave none of the 11 words"):
        TextNB(min_count=4).fit(DOCUMENTS, LABELS)
    with pytest.raises(ParameterError, match="not a valid regular expression"):
        TextNB(token_pattern="(").fit(DOCUMENTS, LABELS)
    with pytest.raises(ParameterError, match="capturing group"):
        TextNB(token_pattern=r"(\w)(\w)").fit(DOCUMENTS, LABELS)
    with pytest.raises(ParameterError, match="max_share"):
        TextNB(max_share=0).fit(DOCUMENTS, LABELS)
    with pytest.raises(ParameterError, match="n = 0"):
        TextNB().fit(DOCUMENTS, LABELS).telling_words(0)


def test_in_a_search():
    texts, labels = (list(part[::4]) for part in docstrings())
    search = GridSearchCV(TextNB(), {"alpha": [0.1, 1.0], "max_features": [50, None]}, cv=2).fit(texts, labels)
    assert search.best_score_ > 0.6
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()
