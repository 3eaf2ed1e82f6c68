"""The keyword tier's formula to the letter, its rules in their order, and how questions are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.keyword_corpus import page, scores_by_title, searched, view_of

from rag_serving.config.sections import Keyword
from rag_serving.indexes.view import ReaderView
from rag_serving.records.passages import Chunk
from rag_serving.retrieval.keyword.question import QuestionReader
from rag_serving.retrieval.keyword.search import Best, confidence_of, decided
from rag_serving.text.keyword_words import inflections, singulars, words_in

# Words of content: Home 4; Quick Links 1 + 8 and 7, in all 16; Berth Notes 9.
ROWS = [
    *page("Home", "Home lists your workspaces", labels=["start page"]),
    *page("Quick Links", ("Editing", "Hold a link to rename move remove it"), "Press add link and paste the address"),
    *page("Berth Notes", "A note holds short texts that a team shares"),
    *page("Notes", "Short"),
]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> ReaderView:
    return view_of(tmp_path_factory.mktemp("formula"), ROWS)


def _half(raw: float, words: int) -> float:
    """Half of what normalization takes away is given back."""
    return raw - (raw - raw / words**0.5) / 2


@pytest.mark.parametrize(
    ("question", "title", "score"),
    [
        # phrase 5 + title 3 + content 1 = 9; √4 = 2: 9 - (9 - 4.5) / 2
        ("home", "Home", 6.75),
        # labels 2; 2 / 2
        ("start", "Home", 1.0),
        # labels 2 + 2; 4 / 2
        ("start page", "Home", 2.0),
        # content 1 (lists) + 1 (workspaces); 2 / 2
        ("list workspace", "Home", 1.0),
        # phrase 5 + title 3 + 3 + content 1 (link, for links) = 12; √16 = 4: 12 - (12 - 3) / 2
        ("quick links", "Quick Links", 7.5),
        # title 3 + content 1 = 4; 4 / 4
        ("rename quick", "Quick Links", 1.0),
        # headings are content: 1 / 4
        ("editing", "Quick Links", 0.25),
        # links and quick are no phrase of the title: 3 + 3 + 1 = 7; 7 / 4
        ("links quick", "Quick Links", 1.75),
        # title 3 (Notes) + phrase 5, content 0: notes is a known term, and matches no note; √9 = 3
        ("notes", "Berth Notes", _half(8, 9)),
        # phrase 5 + title 3; one word
        ("notes", "Notes", 8.0),
        # note is no known term: title 3 + phrase 5 + content 1; √9 = 3
        ("note", "Berth Notes", _half(9, 9)),
        # each word counts once
        ("start start start", "Home", 1.0),
    ],
)
def test_documents_are_scored_to_the_letter(view: ReaderView, question: str, title: str, score: float) -> None:
    assert scores_by_title(searched(view, question))[title] == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(
    ("question", "heading", "score"),
    [
        # phrase 5 + title 3 + 3 + content 1 = 12; √9 = 3
        ("quick links", "Editing", _half(12, 9)),
        # the same in the chunk of 7 words
        ("quick links", "Quick Links", _half(12, 7)),
        # title 3 + content 1, in the one that holds it alone; √9
        ("rename quick", "Editing", 4 / 3),
        # title 3; √7
        ("rename quick", "Quick Links", 3 / 7**0.5),
    ],
)
def test_chunks_are_scored_by_their_own_words(view: ReaderView, question: str, heading: str, score: float) -> None:
    search = searched(view, question, "keyword_chunks")
    chunks = search.context.passages.read(search.ranking.rows)
    by_heading = {chunk.heading_path[-1]: value for chunk, value in zip(chunks, search.ranking.score, strict=True)}
    assert by_heading[heading] == pytest.approx(score, abs=1e-12)


def best(score: float, matched: int = 2, is_named: bool = True, has_phrase: bool = False) -> Best:
    return Best(0, 0, score, is_named, has_phrase, tuple("abcdef"[:matched]))


CHUNK = Chunk("1:1:0", "1", 1, 0, "ENG", "Home", ("Home",), "a", "https://w/1#a", "", 0, 0, "paragraph")


@pytest.mark.parametrize(
    ("found", "action", "because"),
    [
        ([], "no_match", "no document"),
        ([best(0.0)], "no_match", "no document"),
        ([best(5.0)], "answer", "the second 0.00"),
        ([best(5.0, matched=1)], "weak", "1 of 2 words"),
        ([best(5.0, matched=1, has_phrase=True)], "answer", ""),
        ([best(5.0, is_named=False)], "weak", "title or the labels"),
        ([best(5.0, is_named=False, has_phrase=True)], "answer", ""),
        ([best(2.99)], "weak", "3 is needed"),
        ([best(3.0)], "answer", ""),
        ([best(5.0), best(3.01)], "ambiguous", "leads by 1.99"),
        ([best(5.0), best(3.0)], "answer", ""),
        ([best(8.0), best(5.7)], "ambiguous", "confidence"),
        ([best(8.0), best(5.6)], "answer", ""),
        # the rules in their order: few words before a low score, a low score before a small lead
        ([best(1.0, matched=1, is_named=False), best(1.0)], "weak", "words matched"),
        ([best(1.0), best(1.0)], "weak", "is needed"),
    ],
)
def test_the_rules_decide_in_their_order(found: list[Best], action: str, because: str) -> None:
    decision = decided(found, [CHUNK] * len(found))
    assert decision.action == action
    assert because in decision.reason
    assert decision.confidence == pytest.approx(confidence_of(found), abs=1e-4)


@pytest.mark.parametrize(
    ("word", "bases"),
    [
        ("notes", {"notes", "note"}),
        ("boxes", {"boxes", "boxe", "box"}),
        ("caches", {"caches", "cache", "cach"}),
        ("entries", {"entries", "entrie", "entry"}),
        ("gas", {"gas"}),
        ("access", {"access"}),
        ("status", {"status"}),
        ("analysis", {"analysis"}),
        ("note", {"note"}),
        ("3s4s", {"3s4s"}),
    ],
)
def test_only_plurals_are_stripped(word: str, bases: set[str]) -> None:
    assert singulars(word) == bases


def test_words_are_the_same_but_for_a_plural() -> None:
    assert {"entry", "entries"} <= inflections("entry") & inflections("entries")
    assert "note" in inflections("notes")
    assert "notation" not in inflections("notes")
    assert inflections("it") == {"it"}


def test_words_are_in_lower_case_without_punctuation_and_accents() -> None:
    assert words_in("What's the Café-Owner's “Quick_Links”? ﬁne ...") == [
        "what", "the", "cafe", "owner", "quick", "links", "fine",
    ]  # fmt: skip
    assert words_in("") == words_in(" .,;— ") == []


@pytest.mark.parametrize(
    ("question", "words", "is_framed"),
    [
        ("What is Home?", ("home",), True),
        ("explain home", ("home",), True),
        ("please tell me about the quick links", ("quick", "links"), True),
        ("home", ("home",), False),
        ("how do I do it", (), False),
        ("the thing", (), False),
        ("what is", (), False),
        ("", (), False),
        ("how do I find my notes?", ("find", "notes"), True),
        ("where are my shortcuts?", ("quick", "links"), True),
        ("the start screen", ("home",), False),
        ("hmoe", ("home",), False),
    ],
)
def test_questions_are_read(view: ReaderView, question: str, words: tuple[str, ...], is_framed: bool) -> None:
    settings = Keyword(synonyms={"shortcuts": "quick links", "start screen": "home"})
    read = QuestionReader(settings, view.keywords).read(question)
    assert (read.words, read.is_framed) == (words, is_framed)


def test_a_phrase_is_rewritten_before_a_word_of_it(view: ReaderView) -> None:
    settings = Keyword(synonyms={"start": "notes", "start screen": "home"})
    assert QuestionReader(settings, view.keywords).read("start screen").words == ("home",)
    assert QuestionReader(settings, view.keywords).read("start now").words == ("notes", "now")


def test_a_word_that_somebody_knows_is_not_corrected(view: ReaderView) -> None:
    assert QuestionReader(Keyword(), view.keywords, lambda word: word == "hmoe").read("hmoe").words == ("hmoe",)
    assert QuestionReader(Keyword(concepts=["hmoe"]), view.keywords).read("hmoe").words == ("hmoe",)


@pytest.mark.parametrize("mode", ["keyword_documents", "keyword_chunks"])
@pytest.mark.parametrize(
    "question", ["", "?", "a " * 50_000, "home " * 20_000, "\x00\ud800 home", "𝕳𝖔𝖒𝖊", "'" * 10_000, "*" * 9_999]
)
def test_any_text_is_a_question(view: ReaderView, mode: Any, question: str) -> None:
    assert searched(view, question, mode).decision is not None


def test_an_empty_generation_matches_nothing(tmp_path: Path) -> None:
    search = searched(view_of(tmp_path, []), "what is home")
    assert search.decision
    assert (search.decision.action, len(search.ranking)) == ("no_match", 0)
