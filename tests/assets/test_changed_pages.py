"""What changed on a page is answered from the generation before: old words beside new ones, and a receipt for both."""

from __future__ import annotations

import copy
from contextlib import closing

import pytest
from support.building import build
from support.envelopes import SECTION, Wiki, envelope

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.receipts.proofs import set_faults

EVERYONE = Principal("demo", "somebody")
EDITED = SECTION.format(
    heading="Rolling out", text="Run the release pipeline and watch the canary for twenty minutes."
) + SECTION.format(heading="Rolling back", text="To roll back a release, run the rollback pipeline.")
QUESTION = "What changed on the page Deploy guide?"


def test_what_changed_is_quoted_from_both_generations(built_wiki: Wiki) -> None:
    wiki = built_wiki
    with closing(Pipeline.open(load_config(wiki.config_path), "demo")) as first:
        assert first.ask(EVERYONE, QUESTION).generator != "set", "there is nothing to compare with"
    wiki.write("eng", envelope("101", "Deploy guide", EDITED, version=2))
    build(wiki)
    with closing(Pipeline.open(load_config(wiki.config_path), "demo")) as pipeline:
        answer = pipeline.ask(EVERYONE, QUESTION)
        assert "before: “Run the release pipeline and watch the canary for ten minutes.”" in answer.answer
        assert "now: “Run the release pipeline and watch the canary for twenty minutes.” [1]" in answer.answer
        assert [citation.verification for citation in answer.citations] == ["exact"]
        assert pipeline.proofs.prove(str(answer.receipt_id)).faults == ()
        receipt = pipeline.receipt(EVERYONE, str(answer.receipt_id))
        with pipeline.published.acquire() as generation:
            for name, value in (("digest", "0"), ("older", "0" * 16), ("older", generation.id)):
                changed = copy.deepcopy(receipt)
                changed["set"][name] = value
                assert set_faults(changed, generation, pipeline.proofs._stored), name


@pytest.mark.parametrize("since", ["1999", "1999-05", "1999-05-03"])
def test_of_a_time_that_no_generation_is_kept_from_nothing_is_said(built_wiki: Wiki, since: str) -> None:
    with closing(Pipeline.open(load_config(built_wiki.config_path), "demo")) as pipeline:
        answer = pipeline.ask(EVERYONE, f"What changed on the page Deploy guide since {since}?")
        assert answer.generator != "set"
