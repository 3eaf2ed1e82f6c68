"""The chunks of a search: read when they are looked at, together, and only once."""

from __future__ import annotations

from typing import cast

import numpy as np
from support.listed_chunks import ListedChunks, ranked
from support.passages import chunk_of

from rag_serving.indexes.view import ReaderView
from rag_serving.retrieval.ranking import Passages

CHUNKS = [chunk_of(f"text {row}", f"{row}:1:0") for row in range(30)]


def opened() -> tuple[ListedChunks, Passages]:
    view = ListedChunks(CHUNKS)
    return view, Passages(cast(ReaderView, view))


def test_rows_are_read_in_one_call_and_kept() -> None:
    view, passages = opened()
    assert [chunk.text for chunk in passages.read(np.array([4, 2]))] == ["text 4", "text 2"]
    assert [chunk.text for chunk in passages.read(np.array([2, 9, 4]))] == ["text 2", "text 9", "text 4"]
    assert view.read == [[4, 2], [9]]


def test_who_stops_early_leaves_the_rest_unread() -> None:
    view, passages = opened()
    coming = passages.candidates(ranked([-float(row) for row in range(25)]))
    first = [next(coming) for _ in range(3)]
    assert [(one.chunk.chunk_id, one.score) for one in first] == [("0:1:0", 0.0), ("1:1:0", -1.0), ("2:1:0", -2.0)]
    assert view.read == [[*range(10)]]
    assert len(list(coming)) == 22
    assert sorted(row for rows in view.read for row in rows) == [*range(25)]
