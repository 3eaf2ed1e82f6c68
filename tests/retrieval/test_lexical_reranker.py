"""The heuristic reranker: what words of a passage say, and that they correct an order without replacing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.listed_chunks import ListedChunks, candidates, ranked, searching

from rag_serving.records.passages import Candidate, Chunk
from rag_serving.retrieval.rerank import LexicalReranker, word_signals

WEIGHTS = {"roll": 2.0, "releas": 1.0, "cluster": 3.0}  # "roll releases cluster"
DEFAULT = LexicalReranker()
COVERAGE, HEADINGS, PROXIMITY, ORDER, RUN = range(5)


def candidate(text: str, score: float = 1.0, headings: tuple[str, ...] = ("Guide",), at: int = 0) -> Candidate:
    chunk = Chunk(f"1:1:{at}", "1", 1, at, "OPS", "Guide", headings, "a", "u#a", text, 0, len(text), "paragraph")
    return Candidate(chunk, score, {"fused": score})


def signals(text: str, headings: tuple[str, ...] = ()) -> tuple[float, ...]:
    return word_signals(candidate(text, headings=headings).chunk, WEIGHTS)


def reranked(
    found: Sequence[Candidate], weights: Mapping[str, float] = WEIGHTS, stage: LexicalReranker = DEFAULT
) -> list[Candidate]:
    context = searching(ListedChunks([one.chunk for one in found], weights), "roll releases cluster")
    return candidates(context, stage(context, ranked([one.score for one in found])))


def test_words_are_weighed_by_how_rare_they_are() -> None:
    assert signals("A cluster.")[COVERAGE] == pytest.approx(3 / 6)
    assert signals("Some releases.")[COVERAGE] == pytest.approx(1 / 6)
    assert signals("Roll the release of a cluster.")[COVERAGE] == 1


def test_headings_count_by_themselves() -> None:
    assert signals("Press Undo.", ("Guide", "Roll a cluster"))[HEADINGS] == pytest.approx(5 / 6)


def test_words_side_by_side_are_worth_more_than_words_apart() -> None:
    beside, apart = signals("Roll releases."), signals("Roll carefully every single release.")
    assert beside[PROXIMITY] > apart[PROXIMITY] > 0
    assert beside[COVERAGE] == apart[COVERAGE]


def test_the_querys_order_is_worth_more_than_the_reverse() -> None:
    forward, backward = signals("Roll releases."), signals("Releases roll.")
    assert forward[PROXIMITY] == backward[PROXIMITY]
    assert forward[ORDER] > backward[ORDER]


def test_a_phrase_is_a_run_of_the_querys_words() -> None:
    assert signals("Roll releases cluster by cluster.")[RUN] == 1
    assert 0 < signals("Roll releases. No cluster.")[RUN] < 1
    assert signals("A cluster.")[RUN] == 0


def test_without_proximity_only_what_is_there_counts() -> None:
    found = [
        candidate("Roll carefully every single release.", 1.0, at=0),
        candidate("Roll releases.", 1.0, at=1),
        candidate("Nothing of it.", 0.0, at=2),
    ]
    with_it = [each.chunk.chunk_idx for each in reranked(found)]
    without = [each.chunk.chunk_idx for each in reranked(found, stage=LexicalReranker(proximity=False))]
    assert with_it == [1, 0, 2]
    assert without == [0, 1, 2]


@given(st.lists(st.sampled_from(["roll", "release", "cluster", "undo", "press"]), max_size=30))
def test_every_signal_is_a_share(words: list[str]) -> None:
    assert all(0 <= value <= 1 for value in signals(" ".join(words), tuple(words[:2])))


def test_among_equals_the_passage_with_the_words_comes_first() -> None:
    found = [candidate("Press Undo.", 1.0, at=0), candidate("Roll releases cluster by cluster.", 1.0, at=1)]
    found.append(candidate("Coffee.", 0.0, at=2))
    ranked = reranked(found)
    assert [one.chunk.chunk_idx for one in ranked] == [1, 0, 2]


def test_a_passage_far_ahead_stays_ahead() -> None:
    found = [candidate("Press Undo.", 10.0, at=0), *(candidate("Roll releases cluster.", 1.0, at=n) for n in (1, 2, 3))]
    assert reranked(found)[0].chunk.chunk_idx == 0


@given(
    st.lists(st.tuples(st.sampled_from(["roll cluster", "release", "undo", ""]), st.floats(-5, 5)), max_size=30),
    st.integers(0, 30),
)
def test_nothing_is_lost_and_scores_descend(found: list[tuple[str, float]], pool: int) -> None:
    ordered = sorted(found, key=lambda pair: -pair[1])
    before = [candidate(text, score, at=at) for at, (text, score) in enumerate(ordered)]
    after = reranked(before, stage=LexicalReranker(pool))
    assert sorted(one.chunk.chunk_idx for one in after) == list(range(len(before)))
    assert [one.score for one in after] == sorted((one.score for one in after), reverse=True)
    assert [one.chunk.chunk_idx for one in after[pool:]] == list(range(pool, len(before)))


def test_a_query_without_known_words_changes_nothing() -> None:
    found = [candidate("a", 2.0), candidate("b", 1.0)]
    for weights in ({}, {"roll": 0.0}):
        after = reranked(found, weights)
        assert [(one.chunk, one.score) for one in after] == [(one.chunk, one.score) for one in found]


def test_passages_behind_the_pool_are_not_read() -> None:
    found = [candidate("roll", 30.0 - at, at=at) for at in range(30)]
    view = ListedChunks([one.chunk for one in found], WEIGHTS)
    after = LexicalReranker(pool=5)(searching(view, "roll"), ranked([one.score for one in found]))
    assert view.read == [[0, 1, 2, 3, 4]]
    assert len(after) == 30


def test_what_a_cross_encoder_ordered_stays() -> None:
    view = ListedChunks([candidate("Press Undo.").chunk, candidate("Roll releases cluster.", at=1).chunk], WEIGHTS)
    by_model = ranked([1.0, 1.0]).with_scores("rerank", ranked([1.0, 1.0]).score)
    assert LexicalReranker()(searching(view, "roll"), by_model) is by_model
    assert view.read == []
