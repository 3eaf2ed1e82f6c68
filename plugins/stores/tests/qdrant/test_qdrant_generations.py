"""A generation in Qdrant, read by several principals, beside the same generation on disk."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.qdrant_corpus import TENANT, built, publisher, qdrant_config, restricted_chunks
from support.qdrant_server import QdrantServer, started_qdrant
from support.stand_in_http import Fault
from support.synthetic import chunk_row, clustered_vectors

from citelock_stores import publishing, qdrant
from citelock_stores.qdrant.connection import QdrantConnection
from citelock_stores.qdrant.points import CollectionNames, GenerationLocation, ReadablePoints, number_of, point_id
from citelock_stores.qdrant.reader import QdrantReader
from citelock_stores.qdrant.store import QdrantGeneration, QdrantStore
from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import (
    RemoteConnectionError,
    RemoteDataError,
    RemoteError,
    RemoteTimeoutError,
)
from rag_serving.indexes.generation import Generation
from rag_serving.text.analyzer import analyze

PRINCIPALS = [
    Principal(TENANT),
    Principal(TENANT, "ann"),
    Principal(TENANT, "bob", frozenset({"a"})),
    Principal(TENANT, "ann", frozenset({"a", "b"})),
    Principal("other", "ann", frozenset({"a", "b"})),
]


class Case(NamedTuple):
    """A published generation."""

    config: Config
    server: QdrantServer
    disk: Generation
    store: QdrantStore
    remote: QdrantGeneration


@pytest.fixture(scope="module", params=["tenant", "shared"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    with started_qdrant() as server:
        config = qdrant_config(tmp_path_factory.mktemp("home"), server.url, collections=request.param)
        disk = built(config, restricted_chunks(90))
        foreign = built(config, restricted_chunks(90, seed=5), tenant="other")
        for tenant, generation in ((TENANT, disk), ("other", foreign)):
            publishing = publisher(config, tenant)
            publishing.publish(generation.id)
            publishing.close()
        store = QdrantStore(config)
        yield Case(config, server, disk, store, store.open(TENANT, disk.id))
        store.close()


def readers_of(case: Case) -> Iterator[tuple[QdrantReader, frozenset[str], np.ndarray]]:
    """Yield every principal's reader, its classes and the rows that it may read."""
    for principal in PRINCIPALS:
        classes = satisfied_classes(principal, TENANT, case.disk.known_classes)
        yield case.remote.reader(principal), classes, np.flatnonzero(case.disk.readable_mask(classes))


def test_the_alias_names_the_published_generation(case: Case) -> None:
    assert case.store.current(TENANT) == case.disk.id
    assert case.store.current("nobody") is None
    assert case.store.faults(TENANT) == ()
    (fault,) = case.store.faults("nobody")
    assert "nothing of tenant 'nobody' is published" in fault


def test_a_reader_gets_the_chunks_that_it_may_read_and_no_others(case: Case) -> None:
    for reader, classes, rows in readers_of(case):
        assert reader.classes() == classes
        table = reader.chunks()
        assert table["row"].to_pylist() == rows.tolist()
        for name in ("chunk_id", "heading_path", "labels", "updated_at", "readers", "lang", "passage_id"):
            assert table[name].to_pylist() == case.disk.table[name].take(rows).to_pylist(), name
        told = [(each["row"], each["url"]) for each in reader.places().to_pylist()]
        listed = [
            (row, each["url"])
            for row, places in enumerate(case.disk.table["places"].to_pylist())
            for each in places
            if each["readers"] in classes
        ]
        assert told == listed


def test_texts_and_vectors_of_hidden_rows_stay_where_they_are(case: Case) -> None:
    every = list(range(len(case.disk)))
    for reader, _, rows in readers_of(case):
        assert sorted(reader.texts([*every, 10_000, -1])["row"].to_pylist()) == rows.tolist()
        assert sorted(reader.sentences(every)["row"].to_pylist()) == rows.tolist() * (case.disk._sentences is not None)
        if len(rows):
            found = reader.vectors(rows[::-1].tolist())
            assert found.counts.tolist() == [1] * len(rows)
            assert np.array_equal(found.vectors, case.disk.vectors(rows[::-1].tolist()))
        if hidden := sorted(set(every) - set(rows.tolist())):
            with pytest.raises(RemoteDataError, match="no vector"):
                reader.vectors([hidden[0]])


def test_the_nearest_chunks_are_those_of_the_disk(case: Case) -> None:
    for reader, classes, rows in readers_of(case):
        for query in clustered_vectors(5, seed=9):
            for k, among in ((7, None), (200, None), (4, rows[::2]), (4, np.arange(len(case.disk), dtype=np.int64))):
                mask = None if among is None else np.isin(np.arange(len(case.disk)), among)
                expected = case.disk.dense(query, k, classes, mask)
                found = reader.nearest(query, k, among)
                assert found.rows.tolist() == [hit.row for hit in expected]
                assert np.allclose(found.scores, [hit.score for hit in expected], atol=1e-6)


def test_many_rows_to_choose_among_are_not_sent_one_by_one(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant.reader, "_NAMED", 3)  # type: ignore[attr-defined]
    for reader, classes, rows in readers_of(case):
        among = rows[1::3]
        mask = np.isin(np.arange(len(case.disk)), among)
        for query in clustered_vectors(3, seed=4):
            expected = case.disk.dense(query, 5, classes, mask)
            assert reader.nearest(query, 5, among).rows.tolist() == [hit.row for hit in expected]


def test_postings_are_counted_over_what_may_be_read(case: Case) -> None:
    texts = case.disk.table["text"].to_pylist()
    for reader, _, rows in readers_of(case):
        found = reader.postings("lexical", ["crane", "number4", "nowhere", "crane"])
        for term in ("crane", "number4"):
            expected = [row for row in rows.tolist() if term in analyze(texts[row])]
            assert (found[term].rows.tolist() if term in found else []) == expected
        if "crane" in found:
            counts = [analyze(texts[row]).count("crane") for row in found["crane"].rows.tolist()]
            assert found["crane"].counts.tolist() == counts
        assert "nowhere" not in found
        for kind in ("lexical", "keyword"):
            vocabulary = reader.vocabulary(kind)  # type: ignore[arg-type]
            terms = vocabulary["term"].to_pylist()
            assert terms == sorted(terms)
            shown = reader.postings(kind, terms)  # type: ignore[arg-type]
            assert [len(shown[term].rows) for term in terms] == vocabulary["chunks"].to_pylist()
            assert not any(set(each.rows.tolist()) - set(rows.tolist()) for each in shown.values())


def test_a_word_of_hidden_pages_alone_is_in_no_vocabulary(case: Case) -> None:
    texts = case.disk.table["text"].to_pylist()
    for reader, _, rows in readers_of(case):
        numbers = {word for row in rows.tolist() for word in texts[row].split() if word.startswith("number")}
        told = {term for term in reader.vocabulary("keyword")["term"].to_pylist() if term.startswith("number")}
        assert told == numbers


def test_rows_that_are_as_near_come_in_their_order(tmp_path: Path) -> None:
    with started_qdrant() as server:
        config = qdrant_config(tmp_path, server.url)
        rows = [chunk_row(str(number), 0, f"crane {number}") for number in range(120)]
        vectors = np.repeat(np.eye(2, 8, dtype=np.float32), 60, axis=0)
        disk = built(config, GENERATION_CHUNKS.table(rows), vectors=vectors)
        publishing = publisher(config)
        publishing.publish(disk.id)
        store = QdrantStore(config)
        found = store.open(TENANT, disk.id).reader(Principal(TENANT)).nearest(vectors[0], 5)
        assert found.rows.tolist() == [hit.row for hit in disk.dense(vectors[0], 5, frozenset({"everyone"}))]
        assert found.scores.tolist() == [1, 1, 1, 1, 1]
        store.close()
        publishing.close()


def test_every_request_of_a_reader_carries_its_filter(case: Case) -> None:
    case.server.requests.clear()
    for reader, _, rows in readers_of(case):
        reader.chunks(), reader.places(), reader.originals(), reader.texts([0, 1]), reader.sentences([0])
        reader.nearest(clustered_vectors(1)[0], 3), reader.nearest(clustered_vectors(1)[0], 3, rows)
        reader.postings("lexical", ["crane"]), reader.postings("keyword", ["crane"])
    bodies = [body for _, path, body in case.server.requests if "/points/" in path]
    assert len(bodies) > 30
    for request in [each for body in bodies for each in body.get("searches", [body])]:
        conditions = {each.get("key"): each.get("match") for each in request["filter"]["must"]}
        assert conditions["tenant"] == {"value": TENANT}
        assert conditions["generation"] == {"value": case.disk.id}
        assert conditions["readers"]["any"]
        assert set(conditions["readers"]["any"]) <= case.disk.known_classes - {"nobody"}


def test_a_principal_of_another_tenant_asks_for_nothing(case: Case) -> None:
    case.server.requests.clear()
    reader = case.remote.reader(PRINCIPALS[-1])
    assert reader.classes() == frozenset()
    assert len(reader.chunks()) == len(reader.nearest(clustered_vectors(1)[0], 3).rows) == len(reader.texts([0])) == 0
    assert reader.postings("lexical", ["crane"]) == {}
    assert case.server.requests == []


def test_filters_are_made_in_one_module() -> None:
    """A request without the filter would return every tenant's points."""
    folders = [Path(qdrant.__file__).parent, Path(publishing.__file__).parent]
    makers = set()
    for path in (path for folder in folders for path in folder.glob("*.py")):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if any(isinstance(func, ast.Name) and func.id in {"Filter", "FieldCondition", "MatchAny"} for func in calls):
            makers.add(path.name)
    assert makers == {"filters.py"}


def test_what_a_server_sends_without_being_asked_is_not_shown(case: Case) -> None:
    """A server that does not filter: each answer is looked at again."""
    connection = QdrantConnection(case.config.index, 5)
    collection = CollectionNames.of(case.config.index).collection(TENANT, case.disk.id)
    points = ReadablePoints(GenerationLocation(connection, collection, TENANT, case.disk.id), frozenset({"group:a"}))
    others = ReadablePoints(GenerationLocation(connection, collection, TENANT, case.disk.id), frozenset({"group:b"}))
    points._filter = others._filter  # type: ignore[method-assign]
    with pytest.raises(RemoteDataError, match="not asked for"):
        list(points.scroll("chunk", ["row"]))
    foreign = GenerationLocation(connection, collection, TENANT, "0" * 16)
    stray = ReadablePoints(foreign, frozenset({"group:b"}))
    stray._filter = others._filter  # type: ignore[method-assign]
    with pytest.raises(RemoteDataError, match="not asked for"):
        list(stray.scroll("chunk", ["row"]))
    connection.close()


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        (Fault(status=500), RemoteConnectionError, "HTTP 500"),
        (Fault(status=429, retry_after="7"), RemoteConnectionError, "is busy"),
        (Fault(status=429), RemoteConnectionError, "HTTP 429"),
        (Fault(status=403), RemoteConnectionError, "refuses the key"),
        (Fault(cut=True), RemoteConnectionError, "cannot be reached, or broke"),
        (Fault(slow_s=2), RemoteTimeoutError, "did not answer in time"),
        (Fault(body=b"<html>"), RemoteError, "no answer|broke"),
        (Fault(body=b'{"result": null, "status": "ok", "time": 0}'), RemoteError, "no answer"),
    ],
)
def test_a_fault_of_the_server_is_an_error_of_the_protocol(
    case: Case, fault: Fault, error: type[RemoteError], said: str
) -> None:
    store = QdrantStore(
        case.config.model_copy(update={"index": case.config.index.model_copy(update={"statement_timeout_s": 1})})
    )
    reader = store.open(TENANT, case.disk.id).reader(PRINCIPALS[1])
    case.server.faults.append(fault)
    with pytest.raises(error, match=said) as raised:
        reader.nearest(clustered_vectors(1)[0], 3)
    assert "\n" not in str(raised.value)
    assert len(reader.nearest(clustered_vectors(1)[0], 3).rows) == 3
    store.close()


def test_a_server_that_went_away_is_said_to_be_away_and_answers_when_it_is_back(case: Case) -> None:
    reader = case.remote.reader(PRINCIPALS[1])
    case.server.stop()
    try:
        with pytest.raises(RemoteConnectionError, match="cannot be reached"):
            reader.texts([0])
    finally:
        case.server.start()
    assert len(reader.texts([0])) == 1


def test_a_generation_that_is_not_there_as_a_whole_is_not_opened(case: Case) -> None:
    with pytest.raises(RemoteDataError):
        case.store.open(TENANT, "f" * 16)
    with pytest.raises(RemoteDataError):
        case.store.open("other", case.disk.id)


def test_ids_count_within_a_generation_and_differ_between_any_two() -> None:
    first, second = (point_id("acme", "g1", "chunk", number) for number in (0, 1))
    assert (number_of(first), number_of(second)) == (0, 1)
    assert first < second
    others = {point_id(*owner, 0) for owner in (("acme", "g2", "chunk"), ("b", "g1", "chunk"), ("acme", "g1", "place"))}  # type: ignore[arg-type]
    assert len({first, *others}) == 4


@pytest.mark.parametrize("shared", [False, True])
def test_an_alias_is_of_one_tenant(shared: bool) -> None:
    layout = CollectionNames("citelock", shared)
    aliases = [
        (layout.alias(tenant, generation), layout.collection(tenant, generation))
        for tenant, generation in (("a", "1"), ("a-b", "2"), ("a_b", "3"))
    ]
    aliases += [("citelock.a.b", "foreign"), ("citelock", "citelock.a.1"), ("elsewhere.a", "citelock.a.1")]
    assert [target.generation for target in layout.published("a", aliases)] == ["1"]
    assert [target.generation for target in layout.published("a-b", aliases)] == ["2"]
    assert layout.published("b", aliases) == []
