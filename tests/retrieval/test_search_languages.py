"""Pages in several languages: each is found by the stems of its own."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from support.wiki import Passage, configuration, publish

from rag_assets.steps.chunks.document_fields import with_languages
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import CHUNKS
from rag_serving.ask import Pipeline
from rag_serving.models.language_detector import page_language
from rag_serving.records.queries import Query

READER = Principal("acme")
GERMAN = (
    Passage(
        "21", "Fristen", "Anträge auf Urlaub werden von der Personalabteilung binnen drei Tagen bearbeitet.", "Urlaub"
    ),
    Passage("22", "Häuser", "Die Häuser am Hafen stehen leer und werden nur im Winter geheizt.", "Gebäude"),
    Passage("23", "Hunde", "Hunde dürfen mit ins Büro, solange niemand in der Gruppe allergisch ist.", "Büro"),
)
ENGLISH = Passage("24", "Leave", "Requests for leave are handled by the office within three days.", "Leave")


@pytest.fixture(scope="module", params=[None, "de"], ids=["not told", "told"])
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str | None, Pipeline]:
    home = tmp_path_factory.mktemp("german")
    publish(home, [*(replace(one, lang=request.param) for one in GERMAN), ENGLISH])
    pipeline = Pipeline.open(configuration(home), "acme")
    pipeline.mode = "lexical"
    return request.param, pipeline


def found(pipeline: Pipeline, query: str) -> list[str]:
    results = pipeline.search(READER, query, 4).results
    return [candidate.chunk.page_id for candidate in results if candidate.scores["bm25"] > 0]


@pytest.mark.parametrize(("query", "page"), [("Wer bearbeitet einen Antrag?", "21"), ("Haus", "22")])
def test_another_form_of_a_word_is_found_where_the_language_is_told(
    query: str, page: str, asked: tuple[str | None, Pipeline]
) -> None:
    language, pipeline = asked
    assert (page in found(pipeline, query)) is (language == "de" or query != "Haus")


@pytest.mark.parametrize("query", ["requests for leave", "Wie werden Anträge bearbeitet?", "Hunde im Büro"])
def test_what_is_found_without_is_found_with_them(query: str, asked: tuple[str | None, Pipeline]) -> None:
    assert found(asked[1], query)


def test_shared_words_are_counted_by_the_stems_of_the_question() -> None:
    german = Query("Häuser", "Häuser", {}, stemmed=("de",))
    assert german.text_terms & set(german.analyze("Ein Haus"))
    assert not Query("Häuser", "Häuser", {}).text_terms & set(german.analyze("Ein Haus")) - {"haus"}


def test_a_page_without_a_language_of_its_own_gets_that_of_most_of_its_texts() -> None:
    german = [{"page_id": "1", "text": one.text, "content_type": "paragraph", "lang": None} for one in GERMAN]
    code = {"page_id": "2", "text": "for (;;) { x += 1; }", "content_type": "code", "lang": None}
    told = {"page_id": "3", "text": ENGLISH.text, "content_type": "paragraph", "lang": "nl"}
    rows = [dict.fromkeys(CHUNKS.columns.names) | row for row in (*german, code, told)]
    languages = with_languages(pa.Table.from_pylist(rows, schema=CHUNKS.arrow), page_language)["lang"].to_pylist()
    assert languages == ["de", "de", "de", None, "nl"]
