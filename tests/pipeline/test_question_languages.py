"""Questions in other languages than the pages': nothing is corrected, what is served is told, nothing is certain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clarified import clarified
from support.wiki import PASSAGES, Passage, configuration, embedder, publish

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.query.languages import knows, languages_told
from rag_serving.records.flags import LANGUAGE_NOT_SERVED

GERMAN = "Jeder Broker bewahrt seine Protokolle standardmäßig sieben Tage lang auf. Danach werden sie gelöscht."
RUSSIAN = "Каждый брокер хранит журналы семь дней, а потом они удаляются без предупреждения."
ANYBODY, HR = Principal("acme"), Principal("acme", None, frozenset({"hr"}))


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    home = tmp_path_factory.mktemp("languages")
    hidden = Passage("21", "Журналы", RUSSIAN, readers="group:hr")
    publish(home, (*PASSAGES, hidden))
    opened = Pipeline.open(configuration(home), "acme", embedder())
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Wie lange habe ich Zeit, um die Protokolle zu lesen?", "Die Seiten sind auf Englisch"),
        ("Combien de temps les journaux sont-ils conservés ?", "Les pages sont en anglais"),
        ("¿Cuánto tiempo se guardan los registros?", "Las páginas están en inglés"),
    ],
)
def test_what_is_served_is_told_in_the_language_of_the_question(pipeline: Pipeline, question: str, told: str) -> None:
    answer = pipeline.ask(ANYBODY, question, explain=True)
    assert LANGUAGE_NOT_SERVED in answer.flags
    assert answer.outcome != "told"
    assert clarified(answer).startswith(told)
    assert "The pages are in English, and the search model knows English" in clarified(answer)
    assert not any("read '" in note for note in answer.notes or ())


def test_an_english_question_is_as_it_was(pipeline: Pipeline) -> None:
    answer = pipeline.ask(ANYBODY, "How long does a brokker keep logs?")
    assert answer.status == "answered"
    assert LANGUAGE_NOT_SERVED not in answer.flags


def test_languages_of_hidden_pages_are_told_to_nobody(pipeline: Pipeline) -> None:
    question = "Сколько дней брокер хранит журналы?"
    assert "Russian" not in clarified(pipeline.ask(ANYBODY, question))
    assert LANGUAGE_NOT_SERVED in pipeline.ask(ANYBODY, question).flags
    assert LANGUAGE_NOT_SERVED not in pipeline.ask(HR, question).flags  # one of seven passages is in it


def test_german_pages_are_asked_in_german(tmp_path: Path) -> None:
    passages = [Passage(f"{page}", f"Protokolle {page}", GERMAN) for page in range(3)]
    publish(tmp_path, passages)
    pipeline = Pipeline.open(configuration(tmp_path), "acme", embedder())
    answer = pipeline.ask(ANYBODY, "Wie lange bewahrt ein Broker seine Protokole auf?", explain=True)
    assert answer.status == "answered"
    assert LANGUAGE_NOT_SERVED not in answer.flags
    assert "read 'Protokole' as 'protokolle'" in (answer.notes or ())
    pipeline.close()


def test_models_that_know_english_alone_are_known_by_name() -> None:
    for name in (
        "local/all-MiniLM-L6-v2@1110a243fdf4/1",
        "ollama/all-minilm:l6",
        "openai/BAAI/bge-small-en-v1.5",
        "mxbai-embed-large",
    ):
        assert not knows(name, "de")
        assert knows(name, "en")
    for name in (
        "ollama/bge-m3",
        "openai/intfloat/multilingual-e5-small",
        "text-embedding-3-small",
        "nomic-embed-text-v2",
    ):
        assert knows(name, "de")


def test_pages_in_two_languages_are_both_named() -> None:
    told = languages_told("de", {"en": 0.6, "fr": 0.35, "nl": 0.05})
    assert told.startswith("Die Seiten sind auf Englisch, Französisch,")
    assert "The pages are in English, French," in told
    assert languages_told("ja", {"pl": 1.0}).startswith("The pages are in pl,")
