"""Hygiene and the keyword gate: which candidates must not become passages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.listed_chunks import ListedChunks, candidates, ranked, searching
from support.passages import chunk_of

from rag_serving.records import Chunk
from rag_serving.retrieval.hygiene import Hygiene, KeywordGate

BOTH = chunk_of("Restarting needs a stopped broker.", "1:1:0", heading_path=())
ONE = chunk_of("Stop it at night.", "2:1:0", heading_path=())
TABLE = chunk_of("| a | b |", "3:1:0", content_type="table")
HEADED = chunk_of("Do it now.", "4:1:0", heading_path=("Broker", "Stopping"))


def gated(
    query: str, chunks: list[Chunk], enough: int = 8, min_overlap: int = 2, near: Sequence[float] | None = None
) -> tuple[list[str], ListedChunks]:
    view = ListedChunks(chunks)
    context = searching(view, query)
    found = ranked([0.0] * len(chunks))
    found = found if near is None else found.with_scores("dense", np.array(near))
    ranking = KeywordGate(min_overlap, enough)(context, found)
    return [candidate.chunk.page_id for candidate in candidates(context, ranking)], view


@pytest.mark.parametrize(("labels", "kept"), [(frozenset(), [0, 2]), (frozenset({"archive"}), [0])])
def test_boilerplate_and_excluded_labels_are_not_content(labels: frozenset[str], kept: list[int]) -> None:
    chunks = [chunk_of("text"), chunk_of("text", is_boilerplate=True), chunk_of("text", labels=("x", "archive"))]
    view = ListedChunks(chunks)
    assert Hygiene(labels)(searching(view, "text"), ranked([3.0, 2.0, 1.0])).rows.tolist() == kept
    assert view.read == []


def test_the_keyword_gate_asks_for_two_stemmed_terms_unless_code_or_table() -> None:
    assert gated("how to stop the broker", [BOTH, ONE, TABLE, HEADED])[0] == ["1", "3", "4"]


def test_a_query_of_one_term_needs_one() -> None:
    assert gated("stopping?", [ONE])[0] == ["2"]


def test_a_passage_near_by_meaning_needs_no_shared_word() -> None:
    assert gated("coffee machine", [BOTH, ONE, HEADED], near=[0.44, 0.45, np.nan])[0] == ["2"]
    assert gated("stop the broker", [BOTH, ONE, HEADED], near=[-0.2, 0.1, np.nan])[0] == ["1", "4"]


def test_the_gate_may_be_open() -> None:
    assert gated("coffee", [BOTH, ONE], min_overlap=0)[0] == ["1", "2"]


def test_no_more_passages_are_read_than_are_needed() -> None:
    chunks = [chunk_of("Stop the broker." if number % 2 else "Coffee.", f"{number}:1:0") for number in range(40)]
    found, view = gated("stop the broker", chunks, enough=5)
    assert found == ["1", "3", "5", "7", "9"]
    assert view.read == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
