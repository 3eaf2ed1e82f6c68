"""What queries give is what a plain count gives that shares no code with them, and tells nothing of hidden pages."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.random_sets import CLASSES, Corpus, random_corpus, random_query

from evals.verify_receipt import Corpus as Counted
from evals.verify_receipt import CountError, digest, is_shown, plain
from rag_serving.records.sets import SetError, SetQuery, SetResult
from rag_serving.sets.execute import certificate, execute, recount

SEEDS = st.integers(0, 2**32)
READERS = ([*CLASSES], ["everyone"], ["everyone", "group:a"], ["everyone", "group:b"], ["group:a&group:b"], [])
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def run(query: SetQuery, corpus: Corpus, classes: list[str]) -> SetResult | str:
    try:
        return execute(query, corpus.tables(classes), "g1")
    except SetError as error:
        return str(error)


def agree(seed: int) -> bool:
    """Compare a query with its count; return whether it has members."""
    draw = Random(seed)
    corpus, classes = random_corpus(draw), draw.choice(READERS[:3])
    query = random_query(draw, corpus.without_hidden(classes))
    result = run(query, corpus, classes)
    if isinstance(result, str):  # it may be more careful, but not wrong
        return False
    try:
        members, value, groups = Counted(corpus.chunks, corpus.pages, classes).count(query.payload())
    except CountError as error:
        raise AssertionError(f"{query}: {result.members} although {error}") from error
    assert [(member.key, list(member.cells)) for member in result.members] == members
    assert is_shown(result.value, value)
    assert {plain(each.name): each.count for each in result.groups} == {name: one[0] for name, one in groups.items()}
    assert all(is_shown(each.value, groups[plain(each.name)][1]) for each in result.groups)
    told = {"query": query.payload(), "members": [[key, *cells] for key, cells in members], "value": result.value}
    assert result.digest == digest(told)
    assert recount(certificate(result, classes), corpus.tables(classes)) == []
    return bool(members)


@settings(max_examples=examples(5), deadline=None, suppress_health_check=SLOW)
@given(SEEDS)
def test_random_queries(seed: int) -> None:
    agree(seed)


def test_queries_have_members() -> None:
    assert sum(agree(seed) for seed in range(60)) > 10


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(0, 20_000, 2_000))
def test_twenty_thousand_queries(start: int) -> None:
    """Half of them or more cannot be run honestly, so that ten thousand have a receipt."""
    assert sum(agree(seed) for seed in range(start, start + 2_000)) > 400


def tells_nothing(seed: int) -> None:
    """Compare what a reader is told with what he is told of a corpus that never had what is hidden from him."""
    draw = Random(seed)
    corpus = random_corpus(draw)
    for classes in READERS[1:]:
        seen = corpus.without_hidden(classes)
        query = random_query(draw, corpus if draw.random() < 0.3 else seen)
        assert run(query, corpus, classes) == run(query, seen, [*CLASSES]), (seed, query)


@settings(max_examples=examples(3), deadline=None, suppress_health_check=SLOW)
@given(SEEDS)
def test_no_result_tells_of_hidden_pages(seed: int) -> None:
    tells_nothing(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(0, 4_000, 500))
def test_twenty_thousand_pairs_of_readers(start: int) -> None:
    for seed in range(start, start + 500):
        tells_nothing(seed)
