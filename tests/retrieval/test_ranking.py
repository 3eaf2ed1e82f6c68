"""Rankings: no row is invented or lost, ties keep their order, columns stay with their rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.indexes.readable_rows import Hit
from rag_serving.retrieval.ranking import SCORE, Ranking

VALUES = st.one_of(st.floats(-5, 5), st.just(math.nan), st.sampled_from([0.0, 1.0]))
NAMES = st.sampled_from(["dense", "bm25", SCORE, "dense_rank"])


@st.composite
def rankings(draw: st.DrawFn) -> Ranking:
    rows = draw(st.lists(st.integers(0, 30), unique=True, max_size=15))
    columns = {name: draw(st.lists(VALUES, min_size=len(rows), max_size=len(rows))) for name in draw(st.sets(NAMES))}
    made = {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
    return Ranking(np.array(rows, dtype=np.int64), made)


def cells(ranking: Ranking) -> dict[tuple[int, str], float]:
    """Every value by row and column, without NaN."""
    rows = ranking.rows.tolist()
    return {
        (row, name): value
        for name, values in ranking.columns.items()
        for row, value in zip(rows, values.tolist(), strict=True)
        if not math.isnan(value)
    }


@given(rankings(), NAMES)
def test_ordering_moves_rows_with_their_values_and_keeps_ties_in_order(ranking: Ranking, name: str) -> None:
    ordered = ranking.ordered_by(name)
    assert sorted(ordered.rows.tolist()) == sorted(ranking.rows.tolist())
    assert cells(ordered) == cells(ranking)
    before = ranking.rows.tolist()
    values = [-math.inf if math.isnan(value) else value for value in ordered.column(name).tolist()]
    keys = [(-value, before.index(row)) for value, row in zip(values, ordered.rows.tolist(), strict=True)]
    assert keys == sorted(keys)


@given(rankings(), st.data())
def test_narrowing_keeps_the_chosen_rows_in_order(ranking: Ranking, data: st.DataObject) -> None:
    mask = np.array([data.draw(st.booleans()) for _ in range(len(ranking))], dtype=np.bool_)
    kept, first = ranking.where(mask), ranking.head(3)
    assert kept.rows.tolist() == ranking.rows[mask].tolist()
    assert first.rows.tolist() == ranking.rows.tolist()[:3]
    for narrowed in (kept, first):
        assert narrowed.columns.keys() == ranking.columns.keys()
        assert cells(narrowed).items() <= cells(ranking).items()


@given(rankings(), rankings())
def test_joining_loses_no_row_and_no_value_and_invents_none(one: Ranking, two: Ranking) -> None:
    joined = one.joined(two)
    assert joined.rows.tolist()[: len(one)] == (one.rows.tolist() if one.columns else two.rows.tolist()[: len(one)])
    assert joined.columns.keys() == one.columns.keys() | two.columns.keys()
    assert cells(joined) == cells(one) | cells(two)
    wanted = {*two.rows.tolist(), *(one.rows.tolist() if one.columns else ())}
    assert sorted(joined.rows.tolist()) == sorted(wanted)


@given(rankings(), st.data())
def test_a_column_that_ranks_leaves_the_scores_of_the_other_rows(ranking: Ranking, data: st.DataObject) -> None:
    values = np.array([data.draw(VALUES) for _ in range(len(ranking))], dtype=np.float64)
    scored = ranking.scored("rerank", values)
    np.testing.assert_array_equal(scored.columns["rerank"], values)
    np.testing.assert_array_equal(scored.score, np.where(np.isnan(values), ranking.score, values))
    assert scored.rows is ranking.rows


@given(rankings())
def test_records_have_what_was_said_of_a_row_and_nothing_else(ranking: Ranking) -> None:
    for row, (_, scores, ranks) in zip(ranking.rows.tolist(), ranking.records(), strict=True):
        said = {name: value for (at, name), value in cells(ranking).items() if at == row and name != SCORE}
        given_ranks = {name.removesuffix("_rank"): int(value) for name, value in said.items() if name == "dense_rank"}
        assert ranks == given_ranks
        assert scores == {name: value for name, value in said.items() if name != "dense_rank"}


def test_what_an_index_found_comes_in_its_order() -> None:
    dense = Ranking.of_hits("dense", "dense_rank", [Hit(7, 0.9), Hit(3, 0.8)])
    lexical = Ranking.of_hits("bm25", "lexical_rank", [Hit(5, 4.0), Hit(3, 2.0)])
    both = dense.joined(lexical).ordered_by("bm25")
    assert both.found_by("dense").rows.tolist() == [7, 3]
    assert both.found_by("lexical").rows.tolist() == [5, 3]
    assert both.found_by("keyword").rows.tolist() == []
    assert [ranks for _, _, ranks in both.records()] == [{"lexical": 1}, {"dense": 2, "lexical": 2}, {"dense": 1}]


def test_a_ranking_is_never_changed() -> None:
    ranking = Ranking(np.arange(2), {SCORE: np.array([1.0, 2.0])})
    ranking.scored("rerank", np.array([5.0, 6.0])).ordered_by("rerank")
    assert ranking.columns.keys() == {SCORE}
    assert ranking.score.tolist() == [1.0, 2.0]
    with pytest.raises(AttributeError):
        ranking.rows = np.arange(3)  # type: ignore[misc]
