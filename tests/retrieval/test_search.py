from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from support.wiki import configuration, embedder

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.models.reranker_client import RemoteReranker
from rag_serving.records.queries import Filters

EVERYONE, HR = Principal("acme"), Principal("acme", "ann", frozenset({"hr"}))


def asked(
    pipeline: Pipeline, query: str, who: Principal = EVERYONE, filters: Filters | None = None
) -> tuple[list[str], tuple[str, ...]]:
    """The pages found, best first, and how the query was read."""
    found = pipeline.search(who, query, 10, filters, explain=True)
    return [candidate.chunk.page_id for candidate in found.results], found.notes or ()


def test_an_operator_narrows_as_the_filter_does(pipeline: Pipeline) -> None:
    pages, notes = asked(pipeline, "space:sre how long are records kept by a broker")
    assert pages
    assert set(pages) <= {"13", "15"}
    assert notes == ("only pages of the space SRE",)
    assert pages == asked(pipeline, "how long are records kept by a broker", filters=Filters(space=("SRE",)))[0]


def test_operators_and_filters_must_both_match(pipeline: Pipeline) -> None:
    assert asked(pipeline, "space:OPS broker logs", filters=Filters(labels=("config",)))[0] == ["12"]
    assert asked(pipeline, "space:SRE broker logs", filters=Filters(labels=("config",)))[0] == []


def test_an_operator_for_what_is_nowhere_finds_nothing(pipeline: Pipeline) -> None:
    assert asked(pipeline, "label:nowhere consumer lag")[0] == []


def test_passages_with_a_quoted_phrase_come_first(pipeline: Pipeline) -> None:
    query = "how to restart a broker with offline replicas under-replicated"
    assert asked(pipeline, query)[0][0] == "11"
    pages, notes = asked(pipeline, f'{query} "keeps   LOGS for 168 hours"')
    assert pages[0] == "12"
    assert notes == ("passages with the words “keeps LOGS for 168 hours” before others",)


def test_a_quoted_phrase_that_stands_nowhere_is_noted_and_no_more(pipeline: Pipeline) -> None:
    pages, notes = asked(pipeline, 'consumer "lag of the consumer"')
    assert pages[0] == "13"
    assert notes[-1] == "no passage holds the words “lag of the consumer”"


def test_a_space_in_words_narrows(pipeline: Pipeline) -> None:
    pages, notes = asked(pipeline, "broker settings in space sre")
    assert set(pages) <= {"13", "15"}
    assert notes == ("first pages of the space SRE",)


def test_a_space_in_words_where_nothing_is_found_narrows_nothing(pipeline: Pipeline) -> None:
    pages, notes = asked(pipeline, "consumer lag labelled config", filters=Filters(space=("SRE",)))
    assert pages[0] == "13"
    assert notes == ("first pages labelled config", "nothing was found there, so everything was searched")


def test_a_page_called_by_its_name_is_raised(pipeline: Pipeline) -> None:
    found = pipeline.search(EVERYONE, "broker in the Kitchen", explain=True)
    raised = [candidate for candidate in found.results if "asked for" in candidate.scores]
    assert {candidate.chunk.page_id for candidate in raised} <= {"16"}
    assert found.notes == ("the page “Kitchen” before others",)


@pytest.mark.parametrize(
    "query", ["bonus in space HR", "bonus in the Compensation", "the sallary bonus", '"salary bonus of 4,000 euros"']
)
def test_names_and_words_are_told_only_to_who_may_read_them(pipeline: Pipeline, query: str) -> None:
    known, notes = asked(pipeline, query, HR)
    assert known[0] == "14"
    hidden, others = asked(pipeline, query)
    assert "14" not in hidden
    assert others != notes


def test_a_misspelt_question_is_answered_as_the_right_one_is(pipeline: Pipeline) -> None:
    right = pipeline.ask(EVERYONE, "Does an alert fire for consumer lag above 10,000 records?")
    misspelt = pipeline.ask(EVERYONE, "Does an alrt fire for cosnumer lag above 10,000 recrods?", explain=True)
    assert misspelt.notes == ("read 'alrt' as 'alert'", "read 'cosnumer' as 'consumer'", "read 'recrods' as 'records'")
    assert (misspelt.status, misspelt.citations) == (right.status, right.citations)
    assert right.status == "answered"


def test_words_that_pages_lack_are_left_alone(pipeline: Pipeline) -> None:
    assert asked(pipeline, "football on Sunday with dogs")[1] == ()


def test_spelling_can_be_switched_off(wiki_home: Path) -> None:
    pipeline = Pipeline.open(configuration(wiki_home, retrieval={"spelling": False}), "acme", embedder())
    assert asked(pipeline, "cosnumer lag")[1] == ()
    pipeline.close()


def test_how_it_was_read_is_else_told_where_it_is_asked_for(pipeline: Pipeline) -> None:
    assert "notes" not in pipeline.search(EVERYONE, "space:SRE lag").payload()
    assert "notes" not in pipeline.ask(EVERYONE, "space:SRE lag").payload()
    assert pipeline.ask(EVERYONE, "space:SRE lag", explain=True).payload()["notes"] == ["only pages of the space SRE"]


def test_where_nothing_was_found_it_is_told_how_it_was_read(pipeline: Pipeline) -> None:
    assert pipeline.search(EVERYONE, "space:NOPE lag").payload()["notes"] == ["only pages of the space NOPE"]
    assert pipeline.ask(EVERYONE, "space:NOPE lag").payload()["notes"] == ["only pages of the space NOPE"]


class LeastLikely:
    """A reranker that has it the wrong way round."""

    def rank(self, query: str, passages: Sequence[tuple[str, str]], top_n: int) -> list[tuple[str, float]]:
        assert '"' not in query
        return [(identifier, float(-rank)) for rank, (identifier, _) in enumerate(reversed(passages))][:top_n]

    def close(self) -> None:
        pass


def test_no_reranker_ranks_quoted_words_down(wiki_home: Path) -> None:
    reranker = cast(RemoteReranker, LeastLikely())
    pipeline = Pipeline.open(configuration(wiki_home), "acme", embedder(), reranker)
    assert asked(pipeline, "consumer lag")[0][0] != "13"
    assert asked(pipeline, '"consumer lag"')[0][0] == "13"
    pipeline.close()
