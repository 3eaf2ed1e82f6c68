"""The stages of retrieval as they run: their order, their columns, and what is told of a candidate afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.listed_chunks import ListedChunks, ranked, searching
from support.passages import chunk_of
from support.wiki import embedder

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config, parse_config
from rag_serving.config.sections import Retrieval
from rag_serving.models.protocols import ModelError
from rag_serving.retrieval.ranking import Ranking
from rag_serving.retrieval.search import Search, search_candidates
from rag_serving.retrieval.stage import SearchContext, Stage, in_turn, run_stages
from rag_serving.retrieval.stages import SearchOptions, candidate_stages, passage_stages
from rag_serving.tracing import StageTrace

ASKER = Principal("acme")
EVERY_STAGE = Retrieval(mmr_lambda=0.9)
BY_WORDS = parse_config({"features": {"FEATURE_HEURISTIC_RERANKER": True}})


class NoSidecar:
    """A reranker that is down."""

    def rank(self, *_: object) -> list[tuple[str, float]]:
        raise ModelError("down")


def every_stage(config: Config = BY_WORDS) -> tuple[Stage, ...]:
    return (*candidate_stages(SearchOptions(EVERY_STAGE)), *passage_stages(config, 8, NoSidecar(), is_gated=True))


@pytest.fixture
def search(pipeline: Pipeline) -> Iterator[Search]:
    with pipeline.published.acquire() as generation:
        options = SearchOptions(EVERY_STAGE)
        found = search_candidates(generation.for_reader(ASKER), embedder(), 'how long are "keeps logs" kept', options)
        yield found.then(passage_stages(BY_WORDS, 8, None, is_gated=True), StageTrace())


def test_the_documented_table_lists_the_stages_in_their_order() -> None:
    text = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")
    table = text.split("## The stages of retrieval")[1].split("\n## ")[0]
    by_keywords = (
        *candidate_stages(SearchOptions(EVERY_STAGE, mode="keyword_chunks")),
        *passage_stages(BY_WORDS, 8, None, is_gated=False, mode="keyword_chunks"),
    )
    names = dict.fromkeys(stage.name for stage in (*every_stage(), *by_keywords))
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == list(names)


def test_each_stage_adds_its_columns_and_no_stage_loses_one(search: Search) -> None:
    columns = {name: ranking.columns.keys() for name, ranking in search.rankings.items()}
    assert columns["dense"] == {"dense", "dense_rank"}
    assert columns["lexical"] - columns["dense"] == {"bm25", "lexical_rank"}
    assert columns["fuse"] - columns["lexical"] == {"fused", "score"}
    assert columns["page_evidence"] - columns["fuse"] == {"page", "document", "parent"}
    assert columns["quoted"] - columns["diversify"] == {"asked for"}
    assert columns["lexical_rerank"] - columns["keyword_gate"] == {"heuristic"}
    assert all(before <= after for before, after in pairwise(columns.values()))


def test_both_indexes_score_every_candidate_whichever_found_it(search: Search) -> None:
    ranking = search.rankings["candidates"]
    assert len(ranking)
    assert not np.isnan([ranking.columns["dense"], ranking.columns["bm25"]]).any()
    found = ~np.isnan([ranking.columns["dense_rank"], ranking.columns["lexical_rank"]])
    assert found.any(axis=0).all()


def test_a_candidate_tells_its_rank_in_each_index_and_what_each_stage_said(pipeline: Pipeline) -> None:
    found = pipeline.search(ASKER, "consumer lag", explain=True)
    best = found.payload()["candidates"][0]
    assert best["ranks"] == {"dense": 1, "lexical": 1}
    assert {"dense", "bm25", "fused", "page", "document"} <= best["scores"].keys()
    assert best["dropped_by"] is None
    assert found.payload()["results"][0]["ranks"] == best["ranks"]


def test_a_candidate_that_hygiene_dropped_says_so(pipeline: Pipeline) -> None:
    dropping = pipeline.config.ingestion.model_copy(update={"drop_labels": ["config"]})
    pipeline.config = pipeline.config.model_copy(update={"ingestion": dropping})
    found = pipeline.search(ASKER, "how long are logs kept", explain=True)
    dropped = {one["chunk_id"] for one in found.payload()["candidates"] if one["dropped_by"] == "hygiene"}
    assert dropped == {"12:1:0"}
    assert "12:1:0" not in {one.chunk.chunk_id for one in found.results}


def test_no_passage_is_read_but_those_that_are_shown_by_a_search_without_phrases(
    search: Search, pipeline: Pipeline
) -> None:
    with pipeline.published.acquire() as generation:
        view = generation.for_reader(ASKER)
        found = search_candidates(view, embedder(), "broker logs and consumer lag", SearchOptions(Retrieval()))
        found = found.then(passage_stages(Config(), 2, None, is_gated=False), StageTrace())
        assert len(found.ranking) > 2
        assert len(found.context.passages._chunks) == 2
        assert len(list(found.context.passages.candidates(found.ranking.head(2)))) == 2
        assert len(found.context.passages._chunks) == 2
    assert search.context.passages._chunks


def test_adding_and_reordering_stages_is_a_matter_of_the_list() -> None:
    def reverse(_: SearchContext, ranking: Ranking) -> Ranking:
        return ranking.take(range(len(ranking) - 1, -1, -1))

    def first(_: SearchContext, ranking: Ranking) -> Ranking:
        return ranking.head(1)

    context = searching(ListedChunks([chunk_of("a")] * 3), "a")
    one = run_stages([Stage("reverse", reverse), Stage("first", first)], context, ranked([3, 2, 1]), StageTrace())
    two = run_stages([Stage("first", first), Stage("reverse", reverse)], context, ranked([3, 2, 1]), StageTrace())
    off = run_stages([Stage("first", first, on=False), Stage("last", reverse)], context, ranked([3, 2]), StageTrace())
    assert (one["first"].rows.tolist(), two["reverse"].rows.tolist()) == ([2], [0])
    assert (list(off), off["last"].rows.tolist()) == (["last"], [1, 0])


def test_a_stage_that_fails_leaves_the_ranking_and_a_flag_and_without_a_flag_raises() -> None:
    def fail(_: SearchContext, ranking: Ranking) -> Ranking:
        raise OSError(f"no server for {len(ranking)} rows")

    context, trace, before = searching(ListedChunks([]), "a"), StageTrace(), ranked([1, 2])
    assert run_stages([Stage("broken", fail, "broken_down")], context, before, trace)["broken"] is before
    assert trace.flags == ["broken_down"]
    with pytest.raises(OSError, match="2 rows"):
        run_stages([Stage("broken", in_turn(lambda _, ranking: ranking, fail))], context, before, StageTrace())
