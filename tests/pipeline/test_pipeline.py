from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.clarified import clarified
from support.passages import chunks_of_section
from support.wiki import PASSAGES, RESTART, Passage, configuration, embedder, publish

from rag_serving.access.principals import Principal
from rag_serving.answering.answerer import NO_VECTORS
from rag_serving.answering.gates import NOT_FOUND
from rag_serving.answering.markdown import markdown
from rag_serving.artifacts.store import Store
from rag_serving.ask import EXACT_SEARCH, Pipeline
from rag_serving.indexes.current import UnpublishedError
from rag_serving.models.protocols import ModelError, Progress
from rag_serving.pipeline.tenant import STALE
from rag_serving.receipts.proofs import NO_RECEIPT
from rag_serving.records.flags import CONFLICTING
from rag_serving.records.queries import Filters
from rag_serving.retrieval.hybrid import DENSE_UNAVAILABLE, RetrievalError
from rag_serving.retrieval.search import search_candidates
from rag_serving.retrieval.stages import SearchOptions

EVERYONE, HR = Principal("acme"), Principal("acme", "ann", frozenset({"hr"}))
QUESTION = "May I restart a broker while partitions are under-replicated?"


class DownEmbedder:
    """The real model's name, but it does not answer."""

    dimension = 384

    @property
    def name(self) -> str:
        return embedder().name

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        raise ModelError(f"no vectors for {texts}, {progress}")

    def embed_query(self, text: str) -> NDArray[np.float32]:
        raise ModelError(f"no vector for {text}")

    def check(self) -> str:
        raise ModelError("down")


class OnlyQueries(DownEmbedder):
    """It goes down between the question's vector and the sentences'."""

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return embedder().embed_query(text)


class Heard(OnlyQueries):
    """It remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self.asked.append(text)
        return super().embed_query(text)


class OtherModel(OnlyQueries):
    @property
    def name(self) -> str:
        return "local/another-model"


def test_an_answer_has_verified_citations_and_a_receipt(pipeline: Pipeline) -> None:
    answer = pipeline.ask(EVERYONE, QUESTION, explain=True)
    assert (answer.status, answer.flags) == ("answered", ())
    first = answer.citations[0]
    assert first.url == "https://wiki.example/pages/11#Restarting-a-broker"
    assert first.quote == RESTART[first.start : first.end]
    assert "You must not restart a broker while partitions are under-replicated." in answer.answer
    assert first.quote in "You must not restart a broker while partitions are under-replicated."
    assert answer.answer.removesuffix(" [1]") in RESTART
    assert answer.receipt_id
    assert answer.passages
    assert answer.passages[0]["why"].startswith("exact: verbatim")
    assert {"dense", "bm25", "fused", "page"} <= set(answer.passages[0]["scores"])
    assert {"embed", "dense", "lexical", "generate", "verify", "total"} <= set(answer.timings_ms)


def test_what_no_page_says_is_not_found(pipeline: Pipeline) -> None:
    answer = pipeline.ask(EVERYONE, "Who won the football match on Sunday?")
    assert (answer.status, answer.answer, answer.citations) == ("not_found", NOT_FOUND, ())
    assert answer.receipt_id


@pytest.mark.parametrize(("principal", "pages"), [(EVERYONE, False), (HR, True)])
def test_only_who_may_read_a_page_finds_it(pipeline: Pipeline, principal: Principal, pages: bool) -> None:
    found = pipeline.search(principal, "salary bonus of the broker team")
    assert any(candidate.chunk.page_id == "14" for candidate in found.results) is pages
    answer = pipeline.ask(principal, "What salary bonus does the broker team earn in December?")
    assert (answer.status == "answered") is pages


def test_search_results_carry_the_scores_of_every_stage(pipeline: Pipeline) -> None:
    found = pipeline.search(EVERYONE, "consumer lag", k=1)
    (best,) = found.payload()["results"]
    assert best["page_id"] == "13"
    ranked = sum(best["scores"][stage] for stage in ("fused", "page", "document", "parent"))
    assert best["score"] == pytest.approx(ranked)
    assert found.generation == Store(pipeline.config.home).current("acme")


@pytest.mark.parametrize(
    ("filters", "pages"),
    [
        (Filters(space=("SRE",)), {"13", "15"}),
        (Filters(labels=("config",)), {"12"}),
        (Filters(title=("kafka", "OPERATIONS")), {"11", "12"}),
        (Filters(space=("HR",)), set()),
        (Filters(space=("NOWHERE",)), set()),
    ],
)
def test_filters_narrow_both_indexes(pipeline: Pipeline, filters: Filters, pages: set[str]) -> None:
    found = pipeline.search(EVERYONE, "how long does a broker keep consumer logs and lag settings", filters=filters)
    assert {candidate.chunk.page_id for candidate in found.results} <= pages
    assert bool(found.results) is bool(pages)


@pytest.mark.parametrize("model", [DownEmbedder(), OtherModel()])
def test_without_the_right_model_the_lexical_index_answers_and_says_so(wiki_home: Path, model: DownEmbedder) -> None:
    pipeline = Pipeline.open(configuration(wiki_home), "acme", model)
    answer = pipeline.ask(EVERYONE, QUESTION)
    assert answer.status == "answered"
    assert answer.flags[0] == DENSE_UNAVAILABLE
    found = pipeline.search(EVERYONE, "consumer lag")
    assert found.degraded == (DENSE_UNAVAILABLE,)
    assert found.results[0].chunk.page_id == "13"


def test_a_model_that_goes_down_under_a_question_is_done_without(wiki_home: Path) -> None:
    answer = Pipeline.open(configuration(wiki_home), "acme", OnlyQueries()).ask(EVERYONE, QUESTION)
    assert answer.status == "answered"
    assert answer.flags[0] == NO_VECTORS


def test_one_mode_that_cannot_answer_is_an_error(pipeline: Pipeline) -> None:
    settings = pipeline.config.retrieval
    with pipeline.published.acquire() as generation:
        view = generation.for_reader(EVERYONE)
        with pytest.raises(RetrievalError, match="the dense index cannot answer"):
            search_candidates(view, DownEmbedder(), "x", SearchOptions(settings, "dense"))
        assert len(search_candidates(view, DownEmbedder(), "lag", SearchOptions(settings, "lexical")).candidates)


def test_modes_give_only_their_own_scores(pipeline: Pipeline) -> None:
    settings = pipeline.config.retrieval
    with pipeline.published.acquire() as generation:
        view = generation.for_reader(EVERYONE)
        dense = search_candidates(view, embedder(), "consumer lag", SearchOptions(settings, "dense")).ranking
        lexical = search_candidates(view, embedder(), "consumer lag", SearchOptions(settings, "lexical", k=1)).ranking
    assert dense.columns.keys() == {"dense", "dense_rank", "score"}
    assert lexical.columns.keys() == {"bm25", "lexical_rank", "score"}
    assert (len(lexical), (dense.score >= settings.cosine_floor).all()) == (1, True)


def test_nothing_published_is_unavailable_and_says_how_to_mend_it(tmp_path: Path) -> None:
    pipeline = Pipeline.open(configuration(tmp_path), "acme", embedder())
    answer = pipeline.ask(EVERYONE, QUESTION)
    assert (answer.status, answer.answer) == (
        "unavailable",
        "nothing is published for tenant 'acme' yet; run `citelock build`",
    )
    with pytest.raises(UnpublishedError):
        pipeline.search(EVERYONE, QUESTION)
    assert pipeline.problem() == answer.answer


def test_a_receipt_that_cannot_be_stored_is_only_a_flag(tmp_path: Path) -> None:
    publish(tmp_path)
    (tmp_path / "serving.db").mkdir()
    answer = Pipeline.open(configuration(tmp_path), "acme", embedder()).ask(EVERYONE, QUESTION)
    assert (answer.status, answer.receipt_id, answer.flags) == ("answered", None, (NO_RECEIPT,))


def test_a_lost_dense_shard_that_is_asked_is_searched_exactly_and_flagged(tmp_path: Path) -> None:
    import shutil

    publish(tmp_path)
    shutil.rmtree(Store(tmp_path).chroma("acme"))
    answer = Pipeline.open(configuration(tmp_path), "acme", embedder()).ask(EVERYONE, QUESTION)
    assert (answer.status, answer.flags) == ("answered", ())
    config = configuration(tmp_path)
    config = config.model_copy(update={"indexing": config.indexing.model_copy(update={"dense_search": "chroma"})})
    answer = Pipeline.open(config, "acme", embedder()).ask(EVERYONE, QUESTION)
    assert (answer.status, answer.flags) == ("answered", (EXACT_SEARCH,))


def test_a_question_that_comes_back_is_not_embedded_again_but_another_asker_s_is(tmp_path: Path) -> None:
    publish(tmp_path)
    model = Heard()
    pipeline, asked = Pipeline.open(configuration(tmp_path), "acme", model), model.asked
    first = pipeline.ask(HR, QUESTION)
    again, found = pipeline.ask(HR, f" {QUESTION} "), pipeline.search(HR, QUESTION)
    assert asked == [QUESTION]
    assert again.answer == first.answer
    assert found.results
    pipeline.ask(Principal("acme", "another"), QUESTION)
    assert asked == [QUESTION] * 2


def test_a_broken_newer_generation_leaves_the_old_one_serving(tmp_path: Path) -> None:
    first = publish(tmp_path)
    pipeline = Pipeline.open(configuration(tmp_path), "acme", embedder())
    assert pipeline.ask(EVERYONE, QUESTION).generation == first
    second = publish(tmp_path, (*PASSAGES, Passage("17", "New", "A page about a new dashboard for the brokers.")))
    (Store(tmp_path).generation("acme", second) / "chunks.parquet").write_bytes(b"broken")
    pipeline.published.refresh()
    answer = pipeline.ask(EVERYONE, QUESTION)
    assert (answer.status, answer.generation, answer.flags) == ("answered", first, (STALE,))
    assert second in str(pipeline.published.problem)
    assert pipeline.problem() is None


def test_a_question_keeps_its_generation_while_a_newer_one_takes_over(tmp_path: Path) -> None:
    first = publish(tmp_path)
    pipeline = Pipeline.open(configuration(tmp_path), "acme", embedder())
    with pipeline.published.acquire() as held:
        second = publish(tmp_path, PASSAGES[:3])
        pipeline.published.refresh()
        with pipeline.published.acquire() as newer:
            assert (held.id, newer.id) == (first, second)
        vector = embedder().embed_query("coffee")
        assert held.chunk(held.dense(vector, 1, frozenset({"everyone"}))[0].row).page_id == "16"


def test_selected_text_is_answered_from_that_text_alone(tmp_path: Path) -> None:
    pipeline = Pipeline.open(configuration(tmp_path), "acme", embedder())
    text = "The lifts stop at nine. After that call the guard on extension 0 to leave the building."
    answer = pipeline.ask_selection("Whom do I call to leave the building?", text)
    (citation,) = answer.citations
    assert text[citation.start : citation.end] == citation.quote
    assert (answer.status, citation.url, answer.receipt_id) == ("answered", "#selection", None)
    assert pipeline.ask_selection("Who won the football match?", text).outcome != "told"


def test_pages_that_give_different_figures_are_both_told_and_flagged(tmp_path: Path) -> None:
    other = Passage("21", "Logs", "By default a broker keeps its logs for 14 days.", title="Old handbook")
    publish(tmp_path, [*PASSAGES, other])
    pipeline = Pipeline.open(configuration(tmp_path), "acme", embedder())
    answer = pipeline.ask(EVERYONE, "How long does a broker keep logs?")
    proof = pipeline.proof(answer.receipt_id or "")
    pipeline.close()
    assert (answer.status, answer.flags) == ("answered", (CONFLICTING,))
    assert {"12:1:0", "21:1:0"} == {citation.chunk_id for citation in answer.citations}
    assert "168 hours" in answer.answer
    assert "14 days" in answer.answer
    assert "The pages do not agree" in clarified(answer)
    assert "The pages do not agree" in markdown(answer)
    assert not proof.faults


@pytest.mark.parametrize(("principal", "complete"), [(EVERYONE, False), (HR, True)])
def test_steps_run_on_into_the_next_passage_where_that_may_be_read(
    tmp_path: Path, principal: Principal, complete: bool
) -> None:
    first = "1. Call the desk and name the crane.\n2. Lower the hook to the ground."
    rest = "3. Switch the power off.\n4. Lock the door of the cabin."
    one, two = chunks_of_section([first, rest])
    publish(
        tmp_path,
        [
            *PASSAGES,
            Passage("31", "Park a crane", first, title="Cranes", structure=one.structure),
            Passage("31", "Park a crane", rest, "Cranes", chunk_idx=1, readers="group:hr", structure=two.structure),
        ],
    )
    pipeline = Pipeline.open(configuration(tmp_path), "acme", embedder())
    answer = pipeline.ask(principal, "How do I park a crane?", explain=True)
    pipeline.close()
    assert answer.answer.startswith("1. Call the desk")
    assert ("4. Lock the door of the cabin." in answer.answer) == complete
    assert ("cabin" in str(answer.payload())) == complete
