"""`generation.require_quotes` and `quote_max_words` hold for whoever wrote the answer, up to the receipt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.stand_in_chat import MODEL, StandInChat, served
from support.wiki import LAG, RESTART, RETENTION, SETTINGS, configuration, embedder

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline

EVERYONE = Principal("acme")
QUESTION = "May I restart a broker while partitions are under-replicated?"
SENTENCE = "You must not restart a broker while partitions are under-replicated."
LONG = " ".join(RESTART.split()[:26])


@contextmanager
def written(home: Path, reply: str, **generation: Any) -> Iterator[Pipeline]:
    """A pipeline whose model writes this reply, whatever it is asked; the restart is passage 1."""
    with served(StandInChat(lambda _: [reply])) as server:
        settings = {
            "provider": "openai",
            "style": "prose",
            "model": MODEL,
            "base_url": f"{server.url}/v1",
            **generation,
        }
        with closing(Pipeline.open(configuration(home, generation=settings), "acme", embedder())) as pipeline:
            yield pipeline


def test_a_true_sentence_without_a_quote_is_not_accepted(wiki_home: Path) -> None:
    with written(wiki_home, f"{SENTENCE} [1]") as pipeline:
        answer = pipeline.ask(EVERYONE, QUESTION)
        assert (answer.outcome, answer.generator) == ("closest", "extractive")
        (verdict,) = pipeline.receipts.get(answer.receipt_id or "", "acme")["withdrawn"]
        assert (verdict["outcome"], verdict["reason"]) == ("dropped", "no quote")


def test_where_no_quotes_are_asked_for_the_sentence_itself_must_stand(wiki_home: Path) -> None:
    reply = f"{SENTENCE} [1] You must not restart a broker while it rains. [1]"
    with written(wiki_home, reply, require_quotes=False) as pipeline:
        answer = pipeline.ask(EVERYONE, QUESTION)
    assert (answer.status, answer.answer) == ("answered", f"{SENTENCE} [1]")


def test_of_a_long_quote_of_a_model_no_more_words_are_cited_than_allowed(wiki_home: Path) -> None:
    with written(wiki_home, f'{SENTENCE} "{LONG}" [1]') as pipeline:
        answer = pipeline.ask(EVERYONE, QUESTION)
        (citation,) = answer.citations
        assert citation.quote in RESTART
        assert "must not restart" in citation.quote
        assert len(citation.quote.split()) == 12
        assert pipeline.proof(answer.receipt_id or "").faults == ()


@pytest.mark.parametrize("most", [3, 8, 12, 50])
def test_what_extraction_quotes_has_no_more_words_than_allowed(wiki_home: Path, most: int) -> None:
    config = configuration(wiki_home, generation={"quote_max_words": most})
    questions = [QUESTION, "How long does a broker keep logs?", "When does a lag alert fire?", "max.poll.records"]
    counts = []
    with closing(Pipeline.open(config, "acme", embedder())) as pipeline:
        for question in questions:
            answer = pipeline.ask(EVERYONE, question)
            assert answer.citations
            assert pipeline.proof(answer.receipt_id or "").faults == ()
            counts += [len(citation.quote.split()) for citation in answer.citations]
            assert all(citation.quote in RESTART + RETENTION + LAG + SETTINGS for citation in answer.citations)
    assert max(counts) <= min(most, 15)
    assert most < 12 or max(counts) >= 10
