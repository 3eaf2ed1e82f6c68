"""Evidence from headings and nearest sentences: what it lifts, and what it leaves as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.listed_chunks import ListedChunks, ranked, searching

from rag_assets.publishing.passage_vectors import encoded
from rag_serving.indexes.sentence_vectors import MAX_ERROR, SentenceVectors
from rag_serving.retrieval.hybrid import HEADING, SENTENCE, SentenceEvidence
from rag_serving.retrieval.ranking import SCORE, Ranking
from rag_serving.retrieval.stage import SearchContext

ASKED = np.array([1, 0, 0, 0], np.float32)
NEAR, HALF, FAR = (1.0, 0.0), (0.6, 0.8), (0.0, 1.0)


class StoredSentences(ListedChunks):
    """Rows whose texts have these vectors, headings first."""

    def __init__(self, rows: Sequence[Sequence[tuple[float, float]]]) -> None:
        super().__init__([])
        flat = [[*text, 0.0, 0.0] for row in rows for text in row]
        vectors = np.array(flat, np.float32).reshape(-1, 4)
        records = encoded(np.arange(len(vectors), dtype=np.uint64), vectors)
        self._vectors = SentenceVectors(records, np.cumsum([0, *map(len, rows)]), np.arange(len(vectors)))

    def sentence_evidence(self, vector: NDArray[np.float32], rows: Sequence[int]) -> NDArray[np.float64]:
        return self._vectors.best(vector, rows)


def searched(rows: Sequence[Sequence[tuple[float, float]]], has_vector: bool = True) -> SearchContext:
    context = searching(StoredSentences(rows), "berths")
    return replace(context, vector=ASKED if has_vector else None)


def is_same(one: Ranking, two: Ranking) -> bool:
    return one.rows.tolist() == two.rows.tolist() and one.score.tolist() == two.score.tolist()


@pytest.mark.parametrize(
    ("context", "scores"),
    [
        (searched([[NEAR, NEAR], [FAR]], has_vector=False), [2.0, 1.0]),
        (searched([[], []]), [2.0, 1.0]),
        (searched([]), []),
    ],
)
def test_without_vectors_everything_stays_as_it_is(context: SearchContext, scores: list[float]) -> None:
    before = ranked(scores)
    after = SentenceEvidence()(context, before)
    assert is_same(before, after)
    assert after.columns.keys() == {SCORE}


def test_a_near_sentence_and_a_near_heading_lift_a_row_and_the_sentence_more() -> None:
    context = searched([[FAR, FAR], [NEAR, FAR], [FAR, FAR, NEAR]])
    after = SentenceEvidence()(context, ranked([1.0, 1.0, 1.0]))
    assert after.rows.tolist() == [2, 1, 0]
    assert after.column(HEADING) == pytest.approx(np.array([0.0, 1.0, 0.0]), abs=MAX_ERROR)
    assert after.column(SENTENCE) == pytest.approx(np.array([1.0, 0.0, 0.0]), abs=MAX_ERROR)


def test_a_row_without_vectors_is_taken_for_the_farthest_and_says_nothing() -> None:
    after = SentenceEvidence()(searched([[], [HALF, HALF], [NEAR, NEAR], [FAR, FAR]]), ranked([1.0] * 4))
    assert after.rows.tolist() == [2, 1, 0, 3]
    assert np.isnan(after.column(SENTENCE)).tolist() == [False, False, True, False]


def test_rows_behind_the_pool_are_neither_asked_for_nor_overtaken_by_less_than_they_score() -> None:
    before = ranked([5.0, 4.0, 3.0, 2.0])
    after = SentenceEvidence(pool=2)(searched([[FAR, FAR], [NEAR, NEAR], [NEAR, NEAR], [NEAR, NEAR]]), before)
    assert after.rows.tolist()[2:] == [2, 3]
    assert after.score.tolist()[2:] == [3.0, 2.0]
    assert np.isnan(after.column(HEADING)).tolist() == [False, False, True, True]


@given(
    st.lists(st.tuples(st.floats(-3, 3, width=32), st.sampled_from([None, NEAR, HALF, FAR])), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_rows_are_neither_lost_nor_doubled_and_stay_in_order_of_score(
    rows: list[tuple[float, tuple[float, float] | None]], pool: int
) -> None:
    before = ranked(sorted((score for score, _ in rows), reverse=True))
    after = SentenceEvidence(pool)(searched([[said, said] if said else [] for _, said in rows]), before)
    assert sorted(after.rows.tolist()) == before.rows.tolist()
    assert after.score.tolist() == sorted(after.score.tolist(), reverse=True)
    assert after.rows.tolist()[pool:] == before.rows.tolist()[pool:]
