"""Passages of a book for one question: those near each other, in the order in which one reads."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.passages import candidate_of

from rag_serving.records.passages import Candidate
from rag_serving.retrieval.ranking import in_document_order, nearest_sections, nearness


def in_book(order: int, index: int, score: float = 1.0, source: str = "book") -> Candidate:
    """A passage of a page in chapter `order` div 10."""
    return candidate_of(
        f"Passage {index} of page {order}.",
        f"{order}:1:{index}",
        score,
        source=source,
        page_order=order,
        passage_id=f"ch{order // 10}-sec{order % 10}-p{index}",
        chapter=f"Chapter {order // 10}",
    )


def loose(name: int, score: float = 1.0) -> Candidate:
    return candidate_of("A passage of no book.", f"{name}:1:0", score, source="wiki")


def test_nearness_is_one_in_a_section_half_in_a_chapter_and_nothing_elsewhere() -> None:
    here = in_book(11, 0).chunk
    assert nearness(here, in_book(11, 7).chunk) == 1.0
    assert nearness(here, in_book(12, 0).chunk) == 0.5
    assert nearness(here, in_book(21, 0).chunk) == 0.0
    assert nearness(here, replace(in_book(11, 7).chunk, section="1.2 Ropes")) == 0.5
    assert nearness(here, in_book(11, 7, source="another").chunk) == 0.0
    assert nearness(loose(1).chunk, loose(2).chunk) == 0.0


def test_a_passage_whose_section_was_found_thrice_stands_over_a_lonely_one_that_is_a_little_better() -> None:
    lonely, near = in_book(31, 0, 0.62), [in_book(11, index, 0.6) for index in range(3)]
    weak = in_book(42, 0, 0.1)
    assert lonely not in nearest_sections([lonely, *near, weak], 3)
    far_better = in_book(31, 0, 0.95)
    assert nearest_sections([far_better, *near, weak], 1) == [far_better]


def test_equal_passages_keep_their_order() -> None:
    found = [loose(name) for name in (3, 1, 2)]
    assert nearest_sections(found, 2) == found[:2]
    assert nearest_sections([], 5) == []


places = st.lists(st.tuples(st.integers(1, 39), st.integers(0, 200)), unique=True, max_size=12)


@given(places, st.randoms())
def test_passages_of_a_book_stand_as_one_reads_them_whatever_their_ranks(
    where: list[tuple[int, int]], chance: random.Random
) -> None:
    shuffled = list(where)
    chance.shuffle(shuffled)
    ordered = in_document_order([in_book(*place) for place in shuffled])
    assert [(one.chunk.page_order, one.chunk.chunk_idx) for one in ordered] == sorted(where)


def test_books_follow_each_other_by_their_best_passage_and_other_pages_come_last_as_they_were() -> None:
    first, second = in_book(21, 3, source="novel"), in_book(11, 2, source="manual")
    found = [loose(9), first, loose(4), second, in_book(11, 0, source="novel")]
    assert in_document_order(found) == [found[4], first, second, loose(9), loose(4)]
