"""Ranked candidates: read when they are looked at, and only once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.passages import chunk_of

from rag_serving.records import Chunk
from rag_serving.retrieval.ranking import Ranked


class Table:
    """Chunks by row, with a note of the rows that were read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __call__(self, rows: Sequence[int]) -> list[Chunk]:
        self.read += rows
        return [chunk_of(f"text {row}", f"{row}:1:0") for row in rows]


@pytest.fixture
def table() -> Table:
    return Table()


def ranked(table: Table, count: int = 25) -> Ranked:
    rows = [100 - place for place in range(count)]
    return Ranked(rows, [float(row) for row in rows], {"bm25": [row / 2 for row in rows]}, table)


def test_counting_reads_nothing(table: Table) -> None:
    assert len(ranked(table)) == 25
    assert ranked(table)
    assert not ranked(table, 0)
    assert table.read == []


def test_the_first_are_read_without_the_rest(table: Table) -> None:
    first = ranked(table)[:3]

    assert [candidate.chunk.chunk_id for candidate in first] == ["100:1:0", "99:1:0", "98:1:0"]
    assert [candidate.score for candidate in first] == [100.0, 99.0, 98.0]
    assert first[1].scores == {"bm25": 49.5}
    assert len(table.read) < 25


def test_every_candidate_is_read_once_and_stays_the_same(table: Table) -> None:
    candidates = ranked(table)
    found = [*candidates]

    assert [candidate.score for candidate in found] == [float(100 - place) for place in range(25)]
    assert all(again is one for again, one in zip(candidates, found, strict=True))
    assert sorted(table.read) == sorted(set(table.read))
    assert candidates[-1] is found[-1]


def test_a_place_beyond_the_last_is_an_error(table: Table) -> None:
    with pytest.raises(IndexError):
        ranked(table)[25]
