from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.retrieval.stage import expanded

TERMS = st.lists(st.sampled_from(["crane", "berth", "seal", "hook"]), min_size=1, max_size=6)


def test_a_query_learns_the_words_of_what_it_finds() -> None:
    weights = expanded({"crane": 1.0}, [(2.0, ["crane", "hook", "hook"]), (1.0, ["crane", "berth"])])
    assert weights["crane"] > 0.7 > weights["hook"] > weights["berth"] > 0


def test_common_words_teach_nothing() -> None:
    assert expanded({"crane": 1.0}, [(1.0, ["the", "hook"])], lambda term: term == "the").keys() == {"crane", "hook"}


def test_without_passages_the_query_stays() -> None:
    assert expanded({"crane": 2.0}, []) == {"crane": 2.0}


@given(st.dictionaries(st.sampled_from(["crane", "sea"]), st.floats(0.5, 3), min_size=1), st.lists(TERMS, min_size=1))
def test_weights_sum_to_one(query: dict[str, float], passages: list[list[str]]) -> None:
    assert sum(expanded(query, [(1.0, terms) for terms in passages]).values()) == pytest.approx(1)
