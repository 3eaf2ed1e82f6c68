"""What keyword phases find of the sample's docs: the right page, and the right thing done with the question.

The lists are those of the retrieval plan of an app's documentation: ten for documents, four for chunks, two for search
by meaning, which the keyword tier has to hold as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from support.keyword_corpus import Absent

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.indexes.view import ReaderView
from rag_serving.models.protocols import Embedder
from rag_serving.records.passages import Chunk
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.search import Search, search_candidates
from rag_serving.retrieval.stages import SearchOptions, passage_stages
from rag_serving.tracing import StageTrace

MODES: tuple[Mode, ...] = ("keyword_documents", "keyword_chunks")
WHO = Principal("port")


class Asked:
    """Searches of one phase over the sample's docs."""

    def __init__(self, pipeline: Pipeline, view: ReaderView, mode: Mode) -> None:
        self._pipeline, self._view, self._mode = pipeline, view, mode

    def search(self, question: str) -> Search:
        config = self._pipeline.config
        options = SearchOptions(config.retrieval, self._mode, keyword=config.keyword)
        search = search_candidates(self._view, cast(Embedder, Absent()), question, options)
        stages = passage_stages(config, config.keyword.top_k, None, is_gated=True, mode=self._mode)
        return search.then(stages, StageTrace())

    def action(self, question: str) -> str:
        decision = self.search(question).decision
        assert decision
        return decision.action

    def passages(self, question: str) -> list[Chunk]:
        search = self.search(question)
        return search.context.passages.read(search.ranking.rows)

    def page(self, question: str) -> str:
        """Return the title of the page that is answered from."""
        assert self.action(question) == "answer"
        return self.passages(question)[0].title

    def contenders(self, question: str) -> list[str]:
        decision = self.search(question).decision
        return [each.label for each in decision.contenders] if decision else []


@pytest.fixture(scope="module")
def pipeline(published_documents: Path) -> Iterator[Pipeline]:
    opened = Pipeline.open(load_config(published_documents / "app.yaml"), "port")
    yield opened
    opened.close()


@pytest.fixture(params=MODES)
def asked(pipeline: Pipeline, request: pytest.FixtureRequest) -> Iterator[Asked]:
    with pipeline.reading(WHO) as view:
        yield Asked(pipeline, view, request.param)


@pytest.fixture
def chunks(pipeline: Pipeline) -> Iterator[Asked]:
    with pipeline.reading(WHO) as view:
        yield Asked(pipeline, view, "keyword_chunks")


def test_explain_workspace_is_the_workspace_page(asked: Asked) -> None:
    assert asked.page("explain workspace") == "Workspace"


def test_what_is_home_is_the_home_page(asked: Asked) -> None:
    assert asked.page("what is home") == "Home"


def test_explain_calendar_matches_nothing(asked: Asked) -> None:
    assert asked.action("explain calendar") == "no_match"
    assert asked.passages("explain calendar") == []


def test_panels_stand_in_a_text_alone_and_are_asked_back(asked: Asked) -> None:
    assert asked.action("tell me about panels") == "weak"
    assert asked.contenders("tell me about panels") == ["Widgets"]


def test_home_alone_is_ambiguous(asked: Asked) -> None:
    assert asked.action("home") == "ambiguous"
    assert set(asked.contenders("home")[:2]) == {"Home", "Return Home"}


def test_shortcuts_are_quick_links(asked: Asked) -> None:
    assert asked.page("shortcuts") == "Quick Links"


def test_a_typo_is_read_as_the_word(asked: Asked) -> None:
    assert asked.page("wrkspace") == "Workspace"
    assert dict(asked.search("wrkspace").query.corrections) == {"wrkspace": "workspace"}


def test_workspace_and_widgets_are_both_found(asked: Asked) -> None:
    assert {"Workspace", "Widgets"} == {chunk.title for chunk in asked.passages("workspace and widgets")[:4]}
    assert [asked.page(part) for part in ("workspace", "widgets")] == ["Workspace", "Widgets"]


@pytest.mark.parametrize("question", ["how do I do it", "the thing"])
def test_words_that_name_nothing_match_nothing(asked: Asked, question: str) -> None:
    assert asked.action(question) == "no_match"
    assert asked.passages(question) == []


def test_explain_notes_is_a_chunk_of_notes(chunks: Asked) -> None:
    assert chunks.page("explain notes") == "Notes"


def test_what_is_quick_links_is_a_chunk_of_the_widget(chunks: Asked) -> None:
    assert chunks.page("what is quick links") == "Quick Links"
    assert chunks.passages("what is quick links")[0].category == "widgets"


def test_open_notes_and_quick_links_are_chunks_of_two_documents(chunks: Asked) -> None:
    assert {"Notes", "Quick Links"} <= {chunk.title for chunk in chunks.passages("open notes + quick links")}
    assert [chunks.page(part) for part in ("open notes", "quick links")] == ["Notes", "Quick Links"]


def test_explain_workspace_has_its_heading_path_in_the_evidence(pipeline: Pipeline) -> None:
    pipeline.mode = "keyword_chunks"
    try:
        evidence = pipeline.ask(WHO, "explain workspace").evidence
    finally:
        pipeline.mode = None
    first = evidence[0].payload()
    assert first["header_path"].startswith("Workspace")
    assert first["title"] == "Workspace"
    assert first["category"] == "concepts"
    assert first["matched_terms"] == ["workspace"]
    assert all(first[name] for name in ("doc_slug", "content_hash", "chunk_hash", "snippet"))


def test_evidence_of_two_things_has_the_words_of_each(pipeline: Pipeline) -> None:
    pipeline.mode = "keyword_chunks"
    try:
        evidence = pipeline.ask(WHO, "workspace and widgets").evidence
    finally:
        pipeline.mode = None
    matched = {each.title: set(each.matched_terms) for each in evidence}
    assert "workspace" in matched["Workspace"]
    assert "widgets" in matched["Widgets"]
    assert {each.source for each in evidence} == {"keyword"}


def test_how_do_i_find_my_notes_is_the_notes_page(asked: Asked) -> None:
    assert asked.page("how do I find my notes?") == "Notes"


def test_where_are_my_shortcuts_is_the_quick_links_page(asked: Asked) -> None:
    assert asked.page("where are my shortcuts?") == "Quick Links"


def test_no_more_than_two_chunks_are_of_one_document(asked: Asked) -> None:
    for question in ("explain workspace", "home", "what is quick links", "widget of notes"):
        pages = [chunk.page_id for chunk in asked.passages(question)]
        assert max(map(pages.count, pages)) <= 2
