"""What can be done next is told in words and as options: a question to ask, a page to open."""

from __future__ import annotations

from pathlib import Path

import pytest
from click import unstyle
from hypothesis import given
from hypothesis import strategies as st
from support.passages import lock_of
from support.wiki import configuration

from rag_serving.access.principals import Principal
from rag_serving.answering.clarifying import closest, examples_told, joined, spelling_told
from rag_serving.answering.markdown import markdown
from rag_serving.cli.printing import answer_lines
from rag_serving.pipeline import Pipeline
from rag_serving.records.answers import Answer
from rag_serving.records.passages import Lock
from rag_serving.records.refusal import Clarification, ClarificationOption

EVERYONE = Principal("acme")
PAGE = ClarificationOption("Broker guide → Restart", "page", url="https://wiki.example/pages/1#Restart")
NASTY = ClarificationOption("a](javascript:x) <img> \x1b[31m", "page", url="javascript:alert(1)")


def test_the_closest_page_is_an_option_with_its_address() -> None:
    told = closest(lock_of(["Logs."]))
    assert told == Clarification("The page that comes closest:", (PAGE,))
    assert told.payload() == {
        "text": "The page that comes closest:",
        "options": [
            {"label": PAGE.label, "category": "page", "query": None, "url": "https://wiki.example/pages/1#Restart"}
        ],
    }
    assert closest(Lock(())) is None


def test_examples_can_be_asked() -> None:
    told = examples_told(["What is lag?"])
    assert told
    assert told.options == (ClarificationOption("What is lag?", "question", query="What is lag?"),)
    assert examples_told([]) is None


def test_words_that_were_corrected_can_be_asked_for_as_typed() -> None:
    told = spelling_told("Where do restrats of brokr restrat?", {"restrat": "restart", "brokr": "broker"})
    assert told
    assert told.text == "Read “restrat” as “restart”, “brokr” as “broker”."
    assert told.options[0].query == 'Where do restrats of "brokr" "restrat"?'
    assert spelling_told("Where?", {}) is None


@given(question=st.text(max_size=80), word=st.text(st.characters(categories=["L"]), min_size=1, max_size=8))
def test_any_question_keeps_its_words(question: str, word: str) -> None:
    told = spelling_told(question, {word: "right"})
    assert told
    assert (told.options[0].query or "").replace('"', "") == question.replace('"', "")


def test_several_are_told_in_their_order() -> None:
    one, two = Clarification("One.", (PAGE,)), Clarification("Two.")
    assert joined(one, None, two) == Clarification("One. Two.", (PAGE,))
    assert joined(None, None) is None


def test_options_are_lines_of_markdown_and_of_a_terminal_and_nothing_escapes() -> None:
    answer = Answer("not_found", "Not found in docs.", clarification=Clarification("Closest:", (PAGE, NASTY)))
    lines = markdown(answer).splitlines()
    assert lines[:4] == [
        "Not found in docs.",
        "",
        "Closest:",
        "- [Broker guide → Restart](https://wiki.example/pages/1#Restart)",
    ]
    assert "](javascript" not in lines[4].replace("\\]", "")
    assert "(javascript:alert" not in lines[4]
    shown = [unstyle(line) for line in answer_lines(answer)]
    assert shown[2] == "    Broker guide → Restart  https://wiki.example/pages/1#Restart"
    assert "\x1b" not in shown[3]


@pytest.fixture(scope="module")
def pipeline(wiki_home: Path) -> Pipeline:
    gates = {"min_confidence": 1.0, "min_closest": 1.0}
    return Pipeline.open(configuration(wiki_home, gates=gates), "acme")


def test_a_misspelt_question_without_an_answer_offers_its_words_as_typed(pipeline: Pipeline) -> None:
    answer = pipeline.ask(EVERYONE, "May I restrat a broker?")
    assert answer.clarification
    assert answer.clarification.text.startswith("Read “restrat” as “restart”. The page that comes closest:")
    assert [option.category for option in answer.clarification.options] == ["spelling", "page"]
    typed = pipeline.ask(EVERYONE, answer.clarification.options[0].query or "", explain=True)
    assert not any("read 'restrat'" in note for note in typed.notes or ())
