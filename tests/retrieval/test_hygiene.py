"""Hygiene and the keyword gate: which candidates must not become passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from support.listed_chunks import ListedChunks, candidates, ranked, searching
from support.passages import chunk_of

from rag_serving.records.passages import Chunk
from rag_serving.retrieval.hygiene import Hygiene, KeywordGate

BOTH = chunk_of("Restarting needs a stopped broker.", "1:1:0", heading_path=())
ONE = chunk_of("Stop it at night.", "2:1:0", heading_path=())
TABLE = chunk_of("| a | b |", "3:1:0", content_type="table")
HEADED = chunk_of("Do it now.", "4:1:0", heading_path=("Broker", "Stopping"))


FRONT = [chunk_of("Coffee.", f"9{place}:1:0", heading_path=()) for place in range(3)]
"""What is read whatever its words are."""


def gated(
    query: str,
    chunks: list[Chunk],
    enough: int = 8,
    min_overlap: int = 2,
    near: Sequence[float] = (),
    weights: Mapping[str, float] | None = None,
) -> tuple[list[str], ListedChunks]:
    """The pages of the chunks that pass behind those in front."""
    every = [*FRONT, *chunks]
    view = ListedChunks(every, weights)
    context = searching(view, query)
    found = ranked([0.0] * len(every))
    found = found.with_scores("dense", np.array([0.0] * len(FRONT) + list(near))) if near else found
    ranking = KeywordGate(min_overlap, enough)(context, found)
    first, *others = [candidate.chunk.page_id for candidate in candidates(context, ranking)]
    assert [first, *others[:2]] == ["90", "91", "92"]
    return others[2:], view


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
    assert found == ["1", "3"]
    assert view.read == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_one_rare_word_is_enough_and_a_frequent_one_is_not() -> None:
    weights = {"broker": 1.0, "night": 4.0, "coffe": 4.0}
    assert gated("broker night coffee", [BOTH, ONE], weights=weights)[0] == ["2"]
    assert gated("broker night coffee", [BOTH, ONE], weights={**weights, "night": 0.5})[0] == []
