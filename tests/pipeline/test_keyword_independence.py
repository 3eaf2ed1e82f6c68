"""The keyword phases answer while vectors, the lexical index and every model are out of reach."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from support.keyword_corpus import Absent
from support.wiki import configuration, publish

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.models.protocols import Embedder
from rag_serving.retrieval.hybrid import Mode

WHO = Principal("acme")


@pytest.mark.parametrize("mode", ["keyword_documents", "keyword_chunks"])
def test_a_question_is_answered_by_keywords_alone(tmp_path: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path)
    pipeline = Pipeline.open(configuration(tmp_path), "acme", cast(Embedder, Absent()))
    pipeline.mode = mode
    try:
        with pipeline.published.acquire() as generation, monkeypatch.context() as patch:
            for part in ("_lexical", "_dense", "vector_table", "_sentences"):
                patch.setattr(generation, part, Absent())
            answer = pipeline.ask(WHO, "explain monitoring", explain=True)
            found = pipeline.search(WHO, "explain monitoring", explain=True)
        assert answer.status == "answered"
        assert answer.citations
        assert {each.source for each in answer.evidence} == {"keyword"}
        assert all(each.snippet and each.matched_terms and each.match_explain for each in answer.evidence)
        assert not pipeline.proof(answer.receipt_id or "").faults
        assert found.results
        assert all(one.score >= other.score for one, other in zip(found.results, found.results[1:], strict=False))
    finally:
        pipeline.close()
